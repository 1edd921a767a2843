"""Which values of a graph are in memory, in which arrays, and what those are called in the running function."""

from __future__ import annotations

import keyword
from typing import Any

from fusegrad.meta import Meta
from fusegrad.sizes import as_python

from ..ir.bind import symbols_in
from ..ir.graph import Graph, Node, Value
from ..options import Options
from . import views
from .additions import add_at
from .calls import is_blas
from .convolve import Native, native
from .donate import grant, may_replace
from .emit import Buffer, plan_group
from .fuse import Fusion, Group, fuse
from .groups import expand_groups
from .joins import expand_joins, is_join, places
from .memory import Slot, Temp, assign_slots, dense_order, dense_strides
from .products import expand_products
from .stages import Analysis, analyse, read_by
from .volumes import expand_volumes
from .windows import expand_windows

__all__ = ["Storage"]


class Storage:
    """Stages, groups and the place of every value in memory, for one graph.

    ``plans``: the plan of each group of ``fusion`` (None for calls and joins). ``buffers``: the array of each value
    in memory. ``temps``: those that die inside the call. ``parts``: pieces of joined arrays. ``given``: results that
    take over an input's memory. ``final``: results allocated in the shape in which they are returned.
    """

    def __init__(self, graph: Graph, options: Options, banned: set[str], into: dict[int, int], taken: set[str]) -> None:
        written = expand_windows(expand_products(expand_groups(expand_volumes(graph)))) if options.fuse else graph
        self.graph = expand_joins(written)
        self.options, self.into = options, into
        self.symbols = used_symbols(self.graph)
        self.taken = taken | self.symbols
        self.names: dict[Value, str] = {v: self.name(v.name) for v in self.graph.inputs}
        self.analysis: Analysis = analyse(self.graph, options.fuse, banned)
        self.natives = _natives(self.graph, options)
        self.fusion: Fusion = fuse(self.analysis, options.fuse)
        self.home: dict[Value, Group] = {s.value: g for g in self.fusion.groups for s in g.stages}
        self.results: dict[Value, None] = {}
        self.temps: dict[Value, Temp] = {}
        self.parts: dict[Value, tuple[Value, Any, tuple]] = {}  # piece -> joined value, offset, strides
        self.given: dict[Value, Value] = {}
        self.shares: dict[Value, Value] = {}  # temporary -> the result whose memory it uses before
        self.buffers: dict[Value, Buffer] = {}
        self.plans = self.place()

    def name(self, wish: str) -> str:
        """A free Python name like ``wish``."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in wish) or "x"
        if not base.isidentifier() or keyword.iskeyword(base):
            base = f"x_{base}"
        found, k = base, 1
        while found in self.taken:
            found = f"{base}_{k}"
            k += 1
        self.taken.add(found)
        return found

    def returned(self) -> list[Any]:
        """What a call returns: outputs, then new values of mutated inputs."""
        return [*self.graph.outputs, *(new for _, new in self.graph.mutations)]

    def is_placed(self, node: Node | None) -> bool:
        """Whether a call writes its result into memory that it is given."""
        return is_blas(node) or node in self.natives

    # -- deciding -----------------------------------------------------------------------------------
    def place(self) -> list[Any]:
        """Decide for every value in memory where it lives. Returns the plans of the groups."""
        a, groups = self.analysis, self.fusion.groups
        for value in self.graph.results():
            if value in a.arrays:
                self.results[a.arrays[value][0]] = None
        stored = {base for base, _ in a.arrays.values() if base in self.home}
        last: dict[Value, int] = {}
        for position, g in enumerate(groups):
            for value in self.reads(g):
                if self.home.get(value) is not g:
                    last[value] = position
                    if value in self.home:
                        stored.add(value)
        plans = [plan_group(g, stored) if g.node is None else None for g in groups]
        if self.into:
            self.given = grant(self.into, self.returned(), self.graph.inputs, a, groups, plans)
        for g in groups:
            if g.node is not None and is_join(g.node):
                self.parts.update((p, (g.node.outputs[0], *place)) for p, place in places(g.node).items())
        self.find_temps(plans, last)
        self.final = self.final_shapes()
        self.plan_of = dict(zip((g.id for g in groups), plans, strict=True))
        self.share_results()
        self.slots: list[Slot] = assign_slots(list(self.temps.values()), self.replaces)
        for slot in self.slots:
            slot.name = self.name(slot.name)
        self.make_buffers(plans)
        return plans

    def reads(self, g: Group) -> list[Value]:
        """Values in memory that a group reads."""
        if g.node is None:
            return [v for s in g.stages for v, _ in s.reads]
        return read_by(g.node, self.analysis.arrays)

    def find_temps(self, plans: list[Any], last: dict[Value, int]) -> None:
        """What is made and read inside the call. A joined array lives from its first piece on."""
        for position, (g, plan) in enumerate(zip(self.fusion.groups, plans, strict=True)):
            made = plan.stored if plan is not None else g.called if self.is_placed(g.node) else ()
            for value in made:
                whole = self.parts[value][0] if value in self.parts else value
                if whole not in self.results and whole not in self.temps:
                    self.temps[whole] = Temp(whole, position, max(last.get(whole, position), position))

    def final_shapes(self) -> dict[Value, tuple]:
        """Results that are another shape of what a loop makes, and nothing else reads as an array: allocated in that
        shape at once.
        """
        seen: dict[Value, list[Value]] = {}
        for value, (base, _) in self.analysis.arrays.items():
            seen.setdefault(base, []).append(value)
        found = {}
        results = list(self.graph.results())
        for value in results:
            base, chain = self.analysis.arrays.get(value, (value, []))
            if (
                base not in self.home
                or base in self.given
                or len(seen[base]) != 1
                or dense_order(base.meta) is not None
            ):
                continue
            if chain and all(node.op.name in views.RESHAPES for node in chain) and results.count(value) == 1:
                found[base] = value.meta.shape
        return found

    def replaces(self, value: Value, old: Value) -> bool:
        """Whether the loop that makes ``value`` may store it over ``old``, which it is the last to read."""
        g = self.home.get(value)
        if g is None or value in self.parts or old in self.parts:
            return False
        return may_replace(value, old, g, self.plan_of[g.id])

    def share_results(self) -> None:
        """Temporaries whose last reader stores a result over them live in the result's memory from the start."""
        position = {g.id: k for k, g in enumerate(self.fusion.groups)}
        joined = {whole for whole, _, _ in self.parts.values()}
        ends: dict[int, list[Temp]] = {}
        for t in self.temps.values():
            if t.value not in joined:
                ends.setdefault(t.last, []).append(t)
        for value in self.results:
            g = self.home.get(value)
            if g is None or value in self.given or value in self.final or value in self.parts:
                continue
            at = position[g.id]
            for t in ends.get(at, ()):
                if t.first < at and t.value not in self.shares and self.replaces(value, t.value):
                    self.shares[t.value] = value
                    del self.temps[t.value]
                    break

    # -- buffers ------------------------------------------------------------------------------------
    def make_buffers(self, plans: list[Any]) -> None:
        for value, name in self.names.items():
            if not value.meta.weak:
                m = value.meta
                self.buffers[value] = Buffer(name, m.dtype, m.shape, m.stride(), "input", ready=True)
        for value in self.shares.values():
            m = Meta(value.meta.shape, value.meta.dtype)
            self.buffers[value] = Buffer(self.name("out"), m.dtype, m.shape, m.stride(), "result")
        pairs = list(zip(self.fusion.groups, plans, strict=True))
        for g, plan in sorted(pairs, key=lambda pair: not is_join(pair[0].node)):  # joins first: pieces need them
            made = g.called if plan is None else sorted(plan.stored, key=lambda v: plan.made[v].number)  # noqa: B023
            for value in made:
                if value not in self.buffers:
                    self.buffers[value] = self.buffer(value, g, plan is None)

    def buffer(self, value: Value, g: Group, called: bool) -> Buffer:
        """The array of a value made by group ``g``."""
        m = Meta(value.meta.shape, value.meta.dtype)
        if value in self.parts:
            whole, offset, strides = self.parts[value]
            return Buffer(self.buffers[whole].name, m.dtype, m.shape, strides, "part", offset)
        if value in self.given:
            return Buffer(self.names[self.given[value]], m.dtype, m.shape, m.stride(), "input")
        if value in self.shares:
            name = self.buffers[self.shares[value]].name
            return Buffer(name, m.dtype, m.shape, m.stride(), "result", ready=called)
        order = None if called else dense_order(value.meta)
        strides = m.stride() if order is None else dense_strides(m.shape, order)
        if value in self.temps:
            slot = self.temps[value].slot
            name, kind = (slot.name if slot is not None else self.name("tmp")), "temp"
        elif value in self.results and (not called or self.is_placed(g.node) or is_join(g.node)):
            name, kind = self.name("out"), "result"
        else:
            name, kind = self.name("val"), "extern"
        return Buffer(name, m.dtype, m.shape, strides, kind, order=order, ready=called)


def _natives(graph: Graph, options: Options) -> dict[Node | None, Native]:
    """The operators that are native kernels of their own."""
    from fusegrad.native import accumulators

    found: dict[Node | None, Native] = {}
    for node in graph.nodes:
        kernel = native(node, accumulators(options)) if node.op.name.startswith("_conv") else add_at(node)
        if kernel is not None:
            found[node] = kernel
    return found


def shape_text(sizes: tuple) -> str:
    """Python source of a shape."""
    parts = [as_python(s) for s in sizes]
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def used_symbols(graph: Graph) -> set[str]:
    """Names of the sizes that a graph mentions anywhere."""
    found: set[str] = set()
    for value in graph.inputs:
        found.update(symbols_in((value.meta.shape, value.meta.strides or ())))
    for node in graph.nodes:
        found.update(symbols_in((*node.args, *node.attrs.values())))
        for value in node.outputs:
            found.update(symbols_in(value.meta.shape))
    found.update(symbols_in(tuple(graph.outputs)))
    return found
