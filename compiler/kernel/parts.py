"""Reductions of everything to one number, in parts that threads can share.

A nest without outer loops runs on one thread.  If it is long, its first loop is cut into ``PARTS`` parts: one nest
reduces each part (in float64 where the whole would be), a second one reduces the parts in order and adds what is left
over.  The cut depends on sizes alone, so no bit depends on the number of threads.
"""

from __future__ import annotations

from typing import Any

from fusegrad import dtypes
from fusegrad.native.nest import Loop, Nest, Phase, Reduce, Scratch, Store
from fusegrad.native.scalar import Expr, Size, b, make, rewrite, sort_terms

__all__ = ["in_parts"]

PARTS = 64
LEAST = 1 << 17  # points from which threads may be worth their start

_COMBINE = {"add": b.add, "mul": b.mul, "max": b.maximum, "min": b.minimum, "and": b.and_, "or": b.or_}


def in_parts(nest: Nest, points: int, number: int) -> tuple[list[Nest], list[Scratch]]:
    """The nests that take the place of one of so many points, and the memory between them; ``number``: of their names.

    The same nest where it has outer loops, is short, or has more than one long phase.
    """
    first, *others = nest.phases
    if (
        nest.outer
        or points < LEAST
        or not first.inner
        or not first.reduces
        or any(p.inner for p in others)
        or not all(r.combine in _COMBINE and not r.scan for r in first.reduces)
    ):
        return [nest], []
    loop = first.inner[0]
    n = loop.size
    if isinstance(n, int) and n < 2:
        return [nest], []
    count = min(PARTS, n) if isinstance(n, int) else PARTS
    length: Size = n // count if isinstance(n, int) else f"({n})//{count}"
    rest: Size = n % count if isinstance(n, int) else f"({n})%{count}"
    wide = [_wide(r) for r in first.reduces]
    scratch = [Scratch(f"parts{number}_{k}", r.dtype, count, "parts") for k, r in enumerate(wide)]
    cut = _Cut(loop.name, length, count)
    parts = Nest(
        (Loop("part", count),),
        (
            Phase(
                (Loop(loop.name, length), *first.inner[1:]), cut.reduces(wide, False), cut.stores(first.stores, False)
            ),
            Phase((), (), tuple(_keep(s.name, r) for s, r in zip(scratch, wide, strict=True))),
        ),
        nest.note,
    )
    phases = [
        Phase(
            (Loop("part", count),),
            tuple(
                Reduce(f"{r.name}p", r.combine, b.load(s.name, s.dtype, 0, {"part": 1}), r.dtype)
                for s, r in zip(scratch, wide, strict=True)
            ),
        )
    ]
    if rest != 0:
        left = [Reduce(f"{r.name}q", r.combine, r.value, r.dtype) for r in wide]
        phases.append(
            Phase((Loop(loop.name, rest), *first.inner[1:]), cut.reduces(left, True), cut.stores(first.stores, True))
        )
    whole = {r.name: _whole(r, w, rest != 0) for r, w in zip(first.reduces, wide, strict=True)}
    phases += [_replace(p, whole) for p in others]
    return [parts, Nest((), tuple(phases), f"{nest.note}: parts")], scratch


def _keep(name: str, r: Reduce) -> Store:
    return Store(name, b.acc(r.name, r.dtype), terms={"part": 1})


def _wide(r: Reduce) -> Reduce:
    """The reduction with a result as wide as what it accumulates in."""
    if r.combine in ("add", "mul") and r.value.dtype is dtypes.float32:
        return Reduce(r.name, r.combine, b.cast(r.value, dtypes.float64), dtypes.float64)
    return r


def _whole(r: Reduce, wide: Reduce, rest: bool) -> Expr:
    total = b.acc(f"{r.name}p", wide.dtype)
    if rest:
        total = _COMBINE[r.combine](total, b.acc(f"{r.name}q", wide.dtype))
    return b.cast(total, r.dtype)


def _replace(phase: Phase, whole: dict[str, Expr]) -> Phase:
    roots = rewrite(phase.roots(), lambda e: whole[e.attr] if e.op == "acc" and e.attr in whole else e)
    new = iter(roots)
    reduces = tuple(Reduce(r.name, r.combine, next(new), r.dtype) for r in phase.reduces)
    stores = []
    for s in phase.stores:
        gather = [next(new) for _ in s.gather]
        pairs = list(zip(gather, s.access.gather, strict=True))
        stores.append(Store(s.access.buffer, next(new), s.access.offset, s.access.terms, pairs))
    return Phase(phase.inner, reduces, tuple(stores))


class _Cut:
    """A loop of which the points are those of a part, or those behind the last part."""

    def __init__(self, loop: str, length: Size, count: int) -> None:
        self.loop, self.length = loop, length
        self.before: Size = length * count if isinstance(length, int) else f"({length})*{count}"

    def _place(self, offset: Size, terms: Any, rest: bool) -> tuple[Size, tuple]:
        step = dict(terms).get(self.loop, 0)
        if step == 0:
            return offset, tuple(terms)
        if rest:
            return _add(offset, _times(step, self.before)), tuple(terms)
        return offset, sort_terms([*terms, ("part", _times(step, self.length))])

    def _change(self, e: Expr, rest: bool) -> Expr:
        if e.op == "index" and e.attr == self.loop:
            start = b.size(self.before) if rest else b.mul(b.index("part"), b.size(self.length))
            return b.add(start, e)
        if e.op == "load":
            offset, terms = self._place(e.attr.offset, e.attr.terms, rest)
            return make("load", e.args, e.dtype, e.attr._replace(offset=offset, terms=terms))
        return e

    def reduces(self, reduces: list[Reduce], rest: bool) -> tuple[Reduce, ...]:
        values = rewrite([r.value for r in reduces], lambda e: self._change(e, rest))
        return tuple(Reduce(r.name, r.combine, v, r.dtype) for r, v in zip(reduces, values, strict=True))

    def stores(self, stores: tuple[Store, ...], rest: bool) -> tuple[Store, ...]:
        found = []
        for s in stores:
            value, *gather = rewrite([s.value, *s.gather], lambda e: self._change(e, rest))
            offset, terms = self._place(s.access.offset, s.access.terms, rest)
            found.append(Store(s.access.buffer, value, offset, terms, list(zip(gather, s.access.gather, strict=True))))
        return tuple(found)


def _times(x: Size, y: Size) -> Size:
    return x * y if isinstance(x, int) and isinstance(y, int) else f"({x})*({y})"


def _add(x: Size, y: Size) -> Size:
    return x + y if isinstance(x, int) and isinstance(y, int) else f"({x}) + ({y})"
