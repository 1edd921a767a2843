"""From a verified Kernel to a schedule both printers follow: loops collapsed, expressions expanded to primitives, the
vectorised ("lane") loop and its width chosen.

The width belongs to the schedule, not to the machine: reductions keep one accumulator a lane and fold them in a fixed
order, so a width that depended on the processor would change results between machines.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from fusegrad import dtypes

from .convolution import Convolution
from .nest import Kernel, Loop, Nest, Phase, Reduce, Store
from .scalar import Access, Expr, Size, b, make, rewrite, sort_terms, walk
from .vecmath import expand, expand_ldexp

COLUMN_LANES = 64
STEPS = (2, 3, 4)  # distances of elements that are read and written as whole vectors
SHORT_ROW = 16  # rows of at most so many elements may be walked side by side
NEAR = 64  # elements between rows whose elements may be gathered
FOLD = 12  # operations that it takes to fold the lanes of a reduction
STRIDED = 1.5  # the same for a number that is read or written by itself
SHORT = 8  # loops with fewer points are not worth vectorising when another loop is there


@dataclass(slots=True)
class PlannedPhase:
    """A Phase; width: lanes of its last inner loop, unless the lane loop is an outer one."""

    inner: list[Loop]
    reduces: list[Reduce]
    stores: list[Store]
    width: int = 1
    ordered: bool = False

    def roots(self) -> list[Expr]:
        found = [e for r in self.reduces for e in r.exprs()]
        for s in self.stores:
            found += [*s.gather, s.value]
        return found

    @property
    def scan(self) -> int:
        """Direction in which the inner loops must run, or 0."""
        return self.reduces[0].scan if self.reduces else int(self.ordered)


@dataclass(slots=True)
class PlannedNest:
    """outer, phases as in Nest.  lane: name of the vectorised loop or None; lane_outer: it is the last outer loop (else
    the last inner loop of each phase, of PlannedPhase.width lanes); width: lanes in that case; weight: cost of one
    innermost point in rough operations; body: as in Nest."""

    outer: list[Loop]
    phases: list[PlannedPhase]
    lane_outer: bool
    width: int
    weight: int
    body: Convolution | None = None
    together: Size = 1


# ---------------------------------------------------------------- sizes as polynomials

Poly = dict[tuple[str, ...], int]


def poly(size: Size) -> Poly:
    """A Size as polynomial: monomial (sorted names) -> coefficient; // % min max are opaque atoms."""
    if isinstance(size, int):
        return {(): size} if size else {}
    return _poly(ast.parse(size, mode="eval").body)


def _poly(node: ast.expr) -> Poly:
    if isinstance(node, ast.Constant):
        return {(): int(node.value)} if node.value else {}  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp):
        return {m: -c for m, c in _poly(node.operand).items()}
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        x, y = _poly(node.left), _poly(node.right)
        if isinstance(node.op, ast.Mult):
            return poly_mul(x, y)
        sign = 1 if isinstance(node.op, ast.Add) else -1
        out = dict(x)
        for m, c in y.items():
            out[m] = out.get(m, 0) + sign * c
        return {m: c for m, c in out.items() if c}
    atom: Poly = {(ast.unparse(node),): 1}
    return atom


def poly_mul(x: Poly, y: Poly) -> Poly:
    out: Poly = {}
    for m, c in x.items():
        for n, d in y.items():
            k = tuple(sorted(m + n))
            out[k] = out.get(k, 0) + c * d
    return {m: c for m, c in out.items() if c}


def add_sizes(x: Size, y: Size) -> Size:
    """Sum of two Sizes."""
    if isinstance(x, int) and isinstance(y, int):
        return x + y
    return y if x == 0 else x if y == 0 else f"({x}) + ({y})"


def mul_sizes(x: Size, y: Size) -> Size:
    """Product of two Sizes."""
    if isinstance(x, int) and isinstance(y, int):
        return x * y
    if x == 0 or y == 0:
        return 0
    if x == 1:
        return y
    if y == 1:
        return x
    return f"({x})*({y})"


# ---------------------------------------------------------------- rewriting loops


