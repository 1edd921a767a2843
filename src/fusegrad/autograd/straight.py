"""Backward passes over one node alone, between a result and plain leaves: what a training step of compiled code is.

The node offers ``straight``: its gradients as arrays that nobody else holds. Nothing here runs the engine, sets a mode
or wraps a cotangent; whatever is not plain (hooks, views, inner nodes, other layouts, modes) is left to the engine.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ..tensor import Tensor, storage_of, wrap
from .modes import RUNNING, SLOW, STATE, set_grad

__all__ = ["ACCUMULATING", "straight_backward", "straight_gradients"]

ACCUMULATING = threading.RLock()  # held while gradients are added to leaves

_ones: dict[Any, np.ndarray] = {}  # the cotangent of a scalar, by dtype


def straight_backward(root: Any, cotangent: Any, retain: bool | None) -> bool:
    """Accumulate the gradients of ``root`` into the leaves; whether it could be done this way."""
    if not isinstance(root, Tensor):
        return False
    node = root._node
    if node is None or node.straight is None or not _plain(root, node):
        return False
    edges = node.edges
    for e in edges:
        if not isinstance(e, Tensor) or e._extra is not None or e._node is not None or e._view is not None:
            return False
        if not e._rg or e._data is None or not e._data.flags.c_contiguous:
            return False
    start = _cotangent(root, cotangent)
    found = None if start is None or len(set(map(id, edges))) != len(edges) else node.straight(root._nr, start)
    if found is None:
        return False
    if not all(map(_fits, found, edges)):  # nothing was changed yet: the engine does it again
        return False
    if not retain:
        node.free()
    with ACCUMULATING:
        for leaf, d in zip(edges, found, strict=True):
            if d is None:
                continue
            if d.base is not None:
                d = d.copy()
            if leaf._grad is None:
                leaf._grad = wrap(d)
            else:
                _add(leaf._grad, d)
    return True


def straight_gradients(root: Tensor, wrt: tuple, cotangent: Any, retain: bool | None) -> tuple | None:
    """The gradients of ``root`` for leaves; None if it could not be done this way."""
    node = root._node
    if node is None or node.straight is None or not _plain(root, node):
        return None
    edges = node.edges
    places = dict(zip(map(id, edges), range(len(edges)), strict=True))
    if len(places) != len(edges) or not wrt:
        return None
    positions = []
    for t in wrt:
        i = places.get(id(t))
        if i is None or not isinstance(t, Tensor) or t._node is not None or t._view is not None or not t._rg:
            return None
        if t._extra is not None:
            return None
        positions.append(i)
    if len(set(positions)) != len(edges) and not all([isinstance(e, Tensor) for e in edges]):
        return None  # another way may lead to the same leaf
    start = _cotangent(root, cotangent)
    try:
        found = None if start is None else node.straight(root._nr, start)
    except RuntimeError:
        return None  # the engine knows whether it matters to the leaves that were asked for
    if found is None:
        return None
    for i, t in zip(positions, wrt, strict=True):
        d, of = found[i], t._data
        if d is None or d.shape != of.shape or d.dtype is not of.dtype:
            return None
    found = node.laid_out(found, [start if k == root._nr else None for k in range(node.n_out)])
    if not retain:
        node.free()
    if len(set(positions)) != len(positions):  # asked for twice: the results are one tensor
        made = [None if d is None else wrap(d) for d in found]
        return tuple([made[i] for i in positions])
    return tuple([wrap(found[i]) for i in positions])


def _plain(root: Tensor, node: Any) -> bool:
    return root._view is None and node.hooks is None and not RUNNING and not SLOW[0] and STATE.run is None


def _cotangent(root: Tensor, given: Any) -> np.ndarray | None:
    """The array of a given cotangent that needs no conversion; ones for a scalar; else None."""
    of = root._data
    if of is None:
        return None
    if given is None:
        if of.ndim:
            return None
        one = _ones.get(of.dtype)
        if one is None:
            one = _ones[of.dtype] = np.ones((), of.dtype)
        return one.copy()
    if not isinstance(given, Tensor) or given._data is None or given._view is not None:
        return None
    d = given._data
    return d if d.shape == of.shape and d.dtype is of.dtype else None


def _fits(d: Any, leaf: Tensor) -> bool:
    """Whether a gradient (or None) is in the form of its leaf."""
    if d is None:
        return True
    of = leaf._data
    return of is not None and d.shape == of.shape and d.dtype is of.dtype


def _add(have: Tensor, d: np.ndarray) -> None:
    """``have += d`` without a graph."""
    data = have._data
    if data is not None and not have._rg and have._node is None and have._view is None and have._extra is None:
        if data.shape == d.shape and data.dtype is d.dtype and type(have) is Tensor:
            np.add(data, d, data)
            storage_of(have).version += 1
            return
    before = STATE.grad
    set_grad(False)
    try:
        have.add_(wrap(d))
    finally:
        set_grad(before)
