"""Rare functions: modified Bessel, normal quantiles, incomplete gamma, neighbours, fractions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta
from ..op import Sample, function, op
from ..tensor import Tensor
from . import _rare_kernels as rk
from ._checked import in_place, meta_with, publish
from ._data import t, t2
from ._native import elementwise, several
from ._results import named_results
from .activation import prelu_backward
from .create import like, zeros_like
from .random_ops import rand_op
from .special import polygamma_of


def _range(low: float, high: float) -> Any:
    def samples():
        yield Sample(t(3, 4, low=low, high=high))

    return samples


def _over(out: Any, input: Any) -> Any:
    """exp(-|x|) I1(x) / x; near 0 such that its own derivatives hold too."""
    far = input.abs() > 1
    near = input.masked_fill(far, 0)
    return (out / input.masked_fill(far.logical_not(), 1)).where(far, (-near.abs()).exp() * bessel_over(near, 1))


@op("iv_over(input: T, n: int)", kind="pointwise", promote="float", function=False, method=False)
class bessel_over:
    """I_n(x) / x^n, smooth and even; its derivative is x times the next."""

    kernel = rk.bessel_over

    def vjp(g, input, n):
        return g * (input * bessel_over(input, n + 1))

    def samples():
        yield Sample(t(3, 4, low=-4, high=4), 1)
        yield Sample(t(3, 4, low=-30, high=30), 2)


@op("i0(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.i0",))
class i0:
    """Modified Bessel function of the first kind, order 0."""

    kernel = elementwise("i0")(rk.i0)
    samples = _range(0.2, 10)

    def scalar(b, x):
        return b.i0(x)

    def vjp(g, input):
        return g * i1(input)


@op("i0e(input: T)", kind="pointwise", promote="float", function=False, method=False)
class i0e:
    """exp(-|x|) I0(x)."""

    kernel = elementwise("i0e")(rk.i0e)
    samples = _range(0.2, 10)

    def scalar(b, x):
        return b.i0e(x)

    def vjp(g, input, out):
        return g * (i1e(input) - input.sign() * out)


@op("i1(input: T)", kind="pointwise", promote="float", function=False, method=False)
class i1:
    """Modified Bessel function of the first kind, order 1."""

    kernel = elementwise("i1")(rk.i1)
    samples = _range(0.2, 10)

    def scalar(b, x):
        return b.i1(x)

    def vjp(g, input):
        return g * (i0(input) - bessel_over(input, 1))


@op("i1e(input: T)", kind="pointwise", promote="float", function=False, method=False)
class i1e:
    """exp(-|x|) I1(x)."""

    kernel = elementwise("i1e")(rk.i1e)
    samples = _range(0.2, 10)

    def scalar(b, x):
        return b.i1e(x)

    def vjp(g, input, out):
        return g * (i0e(input) - input.sign() * out - _over(out, input))


def _erfcx_slope(x: Any, out: Any) -> Any:
    """2 x erfcx(x) - 2 / sqrt(pi); where the two cancel, the derivative of the asymptotic series."""
    far = 30.0 if x.dtype is dt.float64 else 8.0
    w = 1 / x.clamp(min=far)
    w = w * w
    series = w * (1 - w * (1.5 - w * (3.75 - w * (13.125 - w * (59.0625 - w * 324.84375)))))
    near = 2 * x.clamp(max=far) * out - 2 / math.sqrt(math.pi)
    return (series * -(1 / math.sqrt(math.pi))).where(x > far, near)


@op("erfcx(input: T)", kind="pointwise", promote="float", function=False, method=False)
class erfcx:
    """exp(x^2) erfc(x)."""

    kernel = elementwise("erfcx")(rk.erfcx)
    samples = _range(-1.5, 4)

    def scalar(b, x):
        return b.erfcx(x)

    def vjp(g, input, out):
        return g * _erfcx_slope(input, out)


@op("ndtr(input: T)", kind="pointwise", promote="float", function=False, method=False)
class ndtr:
    """Distribution function of the standard normal."""

    kernel = elementwise("ndtr")(rk.ndtr)
    samples = _range(-3, 3)

    def scalar(b, x):
        return b.ndtr(x)

    def vjp(g, input):
        return g * ((input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi)))


@op("log_ndtr(input: T)", kind="pointwise", promote="float", function=False, method=False)
class log_ndtr:
    """Logarithm of the normal distribution function, accurate far to the left."""

    kernel = elementwise("log_ndtr")(rk.log_ndtr)
    samples = _range(-6, 3)

    def scalar(b, x):
        return b.log_ndtr(x)

    def vjp(g, input, out):
        left = math.sqrt(2 / math.pi) / erfcx(input.clamp(max=-1.0) * -math.sqrt(0.5))  # input^2 + out would cancel
        x = input.clamp(min=-1.0)
        right = (x * x * -0.5 - out.clamp(min=-2.0)).exp() * (1 / math.sqrt(2 * math.pi))
        return g * left.where(input < -1, right)


@op("ndtri(input: T)", kind="pointwise", promote="float", function=False, method=False)
class ndtri:
    """Quantile of the standard normal; infinite at 0 and 1, NaN outside."""

    kernel = elementwise("ndtri")(rk.ndtri)
    samples = _range(0.05, 0.95)

    def scalar(b, x):
        return b.ndtri(x)

    def vjp(g, out):
        return g * ((out * out * 0.5).exp() * math.sqrt(2 * math.pi))


for _entry in (i0e, i1, i1e, erfcx, ndtr, log_ndtr, ndtri):
    publish(_entry, f"special.{_entry.name}")


def _gamma_samples():
    yield Sample(t(3, 4, low=0.3, high=5), t2(3, 4, low=0.3, high=5), grad=False)
    yield Sample(t(3, 1, low=0.3, high=5), t2(4, low=5, high=20), grad=False)


def _laid_out(result: np.ndarray, a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The result in the order of the operands' axes."""
    if a.flags.c_contiguous and x.flags.c_contiguous:
        return result
    out = np.empty_like(a + x, dtype=result.dtype)
    out[...] = result
    return out


