"""State of one capture: the graph being built, what was read (guards) and what was written (effects).

`Capture.realize(obj, source)` is the one way in for objects that existed before: it records the guard that the kind of
object needs and gives the value that the evaluator works with.
"""

from __future__ import annotations

import collections
import enum
import functools
import math
import operator
import re
import sys
import types
import weakref
from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.autograd import modes
from fusegrad.nn.module import Module
from fusegrad.place import Size
from fusegrad.sizes import SizeContext
from fusegrad.tensor import Tensor

from ..ir.builder import GraphBuilder
from . import alike, inputs
from .breaks import CALL as R_CALL
from .breaks import NUMBER as R_NUMBER
from .breaks import OBJECT as R_OBJECT
from .breaks import Break, Refuse
from .changing import ChangingNumbers, is_float
from .source import Source, const
from .values import (
    NULL,
    READING,
    CellRef,
    DictRef,
    Foreign,
    ForeignMethod,
    ListRef,
    ObjRef,
    SetRef,
    SymFloat,
    is_a,
    is_foreign,
    module_of,
    names_of,
    stands_for_container,
)

CONSTANT_TYPES = (
    type(None), bool, str, bytes, type(Ellipsis), complex, type(NotImplemented), dtypes.dtype, np.dtype, types.CodeType,
)  # fmt: skip
IDENTITY_TYPES = (
    types.BuiltinFunctionType, types.MethodWrapperType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType, types.ModuleType, property,
    np.ufunc, np.dtype, staticmethod, classmethod, operator.itemgetter, operator.attrgetter, operator.methodcaller,
    re.Pattern, functools._lru_cache_wrapper,
)  # fmt: skip
CHANGING_TYPES = (str, range, bytes, complex, frozenset)  # constants of which another one may come with every call
OWN_NAMES = frozenset(Module().__dict__)  # what the library keeps in a module: written through its methods alone


class Guard:
    """One condition: text with ``«n»`` for sources, the user's line, and what a failure of it would mean.

    ``place``: the call that needed the value of a changing number.
    """

    __slots__ = ("text", "line", "kind", "path", "value", "safe", "fixed", "place")

    def __init__(
        self, text: str, line: Any, kind: str = "", path: str = "", value: Any = None, safe: bool = False
    ) -> None:
        self.text, self.line, self.kind, self.path, self.value, self.safe = text, line, kind, path, value, safe
        self.place: Any = None
        self.fixed = False  # about a tensor that is the same object every time: looked at again when its array changes

    def known(self) -> Any:
        """The value; None for an object that died."""
        return self.value() if type(self.value) is weakref.ref else self.value


class Facts:
    """What earlier captures of a function taught: calls that break, numbers and sizes that change."""

    def __init__(self, dynamic: bool | None = None) -> None:
        self.dynamic_all = dynamic is True
        self.static_all = dynamic is False
        self.breaks: dict[tuple[Any, int], tuple[str, str]] = {}
        self.changing: set[str] = set()
        self.inline: set[Any] = set()  # places of calls that can't be made behind the rest
        self.texts: dict[str, int] = {}
        self.fixed: dict[Any, int] = {}  # calls that needed the value of a changing number -> how often it was another
        self.gone: list[Guard] = []  # of entries that went because an object died (see lifetimes)
        self.generic: set[str] = set()  # modules that are not the same object every time

    def give_up_inlining(self) -> None:
        """Calls that cost a version at each of their branches run for real, between two graphs."""
        for place in self.inline:
            self.breaks[place] = (R_CALL, "a schedule with many branches")

    def is_generic(self, path: str) -> bool:
        """Whether the module read from there (or one that contains it) differs from call to call."""
        return any(path == g or path.startswith((g + ".", g + "[")) for g in self.generic)

    def is_dynamic(self, path: str) -> bool:
        return not self.static_all and (self.dynamic_all or path in self.changing)


