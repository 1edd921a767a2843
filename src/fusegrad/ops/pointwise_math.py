"""Elementwise mathematics: exponentials, logarithms, trigonometry."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..op import Sample, op
from ._data import t, t2
from ._eager import SIGMOID, TANH, array_grad, plain_grad
from ._native import elementwise

_LN2, _LN10 = math.log(2), math.log(10)


@op("exp(input: T)", kind="pointwise", promote="float", inplace=True)
class exp:
    """e ** input."""

    kernel = np.exp

    def vjp(g, out):
        return g * out

    def scalar(b, x):
        return b.exp(x)

    ref = np.exp

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t())


@op("exp2(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.exp2",))
class exp2:
    """2 ** input."""

    kernel = np.exp2

    def vjp(g, out):
        return g * (out * _LN2)

    def scalar(b, x):
        return b.exp2(x)

    ref = np.exp2

    def samples():
        yield Sample(t(3, 4))


@op("expm1(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.expm1",))
class expm1:
    """exp(input) - 1, accurate near 0."""

    kernel = np.expm1

    def vjp(g, out):
        return g * (out + 1)

    def scalar(b, x):
        return b.expm1(x)

    ref = np.expm1

    def samples():
        yield Sample(t(3, 4))


@op("log(input: T)", kind="pointwise", promote="float", inplace=True)
class log:
    """Natural logarithm."""

    kernel = np.log

    def vjp(g, input):
        return g / input

    def scalar(b, x):
        return b.log(x)

    ref = np.log

    def samples():
        yield Sample(t(3, 4, low=0.2, high=4))


@op("log2(input: T)", kind="pointwise", promote="float", inplace=True)
class log2:
    """Logarithm of base 2."""

    kernel = np.log2

    def vjp(g, input):
        return g / (input * _LN2)

    def scalar(b, x):
        return b.log2(x)

    ref = np.log2

    def samples():
        yield Sample(t(3, 4, low=0.2, high=4))


@op("log10(input: T)", kind="pointwise", promote="float", inplace=True)
class log10:
    """Logarithm of base 10."""

    kernel = np.log10

    def vjp(g, input):
        return g / (input * _LN10)

    def scalar(b, x):
        return b.log10(x)

    ref = np.log10

    def samples():
        yield Sample(t(3, 4, low=0.2, high=4))


@op("log1p(input: T)", kind="pointwise", promote="float", inplace=True, names=("special.log1p",))
class log1p:
    """log(1 + input), accurate near 0."""

    kernel = np.log1p

    def vjp(g, input):
        return g / (input + 1)

    def scalar(b, x):
        return b.log1p(x)

    ref = np.log1p

    def samples():
        yield Sample(t(3, 4, low=-0.7, high=4))


@op("sin(input: T)", kind="pointwise", promote="float", inplace=True)
class sin:
    """Sine of radians."""

    kernel = np.sin

    def vjp(g, input):
        return g * input.cos()

    def scalar(b, x):
        return b.sin(x)

    ref = np.sin

    def samples():
        yield Sample(t(3, 4))


@op("cos(input: T)", kind="pointwise", promote="float", inplace=True)
class cos:
    """Cosine of radians."""

    kernel = np.cos

    def vjp(g, input):
        return g * -input.sin()

    def scalar(b, x):
        return b.cos(x)

    ref = np.cos

    def samples():
        yield Sample(t(3, 4))


@op("tan(input: T)", kind="pointwise", promote="float", inplace=True)
class tan:
    """Tangent of radians."""

    kernel = np.tan

    def vjp(g, out):
        return g * (1 + out * out)

    def scalar(b, x):
        return b.tan(x)

    ref = np.tan

    def samples():
        yield Sample(t(3, 4, low=-1.2, high=1.2))


@op("asin(input: T)", kind="pointwise", promote="float", inplace=True, names=("arcsin",))
class asin:
    """Inverse sine."""

    kernel = np.arcsin

    def vjp(g, input):
        return g * (1 - input * input).rsqrt()

    def scalar(b, x):
        return b.asin(x)

    ref = np.arcsin

    def samples():
        yield Sample(t(3, 4, low=-0.9, high=0.9))


@op("acos(input: T)", kind="pointwise", promote="float", inplace=True, names=("arccos",))
class acos:
    """Inverse cosine."""

    kernel = np.arccos

    def vjp(g, input):
        return g * -(1 - input * input).rsqrt()

    def scalar(b, x):
        return b.acos(x)

    ref = np.arccos

    def samples():
        yield Sample(t(3, 4, low=-0.9, high=0.9))


@op("atan(input: T)", kind="pointwise", promote="float", inplace=True, names=("arctan",))
class atan:
    """Inverse tangent."""

    kernel = np.arctan

    def vjp(g, input):
        return g / (input * input + 1)

    def scalar(b, x):
        return b.atan(x)

    ref = np.arctan

    def samples():
        yield Sample(t(3, 4))


def _turn(g: Any, at: Any, input: Any, other: Any) -> Any:
    """g at / (input^2 + other^2), the squares of which may neither overflow nor vanish; 0 at the origin."""
    r = input.hypot(other)
    return (g * (at / r / r)).masked_fill((input == 0).logical_and(other == 0), 0)


@op("atan2(input: T, other: T)", kind="pointwise", promote="float", inplace=True, names=("arctan2",))
class atan2:
    """Angle of the point (other, input) in (-pi, pi]."""

    kernel = np.arctan2

    def vjp_input(g, input, other):
        return _turn(g, other, input, other)

    def vjp_other(g, input, other):
        return _turn(g, -input, input, other)

    def scalar(b, x, y):
        return b.atan2(x, y)

    ref = np.arctan2

    def samples():
        yield Sample(t(3, 4), t2(3, 4, low=0.3, high=2))
        yield Sample(t(3, 1, low=0.3, high=2), t2(4))


@op("sinh(input: T)", kind="pointwise", promote="float", inplace=True)
class sinh:
    """Hyperbolic sine."""

    kernel = np.sinh

    def vjp(g, input):
        return g * input.cosh()

    def scalar(b, x):
        return b.sinh(x)

    ref = np.sinh

    def samples():
        yield Sample(t(3, 4))


@op("cosh(input: T)", kind="pointwise", promote="float", inplace=True)
class cosh:
    """Hyperbolic cosine."""

    kernel = np.cosh

    def vjp(g, input):
        return g * input.sinh()

    def scalar(b, x):
        return b.cosh(x)

    ref = np.cosh

    def samples():
        yield Sample(t(3, 4))


@op("tanh(input: T)", kind="pointwise", promote="float", inplace=True, names=("nn.functional.tanh",))
class tanh:
    """Hyperbolic tangent."""

    kernel = np.tanh

    def vjp(g, out):
        return found if (found := plain_grad(TANH, g, out)) is not None else g * (1 - out * out)

    def on_arrays(g, out):
        return array_grad(TANH, g, out)

    def scalar(b, x):
        return b.tanh(x)

    ref = np.tanh

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t())


@op("asinh(input: T)", kind="pointwise", promote="float", inplace=True, names=("arcsinh",))
class asinh:
    """Inverse hyperbolic sine."""

    kernel = np.arcsinh

    def vjp(g, input):
        return g * (input * input + 1).rsqrt()

    ref = np.arcsinh

    def samples():
        yield Sample(t(3, 4))


@op("acosh(input: T)", kind="pointwise", promote="float", inplace=True, names=("arccosh",))
class acosh:
    """Inverse hyperbolic cosine; NaN below 1."""

    kernel = np.arccosh

    def vjp(g, input):
        return g * (input * input - 1).rsqrt()

    ref = np.arccosh

    def samples():
        yield Sample(t(3, 4, low=1.2, high=4))


@op("atanh(input: T)", kind="pointwise", promote="float", inplace=True, names=("arctanh",))
class atanh:
    """Inverse hyperbolic tangent; infinite at -1 and 1, NaN outside."""

    kernel = np.arctanh

    def vjp(g, input):
        return g / (1 - input * input)

    ref = np.arctanh

    def samples():
        yield Sample(t(3, 4, low=-0.8, high=0.8))


_ONES = {np.dtype(c): np.ones((), c) for c in "efd"}  # numpy adds an array faster than a number


@elementwise("sigmoid")
def _sigmoid(x: Any) -> Any:
    """exp(-x) may overflow: the result is then 0, which is right to half the smallest normal number."""
    e = np.exp(-x)
    e += _ONES.get(e.dtype, 1)
    return np.reciprocal(e, e) if type(e) is np.ndarray else np.reciprocal(e)


@op(
    "sigmoid(input: T)",
    kind="pointwise",
    promote="float",
    inplace=True,
    names=("nn.functional.sigmoid", "special.expit"),
)
class sigmoid:
    """1 / (1 + exp(-input))."""

    kernel = _sigmoid

    def vjp(g, out):
        return found if (found := plain_grad(SIGMOID, g, out)) is not None else g * ((1 - out) * out)

    def on_arrays(g, out):
        return array_grad(SIGMOID, g, out)

    def scalar(b, x):
        return b.sigmoid(x)

    def ref(x):
        return 1 / (1 + np.exp(-x))

    def samples():
        yield Sample(t(3, 4))


@op("logit(input: T, eps: float? = None)", kind="pointwise", promote="float", inplace=True, names=("special.logit",))
class logit:
    """log(x / (1 - x)) with x clamped to [eps, 1 - eps] if eps is given."""

    @elementwise("logit", "eps")
    def kernel(x, eps=None):
        if eps is not None:
            x = np.minimum(np.maximum(x, eps), 1 - eps)
        return np.log(x / (1 - x))

    def vjp(g, input, eps):
        if eps is None:
            inside = (input >= 0).logical_and(input <= 1)
            return (g / (input * (1 - input))).masked_fill(inside.logical_not(), math.nan)
        inside = (input >= eps).logical_and(input <= 1 - eps)
        return (g / (input * (1 - input))).masked_fill(inside.logical_not(), 0)

    def scalar(b, x, eps=None):
        if eps is not None:
            x = b.minimum(b.maximum(x, b.const(eps, x.dtype)), b.const(1 - eps, x.dtype))
        return b.log(b.div(x, 1 - x))

    def ref(x, eps=None):
        x = x if eps is None else np.clip(x, eps, 1 - eps)
        return np.log(x / (1 - x))

    def samples():
        yield Sample(t(3, 4, low=0.1, high=0.9))
        yield Sample(t(3, 4, low=0.3, high=0.7), eps=0.1)


# ---- rounding ----
