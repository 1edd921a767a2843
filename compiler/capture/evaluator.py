"""The symbolic evaluator: runs canonical instructions on values (see values.py).

`Evaluator.run_unit` evaluates the outermost frame up to its end or its first break; inlined calls are evaluated by
`run_frame`, recursively. Handlers of instructions are registered by name in `HANDLERS` (files ``instr_*.py``).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad.errors import DataDependentError, NotRecordedError
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks, std_python
from .breaks import Break, Leak, Raised, Refuse, Restart
from .decode import Instr, Program, Region, Undecodable, decode
from .handled import Lasti
from .values import NULL, SymFloat, is_foreign

HANDLERS: dict[str, Callable[[Any, Any, Instr], Any]] = {}
MAX_DEPTH = 48
MAX_STEPS = 400_000


def handles(*ops: str) -> Callable[[Any], Any]:
    """Register the handler of instructions."""

    def put(fn: Any) -> Any:
        for op in ops:
            HANDLERS[op] = fn
        return fn

    return put


class Frame:
    """A frame under evaluation: program, position, stack, slots (locals, cells, free variables)."""

    __slots__ = ("program", "ip", "stack", "slots", "globals", "func", "depth", "kind", "names")

    def __init__(self, program: Program, func: Any, globals_: Any, depth: int) -> None:
        self.program, self.func, self.globals, self.depth = program, func, globals_, depth
        self.ip = 0
        self.stack: list[Any] = []
        self.slots: list[Any] = [NULL] * len(program.slots)
        self.kind = ""
        self.names: dict[str, Any] | None = None  # of a class body


class Returned:
    """A frame ended with a value (or a generator yielded one)."""

    __slots__ = ("value", "yielded")

    def __init__(self, value: Any, yielded: bool = False) -> None:
        self.value, self.yielded = value, yielded


class Outcome:
    """How the outermost frame's evaluation ended: "return" or "yield" (value), "break" (instruction),
    "raise" (exception)."""

    __slots__ = ("kind", "value", "ins", "frame", "reason")

    def __init__(self, kind: str, frame: Frame, value: Any = None, ins: Any = None, reason: Any = None) -> None:
        self.kind, self.frame, self.value, self.ins, self.reason = kind, frame, value, ins, reason


def stands_in(v: Any, depth: int = 3) -> bool:
    """Whether a value is, or a container holds, a placeholder of an object from before."""
    t = type(v)
    if not depth or t not in (dict, tuple, list, set):
        return is_foreign(v)
    return any(stands_in(x, depth - 1) for x in (v.values() if t is dict else v))


def _symbolic(v: Any) -> bool:
    """A symbolic number, a tensor with symbolic sizes, or a sequence with one of them."""
    t = type(v)
    if issubclass(t, Tensor):
        return v._data is None and any(type(s) is SymInt for s in v._g.meta.shape)
    return t is SymInt or t is SymFloat or (t in (tuple, list) and any(map(_symbolic, v)))


def _always_there(v: Any) -> bool:
    """Objects that capture does not make: they are the same in every call."""
    return v is None or isinstance(v, (bool, int, str, bytes, type, types.ModuleType, types.BuiltinFunctionType))


class Evaluator:
    """Evaluates frames for one capture."""

    def __init__(self, cap: Any) -> None:
        self.cap = cap
        self.calls = 0  # counts everything that can leave traces: inlined calls, library calls
        self.steps = 0
        self.exc: Any = None  # the exception being handled; None: what the caller handles
        self.outer: tuple[types.CodeType, int] | None = None  # place in the outermost frame
        self.made: dict[int, tuple[types.CodeType, int]] = {}  # id of a generator, bridge, leaf -> place that made it
        self.addressed: dict[int, Any] = {}  # objects made here whose id() the code knows
        self.enclosing: dict[int, types.FunctionType] = {}  # id of a library function -> as it runs here
        self.raised: list[BaseException] = []  # keeps the ids of exceptions in ``made`` their own
        self.frames: list[Frame] = cap.frames
        cap.sizes.shows = Evaluator.real.__code__, cap.show
        cap.builder.on_leaf = self._leaf_made
        cap.builder.on_warning, cap.builder.on_override = self._library_warns, self._taken_over
        cap.builder.signals = (Break, Restart, Refuse)

    def _leaf_made(self, leaf: Tensor) -> None:
        if self.outer is not None:
            self.made[id(leaf)] = self.outer

    def _library_warns(self, message: str, category: type[Warning]) -> None:
        """The library has something to say of a call that it runs on graph tensors: it says so at every call. (Of
        itself, its caches and kernels, it says it with a RuntimeWarning.)"""
        if category is not RuntimeWarning:
            raise Break(breaks.CALL, f"a warning: {message[:80]}")

    @staticmethod
    def _taken_over(kind: type) -> None:
        """The library is about to call a ``__torch_function__``: code of the program, with effects of its own."""
        raise Break(breaks.CALL, f"__torch_function__ of a {kind.__name__}")

    # ---- loops ----

    def run_unit(self, frame: Frame) -> Outcome:
        """Evaluate the outermost frame. Raises `Restart` or `Refuse`."""
        program, facts = frame.program, self.cap.facts
        file = program.code.co_filename
        self.frames[:] = [frame]
        while True:
            ins = program.instrs[frame.ip]
            key = (program.code, ins.index)
            self.outer = key
            self.cap.loc = self.cap.builder.loc = (file, ins.line)
            if key in facts.breaks:
                return self._outcome(frame, ins, facts.breaks[key])
            saved, before = frame.stack[:], self.calls
            frame.ip += 1
            try:
                r = self.step(frame, ins)
            except Raised as e:
                self._note_raised(e.exc)
                if not self.unwind(frame, ins, e.exc):
                    return Outcome("raise", frame, e.exc, ins)
                continue
            except Break as b:
                if b.where is None:
                    b.where = self.cap.loc
                reason = (
                    (b.code, b.detail)
                    if b.where == self.cap.loc
                    else (breaks.NESTED, f"{b.detail} [{b.code}] at {b.where[0]}:{b.where[1]}")
                )
                if b.clean and self.calls == before:
                    frame.stack, frame.ip = saved, ins.index
                    return self._outcome(frame, ins, reason)
                facts.breaks[key] = reason
                raise Restart from None
            if r is not None:
                return Outcome("yield" if r.yielded else "return", frame, r.value, ins)

    def _outcome(self, frame: Frame, ins: Instr, reason: tuple[str, str]) -> Outcome:
        frame.ip = ins.index
        return Outcome("break", frame, None, ins, reason)

    def run_frame(self, frame: Frame) -> Returned:
        """Evaluate an inlined frame until it returns or yields. Raises `Raised` or `Break`."""
        program = frame.program
        file = program.code.co_filename
        cap, outer_loc = self.cap, self.cap.loc
        self.frames.append(frame)
        try:
            while True:
                ins = program.instrs[frame.ip]
                frame.ip += 1
                cap.loc = cap.builder.loc = (file, ins.line)
                try:
                    r = self.step(frame, ins)
                except Raised as e:
                    self._note_raised(e.exc)
                    if not self.unwind(frame, ins, e.exc):
                        raise
                    continue
                except Break as b:
                    b.clean = False
                    if (
                        b.where is None and file != std_python.__file__
                    ):  # those stand for C code: the caller's line counts
                        b.where = cap.loc
                    raise
                if r is not None:
                    return r
        finally:
            self.frames.pop()
            cap.loc = cap.builder.loc = outer_loc

    def step(self, frame: Frame, ins: Instr) -> Returned | None:
        """Evaluate one instruction."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise Refuse(breaks.FRAME, f"more than {MAX_STEPS} instructions; a loop without end?")
        fn = HANDLERS.get(ins.op)
        if fn is None:
            raise Break(breaks.INSTRUCTION, f"instruction {ins.op}", clean=True)
        try:
            return fn(self, frame, ins)
        except Leak as e:
            raise Break(breaks.OBJECT, str(e)) from None

    def unwind(self, frame: Frame, ins: Instr, exc: BaseException) -> bool:
        """Go to the handler around ``ins``; False if there is none."""
        region = frame.program.handler(ins.index)
        if region is None:
            return False
        self.enter_handler(frame.stack, region, ins, exc)
        frame.ip = region.target
        return True

    @staticmethod
    def enter_handler(stack: list[Any], region: Region, ins: Instr, exc: Any) -> None:
        """Cut the stack and push what a handler expects."""
        del stack[region.depth :]
        if region.lasti:
            stack.append(Lasti(str(ins.offset // 2)))
        stack.append(exc)

    def _note_raised(self, exc: Any) -> None:
        """Remember where an exception came into the captured code: there it can be raised for real."""
        if id(exc) not in self.made and issubclass(type(exc), BaseException):
            self.made[id(exc)] = self.outer  # type: ignore[assignment]
            self.raised.append(exc)

    def address(self, v: Any) -> int:
        """``id(v)`` of an object that captured code made: if it lives on, it is made, and asked, for real."""
        if self.outer is not None and self.cap.by_user() and not _always_there(v):
            self.made.setdefault(id(v), self.outer)
            self.addressed[id(v)] = v
        return id(v)

    # ---- running real code ----

    def real(self, fn: Any, *args: Any, **kwargs: Any) -> Any:
        """Call real code on values; its exceptions become the program's, reading a graph tensor's value a break."""
        self.calls += 1
        try:
            if issubclass(type(getattr(fn, "__self__", fn)), _NUMPY) or any(
                [issubclass(type(a), _NUMPY) for a in args]
            ):
                return within_domain(fn, args, kwargs)
            return fn(*args, **kwargs)
        except NotRecordedError as e:
            raise Break(breaks.CONTROL, str(e)) from None
        except DataDependentError as e:
            raise Break(breaks.VALUE, str(e).split("\n")[0]) from None
        except (Break, Restart, Refuse):
            raise
        except Raised:
            raise
        except Leak as e:
            raise Break(breaks.OBJECT, f"{getattr(fn, '__name__', fn)!s}: {e}") from None
        except RecursionError:
            raise Break(breaks.DEPTH, "recursion limit") from None
        except Exception as e:
            e.__traceback__ = None
            if (fn is not getattr or is_foreign(args[0])) and any(map(stands_in, (*args, *kwargs.values()))):
                # C code that found a placeholder where it takes the object itself, perhaps
                raise Break(breaks.OBJECT, f"{getattr(fn, '__name__', fn)!s} of a placeholder") from None
            if any(type(a) is str and "GenValue" in a for a in e.args):  # Python says what it is
                raise Break(breaks.OBJECT, f"{getattr(fn, '__name__', fn)!s} of a generator") from None
            changing = self.cap.size_sources or self.cap.floats
            if (
                changing
                and fn is not getattr
                and (any(map(_symbolic, (*args, *kwargs.values()))) or self.cap.names_a_size(e.args))
            ):
                # with symbolic sizes the library may fail where it would not, or say s0 for 3: let Python decide
                raise Refuse(breaks.RAISES, f"{type(e).__name__}: {e}") from None
            raise Raised(e) from None

    # ---- frames ----

    def make_frame(self, fn: Any, depth: int) -> Frame:
        """A frame for a Python function; `Break` if its code is not decodable or nested too deep."""
        if depth > MAX_DEPTH:
            raise Break(breaks.DEPTH, f"calls nested deeper than {MAX_DEPTH}")
        try:
            program = decode(fn.__code__)
        except Undecodable as e:
            raise Break(breaks.FRAME, str(e)) from None
        return Frame(program, fn, fn.__globals__, depth)


_NUMPY = (np.generic, np.ndarray, np.ufunc)


def within_domain(fn: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A call of numpy. What divides by zero, overflows or is invalid warns, raises or calls a function, as
    ``np.errstate`` says at each call of the program: it runs for real."""
    try:
        with np.errstate(all="raise"):
            return fn(*args, **kwargs)
    except FloatingPointError as e:
        raise Break(breaks.CALL, f"numpy: {e}", clean=True) from None


def in_order() -> bool:
    """Whether the evaluator itself makes the call that asks: not real code that was given a function, a checkpoint
    (which runs its function again), or the engine.
    """
    frame: types.FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not _RUN:
        if frame.f_code in ASIDE:
            return False
        frame = frame.f_back
    return frame is not None


_RUN = Evaluator.run_unit.__code__
ASIDE = {Evaluator.real.__code__}
