"""Views of a part: one slice, a range, a basic index, a diagonal, sliding windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta, normalize_dim, surely_less
from ..op import Inline, Sample, function, late_op, op
from ..size_values import SymbolicSize
from ._samples import t
from ._shapes import restride
from .view import relayout

diagonal_backward = late_op("diagonal_backward")
select_backward = late_op("select_backward")
slice_backward = late_op("slice_backward")
slice_nd_backward = late_op("slice_nd_backward")
unfold_backward = late_op("unfold_backward")


def _index_error(i: Any, d: int, n: Any) -> IndexError:
    return IndexError(f"select(): index {i} out of range for tensor of size {n} at dimension {d}")


@op("select(input: T, dim: dim, index: int)", kind="view")
class select:
    """The slice at ``index`` along ``dim``, which disappears. IndexError out of range."""

    def kernel(a, dim, index):
        if a.ndim == 0:
            raise IndexError
        return a[(slice(None),) * dim + (index, ...)]

    def meta(m, dim, index):
        if m.ndim == 0:
            raise IndexError("select() cannot be applied to a 0-dim tensor.")
        n = m.shape[dim]
        if index >= n or index < -n:
            raise _index_error(index, dim, n)
        shape = (*m.shape[:dim], *m.shape[dim + 1 :])
        if m.strides is None and dim == 0:
            return Meta(shape, m.dtype)
        s = m.stride()
        return relayout(m, shape, (*s[:dim], *s[dim + 1 :]))

    def vjp(g, input_meta, dim, index):
        return select_backward(g, input_meta.shape, dim, index)

    def ref(a, dim, index):
        return np.take(a, index, axis=dim)

    def samples():
        yield Sample(t(3, 4), 0, 1)
        yield Sample(t(2, 3, 4), 1, -1)

    def errors():
        yield (t(2, 3), 0, 2), {}, IndexError, "out of range"


def slice_bounds(n: Any, start: Any, stop: Any) -> tuple[Any, Any]:
    """Python's clamping of slice bounds, for int and symbolic sizes (step > 0)."""
    from ..size_values import sym_max, sym_min

    if all(type(x) is int or x is None for x in (n, start, stop)):
        a, b, _ = slice(start, stop, 1).indices(n)
        return a, max(a, b)
    start = 0 if start is None else start
    if not (type(start) is int and start == 0):
        start = sym_max(start + n, 0) if start < 0 else sym_min(start, n)
    if stop is None or (type(stop) is int and stop >= 2**62):
        stop = n
    elif stop is not n:
        stop = sym_max(stop + n, 0) if stop < 0 else sym_min(stop, n)
    if type(start) is int and start == 0:
        return start, stop
    return start, sym_max(start, stop)


@op(
    "slice(input: T, dim: dim, start: int? = None, stop: int? = None, step: int = 1)",
    kind="view",
    method=False,
    function=False,
)
class slice_:
    """``input[start:stop:step]`` along ``dim``, with Python's clamping; the step is positive."""

    def kernel(a, dim, start=None, stop=None, step=1):
        if step <= 0 or a.ndim == 0:
            raise ValueError
        return a[(slice(None),) * dim + (slice(start, stop, step),)]

    def meta(m, dim, start=None, stop=None, step=1):
        if surely_less(step, 1):
            raise RuntimeError("slice step must be positive")
        if m.ndim == 0:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        a, b = slice_bounds(m.shape[dim], start, stop)
        n = b - a if step == 1 else (b - a + step - 1) // step
        shape = (*m.shape[:dim], n, *m.shape[dim + 1 :])
        s = m.stride()
        if m.strides is None and n is m.shape[dim]:
            return Meta(shape, m.dtype)
        if m.strides is None and dim == 0 and step == 1:
            return Meta(shape, m.dtype)
        return relayout(m, shape, (*s[:dim], s[dim] * step, *s[dim + 1 :]))

    def vjp(g, input_meta, dim, start, stop, step):
        return slice_backward(g, input_meta.shape, dim, start, stop, step)

    def ref(a, dim, start=None, stop=None, step=1):
        return a[(slice(None),) * (dim % a.ndim) + (slice(start, stop, step),)]

    def samples():
        yield Sample(t(5, 4), 0, 1, 4)
        yield Sample(t(5, 6), 1, -4, None, 2)
        yield Sample(t(2, 3), 0, 1, 1)


def _step(i: slice) -> Any:
    step = 1 if i.step is None else i.step
    if surely_less(step, 1):
        raise ValueError("step must be greater than zero")
    return step


