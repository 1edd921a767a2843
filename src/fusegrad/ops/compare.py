"""Comparisons, tests of single elements, logical and bitwise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import SLOW
from ..dispatch import FAST
from ..op import Sample, function, op
from ._checked import meta_with
from ._data import t, t2

_NAN = np.array([[np.nan, np.inf], [-np.inf, 1.5], [0.0, -0.0]], np.float32)


def _pairs():
    yield Sample(t(3, 4), t2(3, 4))
    yield Sample(t(3, 1), t2(4))
    yield Sample(t(3, 4), 0.5)
    yield Sample(np.array([1.0, np.nan, 2.0, np.inf], np.float32), np.array([1.0, np.nan, 3.0, np.inf], np.float32))


def _bad_shapes():
    yield (t(3), t(4)), {}, RuntimeError, "must match the size"


@op("eq(input: T, other: Tn)", kind="pointwise", promote="compare", inplace=True, dunder=("__eq__",))
class eq:
    """input == other."""

    nondiff = True
    kernel = ref = np.equal
    samples, errors = _pairs, _bad_shapes

    def scalar(b, x, y):
        return b.eq(x, y)


@op(
    "ne(input: T, other: Tn)",
    kind="pointwise",
    promote="compare",
    inplace=True,
    names=("not_equal",),
    dunder=("__ne__",),
)
class ne:
    """input != other."""

    nondiff = True
    kernel = ref = np.not_equal
    samples, errors = _pairs, _bad_shapes

    def scalar(b, x, y):
        return b.ne(x, y)


@op("lt(input: T, other: Tn)", kind="pointwise", promote="compare", inplace=True, names=("less",), dunder=("__lt__",))
class lt:
    """input < other."""

    nondiff = True
    kernel = ref = np.less
    samples, errors = _pairs, _bad_shapes

    def scalar(b, x, y):
        return b.lt(x, y)


@op(
    "le(input: T, other: Tn)",
    kind="pointwise",
    promote="compare",
    inplace=True,
    names=("less_equal",),
    dunder=("__le__",),
)
class le:
    """input <= other."""

    nondiff = True
    kernel = ref = np.less_equal
    samples, errors = _pairs, _bad_shapes

    def scalar(b, x, y):
        return b.le(x, y)


@op(
    "gt(input: T, other: Tn)", kind="pointwise", promote="compare", inplace=True, names=("greater",), dunder=("__gt__",)
)
class gt:
    """input > other."""

    nondiff = True
    kernel = ref = np.greater
    samples, errors = _pairs, _bad_shapes

    def scalar(b, x, y):
        return b.gt(x, y)


@op(
    "ge(input: T, other: Tn)",
    kind="pointwise",
    promote="compare",
    inplace=True,
    names=("greater_equal",),
    dunder=("__ge__",),
)
class ge:
    """input >= other."""

    nondiff = True
    kernel = ref = np.greater_equal
    samples, errors = _pairs, _bad_shapes

    def scalar(b, x, y):
        return b.ge(x, y)


# ---- tests of one element ----


def _floats_only(f: Any, otherwise: bool) -> Any:
    """f for floating point arrays; the same answer everywhere for integers and bool."""
    return lambda x: f(x) if x.dtype.kind == "f" else np.full(x.shape, otherwise)


@op("isnan(input: T)", kind="pointwise", promote="compare")
class isnan:
    """Where input is NaN."""

    nondiff = True
    kernel = ref = np.isnan

    def scalar(b, x):
        return b.isnan(x) if x.dtype.is_floating_point else b.const(False, dt.bool_)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(_NAN)


@op("isinf(input: T)", kind="pointwise", promote="compare")
class isinf:
    """Where input is infinite."""

    nondiff = True
    kernel = ref = np.isinf

    def scalar(b, x):
        return b.isinf(x) if x.dtype.is_floating_point else b.const(False, dt.bool_)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(_NAN)


@op("isfinite(input: T)", kind="pointwise", promote="compare")
class isfinite:
    """Where input is neither infinite nor NaN."""

    nondiff = True
    kernel = ref = np.isfinite

    def scalar(b, x):
        return b.isfinite(x) if x.dtype.is_floating_point else b.const(True, dt.bool_)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(_NAN)


@op("isposinf(input: T)", kind="pointwise", promote="compare")
class isposinf:
    """Where input is +inf."""

    nondiff = True
    kernel = _floats_only(np.isposinf, False)
    ref = np.isposinf

    def samples():
        yield Sample(_NAN)


@op("isneginf(input: T)", kind="pointwise", promote="compare")
class isneginf:
    """Where input is -inf."""

    nondiff = True
    kernel = _floats_only(np.isneginf, False)
    ref = np.isneginf

    def samples():
        yield Sample(_NAN)


@op("signbit(input: T)", kind="pointwise", promote="compare")
class signbit:
    """Where the sign is minus (of -0.0 too)."""

    nondiff = True
    ref = np.signbit

    def kernel(x):
        return np.signbit(x) if x.dtype.kind == "f" else np.less(x, 0)

    def samples():
        yield Sample(_NAN)


@function("isreal(input: T)")
def isreal(input):
    """True everywhere: there are no complex tensors."""
    return input == input if not input.dtype.is_floating_point else (input == input).logical_or(input.isnan())


@op(
    "isclose(input: T, other: T, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False)",
    kind="pointwise",
    promote="compare",
)
class isclose:
    """|input - other| <= atol + rtol * |other|; equal infinities are close, NaN only with equal_nan."""

    nondiff = True

    def kernel(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
        if rtol < 0 or atol < 0:
            raise RuntimeError(f"rtol and atol must be greater than or equal to zero, but got {rtol} and {atol}")
        close = x == y
        if equal_nan and x.dtype.kind == "f":
            close |= np.isnan(x) & np.isnan(y)
        if rtol == 0 and atol == 0:
            return close
        with np.errstate(all="ignore"):
            if x.dtype.kind == "f":
                error = np.abs(x - y)
            else:
                x, y = (v.astype(np.float64) for v in np.broadcast_arrays(x, y))
                error = np.abs(x - y)
            return close | (np.isfinite(error) & (error <= atol + np.abs(rtol * y)))

    def refuse(input, other):
        if input.dtype is not other.dtype:
            raise RuntimeError(f"{input.dtype.name} did not match {other.dtype.name}")

    def meta(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        isclose.fields["refuse"](input, other)
        return meta_with("isclose")(input, other)

    def ref(x, y, rtol=1e-5, atol=1e-8, equal_nan=False):
        return np.isclose(x, y, rtol, atol, equal_nan)

    def samples():
        yield Sample(t(3, 4), t2(3, 4), rtol=0.5)
        yield Sample(_NAN, _NAN, equal_nan=True)
        yield Sample(_NAN, _NAN)


@function("allclose(input: T, other: T, rtol: float, atol: float, equal_nan: bool)")
def allclose(input, other, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether isclose holds everywhere: a Python bool."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


@function("equal(input: T, other: T)")
def equal(input, other):
    """Whether shapes and all elements are the same: a Python bool."""
    if not hasattr(other, "_data"):
        raise TypeError(f"equal(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    if type(input) in FAST and type(other) in FAST and not SLOW[0]:
        a, b = input._data, other._data
        if a is not None and b is not None and a.dtype is b.dtype:
            if a.size <= 32 and a.shape == b.shape:
                return a.tolist() == b.tolist()  # (each call makes its own NaN, which equals none)
            return a.shape == b.shape and (a is b and a.dtype.kind != "f" or bool((a == b).all()))
    if tuple(input.shape) != tuple(other.shape):
        return False
    return input is other and not input.dtype.is_floating_point or bool((input == other).all())


# ---- logic ----


def _logical_samples():
    yield Sample(t(3, 4, dtype=dt.bool_), t2(3, 4, dtype=dt.bool_))
    yield Sample(t(3, 1, dtype=dt.bool_), t2(4, dtype=dt.bool_))
    yield Sample(t(3, 4), t2(3, 4))


def _truth(b: Any, x: Any) -> Any:
    return x if x.dtype is dt.bool_ else b.ne(x, b.const(0, x.dtype))


@op("logical_and(input: T, other: T)", kind="pointwise", promote="compare", inplace=True)
class logical_and:
    """Where both are nonzero."""

    nondiff = True
    kernel = ref = np.logical_and
    samples = _logical_samples

    def scalar(b, x, y):
        return b.and_(_truth(b, x), _truth(b, y))


@op("logical_or(input: T, other: T)", kind="pointwise", promote="compare", inplace=True)
class logical_or:
    """Where one is nonzero."""

    nondiff = True
    kernel = ref = np.logical_or
    samples = _logical_samples

    def scalar(b, x, y):
        return b.or_(_truth(b, x), _truth(b, y))


@op("logical_xor(input: T, other: T)", kind="pointwise", promote="compare", inplace=True)
class logical_xor:
    """Where exactly one is nonzero."""

    nondiff = True
    kernel = ref = np.logical_xor
    samples = _logical_samples

    def scalar(b, x, y):
        return b.ne(_truth(b, x), _truth(b, y))


@op("logical_not(input: T)", kind="pointwise", promote="compare", inplace=True)
class logical_not:
    """Where input is zero."""

    nondiff = True
    kernel = ref = np.logical_not

    def scalar(b, x):
        return b.not_(x) if x.dtype is dt.bool_ else b.eq(x, b.const(0, x.dtype))

    def samples():
        yield Sample(t(3, 4, dtype=dt.bool_))
        yield Sample(t(3, 4))


# ---- bits ----


def _refuse_float_bits(name: str) -> Any:
    def refuse(*metas: Any) -> None:
        for m in metas:
            if m.dtype.is_floating_point:
                raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{m.dtype.name}'")

    return refuse


def _bit_samples():
    yield Sample(t(3, 4, dtype=dt.int64), t2(3, 4, dtype=dt.int64))
    yield Sample(t(3, 1, dtype=dt.int64), t2(4, dtype=dt.int64))
    yield Sample(t(3, 4, dtype=dt.bool_), t2(3, 4, dtype=dt.bool_))
    yield Sample(t(3, 4, dtype=dt.int64), 5)


def _shift_samples():
    yield Sample(t(3, 4, dtype=dt.int64), np.array([0, 1, 3, 7]))
    yield Sample(t(3, 4, dtype=dt.int64), 2)


def _float_errors():
    yield (t(3), t(3)), {}, NotImplementedError, "not implemented for"


@op(
    "bitwise_and(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__and__", "__rand__", "__iand__"),
)
class bitwise_and:
    """input & other of integers or bool."""

    nondiff = True
    kernel = ref = np.bitwise_and
    meta = meta_with("bitwise_and", _refuse_float_bits("bitwise_and"))
    samples, errors = _bit_samples, _float_errors

    def scalar(b, x, y):
        return b.and_(x, y)


@op(
    "bitwise_or(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__or__", "__ror__", "__ior__"),
)
class bitwise_or:
    """input | other of integers or bool."""

    nondiff = True
    kernel = ref = np.bitwise_or
    meta = meta_with("bitwise_or", _refuse_float_bits("bitwise_or"))
    samples, errors = _bit_samples, _float_errors

    def scalar(b, x, y):
        return b.or_(x, y)


@op(
    "bitwise_xor(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__xor__", "__rxor__", "__ixor__"),
)
class bitwise_xor:
    """input ^ other of integers or bool."""

    nondiff = True
    kernel = ref = np.bitwise_xor
    meta = meta_with("bitwise_xor", _refuse_float_bits("bitwise_xor"))
    samples, errors = _bit_samples, _float_errors

    def scalar(b, x, y):
        return b.xor(x, y)


@op("bitwise_not(input: T)", kind="pointwise", promote="same", inplace=True)
class bitwise_not:
    """~input of integers or bool."""

    nondiff = True
    kernel = ref = np.bitwise_not
    meta = meta_with("bitwise_not", _refuse_float_bits("bitwise_not"))

    def scalar(b, x):
        return b.not_(x)

    def samples():
        yield Sample(t(3, 4, dtype=dt.int64))
        yield Sample(t(3, 4, dtype=dt.bool_))


@function("__invert__", function=False)
def invert(input):
    """~input. TypeError for floating point tensors."""
    if input.dtype.is_floating_point:
        raise TypeError("~ (operator.invert) is only implemented on integer and Boolean-type tensors")
    return bitwise_not(input)


@op(
    "bitwise_left_shift(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__lshift__", "__rlshift__", "__ilshift__"),
)
class bitwise_left_shift:
    """input * 2**other by shifting bits; 0 beyond the width."""

    accepts = "number"

    nondiff = True
    kernel = ref = np.left_shift
    meta = meta_with("bitwise_left_shift", _refuse_float_bits("lshift"))
    samples, errors = _shift_samples, _float_errors

    def scalar(b, x, y):
        return b.shl(x, y)


@op(
    "bitwise_right_shift(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__rshift__", "__rrshift__", "__irshift__"),
)
class bitwise_right_shift:
    """input / 2**other rounded down, by shifting bits."""

    accepts = "number"

    nondiff = True
    kernel = ref = np.right_shift
    meta = meta_with("bitwise_right_shift", _refuse_float_bits("rshift"))
    samples, errors = _shift_samples, _float_errors

    def scalar(b, x, y):
        return b.shr(x, y)


@op("gcd(input: T, other: T)", kind="pointwise", promote="same", inplace=True)
class gcd:
    """Greatest common divisor of integers, not negative."""

    nondiff = True
    kernel = ref = np.gcd
    meta = meta_with("gcd", _refuse_float_bits("gcd"))
    errors = _float_errors

    def samples():
        yield Sample(t(3, 4, dtype=dt.int64), t2(3, 4, dtype=dt.int64))


@op("lcm(input: T, other: T)", kind="pointwise", promote="same", inplace=True)
class lcm:
    """Least common multiple of integers, not negative."""

    nondiff = True
    kernel = ref = np.lcm
    meta = meta_with("lcm", _refuse_float_bits("lcm"))
    errors = _float_errors

    def samples():
        yield Sample(t(3, 4, dtype=dt.int64), t2(3, 4, dtype=dt.int64))
