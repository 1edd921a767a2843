"""Builtins that go through an iterable and may stop before its end: what is left in an iterator is as in Python."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

from fusegrad.sizes import SymInt, sym_max, sym_min

from . import breaks
from .breaks import Break, Raised
from .builtin_calls import builtin
from .values import NULL, DictRef, ListRef, SetRef, class_of, is_a

_SETTLED = (list, tuple, dict, set, frozenset, range, str, bytes, ListRef, DictRef, SetRef)


def lazily(ev: Any, v: Any) -> Iterator[Any]:
    """The items one by one: an iterator is asked for the next one only when that is used."""
    return _each(ev, ev.get_iter(v))


def _each(ev: Any, it: Any) -> Iterator[Any]:
    while True:
        try:
            x = ev.next_of(it)
        except Raised as e:
            if is_a(e.exc, StopIteration):
                return
            raise
        yield x


def items_of(ev: Any, v: Any) -> Any:
    """The items of something that stays as it is, or those of an iterator one by one."""
    return ev.items_of(v) if type(v) in _SETTLED else lazily(ev, v)


@builtin(sum)
def _sum(ev: Any, args: list, kwargs: dict) -> Any:
    total = args[1] if len(args) > 1 else kwargs.get("start", 0)
    if issubclass(class_of(total), (str, bytes, bytearray)):
        raise Break(breaks.CALL, "sum of strings or bytes", clean=True)
    for v in items_of(ev, args[0]):
        total = ev.binary("add", total, v, False)
    return total


@builtin(any)
def _any(ev: Any, args: list, kwargs: dict) -> bool:
    return any(ev.truth(v) for v in lazily(ev, args[0]))


@builtin(all)
def _all(ev: Any, args: list, kwargs: dict) -> bool:
    return all(ev.truth(v) for v in lazily(ev, args[0]))


def _extreme(ev: Any, args: list, kwargs: dict, real: Any, rel: str) -> Any:
    key = kwargs.get("key")
    items = iter(items_of(ev, args[0]) if len(args) == 1 else args)
    first: list = []
    for v in items:
        first.append(v)
        if key is not None or not (type(v) is int or is_a(v, SymInt)):
            break
    else:
        if not first:
            return kwargs["default"] if "default" in kwargs and len(args) == 1 else ev.real(real, [])
        if any(is_a(v, SymInt) for v in first):
            return (sym_max if real is max else sym_min)(*first)
    best, best_key = NULL, None
    for v in itertools.chain(first, items):
        k = v if key is None else ev.call(key, [v], {})
        if best is NULL or ev.truth(ev.compare(rel, k, best_key)):
            best, best_key = v, k
    return best


@builtin(max)
def _max(ev: Any, args: list, kwargs: dict) -> Any:
    return _extreme(ev, args, kwargs, max, "gt")


@builtin(min)
def _min(ev: Any, args: list, kwargs: dict) -> Any:
    return _extreme(ev, args, kwargs, min, "lt")


@builtin(functools.reduce)
def _reduce(ev: Any, args: list, kwargs: dict) -> Any:
    try:
        items = iter(items_of(ev, args[1]))
    except Raised as e:
        raise told_by_python(e, "reduce") from None
    acc = args[2] if len(args) > 2 else next(items, NULL)
    if acc is NULL:
        return ev.real(functools.reduce, args[0], [])
    for v in items:
        acc = ev.call(args[0], [acc, v], {})
    return acc


def keys(ev: Any, items: Any) -> Iterator[Any]:
    """The items of an iterator for a method of sets, which knows how many it takes."""
    for v in lazily(ev, items):
        yield ev.key(v)


def told_by_python(e: Raised, name: str) -> Exception:
    """A break for a TypeError that the real call words in its own way."""
    return Break(breaks.CALL, f"call of {name} with what it does not take") if is_a(e.exc, TypeError) else e
