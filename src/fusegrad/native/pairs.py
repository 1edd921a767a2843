"""Definitions of kernels over pairs of slices: Euclidean distances, their derivative, sums of slices by tables."""

from __future__ import annotations

import functools
from typing import Any

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import Expr, b


def distances(d: dtype, how: str = "euclidean") -> Kernel:
    """y[s, i, j] = |x[s, i] - z[s, j]| of x[s, p, m] and z[s, m, r], turned: x, z, y, s, p, r, m. ``how``: "sums" of
    the absolute differences, or the "largest" one.
    """
    apart = b.load("x", d, terms={"s": "p*m", "i": "m", "k": 1}) - b.load("z", d, terms={"s": "m*r", "k": "r", "j": 1})
    at = {"s": "p*r", "i": "r", "j": 1}
    part, plain = (apart * apart, False) if how == "euclidean" else (b.abs(apart), True)
    phases = (
        Phase((Loop("k", "m"),), (Reduce("q", "max" if how == "largest" else "sum", part),)),
        Phase((), (), (Store("y", b.acc("q", d) if plain else b.sqrt(b.acc("q", d)), terms=at),)),
    )
    nest = Nest((Loop("s", "s_"), Loop("i", "p"), Loop("j", "r")), phases)
    params = (ArrayParam("x", d), ArrayParam("z", d), ArrayParam("y", d, True))
    return Kernel("distances", (*params, *(SizeParam(n) for n in ("s_", "p", "r", "m"))), (nest,))


def distances_grad(d: dtype, turned: bool) -> Kernel:
    """y[s, i, k] = sum over j of g[s, i, j] / dist[s, i, j] * (x[s, i, k] - z[s, j, k]), 0 where the distance is 0.

    g, dist, x, z[s, r, m] (``turned``, for few k: z[s, m, r]), y, weights (memory of the size of g), s, p, r, m.
    """
    pair = {"s": "p*r", "i": "r", "j": 1}
    far = b.load("dist", d, terms=pair)
    zero = b.const(0, d)
    weight = b.where(b.eq(far, zero), zero, b.load("g", d, terms=pair) / far)
    own = {"s": "p*m", "i": "m", "k": 1}
    place: dict = {"j": 1, "k": "r"} if turned else {"j": "m", "k": 1}
    apart = b.load("x", d, terms=own) - b.load("z", d, terms={"s": "r*m", **place})
    outer = (Loop("s", "s_"), Loop("i", "p"))
    first = Nest((*outer, Loop("j", "r")), (Phase((), (), (Store("weights", weight, terms=pair),)),))
    phases = (
        Phase((Loop("j", "r"),), (Reduce("t", "sum", b.load("weights", d, terms=pair) * apart),)),
        Phase((), (), (Store("y", b.acc("t", d), terms=own),)),
    )
    second = Nest((*outer, Loop("k", "m")), phases)
    params = (
        *(ArrayParam(n, d) for n in ("g", "dist", "x", "z")),
        ArrayParam("y", d, True),
        ArrayParam("weights", d, True),
    )
    return Kernel("distances_grad", (*params, *(SizeParam(n) for n in ("s_", "p", "r", "m"))), (first, second))


def signs_grad(d: dtype, largest: bool = False) -> Kernel:
    """y[s, i, k] = sum over j of g[s, i, j] * sign(x[s, i, k] - z[s, j, k]): g, x, z[s, r, m], y, s, p, r, m.
    ``largest``: of the differences alone whose size is far[s, i, j] (behind z).
    """
    own, pair, zero = {"s": "p*m", "i": "m", "k": 1}, {"s": "p*r", "i": "r", "j": 1}, b.const(0, d)
    x, z = b.load("x", d, terms=own), b.load("z", d, terms={"s": "r*m", "j": "m", "k": 1})
    g = b.load("g", d, terms=pair)
    apart = x - z
    term = b.where(b.gt(apart, zero), g, b.where(b.lt(apart, zero), -g, zero))
    if largest:
        term = b.where(b.eq(b.abs(apart), b.load("far", d, terms=pair)), term, zero)
    phases = (
        Phase((Loop("j", "r"),), (Reduce("t", "add", term),)),
        Phase((), (), (Store("y", b.acc("t", d), terms=own),)),
    )
    nest = Nest((Loop("s", "s_"), Loop("i", "p"), Loop("k", "m")), phases)
    names = ("g", "x", "z", "far") if largest else ("g", "x", "z")
    params = (*(ArrayParam(n, d) for n in names), ArrayParam("y", d, True))
    return Kernel("signs_grad", (*params, *(SizeParam(n) for n in ("s_", "p", "r", "m"))), (nest,))


def weighted_slices(d: dtype, rows: bool, taps: int) -> Kernel:
    """y[i, o, c] = sum over t of weights[t, o] * x[i, places[t, o], c], less where the place is -1: x[p, n, k], places
    (int64), weights[l, m], y, p, n, m, l, and k unless it is 1 (``rows``). ``taps``: l, if it is to be written out.
    """
    apart, own = ({"i": "n"}, {"i": "m", "o": 1}) if rows else ({"i": "n*k", "c": 1}, {"i": "m*k", "o": "k", "c": 1})

    def term(offset: Any, terms: dict) -> Expr:
        place = b.load("places", int64, offset=offset, terms=terms)
        none = b.lt(place, 0)
        inside = b.where(none, b.const(0, int64), place)
        x = b.load("x", d, terms=apart, gather=[(inside, 1 if rows else "k")])
        return b.where(none, b.const(0, d), x * b.load("weights", d, offset=offset, terms=terms))

    phases: tuple[Phase, ...]
    if taps:
        value = functools.reduce(b.add, [term(f"{t}*m" if t else 0, {"o": 1}) for t in range(taps)])
        phases = (Phase((), (), (Store("y", value, terms=own),)),)
    else:
        total = Reduce("sum", "add", term(0, {"t": "m", "o": 1}))
        phases = (
            Phase((Loop("t", "l"),), (total,)),
            Phase((), (), (Store("y", b.acc("sum", d), terms=own),)),
        )
    params = (ArrayParam("x", d), ArrayParam("places", int64), ArrayParam("weights", d), ArrayParam("y", d, True))
    sizes = [SizeParam(s) for s in ("p", "n", "m", "l", "k")[: 4 if rows else 5]]
    loops = (Loop("i", "p"), Loop("o", "m"), *(() if rows else (Loop("c", "k"),)))
    return Kernel("weighted_slices", (*params, *sizes), (Nest(loops, phases),))
