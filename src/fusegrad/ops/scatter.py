"""Writing single elements at indices: scatter, scatter_add, scatter_reduce. (Whole slices: ``index_write``.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..arguments import NUMBERS
from ..meta import Meta, normalize_dim
from ..op import Inline, Sample, function, op
from ..tensor import Tensor
from ._index_kernels import (
    SCATTER,
    SCATTER_ADD,
    add_flat,
    add_rows,
    added,
    combined,
    few_places,
    flat_slots,
    same_dtype,
    scatter_slots,
    whole_slices,
)
from ._inplace_forms import Quick, _in_place, written
from ._samples import t, ti
from .index import _gather_checks, _gather_shapes, _gather_usual, gather_op


def _flat(out: np.ndarray, index: np.ndarray, src: Any, dim: int) -> tuple:
    """Views of at least one dimension of everything, and the part of src that index covers."""
    if out.ndim == 0:
        out = out.reshape(1)
    if index.ndim == 0:
        index = index.reshape(1)
    if isinstance(src, np.ndarray):
        if src.ndim == 0:
            src = src.reshape(1)
        elif src.shape != index.shape:
            src = src[tuple([slice(n) for n in index.shape])]
    return out, index, src


def _scatter(out: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> None:
    same_dtype("scatter", out, src)
    _gather_usual("scatter", out, index, dim, src)
    if index.size:
        o, i, s = _flat(out, index, src, dim)
        o[scatter_slots(i, dim)] = s


@op("scatter(input: T, index: T, src: T, dim: int)", kind="gather", method=False, function=False)
class scatter_op:
    """A copy of ``input`` with ``out[index[i][j]][j] = src[i][j]`` (for dim 0)."""

    write = _scatter

    def kernel(a, index, src, dim):
        if index.size <= 4096:
            found = added(SCATTER, a, index, src, dim)
        else:
            found = combined(a, index, src, dim, "put", True) if a.ndim == index.ndim else None
        if found is not None:
            return found
        out = a.copy()
        _scatter(out, index, src, dim)
        return out

    def meta(m, index, src, dim):
        same_dtype("scatter", m, src)
        _gather_shapes("scatter", m, index, dim, src)
        return Meta(m.shape, m.dtype)

    def vjp_input(g, index, dim):
        return scatter_value_op(g, index, 0, dim)

    def vjp_src(g, index, src_meta, dim):
        return _src_grad(gather_op(g, index, dim), src_meta)

    def ref(a, index, src, dim):
        out = a.copy()
        np.put_along_axis(out, index, src[tuple(slice(n) for n in index.shape)], dim)
        return out

    def samples():
        yield Sample(t(3, 4), np.array([[0, 1, 2, 0]]), t(1, 4), 0)
        yield Sample(t(3, 4), np.array([[0, 2], [3, 1], [1, 0]]), t(3, 2), 1)


def _src_grad(g: Any, src_meta: Meta) -> Any:
    """The gradient for the part of src that was used, zeros for the rest."""
    from .view_grads import slice_backward

    shape = tuple(src_meta.shape)
    if g.ndim != len(shape):
        return g.reshape(shape)
    for d in range(len(shape)):
        have, want = g.shape[d], shape[d]
        if have is not want and have != want:
            g = slice_backward(g, (*g.shape[:d], want, *g.shape[d + 1 :]), d, 0, have, 1)
    return g


def _scatter_value(out: np.ndarray, index: np.ndarray, value: Any, dim: int) -> None:
    value = dt.element(value, dt.FROM_NUMPY[out.dtype])
    _gather_usual("scatter", out, index, dim)
    if index.size:
        o, i, _ = _flat(out, index, None, dim)
        o[scatter_slots(i, dim)] = value


@op("scatter_value(input: T, index: T, value: num, dim: int)", kind="gather", method=False, function=False)
class scatter_value_op:
    """A copy of ``input`` with one number at the places a scatter would write."""

    write = _scatter_value

    def kernel(a, index, value, dim):
        out = a.copy()
        _scatter_value(out, index, value, dim)
        return out

    def meta(m, index, value, dim):
        dt.element(value, m.dtype)
        _gather_shapes("scatter", m, index, dim)
        return Meta(m.shape, m.dtype)

    def vjp_input(g, index, dim):
        return scatter_value_op(g, index, 0, dim)

    def ref(a, index, value, dim):
        out = a.copy()
        np.put_along_axis(out, index, value, dim)
        return out

    def samples():
        yield Sample(t(3, 4), np.array([[0, 1, 2, 0]]), 1.5, 0)


def _add_few(out: np.ndarray, where: tuple, values: np.ndarray) -> None:
    """``out[where] += values``, positions that are hit several times in order."""
    if out.dtype.kind == "b":
        np.logical_or.at(out, where, values)
    else:
        np.add.at(out, where, values)


def _scatter_add(out: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> None:
    """Add into ``out``, which is contiguous."""
    if added(SCATTER_ADD, out, index, src, dim, into=True) is None:
        _add_all(out, index, src, dim)


def _add_all(out: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> None:
    """The same by numpy's passes."""
    same_dtype("scatter", out, src)
    _gather_usual("scatter_add", out, index, dim, src)
    if 0 < index.size < 64 and out.ndim == index.ndim and out.ndim and src.ndim == out.ndim:
        part = src if src.shape == index.shape else src[tuple([slice(n) for n in index.shape])]
        _add_few(out, scatter_slots(index, dim), part)
    elif index.size:
        o, i, s = _flat(out, index, src, dim)
        rows = whole_slices(i, o.shape, dim)
        if rows is not None:
            add_rows(np.moveaxis(o, dim, 0), rows, np.moveaxis(s, dim, 0))
        else:
            add_flat(o.reshape(-1), flat_slots(o.shape, i, dim).reshape(-1), s.reshape(-1))


