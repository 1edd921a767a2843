"""Warnings of the library, at the user's line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

from .handler import stack


def at_users_line(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line of the user's: not in this package, and not in code that it generated.

    Where code is captured, whoever captures it may have it run for real instead: then it warns at every call.
    """
    for h in stack():
        if getattr(h, "on_warning", None):
            h.on_warning(message, category)
    at_once(message, category)


def at_once(message: str, category: type[Warning]) -> None:
    """Warn of what the user's code does not decide: also while code is captured, which goes on."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    names, code = frame.f_globals, frame.f_code
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, code.co_filename, frame.f_lineno, module, registry)


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is of this package, of generated code, or called in between. Compiled code that stands for a line
    of the user's has a mark among its constants."""
    names = frame.f_globals
    if "_fgSLOW" in names:
        return "_fgUSER" not in frame.f_code.co_consts
    top = str(names.get("__name__")).split(".")[0]
    return top in ("fusegrad", "functools", "contextlib") or _is_generated(frame)


def _is_generated(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<fusegrad")
