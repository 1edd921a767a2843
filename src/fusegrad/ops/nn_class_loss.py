"""Losses of class indices: cross entropy and negative log likelihood, with the gather and its transpose they need."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import as_int, as_tensor
from ..autograd.names import named
from ..autograd.rooted import rooted
from ..autograd.undefined import no_gradient
from ..meta import Meta
from ..op import Sample, function, op
from ..tensor import Tensor
from . import _native_norm as native
from ._checked import floating
from ._index_kernels import grids, in_range
from ._nn import data, indices, prod, shape_list
from .nn_loss import reduced, reduction_of
from .nn_softmax import _log_softmax

_INT64 = np.dtype(np.int64)


def _classes(ndim: int) -> int:
    """The class dimension of an input of `ndim` dimensions."""
    return 0 if ndim == 1 else 1


def _all_classes(target: np.ndarray, classes: int) -> bool:
    """Whether all targets (there are some) are classes."""
    if target.dtype is _INT64:
        return in_range(target, classes)
    return bool(target.min() >= 0 and target.max() < classes)


def _check_targets(target: np.ndarray, classes: int, ignore_index: int) -> np.ndarray | None:
    """Mask of the targets that count, or None if all do. IndexError for a target that is no class."""
    if not target.size or _all_classes(target, classes):
        inside = 0 <= ignore_index < classes
        keep = target != ignore_index if inside else None
        return None if keep is None or keep.all() else keep
    bad = (target < 0) | (target >= classes)
    wrong = target[bad & (target != ignore_index)]
    if wrong.size:
        raise IndexError(f"Target {wrong.flat[0]} is out of bounds.")
    return target != ignore_index


def _count(keep: np.ndarray | None, target: np.ndarray) -> int:
    """The number of targets that count."""
    return target.size if keep is None else int(np.count_nonzero(keep))


def _summed(loss: np.ndarray, target: np.ndarray, ignore_index: int, reduction: str) -> np.ndarray:
    """Losses that are 0 at ignored targets, reduced."""
    if reduction == "none":
        return loss
    total = np.add.reduce(loss, None)
    if reduction == "mean":
        total = total / loss.dtype.type(np.count_nonzero(target != ignore_index))
    return np.asarray(total)


@op(
    '_cross_entropy(input: T, target: T, ignore_index: int = -100, reduction: str = "mean")',
    kind="composite",
    method=False,
    n_out=2,
)
class _cross_entropy:
    """The cross entropy of logits with class indices, and the log probabilities."""

    partial = True

    def meta(x, target, ignore_index, reduction):
        _log_softmax.meta(x, _classes(len(x.shape)))
        shape = _pick_class.meta(x, target, ignore_index).shape if reduction == "none" else ()
        return Meta(shape, x.dtype), Meta(x.shape, x.dtype)

    def kernel(x, target, ignore_index, reduction):
        if (found := native.cross_entropy(x, target, ignore_index, reduction)) is not None:
            return found
        d = _classes(x.ndim)
        if (both := native.image_loss(x, target, ignore_index, True)) is not None:
            return _summed(both[0], target, ignore_index, reduction), both[1]
        keep = _check_targets(target, x.shape[d], ignore_index)
        logp = _log_softmax.kernel(x, dim=d)
        safe = target if keep is None else np.where(keep, target, 0)
        if x.ndim == 2:
            loss = logp[np.arange(x.shape[0]), safe]
        else:
            loss = np.take_along_axis(logp, np.expand_dims(safe, d).astype(np.int64, copy=False), d)
            loss = loss.reshape(target.shape)
        np.negative(loss, out=loss)
        if keep is not None:
            loss[~keep] = 0
        if reduction == "none":
            return loss, logp
        total = np.add.reduce(loss, None)
        if reduction == "mean":
            total = total / x.dtype.type(_count(keep, target))
        return np.asarray(total), logp

    def vjp(g0, g1, target, out1, ignore_index, reduction, need):
        gx = None
        if g0 is not None:
            gx = _cross_entropy_grad(g0, out1, target, ignore_index, reduction)
        if g1 is not None:
            through = g1 - out1.exp() * g1.sum(_classes(out1.ndim), keepdim=True)
            gx = through if gx is None else gx + through
        return gx, None

    any_dtype = ("target",)

    def on_arrays(g, target, out1, ignore_index, reduction):
        return _cross_entropy_grad.kernel(g, out1, target, ignore_index, reduction), None

    def decompose(x, target, ignore_index, reduction):
        logp = _log_softmax(x, _classes(x.ndim))
        loss = _pick_class(logp, target, ignore_index)
        if reduction == "mean":
            return loss.sum() / (target != ignore_index).sum(), logp
        return reduced(loss, reduction), logp

    def samples():
        yield Sample(data(5, 4), indices(4, 5))
        yield Sample(data(2, 3, 4), indices(3, 2, 4), -100, "sum")
        yield Sample(data(5, 4), np.array([0, 1, -100, 3, 2]), -100, "none")
        yield Sample(data(5, 4), np.array([0, 1, 1, 3, 2]), 1)
        yield Sample(data(4), np.array(2))

    def ref(x, target, ignore_index=-100, reduction="mean"):
        logp = _log_softmax.ref(x, _classes(x.ndim))
        loss = _pick_class.ref(logp, target, ignore_index)
        if reduction == "none":
            return loss, logp
        return (loss.sum() if reduction == "sum" else loss.sum() / (target != ignore_index).sum()), logp

    def errors():
        yield (data(5, 4), np.array([0, 1, 4, 0, 0])), {}, IndexError, "out of bounds"


@op(
    '_cross_entropy_grad(grad: T, logp: T, target: T, ignore_index: int = -100, reduction: str = "mean")',
    kind="composite",
    method=False,
)
class _cross_entropy_grad:
    """(softmax - one hot) * grad (over the number of targets for "mean"), 0 where the target is ignored."""

    def meta(g, logp, target, ignore_index, reduction):
        return Meta(logp.shape, logp.dtype)

    def kernel(g, logp, target, ignore_index, reduction):
        if (found := native.cross_entropy_grad(g, logp, target, ignore_index, reduction)) is not None:
            return found
        d = _classes(logp.ndim)
        keep = target != ignore_index  # the classes themselves were checked in the forward operator
        keep = None if keep.all() else keep
        if logp.ndim > 2:
            each = g / logp.dtype.type(_count(keep, target)) if reduction == "mean" else g
            each = np.broadcast_to(each, target.shape) if keep is None else np.where(keep, each, logp.dtype.type(0))
            if (found := native.image_loss_grad(each, logp, target)) is not None:
                return found
        safe = target if keep is None else np.where(keep, target, 0)
        out = np.exp(logp)
        if logp.ndim == 2:
            out[np.arange(logp.shape[0]), safe] -= 1
        else:
            at = np.expand_dims(safe, d)
            np.put_along_axis(out, at, np.take_along_axis(out, at, d) - 1, d)
        factor = g / logp.dtype.type(_count(keep, target)) if reduction == "mean" else g
        if keep is not None:
            factor = np.where(keep, factor, logp.dtype.type(0))
        out *= np.expand_dims(factor, d) if np.ndim(factor) else factor
        return out

    def vjp_grad(g, logp, target, ignore_index, reduction):
        through = (g * _cross_entropy_grad(g.new_ones(()), logp, target, ignore_index, "sum")).sum(_classes(logp.ndim))
        if reduction == "mean":
            return through.sum() / (target != ignore_index).sum()
        return reduced(through, reduction)

    def vjp_logp(g, grad, logp, target, ignore_index, reduction):
        return g * logp.exp() * _target_factor(grad, target, ignore_index, reduction, _classes(logp.ndim))

    def decompose(g, logp, target, ignore_index, reduction):
        from .. import arange, ones

        d = _classes(logp.ndim)
        classes = arange(logp.shape[d]).view(*(-1 if i == d else 1 for i in range(logp.ndim)))
        # 1 everywhere, but a wrong class is refused also where nobody reads the loss itself
        known = _at_class(ones((), dtype=logp.dtype).expand(logp.shape), target.masked_fill(target == ignore_index, 0))
        hit = (classes == target.unsqueeze(d)).to(logp.dtype) * known.unsqueeze(d)
        return (logp.exp() - hit) * _target_factor(g, target, ignore_index, reduction, d)

    def samples():
        yield Sample(np.array(1.5), _log_softmax.ref(data(5, 4), 1), indices(4, 5))
        yield Sample(np.array(1.5), _log_softmax.ref(data(2, 3, 4), 1), indices(3, 2, 4), -100, "sum")
        yield Sample(data(5), _log_softmax.ref(data(5, 4), 1), np.array([0, 1, -100, 3, 2]), -100, "none")


def _target_factor(g: Any, target: Any, ignore_index: int, reduction: str, dim: int) -> Any:
    """What every row of the gradient is multiplied by: broadcasts against the input."""
    keep = target != ignore_index
    factor = g / keep.sum() if reduction == "mean" else g
    return factor.where(keep, 0.0).unsqueeze(dim)  # nothing of a gradient that is inf or NaN


def _pick_grad(g: Any, target: Any, shape: Any, ignore_index: int) -> Any:
    """-g at the target classes, 0 elsewhere and where target is ignore_index."""
    from .. import arange

    d = _classes(len(shape))
    classes = arange(shape[d], dtype=target.dtype).view(*(-1 if i == d else 1 for i in range(len(shape))))
    if d < len(shape) and (ignore_index < 0 or isinstance(shape[d], int) and ignore_index >= shape[d]):
        hit = classes == target.unsqueeze(d)  # an ignored target equals no class
    else:
        hit = (classes == target.unsqueeze(d)) & (target.unsqueeze(d) != ignore_index)
    return (-g.unsqueeze(d)).where(hit, 0.0).contiguous()


@op("_at_class(input: T, target: T)", kind="gather", method=False)
class _at_class:
    """input at the target class along the class dimension; an IndexError names a target that is no class."""

    def meta(x, target):
        d = _classes(len(x.shape))
        return Meta((*x.shape[:d], *x.shape[d + 1 :]), x.dtype)

    def kernel(x, target):
        return np.negative(_pick_class.kernel(x, target, -1 - x.shape[_classes(x.ndim)]))

    def vjp_input(g, target, input_meta):
        return -_pick_grad(g, target, input_meta.shape, -100)

    def samples():
        yield Sample(data(5, 4), indices(4, 5))
        yield Sample(data(2, 3, 4), indices(3, 2, 4))
        yield Sample(data(4), np.array(2))

    def ref(x, target):
        return -_pick_class.ref(x, target)

    def errors():
        yield (data(5, 4), np.array([0, 1, 4, 0, 0])), {}, IndexError, "out of bounds"


@op("_pick_class(input: T, target: T, ignore_index: int = -100)", kind="composite", method=False)
class _pick_class:
    """-input at the target class along the class dimension, 0 where target is ignore_index."""

    def meta(x, target, ignore_index):
        d = _classes(len(x.shape))
        return Meta((*x.shape[:d], *x.shape[d + 1 :]), x.dtype)

    def kernel(x, target, ignore_index):
        if (both := native.image_loss(x, target, ignore_index, False)) is not None:
            return both[0]
        d = _classes(x.ndim)
        keep = _check_targets(target, x.shape[d], ignore_index)
        safe = target if keep is None else np.where(keep, target, 0)
        if x.ndim == 2 and x.shape[0] <= 4096:
            out = x[grids(target.shape)[0], safe]
            np.negative(out, out)
        else:
            out = np.take_along_axis(x, np.expand_dims(safe, d).astype(np.int64, copy=False), d)
            out = np.negative(out.reshape(target.shape))
        return out if keep is None else np.where(keep, out, x.dtype.type(0))

    def vjp_input(g, target, input_meta, ignore_index):
        return _pick_grad(g, target, input_meta.shape, ignore_index)

    any_dtype = ("target",)

    def on_arrays(g, target, input_meta, ignore_index):
        d = _classes(len(input_meta.shape))
        keep = target != ignore_index  # the classes themselves were checked in the forward operator
        found = np.zeros(input_meta.shape, g.dtype)
        at = np.expand_dims(np.where(keep, target, 0).astype(np.int64, copy=False), d)
        np.put_along_axis(found, at, np.expand_dims(np.where(keep, -g, g.dtype.type(0)), d), d)
        return found, None

    def decompose(x, target, ignore_index):
        keep = target != ignore_index
        return (-_at_class(x, target.masked_fill(~keep, 0))).masked_fill(~keep, 0.0)

    def samples():
        yield Sample(data(5, 4), indices(4, 5))
        yield Sample(data(2, 3, 4), indices(3, 2, 4))
        yield Sample(data(5, 4), np.array([0, 1, -100, 3, 2]))
        yield Sample(data(4), np.array(2))

    def ref(x, target, ignore_index=-100):
        d = 0 if x.ndim == 1 else 1
        safe = np.where(target == ignore_index, 0, target)
        out = -np.take_along_axis(x, np.expand_dims(safe, d), d).squeeze(d)
        return np.where(target == ignore_index, 0, out)

    def errors():
        yield (data(5, 4), np.array([0, 1, 4, 0, 0])), {}, IndexError, "out of bounds"


@op(
    '_nll_loss(input: T, target: T, ignore_index: int = -100, reduction: str = "mean")',
    kind="composite",
    method=False,
)
class _nll_loss:
    """``_pick_class`` with its mean over the targets that count, its sum, or as it is."""

    rooted = True

    def meta(x, target, ignore_index, reduction):
        shape = _pick_class.meta(x, target, ignore_index).shape
        return Meta(shape if reduction == "none" else (), x.dtype)

    def kernel(x, target, ignore_index, reduction):
        if (found := native.class_loss(x, target, ignore_index, reduction)) is not None:
            return found
        loss = _pick_class.kernel(x, target, ignore_index)
        if reduction == "none":
            return loss
        total = np.add.reduce(loss, None, keepdims=True)
        if reduction == "mean":
            total = total / x.dtype.type((target != ignore_index).sum())
        return total.reshape(())

    def vjp_input(g, target, input_meta, ignore_index, reduction):
        keep = target != ignore_index
        if reduction == "mean":
            g = g / keep.sum()
        g = g if reduction == "none" else g.expand(target.shape)
        return _pick_grad(g.masked_fill(~keep, 0.0), target, input_meta.shape, ignore_index)  # 0 if none counts

    any_dtype = ("target",)

    def on_arrays(g, target, input_meta, ignore_index, reduction):
        shape = input_meta.shape
        if len(shape) != 2 or target.ndim != 1:
            return None
        keep = target != ignore_index
        if reduction == "mean":
            g = g / g.dtype.type(np.count_nonzero(keep))
        out = np.zeros(shape, g.dtype)
        if keep.all():
            out[grids(target.shape)[0], target] = -g
        else:
            rows = np.flatnonzero(keep)
            out[rows, target[rows]] = -g if g.ndim == 0 else -g[rows]
        return (out,)

    def decompose(x, target, ignore_index, reduction):
        loss = _pick_class(x, target, ignore_index)
        if reduction == "mean":
            return loss.sum() / (target != ignore_index).sum()
        return reduced(loss, reduction)

    def samples():
        yield Sample(data(5, 4), indices(4, 5))
        yield Sample(data(2, 3, 4), indices(3, 2, 4), -100, "sum")
        yield Sample(data(5, 4), np.array([0, 1, -100, 3, 2]), -100, "none")
        yield Sample(data(5, 4), np.array([0, 1, 1, 3, 2]), 1)
        yield Sample(data(4), np.array(2))

    def ref(x, target, ignore_index=-100, reduction="mean"):
        loss = _pick_class.ref(x, target, ignore_index)
        if reduction == "none":
            return loss
        return loss.sum() if reduction == "sum" else loss.sum() / (target != ignore_index).sum()

    def errors():
        yield (data(5, 4), np.array([0, 1, 4, 0, 0])), {}, IndexError, "out of bounds"


def _check_class_loss(fn: str, input: Any, target: Any) -> None:
    if input.ndim < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {input.ndim})")
    want = (*input.shape[:1], *input.shape[2:]) if input.ndim > 1 else ()
    if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}")
    if input.ndim > 1 and target.ndim and input.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    if tuple(target.shape) != tuple(want):
        raise RuntimeError(
            f"{fn}: Expected target size {list(want)}, got {shape_list(target)} (input of size {shape_list(input)})"
        )
    if target.dtype.is_floating_point or target.dtype.name not in ("int64", "uint8"):
        raise RuntimeError(f"{fn}: expected target of dtype int64 (class indices), but got {target.dtype.name}")


def _usual_classes(input: Any, target: Any) -> bool:
    """Whether plain tensors are logits (N, C) and class indices (N,)."""
    if type(input) is not Tensor or type(target) is not Tensor:
        return False
    a, b = input._data, target._data
    if a is None or b is None:
        return False
    return a.ndim == 2 and b.ndim == 1 and a.shape[0] == b.shape[0] and b.dtype is _INT64


def _class_weights(fn: str, weight: Any, classes: Any) -> None:
    if weight.ndim != 1 or weight.shape[0] != classes:
        raise RuntimeError(
            f"{fn}: weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {shape_list(weight)}"
        )


def _target_weights(weight: Any, target: Any, ignore_index: int) -> Any:
    """The weight of every target's class, 0 for ignored ones."""
    keep = target != ignore_index
    safe = target.masked_fill(~keep, 0)
    return weight.index_select(0, safe.reshape(-1)).view(target.shape).masked_fill(~keep, 0.0)


