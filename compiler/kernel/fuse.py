"""Which stages share loops.

A ``Group`` becomes one loop nest: outer loops that all its stages run over, and, in *row groups*, inner loops over a
row that is reduced, read again while hot, and written.  Groups start as single stages and are merged:

* a reader with the groups that made what it reads, if it reads each such element at the very point of the outer loops
  where it is made;
* two groups that read the same array at the same places.

A merge is legal only if the group stays *convex*: no path from one of its stages to another may leave it, or the two
could not run as one.  With groups as vertices, that is: neither reaches the other through a third.  ``before`` holds,
for every group, the set (bits) of groups that must run first. Example of what must not happen: a -> b -> c with b a
matrix product and a, c in one group.

Every refusal is kept as one sentence with both names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fusegrad.sizes import hint_of

from ..ir.graph import Node, Value
from .affine import Ix, product, same
from .joins import is_join
from .stages import Analysis, Stage, read_by

__all__ = ["Fusion", "Group", "fuse", "match"]

MAX_STAGES = 48
MAX_COST = 900
MAX_READS = 40
SERIAL_POINTS = 1 << 16  # a loop after a full reduction is joined to it only below this: it could not use threads
COLUMN_POINTS = 1 << 16
STORE_POINTS = 1 << 20  # likewise for a stored value that is reduced to one number


@dataclass(eq=False)
class Group:
    """Stages that share outer loops. ``maps[stage]``: the group's axis of each axis of the stage."""

    id: int
    stages: list[Stage] = field(default_factory=list)
    node: Node | None = None  # an extern call instead of stages
    sizes: list[Any] = field(default_factory=list)
    outer: list[int] = field(default_factory=list)
    maps: dict[Stage, list[int]] = field(default_factory=dict)
    row: bool = False
    before: int = 0

    @property
    def name(self) -> str:
        return self.node.op.name if self.node is not None else "+".join(s.name for s in self.stages[:4])

    @property
    def called(self) -> list[Value]:
        """Results of the library call or join."""
        return [] if self.node is None else self.node.outputs

    @property
    def kinds(self) -> str:
        """The operators at the roots, without numbers."""
        return " + ".join(s.node.op.name for s in self.stages)

    @property
    def cost(self) -> int:
        return sum(s.cost for s in self.stages)

    def inner_of(self, stage: Stage) -> list[int]:
        """The stage's loops inside the outer ones, in its own order."""
        return [axis for axis in self.maps[stage] if axis not in self.outer]

    def points(self) -> int:
        return int(product([hint_of(s) for s in self.sizes]))

    def by_columns(self) -> bool:
        """Whether a reduction runs over other dimensions than the last."""
        return any(s.combine is not None and s.inner and s.outer and max(s.outer) > max(s.inner) for s in self.stages)


@dataclass
class Fusion:
    groups: list[Group]  # in running order
    refusals: list[str]


def match(
    made: tuple[Ix, ...], read: tuple[Ix, ...], made_sizes: list[Any], read_sizes: list[Any]
) -> dict[int, int] | None:
    """Axis of the maker -> axis of the reader under which both indices are the same element, or None."""
    pairs: dict[int, int] = {}
    if len(made) != len(read):
        return None
    for a, b in zip(made, read, strict=True):
        if a.dyn or b.dyn or len(a.terms) != len(b.terms) or not same(a.const, b.const):
            return None
        left = list(b.terms)
        for axis, coef in a.terms:
            found = next((t for t in left if same(t[1], coef) and same(made_sizes[axis], read_sizes[t[0]])), None)
            if found is None or axis in pairs or found[0] in pairs.values():
                return None
            left.remove(found)
            pairs[axis] = found[0]
    return pairs


class _Refused(Exception):
    pass


