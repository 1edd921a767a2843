"""Small operators in terms of primitives: sign, reciprocal, rsqrt, tests, maximum, Python's // and %."""

from __future__ import annotations

from fusegrad.dtypes import float64

from ..scalar import Expr, b, make
from .helpers import INF, const, copysign


def sign(x: Expr) -> Expr:
    """-1, 0 or 1; NaN stays NaN."""
    one, zero = const(1, x), const(0, x)
    if not x.dtype.is_signed:
        return b.where(b.gt(x, 0), one, zero)
    out = b.where(b.gt(x, 0), one, b.where(b.lt(x, 0), const(-1, x), zero))
    return b.where(b.ne(x, x), x, out) if x.dtype.category == 2 else out


def reciprocal(x: Expr) -> Expr:
    return b.div(const(1.0, x), x)


def rsqrt(x: Expr) -> Expr:
    return b.div(const(1.0, x), b.sqrt(x))


def isnan(x: Expr) -> Expr:
    return b.ne(x, x)


def isinf(x: Expr) -> Expr:
    return b.eq(b.abs(x), INF)


def isfinite(x: Expr) -> Expr:
    return b.lt(b.abs(x), INF)


def maximum(x: Expr, y: Expr) -> Expr:
    return b.where(b.or_(b.ge(x, y), b.ne(x, x)) if x.dtype.category == 2 else b.ge(x, y), x, y)


def minimum(x: Expr, y: Expr) -> Expr:
    return b.where(b.or_(b.le(x, y), b.ne(x, x)) if x.dtype.category == 2 else b.le(x, y), x, y)


def fmod(x: Expr, y: Expr) -> Expr:
    """C's fmod, exact.  Quotients below 2^52 (2^29 for float32, computed in float64) by one fma; else the library."""
    if x.dtype.category != 2:
        q = b.trunc_div(x, y)
        return b.where(b.eq(y, 0), const(0, x), b.sub(x, b.mul(q, y)))
    wide_x, wide_y = b.cast(x, float64), b.cast(y, float64)
    a, c = b.abs(wide_x), b.abs(wide_y)
    q = b.div(a, c)
    r = b.fma(b.neg(b.trunc(q)), c, a)
    r = b.where(b.lt(r, 0.0), b.add(r, c), r)
    r = b.where(b.ge(r, c), b.sub(r, c), r)
    r = b.where(b.lt(a, c), a, r)  # also an infinite divisor
    fast = b.cast(copysign(r, wide_x), x.dtype)
    limit = 2.0**52 if x.dtype is float64 else 2.0**29
    fine = b.lt(q, limit)
    if x.dtype is float64:  # a denormal divisor: the quotient may have lost bits
        fine = b.and_(fine, b.gt(c, 1e-290))
    return b.branch(b.not_(fine), make("fmod", (x, y), x.dtype), fast)


def mod(x: Expr, y: Expr) -> Expr:
    """Python's %: the sign of y."""
    r = fmod(x, y)
    if x.dtype.category != 2:
        if not x.dtype.is_signed:
            return r
        wrong = b.and_(b.ne(r, 0), b.lt(b.xor(r, y), 0))
        return b.where(wrong, b.add(r, y), r)
    wrong = b.ne(b.lt(y, 0.0), b.lt(r, 0.0))
    return b.where(b.ne(r, 0.0), b.where(wrong, b.add(r, y), r), copysign(r, y))


def floordiv(x: Expr, y: Expr) -> Expr:
    """Python's //; by zero: 0 for integers, the quotient for floats."""
    if x.dtype.category != 2:
        q = b.trunc_div(x, y)
        if not x.dtype.is_signed:
            return q
        r = b.sub(x, b.mul(q, y))
        wrong = b.and_(b.and_(b.ne(r, 0), b.lt(b.xor(r, y), 0)), b.ne(y, 0))
        return b.where(wrong, b.sub(q, 1), q)
    r = fmod(x, y)
    wrong = b.and_(b.ne(r, 0.0), b.ne(b.lt(y, 0.0), b.lt(r, 0.0)))
    q = b.div(b.sub(x, r), y)
    q = b.where(wrong, b.sub(q, 1.0), q)
    down = b.floor(q)
    down = b.where(b.gt(b.sub(q, down), 0.5), b.add(down, 1.0), down)
    plain = b.div(x, y)
    down = b.where(b.eq(q, 0.0), copysign(const(0.0, x), plain), down)
    return b.where(b.eq(y, 0.0), plain, down)


RULES = {
    "sign": sign,
    "reciprocal": reciprocal,
    "rsqrt": rsqrt,
    "isnan": isnan,
    "isinf": isinf,
    "isfinite": isfinite,
    "maximum": maximum,
    "minimum": minimum,
    "fmod": fmod,
    "mod": mod,
    "floordiv": floordiv,
}
