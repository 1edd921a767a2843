"""Elementwise combinations: maximum, lerp, addcmul, hypot, logaddexp and their kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta, broadcast_shapes
from ..op import TABLE, Inline, Sample, function, op
from ._blocked import converted, rounded_once
from ._checked import in_place, meta_with, publish
from ._data import t, t2, t3
from ._native import scalar_kernel, several
from ._small import Small
from .create import zeros_like


def _larger(b: Any, x: Any, y: Any) -> Any:
    """Of 0.0 and -0.0 the one that numpy gives: the second, of halves the first."""
    return b.maximum(x, y) if b.rounded is dt.float16 else b.maximum(y, x)


def _smaller(b: Any, x: Any, y: Any) -> Any:
    return b.minimum(x, y) if b.rounded is dt.float16 else b.minimum(y, x)


def _first_zero(ufunc: Any) -> Any:
    """fmax or fmin, of 0.0 and -0.0 the first: numpy's answer depends on how long the arrays are."""

    def kernel(x, y):
        out = ufunc(x, y)
        if out.dtype.kind != "f" or (nonzero := out != 0).all():
            return out
        return np.where(nonzero | (x != 0), out, x).astype(out.dtype, copy=False)

    return kernel


@op("maximum(input: T, other: T)", kind="pointwise", promote="same")
class maximum:
    """The larger of the two, NaN if one is NaN. Equal entries share the gradient, half each."""

    kernel = np.maximum

    def vjp_input(g, input, other):
        return (g / 2).where(input == other, g).masked_fill(input < other, 0)

    def vjp_other(g, input, other):
        return (g / 2).where(input == other, g).masked_fill(input > other, 0)

    def scalar(b, x, y):
        return b.or_(x, y) if x.dtype is dt.bool_ else _larger(b, x, y)

    ref = np.maximum

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(3, 1), t2(4))


@op("minimum(input: T, other: T)", kind="pointwise", promote="same")
class minimum:
    """The smaller of the two, NaN if one is NaN. Equal entries share the gradient, half each."""

    kernel = np.minimum

    def vjp_input(g, input, other):
        return (g / 2).where(input == other, g).masked_fill(input > other, 0)

    def vjp_other(g, input, other):
        return (g / 2).where(input == other, g).masked_fill(input < other, 0)

    def scalar(b, x, y):
        return b.and_(x, y) if x.dtype is dt.bool_ else _smaller(b, x, y)

    ref = np.minimum

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(3, 1), t2(4))


@op("fmax(input: T, other: T)", kind="pointwise", promote="same")
class fmax:
    """The larger of the two; a NaN counts only if both are NaN."""

    kernel = _first_zero(np.fmax)

    def vjp_input(g, input, other):
        return g.masked_fill((input >= other).logical_or(other.isnan()).logical_not(), 0)

    def vjp_other(g, input, other):
        return g.masked_fill((input >= other).logical_or(other.isnan()), 0)

    def scalar(b, x, y):
        if not x.dtype.is_floating_point:
            return maximum.scalar(b, x, y)
        return b.where(b.isnan(x), y, b.where(b.isnan(y), x, b.maximum(x, y)))

    ref = np.fmax

    def samples():
        yield Sample(t(3, 4), t2(3, 4))


@op("fmin(input: T, other: T)", kind="pointwise", promote="same")
class fmin:
    """The smaller of the two; a NaN counts only if both are NaN."""

    kernel = _first_zero(np.fmin)

    def vjp_input(g, input, other):
        return g.masked_fill((input <= other).logical_or(other.isnan()).logical_not(), 0)

    def vjp_other(g, input, other):
        return g.masked_fill((input <= other).logical_or(other.isnan()), 0)

    def scalar(b, x, y):
        if not x.dtype.is_floating_point:
            return minimum.scalar(b, x, y)
        return b.where(b.isnan(x), y, b.where(b.isnan(y), x, b.minimum(x, y)))

    ref = np.fmin

    def samples():
        yield Sample(t(3, 4), t2(3, 4))


def _refuse_lerp(input: Any, end: Any, weight: Any = None) -> None:
    for name, m in (("end", end), ("weight", weight)):
        if isinstance(m, Meta) and m.dtype is not input.dtype and not m.weak and not (name == "weight" and m.ndim == 0):
            raise RuntimeError(f"expected dtype {input.dtype.name} for `{name}` but got dtype {m.dtype.name}")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"lerp_kernel\" not implemented for '{input.dtype.name}'")


