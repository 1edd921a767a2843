"""Arithmetic on elements: sums, products, quotients, powers, remainders, signs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..arguments import NUMBERS
from ..autograd.names import renamed
from ..autograd.rooted import rooted
from ..meta import Meta
from ..op import Sample, function, op
from ..size_values import SymbolicSize
from ..tensor import Tensor
from ._blocked import rounded_once
from ._checked import meta_with
from ._data import t, t2
from ._half import half, single
from ._inplace_forms import changed, quiet
from ._native import elementwise
from .create import zeros_like


def _refuse_bool_sub(*metas: Any) -> None:
    if any(m.dtype is dt.bool_ for m in metas):
        what = "two bool tensors" if all(m.dtype is dt.bool_ for m in metas) else "a bool tensor"
        hint = (
            "Use the `^` or `logical_xor()` operator instead."
            if what[0] == "t"
            else "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
        )
        raise RuntimeError(f"Subtraction, the `-` operator, with {what} is not supported. {hint}")


def _dtype_of(x: Any) -> dt.dtype:
    return x.dtype if hasattr(x, "_data") else dt.number_dtype(x)


def _scaled(input: Any, other: Any, alpha: Any) -> Any:
    """alpha * other, which must not turn an integer sum into a floating point one."""
    if type(alpha) is float and type(other) is Tensor and (d := other._data) is not None and d.dtype.kind == "f":
        return _mul(other, alpha)
    kinds = [_dtype_of(x) for x in (input, other)]
    if isinstance(alpha, float) and not any(k.is_floating_point for k in kinds):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if isinstance(alpha, bool) and kinds[0] is not dt.bool_ and kinds[1] is not dt.bool_:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kinds[1] is dt.bool_ and kinds[0] is dt.bool_:
        return other if alpha else other & False
    if kinds[1] is not dt.bool_ and not kinds[1].is_floating_point and isinstance(alpha, float):
        other = other.to(kinds[0]) if hasattr(other, "_data") else float(other)
    return other * alpha


def _binary_operand(name: str, other: Any) -> None:
    if not isinstance(other, (Tensor, *NUMBERS)):
        raise TypeError(f"{name}(): argument 'other' (position 1) must be Tensor, not {type(other).__name__}")


@op(
    "add(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__add__", "__radd__", "__iadd__"),
)
class add:
    """input + other. Of two bool tensors: logical or."""

    kernel = np.add

    def vjp_input(g):
        return g

    def vjp_other(g):
        return g

    def scalar(b, x, y):
        return b.or_(x, y) if x.dtype is dt.bool_ else b.add(x, y)

    ref = np.add

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(3, 1, 4), t2(2, 1))
        yield Sample(t(3), 2.5)
        yield Sample(3, t(2, 2))
        yield Sample(t(), t2(2))

    def errors():
        yield (t(3), t(4)), {}, RuntimeError, "must match the size"
        yield (t(3), "x"), {}, TypeError, "must be Tensor"


@op("sub(input: Tn, other: Tn)", kind="pointwise", promote="same", inplace=True, dunder=("__sub__", "__isub__"))
class sub:
    """input - other. RuntimeError for bool."""

    kernel = np.subtract
    meta = meta_with("sub", _refuse_bool_sub)
    refuse = _refuse_bool_sub

    def vjp_input(g):
        return g

    def vjp_other(g):
        return -g

    def scalar(b, x, y):
        return b.sub(x, y)

    ref = np.subtract

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(3, 1), t2(4))
        yield Sample(1.5, t(2, 2))
        yield Sample(t(2), 1)

    def errors():
        yield (t(3, dtype=dt.bool_), t(3, dtype=dt.bool_)), {}, RuntimeError, "two bool tensors"
        yield (t(3), t(4)), {}, RuntimeError, "must match the size"


@function("add(input: T, other: Tn, alpha: num)", direct=True)
def add_fn(input, other, *, alpha=1):
    """input + alpha * other."""
    return add(input, other if type(alpha) is int and alpha == 1 else _scaled(input, other, alpha))


@function("sub(input: T, other: Tn, alpha: num)", names=("subtract",), direct=True)
def sub_fn(input, other, *, alpha=1):
    """input - alpha * other. RuntimeError for bool."""
    if dt.bool_ in (_dtype_of(input), _dtype_of(other)):
        _refuse_bool_sub(*(Meta((), _dtype_of(x)) for x in (input, other)))
    return sub(input, other if type(alpha) is int and alpha == 1 else _scaled(input, other, alpha))


_sub = sub.fn


@function("__rsub__", function=False)
def _rsub(self, other):
    """other - self."""
    if type(other) is int or type(other) is float:
        if self._data is not None and self._data.dtype.kind == "f":
            r = _sub(other, self)
            return r if r._node is None else renamed(r, "RsubBackward1")
    elif not hasattr(other, "_data") and not isinstance(other, (int, float, np.number)) and not hasattr(other, "expr"):
        return NotImplemented
    return sub_fn(other, self)


@function("rsub(input: T, other: Tn, alpha: num)")
def rsub(input, other, *, alpha=1):
    """other - alpha * input."""
    if not hasattr(input, "_data"):
        raise TypeError(f"rsub(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return sub_fn(other, input, alpha=alpha)


def _quietly(ufunc: Any, input: Any, other: Any, alpha: float) -> bool:
    """Write ``ufunc(input, alpha * other)`` into input, if that needs nothing but a new version (``quiet``)."""
    if not quiet(input, other) or (d := input._data).dtype.kind != "f":
        return False
    try:
        scaled = other._data * alpha
    except (FloatingPointError, RuntimeWarning):  # the user asked for errors: the general form
        return False
    try:
        ufunc(d, scaled, d)
    except (FloatingPointError, RuntimeWarning):  # all is written
        pass
    except ValueError:  # shapes that do not fit
        return False
    changed(input)
    return True


@function("add_(input: T, other: Tn, alpha: num)", function=False, direct=True)
def add_(input, other, *, alpha=1):
    """In-place form of add."""
    if type(other) is not Tensor and type(other) is not float:
        _binary_operand("add_", other)
    if type(alpha) is float and isinstance(other, Tensor) and _quietly(np.add, input, other, alpha):
        return input
    return input.__iadd__(other if type(alpha) is int and alpha == 1 else _scaled(input, other, alpha))


@function("sub_(input: T, other: Tn, alpha: num)", names=("subtract_",), function=False, direct=True)
def sub_(input, other, *, alpha=1):
    """In-place form of sub."""
    if type(other) is not Tensor and type(other) is not float:
        _binary_operand("sub_", other)
    if type(alpha) is float and isinstance(other, Tensor) and _quietly(np.subtract, input, other, alpha):
        return input
    return input.__isub__(other if type(alpha) is int and alpha == 1 else _scaled(input, other, alpha))


@op(
    "mul(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    names=("multiply",),
    dunder=("__mul__", "__rmul__", "__imul__"),
)
class mul:
    """input * other. Of two bool tensors: logical and."""

    frees_numbers = True  # a second pass through x * 2 is refused, as in PyTorch

    kernel = np.multiply

    def vjp_input(g, other):
        return g * other

    def vjp_other(g, input):
        return g * input

    def scalar(b, x, y):
        return b.and_(x, y) if x.dtype is dt.bool_ else b.mul(x, y)

    ref = np.multiply

    def samples():
        yield Sample(t(3, 4), t2(3, 4))
        yield Sample(t(2, 3, 1), t2(4))
        yield Sample(t(2, 2), -1.5)
        yield Sample(2, t(3))
        yield Sample(t(), t2(2))

    def errors():
        yield (t(3), t(4)), {}, RuntimeError, "must match the size"


_mul = mul.fn


def _int_power(x: Any, y: Any) -> Any:
    """Integer power where exponents may be negative: 1 / x**-y rounded towards zero, 0 for x = 0."""
    if isinstance(y, int):
        if y < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return np.power(x, y)
    negative = np.less(y, 0)
    if not negative.any():
        return np.power(x, y)
    unit = np.where(np.equal(x, 1), 1, np.where(np.equal(x, -1), np.where(y % 2 == 0, 1, -1), 0))
    safe = np.power(x, np.maximum(y, 0))
    return np.where(negative, unit.astype(safe.dtype), safe)


def _power(x: Any, y: Any) -> Any:
    kind = type(y)
    if (kind is int or kind is float) and type(x) is np.ndarray and x.dtype.char in "fd":  # the usual call
        special = _POWERS.get(y)
        return np.power(x, float(y)) if special is None else special(x)
    if isinstance(y, (int, float)):
        if isinstance(x, np.ndarray) and x.dtype.kind == "f":
            if x.dtype.char == "e":  # in float32, rounded once
                return half(_power(single(x), y))
            special = _POWERS.get(y)
            if special is not None:
                return special(x)
            return np.power(x, float(y))
        if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and isinstance(y, int):
            return _int_power(x, y)
    elif y.dtype.kind in "iu":
        return _int_power(y.dtype.type(x) if not isinstance(x, np.ndarray) else x, y)
    return np.power(x, y)


_POWERS: dict[float, Any] = {
    0.5: np.sqrt,
    1: np.copy,
    2: np.square,
    3: lambda x: x * x * x,
    -1: np.reciprocal,
    -0.5: lambda x: np.reciprocal(np.sqrt(x)),
    -2: lambda x: np.reciprocal(np.square(x)),
}


def _refuse_bool_power(base: Any, exponent: Any) -> None:
    if base.dtype is dt.bool_ and exponent.dtype is dt.bool_:
        raise NotImplementedError("\"pow\" not implemented for 'Bool'")


def _refuse_exponent(base: Any, exponent: Any) -> None:
    """RuntimeError for an exponent that an integer tensor can't have (it would wrap around)."""
    if isinstance(exponent, (int, SymbolicSize)) and hasattr(base, "_data") and base.dtype.category == dt.INT:
        if exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        if exponent > np.iinfo(base.dtype.np).max:
            raise RuntimeError(f"value cannot be converted to type {base.dtype} without overflow")


