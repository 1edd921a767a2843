"""Operators whose number is an attribute, written with operators that take it as an operand.

A float that changes between calls becomes an input of the graph; attributes of nodes are constants. Where such a float
is an attribute (a slope, a pad value, an eps), the call is made of other operators, with the values and the gradients
of the operator itself, at kinks too. The rest fixes the number at its present value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusegrad
from fusegrad import finfo
from fusegrad.dispatch import dispatch, take_draw
from fusegrad.op import TABLE
from fusegrad.size_values import SymbolicNumber
from fusegrad.tensor import Tensor

__all__ = ["TAKEN", "with_numbers"]

# Functions of the library that may be given a changing float as it is: they compute with it, compare it, or give it to
# an operator, and nothing else (a test runs each).
TAKEN = frozenset(
    """add addmm alpha_dropout baddbmm batch_norm celu celu_ cosine_embedding_loss cosine_similarity cross_entropy
    dropout dropout1d dropout2d dropout3d elu elu_ feature_alpha_dropout full full_like gaussian_nll_loss
    group_norm gumbel_softmax hardshrink hardtanh hardtanh_ hinge_embedding_loss huber_loss instance_norm
    layer_norm leaky_relu leaky_relu_ local_response_norm logit masked_fill masked_fill_ multi_margin_loss
    new_full normal_ normalize pad poisson_nll_loss rms_norm scaled_dot_product_attention smooth_l1_loss
    softplus softshrink sub threshold threshold_ triplet_margin_loss uniform_""".split()
)
_FORMS: dict[str, Callable[..., Any]] = {}
_DECOMPOSED = {"_moment_norm", "_rms_norm", "dropout"}


def with_numbers(builder: Any, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
    """A call of an operator with changing floats among its attributes."""
    kind = attrs.get("dtype") or (args[0].dtype if args else None)
    if kind is not None and kind.is_floating_point and _fits(attrs.get("value"), kind):
        if op.name in _DECOMPOSED:
            if attrs.get("draw", 0) is None:
                take_draw(op, attrs, builder)
            out = op.decompose(*args, **attrs)
            return tuple(map(_in_c_order, out)) if isinstance(out, tuple) else _in_c_order(out)
        form = _FORMS.get(op.name)
        if form is not None:
            return form(*args, **attrs)
    return dispatch(op, args, {k: float(v) if isinstance(v, SymbolicNumber) else v for k, v in attrs.items()})


def _in_c_order(t: Tensor) -> Tensor:
    """What the operators themselves promise; the operators that they are made of keep another order of axes."""
    return t if t._g.meta.strides is None else TABLE["clone"](t, memory_format="contiguous")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a number to fill with is one of this dtype (else the operator has its say)."""
    return not isinstance(value, SymbolicNumber) or bool(abs(value) <= finfo(kind).max)


def _form(name: str) -> Callable[[Any], Any]:
    def put(fn: Any) -> Any:
        assert name in TABLE, name
        _FORMS[name] = fn
        return fn

    return put


def _where(condition: Tensor, a: Any, b: Any) -> Tensor:
    a, b = (v.graph_number(None) if isinstance(v, SymbolicNumber) else v for v in (a, b))
    return fusegrad.where(condition, a, b)


@_form("leaky_relu")
def _leaky_relu(x: Tensor, negative_slope: Any) -> Tensor:
    return _where(x > 0, x, x * negative_slope)


@_form("elu")
def _elu(x: Tensor, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Tensor:
    low = (x.clamp(max=0) * input_scale).expm1() * (alpha * scale)
    return _where(x > 0, x * scale, low)


@_form("softplus")
def _softplus(x: Tensor, beta: Any = 1.0, threshold: Any = 20.0) -> Tensor:
    z = x * beta
    return _where(z > threshold, x, -fusegrad.nn.functional.logsigmoid(-z) / beta)


@_form("hardtanh")
def _hardtanh(x: Tensor, min_val: Any = -1.0, max_val: Any = 1.0) -> Tensor:
    if not min_val <= max_val:  # as for the number itself: which limit goes last
        return TABLE["hardtanh"](x, float(min_val), float(max_val))
    limited = _where(x < min_val, min_val, _where(x > max_val, max_val, x.detach()))
    return _where((x <= min_val).logical_or(x >= max_val), limited, x)


@_form("threshold")
def _threshold(x: Tensor, threshold: Any, value: Any) -> Tensor:
    return _where(x <= threshold, value, x)


@_form("hardshrink")
def _hardshrink(x: Tensor, lambd: Any = 0.5) -> Tensor:
    return _where((x >= -lambd).logical_and(x <= lambd), 0.0, x)


@_form("softshrink")
def _softshrink(x: Tensor, lambd: Any = 0.5) -> Tensor:
    if lambd < 0:
        return TABLE["softshrink"](x, float(lambd))  # the error
    return _where(x > lambd, x - lambd, _where(x < -lambd, x + lambd, x * 0))


@_form("mask_fill")
def _mask_fill(x: Tensor, mask: Tensor, value: Any, invert: bool = False) -> Tensor:
    return _where(mask, x, value) if invert else _where(mask, value, x)


@_form("fill_number")
def _fill_number(x: Tensor, value: Any) -> Tensor:
    return _where(fusegrad.ones_like(x, dtype=fusegrad.bool), value, x)


@_form("full_like")
def _full_like(x: Tensor, value: Any, dtype: Any = None) -> Tensor:
    zeros = fusegrad.zeros_like(x, dtype=x.dtype if dtype is None else dtype)
    return _where(zeros == 0, value, zeros)


@_form("full")
def _full(size: Any, value: Any, dtype: Any) -> Tensor:
    zeros = fusegrad.zeros(size, dtype=dtype)
    return _where(zeros == 0, value, zeros)


@_form("constant_pad")
def _constant_pad(x: Tensor, pad: Any, value: Any = 0) -> Tensor:
    inside = TABLE["constant_pad"](fusegrad.ones_like(x, dtype=fusegrad.bool), pad, False)
    return _where(inside, TABLE["constant_pad"](x, pad, 0), value)


@_form("logit")
def _logit(x: Tensor, eps: Any) -> Tensor:
    z = x.clamp(eps, 1 - eps)
    return (z / (1 - z)).log()
