"""Kernels of running sums, products and extrema, along the middle of [n, m, k] or the rows of [n, m]: x, y, then the
sizes.

Sums and products are kept in float64 and rounded at each store, as numpy's kernels of the operators do it.
"""

from __future__ import annotations

import math

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import Expr, b


def running_sum(d: dtype, rows: bool, direction: int, combine: str = "add") -> Kernel:
    """y = sums of x (products: "mul") from the first element on (``direction`` 1), or from the last (-1)."""
    outer = (Loop("i", "n"),) if rows else (Loop("i", "n"), Loop("c", "k"))
    at = {"i": "m", "j": 1} if rows else {"i": "m*k", "j": "k", "c": 1}
    total = Reduce("r", combine, b.load("x", d, terms=at), scan=direction)
    phase = Phase((Loop("j", "m"),), (total,), (Store("y", b.acc("r", d), terms=at),))
    sizes = [SizeParam(x) for x in ("n", "m", "k")[: 2 if rows else 3]]
    return Kernel("running_sum", (ArrayParam("x", d), ArrayParam("y", d, True), *sizes), (Nest(outer, (phase,)),))


def running_extremum(d: dtype, rows: bool, combine: str) -> Kernel:
    """Running maxima or minima (``combine``; NaN wins), and where the last of each stands: x, y, place (int64).

    The second pass over a row or column finds the places: of elements that are the extremum so far, or NaN.
    """
    outer = (Loop("i", "n"),) if rows else (Loop("i", "n"), Loop("c", "k"))
    at = {"i": "m", "j": 1} if rows else {"i": "m*k", "j": "k", "c": 1}
    x = b.load("x", d, terms=at)
    found = b.or_(b.eq(x, b.load("y", d, terms=at)), b.isnan(x))
    top = Reduce("r", combine, x, scan=1)
    place = Reduce("p", "max", b.where(found, b.index("j"), b.const(0, int64)), scan=1)
    phases = (
        Phase((Loop("j", "m"),), (top,), (Store("y", b.acc("r", d), terms=at),)),
        Phase((Loop("j", "m"),), (place,), (Store("place", b.acc("p", int64), terms=at),)),
    )
    params = (ArrayParam("x", d), ArrayParam("y", d, True), ArrayParam("place", int64, True))
    sizes = [SizeParam(s) for s in ("n", "m", "k")[: 2 if rows else 3]]
    return Kernel("running_extremum", (*params, *sizes), (Nest(outer, phases),))


def running_logsumexp(d: dtype, rows: bool) -> Kernel:
    """Logarithms of running sums of exponentials: x, y, top, factor (memory of the size of x).

    The running maximum first, then the sums relative to it, s[j] = s[j-1] exp(top[j-1] - top[j]) + exp(x[j] - top[j]).
    """
    outer = (Loop("i", "n"),) if rows else (Loop("i", "n"), Loop("c", "k"))
    at = {"i": "m", "j": 1} if rows else {"i": "m*k", "j": "k", "c": 1}
    x, zero, low = b.load("x", d, terms=at), b.const(0, d), b.const(-math.inf, d)

    def level(top: Expr) -> Expr:
        """What numbers are relative to: 0 where the maximum is infinite."""
        return b.where(b.isinf(top), zero, top)

    first = b.eq(b.index("j"), 0)
    before = b.load("top", d, offset=-1 if rows else "0 - k", terms=at, mask=b.not_(first), other=-math.inf)
    now = b.load("top", d, terms=at)
    factor = b.where(b.eq(before, low), zero, b.exp(level(before) - level(now)))
    top = Reduce("t", "max", x, scan=1)
    none = b.eq(x, low)  # the exponential of -inf is slow
    part = b.where(none, zero, b.exp(b.where(none, zero, x - level(now))))
    y = b.load("y", d, terms=at)
    total = Reduce("s", "linear", y, scan=1, factor=b.load("factor", d, terms=at))
    phases = (
        Phase((Loop("j", "m"),), (top,), (Store("top", b.acc("t", d), terms=at),)),
        Phase((Loop("j", "m"),), (), (Store("y", part, terms=at), Store("factor", factor, terms=at))),
        Phase((Loop("j", "m"),), (total,), (Store("y", b.acc("s", d), terms=at),)),
        Phase((Loop("j", "m"),), (), (Store("y", level(now) + b.log(y), terms=at),)),
    )
    params = (ArrayParam("x", d), ArrayParam("y", d, True), ArrayParam("top", d, True), ArrayParam("factor", d, True))
    sizes = [SizeParam(s) for s in ("n", "m", "k")[: 2 if rows else 3]]
    return Kernel("running_logsumexp", (*params, *sizes), (Nest(outer, phases),))