def _array_power_grads(g: Any, x: Any, y: Any, out: Any, need: Any) -> tuple | None:
    """The gradients of x ** y of one shape where neither has a zero; None for the rest."""
    if x.shape != y.shape or g.shape != x.shape or not (np.count_nonzero(y) == y.size == np.count_nonzero(x)):
        return None
    if need[1] is not None and out is None:
        return None
    with np.errstate(all="ignore"):
        return (
            None if need[0] is None else np.asarray(g * (y * np.power(x, y - 1))),
            None if need[1] is None else np.asarray(g * (out * np.log(x))),
        )


@op("pow(input: Tn, exponent: Tn)", kind="pointwise", promote="same", inplace=True, dunder=("__rpow__", "__ipow__"))
class pow_:
    """input ** exponent. RuntimeError for an integer tensor with a negative Python exponent."""

    accepts = "number"
    refuse_numbers = _refuse_exponent

    kernel = _power

    meta = meta_with("pow", _refuse_bool_power)

    def vjp_input(g, input, exponent):
        if isinstance(exponent, (int, float)):
            return zeros_like(g) if exponent == 0 else g * (exponent * input ** (exponent - 1))
        # x ** 0 is 1 for every x: where 1 / x is not finite, another x takes its place
        flat = (exponent == 0).logical_and(input.reciprocal().isfinite().logical_not())
        return (g * (exponent * input.masked_fill(flat, 1) ** (exponent - 1))).masked_fill(flat, 0)

    def on_arrays(g, input, exponent, out, need):
        if type(exponent) is np.ndarray is type(input):
            return _array_power_grads(g, input, exponent, out, need)
        if type(exponent) not in (int, float) or exponent == 0:
            return None
        return np.asarray(g * (exponent * _power(input, exponent - 1))), None

    def vjp_exponent(g, input, exponent, out):
        if isinstance(input, (int, float)):
            if input == 0:
                return (g * (out * -math.inf)).masked_fill(exponent >= 0, 0)
            return g * (out * (math.log(input) if input > 0 else math.nan))
        return (g * (out * input.log())).masked_fill((input == 0).logical_and(exponent >= 0), 0)

    def scalar(b, x, y):
        return b.pow(x, y)

    ref = np.power

    def errors():
        yield (t(3, dtype=dt.int64), -1), {}, RuntimeError, "negative integer powers"

    def samples():
        yield Sample(t(3, 4, low=0.2, high=3), t2(3, 4))
        yield Sample(t(3, 4, low=0.2, high=3), 2)
        yield Sample(t(3, 4, low=-2, high=2), 3)
        yield Sample(t(3, 4, low=0.2, high=2), 0.5)
        yield Sample(t(3, 4, low=0.2, high=2), 0)
        yield Sample(t(3, 4, low=0.2, high=2), 1.7)
        yield Sample(2.5, t(3, 4))
        yield Sample(t(3, 1, low=0.2, high=2), t2(4))


