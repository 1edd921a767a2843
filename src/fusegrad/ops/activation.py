"""Activation functions: relu and its relatives, gelu, silu, softplus..., all elementwise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..op import TABLE, Op, Sample, function, op
from . import special_kernels as sk
from ._blocked import pick
from ._checked import in_place, meta_with, publish
from ._data import t, t2
from ._eager import GELU, SILU, TANH_GELU, array_grad, plain_grad
from ._native import elementwise, scalar_kernel, several
from ._small import Small
from .create import zeros_like

_F32 = dt.float32.np
_ZERO = np.zeros((), np.float32)  # numpy takes twice as long to combine an array with a Python number


def _signed() -> tuple:
    """Numbers of both signs, positive ones, negative ones."""
    return t(3, 4), t(3, 4, low=0.1, high=4), t(3, 4, low=-4, high=-0.1)


def _signed_samples():
    for x in _signed():
        yield Sample(x)


def _act(entry: Op, input: Any, inplace: bool, *attrs: Any) -> Any:
    """The operator, or its in-place form."""
    return in_place(entry)(input, *attrs) if inplace else entry(input, *attrs)


def _own_memory(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """An expanded ``g`` in the layout of ``x``: numpy's products of it would be in C order, which then counts."""
    if g.shape != x.shape or 0 not in g.strides:
        return g
    out = np.empty_like(x, g.dtype)
    np.copyto(out, g)
    return out


def publish_in_place(name: str, entry: Op) -> None:
    """torch.nn.functional has a few in-place functions of its own."""

    def form(input, *args, **kwargs):
        """In-place form of the function without the underscore."""
        return in_place(entry)(input, *args, **kwargs)

    function(f"nn.functional.{name}(input: T)")(form)


def _refuse_bool(m: Any) -> None:
    if m.dtype is dt.bool_:
        raise RuntimeError("Boolean inputs not supported for relu")


_MANY = 512  # elements from which a loop is quicker than numpy's maximum with one number
_RELU = scalar_kernel("relu of many", lambda b, x: TABLE["relu"].scalar(b, x), "x")


def _relu_of_many(x: np.ndarray, out: np.ndarray) -> bool:
    """Write relu(x) into ``out`` in machine code; whether that was done."""
    d = x.dtype
    if d.char not in "fd" or not x.flags.c_contiguous or out.dtype is not d or not out.flags.c_contiguous:
        return False
    if (f := _RELU[d]) is None or not out.flags.writeable:
        return False
    f(x, out, out.size)
    return True


@op("relu(input: T)", kind="pointwise", promote="same", inplace=True)
class relu:
    """max(input, 0). RuntimeError for bool."""

    def kernel(x):
        if x.size >= _MANY and type(x) is np.ndarray and _relu_of_many(x, out := np.empty_like(x)):
            return out
        if x.dtype is _F32:
            return np.maximum(_ZERO, x)  # of equal ones (-0.0) it gives the second
        if x.dtype.kind == "b":
            raise TypeError("bool")  # the meta rule words it
        return np.maximum(x, 0) if x.dtype.char == "e" else np.maximum(0, x)  # of float16 the first

    def kernel_out(x, out):
        if x is out and x.size >= _MANY and _relu_of_many(x, out):
            return out
        return np.maximum(x, 0, out=out) if x.dtype.char == "e" else np.maximum(0, x, out=out)

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


@function("nn.functional.relu(input: T)", direct=True)
def f_relu(input, inplace=False):
    """max(input, 0)."""
    return _act(relu, input, inplace)


@function("nn.functional.relu_(input: T)")
def f_relu_(input):
    """In-place relu."""
    return in_place(relu)(input)


