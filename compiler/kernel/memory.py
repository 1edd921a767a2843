"""Where values live: which arrays a call of a compiled graph needs, and which of them can share memory.

Temporaries whose sizes are known share slots when their lives (first to last step that touches them) do not overlap:
largest first, first slot that is free.  Results are always fresh arrays; inputs are never written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..ir.graph import Value
from .affine import product, same

__all__ = ["Slot", "Temp", "assign_slots", "dense_order", "dense_strides"]


def dense_order(meta: Any) -> tuple[int, ...] | None:
    """Dimensions from slowest to fastest of a dense layout that is not C-contiguous; None for any other layout."""
    shape, strides = meta.shape, meta.strides
    if strides is None or len(shape) < 2 or any(type(s) is int and s == 0 for s in shape):
        return None
    real = [d for d in range(len(shape)) if not (type(shape[d]) is int and shape[d] == 1)]
    order: list[int] = []
    step: Any = 1
    while len(order) < len(real):
        found = next((d for d in reversed(real) if d not in order and same(strides[d], step)), None)
        if found is None:
            return None
        order.append(found)
        step = step * shape[found]
    order.reverse()
    if order == real:
        return None
    ones = tuple(d for d in range(len(shape)) if d not in real)
    return (*ones, *order)


def dense_strides(shape: tuple, order: tuple[int, ...]) -> tuple:
    """Strides of memory filled in that order of dimensions, slowest first."""
    out: list[Any] = [0] * len(shape)
    step: Any = 1
    for d in reversed(order):
        out[d] = step
        step = step * shape[d]
    return tuple(out)


@dataclass(eq=False)
class Temp:
    """A temporary: the steps between which it holds data, inclusive."""

    value: Value
    first: int
    last: int
    slot: Slot | None = None

    @property
    def elements(self) -> int:
        return product(self.value.meta.shape)

    @property
    def static(self) -> bool:
        return all(type(s) is int for s in self.value.meta.shape)


@dataclass(eq=False)
class Slot:
    """Flat memory of one dtype that several temporaries use one after the other."""

    name: str
    dtype: Any
    elements: int
    temps: list[Temp] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        return self.elements * self.dtype.itemsize

    def free_for(self, t: Temp, replaces: Callable[[Value, Value], bool]) -> bool:
        """No life overlaps. Where one ends as the other begins, the new value would be stored over the old one."""
        for other in self.temps:
            before, after = (other, t) if other.first < t.first else (t, other)
            if after.first < before.last or before.first == after.first:
                return False
            if after.first == before.last and not replaces(after.value, before.value):
                return False
        return True


def assign_slots(temps: list[Temp], replaces: Callable[[Value, Value], bool], name: str = "tmp") -> list[Slot]:
    """Give every temporary of known size a slot.

    ``replaces(new, old)``: whether the step that makes ``new`` may store it over ``old``.
    """
    slots: list[Slot] = []
    for t in sorted((t for t in temps if t.static), key=lambda t: -t.elements * t.value.meta.dtype.itemsize):
        slot = next((s for s in slots if s.dtype is t.value.meta.dtype and s.free_for(t, replaces)), None)
        if slot is None:
            slot = Slot(f"{name}{len(slots)}", t.value.meta.dtype, t.elements)
            slots.append(slot)
        slot.temps.append(t)
        t.slot = slot
    return slots
