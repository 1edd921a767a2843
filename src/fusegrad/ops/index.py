"""Operators that read at index tensors: index, index_select, gather, take, masked_select, nonzero; and index_put."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta, broadcast_shapes, normalize_dim
from ..native.on_demand import defined
from ..op import Inline, Sample, function, late_op, op
from ..tensor import need_data, wrap
from ._index_kernels import add_at, check_range, flat_slots, in_range, scatter_slots, whole_slices
from ._samples import t, ti

scatter_add_op = late_op("scatter_add")
_INT64 = np.dtype(np.int64)


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
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(i.shape)) for i in indices)
        ) from None
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
        return (index_backward(g, indices, input_meta.shape, dims), [None] * len(indices))

    def on_arrays(g, input_meta, indices, dims):
        return (index_backward.kernel(g, indices, input_meta.shape, dims), *[None] * len(indices))

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
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing result ({e})"
        ) from None


@op(
    "index_put(input: T, indices: T[], values: T, dims: ints, accumulate: bool = False)",
    kind="gather",
    method=False,
    function=False,
)
class index_put_op:
    """A copy of ``input`` with ``values`` at the indices (added there if ``accumulate``)."""

    def kernel(a, indices, values, dims, accumulate=False):
        if a.dtype != values.dtype:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {a.dtype} for the destination "
                f"and {values.dtype} for the source."
            )
        out = a.copy(order="K")
        n = a.ndim - len(dims) + max(i.ndim for i in indices)
        while values.ndim > n and values.shape[0] == 1:
            values = values[0]
        _put(out, indices, values, dims, accumulate)
        return out

    def meta(m, indices, values, dims, accumulate=False):
        if m.dtype is not values.dtype:
            raise RuntimeError(
                f"Index put requires the source and destination dtypes match, got {m.dtype.name} for the "
                f"destination and {values.dtype.name} for the source."
            )
        shape = _result_shape(m, indices, dims)
        try:
            fits = len(broadcast_shapes(shape, values.shape)) == len(shape)
        except RuntimeError:
            fits = False
        if not fits and not (values.ndim > len(shape) and type(values.shape[0]) is int and values.shape[0] == 1):
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
                f"result of shape {list(shape)}"
            )
        return Meta(m.shape, m.dtype)

    def vjp(g, indices, values_meta, dims, accumulate, need):
        gi = gv = None
        if need[0]:
            gi = g if accumulate else index_put_op(g, indices, g.new_zeros(()), dims, False)
        if need[-1]:
            gv = index_op(g, indices, dims)
            more = len(values_meta.shape) - len(gv.shape)
            if more > 0:  # dimensions of size 1 in front of what the values are written to
                gv = gv.reshape((*values_meta.shape[:more], *gv.shape))
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


@op("index_backward(grad: T, indices: T[], size: ints, dims: ints)", kind="gather", method=False, function=False)
class index_backward:
    """Zeros of ``size`` with ``grad`` added at the indices: the transpose of ``index``."""

    def kernel(g, indices, size, dims):
        out = np.zeros(size, g.dtype)
        _put(out, indices, g, dims, True)
        return out

    def meta(g, indices, size, dims):
        return Meta(size, g.dtype)

    def vjp(g, indices, dims):
        return index_op(g, indices, dims), [None] * len(indices)

    def ref(g, indices, size, dims):
        out = np.zeros(size)
        np.add.at(out, _where(indices, dims), g)
        return out

    def samples():
        yield Sample(t(5, 3), [np.array([0, 2, 0, 1, 2])], (4, 3), (0,))
        yield Sample(t(5), [ti(4, 5), ti(3, 5)], (4, 3), (0, 1))


def check_index(name: str, index: Any, kinds: tuple = (dt.int64, dt.int32)) -> None:
    """Index tensors are int64 (or int32). RuntimeError names the function."""
    d = index.dtype if isinstance(index.dtype, dt.dtype) else dt.FROM_NUMPY[index.dtype]
    if d not in kinds:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {d.name}")


@op("index_select(input: T, index: T, dim: dim)", kind="gather", method=False, function=False)
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
        return Meta((*m.shape[:dim], n, *m.shape[dim + 1 :]), m.dtype)

    def vjp_input(g, input_meta, index, dim):
        if input_meta.ndim == 0:
            return g
        return index_backward(g, (index.reshape((-1,)),), input_meta.shape, (dim,))

    def ref(a, index, dim):
        return np.take(a, index, axis=dim)

    def samples():
        yield Sample(t(4, 3), ti(4, 5), 0)
        yield Sample(t(2, 3), ti(3, 2), -1)

    def errors():
        yield (t(4, 3), np.array([4]), 0), {}, IndexError, "out of range"


@function(
    "index_select(input: T, dim: dim, index: T)",
    inline=Inline(index_select_op, "type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The slices at ``index`` (a vector of int64 or int32) along ``dim``. IndexError out of range."""
    return _index_select(input, index, dim)


