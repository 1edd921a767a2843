"""Elementwise choices: clamp, masked_fill, where."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..arguments import as_tensor
from ..meta import Meta, broadcast_shapes
from ..op import Sample, function, op
from ..size_values import SymbolicNumber, SymbolicSize
from ..tensor import Tensor
from ._blocked import pick
from ._checked import in_place, meta_with
from ._data import t, t2, t3
from ._inplace_forms import changed, into_expanded, quiet, quietly_filled
from ._native import elementwise
from .create import finish, scalar_tensor

_NO_BOUNDS = "clamp: At least one of 'min' or 'max' must not be None"


def _bounded(x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = np.maximum(x, low)
    elif high is None:
        raise RuntimeError(_NO_BOUNDS)
    return x if high is None else np.minimum(x, high)


def _bounded_b(b: Any, x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = b.maximum(x, low)
    return x if high is None else b.minimum(x, high)


def _refuse_no_bounds(*metas: Any, **bounds: Any) -> None:
    if all(m is None for m in metas[1:]) and all(v is None for v in bounds.values()):
        raise RuntimeError(_NO_BOUNDS)


@op("clamp(input: T, min: num? = None, max: num? = None)", kind="pointwise", promote="same", inplace=True)
class clamp:
    """input limited to [min, max], two numbers; max wins where they cross."""

    @elementwise("clamp", "min", "max")
    def kernel(x, min=None, max=None):
        return _bounded(x, min, max)

    meta = meta_with("clamp", _refuse_no_bounds)

    def vjp(g, input, min, max):
        inside = None if min is None else input >= min
        if max is not None:
            inside = (input <= max) if inside is None else inside.logical_and(input <= max)
        return mask_fill(g, inside, 0, True)

    def scalar(b, x, min=None, max=None):
        bounds = (v if v is None else b.const(v, x.dtype) for v in (min, max))
        return _bounded_b(b, x, *bounds)

    def ref(x, min=None, max=None):
        return _bounded(x, min, max)

    def samples():
        yield Sample(t(3, 4), -0.5, 0.75)
        yield Sample(t(3, 4), min=0.1)
        yield Sample(t(3, 4), max=0.1)

    def errors():
        yield (t(3),), {}, RuntimeError, "At least one"


@op(
    "clamp_tensor(input: T, min: Tn? = None, max: Tn? = None)",
    kind="pointwise",
    promote="same",
    inplace=True,
    method=False,
    function=False,
)
class clamp_tensor:
    """input limited to [min, max], of which one is a tensor; max wins where they cross."""

    def kernel(x, low, high):
        return _bounded(x, low, high)

    meta = meta_with("clamp_tensor", _refuse_no_bounds)

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

    def scalar(b, x, low, high):  # of 0.0 and -0.0 the one that numpy gives
        first = b.rounded is dt.float16
        if low is not None:
            x = b.maximum(x, low) if first else b.maximum(low, x)
        return x if high is None else b.minimum(x, high) if first else b.minimum(high, x)

    def ref(x, min=None, max=None):
        return _bounded(x, min, max)

    def samples():
        yield Sample(t(3, 4), t2(4, low=-2, high=-1), t3(3, 1, low=1, high=2))
        yield Sample(t(3, 4), t2(3, 4), t3(3, 4))
        yield Sample(t(3, 4), None, t2(3, 4))


def _plain_bounds(input: Any, min: Any, max: Any) -> bool:
    """Whether both bounds are Python numbers that do not widen input."""
    for v in (min, max):
        if v is None:
            continue
        if type(v) is float:
            if not input.dtype.is_floating_point:
                return False
        elif isinstance(v, SymbolicSize) and input.dtype.category == dt.INT:
            dt.element(v, input.dtype)
            return False
        elif type(v) is not int or input.dtype is dt.bool_:
            return False
        elif input.dtype.category == dt.INT and input.dtype is not dt.int64:
            dt.element(v, input.dtype)  # refused where it does not fit
            return False
        elif type(v) is int and not -(2**63) <= v < 2**63:
            dt.element(v, input.dtype)
    return True


def _check_bounds(name, min, max):
    """TypeError for one bound that is a tensor and one that is a number."""
    if min is not None and max is not None and hasattr(min, "_data") != hasattr(max, "_data"):
        raise TypeError(
            f"{name}(): 'min' and 'max' must both be numbers or both be Tensors, not {type(min).__name__} and "
            f"{type(max).__name__}"
        )


_clamp = clamp.fn
_BOUND = frozenset({int, float, type(None)})


@function("clamp(input: T, min: Tn, max: Tn)", names=("clip",), direct=True)
def clamp_fn(input, min=None, max=None, *, out=None):
    """input limited to [min, max], numbers or tensors; max wins where they cross. RuntimeError when both are None."""
    if not hasattr(input, "_data"):
        raise TypeError(f"clamp(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if type(min) in _BOUND and type(max) in _BOUND and out is None:
        if input._data is not None and input._data.dtype.kind == "f":
            return _clamp(input, min, max)
    if (min is not None or max is not None) and not _plain_bounds(input, min, max):
        _check_bounds("clamp", min, max)
        return finish(clamp_tensor(input, min, max), False, out, (input, min, max))
    return finish(clamp(input, min, max), False, out, (input,))


@function("clamp_(input: T, min: Tn, max: Tn)", names=("clip_",), direct=True)
def clamp_(input, min=None, max=None):
    """In-place form of clamp."""
    if type(min) in _BOUND and type(max) in _BOUND and not (min is None and max is None) and quiet(input):
        d = input._data
        if d.dtype.kind == "f":
            clamp.kernel.over(d, min, max)
            changed(input)
            return input
    plain = min is None and max is None or _plain_bounds(input, min, max)
    if not plain:
        _check_bounds("clamp_", min, max)
    return in_place(clamp if plain else clamp_tensor)(input, min, max)


@function("clamp_min(input: T, min: Tn)")
def clamp_min(input, min):
    """input, at least min."""
    return clamp_fn(input, min, None)


@function("clamp_max(input: T, max: Tn)")
def clamp_max(input, max):
    """input, at most max."""
    return clamp_fn(input, None, max)


@function("clamp_min_(input: T, min: Tn)")
def clamp_min_(input, min):
    """In-place form of clamp_min."""
    return clamp_(input, min, None)


@function("clamp_max_(input: T, max: Tn)")
def clamp_max_(input, max):
    """In-place form of clamp_max."""
    return clamp_(input, None, max)


# ---- choices by a mask ----


def _refuse_mask(mask: Meta) -> None:
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")


def _fill_meta(input: Any, mask: Any, value: Any = None, **attrs: Any) -> Meta:
    _refuse_mask(mask)
    dt.element(value, input.dtype)
    shape = broadcast_shapes(*(m.shape for m in (input, mask, value) if isinstance(m, Meta)))
    from ..layout import elementwise_strides

    return Meta(shape, input.dtype, elementwise_strides(shape, [input, mask]))


def _filled(x: np.ndarray, mask: np.ndarray, value: Any, invert: bool) -> np.ndarray:
    if mask.dtype.kind != "b":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    if isinstance(value, np.ndarray):
        value = value.astype(x.dtype)
    else:
        value = x.dtype.type(dt.element(value, dt.FROM_NUMPY[x.dtype]))
    return pick(mask, x, value) if invert else pick(mask, value, x)


@op(
    "mask_fill(input: T, mask: T, value: num, invert: bool = False)",
    kind="pointwise",
    inplace=True,
    method=False,
    function=False,
)
class mask_fill:
    """input with the number value where mask holds (with invert: where it does not). The dtype is input's."""

    meta = _fill_meta

    def kernel(x, mask, value, invert=False):
        return _filled(x, mask, value, invert)

    def vjp_input(g, mask, invert):
        return mask_fill(g, mask, 0, invert)

    def scalar(b, x, mask, value, invert=False):
        value = b.const(dt.element(value, x.dtype), x.dtype)
        return b.where(mask, x, value) if invert else b.where(mask, value, x)

    def ref(x, mask, value, invert=False):
        return np.where(mask != invert, np.asarray(value, x.dtype), x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4, dtype=dt.bool_), 0.5)
        yield Sample(t(3, 4), t2(4, dtype=dt.bool_), -math.inf, grad=False)
        yield Sample(t(3, 1), t2(3, 4, dtype=dt.bool_), 2.0, True)

    def errors():
        yield (t(3), t(3), 1), {}, RuntimeError, "boolean masks"


