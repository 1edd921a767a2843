"""Distributions without quantiles, of vectors, of counts: moments of samples, gradients of samples, KL, transforms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import fusegrad as T

D = T.distributions
C, X = D.constraints, D.transforms
F64 = T.float64
COV = [[2.0, 0.5], [0.5, 1.0]]


def t(*values: Any) -> T.Tensor:
    return T.tensor(values, dtype=F64)


# every one of them with parameters that require gradients: name -> (parameters, distribution of them)
MAKE: dict[str, tuple[tuple, Any]] = {
    "Gamma": ((t(0.7, 3.0), t(1.5, 0.8)), D.Gamma),
    "Chi2": ((t(2.5, 6.0),), D.Chi2),
    "Beta": ((t(0.7, 3.0), t(1.5, 0.8)), D.Beta),
    "Dirichlet": ((t([0.7, 3.0, 1.5], [2.0, 2.0, 0.5]),), D.Dirichlet),
    "StudentT": ((t(5.5, 9.0), t(0.3, -1.0), t(0.7, 1.5)), D.StudentT),
    "FisherSnedecor": ((t(3.0, 5.0), t(12.0, 20.0)), D.FisherSnedecor),
    "InverseGamma": ((t(6.0, 9.0), t(1.5, 0.8)), D.InverseGamma),
    "Gumbel": ((t(0.3, -1.0), t(0.7, 1.5)), D.Gumbel),
    "Weibull": ((t(0.7, 1.5), t(2.0, 1.3)), D.Weibull),
    "Pareto": ((t(0.7, 1.5), t(9.0, 12.0)), D.Pareto),
    "Kumaraswamy": ((t(2.0, 1.3), t(1.5, 3.0)), D.Kumaraswamy),
    "GeneralizedPareto": ((t(0.3, -1.0), t(0.7, 1.5), t(-0.4, 0.1)), D.GeneralizedPareto),
    "ContinuousBernoulli": ((t(0.2, 0.7),), D.ContinuousBernoulli),
    "Poisson": ((t(0.7, 30.0),), D.Poisson),
    "Geometric": ((t(0.2, 0.7),), D.Geometric),
    "Binomial": ((t(0.2, 0.7),), lambda p: D.Binomial(9, p)),
    "NegativeBinomial": ((t(3.0, 0.5), t(0.2, 0.7)), D.NegativeBinomial),
    "Multinomial": ((t([0.2, 0.3, 0.5]),), lambda p: D.Multinomial(4, p)),
    "OneHotCategorical": ((t([0.2, 0.3, 0.5]),), D.OneHotCategorical),
    "OneHotCategoricalStraightThrough": ((t([0.2, 0.3, 0.5]),), D.OneHotCategoricalStraightThrough),
    "LowRankMultivariateNormal": (
        (t(1.0, 2.0, 3.0), t(1.0, 0.3, 0.2, 0.5, 0.4, 0.1).view(3, 2), t(0.7, 2.5, 1.3)),
        D.LowRankMultivariateNormal,
    ),
    "Wishart": ((t(4.5, 6.0), T.tensor(COV, dtype=F64)), D.Wishart),
}


def made(name: str) -> tuple[list, Any]:
    values, make = MAKE[name]
    params = [v.clone().requires_grad_() for v in values]
    return params, make(*params)


@pytest.mark.parametrize("name", MAKE)
def test_samples(name: str) -> None:
    """Inside of the support, with the mean and variance that are told; expanded ones are the same."""
    T.manual_seed(5)
    params, d = made(name)
    x = d.sample((20_000,))
    assert not x.requires_grad and x.dtype is F64 and x.shape == (20_000, *d.batch_shape, *d.event_shape)
    if name != "Wishart":  # the products of 20,000 samples are positive definite to rounding
        assert bool(d.support.check(x).all())
    spread = d.stddev.detach().numpy()
    np.testing.assert_array_less(np.abs(x.mean(0).numpy() - d.mean.detach().numpy()), 0.04 * spread + 1e-9)
    np.testing.assert_allclose(x.var(0).numpy(), d.variance.detach().numpy(), rtol=0.2, atol=1e-3)
    e = d.expand((3, *d.batch_shape))
    assert e.batch_shape == (3, *d.batch_shape) and e.sample().shape == (3, *d.batch_shape, *d.event_shape)
    T.testing.assert_close(e.log_prob(x[:3])[1], d.log_prob(x[1]))


@pytest.mark.parametrize("name", [n for n in MAKE if MAKE[n][1] is not None and made(n)[1].has_rsample])
def test_gradients_of_samples(name: str) -> None:
    """The mean gradient of samples is the gradient of the mean."""
    T.manual_seed(7)
    params, d = made(name)
    weights = T.arange(1.0, 1.0 + d.event_shape.numel(), dtype=F64).view(d.event_shape)
    weights = weights + weights.mT if name == "Wishart" else weights  # only symmetric matrices have a density
    got = T.autograd.grad((d.rsample((20_000,)) * weights).mean(0).sum(), params, allow_unused=True)
    params, d = made(name)
    want = T.autograd.grad((d.mean * weights).sum(), params, allow_unused=True)
    for g, w in zip(got, want, strict=True):
        g, w = (T.zeros(()) if v is None else v for v in (g, w))
        np.testing.assert_allclose(g.numpy() + 0 * w.numpy(), w.numpy() + 0 * g.numpy(), rtol=0.15, atol=0.06)


@pytest.mark.parametrize("name", [n for n in MAKE if n not in ("Poisson", "NegativeBinomial", "OneHotCategorical")])
def test_entropy(name: str) -> None:
    """-E[log density], over samples."""
    T.manual_seed(9)
    _, d = made(name)
    if name == "FisherSnedecor":
        with pytest.raises(NotImplementedError):
            d.entropy()
        return
    log_prob = d.log_prob(d.sample((20_000,)).clamp(min=1e-300) if name == "Beta" else d.sample((20_000,))).detach()
    want = -log_prob.mean(0).numpy()
    np.testing.assert_allclose(d.entropy().detach().numpy(), want, atol=0.05, rtol=0.02)


def test_counts_sum_to_one() -> None:
    """Probabilities of all counts; enumerated supports."""
    k = T.arange(0.0, 200.0, dtype=F64)
    for d in (D.Poisson(t(3.5)), D.Geometric(t(0.2)), D.NegativeBinomial(t(3.0), t(0.6))):
        np.testing.assert_allclose(d.log_prob(k.unsqueeze(-1)).exp().sum().item(), 1)
    for d in (D.Binomial(4, t(0.3, 0.6)), D.Bernoulli(t(0.3, 0.6)), D.Categorical(t([0.3, 0.6], [0.2, 0.2]))):
        values = d.enumerate_support()
        np.testing.assert_allclose(d.log_prob(values).exp().sum(0).numpy(), [1, 1])
        assert d.enumerate_support(expand=False).shape == (len(values), 1)
    rows = T.tensor([r for r in itertools.product(range(5), repeat=3) if sum(r) == 4], dtype=F64)
    np.testing.assert_allclose(D.Multinomial(4, t(0.2, 0.3, 0.5)).log_prob(rows).exp().sum().item(), 1)


def test_angles_and_correlations() -> None:
    T.manual_seed(1)
    d = D.VonMises(t(0.5, -3.0), t(0.3, 4.0))
    x = d.sample((20_000,))
    assert bool((x.abs() <= math.pi + 1e-12).all())
    np.testing.assert_allclose(1 - (x - d.loc).cos().mean(0).numpy(), d.variance.numpy(), atol=0.02)
    grid = T.linspace(-math.pi, math.pi, 2001, dtype=F64).unsqueeze(-1)
    np.testing.assert_allclose(T.trapezoid(d.log_prob(grid).exp(), grid, dim=0).numpy(), [1, 1], rtol=1e-6)
    # a correlation of size 3 and concentration c is 2 b - 1, b of Beta(c + 1/2, c + 1/2)
    d = D.LKJCholesky(3, t(1.0, 2.5))
    factor = d.sample((20_000,))
    assert bool(d.support.check(factor).all())
    corr = (factor @ factor.mT).numpy()
    for i, j in ((1, 0), (2, 0), (2, 1)):
        np.testing.assert_allclose(corr[:, :, i, j].var(0), 1 / (2 * (np.array([1.0, 2.5]) + 0.5) + 1), rtol=0.05)
    # with concentration 1 the density of the correlations is the inverse of their volume: pi^2 / 2 for size 3
    jacobian = factor[:, 0].diagonal(dim1=-2, dim2=-1)[:, 1].log()  # of the map from factor to correlations
    np.testing.assert_allclose((d.log_prob(factor)[:, 0] - jacobian).numpy(), -math.log(math.pi**2 / 2), rtol=1e-9)


def test_relaxed() -> None:
    T.manual_seed(2)
    odds = t(0.2, 0.7).requires_grad_()
    d = D.RelaxedBernoulli(T.tensor(0.3, dtype=F64), logits=odds)
    np.testing.assert_allclose((d.sample((20_000,)) > 0.5).double().mean(0).numpy(), odds.sigmoid().tolist(), atol=0.02)
    smooth = D.RelaxedBernoulli(T.tensor(1.5, dtype=F64), logits=odds)
    grid = T.linspace(1e-6, 1 - 1e-6, 2001, dtype=F64).unsqueeze(-1)
    np.testing.assert_allclose(T.trapezoid(smooth.log_prob(grid).exp(), grid, dim=0).tolist(), [1, 1], rtol=1e-2)
    assert T.autograd.grad(d.rsample().sum(), odds)[0].abs().min() > 0
    r = D.RelaxedOneHotCategorical(T.tensor(0.5, dtype=F64), t(0.3, 0.7))
    two = D.RelaxedBernoulli(T.tensor(0.5, dtype=F64), t(0.3))  # the same thing for two outcomes
    T.testing.assert_close(r.log_prob(t(0.2, 0.8)), two.log_prob(t(0.2))[0])
    assert r.rsample((4,)).shape == (4, 2)


ALONE: dict[str, Any] = {
    "Bernoulli": lambda: D.Bernoulli(t(0.3)),
    "Beta": lambda: D.Beta(t(2.0), t(1.5)),
    "Binomial": lambda: D.Binomial(6, t(0.3)),
    "Categorical": lambda: D.Categorical(t([0.2, 0.8])),
    "Cauchy": lambda: D.Cauchy(t(0.5), t(1.5)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.3)),
    "Dirichlet": lambda: D.Dirichlet(t([2.0, 1.5, 3.0])),
    "Exponential": lambda: D.Exponential(t(1.7)),
    "Gamma": lambda: D.Gamma(t(2.0), t(1.5)),
    "Geometric": lambda: D.Geometric(t(0.4)),
    "Gumbel": lambda: D.Gumbel(t(0.5), t(0.8)),
    "HalfNormal": lambda: D.HalfNormal(t(0.8)),
    "Laplace": lambda: D.Laplace(t(0.5), t(0.8)),
    "LogNormal": lambda: D.LogNormal(t(0.5), t(0.8)),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(t([0.5, 1.0]), t([[1.0], [0.5]]), t([1.0, 2.0])),
    "MultivariateNormal": lambda: D.MultivariateNormal(t([0.0, 1.0]), T.tensor(COV, dtype=F64)),
    "Normal": lambda: D.Normal(t(0.5), t(0.8)),
    "OneHotCategorical": lambda: D.OneHotCategorical(t([0.2, 0.8])),
    "Pareto": lambda: D.Pareto(t(1.0), t(4.0)),
    "Poisson": lambda: D.Poisson(t(1.4)),
    "Uniform": lambda: D.Uniform(t(0.25), t(0.75)),
    "Wishart": lambda: D.Wishart(t(4.0), T.tensor(COV, dtype=F64)),
}
OTHER: dict[str, Any] = {
    "Bernoulli": lambda: D.Bernoulli(t(0.6)),
    "Beta": lambda: D.Beta(t(1.2), t(2.5)),
    "Binomial": lambda: D.Binomial(6, t(0.5)),
    "Categorical": lambda: D.Categorical(t([0.6, 0.4])),
    "Cauchy": lambda: D.Cauchy(t(0.0), t(1.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.8)),
    "Dirichlet": lambda: D.Dirichlet(t([1.0, 2.5, 2.0])),
    "Exponential": lambda: D.Exponential(t(0.8)),
    "Gamma": lambda: D.Gamma(t(3.0), t(1.0)),
    "Geometric": lambda: D.Geometric(t(0.7)),
    "Gumbel": lambda: D.Gumbel(t(0.0), t(1.1)),
    "HalfNormal": lambda: D.HalfNormal(t(1.3)),
    "Laplace": lambda: D.Laplace(t(0.0), t(1.1)),
    "LogNormal": lambda: D.LogNormal(t(0.0), t(1.1)),
    "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(t([0.0, 0.5]), t([[0.5], [0.7]]), t([1.5, 1.0])),
    "MultivariateNormal": lambda: D.MultivariateNormal(t([0.5, 0.0]), 2 * T.eye(2, dtype=F64)),
    "Normal": lambda: D.Normal(t(0.0), t(1.1)),
    "OneHotCategorical": lambda: D.OneHotCategorical(t([0.6, 0.4])),
    "Pareto": lambda: D.Pareto(t(0.5), t(3.0)),
    "Poisson": lambda: D.Poisson(t(2.0)),
    "Uniform": lambda: D.Uniform(t(-1.0), t(2.0)),
    "Wishart": lambda: D.Wishart(t(5.0), 2 * T.eye(2, dtype=F64)),
}


def pairs() -> list[tuple[str, str]]:
    from fusegrad.distributions.kl import _KL

    known = {(a.__name__, b.__name__) for a, b in _KL}
    return [(a, b) for a in ALONE for b in OTHER if (a, b) in known or a == b]


@pytest.mark.parametrize("p,q", pairs())
def test_kl(p: str, q: str) -> None:
    """E[log p - log q] over samples of p; infinite where these lie outside of q's support."""
    a, b = ALONE[p](), OTHER[q]()
    got = D.kl_divergence(a, b).squeeze().item()
    T.manual_seed(11)
    x = a.sample((20_000,))
    if not bool(b.support.check(x).all()):
        assert got == math.inf
        return
    want = (a.log_prob(x) - b.log_prob(x)).mean().item()
    np.testing.assert_allclose(got, want, rtol=0.08, atol=0.02)


