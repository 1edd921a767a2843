"""Embedding tables: rows by index, their transposed sum, and bags of rows."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import SLOW
from ..dispatch import FAST
from ..errors import warn
from ..handler import current
from ..meta import Meta
from ..native.on_demand import defined
from ..op import Sample, function, op
from ..tensor import wrap
from ._index_kernels import add_rows, check_range
from ._native import dense, plain_arrays
from ._nn import data, indices, shape_list


@op(
    "_embedding(weight: T, input: T, padding_idx: int = -1, scale_grad_by_freq: bool = False)",
    kind="gather",
    method=False,
)
class _embedding:
    """Rows of weight (V, D) at integer indices (*) -> (*, D). The row padding_idx gets no gradient."""

    def meta(weight, input, padding_idx, scale_grad_by_freq):
        if input.dtype.name not in ("int64", "int32"):
            raise RuntimeError(f"embedding: expected indices of dtype int64 or int32, but got {input.dtype.name}")
        if len(weight.shape) != 2:
            raise RuntimeError("'weight' must be 2-D")
        return Meta((*input.shape, weight.shape[1]), weight.dtype)

    def kernel(weight, input, padding_idx, scale_grad_by_freq):
        if input.dtype.kind != "i" or input.dtype.itemsize < 4 or weight.ndim != 2:
            raise TypeError("embedding: weight must be 2-D and indices integers")
        check_range(input, weight.shape[0], 0, negative=False)
        return weight.take(input, axis=0)

    any_dtype = ("input",)

    def on_arrays(g, input, weight_meta, padding_idx, scale_grad_by_freq):
        return _embedding_grad.kernel(g, input, weight_meta.shape[0], padding_idx, scale_grad_by_freq), None

    def vjp_weight(g, input, weight_meta, padding_idx, scale_grad_by_freq):
        return _embedding_grad(g, input, weight_meta.shape[0], padding_idx, scale_grad_by_freq)

    def decompose(weight, input, padding_idx, scale_grad_by_freq):
        return weight.index_select(0, input.reshape(-1)).view(*input.shape, weight.shape[1])

    def samples():
        yield Sample(data(5, 3), indices(5, 2, 4))
        yield Sample(data(5, 3), indices(5, 4), 2)

    def ref(weight, input, padding_idx=-1, scale_grad_by_freq=False):
        return weight[input]

    def errors():
        yield (data(5, 3), np.array([5])), {}, IndexError, "out of range"


_rows = _embedding.fn


@op(
    "_embedding_grad(grad: T, input: T, rows: int, padding_idx: int = -1, scale_grad_by_freq: bool = False)",
    kind="extern",
    method=False,
)
class _embedding_grad:
    """Sum of grad (*, D) into zeros (rows, D) at the indices (*)."""

    def meta(grad, input, rows, padding_idx, scale_grad_by_freq):
        return Meta((rows, grad.shape[-1]), grad.dtype)

    def kernel(grad, input, rows, padding_idx, scale_grad_by_freq):
        width = grad.shape[-1]
        flat, g = input.reshape(-1), grad.reshape(-1, width)
        if scale_grad_by_freq:
            counts = np.bincount(flat, minlength=rows)
            g = g / counts[flat][:, None].astype(g.dtype)
        out = _sum_rows(g, flat, rows)
        if 0 <= padding_idx < rows:
            out[padding_idx] = 0
        return out

    def vjp_grad(g, input, grad_meta, padding_idx, scale_grad_by_freq):
        back = _embedding(g, input)
        if padding_idx >= 0:
            back = back.masked_fill((input == padding_idx).unsqueeze(-1), 0.0)
        if scale_grad_by_freq:
            ones = back.new_ones(grad_meta.shape[:-1]).unsqueeze(-1)
            back = back / _embedding(_embedding_grad(ones, input, g.shape[0]), input)
        return back

    def samples():
        yield Sample(data(2, 4, 3), indices(5, 2, 4), 5)
        yield Sample(data(4, 3), indices(5, 4), 5, 2, True)


def _sum_rows(g: np.ndarray, index: np.ndarray, rows: int) -> np.ndarray:
    """Add the rows of `g` at `index`: all first occurrences at once, then all second ones, ...; indices that occur
    very often are summed as runs of the sorted order instead."""
    out = np.zeros((rows, g.shape[1]), g.dtype)
    if not index.size or not g.shape[1]:
        return out
    if index.size < 64:
        np.add.at(out, index, g)
        return out
    if g.dtype.char in "fd":
        add_rows(out, index, g)
        return out
    order = np.argsort(index, kind="stable")
    ranked = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ranked[1:] != ranked[:-1])))
    which, counts = ranked[starts], np.diff(starts, append=index.size)
    most = int(counts.max())
    if most > 64 and most * starts.size > 4 * index.size:
        out[which] = np.add.reduceat(g[order], starts, axis=0)
        return out
    out[which] = g[order[starts]]
    for r in range(1, most):
        left = counts > r
        out[which[left]] += g[order[starts[left] + r]]
    return out


def _padding_row(padding_idx: Any, rows: Any) -> int:
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def _renorm_rows(weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows that are used and longer than max_norm, in place and outside of autograd."""
    from .. import no_grad

    with no_grad():
        used = input.detach().reshape(-1).unique()
        rows = weight.detach().index_select(0, used)
        norm = rows.norm(norm_type, 1, keepdim=True)
        scaled = (rows * (max_norm / (norm + 1e-7))).where(norm > max_norm, rows)
        weight.index_copy_(0, used, scaled)


