"""PyTorch's import paths of the distributions: ``from fusegrad.distributions.normal import Normal``."""

from __future__ import annotations

import sys
import types
from typing import Any

from fusegrad.distributions import base, continuous, counts, discrete, gammas, joint, relaxed, transformed, vectors

_FILES: dict[str, tuple[Any, ...]] = {
    "bernoulli": (discrete, "Bernoulli"),
    "beta": (gammas, "Beta"),
    "binomial": (counts, "Binomial"),
    "categorical": (discrete, "Categorical"),
    "cauchy": (continuous, "Cauchy"),
    "chi2": (gammas, "Chi2"),
    "continuous_bernoulli": (discrete, "ContinuousBernoulli"),
    "dirichlet": (gammas, "Dirichlet"),
    "distribution": (base, "Distribution"),
    "exp_family": (base, "ExponentialFamily"),
    "exponential": (continuous, "Exponential"),
    "fishersnedecor": (gammas, "FisherSnedecor"),
    "gamma": (gammas, "Gamma"),
    "generalized_pareto": (continuous, "GeneralizedPareto"),
    "geometric": (counts, "Geometric"),
    "gumbel": (transformed, "Gumbel"),
    "half_cauchy": (transformed, "HalfCauchy"),
    "half_normal": (transformed, "HalfNormal"),
    "independent": (joint, "Independent"),
    "inverse_gamma": (transformed, "InverseGamma"),
    "kumaraswamy": (transformed, "Kumaraswamy"),
    "laplace": (continuous, "Laplace"),
    "lkj_cholesky": (vectors, "LKJCholesky"),
    "log_normal": (transformed, "LogNormal"),
    "logistic_normal": (transformed, "LogisticNormal"),
    "lowrank_multivariate_normal": (vectors, "LowRankMultivariateNormal"),
    "mixture_same_family": (joint, "MixtureSameFamily"),
    "multinomial": (counts, "Multinomial"),
    "multivariate_normal": (vectors, "MultivariateNormal"),
    "negative_binomial": (counts, "NegativeBinomial"),
    "normal": (continuous, "Normal"),
    "one_hot_categorical": (discrete, "OneHotCategorical", "OneHotCategoricalStraightThrough"),
    "pareto": (transformed, "Pareto"),
    "poisson": (counts, "Poisson"),
    "relaxed_bernoulli": (relaxed, "LogitRelaxedBernoulli", "RelaxedBernoulli"),
    "relaxed_categorical": (relaxed, "ExpRelaxedCategorical", "RelaxedOneHotCategorical"),
    "studentT": (gammas, "StudentT"),
    "transformed_distribution": (transformed, "TransformedDistribution"),
    "uniform": (continuous, "Uniform"),
    "utils": (
        base,
        "broadcast_all",
        "clamp_probs",
        "lazy_property",
        "logits_to_probs",
        "probs_to_logits",
    ),
    "von_mises": (continuous, "VonMises"),
    "weibull": (transformed, "Weibull"),
    "wishart": (vectors, "Wishart"),
}

MODULES: dict[str, types.ModuleType] = {}
for _name, (_here, *_names) in _FILES.items():
    _made = types.ModuleType(f"fusegrad.distributions.{_name}", _here.__doc__)
    _made.__dict__.update({n: getattr(_here, n) for n in _names}, __all__=_names)
    MODULES[_name] = sys.modules[_made.__name__] = _made
