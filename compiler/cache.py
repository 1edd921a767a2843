"""Entries of compiled functions: units (states of a frame), their dispatchers, limits, what changed between calls."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import operator
import re
import types
import weakref
from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.autograd import modes
from fusegrad.nn import _tracked
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor, extra_of

from .capture import handled
from .capture.aliases import apart, owner_id
from .capture.alike import same_place
from .capture.breaks import CALL, NUMBER
from .capture.changing import TOKEN
from .capture.containers import typed
from .capture.state import CHANGING_TYPES, Facts, Guard
from .lifetimes import OTHER_ID, mortal, mortal_guards, names_of
from .options import Options
from .thread_modes import inferring, recording, set_mode


class Consts:
    """The namespace of a function's generated code: objects by name, each object once."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}  # by id; the namespace keeps the object, or its death takes the name
        self.count = 0
        self.uses: dict[str, int] = {}  # name -> how many entries use it
        self.fresh: list[str] = []  # made by the compile that goes on
        self.cache: Any = None
        self.modules: set[str] = set()
        self.env: dict[str, Any] = {
            "_fgS": modes.STATE, "_fggrad": modes.set_grad, "_fgSLOW": modes.SLOW, "_fgE": _tracked.EPOCH,
            "_fgdt": dtypes, "_fgis": operator.is_,
            "_fgmap": map, "_fgCell": types.CellType, "_fgFunction": types.FunctionType, "_fgMethod": types.MethodType,
            "_fgid": id, "_fgget": dict.get, "_fgshare": np.may_share_memory,
            "_fgowner": owner_id, "_fgapart": apart, "_fgSetattr": object.__setattr__,
            "_fgSetclass": type.__setattr__,
            "_fggetattr": getattr, "_fgsubclass": issubclass, "_fgtyped": typed, "_fgstatic": inspect.getattr_static,
            "_fgStop": object(), "__builtins__": __builtins__,
        }  # fmt: skip
        self.env |= {"_fgPartial": functools.partial, "_fgord": recording, "_fginf": inferring, "_fgmode": set_mode,
                     "_fgextra": extra_of, "_fgown": object.__getattribute__,
                     "_fgpush": handled.push, "_fgpop": handled.pop, "_fgpeek": handled.peek,
                     "_fgcopysign": math.copysign}  # fmt: skip

    def name(self, obj: Any) -> str:
        """The name under which generated code finds ``obj``."""
        got = self.names.get(id(obj))
        if got is None:
            got = self.put("_fgk", obj)
            self.names[id(obj)] = got
        return got

    def weak(self, obj: Any) -> str:
        """The same for an object that may die meanwhile: text that gives it, or None then."""
        got = self.names.get(id(obj))
        if got is None:
            name = self.put("_fgk", None)
            self.env[name] = mortal(self, obj, name)
            got = self.names[id(obj)] = f"{name}()"
        return got

    def object(self, text: str) -> Any:
        """The object that ``name`` or ``weak`` gave this text for."""
        return self.env[text[:-2]]() if text.endswith("()") else self.env[text]

    def put(self, prefix: str, obj: Any) -> str:
        """A fresh name for an object that generated code may see replaced."""
        self.count += 1
        name = f"{prefix}{self.count}"
        self.env[name] = obj
        self.fresh.append(name)
        return name

    def drop(self, name: str) -> None:
        """No entry uses this name any more."""
        named = self.env.pop(name, None)
        for obj, text in ((named, name), (named() if type(named) is weakref.ref else None, f"{name}()")):
            if self.names.get(id(obj)) == text:
                del self.names[id(obj)]
            self.modules.discard(text)

    def readable(self, text: str) -> str:
        """Generated text with constants shown by what they are."""

        def show(m: Any) -> str:
            obj = self.env.get(m[1])
            obj = obj() if m[2] and type(obj) is weakref.ref else obj
            kind = type(obj)
            if kind is types.ModuleType:
                return str(vars(obj).get("__name__", "a module"))  # it can be deleted
            if issubclass(kind, (type, types.FunctionType, types.BuiltinFunctionType)):
                return obj.__qualname__  # type: ignore[union-attr]
            text = repr(obj) if _harmless(obj) else ""
            return text if 0 < len(text) < 60 else f"<{kind.__name__}>"

        text = re.sub(r"(_fgk\d+)(\(\))?", show, text)
        for pattern, words in _WORDS:
            text = pattern.sub(words, text)
        return text


