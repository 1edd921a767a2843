"""Distributions against their definitions: densities integrate to one, moments and entropies are integrals of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import fusegrad as T

D = T.distributions
F64 = T.float64


def t(*values: float) -> T.Tensor:
    return T.tensor(values, dtype=F64)


UNIVARIATE = {
    "Normal": lambda: D.Normal(t(0.3, -1.0), t(0.7, 1.5)),
    "Uniform": lambda: D.Uniform(t(-1.0, 0.0), t(2.0, 0.5)),
    "Laplace": lambda: D.Laplace(t(0.3, -1.0), t(0.7, 1.5)),
    "Cauchy": lambda: D.Cauchy(t(0.3, -1.0), t(0.7, 1.5)),
    "Exponential": lambda: D.Exponential(t(0.7, 2.5)),
    "HalfNormal": lambda: D.HalfNormal(t(0.7, 1.5)),
    "LogNormal": lambda: D.LogNormal(t(0.3, -1.0), t(0.7, 0.4)),
    "Gumbel": lambda: D.Gumbel(t(0.3, -1.0), t(0.7, 1.5)),
    "Weibull": lambda: D.Weibull(t(0.7, 1.5), t(2.0, 1.3)),
    "Pareto": lambda: D.Pareto(t(0.7, 1.5), t(9.0, 12.0)),
    "Kumaraswamy": lambda: D.Kumaraswamy(t(2.0, 1.3), t(1.5, 3.0)),
    "GeneralizedPareto": lambda: D.GeneralizedPareto(t(0.3, -1.0), t(0.7, 1.5), t(-0.4, 0.0)),
    "HalfCauchy": lambda: D.HalfCauchy(t(0.7, 1.5)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.2, 0.7)),
    "TransformedDistribution": lambda: D.TransformedDistribution(
        D.Normal(t(0.3, -1.0), t(0.7, 0.4)), [D.TanhTransform(), D.AffineTransform(1.0, -2.0)]
    ),
    "MixtureSameFamily": lambda: D.MixtureSameFamily(
        D.Categorical(probs=T.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=F64)),
        D.Normal(T.tensor([[0.0, 2.0], [-1.0, 1.0]], dtype=F64), t(1.0, 0.5)),
    ),
}
HAS_QUANTILES = [n for n in UNIVARIATE if n != "MixtureSameFamily"]
NO_MOMENTS = ("Cauchy", "HalfCauchy", "TransformedDistribution")


def integral(d: Any, f: Any) -> np.ndarray:
    """Integral of density * f(x) over the quantiles from 1e-7 to 1 - 1e-7, by the trapezoid rule."""
    if type(d).__name__ == "MixtureSameFamily":
        x = T.linspace(-12, 14, 40001, dtype=F64).unsqueeze(-1).expand(-1, 2)
    else:
        ends = d.icdf(T.tensor([[1e-7], [1 - 1e-7]], dtype=F64))
        x = ends[0] + (ends[1] - ends[0]) * T.linspace(0, 1, 200001, dtype=F64).unsqueeze(-1) ** 3
        x = x[1:-1]
    return np.trapezoid((d.log_prob(x).exp() * f(x)).numpy(), x.numpy(), axis=0)


@pytest.mark.parametrize("name", [n for n in UNIVARIATE if n not in NO_MOMENTS])
def test_density_moments_entropy(name: str) -> None:
    d = UNIVARIATE[name]()
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)  # noqa: E731
    close(integral(d, lambda x: 1), [1, 1])
    close(integral(d, lambda x: x), d.mean.numpy())
    close(integral(d, lambda x: (x - d.mean) ** 2), d.variance.numpy())
    if name != "MixtureSameFamily":
        close(integral(d, lambda x: -d.log_prob(x)), d.entropy().numpy())


@pytest.mark.parametrize("name", HAS_QUANTILES)
def test_cdf(name: str) -> None:
    """icdf undoes cdf, and the slope of cdf is the density."""
    d = UNIVARIATE[name]()
    p = T.tensor([[0.05, 0.3], [0.55, 0.9]], dtype=F64)
    x = d.icdf(p).requires_grad_()
    T.testing.assert_close(d.cdf(x), p)
    T.testing.assert_close(T.autograd.grad(d.cdf(x).sum(), x)[0], d.log_prob(x).exp().detach())


@pytest.mark.parametrize("name", list(UNIVARIATE))
def test_samples(name: str) -> None:
    d = UNIVARIATE[name]()
    T.manual_seed(3)
    x = d.sample((20000,))
    assert x.shape == (20000, 2) and x.dtype is F64 and not x.requires_grad
    middle = (d.cdf(x) < 0.5).to(F64).mean(0)
    np.testing.assert_allclose(middle.numpy(), 0.5, atol=0.02)


@pytest.mark.parametrize("name", ["Normal", "Laplace", "Exponential", "HalfNormal", "LogNormal"])
def test_kl_is_its_integral(name: str) -> None:
    p = UNIVARIATE[name]()
    q = type(p)(t(0.9, 1.1)) if name in ("Exponential", "HalfNormal") else type(p)(t(0.0, -0.5), t(1.0, 0.8))
    want = integral(p, lambda x: p.log_prob(x) - q.log_prob(x))
    np.testing.assert_allclose(D.kl_divergence(p, q).numpy(), want, rtol=2e-3)


def test_kl_of_cauchys() -> None:
    p, q = D.Cauchy(t(0.0), t(1.0)), D.Cauchy(t(2.0), t(3.0))
    np.testing.assert_allclose(D.kl_divergence(p, q).item(), math.log((16 + 4) / 12))


COV = np.array([[2.0, 0.5], [0.5, 1.0]])


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_multivariate_normal(given: str) -> None:
    matrix = {"covariance_matrix": COV, "precision_matrix": np.linalg.inv(COV), "scale_tril": np.linalg.cholesky(COV)}
    loc = np.array([[0.1, -0.2], [1.0, 0.0], [0.0, 3.0]])
    d = D.MultivariateNormal(T.tensor(loc), **{given: T.tensor(matrix[given])})
    assert d.batch_shape == (3,) and d.event_shape == (2,)
    x = np.array([[0.3, -1.0], [2.0, 0.1], [0.0, 0.0]])
    apart = x - loc
    want = -0.5 * (np.einsum("bi,ij,bj->b", apart, np.linalg.inv(COV), apart) + np.log(np.linalg.det(2 * np.pi * COV)))
    np.testing.assert_allclose(d.log_prob(T.tensor(x)).numpy(), want)
    np.testing.assert_allclose(d.covariance_matrix.numpy(), np.broadcast_to(COV, (3, 2, 2)))
    np.testing.assert_allclose(d.precision_matrix.numpy(), np.broadcast_to(np.linalg.inv(COV), (3, 2, 2)))
    np.testing.assert_allclose(d.variance.numpy(), np.broadcast_to(np.diag(COV), (3, 2)))
    np.testing.assert_allclose(d.entropy().numpy(), 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * COV)))
    T.manual_seed(0)
    drawn = d.sample((20000,))[:, 0].numpy()
    np.testing.assert_allclose(np.cov(drawn.T), COV, atol=0.06)


def test_kl_of_multivariate_normals() -> None:
    p = D.MultivariateNormal(t(0.0, 1.0), T.tensor(COV))
    q = D.MultivariateNormal(t(1.0, -1.0), T.eye(2, dtype=F64) * 2)
    apart = np.array([1.0, -2.0])
    want = 0.5 * (np.trace(COV) / 2 + apart @ apart / 2 - 2 + np.log(4 / np.linalg.det(COV)))
    np.testing.assert_allclose(D.kl_divergence(p, q).item(), want)


def test_independent_and_mixture_of_vectors() -> None:
    base = D.Normal(T.arange(12.0, dtype=F64).reshape(3, 2, 2), T.ones((), dtype=F64))
    d = D.Independent(base, 1)
    assert d.batch_shape == (3, 2) and d.event_shape == (2,)
    x = T.ones(3, 2, 2, dtype=F64)
    T.testing.assert_close(d.log_prob(x), base.log_prob(x).sum(-1))
    m = D.MixtureSameFamily(D.Categorical(probs=t(0.25, 0.75)), d)
    parts = d.log_prob(x[:, :1])
    T.testing.assert_close(m.log_prob(x[:, 0]), T.logsumexp(parts + T.log(t(0.25, 0.75)), -1))
    assert m.sample((5,)).shape == (5, 3, 2) and m.mean.shape == (3, 2)
    T.testing.assert_close(m.mean, 0.25 * base.loc[:, 0] + 0.75 * base.loc[:, 1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: D.Exponential(-1.0),
        lambda: D.Laplace(0.0, 0.0),
        lambda: D.MultivariateNormal(t(0.0, 0.0)),
        lambda: D.MultivariateNormal(t(0.0, 0.0), T.tensor(-COV)),
        lambda: D.MultivariateNormal(t(0.0, 0.0), scale_tril=T.tensor(COV)),
        lambda: D.Exponential(1.0).log_prob(T.tensor(-1.0)),
        lambda: D.LogNormal(0.0, 1.0).log_prob(T.tensor(0.0)),
        lambda: D.Independent(D.Normal(0.0, 1.0), 1),
        lambda: D.MixtureSameFamily(D.Categorical(probs=t(1.0, 1.0, 1.0)), D.Normal(t(0.0, 0.0), t(1.0, 1.0))),
    ],
)
def test_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


def test_compiled() -> None:
    def loss(loc: T.Tensor, root: T.Tensor, x: T.Tensor) -> T.Tensor:
        mixture = D.MixtureSameFamily(D.Categorical(logits=loc), D.Laplace(loc, root.exp()))
        vectors = D.MultivariateNormal(loc, root.exp().diag_embed())
        return -(mixture.log_prob(x[:, 0]) + vectors.log_prob(x)).mean() + vectors.rsample().sum()

    f, x = T.compile(loss, fullgraph=True), T.randn(7, 2, dtype=F64)
    found = []
    for g in (loss, f):
        T.manual_seed(1)
        args = t(0.1, 0.7).requires_grad_(), t(-0.3, 0.2).requires_grad_()
        value = g(*args, x)
        found.append((value.detach(), *T.autograd.grad(value, args)))
    for a, b in zip(*found, strict=True):
        T.testing.assert_close(a, b)


OUTSIDE = {
    "Normal": (lambda: D.Normal(0.0, 1.0), float("nan"), "Real"),
    "Laplace": (lambda: D.Laplace(0.0, 1.0), float("nan"), "Real"),
    "Uniform": (lambda: D.Uniform(0.0, 2.0), 3.0, "Interval"),
    "Bernoulli": (lambda: D.Bernoulli(0.3), 0.5, "Boolean"),
    "Categorical": (lambda: D.Categorical(T.ones(3)), 3.0, "IntegerInterval"),
    "a fraction": (lambda: D.Categorical(T.ones(3)), 0.5, "IntegerInterval"),
    "Exponential": (lambda: D.Exponential(1.0), -1.0, "GreaterThanEq"),
    "HalfNormal": (lambda: D.HalfNormal(1.0), -1.0, "GreaterThanEq"),
    "LogNormal": (lambda: D.LogNormal(0.0, 1.0), 0.0, "GreaterThan"),
}


@pytest.mark.parametrize("make,value,support", OUTSIDE.values(), ids=OUTSIDE)
def test_values_outside_of_the_support_are_refused(make, value, support):
    d = make()
    with pytest.raises(ValueError, match=rf"within the support \({support}.* of the distribution {type(d).__name__}"):
        d.log_prob(T.tensor(value))
    with pytest.raises(ValueError, match="must be a Tensor"):
        d.log_prob(value)


def test_values_of_other_shapes_are_refused():
    with pytest.raises(ValueError, match="not broadcastable with batch_shape"):
        D.Normal(T.zeros(2), T.ones(2)).log_prob(T.ones(3))
    with pytest.raises(ValueError, match="right-most size of value must match event_shape"):
        D.MultivariateNormal(T.zeros(2), T.eye(2)).log_prob(T.ones(4, 3))
    assert D.Normal(T.zeros(2), T.ones(2)).log_prob(T.ones(5, 1)).shape == (5, 2)


def test_compiled_densities_refuse_values_too():
    @T.compile
    def f(x, low, high):
        return D.Uniform(low, high).log_prob(x) + D.Bernoulli(logits=low).log_prob((x > 0).float())

    low, high = T.zeros(3), T.full((3,), 2.0)
    x = T.tensor([0.5, 1.0, 1.5])
    want = T.full((3,), -2 * 0.6931472)
    T.testing.assert_close(f(x, low, high), want)
    with pytest.raises((ValueError, RuntimeError)):
        f(T.tensor([0.5, 1.0, 3.0]), low, high)


def test_representations():
    assert repr(D.Normal(T.zeros(2), T.ones(2))) == "Normal(loc: fusegrad.Size([2]), scale: fusegrad.Size([2]))"
    assert repr(D.Bernoulli(0.5)) == "Bernoulli(probs: 0.5)"
    assert repr(D.Independent(D.Normal(T.zeros(2), 1.0), 1)).startswith("Independent(Normal(loc: ")
