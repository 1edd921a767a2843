"""Probability distributions."""

from __future__ import annotations

from fusegrad.distributions.base import Distribution, kl_divergence, register_kl
from fusegrad.distributions.continuous import Normal, Uniform
from fusegrad.distributions.discrete import Bernoulli, Categorical
from fusegrad.distributions.joint import Independent, MixtureSameFamily, MultivariateNormal
from fusegrad.distributions.univariate import Cauchy, Exponential, HalfNormal, Laplace, LogNormal

__all__ = [
    "Bernoulli",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Exponential",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "MixtureSameFamily",
    "MultivariateNormal",
    "Normal",
    "Uniform",
    "kl_divergence",
    "register_kl",
]
