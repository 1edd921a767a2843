"""Tensors from Python and numpy data: tensor, as_tensor, from_numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import STATE
from ..op import function, late_function, late_op
from ..size_values import SymbolicNumber, SymbolicSize
from ..tensor import Tensor, extra_of, wrap
from .create import _kind, check_place

full, stack = late_function("full"), late_op("stack")


def _unwrapped(data: Any) -> Any:
    """Nested lists with tensors inside as nested lists of numbers."""
    if isinstance(data, Tensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_unwrapped(v) for v in data] if any(isinstance(v, (Tensor, list, tuple)) for v in data) else data
    return data


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _array(data: Any, dtype: Any) -> np.ndarray:
    """data as an array of a supported dtype, always a copy."""
    if isinstance(data, np.ndarray):
        kind = dtype or dt.from_numpy_dtype(data.dtype)
        return np.array(data, dtype=kind.np, order="C")
    leaf = _first_leaf(data)
    if isinstance(leaf, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(leaf, np.ndarray):
        data = np.array(data)
        return _array(data, dtype)
    try:
        a = np.array(_unwrapped(data))
    except ValueError as e:
        raise ValueError(f"expected sequences of equal length at every dimension: {e}") from None
    if a.dtype.kind in "OUS":
        bad = next((v for v in a.ravel() if not isinstance(v, (int, float))), None)
        if bad is None:
            raise ValueError("Overflow when unpacking long long: an integer does not fit int64")
        if leaf is bad and not isinstance(data, (list, tuple)):
            raise RuntimeError(f"Could not infer dtype of {type(bad).__name__}")
        raise TypeError(f"must be real number, not {type(bad).__name__}")
    if a.dtype == np.uint64:
        raise ValueError("Overflow when unpacking long long: an integer does not fit int64")
    if a.dtype.kind == "c":
        raise TypeError("complex numbers are not supported")
    if dtype is not None:
        return _to(a, dtype)
    if a.dtype == np.float64 and not isinstance(leaf, np.generic) and not isinstance(leaf, Tensor):
        return a.astype(dt.get_default_dtype().np)
    if isinstance(leaf, Tensor):
        return a.astype(leaf.dtype.np)
    return a.astype(dt.from_numpy_dtype(a.dtype).np) if a.size else a.astype(dt.get_default_dtype().np)


def _made(data: Any, kind: Any) -> Any:
    try:
        return wrap(_array(data, kind))
    except (TypeError, RuntimeError):
        if _has_size(data):
            return _of_sizes(data, kind)
        raise


def _has_size(data: Any) -> bool:
    """Whether a size that is not known yet, or a number made of one, stands among data (nested sequences)."""
    if isinstance(data, (list, tuple)):
        return any(map(_has_size, data))
    return isinstance(data, (SymbolicSize, SymbolicNumber))


def _of_sizes(data: Any, kind: Any) -> Any:
    """A tensor of data with sizes in it: what no array can hold is computed by the graph."""
    if kind is None:
        kind = dt.int64 if _whole(data) else dt.get_default_dtype()
    if isinstance(data, (list, tuple)):
        parts = [_of_sizes(v, kind) if _has_size(v) else tensor(v, dtype=kind) for v in data]
        if len({p.shape for p in parts}) > 1:
            raise ValueError("expected sequences of equal length at every dimension")
        return stack(parts)
    return full((), data, dtype=kind)


def _whole(data: Any) -> bool:
    if isinstance(data, (list, tuple)):
        return all(map(_whole, data))
    return isinstance(data, (int, SymbolicSize))


def _to(a: np.ndarray, dtype: dt.dtype) -> np.ndarray:
    """Cast Python numbers; RuntimeError for an integer that does not fit."""
    if dtype.category == dt.INT and a.dtype.kind == "i" and a.size:
        info = np.iinfo(dtype.np)
        if a.min() < info.min or a.max() > info.max:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    with np.errstate(all="ignore"):
        return a.astype(dtype.np)


def _marked(made: Any) -> Any:
    """The new tensor, with the mark of inference mode."""
    if STATE.inference:
        extra_of(made).inference = True
    return made


@function("tensor(dtype: dtype, requires_grad: bool)", method=False)
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: a number, nested sequences, an array or a tensor.

    Python floats become the default dtype, ints int64. ValueError for ragged sequences, TypeError for what is no
    number.
    """
    check_place(device)
    kind = _kind(dtype)
    if isinstance(data, Tensor):
        result = data.detach().clone()
        result = result if kind is None else result.to(kind)
    else:
        result = _marked(_made(data, kind))
    if requires_grad:
        if not result.dtype.is_floating_point:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        result._ask_grad(True)
    return result


@function("as_tensor(dtype: dtype)", method=False, names=("asarray",))
def as_tensor(data, dtype=None, device=None, **kw):
    """data as a tensor, sharing memory with a tensor or an array of the right dtype."""
    check_place(device)
    kind = _kind(dtype)
    if isinstance(data, Tensor):
        return data if kind is None or data.dtype is kind else data.to(kind)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return shared if kind is None or shared.dtype is kind else shared.to(kind)
    return _marked(_made(data, kind))


@function("result_type", method=False)
def result_type(tensor1, tensor2):
    """The dtype that arithmetic of the two, tensors or numbers, would have."""
    strong = [(x.dtype, x.ndim > 0) for x in (tensor1, tensor2) if isinstance(x, Tensor)]
    weak = [dt.number_dtype(x) for x in (tensor1, tensor2) if not isinstance(x, Tensor)]
    return dt.result_type_of(strong, weak)


@function("apply_", function=False)
def apply_(self, fn):
    """Replace every element v by fn(v), a Python number, in place. TypeError for a tensor that requires grad."""
    if self.requires_grad:
        raise TypeError("can't call apply_() on a tensor that requires grad; use detach()")
    from ..tensor import need_data

    x = need_data(self, "apply_")
    return self.copy_(wrap(np.array([fn(v) for v in x.ravel().tolist()], x.dtype).reshape(x.shape)))


@function("from_numpy", method=False)
def from_numpy(ndarray):
    """A tensor on the memory of an array. TypeError for other things, ValueError for byte orders or strides that no
    tensor can have."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dt.from_numpy_dtype(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between "
            "byte orders is currently not supported."
        )
    item = ndarray.dtype.itemsize
    if any(s % item for s in ndarray.strides) or not ndarray.flags.aligned:
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
            "reallocate the memory."
        )
    if type(ndarray) is not np.ndarray:
        ndarray = np.asarray(ndarray)
    return _marked(wrap(ndarray))


@function("new_tensor(self: T, dtype: dtype, requires_grad: bool?)", function=False)
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A copy of data, of this tensor's dtype."""
    return tensor(data, dtype=_kind(dtype) or self.dtype, device=device, requires_grad=requires_grad)