def test_kl_of_families() -> None:
    """The Bregman divergence that serves classes without a formula gives what the formulas give, with gradients."""
    from fusegrad.distributions.kl import _families

    for name in ("Normal", "Gamma", "Exponential", "Dirichlet", "Bernoulli", "Poisson", "Beta"):
        p, q = ALONE[name](), OTHER[name]()
        T.testing.assert_close(_families(p, q).detach(), D.kl_divergence(p, q))

    class Own(D.Normal):
        pass

    assert D.kl_divergence(Own(0.0, 1.0), D.Normal(1.0, 1.0)).item() == 0.5
    with pytest.raises(NotImplementedError, match="cross KL-divergence"):
        D.kl_divergence(D.Poisson(1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.StudentT(2.0), D.Normal(0.0, 1.0))
    with pytest.raises(TypeError, match="Distribution subclass"):
        D.register_kl(int, D.Normal)


VALUES = t(0.3, -0.5, 0.8)
SQUARE = t([0.3, -0.2], [0.7, 0.1])
TRANSFORMS = {
    "exp": (X.ExpTransform(), VALUES),
    "power": (X.PowerTransform(t(2.5)), VALUES.abs()),
    "sigmoid": (X.SigmoidTransform(), VALUES),
    "softplus": (X.SoftplusTransform(), VALUES),
    "tanh": (X.TanhTransform(), VALUES),
    "affine": (X.AffineTransform(t(1.0, 2.0, 3.0), t(-1.0, 2.0, 0.5)), VALUES),
    "affine of events": (X.AffineTransform(1.0, 2.0, event_dim=1), VALUES),
    "affine of events, a tensor": (X.AffineTransform(1.0, t(2.0)[0], event_dim=1), VALUES),
    "stick": (X.StickBreakingTransform(), VALUES),
    "correlation": (X.CorrCholeskyTransform(), VALUES),
    "composed": (X.ComposeTransform([X.AffineTransform(0.0, 3.0), X.StickBreakingTransform()]), VALUES),
    "independent": (X.IndependentTransform(X.ExpTransform(), 1), VALUES),
    "inverse": (X.ExpTransform().inv, VALUES.abs()),
    "reshape": (X.ReshapeTransform((2, 2), (4,)), SQUARE),
    "cat": (X.CatTransform([X.ExpTransform(), X.TanhTransform()], dim=-1, lengths=[1, 2]), VALUES),
    "stack": (X.StackTransform([X.ExpTransform(), X.TanhTransform()], dim=-1), SQUARE),
    "cdf": (X.CumulativeDistributionTransform(D.Normal(t(0.0)[0], t(1.0)[0])), VALUES),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    """Inverses, shapes, regions, and determinants that are those of the Jacobian."""
    f, x = TRANSFORMS[name]
    y = f(x)
    T.testing.assert_close(f.inv(y), x)
    assert y.shape == f.forward_shape(x.shape) and x.shape == f.inverse_shape(y.shape)
    assert bool(f.domain.check(x).all()) and bool(f.codomain.check(y).all())
    assert f == f and f.inv.inv == f and f.with_cache(1)._cache_size == 1
    c = f.with_cache(1)
    out = c(x)
    assert c(x) is out and c.inv(out) is x
    size = f.log_abs_det_jacobian(x, y)
    assert name == "stack" or size.shape == x.shape[: x.dim() - f.domain.event_dim]
    T.testing.assert_close(f.inv.log_abs_det_jacobian(y, x), -size)
    jacobian = T.autograd.functional.jacobian(f, x).reshape(-1, x.numel())
    if name == "correlation":  # the numbers below the diagonal stand for the whole factor
        jacobian = jacobian[[3, 6, 7]]
    elif jacobian.shape[0] > jacobian.shape[1]:  # one of the shares follows from the others
        jacobian = jacobian[:-1]
    T.testing.assert_close(size.sum(), T.linalg.slogdet(jacobian)[1])


REGIONS = [
    C.real, C.positive, C.nonnegative, C.greater_than(2.0), C.less_than(2.0), C.interval(-1.0, 2.0), C.unit_interval,
    C.half_open_interval(0.0, 3.0), C.simplex, C.corr_cholesky, C.independent(C.positive, 1), C.real_vector,
    C.stack([C.real, C.positive, C.unit_interval]), C.cat([C.real, C.positive], lengths=[1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("region", REGIONS, ids=repr)
def test_transforms_of_constraints(region: Any) -> None:
    x = t(0.3, -0.5, 0.8)
    for registry in (D.biject_to, D.transform_to):
        y = registry(region)(x)
        assert bool(region.check(y).all())
    T.testing.assert_close(D.biject_to(region).inv(D.biject_to(region)(x)), x)


def test_matrix_constraints() -> None:
    for region in (C.lower_cholesky, C.positive_definite, C.positive_semidefinite):
        assert bool(region.check(D.transform_to(region)(SQUARE)))
        assert not bool(region.check(SQUARE))
    assert bool(C.lower_triangular.check(SQUARE.tril())) and not bool(C.symmetric.check(SQUARE))
    assert bool(C.square.check(SQUARE)) and not bool(C.square.check(VALUES.view(1, 3)))
    assert C.multinomial(3).check(t([1.0, 2.0], [3.0, 1.0])).tolist() == [True, False]
    assert (
        repr(C.independent(C.interval(0, 2), 1)) == "IndependentConstraint(Interval(lower_bound=0, upper_bound=2), 1)"
    )
    with pytest.raises(NotImplementedError, match="Cannot transform _Boolean"):
        D.biject_to(C.boolean)
    with pytest.raises(ValueError, match="dependent constraint"):
        C.dependent.check(VALUES)
    assert C.is_dependent(D.Uniform.support) and not C.is_dependent(D.Uniform(0.0, 1.0).support)


class Triangular(D.Distribution):
    """A user's own: density 2 x / top^2 on (0, top)."""

    arg_constraints = {"top": C.positive}
    has_rsample = True

    def __init__(self, top: Any, validate_args: Any = None):
        (self.top,) = D.utils.broadcast_all(top)
        super().__init__(self.top.shape, validate_args=validate_args)

    @C.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return C.interval(0.0, self.top)

    def rsample(self, sample_shape: Any = ()) -> T.Tensor:
        return self.top * T.rand(self._extended_shape(sample_shape), dtype=self.top.dtype).sqrt()

    def log_prob(self, value: T.Tensor) -> T.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (2 * value / self.top.square()).log()


def test_own_distributions() -> None:
    d = Triangular(t(2.0, 3.0))
    assert repr(d) == "Triangular(top: fusegrad.Size([2]))"
    assert D.Independent(d, 1).log_prob(d.sample((4,))).shape == (4,)
    with pytest.raises(ValueError, match=r"Expected parameter top .* constraint GreaterThan\(lower_bound=0.0\)"):
        Triangular(-1.0)
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(t(2.5, 2.5))
    with pytest.raises(NotImplementedError):
        d.expand((4, 2))
    with pytest.raises(NotImplementedError):
        d.entropy()

    class Wider(D.Normal):
        def __init__(self, loc: Any):
            super().__init__(loc, 1.0)

    with pytest.raises(NotImplementedError, match=r"must also define a custom .expand\(\) method"):
        Wider(t(0.0)).expand((3, 1))
    with pytest.warns(UserWarning, match="arg_constraints"):
        D.Distribution()


def test_import_paths() -> None:
    from fusegrad.distributions.multivariate_normal import MultivariateNormal
    from fusegrad.distributions.normal import Normal
    from fusegrad.distributions.utils import lazy_property, probs_to_logits

    from fusegrad.distributions.constraint_registry import biject_to
    from fusegrad.distributions.kl import kl_divergence

    assert Normal is D.Normal and MultivariateNormal is D.MultivariateNormal and biject_to is D.biject_to
    assert kl_divergence is D.kl_divergence and lazy_property and probs_to_logits(t(0.5), True).item() == 0


def test_broadcast_gives_back_what_has_the_shape() -> None:
    """So parameters of a distribution are the leaves that were given."""
    x, y = T.ones(3, requires_grad=True), T.ones(2, 3)
    a, b = T.broadcast_tensors(x, y)
    assert b is y and a is not x and T.broadcast_tensors(x)[0] is x
    assert D.Normal(x, 1.0).loc is x


@pytest.mark.parametrize("name", ["_standard_gamma", "poisson", "binomial"])
def test_draws(name: str) -> None:
    """The state decides; a generator of its own; what can't be drawn is refused."""
    args = (t(2.0, 5.0), t(0.5, 0.5)) if name == "binomial" else (t(2.0, 5.0),)
    draw = getattr(T, name)
    T.manual_seed(3)
    a = draw(*args)
    assert T.Generator().manual_seed(3).initial_seed() == 3
    T.testing.assert_close(draw(*args, generator=T.Generator().manual_seed(3)), a)
    bad = (-args[0], *args[1:])
    with pytest.raises(RuntimeError):
        draw(*bad)
    with pytest.raises((RuntimeError, NotImplementedError)):
        draw(*(a.long() for a in args))


@pytest.mark.parametrize("dtype", [T.float16, T.float32, T.float64])
def test_draws_of_one_number(dtype: Any) -> None:
    """Without dimensions, and of no elements; the results can be changed."""
    for shape in ((), (0,), (2, 0)):
        half = T.full(shape, 0.5, dtype=dtype)
        for draw in (T._standard_gamma, T.poisson, T.bernoulli, lambda p: T.binomial(p * 6, p), D.StudentT, D.Beta):
            if isinstance(draw, type):
                made = draw(half, half).sample() if dtype is not T.float16 else half.clone()
            else:
                made = draw(half)
            assert made.shape == shape and made.dtype is dtype and made.add_(1).shape == shape
    assert T._standard_gamma_grad(half, half).shape == shape
    g = T.full((), 0.5, dtype=T.float64, requires_grad=True)
    (slope,) = T.autograd.grad(D.Gamma(g, 1.0).rsample(), g)
    assert slope.shape == () and slope > 0


def test_slope_of_gamma_quantiles() -> None:
    """dx/da by differences of the incomplete gamma function: small, middle and large concentrations."""
    for a, h in ((0.1, 1e-5), (3.0, 1e-4), (150.0, 1e-3), (3000.0, 1e-2)):
        a, x = t(a), t(a) * 1.1
        lower = T.special.gammainc
        change = (8 * (lower(a + h, x) - lower(a - h, x)) - (lower(a + 2 * h, x) - lower(a - 2 * h, x))) / (12 * h)
        density = ((a - 1) * x.log() - x - a.lgamma()).exp()
        T.testing.assert_close(T._standard_gamma_grad(a, x), -change / density, rtol=1e-6, atol=0)


def test_compiled() -> None:
    """One graph: checks, samples with their gradients, densities, KL, transforms, expand."""

    def loss(a: T.Tensor, b: T.Tensor) -> T.Tensor:
        gamma, beta = D.Gamma(a, b), D.Beta(a, b).expand((4, 2))
        flow = D.TransformedDistribution(D.StudentT(a + 2, b), [D.TanhTransform(), D.AffineTransform(0.0, b)])
        z = gamma.rsample((3,))
        total = gamma.log_prob(z).sum() + beta.rsample().sum() + flow.log_prob(flow.rsample().detach()).sum()
        counts = D.Poisson(a).sample((2,))
        total = total + D.Poisson(b).log_prob(counts).sum() + D.kl_divergence(gamma, D.Gamma(b, a)).sum()
        return total + D.Dirichlet(a).log_prob(D.biject_to(C.simplex)(a[:1] * 0.1)) + D.Weibull(a, b).entropy().sum()

    f, found = T.compile(loss, fullgraph=True), []
    for g in (loss, f):
        T.manual_seed(1)
        args = t(0.9, 2.5).requires_grad_(), t(1.3, 0.4).requires_grad_()
        value = g(*args)
        found.append((value.detach(), *T.autograd.grad(value, args), T.get_rng_state()))
    for x, y in zip(*found, strict=True):
        T.testing.assert_close(x, y)
    with pytest.raises(ValueError, match="Expected parameter concentration"):
        f(t(-0.9, 2.5), t(1.3, 0.4))
