"""Losses by margins and distances, and the distances themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.modes import SLOW
from ..autograd.undefined import no_gradient
from ..meta import Meta
from ..op import Inline, Sample, function, late_function, op
from ._native import dense
from ._nn import data, shape_list
from .nn_loss import reduced, reduction_of
from .norms import vector_norm_op
from .pointwise_math import sigmoid
from .reduce import sum_

cat = late_function("cat")
_SMALL = 16384  # elements: the operators themselves have native derivatives beyond


def _f() -> Any:
    from .. import nn

    return nn.functional


@op("_glu(input: T, dim: dim)", kind="composite", method=False)
class _glu:
    """a * sigmoid(b) for the halves a and b of ``input`` along ``dim``."""

    def meta(m, dim):
        return Meta((*m.shape[:dim], m.shape[dim] // 2, *m.shape[dim + 1 :]), m.dtype)

    def kernel(x, dim):
        n = x.shape[dim]
        if n % 2 or x.dtype.kind != "f":
            raise ValueError
        before = (slice(None),) * dim
        return x[(*before, slice(n // 2))] * sigmoid.kernel(dense(x[(*before, slice(n // 2, n))]))

    def vjp(g, input, dim):
        a, b = input.chunk(2, dim)
        s = b.sigmoid()
        return cat((g * s, (g * a) * ((1 - s) * s)), dim)

    def decompose(x, dim):
        a, b = x.chunk(2, dim)
        return a * b.sigmoid()

    def samples():
        yield Sample(data(3, 4), 1)
        yield Sample(data(2, 4, 3), 1)


@function(
    "nn.functional.glu(input: T, dim: dim)",
    inline=Inline(
        _glu,
        "a0.dtype.char in 'fd' and type(dim) is int and -(n := a0.ndim) <= dim < n and not a0.shape[dim] % 2",
        dim="dim % n",
    ),
)
def glu(input, dim=-1):
    """a * sigmoid(b) for the halves a and b of `input` along `dim`."""
    if input.ndim == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"glu is not implemented for {input.dtype.name}")
    size = input.shape[dim]
    if size % 2 != 0:
        d = dim % input.ndim
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {size}")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


# ---- distances --------------------------------------------------------------------------------------


def _at_least(norm: Any, eps: float) -> Any:
    """`norm` not below eps, with the gradient of `norm` itself."""
    fixed = norm.detach()
    return norm.where(fixed >= eps, norm - fixed + eps)  # (a norm may be infinite)


def _length(x: np.ndarray, dim: int) -> np.ndarray:
    return vector_norm_op.kernel(x, 2, (dim,), True)


@op("_cosines(x1: T, x2: T, dim: dim, eps: float)", kind="composite", method=False, function=False)
class _cosines:
    """(x1 / max(|x1|, eps)) (x2 / max(|x2|, eps)), the norms along ``dim``: what ``cosine_similarity`` adds up."""

    def meta(m, x2, dim, eps):
        return Meta(m.shape, m.dtype)

    def kernel(x1, x2, dim, eps):
        out = x1 / np.maximum(_length(x1, dim), x1.dtype.type(eps))
        out *= x2 / np.maximum(_length(x2, dim), x1.dtype.type(eps))
        return out

    def vjp(g, x1, x2, dim, eps, need):
        n1, n2 = (vector_norm_op(x, 2, (dim,), True) for x in (x1, x2))
        m1, m2 = _at_least(n1, eps), _at_least(n2, eps)
        u1, u2 = x1 / m1, x2 / m2

        def back(g: Any, x: Any, n: Any, m: Any, u: Any) -> Any:
            along = (g * u).sum(dim, True) / m
            return (g / m - x * (along / n).masked_fill(n == 0, 0)).contiguous()

        return back(g * u2, x1, n1, m1, u1) if need[0] else None, back(g * u1, x2, n2, m2, u2) if need[1] else None

    def on_arrays(g, x1, x2, dim, eps, need):
        with np.errstate(all="ignore"):
            n1, n2 = _length(x1, dim), _length(x2, dim)
            m1, m2 = np.maximum(n1, x1.dtype.type(eps)), np.maximum(n2, x1.dtype.type(eps))
            u1, u2 = x1 / m1, x2 / m2

            def back(g: Any, x: Any, n: Any, m: Any, u: Any) -> Any:
                along = sum_.kernel(g * u, (dim,), True) / m / n
                along[n == 0] = 0
                return np.subtract(g / m, x * along, order="C")  # in one layout, as the rule above

            given = need[0] is not None, need[1] is not None
            return (
                back(g * u2, x1, n1, m1, u1) if given[0] else None,
                back(g * u1, x2, n2, m2, u2) if given[1] else None,
            )

    def decompose(x1, x2, dim, eps):
        n1, n2 = (_at_least(vector_norm_op(x, 2, (dim,), True), eps) for x in (x1, x2))
        return (x1 / n1) * (x2 / n2)

    def samples():
        yield Sample(data(3, 4), data(3, 4) + 0.5, 1, 1e-8)
        yield Sample(data(2, 4, 3), data(2, 4, 3) - 0.5, 1, 1e-8)


@function("nn.functional.cosine_similarity(x1: T, x2: T, dim: dim, eps: float)", names=("cosine_similarity",))
def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`, broadcasting."""
    a, b = x1._data, x2._data
    if a is not None is not b and a.shape == b.shape and a.dtype is b.dtype and a.dtype.char in "fd" and not SLOW[0]:
        if 0 < a.size <= _SMALL and type(dim) is int and -(n := a.ndim) <= dim < n and type(eps) is float:
            return _cosines(x1, x2, dim % n, eps).sum(dim)
    from .. import broadcast_tensors
    from ..dtypes import promote_types

    kind = promote_types(x1.dtype, x2.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {kind.name}")
    x1, x2 = broadcast_tensors(x1.to(kind), x2.to(kind))
    n1 = _at_least(x1.norm(2, dim, keepdim=True), eps)
    n2 = _at_least(x2.norm(2, dim, keepdim=True), eps)
    return ((x1 / n1) * (x2 / n2)).sum(dim)


@function(
    "nn.functional.pairwise_distance(x1: T, x2: T, p: float, eps: float, keepdim: bool)", names=("pairwise_distance",)
)
def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim=keepdim)


