"""Sorting, selection by rank, sets, search and counting."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.undefined import undefined
from ..meta import Meta, normalize_dim
from ..native.on_demand import OnDemand, defined
from ..op import Inline, Sample, function, op
from ..tensor import Tensor, need_data, wrap
from ._data import t
from ._index_kernels import scatter_slots
from ._results import named_results
from ._selection import first_of_rows, order_of, pays
from .create import finish

_Sort = named_results("sort", ["values", "indices"])
_Topk = named_results("topk", ["values", "indices"])
_Kth = named_results("kthvalue", ["values", "indices"])
_Median = named_results("median", ["values", "indices"])
_NanMedian = named_results("nanmedian", ["values", "indices"])
_Mode = named_results("mode", ["values", "indices"])


def gather_by(x: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray:
    """x at index along dim."""
    if x.ndim == 1:
        return x[index]
    return x[scatter_slots(index, dim % x.ndim)]


def _ranked_meta(m: Meta, shape: tuple) -> tuple[Meta, Meta]:
    return Meta(shape, m.dtype), Meta(shape, dt.int64)


def put_back(g: Any, indices: Any, input_meta: Meta, dim: int) -> Any:
    """Cotangent of selected values, at the places they came from."""
    if not input_meta.shape:
        return g
    return g.new_zeros(input_meta.shape).scatter(dim, indices, g)


@op("sort(input: T, dim: dim = -1, descending: bool = False)", kind="extern", n_out=2, function=False, method=False)
class sort_op:
    """Values in order along dim and where they were; equal values stay in order, NaN is the largest."""

    def kernel(x, dim=-1, descending=False):
        if x.ndim == 0:
            return x.copy(), np.zeros((), np.int64)
        order = order_of(x, dim, descending)
        return gather_by(x, order, dim), order

    def meta(m, dim=-1, descending=False):
        return _ranked_meta(m, m.shape)

    def vjp(g0, out1, input_meta, dim):
        return put_back(g0, out1, input_meta, dim)

    def ref(x, dim=-1, descending=False):
        order = order_of(x, dim, descending)
        return np.take_along_axis(x, order, dim), order

    def samples():
        yield Sample(t(3, 5))
        yield Sample(t(3, 5), 0, True)

    def errors():
        yield (t(3), 2), {}, IndexError, "Dimension out of range"


def _named(kind: Any, result: tuple, out: Any = None, x: Any = None) -> Any:
    if out is not None:
        result = tuple(finish(r, False, o, (x,)) for r, o in zip(result, out, strict=True))
    return kind(*result)


_DIM = "type(dim) is int and -(n := a0.ndim) <= dim < n and out is None"
_FLAGS = "(largest is True or largest is False) and (sorted is True or sorted is False)"


@function(
    "sort(input: T, dim: dim, descending: bool, stable: bool)",
    inline=Inline(
        sort_op,
        f"(descending is False or descending is True) and (stable is None or stable is True) and {_DIM}",
        kind=_Sort,
        dim="dim % n",
    ),
)
def sort(input, dim=-1, descending=False, stable=None, *, out=None):
    """(values, indices) in order along dim."""
    return _named(_Sort, sort_op(input, dim, descending), out, input)


@function("argsort(input: T, dim: dim, descending: bool, stable: bool)")
def argsort(input, dim=-1, descending=False, stable=False):
    """The indices that sort input along dim."""
    return sort_op(input, dim, descending)[1]


@function("msort(input: T)")
def msort(input):
    """input sorted along its first dimension."""
    return sort_op(input, 0, False)[0]


_BACK = slice(None, None, -1)


@functools.lru_cache(maxsize=64)
def _last(n: int) -> np.ndarray:
    """The last index, as an array: numpy takes a number of Python for one at each call."""
    return np.array(n - 1)


def _top(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    """Indices of the k largest (smallest) along dim, in order."""
    n = x.shape[dim]
    if n < 64 or k * 4 > n or k == 0:
        return order_of(x, dim, largest)[(*(slice(None),) * dim, slice(k))]
    if pays(x, k, n):
        found = first_of_rows(np.ascontiguousarray(np.moveaxis(x, dim, -1)).reshape(-1, n), k, largest)
        if found is not None:
            dim %= x.ndim
            return np.moveaxis(found.reshape(*x.shape[:dim], *x.shape[dim + 1 :], k), -1, dim)
    if largest:
        part = np.take(np.argpartition(x, n - k, axis=dim), np.arange(n - k, n), axis=dim)
    else:
        part = np.take(np.argpartition(x, k - 1, axis=dim), np.arange(k), axis=dim)
    order = order_of(np.take_along_axis(x, part, dim), dim, largest)
    return np.take_along_axis(part, order, dim)


@op("topk(input: T, k: int, dim: dim = -1, largest: bool = True)", kind="extern", n_out=2, function=False, method=False)
class topk_op:
    """The k largest (smallest) values along dim in order, and where they were; NaN is the largest."""

    def kernel(x, k, dim=-1, largest=True):
        if x.ndim == 0:
            if not 0 <= k <= 1:
                raise IndexError("k")
            shape = () if k else (0,)
            return x.reshape(-1)[:k].reshape(shape).copy(), np.zeros(shape, np.int64)
        if not 0 <= k <= x.shape[dim]:
            raise IndexError("k")  # the meta rule words it
        if x.ndim == 1 and k and x.size < 64:
            order = (
                (_last(x.size) - x[_BACK].argsort(0, "stable")[_BACK][:k]) if largest else x.argsort(0, "stable")[:k]
            )
            return x[order], order
        order = _top(x, k, dim, largest)
        return gather_by(x, order, dim), order

    def meta(m, k, dim=-1, largest=True):
        n = m.shape[dim] if m.shape else 1
        if k < 0 or k > n:
            raise RuntimeError(f"selected index k out of range (k={k}, size {n})")
        if not m.shape:
            return _ranked_meta(m, () if k else (0,))
        return _ranked_meta(m, (*m.shape[:dim], k, *m.shape[dim + 1 :]))

    def vjp(g0, out1, input_meta, dim):
        return put_back(g0, out1, input_meta, dim)

    def ref(x, k, dim=-1, largest=True):
        order = np.take(order_of(x, dim, largest), np.arange(k), axis=dim)
        return np.take_along_axis(x, order, dim), order

    def samples():
        yield Sample(t(3, 5), 2)
        yield Sample(t(3, 5), 2, 0, False)
        yield Sample(t(2, 100), 3)

    def errors():
        yield (t(3), 4), {}, RuntimeError, "out of range"


@function(
    "topk(input: T, k: int, dim: dim, largest: bool, sorted: bool)",
    inline=Inline(topk_op, f"type(k) is int and {_FLAGS} and {_DIM}", kind=_Topk, dim="dim % n"),
)
def topk(input, k, dim=-1, largest=True, sorted=True, *, out=None):
    """(values, indices) of the k largest, or smallest, along dim."""
    return _named(_Topk, topk_op(input, k, dim, largest), out, input)


def _drop(shape: tuple, dim: int, keepdim: bool) -> tuple:
    if not shape:
        return ()
    return (*shape[:dim], 1, *shape[dim + 1 :]) if keepdim else (*shape[:dim], *shape[dim + 1 :])


def put_one(g: Any, indices: Any, input_meta: Meta, dim: int, keepdim: bool) -> Any:
    """Cotangent of one selected value a row."""
    if input_meta.shape and not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return put_back(g, indices, input_meta, dim)


def _select(x: np.ndarray, index: np.ndarray, dim: int, keepdim: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values at index (dim kept with size 1) and index, dim dropped unless keepdim."""
    values = np.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _nth(x: np.ndarray, n: int, dim: int) -> np.ndarray:
    """Index of the n-th smallest along dim, dim kept."""
    return np.take(order_of(x, dim, False), [n], axis=dim)


