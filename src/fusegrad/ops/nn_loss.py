"""Losses of numbers: regression and likelihoods. Those of class indices are in nn_class_loss.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.undefined import no_gradient
from ..errors import warn
from ..meta import Meta
from ..op import Sample, function, late_op, op
from ._checked import floating
from ._native import dense, elementwise, scalar_kernel
from ._nn import data
from ._small import Small
from .checks import refuse_where
from .create import dense_strides

require = late_op("require")

_REDUCTIONS = ("none", "mean", "sum")


def reduction_of(reduction: str, size_average: Any = None, reduce: Any = None) -> str:
    """The reduction asked for, deprecated arguments included. ValueError for an unknown one."""
    if size_average is not None or reduce is not None:
        from ..nn.loss import legacy_reduction

        return legacy_reduction(size_average, reduce)
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(loss: Any, reduction: str) -> Any:
    """`loss` as it is, its mean or its sum."""
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" else loss.sum()


# ---- regression -------------------------------------------------------------------------------------


def _same_sizes(fn: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Both broadcast to one shape, with PyTorch's warning where they differ."""
    a, b = input._data, target._data
    if a is not None and b is not None and a.shape == b.shape:
        return input, target
    if tuple(input.shape) != tuple(target.shape):
        from .. import broadcast_tensors

        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will "
            "likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )
        return broadcast_tensors(input, target)
    return input, target


def _weighted(loss: Any, weight: Any, reduction: str, fn: str) -> Any:
    """Multiply by element weights; "mean" divides by the sum of the weights."""
    if weight is None:
        return reduced(loss, reduction)
    if tuple(weight.shape) != tuple(loss.shape):
        raise ValueError(f"{fn}: Weights and input must have the same size.")
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else reduced(loss, reduction)


def _no_bools(input, target):
    """PyTorch's kernels of differences take a bool beside a number, though ``-`` does not."""
    a, b = input._data, target._data
    if a is not None and b is not None and a.dtype is b.dtype:
        return input, target
    if target.dtype is dt.bool_ and input.dtype.is_floating_point:
        return input, target.to(input.dtype)
    if input.dtype is dt.bool_ and target.dtype.is_floating_point:
        return input.to(target.dtype), target
    return input, target


@function("nn.functional.mse_loss(input: T, target: T, weight: T)")
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2."""
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = _no_bools(*_same_sizes("mse_loss", input, target))
    if not input.dtype.is_floating_point and not target.dtype.is_floating_point:
        raise NotImplementedError(f"mse_loss is not implemented for {input.dtype.name}")
    return _weighted((input - target).square(), weight, reduction, "mse_loss")


@function("nn.functional.l1_loss(input: T, target: T, weight: T)")
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|."""
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = _same_sizes("l1_loss", input, target)
    return _weighted((input - target).abs(), weight, reduction, "l1_loss")


def _bent(b, g, x, edge, double, slope):
    signed = b.where(b.gt(x, b.const(0, x.dtype)), slope, b.neg(slope))
    return b.mul(g, b.where(b.ge(b.abs(x), edge), signed, b.mul(x, double)))


_BENT = Small(scalar_kernel("slope of bent abs", _bent, "g x", "edge double slope"), 2, 3)


@op("_bent_abs(input: T, edge: float, curve: float, slope: float)", kind="pointwise", method=False, function=False)
class _bent_abs:
    """curve * x^2 where |x| < edge, else slope * (|x| - edge / 2): the curves of smooth_l1_loss and huber_loss."""

    @elementwise("_bent_abs", "edge", "curve", "slope")
    def kernel(x, edge, curve, slope):
        size = np.abs(x)
        with np.errstate(over="ignore"):
            inner = x * x * x.dtype.type(curve)
        return np.where(size < edge, inner, (size - x.dtype.type(0.5 * edge)) * x.dtype.type(slope))

    def meta(x, edge, curve, slope):
        floating("smooth_l1_loss", x.dtype)
        return Meta(x.shape, x.dtype, x.strides and dense_strides(x))

    def scalar(b, x, edge, curve, slope):
        size = b.abs(x)
        return b.where(b.lt(size, edge), b.mul(b.mul(x, x), curve), b.mul(b.sub(size, b.mul(edge, 0.5)), slope))

    def on_arrays(g, input, edge, curve, slope):
        found = _BENT((g, input), (edge, 2 * curve, slope))
        return None if found is None else (found,)

    def vjp(g, input, edge, curve, slope):
        return g * (input.sign() * slope).where(input.abs() >= edge, input * (2 * curve))  # NaN stays NaN

    def samples():
        yield Sample(data(3, 4, scale=2), 1.0, 0.5, 1.0)
        yield Sample(data(3, 4, scale=2), 0.3, 0.5, 0.3)

    def ref(x, edge, curve, slope):
        return np.where(np.abs(x) < edge, x * x * curve, (np.abs(x) - edge / 2) * slope)


