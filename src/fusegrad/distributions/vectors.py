"""Distributions over vectors and matrices: MultivariateNormal, LowRankMultivariateNormal, Wishart, LKJCholesky."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions import constraints
from fusegrad.distributions.base import Distribution, ExponentialFamily, broadcast_all, holds, lazy_property
from fusegrad.distributions.gammas import Beta, Chi2
from fusegrad.tensor import Tensor


def log_diagonal(factor: Tensor) -> Tensor:
    """Sum of the logarithms of the diagonal."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _factor_of_inverse(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse: P = L L^T with both axes reversed gives it without inverting P."""
    upper = fusegrad.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1).mT
    eye = fusegrad.eye(precision.shape[-1], dtype=precision.dtype)
    return fusegrad.linalg.solve_triangular(upper, eye, upper=False)


class _Scaled(Distribution):
    """Keeps one of `covariance_matrix`, `precision_matrix` and `scale_tril`, and derives the others from the factor."""

    _factor: Tensor

    def _take(self, batch: Any, given: dict[str, Any], n: int) -> None:
        """Set the one that is given (expanded to the batch); the factor is made by `_make_factor`, after the checks."""
        for name, value in given.items():
            if value is not None:
                self.__dict__[name] = value.expand((*batch, n, n))
                self._source = name, value

    def _make_factor(self) -> None:
        name, value = self._source
        if name == "scale_tril":
            self._factor = value
        elif name == "covariance_matrix":
            self._factor = fusegrad.linalg.cholesky(value)
        else:
            self._factor = _factor_of_inverse(value)

    def _matrix_shape(self) -> tuple:
        n = self._event_shape[-1]
        return (*self._batch_shape, n, n)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._factor.expand(self._matrix_shape())

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return (self._factor @ self._factor.mT).expand(self._matrix_shape())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return fusegrad.cholesky_inverse(self._factor).expand(self._matrix_shape())


_MATRICES = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


