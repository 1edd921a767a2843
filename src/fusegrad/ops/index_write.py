"""Writing whole slices at indices along a dimension: index_add, index_copy, index_fill, index_reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta, normalize_dim
from ..op import Inline, Sample, function, op
from ..tensor import Tensor
from ._index_kernels import INDEX_ADD, INDEX_COPY, add_at, add_rows, added, along, check_range, few_places, same_dtype
from ._inplace_forms import Quick, _in_place, into_expanded, written
from ._samples import t
from .index import index_select_op
from .scatter import scatter_reduce_op


def _index_checks(name: str, a: Any, index: Any, source: Any, dim: int) -> None:
    """Common to index_add and index_copy; works on arrays and Metas."""
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {index.ndim})")
    copies = name.startswith("index_copy")
    if source.ndim != 0 and a.ndim != source.ndim and a.ndim != 0:
        raise (IndexError if copies else RuntimeError)(
            f"{name}(): source has {source.ndim} dimensions, self has {a.ndim}"
        )
    n = index.shape[0] if index.ndim else 1
    have = source.shape[dim] if source.ndim else 1
    if n is not have and n != have:
        raise (IndexError if copies or not source.ndim else RuntimeError)(
            f"{name}(): Number of indices ({n}) should be equal to source.size(dim) ({have})"
        )
    if source.ndim == 0 and a.ndim > copies:
        raise RuntimeError(f"{name}(): source has 0 dimensions, self has {a.ndim}")
    if source.ndim and a.ndim:
        for d, (x, y) in enumerate(zip(a.shape, source.shape, strict=True)):
            if d != dim and x is not y and x != y:
                raise RuntimeError(
                    f"{name}(): source and destination sizes differ at dimension {d}: {list(source.shape)} and "
                    f"{list(a.shape)}"
                )


def _index_add(out: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, alpha: Any = 1) -> None:
    """Add into ``out``, which is contiguous."""
    if type(alpha) is int and alpha == 1 and index.size <= 8:
        if added(INDEX_ADD, out, index, source, dim, into=True) is not None:
            return
    _add_slices(out, index, source, dim, alpha)


def _add_slices(out: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int, alpha: Any) -> None:
    """The same by numpy's passes."""
    if index.dtype not in (np.int64, np.int32):
        raise RuntimeError("index_add(): Expected dtype int32/int64 for index")
    same_dtype("index_add", out, source)
    _index_checks("index_add", out, index, source, dim)
    index = index.reshape(-1)
    if alpha != 1:
        source = source * out.dtype.type(alpha)
    check_range(index, out.shape[dim] if out.ndim else 1, dim, negative=False)
    if index.size == 0 or out.size == 0:
        return
    if out.ndim == 0:
        out[...] = out + source.sum(dtype=out.dtype) if out.dtype != np.bool_ else out | source.any()
        return
    rows = np.moveaxis(out, dim, 0)
    source = np.moveaxis(source, dim, 0) if source.ndim else source.reshape((1,) * out.ndim)
    if out.ndim == 1:
        add_at(rows, (index,), source.reshape(-1))
    else:
        add_rows(rows, index, source)


@op("index_add(input: T, index: T, source: T, dim: int, alpha: num = 1)", kind="gather", method=False, function=False)
class index_add_op:
    """A copy of ``input`` with ``alpha * source`` added at slices ``index`` along ``dim``; repeated ones add up."""

    write = _index_add

    def kernel(a, index, source, dim, alpha=1):
        if type(alpha) is int and alpha == 1 and index.size <= 8:
            found = added(INDEX_ADD, a, index, source, dim)
            if found is not None:
                return found
        out = a.copy()
        _add_slices(out, index, source, dim, alpha)
        return out

    def meta(m, index, source, dim, alpha=1):
        if index.dtype not in (dt.int64, dt.int32):
            raise RuntimeError("index_add(): Expected dtype int32/int64 for index")
        same_dtype("index_add", m, source)
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


