"""One planned nest -> Python source that numba compiles: the readable form of the machine code.

The source follows the same schedule as the LLVM printer, with the same expansions and the same order of every
reduction, so both give the same bits.  Vectorising is left to LLVM; placing code out of loops too.  Helpers (select,
fma, bits, ...) are in numba_raw.py.
"""

from __future__ import annotations

from fusegrad.dtypes import dtype

from .llvm_reduce import acc_dtype, identity
from .nest import Loop, Reduce, Scratch, Store
from .plan import PlannedNest, PlannedPhase, row_major
from .scalar import INFIX, Access, Expr, Size, UnsupportedScalar

_INFIX = {
    op: sign for op, sign in INFIX.items() if op not in ("shl", "shr")
}  # those are calls: any distance is allowed
_CALLS = {
    "fma",
    "copysign",
    "sqrt",
    "floor",
    "ceil",
    "trunc",
    "round",
    "where",
    "fmod",
    "trunc_div",
    "shl",
    "shr",
    "lshr",
}


class SourcePrinter:
    """Prints `def name(buffers..., numbers..., lo, hi, error)`; constants and tables go to `constants`."""

    def __init__(self, nest: PlannedNest, name: str, params: list[str], scratch: list[Scratch]) -> None:
        self.nest, self.name, self.params, self.scratch = nest, name, params, scratch
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Expr, str] = {}
        self.accs: dict[str, str] = {}
        self.constants: dict[str, tuple[dtype, object]] = {}
        self._n = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, hint: str = "t") -> str:
        self._n += 1
        return f"{hint}{self._n}"

    def text(self) -> str:
        nest = self.nest
        for s in self.scratch:
            self.line(f"{s.name} = stack_{s.dtype.short}({max(s.size, 1)})")
        # accumulators live on the stack; made once, at function entry
        self.slots = {r.name: self._slots(r, p) for p in nest.phases for r in p.reduces}
        self._outer(0)
        head = f"def {self.name}({', '.join([*self.params, 'lo', 'hi', 'error'])}):"
        return "\n".join([head, *self.lines]) + "\n"

    def _outer(self, k: int) -> None:
        nest = self.nest
        if k < len(nest.outer):
            loop = nest.outer[k]
            self.line(f"for {loop.name} in range({'lo, hi' if k == 0 else self.size(loop.size)}):")
            self.depth += 1
            self._outer(k + 1)
            self.depth -= 1
            return
        for p in nest.phases:
            self._phase(p)

    def _lanes(self, p: PlannedPhase) -> int:
        return p.width if p.inner and not self.nest.lane_outer else 1

    def _slots(self, r: Reduce, p: PlannedPhase) -> list[str]:
        names = []
        for dt in [acc_dtype(r).short, *(["i64"] if r.combine.startswith("arg") else [])]:
            name = self.fresh("acc")
            self.line(f"{name} = stack_{dt}({self._lanes(p)})")
            names.append(name)
        return names

    def _phase(self, p: PlannedPhase) -> None:
        width = self._lanes(p)
        for r in p.reduces:
            slot, dt = self.slots[r.name], acc_dtype(r)
            self.line(f"for lane in range({width}):")
            self.depth += 1
            self.line(f"{slot[0]}[lane] = {self.constant(dt, identity(r.combine, dt))}")
            if len(slot) == 2:
                self.line(f"{slot[1]}[lane] = -1")
            self.depth -= 1
        self._inner(p, 0, width)
        for r in p.reduces:
            self._finish(r, width)
        self.names = {}

    def _inner(self, p: PlannedPhase, k: int, width: int) -> None:
        if k == len(p.inner):
            self._point(p, "0")
            return
        loop = p.inner[k]
        size = self.size(loop.size)
        if k < len(p.inner) - 1 or width == 1:
            self.line(f"for {loop.name} in range({f'({size}) - 1, -1, -1' if p.scan < 0 else size}):")
            self.depth += 1
            self._inner(p, k + 1, width)
            self.depth -= 1
            return
        whole = self.fresh("whole")
        self.line(f"{whole} = ({size}) // {width} * {width}")
        start = self.fresh("start")
        self.line(f"for {start} in range(0, {whole}, {width}):")
        self.line(f"    for lane in range({width}):")
        self.line(f"        {loop.name} = {start} + lane")
        self.depth += 2
        self._point(p, "lane")
        self.depth -= 2
        self.line(f"for lane in range(({size}) - {whole}):")
        self.line(f"    {loop.name} = {whole} + lane")
        self.depth += 1
        self._point(p, "lane")
        self.depth -= 1

    # ------------------------------------------------------------ one point

    def _point(self, p: PlannedPhase, lane: str) -> None:
        saved, self.names = self.names, dict(self.names)
        values = [[self.val(e) for e in r.exprs()] for r in p.reduces]
        if p.scan:
            for r, v in zip(p.reduces, values, strict=True):
                self._combine(r, v, lane, p.inner)
                self._result(r, lane)
        stores = [(self.place(s.access, [self.val(g) for g in s.gather]), self.val(s.value), s) for s in p.stores]
        if not p.scan:
            for r, v in zip(p.reduces, values, strict=False):
                self._combine(r, v, lane, p.inner)
        for place, text, s in stores:
            self._store(place, text, s)
        self.names = saved

    def _store(self, place: str, v: str, s: Store) -> None:
        self.line(f"{place} = {f'u8({v})' if s.value.dtype.category == 0 else v}")

    def _combine(self, r: Reduce, values: list[str], lane: str, inner: list[Loop]) -> None:
        slot, dt = self.slots[r.name], acc_dtype(r)
        if dt is not r.value.dtype:
            values = [f"f64({v})" for v in values]
        v = values[0]
        if r.factor is not None:
            self.line(f"{slot[0]}[{lane}] = {slot[0]}[{lane}] * {values[1]} + {v}")
            return
        position = ""
        if len(slot) == 2:
            position = self.fresh()
            terms = [loop if c == 1 else f"{loop} * ({self.size(c)})" for loop, c in row_major(inner)]
            self.line(f"{position} = i64({' + '.join(terms) or '0'})")
        self._merge(r, slot, lane, v, position)

    def _merge(self, r: Reduce, slot: list[str], lane: str, new: str, position: str) -> None:
        dt = acc_dtype(r)
        old = f"{slot[0]}[{lane}]"
        if r.combine in ("add", "sum", "mul", "and", "or"):
            sign = {"add": "+", "sum": "+", "mul": "*", "and": "&", "or": "|"}[r.combine]
            if dt.category == 0:
                self.line(f"{old} = u8({old} {sign} {new})")
            else:
                self.line(f"{old} = {self.wrap(f'{old} {sign} {new}', dt)}")
            return
        sign = ">" if r.combine.endswith("max") else "<"
        take = f"({new} {sign} {old})"
        nan = f"({new} != {new})" if dt.category == 2 else ""
        if len(slot) == 1:
            flag = f"{take} | {nan}" if nan else take
            result = f"where({flag}, {new}, {old})"
            self.line(f"{old} = {f'u8({result})' if dt.category == 0 else result}")
            return
        flag, index = self.fresh(), f"{slot[1]}[{lane}]"
        same = f"({new} == {old})"
        if nan:
            take = f"({take} | ({nan} & ({old} == {old})))"
            same = f"({same} | ({nan} & ({old} != {old})))"
        earlier = f"(u64({position}) < u64({index}))"
        self.line(f"{flag} = {take} | ({same} & {earlier})")
        self.line(f"{old} = where({flag}, {new}, {old})")
        self.line(f"{index} = where({flag}, {position}, {index})")

    def _finish(self, r: Reduce, width: int) -> None:
        slot = self.slots[r.name]
        half = width // 2
        while half:
            self.line(f"for lane in range({half}):")
            self.depth += 1
            new = self.fresh()
            self.line(f"{new} = {slot[0]}[lane + {half}]")
            position = ""
            if len(slot) == 2:
                position = self.fresh()
                self.line(f"{position} = {slot[1]}[lane + {half}]")
            self._merge(r, slot, "lane", new, position)
            self.depth -= 1
            half //= 2
        self._result(r, "0")

    def _result(self, r: Reduce, lane: str) -> None:
        """Name what the accumulator holds."""
        slot, dt = self.slots[r.name], acc_dtype(r)
        name = self.fresh("r")
        value = f"{slot[-1]}[{lane}]"
        if len(slot) == 1:
            value = f"({value} != 0)" if dt.category == 0 else value if dt is r.dtype else f"f32({value})"
        self.line(f"{name} = {value}  # {r.name}")
        self.accs[r.name] = name

    # ------------------------------------------------------------ expressions

    def size(self, size: Size) -> str:
        return str(size)

    def constant(self, dt: dtype, value: object) -> str:
        if dt.category == 0:
            return str(bool(value))
        if dt.short == "i64":
            return str(value) if value != -(1 << 63) else f"(-{(1 << 63) - 1} - 1)"
        name = f"c_{dt.short}_{value!r}".replace("-", "m").replace(".", "p").replace("+", "")
        self.constants[name] = dt, value
        return name

    def wrap(self, text: str, dt: dtype) -> str:
        """numba computes integers in 64 bits: back to the width that the expression has."""
        return text if dt.category == 2 else f"{dt.short}({text})"

    def val(self, e: Expr) -> str:
        """Name (or literal) of an expression's value; prints what is missing, iteratively."""
        stack = [(e, 0)]
        while stack:
            x, k = stack.pop()
            if x in self.names:
                continue
            args = (x.args[0], x.args[2]) if x.op == "branch" else x.args
            if k < len(args):
                stack += [(x, k + 1), (args[k], 0)]
            else:
                self.names[x] = self._emit(x)
        return self.names[e]

    def _emit(self, e: Expr) -> str:
        if e.op == "const":
            return self.constant(e.dtype, e.attr)
        if e.op == "scalar":
            return e.attr
        if e.op == "acc":
            return self.accs[e.attr]
        if e.op == "branch":
            return self._branch(e)
        if e.op == "check":
            return self._check(e)
        if e.op == "load":
            return self._load(e)
        name = self.fresh()
        self.line(f"{name} = {self._expression(e)}")
        return name

    def _expression(self, e: Expr) -> str:
        op, dt = e.op, e.dtype
        if op == "size":
            return f"i64({self.size(e.attr)})"
        if op == "affine":
            terms = [loop if c == 1 else f"{loop} * ({self.size(c)})" for loop, c in e.attr[1]]
            return f"i64({' + '.join([*terms, f'({self.size(e.attr[0])})'])})"
        args = [self.names[a] for a in e.args]
        if op in _INFIX:
            text = f"{args[0]} {_INFIX[op]} {args[1]}"
            return text if dt.category == 0 else self.wrap(text, dt)
        if op == "neg":
            return self.wrap(f"-{args[0]}", dt)
        if op == "abs":
            return f"fabs({args[0]})" if dt.category == 2 else self.wrap(f"abs({args[0]})", dt)
        if op == "not_":
            return f"not {args[0]}" if dt.category == 0 else self.wrap(f"~{args[0]}", dt)
        if op == "cast":
            return self._cast(args[0], e.args[0].dtype, dt)
        if op == "bitcast":
            return f"bits_{dt.short}({args[0]})"
        if op == "table":
            name = f"table_{dt.short}_{len(e.attr)}_{abs(hash(e.attr)) % 10**8}"
            self.constants[name] = dt, e.attr
            return f"{name}[{args[0]}]"
        if op == "random_word":
            return f"random_word({', '.join(args)})"
        if op in _CALLS:
            return f"{op}({', '.join(args)})"
        raise UnsupportedScalar(f"{op} of {dt.name}")

    def _cast(self, x: str, source: dtype, target: dtype) -> str:
        if target.category == 0:
            return f"{x} != {self.constant(source, 0)}"
        if source.category == 2 and target.category == 1 and target.itemsize < 4:
            return f"{target.short}(to_i32({x}))"
        if source.category == 2 and target.category == 1:
            return f"to_{target.short}({x})"
        return f"{target.short}({x})"

    def _branch(self, e: Expr) -> str:
        name = self.fresh()
        rare, fast = self.names[e.args[0]], self.names[e.args[2]]
        self.line(f"{name} = {fast}")
        self.line(f"if {rare}:")
        self.depth += 1
        saved, self.names = self.names, dict(self.names)
        self.line(f"{name} = {self.val(e.args[1])}")
        self.names = saved
        self.depth -= 1
        return name

    def _check(self, e: Expr) -> str:
        index, size = self.names[e.args[0]], self.names[e.args[1]]
        name = self.fresh()
        self.line(f"{name} = {index}")
        if e.attr[1]:
            self.line(f"{name} = where({index} < 0, {index} + {size}, {index})")
        self.line(f"if {name} < 0 or {name} >= {size}:")
        for k, v in enumerate((e.attr[0], index, size)):
            self.line(f"    error[{k}] = {v}")
        self.line(f"    {name} = i64(0)")
        return name

    def place(self, a: Access, gather: list[str]) -> str:
        terms = [loop if c == 1 else f"{loop} * ({self.size(c)})" for loop, c in a.terms]
        terms += [g if c == 1 else f"{g} * ({self.size(c)})" for g, c in zip(gather, a.gather, strict=False)]
        if a.offset != 0 or not terms:
            terms.append(f"({self.size(a.offset)})")
        return f"{a.buffer}[{' + '.join(terms)}]"

    def _load(self, e: Expr) -> str:
        n = len(e.attr.gather)
        args = [self.names[a] for a in e.args]
        name = self.fresh()
        text = self.place(e.attr, args[:n])
        text = f"{text} != 0" if e.dtype.category == 0 else text
        if not e.attr.masked:
            self.line(f"{name} = {text}")
            return name
        self.line(f"{name} = {args[n + 1]}")
        self.line(f"if {args[n]}:")
        self.line(f"    {name} = {text}")
        return name
