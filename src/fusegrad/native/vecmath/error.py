"""erf, erfc, gelu, and functions made of erfc.

|x| <= 1: erf = x + x h(x^2).  Beyond: float32 erf = 1 - q(x)^4, which needs no exponential; float64 erfc =
exp(-x^2) g(x) / (1 + 2x) with the rounding error of x^2 put back (the form of M. M. Shepherd and J. G. Laframboise,
1981).  gelu in float32 is x or 0, less |x| exp(-x^2/2) m(|x|), with everything but m's polynomial known to more than
float32, so that the result has little more than its own rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusegrad.dtypes import float32, float64

from ..scalar import Expr, b
from .coefficients import (
    CDF_4,
    ERF_7,
    ERF_14,
    ERFC_10,
    ERFC_24,
    ERFC_ROOT_10,
    ERFCX_15,
    ERFCX_24,
    MILLS_13,
    MILLS_FAR_14,
)
from .exponential import exp, exp_in_range
from .gamma import cut
from .helpers import INF, NAN, by_type, const, copysign, in_double, poly, two_prod
from .logarithm import log, log1p


def _near(a: Expr) -> Expr:
    return b.fma(a, poly(b.mul(a, a), ERF_14 if a.dtype is float64 else ERF_7), a)


def _erf_single(x: Expr) -> Expr:
    a = b.abs(x)
    c = b.where(b.gt(a, 4.0), const(4.0, x), a)
    root = poly(b.sub(c, 2.5), ERFC_ROOT_10)
    square = b.mul(root, root)
    far = b.fma(b.neg(square), square, const(1.0, x))
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


MILLS_END = 14.6  # gelu(-x) rounds to zero from here on


def _gelu_tail(a: Expr, middle: float, series: Sequence[float]) -> Expr:
    """a times the normal distribution function of -a; ``series``: what exp(-a^2/2) is multiplied by, in a - middle."""
    v = b.sub(a, middle)
    q, first = poly(v, series[1:]), const(series[0], a)
    m = b.fma(v, q, first)
    m_low = b.fma(v, q, b.sub(first, m))
    product, low = two_prod(a, m)
    square, square_low = two_prod(a, a)
    low = b.fma(product, b.mul(square_low, -0.5), b.fma(a, m_low, low))
    return exp_in_range(b.mul(square, -0.5), product, low)


def _gelu_single(x: Expr) -> Expr:
    a = b.abs(x)
    c = b.where(b.gt(a, 5.5), const(5.5, x), a)
    near = b.mul(x, b.fma(x, poly(b.mul(x, x), CDF_4), const(0.5, x)))
    middle = b.sub(b.where(b.lt(x, 0.0), const(0.0, x), x), _gelu_tail(c, 1331 / 512, MILLS_13))
    end = b.where(b.gt(a, MILLS_END), const(MILLS_END, x), a)
    far = b.neg(b.where(b.eq(x, -INF), const(NAN, x), _gelu_tail(end, 2665 / 256, MILLS_FAR_14)))
    return b.branch(b.lt(x, -4.5), far, b.where(b.lt(a, 0.75), near, middle))


def _gelu_double(x: Expr) -> Expr:
    return b.mul(x, b.mul(_erfc(b.mul(x, -(0.5**0.5))), 0.5))


def _erfcx_positive(a: Expr, short: bool) -> Expr:
    c = b.where(b.gt(a, 1e300), const(1e300, a), a)
    t = b.div(b.sub(c, 3.75), b.add(c, 3.75))
    out = b.div(poly(t, ERFCX_15 if short else ERFCX_24), b.add(b.add(c, c), 1.0))
    return b.where(b.eq(a, INF), const(0.0, a), out)


def _erfcx(x: Expr, short: bool) -> Expr:
    a = b.abs(x)
    far = _erfcx_positive(a, short)
    square, low = two_prod(*(b.where(b.gt(a, 40.0), const(40.0, a), a),) * 2)
    e = exp(square, low=low)
    return b.branch(b.lt(x, 0.0), b.sub(b.add(e, e), far), far)


def _ndtr(x: Expr) -> Expr:
    return b.mul(_erfc(b.mul(x, -(0.5**0.5))), 0.5)


def _log_ndtr(x: Expr, short: bool) -> Expr:
    z = b.mul(x, 0.5**0.5)
    negative = b.lt(z, 0.0)
    low, high = b.where(negative, z, const(0.0, z)), b.where(negative, const(0.0, z), z)
    left = b.sub(log(b.mul(_erfcx_positive(b.neg(low), short), 0.5)), b.mul(low, low))
    return b.where(negative, left, log1p(b.mul(_erfc(high), -0.5)))


erfcx, log_ndtr, ndtr = cut(_erfcx), cut(_log_ndtr), in_double(_ndtr)
gelu = by_type(_gelu_single, _gelu_double)
erf, erfc = by_type(_erf_single, _erf_double), by_type(_erfc_single, _erfc)
RULES = {"erf": erf, "erfc": erfc, "gelu": gelu, "erfcx": erfcx, "ndtr": ndtr, "log_ndtr": log_ndtr}
