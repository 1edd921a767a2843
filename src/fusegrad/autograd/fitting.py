"""Gradients in the form of what they belong to: broadcasting and promotion undone, sums of several, zeros for none."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import TABLE
from ..tensor import Tensor, wrap
from .node import CAST, Node


def sum_to(g: Tensor, shape: tuple) -> Tensor:
    """Sum ``g`` over what broadcasting had added, down to ``shape``."""
    if g._data is not None and len(g.shape) < len(shape):  # of a leaf that got dimensions after it was read
        g = g.reshape((1,) * (len(shape) - len(g.shape)) + tuple(g.shape))
    dims, lead = summed_dims(g.shape, shape)
    if dims:
        g = g.sum(dim=dims, keepdim=True)
    return g.reshape(shape) if lead else g


def summed_dims(given: Any, shape: tuple) -> tuple[tuple[int, ...], int]:
    """The dimensions of ``given`` that broadcasting had added to ``shape``, and how many of them lead. RuntimeError if
    it can't have come from ``shape``: that of a leaf that was changed after it was read.
    """
    lead = len(given) - len(shape)
    sizes = () if lead < 0 else zip(shape, given[lead:], strict=True)
    if lead < 0 or any([s != 1 and s != n and type(s) is type(n) is int for s, n in sizes]):
        raise RuntimeError(f"a gradient has the shape {list(given)}, what it belongs to {list(shape)} by now")
    dims = list(range(lead))
    for i, s in enumerate(shape):
        if is_one(s) and not is_one(given[lead + i]):
            dims.append(lead + i)
    return tuple(dims), lead


def is_one(s: Any) -> bool:
    """Whether a size is 1."""
    return (s if isinstance(s, int) else s.hint) == 1  # a symbol that was broadcast as 1 is guarded to be 1


def fit(g: Tensor, target: Any, nr: int, seq: int) -> Tensor:
    """A gradient that node ``seq`` gives, in the shape and dtype of what it belongs to: broadcasting and promotion
    undone."""
    if isinstance(target, Node):
        shape, kind = target.output_spec(nr)
    else:
        d, of = g._data, target._data
        if not CAST and d is not None and of is not None and d.shape == of.shape and d.dtype is of.dtype:
            return g
        shape, kind = target.shape, target.dtype
        if CAST:
            from .data_storage import leaf_dtype

            kind = leaf_dtype(target, seq)
    d = g._data
    if d is not None:
        if d.shape != shape:
            g = sum_to(g, shape)
        if d.dtype is not kind.np:
            g = g.to(kind)
        return g
    if len(g.shape) != len(shape) or tuple(g.shape) != tuple(shape):  # ranks first: no guard on sizes for those
        g = sum_to(g, tuple(shape))
    return g if g.dtype is kind else g.to(kind)


def materialized(node: Node, gs: list) -> list:
    """Zeros in place of missing cotangents of floating point outputs (unless the rules take None: ``partial``)."""
    if node.op.fields.get("partial"):
        return gs
    zeros = TABLE["zeros"]
    out = []
    for i, g in enumerate(gs):
        if g is None:
            shape, kind = node.output_spec(i)
            g = zeros(shape, dtype=kind) if kind.is_floating_point else None
        out.append(g)
    return out


def as_tensor(g: Any) -> Any:
    """A gradient that a pass holds as an array, as a Tensor; others as they are."""
    return wrap(g) if type(g) is np.ndarray else g


def as_tensors(gs: list) -> list:
    """``as_tensor`` of each."""
    return [wrap(g) if type(g) is np.ndarray else g for g in gs]


def added(a: Any, b: Any) -> Any:
    """The sum of two gradients for one place, each a Tensor or an array."""
    if type(a) is np.ndarray and type(b) is np.ndarray:
        try:
            r = a + b
        except (FloatingPointError, RuntimeWarning):  # the dispatcher's operator goes on without it
            return as_tensor(a) + as_tensor(b)
        return r if type(r) is np.ndarray else np.asarray(r)
    return as_tensor(a) + as_tensor(b)
