"""Elementwise choices and combinations: maximum, clamp, where, masked_fill, lerp, addcmul and their kin."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..op import Sample, function, op
from ._checked import meta_with, publish
from ._data import t, t2, t3
from .create import scalar_tensor, zeros_like


@op("maximum(input: T, other: T)", kind="pointwise", promote="same")
class maximum:
    """The larger of the two, NaN if one is NaN. Equal entries share the gradient, half each."""

    kernel = np.maximum

    def vjp_input(g, input, other):
        return (g / 2).where(input == other, g).masked_fill(input < other, 0)

    def vjp_other(g, input, other):
        return (g / 2).where(input == other, g).masked_fill(input > other, 0)

    def scalar(b, x, y):
        return b.or_(x, y) if x.dtype is dt.bool_ else b.maximum(x, y)

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
        return b.and_(x, y) if x.dtype is dt.bool_ else b.minimum(x, y)

    ref = np.minimum

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(3, 1), t2(4))


@op("fmax(input: T, other: T)", kind="pointwise", promote="same")
class fmax:
    """The larger of the two; a NaN counts only if both are NaN."""

    kernel = np.fmax

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

    kernel = np.fmin

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


def _refuse_no_bounds(input: Any, low: Any, high: Any) -> None:
    if low is None and high is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")


@op("clamp(input: T, min: Tn? = None, max: Tn? = None)", kind="pointwise", promote="same", inplace=True)
class clamp:
    """input limited to [min, max]; max wins where they cross. RuntimeError when both are None."""

    def kernel(x, low, high):
        if low is not None:
            x = np.maximum(x, low)
        elif high is None:
            raise TypeError("no bounds")  # the meta rule words it
        return x if high is None else np.minimum(x, high)

    meta = meta_with("clamp", _refuse_no_bounds)

    def vjp_input(g, input, min, max):
        inside = None if min is None else input >= min
        if max is not None:
            inside = (input <= max) if inside is None else inside.logical_and(input <= max)
        return g.masked_fill(inside.logical_not(), 0)

    def vjp_min(g, input, min, max):
        used = input < min
        return g.masked_fill((used if max is None else used.logical_and(min < max)).logical_not(), 0)

    def vjp_max(g, input, min, max):
        used = input > max
        return g.masked_fill((used if min is None else used.logical_or(max < min)).logical_not(), 0)

    def scalar(b, x, low, high):
        if low is not None:
            x = b.maximum(x, low)
        return x if high is None else b.minimum(x, high)

    def ref(x, min=None, max=None):
        x = x if min is None else np.maximum(x, min)
        return x if max is None else np.minimum(x, max)

    def samples():
        yield Sample(t(3, 4), -0.5, 0.75)
        yield Sample(t(3, 4), min=0.1)
        yield Sample(t(3, 4), max=0.1)
        yield Sample(t(3, 4), t2(4, low=-2, high=-1), t3(3, 1, low=1, high=2))
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4))

    def errors():
        yield (t(3),), {}, RuntimeError, "At least one"


@function("clip")
def clip(input, min=None, max=None):
    """input limited to [min, max]."""
    return clamp(input, min, max)


@function("clip_")
def clip_(input, min=None, max=None):
    """In-place form of clip."""
    return input.clamp_(min, max)


@function("clamp_min")
def clamp_min(input, min):
    """input, at least min."""
    return clamp(input, min, None)


@function("clamp_max")
def clamp_max(input, max):
    """input, at most max."""
    return clamp(input, None, max)


@function("clamp_min_")
def clamp_min_(input, min):
    """In-place form of clamp_min."""
    return input.clamp_(min, None)


@function("clamp_max_")
def clamp_max_(input, max):
    """In-place form of clamp_max."""
    return input.clamp_(None, max)


def _refuse_condition(condition: Any, *_: Any) -> None:
    if condition.dtype not in (dt.bool_, dt.uint8):
        raise RuntimeError("where expected condition to be a boolean tensor, but got a tensor with dtype "
                           f"{condition.dtype.name}")


@op("where(condition: T, input: Tn, other: Tn)", kind="pointwise", promote="same", function=False, method=False)
class where_op:
    """Elements of input where condition holds, else of other."""

    promote_params = ("input", "other")

    def kernel(c, x, y):
        if c.dtype.kind != "b":
            _refuse_condition_array(c)
        return np.where(c, x, y)

    meta = meta_with("where", _refuse_condition)

    def vjp_input(g, condition):
        return g.masked_fill(condition.logical_not(), 0)

    def vjp_other(g, condition):
        return g.masked_fill(condition, 0)

    def scalar(b, c, x, y):
        return b.where(c, x, y)

    ref = np.where

    def samples():
        yield Sample(t(3, 4, dtype=dt.bool_), t2(3, 4), t3(3, 4))
        yield Sample(t(3, 4, dtype=dt.bool_), t2(4), t3(3, 1))
        yield Sample(t(3, 4, dtype=dt.bool_), t2(3, 4), 0.5)
        yield Sample(t(3, 4, dtype=dt.bool_), 2.5, t2(3, 4))

    def errors():
        yield (t(3), t(3), t(3)), {}, RuntimeError, "boolean tensor"


def _refuse_condition_array(c: np.ndarray) -> None:
    if c.dtype != np.uint8:
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {c.dtype}")


@function("where", method=False)
def where(condition, input=None, other=None):
    """Elements of input where condition holds, else of other; with the condition alone: the indices where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if not hasattr(condition, "_data"):
        raise TypeError(f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}")
    if condition.dtype is dt.uint8:
        condition = condition.bool()
    if not hasattr(input, "_data") and not hasattr(other, "_data"):
        kind = dt.result_type_of([], [dt.number_dtype(input), dt.number_dtype(other)])
        input = scalar_tensor(input, dtype=kind)
    return where_op(condition, input, other)