# ---- losses -----------------------------------------------------------------------------------------


@function("nn.functional.margin_ranking_loss(input1: T, input2: T, target: T, margin: float)")
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target * (input1 - input2) + margin)."""
    reduction = reduction_of(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{shape_list(input1)}, input2: {shape_list(input2)}, target: {shape_list(target)} "
        )
    return reduced((-target * (input1 - input2) + margin * 1.0).clamp_min(0), reduction)


@function("nn.functional.hinge_embedding_loss(input: T, target: T, margin: float)")
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    far = (margin - input).clamp_min(0).masked_fill(target == 1, 0)
    near = input.masked_fill(target == -1, 0)
    return reduced(far + near, reduction)


@function("nn.functional.soft_margin_loss(input: T, target: T)")
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input))."""
    reduction = reduction_of(reduction, size_average, reduce)
    no_gradient("soft_margin_loss", target=target)
    return reduced((-input * target).exp().log1p(), reduction)


@function("nn.functional.multilabel_soft_margin_loss(input: T, target: T, weight: T)")
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over the last dimension of the binary cross entropy of logits."""
    reduction = reduction_of(reduction, size_average, reduce)
    logsigmoid = _f().logsigmoid
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return reduced(loss.sum(-1) / input.shape[-1], reduction)


@function(
    "nn.functional.cosine_embedding_loss(input1: T, input2: T, target: T, margin: float)",
    names=("cosine_embedding_loss",),
)
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    reduction = reduction_of(reduction, size_average, reduce)
    if target.ndim not in (0, 1) or not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            f"{'0D or 1D target tensor expected, multi-target not supported' if target.ndim > 1 else ''}"
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found inputs with sizes "
            f"{shape_list(input1)} and {shape_list(input2)}."
        )
    tiny = 1e-12
    square1, square2 = (x.square().sum(-1) + tiny for x in (input1, input2))
    cos = (input1 * input2).sum(-1) / (square1 * square2).sqrt()
    same = (1 - cos).masked_fill(target != 1, 0)
    other = (cos - margin).clamp_min(0).masked_fill(target != -1, 0)
    return reduced(same + other, reduction)


@function(
    "nn.functional.triplet_margin_loss(anchor: T, positive: T, negative: T, margin: float, p: num, "
    "eps: float, swap: bool)",
    names=("triplet_margin_loss",),
)
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with the p-norm distance."""
    reduction = reduction_of(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced((margin + near - far).clamp_min(0), reduction)


@function(
    "nn.functional.triplet_margin_with_distance_loss(anchor: T, positive: T, negative: T, margin: float, swap: bool)"
)
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """Triplet loss with a distance function of the user's."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    reduction_of(reduction)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs"
        )
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((margin + near - far).clamp_min(0), reduction)


@function("nn.functional.multi_margin_loss(input: T, target: T, p: num, margin: num, weight: T)")
def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over the other classes i of max(0, margin - x[y] + x[i])^p, times the weight of y."""
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    x = input if input.ndim == 2 else input.reshape(1, -1)
    t = target.reshape(-1)
    if input.ndim > 2 or x.shape[1] == 0:
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {shape_list(input)}"
        )
    if t.shape[0] != x.shape[0]:
        raise RuntimeError(f"inconsistent target size, expected {x.shape[0]} but got {shape_list(target)}")
    if weight is not None and weight.shape[0] != x.shape[1]:
        raise RuntimeError(f"inconsistent weight size, expected {x.shape[1]} but got {shape_list(weight)}")
    no_gradient("multi_margin_loss", weight=weight)
    own = x.gather(1, t.unsqueeze(1))
    z = margin - own + x
    z = z.masked_fill((z > 0).logical_not(), 0)  # nothing of a NaN or at the edge, as in PyTorch
    z = z if p == 1 else z * z
    if weight is not None:
        z = z * weight.index_select(0, t).unsqueeze(1)
    is_own = _f().one_hot(t, int(x.shape[1])) != 0
    loss = z.masked_fill(is_own, 0).sum(1) / x.shape[1]
    loss = loss if target.ndim else loss.squeeze(0)
    return reduced(loss, reduction)


