"""Indexing: ``x[...]`` and ``x[...] = v`` with everything PyTorch accepts, and the operators behind it.

Integers, slices, None and ``...`` become views, one after the other; tensors, lists and masks become one ``index`` call
on what is left. (Unlike numpy, an integer beside a tensor is taken first and does not move the tensor's dimensions.)
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import STATE
from ..meta import Meta, broadcast_shapes
from ..op import Sample, function, op
from ..sizes import SymInt
from ..tensor import Tensor, need_data, wrap
from ._index_kernels import add_at, check_range, scatter_slots
from ._samples import t, ti
from .view import alias_view, select, slice_, slice_nd, unsqueeze

_slice_nd = slice_nd.fn
_BAD_INDEX = ("only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got {})")


def _is_int(i: Any) -> bool:
    return type(i) is int or isinstance(i, (np.integer, SymInt))


def _from_sequence(seq: Any) -> Tensor:
    """A list (or array) used as an index, as a tensor."""
    if isinstance(seq, np.ndarray):
        arr = seq
    else:
        arr = np.array([i.item() if isinstance(i, Tensor) else i for i in seq] if not any(
            isinstance(i, (list, tuple)) for i in seq) else seq)
    if arr.size == 0:
        arr = arr.astype(np.int64)
    if arr.dtype.kind not in "iub":
        raise IndexError(_BAD_INDEX.format(type(seq).__name__))
    return wrap(arr if arr.dtype == np.bool_ else arr.astype(np.int64))


def _has_tensor_like(seq: Any) -> bool:
    return any(isinstance(i, (Tensor, slice, list, tuple, np.ndarray)) or i is None or i is Ellipsis for i in seq)


def parse_index(index: Any) -> list:
    """The index as a flat list of ints, slices, None, Ellipsis and tensors."""
    if isinstance(index, tuple):
        items: Sequence[Any] = index
    elif isinstance(index, list) and _has_tensor_like(index) and len(index) <= 32 and not all(
            isinstance(i, (list, tuple)) for i in index) and any(not isinstance(i, Tensor) or i.ndim for i in index):
        items = index
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
    return i if i is None or _is_int(i) else i.__index__()


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
            if type(step) is int and step <= 0:
                raise ValueError("step must be greater than zero")
            lo, hi = _number(i.start), _number(i.stop)
            if not (lo is None and hi is None and type(step) is int and step == 1):
                x = slice_(x, dim, lo, hi, step)
            dim += 1
        elif isinstance(i, Tensor):
            if i.dtype in (dt.bool_, dt.uint8):
                if i.ndim == 0:
                    x = unsqueeze(x, dim)
                    tensors[dim] = i.reshape((1,))
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
                    raise IndexError(f"The shape of the mask {list(i.shape)} at index {k} does not match the shape of the "
                                     f"indexed tensor {list(x.shape)} at index {d + k}")
            for k, pos in enumerate(need_data(i, "index by a mask").nonzero()):
                out[d + k] = wrap(pos)
        elif i.dtype.category != dt.INT:
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


@function("__getitem__", function=False)
def getitem(self: Any, index: Any) -> Any:
    """``self[index]``: a view for ints, slices, None and ``...``; a copy where tensors, lists or masks are used."""
    if self._data is not None:
        basic = index if type(index) is tuple else (index,)
        if _is_basic(basic):
            return _slice_nd(self, basic)
    elif type(index) is int and self.ndim > 0:
        return _select(self, 0, index)
    view, tensors = basic_part(self, parse_index(index))
    if not tensors:
        return view
    tensors = _expand_masks(view, tensors)
    dims = tuple(sorted(tensors))
    return index_op(view, [tensors[d] for d in dims], dims)


@function("__setitem__", function=False)
def setitem(self: Any, index: Any, value: Any) -> None:
    """``self[index] = value``, in place, with broadcasting; positions written twice keep one of the values."""
    view, tensors = basic_part(self, parse_index(index))
    if not isinstance(value, Tensor):
        if isinstance(value, np.ndarray):
            value = wrap(np.array(value))
        elif not isinstance(value, (bool, int, float, np.number, np.bool_)):
            raise TypeError(f"can't assign a {type(value).__name__} to a {self.dtype}")
    if not tensors:
        view.copy_(_drop_ones(value, view))
        return
    mask = tensors.get(0)
    if len(tensors) == 1 and mask is not None and mask.dtype is dt.bool_ and (not isinstance(value, Tensor) or value.ndim == 0):
        if tuple(mask.shape) != tuple(view.shape[:mask.ndim]):
            _expand_masks(view, tensors)
        shaped = mask if mask.ndim == view.ndim else mask.reshape(tuple(mask.shape) + (1,) * (view.ndim - mask.ndim))
        if isinstance(value, Tensor) and (value.dtype is not view.dtype or value._rg or view._data is None):
            value = value.to(view.dtype)
            _in_place(view, lambda old: shaped.where(value, old) if hasattr(shaped, "where") else old)
        else:
            view.masked_fill_(shaped, _number_value(value, view.dtype))
        return
    tensors = _expand_masks(view, tensors)
    dims = tuple(sorted(tensors))
    value = _as_value(value, view.dtype)
    put_in_place(view, [tensors[d] for d in dims], value, dims, False)


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


def _in_place(self: Any, compute: Any) -> Any:
    """Write ``compute(old value)`` into ``self``, with the rules of every in-place operator."""
    from ..inplace import assign, check_writable, old_value
    check_writable(self)
    return assign(self, compute(old_value(self, STATE.grad and self.requires_grad)))


def plain_write(self: Any, *others: Any) -> bool:
    """Whether arrays can be written directly: no graph tensor, no gradient to record."""
    return self._data is not None and not (STATE.grad and self.requires_grad) and all(
        o._data is not None and not (STATE.grad and o.requires_grad) for o in others)


def put_in_place(self: Any, indices: Any, value: Any, dims: tuple, accumulate: bool) -> Any:
    """``index_put`` in place; straight into the array where no history is kept."""
    if plain_write(self, value, *indices):
        from ..inplace import bump, check_writable
        check_writable(self)
        if value.dtype is not self.dtype:
            raise RuntimeError(f"Index put requires the source and destination dtypes match, got {self.dtype.name} for the "
                               f"destination and {value.dtype.name} for the source.")
        _put(self._data, [i._data for i in indices], _drop_array_ones(value._data, self, indices, dims), dims, accumulate)
        bump(self)
        return self
    return _in_place(self, lambda old: index_put_op(old, indices, value, dims, accumulate))


def _drop_array_ones(v: np.ndarray, x: Any, indices: Any, dims: tuple) -> np.ndarray:
    n = x.ndim - len(dims) + max(i.ndim for i in indices)
    while v.ndim > n and v.shape[0] == 1:
        v = v[0]
    return v


# ---- operators


def _where(arrays: Sequence[np.ndarray], dims: tuple) -> tuple:
    """numpy's index for tensors at ``dims``."""
    where: list[Any] = [slice(None)] * (max(dims) + 1)
    for d, i in zip(dims, arrays, strict=True):
        where[d] = i
    return tuple(where)


