"""Classes of nodes that users look at: ``type(t.grad_fn).__name__`` is ``MulBackward0``."""

from __future__ import annotations

from .node import Node, short_name

_DRESSES: dict[tuple[type, str], type] = {}


def dress(node: Node) -> Node:
    """Give ``node``, which users are about to see, a class called by its name, ``MulBackward0``: a subclass of its own
    that adds nothing. Nodes that nobody looks at need none."""
    name = short_name(node)
    if type(node).__name__ != name:
        kind = getattr(type(node), "undressed", type(node))
        made = _DRESSES.get((kind, name))
        if made is None:
            made = type(name, (kind,), {"__slots__": (), "__module__": "builtins", "undressed": kind})
            _DRESSES[kind, name] = made
        node.__class__ = made
    return node
