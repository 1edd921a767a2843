"""Writing at indices: scatter and its relatives, index_add, index_copy, index_fill, masked_scatter."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..arguments import NUMBERS
from ..meta import Meta, normalize_dim
from ..native.on_demand import defined
from ..op import Inline, Sample, function, op
from ..tensor import Tensor
from ._index_kernels import add_at, add_flat, add_rows, check_range, flat_slots, scatter_slots, whole_slices
from ._inplace_forms import _in_place, into_expanded
from ._samples import t, ti
from .index import _gather_checks, _gather_shapes, _gather_usual, gather_op, index_select_op


def _same_dtype(name: str, m: Any, src: Any) -> None:
    if m.dtype != src.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")


# ---- along a dimension, whole slices


def _index_checks(name: str, a: Any, index: Any, source: Any, dim: int) -> None:
    """Common to index_add and index_copy; works on arrays and Metas."""
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {index.ndim})")
    if source.ndim != 0 and a.ndim != source.ndim and a.ndim != 0:
        raise RuntimeError(f"{name}(): source has {source.ndim} dimensions, self has {a.ndim}")
    n = index.shape[0] if index.ndim else 1
    have = source.shape[dim] if source.ndim else 1
    if n is not have and n != have:
        raise (RuntimeError if name == "index_add" else IndexError)(
            f"{name}(): Number of indices ({n}) should be equal to source.size(dim) ({have})"
        )
    if source.ndim and a.ndim:
        for d, (x, y) in enumerate(zip(a.shape, source.shape, strict=True)):
            if d != dim and x is not y and x != y:
                raise RuntimeError(
                    f"{name}(): source and destination sizes differ at dimension {d}: {list(source.shape)} and "
                    f"{list(a.shape)}"
                )


_INT64, _LITTLE = dt.int64.np, 4096  # elements: beyond, numpy's passes are as quick
_SCATTER_ADD, _INDEX_ADD = defined("picks", "scatter_add"), defined("picks", "index_add")


def _added(kernels: Any, a: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int) -> np.ndarray | None:
    """``scatter_add`` (or ``index_add``, whose index is a vector) of a few numbers in machine code; None for the rest,
    and for what is wrong: shapes, dtypes, indices.
    """
    shape, given, picks = a.shape, src.shape, index.shape
    if not src.flags.c_contiguous or not index.flags.c_contiguous or not 0 < src.size <= _LITTLE:
        return None
    if not index.size or not a.size:  # a wrong index is told of after the loop, which writes to place 0 for it
        return None
    if src.dtype is not a.dtype or index.dtype is not _INT64 or not len(given) == len(shape) > dim:
        return None
    before, behind = shape[:dim], shape[dim + 1 :]
    if given[:dim] != before or given[dim + 1 :] != behind:
        return None
    if kernels is _INDEX_ADD:
        n = picks[0] if len(picks) == 1 and picks[0] == given[dim] else None
    else:
        fits = len(picks) == len(shape) and picks[dim] <= given[dim]
        n = picks[dim] if fits and picks[:dim] == before and picks[dim + 1 :] == behind else None
    if n is None:
        return None
    f = kernels[a.dtype]
    if f is None:
        return None
    out = a.copy()
    try:
        f(index, src, out, prod(before), shape[dim], n, prod(behind), given[dim])
    except IndexError:
        return None  # explained by numpy's path
    return out


@op("index_add(input: T, index: T, source: T, dim: int, alpha: num = 1)", kind="gather", method=False, function=False)
class index_add_op:
    """A copy of ``input`` with ``alpha * source`` added at slices ``index`` along ``dim``; repeated ones add up."""

    def kernel(a, index, source, dim, alpha=1):
        if type(alpha) is int and alpha == 1 and index.size <= 8:
            found = _added(_INDEX_ADD, a, index, source, dim)
            if found is not None:
                return found
        if index.dtype not in (np.int64, np.int32):
            raise RuntimeError("index_add(): Expected dtype int32/int64 for index")
        _same_dtype("index_add", a, source)
        _index_checks("index_add", a, index, source, dim)
        out = a.copy()
        index = index.reshape(-1)
        if alpha != 1:
            source = source * a.dtype.type(alpha)
        check_range(index, a.shape[dim] if a.ndim else 1, dim, negative=False)
        if index.size == 0 or a.size == 0:
            return out
        if a.ndim == 0:
            return (
                np.asarray(out + source.sum(dtype=a.dtype)) if a.dtype != np.bool_ else np.asarray(out | source.any())
            )
        rows = np.moveaxis(out, dim, 0)
        source = np.moveaxis(source, dim, 0) if source.ndim else source.reshape((1,) * a.ndim)
        if a.ndim == 1:
            add_at(rows, (index,), source.reshape(-1))
        else:
            add_rows(rows, index, source)
        return out

    def meta(m, index, source, dim, alpha=1):
        if index.dtype not in (dt.int64, dt.int32):
            raise RuntimeError("index_add(): Expected dtype int32/int64 for index")
        _same_dtype("index_add", m, source)
        _index_checks("index_add", m, index, source, dim)
        return Meta(m.shape, m.dtype)

    def vjp_input(g):
        return g

    def vjp_source(g, index, source_meta, dim, alpha):
        gs = index_select_op(g, index, dim).reshape(source_meta.shape) if g.ndim else g.expand(source_meta.shape)
        return gs if type(alpha) is int and alpha == 1 else gs * alpha

    def ref(a, index, source, dim, alpha=1):
        out = np.moveaxis(a.copy(), dim, 0)
        np.add.at(out, index, alpha * np.moveaxis(source, dim, 0))
        return np.moveaxis(out, 0, dim)

    def samples():
        yield Sample(t(4, 3), np.array([0, 2, 0]), t(3, 3), 0)
        yield Sample(t(2, 3), np.array([1]), t(2, 1), 1, 2)


def _dim(input: Any, dim: int) -> int:
    return normalize_dim(dim, input.ndim)


@function(
    "index_add(input: T, dim: dim, index: T, source: T, alpha: num)",
    inline=Inline(index_add_op, "alpha is D_alpha and type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """A copy with ``alpha * source`` added at the slices ``index`` along ``dim``."""
    return index_add_op(input, index, source, _dim(input, dim), alpha)


@function("index_add_(input: T, dim: dim, index: T, source: T, alpha: num)", function=False)
def index_add_(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """In-place form of ``index_add``."""
    return _in_place(input, lambda old: index_add(old, dim, index, source, alpha=alpha))


@op("index_copy(input: T, index: T, source: T, dim: int)", kind="gather", method=False, function=False)
class index_copy_op:
    """A copy of ``input`` with the slices ``index`` along ``dim`` replaced by those of ``source``."""

    def kernel(a, index, source, dim):
        if index.dtype != np.int64:
            raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype}")
        if a.dtype != source.dtype:
            raise RuntimeError(
                "index_copy_(): self and source expected to have the same dtype, but got (self) "
                f"{a.dtype} and (source) {source.dtype}"
            )
        _index_checks("index_copy_", a, index, source, dim)
        out = a.copy()
        index = index.reshape(-1)
        check_range(index, a.shape[dim] if a.ndim else 1, dim, negative=False)
        if a.ndim == 0:
            if index.size:
                out[...] = source.reshape(-1)[-1]
        else:
            np.moveaxis(out, dim, 0)[index] = np.moveaxis(source, dim, 0) if source.ndim else source
        return out

    def meta(m, index, source, dim):
        if index.dtype is not dt.int64:
            raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype.name}")
        _index_checks("index_copy_", m, index, source, dim)
        return Meta(m.shape, m.dtype)

    def vjp_input(g, index, dim):
        return index_fill_op(g, index, g.new_zeros(()), dim)

    def vjp_source(g, index, source_meta, dim):
        return index_select_op(g, index, dim).reshape(source_meta.shape) if g.ndim else g.expand(source_meta.shape)

    def ref(a, index, source, dim):
        out = np.moveaxis(a.copy(), dim, 0)
        out[index] = np.moveaxis(source, dim, 0)
        return np.moveaxis(out, 0, dim)

    def samples():
        yield Sample(t(4, 3), np.array([0, 2]), t(2, 3), 0)
        yield Sample(t(2, 3), np.array([1]), t(2, 1), 1)


@function("index_copy(input: T, dim: dim, index: T, source: T)")
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy with the slices ``index`` along ``dim`` replaced by those of ``source``."""
    return index_copy_op(input, index, source, _dim(input, dim))


