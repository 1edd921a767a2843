"""Convolutions of larger arrays in machine code (``native/taps.py``): three maps as in ``_conv_kernels``, or None where
those are quicker.

An image is laid out with its border, and for steps s as s images of every s-th element in each dimension, so that
every tap of a filter sees all that it needs from one distance on, whatever steps and dilations are.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from ..native.on_demand import defined

Ints = tuple[int, ...]
Steps = tuple[Ints, Ints, Ints]  # stride, padding, dilation
LEAST = 1 << 17  # products from which this is used
_LANES = 128  # bytes of the vectors side by side in `sums`
_NEAR = 1 << 13  # elements of outputs that `weights` goes through for each block of weights


@functools.cache
def _kernels(*what: Any) -> Any:
    return defined("taps", *what)


def _blocks(n: int, most: int = 8) -> tuple[int, int]:
    """(blocks, size of each) of the fewest blocks of up to ``most`` that cover n."""
    count = -(-n // most)
    return count, -(-n // count)


class Layout(NamedTuple):
    """How x lies for the filters: per dimension the phases that are used and the size of a phase's image."""

    phases: tuple[Ints, ...]
    size: Ints
    at: np.ndarray  # distance of each tap
    channel: int  # elements of a channel
    plain: bool  # x itself is the image


def _pitches(size: Ints) -> Ints:
    return tuple(math.prod(size[i + 1 :]) for i in range(len(size)))


