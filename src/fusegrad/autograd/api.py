"""Reverse-mode differentiation of the dynamic graph: ``backward``, ``grad``, ``Function``, modes, checks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..handler import in_transform
from ..tensor import Tensor
from . import engine, graph
from .anomaly import detect_anomaly, set_detect_anomaly
from .function import Function, once_differentiable
from .modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from .multithreading import is_multithreading_enabled, set_multithreading_enabled

if TYPE_CHECKING:
    from .check import gradcheck, gradgradcheck

Variable = Tensor


def _no_transform() -> None:
    """RuntimeError inside of a function transform, whose levels ``backward`` knows nothing of."""
    if in_transform():
        raise RuntimeError(
            "backward() called inside a function transform. This is not supported: use func.grad or func.vjp there, or "
            "call backward() outside of the transforms."
        )


def _deprecated(message: str) -> None:
    from ..errors import warn

    warn(message, FutureWarning)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of ``tensors`` into the leaves they depend on.

    ``grad_tensors``: cotangents of the same shapes; may be left out for scalars. RuntimeError for a non-scalar
    without one, a tensor that requires no grad, or a graph already freed.
    """
    _no_transform()
    if grad_variables is not None:
        _deprecated("grad_variables is the old name of grad_tensors")
        if grad_tensors is not None:
            raise RuntimeError("grad_tensors and grad_variables are one argument: give one of them")
        grad_tensors = grad_variables
    engine.run_backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple:
    """Gradients of ``outputs`` with respect to ``inputs``, a tuple; no ``.grad`` is touched."""
    if not only_inputs:
        _deprecated("only_inputs changes nothing any more; backward() accumulates into other leaves")
    if is_grads_batched:
        from ..func.batched_grad import batched_grad

        return batched_grad(outputs, inputs, grad_outputs, create_graph, allow_unused, materialize_grads)
    return engine.run_grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)


def _backward_method(
    self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Accumulate the gradients of this tensor into the leaves; ``gradient`` is needed unless it is a scalar."""
    while self._data is None and hasattr(self._g, "primal"):  # a dual tensor: leaves get ordinary gradients
        self = self._g.primal
    _no_transform()
    engine.run_backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs)


_backward_method.__name__ = _backward_method.__qualname__ = "backward"
Tensor.backward = _backward_method  # type: ignore[attr-defined]

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_multithreading_enabled",
    "no_grad",
    "once_differentiable",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]


def __getattr__(name: str) -> Any:
    if name in ("gradcheck", "gradgradcheck"):  # not part of every program
        from . import check

        return getattr(check, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
