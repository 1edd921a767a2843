"""bincount, histc and histogram: counts, weights or densities."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.undefined import undefined
from ..meta import Meta
from ..op import Sample, function, op
from ..tensor import Tensor, need_data, wrap
from ._results import named_results
from ._samples import t
from .create import finish

Histogram = named_results("histogram", ["hist", "bin_edges"])


def _edges(x: np.ndarray, bins: Any, limits: Any) -> np.ndarray:
    """Edges in the dtype of ``x``: given, or of ``bins`` equal bins between ``limits`` (of the data, if None)."""
    if isinstance(bins, Tensor):
        e = need_data(bins, "histogram")
        if e.ndim != 1 or e.size == 0:
            raise RuntimeError("histogramdd(): bins tensor should have one dimension, and at least one element")
        if e.dtype != x.dtype:
            raise RuntimeError("histogramdd(): input tensor and bins tensors should have the same dtype")
        if limits is not None:
            raise TypeError(
                "histogram() received an invalid combination of arguments: bins is a tensor, and range is given"
            )
        return e.copy()
    if bins <= 0:
        raise RuntimeError("histogramdd(): bins must be > 0, but got " + str(bins))
    if limits is not None:
        if len(limits) != 2:
            raise RuntimeError(f"histogramdd(): range should have 2 elements, but got {len(limits)}")
        low, high = limits
    else:
        low, high = (float(x.min()), float(x.max())) if x.size else (0.0, 1.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise RuntimeError(f"histogramdd(): dimension 0's range [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(f"histogramdd(): min should not exceed max, but got min {low} max {high} for dimension 0")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return np.linspace(low, high, bins + 1).astype(x.dtype)


def _batched(*args: Any) -> Any:
    """The innermost vmap that one of the arguments is an example of, or None."""
    found = [x._g.handler for x in args if isinstance(x, Tensor) and x._data is None]
    return max((h for h in found if hasattr(h, "each")), key=lambda h: h.level, default=None)


@function("histogram(input: T, weight: T, density: bool)")
def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(hist, bin_edges) of all elements; each bin takes its lower edge in, the last one its upper edge as well.

    ``bins``: a number of equal bins, or the edges as an increasing 1-d tensor. ``weight``: shaped as input. Values
    outside of the edges are left out. Results have input's dtype. RuntimeError for integers.
    """
    if (handler := _batched(input, bins, weight)) is not None:
        return handler.each(
            lambda x, b, w: histogram(x, b, range=range, weight=w, density=density), input, bins, weight
        )
    x = need_data(input, "histogram")
    if not input.dtype.is_floating_point or input.dtype is dt.float16:
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{input.dtype}'")
    if weight is not None:
        if weight.dtype is not input.dtype:
            raise RuntimeError(
                "histogramdd(): if weight tensor is provided, input tensor and weight tensor should have the same dtype"
            )
        if tuple(weight.shape) != tuple(input.shape):
            raise RuntimeError(
                "histogramdd(): if weight tensor is provided it should have the same shape as the input tensor"
            )
    edges = _edges(x, bins, range)
    flat = x.reshape(-1)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    places = np.minimum(np.searchsorted(edges, flat[inside], "right") - 1, len(edges) - 2)
    weights = None if weight is None else need_data(weight, "histogram").reshape(-1)[inside]
    if len(edges) == 1:
        return Histogram(wrap(np.zeros(0, x.dtype)), wrap(edges))
    hist = np.bincount(places, weights, minlength=len(edges) - 1).astype(x.dtype)
    if density:
        hist = hist / np.diff(edges) / hist.sum()
    error = RuntimeError("derivative for aten::histogram is not implemented")
    return Histogram(undefined(wrap(hist), error, input, weight), undefined(wrap(edges), error, input, weight))


@function("bincount(input: T, weights: T, minlength: int)")
def bincount(input, weights=None, minlength=0):
    """How often each non-negative integer occurs, or the sum of its weights."""
    if (handler := _batched(input, weights)) is not None:
        return handler.each(lambda x, w: bincount(x, w, minlength), input, weights)
    x = need_data(input, "bincount")
    if x.dtype.kind == "f":
        raise NotImplementedError(f'"bincount" not implemented for {input.dtype.name}: convert to int64')
    if x.ndim != 1 or x.dtype.kind not in "iu" or (x < 0).any():
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is None:
        return wrap(np.bincount(x, minlength=minlength).astype(np.int64, copy=False))
    w = need_data(weights, "bincount")
    if w.shape != x.shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    kind = np.float32 if w.dtype == np.float32 else np.float64
    out = wrap(np.bincount(x, w, minlength=minlength).astype(kind))
    return undefined(out, RuntimeError("derivative for aten::bincount is not implemented: use index_add"), weights)


@op("_histc(input: T, bins: int, min: num, max: num)", kind="extern", promote="none", method=False, function=False)
class histc_op:
    """Counts in bins of equal width between min and max (of the data, if both are 0), of input's dtype."""

    nondiff = True

    def kernel(x, bins, min, max):
        if bins <= 0:
            raise RuntimeError("histc(): bins must be > 0")
        if min == max == 0 and x.size:
            min, max = x.min(), x.max()
        if min == max:
            min, max = min - 1, max + 1
        if not (np.isfinite(min) and np.isfinite(max)):
            raise RuntimeError(f"histc(): range of [{min}, {max}] is not finite")
        if min > max:
            raise RuntimeError("histc(): max must be larger than min")
        v = x[(x >= min) & (x <= max)].astype(np.float64)
        index = np.minimum(((v - min) * bins / (np.float64(max) - min)).astype(np.int64), bins - 1)
        return np.bincount(index, minlength=bins).astype(x.dtype)

    def meta(m, bins, min, max):
        if bins <= 0:
            raise RuntimeError("histc(): bins must be > 0")
        return Meta((bins,), m.dtype)

    def samples():
        yield Sample(t(3, 4), 5, -1, 1, grad=False)
        yield Sample(t(7), 3, 0, 0, grad=False)


@function("histc(input: T, bins: int, min: num, max: num)")
def histc(input, bins=100, min=0, max=0, *, out=None):
    """Counts in bins of equal width between min and max (of the data, if both are 0), of input's dtype."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"histc is not implemented for {input.dtype.name}")
    return finish(histc_op(input, bins, min, max), False, out)