@op("mask_fill_tensor(input: T, mask: T, value: T)", kind="pointwise", inplace=True, method=False, function=False)
class mask_fill_tensor:
    """input with value where mask holds (all broadcast). The dtype is input's."""

    meta = _fill_meta

    def kernel(x, mask, value):
        return _filled(x, mask, value, False)

    def vjp_input(g, mask):
        return mask_fill(g, mask, 0)

    def vjp_value(g, mask):
        return mask_fill(g, mask, 0, True)

    def scalar(b, x, mask, value):
        return b.where(mask, b.cast(value, x.dtype), x)

    def ref(x, mask, value):
        return np.where(mask, value.astype(x.dtype), x)

    def samples():
        yield Sample(t(3, 4), t2(3, 4, dtype=dt.bool_), t3())
        yield Sample(t(3, 1), t2(3, 4, dtype=dt.bool_), t3())


def _fill_entry(value: Any) -> Any:
    return mask_fill_tensor if hasattr(value, "_data") else mask_fill


def _fill_value(input: Any, mask: Any, value: Any) -> Any:
    """value, checked as masked_fill does."""
    for name, x in (("input", input), ("mask", mask)):
        if not hasattr(x, "_data"):
            raise TypeError(f"masked_fill(): argument '{name}' must be Tensor, not {type(x).__name__}")
    if not hasattr(value, "_data") and not isinstance(value, (int, float, np.number, np.bool_)):
        raise TypeError(f"masked_fill(): argument 'value' must be Number, not {type(value).__name__}")
    if hasattr(value, "_data") and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    return value


