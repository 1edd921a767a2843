"""Reverse-mode differentiation of the dynamic graph: ``backward``, ``grad``, ``Function``, modes, checks.

The modules ``modes``, ``node`` and ``saved`` lie below Tensor, the others above it; so that both can live here, the
public names are resolved when first used.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from .modes import enable_grad, inference_mode, no_grad, set_grad_enabled

_SUBMODULES = ("engine", "graph", "function", "check", "anomaly", "functional", "forward_ad")


def __getattr__(name: str) -> _Any:
    if name == "grad_mode":  # PyTorch's name
        return _importlib.import_module(f"{__name__}.modes")
    if name in _SUBMODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    api = _importlib.import_module(f"{__name__}.api")
    if name in api.__all__:
        found = globals()[name] = getattr(api, name)  # asked once
        return found
    from ..unsupported import message

    raise AttributeError(message("autograd", name))


__all__ = ["enable_grad", "inference_mode", "no_grad", "set_grad_enabled"]
