"""GraphBuilder: the handler that turns operator calls on graph tensors into nodes (API skeleton; being filled)."""

from __future__ import annotations

from typing import Any

from .graph import Graph, Value


class GraphBuilder:
    """Records a graph while library code runs on graph tensors.

    Attributes: ``graph``; ``constants``: list of (input Value, real Tensor) lifted because library code met a real tensor.
    """

    def __init__(self, name: str = "graph", sizes: Any = None) -> None:
        self.graph = Graph(name, sizes)
        self.constants: list[tuple[Value, Any]] = []
        self.loc: tuple[str, int] | None = None  # set by capture before each user line; None: found by walking the frames

    def new_input(self, meta: Any, requires_grad: bool = False, name: str | None = None) -> Any:
        """A graph tensor for a new graph input. A Meta with ``weak`` stands for a Python number given at run time."""
        raise NotImplementedError

    def lift(self, tensor: Any) -> Any:
        """The graph tensor that stands for a real tensor (same tensor: same graph tensor). Requires-grad and Parameter-ness carry over."""
        raise NotImplementedError

    def value_of(self, tensor: Any) -> Value:
        """The current graph value of a graph tensor (replays stale views)."""
        raise NotImplementedError

    def is_mine(self, tensor: Any) -> bool:
        raise NotImplementedError

    def mutated(self) -> list[tuple[Any, Value]]:
        """Graph tensors of inputs and constants whose contents were changed in place, with their new values, in order of first write."""
        raise NotImplementedError

    def dispatch(self, op: Any, args: tuple, attrs: dict) -> Any:
        raise NotImplementedError

    def write(self, dst: Any, src: Any) -> None:
        raise NotImplementedError
