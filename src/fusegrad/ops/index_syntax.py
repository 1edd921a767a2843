"""``x[...]``, ``x[...] = v`` and ``index_put``, with everything PyTorch accepts.

Integers, slices, None and ``...`` become views; tensors, lists and masks become one ``index`` call on what is left.
(Unlike numpy, an integer beside a tensor is taken first and does not move the tensor's dimensions.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.node import one_storage
from ..inplace import bump, check_overlap, check_writable
from ..op import function
from ..size_values import SymbolicNumber, SymbolicSize
from ..tensor import Tensor, wrap
from ._index_parse import _expand_masks, _is_basic, _select, _uses, basic_part, parse_index
from ._inplace_forms import _in_place, changed, into_expanded, plain_write, quiet, quietly_filled
from .index import _put, index_op, index_put_op
from .view_slice import slice_nd

_slice_nd = slice_nd.fn
_index = index_op.fn
_INT64, _BOOL = dt.int64.np, dt.bool_.np
_BOUND = frozenset({int, type(None)})  # types of the bounds of a slice that are no tensors


@function("__getitem__", function=False)
def getitem(self: Any, index: Any) -> Any:
    """``self[index]``: a view for ints, slices, None and ``...``; a copy where tensors, lists or masks are used."""
    if self._data is not None:
        kind = type(index)
        if kind is int:
            return _slice_nd(self, (index,))
        if kind is slice and index.step is None and type(index.start) in _BOUND and type(index.stop) in _BOUND:
            return _slice_nd(self, (index,))
        basic = index if type(index) is tuple else (index,)
        if _is_basic(basic):
            return _slice_nd(self, basic)
        if type(index) is Tensor and (i := index._data) is not None and i.ndim and self._data.ndim:
            if i.dtype is _INT64:
                return _index(self, (index,), (0,))
            if i.dtype is _BOOL and self._data.shape[: i.ndim] == i.shape:
                places = i.nonzero()
                return _index(self, [wrap(p) for p in places], (*range(len(places)),))
        if kind is tuple and (found := _at_tensors(self._data, index)) is not None:
            return _index(self, *found)
    elif type(index) is int and self.ndim > 0:
        return _select(self, 0, index)
    view, tensors = basic_part(self, parse_index(index))
    if not tensors:
        return view
    tensors = _expand_masks(view, tensors)
    dims = tuple(sorted(tensors))
    return index_op(view, [tensors[d] for d in dims], dims)


_EVERY = slice(None)


def _at_tensors(d: np.ndarray, index: tuple) -> tuple[list[Any], tuple] | None:
    """Plain int64 tensors and their dimensions, where an index of array ``d`` is these and whole dimensions (``:``)."""
    if not 0 < len(index) <= d.ndim:
        return None
    tensors, dims = [], []
    for k, i in enumerate(index):
        if type(i) is Tensor:
            if i._data is None or i._data.dtype is not _INT64 or not i._data.ndim:
                return None
            tensors.append(i)
            dims.append(k)
        elif type(i) is not slice or i != _EVERY:
            return None
    return (tensors, (*dims,)) if tensors else None


@function("__setitem__", function=False)
def setitem(self: Any, index: Any, value: Any) -> None:
    """``self[index] = value``, in place, with broadcasting; positions written twice keep one of the values."""
    if _write(self, index, value) or quietly_filled(self, index, value, True):
        return
    view, tensors = (self.unsqueeze(0), {}) if index is True else basic_part(self, parse_index(index))
    if not tensors and view.ndim == self.ndim and _whole(index):
        view = self  # not a view of it: its own history goes on
    given = isinstance(value, Tensor)
    if not given:
        if isinstance(value, np.ndarray):
            value = wrap(np.array(value))
        elif isinstance(value, (SymbolicSize, SymbolicNumber)) and self.is_floating_point():
            value = self.new_ones(()) * value
        elif not isinstance(value, (bool, int, float, np.number, np.bool_)):
            raise TypeError(f"can't assign a {type(value).__name__} to a {self.dtype}")
        else:
            value = dt.element(value, self.dtype)
    if index is False:
        return
    if not tensors:
        if view is self and not isinstance(value, Tensor):
            self.fill_(value)
            return
        value = _drop_ones(value, view)
        if isinstance(value, Tensor) and view._st is not None and value.ndim <= view.ndim:
            if value.shape != view.shape and one_storage(value._st, view._st):
                value = value.expand(view.shape)  # elements that are read more than once may be among those written
        view.copy_(value)
        return
    dim, mask = next(iter(tensors.items()))
    if len(tensors) == 1 and mask.dtype is dt.bool_ and (not isinstance(value, Tensor) or _one_element(value)):
        if tuple(mask.shape) != tuple(view.shape[dim : dim + mask.ndim]):
            _expand_masks(view, tensors)
        beyond = view.ndim - dim - mask.ndim
        shaped = mask.reshape(tuple(mask.shape) + (1,) * beyond) if beyond else mask
        if isinstance(value, Tensor) and value.ndim:
            value = value.reshape(())
        if isinstance(value, Tensor) and (
            value.dtype is not view.dtype or value._rg or view._data is None or value._data is None
        ):
            value = value.to(view.dtype)
            if not into_expanded(view, "masked_fill_", _filler(shaped, value), shaped, value):
                check_overlap(view, shaped)
                _in_place(view, lambda old: value.where(shaped, old))
        else:
            view.masked_fill_(shaped, _number_value(value, view.dtype))
        return
    tensors = _expand_masks(view, tensors)
    dims = tuple(sorted(tensors))
    if given and value.dtype is not view.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {view.dtype.name} for the destination "
            f"and {value.dtype.name} for the source: convert it with .to({view.dtype.name})"
        )
    value = _as_value(value, view.dtype)
    put_in_place(view, [tensors[d] for d in dims], value, dims, False)


def _whole(index: Any) -> bool:
    """Whether an index is ``...`` and ``:`` alone."""
    return all([i is Ellipsis or type(i) is slice and i == _EVERY for i in _tuple(index)])


def _tuple(index: Any) -> tuple:
    return index if type(index) is tuple else (index,)


def _one_element(value: Any) -> bool:
    return all([type(n) is int and n == 1 for n in value.shape])


def _filler(mask: Any, value: Any) -> Any:
    """Writes ``value`` where ``mask`` holds."""
    return lambda d: np.copyto(d, getattr(value, "_data", value), "unsafe", where=mask._data)


def _write(self: Any, index: Any, value: Any) -> bool:
    """Let numpy assign, where it does the same: floating point tensors without history, as index ints and slices, or
    tensors of ints and whole dimensions."""
    at = index
    if type(index) is Tensor or type(index) is tuple and any([type(i) is Tensor for i in index]):
        given = index if type(index) is tuple else (index,)
        if self._data is None or _at_tensors(self._data, given) is None:
            return False
        if isinstance(value, Tensor) and value.dtype is not self.dtype:
            return False
        at = tuple([i._data if type(i) is Tensor else i for i in given])
    elif type(index) is not int:
        for i in index if type(index) is tuple else (index,):
            if type(i) is slice:
                if type(i.start) not in _BOUND or type(i.stop) not in _BOUND or i.step is not None:
                    return False
            elif type(i) is not int:
                return False
    number = (type(value) is float or type(value) is int) and -60000 < value < 60000  # whatever the dtype
    if not (quiet(self) if number else isinstance(value, Tensor) and quiet(self, value)):
        return False
    d = self._data
    if d.dtype.kind != "f":
        return False
    try:
        d[at] = value if number else value._data
    except (IndexError, ValueError, FloatingPointError, RuntimeWarning):
        return False  # nothing was written, or will be written again
    changed(self)
    return True


def _number_value(value: Any, d: dt.dtype) -> Any:
    """The number to fill with; floats are truncated for integer tensors, as an assignment does."""
    if isinstance(value, Tensor):
        value = value.item()
    if d.category == dt.INT:
        return int(value)
    return bool(value) if d is dt.bool_ else value


def _as_value(value: Any, d: dt.dtype) -> Any:
    if isinstance(value, Tensor):
        return value if value.dtype is d else value.to(d)
    with np.errstate(all="ignore"):
        return wrap(np.asarray(value).astype(d.np))


def _drop_ones(value: Any, dst: Any) -> Any:
    """Leading dimensions of size 1 beyond those of the destination do not count."""
    if isinstance(value, Tensor):
        while value.ndim > dst.ndim and value.shape[0] == 1:
            value = value.squeeze(0)
    return value


def put_in_place(self: Any, indices: Any, value: Any, dims: tuple, accumulate: bool) -> Any:
    """``index_put`` in place; straight into the array where no history is kept."""
    check_overlap(self, (indices, value), True)
    if plain_write(self, value, *indices):

        def write(d: np.ndarray) -> None:
            values = _drop_array_ones(value._data, self, indices, dims)
            _put(d, [i._data for i in indices], values, dims, accumulate)

        if value.dtype is not self.dtype:
            check_writable(self, same=True)
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {self.dtype.name} for the "
                f"destination and {value.dtype.name} for the source."
            )
        if not into_expanded(self, "index_put_", write, value):
            check_writable(self)
            write(self._data)
            bump(self)
        return self
    return _in_place(self, lambda old: index_put_op(old, indices, value, dims, accumulate))


def _drop_array_ones(v: np.ndarray, x: Any, indices: Any, dims: tuple) -> np.ndarray:
    n = x.ndim - len(dims) + max(i.ndim for i in indices)
    while v.ndim > n and v.shape[0] == 1:
        v = v[0]
    return v


# ---- operators


def _put_args(input: Any, indices: Any, values: Any) -> tuple:
    if not isinstance(indices, (list, tuple)):
        raise TypeError(
            f"index_put(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}"
        )
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    tensors, dim = {}, 0
    for i in indices:
        if i is not None and not i.ndim and i.dtype is dt.bool_:
            raise RuntimeError("index_put(): a mask without dimensions takes one value, and no other index beside it")
        if i is not None:
            tensors[dim] = i
        dim += 1 if i is None else max(1, _uses(i))
    if len(indices) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(indices)})")
    tensors = _expand_masks(input, tensors)
    dims = tuple(sorted(tensors))
    return [tensors[d] for d in dims], dims


def _one_mask(indices: Any, values: Any, accumulate: bool) -> bool:
    """Whether one value goes where one mask holds."""
    if accumulate or not isinstance(indices, (list, tuple)) or len(indices) != 1 or not isinstance(values, Tensor):
        return False
    return isinstance(indices[0], Tensor) and indices[0].dtype is dt.bool_ and values.numel() == 1


@function("index_put(input: T, values: T, accumulate: bool)")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with ``values`` at ``indices`` (a tuple of index tensors, masks or None)."""
    if _one_mask(indices, values, accumulate) and not indices[0].ndim:
        return input.masked_fill(indices[0], values.reshape(()))
    if _one_mask(indices, values, accumulate):
        values = _as_value(values, input.dtype)
    tensors, dims = _put_args(input, indices, values)
    return index_put_op(input, tensors, values, dims, accumulate)


@function("index_put_(input: T, values: T, accumulate: bool)")
def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """In-place form of ``index_put``."""
    if _one_mask(indices, values, accumulate):
        if not indices[0].ndim:
            return input.masked_fill_(indices[0], values.reshape(()))
        check_overlap(input, indices[0])
        values = _as_value(values, input.dtype)
    elif isinstance(indices, (list, tuple)):
        check_overlap(input, indices, True)
    tensors, dims = _put_args(input, indices, values)
    return put_in_place(input, tensors, values, dims, accumulate)
