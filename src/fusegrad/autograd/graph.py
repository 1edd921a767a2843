"""Tools on the dynamic graph: saved tensor hooks, the graphs that are alive, the lines that made them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tensor import Tensor, storage_of, wrap
from .handles import RemovableHandle
from .lines import trace_lines
from .modes import STATE, slow_paths
from .multi_hook import register_multi_grad_hook
from .mutation import allow_mutation_on_saved_tensors
from .node import AccumulateGrad, GradientEdge, accumulate_node
from .node import Node as _Node

if TYPE_CHECKING:
    from .live import LiveGraph, LiveReport, live

__all__ = [
    "GradientEdge",
    "LiveGraph",
    "LiveReport",
    "Node",
    "RemovableHandle",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "disk_offload",
    "get_gradient_edge",
    "increment_version",
    "live",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "trace_lines",
]


class _AnyNode(type):
    """Nodes of every kind, the stand-ins of leaves among them, are instances of ``graph.Node``."""

    def __instancecheck__(cls, x: Any) -> bool:
        from .function import Context  # above this module

        return isinstance(x, (_Node, AccumulateGrad, Context))

    def __subclasscheck__(cls, c: type) -> bool:
        return c is cls or issubclass(c, (_Node, AccumulateGrad))


class Node(metaclass=_AnyNode):
    """A node of the dynamic graph, for ``isinstance``; nobody makes one by hand."""


def __getattr__(name: str) -> Any:
    """What looks for graphs that are alive arrives when first used."""
    if name in ("LiveGraph", "LiveReport", "live"):
        from . import live as found

        for known in ("LiveGraph", "LiveReport", "live"):
            globals()[known] = getattr(found, known)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class saved_tensors_hooks(contextlib.ContextDecorator):
    """Inside, tensors saved for backward go through ``pack`` when saved and ``unpack`` when read."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.hooks = (pack_hook, unpack_hook)

    def __enter__(self) -> None:
        if _refused():
            raise RuntimeError(_refused()[-1])
        STATE.packers = STATE.packers + (self.hooks,)
        slow_paths(1)

    def __exit__(self, *exc: Any) -> None:
        STATE.packers = STATE.packers[:-1]
        slow_paths(-1)


def _refused() -> list[str]:
    """Messages of the ``disable_saved_tensors_hooks`` that this thread is in."""
    return STATE.__dict__.setdefault("hooks_refused", [])


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """Inside, entering ``saved_tensors_hooks`` raises RuntimeError with the given message."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        if STATE.packers:
            raise RuntimeError(self.message)
        _refused().append(self.message)

    def __exit__(self, *exc: Any) -> None:
        _refused().pop()


class save_on_cpu(saved_tensors_hooks):
    """There is only the CPU: kept for code written for several devices."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda t: t, lambda t: t)


class disk_offload(saved_tensors_hooks):
    """Keep saved tensors in files of ``folder`` (default: a temporary one) until backward reads them."""

    def __init__(self, folder: str | None = None) -> None:
        import tempfile  # only needed here

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


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that the gradient of ``tensor`` arrives by. RuntimeError if it requires no gradient."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    node = tensor.grad_fn
    return GradientEdge(accumulate_node(tensor), 0) if node is None else GradientEdge(node, tensor.output_nr)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a change of the memory of a tensor (or of several) that was made behind the back of the engine."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        if not t.is_inference():  # which count no changes
            storage_of(t).version += 1
