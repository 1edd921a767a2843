"""Where in a loop every condition on indices holds: whole vectors there need no masks.

The gradient of a slice, or a border of zeros, is a load under a mask: ``2 <= i < n``.  Nearly all of a loop lies where
all such conditions hold.  So a loop over vectors has two bodies: one for whole vectors inside, in which the conditions
are taken as true, and one with masks, for borders and for the rest of the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .llvm_expr import Writer
from .nest import Loop
from .scalar import Expr, Size

FEW = 64
Linear = tuple[Size, dict[str, Size]]


def conditions(exprs: Iterable[Expr]) -> list[Expr]:
    """Comparisons of indices that loads depend on, each once, in order."""
    found: dict[Expr, None] = {}
    for e in exprs:
        if e.op == "load" and e.attr.masked:
            parts = _parts(e.args[len(e.attr.gather)])
            if all(p.op in ("lt", "le", "gt", "ge") and None not in map(_linear, p.args) for p in parts):
                found.update(dict.fromkeys(parts))
    return list(found)


def _parts(mask: Expr) -> list[Expr]:
    return [p for a in mask.args for p in _parts(a)] if mask.op == "and_" else [mask]


def _linear(e: Expr) -> Linear | None:
    if e.op == "affine":
        return e.attr[0], dict(e.attr[1])
    if e.op == "index":
        return 0, {e.attr: 1}
    return (e.attr, {}) if e.op in ("const", "size") and e.dtype.category == 1 else None


def _slope(condition: Expr, loop: str) -> Size | None:
    """By how much the left side gains on the right in one step of the loop; None if that is not a known number."""
    left, right = (_linear(a)[1].get(loop, 0) for a in condition.args)  # type: ignore[index]
    return left - right if isinstance(left, int) and isinstance(right, int) else None


class Ranges:
    """The part of NestPrinter that knows which conditions hold at the current place."""

    w: Writer
    assumed: frozenset[Expr]
    nest: Any
    guards: list[Expr]
    loops: dict[str, str]
    size: Any

    def holds(self, e: Expr) -> bool:
        """Whether a condition is true at every lane of the current place."""
        return bool(self.assumed) and (e in self.assumed or e.op == "and_" and all(map(self.holds, e.args)))

    def operands(self, e: Expr) -> tuple[Expr, ...]:
        """The arguments that an expression needs here."""
        if e.op == "branch":
            return (e.args[0], e.args[2])
        if e.op == "where" and self.holds(e.args[0]):
            return (e.args[1],)
        if e.op == "load" and e.attr.masked and self.holds(e.args[len(e.attr.gather)]):
            return e.args[: len(e.attr.gather)]
        return e.args

    def guards_of(self, loop: Loop) -> list[Expr]:
        """The conditions that can be decided for a range of the loop, without those that hold for less than half of
        one; none if they hold together for less than half of it."""
        known = {loop.name, *self.loops}
        sizes = {x.name: x.size for x in (*self.nest.outer, loop)}
        usable = [
            c
            for c in self.guards
            if _slope(c, loop.name) in (-1, 0, 1)
            and all(_linear(a)[1].keys() <= known for a in c.args)  # type: ignore[index]
            and not _is_rare(c, sizes)
        ]
        if isinstance(loop.size, int):
            low, high = 0, loop.size
            for c in usable:
                bounds = _static(c, loop.name)
                if bounds is not None:
                    low, high = max(low, bounds[0]), min(high, bounds[1])
            if 2 * (high - low) < loop.size:
                return []
        return usable

    def inside(self, loop: str, guards: list[Expr], low: str, high: str) -> tuple[str, str]:
        """Operands: from where to where in the loop all guards hold, within low .. high."""
        w = self.w
        for c in guards:
            rest = w.op(f"sub i64 {self._value(c.args[0], loop)}, {self._value(c.args[1], loop)}")
            slope, op = _slope(c, loop), c.op
            if slope == 0:
                code = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}[op]
                high = w.op(f"select i1 {w.op(f'icmp {code} i64 {rest}, 0')}, i64 {high}, i64 {low}")
                continue
            if slope == 1:  # i + rest: compare i with -rest
                rest = w.op(f"sub i64 0, {rest}")
            else:  # rest - i: compare i with rest, the other way round
                op = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[op]
            if op in ("gt", "le"):
                rest = w.op(f"add i64 {rest}, 1")
            if op in ("gt", "ge"):
                low = w.call("i64", "llvm.smax.i64", [("i64", low), ("i64", rest)])
            else:
                high = w.call("i64", "llvm.smin.i64", [("i64", high), ("i64", rest)])
        return low, high

    def _value(self, e: Expr, loop: str) -> str:
        """The expression without its part in the loop."""
        w = self.w
        offset, terms = _linear(e)  # type: ignore[misc]
        total = self.size(offset)
        for name, coef in terms.items():
            if name != loop:
                total = w.op(f"add i64 {total}, {w.op(f'mul i64 {self.loops[name]}, {self.size(coef)}')}")
        return total


def _is_rare(c: Expr, sizes: dict[str, Size]) -> bool:
    """Whether a condition on one loop alone holds for less than half of it (or for few points of an unknown number)."""
    names = {name for a in c.args for name in _linear(a)[1]}  # type: ignore[index]
    bounds = _static(c, *names) if len(names) == 1 else None
    if bounds is None:
        return False
    size = sizes.get(names.pop(), "")
    if not isinstance(size, int):
        return bounds[1] <= FEW
    return 2 * (min(bounds[1], size) - max(bounds[0], 0)) < size


def _static(c: Expr, loop: str) -> tuple[int, int] | None:
    """Bounds that a condition on this loop alone sets, as numbers; None if they are not known."""
    (a, left), (b, right) = (_linear(x) for x in c.args)  # type: ignore[misc]
    slope = _slope(c, loop)
    if not isinstance(a, int) or not isinstance(b, int) or not slope or {*left, *right} - {loop}:
        return None
    rest, op = (b - a, c.op) if slope == 1 else (a - b, {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[c.op])
    rest += op in ("gt", "le")
    most = 1 << 62
    return (rest, most) if op in ("gt", "ge") else (-most, rest)
