"""Activation functions: relu and its relatives, gelu, silu, elu..., all elementwise."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..op import Op, Sample, function, op
from . import special_kernels as sk
from ._blocked import blocked, pick
from ._checked import in_place, meta_with, publish
from ._data import t, t2
from .create import zeros_like

_SIGNED = (t(3, 4), t(3, 4, low=0.1, high=4), t(3, 4, low=-4, high=-0.1))


def _signed_samples():
    for x in _SIGNED:
        yield Sample(x)


def _act(entry: Op, input: Any, inplace: bool, *attrs: Any) -> Any:
    """The operator, or its in-place form."""
    return in_place(entry)(input, *attrs) if inplace else entry(input, *attrs)


def _refuse_bool(m: Any) -> None:
    if m.dtype is dt.bool_:
        raise RuntimeError("Boolean inputs not supported for relu")


@op("relu(input: T)", kind="pointwise", promote="same", inplace=True)
class relu:
    """max(input, 0). RuntimeError for bool."""

    def kernel(x):
        if x.dtype.kind == "b":
            raise TypeError("bool")  # the meta rule words it
        return np.maximum(x, 0)

    def kernel_out(x, out):
        return np.maximum(x, 0, out=out)

    meta = meta_with("relu", _refuse_bool)

    def vjp(g, out):
        return relu_backward(g, out)

    def scalar(b, x):
        return b.maximum(x, b.const(0, x.dtype))

    def ref(x):
        return np.maximum(x, 0)

    samples = _signed_samples

    def errors():
        yield (t(3, dtype=dt.bool_),), {}, RuntimeError, "Boolean inputs"


@op("relu_backward(grad: T, result: T)", kind="pointwise", promote="same", method=False, function=False)
class relu_backward:
    """g where result is positive (or NaN), else 0."""

    def kernel(g, result):
        return pick(np.less_equal(result, 0), g.dtype.type(0), g)

    def vjp_grad(g, result):
        return relu_backward(g, result)

    def vjp_result(g):
        return zeros_like(g)  # 0 almost everywhere; said, so that the first derivative counts as a function of it

    def scalar(b, g, result):
        return b.where(b.le(result, b.const(0, result.dtype)), b.const(0, g.dtype), g)

    def ref(g, result):
        return np.where(result <= 0, 0, g)

    def samples():
        yield Sample(t2(3, 4), t(3, 4))


@function("nn.functional.relu")
def f_relu(input, inplace=False):
    """max(input, 0)."""
    return _act(relu, input, inplace)


@function("nn.functional.relu_")
def f_relu_(input):
    """In-place relu."""
    return in_place(relu)(input)


@op("zero_between(grad: T, input: T, low: num, high: num)", kind="pointwise", promote="same", method=False,
    function=False)
class zero_between:
    """g, but 0 where low <= input <= high: the derivative of functions that are flat there."""

    def kernel(g, x, low, high):
        inside = np.less_equal(x, high)
        if low != -math.inf:
            inside &= np.greater_equal(x, low)
        return pick(inside, g.dtype.type(0), g)

    def vjp_grad(g, input, low, high):
        return zero_between(g, input, low, high)

    def vjp_input(g):
        return zeros_like(g)

    def scalar(b, g, x, low, high):
        inside = b.and_(b.ge(x, b.const(low, x.dtype)), b.le(x, b.const(high, x.dtype)))
        return b.where(inside, b.const(0, g.dtype), g)

    def ref(g, x, low, high):
        return np.where((x >= low) & (x <= high), 0, g)

    def samples():
        yield Sample(t2(3, 4), t(3, 4), -0.5, 0.75)
        yield Sample(t2(3, 4), t(3, 4), -math.inf, 0.75)


@op("leaky_relu(input: T, negative_slope: num = 0.01)", kind="pointwise", promote="float", inplace=True, method=False,
    function=False)
class leaky_relu:
    """input, times negative_slope where it is negative."""

    @blocked
    def kernel(x, negative_slope=0.01):
        if 0 <= negative_slope <= 1:
            return np.maximum(x, x * negative_slope)
        return np.where(np.greater(x, 0), x, x * negative_slope)

    def vjp(g, input, negative_slope):
        return leaky_relu_backward(g, input, negative_slope)

    def scalar(b, x, negative_slope=0.01):
        return b.where(b.gt(x, b.const(0, x.dtype)), x, b.mul(x, b.const(negative_slope, x.dtype)))

    def ref(x, negative_slope=0.01):
        return np.where(x > 0, x, x * negative_slope)

    def samples():
        yield Sample(_SIGNED[0], 0.2)
        yield Sample(_SIGNED[2])


@op("leaky_relu_backward(grad: T, input: T, negative_slope: num)", kind="pointwise", promote="same", method=False,
    function=False)
class leaky_relu_backward:
    """g where input is positive, else g * negative_slope."""

    def kernel(g, x, negative_slope):
        return pick(np.greater(x, 0), g, g * negative_slope)

    def vjp_grad(g, input, negative_slope):
        return leaky_relu_backward(g, input, negative_slope)

    def vjp_input(g):
        return zeros_like(g)

    def scalar(b, g, x, negative_slope):
        return b.where(b.gt(x, b.const(0, x.dtype)), g, b.mul(g, b.const(negative_slope, g.dtype)))

    def ref(g, x, negative_slope):
        return np.where(x > 0, g, g * negative_slope)

    def samples():
        yield Sample(t2(3, 4), t(3, 4), 0.2)


@function("nn.functional.leaky_relu")
def f_leaky_relu(input, negative_slope=0.01, inplace=False):
    """input, times negative_slope where it is negative."""
    return _act(leaky_relu, input, inplace, negative_slope)


@op("prelu_backward(grad: T, input: T, weight: T)", kind="pointwise", promote="same", method=False, function=False)
class prelu_backward:
    """g where input is positive, else g * weight."""

    def kernel(g, x, w):
        return np.where(np.greater(x, 0), g, g * w)

    def vjp_grad(g, input, weight):
        return prelu_backward(g, input, weight)

    def vjp_input(g):
        return zeros_like(g)

    def vjp_weight(g, grad, input):
        return (g * grad).masked_fill(input > 0, 0)

    def scalar(b, g, x, w):
        return b.where(b.gt(x, b.const(0, x.dtype)), g, b.mul(g, w))

    def ref(g, x, w):
        return np.where(x > 0, g, g * w)

    def samples():
        yield Sample(t2(3, 4), t(3, 4), t(4))


@op("prelu_elementwise(input: T, weight: T)", kind="pointwise", promote="same", method=False, function=False)
class prelu_op:
    """input, times weight (broadcast) where it is negative."""

    def kernel(x, w):
        return np.where(np.greater(x, 0), x, x * w)

    def vjp_input(g, input, weight):
        return prelu_backward(g, input, weight)

    def vjp_weight(g, input):
        return (g * input).masked_fill(input > 0, 0)

    def scalar(b, x, w):
        return b.where(b.gt(x, b.const(0, x.dtype)), x, b.mul(x, w))

    def ref(x, w):
        return np.where(x > 0, x, x * w)

    def samples():
        yield Sample(_SIGNED[0], t(4))
        yield Sample(_SIGNED[0], t(1))


@function("nn.functional.prelu", names=("prelu",))
def prelu(input, weight):
    """input, times weight where it is negative; weight has one element, or one for each channel (dimension 1)."""
    if input.dtype is not weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {input.dtype.name} and {weight.dtype.name}")
    n = weight.numel()
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if weight.ndim == 1 and n != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if input.ndim == 0:
            raise RuntimeError("prelu: Not allow zero-dim input tensor.")
        if channels != n:
            raise RuntimeError("prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers "
                               f"= {n} and channel size = {channels}.")
        if input.ndim > 1:
            weight = weight.reshape(1, n, *(1,) * (input.ndim - 2))
    elif weight.ndim == 1:
        weight = weight.reshape(())
    return prelu_op(input, weight)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _elu(x: Any, alpha: float, scale: float, steep: float) -> Any:
    return np.maximum(x, 0) * scale + np.expm1(np.minimum(x, 0) * steep) * (alpha * scale)


@op("elu(input: T, alpha: num = 1.0, scale: num = 1.0, input_scale: num = 1.0)", kind="pointwise", promote="float",
    inplace=True, method=False, function=False)
class elu:
    """scale * input, or scale * alpha * (exp(input_scale * input) - 1) where input is negative."""

    @blocked
    def kernel(x, alpha=1.0, scale=1.0, input_scale=1.0):
        return _elu(x, alpha, scale, input_scale)

    def vjp(g, input, alpha, scale, input_scale):
        low = g * ((input.clamp(max=0) * input_scale).exp() * (alpha * scale * input_scale))
        return (g * scale).where(input > 0, low)

    def scalar(b, x, alpha=1.0, scale=1.0, input_scale=1.0):
        zero = b.const(0, x.dtype)
        low = b.expm1(b.mul(b.minimum(x, zero), b.const(input_scale, x.dtype)))
        return b.where(b.gt(x, zero), b.mul(x, b.const(scale, x.dtype)), b.mul(low, b.const(alpha * scale, x.dtype)))

    def ref(x, alpha=1.0, scale=1.0, input_scale=1.0):
        return scale * np.where(x > 0, x, alpha * np.expm1(x * input_scale))

    def samples():
        yield Sample(_SIGNED[0])
        yield Sample(_SIGNED[2], 0.7)
        yield Sample(_SIGNED[0], 1.7, 1.1, 0.5)


@function("nn.functional.elu")
def f_elu(input, alpha=1.0, inplace=False):
    """input, or alpha * (exp(input) - 1) where it is negative."""
    return _act(elu, input, inplace, alpha)


@function("nn.functional.selu", names=("selu",), method=False)
def f_selu(input, inplace=False):
    """elu with the constants that keep mean 0 and variance 1."""
    return _act(elu, input, inplace, _SELU_ALPHA, _SELU_SCALE)


@function("nn.functional.celu", names=("celu",), method=False)
def f_celu(input, alpha=1.0, inplace=False):
    """input, or alpha * (exp(input / alpha) - 1) where it is negative. RuntimeError for alpha 0."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _act(elu, input, inplace, alpha, 1.0, 1.0 / alpha)


