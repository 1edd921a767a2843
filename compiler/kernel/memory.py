"""Where values live: which arrays a call of a compiled graph needs, and which of them can share memory.

Temporaries whose sizes are known share slots when their lives (first to last step that touches them) do not overlap: largest first, first slot that
is free.  Results are always fresh arrays; inputs are never written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..ir.graph import Value
from .affine import product

__all__ = ["Slot", "Temp", "assign_slots"]


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

    def free_for(self, t: Temp) -> bool:
        return all(t.first > other.last or t.last < other.first for other in self.temps)


def assign_slots(temps: list[Temp], name: str = "tmp") -> list[Slot]:
    """Give every temporary of known size a slot."""
    slots: list[Slot] = []
    for t in sorted((t for t in temps if t.static), key=lambda t: -t.elements * t.value.meta.dtype.itemsize):
        slot = next((s for s in slots if s.dtype is t.value.meta.dtype and s.free_for(t)), None)
        if slot is None:
            slot = Slot(f"{name}{len(slots)}", t.value.meta.dtype, t.elements)
            slots.append(slot)
        slot.temps.append(t)
        t.slot = slot
    return slots
