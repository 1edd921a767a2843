"""Putting values back where a view took them from: gradients of views, ``*_scatter``; and ``as_strided``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.names import renamed
from ..errors import NotRecordedError
from ..layout import format_axes
from ..meta import Meta, surely_less
from ..op import Sample, function, op
from ..place import root_array
from ..tensor import need_data
from ._samples import t
from ._shapes import numel_of
from .view import _restrided, relayout
from .view_slice import diagonal, select, slice_, slice_nd, unfold


@op("select_backward(grad: T, size: ints, dim: int, index: int)", kind="gather", method=False, function=False)
class select_backward:
    """Zeros of ``size`` with ``grad`` at ``index`` along ``dim``."""

    def kernel(g, size, dim, index):
        out = np.zeros(size, g.dtype)
        out[(slice(None),) * dim + (index,)] = g
        return out

    def meta(m, size, dim, index):
        return Meta(size, m.dtype)

    def vjp(g, dim, index):
        return select(g, dim, index)

    def ref(g, size, dim, index):
        out = np.zeros(size)
        out[(slice(None),) * dim + (index,)] = g
        return out

    def samples():
        yield Sample(t(3), (3, 4), 1, 2)


@op(
    "slice_backward(grad: T, size: ints, dim: int, start: int? = None, stop: int? = None, step: int = 1)",
    kind="gather",
    method=False,
    function=False,
)
class slice_backward:
    """Zeros of ``size`` with ``grad`` in the slice along ``dim``."""

    def kernel(g, size, dim, start=None, stop=None, step=1):
        out = np.zeros(size, g.dtype)
        out[(slice(None),) * dim + (slice(start, stop, step),)] = g
        return out

    def meta(m, size, dim, start=None, stop=None, step=1):
        return Meta(size, m.dtype)

    def vjp(g, dim, start, stop, step):
        return slice_(g, dim, start, stop, step)

    def ref(g, size, dim, start=None, stop=None, step=1):
        out = np.zeros(size)
        out[(slice(None),) * dim + (slice(start, stop, step),)] = g
        return out

    def samples():
        yield Sample(t(3, 2), (3, 5), 1, 1, 5, 2)
        yield Sample(t(2, 3), (4, 3), 0, 1, 3)


@op("slice_nd_backward(grad: T, size: ints, index: any)", kind="gather", method=False, function=False)
class slice_nd_backward:
    """Zeros of ``size`` with ``grad`` at a basic index."""

    def kernel(g, size, index):
        out = np.zeros(size, g.dtype)
        out[index] = g
        return out

    def meta(m, size, index):
        return Meta(size, m.dtype)

    def vjp(g, index):
        return slice_nd(g, index)

    def ref(g, size, index):
        out = np.zeros(size)
        out[index] = g
        return out

    def samples():
        yield Sample(t(3), (5, 4), (slice(1, 4), 2))


def _diagonal_of(out: np.ndarray, offset: int, dim1: int, dim2: int) -> np.ndarray:
    d = out.diagonal(offset, dim1, dim2)
    d.flags.writeable = True
    return d


@op(
    "diagonal_backward(grad: T, size: ints, offset: int, dim1: int, dim2: int)",
    kind="gather",
    method=False,
    function=False,
)
class diagonal_backward:
    """Zeros of ``size`` with ``grad`` on a diagonal."""

    def kernel(g, size, offset, dim1, dim2):
        out = np.zeros(size, g.dtype)
        _diagonal_of(out, offset, dim1, dim2)[...] = g
        return out

    def meta(m, size, offset, dim1, dim2):
        return Meta(size, m.dtype)

    def vjp(g, offset, dim1, dim2):
        return diagonal(g, offset, dim1, dim2)

    def samples():
        yield Sample(t(3), (3, 4), 1, 0, 1)


@op(
    "unfold_backward(grad: T, input_size: ints, dim: int, size: int, step: int)",
    kind="gather",
    method=False,
    function=False,
)
class unfold_backward:
    """Windows added up where they overlap: the transpose of ``unfold``."""

    def kernel(g, input_size, dim, size, step):
        if size < 0 or dim < 0:
            raise ValueError
        out = np.zeros(input_size, g.dtype)
        if not input_size:
            return out + g.sum()
        n = g.shape[dim]
        lead = (slice(None),) * dim
        for k in range(size):
            out[(*lead, slice(k, k + (n - 1) * step + 1, step))] += g[..., k]
        return out

    def meta(m, input_size, dim, size, step):
        if surely_less(size, 0):
            raise RuntimeError(f"size is {size} but must be >= 0")
        if surely_less(dim, 0):
            raise RuntimeError(f"dim is {dim} but must be >= 0")
        return Meta(input_size, m.dtype)

    def vjp(g, dim, size, step):
        return unfold(g, dim, size, step)

    def samples():
        yield Sample(t(3, 2, 3), (7, 2), 0, 3, 2)


def _check_src(name: str, want: Any, src: Meta) -> None:
    if len(want) != src.ndim or any(a is not b and a != b for a, b in zip(want, src.shape, strict=True)):
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(want)}"
        )


@op("select_scatter(input: T, src: T, dim: dim, index: int)", kind="gather")
class select_scatter:
    """A copy of ``input`` with ``src`` at ``index`` along ``dim``. RuntimeError for a src of another size."""

    def kernel(a, src, dim, index):
        lead = (slice(None),) * dim
        if a.ndim == 0 or a[(*lead, index, ...)].shape != src.shape:
            raise ValueError
        out = a.copy(order="K")
        out[(*lead, index)] = src
        return out

    def meta(m, src, dim, index):
        _check_src("select_scatter", select.meta(m, dim, index).shape, src)
        return Meta(m.shape, m.dtype)

    def vjp_input(g, src_meta, dim, index):
        return select_scatter(g, g.new_zeros(src_meta.shape), dim, index)

    def vjp_src(g, dim, index):
        return select(g, dim, index)

    def ref(a, src, dim, index):
        out = a.copy()
        out[(slice(None),) * dim + (index,)] = src
        return out

    def samples():
        yield Sample(t(3, 4), t(3), 1, 2)


@op("slice_scatter(input: T, src: T, dim: dim = 0, start: int? = None, end: int? = None, step: int = 1)", kind="gather")
class slice_scatter:
    """A copy of ``input`` with ``src`` in the slice along ``dim``. RuntimeError for a src of another size."""

    def kernel(a, src, dim=0, start=None, end=None, step=1):
        where = (slice(None),) * dim + (slice(start, end, step),)
        if a.ndim == 0 or step <= 0 or a[where].shape != src.shape:
            raise ValueError
        out = a.copy(order="K")
        out[where] = src
        return out

    def meta(m, src, dim=0, start=None, end=None, step=1):
        _check_src("slice_scatter", slice_.meta(m, dim, start, end, step).shape, src)
        return Meta(m.shape, m.dtype)

    def vjp_input(g, src_meta, dim, start, end, step):
        return slice_scatter(g, g.new_zeros(src_meta.shape), dim, start, end, step)

    def vjp_src(g, dim, start, end, step):
        return slice_(g, dim, start, end, step)

    def ref(a, src, dim=0, start=None, end=None, step=1):
        out = a.copy()
        out[(slice(None),) * dim + (slice(start, end, step),)] = src
        return out

    def samples():
        yield Sample(t(4, 3), t(2, 3), 0, 1, 3)
        yield Sample(t(3, 5), t(3, 2), 1, 0, 4, 2)


@op("diagonal_scatter(input: T, src: T, offset: int = 0, dim1: dim = 0, dim2: dim = 1)", kind="gather")
class diagonal_scatter:
    """A copy of ``input`` with ``src`` on a diagonal. RuntimeError for a src of another size."""

    def kernel(a, src, offset=0, dim1=0, dim2=1):
        out = a.copy(order="K")
        d = _diagonal_of(out, offset, dim1, dim2)
        if d.shape != src.shape:
            raise ValueError
        d[...] = src
        return out

    def meta(m, src, offset=0, dim1=0, dim2=1):
        _check_src("diagonal_scatter", diagonal.meta(m, offset, dim1, dim2).shape, src)
        return Meta(m.shape, m.dtype)

    def vjp_input(g, src_meta, offset, dim1, dim2):
        return diagonal_scatter(g, g.new_zeros(src_meta.shape), offset, dim1, dim2)

    def vjp_src(g, offset, dim1, dim2):
        return diagonal(g, offset, dim1, dim2)

    def samples():
        yield Sample(t(3, 4), t(3), 1)


# ---- arbitrary strides


def _check_bounds(nbytes: Any, itemsize: int, size: tuple, stride: tuple, offset: Any) -> None:
    """RuntimeError if a view with these strides would leave a memory block of ``nbytes``."""
    some = numel_of(size)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if some else offset
    if offset < 0 or any(s < 0 for s in stride) or (some and (last + 1) * itemsize > nbytes):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are out of bounds "
            f"for storage of size {nbytes}"
        )


def _strided(a: np.ndarray, size: tuple, stride: tuple, offset: int | None) -> np.ndarray:
    """A view with these strides in elements; ``offset`` counts from the start of the memory block."""
    root = root_array(a)
    base = root.__array_interface__["data"][0]
    here = (a.__array_interface__["data"][0] - base) // a.itemsize
    offset = here if offset is None else offset
    _check_bounds(root.nbytes, a.itemsize, size, stride, offset)
    if not root.flags.c_contiguous and not root.flags.f_contiguous:
        raise RuntimeError("as_strided: the memory of this tensor is not one contiguous block")
    if not root.flags.c_contiguous:
        root = root.T
    return np.ndarray(size, a.dtype, root, offset * a.itemsize, tuple(s * a.itemsize for s in stride))


@op(
    "as_strided(input: T, size: ints, stride: ints, storage_offset: int? = None)",
    kind="view",
    method=False,
    function=False,
)
class as_strided_op:
    """The memory of ``input`` with any sizes and strides (in elements). RuntimeError outside of the memory."""

    meta_layout = True  # the gradient needs the strides of the input

    def kernel(a, size, stride, storage_offset=None):
        if len(size) != len(stride):
            raise RuntimeError("mismatch in length of strides and shape")
        return _strided(a, size, stride, storage_offset)

    def meta(m, size, stride, storage_offset=None):
        if len(size) != len(stride):
            raise RuntimeError("mismatch in length of strides and shape")
        return relayout(m, size, stride)

    def within(memory, size, stride, storage_offset=None):
        """Check against the shape and dtype of the whole memory block."""
        itemsize = memory.dtype.itemsize
        _check_bounds(numel_of(memory.shape) * itemsize, itemsize, size, stride, storage_offset or 0)

    def vjp(g, input_meta, size, stride, storage_offset):
        return as_strided_backward(g, input_meta.shape, input_meta.stride(), size, stride, storage_offset)

    def samples():
        yield Sample(t(3, 4), (2, 2), (1, 4), 1)
        yield Sample(t(6), (3, 2), (1, 1))


@op(
    "as_strided_from(input: T, size: ints, stride: ints, storage_offset: int, start: int)",
    kind="view",
    method=False,
    function=False,
)
class as_strided_from:
    """``as_strided`` of a view that starts at ``start`` of the memory block: the gradient counts from there."""

    meta_layout = True

    def kernel(a, size, stride, storage_offset, start):
        return as_strided_op.kernel(a, size, stride, storage_offset)

    def meta(m, size, stride, storage_offset, start):
        return as_strided_op.meta(m, size, stride, storage_offset)

    def vjp(g, input_meta, size, stride, storage_offset, start):
        return as_strided_backward(g, input_meta.shape, input_meta.stride(), size, stride, storage_offset - start)

    def samples():
        yield Sample(t(6), (2, 2), (1, 2), 0, 0)


@function("as_strided(input: T, size: ints, stride: ints, storage_offset: int)")
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """The memory of ``input`` with any sizes and strides (in elements). RuntimeError outside of the memory."""
    if storage_offset is not None and input._view is not None:
        if input._data is None and not input._g.handler.level:
            raise NotRecordedError("as_strided of a view: where its memory starts is not known in a graph")
        start = input.storage_offset() if input._data is not None else 0
        if start:
            found = as_strided_from(input, size, stride, storage_offset, start)
            return found if found._node is None else renamed(found, "AsStridedBackward0")
    return as_strided_op(input, size, stride, storage_offset)


def _positions(size: Any, stride: Any) -> np.ndarray:
    """Memory positions of the elements, relative to the first."""
    pos = np.zeros((), np.int64)
    for n, s in zip(size, stride, strict=True):
        pos = pos[..., None] + np.arange(n) * s
    return pos - min(int(pos.min(initial=0)), 0)


def _places(input_size: Any, input_stride: Any, size: Any, stride: Any, offset: int | None) -> tuple:
    """Positions of an input's elements and of those of its ``as_strided``, which may start before it."""
    before = max(-(offset or 0), 0)
    return _positions(input_size, input_stride) + before, _positions(size, stride) + (offset or 0) + before


