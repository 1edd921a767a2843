"""Bernoulli, ContinuousBernoulli, Categorical and one-hot vectors."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import (
    Distribution,
    ExponentialFamily,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from fusegrad.tensor import Size, Tensor

BINARY = {"probs": constraints.unit_interval, "logits": constraints.real}
MANY = {"probs": constraints.simplex, "logits": constraints.real_vector}


def one_of(probs: Any, logits: Any) -> bool:
    """Whether `probs` were given. ValueError unless exactly one of the two is."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


class ByOdds(Distribution):
    """Keeps either `probs` or `logits` of two outcomes, and derives the other when it is read."""

    arg_constraints: Any = BINARY
    _parameters: Any = {"probs": 0, "logits": 0}

    def _take(self, probs: Any, logits: Any) -> Size:
        """Set the one that is given (numbers become tensors), and return its shape."""
        if one_of(probs, logits):
            (self.probs,) = broadcast_all(probs)
            return self.probs.shape
        (self.logits,) = broadcast_all(logits)
        return self.logits.shape

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    def _given(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        return self._given().size()


class Bernoulli(ByOdds, ExponentialFamily):
    """1 with probability `probs`, else 0."""

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        super().__init__(self._take(probs, logits), (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).to(self.probs.dtype)
        return fusegrad.where(self.probs == 0.5, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Zeros and ones."""
        with no_grad():
            return fusegrad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the zeros and ones `value`."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -fusegrad.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """-p log p - (1 - p) log(1 - p)."""
        return fusegrad.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1, along a new first dimension."""
        values = fusegrad.arange(2, dtype=self._given().dtype).view(-1, *(1,) * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp().log1p()


class ContinuousBernoulli(ByOdds, ExponentialFamily):
    """Density proportional to probs^x (1 - probs)^(1 - x) on [0, 1] (Loaiza-Ganem and Cunningham, 2019)."""

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ):
        shape = self._take(probs, logits)
        if probs is not None:
            if validate_args is not None and validate_args and not bool(BINARY["probs"].check(self.probs).all()):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(shape, (), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ContinuousBernoulli:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _lims=self._lims)

    def _far(self) -> tuple[Tensor, Tensor]:
        """Where the formulas can be used (near 1/2 there are series), and probabilities that they can be used on."""
        far = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return far, fusegrad.where(far, self.probs, self._lims[0] * fusegrad.ones_like(self.probs))

    def _log_norm(self) -> Tensor:
        """log of 2 atanh(1 - 2p) / (1 - 2p)."""
        far, cut = self._far()
        low = fusegrad.where(cut <= 0.5, cut, 0.0)
        high = fusegrad.where(cut >= 0.5, cut, 1.0)
        size = fusegrad.where(cut <= 0.5, (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
        exact = ((-cut).log1p() - cut.log()).abs().log() - size
        x = (self.probs - 0.5).square()
        return fusegrad.where(far, exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self) -> Tensor:
        far, cut = self._far()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / ((-cut).log1p() - cut.log())
        x = self.probs - 0.5
        return fusegrad.where(far, exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self) -> Tensor:
        far, cut = self._far()
        exact = cut * (cut - 1.0) / (1.0 - 2.0 * cut).square() + 1.0 / ((-cut).log1p() - cut.log()).square()
        x = (self.probs - 0.5).square()
        return fusegrad.where(far, exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The quantiles of uniform numbers."""
        return self.icdf(fusegrad.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        cross = fusegrad.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._log_norm() - cross

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        self._checked(value)
        far, cut = self._far()
        exact = (cut.pow(value) * (1.0 - cut).pow(1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = fusegrad.where(far, exact, value)
        return fusegrad.where(value <= 0.0, 0.0, fusegrad.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        """Quantiles."""
        far, cut = self._far()
        exact = ((-cut + value * (2.0 * cut - 1.0)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return fusegrad.where(far, exact, value)

    def entropy(self) -> Tensor:
        """-E[log density]."""
        low, high = (-self.probs).log1p(), self.probs.log()
        return self.mean * (low - high) - self._log_norm() - low

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        far = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = fusegrad.where(far, x, (self._lims[0] - 0.5) * fusegrad.ones_like(x))
        return fusegrad.where(far, (cut.exp() - 1).abs().log() - cut.abs().log(), 0.5 * x + x.square() / 24.0)


class Categorical(Distribution):
    """Indices 0..K-1 with given probabilities (normalised over the last dimension) or logits."""

    arg_constraints: Any = MANY
    has_enumerate_support = True
    _parameters: Any = {"probs": 1, "logits": 1}

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        given: Any = probs if one_of(probs, logits) else logits
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if logits is None else 'logits'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], (), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Categorical:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _num_events=self._num_events)

    @lazy_property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Size:
        return (self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]).size()

    @property
    def mean(self) -> Tensor:
        return fusegrad.full(self._batch_shape, math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return fusegrad.full(self._batch_shape, math.nan, dtype=self.probs.dtype)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Indices drawn with the probabilities."""
        n = 1
        for s in sample_shape:
            n *= s
        with no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            drawn = fusegrad.multinomial(flat, n, True).t()
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the indices `value`."""
        self._checked(value)
        index, logits = fusegrad.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum p log p."""
        low = fusegrad.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=low) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All indices, along a new first dimension."""
        values = fusegrad.arange(self._num_events).view(-1, *((1,) * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values


class _OfCategorical(Distribution):
    """What counts the results of a categorical variable; values are vectors of length K."""

    arg_constraints: Any = MANY
    _categorical: Categorical

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        return self._categorical.param_shape

    def _expand_counts(self, batch_shape: Any, instance: Any, **inner: Any) -> Any:
        return self._expanded(batch_shape, instance, _categorical=self._categorical.expand(batch_shape), **inner)


class OneHotCategorical(_OfCategorical):
    """Vectors with a 1 at an index drawn with the given probabilities or logits."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> OneHotCategorical:
        """The same distribution with a larger batch shape."""
        return self._expand_counts(batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return fusegrad.nn.functional.one_hot(self.probs.argmax(-1), self.probs.shape[-1]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """One-hot vectors in the dtype of the probabilities."""
        index = self._categorical.sample(sample_shape)
        return fusegrad.nn.functional.one_hot(index, self._categorical._num_events).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the one-hot vectors `value`."""
        self._checked(value)
        value, logits = broadcast_all(value, self.logits)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        """That of the index."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All one-hot vectors, along a new first dimension."""
        n = self._event_shape[0]
        values = fusegrad.eye(n, dtype=self.probs.dtype).view(n, *(1,) * len(self._batch_shape), n)
        return values.expand(n, *self._batch_shape, n) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of the probabilities (Bengio et al., 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A sample whose derivatives are those of `probs`."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
