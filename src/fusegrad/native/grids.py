"""Definitions of kernels that sample images x[n, c, h, w] at points grid[n, p, 2] (x before y, -1 to 1).

The places and weights of a point's pixels are the same for all channels: computed first, into index[n, t, p] (-1:
outside) and weight[n, t, p], a tap t for each pixel. They are what ``ops/nn_grid.py`` computes with operators, step by
step.
"""

from __future__ import annotations

from typing import Any

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import Expr, b

TAPS = {"nearest": 1, "bilinear": 4, "bicubic": 16}
_SIZES = tuple(SizeParam(s) for s in ("s", "c_", "h", "w", "p_"))
_POINTS = (Loop("n", "s"), Loop("p", "p_"))


def _clamped(c: Expr, top: Expr) -> Expr:
    return b.minimum(b.maximum(c, b.const(0, c.dtype)), top)


class _Axis:
    """One coordinate of a point, in pixels, and how it changes with the grid's number."""

    def __init__(self, d: dtype, axis: int, size: str, padding: str, align: bool) -> None:
        self.d, self.padding, self.align = d, padding, align
        self.size = b.cast(b.size(size), d)
        self.top = self.size - 1.0
        c = b.load("grid", d, offset=axis, terms={"n": "p_*2", "p": 2}) + 1.0
        self.raw = c / 2.0 * self.top if align else (c * self.size - 1.0) / 2.0
        self.step = (self.top if align else self.size) / 2.0

    def padded(self, c: Expr) -> tuple[Expr, Expr]:
        """The coordinate moved inside, and its derivative."""
        one, zero = b.const(1, self.d), b.const(0, self.d)
        if self.padding == "zeros":
            return c, one
        slope = one
        if self.padding == "reflection":
            c, slope = self._reflected(c)
        return _clamped(c, self.top), b.where(self._in(c), slope, zero)

    def _in(self, c: Expr) -> Expr:
        return b.and_(b.ge(c, b.const(0, self.d)), b.le(c, self.top))

    def inside(self) -> Expr:
        """Whether the coordinate (reflected, if it is to be) stays where it is."""
        return self._in(self._reflected(self.raw)[0] if self.padding == "reflection" else self.raw)

    def _reflected(self, c: Expr) -> tuple[Expr, Expr]:
        one, zero = b.const(1, self.d), b.const(0, self.d)
        low, span = (zero, self.top) if self.align else (b.const(-0.5, self.d), self.size)
        apart = c - low
        distance = b.abs(apart)
        flips = b.floor(distance / span)
        extra = distance - flips * span
        even = b.eq(b.mod(flips, 2.0), zero)
        sign = b.where(b.gt(apart, zero), one, b.where(b.lt(apart, zero), -one, zero))
        out, slope = b.where(even, extra, span - extra) + low, b.where(even, sign, -sign)
        if self.align:  # of a single pixel: everything is moved to it
            single = b.eq(span, zero)
            out, slope = b.where(single, c * 0.0, out), b.where(single, zero, slope)
        return out, slope

    def taps(self, mode: str) -> list[tuple[Expr, Expr, Expr]]:
        """(place, weight, derivative of the weight by the grid's number) of the pixels along this axis."""
        one, zero = b.const(1, self.d), b.const(0, self.d)
        if mode == "bicubic":
            floor = b.floor(self.raw)
            found = []
            for k, (weight, slope) in enumerate(_cubic(self.raw - floor)):
                found.append((b.round(self.padded(floor + (k - 1.0))[0]), weight, slope * self.step))
            return found
        c, slope = self.padded(self.raw)
        if mode == "nearest":
            return [(b.round(c), one, zero)]
        floor, slope = b.floor(c), slope * self.step
        return [(floor, floor + 1.0 - c, -slope), (floor + 1.0, c - floor, slope)]


def _cubic(t: Expr, a: float = -0.75) -> list[tuple[Expr, Expr]]:
    """Weights of the four pixels at distances 1 + t, t, 1 - t, 2 - t, and their derivatives."""

    def near(d: Expr) -> tuple[Expr, Expr]:
        return ((a + 2) * d - (a + 3)) * d * d + 1.0, (3 * (a + 2) * d - 2 * (a + 3)) * d

    def far(d: Expr) -> tuple[Expr, Expr]:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, (3 * a * d - 10 * a) * d + 8 * a

    parts = [far(1.0 + t), near(t), near(1.0 - t), far(2.0 - t)]
    return [(w, s if k < 2 else -s) for k, (w, s) in enumerate(parts)]


def _axes(d: dtype, mode: str, padding: str, align: bool) -> tuple[list, list, _Axis, _Axis]:
    y, x = _Axis(d, 1, "h", padding, align), _Axis(d, 0, "w", padding, align)
    return y.taps(mode), x.taps(mode), y, x


def _point(t: int, taps: int) -> dict[str, Any]:
    return {"offset": f"{t}*p_" if t else 0, "terms": {"n": f"{taps}*p_", "p": 1}}


