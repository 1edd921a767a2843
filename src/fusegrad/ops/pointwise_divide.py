"""Quotients and remainders: true, floored and truncated division, remainder, fmod."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.undefined import underived
from ..op import Sample, function, op
from ..tensor import Tensor
from ._blocked import rounded_once
from ._checked import nonzero_divisor, number_or_array_kind
from ._data import t, t2
from ._native import several
from .create import zeros_like
from .pointwise import reciprocal

_MODES = (None, "trunc", "floor")
_ZERO = 'use div(x, y, rounding_mode="floor"), whose derivative is zero, or detach() the operands'


@op(
    "true_divide(input: Tn, other: Tn)",
    kind="pointwise",
    promote="float",
    inplace=True,
    dunder=("__truediv__", "__itruediv__"),
)
class true_divide:
    """input / other in floating point."""

    frees_numbers = True  # a second pass through x / 2 is refused, as in PyTorch

    kernel = np.true_divide

    def vjp_input(g, other):
        return g / other

    def vjp_other(g, input, other):
        return -g * ((input / other) / other)

    def scalar(b, x, y):
        return b.div(x, y)

    ref = np.true_divide

    def samples():
        yield Sample(t(3, 4), t2(3, 4, low=0.5, high=3))
        yield Sample(t(3, 1), t2(4, low=-3, high=-0.5))
        yield Sample(t(3), 4)
        yield Sample(1.5, t(2, 2, low=0.5, high=2))


@op("trunc_divide(input: Tn, other: Tn)", kind="pointwise", promote="same", inplace=True, function=False, method=False)
class trunc_divide:
    """Quotient rounded towards zero. RuntimeError for an integer 0 in other."""

    accepts = "number"

    @rounded_once
    def kernel(x, y):
        if number_or_array_kind(x, y) == "f":
            return np.trunc(np.true_divide(x, y))
        nonzero_divisor(y)
        if number_or_array_kind(x, y) == "u":
            return np.floor_divide(x, y)
        q = np.floor_divide(x, y)
        inexact = np.not_equal(np.multiply(q, y), x)
        return np.add(q, (inexact & (np.less(x, 0) != np.less(y, 0))).astype(q.dtype))

    def vjp_input(g):
        return zeros_like(g)

    def vjp_other(g):
        return zeros_like(g)

    def scalar(b, x, y):
        return b.trunc(b.div(x, y)) if x.dtype.is_floating_point else b.trunc_div(x, y)

    def ref(x, y):
        return np.trunc(np.true_divide(x, y)).astype(np.result_type(x, y))

    def samples():
        yield Sample(t(3, 4, low=-9, high=9), t2(3, 4, low=1, high=3), grad=False)
        yield Sample(t(3, 4, low=-9, high=9), -3, grad=False)

    def errors():
        yield (t(2, dtype=dt.int64), 0), {}, RuntimeError, "ZeroDivision"


class _Floored:
    """What the two forms of a floored quotient have in common: all but the derivative."""

    @several("floor_quotient", "x y")
    @rounded_once
    def kernel(x, y):
        if number_or_array_kind(x, y) != "f":
            nonzero_divisor(y)
        return np.floor_divide(x, y)

    def scalar(b, x, y):
        return b.floordiv(x, y)

    def samples():
        yield Sample(t(3, 4, low=-9, high=9), t2(3, 4, low=1, high=3), grad=False)
        yield Sample(t(3, 4, low=-9, high=9), -3, grad=False)
        yield Sample(7, t(4, low=1, high=3), grad=False)

    def errors():
        yield (t(2, dtype=dt.int64), 0), {}, RuntimeError, "ZeroDivision"


@op(
    "floor_quotient(input: Tn, other: Tn)", kind="pointwise", promote="same", inplace=True, function=False, method=False
)
class floor_quotient:
    """``div`` with rounding_mode "floor": its derivative is zero. RuntimeError for an integer 0 in other."""

    accepts = "number"
    kernel, scalar, ref = _Floored.kernel, _Floored.scalar, np.floor_divide
    samples, errors = _Floored.samples, _Floored.errors

    def vjp_input(g):
        return zeros_like(g)

    def vjp_other(g):
        return zeros_like(g)


@op(
    "floor_divide(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__floordiv__", "__rfloordiv__", "__ifloordiv__"),
)
class floor_divide:
    """Quotient rounded towards minus infinity: no backward pass goes through it, as in PyTorch.

    RuntimeError for an integer 0 in other.
    """

    accepts = "number"
    kernel, scalar, ref = _Floored.kernel, _Floored.scalar, np.floor_divide
    samples, errors = _Floored.samples, _Floored.errors

    def vjp_input(g):
        return underived("floor_divide", _ZERO)

    def vjp_other(g):
        return underived("floor_divide", _ZERO)


@function("__rtruediv__", names=("__rdiv__",), function=False)
def _rtruediv(self, other):
    """other / self."""
    if type(other) in (int, float) and other == 1:
        r = reciprocal(self)
        return r * 1 if r.requires_grad else r  # its derivative reads r, and what is returned may be changed in place
    if not hasattr(other, "_data") and not isinstance(other, (int, float, np.number)) and not hasattr(other, "expr"):
        return NotImplemented
    return true_divide(other, self)


def _division(rounding_mode: str | None) -> Any:
    if rounding_mode not in _MODES:
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'"
        )
    return true_divide if rounding_mode is None else trunc_divide if rounding_mode == "trunc" else floor_quotient


@function("div(input: Tn, other: Tn, rounding_mode: str)", names=("divide",), direct=True)
def div(input, other, *, rounding_mode=None):
    """input / other; rounding_mode "trunc" or "floor" rounds the quotient (and keeps integers)."""
    return _division(rounding_mode)(input, other)


@function("div_(input: T, other: Tn, rounding_mode: str)", names=("divide_",), function=False, direct=True)
def div_(input, other, *, rounding_mode=None):
    """In-place form of div."""
    return getattr(input, _division(rounding_mode).name + "_")(other)


@op(
    "remainder(input: Tn, other: Tn)",
    kind="pointwise",
    promote="same",
    inplace=True,
    dunder=("__mod__", "__rmod__", "__imod__"),
)
class remainder:
    """input - other * floor(input / other): the sign of other, as Python's %. RuntimeError for an integer 0."""

    accepts = "number"

    @several("remainder", "x y")
    def kernel(x, y):
        if number_or_array_kind(x, y) != "f":
            nonzero_divisor(y)
        return np.remainder(x, y)

    def vjp_input(g):
        return g

    def vjp_other(g, input, other):
        if not isinstance(input, Tensor) or input.meta_().weak:
            return underived("remainder", "of a number by a tensor; make the dividend a tensor: torch.tensor(n) % x")
        return -g * floor_quotient(input, other)

    def scalar(b, x, y):
        return b.mod(x, y)

    ref = np.remainder

    def samples():
        yield Sample(t(3, 4, low=-9, high=9), t2(3, 4, low=2, high=3))
        yield Sample(t(3, 4, low=-9, high=9), -2.5)
        yield Sample(7, t(4, low=2, high=3), grad=False)

    def errors():
        yield (t(2, dtype=dt.int64), 0), {}, RuntimeError, "ZeroDivision"


@op("fmod(input: T, other: Tn)", kind="pointwise", promote="same", inplace=True)
class fmod:
    """input - other * trunc(input / other): the sign of input, as C's fmod. RuntimeError for an integer 0 in other."""

    accepts = "number"

    @several("fmod", "x y")
    def kernel(x, y):
        if number_or_array_kind(x, y) != "f":
            nonzero_divisor(y)
        return np.fmod(x, y)

    def vjp_input(g):
        return g

    def vjp_other(g, input, other):
        return -g * trunc_divide(input, other)

    def scalar(b, x, y):
        return b.fmod(x, y)

    ref = np.fmod

    def samples():
        yield Sample(t(3, 4, low=-9, high=9), t2(3, 4, low=2, high=3))
        yield Sample(t(3, 4, low=-9, high=9), -2.5)
