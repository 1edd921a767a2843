"""Pooling to a given size: adaptive means and maxima."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..autograd.rooted import rooted
from ..op import function
from ..size_values import SymbolicSize
from ..tensor import wrap
from . import _pool_kernels as pk
from ._nn import spread
from .linear_maps import linear_map, plain_image
from .nn_pool import _adaptive_max, _batched, _ints
from .resample import tables, weighted_slices

_MUCH = 1 << 15  # elements from which a dimension after the other is quicker than a map of all places


def _check_adaptive(nd: int, input: Any) -> None:
    if nd > 1 and input.ndim < nd + 1:
        raise ValueError(f"Input dimension should be at least {nd + 1}")


def _adaptive_size(fn: str, nd: int, x: Any, output_size: Any) -> tuple:
    sizes = spread(output_size, nd, "output_size", fn)
    sizes = tuple(s if o is None else o for o, s in zip(sizes, x.shape[2:], strict=True))
    if any(isinstance(s, (int, SymbolicSize)) and s < 0 for s in sizes):
        raise RuntimeError(f"{fn}: elements of output_size must be greater than or equal to 0, but got {list(sizes)}")
    return sizes


def _adaptive_mean(nd, input, output_size):
    size = _ints(output_size, nd)
    a = input._data
    if size and size != (1,) * nd and (a is None or a.size <= _MUCH):
        found = linear_map(f"AdaptiveAvgPool{nd}D", functools.partial(_parts, nd), input, nd, size, mean=True)
        if found is not None:
            return found
    return _parts(nd, input, output_size)


def _parts(nd, input, output_size):
    from .. import cat

    fn = f"adaptive_avg_pool{nd}d"
    _check_adaptive(nd, input)
    x, unbatched = _batched(fn, nd, input)
    sizes = _adaptive_size(fn, nd, x, output_size)
    given = [s for s in spread(output_size, nd, "output_size", fn) if s is not None]
    # (sizes of the input that vary need not be told from 1: one that was asked for does)
    if all(isinstance(s, int) or any(s is o for o in given) for s in sizes) and all(s == 1 for s in sizes):
        x = x.mean(tuple(range(2, nd + 2)), keepdim=True)
    else:
        x = rooted(x)
        for i, n in enumerate(sizes):  # a mean over a box is a mean of means along each dimension
            dim, s = 2 + i, x.shape[2 + i]
            if n == s:
                continue
            if n == 0:
                x = x.narrow(dim, 0, 0)
            elif s % n == 0:
                x = x.unflatten(dim, (n, s // n)).mean(dim + 1)
            elif plain_image(x, nd) is not None:
                x = _mean_of_slices(x, dim, s, n)
            else:
                x = cat([x.narrow(dim, a, b - a).mean(dim, keepdim=True) for a, b in pk.adaptive_bounds(s, n)], dim)
        if tuple(x.shape[2:]) == tuple(input.shape[input.ndim - nd :]):
            x = x.clone(memory_format="contiguous")  # nothing was pooled: still a new tensor
    return x.squeeze(0) if unbatched else x


def _mean_of_slices(x, dim, size, n):
    """Means over windows of neighbouring slices along one dimension, by tables."""
    counts, *given = _tables(size, n, x.dtype.np)
    shape = tuple(n if d == dim else 1 for d in range(x.ndim))
    return weighted_slices(x, *map(wrap, given), dim) / wrap(counts.reshape(shape))


@functools.lru_cache(maxsize=64)
def _tables(size, n, kind):
    """The number of slices in each window, and the tables that add them up."""
    bounds = np.array(pk.adaptive_bounds(size, n))
    counts = bounds[:, 1] - bounds[:, 0]
    taps = np.arange(int(counts.max()))[:, None]
    within = taps < counts
    places, ones = np.where(within, bounds[:, 0] + taps, -1), within.astype(kind)
    return counts.astype(kind), places, ones, *tables(places, ones, size)


@function("nn.functional.adaptive_avg_pool1d(input: T)", names=("adaptive_avg_pool1d",))
def adaptive_avg_pool1d(input, output_size):
    """Mean over windows that divide (N, C, L) into `output_size` parts."""
    return _adaptive_mean(1, input, output_size)


@function("nn.functional.adaptive_avg_pool2d(input: T)")
def adaptive_avg_pool2d(input, output_size):
    """Mean over windows that divide (N, C, H, W) into `output_size` parts."""
    return _adaptive_mean(2, input, output_size)


@function("nn.functional.adaptive_avg_pool3d(input: T)")
def adaptive_avg_pool3d(input, output_size):
    """Mean over windows that divide (N, C, D, H, W) into `output_size` parts."""
    return _adaptive_mean(3, input, output_size)


def _adaptive_maximum(nd, input, output_size, return_indices):
    fn = f"adaptive_max_pool{nd}d"
    size = _ints(output_size, nd)
    if size and len(size) == nd and min(size) > 0 and plain_image(input, nd) is not None:
        return _adaptive_max.fn(input, size) if return_indices else _adaptive_max.first(input, size)
    _check_adaptive(nd, input)
    x, unbatched = _batched(fn, nd, input)
    y, indices = _adaptive_max(x, _adaptive_size(fn, nd, x, output_size))
    if unbatched:
        y, indices = y.squeeze(0), indices.squeeze(0)
    return (y, indices) if return_indices else y


@function("nn.functional.adaptive_max_pool1d(input: T)")
def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maximum over windows that divide (N, C, L) into `output_size` parts."""
    return _adaptive_maximum(1, input, output_size, return_indices)


@function("nn.functional.adaptive_max_pool2d(input: T)")
def adaptive_max_pool2d(input, output_size, return_indices=False):
    """Maximum over windows that divide (N, C, H, W) into `output_size` parts."""
    return _adaptive_maximum(2, input, output_size, return_indices)


@function("nn.functional.adaptive_max_pool3d(input: T)")
def adaptive_max_pool3d(input, output_size, return_indices=False):
    """Maximum over windows that divide (N, C, D, H, W) into `output_size` parts."""
    return _adaptive_maximum(3, input, output_size, return_indices)


@function("nn.functional.adaptive_max_pool1d_with_indices(input: T)", names=("adaptive_max_pool1d",))
def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """As adaptive_max_pool1d, with the indices of the maxima."""
    return _adaptive_maximum(1, input, output_size, True)


@function("nn.functional.adaptive_max_pool2d_with_indices(input: T)")
def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """As adaptive_max_pool2d, with the indices of the maxima."""
    return _adaptive_maximum(2, input, output_size, True)


@function("nn.functional.adaptive_max_pool3d_with_indices(input: T)")
def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """As adaptive_max_pool3d, with the indices of the maxima."""
    return _adaptive_maximum(3, input, output_size, True)
