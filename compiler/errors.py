"""Errors of the compiler: what a lower layer can't do, for a higher one to run as plain Python; what verification
found. And warnings at the user's line.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any


class VerificationError(RuntimeError):
    """Compiled code did something else than eager code. This is a fault of fusegrad, not of the program.

    Attributes: ``function`` (name of the compiled function), ``what`` (which result differs), ``operator`` and
    ``location`` ((file, line) of the user) of the first operator that differs, if one could be named, ``difference``
    (largest absolute difference) and ``index`` (where it is), if numbers were compared.
    """

    def __init__(self, message: str, **found: Any) -> None:
        super().__init__(message)
        self.function: str = found.get("function", "")
        self.what: str = found.get("what", "")
        self.operator: str | None = found.get("operator")
        self.location: tuple[str, int] | None = found.get("location")
        self.difference: float | None = found.get("difference")
        self.index: tuple[int, ...] | None = found.get("index")


def warn(message: str, category: type[Warning]) -> None:
    """A warning at the nearest line of the user's: not in this package, and not in code that it generated."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    names, code = frame.f_globals, frame.f_code
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, code.co_filename, frame.f_lineno, module, registry, names)


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is of this package, of generated code (which may show the user's file), or called in between."""
    names = frame.f_globals
    top = str(names.get("__name__")).split(".")[0]
    return top in ("fusegrad", "functools", "contextlib") or "_fgSLOW" in names or _is_generated(frame)


def _is_generated(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<fusegrad")
