"""What this thread does for verification: nothing, a call that is compared, or its eager side."""

from __future__ import annotations

import threading

__all__ = ["THREAD", "eager_beside"]


class _Thread(threading.local):
    inside = False  # a call further out is compared already
    eager = False  # this is the child: everything runs as plain Python


THREAD = _Thread()


def eager_beside() -> bool:
    """Whether this is the process that runs eager code beside compiled code."""
    return THREAD.eager