class Capture(ChangingNumbers):
    """One analysis of one unit, from its state to its next break or its end."""

    def __init__(self, name: str, facts: Facts, consts: Any) -> None:
        self.facts, self.consts = facts, consts
        self.sizes = SizeContext("guard", locate=lambda: self.loc)
        self.sizes.real = lambda size: SymFloat(self, self.size_code(size), size.hint, [])
        self.sizes.fixed = self._size_fixed
        self.number_place: Any = None  # the call that is evaluated, where it may need the value of a changing number
        self.text_places: list[str] = []  # where the text of a changing number fixed it (see texts)
        self.fixed_sizes: list[tuple[Any, Any]] = []  # conditions that a size is one number, and the calls
        self.builder = GraphBuilder(name, self.sizes)
        self.builder.required = []
        self.loc: tuple[str, int] = ("", 0)
        self.guards: list[Guard] = []
        self.sources: list[Source] = []
        self.asked: set[str] = set()  # texts of calls of cached functions: the user's code, run by guards
        self._tokens: dict[str, str] = {}
        self._seen: set[str] = set()
        self.by_id: dict[int, Any] = {}  # id of a pre-existing object -> its value
        self.origin: dict[int, Source] = {}  # id of a value (function, tuple, ...) -> where it came from
        self.keep: list[Any] = []
        self.refs: list[Foreign] = []
        self.tensors: list[inputs.Input] = []
        self.attributes: dict[int, tuple[Tensor, dict[str, Any]]] = {}  # of tensors made here, as code sets them
        self.input_of: dict[int, inputs.Input] = {}  # id of a graph tensor -> its input
        self.size_sources: dict[str, str] = {}  # symbol -> token text
        self._symbols: dict[str, Any] = {}
        self.floats: dict[str, SymFloat] = {}
        self.weak_inputs: list[tuple[Tensor, str]] = []
        self.engine_ran = False  # the autograd engine, inside of the captured code
        self.flags: dict[Any, Any] = {}  # inputs whose requires_grad was set -> where
        self.moved: dict[Any, Any] = {}  # inputs whose ``.data`` was set -> (where, their version then)
        self.told_apart: dict[int, Any] = {}  # inputs that must be distinct objects
        self.pinned: set[int] = set()  # values of inputs that only a backward may read
        self.grad_before, self.inference_before = modes.STATE.grad, modes.STATE.inference
        self.fixing = False
        self.owners: list[Any] = []  # inputs that are always the same object and whose memory must stay apart
        self.owner_ids: set[int] = set()
        self.loose: list[Any] = []  # other inputs whose memory must stay apart from that of those
        self.alike: dict[int, Source] = {}  # id of a class that is guarded by its structure -> where it is
        self.class_refs: dict[int, ObjRef] = {}  # id of a class from before -> what was stored to its attributes
        self.new_classes: set[int] = set()  # ids of the classes that the captured code made
        self.frames: list[Any] = []  # of the evaluator
        self.draws: list[Any] = []  # calls of generators that the segment makes ahead of the region (see drawing)
        self.restarts = False  # the analysis starts again when it ends
        self.later: list[Any] = []  # calls that the segment makes behind its effects (see later)
        self.prepares = True  # whether it may be made: not where a new optimizer comes with every call
        self.context: dict[int, Any] = {}  # context variables that were looked at (see context)
        self.seed: Any = None  # what ``manual_seed`` was given, before anything was drawn (see seeding)
        self.reading: Any = None  # what is told of every read (see rereading)
        self.made: list[Any] = []  # optimizer state that was made before the call (see prepare)

    # ---- sources, guards ----

    def tok(self, source: Source) -> str:
        """The token that stands for a source in guard and segment text."""
        text = source.text
        t = self._tokens.get(text)
        if t is None:
            self.looked_at(text)
            t = self._tokens[text] = f"«{len(self.sources)}»"
            self.sources.append(source)
        return t

    def guard(
        self, text: str, kind: str = "", path: str = "", value: Any = None, safe: bool = False, place: Any = None
    ) -> None:
        """Add a condition once. ``place``: the call that breaks the graph from now on when it does not hold."""
        if text not in self._seen:
            self.looked_at(text)
            self._seen.add(text)
            self.guards.append(Guard(text, self.loc, kind, path, value, safe))
            self.guards[-1].fixed, self.guards[-1].place = self.fixing, place
            if kind in _WHOLE and f"{_WHOLE[kind]}({path})" in self.facts.changing:  # all of a list that grows is taken
                self.guards[-1].place = self.number_place

    def looked_at(self, text: str) -> None:
        """A condition, or what it reads: nothing that is drawn only when the segment runs."""
        if self.draws and "_fgdraw" in text:
            from .drawing import not_looked_at

            not_looked_at(self, text)

    def const(self, obj: Any, name: str | None = None) -> Source:
        """A source for an object kept in the generated code's namespace."""
        return const(self.consts.name(obj), name or getattr(obj, "__qualname__", None) or type(obj).__name__)

    def literal(self, v: Any) -> str:
        """Text of a constant: a literal where Python has one, else a name in the namespace."""
        t = type(v)
        if v is None or t in (bool, int, str, bytes) or v is Ellipsis:
            return repr(v)
        if t is float and math.isfinite(v):
            return repr(v)
        return self.consts.name(v)

    def is_safe(self, source: Source) -> bool:
        """Whether a change of what ``source`` reads bumps the module epoch (a module's own attributes and dicts)."""
        if source.kind == "item" and source.base is not None and source.base.kind == "attr":
            source = source.base
            if source.key not in ("_parameters", "_buffers", "_modules") and not str(source.key).endswith("_hooks"):
                return False
        if source.kind != "attr" or source.base is None or source.base.kind != "const":
            return False
        if source.base.key not in self.consts.modules:
            return False
        if source.key == "forward":
            return False
        if source.key in OWN_NAMES:
            return True
        return is_fixed_class(type(self.consts.object(source.base.key)))  # else perhaps written through __dict__

    # ---- realising pre-existing objects ----

    def realize(self, obj: Any, source: Source) -> Any:
        """The value for an object that existed before, guarded as its kind needs."""
        t = type(obj)
        if self.reading is not None:
            self.reading(obj, source)
        if t is int:
            return self._int(obj, source)
        if t is float:
            return self._float(obj, source)
        if t in CONSTANT_TYPES or t is range or (t is frozenset and _all_fixed(obj)):
            return self._constant(obj, source)
        known = self.by_id.get(id(obj))
        if known is not None:
            return self._again(known, source)
        if issubclass(t, Tensor):
            return self._tensor(obj, source)
        return self._realize_more(obj, t, source)

    def _again(self, known: Any, source: Source) -> Any:
        """The same object was reached by another way: it must be so in later calls as well."""
        first = self.origin.get(id(known))
        if first is not None and first.text != source.text:
            self.guard(
                f"{self.tok(source)} is {self.tok(first)}",
                "identity",
                source.path(),
                safe=self.is_safe(source) and self.is_safe(first),
            )
        return known

    def _realize_more(self, obj: Any, t: type, source: Source) -> Any:
        if t in _BOUND_IN_C and not is_a(obj.__self__, (types.ModuleType, type, type(None))):
            return self._bound_builtin(obj, source)
        if issubclass(t, tuple) and not issubclass(t, enum.Enum):
            return self._tuple(obj, t, source)
        if t is types.FunctionType:
            return self._function(obj, source)
        if issubclass(t, type) or t in IDENTITY_TYPES or is_a(obj, (enum.Enum, np.ufunc, np.dtype)) or _is_table(obj):
            return self._identity(obj, source)
        if t is types.MethodType:
            self._type(t, source)
            fn = self.realize(obj.__func__, source.attr("__func__"))
            me = self.realize(obj.__self__, source.attr("__self__"))
            return self.remember(obj, types.MethodType(fn, me), source)
        if t is functools.partial:
            self._type(t, source)
            parts = [self.realize(getattr(obj, n), source.attr(n)) for n in ("func", "args")]
            keywords = {k: self.realize(v, source.attr("keywords").item(k)) for k, v in obj.keywords.items()}
            self.guard(f"list({self.tok(source)}.keywords) == {list(keywords)!r}", "keys", source.path())
            if not is_foreign(parts[0]) and not obj.__dict__:
                self.guard(f"not {self.tok(source)}.__dict__", "absent", source.path())
                return self.remember(obj, functools.partial(parts[0], *parts[1], **keywords), source)
        if t is np.float64 and math.isfinite(obj):
            return self._float(obj, source)
        if is_a(obj, np.generic) and source.path() not in self.facts.changing:  # NaN is itself, zeros have signs
            same = f"{self.tok(source)}.tobytes() == {obj.tobytes()!r}"
            self.guard(f"type({self.tok(source)}) is {self.consts.name(t)} and {same}", "value", source.path(), obj)
            return obj
        if t is slice:
            self._type(t, source)
            parts = [self.realize(getattr(obj, n), source.attr(n)) for n in ("start", "stop", "step")]
            return self.remember(obj, slice(*parts), source)
        return self._foreign(obj, t, source)

    def remember(self, obj: Any, value: Any, source: Source) -> Any:
        self.by_id[id(obj)] = value
        self.origin[id(value)] = source
        self.keep.append((obj, value))
        return value

    def _type(self, t: type, source: Source) -> None:
        if id(t) in self.alike or (self.facts.generic and f"type({source.path()})" in self.facts.generic):
            self.realize(t, source.call("type({})", f"type({source.name})"))
            return
        self.guard(f"type({self.tok(source)}) is {self.consts.name(t)}", "type", source.path(), t, self.is_safe(source))

    def _constant(self, obj: Any, source: Source) -> Any:
        tok, t = self.tok(source), type(obj)
        if t in CHANGING_TYPES and self._opaque(t, source):  # a text that changes: only its type is known
            self._type(t, source)
            return self._placeholder(obj, source)
        if obj is None or t is bool or obj is Ellipsis or t not in (str, bytes, complex, frozenset, range):
            text = f"{tok} is {self.literal(obj)}"
        elif t is frozenset:
            typed = frozenset((type(k), k) for k in obj)
            text = f"type({tok}) is frozenset and _fgtyped({tok}) == {self.consts.name(typed)}"
        elif t is complex:
            parts = f"{is_float(f'{tok}.real', obj.real)} and {is_float(f'{tok}.imag', obj.imag)}"
            text = f"type({tok}) is complex and {parts}"
        else:
            text = f"type({tok}) is {t.__name__} and {tok} == {obj!r}"
        self.guard(text, "value", source.path(), obj, self.is_safe(source))
        return obj

    def _opaque(self, t: type, source: Source) -> bool:
        """Whether only the type of a text or range is looked at: it changes, or a call with a changing number made it
        just now."""
        path = source.path()
        if path in self.facts.changing or not path.startswith("stack"):
            return path in self.facts.changing
        if t is str:
            return any(p.startswith("text at ") for p in self.facts.changing)
        return any(r[0] == R_NUMBER for r in self.facts.breaks.values())

    def _int(self, v: int, source: Source) -> Any:
        tok, path = self.tok(source), source.path()
        self._replaced_here(source, path)
        if self.facts.is_dynamic(path) and -(2**62) < v < 2**62:
            text = f"type({tok}) is int and {-(2**62)} < {tok} < {2**62}"
            self.guard(text, "type", path, int, self.is_safe(source))
            return self.symbol(source, v, -(2**62))
        if self.facts.is_dynamic(path):
            self.guard(f"type({tok}) is int and not {-(2**62)} < {tok} < {2**62}", "type", path, int)
            return self._placeholder(v, source)
        self.guard(f"type({tok}) is int and {tok} == {v}", "int", path, v, self.is_safe(source))
        return v

    def symbol(self, source: Source, hint: int, low: int, code: str = "") -> Any:
        """The symbolic int that stands for a number or a size read from ``source`` (computed from it by ``code``)."""
        text = source.text
        if text not in self._symbols:
            name = self.sizes.fresh_name()
            self.size_sources[name] = code or self.tok(source)
            self._symbols[text] = self.sizes.symbol(name, hint, low)
        return self._symbols[text]

    def _float(self, v: float, source: Source) -> Any:
        tok, path = self.tok(source), source.path()
        self._replaced_here(source, path)
        kind = type(v)  # float, or numpy's
        name = "float" if kind is float else self.consts.name(kind)
        if self.facts.is_dynamic(path) and math.isfinite(v):
            self.guard(f"type({tok}) is {name}", "type", path, kind, self.is_safe(source))
            found = self.floats.get(tok)
            if found is None:
                found = self.floats[tok] = SymFloat(self, tok, v, [source])
            return found
        self.guard(f"type({tok}) is {name} and {is_float(tok, float(v))}", "float", path, v, self.is_safe(source))
        return v

    def _tuple(self, obj: tuple, t: type, source: Source) -> Any:
        reading = ("__len__", "__getitem__", "__getattribute__")
        if t is not Size and any(getattr(t, n) is not getattr(tuple, n) for n in reading):
            raise Break(R_OBJECT, f"{t.__name__} is a tuple with reading of its own")
        if hasattr(t, "n_unnamed_fields"):  # made by C code alone; os.stat_result has fields beside its items
            if t.n_fields > t.n_sequence_fields:
                raise Break(R_OBJECT, f"a {t.__name__}")
            return self._identity(obj, source)
        tok, text = self.tok(source), f"type({self.tok(source)}) is {self.consts.name(t)} and "
        if t is not tuple:
            self._type(t, source)
            text = ""
        self.guard(f"{text}len({tok}) == {len(obj)}", "length", source.path(), len(obj), self.is_safe(source))
        items = [self.realize(v, source.item(k)) for k, v in enumerate(tuple.__iter__(obj))]
        value = tuple.__new__(t, items) if t is not tuple else tuple(items)
        if t.__dictoffset__:
            if getattr(obj, "__dict__", None):
                raise Break(R_OBJECT, f"{t.__name__} with attributes of its own")
            self.guard(f"not {tok}.__dict__", "absent", source.path())
        return self.remember(obj, value, source) if items else value

    def _function(self, fn: Any, source: Source) -> Any:
        tok = self.tok(source)
        if source.root().kind == "const":
            if fn.__closure__ and source.root().key in self.consts.modules:  # it may hold the module
                self.is_still(fn, source)
            else:
                self.guard(f"{tok} is {self.consts.name(fn)}", "identity", source.path(), fn, self.is_safe(source))
            return self.remember(fn, fn, self.const(fn))
        code = fn.__code__
        self.guard(
            f"type({tok}) is {self.consts.name(types.FunctionType)} and {tok}.__code__ is {self.consts.name(code)}"
            f" and {tok}.__globals__ is {self.consts.name(fn.__globals__)}",
            "code",
            source.path(),
        )
        return self.remember(fn, fn, source)

    def _bound_builtin(self, obj: Any, source: Source) -> Any:
        """A bound method of C code: of a container or another object."""
        tok = self.tok(source)
        self.guard(
            f"type({tok}) is {self.consts.name(type(obj))} and {tok}.__name__ == {obj.__name__!r}",
            "type",
            source.path(),
        )
        me = self.realize(obj.__self__, source.attr("__self__"))
        if type(me) is ForeignMethod:
            if obj.__name__ != "__call__":
                raise Break(R_OBJECT, f"{obj.__name__} of a method of an object")
            value: Any = me
        else:
            value = ForeignMethod(me, obj.__name__) if is_foreign(me) else getattr(me, obj.__name__)
        return self.remember(obj, value, source)

    def _identity(self, obj: Any, source: Source) -> Any:
        if issubclass(type(obj), type) and source.path() in self.facts.generic:
            return alike.realize(self, obj, source)
        self.guard(
            f"{self.tok(source)} is {self.consts.name(obj)}", "identity", source.path(), obj, self.is_safe(source)
        )
        return self.remember(obj, obj, self.const(obj, source.name))

    def _foreign(self, obj: Any, t: type, source: Source) -> Any:
        from fusegrad.nn.module import Module

        if issubclass(t, Module) and not self.facts.is_generic(source.path()):
            source = self._module(obj, source)
            self.guard(f"type({source.key}) is {self.consts.name(t)}", "module", source.path(), t, True)
        elif source.kind != "const":
            self._type(t, source)
        ref: Foreign
        if t is collections.deque or issubclass(t, list) and stands_for_container(t):
            ref = ListRef(obj, source)
        elif issubclass(t, dict) and stands_for_container(t):
            ref = DictRef(obj, source)
        elif t is set:
            ref = SetRef(obj, source)
        elif t is types.CellType:
            ref = CellRef(obj, source)
        else:
            ref = ObjRef(obj, source)
        if type(ref) in (ListRef, DictRef) and not is_fixed_class(
            t
        ):  # read as a list or a dict, without more questions
            for name in READING:
                self.class_guard(t, name, next((names_of(c)[name] for c in t.__mro__ if name in names_of(c)), NULL))
        self.refs.append(ref)
        self.by_id[id(obj)] = ref
        self.origin[id(ref)] = source
        self.keep.append((obj, ref))
        return ref

    def _module(self, obj: Any, source: Source) -> Source:
        """A module is always the same object. One that another module holds is kept, and goes with that one; any other
        may die (see lifetimes)."""
        name = self.consts.name(obj) if source.root().key in self.consts.modules else self.consts.weak(obj)
        if name.endswith("()"):
            self.is_still(obj, source, "module")
        else:
            self.guard(f"{self.tok(source)} is {name}", "module", source.path(), obj, self.is_safe(source))
        self.consts.modules.add(name)
        return self.const(obj, source.name)

    def is_still(self, obj: Any, source: Source, kind: str = "identity", place: Any = None) -> None:
        """Guard that this very object is read, without keeping it alive. A variable keeps it while the segment runs."""
        value: Any = obj
        text = self.consts.weak(obj) if type(obj).__weakrefoffset__ else self.consts.name(obj)
        if text.endswith("()"):
            value, text = weakref.ref(obj), f"({text.replace('_fgk', '_fgh')[:-2]} := {text}) is not None"
        self.guard(f"{self.tok(source)} is {text}", kind, source.path(), value, place=place)

    def _tensor(self, obj: Any, source: Source) -> Any:
        found = inputs.make_input(self, obj, source)
        self.register(found)
        return found.graph

    def register(self, found: inputs.Input) -> None:
        """Make an input known."""
        self.tensors.append(found)
        self.input_of[id(found.graph)] = found
        self.by_id[id(found.real)] = found.graph
        self.origin[id(found.graph)] = found.source
        self.keep.append(found.real)

    def touch(self, t: Tensor) -> None:
        """A tensor is looked at other than by `is None`."""
        found = self.input_of.get(id(t))
        if found is not None:
            found.touched = True

    # ---- classes ----

    def class_source(self, cls: type) -> Source:
        """Where generated code finds a class."""
        found = self.alike.get(id(cls))
        return self.const(cls) if found is None else found

    def by_user(self) -> bool:
        """Whether the code that is being evaluated is the user's (the library's trusts itself)."""
        return not self.frames or not fixed_module(self.frames[-1].globals.get("__name__"))

    def class_guard(self, cls: type, name: str, attr: Any) -> None:
        """What was found (or not: NULL) under a name of a class and its bases must still be so.

        Builtin types can't change; the library's classes are watched where user code reads them, and for modules.
        """
        if id(cls) in self.new_classes or id(cls) in self.alike:
            alike.class_guard(self, cls, name, attr)
            return
        if not cls.__flags__ & _MUTABLE or (is_fixed_class(cls) and not (self.by_user() or name in _WATCHED)):
            return
        c = f"{self.consts.name(cls)}.{name}"
        if attr is NULL and any(name in names_of(c) for c in type(cls).__mro__):  # the class itself has one
            self.bases_guard(cls)
            for base in cls.__mro__:
                if base.__flags__ & _MUTABLE and not is_fixed_class(base):
                    self.guard(f"{name!r} not in {self.consts.name(base)}.__dict__", "class", f"{base.__name__}.{name}")
            return
        if attr is NULL:
            text = f"_fggetattr({self.consts.name(cls)}, {name!r}, _fgStop) is _fgStop"
        elif isinstance(attr, classmethod):
            text = f"{c}.__func__ is {self.consts.name(attr.__func__)}"
        elif isinstance(attr, staticmethod):
            text = f"{c} is {self.consts.name(attr.__func__)}"
        elif isinstance(attr, (types.FunctionType, property)):
            text = f"{c} is {self.consts.name(attr)}"
        elif not hasattr(type(attr), "__get__") or isinstance(attr, _IN_CLASSES_OF_C):
            text = f"{c} is {self.consts.name(attr)}"
        else:
            text = f"_fgstatic({self.consts.name(cls)}, {name!r}, None) is {self.consts.name(attr)}"
        self.guard(text, "class", f"{cls.__name__}.{name}", attr)

    def bases_guard(self, cls: type) -> None:
        """The bases of a class must stay."""
        if id(cls) in self.alike or id(cls) in self.new_classes:
            for base in cls.__bases__:
                self.bases_guard(base)
            return
        if cls.__flags__ & _MUTABLE and not is_fixed_class(cls):
            self.guard(f"{self.consts.name(cls)}.__mro__ is {self.consts.name(cls.__mro__)}", "class", cls.__name__)

    def let_go(self) -> None:
        """The capture is over, but sizes of its graph refer to it: it forgets the objects of the program."""
        for d in (
            self.by_id,
            self.origin,
            self.input_of,
            self.attributes,
            self.told_apart,
            self.flags,
            self.moved,
            self.context,
        ):
            d.clear()
        for found in (
            self.keep,
            self.refs,
            self.tensors,
            self.owners,
            self.loose,
            self.frames,
            self.guards,
            self.weak_inputs,
        ):
            found.clear()

    def refuse(self, code: str, detail: str) -> None:
        raise Refuse(code, detail)


