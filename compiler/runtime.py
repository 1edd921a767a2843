"""The call of compiled code: dispatchers, the driver of segments, plain fallbacks, callees compiled on their own."""

from __future__ import annotations

import os
import threading
import types
from functools import partial, singledispatch
from typing import Any
from weakref import WeakKeyDictionary

from fusegrad import handler
from fusegrad.autograd import modes
from fusegrad.errors import warn
from fusegrad.native import meter
from fusegrad.tensor import Tensor

from . import lifetimes, report
from .cache import Entry, FunctionCache, break_at_numbers, learn
from .capture import breaks
from .capture.breaks import BreakRecord
from .capture.decode import decode, looks_at_callers
from .capture.handled import NULL_PLACE
from .capture.lines import compile_at
from .capture.prepare import take_back
from .capture.resume import resume_function
from .collector import resting
from .compile_entry import compile_entry, line_of
from .defaults import Defaults, call_plainly
from .suspended import (
    DELEGATE,
    YIELD,
    dispatcher_lines,
    drive_coroutine,
    empty_source,
    is_coroutine,
    left,
    plain_rest,
    suspends,
)
from .thread_modes import ordinary
from .tracebacks import bare

LOCK = threading.RLock()
lifetimes.LOCK[:] = [LOCK]
_originals: WeakKeyDictionary[Any, Any] = (
    WeakKeyDictionary()
)  # compiled or disabled function -> plain function (None: disabled)
_nested: dict[Any, Any] = {}


def _after_fork() -> None:
    global LOCK
    LOCK = lifetimes.LOCK[0] = threading.RLock()
    lifetimes.busy.clear()


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


_VALUES = ("int", "float", "shape", "dim", "layout")  # kinds of guards that fail because a number or size changed


def _distance(failing: list, unread: list) -> tuple[int, int]:
    """How far an entry is from fitting: what differs in kind, before what differs in numbers alone."""
    return sum(g.kind not in _VALUES for g in failing) + len(unread), len(failing)


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
        self.source = ""  # of the dispatcher
        self._params()
        self.dispatch = self._make_function()
        self.var = cache.consts.put("_fgu", self.dispatch)
        self.miss_name = cache.consts.put("_fgm", self.miss_final if top and not self.suspends else self.miss)
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
            kwonly += ["_fgF"] if self.shared else []  # last and never given: errors of binding count as Python's do
            sig = pos + ([f"*{star}"] if star else ["*"] if kwonly else []) + kwonly + ([f"**{kw}"] if kw else [])
            self.names = names[:n] + ([star] if star else []) + ([kw] if kw else [])
            self.slots = tuple(range(len(self.names)))
            self.signature = ", ".join(sig)
            call = (
                names[: code.co_argcount]
                + ([f"*{star}"] if star else [])
                + [f"{k}={k}" for k in kwonly if k != "_fgF"]
                + ([f"**{kw}"] if kw else [])
            )
            self.plain_call = ", ".join(call)
            if self.shared:
                self.names.insert(0, "_fgF")
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
            env.update(_fgYIELD=YIELD, _fgDELEGATE=DELEGATE, _fgdrive=drive_coroutine, _fgleft=left)
            calls = [(e.program.text, f"{e.seg_name}({self.args_text})") for e in self.entries]
            self._install_as(dispatcher_lines(cache.code, calls, self.miss_name + args))
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
        env.setdefault("_fgdrive", drive)
        lines.append(f"    return {self.miss_name}{args}")
        self._install_as(lines)

    def _install_as(self, lines: list[str]) -> None:
        cache, env = self.cache, self.cache.consts.env
        if self.top:  # an error leaves by this frame, which has the user's file and name
            env["_fgbare"] = bare
            lines = [
                "    try:",
                *("    " + s for s in lines),
                "    except BaseException as _fge:",
                "        _fgbare(_fge)",
                "        raise",
            ]
        src = ("async " if self.top and is_coroutine(cache.code) else "") + (
            f"def {cache.code.co_name if cache.code.co_name.isidentifier() else 'f'}({self.signature}):\n"
            + "\n".join(lines)
        )
        if src == self.source:  # as after every reset() of what was not called since
            return
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
        return any(issubclass(type(v), Tensor) and v._data is None for v in values)  # asks no ``__class__``

    def _in_mode(self) -> None:
        """Record once that calls in a mode which compiled code does not serve run as plain Python."""
        if not self.told:
            self.told = True
            code, s = self.cache.code, modes.STATE
            known = {"packers": "hooks on saved tensors", "anomaly": "anomaly mode", "lines": "tracing of lines"}
            what = next((text for name, text in known.items() if getattr(s, name)), "enable_grad in inference mode")
            report.note_break(self.cache, BreakRecord(breaks.MODE, what, code.co_filename, line_of(self), "plain"))

    def _entry_for(self, values: tuple) -> Entry | None:
        """An entry for these values, compiled if need be; None: run plain."""
        with LOCK:
            env = dict(zip(self.names, values, strict=False))
            failing = []
            for e in self.entries:  # another thread may have compiled it meanwhile
                failing.append((e, e.program.failing(env)))
                if not failing[-1][1][0]:
                    return e
            if self.disabled:
                return None
            reason = None
            if self.entries:
                nearest = min(failing, key=lambda p: _distance(*p[1]))[0]
                for e, (guards, _) in failing:
                    if not self.cache.fullgraph:
                        break_at_numbers(e, guards, self.cache.facts)
                    if e is nearest or all(g.kind in _VALUES for g in guards):  # values alone keep this entry away
                        why = learn(e, env, self.cache.facts)[0]
                        reason = why if e is nearest else reason
                if len(self.entries) >= self.cache.options.limit:
                    self._limit(reason)  # type: ignore[arg-type]
                    return None
            lifetimes.learn_deaths(self.cache.facts, not self.cache.fullgraph)
            if len(self.entries) >= 3 and not self.cache.fullgraph:
                self.cache.facts.give_up_inlining()
            with resting(), meter.phase("capture"), lifetimes.Compiling(self.cache):
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


