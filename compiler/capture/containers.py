"""Containers: content, items, length and membership on every kind of value."""

from __future__ import annotations

import collections
import operator
import types
from typing import Any

import fusegrad
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks
from .acting import refuse_key, refuse_read
from .ahead import compute, index_arrays, is_array
from .breaks import Break, Raised
from .class_state import own_attr
from .contracts import result_of
from .control import note_selected
from .evaluator import stands_in
from .iteration import ITERATORS
from .later import look
from .numbers import fits
from .objects import mro_lookup
from .operators import isinstance_plain
from .state import is_fixed_class
from .subclasses import plain_value
from .values import (
    DELETED,
    NULL,
    DictRef,
    Foreign,
    ListRef,
    ObjRef,
    SetRef,
    SymFloat,
    class_of,
    factory_of,
    fixed_key,
    is_a,
    is_foreign,
    plain_container,
)


def typed(items: Any) -> frozenset:
    """The content of a set, where ``True`` and ``1`` are different."""
    return frozenset((type(k), k) for k in items)


def _types(cap: Any, tok: str, keys: list) -> str:
    """A condition on the types of keys, where equal ones of other types exist."""
    if all(type(k) in (str, type(None)) for k in keys):
        return ""
    return f" and tuple(_fgmap(type, {tok})) == {cap.consts.name(tuple(type(k) for k in keys))}"


def raw_content(obj: dict) -> dict:
    """What a dict of a subclass holds, in its order, past methods of its class."""
    if isinstance(obj, collections.OrderedDict):
        return collections.OrderedDict(collections.OrderedDict.items(obj))
    return dict(dict.items(obj))


_IN_ORDER = ("keys", "values", "items", "__iter__", "__reversed__")
_READ_DICTS = (*_IN_ORDER, "get", "__getitem__", "__contains__", "__len__")
_VALUES: Any = type({}.values())
_LITERAL = (str, int, bool, type(None), float)


