"""The passes by name, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.bind import bind_sizes
from ..ir.control import is_control
from ..ir.graph import Graph
from ..ir.verify import verify
from .decompose import decompose
from .scans import merge_scans
from .simplify import simplify

__all__ = ["AFTER", "BEFORE", "run_passes"]

Pass = Callable[[Graph], Graph]

# on the joint graph, before the partition
BEFORE: list[tuple[str, Pass]] = [
    ("simplify", simplify),
    ("decompose", decompose),
    ("simplify decomposed", simplify),
    ("merge scans", merge_scans),
]
# on each of forward and backward
AFTER: list[tuple[str, Pass]] = [
    ("simplify part", simplify),
    ("bind sizes", bind_sizes),
]


def inner_graphs(graph: Graph) -> Graph:
    """The graphs that nodes hold, made ready for code generation as well. New nodes: nested graphs never change."""
    if not any(is_control(node.op) for node in graph.nodes):
        return graph
    new, _ = graph.copy()
    for node in new.nodes:
        for key, value in node.attrs.items():
            if isinstance(value, Graph):
                node.attrs[key] = run_passes(value, [*BEFORE, *AFTER])
    return new


AFTER.append(("inner graphs", inner_graphs))


def run_passes(graph: Graph, passes: list[tuple[str, Pass]], check: bool = False) -> Graph:
    """The graph after ``passes``. ``check``: verify after each, naming the pass that broke it."""
    for name, transform in passes:
        graph = transform(graph)
        if check:
            verify(graph, name)
    return graph
