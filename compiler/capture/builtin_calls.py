"""Calls of builtins, C functions and methods of containers."""

from __future__ import annotations

import bisect
import collections
import contextvars
import functools
import math
import operator
import re
import string
import sys
import types
from typing import Any

import numpy as np

from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks, texts
from .acting import refuse_acting
from .ahead import compute, is_array
from .breaks import Break, Raised
from .context import context_method
from .contracts import by_place, check_arguments
from .handled import TraceOf, history
from .objects import mro_lookup
from .searches import SEARCHES, searched
from .shown import concrete
from .subclasses import plain_value
from .values import (
    NULL,
    DictRef,
    Foreign,
    ForeignMethod,
    ListRef,
    ObjRef,
    SetRef,
    SymFloat,
    class_of,
    fixed_key,
    is_a,
    is_foreign,
    module_of,
)  # fmt: skip

BUILTINS: dict[Any, Any] = {}
_STOPPING = ("issuperset", "isdisjoint", "issubset", "intersection", "intersection_update")
_NUMBERED = "insert pop rotate __mul__ __rmul__ __imul__ __getitem__ __setitem__ __delitem__".split()
_CONTAINERS = (list, tuple, dict, set, frozenset, range, str, bytes)
# Pure functions of Python numbers and strings: real on constants, a break on tensors (DataDependentError).
PURE: set[Any] = {
    abs, divmod, pow, round, ord, chr, hex, bin, oct, ascii, bisect.bisect_left, bisect.bisect_right,
    *(f for f in vars(math).values() if is_a(f, types.BuiltinFunctionType)),
    *(f for f in vars(operator).values() if is_a(f, types.BuiltinFunctionType)),
}  # fmt: skip
READS = {  # methods of dict, list, set, str, tuple, ... that change nothing
    "get", "keys", "values", "items", "copy", "index", "count", "__len__", "__getitem__", "__contains__", "__iter__",
    "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint", "__eq__",
    "__ne__",
    "__reversed__",
}  # fmt: skip


def builtin(*fns: Any) -> Any:
    def put(h: Any) -> Any:
        for f in fns:
            BUILTINS[f] = h
        return h

    return put


def _stays(cls: type) -> bool:
    """Whether a module holds a class under its own name."""
    return getattr(sys.modules.get(module_of(cls)), cls.__name__, None) is cls


