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
from ..tensor import Tensor, wrap
from .fitting import added, as_tensors, fit, materialized
from .node import Node


def run_on_arrays(engine: Any) -> None:
    """Run all pending nodes of a ``Backward``."""
    heap, pending, grads = engine.heap, engine.pending, engine.grads
    ndarray, retain = np.ndarray, engine.retain
    while heap:
        seq = -heappop(heap)
        node = pending.pop(seq)
        gs = grads.pop(seq)
        op = node.op
        if node.hooks is not None:
            engine.visit(node, as_tensors(gs))
            continue
        out = None
        if op is not None and op.on_arrays is not None and type(gs[0]) is ndarray:
            out = op.on_arrays(node, gs[0])
        if out is None:
            _by_tensors(engine, node, as_tensors(gs))
        else:
            _pass_on(engine, node, out)
        if not retain:
            if op is None:
                node.free()
            elif op.frees == 1 or op.frees and node.keeps():
                node.saved = node.versions = node.out = None


def _by_tensors(engine: Any, node: Node, gs: list) -> None:
    """Run one node on Tensors."""
    if node.op is None:
        out = node.apply(gs)
    else:
        out = node.op.backward(node, gs if len(gs) == 1 else materialized(node, gs))
    for e, nr, g in zip(node.edges, node.nrs, out, strict=False):
        if e is not None and g is not None:
            engine.push(e, nr, fit(g, e, nr))


def _pass_on(engine: Any, node: Node, out: tuple) -> None:
    """Add the gradients that ``on_arrays`` made (see ``Op.given_as``)."""
    how, shape, kind = node.op.given_as, node.shape, node.dtype
    exact, grads = how == "inputs", engine.grads
    i = -1
    for g in out:
        i += 1
        if g is None:
            continue
        e = node.edges[i]
        if how == "any":
            shape, kind = g.shape, FROM_NUMPY[g.dtype]
        if type(e) is Node and e.op.n_out == 1:
            if not exact and (e.shape != shape or e.dtype is not kind):
                engine.push(e, 0, fit(wrap(g), e, 0))
                continue
            seq = e.seq
            have = grads.get(seq)
            if have is None:
                grads[seq] = [g]
                engine.pending[seq] = e
                heappush(engine.heap, -seq)
            else:
                have[0] = added(have[0], g)
        elif exact:
            engine.push(e, node.nrs[i], g)
        elif type(e) is Tensor or isinstance(e, Tensor):
            d = e._data
            if d is None or d.shape != shape or d.dtype is not kind.np:
                g = fit(wrap(g), e, 0)
            engine.push(e, 0, g)
        else:
            engine.push(e, node.nrs[i], fit(wrap(g), e, node.nrs[i]))
