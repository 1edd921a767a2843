"""KL divergences: `kl_divergence`, `register_kl`, and the formulas.

KL(p || q) is -H(p) - E_p[log q]: where q's log density is made of x, x^2, log x and exp of x, its mean needs only what
p knows of these, so one function serves all p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import fusegrad
from fusegrad.autograd.modes import enable_grad
from fusegrad.distributions.base import Distribution, ExponentialFamily, sum_rightmost
from fusegrad.distributions.continuous import Cauchy, Exponential, Laplace, Normal, Uniform
from fusegrad.distributions.counts import Binomial, Geometric, Poisson
from fusegrad.distributions.discrete import Bernoulli, Categorical, ContinuousBernoulli, OneHotCategorical
from fusegrad.distributions.gammas import Beta, Dirichlet, Gamma
from fusegrad.distributions.joint import Independent
from fusegrad.distributions.transformed import Gumbel, HalfNormal, Pareto, TransformedDistribution
from fusegrad.distributions.vectors import LowRankMultivariateNormal, MultivariateNormal, Wishart, log_diagonal
from fusegrad.tensor import Tensor

__all__ = ["kl_divergence", "register_kl"]

_EULER = 0.57721566490153286060
_KL: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable:
    """Decorator: the function computes KL(p || q) for these classes. TypeError for what is no Distribution."""
    for which, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type) or not issubclass(cls, Distribution):
            raise TypeError(f"Expected {which} to be a Distribution subclass but got {cls}")

    def register(fn: Callable) -> Callable:
        _KL[type_p, type_q] = fn
        return fn

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) of the batch shape; NotImplementedError for a pair without a formula."""
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _KL:
                return _KL[a, b](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


def _xlogx(x: Tensor) -> Tensor:
    return fusegrad.xlogy(x, x)


def _with_inf(value: Tensor, where: Tensor) -> Tensor:
    return fusegrad.where(where, math.inf, value)


# ---- within one family ----


@register_kl(ExponentialFamily, ExponentialFamily)
def _families(p: Any, q: Any) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot "
            "be computed using Bregman divergences"
        )
    at = [v.detach().requires_grad_() for v in p._natural_params]
    to = q._natural_params
    with enable_grad():
        norm = p._log_normalizer(*at)
        slopes = fusegrad.autograd.grad(norm.sum(), at, create_graph=True)
    result = q._log_normalizer(*to) - norm
    for a, b, slope in zip(at, to, slopes, strict=True):
        result = result - sum_rightmost((b - a) * slope, len(q.event_shape))
    return result


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(Laplace, Laplace)
def _laplaces(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Cauchy, q: Cauchy) -> Tensor:
    """Chyzak and Nielsen, 2019."""
    return (((p.scale + q.scale).square() + (p.loc - q.loc).square()) / (4 * p.scale * q.scale)).log()


