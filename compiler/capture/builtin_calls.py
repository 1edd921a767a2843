"""Calls of builtins, C functions and methods of containers."""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import math
import operator
import types
from typing import Any

import numpy as np
from fusegrad.nn.module import Module
from fusegrad.sizes import SymInt, sym_max, sym_min
from fusegrad.tensor import Tensor

from . import breaks
from .breaks import Break, Raised
from .calls import CLASSES
from .objects import mro_lookup
from .values import (
    NULL, CellRef, DictRef, Foreign, ForeignMethod, ListRef, ObjRef, SetRef, SuperValue, SymFloat, class_of, is_foreign, is_a,
)  # fmt: skip

BUILTINS: dict[Any, Any] = {}
# Pure functions of Python numbers and strings: real on constants, a break on tensors (DataDependentError).
PURE: set[Any] = {
    abs, divmod, pow, round, ord, chr, hex, bin, oct, ascii, callable,
    *(f for f in vars(math).values() if is_a(f, types.BuiltinFunctionType)),
    *(f for f in vars(operator).values() if is_a(f, types.BuiltinFunctionType)),
}  # fmt: skip
READS = {  # methods of dict, list, set, str, tuple, ... that change nothing
    "get", "keys", "values", "items", "copy", "index", "count", "__len__", "__getitem__", "__contains__", "__iter__",
    "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "__eq__", "__ne__",
    "__reversed__",
}  # fmt: skip


def builtin(*fns: Any) -> Any:
    def put(h: Any) -> Any:
        for f in fns:
            BUILTINS[f] = h
        return h

    return put