@function("_where", function=False, names=("where",))
def where_method(input, condition, other):
    """input where condition holds, else other."""
    return where(condition, input, other)


def _refuse_fill(input: Any, mask: Any, value: Any) -> None:
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    if value.ndim:
        raise RuntimeError("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                           f"{value.ndim} dimension(s).")
    if value.dtype.category > input.dtype.category and not value.weak:
        raise RuntimeError(f"value cannot be converted to type {input.dtype.name} without overflow")


@op("masked_fill(input: T, mask: T, value: Tn)", kind="pointwise", promote="same", inplace=True)
class masked_fill:
    """input with value where mask holds; value is a number or a 0-d tensor. The dtype is input's."""

    promote_params = ("input",)

    def kernel(x, mask, value):
        if mask.dtype.kind != "b":
            raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
        if isinstance(value, np.ndarray) and value.ndim:
            raise RuntimeError("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                               f"{value.ndim} dimension(s).")
        return np.where(mask, np.asarray(value).astype(x.dtype), x)

    meta = meta_with("masked_fill", _refuse_fill)

    def vjp_input(g, mask):
        return g.masked_fill(mask, 0)

    def vjp_value(g, mask):
        return g.masked_fill(mask.logical_not(), 0).sum()

    def scalar(b, x, mask, value):
        return b.where(mask, b.cast(value, x.dtype), x)

    def ref(x, mask, value):
        return np.where(mask, np.asarray(value, x.dtype), x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4, dtype=dt.bool_), 0.5)
        yield Sample(t(3, 4), t2(4, dtype=dt.bool_), -math.inf, grad=False)
        yield Sample(t(3, 1), t2(3, 4, dtype=dt.bool_), t3())

    def errors():
        yield (t(3), t(3), 1), {}, RuntimeError, "boolean masks"
        yield (t(3), t(3, dtype=dt.bool_), t(3)), {}, RuntimeError, "0-dimensional"


def _refuse_lerp(input: Any, end: Any, weight: Any) -> None:
    for name, m in (("end", end), ("weight", weight)):
        if m.dtype is not input.dtype and not m.weak and not (name == "weight" and m.ndim == 0):
            raise RuntimeError(f"expected dtype {input.dtype.name} for `{name}` but got dtype {m.dtype.name}")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f'"lerp_kernel" not implemented for \'{input.dtype.name}\'')


def _lerp(x: Any, end: Any, w: Any) -> Any:
    """Exact at both ends: the form that is anchored at the nearer end."""
    d = end - x
    if isinstance(w, (int, float)):
        return x + w * d if abs(w) < 0.5 else end - d * (1 - w)
    return np.where(np.abs(w) < 0.5, x + w * d, end - d * (1 - w))