_mask_fill = mask_fill.fn


@function("masked_fill(input: T, mask: T, value: Tn)", direct=True)
def masked_fill(input, mask, value):
    """input with value where mask holds; value is a number or a 0-d tensor. The dtype is input's."""
    if type(value) is float and type(input) is Tensor and type(mask) is Tensor:
        return _mask_fill(input, mask, value)
    if isinstance(value, (SymbolicSize, SymbolicNumber)) and input.is_floating_point():
        value = input.new_ones(()) * value  # an integer dtype may have no such number: that is checked
    return _fill_entry(value)(input, mask, _fill_value(input, mask, value))


@function("masked_fill_(input: T, mask: T, value: Tn)", function=False)
def masked_fill_(input, mask, value):
    """In-place form of masked_fill."""
    if quietly_filled(input, mask, value):
        return input

    def write(d: np.ndarray) -> None:
        filled = masked_fill(input.detach(), mask, value)  # all that is checked
        np.copyto(d, filled._data, where=mask._data)

    if isinstance(input, Tensor) and isinstance(mask, Tensor) and into_expanded(input, "masked_fill_", write, mask):
        return input
    if isinstance(value, (SymbolicSize, SymbolicNumber)) and input.is_floating_point():
        value = input.new_ones(()) * value  # an integer dtype may have no such number: that is checked
    return in_place(_fill_entry(value))(input, mask, _fill_value(input, mask, value))


def _refuse_condition(condition: Any, *_: Any) -> None:
    if condition.dtype is not dt.bool_:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.name}"
        )


def _where_meta(condition: Any, input: Any, other: Any) -> Meta:
    _refuse_condition(condition)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"where: input and other are of dtypes {input.dtype.name} and {other.dtype.name}")
    shape = broadcast_shapes(condition.shape, input.shape, other.shape)
    from ..layout import elementwise_strides

    return Meta(shape, input.dtype, elementwise_strides(shape, [condition, input, other]))


