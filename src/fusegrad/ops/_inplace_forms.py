"""In-place forms of functions that are not table operators."""

from __future__ import annotations

from typing import Any

from ..autograd.modes import STATE


def _in_place(self: Any, compute: Any) -> Any:
    """Write ``compute(old value)`` into ``self``, with the rules of every in-place operator."""
    from ..inplace import assign, check_writable, old_value

    check_writable(self)
    return assign(self, compute(old_value(self, STATE.grad and self.requires_grad)))


def plain_write(self: Any, *others: Any) -> bool:
    """Whether arrays can be written directly: no graph tensor, no gradient to record."""
    return (
        self._data is not None
        and not (STATE.grad and self.requires_grad)
        and all(o._data is not None and not (STATE.grad and o.requires_grad) for o in others)
    )
