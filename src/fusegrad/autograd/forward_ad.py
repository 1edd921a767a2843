"""Forward mode with dual numbers.

with fusegrad.autograd.forward_ad.dual_level():
    x = make_dual(primal, tangent)
    y, dy = unpack_dual(f(x))
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from ..handler import _active
from ..tensor import Tensor, refresh
from .modes import STATE
from .node import CustomNode


class UnpackedDualTensor(NamedTuple):
    """A value and its tangent (None: it has none)."""

    primal: Tensor
    tangent: Tensor | None


class _MakeDual(CustomNode):
    """Passes gradients of a dual tensor on to what it was made of."""

    __slots__ = ()

    def apply(self, grads: list) -> Any:
        return grads


class _Level(threading.local):
    handler: Any = None
    before: tuple = ()


_level = _Level()


def enter_dual_level() -> int:
    """Begin a forward-mode level; returns its number. RuntimeError inside of another one."""
    if _level.handler is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    from ..func.dual import DualHandler

    h = DualHandler()
    h.dual_level = True  # not a function transform: Functions of the old form may run
    _level.before = _active.stack
    _active.stack = _active.stack + (h,)
    _level.handler = h
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: its dual tensors are dead."""
    h = _level.handler
    if h is None:
        raise RuntimeError("Trying to exit a forward AD level but no level was entered")
    _active.stack, _level.handler = _level.before, None
    h.alive = False
    h.ended()


class dual_level:
    """``with dual_level():`` a level in which dual tensors live."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A dual tensor with the value and the given tangent (same shape). RuntimeError outside of a level."""
    h = _level.handler
    if h is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    from ..func.forward import check_dual

    for x, what in ((tensor, "tensor"), (tangent, "tangent")):
        if not isinstance(x, Tensor):
            raise TypeError(f"make_dual(): argument '{what}' must be Tensor, not {type(x).__name__}")
    check_dual(tensor, tangent)
    primal, old = h.parts(tensor)
    if old is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is "
            "not supported."
        )
    if h.parts(tangent)[1] is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not supported."
        )
    dual = h.wrap(primal, h.parts(tangent)[0])
    if tensor.requires_grad and STATE.grad:  # gradients taken inside the level are duals themselves
        target = tensor if tensor._node is None else tensor._node  # (of a leaf made inside, not its value)
        dual._node = _MakeDual("ViewBackward0", (target,), (tensor._nr,), [(tuple(primal.shape), primal.dtype)])
        dual._rg = True
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a dual tensor; (tensor, None) for any other."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    if tensor._view is not None:
        refresh(tensor)
    h = _level.handler
    if h is None or not h.mine(tensor):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*h.parts(tensor))


__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