_WORDS = [(re.compile(a), b) for a, b in [
    (r"_fggetattr\((.*?), '(\w+)', _fgStop\) is _fgStop", r"not hasattr(\1, '\2')"),
    (r"len\(_fgo := \{(.*)\}\) == \d+( and -1 not in _fgo)?( and .*\.isdisjoint\(_fgo\))?", r"memory is apart: \1"),
    (r"\(_fgh\d+ := (.*?)\) is not None", r"\1"), (r"_fg(id|owner)\((.*?)\._data\)", r"\2"),
    (r"_fgget\((.*?), (.*?), _fgStop\)", r"\1[\2]"),
    (r"_fgown\((.*?), '__dict__'\)", r"\1.__dict__"),
    (r"_fgS\.grad is", "grad mode is"), (r"_fgdt\._default is", "default dtype is"), (r"_fgF\.", "the function's "),
    (r"\(not _fgSLOW\[0\].*\)|not _fgSLOW\[0\]", "no inference mode, hooks on saved tensors or anomaly mode"),
    (r"_fgtyped\(", "types and items of ("), (r"_fgarray\(", "from_numpy("), (r"_fgstatic\(", "getattr_static("),
    (r"_fgsubclass\(", "issubclass("), (r"_fgshare\(", "may_share_memory("), (r"_fgapart\(", "apart("),
    (r"_fg(map|is|copysign)\b", r"\1"),
]]  # fmt: skip


class Entry:
    """One compiled version of a unit: guards, segment, and how it ends."""

    __slots__ = (
        "program",
        "segment",
        "final",
        "source",
        "region",
        "seg_name",
        "record",
        "recompile_reason",
        "plain",
        "hits",
        "names",
    )

    def __init__(self, program: Any, segment: Any, final: bool, source: str, region: Any, plain: bool = False) -> None:
        self.program, self.segment, self.final = program, segment, final
        self.source, self.region, self.plain = source, region, plain
        self.seg_name = ""
        self.record: Any = None
        self.recompile_reason: str | None = None
        self.names: frozenset[str] = frozenset()


class FunctionCache:
    """Everything compiled for one function (or for one code object, when it is shared by closures)."""

    def __init__(self, func: Any, options: Options, dynamic: bool | None, fullgraph: bool, shared: bool) -> None:
        self.func, self.options, self.fullgraph, self.shared = func, options, fullgraph, shared
        self.code: types.CodeType = func.__code__
        self.facts = Facts(dynamic)
        self.consts = Consts()
        self.consts.cache = self
        self.retired: list[Entry] = []  # forgotten, perhaps by what runs in them: their names go with their objects
        if not shared:
            self.consts.env["_fgF"] = func
        self.consts.env["__name__"] = func.__globals__.get("__name__")  # what filters of warnings ask for
        self.units: dict[Any, Any] = {}
        self.warned = False
        self.number = next(_numbers)
        self.records: list[Any] = []
        self.called: dict[FunctionCache, None] = {}  # functions that broke the graph here and are compiled on their own

    def reached(self) -> list[FunctionCache]:
        """This one and all that its code called, in the order of their first calls."""
        found = [self]
        for cache in found:
            found += [c for c in list(cache.called) if c not in found]
        return found

    def hold(self, entry: Entry) -> None:
        """Count what an entry names."""
        entry.names = names_of(entry)
        for name in entry.names:
            self.consts.uses[name] = self.consts.uses.get(name, 0) + 1

    def release(self, entry: Entry) -> None:
        """Drop what only this entry named."""
        uses = self.consts.uses
        for name in entry.names:
            uses[name] -= 1
            if not uses[name]:
                del uses[name]
                self.consts.drop(name)

    def forget(self, name: str, running: bool = False) -> None:
        """An object died: so do the entries made for it; no new call takes them, but what they name stays while their
        code may be ``running``."""
        for u in list(self.units.values()):
            gone = [e for e in u.entries if name in e.names]
            if gone:
                u.entries[:] = [e for e in u.entries if name not in e.names]
                u.install()
            for e in gone:
                self.facts.gone += mortal_guards(e)
            self.retired += gone
        for e in [e for e in self.retired if name in e.names and not running]:
            self.retired.remove(e)
            self.release(e)

    def clear(self) -> None:
        """Forget everything compiled; dispatchers stay the same objects."""
        for u in list(self.units.values()):
            self.retired += [e for e in u.entries if mortal_guards(e)]
            u.entries.clear()
            u.disabled = False
            u.install()
        self.facts.breaks.clear()
        self.facts.changing.clear()
        self.facts.gone.clear()
        self.records.clear()
        self.called.clear()
        self.warned = False


_numbers = itertools.count(1)


def _harmless(v: Any) -> bool:
    """Whether ``repr(v)`` runs none of the user's code."""
    t = type(v)
    if t in (tuple, frozenset):
        return len(v) < 20 and all(map(_harmless, v))
    return t in (int, float, str, bool, bytes, complex, type(None), dtypes.dtype) or issubclass(
        t, (np.generic, np.dtype)
    )


