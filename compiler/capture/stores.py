"""Attributes: how the evaluator writes them on every kind of value."""

from __future__ import annotations

import enum
import threading
import types
from typing import Any

from fusegrad.autograd import modes
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor

from . import breaks, inputs
from .breaks import Break, Raised
from .class_state import set_attr
from .handled import set_history
from .objects import REFS, mro_lookup
from .state import fixed_module
from .values import (
    NULL,
    CellRef,
    Foreign,
    ForeignMethod,
    ObjRef,
    SuperValue,
    class_of,
    is_a,
    is_foreign,
    keeps_attributes,
    plain_container,
)


def _plain_hook(hook: Any, name: str) -> bool:
    """Whether a special method is Python's own of that name, of ``object`` or of a C type."""
    return is_a(hook, types.WrapperDescriptorType) and hook.__name__ == name


class Stores:
    """Mixin of the evaluator: setattr, delattr."""

    cap: Any
    new_functions: set[int]
    call: Any
    real: Any
    dict_get: Any
    dict_set: Any
    dict_del: Any
    instance_dict: Any
    users_descriptor: Any
    call_descriptor: Any
    call_hook: Any

    def setattr(self, obj: Any, name: str, value: Any) -> None:
        """``obj.name = value``; on pre-existing objects an effect."""
        t = type(obj)
        if issubclass(t, Tensor):
            return self._set_tensor_attr(obj, name, value)
        if (
            t in (types.ModuleType, types.MethodType)
            or issubclass(t, type)
            or (issubclass(t, Foreign) and t is not ObjRef)
        ):
            if t is CellRef and name == "cell_contents":
                obj.value, obj.dirty = value, True
                return None
            if t in REFS and not plain_container(obj.obj) and type(obj.obj).__dictoffset__:
                hook = mro_lookup(type(obj.obj), "__setattr__")[1]
                if is_a(hook, types.FunctionType):
                    self.call(hook, [obj, name, value], {})
                    return None
                if not _plain_hook(hook, "__setattr__"):
                    self.call_hook(type(obj.obj), "__setattr__", hook, [obj, name, value])
                    return None
                if mro_lookup(type(obj.obj), name)[0] is None:
                    return self.dict_set(self.instance_dict(obj), name, value)
            if issubclass(t, type):
                return set_attr(self, obj, name, value)
            if t is types.ModuleType and not name.startswith("__") and not fixed_module(vars(obj).get("__name__")):
                return self.dict_set(self.globals_ref(vars(obj)), name, value)
            raise Break(
                breaks.OBJECT, f"attribute {name!r} of {getattr(obj, '__name__', 'an object')} is set", clean=True
            )
        if t is types.FunctionType and id(obj) not in self.new_functions:
            if hasattr(types.FunctionType, name):
                raise Break(breaks.OBJECT, f"attribute {name!r} of function {obj.__name__} is set", clean=True)
            return self.dict_set(self.function_dict(obj), name, value)
        if self._itself(obj):
            raise Break(breaks.OBJECT, f"attribute {name!r} of a {t.__name__} is set", clean=True)
        if t in (SuperValue, ForeignMethod) or t.__name__ == "GenValue":
            raise Break(breaks.OBJECT, f"attribute {name!r} of a {class_of(obj).__name__} is set", clean=True)
        cls = class_of(obj)
        if t is ObjRef and obj.obj is modes.STATE and name in ("grad", "inference", "asked"):
            if name == "grad":
                modes.set_grad(value)
            else:
                setattr(modes.STATE, name, value)
            return None
        owner, hook = mro_lookup(cls, "__setattr__")
        self.cap.class_guard(cls, "__setattr__", hook)
        if hook is Module.__setattr__ and t is ObjRef:
            return self._set_module_attr(obj, cls, name, value)
        if is_a(hook, types.FunctionType):
            self.call(hook, [obj, name, value], {})
            return None
        if not _plain_hook(hook, "__setattr__"):
            self.call_hook(cls, "__setattr__", hook, [obj, name, value])
            return None
        return self.set_plain(obj, name, value)

    def function_dict(self, fn: Any) -> Any:
        """The placeholder of the attributes of a function that existed before."""
        source = self.cap.origin.get(id(fn)) or self.cap.const(fn)
        return self.cap.realize(fn.__dict__, source.attr("__dict__"))

    def _itself(self, obj: Any) -> bool:
        """Whether an object existed before and has no placeholder: it is itself here, or a copy stands for it."""
        return is_a(obj, enum.Enum) or (not is_foreign(obj) and id(obj) in self.cap.origin)

    def set_plain(self, obj: Any, name: str, value: Any) -> None:
        """``object.__setattr__``."""
        if is_a(obj, BaseException) and set_history(obj, name, value):
            return None
        cls = class_of(obj)
        owner, attr = mro_lookup(cls, name)
        if attr is NULL:
            self.cap.class_guard(cls, name, NULL)
        if is_a(attr, property):
            if attr.fset is None:
                self.real(attr.__set__, obj.obj if is_foreign(obj) else obj, None)  # its error
            self.cap.class_guard(cls, name, attr)
            self.call(attr.fset, [obj, value], {})
        elif self.users_descriptor(attr, "__set__"):
            self.call_descriptor(cls, name, attr, "__set__", [obj, value])
        elif type(obj) is ObjRef:
            if is_a(attr, types.MemberDescriptorType) and attr.__objclass__.__flags__ & (1 << 9):  # takes any value
                obj.slots[name] = value
            elif attr is not NULL and hasattr(type(attr), "__set__"):
                raise Break(breaks.OBJECT, f"descriptor {cls.__name__}.{name} is set", clean=True)
            elif keeps_attributes(type(obj.obj)):
                self.dict_set(self.instance_dict(obj), name, value)
            else:
                raise Break(breaks.OBJECT, f"attribute {name!r} is set", clean=True)
        else:
            self.real(object.__setattr__, obj, name, value)

    def _set_module_attr(self, ref: ObjRef, cls: type, name: str, value: Any) -> None:
        from fusegrad.nn.parameter import Buffer, Parameter

        owner, attr = mro_lookup(cls, name)
        d = self.instance_dict(ref)
        if is_a(value, (Parameter, Buffer)) or issubclass(class_of(value), Module):
            raise Break(breaks.OBJECT, f"parameter or module {name!r} is set", clean=True)
        if attr is not NULL and hasattr(type(attr), "__set__"):
            return self.set_plain(ref, name, value)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in ref.obj.__dict__:
                entries = self.dict_get(d, kind)
                if self.dict_get(entries, name, quiet=True) is not NULL:
                    if kind == "_buffers" and (value is None or is_a(value, Tensor)):
                        return self.dict_set(entries, name, value)
                    raise Break(breaks.OBJECT, f"{kind[1:-1]} {name!r} is replaced", clean=True)
        return self.dict_set(d, name, value)

    def _set_tensor_attr(self, t: Tensor, name: str, value: Any) -> None:
        inp = self.cap.input_of.get(id(t))
        if name == "grad":
            if inp is not None and not inp.grad_synced:  # overwritten unread: any gradient may stand there
                inp.grad_synced, inp.grad_before = True, inputs.UNREAD
            if value is not None and not is_a(value, Tensor):
                raise Break(breaks.AUTOGRAD, ".grad is set", clean=True)
            self.real(setattr, t, name, value)
        elif name == "requires_grad":
            if value is True:
                inputs.outside_of_transforms(self, "requires_grad_")
            if inp is None:
                self.real(setattr, t, name, value)
            elif inp.real._node is not None:
                raise Raised(RuntimeError("you can only change requires_grad flags of leaf variables."))
            else:
                inputs.set_requires_grad(self, inp, value)
        elif name == "data":
            inputs.set_data(self, t, value)
        elif is_a(attr := mro_lookup(class_of(t), name)[1], property) and attr.fset is None:
            self.real(setattr, t, name, value)  # the error
        elif inp is None and attr is NULL and type(t) is Tensor and self.cap.builder.is_mine(t):
            self.cap.attributes.setdefault(id(t), (t, {}))[1][name] = value
        elif inp is None:
            raise Break(breaks.AUTOGRAD, f"tensor attribute .{name} is set", clean=True)
        else:
            inp.attrs[name] = value

    def delattr(self, obj: Any, name: str) -> None:
        t = type(obj)
        owner, attr = mro_lookup(class_of(obj), name)
        own, hook = mro_lookup(class_of(obj), "__delattr__")
        self.cap.class_guard(class_of(obj), "__delattr__", hook)
        if own in (object, Module) and attr is not NULL and self._del_described(obj, name, attr):
            return None
        if t is ObjRef and own in (object, threading.local) and keeps_attributes(type(obj.obj)):
            d = self.instance_dict(obj)
            if self.dict_get(d, name) is NULL:
                raise Raised(AttributeError(f"'{type(obj.obj).__name__}' object has no attribute '{name}'"))
            return self.dict_del(d, name)
        if not is_a(hook, types.FunctionType) and not _plain_hook(hook, "__delattr__"):
            return self.call_hook(class_of(obj), "__delattr__", hook, [obj, name])
        if is_a(hook, types.FunctionType) and not issubclass(class_of(obj), (Tensor, type, Module)):
            self.call(hook, [obj, name], {})
            return None
        if issubclass(t, (Foreign, Tensor, type)) or t in (types.ModuleType, types.FunctionType) or self._itself(obj):
            raise Break(breaks.OBJECT, f"del of attribute {name!r}", clean=True)
        return self.real(delattr, obj, name)

    def _del_described(self, obj: Any, name: str, attr: Any) -> bool:
        """``del obj.name`` where the class has a descriptor that decides what it means; False if it has none."""
        cls = class_of(obj)
        if is_a(attr, property):
            self.cap.class_guard(cls, name, attr)
            if attr.fdel is None:
                self.real(attr.__delete__, obj.obj if is_foreign(obj) else obj)  # its error
            self.call(attr.fdel, [obj], {})
            return True
        if self.users_descriptor(attr, "__delete__"):
            self.call_descriptor(cls, name, attr, "__delete__", [obj])
            return True
        if hasattr(type(attr), "__set__") and (is_foreign(obj) or self.users_descriptor(attr, "__set__")):
            raise Break(breaks.OBJECT, f"del of attribute {name!r}", clean=True)
        return False
