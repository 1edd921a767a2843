"""The frame of a graph-to-graph pass: walk the old graph in order, emit into a new one, map old values to new ones."""

from __future__ import annotations

from typing import Any

from fusegrad.meta import contiguous_strides
from fusegrad.op import TABLE
from fusegrad.size_values import same

from ..ir.graph import Graph, Node, Value, map_values
from ..ir.infer import infer

__all__ = ["Rewriter", "prune"]


class Rewriter:
    """Copies a graph node by node. A pass subclasses it and overrides ``node``."""

    def __init__(self, old: Graph) -> None:
        self.old = old
        self.new = Graph(old.name, old.sizes)
        self.env: dict[Value, Any] = {v: self.new.add_input(v.meta, v.name) for v in old.inputs}
        self.loc: tuple[str, int] | None = None

    def get(self, args: Any) -> Any:
        """An argument structure of the old graph in terms of the new one."""
        return map_values(args, self.env.__getitem__)

    def emit(self, op: Any, args: tuple, attrs: dict[str, Any], metas: tuple) -> list[Value]:
        """Append a node with known metas to the new graph and return its results."""
        return self.new.append(op, args, attrs, metas, self.loc).outputs

    def node(self, node: Node) -> None:
        """Translate one node. Must put every output of ``node`` that is still read into ``self.env``."""
        outs = self.emit(node.op, self.get(node.args), node.attrs, tuple(v.meta for v in node.outputs))
        self.env.update(zip(node.outputs, outs, strict=True))

    def run(self) -> Graph:
        for node in self.old.nodes:
            self.loc = node.loc
            self.node(node)
        new, old = self.new, self.old
        new.outputs = [self._laid_out(out, self.get(out)) for out in old.outputs]
        new.mutations = [(self.env[dst], self.get(src)) for dst, src in old.mutations]
        new.draws = old.draws
        new.size_params = list(old.size_params)
        return new

    def _laid_out(self, old: Any, new: Any) -> Any:
        """An output in the layout that the graph promised: a value that stands in its place may have another one."""
        if not isinstance(old, Value) or not isinstance(new, Value) or old.node is None:
            return new
        steps, shape = new.meta.strides, new.meta.shape
        if steps is None or old.meta.strides is not None or same(steps, contiguous_strides(shape)):
            return new
        clone, attrs = TABLE["clone"], {"memory_format": "contiguous"}
        return self.emit(clone, (new,), attrs, infer(clone, (new,), attrs))[0]


def prune(graph: Graph) -> Graph:
    """Drop nodes whose results nobody reads, in place.

    Draw numbers are attributes, so dropping a random node moves no other.
    """
    live = set(graph.results())
    kept = []
    for node in reversed(graph.nodes):
        outputs = node.outputs
        if outputs[0] in live if len(outputs) == 1 else not live.isdisjoint(outputs):
            live.update(node.inputs())
            kept.append(node)
    graph.nodes = kept[::-1]
    return graph
