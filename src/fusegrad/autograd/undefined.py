"""What has no derivative: results through which a backward pass is refused, arguments that may not ask for one."""

from __future__ import annotations

from typing import Any, NoReturn

from .modes import STATE
from .node import CustomNode

NOT_IMPLEMENTED = "torch::autograd::NotImplemented"


class Undefined(CustomNode):
    """The node under such a result."""

    def __init__(self, error: Exception, out: Any, inputs: list[Any], name: str = NOT_IMPLEMENTED) -> None:
        edges = tuple((x._node or x) if x._rg else None for x in inputs)
        super().__init__(name, edges, tuple(x._nr for x in inputs), [(tuple(out.shape), out.dtype)])
        self.error = error

    def apply(self, grads: list) -> Any:
        raise self.error


def undefined(out: Any, error: Exception, *inputs: Any, name: str = NOT_IMPLEMENTED) -> Any:
    """``out``, from which no gradient can go to ``inputs``: where one of them requires a gradient, ``out`` does, and
    ``error`` is raised by a backward pass that comes to it.
    """
    given = [x for x in inputs if x is not None]
    if STATE.grad and not STATE.inference and out.dtype.is_floating_point and any(x.requires_grad for x in given):
        out._node, out._nr, out._rg = Undefined(error, out, given, name), 0, True
    return out


def underived(name: str, instead: str) -> NoReturn:
    """What the rule of an operator does that PyTorch has no derivative of: RuntimeError, saying what to do."""
    raise RuntimeError(f"derivative for aten::{name} is not implemented: {instead}")


def no_gradient(fn: str, **arguments: Any) -> None:
    """RuntimeError for an argument that requires a gradient though ``fn`` has none for it, as in PyTorch."""
    for name, t in arguments.items():
        if t is not None and t.requires_grad and STATE.grad:
            raise RuntimeError(
                f"The function '{fn}' is not differentiable with respect to argument '{name}'. This input cannot have "
                "requires_grad True: pass a detach() of it."
            )
