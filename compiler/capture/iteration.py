"""Iteration over every kind of value: ``iter``, ``next``, all items of an iterable."""

from __future__ import annotations

import collections
import types
from typing import Any

from fusegrad.tensor import Tensor

from . import breaks, std_python
from .breaks import Break, Raised
from .objects import mro_lookup
from .values import (
    NULL,
    DictRef,
    ListRef,
    ObjRef,
    SetRef,
    class_of,
    is_a,
    is_foreign,
)

ITERATORS: tuple[type, ...] = (
    type(iter([])), type(iter(())), type(iter({})), type(iter({}.items())), type(iter({}.values())), type(iter(set())),
    type(iter(range(0))), type(iter("")), enumerate, zip, map, filter, reversed, type(reversed([])), type(iter(b"")),
    type(iter(collections.deque())), type(reversed(collections.deque())),
    type(reversed({})), type(reversed({}.values())), type(reversed({}.items())),
)  # fmt: skip


class Iteration:
    """Mixin of the evaluator."""

    cap: Any
    real: Any
    call: Any
    getattr: Any
    getitem: Any
    content: Any
    ordered: Any
    special: Any
    user_method: Any
    inline: Any

    def get_iter(self, v: Any) -> Any:
        """``iter(v)``."""
        t = type(v)
        if t in (ListRef, DictRef, SetRef):
            return iter(self.ordered(v))
        if t in ITERATORS or t.__name__ == "GenValue":
            return v
        if t in (
            list,
            tuple,
            dict,
            set,
            frozenset,
            range,
            str,
            bytes,
            type({}.keys()),
            type({}.items()),
            type({}.values()),
        ):
            return iter(v)
        if issubclass(t, Tensor):
            mine = self.user_method(v, "__iter__")
            if mine is not NULL:
                return self.get_iter(self.call(mine, [v], {}))
            if v.ndim == 0:
                raise Raised(TypeError("iteration over a 0-d tensor"))
            return iter(self.real(v.unbind, 0))
        if t is ObjRef and class_of(v) in (*ITERATORS, types.GeneratorType):
            return v
        if t is ObjRef or (t.__flags__ & (1 << 9)):
            m = self.special(v, "__iter__")
            if m is not NULL:
                it = self.call(m, [], {})
                if mro_lookup(class_of(it), "__next__")[0] is None:
                    raise Break(breaks.OBJECT, f"__iter__ gave a {class_of(it).__name__}, which is no iterator")
                return it
            if self.special(v, "__getitem__") is not NULL and not issubclass(class_of(v), dict):
                return self.inline(std_python.by_index, [v], {})
            if is_foreign(v):
                raise Raised(TypeError(f"'{class_of(v).__name__}' object is not iterable"))
        if is_foreign(v):
            raise Break(breaks.ITERATOR, f"iter() of a {class_of(v).__name__}", clean=True)
        return self.real(iter, v)

    def next_of(self, it: Any) -> Any:
        """``next(it)``; `Raised(StopIteration)` at the end."""
        t = type(it)
        if t.__name__ == "GenValue":
            return it.resume(None)
        if t is ObjRef:
            m = self.user_method(it, "__next__")
            if m is not NULL:
                return self.call(m, [it], {})
            raise Break(breaks.ITERATOR, f"next() of a {class_of(it).__name__}", clean=True)
        if is_foreign(it):
            raise Break(breaks.ITERATOR, f"next() of a {class_of(it).__name__}", clean=True)
        m = self.user_method(it, "__next__")
        if m is not NULL:
            return self.call(m, [it], {})
        if t in ITERATORS[:8]:
            try:
                return next(it)
            except StopIteration as e:
                raise Raised(e) from None
            except RuntimeError as e:
                raise Raised(e) from None
        return self.real(next, it)

    def items_of(self, v: Any, limit: int | None = None, sized: bool = False) -> list:
        """All items of an iterable, as a list (a list or tuple may be returned as it is).

        ``sized``: for C code that asks an object of the user's how long it will be.
        """
        v = self.ordered(v)
        t = type(v)
        if t in (list, tuple):
            return v
        if issubclass(t, tuple) and mro_free(t):
            return list(v)
        it = self.get_iter(v)
        if sized:
            self._ask_length(v)
        out: list = []
        while limit is None or len(out) < limit:
            try:
                out.append(self.next_of(it))
            except Raised as e:
                if not is_a(e.exc, StopIteration):
                    raise
                break
        return out

    def one_by_one(self, v: Any, put: Any, sized: bool = False) -> bool:
        """Give ``put`` each item of an iterator as it comes: the code that makes them sees what grows by them, and an
        error leaves those before it. False, without a call, for what is no iterator."""
        v = self.ordered(v)
        t = class_of(v)
        if t in _SETTLED or issubclass(t, (tuple, Tensor)):
            return False
        it = self.get_iter(v)
        if sized:
            self._ask_length(v)
        while True:
            try:
                x = self.next_of(it)
            except Raised as e:
                if not is_a(e.exc, StopIteration):
                    raise
                return True
            put(x)

    def _ask_length(self, v: Any) -> None:
        for name in ("__len__", "__length_hint__"):
            m = self.user_method(v, name)
            if m is not NULL:
                try:
                    self.call(m, [v], {})
                except Raised as e:
                    if not is_a(e.exc, TypeError):
                        raise
                return

    def set_items(self, v: Any) -> list:
        """What sets take from ``v``: out of other sets directly, past an ``__iter__`` of the user's."""
        t = class_of(v)
        if issubclass(t, (set, frozenset)) and t.__iter__ not in (set.__iter__, frozenset.__iter__):
            raise Break(breaks.OBJECT, f"{t.__name__} is a set with an __iter__ of its own", clean=True)
        return self.items_of(v)

    def iterable(self, v: Any) -> Any:
        """Something that real code can iterate over in the place of ``v``."""
        v = self.ordered(v)
        t = type(v)
        if t in (list, tuple, dict, set, frozenset, range, str) or t in ITERATORS or t.__name__ == "GenValue":
            return v
        it = self.get_iter(v)
        if type(it) is ObjRef or self.user_method(it, "__next__") is not NULL:
            return self.inline(std_python.each, [it], {})
        return it

    def pairs_of(self, v: Any) -> dict:
        """What ``dict.update`` takes from an iterable of pairs."""
        pairs = [self.items_of(p) if mro_lookup(class_of(p), "__iter__")[0] else () for p in self.items_of(v)]
        if any(len(p) != 2 for p in pairs):
            raise Break(breaks.CALL, "dict.update of what are no pairs", clean=True)
        return {self.key(k): x for k, x in pairs}

    def mapping_of(self, v: Any) -> dict:
        """A mapping's content as a dict."""
        v = self.content(v)
        if is_a(v, dict) and not is_foreign(v):
            if type(v).__iter__ in (dict.__iter__, collections.OrderedDict.__iter__):
                return dict(dict.items(v)) if type(v).__flags__ & (1 << 9) else v
            keys = self.items_of(self.call(self.getattr(v, "keys"), [], {}))
            return {k: self.getitem(v, k) for k in keys}
        if is_foreign(v) or (type(v).__flags__ & (1 << 9)):
            keys = self.items_of(self.call(self.getattr(v, "keys"), [], {}))
            return {k: self.getitem(v, k) for k in keys}
        return self.real(dict, v)


_SETTLED = {list, tuple, dict, set, frozenset, range, str, bytes}


def mro_free(t: type) -> bool:
    """A tuple subclass that keeps tuple's iteration."""
    return t.__iter__ is tuple.__iter__
