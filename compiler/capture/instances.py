"""Calls of classes: how captured code makes objects, modules, parameters and exceptions."""

from __future__ import annotations

import abc
import collections
import io
import types
from typing import Any

from fusegrad.nn.module import Module
from fusegrad.nn.parameter import Buffer, Parameter
from fusegrad.tensor import Tensor

from . import breaks
from .alike import absent
from .breaks import Break, Raised, Refuse
from .calls import INLINE
from .class_state import instantiate, is_plain_dict
from .contracts import check_arguments, result_of
from .objects import mro_lookup
from .state import is_fixed_class
from .values import (
    NULL,
    class_of,
    fixed_key,
    is_a,
    is_foreign,
    module_of,
)

CLASSES: dict[type, Any] = {}
_SILENT = (io.BytesIO, io.StringIO)  # nobody sees that they are closed


class Instances:
    """Mixin of the evaluator."""

    cap: Any
    calls: int

    def call_class(self, cls: type, args: list, kwargs: dict) -> Any:
        """Instantiate a class."""
        handler = CLASSES.get(cls)
        if handler is not None:
            check_arguments(cls, args, kwargs)
            return handler(self, cls, args, kwargs)
        if issubclass(cls, BaseException) and not self._python_init(cls):
            if issubclass(cls, (OSError, BaseExceptionGroup, UnicodeError)):  # they look at what they are given
                args = [fixed_key(self.content(a)) for a in args]
            return self.real(cls, *args, **kwargs)
        module = module_of(cls)
        if module.startswith("fusegrad.autograd.modes"):
            return self.real(cls, *args, **kwargs)
        if module.startswith("fusegrad") and not issubclass(cls, Module) and not (module + ".").startswith(INLINE):
            if cls.__name__ in ("Size", "device", "finfo", "iinfo"):
                return self.real(cls, *[self.content(a) for a in args], **kwargs)
            raise Break(breaks.CALL, f"call of {cls.__name__}", clean=True)
        if cls in (Parameter, Buffer):
            return self.note_new(self.library(cls, args, kwargs))
        if issubclass(cls, Tensor) or (issubclass(cls, Module) and not _made_here(cls)):
            raise Break(breaks.CALL, f"a {cls.__name__} is made", clean=True)
        return self._instantiate(cls, args, kwargs)

    def _python_init(self, cls: type) -> bool:
        return any(is_a(mro_lookup(cls, n)[1], (types.FunctionType, staticmethod)) for n in ("__init__", "__new__"))

    def _instantiate(self, cls: type, args: list, kwargs: dict) -> Any:
        import enum

        meta = type(cls)
        if issubclass(meta, enum.EnumMeta):
            args = [fixed_key(a) for a in args]
            looked_up = len(args) == 1 and not kwargs and cls.__members__
            if looked_up and not any(args[0] is m or args[0] == m._value_ for m in cls.__members__.values()):
                hook = mro_lookup(cls, "_missing_")[0]
                if hook is not None and not is_fixed_class(hook):
                    raise Break(breaks.OBJECT, f"{cls.__name__}._missing_ is asked", clean=True)
            return self.real(cls, *args, **kwargs)
        if meta not in (type, abc.ABCMeta):
            if mro_lookup(meta, "__call__")[0] is not type:
                return instantiate(self, cls, args, kwargs)
            self.cap.class_guard(meta, "__call__", type.__call__)
        return self.make_instance(cls, args, kwargs)

    def make_instance(self, cls: type, args: list, kwargs: dict) -> Any:
        """``type.__call__``: ``__new__``, then ``__init__``."""
        if (
            mro_lookup(cls, "__del__")[1] is not NULL and cls not in _SILENT
        ):  # captured objects may live longer than they would
            raise Refuse(breaks.FRAME, f"a {cls.__name__} is made, which has a __del__")
        if not is_plain_dict(mro_lookup(cls, "__dict__")[1]):
            raise Refuse(breaks.FRAME, f"a {cls.__name__} is made, which says itself what its __dict__ is")
        owner, new = mro_lookup(cls, "__new__")
        init = mro_lookup(cls, "__init__")[1]
        self._inherited(cls, new, init)
        if not is_a(init, types.FunctionType) and not is_a(new, (staticmethod, types.FunctionType)):
            if cls.__flags__ & (1 << 9) and owner is object and init is object.__init__:
                obj = self.real(cls, *args, **kwargs)
                self.cap.keep.append(obj)
                return obj
            if owner in (dict, list) and cls.__flags__ & (1 << 9):
                return self._filled(cls, owner, args, kwargs)
            if owner is not object:
                return self.call_builtin(cls, args, kwargs)
        self.calls += 1
        if is_a(new, staticmethod):
            new = new.__func__
        if is_a(new, types.FunctionType):
            self.cap.class_guard(cls, "__new__", mro_lookup(cls, "__new__")[1])
            obj = self.call(new, [cls, *args], kwargs)
            if not issubclass(class_of(obj), cls):
                return obj
        elif owner is object:
            if getattr(cls, "__abstractmethods__", None):
                return self.real(cls)
            obj = object.__new__(cls)
            if issubclass(cls, Module):
                self.note_new(obj)
        elif owner in (dict, list, set, BaseException, Exception) or issubclass(cls, BaseException):
            obj = self.real(owner.__new__, cls, *([] if owner in (dict, list, set) else args))
        elif owner is tuple or owner in (int, str, float):
            obj = self.call_builtin(owner.__new__, [cls, *args], kwargs)
        else:
            raise Break(breaks.OBJECT, f"a {cls.__name__} is made", clean=True)
        self.cap.keep.append(obj)
        if is_a(init, types.FunctionType):
            self.cap.class_guard(cls, "__init__", init)
            result_of("__init__", self.call(init, [obj, *args], kwargs))
        elif init is not object.__init__ and owner is not tuple:
            self.call_builtin(init, [obj, *args], kwargs)
        return obj

    def note_new(self, obj: Any) -> Any:
        """A module or parameter is made: if it outlives the captured code, it is made for real instead."""
        if self.outer is not None:
            self.made[id(obj)] = self.outer
            self.cap.keep.append(obj)
        return obj

    def _inherited(self, cls: type, new: Any, init: Any) -> None:
        """A class without a ``__new__`` or ``__init__`` of its own must not get one."""
        if cls.__flags__ & (1 << 9):
            for name, found in (("__new__", new), ("__init__", init)):
                if id(cls) in self.cap.alike:
                    absent(self.cap, cls, name)
                elif found is vars(object)[name]:
                    c = self.cap.consts
                    self.cap.guard(f"{c.name(cls)}.{name} is {c.name(getattr(object, name))}", "class", cls.__name__)

    def _filled(self, cls: type, base: Any, args: list, kwargs: dict) -> Any:
        """An instance of a subclass of dict or list that has no constructor of its own."""
        kind = next(c for c in cls.__mro__ if not c.__flags__ & (1 << 9))
        check_arguments(kind, args, kwargs)
        content = CLASSES[base](self, base, args, kwargs)
        self.calls += 1
        out = base.__new__(cls)
        if issubclass(cls, collections.OrderedDict):  # keeps the order apart, and fills itself item by item
            if mro_lookup(cls, "__setitem__")[0] is not collections.OrderedDict:
                raise Break(breaks.OBJECT, f"a {cls.__name__} is made")
            for k, v in content.items():
                collections.OrderedDict.__setitem__(out, k, v)
        else:
            (dict.update if base is dict else list.extend)(out, content)
        self.cap.keep.append(out)
        return out

    def as_exception(self, v: Any, what: str = "exceptions") -> BaseException:
        """The exception to raise for ``raise v`` (or ``raise ... from v``: ``what`` is "exception causes")."""
        kind = v if is_a(v, type) and issubclass(v, BaseException) else None
        if kind is not None:
            v = self.call(v, [], {})
        if not issubclass(class_of(v), BaseException):
            if kind is not None and what != "exceptions":
                raise Refuse(breaks.EXCEPT, "a cause whose class gives no exception")  # each Python has its own answer
            if kind is not None:
                of = "should have returned an instance of BaseException"
                raise Raised(TypeError(f"calling {kind!r} {of}, not {class_of(v)!r}"))
            raise Raised(TypeError(f"{what} must derive from BaseException"))
        if is_foreign(v):
            raise Break(breaks.EXCEPT, "raise of an exception from before the break", clean=True)
        return v


def _made_here(cls: type) -> bool:
    """Whether captured code may make a module of this class: its attributes are stored as by `nn.Module`."""
    return mro_lookup(cls, "__setattr__")[1] is Module.__setattr__ and type(cls) in (type, abc.ABCMeta)