@op(
    "as_strided_backward(grad: T, input_size: ints, input_stride: ints, size: ints, stride: ints, offset: int? = None)",
    kind="extern",
    method=False,
    function=False,
)
class as_strided_backward:
    """Gradient of ``as_strided``: adds up over memory cells; cells that input elements share are split evenly."""

    def kernel(g, input_size, input_stride, size, stride, offset=None):
        source, taken = _places(input_size, input_stride, size, stride, offset)
        cells = np.zeros(1 + max(source.max(initial=0), taken.max(initial=0)), g.dtype)
        np.add.at(cells, taken.ravel(), g.ravel())
        shared = np.bincount(source.ravel(), minlength=cells.size)
        return (cells / np.maximum(shared, 1))[source].astype(g.dtype)

    def meta(m, input_size, input_stride, size, stride, offset=None):
        return Meta(input_size, m.dtype)

    def vjp(g, input_stride, size, stride, offset):
        return as_strided_forward(g, input_stride, size, stride, offset)

    def samples():
        yield Sample(t(3, 2), (6,), (1,), (3, 2), (1, 1), 0)


@op(
    "as_strided_forward(input: T, input_stride: ints, size: ints, stride: ints, offset: int? = None)",
    kind="extern",
    method=False,
    function=False,
)
class as_strided_forward:
    """The elements ``as_strided`` would see if ``input`` had the strides ``input_stride`` (a copy)."""

    def kernel(a, input_stride, size, stride, offset=None):
        source, taken = _places(a.shape, input_stride, size, stride, offset)
        cells = np.zeros(1 + max(source.max(initial=0), taken.max(initial=0)), a.dtype)
        shared = np.maximum(np.bincount(source.ravel(), minlength=cells.size), 1)
        np.add.at(cells, source.ravel(), a.ravel())
        return (cells / shared)[taken].astype(a.dtype)

    def meta(m, input_stride, size, stride, offset=None):
        return Meta(size, m.dtype)

    def vjp(g, input_meta, input_stride, size, stride, offset):
        return as_strided_backward(g, input_meta.shape, input_stride, size, stride, offset)

    def samples():
        yield Sample(t(6), (1,), (3, 2), (1, 1), 0)


