"""Reading an index: what ``x[...]`` was given, as views to take and index tensors by dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..errors import warn
from ..meta import surely_less
from ..size_values import SymbolicSize
from ..tensor import Tensor, need_data, wrap
from .view import alias_view, unsqueeze
from .view_slice import select, slice_

_BAD_INDEX = "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})"

_AS_TUPLE = (
    "a list of lists, slices or tensors as an index is read as a tuple, as PyTorch still does: write x[tuple(seq)], or "
    "x[fusegrad.tensor(seq)] for an index tensor"
)


def _is_int(i: Any) -> bool:
    return type(i) is int or isinstance(i, (np.integer, SymbolicSize))


def _from_sequence(seq: Any) -> Tensor:
    """A list (or array) used as an index, as a tensor."""
    if isinstance(seq, np.ndarray):
        arr = seq
    elif any(isinstance(i, SymbolicSize) for i in seq):
        from .create_data import tensor

        return tensor(seq)
    else:
        arr = np.array(
            [i.item() if isinstance(i, Tensor) else i for i in seq]
            if not any(isinstance(i, (list, tuple)) for i in seq)
            else seq
        )
    if arr.size == 0:
        arr = arr.astype(np.int64)
    if arr.dtype.kind not in "iub":
        if arr.dtype.kind in "US":
            raise TypeError(_BAD_INDEX.format("str"))
        raise IndexError(_BAD_INDEX.format(type(seq).__name__))
    return wrap(arr if arr.dtype == np.bool_ else arr.astype(np.int64))


def _has_tensor_like(seq: Any) -> bool:
    return any(
        isinstance(i, (Tensor, slice, list, tuple, range, np.ndarray)) or i is None or i is Ellipsis for i in seq
    )


def parse_index(index: Any) -> list:
    """The index as a flat list of ints, slices, None, Ellipsis and tensors."""
    if isinstance(index, tuple):
        items: Sequence[Any] = index
    elif isinstance(index, list) and _has_tensor_like(index) and len(index) < 32:
        items = index
        warn(_AS_TUPLE, UserWarning)
    else:
        items = (index,)
    out: list[Any] = []
    for i in items:
        if _is_int(i) or i is None or i is Ellipsis or isinstance(i, (slice, Tensor)):
            out.append(i)
        elif isinstance(i, (bool, np.bool_)):
            out.append(wrap(np.array(bool(i))))
        elif isinstance(i, (list, tuple, np.ndarray, range)):
            out.append(_from_sequence(i))
        elif hasattr(i, "__index__"):
            out.append(i.__index__())
        elif isinstance(i, (str, bytes)):  # a sequence, to PyTorch
            raise TypeError(_BAD_INDEX.format(type(i).__name__))
        else:
            raise IndexError(_BAD_INDEX.format(type(i).__name__))
    return out


def _uses(i: Any) -> int:
    """How many dimensions of the input an item consumes."""
    if i is None or i is Ellipsis:
        return 0
    if isinstance(i, Tensor):
        return i.ndim if i.dtype in (dt.bool_, dt.uint8) else 1
    return 1


def _number(i: Any) -> Any:
    """A bound of a slice: tensors of one integer are read."""
    if isinstance(i, Tensor):
        return i.__index__()
    if i is None or _is_int(i):
        return i
    if not hasattr(i, "__index__"):
        raise TypeError(f"slice indices must be integers, None or integer tensors, not {type(i).__name__}")
    return i.__index__()


def basic_part(x: Any, items: list) -> tuple[Any, dict[int, Any]]:
    """Views for the basic items; returns the view and the tensors by dimension of it."""
    used = sum(map(_uses, items))
    if used > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    gap = x.ndim - used
    start, dim, tensors, seen_dots = x, 0, {}, False
    for i in items:
        if i is Ellipsis:
            if not seen_dots:
                dim += gap
            seen_dots = True
        elif i is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif isinstance(i, slice):
            step = 1 if i.step is None else _number(i.step)
            if surely_less(step, 1):
                raise ValueError("step must be greater than zero")
            lo, hi = _number(i.start), _number(i.stop)
            if not (lo is None and hi is None and type(step) is int and step == 1):
                x = slice_(x, dim, lo, hi, step)
            dim += 1
        elif isinstance(i, Tensor):
            if i.dtype in (dt.bool_, dt.uint8):
                if i.ndim == 0:
                    x = unsqueeze(x, dim)
                    tensors[dim] = i.clone().reshape((1,))  # it may be one of the elements written
                    dim += 1
                else:
                    tensors[dim] = i
                    dim += i.ndim
            elif i.ndim == 0 and i._data is not None and i.dtype.category == dt.INT:
                x = _select(x, dim, int(i._data))
            else:
                tensors[dim] = i
                dim += 1
        else:
            x = _select(x, dim, i if not isinstance(i, np.integer) else int(i))
    return (alias_view(x) if x is start and not tensors else x), tensors


def _select(x: Any, dim: int, i: Any) -> Any:
    n = x.shape[dim]
    if type(i) is int and type(n) is int and not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {dim} with size {n}")
    return select(x, dim, i)


def _expand_masks(x: Any, tensors: dict[int, Any]) -> dict[int, Any]:
    """Masks replaced by the positions of their true elements; dtypes checked."""
    out: dict[int, Any] = {}
    for d, i in tensors.items():
        if i.dtype in (dt.bool_, dt.uint8):
            for k in range(i.ndim):
                if i.shape[k] != x.shape[d + k]:
                    raise IndexError(
                        f"The shape of the mask {list(i.shape)} at index {k} does not match the shape of the "
                        f"indexed tensor {list(x.shape)} at index {d + k}"
                    )
            for k, pos in enumerate(need_data(i, "index by a mask").nonzero()):
                out[d + k] = wrap(pos)
        elif i.dtype.category != dt.INT or i.ndim and i.dtype not in (dt.int64, dt.int32):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        else:
            out[d] = i
    return out


def _is_basic(index: tuple) -> bool:
    """Whether an index is made of ints, forward slices with int bounds, None and at most one ``...``."""
    dots = False
    for i in index:
        if type(i) is int or i is None:
            continue
        if type(i) is slice:
            for b in (i.start, i.stop):
                if type(b) is not int and b is not None:
                    return False
            if i.step is not None and not (type(i.step) is int and i.step > 0):
                return False
        elif i is Ellipsis and not dots:
            dots = True
        else:
            return False
    return True
