"""Backward passes inside of backward passes, as deep as a program likes: every so many go on in a thread of their own,
whose stack is new. (As in PyTorch, where the next thread of a pool takes over.)"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

from .. import handler
from .modes import STATE, set_grad

EVERY = 40  # passes on one thread: some ten Python frames each, of the thousand that Python allows


def elsewhere(fn: Callable[[], Any]) -> None:
    """``fn()`` in a new thread that is in the modes of this one; its error is raised here."""
    state, active, context = dict(STATE.__dict__), handler.stack(), contextvars.copy_context()
    error: list[BaseException] = []

    def work() -> None:
        STATE.__dict__.update(state)
        handler._active.stack = active
        set_grad(state.get("grad", True))
        try:
            fn()
        except BaseException as e:
            error.append(e)
        finally:
            set_grad(True)  # the thread ends: nothing is kept of it

    thread = threading.Thread(target=context.run, args=(work,), name="fusegrad deep backward")
    thread.start()
    thread.join()
    if error:
        raise error.pop()
