"""Segments that end where a generator yields or a coroutine awaits (see ``suspended``)."""

from __future__ import annotations

from typing import Any

from . import breaks
from .breaks import Refuse
from .decode import Instr
from .evaluator import Evaluator, Frame, Outcome
from .handled import chained
from .rebuild import effect_lines

WAITS = ("GET_AWAITABLE", "GET_YIELD_FROM_ITER")


class Thrown:
    """A stack entry: the exception that comes in."""

    text = "_fge"


def yielding(w: Any, out: Outcome) -> list[str]:
    """Body for a frame that yielded a value."""
    frame, ins = out.frame, out.ins
    value = w.rb.value(out.value)
    go = f"lambda _fgv: ({w.state(frame, ins.index + 1, list(frame.stack), ['_fgv'])})"
    return _suspended(w, frame, ins, f"_fgYIELD, ({value}, {go}", "the value of a yield")


def waiting(w: Any, frame: Frame, ins: Instr) -> list[str]:
    """Body for ``await x`` and ``yield from x``: all of it happens outside of the segment."""
    send = frame.program.instrs[ins.index + 2]
    if send.op != "SEND" or send.target < 0:
        raise Refuse(breaks.INSTRUCTION, f"a break at instruction {ins.op}")
    value = w.rb.value(frame.stack[-1])
    pushes = ["_fgv"] if send.extra else ["None", "_fgv"]  # since 3.12 END_SEND takes the iterator away
    go = f"lambda _fgv: ({w.state(frame, send.target, frame.stack[:-1], pushes)})"
    return _suspended(w, frame, ins, f"_fgDELEGATE, ({value}, {go}", "what is awaited")


def _suspended(w: Any, frame: Frame, ins: Instr, text: str, what: str) -> list[str]:
    w.final = False
    back = "None"
    region = w.handler_of(frame, ins)
    if region is not None:
        stack: list[Any] = list(frame.stack)
        Evaluator.enter_handler(stack, region, ins, Thrown())
        chain = f"{w.cap.consts.name(chained)}(_fge, {w.rb.value(w.ev.exc)})" if w.ev.exc is not None else "_fge"
        back = f"lambda _fge: ({chain}) and ({w.state(frame, region.target, stack, [])})"
    effects = effect_lines(w.rb)
    return w.assemble([*effects, *w.mode_lines(), f"return {text}, {back}, {ins.line})"])
