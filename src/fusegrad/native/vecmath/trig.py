"""sin, cos, tan and their inverses.

x = n pi/2 + r.  Up to a bound, n pi/2 is subtracted in parts (W. J. Cody and W. Waite, 1980); beyond it x is
multiplied by the bits of 2/pi that matter (M. H. Payne and R. N. Hanek, 1983), in a branch that is only taken when
such an x occurs.
"""

from __future__ import annotations

from fusegrad.dtypes import float32, float64, int32, int64

from ..scalar import Expr, b
from .coefficients import ASIN_12, ATAN_12, COS_3, COS_6, SIN_3, SIN_6
from .helpers import INF, NAN, bits, const, copysign, fast_two_sum, in_double, poly, two_prod, two_sum


def _two_over_pi(chunks: int) -> tuple[float, ...]:
    """2/pi in 24-bit digits: digit k counts 2^(-24 (k+1))."""
    scale = 1 << 24 * chunks + 64

    def arctan_inverse(n: int) -> int:
        total = term = scale // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))  # J. Machin, 1706
    value = 2 * scale * scale // pi >> 64
    return tuple(float(value >> 24 * (chunks - 1 - k) & 0xFFFFFF) for k in range(chunks))


_DIGITS = _two_over_pi(54)
PI_2_HIGH, PI_2_LOW = 1.5707963267948966, 6.123233995736766e-17
# pi/2 in parts of 33 bits: n times a part is exact up to |n| = 2^20
PARTS = (1.57079632673412561417, 6.07710050630396597660e-11, 2.02226624871116645580e-21, 8.47842766036889956997e-32)
BOUND = 2.0**20
TWO_OVER_PI = 0.6366197723675814


def _large(x: Expr, digits: int) -> tuple[Expr, Expr, Expr]:
    """(r, r_low, quadrant as float) of any finite x."""
    a = b.abs(x)
    e = b.sub(b.shr(bits(a), 52), 1023)
    first = b.trunc_div(b.where(b.lt(e, 54), b.const(0, int64), b.sub(e, 54)), b.const(24, int64))
    down = b.bitcast(b.shl(b.sub(1023, b.mul(first, 24)), 52), float64)
    a = b.mul(a, down)
    top = b.bitcast(b.and_(bits(a), -1 << 26), float64)
    parts = (top, b.sub(a, top))
    s = c = d = const(0.0, x)
    for k in range(digits):
        digit = b.table(_DIGITS, b.add(first, k), float64)
        for part in parts:
            p = b.mul(b.mul(part, digit), 2.0 ** (-24 * (k + 1)))
            p = b.sub(p, b.mul(b.floor(b.mul(p, 0.25)), 4.0))
            s, lost = two_sum(s, p)
            c, lost = two_sum(c, lost)
            d = b.add(d, lost)
    n = b.round(s)
    s, c = two_sum(b.sub(s, n), c)
    s, c = fast_two_sum(s, b.add(c, d))
    r, low = two_prod(s, const(PI_2_HIGH, x))
    low = b.add(low, b.fma(s, const(PI_2_LOW, x), b.mul(c, PI_2_HIGH)))
    r, low = fast_two_sum(r, low)
    n = b.sub(n, b.mul(b.floor(b.mul(n, 0.25)), 4.0))
    negative = b.lt(x, 0.0)
    return (
        b.where(negative, b.neg(r), r),
        b.where(negative, b.neg(low), low),
        b.where(negative, b.sub(const(4.0, x), n), n),
    )


