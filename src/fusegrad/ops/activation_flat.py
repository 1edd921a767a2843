"""Activation functions with flat parts: hardtanh, hardswish, threshold, the shrinking ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..op import Sample, function, op
from ._blocked import pick
from ._checked import meta_with, publish
from ._data import t, t2
from ._native import elementwise, scalar_kernel
from ._small import Small
from .activation import _act, publish_in_place
from .create import zeros_like


def _flat(b, g, x, low, high):
    return b.where(b.and_(b.ge(x, low), b.le(x, high)), b.const(0, g.dtype), g)


_FLAT = Small(scalar_kernel("zero between few", _flat, "g x", "low high"), 2, 2)


@op(
    "zero_between(grad: T, input: T, low: num, high: num)",
    kind="pointwise",
    promote="same",
    method=False,
    function=False,
)
class zero_between:
    """g, but 0 where low <= input <= high: the derivative of functions that are flat there."""

    def kernel(g, x, low, high):
        if (found := _FLAT((g, x), (low, high))) is not None:
            return found
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


def _refuse_limits(kind: Any, min_val: Any, max_val: Any) -> None:
    if kind.is_floating_point:
        return
    if kind is dt.uint8 and (int(min_val) < 0 or int(max_val) < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    dt.element(min_val, kind), dt.element(max_val, kind)


@op(
    "hardtanh(input: T, min_val: num = -1.0, max_val: num = 1.0)",
    kind="pointwise",
    promote="same",
    inplace=True,
    method=False,
    function=False,
)
class hardtanh:
    """input limited to [min_val, max_val]."""

    accepts = "number"

    def _refused(x, min_val=-1.0, max_val=1.0):
        _refuse_limits(x.dtype, min_val, max_val)

    meta = meta_with("hardtanh", _refused)

    @elementwise("hardtanh", "min_val", "max_val")
    def kernel(x, min_val=-1.0, max_val=1.0):
        if x.dtype.kind == "b":
            raise RuntimeError("Bool inputs not supported for hardtanh")
        if x.dtype.kind != "f":
            _refuse_limits(dt.FROM_NUMPY[x.dtype], min_val, max_val)
            min_val, max_val = int(min_val), int(max_val)
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


@function("nn.functional.hardtanh(input: T, min_val: num, max_val: num)")
def f_hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """input limited to [min_val, max_val]. ValueError if they cross."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _act(hardtanh, input, inplace, min_val, max_val)


@function("nn.functional.relu6(input: T)")
def f_relu6(input, inplace=False):
    """input limited to [0, 6]."""
    return _act(hardtanh, input, inplace, 0.0, 6.0)


@op("hardsigmoid(input: T)", kind="pointwise", promote="same", inplace=True, method=False, function=False)
class hardsigmoid:
    """(input + 3) / 6 limited to [0, 1]."""

    accepts = "float"

    @elementwise("hardsigmoid")
    def kernel(x):
        return np.minimum(np.maximum(x + 3, 0), 6) / 6

    def vjp(g, input):
        return (g * (1 / 6)).masked_fill((input.abs() < 3).logical_not(), 0)

    def scalar(b, x):
        c = lambda v: b.const(v, x.dtype)
        return b.div(b.minimum(b.maximum(b.add(x, c(3)), c(0)), c(6)), c(6))

    def ref(x):
        return np.clip(x + 3, 0, 6) / 6

    def samples():
        yield Sample(t(3, 4, low=-5, high=5))


@function("nn.functional.hardsigmoid(input: T)")
def f_hardsigmoid(input, inplace=False):
    """(input + 3) / 6 limited to [0, 1]."""
    return _act(hardsigmoid, input, inplace)


@op("hardswish(input: T)", kind="pointwise", promote="same", inplace=True, method=False, function=False)
class hardswish:
    """input * hardsigmoid(input)."""

    accepts = "float"

    @elementwise("hardswish")
    def kernel(x):
        return x * np.minimum(np.maximum(x + 3, 0), 6) / 6

    def vjp(g, input):
        middle = g * (input * (1 / 3) + 0.5)
        return middle.where(input < 3, g).masked_fill(input <= -3, 0)  # NaN counts as large, as in PyTorch

    def scalar(b, x):
        c = lambda v: b.const(v, x.dtype)
        return b.div(b.mul(x, b.minimum(b.maximum(b.add(x, c(3)), c(0)), c(6))), c(6))

    def ref(x):
        return x * np.clip(x + 3, 0, 6) / 6

    def samples():
        yield Sample(t(3, 4, low=-5, high=5))


@function("nn.functional.hardswish(input: T)")
def f_hardswish(input, inplace=False):
    """input * hardsigmoid(input)."""
    return _act(hardswish, input, inplace)


def _refuse_value(x: Any, threshold: Any, value: Any) -> None:
    dt.element(value, x.dtype)


@op("threshold(input: T, threshold: num, value: num)", kind="pointwise", promote="same", inplace=True, method=False)
class threshold:
    """input where it is above threshold, else value."""

    meta = meta_with("threshold", _refuse_value)

    @elementwise("threshold", "threshold", "value")
    def kernel(x, threshold, value):
        value = dt.element(value, dt.FROM_NUMPY[x.dtype])
        return np.where(np.less_equal(x, threshold), np.asarray(value).astype(x.dtype), x)

    def vjp(g, input, threshold):
        return zero_between(g, input, -math.inf, threshold)

    def scalar(b, x, threshold, value):
        return b.where(b.le(x, b.const(threshold, x.dtype)), b.const(dt.element(value, x.dtype), x.dtype), x)

    def ref(x, threshold, value):
        return np.where(x > threshold, x, value)

    def samples():
        yield Sample(t(3, 4), 0.1, 20.0)


@function("nn.functional.threshold(input: T, threshold: num, value: num)")
def f_threshold(input, threshold, value, inplace=False):
    """input where it is above threshold, else value."""
    return _act(_THRESHOLD, input, inplace, threshold, value)


_THRESHOLD = threshold


@op("hardshrink(input: T, lambd: num = 0.5)", kind="pointwise", promote="same", names=("nn.functional.hardshrink",))
class hardshrink:
    """input, but 0 within [-lambd, lambd]."""

    accepts = "float"

    @elementwise("hardshrink", "lambd")
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


def _refuse_lambda(x: Any, lambd: Any = 0.5) -> None:
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")


@elementwise("softshrink", "lambd")
def _shrunk(x, lambd=0.5):
    return np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, x * 0))


@op("softshrink(input: T, lambd: num = 0.5)", kind="pointwise", promote="same", method=False, function=False)
class softshrink:
    """input moved towards 0 by lambd; 0 within [-lambd, lambd]. RuntimeError for a negative lambd."""

    accepts = "float"
    meta = meta_with("softshrink", _refuse_lambda)

    def kernel(x, lambd=0.5):
        if lambd < 0:
            raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
        return _shrunk(x, lambd)

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


publish(softshrink, "nn.functional.softshrink")
publish_in_place("hardtanh_", hardtanh)
publish_in_place("threshold_", _THRESHOLD)
