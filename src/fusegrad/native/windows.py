"""Definitions of kernels over remembered windows: each result is made of a few elements, whose places are given."""

from __future__ import annotations

from typing import Any

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import Expr, b


def weighted(d: dtype) -> Kernel:
    """y[p, o] = (sum over j of x[p, i] / before[i] * weight[o, j], i = index[o, j]) / over[o], in this order and in the
    dtype itself, without negative indices: x[p, n], index[m, k] (int64), weight[m, k], before[n], over[m], y[p, m],
    then p, n, m, k.
    """
    at, here = {"o": "k", "j": 1}, {"i": "m", "o": 1}
    place = b.load("index", int64, terms=at)
    x = b.load("x", d, terms={"i": "n"}, gather=[(place, 1)], mask=place >= 0, other=0)
    before = b.load("before", d, gather=[(place, 1)], mask=place >= 0, other=1)
    y = b.load("y", d, terms=here)
    phases = (
        Phase((), (), (Store("y", b.const(0, d), terms=here),)),
        Phase((Loop("j", "k"),), (), (Store("y", y + x / before * b.load("weight", d, terms=at), terms=here),), True),
        Phase((), (), (Store("y", y / b.load("over", d, terms={"o": 1}), terms=here),)),
    )
    params: Any = (
        ArrayParam("x", d),
        ArrayParam("index", int64),
        ArrayParam("weight", d),
        ArrayParam("before", d),
        ArrayParam("over", d),
        ArrayParam("y", d, True),
        *(SizeParam(s) for s in "pnmk"),
    )
    return Kernel("weighted", params, (Nest((Loop("i", "p"), Loop("o", "m")), phases),))


def largest(d: dtype, place: bool) -> Kernel:
    """y[p, o] = the largest x[p, index[o, j]], NaN if there is one, without those whose index is negative; ``place``:
    the index of the first such element in its place: x[p, n], index[m, k] (int64), y[p, m], then p, n, m, k.
    """
    at = {"o": "k", "j": 1}
    index = b.load("index", int64, terms=at)
    x = b.load("x", d, terms={"i": "n"}, gather=[(index, 1)], mask=index >= 0, other=float("-inf"))
    best = Reduce("r", "argmax" if place else "max", x)
    value = b.acc("r", best.dtype)
    if place:
        value = b.load("index", int64, terms={"o": "k"}, gather=[(value, 1)])
    stores = (Store("y", value, terms={"i": "m", "o": 1}),)
    phases = (Phase((Loop("j", "k"),), (best,)), Phase((), (), stores))
    y = ArrayParam("y", int64 if place else d, True)
    params: Any = (ArrayParam("x", d), ArrayParam("index", int64), y, *(SizeParam(s) for s in "pnmk"))
    return Kernel("largest", params, (Nest((Loop("i", "p"), Loop("o", "m")), phases),))


def _taps() -> tuple:
    """(row, column, whether it is inside) of the element of x[n, c, h, v] that tap (u, t) of output (i, j) reads."""
    where, inside = [], None
    for out, tap, step, low, apart, size in (("i", "u", "sh", "ph", "dh", "h"), ("j", "t", "sw", "pw", "dw", "v")):
        at = b.index(out) * b.size(step) + b.index(tap) * b.size(apart) - b.size(low)
        ok = b.and_(at >= 0, at < b.size(size))
        where.append(at)
        inside = ok if inside is None else b.and_(inside, ok)
    return (*where, inside)


def _places() -> tuple:
    """(row, column, whether there is one) of the output whose tap (u, t) reads the element (i, j) of x."""
    where, found = [], None
    for at, tap, step, low, apart, size in (("i", "u", "sh", "ph", "dh", "oh"), ("j", "t", "sw", "pw", "dw", "ow")):
        moved = b.index(at) + b.size(low) - b.index(tap) * b.size(apart)
        place = b.floordiv(moved, b.size(step))
        ok = b.and_(b.and_(moved >= 0, b.eq(place * b.size(step), moved)), place < b.size(size))
        where.append(place)
        found = ok if found is None else b.and_(found, ok)
    return (*where, found)


