"""Native kernels of the normalisations and of cross entropy: arrays in, arrays out, or None (see ``_native``)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..native.on_demand import defined
from ._native import dense, row_kernel

_empty, _empty_like = np.empty, np.empty_like

__all__ = [
    "channel_norm",
    "channel_norm_grad",
    "class_loss",
    "cross_entropy",
    "cross_entropy_grad",
    "group_norm",
    "group_norm_grad",
    "moment_norm",
    "moment_norm_grad",
    "rms_norm",
    "rms_norm_grad",
    "running_norm",
    "running_norm_grad",
    "running_update",
]

_BOTH = (False, True)
_NORM = {(w, v): row_kernel("norm", w, v) for w in _BOTH for v in _BOTH}
_NORM_GRAD = {w: row_kernel("norm_grad", w) for w in _BOTH}
_NORM_GRAD_PARAMS = row_kernel("norm_grad_params")
_RMS_NORM = {w: row_kernel("rms_norm", w) for w in _BOTH}
_RMS_NORM_GRAD = {w: row_kernel("rms_norm_grad", w) for w in _BOTH}
_RMS_NORM_GRAD_WEIGHT = row_kernel("rms_norm_grad_weight")
_CHANNEL_NORM = {(w, v, f): row_kernel("channel_norm", w, v, f) for w in _BOTH for v in _BOTH for f in _BOTH}
_CHANNEL_NORM_GRAD = {(w, f): row_kernel("channel_norm_grad", w, f) for w in _BOTH for f in _BOTH}
_RUNNING_NORM = {(w, v, f): row_kernel("running_norm", w, v, f) for w in _BOTH for v in _BOTH for f in _BOTH}
_RUNNING_NORM_GRAD = {(w, f): row_kernel("running_norm_grad", w, f) for w in _BOTH for f in _BOTH}
_RUNNING_UPDATE = row_kernel("running_update")
_GROUP_NORM = {(w, v): row_kernel("group_norm", w, v) for w in _BOTH for v in _BOTH}
_GROUP_NORM_GRAD = {w: row_kernel("group_norm_grad", w) for w in _BOTH}
_REDUCTIONS = ("none", "sum", "mean")
_CROSS_ENTROPY = {r: row_kernel("cross_entropy", r) for r in _REDUCTIONS}
_CROSS_ENTROPY_GRAD = {r: row_kernel("cross_entropy_grad", r) for r in _REDUCTIONS}
_INT64 = np.dtype(np.int64)


def kept(shape: tuple, dims: tuple) -> tuple:
    """The shape with `dims` as size 1."""
    return tuple(1 if i in dims else s for i, s in enumerate(shape))


@functools.lru_cache(maxsize=512)
def _layout(shape: tuple, dims: tuple) -> tuple[bool, tuple, tuple] | None:
    """(whether channels are normalised, sizes for the kernel, shape of the statistics) for the usual cases: over the
    last dimensions, or over all but the second. Else None.
    """
    n, k = len(shape), len(dims)
    if k and dims == tuple(range(n - k, n)):
        return False, (math.prod(shape[: n - k]), math.prod(shape[n - k :])), kept(shape, dims)
    if n >= 2 and dims == (0, *range(2, n)):
        return True, (shape[0], shape[1], *((math.prod(shape[2:]),) if n > 2 else ())), kept(shape, dims)
    return None


def _fits(channels: bool, x: np.ndarray, dims: tuple, param: Any) -> bool:
    """Whether a parameter has a number of x's dtype for each column, or each channel."""
    shape = x.shape
    if param.dtype is not x.dtype:
        return False
    if channels:
        return param.size == shape[1] and (param.ndim == 1 if len(shape) == 2 else param.shape == kept(shape, dims))
    return param.shape == shape[len(shape) - len(dims) :]


def _dense(a: Any) -> Any:
    return a if a is None or a.flags.c_contiguous else dense(a)