@op("scatter_add(input: T, index: T, src: T, dim: int)", kind="gather", method=False, function=False)
class scatter_add_op:
    """A copy of ``input`` with ``out[index[i][j]][j] += src[i][j]`` (for dim 0); repeated places add up."""

    write = _scatter_add

    def kernel(a, index, src, dim):
        if (found := added(SCATTER_ADD, a, index, src, dim)) is not None:
            return found
        out = a.copy("C")
        _add_all(out, index, src, dim)
        return out

    def meta(m, index, src, dim):
        same_dtype("scatter", m, src)
        _gather_shapes("scatter_add", m, index, dim, src)
        return Meta(m.shape, m.dtype)

    def vjp_input(g):
        return g

    def vjp_src(g, index, src_meta, dim):
        return _src_grad(gather_op(g, index, dim), src_meta)

    def ref(a, index, src, dim):
        out = a.copy()
        np.add.at(out, scatter_slots(index, dim % a.ndim), src[tuple(slice(n) for n in index.shape)])
        return out

    def samples():
        yield Sample(t(3, 4), ti(3, 5, 4), t(5, 4), 0)
        yield Sample(t(3, 4), ti(4, 2, 6), t(3, 6), 1)


_REDUCERS = {"sum": np.add, "prod": np.multiply, "mean": np.add, "amax": np.maximum, "amin": np.minimum}


@op(
    "scatter_reduce(input: T, index: T, src: T, dim: int, reduce: str, include_self: bool = True)",
    kind="gather",
    method=False,
    function=False,
)
class scatter_reduce_op:
    """Scatter that combines values that meet: sum, prod, mean, amax, amin; ``include_self`` counts the input too."""

    def kernel(a, index, src, dim, reduce, include_self=True):
        same_dtype("scatter", a, src)
        if a.ndim == index.ndim and a.ndim:
            found = combined(a, index, src, dim % a.ndim, reduce, include_self)
            if found is not None:
                return found
        _gather_checks("scatter_reduce", a, index, dim, src)
        out = a.copy()
        if not index.size:
            return out
        o, i, s = _flat(out, index, src, dim)
        where = tuple(np.broadcast_arrays(*scatter_slots(i, dim)))
        if not include_self:
            o[where] = _identity(reduce, a.dtype)
        _REDUCERS[reduce].at(o, where, s)
        if reduce == "mean":
            count = np.zeros(o.shape, np.int64)
            np.add.at(count, where, 1)
            count = np.maximum(count + bool(include_self), 1)
            o[...] = o / count if a.dtype.kind == "f" else np.floor_divide(o, count)
        return out

    def meta(m, index, src, dim, reduce, include_self=True):
        same_dtype("scatter", m, src)
        _gather_shapes("scatter_reduce", m, index, dim, src)
        return Meta(m.shape, m.dtype)

    def vjp(g, input, index, src, out, dim, reduce, include_self, need):
        gi, gs = _scatter_reduce_grads(g, input, index, src, out, dim, reduce, include_self)
        return gi, None, gs

    def samples():
        for r in ("sum", "mean", "amax", "prod"):
            yield Sample(t(3, 4), ti(3, 5, 4), t(5, 4), 0, r)
        yield Sample(t(3, 4), ti(3, 5, 4), t(5, 4), 0, "amin", False)


