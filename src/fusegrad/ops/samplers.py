"""Draws that need a varying number of random words an element: gamma, Poisson and binomial numbers.

They come from numpy's generator, keyed by (seed, draw): the same state gives the same numbers, eager and compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..meta import Meta, broadcast_shapes
from ..op import Sample, function, op
from ._data import t
from ._gamma_slope import gamma_slope
from .create import zeros_like


def _generator(seed: int, draw: int) -> Any:
    return np.random.Generator(np.random.Philox(key=np.array([seed, draw], np.uint64)))


def _need_float(x: Any, name: str) -> None:
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{x.dtype.name}'")


@op("standard_gamma(input: T)", kind="random", function=False, method=False)
class standard_gamma_op:
    """Gamma numbers of rate 1 and the given concentrations; gradients are those of the quantiles."""

    def kernel(a, seed, draw):
        if not (a > 0).all():
            raise RuntimeError("standard_gamma expects concentrations above 0")
        x = np.asarray(_generator(seed, draw).standard_gamma(a.astype(np.float64)), a.dtype)
        return np.maximum(x, np.finfo(a.dtype).tiny, out=x)

    def meta(m, **_):
        return Meta(m.shape, m.dtype)

    def vjp(g, input, out):
        return g * standard_gamma_grad(input, out)

    def samples():
        yield Sample(t(3, 4, low=0.3, high=5), grad=False)


@op("_standard_gamma_grad(input: T, output: T)", kind="pointwise", promote="same")
class standard_gamma_grad:
    """How a gamma number `output` moves with its concentration `input` while its quantile stays."""

    accepts = "float"
    kernel = gamma_slope

    def vjp_input(g):
        raise NotImplementedError("the derivative for '_standard_gamma_grad' is not implemented.")

    def vjp_output(g):
        raise NotImplementedError("the derivative for '_standard_gamma_grad' is not implemented.")

    def samples():
        yield Sample(t(3, 4, low=0.3, high=5), t(3, 4, low=0.3, high=5), grad=False)


@function("_standard_gamma(input: T)")
def standard_gamma(input, generator=None):
    """Gamma numbers of rate 1 and the given concentrations. RuntimeError for one that is not positive."""
    _need_float(input, "gamma_cpu")
    return standard_gamma_op(input, generator=generator)


@op("poisson(input: T)", kind="random", function=False, method=False)
class poisson_op:
    """Poisson numbers of the given rates, in their dtype."""

    def kernel(rate, seed, draw):
        if not (rate >= 0).all():
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
        return np.asarray(_generator(seed, draw).poisson(rate.astype(np.float64))).astype(rate.dtype)

    def meta(m, **_):
        return Meta(m.shape, m.dtype)

    def vjp(g):
        return zeros_like(g)

    def samples():
        yield Sample(t(3, 4, low=0, high=9), grad=False)

    def errors():
        yield (-t(3, low=0.1, high=1),), {}, RuntimeError, "non-negative"


@function("poisson(input: T)", method=False)
def poisson(input, generator=None):
    """Poisson numbers of the given rates. RuntimeError for a negative rate."""
    _need_float(input, "poisson_cpu")
    return poisson_op(input, generator=generator)


@op("binomial(count: T, prob: T)", kind="random", function=False, method=False)
class binomial_op:
    """Numbers of successes in `count` trials of probability `prob`, in its dtype."""

    def kernel(count, prob, seed, draw):
        if not (count >= 0).all():
            raise RuntimeError("binomial expects counts that are not negative")
        p = np.clip(np.nan_to_num(prob.astype(np.float64), nan=0.0), 0, 1)
        n = np.asarray(_generator(seed, draw).binomial(count.astype(np.int64), p))
        return np.asarray(np.where(np.isnan(prob), np.nan, n), prob.dtype)

    def meta(count, prob, **_):
        return Meta(broadcast_shapes(count.shape, prob.shape), prob.dtype)

    def vjp_count(g):
        return zeros_like(g)

    def vjp_prob(g):
        return zeros_like(g)

    def samples():
        yield Sample(np.floor(t(3, 4, low=5, high=9)), t(3, 4, low=0, high=1), grad=False)


@function("binomial(count: T, prob: T)", method=False)
def binomial(count, prob, generator=None):
    """Numbers of successes in `count` trials of probability `prob`."""
    for name, x in (("count", count), ("prob", prob)):
        if not x.dtype.is_floating_point:
            raise RuntimeError(f"binomial only supports floating-point dtypes for {name}, got: {x.dtype.name}")
    if count.dtype is not prob.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.name} but expected {count.dtype.name}")
    return binomial_op(count, prob, generator=generator)
