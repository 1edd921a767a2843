"""Batch norm by running statistics and group norm as one operator each, for eager tensors.

Where graphs are captured or transformed they are made of other operators (``nn_norm``), which fuse.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..meta import Meta
from ..op import Sample, op
from ..tensor import wrap
from . import _native_norm as native
from ._half import half, single
from ._native import plain_arrays
from ._nn import data


def _column(t: Any, ndim: int) -> Any:
    """Numbers of channels, to be combined with (N, C, *S)."""
    return t if ndim == 2 else t.reshape((1, -1, *((1,) * (ndim - 2))))


def _wide(kernel: Any, arrays: tuple, *numbers: Any) -> Any:
    """A kernel in float32 for float16 arrays."""
    return kernel(*(None if a is None else single(a) for a in arrays), *numbers)


@op(
    "_running_norm(input: T, mean: T, var: T, weight: T? = None, bias: T? = None, eps: float = 1e-5)",
    kind="composite",
    method=False,
    function=False,
)
class _running_norm:
    """Each channel (dimension 1) minus its mean, over sqrt(var + eps), times its weight, plus its bias."""

    partial = True

    def meta(x, mean, var, weight, bias, eps):
        return Meta(x.shape, x.dtype)

    def kernel(x, mean, var, weight, bias, eps):
        if x.dtype.char == "e":
            return half(_wide(_running_norm.kernel, (x, mean, var, weight, bias), eps))
        if (found := native.running_norm(x, mean, var, weight, bias, eps)) is not None:
            return found
        scale = 1 / np.sqrt(var + x.dtype.type(eps))
        scale = scale if weight is None else scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        return x * _column(scale, x.ndim) + _column(shift, x.ndim)

    def vjp(g, input, mean, var, weight, eps, need):
        if not (need[1] or need[2]) and (arrays := plain_arrays(g, input, mean, var, weight)):
            found = native.running_norm_grad(*arrays, eps)
            if found is not None:
                gx, gw, gv = (wrap(a) for a in found)
                return gx, None, None, gw if need[3] else None, gv if need[4] else None
        nd = input.ndim
        dims = (0, *range(2, nd))
        rstd = (var + eps).rsqrt()
        scale = rstd if weight is None else rstd * weight
        total = g.sum(dims)
        along = (g * (input - _column(mean, nd))).sum(dims) if need[2] or need[3] else None
        return (
            (g * _column(scale, nd)).contiguous() if need[0] else None,  # as the kernel's
            -total * scale if need[1] else None,
            along * scale * rstd * rstd * -0.5 if need[2] else None,
            along * rstd if need[3] else None,
            total if need[4] else None,
        )

    def on_arrays(g, input, mean, var, weight, eps, need):
        if need[1] is not None or need[2] is not None:
            return None
        found = native.running_norm_grad(g, input, mean, var, weight, eps)
        if found is None:
            return None
        gx, gw, gv = (a if need[i] is not None else None for i, a in zip((0, 3, 4), found, strict=True))
        return gx, None, None, gw, gv

    def decompose(input, mean, var, weight, bias, eps):
        scale = (var + eps).rsqrt()
        scale = scale if weight is None else scale * weight
        shift = -mean * scale if bias is None else bias - mean * scale
        return input * _column(scale, input.ndim) + _column(shift, input.ndim)

    def samples():
        yield Sample(data(3, 4), data(4), abs(data(4)) + 0.5, data(4), data(4))
        yield Sample(data(3, 2, 4), data(2), abs(data(2)) + 0.5, None, data(2), 1e-3)
        yield Sample(data(2, 2, 3, 1), data(2), abs(data(2)) + 0.5)


@op(
    "_channel_norm(input: T, weight: T? = None, bias: T? = None, eps: float = 1e-5)",
    kind="composite",
    method=False,
    function=False,
    n_out=3,
)
class _channel_norm:
    """(x - mean) / sqrt(var + eps) of each channel (dimension 1), times its weight plus its bias; mean and var."""

    partial = True

    def meta(x, weight, bias, eps):
        stats = Meta(x.shape[1:2], x.dtype)
        return Meta(x.shape, x.dtype), stats, stats

    def kernel(x, weight, bias, eps):
        if x.dtype.char == "e":
            return tuple(half(a) for a in _wide(_channel_norm.kernel, (x, weight, bias), eps))
        if (found := native.channel_norm(x, weight, bias, eps)) is not None:
            return found
        dims = (0, *range(2, x.ndim))
        with np.errstate(all="ignore"):
            mean, var = x.mean(dims), x.var(dims)
            y = (x - _column(mean, x.ndim)) / np.sqrt(_column(var, x.ndim) + x.dtype.type(eps))
        y = y if weight is None else y * _column(weight, x.ndim)
        return y if bias is None else y + _column(bias, x.ndim), mean, var

    def vjp(g0, g1, g2, input, weight, out1, out2, eps, need):
        g0 = input.new_zeros(input.shape) if g0 is None else g0
        if g1 is None and g2 is None and (arrays := plain_arrays(g0, input, weight, out1, out2)):
            found = native.channel_norm_grad(*arrays, eps)
            if found is not None:
                return tuple(wrap(a) if n else None for a, n in zip(found, need, strict=True))
        nd, dims = input.ndim, (0, *range(2, input.ndim))
        centred = input - _column(out1, nd)
        rstd = (out2 + eps).rsqrt()
        xhat = centred * _column(rstd, nd)
        total, along = g0.sum(dims), (g0 * xhat).sum(dims)
        gx = None
        if need[0]:
            n = math.prod((input.shape[0], *input.shape[2:]))
            factor = rstd if weight is None else rstd * weight
            gx = (g0 - _over(_column(total, nd) + xhat * _column(along, nd), n)) * _column(factor, nd)
            if g1 is not None:
                gx = gx + _over(_column(g1, nd), n)
            if g2 is not None:
                gx = gx + _over(_column(g2, nd) * centred * 2.0, n)
            gx = gx.contiguous()  # as the kernel's
        return gx, along if need[1] else None, total if need[2] else None

    def on_arrays(g, input, weight, out1, out2, eps, need):
        found = native.channel_norm_grad(g, input, weight, out1, out2, eps)
        return found and tuple(a if n is not None else None for a, n in zip(found, need, strict=True))

    def decompose(x, weight, bias, eps):
        dims = (0, *range(2, x.ndim))
        mean = x.mean(dims)
        centred = x - _column(mean, x.ndim)
        var = (centred * centred).mean(dims)
        factor = (var + eps).rsqrt()
        y = centred * _column(factor if weight is None else factor * weight, x.ndim)
        return y if bias is None else y + _column(bias, x.ndim), mean, var

    def samples():
        yield Sample(data(3, 4), data(4), data(4))
        yield Sample(data(3, 2, 4), data(2), None, 1e-3)
        yield Sample(data(2, 2, 3, 2), None, data(2))
        yield Sample(data(2, 2, 2))


@op(
    "_group_norm(input: T, weight: T? = None, bias: T? = None, groups: int = 1, eps: float = 1e-5)",
    kind="composite",
    method=False,
    function=False,
    n_out=3,
)
class _group_norm:
    """(x - mean) / sqrt(var + eps) over groups of channels, times weight plus bias of each channel; mean and var."""

    partial = True

    def meta(x, weight, bias, groups, eps):
        stats = Meta((x.shape[0], groups), x.dtype)
        return Meta(x.shape, x.dtype), stats, stats

    def kernel(x, weight, bias, groups, eps):
        if x.dtype.char == "e":
            return tuple(half(a) for a in _wide(_group_norm.kernel, (x, weight, bias), groups, eps))
        if (found := native.group_norm(x, weight, bias, groups, eps)) is not None:
            return found
        rows = x.reshape(x.shape[0], groups, -1)
        with np.errstate(all="ignore"):
            mean, var = rows.mean(2), rows.var(2)
            y = (rows - mean[..., None]) / np.sqrt(var[..., None] + x.dtype.type(eps))
        y = y.reshape(x.shape)
        y = y if weight is None else y * _column(weight, x.ndim)
        return y if bias is None else y + _column(bias, x.ndim), mean, var

    def vjp(g0, g1, g2, input, weight, out1, out2, groups, eps, need):
        g0 = input.new_zeros(input.shape) if g0 is None else g0
        if g1 is None and g2 is None and (arrays := plain_arrays(g0, input, weight, out1, out2)):
            found = native.group_norm_grad(*arrays, groups, eps)
            if found is not None:
                return tuple(wrap(a) if n else None for a, n in zip(found, need, strict=True))
        shape, nd = input.shape, input.ndim
        rows = (shape[0], groups, -1)
        centred = input.reshape(rows) - out1.unsqueeze(2)
        n = centred.shape[2]
        rstd = (out2 + eps).rsqrt().unsqueeze(2)
        xhat = centred * rstd
        gx = gw = gb = None
        if need[0]:
            gy = (g0 if weight is None else g0 * _column(weight, nd)).reshape(rows)
            mid = gy.sum((2,), keepdim=True) + xhat * (gy * xhat).sum((2,), keepdim=True)
            gx = (gy - _over(mid, n)) * rstd
            if g1 is not None:
                gx = gx + _over(g1.unsqueeze(2), n)
            if g2 is not None:
                gx = gx + _over(g2.unsqueeze(2) * centred * 2.0, n)
            gx = gx.reshape(shape).contiguous()  # as the kernel's
        dims = (0, *range(2, nd))
        if need[1]:
            gw = (g0 * xhat.reshape(shape)).sum(dims)
        if need[2]:
            gb = g0.sum(dims)
        return gx, gw, gb

    def on_arrays(g, input, weight, out1, out2, groups, eps, need):
        found = native.group_norm_grad(g, input, weight, out1, out2, groups, eps)
        return found and tuple(a if n is not None else None for a, n in zip(found, need, strict=True))

    def decompose(x, weight, bias, groups, eps):
        rows = x.reshape((x.shape[0], groups, -1))
        mean = rows.mean((2,))
        centred = rows - mean.unsqueeze(2)
        var = (centred * centred).mean((2,))
        y = (centred * (var + eps).rsqrt().unsqueeze(2)).reshape(x.shape)
        y = y if weight is None else y * _column(weight, x.ndim)
        return y if bias is None else y + _column(bias, x.ndim), mean, var

    def samples():
        yield Sample(data(3, 4), data(4), data(4), 2)
        yield Sample(data(2, 6, 3), data(6), None, 3, 1e-3)
        yield Sample(data(2, 4, 2, 2), None, data(4), 1)
        yield Sample(data(2, 4, 2), None, None, 4)


def _over(t: Any, n: Any) -> Any:
    """`t` / n; NaN for n = 0."""
    return t * math.nan if type(n) is int and n == 0 else t / n
