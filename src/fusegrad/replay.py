"""The history of a view whose base was changed in place: the view is taken again from what the base is now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .autograd.modes import STATE, set_grad
from .autograd.node import CustomNode
from .tensor import Tensor

__all__ = ["replayed"]


class Emptied(CustomNode):
    """Where the gradient of a view ends whose base was detached and changed since: its own history is lost too."""

    __slots__ = ()

    def apply(self, grads: list) -> tuple:
        return ()


def replayed(view: Tensor, base: Tensor, chain: Sequence[tuple[Any, dict, int | None]]) -> None:
    """Give a view the node that its operators (operator, attributes, number of the output) have from ``base``."""
    if not base._rg:
        view._node, view._nr = Emptied("AsStridedBackward0", (), (), [(tuple(view.shape), view.dtype)]), 0
        return
    before = STATE.grad
    set_grad(True)
    try:
        t = base
        for op, attrs, nr in chain:
            t = op.replay(t, attrs)
            t = t if nr is None else t[nr]
    finally:
        set_grad(before)
    if t._rg and t is not base:
        if view._node is not None and view._extra is not None and view._extra.retain:
            moved = view._node._hook_lists()["retain"].pop(view._nr, None)
            if moved is not None:
                t._node._hook_lists()["retain"][t._nr] = moved  # type: ignore[union-attr]
        view._node, view._nr, view._rg = t._node, t._nr, True
        if base._node is not None:  # PyTorch's name of a view whose base was changed
            t._node.composite = "AsStridedBackward0", ((base._node, base._nr),)  # type: ignore[union-attr]