def _accesses(phases: Sequence[PlannedPhase]) -> list[Access]:
    found = []
    for p in phases:
        for e in walk(p.roots()):
            if e.op == "load":
                found.append(e.attr)
            elif e.op == "affine":
                found.append(Access("", e.attr[0], e.attr[1]))
        found += [s.access for s in p.stores]
    return found


def row_major(loops: Sequence[Loop]) -> tuple[tuple[str, Size], ...]:
    """Terms of the position in the row-major order of the loops."""
    terms, step = [], 1
    for loop in reversed(loops):
        terms.append((loop.name, step))
        step = mul_sizes(loop.size, step)
    return sort_terms(terms)


def affine(roots: Sequence[Expr]) -> list[Expr]:
    """Integer arithmetic on loop indices as one node: affine, attr = (offset, terms) like an Access.  So linear indices
    (random numbers, arange) do not keep loops from being merged."""

    def parts(e: Expr) -> tuple[Size, dict[str, Size]] | None:
        if e.op == "affine":
            return e.attr[0], dict(e.attr[1])
        return (e.attr, {}) if e.op in ("const", "size") else None

    def change(e: Expr) -> Expr:
        if e.op == "index":
            return make("affine", (), e.dtype, (0, ((e.attr, 1),)))
        if e.op not in ("add", "sub", "mul") or e.dtype is not dtypes.int64:
            return e
        x, y = parts(e.args[0]), parts(e.args[1])
        if x is None or y is None or not (x[1] or y[1]):
            return e
        if e.op == "mul":
            if x[1] and y[1]:
                return e
            (offset, terms), (factor, _) = (x, y) if x[1] else (y, x)
            new = {k: mul_sizes(c, factor) for k, c in terms.items()}
            return make("affine", (), e.dtype, (mul_sizes(offset, factor), sort_terms(new)))
        sign = 1 if e.op == "add" else -1
        new = dict(x[1])
        for k, c in y[1].items():
            new[k] = add_sizes(new.get(k, 0), mul_sizes(c, sign))
        return make("affine", (), e.dtype, (add_sizes(x[0], mul_sizes(y[0], sign)), sort_terms(new)))

    return rewrite(roots, change)


def _drop_term(phases: Sequence[PlannedPhase], loop: str) -> None:
    """Remove a loop from all accesses and make its index 0."""

    def access(a: Access) -> Access:
        return a._replace(terms=tuple(t for t in a.terms if t[0] != loop))

    def change(e: Expr) -> Expr:
        if e.op == "load" and any(t[0] == loop for t in e.attr.terms):
            return make("load", e.args, e.dtype, access(e.attr))
        if e.op == "affine" and any(t[0] == loop for t in e.attr[1]):
            rest = tuple(t for t in e.attr[1] if t[0] != loop)
            return make("affine", (), e.dtype, (e.attr[0], rest)) if rest else b.size(e.attr[0])
        return e

    for p in phases:
        _map_phase(p, lambda roots: rewrite(roots, change), access)


def _map_phase(p: PlannedPhase, change, access=lambda a: a) -> None:
    """Apply `change` (list of Exprs -> list of Exprs) to all roots of a phase, and `access` to its stores."""
    new = iter(change(p.roots()))
    p.reduces = [r.changed(new) for r in p.reduces]
    stores = []
    for s in p.stores:
        gather = tuple(next(new) for _ in s.gather)
        a = access(s.access)
        stores.append(Store(a.buffer, next(new), a.offset, a.terms, tuple(zip(gather, a.gather, strict=False))))
    p.stores = stores


def _collapse(loops: list[Loop], phases: Sequence[PlannedPhase]) -> list[Loop]:
    """Drop loops of one step and merge neighbours that all accesses walk through evenly; rewrites the phases."""
    for loop in loops:
        if loop.size == 1:
            _drop_term(phases, loop.name)
    loops = [loop for loop in loops if loop.size != 1]
    k = len(loops) - 2
    while k >= 0:
        x, y = loops[k], loops[k + 1]
        if _even(x, y, phases):
            _drop_term(phases, x.name)
            loops[k : k + 2] = [Loop(y.name, mul_sizes(x.size, y.size))]
        k -= 1
    return loops