@function("pow(input: Tn, exponent: Tn)", direct=True)
def pow_fn(input, exponent):
    """input ** exponent. RuntimeError for an integer tensor with a negative Python exponent."""
    r = _raised(input, exponent)
    return pow_(input, exponent) if r is NotImplemented else r  # refused by name there


@function("__pow__", function=False)
def _raised(input, exponent):
    """input ** exponent; NotImplemented for what is neither a tensor nor a number."""
    if type(exponent) in (int, float) and hasattr(input, "_data"):
        if exponent == 2 and (input.dtype.category == 2 or (type(exponent) is int and input.dtype is not dt.bool_)):
            return square.fn(input)
        if exponent == 0.5:
            r = sqrt(input)
            return r if r._node is None else renamed(r, "PowBackward0")
        if exponent < 0 and type(exponent) is int and input.dtype.category < 2:  # known without the data
            raise RuntimeError("Integers to negative integer powers are not allowed.")
    elif isinstance(exponent, SymbolicSize) and hasattr(input, "_data"):
        if input.dtype.category < 2 and exponent < 0:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
    elif not hasattr(exponent, "_data"):
        if type(exponent) is bool and hasattr(input, "_data") and input.dtype is dt.bool_:
            return input.clone() if exponent else input.logical_or(input.logical_not())
        if isinstance(exponent, (np.number, np.bool_)):
            return _raised(input, exponent.item())
        if not isinstance(exponent, NUMBERS):
            return NotImplemented
    return pow_(input, exponent)


