"""Pooling as loops: windows become slices of the input, elementwise operators on them, and joins.

A maximum or sum over windows is a chain over the positions inside the window; each position is a slice with the stride
as its step, which costs nothing.  The way back writes, for windows that lie side by side, one piece for each position
to its place in the result (see ``joins``).  Loads and stores of every second element are whole vectors in the backend.

A border is a padded input.  Where windows overlap on the way back, an element of the result is a sum over the windows
that see it: over the positions, each a moved piece of the gradient; with a stride there is one such sum for each
residue of an element's place, and they are joined.  A maximum then keeps the position it was found at, as a number.

What has too many positions, or a stride that does not divide the size, stays a call of the eager operator.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

from fusegrad.dtypes import bool_
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


def _keep_at(b: Any, g: Any, at: Any, k: int) -> Any:
    return b.where(b.eq(at, b.const(k, at.dtype)), g, b.const(0, g.dtype))


def _pick(b: Any, at: Any, flag: Any, k: int) -> Any:
    return b.where(flag, b.const(k, at.dtype), at)


def _written_out(signature: str, scalar: Any) -> Op:
    """An operator of generated loops alone: it has no kernel."""
    return Op(parse_signature(signature), "pointwise", "none", kernel=None, scalar=scalar)  # type: ignore[arg-type]


KEEP_AT = _written_out("keep_at(input: T, at: T, k: int)", _keep_at)
PICK = _written_out("pick(input: T, flag: T, k: int)", _pick)
ZERO = _written_out("zero_of(input: T)", lambda b, x: b.const(0, x.dtype))
INSIDE = _written_out("inside(input: T)", lambda b, x: b.const(True, bool_))
KEEP = _written_out("keep(input: T, flag: T)", _keep)
PLUS_ZERO = _written_out("plus_zero(input: T)", _plus_zero)


def _is_window(node: Node) -> bool:
    if node.op.name not in _RULES or not all(isinstance(a, Value) for a in node.args):
        return False
    x, a = node.args[0].meta, node.attrs
    if x.dtype.short not in ("f32", "f64") or any(v.meta.dtype is not x.dtype or v.meta.weak for v in node.args):
        return False
    given = [*a["window"], *a["stride"], *a["padding"], *a.get("dilation", ())]
    if len(x.shape) != len(a["window"]) + 2:
        return False
    if not all(type(v) is int for v in given):
        return False
    if a.get("ceil_mode") or not 1 < math.prod(a["window"]) <= POSITIONS:
        return False
    if node.op.name == "_max_values":
        return True
    if node.op.name == "_window_sum":  # its result may be larger: windows that begin inside and end outside
        windows = zip(x.shape[2:], node.outputs[0].meta.shape[2:], a["window"], a["stride"], a["padding"], strict=True)
        return all(same(n, (size + 2 * p - k) // step + 1) for size, n, k, step, p in windows)
    whole, parts = node.outputs[0].meta.shape[2:], node.args[0].meta.shape[2:]
    if not all(type(n) is int and n for n in (*whole, *parts)):
        return False
    return _side_by_side(node) or all(s % step == 0 for s, step in zip(whole, a["stride"], strict=True))


def _side_by_side(node: Node) -> bool:
    """Windows that cover everything once."""
    a, whole, parts = node.attrs, node.outputs[0].meta.shape[2:], node.args[0].meta.shape[2:]
    return (
        a["window"] == a["stride"]
        and not any(a["padding"])
        and all(d == 1 for d in a.get("dilation", ()))
        and all(p * k == s for s, p, k in zip(whole, parts, a["window"], strict=True))
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
        self.padding = node.attrs["padding"]
        self.positions = list(itertools.product(*(range(k) for k in self.window)))

    def __call__(self, op: str | Op, *args: Value, dtype: Any = None, **attrs: Any) -> Value:
        entry = TABLE[op] if isinstance(op, str) else op
        meta = Meta(args[0].meta.shape, dtype or args[0].meta.dtype)
        return self.graph.append(entry, args, attrs, (meta,), self.node.loc).outputs[0]

    def slices(self, x: Value, out: tuple) -> list[Value]:
        """What the windows see at each of their positions."""
        found = []
        for position in self.positions:
            part = x
            for d, (p, n, step, gap) in enumerate(zip(position, out, self.stride, self.dilation, strict=True), 2):
                shape = list(part.meta.shape)
                stop, shape[d] = p * gap + (n - 1) * step + 1, n
                attrs = {"dim": d, "start": p * gap, "stop": stop, "step": step}
                meta = Meta(tuple(shape), x.meta.dtype)
                part = self.graph.append(TABLE["slice"], (part,), attrs, (meta,), self.node.loc).outputs[0]
            found.append(part)
        return found

    def padded(self, x: Value, sides: list[tuple[int, int]], value: float = 0) -> Value:
        """``x`` with more (or less) before and after along each dimension of the windows."""
        if not any(map(any, sides)):
            return x
        shape = (*x.meta.shape[:2], *(n + lo + hi for n, (lo, hi) in zip(x.meta.shape[2:], sides, strict=True)))
        attrs = {"pad": tuple(k for side in reversed(sides) for k in side), "value": value}
        meta = Meta(shape, x.meta.dtype)
        return self.graph.append(TABLE["constant_pad"], (x,), attrs, (meta,), self.node.loc).outputs[0]

    def bordered(self, x: Value, value: float) -> Value:
        """``x`` with the border that the windows see."""
        return self.padded(x, [(p, p) for p in self.padding], value)

    def gathered(self, given: list[Value]) -> Value:
        """For each element of the result the sum, over the windows that see it at a position, of what is ``given`` at
        that position for the window; added by position, as eager operators do it for all but small inputs.
        """
        shape = self.node.outputs[0].meta.shape
        size = [n // step for n, step in zip(shape[2:], self.stride, strict=True)]
        pieces = [self._residue(given, r, size) for r in itertools.product(*map(range, self.stride))]
        if len(pieces) == 1:
            return pieces[0]
        attrs = {"dim": 0, "stacked": False, "steps": tuple(self.stride)}
        return self.graph.append(JOIN, (pieces,), attrs, (Meta(shape, pieces[0].meta.dtype),), self.node.loc).outputs[0]

    def _residue(self, given: list[Value], r: tuple[int, ...], size: list[int]) -> Value:
        """The sums for the elements whose places have the residues ``r`` modulo the stride."""
        total: Value | None = None
        for position, g in zip(self.positions, given, strict=True):
            ways = zip(position, r, self.stride, self.dilation, self.padding, strict=True)
            apart = [(k + p - t * gap, step) for t, k, step, gap, p in ways]
            if any(a % step for a, step in apart):
                continue
            moves = [a // step for a, step in apart]
            sides = [(-m, n + m - have) for m, n, have in zip(moves, size, g.meta.shape[2:], strict=True)]
            part = self.padded(g, sides)
            total = self(PLUS_ZERO, part) if total is None else self("add", total, part)
        if total is None:  # no window sees them
            g = self.padded(given[0], [(0, n - have) for n, have in zip(size, given[0].meta.shape[2:], strict=True)])
            total = self(ZERO, g)
        return total

    def join(self, pieces: list[Value]) -> Value:
        """Pieces side by side, each window's in their places."""
        meta = Meta(self.node.outputs[0].meta.shape, pieces[0].meta.dtype)
        attrs = {"dim": 0, "stacked": False, "steps": tuple(self.window)}
        return self.graph.append(JOIN, (pieces,), attrs, (meta,), self.node.loc).outputs[0]


