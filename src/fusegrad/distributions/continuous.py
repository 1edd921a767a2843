"""Normal and Uniform."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.distributions.base import POSITIVE, REAL, Distribution, broadcast_all, check, holds, register_kl
from fusegrad.tensor import Tensor


class Normal(Distribution):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        if self._validate_args:
            check("loc", self.loc, self.loc == self.loc, "Real()", "Normal")
            check("scale", self.scale, self.scale > 0, POSITIVE, "Normal")

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def expand(self, batch_shape: Any) -> Normal:
        """The same distribution with a larger batch shape."""
        return Normal(self.loc.expand(batch_shape), self.scale.expand(batch_shape), False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * standard normal."""
        eps = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + eps * self.scale

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return value == value, REAL

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        if self._validate_args:
            self._validate_sample(value)
        z = value - self.loc
        return -z.square() / (2 * self.scale.square()) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        """0.5 + 0.5 log(2 pi) + log scale."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)
        if self._validate_args and not holds(self.low < self.high):
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) * U(0, 1)."""
        u = fusegrad.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return (self.low <= value) & (value <= self.high), "Interval(lower_bound=low, upper_bound=high)"

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low) inside; at `high`, and outside where nothing is checked, -inf."""
        if self._validate_args:
            self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return (self.high - self.low).log()


@register_kl(Normal, Normal)
def _kl_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())
