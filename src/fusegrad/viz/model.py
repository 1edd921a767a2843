"""What a drawing shows: boxes (leaves, operators, outputs) and arrows, with big graphs summarised.

Summaries, in this order, until the boxes fit: runs of operators without branches become one box; the operators that
were recorded first become one box; many leaves of the same operators become one box.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..autograd.kept import Kept, bytes_text, dtype_short, kept_by, leaves_of, memory, walk
from ..autograd.lines import line_of
from ..autograd.node import Node, short_name
from ..tensor import Tensor

_MANY_LEAVES = 8  # leaves of one box that are drawn one by one when the graph is too big
_MANY_READERS = 6  # arrows that a leaf may have; with more, the readers name it instead
_MANY_KEPT = 5


@dataclass
class Box:
    """One box. ``rows``: (style, text); style is ``plain``, ``saved``, ``grad``, ``warn`` or ``note``."""

    kind: str  # leaf, op, group, output
    title: str
    rows: list[tuple[str, str]] = field(default_factory=list)
    tip: str = ""
    number: int = 0


@dataclass
class Model:
    """The boxes in an order in which arrows lead forward, and arrows as pairs of their positions."""

    boxes: list[Box]
    arrows: list[tuple[int, int]]
    summary: str
    notes: list[str]


def shape_text(shape: tuple, dtype: Any) -> str:
    """``f32[3, 4]``."""
    return f"{dtype_short(dtype)}[{', '.join(map(str, shape))}]"


def tensor_text(t: Tensor) -> str:
    """Shape, dtype and bytes; the value too if it is one number."""
    text = shape_text(tuple(t.shape), t.dtype)
    d = t._data
    if d is None:
        return text
    return f"{text} = {d.item():.6g}" if d.size == 1 else f"{text} {bytes_text(d.nbytes)}"


class Builder:
    """Makes the Model of the graph under ``roots``. ``names``: variable names by ``id`` of the tensor."""

    def __init__(self, roots: list[Tensor], names: dict[int, str], results: list[Tensor], limit: int) -> None:
        self.roots, self.names, self.limit = roots, names, limit
        self.nodes = walk(roots)
        self.number = {n.seq: i for i, n in enumerate(self.nodes, 1)}
        self.leaves = leaves_of(self.nodes)
        known = {id(t) for t in self.leaves}
        self.leaves += [t for t in roots if t.grad_fn is None and id(t) not in known]
        self.made: dict[tuple[int, int], list[str]] = {}  # variables that hold a result of a node
        asked = {id(t) for t in roots}
        for t in results:
            if t._node is not None and id(t) not in asked:
                self.made.setdefault((t._node.seq, t._nr), []).append(names[id(t)])
        self.boxes: list[Box] = []
        self.arrows: dict[tuple[int, int], None] = {}
        self.unit: dict[int, int] = {}  # node number -> position of its unit
        self.units: list[list[Node]] = []
        self.notes: list[str] = []
        self.readers: dict[int, set[int]] = {}

    def leaf_name(self, t: Tensor) -> str:
        """The variable's name, or a number among the leaves."""
        known = self.names.get(id(t))
        if known:
            return known
        at = next((i for i, x in enumerate(self.leaves) if x is t), 0)
        return f"leaf {at + 1}"

    # ---- grouping

    def group(self) -> None:
        """Decide which nodes share a box."""
        self.units = [[n] for n in self.nodes]
        if len(self.nodes) > self.limit:
            self.units = self.chains()
            if len(self.units) < len(self.nodes):
                self.notes.append("runs of operators without branches are drawn as one box")
        if len(self.units) > self.limit:
            # the first ones: an edge leads to an earlier node, so nothing among the others can come before them
            rest = sorted((n for u in self.units[: -self.limit] for n in u), key=lambda n: n.seq)
            self.units = [rest, *self.units[-self.limit :]]
            self.notes.append(f"the {len(rest)} operators that were recorded first are one box")
        self.unit = {n.seq: i for i, u in enumerate(self.units) for n in u}

    def chains(self) -> list[list[Node]]:
        """Runs of nodes: each has one node before it, which has no other reader."""
        readers: Counter = Counter()
        for n in self.nodes:
            readers.update({e.seq for e in n.edges if isinstance(e, Node)})
        for t in self.roots:
            if t.grad_fn is not None:
                readers[t.grad_fn.seq] += 1
        units: list[list[Node]] = []
        of: dict[int, list[Node]] = {}
        for n in self.nodes:
            before = {e.seq for e in n.edges if isinstance(e, Node)}
            only = next(iter(before)) if len(before) == 1 else None
            if only is not None and readers[only] == 1:
                of[n.seq] = of[only]
                of[only].append(n)
            else:
                of[n.seq] = [n]
                units.append(of[n.seq])
        return sorted(units, key=lambda u: u[-1].seq)

    # ---- boxes

    def build(self) -> Model:
        """The boxes and arrows."""
        self.group()
        readers = self.readers = self.find_readers()
        place: dict[Any, int] = {}
        for tensors in self.leaf_groups(readers):
            place.update({id(t): len(self.boxes) for t in tensors})
            self.boxes.append(self.leaf_box(tensors[0], readers) if len(tensors) == 1 else self.leaf_crowd(tensors))
        far = {id(t) for t in self.leaves if len(readers.get(id(t), ())) > _MANY_READERS}
        for u in self.ordered_units():
            place[("unit", u)] = len(self.boxes)
            self.boxes.append(self.op_box(self.units[u][0], far) if len(self.units[u]) == 1 else self.group_box(u))
        for n in self.nodes:
            target = place["unit", self.unit[n.seq]]
            for e in n.edges:
                source = None
                if isinstance(e, Node):
                    source = place["unit", self.unit[e.seq]]
                elif e is not None and id(e) in place and id(e) not in far:
                    source = place[id(e)]
                if source is not None and source != target:
                    self.arrows[source, target] = None
        self.outputs(place)
        return Model(self.boxes, list(self.arrows), self.summary(), self.notes)

    def find_readers(self) -> dict[int, set[int]]:
        """For each leaf the units that read it."""
        out: dict[int, set[int]] = {}
        for n in self.nodes:
            for e in n.edges:
                if isinstance(e, Tensor):
                    out.setdefault(id(e), set()).add(self.unit[n.seq])
        return out

    def leaf_groups(self, readers: dict[int, set[int]]) -> list[list[Tensor]]:
        """Leaves that share a box; a leaf that a group of operators alone reads is drawn in that group."""
        groups: dict[Any, list[Tensor]] = {}
        crowded = len(self.leaves) > self.limit
        for t in self.leaves:
            at = readers.get(id(t), set())
            if len(at) == 1 and len(self.units[next(iter(at))]) > 1:
                continue
            groups.setdefault(("crowd", tuple(sorted(at))) if crowded else id(t), []).append(t)
        out: list[list[Tensor]] = []
        for tensors in groups.values():
            out += [[t] for t in tensors] if len(tensors) <= _MANY_LEAVES else [tensors]
        return out

    def ordered_units(self) -> list[int]:
        """The units so that every arrow leads forward."""
        before: dict[int, set[int]] = {i: set() for i in range(len(self.units))}
        after: dict[int, set[int]] = {i: set() for i in range(len(self.units))}
        for n in self.nodes:
            for e in n.edges:
                if isinstance(e, Node) and self.unit[e.seq] != self.unit[n.seq]:
                    before[self.unit[n.seq]].add(self.unit[e.seq])
                    after[self.unit[e.seq]].add(self.unit[n.seq])
        ready = [i for i in before if not before[i]]
        out = []
        while ready:
            i = ready.pop(0)
            out.append(i)
            for j in sorted(after[i]):
                before[j].discard(i)
                if not before[j]:
                    ready.append(j)
        return out

    def leaf_box(self, t: Tensor, readers: dict[int, set[int]]) -> Box:
        """A leaf: shape, bytes, gradient."""
        rows = [("plain", tensor_text(t))]
        if t.requires_grad:
            rows.append(("grad", f"grad {tensor_text(t.grad)}") if t.grad is not None else ("note", "grad None"))
        else:
            rows.append(("note", "requires_grad is False: no graph was recorded"))
        if t._extra is not None and (t._extra.hooks or t._extra.post_hooks):
            rows.append(("note", _count(len(t._extra.hooks) + len(t._extra.post_hooks), "hook")))
        many = len(readers.get(id(t), ()))
        if many > _MANY_READERS:
            rows.append(("note", f"read by {many} boxes that name it (no arrows drawn)"))
        kind = type(t).__name__ + " leaf" if type(t) is not Tensor else "leaf"
        return Box("leaf", self.leaf_name(t), rows, kind)

    def leaf_crowd(self, tensors: list[Tensor]) -> Box:
        total = sum(t._data.nbytes for t in tensors if t._data is not None)
        names = ", ".join(self.leaf_name(t) for t in tensors[:3])
        rows = [
            ("plain", f"{names}, ..."),
            ("plain", bytes_text(total)),
            ("grad", f"{sum(t.grad is not None for t in tensors)} have a gradient"),
        ]
        return Box("leaf", f"{len(tensors)} leaves", rows)

    def op_box(self, n: Node, far: set[int]) -> Box:
        """An operator: what it makes, what it keeps, what hangs on it."""
        made = [x for i in range(max(1, len(_specs(n)))) for x in self.made.get((n.seq, i), [])]
        rows = [("plain", (", ".join(made) + ": " if made else "") + ", ".join(shape_text(*s) for s in _specs(n)))]
        rows += self.kept_rows(n)
        for e in n.edges:
            if isinstance(e, Tensor) and id(e) in far:
                rows.append(("plain", f"reads {self.leaf_name(e)}"))
        rows += retained(n)
        if n.hooks is not None:
            count = len(n.hooks["pre"]) + len(n.hooks["post"]) + sum(len(h) for h in n.hooks["tensor"].values())
            rows += [("note", _count(count, "hook"))] if count else []
        line = line_of(n)
        if line:
            rows.append(("note", line))
        inputs = ", ".join(self.edge_text(e, nr) for e, nr in zip(n.edges, n.nrs, strict=False))
        return Box("op", short_name(n), rows, f"#{self.number[n.seq]} {short_name(n)}({inputs})", self.number[n.seq])

    def edge_text(self, e: Any, nr: int) -> str:
        """Where the gradient of one input goes."""
        if e is None:
            return "-"
        if isinstance(e, Tensor):
            return self.leaf_name(e)
        many = e.op is None or e.op.n_out != 1
        return f"#{self.number[e.seq]}" + (f".{nr}" if many and len(_specs(e)) > 1 else "")

    def kept_rows(self, n: Node) -> list[tuple[str, str]]:
        """What the node keeps for backward, a row each."""
        rows = [
            ("saved", f"saves {k.name}: {self.kept_text(k)}")
            if not k.stale
            else ("warn", f"saves {k.name}: changed in place since, backward will fail")
            for k in kept_by(n)
        ]
        if len(rows) > _MANY_KEPT:
            rows = rows[: _MANY_KEPT - 1] + [("saved", f"saves {len(rows) - _MANY_KEPT + 1} more")]
        return rows + ([("note", "freed by backward")] if n.freed else [])

    def kept_text(self, k: Kept) -> str:
        if k.source == "packed" and k.nbytes is None:
            return f"packed ({k.dtype})"
        text = f"{k.dtype}[{', '.join(map(str, k.shape))}] {bytes_text(k.nbytes)}"
        if k.nbytes is not None and k.owner_bytes > k.nbytes:
            text += f" of {bytes_text(k.owner_bytes)}"
        if k.leaf is not None:
            return f"{text} ({self.names.get(id(k.leaf), 'leaf')})"
        return text + (" (packed)" if k.source == "packed" else "")

    def group_box(self, u: int) -> Box:
        """Several operators in one box."""
        members = self.units[u]
        names = Counter(short_name(n) for n in members)
        rows = [("plain", f"{c} {name}") for name, c in names.most_common(4)]
        rows += [("plain", f"and {len(names) - 4} other kinds")] if len(names) > 4 else []
        own, _ = memory(members)
        inside = [t for t in leaves_of(members) if self.readers.get(id(t)) == {u}]
        rows.append(("saved", f"saves {bytes_text(own)} (leaves not counted)"))
        if inside:
            some = ", ".join(self.leaf_name(t) for t in inside[:3]) + (", ..." if len(inside) > 3 else "")
            have = sum(t.grad is not None for t in inside)
            rows.append(("plain", f"{_count(len(inside), 'leaf', 'leaves')}: {some}"))
            rows.append(("grad", f"{have} of them have a gradient") if have else ("note", "grad None"))
        freed = sum(n.freed for n in members)
        rows += [("note", f"{freed} freed by backward")] if freed else []
        first, last = self.number[members[0].seq], self.number[members[-1].seq]
        return Box("group", f"{len(members)} operators", rows, f"#{first} to #{last}", first)

    def outputs(self, place: dict) -> None:
        """The tensors that were asked for."""
        for i, t in enumerate(self.roots):
            node = t.grad_fn
            if node is None:
                continue
            name = self.names.get(id(t)) or ("output" if len(self.roots) == 1 else f"output {i}")
            rows = [("plain", tensor_text(t))]
            if t._grad is not None:
                rows.append(("grad", f"grad {tensor_text(t._grad)}"))
            self.arrows[place["unit", self.unit[node.seq]], len(self.boxes)] = None
            self.boxes.append(Box("output", name, rows))

    def summary(self) -> str:
        """One line about the whole graph."""
        if not self.nodes:
            return "no operators were recorded"
        own, leaf = memory(self.nodes)
        freed = sum(n.freed for n in self.nodes)
        text = f"{_count(len(self.nodes), 'operator')}, {_count(len(self.leaves), 'leaf', 'leaves')}"
        text += f", {bytes_text(own)} saved for backward"
        text += f" and {bytes_text(leaf)} of leaves" if leaf else ""
        return text + (f"; {freed} freed by backward" if freed else "")


def retained(n: Node) -> list[tuple[str, str]]:
    """Gradients that ``retain_grad`` kept for the results of ``n``."""
    rows = []
    for ref in n.hooks["retain"].values() if n.hooks is not None else ():
        t = ref()
        if t is not None:
            g = t._grad
            rows.append(("grad", f"grad {tensor_text(g)}") if g is not None else ("note", "retains its gradient"))
    return rows


def _specs(n: Node) -> list[tuple[tuple, Any]]:
    """(shape, dtype) of every result of ``n``."""
    if n.op is not None:
        return [(n.shape, n.dtype)] if n.op.n_out == 1 else list(zip(n.shape, n.dtype, strict=False))
    return [n.output_spec(i) for i in range(n.n_out)]


def _count(n: int, one: str, many: str | None = None) -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
