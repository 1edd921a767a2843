"""Arrays in order along one dimension, and the first few of every row without sorting the rows."""

from __future__ import annotations

import numpy as np

_SMALL_KEYS = {"f": (np.int32, 31), "i": (np.int32, 31), "h": (np.int16, 15), "e": (np.int16, 15)}  # by dtype.char


def _keyed_order(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """order_of for short numbers: value and place packed into one 64-bit integer, which numpy sorts by vector code."""
    bits, top = _SMALL_KEYS[x.dtype.char]
    if x.dtype.kind == "f":
        x = np.where(np.isnan(x), x.dtype.type(np.nan), x + x.dtype.type(0))  # one NaN, one zero
        key = np.ascontiguousarray(x).view(bits).astype(np.int64)
        key ^= (key >> 63) & ((1 << top) - 1)  # negative numbers: the larger the bits the smaller the value
    else:
        key = x.astype(np.int64)
    if descending:
        np.invert(key, out=key)
    key <<= 32
    n = x.shape[dim]
    key |= np.arange(n).reshape(n, *(1,) * (x.ndim - 1 - dim % x.ndim))
    key.sort(axis=dim)
    key &= 0xFFFFFFFF
    return key


def order_of(x: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    """Stable order along dim; NaN counts as the largest value."""
    if x.shape[dim] >= 256 and x.dtype.char in _SMALL_KEYS:
        return _keyed_order(x, dim, descending)
    if not descending:
        return x.argsort(dim, "stable")
    back = (*(slice(None),) * (dim % x.ndim), slice(None, None, -1))
    order = x[back].argsort(dim, "stable")  # reversed twice: equal values stay in order
    return x.shape[dim] - 1 - order[back]


def _columns(k: int) -> int:
    return max(64, 8 * k)


def pays(x: np.ndarray, k: int, n: int) -> bool:
    """Whether ``first_of_rows`` is worth its dozen calls: half the time of argpartition where rows are long."""
    return x.size >= 8192 and n >= 4 * _columns(k) and x.dtype.kind in "fiu"


def _bound(x: np.ndarray, k: int, largest: bool) -> np.ndarray:
    """(rows, 1): a value that at least k numbers of each row reach; NaN where too many of them are NaN.

    A row is cut into columns; the k-th of the columns' extrema is reached by k columns, and by few numbers more.
    """
    rows, n = x.shape
    columns = _columns(k)
    part = x[:, : n - n % columns].reshape(rows, -1, columns)
    ends = np.maximum.reduce(part, axis=1) if largest else np.fmin.reduce(part, axis=1)  # NaN is the largest
    at = columns - k if largest else k - 1
    return np.partition(ends, at, axis=1)[:, at : at + 1]


def first_of_rows(x: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """Indices of the k largest (smallest) of each row, in order, as a stable sort has them; NaN is the largest value.

    x: (rows, n) for which it ``pays``, k > 0. None where so many numbers are equal, or NaN, that sorting is quicker.
    """
    rows, n = x.shape
    bound = _bound(x, k, largest)
    chosen = np.flatnonzero(~(x < bound) if largest else x <= bound)  # NaN takes part in the first only
    if not rows * k <= chosen.size <= 4 * rows * k:
        return None
    row, at = np.divmod(chosen, n)
    counts = np.bincount(row, minlength=rows)
    width = int(counts.max())
    if counts.min() < k or width > 16 * k:
        return None
    place = np.arange(chosen.size) - np.repeat(np.cumsum(counts) - counts, counts)
    worst = (-np.inf if largest else np.nan) if x.dtype.kind == "f" else _extreme(x.dtype, largest)
    values, indices = np.full((rows, width), worst, x.dtype), np.zeros((rows, width), np.int64)
    values[row, place], indices[row, place] = x.reshape(-1)[chosen], at
    return np.take_along_axis(indices, order_of(values, 1, largest)[:, :k], 1)


def _extreme(dtype: np.dtype, least: bool) -> int:
    info = np.iinfo(dtype)
    return int(info.min if least else info.max)
