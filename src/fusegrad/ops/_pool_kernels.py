"""Pooling on arrays: a running maximum or sum over the positions inside the window."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..native.on_demand import defined
from ._index_kernels import add_flat

Ints = tuple[int, ...]


def out_sizes(size: Any, window: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool) -> tuple:
    """Output sizes; in ceil mode the last window starts inside the input or its left padding."""
    out = []
    for s, k, st, p, d in zip(size, window, stride, padding, dilation, strict=True):
        span = s + 2 * p - d * (k - 1) - 1
        n = (span + (st - 1 if ceil_mode else 0)) // st + 1
        if ceil_mode and (n - 1) * st >= s + p:
            n = n - 1
        out.append(n)
    return tuple(out)


known_sizes = functools.lru_cache(maxsize=256)(out_sizes)  # of arrays: all are ints


def _padded(x: np.ndarray, out: Ints, window: Ints, stride: Ints, padding: Ints, dilation: Ints, fill: Any):
    """The input with a border of `fill` so wide that every window lies inside."""
    size = x.shape[2:]
    want = tuple(
        max(s + 2 * p, (n - 1) * st + d * (k - 1) + 1)
        for s, p, n, st, d, k in zip(size, padding, out, stride, dilation, window, strict=True)
    )
    if want == size:
        return x
    xp = np.full((*x.shape[:2], *want), fill, x.dtype)
    xp[(..., *(slice(p, p + s) for p, s in zip(padding, size, strict=True)))] = x
    return xp


_FEW = 8192  # elements in all windows together: up to so many, one strided reduction is quicker than a pass a position


def _in_windows(xp: np.ndarray, out: Ints, window: Ints, stride: Ints, dilation: Ints) -> np.ndarray | None:
    """The elements of every window as (N * C, positions in the window, windows); None if there are many."""
    planes = xp.shape[0] * xp.shape[1]
    if not 0 < planes * math.prod(out) * math.prod(window) <= _FEW:
        return None
    return xp.reshape(planes, -1).take(_places(xp.shape[2:], out, window, stride, (0,) * len(out), dilation), 1)


@functools.lru_cache(maxsize=256)
def _cuts(out: Ints, window: Ints, stride: Ints, dilation: Ints) -> list:
    found = []
    for pos in itertools.product(*(range(k) for k in window)):
        cut = tuple(
            slice(p * d, p * d + (n - 1) * st + 1, st) for p, d, n, st in zip(pos, dilation, out, stride, strict=True)
        )
        found.append((pos, (Ellipsis, *cut)))
    return found


def max_pool(
    x: np.ndarray, window: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Maxima of (N, C, *S) and their flat indices into *S (NaN counts as the largest, the last one of several)."""
    size = x.shape[2:]
    out = out_sizes(size, window, stride, padding, dilation, ceil_mode)
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    xp = _padded(x, out, window, stride, padding, dilation, low)
    if x.dtype.kind == "f" and (found := _in_windows(xp, out, window, stride, dilation)) is not None:
        at = found.argmax(1)
        best = np.take_along_axis(found, at[:, None], 1)
        if np.isfinite(best).all():  # so that no padding was chosen, and no NaN
            places = _places(size, out, window, stride, padding, dilation)
            where = places[at, np.arange(places.shape[1])]
            shape = (*x.shape[:2], *out)
            return best.reshape(shape), where.reshape(shape)
    best = np.full((*x.shape[:2], *out), low, x.dtype)
    where = np.zeros(best.shape, np.int64)
    if best.size == 0:
        return best, where
    base, inside = _window_index(size, out, window, stride, padding, dilation)
    started = np.zeros(out, bool)  # windows that have met an element that is no padding
    for pos, cut in _cuts(out, window, stride, dilation):
        v = xp[cut]
        better = v > best
        if x.dtype.kind == "f":
            better |= np.isnan(v)
        ok = inside(pos)
        better = (better | ~started) & ok
        started = started | ok
        np.copyto(best, v, where=better)
        np.copyto(where, base(pos), where=better)
    return best, where


@functools.lru_cache(maxsize=64)
def _places(size: Ints, out: Ints, window: Ints, stride: Ints, padding: Ints, dilation: Ints) -> np.ndarray:
    """Flat indices of the input (of what is padding: any) for all positions of all windows: (positions, windows)."""
    base, _ = _window_index(size, out, window, stride, padding, dilation)
    return np.stack([base(pos).reshape(-1) for pos in itertools.product(*(range(k) for k in window))])


