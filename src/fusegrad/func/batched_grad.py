"""``autograd.grad(is_grads_batched=True)``: many cotangents in one backward pass."""

from __future__ import annotations

from typing import Any

from ..autograd.engine import as_tuple, check_inputs, check_roots, run_grad
from ..op import TABLE
from .batch import BatchHandler


def batched_grad(
    outputs: Any, inputs: Any, grad_outputs: Any, create_graph: bool, allow_unused: bool | None, materialize: bool
) -> tuple:
    """Gradients for each cotangent along dimension 0 of ``grad_outputs`` (None: the same for all), stacked."""
    roots, wrt = as_tuple(outputs), as_tuple(inputs)
    cots = as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(roots)
    check_roots(roots)
    check_inputs(wrt)
    given = [c for c in cots if c is not None]
    if not given:
        raise RuntimeError("is_grads_batched=True needs grad_outputs with a batch dimension in front")
    for c, y in zip(cots, roots, strict=True):
        if c is not None and tuple(c.shape[1:]) != tuple(y.shape):
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The "
                "sizes of the remaining dimensions are expected to match the shape of corresponding output, but "
                "a mismatch was "
                f"detected: grad_output[0] has a shape of {c.shape} and output[0] has a shape of {y.shape}. If "
                f"you only want "
                "some tensors in `grad_output` to be considered batched, consider using vmap."
            )
    size = given[0].shape[0]
    if any(c.shape[0] != size for c in given):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{[c.shape[0] for c in given]} for the mapped dimension"
        )
    if size == 0:
        return tuple(TABLE["zeros"]((0, *t.shape), dtype=t.dtype) for t in wrt)
    h = BatchHandler(size, "same")
    with h.running():
        inside = tuple(None if c is None else h.enter(c, 0) for c in cots)
        found = run_grad(roots, wrt, inside, True, create_graph, allow_unused, materialize)
        with h.below():
            return tuple(None if g is None else h.front(*h.parts(g)) for g in found)
