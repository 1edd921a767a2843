"""Probability distributions."""

from __future__ import annotations

from fusegrad.distributions.base import Distribution, kl_divergence, register_kl
from fusegrad.distributions.continuous import Normal, Uniform
from fusegrad.distributions.discrete import Bernoulli, Categorical

__all__ = ["Bernoulli", "Categorical", "Distribution", "Normal", "Uniform", "kl_divergence", "register_kl"]
