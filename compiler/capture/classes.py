"""Classes that captured code makes: ``class`` statements inside of functions.

The body is evaluated like a function whose names live in a dict; then the class is made. It is an object of the capture
(``ev.new_classes``): nothing of it is guarded. Where it, or an object of it, outlives the captured code, the ``class``
statement runs for real instead.
"""

from __future__ import annotations

import abc
import builtins
import dataclasses
import types
from typing import Any

from fusegrad.sizes import SymInt

from . import breaks
from .breaks import Break, Raised
from .builtin_calls import builtin
from .calls import SPECIAL
from .class_state import set_plain
from .decode import CLASSDEREF_FROM_STACK, Instr
from .evaluator import Evaluator, Frame, handles
from .instr_basic import local, read_cell
from .objects import mro_lookup
from .state import fixed_module
from .values import NULL, SymFloat, fixed_key, is_a, is_foreign, module_of, names_of

_METAS = (type, abc.ABCMeta)


@handles("LOAD_BUILD_CLASS")
def _load_build_class(ev: Evaluator, f: Frame, ins: Instr) -> None:
    c = ev.cap.consts
    build = builtins.__build_class__
    ev.cap.guard(f"{c.name(builtins)}.__build_class__ is {c.name(build)}", "builtin", "__build_class__")
    f.stack.append(build)


@builtin(builtins.__build_class__)
def _build_class(ev: Any, args: list, kwargs: dict) -> Any:
    body, name, bases = args[0], args[1], tuple(args[2:])
    simple = all(is_a(b, type) and type(b) in _METAS and not _hooked(b) for b in bases)
    if kwargs or not simple or not is_a(body, types.FunctionType) or id(body) not in ev.new_functions:
        raise Break(breaks.CALL, f"class {name} is made", clean=True)
    names: dict[str, Any] = {}
    frame = ev.make_frame(body, len(ev.frames))
    frame.names = names
    ev.calls += 1
    ev.run_frame(frame)
    if any(is_a(mro_lookup(type(v), "__set_name__")[1], types.FunctionType) for v in names.values() if _users(v)):
        raise Break(breaks.CALL, f"class {name} with attributes that ask for their names", clean=False)
    meta = abc.ABCMeta if any(type(b) is abc.ABCMeta for b in bases) else type
    cls = ev.real(meta, name, bases, names)
    return note_class(ev, cls)


def _users(v: Any) -> bool:
    return not fixed_module(module_of(type(v)))


def _hooked(base: type) -> bool:
    """Whether a class looks at its subclasses when they are made."""
    return mro_lookup(base, "__init_subclass__")[0] is not object


def note_class(ev: Any, cls: type) -> type:
    """A class is made: if it outlives the captured code, it is made for real instead."""
    if ev.outer is not None:
        ev.made[id(cls)] = ev.outer
    ev.cap.keep.append(cls)
    ev.cap.new_classes.add(id(cls))
    ev.cap.bases_guard(cls)
    for v in names_of(cls).values():
        if is_a(v, types.FunctionType):
            ev.new_functions.add(id(v))
    return cls


def _process_class(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """`dataclasses.dataclass` on a class that was made here; other classes are changed for real."""
    cls = args[0]
    given = dict(zip(fn.__code__.co_varnames, args, strict=False)) | kwargs
    if id(cls) not in ev.cap.new_classes or given.get("slots"):  # those make another class
        raise Break(breaks.CALL, "call of dataclasses.dataclass", clean=True)
    return note_class(ev, ev.real(fn, *args, **kwargs))


def _field(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    if any(is_foreign(v) for v in kwargs.values()):
        raise Break(breaks.CALL, "call of dataclasses.field", clean=True)
    return ev.note_new(ev.real(fn, *args, **kwargs))


SPECIAL[dataclasses.field] = _field
SPECIAL[dataclasses._process_class] = _process_class  # type: ignore[attr-defined]


@builtin(type.__setattr__)
def _type_setattr(ev: Any, args: list, kwargs: dict) -> None:
    set_plain(ev, *args)


@builtin(type.__call__)
def _type_call(ev: Any, args: list, kwargs: dict) -> Any:
    """``super().__call__(...)`` in a metaclass."""
    if args[0] is type or not is_a(args[0], type):
        raise Break(breaks.CALL, "call of type.__call__", clean=True)
    return ev.make_instance(args[0], list(args[1:]), kwargs)


# ---- instructions of class bodies


def _names(f: Frame) -> dict[str, Any]:
    if f.names is None:
        raise Break(breaks.INSTRUCTION, "names of a frame without a dict of its own", clean=True)
    return f.names


@handles("LOAD_NAME")
def _load_name(ev: Evaluator, f: Frame, ins: Instr) -> None:
    names = _names(f)
    f.stack.append(names[ins.arg] if ins.arg in names else ev.load_global(f, ins.arg))


@handles("STORE_NAME")
def _store_name(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.stack.pop()
    _names(f)[ins.arg] = fixed_key(v) if type(v) in (tuple, SymInt, SymFloat) else v


@handles("DELETE_NAME")
def _delete_name(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if ins.arg not in _names(f):
        raise Raised(NameError(f"name '{ins.arg}' is not defined", name=ins.arg))
    del _names(f)[ins.arg]


@handles("LOAD_LOCALS")
def _load_locals(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(_names(f))


@handles("LOAD_FROM_DICT_OR_GLOBALS")
def _dict_or_global(ev: Evaluator, f: Frame, ins: Instr) -> None:
    names = f.stack.pop()
    f.stack.append(names[ins.arg] if ins.arg in names else ev.load_global(f, ins.arg))


@handles("LOAD_CLASSDEREF")
def _class_deref(ev: Evaluator, f: Frame, ins: Instr) -> None:
    names = f.stack.pop() if CLASSDEREF_FROM_STACK else _names(f)
    name = f.program.slots[ins.arg]
    value = names.get(name, NULL) if type(names) is dict else NULL
    f.stack.append(read_cell(ev, local(ev, f, ins.arg), name) if value is NULL else value)


@handles("SETUP_ANNOTATIONS")
def _annotations(ev: Evaluator, f: Frame, ins: Instr) -> None:
    _names(f).setdefault("__annotations__", {})
