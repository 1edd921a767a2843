"""Continuous relaxations of discrete distributions (Maddison et al., Jang et al., 2017): samples have gradients."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import Distribution
from fusegrad.distributions.discrete import MANY, ByOdds, Categorical
from fusegrad.distributions.transform import ExpTransform, SigmoidTransform
from fusegrad.distributions.transformed import TransformedDistribution
from fusegrad.tensor import Size, Tensor


def _inside(shape: Any, dtype: Any) -> Tensor:
    """Uniform numbers in (0, 1)."""
    kind = fusegrad.finfo(dtype)
    return fusegrad.rand(shape, dtype=dtype).clamp(min=kind.eps, max=1 - kind.eps)


class LogitRelaxedBernoulli(ByOdds):
    """The log odds of a relaxed Bernoulli variable."""

    support = constraints.real

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self.temperature = temperature
        super().__init__(self._take(probs, logits), (), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> LogitRelaxedBernoulli:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, temperature=self.temperature)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """(log odds of a uniform number + logits) / temperature."""
        u = _inside(self._extended_shape(sample_shape), self._given().dtype)
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        apart = self.logits - value * self.temperature
        return fusegrad.as_tensor(self.temperature).log() + apart - 2 * fusegrad.nn.functional.softplus(apart)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that are nearly 0 or 1 at low temperatures."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a relaxed one-hot vector."""

    arg_constraints: Any = MANY
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ExpRelaxedCategorical:
        """The same distribution with a larger batch shape."""
        inner = {"_categorical": self._categorical.expand(batch_shape), "temperature": self.temperature}
        return self._expanded(batch_shape, _instance, **inner)

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Log softmax of (logits + Gumbel numbers) / temperature."""
        u = _inside(self._extended_shape(sample_shape), self.logits.dtype)
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        k = self._categorical._num_events
        score = (self.logits - value * self.temperature).log_softmax(-1).sum(-1)
        return score + math.lgamma(k) + (k - 1) * fusegrad.as_tensor(self.temperature).log()


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares of a whole that are nearly one-hot at low temperatures."""

    arg_constraints: Any = MANY
    support = constraints.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
