"""Texts of sizes and tensors that forward makes: a decision by one would be that of the size's name.

What is only shown or raised (``print``, logging, warnings, the message of an error) decides nothing.
"""

from __future__ import annotations

import ast
import linecache
import sys
from types import FrameType
from typing import Any

from fusegrad.sizes import ConstraintError, SymInt, user_line

from .errors import ExportError

_SHOWN = {"print", "debug", "info", "warning", "warn", "error", "critical", "exception", "log"}
_OWN = str(sys.modules["fusegrad"].__file__).rpartition("/")[0]


class Texts:
    """``texts(x)`` notes that the text of ``x`` was made; ``check`` refuses what may have decided something."""

    def __init__(self) -> None:
        self.found: list[tuple[str, Any]] = []

    def __call__(self, of: Any) -> None:
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_globals.get("__name__", "").partition(".")[0]
            if name in ("logging", "warnings"):
                return
            file = frame.f_code.co_filename
            library = name == "fusegrad" or file.startswith(("<fusegrad", _OWN, __file__.rpartition("/")[0]))
            if not library and (name not in sys.stdlib_module_names or name == "__main__"):
                break
            frame = frame.f_back
        if frame is not None and not _shown(frame):
            self.found.append((f"{frame.f_code.co_filename}:{frame.f_lineno}", of))

    def check(self) -> None:
        """ConstraintError (ExportError for texts of tensors, and of floats made of sizes) if the program goes on with a
        text."""
        for where, of in self.found:
            if not isinstance(of, SymInt):
                raise ExportError(
                    f"{where}: forward makes a text of {of}, which is known only when the program runs: what it "
                    "decides by that can't be recorded. Texts that are printed, logged, or the message of an error "
                    "are allowed."
                )
            of.ctx.locate = lambda: None
            try:
                of.ctx.concrete(of.expr)
            except ConstraintError as e:
                error = ConstraintError(f"{where}: a text of a size that may vary can decide something: {e}")
                error.needed = e.needed
                raise error from None
            finally:
                of.ctx.locate = user_line


def _shown(frame: FrameType) -> bool:
    """Whether the expression that ``frame`` evaluates is only shown, or raised."""
    at = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    if None in at or not lines:
        return False
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
        return False
    start, end = (at[0], at[2]), (at[1], at[3])
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            part: Any = node.msg
        elif isinstance(node, ast.Raise):
            part = node
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _name(node.value.func) in _SHOWN:
            part = node
        elif isinstance(node, ast.Call) and _name(node.func) == "print":
            part = node
        else:
            continue
        if part is None or (part.lineno, part.col_offset) > start:  # type: ignore[operator]
            continue
        if end <= (part.end_lineno, part.end_col_offset):  # type: ignore[operator]
            return True
    return False


def _name(f: ast.expr) -> str:
    return f.id if isinstance(f, ast.Name) else f.attr if isinstance(f, ast.Attribute) else ""