def _max_values(put: _Put, args: tuple) -> Value:
    first, *rest = put.slices(put.bordered(args[0], -math.inf), put.node.outputs[0].meta.shape[2:])
    for x in rest:
        first = put("maximum", first, x)
    return first


def _max_grad(put: _Put, args: tuple) -> Value:
    """To the first maximum of each window; to the last NaN, if there are any."""
    g, x = args[:2]
    if not _side_by_side(put.node):
        at = _place(put, x, g.meta.shape[2:])
        return put.gathered([put(KEEP_AT, g, at, k=k) for k in range(len(put.positions))])
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


def _place(put: _Put, x: Value, out: tuple) -> Value:
    """At which position each window has its maximum, never one in the border."""
    best, *rest = put.slices(put.bordered(x, -math.inf), out)
    inside = put.slices(put.bordered(put(INSIDE, x, dtype=bool_), 0), out) if any(put.padding) else None
    at = put(ZERO, best)
    found: Any = inside[0] if inside else None
    for k, v in enumerate(rest, 1):
        better = put("logical_or", put("gt", v, best, dtype=bool_), put("isnan", v, dtype=bool_))
        if inside is not None:
            better = put("logical_and", inside[k], put("logical_or", better, put("logical_not", found)))
            found = put("logical_or", found, inside[k])
        at = put(PICK, at, better, k=k)
        best = put("where", better, v, best, dtype=v.meta.dtype)
    return at


def _window_sum(put: _Put, args: tuple) -> Value:
    first, *rest = put.slices(put.bordered(args[0], 0), put.node.outputs[0].meta.shape[2:])
    total = put(PLUS_ZERO, first)
    for x in rest:
        total = put("add", total, x)
    return total


def _spread_sum(put: _Put, args: tuple) -> Value:
    if not _side_by_side(put.node):
        return put.gathered([args[0]] * len(put.positions))
    return put.join([put(PLUS_ZERO, args[0]) for _ in range(math.prod(put.window))])


_RULES = {"_max_values": _max_values, "_max_grad": _max_grad, "_window_sum": _window_sum, "_spread_sum": _spread_sum}