def _cdf(x: Any) -> Any:
    return sk.normal_cdf(x)


@op("gelu(input: T, *, approximate: str = 'none')", kind="pointwise", promote="float", method=False, function=False)
class gelu:
    """input times the normal distribution function, or its "tanh" approximation."""

    @blocked
    def kernel(x, approximate="none"):
        if approximate == "none":
            return x * _cdf(x)
        if approximate != "tanh":
            raise RuntimeError("approximate argument must be either none or tanh.")
        return 0.5 * x * (1 + np.tanh(_GELU_A * (x + _GELU_B * x * x * x)))

    def vjp(g, input, approximate):
        if approximate == "none":
            cdf = (input * -math.sqrt(0.5)).erfc() * 0.5
            pdf = (input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
            return g * (cdf + input * pdf)
        th = (_GELU_A * (input + _GELU_B * (input * input * input))).tanh()
        inner = _GELU_A * (1 + 3 * _GELU_B * (input * input))
        return g * (0.5 * (1 + th) + 0.5 * input * (1 - th * th) * inner)

    def scalar(b, x, approximate="none"):
        c = lambda v: b.const(v, x.dtype)
        half = b.mul(x, c(0.5))
        if approximate == "none":
            return b.mul(half, b.erfc(b.mul(x, c(-math.sqrt(0.5)))))
        inner = b.mul(c(_GELU_A), b.add(x, b.mul(c(_GELU_B), b.mul(b.mul(x, x), x))))
        return b.mul(half, b.add(c(1), b.tanh(inner)))

    def ref(x, approximate="none"):
        if approximate == "tanh":
            return 0.5 * x * (1 + np.tanh(_GELU_A * (x + _GELU_B * x ** 3)))
        return x * 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-x * math.sqrt(0.5))

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(3, 4), approximate="tanh")

    def errors():
        yield (t(3),), {"approximate": "other"}, RuntimeError, "either none or tanh"


