"""What happens to gradients once they are known: ``retain_grad``, hooks of tensors, callbacks after a pass."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..handler import in_transform
from ..tensor import Tensor, extra_of
from .handles import add_hook
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


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf in ``.grad`` after backward."""
    if in_transform():
        raise RuntimeError(
            "Tensor.retain_grad() was called inside of a function that is being transformed (func.grad, vjp, jvp, "
            "vmap...). This is not supported: let the transform differentiate by the tensor, or call it outside."
        )
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    node = self.grad_fn
    if node is None:
        return
    extra_of(self).retain = True
    node._hook_lists()["retain"][self._nr] = weakref.ref(self)


def register_hook(self: Tensor, fn: Any) -> Any:
    """Call ``fn(grad)`` when the gradient of this tensor is known; it may return a replacement."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node = self.grad_fn
    if node is None:
        return add_hook(extra_of(self).hooks, fn)
    return add_hook(node._hook_lists()["tensor"].setdefault(self._nr, {}), fn)


def register_post_accumulate_grad_hook(self: Tensor, fn: Any) -> Any:
    """Call ``fn(leaf)`` after its gradient was accumulated."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not self.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(extra_of(self).post_hooks, fn)


Tensor.register_hook = register_hook  # type: ignore[attr-defined]
Tensor.retain_grad = retain_grad  # type: ignore[attr-defined]
Tensor.register_post_accumulate_grad_hook = register_post_accumulate_grad_hook  # type: ignore[attr-defined]
Tensor._execution_engine = ExecutionEngine()  # type: ignore[attr-defined]
