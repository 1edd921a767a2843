"""What operators need to know of symbolic sizes: how to tell one, and the few questions asked of ints and sizes alike.

The sizes themselves (``sizes.py``, polynomials, facts about them) are imported when a graph is captured.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = [
    "SymbolicNumber", "SymbolicSize", "hint_of", "is_int", "known_eq", "known_ge", "same", "sym_max", "sym_min",
    "sym_prod", "sym_sum", "varies",
]  # fmt: skip


class SymbolicSize:
    """An int that is not known while a graph is captured: ``sizes.SymInt`` is the one kind there is."""

    __slots__ = ()

    expr: Any
    ctx: Any

    @property
    def hint(self) -> int:
        """Its value in this capture."""
        raise NotImplementedError


class SymbolicNumber:
    """A Python float that is not known while a graph is recorded. Has ``expr``, its source text, and ``hint``."""

    __slots__ = ()

    def __float__(self) -> float:
        """Its value in this capture, guarded."""
        raise NotImplementedError

    def __abs__(self) -> Any:
        """Another such number."""
        raise NotImplementedError

    def graph_number(self, builder: Any) -> Any:
        """The graph tensor (a number input) that stands for it."""
        raise NotImplementedError


def is_int(value: object) -> bool:
    """An int or a symbolic size (not a bool)."""
    return isinstance(value, SymbolicSize) or (isinstance(value, int) and not isinstance(value, bool))


def hint_of(value: Any) -> int:
    """The int, or a symbolic size's value in this capture. Records nothing."""
    return value.hint if isinstance(value, SymbolicSize) else int(value)


def same(a: Any, b: Any) -> bool:
    """Structural equality of sizes or nested tuples of sizes; never records a guard, never raises."""
    if isinstance(a, SymbolicSize) or isinstance(b, SymbolicSize):
        return isinstance(a, SymbolicSize) and isinstance(b, SymbolicSize) and a.expr == b.expr
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


def _context(*values: Any) -> Any:
    return next((v.ctx for v in values if isinstance(v, SymbolicSize)), None)


def varies(n: Any) -> bool:
    """Whether ``n`` is a size of a program that is exported: its value in this capture may not be relied on."""
    return isinstance(n, SymbolicSize) and n.ctx.mode != "guard"


def known_eq(a: Any, b: Any) -> bool | None:
    """True, False, or None when the facts do not decide a == b. Records nothing."""
    ctx = _context(a, b)
    return a == b if ctx is None else ctx.known("==", a, b)


def known_ge(a: Any, b: Any) -> bool | None:
    """True, False, or None when the facts do not decide a >= b. Records nothing."""
    ctx = _context(a, b)
    return a >= b if ctx is None else ctx.known(">=", a, b)


def sym_max(*values: Any) -> Any:
    """The largest, as an expression: records nothing."""
    ctx = _context(*values)
    return max(values) if ctx is None else ctx.extremum("max", values)


def sym_min(*values: Any) -> Any:
    """The smallest, as an expression: records nothing."""
    ctx = _context(*values)
    return min(values) if ctx is None else ctx.extremum("min", values)


def sym_sum(values: Iterable[Any]) -> Any:
    return sum(values)


def sym_prod(values: Iterable[Any]) -> Any:
    out: Any = 1
    for v in values:
        out = v * out
    return out
