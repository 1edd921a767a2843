"""Attributes: how the evaluator reads them on every kind of value."""

from __future__ import annotations

import enum
import functools
import types
from contextvars import Token
from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.autograd import modes
from fusegrad.families import LazyMethod
from fusegrad.nn.module import Module
from fusegrad.op import Function, Op
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import alike, breaks, class_state, inputs
from .ahead import attribute, is_ahead
from .breaks import Break, Raised
from .class_state import of_metaclass, written
from .handled import TraceOf, history
from .state import fixed_module, is_fixed_class
from .values import (
    NULL,
    CellRef,
    DictRef,
    Foreign,
    ForeignMethod,
    ListRef,
    ObjRef,
    SetRef,
    SuperValue,
    SymFloat,
    class_of,
    is_a,
    keeps_attributes,
    mro_of,
    names_of,
    plain_container,
)  # fmt: skip

NO_TENSOR_ATTRS = {"data_ptr", "untyped_storage", "storage", "_st", "_base", "_version", "__array_interface__",
                   "ctypes", "register_hook", "retain_grad", "register_post_accumulate_grad_hook", "share_memory_",
                   "grad_fn"}  # fmt: skip
PLAIN = (
    types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType, int, float, str, bytes, bool, type(None),
    complex,
    types.MethodType, enum.Enum, np.ufunc, np.dtype, dtypes.dtype, Op, Function,
)  # fmt: skip


def mro_lookup(cls: type, name: str, after: type | None = None) -> tuple[Any, Any]:
    """(class that defines it, the raw attribute) or (None, NULL)."""
    skip = after is not None
    for c in mro_of(cls):
        if skip:
            skip = c is not after
            continue
        d = names_of(c)
        if name in d:
            found = d[name]
            return c, found.found() if type(found) is LazyMethod else found
    return None, NULL


def tell_where(error: AttributeError, obj: Any, name: str) -> None:
    """What Python adds to an AttributeError on its way, unless it is there: the object and the name that was asked."""
    of_name, of_obj = (AttributeError.__dict__[n] for n in ("name", "obj"))  # past names of the user's class
    if of_name.__get__(error) is None and of_obj.__get__(error) is None:
        of_name.__set__(error, name)
        of_obj.__set__(error, obj)


