"""The C library's heap keeps memory that arrays have left, so that the next arrays need no new pages.

Each new page costs a page fault: 4 MB freshly taken from the system cost 0.5 to 5 ms, the elementwise loop that fills
them 0.2 ms.  glibc gives a freed block back to the system when it is mapped on its own or the top of the heap grows
beyond some megabytes; a program on arrays then pays for the same pages in every operator.  See docs/decisions/0006.
"""

from __future__ import annotations

import ctypes
import os

__all__ = ["keep_freed_memory"]

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # from malloc.h
OWN_MAPPING = 32 << 20  # blocks from here on are mapped on their own, the most that glibc allows
KEPT = 512 << 20  # free memory that may stay at the top of the heap
kept = 0  # the bytes that are kept here
_SETTINGS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")


def keep_freed_memory() -> bool:
    """Let glibc keep up to ``KEPT`` bytes (an eighth of the machine's memory at most); False where nothing was done:
    another C library, or settings of malloc in the environment, which are the user's.
    """
    if any(name in os.environ for name in _SETTINGS) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018  (another library's mallopt may mean other things)
        mallopt = library.mallopt
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, TypeError, ValueError):
        return False
    global kept
    kept = min(KEPT, memory // 8) if memory > 0 else KEPT
    return bool(mallopt(_MMAP_THRESHOLD, OWN_MAPPING)) and bool(mallopt(_TRIM_THRESHOLD, kept))