def _identity(reduce: str, d: np.dtype) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if d.kind == "f":
        return -np.inf if reduce == "amax" else np.inf
    if d.kind == "b":
        return reduce == "amin"
    info = np.iinfo(d)
    return info.min if reduce == "amax" else info.max


def _scatter_reduce_grads(
    g: Any, x: Any, index: Any, src: Any, out: Any, dim: int, reduce: str, include_self: bool
) -> tuple:
    """Gradients of scatter_reduce for its input and its source."""
    src_meta = src.meta_()
    if x.ndim == 0 or index.ndim == 0:
        shape = (1,)
        gi, gs = _scatter_reduce_grads(
            g.reshape(shape),
            x.reshape(shape),
            index.reshape((-1,)),
            src.reshape((-1,)),
            out.reshape(shape),
            0,
            reduce,
            include_self,
        )
        return gi.reshape(x.shape), gs.reshape(src.shape)
    if tuple(src.shape) != tuple(index.shape):
        for d in range(src.ndim):
            src = src.narrow(d, 0, index.shape[d])

    def back(v: Any) -> Any:
        return _src_grad(v, src_meta)

    def hit(v: Any) -> Any:
        return v if include_self else scatter_value_op(v, index, 0, dim)

    if reduce == "sum":
        return hit(g), back(gather_op(g, index, dim))
    if reduce == "mean":
        ones = x.new_ones(x.shape)
        count = scatter_add_op(hit(ones), index, src.new_ones(src.shape), dim)
        count = count.masked_fill(count == 0, 1)
        return hit(g) / count, back(gather_op(g / count, index, dim))
    if reduce == "prod":
        return _scatter_prod_grads(g, x, index, src, dim, hit, back)
    same_x = (x == out).to(g.dtype)
    same_src = (src == gather_op(out, index, dim)).to(g.dtype)
    count = scatter_add_op(hit(same_x), index, same_src, dim)
    count = count.masked_fill(count == 0, 1)  # untouched places (their mask is 0 where self is left out)
    count = count.masked_fill(out != out, float("nan"))  # which one an extremum is, NaN doesn't tell
    share = g / count
    gi = share * same_x if include_self else scatter_value_op(g, index, 0, dim)
    return gi, back(same_src * gather_op(share, index, dim))


def _scatter_prod_grads(g: Any, x: Any, index: Any, src: Any, dim: int, hit: Any, back: Any) -> tuple:
    """Products of the other factors of each place.

    Zeros are kept apart: ``rest`` multiplies what is not zero, ``nil`` the zeros, and ``total`` adds the zeros up (the
    other one of two), so that second derivatives are right, too.
    """
    base = x if hit(x) is x else scatter_value_op(x, index, 1, dim)
    zero_x, zero_src = base == 0, src == 0
    plain_x, plain = base.masked_fill(zero_x, 1), src.masked_fill(zero_src, 1)
    count = scatter_add_op(zero_x.to(g.dtype), index, zero_src.to(g.dtype), dim)
    rest = scatter_reduce_op(plain_x, index, plain, dim, "prod", True)
    nil = scatter_reduce_op(base.masked_fill(~zero_x, 1), index, src.masked_fill(~zero_src, 1), dim, "prod", True)
    total = scatter_add_op(base * zero_x, index, src * zero_src, dim)
    one, two = rest * (count == 1), rest * (count == 2)
    others_x = (one + two * (total - base)).where(zero_x, rest * nil / plain_x)
    of_zero = gather_op(one + two * total, index, dim) - gather_op(two, index, dim) * src
    others_src = of_zero.where(zero_src, gather_op(rest * nil, index, dim) / plain)
    return hit(g) * others_x, back(gather_op(g, index, dim) * others_src)


