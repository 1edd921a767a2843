"""Generated code that shows the user's file and lines in tracebacks."""

from __future__ import annotations

import re
import types
from typing import Any

__all__ = ["as_frame", "at_line", "compile_at"]

_MARK = re.compile(r"  # line (\d+)$")


def at_line(line: int) -> str:
    """What to put behind a generated line that stands for this line of the user's, and not for the code's own."""
    return f"  # line {line}"


def compile_at(source: str, file: str, line: int, env: dict[str, Any]) -> Any:
    """The function that ``source`` defines, compiled so that its frames show the user's file and line."""
    made: dict[str, Any] = {}
    marks = {n: int(m[1]) for n, text in enumerate(source.split("\n"), 1) if (m := _MARK.search(text))}
    exec(_at_line(compile(source, file, "exec"), line, marks), env, made)
    return next(iter(made.values()))


def as_frame(code: types.CodeType, line: int) -> Any:
    """A function that calls its first argument with the others, and looks like ``code`` at ``line`` in a traceback."""
    made = compile_at("def call(f, *args):\n    return f(*args)", code.co_filename, line, {})
    made.__code__ = made.__code__.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    return made


def _at_line(code: types.CodeType, line: int, marks: dict[int, int]) -> types.CodeType:
    """The code with every instruction at ``line``, or where its own line's mark says; without columns (which would be
    those of the generated text)."""
    table, before = bytearray(), line
    runs: list[list[int]] = []  # line, code units
    for start, end, own in code.co_lines() if marks else [(0, len(code.co_code), None)]:
        now = marks.get(own, line) if own is not None else line
        if runs and runs[-1][0] == now:
            runs[-1][1] += (end - start) // 2
        else:
            runs.append([now, (end - start) // 2])
    for now, units in runs:  # entries of up to 8 code units: "no columns", and how far the line moves
        whole, rest = divmod(units, 8)
        entries = (b"\xef\0" * whole + bytes((0xE7 + rest, 0))) if rest else b"\xef\0" * whole
        if entries:
            table += entries[:1]
            table += bytes(_signed(now - before))
            table += entries[2:]
            before = now
    consts = tuple(_at_line(c, line, marks) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_firstlineno=line, co_linetable=bytes(table), co_consts=consts)


def _signed(n: int) -> list[int]:
    """A number as the table of lines has it: the sign last, six bits a byte, lowest first."""
    rest, out = (-n << 1) | 1 if n < 0 else n << 1, []
    while rest >= 64:
        out.append(64 | rest & 63)
        rest >>= 6
    return [*out, rest]
