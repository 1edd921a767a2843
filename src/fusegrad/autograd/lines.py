"""The line that made a node: the whole stack in anomaly mode, one frame under ``graph.trace_lines``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from .modes import STATE, slow_paths

if TYPE_CHECKING:
    import traceback


def is_internal(module: Any) -> bool:
    """Whether a frame with this ``__name__`` is the library's own."""
    return isinstance(module, str) and (module == "fusegrad" or module.startswith("fusegrad."))


def trace_here() -> list[traceback.FrameSummary]:
    """The user's frames that led here, outermost first; under ``trace_lines`` only the innermost one."""
    import traceback

    frame: Any = sys._getframe(1)
    while frame is not None and (
        is_internal(frame.f_globals.get("__name__")) or frame.f_code.co_filename.startswith("<fusegrad")  # generated
    ):
        frame = frame.f_back
    if frame is None:
        return []
    if STATE.anomaly:
        return list(traceback.extract_stack(frame))
    code = frame.f_code
    return [traceback.FrameSummary(code.co_filename, frame.f_lineno, code.co_name, lookup_line=False)]


class trace_lines:
    """Let every node that is recorded from now on remember the user's line that made it (in this thread).

    ``graph.trace_lines()`` switches it on, ``graph.trace_lines(False)`` off; ``with graph.trace_lines():`` restores
    what held before. While it is on, operators take the general path (a few microseconds more per call).
    """

    def __init__(self, mode: bool = True) -> None:
        self.before = STATE.lines
        self._set(bool(mode))

    @staticmethod
    def _set(mode: bool) -> None:
        slow_paths(int(mode) - int(STATE.lines))
        STATE.lines = mode

    def __enter__(self) -> trace_lines:
        return self

    def __exit__(self, *exc: Any) -> None:
        self._set(self.before)


def line_of(node: Any) -> str | None:
    """``file.py:12 in step`` of the call that made ``node``, or None if no lines were traced."""
    if not node.trace:
        return None
    last = node.trace[-1]
    return f"{last.filename}:{last.lineno} in {last.name}"
