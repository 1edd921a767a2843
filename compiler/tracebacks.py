"""Tracebacks of errors that leave compiled code: the user's frames alone."""

from __future__ import annotations

import os
import types
from typing import Any

__all__ = ["bare"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def bare(error: BaseException) -> BaseException:
    """The error with a traceback below the dispatcher that caught it, without the frames of this package's compiler."""
    return error.with_traceback(_without_internals(error.__traceback__.tb_next))  # type: ignore[union-attr]


def _generated(frame: types.FrameType) -> bool:
    """Whether a frame is of a dispatcher or a segment, which show the user's file and name."""
    return "_fgSLOW" in frame.f_globals


def _without_internals(tb: Any) -> Any:
    """Without frames of the compiler; of dispatchers and segments that follow each other the last stays, which has the
    line, unless the frame itself, run as plain Python, comes next."""
    kept: list[Any] = []
    while tb is not None:
        if not tb.tb_frame.f_code.co_filename.startswith(_HERE):
            before = kept[-1].tb_frame if kept else None
            if before is not None and _generated(before) and _same(before.f_code, tb.tb_frame.f_code):
                kept.pop()
            kept.append(tb)
        tb = tb.tb_next
    out = None
    for t in reversed(kept):
        out = types.TracebackType(out, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return out


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    return (a.co_filename, a.co_name) == (b.co_filename, b.co_name)
