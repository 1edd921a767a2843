"""Operators that may raise when they run: they are run even if nobody reads their results, as eager code runs them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .control import is_control, nested
from .graph import Node, Value

__all__ = ["may_fail", "unread"]


def may_fail(node: Any) -> bool:
    """Whether eager code may raise here, whatever the shapes: an index or class out of range, a division of integers by
    zero, a singular matrix, a number that is no probability. In doubt true.
    """
    op = node.op
    if is_control(op):
        return any(may_fail(inner) for graph in nested(node) for inner in graph.nodes)
    if op.name.endswith(("_backward", "_grad")) or op.name == "view_update":
        return False  # eager code never gets to them with bad data
    if op.name in _OF_INTEGERS:
        return not node.outputs[0].meta.dtype.is_floating_point
    if op.name in ("require", "_bce", "_histc"):
        return True
    if op.name in _EXTREMA:  # of nothing
        return any(type(n) is not int for v in node.inputs() for n in v.meta.shape)
    if op.kind == "random":
        return any(True for _ in node.inputs())
    if op.kind == "extern" and op.module.rpartition(".")[2] in _MATRICES:
        return True
    return op.kind in ("gather", "composite", "extern") and any(v.meta.dtype.category == 1 for v in node.inputs())


_OF_INTEGERS = ("floor_divide", "floor_quotient", "remainder", "fmod", "trunc_divide")
_EXTREMA = ("amax", "amin", "argmax", "argmin", "max_all", "min_all", "max_dim", "min_dim")
_MATRICES = ("linalg", "linalg_more", "decompositions", "lu")


def unread(nodes: list[Node], results: Iterable[Value]) -> list[Value]:
    """One value of each node that may fail and that ``results`` do not depend on: as further results they keep it."""
    live, found = set(results), []
    for node in reversed(nodes):
        if not any(v in live for v in node.outputs):
            if not may_fail(node):
                continue
            found.append(node.outputs[0])
        live.update(node.inputs())
    return found[::-1]
