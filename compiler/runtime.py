"""The call of compiled code: dispatchers, the driver of segments, compiling at a miss, plain fallbacks."""

from __future__ import annotations

import os
import threading
import types
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from fusegrad import handler
from fusegrad.autograd import modes
from fusegrad.errors import warn
from fusegrad.native import meter
from fusegrad.tensor import Tensor

from . import report
from .cache import Entry, FunctionCache, learn
from .capture import breaks
from .capture.breaks import Break, BreakRecord, GraphBreakError, Refuse, Restart
from .capture.decode import Program, Undecodable, decode
from .capture.engine_calls import retire
from .capture.evaluator import Frame
from .capture.generators import GenValue
from .capture.handled import HANDLED, LASTI, NULL_PLACE, Before, Lasti
from .capture.inputs import guard_numbers
from .capture.instr_basic import Pending
from .capture.later import settle_calls
from .capture.lines import compile_at
from .capture.prepare import changed_numbers, take_back
from .capture.resume import resume_function
from .capture.source import const, local
from .capture.state import Capture, Guard
from .capture.values import NULL, class_of, is_foreign
from .capture.yields import yielding
from .collector import resting
from .defaults import Defaults, call_plainly
from .guards import GuardProgram
from .suspended import (
    DELEGATE,
    YIELD,
    dispatcher_lines,
    drive_coroutine,
    empty_source,
    is_coroutine,
    plain_rest,
    suspends,
)
from .thread_modes import mode_now, ordinary, set_mode
from .tracebacks import bare

LOCK = threading.RLock()
DEBUG = bool(os.environ.get("FUSEGRAD_DEBUG_CAPTURE"))
_originals: WeakKeyDictionary[Any, Any] = (
    WeakKeyDictionary()
)  # compiled or disabled function -> plain function (None: disabled)
_nested: dict[Any, Any] = {}


def _after_fork() -> None:
    global LOCK
    LOCK = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def original_of(fn: Any) -> Any:
    """The plain function behind a compiled one; None for a disabled one; else the function itself."""
    try:
        return _originals.get(fn, fn)
    except TypeError:
        return fn


def drive(fn: Any, values: tuple) -> Any:
    """Run segments from a state until one gives the value."""
    while fn is not None:
        fn, values = fn(*values)
    return values


_VALUES = ("int", "float", "shape", "dim")  # kinds of guards that fail because a number or size changed


