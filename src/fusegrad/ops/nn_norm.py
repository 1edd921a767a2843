"""The normalisations (batch_norm, layer_norm, group_norm...): statistics over some dimensions, then a pointwise map."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arguments import as_tensor
from ..autograd.modes import SLOW
from ..autograd.undefined import no_gradient
from ..dispatch import FAST
from ..dtypes import float16, float32, promote_types
from ..meta import Meta, broadcast_shapes, surely_less
from ..op import Sample, function, op
from ..tensor import Tensor, own, wrap
from . import _native_norm as native
from ._half import half, single
from ._inplace_forms import changed, quiet
from ._native import plain_arrays
from ._nn import data, shape_list
from .nn_norm_eager import _channel_norm, _group_norm, _running_norm

_sum, _subtract, _divide = np.add.reduce, np.subtract, np.divide


def _count(shape: Sequence[Any], dims: Sequence[int]) -> Any:
    n: Any = 1
    for d in dims:
        n = n * shape[d]
    return n


def _over(t: Any, n: Any) -> Any:
    """`t` / n; NaN for n = 0."""
    return t * math.nan if type(n) is int and n == 0 else t / n


def _kept(shape: Sequence[Any], dims: Sequence[int]) -> tuple:
    return tuple(1 if i in dims else s for i, s in enumerate(shape))


def _sum_products(a: np.ndarray, b: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    """Sum of a*b over `dims`, keeping them as size 1."""
    if dims == (a.ndim - 1,):
        return np.einsum("...i,...i->...", a, b)[..., None]
    if a.ndim == 3 and dims == (0, 2):
        return np.einsum("ncl,ncl->nc", a, b).sum(0)[None, :, None]
    return np.add.reduce(a * b, axis=dims, keepdims=True)


def _norm_meta(x: Meta, weight: Meta | None, bias: Meta | None, dims: Any, eps: float) -> tuple:
    stats = Meta(_kept(x.shape, dims), x.dtype)
    for other in (weight, bias):
        if other is not None:
            broadcast_shapes(x.shape, other.shape)
    return Meta(x.shape, x.dtype), stats, stats


@functools.lru_cache(maxsize=256)
def _constants(dtype: Any, n: int, eps: float) -> tuple[np.ndarray, ...]:
    """1/n (NaN for n = 0), eps and 1 as arrays, which numpy combines with small arrays faster than numbers."""
    return tuple(np.asarray(dtype.type(v)) for v in (1.0 / n if n else np.nan, eps, 1.0))


@op(
    "_moment_norm(input: T, weight: T? = None, bias: T? = None, dims: ints = (), eps: float = 1e-5)",
    kind="composite",
    method=False,
    n_out=3,
)
class _moment_norm:
    """(x - mean) / sqrt(var + eps) * weight + bias over `dims`, with the mean and the (biased) variance.

    weight and bias broadcast against the input; mean and variance keep `dims` as size 1.
    """

    partial = True
    meta = _norm_meta

    def kernel(x, weight, bias, dims, eps):
        if x.dtype.char == "e":
            wide = [None if a is None else single(a) for a in (x, weight, bias)]
            return tuple(half(a) for a in _moment_norm.kernel(*wide, dims=dims, eps=eps))
        if (found := native.moment_norm(x, weight, bias, dims, eps)) is not None:
            return found
        scale, least, one = _constants(x.dtype, _count(x.shape, dims), eps)
        mean = _sum(x, dims, None, None, True) * scale
        y = _subtract(x, mean)
        var = _sum_products(y, y, dims) * scale
        y *= _divide(one, np.sqrt(var + least))
        if weight is not None:
            y *= weight
        if bias is not None:
            y += bias
        return y, np.asarray(mean), np.asarray(var)

    def vjp(g0, g1, g2, input, weight, out1, out2, dims, eps, need):
        g0 = input.new_zeros(input.shape) if g0 is None else g0
        if g1 is None and g2 is None and (arrays := plain_arrays(g0, input, weight, out1, out2)):
            found = native.moment_norm_grad(*arrays, dims, eps, need)
            if found is not None:
                return tuple(a if a is None else wrap(a) for a in found)
        n = _count(input.shape, dims)
        centred = input - out1
        rstd = (out2 + eps).rsqrt()
        xhat = centred * rstd
        gx = gw = None
        if need[0]:
            gy = g0 if weight is None else g0 * weight
            mid = gy.sum(dims, keepdim=True) + xhat * (gy * xhat).sum(dims, keepdim=True)
            gx = (gy - _over(mid, n)) * rstd
            if g1 is not None:
                gx = gx + _over(g1, n)
            if g2 is not None:
                gx = gx + _over(g2 * centred * 2.0, n)
            gx = gx.contiguous()  # as the kernel's
        if need[1]:
            gw = g0 * xhat
        return gx, gw, g0 if need[2] else None

    def on_arrays(g, input, weight, out1, out2, dims, eps, need):
        return native.moment_norm_grad(g, input, weight, out1, out2, dims, eps, [e is not None for e in need])

    def decompose(x, weight, bias, dims, eps):
        mean = x.mean(dims, keepdim=True)
        centred = x - mean
        var = (centred * centred).mean(dims, keepdim=True)
        y = centred * (var + eps).rsqrt()
        if weight is not None:
            y = y * weight
        if bias is not None:
            y = y + bias
        return y, mean, var

    def samples():
        yield Sample(data(4, 6), data(6), data(6), (1,))
        yield Sample(data(3, 2, 4), None, None, (1, 2), 1e-3)
        yield Sample(data(3, 2, 4), data(1, 2, 1), data(1, 2, 1), (0, 2))

    def ref(x, weight=None, bias=None, dims=(), eps=1e-5):
        mean, var = x.mean(axis=dims, keepdims=True), x.var(axis=dims, keepdims=True)
        y = (x - mean) / np.sqrt(var + eps)
        y = y if weight is None else y * weight
        return y if bias is None else y + bias, mean, var


@op(
    "_rms_norm(input: T, weight: T? = None, dims: ints = (), eps: float = 1e-5)",
    kind="composite",
    method=False,
    n_out=2,
)
class _rms_norm:
    """x / sqrt(mean(x^2) + eps) * weight over `dims`, and the factor 1 / sqrt(...)."""

    partial = True

    def meta(x, weight, dims, eps):
        return Meta(x.shape, x.dtype), Meta(_kept(x.shape, dims), x.dtype)

    def kernel(x, weight, dims, eps):
        if x.dtype == np.float16:
            wide = [None if a is None else single(a) for a in (x, weight)]
            return tuple(half(a) for a in _rms_norm.kernel(*wide, dims=dims, eps=eps))
        if (found := native.rms_norm(x, weight, dims, eps)) is not None:
            return found
        n = _count(x.shape, dims)
        scale = x.dtype.type(1.0 / n if n else np.nan)
        r = np.asarray(1.0 / np.sqrt(_sum_products(x, x, dims) * scale + x.dtype.type(eps)))
        y = x * r
        if weight is not None:
            y *= weight
        return y, r

    def vjp(g0, g1, input, weight, out1, dims, need):
        g0 = input.new_zeros(input.shape) if g0 is None else g0
        if g1 is None and (arrays := plain_arrays(g0, input, weight, out1)):
            found = native.rms_norm_grad(*arrays, dims, need)
            if found is not None:
                return tuple(a if a is None else wrap(a) for a in found)
        n = _count(input.shape, dims)
        xhat = input * out1
        gx = None
        if need[0]:
            gy = g0 if weight is None else g0 * weight
            gx = (gy - _over(xhat * (gy * xhat).sum(dims, keepdim=True), n)) * out1
            if g1 is not None:
                gx = gx - _over(g1 * xhat * out1 * out1, n)
            gx = gx.contiguous()  # as the kernel's
        return gx, g0 * xhat if need[1] else None

    def on_arrays(g, input, weight, out1, dims, need):
        return native.rms_norm_grad(g, input, weight, out1, dims, [e is not None for e in need])

    def decompose(x, weight, dims, eps):
        r = ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
        y = x * r
        return (y if weight is None else y * weight), r

    def samples():
        yield Sample(data(4, 6), data(6), (1,))
        yield Sample(data(3, 2, 4), None, (1, 2), 1e-3)

    def ref(x, weight=None, dims=(), eps=1e-5):
        r = 1 / np.sqrt((x * x).mean(axis=dims, keepdims=True) + eps)
        return x * r * (1 if weight is None else weight), r


def _mixed(input: Any, *params: Any) -> bool:
    """Whether parameters are float32 beside a float16 input. RuntimeError for other mixtures of dtypes."""
    mixed = False
    for p in params:
        if p is not None and p.dtype is not input.dtype:
            if input.dtype is not float16 or p.dtype is not float32:
                raise RuntimeError(
                    f"mixed dtype: expected the parameter to have dtype {input.dtype}, but it has {p.dtype}"
                )
            mixed = True
    return mixed


def _trailing(name: str, input: Any, normalized_shape: Any, weight: Any, bias: Any) -> tuple[int, ...]:
    """The dims that `normalized_shape` names; RuntimeError where shapes do not fit."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    k = len(shape)
    if k < 1:
        raise RuntimeError(f"{name}: expected normalized_shape to be at least 1-dimensional, but got {list(shape)}")
    for said, param in (("weight", weight), ("bias", bias)):
        if param is not None and tuple(param.shape) != shape:
            raise RuntimeError(
                f"{name}: expected {said} to be of same shape as normalized_shape, but got {said} of shape "
                f"{shape_list(param)} and normalized_shape = {list(shape)}"
            )
    if input.ndim < k or tuple(input.shape[input.ndim - k :]) != shape:
        raise RuntimeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(map(str, shape))}], but got input of size {shape_list(input)}"
        )
    return tuple(range(input.ndim - k, input.ndim))