_index_select = index_select_op.fn


def _gather_shapes(name: str, m: Meta, index: Meta, dim: int, src: Meta | None = None) -> None:
    """Index and input must have the same rank, and index must fit in every other dimension."""
    shape, other = m.shape or (1,), index.shape or (1,)
    if any(type(s) is int and s == 0 for s in index.shape):
        return
    if len(shape) != len(other):
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {'self' if src else 'input'} tensor"
        )
    for d, (a, b) in enumerate(zip(shape, other, strict=True)):
        if d != dim and b is not a and b > a:
            raise RuntimeError(
                f"Size does not match at dimension {d} expected index {list(index.shape)} to be no larger than "
                f"self {list(m.shape)} apart from dimension {dim}"
            )
    if src is not None:
        if src.ndim != index.ndim and not (src.ndim <= 1 and index.ndim <= 1):
            raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
        for a, b in zip(src.shape or (1,), other, strict=True):
            if b is not a and b > a:
                raise RuntimeError(
                    f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)} apart from "
                    f"dimension {dim}"
                )


_GATHER, _GATHER_LAST = defined("picks", "gather"), defined("picks", "gather_last")


def _gathered(a: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray | None:
    """``gather`` in machine code where shapes differ along ``dim`` alone; None for the rest and for bad indices."""
    shape, other = a.shape, index.shape
    if len(shape) != len(other) or not shape or index.dtype is not _INT64:
        return None
    if not (a.flags.c_contiguous and index.flags.c_contiguous):
        return None
    last = dim == len(shape) - 1
    if shape[:dim] != other[:dim] or not last and shape[dim + 1 :] != other[dim + 1 :] or not index.size:
        return None
    inner = 1 if last else math.prod(other[dim + 1 :])
    many = inner == 1 and index.size > _LITTLE
    f = (_GATHER_LAST if many else _GATHER)[a.dtype]
    if f is None:
        return None
    out = np.empty(other, a.dtype)
    outer = math.prod(other[:dim]) if dim else 1
    try:
        if many:
            f(a, index, out, outer, shape[dim], other[dim])
        else:
            f(a, index, out, outer, shape[dim], other[dim], inner)
    except IndexError:
        return None  # explained by numpy's path
    return out


_LITTLE = 4096  # elements that one kernel does for any dimension


@op("gather(input: T, index: T, dim: dim)", kind="gather", method=False, function=False)
class gather_op:
    """``out[i][j] = input[index[i][j]][j]`` (for dim 0). RuntimeError or IndexError for what does not fit."""

    def kernel(a, index, dim):
        if (found := _gathered(a, index, dim)) is not None:
            return found
        _gather_usual("gather", a, index, dim)
        if index.size == 0:
            return np.empty(index.shape, a.dtype)
        if a.ndim == 0 or index.ndim == 0:
            return a.reshape(-1).take(index)
        if index.size < 64:
            return a[scatter_slots(index, dim)]
        rows = whole_slices(index, a.shape, dim)
        if rows is not None:
            return a.take(rows, axis=dim)
        if a.flags.c_contiguous:
            return a.reshape(-1).take(flat_slots(a.shape, index, dim))
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


def covers(shape: tuple, other: tuple) -> bool:
    """Whether an array of ``shape`` has an element for each of one of shape ``other``."""
    return shape == other or len(shape) == len(other) and all([a >= b for a, b in zip(shape, other)])  # noqa: B905


def _gather_usual(name: str, a: np.ndarray, index: np.ndarray, dim: int, src: np.ndarray | None = None) -> None:
    """``_gather_checks``, at once where all shapes but that along ``dim`` are equal."""
    shape, other = a.shape, index.shape
    same = len(shape) == len(other) and shape[:dim] == other[:dim] and shape[dim + 1 :] == other[dim + 1 :]
    if same and index.size and index.dtype is _INT64 and (src is None or covers(src.shape, other)):
        if in_range(index, shape[dim] if shape else 1):
            return
    _gather_checks(name, a, index, dim, src)


def _gather_checks(name: str, a: np.ndarray, index: np.ndarray, dim: int, src: np.ndarray | None = None) -> None:
    """Shapes and range of a gather or scatter index."""
    if index.dtype != np.int64 and index.dtype != np.int32 and index.size:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")

    def as_meta(x: np.ndarray) -> Meta:
        return Meta(x.shape, dt.FROM_NUMPY[x.dtype])

    _gather_shapes(name, as_meta(a), as_meta(index), dim, None if src is None else as_meta(src))
    n = a.shape[dim] if a.ndim else 1
    if index.size and not in_range(index, n):
        bad = next(int(i) for i in index.ravel() if not 0 <= i < n)
        raise RuntimeError(f"index {bad} is out of bounds for dimension {dim} with size {n}")


@function(
    "gather(input: T, dim: dim, index: T, sparse_grad: bool)",
    inline=Inline(gather_op, "sparse_grad is False and type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """Values picked along ``dim`` by ``index`` (int64), which has the shape of the result."""
    return _gather(input, index, dim)


_gather = gather_op.fn


@function("take(input: T, index: T)")
def take(input: Any, index: Any) -> Any:
    """Elements of the flattened tensor at ``index``. IndexError out of range."""
    if index.dtype is not dt.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype.name}")
    n = input.numel()
    if n == 0 and index.numel() != 0:
        raise IndexError("take(): tried to take from an empty tensor")
    return index_op(input.reshape(-1), [index], (0,))


@function("take_along_dim(input: T, indices: T, dim: dim)")
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Like ``gather``, with broadcasting of the other dimensions (over the flattened tensor without ``dim``)."""
    a, i = input._data, indices._data
    if type(dim) is int and a is not None is not i and i.dtype is _INT64 and -(n := a.ndim) <= dim < n == i.ndim:
        d, s, w = dim % n, a.shape, i.shape
        if s[:d] == w[:d] and s[d + 1 :] == w[d + 1 :]:
            try:
                return _gather(_expand(input, *s), indices, d)  # the view is in the graph, as PyTorch's
            except (RuntimeError, IndexError):
                pass  # negative indices, or wrong ones
    if indices.dtype is not dt.int64:
        raise RuntimeError("take_along_dim(): dtype of indices should be Long but got " + indices.dtype.name)
    if dim is None:
        return gather_op(input.reshape(-1), indices.reshape(-1), 0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "take_along_dim(): input and indices should have the same number of dimensions, but got "
            f"{input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    dim = normalize_dim(dim, input.ndim)
    if not _none_below_zero(indices._data):  # unlike gather, negative ones count back
        indices = indices + (indices < 0) * input.shape[dim]
    a, b = list(input.shape), list(indices.shape)
    a[dim] = b[dim] = 1
    wide = list(broadcast_shapes(a, b))
    wide_input, wide_index = wide.copy(), wide.copy()
    wide_input[dim], wide_index[dim] = input.shape[dim], indices.shape[dim]
    input = input.expand(wide_input)  # in the graph, too, where nothing is to be expanded, as PyTorch's
    if tuple(indices.shape) != tuple(wide_index):
        indices = indices.expand(wide_index)
    return gather_op(input, indices, dim)


_gather, _expand = gather_op.fn, late_op("expand")


def _none_below_zero(index: np.ndarray | None) -> bool:
    """Whether it is known that no index is negative."""
    if index is None or not index.size:
        return index is not None
    return min(index.ravel().tolist()) >= 0 if index.size <= 16 else bool(index.min() >= 0)


@function("masked_select(input: T, mask: T)")
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where ``mask`` (bool, broadcast) is true, as a vector."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if mask._data is not None is not input._data and (n := mask._data.ndim) and mask._data.shape == input._data.shape:
        return index_op(input, [wrap(p) for p in mask._data.nonzero()], (*range(n),))
    shape = broadcast_shapes(input.shape, mask.shape)
    flat = need_data(mask.expand(shape), "masked_select").reshape(-1).nonzero()[0]
    return index_op(input.expand(shape).reshape(-1), [wrap(flat)], (0,))


@function("nonzero(input: T, as_tuple: bool)")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Positions of the elements that are not zero: one a row, or one tensor a dimension with ``as_tuple``."""
    d = need_data(input, "nonzero")
    if as_tuple:
        return tuple(wrap(np.ascontiguousarray(i)) for i in np.atleast_1d(d).nonzero())
    if d.ndim == 0:
        return wrap(np.zeros((int(bool(d)), 0), np.int64))
    return wrap(np.stack(d.nonzero()).T)  # one dimension's positions lie together, as in PyTorch


@function("nonzero_static(input: T, size: int, fill_value: int)")
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """Positions of the elements that are not zero, cut or filled up to ``size`` rows."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, but got {size}")
    found = nonzero(input)._data[:size]
    out = np.full((size, input.ndim), fill_value, np.int64)
    out[: len(found)] = found
    return wrap(out)


@function("argwhere(input: T)")
def argwhere(input: Any) -> Any:
    """Positions of the elements that are not zero, one a row."""
    return nonzero(input)


@function("unravel_index(indices: T, shape: ints)", method=False)
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