def _lerp_meta(input: Any, end: Any, weight: Any = None) -> Meta:
    _refuse_lerp(input, end, weight)
    metas = [m for m in (input, end, weight) if isinstance(m, Meta) and not m.weak]
    shape = broadcast_shapes(*(m.shape for m in metas))
    from ..layout import elementwise_strides

    return Meta(shape, input.dtype, elementwise_strides(shape, metas))


def _lerp_operands(x: np.ndarray, end: np.ndarray) -> None:
    if end.dtype is not x.dtype or x.dtype.kind != "f":
        raise TypeError("dtypes")  # the meta rule words it


_NEAR = Small(scalar_kernel("lerp near", lambda b, x, e, w: b.add(x, b.mul(w, b.sub(e, x))), "x e", "w"), 2, 1)
_FAR = Small(scalar_kernel("lerp far", lambda b, x, e, w: b.sub(e, b.mul(b.sub(e, x), w)), "x e", "w"), 2, 1)
_BY_TENSOR = Small(scalar_kernel("lerp tensor", lambda b, *x: TABLE["lerp_tensor"].scalar(b, *x), "x e w"), 3)


def _lerp_over(x, end, weight):
    return _NEAR.over((x, end), (weight,)) if abs(weight) < 0.5 else _FAR.over((x, end), (1 - weight,))


def _lerp_out(x, end, weight, out):
    if abs(weight) >= 0.5 or end.shape != x.shape:
        return NotImplemented
    with np.errstate(all="ignore"):  # what is raised on the way would leave ``out`` as it was
        d = end - x
        d *= weight
        return np.add(x, d, out=out)


@rounded_once
def _between(x, end, weight):
    _lerp_operands(x, end)
    d = end - x
    return x + weight * d if abs(weight) < 0.5 else end - d * (1 - weight)


@op("lerp(input: T, end: T, weight: num)", kind="pointwise", inplace=True, method=False, function=False)
class lerp:
    """input + weight * (end - input), written from the nearer end so that it is exact at both."""

    kernel_out = _lerp_out
    over = _lerp_over
    meta = _lerp_meta

    def kernel(x, end, weight):
        near = abs(weight) < 0.5
        r = (_NEAR if near else _FAR)((x, end), (weight if near else 1 - weight,))
        return _between(x, end, weight) if r is None else r

    def vjp_input(g, weight):
        return g * (1 - weight)

    def vjp_end(g, weight):
        return g * weight

    def scalar(b, x, end, weight):
        d, w = b.sub(end, x), (lambda v: b.const(v, x.dtype))
        return b.add(x, b.mul(w(weight), d)) if abs(weight) < 0.5 else b.sub(end, b.mul(d, w(1 - weight)))

    def ref(x, end, weight):
        return x + weight * (end - x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4), 0.25)
        yield Sample(t(3, 4), t2(4), 0.75)

    def errors():
        yield (t(3), t(3, dtype=dt.int64), 0.5), {}, RuntimeError, "expected dtype"


@op("lerp_tensor(input: T, end: T, weight: T)", kind="pointwise", inplace=True, method=False, function=False)
class lerp_tensor:
    """input + weight * (end - input), each element from its nearer end."""

    meta = _lerp_meta

    @rounded_once
    def kernel(x, end, w):
        _lerp_operands(x, end)
        if w.dtype is not x.dtype:
            if w.ndim:
                raise TypeError("dtypes")
            w = w.astype(x.dtype)
        if (r := _BY_TENSOR((x, end, w))) is not None:
            return r
        d = end - x
        return np.where(np.abs(w) < 0.5, x + w * d, end - d * (1 - w))

    def vjp_input(g, weight):
        return g * (1 - weight)

    def vjp_end(g, weight):
        return g * weight

    def vjp_weight(g, input, end):
        return g * (end - input)

    def scalar(b, x, end, w):
        d, w = b.sub(end, x), b.cast(w, x.dtype)
        near = b.lt(b.abs(w), b.const(0.5, x.dtype))
        return b.where(near, x + w * d, end - d * (1 - w))

    def ref(x, end, w):
        return x + w * (end - x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4, low=0, high=1))
        yield Sample(t(3, 4), t2(4), t3(low=0, high=1))


