"""``nn.parallel``: one device, so that a module stands for its copies."""

from __future__ import annotations

from typing import Any

from fusegrad.nn.module import Module

__all__ = ["DataParallel", "data_parallel"]


class DataParallel(Module):
    """Calls `module`: where PyTorch finds no GPU it does so, too. Parameters have the prefix ``module.``."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim = module, dim
        self.device_ids: list[int] = []

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """`module(*inputs, **kwargs)`."""
        return self.module(*inputs, **kwargs)


def data_parallel(module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None) -> Any:
    """`module(*inputs)`."""
    return module(*inputs) if isinstance(inputs, tuple) else module(inputs)
