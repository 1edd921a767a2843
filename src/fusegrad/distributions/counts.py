"""Counts: Binomial, Geometric, Multinomial, NegativeBinomial, Poisson."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import ExponentialFamily, broadcast_all, holds
from fusegrad.distributions.discrete import BINARY, ByOdds, Categorical, _OfCategorical, one_of
from fusegrad.tensor import Tensor


class Geometric(ByOdds):
    """The number of failures before the first success of probability `probs`."""

    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(self._take(probs, logits), (), validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not holds(value > 0):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} to be positive but found invalid values:\n{value[value <= 0]}"
                )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return fusegrad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Whole numbers, as floating point."""
        with no_grad():
            u = fusegrad.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype)
            u = u.clamp(min=fusegrad.finfo(self.probs.dtype).tiny)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of `value` failures."""
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """That of one trial, divided by the probability."""
        cross = fusegrad.nn.functional.binary_cross_entropy_with_logits
        return cross(self.logits, self.probs, reduction="none") / self.probs


class Binomial(ByOdds):
    """The number of successes of probability `probs` in `total_count` trials."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, **BINARY}
    has_enumerate_support = True
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ):
        if one_of(probs, logits):
            self.total_count, self.probs = broadcast_all(total_count, probs)
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
        self.total_count = self.total_count.type_as(self._given())
        super().__init__(self._given().shape, (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Whole numbers, as floating point."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return fusegrad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of `value` successes."""
        self._checked(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * self.logits - n * fusegrad.nn.functional.softplus(self.logits)

    def entropy(self) -> Tensor:
        """The sum over all values; every element of total_count must be the same (NotImplementedError)."""
        n = int(self.total_count.max())
        if not bool(self.total_count.min() == n):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 .. total_count, along a new first dimension."""
        n = int(self.total_count.max())
        if not bool(self.total_count.min() == n):
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = fusegrad.arange(1 + n, dtype=self._given().dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values


class Multinomial(_OfCategorical):
    """Counts of each of K results in `total_count` draws."""

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Multinomial:
        """The same distribution with a larger batch shape."""
        return self._expand_counts(batch_shape, _instance, total_count=self.total_count)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts, in the dtype of the probabilities."""
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return fusegrad.nn.functional.one_hot(drawn, self._categorical._num_events).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the counts `value`."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits.masked_fill((value == 0) & (logits == -math.inf), 0) * value).sum(-1)

    def entropy(self) -> Tensor:
        """n H - log n! + E[sum of log counts!]."""
        n = fusegrad.tensor(float(self.total_count), dtype=self.probs.dtype)
        counts = self._counts(self.total_count)
        weights = Binomial(self.total_count, probs=self.probs, validate_args=False).log_prob(counts).exp()
        return n * self._categorical.entropy() - (n + 1).lgamma() + (weights * (counts + 1).lgamma()).sum((0, -1))

    def _counts(self, n: int) -> Tensor:
        counts = fusegrad.arange(1.0, 1.0 + n, dtype=self.probs.dtype)
        return counts.view(-1, *(1,) * len(self._batch_shape), 1).expand(-1, *self.probs.shape)


class NegativeBinomial(ByOdds):
    """The number of successes of probability `probs` before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = {"total_count": 0, "probs": 0, "logits": 0}

    def __init__(self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        if one_of(probs, logits):
            self.total_count, self.probs = broadcast_all(total_count, probs)
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
        self.total_count = self.total_count.type_as(self._given())
        super().__init__(self._given().shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Poisson numbers whose rates are gamma numbers."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            rate = fusegrad._standard_gamma(self.total_count.expand(shape)) * self.logits.exp()
            return fusegrad.poisson(rate)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of `value` successes."""
        self._checked(value)
        sigmoid, n = fusegrad.nn.functional.logsigmoid, self.total_count
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        ways = ways.masked_fill(n + value == 0.0, 0.0)
        return n * sigmoid(-self.logits) + value * sigmoid(self.logits) + ways


class Poisson(ExponentialFamily):
    """Counts of events that happen at `rate`: rate^k exp(-rate) / k!."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    _parameters = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Whole numbers, as floating point."""
        with no_grad():
            return fusegrad.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the counts `value`."""
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return fusegrad.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()
