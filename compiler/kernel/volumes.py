"""Convolutions of volumes, written out as convolutions of images.

What a filter sees of one plane of the result are as many planes as the filter is deep: they become channels, and the
planes of the result samples.  So each plane is copied as often as filters meet it, which is little beside the products
of a plane.  The derivatives are those of the same convolution: of what was copied, and of the filter.
"""

from __future__ import annotations

from typing import Any

from fusegrad.meta import Meta
from fusegrad.op import TABLE

from ..ir.graph import Graph, Node, Value
from .written_out import write_out

__all__ = ["expand_volumes"]

DEEP = 9  # taps along the depth


def expand_volumes(graph: Graph) -> Graph:
    """The graph with such convolutions written out; the same graph if there are none."""
    return write_out(graph, _rule_of)


def _rule_of(node: Node) -> Any:
    rule = _RULES.get(node.op.name)
    if rule is None or len(node.attrs["stride"]) != 3 or node.attrs["groups"] != 1:
        return None
    if not all(isinstance(a, Value) and not a.meta.weak for a in node.args):
        return None
    metas = [*(a.meta for a in node.args), node.outputs[0].meta]
    dtype = metas[-1].dtype
    if dtype.short not in ("f32", "f64") or any(m.dtype is not dtype for m in metas):
        return None
    weight = metas[2] if node.op.name == "_conv_weight" else metas[1]
    sizes = [*weight.shape, *(s for m in metas if m is not weight for s in m.shape[1:])]
    if not all(type(s) is int and s > 0 for s in sizes) or weight.shape[2] > DEEP:
        return None
    if {*weight.shape[2:]} == {1} and {*node.attrs["stride"]} == {1} and {*node.attrs["padding"]} == {0}:
        return None  # products at every position: a kernel as it is
    return lambda new, node, args: rule(_Put(new, node), *args)


class _Put:
    """Appends the nodes that take one node's place."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.out = graph, node, node.outputs[0].meta
        a = node.attrs
        self.step, self.low, self.gap = a["stride"][0], a["padding"][0], a["dilation"][0]
        self.along = {k: tuple(a[k][1:]) for k in ("stride", "padding", "dilation")} | {"groups": 1}

    def __call__(self, name: str, args: tuple, shape: tuple, **attrs: Any) -> Value:
        return self.graph.append(TABLE[name], args, attrs, (Meta(shape, self.out.dtype),), self.node.loc).outputs[0]

    def view(self, x: Value, *shape: Any) -> Value:
        return self("view", (x,), shape, size=shape)

    def turned(self, x: Value) -> Value:
        """[n, a, b, ...] as [n, b, a, ...]."""
        n, a, b, *rest = x.meta.shape
        return self("transpose", (x,), (n, b, a, *rest), dim0=1, dim1=2)

    def slice(self, x: Value, start: int, count: int, step: int = 1) -> Value:
        n, c, _, *rest = x.meta.shape
        attrs = {"dim": 2, "start": start, "stop": start + (count - 1) * step + 1, "step": step}
        return self("slice", (x,), (n, c, count, *rest), **attrs)

    def seen(self, x: Value, planes: int, taps: int) -> Value:
        """x[n, c, d, h, w] -> [n * planes, c * taps, h, w]: the planes that each plane of the result is made of."""
        n, c, d, h, w = x.meta.shape
        if self.low:
            pad = (0, 0, 0, 0, self.low, self.low)
            x = self("constant_pad", (x,), (n, c, d + 2 * self.low, h, w), pad=pad, value=0)
        parts = [self.turned(self.slice(x, k * self.gap, planes, self.step)) for k in range(taps)]
        whole = self("stack", (parts,), (n, planes, c, taps, h, w), dim=3)
        return self.view(whole, n * planes, c * taps, h, w)

    def images(self, g: Value) -> Value:
        """g[n, o, d, h, w] -> [n * d, o, h, w]."""
        n, o, d, h, w = g.meta.shape
        return self.view(self("clone", (self.turned(g),), (n, d, o, h, w)), n * d, o, h, w)

    def filters(self, weight: Value) -> Value:
        o, c, d, h, w = weight.meta.shape
        return self.view(weight, o, c * d, h, w)


def _forward(put: _Put, x: Value, weight: Value) -> Value:
    n, o, d, h, w = put.out.shape
    y = put("_conv", (put.seen(x, d, weight.meta.shape[2]), put.filters(weight)), (n * d, o, h, w), **put.along)
    return put("clone", (put.turned(put.view(y, n, d, o, h, w)),), put.out.shape)  # in memory as the node's result


def _input(put: _Put, g: Value, weight: Value) -> Value:
    """Each plane is the sum of what its copies get."""
    (n, c, d, h, w), taps, planes = put.out.shape, weight.meta.shape[2], g.meta.shape[2]
    size = (n * planes, c * taps, h, w)
    copies = put("_conv_input", (put.images(g), put.filters(weight)), size, size=(h, w), **put.along)
    copies = put.view(copies, n, planes, c, taps, h, w)
    whole = max(d + 2 * put.low, (planes - 1) * put.step + (taps - 1) * put.gap + 1)
    total: Any = None
    for k in range(taps):
        part = put.turned(put("select", (copies,), (n, planes, c, h, w), dim=3, index=k))
        start, shape = k * put.gap, (n, c, whole, h, w)
        attrs = {"dim": 2, "start": start, "stop": start + (planes - 1) * put.step + 1, "step": put.step}
        part = put("slice_backward", (part,), shape, size=shape, **attrs)
        total = part if total is None else put("add", (total, part), shape)
    return put("clone", (put.slice(total, put.low, d),), put.out.shape)


def _weight(put: _Put, g: Value, x: Value) -> Value:
    o, c, taps, h, w = put.out.shape
    seen = put.seen(x, g.meta.shape[2], taps)
    found = put("_conv_weight", (put.images(g), seen), (o, c * taps, h, w), taps=(h, w), **put.along)
    return put.view(found, o, c, taps, h, w)


_RULES = {"_conv": _forward, "_conv_input": _input, "_conv_weight": _weight}
