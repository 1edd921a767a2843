"""``nn.utils.weight_norm``: the old form, by a hook that computes the weight before every call."""

from __future__ import annotations

from typing import Any

from fusegrad.errors import warn
from fusegrad.nn.module import Module
from fusegrad.nn.parameter import Parameter
from fusegrad.nn.utils.parametrizations import norm_except


class WeightNorm:
    """The hook: ``weight`` from ``weight_g`` (its length) and ``weight_v`` (its direction)."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name, self.dim = name, -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Any:
        """The weight of now."""
        v = getattr(module, self.name + "_v")
        return v * (getattr(module, self.name + "_g") / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into ``weight_g`` and ``weight_v``. RuntimeError if it is split already."""
    warn("nn.utils.weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm", FutureWarning)
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, WeightNorm) and hook.name == name:
            raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except(weight, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight one parameter again. ValueError if it was not split."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, WeightNorm) and hook.name == name:
            weight = hook.compute_weight(module)
            delattr(module, name)
            delattr(module, name + "_g")
            delattr(module, name + "_v")
            setattr(module, name, Parameter(weight.detach()))
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"weight_norm of '{name}' not found in {type(module).__name__}")
