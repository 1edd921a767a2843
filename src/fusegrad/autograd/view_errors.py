"""The errors for changes of views that the history of their base can't follow."""

from __future__ import annotations

from typing import Any

from .node import Severed, forward_name

_WHY = {
    "no_grad": "Such a change could mean either of two gradients, so it is forbidden: make the view with grad mode "
    "enabled, or change it under no_grad too.",
    "inference": "Such a change could mean either of two gradients, so it is forbidden: make the view and change it in "
    "the same mode, or change a clone().",
    "multi": "This view is the output of a function that returns multiple views. Such functions do not allow the "
    "output views to be modified inplace: use the out-of-place operation, or change the base before it is divided.",
    "function": "This view was created inside a custom Function (or because an input was returned as-is) and the "
    "autograd logic to handle view+inplace would override the custom backward: change a clone() of the output.",
}


def refusal(rec: Any, view: Any, indirect: bool) -> RuntimeError:
    """The error for a change of ``view``, of which ``rec`` is the View (``indirect``: of its base or another view)."""
    done = "its base or another view of its base has been modified" if indirect else "is being modified"
    node = view._node
    if node is not None and type(node) is not Severed:
        text = f"Output {view._nr} of {forward_name(node)} is a view and {done} inplace. "
    elif rec.made == "inference":
        text = f"A view was created in inference mode and {done} inplace in normal mode. "
    else:
        text = f"A view was created in no_grad mode and {done} inplace with grad mode enabled. "
    return RuntimeError(text + _WHY[rec.made or "no_grad"])
