"""Batch normalisation folded into the layer before it, for evaluation; modules whose parameters are not set."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import fusegrad
from fusegrad.nn.parameter import Parameter


def fuse_conv_bn_weights(
    conv_w: Any, conv_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any, transpose: bool = False
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution followed by the normalisation with running mean and variance."""
    shape = [1, -1] if transpose else [-1, 1]
    scale = fusegrad.rsqrt(bn_rv + bn_eps) if bn_w is None else bn_w * fusegrad.rsqrt(bn_rv + bn_eps)
    weight = conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))
    bias = (0 if conv_b is None else conv_b) - bn_rm
    bias = bias * scale + (0 if bn_b is None else bn_b)
    return (
        Parameter(weight.detach().to(conv_w.dtype), conv_w.requires_grad),
        Parameter(bias.detach(), conv_w.requires_grad if conv_b is None else conv_b.requires_grad),
    )


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A copy of `conv` that computes `bn(conv(x))`. AssertionError unless both are in evaluation mode."""
    return _fused(conv, bn, transpose=transpose)


def fuse_linear_bn_weights(
    linear_w: Any, linear_b: Any, bn_rm: Any, bn_rv: Any, bn_eps: float, bn_w: Any, bn_b: Any
) -> tuple[Parameter, Parameter]:
    """The same for a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A copy of `linear` that computes `bn(linear(x))`. AssertionError unless both are in evaluation mode."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return _fused(linear, bn)


def _fused(layer: Any, bn: Any, transpose: bool = False) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused = copy.deepcopy(layer)
    stats = (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *stats, transpose)
    return fused


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters need no particular values. RuntimeError for what is no Module or has no `device`."""
    from fusegrad.nn.module import Module

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    return module_cls(*args, **kwargs)