@op("slice_nd(input: T, index: any)", kind="view", method=False, function=False)
class slice_nd:
    """``input[index]`` for a tuple of ints, slices, None and at most one ``...`` (eager calls of ``x[...]`` use it)."""

    def kernel(a, index):
        part = a[index]
        if type(part) is np.ndarray:
            return part
        return a[(*index, Ellipsis)]  # one element: a view of it, not its value

    def meta(m, index):
        used = sum(i is not None and i is not Ellipsis for i in index)
        if used > m.ndim:
            raise IndexError(f"too many indices for tensor of dimension {m.ndim}")
        shape, strides, own, d = [], [], m.stride(), 0
        for i in index if Ellipsis in index else (*index, Ellipsis):
            if i is None:
                shape.append(1)
                strides.append(own[d] * m.shape[d] if d < m.ndim else 1)
            elif i is Ellipsis:
                n = m.ndim - used
                shape += m.shape[d : d + n]
                strides += own[d : d + n]
                d += n
            elif isinstance(i, slice):
                lo, hi = slice_bounds(m.shape[d], i.start, i.stop)
                step = _step(i)
                shape.append(hi - lo if step == 1 else (hi - lo + step - 1) // step)
                strides.append(own[d] * step)
                d += 1
            else:
                n = m.shape[d]
                if not -n <= i < n:
                    raise IndexError(f"index {i} is out of bounds for dimension {d} with size {n}")
                d += 1
        return relayout(m, shape, strides)

    def vjp(g, input_meta, index):
        return slice_nd_backward(g, input_meta.shape, index)

    def ref(a, index):
        return a[index]

    def samples():
        yield Sample(t(5, 4), (slice(1, 4), 2))
        yield Sample(t(2, 3, 4), (0, None, Ellipsis, slice(None, None, 2)))
        yield Sample(t(3), (1,))

    def errors():
        yield (t(2, 3), (2,)), {}, IndexError, "out of bounds"
        yield (t(2, 3), (0, 0, 0)), {}, IndexError, "too many indices"


@function(
    "narrow(input: T, dim: dim, length: int)",
    inline=Inline(
        slice_,
        "type(dim) is int and type(start) is int and type(length) is int and -(n := a0.ndim) <= dim < n "
        "and start >= 0 <= length and start + length <= a0.shape[dim]",
        dim="dim % n",
        stop="start + length",
        step="1",
    ),
)
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """``length`` elements from ``start`` along ``dim``, as a view. RuntimeError or IndexError out of range."""
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if hasattr(start, "_data"):
        if start.ndim != 0 or start.is_floating_point() or start.dtype is dt.bool_:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item()
    if isinstance(length, (int, SymbolicSize)) and length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = normalize_dim(dim, input.ndim)
    n = input.shape[dim]
    first = start + n if start < 0 else start
    if first < 0 or (first + length > n and first > n):  # (sizes and starts that vary are asked no more than they must)
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start = first
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return slice_(input, dim, start, start + length, 1)


@op("diagonal(input: T, offset: int = 0, dim1: dim = 0, dim2: dim = 1)", kind="view")
class diagonal:
    """The diagonal of dimensions ``dim1`` and ``dim2``, as the last dimension. RuntimeError if they are the same."""

    def kernel(a, offset=0, dim1=0, dim2=1):
        if dim1 == dim2:
            raise ValueError
        out = a.diagonal(offset, dim1, dim2)
        if not out.flags.writeable and a.flags.writeable:
            out.flags.writeable = True
        return out

    def meta(m, offset=0, dim1=0, dim2=1):
        if dim1 == dim2:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        from ..size_values import sym_max, sym_min

        h, w = m.shape[dim1], m.shape[dim2]
        n = sym_min(h, w - offset) if offset >= 0 else sym_min(h + offset, w)
        s = m.stride()
        rest = [i for i in range(m.ndim) if i not in (dim1, dim2)]
        return relayout(m, [*(m.shape[i] for i in rest), sym_max(n, 0)], [*(s[i] for i in rest), s[dim1] + s[dim2]])

    def vjp(g, input_meta, offset, dim1, dim2):
        return diagonal_backward(g, input_meta.shape, offset, dim1, dim2)

    def ref(a, offset=0, dim1=0, dim2=1):
        return np.diagonal(a, offset, dim1, dim2)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(2, 3, 4), 1, 0, -1)
        yield Sample(t(3, 3), -2)

    def errors():
        yield (t(2, 3), 0, 1, 1), {}, RuntimeError, "identical"


@op("unfold(input: T, dimension: dim, size: int, step: int)", kind="view")
class unfold:
    """Windows of ``size`` every ``step`` elements along a dimension, as a new last dimension."""

    def kernel(a, dimension, size, step):
        if a.ndim == 0:
            if size > 1 or step <= 0 or size < 0:
                raise ValueError
            return restride(a, (size,), (a.itemsize,))
        n = a.shape[dimension]
        if size > n or step <= 0 or size < 0:
            raise ValueError
        shape, st = list(a.shape), list(a.strides)
        st.append(st[dimension])
        shape[dimension], st[dimension] = (n - size) // step + 1, st[dimension] * step
        return restride(a, (*shape, size), tuple(st))

    def meta(m, dimension, size, step):
        if surely_less(size, 0):
            raise RuntimeError(f"size is {size} but must be >= 0")
        if surely_less(step, 1):
            raise RuntimeError(f"step is {step} but must be > 0")
        n = m.shape[dimension] if m.ndim else 1
        if size > n:
            raise RuntimeError(f"maximum size for tensor at dimension {dimension} is {n} but size is {size}")
        if not m.ndim:
            return Meta((size,), m.dtype)
        s, shape = list(m.stride()), list(m.shape)
        s.append(s[dimension])
        shape[dimension], s[dimension] = (n - size) // step + 1, s[dimension] * step
        return relayout(m, (*shape, size), s)

    def vjp(g, input_meta, dimension, size, step):
        return unfold_backward(g, input_meta.shape, dimension, size, step)

    def ref(a, dimension, size, step):
        windows = np.lib.stride_tricks.sliding_window_view(a, size, dimension % a.ndim)
        return windows[(slice(None),) * (dimension % a.ndim) + (slice(None, None, step),)]

    def samples():
        yield Sample(t(7, 2), 0, 3, 2)
        yield Sample(t(2, 5), 1, 2, 1)

    def errors():
        yield (t(3), 0, 4, 1), {}, RuntimeError, "maximum size"
