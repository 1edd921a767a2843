"""What can be seen after a call, as plain data: objects numbered in the order a fixed walk meets them.

The walk reads attributes without running code of the user (no properties, no ``__getattr__``, no ``repr``). Two
processes that did the same give the same list, whatever their addresses. What is compared of each kind of object, and
what is not, is told in docs/verification.md.
"""

from __future__ import annotations

import collections
import functools
import io
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fusegrad.autograd.handles import RemovableHandle
from fusegrad.autograd.node import Severed
from fusegrad.nn.parameter import Parameter
from fusegrad.place import Size
from fusegrad.tensor import Tensor

__all__ = ["State", "describe", "history", "says_by_itself", "tensors_of"]

LIMIT = 100_000  # objects looked at
_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented), range, slice)
_OURS = ("_epoch", "version", "_dynamic_dims", "_static_dims")  # what the compiler keeps in objects of the user
# nobody should ask whether these are the same object: constants, and what is made anew at each look
_NO_IDENTITY = (tuple, Size, frozenset, types.MethodType, np.dtype, *np.sctypeDict.values())
# shown by code of the library alone
_SILENT = (type, Tensor, Parameter, np.ndarray, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_STD = frozenset(sys.stdlib_module_names)


class State:
    """The objects of a walk: ``items[k]`` = (path, kind, data, numbers of the parts)."""

    def __init__(self) -> None:
        self.items: list[tuple[str, str, Any, tuple[int, ...]]] = []
        self.complete = True

    def __getstate__(self) -> Any:
        return self.items, self.complete

    def __setstate__(self, value: Any) -> None:
        self.items, self.complete = value


class _Walk:
    def __init__(self, original: Callable[[Any], Any]) -> None:
        self.state = State()
        self.original = original
        self.known: dict[Any, int] = {}
        self.keep: list[Any] = []
        self.queue: collections.deque[tuple[int, str, Any]] = collections.deque()
        self.tensors: list[tuple[int, Tensor]] = []

    def number(self, obj: Any, path: str) -> int:
        """The number of an object; new ones are put into the queue."""
        alike = type(obj) in _ATOMS or type(obj) in _NO_IDENTITY
        if not alike:
            found = self.known.get(id(obj))
            if found is not None:
                return found
        k = len(self.state.items)
        if k >= LIMIT:
            self.state.complete = False
            return -1
        self.state.items.append((path, "", None, ()))
        if not alike:
            self.known[id(obj)] = k
        self.keep.append(obj)
        self.queue.append((k, path, obj))
        return k

    def run(self) -> None:
        while self.queue:
            k, path, obj = self.queue.popleft()
            kind, data, parts = self.look(obj, path)
            self.state.items[k] = (path, kind, data, tuple(self.number(v, f"{path}{name}") for name, v in parts))
            if isinstance(obj, Tensor) and obj._data is not None:
                self.tensors.append((k, obj))

    # -- one object: (kind, plain data, [(name, part)])
    def look(self, obj: Any, path: str) -> tuple[str, Any, list[tuple[str, Any]]]:
        t = type(obj)
        if t in _ATOMS:
            return t.__name__, repr(obj) if t in (range, slice) else _plain(obj), []
        if isinstance(obj, Tensor):
            return self.tensor(obj)
        if isinstance(obj, np.ndarray):
            return _array_kind(t), (obj.dtype.str, obj.shape, _steps(obj), _contents(obj)), []
        if isinstance(obj, (np.generic, np.dtype)):
            return t.__name__, obj.item() if isinstance(obj, np.generic) else str(obj), []
        if isinstance(obj, (list, tuple, collections.deque)):
            parts = [(f"[{i}]", v) for i, v in enumerate(obj)] if t.__iter__ in _ITERS else []
            return _name(t), len(parts), parts + self.attributes(obj)
        if isinstance(obj, dict):
            items = (collections.OrderedDict if isinstance(obj, collections.OrderedDict) else dict).items(obj)
            parts = [p for i, (key, v) in enumerate(items) for p in ((f".key{i}", key), (_item(key), v))]
            return _name(t), len(parts), parts + self.attributes(obj)
        if isinstance(obj, (set, frozenset)):
            return _name(t), (len(obj), sorted(repr(v) for v in obj if type(v) in _ATOMS)), self.attributes(obj)
        return self.other(obj, t)

    def other(self, obj: Any, t: type) -> tuple[str, Any, list[tuple[str, Any]]]:
        if isinstance(obj, types.FunctionType):
            return self.function(self.original(obj) or obj)
        if isinstance(obj, types.MethodType):
            return "method", obj.__func__.__qualname__, [(".__self__", obj.__self__), (".__func__", obj.__func__)]
        if isinstance(obj, functools.partial):
            return _name(t), None, [(".func", obj.func), (".args", obj.args), (".keywords", obj.keywords)]
        if isinstance(obj, types.CellType):
            return "cell", None, [("", obj.cell_contents)] if _filled(obj) else []
        if isinstance(obj, type):
            return self.klass(obj)
        if isinstance(obj, (types.ModuleType, types.BuiltinFunctionType)):
            return t.__name__, obj.__name__, []
        if isinstance(obj, io.StringIO):
            return _name(t), None if obj.closed else (obj.getvalue(), obj.tell()), []
        if isinstance(obj, BaseException):
            return _name(t), None, [(".args", obj.args), *self.attributes(obj)]
        if (
            _library(t) and not _fusegrad(t) or isinstance(obj, RemovableHandle)
        ):  # a handle's number counts all hooks ever made
            return _name(t), None, []
        return _name(t), None, self.attributes(obj)

    def tensor(self, t: Tensor) -> tuple[str, Any, list[tuple[str, Any]]]:
        a = t._data
        if a is None:
            return "tensor without data", None, []
        data = (a.dtype.str, a.shape, _steps(a), *history(t), t._extra is not None and t._extra.inference, _contents(a))
        return _name(type(t)), data, [(".grad", t._grad), *self.attributes(t)]

    def attributes(self, obj: Any) -> list[tuple[str, Any]]:
        """What an object holds in its ``__dict__`` and slots."""
        parts: list[tuple[str, Any]] = []
        try:
            held = object.__getattribute__(obj, "__dict__")
        except AttributeError:
            held = None
        if isinstance(held, dict):
            parts += [(f".{k}", v) for k, v in held.items() if isinstance(k, str) and k not in _OURS]
        if isinstance(obj, Tensor):
            return parts
        for cls in type(obj).__mro__:
            if _library(cls) and not _fusegrad(cls):
                continue
            for name, member in vars(cls).items():
                if isinstance(member, types.MemberDescriptorType) and name not in _OURS:
                    try:
                        parts.append((f".{name}", member.__get__(obj)))
                    except AttributeError:
                        continue
        return parts

    def function(self, f: Any) -> tuple[str, Any, list[tuple[str, Any]]]:
        """A user's function: its closure, defaults, and the globals it names."""
        ours = (getattr(f, "__module__", None) or "").startswith("fusegrad.compiler.")  # around a module or callable
        if not isinstance(f, types.FunctionType) or (_library_module(f.__module__) and not ours):
            return "function", getattr(f, "__qualname__", "?"), []
        parts: list[tuple[str, Any]] = []
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if _filled(cell):
                parts.append((f".<{name}>", cell.cell_contents))
        parts += [(".__defaults__", f.__defaults__), (".__kwdefaults__", f.__kwdefaults__)]
        for name in () if ours else sorted(_names(f.__code__)):
            if name in f.__globals__ and not isinstance(f.__globals__[name], types.ModuleType):
                parts.append((f".<global {name}>", f.__globals__[name]))
        return "function", f.__qualname__, parts

    def klass(self, cls: type) -> tuple[str, Any, list[tuple[str, Any]]]:
        """A user's class: what its body holds."""
        if _library_module(cls.__module__):
            return "class", _name(cls), []
        parts = []
        for name, v in vars(cls).items():
            if name.startswith("__") or isinstance(v, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue
            v = v.__func__ if isinstance(v, (staticmethod, classmethod)) else v.fget if isinstance(v, property) else v
            parts.append((f".{name}", v))
        return "class", _name(cls), parts


_ITERS = (list.__iter__, tuple.__iter__, collections.deque.__iter__)


def _plain(obj: Any) -> Any:
    return obj if type(obj) not in (type(...), type(NotImplemented)) else None


def _name(t: type) -> str:
    return f"{t.__module__}.{t.__qualname__}"


def _array_kind(t: type) -> str:
    return "array" if t is np.ndarray else _name(t)


def _item(key: Any) -> str:
    return f"[{key!r}]" if type(key) in (str, int) else "[...]"


def _contents(a: np.ndarray) -> np.ndarray:
    return np.array([repr(v) for v in a.flat]) if a.dtype.hasobject else np.array(a, order="C")


def _steps(a: np.ndarray) -> tuple[int, ...]:
    """Strides, where they mean something."""
    return tuple(s if n > 1 and a.size else 0 for s, n in zip(a.strides, a.shape, strict=True))


def history(t: Tensor) -> tuple[bool, bool]:
    """``requires_grad``, and whether there is a ``grad_fn``, as the tensor would say.

    Views tie themselves to the history of their base when they are asked, which is left to the program.
    """
    recorded = t._node is not None and type(t._node) is not Severed
    rec, st = t._view, t._st
    if rec is None or st is None or not (rec.base._rg and t.dtype.is_floating_point):
        return t._rg, recorded
    tied = rec.version != st.version and rec.made is None
    return True, tied or recorded


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _library_module(name: Any) -> bool:
    top = (name or "builtins").partition(".")[0]
    return top in _STD and top != "__main__" or top in ("numpy", "fusegrad", "pytest", "_pytest", "numba", "llvmlite")


def _library(t: type) -> bool:
    return _library_module(t.__module__)


def _fusegrad(t: type) -> bool:
    return t.__module__.partition(".")[0] == "fusegrad" and not t.__module__.startswith("fusegrad.compiler")


@functools.lru_cache(4096)
def _names(code: types.CodeType) -> frozenset[str]:
    """Names that a code object and those in it may read from globals."""
    found = set(code.co_names)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            found |= _names(c)
    return frozenset(found)


def _overlaps(tensors: list[tuple[int, Tensor]]) -> list[tuple[int, int, int]]:
    """(tensor, another on the same memory, distance in bytes), by number; each with the one before it in memory."""
    spans = []
    for k, t in tensors:
        if t._data.size:
            low, high = np.lib.array_utils.byte_bounds(t._data)
            spans.append((low, high, k, t._data.__array_interface__["data"][0]))
    spans.sort(key=lambda s: (s[0], -s[1], s[2]))
    found, end, leader = [], -1, (0, 0)
    for low, high, k, start in spans:
        if low < end:
            found.append((min(k, leader[0]), max(k, leader[0]), abs(start - leader[1])))
        else:
            leader = (k, start)
        end = max(end, high)
    return sorted(found)


def describe(roots: dict[str, Any], original: Callable[[Any], Any]) -> tuple[State, list[Tensor]]:
    """The state reached from named objects, and its tensors in order. ``original``: from compiled function to plain."""
    walk = _Walk(original)
    for name, obj in roots.items():
        walk.number(obj, name)
    walk.run()
    walk.state.items.append(("memory shared by tensors", "shared", _overlaps(walk.tensors), ()))
    return walk.state, [t for _, t in walk.tensors]


def says_by_itself(error: BaseException) -> bool:
    """Whether the text of an exception runs no code of the user: no ``__str__``, no ``__repr__`` of an argument."""
    by = next(c for c in type(error).__mro__ if "__str__" in vars(c))
    todo, seen = [error.args], set()
    while todo:
        v = todo.pop()
        if type(v) in (list, tuple, dict, set, frozenset):
            if id(v) not in seen:
                seen.add(id(v))
                todo.extend([*v, *v.values()] if type(v) is dict else v)
        elif isinstance(v, BaseException) and _library(type(v)):
            todo.append(v.args)
        elif type(v) not in (*_ATOMS, *_SILENT) and not isinstance(v, np.generic):
            return False
    return _library(by)


def tensors_of(value: Any) -> Iterator[Tensor]:
    """Tensors in (nested) lists, tuples and dicts; each container once, as it may contain itself."""
    todo, seen = [value], set()
    while todo:
        v = todo.pop()
        if isinstance(v, Tensor):
            yield v
        elif isinstance(v, (list, tuple, dict)) and id(v) not in seen:
            seen.add(id(v))
            todo.extend(reversed(list(v.values() if isinstance(v, dict) else v)))


ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+\.|-?\d+e[-+]?\d+|nan|inf")