@op("where(condition: T, input: T, other: T)", kind="pointwise", function=False, method=False)
class where_op:
    """Elements of input where condition holds, else of other; input and other are of one dtype."""

    meta = _where_meta

    def kernel(c, x, y):
        if c.dtype.kind != "b" or x.dtype is not y.dtype:
            raise TypeError("dtypes")  # the meta rule words it
        return pick(c, x, y)

    def vjp_input(g, condition):
        return mask_fill(g, condition, 0, True)

    def vjp_other(g, condition):
        return mask_fill(g, condition, 0)

    def scalar(b, c, x, y):
        return b.where(c, x, y)

    ref = np.where

    def samples():
        yield Sample(t(3, 4, dtype=dt.bool_), t2(3, 4), t3(3, 4))
        yield Sample(t(3, 4, dtype=dt.bool_), t2(4), t3(3, 1))

    def errors():
        yield (t(3), t(3), t(3)), {}, RuntimeError, "boolean tensor"


def _joint_dtype(*operands: Any) -> dt.dtype:
    """Result dtype of tensors and numbers."""
    strong, weak = [], []
    for x in operands:
        if not hasattr(x, "_data"):
            weak.append(dt.number_dtype(x))
        elif x._data is None and x._g.meta.weak:
            weak.append(x.dtype)
        else:
            strong.append((x.dtype, x.ndim > 0))
    return dt.result_type_of(strong, weak)


def _usual_where(condition: Any, x: Any, y: Any) -> bool:
    """Whether three plain tensors are a mask and two tensors of one dtype."""
    if type(condition) is not Tensor or type(x) is not Tensor or type(y) is not Tensor:
        return False
    c, a, b = condition._data, x._data, y._data
    return c is not None and a is not None and b is not None and c.dtype.kind == "b" and a.dtype is b.dtype


def _floats_beside(x: Any, number: Any) -> bool:
    """Whether ``x`` is a plain tensor of floats, whose dtype a plain number leaves as it is."""
    plain = type(number) is float or type(number) is int
    return plain and type(x) is Tensor and x._data is not None and x._data.dtype.kind == "f"


@function("where(condition: T, input: Tn, other: Tn)", method=False, direct=True)
def where(condition, input=None, other=None, *, out=None):
    """Elements of input where condition holds, else of other; with the condition alone: the indices where it holds."""
    if out is None and _usual_where(condition, input, other):
        return where_op.fn(condition, input, other)
    if out is None and type(condition) is Tensor and (c := condition._data) is not None and c.dtype.kind == "b":
        if _floats_beside(input, other):
            return mask_fill.fn(input, condition, other, True)
        if _floats_beside(other, input):
            return mask_fill.fn(other, condition, input)
    as_tensor(condition, ("where", "condition", 1))
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if input is None or other is None:
        missing = "input" if input is None else "other"
        raise TypeError(f"where() takes both 'input' and 'other', or neither: '{missing}' is missing")
    if condition.dtype is dt.uint8:
        condition = condition.bool()
    tensors = [hasattr(x, "_data") for x in (input, other)]
    if all(tensors) and input.dtype is other.dtype:
        return finish(where_op(condition, input, other), False, out, (condition, input, other))
    kind = _joint_dtype(input, other)
    input, other = (
        x.to(kind) if is_t and x.dtype is not kind else x for x, is_t in zip((input, other), tensors, strict=True)
    )
    if all(tensors):
        result = where_op(condition, input, other)
    elif condition.dtype is not dt.bool_:
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.name}"
        )
    elif tensors[0]:
        result = mask_fill(input, condition, other, True)
    else:
        result = mask_fill(other if tensors[1] else scalar_tensor(other, dtype=kind), condition, input)
    return finish(result, False, out, (condition, input, other))


@function("_where(input: T, condition: T, other: Tn)", function=False, names=("where",))
def where_method(input, condition, other):
    """input where condition holds, else other."""
    return where(condition, input, other)