class BuiltinCalls:
    """Mixin of the evaluator."""

    cap: Any
    real: Any
    call: Any

    def call_builtin(self, fn: Any, args: list, kwargs: dict) -> Any:
        """Call a C function, method or type."""
        try:
            h = BUILTINS.get(fn)
        except TypeError:
            h = None
        if h is not None:
            return h(self, args, kwargs)
        me = getattr(fn, "__self__", None)
        if me is not None and not is_a(me, types.ModuleType):
            return self._builtin_method(fn, me, args, kwargs)
        if is_a(fn, (types.MethodDescriptorType, types.WrapperDescriptorType)) and args:
            return self._descriptor_call(fn, args, kwargs)
        if fn in PURE or (is_a(fn, type) and fn in SAFE_TYPES):
            a = [self.pure_arg(v) for v in args]
            return self.real(fn, *a, **{k: self.pure_arg(v) for k, v in kwargs.items()})
        if is_a(fn, (operator.itemgetter, operator.attrgetter, operator.methodcaller)):
            return self._getter(fn, args)
        if is_a(fn, type) and issubclass(fn, np.generic):
            return self.real(fn, *[self.pure_arg(v) for v in args], **kwargs)
        module = getattr(fn, "__module__", "") or ""
        if module.startswith("fusegrad"):
            return self.library(fn, args, kwargs)
        name = getattr(fn, "__qualname__", None) or type(fn).__name__
        raise Break(breaks.CALL, f"call of {module + '.' if module else ''}{name}", clean=True)

    def pure_arg(self, v: Any) -> Any:
        """An argument for a pure function of numbers."""
        v = self.content(v)
        t = type(v)
        if t is SymFloat:
            return float(v)
        if issubclass(t, Foreign):
            raise Break(breaks.OBJECT, f"a {class_of(v).__name__} is passed to a builtin", clean=True)
        if t in (types.FunctionType, types.MethodType):
            return self.callback(v)
        return v

    def _getter(self, fn: Any, args: list) -> Any:
        kind, parts = fn.__reduce__()
        if kind is operator.itemgetter:
            got = [self.getitem(args[0], k) for k in parts]
            return got[0] if len(got) == 1 else tuple(got)
        if kind is operator.attrgetter:
            out = []
            for path in parts:
                v = args[0]
                for n in path.split("."):
                    v = self.getattr(v, n)
                out.append(v)
            return out[0] if len(out) == 1 else tuple(out)
        raise Break(breaks.CALL, "methodcaller", clean=True)

    def _descriptor_call(self, fn: Any, args: list, kwargs: dict) -> Any:
        """``list.append(x, 1)``, ``object.__setattr__(self, ...)``, ``tuple.__new__(...)``."""
        me, rest, name = args[0], args[1:], fn.__name__
        if fn is object.__setattr__:
            return self.set_plain(me, rest[0], rest[1])
        if fn is object.__getattribute__:
            t = class_of(me)
            inst = (lambda n: self.dict_get(self.instance_dict(me), n)) if type(me) is ObjRef else (lambda n: vars(me).get(n, NULL))
            return self._lookup_plain(me, t, rest[0], inst, hooks=False)
        if fn is object.__init__ and not rest:
            return None
        if fn is object.__init_subclass__ or name == "__delattr__":
            raise Break(breaks.CALL, name, clean=True)
        if type(me) in (ListRef, DictRef, SetRef):
            return self.foreign_method(ForeignMethod(me, name), rest, kwargs)
        if is_foreign(me):
            raise Break(breaks.OBJECT, f"{name} of a {class_of(me).__name__}", clean=True)
        return self.call_builtin(getattr(me, name) if not is_a(me, type) else fn.__get__(me), rest, kwargs)

    def _builtin_method(self, fn: Any, me: Any, args: list, kwargs: dict) -> Any:
        """A method of an object made during capture, or of an immutable one."""
        t, name = type(me), fn.__name__
        known = self.cap.by_id.get(id(me))
        if known is not None and is_foreign(known):
            return self.foreign_method(ForeignMethod(known, name), args, kwargs)
        if is_a(me, type):
            return self._class_method(fn, me, name, args, kwargs)
        if t in (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict, collections.Counter) \
                or issubclass(t, (list, dict, set)):
            if name in ("extend", "update", "union", "intersection", "difference", "symmetric_difference", "issubset",
                        "issuperset", "isdisjoint", "extendleft", "difference_update", "intersection_update", "__init__",
                        "__iadd__"):  # fmt: skip
                args = [self.iterable(a) for a in args]
            elif name == "sort":
                return self._sort(me, kwargs)
            elif name in ("index", "count", "remove", "__contains__"):
                if is_foreign(args[0]):
                    raise Break(breaks.OBJECT, f"{name} of an object", clean=True)
            elif name == "setdefault" or name == "get" or name == "pop":
                if args and issubclass(t, dict):
                    self.key_of(args[0])
            return self.real(fn, *args, **kwargs)
        if t is str or t is bytes:
            if name == "join":
                return self.real(fn, self.items_of(args[0]))
            if name in ("format", "format_map", "__mod__"):
                return self._format_method(me, name, args, kwargs)
            a = [_concrete(self, self.pure_arg(a)) for a in args]
            return self.real(fn, *a, **{k: _concrete(self, self.pure_arg(v)) for k, v in kwargs.items()})
        if t in (tuple, int, float, bool, frozenset, range, complex, type(None), slice, SymInt) or issubclass(t, (tuple, BaseException)) \
                or type(me).__module__ == "builtins" or is_a(me, np.generic):
            return self.real(fn, *[self.pure_arg(a) for a in args], **kwargs)
        if issubclass(t, Tensor):
            return self.library(fn, args, kwargs)
        if t.__flags__ & (1 << 9) and fn.__qualname__.startswith("object."):
            if name == "__setattr__":
                return self.set_plain(me, args[0], args[1])
            if name in ("__init__", "__eq__", "__ne__"):
                return self.real(fn, *args)
        raise Break(breaks.CALL, f"method {name} of a {t.__name__}", clean=True)

    def _format_method(self, text: str, name: str, args: list, kwargs: dict) -> Any:
        """``"...".format(...)``: objects give their text, numbers their value."""
        def field(v: Any) -> Any:
            if is_foreign(v) or self.user_method(v, "__format__") is not NULL or self.user_method(v, "__str__") is not NULL:
                return self.call(str, [v], {})
            return _concrete(self, v)

        return self.real(getattr(text, name), *[field(a) for a in args], **{k: field(v) for k, v in kwargs.items()})

    def _class_method(self, fn: Any, cls: type, name: str, args: list, kwargs: dict) -> Any:
        if name == "__new__":
            target, rest = args[0], args[1:]
            if cls is object:
                return self.real(object.__new__, target)
            if cls in (tuple, frozenset, list, dict, set, int, float, str):
                conv = [self.items_of(a) if cls in (tuple, frozenset) else self.pure_arg(a) for a in rest]
                return self.real(fn, target, *conv)
        if name == "fromkeys":
            keys = self.items_of(args[0])
            return {k: (args[1] if len(args) > 1 else None) for k in keys}
        if cls in (int, float, str, bytes, type, object) or name in ("mro", "__subclasses__", "__instancecheck__"):
            return self.real(fn, *[self.pure_arg(a) for a in args], **kwargs)
        raise Break(breaks.CALL, f"{cls.__name__}.{name}", clean=True)

    def _sort(self, items: list, kwargs: dict) -> None:
        key = kwargs.get("key")
        if key is not None:
            kwargs = {**kwargs, "key": self.callback(key) if type(key) in (types.FunctionType, types.MethodType) else key}
        self.real(items.sort, **kwargs)

    # ---- containers that existed before

    def foreign_method(self, m: ForeignMethod, args: list, kwargs: dict) -> Any:
        """Call a method of a pre-existing container or of a generator."""
        ref, name = m.ref, m.name
        if type(ref) is ListRef:
            return self.list_method(ref, name, args, kwargs)
        if type(ref) is DictRef:
            return self.dict_method(ref, name, args, kwargs)
        if type(ref) is SetRef:
            view = self.set_view(ref)
            if name not in READS:
                ref.dirty = True
            return self.call_builtin(getattr(view, name), args, kwargs)
        if name == "send":
            return ref.resume(args[0])
        if name == "throw":
            return ref.throw_in(args[1] if len(args) > 1 and args[1] is not None else args[0])
        if name == "close":
            return ref.close_in()
        if name == "__next__":
            return ref.resume(None)
        return ref

    def list_method(self, ref: ListRef, name: str, args: list, kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if name == "append" and ref.items is None and type(ref.obj) is list:
            ref.tail.append(args[0])
            return None
        if name == "extend" and ref.items is None and type(ref.obj) is list:
            ref.tail.extend(self.items_of(args[0]))
            return None
        if name == "__len__":
            return self.length(ref)
        if name == "__getitem__":
            return self.getitem(ref, args[0])
        items = self.list_items(ref)
        if name not in READS:
            ref.dirty = True
        if name == "sort":
            return self._sort(items, kwargs)
        return self.call_builtin(getattr(items, name), args, kwargs)

    def dict_method(self, ref: DictRef, name: str, args: list, kwargs: dict) -> Any:
        """Methods of a pre-existing dict."""
        if name in ("get", "pop", "setdefault", "__getitem__", "__contains__"):
            v = self.dict_get(ref, args[0])
            if name == "__contains__":
                return v is not NULL
            if v is not NULL:
                if name == "pop":
                    self.dict_del(ref, args[0])
                return v
            if name == "setdefault":
                value = args[1] if len(args) > 1 else None
                self.dict_set(ref, args[0], value)
                return value
            if name == "__getitem__" or (name == "pop" and len(args) == 1):
                raise Raised(KeyError(args[0]))
            return args[1] if len(args) > 1 else kwargs.get("default")
        if name in ("keys", "values", "items", "__iter__", "__len__", "__reversed__"):
            return getattr(self.dict_view(ref), name)()
        if name == "copy":
            view = self.dict_view(ref)
            return dict(view) if type(ref.obj) is dict else type(ref.obj)(view)
        if name == "__setitem__":
            return self.dict_set(ref, args[0], args[1])
        if name == "__delitem__":
            return self.delitem(ref, args[0])
        if name == "update":
            new: dict = {}
            if args:
                src = self.content(args[0])
                new = self.mapping_of(src) if is_a(src, dict) or mro_lookup(class_of(src), "keys")[0] else dict(self.items_of(src))
            for k, v in {**new, **kwargs}.items():
                self.dict_set(ref, k, v)
            return None
        if name == "clear":
            view = self.dict_view(ref)
            for k in list(view):
                self.dict_del(ref, k)
            return None
        if name == "popitem":
            view = self.dict_view(ref)
            if not view:
                raise Raised(KeyError("popitem(): dictionary is empty"))
            k = list(view)[-1]
            v = view[k]
            self.dict_del(ref, k)
            return k, v
        raise Break(breaks.OBJECT, f"dict.{name}", clean=True)


SAFE_TYPES = {int, bool, str, float, complex, range, slice, bytes, object, frozenset, itertools.repeat, itertools.count}


# ---- one handler per builtin


@builtin(isinstance)
def _isinstance(ev: Any, args: list, kwargs: dict) -> bool:
    v, kinds = args
    kinds = kinds if is_a(kinds, (tuple, types.UnionType)) else (kinds,)
    if any(is_foreign(k) for k in (kinds if is_a(kinds, tuple) else ())):
        raise Break(breaks.OBJECT, "isinstance of a placeholder", clean=True)
    cls = class_of(v)
    for k in kinds if is_a(kinds, tuple) else kinds.__args__:
        if is_a(k, tuple):
            if _isinstance(ev, [v, k], {}):
                return True
        elif not is_a(k, type):
            origin = getattr(k, "__origin__", None)
            if origin is None:
                raise Raised(TypeError("isinstance() arg 2 must be a type, a tuple of types, or a union"))
            if issubclass(cls, origin):
                return True
        elif k.__module__ == "fusegrad.nn.parameter" and type(k) is not type:
            if ev.real(isinstance, v, k):
                return True
        elif issubclass(cls, k):
            return True
    return False


@builtin(issubclass)
def _issubclass(ev: Any, args: list, kwargs: dict) -> bool:
    return ev.real(issubclass, *args)


@builtin(len)
def _len(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.length(args[0])


@builtin(iter)
def _iter(ev: Any, args: list, kwargs: dict) -> Any:
    if len(args) == 2:
        fn, stop = args

        def forever() -> Any:
            while True:
                v = ev.call(fn, [], {})
                if ev.truth(ev.compare("eq", v, stop)):
                    return
                yield v

        return ev.items_of(forever())
    return ev.get_iter(args[0])


@builtin(next)
def _next(ev: Any, args: list, kwargs: dict) -> Any:
    try:
        return ev.next_of(args[0])
    except Raised as e:
        if len(args) > 1 and is_a(e.exc, StopIteration):
            return args[1]
        raise


@builtin(getattr)
def _getattr(ev: Any, args: list, kwargs: dict) -> Any:
    try:
        return ev.getattr(args[0], args[1])
    except Raised as e:
        if len(args) > 2 and is_a(e.exc, AttributeError):
            return args[2]
        raise


@builtin(hasattr)
def _hasattr(ev: Any, args: list, kwargs: dict) -> bool:
    if issubclass(type(args[0]), Tensor) and hasattr(Tensor, args[1]):
        return True
    try:
        ev.getattr(args[0], args[1])
    except Raised as e:
        if is_a(e.exc, AttributeError):
            return False
        raise
    return True


@builtin(setattr)
def _setattr(ev: Any, args: list, kwargs: dict) -> None:
    ev.setattr(*args)


@builtin(delattr)
def _delattr(ev: Any, args: list, kwargs: dict) -> None:
    ev.delattr(*args)


@builtin(id)
def _id(ev: Any, args: list, kwargs: dict) -> Any:
    v = args[0]
    if issubclass(type(v), Foreign) and v.source.kind == "const":
        return id(v.obj)
    inp = ev.cap.input_of.get(id(v))
    if inp is not None:
        if inp.source.kind != "const":
            ev.cap.guard(f"{ev.cap.tok(inp.source)} is {ev.cap.consts.name(inp.real)}", "identity", inp.source.path())
        return id(inp.real)
    if issubclass(type(v), Foreign):
        raise Break(breaks.OBJECT, "id() of an object", clean=True)
    return id(v)


@builtin(hash)
def _hash(ev: Any, args: list, kwargs: dict) -> Any:
    m = ev.user_method(args[0], "__hash__")
    if m is not NULL:
        return ev.call(m, [args[0]], {})
    if is_foreign(args[0]):
        return _id(ev, args, kwargs) >> 4
    return ev.real(hash, args[0])


@builtin(repr)
def _repr(ev: Any, args: list, kwargs: dict) -> Any:
    return _text(ev, args[0], "__repr__", repr)


def _text(ev: Any, v: Any, name: str, fn: Any) -> Any:
    m = ev.user_method(v, name)
    if m is NULL and name == "__str__" and mro_lookup(class_of(v), "__str__")[0] is object:
        m = ev.user_method(v, "__repr__")
    if m is not NULL and not issubclass(class_of(v), (Module, BaseException)):
        return ev.call(m, [v], {})
    v = ev.content(v)
    if issubclass(type(v), Tensor):
        raise Break(breaks.VALUE, "text of a tensor", clean=True)
    if is_a(v, (SymInt, SymFloat)):
        v = int(v) if is_a(v, SymInt) else float(v)
    if is_foreign(v) or type(v).__name__ in ("GenValue", "ForeignMethod", "SuperValue"):
        raise Break(breaks.OBJECT, f"text of a {class_of(v).__name__}", clean=True)
    if type(v) in (list, tuple, dict, set):
        v = _concrete(ev, v)
    return ev.real(fn, v)


def _concrete(ev: Any, v: Any) -> Any:
    t = type(v)
    if t in (list, tuple, set):
        return t(_concrete(ev, x) for x in v)
    if t is dict:
        return {k: _concrete(ev, x) for k, x in v.items()}
    if is_a(v, SymInt):
        return int(v)
    if t is SymFloat:
        return float(v)
    if issubclass(t, Tensor):
        raise Break(breaks.VALUE, "text of a tensor", clean=True)
    if is_foreign(v) and type(v) in (ListRef, DictRef, SetRef):
        return _concrete(ev, ev.content(v))
    if is_foreign(v) or (t.__flags__ & (1 << 9) and not is_a(v, (type, BaseException))):
        raise Break(breaks.OBJECT, f"text of a {class_of(v).__name__}", clean=True)
    return v


@builtin(format)
def _format(ev: Any, args: list, kwargs: dict) -> Any:
    v = args[0]
    spec = args[1] if len(args) > 1 else ""
    if not spec:
        return _text(ev, v, "__str__", str)
    m = ev.user_method(v, "__format__")
    if m is not NULL:
        return ev.call(m, [v, spec], {})
    if is_a(v, SymInt):
        v = int(v)
    return ev.real(format, ev.pure_arg(v), spec)


@builtin(vars)
def _vars(ev: Any, args: list, kwargs: dict) -> Any:
    if len(args) == 1:
        return ev.getattr(args[0], "__dict__")
    raise Break(breaks.CALL, "vars()", clean=True)


@builtin(globals)
def _globals(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.globals_ref(ev.frames[-1].globals)


@builtin(sum)
def _sum(ev: Any, args: list, kwargs: dict) -> Any:
    total = args[1] if len(args) > 1 else kwargs.get("start", 0)
    if is_a(total, str):
        raise Raised(TypeError("sum() can't sum strings [use ''.join(seq) instead]"))
    for v in ev.items_of(args[0]):
        total = ev.binary("add", total, v, False)
    return total


@builtin(any)
def _any(ev: Any, args: list, kwargs: dict) -> bool:
    return any(ev.truth(v) for v in _lazily(ev, args[0]))


@builtin(all)
def _all(ev: Any, args: list, kwargs: dict) -> bool:
    return all(ev.truth(v) for v in _lazily(ev, args[0]))


def _lazily(ev: Any, v: Any) -> Any:
    it = ev.get_iter(v)
    while True:
        try:
            x = ev.next_of(it)
        except Raised as e:
            if is_a(e.exc, StopIteration):
                return
            raise
        yield x


def _extreme(ev: Any, args: list, kwargs: dict, rel: str) -> Any:
    key = kwargs.get("key")
    name = "max" if rel == "gt" else "min"
    items = ev.items_of(args[0]) if len(args) == 1 else args
    if not items:
        if "default" in kwargs and len(args) == 1:
            return kwargs["default"]
        raise Raised(ValueError(f"{name}() arg is an empty sequence"))
    if key is None and all(type(v) is int or is_a(v, SymInt) for v in items) and any(is_a(v, SymInt) for v in items):
        return (sym_max if rel == "gt" else sym_min)(*items)
    best, best_key = NULL, None
    for v in items:
        k = v if key is None else ev.call(key, [v], {})
        if best is NULL or ev.truth(ev.compare(rel, k, best_key)):
            best, best_key = v, k
    return best


@builtin(max)
def _max(ev: Any, args: list, kwargs: dict) -> Any:
    return _extreme(ev, args, kwargs, "gt")


@builtin(min)
def _min(ev: Any, args: list, kwargs: dict) -> Any:
    return _extreme(ev, args, kwargs, "lt")


@builtin(sorted)
def _sorted(ev: Any, args: list, kwargs: dict) -> list:
    items = list(ev.items_of(args[0]))
    ev._sort(items, kwargs)
    return items


@builtin(functools.reduce)
def _reduce(ev: Any, args: list, kwargs: dict) -> Any:
    items = list(ev.items_of(args[1]))
    acc = args[2] if len(args) > 2 else items.pop(0)
    for v in items:
        acc = ev.call(args[0], [acc, v], {})
    return acc


@builtin(math.sqrt)
def _sqrt(ev: Any, args: list, kwargs: dict) -> Any:
    v = args[0]
    if type(v) is SymFloat and v.hint >= 0:
        ev.cap.float_guard(f"({v.code}) >= 0", v.srcs)
        return SymFloat(ev.cap, f"{ev.cap.consts.name(math.sqrt)}({v.code})", math.sqrt(v.hint), v.srcs)
    return ev.real(math.sqrt, ev.pure_arg(v))


def _iter_class(cls: Any) -> Any:
    def h(ev: Any, args: list, kwargs: dict) -> Any:
        return ev.real(cls, *[ev.iterable(a) if k in _ITER_ARGS.get(cls, range(9)) else ev.pure_arg(a) for k, a in enumerate(args)], **kwargs)

    return h


_ITER_ARGS: dict[Any, Any] = {enumerate: (0,), itertools.islice: (0,)}
for _c in (itertools.chain, itertools.product, itertools.zip_longest, itertools.islice, itertools.combinations, itertools.permutations):
    BUILTINS[_c] = _iter_class(_c)


# ---- classes


def cls_handler(*classes: type) -> Any:
    def put(h: Any) -> Any:
        for c in classes:
            CLASSES[c] = h
        return h

    return put


@cls_handler(list, tuple, set, frozenset, collections.deque)
def _sequence(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if not args:
        return ev.real(cls, **kwargs)
    return ev.real(cls, ev.items_of(args[0]), *args[1:], **kwargs)


@cls_handler(dict, collections.OrderedDict)
def _dict(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    out = cls()
    if args:
        src = ev.content(args[0])
        if is_a(src, dict) or mro_lookup(class_of(src), "keys")[0] is not None:
            new: Any = ev.mapping_of(src)
        else:
            new = [ev.items_of(p) for p in ev.items_of(src)]
        ev.real(out.update, new)
    out.update(kwargs)
    return out


@cls_handler(collections.defaultdict)
def _defaultdict(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    factory = args[0] if args else None
    if factory not in (None, list, dict, set, int, float, str, tuple):
        raise Break(breaks.CALL, "defaultdict with an own factory", clean=True)
    out = collections.defaultdict(factory)
    if len(args) > 1:
        out.update(ev.mapping_of(args[1]))
    out.update(kwargs)
    return out


@cls_handler(enumerate)
def _enumerate(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    return enumerate(ev.iterable(args[0]), int(start) if is_a(start, SymInt) else start)


@cls_handler(zip)
def _zip(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.real(zip, *[ev.iterable(a) for a in args], **kwargs)


@cls_handler(map)
def _map(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    rows = zip(*[ev.items_of(a) for a in args[1:]])
    return iter([ev.call(args[0], list(row), {}) for row in rows])


@cls_handler(filter)
def _filter(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    fn = args[0]
    return iter([v for v in ev.items_of(args[1]) if ev.truth(v if fn is None else ev.call(fn, [v], {}))])


@cls_handler(reversed)
def _reversed(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    v = ev.content(args[0])
    m = ev.user_method(v, "__reversed__")
    if m is not NULL:
        return ev.call(m, [v], {})
    if is_foreign(v) or ev.user_method(v, "__getitem__") is not NULL:
        n = ev.length(v)
        return iter([ev.getitem(v, k) for k in range(n - 1, -1, -1)])
    return ev.real(reversed, v)


@cls_handler(range)
def _range(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.real(range, *[int(a) if is_a(a, SymInt) else a for a in args])


@cls_handler(slice)
def _slice(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.real(slice, *args)


@cls_handler(type)
def _type(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if len(args) == 1:
        return class_of(args[0])
    raise Break(breaks.CALL, "a class is made", clean=True)


@cls_handler(super)
def _super(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if len(args) == 2:
        return SuperValue(args[0], args[1])
    from .instr_basic import local, read_cell

    f = ev.frames[-1]
    code = f.program.code
    slot = f.program.slots.index("__class__")
    first = local(ev, f, 0)
    if type(first) in (types.CellType, CellRef):
        first = read_cell(ev, first, code.co_varnames[0])
    return SuperValue(read_cell(ev, local(ev, f, slot), "__class__"), first)


@cls_handler(int, float, bool)
def _number(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if not args:
        return cls()
    v = args[0]
    if cls is bool:
        return ev.truth(v)
    if cls is float and type(v) is SymFloat:
        return v
    if cls is int and is_a(v, SymInt):
        return v
    if issubclass(type(v), Tensor):
        raise Break(breaks.VALUE, f"{cls.__name__}() of a tensor", clean=True)
    m = ev.user_method(v, f"__{cls.__name__}__")
    if m is not NULL:
        return ev.call(m, [v], {})
    return ev.real(cls, *[ev.pure_arg(a) for a in args], **kwargs)


@cls_handler(str)
def _str(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if len(args) == 1 and not kwargs:
        return _text(ev, args[0], "__str__", str)
    return ev.real(str, *args, **kwargs)


@cls_handler(property, staticmethod, classmethod)
def _descriptor(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    raise Break(breaks.CALL, f"a {cls.__name__} is made", clean=True)


@cls_handler(functools.partial)
def _partial(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if is_foreign(args[0]):
        raise Break(breaks.CALL, "partial of an object", clean=True)
    out = functools.partial(*args, **kwargs)
    ev.cap.keep.append(out)
    return out


@cls_handler(types.MethodType)
def _method(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return types.MethodType(*args)


@cls_handler(builtins.object)
def _object(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    out = object()
    ev.cap.keep.append(out)
    return out
