"""Tracebacks of errors that leave compiled code: the user's frames alone."""

from __future__ import annotations

import os
import types
from typing import Any

__all__ = ["AT_LINE", "bare"]

_HERE = os.path.dirname(os.path.abspath(__file__))


AT_LINE = -1
"""Instruction of an entry whose line is that of the user's where a coroutine waited (see ``suspended.left``)."""


def bare(error: BaseException) -> None:
    """Take the compiler's frames out of the traceback of an error that leaves a dispatcher, which raises it again. The
    dispatcher itself stands for the user's frame only if no segment, and no plain run, of that frame does.
    """
    own: Any = error.__traceback__
    below = own.tb_next
    rest = _without_internals(below)
    if rest is None or not _same(rest.tb_frame.f_code, own.tb_frame.f_code):
        at = below
        while at is not None and at.tb_lasti != AT_LINE and _ours(at):
            at = at.tb_next
        at = at if at is not None and at.tb_lasti == AT_LINE else own
        rest = types.TracebackType(rest, own.tb_frame, at.tb_lasti, at.tb_lineno)
    error.__traceback__ = rest


def _generated(frame: types.FrameType) -> bool:
    """Whether a frame is of a dispatcher or a segment, which show the user's file and name."""
    return "_fgSLOW" in frame.f_globals


def _ours(tb: types.TracebackType) -> bool:
    return tb.tb_frame.f_code.co_filename.startswith(_HERE)


def _without_internals(tb: Any) -> Any:
    """Without frames of the compiler; of dispatchers and segments that follow each other the last stays, which has the
    line, unless the frame itself, run as plain Python, comes next."""
    kept: list[Any] = []
    while tb is not None:
        if not _ours(tb):
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
