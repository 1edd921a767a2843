"""Hooks on several tensors together."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ..tensor import Tensor
from .engine import edge_of
from .handles import RemovableHandle
from .modes import STATE


class _Run:
    """What one backward pass has brought so far."""

    def __init__(self, expected: int, count: int) -> None:
        self.expected, self.arrived = expected, 0
        self.grads: list[Tensor | None] = [None] * count


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """Call ``fn`` once in each backward pass that reaches one of ``tensors``.

    ``mode="all"``: with the list of their gradients, when the last one is known (None where the pass does not reach).
    ``mode="any"``: with the first gradient that is known. Returns a handle that removes the hook. ValueError for
    another mode; RuntimeError for a tensor that requires no gradient.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    edges = [edge_of(t) for t in tensors]
    runs: weakref.WeakKeyDictionary[Any, _Run] = weakref.WeakKeyDictionary()
    lock = threading.Lock()

    def on_one(i: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            run = STATE.run
            with lock:
                first = run not in runs
                if first:
                    runs[run] = _Run(sum(run.reaches(edges)) if mode == "all" else 0, len(edges))
                state = runs[run]
                state.grads[i] = grad
                state.arrived += 1
                last = state.arrived == state.expected
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and last:
                runs.pop(run)
                fn(state.grads)

        return hook

    handles = [t.register_hook(on_one(i)) for i, t in enumerate(tensors)]
    return _Handles(handles)


class _Handles(RemovableHandle):
    """One handle for several hooks."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        super().__init__({})
        self.handles = handles

    def remove(self) -> None:
        for h in self.handles:
            h.remove()
