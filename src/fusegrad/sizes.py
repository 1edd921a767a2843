"""Symbolic sizes: integers whose value is not fixed yet, such as the batch of a captured function.

A `SymInt` is a canonical integer polynomial (see `polynomial.py`) with a `SizeContext`. Arithmetic gives a SymInt (or a
plain int when the result is constant). A comparison gives a plain bool: what follows from the bounds and the facts
known so far is answered at once; the rest depends on the context's mode:

- ``"guard"`` (compile): answered with the sizes of this capture and recorded in ``ctx.guards``;
- ``"constrain"`` (export): refused with a `ConstraintError` that names the dimension and the deciding relation.

A context belongs to one capture; it is not shared between threads. Shapes may mix ints and SymInts freely.
"""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import gcd, isfinite
from threading import get_ident
from types import FrameType
from typing import Any, NamedTuple

from .polynomial import Poly, SizeTooComplex, floordiv, mod
from .size_facts import Facts, Interval, intersect
from .size_floats import SizeFloat, class_for_users
from .size_values import SymbolicSize, hint_of, is_int, known_eq, known_ge, same, sym_max, sym_min, sym_prod, sym_sum

__all__ = [
    "ConstraintError", "Guard", "SizeContext", "SizeFloat", "SizeTooComplex", "SymInt", "UnprovedSize",
    "as_python", "evaluate",
    "hint_of", "is_int", "known_eq", "known_ge", "parse_expr", "poly_of", "same",
    "sym_max", "sym_min", "sym_prod", "sym_sum",
]  # fmt: skip

_PACKAGE = os.path.dirname(os.path.realpath(__file__))


class ConstraintError(ValueError):
    """Exporting this program needs a relation between sizes that the declared dimensions do not promise.

    For example ``x[: 4] + y`` with ``Dim("batch")`` on both needs ``batch <= 4``. Repair: give the dimension the bounds
    it needs (``Dim("batch", max=4)``), use one `Dim` for sizes that must be equal, or leave the axis static.
    """

    needed: Guard  # the relation that holds for the example and is not promised


_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class UnprovedSize(Exception):
    """Code that may rely on proved facts alone (see ``SizeContext.proving``) asked what the facts do not decide."""


class Symbol(NamedTuple):
    """One unknown: its name, its value in this capture, its declared bounds (max None: unbounded)."""

    name: str
    hint: int
    min: int
    max: int | None
    soft: bool = False  # min was not stated: a context may raise it from 0 to 1


class Guard(NamedTuple):
    """A recorded condition ``lhs rel rhs`` with ``rel`` one of == != >= <= and the user's line that asked."""

    rel: str
    lhs: Poly
    rhs: Poly
    loc: tuple[str, int] | None = None

    @property
    def text(self) -> str:
        return f"{self.lhs} {self.rel} {self.rhs}"

    def __str__(self) -> str:
        return self.text

    def check(self, env: Mapping[str, int]) -> bool:
        """Whether the condition holds for these values of the symbols."""
        return _RELATIONS[self.rel](self.lhs.evaluate(env), self.rhs.evaluate(env))

    def symbols(self) -> set[str]:
        return self.lhs.symbols() | self.rhs.symbols()