@function("nn.functional.multilabel_margin_loss(input: T, target: T)")
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Sum over targets j (up to the first -1) and other classes i of max(0, 1 - x[j] + x[i]), over the classes."""
    from .. import arange

    reduction = reduction_of(reduction, size_average, reduce)
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {shape_list(input)}"
        )
    if tuple(input.shape) != tuple(target.shape):
        raise RuntimeError(f"inconsistent target size: {shape_list(target)} for input of size: {shape_list(input)}")
    x, t = input.reshape(-1, input.shape[-1] if input.ndim else 1), target
    t = t.reshape(x.shape)
    classes = x.shape[1]
    counts = (t < 0).to(x.dtype).cumsum(1) == 0  # before the first -1
    safe = t.masked_fill(~counts, 0)
    hit = (safe.unsqueeze(2) == arange(classes)) & counts.unsqueeze(2)
    is_target = hit.any(1)
    z = 1 - x.gather(1, safe).unsqueeze(2) + x.unsqueeze(1)
    z = z.masked_fill((z > 0).logical_not(), 0)  # nothing of a NaN or at the edge, as in PyTorch
    z = z.masked_fill(~counts.unsqueeze(2), 0).masked_fill(is_target.unsqueeze(1), 0)
    loss = z.sum((1, 2)) / classes
    return reduced(loss if input.ndim == 2 else loss.squeeze(0), reduction)