@op(
    "leaky_relu(input: T, negative_slope: num = 0.01)",
    kind="pointwise",
    promote="same",
    inplace=True,
    method=False,
    function=False,
)
class leaky_relu:
    """input, times negative_slope where it is negative."""

    accepts = "float"

    @elementwise("leaky_relu", "negative_slope")
    def kernel(x, negative_slope=0.01):
        if 0 <= negative_slope <= 1:
            return np.maximum(x, x * negative_slope)
        return np.where(np.greater(x, 0), x, x * negative_slope)

    def kernel_out(x, negative_slope, out):
        if not x.flags.writeable or type(negative_slope) is not float and type(negative_slope) is not int:
            return NotImplemented
        return leaky_relu.kernel.over(x, negative_slope)

    def vjp(g, input, negative_slope):
        return leaky_relu_backward(g, input, negative_slope)

    def scalar(b, x, negative_slope=0.01):
        return b.where(b.gt(x, b.const(0, x.dtype)), x, b.mul(x, b.const(negative_slope, x.dtype)))

    def ref(x, negative_slope=0.01):
        return np.where(x > 0, x, x * negative_slope)

    def samples():
        yield Sample(_signed()[0], 0.2)
        yield Sample(_signed()[2])


@op(
    "leaky_relu_backward(grad: T, input: T, negative_slope: num)",
    kind="pointwise",
    promote="same",
    method=False,
    function=False,
)
class leaky_relu_backward:
    """g where input is positive, else g * negative_slope."""

    def kernel(g, x, negative_slope):
        g = _own_memory(g, x)
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


@function("nn.functional.leaky_relu(input: T, negative_slope: num)")
def f_leaky_relu(input, negative_slope=0.01, inplace=False):
    """input, times negative_slope where it is negative."""
    return _act(leaky_relu, input, inplace, negative_slope)


@op("prelu_backward(grad: T, input: T, weight: T)", kind="pointwise", promote="same", method=False, function=False)
class prelu_backward:
    """g where input is positive, else g * weight."""

    @several("prelu_backward", "g x w")
    def kernel(g, x, w):
        g = _own_memory(g, x)
        return np.where(np.greater(x, 0), g, g * w)

    def vjp_grad(g, input, weight):
        return prelu_backward(g, input, weight)

    def vjp_input(g):
        return zeros_like(g)

    def vjp_weight(g, grad, input):
        return (g * grad).masked_fill(input >= 0, 0)

    def scalar(b, g, x, w):
        return b.where(b.gt(x, b.const(0, x.dtype)), g, b.mul(g, w))

    def ref(g, x, w):
        return np.where(x > 0, g, g * w)

    def samples():
        yield Sample(t2(3, 4), t(3, 4), t(4))


def _prelu_rule(b: Any, x: Any, w: Any) -> Any:
    return TABLE["prelu_elementwise"].scalar(b, x, w)


_FEW = Small(scalar_kernel("prelu of few", _prelu_rule, "x w"), 2)
_ONE = Small(scalar_kernel("prelu of one weight", _prelu_rule, "x", "w"), 1, 1)


@op("prelu_elementwise(input: T, weight: T)", kind="pointwise", promote="same", method=False, function=False)
class prelu_op:
    """input, times weight (broadcast) where it is negative."""

    @several("prelu_elementwise", "x w")
    def kernel(x, w):
        if (r := _ONE((x,), (w.item(),)) if w.size == 1 and w.ndim <= x.ndim else _FEW((x, w))) is not None:
            return r
        return np.where(np.greater(x, 0), x, x * w)

    def vjp_input(g, input, weight):
        return prelu_backward(g, input, weight)

    def vjp_weight(g, input):
        return (g * input).masked_fill(input >= 0, 0)

    def scalar(b, x, w):
        return b.where(b.gt(x, b.const(0, x.dtype)), x, b.mul(x, w))

    def ref(x, w):
        return np.where(x > 0, x, x * w)

    def samples():
        yield Sample(_signed()[0], t(4))
        yield Sample(_signed()[0], t(1))