class Containers:
    """Mixin of the evaluator."""

    cap: Any
    real: Any
    call: Any
    getattr: Any
    special: Any
    user_method: Any
    inline: Any

    # ---- keys

    def key(self, v: Any) -> Any:
        """A value as a key of a dict or an item of a set that captured code makes."""
        v = fixed_key(v)
        self.tell_apart(v)
        return v

    def tell_apart(self, *keys: Any) -> None:
        """Objects from before that are compared as keys must be distinct objects in later calls, as they are now."""
        for v in keys:
            t = type(v)
            if t in _LITERAL:
                continue
            if issubclass(t, Tensor):
                found = self.cap.input_of.get(id(v))
                if found is not None:
                    self.cap.told_apart[id(found)] = found
            elif issubclass(t, Foreign):
                self.cap.told_apart[id(v)] = v
            elif t is types.MethodType:
                self.tell_apart(v.__self__)
            elif t in (tuple, frozenset):
                self.tell_apart(*v)
            elif (source := self.cap.origin.get(id(v))) is not None and source.kind != "const":
                self.cap.told_apart[id(v)] = types.SimpleNamespace(source=source)

    # ---- dicts that existed before

    def raw_dict(self, v: Any, name: str, fn: Any = None) -> DictRef | None:
        """What an object of a subclass of dict with methods of its own holds, as the C method ``name`` (``fn``) that
        reads it sees it. None for other objects and methods. (What writes to it breaks the graph.)"""
        cls = class_of(v)
        if cls is types.MappingProxyType and type(v) is ObjRef and name in (*_READ_DICTS, "copy"):
            from .read_only import proxied

            return proxied(self, v)
        if type(v) is not ObjRef or name not in _READ_DICTS or not issubclass(cls, dict):
            return None
        ordered = issubclass(cls, collections.OrderedDict)
        if fn is None:
            fn = mro_lookup(cls, name)[1]
            self.cap.class_guard(cls, name, fn)
        if getattr(fn, "__objclass__", None) not in (dict, collections.OrderedDict) or hasattr(cls, "__missing__"):
            return None
        if ordered and fn.__objclass__ is dict and hasattr(collections.OrderedDict, name) and name in _IN_ORDER:
            return None
        if v.raw is None:
            self.cap.consts.env["_fgraw"] = raw_content
            v.raw = DictRef(raw_content(v.obj), v.source.call("_fgraw({})"))
            self.cap.refs.append(v.raw)
            self.cap.origin[id(v.raw)] = v.raw.source
        return v.raw

    def key_of(self, key: Any) -> tuple[Any, Any]:
        """(the real key object, literal or Source for generated code) for a key value."""
        key = fixed_key(key)
        t = type(key)
        if t in _LITERAL:
            return key, key
        if issubclass(t, Tensor):
            inp = self.cap.input_of.get(id(key))
            if inp is None:
                return key, NULL
            return inp.real, inp.source
        if issubclass(t, Foreign):
            return key.obj, key.source
        if t is tuple and all(type(k) in _LITERAL for k in key):
            return key, key
        if t is tuple and stands_in(key):
            raise Break(breaks.OBJECT, "a key is a tuple with objects", clean=True)
        try:
            hash(key)
        except TypeError as e:
            raise Raised(e) from None
        return key, self.cap.const(key)

    def dict_get(self, ref: DictRef, key: Any, quiet: bool = False) -> Any:
        """The value under a key, NULL if absent (``quiet``: absence of a module's entry needs no guard of its own)."""
        if type(key) is SymInt and len(ref.obj) <= 8 and all(type(k) is int for k in ref.obj):
            if not any(key == k for k in self.dict_view(ref)):  # none of a few keys: so is any other number
                return NULL
        key = fixed_key(key)
        if self.cap.later:
            look(self.cap, ref.obj)
        if ref.view or ref.writes:
            self.tell_apart(key)
        if ref.view is not None:
            self.key_of(key)
            return ref.view.get(key, NULL)
        real, code = self.key_of(key)
        if key in ref.writes:
            v = ref.writes[key]
            return NULL if v is DELETED else v
        if ref.cleared or code is NULL:
            return NULL
        if key in ref.cache:
            return ref.cache[key]
        d = ref.obj
        if real in d:
            obj = dict.__getitem__(d, real)
            if ref.owner is not None and is_a(key, str) and key.isidentifier():
                source = own_attr(self.cap, ref, key, code)
            else:
                source = (ref.source.entry if hasattr(type(d), "__missing__") else ref.source.item)(code)
            value = ref.cache[key] = self.cap.realize(obj, source)
            return value
        text = code.text if hasattr(code, "text") else repr(code)
        if hasattr(code, "text"):
            text = self.cap.tok(code)
        self.cap.guard(
            f"{text} not in {self.cap.tok(ref.source)}", "absent", ref.source.path(), key, self._safe_ref(ref)
        )
        ref.cache[key] = NULL
        return NULL

    def dict_set(self, ref: DictRef, key: Any, value: Any) -> None:
        """An effect: ``d[key] = value``."""
        if self.cap.later:
            look(self.cap, ref.obj)
        key = self.key(key)
        self.key_of(key)
        ref.log.append(("set", key, value))
        ref.writes[key] = value
        if ref.view is not None:
            ref.view[key] = value

    def dict_del(self, ref: DictRef, key: Any) -> None:
        """An effect: ``del d[key]``."""
        if self.cap.later:
            look(self.cap, ref.obj)
        key = fixed_key(key)
        ref.log.append(("del", key, None))
        ref.writes[key] = DELETED
        if ref.view is not None:
            del ref.view[key]

    def dict_view(self, ref: DictRef) -> dict:
        """The whole content, guarded."""
        if self.cap.later:
            look(self.cap, ref.obj)
        if ref.view is not None:
            return ref.view
        d, cap = ref.obj, self.cap
        tok = cap.tok(ref.source)
        keys = list(collections.OrderedDict.keys(d) if is_a(d, collections.OrderedDict) else dict.keys(d))
        view: dict = {}
        if not ref.cleared:
            for k in keys:
                refuse_key(k)
            if all(type(k) in _LITERAL and k == k for k in keys):
                cap.guard(
                    f"list({tok}) == {keys!r}{_types(cap, tok, keys)}",
                    "keys",
                    ref.source.path(),
                    keys,
                    self._safe_ref(ref),
                )
            else:
                kt = cap.consts.name(tuple(keys))
                cap.guard(
                    f"len({tok}) == {len(keys)} and all(_fgmap(_fgis, {tok}, {kt}))",
                    "keys",
                    ref.source.path(),
                    keys,
                    self._safe_ref(ref),
                )
            for n, k in enumerate(keys):
                kv = k if type(k) in _LITERAL else cap.realize(k, ref.source.call(f"list({{}})[{n}]"))
                self.tell_apart(kv)
                if kv in ref.writes:
                    continue
                view[kv] = self.dict_get(ref, kv)
        for op, k, v in ref.log:
            if op == "set":
                view[k] = v
            else:
                view.pop(k, None)
        ordered: dict = {}
        if not ref.cleared:  # a key that was written keeps its place unless it was deleted before
            gone = {k for op, k, _ in ref.log if op == "del"}
            for k in keys:
                kv = next((x for x in view if x is k or (type(k) in _LITERAL and x == k)), NULL) if k in view else NULL
                if kv is not NULL and kv not in gone:
                    ordered[kv] = view[kv]
        for k, v in view.items():
            ordered.setdefault(k, v)
        ref.view = ordered
        cap.origin[id(ordered)] = ref.source
        return ordered

    def _safe_ref(self, ref: DictRef) -> bool:
        return self.cap.is_safe(ref.source.item("x")) if ref.source.kind == "attr" else False

    # ---- lists and sets that existed before

    def list_items(self, ref: ListRef) -> list:
        """The whole content, guarded."""
        if self.cap.later:
            look(self.cap, ref.obj)
        if ref.items is None:
            tok, n = self.cap.tok(ref.source), len(ref.obj)
            self.cap.guard(f"len({tok}) == {n}", "length", ref.source.path(), n)
            items = []
            for k in range(n):
                if k not in ref.cache:
                    ref.cache[k] = self.cap.realize(ref.obj[k], ref.source.item(k))
                items.append(ref.cache[k])
            ref.items = items + ref.tail
            ref.dirty = bool(ref.tail)
            if type(ref.obj) is collections.deque:
                ref.items = collections.deque(ref.items, self._most(ref))  # type: ignore[assignment]
            self.cap.origin[id(ref.items)] = ref.source
        return ref.items  # type: ignore[return-value]

    def takes_unread(self, ref: ListRef, more: int) -> bool:
        """Whether items can go to the end of a list or deque whose content was not read, and all stay in it."""
        if type(ref.obj) is not collections.deque:
            return type(ref.obj) is list
        most = self._most(ref)
        return most is None or len(ref.tail) + more <= most

    def _most(self, ref: ListRef) -> int | None:
        """The ``maxlen`` of a deque, guarded."""
        most = ref.obj.maxlen
        self.cap.guard(f"{self.cap.tok(ref.source)}.maxlen == {most}", path=ref.source.path())
        return most

    def set_view(self, ref: SetRef) -> set:
        """The whole content of a set, guarded."""
        if ref.view is None:
            items = list(ref.obj)
            tok = self.cap.tok(ref.source)
            if all(type(k) in (str, int, bool, type(None)) for k in items):
                same = f"{tok} == {self.cap.consts.name(frozenset(items))}"
                if any(type(k) in (int, bool) for k in items):  # True == 1
                    pairs = self.cap.consts.name(typed(items))
                    same = f"_fgtyped({tok}) == {pairs}"
                self.cap.guard(same, "set", ref.source.path())
                ref.view = set(items)
            elif not items:
                self.cap.guard(f"not {tok}", "set", ref.source.path())
                ref.view = set()
            else:
                raise Break(breaks.OBJECT, "a set of objects", clean=True)
            self.cap.origin[id(ref.view)] = ref.source
        return ref.view

    def content(self, v: Any) -> Any:
        """A pre-existing container's current content as a plain container; other values as they are."""
        t = type(v)
        if t is ListRef:
            return self.list_items(v)
        if t is DictRef:
            return self.dict_view(v)
        if t is SetRef:
            return self.set_view(v)
        return plain_value(self.cap, v) if t is ObjRef else v

    def ordered(self, v: Any) -> Any:
        """`content` for code that goes through it in its order: that of a set depends on how it came to be."""
        if type(v) is not SetRef:
            return self.content(v)
        view, items = self.set_view(v), list(v.obj)
        if v.log:
            raise Break(breaks.OBJECT, "the order of a set that was changed", clean=True)
        if len(items) > 1:
            if list(view) != items:
                raise Break(breaks.OBJECT, "a set whose order tells how it was made", clean=True)
            self.cap.guard(f"list({self.cap.tok(v.source)}) == {self.cap.consts.name(items)}", "set", v.source.path())
        return view

    # ---- items

    def getitem(self, obj: Any, k: Any) -> Any:
        """``obj[k]``."""
        t = type(obj)
        if t is DictRef and not plain_container(obj.obj) and self.user_method(obj, "__getitem__") is not NULL:
            raise Break(breaks.OBJECT, f"item of a {class_of(obj).__name__}", clean=True)
        if t is ListRef:
            if obj.items is None and type(k) is int and not obj.tail and -len(obj.obj) <= k < len(obj.obj):
                if k not in obj.cache:
                    obj.cache[k] = self.cap.realize(obj.obj[k], obj.source.item(k))
                return obj.cache[k]
            if obj.items is None and type(k) is int and -len(obj.tail) <= k < 0:  # appended just now
                return obj.tail[k]
            return self._plain_getitem(self.list_items(obj), k)
        if t is DictRef:
            v = self.dict_get(obj, k)
            if v is not NULL:
                return v
            return self._missing(obj, k)
        if is_array(obj) and (done := compute(self, operator.getitem, [obj, k], {})) is not NULL:
            return done
        if t is ObjRef or (t.__flags__ & (1 << 9) and not issubclass(t, Tensor)):
            m = self.user_method(obj, "__getitem__")
            if m is not NULL:
                return self.call(m, [obj, k], {})
            if t is ObjRef:
                raw = self.raw_dict(obj, "__getitem__")
                if raw is not None:
                    return self.getitem(raw, k)
                plain = plain_value(self.cap, obj)
                if plain is not obj:
                    return self.getitem(plain, k)
                raise Break(breaks.OBJECT, f"item of a {class_of(obj).__name__}", clean=True)
        if is_foreign(obj):
            raise Break(breaks.OBJECT, f"item of a {class_of(obj).__name__}", clean=True)
        if issubclass(t, type) and not is_fixed_class(obj):
            owner, hook = mro_lookup(obj, "__class_getitem__")
            self.cap.class_guard(obj, "__class_getitem__", hook)
            hook = hook.__func__ if is_a(hook, classmethod) else hook
            if is_a(hook, types.FunctionType) and not is_fixed_class(owner):
                return self.call(hook, [obj, k], {})
        return self._plain_getitem(obj, k)

    def _plain_getitem(self, obj: Any, k: Any) -> Any:
        if type(k) is ObjRef and not is_a(obj, dict):
            k = plain_value(self.cap, k)
        if issubclass(type(obj), Tensor):
            mine = self.user_method(obj, "__getitem__")
            if mine is not NULL:
                return self.call(mine, [obj, k], {})
            k = self.native(index_arrays(self, k))
        elif is_a(obj, dict):
            k = self.key(k)
            if type(obj) is not dict and not self.real(operator.contains, obj, k):
                factory = factory_of(obj)
                missing = self.user_method(obj, "__missing__")
                if missing is not NULL:
                    return self.call(missing, [obj, k], {})
                if factory is not None:
                    self.calls += 1
                    obj[k] = value = self.call(factory, [], {})
                    return value
        elif is_a(k, slice) and any(is_a(p, SymInt) for p in (k.start, k.stop, k.step)):
            k = slice(*(int(p) if is_a(p, SymInt) else p for p in (k.start, k.stop, k.step)))
        elif type(k) is tuple and any(is_foreign(v) for v in k):  # parameters of a generic class
            raise Break(breaks.OBJECT, f"index of a {class_of(obj).__name__} by objects", clean=True)
        elif is_foreign(k) and not is_a(obj, dict):
            raise Break(breaks.OBJECT, f"index by a {class_of(k).__name__}", clean=True)
        if not is_a(obj, dict):
            if is_a(k, tuple) and stands_in(k):
                raise Break(breaks.OBJECT, "index by a tuple with objects", clean=True)
            refuse_read("an index is", *((k.start, k.stop, k.step) if is_a(k, slice) else (k,)))
        value = self.real(operator.getitem, obj, k)
        if issubclass(type(obj), Tensor):
            note_selected(self, obj, k, value)
        return value

    def _missing(self, ref: DictRef, k: Any) -> Any:
        factory = factory_of(ref.obj)
        if factory is not None and type(ref.obj).__name__ == "defaultdict":
            self.cap.guard(
                f"{self.cap.tok(ref.source)}.default_factory is {self.cap.consts.name(factory)}",
                "identity",
                ref.source.path(),
            )
            value = self.call(factory, [], {})
            self.dict_set(ref, k, value)
            return value
        missing = self.user_method(ref, "__missing__")
        if missing is not NULL:
            return self.call(missing, [ref, k], {})
        raise Raised(KeyError(k))

    def setitem(self, obj: Any, k: Any, v: Any) -> None:
        """``obj[k] = v``."""
        t = type(obj)
        if t in (DictRef, ListRef) and not plain_container(obj.obj):
            m = self.user_method(obj, "__setitem__")
            if m is not NULL:
                self.call(m, [obj, k, v], {})
                return None
        if t is DictRef:
            return self.dict_set(obj, k, v)
        if t is ListRef:
            items = self.list_items(obj)
            self.real(operator.setitem, items, k, self.items_of(v) if is_a(k, slice) else v)
            obj.dirty = True
            return None
        if issubclass(t, Tensor):
            mine = self.user_method(obj, "__setitem__")
            if mine is not NULL:
                self.call(mine, [obj, k, v], {})
                return None
            self.calls += 1
            if type(v) in (SymFloat, SymInt):  # a changing number is written as a tensor of its own
                if obj.dtype.is_floating_point and (type(v) is SymInt or fits([obj, v], {})):
                    one = self.library(fusegrad.ones, [()], {"dtype": obj.dtype})
                    v = one * self.native(v)
                elif obj.dtype is fusegrad.int64 and type(v) is SymInt:
                    v = self.library(fusegrad.full, [(), v], {"dtype": fusegrad.int64})
                else:
                    v = fixed_key(v)
            return self.real(operator.setitem, obj, self.native(index_arrays(self, k)), self.native(v))
        m = self.user_method(obj, "__setitem__")
        if m is not NULL:
            self.call(m, [obj, k, v], {})
            return None
        if is_foreign(obj):
            raise Break(breaks.OBJECT, f"item of a {class_of(obj).__name__} is set", clean=True)
        if is_a(obj, dict):
            k = self.key(k)
            self.key_of(k)
        self.real(operator.setitem, obj, k, self.items_of(v) if is_a(k, slice) and t is list else v)
        return None

    def delitem(self, obj: Any, k: Any) -> None:
        """``del obj[k]``."""
        t = type(obj)
        if t in (DictRef, ListRef) and not plain_container(obj.obj):
            m = self.user_method(obj, "__delitem__")
            if m is not NULL:
                self.call(m, [obj, k], {})
                return None
        if t is DictRef:
            if self.dict_get(obj, k) is NULL:
                raise Raised(KeyError(k))
            return self.dict_del(obj, k)
        if t is ListRef:
            self.real(operator.delitem, self.list_items(obj), k)
            obj.dirty = True
            return None
        m = self.user_method(obj, "__delitem__")
        if m is not NULL:
            self.call(m, [obj, k], {})
            return None
        if is_foreign(obj):
            raise Break(breaks.OBJECT, f"item of a {class_of(obj).__name__} is deleted", clean=True)
        self.real(operator.delitem, obj, self.key(k) if is_a(obj, dict) else k)
        return None

    def length(self, v: Any) -> int:
        """``len(v)``."""
        t = type(v)
        if t is ListRef and v.items is None and (not v.tail or type(v.obj) is list):
            return self._length(v) + len(v.tail)
        if (t is DictRef and v.view is None and not v.log) or (t is SetRef and v.view is None):
            if self.cap.later:
                look(self.cap, v.obj)
            return self._length(v)
        if t in (ListRef, DictRef, SetRef):
            return len(self.content(v))
        m = self.user_method(v, "__len__")
        if m is not NULL:
            return result_of("__len__", self.call(m, [v], {}))
        raw = self.raw_dict(v, "__len__")
        if raw is not None:
            return self.length(raw)
        if t is ObjRef and (plain := plain_value(self.cap, v)) is not v:
            return self.length(plain)
        if is_foreign(v):
            raise Break(breaks.OBJECT, f"len() of a {class_of(v).__name__}", clean=True)
        if issubclass(t, Tensor) and v.ndim:
            return v.shape[0]
        return self.real(len, v)

    def _length(self, ref: Any) -> int:
        """The length of a container whose content nothing reads; a symbol if it changes."""
        n, path = len(ref.obj), ref.source.path()
        if self.cap.facts.is_dynamic(f"len({path})"):
            return self.cap.symbol(ref.source.call("len({})"), n, 0)
        self.cap.guard(f"len({self.cap.tok(ref.source)}) == {n}", "length", path, n)
        return n

    def contains(self, container: Any, v: Any) -> bool:
        """``v in container``."""
        t = type(container)
        if t is DictRef:
            return self.dict_get(container, v) is not NULL
        m = self.user_method(container, "__contains__")
        if m is not NULL:
            return self.truth(self.call(m, [container, v], {}))
        raw = self.raw_dict(container, "__contains__")
        if raw is not None:
            return self.dict_get(raw, v) is not NULL
        if t in (ListRef, SetRef):
            container = self.content(container)
        elif t is ObjRef and (plain := plain_value(self.cap, container)) is not container:
            return self.contains(plain, v)
        elif is_foreign(container):
            raise Break(breaks.OBJECT, f"`in` of a {class_of(container).__name__}", clean=True)
        elif t in ITERATORS or (
            t.__flags__ & (1 << 9) and not issubclass(t, (list, dict, tuple, set, frozenset, str, Tensor))
        ):
            return self._among(self.get_iter(container), v)
        if type(container) is _VALUES:
            container = list(container)
        if type(container) in (list, tuple, collections.deque) and not (
            isinstance_plain(v) and isinstance_plain(container)
        ):
            for x in container:
                if x is v or self.truth(self.compare("eq", x, v)):
                    return True
            return False
        if not is_a(container, (list, tuple, str, range)):
            if type(v) is SymInt and len(container) <= 8 and all(type(k) is int for k in container):
                return any(v == k for k in container)  # not one of a few: any other number will do
            v = self.key(v)
        return self.real(operator.contains, container, v)

    def _among(self, it: Any, v: Any) -> bool:
        """Whether an iterator gives ``v``: it is left where that was found."""
        while True:
            try:
                x = self.next_of(it)
            except Raised as e:
                if is_a(e.exc, StopIteration):
                    return False
                raise
            if x is v or self.truth(self.compare("eq", x, v)):
                return True
