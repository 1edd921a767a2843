"""Laplace, Cauchy, Exponential, HalfNormal and LogNormal."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.distributions.base import NOT_NEGATIVE, POSITIVE, REAL, Distribution, broadcast_all, check, register_kl
from fusegrad.distributions.continuous import Normal
from fusegrad.tensor import Tensor


class _LocScale(Distribution):
    """A density that is moved by `loc` and stretched by `scale`."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        if self._validate_args:
            check("loc", self.loc, self.loc == self.loc, "Real()", type(self).__name__)
            check("scale", self.scale, self.scale > 0, POSITIVE, type(self).__name__)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantiles of uniform numbers."""
        u = fusegrad.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.icdf(u.clamp(min=fusegrad.finfo(self.loc.dtype).tiny))

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return value == value, REAL

    def _z(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (value - self.loc) / self.scale


class Laplace(_LocScale):
    """exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        return -self._z(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        z = self._z(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        t = value - 0.5
        return self.loc - self.scale * t.sign() * (-2 * t.abs()).log1p()

    def entropy(self) -> Tensor:
        """1 + log(2 scale)."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """1 / (pi scale (1 + ((x - loc) / scale)^2)); it has no mean."""

    @property
    def mean(self) -> Tensor:
        return fusegrad.full_like(self.loc, float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return fusegrad.full_like(self.loc, float("inf"))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        return -math.log(math.pi) - self.scale.log() - self._z(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return self._z(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        """log(4 pi scale)."""
        return math.log(4 * math.pi) + self.scale.log()


class Exponential(Distribution):
    """rate * exp(-rate x) for x >= 0."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)
        if self._validate_args:
            check("rate", self.rate, self.rate > 0, POSITIVE, "Exponential")

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """-log(1 - U(0, 1)) / rate."""
        return self.icdf(fusegrad.rand(self._extended_shape(sample_shape), dtype=self.rate.dtype))

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return value >= 0, NOT_NEGATIVE

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (ValueError for a negative value)."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """1 - log rate."""
        return 1 - self.rate.log()


class HalfNormal(Distribution):
    """The absolute value of a normal variable with mean 0 and standard deviation `scale`."""

    has_rsample = True

    def __init__(self, scale: Any, validate_args: bool | None = None):
        self._base = Normal(0, scale, validate_args)
        super().__init__(self._base.batch_shape, (), validate_args)

    @property
    def scale(self) -> Tensor:
        return self._base.scale

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """|scale * standard normal|."""
        return self._base.rsample(sample_shape).abs()

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return value >= 0, NOT_NEGATIVE

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (ValueError for a negative value; where nothing is checked, -inf)."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self._base.log_prob(value) + math.log(2)
        return fusegrad.where(value >= 0, inside, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return 2 * self._base.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return self._base.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """That of the normal variable less log 2."""
        return self._base.entropy() - math.log(2)


class LogNormal(Distribution):
    """exp of a normal variable with mean `loc` and standard deviation `scale`."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self._base = Normal(loc, scale, validate_args)
        super().__init__(self._base.batch_shape, (), validate_args)

    @property
    def loc(self) -> Tensor:
        return self._base.loc

    @property
    def scale(self) -> Tensor:
        return self._base.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        s = self.scale.square()
        return s.expm1() * (2 * self.loc + s).exp()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """exp of a normal sample."""
        return self._base.rsample(sample_shape).exp()

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return value > 0, POSITIVE

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (ValueError for a value that is not positive)."""
        if self._validate_args:
            self._validate_sample(value)
        logs = value.log()
        return self._base.log_prob(logs) - logs

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return self._base.cdf(value.log())

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return self._base.icdf(value).exp()

    def entropy(self) -> Tensor:
        """That of the normal variable plus loc."""
        return self._base.entropy() + self.loc


@register_kl(Laplace, Laplace)
def _kl_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _kl_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen, 2019."""
    return (((p.scale + q.scale).square() + (p.loc - q.loc).square()) / (4 * p.scale * q.scale)).log()


@register_kl(Exponential, Exponential)
def _kl_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(LogNormal, LogNormal)
@register_kl(HalfNormal, HalfNormal)
def _kl_of_bases(p: Any, q: Any) -> Tensor:
    from fusegrad.distributions.base import kl_divergence

    return kl_divergence(p._base, q._base)