@function(
    "index_add(input: T, dim: dim, index: T, source: T, alpha: num)",
    inline=Inline(index_add_op, "alpha is D_alpha and type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """A copy with ``alpha * source`` added at the slices ``index`` along ``dim``."""
    return index_add_op(input, index, source, normalize_dim(dim, input.ndim), alpha)


def _index_added(d: np.ndarray, dim: int, index: np.ndarray, source: Any) -> bool:
    """Add few elements to a vector; whether that was all."""
    fits = few_places(d, dim, index) and type(source) is np.ndarray and source.dtype is d.dtype
    if not fits or d.dtype.char not in "fd" or source.ndim != 1 or len(source) != len(index):
        return False
    np.add.at(d, index, source)
    return True


@function(
    "index_add_(input: T, dim: dim, index: T, source: T, alpha: num)",
    function=False,
    inline=Quick(_index_added, "input", "dim", "index", "source"),
)
def index_add_(input: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    """In-place form of ``index_add``."""
    if -(n := input.ndim) <= dim < n and written(input, index_add_op, index, source, dim=dim % n, alpha=alpha):
        return input
    return _in_place(input, lambda old: index_add(old, dim, index, source, alpha=alpha), index, source)


def _index_copy(out: np.ndarray, index: np.ndarray, source: np.ndarray, dim: int) -> None:
    if index.dtype != np.int64:
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {index.dtype}")
    if out.dtype != source.dtype:
        raise RuntimeError(
            "index_copy_(): self and source expected to have the same dtype, but got (self) "
            f"{out.dtype} and (source) {source.dtype}"
        )
    _index_checks("index_copy_", out, index, source, dim)
    index = index.reshape(-1)
    check_range(index, out.shape[dim] if out.ndim else 1, dim, negative=False)
    if out.ndim:
        out[along(index, dim)] = source
    elif index.size:
        out[...] = source.reshape(-1)[-1]


@op("index_copy(input: T, index: T, source: T, dim: int)", kind="gather", method=False, function=False)
class index_copy_op:
    """A copy of ``input`` with the slices ``index`` along ``dim`` replaced by those of ``source``."""

    write = _index_copy

    def kernel(a, index, source, dim):
        if (found := added(INDEX_COPY, a, index, source, dim)) is not None:
            return found
        out = a.copy()
        _index_copy(out, index, source, dim)
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


@function(
    "index_copy(input: T, dim: dim, index: T, source: T)",
    inline=Inline(index_copy_op, "type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n"),
)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy with the slices ``index`` along ``dim`` replaced by those of ``source``."""
    return index_copy_op(input, index, source, normalize_dim(dim, input.ndim))


def _index_copied(d: np.ndarray, dim: int, index: np.ndarray, source: Any) -> bool:
    """Write few elements into a vector; whether that was all."""
    fits = few_places(d, dim, index) and type(source) is np.ndarray and source.dtype is d.dtype
    if not fits or source.ndim != 1 or len(source) != len(index):
        return False
    d[index] = source
    return True


@function(
    "index_copy_(input: T, dim: dim, index: T, source: T)",
    function=False,
    inline=Quick(_index_copied, "input", "dim", "index", "source"),
)
def index_copy_(input: Any, dim: int, index: Any, source: Any) -> Any:
    """In-place form of ``index_copy``."""
    if -(n := input.ndim) <= dim < n and written(input, index_copy_op, index, source, dim=dim % n):
        return input
    return _in_place(input, lambda old: index_copy(old, dim, index, source), index, source)


def _index_fill(out: np.ndarray, index: np.ndarray, value: Any, dim: int) -> None:
    if index.dtype != np.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if index.ndim > 1:
        raise IndexError("Index has to be a vector/scalar")
    if type(value) is float or type(value) is int:
        value = dt.element(value, dt.FROM_NUMPY[out.dtype])
    index = index.reshape(-1)
    check_range(index, out.shape[dim] if out.ndim else 1, dim)
    if out.ndim:
        out[along(index, dim)] = value
    elif index.size:
        out[...] = value


@op("index_fill(input: T, index: T, value: Tn, dim: int)", kind="gather", method=False, function=False)
class index_fill_op:
    """A copy of ``input`` with one value in the slices ``index`` along ``dim``."""

    write = _index_fill
    number_too = True

    def kernel(a, index, value, dim):
        out = a.copy()
        _index_fill(out, index, value, dim)
        return out

    def meta(m, index, value, dim):
        if index.dtype is not dt.int64:
            raise IndexError("index_fill_(): Expected dtype int64 for index.")
        if index.ndim > 1:
            raise IndexError("Index has to be a vector/scalar")
        if isinstance(value, (int, float)):
            dt.element(value, m.dtype)
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


@function(
    "index_fill(input: T, dim: dim, index: T, value: Tn)",
    inline=Inline(
        index_fill_op,
        "(a2.ndim == 0 if type(a2) is ndarray else -60000 < a2 < 60000 and a0.dtype.kind == 'f') "
        "and type(dim) is int and -(n := a0.ndim) <= dim < n",
        dim="dim % n",
    ),
)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with ``value`` (a number or 0-d tensor) in the slices ``index`` along ``dim``."""
    if isinstance(value, Tensor) and value.ndim != 0:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return index_fill_op(input, index, value, normalize_dim(dim, input.ndim))


def _index_filled(d: np.ndarray, dim: int, index: np.ndarray, value: Any) -> bool:
    """Write a number at few places of a vector; whether that was all."""
    if type(value) is np.ndarray or d.dtype.char not in "fd" or not -60000 < value < 60000:
        return False
    if not few_places(d, dim, index):
        return False
    d[index] = value
    return True


@function(
    "index_fill_(input: T, dim: dim, index: T, value: Tn)",
    function=False,
    inline=Quick(_index_filled, "input", "dim", "index", "value"),
)
def index_fill_(input: Any, dim: int, index: Any, value: Any) -> Any:
    """In-place form of ``index_fill``."""
    number = (type(value) is float or type(value) is int) and -60000 < value < 60000 and input.is_floating_point()
    if number and -(n := input.ndim) <= dim < n and written(input, index_fill_op, index, value, dim=dim % n):
        return input

    def write(d: np.ndarray) -> None:
        filled = index_fill(input.detach(), dim, index, value)._data
        place = (slice(None),) * (dim % d.ndim) + (index._data,)
        d[place] = filled[place]

    if input.ndim and into_expanded(input, "index_fill_", write, index):
        return input
    return _in_place(input, lambda old: index_fill(old, dim, index, value), index)


@function("index_reduce(input: T, dim: dim, index: T, source: T, reduce: str, include_self: bool)")
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """Slices of ``source`` combined into ``input`` at ``index`` by "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    d = normalize_dim(dim, input.ndim)
    same_dtype("index_reduce", input, source)
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
    return _in_place(
        input, lambda old: index_reduce(old, dim, index, source, reduce, include_self=include_self), index, source
    )
