"""The graph, its text form, checks, reference interpreter and builder."""

from . import control, ops  # noqa: F401  (their operators join the table)
from .graph import Graph, Node, Value

__all__ = ["Graph", "Node", "Value"]