def _nll(fn: str, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    if not _usual_classes(input, target):
        _check_class_loss(fn, input, target)
    if weight is None:
        return _nll_loss.fn(input, target, ignore_index, reduction)
    loss = _pick_class.fn(input, target, ignore_index)
    _class_weights(fn, weight, input.shape[_classes(input.ndim)])
    no_gradient("nll_loss_forward", weight=weight)
    w = _target_weights(weight, target, ignore_index)
    loss = loss * w
    return loss if reduction == "none" else (loss.sum() / w.sum() if reduction == "mean" else loss.sum())


@function("nn.functional.nll_loss(input: T, target: T, weight: T, ignore_index: int)", direct=True)
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Negative log likelihood: input (N, C, ...) of log probabilities, target (N, ...) of class indices.

    "mean" divides by the sum of the weights of the targets that are not `ignore_index`.
    """
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum", "none"):
        reduction = reduction_of(reduction, size_average, reduce)
    if weight is None and type(ignore_index) is int and _usual_classes(input, target):
        floating("nll_loss", input.dtype)
        return _nll_loss.fn(input, target, ignore_index, reduction)
    as_tensor(input, ("nll_loss", "input", 1))
    as_tensor(target, ("nll_loss", "target", 2))
    if weight is not None:
        as_tensor(weight, ("nll_loss", "weight", 3))
    ignore_index = as_int(ignore_index, ("nll_loss", "ignore_index", 5))
    floating("nll_loss", input.dtype)
    return named(_any_nll(input, target, weight, ignore_index, reduction), "NllLossBackward0", (input,))


def _any_nll(input: Any, target: Any, weight: Any, ignore_index: Any, reduction: str) -> Any:
    return _nll("nll_loss", input if weight is None else rooted(input), target, weight, ignore_index, reduction)


@function(
    "nn.functional.cross_entropy(input: T, target: T, weight: T, ignore_index: int, label_smoothing: float)",
    direct=True,
)
def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """Cross entropy of logits (N, C, ...) with class indices (N, ...) or class probabilities (N, C, ...)."""
    if size_average is not None or reduce is not None or reduction not in ("mean", "sum", "none"):
        reduction = reduction_of(reduction, size_average, reduce)
    if weight is None and label_smoothing == 0.0 and _usual_classes(input, target):
        return _cross_entropy.first(input, target, ignore_index, reduction)
    as_tensor(input, ("cross_entropy", "input", 1))
    as_tensor(target, ("cross_entropy", "target", 2))
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.ndim < 1:
        raise ValueError(f"cross_entropy: expected 1 or more dimensions (got {input.ndim})")
    if tuple(input.shape) == tuple(target.shape):
        if ignore_index >= 0 and target.dtype.is_floating_point:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    if weight is None and label_smoothing == 0.0:
        _check_class_loss("cross_entropy", input, target)
        return _cross_entropy.first(input, target, ignore_index, reduction)
    dim = _classes(input.ndim)
    logp = _log_softmax(input, dim)
    loss = _nll("cross_entropy", logp, target, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return loss
    return _smooth(logp, loss, target, weight, ignore_index, reduction, label_smoothing, dim)


def _smooth(logp, loss, target, weight, ignore_index, reduction, smoothing, dim):
    keep = target != ignore_index
    if weight is not None:
        shape = [1] * logp.ndim
        shape[dim] = -1
        spread = -(logp * weight.view(*shape)).sum(dim)
        total = _target_weights(weight, target, ignore_index).sum() if reduction == "mean" else None
    else:
        spread = -logp.sum(dim)
        total = keep.sum() if reduction == "mean" else None
    spread = spread.masked_fill(~keep, 0.0)
    spread = spread.sum() / total if reduction == "mean" else reduced(spread, reduction)
    return loss * (1 - smoothing) + spread * (smoothing / logp.shape[dim])


def _soft_cross_entropy(input, target, weight, reduction, smoothing):
    if not target.dtype.is_floating_point:
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype.name}")
    dim = _classes(input.ndim)
    classes = input.shape[dim]
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / classes
    logp = _log_softmax(input, dim)
    if weight is not None:
        _class_weights("cross_entropy", weight, classes)
        logp = logp * weight.view(*(-1 if i == dim else 1 for i in range(input.ndim)))
    loss = -(logp * target).sum(dim)
    if reduction == "mean":
        return loss.sum() / prod(loss.shape)
    return reduced(loss, reduction)
