"""Scalar expressions: what one loop iteration computes, as hash-consed typed trees, and the builder that makes them.

An `Expr` is immutable and unique: building the same expression twice gives the same object, so `is` compares and common
subexpressions are shared without a pass.  `==` is identity; the comparison operators `<` and so on build expressions,
equality is `b.eq(x, y)`.

Leaves
    const   attr = Python bool, int or float (already rounded to the dtype)
    index   attr = name of a loop of the nest                                    int64
    size    attr = a Size: an int expression over the kernel's size parameters    int64
    scalar  attr = name of a kernel scalar parameter
    acc     attr = name of an accumulator of an earlier phase of the same outer iteration
    load    attr = Access; args = gather indices (int64), then mask and other if Access.masked
    table   attr = tuple of numbers; args = (index,): a small constant array
Everything else is an operator named in UNARY, BINARY, ... below.  Meaning of integer operators: two's complement,
wraps; division by zero gives 0.  bool is stored as one byte, 0 or 1.  float16 can only be loaded, stored and cast.
"""

from __future__ import annotations

import functools
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fusegrad import dtypes
from fusegrad.dtypes import dtype
from fusegrad.size_values import SymbolicSize

Size = int | str  # an int, or an expression over size parameters: names, integers, + - * // % min() max() ()

# float result; integer arguments are cast to float32
UNARY_FLOAT = (
    "sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh "
    "atanh sigmoid erf erfc gelu lgamma digamma erfcx erfinv ndtr ndtri log_ndtr i0 i0e i1 i1e"
).split()
UNARY_SAME = "neg abs sign floor ceil trunc round".split()  # round: half to even
UNARY_TEST = "isnan isinf isfinite".split()
BINARY_SAME = "add sub mul floordiv mod fmod trunc_div maximum minimum".split()  # maximum, minimum: NaN wins
BINARY_FLOAT = "div pow atan2".split()  # pow also keeps integers when the exponent is a constant
COMPARE = "lt le gt ge eq ne".split()
BITWISE = "and_ or_ xor shl shr lshr".split()  # bool or integer; shr is arithmetic, lshr fills with zeros


class UnsupportedScalar(NotImplementedError):
    """An expression no printer can express; the operator then runs outside of kernels."""


class Access(NamedTuple):
    """Where a load or store goes: buffer[offset + sum coef * loop + sum coef * gather index], in elements.

    terms: (loop name, coefficient) pairs, sorted, no zero coefficients; gather: coefficients of the gather indices,
    which are the load's args (for stores: Store.gather).  masked: only where the mask argument holds.
    """

    buffer: str
    offset: Size = 0
    terms: tuple[tuple[str, Size], ...] = ()
    gather: tuple[Size, ...] = ()
    masked: bool = False