@function("nn.functional.prelu(input: T, weight: T)", names=("prelu",))
def prelu(input, weight):
    """input, times weight where it is negative; weight has one element, or one for each channel (dimension 1)."""
    if (w := weight._data) is not None and w.shape == (1,) and (x := input._data) is not None and x.dtype is w.dtype:
        return _prelu(input, weight if x.ndim == 1 else weight.reshape((1,) * x.ndim))
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
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers "
                f"= {n} and channel size = {channels}."
            )
        if input.ndim > 1:
            weight = weight.reshape(1, n, *(1,) * (input.ndim - 2))
    elif weight.ndim == 1:
        weight = weight.reshape(())
    return prelu_op(input, weight)


_prelu = prelu_op.fn


def _cdf(x: Any) -> Any:
    return sk.normal_cdf(x)


def _cdf_scalar(b: Any, x: Any) -> Any:
    """As special_kernels.normal_cdf; in float32 with the rounding error of x^2 put back."""
    c = lambda v: b.const(v, x.dtype)
    if x.dtype is not dt.float32:
        return b.mul(b.erfc(b.mul(x, c(-math.sqrt(0.5)))), c(0.5))
    a = b.abs(x)
    a = b.where(b.gt(a, c(sk.CDF_END)), c(sk.CDF_END), a)
    r = b.div(c(1), b.add(a, c(3)))
    t = b.mul(b.sub(a, c(3)), r)
    p = c(sk.CDF32[-1])
    for k in sk.CDF32[-2::-1]:
        p = b.fma(p, t, c(k))
    e = b.exp(b.mul(b.mul(x, x), c(-0.5)))
    low = b.mul(b.fma(a, a, b.neg(b.mul(a, a))), c(-0.5))
    far = b.mul(b.mul(p, r), b.fma(e, low, e))
    return b.where(b.ge(x, c(0)), b.sub(c(1), far), far)


@op("normal_cdf(input: T)", kind="pointwise", promote="float", method=False, function=False)
class normal_cdf:
    """Distribution function of the standard normal to a few ulp: what gelu and its derivative multiply by."""

    kernel = elementwise("normal_cdf")(sk.normal_cdf)

    def vjp(g, input):
        return g * ((input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi)))

    def scalar(b, x):
        return _cdf_scalar(b, x)

    def ref(x):
        return 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-x * math.sqrt(0.5))

    def samples():
        yield Sample(t(3, 4))


@op("gelu(input: T, *, approximate: str = 'none')", kind="pointwise", promote="same", method=False, function=False)
class gelu:
    """input times the normal distribution function, or its "tanh" approximation."""

    accepts = "float"

    @elementwise("gelu", approximate=("none", "tanh"))
    def kernel(x, approximate="none"):
        if approximate == "none":
            return x * _cdf(x)
        if approximate != "tanh":
            raise RuntimeError("approximate argument must be either none or tanh.")
        th = x * x
        th *= _GELU_A * _GELU_B
        th += _GELU_A
        th *= x
        th = np.tanh(th)
        th += 1
        th *= x
        th *= 0.5
        return th

    def vjp(g, input, approximate):
        if (found := plain_grad(GELU if approximate == "none" else TANH_GELU, g, input)) is not None:
            return found
        if approximate == "none":
            cdf = normal_cdf(input)
            pdf = (input * input * -0.5).exp() * (1 / math.sqrt(2 * math.pi))
            return g * (cdf + input * pdf)
        # tanh is exactly 1 from 8 on, and a power that overflows would give 0 * inf; a NaN stays one
        x = input.masked_fill(input > 8.0, 8.0).masked_fill(input < -8.0, -8.0)
        th = (_GELU_A * (x + _GELU_B * (x * x * x))).tanh()
        inner = _GELU_A * (1 + 3 * _GELU_B * (x * x))
        return g * (0.5 * (1 + th) + 0.5 * x * (1 - th * th) * inner)

    def on_arrays(g, input, approximate):
        return array_grad(GELU if approximate == "none" else TANH_GELU, g, input)

    def scalar(b, x, approximate="none"):
        c = lambda v: b.const(v, x.dtype)
        if approximate == "none":
            return b.gelu(x)
        half = b.mul(x, c(0.5))
        inner = b.mul(c(_GELU_A), b.add(x, b.mul(c(_GELU_B), b.mul(b.mul(x, x), x))))
        return b.mul(half, b.add(c(1), b.tanh(inner)))

    def ref(x, approximate="none"):
        if approximate == "tanh":
            return 0.5 * x * (1 + np.tanh(_GELU_A * (x + _GELU_B * x**3)))
        return x * 0.5 * np.vectorize(math.erfc, otypes=[np.float64])(-x * math.sqrt(0.5))

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(3, 4), approximate="tanh")

    def errors():
        yield (t(3),), {"approximate": "other"}, RuntimeError, "either none or tanh"


