"""The lookup of attributes on instances, as Python does it: descriptors, the instance, ``__getattr__``, ``super()``."""

from __future__ import annotations

import enum
import functools
import threading
import types
from typing import Any

from fusegrad.nn.module import Module

from . import alike, breaks, class_state
from .breaks import Break, Raised
from .class_state import written
from .objects import PLAIN, REFS, mro_lookup
from .state import is_fixed_class
from .std_python import dispatched_method
from .values import (
    DELETED,
    NULL,
    Foreign,
    ForeignMethod,
    ObjRef,
    SuperValue,
    class_of,
    is_a,
    is_foreign,
    module_of,
)  # fmt: skip


class Lookup:
    """Mixin of the evaluator."""

    cap: Any
    call: Any
    real: Any
    getattr: Any
    dict_set: Any
    dict_view: Any
    instance_dict: Any
    _cached: Any
    _module_member: Any

    def _lookup(self, obj: Any, cls: type, name: str, inst: Any) -> Any:
        """Python's attribute lookup on an instance; ``inst(name)`` reads the instance dict."""
        if (
            name == "__class__"
            and mro_lookup(cls, name)[0] is object
            and not class_state.hooked(cls, "__getattribute__")
        ):
            return cls
        if name == "__doc__" and type(mro_lookup(cls, name)[1]) in (str, types.NoneType) and inst(name) is NULL:
            return cls.__doc__
        owner, hook = mro_lookup(cls, "__getattribute__")
        if owner is not object and not (type(hook) is types.WrapperDescriptorType and _plain_lookup(owner, cls)):
            if not is_a(hook, types.FunctionType):
                raise Break(breaks.OBJECT, f"{cls.__name__} has a __getattribute__ of its own", clean=True)
            self.cap.class_guard(cls, "__getattribute__", hook)
            find = functools.partial(self.call, hook, [obj, name], {})
        else:
            self.cap.class_guard(cls, "__getattribute__", hook)
            find = functools.partial(self._found, obj, cls, name, inst)
        try:
            value = find()
        except Raised as e:  # also one that a property raised
            if not issubclass(class_of(e.exc), AttributeError) or mro_lookup(cls, "__getattr__")[1] is NULL:
                raise
            value = NULL
        return self._fallback(obj, cls, name) if value is NULL else value

    def _fallback(self, obj: Any, cls: type, name: str) -> Any:
        """What ``__getattr__`` gives where the lookup failed; without it the error."""
        ga = mro_lookup(cls, "__getattr__")[1]
        self.cap.class_guard(cls, "__getattr__", ga)
        if is_a(ga, types.FunctionType):
            if ga is Module.__getattr__ and type(obj) is ObjRef:
                return self._module_member(obj, cls, name)
            return self.call(ga, [obj, name], {})
        if ga is not NULL:
            return self.call_hook(cls, "__getattr__", ga, [obj, name])
        if not cls.__flags__ & (1 << 9) and type(obj) is ObjRef:  # of C code: the error says its whole name
            self.real(getattr, obj.obj, name)
            raise Break(breaks.OBJECT, f"attribute {name!r} of a {cls.__name__}", clean=True)
        raise Raised(AttributeError(f"'{cls.__name__}' object has no attribute '{name}'"))

    def lookup_plain(self, obj: Any, cls: type, name: str, inst: Any) -> Any:
        """``object.__getattribute__``: without ``__getattr__``."""
        value = self._found(obj, cls, name, inst)
        if value is NULL:
            raise Raised(AttributeError(f"'{cls.__name__}' object has no attribute '{name}'", name=name, obj=obj))
        return value

    def _found(self, obj: Any, cls: type, name: str, inst: Any) -> Any:
        """The attribute that the class and the instance have; NULL if neither has one."""
        owner, attr = mro_lookup(cls, name)
        kind = type(attr)
        if attr is not NULL and hasattr(kind, "__get__") and (hasattr(kind, "__set__") or hasattr(kind, "__delete__")):
            return self._descriptor(obj, cls, name, attr)
        v = inst(name)
        if v is not NULL:
            return v
        if self.cap.class_refs:
            v = written(self.cap, cls, name)
            if v is not NULL:
                return v
        if attr is not NULL:
            return self._bind(obj, cls, name, attr)
        self.cap.class_guard(cls, name, NULL)
        return NULL

    def call_hook(self, cls: type, which: str, hook: Any, args: list) -> Any:
        """Call a ``__getattr__`` and the like that is no Python function: ``__getattr__ = dict.__getitem__``."""
        if not is_a(hook, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            raise Break(breaks.OBJECT, f"{cls.__name__} has a {which} that is no function", clean=True)
        return self.call(hook, args, {})

    def _descriptor(self, obj: Any, cls: type, name: str, attr: Any) -> Any:
        if is_a(attr, property):
            self.cap.class_guard(cls, name, attr)
            if attr.fget is None:
                self.real(attr.__get__, obj.obj if is_foreign(obj) else obj)  # its error
            return self.call(attr.fget, [obj], {})
        if self.users_descriptor(attr, "__get__"):
            return self.call_descriptor(cls, name, attr, "__get__", [obj, cls])
        if name == "__dict__" and is_foreign(obj):
            return self.instance_dict(obj)
        if type(obj) in REFS:  # a slot of a container's class
            raise Break(breaks.OBJECT, f"descriptor {cls.__name__}.{name}", clean=True)
        if type(obj) is not ObjRef:
            self.cap.class_guard(cls, name, attr)
            read = object.__getattribute__ if class_state.hooked(cls, "__getattribute__") else getattr
            return self.real(read, obj, name)
        if is_a(attr, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            if name in obj.slots:
                if obj.slots[name] is DELETED:
                    raise Raised(AttributeError(name))
                return obj.slots[name]
            hook = class_state.hooked(cls, "__getattribute__")  # it was asked before, and reads what the object keeps
            try:
                value = object.__getattribute__(obj.obj, name) if hook else getattr(obj.obj, name)
            except AttributeError as e:
                raise Break(breaks.OBJECT, f"unset slot {name}", clean=True) from e
            at = (
                obj.source.call(f"_fgown({{}}, {name!r})", f"{obj.source.name}.{name}")
                if hook
                else obj.source.attr(name)
            )
            return self.cap.realize(value, at)
        raise Break(breaks.OBJECT, f"descriptor {cls.__name__}.{name}", clean=True)

    @staticmethod
    def users_descriptor(attr: Any, how: str) -> bool:
        """Whether ``how`` (``__get__``, ``__set__``, ``__delete__``) of a class attribute is the user's code."""
        t = type(attr)
        if t in _DESCRIPTORS or module_of(t).split(".")[0] == "fusegrad":
            return False  # of Python's own library others may call the user's functions, too
        return is_a(mro_lookup(t, how)[1], types.FunctionType)

    def call_descriptor(self, cls: type, name: str, attr: Any, how: str, args: list) -> Any:
        """Call the user's code of a class attribute that is a descriptor."""
        fn = mro_lookup(type(attr), how)[1]
        self.cap.class_guard(cls, name, attr)
        self.cap.class_guard(type(attr), how, fn)
        for setter in ("__set__", "__delete__") if how == "__get__" else ():  # with one it goes before the instance's
            self.cap.class_guard(type(attr), setter, mro_lookup(type(attr), setter)[1])
        source = self.cap.alike.get(id(mro_lookup(cls, name)[0]))  # of a class made anew: so is this
        source = self.cap.const(attr) if source is None else source.attr("__dict__").item(name)
        me = attr if self._made_here(cls, name) else self.cap.realize(attr, source)
        return self.call(fn, [me, *args], {})

    def _bind(self, obj: Any, cls: type, name: str, attr: Any) -> Any:
        """A class attribute seen through an instance."""
        t = type(attr)
        alike.described(self, cls, name, attr)
        if t is types.FunctionType:
            self.cap.class_guard(cls, name, attr)
            return types.MethodType(attr, obj)
        if t is classmethod:
            self.cap.class_guard(cls, name, attr)
            return types.MethodType(attr.__func__, cls)
        if t is staticmethod:
            self.cap.class_guard(cls, name, attr)
            return attr.__func__
        if t is functools.cached_property:
            if type(obj) is ObjRef:
                value = self.call(attr.func, [obj], {})
                self.dict_set(self.instance_dict(obj), name, value)
                return value
            return self._cached(obj, name, attr, obj.__dict__)
        if self.users_descriptor(attr, "__get__"):
            return self.call_descriptor(cls, name, attr, "__get__", [obj, cls])
        if not hasattr(t, "__get__"):
            self.cap.class_guard(t, "__get__", NULL)
        if t is functools.singledispatchmethod and type(obj) is not ObjRef:
            raise Break(breaks.OBJECT, f"descriptor {cls.__name__}.{name}", clean=True)
        if t in (functools.partialmethod, functools.singledispatchmethod) and type(obj) is ObjRef:
            return self._made_method(obj, cls, name, attr)
        if t is functools.partialmethod or (hasattr(t, "__get__") and t not in PLAIN and not issubclass(t, type)):
            if type(obj) is ObjRef and (t is types.MethodDescriptorType or t.__name__ == "cython_function_or_method"):
                return ForeignMethod(obj, name)  # the call is for real
            if type(obj) is ObjRef:
                raise Break(breaks.OBJECT, f"descriptor {cls.__name__}.{name}", clean=True)
            return self.real(getattr, obj, name)
        if (is_fixed_class(cls) and is_a(attr, PLAIN)) or self._made_here(cls, name):
            return attr
        return self.cap.realize(attr, self.cap.class_source(cls).attr(name))

    def get_described(self, attr: Any, obj: Any, cls: Any = None) -> Any:
        """``attr.__get__(obj, cls)`` of one of Python's own descriptors."""
        t = type(attr)
        if obj is None and cls is not None and t in (types.FunctionType, property):
            return attr
        if t is types.FunctionType:
            return types.MethodType(attr, obj)
        if t is property and attr.fget is not None:
            return self.call(attr.fget, [obj], {})
        if t is staticmethod:
            return attr.__func__
        if t is classmethod:
            return types.MethodType(attr.__func__, class_of(obj) if cls is None else cls)
        kind = class_of(obj)
        if not class_state.hooked(kind, "__getattribute__") and mro_lookup(kind, attr.__name__)[1] is attr:
            return self.getattr(obj, attr.__name__)
        raise Break(breaks.OBJECT, f"__get__ of a {t.__name__}", clean=True)

    def _made_method(self, obj: Any, cls: type, name: str, attr: Any) -> Any:
        """A method that ``functools`` made: of a partialmethod, or one for each type of the first argument."""
        self.cap.class_guard(cls, name, attr)
        if type(attr) is functools.singledispatchmethod:
            return functools.partial(dispatched_method, attr, obj, cls)
        if type(attr.func) is not types.FunctionType:
            raise Break(breaks.OBJECT, f"descriptor {cls.__name__}.{name}", clean=True)
        source = self.cap.const(attr)
        given = self.cap.realize(attr.args, source.attr("args"))
        named = self.dict_view(self.cap.realize(attr.keywords, source.attr("keywords")))
        return functools.partial(types.MethodType(attr.func, obj), *given, **named)

    def _made_here(self, cls: type, name: str) -> bool:
        """Whether an attribute is that of a class which the captured code made: a value, not an object from before."""
        return bool(self.cap.new_classes) and id(mro_lookup(cls, name)[0]) in self.cap.new_classes

    def make_super(self, cls: Any, obj: Any) -> SuperValue:
        """``super(cls, obj)``."""
        if not issubclass(type(cls), type):
            raise Raised(TypeError(f"super() argument 1 must be a type, not {class_of(cls).__name__}"))
        if cls not in class_of(obj).__mro__ and not (issubclass(type(obj), type) and cls in obj.__mro__):
            raise Break(breaks.OBJECT, f"super of {cls.__name__} and an object of another class", clean=True)
        return SuperValue(cls, obj)

    def _super_attr(self, s: SuperValue, name: str) -> Any:
        obj = s.obj
        is_class = issubclass(type(obj), type) and s.cls in obj.__mro__  # else in a method of a metaclass
        start = obj if is_class else class_of(obj)
        owner, attr = mro_lookup(start, name, after=s.cls)
        if name == "__class__":
            return super
        if attr is NULL:
            self.cap.class_guard(start, name, NULL)
            if name in ("__self__", "__thisclass__", "__self_class__"):
                return obj if name == "__self__" else s.cls if name == "__thisclass__" else start
            if hasattr(super, name):
                raise Break(breaks.OBJECT, f"attribute {name!r} of a super", clean=True)
            raise Raised(AttributeError(f"'super' object has no attribute '{name}'"))
        t = type(attr)
        alike.described(self, owner, name, attr)
        self.cap.bases_guard(start)
        for c in start.__mro__[start.__mro__.index(s.cls) + 1 :]:
            if c is owner:
                break
            if not is_fixed_class(c):
                cls_text = self.cap.consts.name(c)
                self.cap.guard(f"{name!r} not in {cls_text}.__dict__", "class", f"{c.__name__}.{name}")
        if hasattr(t, "__get__"):  # else the value is guarded as it is read
            self.cap.class_guard(owner, name, attr)
        if t is types.FunctionType:
            return attr if is_class else types.MethodType(attr, obj)
        if t is classmethod:
            return types.MethodType(attr.__func__, start)
        if t is staticmethod:
            return attr.__func__
        if t is property:
            return self.call(attr.fget, [obj], {})
        if owner is object or t in (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType):
            if name == "__new__":
                return attr
            if type(obj) is ObjRef or issubclass(type(obj), Foreign) or (name in _OF_CLASSES and owner is type):
                return functools.partial(attr, obj)
            return attr.__get__(obj)
        if id(owner) in self.cap.new_classes:
            return attr
        now = written(self.cap, owner, name) if self.cap.class_refs else NULL
        return self.cap.realize(attr, self.cap.class_source(owner).attr(name)) if now is NULL else now


def _plain_lookup(owner: type, cls: type) -> bool:
    """A builtin type whose attribute lookup is the ordinary one: in the dict of the thread, too, if making that in a
    guard runs no ``__init__`` of the user's."""
    if owner is threading.local:
        return mro_lookup(cls, "__init__")[0] is object
    return not owner.__flags__ & (1 << 9) and not issubclass(owner, (type, types.ModuleType, super))


_DESCRIPTORS = (functools.cached_property, functools.partialmethod, functools.singledispatchmethod, enum.property)
_OF_CLASSES = ("__call__", "__setattr__")