@op(
    "kthvalue(input: T, k: int, dim: dim = -1, keepdim: bool = False)",
    kind="extern",
    n_out=2,
    function=False,
    method=False,
)
class kthvalue_op:
    """The k-th smallest value along dim and where it was; NaN is the largest."""

    def kernel(x, k, dim=-1, keepdim=False):
        if not 1 <= k <= (x.shape[dim] if x.ndim else 1):
            raise IndexError("k")  # the meta rule words it
        if x.ndim == 0:
            return x.copy(), np.zeros((), np.int64)
        return _select(x, _nth(x, k - 1, dim), dim, keepdim)

    def meta(m, k, dim=-1, keepdim=False):
        if m.shape and m.shape[dim] == 0:
            raise IndexError(f"kthvalue(): Expected reduction dim {dim} to have non-zero size.")
        if k < 1 or k > (m.shape[dim] if m.shape else 1):
            raise RuntimeError(
                "kthvalue(): selected number k out of range for dimension "
                f"{dim} (k={k}, size {m.shape[dim] if m.shape else 1})"
            )
        return _ranked_meta(m, _drop(m.shape, dim, keepdim))

    def vjp(g0, out1, input_meta, dim, keepdim):
        return put_one(g0, out1, input_meta, dim, keepdim)

    def ref(x, k, dim=-1, keepdim=False):
        return _select(x, _nth(x, k - 1, dim), dim, keepdim)

    def samples():
        yield Sample(t(3, 5), 2)
        yield Sample(t(3, 5), 1, 0, True)

    def errors():
        yield (t(3), 4), {}, RuntimeError, "out of range"


