"""Utilities for training: gradient clipping, parameters as vectors, padded sequences, computed parameters."""

from __future__ import annotations

import importlib
from typing import Any

from fusegrad.nn.utils import rnn
from fusegrad.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from fusegrad.nn.utils.convert import parameters_to_vector, vector_to_parameters

clip_grad_norm = clip_grad_norm_
_LATER = {
    "parametrize": "parametrize",
    "parametrizations": "parametrizations",
    "prune": "prune",
    "weight_norm": "_old_weight_norm",
    "remove_weight_norm": "_old_weight_norm",
    "spectral_norm": "_old_spectral_norm",
    "remove_spectral_norm": "_old_spectral_norm",
    "fusion": "fusion",
    "fuse_conv_bn_eval": "fusion",
    "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion",
    "fuse_linear_bn_weights": "fusion",
    "skip_init": "fusion",
}


def __getattr__(name: str) -> Any:
    """What few programs use is imported when it is."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_LATER[name]}")
    return module if name == _LATER[name] else getattr(module, name)


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