def _even(x: Loop, y: Loop, phases: Sequence[PlannedPhase]) -> bool:
    size = poly(y.size)
    for a in _accesses(phases):
        terms = dict(a.terms)
        if poly(terms.get(x.name, 0)) != poly_mul(poly(terms.get(y.name, 0)), size):
            return False
    return True


# ---------------------------------------------------------------- choosing the lane loop


def _lane_outer(outer: list[Loop], phases: list[PlannedPhase], row_scratch: set[str]) -> bool:
    reduced = [p.inner[-1] for p in phases if p.inner]
    if not reduced:
        return True
    if not outer:
        return False
    accesses = _accesses(phases)
    last = outer[-1]
    if isinstance(last.size, int) and last.size < SHORT:
        return False
    if _short_rows(last, phases, row_scratch):
        return True
    if any(a.buffer in row_scratch for a in accesses):
        return False
    if all((n := _static_points(p.inner)) is not None and n < SHORT for p in phases if p.inner):
        return True
    if any(p.ordered and p.inner for p in phases) and any((last.name, 1) in a.terms for a in accesses):
        return True
    if summed := [r.value for p in phases for r in p.reduces if r.combine == "sum"]:  # blocks of sums
        inside = {loop.name for p in phases for loop in p.inner}
        along = [e.attr for e in walk(summed) if e.op == "load" and e.dtype.category == 2]
        return any((last.name, 1) in a.terms and (a.gather or any(n in inside for n, _ in a.terms)) for a in along)
    inner_names = {loop.name for loop in reduced}
    # arrays that only one of the loops walks through count for neither: one value for all lanes, or one vector
    along_inner = sum(
        any(n in inner_names and c == 1 for n, c in a.terms) and any(n == last.name for n, _ in a.terms)
        for a in accesses
    )
    along_outer = sum(
        any(n == last.name and c == 1 for n, c in a.terms) and any(n in inner_names for n, _ in a.terms)
        for a in accesses
    )
    return along_outer > along_inner


def _short_rows(last: Loop, phases: list[PlannedPhase], row_scratch: set[str]) -> bool:
    """Whether rows of a few elements are better walked side by side: a vector of rows instead of a short vector of each
    row, whose lanes must be folded, and whose numbers are computed one row at a time. Elements in steps cost more then.
    """
    rows = lanes = 0.0
    for p in phases:
        n, weight = _static_points(p.inner), _weight(p.roots())
        if n is None or n > SHORT_ROW or p.scan:
            return False
        rows += (weight + (FOLD * len(p.reduces) if p.inner else 0)) * (1.25 if n & (n - 1) else 1)
        lanes += n * weight / 16
        for a in _accesses([p]):
            step = dict(a.terms).get(last.name, 0)
            if a.gather or not isinstance(step, int) or step > NEAR:
                return False
            if a.buffer not in row_scratch and step not in (0, 1, *STEPS):
                lanes += n * STRIDED
    return lanes < rows


def _static_points(loops: Sequence[Loop]) -> int | None:
    n = 1
    for loop in loops:
        if not isinstance(loop.size, int):
            return None
        n *= loop.size
    return n


_COST = {"div": 8, "sqrt": 8, "fmod": 60, "trunc_div": 20, "random_word": 10, "load": 2, "table": 4, "check": 3}


def _weight(roots: Sequence[Expr]) -> int:
    free = ("const", "index", "size", "scalar", "acc")
    return 1 + sum(_COST.get(e.op, 1) for e in _walk_fast(roots) if e.op not in free)


def _walk_fast(roots: Sequence[Expr]) -> list[Expr]:
    """walk() without what only the slow side of a branch needs."""
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        e = stack.pop()
        if e not in seen:
            seen.add(e)
            stack += (e.args[0], e.args[2]) if e.op == "branch" else e.args
    return list(seen)


