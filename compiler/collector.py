"""The garbage collector rests while something is compiled.

Compiling makes hundreds of thousands of objects that live until it ends. The collector would look at them, and at all
that numpy and this package have loaded, again and again and find next to nothing: a fifth of a warm start.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator

__all__ = ["resting"]

_lock = threading.Lock()
_depth = 0  # blocks that rest now, in all threads
_was = False  # whether the collector was on before


@contextlib.contextmanager
def resting() -> Iterator[None]:
    """No automatic collections in this block (a collector that the program has switched off stays off)."""
    global _depth, _was
    with _lock:
        if not _depth:
            _was = gc.isenabled()
            gc.disable()
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            if _depth:  # no builtin is called: the program may have replaced it
                _depth -= 1
            if not _depth and _was:
                gc.enable()


def _in_child() -> None:
    """Other threads of the parent, and what they compiled, are gone."""
    global _lock, _depth
    _lock = threading.Lock()
    if _depth and _was:
        gc.enable()
    _depth = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