@function("nn.functional.smooth_l1_loss(input: T, target: T, beta: float)")
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """0.5 * d^2 / beta where |d| < beta, else |d| - 0.5 * beta."""
    reduction = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    input, target = _no_bools(*_same_sizes("smooth_l1_loss", input, target))
    if beta == 0.0:
        return reduced((input - target).abs(), reduction)
    d = input - target
    if type(beta) in (int, float):
        return reduced(_bent_abs.fn(d, float(beta), 0.5 / beta, 1.0), reduction)
    size = d.abs()
    d = d.masked_fill(size >= beta, 0)  # no square of an infinity, whose gradient would be NaN
    return reduced((d * d * (0.5 / beta)).where(size < beta, size - 0.5 * beta), reduction)


@function("nn.functional.huber_loss(input: T, target: T, delta: float, weight: T)")
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """0.5 * d^2 where |d| <= delta, else delta * (|d| - 0.5 * delta)."""
    reduction = reduction_of(reduction)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    kind = input.dtype
    input, target = _no_bools(*_same_sizes("huber_loss", input, target))
    d = input - target
    if d.dtype is not kind and kind.is_floating_point:  # the loss has the dtype of the input
        input, target = input.to(d.dtype), target.to(d.dtype)
        return huber_loss(input, target, reduction, delta, weight).to(kind)
    if type(delta) in (int, float):
        loss = _bent_abs.fn(d, float(delta), 0.5, float(delta))
        return reduced(loss, reduction) if weight is None else _weighted(loss, weight, reduction, "huber_loss")
    size = d.abs()
    d = d.masked_fill(size > delta, 0)  # no square of an infinity, whose gradient would be NaN
    return _weighted((d * d * 0.5).where(size <= delta, (size - 0.5 * delta) * delta), weight, reduction, "huber_loss")


# ---- likelihoods ------------------------------------------------------------------------------------


