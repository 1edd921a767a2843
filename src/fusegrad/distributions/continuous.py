"""Normal, Uniform, Laplace, Cauchy, Exponential, VonMises and GeneralizedPareto."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import Distribution, ExponentialFamily, broadcast_all
from fusegrad.tensor import Tensor


class Normal(ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * standard normal."""
        eps = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        z = value - self.loc
        return -z.square() / (2 * self.scale.square()) - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        self._checked(value)
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        """0.5 + 0.5 log(2 pi) + log scale."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.square() / y + 0.5 * (-math.pi / y).log()


class Uniform(Distribution):
    """The uniform distribution on [low, high)."""

    has_rsample = True
    _parameters = {"low": 0, "high": 0}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) * U(0, 1)."""
        u = fusegrad.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """-log(high - low) inside; at `high`, and outside where nothing is checked, -inf."""
        self._checked(value)
        inside = (self.low <= value) & (value < self.high)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """log(high - low)."""
        return (self.high - self.low).log()


class _LocScale(Distribution):
    """A density that is moved by `loc` and stretched by `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0}

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantiles of uniform numbers."""
        u = fusegrad.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.icdf(u.clamp(min=fusegrad.finfo(self.loc.dtype).tiny))

    def _z(self, value: Tensor) -> Tensor:
        self._checked(value)
        return (value - self.loc) / self.scale


class Laplace(_LocScale):
    """exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return 2**0.5 * self.scale

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
        return fusegrad.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return fusegrad.full_like(self.loc, math.inf)

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


class Exponential(ExponentialFamily):
    """rate * exp(-rate x) for x >= 0."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"rate": 0}

    def __init__(self, rate: Any, validate_args: bool | None = None):
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return fusegrad.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """-log(1 - U(0, 1)) / rate."""
        return self.icdf(fusegrad.rand(self._extended_shape(sample_shape), dtype=self.rate.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density (ValueError for a negative value)."""
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        self._checked(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        """1 - log rate."""
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -(-x).log()


class VonMises(Distribution):
    """The normal distribution's counterpart on a circle: mean angle `loc`, `concentration` around it."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    _parameters = {"loc": 0, "concentration": 0}

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    def _log_i0(self) -> Tensor:
        return fusegrad.special.i0e(self.concentration).log() + self.concentration

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density for any angle in radians."""
        self._checked(value)
        return self.concentration * (value - self.loc).cos() - math.log(2 * math.pi) - self._log_i0()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Angles in [-pi, pi): accepted from a wrapped Cauchy distribution (Best and Fisher 1979), in float64."""
        with no_grad():
            shape = self._extended_shape(sample_shape)
            k = self.concentration.detach().double().expand(shape)
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            # for small concentrations the difference above has no digits left
            r = fusegrad.where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
            angle, done = fusegrad.zeros_like(k), fusegrad.zeros(shape, dtype=fusegrad.bool)
            while not bool(done.all()):
                u = fusegrad.rand((3, *shape), dtype=fusegrad.float64)
                z = (math.pi * u[0]).cos()
                f = ((1 + r * z) / (r + z)).clamp(min=-1, max=1)
                c = k * (r - f)
                good = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
                angle = fusegrad.where(good & ~done, (u[2] - 0.5).sign() * f.acos(), angle)
                done = done | good
            return ((angle + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """1 - I1(concentration) / I0(concentration), the circular variance."""
        return 1 - fusegrad.special.i1e(self.concentration) / fusegrad.special.i0e(self.concentration)


class GeneralizedPareto(Distribution):
    """Excesses over a threshold `loc`: (1 + concentration z)^(-1/concentration - 1) / scale, z = (x - loc) / scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    _parameters = {"loc": 0, "scale": 0, "concentration": 0}

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        top = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, fusegrad.where(self.concentration < 0, top, math.inf))

    def _flat(self) -> tuple[Tensor, Tensor]:
        """Where the distribution is the exponential one, and concentrations that can be divided by."""
        flat = self.concentration.abs() < fusegrad.finfo(self.concentration.dtype).eps
        return flat, fusegrad.where(flat, fusegrad.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantiles of uniform numbers."""
        return self.icdf(fusegrad.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of a result above `value`."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        flat, k = self._flat()
        return fusegrad.where(flat, -z, -(k * z).log1p() / k)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        flat, k = self._flat()
        return fusegrad.where(flat, -z, -(1 + 1 / k) * (k * z).log1p()) - self.scale.log()

    def log_cdf(self, value: Tensor) -> Tensor:
        """Logarithm of the probability of a result not above `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        flat, k = self._flat()
        logs = (-value).log1p()
        return self.loc + self.scale * fusegrad.where(flat, -logs, (-k * logs).expm1() / k)

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return fusegrad.where(k < 1, self.loc + self.scale / (1 - k.clamp(max=1)), math.inf)

    @property
    def variance(self) -> Tensor:
        k = self.concentration
        small = self.scale.square() / ((1 - k).square() * (1 - 2 * k))
        return fusegrad.where(k < 0.5, small, math.inf)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Tensor:
        """1 + concentration + log scale."""
        return self.scale.log() + self.concentration + 1
