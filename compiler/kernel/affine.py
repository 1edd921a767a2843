"""Index maps: where in a tensor an element lies, as a function of loop counters.

An ``Ix`` is ``const + sum(coef * axis) + sum(coef * expr)``; axes are numbered loop counters of a ``Space``,
coefficients are ints or ``SymInt``s and ``expr`` are integer scalar expressions (an index loaded from a tensor, or a
quotient that is not affine). Views of tensors only ever transform tuples of ``Ix``, so they cost nothing in a kernel.

Splitting an index (reshape) needs quotient and remainder. Where one loop counter would have to be divided,
``NeedSplit`` asks the caller to run over the counter's two parts instead: then the index stays affine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "ZERO", "Ix", "NeedSplit", "Space", "constant", "counter", "delinearize", "divmod_ix", "is_int", "linearize",
    "product", "reshape_index", "same",
]  # fmt: skip


class NeedSplit(Exception):
    """Loop counter ``axis`` must be run as ``outer * inner_size + inner`` to keep an index affine."""

    def __init__(self, axis: int, inner: Any) -> None:
        super().__init__(axis, inner)
        self.axis, self.inner = axis, inner


def is_int(value: Any) -> bool:
    """Whether a size is known when compiling."""
    return type(value) is int


def same(a: Any, b: Any) -> bool:
    """Equal for certain; never records a guard on a symbolic size."""
    if type(a) is int or type(b) is int:
        return type(a) is type(b) and a == b
    if a is b:
        return True
    from fusegrad.sizes import same as symbolic_same

    return symbolic_same(a, b)


def product(sizes: Sequence[Any]) -> Any:
    out: Any = 1
    for size in sizes:
        out = out * size
    return out


class Space:
    """The loop counters of one iteration space: ``sizes[axis]`` is the number of steps of counter ``axis``."""

    __slots__ = ("sizes", "splits")

    def __init__(self, sizes: Sequence[Any] = ()) -> None:
        self.sizes = list(sizes)
        self.splits = True  # whether NeedSplit may be raised

    def add(self, size: Any) -> int:
        self.sizes.append(size)
        return len(self.sizes) - 1


class Ix:
    """One index: ``const + sum(coef * counter) + sum(coef * expression)``. Immutable, compared by value."""

    __slots__ = ("terms", "const", "dyn", "_key", "_hash")

    def __init__(self, terms: tuple = (), const: Any = 0, dyn: tuple = ()) -> None:
        self.terms = terms  # ((axis, coef), ...) sorted by axis, no zero coefficient
        self.const = const
        self.dyn = dyn  # ((expr, coef), ...) in order of first use
        self._key = (terms, const, dyn)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Ix) or self._hash != other._hash or len(self.terms) != len(other.terms):
            return False
        if not same(self.const, other.const) or len(self.dyn) != len(other.dyn):
            return False
        return all(a[0] == b[0] and same(a[1], b[1]) for a, b in zip(self.terms, other.terms, strict=True)) and all(
            a[0] is b[0] and same(a[1], b[1]) for a, b in zip(self.dyn, other.dyn, strict=True)
        )

    def __add__(self, other: Ix | Any) -> Ix:
        if not isinstance(other, Ix):
            return Ix(self.terms, self.const + other, self.dyn)
        if not other.terms and not other.dyn:
            return Ix(self.terms, self.const + other.const, self.dyn)
        terms = dict(self.terms)
        for axis, coef in other.terms:
            terms[axis] = terms[axis] + coef if axis in terms else coef
        dyn = list(self.dyn)
        for expr, coef in other.dyn:
            for k, (have, c) in enumerate(dyn):
                if have is expr:
                    dyn[k] = (have, c + coef)
                    break
            else:
                dyn.append((expr, coef))
        return Ix(_clean(sorted(terms.items())), self.const + other.const, _clean(dyn))

    def scale(self, k: Any) -> Ix:
        if type(k) is int:
            if k == 1:
                return self
            if k == 0:
                return ZERO
        return Ix(tuple((a, c * k) for a, c in self.terms), self.const * k, tuple((e, c * k) for e, c in self.dyn))

    def rename(self, axes: Sequence[int]) -> Ix:
        """The same index with axis ``a`` called ``axes[a]``."""
        return Ix(tuple(sorted((axes[a], c) for a, c in self.terms)), self.const, self.dyn)

    @property
    def affine(self) -> bool:
        return not self.dyn

    @property
    def is_const(self) -> bool:
        return not self.terms and not self.dyn

    def axes(self) -> set[int]:
        return {axis for axis, _ in self.terms}

    def __repr__(self) -> str:
        parts = [f"i{a}" if same(c, 1) else f"{c}*i{a}" for a, c in self.terms]
        parts += [f"[{e}]" if same(c, 1) else f"{c}*[{e}]" for e, c in self.dyn]
        if not same(self.const, 0) or not parts:
            parts.append(str(self.const))
        return " + ".join(parts)


def _clean(items: Sequence[tuple]) -> tuple:
    return tuple(item for item in items if not (type(item[1]) is int and item[1] == 0))


ZERO = Ix()


def constant(value: Any) -> Ix:
    return Ix((), value) if not (type(value) is int and value == 0) else ZERO


def counter(axis: int) -> Ix:
    return Ix(((axis, 1),))


def linearize(index: Sequence[Ix], sizes: Sequence[Any]) -> Ix:
    """The position in C order of a multi-dimensional index."""
    out = ZERO
    for ix, size in zip(index, sizes, strict=True):
        out = out.scale(size) + ix
    return out


def exact_quotient(c: Any, n: Any) -> Any | None:
    """c / n when n divides c for certain, else None."""
    if type(c) is int and type(n) is int:
        return c // n if c % n == 0 else None
    if same(c, n):
        return 1
    from fusegrad.polynomial import floordiv
    from fusegrad.sizes import SymInt, poly_of

    ctx = next(v.ctx for v in (c, n) if isinstance(v, SymInt))
    q = ctx.make(floordiv(poly_of(c), poly_of(n)))  # SymInt's own // would guard on n != 0
    return q if same(q * n, c) else None


def _surely_below(top: Any, n: Any) -> bool:
    """top < n for certain."""
    if type(top) is int and type(n) is int:
        return top < n
    from fusegrad.sizes import known_ge

    return known_ge(n - 1, top) is True


def divmod_ix(ix: Ix, n: Any, space: Space, expr_of: Any) -> tuple[Ix, Ix]:
    """``(q, r)`` with ``ix == q * n + r`` and ``0 <= r < n``.

    ``expr_of`` turns an Ix into an integer scalar expression and is used only when no affine answer exists.
    """
    if type(n) is int and n == 1:
        return ix, ZERO
    quot: list[tuple[int, Any]] = []
    rest: list[tuple[int, Any]] = []
    for axis, coef in ix.terms:
        if type(space.sizes[axis]) is int and space.sizes[axis] <= 1:
            continue
        q = exact_quotient(coef, n)
        (rest if q is None else quot).append((axis, coef if q is None else q))
    qconst, rconst = _split_const(ix.const, n)
    if not ix.dyn:
        top = rconst
        for axis, coef in rest:
            top = top + coef * (space.sizes[axis] - 1)
        nonneg = all(type(c) is not int or c > 0 for _, c in rest)
        if nonneg and (not rest and type(rconst) is int and type(n) is int or _surely_below(top, n)):
            return Ix(tuple(quot), qconst), Ix(tuple(rest), rconst)
        _ask_for_split(rest, rconst, n, space)
    return _general_divmod(ix, n, expr_of)


def _split_const(const: Any, n: Any) -> tuple[Any, Any]:
    if type(const) is int and type(n) is int:
        return divmod(const, n)
    if type(const) is int and const == 0:
        return 0, 0
    q = exact_quotient(const, n)
    return (0, const) if q is None else (q, 0)


def _ask_for_split(rest: list, rconst: Any, n: Any, space: Space) -> None:
    """Raise NeedSplit if running one counter in two parts makes the remainder affine."""
    if not space.splits or not (type(rconst) is int and rconst == 0):
        return
    for axis, coef in rest:
        inner = exact_quotient(n, coef)
        if inner is None or (type(inner) is int and inner <= 1):
            continue
        if exact_quotient(space.sizes[axis], inner) is not None:
            raise NeedSplit(axis, inner)


def _general_divmod(ix: Ix, n: Any, expr_of: Any) -> tuple[Ix, Ix]:
    quotient, remainder = expr_of(ix, n)
    return Ix((), 0, ((quotient, 1),)), Ix((), 0, ((remainder, 1),))


def delinearize(ix: Ix, sizes: Sequence[Any], space: Space, expr_of: Any) -> tuple[Ix, ...]:
    """The multi-dimensional index of a position in C order."""
    out: list[Ix] = []
    for size in reversed(sizes[1:]):
        if type(size) is int and size == 1:
            out.append(ZERO)
            continue
        ix, r = divmod_ix(ix, size, space, expr_of)
        out.append(r)
    if sizes:
        first = sizes[0]
        out.append(ZERO if type(first) is int and first == 1 else ix)
    return tuple(reversed(out))


def reshape_index(
    index: Sequence[Ix], out_shape: Sequence[Any], in_shape: Sequence[Any], space: Space, expr_of: Any
) -> tuple[Ix, ...]:
    """The index into ``in_shape`` of the element at ``index`` of ``out_shape`` (same elements in C order)."""
    if any(type(size) is int and size == 0 for size in (*out_shape, *in_shape)):
        return (ZERO,) * len(in_shape)  # no elements: no index is ever used
    result: list[Ix] = []
    for outs, ins in _groups(out_shape, in_shape):
        if len(outs) == len(ins) == 1:
            result.append(index[outs[0]])
            continue
        position = linearize([index[d] for d in outs], [out_shape[d] for d in outs])
        result.extend(delinearize(position, [in_shape[d] for d in ins], space, expr_of))
    return tuple(result)


def _groups(out_shape: Sequence[Any], in_shape: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
    """Shortest runs of dimensions with the same number of elements, so that each is reshaped on its own."""
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    n, m = len(out_shape), len(in_shape)
    while i < n or j < m:
        outs, ins = [], []
        a: Any = 1
        b: Any = 1
        if i < n:
            outs.append(i)
            a = out_shape[i]
            i += 1
        if j < m:
            ins.append(j)
            b = in_shape[j]
            j += 1
        while not same(a, b):
            small_out = type(a) is int and type(b) is int and a < b
            divides = (
                exact_quotient(b, a) is not None
                if not small_out and not (type(a) is int and type(b) is int)
                else small_out
            )
            if (divides and i < n) or j >= m:
                if i >= n:
                    break
                outs.append(i)
                a = a * out_shape[i]
                i += 1
            else:
                ins.append(j)
                b = b * in_shape[j]
                j += 1
        runs.append((outs, ins))
    return runs