class Unit:
    """A state of a frame: instruction, live slots, shape of the stack. Its dispatcher tries its entries in turn."""

    def __init__(
        self, cache: FunctionCache, ip: int, slots: tuple[int, ...], kinds: tuple[str, ...], top: bool
    ) -> None:
        self.cache, self.ip, self.slots, self.kinds = cache, ip, slots, kinds
        self.top = top  # the function's entry, with the function's own signature
        self.shared = cache.shared
        self.suspends = suspends(cache.code)  # a generator or coroutine
        self.plain_return = top and not self.suspends
        self.entries: list[Entry] = []
        self.disabled = self.told = False
        self.refusals = 0
        self._resume: Any = None
        self.region: Any = None
        self.prepared = 0  # how many of its entries count on optimizer state that was made before the call
        self.made: list[Any] = []  # optimizer state made for a call that is about to run
        self._params()
        self.dispatch = self._make_function()
        self.var = cache.consts.put("_fgu", self.dispatch)
        cache.consts.env[self.var] = self.dispatch
        self.install()

    # ---- generated dispatcher

    def _params(self) -> None:
        code = self.cache.code
        self.names: list[str] = []  # parameter names in the order of values
        if self.top:
            n = code.co_argcount + code.co_kwonlyargcount
            names = [v if v.isidentifier() else f"_fgp{k}" for k, v in enumerate(code.co_varnames)]
            at = n
            star = names[at] if code.co_flags & 4 else None
            at += bool(code.co_flags & 4)
            kw = names[at] if code.co_flags & 8 else None
            pos = names[: code.co_argcount]
            if code.co_posonlyargcount:
                pos.insert(code.co_posonlyargcount, "/")
            kwonly = names[code.co_argcount : n]
            sig = pos + ([f"*{star}"] if star else ["*"] if kwonly else []) + kwonly + ([f"**{kw}"] if kw else [])
            self.names = names[:n] + ([star] if star else []) + ([kw] if kw else [])
            self.slots = tuple(range(len(self.names)))
            self.signature = ", ".join(sig)
            call = (
                names[: code.co_argcount]
                + ([f"*{star}"] if star else [])
                + [f"{k}={k}" for k in kwonly]
                + ([f"**{kw}"] if kw else [])
            )
            self.plain_call = ", ".join(call)
            if self.shared:
                self.names.insert(0, "_fgF")
                self.signature = ", ".join(["_fgF", *([self.signature] if self.signature else [])])
        else:
            names = ["_fgF"] if self.shared else []
            names += [f"_fgl{k}" for k in self.slots] + [
                f"_fgs{k}" for k, kind in enumerate(self.kinds) if kind != NULL_PLACE
            ]
            self.names, self.signature = names, ", ".join(names)
            self.plain_call = ""
        self.args_text = ", ".join(self.names)

    def _make_function(self) -> Any:
        fn = self.cache.func
        empty = empty_source(self.cache.code) if self.top else "def f(): pass"
        code = compile(empty, "<fusegrad>", "exec").co_consts[0]
        out = types.FunctionType(code, self.cache.consts.env, fn.__name__)
        self.defaults = Defaults(fn, out) if self.top and not self.shared else None
        return out

    def install(self) -> None:
        """Generate the dispatcher of the present entries. That of a function's start takes our own frames out of the
        tracebacks of errors that leave it.
        """
        cache, env = self.cache, self.cache.consts.env
        lines: list[str] = []
        args = f"(({self.args_text}{',' if self.names else ''}))"
        if self.top and self.suspends:
            env.update(_fgYIELD=YIELD, _fgDELEGATE=DELEGATE, _fgdrive=drive_coroutine)
            calls = [(e.program.text, f"{e.seg_name}({self.args_text})") for e in self.entries]
            self._install_as(dispatcher_lines(cache.code, calls, cache.consts.name(self.miss) + args))
            return
        for e in self.entries:
            lines += [
                "    try:",
                f"        _fghit = {e.program.text}",
                "    except Exception:",
                "        _fghit = False",
                "    if _fghit:",
            ]
            call = f"{e.seg_name}({self.args_text})"
            if e.plain and self.top and not cache.fullgraph:
                call = f"_fgF({self.plain_call})"
            lines.append(f"        return _fgdrive(*{call})" if self.top and not e.final else f"        return {call}")
        miss = env.setdefault("_fgdrive", drive) and cache.consts.name(self.miss_final if self.top else self.miss)
        lines.append(f"    return {miss}{args}")
        self._install_as(lines)

    def _install_as(self, lines: list[str]) -> None:
        cache, env = self.cache, self.cache.consts.env
        if self.top:  # an error leaves by this frame, which has the user's file and name
            env["_fgbare"] = bare
            lines = [
                "    try:",
                *("    " + s for s in lines),
                "    except Exception as _fge:",
                "        raise _fgbare(_fge)",
            ]
        src = ("async " if self.top and is_coroutine(cache.code) else "") + (
            f"def {cache.code.co_name if cache.code.co_name.isidentifier() else 'f'}({self.signature}):\n"
            + "\n".join(lines)
        )
        new = compile_at(src, cache.code.co_filename, cache.code.co_firstlineno, env)
        target = self.dispatch
        target.__code__ = new.__code__.replace(co_name=cache.code.co_name, co_qualname=cache.code.co_qualname)
        self.source = src

    # ---- plain Python

    def plain(self, values: tuple) -> Any:
        """Run the function, or the rest of the frame, as plain Python from these values."""
        if self.made:
            take_back(self.made)
        if self.top:
            fn = values[0] if self.shared else self.cache.func
            out = call_plainly(self.cache.code, fn, values[1:] if self.shared else values)
            return plain_rest(out) if self.suspends else out
        out = self.resume(values)(*(values[1:] if self.shared else values))
        return plain_rest(out) if self.suspends else (None, out)

    def resume(self, values: tuple) -> Any:
        if self._resume is None:
            g = self.cache.func.__globals__
            self._resume = resume_function(decode(self.cache.code), self.ip, self.slots, self.kinds, g)
        return self._resume

    # ---- a miss

    def miss_final(self, values: tuple) -> Any:
        """For the function's entry: the value itself."""
        if self.defaults is not None:
            values = self.defaults.renewed(values)
        e = None if self._must_be_plain(values) else self._entry_for(values)
        if e is None:
            return self.plain(values)
        out = e.segment(*values) if e.plain else self._first_run(e, values)
        return out if e.final else drive(*out)

    def miss(self, values: tuple) -> Any:
        """For a state in the middle, and the start of a generator or coroutine: (next dispatcher, values)."""
        if self.top and self.defaults is not None:
            values = self.defaults.renewed(values)
        e = None if self._must_be_plain(values) else self._entry_for(values)
        return self.plain(values) if e is None or e.plain else self._first_run(e, values)

    def _first_run(self, e: Entry, values: tuple) -> Any:
        try:
            return e.segment(*values)
        except BaseException:
            take_back(self.made)
            raise
        finally:
            self.made = []  # used by now

    def _must_be_plain(self, values: tuple) -> bool:
        if handler.current() is not None or report.OFF.off:
            return True
        cache = self.cache
        if cache.func.__code__ is not cache.code and not self.shared:
            where = (cache.code.co_filename, cache.code.co_firstlineno)
            report.note_break(cache, BreakRecord(breaks.FRAME, "the function's code was replaced", *where, "plain"))
            return True
        if modes.SLOW[0] and not ordinary():
            self._in_mode()
            return True
        return any(isinstance(v, Tensor) and v._data is None for v in values)

    def _in_mode(self) -> None:
        """Record once that calls in a mode which compiled code does not serve run as plain Python."""
        if not self.told:
            self.told = True
            code, s = self.cache.code, modes.STATE
            what = "hooks on saved tensors" if s.packers else "anomaly mode" if s.anomaly else "tracing of lines"
            report.note_break(self.cache, BreakRecord(breaks.MODE, what, code.co_filename, _line_of(self), "plain"))

    def _entry_for(self, values: tuple) -> Entry | None:
        """An entry for these values, compiled if need be; None: run plain."""
        with LOCK:
            env = dict(zip(self.names, values, strict=False))
            for e in self.entries:  # another thread may have compiled it meanwhile
                if not e.program.failing(env)[0]:
                    return e
            if self.disabled:
                return None
            reason = None
            if self.entries:
                failing = [(e, e.program.failing(env)) for e in self.entries]
                nearest = min(failing, key=lambda p: len(p[1][0]) + len(p[1][1]))[0]
                for e, (guards, _) in failing:
                    if e is nearest or all(g.kind in _VALUES for g in guards):  # values alone keep this entry away
                        why = learn(e, env, self.cache.facts)[0]
                        reason = why if e is nearest else reason
                if len(self.entries) >= self.cache.options.limit:
                    self._limit(reason)  # type: ignore[arg-type]
                    return None
            if len(self.entries) >= 3 and not self.cache.fullgraph:
                self.cache.facts.give_up_inlining()
            with resting(), meter.phase("capture"):
                e = compile_entry(self, values, reason)
            if e is not None:
                self.entries.insert(0, e)
                self.install()
            return e

    def _limit(self, reason: str) -> None:
        self.disabled = True
        code = self.cache.code
        if not self.cache.warned:
            self.cache.warned = True
            warn(
                f"{code.co_filename}:{code.co_firstlineno}: {code.co_qualname} was compiled {len(self.entries)} times; "
                f"other arguments run as plain Python from now on. The guard that keeps failing: {reason}",
                RuntimeWarning,
            )
        report.note_break(self.cache, BreakRecord(breaks.LIMIT, reason, code.co_filename, code.co_firstlineno, "plain"))

    # ---- for segment writers

    def successor(self, ip: int, slots: tuple[int, ...], kinds: tuple[str, ...]) -> Unit:
        """The unit of a state of the same function."""
        key = (ip, slots, kinds)
        got = self.cache.units.get(key)
        if got is None:
            got = self.cache.units[key] = Unit(self.cache, ip, slots, kinds, False)
        return got

    def build_region(self, builder: Any, inputs: list, outputs: list) -> Any:
        from .region import build_region

        name = self.cache.code.co_name if self.cache.code.co_name.isidentifier() else "region"
        self.region = build_region(builder, inputs, outputs, name=name, options=self.cache.options, apart=True)
        return self.region


