"""TransformedDistribution, and the distributions that are one: LogNormal, HalfNormal, HalfCauchy, Gumbel, Weibull..."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import Distribution, broadcast_all, sum_rightmost
from fusegrad.distributions.continuous import Cauchy, Exponential, Normal, Uniform
from fusegrad.distributions.gammas import Gamma
from fusegrad.distributions.joint import Independent
from fusegrad.distributions.transform import AbsTransform, AffineTransform, ExpTransform, PowerTransform, Transform
from fusegrad.distributions.transforms_joined import ComposeTransform
from fusegrad.distributions.transforms_vectors import StickBreakingTransform
from fusegrad.tensor import Size, Tensor

_EULER = 0.57721566490153286060


class TransformedDistribution(Distribution):
    """Values of a base distribution sent through transforms, one after the other."""

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Distribution, transforms: Any, validate_args: bool | None = None):
        if isinstance(transforms, Transform):
            transforms = [transforms]
        if not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        if not all([isinstance(t, Transform) for t in transforms]):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        self.transforms = transforms
        base = base_distribution
        base_shape = Size((*base.batch_shape, *base.event_shape))
        whole = ComposeTransform(self.transforms)
        taken, given = whole.domain.event_dim, whole.codomain.event_dim
        if len(base_shape) < taken:
            raise ValueError(f"base_distribution needs to have shape with size at least {taken}, but got {base_shape}.")
        shape = whole.forward_shape(base_shape)
        wide = whole.inverse_shape(shape)
        if tuple(base_shape) != tuple(wide):
            base = base.expand(tuple(wide)[: len(wide) - len(base.event_shape)])
        if taken > len(base.event_shape):
            base = Independent(base, taken - len(base.event_shape))
        self.base_dist: Any = base
        cut = len(shape) - (given + max(len(base.event_shape) - taken, 0))
        super().__init__(tuple(shape)[:cut], tuple(shape)[cut:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> TransformedDistribution:
        """The same distribution with a larger batch shape."""
        shape = (*batch_shape, *self._event_shape)
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        base = self.base_dist.expand(tuple(shape)[: len(shape) - len(self.base_dist.event_shape)])
        return self._expanded(batch_shape, _instance, base_dist=base, transforms=self.transforms)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self._event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base, transformed."""
        with no_grad():
            x = self.base_dist.sample(sample_shape)
            for transform in self.transforms:
                x = transform(x)
            return x

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base, transformed, with gradients."""
        x = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of what the value was made of, less the logarithms of the Jacobians' determinants."""
        self._checked(value)
        dim, result, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dim = dim + transform.domain.event_dim - transform.codomain.event_dim
            jacobian = transform.log_abs_det_jacobian(x, y)
            result = result - sum_rightmost(jacobian, dim - transform.domain.event_dim)
            y = x
        return result + sum_rightmost(self.base_dist.log_prob(y), dim - len(self.base_dist.event_shape))

    def _rising(self, value: Any) -> Any:
        """Probabilities of the base as those here: turned around where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        for transform in self.transforms[::-1]:
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._rising(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        value = self.base_dist.icdf(self._rising(value))
        for transform in self.transforms:
            value = transform(value)
        return value


class LogNormal(TransformedDistribution):
    """exp of a normal variable with mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

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

    def entropy(self) -> Tensor:
        """That of the normal variable plus loc."""
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The absolute value of a variable that is symmetric around 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return fusegrad.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (ValueError for a negative value; where nothing is checked, -inf)."""
        self._checked(value)
        return fusegrad.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """That of the symmetric variable less log 2."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable with mean 0 and standard deviation `scale`."""

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable around 0."""

    def __init__(self, scale: Any, validate_args: bool | None = None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return fusegrad.full(self._extended_shape(), math.inf, dtype=self.scale.dtype)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance


class Gumbel(TransformedDistribution):
    """The largest of many: exp(-z - exp(-z)) / scale with z = (x - loc) / scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        limits = fusegrad.finfo(self.loc.dtype)
        low, high = (fusegrad.full_like(self.loc, v) for v in (limits.tiny, 1 - limits.eps))
        chain = _gumbel_chain(self.loc, self.scale)
        super().__init__(Uniform(low, high, validate_args=validate_args), chain, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Gumbel:
        """The same distribution with a larger batch shape."""
        loc, scale = self.loc.expand(batch_shape), self.scale.expand(batch_shape)
        base = self.base_dist.expand(batch_shape)
        return self._expanded(batch_shape, _instance, base_dist=base, transforms=_gumbel_chain(loc, scale))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        y = (self.loc - value) / self.scale
        return y - y.exp() - self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * _EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def entropy(self) -> Tensor:
        """log scale + 1 + Euler's constant."""
        return self.scale.log() + (1 + _EULER)


def _gumbel_chain(loc: Tensor, scale: Tensor) -> list[Transform]:
    """loc - scale log(-log u)."""
    minus = AffineTransform(0, -fusegrad.ones_like(scale))
    return [ExpTransform().inv, minus, ExpTransform().inv, AffineTransform(loc, -scale)]


class Weibull(TransformedDistribution):
    """Waiting times: 1 - exp(-(x / scale)^concentration) is the probability of one not above x."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _parameters = {"scale": 0, "concentration": 0}

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(fusegrad.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, self._chain(self.scale, self.concentration), validate_args=validate_args)

    @staticmethod
    def _chain(scale: Tensor, concentration: Tensor) -> list[Transform]:
        return [PowerTransform(concentration.reciprocal()), AffineTransform(0, scale)]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Weibull:
        """The same distribution with a larger batch shape."""
        chain = self._chain(self.scale.expand(batch_shape), self.concentration.expand(batch_shape))
        base = self.base_dist.expand(batch_shape)
        return self._expanded(batch_shape, _instance, base_dist=base, transforms=chain)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        r = self.concentration.reciprocal()
        return self.scale.square() * ((1 + 2 * r).lgamma().exp() - (2 * (1 + r).lgamma()).exp())

    def entropy(self) -> Tensor:
        """Euler's constant times (1 - 1/k), plus log(scale / k) + 1."""
        r = self.concentration.reciprocal()
        return _EULER * (1 - r) + (self.scale * r).log() + 1


class Pareto(TransformedDistribution):
    """alpha scale^alpha / x^(alpha + 1) for x >= scale."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    _parameters = {"scale": 0, "alpha": 0}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        chain = [ExpTransform(), AffineTransform(0, self.scale)]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Pareto:
        """The same distribution with a larger batch shape."""
        chain = [ExpTransform(), AffineTransform(0, self.scale.expand(batch_shape))]
        base = self.base_dist.expand(batch_shape)
        return self._expanded(batch_shape, _instance, base_dist=base, transforms=chain)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Kumaraswamy(TransformedDistribution):
    """a b x^(a - 1) (1 - x^a)^(b - 1) on (0, 1), a = `concentration1`, b = `concentration0`."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _parameters = {"concentration1": 0, "concentration0": 0}

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        low, high = fusegrad.zeros_like(self.concentration0), fusegrad.ones_like(self.concentration0)
        chain = self._chain(self.concentration1, self.concentration0)
        super().__init__(Uniform(low, high, validate_args=validate_args), chain, validate_args=validate_args)

    @staticmethod
    def _chain(a: Tensor, b: Tensor) -> list[Transform]:
        return [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())]

    def expand(self, batch_shape: Any, _instance: Any = None) -> Kumaraswamy:
        """The same distribution with a larger batch shape."""
        chain = self._chain(self.concentration1.expand(batch_shape), self.concentration0.expand(batch_shape))
        base = self.base_dist.expand(batch_shape)
        return self._expanded(batch_shape, _instance, base_dist=base, transforms=chain)

    def _moment(self, n: int) -> Tensor:
        """b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return (b.log() + first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return fusegrad.where((a < 1) | (b < 1), math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean.square()

    def entropy(self) -> Tensor:
        """1 - 1/b + (1 - 1/a) H(b) - log a b, H the harmonic number."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + _EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class InverseGamma(TransformedDistribution):
    """1 / x of a gamma variable."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return fusegrad.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return fusegrad.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """a + log(rate Gamma(a)) - (1 + a) digamma(a)."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class LogisticNormal(TransformedDistribution):
    """Normal vectors of length n as n + 1 shares of a whole, by breaking a stick."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        base: Any = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale
