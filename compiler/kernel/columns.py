"""Sums down columns, taken along where the rows are computed.

A derivative often needs both something for each row and the sum of all rows: a normalisation's input and its weight and
bias, a layer's input and its bias. The sum alone walks down columns, far from row to row, through memory that the rows
have just been read from. So the rows add to sums as they are computed: each of a few parts of the rows has sums of its
own (in float64, as other sums), and a last nest adds those of the parts. The parts depend on sizes alone and stay in
one thread (``Nest.together``), so no bit depends on the number of threads.
"""

from __future__ import annotations

from typing import Any

from fusegrad import dtypes
from fusegrad.native.nest import Loop, Nest, Phase, Reduce, Scratch, Store, rename_loops
from fusegrad.native.plan import mul_sizes
from fusegrad.native.scalar import Expr, Size, b, make, rewrite, sort_terms, walk

__all__ = ["along_rows", "by_rows"]

PARTS = (16, 8, 4)
BYTES = 192 * 1024  # for the sums of all parts
LEAST = 32  # columns from which the rows are vectors
ALONE = 1 << 20  # points from which sums of little work are worth it without rows
CHEAP = 4  # operations of such a summand: the sums take narrower vectors
POINTS = 1 << 16  # smaller arrays stay in the cache anyway


def by_rows(columns: Nest, number: int) -> tuple[list[Nest], list[Scratch]] | None:
    """The same for sums alone: memory is read in its order. None where they are no long sums of columns."""
    if len(columns.outer) != 1 or not columns.phases or columns.body is not None:
        return None
    down = columns.phases[0].inner
    points: Any = columns.outer[0].size
    for loop in down:
        points = mul_sizes(points, loop.size)
    work = sum(e.op not in ("load", "const", "index", "size", "scalar") for e in walk(columns.phases[0].roots()))
    if not down or not isinstance(points, int) or points < ALONE or work > CHEAP:
        return None
    rows = Nest(tuple(down), (Phase((columns.outer[0],)),))
    return along_rows(rows, columns, number)


def along_rows(rows: Nest, columns: Nest, number: int) -> tuple[list[Nest], list[Scratch]] | None:
    """The nests that take the place of two that follow each other, and the memory between them; None where the second
    does not sum the columns of what the first computes by rows. ``number``: of the names."""
    first = _by_rows(rows)
    if first is None or not _sums_columns(columns, first):
        return None
    last, down = first.phases[-1], columns.phases[0]
    width: Any = last.inner[0].size  # an int
    names = {loop.name: own.name for loop, own in zip(down.inner, first.outer, strict=True)}
    names[columns.outer[0].name] = last.inner[0].name
    values = _seen([rename_loops(r.value, names) for r in down.reduces], first)
    count = next((p for p in PARTS if p * width * 8 * len(down.reduces) <= BYTES), 0)
    if values is None or not count:
        return None
    total: Size = 1
    for loop in first.outer:
        total = mul_sizes(total, loop.size)
    if isinstance(total, int) and total * width < POINTS:
        return None
    length = _ceil(total, count, 1)
    kept = [Scratch(f"columns{number}_{k}", dtypes.float64, count * width, "parts") for k in range(len(values))]
    row = _row(first.outer)
    part, start = b.floordiv(row, b.size(length)), b.eq(b.mod(row, b.size(length)), b.const(0, dtypes.int64))
    at = {last.inner[0].name: 1}
    adds = []
    for s, value in zip(kept, values, strict=True):
        before = b.load(s.name, s.dtype, 0, at, [(part, width)])
        more = b.cast(value, dtypes.float64)
        adds.append(Store(s.name, b.where(start, more, b.add(before, more)), 0, at, [(part, width)]))
    phases = (*first.phases[:-1], Phase(last.inner, last.reduces, (*last.stores, *adds)))
    note = f"{rows.note} + {columns.note}" if rows.note else columns.note
    summed = Nest(first.outer, phases, note, together=length)
    over = Loop("part", _ceil(total, length, 0))  # none of no rows
    column = columns.outer[0].name
    sums = tuple(
        Reduce(r.name, "add", b.load(s.name, s.dtype, 0, {"part": width, column: 1}), dtypes.float64)
        for r, s in zip(down.reduces, kept, strict=True)
    )
    rest = tuple(_narrowed(p, {r.name: r.dtype for r in down.reduces}) for p in columns.phases[1:])
    return [summed, Nest(columns.outer, (Phase((over,), sums), *rest), f"{columns.note}: parts")], kept


