"""log, log2, log10, log1p, their inverses' friends asinh, acosh, atanh, and pow.

x = 2^k m with sqrt(1/2) <= m < sqrt(2), f = m - 1.
float64: log(1+f) = f - (f^2/2 - s (f^2/2 + s^2 h(s^2))), s = f / (2+f): the leading term f is exact.
"""

from __future__ import annotations

from fusegrad.dtypes import float32, float64, int32

from ..scalar import Expr, b
from .coefficients import ATANH_6, ATANH_REST, EXP_11, LOG_8
from .exponential import LN2, LN2_HIGH, LN2_HIGH32, LN2_LOW, LN2_LOW32
from .helpers import INF, NAN, bits, by_type, const, copysign, fast_two_sum, in_double, poly, scale, two_prod, two_sum

INV_LN2 = 1.4426950408889634
INV_LN2_LOW = 2.0355273740931033e-17
INV_LN10 = 0.4342944819032518
LOG10_2_HIGH, LOG10_2_LOW = 0.30102999566406652, -8.5323443170571066e-14


def split(x: Expr) -> tuple[Expr, Expr]:
    """(k, m) of a positive finite x; k is a float."""
    if x.dtype is float32:
        tiny = b.lt(x, 2.0**-126)
        i = bits(b.where(tiny, b.mul(x, 2.0**23), x))
        offset, mantissa, shift, bias = 0x3F3504F3, 0x7FFFFF, 23, 127
    else:
        tiny = b.lt(x, 2.0**-1022)
        i = bits(b.where(tiny, b.mul(x, 2.0**52), x))
        offset, mantissa, shift, bias = 0x3FE6A09E667F3BCC, (1 << 52) - 1, 52, 1023
    i = b.add(i, (bias << shift) - offset)
    k = b.cast(b.lshr(i, shift), int32)
    m = b.bitcast(b.add(b.and_(i, mantissa), offset), x.dtype)
    lost = b.where(tiny, b.const(bias + shift, int32), b.const(bias, int32))
    return b.cast(b.sub(k, lost), x.dtype), m


def _special(x: Expr, value: Expr, zero: float = -INF) -> Expr:
    """log-like results for 0, negative numbers, infinity and NaN."""
    value = b.where(b.eq(x, INF), x, value)
    return b.where(b.gt(x, 0.0), value, b.where(b.eq(x, 0.0), const(zero, x), const(NAN, x)))


def _log_single(x: Expr) -> Expr:
    k, m = split(x)
    f = b.sub(m, 1.0)
    tail = b.fma(b.mul(f, f), poly(f, LOG_8), b.mul(k, LN2_LOW32))
    return _special(x, b.fma(k, const(LN2_HIGH32, x), b.add(f, tail)))


def _core(f: Expr, low: Expr) -> Expr:
    """log(1+f) - f + low."""
    s = b.div(f, b.add(f, 2.0))
    z = b.mul(s, s)
    half = b.mul(b.mul(f, f), 0.5)
    return b.sub(b.fma(s, b.fma(z, poly(z, ATANH_6), half), low), half)


def _log_double(x: Expr) -> Expr:
    k, m = split(x)
    f = b.sub(m, 1.0)
    value = b.fma(k, const(LN2_HIGH, x), b.add(f, _core(f, b.mul(k, LN2_LOW))))
    return _special(x, value)


log = by_type(_log_single, _log_double)


def _log2(x: Expr) -> Expr:
    k, m = split(x)
    f = b.sub(m, 1.0)
    high, low = fast_two_sum(f, _core(f, const(0.0, x)))
    small = b.fma(high, const(INV_LN2, x), b.fma(high, const(INV_LN2_LOW, x), b.mul(low, INV_LN2)))
    rest = b.fma(high, const(INV_LN2_LOW, x), b.mul(low, INV_LN2))
    large = b.add(b.fma(high, const(INV_LN2, x), k), rest)
    return _special(x, b.where(b.eq(k, 0.0), small, large))


