"""Nests of a kernel that differ only in their arrays become one function, called with each one's arrays.

Unrolled loops (recurrent cells, layers, an optimizer over many parameters) repeat the same nest dozens of times.  Two
nests are equal if they read the same after buffers, parameters, loops and accumulators are numbered in order of
appearance and each buffer's first offset is moved into its pointer.  The shared function sees a small ctx of its own,
which the launcher fills before the call, so the code of an element, and its bits, are those of an unshared nest.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from .nest import Store
from .plan import PlannedNest, PlannedPhase
from .scalar import Access, Expr, Size, make, rewrite, walk

_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = ("min", "max")


@dataclass
class Form:
    """key: text that is the same for equal nests.  names: parameters in the order of the shared ctx.  shifts: elements
    to add to the pointer of each buffer."""

    key: str
    names: list[str]
    shifts: dict[str, Size]


class _Reader:
    """Writes the key of one nest."""

    def __init__(self, nest: PlannedNest, buffers: dict[str, Any], local: set[str]) -> None:
        self.nest, self.buffers, self.local = nest, buffers, local
        self.names: dict[str, int] = {}
        self.loops: dict[str, int] = {}
        self.accs: dict[str, int] = {}
        self.shifts: dict[str, Size] = {}

    def size(self, size: Size) -> str:
        if isinstance(size, int):
            return str(size)
        return _NAME.sub(lambda m: m[0] if m[0] in _FUNCTIONS else f"p{self.name(m[0])}", size)

    def name(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

    def loop(self, name: str) -> str:
        return f"i{self.loops.setdefault(name, len(self.loops))}"

    def terms(self, terms: tuple[tuple[str, Size], ...]) -> str:
        return " ".join(sorted(f"{self.loop(n)}*{self.size(c)}" for n, c in terms))

    def access(self, a: Access) -> str:
        if a.buffer in self.local:
            where = f"{a.buffer}+{self.size(a.offset)}"
        else:
            where = f"b{self.name(a.buffer)}:{self.buffers[a.buffer].short}+{self.size(moved(a, self.shifts).offset)}"
        return f"{where} {self.terms(a.terms)} {[self.size(c) for c in a.gather]} {a.masked}"

    def attr(self, e: Expr) -> str:
        if e.op == "load":
            return self.access(e.attr)
        if e.op == "index":
            return self.loop(e.attr)
        if e.op == "size":
            return self.size(e.attr)
        if e.op == "scalar":
            return f"p{self.name(e.attr)}"
        if e.op == "acc":
            return f"r{self.accs[e.attr]}"
        if e.op == "affine":
            return f"{self.size(e.attr[0])} {self.terms(e.attr[1])}"
        return repr(e.attr)

    def phase(self, p: PlannedPhase) -> list[str]:
        lines = [f"over {[(self.loop(x.name), self.size(x.size)) for x in p.inner]} x{p.width} {p.ordered}"]
        number: dict[Expr, int] = {}
        for r in p.reduces:
            if r.scan:  # seen by the stores of its own phase
                self.accs[r.name] = len(self.accs)
        for e in walk(p.roots()):
            number[e] = len(number)
            lines.append(f"{e.op} {[number[a] for a in e.args]} {e.dtype.short} {self.attr(e)}")
        for r in p.reduces:
            self.accs.setdefault(r.name, len(self.accs))
            lines.append(f"reduce {r.combine} {[number[e] for e in r.exprs()]} {r.dtype.short} {r.scan}")
        for s in p.stores:
            lines.append(f"store {self.access(s.access)} {[number[g] for g in s.gather]} {number[s.value]}")
        return lines

    def form(self) -> Form:
        nest = self.nest
        self.shifts = _shifts(nest, self.local)
        lines = [
            f"for {[(self.loop(x.name), self.size(x.size)) for x in nest.outer]} {nest.lane_outer} {nest.width}",
            *(line for p in nest.phases for line in self.phase(p)),
        ]
        return Form("\n".join(lines), list(self.names), self.shifts)


def _shifts(nest: PlannedNest, local: set[str]) -> dict[str, Size]:
    """The offset that all accesses to a buffer may be counted from: the first number, or the one expression."""
    offsets: dict[str, list[Size]] = {}
    for p in nest.phases:
        for a in _accesses(p):
            if a.buffer not in local:
                offsets.setdefault(a.buffer, []).append(a.offset)
    return {
        name: found[0]
        for name, found in offsets.items()
        if all(isinstance(o, int) for o in found) or all(o == found[0] for o in found)
    }


def _accesses(p: PlannedPhase) -> list[Access]:
    return [e.attr for e in walk(p.roots()) if e.op == "load"] + [s.access for s in p.stores]


def moved(a: Access, shifts: dict[str, Size]) -> Access:
    """The access counted from the shifted pointer."""
    shift = shifts.get(a.buffer, 0)
    if shift == 0:
        return a
    both_numbers = isinstance(a.offset, int) and isinstance(shift, int)
    return a._replace(offset=a.offset - shift if both_numbers else 0)  # type: ignore[operator]


def form_of(nest: PlannedNest, buffers: dict[str, Any], local: set[str]) -> Form | None:
    """How the nest may be shared; None if it may not (it can report an error, which has a place in the real ctx)."""
    if any(e.op == "check" for p in nest.phases for e in walk(p.roots())):
        return None
    return _Reader(nest, buffers, local).form()


def shared_nest(nest: PlannedNest, form: Form) -> PlannedNest:
    """The nest with every buffer counted from its shifted pointer."""

    def change(e: Expr) -> Expr:
        return make("load", e.args, e.dtype, moved(e.attr, form.shifts)) if e.op == "load" else e

    def phase(p: PlannedPhase) -> PlannedPhase:
        new = iter(rewrite(p.roots(), change))
        reduces = [r.changed(new) for r in p.reduces]
        stores = []
        for s in p.stores:
            gather = [next(new) for _ in s.gather]
            a = moved(s.access, form.shifts)
            pairs = list(zip(gather, a.gather, strict=True))
            stores.append(Store(a.buffer, next(new), a.offset, a.terms, pairs))
        return PlannedPhase(p.inner, reduces, stores, p.width, p.ordered)

    return replace(nest, phases=[phase(p) for p in nest.phases])


def find_shared(nests: list[PlannedNest], buffers: dict[str, Any], local: set[str]) -> dict[int, tuple[str, Form]]:
    """{number of a nest: (name of its function, form)} for all nests that have an equal one."""
    forms = {k: form_of(nest, buffers, local) for k, nest in enumerate(nests) if nest.body is None}
    groups: dict[str, list[int]] = {}
    for k, form in forms.items():
        if form is not None:
            groups.setdefault(form.key, []).append(k)
    return {k: (f"shared{g[0]}", forms[k]) for g in groups.values() if len(g) > 1 for k in g}  # type: ignore[misc]