_LARGEST = defined("windows", "largest", False)
_PLACE = defined("windows", "largest", True)


@functools.lru_cache(maxsize=64)
def _elements(size: Ints, out: Ints, window: Ints, stride: Ints, padding: Ints, dilation: Ints) -> np.ndarray | None:
    """Flat indices of the elements of each window, -1 for its padding: (windows, positions); None if there are many."""
    if not 0 < math.prod(out) * math.prod(window) <= _FEW:
        return None
    base, inside = _window_index(size, out, window, stride, padding, dilation)
    places = [np.where(inside(pos), base(pos), -1).reshape(-1) for pos in itertools.product(*map(range, window))]
    return np.stack(places, 1)


def _by_elements(kernels: Any, x: np.ndarray, out: Ints, index: np.ndarray, kind: Any) -> np.ndarray | None:
    """What a kernel of ``native.windows.largest`` gives of (N, C, *S); None where there is none."""
    f = kernels[x.dtype]
    if f is None or not x.size:
        return None
    lead = x.shape[: -len(out)]
    planes = math.prod(lead)
    x = x if x.flags.c_contiguous else np.ascontiguousarray(x)
    y = np.empty((*lead, *out), kind)
    f(x, index, y, planes, x.size // planes, *index.shape)
    return y


def largest_call(shape: Ints, dtype: Any, out: Ints, *steps: Ints) -> tuple | None:
    """What ``run_largest`` needs for arrays of a shape; None where other ways are quicker. ``steps``: the window, its
    strides, padding and dilation."""
    nd, size = len(out), math.prod(shape)
    index = _elements(shape[-nd:], out, *steps) if 0 < size <= _FEW else None
    f = None if index is None else _LARGEST[dtype]
    if f is None:
        return None
    planes = math.prod(shape[:-nd])
    return (*shape[:-nd], *out), f, (index, planes, size // planes, *index.shape)  # type: ignore[union-attr]


def run_largest(x: np.ndarray, to: Ints | None, f: Callable[..., Any], numbers: tuple) -> np.ndarray:
    """Maxima of (N, C, *S) or (C, *S); the rest is what ``largest_call`` gives, or (None, what computes it, its
    arguments)."""
    if to is None:
        return f(x, *numbers)
    y = np.empty(to, x.dtype)
    f(x if x.flags.c_contiguous else np.ascontiguousarray(x), numbers[0], y, *numbers[1:])
    return y


def max_values(x: np.ndarray, out: Ints, window: Ints, stride: Ints, padding: Ints, dilation: Ints) -> np.ndarray:
    """Maxima of (N, C, *S) or (C, *S) without their places."""
    nd = len(out)
    if 0 < x.size <= _FEW and (index := _elements(x.shape[-nd:], out, window, stride, padding, dilation)) is not None:
        found = _by_elements(_LARGEST, x, out, index, x.dtype)
        if found is not None:
            return found
    if x.ndim == nd + 1:
        return max_values(x[None], out, window, stride, padding, dilation)[0]
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    xp = _padded(x, out, window, stride, padding, dilation, low)
    if (found := _in_windows(xp, out, window, stride, dilation)) is not None:
        return np.maximum.reduce(found, 1).reshape(*x.shape[:2], *out)
    (_, first), *rest = _cuts(out, window, stride, dilation)
    best = np.array(xp[first], order="C")
    for _, cut in rest:
        np.maximum(best, xp[cut], out=best)
    return best


def _first_maxima(x: np.ndarray, y: np.ndarray, window: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Any:
    """(padded shape, [(slices, mask of the windows whose first maximum is there)]), or None where NaN or -inf occur."""
    if not np.isfinite(y).all():
        return None
    xp = _padded(x, y.shape[2:], window, stride, padding, dilation, -np.inf)
    left, found = None, []
    for _, cut in _cuts(y.shape[2:], window, stride, dilation):
        here = xp[cut] == y
        if left is None:
            left = ~here
        else:
            here &= left
            left ^= here
        found.append((cut, here))
    return xp.shape, found


def max_grad(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, window: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> np.ndarray:
    """`g` (N, C, *L) or (C, *L) put at the places of the maxima `y` of `x`."""
    nd = len(window)
    size = x.shape[-nd:]
    if 0 < x.size <= _FEW and g.size and g.dtype.char in "fd" and np.isfinite(y).all():
        index = _elements(size, y.shape[-nd:], window, stride, padding, dilation)
        at = None if index is None else _by_elements(_PLACE, x, y.shape[-nd:], index, np.int64)
        if at is not None:
            return _put(g, at, x.shape, nd)
    if x.ndim == nd + 1:
        return max_grad(g[None], x[None], y[None], window, stride, padding, dilation, ceil)[0]
    places = _first_maxima(x, y, window, stride, padding, dilation)
    if places is None:
        return put_back(g, max_pool(x, window, stride, padding, dilation, ceil)[1], size)
    shape, found = places
    gx = np.zeros(shape, g.dtype)
    apart = all(st >= d * (k - 1) + 1 for st, k, d in zip(stride, window, dilation, strict=True))
    finite = bool(np.isfinite(g).all())  # else no products: an infinite gradient goes to its place alone
    for cut, here in found:
        if not finite:
            gx[cut] += np.where(here, g, g.dtype.type(0))
        elif apart:
            np.multiply(g, here, out=gx[cut])
        else:
            gx[cut] += g * here
    if shape[2:] != size:
        gx = np.ascontiguousarray(gx[(..., *(slice(p, p + s) for p, s in zip(padding, size, strict=True)))])
    return gx


def _put(g: np.ndarray, at: np.ndarray, shape: tuple, nd: int) -> np.ndarray:
    """`g` (..., *L) added to zeros of `shape` at flat indices into its planes, of `nd` dimensions."""
    out = np.zeros(shape, g.dtype)
    planes = math.prod(shape[:-nd])
    flat = at.reshape(planes, -1)
    if planes > 1:
        flat += np.arange(0, out.size, out.size // planes)[:, None]
    add_flat(out.reshape(-1), flat.reshape(-1), g.reshape(-1))
    return out


def max_take(
    v: np.ndarray, x: np.ndarray, y: np.ndarray, window: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil: bool
) -> np.ndarray:
    """The elements of `v` (N, C, *S) or (C, *S) at the places of the maxima `y` of `x`."""
    if x.ndim == len(window) + 1:
        return max_take(v[None], x[None], y[None], window, stride, padding, dilation, ceil)[0]
    places = _first_maxima(x, y, window, stride, padding, dilation)
    if places is None:
        n, c, area = *x.shape[:2], math.prod(x.shape[2:])
        index = max_pool(x, window, stride, padding, dilation, ceil)[1].reshape(n, c, math.prod(y.shape[2:]))
        return np.take_along_axis(v.reshape(n, c, area), index, 2).reshape(y.shape)
    vp = _padded(v, y.shape[2:], window, stride, padding, dilation, 0)
    total = np.zeros(y.shape, v.dtype)
    for cut, here in places[1]:
        total += vp[cut] * here
    return total


def _window_index(size: Ints, out: Ints, window: Ints, stride: Ints, padding: Ints, dilation: Ints) -> tuple:
    """Functions from a position in the window to flat input indices, and to where those exist."""
    steps = [math.prod(size[i + 1 :]) for i in range(len(size))]

    def coordinate(i: int, p: int) -> np.ndarray:
        at = np.arange(out[i]) * stride[i] - padding[i] + p * dilation[i]
        return at.reshape(-1, *((1,) * (len(size) - 1 - i)))

    def base(pos: Ints) -> np.ndarray:
        total: Any = 0
        for i, p in enumerate(pos):
            total = total + coordinate(i, p) * steps[i]
        return np.broadcast_to(total, out)

    def inside(pos: Ints) -> np.ndarray:
        ok: Any = True
        for i, p in enumerate(pos):
            c = coordinate(i, p)
            ok = ok & (c >= 0) & (c < size[i])
        return np.broadcast_to(ok, out)

    return base, inside


def put_back(g: np.ndarray, indices: np.ndarray, size: Ints) -> np.ndarray:
    """Sum the elements of (N, C, *L) at their flat indices into zeros of (N, C, *size)."""
    planes = g.shape[0] * g.shape[1]
    area = math.prod(size)
    if g.size == 0:
        return np.zeros((*g.shape[:2], *size), g.dtype)
    if g.size <= _FEW and g.dtype.char in "fd":
        return _put(g, np.array(indices, np.int64), (*g.shape[:2], *size), len(size))
    flat = indices.reshape(planes, -1) + np.arange(planes, dtype=np.int64)[:, None] * area
    total = np.bincount(flat.ravel(), weights=g.reshape(-1), minlength=planes * area)
    return total.astype(g.dtype, copy=False).reshape(*g.shape[:2], *size)


def avg_counts(size: Ints, out: Ints, window: Ints, stride: Ints, padding: Ints, include_pad: bool) -> np.ndarray:
    """The number of elements that count in each window (of the padded input or of the input alone)."""
    total: Any = 1
    for i, (s, n, k, st, p) in enumerate(zip(size, out, window, stride, padding, strict=True)):
        start = np.arange(n) * st - p
        end = np.minimum(start + k, s + p)
        if not include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, s)
        total = total * (end - start).reshape(-1, *((1,) * (len(size) - 1 - i)))
    return total


def window_sum(x: np.ndarray, out: Ints, window: Ints, stride: Ints, padding: Ints) -> np.ndarray:
    """Sums over the windows of (N, C, *S)."""
    ones = (1,) * len(window)
    xp = _padded(x, out, window, stride, padding, ones, 0)
    if (found := _in_windows(xp, out, window, stride, ones)) is not None:
        return np.add.reduce(found, 1, x.dtype).reshape(*x.shape[:2], *out)
    total = np.zeros((*x.shape[:2], *out), x.dtype)
    for _, cut in _cuts(out, window, stride, ones):
        total += xp[cut]
    return total


def spread_sum(g: np.ndarray, size: Ints, window: Ints, stride: Ints, padding: Ints) -> np.ndarray:
    """The transpose of `window_sum`: (N, C, *L) -> (N, C, *size)."""
    out, ones = g.shape[2:], (1,) * len(window)
    want = tuple(
        max(s + 2 * p, (n - 1) * st + k) for s, p, n, st, k in zip(size, padding, out, stride, window, strict=True)
    )
    xp = np.zeros((*g.shape[:2], *want), g.dtype)
    for _, cut in _cuts(out, window, stride, ones):
        xp[cut] += g
    if want != tuple(size):
        xp = np.ascontiguousarray(xp[(..., *(slice(p, p + s) for p, s in zip(padding, size, strict=True)))])
    return xp


def adaptive_bounds(size: int, out: int) -> list[tuple[int, int]]:
    """Start and end of each of `out` windows that cover `size` elements."""
    return [(i * size // out, -((-(i + 1) * size) // out)) for i in range(out)]


@functools.lru_cache(maxsize=64)
def _adaptive_elements(size: Ints, out: Ints) -> np.ndarray | None:
    """Flat indices of the elements of each window, (windows, positions), -1 behind those of smaller ones; None if
    there are many, or a window is empty."""
    bounds = [adaptive_bounds(s, n) for s, n in zip(size, out, strict=True)]
    most = math.prod(max((b - a for a, b in each), default=0) for each in bounds)
    if not 0 < most * math.prod(out) <= _FEW:
        return None
    numbers = np.arange(math.prod(size)).reshape(size)
    rows = [numbers[tuple(slice(a, b) for a, b in cell)].reshape(-1) for cell in itertools.product(*bounds)]
    return np.stack([np.concatenate([r, np.full(most - r.size, -1)]) for r in rows])


def adaptive_max(x: np.ndarray, out: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Maxima over adaptive windows of (N, C, *S) and their flat indices into *S."""
    size = x.shape[2:]
    index = _adaptive_elements(size, tuple(out)) if 0 < x.size <= _FEW else None
    if index is not None and (best := _by_elements(_LARGEST, x, out, index, x.dtype)) is not None:
        return best, _by_elements(_PLACE, x, out, index, np.int64)  # type: ignore[return-value]
    best = np.empty((*x.shape[:2], *out), x.dtype)
    where = np.empty(best.shape, np.int64)
    steps = [math.prod(size[i + 1 :]) for i in range(len(size))]
    bounds = [list(enumerate(adaptive_bounds(s, n))) for s, n in zip(size, out, strict=True)]
    for cell in itertools.product(*bounds):
        cut = tuple(slice(a, b) for _, (a, b) in cell)
        at = (slice(None), slice(None), *(i for i, _ in cell))
        part = x[(slice(None), slice(None), *cut)]
        flat = part.reshape(*x.shape[:2], math.prod(part.shape[2:]))
        pick = flat.argmax(-1)
        best[at] = np.take_along_axis(flat, pick[..., None], -1)[..., 0]
        local = np.unravel_index(pick, part.shape[2:])
        where[at] = sum((c + s.start) * st for c, s, st in zip(local, cut, steps, strict=True))
    return best, where
