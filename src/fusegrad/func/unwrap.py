"""PyTorch's ``functionalize`` and ``debug_unwrap``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .levels import LevelHandler


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` itself: transforms and capture here take in-place changes and views as they are.

    RuntimeError for a ``remove`` that PyTorch does not know.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are:\n"
            "     remove='mutations': all inplace and out= operators will be removed from the program\n"
            "     remove='mutations_and_views': In addition to the above, all aliasing operators {view} will be removed"
        )

    @functools.wraps(func)
    def same(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return same


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """What lies below a tensor of a transform (with ``recurse``: below all of them); other tensors unchanged.

    For looking at values while debugging: what is computed from the result is outside of the transform.
    """
    while tensor._data is None and isinstance(tensor._g.handler, LevelHandler):
        tensor = tensor._g.handler.values(tensor._g)[0]
        if not recurse:
            break
    return tensor