def _fits(param: Any, x: np.ndarray, shape: tuple) -> bool:
    """Whether a parameter is absent, or has this shape and the dtype of ``x``."""
    if param is None:
        return True
    d = getattr(param, "_data", None)
    return d is not None and d.shape == shape and d.dtype is x.dtype


@function(
    "layer_norm(input: T, normalized_shape: ints, weight: T, bias: T, eps: float, cudnn_enable: bool)", method=False
)
def torch_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    """Normalise over the trailing dimensions `normalized_shape`, then scale and shift."""
    return layer_norm(input, normalized_shape, weight, bias, eps)


@function("nn.functional.layer_norm(input: T, normalized_shape: ints, weight: T, bias: T, eps: float)", direct=True)
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalise over the trailing dimensions `normalized_shape`, then scale and shift."""
    if not isinstance(input, Tensor):
        as_tensor(input, ("layer_norm", "input", 1))
    d = input._data
    if d is not None and type(normalized_shape) is tuple and (k := len(normalized_shape)):
        if d.shape[-k:] == normalized_shape and _fits(weight, d, normalized_shape) and _fits(bias, d, normalized_shape):
            return _moment_norm.first(input, weight, bias, (*range(d.ndim - k, d.ndim),), eps)
    dims = _trailing("layer_norm", input, normalized_shape, weight, bias)
    if (weight is not None or bias is not None) and _mixed(input, weight, bias):
        return layer_norm(input.float(), normalized_shape, weight, bias, eps).half()
    return _moment_norm.first(input, weight, bias, dims, eps)


@function("nn.functional.rms_norm(input: T, normalized_shape: ints, weight: T, eps: float)", names=("rms_norm",))
def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divide by the root mean square over the trailing dimensions `normalized_shape`, then scale."""
    from ..dtypes import finfo

    dims = _trailing("rms_norm", input, normalized_shape, weight, None)
    if weight is not None and weight.dtype is not input.dtype:
        wide = promote_types(input.dtype, weight.dtype)
        return rms_norm(input.to(wide), normalized_shape, weight.to(wide), eps).to(input.dtype)
    return _rms_norm.first(input, weight, dims, finfo(input.dtype).eps if eps is None else eps)