_IN_CLASSES_OF_C = (types.WrapperDescriptorType, types.MethodDescriptorType)  # read through the class: themselves
_WHOLE = {"length": "len", "keys": "keys", "set": "keys"}
_BOUND_IN_C = (types.BuiltinFunctionType, types.MethodWrapperType)
_FIXED_ROOTS = {"fusegrad", "builtins", "collections", "enum", "functools", "contextlib", "typing", "numpy", "math",
                "abc",
                "dataclasses", "types", "itertools", "operator", "re", "random", "threading", "_thread"}  # fmt: skip


_MUTABLE = 1 << 9  # classes made by Python code; attributes of the others can't be set
_WATCHED = ("forward", "__call__")
_FIXED = {"fusegrad", "numpy"} | set(sys.stdlib_module_names)


def fixed_module(name: str | None) -> bool:
    """The library's, numpy's and the standard library's modules."""
    return type(name) is str and name.split(".")[0] in _FIXED


def is_fixed_class(cls: type) -> bool:
    """Classes of the library and of Python itself: nobody changes them."""
    return module_of(cls).split(".")[0] in _FIXED_ROOTS


def _all_fixed(keys: frozenset) -> bool:
    """Whether the items of a set are constants: nothing in them changes, comparing them runs no code of the user's."""
    from .acting import HASHES, acts

    kinds = (*CONSTANT_TYPES, int, float, np.generic, types.FunctionType, type, *IDENTITY_TYPES, enum.Enum)
    for k in keys:
        if type(k) in (tuple, frozenset):
            if not _all_fixed(k):
                return False
        elif type(k) not in (str, int) and not ((is_a(k, kinds) or _is_table(k)) and not acts(k, HASHES)):
            return False
    return True


def _is_table(obj: Any) -> bool:
    from fusegrad.op import Function, Op

    return type(obj) in (Op, Function)
