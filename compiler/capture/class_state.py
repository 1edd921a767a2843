"""Classes that existed before: attributes that captured code sets on them, and what their metaclasses say."""

from __future__ import annotations

import enum
import threading
import types
from typing import Any

from . import breaks
from .breaks import Break
from .source import Source
from .state import is_fixed_class
from .values import NULL, DictRef, ObjRef, behind, class_of, is_a, mro_of, names_of


def written(cap: Any, cls: type, name: str) -> Any:
    """What captured code stored under a name of a class or of its bases, where that hides the class's own; or NULL."""
    for c in cls.__mro__:
        ref = cap.class_refs.get(id(c))
        if ref is not None and name in ref.slots:
            return ref.slots[name]
        if name in names_of(c):
            return NULL
    return NULL


def hooked(cls: type, name: str) -> bool:
    """Whether ``name`` (``__getattr__``, ``__getattribute__``) of a class is code of the user."""
    return any(name in names_of(c) for c in cls.__mro__ if c.__flags__ & (1 << 9) and not is_fixed_class(c))


def own_attr(cap: Any, ref: DictRef, name: str, code: Any) -> Source:
    """Where an attribute that an object has of its own is read.

    As ``obj.name``, which sees also what its class comes to have. But a guard must not compute a ``cached_property`` or
    call a ``__getattr__`` of the user where another object has no such attribute yet: it looks for the name first.
    """
    cls = type(ref.owner.obj)
    at = next((names_of(c)[name] for c in cls.__mro__ if name in names_of(c)), NULL)
    if hasattr(type(at), "__set__") or hasattr(type(at), "__delete__"):  # read from the dict itself
        return ref.source.item(code)
    if hooked(cls, "__getattribute__"):
        cap.class_guard(cls, name, at)
        return ref.source.item(code)
    source = ref.owner.source.attr(name)
    if hooked(cls, "__getattr__") or (hasattr(type(at), "__get__") and not is_a(at, _BOUND)):
        fixing, cap.fixing = cap.fixing, False  # looked at before all that reads the attribute
        cap.guard(f"{name!r} in {cap.tok(ref.source)}", "present", ref.source.path(), source)
        cap.fixing = fixing
    return source


_BOUND = (types.FunctionType, classmethod, staticmethod)  # read from a class they become methods, without user's code


def own_attributes(obj: Any) -> dict:
    """The ``__dict__`` of an instance, past the user's ``__getattribute__``.

    Raises:
        Break: its class has a ``__dict__`` of its own.
    """
    cls = type(obj)
    if issubclass(cls, threading.local):
        return obj.__dict__
    if not is_plain_dict(next((names_of(c)["__dict__"] for c in mro_of(cls) if "__dict__" in names_of(c)), None)):
        raise Break(breaks.OBJECT, f"{cls.__name__} says itself what its __dict__ is")
    return object.__getattribute__(obj, "__dict__")


def is_plain_dict(at: Any) -> bool:
    """Whether what a class has as ``__dict__`` gives the dict of an instance: Python's own descriptor, none, or a field
    of a class written in C (``SimpleNamespace``)."""
    if is_a(at, types.MemberDescriptorType):
        return at.__name__ == "__dict__" and is_fixed_class(at.__objclass__)
    return at is NULL or is_a(at, (types.GetSetDescriptorType, types.NoneType))


_IMMUTABLE = 1 << 8


def own_dict(ref: ObjRef) -> tuple[dict, Source]:
    """The ``__dict__`` of an instance and where it is read, past a ``__getattribute__`` of its class."""
    raw = hooked(type(ref.obj), "__getattribute__")
    source = ref.source.call("_fgown({}, '__dict__')", f"{ref.source.name}.__dict__") if raw else None
    return own_attributes(ref.obj), source or ref.source.attr("__dict__")


def set_attr(ev: Any, cls: type, name: str, value: Any) -> None:
    """``cls.name = value``; on a class from before an effect."""
    meta = type(cls)
    owner, hook = ev.find(meta, "__setattr__")
    if owner is not type and not issubclass(meta, enum.EnumMeta) and is_a(hook, types.FunctionType):
        ev.cap.class_guard(meta, "__setattr__", hook)
        ev.call(hook, [cls, name, value], {})
        return
    set_plain(ev, cls, name, value)


def set_plain(ev: Any, cls: type, name: str, value: Any) -> None:
    """``type.__setattr__``."""
    cap, meta = ev.cap, type(cls)
    owner, attr = ev.find(meta, name)
    if is_a(attr, property) and not is_fixed_class(owner):
        cap.class_guard(meta, name, attr)
        if attr.fset is None:
            ev.real(attr.__set__, cls, None)  # its error
        ev.call(attr.fset, [cls, value], {})
        return
    if id(cls) in cap.new_classes and not issubclass(type(value), ObjRef):
        ev.real(type.__setattr__, cls, name, value)
        return
    before = ev.find(cls, name)[1]
    odd = attr is not NULL and hasattr(type(attr), "__set__")
    kind = class_of(value)
    if (
        odd or issubclass(meta, enum.EnumMeta) or is_fixed_class(cls) or id(cls) in cap.new_classes
        or cls.__flags__ & _IMMUTABLE or name.startswith("__") or hasattr(kind, "__get__") or hasattr(kind, "__set__")
        or hasattr(type(before), "__get__") or id(behind(names_of(cls))) in cap.by_id
    ):  # fmt: skip
        raise Break(breaks.OBJECT, f"attribute {name!r} of {cls.__name__} is set", clean=True)
    cap.class_guard(meta, name, NULL if attr is NULL else attr)
    ref = cap.class_refs.get(id(cls))
    if ref is None:
        ref = cap.class_refs[id(cls)] = ObjRef(cls, cap.class_source(cls))
        cap.refs.append(ref)
    ref.slots.pop(name, None)  # in the order of the last writes
    ref.slots[name] = value


def of_metaclass(ev: Any, cls: type, name: str, attr: Any) -> Any:
    """An attribute that the (user's) metaclass of a class gives; NULL for what this does not know."""
    meta = type(cls)
    if not is_a(attr, property):
        for c in cls.__mro__:  # what the class itself has goes first
            if not is_fixed_class(c):
                ev.cap.guard(f"{name!r} not in {ev.cap.consts.name(c)}.__dict__", "class", f"{c.__name__}.{name}")
    if is_a(attr, types.FunctionType):
        ev.cap.class_guard(meta, name, attr)
        return types.MethodType(attr, cls)
    if is_a(attr, property) and is_a(attr.fget, types.FunctionType):
        ev.cap.class_guard(meta, name, attr)
        return ev.call(attr.fget, [cls], {})
    if is_a(attr, classmethod):
        ev.cap.class_guard(meta, name, attr)
        return types.MethodType(attr.__func__, meta)
    if is_a(attr, staticmethod):
        ev.cap.class_guard(meta, name, attr)
        return attr.__func__
    if hasattr(type(attr), "__get__"):
        return NULL
    now = written(ev.cap, meta, name)
    return now if now is not NULL else ev.cap.realize(attr, ev.cap.const(meta).attr(name))


def instantiate(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    """``cls(...)`` where the metaclass has a ``__call__`` of its own."""
    call = ev.find(type(cls), "__call__")[1]
    if call is dict:  # of a TypedDict
        return ev.call(dict, args, kwargs)
    if not is_a(call, types.FunctionType):
        raise Break(breaks.OBJECT, f"metaclass {type(cls).__name__}", clean=True)
    ev.cap.class_guard(type(cls), "__call__", call)
    return ev.call(call, [cls, *args], kwargs)