class _Fuser:
    def __init__(self, analysis: Analysis) -> None:
        self.a = analysis
        self.groups: dict[int, Group] = {}
        self.home: dict[Value, Group] = {}  # root or extern result -> its group
        self.refusals: dict[str, None] = {}
        self.readers: dict[Value, list[Group]] = {}

    # -- graph of groups ----------------------------------------------------------------------------
    def add(self, step: Stage | Node) -> Group:
        g = Group(len(self.groups))
        while g.id in self.groups:
            g.id += 1
        if isinstance(step, Stage):
            g.stages, g.sizes, g.outer = [step], list(step.space.sizes), list(step.outer)
            g.maps[step] = list(range(len(step.space.sizes)))
            g.row = step.combine is not None
            read = [v for v, _ in step.reads]
            made = [step.value]
        else:
            g.node = step
            read = read_by(step, self.a.arrays)
            made = step.outputs
        for value in read:
            source = self.home.get(value)
            if source is not None:
                g.before |= source.before | 1 << source.id
            self.readers.setdefault(value, []).append(g)
        for value in made:
            self.home[value] = g
        self.groups[g.id] = g
        return g

    def sources(self, g: Group) -> list[Group]:
        """Groups that made what ``g`` reads, latest first."""
        found = {
            self.home[v].id: self.home[v]
            for s in g.stages
            for v, _ in s.reads
            if v in self.home and self.home[v] is not g
        }
        return [found[k] for k in sorted(found, reverse=True)]

    def through_third(self, a: Group, b: Group) -> Group | None:
        """A group that must run between a and b."""
        for first, last in ((a, b), (b, a)):
            if not last.before >> first.id & 1:
                continue
            for g in self.predecessors(last):
                if g is not first and g.before >> first.id & 1:
                    return g
        return None

    def predecessors(self, g: Group) -> Iterator[Group]:
        values = [v for s in g.stages for v, _ in s.reads]
        for value in values:
            source = self.home.get(value)
            if source is not None and source is not g:
                yield source

    # -- merging ------------------------------------------------------------------------------------
    def try_merge(self, a: Group, b: Group) -> bool:
        """Merge b into a if that is legal and sensible; else remember why not."""
        try:
            self.merge(a, b)
            return True
        except _Refused as why:
            self.refusals[f"{a.name} and {b.name} stay apart: {why}"] = None
            return False

    def merge(self, a: Group, b: Group) -> None:
        if a.node is not None or b.node is not None:
            raise _Refused(f"{(a if a.node is not None else b).name} is a library call")
        if len(a.stages) + len(b.stages) > MAX_STAGES or a.cost + b.cost > MAX_COST:
            raise _Refused("the loop would be too large")
        if len({v for g in (a, b) for s in g.stages for v, _ in s.reads}) > MAX_READS:
            raise _Refused("the loop would read too many arrays")
        between = self.through_third(a, b)
        if between is not None:
            raise _Refused(f"{between.name} must run between them")
        mapping = self.mapping(a, b)
        if b.row and not a.row:
            outer = [mapping.get(axis) for axis in b.outer]
            if None in outer:
                raise _Refused(f"{a.name} does not run over all rows of {b.name}")
            outer_axes: list[int] = [axis for axis in outer if axis is not None]
        elif a.row:
            if not set(a.outer) <= {mapping.get(axis) for axis in (b.outer if b.row else range(len(b.sizes)))}:
                raise _Refused(f"{b.name} does not run over the rows of {a.name}")
            if b.row and len(b.outer) != len(a.outer):
                raise _Refused("their rows differ")
            outer_axes = a.outer
        else:
            if len(mapping) != len(b.sizes) or len(b.sizes) != len(a.sizes):
                raise _Refused("their loops differ")
            outer_axes = a.outer
        if not outer_axes and any(x not in mapping for x in range(len(b.sizes))):
            raise _Refused(f"{b.name} and {a.name} have no loop in common")
        self.check_size(a, b, outer_axes)
        self.apply(a, b, mapping, outer_axes)

    def check_size(self, a: Group, b: Group, outer: list[int]) -> None:
        """Refuse to put large independent work under one serial loop."""
        if not (a.row or b.row):
            return
        if any(s.scan for g in (a, b) for s in g.stages) and (a.by_columns() or b.by_columns()):
            raise _Refused("a scan down columns runs alone: what passes between loops would be whole columns")
        if outer:
            for row, other in ((a, b), (b, a)):
                if row.row and not other.row and row.by_columns() and max(a.points(), b.points()) > COLUMN_POINTS:
                    raise _Refused(f"{row.name} walks down columns, {other.name} along rows, and the data is large")
            return
        later = b if b.before >> a.id & 1 else a
        earlier = a if later is b else b
        if earlier.row and later.points() > SERIAL_POINTS:
            raise _Refused(f"{later.name} is large and would run inside the loop of the full reduction {earlier.name}")
        if max(a.points(), b.points()) > STORE_POINTS and not (a.row and b.row):
            raise _Refused("the full reduction would keep the other from using threads")

    def mapping(self, a: Group, b: Group) -> dict[int, int]:
        """Axis of b -> axis of a, from what one reads of the other, else from what both read."""
        pairs: dict[int, int] = {}
        linked = False
        for maker, reader in ((a, b), (b, a)):
            made = {s.value: s for s in maker.stages}
            for stage in reader.stages:
                for value, at in stage.reads:
                    source = made.get(value)
                    if source is None:
                        continue
                    linked = True
                    m = match(source.index, at, source.space.sizes, stage.space.sizes)
                    needed = len(source.space.sizes) if source.scan else len(source.outer)
                    if m is None or len(m) != needed:
                        raise _Refused(f"{stage.name} reads {source.name} at other places than it is made")
                    for x, y in m.items():
                        x, y = maker.maps[source][x], reader.maps[stage][y]
                        self.pair(pairs, *((y, x) if maker is a else (x, y)), value)
        if not linked:
            pairs = self.shared(a, b)
        self.extend(a, b, pairs)
        return pairs

    def extend(self, a: Group, b: Group, pairs: dict[int, int]) -> None:
        """Pair loops that nothing forces together, so that rows are walked once: by common reads, then by size."""
        theirs: dict[Value, list[tuple[Stage, tuple]]] = {}
        for stage in b.stages:
            for value, at in stage.reads:
                theirs.setdefault(value, []).append((stage, at))
        for stage in a.stages:
            for value, at in stage.reads:
                for other, other_at in theirs.get(value, ()):
                    m = match(other_at, at, other.space.sizes, stage.space.sizes) or {}
                    found = {b.maps[other][x]: a.maps[stage][y] for x, y in m.items()}
                    if all(pairs.get(k, v) == v for k, v in found.items()):
                        for k, v in found.items():
                            if k not in pairs and v not in pairs.values():
                                pairs[k] = v
        if any(g.row and not g.outer for g in (a, b)):
            return
        left = [x for x in range(len(b.sizes)) if x not in pairs]
        mine = [y for y in range(len(a.sizes)) if y not in pairs.values()]
        for x in left:
            y = next((y for y in mine if same(a.sizes[y], b.sizes[x])), None)
            if y is not None:
                mine.remove(y)
                pairs[x] = y

    def pair(self, pairs: dict[int, int], b_axis: int, a_axis: int, value: Value) -> None:
        if pairs.get(b_axis, a_axis) != a_axis or any(k != b_axis and v == a_axis for k, v in pairs.items()):
            raise _Refused("they walk shared values in different orders")
        pairs[b_axis] = a_axis

    def shared(self, a: Group, b: Group) -> dict[int, int]:
        """The mapping under which both read a common array at the same places."""
        theirs: dict[Value, list[tuple[Stage, tuple]]] = {}
        for stage in b.stages:
            for value, at in stage.reads:
                theirs.setdefault(value, []).append((stage, at))
        for stage in a.stages:
            for value, at in stage.reads:
                for other, other_at in theirs.get(value, ()):
                    m = match(other_at, at, other.space.sizes, stage.space.sizes)
                    if m is None or len(m) < max(1, min(len(other.space.sizes), len(stage.space.sizes))):
                        continue
                    pairs = {b.maps[other][x]: a.maps[stage][y] for x, y in m.items()}
                    if len(set(pairs.values())) == len(pairs):
                        return pairs
        raise _Refused("they share nothing")

    def apply(self, a: Group, b: Group, mapping: dict[int, int], outer: list[int]) -> None:
        renamed = []
        for axis, size in enumerate(b.sizes):
            if axis not in mapping:
                a.sizes.append(size)
                mapping[axis] = len(a.sizes) - 1
            renamed.append(mapping[axis])
        a.outer, a.row = outer, a.row or b.row
        for stage in b.stages:
            a.maps[stage] = [renamed[x] for x in b.maps[stage]]
            self.home[stage.value] = a
        a.stages = sorted([*a.stages, *b.stages], key=lambda s: self.order[s])
        gone, kept = 1 << b.id, 1 << a.id
        a.before = (a.before | b.before) & ~gone & ~kept
        del self.groups[b.id]
        for g in self.groups.values():
            if g is not a and g.before & (gone | kept):
                g.before = (g.before | a.before | kept) & ~gone

    # -- driver -------------------------------------------------------------------------------------
    def run(self, enabled: bool) -> None:
        self.order = {s: i for i, s in enumerate(x for x in self.a.steps if isinstance(x, Stage))}
        by_leaf: dict[Value, list[int]] = {}
        for step in self.a.steps:
            g = self.add(step)
            if not enabled or g.node is not None:
                continue
            for source in self.sources(g):
                if g.id not in self.groups:
                    break
                if source.id in self.groups and source.node is None and self.try_merge(source, g):
                    g = source
            self.join_siblings(g, by_leaf)

    def join_siblings(self, g: Group, by_leaf: dict[Value, list[int]]) -> None:
        """Merge with groups that read the same arrays."""
        leaves = {v for s in g.stages for v, _ in s.reads}
        seen: set[int] = {g.id}
        for value in leaves:
            for other_id in by_leaf.get(value, ())[-4:]:
                other = self.groups.get(other_id)
                if other is None or other_id in seen or g.id not in self.groups:
                    continue
                seen.add(other_id)
                if self.try_merge(other, g):
                    g = other
        for value in leaves:
            ids = by_leaf.setdefault(value, [])
            if g.id not in ids:
                ids.append(g.id)

    def schedule(self) -> list[Group]:
        """Running order that keeps loop nests together between library calls."""
        left = dict(self.groups)
        done = 0
        order: list[Group] = []
        existing = sum(1 << k for k in left)
        for g in left.values():
            g.before &= existing
        while left:
            ready = [g for g in left.values() if not g.before & ~done]
            nests = [g for g in ready if g.node is None or is_join(g.node)]
            for g in nests or ready:
                order.append(g)
                done |= 1 << g.id
                del left[g.id]
        return order


def fuse(analysis: Analysis, enabled: bool = True) -> Fusion:
    """Group the stages of a graph, in running order, with the reasons for groups that stay apart."""
    f = _Fuser(analysis)
    f.run(enabled)
    return Fusion(f.schedule(), list(f.refusals))