def _log10(x: Expr) -> Expr:
    k, m = split(x)
    f = b.sub(m, 1.0)
    high, low = fast_two_sum(f, _core(f, const(0.0, x)))
    p, e = two_prod(high, const(INV_LN10, x))
    e = b.fma(high, const(1.098319650216765e-17, x), b.fma(low, const(INV_LN10, x), e))
    s, t = two_sum(b.mul(k, LOG10_2_HIGH), p)
    return _special(x, b.add(s, b.add(b.fma(k, const(LOG10_2_LOW, x), e), t)))


def _log1p(x: Expr) -> Expr:
    u = b.add(x, 1.0)
    k, m = split(u)
    near = b.eq(k, 0.0)
    lost = b.where(b.gt(x, 1.0), b.sub(1.0, b.sub(u, x)), b.sub(x, b.sub(u, 1.0)))
    low = b.where(near, const(0.0, x), b.fma(k, const(LN2_LOW, x), b.div(lost, u)))
    f = b.where(near, x, b.sub(m, 1.0))
    value = b.fma(k, const(LN2_HIGH, x), b.add(f, _core(f, low)))
    return b.where(b.eq(x, 0.0), x, _special(u, value))


def _log1p_single(x: Expr) -> Expr:
    """1 + x = 2^k (1 + f): f = 2^-k x + (2^-k - 1) with one rounding, so nothing of x is lost; 2^-k in two factors."""
    u = b.add(x, 1.0)
    k = b.lshr(b.add(bits(u), (127 << 23) - 0x3F3504F3), 23)
    four = b.bitcast(b.shl(b.sub(256, k), 23), float32)  # 2^(2 - k)
    k = b.cast(b.sub(k, 127), float32)
    f = b.fma(b.mul(x, 0.25), four, b.fma(four, const(0.25, x), const(-1.0, x)))
    f = b.where(b.eq(k, 0.0), x, f)  # also for denormals, of which a quarter would lose bits
    tail = b.fma(b.mul(f, f), poly(f, LOG_8), b.mul(k, LN2_LOW32))
    value = b.fma(k, const(LN2_HIGH32, x), b.add(f, tail))
    return b.where(b.eq(x, 0.0), x, _special(u, value))


log2, log10, log1p = in_double(_log2), in_double(_log10), by_type(_log1p_single, _log1p)


def _asinh(x: Expr) -> Expr:
    a = b.abs(x)
    big = b.gt(a, 1e9)
    c = b.where(big, const(1.0, x), a)
    z = b.mul(c, c)
    small = _log1p(b.add(c, b.div(z, b.add(b.sqrt(b.add(z, 1.0)), 1.0))))
    return copysign(b.where(big, b.add(_log_double(a), LN2), small), x)


def _acosh(x: Expr) -> Expr:
    t = b.sub(x, 1.0)
    big = b.gt(x, 1e9)
    c = b.where(big, const(1.0, x), t)
    small = _log1p(b.add(c, b.sqrt(b.fma(c, c, b.add(c, c)))))
    return b.where(big, b.add(_log_double(x), LN2), b.where(b.lt(x, 1.0), const(NAN, x), small))


def _atanh(x: Expr) -> Expr:
    a = b.abs(x)
    return copysign(b.mul(_log1p(b.div(b.add(a, a), b.sub(1.0, a))), 0.5), x)


asinh, acosh, atanh = in_double(_asinh), in_double(_acosh), in_double(_atanh)


# ---------------------------------------------------------------- pow


def _log2_pair(a: Expr) -> tuple[Expr, Expr]:
    """log2 of a positive finite number as a sum of two floats, about 2^-66 relative."""
    k, m = split(a)
    f = b.sub(m, 1.0)
    d = b.add(m, 1.0)
    d_low = b.sub(m, b.sub(d, 1.0))
    inverse = b.div(const(1.0, a), d)
    s = b.mul(f, inverse)
    s_low = b.mul(b.sub(b.fma(b.neg(s), d, f), b.mul(s, d_low)), inverse)
    z, z_low = two_prod(s, s)
    z_low = b.fma(b.add(s, s), s_low, z_low)
    # h(z) = 2/3 + z rest(z), the first term with its rounding error; then w = z h(z), log = s (2 + w)
    h, h_low = fast_two_sum(const(2 / 3, a), b.mul(z, poly(z, ATANH_REST)))
    h_low = b.add(h_low, 3.700743415417188e-17)
    w, w_low = two_prod(z, h)
    w_low = b.add(w_low, b.fma(z, h_low, b.mul(z_low, h)))
    w, t = fast_two_sum(const(2.0, a), w)
    w_low = b.add(t, w_low)
    log, log_low = two_prod(s, w)
    log_low = b.add(log_low, b.fma(s, w_low, b.mul(s_low, w)))
    p, p_low = two_prod(log, const(INV_LN2, a))
    p_low = b.add(p_low, b.fma(log, const(INV_LN2_LOW, a), b.mul(log_low, INV_LN2)))
    high, low = two_sum(k, p)
    return fast_two_sum(high, b.add(low, p_low))