_restrided("as_strided_", as_strided)


@function("as_strided_scatter(input: T, src: T, size: ints, stride: ints, storage_offset: int)")
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """A copy of ``input`` with ``src`` written where ``as_strided`` would look."""
    out = input.clone()
    out = out if out.is_contiguous() else out.contiguous()
    as_strided(out, size, stride, storage_offset).copy_(src)
    return out


@function("resize_(input: T, *sizes: ints)", function=False)
def resize_(input: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Another shape in place: the first elements stay, the rest is arbitrary. RuntimeError if it requires grad."""
    from ..inplace import bump, check_inference
    from .view import _shape_arg

    check_inference(input)

    shape = _shape_arg(sizes)
    if input.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(s < 0 for s in shape):
        raise RuntimeError(f"requested resize to {list(shape)}, but negative sizes are not allowed")
    axes = format_axes(memory_format or "contiguous", len(shape))
    d, n = need_data(input, "resize_"), numel_of(shape)
    if tuple(d.shape) != tuple(shape):
        flat = d.reshape(-1) if d.flags.c_contiguous else d.copy().reshape(-1)
        if n > flat.size:
            more = np.zeros(n, d.dtype)
            more[: flat.size] = flat
            flat = more
        input._data = flat[:n].reshape(shape)
        bump(input)
    if memory_format not in (None, "contiguous") and not input.is_contiguous(memory_format):
        flat = input._data.reshape(-1)
        input._data = flat.reshape([shape[a] for a in axes]).transpose(np.argsort(axes))
        bump(input)
    return input


@function("resize_as_(input: T, other: T)")
def resize_as_(input: Any, other: Any, memory_format: Any = None) -> Any:
    """The shape of ``other``, in place."""
    return resize_(input, other.shape, memory_format=memory_format)