@function("kthvalue(input: T, k: int, dim: dim, keepdim: bool)")
def kthvalue(input, k, dim=-1, keepdim=False):
    """(values, indices) of the k-th smallest along dim."""
    return _named(_Kth, kthvalue_op(input, k, dim, keepdim))


def _median_index(x: np.ndarray, dim: int, ignore_nan: bool) -> np.ndarray:
    """Index of the lower median along dim, dim kept; a NaN wins unless ignored."""
    n = x.shape[dim]
    order = order_of(x, dim, False)
    if x.dtype.kind != "f":
        return np.take(order, [(n - 1) // 2], axis=dim)
    bad = np.isnan(x)
    count = n - bad.sum(axis=dim, keepdims=True)
    place = np.maximum((count - 1) // 2, 0)
    if not ignore_nan:
        place = np.where(count < n, count, place)  # the first NaN stands behind the numbers
    return np.take_along_axis(order, place, dim)


@op(
    "median_dim(input: T, dim: dim, keepdim: bool = False, ignore_nan: bool = False)",
    kind="extern",
    n_out=2,
    function=False,
    method=False,
)
class median_dim_op:
    """The lower median along dim and where it was."""

    def kernel(x, dim, keepdim=False, ignore_nan=False):
        if x.ndim == 0:
            return x.copy(), np.zeros((), np.int64)
        if x.shape[dim] == 0:
            raise IndexError("empty")  # the meta rule words it
        return _select(x, _median_index(x, dim, ignore_nan), dim, keepdim)

    def meta(m, dim, keepdim=False, ignore_nan=False):
        if m.shape and m.shape[dim] == 0:
            raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
        return _ranked_meta(m, _drop(m.shape, dim, keepdim))

    def vjp(g0, out1, input_meta, dim, keepdim):
        return put_one(g0, out1, input_meta, dim, keepdim)

    def ref(x, dim, keepdim=False, ignore_nan=False):
        return _select(x, _median_index(x, dim, ignore_nan), dim, keepdim)

    def samples():
        yield Sample(t(3, 5), 1)
        yield Sample(t(4, 5), 0, True)


@op("median_all(input: T, ignore_nan: bool = False)", kind="extern", function=False, method=False)
class median_all_op:
    """The lower median of all elements; NaN if there is none. Equal elements share the gradient."""

    def kernel(x, ignore_nan=False):
        if x.size == 0:
            return np.array(np.nan if x.dtype.kind == "f" else np.iinfo(x.dtype).min, x.dtype)
        flat = x.reshape(-1)
        return flat[_median_index(flat, 0, ignore_nan)[0]]

    def meta(m, ignore_nan=False):
        return Meta((), m.dtype)

    def vjp(g, input, out):
        mask = (input == out).logical_or(input.isnan().logical_and(out.isnan()))
        return (g / mask.sum()) * mask

    def ref(x, ignore_nan=False):
        flat = x.reshape(-1)
        return flat[_median_index(flat, 0, ignore_nan)[0]]

    def samples():
        yield Sample(t(3, 5))


@function("median(input: T, dim: dim, keepdim: bool)")
def median(input, dim=None, keepdim=False, *, out=None):
    """The lower median of all elements, or (values, indices) along dim."""
    if dim is None:
        return median_all_op(input, False)
    return _named(_Median, median_dim_op(input, dim, keepdim, False), out)


@function("nanmedian(input: T, dim: dim, keepdim: bool)")
def nanmedian(input, dim=None, keepdim=False, *, out=None):
    """median that ignores NaN."""
    if dim is None:
        return median_all_op(input, True)
    return _named(_NanMedian, median_dim_op(input, dim, keepdim, True), out)


def _mode_index(x: np.ndarray, dim: int) -> np.ndarray:
    """Index (the last one) of the most frequent value along dim, the smallest of equals; dim kept."""
    moved = np.moveaxis(x, dim, -1)
    rows = moved.reshape(-1, moved.shape[-1])
    index = np.empty(len(rows), np.int64)
    for i, row in enumerate(rows):
        values, counts = np.unique(row, return_counts=True)
        top = values[np.argmax(counts)]
        index[i] = np.flatnonzero(row == top if top == top else row != row)[-1]  # NaN: all of a row is NaN
    return np.moveaxis(index.reshape(*moved.shape[:-1], 1), -1, dim)


@op("mode(input: T, dim: dim = -1, keepdim: bool = False)", kind="extern", n_out=2, function=False, method=False)
class mode_op:
    """The most frequent value along dim and where it is."""

    def kernel(x, dim=-1, keepdim=False):
        if x.ndim == 0:
            return x.copy(), np.zeros((), np.int64)
        if x.shape[dim] == 0:
            raise IndexError("empty")  # the meta rule words it
        return _select(x, _mode_index(x, dim), dim, keepdim)

    def meta(m, dim=-1, keepdim=False):
        if m.shape and m.shape[dim] == 0:
            raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
        return _ranked_meta(m, _drop(m.shape, dim, keepdim))

    def vjp(g0, out1, input_meta, dim, keepdim):
        return put_one(g0, out1, input_meta, dim, keepdim)

    def ref(x, dim=-1, keepdim=False):
        return _select(x, _mode_index(x, dim), dim, keepdim)

    def samples():
        yield Sample(t(3, 5))


@function("mode(input: T, dim: dim, keepdim: bool)")
def mode(input, dim=-1, keepdim=False, *, out=None):
    """(values, indices) of the most frequent value along dim."""
    return _named(_Mode, mode_op(input, dim, keepdim), out, input)


# ---- sets; their sizes depend on the data, so a graph cannot hold them ----


@function("unique(input: T, sorted: bool, return_inverse: bool, return_counts: bool, dim: int)")
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different values in order; with them, on request, where each element went and how often it occurs.

    Every NaN counts as different. With dim: the different slices.
    """
    x = need_data(input, "unique")
    if dim is not None:
        dim = normalize_dim(dim, x.ndim)
        if any(s == 0 for i, s in enumerate(x.shape) if i != dim):
            raise RuntimeError("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    which = {"return_inverse": bool(return_inverse), "return_counts": bool(return_counts)}
    found = np.unique(x, axis=dim, equal_nan=False, **which)
    values, *more = found if isinstance(found, tuple) else (found,)
    inverse = more[0].reshape(x.shape if dim is None else -1) if return_inverse else None
    name = "_unique2" if dim is None else "unique_dim"
    return _set_result(name, input, values, inverse, more[-1] if more else None, return_inverse, return_counts)


def _set_result(name, input, values, inverse, counts, return_inverse, return_counts) -> Any:
    error = NotImplementedError(f"the derivative for '{name}' is not implemented.")
    node = "".join(part.capitalize() for part in name.split("_")) + "Backward0"
    out = [undefined(wrap(np.ascontiguousarray(values)), error, input, name=node)]
    if return_inverse:
        out.append(wrap(np.asarray(inverse, np.int64)))
    if return_counts:
        out.append(wrap(np.asarray(counts, np.int64)))
    return out[0] if len(out) == 1 else tuple(out)


@function("unique_consecutive(input: T, return_inverse: bool, return_counts: bool, dim: dim)")
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Runs of equal values, one value each."""
    x = need_data(input, "unique_consecutive")
    flat = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    n = len(flat)
    new = np.ones(n, bool)
    if n > 1 and flat.ndim == 1:
        np.not_equal(flat[1:], flat[:-1], new[1:])
    elif n > 1:
        new[1:] = (flat[1:] != flat[:-1]).reshape(n - 1, -1).any(1)
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, n)) if return_counts else None
    inverse = np.cumsum(new) - 1 if return_inverse else None
    if inverse is not None and dim is None:
        inverse = inverse.reshape(x.shape)
    values = flat[starts] if dim is None else np.moveaxis(flat[starts], 0, dim)
    return _set_result("unique_consecutive", input, values, inverse, counts, return_inverse, return_counts)


@op("isin(elements: Tn, test_elements: Tn, invert: bool = False)", kind="extern", function=False, method=False)
class isin_op:
    """Where an element of the first is among the second."""

    nondiff = True

    def kernel(x, among, invert=False):
        some = np.asarray(among)
        if isinstance(x, np.ndarray) and x.dtype.kind in "if" and some.dtype.kind in "if" and x.dtype.char != "e":
            if 0 < x.size * some.size <= 256:  # every pair: fewer passes than a search
                found = (x[..., None] == some.reshape(-1)).any(-1)
                return ~found if invert else found
        return np.isin(x, among, invert=invert)

    def meta(x, among, invert=False):
        return Meta(x.shape, dt.bool_)

    def ref(x, among, invert=False):
        return np.isin(x, among, invert=invert)

    def samples():
        yield Sample(np.array([[1, 2], [3, 4]]), np.array([2, 3]))
        yield Sample(np.array([[1, 2], [3, 4]]), 3, True)


@function("isin(elements: Tn, test_elements: Tn, assume_unique: bool, invert: bool)", method=False)
def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Where an element of elements is among test_elements (or is not, with invert)."""
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): one of 'elements' and 'test_elements' must be Tensor, got two numbers")
    if any(getattr(x, "dtype", None) is dt.bool_ for x in (elements, test_elements)):
        raise RuntimeError("Unsupported input type encountered for isin(): bool")
    return isin_op(elements, test_elements, invert)


# ---- search ----


@functools.cache
def _searching(steps: int, right: bool) -> OnDemand:
    """Kernels for sequences of fewer than 2 ** steps numbers."""
    return defined("picks", "search", steps, right, kinds=(dt.float32, dt.float64, dt.int32, dt.int64))


def _search(seq: np.ndarray, x: Any, right: bool) -> np.ndarray:
    side = "right" if right else "left"
    x = np.asarray(x)
    common = np.result_type(seq, x) if isinstance(x, np.ndarray) else seq.dtype
    seq, x = seq.astype(common, copy=False), x.astype(common, copy=False)
    if seq.ndim == 1:
        if x.size >= 4096 and seq.size:
            kernel = _searching(-(-seq.size.bit_length() // 4) * 4, right)[common]
            if kernel is not None:
                out = np.empty(x.shape, np.int64)
                flat = np.ascontiguousarray(x).reshape(-1)
                kernel(np.ascontiguousarray(seq), flat, out.reshape(-1), seq.size, x.size)
                return out
        return np.asarray(np.searchsorted(seq, x, side=side))
    out = np.empty(x.shape, np.int64)
    for i in np.ndindex(seq.shape[:-1]):
        out[i] = np.searchsorted(seq[i], x[i], side=side)
    return out


@op(
    "searchsorted(sorted_sequence: T, values: Tn, out_int32: bool = False, right: bool = False)",
    kind="extern",
    function=False,
    method=False,
)
class searchsorted_op:
    """Where values would go in the rows of a sorted sequence."""

    nondiff = True
    short = (
        "type({1}) is ndarray and {0}.dtype is {1}.dtype and {0}.ndim == 1 and 0 < {1}.ndim and {1}.size < 4096 "
        "and {out_int32} is False",
        "{0}.searchsorted({1}, 'right' if {right} else 'left')",
    )

    def kernel(seq, x, out_int32=False, right=False):
        return _search(seq, x, right).astype(np.int32 if out_int32 else np.int64, copy=False)

    def meta(seq, x, out_int32=False, right=False):
        if seq.ndim == 0:
            raise RuntimeError("searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1")
        if seq.ndim > 1 and tuple(seq.shape[:-1]) != tuple(x.shape[:-1]):
            raise RuntimeError(
                "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                f"boundaries tensor and input value tensor must match, but we got boundaries tensor "
                f"{list(seq.shape)} and input value tensor {list(x.shape)}"
            )
        return Meta(x.shape, dt.int32 if out_int32 else dt.int64)

    def ref(seq, x, out_int32=False, right=False):
        return _search(seq, x, right)

    def samples():
        yield Sample(np.array([1.0, 3.0, 5.0]), t(3, 4, low=0, high=6))
        yield Sample(np.array([1.0, 3.0, 5.0]), np.array([1.0, 5.0]), right=True)


def _side(right: bool, side: str | None) -> bool:
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    return right or side == "right"


@function(
    "searchsorted(sorted_sequence: T, input: Tn, out_int32: bool, right: bool, side: str, sorter: T)",
    method=False,
    inline=Inline(
        searchsorted_op,
        "a0.ndim == 1 and a0.dtype.char != '?' and side is sorter is None and out_int32 is False "
        "and (right is False or right is True)",
        values="input",
    ),
)
def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None, out=None):
    """Index of the first element not below (with right: above) each value; int64, or int32 with out_int32."""
    right = _side(right, side)
    if sorted_sequence.dtype is dt.bool_ is getattr(input, "dtype", None):
        raise NotImplementedError('"searchsorted" not implemented for bool: convert the tensors first')
    if sorter is not None:
        if tuple(sorter.shape) != tuple(sorted_sequence.shape):
            raise RuntimeError(
                "searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                f"{list(sorted_sequence.shape)}and got sorter tensor {list(sorter.shape)}"
            )
        if sorter.dtype is not dt.int64:
            raise RuntimeError(
                f"searchsorted(): sorter must be a tensor of long dtype but got dtype {sorter.dtype.name}"
            )
        if (
            sorter._data is not None
            and sorter.numel()
            and not (0 <= int(sorter.min()) and int(sorter.max()) < sorted_sequence.shape[-1])
        ):
            raise RuntimeError("searchsorted(): sorter index out of range")
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    from ..dispatch import meta_of

    searchsorted_op.meta(meta_of(sorted_sequence), meta_of(input), out_int32, right)
    return finish(searchsorted_op(sorted_sequence, input, out_int32, right), False, out)


@function(
    "bucketize(input: Tn, boundaries: T, out_int32: bool, right: bool)",
    method=False,
    inline=Inline(
        searchsorted_op,
        "a0.ndim == 1 and a0.dtype.char != '?' and out_int32 is False and (right is False or right is True)",
        sorted_sequence="boundaries",
        values="input",
    ),
)
def bucketize(input, boundaries, *, out_int32=False, right=False, out=None):
    """Number of the bucket between boundaries that holds each value."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"bucketize(): boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


# ---- counting ----
