"""erf and erfc.

|x| <= 1: erf = x + x h(x^2).  Beyond: float32 erf = 1 - exp(-q(x)); float64 erfc = exp(-x^2) g(x) / (1 + 2x) with the
rounding error of x^2 put back (the form of M. M. Shepherd and J. G. Laframboise, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegrad.dtypes import float32, float64

from ..scalar import Expr, b
from .coefficients import ERF_7, ERF_14, ERFC_10, ERFC_24, ERFC_LOG_9
from .exponential import exp
from .helpers import by_type, const, copysign, poly, two_prod


def _near(a: Expr) -> Expr:
    return b.fma(a, poly(b.mul(a, a), ERF_14 if a.dtype is float64 else ERF_7), a)


def _erf_single(x: Expr) -> Expr:
    a = b.abs(x)
    c = b.where(b.gt(a, 4.0), const(4.0, x), a)
    far = b.sub(1.0, exp(b.neg(poly(c, ERFC_LOG_9))))
    return copysign(b.where(b.gt(a, 1.0), far, _near(a)), x)


def _erfc_far(a: Expr) -> Expr:
    """erfc of a >= 0.5."""
    c = b.where(b.gt(a, 28.0), const(28.0, a), b.where(b.lt(a, 0.5), const(0.5, a), a))
    return _scaled(c, 4.0, ERFC_24)


def _scaled(c: Expr, middle: float, series: Sequence[float]) -> Expr:
    """erfc of c >= 0 from the series of its scaled form in (c - middle) / (c + middle)."""
    square, low = two_prod(c, c)
    t = b.div(b.sub(c, middle), b.add(c, middle))
    twice = b.add(c, c)
    d = b.add(twice, 1.0)
    d_low = b.sub(twice, b.sub(d, 1.0))
    inverse, q = b.div(const(1.0, c), d), poly(t, series[1:])
    p = b.fma(q, t, const(series[0], c))
    g = b.mul(p, inverse)  # then what this quotient lacks
    rest = b.sub(b.fma(b.neg(g), d, p), b.mul(g, d_low))
    if c.dtype is float32:  # and what rounding took from the sum and from its first coefficient
        single = float(c.dtype.np.type(series[0]))
        rest = b.add(rest, b.add(b.fma(q, t, b.sub(single, p)), series[0] - single))
    return exp(b.neg(square), factor=g, factor_low=b.mul(rest, inverse), low=b.neg(low))


def _erf_double(x: Expr) -> Expr:
    a = b.abs(x)
    c = b.where(b.gt(a, 6.0), const(6.0, x), a)
    return copysign(b.where(b.gt(a, 1.0), b.sub(1.0, _erfc_far(c)), _near(a)), x)


def _erfc(x: Expr) -> Expr:
    a = b.abs(x)
    near = b.sub(b.sub(1.0, x), b.mul(x, poly(b.mul(x, x), ERF_14)))
    far = _erfc_far(a)
    return b.where(b.le(a, 0.5), near, b.where(b.lt(x, 0.0), b.sub(2.0, far), far))


def _erfc_single(x: Expr) -> Expr:
    a = b.abs(x)
    far = _scaled(b.where(b.gt(a, 10.1), const(10.1, a), a), 3.0, ERFC_10)
    far = b.where(b.lt(x, 0.0), b.sub(2.0, far), far)
    return b.where(b.lt(a, 0.45), b.sub(1.0, _near(x)), far)


erf, erfc = by_type(_erf_single, _erf_double), by_type(_erfc_single, _erfc)
RULES = {"erf": erf, "erfc": erfc}