# ---- compiling one entry


def compile_entry(unit: Unit, values: tuple, reason: str | None) -> Entry | None:
    """Capture a unit from these values and compile its segment. None: it must run as plain Python this time."""
    cache = unit.cache
    before = mode_now()
    unit.region, entry = None, None
    try:
        for _ in range(200):
            try:
                entry = _attempt(unit, values)
                break
            except Restart:
                set_mode(before)
                take_back(unit.made)
        else:
            raise Refuse(breaks.INTERNAL, "analysis does not settle")
    except Refuse as e:
        set_mode(before)
        entry = None
        _refused(unit, e.code, e.detail)
    except GraphBreakError:
        raise
    except Undecodable as e:
        set_mode(before)
        entry = None
        _refused(unit, breaks.FRAME, str(e), tell="own frame" not in str(e))
        unit.disabled = True
    except Exception as e:
        set_mode(before)
        if DEBUG:
            raise
        entry = None
        _refused(unit, breaks.INTERNAL, f"{type(e).__name__}: {e}")
    finally:
        set_mode(before)
        if entry is None or entry.plain:
            take_back(unit.made)
    if entry is not None:
        unit.prepared += bool(unit.made)
        entry.recompile_reason = reason
        report.note_compile(cache, unit, entry, reason)
    return entry


