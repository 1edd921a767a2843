"""exp, exp2, expm1, sigmoid, sinh, cosh, tanh.

exp(x) = 2^n e^r with n = round(x / ln 2), |r| <= ln2 / 2 and e^r = 1 + (r + r^2 p(r)).
"""

from __future__ import annotations

from collections.abc import Callable

from fusegrad.dtypes import float32, int32

from ..scalar import Expr, b
from .coefficients import EXP_5, EXP_11, SINH_6, TANH_5, TANH_13
from .helpers import by_type, const, copysign, in_double, poly, power_of_two, scale

LOG2E = 1.4426950408889634
LN2 = 0.6931471805599453
# ln 2 as a sum: the first part has few bits, so that n times it is exact
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10
LN2_HIGH32, LN2_LOW32 = 0.693145751953125, 1.428606765330187e-06


def _reduce(x: Expr) -> tuple[Expr, Expr]:
    """(r, n): x = n ln 2 + r; n is a whole number of x's dtype."""
    single = x.dtype is float32
    n = b.round(b.mul(x, LOG2E))
    r = b.fma(n, const(-(LN2_HIGH32 if single else LN2_HIGH), x), x)
    return b.fma(n, const(-(LN2_LOW32 if single else LN2_LOW), x), r), n


def _tail(r: Expr) -> Expr:
    """e^r - 1 for a reduced r."""
    return b.fma(b.mul(r, r), poly(r, EXP_5 if r.dtype is float32 else EXP_11), r)


def _clamp(x: Expr, low: float, high: float) -> Expr:
    """NaN stays NaN."""
    x = b.where(b.gt(x, high), const(high, x), x)
    return b.where(b.lt(x, low), const(low, x), x)


def exp(
    x: Expr, shift: int = 0, factor: Expr | None = None, factor_low: Expr | None = None, low: Expr | None = None
) -> Expr:
    """(factor + factor_low) e^(x + low) 2^shift, with fewer roundings than exp and products; the lows are tiny."""
    least, most = (-104.0, 89.0 - shift) if x.dtype is float32 else (-746.0, 710.0 - shift)
    if factor is None and low is None and shift == 0:
        if x.dtype is float32:
            return _scaled(*_reduce(_clamp(x, least, most)))
        return _or_zero(x, least, lambda c: _scaled(*_reduce(b.where(b.gt(c, most), const(most, c), c))))
    x = _clamp(x, least, most)
    r, n = _reduce(x)
    r = r if low is None else b.add(r, low)
    value = b.add(_tail(r), 1.0) if factor is None or factor_low is None else _times(factor, factor_low, _tail(r))
    whole = b.cast(n, int32)
    return scale(value, b.add(whole, shift) if shift else whole)


def _or_zero(x: Expr, least: float, of: Callable[[Expr], Expr]) -> Expr:
    """0 below ``least``, where ``of(x)`` would round to it: an instruction that meets a number too small for a normal
    one takes a hundred times as long, and masked scores (-1e9, -inf) are many.
    """
    gone = b.lt(x, least)
    return b.where(gone, const(0.0, x), of(b.where(gone, const(0.0, x), x)))


def _scaled(r: Expr, n: Expr) -> Expr:
    """e^r 2^n for a reduced r and a whole n of its dtype. In float32 a result too small for a normal number is found as
    a whole number of steps, which are its bits: instructions that round to such numbers take a hundred times as long.
    """
    value = b.add(_tail(r), 1.0)
    if r.dtype is not float32:
        return scale(value, b.cast(n, int32))
    low = b.lt(n, -125.0)  # not for NaN
    value = scale(value, b.cast(b.where(low, b.add(n, 149.0), n), int32))
    return b.where(low, b.bitcast(b.cast(b.round(value), int32), float32), value)


def _times(factor: Expr, low: Expr, tail: Expr) -> Expr:
    """(factor + low) (1 + tail)"""
    return b.add(factor, b.fma(factor, tail, b.fma(low, tail, low)))