@function("index_copy_(input: T, dim: dim, index: T, source: T)", function=False)
def index_copy_(input: Any, dim: int, index: Any, source: Any) -> Any:
    """In-place form of ``index_copy``."""
    return _in_place(input, lambda old: index_copy(old, dim, index, source))


@op("index_fill(input: T, index: T, value: Tn, dim: int)", kind="gather", method=False, function=False)
class index_fill_op:
    """A copy of ``input`` with one value in the slices ``index`` along ``dim``."""

    def kernel(a, index, value, dim):
        if index.dtype != np.int64:
            raise IndexError("index_fill_(): Expected dtype int64 for index.")
        if index.ndim > 1:
            raise IndexError("Index has to be a vector/scalar")
        out = a.copy()
        index = index.reshape(-1)
        check_range(index, a.shape[dim] if a.ndim else 1, dim)
        if a.ndim == 0:
            if index.size:
                out[...] = value
        else:
            np.moveaxis(out, dim, 0)[index] = value
        return out

    def meta(m, index, value, dim):
        if index.dtype is not dt.int64:
            raise IndexError("index_fill_(): Expected dtype int64 for index.")
        if index.ndim > 1:
            raise IndexError("Index has to be a vector/scalar")
        return Meta(m.shape, m.dtype)

    def vjp_input(g, index, dim):
        return index_fill_op(g, index, 0, dim)

    def vjp_value(g, index, dim):
        return (g * index_fill_op(g.new_zeros(g.shape), index, 1, dim)).sum()

    def ref(a, index, value, dim):
        out = a.copy()
        np.moveaxis(out, dim, 0)[index] = value
        return out

    def samples():
        yield Sample(t(4, 3), np.array([0, 2]), 1.5, 0)
        yield Sample(t(2, 3), np.array([1]), t(), 1)


