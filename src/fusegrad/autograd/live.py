"""``live()``: the graphs that are still alive, what holds each, and the bytes it keeps.

Nothing is registered while a program runs: the nodes are found among the objects that the garbage collector knows, when
``live`` is called. The report holds text and numbers only, so looking at it keeps no graph alive.
"""

from __future__ import annotations

import gc
import re
from dataclasses import dataclass, field
from typing import Any

from ..tensor import Tensor
from .holders import Holders
from .kept import bytes_text, kept_by, leaves_of, memory, results_memory
from .lines import line_of
from .node import Node, short_name


@dataclass
class LiveGraph:
    """One graph (nodes connected by edges) that is alive."""

    root: str  # name of its last node
    nodes: int
    leaves: int
    bytes: int  # kept for backward, each memory block once, leaves not counted
    leaf_bytes: int  # saved memory that belongs to leaves and would live anyway
    freed: int  # how many nodes were freed by a backward pass
    keeping: int  # how many nodes still keep something for backward
    line: str | None  # where the last node was made, if lines were traced
    held_by: list[str] = field(default_factory=list)
    cycles: list[str] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)
    results: int = 0  # bytes of the results that are held (with the memory they are views of), kept for backward or not

    @property
    def state(self) -> str:
        """``whole``, ``freed`` (backward ran: nothing is kept any more) or ``partly freed``."""
        return "whole" if not self.freed else "partly freed" if self.keeping else "freed"

    def _key(self) -> tuple:
        what = self.root, self.nodes, self.leaves, self.bytes, self.results, self.state, self.line
        return (*what, tuple(self.hooks), bool(self.cycles))


class LiveReport(list):
    """The list of live graphs, largest first; printing it groups graphs that look alike."""

    def __init__(self, graphs: list[LiveGraph], looked: bool) -> None:
        super().__init__(sorted(graphs, key=lambda g: -g.bytes - g.results))
        self.looked = looked

    @property
    def bytes(self) -> int:
        """Bytes that all graphs keep together."""
        return sum(g.bytes for g in self)

    def text(self) -> str:
        """The report as text."""
        if not self:
            return "no live graphs"
        groups: dict[tuple, list[LiveGraph]] = {}
        for g in self:
            groups.setdefault(g._key(), []).append(g)
        one = len(self) == 1
        count = "1 live graph keeps" if one else f"{len(self)} live graphs keep"
        lines = [f"{count} {bytes_text(self.bytes)} for backward (leaves not counted){_more(self)}"]
        for i, same in enumerate(groups.values(), 1):
            lines += _group_text(i, same, self.looked)
        if not any(g.line for g in self):
            lines.append("lines are not known: call fusegrad.autograd.graph.trace_lines() before the graphs are made")
        if not self.looked:
            lines.append("holders were not searched: live(referrers=True) names them")
        return "\n".join(lines)

    __str__ = __repr__ = text


def _more(graphs: list[LiveGraph]) -> str:
    """What results take besides, if it is worth a word."""
    n = sum(g.results for g in graphs)
    return f", and {bytes_text(n)} in results" if n >= 1024 else ""


def _group_text(i: int, same: list[LiveGraph], looked: bool) -> list[str]:
    g = same[0]
    each = " each" if len(same) > 1 else ""
    head = f"{i:2}. " + (f"{len(same)} graphs like this: " if len(same) > 1 else "")
    head += f"{g.root}, {g.nodes} node{'s' if g.nodes != 1 else ''}, {bytes_text(g.bytes)}{each}{_more([g])}, {g.state}"
    lines = [head + (f", made at {g.line}" if g.line else "")]
    held = _compact(list(dict.fromkeys(h for x in same for h in x.held_by)))
    cycles = list(dict.fromkeys(c for x in same for c in x.cycles))
    for label, items, shown in (("held by", held, 4), ("cycle", cycles, 2), ("hook", g.hooks, 3)):
        lines += [f"      {label}: {x}" for x in items[:shown]]
        if len(items) > shown:
            lines.append(f"      {label}: and {len(items) - shown} more")
    if not held and cycles:
        lines.append("      nothing else holds it: it stays until the garbage collector runs (gc.collect())")
    lost = sum(not x.held_by and not x.cycles for x in same)
    if looked and lost:
        lines.append(
            f"      {'' if lost == len(same) else f'{lost} of them: '}nothing found that holds it: a cycle of other "
            "objects (gc.collect() frees it), an array of objects, or C code"
        )
    hint = _hint(same, held)
    return lines + ([f"      hint: {hint}"] if hint else [])


def _compact(held: list[str]) -> list[str]:
    """Items of one list on one line: ``losses[0], losses[1]`` become ``losses[...]: 2 items``."""
    groups: dict[str, list[str]] = {}
    for h in held:
        groups.setdefault(re.sub(r"\[\d+\]", "[...]", h), []).append(h)
    return [v[0] if len(v) == 1 else f"{k}: {len(v)} items" for k, v in groups.items()]


def _hint(same: list[LiveGraph], held: list[str]) -> str:
    if any("create_graph" in c for g in same for c in g.cycles):
        return "set .grad to None when done, or use autograd.grad(..., create_graph=True), which makes no cycle"
    if any(g.cycles for g in same):
        return "use ctx.save_for_backward, and let hooks not refer to results of the graph that they hang on"
    held = [h for h in held if "<closure of" not in h] or held
    if held and all("<closure of" in h for h in held):
        return "a function keeps what it refers to: let it refer to result.detach(), or let go of the function"
    if held and all(re.search(r"\['\w", h) for h in held):
        return "store result.detach(): a tensor with a grad_fn keeps its whole graph"
    if held and all("[" in h for h in held) and (len(same) > 1 or len(held) > 1):
        return "append loss.item() or loss.detach(): a tensor with a grad_fn keeps its whole graph"
    return ""