def learn(entry: Entry, env: dict[str, Any], facts: Facts) -> tuple[str, list[Guard]]:
    """Why an entry did not fit these parameters; what changes becomes dynamic. (readable reason, failing guards)"""
    failing = entry.program.failing(env)[0]
    reasons = []
    for g in failing:
        now = entry.program.value(g, env)
        reasons.append(describe(entry, g, now))
        if g.kind in ("int", "float") and now is not None and type(now) is type(g.value):
            if g.kind == "int" or (math.isfinite(now) and math.isfinite(g.value)):
                facts.changing.add(g.path)
        elif g.kind == "shape" and isinstance(now, tuple) and len(now) == len(g.value):
            for k, (a, b) in enumerate(zip(g.value, now, strict=False)):
                if a != b:
                    facts.changing.add(f"{g.path}.shape[{k}]")
        elif g.kind == "layout" and isinstance(now, np.ndarray) and type(g.value) is tuple:
            if len(g.value) == now.ndim and not now.flags.c_contiguous:
                pairs = enumerate(zip(g.value, now.strides, strict=True))
                facts.changing.update(f"{g.path}.strides[{k}]" for k, (a, b) in pairs if a != b)
        elif g.kind == "layout" and type(now) is int and type(g.value) is int:
            facts.changing.add(g.path)
        elif g.kind == "length":
            facts.changing.add(f"len({g.path})")
        elif g.kind in ("keys", "set"):
            facts.changing.add(f"keys({g.path})")
        elif g.kind == "value" and type(now) is range and type(g.value) is range:
            facts.changing.add(g.path)
        elif g.kind == "value" and type(now) is type(g.value) and type(now) in _CONSTANTS:
            facts.texts[g.path] = facts.texts.get(g.path, 0) + 1
            if facts.texts[g.path] > 3:  # not one of a few modes: only its type is guarded from now on
                facts.changing.add(g.path)
        elif g.kind == "value" and isinstance(now, np.generic) and isinstance(g.value, np.generic):
            facts.texts[g.path] = facts.texts.get(g.path, 0) + 1
            if facts.texts[g.path] > 2:
                facts.changing.add(g.path)
        elif g.kind == "dim":
            facts.changing.add(g.path)
        elif g.kind == "identity" and same_place(now, g.known()):
            facts.generic.add(g.path)
        elif g.kind == "type" and same_place(type(now), g.value):
            facts.generic.add(f"type({g.path})")
        elif g.kind == "module" and isinstance(now, Tensor):
            facts.texts[g.path] = facts.texts.get(g.path, 0) + 1
            if facts.texts[g.path] > (type(now) is not Tensor):  # another tensor each time: looked at as any other
                facts.changing.add(f"tensor {g.path}")
        elif g.kind == "module" and isinstance(now, Module):
            facts.texts[g.path] = facts.texts.get(g.path, 0) + 1
            if same_place(type(now), type(g.known())):
                facts.generic |= {g.path, f"type({g.path})"}
            elif facts.texts[g.path] > 1:  # another module each time: its type and parts are guarded from now on
                facts.generic.add(g.path)
    return "; ".join(reasons) or "unknown", failing


_CONSTANTS = tuple(t for t in CHANGING_TYPES if t is not range)


def break_at_numbers(entry: Entry, failing: list[Guard], facts: Facts) -> None:
    """Calls that needed the value of a number, which is another one now, break the graph from now on."""
    for g in failing:
        if type(g.place) is list:  # the number was fixed by its texts alone: they are computed from now on
            facts.changing.update(g.place)
            continue
        if g.place is None or g.place in facts.breaks:
            continue
        facts.fixed[g.place] = facts.fixed.get(g.place, 0) + 1
        few = "%" in g.text or "//" in g.text  # remainders and numbers of pieces: perhaps one of a few
        if facts.fixed[g.place] > 3 * few:
            text = TOKEN.sub(lambda m: entry.program.sources[int(m[1])].name, g.text)
            if g.kind == "identity":
                facts.breaks[g.place] = (CALL, OTHER_ID)
                continue
            facts.breaks[g.place] = (NUMBER, f"another number at each call (it was compiled for {text})")


def describe(entry: Entry, g: Guard, now: Any) -> str:
    """One failing guard in words."""
    text = TOKEN.sub(lambda m: entry.program.sources[int(m[1])].name, g.text)
    text = entry.program.consts.readable(text)
    shown = ""
    if g.kind == "length" and type(now) in (list, tuple, dict):
        shown = f" (now of length {len(now)})"
    elif g.kind in ("int", "float", "value", "shape", "dim") and now is not None and _harmless(now):
        shown = f" (now {repr(now)[:60]})"
    return f"{text}{shown}"