def _result_shape(m: Meta, indices: Sequence[Meta], dims: tuple) -> tuple:
    """Shape of ``x[indices]``: the broadcast index where the first stood if they are neighbours, else in front."""
    try:
        wide = broadcast_shapes(*(i.shape for i in indices))
    except RuntimeError:
        raise IndexError("shape mismatch: indexing tensors could not be broadcast together with shapes "
                         + ", ".join(str(list(i.shape)) for i in indices)) from None
    rest = [s for d, s in enumerate(m.shape) if d not in dims]
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    return (*rest[:at], *wide, *rest[at:])


def _explain_range(shape: Sequence[int], arrays: Sequence[np.ndarray], dims: tuple) -> None:
    for d, i in zip(dims, arrays, strict=True):
        check_range(i, shape[d], d)


@op("index(input: T, indices: T[], dims: ints)", kind="gather", method=False, function=False)
class index_op:
    """``input`` indexed by integer tensors at dimensions ``dims`` (increasing). IndexError out of range."""

    def kernel(a, indices, dims):
        try:
            if len(dims) == 1 and a.ndim and indices[0].ndim == 1:
                return a.take(indices[0], axis=dims[0]) if dims[0] else a[indices[0]]
            return np.asarray(a[_where(indices, dims)], order="C")
        except IndexError:
            if a.size or any(i.size for i in indices):
                _explain_range(a.shape, indices, dims)
            raise

    def meta(m, indices, dims):
        return Meta(_result_shape(m, indices, dims), m.dtype)

    def vjp(g, input_meta, indices, dims):
        return (g.new_zeros(input_meta.shape).index_put_plain(indices, g, dims), [None] * len(indices))

    def ref(a, indices, dims):
        return a[_where(indices, dims)]

    def samples():
        yield Sample(t(4, 3), [ti(4, 5)], (0,))
        yield Sample(t(4, 3), [ti(3, 2, 2)], (1,))
        yield Sample(t(4, 3, 2), [ti(4, 3), ti(2, 3)], (0, 2))


