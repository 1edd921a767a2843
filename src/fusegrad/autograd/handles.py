"""Handles that remove hooks."""

from __future__ import annotations

import itertools
from typing import Any


class RemovableHandle:
    """Removes the hook it stands for: ``handle.remove()``, or at the end of a ``with``."""

    _ids = itertools.count()

    def __init__(self, hooks: dict) -> None:
        self.hooks, self.id = hooks, next(RemovableHandle._ids)

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.remove()


def add_hook(hooks: dict, fn: Any) -> RemovableHandle:
    """Put ``fn`` into the ordered ``hooks``; TypeError if it can't be called."""
    if not callable(fn):
        raise TypeError(f"a hook must be callable, got {type(fn).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = fn
    return handle