def _per_channel(name: str, param: Any, channels: Any, ndim: int) -> Any:
    if param is None:
        return None
    if (d := param._data) is not None and ndim == 2 and d.shape == (channels,):
        return param
    if param.ndim != 1 or param.shape[0] != channels:
        raise RuntimeError(f"{name} should contain {channels} elements not {param.numel()}")
    return param.view(1, channels, *((1,) * (ndim - 2))) if ndim != 2 else param


def _update_running(running_mean: Any, running_var: Any, mean: Any, var: Any, n: Any, momentum: float) -> None:
    from ..autograd.modes import no_grad

    if n == 0:  # with a symbolic size: a guard, as for 1
        return
    with no_grad():
        if running_mean is not None:
            running_mean.mul_(1 - momentum).add_(mean.detach().to(running_mean.dtype), alpha=momentum)
        if running_var is not None:
            unbiased = var.detach().to(running_var.dtype) * (n / (n - 1) if n > 1 else math.nan)
            running_var.mul_(1 - momentum).add_(unbiased, alpha=momentum)


def _update_arrays(running_mean: Any, running_var: Any, mean: Any, var: Any, n: int, momentum: Any) -> bool:
    """What ``_update_running`` does, on the arrays of plain tensors; False where they are not so."""
    if running_mean is None or running_var is None or type(momentum) is not float or n < 2 or mean._data is None:
        return False
    m, v = mean._data, var._data
    if running_mean is running_var or not (
        quiet(running_mean) and quiet(running_var) and running_mean._data.dtype is running_var._data.dtype is m.dtype
    ):
        return False
    if not native.running_update(running_mean._data, running_var._data, m, v, momentum, n):
        with np.errstate(all="ignore"):
            for running, new in ((running_mean, m), (running_var, v * (n / (n - 1)))):
                d = running._data
                np.multiply(d, 1 - momentum, d)
                np.add(d, (new * momentum).reshape(d.shape), d)
    changed(running_mean)
    changed(running_var)
    return True


