"""Convolution on arrays: sliding windows copied to columns, then matrix products (any number of dimensions).

Layouts: input (N, C, *S), weight (O, C/groups, *K), output (N, O, *L).  Three maps that are each other's
derivatives: `forward(x, w) -> y`, `input_grad(y, w) -> x`, `weight_grad(y, x) -> w`.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..native.on_demand import defined
from . import _conv_taps

Ints = tuple[int, ...]
_CHUNK = 1 << 18  # elements of column memory to hold at once: what stays in a cache


# products: up to so many, one native loop is quicker than columns and a matrix product
_FEW = {"y": 2048, "w": 4096, "x": 256}
_LOOPS = {what: defined("windows", "convolution", what) for what in _FEW}


@functools.lru_cache(maxsize=512)
def _loop_sizes(what: str, xs: Ints, ws: Ints, ys: Ints, stride: Ints, padding: Ints, dilation: Ints) -> Ints | None:
    """The numbers of a loop of ``native.windows.convolution``; None for many elements, or none."""
    nd = len(ws) - 2
    if nd > 2 or not 0 < ys[0] * math.prod(ws) * math.prod(ys[2:]) <= _FEW[what] or not math.prod(xs):
        return None
    one, zero = ((1,), (0,)) if nd == 1 else ((), ())
    sizes = (*xs[:2], *one, *xs[2:], ws[0], *one, *ws[2:], *one, *ys[2:])
    return (*sizes, *one, *stride, *zero, *padding, *one, *dilation)


@functools.lru_cache(maxsize=512)
def _forward_loop(xs: Ints, ws: Ints, *steps: Ints) -> tuple[Ints, Ints] | None:
    """The shape of a convolution and the numbers of the loop that computes it; None where columns are quicker."""
    ys = xs[0], ws[0], *out_sizes(xs[2:], ws[2:], *steps)
    sizes = _loop_sizes("y", xs, ws, ys, *steps)
    return None if sizes is None else (ys, sizes)


def _by_loops(what: str, a: np.ndarray, c: np.ndarray, shapes: tuple, steps: tuple, groups: int) -> np.ndarray | None:
    """The one of x, w and y that is not given, ``a`` and ``c`` being the others in this order; None where columns are
    quicker, for groups and other dtypes. ``shapes``: of all three."""
    f = _LOOPS[what][a.dtype] if groups == 1 else None
    sizes = None if f is None else _loop_sizes(what, *shapes, *steps)
    if sizes is None:
        return None
    at = "xwy".index(what)
    out = np.empty(shapes[at], a.dtype)
    arrays = [v if v.flags.c_contiguous else np.ascontiguousarray(v) for v in (a, c)]
    arrays.insert(at, out)
    f(*arrays, *sizes)
    return out


def out_sizes(size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple:
    """Spatial sizes of the output."""
    return tuple(
        (s + 2 * p - d * (k - 1) - 1) // st + 1
        for s, k, st, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def _pad(x: np.ndarray, padding: Ints) -> np.ndarray:
    if not any(padding):
        return x
    shape = x.shape[:2] + tuple(s + 2 * p for s, p in zip(x.shape[2:], padding, strict=False))
    out = np.zeros(shape, x.dtype)
    out[(..., *(slice(p, p + s) for s, p in zip(x.shape[2:], padding, strict=False)))] = x
    return out


def _offsets(kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> list:
    """For every kernel position: (position, slices of the padded input it meets)."""
    found = []
    for pos in itertools.product(*(range(k) for k in kernel)):
        cut = tuple(
            slice(p * d, p * d + (n - 1) * st + 1, st) for p, d, n, st in zip(pos, dilation, out, stride, strict=True)
        )
        found.append((pos, (slice(None), slice(None), *cut)))
    return found


def _windows(xp: np.ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    """A view (N, C, *K, *L) of the padded input: all windows."""
    steps = xp.strides[2:]
    inside = tuple(s * d for s, d in zip(steps, dilation, strict=True))
    across = tuple(s * st for s, st in zip(steps, stride, strict=True))
    shape = (*xp.shape[:2], *kernel, *out)
    return np.lib.stride_tricks.as_strided(xp, shape, (*xp.strides[:2], *inside, *across), writeable=False)


def _columns(xp: np.ndarray, kernel: Ints, out: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    """(N, C * prod(K), prod(L)) columns of the padded input (a view where nothing has to be copied)."""
    n, c = xp.shape[:2]
    return _windows(xp, kernel, out, stride, dilation).reshape(n, c * math.prod(kernel), math.prod(out))


def _batches(n: int, per_item: int) -> list[slice]:
    step = max(1, min(n, _CHUNK // max(per_item, 1)))
    return [slice(i, min(i + step, n)) for i in range(0, n, step)]


def _is_depthwise(c: int, groups: int) -> bool:
    return groups == c and groups > 1


def forward(x: np.ndarray, w: np.ndarray, stride: Ints, padding: Ints, dilation: Ints, groups: int) -> np.ndarray:
    """Cross-correlation of `x` with `w`."""
    if groups == 1 and (loop := _forward_loop(x.shape, w.shape, stride, padding, dilation)) is not None:
        if (f := _LOOPS["y"][x.dtype]) is not None:
            y = np.empty(loop[0], x.dtype)
            f(np.ascontiguousarray(x), np.ascontiguousarray(w), y, *loop[1])
            return y
    n, c, o = x.shape[0], x.shape[1], w.shape[0]
    kernel = w.shape[2:]
    out = out_sizes(x.shape[2:], kernel, stride, padding, dilation)
    y = np.empty((n, o, *out), x.dtype)
    if y.size == 0 or c == 0:
        y[...] = 0
        return y
    if not _is_depthwise(c, groups) and _conv_taps.forward(x, w, y, (stride, padding, dilation), groups):
        return y
    xp = _pad(x, padding)
    if _is_depthwise(c, groups):
        return _depthwise(xp, w, y, out, stride, dilation)
    cg, og, k = c // groups, o // groups, math.prod(kernel)
    flat_w, flat_y = w.reshape(groups, og, cg * k), y.reshape(n, groups, og, -1)
    for part in _batches(n, c * k * math.prod(out)):
        cols = _columns(xp[part], kernel, out, stride, dilation)
        np.matmul(flat_w, cols.reshape(cols.shape[0], groups, cg * k, -1), out=flat_y[part])
    return y


_TAPS = 49  # of a filter, written out
_Deep = tuple[Callable[..., None], Ints]


@functools.lru_cache(maxsize=256)
def _filters(what: str, rows: int, columns: int, dense: bool) -> Any:
    return defined("windows", what, rows, columns, dense)


def _deep(what: str, xp: np.ndarray, w: Ints, out: Ints, stride: Ints, dilation: Ints) -> _Deep | None:
    """(machine code for filters of single channels, its sizes) for padded images or rows and weights of a shape."""
    nd = len(out)
    if nd > 2 or math.prod(w[2:]) > _TAPS or not xp.size * math.prod(w) * math.prod(out):
        return None
    one = (1,) * (2 - nd)
    f = _filters(what, *one, *w[2:], stride[-1] == 1)[xp.dtype]
    n, c, *size = xp.shape
    return None if f is None else (f, (n, c, w[0] // c, *one, *size, *one, *out, *one, *stride, *one, *dilation))


def _depthwise(xp: np.ndarray, w: np.ndarray, y: np.ndarray, out: Ints, stride: Ints, dilation: Ints) -> np.ndarray:
    n, c = xp.shape[:2]
    found = _deep("depthwise", xp, w.shape, out, stride, dilation) if w.dtype is xp.dtype else None
    if found is not None:
        found[0](np.ascontiguousarray(xp), np.ascontiguousarray(w), y, *found[1])
        return y
    times = w.shape[0] // c  # outputs per channel
    many = y.reshape(n, c, times, *out)
    weight = w.reshape(c, times, *w.shape[2:])
    many[...] = 0
    ones = (1,) * len(out)
    for pos, cut in _offsets(w.shape[2:], out, stride, dilation):
        wk = weight[(slice(None), slice(None), *pos)].reshape(1, c, times, *ones)
        many += xp[cut][:, :, None] * wk
    return y


def input_grad(
    y: np.ndarray, w: np.ndarray, size: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `forward` in its first argument: (N, O, *L) -> (N, C, *size)."""
    n, o = y.shape[:2]
    shapes = (n, w.shape[1] * groups, *size), w.shape, y.shape
    found = _by_loops("x", w, y, shapes, (stride, padding, dilation), groups)
    if found is not None:
        return found
    single = groups == o and groups > 1 and w.shape[1] == 1  # a filter for each channel
    if not single and y.size and not (groups > 1 and w.shape[1] == 1):
        found = _conv_taps.input_grad(y, w, size, (stride, padding, dilation), groups)
        if found is not None:
            return found
    if (o <= w.shape[1] and groups == 1 or single) and _flippable(y, w, size, stride, padding, dilation):
        pad = tuple(d * (k - 1) - p for d, k, p in zip(dilation, w.shape[2:], padding, strict=True))
        turned = np.flip(w, tuple(range(2, w.ndim)))
        turned = turned if single else turned.swapaxes(0, 1)
        return forward(y, np.ascontiguousarray(turned), stride, pad, dilation, groups)
    cg, kernel = w.shape[1], w.shape[2:]
    c, og, k, out = cg * groups, o // groups, math.prod(kernel), y.shape[2:]
    xp = np.zeros((n, c, *(s + 2 * p for s, p in zip(size, padding, strict=False))), y.dtype)
    if y.size and w.size and xp.size:
        offsets = _offsets(kernel, out, stride, dilation)
        if _is_depthwise(c, groups):
            weight, many = w.reshape(c, og, *kernel), y.reshape(n, c, og, *out)
            ones = (1,) * len(out)
            for pos, cut in offsets:
                wk = weight[(slice(None), slice(None), *pos)].reshape(1, c, og, *ones)
                xp[cut] += (many * wk).sum(2) if og > 1 else (many * wk)[:, :, 0]
        else:
            flat_w = w.reshape(groups, og, cg * k).swapaxes(1, 2)
            for part in _batches(n, c * k * math.prod(out)):
                if part.stop - part.start >= 4 and out[-1] < 64:
                    _add_samples_last(xp[part], flat_w, y[part], groups, kernel, offsets)
                    continue
                cols = np.matmul(flat_w, y[part].reshape(-1, groups, og, math.prod(out))).reshape(-1, c, *kernel, *out)
                target = xp[part]
                for pos, cut in offsets:
                    target[cut] += cols[(slice(None), slice(None), *pos)]
    if any(padding):
        xp = np.ascontiguousarray(xp[(..., *(slice(p, p + s) for s, p in zip(size, padding, strict=False)))])
    return xp