_GELU_A, _GELU_B = math.sqrt(2 / math.pi), 0.044715


@op("silu(input: T)", kind="pointwise", promote="same", inplace=True, method=False, function=False)
class silu:
    """input * sigmoid(input)."""

    accepts = "float"

    @elementwise("silu")
    def kernel(x):
        from .pointwise_math import sigmoid

        return x * sigmoid.kernel(x)

    def on_arrays(g, input):
        return array_grad(SILU, g, input)

    def vjp(g, input):
        if (found := plain_grad(SILU, g, input)) is not None:
            return found
        s = input.sigmoid()
        return g * (s * (1 + input * (1 - s)))

    def scalar(b, x):
        return b.mul(x, b.sigmoid(x))

    def ref(x):
        return x / (1 + np.exp(-x))

    samples = _signed_samples


@function("nn.functional.silu(input: T)", names=("nn.functional.swish",), direct=True)
def f_silu(input, inplace=False):
    """input * sigmoid(input)."""
    return _act(silu, input, inplace)


def _softplus_np(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


@op("mish(input: T)", kind="pointwise", promote="same", inplace=True, method=False, function=False)
class mish:
    """input * tanh(softplus(input))."""

    accepts = "float"

    @elementwise("mish")
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


@function("nn.functional.mish(input: T)")
def f_mish(input, inplace=False):
    """input * tanh(softplus(input))."""
    return _act(mish, input, inplace)


def _softplus_b(b: Any, x: Any) -> Any:
    return b.add(b.maximum(x, b.const(0, x.dtype)), b.log1p(b.exp(b.neg(b.abs(x)))))


@op(
    "softplus(input: T, beta: num = 1.0, threshold: num = 20.0)",
    kind="pointwise",
    promote="same",
    method=False,
    function=False,
)
class softplus:
    """log(1 + exp(beta * input)) / beta; input itself where beta * input > threshold."""

    accepts = "float"

    @elementwise("softplus", "beta", "threshold")
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


@op("logsigmoid(input: T)", kind="pointwise", promote="same", method=False, function=False)
class logsigmoid:
    """log(sigmoid(input)) without overflow."""

    accepts = "float"

    @elementwise("logsigmoid")
    def kernel(x):
        return -_softplus_np(-x)

    def vjp(g, input):
        return g * (-input).sigmoid()

    def scalar(b, x):
        return b.neg(_softplus_b(b, b.neg(x)))

    def ref(x):
        return -np.log1p(np.exp(-x))

    samples = _signed_samples


@op("tanhshrink(input: T)", kind="pointwise", promote="float", method=False, function=False)
class tanhshrink:
    """input - tanh(input)."""

    @elementwise("tanhshrink")
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

    @elementwise("softsign")
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


publish(gelu, "nn.functional.gelu")
publish(softplus, "nn.functional.softplus")
publish(logsigmoid, "nn.functional.logsigmoid")
publish(tanhshrink, "nn.functional.tanhshrink")
publish(softsign, "nn.functional.softsign")
publish_in_place("leaky_relu_", leaky_relu)
