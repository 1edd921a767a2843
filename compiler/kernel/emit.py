"""From groups of stages to loop nests.

A stage belongs to a *phase* of its group's nest: level 0 needs no reduction of the nest, level k+1 needs results of
level k.  A value computed in one phase and read in a later one is computed again if that is cheap, else kept in a row
of scratch memory or in its buffer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from fusegrad import dtypes
from fusegrad.native.nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, ScalarParam, Scratch, SizeParam, Store
from fusegrad.native.scalar import Builder, Expr, walk

from ..ir.graph import Value
from .affine import Ix, linearize, product
from .columns import along_rows, by_rows
from .fuse import Group
from .memory import dense_order
from .parts import in_parts
from .stages import PAIRS, Stage, reduced_axes, scan_operands
from .tile import tile
from .values import Evaluator, Index, number_type, position, scalar_attr, size_text
from .views import has_rule

__all__ = ["Buffer", "KernelBuilder"]

ROW_BYTES = 48 * 1024  # scratch of one nest
AGAIN = 8  # weight up to which a value is computed again in a later phase


PhaseKey = tuple[int, tuple[int, ...], int]
"""Of a phase: its level, its loops, the direction of its running reductions (0: it has none)."""


@dataclass(eq=False)
class Buffer:
    """An array in memory that kernels address by name, with strides in elements."""

    name: str
    dtype: Any
    shape: tuple
    strides: tuple
    kind: str  # "input", "result", "temp" or "extern"
    offset: Any = 0
    order: tuple[int, ...] | None = None  # dimensions from slowest to fastest, if not in C order
    ready: bool = False  # an input, or made by a library call: complete before any loop of a kernel runs


@dataclass(eq=False)
class _Keep:
    """How a stage's value reaches later phases: "again", "buffer" or the name of a scratch row."""

    how: str
    size: int = 0


class _GroupPlan:
    """Phases of one group and how values pass between them."""

    def __init__(self, group: Group, stored: set[Value]) -> None:
        self.group = group
        self.at: dict[Value, Index] = {}
        self.made: dict[Value, Stage] = {}
        self.phase: dict[Stage, PhaseKey] = {}
        self.level: dict[Stage, int] = {}
        self.keep: dict[Value, _Keep] = {}
        self.runs: dict[Stage, set[PhaseKey]] = {}  # phases in which a stage is computed
        self.stored = set(stored)
        self.ignored: set[Value] = set().union(*(s.ignored for s in group.stages))
        for stage in group.stages:
            self.at[stage.value] = tuple(ix.rename(group.maps[stage]) for ix in stage.index)
            self.made[stage.value] = stage
        for stage in group.stages:
            level = 0
            for value, _ in stage.reads:
                source = self.made.get(value)
                if source is not None and source is not stage:
                    level = max(level, self.level[source] + (source.combine is not None))
            self.level[stage] = level
            self.phase[stage] = level, self.loops_of(stage), stage.scan
        self.decide()

    def loops_of(self, stage: Stage) -> tuple[int, ...]:
        """Inner loops of a stage. Any order will do, except for the position of an extremum, which counts in its own
        order.
        """
        inner = self.group.inner_of(stage)
        return tuple(inner if stage.scan or stage.combine in ("argmax", "argmin") else sorted(inner))

    def decide(self) -> None:
        """Choose how each value passes to later phases: readers first, because what is computed again there computes
        (or loads) all that it reads there too.
        """
        later: dict[Stage, set[Any]] = {s: set() for s in self.group.stages}
        used = 0
        for stage in reversed(self.group.stages):
            self.runs[stage] = {self.phase[stage]}
            if later[stage]:
                keep = self.keep[stage.value] = self.way(stage, used)
                used += keep.size * stage.value.meta.dtype.itemsize
                if keep.how == "again":
                    self.runs[stage] |= later[stage]
                elif keep.how == "buffer":
                    self.stored.add(stage.value)
            for value, _ in stage.reads:
                source = self.made.get(value)
                if source is not None and source is not stage and (source.combine is None or source.scan):
                    later[source] |= self.runs[stage] - {self.phase[source]}

    def way(self, stage: Stage, used: int) -> _Keep:
        """How a value that later phases need gets there. ``used``: bytes of scratch that are taken."""
        inner = self.group.inner_of(stage)
        loads = sum(1 for _, at in stage.reads if {a for ix in at for a, _ in ix.terms} >= set(stage.outer))
        if not stage.scan and (not inner or stage.cost <= AGAIN and (loads < 2 or stage.value not in self.stored)):
            return _Keep("again")  # but one load of what is stored anyway is less than several of what it is made of
        size = product([self.group.sizes[a] for a in inner])
        fits = type(size) is int and used + size * stage.value.meta.dtype.itemsize <= ROW_BYTES
        return _Keep("scratch", size) if fits and stage.value not in self.stored else _Keep("buffer")


