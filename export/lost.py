"""What the derivative of a program does in Python, and a file can't hold: custom backwards, and hooks on tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fusegrad.compiler.region_history import spoiled

from fusegrad.autograd.function import FunctionNode
from fusegrad.errors import warn
from fusegrad.tensor import Tensor

__all__ = ["warn_of_lost"]


def warn_of_lost(results: Iterable[Any]) -> None:
    """A UserWarning for each kind of Python code that a backward pass from ``results`` would run."""
    functions: dict[str, None] = {}
    hooks = changed = False
    seen: set[int] = set()
    todo: list[Any] = [t.grad_fn or t for t in results if isinstance(t, Tensor) and t.requires_grad]
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Tensor):
            hooks = hooks or node._extra is not None and bool(node._extra.hooks)
            continue
        hooks = hooks or node.hooks is not None and any(node.hooks[k] for k in ("pre", "post", "tensor"))
        changed = changed or spoiled(node)
        if isinstance(node, FunctionNode):
            functions[node.cls.__name__] = None
        todo.extend(node.edges)
    for name in functions:
        warn(
            f"export: the backward of {name} (an autograd.Function) is not part of the program: in training, no "
            "gradient flows through its results",
            UserWarning,
        )
    if changed:
        warn(
            "export: forward changes a tensor in place that its backward needs: in Python that raises, the program "
            "computes the gradient",
            UserWarning,
        )
    if hooks:
        warn("export: hooks on tensors are not part of the program: in training, they are not called", UserWarning)
