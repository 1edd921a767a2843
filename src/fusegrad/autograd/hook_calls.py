"""Calling the hooks that a backward pass meets, and checking what they return."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from .node import Node


def run_tensor_hooks(node: Node, gs: list) -> None:
    """Hooks of the tensors that the node made, then retain_grad."""
    for nr, hooks in list(node.hooks["tensor"].items()):
        if nr < len(gs) and gs[nr] is not None:
            gs[nr] = call_hooks(hooks, gs[nr])
    for nr, ref in list(node.hooks["retain"].items()):
        t = ref()
        if t is not None and nr < len(gs) and gs[nr] is not None:
            t._grad = gs[nr].clone() if t._grad is None else t._grad + gs[nr]


def call_node_hooks(hooks: dict, grads: list, *more: list) -> list:
    """Pass the gradients of a node through its hooks; what they return takes their place, None included.

    TypeError for a result that is no tuple of Tensors and None, RuntimeError for another number, size or dtype.
    """
    for fn in list(hooks.values()):
        r = fn(tuple(grads), *map(tuple, more))
        if r is None:
            continue
        name = getattr(fn, "__name__", repr(fn))
        if not isinstance(r, tuple):
            raise TypeError(f"expected tuple, but hook '{name}' returned '{type(r).__name__}'")
        if len(r) != len(grads):
            raise RuntimeError(
                f"hook '{name}' has returned an incorrect number of values (got {len(r)}, but expected {len(grads)})"
            )
        grads = [None if new is None else checked_change(name, g, new) for g, new in zip(grads, r, strict=True)]
    return grads


def checked_change(name: str, g: Tensor | None, new: Any) -> Tensor:
    """The gradient that a hook returned. TypeError unless it is a Tensor, RuntimeError for another size or dtype."""
    if not isinstance(new, Tensor):
        raise TypeError(f"expected hook '{name}' to return a Tensor or None, got {type(new).__name__}")
    if g is None:
        raise RuntimeError(f"can't replace a None gradient with a non-None value (hook '{name}')")
    if tuple(new.shape) != tuple(g.shape):
        raise RuntimeError(f"hook '{name}' has changed the size of value: {list(g.shape)} to {list(new.shape)}")
    if new.dtype is not g.dtype:
        raise RuntimeError(f"hook '{name}' has changed the type of value (was {g.dtype} got {new.dtype})")
    return new


def call_hooks(hooks: dict, g: Tensor) -> Tensor:
    """Pass a gradient through hooks in the order of their registration."""
    for fn in list(hooks.values()):
        r = fn(g)
        if r is not None:
            g = checked_change(getattr(fn, "__name__", repr(fn)), g, r)
    return g


def check_nan(node: Node, out: Any) -> None:
    """Anomaly mode: RuntimeError with the forward traceback when a gradient holds NaN."""
    for i, g in enumerate(out):
        if isinstance(g, Tensor) and g._data is not None and g._data.dtype.kind == "f" and np.isnan(g._data).any():
            where = ""
            if node.trace:
                import traceback

                where = "\nForward call that made the node:\n" + "".join(traceback.format_list(node.trace))
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.{where}")


def call_node(node: Any, grads: tuple) -> tuple:
    """What ``node(*grads)`` gives. TypeError for another number of them, and for what is no Tensor."""
    n = node.n_out if node.op is None else node.op.n_out
    n = n if n > 0 else len(node.shape)
    if len(grads) != n:
        raise TypeError(f"{node.name()}: expected {n} arguments, got {len(grads)} instead")
    for i, g in enumerate(grads):
        if g is not None and not hasattr(g, "_node"):
            raise TypeError(f"argument {i} is not a Variable")
    if all(g is None for g in grads) and node.op is not None:
        return (None,) * len(node.edges)
    return tuple(node.apply(list(grads)))
