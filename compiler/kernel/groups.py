"""Convolutions in groups, written out.

Where every channel has a filter of its own (depthwise; also a filter of one signal), there is no sum over channels: a
result is a sum over the taps of shifted slices, and each element of the weight's gradient is one reduction. Both are
loops like any others, fused with what is around them. Few groups of several channels become a convolution for each,
joined (see ``convolve``). Everything else stays a call of the eager operator, which copies columns.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from fusegrad.meta import Meta
from fusegrad.op import TABLE

from ..ir.graph import Graph, Node, Value
from .written_out import write_out

__all__ = ["expand_groups"]

TAPS = 64
GROUPS = 16  # that become convolutions of their own


def expand_groups(graph: Graph) -> Graph:
    """The graph with such convolutions written out; the same graph if there are none."""
    return write_out(graph, _rule_of)


def _rule_of(node: Node) -> Any:
    rule = _rule(node)
    return None if rule is None else lambda new, node, args: rule(_Put(new, node), *args)


def _rule(node: Node) -> Any:
    """How to write the node out, or None."""
    if node.op.name not in _DEPTHWISE or not all(isinstance(a, Value) for a in node.args):
        return None
    metas = [*(a.meta for a in node.args), node.outputs[0].meta]
    dtype = metas[-1].dtype
    if dtype.short not in ("f32", "f64") or any(m.dtype is not dtype or m.weak for m in metas):
        return None
    # all sizes but the number of samples are known
    weight = metas[2] if node.op.name == "_conv_weight" else metas[1]
    images = [m.shape for m in metas if m is not weight]
    a = node.attrs
    sizes = [*weight.shape, *(s for shape in images for s in shape[1:])]
    if not all(type(s) is int and s > 0 for s in sizes) or len(weight.shape) > 4:
        return None
    taps, groups = weight.shape[2:], a["groups"]
    if all(shape[1] == groups for shape in images) and weight.shape[1] == 1:
        low = [d * (k - 1) - p for k, d, p in zip(taps, a["dilation"], a["padding"], strict=True)]
        fits = node.op.name != "_conv_input" or min(low) >= 0
        return _DEPTHWISE[node.op.name] if fits and math.prod(taps) <= TAPS else None
    small = max(a["stride"]) <= 2 and taps[-1] <= 7 and min(weight.shape[0] // groups, weight.shape[1]) > 1
    return _by_groups if 1 < groups <= GROUPS and small else None


class _Put:
    """Appends the nodes that take one node's place."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node, self.dtype = graph, node, node.outputs[0].meta.dtype
        a = node.attrs
        self.stride, self.padding, self.dilation = a["stride"], a["padding"], a["dilation"]

    def __call__(self, name: str, args: tuple, shape: tuple, **attrs: Any) -> Value:
        return self.graph.append(TABLE[name], args, attrs, (Meta(shape, self.dtype),), self.node.loc).outputs[0]

    def slice(self, x: Value, dim: int, start: int, count: int, step: int = 1) -> Value:
        shape = list(x.meta.shape)
        shape[dim] = count
        attrs = {"dim": dim, "start": start, "stop": start + (count - 1) * step + 1, "step": step}
        return self("slice", (x,), tuple(shape), **attrs)

    def padded(self, x: Value) -> Value:
        if not any(self.padding):
            return x
        pad = tuple(p for amount in reversed(self.padding) for p in (amount, amount))
        shape = (*x.meta.shape[:2], *(s + 2 * p for s, p in zip(x.meta.shape[2:], self.padding, strict=True)))
        return self("constant_pad", (x,), shape, pad=pad, value=0)

    def seen(self, x: Value, grid: tuple, taps: tuple, stride: tuple) -> list[Value]:
        """What a grid of filters sees at each tap."""
        found = []
        for tap in itertools.product(*map(range, taps)):
            part = x
            for d, (k, n, step, gap) in enumerate(zip(tap, grid, stride, self.dilation, strict=True), 2):
                part = self.slice(part, d, k * gap, n, step)
            found.append(part)
        return found

    def filtered(self, parts: list[Value], weight: Value, shape: tuple) -> Value:
        """Sum over the taps of the part times its weight, pair by pair."""
        channels, taps = weight.meta.shape[0], math.prod(weight.meta.shape[2:])
        flat = self("view", (weight,), (channels, taps), size=(channels, taps))
        terms = []
        for k, part in enumerate(parts):
            one = self.slice(flat, 1, k, 1)
            size = (channels, *(1,) * (len(shape) - 2))
            terms.append(self("mul", (part, self("view", (one,), size, size=size)), shape))
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [self("add", pair, shape) for pair in pairs] + ([terms[-1]] if len(terms) % 2 else [])
        return terms[0]


def _forward(put: _Put, x: Value, weight: Value) -> Value:
    shape = put.node.outputs[0].meta.shape
    return put.filtered(put.seen(put.padded(x), shape[2:], weight.meta.shape[2:], put.stride), weight, shape)


def _input(put: _Put, g: Value, weight: Value) -> Value:
    """A convolution of the cotangent, its elements ``stride`` apart among zeros, with the filter turned around."""
    shape, taps = put.node.outputs[0].meta.shape, weight.meta.shape[2:]
    spread = g
    for d, (k, gap, step, p) in enumerate(zip(taps, put.dilation, put.stride, put.padding, strict=True), 2):
        size = list(spread.meta.shape)
        count, size[d] = size[d], shape[d] + gap * (k - 1)
        start = gap * (k - 1) - p
        attrs = {"dim": d, "start": start, "stop": start + (count - 1) * step + 1, "step": step}
        spread = put("slice_backward", (spread,), tuple(size), size=tuple(size), **attrs)
    parts = put.seen(spread, shape[2:], taps, (1,) * len(taps))
    return put.filtered(parts[::-1], weight, shape)


def _weight(put: _Put, g: Value, x: Value) -> Value:
    shape = put.node.outputs[0].meta.shape
    dims = (0, *range(2, len(shape)))
    sums = []
    for part in put.seen(put.padded(x), g.meta.shape[2:], shape[2:], put.stride):
        term = put("mul", (g, part), g.meta.shape)
        sums.append(put("sum", (term,), (shape[0],), dim=dims, keepdim=False, dtype=None))
    flat = put("stack", (sums,), (shape[0], len(sums)), dim=1)
    return put("view", (flat,), shape, size=shape)


def _by_groups(put: _Put, a: Value, b: Value) -> Value:
    name, groups, out = put.node.op.name, put.node.attrs["groups"], put.node.outputs[0].meta.shape
    dims = (1, 1) if name == "_conv_weight" else (1, 0)
    joined = 0 if name == "_conv_weight" else 1
    shape = (*out[:joined], out[joined] // groups, *out[joined + 1 :])
    pieces = []
    for k in range(groups):
        args = []
        for value, d in zip((a, b), dims, strict=True):
            n = value.meta.shape[d] // groups
            args.append(put.slice(value, d, k * n, n))
        pieces.append(put(name, tuple(args), shape, **{**put.node.attrs, "groups": 1}))
    return put("cat", (pieces,), out, dim=joined)


_DEPTHWISE = {"_conv": _forward, "_conv_input": _input, "_conv_weight": _weight}