@op("lerp(input: T, end: T, weight: Tn)", kind="pointwise", promote="same", inplace=True)
class lerp:
    """input + weight * (end - input). RuntimeError when the dtypes differ."""

    promote_params = ("input",)

    def kernel(x, end, w):
        if end.dtype is not x.dtype or x.dtype.kind != "f":
            raise TypeError("dtypes")  # the meta rule words it
        if isinstance(w, np.ndarray) and w.dtype is not x.dtype:
            if w.ndim:
                raise TypeError("dtypes")
            w = w.astype(x.dtype)
        return _lerp(x, end, w)

    meta = meta_with("lerp", _refuse_lerp)

    def vjp_input(g, weight):
        return g * (1 - weight)

    def vjp_end(g, weight):
        return g * weight

    def vjp_weight(g, input, end):
        return g * (end - input)

    def scalar(b, x, end, w):
        d = b.sub(end, x)
        w = b.cast(w, x.dtype)
        near = b.lt(b.abs(w), b.const(0.5, x.dtype))
        return b.where(near, x + w * d, end - d * (1 - w))

    def ref(x, end, w):
        return x + w * (end - x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4), 0.25)
        yield Sample(t(3, 4), t2(4), 0.75)
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4, low=0, high=1))

    def errors():
        yield (t(3), t(3, dtype=dt.int64), 0.5), {}, RuntimeError, "expected dtype"


def _times(x: Any, value: Any) -> Any:
    return x if value == 1 else x * value


@op("addcmul(input: T, tensor1: T, tensor2: T, *, value: num = 1)", kind="pointwise", promote="same", inplace=True)
class addcmul:
    """input + value * tensor1 * tensor2."""

    def kernel(x, a, c, value=1):
        if x.dtype.kind in "iu":
            value = int(value)
        return x + _times(a * c, value)

    def vjp_input(g):
        return g

    def vjp_tensor1(g, tensor2, value):
        return g * (tensor2 * value)

    def vjp_tensor2(g, tensor1, value):
        return g * (tensor1 * value)

    def scalar(b, x, a, c, value=1):
        return x + a * c if value == 1 else x + a * c * b.const(value, x.dtype)

    def ref(x, a, c, value=1):
        return x + value * a * c

    def samples():
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4))
        yield Sample(t(3, 4), t2(3, 1), t3(4), value=-3)


def _refuse_addcdiv(*metas: Any, value: Any = 1) -> None:
    if not any(m.dtype.is_floating_point for m in metas[1:]):
        raise RuntimeError("Integer division with addcdiv is not supported; use floating point tensors, or "
                           "input + value * tensor1 // tensor2")


@op("addcdiv(input: T, tensor1: T, tensor2: T, *, value: num = 1)", kind="pointwise", promote="same", inplace=True)
class addcdiv:
    """input + value * tensor1 / tensor2. RuntimeError when the quotient is of integers."""

    def kernel(x, a, c, value=1):
        if x.dtype.kind != "f":
            raise TypeError("integer division")  # the meta rule words it
        return x + _times(a, value) / c

    meta = meta_with("addcdiv", _refuse_addcdiv)

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


@op("nan_to_num(input: T, nan: float? = None, posinf: float? = None, neginf: float? = None)", kind="pointwise",
    promote="same", inplace=True)
class nan_to_num:
    """input with NaN replaced by nan (0), and infinities by posinf, neginf (the largest finite numbers)."""

    def kernel(x, nan=None, posinf=None, neginf=None):
        if x.dtype.kind != "f":
            return x.copy()
        return np.nan_to_num(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)

    def vjp(g, input):
        return g.masked_fill(input.isfinite().logical_not(), 0)

    def scalar(b, x, nan=None, posinf=None, neginf=None):
        if not x.dtype.is_floating_point:
            return x
        big = float(np.finfo(x.dtype.np).max)
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

    kernel = np.hypot

    def vjp_input(g, input, out):
        return g * (input / out)

    def vjp_other(g, other, out):
        return g * (other / out)

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

    kernel = np.logaddexp

    def vjp_input(g, input, out):
        return g * (input - out).masked_fill(input == out, 0).exp()

    def vjp_other(g, other, out):
        return g * (other - out).masked_fill(other == out, 0).exp()

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

    kernel = np.logaddexp2

    def vjp_input(g, input, out):
        return g * (input - out).masked_fill(input == out, 0).exp2()

    def vjp_other(g, other, out):
        return g * (other - out).masked_fill(other == out, 0).exp2()

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
    """0 below zero, values at zero, 1 above."""

    nondiff = True
    kernel = np.heaviside

    def meta(input, values):
        if input.dtype is not values.dtype:
            raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
        return meta_with("heaviside")(input, values)

    ref = np.heaviside

    def samples():
        yield Sample(t(3, 4), t2(3, 4))


@op("ldexp(input: T, other: T)", kind="pointwise", promote="float", inplace=True)
class ldexp:
    """input * 2^other."""

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
