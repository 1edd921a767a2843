"""Special functions: error functions, the gamma family, sinc, entropy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..op import Sample, function, op
from . import special_kernels as sk
from ._blocked import rounded_once
from ._checked import publish
from ._data import t
from ._native import elementwise


def _each(f: Any) -> Any:
    """A Python function of floats as a numpy reference."""
    return lambda x: np.vectorize(f, otypes=[np.float64])(x.astype(np.float64)).astype(x.dtype)


@op("erf(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.erf",))
class erf:
    """Error function."""

    kernel = elementwise("erf")(sk.erf)

    def vjp(g, input):
        return g * (-(input * input)).exp() * (2 / math.sqrt(math.pi))

    def scalar(b, x):
        return b.erf(x)

    ref = _each(math.erf)

    def samples():
        yield Sample(t(3, 4))


@op("erfc(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.erfc",))
class erfc:
    """1 - erf(input)."""

    kernel = elementwise("erfc")(sk.erfc)

    def vjp(g, input):
        return g * (-(input * input)).exp() * (-2 / math.sqrt(math.pi))

    def scalar(b, x):
        return b.erfc(x)

    ref = _each(math.erfc)

    def samples():
        yield Sample(t(3, 4))


@op("erfinv(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.erfinv",))
class erfinv:
    """Inverse of erf; infinite at -1 and 1, NaN outside."""

    kernel = elementwise("erfinv")(sk.erfinv)

    def vjp(g, out):
        return g * (out * out).exp() * (math.sqrt(math.pi) / 2)

    def scalar(b, x):
        return b.erfinv(x)

    def ref(x):
        return sk.erfinv(x)

    def samples():
        yield Sample(t(3, 4, low=-0.9, high=0.9))


@op("lgamma(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.gammaln",))
class lgamma:
    """log |Gamma(input)|."""

    kernel = elementwise("lgamma")(sk.lgamma)

    def vjp(g, input):
        return g * digamma(input)

    def scalar(b, x):
        return b.lgamma(x)

    ref = _each(math.lgamma)

    def samples():
        yield Sample(t(3, 4, low=0.3, high=6))
        yield Sample(t(3, 4, low=-0.9, high=-0.2))


@op("digamma(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.digamma", "special.psi"))
class digamma:
    """Derivative of lgamma."""

    kernel = elementwise("digamma")(sk.digamma)

    def vjp(g, input):
        return g * polygamma_of(input, 1)

    def scalar(b, x):
        return b.digamma(x)

    def ref(x):
        return sk.digamma(x)

    def samples():
        yield Sample(t(3, 4, low=0.3, high=6))
        yield Sample(t(3, 4, low=-0.8, high=-0.3))


@op("polygamma_of(input: T, n: int)", kind="pointwise", promote="float", inplace=True, function=False, method=False)
class polygamma_of:
    """The n-th derivative of digamma, the tensor first."""

    @elementwise("polygamma_of", n=(1, 2, 3))
    def kernel(x, n):
        if n < 0:
            raise RuntimeError("polygamma(n, x) does not support negative n.")
        return sk.polygamma(n, x)

    def vjp(g, input, n):
        return g * polygamma_of(input, n + 1)

    def scalar(b, x, n):
        if not 1 <= n <= 3:
            from ..native.scalar import UnsupportedScalar

            raise UnsupportedScalar("this derivative of digamma")
        from ..native.vecmath.gamma import polygamma as derivative

        return derivative(n, x)

    def ref(x, n):
        return sk.polygamma(n, x)

    def samples():
        yield Sample(t(3, 4, low=0.5, high=4), 1)
        yield Sample(t(3, 4, low=0.5, high=4), 2)


@function("polygamma(n: int, input: T)", method=False, names=("special.polygamma",))
def polygamma(n, input):
    """The n-th derivative of digamma."""
    return polygamma_of(input, n)


@op("sinc(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.sinc",))
class sinc:
    """sin(pi x) / (pi x); 1 at 0."""

    @elementwise("sinc")
    @rounded_once
    def kernel(x):
        y = np.where(x == 0, np.finfo(x.dtype).tiny, x) * x.dtype.type(math.pi)
        return np.where(x == 0, x.dtype.type(1), np.sin(y) / y)

    def vjp(g, input):
        return g * sinc_of(input, 1)

    def scalar(b, x):
        y = b.mul(x, b.const(math.pi, x.dtype))
        zero = b.eq(x, b.const(0, x.dtype))
        return b.where(zero, b.const(1, x.dtype), b.div(b.sin(y), y))

    ref = np.sinc

    def samples():
        yield Sample(t(3, 4, low=0.2, high=2))
        yield Sample(t(3, 4, low=-2, high=-0.2))


@op("sinc_of(input: T, n: int)", kind="pointwise", promote="float", function=False, method=False)
class sinc_of:
    """The n-th derivative of sinc."""

    kernel = sk.sinc_derivative

    def vjp(g, input, n):
        return g * sinc_of(input, n + 1)

    def samples():
        yield Sample(t(3, 4, low=-0.4, high=0.4), 1)
        yield Sample(t(3, 4, low=-2, high=2), 2)


@op("entr(input: T)", kind="pointwise", promote="float", function=False, method=False)
class entr:
    """-x log x; 0 at 0, -inf for negative x."""

    @elementwise("entr")
    def kernel(x):
        safe = np.where(x > 0, x, 1)
        return np.where(
            x > 0, -x * np.log(safe), np.where(x == 0, x.dtype.type(0), np.where(np.isnan(x), x, x.dtype.type(-np.inf)))
        )

    def scalar(b, x):
        zero, low = b.const(0, x.dtype), b.const(-math.inf, x.dtype)
        out = b.neg(b.mul(x, b.log(x)))
        return b.where(b.eq(x, zero), zero, b.where(b.lt(x, zero), low, out))

    def vjp(g, input):
        return (g * (-input.log() - 1)).masked_fill(input < 0, math.nan)

    def ref(x):
        return -x * np.log(x)

    def samples():
        yield Sample(t(3, 4, low=0.1, high=3))


publish(entr, "special.entr")