@dataclass
class KernelBuilder:
    """Collects nests that run in one native call."""

    buffers: dict[Value, Buffer]
    numbers: dict[Value, str]  # run-time numbers: graph input -> parameter name
    errors: list[str] = field(default_factory=list)
    nests: list[Nest] = field(default_factory=list)
    scratch: dict[str, Scratch] = field(default_factory=dict)
    params: dict[str, tuple[str, Any]] = field(default_factory=dict)  # variable of the caller -> (parameter, dtype)
    scalars: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def error(self, text: str) -> int:
        if text not in self.errors:
            self.errors.append(text)
        return self.errors.index(text) + 1

    def add(self, plan: _GroupPlan) -> Nest:
        nest = _NestWriter(self, plan).write()
        joined = along_rows(self.nests[-1], nest, len(self.nests)) if self.nests else None
        if joined is not None:
            self.nests.pop()
        joined = joined or by_rows(nest, len(self.nests))
        nests, between = joined or in_parts(nest, plan.group.points(), len(self.nests))
        self.nests += nests
        self.scratch.update((s.name, s) for s in between)
        return nest

    def array(self, name: str, dtype: Any) -> str:
        """The kernel's own name for an array: numbered by first use, so that kernels of the same structure are the
        same kernel.
        """
        return self.params.setdefault(name, (f"a{len(self.params)}", dtype))[0]

    def number(self, name: str, dtype: Any) -> Expr:
        return Builder().scalar(self.scalars.setdefault(name, (f"n{len(self.scalars)}", dtype))[0], dtype)

    def row(self, dtype: Any, size: int, taken: list[str]) -> str:
        """A scratch row that this nest does not use yet."""
        k = 0
        while f"row{k}_{dtype.short}" in taken:
            k += 1
        name = f"row{k}_{dtype.short}"
        old = self.scratch.get(name)
        self.scratch[name] = Scratch(name, dtype, max(size, old.size if old else 0))
        return name

    def scratch_bytes(self) -> int:
        return sum(s.size * s.dtype.itemsize for s in self.scratch.values())

    def kernel(self, name: str) -> tuple[Kernel, list[str]]:
        """The finished kernel and the caller's variables to pass, in order: arrays, run-time numbers, sizes."""
        read, written, sizes = _used(self.nests)
        # an array whose elements do not matter after all (full_like's) may not exist yet when the kernel runs
        arrays = {name: p for name, p in self.params.items() if p[0] in read or p[0] in written}
        params: list[Any] = [ArrayParam(n, d, n in written) for n, d in arrays.values()]
        params += [ScalarParam(n, d) for n, d in self.scalars.values()]
        params += [SizeParam(n) for n in sorted(sizes)]
        kernel = Kernel(name, tuple(params), tuple(self.nests), tuple(self.scratch.values()), tuple(self.errors))
        return kernel, [*arrays, *self.scalars, *sorted(sizes)]