class Objects:
    """Mixin of the evaluator: getattr, special methods."""

    cap: Any
    new_functions: set[int]
    call: Any
    real: Any
    dict_get: Any
    dict_set: Any
    dict_del: Any
    raw_dict: Any

    # ---- reading

    def getattr(self, obj: Any, name: str) -> Any:
        """``obj.name`` as the program would see it."""
        try:
            return self._attr(obj, name)
        except Raised as e:
            if is_a(e.exc, AttributeError):
                tell_where(e.exc, obj, name)
            raise

    def _attr(self, obj: Any, name: str) -> Any:
        t = type(obj)
        if t is ObjRef:
            return self._ref_attr(obj, name)
        if t in (ListRef, DictRef, SetRef):
            return self._container_attr(obj, name)
        if issubclass(t, Tensor):
            return self._tensor_attr(obj, name)
        if t is types.ModuleType:
            return self._module_attr(obj, name)
        if issubclass(t, type):
            return self._class_attr(obj, name)
        if t is SuperValue:
            return self._super_attr(obj, name)
        if t is types.FunctionType or t is types.MethodType:
            return self._function_attr(obj, name)
        if t.__name__ == "GenValue" and name in (_OF_GENERATORS if obj.kind is None else _OF_GENERATORS[:2]):
            return ForeignMethod(obj, name)
        if t.__name__ == "GenValue" and name == "__class__":
            return class_of(obj)
        if t is CellRef or t.__name__ == "GenValue" or issubclass(t, Foreign) or t in (ForeignMethod, Token):
            raise Break(breaks.OBJECT, f"attribute {name!r} of a {class_of(obj).__name__}", clean=True)
        if t is SymFloat or t is SymInt:
            return self._number_attr(obj, name)
        if is_a(obj, enum.Enum) and not is_fixed_class(t):
            return self._member_attr(obj, name)
        if (
            not t.__flags__ & (1 << 9)
            or (is_fixed_class(t) and not issubclass(t, Module))
            or is_a(obj, (enum.Enum, BaseException, TraceOf))
        ):
            return self._plain_attr(obj, name)
        return self._lookup(obj, t, name, lambda n: obj.__dict__.get(n, NULL) if t.__dictoffset__ else NULL)

    def _plain_attr(self, obj: Any, name: str) -> Any:
        """An attribute of an object of Python's own or the library's types, made during capture or immutable."""
        if is_a(obj, (BaseException, TraceOf)):
            trace = history(self, obj, name)
            if trace is not None:
                return trace
        owner, attr = mro_lookup(type(obj), name)
        if type(obj) in _WRAPPERS and name not in _WRAPPED and id(obj) not in self.made and is_a(attr, _STORED):
            raise Break(breaks.OBJECT, f"attribute {name!r} of a {type(obj).__name__}", clean=True)
        if is_a(attr, property) and is_a(attr.fget, types.FunctionType):
            if not (attr.fget.__module__ or "").startswith("fusegrad."):
                return self.call(attr.fget, [obj], {})
        elif is_a(attr, functools.cached_property):
            return self._cached(obj, name, attr, obj.__dict__)
        return self.real(getattr, obj, name)

    def _member_attr(self, obj: Any, name: str) -> Any:
        """An attribute of a member of a user's enum: an object that always existed."""
        cls = type(obj)
        owner, attr = mro_lookup(cls, name)
        if is_a(attr, types.FunctionType):
            if name not in obj.__dict__:
                self.cap.class_guard(cls, name, attr)
                return types.MethodType(attr, obj)
        elif is_a(attr, property) and not is_fixed_class(owner) and is_a(attr.fget, types.FunctionType):
            self.cap.class_guard(cls, name, attr)
            return self.call(attr.fget, [obj], {})
        source = self.cap.const(obj)
        self._absent(obj, name, source)
        value = self.real(getattr, obj, name)
        return self.cap.realize(value, source.attr(name))

    def _absent(self, obj: Any, name: str, source: Any) -> None:
        """A guard that an object has no attribute of its own under a name that its class doesn't have either."""
        if not hasattr(obj, name):
            self.cap.class_guard(type(obj), name, NULL)
            self.cap.guard(f"{name!r} not in {self.cap.tok(source)}.__dict__", "absent", source.path(), name)

    def _cached(self, obj: Any, name: str, attr: Any, store: dict) -> Any:
        if name not in store:
            store[name] = self.call(attr.func, [obj], {})
        return store[name]

    def _number_attr(self, obj: Any, name: str) -> Any:
        """An attribute of a number that changes: of its value, which is fixed by that."""
        if name == "real" or (name == "numerator" and type(obj) is SymInt):
            return obj
        kind = class_of(obj)
        if name == "__class__":
            return kind
        if hasattr(kind, name):
            return getattr(kind(obj), name)
        raise Raised(AttributeError(f"'{kind.__name__}' object has no attribute '{name}'"))

    def _ref_attr(self, ref: ObjRef, name: str) -> Any:
        obj = ref.obj
        cls = type(obj)
        if obj is modes.STATE:  # the thread's modes: guarded as a whole by every entry
            return getattr(obj, name)
        if is_ahead(ref):
            known = attribute(self, ref, name)
            if known is not NULL:
                return known
        if not keeps_attributes(cls):
            return self._lookup(ref, cls, name, lambda n: NULL)
        return self._lookup(ref, cls, name, lambda n: self.dict_get(self.instance_dict(ref), n))

    def instance_dict(self, ref: ObjRef) -> DictRef:
        """The placeholder of an instance's ``__dict__``."""
        if ref.dict is None:
            d, source = class_state.own_dict(ref)
            known = self.cap.by_id.get(id(d))
            if type(known) is DictRef:  # a compiled module shares the dict of the module
                ref.dict = self.cap._again(known, source)
                return ref.dict
            ref.dict = DictRef(d, source)
            ref.dict.owner = ref
            self.cap.refs.append(ref.dict)
            self.cap.by_id[id(d)] = ref.dict
            self.cap.origin[id(ref.dict)] = ref.dict.source
        return ref.dict

    def _module_member(self, ref: ObjRef, cls: type, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in ref.obj.__dict__:
                entries = self.dict_get(self.instance_dict(ref), kind)
                value = self.dict_get(entries, name, quiet=True)
                if value is not NULL:
                    return value
        raise Raised(AttributeError(f"'{cls.__name__}' object has no attribute '{name}'"))

    def _container_attr(self, ref: Any, name: str) -> Any:
        t = type(ref.obj)
        if name == "__class__":
            return t
        owner, attr = mro_lookup(t, name)
        if t.__flags__ & (1 << 9) and not plain_container(ref.obj):
            if is_a(attr, (types.MethodDescriptorType, types.WrapperDescriptorType)):
                return ForeignMethod(ref, name)
            store = self.instance_dict(ref) if t.__dictoffset__ else None
            return self._lookup(ref, t, name, lambda n: NULL if store is None else self.dict_get(store, n))
        if attr is NULL or type(attr) is str:  # the error that says the type's whole name, or ``__doc__``
            return self.real(getattr, ref.obj, name)
        if is_a(attr, types.FunctionType) and not is_fixed_class(t):
            return types.MethodType(attr, ref)
        if is_a(attr, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            return self.cap.realize(getattr(ref.obj, name), ref.source.attr(name))
        return ForeignMethod(ref, name)

    def _tensor_attr(self, t: Tensor, name: str) -> Any:
        inp = self.cap.input_of.get(id(t))
        if inp is not None:
            inp.touched = True
            if name == "grad":
                inputs.sync_grad(self.cap, inp)
        if name in ("__dict__", "__annotations__") or (inp is not None and name == "retains_grad"):
            raise Break(breaks.AUTOGRAD, f"tensor attribute .{name}", clean=True)
        if name in NO_TENSOR_ATTRS and name not in ("register_hook", "retain_grad"):
            if name == "grad_fn" and (not t._rg or (inp is None and t._node is None)):
                return None
            raise Break(breaks.VALUE if name != "grad_fn" else breaks.AUTOGRAD, f"tensor attribute .{name}", clean=True)
        if inp is not None:
            if name in inp.attrs:
                return inp.attrs[name]
            extra = getattr(inp.real, "__dict__", None)
            if extra and name in extra:
                return self.cap.realize(extra[name], inp.source.attr(name))
            if mro_lookup(Tensor, name)[0] is None:
                self._absent(inp.real, name, inp.source)
        elif name in (own := self.cap.attributes.get(id(t), _NOTHING)[1]):
            return own[name]
        attr = mro_lookup(type(t), name)[1]
        if self.cap.by_user():
            self.cap.class_guard(type(t), name, attr)
        if is_a(attr, property) and not _of_library(attr.fget):
            return self.call(attr.fget, [t], {})
        return self.real(getattr, t, name)

    def tensor_special(self, t: type, name: str) -> Any:
        """A special method that the user put in the place of a tensor's own; NULL otherwise."""
        attr = mro_lookup(t, name)[1]
        if self.cap.by_user():
            self.cap.class_guard(t, name, attr)
        return NULL if attr is NULL or _of_library(attr) else attr

    def _module_attr(self, mod: types.ModuleType, name: str) -> Any:
        names = vars(mod)
        called = names["__name__"] if type(names.get("__name__")) is str else ""  # it can be deleted, or be anything
        ref = self.cap.by_id.get(id(names))
        if ref is not None and type(mod) is types.ModuleType and (ref.view is not None or name in ref.writes):
            value = self.dict_get(ref, name)
            if value is not NULL:
                return value
        if not fixed_module(called) and type(mod) is types.ModuleType and "__getattr__" in names:
            source = self.cap.const(names, f"{called}.__dict__")
            if name not in names and not hasattr(types.ModuleType, name):  # the module's own code gives it
                self.cap.guard(f"{name!r} not in {self.cap.tok(source)}", "absent", called, name)
                maker = self.cap.realize(names["__getattr__"], source.item("__getattr__"))
                return self.call(maker, [name], {})
        try:
            value = self.real(getattr, mod, name)
        except Raised:
            c = self.cap.consts
            self.cap.guard(f"_fggetattr({c.name(mod)}, {name!r}, _fgStop) is _fgStop", "library", name)
            raise
        if fixed_module(called):
            if is_a(value, (*_REPLACED, *PLAIN)) and (called in _PATCHED or self.cap.by_user()):
                c = self.cap.consts
                self.cap.guard(f"{c.name(mod)}.{name} is {c.name(value)}", "library", f"{called}.{name}")
            if is_a(value, PLAIN) or type(value).__name__ == "_ArrayFunctionDispatcher":
                if not is_a(value, (type, types.FunctionType)) and callable(value):  # perhaps bound to a hidden object
                    self.cap.origin[id(value)] = self.cap.const(mod, called).attr(name)
                    self.cap.keep.append(value)
                return value
            return self.cap.realize(value, self.cap.const(mod, called).attr(name))
        return self.cap.realize(value, self.cap.const(mod, called).attr(name))

    def _class_attr(self, cls: type, name: str) -> Any:
        owner, attr = mro_lookup(cls, name)
        meta_owner, meta = mro_lookup(type(cls), name)
        if self.cap.class_refs:
            now = written(self.cap, cls, name)
            if now is not NULL:
                return now
        if meta is not NULL and not is_fixed_class(meta_owner) and (attr is NULL or is_a(meta, property)):
            value = of_metaclass(self, cls, name, meta)
            if value is not NULL:
                return value
        if name == "__dict__" and meta is _CLASS_DICT:
            return self._class_dict(cls)
        if attr is NULL or (meta is not NULL and hasattr(type(meta), "__set__")):
            try:
                value = self.real(getattr, cls, name)
            except Raised:
                self.cap.class_guard(cls, name, NULL)
                raise
            if is_a(value, types.MethodType) and value.__self__ is cls:
                return types.MethodType(value.__func__, cls)
            if is_a(value, (type(None), type, types.BuiltinMethodType, types.MethodWrapperType)):
                return value
            if (is_a(value, str) and is_fixed_class(cls)) or id(cls) in self.cap.new_classes:
                return value
            if is_a(value, (tuple, str)):
                return self.cap.realize(value, self.cap.class_source(cls).attr(name))
            raise Break(breaks.OBJECT, f"class attribute {cls.__name__}.{name}", clean=True)
        if issubclass(type(cls), enum.EnumMeta) and name in cls.__members__:
            return getattr(cls, name)
        alike.described(self, cls, name, attr)
        t = type(attr)
        if t in (types.FunctionType, staticmethod, classmethod, property):
            self.cap.class_guard(cls, name, attr)
            if t is classmethod:
                return types.MethodType(attr.__func__, cls)
            return attr.__func__ if t is staticmethod else attr
        if self.users_descriptor(attr, "__get__"):
            return self.call_descriptor(cls, name, attr, "__get__", [None, cls])
        if (is_fixed_class(cls) and is_a(attr, PLAIN)) or self._made_here(cls, name):
            return attr if is_a(attr, type) or not hasattr(t, "__get__") else self.real(getattr, cls, name)
        if hasattr(t, "__get__") and not is_a(attr, type):
            return self.real(getattr, cls, name)
        return self.cap.realize(attr, self.cap.class_source(cls).attr(name))

    def _class_dict(self, cls: type) -> Any:
        """``cls.__dict__``: a read-only view (see read_only); its items are guarded as they are read."""
        if id(cls) in self.cap.class_refs or id(cls) in self.cap.new_classes:
            raise Break(breaks.OBJECT, f"class attribute {cls.__name__}.__dict__", clean=True)
        return self.cap.realize(names_of(cls), self.cap.class_source(cls).attr("__dict__"))

    find = staticmethod(mro_lookup)

    def _function_attr(self, fn: Any, name: str) -> Any:
        if name == "__call__":
            return types.FunctionType.__call__.__get__(fn) if type(fn) is types.FunctionType else fn.__call__
        if type(fn) is types.MethodType:
            if name == "__self__":
                return fn.__self__
            if name == "__func__":
                return fn.__func__
            return self.getattr(fn.__func__, name)
        if id(fn) in self.new_functions:
            if name == "__closure__" and fn.__closure__:  # other cells may stand for those from before
                return tuple(self.cap.by_id.get(id(cell), cell) for cell in fn.__closure__)
            return self.real(getattr, fn, name)
        if name in ("__name__", "__qualname__", "__module__", "__doc__", "__code__"):
            value = getattr(fn, name)
            if not self.cap.by_user() or fixed_module(fn.__globals__.get("__name__")):
                return value
            return self.cap.realize(value, (self.cap.origin.get(id(fn)) or self.cap.const(fn)).attr(name))
        if name == "__get__":
            return getattr(fn, name)
        written = self.cap.by_id.get(id(fn.__dict__))
        if type(written) is DictRef and written.log and not hasattr(types.FunctionType, name):
            value = self.dict_get(written, name)
            if value is NULL:
                raise Raised(AttributeError(f"'function' object has no attribute '{name}'"))
            return value
        source = self.cap.origin.get(id(fn)) or self.cap.const(fn)
        self._absent(fn, name, source)
        return self.cap.realize(self.real(getattr, fn, name), source.attr(name))

    # ---- special methods

    def special(self, obj: Any, name: str) -> Any:
        """A special method looked up on the type, bound; NULL if there is none."""
        t = type(obj)
        cls = class_of(obj)
        owner, attr = mro_lookup(cls, name)
        if attr is NULL or attr is None:
            self.cap.class_guard(cls, name, NULL)
            return NULL
        if is_a(attr, types.FunctionType):
            if not issubclass(t, Foreign) or t is ObjRef:
                self.cap.class_guard(cls, name, attr)
            return types.MethodType(attr, obj)
        alike.described(self, cls, name, attr)
        if t in (ListRef, DictRef, SetRef) or t.__name__ == "GenValue":
            return ForeignMethod(obj, name)
        if self.raw_dict(obj, name) is not None:
            return ForeignMethod(obj, name)
        if issubclass(t, Foreign):
            raise Break(breaks.OBJECT, f"{name} of a {cls.__name__}", clean=True)
        return self.real(getattr, obj, name)


_CLASS_DICT = vars(type)["__dict__"]
_WRAPPERS = (property, staticmethod, classmethod)
_WRAPPED = ("fget", "fset", "fdel", "__func__")  # the rest is asked of the functions, or can be set
_STORED = (types.MemberDescriptorType, types.GetSetDescriptorType)
_PATCHED = ("fusegrad.nn.functional", "fusegrad.nn.init")  # what layers call, and users replace
_REPLACED = (types.FunctionType, types.BuiltinFunctionType, np.ufunc, type, types.ModuleType)


def _of_library(fn: Any) -> bool:
    """Whether a method of tensors is the library's: its Python, or generated."""
    if not is_a(fn, types.FunctionType):
        return True
    return (fn.__module__ or "").split(".")[0] == "fusegrad" or fn.__code__.co_filename.startswith("<fusegrad")


_NOTHING: tuple[None, dict[str, Any]] = (None, {})
_OF_GENERATORS = ("__next__", "__iter__", "send", "throw", "close")
REFS = (ListRef, DictRef, SetRef)