_GELU_A, _GELU_B = math.sqrt(2 / math.pi), 0.044715


@op("silu(input: T)", kind="pointwise", promote="float", inplace=True, method=False, function=False)
class silu:
    """input * sigmoid(input)."""

    @blocked
    def kernel(x):
        from .pointwise_math import sigmoid
        return x * sigmoid.kernel(x)

    def vjp(g, input):
        s = input.sigmoid()
        return g * (s * (1 + input * (1 - s)))

    def scalar(b, x):
        return b.mul(x, b.sigmoid(x))

    def ref(x):
        return x / (1 + np.exp(-x))

    samples = _signed_samples


@function("nn.functional.silu", names=("nn.functional.swish",))
def f_silu(input, inplace=False):
    """input * sigmoid(input)."""
    return _act(silu, input, inplace)


def _softplus_np(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@op("mish(input: T)", kind="pointwise", promote="float", inplace=True, method=False, function=False)
class mish:
    """input * tanh(softplus(input))."""

    @blocked
    def kernel(x):
        return x * np.tanh(_softplus_np(x))

    def vjp(g, input):
        th = softplus(input).tanh()
        return g * (th + input * (1 - th * th) * input.sigmoid())

    def scalar(b, x):
        return b.mul(x, b.tanh(_softplus_b(b, x)))

    def ref(x):
        return x * np.tanh(np.log1p(np.exp(x)))

    samples = _signed_samples


@function("nn.functional.mish")
def f_mish(input, inplace=False):
    """input * tanh(softplus(input))."""
    return _act(mish, input, inplace)


def _softplus_b(b: Any, x: Any) -> Any:
    return b.add(b.maximum(x, b.const(0, x.dtype)), b.log1p(b.exp(b.neg(b.abs(x)))))


@op("softplus(input: T, beta: num = 1.0, threshold: num = 20.0)", kind="pointwise", promote="float", method=False,
    function=False)
class softplus:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold."""

    @blocked
    def kernel(x, beta=1.0, threshold=20.0):
        z = x * beta
        r = _softplus_np(z) / beta
        far = z > threshold
        return np.where(far, x, r) if far.any() else r

    def vjp(g, input, beta, threshold):
        z = input * beta
        return g.where(z > threshold, g * z.sigmoid())

    def scalar(b, x, beta=1.0, threshold=20.0):
        z = b.mul(x, b.const(beta, x.dtype))
        return b.where(b.gt(z, b.const(threshold, x.dtype)), x, b.div(_softplus_b(b, z), b.const(beta, x.dtype)))

    def ref(x, beta=1.0, threshold=20.0):
        return np.where(x * beta > threshold, x, np.log1p(np.exp(x * beta)) / beta)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(3, 4), 2.0, 1.5)


@op("logsigmoid(input: T)", kind="pointwise", promote="float", method=False, function=False)
class logsigmoid:
    """log(sigmoid(input)) without overflow."""

    @blocked
    def kernel(x):
        return -_softplus_np(-x)

    def vjp(g, input):
        return g * (-input).sigmoid()

    def scalar(b, x):
        return b.neg(_softplus_b(b, b.neg(x)))

    def ref(x):
        return -np.log1p(np.exp(-x))

    samples = _signed_samples


@op("hardtanh(input: T, min_val: num = -1.0, max_val: num = 1.0)", kind="pointwise", promote="same", inplace=True,
    method=False, function=False)
class hardtanh:
    """input limited to [min_val, max_val]."""

    @blocked
    def kernel(x, min_val=-1.0, max_val=1.0):
        if x.dtype.kind == "b":
            raise RuntimeError("Bool inputs not supported for hardtanh")
        if x.dtype.kind != "f":
            min_val, max_val = int(min_val), int(max_val)
            if x.dtype.kind == "u" and (min_val < 0 or max_val < 0):
                raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
        return np.minimum(np.maximum(x, min_val), max_val)

    def vjp(g, input, min_val, max_val):
        return zero_between(zero_between(g, input, -math.inf, min_val), input, max_val, math.inf)

    def scalar(b, x, min_val=-1.0, max_val=1.0):
        return b.minimum(b.maximum(x, b.const(min_val, x.dtype)), b.const(max_val, x.dtype))

    def ref(x, min_val=-1.0, max_val=1.0):
        return np.clip(x, min_val, max_val)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(3, 4), -0.5, 0.25)


@function("nn.functional.hardtanh")
def f_hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """input limited to [min_val, max_val]. ValueError if they cross."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _act(hardtanh, input, inplace, min_val, max_val)


@function("nn.functional.relu6")
def f_relu6(input, inplace=False):
    """input limited to [0, 6]."""
    return _act(hardtanh, input, inplace, 0.0, 6.0)


@op("hardsigmoid(input: T)", kind="pointwise", promote="float", inplace=True, method=False, function=False)
class hardsigmoid:
    """(input + 3) / 6 limited to [0, 1]."""

    @blocked
    def kernel(x):
        return np.minimum(np.maximum(x + 3, 0), 6) / 6

    def vjp(g, input):
        return zero_between(zero_between(g * (1 / 6), input, -math.inf, -3), input, 3, math.inf)

    def scalar(b, x):
        c = lambda v: b.const(v, x.dtype)
        return b.div(b.minimum(b.maximum(b.add(x, c(3)), c(0)), c(6)), c(6))

    def ref(x):
        return np.clip(x + 3, 0, 6) / 6

    def samples():
        yield Sample(t(3, 4, low=-5, high=5))


@function("nn.functional.hardsigmoid")
def f_hardsigmoid(input, inplace=False):
    """(input + 3) / 6 limited to [0, 1]."""
    return _act(hardsigmoid, input, inplace)


@op("hardswish(input: T)", kind="pointwise", promote="float", inplace=True, method=False, function=False)
class hardswish:
    """input * hardsigmoid(input)."""

    @blocked
    def kernel(x):
        return x * np.minimum(np.maximum(x + 3, 0), 6) / 6

    def vjp(g, input):
        middle = g * (input * (1 / 3) + 0.5)
        return g.where(input >= 3, middle).masked_fill(input <= -3, 0)

    def scalar(b, x):
        c = lambda v: b.const(v, x.dtype)
        return b.div(b.mul(x, b.minimum(b.maximum(b.add(x, c(3)), c(0)), c(6))), c(6))

    def ref(x):
        return x * np.clip(x + 3, 0, 6) / 6

    def samples():
        yield Sample(t(3, 4, low=-5, high=5))


@function("nn.functional.hardswish")
def f_hardswish(input, inplace=False):
    """input * hardsigmoid(input)."""
    return _act(hardswish, input, inplace)


@op("threshold(input: T, threshold: num, value: num)", kind="pointwise", promote="same", inplace=True, method=False)
class threshold:
    """input where it is above threshold, else value."""

    def kernel(x, threshold, value):
        return np.where(np.less_equal(x, threshold), np.asarray(value).astype(x.dtype), x)

    def vjp(g, input, threshold):
        return zero_between(g, input, -math.inf, threshold)

    def scalar(b, x, threshold, value):
        return b.where(b.le(x, b.const(threshold, x.dtype)), b.const(value, x.dtype), x)

    def ref(x, threshold, value):
        return np.where(x > threshold, x, value)

    def samples():
        yield Sample(t(3, 4), 0.1, 20.0)


@function("nn.functional.threshold")
def f_threshold(input, threshold, value, inplace=False):
    """input where it is above threshold, else value."""
    return _act(_THRESHOLD, input, inplace, threshold, value)


_THRESHOLD = threshold


@op("hardshrink(input: T, lambd: num = 0.5)", kind="pointwise", promote="float", names=("nn.functional.hardshrink",))
class hardshrink:
    """input, but 0 within [-lambd, lambd]."""

    @blocked
    def kernel(x, lambd=0.5):
        return np.where((x >= -lambd) & (x <= lambd), x.dtype.type(0), x)

    def vjp(g, input, lambd):
        return zero_between(g, input, -lambd, lambd)

    def scalar(b, x, lambd=0.5):
        inside = b.and_(b.ge(x, b.const(-lambd, x.dtype)), b.le(x, b.const(lambd, x.dtype)))
        return b.where(inside, b.const(0, x.dtype), x)

    def ref(x, lambd=0.5):
        return np.where(np.abs(x) <= lambd, 0, x)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(3, 4), 1.0)