@function("index_fill(input: T, dim: dim, index: T, value: Tn)")
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with ``value`` (a number or 0-d tensor) in the slices ``index`` along ``dim``."""
    if isinstance(value, Tensor) and value.ndim != 0:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return index_fill_op(input, index, value, _dim(input, dim))


@function("index_fill_(input: T, dim: dim, index: T, value: Tn)", function=False)
def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Any:
    """In-place form of ``index_fill``."""

    def write(d: np.ndarray) -> None:
        filled = index_fill(input.detach(), dim, index, value)._data
        place = (slice(None),) * (dim % d.ndim) + (index._data,)
        d[place] = filled[place]

    if input.ndim and into_expanded(input, "index_fill_", write, index):
        return input
    return _in_place(input, lambda old: index_fill(old, dim, index, value))


# ---- element by element


def _flat(out: np.ndarray, index: np.ndarray, src: Any, dim: int) -> tuple:
    """Views of at least one dimension of everything, and the part of src that index covers."""
    if out.ndim == 0:
        out = out.reshape(1)
    if index.ndim == 0:
        index = index.reshape(1)
    if isinstance(src, np.ndarray):
        src = src.reshape(1) if src.ndim == 0 else src[tuple(slice(n) for n in index.shape)]
    return out, index, src


@op("scatter(input: T, index: T, src: T, dim: int)", kind="gather", method=False, function=False)
class scatter_op:
    """A copy of ``input`` with ``out[index[i][j]][j] = src[i][j]`` (for dim 0)."""

    def kernel(a, index, src, dim):
        _same_dtype("scatter", a, src)
        _gather_checks("scatter", a, index, dim, src)
        out = a.copy()
        if index.size:
            o, i, s = _flat(out, index, src, dim)
            o[scatter_slots(i, dim)] = s
        return out

    def meta(m, index, src, dim):
        _same_dtype("scatter", m, src)
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


@op("scatter_value(input: T, index: T, value: num, dim: int)", kind="gather", method=False, function=False)
class scatter_value_op:
    """A copy of ``input`` with one number at the places a scatter would write."""

    def kernel(a, index, value, dim):
        _gather_checks("scatter", a, index, dim)
        out = a.copy()
        if index.size:
            o, i, _ = _flat(out, index, None, dim)
            o[scatter_slots(i, dim)] = dt.element(value, dt.FROM_NUMPY[a.dtype])
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


@op("scatter_add(input: T, index: T, src: T, dim: int)", kind="gather", method=False, function=False)
class scatter_add_op:
    """A copy of ``input`` with ``out[index[i][j]][j] += src[i][j]`` (for dim 0); repeated places add up."""

    def kernel(a, index, src, dim):
        if (found := _added(_SCATTER_ADD, a, index, src, dim)) is not None:
            return found
        _same_dtype("scatter", a, src)
        _gather_usual("scatter_add", a, index, dim, src)
        out = a.copy("C")
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
        return out

    def meta(m, index, src, dim):
        _same_dtype("scatter", m, src)
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
        _same_dtype("scatter", a, src)
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
        _same_dtype("scatter", m, src)
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


@function("scatter(input: T, dim: dim, index: T, src: Tn, value: num)")
def scatter(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """A copy with ``src`` (tensor or number) at ``index`` along ``dim``; ``reduce`` "add" or "multiply" combines."""
    what = src if value is None else value
    d = _dim(input, dim)
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


@function("scatter_(input: T, dim: dim, index: T, src: Tn, value: num)", function=False)
def scatter_(input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: str | None = None) -> Any:
    """In-place form of ``scatter``."""
    return _in_place(input, lambda old: scatter(old, dim, index, src, value=value, reduce=reduce))


@function(
    "scatter_add(input: T, dim: dim, index: T, src: T)",
    inline=Inline(scatter_add_op, "type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with ``src`` added at ``index`` along ``dim``."""
    return _scatter_add(input, index, src, _dim(input, dim))


