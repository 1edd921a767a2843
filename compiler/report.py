"""What the compiler did: counters, break records, explanations. All of it can be printed."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from fusegrad.native import meter

from .capture.breaks import REASONS, BreakRecord
from .capture.decode import decode


class _Off(threading.local):
    """Per thread: compiled functions run plainly while ``off`` (inside ``disable``)."""

    off = False


OFF = _Off()
_COUNTS = ("compiles", "recompiles", "graph_breaks", "plain_frames", "graphs")
_counts: dict[str, int] = dict.fromkeys(_COUNTS, 0)
_records: list[BreakRecord] = []
_reasons: list[str] = []
CACHES: weakref.WeakSet[Any] = weakref.WeakSet()


def note_compile(cache: Any, unit: Any, entry: Any, reason: str | None) -> None:
    """A unit got an entry."""
    _counts["compiles"] += 1
    if reason is not None:
        _counts["recompiles"] += 1
        _reasons.append(f"{cache.code.co_qualname}: {reason}")
    if entry.region is not None:
        _counts["graphs"] += 1


def note_break(cache: Any, record: BreakRecord) -> None:
    """A break, or a frame that runs plainly."""
    if record.kind == "plain":
        _counts["plain_frames"] += 1
    elif record not in cache.records:
        _counts["graph_breaks"] += 1
    if record not in cache.records:
        cache.records.append(record)
        _records.append(record)


def note_plain(record: BreakRecord) -> None:
    """A function that is never captured."""
    _counts["plain_frames"] += 1
    _records.append(record)


def stats() -> dict[str, Any]:
    """Counters since the last `reset`.

    compiles, recompiles (with reasons), graph_breaks; cache_hits: regions and kernels found in the disk cache (also
    region_hits, kernel_hits); compile_seconds and its parts: capture (bytecode, guards, segments), passes (the
    backward, graph passes, partition), codegen (loops, fusion, generated calls), kernels (machine code made or loaded).
    """
    out: dict[str, Any] = dict(_counts)
    out["region_hits"], out["kernel_hits"] = meter.HITS["regions"], meter.HITS["kernels"]
    out["cache_hits"] = sum(meter.HITS.values())
    out["compile_seconds"] = sum(meter.SECONDS.values())
    out.update((f"{name}_seconds", meter.SECONDS[name]) for name in meter.PHASES)
    out["recompile_reasons"] = list(_reasons)
    out["break_reasons"] = [str(r) for r in _records]
    return out


def reset_counts() -> None:
    for k in _counts:
        _counts[k] = 0
    meter.reset()
    _records.clear()
    _reasons.clear()


_SHORT = 100  # so many lines of details are printed with the summary


class Explanation:
    """What compiling a call did: ``graph_count``, ``graph_break_count``, ``break_reasons``, ``graphs``, ``guards``."""

    def __init__(self, caches: list[Any]) -> None:
        self.caches = caches
        self.entries = [(c, u, e) for c in caches for u in c.units.values() for e in u.entries]
        self.regions = [e.region for _, _, e in self.entries if e.region is not None]
        self.graphs = [r.joint for r in self.regions]
        self.graph_count = len(self.regions)
        records = [r for c in caches for r in c.records]
        self.break_reasons = [r for r in records if r.kind == "break"]
        self.plain_reasons = [r for r in records if r.kind == "plain"]
        self.graph_break_count = len(self.break_reasons)
        self.op_count = sum(len(g.nodes) for g in self.graphs)
        self.guards = [g for _, _, e in self.entries for g in e.program.show()]
        self.out: Any = None

    def __str__(self) -> str:
        """Breaks with the way out, a line for each piece of compiled code, and ``details()`` where they are short."""
        lines = [f"{self.graph_count} graph(s), {self.graph_break_count} graph break(s)"]
        for kind, records in (("break", self.break_reasons), ("plain", self.plain_reasons)):
            for r in records:
                lines += [f"  {kind}: {r}", f"    {REASONS[r.code].hint} (docs/breaks/{r.code}.md)"]
        lines += [f"  {_piece(c, u)}: {_size(e)}" for c, u, e in self.entries]
        details = self.details()
        return "\n".join(
            [*lines, details if details.count("\n") < _SHORT else "all guards, code and graphs: .details()"]
        )

    def details(self) -> str:
        """Every piece of compiled code: its guards with the lines that caused them, its code, its graph."""
        lines: list[str] = []
        for c, u, e in self.entries:
            lines.append(f"\n{_piece(c, u)}")
            lines += [f"  guard: {g}" for g in e.program.show()]
            lines += ["  segment:"] + ["    " + s for s in c.consts.readable(e.source).split("\n")]
            if e.region is not None:
                lines += ["  graph:"] + ["    " + s for s in e.region.joint.text().split("\n")]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Explanation: {self.graph_count} graphs, {self.graph_break_count} breaks>"


def _piece(cache: Any, unit: Any) -> str:
    """The function, and the line from which on it is for the code after a break."""
    code = cache.code
    if unit.top:
        return str(code.co_qualname)
    return f"{code.co_qualname} from line {decode(code).instrs[unit.ip].line} on, instruction {unit.ip}"


def _size(entry: Any) -> str:
    guards = f"{len(entry.program.show())} guards"
    if entry.region is None:
        return f"no graph, {guards}"
    n = len(entry.region.joint.nodes)
    return f"a graph of {n} operator{'s' if n != 1 else ''}, {guards}"