def moment_norm(x: np.ndarray, weight: Any, bias: Any, dims: tuple, eps: float) -> tuple | None:
    """(x - mean) / sqrt(var + eps) * weight + bias, mean and variance over `dims`, which the latter keep as size 1."""
    shape = x.shape
    layout = _layout(shape, dims)
    if layout is None:
        return None
    channels, sizes, small = layout
    w = weight if weight is not None and _fits(channels, x, dims, weight) else None
    v = bias if bias is not None and w is weight and _fits(channels, x, dims, bias) else None
    key: Any = (w is not None, v is not None)
    f = (_CHANNEL_NORM[*key, len(sizes) == 2] if channels else _NORM[key])[x.dtype]
    if f is None:
        return None
    if not x.flags.c_contiguous:
        x = dense(x)
    out, mean, var = _empty_like(x), _empty(small, x.dtype), _empty(small, x.dtype)
    if w is None and v is None:
        f(x, out, mean, var, eps, *sizes)
    else:
        f(x, *(_dense(p) for p in (w, v) if p is not None), out, mean, var, eps, *sizes)
    if w is not weight:
        out *= weight
    if v is not bias:
        out += bias
    return out, mean, var


def moment_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: Any, mean: np.ndarray, var: np.ndarray, dims: tuple, eps: float, need: tuple
) -> tuple | None:
    """Gradients for x, weight and bias (None where not needed); None if the kernels do not do this case."""
    layout = _layout(x.shape, dims)
    if layout is None or weight is not None and not _fits(layout[0], x, dims, weight):
        return None
    channels, sizes, _ = layout
    if not channels and (need[1] or need[2]) and weight is None:
        return None  # the bias alone may have any shape
    has = weight is not None
    f = (_CHANNEL_NORM_GRAD[has, len(sizes) == 2] if channels else _NORM_GRAD[has])[x.dtype]
    if f is None:
        return None
    g, x, mean, var, weight = (_dense(a) for a in (g, x, mean, var, weight))
    given = (g, x, mean, var)
    w = () if weight is None else (weight,)
    gx = gw = gv = None
    if channels:
        if (need[1] or need[2]) and weight is None:
            return None
        gx, gw, gv = np.empty_like(x), *(np.empty(x.shape[1], x.dtype) for _ in range(2))
        f(*given, *w, gx, gw, gv, eps, *sizes)
    else:
        if need[0]:
            gx = np.empty_like(x)
            f(*given, *w, gx, eps, *sizes)
        if need[1] or need[2]:
            gw, gv = (np.empty_like(weight) for _ in range(2))
            params = _NORM_GRAD_PARAMS[x.dtype]
            if params is None:
                return None
            params(*given, gw, gv, eps, *sizes)
    if weight is not None:
        gw, gv = (a if a is None else a.reshape(weight.shape) for a in (gw, gv))
    return tuple(a if n else None for a, n in zip((gx, gw, gv), need, strict=True))


def _of_channels(x: np.ndarray, params: tuple) -> bool:
    """Whether parameters are absent, or have a number of x's dtype for each channel."""
    kind, shape = x.dtype, x.shape[1:2]
    return all([p is None or p.dtype is kind and p.shape == shape for p in params])


def _channel_sizes(x: np.ndarray) -> tuple:
    return x.shape if x.ndim == 2 else (*x.shape[:2], math.prod(x.shape[2:]))


def channel_norm(x: np.ndarray, weight: Any, bias: Any, eps: float) -> tuple | None:
    """Normalised channels, times weight plus bias of each; mean and variance of each."""
    f = _CHANNEL_NORM[weight is not None, bias is not None, x.ndim == 2][x.dtype]
    if f is None or not _of_channels(x, (weight, bias)):
        return None
    x, c = _dense(x), x.shape[1]
    out, mean, var = _empty_like(x), _empty(c, x.dtype), _empty(c, x.dtype)
    f(x, *[_dense(p) for p in (weight, bias) if p is not None], out, mean, var, eps, *_channel_sizes(x))
    return out, mean, var


def channel_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: Any, mean: np.ndarray, var: np.ndarray, eps: float
) -> tuple | None:
    """Its gradients for x, weight and bias."""
    return _channel_grad(_CHANNEL_NORM_GRAD, g, x, mean, var, weight, eps)


