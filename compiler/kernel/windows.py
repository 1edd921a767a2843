"""Pooling as loops: windows become slices of the input, elementwise operators on them, and joins.

A maximum or sum over windows is a chain over the positions inside the window; each position is a slice with the stride
as its step, which costs nothing.  The way back writes, for windows that lie side by side, one piece for each position
to its place in the result (see ``joins``).  Loads and stores of every second element are whole vectors in the backend.

What has a border, overlaps on the way back, or has too many positions stays a call of the eager operator.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from fusegrad.meta import Meta
from fusegrad.op import TABLE, Op, parse_signature
from fusegrad.size_values import same

from ..ir.graph import Graph, Node, Value
from .joins import JOIN
from .written_out import write_out

__all__ = ["expand_windows"]

POSITIONS = 9  # of a window


def _keep(b: Any, g: Any, flag: Any) -> Any:
    return b.where(flag, g, b.const(0, g.dtype))


def _plus_zero(b: Any, x: Any) -> Any:
    return b.add(x, b.const(0, x.dtype))  # a sum that begins with 0 has no -0


KEEP = Op(parse_signature("keep(input: T, flag: T)"), "pointwise", "none", kernel=None, scalar=_keep)  # type: ignore[arg-type]
PLUS_ZERO = Op(parse_signature("plus_zero(input: T)"), "pointwise", "none", kernel=None, scalar=_plus_zero)  # type: ignore[arg-type]


def _is_window(node: Node) -> bool:
    if node.op.name not in _RULES or not all(isinstance(a, Value) for a in node.args):
        return False
    x, a = node.args[0].meta, node.attrs
    if x.dtype.short not in ("f32", "f64") or any(v.meta.dtype is not x.dtype or v.meta.weak for v in node.args):
        return False
    given = [*a["window"], *a["stride"], *a["padding"], *a.get("dilation", ())]
    if not all(type(v) is int for v in given):
        return False
    if any(a["padding"]) or a.get("ceil_mode") or not 1 < math.prod(a["window"]) <= POSITIONS:
        return False
    if node.op.name == "_max_values":
        return True
    if node.op.name == "_window_sum":  # its result may be larger: windows that begin inside and end outside
        windows = zip(x.shape[2:], node.outputs[0].meta.shape[2:], a["window"], a["stride"], strict=True)
        return all(same(n, (size - k) // step + 1) for size, n, k, step in windows)
    # back: windows side by side that cover everything
    whole = node.outputs[0].meta.shape[2:]
    parts = node.args[0].meta.shape[2:]
    return (
        a["window"] == a["stride"]
        and all(d == 1 for d in a.get("dilation", ()))
        and all(
            type(s) is int and type(p) is int and p * k == s for s, p, k in zip(whole, parts, a["window"], strict=True)
        )
    )


def expand_windows(graph: Graph) -> Graph:
    """The graph with pooling written out; the same graph if there is none."""
    return write_out(graph, lambda node: _pooled if _is_window(node) else None)


def _pooled(new: Graph, node: Node, args: tuple) -> Value:
    return _RULES[node.op.name](_Put(new, node), args)


class _Put:
    """Appends the nodes that take one node's place."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self.graph, self.node = graph, node
        self.window, self.stride = node.attrs["window"], node.attrs["stride"]
        self.dilation = node.attrs.get("dilation", (1,) * len(self.window))

    def __call__(self, op: str | Op, *args: Value, dtype: Any = None, **attrs: Any) -> Value:
        entry = TABLE[op] if isinstance(op, str) else op
        meta = Meta(args[0].meta.shape, dtype or args[0].meta.dtype)
        return self.graph.append(entry, args, attrs, (meta,), self.node.loc).outputs[0]

    def slices(self, x: Value, out: tuple) -> list[Value]:
        """What the windows see at each of their positions."""
        found = []
        for position in itertools.product(*(range(k) for k in self.window)):
            part = x
            for d, (p, n, step, gap) in enumerate(zip(position, out, self.stride, self.dilation, strict=True), 2):
                shape = list(part.meta.shape)
                stop, shape[d] = p * gap + (n - 1) * step + 1, n
                attrs = {"dim": d, "start": p * gap, "stop": stop, "step": step}
                meta = Meta(tuple(shape), x.meta.dtype)
                part = self.graph.append(TABLE["slice"], (part,), attrs, (meta,), self.node.loc).outputs[0]
            found.append(part)
        return found

    def join(self, pieces: list[Value]) -> Value:
        """Pieces side by side, each window's in their places."""
        meta = Meta(self.node.outputs[0].meta.shape, pieces[0].meta.dtype)
        attrs = {"dim": 0, "stacked": False, "steps": tuple(self.window)}
        return self.graph.append(JOIN, (pieces,), attrs, (meta,), self.node.loc).outputs[0]


def _max_values(put: _Put, args: tuple) -> Value:
    first, *rest = put.slices(args[0], put.node.outputs[0].meta.shape[2:])
    for x in rest:
        first = put("maximum", first, x)
    return first


def _max_grad(put: _Put, args: tuple) -> Value:
    """To the first maximum of each window; to the last NaN, if there are any."""
    from fusegrad.dtypes import bool_

    g, x = args[:2]
    best, *rest = put.slices(x, g.meta.shape[2:])
    better: list[Value] = []
    for k, v in enumerate(rest):
        better.append(put("logical_or", put("gt", v, best, dtype=bool_), put("isnan", v, dtype=bool_)))
        if k < len(rest) - 1:
            best = put("where", better[-1], v, best, dtype=v.meta.dtype)
    chosen, later = [better[-1]], better[-1]
    for flag in reversed(better[:-1]):
        chosen.append(put("logical_and", flag, put("logical_not", later)))
        later = put("logical_or", flag, later)
    chosen.append(put("logical_not", later))
    return put.join([put(KEEP, g, flag) for flag in reversed(chosen)])


def _window_sum(put: _Put, args: tuple) -> Value:
    first, *rest = put.slices(args[0], put.node.outputs[0].meta.shape[2:])
    total = put(PLUS_ZERO, first)
    for x in rest:
        total = put("add", total, x)
    return total


def _spread_sum(put: _Put, args: tuple) -> Value:
    return put.join([put(PLUS_ZERO, args[0]) for _ in range(math.prod(put.window))])


_RULES = {"_max_values": _max_values, "_max_grad": _max_grad, "_window_sum": _window_sum, "_spread_sum": _spread_sum}
