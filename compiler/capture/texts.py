"""Texts of numbers that change between calls: ``f"step {n}"``.

At first the number is fixed by its text. When it was another one at a later call, the text becomes an expression that
the segment computes: a placeholder that can be kept, handed on and joined; what looks into it breaks the graph, as for
other texts that change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.sizes import SymInt

from .changing import TOKEN
from .source import Source
from .values import ObjRef, SymFloat, class_of

_PLAIN = (int, float, str, bool, type(None))
_CONVERSIONS = ("{}", "str({})", "repr({})", "ascii({})")


def field(ev: Any, v: Any, conversion: int, spec: str) -> Any:
    """Text of one number that changes, as a field of an f-string: conversions as in CPython's ``FORMAT_VALUE``."""
    inner = _CONVERSIONS[conversion]
    given = repr(spec).replace("{", "{{").replace("}", "}}")
    form = inner if conversion and not spec else f"format({inner}, {given})"
    return made(ev, form, [v], lambda n: _field(n, conversion, spec))


def of_text(ev: Any, v: ObjRef, conversion: int, spec: str) -> Any:
    """A text that changes, as a field of an f-string."""
    if conversion < 2 and not spec:
        return v
    form = _CONVERSIONS[conversion].format(f"({v.source.text})")
    return _placeholder(ev, f"format({form}, {spec!r})", ev.real(_field, v.obj, conversion, spec))


def _field(n: Any, conversion: int, spec: str) -> str:
    return format((lambda x: x, str, repr, ascii)[conversion](n), spec)


def formatted(ev: Any, args: list[Any], form: str, make: Callable[..., str]) -> Any:
    """``text % args`` or ``text.format(*args)`` with numbers that change among plain ones; None: something else."""
    changing = any(type(v) in (SymInt, SymFloat) for v in args)
    if not changing or any(type(v) not in (SymInt, SymFloat, *_PLAIN) for v in args):
        return None
    return made(ev, form, args, make)


def made(ev: Any, form: str, args: list[Any], make: Callable[..., str]) -> Any:
    """The text that ``make`` makes of numbers. ``form``: the same as Python text, with ``{}`` for each of them."""
    cap, frame = ev.cap, ev.frames[-1]
    code = frame.program.code
    place = f"text at {code.co_filename}:{code.co_firstlineno} {code.co_qualname} {frame.ip}"
    if place not in cap.facts.changing:
        before = cap.number_place
        cap.text_places.append(place)
        cap.number_place = cap.text_places if before is None else before
        try:
            return ev.real(make, *map(_fixed, args))
        finally:
            cap.number_place = before
    hint = ev.real(make, *map(_hint, args))
    return _placeholder(ev, form.format(*(_code(cap, v) for v in args)), hint)


def joined(ev: Any, parts: list[Any]) -> Any:
    """An f-string's parts as one text; None if they are no texts."""
    if not any(map(is_text, parts)) or not all(type(v) is str or is_text(v) for v in parts):
        return None
    text = ", ".join(repr(v) if type(v) is str else f"({v.source.text})" for v in parts)
    return _placeholder(ev, f"''.join(({text},))", "".join(v if type(v) is str else v.obj for v in parts))


def is_text(v: Any) -> bool:
    """Whether a value is the placeholder of a text that changes."""
    return type(v) is ObjRef and class_of(v) is str


def _placeholder(ev: Any, text: str, hint: str) -> ObjRef:
    cap = ev.cap
    text = TOKEN.sub(lambda m: f"({cap.sources[int(m[1])].text})", text)
    ref = ObjRef(hint, Source("call", None, text.replace("{", "{{").replace("}", "}}"), "a text of numbers"))
    cap.refs.append(ref)
    cap.origin[id(ref)] = ref.source
    return ref


def _fixed(v: Any) -> Any:
    return int(v) if type(v) is SymInt else v.ctx.fix_float(v) if type(v) is SymFloat else v


def _hint(v: Any) -> Any:
    return v.hint if type(v) in (SymInt, SymFloat) else v


def _code(cap: Any, v: Any) -> str:
    return v.code if type(v) is SymFloat else cap.size_code(v) if type(v) is SymInt else cap.literal(v)