def _power(x: Expr, y: Expr, high: Expr, low: Expr) -> Expr:
    """|x|**y from log2|x| = high + low, then signs and special values."""
    bound = b.where(b.gt(b.abs(y), 1e300), copysign(const(1e300, y), y), y)
    p, p_low = two_prod(bound, high)
    p_low = b.fma(bound, low, p_low)
    out = b.gt(b.abs(p), 1100.0)
    p_low = b.where(out, const(0.0, x), p_low)
    p = b.where(out, copysign(const(1100.0, x), p), p)
    n = b.round(p)
    r = b.mul(b.add(b.sub(p, n), p_low), LN2)
    value = scale(b.add(b.fma(b.mul(r, r), poly(r, EXP_11), r), 1.0), b.cast(n, int32))
    return _power_special(x, y, value)


def _power_special(x: Expr, y: Expr, value: Expr) -> Expr:
    a = b.abs(x)
    falling = b.lt(y, 0.0)
    value = b.where(b.eq(a, 0.0), b.where(falling, const(INF, x), const(0.0, x)), value)
    value = b.where(b.eq(a, INF), b.where(falling, const(0.0, x), const(INF, x)), value)
    value = b.where(b.eq(a, 1.0), const(1.0, x), value)
    whole = b.eq(b.trunc(y), y)  # infinity counts as a whole, even number
    half = b.mul(y, 0.5)
    odd = b.and_(whole, b.ne(b.trunc(half), half))
    odd = b.and_(odd, b.lt(b.abs(y), INF))
    negative = b.lt(copysign(const(1.0, x), x), 0.0)
    value = b.where(b.and_(negative, odd), b.neg(value), value)
    undefined = b.and_(b.and_(b.lt(x, 0.0), b.not_(whole)), b.lt(a, INF))
    value = b.where(undefined, const(NAN, x), value)
    value = b.where(b.or_(b.ne(x, x), b.ne(y, y)), const(NAN, x), value)
    return b.where(b.or_(b.eq(y, 0.0), b.eq(x, 1.0)), const(1.0, x), value)


def _pow_double(x: Expr, y: Expr) -> Expr:
    return _power(x, y, *_log2_pair(b.abs(x)))


def _pow_single(x: Expr, y: Expr) -> Expr:
    x, y = b.cast(x, float64), b.cast(y, float64)
    k, m = split(b.abs(x))
    f = b.sub(m, 1.0)
    high = b.fma(b.add(f, _core(f, const(0.0, x))), const(INV_LN2, x), k)
    return b.cast(_power(x, y, high, const(0.0, x)), float32)


def pow_(x: Expr, y: Expr) -> Expr:
    """x ** y; small whole constants by multiplication, a half by the square root, as numpy and PyTorch do."""
    if y.op == "const" and y.attr == 0.5:
        return b.sqrt(x)
    if y.op == "const" and y.attr in (1.0, 2.0, 3.0, -1.0, 0.0):
        if y.attr == 0.0:
            return const(1.0, x)
        if y.attr == -1.0:
            return b.div(const(1.0, x), x)
        return x if y.attr == 1.0 else b.mul(x, x) if y.attr == 2.0 else b.mul(b.mul(x, x), x)
    return (_pow_single if x.dtype is float32 else _pow_double)(x, y)


RULES = {
    "log": log,
    "log2": log2,
    "log10": log10,
    "log1p": log1p,
    "asinh": asinh,
    "acosh": acosh,
    "atanh": atanh,
    "pow": pow_,
}
