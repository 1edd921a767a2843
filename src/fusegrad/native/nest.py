"""Loop nests as data: what lowering produces and this package turns into machine code.

A `Kernel` is ONE native function: its parameters, its scratch memory, and nests that run in order.  A `Nest` is

    for each point of `outer` (independent of each other; may be split over threads, vectorised, reordered):
        for each phase, in order:
            for each point of `inner` (row-major order):            # inner = (): once
                compute the values of `reduces` and `stores`
            the phase's accumulators are now known

Rules
- Values are scalar expressions (scalar.py).  They may use index leaves of the loops around them, scalars, sizes,
  loads, and `acc` leaves of EARLIER phases of the same nest.  A phase may have both reduces and stores.
- A load sees everything stored by earlier nests, by earlier phases of the same outer point, and (same element only)
  what was there before this point's own stores: in-place `a[i] = f(a[i])` is fine.  Two different points must not
  touch the same element if one of them writes it, except that a phase may read what an earlier phase of the same
  outer point stored.
- Two parameters must not overlap in memory if one of them is written.  For an in-place kernel use ONE parameter for
  both.
- Sizes, coefficients and offsets are `Size`: an int, or an expression over SizeParam names, e.g. "s0*4 + 2".  Strides
  are in elements.  Static numbers give better code: contiguity is seen from a coefficient 1 of the innermost loop.
- Planning collapses loops, picks the vectorised loop (last inner loop; or last outer loop for pointwise nests, for
  short rows and when the reduced loop is strided but the outer one is not: column sums), so lowering only states the
  mathematics. Order the outer loops as the (main) output lies in memory.
- A running reduction (`Reduce.scan`) is visible to the stores of its own phase as `acc`, with the current point
  included; the phase's inner loops then run in order, from the first point (1) or from the last (-1), and all its
  reduces must be running in the same direction.  "linear" is `acc = acc * factor + value`, for running reductions only.
- Reductions: add and mul of float32/float64 accumulate in float64 in a fixed order (independent of threads and
  machine), and are rounded to `dtype` at the end; integers wrap.  "sum" of floats accumulates in their own dtype, a
  product (`mul`) without rounding it first: sums of products, as in a product of matrices.  max/min: NaN wins.
  argmax/argmin: int64 position in the row-major order of `inner`, first one wins, NaN wins over numbers.  An empty
  reduction gives the identity (max: -inf or the smallest integer).
- `check` in an index expression: see Builder.check; Kernel.errors holds the texts.

Calling: `native.compile_kernel(kernel, options)` gives a callable taking positional arguments for kernel.params in
order (numpy arrays; Python numbers; ints), except SizeParams with a `source`, which are read from an array and not
passed. Nothing is returned; IndexError (Kernel.errors) when a check failed.  Arrays must be of the declared dtype, in
native byte order and aligned to the element; they may have any strides, the nest decides how they are read.

Example: softmax over rows of x[n, 512]

    Kernel("softmax", (ArrayParam("x", f32), ArrayParam("y", f32, written=True), SizeParam("n")), nests=(
        Nest((Loop("i", "n"),), (
            Phase((Loop("j", 512),), reduces=(Reduce("m", "max", x),)),
            Phase((Loop("j", 512),), reduces=(Reduce("s", "add", b.exp(x - b.acc("m", f32))),)),
            Phase((Loop("j", 512),), stores=(Store("y", value, terms={"i": 512, "j": 1}),)))),))
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fusegrad import dtypes
from fusegrad.dtypes import dtype

from .params import ArrayParam, ScalarParam, Scratch, SizeParam
from .scalar import Access, Expr, Size, make, sort_terms, text_access, text_node, walk

COMBINES = ("add", "sum", "mul", "max", "min", "and", "or", "argmax", "argmin", "linear")
SCRATCH_LIMIT = 256 * 1024  # bytes of stack that scratch may use in total


@dataclass(frozen=True, slots=True)
class Loop:
    """for name in 0 .. size-1.  Names are unique along one path outer -> phase; different phases may reuse a name."""

    name: str
    size: Size


@dataclass(frozen=True, slots=True, init=False)
class Store:
    """buffer[offset + sum coef*loop + sum coef*gather] = value (value has the buffer's dtype)."""

    access: Access
    value: Expr
    gather: tuple[Expr, ...]

    def __init__(
        self, buffer: str, value: Expr, offset: Size = 0, terms: Any = (), gather: Sequence[tuple[Expr, Size]] = ()
    ) -> None:
        access = Access(buffer, offset, sort_terms(terms), tuple(c for _, c in gather))
        for name, v in (("access", access), ("value", value), ("gather", tuple(g for g, _ in gather))):
            object.__setattr__(self, name, v)

    def text(self, show: Any = repr) -> str:
        return f"{text_access(self.access, [show(g) for g in self.gather])} = {show(self.value)}"


@dataclass(frozen=True, slots=True)
class Reduce:
    """Accumulator `name` = combine over the phase's inner points of `value`; `dtype` is what acc(name) gives: the
    value's dtype, or int64 for argmax/argmin (default: filled in).  scan: direction of a running reduction, else 0."""

    name: str
    combine: str
    value: Expr
    dtype: Any = None
    scan: int = 0
    factor: Expr | None = None

    def __post_init__(self) -> None:
        if self.dtype is None:
            object.__setattr__(self, "dtype", dtypes.int64 if self.combine.startswith("arg") else self.value.dtype)

    def exprs(self) -> list[Expr]:
        """Its expressions."""
        return [self.value] if self.factor is None else [self.value, self.factor]

    def changed(self, exprs: Iterator[Expr]) -> Reduce:
        """The same with the next of these in place of its expressions."""
        return replace(self, value=next(exprs), factor=None if self.factor is None else next(exprs))


@dataclass(frozen=True, slots=True)
class Phase:
    inner: tuple[Loop, ...] = ()
    reduces: tuple[Reduce, ...] = ()
    stores: tuple[Store, ...] = ()
    ordered: bool = False  # without reduces: the inner points run one after the other, later ones see earlier stores

    def roots(self) -> list[Expr]:
        """Every expression of the phase."""
        found = [e for r in self.reduces for e in r.exprs()]
        for s in self.stores:
            found += [*s.gather, s.value]
        return found


@dataclass(frozen=True, slots=True)
class Nest:
    outer: tuple[Loop, ...]
    phases: tuple[Phase, ...]
    note: str = ""  # what it computes, for readers
    body: Any = None  # instead of phases: a Convolution (convolve.py), printed by llvm_convolve.py
    together: Size = 1  # so many points of ``outer``, from the first on, run one after the other: later ones see stores


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    params: tuple[ArrayParam | ScalarParam | SizeParam, ...]
    nests: tuple[Nest, ...]
    scratch: tuple[Scratch, ...] = ()
    errors: tuple[str, ...] = ()  # texts of failed checks; "{index}" and "{size}" are filled in

    def text(self) -> str:
        return text(self)

    def verify(self) -> None:
        verify(self)


@dataclass
class _Names:
    """What is in scope while verifying."""

    buffers: dict[str, tuple[dtype, bool]] = field(default_factory=dict)  # dtype, writable
    scalars: dict[str, dtype] = field(default_factory=dict)
    sizes: set[str] = field(default_factory=set)
    accs: dict[str, dtype] = field(default_factory=dict)
    loops: set[str] = field(default_factory=set)


class NestError(ValueError):
    """A kernel that breaks a rule of this module."""


def size_names(size: Size) -> set[str]:
    """Names used in a Size. Raises NestError when it is not an int or an arithmetic expression."""
    if isinstance(size, int):
        return set()
    try:
        tree = ast.parse(size, mode="eval")
    except (SyntaxError, TypeError):
        raise NestError(f"size {size!r} is not an int or an expression") from None
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in ("min", "max"):
            names.add(node.id)
        elif not isinstance(node, _SIZE_NODES) or (isinstance(node, ast.Constant) and type(node.value) is not int):
            raise NestError(f"size {size!r}: only names, integers, + - * // % min max are allowed")
    return names


_SIZE_NODES = (
    ast.Expression,
    ast.Name,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Call,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.FloorDiv,
    ast.Mod,
    ast.USub,
    ast.Load,
)


def verify(kernel: Kernel) -> None:
    """Raise NestError with the place and the broken rule."""
    names = _Names()
    for p in kernel.params:
        if not p.name.isidentifier():
            raise NestError(f"{kernel.name}: parameter name {p.name!r} is not an identifier")
        if p.name in names.buffers or p.name in names.scalars or p.name in names.sizes:
            raise NestError(f"{kernel.name}: parameter {p.name} declared twice")
        if isinstance(p, ArrayParam):
            names.buffers[p.name] = p.dtype, p.written
        elif isinstance(p, ScalarParam):
            names.scalars[p.name] = p.dtype
        else:
            names.sizes.add(p.name)
            if p.source and (
                p.source[0] not in {q.name for q in kernel.params if isinstance(q, ArrayParam)}
                or p.source[1] not in ("shape", "stride")
            ):
                raise NestError(f"{kernel.name}: size {p.name} has a bad source {p.source}")
    for s in kernel.scratch:
        if s.name in names.buffers:
            raise NestError(f"{kernel.name}: scratch {s.name} declared twice")
        names.buffers[s.name] = s.dtype, True
    if sum(s.size * s.dtype.itemsize for s in kernel.scratch) > SCRATCH_LIMIT:
        raise NestError(f"{kernel.name}: more than {SCRATCH_LIMIT} bytes of scratch")
    for k, nest in enumerate(kernel.nests):
        _verify_nest(f"{kernel.name}: nest {k}", nest, names, len(kernel.errors))


def _verify_nest(where: str, nest: Nest, names: _Names, errors: int) -> None:
    names.accs, names.loops = {}, set()
    if nest.body is not None:
        for name in nest.body.buffers:
            if name not in names.buffers:
                raise NestError(f"{where}: unknown buffer {name}")
    _enter(where, nest.outer, names)
    outer = set(names.loops)
    for k, phase in enumerate(nest.phases):
        at = f"{where}, phase {k}"
        names.loops = set(outer)
        _enter(at, phase.inner, names)
        for e in walk([e for r in phase.reduces for e in r.exprs()]):
            _verify_expr(at, e, names, errors)
        if phase.ordered and phase.reduces:
            raise NestError(f"{at}: a phase whose points run in order has stores alone, or running reductions")
        if len({r.scan for r in phase.reduces}) > 1:
            raise NestError(f"{at}: running reductions stand alone, and go in one direction")
        names.accs.update((r.name, r.dtype) for r in phase.reduces if r.scan)
        for e in walk(phase.roots()):
            _verify_expr(at, e, names, errors)
        for s in phase.stores:
            _verify_access(at, s.access, names)
            dt, written = names.buffers[s.access.buffer]
            if not written or dt is not s.value.dtype:
                raise NestError(
                    f"{at}: store of {s.value.dtype.short} to {s.access.buffer}: {dt.short}, written={written}"
                )
        for r in phase.reduces:
            if r.combine not in COMBINES:
                raise NestError(f"{at}: reduce {r.name} has an unknown combine {r.combine}")
            if r.combine == "sum" and (r.scan or r.value.dtype not in (dtypes.float32, dtypes.float64)):
                raise NestError(f"{at}: reduce {r.name}: sum is for floats, and does not run")
            if (r.combine == "linear") != (r.factor is not None) or r.combine == "linear" and not r.scan:
                raise NestError(f"{at}: reduce {r.name}: linear ones are running and have a factor, no others do")
            if r.name in names.accs and not r.scan:
                raise NestError(f"{at}: accumulator {r.name} declared twice")
            if r.dtype is not (dtypes.int64 if r.combine.startswith("arg") else r.value.dtype):
                raise NestError(f"{at}: accumulator {r.name} has dtype {r.dtype.short}, value is {r.value.dtype.short}")
        names.accs.update((r.name, r.dtype) for r in phase.reduces)


def _enter(where: str, loops: Sequence[Loop], names: _Names) -> None:
    for loop in loops:
        if loop.name in names.loops:
            raise NestError(f"{where}: loop {loop.name} declared twice")
        names.loops.add(loop.name)
        _verify_size(where, loop.size, names)


def _verify_size(where: str, size: Size, names: _Names) -> None:
    missing = size_names(size) - names.sizes
    if missing:
        raise NestError(f"{where}: size {size!r} uses undeclared {sorted(missing)}")


def _verify_access(where: str, a: Access, names: _Names) -> None:
    if a.buffer not in names.buffers:
        raise NestError(f"{where}: unknown buffer {a.buffer}")
    for loop, coef in a.terms:
        if loop not in names.loops:
            raise NestError(f"{where}: {text_access(a)} uses loop {loop}, which is not around it")
        _verify_size(where, coef, names)
    for size in (a.offset, *a.gather):
        _verify_size(where, size, names)


def _verify_expr(where: str, e: Expr, names: _Names, errors: int) -> None:
    if e.op == "load":
        _verify_access(where, e.attr, names)
        if names.buffers[e.attr.buffer][0] is not e.dtype:
            raise NestError(
                f"{where}: load of {e.dtype.short} from {e.attr.buffer}: {names.buffers[e.attr.buffer][0].short}"
            )
    elif e.op == "index" and e.attr not in names.loops:
        raise NestError(f"{where}: index of {e.attr}, which is not a loop around it")
    elif e.op == "size":
        _verify_size(where, e.attr, names)
    elif e.op == "scalar" and names.scalars.get(e.attr) is not e.dtype:
        raise NestError(f"{where}: scalar {e.attr} is not a parameter of type {e.dtype.short}")
    elif e.op == "acc" and names.accs.get(e.attr) is not e.dtype:
        raise NestError(f"{where}: {e.attr} is not an accumulator of type {e.dtype.short} of an earlier phase")
    elif e.op == "check" and not 1 <= e.attr[0] <= errors:
        raise NestError(f"{where}: check reports error {e.attr[0]}, the kernel has {errors} texts")
    elif e.dtype is dtypes.float16 and e.op not in ("load", "cast", "const", "where"):
        raise NestError(f"{where}: {e.op} on float16; cast to float32 first")


def rename_loops(e: Expr, mapping: dict[str, str]) -> Expr:
    """The expression with loops renamed, in index leaves and in accesses."""
    from .scalar import rewrite

    def change(x: Expr) -> Expr:
        if x.op == "index" and x.attr in mapping:
            return make("index", (), x.dtype, mapping[x.attr])
        if x.op == "load" and any(loop in mapping for loop, _ in x.attr.terms):
            terms = sort_terms([(mapping.get(loop, loop), c) for loop, c in x.attr.terms])
            return make("load", x.args, x.dtype, x.attr._replace(terms=terms))
        return x

    return rewrite([e], change)[0]


# ---------------------------------------------------------------- text


def text(kernel: Kernel) -> str:
    """The whole kernel, one statement a line, shared subexpressions named."""
    params = ", ".join(_text_param(p) for p in kernel.params)
    lines = [f"kernel {kernel.name}({params})"]
    lines += [f"  scratch {s.name}: {s.dtype.short}[{s.size}] per {s.scope}" for s in kernel.scratch]
    lines += [f"  error {k + 1}: {t}" for k, t in enumerate(kernel.errors)]
    for nest in kernel.nests:
        lines += ["  " + line for line in text_nest(nest)]
    return "\n".join(lines)


def _text_param(p: Any) -> str:
    if isinstance(p, ArrayParam):
        return f"{p.name}: {p.dtype.short}*{' out' if p.written else ''}"
    if isinstance(p, ScalarParam):
        return f"{p.name}: {p.dtype.short}"
    return f"{p.name} = {p.source[0]}.{p.source[1]}[{p.source[2]}]" if p.source else f"{p.name}: size"


def text_nest(nest: Nest) -> list[str]:
    """Lines of one nest."""
    lines = [f"# {nest.note}"] if nest.note else []
    pad = ""
    if nest.outer:
        lines.append("for " + ", ".join(f"{loop.name} < {loop.size}" for loop in nest.outer) + ":")
        pad = "  "
    if nest.body is not None:
        lines.append(f"{pad}{nest.body}")
    count = 0
    for phase in nest.phases:
        inside = pad
        if phase.inner:
            how = " in order" if phase.ordered else ""
            lines.append(pad + "over " + ", ".join(f"{loop.name} < {loop.size}" for loop in phase.inner) + f"{how}:")
            inside = pad + "  "
        names: dict[Expr, str] = {}
        uses: dict[Expr, int] = {}
        order = walk(phase.roots())
        for e in order:
            for a in e.args:
                uses[a] = uses.get(a, 0) + 1
        for root in phase.roots():
            uses[root] = uses.get(root, 0) + 1

        def show(e: Expr, names: dict[Expr, str] = names) -> str:
            return names[e] if e in names else text_node(e, show)

        for e in order:
            if uses.get(e, 0) > 1 and e.op not in ("const", "index", "size", "scalar", "acc"):
                lines.append(f"{inside}t{count}: {e.dtype.short} = {text_node(e, show)}")
                names[e] = f"t{count}"
                count += 1
        for r in phase.reduces:
            running = {0: "", 1: "running ", -1: "running down "}[r.scan]
            lines.append(f"{inside}{r.name} = {running}{r.combine} of {', '.join(map(show, r.exprs()))}")
        lines += [inside + s.text(show) for s in phase.stores]
    return lines
