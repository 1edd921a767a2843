"""Utilities: data loading, checkpointing, exchanging tensors."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from fusegrad.utils import checkpoint
from fusegrad.utils.swap import swap_tensors

__all__ = ["checkpoint", "data", "hooks", "swap_tensors"]


def __getattr__(name: str) -> _Any:
    """``data``, which needs multiprocessing, and ``_pytree``, when they are first asked for."""
    if name in ("data", "hooks", "_pytree"):
        return _importlib.import_module(f"{__name__}.{name}")
    from ..unsupported import message

    raise AttributeError(message("utils", name))