def _by_rows(nest: Nest) -> Nest | None:
    """The nest with one loop along the rows in its last phase; None for what has no such rows."""
    if nest.body is not None or nest.together != 1:
        return None
    phases = nest.phases
    if len(phases) == 1 and not phases[0].inner and len(nest.outer) > 1:  # elementwise: its last loop is the row
        nest = Nest(nest.outer[:-1], (Phase((nest.outer[-1],), (), phases[0].stores),), nest.note)
    last = nest.phases[-1]
    long = len(last.inner) == 1 and type(last.inner[0].size) is int and last.inner[0].size >= LEAST
    if not long or not nest.outer or last.ordered or any(r.scan for r in last.reduces):
        return None
    return nest


def _sums_columns(nest: Nest, rows: Nest) -> bool:
    """Whether a nest sums what has the rows and columns of another, and does nothing else with them."""
    if nest.body is not None or len(nest.outer) != 1 or nest.outer[0].size != rows.phases[-1].inner[0].size:
        return False
    down, *others = nest.phases
    sizes = [loop.size for loop in down.inner]
    return (
        sizes == [loop.size for loop in rows.outer]
        and bool(down.reduces)
        and not down.stores
        and all(r.combine == "add" and not r.scan and r.dtype in _FLOATS for r in down.reduces)
        and not any(p.inner or p.reduces for p in others)
        and not any(e.op in ("check", "acc") for e in walk([r.value for r in down.reduces]))
        and not any(e.op == "check" for p in others for e in walk(p.roots()))
    )


_FLOATS = (dtypes.float32, dtypes.float64)


def _seen(values: list[Expr], rows: Nest) -> list[Expr] | None:
    """The summands as the last phase of the rows sees them: what it stores itself is taken from there. None where they
    read something else that the nest writes."""
    stored: dict[tuple, Expr] = {}
    for s in rows.phases[-1].stores:
        if not s.gather:
            stored[s.access.buffer, s.access.offset, s.access.terms] = s.value
    written = {s.access.buffer for p in rows.phases for s in p.stores}
    if any(e.op == "load" and e.attr.buffer in written and _place(e) not in stored for e in walk(values)):
        return None
    return rewrite(values, lambda e: stored.get(_place(e), e) if e.op == "load" else e)


def _place(e: Expr) -> tuple:
    return (e.attr.buffer, e.attr.offset, e.attr.terms) if not e.attr.gather else ()


def _row(loops: tuple[Loop, ...]) -> Expr:
    """The number of the row in the order of the loops."""
    row = b.index(loops[0].name)
    for loop in loops[1:]:
        row = b.add(b.mul(row, b.size(loop.size)), b.index(loop.name))
    return row


def _ceil(n: Size, by: Size, least: int) -> Size:
    """n / by rounded up, not below ``least``."""
    if isinstance(n, int) and isinstance(by, int):
        return max(least, -(-n // by))
    return f"max({least}, (({n}) + ({by}) - 1)//({by}))"


def _narrowed(phase: Phase, kinds: dict[str, Any]) -> Phase:
    """A phase that sees sums of float64 where it saw those of their own dtype."""

    def change(e: Expr) -> Expr:
        if e.op != "acc" or kinds.get(e.attr) in (None, dtypes.float64):
            return e
        return b.cast(make("acc", (), dtypes.float64, e.attr), kinds[e.attr])

    stores = []
    for s in phase.stores:
        value, *gather = rewrite([s.value, *s.gather], change)
        pairs = list(zip(gather, s.access.gather, strict=True))
        stores.append(Store(s.access.buffer, value, s.access.offset, sort_terms(s.access.terms), pairs))
    return Phase((), (), tuple(stores))
