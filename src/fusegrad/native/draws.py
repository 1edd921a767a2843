"""Definitions of kernels that draw random numbers (which ones: fusegrad/random.py), on flat arrays of n elements."""

from __future__ import annotations

import math
from typing import Any

from fusegrad.dtypes import dtype, float32, float64, int32, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, ScalarParam, SizeParam, Store
from .scalar import Expr, b

SEED, DRAW, I = b.scalar("seed", int64), b.scalar("draw", int64), b.index("i")
STATE = (ScalarParam("seed", int64), ScalarParam("draw", int64))


def _flat(name: str, params: list[Any], value: Expr) -> Kernel:
    store = Store("y", value, terms={"i": 1})
    return Kernel(name, (*params, *STATE, SizeParam("n")), (Nest((Loop("i", "n"),), (Phase(stores=(store,)),)),))


def words(d: dtype) -> Kernel:
    """y = the words of a draw from the first on, as int32: y, first, seed, draw."""
    value = b.random_word(SEED, DRAW, I + b.scalar("first", int64))
    return _flat("words", [ArrayParam("y", int32, True), ScalarParam("first", int64)], value)


def uniform(d: dtype) -> Kernel:
    """y = uniform numbers in [0, 1): y, seed, draw."""
    if d is float32:
        return _flat("uniform", [ArrayParam("y", d, True)], b.uniform(SEED, DRAW, I))
    high, low = (b.lshr(b.random_word(SEED, DRAW, I * 2 + k), 5 + k) for k in (0, 1))
    value = (b.cast(high, float64) * 2.0**26 + b.cast(low, float64)) * 2.0**-53
    return _flat("uniform", [ArrayParam("y", d, True)], value)


def normal(d: dtype) -> Kernel:
    """y = uniform numbers as normal ones, pair by pair: x, y, pairs."""
    u, v = (b.load("x", d, offset=k, terms={"i": 2}) for k in (0, 1))
    stores = tuple(Store("y", z, offset=k, terms={"i": 2}) for k, z in enumerate(normal_pair(b, u, v, d)))
    params = (ArrayParam("x", d), ArrayParam("y", d, True), SizeParam("n"))
    return Kernel("normal", params, (Nest((Loop("i", "n"),), (Phase(stores=stores),)),))


def normal_pair(b: Any, u: Expr, v: Expr, d: dtype) -> tuple[Expr, Expr]:
    """The two normal numbers of two uniform ones (G. E. P. Box, M. E. Muller, 1958, Ann. Math. Stat. 29, p. 610)."""
    r = b.sqrt(b.mul(b.log(b.sub(b.const(1, d), u)), -2.0))
    a = b.mul(v, b.const(2 * math.pi, d))
    return b.mul(r, b.cos(a)), b.mul(r, b.sin(a))


def _bits(word: Expr) -> Expr:
    """The 32 bits of a word as a number of 64."""
    return b.and_(b.cast(word, int64), b.const(0xFFFFFFFF, int64))


def bits64(d: dtype) -> Kernel:
    """y = 64 bits an element, as int64: y, seed, draw."""
    low, high = (b.random_word(SEED, DRAW, I * 2 + k) for k in (0, 1))
    value = b.or_(_bits(low), b.shl(b.cast(high, int64), 32))
    return _flat("bits64", [ArrayParam("y", int64, True)], value)


def below(d: dtype) -> Kernel:
    """y = integers from low on, n of them (at most 2**16): y, low, n, seed, draw."""
    part = b.lshr(b.mul(_bits(b.random_word(SEED, DRAW, I)), b.scalar("many", int64)), 32)
    params = [ArrayParam("y", int64, True), ScalarParam("low", int64), ScalarParam("many", int64)]
    return _flat("below", params, b.add(part, b.scalar("low", int64)))


def dropout(d: dtype) -> Kernel:
    """y = x * scale where the uniform number is at least p, else x * 0: x, y, p, scale, seed, draw."""
    keep = b.ge(b.uniform(SEED, DRAW, I), b.scalar("p", float32))
    value = b.load("x", d, terms={"i": 1}) * b.where(keep, b.scalar("scale", d), b.const(0, d))
    params = [ArrayParam("x", d), ArrayParam("y", d, True), ScalarParam("p", float32), ScalarParam("scale", d)]
    return _flat("dropout", params, value)