def _reduce_double(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(r, r_low, quadrant int32)."""
    n = b.round(b.mul(x, TWO_OVER_PI))
    minus = b.neg(n)
    r = b.fma(minus, const(PARTS[0], x), x)
    low = const(0.0, x)
    for part in PARTS[1:]:
        r, lost = two_sum(r, b.mul(minus, part))
        low = b.add(low, lost)
    r, low = fast_two_sum(r, low)
    rare = b.gt(b.abs(x), BOUND)
    slow = _large(x, 10)
    q = b.cast(b.branch(rare, slow[2], n), int32)
    return b.branch(rare, slow[0], r), b.branch(rare, slow[1], low), q


def _reduce_single(x: Expr) -> tuple[Expr, Expr]:
    """(r as float64, quadrant int32) of a float32 x."""
    x = b.cast(x, float64)
    n = b.round(b.mul(x, TWO_OVER_PI))
    r = b.fma(n, const(-PI_2_LOW, x), b.fma(n, const(-PI_2_HIGH, x), x))
    rare = b.gt(b.abs(x), 2.0**28)
    slow = _large(x, 6)
    return b.branch(rare, slow[0], r), b.cast(b.branch(rare, slow[2], n), int32)


def _kernels(r: Expr, low: Expr | None) -> tuple[Expr, Expr]:
    """(sin, cos) for |r| <= pi/4; low: what r lacks."""
    many = r.dtype is float64 and low is not None
    z = b.mul(r, r)
    tail = b.mul(b.mul(r, z), poly(z, SIN_6 if many else SIN_3))
    half = b.mul(z, 0.5)
    w = b.sub(1.0, half)
    rest = b.sub(b.sub(1.0, w), half)
    c = b.fma(b.mul(z, z), poly(z, COS_6 if many else COS_3), rest)
    if low is None:
        return b.add(r, tail), b.add(w, c)
    return b.add(r, b.fma(low, w, tail)), b.add(w, b.fma(b.neg(r), low, c))


def _sincos(x: Expr, shift: int) -> Expr:
    """sin(x + shift pi/2)."""
    if x.dtype is float32:
        r, q = _reduce_single(x)
        s, c = _kernels(b.cast(r, float32), None)
    else:
        r, low, q = _reduce_double(x)
        s, c = _kernels(r, low)
    if shift:
        q = b.add(q, shift)
    value = b.where(b.ne(b.and_(q, 1), 0), c, s)
    value = b.where(b.ne(b.and_(q, 2), 0), b.neg(value), value)
    value = b.where(b.lt(b.abs(x), INF), value, const(NAN, x))
    return value if shift else b.where(b.eq(x, 0.0), x, value)


def sin(x: Expr) -> Expr:
    return _sincos(x, 0)


def cos(x: Expr) -> Expr:
    return _sincos(x, 1)


def tan(x: Expr) -> Expr:
    """sin / cos, both as pairs for float64, so that the quotient is good to one rounding."""
    if x.dtype is float32:
        r, q = _reduce_single(x)
        s, c = _kernels(r, None)
        s_low = c_low = None
    else:
        r, low, q = _reduce_double(x)
        z = b.mul(r, r)
        half, half_low = two_prod(r, b.mul(r, 0.5))
        s, s_low = fast_two_sum(r, b.fma(b.mul(r, z), poly(z, SIN_6), b.mul(low, b.sub(1.0, half))))
        w, w_low = fast_two_sum(const(1.0, x), b.neg(half))
        c, c_low = fast_two_sum(w, b.fma(b.mul(z, z), poly(z, COS_6), b.sub(b.sub(w_low, half_low), b.mul(r, low))))
    odd = b.ne(b.and_(q, 1), 0)
    top, under = b.where(odd, b.neg(c), s), b.where(odd, s, c)
    t = b.div(top, under)
    if s_low is not None and c_low is not None:
        top_low, under_low = b.where(odd, b.neg(c_low), s_low), b.where(odd, s_low, c_low)
        rest = b.sub(b.add(b.fma(b.neg(t), under, top), top_low), b.mul(t, under_low))
        t = b.add(t, b.div(rest, under))
    t = b.cast(t, x.dtype)
    t = b.where(b.lt(b.abs(x), INF), t, const(NAN, x))
    return b.where(b.eq(x, 0.0), x, t)


def _asin_parts(x: Expr, inside: Expr) -> tuple[Expr, Expr, Expr]:
    """(|x| > 1/2, t, tail): asin(t) = t + tail with t = x, or sqrt((1-|x|)/2) to more than its precision."""
    a = b.abs(x)
    big = b.gt(a, 0.5)
    z = b.where(big, b.mul(b.sub(1.0, a), 0.5), b.mul(a, a))
    root = b.sqrt(z)
    lost = b.div(b.fma(b.neg(root), root, z), b.add(root, root))
    lost = b.where(b.and_(big, b.gt(root, 0.0)), lost, const(0.0, x))
    t = b.where(big, root, inside)
    return big, t, b.fma(b.mul(t, z), poly(z, ASIN_12), lost)


def _asin(x: Expr) -> Expr:
    big, t, tail = _asin_parts(x, b.abs(x))
    s, lost = fast_two_sum(const(PI_2_HIGH, x), b.mul(t, -2.0))
    large = b.add(s, b.add(b.fma(tail, const(-2.0, x), lost), PI_2_LOW))
    return copysign(b.where(big, large, b.add(t, tail)), x)


def _acos(x: Expr) -> Expr:
    big, t, tail = _asin_parts(x, x)
    s, lost = fast_two_sum(const(PI_2_HIGH, x), b.neg(t))
    middle = b.add(s, b.add(b.sub(lost, tail), PI_2_LOW))
    twice = b.mul(b.add(t, tail), 2.0)
    s, lost = fast_two_sum(const(2 * PI_2_HIGH, x), b.mul(t, -2.0))
    left = b.add(s, b.add(b.fma(tail, const(-2.0, x), lost), 2 * PI_2_LOW))
    return b.where(big, b.where(b.lt(x, 0.0), left, twice), middle)


def _atan_pair(y: Expr, x: Expr) -> Expr:
    """atan(y / x) for 0 <= y, 0 <= x, not both 0 or infinite: y/x beyond tan(pi/8) goes through (y-x)/(y+x).

    The quotient is kept to more than its precision: what it lacks is added at the end.
    """
    swap = b.gt(y, x)
    huge = b.gt(b.where(swap, y, x), 1e300)
    low, high = b.where(swap, x, y), b.where(swap, y, x)
    low, high = b.where(huge, b.mul(low, 0.25), low), b.where(huge, b.mul(high, 0.25), high)
    middle = b.gt(low, b.mul(high, 0.41421356237309503))
    zero = const(0.0, x)
    minus = b.where(middle, b.neg(high), zero)
    top, top_low = fast_two_sum(minus, low)
    under, under_low = fast_two_sum(high, b.where(middle, low, zero))
    t = b.div(top, under)
    rest = b.add(b.fma(b.neg(t), under, top), b.fma(b.neg(t), under_low, top_low))
    lost = b.div(rest, under)
    lost = b.where(b.le(b.abs(lost), b.mul(b.abs(t), 2.0**-51)), lost, zero)
    z = b.mul(t, t)
    tail = b.fma(b.mul(t, z), poly(z, ATAN_12), lost)
    s, more = fast_two_sum(b.where(middle, const(PI_2_HIGH / 2, x), zero), t)
    tail = b.add(tail, b.add(more, b.where(middle, const(PI_2_LOW / 2, x), zero)))
    s, more = b.where(middle, s, t), b.where(middle, tail, b.fma(b.mul(t, z), poly(z, ATAN_12), lost))
    turned, turned_low = fast_two_sum(const(PI_2_HIGH, x), b.neg(s))
    return b.where(swap, b.add(turned, b.add(b.sub(turned_low, more), PI_2_LOW)), b.add(s, more))


def _atan(x: Expr) -> Expr:
    a = b.abs(x)
    return copysign(b.where(b.eq(a, INF), const(PI_2_HIGH, x), _atan_pair(a, const(1.0, x))), x)


def _atan2(y: Expr, x: Expr) -> Expr:
    a, c = b.abs(y), b.abs(x)
    p = _atan_pair(a, c)
    p = b.where(b.eq(a, 0.0), const(0.0, x), p)
    both = b.and_(b.eq(a, INF), b.eq(c, INF))
    p = b.where(both, const(PI_2_HIGH / 2, x), p)
    left = b.lt(copysign(const(1.0, x), x), 0.0)
    p = b.where(left, b.sub(const(2 * PI_2_HIGH, x), b.sub(p, 2 * PI_2_LOW)), p)
    p = b.where(b.or_(b.ne(x, x), b.ne(y, y)), const(NAN, x), p)
    return copysign(p, y)


asin, acos, atan, atan2 = in_double(_asin), in_double(_acos), in_double(_atan), in_double(_atan2)
RULES = {"sin": sin, "cos": cos, "tan": tan, "asin": asin, "acos": acos, "atan": atan, "atan2": atan2}