@function(
    "lerp(input: T, end: T, weight: Tn)",
    inline=Inline(lerp, "type(weight) is float and a0.dtype is a1.dtype and a0.dtype.char in 'fd'"),
)
def lerp_fn(input, end, weight):
    """input + weight * (end - input); weight is a number or a tensor. RuntimeError when the dtypes differ."""
    return (lerp_tensor if hasattr(weight, "_data") else lerp)(input, end, weight)


@function("lerp_(input: T, end: T, weight: Tn)", function=False)
def lerp_(input, end, weight):
    """In-place form of lerp."""
    return in_place(lerp_tensor if hasattr(weight, "_data") else lerp)(input, end, weight)


def _times(x: Any, value: Any) -> Any:
    return x if value == 1 else x * value


def _inner_first(name: str, refuse: Any = None) -> Any:
    """The meta rule of input + (tensor1 . tensor2): laid out as a sum of input and what the two make."""
    rule = meta_with(name, refuse)

    def meta(input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Meta:
        from ..layout import elementwise_strides

        m = rule(input, tensor1, tensor2, value=value)
        dt.element(value, m.dtype)
        shape = broadcast_shapes(tensor1.shape, tensor2.shape)
        inner = Meta(shape, m.dtype, elementwise_strides(shape, [tensor1, tensor2]))
        return Meta(m.shape, m.dtype, elementwise_strides(m.shape, [input, inner]))

    return meta


_PRODUCT = Small(scalar_kernel("addcmul of few", lambda b, x, a, c, v: x + a * c * v, "x a c", "v"), 3, 1)
_QUOTIENT = Small(scalar_kernel("addcdiv of few", lambda b, x, a, c, v: x + b.div(a * v, c), "x a c", "v"), 3, 1)


@rounded_once
def _add_product(x, a, c, value=1):
    return x + _times(a * c, x.dtype.type(dt.element(value, dt.FROM_NUMPY[x.dtype])))


@rounded_once
def _add_quotient(x, a, c, value=1):
    if x.dtype.kind != "f":
        raise TypeError("integer division")  # the meta rule words it
    return x + _times(a, value) / c


@op("addcmul(input: T, tensor1: T, tensor2: T, *, value: num = 1)", kind="pointwise", promote="same", inplace=True)
class addcmul:
    """input + value * tensor1 * tensor2."""

    accepts = "number"

    def over(x, a, c, value):
        return _PRODUCT.over((x, a, c), (value,))

    def kernel(x, a, c, value=1):
        return r if (r := _PRODUCT((x, a, c), (value,))) is not None else _add_product(x, a, c, value)

    meta = _inner_first("addcmul")

    def vjp_input(g):
        return g

    def vjp_tensor1(g, tensor2, value):
        return g * (tensor2 * value)

    def vjp_tensor2(g, tensor1, value):
        return g * (tensor1 * value)

    def scalar(b, x, a, c, value=1):
        return x + a * c if value == 1 else x + a * c * b.const(dt.element(value, x.dtype), x.dtype)

    def ref(x, a, c, value=1):
        return x + value * a * c

    def samples():
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4))
        yield Sample(t(3, 4), t2(3, 1), t3(4), value=-3)


def _refuse_addcdiv(*metas: Any, value: Any = 1) -> None:
    if not any(m.dtype.is_floating_point for m in metas[1:]):
        raise RuntimeError(
            "Integer division with addcdiv is not supported; use floating point tensors, or "
            "input + value * tensor1 // tensor2"
        )


@op("addcdiv(input: T, tensor1: T, tensor2: T, *, value: num = 1)", kind="pointwise", promote="same", inplace=True)
class addcdiv:
    """input + value * tensor1 / tensor2. RuntimeError when the quotient is of integers."""

    refuse_mixed = _refuse_addcdiv

    def over(x, a, c, value):
        return _QUOTIENT.over((x, a, c), (value,))

    def kernel(x, a, c, value=1):
        return r if (r := _QUOTIENT((x, a, c), (value,))) is not None else _add_quotient(x, a, c, value)

    meta = _inner_first("addcdiv", _refuse_addcdiv)

    def vjp_input(g):
        return g

    def vjp_tensor1(g, tensor2, value):
        return g * (value / tensor2)

    def vjp_tensor2(g, tensor1, tensor2, value):
        return -g * (value * tensor1 / (tensor2 * tensor2))

    def scalar(b, x, a, c, value=1):
        return x + b.div(a, c) if value == 1 else x + b.div(a * b.const(value, x.dtype), c)

    def ref(x, a, c, value=1):
        return x + value * a / c

    def samples():
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4, low=0.5, high=2))
        yield Sample(t(3, 4), t2(3, 1), t3(4, low=0.5, high=2), value=-3)

    def errors():
        i = dt.int64
        yield (t(3, dtype=i), t(3, dtype=i), t(3, dtype=i)), {}, RuntimeError, "addcdiv"