class SizeContext(Facts):
    """The symbols of one capture, the facts known about them, and the guards recorded so far."""

    def __init__(self, mode: str = "guard", locate: Callable[[], tuple[str, int] | None] | None = None) -> None:
        if mode not in ("guard", "constrain"):
            raise ValueError(f"SizeContext: mode must be 'guard' or 'constrain', got {mode!r}")
        self.mode = mode
        self.asks = mode == "guard"  # whether code may ask what the facts do not decide (export: while it records)
        self.locate = locate or user_line
        self.symbols: dict[str, Symbol] = {}
        self.guards: list[Guard] = []
        self.real: Callable[[SymInt], Any] | None = None  # what a size becomes in float arithmetic
        self.fixed: Callable[[Guard], None] | None = None  # is told of a size that became a plain int
        self.told: Callable[[Any], None] | None = None  # is told of a size (or a number of sizes) that became a text
        self.shows: Any = None  # (code, function): in a text that this code asks for, a size is what the function says
        self.raised: dict[str, int] = {}  # soft minima that had to be raised (constrain mode)
        self._proving: set[int] = set()  # threads that may not assume anything
        super().__init__()

    # ---- symbols ----
    def symbol(
        self, name: str, hint: int | None = None, min: int = 0, max: int | None = None, soft: bool = False
    ) -> SymInt:
        """A symbol (or the same one again) of value `hint` in this capture, in min..max; ValueError if inconsistent."""
        if not name.isidentifier():
            raise ValueError(f"a size symbol needs an identifier as its name, got {name!r}")
        if max is not None and min > max:
            raise ValueError(f"size {name}: the range {min}..{max} is empty")
        hint = min if hint is None else int(hint)
        if hint < min or (max is not None and hint > max):
            raise ValueError(f"size {name} is {hint}, allowed {range_text(min, max)}")
        new = Symbol(name, hint, min, max, soft)
        old = self.symbols.setdefault(name, new)
        if old != new:
            raise ValueError(f"size {name} was already declared as {old}, now as {new}")
        p = Poly.symbol(name)
        if old is new:
            self._names.append(name)
            self._ranges[p] = (min, max)
            self._forget()
        return SymInt(p, self)

    def freeze(self) -> None:
        """From now on no minimum may be raised: what was raised becomes the declared minimum."""
        for name, s in self.symbols.items():
            self.symbols[name] = s._replace(min=max(s.min, self.raised.get(name, 0)), soft=False)
        self.asks = self.mode == "guard"

    def fresh_name(self, prefix: str = "s") -> str:
        """`s0`, `s1`, ...: the first that is not taken."""
        n = len(self.symbols)
        while f"{prefix}{n}" in self.symbols:
            n += 1
        return f"{prefix}{n}"

    def bounds(self, value: SymInt | int) -> Interval:
        """The interval proved for a size (None: unbounded)."""
        return self.interval(poly_of(value))

    def hints(self) -> dict[str, int]:
        return {s.name: s.hint for s in self.symbols.values()}

    # ---- decisions: record or refuse ----
    def decide(self, rel: str, a: Poly, b: Poly) -> bool:
        """The truth of ``a rel b``: proved, else guarded, else (constrain mode) a ConstraintError."""
        if rel == "!=":
            return not self.decide("==", a, b)
        if rel in ("<", ">"):
            low, high = (a, b) if rel == "<" else (b, a)
            return not self.decide(">=", low, high)
        p = a - b if rel != "<=" else b - a
        answer = self.known_zero(p) if rel == "==" else self.known_nonneg(p)
        if answer is not None:
            return answer
        if get_ident() in self._proving:
            raise UnprovedSize(f"{_guard('==' if rel == '==' else '>=', p, None).text} is not known")
        value = p.evaluate(self.hints())
        holds = value == 0 if rel == "==" else value >= 0
        kind = "==" if rel == "==" else ">="
        if self.mode == "guard":
            self.assume(kind, p, holds, self.locate())
            return holds
        if not self._raise_soft(kind, p):
            raise self.refusal(kind, p, holds)
        return self.decide(rel, a, b)

    def assume(self, kind: str, p: Poly, holds: bool = True, loc: tuple[str, int] | None = None) -> None:
        """Record ``p == 0`` or ``p >= 0`` (or its opposite, when `holds` is false) as a guard and as a fact."""
        if kind == ">=" and not holds:
            p, holds = (-p).shift(-1), True
        guard = _guard(kind if holds else "!=", p, loc)
        if not any(g[:3] == guard[:3] for g in self.guards):  # facts learned later may hide an earlier one
            self.guards.append(guard)
        self.learn(kind if holds else "!=", self.simplify(p))

    @contextmanager
    def proving(self) -> Iterator[None]:
        """In this thread, nothing is assumed: what the facts do not decide raises `UnprovedSize`.

        For work whose guards nobody would read: its result is kept for other sizes, or for other processes.
        """
        me = get_ident()
        if me in self._proving:
            yield
            return
        self._proving.add(me)
        try:
            yield
        finally:
            self._proving.discard(me)

    def _raise_soft(self, kind: str, p: Poly) -> bool:
        """Constrain mode: would ``dim >= 1`` for a dimension without a stated minimum decide this? Then require it."""
        names = [n for n in sorted(p.symbols()) if self.symbols[n].soft and self.symbols[n].hint >= 1]
        names = [n for n in names if n not in self.raised and self._ranges[Poly.symbol(n)][0] == 0]
        for name in names:
            s = Poly.symbol(name)
            old = self._ranges[s]
            self._ranges[s] = intersect(old, (1, None))
            self._forget()
            if (self.known_zero(p) if kind == "==" else self.known_nonneg(p)) is not None:
                self.raised[name] = 1
                return True
            self._ranges[s] = old
            self._forget()
        return False

    def refusal(self, kind: str, p: Poly, holds: bool) -> ConstraintError:
        """The error for an undecided relation: the relation, the dimensions, the user's line, a repair."""
        needed = _guard(kind, p, None)
        if not holds:
            needed = _guard(">=", (-p).shift(-1), None) if kind == ">=" else _guard("!=", p, None)
        where = self.locate()
        dims = ", ".join(self.describe(n) for n in sorted(p.symbols()))
        line = f"{where[0]}:{where[1]}: " if where else ""
        error = ConstraintError(
            f"{line}this program is only right when {needed.text}, but the dimensions allow more: {dims}. "
            f"{self._repair(needed)}"
        )
        error.needed = needed
        return error

    def describe(self, name: str) -> str:
        """`batch in 2..16 (here 4)`."""
        s = self.symbols[name]
        lo, hi = self._ranges.get(Poly.symbol(name), (s.min, s.max))
        return f"{name} in {range_text(s.min if lo is None else lo, hi)} (here {s.hint})"

    def _repair(self, needed: Guard) -> str:
        a, value = needed.lhs.single_atom(), needed.rhs.as_int()
        if a is not None and a.kind == "symbol":
            if value is not None and needed.rel in (">=", "<="):
                word = "min" if needed.rel == ">=" else "max"
                return f"Declare it: Dim({a.text!r}, {word}={value})."
            if value is not None and needed.rel == "==":
                return (
                    f"Leave that axis static (size {value}), or make the program independent of its size: a loop over "
                    "it is fusegrad.control.scan, its length as a number is x.shape[i] (not len(x))."
                )
            if value is not None and needed.rel == "!=" and self.symbols[a.text].hint > value:
                return f"Declare it: Dim({a.text!r}, min={value + 1})."
            other = needed.rhs.single_atom()
            if other is not None and other.kind == "symbol" and needed.rel == "==":
                return f"If they are always equal, use one Dim for both: {a.text}."
        if a is not None and a.kind == "mod" and value == 0 and needed.rel == "==":
            size, k = a.args[0].single_atom(), a.args[1].as_int()
            if size is not None and size.kind == "symbol" and k is not None:
                return f"Declare the axis a multiple: {k} * Dim({size.text + f'_{k}'!r})."
        return "Narrow the dimensions with Dim(min=, max=), or make the program independent of this relation."

    # ---- sizes made of polynomials ----
    def make(self, p: Poly) -> SymInt | int:
        """A size from a polynomial: a plain int when constant."""
        value = p.as_int()
        return SymInt(p, self) if value is None else value

    def concrete(self, p: Poly) -> int:
        """The int itself: guarded equal to the hint (guard mode) or refused (constrain mode) unless proved."""
        lo, hi = self.interval(p)
        if lo is not None and lo == hi:
            return lo
        value, known = p.evaluate(self.hints()), len(self.guards)
        self.decide("==", p, Poly.const(value))
        if self.fixed is not None:
            for g in self.guards[known:]:
                self.fixed(g)
        return value

    def extremum(self, kind: str, values: Iterable[Size]) -> SymInt | int:
        """The largest ("max") or smallest ("min"), as an expression."""
        return self.make(self._extremum(kind, [poly_of(v) for v in values]))

    def known(self, rel: str, a: Size, b: Size) -> bool | None:
        """Whether ``a == b`` or ``a >= b``, None when the facts do not decide it. Records nothing."""
        p = poly_of(a) - poly_of(b)
        return self.known_zero(p) if rel == "==" else self.known_nonneg(p)

    # ---- text ----
    def where_text(self) -> str:
        """`B in 2..256, s1 in 0..`: declared bounds, as printed in a graph's heading."""
        return ", ".join(f"{s.name} in {range_text(s.min, s.max)}" for s in self.symbols.values())


