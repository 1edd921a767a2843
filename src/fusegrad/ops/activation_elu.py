"""Activation functions that are exponential below zero: elu, selu, celu."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Sample, function, op
from ..tensor import Tensor
from ._checked import in_place
from ._native import elementwise
from .activation import _act, _signed, publish_in_place

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _elu(x: Any, alpha: float, scale: float, steep: float) -> Any:
    return np.maximum(x, 0) * scale + np.expm1(np.minimum(x, 0) * steep) * (alpha * scale)


@op(
    "elu(input: T, alpha: num = 1.0, scale: num = 1.0, input_scale: num = 1.0)",
    kind="pointwise",
    promote="same",
    inplace=True,
    method=False,
    function=False,
)
class elu:
    """scale * input, or scale * alpha * (exp(input_scale * input) - 1) where input is negative."""

    accepts = "float"

    @elementwise("elu", "alpha", "scale", "input_scale")
    def kernel(x, alpha=1.0, scale=1.0, input_scale=1.0):
        return _elu(x, alpha, scale, input_scale)

    def vjp(g, input, alpha, scale, input_scale):
        below = input.masked_fill((input < 0).logical_not(), 0)
        low = g * ((below * input_scale).exp() * (alpha * scale * input_scale))
        return low.where(input <= 0, g * scale)  # NaN counts as large here, as in PyTorch

    def scalar(b, x, alpha=1.0, scale=1.0, input_scale=1.0):
        zero = b.const(0, x.dtype)
        low = b.expm1(b.mul(b.minimum(x, zero), b.const(input_scale, x.dtype)))
        return b.where(b.gt(x, zero), b.mul(x, b.const(scale, x.dtype)), b.mul(low, b.const(alpha * scale, x.dtype)))

    def ref(x, alpha=1.0, scale=1.0, input_scale=1.0):
        return scale * np.where(x > 0, x, alpha * np.expm1(x * input_scale))

    def samples():
        yield Sample(_signed()[0])
        yield Sample(_signed()[2], 0.7)
        yield Sample(_signed()[0], 1.7, 1.1, 0.5)


@function("nn.functional.elu(input: T, alpha: num)")
def f_elu(input, alpha=1.0, inplace=False):
    """input, or alpha * (exp(input) - 1) where it is negative."""
    return _act(elu, input, inplace, alpha)


@function("nn.functional.selu(input: T)", names=("selu",), method=False)
def f_selu(input, inplace=False):
    """elu with the constants that keep mean 0 and variance 1."""
    return _act(elu, input, inplace, _SELU_ALPHA, _SELU_SCALE)


@function("nn.functional.celu(input: T, alpha: num)", names=("celu",), method=False)
def f_celu(input, alpha=1.0, inplace=False):
    """input, or alpha * (exp(input / alpha) - 1) where it is negative. RuntimeError for alpha 0."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _act(elu, input, inplace, alpha, 1.0, 1.0 / alpha)


def _need_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")


@function("nn.functional.selu_", names=("selu_",), method=False)
def f_selu_(input):
    """In-place selu."""
    _need_tensor("selu_", input)
    return in_place(elu)(input, _SELU_ALPHA, _SELU_SCALE)


@function("nn.functional.celu_", names=("celu_",), method=False)
def f_celu_(input, alpha=1.0):
    """In-place celu."""
    _need_tensor("celu_", input)
    return in_place(elu)(input, alpha, 1.0, 1.0 / alpha)


publish_in_place("elu_", elu)
