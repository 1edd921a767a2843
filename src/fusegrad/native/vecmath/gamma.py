"""log |gamma| and its derivative, in float64; float32 goes through float64 with shorter series.

Positive arguments: log gamma is a polynomial around 2, moved there by gamma(x + 1) = x gamma(x), and Stirling's series
for large ones, with one logarithm for all of them; digamma is its asymptotic series ``steps`` higher, less 1/x +
1/(x+1) + ... as one quotient of polynomials with positive coefficients. Others are mirrored [AS 6.1.17, 6.3.7], where
such a number is there. Near digamma's zero the result is as good as its terms, not to its own last place (float64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fusegrad.dtypes import float32, float64

from ..scalar import Expr, b
from .coefficients import LGAMMA_13, LGAMMA_27
from .helpers import INF, NAN, const, copysign, poly
from .logarithm import log

# Bernoulli numbers B2, B4, ... over 2k(2k-1), and over 2k
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_HALF_LOG_2_PI = 0.9189385332046727
_SIN_PI = tuple((-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12))


def _sin_pi(f: Expr) -> Expr:
    """sin(pi f) for |f| <= 1/2."""
    return b.mul(f, poly(b.mul(f, f), _SIN_PI))


def cut(f: Callable[[Expr, bool], Expr]) -> Callable[[Expr], Expr]:
    """``f(x, short)`` for both dtypes: float64, or float32 by way of float64 with short series."""

    def run(x: Expr) -> Expr:
        if x.dtype is float64:
            return f(x, False)
        return b.cast(f(b.cast(x, float64), True), float32)

    return run


def _lgamma_positive(x: Expr, short: bool) -> Expr:
    border, series = (4.0, LGAMMA_13) if short else (8.5, LGAMMA_27)
    below, large = b.lt(x, 1.0), b.ge(x, border)
    u = b.where(below, b.sub(x, 1.0), b.sub(x, 2.0))
    product = const(1.0, x)
    for _ in range(math.ceil(border - 3)):
        high = b.gt(u, 1.0)
        product = b.where(high, b.mul(product, b.add(u, 1.0)), product)
        u = b.where(high, b.sub(u, 1.0), u)
    logarithm = log(b.where(large, x, b.where(below, x, product)))
    rest = b.where(below, b.neg(logarithm), logarithm)
    near = b.fma(b.mul(u, b.add(u, 1.0)), poly(u, series), rest)
    r = b.div(const(1.0, x), x)
    tail = b.mul(r, poly(b.mul(r, r), _STIRLING[: 4 if short else 7]))
    far = b.fma(b.sub(x, 0.5), b.sub(logarithm, 1.0), b.add(tail, _HALF_LOG_2_PI - 0.5))
    return b.where(large, far, near)


def _lgamma(x: Expr, short: bool) -> Expr:
    other = b.le(x, 0.0)
    out = _lgamma_positive(b.where(other, b.sub(1.0, x), x), short)
    f = b.sub(x, b.round(x))
    mirrored = b.sub(b.sub(math.log(math.pi), log(_sin_pi(b.abs(f)))), out)
    mirrored = b.where(b.gt(x, -1e-8), b.neg(log(b.abs(x))), mirrored)
    mirrored = b.where(b.or_(b.eq(f, 0.0), b.eq(x, -INF)), const(INF, x), mirrored)
    return b.branch(other, mirrored, out)


def _quotient(steps: int) -> tuple[Sequence[float], Sequence[float]]:
    """The sum of 1 / (x + k) below ``steps``: coefficients of numerator and denominator."""
    product = [1]
    for k in range(steps):
        product = [k * c + d for c, d in zip([*product, 0], [0, *product], strict=True)]
    return [float(j * c) for j, c in enumerate(product)][1:], [float(c) for c in product[1:]]


def _digamma_positive(x: Expr, short: bool) -> Expr:
    steps = 8 if short else 10
    top, bottom = _quotient(steps)
    small = b.lt(x, float(steps))
    c = b.where(small, x, const(1.0, x))
    passed = b.where(small, b.div(poly(c, top), b.mul(c, poly(c, bottom))), const(0.0, x))
    z = b.where(small, b.add(x, float(steps)), x)
    r = b.div(const(1.0, x), z)
    square = b.mul(r, r)
    tail = b.fma(square, poly(square, _DIGAMMA), b.mul(r, 0.5))
    return b.sub(b.sub(log(z), tail), passed)


def _digamma(x: Expr, short: bool) -> Expr:
    other = b.le(x, 0.0)
    out = _digamma_positive(b.where(other, b.sub(1.0, x), x), short)
    f = b.sub(x, b.round(x))
    cosine = _sin_pi(b.sub(0.5, b.abs(f)))
    mirrored = b.sub(out, b.div(b.mul(cosine, math.pi), _sin_pi(f)))
    mirrored = b.where(b.or_(b.eq(f, 0.0), b.eq(x, -INF)), const(NAN, x), mirrored)
    mirrored = b.where(b.eq(x, 0.0), copysign(const(INF, x), b.neg(x)), mirrored)
    return b.branch(other, mirrored, out)


# B2/2!, B4/4!, ...: the terms of the Euler-Maclaurin sum
_SUM = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)


def _power(x: Expr, n: int) -> Expr:
    out = x
    for _ in range(n - 1):
        out = b.mul(out, x)
    return out


def _zeta(s: int, q: Expr, short: bool) -> Expr:
    """The sum of (q + k)^-s over all k >= 0, q > 0: some terms, then Euler and Maclaurin's series."""
    steps = (5 if short else 9) + s
    total = b.div(1.0, _power(q, s))
    for k in range(1, steps):
        total = b.add(total, b.div(1.0, _power(b.add(q, float(k)), s)))
    r = b.div(const(1.0, q), b.add(q, float(steps)))
    rising, series = float(s), [0.5]
    for j, c in enumerate(_SUM):
        series.append(c * rising)
        rising *= (s + 2 * j + 1) * (s + 2 * j + 2)
    tail = b.fma(r, poly(b.mul(r, r), series[1:]), const(0.5, q))  # times r^s; the integral times r^(s-1)
    return b.add(total, b.mul(_power(r, s - 1), b.fma(r, tail, const(1 / (s - 1), q))))


def polygamma(n: int, x: Expr) -> Expr:
    """The n-th derivative of digamma, 1 <= n <= 3."""

    def run(x: Expr, short: bool) -> Expr:
        other = b.le(x, 0.0)
        out = b.mul(_zeta(n + 1, b.where(other, b.sub(1.0, x), x), short), float(math.factorial(n)))
        f = b.sub(x, b.round(x))
        c = b.div(_sin_pi(b.sub(0.5, b.abs(f))), _sin_pi(f))
        turns = {  # less pi times the derivative of cot(pi x), a polynomial in it
            1: (math.pi**2, 0.0, math.pi**2),
            2: (0.0, -2 * math.pi**3, 0.0, -2 * math.pi**3),
            3: (2 * math.pi**4, 0.0, 8 * math.pi**4, 0.0, 6 * math.pi**4),
        }
        mirrored = b.sub(poly(c, turns[n]), out)
        pole = b.or_(b.eq(f, 0.0), b.eq(x, -INF))
        mirrored = b.where(pole, const(INF if n % 2 else -INF, x), mirrored)
        return b.branch(other, mirrored, out if n % 2 else b.neg(out))

    return cut(run)(x)


lgamma, digamma = cut(_lgamma), cut(_digamma)
RULES = {"lgamma": lgamma, "digamma": digamma}
