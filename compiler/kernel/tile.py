"""Square tiles for elementwise nests whose arrays disagree about the fast dimension (``x.t() + y``).

Walking a row of one array then means walking down a column of another, one cache line an element.  In tiles of up to
32 x 32 every line that is fetched is used up before it is dropped.
"""

from __future__ import annotations

from typing import Any

from fusegrad.native.nest import Loop, Nest, Phase, Store
from fusegrad.native.scalar import Expr, b, make, rewrite, sort_terms, walk

__all__ = ["tile"]

EDGE = 32
LEAST = 8  # smallest edge worth a tile
POINTS = 1 << 14  # smaller nests stay in the cache anyway


def tile(nest: Nest) -> Nest:
    """The nest in tiles, or the same nest if that would not help."""
    sizes: dict[str, Any] = {loop.name: loop.size for loop in nest.outer}
    if (
        len(nest.phases) != 1
        or nest.phases[0].inner
        or nest.phases[0].reduces
        or not all(type(s) is int for s in sizes.values())
    ):
        return nest
    points = 1
    for size in sizes.values():
        points *= size
    fast = _fast_loops(nest)
    if points < POINTS or len(fast) != 2 or any(sizes[name] < 2 * LEAST for name in fast):
        return nest
    edges = {name: _edge(sizes[name]) for name in fast}
    if any(edge < LEAST for edge in edges.values()):
        return nest
    outer = [loop for loop in nest.outer if loop.name not in fast]
    tiles = [Loop(f"{loop.name}t", sizes[loop.name] // edges[loop.name]) for loop in nest.outer if loop.name in fast]
    inner = [Loop(loop.name, edges[loop.name]) for loop in nest.outer if loop.name in fast]
    stores = tuple(_split_store(s, edges) for s in nest.phases[0].stores)
    return Nest((*outer, *tiles), (Phase(tuple(inner), (), stores),), nest.note)


def _edge(size: int) -> int:
    """The largest divisor up to EDGE."""
    return next(e for e in range(min(size, EDGE), 0, -1) if size % e == 0)


def _fast_loops(nest: Nest) -> list[str]:
    """Loops that are the fastest one of some array whose other coefficients are large."""
    found: dict[str, None] = {}
    phase = nest.phases[0]
    accesses = [s.access for s in phase.stores] + [e.attr for e in walk(phase.roots()) if e.op == "load"]
    for access in accesses:
        terms = dict(access.terms)
        unit = [loop for loop, c in terms.items() if c in (1, -1)]
        if len(unit) == 1 and len(terms) > 1 and not access.gather:
            found[unit[0]] = None
    return list(found)


def _terms(terms: Any, edges: dict[str, int]) -> tuple:
    out = []
    for loop, c in terms:
        out.append((loop, c))
        if loop in edges:
            out.append((f"{loop}t", c * edges[loop] if type(c) is int else f"({c})*{edges[loop]}"))
    return sort_terms(out)


def _split(e: Expr, edges: dict[str, int]) -> Expr:
    if e.op == "index" and e.attr in edges:
        return b.add(b.mul(b.index(f"{e.attr}t"), edges[e.attr]), e)
    if e.op == "load":
        return make("load", e.args, e.dtype, e.attr._replace(terms=_terms(e.attr.terms, edges)))
    return e


def _split_store(s: Store, edges: dict[str, int]) -> Store:
    value, *gather = rewrite([s.value, *s.gather], lambda e: _split(e, edges))
    pairs = list(zip(gather, s.access.gather, strict=True))
    return Store(s.access.buffer, value, s.access.offset, _terms(s.access.terms, edges), pairs)
