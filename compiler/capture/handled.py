"""The exception being handled, where the graph breaks inside of an ``except`` or ``finally`` block.

CPython keeps what the exception before was on the frame's stack (PUSH_EXC_INFO) and the present one in the thread. The
evaluator does the same: `Before` stands on the stack, ``ev.exc`` is the present one. In a state the place of a `Before`
holds the exception that is handled there; `push` and `pop` make it the thread's while a breaking instruction runs.

An exception that captured code raised and caught is an object without traceback or context. Where one can be seen, the
instruction that raised it runs for real, and the exception comes back as one that existed before.
"""

from __future__ import annotations

import dis
import sys
import types
from typing import Any

from . import breaks
from .breaks import Break
from .decode import emit, exception_table
from .values import is_foreign

# What a place on the stack of a state holds.
VALUE, NULL_PLACE, HANDLED, LASTI = "value", "null", "handled", "lasti"


class Before:
    """On the stack of a frame inside of a handler: the exception that was handled before it (None: the caller's)."""

    __slots__ = ("exc",)

    def __init__(self, exc: Any) -> None:
        self.exc = exc


class Lasti:
    """On the stack below an exception: where it was raised. Only the line of a traceback depends on it."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class TraceOf:
    """The traceback of an exception that captured code raised: not None, and nothing else is known of it."""

    __slots__ = ("exc",)

    def __init__(self, exc: BaseException) -> None:
        self.exc = exc


def levels(stack: list[Any], now: Any) -> list[Any]:
    """For every handler on the stack, outermost first, the exception that it handles; ``now``: the present one."""
    before = [v.exc for v in stack if type(v) is Before]
    return [*before[1:], now] if before else []


def chained(exc: BaseException, now: BaseException) -> BaseException:
    """An exception that is thrown into a frame which handles ``now``: it gets that as its context."""
    if exc is not now:
        o = now
        while o.__context__ is not None and o.__context__ is not exc:
            o = o.__context__
        if o.__context__ is not None:  # no cycle
            o.__context__ = None
        exc.__context__ = now
    return exc


def callers(ev: Any, what: str) -> None:
    """Captured code found that it handles no exception: that its caller handles none is guarded."""
    name = ev.cap.consts.name(sys.exc_info)
    if sys.exc_info()[1] is not None:
        raise Break(breaks.CALL, f"{what} while an exception of the caller is handled", clean=True)
    ev.cap.guard(f"{name}()[1] is None", "mode", "the exception being handled")


def traceback_of(ev: Any, exc: Any) -> Any:
    """What ``sys.exc_info()`` and ``__exit__`` get beside an exception."""
    return ev.getattr(exc, "__traceback__") if is_foreign(exc) else TraceOf(exc)


def history(ev: Any, obj: Any, name: str) -> TraceOf | None:
    """The traceback of an exception that captured code raised, or None for another attribute; what else such an
    exception and its traceback lack breaks the graph."""
    raised = type(obj) is not TraceOf and id(obj) in ev.made
    if raised and name == "__traceback__":
        return TraceOf(obj)
    if type(obj) is TraceOf or (raised and name in ("__context__", "with_traceback")):
        raise Break(breaks.OBJECT, f"{name} of an exception", clean=True)
    return None


def set_history(obj: BaseException, name: str, value: Any) -> bool:
    """``exc.__traceback__ = ...``: whether it changes nothing, as in `contextlib`, which sets what is there already."""
    if name == "__traceback__" and type(value) is TraceOf and value.exc is obj:
        return True
    if name in ("__traceback__", "__context__") or is_foreign(value):
        raise Break(breaks.OBJECT, f"{name} of an exception is set", clean=True)
    return False


# ---- functions that no Python source gives


def _assembled(name: str, args: int, *lines: tuple[str, int], guarded: tuple[tuple[str, int], ...] = ()) -> Any:
    """A function made of instructions. ``guarded`` ones run between PUSH_EXC_INFO and POP_EXCEPT of ``lines``: an error
    in them leaves as it is, with the thread's handled exception restored."""
    code = bytearray()
    emit(code, "RESUME", 0)
    for op, arg in lines:
        emit(code, op, arg)
    table = b""
    if guarded:
        start = len(code)
        for op, arg in guarded:
            emit(code, op, arg)
        end = len(code)
        for op, arg in (("SWAP", 2), ("POP_EXCEPT", 0), ("RETURN_VALUE", 0)):
            emit(code, op, arg)
        table = exception_table([(start, end, len(code), 1, True)])
        for op, arg in (("COPY", 3), ("POP_EXCEPT", 0), ("RERAISE", 1)):
            emit(code, op, arg)
    base: types.CodeType = compile(
        f"def {name}({', '.join(f'a{k}' for k in range(args))}): return None", "<fusegrad>", "exec"
    ).co_consts[0]
    made = base.replace(co_code=bytes(code), co_stacksize=8, co_exceptiontable=table, co_consts=(None,))
    return types.FunctionType(made, {}, name)


_HOLD = (("LOAD_FAST", 0), ("PUSH_EXC_INFO", 0), ("POP_TOP", 0))
_TWO = (("LOAD_FAST", 0), ("LOAD_FAST", 1))
_STAR = ("PREP_RERAISE_STAR", 0) if "PREP_RERAISE_STAR" in dis.opmap else ("CALL_INTRINSIC_2", 1)

push = _assembled("push", 1, *_HOLD, ("RETURN_VALUE", 0))
push.__doc__ = "Make an exception the one that the thread handles; returns what `pop` needs to undo that."
pop = _assembled("pop", 1, ("LOAD_FAST", 0), ("POP_EXCEPT", 0), ("LOAD_CONST", 0), ("RETURN_VALUE", 0))
pop.__doc__ = "The exception that the thread handles becomes the one before."
match_star = _assembled(
    "match_star", 2, *_HOLD, guarded=(*_TWO, ("CHECK_EG_MATCH", 0), ("BUILD_TUPLE", 2))
)  # (rest, match) of an exception and the classes of an `except*`
raise_star = _assembled("raise_star", 2, *_HOLD, guarded=(*_TWO, _STAR))  # what is raised at the end of `except*`


def peek() -> Any:
    """What `pop` needs to restore the present state."""
    now = push(None)
    pop(now)
    return now