_scatter_add = scatter_add_op.fn


@function("scatter_add_(input: T, dim: dim, index: T, src: T)", function=False)
def scatter_add_(input: Any, dim: int, index: Any, src: Any) -> Any:
    """In-place form of ``scatter_add``."""
    return _in_place(input, lambda old: scatter_add(old, dim, index, src))


@function("scatter_reduce(input: T, dim: dim, index: T, src: T, reduce: str, include_self: bool)")
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Scatter with ``reduce`` "sum", "prod", "mean", "amax" or "amin"."""
    if reduce not in _REDUCERS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    return scatter_reduce_op(input, index, src, _dim(input, dim), reduce, include_self)


@function("scatter_reduce_(input: T, dim: dim, index: T, src: T, reduce: str, include_self: bool)", function=False)
def scatter_reduce_(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place form of ``scatter_reduce``."""
    return _in_place(input, lambda old: scatter_reduce(old, dim, index, src, reduce, include_self=include_self))


@function("index_reduce(input: T, dim: dim, index: T, source: T, reduce: str, include_self: bool)")
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Slices of ``source`` combined into ``input`` at ``index`` by "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    d = _dim(input, dim)
    _same_dtype("index_reduce", input, source)
    _index_checks("index_reduce", input, index, source, d)
    shape = tuple(-1 if i == d else 1 for i in range(source.ndim))
    wide = (
        index.to(dt.int64).reshape(shape).expand(source.shape)
        if source.ndim
        else index.to(dt.int64).reshape(source.shape)
    )
    return scatter_reduce_op(input, wide, source, d, reduce, include_self)


@function("index_reduce_(input: T, dim: dim, index: T, source: T, reduce: str, include_self: bool)", function=False)
def index_reduce_(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """In-place form of ``index_reduce``."""
    return _in_place(input, lambda old: index_reduce(old, dim, index, source, reduce, include_self=include_self))
