"""Special methods of values: the user's functions, and what stands in their place."""

from __future__ import annotations

import types
from typing import Any

from fusegrad.tensor import Tensor

from . import breaks
from .breaks import Break, Raised
from .objects import REFS, mro_lookup
from .state import is_fixed_class
from .values import NULL, class_of, is_a, plain_container


class SpecialMethods:
    """Mixin of the evaluator."""

    cap: Any
    tensor_special: Any

    def user_method(self, obj: Any, name: str) -> Any:
        """A special method written in Python (not the library's own of tensors); NULL otherwise."""
        t = type(obj)
        if t in _FAST_TYPES or (t in REFS and plain_container(obj.obj)):
            return NULL
        if issubclass(t, Tensor):
            return self.tensor_special(t, name)
        owner, attr = mro_lookup(class_of(obj), name)
        if is_a(attr, types.FunctionType):
            self.cap.class_guard(class_of(obj), name, attr)
            return attr
        if attr is NULL:
            self.cap.class_guard(class_of(obj), name, NULL)
        elif not is_fixed_class(owner) and not is_a(attr, _IN_C):
            return self._odd_method(class_of(obj), name, attr)
        else:
            self.cap.class_guard(class_of(obj), name, attr)
        return NULL

    def _odd_method(self, cls: type, name: str, attr: Any) -> Any:
        """A special method that is no function."""
        if attr is not None:
            raise Break(breaks.OBJECT, f"{cls.__name__}.{name} is no function", clean=True)
        self.cap.class_guard(cls, name, attr)
        if name == "__hash__":
            raise Raised(TypeError(f"unhashable type: '{cls.__name__}'"))
        if name in _TEXT_OF_NONE:
            raise Raised(TypeError(f"'{cls.__name__}' object {_TEXT_OF_NONE[name]}"))
        return None  # calling it is Python's TypeError


_IN_C = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType,
         types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType)  # fmt: skip
_TEXT_OF_NONE = {
    "__iter__": "is not iterable",
    "__contains__": "is not a container",
    "__reversed__": "is not reversible",
}
_FAST_TYPES = {int, float, str, bool, type(None), list, tuple, dict, set, frozenset, bytes,
               slice, range, types.FunctionType}  # fmt: skip
