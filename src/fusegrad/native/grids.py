"""Definitions of kernels that sample images x[n, c, h, w] at points grid[n, p, 2] (x before y, -1 to 1), or volumes
x[n, c, e, h, w] at grid[n, p, 3].

The places and weights of a point's pixels are the same for all channels: computed first, into index[n, t, p] (-1:
outside) and weight[n, t, p], a tap t for each pixel. They are what ``ops/nn_grid.py`` computes with operators, step by
step.
"""

from __future__ import annotations

import itertools
from typing import Any

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import Expr, b

_POINTS = (Loop("n", "s"), Loop("p", "p_"))


def _clamped(c: Expr, top: Expr) -> Expr:
    return b.minimum(b.maximum(c, b.const(0, c.dtype)), top)


class _Axis:
    """One coordinate of a point, in pixels, and how it changes with the grid's number."""

    def __init__(self, d: dtype, axis: int, nd: int, padding: str, align: bool) -> None:
        self.d, self.padding, self.align = d, padding, align
        self.extent = "whe"[axis]
        self.size = b.cast(b.size(self.extent), d)
        self.top = self.size - 1.0
        c = b.load("grid", d, offset=axis, terms={"n": f"p_*{nd}", "p": nd}) + 1.0
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
        return b.and_(b.gt(c, b.const(0, self.d)), b.lt(c, self.top))

    def inside(self) -> Expr:
        """Whether the coordinate (reflected, if it is to be) stays where it is, and not on the border."""
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


def _axes(d: dtype, nd: int, mode: str, padding: str, align: bool) -> tuple[list[_Axis], list[tuple]]:
    """The axes, first dimension first, and the taps: for each one of the taps of every axis."""
    axes = [_Axis(d, k, nd, padding, align) for k in reversed(range(nd))]
    return axes, [*itertools.product(*(axis.taps(mode) for axis in axes))]


def _sizes(nd: int) -> tuple[SizeParam, ...]:
    return tuple(SizeParam(s) for s in ("s", "c_", *"ehw"[3 - nd :], "p_"))


def _point(t: int, taps: int) -> dict[str, Any]:
    return {"offset": f"{t}*p_" if t else 0, "terms": {"n": f"{taps}*p_", "p": 1}}


def places(d: dtype, nd: int, mode: str, padding: str, align: bool) -> Kernel:
    """grid, index (int64), weight, then the sizes s, c, (e,) h, w, p."""
    axes, taps = _axes(d, nd, mode, padding, align)
    zero = b.const(0, d)
    stores = []
    for t, parts in enumerate(taps):
        inside: Any = None
        for axis, (c, _, _) in zip(axes, parts, strict=True):
            here = b.and_(b.ge(c, zero), b.le(c, axis.top))
            inside = here if inside is None else b.and_(inside, here)
        place: Any = None
        weight: Any = None
        for axis, (c, w, _) in zip(axes, parts, strict=True):
            step = b.cast(b.where(inside, c, zero), int64)
            place = step if place is None else place * b.size(axis.extent) + step
            weight = w if weight is None else weight * w
        stores.append(Store("index", b.where(inside, place, b.const(-1, int64)), **_point(t, len(taps))))
        if mode != "nearest":
            stores.append(Store("weight", weight, **_point(t, len(taps))))
    params = (ArrayParam("grid", d), ArrayParam("index", int64, True), ArrayParam("weight", d, True))
    return Kernel("grid_places", (*params, *_sizes(nd)), (Nest(_POINTS, (Phase((), (), tuple(stores)),)),))


_PIXELS = {"n": "c_*h*w", "c": "h*w"}
_OUT = {"n": "c_*p_", "c": "p_", "p": 1}


def _pixel(d: dtype, t: int, taps: int, pixels: Any) -> tuple[Expr, Expr, Expr]:
    """(whether tap t of a point is outside, its place or 0, its pixel)."""
    place = b.load("index", int64, **_point(t, taps))
    none = b.lt(place, 0)
    place = b.where(none, b.const(0, int64), place)
    return none, place, b.load("x", d, terms=pixels, gather=[(place, 1)])


def sample(d: dtype, taps: int) -> Kernel:
    """y[n, c, p] = the sum of weight times pixel: x, index, weight, y, sizes (of volumes: e * h as h)."""
    total: Any = None
    for t in range(taps):
        none, _, pixel = _pixel(d, t, taps, _PIXELS)
        part = pixel if taps == 1 else pixel * b.load("weight", d, **_point(t, taps))
        part = b.where(none, b.const(0, d), part)
        total = part if total is None else total + part
    params = (ArrayParam("x", d), ArrayParam("index", int64), ArrayParam("weight", d), ArrayParam("y", d, True))
    nest = Nest((Loop("n", "s"), Loop("c", "c_"), Loop("p", "p_")), (Phase((), (), (Store("y", total, terms=_OUT),)),))
    return Kernel("grid_sample", (*params, *_sizes(2)), (nest,))


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
    return Kernel("grid_spread", (*params, *_sizes(2)), (Nest((Loop("n", "s"), Loop("c", "c_")), (phase,)),))


def slopes(d: dtype, nd: int, mode: str, padding: str, align: bool) -> Kernel:
    """y[n, p, nd] = the gradient for the grid: g, x, index, grid, y, sizes as ``places``."""
    axes, taps = _axes(d, nd, mode, padding, align)
    g, reduces = b.load("g", d, terms=_OUT), []
    area = "*".join("ehw"[3 - nd :])
    for t in range(len(taps)):
        none, _, pixel = _pixel(d, t, len(taps), {"n": f"c_*{area}", "c": area})
        reduces.append(Reduce(f"t{t}", "add", b.where(none, b.const(0, d), g * pixel)))
    stores = []
    for k, axis in enumerate(axes):
        total: Any = None
        for t, parts in enumerate(taps):
            slope: Any = None
            for i, (_, weight, change) in enumerate(parts):
                part = change if i == k else weight
                slope = part if slope is None else slope * part
            part = b.acc(f"t{t}", d) * slope
            total = part if total is None else total + part
        if mode == "bilinear" and padding != "zeros":  # no slope, whatever the weights and pixels are
            total = b.where(axis.inside(), total, b.const(0, d))
        stores.append(Store("y", total, offset=nd - 1 - k, terms={"n": f"p_*{nd}", "p": nd}))
    phases = (Phase((Loop("c", "c_"),), tuple(reduces)), Phase((), (), tuple(stores)))
    params = (
        *(ArrayParam("g", d), ArrayParam("x", d), ArrayParam("index", int64), ArrayParam("grid", d)),
        ArrayParam("y", d, True),
    )
    return Kernel("grid_slopes", (*params, *_sizes(nd)), (Nest(_POINTS, phases),))
