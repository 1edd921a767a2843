"""What a call of an operator leaves, as plain values (result, layout, node, view), and kinds of arguments."""

from __future__ import annotations

import numpy as np

import fusegrad as fg
from fusegrad import families
from fusegrad.autograd.node import Node
from fusegrad.meta import Meta
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor

families.load_all()
OPS = [o for o in TABLE.values() if o.samples and o.kind not in ("create", "random") and not o.fields.get("draws")]


def flat(values) -> list:
    return [x for v in values for x in (flat(v) if isinstance(v, (list, tuple)) else [v])]


def put(value, make):
    """Arrays in nested arguments replaced by tensors."""
    if isinstance(value, np.ndarray):
        return make(value)
    return type(value)(put(v, make) for v in value) if type(value) in (list, tuple) else value


def name_of(x, known: list):
    """A text for a value that a node or a view keeps; tensors by their place among the arguments."""
    if isinstance(x, (Tensor, Node)):
        place = next((i for i, k in enumerate(known) if k is x), None)
        return type(x).__name__ if place is None else f"{('', 'node of ', 'base of ')[place % 3]}argument {place // 3}"
    if isinstance(x, Meta):
        return f"Meta {tuple(x.shape)} {x.dtype}"
    if isinstance(x, (list, tuple)):
        return type(x).__name__ + str([name_of(v, known) for v in x])
    if isinstance(x, dict):
        return str({k: name_of(v, known) for k, v in sorted(x.items())})
    return repr(x)


def describe(t: Tensor, known: list) -> dict:
    """Everything that can be seen of a result."""
    node, view = t._node, t._view
    out = {
        "values": t._data.tobytes(),
        "layout": (t._data.shape, t._data.strides, t._data.dtype),
        "flags": (t._rg, t._nr, t._g, t._grad, t._extra),
        "version": None if t._st is None else t._st.version,
    }
    if view is not None:
        chain = [(o.name, name_of(a, known), nr) for o, a, nr in view.chain]
        out["view"] = (name_of(view.base, known), chain, view.version, view.made, t._st is view.base._st)
    if node is not None:
        kept = None if node.out is None else [k and (k[0] is t._data, k[1] is t._st, k[2]) for k in node.out]
        # the version of what is not kept is never read
        versions = [v if s is not None else 0 for s, v in zip(node.saved, node.versions, strict=True)]
        out["node"] = [
            node.op and node.op.name,
            node.name(),
            node.nrs,
            versions,
            kept,
            node.shape,
            node.dtype,
            node.freed,
        ]
        out["node"] += [name_of(x, known) for x in (node.edges, node.saved, node.attrs)]
        out["node"] += [node.hooks, node.trace, node.metadata]
    return out


def leaf(a: np.ndarray) -> Tensor:
    t = fg.from_numpy(a.copy())
    return t.requires_grad_() if t.is_floating_point() else t


class Alternating:
    """Every second tensor requires a gradient, beginning with the first or the second."""

    def __init__(self, first: bool) -> None:
        self.now = first

    def __call__(self, a: np.ndarray) -> Tensor:
        self.now = not self.now
        return fg.from_numpy(a.copy()) if self.now else leaf(a)


def changed(a: np.ndarray) -> Tensor:
    """A result whose version is 1."""
    t = leaf(a)
    return t.clone().mul_(1) if t.is_floating_point() else t.add_(0) if a.dtype != bool else t


def stale_view(a: np.ndarray) -> Tensor:
    """A view whose base was changed in place since."""
    t = leaf(a)
    if not t.is_floating_point():
        return t
    base = t * 1
    view = base.view(base.shape)
    base.mul_(1)
    return view


def asked_later(a: np.ndarray) -> Tensor:
    """A view whose base was asked for a gradient after it was made."""
    base = fg.from_numpy(a.copy())
    view = base.view(base.shape)
    return view if base.is_floating_point() and base.requires_grad_() is base else base


def other_output(a: np.ndarray) -> Tensor:
    """The second result of an operator."""
    t = leaf(a)
    return fg.stack([t, t]).unbind(0)[1] if t.is_floating_point() else t


def single(a: np.ndarray) -> Tensor:
    return leaf(a.astype(np.float32) if a.dtype == np.float64 else a)


def parameter(a: np.ndarray) -> Tensor:
    t = fg.from_numpy(a.copy())
    return fg.nn.Parameter(t) if t.is_floating_point() else t


class Sub(Tensor):
    """A subclass: no fast path takes it."""


def subclass(a: np.ndarray) -> Tensor:
    return Sub(fg.from_numpy(a.copy()))


MAKERS = {
    "leaves": lambda: leaf, "plain": lambda: lambda a: fg.from_numpy(a.copy()), "float32": lambda: single,
    "first": lambda: Alternating(True), "second": lambda: Alternating(False), "parameters": lambda: parameter,
    "changed": lambda: changed, "stale views": lambda: stale_view,
    "asked later": lambda: asked_later, "other outputs": lambda: other_output,
    "subclass": lambda: subclass,
}  # fmt: skip