class MultivariateNormal(_Scaled):
    """The normal distribution over vectors of length d: mean `loc` (..., d) and one of `covariance_matrix`,
    `precision_matrix` and `scale_tril` (..., d, d), positive definite, the last lower triangular (its Cholesky factor).
    """

    arg_constraints = {"loc": constraints.real_vector, **_MATRICES}
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = [(k, m) for k, m in named.items() if m is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        if given[0][1].dim() < 2:
            raise ValueError(f"{given[0][0]} must be at least two-dimensional, with optional leading batch dimensions")
        batch = fusegrad.broadcast_shapes(given[0][1].shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        self._take(batch, named, loc.shape[-1])
        super().__init__(batch, self.loc.shape[-1:], validate_args)
        self._make_factor()

    def expand(self, batch_shape: Any, _instance: Any = None) -> MultivariateNormal:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _factor=self._factor)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._factor.square().sum(-1).expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale_tril @ standard normal."""
        eps = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._factor @ eps.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of vectors (..., d)."""
        self._checked(value)
        z = fusegrad.linalg.solve_triangular(self._factor, (value - self.loc).unsqueeze(-1), upper=False).squeeze(-1)
        d = self._event_shape[0]
        return -0.5 * (d * math.log(2 * math.pi) + z.square().sum(-1)) - log_diagonal(self._factor)

    def entropy(self) -> Tensor:
        """d (1 + log 2 pi) / 2 + log det of scale_tril."""
        d = self._event_shape[0]
        return (0.5 * d * (1 + math.log(2 * math.pi)) + log_diagonal(self._factor)).expand(self._batch_shape)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution with covariance W W^T + diag(d): `cov_factor` W (..., n, k) and `cov_diag` d (..., n)."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = {"loc": 1, "cov_factor": 2, "cov_diag": 1}

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1] != n:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {(n,)}")
        batch = fusegrad.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc = loc.expand((*batch, n))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, n))
        super().__init__(batch, (n,), validate_args)

    def _small(self) -> Tensor:
        """The Cholesky factor of I + W^T diag(1/d) W, a matrix of size k."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        inner = scaled @ self.cov_factor
        return fusegrad.linalg.cholesky(inner + fusegrad.eye(inner.shape[-1], dtype=inner.dtype))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The diagonal of the covariance."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        root = self.cov_diag.sqrt()
        scaled = self.cov_factor / root.unsqueeze(-1)
        inner = scaled @ scaled.mT + fusegrad.eye(self._event_shape[0], dtype=root.dtype)
        return root.unsqueeze(-1) * fusegrad.linalg.cholesky(inner)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W^T + diag(d)."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by Woodbury's identity."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        part = fusegrad.linalg.solve_triangular(self._small(), scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - part.mT @ part

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + W eps + sqrt(d) eps'."""
        shape = self._extended_shape(sample_shape)
        wide = fusegrad.randn((*shape[:-1], self.cov_factor.shape[-1]), dtype=self.loc.dtype)
        each = fusegrad.randn(shape, dtype=self.loc.dtype)
        return self.loc + (self.cov_factor @ wide.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * each

    def log_det(self, small: Tensor | None = None) -> Tensor:
        """log det of the covariance."""
        return 2 * log_diagonal(self._small() if small is None else small) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of vectors (..., n)."""
        self._checked(value)
        apart, small = value - self.loc, self._small()
        scaled = (self.cov_factor.mT / self.cov_diag.unsqueeze(-2)) @ apart.unsqueeze(-1)
        inner = fusegrad.linalg.solve_triangular(small, scaled, upper=False).square().sum((-2, -1))
        square = (apart.square() / self.cov_diag).sum(-1) - inner
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self.log_det(small) + square)

    def entropy(self) -> Tensor:
        """n (1 + log 2 pi) / 2 + log det / 2."""
        return (0.5 * (self._event_shape[0] * (1 + math.log(2 * math.pi)) + self.log_det())).expand(self._batch_shape)


class Wishart(_Scaled, ExponentialFamily):
    """Matrices of squares of `df` normal vectors; `df` is above their length minus 1."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = {"df": 0, "covariance_matrix": 2, "precision_matrix": 2, "scale_tril": 2}

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        named = {
            "covariance_matrix": covariance_matrix,
            "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }
        given = [m for m in named.values() if m is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        self.df = df if isinstance(df, Tensor) else fusegrad.tensor(float(df), dtype=matrix.dtype)
        batch = fusegrad.broadcast_shapes(matrix.shape[:-2], self.df.shape)
        n = matrix.shape[-1]
        self.df = self.df.expand(batch)
        if not holds(self.df > n - 1):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self._take(batch, named, n)
        super().__init__(batch, (n, n), validate_args)
        self._make_factor()

    @property
    def arg_constraints(self) -> dict[str, Any]:
        return {**_MATRICES, "df": constraints.greater_than(self._event_shape[-1] - 1)}

    def expand(self, batch_shape: Any, _instance: Any = None) -> Wishart:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, _factor=self._factor)

    @property
    def mean(self) -> Tensor:
        return self.df.reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return fusegrad.where(factor > 0, factor, math.nan).reshape((*self._batch_shape, 1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.reshape((*self._batch_shape, 1, 1)) * (v.square() + outer)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """L A A^T L^T: A has normal numbers below, and roots of chi-squared ones on the diagonal (Bartlett 1933)."""
        n = self._event_shape[-1]
        degrees = self.df.unsqueeze(-1) - fusegrad.arange(n, dtype=self.df.dtype).expand((*self._batch_shape, n))
        diagonal = Chi2(degrees, validate_args=False).rsample(sample_shape).sqrt()
        below = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.df.dtype).tril(-1)
        part = self._factor @ (below + diagonal.diag_embed())
        return part @ part.mT

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of matrices (..., n, n)."""
        self._checked(value)
        nu, n = self.df, self._event_shape[-1]
        root = fusegrad.linalg.cholesky(value)
        inside = fusegrad.linalg.solve_triangular(self._factor, root, upper=False).square().sum((-2, -1))
        norm = nu * (n * math.log(2.0) / 2 + log_diagonal(self._factor)) + (nu / 2).mvlgamma(n)
        return (nu - n - 1) * log_diagonal(root) - inside / 2 - norm

    def entropy(self) -> Tensor:
        """-E[log density]."""
        nu, n = self.df, self._event_shape[-1]
        half = log_diagonal(self._factor)
        steps = fusegrad.arange(n, dtype=nu.dtype)
        psi = ((nu.unsqueeze(-1) - steps) / 2).digamma().sum(-1)
        norm = nu * (n * math.log(2.0) / 2 + half) + (nu / 2).mvlgamma(n)
        return norm - (nu - n - 1) / 2 * (psi + n * math.log(2.0) + 2 * half) + nu * n / 2


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices of size `dim`, whose density is det^(concentration - 1)
    (Lewandowski, Kurowicka and Joe, 2009).
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = {"concentration": 0}

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> LKJCholesky:
        """The same distribution with a larger batch shape."""
        return self._expanded(batch_shape, _instance, dim=self.dim)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Row by row: the length of what is left of the diagonal, and its direction (the onion method)."""
        with no_grad():
            k = fusegrad.arange(1, self.dim, dtype=self.concentration.dtype)
            conc = self.concentration.unsqueeze(-1)
            length = Beta(0.5 * k, conc + 0.5 * (self.dim - 1 - k), validate_args=False).sample(sample_shape)
            length = fusegrad.nn.functional.pad(length, [1, 0]).unsqueeze(-1)
            normal = fusegrad.randn(self._extended_shape(sample_shape), dtype=self.concentration.dtype).tril(-1)
            size = normal.norm(dim=-1, keepdim=True)
            below = length.sqrt() * normal / fusegrad.where(size == 0, 1.0, size)
            tiny = fusegrad.finfo(below.dtype).tiny
            return below + (1 - below.square().sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of factors (..., dim, dim)."""
        self._checked(value)
        n = self.dim - 1
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        order = n - fusegrad.arange(1, self.dim, dtype=self.concentration.dtype)
        power = 2 * (self.concentration - 1).unsqueeze(-1) + order
        alpha = self.concentration + 0.5 * n
        norm = 0.5 * n * math.log(math.pi) + (alpha - 0.5).mvlgamma(n) - alpha.lgamma() * n
        return (power * diagonal.log()).sum(-1) - norm
