"""Values of the evaluator that are not plain Python objects.

The evaluator works on real Python objects (numbers, strings, containers and instances made during capture, functions)
with graph tensors in the place of tensors. Objects that existed before and can change are represented by `Foreign`
placeholders: reads are guarded by their source, writes are kept aside and replayed by the segment.
"""

from __future__ import annotations

import collections
import gc
import threading
import types
from typing import Any

from fusegrad.size_floats import SymbolicNumber
from fusegrad.sizes import SymInt
from fusegrad.tensor import Size

from .breaks import Leak
from .source import Source


class _Null:
    """The bytecode's NULL; also the content of an unbound local or empty cell."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NULL"


NULL = _Null()
DELETED = type("_Deleted", (), {"__slots__": (), "__repr__": lambda s: "DELETED"})()


class Foreign:
    """Placeholder of a pre-existing object. Any real use raises `Leak`: a placeholder can't act as the object."""

    __slots__ = ("obj", "source")

    def __init__(self, obj: Any, source: Source) -> None:
        object.__setattr__(self, "obj", obj)
        object.__setattr__(self, "source", source)

    def show(self) -> str:
        return (
            f"<{object.__getattribute__(self, 'source').name}: {type(object.__getattribute__(self, 'obj')).__name__}>"
        )

    def __eq__(self, other: Any) -> bool:
        if self is other:
            return True
        raise Leak("== on a placeholder")

    def __hash__(self) -> int:
        if type(self.obj).__hash__ is object.__hash__:
            return id(self)
        raise Leak("hash of a placeholder")

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise Leak("class of a placeholder")


