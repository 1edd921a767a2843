"""``warnings.warn`` called from compiled code: its levels count the frames that the plain program would have."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


def warn(message: Any, category: Any = None, stacklevel: Any = 1, source: Any = None, **more: Any) -> None:
    """The warning at the user's line that ``stacklevel`` names (more: ``skip_file_prefixes``, since Python 3.12)."""
    frame, level = sys._getframe(1), 2
    left = stacklevel - 1
    while left > 0 and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
        left -= not _between(frame)
    warnings.warn(message, category, level + left if left > 0 else level, source, **more)


def _between(frame: FrameType) -> bool:
    """Whether a frame is the compiler's own, or a dispatcher: it stands between a caller and the code that does the
    work, which has a mark among its constants."""
    code = frame.f_code
    return code.co_filename.startswith(_HERE) or ("_fgSLOW" in frame.f_globals and "_fgUSER" not in code.co_consts)
