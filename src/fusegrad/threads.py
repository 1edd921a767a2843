"""How many threads large kernels use: one number for the process."""

from __future__ import annotations

import _thread
import ctypes
import os
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["CELL", "cpu_count", "get_num_threads", "run_together", "set_num_threads"]

CELL = ctypes.c_int64(0)  # compiled code reads it at this address


def cpu_count() -> int:
    """Processors this process may use."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def set_num_threads(n: int) -> None:
    """Threads that large kernels and numpy's matrix products use; at least 1. Kernels' results do not depend on it."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"set_num_threads: expected an int, got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"set_num_threads: expected a positive number, got {n}")
    from .blas import set_blas_threads

    CELL.value = n
    set_blas_threads(n)


def get_num_threads() -> int:
    """Threads that large kernels use (at first: the processors this process may use)."""
    return CELL.value


def run_together(run: Callable[[Any], None], parts: Sequence[Any]) -> None:
    """``run(part)`` for every part: the first in this thread, each of the others in a thread made for it.

    Returns when all are done; raises one of their errors.
    """
    errors: list[BaseException] = []
    locks: list[Any] = []

    def work(part: Any, done: Any) -> None:
        try:
            run(part)
        except BaseException as error:  # noqa: BLE001  (raised below, by the caller's thread)
            errors.append(error)
        finally:
            done.release()

    for part in parts[1:]:
        done = _thread.allocate_lock()
        done.acquire()
        try:
            _thread.start_new_thread(work, (part, done))
        except RuntimeError:  # no more threads
            work(part, done)
        locks.append(done)
    try:
        run(parts[0])
    finally:
        for done in locks:
            done.acquire()
    if errors:
        raise errors[0]


CELL.value = cpu_count()