def _attempt(unit: Unit, values: tuple) -> Entry:
    from .capture.machine import Machine

    cap = Capture(unit.cache.code.co_name, unit.cache.facts, unit.cache.consts)
    cap.made, cap.prepares = unit.made, unit.prepared < 2
    ev = Machine(cap)
    try:
        return _captured(unit, values, cap, ev)
    finally:
        retire(ev)
        for frame in ev.frames:
            frame.slots.clear()
            frame.stack.clear()


def _captured(unit: Unit, values: tuple, cap: Capture, ev: Any) -> Entry:
    from .capture.aliases import alias_guards
    from .capture.rebuild import CannotRebuild
    from .capture.segment import SegmentWriter

    cache = unit.cache
    program = decode(cache.code)
    try:
        with handler.active(cap.builder), modes.no_extent():
            frame = _start(unit, program, cap, ev, values)
            out = ev.run_unit(frame)
            if out.kind == "raise":
                raise Refuse(breaks.RAISES, _error_text(out.value))
            settle_calls(cap)
            if not cache.facts.static_all:
                changed = changed_numbers(cap) - cache.facts.changing
                if changed:
                    cache.facts.changing |= changed
                    raise Restart
            guard_numbers(cap)
            _left_generators(cap)
            alias_guards(cap)
            writer = SegmentWriter(cap, ev, unit)
            if out.kind == "break":
                _check_fullgraph(cache, out)
            try:
                if out.kind == "yield":
                    body = yielding(writer, out)
                else:
                    body = writer.returning(out) if out.kind == "return" else writer.breaking(out)
            except CannotRebuild as e:
                _made_for_real(ev, cache, e)
    except (Refuse, Break) as e:
        return _plain_entry(unit, cap, e.code, e.detail)
    if out.kind == "break":
        code, detail = out.reason
        record = BreakRecord(code, detail, cache.code.co_filename, out.ins.line)
        report.note_break(cache, record)
    return _finish(unit, cap, body, writer, out)


def _error_text(exc: Any) -> str:
    return f"{class_of(exc).__name__}" + ("" if is_foreign(exc) else f": {exc}")


