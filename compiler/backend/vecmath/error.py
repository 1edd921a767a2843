"""erf and erfc.

|x| <= 1: erf = x + x h(x^2).  Beyond: float32 erf = 1 - exp(-q(x)); float64 erfc = exp(-x^2) g(x) / (1 + 2x) with the
rounding error of x^2 put back (the form of M. M. Shepherd and J. G. Laframboise, 1981).
"""
from __future__ import annotations

from fusegrad.dtypes import float64

from ...kernel.scalar import Expr, b
from .coefficients import ERF_7, ERF_14, ERFC_24, ERFC_LOG_9
from .exponential import exp
from .helpers import by_type, const, copysign, in_double, poly, two_prod


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
    square, low = two_prod(c, c)
    t = b.div(b.sub(c, 4.0), b.add(c, 4.0))
    twice = b.add(c, c)
    d = b.add(twice, 1.0)
    d_low = b.sub(twice, b.sub(d, 1.0))
    inverse, p = b.div(const(1.0, a), d), poly(t, ERFC_24)
    g = b.mul(p, inverse)  # then what this quotient lacks
    g = b.fma(b.sub(b.fma(b.neg(g), d, p), b.mul(g, d_low)), inverse, g)
    return exp(b.neg(square), factor=g, low=b.neg(low))


def _erf_double(x: Expr) -> Expr:
    a = b.abs(x)
    c = b.where(b.gt(a, 6.0), const(6.0, x), a)
    return copysign(b.where(b.gt(a, 1.0), b.sub(1.0, _erfc_far(c)), _near(a)), x)


def _erfc(x: Expr) -> Expr:
    a = b.abs(x)
    near = b.sub(b.sub(1.0, x), b.mul(x, poly(b.mul(x, x), ERF_14)))
    far = _erfc_far(a)
    return b.where(b.le(a, 0.5), near, b.where(b.lt(x, 0.0), b.sub(2.0, far), far))


erf, erfc = by_type(_erf_single, _erf_double), in_double(_erfc)
RULES = {"erf": erf, "erfc": erfc}