@op(
    "nan_to_num(input: T, nan: float? = None, posinf: float? = None, neginf: float? = None)",
    kind="pointwise",
    promote="same",
    inplace=True,
)
class nan_to_num:
    """input with NaN replaced by nan (0), and infinities by posinf, neginf (the largest finite numbers)."""

    def kernel(x, nan=None, posinf=None, neginf=None):
        out = converted(x, x.dtype)
        if x.dtype.kind != "f" or np.isfinite(out).all():
            return out
        return np.nan_to_num(out, copy=False, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)

    def vjp(g, input):
        return g.masked_fill(input.isfinite().logical_not(), 0)

    def scalar(b, x, nan=None, posinf=None, neginf=None):
        if not x.dtype.is_floating_point:
            return x
        big = float(np.finfo((b.rounded or x.dtype).np).max)
        c = lambda v, default: b.const(default if v is None else v, x.dtype)
        up = b.where(b.eq(x, b.const(math.inf, x.dtype)), c(posinf, big), x)
        down = b.where(b.eq(x, b.const(-math.inf, x.dtype)), c(neginf, -big), up)
        return b.where(b.isnan(x), c(nan, 0.0), down)

    def ref(x, nan=None, posinf=None, neginf=None):
        return np.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(np.array([np.nan, np.inf, -np.inf, 1.5], np.float32), nan=7.0, posinf=8.0, neginf=9.0, grad=False)


@op("hypot(input: T, other: T)", kind="pointwise", promote="same", inplace=True)
class hypot:
    """sqrt(input^2 + other^2) without overflow on the way."""

    accepts = "float"

    kernel = several("hypot", "x y")(np.hypot)

    def vjp_input(g, input, out):
        return g * (input / out)

    def vjp_other(g, other, out):
        return g * (other / out)

    def scalar(b, x, y):
        x, y = b.abs(x), b.abs(y)
        big, small = b.maximum(x, y), b.minimum(x, y)
        r = b.div(small, big)
        length = b.mul(big, b.sqrt(b.add(b.mul(r, r), b.const(1, x.dtype))))
        inf = b.const(math.inf, x.dtype)
        zero = b.eq(big, b.const(0, x.dtype))
        endless = b.or_(b.eq(x, inf), b.eq(y, inf))  # also beside NaN
        return b.where(endless, inf, b.where(zero, big, length))

    ref = np.hypot

    def samples():
        yield Sample(t(3, 4, low=0.2, high=2), t2(3, 4, low=0.2, high=2))
        yield Sample(t(3, 1, low=0.2, high=2), t2(4, low=-2, high=-0.2))


@op("copysign(input: T, other: Tn)", kind="pointwise", promote="float", inplace=True)
class copysign:
    """|input| with the sign of other (of -0.0 too)."""

    kernel = np.copysign

    def vjp_input(g, input, out):
        ratio = (out / input).masked_fill(input == 0, 0)
        return g * ratio

    def vjp_other(g, other):
        return zeros_like(g)

    ref = np.copysign

    def samples():
        yield Sample(t(3, 4, low=0.2, high=2), t2(3, 4))
        yield Sample(t(3, 4, low=0.2, high=2), -1.0)


@op("logaddexp(input: T, other: T)", kind="pointwise", promote="same")
class logaddexp:
    """log(exp(input) + exp(other)) without overflow."""

    accepts = "float"

    kernel = several("logaddexp", "x y")(np.logaddexp)

    def vjp_input(g, input, other):
        return g * (input - other).sigmoid()

    def vjp_other(g, input, other):
        return g * (other - input).sigmoid()

    def scalar(b, x, y):
        big, small = b.maximum(x, y), b.minimum(x, y)
        same = b.eq(x, y)  # also two equal infinities
        inside = b.where(same, b.const(0, x.dtype), b.sub(small, big))
        return b.add(big, b.log1p(b.exp(inside)))

    ref = np.logaddexp

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(3, 1), t2(4))


