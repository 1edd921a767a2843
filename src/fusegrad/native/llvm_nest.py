"""One planned nest -> one LLVM function `void name(ptr ctx, i64 lo, i64 hi)`.

ctx is an array of 8-byte slots: parameters (pointers, numbers, sizes), then error code, index and size.  lo..hi is
the part of the first outer loop to run.  The lane loop is printed twice: whole vectors, then one masked step for the
rest, so that an element is computed by the same operations wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusegrad.dtypes import dtype, float32, float64, int64

from .llvm_expr import MEMORY, VECTOR, Module, Writer, constant, emit_op, emit_size, llvm_type, vector
from .llvm_memory import Memory
from .llvm_random import random_word
from .llvm_ranges import Ranges, conditions
from .llvm_reduce import acc_dtype, acc_types, combine, finish, identity, running
from .nest import Loop, Reduce, Scratch, Store
from .plan import PlannedNest, PlannedPhase
from .scalar import Access, Expr, Size, walk

FEW = 8  # loops of fewer steps, known when compiling, are printed once, every step masked: half the code


class Slots:
    """Where the launcher puts each parameter in ctx."""

    def __init__(self, names: list[str]) -> None:
        self.of = {name: k for k, name in enumerate(names)}
        self.error = len(names)  # code, index, size
        self.count = len(names) + 3


class NestPrinter(Memory, Ranges):
    """Prints one nest; `vals` maps (Expr, width) to operands that are available at the current place."""

    def __init__(
        self,
        module: Module,
        nest: PlannedNest,
        name: str,
        buffers: dict[str, dtype],
        slots: Slots,
        row_scratch: list[Scratch],
        split: bool = True,
    ) -> None:
        self.w = Writer(module)
        self.nest, self.name, self.buffers, self.slots, self.split = nest, name, buffers, slots, split
        self.row_scratch = {s.name: s for s in row_scratch}
        self.vals: dict[tuple[Expr, int], str] = {}
        self.sizes: dict[Size, str] = {}
        self.base: dict[Access, tuple[frozenset[str], str]] = {}
        self.pointers: dict[str, str] = {}
        self.loops: dict[str, str] = {}
        self.lane = ""  # the lane loop around the current place, if any
        self.lanes = nest.width if nest.lane_outer else 1  # width of the lane loop to come
        self.width = 1
        self.mask: str | None = None
        self.deps: dict[Expr, frozenset[str]] = {}
        self.pinned: set[Expr] = set()
        self.shared: set[Expr] = set()  # scalars that vectors use
        self.branches: dict[Expr, list[Expr]] = {}
        self.accs: dict[str, tuple[str, int]] = {}
        self.assumed: frozenset[Expr] = frozenset()  # conditions that hold at the current place
        self.guards: list[Expr] = []
        self.written = {s.access.buffer for p in nest.phases for s in p.stores}

    # ------------------------------------------------------------ the frame

    def text(self) -> str:
        w, nest = self.w, self.nest
        for phase in nest.phases:
            self._analyse(phase)
        self.all = [e for p in nest.phases for e in walk(p.roots())]
        self.guards = conditions(self.all)
        if nest.outer:  # nothing may be read ahead of loops that do not run
            w.do(f"br i1 {w.op('icmp slt i64 %lo, %hi')}, label %begin, label %end")
            w.start("begin")
        self._ready(self.all, [a for p in nest.phases for a in self._accesses(p)])
        self._outer(0)
        if nest.outer:
            w.do("br label %end")
            w.start("end")
        w.do("ret void")
        head = f"define internal void @{self.name}(ptr noalias %ctx, i64 %lo, i64 %hi) nounwind {VECTOR} {{"
        return "\n".join([head, "entry:", *w.allocas, *w.lines, "}"])

    def _accesses(self, p: PlannedPhase) -> list[Access]:
        return [e.attr for e in walk(p.roots()) if e.op == "load"] + [s.access for s in p.stores]

    def _outer(self, k: int) -> None:
        nest = self.nest
        if k == len(nest.outer):
            for phase in nest.phases:
                self._phase(phase)
            return
        loop = nest.outer[k]
        lo, hi = ("%lo", "%hi") if k == 0 and self.split else ("0", self.size(loop.size))
        accesses = [a for p in nest.phases for a in self._accesses(p)]

        def body() -> None:
            self.accs = {}
            self._ready(self.all, accesses)
            self._outer(k + 1)

        if nest.lane_outer and k == len(nest.outer) - 1:
            self._lane_loop(loop, lo, hi, body, [s for p in nest.phases for s in p.stores])
        else:
            self._loop(loop.name, lo, hi, 1, body)

    def _phase(self, p: PlannedPhase) -> None:
        order = walk(p.roots())
        accesses = self._accesses(p)
        fold = bool(p.inner) and not self.nest.lane_outer
        if not self.nest.lane_outer:
            self.lanes = p.width if p.inner else 1
        width = self.lanes if fold else self.width
        slots = [self._slots(r, width) for r in p.reduces]

        def inside(k: int) -> None:
            if k == len(p.inner):
                self._point(p, slots)
                return
            loop = p.inner[k]

            def body() -> None:
                self._ready(order, accesses)
                inside(k + 1)

            if p.scan:
                self._loop(loop.name, "0", self.size(loop.size), 1, body, down=p.scan < 0)
            elif k == len(p.inner) - 1 and not self.nest.lane_outer:
                self._lane_loop(loop, "0", self.size(loop.size), body, [] if p.reduces else p.stores)
            else:
                self._loop(loop.name, "0", self.size(loop.size), 1, body)

        vals, base = dict(self.vals), dict(self.base)
        self._ready(order, accesses)
        for r, s in zip(p.reduces, slots, strict=False):
            self._init(r, s, width)
        inside(0)
        self.vals, self.base = vals, base
        for r, s in zip(p.reduces, slots, strict=False):
            self.accs[r.name] = finish(self, r, s, width, fold)

    def _loop(self, name: str, lo: str, hi: str, step: int, body: Callable[[], None], down: bool = False) -> None:
        """``down``: from the last point to the first (lo is 0 and step is 1)."""
        w = self.w
        before, start, after = w.block, w.label("loop"), w.label("done")
        w.do(f"br i1 {w.op(f'icmp slt i64 {lo}, {hi}')}, label %{start}, label %{after}")
        position = len(w.lines)
        w.start(start)
        i, following = w.name(), w.name()
        saved = self.vals, self.base, self.loops
        at = w.op(f"sub nsw i64 {w.op(f'sub nsw i64 {hi}, {i}')}, 1") if down else i
        self.vals, self.base, self.loops = dict(self.vals), dict(self.base), {**self.loops, name: at}
        body()
        self.vals, self.base, self.loops = saved
        w.do(f"{following} = add nsw i64 {i}, {step}")
        w.do(f"br i1 {w.op(f'icmp slt i64 {following}, {hi}')}, label %{start}, label %{after}")
        w.lines.insert(position + 1, f"  {i} = phi i64 [{lo}, %{before}], [{following}, %{w.block}]")
        w.start(after)

    def _lane_loop(self, loop: Loop, lo: str, hi: str, body: Callable[[], None], stores: Sequence[Store]) -> None:
        """Whole vectors, then a masked step; short known loops: masked steps only.

        ``stores``: those whose elements may be computed in any vector, of which the first decides where vectors begin.
        """
        w, width = self.w, self.lanes
        guards = self.guards_of(loop) if width > 1 and not self.assumed else []
        begin = self.aligned(loop, lo, hi, stores) if width > 1 and not self.assumed else None
        self.lane, self.width = loop.name, width
        if guards or begin:
            self._two_ways(loop, lo, hi, guards, body, begin)
            self.lane, self.width = "", 1
            return
        known = loop.size if lo == "0" and isinstance(loop.size, int) else None
        middle = lo
        if known is not None and width < known < FEW * width and known % width:
            self._loop(loop.name, lo, hi, width, lambda: self._masked(self.loops[loop.name], hi, body))
            self.lane, self.width = "", 1
            return
        if known is None or known >= width:
            rest = w.op(f"and i64 {w.op(f'sub i64 {hi}, {lo}')}, {-width}")
            middle = w.op(f"add i64 {lo}, {rest}")
            self._loop(loop.name, lo, middle, width, body)
        if known is None or known % width:
            tail, after = w.label("tail"), w.label("after")
            w.do(f"br i1 {w.op(f'icmp slt i64 {middle}, {hi}')}, label %{tail}, label %{after}")
            w.start(tail)
            saved = self.vals, self.base, self.loops
            self.vals, self.base, self.loops = dict(self.vals), dict(self.base), {**self.loops, loop.name: middle}
            self._masked(middle, hi, body)
            self.vals, self.base, self.loops = saved
            w.do(f"br label %{after}")
            w.start(after)
        self.lane, self.width = "", 1

    def _two_ways(
        self, loop: Loop, lo: str, hi: str, guards: list[Expr], body: Callable[[], None], begin: str | None
    ) -> None:
        """Whole vectors where all guards hold, masked steps elsewhere. ``begin``: where the first vector does."""
        w, width = self.w, self.width
        first, last = self.inside(loop.name, guards, lo, hi)

        def step() -> None:
            at = self.loops[loop.name]
            end = w.op(f"add i64 {at}, {width}")
            whole = w.op(f"and i1 {w.op(f'icmp sge i64 {at}, {first}')}, {w.op(f'icmp sle i64 {end}, {last}')}")
            inside, border, join = w.label("inside"), w.label("border"), w.label("join")
            w.do(f"br i1 {whole}, label %{inside}, label %{border}")
            vals, base = self.vals, self.base
            w.start(inside)
            self.vals, self.base, self.assumed = dict(vals), dict(base), frozenset(guards)
            body()
            self.assumed = frozenset()
            w.do(f"br label %{join}")
            w.start(border)
            self.vals, self.base = dict(vals), dict(base)
            self._masked(at, hi, body, lo if begin else None)
            w.do(f"br label %{join}")
            w.start(join)
            self.vals, self.base = vals, base

        self._loop(loop.name, begin or lo, hi, width, step)

    def _masked(self, start: str, end: str, body: Callable[[], None], low: str | None = None) -> None:
        """Body for the lanes from `start` on that lie before `end`, and not before `low`."""
        w, width = self.w, self.width
        count = w.op(f"trunc i64 {w.op(f'sub i64 {end}, {start}')} to i32")
        iota = ", ".join(f"i32 {k}" for k in range(width))
        self.mask = w.op(f"icmp ult <{width} x i32> <{iota}>, {w.splat('i32', count, width)}")
        if low:
            before = w.splat("i32", w.op(f"trunc i64 {w.op(f'sub i64 {low}, {start}')} to i32"), width)
            self.mask = self._and(self.mask, w.op(f"icmp sge <{width} x i32> <{iota}>, {before}"), width)
        body()
        self.mask = None

    # ------------------------------------------------------------ what depends on what

    def _analyse(self, p: PlannedPhase) -> None:
        outer = frozenset(loop.name for loop in self.nest.outer)
        lane = self._lane_name(p)
        order = walk(p.roots())
        scans = {r.name for r in p.reduces if r.scan}
        for e in order:
            deps = frozenset().union(*(self.deps[a] for a in e.args))
            if e.op == "load":
                deps |= {loop for loop, _ in e.attr.terms}
                if lane is not None and self.by_lanes(e.attr.buffer):
                    deps |= {lane}
                if e.attr.buffer in self.written:
                    self.pinned.add(e)  # never moved out of its loop: a store of this nest may change it
            elif e.op == "affine":
                deps |= {loop for loop, _ in e.attr[1]}
            elif e.op == "acc":
                deps |= outer
                if e.attr in scans:  # another value at each point
                    deps |= {loop.name for loop in p.inner}
                    self.pinned.add(e)
            if any(a in self.pinned for a in e.args):
                self.pinned.add(e)
            if e.op == "branch" and e not in self.branches.setdefault(e.args[0], []):
                self.branches[e.args[0]].append(e)
            self.deps[e] = deps
        for e in order:
            if lane in self.deps[e]:
                self.shared.update(a for a in e.args if lane not in self.deps[a])
        if lane:
            self.shared.update(r for r in p.roots() if lane not in self.deps[r])

    def _lane_name(self, p: PlannedPhase) -> str | None:
        if self.nest.lane_outer:
            return self.nest.outer[-1].name if self.nest.outer else None
        return p.inner[-1].name if p.inner else None

    def by_lanes(self, buffer: str) -> bool:
        """Whether it holds a vector, one number for each lane of an outer loop, in place of each element."""
        return self.nest.lane_outer and buffer in self.row_scratch

    def is_vector(self, e: Expr) -> bool:
        return self.width > 1 and self.lane in self.deps[e]

    def _ready(self, order: Sequence[Expr], accesses: list[Access]) -> None:
        """Emit, as scalars, everything whose loops are all around the current place, and address parts."""
        for e in order:
            if (e, 1) in self.vals:
                self._share(e)
                continue
            if (
                e.op == "const"
                or e in self.pinned
                or self.is_vector(e)
                or not self.deps[e] <= self.loops.keys()
                or (e.op == "acc" and e.attr not in self.accs)
                or not all(a.op == "const" or (a, 1) in self.vals for a in e.args)
            ):
                continue
            self.emit(e, 1)
            self._share(e)
        for a in accesses:
            self._pointer(a)

    def _share(self, e: Expr) -> None:
        """The vector form of a scalar that vectors use, outside of their loop."""
        if e in self.shared and self.lanes > 1:
            self.val(e, self.lanes)

    def _pointer(self, a: Access) -> str:
        """Address of the access without its lane and gather terms; extends what outer loops already added."""
        w, t = self.w, MEMORY[self.buffers[a.buffer].short]
        if self.by_lanes(a.buffer):
            t = vector(t, self.nest.width)
        if a not in self.base:
            p = self._buffer(a.buffer)
            if a.offset != 0:
                p = w.op(f"getelementptr {t}, ptr {p}, i64 {self.size(a.offset)}")
            self.base[a] = frozenset(), p
        done, p = self.base[a]
        for loop, coef in a.terms:
            if loop in self.loops and loop not in done and loop != self.lane:
                step = self.loops[loop]
                if coef != 1:
                    step = w.op(f"mul nsw i64 {step}, {self.size(coef)}")
                p = w.op(f"getelementptr {t}, ptr {p}, i64 {step}")
                done |= {loop}
        self.base[a] = done, p
        return p

    # ------------------------------------------------------------ parameters and sizes (all at function entry)

    def _entry(self, text: str) -> str:
        v = self.w.name()
        self.w.allocas.append(f"  {v} = {text}")
        return v

    def _slot_value(self, name: str, type_: str) -> str:
        p = self._entry(f"getelementptr i64, ptr %ctx, i64 {self.slots.of[name]}")
        return self._entry(f"load {type_}, ptr {p}, align 8")

    def _buffer(self, name: str) -> str:
        if name not in self.pointers:
            if name in self.row_scratch:
                s = self.row_scratch[name]
                size = max(s.size, 1) * (self.nest.width if self.by_lanes(name) else 1)
                self.pointers[name] = self._entry(f"alloca {MEMORY[s.dtype.short]}, i64 {size}, align 64")
            else:
                self.pointers[name] = self._slot_value(name, "ptr")
        return self.pointers[name]

    def size(self, size: Size) -> str:
        """Operand of an int64 size."""
        if isinstance(size, int):
            return str(size)
        if size not in self.sizes:
            self.sizes[size] = emit_size(size, self._entry, self._size_param)
        return self.sizes[size]

    def _size_param(self, name: str) -> str:
        if name not in self.sizes:
            self.sizes[name] = self._slot_value(name, "i64")
        return self.sizes[name]

    # ------------------------------------------------------------ values

    def val(self, e: Expr, width: int) -> str:
        """Operand for an expression at a width; emits what is missing."""
        if e.op == "const":
            return constant(e.dtype, e.attr, width)
        key = e, width
        if key not in self.vals:
            if width > 1 and not self.is_vector(e):
                self.vals[key] = self.w.splat(llvm_type(e.dtype), self.val(e, 1), width)
            else:
                self._emit_tree(e)
        return self.vals[key]

    def _emit_tree(self, root: Expr) -> None:
        """Everything below root that is not there yet, without what only the slow side of a branch needs."""
        stack = [(root, 0)]
        while stack:
            e, k = stack.pop()
            width = self.width if self.is_vector(e) else 1
            if e.op == "const" or (e, width) in self.vals:
                continue
            args = self.operands(e)
            if k < len(args):
                stack += [(e, k + 1), (args[k], 0)]
            else:
                self.emit(e, width)

    def emit(self, e: Expr, width: int) -> None:
        """Emit one expression whose arguments are available."""
        w = self.w
        if e.op == "load":
            v = self._load(e, width)
        elif e.op == "where" and self.holds(e.args[0]):
            v = self.val(e.args[1], width)
        elif e.op == "affine":
            v = self._affine(e, width)
        elif e.op == "size":
            v = self.size(e.attr)
        elif e.op == "scalar":
            v = self._scalar(e)
        elif e.op == "acc":
            v, w0 = self.accs[e.attr]
            if w0 != width:
                raise AssertionError("accumulator of another width")
        elif e.op == "check":
            v = self._check(e, width)
        elif e.op == "branch":
            v = self._branch(e, width)
        elif e.op == "table":
            v = self._table(e, width)
        elif e.op == "random_word":
            v = random_word(self, e, width)
        else:
            v = emit_op(w, e, [self.val(a, width) for a in e.args], width)
        self.vals[e, width] = v

    def _scalar(self, e: Expr) -> str:
        if e.dtype is float32:
            return self._entry(f"fptrunc double {self._slot_value(e.attr, 'double')} to float")
        if e.dtype is float64:
            return self._slot_value(e.attr, "double")
        value = self._slot_value(e.attr, "i64")
        if e.dtype is int64:
            return value
        if e.dtype.category == 0:
            return self._entry(f"icmp ne i64 {value}, 0")
        return self._entry(f"trunc i64 {value} to {llvm_type(e.dtype)}")

    def lane_index(self, width: int) -> str:
        """int64 vector: the lane loop's index."""
        iota = ", ".join(f"i64 {k}" for k in range(width))
        return self.w.op(f"add <{width} x i64> {self.w.splat('i64', self.loops[self.lane], width)}, <{iota}>")

    def _affine(self, e: Expr, width: int) -> str:
        w = self.w
        offset, terms = e.attr
        total, lane_coef = self.size(offset), 0
        for loop, coef in terms:
            if width > 1 and loop == self.lane:
                lane_coef = coef
                continue
            total = w.op(f"add i64 {total}, {w.op(f'mul i64 {self.loops[loop]}, {self.size(coef)}')}")
        if width == 1:
            return total
        t = vector("i64", width)
        v = w.op(f"mul {t} {self.lane_index(width)}, {w.splat('i64', self.size(lane_coef), width)}")
        return w.op(f"add {t} {v}, {w.splat('i64', total, width)}")

    def _table(self, e: Expr, width: int) -> str:
        name = self.w.module.table(e.dtype, e.attr)
        t, i = llvm_type(e.dtype), self.val(e.args[0], width)
        if width == 1:
            return self.w.op(f"load {t}, ptr {self.w.op(f'getelementptr {t}, ptr {name}, i64 {i}')}")
        p = self.w.op(f"getelementptr {t}, ptr {name}, <{width} x i64> {i}")
        return self._masked_gather(t, p, None, constant(e.dtype, 0, width), width, e.dtype.itemsize)

    def any_lane(self, flags: str, width: int) -> str:
        """i1: whether the flag holds in an active lane."""
        if width == 1:
            return flags
        t = f"<{width} x i1>"
        if self.mask:
            flags = self.w.op(f"and {t} {flags}, {self.mask}")
        return self.w.call("i1", f"llvm.vector.reduce.or.v{width}i1", [(t, flags)])

    def _branch(self, e: Expr, width: int) -> str:
        """One conditional block for all branches on the same condition."""
        w = self.w
        group = [e] + [
            g
            for g in self.branches[e.args[0]]
            if g is not e
            and (g, width) not in self.vals
            and self.is_vector(g) == self.is_vector(e)
            and not any(h in walk([g.args[2]]) for h in (e, g))
        ]
        rare, fast = self.val(e.args[0], width), [self.val(g.args[2], width) for g in group]
        slow_block, join = w.label("slow"), w.label("join")
        flag = self.any_lane(rare, width)
        before = w.block
        w.do(f"br i1 {flag}, label %{slow_block}, label %{join}")
        saved, self.vals = self.vals, dict(self.vals)
        base, self.base = self.base, dict(self.base)
        w.start(slow_block)
        merged = []
        for g, f in zip(group, fast, strict=False):
            t = llvm_type(g.dtype, width)
            merged.append(w.op(f"select {vector('i1', width)} {rare}, {t} {self.val(g.args[1], width)}, {t} {f}"))
        end = w.block
        w.do(f"br label %{join}")
        self.vals, self.base = saved, base
        w.start(join)
        for g, m, f in zip(group, merged, fast, strict=False):
            self.vals[g, width] = w.op(f"phi {llvm_type(g.dtype, width)} [{m}, %{end}], [{f}, %{before}]")
        return self.vals[e, width]

    def _check(self, e: Expr, width: int) -> str:
        w, t, flag = self.w, vector("i64", width), vector("i1", width)
        error, wrap = e.attr
        index, size = self.val(e.args[0], width), self.val(e.args[1], width)
        wrapped = index
        if wrap:
            negative = w.op(f"icmp slt {t} {index}, {constant(int64, 0, width)}")
            wrapped = w.op(f"select {flag} {negative}, {t} {w.op(f'add {t} {index}, {size}')}, {t} {index}")
        bad = w.op(f"icmp uge {t} {wrapped}, {size}")
        report, join = w.label("report"), w.label("join")
        w.do(f"br i1 {self.any_lane(bad, width)}, label %{report}, label %{join}")
        w.start(report)
        first, limit = index, size
        if width > 1:
            active = w.op(f"and {flag} {bad}, {self.mask}") if self.mask else bad
            bits = w.op(f"bitcast {flag} {active} to i{width}")
            lane = w.call(f"i{width}", f"llvm.cttz.i{width}", [(f"i{width}", bits), ("i1", "false")])
            first = w.op(f"extractelement {t} {index}, i{width} {lane}")
            limit = w.op(f"extractelement {t} {size}, i64 0")
        for k, v in enumerate((str(error), first, limit)):
            p = w.op(f"getelementptr i64, ptr %ctx, i64 {self.slots.error + k}")
            w.do(f"store i64 {v}, ptr {p}, align 8")
        w.do(f"br label %{join}")
        w.start(join)
        return w.op(f"select {flag} {bad}, {t} {constant(int64, 0, width)}, {t} {wrapped}")

    # ------------------------------------------------------------ one point, and reductions

    def _point(self, p: PlannedPhase, slots: list[list[str]]) -> None:
        """Body of the innermost loop: all values first, then accumulators and stores; running ones before the values
        that see them.
        """
        for r in p.reduces:
            for e in r.exprs():
                self.val(e, self.width)
        if p.scan:
            for r, slot in zip(p.reduces, slots, strict=True):
                combine(self, r, slot, p.inner)
                running(self, r, slot)
        for s in p.stores:
            self.val(s.value, self.width)
            for g in s.gather:
                self.val(g, self.width if self.is_vector(g) else 1)
        if not p.scan:
            for r, slot in zip(p.reduces, slots, strict=False):
                combine(self, r, slot, p.inner)
        self.store_all(p.stores)

    def _slots(self, r: Reduce, width: int) -> list[str]:
        return [self.w.slot(llvm_type(d, width)) for d in acc_types(r)]

    def _init(self, r: Reduce, slot: list[str], width: int) -> None:
        for d, p, v in zip(acc_types(r), slot, (identity(r.combine, acc_dtype(r)), -1), strict=False):
            self.w.do(f"store {llvm_type(d, width)} {constant(d, v, width)}, ptr {p}")