class _NestWriter:
    def __init__(self, kernel: KernelBuilder, plan: _GroupPlan) -> None:
        self.kernel, self.plan, self.group = kernel, plan, plan.group
        self.b = Builder()
        self.loops = [f"i{axis}" for axis in range(len(self.group.sizes))]
        self.rows: dict[Value, str] = {}
        self.names = {s: f"r{k}" for k, s in enumerate(s for s in self.group.stages if s.combine is not None)}
        self.phases: dict[PhaseKey, tuple[list[Reduce], list[Store]]] = {}
        self.evaluators: dict[PhaseKey, Evaluator] = {}

    # -- leaves -------------------------------------------------------------------------------------
    def evaluator(self, phase: PhaseKey) -> Evaluator:
        found = self.evaluators.get(phase)
        if found is None:
            space = _SizesOnly(self.group.sizes)
            leaf = lambda v, ix: self.leaf(phase, v, ix)
            found = Evaluator(space, self.loops, leaf, self.held, self.scalar, self.kernel.error, self.kernel.number)  # type: ignore[arg-type]
            self.evaluators[phase] = found
        return found

    def scalar(self, value: Value) -> Expr:
        return self.kernel.number(self.kernel.numbers[value], number_type(value))

    def held(self, value: Value) -> str | None:
        node, buffer = value.node, self.kernel.buffers.get(value)
        if buffer is not None and buffer.ready:
            return "strided" if node is None and value.meta.strides is not None else "input"
        if node is not None and has_rule(node.op):
            return None
        if buffer is None and value not in self.plan.made:
            return "strided" if value in self.plan.ignored else None
        return "root" if dense_order(value.meta) is None else "strided"

    def leaf(self, phase: PhaseKey, value: Value, index: Index) -> Expr | None:
        stage = self.plan.made.get(value)
        if stage is None or index != self.plan.at[value]:
            buffer = self.kernel.buffers.get(value)
            if buffer is None and value in self.plan.ignored:
                return self.b.const(0, value.meta.dtype)
            if buffer is None or (not buffer.ready and value.node is not None and has_rule(value.node.op)):
                return None
            strides = buffer.strides if len(index) == len(buffer.shape) else (1,)  # by position, see Evaluator
            return self.evaluator(phase).load(
                self.kernel.array(buffer.name, buffer.dtype), buffer.dtype, strides, index
            )
        if stage.combine is not None and not stage.scan:
            return self.accumulator(stage)
        if self.plan.phase[stage] == phase:
            return None
        keep = self.plan.keep.get(value)
        if keep is None or keep.how == "again":
            return None
        if keep.how == "buffer":
            buffer = self.kernel.buffers[value]
            name = self.kernel.array(buffer.name, buffer.dtype)
            return self.evaluator(phase).load(name, buffer.dtype, buffer.strides, index, buffer.offset)
        return self.evaluator(phase).load(self.rows[value], value.meta.dtype, (1,), (self.row_index(stage),))

    def row_index(self, stage: Stage) -> Ix:
        inner = sorted(self.group.inner_of(stage))
        return linearize([Ix(((a, 1),)) for a in inner], [self.group.sizes[a] for a in inner])

    def accumulator(self, stage: Stage) -> Expr:
        value, node = stage.value, stage.node
        acc = self.b.acc(self.names[stage], self.accumulated_type(stage))
        if node.op.name in PAIRS or stage.scan:
            return self.b.cast(acc, value.meta.dtype)
        shape = node.args[0].meta.shape
        count = product([shape[d] for d in reduced_axes(node)])
        n = count if type(count) is int else self.b.size(size_text(count))
        result = node.op.reduce.finish(self.b, acc, n, **self.attrs(node))
        return self.b.cast(result, value.meta.dtype)

    def attrs(self, node: Any) -> dict[str, Any]:
        """Attributes as scalar rules take them: symbolic sizes as expressions."""
        return {k: scalar_attr(self.b, v) for k, v in node.attrs.items()}

    def accumulated_type(self, stage: Stage) -> Any:
        """The dtype that the accumulator holds."""
        node = stage.node
        if stage.combine in ("argmax", "argmin"):
            return dtypes.int64
        if stage.combine in ("and", "or"):
            return dtypes.bool_
        d = stage.value.meta.dtype if stage.combine in ("add", "mul", "linear") else node.args[0].meta.dtype
        return dtypes.float32 if d is dtypes.float16 else d

    # -- statements ---------------------------------------------------------------------------------
    def write(self) -> Nest:
        group = self.group
        for stage in group.stages:
            value = stage.value
            keep = self.plan.keep.get(value)
            if keep is not None and keep.how == "scratch":
                self.rows[value] = self.kernel.row(value.meta.dtype, keep.size, list(self.rows.values()))
            if stage.scan:
                self.scan(stage)
            elif stage.combine is not None:
                self.reduce(stage)
            else:
                self.store(stage)
        order = self.outer_order()
        phases = []
        for key in sorted(self.phases, key=lambda k: (k[0], len(k[1]), k[1], abs(k[2]), k[2])):
            reduces, stores = self.phases[key]
            if reduces or stores:
                loops = tuple(Loop(self.loops[a], size_text(group.sizes[a])) for a in key[1])
                phases.append(Phase(loops, tuple(reduces), tuple(stores)))
        outer = tuple(Loop(self.loops[a], size_text(group.sizes[a])) for a in order)
        return tile(Nest(outer, tuple(phases), group.kinds))

    def outer_order(self) -> list[int]:
        """Outer loops in the order of the dimensions of the largest value the nest makes."""
        group = self.group
        stored = [s for s in group.stages if s.value in self.plan.stored] or group.stages
        main = max(stored, key=lambda s: (s.points, -s.number))
        order = [a for a in group.maps[main] if a in group.outer]
        buffer = self.kernel.buffers.get(main.value)
        if buffer is not None and (main.combine is None or main.scan):
            where = position(self.plan.at[main.value], buffer.strides)
            steps = dict(where.terms)
            if all(type(c) is int for c in steps.values()):
                order.sort(key=lambda a: -steps.get(a, 0))
        return order

    def slot(self, phase: PhaseKey) -> tuple[list[Reduce], list[Store]]:
        return self.phases.setdefault(phase, ([], []))

    def reduce(self, stage: Stage) -> None:
        node, group, plan = stage.node, self.group, self.plan
        phase = plan.phase[stage]
        ev = self.evaluator(phase)
        x = ev.value(node.args[0], tuple(ix.rename(group.maps[stage]) for ix in stage.source))
        x = ev.widen(x)
        if node.op.name not in PAIRS:
            x = node.op.reduce.pre(self.b, x, **self.attrs(node))
        want = self.accumulated_type(stage)
        if not stage.combine.startswith("arg"):  # type: ignore[union-attr]
            x = self.b.cast(x, want)
        reduces, _ = self.slot(phase)
        reduces.append(Reduce(self.names[stage], stage.combine, x, want))  # type: ignore[arg-type]
        if stage.value in plan.stored:
            _, stores = self.slot((plan.level[stage] + 1, (), 0))
            stores.append(self.store_to(ev, stage.value, self.accumulator(stage)))

    def scan(self, stage: Stage) -> None:
        """A running reduction, stored at every element."""
        group, value, how = self.group, stage.value, stage.node.op.scan
        assert how is not None and stage.combine is not None
        phase = self.plan.phase[stage]
        ev, want = self.evaluator(phase), self.accumulated_type(stage)
        at = tuple(ix.rename(group.maps[stage]) for ix in stage.source)
        x, factor = scan_operands(ev, stage.node, at)
        attrs = {k: v for k, v in self.attrs(stage.node).items() if k != "dim"}
        x = self.b.cast(how.pre(self.b, x, **attrs), want)
        reduces, stores = self.slot(phase)
        reduces.append(Reduce(self.names[stage], stage.combine, x, want, stage.scan, factor))
        made = self.accumulator(stage)
        if value in self.plan.stored:
            stores.append(self.store_to(ev, value, made))
        if value in self.rows:
            stores.append(_store(ev, self.rows[value], made, self.row_index(stage)))

    def store(self, stage: Stage) -> None:
        plan, value = self.plan, stage.value
        ev = self.evaluator(plan.phase[stage])
        wanted = value in plan.stored
        row = self.rows.get(value)
        expr = ev.compute(value, plan.at[value])
        ev.memo[value, plan.at[value], None] = expr
        if not wanted and row is None:
            return
        _, stores = self.slot(plan.phase[stage])
        if wanted:
            stores.append(self.store_to(ev, value, expr))
        if row is not None:
            stores.append(_store(ev, row, expr, self.row_index(stage)))

    def store_to(self, ev: Evaluator, value: Value, expr: Expr) -> Store:
        buffer = self.kernel.buffers[value]
        name = self.kernel.array(buffer.name, buffer.dtype)
        return _store(ev, name, expr, position(self.plan.at[value], buffer.strides) + buffer.offset)


