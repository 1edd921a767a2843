"""Derivatives that are zero but stay in the graph.

For some linear operators (average pooling, reflection padding, nll_loss...) PyTorch's gradient of the input is itself
a differentiable function of the input, with derivative zero, so that ``grad(..., create_graph=True)`` gives a result
that requires grad. ``rooted(input)`` gives a function made of operators the same property; it keeps no data. An
operator of the table has it by ``rooted = True`` in its entry.
"""

from __future__ import annotations

from typing import Any

from ..op import TABLE
from ..tensor import Tensor, alias
from .modes import STATE
from .node import CustomNode


class Rooted(CustomNode):
    """The identity; a gradient that passes it while a graph is being created depends on the input, with slope zero."""

    __slots__ = ()

    def apply(self, grads: list) -> Any:
        g = grads[0]
        if g is None or not STATE.grad or g._rg:
            return (g,)
        return (_tied(alias(g), self.edges, self.nrs, Slopeless),)


class Slopeless(CustomNode):
    """A value that depends on its input in name only."""

    __slots__ = ()

    def apply(self, grads: list) -> Any:
        shape, kind = self.outputs[0]
        return (TABLE["zeros"](shape, dtype=kind),)


class Drawn(CustomNode):
    """Numbers drawn with parameters: those get zeros."""

    __slots__ = ("inputs",)

    def apply(self, grads: list) -> Any:
        return tuple(TABLE["zeros"](shape, dtype=kind) for shape, kind in self.inputs)


def drawn(out: Tensor, name: str, *inputs: Any) -> Tensor:
    """``out``, random numbers made with ``inputs`` outside of the graph, in the graph: their gradients are zero."""
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    if STATE.grad and not STATE.inference and any(x.requires_grad for x in tensors) and not any(map(_inside, tensors)):
        edges = tuple((x._node or x) if x._rg else None for x in tensors)
        node = Drawn(name, edges, tuple(x._nr for x in tensors), [(tuple(out.shape), out.dtype)])
        node.inputs = [(tuple(x.shape), x.dtype) for x in tensors]
        out._node, out._nr, out._rg = node, 0, True
    return out


def _tied(t: Tensor, edges: tuple, nrs: tuple, kind: type) -> Tensor:
    t._node = kind("IdentityBackward", edges, nrs, [(tuple(t.shape), t.dtype)])
    t._nr, t._rg = 0, True
    return t


def rooted(t: Any) -> Any:
    """``t`` itself where no gradient is wanted, else the same value behind a ``Rooted`` node.

    Batched and dual tensors have their history inside: another tensor of theirs would have lost it.
    """
    if not STATE.grad or not t.requires_grad or _inside(t):
        return t
    return _tied(alias(t), ((t._node or t),), (t._nr,), Rooted)


def _inside(t: Tensor) -> bool:
    """Whether ``t`` is batched or dual. (Graph tensors, of level 0, have a history like real ones.)"""
    return t._data is None and t._g.handler.level > 0


def tied_to(node: Any, grads: Any) -> tuple:
    """What an operator marked ``rooted`` gives while a graph of the gradients is made: each depends on its input."""
    return tuple(
        g if g is None or e is None or g._rg or _inside(g) else _tied(alias(g), (e,), (nr,), Slopeless)
        for g, e, nr in zip(grads, node.edges, node.nrs, strict=True)
    )
