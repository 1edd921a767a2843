"""``swap_tensors``: two Tensor objects exchange all that they are."""

from __future__ import annotations

import gc
import weakref

from fusegrad.autograd.node import Node
from fusegrad.tensor import Tensor

_SLOTS = ("_data", "_g", "_rg", "_node", "_nr", "_st", "_view", "_grad", "_extra")


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange class, contents, history, ``.grad`` and attributes of two tensors; their identities stay.

    RuntimeError for one with weak references to it, and for a leaf in a graph that is alive: its gradient would go
    to the other.
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if not isinstance(t, Tensor):
            raise TypeError(f"swap_tensors(): argument '{name}' must be Tensor, not {type(t).__name__}")
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
        if t._rg and t._node is None and _in_graph(t):
            raise RuntimeError(
                f"Cannot swap {name}, a leaf of a graph that is alive: drop what was computed from it first, so that "
                "no gradient goes to the other"
            )
    kept = [[getattr(t, s) for s in _SLOTS] for t in (t1, t2)]
    attributes = dict(t1.__dict__), dict(t2.__dict__)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    for t, values, new in ((t1, kept[1], attributes[1]), (t2, kept[0], attributes[0])):
        for slot, value in zip(_SLOTS, values, strict=True):
            setattr(t, slot, value)
        t.__dict__.clear()
        t.__dict__.update(new)


def _in_graph(t: Tensor) -> bool:
    """Whether a node has ``t`` among its edges, and is not only waiting for the garbage collector."""
    return _referred(t) and (gc.collect(), _referred(t))[1]


def _referred(t: Tensor) -> bool:
    for r in gc.get_referrers(t):
        if type(r) is tuple and any(isinstance(n, Node) and n.edges is r for n in gc.get_referrers(r)):
            return True
    return False