def _plain_channels(input: Any, *params: Any) -> bool:
    """Whether all are plain tensors, and parameters are absent or have a number of the input's dtype for each
    channel: what the operators of ``nn_norm_eager`` take."""
    if SLOW[0] or type(input) not in FAST or (d := input._data) is None or d.ndim < 2:
        return False
    kind, shape = d.dtype, d.shape[1:2]
    if kind.kind != "f":
        return False
    for p in params:
        if p is not None:
            if type(p) not in FAST or (a := p._data) is None or a.dtype is not kind or a.shape != shape:
                return False
    return True


def _plain_batch_norm(
    input: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    """``batch_norm`` of such tensors; None where that has more to say."""
    for stat in (running_mean, running_var):
        if stat is None and not training or stat is not None and stat._rg:
            return None
    if not training:
        return _running_norm.fn(input, running_mean, running_var, weight, bias, eps)
    d = input._data
    channels = d.shape[1]
    n = d.size // channels if channels else 0
    if n < 2:
        return None
    if running_mean is None and running_var is None:
        return _channel_norm.first(input, weight, bias, eps)
    out, mean, var = _channel_norm.fn(input, weight, bias, eps)
    if not _update_arrays(running_mean, running_var, mean, var, n, momentum):
        _update_running(running_mean, running_var, mean, var, n, momentum)
    return out


def _with_running(input: Any, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Any:
    scale = (var + eps).rsqrt()
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale if bias is None else bias - mean * scale
    out = (input * scale + shift).contiguous()  # as the kernel's
    return out if out.dtype is input.dtype else out.to(input.dtype)


@function(
    "nn.functional.batch_norm(input: T, running_mean: T?, running_var: T?, weight: T, bias: T, "
    "training: bool, momentum: float, eps: float)",
)
def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Normalise each channel (dimension 1): by batch statistics in training, else by the running ones.

    In training the running statistics move towards the batch's by `momentum` (the variance unbiased).
    """
    if eps > 0 and _plain_channels(input, running_mean, running_var, weight, bias):
        found = _plain_batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
        if found is not None:
            return found
    if input.ndim == 1 and input.shape[0] == 0:
        return input.clone()
    if input.ndim < 2:
        raise ValueError(f"batch_norm: expected at least 2 dimensions, got input of size {shape_list(input)}")
    if eps <= 0:
        raise ValueError(f"batch_norm eps must be positive, but got {eps}")
    if _mixed(input, weight, bias, running_mean, running_var):
        wide = batch_norm(input.float(), running_mean, running_var, weight, bias, training, momentum, eps)
        return wide.half()
    sizes, ndim = input.shape, input.ndim
    channels, dims = sizes[1], _CHANNEL_DIMS[ndim] if ndim < 6 else (0, *range(2, ndim))
    n = _count(sizes, dims)
    if training and n == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {shape_list(input)}")
    no_gradient("native_batch_norm", running_mean=running_mean, running_var=running_var)
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when training=False")
    w, b = (_per_channel(s, p, channels, ndim) for s, p in (("weight", weight), ("bias", bias)))
    if not training:
        rm = _per_channel("running_mean", running_mean, channels, ndim)
        rv = _per_channel("running_var", running_var, channels, ndim)
        return _with_running(input, rm, rv, w, b, eps)
    if running_mean is None and running_var is None:
        return _moment_norm.first(input, w, b, dims, eps)
    for said, stat in (("running_mean", running_mean), ("running_var", running_var)):
        _per_channel(said, stat, channels, 2)
    out, mean, var = _moment_norm.fn(input, w, b, dims, eps)
    if not _update_arrays(running_mean, running_var, mean, var, n, momentum):
        _update_running(running_mean, running_var, mean.view(channels), var.view(channels), n, momentum)
    return out


_CHANNEL_DIMS = [tuple(d for d in range(ndim) if d != 1) for ndim in range(6)]  # all but the second


@function(
    "batch_norm(input: T, weight: T?, bias: T?, running_mean: T?, running_var: T?, training: bool, "
    "momentum: float, eps: float, cudnn_enabled: bool)",
    method=False,
)
def torch_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=True):
    """batch_norm with the argument order of the function outside nn.functional."""
    return batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@function(
    "nn.functional.instance_norm(input: T, running_mean: T, running_var: T, weight: T, bias: T, "
    "use_input_stats: bool, momentum: float, eps: float)",
)
def instance_norm(
    input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    """Normalise each channel of each sample over its spatial dimensions."""
    if input.ndim < 3:
        raise ValueError(f"instance_norm: expected at least 3 dimensions, got input of size {shape_list(input)}")
    if _mixed(input, weight, bias, running_mean, running_var):
        stats = (running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
        return instance_norm(input.float(), *stats).half()
    channels, ndim = input.shape[1], input.ndim
    n = _count(input.shape[2:], range(ndim - 2))
    if use_input_stats and n == 1:
        raise ValueError(f"Expected more than 1 spatial element when training, got input size {shape_list(input)}")
    if not use_input_stats and (running_mean is None or running_var is None):
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats=False")
    w, b = (_per_channel(s, p, channels, ndim) for s, p in (("weight", weight), ("bias", bias)))
    if not use_input_stats:
        rm = _per_channel("running_mean", running_mean, channels, ndim)
        rv = _per_channel("running_var", running_var, channels, ndim)
        return _with_running(input, rm, rv, w, b, eps)
    out, mean, var = _moment_norm(input, w, b, tuple(range(2, ndim)), eps)
    if running_mean is not None or running_var is not None:
        mean, var = (s.detach().view(input.shape[0], channels).mean(0) for s in (mean, var))
        _update_running(running_mean, running_var, mean, var, n, momentum)
    return out


@function("nn.functional.group_norm(input: T, num_groups: int, weight: T, bias: T, eps: float)", names=("group_norm",))
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """Normalise each sample over groups of channels (dimension 1), then scale and shift each channel."""
    if _plain_channels(input, weight, bias) and type(num_groups) is int and num_groups > 0 and type(eps) is float:
        shape = input._data.shape
        if shape[1] and shape[1] % num_groups == 0 and input._data.size // num_groups > 1:
            return _group_norm.first(input, weight, bias, num_groups, eps)
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    if _mixed(input, weight, bias):
        return group_norm(input.float(), num_groups, weight, bias, eps).half()
    n, channels, ndim = input.shape[0], input.shape[1], input.ndim
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups != 0:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{shape_list(input)} and num_groups={num_groups}"
        )
    each = channels // num_groups * n
    for size in input.shape[2:]:
        each = each * size
    if surely_less(each, 2) and each == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {[each, num_groups]}")
    w, b = (_per_channel(s, p, channels, ndim) for s, p in (("weight", weight), ("bias", bias)))
    grouped = input.reshape(n, num_groups, channels // num_groups, *input.shape[2:])
    if w is not None and ndim == 2:
        w = w.view(1, channels)
    split = (1, num_groups, channels // num_groups, *((1,) * (ndim - 2)))
    w, b = (None if p is None else p.view(split) for p in (w, b))
    out = _moment_norm.first(grouped, w, b, tuple(range(2, ndim + 1)), eps)
    return own(out.view(input.shape))


@function("nn.functional.local_response_norm(input: T, size: int, alpha: float, beta: float, k: float)")
def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide by (k + alpha * mean of squares over `size` neighbouring channels)^beta."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    from .. import nn

    pad = [0, 0] * (input.ndim - 2) + [size // 2, (size - 1) // 2]
    squares = nn.functional.pad(input * input, pad)
    total = squares.narrow(1, 0, input.shape[1])
    for i in range(1, size):
        total = total + squares.narrow(1, i, input.shape[1])
    mean = total / size if total.dtype.is_floating_point else total.div(size, rounding_mode="trunc")
    return input / (mean * alpha + k).pow(beta)


@function("nn.functional.normalize(input: T, p: num, dim: dims, eps: float)")
def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x / max(norm of x along dim, eps)."""
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
