"""float16 to float32 and back: numpy converts number by number, machine code a vector at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..native.on_demand import OnDemand

__all__ = ["half", "single"]

_HALF, _SINGLE = dt.float16.np, dt.float32.np
_MANY = 512  # elements


def _define(d: dt.dtype) -> Any:
    from ..native.nest import ArrayParam, Kernel, Loop, Nest, Phase, SizeParam, Store
    from ..native.scalar import b

    to = dt.float32 if d is dt.float16 else dt.float16
    store = Store("y", b.cast(b.load("x", d, terms={"i": 1}), to), terms={"i": 1})
    params = (ArrayParam("x", d), ArrayParam("y", to, True), SizeParam("n"))
    return Kernel("converted", params, (Nest((Loop("i", "n"),), (Phase(stores=(store,)),)),))


_KERNELS = OnDemand("half converted", _define, (dt.float16, dt.float32))


def _converted(a: np.ndarray, to: Any) -> np.ndarray:
    if a.size >= _MANY and a.flags.c_contiguous and (f := _KERNELS[a.dtype]) is not None:
        out = np.empty(a.shape, to)
        f(a, out, out.size)
        return out
    return a.astype(to)


def half(a: Any) -> Any:
    """float16 of float32: the nearest, of two the even one; infinity beyond the largest, without a word."""
    if a.dtype is _SINGLE and type(a) is np.ndarray:
        return _converted(a, _HALF)
    return a.astype(_HALF)


def single(a: Any) -> Any:
    """float32 of float16."""
    if a.dtype is _HALF and type(a) is np.ndarray:
        return _converted(a, _SINGLE)
    return a.astype(_SINGLE)
