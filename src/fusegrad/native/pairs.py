"""Definitions of kernels over all pairs of rows: Euclidean distances and their derivative."""

from __future__ import annotations

from fusegrad.dtypes import dtype

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import b


def distances(d: dtype) -> Kernel:
    """y[s, i, j] = |x[s, i] - z[s, j]| of x[s, p, m] and z[s, m, r], turned: x, z, y, s, p, r, m."""
    apart = b.load("x", d, terms={"s": "p*m", "i": "m", "k": 1}) - b.load("z", d, terms={"s": "m*r", "k": "r", "j": 1})
    at = {"s": "p*r", "i": "r", "j": 1}
    phases = (
        Phase((Loop("k", "m"),), (Reduce("q", "add", apart * apart),)),
        Phase((), (), (Store("y", b.sqrt(b.acc("q", d)), terms=at),)),
    )
    nest = Nest((Loop("s", "s_"), Loop("i", "p"), Loop("j", "r")), phases)
    params = (ArrayParam("x", d), ArrayParam("z", d), ArrayParam("y", d, True))
    return Kernel("distances", (*params, *(SizeParam(n) for n in ("s_", "p", "r", "m"))), (nest,))


def distances_grad(d: dtype) -> Kernel:
    """y[s, i, k] = sum over j of g[s, i, j] / dist[s, i, j] * (x[s, i, k] - z[s, j, k]), 0 where the distance is 0.

    g, dist, x, z[s, r, m], y, weights (memory of the size of g), s, p, r, m.
    """
    pair = {"s": "p*r", "i": "r", "j": 1}
    far = b.load("dist", d, terms=pair)
    zero = b.const(0, d)
    weight = b.where(b.eq(far, zero), zero, b.load("g", d, terms=pair) / far)
    own = {"s": "p*m", "i": "m", "k": 1}
    apart = b.load("x", d, terms=own) - b.load("z", d, terms={"s": "r*m", "j": "m", "k": 1})
    outer = (Loop("s", "s_"), Loop("i", "p"))
    first = Nest((*outer, Loop("j", "r")), (Phase((), (), (Store("weights", weight, terms=pair),)),))
    phases = (
        Phase((Loop("j", "r"),), (Reduce("t", "add", b.load("weights", d, terms=pair) * apart),)),
        Phase((), (), (Store("y", b.acc("t", d), terms=own),)),
    )
    second = Nest((*outer, Loop("k", "m")), phases)
    params = (
        *(ArrayParam(n, d) for n in ("g", "dist", "x", "z")),
        ArrayParam("y", d, True),
        ArrayParam("weights", d, True),
    )
    return Kernel("distances_grad", (*params, *(SizeParam(n) for n in ("s_", "p", "r", "m"))), (first, second))
