"""Gamma and what is made of gamma numbers: Chi2, Beta, Dirichlet, StudentT, FisherSnedecor."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import Distribution, ExponentialFamily, broadcast_all
from fusegrad.tensor import Tensor


def _tiny(x: Tensor) -> float:
    return fusegrad.finfo(x.dtype).tiny


class Gamma(ExponentialFamily):
    """rate^a x^(a - 1) exp(-rate x) / Gamma(a), with a = `concentration`."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"concentration": 0, "rate": 0}

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Gamma numbers of rate 1, divided by the rate."""
        shape = self._extended_shape(sample_shape)
        value = fusegrad._standard_gamma(self.concentration.expand(shape)) / self.rate
        return value.clamp(min=_tiny(value))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        value = fusegrad.as_tensor(value, dtype=self.rate.dtype)
        self._checked(value)
        a, rate = self.concentration, self.rate
        return fusegrad.xlogy(a, rate) + fusegrad.xlogy(a - 1, value) - rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        self._checked(value)
        return fusegrad.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        """a - log rate + log Gamma(a) + (1 - a) digamma(a)."""
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The sum of `df` squares of standard normal variables."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class Dirichlet(ExponentialFamily):
    """Distributions over the last dimension of `concentration` (..., k): shares that add up to 1."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = {"concentration": 1}

    def __init__(self, concentration: Tensor, validate_args: bool | None = None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Gamma numbers divided by their sum (in float64: those of small concentrations are tiny)."""
        a = self.concentration.expand(self._extended_shape(sample_shape))
        parts = fusegrad._standard_gamma(a.double())
        share = (parts / parts.sum(-1, True)).to(a.dtype)
        return share.clamp(min=_tiny(share), max=1 - fusegrad.finfo(a.dtype).eps / 2)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        a = self.concentration
        return fusegrad.xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        sharp = (self.concentration < 1).all(-1, keepdim=True)
        most = fusegrad.nn.functional.one_hot(mode.nan_to_num(-1.0).argmax(-1), self.concentration.shape[-1])
        return fusegrad.where(sharp, most.to(mode.dtype), mode)

    @property
    def variance(self) -> Tensor:
        total, a = self.concentration.sum(-1, True), self.concentration
        return a * (total - a) / (total.square() * (total + 1))

    def entropy(self) -> Tensor:
        """log B(a) + (sum a - k) digamma(sum a) - sum (a - 1) digamma(a)."""
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        parts = a.lgamma().sum(-1) - ((a - 1.0) * a.digamma()).sum(-1)
        return parts - total.lgamma() - (k - total) * total.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """x^(concentration1 - 1) (1 - x)^(concentration0 - 1) / B(concentration1, concentration0)."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        pair = fusegrad.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=False)
        super().__init__(self._dirichlet._batch_shape, (), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Beta:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _dirichlet=self._dirichlet.expand(batch_shape))

    @property
    def concentration1(self) -> Tensor:
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The first share of a Dirichlet distribution."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        a, b = self.concentration1, self.concentration0
        density = fusegrad.xlogy(a - 1, value) + fusegrad.special.xlog1py(b - 1, -value)
        return density + (a + b).lgamma() - a.lgamma() - b.lgamma()

    def entropy(self) -> Tensor:
        """That of the Dirichlet distribution."""
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class StudentT(Distribution):
    """Student's distribution with `df` degrees of freedom, moved by `loc` and stretched by `scale`."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"df": 0, "loc": 0, "scale": 0}

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df, validate_args=False)
        super().__init__(self.df.shape, (), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> StudentT:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _chi2=self._chi2.expand(batch_shape))

    @property
    def mean(self) -> Tensor:
        return fusegrad.where(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinite up to df = 2, and not defined up to df = 1."""
        finite = self.scale.square() * self.df / (self.df - 2)
        return fusegrad.where(self.df > 2, finite, fusegrad.where(self.df > 1, math.inf, math.nan)).to(self.df.dtype)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A normal number over the root of a mean of df squares."""
        z = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.df.dtype)
        return self.loc + self.scale * z * (self._chi2.rsample(sample_shape) / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        y, half = (value - self.loc) / self.scale, 0.5 * self.df
        norm = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + half.lgamma() - (half + 0.5).lgamma()
        return -(half + 0.5) * (y.square() / self.df).log1p() - norm

    def entropy(self) -> Tensor:
        """log(scale sqrt(df) B(1/2, df/2)) + (df + 1) / 2 (digamma((df + 1) / 2) - digamma(df / 2))."""
        half = 0.5 * self.df
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        return self.scale.log() + (half + 0.5) * ((half + 0.5).digamma() - half.digamma()) + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """The ratio of two means of squares, with `df1` and `df2` degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _parameters = {"df1": 0, "df2": 0}

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gammas = [Gamma(0.5 * d, d, validate_args=False) for d in (self.df1, self.df2)]
        super().__init__(self.df1.shape, (), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> FisherSnedecor:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _gammas=[g.expand(batch_shape) for g in self._gammas])

    @property
    def mean(self) -> Tensor:
        return fusegrad.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return fusegrad.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        value = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return fusegrad.where(b > 4, value, math.nan)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The ratio of two gamma numbers."""
        top, bottom = (g.rsample(sample_shape) for g in self._gammas)
        tiny = _tiny(bottom)
        return (top / bottom.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        a, b = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return norm + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
