"""Building blocks of the expansions; every function takes and gives scalar expressions made of primitives only."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusegrad.dtypes import dtype, float32, float64, int32, int64

from ..scalar import Expr, b, make

INF = float("inf")
NAN = float("nan")


def const(value: float, like: Expr) -> Expr:
    return b.const(value, like.dtype)


def poly(x: Expr, c: Sequence[float]) -> Expr:
    """c[0] + c[1] x + c[2] x^2 + ... by fused multiply-adds."""
    out = const(c[-1], x)
    for a in reversed(c[:-1]):
        out = b.fma(out, x, const(a, x))
    return out


def bits(x: Expr) -> Expr:
    return b.bitcast(x, int32 if x.dtype is float32 else int64)


def copysign(x: Expr, sign: Expr) -> Expr:
    """|x| with the sign bit of `sign`."""
    return make("copysign", (x, sign), x.dtype)


def power_of_two(n: Expr, dt: dtype) -> Expr:
    """2**n for an int32 n in the range of normal numbers."""
    if dt is float32:
        return b.bitcast(b.shl(b.add(n, 127), 23), float32)
    wide = b.cast(b.add(n, 1023), int64)
    return b.bitcast(b.shl(wide, 52), float64)


def scale(x: Expr, n: Expr) -> Expr:
    """x * 2**n for an int32 n up to twice the exponent range; the result may be denormal or infinite."""
    return make("ldexp", (x, n), x.dtype)


def scale_in_steps(x: Expr, n: Expr) -> Expr:
    """What ldexp means, for processors without such an instruction: two exact factors, one rounding at the end."""
    half = b.shr(n, 1)
    return b.mul(b.mul(x, power_of_two(half, x.dtype)), power_of_two(b.sub(n, half), x.dtype))


def two_sum(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """(s, e): s = x + y rounded, s + e = x + y exactly."""
    s = b.add(x, y)
    t = b.sub(s, x)
    return s, b.add(b.sub(x, b.sub(s, t)), b.sub(y, t))


def fast_two_sum(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """two_sum for |x| >= |y|."""
    s = b.add(x, y)
    return s, b.sub(y, b.sub(s, x))


def two_prod(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    """(p, e): p = x * y rounded, p + e = x * y exactly."""
    p = b.mul(x, y)
    return p, b.fma(x, y, b.neg(p))


def in_double(f: Callable[..., Expr]) -> Callable[..., Expr]:
    """f for float64 arguments, also used for float32 by way of float64."""

    def run(*args: Expr) -> Expr:
        if args[0].dtype is float64:
            return f(*args)
        return b.cast(f(*(b.cast(a, float64) for a in args)), args[0].dtype)

    run.__name__, run.__doc__ = f.__name__, f.__doc__
    return run


def by_type(single: Callable[..., Expr], double: Callable[..., Expr]) -> Callable[..., Expr]:
    """One rule for float32, another for float64."""

    def run(*args: Expr) -> Expr:
        return (single if args[0].dtype is float32 else double)(*args)

    return run
