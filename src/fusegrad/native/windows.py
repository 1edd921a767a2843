"""Definitions of kernels over remembered windows: each result is made of a few elements, whose places are given."""

from __future__ import annotations

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import b


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
    params = (
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
    params = (ArrayParam("x", d), ArrayParam("index", int64), y, *(SizeParam(s) for s in "pnmk"))
    return Kernel("largest", params, (Nest((Loop("i", "p"), Loop("o", "m")), phases),))