@function("nn.functional.binary_cross_entropy(input: T, target: T, weight: T)")
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(t log p + (1 - t) log(1 - p)) with the logarithms not below -100."""
    reduction = reduction_of(reduction, size_average, reduce)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. "
            "Please ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {target.dtype} but expected {input.dtype}")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"binary_cross_entropy is not implemented for {input.dtype.name}")
    no_gradient("binary_cross_entropy", weight=weight)
    loss = _bce(input, target)
    return reduced(loss if weight is None else loss * weight, reduction)


def _bce_rule(b: Any, p: Any, t: Any) -> Any:
    """The loss of one element; NaN for what is refused."""

    def c(v: float) -> Any:
        return b.const(v, p.dtype)

    loss = b.sub(b.mul(b.sub(t, c(1)), b.maximum(b.log1p(b.neg(p)), c(-100))), b.mul(t, b.maximum(b.log(p), c(-100))))
    for x in (p, t):
        loss = b.where(b.ge(x, c(0)), b.where(b.le(x, c(1)), loss, c(math.nan)), c(math.nan))
    return loss


_BCE = scalar_kernel("bce", _bce_rule, "p t")


@op("_bce(input: T, target: T)", kind="composite", method=False)
class _bce:
    """Binary cross entropy of probabilities, with logarithms clamped at -100."""

    def meta(p, t):
        return Meta(p.shape, p.dtype)

    def kernel(p, t):
        f = _BCE[p.dtype] if t.dtype is p.dtype else None
        if f is not None and p.shape == t.shape:
            out = np.empty(p.shape, p.dtype)
            f(dense(p), dense(t), out, out.size)
            total = np.add.reduce(out, None)
            if total == total:
                return out
        for a, name in ((p, "input"), (t, "target")):
            # (so that NaN is refused too)
            if a.size and not (np.minimum.reduce(a, None) >= 0 and np.maximum.reduce(a, None) <= 1):
                raise RuntimeError(f"all elements of {name} should be between 0 and 1")
        with np.errstate(divide="ignore"):
            a = np.maximum(np.log1p(-p), p.dtype.type(-100))
            b = np.maximum(np.log(p), p.dtype.type(-100))
        return np.asarray((t - 1) * a - t * b, dtype=p.dtype)

    def vjp_input(g, input, target):
        return g * (input - target) / ((1 - input) * input).clamp_min(1e-12)

    def vjp_target(g, input):
        return g * ((-input).log1p().clamp_min(-100.0) - input.log().clamp_min(-100.0))

    def decompose(p, t):
        fine = require((p >= 0).logical_and(p <= 1), error="all elements of input should be between 0 and 1")
        also = require((t >= 0).logical_and(t <= 1), error="all elements of target should be between 0 and 1")
        loss = (t - 1) * (-p).log1p().clamp_min(-100.0) - t * p.log().clamp_min(-100.0)
        return loss * fine.to(loss.dtype) * also.to(loss.dtype)

    def samples():
        yield Sample(1 / (1 + np.exp(-data(3, 4))), 1 / (1 + np.exp(-data(3, 4, seed=1))))

    def ref(p, t):
        return -(t * np.log(p) + (1 - t) * np.log1p(-p))

    def errors():
        for bad in (1.5, -0.5, np.nan):
            yield (np.array([0.5, bad]), np.array([0.0, 1.0])), {}, RuntimeError, "all elements of input"
            yield (np.array([0.5, 1.0]), np.array([0.0, bad])), {}, RuntimeError, "all elements of target"


@function("nn.functional.binary_cross_entropy_with_logits(input: T, target: T, weight: T, pos_weight: T)")
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """Binary cross entropy of sigmoid(input), computed stably."""
    reduction = reduction_of(reduction, size_average, reduce)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    if input.dtype.is_floating_point and not target.dtype.is_floating_point:
        raise RuntimeError(
            f"result type {input.dtype} can't be cast to the desired output type {target.dtype}: targets are floating "
            "point (target.to(input.dtype))"
        )
    no_gradient("binary_cross_entropy_with_logits", weight=weight, pos_weight=pos_weight)
    if pos_weight is None and target.dtype is input.dtype:
        loss = _bce_logits(input, target)
    else:
        from .. import nn

        logsig = nn.functional.logsigmoid(input)
        more = logsig if pos_weight is None else ((pos_weight - 1) * target + 1) * logsig
        loss = (1 - target) * input - more
    return reduced(loss if weight is None else loss * weight, reduction)


@op("_bce_logits(input: T, target: T)", kind="composite", method=False)
class _bce_logits:
    """(1 - t) x + max(-x, 0) + log(1 + exp(-|x|)), broadcasting."""

    def meta(x, t):
        from ..meta import broadcast_shapes

        floating("binary_cross_entropy_with_logits", x.dtype)
        return Meta(broadcast_shapes(x.shape, t.shape), x.dtype)

    def kernel(x, t):
        e = np.asarray(np.abs(x))
        np.negative(e, out=e)
        np.exp(e, out=e)
        np.log1p(e, out=e)
        e -= np.minimum(x, 0)
        e += (1 - t) * x
        return e

    def vjp_input(g, input, target):
        return g * (input.sigmoid() - target)

    def vjp_target(g, input):
        return -g * input

    def decompose(x, t):
        return (1 - t) * x - x.clamp_max(0.0) + (-x.abs()).exp().log1p()

    def samples():
        yield Sample(data(3, 4, scale=5), 1 / (1 + np.exp(-data(3, 4, seed=1))))

    def ref(x, t):
        return np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x)))


@function("nn.functional.kl_div(input: T, target: T, log_target: bool)")
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log target - input); "batchmean" divides the sum by the batch size."""
    if size_average is not None or reduce is not None:
        reduction = reduction_of(reduction, size_average, reduce)
    if reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size. 'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition."
        )
    elif reduction != "batchmean":
        reduction_of(reduction)
    if not input.dtype.is_floating_point or not target.dtype.is_floating_point:
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = target.xlogy(target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.ndim else loss.sum()
    return reduced(loss, reduction)


@function("nn.functional.poisson_nll_loss(input: T, target: T, log_input: bool, full: bool, eps: float)")
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    """exp(x) - t x for log rates, x - t log(x + eps) for rates; `full` adds Stirling's terms where t > 1."""
    reduction = reduction_of(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0)
    return reduced(loss, reduction)


@function("nn.functional.gaussian_nll_loss(input: T, target: T, var: Tn, full: bool, eps: float)")
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """0.5 * (log var + (x - t)^2 / var), var not below eps (its gradient ignores the clamp)."""
    from .. import no_grad

    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * input.new_ones(input.shape)
    else:
        refuse_where(lambda v: v < 0, var, "var has negative entry/entries", "ValueError")
    if tuple(var.shape) != tuple(input.shape):
        if tuple(input.shape[:-1]) == tuple(var.shape):
            var = var.unsqueeze(-1)
        elif input.ndim != var.ndim or not all(a == b or b == 1 for a, b in zip(input.shape, var.shape, strict=False)):
            raise ValueError("var is of incorrect size")
    reduction_of(reduction)
    var = var.clone()
    with no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (var.log() + (input - target).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return reduced(loss, reduction)