def _plain_entry(unit: Unit, cap: Capture, code: str, detail: str) -> Entry:
    """An entry that runs as plain Python whatever fits the guards recorded so far."""
    cache = unit.cache
    record = BreakRecord(code, detail, cache.code.co_filename, cap.loc[1] or _line_of(unit), "plain")
    if cache.fullgraph and code != breaks.RAISES:
        raise GraphBreakError(record)
    report.note_break(cache, record)
    set_mode((cap.grad_before, cap.inference_before))

    def plain(*values: Any) -> Any:
        out = unit.plain(values)
        if cache.fullgraph:  # only code that raises gets here, and this did not
            missing = f"capture expected {detail}, which plain Python did not raise"
            raise GraphBreakError(BreakRecord(breaks.INTERNAL, missing, record.file, record.line, "plain"))
        return out

    cap.tensors = [t for t in cap.tensors if not t.sticky]
    cap.guards = [g for g in cap.guards if not g.fixed]
    e = Entry(GuardProgram(cap, _mode_guards(cap, unit), "_fgw"), plain, True, f"# plain Python: {record}", None, True)
    e.seg_name = cache.consts.put("_fgg", plain)
    return e


def _start(unit: Unit, program: Program, cap: Capture, ev: Any, values: tuple) -> Frame:
    """The frame of a unit's state; nothing is guarded before it is read."""
    cache = unit.cache
    func, rest, names = cache.func, values, unit.names
    if unit.shared:
        func, rest, names = values[0], values[1:], names[1:]
        src = local("_fgF", cache.code.co_name)
        cap.origin[id(func)] = src
    else:
        cap.origin[id(func)] = const(cache.consts.name(func), cache.code.co_name)
    cap.keep.append(func)
    frame = Frame(program, func, func.__globals__, 0)
    frame.ip = unit.ip
    cap.loc = (cache.code.co_filename, program.instrs[unit.ip].line)
    for k, slot in enumerate(unit.slots):
        frame.slots[slot] = Pending(rest[k], local(names[k], program.slots[slot]))
    at = len(unit.slots)
    for kind in unit.kinds:
        if kind == NULL_PLACE:
            frame.stack.append(NULL)
            continue
        if kind == LASTI:
            frame.stack.append(Lasti(names[at]))
        else:
            value = cap.realize(rest[at], local(names[at], f"stack{len(frame.stack)}"))
            frame.stack.append(Before(ev.exc) if kind == HANDLED else value)
            if kind == HANDLED:
                ev.exc = value
        at += 1
    return frame


def _check_fullgraph(cache: FunctionCache, out: Any) -> None:
    if cache.fullgraph:
        code, detail = out.reason
        raise GraphBreakError(BreakRecord(code, detail, cache.code.co_filename, out.ins.line))


def _left_generators(cap: Capture) -> None:
    """A generator that is dropped before its end and has something to do then is Python's to close."""
    if any(type(v) is GenValue and v.closes() for v in cap.keep):
        raise Refuse(breaks.REBUILD, "a generator that is left before its end")


def _made_for_real(ev: Any, cache: FunctionCache, e: Any) -> None:
    """A live value can't be rebuilt: let the instruction that made it run for real, and analyse again."""
    if type(e.value) is GenValue and e.value.minds():
        raise Refuse(breaks.REBUILD, e.what) from None
    place = ev.made.get(id(e.value))
    if place is None or place in cache.facts.breaks:
        raise Refuse(breaks.REBUILD, e.what) from None
    cache.facts.breaks[place] = (breaks.REBUILD, e.what)
    raise Restart from None