@op("igamma(input: T, other: T)", kind="pointwise", promote="same", inplace=True, names=("special.gammainc",))
class igamma:
    """Regularised lower incomplete gamma function; differentiable in other alone (NotImplementedError for input)."""

    accepts = "float"

    samples = _gamma_samples

    def kernel(a, x):
        return _laid_out(rk.igamma(a, x), a, x)

    def vjp_input(g):
        raise NotImplementedError("the derivative for 'igamma: input' is not implemented.")

    def vjp_other(g, input, other):
        return g * ((input - 1) * other.log() - other - input.lgamma()).exp()


@op("igammac(input: T, other: T)", kind="pointwise", promote="same", inplace=True, names=("special.gammaincc",))
class igammac:
    """Regularised upper incomplete gamma function; differentiable in other alone."""

    accepts = "float"

    samples = _gamma_samples

    def kernel(a, x):
        return _laid_out(rk.igamma(a, x, upper=True), a, x)

    def vjp_input(g):
        raise NotImplementedError("the derivative for 'igammac: input' is not implemented.")

    def vjp_other(g, input, other):
        return -g * ((input - 1) * other.log() - other - input.lgamma()).exp()


@function("mvlgamma(input: T, p: int)", names=("special.multigammaln",))
def mvlgamma(input, p):
    """Logarithm of the multivariate gamma function of dimension p. RuntimeError for p below 1."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype is dt.bool_:
        raise RuntimeError("mvlgamma: booleans are not supported, convert them to numbers first")
    x = input if input.dtype.is_floating_point else input.to(dt.get_default_dtype())
    total = (x - 0.0).lgamma()
    for j in range(1, p):
        total = total + (x - 0.5 * j).lgamma()
    return total + p * (p - 1) / 4 * math.log(math.pi)


@function("mvlgamma_(input: T, p: int)", function=False)
def mvlgamma_(input, p):
    """In-place form of mvlgamma. RuntimeError for integers, which cannot hold it."""
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {input.dtype.name}")
    return input.copy_(mvlgamma(input.clone(), p))


@function("_polygamma(input: T, n: int)", function=False, names=("polygamma",))
def _polygamma(input, n):
    """The n-th derivative of digamma."""
    return polygamma_of(input, n)


@function("polygamma_(input: T, n: int)", function=False)
def polygamma_(input, n):
    """In-place form of polygamma."""
    return in_place(polygamma_of)(input, n)


@function("float_power_(input: T, exponent: Tn)", function=False)
def float_power_(input, exponent):
    """In-place form of float_power. RuntimeError unless input is float64."""
    if input.dtype is not dt.float64:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype.name} but the operation's result "
            "requires dtype Double"
        )
    return input.pow_(exponent.to(dt.float64) if hasattr(exponent, "_data") else float(exponent))


@op("nextafter(input: T, other: T)", kind="pointwise", promote="same", inplace=True)
class nextafter:
    """The floating point number next to input in the direction of other."""

    accepts = "float"

    kernel = np.nextafter
    ref = np.nextafter

    def vjp_input(g, input, other):
        return g.masked_fill(input == other, 0)

    def vjp_other(g, input, other):
        return zeros_like(g)

    def samples():
        yield Sample(t(3, 4), t2(3, 4), grad=False)


_Frexp = named_results("frexp", ["mantissa", "exponent"])


@op("frexp(input: T)", kind="extern", n_out=2, function=False, method=False)
class frexp_op:
    """Mantissa in [1/2, 1) and exponent of 2 (int32)."""

    def kernel(x):
        if x.dtype.kind != "f":
            raise RuntimeError("frexp() only supports floating-point dtypes")
        m, e = np.frexp(x)
        return np.asarray(m), np.asarray(e, np.int32)

    def meta(m):
        return Meta(m.shape, m.dtype), Meta(m.shape, dt.int32)

    def vjp(g0, out1):
        return g0 / out1.to(g0.dtype).exp2()

    def samples():
        yield Sample(t(3, 4), grad=False)


@function("frexp(input: T)")
def frexp(input, *, out=None):
    """(mantissa, exponent) with input = mantissa * 2**exponent."""
    result = frexp_op(input)
    if out is not None:
        from .create import finish

        result = [finish(r, False, o, (input,)) for r, o in zip(result, out, strict=True)]
    return _Frexp(*result)


@op("angle(input: T)", kind="pointwise", promote="float")
class angle:
    """pi for negative numbers, 0 for others, NaN for NaN."""

    @elementwise("angle")
    def kernel(x):
        return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(math.pi), x.dtype.type(0)))

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x):
        zero = b.const(0, x.dtype)
        return b.where(b.ne(x, x), x, b.where(b.lt(x, zero), b.const(math.pi, x.dtype), zero))

    def samples():
        yield Sample(t(3, 4), grad=False)


@function("real(input: T)", method=False)
def real(input):
    """input itself: there are no complex tensors."""
    return input


@function("conj(input: T)", names=("resolve_conj", "resolve_neg"), direct=True)
def conj(input):
    """input itself: there are no complex tensors."""
    return input


@function("conj_physical(input: T)")
def conj_physical(input):
    """input itself: there are no complex tensors."""
    return input


@function("conj_physical_(input: T)")
def conj_physical_(input):
    """input itself."""
    return input


@op("rrelu_op(input: T, slope: T)", kind="pointwise", promote="same", method=False, function=False)
class rrelu_op:
    """input, times slope where it is not positive."""

    meta = meta_with("rrelu_op")

    @several("rrelu_op", "x slope")
    def kernel(x, slope):
        return np.where(np.less_equal(x, 0), x * slope, x)

    def vjp_input(g, input, slope):
        return prelu_backward(g, input, slope)

    def vjp_slope(g, input):
        return (g * input).masked_fill(input > 0, 0)

    def scalar(b, x, slope):
        return b.where(b.le(x, b.const(0, x.dtype)), b.mul(x, slope), x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4, low=0.1, high=0.4))


@function("nn.functional.rrelu_", names=("rrelu_",), method=False)
def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """In-place rrelu."""
    if not isinstance(input, Tensor):
        raise TypeError(f"rrelu_(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return rrelu(input, lower, upper, training, inplace=True)


@function("nn.functional.rrelu(input: T, lower: float, upper: float, training: bool)", names=("rrelu",))
def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False, generator=None):
    """input, times a random slope (in training) or the middle one where it is negative."""
    if lower > upper:
        raise RuntimeError("Lower bound should be less than or equal to the upper bound")
    if training:
        slope = rand_op(tuple(input.shape), input.dtype, generator=generator) * (upper - lower) + lower
    else:
        slope = like(input, (lower + upper) / 2)
    result = rrelu_op(input.clone() if inplace else input, slope)
    return input.copy_(result) if inplace else result