@op("softshrink(input: T, lambd: num = 0.5)", kind="pointwise", promote="float", method=False, function=False)
class softshrink:
    """input moved towards 0 by lambd; 0 within [-lambd, lambd]. RuntimeError for a negative lambd."""

    @blocked
    def kernel(x, lambd=0.5):
        if lambd < 0:
            raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
        return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))

    def vjp(g, input, lambd):
        return zero_between(g, input, -lambd, lambd)

    def scalar(b, x, lambd=0.5):
        c = b.const(lambd, x.dtype)
        up = b.where(b.lt(x, b.neg(c)), b.add(x, c), b.mul(x, b.const(0, x.dtype)))
        return b.where(b.gt(x, c), b.sub(x, c), up)

    def ref(x, lambd=0.5):
        return np.sign(x) * np.maximum(np.abs(x) - lambd, 0)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(3, 4), 1.0)

    def errors():
        yield (t(3), -1.0), {}, RuntimeError, "greater or equal to 0"


@op("tanhshrink(input: T)", kind="pointwise", promote="float", method=False, function=False)
class tanhshrink:
    """input - tanh(input)."""

    @blocked
    def kernel(x):
        return x - np.tanh(x)

    def vjp(g, input):
        th = input.tanh()
        return g * (th * th)

    def scalar(b, x):
        return b.sub(x, b.tanh(x))

    def ref(x):
        return x - np.tanh(x)

    samples = _signed_samples


