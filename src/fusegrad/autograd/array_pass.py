"""The usual backward pass: gradients go from node to node as arrays.

A pass that records no graph of the gradients, has no targets among the nodes and meets none of the modes of ``SLOW``
need not make a Tensor of every gradient. Operators whose rules have an array form (``backgen.arrays_of``) are called on
arrays; for all others, for custom nodes and for hooks the gradient becomes a Tensor for the one call.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..dtypes import FROM_NUMPY
from ..op import TABLE
from ..tensor import Tensor, wrap
from .fitting import added, as_tensors, fit, materialized, summed_dims
from .node import CAST, Node


def run_on_arrays(engine: Any) -> None:
    """Run all pending nodes of a ``Backward``. (One loop, since a call costs as much as adding two small arrays.)"""
    heap, pending, grads, leaves = engine.heap, engine.pending, engine.grads, engine.leaves
    array, plain, retain = np.ndarray, Node, engine.retain
    while heap:
        seq = -heappop(heap)
        node = pending.pop(seq)
        gs = grads.pop(seq)
        op = node.op
        if node.hooks is not None:
            engine.visit(node, as_tensors(gs))
            continue
        out = None
        if op is None:
            if node.on_arrays is not None and all([g is None or type(g) is array for g in gs]):
                out = node.on_arrays(gs)
        elif op.on_arrays is not None and type(gs[0]) is array:
            if len(gs) == 1 or all([g is None for g in gs[1:]]):
                out = op.on_arrays(node, gs[0])
        if out is None:
            _by_tensors(engine, node, as_tensors(gs))
        else:
            how, shape, kind = "inputs" if op is None else op.given_as, node.shape, node.dtype
            i = -1
            for e in node.edges:
                i += 1
                if e is None or (g := out[i]) is None:
                    continue
                if how == "any":
                    shape, kind = g.shape, FROM_NUMPY[g.dtype]
                if type(e) is plain and e.op.n_out == 1:
                    if how != "inputs" and (e.shape != shape or e.dtype is not kind):
                        g = fitted(g, e, 0, seq)
                    seq = e.seq
                    have = grads.get(seq)
                    if have is None:
                        grads[seq] = [g]
                        pending[seq] = e
                        heappush(heap, -seq)
                    else:
                        have[0] = added(have[0], g)
                elif isinstance(e, Tensor):
                    d = e._data
                    if CAST or how != "inputs" and (d is None or d.shape != shape or d.dtype is not kind.np):
                        g = fitted(g, e, 0, node.seq)
                    have = leaves.pop(id(e), None)
                    leaves[id(e)] = (e, g if have is None else added(have[1], g))
                else:
                    engine.push(e, node.nrs[i], fitted(g, e, node.nrs[i], node.seq))
        if not retain:
            if op is None:
                node.free()
            elif op.frees == 1 or op.frees and node.keeps():
                node.saved = node.versions = node.out = None


_sums: dict[Any, tuple] = {}  # by the shapes of a gradient and of what it is for: how it is summed


def fitted(g: np.ndarray, target: Any, nr: int, seq: int) -> Any:
    """``fit`` for an array; the result is an array again where it has one."""
    if isinstance(target, Node):
        shape, kind = target.output_spec(nr)
    else:
        d = target._data
        shape, kind = (None, None) if d is None or CAST else (d.shape, FROM_NUMPY[d.dtype])
    if kind is not None and g.dtype is kind.np:
        if g.shape == shape:
            return g
        try:
            how = _sums.get((g.shape, shape))
            if how is None:
                if len(_sums) > 1024:
                    _sums.clear()
                how = _sums[g.shape, shape] = summed_dims(g.shape, shape)
            dims, lead = how
            if dims:
                g = TABLE["sum"].kernel(g, dims, True)
                if not g.flags.c_contiguous:
                    g = g.copy()
            return g.reshape(shape) if lead else g
        except (ValueError, TypeError, RuntimeError, FloatingPointError, RuntimeWarning):
            pass  # the operators say what is wrong
    t = fit(wrap(g), target, nr, seq)
    return t if t._data is None else t._data


def _by_tensors(engine: Any, node: Node, gs: list) -> None:
    """Run one node on Tensors."""
    if node.op is None:
        out = node.apply(gs)
    else:
        out = node.op.backward(node, gs if len(gs) == 1 else materialized(node, gs))
    for e, nr, g in zip(node.edges, node.nrs, out, strict=False):
        if e is not None and g is not None:
            engine.push(e, nr, fit(g, e, nr, node.seq))
