"""The graph, its text form, checks, reference interpreter and builder."""

from . import control  # noqa: F401  (its operators join the table)
from .graph import Graph, Node, Value

__all__ = ["Graph", "Node", "Value"]
