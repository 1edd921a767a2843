"""Elementwise rounding to integers, and between radians and degrees."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..op import Sample, op
from ._blocked import rounded_once
from ._data import t
from ._native import elementwise
from .create import zeros_like


def _rounding(f: Any) -> Any:
    """f, kept from turning integers into floats as numpy before 2.1 does."""
    return f if f(np.int64(1)).dtype == np.int64 else lambda x: f(x) if x.dtype.kind == "f" else x.copy()


@op("floor(input: T)", kind="pointwise", promote="same", inplace=True)
class floor:
    """Largest integer not above input; integers stay."""

    accepts = "number"

    kernel = _rounding(np.floor)

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x):
        return b.floor(x) if x.dtype.is_floating_point else x

    ref = np.floor

    def samples():
        yield Sample(t(3, 4, low=-5, high=5), grad=False)


@op("ceil(input: T)", kind="pointwise", promote="same", inplace=True)
class ceil:
    """Smallest integer not below input; integers stay."""

    accepts = "number"

    kernel = _rounding(np.ceil)

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x):
        return b.ceil(x) if x.dtype.is_floating_point else x

    ref = np.ceil

    def samples():
        yield Sample(t(3, 4, low=-5, high=5), grad=False)


@op("trunc(input: T)", kind="pointwise", promote="same", inplace=True, names=("fix",))
class trunc:
    """input without its fraction; integers stay."""

    accepts = "number"

    kernel = _rounding(np.trunc)

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x):
        return b.trunc(x) if x.dtype.is_floating_point else x

    ref = np.trunc

    def samples():
        yield Sample(t(3, 4, low=-5, high=5), grad=False)


@op("frac(input: T)", kind="pointwise", promote="same", inplace=True)
class frac:
    """input - trunc(input)."""

    accepts = "float"

    @elementwise("frac")
    def kernel(x):
        return x - np.trunc(x)

    def vjp(g):
        return g

    def scalar(b, x):
        return b.sub(x, b.trunc(x))

    def ref(x):
        return x - np.trunc(x)

    def samples():
        yield Sample(t(3, 4, low=-5, high=5))


@op("round(input: T, *, decimals: int = 0)", kind="pointwise", promote="same", inplace=True, names=("special.round",))
class round_:
    """The nearest integer (of two the even one), or the nearest multiple of 10**-decimals; integers stay."""

    accepts = "number"

    def kernel(x, decimals=0):
        if x.dtype.kind != "f":
            if decimals:
                raise NotImplementedError("round: decimals other than 0 are for floating point tensors")
            return x.copy()
        if decimals == 0:
            return np.rint(x)
        ten = 10.0 ** abs(decimals)
        return np.rint(x * ten) / ten if decimals > 0 else np.rint(x / ten) * ten

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x, decimals=0):
        if not x.dtype.is_floating_point:
            return x
        if decimals == 0:
            return b.round(x)
        ten = b.const(10.0 ** abs(decimals), x.dtype)
        return b.div(b.round(b.mul(x, ten)), ten) if decimals > 0 else b.mul(b.round(b.div(x, ten)), ten)

    def ref(x, decimals=0):
        return np.round(x, decimals)

    def samples():
        yield Sample(t(3, 4, low=-5, high=5), grad=False)
        yield Sample(t(3, 4, low=-5, high=5), decimals=1, grad=False)


_DEG = 180 / math.pi


@op("rad2deg(input: T)", kind="pointwise", promote="float", inplace=True)
class rad2deg:
    """Radians to degrees."""

    @rounded_once
    def kernel(x):
        return x * _DEG

    def vjp(g):
        return g * _DEG

    def scalar(b, x):
        return b.mul(x, b.const(_DEG, x.dtype))

    ref = np.rad2deg

    def samples():
        yield Sample(t(3, 4))


@op("deg2rad(input: T)", kind="pointwise", promote="float", inplace=True)
class deg2rad:
    """Degrees to radians."""

    @rounded_once
    def kernel(x):
        return x * (1 / _DEG)

    def vjp(g):
        return g * (1 / _DEG)

    def scalar(b, x):
        return b.mul(x, b.const(1 / _DEG, x.dtype))

    ref = np.deg2rad

    def samples():
        yield Sample(t(3, 4))