def convolution(d: dtype, what: str) -> Kernel:
    """A convolution of few elements, in the order of the sums: x[n, c, h, v], w[o, c, a, e], y[n, o, oh, ow]; ``what``:
    which of the three is computed of the others (``x`` and ``w``: the derivatives). Sizes n, c, h, v, o, a, e, oh, ow,
    then steps, borders and dilations of rows and columns.
    """
    w = {"q": "c*a*e", "r": "a*e", "u": "e", "t": 1}
    image, out = {"s": "c*h*v", "r": "h*v"}, {"s": "o*oh*ow", "q": "oh*ow"}
    if what == "x":
        row, column, ok = _places()
        y = b.load("y", d, terms=out, gather=[(row, "ow"), (column, 1)], mask=ok, other=0)
        value = b.where(ok, y * b.load("w", d, terms=w), b.const(0, d))  # no 0 * infinity where there is none
        at = {**image, "i": "v", "j": 1}
        loops = "s r i j", "q u t"
        sizes = {"i": "h", "j": "v"}
    else:
        row, column, ok = _taps()
        x = b.load("x", d, terms=image, gather=[(row, "v"), (column, 1)], mask=ok, other=0)
        here = {**out, "i": "ow", "j": 1}
        other, at = (b.load("w", d, terms=w), here) if what == "y" else (b.load("y", d, terms=here), w)
        value = x * other
        loops = ("s q i j", "r u t") if what == "y" else ("q r u t", "s i j")
        sizes = {"i": "oh", "j": "ow"}
    sizes = {"s": "n", "q": "o", "r": "c", "u": "a", "t": "e", **sizes}
    outer, inner = (tuple(Loop(x, sizes[x]) for x in names.split()) for names in loops)
    total = Reduce("z", "add", value)
    phases = (Phase(inner, (total,)), Phase((), (), (Store(what, b.acc("z", d), terms=at),)))
    arrays = [ArrayParam(x, d, x == what) for x in ("x", "w", "y")]
    names = "n c h v o a e oh ow sh sw ph pw dh dw".split()
    return Kernel("few_convolution", (*arrays, *map(SizeParam, names)), (Nest(outer, phases),))


_DEEP = tuple(SizeParam(s) for s in ("n", "c_", "t_", "h", "w_", "r_", "q_", "s0", "s1", "d0", "d1"))


def _depthwise(d: dtype, rows: int, columns: int, dense: bool) -> tuple[list[Expr], dict, dict]:
    """What each tap sees of padded images x[n, c, h, w], where the weight [c, t, rows, columns] and the result [n, c,
    t, r, q] of one filter lie. ``dense``: filters are one column apart.
    """
    at = {"i": "c_*h*w_", "c": "h*w_", "r": "s0*w_", "q": 1 if dense else "s1"}
    places = [(y, x) for y in range(rows) for x in range(columns)]
    seen = [b.load("x", d, offset=f"{y}*d0*w_ + {x}*d1", terms=at) for y, x in places]
    area = rows * columns
    own = {"i": "c_*t_*r_*q_", "c": "t_*r_*q_", "t": "r_*q_", "r": "q_", "q": 1}
    return seen, {"c": f"t_*{area}", "t": area}, own


def depthwise(d: dtype, rows: int, columns: int, dense: bool) -> Kernel:
    """A convolution in which every channel has filters of its own: x, weight, y, sizes."""
    seen, of, own = _depthwise(d, rows, columns, dense)
    total: Expr = b.const(0, d)
    for k, x in enumerate(seen):
        total = total + x * b.load("weight", d, offset=k, terms=of)
    loops = (Loop("i", "n"), Loop("c", "c_"), Loop("t", "t_"), Loop("r", "r_"), Loop("q", "q_"))
    params = (ArrayParam("x", d), ArrayParam("weight", d), ArrayParam("y", d, True))
    nest = Nest(loops, (Phase((), (), (Store("y", total, terms=own),)),))
    return Kernel("depthwise", (*params, *_DEEP), (nest,))


def depthwise_weight(d: dtype, rows: int, columns: int, dense: bool) -> Kernel:
    """Its derivative for the weight: x, g (as y), weight, sizes."""
    seen, of, own = _depthwise(d, rows, columns, dense)
    g = b.load("g", d, terms=own)
    sums = tuple(Reduce(f"k{k}", "add", g * x) for k, x in enumerate(seen))
    stores = tuple(Store("weight", b.acc(r.name, d), offset=k, terms=of) for k, r in enumerate(sums))
    phases = (Phase((Loop("i", "n"), Loop("r", "r_"), Loop("q", "q_")), sums), Phase((), (), stores))
    params = (ArrayParam("x", d), ArrayParam("g", d), ArrayParam("weight", d, True))
    return Kernel("depthwise_weight", (*params, *_DEEP), (Nest((Loop("c", "c_"), Loop("t", "t_")), phases),))