def _finish(unit: Unit, cap: Capture, body: list[str], writer: Any, out: Any) -> Entry:
    cache = unit.cache
    program = GuardProgram(cap, _mode_guards(cap, unit), "_fgw")
    line = out.ins.line
    name = cache.code.co_name if cache.code.co_name.isidentifier() else "segment"
    env = cache.consts.env
    env.setdefault("_fgNested", partial(nested, cache.options))
    source = f"def {name}({unit.args_text}):\n" + "\n".join("    " + s for s in body)
    segment = compile_at(source, cache.code.co_filename, line, env)
    segment.__code__ = segment.__code__.replace(co_name=cache.code.co_name, co_qualname=cache.code.co_qualname)
    e = Entry(program, segment, writer.final, source, unit.region)
    e.seg_name = cache.consts.put("_fgg", segment)
    if program.epoch and not program.epoch[1]():
        raise Refuse(breaks.INTERNAL, "module guards do not hold after capture")
    return e


def _mode_guards(cap: Capture, unit: Unit) -> list[Guard]:
    d = cap.consts.name(_default_dtype())
    own = [] if unit.shared else [Guard(f"_fgF.__code__ is {cap.consts.name(unit.cache.code)}", None, "code", "code")]
    if unit.defaults is not None:
        own += unit.defaults.guards(cap.consts)
    return [
        *own,
        Guard(f"_fgS.grad is {cap.grad_before}", None, "grad_mode", "grad mode", cap.grad_before),
        Guard("_fginf()" if cap.inference_before else "(not _fgSLOW[0] or _fgord())", None, "mode", "modes"),
        Guard(f"_fgdt._default is {d}", None, "default_dtype", "default dtype"),
    ]


def _default_dtype() -> Any:
    from fusegrad import dtypes

    return dtypes.get_default_dtype()


def _refused(unit: Unit, code: str, detail: str, tell: bool = False) -> None:
    """The unit runs as plain Python for this call; recorded."""
    cache = unit.cache
    record = BreakRecord(code, detail, cache.code.co_filename, _line_of(unit), "plain")
    if cache.fullgraph and code != breaks.RAISES:
        raise GraphBreakError(record)
    if tell:
        warn(f"{cache.code.co_qualname} runs as plain Python: {detail}", RuntimeWarning)
    report.note_break(cache, record)
    if code != breaks.RAISES:
        unit.refusals += 1
        if unit.refusals >= 3:
            unit.disabled = True
    return None


def _line_of(unit: Unit) -> int:
    try:
        return decode(unit.cache.code).instrs[unit.ip].line
    except Undecodable:
        return unit.cache.code.co_firstlineno


# ---- functions called by segments


def nested(options: Any, fn: Any) -> Any:
    """A callee that broke its caller's graph, compiled on its own, with the caller's options (its code is compiled once
    for all closures).
    """
    me = None
    if type(fn) is types.MethodType:
        fn, me = fn.__func__, fn.__self__
    if type(fn) is not types.FunctionType:
        from fusegrad.nn.module import Module

        if isinstance(fn, Module):
            if type(fn).__call__ is Module.__call__ and fn._calls_forward():
                return nested(options, fn.forward)
        return fn if me is None else types.MethodType(fn, me)
    if original_of(fn) is not fn or fn.__code__.co_flags & 0x320 or _stays_plain(fn.__module__ or ""):
        return fn if me is None else types.MethodType(fn, me)
    key = (fn.__code__, id(fn.__globals__), options)
    cache = _nested.get(key)
    if cache is None:
        with LOCK:
            cache = _nested.get(key)
            if cache is None:
                cache = FunctionCache(fn, options, None, False, True)
                top_unit(cache)
                _nested[key] = cache
    call = types.FunctionType(cache.units["top"].dispatch.__code__, cache.consts.env, fn.__name__, fn.__defaults__)
    if fn.__kwdefaults__:
        call.__kwdefaults__ = fn.__kwdefaults__
    return partial(call, fn) if me is None else partial(call, fn, me)


# Modules of the standard library that work on classes and call no code worth compiling.
_ABOUT_CLASSES = {"dataclasses", "collections", "enum", "abc", "typing", "types", "copy", "_collections_abc"}


def _stays_plain(module: str) -> bool:
    return module.startswith("fusegrad") or module in _ABOUT_CLASSES


def top_unit(cache: FunctionCache) -> Unit:
    """The unit of a function's start."""
    u = Unit(cache, 0, (), (), True)
    cache.units["top"] = u
    return u
