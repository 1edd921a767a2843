"""Derivatives of composites on arrays: one pass over pieces of rows instead of one operator after the other.

The vjp rules in the table say what a derivative is, in operators: that is what is recorded, compiled and differentiated
again.  Where none of this is wanted (a plain backward pass), a rule may hand its arrays to a function of this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.modes import SLOW, STATE
from ..dispatch import FAST
from ._blocked import in_blocks, in_pieces, row_step
from .special_kernels import normal_cdf

__all__ = [
    "channel_grad",
    "elementwise_grad",
    "gelu_grad",
    "layer_grad",
    "log_softmax_grad",
    "minus_hits",
    "plain_arrays",
    "silu_grad",
    "softmax_grad",
    "tanh_gelu_grad",
]

_GELU_A, _GELU_B = math.sqrt(2 / math.pi), 0.044715
_LEAST = 256  # elements; below, the operators are as fast


def plain_arrays(*tensors: Any) -> list[Any] | None:
    """The arrays of tensors (None stays None) if no graph is wanted, all are plain float32 or all plain float64 tensors
    with C-contiguous memory, and there are enough of them; else None.
    """
    if STATE.grad or SLOW[0]:
        return None
    found: list[Any] = []
    for t in tensors:
        a = None
        if t is not None:
            if type(t) not in FAST:
                return None
            a = t._data
            if a is None or not a.flags.c_contiguous or a.dtype != (found[0].dtype if found else a.dtype):
                return None
        found.append(a)
    first = found[0]
    return found if first is not None and first.size >= _LEAST and first.dtype.char in "fd" else None


def softmax_grad(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    """out * (g - sum(g * out)) along the last dimension."""
    width = out.shape[-1]
    r = np.empty_like(out)
    gs, os, rs = (a.reshape(-1, width) for a in (g, out, r))

    def piece(at: slice) -> None:
        o, x = os[at], rs[at]
        np.multiply(gs[at], o, out=x)
        total = np.add.reduce(x, axis=1, keepdims=True)
        np.subtract(gs[at], total, out=x)
        np.multiply(x, o, out=x)

    in_pieces(piece, len(rs), row_step(width), r.size)
    return r


def log_softmax_grad(g: np.ndarray, out: np.ndarray) -> np.ndarray:
    """g - exp(out) * sum(g) along the last dimension."""
    width = out.shape[-1]
    r = np.empty_like(out)
    gs, os, rs = (a.reshape(-1, width) for a in (g, out, r))

    def piece(at: slice) -> None:
        x = rs[at]
        np.exp(os[at], out=x)
        x *= np.add.reduce(gs[at], axis=1, keepdims=True)
        np.subtract(gs[at], x, out=x)

    in_pieces(piece, len(rs), row_step(width), r.size)
    return r


def layer_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, var: np.ndarray, eps: float, need: tuple
) -> tuple:
    """Gradients for input, weight and bias of (x - mean) / sqrt(var + eps) * weight + bias over rows (n, width)."""
    n, width = x.shape
    step = row_step(width)
    gx = np.empty_like(x) if need[0] else None
    sums = np.zeros((2, -(-n // step), width), x.dtype)  # of the pieces

    def piece(at: slice) -> None:
        k, gs = at.start // step, g[at]
        rstd = 1 / np.sqrt(var[at] + x.dtype.type(eps))
        xhat = np.subtract(x[at], mean[at])
        xhat *= rstd
        if need[1]:
            np.einsum("ij,ij->j", gs, xhat, out=sums[0, k])
        if need[2]:
            np.add.reduce(gs, axis=0, out=sums[1, k])
        if gx is None:
            return
        o = gx[at]
        if weight is not None:
            gs = np.multiply(gs, weight, out=o)
        plain = np.add.reduce(gs, axis=1, keepdims=True) / width
        xhat *= np.einsum("ij,ij->i", gs, xhat)[:, None] / width
        xhat += plain
        np.subtract(gs, xhat, out=o)
        o *= rstd

    in_pieces(piece, n, step, x.size)
    gw, gb = (np.add.reduce(s, axis=0, dtype=np.float64).astype(x.dtype) if n else s for s in sums)
    return gx, gw if need[1] else None, gb if need[2] else None


def channel_grad(
    g: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, var: np.ndarray, eps: float, need: tuple
) -> tuple:
    """The same over all but the second dimension of (n, channels, length); weight, mean, var: (channels,)."""
    n, channels, length = x.shape
    count = n * length
    gx = np.empty_like(x) if need[0] else None
    gw, gb = np.empty(channels, x.dtype), np.empty(channels, x.dtype)

    def piece(at: slice) -> None:
        gs = g[:, at]
        rstd = 1 / np.sqrt(var[at] + x.dtype.type(eps))
        xhat = x[:, at] - mean[at][:, None]
        xhat *= rstd[:, None]
        plain, along = np.add.reduce(gs, axis=2).sum(0), np.einsum("ncl,ncl->nc", gs, xhat).sum(0)
        gw[at], gb[at] = along, plain
        if gx is None:
            return
        factor = rstd if weight is None else rstd * weight[at]
        xhat *= (along / -count)[:, None]
        xhat -= (plain / count)[:, None]
        xhat += gs
        np.multiply(xhat, factor[:, None], out=gx[:, at])

    in_pieces(piece, channels, row_step(count), x.size)
    return gx, gw if need[1] else None, gb if need[2] else None


def elementwise_grad(f: Callable[..., None], g: np.ndarray, *arrays: np.ndarray) -> np.ndarray:
    """``f(g, *arrays, result)`` over pieces of arrays of one shape, flat."""
    out = np.empty_like(g)
    flat, o = [a.reshape(-1) for a in (g, *arrays)], out.reshape(-1)
    in_blocks(lambda at: f(*(a[at] for a in flat), o[at]), g.size)
    return out


def gelu_grad(g: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """g * (cdf + x * pdf)"""
    np.multiply(x, x, out=out)
    out *= -0.5
    np.exp(out, out=out)
    out *= 1 / math.sqrt(2 * math.pi)
    out *= x
    out += normal_cdf(x)
    out *= g


def tanh_gelu_grad(g: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """g * (0.5 * (1 + th) + 0.5 * x * (1 - th * th) * inner)"""
    square = x * x
    th = square * (_GELU_A * _GELU_B)
    th += _GELU_A
    th *= x
    np.tanh(th, out=th)
    square *= 3 * _GELU_A * _GELU_B
    square += _GELU_A
    square *= x
    np.multiply(th, th, out=out)
    np.subtract(1, out, out=out)
    out *= square
    out += th
    out += 1
    out *= 0.5
    out *= g


def silu_grad(g: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """g * (s * (1 + x * (1 - s)))"""
    s = np.negative(x)
    np.exp(s, out=s)
    s += 1
    np.reciprocal(s, out=s)
    np.subtract(1, s, out=out)
    out *= x
    out += 1
    out *= s
    out *= g


def minus_hits(logp: np.ndarray, target: np.ndarray, factor: Any) -> np.ndarray:
    """(exp(logp) - one hot) * factor over pieces of rows; factor: one number, or one a row."""
    out = np.empty_like(logp)
    factor = np.asarray(factor, logp.dtype)

    def piece(at: slice) -> None:
        o = out[at]
        np.exp(logp[at], out=o)
        o[np.arange(len(o)), target[at]] -= 1
        o *= factor[at][:, None] if factor.ndim else factor

    in_pieces(piece, len(logp), row_step(logp.shape[1]), logp.size)
    return out
