"""numpy's names for arguments, which PyTorch takes as well: ``axis`` for ``dim`` and ``keepdims`` for ``keepdim``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_RENAMED = {"axis": "dim", "keepdims": "keepdim"}


def numpy_names(fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` that also takes numpy's argument names."""

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for old, new in _RENAMED.items():
                if old in kwargs:
                    if new in kwargs:
                        raise TypeError(f"{fn.__name__}() got both '{old}' and '{new}'")
                    kwargs[new] = kwargs.pop(old)
        return fn(*args, **kwargs)

    wrapped.plain = fn  # type: ignore[attr-defined]  # what a layer with these names calls (see public)
    return wrapped
