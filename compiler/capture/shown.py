"""Values as texts show them: containers of their own kind, numbers that change by their values."""

from __future__ import annotations

import collections
import functools
import gc
import types
from typing import Any

from fusegrad.dtypes import dtype
from fusegrad.sizes import SymInt
from fusegrad.tensor import Size, Tensor

from . import breaks
from .breaks import Break
from .values import NULL, DictRef, ListRef, SetRef, SymFloat, class_of, factory_of, is_a, is_foreign

_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType,
                            functools.partial, types.SimpleNamespace)  # fmt: skip
shown = {list, tuple, dict, set, frozenset, Size, ListRef, DictRef, SetRef, collections.deque, collections.OrderedDict,
         collections.defaultdict, slice, *_VIEWS}  # fmt: skip
_DEEP = 40


def placed(ev: Any, run: Any, *args: Any) -> Any:
    """Run what needs the values of numbers; the instruction that is evaluated breaks the graph where they change."""
    cap, before = ev.cap, ev.cap.number_place
    cap.number_place = ev.outer if before is None else before
    try:
        return run(*args)
    finally:
        cap.number_place = before


def concrete(ev: Any, v: Any, depth: int = 0) -> Any:
    """A value with symbolic numbers replaced by their values, for texts; a break for tensors and objects."""
    t, kind = type(v), class_of(v)
    if depth > _DEEP:
        raise Break(breaks.OBJECT, f"text of a {kind.__name__} in itself", clean=True)
    if t in (ListRef, DictRef, SetRef):
        return _of_ref(ev, v, depth)
    if t in (list, tuple, set, frozenset, Size):
        return t(concrete(ev, x, depth + 1) for x in v)
    if t is collections.deque:
        return t((concrete(ev, x, depth + 1) for x in v), v.maxlen)
    if t in (dict, collections.OrderedDict, collections.defaultdict):
        items = {k: concrete(ev, x, depth + 1) for k, x in v.items()}
        return items if t is dict else _of_kind(t, factory_of(v), items)
    if t is slice:
        return slice(*(concrete(ev, x, depth + 1) for x in (v.start, v.stop, v.step)))
    if is_a(v, SymInt):
        return int(v)
    if t is SymFloat:
        return v.fixed()
    if issubclass(t, Tensor):
        raise Break(breaks.VALUE, "text of a tensor", clean=True)
    if t in _VIEWS:
        if any(map(_odd, gc.get_referents(v))):
            raise Break(breaks.OBJECT, f"text of a {t.__name__} of values that change", clean=True)
        return v
    users = t.__flags__ & (1 << 9) and not is_a(v, (type, BaseException, dtype))
    if is_foreign(v) or users or (is_a(v, BaseException) and ev.user_method(v, "__str__") is not NULL):
        raise Break(breaks.OBJECT, f"text of a {kind.__name__}", clean=True)
    return v


def escaped(text: Any) -> str:
    """What ``ascii`` makes of a ``repr``."""
    if type(text) is not str:
        raise Break(breaks.OBJECT, "ascii of a text that changes")
    return text.encode("ascii", "backslashreplace").decode()


def _of_ref(ev: Any, ref: Any, depth: int) -> Any:
    """A container from before with what is in it now."""
    kind = type(ref.obj)
    items = concrete(ev, ev.ordered(ref), depth + 1)
    if kind in (list, dict, set, collections.deque) or kind.__repr__ in (list.__repr__, dict.__repr__):
        return items
    if kind not in (collections.OrderedDict, collections.defaultdict):
        raise Break(breaks.OBJECT, f"text of a {kind.__name__}", clean=True)
    return in_kind(ev, ref, items)


def in_kind(ev: Any, ref: DictRef, items: dict) -> Any:
    """A dict of the kind that a placeholder stands for, with these items."""
    kind, factory = type(ref.obj), factory_of(ref.obj)
    if kind is collections.defaultdict:
        cap = ev.cap
        cap.guard(f"{cap.tok(ref.source)}.default_factory is {cap.consts.name(factory)}", "identity", ref.source.path())
    return _of_kind(kind, factory, items)


def refuse_kinds(ev: Any, *values: Any) -> None:
    """A break where a container of the user's own kind is among values that the library takes apart by their kind."""
    for v in values:
        t = type(v)
        if t in (ListRef, DictRef) and type(v.obj) not in _TAKEN_APART:
            raise Break(breaks.OBJECT, f"a {class_of(v).__name__} is passed to library code", clean=True)
        if t in (list, tuple, dict, ListRef, DictRef, collections.OrderedDict, collections.defaultdict):
            items = ev.content(v)
            refuse_kinds(ev, *(items.values() if is_a(items, dict) else items))


_TAKEN_APART = (list, dict, collections.deque, collections.OrderedDict, collections.defaultdict)


def _of_kind(kind: type, factory: Any, items: dict) -> Any:
    return collections.defaultdict(factory, items) if kind is collections.defaultdict else kind(items)


def _odd(v: Any, depth: int = 4) -> bool:
    """Whether something in a value has no text of its own in captured code."""
    t = type(v)
    if t in (list, tuple, dict, set) and depth:
        return any(_odd(x, depth - 1) for x in ((*v, *v.values()) if t is dict else v))
    return t in (SymInt, SymFloat) or issubclass(t, Tensor) or is_foreign(v)
