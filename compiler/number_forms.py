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
from fusegrad.autograd.rooted import rooted
from fusegrad.dispatch import dispatch, take_draw
from fusegrad.op import TABLE
from fusegrad.size_values import SymbolicNumber
from fusegrad.tensor import Tensor

from .keeping import keep_as

__all__ = ["TAKEN", "with_numbers"]

# Functions of the library that may be given a changing float as it is: they compute with it, compare it, or give it to
# an operator, and nothing else (a test runs each).
TAKEN = frozenset(
    """add addmm addr allclose alpha_dropout baddbmm batch_norm celu celu_ cosine_embedding_loss
    cosine_similarity cross_entropy dropout dropout1d dropout2d dropout3d elu elu_ exponential_
    feature_alpha_dropout full full_like gaussian_nll_loss group_norm gumbel_softmax hardshrink hardtanh
    hardtanh_ hinge_embedding_loss huber_loss index_add index_add_ instance_norm isclose layer_norm leaky_relu
    leaky_relu_ linspace local_response_norm logit logspace margin_ranking_loss masked_fill masked_fill_
    multi_margin_loss nan_to_num nanquantile new_full normal normal_ normalize pad pairwise_distance poisson_nll_loss
    quantile renorm rms_norm rrelu scaled_dot_product_attention scatter scatter_ smooth_l1_loss softplus softshrink sub
    threshold threshold_ trapezoid triplet_margin_loss uniform_""".split()
)
_FORMS: dict[str, Callable[..., Any]] = {}
_DECOMPOSED = {"_moment_norm", "_rms_norm", "dropout"}
_IN_NAME = {"leaky_relu", "hardtanh", "threshold", "hardshrink", "softshrink"}  # their gradients depend on x in name


def with_numbers(builder: Any, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
    """A call of an operator with changing floats among its attributes."""
    kind = attrs.get("dtype") or (args[0].dtype if args else None)
    if kind is not None and kind.is_floating_point and _fits(attrs.get("value"), kind):
        if op.name in _DECOMPOSED:
            if attrs.get("draw", 0) is None:
                take_draw(op, attrs, builder)
            out = op.decompose(*args, **attrs)
            out = tuple(map(_in_c_order, out)) if isinstance(out, tuple) else _in_c_order(out)
            return keep_as(op, args, attrs, out)
        form = _FORMS.get(op.name)
        if form is not None:
            given = (rooted(args[0]), *args[1:]) if op.name in _IN_NAME else args
            return keep_as(op, args, attrs, form(*given, **attrs))
    return dispatch(op, args, {k: float(v) if isinstance(v, SymbolicNumber) else v for k, v in attrs.items()})


def _in_c_order(t: Tensor) -> Tensor:
    """What the operators themselves promise; the operators that they are made of keep another order of axes."""
    return t if t._g.meta.strides is None else TABLE["clone"](t, memory_format="contiguous")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a number to fill with is one of this dtype (else the operator has its say); guarded."""
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
    one = fusegrad.ones((), dtype=x.dtype)
    return x * _where(x > 0, one, negative_slope)  # its gradient is exact for an infinite slope, too


@_form("elu")
def _elu(x: Tensor, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Tensor:
    low = (x.clamp(max=0) * input_scale).expm1() * (alpha * scale)
    return _where(x > 0, x * scale, low)


@_form("softplus")
def _softplus(x: Tensor, beta: Any = 1.0, threshold: Any = 20.0) -> Tensor:
    if not 0 < abs(beta) < float("inf"):  # the form's gradient would be inf * 0
        return TABLE["softplus"](x, float(beta), float(threshold))
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


@_form("nan_to_num")
def _nan_to_num(x: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Tensor:
    if not all(_fits(v, x.dtype) for v in (nan, posinf, neginf)):
        return TABLE["nan_to_num"](x, *(v if v is None else float(v) for v in (nan, posinf, neginf)))
    big = finfo(x.dtype).max
    up = _where(x == float("inf"), big if posinf is None else posinf, x)
    down = _where(x == float("-inf"), -big if neginf is None else neginf, up)
    return _where(x.isnan(), 0.0 if nan is None else nan, down)


@_form("isclose")
def _isclose(x: Tensor, y: Tensor, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    if x.dtype is not y.dtype or rtol < 0 or atol < 0:
        return TABLE["isclose"](x, y, float(rtol), float(atol), equal_nan)  # the error
    close, error = x == y, (x - y).abs()
    if equal_nan:
        close = close.logical_or(x.isnan().logical_and(y.isnan()))
    return close.logical_or(error.isfinite().logical_and(error <= (y * rtol).abs() + atol))


@_form("scatter_value")
def _scatter_value(x: Tensor, index: Tensor, value: Any, dim: int) -> Tensor:
    return TABLE["scatter"](x, index, _full(index.shape, value, x.dtype), dim)


@_form("index_add")
def _index_add(x: Tensor, index: Tensor, source: Tensor, dim: int, alpha: Any = 1) -> Tensor:
    return TABLE["index_add"](x, index, source * alpha, dim)


@_form("linspace")
def _linspace(start: Any, end: Any, steps: Any, dtype: Any) -> Tensor:
    i = fusegrad.arange(steps, dtype=fusegrad.float64)
    if steps <= 1:
        return (i + start).to(dtype)
    step, half = (end - start) / (steps - 1), steps // 2
    return _where(i < half, i * step + start, ((steps - 1) - i) * -step + end).to(dtype)