class _SizesOnly:
    """A space whose loops are fixed: an index that is not affine becomes arithmetic."""

    splits = False

    def __init__(self, sizes: list[Any]) -> None:
        self.sizes = sizes


def _store(ev: Evaluator, buffer: str, expr: Expr, where: Ix) -> Store:
    return Store(
        buffer,
        expr,
        size_text(where.const),
        {ev.loops[a]: size_text(c) for a, c in where.terms},
        [(e, size_text(c)) for e, c in where.dyn],
    )


def plan_group(group: Group, stored: set[Value]) -> _GroupPlan:
    return _GroupPlan(group, {s.value for s in group.stages if s.value in stored})


_NAME = re.compile(r"[A-Za-z_]\w*")


def _size_names(size: Any, into: set[str]) -> None:
    if isinstance(size, str):
        into.update(n for n in _NAME.findall(size) if n not in ("min", "max"))


def _used(nests: list[Nest]) -> tuple[set[str], set[str], set[str]]:
    """Names of the buffers read and written, and of the sizes used in some nests."""
    read: set[str] = set()
    written: set[str] = set()
    sizes: set[str] = set()

    def access(a: Any) -> None:
        for size in (a.offset, *a.gather, *(c for _, c in a.terms)):
            _size_names(size, sizes)

    for nest in nests:
        for loop in nest.outer:
            _size_names(loop.size, sizes)
        for phase in nest.phases:
            for loop in phase.inner:
                _size_names(loop.size, sizes)
            for e in walk(phase.roots()):
                if e.op == "load":
                    read.add(e.attr.buffer)
                    access(e.attr)
                elif e.op == "size":
                    _size_names(e.attr, sizes)
            for s in phase.stores:
                written.add(s.access.buffer)
                access(s.access)
    return read, written, sizes
