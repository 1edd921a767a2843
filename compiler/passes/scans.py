"""Scans over the same slices from the same start become one.

The derivative of a scan records the scan again, with the carries of every step among its results: that is the scan of
the forward pass with more results, and need not run twice.
"""

from __future__ import annotations

from typing import Any

from ..ir.bind import bind_sizes
from ..ir.graph import Graph, Node, Value, map_values
from ..ir.infer import infer
from .simplify import simplify

__all__ = ["merge_scans"]


def merge_scans(graph: Graph) -> Graph:
    """The graph with such pairs merged; the old graph stays as it is."""
    scans = [node for node in graph.nodes if node.op.name == "control.scan"]
    if len(scans) < 2:
        return graph
    new, env = graph.copy()
    table: dict[tuple, Node] = {}
    replaced: dict[Value, Value] = {}
    nodes: list[Node] = []
    known: set[Value] = set(new.inputs)  # what is defined before the scan that others may join
    before: dict[Node, set[Value]] = {}
    for node in new.nodes:
        node.args = map_values(node.args, lambda v: replaced.get(v, v))
        if node.op.name == "control.scan":
            key = (tuple(map(id, node.args[0])), tuple(map(id, node.args[1])), node.attrs["reverse"])
            first = table.get(key)
            if first is not None and all(v in before[first] for v in node.args[2]) and _join(first, node, replaced):
                continue
            table.setdefault(key, node)
            before[node] = set(known)
        nodes.append(node)
        known.update(node.outputs)
    new.nodes = nodes
    new.outputs = [map_values(out, lambda v: replaced.get(v, v)) for out in new.outputs]
    new.mutations = [(dst, map_values(src, lambda v: replaced.get(v, v))) for dst, src in new.mutations]
    return new


def _join(first: Node, other: Node, replaced: dict[Value, Value]) -> bool:
    """Give ``first`` the results of ``other`` as well, if both carry the same."""
    count, width = len(first.args[0]), len(first.args[1])
    merged = _merged(first.attrs["body"], other.attrs["body"], first, other, count + width)
    body, extra = merged
    mine = len(first.attrs["body"].outputs)
    if any(a is not b for a, b in zip(body.outputs[:count], body.outputs[mine : mine + count], strict=True)):
        return False
    rows = [*range(mine), *range(mine + count, len(body.outputs))]
    place: dict[Value, int] = {}
    kept: list[Any] = []
    where = []
    for i in rows:
        v = body.outputs[i]
        if i >= mine and v in place:
            where.append(place[v])
            continue
        if i >= count:
            place.setdefault(v, len(kept))
        where.append(len(kept))
        kept.append(v)
    body.outputs = kept
    args = (*first.args[:2], extra)
    attrs = {**first.attrs, "body": bind_sizes(body)}
    made = Node(first.op, args, attrs, infer(first.op, args, attrs), first.loc)
    old = first.outputs
    first.args, first.attrs = args, attrs
    first.outputs = [*old, *made.outputs[len(old) :]]
    for i, v in enumerate(first.outputs):
        v.node, v.index = first, i
    results = [first.outputs[i] for i in [*range(count), *where[mine:]]]
    replaced.update(zip(other.outputs, results, strict=True))
    return True


def _merged(a: Graph, b: Graph, first: Node, other: Node, own: int) -> tuple[Graph, list[Value]]:
    """A graph with the outputs of both bodies, equal values being one; and what it takes besides carry and slices."""
    both, env = a.copy()
    extra = list(first.args[2])
    inputs = dict(zip(extra, both.inputs[own:], strict=True))
    names: dict[Value, Value] = dict(zip(b.inputs[:own], both.inputs[:own], strict=True))
    for value, given in zip(b.inputs[own:], other.args[2], strict=True):
        if given not in inputs:
            inputs[given] = both.add_input(value.meta, value.name)
            extra.append(given)
        names[value] = inputs[given]
    for node in b.nodes:
        metas = tuple(v.meta for v in node.outputs)
        made = both.append(node.op, map_values(node.args, names.__getitem__), node.attrs, metas, node.loc)
        names.update(zip(node.outputs, made.outputs, strict=True))
    both.outputs += [names[v] for v in b.outputs]
    return simplify(both), extra
