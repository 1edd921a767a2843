"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.tensor import Tensor, alias, wrap


def _as(cls: type, data: Any) -> Any:
    if data is None:
        return wrap(np.empty(0, dtypes.get_default_dtype().np), cls)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: data must be a Tensor, got {type(data).__name__}")
    out = alias(data, cls)
    if type(out) is not cls:  # a graph tensor: its handler knows plain tensors only
        out.__class__ = cls
    return out


class Parameter(Tensor):
    """A tensor that is trained: it shares memory with `data` and is a leaf that requires a gradient."""

    copies_grad = False  # as in PyTorch, deepcopy of a parameter has no gradient

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        out = _as(cls, data)
        return out._ask_grad(True) if requires_grad else out


class Buffer(Tensor):
    """A tensor that belongs to a module's state without being trained; `persistent`: kept in state_dict."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        out = _as(cls, data)
        out.persistent = persistent
        return out
