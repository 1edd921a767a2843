"""PyTorch's older constructors: ``Tensor(2, 3)``, ``LongTensor([1, 2])``, and the classes that ask for a dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes as dt
from .op import late_function
from .size_values import SymbolicSize
from .tensor import Size, Tensor, alias

empty, tensor = late_function("empty"), late_function("tensor")


def made(data: tuple, kind: dt.dtype, cls: type = Tensor) -> Tensor:
    """What ``Tensor(*data)`` is: sizes give a tensor of unspecified values, a sequence or an array gives its elements,
    a tensor gives another one on its memory. TypeError for anything else."""
    if not data:
        data = (0,)
    if all(isinstance(v, (int, np.integer, SymbolicSize)) and not isinstance(v, bool) for v in data):
        return _as(empty(tuple(data), dtype=kind), cls)
    if len(data) > 1:
        raise TypeError(f"new(): sizes must be ints (got {', '.join(type(v).__name__ for v in data)})")
    (value,) = data
    if isinstance(value, Tensor):
        return alias(value, cls)
    if isinstance(value, Size):
        return _as(empty(tuple(value), dtype=kind), cls)
    if isinstance(value, (str, bytes)):
        raise TypeError(f"new(): invalid data type {type(value).__name__!r}")
    if not isinstance(value, (list, tuple, range, np.ndarray)):
        raise TypeError(f"new(): data must be a sequence (got {type(value).__name__})")
    return _as(tensor(list(value) if isinstance(value, range) else value, dtype=kind), cls)


def _as(t: Tensor, cls: type) -> Tensor:
    return t if cls is Tensor else alias(t, cls)


class _Typed(type):
    """Classes of tensors by dtype: none has instances of its own."""

    kind: dt.dtype

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.kind

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        if len(data) == 1 and isinstance(data[0], Tensor) and data[0].dtype is not cls.kind:
            raise TypeError(f"expected {cls.kind} (got {data[0].dtype})")
        return made(data, cls.kind)


def _typed(name: str, kind: dt.dtype) -> Any:
    doc = f"``{name}(2, 3)``, ``{name}([1, 2])``: a tensor of {kind.name}; ``isinstance`` tells whether one has it."
    return _Typed(name, (), {"kind": kind, "__doc__": doc, "__module__": "fusegrad"})


FloatTensor = _typed("FloatTensor", dt.float32)
DoubleTensor = _typed("DoubleTensor", dt.float64)
HalfTensor = _typed("HalfTensor", dt.float16)
LongTensor = _typed("LongTensor", dt.int64)
IntTensor = _typed("IntTensor", dt.int32)
ShortTensor = _typed("ShortTensor", dt.int16)
CharTensor = _typed("CharTensor", dt.int8)
ByteTensor = _typed("ByteTensor", dt.uint8)
BoolTensor = _typed("BoolTensor", dt.bool_)
