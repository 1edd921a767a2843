"""Compiled generator functions and coroutines.

Their frame is left and entered again where it yields or awaits, which is what a segment ends with. A generator or a
coroutine of Python's own drives the segments, so that ``send``, ``throw``, ``close``, ``await``, the moment at which
anything runs, and what happens to one that is dropped are Python's. A segment that ends in a yield or an await gives
``(YIELD or DELEGATE, (value, go, back, line))``: what to yield or to wait for, the states after it, of what was sent
and of what was thrown (``back`` is None where nothing in the frame handles it; ``go`` where the rest runs plainly), and
the line where the frame waits.
"""

from __future__ import annotations

import types
from typing import Any

from .tracebacks import AT_LINE

__all__ = [
    "DELEGATE",
    "YIELD",
    "dispatcher_lines",
    "drive_coroutine",
    "empty_source",
    "left",
    "plain_rest",
    "refused",
    "suspends",
]

_GENERATOR, _COROUTINE = 0x20, 0x80
_OTHERS = 0x300  # async generators, generators that are awaited


class _Signal:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


YIELD, DELEGATE = _Signal("YIELD"), _Signal("DELEGATE")


def suspends(code: types.CodeType) -> bool:
    """Whether calling such code gives a generator or a coroutine."""
    return bool(code.co_flags & (_GENERATOR | _COROUTINE))


def refused(code: types.CodeType) -> str:
    """What kind of function runs as it is, or ""."""
    if not code.co_flags & _OTHERS:
        return ""
    return "an async generator" if code.co_flags & 0x200 else "a generator-based coroutine"


def is_coroutine(code: types.CodeType) -> bool:
    """Whether calling such code gives a coroutine."""
    return bool(code.co_flags & _COROUTINE)


def empty_source(code: types.CodeType) -> str:
    """Source of a function of the same kind that does nothing."""
    return "async def f(): pass" if is_coroutine(code) else "def f(): yield" if suspends(code) else "def f(): pass"


def plain_rest(rest: Any) -> tuple:
    """The state in which a generator or coroutine of plain Python runs to its end."""
    return DELEGATE, (rest, None, None, None)


_GENERATOR_LOOP = """\
    _fgfn, _fgvalues = _fgout
    del _fgout
    while _fgfn is not None:
        if _fgfn is _fgYIELD or _fgfn is _fgDELEGATE:
            _fggiven, (_fggo, _fgback, _fgline) = [_fgvalues[0]], _fgvalues[1:]
            _fgvalues = None
            try:
                if _fgfn is _fgYIELD:
                    _fggot = yield _fggiven.pop()
                elif _fggo is not None:
                    _fggot = yield from _fggiven.pop()
                else:
                    _fggot, _fgrest = _fgStop, _fggiven.pop()
                    _fgsent = _fgerror = None
                    while True:
                        try:
                            _fggiven = [_fgrest.send(_fgsent) if _fgerror is None else _fgrest.throw(_fgerror)]
                        except StopIteration as _fge:
                            return _fge.value
                        try:
                            _fgsent, _fgerror = (yield _fggiven.pop()), None
                        except BaseException as _fge:
                            _fgerror = _fge
            except BaseException as _fge:
                _fgleft(_fge, _fgline)
                if _fgback is None:
                    raise
                _fgfn, _fgvalues = _fgback(_fge)
            else:
                _fgfn, _fgvalues = _fggo(_fggot)
        else:
            _fgfn, _fgvalues = _fgfn(*_fgvalues)
    return _fgvalues"""
"""The loop stands in the dispatcher itself: ``yield from`` another generator would close that where GeneratorExit is
thrown. A rest that runs as plain Python (``go`` is None) is a generator of the same frame, and gets what comes in."""


def left(error: BaseException, line: int | None) -> None:
    """What was thrown in leaves the frame where it waited: show that line."""
    tb = error.__traceback__
    if line is not None and tb is not None:
        error.__traceback__ = types.TracebackType(tb.tb_next, tb.tb_frame, AT_LINE, line)


async def drive_coroutine(fn: Any, values: Any) -> Any:
    """Run segments; await what they wait for."""
    while fn is not None:
        if fn is DELEGATE:
            given, (go, back, line) = [values[0]], values[1:]
            values = None
            try:
                got = await given.pop()
            except BaseException as e:
                left(e, line)
                if back is None:
                    raise
                fn, values = back(e)
            else:
                if go is None:
                    return got
                fn, values = go(got)
        else:
            fn, values = fn(*values)
    return values


def dispatcher_lines(code: types.CodeType, entries: list[tuple[str, str]], miss: str) -> list[str]:
    """The body of a dispatcher: ``entries`` are (condition, call of the segment), ``miss`` the call at a miss."""
    lines = ["    while True:"]
    for test, call in entries:
        lines += ["        try:", f"            _fghit = {test}", "        except Exception:",
                  "            _fghit = False", "        if _fghit:", f"            _fgout = {call}",
                  "            break"]  # fmt: skip
    rest = ["    return await _fgdrive(*_fgout)"] if is_coroutine(code) else _GENERATOR_LOOP.split("\n")
    return [*lines, f"        _fgout = {miss}", "        break", *rest]