def places(d: dtype, mode: str, padding: str, align: bool) -> Kernel:
    """grid, index (int64), weight, then the sizes s, c, h, w, p."""
    ys, xs, y, x = _axes(d, mode, padding, align)
    zero = b.const(0, d)
    stores = []
    for i, (py, wy, _) in enumerate(ys):
        for j, (px, wx, _) in enumerate(xs):
            inside = b.and_(b.and_(b.ge(py, zero), b.le(py, y.top)), b.and_(b.ge(px, zero), b.le(px, x.top)))
            row, column = (b.cast(b.where(inside, v, zero), int64) for v in (py, px))
            place = b.where(inside, row * b.size("w") + column, b.const(-1, int64))
            at = _point(i * len(xs) + j, len(ys) * len(xs))
            stores.append(Store("index", place, **at))
            if mode != "nearest":
                stores.append(Store("weight", wy * wx, **at))
    params = (ArrayParam("grid", d), ArrayParam("index", int64, True), ArrayParam("weight", d, True))
    return Kernel("grid_places", (*params, *_SIZES), (Nest(_POINTS, (Phase((), (), tuple(stores)),)),))


_PIXELS = {"n": "c_*h*w", "c": "h*w"}
_OUT = {"n": "c_*p_", "c": "p_", "p": 1}


def _pixel(d: dtype, t: int, taps: int) -> tuple[Expr, Expr, Expr]:
    """(whether tap t of a point is outside, its place or 0, its pixel)."""
    place = b.load("index", int64, **_point(t, taps))
    none = b.lt(place, 0)
    place = b.where(none, b.const(0, int64), place)
    return none, place, b.load("x", d, terms=_PIXELS, gather=[(place, 1)])


def sample(d: dtype, taps: int) -> Kernel:
    """y[n, c, p] = the sum of weight times pixel: x, index, weight, y, sizes."""
    total: Any = None
    for t in range(taps):
        none, _, pixel = _pixel(d, t, taps)
        part = pixel if taps == 1 else pixel * b.load("weight", d, **_point(t, taps))
        part = b.where(none, b.const(0, d), part)
        total = part if total is None else total + part
    params = (ArrayParam("x", d), ArrayParam("index", int64), ArrayParam("weight", d), ArrayParam("y", d, True))
    nest = Nest((Loop("n", "s"), Loop("c", "c_"), Loop("p", "p_")), (Phase((), (), (Store("y", total, terms=_OUT),)),))
    return Kernel("grid_sample", (*params, *_SIZES), (nest,))


def spread(d: dtype, taps: int) -> Kernel:
    """y[n, c, place] += weight * g[n, c, p], point by point: g, index, weight, y (zeros), sizes."""
    g = b.load("g", d, terms=_OUT)
    stores = []
    at = {"n": f"{taps}*p_", "t": "p_", "p": 1}
    place = b.load("index", int64, terms=at)
    none = b.lt(place, 0)
    place = b.where(none, b.const(0, int64), place)
    part = g if taps == 1 else g * b.load("weight", d, terms=at)
    new = b.load("y", d, terms=_PIXELS, gather=[(place, 1)]) + b.where(none, b.const(0, d), part)
    stores.append(Store("y", new, terms=_PIXELS, gather=[(place, 1)]))
    params = (ArrayParam("g", d), ArrayParam("index", int64), ArrayParam("weight", d), ArrayParam("y", d, True))
    phase = Phase((Loop("p", "p_"), Loop("t", taps)), (), tuple(stores), True)
    return Kernel("grid_spread", (*params, *_SIZES), (Nest((Loop("n", "s"), Loop("c", "c_")), (phase,)),))


def slopes(d: dtype, mode: str, padding: str, align: bool) -> Kernel:
    """y[n, p, 2] = the gradient for the grid: g, x, index, grid, y, sizes."""
    ys, xs, y, x = _axes(d, mode, padding, align)
    taps = len(ys) * len(xs)
    g, reduces = b.load("g", d, terms=_OUT), []
    for t in range(taps):
        none, _, pixel = _pixel(d, t, taps)
        reduces.append(Reduce(f"t{t}", "add", b.where(none, b.const(0, d), g * pixel)))
    by_y: Any = None
    by_x: Any = None
    for i, (_, wy, sy) in enumerate(ys):
        for j, (_, wx, sx) in enumerate(xs):
            acc = b.acc(f"t{i * len(xs) + j}", d)
            dy, dx = acc * (sy * wx), acc * (wy * sx)
            by_y, by_x = (dy, dx) if by_y is None else (by_y + dy, by_x + dx)
    if mode == "bilinear" and padding != "zeros":  # no slope, whatever the weights and pixels are
        by_y, by_x = (b.where(axis.inside(), by, b.const(0, d)) for axis, by in ((y, by_y), (x, by_x)))
    at = {"n": "p_*2", "p": 2}
    stores = (Store("y", by_x, terms=at), Store("y", by_y, offset=1, terms=at))
    phases = (Phase((Loop("c", "c_"),), tuple(reduces)), Phase((), (), stores))
    params = (
        *(ArrayParam("g", d), ArrayParam("x", d), ArrayParam("index", int64), ArrayParam("grid", d)),
        ArrayParam("y", d, True),
    )
    return Kernel("grid_slopes", (*params, *_SIZES), (Nest(_POINTS, phases),))
