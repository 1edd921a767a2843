"""Draws into the memory of a tensor: uniform_, normal_, random_ and their kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import random as rng
from ..autograd.modes import STATE
from ..handler import current
from ..inplace import Overwritten
from ..op import function
from ..tensor import Tensor
from ._inplace_forms import Quick, changed, quiet
from .random_ops import _drawn, _need_float, bernoulli_op, check_range, rand_op, randint_op, randn_op


def _put(self: Tensor, value: Tensor, name: str) -> Tensor:
    """Overwrite self with random numbers, through which no gradient flows."""
    if quiet(self, value) and value._data.shape == self._data.shape:
        np.copyto(self._data, value._data)
        changed(self)
        return self
    self.copy_(value)
    if STATE.grad and isinstance(self._node, Overwritten):
        self._node.label = name
    return self


def _few_for(self: Tensor, draws: Any, a: Any = 0.0, b: Any = 0.0) -> np.ndarray | None:
    """A draw of few numbers by the default generator, in the shape of ``self``, if writing them into its memory is all
    there is to do; a, b: numbers that they will be computed with. Nobody may write into the array."""
    if not quiet(self) or current() is not None or type(rng.default_generator) is not rng.Generator:
        return None
    d = self._data
    n = d.size
    if n > rng.SMALL or d.dtype.char not in "fd" or not (-1e30 < a < 1e30 and -1e30 < b < 1e30):
        return None
    seed, draw = rng.default_generator.next()
    r = rng.row(draws, seed, draw, n, d.dtype)
    return r if d.ndim == 1 else r.reshape(d.shape)


def _scaled(self: Tensor, r: np.ndarray, scale: Any, shift: Any) -> Tensor:
    """Write r * scale + shift."""
    d = self._data
    np.add(np.multiply(r, scale, d), shift, d)
    changed(self)
    return self


def _next_row(d: np.ndarray, draws: Any) -> Any:
    """The next draw of few numbers by the default generator, for a vector of floating point numbers; None for the
    rest."""
    kind = d.dtype
    return rng.ahead(draws, d.size, kind) if d.ndim == 1 and d.size <= rng.SMALL and kind.char in "fd" else None


def _uniform_drawn(d: np.ndarray) -> bool:
    """Fill a vector of few elements; whether that was all."""
    if d.ndim != 1 or d.size > rng.SMALL or (kind := d.dtype).char not in "fd":
        return False
    r = rng.ahead(rng.uniform, d.size, kind)
    if r is None:
        return False
    d[:] = r
    return True


def _normal_drawn(d: np.ndarray, mean: Any, std: Any) -> bool:
    """Fill a vector of few elements; whether that was all."""
    numbers = type(mean) in _PLAIN and type(std) in _PLAIN
    if not numbers or not (-1e30 < mean < 1e30 and 0 <= std < 1e30) or (r := _next_row(d, rng.normal)) is None:
        return False
    if mean == 0 and std == 1:
        d[:] = r
    else:
        np.add(np.multiply(r, std, d), mean, d)
    return True


@function("uniform_(self: T)", function=False, inline=Quick(_uniform_drawn, "self", kept=("args", "kw"), draws=True))
def uniform_(self, *args, generator=None, **kw):
    """Uniform numbers in [from, to); from and to default to 0 and 1."""
    if generator is None and not kw and not args and (r := _few_for(self, rng.uniform)) is not None:
        self._data[...] = r
        changed(self)
        return self
    low, high = _two(args, kw, ("from", "to"), (0.0, 1.0))
    _need_float(self.dtype, "check_uniform_bounds")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    numbers = type(low) in _PLAIN and type(high) in _PLAIN
    if generator is None and numbers and (r := _few_for(self, rng.uniform, low, high)) is not None:
        return _scaled(self, r, high - low, low)
    u = _drawn(rand_op, rng.uniform, tuple(self.shape), self.dtype, generator)
    return _put(self, u if (low, high) == (0, 1) else u * (high - low) + low, "UniformBackward0")


_PLAIN = (float, int)


def _two(args: tuple, kw: dict, names: tuple[str, str], defaults: tuple) -> list:
    values = list(args) + [kw.pop(n, d) for n, d in list(zip(names, defaults, strict=True))[len(args) :]]
    if kw or len(values) > 2:
        raise TypeError(f"unexpected arguments, expected {names[0]} and {names[1]}")
    return values


@function(
    "normal_(self: T, mean: float, std: float)",
    function=False,
    inline=Quick(_normal_drawn, "self", "mean", "std", draws=True),
)
def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Normal numbers of one mean and deviation."""
    _need_float(self.dtype, "normal_kernel_cpu")
    if std < 0:
        raise RuntimeError(f"normal_ expects std >= 0.0, but found std={std}")
    numbers = type(mean) in _PLAIN and type(std) in _PLAIN
    if generator is None and numbers and (r := _few_for(self, rng.normal, mean, std)) is not None:
        return _scaled(self, r, std, mean)
    z = _drawn(randn_op, rng.normal, tuple(self.shape), self.dtype, generator)
    return _put(self, z if (mean, std) == (0, 1) else z * std + mean, "NormalBackward0")