def _width(phases: list[PlannedPhase], size: Size) -> int:
    """Lanes: wide for cheap bodies (fewer loop steps, more independent work), narrower for heavy ones (registers)."""
    weight = max((_weight(p.roots()) for p in phases), default=1)
    found = [e.dtype for p in phases for e in walk(p.roots()) if e.op in ("load", "random_word")]
    found += [s.value.dtype for p in phases for s in p.stores]
    wide = any(d is dtypes.float64 for d in found)
    width = (64 if weight <= 12 else 32 if weight <= 40 else 16) // (2 if wide else 1)
    if any(e.op == "random_word" for p in phases for e in walk(p.roots())):
        width = max(width, 32)
    if isinstance(size, int):
        while width > 4 and width // 2 >= size:
            width //= 2
    return width


def _stepping(width: int, phases: list[PlannedPhase], lane: Loop) -> int:
    """Fewer lanes where memory is read in steps, as vectors with gaps (llvm_memory.py)."""
    return min(width, 32) if any(dict(a.terms).get(lane.name) in STEPS for a in _accesses(phases)) else width


def _column_width(phases: list[PlannedPhase], lane: Loop) -> int:
    """Least lanes for reductions down columns: rows are far apart, so a step should use several whole cache lines."""
    small = isinstance(lane.size, int) and lane.size < 4 * COLUMN_LANES
    random = any(e.op == "random_word" for p in phases for e in walk(p.roots()))
    wide = any(e.dtype is dtypes.float64 for p in phases for e in walk(p.roots()) if e.op == "load")
    if small or random or sum(len(p.reduces) for p in phases) > 3:
        return 1
    return COLUMN_LANES // 2 if wide else COLUMN_LANES


def static_work(nest: PlannedNest) -> int | None:
    """Rough operations of a whole nest, if all its sizes are known."""
    outer = _static_points(nest.outer)
    inner = [_static_points(p.inner) for p in nest.phases]
    if outer is None or any(n is None for n in inner):
        return None
    return outer * nest.weight * max(sum(n or 0 for n in inner), 1)


def plan_nest(nest: Nest, kernel: Kernel) -> PlannedNest:
    """Schedule of one nest."""
    if nest.body is not None:
        weights = nest.body.what == "weights"
        share = nest.body.blocks[0] if weights else 1
        inner = [PlannedPhase([Loop("n", "n")] if weights else [], [], [])]
        return PlannedNest(list(nest.outer), inner, False, 1, max(1, nest.body.work // share), nest.body)
    phases = [PlannedPhase(list(p.inner), list(p.reduces), list(p.stores), 1, p.ordered) for p in nest.phases]
    for p in phases:
        _map_phase(p, lambda roots: affine(expand(roots)))
    outer = _collapse(list(nest.outer), phases)
    for p in phases:
        p.inner = _collapse(list(p.inner), [p])
    row_scratch = {s.name for s in kernel.scratch if s.scope == "row"}
    lane_outer = nest.together == 1 and _lane_outer(outer, phases, row_scratch)
    weight = max((_weight(p.roots()) for p in phases), default=1)
    width = _width(phases, outer[-1].size if outer else 1) if lane_outer else 1
    if lane_outer and outer and any(p.reduces and p.inner for p in phases):
        width = max(width, _column_width(phases, outer[-1]))
    if lane_outer and outer:
        width = _stepping(width, phases, outer[-1])
    for p in phases:
        p.width = _stepping(_width([p], p.inner[-1].size), [p], p.inner[-1]) if p.inner and not p.scan else 1
        if sum(r.combine == "sum" for r in p.reduces) > 8:  # all of them in registers
            p.width = min(p.width, 64 // p.reduces[0].dtype.itemsize)
    return PlannedNest(outer, phases, lane_outer, width, weight, together=nest.together)


def plan(kernel: Kernel, ldexp: bool = False) -> list[PlannedNest]:
    """Schedules of all nests.  ldexp: whether the printer has this primitive (the schedule does not depend on it)."""
    nests = [plan_nest(n, kernel) for n in kernel.nests]
    if not ldexp:
        for nest in nests:
            for p in nest.phases:
                _map_phase(p, expand_ldexp)
    return nests


__all__ = ["Phase", "PlannedNest", "PlannedPhase", "mul_sizes", "plan", "poly"]
