"""How many threads large kernels use: one number for the process."""

from __future__ import annotations

import ctypes
import os

__all__ = ["CELL", "cpu_count", "get_num_threads", "set_num_threads"]

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


CELL.value = cpu_count()
