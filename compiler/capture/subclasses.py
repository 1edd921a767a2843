"""Numbers and texts of subclasses of int, float and str: C code reads them as what they are made from."""

from __future__ import annotations

import enum
from typing import Any

from .acting import has_methods
from .values import ObjRef, names_of

# class -> what gives the plain value, past all methods of a subclass
_PLAIN: dict[type, Any] = {int: int.__pos__, float: float.__pos__, str: str.__str__}
_FORMS = {int: "_fgint", float: "_fgfloat", str: "_fgstr"}


def _base(cls: type) -> type | None:
    """What a class is made from, if nothing but its name and attributes is its own; else None."""
    base = next((b for b in _PLAIN if issubclass(cls, b)), None)
    if base is None or cls is base or issubclass(cls, (bool, enum.Enum)) or not cls.__flags__ & (1 << 9):
        return None
    return None if has_methods(cls, None) or "__getattribute__" in own_names(cls) else base


def own_names(cls: type) -> set[str]:
    """Names that the Python classes among a class and its bases have."""
    return {n for c in cls.__mro__ if c.__flags__ & (1 << 9) for n in names_of(c)}


def is_still_plain(cls: type, base: type) -> bool:
    """For guards: nobody gave the class special methods."""
    return _base(cls) is base


def plain_value(cap: Any, v: Any) -> Any:
    """The number or text that an object of a subclass is, guarded; other values as they are."""
    if type(v) is not ObjRef:
        return v
    base = _base(type(v.obj))
    if base is None:
        return v
    name, env = _FORMS[base], cap.consts.env
    env[name], env["_fgstill"] = _PLAIN[base], is_still_plain
    cls = cap.tok(cap.class_source(type(v.obj)))
    cap.guard(f"_fgstill({cls}, {cap.consts.name(base)})", "class", type(v.obj).__name__)
    return cap.realize(_PLAIN[base](v.obj), v.source.call(name + "({})", f"{base.__name__}({v.source.name})"))
