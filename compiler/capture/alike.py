"""Classes that are made anew at every call: guarded by their structure instead of their identity.

A ``class`` statement that runs for real between two graphs gives another class object each time. Once a guard on its
identity failed for that reason, the class is described (``shape_of``): name, bases, and of everything in it what
capture relies on. What a description leaves out (closures, values that are not constants) is read through the class,
and so guarded and loaded anew like anything else that existed before.
"""

from __future__ import annotations

import abc
import sys
import types
from typing import Any

from . import breaks
from .breaks import Break
from .source import Source
from .values import module_of, names_of

_PLAIN = (int, float, str, bool, bytes, type(None), complex)


def is_local(cls: type) -> bool:
    """Whether a class was made by a function, which may make it again: its module does not know it by its name."""
    if not cls.__flags__ & (1 << 9):
        return False
    found: Any = sys.modules.get(module_of(cls))
    for name in cls.__qualname__.split("."):
        found = vars(found).get(name) if isinstance(found, (type, types.ModuleType)) else None
    return found is not cls


def same_place(a: Any, b: Any) -> bool:
    """Whether two classes come, as far as their names tell, from one ``class`` statement."""
    return (
        isinstance(a, type) and isinstance(b, type) and a is not b and is_local(a) and _names(a) == _names(b)
        and type(a) in (type, abc.ABCMeta)
    )  # fmt: skip


def _names(cls: type) -> tuple[str, str]:
    return module_of(cls), cls.__qualname__


def shape_of(cls: type) -> tuple:
    """A description of a class that is equal for classes made by the same code."""
    bases = tuple(shape_of(b) if is_local(b) else b for b in cls.__bases__)
    return (*_names(cls), type(cls), bases, tuple((k, _part(v)) for k, v in names_of(cls).items()))


def _part(v: Any) -> Any:
    t = type(v)
    if t is types.FunctionType:
        kw = v.__kwdefaults__
        return (
            t, v.__code__, _scope(v.__globals__), v.__name__, len(v.__closure__ or ()), _part(v.__defaults__),
            kw and tuple((k, _part(x)) for k, x in kw.items()), tuple(v.__dict__),
        )  # fmt: skip
    if t in (staticmethod, classmethod):
        return t, _part(v.__func__)
    if t is property:
        return t, _part(v.fget), _part(v.fset), _part(v.fdel)
    if t is tuple:
        return t, tuple(map(_part, v))
    return (t, v) if t in _PLAIN else t


def _scope(names: dict) -> Any:
    """The globals of a function; those of a namedtuple's constructor are its own."""
    name = names.get("__name__")
    return name if type(name) is str and name.startswith("namedtuple_") else id(names)


def alike(cls: Any, shape: tuple) -> bool:
    """The guard: whether a class has this description."""
    return isinstance(cls, type) and shape_of(cls) == shape


def realize(cap: Any, cls: type, source: Source, guarded: bool = False) -> type:
    """A class from before, by its structure. ``guarded``: as a base of one that is known, it was looked at already."""
    cap.alike[id(cls)] = source
    cap.remember(cls, cls, source)
    if not guarded:
        text = f"{cap.consts.name(alike)}({cap.tok(source)}, {cap.consts.name(shape_of(cls))})"
        cap.guard(text, "class", source.path(), cls)
    for k, base in enumerate(cls.__bases__):
        if is_local(base):
            src = source.attr("__bases__").item(k)
            known = cap.by_id.get(id(base))
            realize(cap, base, src, True) if known is None else cap._again(known, src)
    for name, v in names_of(cls).items():
        for fn, src in _functions(v, name, source):
            cap.by_id.setdefault(id(fn), fn)
            cap.origin.setdefault(id(fn), src)
            cap.keep.append(fn)
    return cls


DESCRIBED = (types.FunctionType, property, staticmethod, classmethod)


def _functions(v: Any, name: str, source: Source) -> list[tuple[Any, Source]]:
    if type(v) is property:
        held = source.attr("__dict__").item(name)
        found = [(v, held), *((getattr(v, n), held.attr(n)) for n in ("fget", "fset", "fdel"))]
    elif type(v) in (staticmethod, classmethod):
        held = source.attr("__dict__").item(name)
        found = [(v, held), (v.__func__, held.attr("__func__"))]
    else:
        found = [(v, source.attr(name))]
    return [(f, s) for f, s in found if type(f) in DESCRIBED]


def described(ev: Any, cls: type, name: str, attr: Any) -> None:
    """A break for what a class that is made at every call holds, where its description leaves out what it does: a
    ``cached_property``, a ``partialmethod``."""
    t, known = type(attr), ev.cap.alike
    if not known or t in DESCRIBED or not hasattr(t, "__get__") or issubclass(t, type):
        return
    owner = next((c for c in cls.__mro__ if name in c.__dict__), None)
    if id(owner) in known and not ev.users_descriptor(attr, "__get__"):
        raise Break(breaks.OBJECT, f"{t.__name__} {cls.__name__}.{name} of a class that is made anew", clean=True)


def class_guard(cap: Any, cls: type, name: str, attr: Any) -> None:
    """`Capture.class_guard` for such a class, and for one that the capture itself makes: what is known of it covers it
    and its local bases, but not the others.
    """
    owner = absent(cap, cls, name)
    if owner is not None and id(owner) not in cap.alike and id(owner) not in cap.new_classes:
        cap.class_guard(owner, name, attr)


def absent(cap: Any, cls: type, name: str) -> type | None:
    """Guard that the bases which are not described have nothing under a name, up to the first class that has; that."""
    for c in cls.__mro__:
        if name in names_of(c):
            return c
        if id(c) not in cap.alike and id(c) not in cap.new_classes and c.__flags__ & (1 << 9):
            cap.guard(f"{name!r} not in {cap.consts.name(c)}.__dict__", "class", f"{c.__name__}.{name}")
    return None