# ---- functions called by segments


def nested(caller: FunctionCache, fn: Any) -> Any:
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
                return nested(caller, fn.forward)
        return fn if me is None else types.MethodType(fn, me)
    if fn.__code__ is _DISPATCHING:
        return partial(dispatched, caller, fn if me is None else types.MethodType(fn, me))
    if (
        original_of(fn) is not fn
        or fn.__code__.co_flags & 0x320
        or looks_at_callers(fn.__code__)
        or _stays_plain(fn.__module__ or "")
    ):
        return fn if me is None else types.MethodType(fn, me)
    key = (fn.__code__, id(fn.__globals__), caller.options)
    cache = _nested.get(key)
    if cache is None:
        with LOCK:
            cache = _nested.get(key)
            if cache is None:
                cache = FunctionCache(fn, caller.options, None, False, True)
                top_unit(cache)
                _nested[key] = cache
    caller.called[cache] = None
    call = types.FunctionType(cache.units["top"].dispatch.__code__, cache.consts.env, fn.__name__, fn.__defaults__)
    call.__kwdefaults__ = {**(fn.__kwdefaults__ or {}), "_fgF": fn}
    return call if me is None else types.MethodType(call, me)


def dispatched(caller: FunctionCache, fn: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of a ``functools.singledispatch`` function: the implementation is what is compiled on its own."""
    if not args or type(fn) is types.MethodType:
        return fn(*args, **kwargs)
    return nested(caller, fn.dispatch(args[0].__class__))(*args, **kwargs)


_DISPATCHING = singledispatch(len).__code__
# Modules of the standard library that work on classes and call no code worth compiling.
_ABOUT_CLASSES = {"dataclasses", "collections", "enum", "abc", "typing", "types", "copy", "_collections_abc"}


def _stays_plain(module: str) -> bool:
    return module.startswith("fusegrad") or module in _ABOUT_CLASSES


def top_unit(cache: FunctionCache) -> Unit:
    """The unit of a function's start."""
    u = Unit(cache, 0, (), (), True)
    cache.units["top"] = u
    return u