class BuiltinCalls:
    """Mixin of the evaluator."""

    cap: Any
    real: Any
    call: Any
    raw_dict: Any

    def call_builtin(self, fn: Any, args: list, kwargs: dict) -> Any:
        """Call a C function, method or type."""
        try:
            h = BUILTINS.get(fn)
        except TypeError:
            h = None
        if h is not None:
            check_arguments(fn, args, kwargs)
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
        v = self.ordered(v)
        t = type(v)
        if t is SymFloat:
            return v.fixed()
        if issubclass(t, (Foreign, TraceOf, ForeignMethod)):
            raise Break(breaks.OBJECT, f"a {class_of(v).__name__} is passed to a builtin", clean=True)
        if t in (types.FunctionType, types.MethodType):
            return self.callback(v)
        refuse_acting("a builtin is given", v)
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
        if is_a(kind, functools.partial):  # with keywords
            name, rest, words = kind.args[0], list(parts), kind.keywords
        else:
            name, rest, words = parts[0], list(parts[1:]), {}
        return self.call(self.getattr(args[0], name), rest, words)

    def _descriptor_call(self, fn: Any, args: list, kwargs: dict) -> Any:
        """``list.append(x, 1)``, ``object.__setattr__(self, ...)``, ``tuple.__new__(...)``."""
        me, rest, name = args[0], args[1:], fn.__name__
        if fn is object.__setattr__:
            return self.set_plain(me, rest[0], rest[1])
        if fn is object.__getattribute__:
            t = class_of(me)
            inst = (
                (lambda n: self.dict_get(self.instance_dict(me), n))
                if type(me) is ObjRef
                else (lambda n: vars(me).get(n, NULL))
            )
            return self.lookup_plain(me, t, rest[0], inst)
        if fn is object.__init__ and not rest:
            return None
        if fn is object.__init_subclass__ or name == "__delattr__":
            raise Break(breaks.CALL, name, clean=True)
        if type(me) in (ListRef, DictRef, SetRef):
            return self.foreign_method(ForeignMethod(me, name), rest, kwargs)
        raw = self.raw_dict(me, name, fn)
        if raw is not None:
            return self.dict_method(raw, name, rest, kwargs)
        if is_foreign(me):
            raise Break(breaks.OBJECT, f"{name} of a {class_of(me).__name__}", clean=True)
        if type(me) in (SymInt, SymFloat):
            me = self.cap.show(me)
        elif type(me) is ForeignMethod:
            raise Break(breaks.OBJECT, f"{name} of a method of an object", clean=True)
        if not is_a(me, fn.__objclass__):
            raise Break(breaks.CALL, f"{name} of another class", clean=True)
        return self.call_builtin(fn.__get__(me), rest, kwargs)  # not ``me``'s own: its class may have another

    def _builtin_method(self, fn: Any, me: Any, args: list, kwargs: dict) -> Any:
        """A method of an object made during capture, or of an immutable one."""
        t, name = type(me), fn.__name__
        known = self.cap.by_id.get(id(me))
        if known is not None and is_foreign(known):
            return self.foreign_method(ForeignMethod(known, name), args, kwargs)
        if name == "__get__" and is_a(fn, types.MethodWrapperType):
            return self.get_described(me, *args)
        if is_a(me, type):
            return self._class_method(fn, me, name, args, kwargs)
        if t is collections.deque or issubclass(t, (list, dict, set)):
            return self._container_method(fn, me, args, kwargs)
        if t is str or t is bytes:
            return self._text_method(fn, me, args, kwargs)
        if (
            t in (tuple, int, float, bool, frozenset, range, complex, type(None), slice, SymInt)
            or issubclass(t, (tuple, BaseException))
            or module_of(type(me)) == "builtins"
            or t in (re.Pattern, re.Match, np.ndarray)
            or is_a(me, np.generic)
        ):
            return self._value_method(fn, me, args, kwargs)
        if issubclass(t, Tensor):
            return self.library(fn, args, kwargs)
        if t.__flags__ & (1 << 9) and fn.__qualname__.startswith("object."):
            if name == "__setattr__":
                return self.set_plain(me, args[0], args[1])
            if name in ("__init__", "__eq__", "__ne__"):
                return self.real(fn, *args)
        return self._draw(me, name, args, kwargs)

    def _draw(self, me: Any, name: str, args: list, kwargs: dict) -> Any:
        """A method of a generator of random numbers or of an array, or a break."""
        from .drawing import draw_number

        array = is_array(me)
        out = compute(self, name, [me, *args], kwargs) if array else draw_number(self, me, name, args, kwargs)
        if out is not NULL:
            return out
        raise Break(breaks.CALL, f"method {name} of a {class_of(me).__name__}", clean=True)

    def _operator_method(self, me: Any, name: str, other: Any) -> Any:
        """``me.__or__(other)`` and the like, called by name, of a container from before: as ``me | other`` has it."""
        base = next(b for b in (set, dict, list, object) if isinstance(me, b))
        if class_of(other) is not base:
            raise Break(breaks.CALL, f"__{name}__ of containers of different classes", clean=True)
        if name in _COMPARED:
            return self.compare(name, me, other)
        if name[0] == "r":
            return self.binary(_BINARY[name[1:]], other, me, False)
        return self.binary(_BINARY[name.removeprefix("i")], me, other, name[0] == "i")

    def _container_method(self, fn: Any, me: Any, args: list, kwargs: dict) -> Any:
        """A method of a list, dict, set or deque that captured code made."""
        t, name = type(me), fn.__name__
        if name in _OPERATORS and args and type(args[0]) in (SetRef, DictRef, ListRef):
            return self._operator_method(me, name.strip("_"), args[0])
        if name in _NUMBERED and not issubclass(t, (dict, set)):
            refuse_acting(f"{name} reads", *args[:1], names=("__index__",))
        if name in ("extend", "update", "union", "intersection", "difference", "symmetric_difference", "issubset",
                    "issuperset", "isdisjoint", "extendleft", "difference_update", "intersection_update",
                    "__init__",
                    "__iadd__"):  # fmt: skip
            if issubclass(t, set):
                if name in _STOPPING and len(args) == 1 and not issubclass(class_of(args[0]), _CONTAINERS):
                    from .reductions import keys

                    return self.real(fn, keys(self, args[0]))
                if name in _BY_ITEM and not kwargs:
                    put = getattr(set, _BY_ITEM[name])
                    for a in args:
                        if _any_set(a) or not self.one_by_one(a, lambda x: self.real(put, me, self.key(x))):
                            self.real(fn, [self.key(x) for x in self.set_items(a)])
                    return None
                args = [[self.key(x) for x in self.set_items(a)] for a in args]
            else:
                args = [self._mapped(a) if issubclass(t, dict) else self._added(me, a) for a in args]
        elif name == "sort":
            if args or not {"key", "reverse"}.issuperset(kwargs):
                raise Break(breaks.CALL, "sort with arguments that it does not take", clean=True)
            return self._sort(me, kwargs)
        elif name in SEARCHES and args and not issubclass(t, (dict, set)):
            return searched(self, fn, me, args)
        elif name == "__getitem__" and issubclass(t, dict) and self.user_method(me, "__missing__") is not NULL:
            if not dict.__contains__(me, self.key(args[0])):
                return self.call(self.user_method(me, "__missing__"), [me, args[0]], {})
        elif name == "setdefault" or name == "get" or name == "pop":
            if args and issubclass(t, dict):
                self.key_of(args[0])
                args = [self.key(args[0]), *args[1:]]
        elif issubclass(t, (set, frozenset)) and args:
            args = [self.key(args[0]), *args[1:]]
        return self.real(fn, *args, **kwargs)

    def _text_method(self, fn: Any, me: Any, args: list, kwargs: dict) -> Any:
        """A method of a str or bytes."""
        name = fn.__name__
        if name == "join":
            if len(args) != 1 or kwargs or mro_lookup(class_of(args[0]), "__iter__")[0] is None:
                raise Break(breaks.CALL, "join of what it does not take", clean=True)
            items = [plain_value(self.cap, v) for v in self.items_of(args[0])]
            parts = [v for item in items for v in (me, item)][1:]
            text = texts.joined(self, parts) if type(me) is str else None
            return self.real(fn, items) if text is None else text
        if name in ("format", "format_map", "__mod__"):
            return self._format_method(me, name, args, kwargs)
        a = [concrete(self, self.pure_arg(a)) for a in args]
        return self.real(fn, *a, **{k: concrete(self, self.pure_arg(v)) for k, v in kwargs.items()})

    def _value_method(self, fn: Any, me: Any, args: list, kwargs: dict) -> Any:
        """A method of a number, tuple, array or other value of Python's own types."""
        t, name = type(me), fn.__name__
        if is_a(me, BaseException):
            history(self, me, name)
        if is_a(me, (np.ndarray, np.generic)):  # numpy would make an array of objects
            args = [concrete(self, self.pure_arg(v)) for v in args]
            kwargs = {k: concrete(self, self.pure_arg(v)) for k, v in kwargs.items()}
        if t is property and name != "__get__":  # p.setter(f)
            return self.note_new(self.real(fn, *args))
        if name in SEARCHES and args and issubclass(t, tuple):
            return searched(self, fn, me, args)
        args = [self.pure_arg(a) for a in args]
        if t in (int, float, bool, complex):  # they know plain numbers alone
            args = [fixed_key(a) for a in args]
        elif t is frozenset:
            self.tell_apart(*(x for a in args for x in (a if type(a) in (list, tuple, set, frozenset) else (a,))))
        return self.real(fn, *args, **kwargs)

    def _added(self, me: Any, items: Any) -> Any:
        """What a list or deque is extended with; real code knows the container itself, and takes a copy first."""
        if self.content(items) is me:
            return me
        out = self.iterable(items)
        if issubclass(type(me), list):
            self._ask_length(items)
        return out

    def _format_method(self, text: str, name: str, args: list, kwargs: dict) -> Any:
        """``"...".format(...)``: objects give their text, numbers their value."""
        try:
            parts = list(string.Formatter().parse(text)) if name == "format" and type(text) is str else []
        except ValueError:
            parts = []
        bare = all(not spec and not how and not {".", "["} & set(at or "") for _, at, spec, how in parts)

        def field(v: Any) -> Any:
            own = self.user_method(v, "__format__") is not NULL
            if is_foreign(v) or own or self.user_method(v, "__str__") is not NULL:
                if own or not bare:
                    raise Break(breaks.OBJECT, f"{name} with a {class_of(v).__name__}", clean=True)
                return self.call(str, [v], {})
            return concrete(self, v)

        if name == "format" and not kwargs and type(text) is str:
            call = f"{text!r}".replace("{", "{{").replace("}", "}}") + f".format({', '.join(['{}'] * len(args))})"
            made = texts.formatted(self, args, call, text.format)
            if made is not None:
                return made
        return self.real(getattr(text, name), *[field(a) for a in args], **{k: field(v) for k, v in kwargs.items()})

    def _class_method(self, fn: Any, cls: type, name: str, args: list, kwargs: dict) -> Any:
        if name == "__new__":
            target, rest = args[0], args[1:]
            if cls is object:
                return self.real(object.__new__, target, *rest, **kwargs)
            if cls in (tuple, frozenset, list, dict, set, int, float, str):
                conv = [self.items_of(a) if cls in (tuple, frozenset) else self.pure_arg(a) for a in rest]
                return self.real(fn, target, *conv)
        if name == "fromkeys" and issubclass(cls, dict):
            return self._from_keys(fn, cls, args, kwargs)
        if cls in (int, float, str, bytes, type, object) or name in ("mro", "__instancecheck__"):
            return self.real(fn, *[self.pure_arg(a) for a in args], **kwargs)
        if name == "__subclasses__" and not args and not kwargs:
            return self._subclasses(cls)
        raise Break(breaks.CALL, f"{cls.__name__}.{name}", clean=True)

    def _subclasses(self, cls: type) -> list:
        out: list = type.__subclasses__(cls)
        new = self.cap.new_classes | self.cap.alike.keys()
        if any(id(c) in new or not _stays(c) for c in (cls, *out)):  # code that names a class would keep it alive
            raise Break(breaks.CALL, f"{cls.__name__}.__subclasses__", clean=True)
        name = self.cap.consts.name
        self.cap.guard(f"[*map(_fgid, {name(cls)}.__subclasses__())] == {name([*map(id, out)])}", "class", cls.__name__)
        self.cap.consts.name(tuple(out))  # their ids stay theirs
        return out

    def _from_keys(self, fn: Any, cls: type, args: list, kwargs: dict) -> Any:
        ordered = issubclass(cls, collections.OrderedDict)
        args, kwargs = by_place(args, kwargs, ("iterable", "value") if ordered else ())
        if kwargs or not 1 <= len(args) <= 2:
            self.real(fn, *[()] * len(args), **kwargs)
            raise Break(breaks.CALL, "fromkeys with other arguments", clean=True)
        out = self.call_class(cls, [], {})
        for k in self.items_of(args[0]):
            self.setitem(out, k, args[1] if len(args) > 1 else None)
        return out

    def _sort(self, items: list, kwargs: dict) -> None:
        key = kwargs.get("key")
        if key is None:
            if any(self.user_method(v, "__lt__") is not NULL for v in items):
                kwargs = {**kwargs, "key": lambda v: _Ordered(self, v)}
        else:
            call = self.callback(key)
            kwargs = {**kwargs, "key": lambda v: _Ordered(self, call(v))}
        self.real(items.sort, **kwargs)

    # ---- containers that existed before

    def _mapped(self, a: Any) -> Any:
        """What a dict is filled with."""
        own = class_of(a).__flags__ & (1 << 9) and mro_lookup(class_of(a), "keys")[0] is not None
        return self.mapping_of(a) if own else self.iterable(a)

    def foreign_method(self, m: ForeignMethod, args: list, kwargs: dict) -> Any:
        """Call a method of a pre-existing container or of a generator."""
        ref, name = m.ref, m.name
        if type(ref) is ListRef:
            return self.list_method(ref, name, args, kwargs)
        if type(ref) is DictRef:
            return self.dict_method(ref, name, args, kwargs)
        if type(ref) is SetRef:
            view = self.set_view(ref)
            if name == "pop" and len(view) > 1:
                raise Break(breaks.CALL, "pop of a set", clean=True)
            if name in _CHANGE_SETS:
                return self.change_set(ref, name, args, kwargs)
            if name not in READS:
                raise Break(breaks.CALL, f"method {name} of a set", clean=True)
            return self.call_builtin(getattr(view, name), args, kwargs)
        if class_of(ref) is contextvars.ContextVar:
            return context_method(self, ref, name, args, kwargs)
        raw = self.raw_dict(ref, name)
        if raw is not None:
            return self.dict_method(raw, name, args, kwargs)
        plain = plain_value(self.cap, ref)
        if plain is not ref:
            return self.call(self.getattr(plain, name), args, kwargs)
        if is_foreign(ref):
            return self._draw(ref, name, args, kwargs)
        if name == "send":
            return ref.resume(args[0])
        if name == "throw":
            return ref.throw_in(args[1] if len(args) > 1 and args[1] is not None else args[0])
        if name == "close":
            return ref.close_in()
        if name == "__next__":
            return ref.resume(None)
        return ref

    def _set_pair(self, ref: DictRef, pair: Any) -> None:
        items = self.items_of(pair) if mro_lookup(class_of(pair), "__iter__")[0] else ()
        if len(items) != 2:
            raise Break(breaks.CALL, "dict.update of what are no pairs")
        self.dict_set(ref, *items)

    def change_set(self, ref: SetRef, name: str, args: list, kwargs: dict | None = None) -> Any:
        """Call a method that changes a set from before, here and later for real."""
        if name in ("add", "remove", "discard"):
            args = [self.key(a) for a in args]
        elif name in _BY_ITEM and not kwargs:
            for a in args:
                if _any_set(a) or not self.one_by_one(a, lambda x: self.change_set(ref, _BY_ITEM[name], [x])):
                    self._change_set(ref, name, [[self.key(x) for x in self.set_items(a)]], {})
            return None
        else:
            args = [[self.key(x) for x in self.set_items(a)] for a in args]
        return self._change_set(ref, name, args, kwargs or {})

    def _change_set(self, ref: SetRef, name: str, args: list, kwargs: dict) -> Any:
        out = self.call_builtin(getattr(self.set_view(ref), name), args, kwargs)
        ref.log.append((name, args))
        return out

    def _check_arity(self, ref: Any, name: str, args: list, kwargs: dict) -> None:
        """Python's own TypeError for arguments that a method done by hand does not take."""
        low, high = _ARITY.get(name, (0, 99))
        if type(ref.obj) is collections.OrderedDict and name in ("popitem", "move_to_end"):
            return  # they take `last`
        low += name == "pop" and type(ref) is DictRef
        takes_names = name == "update" or (name == "pop" and type(ref.obj) is collections.OrderedDict)
        if not low <= len(args) <= high or (kwargs and not takes_names and name != "sort"):
            self.real(getattr(type(ref.obj)(), name), *[None] * len(args), **dict.fromkeys(kwargs))

    def list_method(self, ref: ListRef, name: str, args: list, kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        self._check_arity(ref, name, args, kwargs)
        if name == "__setitem__":
            self.real(operator.setitem, self.list_items(ref), *args)
            ref.dirty = True
            return None
        if name == "extend" and self.one_by_one(
            args[0], lambda x: self.list_method(ref, "append", [x]), type(ref.obj) is not collections.deque
        ):
            return None
        if name in ("append", "extend") and ref.items is None:
            more = args if name == "append" else self.items_of(args[0])
            if ref.items is None and self.takes_unread(ref, len(more)):  # what comes may have read it
                ref.tail.extend(more)
                return None
            if name == "extend":
                args = [more]
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
        if type(ref.obj) is collections.OrderedDict and name in _ORDERED:
            args, kwargs = by_place(args, kwargs, _ORDERED[name])
        self._check_arity(ref, name, args, kwargs)
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
            if type(ref.obj) is collections.defaultdict:
                return collections.defaultdict(ref.obj.default_factory, view)
            return type(ref.obj)(view) if type(ref.obj) is collections.OrderedDict else dict(view)
        if name == "__setitem__":
            return self.dict_set(ref, args[0], args[1])
        if name == "__delitem__":
            return self.delitem(ref, args[0])
        if name == "update":
            new: dict = {}
            if args:
                src = self.content(args[0])
                if not (is_a(src, dict) or mro_lookup(class_of(src), "keys")[0]):
                    if self.one_by_one(src, lambda pair: self._set_pair(ref, pair)):
                        src = []
                new = (
                    self.mapping_of(src)
                    if is_a(src, dict) or mro_lookup(class_of(src), "keys")[0]
                    else self.pairs_of(src)
                )
            for k, v in {**new, **kwargs}.items():
                self.dict_set(ref, k, v)
            return None
        if name == "clear":
            view = self.dict_view(ref)
            for k in list(view):
                self.dict_del(ref, k)
            return None
        ordered = type(ref.obj) is collections.OrderedDict
        if name == "move_to_end" and ordered and (len(args) < 2 or args[1] is True) and ref.view is None:
            v = self.dict_get(ref, args[0])
            if v is NULL:
                raise Raised(KeyError(args[0]))
            self.dict_del(ref, args[0])
            return self.dict_set(ref, args[0], v)
        if name == "popitem":
            view = self.dict_view(ref)
            if not view:
                raise Raised(KeyError("dictionary is empty" if ordered else "popitem(): dictionary is empty"))
            k = list(view)[-1 if (*args, *kwargs.values(), True)[0] else 0]
            v = view[k]
            self.dict_del(ref, k)
            return k, v
        raise Break(breaks.OBJECT, f"dict.{name}", clean=True)


class _Ordered:
    """A value that sorts as the program compares it."""

    __slots__ = ("ev", "value")

    def __init__(self, ev: Any, value: Any) -> None:
        self.ev, self.value = ev, value

    def __lt__(self, other: Any) -> bool:
        try:
            return self.ev.truth(self.ev.compare("lt", self.value, other.value))
        except Raised as e:
            raise e.exc from None


def _any_set(v: Any) -> bool:
    """Whether sets read it directly, past an ``__iter__`` of its class."""
    return issubclass(class_of(v), (set, frozenset))


_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
_BINARY = {"or": "or_", "and": "and_", "sub": "sub", "xor": "xor"}
_OPERATORS = {f"__{w}{n}__" for n in _BINARY for w in ("", "i", "r")} | {f"__{n}__" for n in _COMPARED}
_BY_ITEM = {"update": "add", "difference_update": "discard"}
_CHANGE_SETS = {"add", "remove", "discard", "pop", "clear", "update", "intersection_update", "difference_update",
                "symmetric_difference_update"}  # fmt: skip
_ORDERED = {"pop": ("key", "default"), "setdefault": ("key", "default"), "popitem": ("last",),
            "move_to_end": ("key", "last")}  # fmt: skip
_ARITY = {"append": (1, 1), "extend": (1, 1), "get": (1, 2), "pop": (0, 2), "setdefault": (1, 2), "__getitem__": (1, 1),
          "__contains__": (1, 1), "__len__": (0, 0), "keys": (0, 0), "values": (0, 0), "items": (0, 0), "copy": (0, 0),
          "clear": (0, 0), "popitem": (0, 0), "__setitem__": (2, 2), "__delitem__": (1, 1), "update": (0, 1),
          "__iter__": (0, 0), "__reversed__": (0, 0)}  # fmt: skip
SAFE_TYPES = {int, bool, str, float, complex, range, slice, bytes, object, frozenset}
