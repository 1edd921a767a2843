"""Large results of compiled code come from the heap, which keeps their memory for the next call (``fusegrad.heap``).

glibc maps blocks of 32 MB and more on their own, whatever it is told, unless it may map none: each call would pay the
page faults of all its large results anew, which take longer than the loops that fill them.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad import heap

__all__ = ["large_empty"]

_MMAP_MAX = -4  # from malloc.h
_MAPPINGS = 65536  # glibc's own setting


@functools.lru_cache(maxsize=1)
def _mallopt() -> Callable[[int, int], int]:
    return ctypes.CDLL(None).mallopt


def large_empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """``numpy.empty``; up to a quarter of what the heap may keep comes from the heap also where it is large."""
    if not heap.OWN_MAPPING <= math.prod(shape) * dtype.itemsize <= heap.kept // 4:
        return np.empty(shape, dtype)
    _mallopt()(_MMAP_MAX, 0)
    try:
        return np.empty(shape, dtype)
    finally:
        _mallopt()(_MMAP_MAX, _MAPPINGS)