@functools.lru_cache(maxsize=256)
def _layout(x: Ints, kernel: Ints, out: Ints, steps: Steps) -> Layout:
    stride, padding, dilation = steps
    lines = [[j * d for j in range(k)] for k, d in zip(kernel, dilation, strict=True)]
    phases = tuple(tuple(sorted({r % s for r in line})) for line, s in zip(lines, stride, strict=True))
    size = tuple(n + line[-1] // s for n, line, s in zip(out, lines, stride, strict=True))
    pitch, image = _pitches(size), math.prod(size)
    which = {p: i for i, p in enumerate(itertools.product(*phases))}
    at = []
    for tap in itertools.product(*lines):
        phase = tuple(r % s for r, s in zip(tap, stride, strict=True))
        at.append(which[phase] * image + sum(r // s * p for r, s, p in zip(tap, stride, pitch, strict=True)))
    plain = size == x and not any(padding) and set(stride) == {1}
    return Layout(phases, size, np.array(at, np.int64), len(which) * image, plain)


def _inside(first: int, step: int, count: int, n: int) -> tuple[slice, slice]:
    """(places in 0 .. count - 1, what lies there) of first + step * place, where that is in 0 .. n - 1."""
    lo = max(0, -(first // step))
    hi = min(count, (n - 1 - first) // step + 1)
    if hi <= lo:
        return slice(0, 0), slice(0, 0)
    return slice(lo, hi), slice(first + step * lo, first + step * (hi - 1) + 1, step)


def _image(x: np.ndarray, lay: Layout, stride: Ints, padding: Ints, out: np.ndarray | None = None) -> np.ndarray:
    """``out`` (made, where it is not given): zeros [n, c, *phases, *size], filled."""
    if out is None:
        if lay.plain:
            return np.ascontiguousarray(x)
        out = np.zeros((*x.shape[:2], *map(len, lay.phases), *lay.size), x.dtype)
    for places in itertools.product(*(range(len(p)) for p in lay.phases)):
        to, of = [], []
        for i, k in enumerate(places):
            a, b = _inside(lay.phases[i][k] - padding[i], stride[i], lay.size[i], x.shape[2 + i])
            to.append(a)
            of.append(b)
        out[(slice(None), slice(None), *places, *to)] = x[(slice(None), slice(None), *of)]
    return out


def _merged(count: Ints, pitch: Ints) -> tuple[Ints, Ints]:
    """Rows that follow each other without a gap are one."""
    while len(count) > 1 and pitch[-2] == count[-1]:
        count, pitch = (*count[:-2], count[-2] * count[-1]), (*pitch[:-2], 1)
    return count, pitch


def _rows(count: Ints, pitch: Ints, products: int, bytes_: int) -> tuple[bool, float]:
    """(whether results are computed row by row, and not over the whole image with what lies between rows; how many are
    computed for each that is used). ``products``: of a result."""
    count, pitch = _merged(count, pitch)
    lanes, width = _LANES // bytes_, count[-1]
    by_rows = -(-width // lanes) * lanes / width
    reach = sum((n - 1) * p for n, p in zip(count, pitch, strict=True)) + 1
    flat = -(-reach // lanes) * lanes / math.prod(count)
    if len(count) == 1 or by_rows <= flat + 30 / products:  # the others are copied afterwards
        return True, by_rows
    return False, flat


def _sums(image: np.ndarray, w: np.ndarray, at: np.ndarray, count: Ints, pitch: Ints, out: np.ndarray) -> None:
    """out[n, g * o, *count] from an image [n, g * c, channel] and weights [g, o, c, t]."""
    groups, o, c, t = w.shape
    n, channel = len(image), image[0, 0].size
    at = (np.arange(c)[:, None] * channel + at).reshape(-1)
    count, pitch = _merged(count, pitch)
    shape, lines = (*(1,) * (3 - len(count)), *count), (*(0,) * (3 - len(pitch)), *pitch)
    rows, waste = _rows(count, pitch, c * t, w.itemsize)
    blocks, outs = _blocks(o)
    if _by_outputs(o, count, waste, c * t):
        blocks, outs = -(-o // 32), 32
    if blocks * outs != o:
        wide = np.zeros((groups, blocks * outs, c, t), w.dtype)
        wide[:, :o] = w
        w = wide
    packed = np.ascontiguousarray(w.reshape(groups, blocks, outs, c * t).swapaxes(2, 3))
    if outs == 32:
        columns, each = _blocks(count[-1])
        last = np.empty((n, groups, *shape[:2], columns * each, blocks * outs), w.dtype)
        if columns * each != count[-1]:  # what is read behind a row may lie behind the image
            image = np.concatenate([image.reshape(-1), np.zeros(columns * each - count[-1], w.dtype)])
        f = _kernels("sums_last", each)[w.dtype]
        f(image, packed, at, last, n, groups, blocks, *shape[:2], columns, c * t, c * channel, *lines[:2])
        out.reshape(n, groups, o, *shape)[...] = np.moveaxis(last[..., : count[-1], :o], -1, 2)
        return
    loops = shape
    if not rows:  # one row, from which the results are cut
        loops = 1, 1, sum((k - 1) * p for k, p in zip(count, pitch, strict=True)) + 1
    whole = rows and blocks * outs == o
    given = out if whole else np.empty((n, groups, blocks * outs, *(loops if rows else (loops[2],))), w.dtype)
    f = _kernels("sums", outs)[w.dtype]
    f(image, packed, at, given, n, groups, blocks, *loops, c * t, c * channel, *lines[:2])
    if whole:
        return
    target = out.reshape(n, groups, o, *count)
    if rows:
        target[...] = given[:, :, :o].reshape(target.shape)
    else:
        steps = (*given.strides[:3], *(p * w.itemsize for p in pitch))
        target[...] = np.lib.stride_tricks.as_strided(given, target.shape, steps, writeable=False)


def _by_outputs(o: int, count: Ints, waste: float, products: int) -> bool:
    """Whether vectors of outputs are better than vectors of positions, of which so many are computed in vain; the
    results must be turned afterwards."""
    columns, each = _blocks(count[-1])
    mine = -(-o // 32) * 32 / o * columns * each / count[-1]
    return o >= 24 and each >= 4 and (waste - mine) * products > 110


def _fits(x: np.ndarray, y: np.ndarray, products: int) -> bool:
    if x.dtype is not y.dtype or x.dtype.char not in "fd" or products < LEAST:
        return False
    return _kernels("sums", 8)[x.dtype] is not None


def forward(x: np.ndarray, w: np.ndarray, y: np.ndarray, steps: Steps, groups: int) -> bool:
    """Fills y; False where columns are quicker."""
    out, (o, cg) = y.shape[2:], w.shape[:2]
    taps = math.prod(w.shape[2:])
    if not _fits(x, w, y.size * cg * taps):
        return False
    lay = _layout(x.shape[2:], w.shape[2:], out, steps)
    pitch = _pitches(lay.size)
    waste = _rows(out, pitch, cg * taps, x.itemsize)[1]
    if waste > _WASTE and not _by_outputs(o // groups, _merged(out, pitch)[0], waste, cg * taps):
        return False
    image = _image(x, lay, *steps[:2]).reshape(*x.shape[:2], -1)
    _sums(image, w.reshape(groups, o // groups, cg, taps), lay.at, out, pitch, y)
    return True


_WASTE = 1.8


class Back(NamedTuple):
    """One phase of an input's gradient along one dimension: its first element, how many there are, its taps, and where
    each of these sees the padded cotangent."""

    first: int
    count: int
    taps: Ints
    at: Ints


@functools.lru_cache(maxsize=256)
def _back(size: int, out: int, k: int, s: int, p: int, d: int) -> tuple[int, int, tuple[Back, ...]]:
    """(elements before, and after, the cotangent; the phases) along one dimension."""
    found = []
    for phase in range(s):
        first = (phase - p) % s  # the padded input's places of this phase, without the border
        if first >= size:
            continue
        count = -(-(size - first) // s)
        low = (first + p) // s
        taps = tuple(j for j in range(k) if j * d % s == (first + p) % s)
        found.append(Back(first, count, taps, tuple(low - j * d // s for j in taps)))
    starts = [a for f in found for a in f.at]
    ends = [a + f.count for f in found for a in f.at]
    before = max(0, -min(starts, default=0))
    after = max(0, max(ends, default=0) - out)
    return before, after, tuple(found)


def input_grad(y: np.ndarray, w: np.ndarray, size: Ints, steps: Steps, groups: int) -> np.ndarray | None:
    """(N, O, *L) -> (N, C, *size)."""
    n, o = y.shape[:2]
    cg, kernel, out = w.shape[1], w.shape[2:], y.shape[2:]
    if not _fits(y, w, y.size * cg * math.prod(kernel)):
        return None
    dims = [_back(*v) for v in zip(size, out, kernel, *steps, strict=True)]
    wide = tuple(a + m + z for m, (a, z, _) in zip(out, dims, strict=True))
    pitch = _pitches(wide)
    products = max(1, o // groups * math.prod(kernel) // math.prod(steps[0]))
    most = tuple(max(f.count for f in found) for _, _, found in dims)
    waste = _rows(most, pitch, products, y.itemsize)[1]
    if waste > _WASTE and not _by_outputs(cg, _merged(most, pitch)[0], waste, products):
        return None
    image = y
    if wide != out or not y.flags.c_contiguous:
        image = np.zeros((n, o, *wide), y.dtype)
        image[(slice(None), slice(None), *(slice(a, a + m) for m, (a, _, _) in zip(out, dims, strict=True)))] = y
    whole = set(steps[0]) == {1}
    gx = np.empty((n, cg * groups, *size), y.dtype) if whole else np.zeros((n, cg * groups, *size), y.dtype)
    turned = w.reshape(groups, o // groups, cg, *kernel).swapaxes(1, 2)
    for phases in itertools.product(*(found for _, _, found in dims)):
        if not all(f.taps for f in phases):
            if whole:
                gx[...] = 0
            continue
        at = np.zeros((), np.int64)
        some = turned
        for i, f in enumerate(phases):
            at = at[..., None] + (np.array(f.at, np.int64) + dims[i][0]) * pitch[i]
            if len(f.taps) != kernel[i]:
                some = some.take(f.taps, axis=3 + i)
        count = tuple(f.count for f in phases)
        part = gx if whole else np.empty((n, cg * groups, *count), y.dtype)
        weight = some.reshape(groups, cg, o // groups, -1)
        _sums(image.reshape(n, o, -1), weight, np.ascontiguousarray(at.reshape(-1)), count, pitch, part)
        if not whole:
            cut = (slice(f.first, None, s) for f, s in zip(phases, steps[0], strict=True))
            gx[(slice(None), slice(None), *cut)] = part
    return gx


def _parts(n: int, rows: int, each: int) -> tuple[int, int]:
    """(parts of the samples, or of the rows of each, in which ``each`` elements a row fit what is near)."""
    per = max(1, _NEAR // max(1, rows * each))  # samples
    if n > 1 or rows * each <= 2 * _NEAR:
        return next(p for p in range(-(-n // per), n + 1) if n % p == 0), 1
    return 1, next(p for p in range(min(rows, -(-rows * each // _NEAR)), rows + 1) if rows % p == 0)


def weight_grad(y: np.ndarray, x: np.ndarray, w: np.ndarray, steps: Steps, groups: int) -> bool:
    """Fills w (O, C/groups, *K) from (N, O, *L), (N, C, *S)."""
    n, o = y.shape[:2]
    cg, kernel, out = w.shape[1], w.shape[2:], y.shape[2:]
    og, taps = o // groups, math.prod(w.shape[2:])
    if not _fits(x, y, y.size * cg * taps):
        return False
    lay = _layout(x.shape[2:], kernel, out, steps)
    lanes = 64 // x.itemsize
    many = max(og, cg) * 4 >= lanes * 6 and min(og, cg) > 5
    if math.prod(out) * n < 512 or not many and -(-out[-1] // lanes) * lanes > _WASTE * out[-1]:
        return False
    (_weights_last if many else _weights)(y, x, w, lay, steps, groups)
    return True


def _weights(y: np.ndarray, x: np.ndarray, w: np.ndarray, lay: Layout, steps: Steps, groups: int) -> None:
    """``weight_grad`` by vectors of positions."""
    n, out, taps = len(y), y.shape[2:], len(lay.at)
    og, cg = w.shape[0] // groups, w.shape[1]
    image = _image(x, lay, *steps[:2])
    blocks, outs = _blocks(og)
    channels = 3 if cg % 3 == 0 else 2 if cg % 2 == 0 else 1
    if blocks * outs != og:  # outputs of zeros
        wide = np.zeros((n, groups, blocks * outs, *out), y.dtype)
        wide[:, :, :og] = y.reshape(n, groups, og, *out)
        y = wide
    extent = (*(1,) * (3 - len(out)), *out)
    pitch = (*(0,) * (3 - len(out)), *_pitches(lay.size))
    parts, cuts = _parts(n, extent[1] if extent[0] == 1 else 1, outs * extent[0] * extent[2])
    loops = (n // parts, extent[0], extent[1] // cuts, extent[2])
    xs = [groups * cg * lay.channel, lay.channel, *pitch[:2]]
    ys = [groups * blocks * outs * math.prod(out), math.prod(out), extent[1] * extent[2], extent[2]]
    xs.insert(0, xs[0] * loops[0] if cuts == 1 else xs[3] * loops[2])
    ys.insert(0, ys[0] * loops[0] if cuts == 1 else ys[3] * loops[2])
    total = np.empty((parts * cuts, groups, blocks * outs, cg, taps), y.dtype)
    f = _kernels("weights", outs, channels)[x.dtype]
    f(image, np.ascontiguousarray(y), lay.at, total, *total.shape[:2], blocks, cg // channels, *loops, taps, *xs, *ys)
    found = total[0] if len(total) == 1 else total.sum(0)
    w.reshape(groups, og, cg, taps)[...] = found[:, :og]


def _last(groups: int, each: int, n: int, shape: Ints, d: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Zeros [n, *shape, groups * each], and the same memory as [n, groups, each, *shape]."""
    a = np.zeros((n, *shape, groups, each), d)
    return a, np.moveaxis(a, (-2, -1), (1, 2))


def _weights_last(y: np.ndarray, x: np.ndarray, w: np.ndarray, lay: Layout, steps: Steps, groups: int) -> None:
    """``weight_grad`` where there are many outputs or channels: vectors of these."""
    n, out, taps = len(y), y.shape[2:], len(lay.at)
    og, cg = w.shape[0] // groups, w.shape[1]
    turned = cg > og
    blocks, block = _blocks(og if turned else cg)
    wide_c, wide_o = (cg, blocks * block) if turned else (blocks * block, og)
    image, inner = _last(groups, wide_c, n, (*map(len, lay.phases), *lay.size), x.dtype)
    target = inner[:, :, :cg]
    for k in range(groups):
        _image(x[:, k * cg : (k + 1) * cg], lay, *steps[:2], target[:, k])
    back, inner = _last(groups, wide_o, n, out, x.dtype)
    inner[:, :, :og] = y.reshape(n, groups, og, *out)
    c, o = groups * wide_c, groups * wide_o
    extent = (*(1,) * (3 - len(out)), *out)
    pitch = (*(0,) * (3 - len(out)), *_pitches(lay.size))
    parts, cuts = _parts(n, extent[1] if extent[0] == 1 else 1, max(c, o) // groups * extent[0] * extent[2])
    loops = (n // parts, extent[0], extent[1] // cuts, extent[2])
    xs = [lay.channel * c, wide_c, *(p * c for p in pitch)]
    ys = [math.prod(out) * o, wide_o, extent[1] * extent[2] * o, extent[2] * o, o]
    xs.insert(0, xs[0] * loops[0] if cuts == 1 else xs[3] * loops[2])
    ys.insert(0, ys[0] * loops[0] if cuts == 1 else ys[3] * loops[2])
    lanes = wide_c if turned else wide_o
    total = np.empty((parts * cuts, groups, taps, blocks * block, lanes), x.dtype)
    f = _kernels("products", block, turned)[x.dtype]
    f(image, back, lay.at * c, total, parts * cuts, groups, taps, blocks, lanes, *loops, *xs, *ys)
    found = total[0] if len(total) == 1 else total.sum(0)  # [g, t, c, o], or [g, t, o, c]
    found = found[:, :, :og].transpose(0, 2, 3, 1) if turned else found[:, :, :cg].transpose(0, 3, 2, 1)
    w.reshape(groups, og, cg, taps)[...] = found