def _add_samples_last(
    target: np.ndarray, flat_w: np.ndarray, y: np.ndarray, groups: int, kernel: Ints, offsets: list
) -> None:
    """Add the columns ``flat_w @ y`` to the padded gradient (N, C, *S) where they belong.

    Samples are the last dimension meanwhile: one product for all of them, and sums over long rows.
    """
    n, out = y.shape[0], y.shape[2:]
    rows = np.ascontiguousarray(np.moveaxis(y, 0, -1)).reshape(groups, y.shape[1] // groups, -1)
    cols = np.matmul(flat_w, rows).reshape(target.shape[1], *kernel, *out, n)
    total = np.zeros((*target.shape[1:], n), y.dtype)
    for pos, cut in offsets:
        total[cut[1:]] += cols[(slice(None), *pos)]
    target += np.moveaxis(total, -1, 0)


def _flippable(y: np.ndarray, w: np.ndarray, size: Ints, stride: Ints, padding: Ints, dilation: Ints) -> bool:
    """Whether `input_grad` is a plain convolution with the flipped weight (which reads more and writes less)."""
    if any(s != 1 for s in stride) or not y.size or not w.size:
        return False
    spans = [d * (k - 1) for d, k in zip(dilation, w.shape[2:], strict=True)]
    sizes = zip(size, y.shape[2:], padding, spans, strict=True)
    return all(span >= p and s + 2 * p - span == n for s, n, p, span in sizes)


def weight_grad(
    y: np.ndarray, x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, groups: int
) -> np.ndarray:
    """The transpose of `forward` in its second argument: (N, O, *L), (N, C, *S) -> (O, C/groups, *K)."""
    n, o = y.shape[:2]
    c, out = x.shape[1], y.shape[2:]
    cg, og, k = c // groups, o // groups, math.prod(kernel)
    found = _by_loops("w", x, y, (x.shape, (o, cg, *kernel), y.shape), (stride, padding, dilation), groups)
    if found is not None:
        return found
    w = np.zeros((o, cg, *kernel), y.dtype)
    if not (y.size and x.size and w.size):
        return w
    if not _is_depthwise(c, groups) and _conv_taps.weight_grad(y, x, w, (stride, padding, dilation), groups):
        return w
    xp = _pad(x, padding)
    if _is_depthwise(c, groups):
        deep = _deep("depthwise_weight", xp, w.shape, out, stride, dilation) if y.dtype is x.dtype else None
        if deep is not None:
            deep[0](np.ascontiguousarray(xp), np.ascontiguousarray(y), w, *deep[1])
            return w
        many = np.ascontiguousarray(y).reshape(n, c, og, -1)
        for pos, cut in _offsets(kernel, out, stride, dilation):
            flat = xp[cut].reshape(n, c, -1)
            w[(slice(None), 0, *pos)] = np.einsum("ncol,ncl->co", many, flat).reshape(o)
        return w
    flat_w, flat_y = w.reshape(groups, og, cg * k), y.reshape(n, groups, og, -1)
    nd = len(kernel)
    order = (1, *range(2, 2 + nd), 0, *range(2 + nd, 2 + 2 * nd))
    for part in _batches(n, c * k * math.prod(out)):
        if math.prod(out) >= 400:  # long rows: a product for each sample
            cols = _columns(xp[part], kernel, out, stride, dilation).reshape(-1, groups, cg * k, math.prod(out))
            for rows, one in zip(flat_y[part], cols, strict=True):
                flat_w += np.matmul(rows, one.swapaxes(1, 2))
            continue
        # else one product over samples and positions
        cols = _windows(xp[part], kernel, out, stride, dilation).transpose(order).reshape(groups, cg * k, -1)
        rows = flat_y[part].transpose(1, 2, 0, 3).reshape(groups, og, -1)
        flat_w += np.matmul(rows, cols.swapaxes(1, 2))
    return w