@register_kl(Exponential, Exponential)
def _exponentials(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return _with_inf(result, (q.low > p.low) | (q.high < p.high))


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    shapes = b.lgamma() - a.lgamma() + (a - b) * a.digamma()
    return b * (p.rate / q.rate).log() + shapes + (q.rate - p.rate) * (a / p.rate)


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Tensor:
    return _dirichlets(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Gumbel, Gumbel)
def _gumbels(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, apart = p.scale / q.scale, (q.loc - p.loc) / q.scale
    return -ratio.log() - apart + ratio * _EULER + (apart + (1 + ratio).lgamma()).exp() - (1 + _EULER)


@register_kl(Pareto, Pareto)
def _paretos(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _with_inf(result, p.scale < q.scale)


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normals(p.base_dist, q.base_dist)


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    softplus = fusegrad.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = _with_inf(one, q.probs == 0).masked_fill(p.probs == 0, 0)
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return one + _with_inf(zero, q.probs == 1).masked_fill(p.probs == 1, 0)


@register_kl(Categorical, Categorical)
def _categoricals(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    return t.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0.0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hots(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categoricals(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoullis(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    ends = (p._log_norm() + (-p.probs).log1p()) - (q._log_norm() + (-q.probs).log1p())
    return p.mean * (p.logits - q.logits) + ends


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    result = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _with_inf(result, p.total_count > q.total_count)


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normals(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        low = [isinstance(d, LowRankMultivariateNormal) for d in (p, q)]
        kind = "Low Rank " if all(low) else "(Low Rank) " if any(low) else ""
        raise ValueError(
            f"KL-divergence between two {kind}Multivariate Normals with different event shapes cannot be computed"
        )
    solve = fusegrad.linalg.solve_triangular
    ratio = solve(q.scale_tril, p.scale_tril, upper=False)
    z = solve(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    trace = ratio.square().sum((-2, -1)) + z.square().sum((-2, -1))
    return log_diagonal(q.scale_tril) - log_diagonal(p.scale_tril) + 0.5 * (trace - p.event_shape[0])


@register_kl(Wishart, Wishart)
def _wisharts(p: Wishart, q: Wishart) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError("KL-divergence between two Wisharts with different event shapes cannot be computed")
    n = p.event_shape[-1]
    ratio = fusegrad.linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    norms = q.df * log_diagonal(q.scale_tril) + (q.df / 2).mvlgamma(n)
    norms = norms - p.df * log_diagonal(p.scale_tril) - (p.df / 2).mvlgamma(n)
    psi = ((p.df.unsqueeze(-1) - fusegrad.arange(n, dtype=p.df.dtype)) / 2).digamma().sum(-1)
    log_det = psi + 2 * log_diagonal(p.scale_tril)
    return norms + 0.5 * p.df * (ratio.square().sum((-2, -1)) - n) + 0.5 * (p.df - q.df) * log_det


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# ---- between families: what p knows of itself, and what q asks for ----


def _mean_log(p: Any) -> Tensor:
    """E[log x]."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Exponential):
        return -p.rate.log() - _EULER
    if isinstance(p, Gamma):
        return p.concentration.digamma() - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_xlogx(p.high) - _xlogx(p.low)) / (p.high - p.low) - 1  # Uniform


def _mean_exp(p: Any, s: Tensor) -> Tensor:
    """E[exp(-x / s)]."""
    if isinstance(p, Exponential):
        return p.rate * s / (p.rate * s + 1)
    if isinstance(p, Gamma):
        return (1 + (p.rate * s).reciprocal()).pow(-p.concentration)
    if isinstance(p, Normal):
        return (-p.loc / s + (p.scale / s).square() * 0.5).exp()
    return s * ((-p.low / s).exp() - (-p.high / s).exp()) / (p.high - p.low)  # Uniform


def _misses(p: Any, low: Any, high: Any) -> Tensor | None:
    """Where p has values outside of an interval, on which q's density lies."""
    if isinstance(p, Uniform):
        return (p.low < low) | (p.high > high)
    return None


def _cross(p: Any, negative_log: Tensor, low: Any = -math.inf, high: Any = math.inf) -> Tensor:
    """-H(p) + E_p[-log q]; infinite where p has values outside of q's interval."""
    result, misses = negative_log - p.entropy(), _misses(p, low, high)
    return result if misses is None else _with_inf(result, misses)


@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Exponential, Normal)
@register_kl(Gamma, Normal)
@register_kl(Gumbel, Normal)
@register_kl(Laplace, Normal)
@register_kl(Pareto, Normal)
@register_kl(Uniform, Normal)
def _to_normal(p: Any, q: Normal) -> Tensor:
    var = q.scale.square()
    result = _cross(p, 0.5 * (2 * math.pi * var).log() + (p.variance + (p.mean - q.loc).square()) / (2 * var))
    return _with_inf(result, p.alpha <= 2) if isinstance(p, Pareto) else result


@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
@register_kl(Gamma, Exponential)
@register_kl(Pareto, Exponential)
@register_kl(Uniform, Exponential)
def _to_exponential(p: Any, q: Exponential) -> Tensor:
    result = _cross(p, q.rate * p.mean - q.rate.log(), low=0)
    return _with_inf(result, p.alpha <= 1) if isinstance(p, Pareto) else result


@register_kl(Beta, Gamma)
@register_kl(Exponential, Gamma)
@register_kl(Pareto, Gamma)
@register_kl(Uniform, Gamma)
def _to_gamma(p: Any, q: Gamma) -> Tensor:
    a, rate = q.concentration, q.rate
    result = _cross(p, a.lgamma() - a * rate.log() - (a - 1) * _mean_log(p) + rate * p.mean, low=0)
    return _with_inf(result, p.alpha <= 1) if isinstance(p, Pareto) else result


@register_kl(Exponential, Gumbel)
@register_kl(Gamma, Gumbel)
@register_kl(Normal, Gumbel)
@register_kl(Uniform, Gumbel)
def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    s = q.scale
    return _cross(p, s.log() + (p.mean - q.loc) / s + (q.loc / s).exp() * _mean_exp(p, s))


@register_kl(Normal, Laplace)
def _normal_to_laplace(p: Normal, q: Laplace) -> Tensor:
    apart = p.loc - q.loc
    ratio = apart / p.scale
    far = p.scale * math.sqrt(2 / math.pi) * (-0.5 * ratio.square()).exp() + apart * (ratio * math.sqrt(0.5)).erf()
    return _cross(p, (2 * q.scale).log() + far / q.scale)


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return _cross(p, -p.mean * q.logits - (-q.probs).log1p() - q._log_norm(), low=0, high=1)


@register_kl(Uniform, Beta)
def _uniform_to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b, width = q.concentration1, q.concentration0, p.high - p.low
    one_less = (_xlogx(1 - p.low) - _xlogx(1 - p.high)) / width - 1  # E[log(1 - x)]
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return _cross(p, norm - (a - 1) * _mean_log(p) - (b - 1) * one_less, low=0, high=1)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_to_uniform(p: Any, q: Uniform) -> Tensor:
    return _with_inf((q.high - q.low).log() - p.entropy(), (q.high < 1) | (q.low > 0))


@register_kl(Uniform, Pareto)
def _uniform_to_pareto(p: Uniform, q: Pareto) -> Tensor:
    norm = q.alpha.log() + q.alpha * q.scale.log()
    return _cross(p, (q.alpha + 1) * _mean_log(p) - norm, low=q.scale)


@register_kl(Bernoulli, Poisson)
def _bernoulli_to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


def _never(p: Any, q: Any) -> Tensor:
    """p has values where q has no density."""
    return fusegrad.full_like(p.mean, math.inf)


_OUTSIDE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
for _p, _qs in _OUTSIDE.items():
    for _q in _qs:
        register_kl(_p, _q)(_never)
