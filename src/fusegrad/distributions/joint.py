"""Distributions made of others: Independent and MixtureSameFamily."""

from __future__ import annotations

from typing import Any

from fusegrad.autograd.modes import no_grad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import Distribution, sum_rightmost
from fusegrad.distributions.discrete import Categorical
from fusegrad.tensor import Size, Tensor


class Independent(Distribution):
    """The last batch dimensions of a distribution taken as parts of one event."""

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ):
        n, base = reinterpreted_batch_ndims, base_distribution
        if n > len(base.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {n} vs {len(base.batch_shape)}"
            )
        shape, at = (*base.batch_shape, *base.event_shape), len(base.batch_shape) - n
        self.base_dist: Any = base
        self.reinterpreted_batch_ndims = n
        super().__init__(shape[:at], shape[at:], validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Independent:
        """The same distribution with a larger batch shape."""
        n = self.reinterpreted_batch_ndims
        base = self.base_dist.expand((*batch_shape, *self._event_shape[:n]))
        return self._expanded(batch_shape, _instance, base_dist=base, reinterpreted_batch_ndims=n)

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        own = self.base_dist.support
        return constraints.independent(own, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else own

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base distribution."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base distribution, with gradients."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Sum of the log densities of the parts."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Sum of the entropies of the parts."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of the base distribution."""
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """A mixture: weights `mixture_distribution` (a Categorical), components along the last batch dimension."""

    arg_constraints: Any = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ):
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of fusegrad.distributions.Categorical")
        if not isinstance(component, Distribution):
            raise ValueError("The Component distribution need to be an instance of fusegrad.distributions.Distribution")
        batch, k = Size(component.batch_shape[:-1]), component.batch_shape[-1]
        for a, b in zip(mixture.batch_shape[::-1], batch[::-1], strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        if mixture.param_shape[-1] != k:
            raise ValueError(
                f"`mixture_distribution component` ({mixture.param_shape[-1]}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({k})"
            )
        self._mixture_distribution, self._component_distribution, self._num_component = mixture, component, k
        super().__init__(batch, component.event_shape, validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixtureSameFamily:
        """The same distribution with a larger batch shape."""
        component = self.component_distribution.expand((*batch_shape, self._num_component))
        mixture = self.mixture_distribution.expand(batch_shape)
        inner = {"_mixture_distribution": mixture, "_component_distribution": component}
        return self._expanded(batch_shape, _instance, _num_component=self._num_component, **inner)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self.component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        return self._component_distribution

    def _weights(self) -> Tensor:
        return self.mixture_distribution.probs.reshape(
            (*self.mixture_distribution.batch_shape, -1, *(1,) * len(self._event_shape))
        )

    def _axis(self) -> int:
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self.component_distribution.mean).sum(self._axis())

    @property
    def variance(self) -> Tensor:
        w, part = self._weights(), self.component_distribution
        apart = part.mean - self.mean.unsqueeze(self._axis())
        return (w * (part.variance + apart.square())).sum(self._axis())

    def log_prob(self, value: Tensor) -> Tensor:
        """Log of the weighted sum of densities."""
        self._checked(value)
        parts = self.component_distribution.log_prob(value.unsqueeze(self._axis()))
        return (parts + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """Weighted sum of the components' cdf."""
        parts = self.component_distribution.cdf(value.unsqueeze(self._axis()))
        return (parts * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """A component is drawn, then a value of it."""
        with no_grad():
            axis = len(sample_shape) + len(self._batch_shape)
            logits = self.mixture_distribution.logits
            weights = Categorical(logits=logits.expand((*self._batch_shape, logits.shape[-1])), validate_args=False)
            which = weights.sample(sample_shape)
            values = self.component_distribution.sample(sample_shape)
            index = which.reshape((*which.shape, 1, *(1,) * len(self._event_shape)))
            index = index.expand((*which.shape, 1, *self._event_shape))
            return values.gather(axis, index).squeeze(axis)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
