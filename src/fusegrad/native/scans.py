"""Definitions of kernels of running sums, along the middle of [n, m, k] or the rows of [n, m]: x, y, then the sizes.

Sums are kept in float64 and rounded at each store, as numpy's kernels of the operators do it.
"""

from __future__ import annotations

from fusegrad.dtypes import dtype

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import b


def running_sum(d: dtype, rows: bool, direction: int) -> Kernel:
    """y = sums of x from the first element on (``direction`` 1), or from the last (-1)."""
    outer = (Loop("i", "n"),) if rows else (Loop("i", "n"), Loop("c", "k"))
    at = {"i": "m", "j": 1} if rows else {"i": "m*k", "j": "k", "c": 1}
    total = Reduce("r", "add", b.load("x", d, terms=at), scan=direction)
    phase = Phase((Loop("j", "m"),), (total,), (Store("y", b.acc("r", d), terms=at),))
    sizes = [SizeParam(x) for x in ("n", "m", "k")[: 2 if rows else 3]]
    return Kernel("running_sum", (ArrayParam("x", d), ArrayParam("y", d, True), *sizes), (Nest(outer, (phase,)),))