def _put(out: np.ndarray, indices: Sequence[np.ndarray], values: np.ndarray, dims: tuple, accumulate: bool) -> None:
    try:
        if not accumulate:
            out[_where(indices, dims)] = values
        else:
            add_at(out, _where(indices, dims), values)
    except IndexError:
        _explain_range(out.shape, indices, dims)
        raise
    except ValueError as e:
        raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result "
                           f"({e})") from None


@op("index_put(input: T, indices: T[], values: T, dims: ints, accumulate: bool = False)", kind="gather", method=False,
    function=False)
class index_put_op:
    """A copy of ``input`` with ``values`` at the indices (added there if ``accumulate``)."""

    def kernel(a, indices, values, dims, accumulate=False):
        if a.dtype != values.dtype:
            raise RuntimeError(f"Index put requires the source and destination dtypes match, got {a.dtype} for the destination "
                               f"and {values.dtype} for the source.")
        out = a.copy(order="K")
        n = a.ndim - len(dims) + max(i.ndim for i in indices)
        while values.ndim > n and values.shape[0] == 1:
            values = values[0]
        _put(out, indices, values, dims, accumulate)
        return out

    def meta(m, indices, values, dims, accumulate=False):
        if m.dtype is not values.dtype:
            raise RuntimeError(f"Index put requires the source and destination dtypes match, got {m.dtype.name} for the "
                               f"destination and {values.dtype.name} for the source.")
        shape = _result_shape(m, indices, dims)
        try:
            fits = len(broadcast_shapes(shape, values.shape)) == len(shape)
        except RuntimeError:
            fits = False
        if not fits and not (values.ndim > len(shape) and type(values.shape[0]) is int and values.shape[0] == 1):
            raise RuntimeError(f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
                               f"result of shape {list(shape)}")
        return Meta(m.shape, m.dtype)

    def vjp(g, indices, values_meta, dims, accumulate, need):
        gi = gv = None
        if need[0]:
            gi = g if accumulate else index_put_op(g, indices, g.new_zeros(()), dims, False)
        if need[-1]:
            gv = index_op(g, indices, dims)
        return (gi, [None] * len(indices), gv)

    def ref(a, indices, values, dims, accumulate=False):
        out = a.copy()
        if accumulate:
            np.add.at(out, _where(indices, dims), values)
        else:
            out[_where(indices, dims)] = values
        return out

    def samples():
        yield Sample(t(4, 3), [np.array([0, 2])], t(2, 3), (0,))
        yield Sample(t(4, 3), [ti(4, 5), ti(3, 5)], t(5), (0, 1), True)


@function("index_put_plain", function=False)
def _index_put_plain(input: Any, indices: Any, values: Any, dims: tuple) -> Any:
    return index_put_op(input, indices, values, dims, True)


def _put_args(input: Any, indices: Any, values: Any) -> tuple:
    if not isinstance(indices, (list, tuple)):
        raise TypeError(f"index_put(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}")
    if not isinstance(values, Tensor):
        raise TypeError(f"index_put(): argument 'values' (position 2) must be Tensor, not {type(values).__name__}")
    tensors, dim = {}, 0
    for i in indices:
        if i is not None:
            tensors[dim] = i
        dim += 1 if i is None else max(1, _uses(i))
    if len(indices) > input.ndim:
        raise IndexError(f"too many indices for tensor of dimension {input.ndim} (got {len(indices)})")
    tensors = _expand_masks(input, tensors)
    dims = tuple(sorted(tensors))
    return [tensors[d] for d in dims], dims


