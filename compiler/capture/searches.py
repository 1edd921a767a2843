"""``index``, ``count`` and ``remove`` of objects with an ``==`` of their own: it is evaluated for each item."""

from __future__ import annotations

import collections
from typing import Any

from . import breaks
from .breaks import Break
from .operators import isinstance_plain
from .values import fixed_key, is_a, is_foreign

SEARCHES = ("index", "count", "remove", "__contains__")


def searched(ev: Any, fn: Any, items: Any, args: list) -> Any:
    """A call of one of them on a list, tuple or deque that captured code knows."""
    name, v = fn.__name__, args[0]
    kind: Any = next(c for c in (list, tuple, collections.deque) if is_a(items, c))  # past methods of a subclass
    if isinstance_plain(v) and all(map(isinstance_plain, kind.__iter__(items))):
        return ev.real(fn, *map(fixed_key, args)) if len(args) > 1 else ev.real(fn, v)
    if name == "__contains__":
        return ev.contains(items, v)
    if len(args) > (3 if name == "index" else 1) or not all(type(a) is int for a in args[1:]):
        raise Break(breaks.CALL, f"{name} with other arguments", clean=True)
    first, stop = (*args[1:], None, None)[:2]
    places = range(kind.__len__(items))[first:stop]
    found = 0
    length = kind.__len__(items)
    for k in places:
        x = kind.__getitem__(items, k)
        same = ev.same(x, v) if is_foreign(x) and is_foreign(v) else x is v
        equal = same or ev.truth(ev.compare("eq", x, v))
        if kind.__len__(items) != length:
            raise Break(breaks.OBJECT, f"{name} of what changes meanwhile")
        if equal and name != "count":
            if name == "index":
                return k
            ev.calls += 1
            kind.__delitem__(items, k)
            return None
        found += equal
    if name != "count":
        raise Break(breaks.CALL, f"{name} of an object that is not there")
    return found
