"""Tracebacks of errors that leave compiled code: the user's frames alone."""

from __future__ import annotations

import os
import types
from typing import Any

__all__ = ["bare"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def bare(error: Exception) -> Exception:
    """The error with a traceback below the dispatcher that caught it, without the frames of this package's compiler."""
    return error.with_traceback(_without_internals(error.__traceback__.tb_next))  # type: ignore[union-attr]


def _without_internals(tb: Any) -> Any:
    kept = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(tb)
        tb = tb.tb_next
    out = None
    for t in reversed(kept):
        out = types.TracebackType(out, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return out
