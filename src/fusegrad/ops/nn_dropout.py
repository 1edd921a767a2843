"""Dropout of elements and of whole channels, and alpha dropout. The masks are draws of fusegrad/random.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import random as rng
from ..meta import Meta
from ..native.on_demand import defined
from ..op import Sample, function, op
from ..tensor import Tensor
from ._checked import in_place
from ._data import t
from ._native import dense
from .create import full_op
from .random_ops import rand_op

_DROPOUT = defined("draws", "dropout")


@op("dropout(input: T, p: float)", kind="random", function=False, method=False, inplace=True)
class dropout_op:
    """input * keep / (1 - p) where each element is kept with probability 1 - p."""

    def kernel(x, p, seed, draw):
        _dropped_as_float(x.dtype.kind == "f", x.dtype)
        f = _DROPOUT[x.dtype]
        if f is None:
            return x * keep_mask(x.shape, p, seed, draw, x.dtype)
        if not x.flags.c_contiguous:
            x = dense(x)
        out = np.empty_like(x)
        f(x, out, p, 0.0 if p >= 1 else 1.0 / (1.0 - p), seed, draw, x.size)
        return out

    def meta(m, p, **_):
        _dropped_as_float(m.dtype.is_floating_point, m.dtype)
        return Meta(m.shape, m.dtype)  # the mask is in C order

    def vjp(g, p, seed, draw):
        return dropout_op(g, p, seed=seed, draw=draw)  # the same numbers, so the same mask

    def decompose(input, p, seed, draw):
        if p >= 1:
            return input * 0
        u = rand_op(tuple(input.shape), dt.float32, seed=seed, draw=draw)
        return input * ((u >= p).to(input.dtype) * (1.0 / (1.0 - p)))

    def samples():
        yield Sample(t(3, 4), 0.5)
        yield Sample(t(3, 4), 1.0)


def _dropped_as_float(floating: bool, dtype: Any) -> None:
    if not floating:
        raise RuntimeError(f"dropout: result type float32 can't be cast to the desired output type {dtype}")


def keep_mask(shape: tuple, p: float, seed: int, draw: int, dtype: Any) -> np.ndarray:
    """1 / (1 - p) where the draw's uniform number is at least p (rounded to float32), else 0."""
    n = math.prod(shape)
    w = rng.words(seed, draw, n)
    limit = math.ceil(float(np.float32(p)) * 2.0**24) << 8
    if limit >= 1 << 32:
        return np.zeros(shape, dtype)
    keep = np.greater_equal(w, np.uint32(limit)).astype(dtype)
    keep *= keep.dtype.type(1.0 / (1.0 - p))
    return keep.reshape(shape)


def _real(p: Any) -> Any:
    """A probability as a float; one that changes between calls as it is."""
    return p if hasattr(p, "hint") else float(p)


def _check_p(p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _fits_float(input: Tensor) -> None:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {input.dtype.name}")


@function("nn.functional.dropout(input: T, p: float, training: bool)")
def f_dropout(input, p=0.5, training=True, inplace=False):
    """Zero each element with probability p and scale the others by 1 / (1 - p), in training. ValueError for a bad p."""
    _check_p(p)
    if not training or (isinstance(p, (int, float)) or hasattr(p, "hint")) and p == 0:
        return input
    _fits_float(input)
    return in_place(dropout_op)(input, _real(p)) if inplace else dropout_op.fn(input, _real(p))


@function("dropout(input: T, p: float, train: bool)", method=False)
def dropout(input, p, train):
    """Zero each element with probability p and scale the others by 1 / (1 - p), if train."""
    if not 0.0 <= p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not train or p == 0:
        return input
    _fits_float(input)
    return dropout_op(input, _real(p))


@function("dropout_(input: T, p: float, train: bool)", method=False)
def dropout_(input, p, train):
    """In-place form of dropout."""
    return input if not train or p == 0 else in_place(dropout_op)(input, _real(p))


def _with_channels(input):
    """The shape of a tensor with channels to drop."""
    if input.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    return tuple(input.shape)


def _feature_dropout(input, p, training, inplace, batch_dims):
    """Drop whole channels: the mask has one element for each of the leading batch_dims dimensions."""
    _check_p(p)
    if not training or p == 0:
        return input
    shape = _with_channels(input) if batch_dims == 2 else tuple(input.shape)
    ones = full_op((*shape[:batch_dims], *(1,) * (len(shape) - batch_dims)), 1, input.dtype)
    mask = dropout_op(ones, _real(p))
    return input.mul_(mask) if inplace else input * mask


@function("nn.functional.dropout1d(input: T, p: float, training: bool)")
def f_dropout1d(input, p=0.5, training=True, inplace=False):
    """Drop whole channels of (N, C, L) or (C, L)."""
    _check_p(p)
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input: it drops channels "
            "of inputs with one spatial dimension and an optional batch dimension"
        )
    return _feature_dropout(input, p, training, inplace, input.ndim - 1)


@function("nn.functional.dropout2d(input: T, p: float, training: bool)")
def f_dropout2d(input, p=0.5, training=True, inplace=False):
    """Drop whole channels of (N, C, H, W)."""
    return _feature_dropout(input, p, training, inplace, 2)


@function("nn.functional.dropout3d(input: T, p: float, training: bool)")
def f_dropout3d(input, p=0.5, training=True, inplace=False):
    """Drop whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    return _feature_dropout(input, p, training, inplace, 2 if input.ndim == 5 else 1)


_ALPHA = -1.7580993408473766  # limit of selu at minus infinity


def _alpha_dropout(input, p, training, inplace, shape):
    """Dropped elements become selu's limit; an affine map then restores mean and variance (Klambauer et al. 2017)."""
    _check_p(p)
    if not training or p == 0:
        return input
    if p == 1:
        return input.mul_(0) if inplace else input * 0
    a = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    keep = (rand_op(shape, dt.float32) >= p).to(input.dtype)
    result = (input * keep + _ALPHA * (1 - keep)) * a - a * _ALPHA * p
    return input.copy_(result) if inplace else result


@function("nn.functional.alpha_dropout(input: T, p: float, training: bool)")
def f_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance under selu."""
    return _alpha_dropout(input, p, training, inplace, tuple(input.shape))


@function("nn.functional.feature_alpha_dropout(input: T, p: float, training: bool)")
def f_feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels."""
    _check_p(p)
    shape = _with_channels(input) if training and p else tuple(input.shape)
    return _alpha_dropout(input, p, training, inplace, (*shape[:2], *(1,) * (len(shape) - 2)))
