"""Objects that are read through others: read-only views of dicts, dicts with weak keys or values, signatures."""

from __future__ import annotations

import inspect
import types
import weakref
from typing import Any

from . import breaks
from .acting import refuse_key
from .breaks import Break
from .calls import SPECIAL
from .values import NULL, DictRef, Foreign, ObjRef, behind, is_a, is_foreign

# ---- mappingproxy


def proxied(ev: Any, v: ObjRef) -> DictRef | None:
    """The dict that a read-only view from before shows; None where it shows another mapping."""
    mapping = behind(v.obj)
    if type(mapping) is not dict:
        return None
    ev.cap.consts.env["_fgbehind"] = behind
    return ev.cap.realize(mapping, v.source.call("_fgbehind({})", v.source.name))


# ---- dicts with weak keys or values

_WEAK = (weakref.WeakKeyDictionary, weakref.WeakValueDictionary)


def _weak_item(ev: Any, ref: Any, key: Any) -> Any:
    """What a dict with weak keys or values from before holds under a key, NULL if nothing."""
    if type(ref) is not ObjRef or type(ref.obj) not in _WEAK:
        raise Break(breaks.CALL, "item of a dict with weak items", clean=True)
    refuse_key(key)
    inp = ev.cap.input_of.get(id(key))
    if inp is not None:
        real, code = inp.real, inp.source
    elif issubclass(type(key), Foreign):
        real, code = key.obj, key.source
    elif type(key) in (str, int, bool, type(None)):
        real = code = key
    else:
        raise Break(breaks.CALL, "item of a dict with weak items", clean=True)
    found = ev.real(ref.obj.get, real, NULL)
    if found is NULL:
        text = repr(code) if code is real else ev.cap.tok(code)
        ev.cap.guard(f"{text} not in {ev.cap.tok(ref.source)}", "absent", ref.source.path(), key)
        return NULL
    return ev.cap.realize(found, ref.source.item(code))


def _weak_getitem(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    found = _weak_item(ev, *args)
    if found is NULL:
        raise Break(breaks.CALL, "a key that a dict with weak items does not have", clean=True)
    return found


def _weak_contains(ev: Any, fn: Any, args: list, kwargs: dict) -> bool:
    return _weak_item(ev, *args) is not NULL


def _weak_get(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    found = _weak_item(ev, *args[:2])
    if found is not NULL:
        return found
    return args[2] if len(args) > 2 else kwargs.get("default")


for _c in _WEAK:
    SPECIAL[_c.__getitem__], SPECIAL[_c.__contains__], SPECIAL[_c.get] = _weak_getitem, _weak_contains, _weak_get


# ---- signatures


def _signature(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``inspect.signature(f)`` of a Python function or method: what it is made from is guarded."""
    of: Any = args[0] if len(args) == 1 and not kwargs else None
    f: Any = of.__func__ if is_a(of, types.MethodType) else of
    if not is_a(f, types.FunctionType) or {"__wrapped__", "__signature__"} & set(f.__dict__):
        raise Break(breaks.CALL, "inspect.signature of this object", clean=True)
    if id(f) not in ev.new_functions:
        cap = ev.cap
        tok, name = cap.tok(cap.origin.get(id(f)) or cap.const(f)), cap.consts.name
        for part in ("__code__", "__defaults__", "__kwdefaults__"):
            cap.guard(f"{tok}.{part} is {name(getattr(f, part))}", "code", f.__qualname__)
        for part in ("__wrapped__", "__signature__"):
            cap.guard(f"{part!r} not in {tok}.__dict__", "absent", f.__qualname__)
    out = ev.real(inspect.signature, f)
    if of is not f:
        first = next(iter(out.parameters.values()), None)
        if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
            raise Break(breaks.CALL, "inspect.signature of this method", clean=True)
        out = out.replace(parameters=list(out.parameters.values())[1:])
    return ev.note_new(out)


def _of_parameter(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """A part of a signature: names and kinds; defaults and annotations that can't change."""
    if is_foreign(args[0]):
        raise Break(breaks.CALL, f"call of inspect.{fn.__qualname__}", clean=True)
    value = ev.real(fn, *args)
    if fn.__name__ in ("default", "annotation", "return_annotation") and not is_a(value, _FIXED):
        raise Break(breaks.OBJECT, f"{fn.__name__} of a parameter", clean=True)
    return value


_FIXED = (int, float, str, type(None), type, types.FunctionType)
SPECIAL[inspect.signature] = _signature
for _c2, _names in ((inspect.Signature, ("parameters", "return_annotation")),
                    (inspect.Parameter, ("name", "default", "annotation", "kind"))):  # fmt: skip
    for _n in _names:
        SPECIAL[vars(_c2)[_n].fget] = _of_parameter