def components(nodes: list[Node]) -> list[list[Node]]:
    """The nodes grouped into graphs: joined where an edge leads from one to the other."""
    up: dict[int, int] = {n.seq: n.seq for n in nodes}

    def find(a: int) -> int:
        while up[a] != a:
            up[a] = up[up[a]]
            a = up[a]
        return a

    for n in nodes:
        for e in n.edges:
            if isinstance(e, Node) and e.seq in up:
                up[find(n.seq)] = find(e.seq)
    groups: dict[int, list[Node]] = {}
    for n in sorted(nodes, key=lambda n: n.seq):
        groups.setdefault(find(n.seq), []).append(n)
    return list(groups.values())


def live(referrers: bool = True) -> LiveReport:
    """The graphs alive now, largest first: ``print(fusegrad.autograd.graph.live())``.

    ``referrers``: also search what holds each (variables, lists, attributes, closures) with ``gc.get_referrers``; this
    reads every object that the collector knows a few times (tens of milliseconds in a usual program).
    """
    objects = gc.get_objects()
    nodes = [o for o in objects if issubclass(type(o), Node)]
    tensors = [o for o in objects if issubclass(type(o), Tensor)]
    del objects
    graphs = [g for g in components(nodes) if not any(t._data is None for t in leaves_of(g))]  # of captures: no data
    nodes = [n for g in graphs for n in g]
    place = {id(n): i for i, members in enumerate(graphs) for n in members}
    reports = [_report(members) for members in graphs]
    for i, members in enumerate(graphs):
        reports[i].cycles = _cycles(members)
    outside: list[tuple[int, Any]] = []  # (graph, tensor with a grad_fn in it)
    for t in tensors:
        if t._node is not None and id(t._node) in place:
            outside.append((place[id(t._node)], t))
    if referrers:
        targets = outside + [(place[id(n)], n) for n in nodes]
        own: list[Any] = [nodes, tensors, graphs, outside, targets, place, *graphs, *targets]
        own += [x for n in nodes for x in (n.edges, n.saved, n.out) if x is not None]
        for i, text in Holders(own).search(targets):
            if text not in reports[i].held_by:
                reports[i].held_by.append(text)
    for i, members in enumerate(graphs):
        reports[i].results = results_memory(members, [t for g, t in outside if g == i])
    return LiveReport(reports, referrers)


def _report(members: list[Node]) -> LiveGraph:
    own, leaf = memory(members)
    last = members[-1]
    hooks = [
        f"{kind} hook {_name(fn)} on {short_name(n)}" for n in members if n.hooks is not None for kind, fn in _hooks(n)
    ]
    return LiveGraph(
        short_name(last),
        len(members),
        len(leaves_of(members)),
        own,
        leaf,
        sum(n.freed for n in members),
        sum(bool(kept_by(n)) for n in members),
        line_of(last),
        hooks=list(dict.fromkeys(hooks)),
    )


def _hooks(node: Node) -> list[tuple[str, Any]]:
    """(kind, function) of every hook on ``node``."""
    h = node.hooks
    out = [("pre", fn) for fn in h["pre"].values()] + [("post", fn) for fn in h["post"].values()]
    return out + [("tensor", fn) for fns in h["tensor"].values() for fn in fns.values()]


def _name(fn: Any) -> str:
    code = getattr(fn, "__code__", None)
    name = getattr(fn, "__qualname__", type(fn).__name__)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name


def _cycles(members: list[Node]) -> list[str]:
    """Reference cycles that keep the graph alive without any outside holder."""
    own = {id(n) for n in members}
    out = []
    for leaf in leaves_of(members):
        g = leaf._grad
        if g is not None and g._node is not None and id(g._node) in own:
            out.append(
                f"the .grad of a leaf {list(leaf.shape)} has a graph that leads back to the leaf (backward with "
                "create_graph=True)"
            )
        if leaf._extra is not None:
            for fn in [*leaf._extra.hooks.values(), *leaf._extra.post_hooks.values()]:
                if _captures(fn, own, 0):
                    out.append(f"hook {_name(fn)} on a leaf {list(leaf.shape)} refers to a result of this graph")
    for n in members:
        if n.op is None:
            for k in kept_by(n):
                if k.name.startswith("ctx.") and k.node is not None and id(k.node) in own and k.node.seq >= n.seq:
                    out.append(f"{k.name} of {short_name(n)} is its own result; save it with ctx.save_for_backward")
        if n.hooks is not None:
            for _, fn in _hooks(n):
                if _captures(fn, own, n.seq):
                    out.append(f"hook {_name(fn)} on {short_name(n)} refers to a result of this graph")
    return list(dict.fromkeys(out))


def _captures(fn: Any, own: set[int], seq: int) -> bool:
    """Whether a function refers (closure, defaults, bound object) to a tensor of the graph at or after ``seq``."""
    values = []
    for cell in getattr(fn, "__closure__", None) or ():
        try:
            values.append(cell.cell_contents)
        except ValueError:  # an empty cell
            pass
    values += [*(getattr(fn, "__defaults__", None) or ()), getattr(fn, "__self__", None)]
    values += [*getattr(fn, "args", ())] if type(fn).__name__ == "partial" else []
    for v in values:
        for t in v if isinstance(v, (list, tuple)) else (v,):
            if isinstance(t, Tensor) and t._node is not None and id(t._node) in own and t._node.seq >= seq:
                return True
    return False
