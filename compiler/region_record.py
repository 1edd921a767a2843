"""Recording the derivative of a region: gradients by the engine; inputs, constants and lines of the graph they make."""

from __future__ import annotations

from typing import Any

from fusegrad.autograd.modes import no_grad
from fusegrad.handler import active
from fusegrad.tensor import Tensor

from .ir.builder import GraphBuilder
from .ir.graph import Graph, Value


def engine_gradients(builder: GraphBuilder, results: list, leaves: list, cotangents: list) -> list[Any]:
    """The engine's gradients on graph tensors, recorded by ``builder``."""
    from fusegrad.autograd import grad

    before, builder.loc = builder.loc, None
    try:
        with active(builder), no_grad():
            return list(grad(results, leaves, cotangents, allow_unused=True, retain_graph=True))
    finally:
        builder.loc = before


def other_inputs(builder: GraphBuilder, known: list[Tensor]) -> list[Tensor]:
    """Inputs of the builder that are not in ``known``, in the order they were made."""
    seen = {id(t) for t in known}
    return [t for t in builder.tensors if id(t) not in seen]


def real_of(builder: GraphBuilder, t: Tensor) -> Tensor:
    """The real tensor that the builder lifted as input ``t``. ValueError: it is none."""
    source = t._g.cell.source
    for value, real in builder.constants:
        if value is source:
            return real
    raise ValueError(f"input {source.name} of the graph is neither an argument of the region nor a real tensor")


def plain_meta(t: Tensor) -> Any:
    """Shape and dtype of a graph tensor, as for a new contiguous one."""
    from fusegrad.meta import Meta

    return Meta(t._g.meta.shape, t._g.meta.dtype)


def reorder_inputs(graph: Graph, values: list[Value]) -> None:
    """Make ``values`` the graph's inputs, in that order."""
    graph.inputs = values
    for i, value in enumerate(values):
        value.index = i


def lines_of_derivatives(graph: Graph, forward_nodes: int) -> None:
    """Give the nodes of the backward the line of the forward value they read, or else of the gradient they go on from:
    close to the code they are the derivative of.
    """
    made = {v: node.loc for node in graph.nodes[:forward_nodes] for v in node.outputs}
    passed: dict[Value, Any] = {}
    for node in graph.nodes[forward_nodes:]:
        read = list(node.inputs())
        node.loc = next((made[v] for v in read if v in made), next((passed[v] for v in read if v in passed), node.loc))
        passed.update(dict.fromkeys(node.outputs, node.loc))