@op("logaddexp2(input: T, other: T)", kind="pointwise", promote="same")
class logaddexp2:
    """log2(2^input + 2^other) without overflow."""

    accepts = "float"

    kernel = several("logaddexp2", "x y")(np.logaddexp2)

    def vjp_input(g, input, other):
        return g * ((input - other) * math.log(2)).sigmoid()

    def vjp_other(g, input, other):
        return g * ((other - input) * math.log(2)).sigmoid()

    def scalar(b, x, y):
        big, small = b.maximum(x, y), b.minimum(x, y)
        inside = b.where(b.eq(x, y), b.const(0, x.dtype), b.sub(small, big))
        return b.add(big, b.mul(b.log1p(b.exp2(inside)), b.const(1 / math.log(2), x.dtype)))

    ref = np.logaddexp2

    def samples():
        yield Sample(t(3, 4), t2(3, 4))


def _xlog(f: Any, x: Any, y: Any) -> Any:
    if not isinstance(y, (np.ndarray, np.generic)):
        y = x.dtype.type(y)
    r = x * f(y)
    return np.where(np.isnan(y), y, np.where(np.equal(x, 0), 0, r)).astype(np.asarray(r).dtype, copy=False)


@op("xlogy(input: Tn, other: Tn)", kind="pointwise", promote="float", inplace=True, names=("special.xlogy",))
class xlogy:
    """input * log(other), 0 where input is 0."""

    @rounded_once
    def kernel(x, y):
        return _xlog(np.log, x, y)

    def vjp_input(g, input, other):
        return _without_zeros(g * (other.log() if hasattr(other, "_data") else _log(other)), input, other <= 0)

    def vjp_other(g, input, other):
        return g * (input / other)

    def scalar(b, x, y):
        zero = b.const(0, y.dtype)
        return b.where(b.isnan(y), y, b.where(b.eq(x, zero), zero, b.mul(x, b.log(y))))

    def ref(x, y):
        return x * np.log(y)

    def samples():
        yield Sample(t(3, 4), t2(3, 4, low=0.2, high=3))
        yield Sample(2.0, t(3, 4, low=0.2, high=3))
        yield Sample(t(3, 4), 2.0)


def _without_zeros(grad: Any, input: Any, pole: Any) -> Any:
    """grad, but 0 where input is 0 at a pole of the logarithm."""
    if isinstance(pole, bool):
        return grad.masked_fill(input == 0, 0) if pole else grad
    return grad.masked_fill((input == 0).logical_and(pole), 0)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


@op("xlog1py(input: Tn, other: Tn)", kind="pointwise", promote="float", function=False, method=False)
class xlog1py:
    """input * log1p(other), 0 where input is 0."""

    @rounded_once
    def kernel(x, y):
        return _xlog(np.log1p, x, y)

    def vjp_input(g, input, other):
        log = other.log1p() if hasattr(other, "_data") else _log(1 + other)
        return _without_zeros(g * log, input, other <= -1)

    def vjp_other(g, input, other):
        return g * (input / (other + 1))

    def ref(x, y):
        return x * np.log1p(y)

    def samples():
        yield Sample(t(3, 4), t2(3, 4, low=-0.5, high=3))


publish(xlog1py, "special.xlog1py")


@op("heaviside(input: T, values: T)", kind="pointwise", promote="same", inplace=True)
class heaviside:
    """0 below zero, values at zero, 1 above. RuntimeError where a gradient would go through it, as in PyTorch."""

    def vjp_input(g):
        raise RuntimeError("derivative for aten::heaviside is not implemented: use where() with a gradient of your own")

    def vjp_values(g):
        raise RuntimeError("derivative for aten::heaviside is not implemented: use where() with a gradient of your own")

    def kernel(x, values):
        return np.where(np.equal(x, 0), values, np.greater(x, 0).astype(x.dtype))

    def refuse(input, values):
        if input.dtype is not values.dtype:
            raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")

    def meta(input, values):
        heaviside.fields["refuse"](input, values)
        return meta_with("heaviside")(input, values)

    ref = np.heaviside

    def samples():
        yield Sample(t(3, 4), t2(3, 4), grad=False)


@op("ldexp(input: T, other: T)", kind="pointwise", promote="float", inplace=True)
class ldexp:
    """input * 2^other."""

    @rounded_once
    def kernel(x, y):
        return x * np.exp2(y)

    def vjp_input(g, other):
        return g * other.exp2()

    def vjp_other(g, input, other):
        return g * (input * other.exp2() * math.log(2))

    def scalar(b, x, y):
        return b.mul(x, b.exp2(y))

    def ref(x, y):
        return x * np.exp2(y)

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
