"""``Variable._execution_engine.queue_callback``: functions that a backward pass calls when it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .modes import STATE


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


Tensor._execution_engine = ExecutionEngine()  # type: ignore[attr-defined]
