"""``manual_seed`` in captured code: before anything was drawn the segment sets the seed ahead of the region, whose
draws then follow it. A seed between draws breaks the graph.
"""

from __future__ import annotations

from typing import Any

import fusegrad.random
from fusegrad.random import default_generator
from fusegrad.sizes import SymInt

from . import breaks
from .breaks import Break
from .calls import SPECIAL
from .evaluator import in_order


def _manual_seed(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    given = [*args, *kwargs.values()]
    cap = ev.cap
    plain = len(given) == 1 and (args or "seed" in kwargs) and type(given[0]) in (int, SymInt)
    if not plain or cap.builder.graph.draws or not in_order():
        raise Break(breaks.CALL, "call of manual_seed", clean=True)
    seed = given[0]
    if type(seed) is int and not -(1 << 63) <= seed < 1 << 64:
        raise Break(breaks.CALL, "call of manual_seed", clean=True)
    ev.calls += 1
    cap.seed = seed
    return cap.realize(default_generator, cap.const(default_generator, "default_generator"))


def seeded(seed: int) -> tuple[int, int]:
    """Seed the default generator; its state before."""
    before = default_generator.state
    default_generator.manual_seed(seed)
    return before


def restored(state: tuple[int, int]) -> None:
    """Put the default generator back: the region failed, and Python runs the same code."""
    default_generator.state = state


def seed_lines(cap: Any, rb: Any) -> tuple[list[str], list[str]]:
    """Lines that set the seed before the region, and that take it back if the region fails."""
    if cap.seed is None:
        return [], []
    set_, back = cap.consts.name(seeded), cap.consts.name(restored)
    return [f"_fgseed = {set_}({rb.value(cap.seed)})"], [f"{back}(_fgseed)"]


SPECIAL[fusegrad.random.manual_seed] = _manual_seed
