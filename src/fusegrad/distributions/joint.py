"""Distributions over vectors, and those made of others: MultivariateNormal, Independent, MixtureSameFamily."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions.base import REAL, Distribution, check, kl_divergence, register_kl
from fusegrad.distributions.discrete import Categorical
from fusegrad.tensor import Size, Tensor


class MultivariateNormal(Distribution):
    """The normal distribution over vectors of length d: mean `loc` (..., d) and one of `covariance_matrix`,
    `precision_matrix` and `scale_tril` (..., d, d), positive definite, the last lower triangular (its Cholesky factor).
    """

    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if given[0].ndim < 2:
            raise ValueError("the matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch = fusegrad.broadcast_shapes(given[0].shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, loc.shape[-1:], validate_args)
        if self._validate_args:
            check("loc", loc, loc == loc, "IndependentConstraint(Real(), 1)", "MultivariateNormal")
        if self._validate_args and scale_tril is None:
            name = "covariance_matrix" if covariance_matrix is not None else "precision_matrix"
            good = fusegrad.linalg.cholesky_ex(given[0].detach())[1] == 0
            check(name, given[0], good, "PositiveDefinite()", "MultivariateNormal")
        if scale_tril is not None:
            factor = scale_tril
            if self._validate_args:
                good = (factor.tril() == factor).all() & (factor.diagonal(dim1=-2, dim2=-1) > 0).all()
                check("scale_tril", factor, good, "LowerCholesky()", "MultivariateNormal")
        elif covariance_matrix is not None:
            factor = fusegrad.linalg.cholesky(covariance_matrix)
        else:
            # P = L L^T with both axes reversed gives the factor of the inverse without inverting P
            turned = fusegrad.linalg.cholesky(precision_matrix.flip(-2, -1))  # type: ignore[union-attr]
            upper = turned.flip(-2, -1).mT
            eye = fusegrad.eye(loc.shape[-1], dtype=loc.dtype)
            factor = fusegrad.linalg.solve_triangular(upper, eye, upper=False)
        self._factor = factor

    @property
    def scale_tril(self) -> Tensor:
        return self._factor.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def covariance_matrix(self) -> Tensor:
        return (self._factor @ self._factor.mT).expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @property
    def precision_matrix(self) -> Tensor:
        return fusegrad.cholesky_inverse(self._factor).expand(
            (*self._batch_shape, *self._event_shape, *self._event_shape)
        )

    @property
    def mean(self) -> Tensor:
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        return self._factor.square().sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale_tril @ standard normal."""
        eps = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._factor @ eps.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self._factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return value == value, f"IndependentConstraint({REAL}, 1)"

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of vectors (..., d)."""
        if self._validate_args:
            self._validate_sample(value)
        z = fusegrad.linalg.solve_triangular(self._factor, (value - self.loc).unsqueeze(-1), upper=False).squeeze(-1)
        d = self._event_shape[0]
        return -0.5 * (d * math.log(2 * math.pi) + z.square().sum(-1)) - self._half_log_det()

    def entropy(self) -> Tensor:
        """d (1 + log 2 pi) / 2 + log det of scale_tril."""
        d = self._event_shape[0]
        return (0.5 * d * (1 + math.log(2 * math.pi)) + self._half_log_det()).expand(self._batch_shape)


class Independent(Distribution):
    """The last batch dimensions of a distribution taken as parts of one event."""

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ):
        n, base = reinterpreted_batch_ndims, base_distribution
        if n > len(base.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {n} vs {len(base.batch_shape)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base, n
        shape, at = (*base.batch_shape, *base.event_shape), len(base.batch_shape) - n
        super().__init__(shape[:at], shape[at:], validate_args)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base distribution."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values of the base distribution, with gradients."""
        return self.base_dist.rsample(sample_shape)

    def _summed(self, x: Tensor) -> Tensor:
        n = self.reinterpreted_batch_ndims
        return x.sum(tuple(range(-n, 0))) if n else x

    def log_prob(self, value: Tensor) -> Tensor:
        """Sum of the log densities of the parts."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        """Sum of the entropies of the parts."""
        return self._summed(self.base_dist.entropy())


class MixtureSameFamily(Distribution):
    """A mixture: weights `mixture_distribution` (a Categorical), components along the last batch dimension."""

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ):
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical):
            raise ValueError("The Mixture distribution needs to be an instance of fusegrad.distributions.Categorical")
        if not isinstance(component, Distribution):
            raise ValueError("The Component distribution need to be an instance of fusegrad.distributions.Distribution")
        batch, k = Size(component.batch_shape[:-1]), component.batch_shape[-1]
        if mixture.batch_shape not in ((), batch):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible with "
                f"`component_distribution.batch_shape`({component.batch_shape})"
            )
        if mixture.param_shape[-1] != k:
            raise ValueError(f"the mixture has {mixture.param_shape[-1]} weights for {k} components")
        self.mixture_distribution, self.component_distribution = mixture, component
        super().__init__(batch, component.event_shape, validate_args)

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
        if self._validate_args:
            self._validate_sample(value)
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


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    solve = fusegrad.linalg.solve_triangular
    ratio = solve(q.scale_tril, p.scale_tril, upper=False)
    z = solve(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    trace = ratio.square().sum((-2, -1)) + z.square().sum((-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace - p.event_shape[0])


@register_kl(Independent, Independent)
def _kl_independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independents that take different numbers of dimensions as the event")
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