@function(
    "nn.functional.embedding(input: T, weight: T, padding_idx: int, max_norm: float, norm_type: float, "
    "scale_grad_by_freq: bool, sparse: bool)",
    direct=True,
)
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight (V, D) at the indices `input` (*) -> (*, D)."""
    if padding_idx is None and max_norm is None and weight._data is not None and weight._data.ndim == 2:
        return _rows(weight, input, -1, bool(scale_grad_by_freq))
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    row = _padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renorm_rows(weight, input, max_norm, norm_type)
    return _embedding(weight, input, row, bool(scale_grad_by_freq))


@function("embedding(weight: T, indices: T, padding_idx: int, scale_grad_by_freq: bool, sparse: bool)", method=False)
def torch_embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """embedding with the argument order of the function outside nn.functional."""
    return _embedding(weight, indices, padding_idx, bool(scale_grad_by_freq))


def _bag_input(input: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, np.ndarray, int]:
    """The flat indices, the bag of each, and the number of bags."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch")
        n, length = input.shape
        return input.reshape(-1), np.repeat(np.arange(n), length), n
    if input.ndim != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    starts = offsets.numpy().astype(np.int64)
    size = input.shape[0]
    if starts.size and starts[0] != 0:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0."
        )
    if starts.size and starts[-1] > size:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {size} but got offsets[-1] of {starts[-1]}"
        )
    if include_last_offset:
        if not starts.size:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        bags = starts.size - 1
        ends = starts[1:]
        starts = starts[:-1]
    else:
        bags, ends = starts.size, np.append(starts[1:], size)
    which = np.full(size, -1, np.int64)
    lengths = ends - starts
    if bags and lengths.min() >= 0 and ends[-1] <= size:
        which[: ends[-1]] = np.repeat(np.arange(bags), lengths)
        return input, which, bags
    for i, (a, b) in enumerate(zip(starts, ends, strict=True)):
        which[a:b] = i
    return input, which, bags


