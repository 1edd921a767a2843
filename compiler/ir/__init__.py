"""The graph, its text form, checks, reference interpreter and builder."""

from .graph import Graph, Node, Value

__all__ = ["Graph", "Node", "Value"]
