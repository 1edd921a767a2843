"""Compiling at a miss: one entry of a unit, captured from the values of a call, or the plain Python it runs as."""

from __future__ import annotations

import os
import types
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad import handler
from fusegrad.autograd import modes
from fusegrad.errors import warn
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor

from . import report
from .cache import Entry, FunctionCache
from .capture import breaks
from .capture.breaks import Break, BreakRecord, GraphBreakError, Refuse, Restart
from .capture.decode import Program, Undecodable, decode
from .capture.engine_calls import retire
from .capture.evaluator import Frame
from .capture.generators import GenValue
from .capture.handled import HANDLED, LASTI, NULL_PLACE, VALUE, Before, Lasti
from .capture.inputs import guard_numbers
from .capture.instr_basic import Pending
from .capture.later import settle_calls
from .capture.lines import compile_at
from .capture.prepare import changed_numbers, take_back
from .capture.source import const, local
from .capture.state import Capture, Guard
from .capture.values import NULL, class_of, is_foreign
from .capture.yields import yielding
from .guards import GuardProgram
from .thread_modes import mode_now, set_mode

if TYPE_CHECKING:
    from .runtime import Unit

DEBUG = bool(os.environ.get("FUSEGRAD_DEBUG_CAPTURE"))


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
        cap.let_go()


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
            if out.kind == "break" and any(k >= out.ins.index for k in program.locals_calls()):
                raise Refuse(breaks.FRAME, f"a graph break before locals() ({out.reason[1]})")
            settle_calls(cap)
            for g in cap.sizes.guards if cap.draws else ():
                cap.looked_at(cap.size_text(str(g)))
            if not cache.facts.static_all:
                changed = changed_numbers(cap) - cache.facts.changing
                if changed:
                    cache.facts.changing |= changed
                    raise Restart
            guard_numbers(cap)
            _left_generators(cap, managed=False)
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
            _left_generators(cap, managed=True)  # none is in what lives on, or it would have been made for real
    except (Refuse, Break) as e:
        return _plain_entry(unit, cap, e.code, e.detail)
    if out.kind == "break":
        code, detail = out.reason
        record = BreakRecord(code, detail, cache.code.co_filename, out.ins.line)
        report.note_break(cache, record)
    return _finish(unit, cap, body, writer, out)


def _error_text(exc: Any) -> str:
    """The class, and the text where making it runs none of the user's code."""
    name = class_of(exc).__name__
    own = is_foreign(exc) or type(exc).__str__.__class__ is types.FunctionType
    return name if own or not all(type(a) in (str, int, float, bool) for a in exc.args) else f"{name}: {exc}"


def _plain_entry(unit: Unit, cap: Capture, code: str, detail: str) -> Entry:
    """An entry that runs as plain Python whatever fits the guards recorded so far."""
    cache = unit.cache
    record = BreakRecord(code, detail, cache.code.co_filename, cap.loc[1] or line_of(unit), "plain")
    if cache.fullgraph and code != breaks.RAISES:
        raise GraphBreakError(record)
    report.note_break(cache, record)
    set_mode((cap.grad_before, cap.inference_before, False))

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
    cache.hold(e)
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
    if not unit.top:
        _expect_changes(unit, program, rest)
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


def _expect_changes(unit: Unit, program: Program, values: tuple) -> None:
    """Note what will be another number, size or module the next time in a state behind a break: locals that a loop
    around it stores to, what a loop goes through, floats that a call gave (``loss.item()``), sizes that depend on data.
    Known now, they cost no second version.
    """
    facts, stored = unit.cache.facts, program.stored_in_loops(unit.ip)
    names = [program.slots[slot] for slot in unit.slots]
    found = [(n, v) for n, v in zip(names, values, strict=False) if n in stored]
    if stored and unit.kinds:  # an operand that was read before: `total + loss.item()`
        places = [f"stack{k}" for k, kind in enumerate(unit.kinds) if kind != NULL_PLACE]
        found += [(p, v) for p, v in zip(places, values[len(unit.slots) :], strict=True) if type(v) is float]
    if unit.kinds and unit.kinds[-1] == VALUE:
        top, path, before = values[-1], f"stack{len(unit.kinds) - 1}", program.instrs[unit.ip - 1].op
        if before == "FOR_ITER":
            found += _leaves(path, top)
        elif before.startswith("CALL"):
            found += [(p, v) for p, v in _leaves(path, top) if type(v) in (float, np.float64)]
        reason = facts.breaks.get((program.code, unit.ip - 1))
        if reason is not None and reason[0] == breaks.VALUE:  # indices of nonzero elements, elements of a mask
            tensors = [(p, v) for p, v in _leaves(path, top) if type(v) is Tensor and v.dim()]
            found += [(f"{p}.shape[0]", v.shape[0]) for p, v in tensors]
    if not facts.static_all:
        facts.changing |= {p for p, v in found if type(v) in (int, float, np.float64)}
    facts.generic |= {p for p, v in found if issubclass(type(v), Module)}


def _leaves(path: str, v: Any) -> list[tuple[str, Any]]:
    """A value, or what is in its tuples, with the paths."""
    if type(v) is not tuple or len(v) > 8:
        return [(path, v)]
    return [found for k, x in enumerate(v) for found in _leaves(f"{path}[{k}]", x)]


def _check_fullgraph(cache: FunctionCache, out: Any) -> None:
    if cache.fullgraph:
        code, detail = out.reason
        raise GraphBreakError(BreakRecord(code, detail, cache.code.co_filename, out.ins.line))


def _left_generators(cap: Capture, managed: bool) -> None:
    """A generator that is dropped before its end and has something to do then is Python's to close."""
    if any(type(v) is GenValue and v.managed is managed and v.closes() for v in cap.keep):
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
    from .runtime import nested

    cache = unit.cache
    program = GuardProgram(cap, _mode_guards(cap, unit), "_fgw")
    line = out.ins.line
    name = cache.code.co_name if cache.code.co_name.isidentifier() else "segment"
    env = cache.consts.env
    env.setdefault("_fgNested", partial(nested, cache))
    source = f"def {name}({unit.args_text}):\n" + "\n".join("    " + s for s in body)
    segment = compile_at(source, cache.code.co_filename, line, env)
    code = segment.__code__
    segment.__code__ = code.replace(
        co_name=cache.code.co_name, co_qualname=cache.code.co_qualname, co_consts=(*code.co_consts, "_fgUSER")
    )
    e = Entry(program, segment, writer.final, source, unit.region)
    e.seg_name = cache.consts.put("_fgg", segment)
    if program.epoch and not program.epoch[1]():
        raise Refuse(breaks.INTERNAL, "module guards do not hold after capture")
    cache.hold(e)
    unit.region = None
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
    record = BreakRecord(code, detail, cache.code.co_filename, line_of(unit), "plain")
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


def line_of(unit: Unit) -> int:
    """The line a unit starts at; that of the function where its code can't be read."""
    try:
        return decode(unit.cache.code).instrs[unit.ip].line
    except Undecodable:
        return unit.cache.code.co_firstlineno
