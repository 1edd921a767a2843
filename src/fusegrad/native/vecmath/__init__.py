"""Vector math: operators expanded into branch-free primitives that every printer knows, so that loops vectorise.

Primitives: + - * / neg abs copysign sqrt floor ceil trunc round fma ldexp, comparisons, bit operations, where, branch,
cast, bitcast, trunc_div of integers, fmod of floats (a library call), table, and the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..scalar import Expr, rewrite
from . import basic, bessel, error, exponential, gamma, logarithm, quantiles, trig
from .helpers import scale_in_steps

RULES: dict[str, Callable[..., Expr]] = {}
for _module in (basic, exponential, logarithm, trig, error, gamma, bessel, quantiles):
    RULES.update(_module.RULES)  # type: ignore[arg-type]


def expand(roots: Sequence[Expr]) -> list[Expr]:
    """The same expressions in primitives."""
    return rewrite(roots, lambda e: RULES[e.op](*e.args) if e.op in RULES else e)


def expand_ldexp(roots: Sequence[Expr]) -> list[Expr]:
    """Without ldexp: for printers and processors that lack it."""
    return rewrite(roots, lambda e: scale_in_steps(*e.args) if e.op == "ldexp" else e)