@op("softsign(input: T)", kind="pointwise", promote="float", method=False, function=False)
class softsign:
    """input / (1 + |input|)."""

    @blocked
    def kernel(x):
        return x / (1 + np.abs(x))

    def vjp(g, input):
        d = 1 + input.abs()
        return g / (d * d)

    def scalar(b, x):
        return b.div(x, b.add(b.abs(x), b.const(1, x.dtype)))

    def ref(x):
        return x / (1 + np.abs(x))

    samples = _signed_samples


_IN_PLACE = {"leaky_relu_": leaky_relu, "elu_": elu, "hardtanh_": hardtanh, "threshold_": _THRESHOLD}
for _name, _entry in _IN_PLACE.items():  # torch.nn.functional publishes these four

    def _form(input, *args, _entry=_entry, **kwargs):
        """In-place form of the function without the underscore."""
        return in_place(_entry)(input, *args, **kwargs)

    function(f"nn.functional.{_name}")(_form)

publish(gelu, "nn.functional.gelu")
publish(softplus, "nn.functional.softplus")
publish(logsigmoid, "nn.functional.logsigmoid")
publish(softshrink, "nn.functional.softshrink")
publish(tanhshrink, "nn.functional.tanhshrink")
publish(softsign, "nn.functional.softsign")
