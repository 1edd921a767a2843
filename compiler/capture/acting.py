"""Values on which C code would run the user's Python: special methods of objects that captured code made.

Such code must not run during capture: its effects would happen once, and what it reads would not be guarded. The graph
breaks there, and the C code runs for real at every call.
"""

from __future__ import annotations

import collections
import types
from typing import Any

from fusegrad.nn.module import Module
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks
from .breaks import Break
from .state import fixed_module, is_fixed_class
from .values import Foreign, ForeignMethod, ObjRef, SymFloat, is_a, names_of

HASHES = ("__hash__", "__eq__")
_READS = ("__index__", "__int__", "__float__", "__len__", "__iter__", "__getitem__", "__bool__", "__array__")
_QUIET = {"__init__", "__new__", "__init_subclass__", "__set_name__", "__class_getitem__", "__post_init__", "__call__",
          "__repr__", "__enter__", "__exit__", "__getattr__", "__setattr__", "__delattr__"}  # fmt: skip
_PLAIN = (int, float, str, bool, type(None), bytes, SymInt, SymFloat, types.FunctionType, type)


def acts(v: Any, names: tuple[str, ...] | None = None, depth: int = 3) -> bool:
    """Whether ``v``, or something in it, has a special method of the user's (one of ``names``)."""
    t = type(v)
    if issubclass(t, type):  # by its metaclass
        return names is not None and t is not type and has_methods(t, names)
    if t in _PLAIN or issubclass(t, (Tensor, Foreign, Module)):
        return False
    if issubclass(t, (list, tuple, set, frozenset, collections.deque)):
        if depth and any(acts(x, names, depth - 1) for x in _base(t).__iter__(v) if type(x) not in _PLAIN):
            return True
    elif issubclass(t, dict) and depth:
        if any(acts(x, names, depth - 1) for kv in dict.items(v) for x in kv if type(x) not in _PLAIN):
            return True
    return bool(t.__flags__ & (1 << 9)) and has_methods(t, names)


def _base(t: type) -> Any:
    """The builtin type that keeps the items: the user's class may iterate in its own way."""
    return next(c for c in t.__mro__ if not c.__flags__ & (1 << 9))


def has_methods(t: type, names: tuple[str, ...] | None) -> bool:
    for c in t.__mro__:
        if is_fixed_class(c):
            continue
        made = "__dataclass_fields__" in names_of(c)
        for name, fn in names_of(c).items():
            wanted = name in names if names else name.startswith("__") and name not in _QUIET
            if not wanted or not is_a(fn, types.FunctionType) or fixed_module(fn.__module__):
                continue  # the standard library put the last ones there: namedtuple, Enum
            if not (made and fn.__code__.co_filename == "<string>"):
                return True
    return False


def refuse_acting(what: str, *values: Any, names: tuple[str, ...] | None = None) -> None:
    """A break if one of the values acts."""
    for v in values:
        if acts(v, names):
            raise Break(breaks.OBJECT, f"{what} an object with special methods ({type(v).__name__})", clean=True)


def refuse_key(v: Any) -> None:
    """A break if a key's hash or comparison is the user's code."""
    if type(v) is ObjRef and has_methods(type(v.obj), HASHES):
        raise Break(breaks.OBJECT, f"a key is an object with special methods ({type(v.obj).__name__})", clean=True)
    if type(v) is ForeignMethod:
        raise Break(breaks.OBJECT, f"a key is a method of an object ({v.name})", clean=True)
    refuse_acting("a key is", v, names=HASHES)


def refuse_read(what: str, *values: Any) -> None:
    """A break if the library would read an object that is a number or a sequence by the user's code."""
    refuse_acting(what, *values, names=_READS)