def running_norm(x: np.ndarray, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> np.ndarray | None:
    """(x - mean) / sqrt(var + eps) * weight + bias, where all have a number for each channel."""
    f = _RUNNING_NORM[weight is not None, bias is not None, x.ndim == 2][x.dtype]
    if f is None or not _of_channels(x, (mean, var, weight, bias)):
        return None
    x = _dense(x)
    out = _empty_like(x)
    f(x, *[_dense(p) for p in (mean, var, weight, bias) if p is not None], out, eps, *_channel_sizes(x))
    return out


def running_norm_grad(g: np.ndarray, x: np.ndarray, mean: Any, var: Any, weight: Any, eps: float) -> tuple | None:
    """Its gradients for x, weight and bias."""
    return _channel_grad(_RUNNING_NORM_GRAD, g, x, mean, var, weight, eps)


def _channel_grad(
    kernels: dict, g: np.ndarray, x: np.ndarray, mean: np.ndarray, var: np.ndarray, weight: Any, eps: float
) -> tuple | None:
    f = kernels[weight is not None, x.ndim == 2][x.dtype]
    if f is None or g.dtype is not x.dtype or not _of_channels(x, (mean, var, weight)):
        return None
    x, c = _dense(x), x.shape[1]
    gx, gw, gv = _empty_like(x), _empty(c, x.dtype), _empty(c, x.dtype)
    given = [_dense(p) for p in (mean, var, weight) if p is not None]
    f(_dense(g), x, *given, gx, gw, gv, eps, *_channel_sizes(x))
    return gx, gw, gv


def running_update(mean: np.ndarray, var: np.ndarray, m: np.ndarray, v: np.ndarray, momentum: float, n: int) -> bool:
    """Move contiguous running statistics towards those of a batch of n; False where there is no kernel."""
    f = _RUNNING_UPDATE[m.dtype]
    if f is None:
        return False
    f(_dense(m), _dense(v), mean, var, 1 - momentum, momentum, n / (n - 1), mean.size)
    return True


def group_norm(x: np.ndarray, weight: Any, bias: Any, groups: int, eps: float) -> tuple | None:
    """Normalised groups of channels, times weight plus bias of each channel; mean and variance of each group."""
    f = _GROUP_NORM[weight is not None, bias is not None][x.dtype]
    if f is None or not _of_channels(x, (weight, bias)):
        return None
    x, n = _dense(x), x.shape[0]
    out, mean, var = _empty_like(x), _empty((n, groups), x.dtype), _empty((n, groups), x.dtype)
    f(x, *[_dense(p) for p in (weight, bias) if p is not None], out, mean, var, eps, *_group_sizes(x, groups))
    return out, mean, var


def _group_sizes(x: np.ndarray, groups: int) -> tuple:
    n, c = x.shape[:2]
    return n, groups, c // groups, math.prod(x.shape[2:])


def group_norm_grad(
    g: np.ndarray, x: np.ndarray, weight: Any, mean: np.ndarray, var: np.ndarray, groups: int, eps: float
) -> tuple | None:
    """Its gradients for x, weight and bias."""
    f = _GROUP_NORM_GRAD[weight is not None][x.dtype]
    if f is None or g.dtype is not x.dtype or not _of_channels(x, (weight,)):
        return None
    x = _dense(x)
    gx, gw, gv = _empty_like(x), _empty(x.shape[1], x.dtype), _empty(x.shape[1], x.dtype)
    given = [_dense(p) for p in (mean, var, weight) if p is not None]
    f(_dense(g), x, *given, gx, gw, gv, eps, *_group_sizes(x, groups))
    return gx, gw, gv


def rms_norm(x: np.ndarray, weight: Any, dims: tuple, eps: float) -> tuple | None:
    """x * r * weight and r = 1 / sqrt(mean(x^2) + eps) over the last dimensions."""
    layout = _layout(x.shape, dims)
    if layout is None or layout[0]:
        return None
    inside = weight is not None and _fits(False, x, dims, weight)
    f = _RMS_NORM[inside][x.dtype]
    if f is None:
        return None
    x = _dense(x)
    out, r = np.empty_like(x), np.empty(kept(x.shape, dims), x.dtype)
    f(x, *((_dense(weight),) if inside else ()), out, r, eps, *layout[1])
    if weight is not None and not inside:
        out *= weight
    return out, r


def rms_norm_grad(g: np.ndarray, x: np.ndarray, weight: Any, r: np.ndarray, dims: tuple, need: tuple) -> tuple | None:
    """Gradients for x and weight (None where not needed); None if the kernels do not do this case."""
    layout = _layout(x.shape, dims)
    if layout is None or layout[0] or weight is not None and not _fits(False, x, dims, weight):
        return None
    f, for_weight = _RMS_NORM_GRAD[weight is not None][x.dtype], _RMS_NORM_GRAD_WEIGHT[x.dtype]
    if f is None or for_weight is None:
        return None
    g, x, r, weight = (_dense(a) for a in (g, x, r, weight))
    gx = gw = None
    if need[0]:
        gx = np.empty_like(x)
        f(g, x, r, *(() if weight is None else (weight,)), gx, *layout[1])
    if need[1]:
        gw = np.empty_like(weight)
        for_weight(g, x, r, gw, *layout[1])
    return gx, gw


def cross_entropy(x: np.ndarray, target: np.ndarray, ignored: int, reduction: str) -> tuple | None:
    """(loss, log probabilities) of [n, classes], or of [classes] with one target. IndexError for a wrong target."""
    if x.ndim not in (1, 2) or target.shape != x.shape[:-1]:
        return None
    f = _CROSS_ENTROPY[reduction][x.dtype]
    if f is None:
        return None
    x = _dense(x)
    at = target if target.dtype is _INT64 and target.flags.c_contiguous else np.array(target, _INT64, order="C")
    logp, loss = np.empty_like(x), np.empty(at.shape, x.dtype)
    if reduction == "none":
        f(x, at, logp, loss, ignored, at.size, x.shape[-1])
        return loss, logp
    total = np.empty((), x.dtype)
    f(x, at, logp, loss, total, ignored, at.size, x.shape[-1])
    return total, logp


_CLASS_LOSS = {r: defined("picks", "class_loss", r) for r in _REDUCTIONS}


def class_loss(x: np.ndarray, target: np.ndarray, ignored: int, reduction: str) -> np.ndarray | None:
    """The negative log likelihood of [n, classes] with [n] targets. IndexError for a wrong target."""
    if x.ndim != 2 or target.shape != x.shape[:1]:
        return None
    f = _CLASS_LOSS[reduction][x.dtype]
    if f is None:
        return None
    at = target if target.dtype is _INT64 and target.flags.c_contiguous else np.array(target, _INT64, order="C")
    out = _empty(at.shape if reduction == "none" else (), x.dtype)
    f(_dense(x), at, out, ignored, *x.shape)
    return out


def cross_entropy_grad(
    g: np.ndarray, logp: np.ndarray, target: np.ndarray, ignored: int, reduction: str
) -> np.ndarray | None:
    """The derivative of ``cross_entropy`` for x; the targets were checked there."""
    if logp.ndim not in (1, 2) or target.shape != logp.shape[:-1] or g.dtype is not logp.dtype:
        return None
    if g.shape != (target.shape if reduction == "none" else ()):
        return None
    f = _CROSS_ENTROPY_GRAD[reduction][logp.dtype]
    if f is None:
        return None
    g, logp = _dense(g), _dense(logp)
    at = target if target.dtype is _INT64 and target.flags.c_contiguous else np.array(target, _INT64, order="C")
    out = np.empty_like(logp)
    count = (np.empty((), logp.dtype),) if reduction == "mean" else ()
    f(g, logp, at, out, *count, ignored, at.size, logp.shape[-1])
    return out


_IMAGE_LOSS = {inside: defined("picks", "image_loss", inside) for inside in (True, False)}
_IMAGE_LOSS_GRAD = defined("picks", "image_loss_grad")


def image_loss(x: np.ndarray, target: np.ndarray, ignored: int, inside: bool) -> tuple | None:
    """(losses, log probabilities or None) of (n, classes, *S) with (n, *S) targets; ``inside``: x are logits.

    IndexError for a wrong target.
    """
    if x.ndim < 3 or target.shape != (x.shape[0], *x.shape[2:]) or not target.size or target.dtype.kind not in "iu":
        return None
    f = _IMAGE_LOSS[inside][x.dtype]
    if f is None:
        return None
    out, logp = _empty(target.shape, x.dtype), _empty(x.shape, x.dtype) if inside else None
    at = np.ascontiguousarray(target, _INT64)
    f(_dense(x), at, out, *(() if logp is None else (logp,)), ignored, *x.shape[:2], target.size // x.shape[0])
    return out, logp


def image_loss_grad(g: np.ndarray, logp: np.ndarray, target: np.ndarray) -> np.ndarray | None:
    """(exp(logp) - one hot) * g for images; g (of the targets' shape) is 0 where they are ignored."""
    if logp.ndim < 3 or g.shape != target.shape or g.dtype is not logp.dtype or not g.size:
        return None
    f = _IMAGE_LOSS_GRAD[logp.dtype]
    if f is None:
        return None
    out = _empty(logp.shape, logp.dtype)
    at = np.ascontiguousarray(target, _INT64)
    f(_dense(g), _dense(logp), at, out, *logp.shape[:2], g.size // logp.shape[0])
    return out