class Expr:
    """One node: op, args (Exprs), dtype, attr (hashable).  Make them with a Builder."""

    __slots__ = ("op", "args", "dtype", "attr", "__weakref__")
    op: str
    args: tuple[Expr, ...]
    dtype: dtype
    attr: Any

    def __init__(self) -> None:
        raise TypeError("use a Builder")

    # Python operators; a number takes the dtype of the other side
    def __add__(self, other: Any) -> Expr:
        return b.add(self, other)

    def __radd__(self, other: Any) -> Expr:
        return b.add(other, self)

    def __sub__(self, other: Any) -> Expr:
        return b.sub(self, other)

    def __rsub__(self, other: Any) -> Expr:
        return b.sub(other, self)

    def __mul__(self, other: Any) -> Expr:
        return b.mul(self, other)

    def __rmul__(self, other: Any) -> Expr:
        return b.mul(other, self)

    def __truediv__(self, other: Any) -> Expr:
        return b.div(self, other)

    def __rtruediv__(self, other: Any) -> Expr:
        return b.div(other, self)

    def __floordiv__(self, other: Any) -> Expr:
        return b.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Expr:
        return b.floordiv(other, self)

    def __mod__(self, other: Any) -> Expr:
        return b.mod(self, other)

    def __rmod__(self, other: Any) -> Expr:
        return b.mod(other, self)

    def __pow__(self, other: Any) -> Expr:
        return b.pow(self, other)

    def __rpow__(self, other: Any) -> Expr:
        return b.pow(other, self)

    def __neg__(self) -> Expr:
        return b.neg(self)

    def __abs__(self) -> Expr:
        return b.abs(self)

    def __invert__(self) -> Expr:
        return b.not_(self)

    def __and__(self, other: Any) -> Expr:
        return b.and_(self, other)

    def __rand__(self, other: Any) -> Expr:
        return b.and_(other, self)

    def __or__(self, other: Any) -> Expr:
        return b.or_(self, other)

    def __ror__(self, other: Any) -> Expr:
        return b.or_(other, self)

    def __xor__(self, other: Any) -> Expr:
        return b.xor(self, other)

    def __lshift__(self, other: Any) -> Expr:
        return b.shl(self, other)

    def __rshift__(self, other: Any) -> Expr:
        return b.shr(self, other)

    def __lt__(self, other: Any) -> Expr:
        return b.lt(self, other)

    def __le__(self, other: Any) -> Expr:
        return b.le(self, other)

    def __gt__(self, other: Any) -> Expr:
        return b.gt(self, other)

    def __ge__(self, other: Any) -> Expr:
        return b.ge(self, other)

    def __bool__(self) -> bool:
        raise TypeError("a scalar expression has no truth value; use b.where")

    def __repr__(self) -> str:
        return text(self)

    def __reduce__(self) -> Any:
        raise TypeError("scalar expressions are not pickled")


_pool: weakref.WeakValueDictionary[tuple, Expr] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def make(op: str, args: tuple[Expr, ...], dt: dtype, attr: Any = None) -> Expr:
    """The unique Expr with these parts (no checks: passes and printers use it, ops use Builder)."""
    if op == "const":
        key: tuple = (op, dt, attr.hex() if isinstance(attr, float) else attr)  # hex tells -0.0 from 0.0
    else:
        key = (op, dt, attr, args)
    with _lock:
        found = _pool.get(key)
        if found is None:
            found = object.__new__(Expr)
            found.op, found.args, found.dtype, found.attr = op, args, dt, attr
            _pool[key] = found
    return found