@function(
    "scatter(input: T, dim: dim, index: T, src: Tn, value: num)",
    inline=Inline(
        scatter_op,
        "value is None and reduce is None and type(dim) is int and -(n := a0.ndim) <= dim < n",
        dim="dim % n",
    ),
)
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """A copy with ``src`` (tensor or number) at ``index`` along ``dim``; ``reduce`` "add" or "multiply" combines."""
    what = src if value is None else value
    d = normalize_dim(dim, input.ndim)
    if not isinstance(what, Tensor):
        if isinstance(what, (np.number, np.bool_)):
            what = what.item()
        elif not isinstance(what, NUMBERS):
            raise TypeError(f"scatter(): argument 'src' must be Tensor or number, not {type(what).__name__}")
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError("reduce argument must be either add or multiply.")
        if not isinstance(what, Tensor):
            what = input.new_full(index.shape, what)
        if reduce == "add":
            return scatter_add_op(input, index, what, d)
        return scatter_reduce_op(input, index, what, d, "prod", True)
    return scatter_op(input, index, what, d) if isinstance(what, Tensor) else scatter_value_op(input, index, what, d)


def _scattered(d: np.ndarray, dim: int, index: np.ndarray, src: Any) -> bool:
    """Write few elements into a vector; whether that was all."""
    if not few_places(d, dim, index):
        return False
    if type(src) is np.ndarray:
        n = len(index)
        if src.dtype is not d.dtype or src.ndim != 1 or len(src) < n:
            return False
        d[index] = src if len(src) == n else src[:n]
        return True
    if d.dtype.char not in "fd" or not -60000 < src < 60000:
        return False
    d[index] = src
    return True


@function(
    "scatter_(input: T, dim: dim, index: T, src: Tn, value: num)",
    function=False,
    inline=Quick(_scattered, "input", "dim", "index", "src"),
)
def scatter_(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """In-place form of ``scatter``."""
    what = src if value is None else value
    if reduce is None and -(n := input.ndim) <= dim < n:
        entry = scatter_op if isinstance(what, Tensor) else scatter_value_op
        if written(input, entry, index, what, dim=dim % n):
            return input
    return _in_place(input, lambda old: scatter(old, dim, index, src, value=value, reduce=reduce), index, what)


@function(
    "scatter_add(input: T, dim: dim, index: T, src: T)",
    inline=Inline(scatter_add_op, "type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with ``src`` added at ``index`` along ``dim``."""
    return _scatter_add_op(input, index, src, normalize_dim(dim, input.ndim))


_scatter_add_op = scatter_add_op.fn


def _scatter_added(d: np.ndarray, dim: int, index: np.ndarray, src: Any) -> bool:
    """Add few elements to a vector; whether that was all."""
    fits = few_places(d, dim, index) and type(src) is np.ndarray and src.dtype is d.dtype and d.dtype.char in "fd"
    if not fits or src.ndim != 1 or len(src) < len(index):
        return False
    np.add.at(d, index, src if len(src) == len(index) else src[: len(index)])
    return True


@function(
    "scatter_add_(input: T, dim: dim, index: T, src: T)",
    function=False,
    inline=Quick(_scatter_added, "input", "dim", "index", "src"),
)
def scatter_add_(input: Any, dim: int, index: Any, src: Any) -> Any:
    """In-place form of ``scatter_add``."""
    if -(n := input.ndim) <= dim < n and written(input, scatter_add_op, index, src, dim=dim % n):
        return input
    return _in_place(input, lambda old: scatter_add(old, dim, index, src), index, src)


@function("scatter_reduce(input: T, dim: dim, index: T, src: T, reduce: str, include_self: bool)")
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Scatter with ``reduce`` "sum", "prod", "mean", "amax" or "amin"."""
    if reduce not in _REDUCERS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    return scatter_reduce_op(input, index, src, normalize_dim(dim, input.ndim), reduce, include_self)


@function("scatter_reduce_(input: T, dim: dim, index: T, src: T, reduce: str, include_self: bool)", function=False)
def scatter_reduce_(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place form of ``scatter_reduce``."""
    return _in_place(
        input, lambda old: scatter_reduce(old, dim, index, src, reduce, include_self=include_self), index, src
    )
