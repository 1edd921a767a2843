"""Generators made during capture: suspended frames that real code may iterate."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from . import breaks
from .breaks import Break, Raised
from .decode import Program
from .evaluator import Frame
from .handled import Before
from .std_python import KINDS
from .values import is_a

_ENTER = contextlib._GeneratorContextManager.__enter__.__code__


class GenValue:
    """A generator of the evaluated program. Works as a real iterator: library code may loop over it."""

    __slots__ = ("ev", "frame", "state", "name", "delegate", "handled", "managed", "kind", "__weakref__")

    def __init__(self, ev: Any, frame: Frame, name: str) -> None:
        self.ev, self.frame, self.name = ev, frame, name
        self.state = "new"  # new, suspended, running, done
        self.handled: Any = None  # the exception that it handles while it is suspended
        self.kind = KINDS.get(frame.program.code)  # the C iterator that it stands for
        self.managed = False  # of a manager that a ``with`` entered: that asks for its end
        ev.made[id(self)] = ev.outer
        ev.cap.keep.append(self)

    def __iter__(self) -> GenValue:
        return self

    def __next__(self) -> Any:
        return self.native(self.resume, None)

    def native(self, fn: Any, *args: Any) -> Any:
        """Run for real code: the program's exceptions become real ones."""
        try:
            return fn(*args)
        except Raised as e:
            raise e.exc from None

    def resume(self, value: Any, exc: BaseException | None = None) -> Any:
        """Run to the next yield; `Raised(StopIteration)` at the end."""
        ev, frame = self.ev, self.frame
        if self.state == "running":
            raise Raised(ValueError("generator already executing"))
        if self.state == "done":
            raise Raised(exc if exc is not None else StopIteration())
        if self.state == "new":
            if exc is not None:
                self.state = "done"
                raise Raised(exc if sys.version_info >= (3, 12) else _from_inside(exc))  # since then code does that
            if value is not None:
                raise Raised(TypeError("can't send non-None value to a just-started generator"))
            self.managed = _entered_by_with(ev.frames)
        ev.calls += 1
        before, outer_exc = self.state, ev.exc
        self.state = "running"
        try:
            inside = [v for v in frame.stack if type(v) is Before]
            if inside:  # what is handled outside of it is the present caller's
                inside[0].exc, ev.exc = outer_exc, self.handled
            if exc is None:
                frame.stack.append(value)  # at the start POP_TOP takes it, later it is the yield's result
            else:
                self._throw(frame, exc)
            r = ev.run_frame(frame)
        except Raised as e:
            self.state = "done"
            if self.kind is not None:  # after an error a C iterator goes on
                raise Break(breaks.ITERATOR, f"an error inside of {self.kind.__name__}") from None
            if is_a(e.exc, StopIteration):
                raise Raised(_from_inside(e.exc)) from None
            raise
        except BaseException:
            self.state = "done"
            raise
        finally:
            self.handled, ev.exc = ev.exc, outer_exc
            del before
        if r.yielded:
            self.state = "suspended"
            return r.value
        self.state = "done"
        raise Raised(StopIteration(r.value) if r.value is not None else StopIteration())

    def _throw(self, frame: Frame, exc: BaseException) -> None:
        ins = frame.program.instrs[frame.ip - 1]
        after = frame.program.instrs[frame.ip]
        if after.op == "RESUME" and after.arg & 3 == 2:  # the inner iterator is asked first
            raise Break(breaks.INSTRUCTION, "an exception thrown into `yield from`")
        if not self.ev.unwind(frame, ins, exc):
            self.state = "done"
            raise Raised(exc)

    def minds(self) -> bool:
        """Whether it matters when it is dropped: some yield has an ``except``, ``finally`` or ``with`` around it."""
        program = self.frame.program
        return not self.managed and any(
            ins.op == "YIELD_VALUE" and _handled(program, ins.index) for ins in program.instrs
        )

    def closes(self) -> bool:
        """Whether dropping the generator runs code of it: an ``except``, ``finally`` or ``with`` around its yield."""
        return self.state == "suspended" and _handled(self.frame.program, self.frame.ip - 1)

    def send(self, value: Any) -> Any:
        return self.native(self.resume, value)

    def throw_in(self, exc: Any) -> Any:
        """`throw`, for the evaluator."""
        if is_a(exc, type):
            exc = exc()
        return self.resume(None, exc)

    def close_in(self) -> None:
        """`close`, for the evaluator."""
        if self.state in ("new", "done"):
            self.state = "done"
            return
        try:
            self.resume(None, GeneratorExit())
        except Raised as e:
            if is_a(e.exc, (GeneratorExit, StopIteration)):
                return
            raise
        raise Raised(RuntimeError("generator ignored GeneratorExit"))


def _from_inside(exc: BaseException) -> BaseException:
    """What comes out of a generator for an exception that its code does not handle."""
    if not is_a(exc, StopIteration):
        return exc
    new = RuntimeError("generator raised StopIteration")
    new.__cause__ = exc
    return new


def _entered_by_with(frames: list[Frame]) -> bool:
    """Whether the innermost frame is the ``__enter__`` of a generator's manager, called by a ``with`` statement."""
    if len(frames) < 2 or frames[-1].program.code is not _ENTER:
        return False
    at, instrs = frames[-2].ip - 1, frames[-2].program.instrs
    return instrs[at].op == "BEFORE_WITH" or (instrs[at].op == "CALL" and instrs[at - 1].op == "LOAD_SPECIAL")


def _handled(program: Program, at: int) -> bool:
    """Whether a yield, the instruction ``at``, has an ``except``, ``finally`` or ``with`` of the user's around it."""
    while True:
        region = program.handler(at)
        if region is None:
            return False
        target = program.instrs[region.target]
        if target.op == "CLEANUP_THROW":  # of a `yield from`: what is around it comes next
            at = region.target
            continue
        # since 3.12 the end of every generator is a handler that turns StopIteration into an error
        return target.op != "STOPITERATION_ERROR" and not (target.op == "INTRINSIC_1" and target.arg == 3)


def start_generator(ev: Any, frame: Frame) -> GenValue:
    """The generator of a frame that has its arguments: evaluate up to RETURN_GENERATOR."""
    flags = frame.program.code.co_flags
    if flags & 0x280:
        raise Break(breaks.FRAME, f"coroutine {frame.program.code.co_name}")
    instrs = frame.program.instrs
    while instrs[frame.ip].op != "RETURN_GENERATOR":
        ins = instrs[frame.ip]
        frame.ip += 1
        ev.step(frame, ins)
    frame.ip += 1
    return GenValue(ev, frame, frame.program.code.co_name)