def round_constant(value: Any, dt: dtype) -> Any:
    """The Python number that a constant of this dtype holds: rounded, wrapped or turned into bool.

    UnsupportedScalar for a size that is known at run time only: converted here it would stay as it was at capture.
    """
    if isinstance(value, SymbolicSize):
        raise UnsupportedScalar(f"{value} as a constant")
    if dt.category == 0:
        return bool(value)
    if dt.category == 1:
        bits = dt.itemsize * 8
        value = int(value) & (1 << bits) - 1
        return value - (1 << bits) if dt.is_signed and value >> bits - 1 else value
    try:
        value = float(value)
    except OverflowError:  # an int beyond the range of double
        value = float("inf") if value > 0 else float("-inf")
    code = {2: "e", 4: "f", 8: "d"}[dt.itemsize]
    try:
        return struct.unpack(code, struct.pack(code, value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


class Builder:
    """Makes expressions.  `index_of(dim) -> Expr` says what `b.index(dim)` means in the nest being built.

    ``rounded``: the dtype that the result will have, where it is computed in a wider one (float16 in float32).
    """

    def __init__(self, index_of: Callable[[int], Expr] | None = None, rounded: dtype | None = None) -> None:
        self._index_of, self.rounded = index_of, rounded

    # leaves
    def const(self, value: Any, dtype: dtype) -> Expr:
        """A constant; value is a Python number (an expression, where a rule's attribute is one, is converted)."""
        if isinstance(value, Expr):
            return self.cast(value, dtype)
        return make("const", (), dtype, round_constant(value, dtype))

    def index(self, dim: int | str) -> Expr:
        """int64 index of an iteration dimension (int: asked of index_of; str: the name of a loop)."""
        if isinstance(dim, str):
            return make("index", (), dtypes.int64, dim)
        if self._index_of is None:
            return make("index", (), dtypes.int64, f"i{dim}")
        return self._index_of(dim)

    def size(self, size: Size) -> Expr:
        """int64 value of a Size (or of an expression that is one already)."""
        if isinstance(size, Expr):
            return size
        return self.const(size, dtypes.int64) if isinstance(size, int) else make("size", (), dtypes.int64, size)

    def scalar(self, name: str, dtype: dtype) -> Expr:
        """A scalar parameter of the kernel."""
        return make("scalar", (), dtype, name)

    def acc(self, name: str, dtype: dtype) -> Expr:
        """Result of an accumulator of an earlier phase."""
        return make("acc", (), dtype, name)

    def load(
        self,
        buffer: str,
        dtype: dtype,
        offset: Size = 0,
        terms: Any = (),
        gather: Sequence[tuple[Expr, Size]] = (),
        mask: Expr | None = None,
        other: Any = 0,
    ) -> Expr:
        """buffer[offset + sum coef*loop + sum coef*index], or `other` where mask does not hold (then nothing is read).

        terms: dict or pairs loop name -> coefficient; gather: (int64 Expr, coefficient) pairs (make them safe with
        check).
        """
        args = tuple(self.cast(i, dtypes.int64) for i, _ in gather)
        if mask is not None:
            args += (self.cast(mask, dtypes.bool_), self._to(other, dtype))
        where = Access(buffer, offset, sort_terms(terms), tuple(c for _, c in gather), mask is not None)
        return make("load", args, dtype, where)

    def table(self, values: Sequence[Any], index: Any, dtype: dtype) -> Expr:
        """values[index], a small constant array; the index must be in range."""
        rounded = tuple(round_constant(v, dtype) for v in values)
        return make("table", (self._to(index, dtypes.int64),), dtype, rounded)

    def check(self, index: Any, size: Size, error: int = 1, wrap: bool = True) -> Expr:
        """index if it is inside [0, size); wrap: a negative index counts from the end.  Else the kernel call reports
        Kernel.errors[error - 1] after it has run, and 0 is used."""
        return make("check", (self._to(index, dtypes.int64), self.size(size)), dtypes.int64, (error, wrap))

    # conversions
    def cast(self, x: Any, dtype: dtype) -> Expr:
        """x as another dtype.  float -> int truncates; NaN and values out of range give an unspecified integer."""
        if not isinstance(x, Expr):
            return self.const(x, dtype)
        if x.dtype is dtype:
            return x
        if x.op == "const" and (x.dtype.category <= dtype.category or dtype.category == 0):
            return self.const(x.attr, dtype)
        return make("cast", (x,), dtype)

    def bitcast(self, x: Expr, dtype: dtype) -> Expr:
        """The same bits as another dtype of equal size."""
        return make("bitcast", (x,), dtype)

    def _to(self, x: Any, dt: dtype) -> Expr:
        return self.cast(x, dt)

    def _pair(self, x: Any, y: Any) -> tuple[Expr, Expr]:
        """Both sides in one dtype; Python numbers are weak."""
        if not isinstance(x, Expr):
            if not isinstance(y, Expr):
                raise TypeError("one side must be a scalar expression")
            y, x = self._pair(y, x)
            return x, y
        if isinstance(y, Expr):
            if x.dtype is not y.dtype:
                dt = dtypes.promote_types(x.dtype, y.dtype)
                return self.cast(x, dt), self.cast(y, dt)
            return x, y
        category = 0 if isinstance(y, bool) else 1 if isinstance(y, int) else 2
        dt = x.dtype
        if category > dt.category:
            dt = dtypes.int64 if category == 1 else dtypes.get_default_dtype()
        return self.cast(x, dt), self.const(y, dt)

    def _float(self, x: Any) -> Expr:
        return x if x.dtype.category == 2 else self.cast(x, dtypes.float32)

    # choice and arithmetic that fits no family
    def where(self, c: Any, x: Any, y: Any) -> Expr:
        """x where c holds, else y."""
        x, y = self._pair(x, y)
        if x is y:
            return x
        return make("where", (self.cast(c, dtypes.bool_), x, y), x.dtype)

    def branch(self, rare: Expr, slow: Expr, fast: Expr) -> Expr:
        """As where(rare, slow, fast), but `slow` is only computed when `rare` holds somewhere."""
        return make("branch", (rare, slow, fast), fast.dtype)

    def fma(self, x: Any, y: Any, z: Any) -> Expr:
        """x*y + z rounded once (floats only; not for operator rules)."""
        dt = next(v.dtype for v in (x, y, z) if isinstance(v, Expr))
        return make("fma", (self._to(x, dt), self._to(y, dt), self._to(z, dt)), dt)

    def not_(self, x: Expr) -> Expr:
        """Logical not of a bool, bitwise not of an integer."""
        if x.dtype.category == 2:
            raise TypeError("not_ of a float")
        return make("not_", (x,), x.dtype)

    def random_word(self, seed: Any, draw: Any, i: Any) -> Expr:
        """int32 whose 32 bits are word i of a draw of fusegrad.random."""
        return make("random_word", tuple(self._to(v, dtypes.int64) for v in (seed, draw, i)), dtypes.int32)

    def uniform(self, seed: Any, draw: Any, i: Any) -> Expr:
        """float32 in [0, 1): element i of a draw, bit for bit fusegrad.random.uniform."""
        word = self.lshr(self.random_word(seed, draw, i), 8)
        return self.mul(self.cast(word, dtypes.float32), 2.0**-24)

    def pow(self, x: Any, y: Any) -> Expr:
        """x ** y; of integers only with a constant exponent >= 0 (UnsupportedScalar otherwise)."""
        x, y = self._pair(x, y)
        if x.dtype.category < 2:
            if y.op != "const" or y.attr < 0:
                raise UnsupportedScalar("integer power with a variable or negative exponent")
            return self._int_power(x, int(y.attr))
        return make("pow", (x, y), x.dtype)

    def _int_power(self, x: Expr, n: int) -> Expr:
        result = None
        while n:
            if n & 1:
                result = x if result is None else self.mul(result, x)
            n >>= 1
            x = self.mul(x, x) if n else x
        return self.const(1, x.dtype) if result is None else result


def sort_terms(terms: Any) -> tuple[tuple[str, Size], ...]:
    """Loop terms of an Access in canonical order, without zeros (dict or pairs in)."""
    pairs = terms.items() if isinstance(terms, dict) else terms
    return tuple(sorted((loop, coef) for loop, coef in pairs if coef != 0))


def _unary(name: str, kind: str) -> Callable[..., Expr]:
    def build(self: Builder, x: Expr) -> Expr:
        if kind == "float":
            x = self._float(x)
        elif kind == "test" and x.dtype.category < 2:
            return self.const(name == "isfinite", dtypes.bool_)
        elif kind == "same" and x.dtype.category < 2:
            if name in ("floor", "ceil", "trunc", "round"):
                return x
            if x.dtype.category == 0:
                if name == "neg":
                    raise TypeError("neg of a bool")
                return x
            if not x.dtype.is_signed and name == "abs":
                return x
        if name == "neg" and x.op == "const" and x.dtype.category == 2:
            return self.const(-x.attr, x.dtype)
        return make(name, (x,), dtypes.bool_ if kind == "test" else x.dtype)

    build.__name__ = name
    return build


_ON_BOOL = {"add": "or_", "mul": "and_", "maximum": "or_", "minimum": "and_"}


def _binary(name: str, kind: str) -> Callable[..., Expr]:
    def build(self: Builder, x: Any, y: Any) -> Expr:
        x, y = self._pair(x, y)
        if kind == "float":
            x, y = self._float(x), self._float(y)
        elif kind == "same" and x.dtype.category == 0:
            if name not in _ON_BOOL:
                raise TypeError(f"{name} of bools")
            return make(_ON_BOOL[name], (x, y), x.dtype)
        elif kind == "bit" and (x.dtype.category == 2 or (name in ("shl", "shr", "lshr") and x.dtype.category == 0)):
            raise TypeError(f"{name} of {x.dtype.name}")
        return make(name, (x, y), dtypes.bool_ if kind == "compare" else x.dtype)

    build.__name__ = name
    return build


def _fill_builder() -> None:
    for kind, names in (("float", UNARY_FLOAT), ("same", UNARY_SAME), ("test", UNARY_TEST)):
        for name in names:
            setattr(Builder, name, _unary(name, kind))
    for kind, names in (
        ("same", BINARY_SAME),
        ("float", [n for n in BINARY_FLOAT if n != "pow"]),
        ("compare", COMPARE),
        ("bit", BITWISE),
    ):
        for name in names:
            setattr(Builder, name, _binary(name, kind))


_fill_builder()
b: Any = Builder()  # for use without a nest


def walk(roots: Iterable[Expr]) -> tuple[Expr, ...]:
    """All distinct expressions below the roots, arguments before users; iterative."""
    return _walk(tuple(roots))


@functools.lru_cache(maxsize=512)  # planning and printing ask for the same phases again and again
def _walk(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    seen: set[Expr] = set()
    order: list[Expr] = []
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        if e in seen:
            stack.pop()
            continue
        waiting = [a for a in e.args if a not in seen]
        if waiting:
            stack += reversed(waiting)
        else:
            stack.pop()
            seen.add(e)
            order.append(e)
    return tuple(order)


def rewrite(roots: Sequence[Expr], change: Callable[[Expr], Expr]) -> list[Expr]:
    """Rebuild bottom-up: change(e) is called once for each node, whose args are already rewritten."""
    done: dict[Expr, Expr] = {}
    for e in walk(roots):
        args = tuple(done[a] for a in e.args)
        done[e] = change(e if args == e.args else make(e.op, args, e.dtype, e.attr))
    return [done[r] for r in roots]


def substitute(roots: Sequence[Expr], mapping: dict[Expr, Expr]) -> list[Expr]:
    """Replace expressions (usually leaves) by others of the same dtype.  Loop names inside an Access are not index
    leaves: see nest.rename_loops."""
    return rewrite(roots, lambda e: mapping.get(e, e))


def text(e: Expr, names: dict[Expr, str] | None = None) -> str:
    """One line; expressions in `names` print as their name."""

    def show(x: Expr) -> str:
        if names is not None and x in names:
            return names[x]
        return text_node(x, show)

    return text_node(e, show)


INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
}


def text_node(e: Expr, show: Callable[[Expr], str]) -> str:
    """One node, its arguments shown by `show`."""
    op, args = e.op, [show(a) for a in e.args]
    if op == "const":
        return f"{e.attr!r}" if e.dtype.short in ("b1", "i64", "f32") else f"{e.dtype.short}({e.attr!r})"
    if op in ("index", "scalar", "acc"):
        return e.attr
    if op == "size":
        return f"({e.attr})"
    if op == "load":
        n = len(e.attr.gather)
        place = text_access(e.attr, args[:n])
        return f"{place} if {args[n]} else {args[n + 1]}" if e.attr.masked else place
    if op in INFIX:
        return f"({args[0]} {INFIX[op]} {args[1]})"
    if op == "cast":
        return f"{e.dtype.short}({args[0]})"
    if op == "bitcast":
        return f"bits_{e.dtype.short}({args[0]})"
    if op == "check":
        return f"check({', '.join(args)}, error={e.attr[0]}{'' if e.attr[1] else ', wrap=False'})"
    if op == "table":
        return f"table{list(e.attr)!r}[{args[0]}]"
    return f"{op}({', '.join(args)})"


def text_access(a: Access, gather: Sequence[str] = ()) -> str:
    """buffer[i0*64 + i1 + 3]"""
    parts = [
        loop if c == 1 else f"{loop}*{c}" if isinstance(c, int) or c.isidentifier() else f"{loop}*({c})"
        for loop, c in a.terms
    ]
    parts += [
        g if c == 1 else f"{g}*{c}" if isinstance(c, int) or c.isidentifier() else f"{g}*({c})"
        for g, c in zip(gather, a.gather, strict=False)
    ]
    if a.offset != 0 or not parts:
        parts.append(str(a.offset))
    return f"{a.buffer}[{' + '.join(parts)}]"
