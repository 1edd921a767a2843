"""Loads and stores of one nest in LLVM IR: scalars, whole vectors, every n-th element, gathers and scatters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.dtypes import dtype

from . import jit
from .llvm_expr import MEMORY, SUFFIX, Writer, llvm_type, vector
from .nest import Store
from .plan import STEPS
from .scalar import Access, Expr, Size

MOST = 128  # elements of such a vector


class Memory:
    """The part of NestPrinter that reads and writes memory; the rest of it gives values, loops and pointers."""

    w: Writer
    mask: str | None
    width: int
    lane: str
    loops: dict[str, str]
    pointers: dict[str, str]
    buffers: dict[str, dtype]
    val: Any
    size: Any
    is_vector: Any
    by_lanes: Any
    lane_index: Any
    holds: Any
    _pointer: Any
    _entry: Any
    lanes: int
    row_scratch: dict[str, Any]
    all: list[Expr]

    def _place(self, a: Access, gather: list[Expr], width: int) -> tuple[str, Size, str | None]:
        """(pointer without lane parts, coefficient of the lane loop, vector of further int64 indices or None)."""
        w, t = self.w, MEMORY[self.buffers[a.buffer].short]
        p = self._pointer(a)
        extra = None
        for e, coef in zip(gather, a.gather, strict=False):
            lanes = width if width > 1 and self.is_vector(e) else 1
            v = self.val(e, lanes)
            if coef != 1:
                v = w.op(f"mul {vector('i64', lanes)} {v}, {w.splat('i64', self.size(coef), lanes)}")
            if lanes == 1:
                p = w.op(f"getelementptr {t}, ptr {p}, i64 {v}")
            else:
                extra = v if extra is None else w.op(f"add <{width} x i64> {extra}, {v}")
        coef = 1 if self.by_lanes(a.buffer) else dict(a.terms).get(self.lane, 0)
        return p, coef if width > 1 else 0, extra

    def _at_lane(self, t: str, p: str, a: Access) -> str:
        """Where a whole vector of an access begins that goes with the lane loop by ones."""
        return p if self.by_lanes(a.buffer) else self.w.op(f"getelementptr {t}, ptr {p}, i64 {self.loops[self.lane]}")

    def _lane_pointers(self, t: str, p: str, coef: Size, extra: str | None, width: int) -> str:
        w, v = self.w, extra
        if coef != 0:
            v = self.lane_index(width)
            if coef != 1:
                v = w.op(f"mul <{width} x i64> {v}, {w.splat('i64', self.size(coef), width)}")
            if extra is not None:
                v = w.op(f"add <{width} x i64> {v}, {extra}")
        return w.op(f"getelementptr {t}, ptr {p}, <{width} x i64> {v if v is not None else 'zeroinitializer'}")

    def _masked_gather(self, t: str, p: str, mask: str | None, other: str, width: int, align: int) -> str:
        v = f"<{width} x {t}>"
        return self.w.call(
            v,
            f"llvm.masked.gather.v{width}{SUFFIX.get(t, t)}.v{width}p0",
            [(f"<{width} x ptr>", p), ("i32", str(align)), (f"<{width} x i1>", mask or "splat (i1 true)"), (v, other)],
        )

    def _load(self, e: Expr, width: int) -> str:
        w, a, dt = self.w, e.attr, e.dtype
        t = MEMORY[dt.short]
        n = len(a.gather)
        p, coef, extra = self._place(a, list(e.args[:n]), width)
        condition = self.val(e.args[n], width) if a.masked and not self.holds(e.args[n]) else None
        align = dt.itemsize
        if width == 1:
            if condition is None:
                return self._from_memory(w.op(f"load {t}, ptr {p}, align {align}"), dt, 1)
            p = w.op(f"select i1 {condition}, ptr {p}, ptr {self._dummy()}")
            v = self._from_memory(w.op(f"load {t}, ptr {p}, align {align}"), dt, 1)
            return w.op(f"select i1 {condition}, {llvm_type(dt)} {v}, {llvm_type(dt)} {self.val(e.args[n + 1], 1)}")
        mask = self._and(self.mask, condition, width)
        if extra is None and coef == 1:
            p = self._at_lane(t, p, a)
            vt = f"<{width} x {t}>"
            if mask is None:
                v = w.op(f"load {vt}, ptr {p}, align {align}")
            else:
                v = w.call(
                    vt,
                    f"llvm.masked.load.v{width}{SUFFIX.get(t, t)}.p0",
                    [("ptr", p), ("i32", str(align)), (f"<{width} x i1>", mask), (vt, "zeroinitializer")],
                )
        elif extra is None and _is_step(coef, width):
            v = self._load_every(t, p, int(coef), mask, width, align)
        elif extra is None and coef == 0 and condition is None:
            v = w.splat(t, w.op(f"load {t}, ptr {p}, align {align}"), width)
        else:
            v = self._masked_gather(
                t, self._lane_pointers(t, p, coef, extra, width), mask, "zeroinitializer", width, align
            )
        v = self._from_memory(v, dt, width)
        if condition is None:
            return v
        lt = llvm_type(dt, width)
        return w.op(f"select <{width} x i1> {condition}, {lt} {v}, {lt} {self.val(e.args[n + 1], width)}")

    def _load_every(self, t: str, p: str, step: int, mask: str | None, width: int, align: int) -> str:
        """Every step-th element, from one whole vector of which the elements between are not read."""
        w, wide = self.w, width * step
        p = w.op(f"getelementptr {t}, ptr {p}, i64 {w.op(f'mul i64 {self.loops[self.lane]}, {step}')}")
        vt, mt = f"<{wide} x {t}>", f"<{wide} x i1>"
        if mask is None:
            active = f"<{', '.join('i1 ' + ('false' if k % step else 'true') for k in range(wide))}>"
        else:
            spread = ", ".join(f"i32 {width if k % step else k // step}" for k in range(wide))
            active = w.op(
                f"shufflevector <{width} x i1> {mask}, <{width} x i1> zeroinitializer, <{wide} x i32> <{spread}>"
            )
        args = [("ptr", p), ("i32", str(align)), (mt, active), (vt, "zeroinitializer")]
        v = w.call(vt, f"llvm.masked.load.v{wide}{SUFFIX.get(t, t)}.p0", args)
        picks = ", ".join(f"i32 {k * step}" for k in range(width))
        return w.op(f"shufflevector {vt} {v}, {vt} poison, <{width} x i32> <{picks}>")

    def _dummy(self) -> str:
        if "" not in self.pointers:
            self.pointers[""] = self._entry("alloca i64, align 8")
        return self.pointers[""]

    def _from_memory(self, v: str, dt: dtype, width: int) -> str:
        if dt.category:
            return v
        return self.w.op(f"icmp ne {vector('i8', width)} {v}, zeroinitializer" if width > 1 else f"icmp ne i8 {v}, 0")

    def _and(self, x: str | None, y: str | None, width: int) -> str | None:
        if x is None or y is None:
            return x or y
        return self.w.op(f"and {vector('i1', width)} {x}, {y}")

    def _store(self, s: Store) -> None:
        w, a, dt = self.w, s.access, s.value.dtype
        width, t = self.width, MEMORY[dt.short]
        v = self.val(s.value, width)
        p, coef, extra = self._place(a, list(s.gather), width)
        if dt.category == 0:
            v = w.op(f"zext {vector('i1', width)} {v} to {vector('i8', width)}")
        vt, align = vector(t, width), dt.itemsize
        if width == 1:
            w.do(f"store {t} {v}, ptr {p}, align {align}")
        elif extra is None and coef == 1:
            p = self._at_lane(t, p, a)
            if self.mask is None:
                w.do(f"store {vt} {v}, ptr {p}, align {align}")
            else:
                w.call(
                    "void",
                    f"llvm.masked.store.v{width}{SUFFIX.get(t, t)}.p0",
                    [(vt, v), ("ptr", p), ("i32", str(align)), (f"<{width} x i1>", self.mask)],
                )
        else:
            p = self._lane_pointers(t, p, coef, extra, width)
            w.call(
                "void",
                f"llvm.masked.scatter.v{width}{SUFFIX.get(t, t)}.v{width}p0",
                [
                    (vt, v),
                    (f"<{width} x ptr>", p),
                    ("i32", str(align)),
                    (f"<{width} x i1>", self.mask or "splat (i1 true)"),
                ],
            )

    def aligned(self, loop: Any, lo: str, hi: str, stores: Sequence[Store]) -> str | None:
        """Where the lane loop from lo to hi begins if vectors are stored where lines of the cache begin, up to a vector
        before lo; None where that gains nothing. Stores over two lines take twice the time; loads hardly more.
        """
        w, width = self.w, self.lanes
        few = (8 if self.loops else 64) * width  # rows are many
        if (
            isinstance(loop.size, int)
            and loop.size < few
            or not jit.wide()
            or any(e.op == "random_word" for e in self.all)
        ):
            return None
        for a in (s.access for s in stores):
            terms = dict(a.terms)
            size = self.buffers[a.buffer].itemsize
            known = all(n in self.loops for n in terms if n != loop.name)
            if a.buffer in self.row_scratch or a.gather or terms.get(loop.name) != 1 or not known:
                continue
            p = w.op(f"getelementptr {MEMORY[self.buffers[a.buffer].short]}, ptr {self._pointer(a)}, i64 {lo}")
            low = w.op(f"and i64 {w.op(f'ptrtoint ptr {p} to i64')}, {min(64, size * width) - 1}")
            begin = w.op(f"sub i64 {lo}, {w.op(f'sdiv i64 {low}, {size}')}")
            many = w.op(f"icmp sge i64 {w.op(f'sub i64 {hi}, {lo}')}, {few}")
            return w.op(f"select i1 {many}, i64 {begin}, i64 {lo}")
        return None

    def store_all(self, stores: list[Store]) -> None:
        """Stores of one point; neighbours of which each has every n-th element become one vector."""
        for group in _groups(stores, self.lane, self.width):
            if len(group) > 1:
                self._store_together(group)
            else:
                self._store(group[0])

    def _store_together(self, stores: list[Store]) -> None:
        """One store for n stores of every n-th element, the first of which comes first in memory."""
        w, first, width, n = self.w, stores[0], self.width, len(stores)
        dt = first.value.dtype
        t, wide = MEMORY[dt.short], self.width * n
        p = w.op(f"mul i64 {self.loops[self.lane]}, {n}")
        p = w.op(f"getelementptr {t}, ptr {self._pointer(first.access)}, i64 {p}")
        vt, parts = f"<{width} x {t}>", [self.val(s.value, width) for s in stores]
        while len(parts) < 2 or len(parts) % 2:
            parts.append("poison")
        pairs = []
        both = ", ".join(f"i32 {k}" for k in range(2 * width))
        for a, b in zip(parts[::2], parts[1::2], strict=True):
            pairs.append(w.op(f"shufflevector {vt} {a}, {vt} {b}, <{2 * width} x i32> <{both}>"))
        if len(pairs) == 1:
            pairs.append("poison")
        order = ", ".join(f"i32 {k % n * width + k // n}" for k in range(wide))
        v = w.op(
            f"shufflevector <{2 * width} x {t}> {pairs[0]}, <{2 * width} x {t}> {pairs[1]}, <{wide} x i32> <{order}>"
        )
        if self.mask is None:
            w.do(f"store <{wide} x {t}> {v}, ptr {p}, align {dt.itemsize}")
            return
        spread = ", ".join(f"i32 {k // n}" for k in range(wide))
        mask = w.op(f"shufflevector <{width} x i1> {self.mask}, <{width} x i1> poison, <{wide} x i32> <{spread}>")
        args = [(f"<{wide} x {t}>", v), ("ptr", p), ("i32", str(dt.itemsize)), (f"<{wide} x i1>", mask)]
        w.call("void", f"llvm.masked.store.v{wide}{SUFFIX.get(t, t)}.p0", args)


def _is_step(coef: Size, width: int) -> bool:
    return coef in STEPS and width * int(coef) <= MOST


def _groups(stores: list[Store], lane: str, width: int) -> list[list[Store]]:
    """Each store alone, or n stores of every n-th element, one behind the other."""
    alone: list[list[Store]] = []
    rows: dict[Access, list[Store]] = {}
    for s in stores:
        step = dict(s.access.terms).get(lane, 0) if width > 1 else 0
        if _is_step(step, width) and not s.gather and s.value.dtype.category and type(s.access.offset) is int:
            rows.setdefault(s.access._replace(offset=0), []).append(s)
        else:
            alone.append([s])
    for access, row in rows.items():
        n = int(dict(access.terms)[lane])
        row.sort(key=lambda s: s.access.offset)
        while row:
            first = row[0].access.offset
            size = n if [s.access.offset for s in row[:n]] == [first + k for k in range(n)] else 1  # type: ignore[operator]
            alone.append(row[:size])
            row = row[size:]
    return alone
