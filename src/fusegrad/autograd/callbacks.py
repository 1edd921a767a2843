"""Functions that are called when gradients are stored: of one leaf, and of a whole pass (``queue_callback``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor, extra_of
from .modes import STATE
from .node import add_hook


class ExecutionEngine:
    """What programs ask of PyTorch's engine by this name."""

    def __get__(self, obj: Any, owner: type | None = None) -> ExecutionEngine:
        return self

    def queue_callback(self, callback: Callable[[], Any]) -> None:
        """Call ``callback`` when the pass that is running has stored its gradients. RuntimeError outside of a pass."""
        run = STATE.run
        if run is None:
            raise RuntimeError(
                "Final callbacks can only be installed during backward pass: call queue_callback in a hook, or in the "
                "backward of a Function."
            )
        if not callable(callback):
            raise TypeError(f"{type(callback).__name__!r} object is not callable: queue_callback() takes a function")
        if run.callbacks is None:
            run.callbacks = []
        run.callbacks.append(callback)


def call_all(run: Any) -> None:
    """The callbacks of a pass in order, with those that they queue."""
    i = 0
    while i < len(run.callbacks):
        run.callbacks[i]()
        i += 1


def register_post_accumulate_grad_hook(self: Tensor, fn: Any) -> Any:
    """Call ``fn(leaf)`` after its gradient was accumulated."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not self.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(extra_of(self).post_hooks, fn)


Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook  # type: ignore[attr-defined]
Tensor._execution_engine = ExecutionEngine()  # type: ignore[attr-defined]
