"""``warnings.warn`` called from compiled code: its levels count the frames that the plain program would have."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
_OWN = {"_fge", "_fghit"}  # variables of dispatchers, which stand between a caller and the code that does the work


def warn(message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None, **more: Any) -> None:
    """The warning at the user's line that ``stacklevel`` names (more: ``skip_file_prefixes``, since Python 3.12)."""
    frame, level = sys._getframe(1), 2
    left = stacklevel - 1
    while left > 0 and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        left -= not _between(frame)
    warnings.warn(message, category, level + left if left > 0 else level, source, **more)


def _between(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_filename.startswith(_HERE) or not _OWN.isdisjoint(code.co_varnames)
