"""Tensors from Python and numpy data: tensor, as_tensor, from_numpy."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.data_storage import share
from ..autograd.modes import STATE
from ..op import function, late_function, late_op
from ..size_values import SymbolicNumber, SymbolicSize
from ..tensor import Tensor, extra_of, storage_of, wrap
from .create import _kind, check_place

full, stack = late_function("full"), late_op("stack")


_NUMBERS = frozenset({int, float, bool})


def _numbers(data: Any, kinds: set) -> Any:
    """Nested sequences with the tensors inside as numbers; ``kinds`` collects what the leaves are: types of Python
    numbers, dtypes of tensors and numpy numbers. ValueError for a tensor of other than one element."""
    if isinstance(data, (list, tuple)):
        types = set(map(type, data))
        if types <= _NUMBERS:
            kinds |= types
            return data
        return [_numbers(v, kinds) for v in data]
    if isinstance(data, Tensor):
        if data.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        kinds.add(data.dtype)
        return data.item()
    kinds.add(dt.from_numpy_dtype(data.dtype) if isinstance(data, (np.generic, np.ndarray)) else type(data))
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
    if isinstance(leaf, (str, bytes)):
        raise TypeError(f"new(): invalid data type {type(leaf).__name__!r}")
    if isinstance(leaf, np.ndarray):
        return _array(np.array(data), dtype)
    kinds: set = set()
    numbers = _numbers(data, kinds)
    try:
        a = np.array(numbers)
    except ValueError as e:
        raise ValueError(f"expected sequences of equal length at every dimension: {e}") from None
    if a.dtype.kind == "c":
        raise TypeError("complex numbers are not supported")
    if a.dtype.kind in "OUSu":
        a = _odd(a, dtype)
    if dtype is not None:
        return _to(a, dtype)
    return a.astype(_common(kinds).np) if a.size else a.astype(dt.get_default_dtype().np)


def _odd(a: np.ndarray, dtype: dt.dtype | None) -> np.ndarray:
    """Data that is no array of common numbers: integers beyond int64 become floats where floats are asked for; the
    error for everything else."""
    if a.dtype.kind == "u" and a.dtype != np.uint64:
        return a
    if a.dtype.kind in "US":
        raise TypeError(f"new(): invalid data type {'str' if a.dtype.kind == 'U' else 'bytes'!r}")
    bad = [] if a.dtype == np.uint64 else [v for v in a.ravel() if not isinstance(v, (int, float))]
    if bad and isinstance(bad[0], (str, bytes)):
        raise TypeError(f"new(): invalid data type {type(bad[0]).__name__!r}")
    if bad and dtype is None:
        raise RuntimeError(f"Could not infer dtype of {type(bad[0]).__name__}")
    if bad:
        raise TypeError(f"must be real number, not {type(bad[0]).__name__}")
    if dtype is None or dtype.category == dt.INT:
        raise ValueError("Overflow when unpacking long long: an integer does not fit int64")
    return a.astype(np.float64)


def _common(kinds: set) -> dt.dtype:
    """The dtype for leaves of these kinds: all of them count alike, a number as the tensor that it would make."""
    if len(kinds) == 1 and float in kinds:  # the usual data
        return dt.get_default_dtype()
    of = [k if isinstance(k, dt.dtype) else dt.number_dtype(_zero(k)) for k in kinds]
    return functools.reduce(dt.promote_types, of)


def _zero(kind: type) -> Any:
    """A number as those of a type; not all types have a zero (an enumeration)."""
    return next((base(0) for base in (bool, int, float) if issubclass(kind, base)), 0)


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
        kind = _common(_kinds(data))
    if isinstance(data, (list, tuple)):
        parts = [_of_sizes(v, kind) if _has_size(v) else tensor(v, dtype=kind) for v in data]
        if len({p.shape for p in parts}) > 1:
            raise ValueError("expected sequences of equal length at every dimension")
        return stack(parts)
    return full((), data, dtype=kind)


def _kinds(data: Any) -> set:
    """What the leaves are, as `_numbers` says it: a size counts as an int, a number made of one as a float."""
    if isinstance(data, (list, tuple)):
        return set().union(*map(_kinds, data))
    if isinstance(data, (SymbolicSize, SymbolicNumber)):
        return {int if isinstance(data, SymbolicSize) else float}
    if isinstance(data, Tensor):
        return {data.dtype}
    kinds: set = set()
    _numbers(data, kinds)
    return kinds


def _to(a: np.ndarray, dtype: dt.dtype) -> np.ndarray:
    """Cast Python numbers; RuntimeError for one that does not fit an integer type (NaN and infinity fit none).

    A negative integer wraps in an unsigned type, where its opposite fits.
    """
    if dtype.category == dt.INT and a.dtype.kind in "if" and a.size:
        info = np.iinfo(dtype.np)
        low = -info.max if info.min == 0 and a.dtype.kind == "i" else info.min
        high = float(info.max) if a.dtype.kind == "f" else info.max
        fits = low <= a.min() and a.max() <= high and (high < 2.0**63 or a.dtype.kind == "i" or a.max() < 2.0**63)
        if not fits:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    with np.errstate(all="ignore"):
        return a.astype(dtype.np)


def _marked(made: Any) -> Any:
    """The new tensor, with the mark of inference mode."""
    if STATE.inference:
        extra_of(made).inference = True
    return made


def _tell_of_copy(call: str) -> None:
    from ..errors import warn

    warn(
        f"To copy construct from a tensor, it is recommended to use t.detach().clone() or "
        f"t.detach().clone().requires_grad_(True), rather than {call}.",
        UserWarning,
    )


@function("tensor(dtype: dtype, requires_grad: bool)", method=False)
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: a number, nested sequences, an array or a tensor.

    Python floats become the default dtype, ints int64. ValueError for ragged sequences, TypeError for what is no
    number.
    """
    check_place(device)
    kind = _kind(dtype)
    if isinstance(data, Tensor):
        _tell_of_copy("tensor(t)")
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
    if type(ndarray) is np.ndarray and ndarray.dtype in dt.FROM_NUMPY and ndarray.dtype.isnative:
        flags = ndarray.flags
        if flags.c_contiguous and flags.aligned and ndarray.size:
            return _shared(ndarray)
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
    return _shared(ndarray)


def _shared(a: np.ndarray) -> Tensor:
    out = _marked(wrap(a))
    share(storage_of(out))
    return out


@function("from_dlpack", method=False)
def from_dlpack(ext_tensor):
    """A tensor on the memory of any object on the CPU that speaks DLPack (``__dlpack__``: numpy, JAX, PyTorch, ...)."""
    return from_numpy(np.from_dlpack(ext_tensor))


@function("__dlpack__", function=False)
def dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """A DLPack capsule of this tensor's memory. BufferError for a tensor that requires a gradient."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    given = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
    return self.detach().numpy().__dlpack__(stream=stream, **{k: v for k, v in given.items() if v is not None})


@function("__dlpack_device__", function=False)
def dlpack_device(self):
    """(device type, number): (1, 0), the CPU."""
    return 1, 0


@function("new_tensor(self: T, dtype: dtype, requires_grad: bool?)", function=False)
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A copy of data, of this tensor's dtype."""
    if isinstance(data, Tensor):
        _tell_of_copy("new_tensor(t)")
        data = data.detach()
        return as_tensor(data.clone(), dtype=_kind(dtype) or self.dtype).requires_grad_(requires_grad)
    return tensor(data, dtype=_kind(dtype) or self.dtype, device=device, requires_grad=requires_grad)
