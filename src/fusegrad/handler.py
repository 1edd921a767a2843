"""Who answers for tensors that have no data: the protocol between the dispatcher and graph or batched tensors.

A Tensor with ``_data is None`` carries a ``Ref``: the handler that made it and what is known of it. The dispatcher
hands a call to the handler of the highest level among its arguments; operators without tensor arguments (creation,
random numbers) go to the handler that is active in this thread, if any.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .autograd.modes import STATE

if TYPE_CHECKING:
    from .meta import Meta
    from .tensor import Tensor


class Ref:
    """Place of a data-less tensor in its handler. Handlers subclass it to keep what they need."""

    __slots__ = ("handler", "meta", "__dict__")

    def __init__(self, handler: Handler, meta: Meta) -> None:
        self.handler, self.meta = handler, meta


class Handler(Protocol):
    """Gives operators a meaning on tensors without data."""

    level: int

    def dispatch(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Tensor | tuple[Tensor, ...]:
        """Apply ``op``; the result carries no tape (the dispatcher records it afterwards, as in eager)."""
        ...

    def write(self, dst: Tensor, src: Tensor) -> None:
        """In-place change: ``dst`` (perhaps a view) now holds ``src``, of the same shape and dtype."""
        ...

    def draw(self, count: int) -> tuple[Any, int]:
        """(seed, first draw number) for ``count`` random draws, as the operators' attributes."""
        ...

    def alias(self, src: Tensor) -> Tensor:
        """Another Tensor object at the same place (for ``detach`` and history-free copies)."""
        ...


class _Active(threading.local):
    stack: tuple[Any, ...] = ()


_active = _Active()


def current() -> Any:
    """The handler that creation and random operators of this thread go to; None in eager code."""
    stack = _active.stack
    return stack[-1] if stack else None


def stack() -> tuple[Any, ...]:
    """The active handlers, outermost first."""
    return _active.stack


def in_transform() -> bool:
    """Whether this thread is inside of a function transform (``func.grad``, ``jvp``, ``vmap``...)."""
    if STATE.extent is not None:
        return True
    h = current()
    return h is not None and hasattr(h, "read") and not getattr(h, "dual_level", False)


@contextlib.contextmanager
def active(handler: Any) -> Iterator[None]:
    """Send creation and random operators of this thread to ``handler`` (None: eager, whatever is active outside)."""
    before = _active.stack
    _active.stack = before + (handler,)
    try:
        yield
    finally:
        _active.stack = before
