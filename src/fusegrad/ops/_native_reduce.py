"""Native kernels of reductions over the last or the first dimensions: arrays in, an array out, or None."""

from __future__ import annotations

import functools
import math

import numpy as np

from ._native import dense, row_kernel
from ._shapes import axes_of, reduced_shape

__all__ = ["reduced", "spread_of"]

_KERNELS = {
    what: {columns: row_kernel("reduction", what, columns) for columns in (False, True)}
    for what in ("sum", "mean", "max", "min", "prod", "norm", "nansum", "var", "std")
}
_LONG = 16384  # elements of one row of float64 from which numpy's pairwise sums of it are more exact
_ALWAYS = ("prod", "norm", "nansum")
_NARROW = 16  # columns below which whole vectors are not filled
_empty = np.empty


@functools.lru_cache(maxsize=1024)
def _plan(shape: tuple, dim: tuple | int | None, keepdim: bool) -> tuple | None:
    """(whether columns are reduced, (n, m), shape of the result) if the dimensions are the last or the first ones."""
    axes, n = axes_of(len(shape), dim), len(shape)
    out = reduced_shape(shape, dim, keepdim)
    if axes is None or len(axes) == n:
        return False, (1, math.prod(shape)), out
    axes, k = tuple(sorted(axes)), len(axes)
    if axes == tuple(range(n - k, n)):
        return False, (math.prod(shape[: n - k]), math.prod(shape[n - k :])), out
    if axes == tuple(range(k)):
        return True, (math.prod(shape[:k]), math.prod(shape[k:])), out
    return None


def reduced(what: str, a: np.ndarray, dim: tuple | int | None, keepdim: bool) -> np.ndarray | None:
    """One of the kernels (not var, std) on contiguous floats over `dim`; None where numpy does it (also long sums)."""
    plan = _plan(a.shape, dim, keepdim)
    if plan is None or not a.flags.c_contiguous:
        return None
    columns, sizes, shape = plan
    if (
        sizes[1] < _NARROW
        if columns
        else sizes[0] == 1 and sizes[1] > _LONG and a.itemsize == 8 and what not in _ALWAYS
    ):
        return None
    f = _KERNELS[what][columns][a.dtype]
    if f is None:
        return None
    out = _empty(shape, a.dtype)
    f(a, out, *sizes)
    return out


def spread_of(what: str, a: np.ndarray, dim: tuple | int | None, correction: float, keepdim: bool) -> np.ndarray | None:
    """var or std over `dim`, squares divided by the number of elements less `correction` (at least 0)."""
    plan = _plan(a.shape, dim, keepdim)
    if plan is None:
        return None
    columns, sizes, shape = plan
    if columns and sizes[1] < _NARROW:
        return None
    f = _KERNELS[what][columns][a.dtype]
    if f is None:
        return None
    if not a.flags.c_contiguous:
        a = dense(a)
    out = _empty(shape, a.dtype)
    f(a, out, max(sizes[0 if columns else 1] - correction, 0), *sizes)
    return out
