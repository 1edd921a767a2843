"""Utilities for training: gradient clipping, parameters as vectors, padded sequences."""

from __future__ import annotations

from fusegrad.nn.utils import rnn
from fusegrad.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from fusegrad.nn.utils.convert import parameters_to_vector, vector_to_parameters

clip_grad_norm = clip_grad_norm_

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "rnn",
    "vector_to_parameters",
]