@function(
    "nn.functional.embedding_bag(input: T, weight: T, offsets: T, max_norm: float, norm_type: float, "
    "scale_grad_by_freq: bool, mode: str, sparse: bool, per_sample_weights: T, "
    "include_last_offset: bool, padding_idx: int)",
)
def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sum, mean or max of the rows of each bag of indices: (B, L) or (N) with offsets (B) -> (B, D)."""
    from .. import from_numpy

    if weight.dtype.category == 1 and input.dtype.category == 2:
        warn("Argument order of nn.functional.embedding_bag was changed.")
        weight, input = input, weight
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None:
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({shape_list(per_sample_weights)}) is not None, then it must "
                f"have the same shape as the input ({shape_list(input)})"
            )
        if mode != "sum":
            raise NotImplementedError(f"embedding_bag: per_sample_weights was not None with mode='{mode}'")
    flat, which, bags = _bag_input(input, offsets, include_last_offset)
    row = _padding_row(padding_idx, weight.shape[0])
    if max_norm is not None:
        _renorm_rows(weight, flat, max_norm, norm_type)
    keep = which >= 0
    if row >= 0:
        keep = keep & (flat.numpy() != row)
    even = bool(input.ndim == 2 and bags and flat.numel() and keep.all())  # bags of one length
    if not scale_grad_by_freq and _plain_bags(weight, flat, per_sample_weights):
        return _eager_bags(weight, flat, which, keep, bags, mode, per_sample_weights, even)
    rows = _embedding(weight, flat, row, bool(scale_grad_by_freq))
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if even:
        rows = rows.reshape(bags, -1, weight.shape[1])
        return rows.max(1)[0] if mode == "max" else rows.sum(1) if mode == "sum" else rows.mean(1)
    return _combine(rows, which, keep, bags, mode, weight, from_numpy)


# ---- bags of eager tensors: machine code ----


def _plain_bags(weight: Any, flat: Any, factors: Any) -> bool:
    """Whether all are plain tensors, with rows of floats that have machine code."""
    if SLOW[0] or current() is not None or any(type(t) not in FAST for t in (weight, flat, factors) if t is not None):
        return False
    w = weight._data
    if flat.dtype is not dt.int64 and flat.dtype is not dt.int32:
        return False
    if w is None or flat._data is None or w.ndim != 2 or w.dtype.char not in "fd" or not w.size * flat.numel():
        return False
    return factors is None or factors._data is not None and factors._data.dtype is w.dtype


def _eager_bags(weight, flat, which, keep, bags, mode, factors, even):
    if factors is not None:
        factors = factors.reshape(-1)
    if not keep.all():
        at = np.flatnonzero(keep)
        flat, which = wrap(flat._data[at]), which[at]
        factors = None if factors is None else factors.index_select(0, wrap(at))
    if mode == "max":
        place = _bag_places(weight.detach(), flat, wrap(which), bags)
        return weight.gather(0, place.clamp(min=0)).masked_fill(place < 0, 0.0)
    found = _bags(weight, flat, wrap(which), factors, bags, even)
    if mode != "mean":
        return found
    if even:
        return found / (flat.numel() // bags)
    counts = np.maximum(np.bincount(which, minlength=bags), 1).astype(found.dtype.np)
    return found / wrap(counts).view(-1, 1)


@functools.cache
def _kernels(name: str, *args: Any) -> Any:
    return defined("picks", name, *args)


def _bag_sums(w: np.ndarray, index: np.ndarray, which: np.ndarray, bags: int, even: bool, factors: Any) -> Any:
    """Rows of w at an index, summed where they belong; None without machine code, and for a wrong index."""
    f = _kernels("even_bags" if even else "bags", factors is not None)[w.dtype]
    if f is None:
        return None
    out = (np.empty if even else np.zeros)((bags, w.shape[1]), w.dtype)
    given = w[:0, 0] if factors is None else dense(factors)
    try:
        f(dense(w), index, which, given, out, len(w), index.size // bags if even else index.size, w.shape[1], bags)
    except IndexError:
        return None
    return out


def _bag_index(index: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return dense(index.astype(np.int64, copy=False)), dense(which)


@op(
    "_bags(weight: T, input: T, which: T, factors: T?, bags: int, even: bool)",
    kind="extern",
    method=False,
    function=False,
)
class _bags:
    """Sums of the rows of weight at the indices ``input`` (times factors), each in the bag ``which``; ``even``: bags
    follow each other and have as many rows each."""

    any_dtype = ("input", "which")

    def meta(weight, input, which, factors, bags, even):
        return Meta((bags, weight.shape[1]), weight.dtype)

    def kernel(weight, input, which, factors, bags, even):
        index, which = _bag_index(input, which)
        found = _bag_sums(weight, index, which, bags, even, factors)
        if found is None:
            check_range(index, weight.shape[0], 0, negative=False)
            rows = weight.take(index, axis=0)
            found = _sum_rows(rows if factors is None else rows * factors[:, None], which, bags)
        return found

    def vjp(g, weight, input, which, factors, need):
        if (arrays := plain_arrays(g, weight, factors)) and not input._data is None is which._data:
            found = _pulled_bags(*arrays, input._data, which._data, need)
            if found is not None:
                return tuple(a if a is None else wrap(a) for a in found)
        rows = _embedding(g, which)
        gw = gf = None
        if need[0]:
            given = rows if factors is None else rows * factors.unsqueeze(1)
            gw = _embedding_grad(given, input, weight.shape[0])
        if need[-1]:
            gf = (rows * _embedding(weight, input)).sum(1)
        return gw, None, None, gf

    def on_arrays(g, weight, input, which, factors, need):
        return _pulled_bags(g, weight, factors, input, which, [n is not None for n in need])

    def samples():
        which = np.array([0, 0, 2, 2, 2, 3])
        yield Sample(data(5, 3), indices(5, 6), which, None, 5, False)
        yield Sample(data(5, 3), indices(5, 6), which, data(6), 5, False)
        yield Sample(data(5, 3), indices(5, 6), np.repeat([0, 1, 2], 2), None, 3, True)

    def ref(weight, input, which, factors, bags, even):
        out = np.zeros((bags, weight.shape[1]), weight.dtype)
        np.add.at(out, which, weight[input] if factors is None else weight[input] * factors[:, None])
        return out


def _pulled_bags(g: Any, weight: Any, factors: Any, input: Any, which: Any, need: Any) -> Any:
    """Gradients as arrays; None without machine code."""
    index, which = _bag_index(input, which)
    gw = gf = None
    if need[0]:  # rows of g, by bag, summed at the indices
        gw = _bag_sums(dense(g), which, index, len(weight), False, factors)
        if gw is None:
            return None
    if need[-1]:
        f = _kernels("bag_factors")[weight.dtype]
        if f is None:
            return None
        gf = np.empty(index.size, weight.dtype)
        f(dense(weight), index, which, dense(g), gf, len(weight), index.size, weight.shape[1], len(g))
    return gw, None, None, gf


@op("_bag_places(weight: T, input: T, which: T, bags: int)", kind="extern", method=False, function=False)
class _bag_places:
    """The row of weight that the largest number of each bag and column comes from (the first of several; NaN counts as
    the largest); -1 for a bag without rows."""

    nondiff = True
    any_dtype = ("input", "which")

    def meta(weight, input, which, bags):
        return Meta((bags, weight.shape[1]), dt.int64)

    def kernel(weight, input, which, bags):
        index, which = _bag_index(input, which)
        place = np.full((bags, weight.shape[1]), -1, np.int64)
        f = _kernels("largest_in_bags")[weight.dtype]
        if f is not None and index.size:
            try:
                out = np.zeros(place.shape, weight.dtype)
                f(dense(weight), index, which, weight[:0, 0], out, place, len(weight), index.size, *out.shape[::-1])
                return place
            except IndexError:
                pass
        check_range(index, weight.shape[0], 0, negative=False)
        for i in range(bags):
            mine = index[which == i]
            if mine.size:
                place[i] = mine[weight[mine].argmax(0)]
        return place

    def samples():
        yield Sample(data(5, 3), indices(5, 6), np.array([0, 0, 2, 2, 2, 3]), 5)


def _largest(rows, which, lengths, longest, from_numpy):
    """The largest of each bag (its first, where there are several) as a reduction of bags filled up to one length."""
    places = np.full((lengths.size, longest), -1, np.int64)
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(which, kind="stable")
    within = np.arange(which.size) - np.repeat(starts, lengths)
    places[np.repeat(np.arange(lengths.size), lengths), within] = order
    if not longest:
        return rows.new_zeros((lengths.size, rows.shape[1]))
    none = from_numpy(places < 0)[:, :, None]
    picked = rows.index_select(0, from_numpy(np.maximum(places, 0).reshape(-1)))
    bags = picked.reshape(lengths.size, longest, rows.shape[1]).masked_fill(none, float("-inf"))
    found = bags.max(1)[0]
    return found.masked_fill(from_numpy(lengths == 0)[:, None], 0.0) if lengths.min() == 0 else found


def _combine(rows, which, keep, bags, mode, weight, from_numpy):
    if not keep.all():
        rows = rows.index_select(0, from_numpy(np.flatnonzero(keep)))
        which = which[keep]
    if mode == "max":
        lengths = np.bincount(which, minlength=bags)
        longest = int(lengths.max(initial=0))
        if bags * longest <= 4 * which.size:
            return _largest(rows, which, lengths, longest, from_numpy)
        parts = []
        for i in range(bags):
            mine = np.flatnonzero(which == i)
            part = rows.index_select(0, from_numpy(mine))
            parts.append(part.max(0)[0] if mine.size else weight.new_zeros(weight.shape[1]))
        from .. import stack

        return stack(parts) if parts else weight.new_zeros((0, weight.shape[1]))
    total = _embedding_grad(rows, from_numpy(which), bags)
    if mode == "mean":
        counts = np.maximum(np.bincount(which, minlength=bags), 1).astype(weight.dtype.np)
        total = total / from_numpy(counts).view(-1, 1)
    return total
