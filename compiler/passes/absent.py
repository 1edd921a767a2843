"""The backward of a region for a call in which some results get no gradient.

Such a result must add nothing, not even zero: zero times the infinite slope of an unused logarithm is NaN. A backward
graph is linear in its cotangents, so what depends on absent ones alone is absent, and a sum keeps its other part.
"""

from __future__ import annotations

from typing import Any

from fusegrad.op import TABLE

from ..ir.control import is_control, reads
from ..ir.graph import Graph, Node, Value
from ..ir.infer import infer
from .rewrite import Rewriter, prune

__all__ = ["without_cotangents"]


class _Without(Rewriter):
    """``absent``: cotangents that are not given; ``present``: those that are."""

    def __init__(self, old: Graph, absent: set[Value], present: set[Value]) -> None:
        super().__init__(old)
        self.flowing: set[Value] = absent | present  # values that depend on a cotangent
        self.absent = set(absent)

    def node(self, node: Node) -> None:
        if is_control(node.op):
            self._control(node)
            return
        flows = [v for v in node.inputs() if v in self.flowing]
        self.flowing.update(node.outputs if flows else ())
        gone = [v for v in flows if v in self.absent]
        sum_ = node.op.name in ("add", "sub")
        fixed = sum_ and any(map(_is_zero, node.args))  # a gradient that is zero by a rule stays
        if gone and len(gone) == len(flows) and not fixed:
            self.absent.update(node.outputs)
            return
        if gone and sum_ and self._part(node):
            return
        for v in gone:
            self.env[v] = self._zeros(v)
        super().node(node)

    def _control(self, node: Node) -> None:
        """Each result of a choice or a loop depends on some of the arguments."""
        for v in node.inputs():
            if v in self.absent:
                self.env[v] = self._zeros(v)
        for out, row in zip(node.outputs, reads(node), strict=True):
            flows = row & self.flowing
            self.flowing.update([out] if flows else ())
            self.absent.update([out] if flows and flows <= self.absent else ())
        super().node(node)

    def _part(self, node: Node) -> bool:
        """A sum whose one side is absent is its other side (negated for the second of a difference)."""
        a, b = node.args
        out = node.outputs[0]
        kept = b if a in self.absent else a
        if not isinstance(kept, Value) or kept in self.absent or kept.meta.dtype is not out.meta.dtype:
            return False
        value = self.env[kept]
        if kept is b and node.op.name == "sub":
            value = self.emit(TABLE["neg"], (value,), {}, (kept.meta,))[0]
        if kept.meta.shape != out.meta.shape:
            return False
        self.env[out] = value
        return True

    def _zeros(self, v: Value) -> Any:
        attrs = {"size": tuple(v.meta.shape), "value": 0, "dtype": v.meta.dtype}
        return self.emit(TABLE["full"], (), attrs, infer(TABLE["full"], (), attrs))[0]


def _is_zero(v: Any) -> bool:
    """Whether an operand is a constant zero, as derivatives of steps are."""
    if isinstance(v, Value):
        return v.node is not None and v.node.op.name in ("full", "full_like") and v.node.attrs.get("value") == 0
    return type(v) in (int, float) and v == 0


def without_cotangents(backward: Graph, cotangents: list[Value], given: frozenset[int]) -> tuple[Graph, list[bool]]:
    """(graph with the same inputs, whether each gradient is there).

    ``cotangents``: the inputs of ``backward`` that stand for gradients of results; ``given``: numbers of those that are
    there. Absent gradients are left out of the new graph's outputs.
    """
    absent = {v for k, v in enumerate(cotangents) if k not in given}
    pass_ = _Without(backward, absent, {v for k, v in enumerate(cotangents) if k in given})
    outputs = backward.outputs
    old = list(outputs)
    for node in backward.nodes:
        pass_.loc = node.loc
        pass_.node(node)
    new = pass_.new
    there = [not (isinstance(v, Value) and v in pass_.absent) for v in old]
    new.outputs = [pass_.get(v) for v, keep in zip(old, there, strict=True) if keep]
    new.draws, new.size_params = backward.draws, list(backward.size_params)
    return prune(new), there