def range_text(lo: int, hi: int | None) -> str:
    """`2..16`, `2..` (unbounded), `4` (one value)."""
    return f"{lo}.." if hi is None else str(lo) if lo == hi else f"{lo}..{hi}"


def _guard(rel: str, p: Poly, loc: tuple[str, int] | None) -> Guard:
    """`p rel 0` written readably: positive terms left, negative right, the constant where it is positive."""
    g = gcd(p.content(), p.constant) or 1
    p = p.divide_exact(g)
    left = Poly({m: c for m, c in p.terms if m and c > 0})
    right = Poly({m: -c for m, c in p.terms if m and c < 0})
    c = p.constant
    if not left.terms:
        left, right, c, rel = right, left, -c, {">=": "<="}.get(rel, rel)
    if not right.terms:
        right, c = Poly.const(-c), 0
    if c > 0:
        left = left.shift(c)
    elif c < 0:
        right = right.shift(-c)
    return Guard(rel, left, right, loc)


def user_line() -> tuple[str, int] | None:
    """(file, line) of the nearest frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        inside = name.startswith(_PACKAGE) or frame.f_globals.get("__name__", "").split(".")[0] == "fusegrad"
        if not inside and not name.startswith("<"):
            return name, frame.f_lineno
        frame = frame.f_back
    return None


_PARTS = ("__repr__", "__str__", "__format__", "<listcomp>", "<genexpr>", "wrapper")  # the last one is reprlib's


def _asks(frame: FrameType | None) -> Any:
    """The code that asks for a text, past what makes parts of it."""
    while frame is not None and frame.f_code.co_name in _PARTS:
        frame = frame.f_back
    return None if frame is None else frame.f_code


def library_asks() -> bool:
    """Whether the nearest frame that is not of the standard library is of this package. (What the package shows of an
    object, whoever asked for it shows.)"""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        if frame.f_code.co_name in ("__repr__", "__format__", "tensor_text"):
            frame = frame.f_back
            continue
        if name == "fusegrad" or frame.f_code.co_filename.startswith(("<fusegrad", _PACKAGE)):
            return True
        if name not in sys.stdlib_module_names or name == "__main__":
            return False
        frame = frame.f_back
    return True


def _bits(name: str, turned: bool = False) -> Callable:
    f = getattr(operator, name)
    return lambda n, m: f(m, int(n)) if turned else f(int(n), m)


class SymInt(SymbolicSize):
    """A size that is not fixed: behaves like an int in arithmetic; comparing it asks its context."""

    __slots__ = ("expr", "ctx", "__weakref__")
    __class__ = class_for_users(int)

    expr: Poly
    ctx: SizeContext

    def __init__(self, expr: Poly, ctx: SizeContext) -> None:
        self.expr = expr
        self.ctx = ctx

    @property
    def hint(self) -> int:
        """Its value in this capture."""
        return self.expr.evaluate(self.ctx.hints())

    # ---- arithmetic ----
    def __add__(self, other: Any) -> Any:
        p = _operand(self, other)
        return self._real() + other if p is None else self.ctx.make(self.expr + p) if p is not _NO else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        p = _operand(self, other)
        return self._real() - other if p is None else self.ctx.make(self.expr - p) if p is not _NO else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        p = _operand(self, other)
        return other - self._real() if p is None else self.ctx.make(p - self.expr) if p is not _NO else NotImplemented

    def __mul__(self, other: Any) -> Any:
        p = _operand(self, other)
        return self._real() * other if p is None else self.ctx.make(self.expr * p) if p is not _NO else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        p = _operand(self, other)
        return self._real() // other if p is None else self._divide(floordiv, self.expr, p)

    def __rfloordiv__(self, other: Any) -> Any:
        p = _operand(self, other)
        return other // self._real() if p is None else self._divide(floordiv, p, self.expr)

    def __mod__(self, other: Any) -> Any:
        p = _operand(self, other)
        return self._real() % other if p is None else self._divide(mod, self.expr, p)

    def __rmod__(self, other: Any) -> Any:
        p = _operand(self, other)
        return other % self._real() if p is None else self._divide(mod, p, self.expr)

    def __divmod__(self, other: Any) -> tuple:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple:
        return other // self, other % self

    def _divide(self, how: Callable[[Poly, Poly], Poly], a: Any, b: Any) -> Any:
        if a is _NO or b is _NO:
            return NotImplemented
        if b.as_int() is None and self.ctx.decide("==", b, Poly({})):
            raise ZeroDivisionError("integer division or modulo by zero")
        return self.ctx.make(how(a, b))

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, SymInt):
            other = int(other)
        if isinstance(other, int) and other >= 0:
            return self.ctx.make(self.expr**other)
        return self._real() ** other if isinstance(other, (int, float)) else NotImplemented

    def __rpow__(self, other: Any) -> Any:
        if isinstance(other, float) and self.ctx.real is not None:
            return other ** self._real()
        return other ** int(self) if isinstance(other, (int, float)) else NotImplemented

    def __truediv__(self, other: Any) -> Any:
        p = _operand(self, other)
        if p is _NO:
            return NotImplemented
        return self._real() / (other if p is None or self.ctx.real is not None else int(other))

    def __rtruediv__(self, other: Any) -> Any:
        p = _operand(self, other)
        return NotImplemented if p is _NO else other / self._real()

    def __neg__(self) -> SymInt | int:
        return self.ctx.make(-self.expr)

    def __pos__(self) -> SymInt:
        return self

    def __abs__(self) -> SymInt | int:
        return self if self >= 0 else -self

    def __round__(self, ndigits: int | None = None) -> SymInt | int:
        return self if ndigits is None or ndigits >= 0 else round(int(self), ndigits)

    __trunc__ = __floor__ = __ceil__ = __pos__

    # ---- comparison ----
    def __eq__(self, other: Any) -> bool:
        return True if self is other else self._compare("==", other)

    def __ne__(self, other: Any) -> bool:
        return False if self is other else self._compare("!=", other)

    def __lt__(self, other: Any) -> bool:
        return self._compare("<", other)

    def __le__(self, other: Any) -> bool:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> bool:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> bool:
        return self._compare(">=", other)

    def _compare(self, rel: str, other: Any) -> Any:
        p = _operand(self, other)
        if p is _NO:
            return NotImplemented
        if p is None:  # a float: an integer compares with its floor or ceiling
            if not isfinite(other):
                return _RELATIONS[rel](0, other)
            if rel in ("==", "!=") and other != int(other):
                return rel == "!="
            floor = int(other // 1)
            p = Poly.const(floor if rel in ("<=", ">", "==", "!=") else -int(-other // 1))
        return self.ctx.decide(rel, self.expr, p)

    def __hash__(self) -> int:
        if self.ctx.mode == "constrain" and not library_asks():
            return hash(self.ctx.concrete(self.expr))  # a dict of the program would be searched for this call's size
        return hash(self.expr)

    def __bool__(self) -> bool:
        return not self.ctx.decide("==", self.expr, Poly({}))

    # ---- becoming a number ----
    def __index__(self) -> int:
        return self.ctx.concrete(self.expr)

    __int__ = __index__

    def __float__(self) -> float:
        return float(self.ctx.concrete(self.expr))

    # operations on bits are no polynomials: those of the number
    __and__, __or__, __xor__ = __rand__, __ror__, __rxor__ = [_bits(f) for f in ("and_", "or_", "xor")]
    __lshift__, __rshift__ = _bits("lshift"), _bits("rshift")
    __rlshift__, __rrshift__ = _bits("lshift", True), _bits("rshift", True)

    def __invert__(self) -> int:
        return ~int(self)

    def _real(self) -> Any:
        """As an operand of float arithmetic: its value, or a symbolic number where the context has those."""
        return float(self) if self.ctx.real is None else self.ctx.real(self)

    def __format__(self, spec: str = "") -> str:
        shows = self.ctx.shows
        if shows is not None and _asks(sys._getframe(1)) is shows[0]:
            return format(shows[1](self), spec)
        if self.ctx.told is not None and not library_asks():
            self.ctx.told(self)
        return format(str(self.expr), spec.rstrip("dn,_"))

    __str__ = __repr__ = __format__

    def __copy__(self) -> SymInt:
        return self

    def __deepcopy__(self, memo: dict) -> SymInt:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a symbolic size cannot be pickled; it belongs to one capture")


Size = int | SymInt
_NO: Any = object()


def _operand(size: SymInt, other: Any) -> Any:
    """The other operand as a polynomial; None for a float; _NO for what sizes do not mix with."""
    if isinstance(other, SymInt):
        if other.ctx is not size.ctx:
            raise ValueError(f"sizes {size} and {other} belong to different captures")
        return other.expr
    if isinstance(other, int):
        return Poly.const(int(other))
    if isinstance(other, float):
        return None
    if hasattr(other, "__index__") and not hasattr(other, "shape"):
        return Poly.const(other.__index__())
    return _NO


# ---- helpers that take ints and SymInts (more in ``size_values``) ----
def poly_of(value: Size | Poly) -> Poly:
    """The polynomial of an int, a SymInt or a Poly."""
    return value.expr if isinstance(value, SymInt) else value if isinstance(value, Poly) else Poly.const(int(value))


def evaluate(value: Size | Poly, env: Mapping[str, int]) -> int:
    """The int that `value` has for these values of the symbols; KeyError names a missing one."""
    return value if type(value) is int else poly_of(value).evaluate(env)


def as_python(value: Size | Poly, names: Mapping[str, str] | None = None) -> str:
    """Python source of the value; `names` renames symbols (to locals of generated code)."""
    if isinstance(value, int):
        return str(int(value))
    p = poly_of(value)
    if names:
        p = p.substitute(lambda a: Poly.symbol(names[a.text]) if a.kind == "symbol" and a.text in names else None)
    return str(p)


def parse_expr(text: str, ctx: SizeContext) -> Size:
    """Read back what `str(size)` printed. Symbols must exist in `ctx`; ValueError names what is wrong."""
    from .sizes_text import parse_poly

    return ctx.make(parse_poly(text, ctx.symbols))
