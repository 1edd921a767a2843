"""Where compile time goes, and what the disk cache saved: counters that every layer of the compiler writes to.

Clocks nest: the seconds of a phase inside another are the inner one's alone, so that all phases add up to the total.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns  # not ``perf_counter``: programs replace that, and count the calls
from typing import Any

__all__ = ["HITS", "PHASES", "SECONDS", "phase", "reset"]

PHASES = ("capture", "passes", "codegen", "kernels")
SECONDS: dict[str, float] = dict.fromkeys(PHASES, 0.0)
HITS: dict[str, int] = {"kernels": 0, "regions": 0}  # found in the disk cache


class _Thread(threading.local):
    top: Any = None  # the innermost phase that runs now


_thread = _Thread()


class phase:  # noqa: N801  (read as a statement: ``with phase("passes"):``)
    """Count the seconds of a block for one of ``PHASES``."""

    __slots__ = ("name", "start", "inner", "outer")

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.outer, self.inner, _thread.top = _thread.top, 0.0, self
        self.start = perf_counter_ns()

    def __exit__(self, *error: Any) -> None:
        took = (perf_counter_ns() - self.start) / 1e9
        _thread.top = self.outer
        SECONDS[self.name] += took - self.inner
        if self.outer is not None:
            self.outer.inner += took


def reset() -> None:
    """All counters to zero."""
    for name in PHASES:
        SECONDS[name] = 0.0
    for name in HITS:
        HITS[name] = 0