@function("index_put")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with ``values`` at ``indices`` (a tuple of index tensors, masks or None)."""
    tensors, dims = _put_args(input, indices, values)
    return index_put_op(input, tensors, values, dims, accumulate)


@function("index_put_")
def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """In-place form of ``index_put``."""
    tensors, dims = _put_args(input, indices, values)
    return put_in_place(input, tensors, values, dims, accumulate)


def check_index(name: str, index: Any, kinds: tuple = (dt.int64, dt.int32)) -> None:
    """Index tensors are int64 (or int32). RuntimeError names the function."""
    d = index.dtype if isinstance(index.dtype, dt.dtype) else dt.FROM_NUMPY[index.dtype]
    if d not in kinds:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {d.name}")


@op("index_select(input: T, index: T, dim: dim)", kind="gather",
    method=False, function=False)
class index_select_op:
    """The slices of ``input`` at ``index`` along ``dim``. IndexError out of range."""

    def kernel(a, index, dim):
        check_index("index_select", index)
        if index.ndim > 1:
            raise IndexError("index_select(): Index is supposed to be a vector")
        flat = index.reshape(-1)
        if a.ndim == 0:
            check_range(flat, 1, 0, negative=False)
            if flat.size != 1:
                raise IndexError("index_select(): Index to scalar can have only 1 value")
            return a.copy()
        check_range(flat, a.shape[dim], dim, negative=False)
        return a.take(flat, axis=dim)

    def meta(m, index, dim):
        check_index("index_select", index)
        if index.ndim > 1:
            raise IndexError("index_select(): Index is supposed to be a vector")
        if m.ndim == 0:
            return Meta((), m.dtype)
        n = index.shape[0] if index.ndim else 1
        return Meta((*m.shape[:dim], n, *m.shape[dim + 1:]), m.dtype)

    def vjp_input(g, input_meta, index, dim):
        if input_meta.ndim == 0:
            return g
        return index_add_op(g.new_zeros(input_meta.shape), index.reshape((-1,)), g, dim, 1)

    def ref(a, index, dim):
        return np.take(a, index, axis=dim)

    def samples():
        yield Sample(t(4, 3), ti(4, 5), 0)
        yield Sample(t(2, 3), ti(3, 2), -1)

    def errors():
        yield (t(4, 3), np.array([4]), 0), {}, IndexError, "out of range"


@function("index_select")
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices at ``index`` (a vector of int64 or int32) along ``dim``. IndexError out of range."""
    return index_select_op(input, index, dim)


def _gather_shapes(name: str, m: Meta, index: Meta, dim: int, src: Meta | None = None) -> None:
    """Index and input must have the same rank, and index must fit in every other dimension."""
    shape, other = m.shape or (1,), index.shape or (1,)
    if any(type(s) is int and s == 0 for s in index.shape):
        return
    if len(shape) != len(other):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {'self' if src else 'input'} tensor")
    for d, (a, b) in enumerate(zip(shape, other, strict=True)):
        if d != dim and b is not a and b > a:
            raise RuntimeError(f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than "
                               f"self {list(m.shape)} apart from dimension {dim}")
    if src is not None:
        if src.ndim != index.ndim and not (src.ndim <= 1 and index.ndim <= 1):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        for d, (a, b) in enumerate(zip(src.shape or (1,), other, strict=True)):
            if b is not a and b > a:
                raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} apart from "
                                   f"dimension {dim}")


@op("gather(input: T, index: T, dim: dim)", kind="gather", method=False, function=False)
class gather_op:
    """``out[i][j] = input[index[i][j]][j]`` (for dim 0). RuntimeError or IndexError for what does not fit."""

    def kernel(a, index, dim):
        _gather_checks("gather", a, index, dim)
        if index.size == 0:
            return np.empty(index.shape, a.dtype)
        if a.ndim == 0 or index.ndim == 0:
            return a.reshape(-1).take(index)
        if a.shape[:dim] + a.shape[dim + 1:] == index.shape[:dim] + index.shape[dim + 1:]:
            return np.take_along_axis(a, index, dim)
        return a[scatter_slots(index, dim)]

    def meta(m, index, dim):
        if index.dtype is not dt.int64 and index.dtype is not dt.int32:
            raise RuntimeError("gather(): Expected dtype int32/int64 for index")
        _gather_shapes("gather", m, index, dim)
        return Meta(index.shape, m.dtype)

    def vjp_input(g, input_meta, index, dim):
        return scatter_add_op(g.new_zeros(input_meta.shape), index, g, dim)

    def ref(a, index, dim):
        return np.take_along_axis(a, index, dim)

    def samples():
        yield Sample(t(3, 4), ti(3, 2, 4), 0)
        yield Sample(t(3, 4), ti(4, 3, 6), 1)

    def errors():
        yield (t(3, 4), np.full((3, 4), 4), 1), {}, RuntimeError, "out of bounds"