@function("float_power(input: Tn, exponent: Tn)")
def float_power(input, exponent):
    """input ** exponent computed in float64."""
    double = [x.to(dt.float64) if hasattr(x, "_data") else float(x) for x in (input, exponent)]
    return pow_(*double)


@op("neg(input: T)", kind="pointwise", promote="same", inplace=True, names=("negative",), dunder=("__neg__",))
class neg:
    """-input. RuntimeError for bool."""

    kernel = np.negative

    def kernel_out(x, out):
        if x.flags.c_contiguous or x.dtype.kind == "b":
            return np.negative(x, out)
        return np.multiply(x, -1, out)  # numpy 2.4's negative reads wrong elements where both have the same strides

    def _refuse(m):
        if m.dtype is dt.bool_:
            raise RuntimeError(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
                "invert a mask, use the `~` or `logical_not()` operator instead."
            )

    meta = meta_with("neg", _refuse)

    def vjp(g):
        return -g

    def scalar(b, x):
        return b.neg(x)

    ref = np.negative

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t())

    def errors():
        yield (t(3, dtype=dt.bool_),), {}, RuntimeError, "on a bool tensor"


@function("positive(input: T)", dunder=("__pos__",), direct=True)
def positive(input):
    """input itself. RuntimeError for bool."""
    if input.dtype is dt.bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


@op("abs(input: T)", kind="pointwise", promote="same", inplace=True, names=("absolute",), dunder=("__abs__",))
class abs_:
    """|input|; its gradient at 0 is 0."""

    accepts = "number"

    kernel = np.abs

    def vjp(g, input):
        return g * sign(input)

    def scalar(b, x):
        return b.abs(x)

    ref = np.abs

    def samples():
        yield Sample(t(3, 4))


@op("sign(input: T)", kind="pointwise", promote="same", inplace=True, names=("sgn",))
class sign:
    """-1, 0 or 1. (NaN stays NaN in numpy; PyTorch gives 0, and so does this.)"""

    @elementwise("sign")
    def kernel(x):
        if x.dtype.kind == "b":
            return x.copy()
        if x.dtype.kind == "f":
            return np.subtract(np.greater(x, 0).astype(x.dtype), np.less(x, 0))
        return np.sign(x)

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x):
        if x.dtype is dt.bool_:
            return x
        return b.sub(b.cast(b.gt(x, b.const(0, x.dtype)), x.dtype), b.cast(b.lt(x, b.const(0, x.dtype)), x.dtype))

    ref = np.sign

    def samples():
        yield Sample(t(3, 4), grad=False)


@op("square(input: T)", kind="pointwise", promote="same", inplace=True)
class square:
    """input * input."""

    accepts = "number"

    kernel = np.square

    def vjp(g, input):
        return g * (2 * rooted(input))  # x ** 2 twice differentiated still depends on x in name, as in PyTorch

    def on_arrays(g, input):
        return (np.asarray(g * (2 * input)),)

    def scalar(b, x):
        return b.mul(x, x)

    ref = np.square

    def samples():
        yield Sample(t(3, 4))


@function("square(input: T)", direct=True)
def square_fn(input):
    """input * input; of bool as int64."""
    return square(input.to(dt.int64) if input.dtype is dt.bool_ else input)


@op("reciprocal(input: T)", kind="pointwise", promote="float", inplace=True)
class reciprocal:
    """1 / input."""

    kernel = np.reciprocal

    def vjp(g, out):
        return -g * (out * out)

    def scalar(b, x):
        return b.reciprocal(x)

    ref = np.reciprocal

    def samples():
        yield Sample(t(3, 4, low=0.5, high=3))
        yield Sample(t(3, 4, low=-3, high=-0.5))


@op("sqrt(input: T)", kind="pointwise", promote="float", inplace=True)
class sqrt:
    """Square root; NaN for negative numbers."""

    kernel = np.sqrt

    def vjp(g, out):
        return g / (2 * out)

    def scalar(b, x):
        return b.sqrt(x)

    ref = np.sqrt

    def samples():
        yield Sample(t(3, 4, low=0.2, high=4))


@op("rsqrt(input: T)", kind="pointwise", promote="float", inplace=True)
class rsqrt:
    """1 / sqrt(input)."""

    @rounded_once
    def kernel(x):
        r = np.sqrt(x)
        return np.reciprocal(r, out=r) if r.ndim else np.reciprocal(r)

    def vjp(g, out):
        return -0.5 * g * (out * out * out)

    def scalar(b, x):
        return b.rsqrt(x)

    def ref(x):
        return 1 / np.sqrt(x)

    def samples():
        yield Sample(t(3, 4, low=0.2, high=4))