def exp_in_range(x: Expr, factor: Expr, low: Expr) -> Expr:
    """(factor + low) e^x for an x of which 2^n can be told (see ``exp`` for the others)."""
    r, n = _reduce(x)
    return scale(_times(factor, low, _tail(r)), b.cast(n, int32))


def exp2(x: Expr) -> Expr:
    least, most = (-151.0, 129.0) if x.dtype is float32 else (-1076.0, 1025.0)

    def scaled(x: Expr) -> Expr:
        n = b.round(x)
        return _scaled(b.mul(b.sub(x, n), LN2), n)

    if x.dtype is float32:
        return scaled(_clamp(x, least, most))
    return _or_zero(x, least, lambda x: scaled(b.where(b.gt(x, most), const(most, x), x)))


def _expm1(x: Expr) -> Expr:
    """(2^n - 1) + 2^n (e^r - 1), halved inside so that 2^1024 does not overflow early."""
    c = _clamp(x, -60.0, 710.0)
    r, n = _reduce(c)
    half = power_of_two(b.sub(b.cast(n, int32), 1), x.dtype)
    out = b.mul(b.add(b.fma(half, _tail(r), b.sub(half, 0.5)), 0.0), 2.0)
    return b.where(b.lt(b.abs(x), 1e-17), x, out)  # also halves of denormals


def _expm1_single(x: Expr) -> Expr:
    c = _clamp(x, -20.0, 89.0)
    r, n = _reduce(c)
    half = power_of_two(b.sub(b.cast(n, int32), 1), x.dtype)
    out = b.mul(b.fma(half, _tail(r), b.sub(half, 0.5)), 2.0)
    return b.where(b.lt(b.abs(x), 2.0**-30), x, out)  # also the sign of zero and halves of denormals


expm1 = by_type(_expm1_single, _expm1)


def sigmoid(x: Expr) -> Expr:
    """num / (1 + e), e = exp(-|x|), num = 1 or e; the sum's rounding error goes back into the quotient."""
    e = exp(b.neg(b.abs(x)))
    s = b.add(e, 1.0)
    low = b.sub(e, b.sub(s, 1.0))
    inverse = b.div(const(1.0, x), s)
    number = b.where(b.lt(x, 0.0), e, const(1.0, x))
    q = b.mul(number, inverse)
    rest = b.sub(b.fma(b.neg(q), s, number), b.mul(q, low))
    return b.fma(rest, inverse, q)


def tanh(x: Expr) -> Expr:
    """An odd polynomial up to 0.65, then 1 - 2 / (e^(2|x|) + 1)."""
    single = x.dtype is float32
    a = b.abs(x)
    z = b.mul(a, a)
    small = b.fma(b.mul(a, z), poly(z, TANH_5 if single else TANH_13), a)
    c = b.where(b.gt(a, 22.0), const(22.0, x), a)
    large = b.sub(1.0, b.div(const(2.0, x), b.add(exp(b.add(c, c)), 1.0)))
    return copysign(b.where(b.gt(a, 0.65), large, small), x)


def _sinh(x: Expr) -> Expr:
    a = b.abs(x)
    c = b.where(b.gt(a, 40.0), const(40.0, x), a)
    m = _expm1(c)
    small = b.mul(b.add(m, b.div(m, b.add(m, 1.0))), 0.5)
    z = b.mul(c, c)
    small = b.where(b.lt(c, 0.65), b.fma(b.mul(c, z), poly(z, SINH_6), c), small)
    return copysign(b.where(b.gt(a, 40.0), exp(a, -1), small), x)


def _cosh(x: Expr) -> Expr:
    a = b.abs(x)
    half = exp(a, -1)
    return b.add(half, b.div(const(0.25, x), half))


sinh, cosh = in_double(_sinh), in_double(_cosh)
RULES = {
    "exp": exp,
    "exp2": exp2,
    "expm1": expm1,
    "sigmoid": sigmoid,
    "tanh": by_type(tanh, tanh),
    "sinh": sinh,
    "cosh": cosh,
}