def _gather_checks(name: str, a: np.ndarray, index: np.ndarray, dim: int, src: np.ndarray | None = None) -> None:
    """Shapes and range of a gather or scatter index."""
    if index.dtype not in (np.int64, np.int32) and index.size:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")

    def as_meta(x: np.ndarray) -> Meta:
        return Meta(x.shape, dt.FROM_NUMPY[x.dtype])
    _gather_shapes(name, as_meta(a), as_meta(index), dim, None if src is None else as_meta(src))
    n = a.shape[dim] if a.ndim else 1
    if index.size and (int(index.min()) < 0 or int(index.max()) >= n):
        bad = next(int(i) for i in index.ravel() if not 0 <= i < n)
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {n}")


@function("gather")
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Values picked along ``dim`` by ``index`` (int64), which has the shape of the result."""
    return gather_op(input, index, dim)


@function("take")
def take(input: Any, index: Any) -> Any:
    """Elements of the flattened tensor at ``index``. IndexError out of range."""
    if index.dtype is not dt.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.name}")
    n = input.numel()
    if n == 0 and index.numel() != 0:
        raise IndexError("take(): tried to take from an empty tensor")
    return index_op(input.reshape(-1), [index], (0,))


@function("take_along_dim")
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Like ``gather``, with broadcasting of the other dimensions (over the flattened tensor without ``dim``)."""
    if indices.dtype is not dt.int64:
        raise RuntimeError("take_along_dim(): dtype of indices should be Long but got " + indices.dtype.name)
    if dim is None:
        return gather_op(input.reshape(-1), indices.reshape(-1), 0)
    if input.ndim != indices.ndim:
        raise RuntimeError("take_along_dim(): input and indices should have the same number of dimensions, but got "
                           f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices")
    from ..meta import normalize_dim
    dim = normalize_dim(dim, input.ndim)
    if indices._data is None or (indices._data.size and indices._data.min() < 0):  # unlike gather, negative ones count back
        indices = indices + (indices < 0) * input.shape[dim]
    a, b = list(input.shape), list(indices.shape)
    a[dim] = b[dim] = 1
    wide = list(broadcast_shapes(a, b))
    wide_input, wide_index = wide.copy(), wide.copy()
    wide_input[dim], wide_index[dim] = input.shape[dim], indices.shape[dim]
    return gather_op(input.expand(wide_input), indices.expand(wide_index), dim)


@function("masked_select")
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where ``mask`` (bool, broadcast) is true, as a vector."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    shape = broadcast_shapes(input.shape, mask.shape)
    flat = need_data(mask.expand(shape), "masked_select").reshape(-1).nonzero()[0]
    return index_op(input.expand(shape).reshape(-1), [wrap(flat)], (0,))


@function("nonzero")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: one a row, or one tensor a dimension with ``as_tuple``."""
    d = need_data(input, "nonzero")
    if as_tuple:
        return tuple(wrap(i) for i in np.atleast_1d(d).nonzero())
    if d.ndim == 0:
        return wrap(np.zeros((int(bool(d)), 0), np.int64))
    return wrap(np.stack(d.nonzero(), 1))


@function("argwhere")
def argwhere(input: Any) -> Any:
    """Positions of the elements that are not zero, one a row."""
    return nonzero(input)


@function("unravel_index", method=False)
def unravel_index(indices: Any, shape: Any) -> tuple:
    """Coordinates, one tensor a dimension, of positions in a flattened tensor of ``shape``."""
    if indices.is_floating_point() or indices.dtype is dt.bool_:
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(s < 0 for s in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    out = []
    for s in reversed(shape):
        out.append(indices % s)
        indices = indices // s
    return tuple(reversed(out))


from .scatter import index_add_op, scatter_add_op  # noqa: E402
