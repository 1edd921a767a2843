"""Tools on the dynamic graph: saved tensor hooks, the graphs that are alive, the lines that made them."""
from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor, wrap
from .lines import trace_lines
from .live import LiveGraph, LiveReport, live
from .modes import STATE, slow_paths
from .node import Node

__all__ = [
    "LiveGraph", "LiveReport", "Node", "disk_offload", "live", "save_on_cpu", "saved_tensors_hooks", "trace_lines",
]


class saved_tensors_hooks:
    """Inside, tensors saved for backward go through ``pack`` when saved and ``unpack`` when read."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        STATE.packers = STATE.packers + (self.hooks,)
        slow_paths(1)

    def __exit__(self, *exc: Any) -> None:
        STATE.packers = STATE.packers[:-1]
        slow_paths(-1)


class save_on_cpu(saved_tensors_hooks):
    """There is only the CPU: kept for code written for several devices."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda t: t, lambda t: t)


class disk_offload(saved_tensors_hooks):
    """Keep saved tensors in files of ``folder`` (default: a temporary one) until backward reads them."""

    def __init__(self, folder: str | None = None) -> None:
        self._own = tempfile.TemporaryDirectory() if folder is None else None
        self._folder = folder or self._own.name  # type: ignore[union-attr]
        self._count = 0
        super().__init__(self._pack, self._unpack)

    def _pack(self, t: Tensor) -> str:
        self._count += 1
        path = os.path.join(self._folder, f"saved-{os.getpid()}-{id(self)}-{self._count}.npy")
        np.save(path, t.detach().numpy(), allow_pickle=False)
        return path

    def _unpack(self, path: str) -> Tensor:
        return wrap(np.load(path, allow_pickle=False))