@function("log_normal_(self: T, mean: float, std: float)", function=False)
def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """exp of normal numbers."""
    _need_float(self.dtype, "log_normal")
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return _put(
        self,
        (_drawn(randn_op, rng.normal, tuple(self.shape), self.dtype, generator) * std + mean).exp(),
        "LogNormalBackward0",
    )


@function("exponential_(self: T, lambd: float)", function=False)
def exponential_(self, lambd=1.0, *, generator=None):
    """Exponential numbers of rate lambd."""
    _need_float(self.dtype, "exponential")
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    plain = generator is None and type(lambd) in _PLAIN and lambd > 1e-30
    if plain and (r := _few_for(self, rng.uniform)) is not None:
        d = self._data
        np.multiply(np.log1p(np.negative(r, d), d), -1.0 / lambd, d)
        changed(self)
        return self
    u = _drawn(rand_op, rng.uniform, tuple(self.shape), self.dtype, generator)
    return _put(self, (-u).log1p() * (-1.0 / lambd), "ExponentialBackward0")


@function("cauchy_(self: T, median: float, sigma: float)", function=False)
def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Cauchy numbers."""
    _need_float(self.dtype, "cauchy")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    u = _drawn(rand_op, rng.uniform, tuple(self.shape), self.dtype, generator)
    return _put(self, ((u - 0.5) * math.pi).tan() * sigma + median, "CauchyBackward0")


@function("geometric_(self: T, p: num)", function=False)
def geometric_(self, p, *, generator=None):
    """Number of trials up to the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    kind = self.dtype if self.dtype.is_floating_point else dt.float64
    u = _drawn(rand_op, rng.uniform, tuple(self.shape), kind, generator)
    return _put(self, ((-u).log1p() * (1 / math.log1p(-p))).ceil().clamp(min=1).to(self.dtype), "GeometricBackward0")


@function("bernoulli_(self: T, p: Tn)", function=False)
def bernoulli_(self, p=0.5, *, generator=None):
    """1 with probability p (a number or a tensor), else 0."""
    if isinstance(p, Tensor):
        draws = bernoulli_op(p.detach(), generator=generator)
        return _put(self, draws.to(self.dtype).expand(tuple(self.shape)), "BernoulliBackward1")
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if generator is None and type(p) in _PLAIN and (r := _few_for(self, rng.uniform)) is not None:
        np.copyto(self._data, np.less(r, p))
        changed(self)
        return self
    kind = self.dtype if self.dtype.is_floating_point else dt.float32
    return _put(
        self,
        (_drawn(rand_op, rng.uniform, tuple(self.shape), kind, generator) < p).to(self.dtype),
        "BernoulliBackward2",
    )


_EXACT = {"float32": 1 << 24, "float64": 1 << 53, "float16": 1 << 11, "bool": 1}


@function("random_(self: T)", function=False)
def random_(self, *args, generator=None, **kw):
    """Integers in [from, to), random_(to) or the whole range of the dtype (exact integers for floating point)."""
    args = [*args, *(kw[k] for k in ("from", "to") if k in kw)]
    kind = self.dtype
    top = _EXACT[kind.name] if kind.name in _EXACT else int(np.iinfo(kind.np).max)
    low, high = (0, top + 1) if not args else (0, args[0]) if len(args) == 1 else args[:2]
    if high is None:
        high = top + 1
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if args:
        check_range(low, high, kind)
    few = type(low) is int and type(high) is int and high - low <= 1 << 16 and -(1 << 53) < low < 1 << 53
    if few and generator is None and quiet(self) and self._data.size <= rng.SMALL and current() is None:
        if type(rng.default_generator) is rng.Generator:
            d = self._data
            np.copyto(d, rng.integers(*rng.default_generator.next(), low, high, d.shape), casting="unsafe")
            changed(self)
            return self
    drawn_now = randint_op(int(low), int(high), tuple(self.shape), dt.int64, generator=generator)
    return _put(self, drawn_now.to(kind), f"RandomBackward{2 - len(args)}")
