"""Graphs with some of their nodes written out in other operators."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.graph import Graph, Node, Value, map_values

__all__ = ["write_out"]

Rule = Callable[[Graph, Node, tuple], Value]  # (new graph, node, its arguments there) -> its result there


def write_out(graph: Graph, rule_of: Callable[[Node], Rule | None]) -> Graph:
    """The graph with the nodes replaced that have a rule (each has one result); the same graph if none has."""
    rules = [rule_of(node) for node in graph.nodes]
    if not any(rules):
        return graph
    new = Graph(graph.name, graph.sizes)
    env: dict[Value, Value] = {v: new.add_input(v.meta, v.name) for v in graph.inputs}
    for node, rule in zip(graph.nodes, rules, strict=True):
        args = map_values(node.args, env.__getitem__)
        if rule is not None:
            env[node.outputs[0]] = rule(new, node, args)
        else:
            made = new.append(node.op, args, node.attrs, tuple(v.meta for v in node.outputs), node.loc)
            env.update(zip(node.outputs, made.outputs, strict=True))
    new.outputs = [map_values(out, env.__getitem__) for out in graph.outputs]
    new.mutations = [(env[dst], map_values(src, env.__getitem__)) for dst, src in graph.mutations]
    new.draws, new.size_params = graph.draws, list(graph.size_params)
    return new