def _leaky(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise Leak(f"{name} on a placeholder")

    return method


for (
    _n
) in """bool len iter next getitem setitem delitem contains call add radd sub rsub mul rmul truediv rtruediv floordiv
rfloordiv mod rmod pow rpow matmul rmatmul and rand or ror xor rxor lshift rlshift rshift rrshift neg pos abs invert lt
le gt ge int float index str repr format enter exit reduce_ex dir""".split():
    setattr(Foreign, f"__{_n}__", _leaky(f"__{_n}__"))


class ObjRef(Foreign):
    """An instance. ``dict``: the placeholder of its ``__dict__`` once used; ``slots``: slot attributes written;
    ``raw``: the placeholder of what a dict with methods of its own holds."""

    __slots__ = ("dict", "slots", "raw")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(obj, source)
        self.dict: Any = None
        self.slots: dict[str, Any] = {}
        self.raw: Any = None


class ListRef(Foreign):
    """A list (or deque). ``items``: its content once read; ``tail``: what was appended before that."""

    __slots__ = ("items", "tail", "dirty", "cache", "dict")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(obj, source)
        self.items: list | None = None
        self.tail: list = []
        self.dirty = False
        self.dict: Any = None
        self.cache: dict[int, Any] = {}


class DictRef(Foreign):
    """A dict. ``log``: writes in order; ``view``: current content once all of it was read."""

    __slots__ = ("log", "writes", "cache", "view", "cleared", "owner", "dict")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(obj, source)
        self.log: list[tuple[str, Any, Any]] = []
        self.writes: dict[Any, Any] = {}
        self.cache: dict[Any, Any] = {}
        self.view: dict | None = None
        self.cleared = False
        self.dict: Any = None
        self.owner: Any = None  # the ObjRef whose ``__dict__`` this is


class SetRef(Foreign):
    """A set. ``view``: its content once read; ``log``: calls of methods that changed it, in order."""

    __slots__ = ("view", "log")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(obj, source)
        self.view: set | None = None
        self.log: list[tuple[str, list]] = []

    @property
    def dirty(self) -> bool:
        """Whether it was changed."""
        return bool(self.log)


class CellRef(Foreign):
    """A closure cell that existed before. ``value``: what was stored during capture (NULL: not read or written yet)."""

    __slots__ = ("value", "dirty")

    def __init__(self, obj: Any, source: Source) -> None:
        super().__init__(obj, source)
        self.value: Any = NULL
        self.dirty = False


class ForeignMethod:
    """A bound method of a pre-existing container."""

    __slots__ = ("ref", "name")

    def __init__(self, ref: Any, name: str) -> None:
        self.ref, self.name = ref, name


class SuperValue:
    """What ``super()`` gives: attributes are looked up after ``cls`` in the MRO of ``obj``'s type."""

    __slots__ = ("cls", "obj")

    def __init__(self, cls: type, obj: Any) -> None:
        self.cls, self.obj = cls, obj


def plain_container(obj: Any) -> bool:
    """A container whose methods are all Python's own C code (or the library's, which does the same)."""
    t = type(obj)
    return t in _PLAIN_CONTAINERS or t.__name__ == "TrackedDict" and t.__module__ == "fusegrad.nn._tracked"


def factory_of(obj: Any) -> Any:
    """What makes the missing values of a defaultdict; None for other containers, whose attributes are the user's."""
    return vars(collections.defaultdict)["default_factory"].__get__(obj) if is_a(obj, collections.defaultdict) else None


_PLAIN_CONTAINERS = {list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict}
READING = ("__getitem__", "__contains__", "__iter__", "__len__", "keys", "values", "items", "__eq__", "__bool__",
            "__getattribute__", "__hash__", "get", "__reversed__")  # fmt: skip


def stands_for_container(t: type) -> bool:
    """Whether generated code may read objects of this subclass of dict or list as it reads a dict or a list."""
    if t in _PLAIN_CONTAINERS or t.__name__ in ("Counter", "TrackedDict"):
        return True
    base = dict if issubclass(t, dict) else list
    if issubclass(t, (collections.OrderedDict, collections.defaultdict)) or not issubclass(t, base):
        return False
    return all(getattr(t, n, None) is getattr(base, n, None) for n in READING)


def keeps_attributes(t: type) -> bool:
    """Whether instances of a class have a ``__dict__`` (a ``threading.local`` has one for each thread)."""
    return bool(t.__dictoffset__) or issubclass(t, threading.local)


def is_foreign(v: Any) -> bool:
    return issubclass(type(v), Foreign)


def fixed_key(v: Any) -> Any:
    """A value as a key of a dict or set: symbolic numbers by their value (guarded), since they hash by structure."""
    t = type(v)
    if t.__flags__ & (1 << 9) or t in (tuple, frozenset):
        from .acting import refuse_key

        refuse_key(v)
    if issubclass(t, tuple) and not t.__dictoffset__:
        given = tuple(tuple.__iter__(v))
        if any(type(x) in (SymFloat, SymInt) or issubclass(type(x), tuple) for x in given):
            parts = [fixed_key(x) for x in given]
            return t(parts) if t in (tuple, Size) else tuple.__new__(t, parts)
    if t is slice:  # a key since Python 3.12
        return slice(*map(fixed_key, (v.start, v.stop, v.step)))
    return int(v) if t is SymInt else v.fixed() if t is SymFloat else v


def is_a(v: Any, kind: Any) -> bool:
    """``isinstance`` for values: placeholders are themselves, not what they stand for."""
    return issubclass(type(v), kind)


# of a class, past properties of a metaclass
mro_of, names_of, _module = (type.__dict__[n].__get__ for n in ("__mro__", "__dict__", "__module__"))


def behind(proxy: types.MappingProxyType) -> Any:
    """The mapping that a read-only view shows."""
    return gc.get_referents(proxy)[0]


def module_of(cls: type) -> str:
    """``cls.__module__``, past what a metaclass of the user's says; "" where there is none."""
    try:
        name = _module(cls)
    except AttributeError:
        return ""
    return name if type(name) is str else ""


def class_of(v: Any) -> type:
    """The type of the object that a value stands for."""
    t = type(v)
    if issubclass(t, Foreign):
        return type(v.obj)
    if t is SymFloat:
        return type(v.hint)  # a float of numpy's is one, too
    if t is SymInt:
        return int
    if t is SuperValue:
        return super
    if t is ForeignMethod:
        found = next((names_of(c)[v.name] for c in mro_of(class_of(v.ref)) if v.name in names_of(c)), None)
        return types.MethodWrapperType if type(found) is types.WrapperDescriptorType else types.BuiltinMethodType
    if t.__name__ == "TraceOf" and t.__module__.startswith("fusegrad.compiler"):
        return types.TracebackType
    if t.__name__ == "GenValue" and t.__module__.startswith("fusegrad.compiler"):
        return v.kind or types.GeneratorType  # type: ignore[attr-defined]
    return t


def _float_op(name: str, text: str, swap: bool = False) -> Any:
    import operator

    fn = getattr(operator, name)

    def method(self: SymFloat, other: Any) -> Any:
        o = self.ctx.number_operand(other)
        if o is None:
            return NotImplemented
        code, hint, srcs = o
        if swap:
            value = fn(hint, self.hint)
            return SymFloat(self.ctx, f"({code} {text} {self.code})", value, [*srcs, *self.srcs])
        value = fn(self.hint, hint)
        return SymFloat(self.ctx, f"({self.code} {text} {code})", value, [*self.srcs, *srcs])

    return method


def _float_compare(name: str, text: str) -> Any:
    import operator

    fn = getattr(operator, name)

    def method(self: SymFloat, other: Any) -> Any:
        o = self.ctx.number_operand(other)
        if o is None:
            return NotImplemented
        code, hint, srcs = o
        value = fn(self.hint, hint)  # a bool of numpy's where one of them is a float of numpy's
        self.ctx.float_guard(f"bool({self.code} {text} {code}) is {bool(value)}", [*self.srcs, *srcs])
        return value

    return method


class SymFloat(SymbolicNumber):
    """A Python float that changes between calls: an expression that the segment computes.

    ``code`` has one ``{name}`` per source in ``srcs``; ``hint`` is the value in this capture. Comparisons are answered
    with the hint and guarded.
    """

    __slots__ = ("ctx", "code", "hint", "srcs", "tensor")

    def __init__(self, ctx: Any, code: str, hint: float, srcs: list) -> None:
        self.ctx, self.code, self.hint, self.srcs = ctx, code, hint, srcs
        self.tensor: Any = None

    __add__ = _float_op("add", "+")
    __radd__ = _float_op("add", "+", True)
    __sub__ = _float_op("sub", "-")
    __rsub__ = _float_op("sub", "-", True)
    __mul__ = _float_op("mul", "*")
    __rmul__ = _float_op("mul", "*", True)
    __truediv__ = _float_op("truediv", "/")
    __rtruediv__ = _float_op("truediv", "/", True)
    __pow__ = _float_op("pow", "**")
    __rpow__ = _float_op("pow", "**", True)
    __mod__ = _float_op("mod", "%")
    __rmod__ = _float_op("mod", "%", True)
    __floordiv__ = _float_op("floordiv", "//")
    __rfloordiv__ = _float_op("floordiv", "//", True)
    __lt__ = _float_compare("lt", "<")
    __le__ = _float_compare("le", "<=")
    __gt__ = _float_compare("gt", ">")
    __ge__ = _float_compare("ge", ">=")
    __eq__ = _float_compare("eq", "==")
    __ne__ = _float_compare("ne", "!=")

    @property
    def expr(self) -> str:
        return self.code

    def graph_number(self, builder: Any) -> Any:
        return self.ctx.weak(self)

    def __divmod__(self, other: Any) -> tuple:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple:
        return other // self, other % self

    def __neg__(self) -> SymFloat:
        return SymFloat(self.ctx, f"(-{self.code})", -self.hint, self.srcs)

    def __pos__(self) -> SymFloat:
        return self

    def __abs__(self) -> SymFloat:
        return SymFloat(self.ctx, f"abs({self.code})", abs(self.hint), self.srcs)

    def __bool__(self) -> bool:
        value = bool(self.hint)
        self.ctx.float_guard(f"bool({self.code}) is {value}", self.srcs)
        return value

    def fixed(self) -> float:
        """Its value in this capture, guarded; a float of numpy's stays one."""
        return self.ctx.fix_float(self)

    def __float__(self) -> float:
        return float(self.fixed())

    def __int__(self) -> int:
        return int(float(self))

    def __hash__(self) -> int:
        return hash(float(self))

    def __repr__(self) -> str:
        return repr(float(self.ctx.show(self)))

    def __format__(self, spec: str) -> str:
        return format(float(self.ctx.show(self)), spec)
