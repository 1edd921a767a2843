"""The passes by name, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.bind import bind_sizes
from ..ir.graph import Graph
from ..ir.verify import verify
from .decompose import decompose
from .simplify import simplify

__all__ = ["AFTER", "BEFORE", "run_passes"]

Pass = Callable[[Graph], Graph]

# on the joint graph, before the partition
BEFORE: list[tuple[str, Pass]] = [
    ("simplify", simplify),
    ("decompose", decompose),
    ("simplify decomposed", simplify),
]
# on each of forward and backward
AFTER: list[tuple[str, Pass]] = [
    ("simplify part", simplify),
    ("bind sizes", bind_sizes),
]


def run_passes(graph: Graph, passes: list[tuple[str, Pass]], check: bool = False) -> Graph:
    """The graph after ``passes``. ``check``: verify after each, naming the pass that broke it."""
    for name, transform in passes:
        graph = transform(graph)
        if check:
            verify(graph, name)
    return graph
