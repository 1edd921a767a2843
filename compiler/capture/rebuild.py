"""Values -> Python source that makes them again for real: used at the end of a segment."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import gc
import itertools
import math
import operator
import re
import types
from keyword import iskeyword
from typing import Any

import numpy as np

from fusegrad.nn.module import Module
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks
from .breaks import Refuse
from .changing import TOKEN
from .class_state import hooked, own_attributes
from .context import context_lines
from .handled import TraceOf
from .inputs import data_lines
from .iteration import ITERATORS
from .later import call_lines
from .source import Source
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
    is_a,
    is_foreign,
    module_of,
    names_of,
    plain_container,
)


class CannotRebuild(Exception):
    """A live value has no source and can't be made again; ``value`` is it."""

    def __init__(self, value: Any, what: str) -> None:
        super().__init__(what)
        self.value, self.what = value, what


def bound_to_capture(fn: types.FunctionType, made: dict) -> Any:
    """A callback of the evaluator, or a tensor of the graph, that ``fn`` is or holds in its closure; None if there is
    none."""
    todo: list[Any] = [fn]
    seen = set()
    while todo:
        f = todo.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        if id(f) in made or (issubclass(type(f), Tensor) and f._data is None):
            return f
        if type(f) in (list, tuple):
            todo += f
        elif type(f) is types.FunctionType:
            for cell in f.__closure__ or ():
                with contextlib.suppress(ValueError):
                    todo.append(cell.cell_contents)
    return None


class Rebuilder:
    """Collects loads (run first), region outputs, and lines that build containers and objects."""

    def __init__(self, cap: Any, ev: Any) -> None:
        self.cap, self.ev = cap, ev
        self.loads: list[str] = []
        self.lines: list[str] = []
        self.outputs: list[Tensor] = []
        self.n = 0
        self._loaded: dict[str, str] = {}
        self._memo: dict[int, str] = {}
        self._busy: set[int] = set()
        self._keep: list[Any] = []

    # ---- sources

    def load(self, source: Source) -> str:
        """Text of a source's value, read before anything is changed."""
        if source.kind == "local" or (source.kind == "const" and not source.key.endswith("()")):
            return source.key
        text = source.text
        var = self._loaded.get(text)
        if var is None:
            base = self.load(source.base) if source.base is not None else ""
            key = self.load(source.key) if is_a(source.key, Source) else None
            var = self._loaded[text] = self.var("t")
            self.loads.append(f"{var} = {source.expr(base, key)}")
        return var

    def expand(self, text: str) -> str:
        """Segment text with source tokens replaced by loaded values."""
        return TOKEN.sub(lambda m: self.load(self.cap.sources[int(m[1])]), text)

    def var(self, prefix: str) -> str:
        self.n += 1
        return f"_fg{prefix}{self.n}"

    def bind(self, expr: str, v: Any = None, prefix: str = "v") -> str:
        """Assign an expression to a new variable (and remember it as the text of ``v``)."""
        name = self.var(prefix)
        self.lines.append(f"{name} = {expr}")
        if v is not None:
            self._memo[id(v)] = name
            self._keep.append(v)
        return name

    # ---- values

    def value(self, v: Any) -> str:
        """Source text of a value."""
        t = type(v)
        if v is None or t in (bool, int, str, bytes) or v is Ellipsis:
            return repr(v)
        if t is float:
            return repr(v) if math.isfinite(v) else self.cap.consts.name(v)
        if t is complex:  # its own text loses the signs of zeros
            return f"complex({self.value(v.real)}, {self.value(v.imag)})"
        if t is SymFloat:
            return self.expand(v.code)
        if is_a(v, SymInt) if not is_foreign(v) else False:
            return self.expand(self.cap.size_code(v))
        known = self._memo.get(id(v))
        if known is not None:
            return known
        if id(v) in self.ev.addressed:
            raise CannotRebuild(v, f"a {t.__name__} whose id() was asked")
        if id(v) in self._busy:
            raise CannotRebuild(v, "a container that contains itself")
        self._busy.add(id(v))
        try:
            return self._value(v, t)
        finally:
            self._busy.discard(id(v))

    def _value(self, v: Any, t: type) -> str:
        if issubclass(t, Tensor):
            return self._tensor(v)
        if issubclass(t, Foreign):
            return self.load(v.source)
        source = self.cap.origin.get(id(v))
        if source is not None:
            return self.load(source)
        for cls in (v, t):
            if id(cls) in self.cap.new_classes:
                raise CannotRebuild(cls, f"a class {cls.__name__} that was made here")
        if is_a(v, (property, staticmethod, classmethod)) and id(v) in self.ev.made:
            raise CannotRebuild(v, f"a {t.__name__} that was made here")
        make = _MAKERS.get(t)
        if make is not None:
            return make(self, v)
        if t in ITERATORS:
            return self._iterator(v)
        if issubclass(t, tuple) and not issubclass(t, enum.Enum):
            name = self.bind(f"tuple.__new__({self.class_(t)}, {self._items(tuple(tuple.__iter__(v)))})", v)
            self._attributes(name, v)
            return name
        if is_a(v, BaseException):
            return self._exception(v, t)
        if t is TraceOf:
            raise CannotRebuild(v.exc, "a traceback")
        if t.__name__ == "GenValue" and module_of(t).startswith("fusegrad.compiler"):
            raise CannotRebuild(v, "a running generator")
        if is_a(v, np.ndarray):
            others = (a for a in self.cap.keep if type(a) is np.ndarray and a is not v)
            if any(np.may_share_memory(a, v) for a in others):
                raise CannotRebuild(v, "an array that shares memory")
            if not v.flags.writeable or v.copy("K").strides != v.strides:
                raise CannotRebuild(v, "an array that is a view, or not to be written")
            return self.bind(f"{self.cap.consts.name(v)}.copy('K')", v)
        if self._is_instance(v, t):
            return self._instance(v, t)
        if is_a(v, _CONSTANT) or module_of(t).startswith(
            ("fusegrad.dtypes", "fusegrad.op", "fusegrad.tensor", "fusegrad.place")
        ):
            return self.cap.consts.name(v)
        if t is object:
            return self.bind("object()", v)
        raise CannotRebuild(v, f"a {t.__name__}")

    def class_(self, cls: type) -> str:
        """Text of a class that existed before."""
        return self.load(self.cap.class_source(cls))

    def _is_instance(self, v: Any, t: type) -> bool:
        """An instance of a Python class made during capture."""
        if not t.__flags__ & (1 << 9) or is_a(v, (type, types.ModuleType)):
            return False
        return any(v is k for k in self.cap.keep) or module_of(t).startswith("fusegrad.autograd.modes")

    def _tensor(self, t: Tensor) -> str:
        inp = self.cap.input_of.get(id(t))
        if inp is not None:
            return self.load(inp.source)
        if type(t) is not Tensor:
            raise CannotRebuild(t, f"a {type(t).__name__}")
        if t._data is not None:
            raise CannotRebuild(t, "a tensor made in the middle of capture")
        if not self.cap.builder.is_mine(t):
            raise CannotRebuild(t, "a tensor of another graph or of vmap")
        if t._g.meta.weak:
            raise CannotRebuild(t, "a scalar of the graph")
        self.outputs.append(t)
        name = f"_fgr{len(self.outputs) - 1}"
        self._memo[id(t)] = name
        if t.retains_grad:
            self.lines.append(f"_fgextra({name}).retain = True")
        if t._grad is not None:
            self.lines.append(f"{name}._grad = {self.value(t._grad)}")
        for attribute, v in self.cap.attributes.get(id(t), (t, {}))[1].items():
            self.lines.append(f"{name}.{attribute} = {self.value(v)}")
        if t.is_inference() is not self.cap.inference_before:  # the call marks what it returns by the mode it runs in
            self.lines.append(f"_fgextra({name}).inference = {t.is_inference()}")
        return name

    def _items(self, items: Any) -> str:
        parts = [self.value(x) for x in items]
        return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"

    def tuple_(self, v: tuple) -> str:
        return self.bind(self._items(v), v) if v else "()"

    def list_(self, v: list) -> str:
        return self.bind("[" + ", ".join(self.value(x) for x in v) + "]", v)

    def dict_(self, v: dict) -> str:
        body = ", ".join(f"{self.value(k)}: {self.value(x)}" for k, x in v.items())
        if type(v) is dict:
            return self.bind("{" + body + "}", v)
        cls = self.cap.consts.name(type(v))
        if type(v) is collections.defaultdict:
            return self.bind(f"{cls}({self.value(v.default_factory)}, {{{body}}})", v)
        return self._with_attributes(self.bind(f"{cls}({{{body}}})", v), v)

    def _with_attributes(self, name: str, v: Any) -> str:
        """The same with the attributes that were set on it (those of a state dict)."""
        if vars(v):
            self._busy.discard(id(v))
            self.lines.append(f"{name}.__dict__.update({self.value(dict(vars(v)))})")
        return name

    def set_(self, v: Any) -> str:
        items = list(v)
        if all(type(x) in (str, int, float) for x in items) and list(type(v)(items)) != items:
            raise CannotRebuild(v, f"a {type(v).__name__} whose order tells how it was made")
        body = ", ".join(self.value(x) for x in items)
        return self.bind(f"{type(v).__name__}([{body}])", v)

    def deque(self, v: Any) -> str:
        items = "[" + ", ".join(self.value(x) for x in v) + "]"
        return self.bind(f"{self.cap.consts.name(type(v))}({items}, {v.maxlen!r})", v)

    def namespace(self, v: types.SimpleNamespace) -> str:
        return self._with_attributes(self.bind(f"{self.cap.consts.name(type(v))}()", v), v)

    def slice_(self, v: slice) -> str:
        return f"slice({self.value(v.start)}, {self.value(v.stop)}, {self.value(v.step)})"

    def cell(self, v: types.CellType) -> str:
        fills: list[tuple[types.CellType, str]] = []
        name = self._empty_cell(v, fills)
        self._fill(fills)
        return name

    def _empty_cell(self, v: types.CellType, fills: list[tuple[types.CellType, str]]) -> str:
        """A cell that gets its content later: a function may refer to itself through one."""
        known = self.cap.by_id.get(id(v))
        if known is not None:
            return self.load(known.source)
        name = self._memo.get(id(v))
        if name is None:
            name = self.bind("_fgCell()", v)
            fills.append((v, name))
        return name

    def _fill(self, fills: list[tuple[types.CellType, str]]) -> None:
        for v, name in fills:
            self._busy.discard(id(v))
            try:
                content = v.cell_contents
            except ValueError:  # still empty
                continue
            self.lines.append(f"{name}.cell_contents = {self.value(content)}")

    def function(self, v: types.FunctionType) -> str:
        if id(v) not in self.ev.new_functions:
            inner = bound_to_capture(v, self.ev.made)
            if inner is not None:  # func.grad(f) and the like: it may not outlive the evaluator that runs f
                what = "a tensor" if issubclass(type(inner), Tensor) else "a function"
                raise CannotRebuild(inner, f"a library function around {what} of the captured code")
            return self.cap.consts.name(v)
        c = self.cap.consts
        closure = "None"
        fills: list[tuple[types.CellType, str]] = []
        if v.__closure__:
            closure = "(" + "".join(self._empty_cell(x, fills) + ", " for x in v.__closure__) + ")"
        defaults = self.value(v.__defaults__) if v.__defaults__ else "None"
        name = self.bind(
            f"_fgFunction({c.name(v.__code__)}, {c.name(v.__globals__)}, {v.__name__!r}, {defaults}, {closure})", v
        )
        self._fill(fills)
        if v.__kwdefaults__:
            self.lines.append(f"{name}.__kwdefaults__ = {self.value(v.__kwdefaults__)}")
        if getattr(v, "__annotate__", None) is not None:  # made when asked for
            self.lines.append(f"{name}.__annotate__ = {self.value(v.__annotate__)}")  # type: ignore[attr-defined]
        elif v.__annotations__:
            self.lines.append(f"{name}.__annotations__ = {self.value(v.__annotations__)}")
        if v.__qualname__ != v.__code__.co_qualname:
            self.lines.append(f"{name}.__qualname__ = {v.__qualname__!r}")
        made = types.FunctionType(v.__code__, v.__globals__, None, None, v.__closure__)
        if v.__doc__ != made.__doc__:
            self.lines.append(f"{name}.__doc__ = {self.value(v.__doc__)}")
        if v.__module__ != made.__module__:
            self.lines.append(f"{name}.__module__ = {self.value(v.__module__)}")
        if v.__dict__:
            self.lines.append(f"{name}.__dict__.update({self.value(dict(v.__dict__))})")
        return name

    def method(self, v: types.MethodType) -> str:
        return self.bind(f"_fgMethod({self.value(v.__func__)}, {self.value(v.__self__)})", v)

    def bound_builtin(self, v: Any) -> str:
        me = v.__self__
        if me is None or is_a(me, (types.ModuleType, type)):
            return self.cap.consts.name(v)
        return f"({self.value(me)}).{v.__name__}"  # of a number, perhaps

    def partial(self, v: functools.partial) -> str:
        args = "".join(", " + self.value(a) for a in v.args)
        if all(k.isidentifier() and not iskeyword(k) for k in v.keywords):
            args += "".join(f", {k}={self.value(a)}" for k, a in v.keywords.items())
        else:
            args += f", **{self.value(dict(v.keywords))}"
        return self._with_attributes(self.bind(f"_fgPartial({self.value(v.func)}{args})", v), v)

    def foreign_method(self, v: ForeignMethod) -> str:
        if hooked(type(v.ref.obj), "__getattribute__"):  # evaluated before
            return f"_fgown({self.value(v.ref)}, {v.name!r})"
        return f"{self.value(v.ref)}.{v.name}"

    def super_(self, v: SuperValue) -> str:
        return f"super({self.value(v.cls)}, {self.value(v.obj)})"

    def _iterator(self, v: Any) -> str:
        try:
            fn, args, *state = v.__reduce__()
        except (TypeError, RuntimeError):  # RuntimeError: what it runs over was changed
            raise CannotRebuild(v, f"a {type(v).__name__}") from None
        if type(v) in _RUNS_OVER:
            return self._running(v, len(args[0]))
        expr = f"{self.cap.consts.name(fn)}{self._items(args)}"
        name = self.bind(expr, v)
        if state and state[0] is not None:
            self.lines.append(f"{name}.__setstate__({self.value(state[0])})")
        return name

    def _running(self, v: Any, left: int) -> str:
        """An iterator over a dict or set: over the very one, whose values may change while it runs."""
        over = next((x for x in gc.get_referents(v) if is_a(x, (dict, set, frozenset))), None)
        if over is None:  # it has ended
            return self.bind("iter(())", v)
        how = _RUNS_OVER[type(v)]
        if any(type(r) is DictRef and r.view is over and is_a(r.obj, collections.OrderedDict) for r in self.cap.refs):
            how = getattr(collections.OrderedDict, how.__name__)
        seen = self.value(over)
        if how is not iter:
            seen = f"{self.cap.consts.name(how)}({seen})"
        name = self.bind(f"{'reversed' if type(v) in _BACKWARDS else 'iter'}({seen})", v)
        if len(over) > left:
            self.lines.append(f"{self.cap.consts.name(_skip)}({name}, {len(over) - left})")
        return name

    def _exception(self, v: BaseException, t: type) -> str:
        if id(v) in self.ev.made:  # it has a traceback and a context
            raise CannotRebuild(v, f"a {t.__name__} that was raised")
        if is_a(t.__new__, types.FunctionType):
            raise CannotRebuild(v, f"a {t.__name__}")
        make = self.class_(t)
        if is_a(t.__init__, types.FunctionType):
            make = f"{self.cap.consts.name(t.__new__)}({make}, "
            name = self.bind(make + ", ".join(self.value(x) for x in v.args) + ")", v)
            like = t.__new__(t, *v.args)
        else:
            name = self.bind(make + self._items(v.args), v)
            like = t(*v.args)
        self._busy.discard(id(v))
        self._fields(name, v, like)
        if v.__dict__:
            self.lines.append(f"{name}.__dict__.update({self.value(dict(v.__dict__))})")
        if v.__cause__ is not None or v.__suppress_context__:
            self.lines.append(f"{name}.__cause__ = {self.value(v.__cause__)}")
        return name

    def _fields(self, name: str, v: BaseException, like: BaseException) -> None:
        """What an exception keeps beside its arguments (``errno``, ``name=``), where ``like`` has something else."""
        if like.args != v.args:
            self.lines.append(f"{name}.args = {self.value(v.args)}")
        for c in type(v).__mro__:
            for n, member in c.__dict__.items() if not c.__flags__ & (1 << 9) else ():
                if is_a(member, types.MemberDescriptorType) and not n.startswith("__"):
                    value = member.__get__(v)
                    if value is not member.__get__(like) and not is_a(v, BaseExceptionGroup):
                        self.lines.append(f"{name}.{n} = {self.value(value)}")

    def _attributes(self, name: str, v: Any) -> None:
        attrs = dict(own_attributes(v)) if type(v).__dictoffset__ else {}
        if attrs:
            body = ", ".join(f"{k!r}: {self.value(x)}" for k, x in attrs.items())
            hook = hooked(type(v), "__getattribute__")
            own = f"{self.cap.consts.name(own_attributes)}({name})" if hook else f"{name}.__dict__"
            self.lines.append(f"{own}.update({{{body}}})")

    def _instance(self, v: Any, t: type) -> str:
        if issubclass(t, Module):
            raise CannotRebuild(v, f"a {t.__name__}")
        base_new = _base_new(t)
        if base_new is None:
            raise CannotRebuild(v, f"a {t.__name__}")
        name = self.bind(f"{self.cap.consts.name(base_new)}({self.class_(t)})", v)
        self._busy.discard(id(v))
        if is_a(v, dict):
            base = collections.OrderedDict if is_a(v, collections.OrderedDict) else dict  # the one that keeps the order
            put = f"{self.cap.consts.name(base)}.__setitem__({name}, "
            self.lines += [f"{put}{self.value(k)}, {self.value(x)})" for k, x in base.items(v)]
        elif is_a(v, list):
            self.lines.append(f"list.extend({name}, [{', '.join(self.value(x) for x in list.__iter__(v))}])")
        self._attributes(name, v)
        for c in t.__mro__:
            for s in _slot_names(c):
                member = names_of(c).get(s)
                if is_a(member, types.MemberDescriptorType) and (found := slot_value(member, v)) is not NULL:
                    self.lines.append(f"object.__setattr__({name}, {s!r}, {self.value(found)})")
        return name


_CONSTANT = (
    type, types.ModuleType, types.CodeType, property, classmethod, staticmethod, np.generic, np.dtype, enum.Enum,
    complex, functools.singledispatchmethod,
    np.ufunc, range, types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
    types.GetSetDescriptorType, types.MemberDescriptorType, type(NotImplemented), operator.itemgetter,
    operator.attrgetter, operator.methodcaller, re.Pattern, functools._lru_cache_wrapper,
    types.GenericAlias, types.UnionType,
)  # fmt: skip


def slot_value(member: Any, v: Any) -> Any:
    """What stands in a slot of an object; NULL if nothing does."""
    try:
        return member.__get__(v)
    except AttributeError:
        return NULL


_RUNS_OVER: dict[type, Any] = {
    type(iter({})): dict.keys, type(iter({}.values())): dict.values, type(iter({}.items())): dict.items,
    type(reversed({})): dict.keys, type(reversed({}.values())): dict.values, type(reversed({}.items())): dict.items,
    type(iter(set())): iter,
}  # fmt: skip
_BACKWARDS: tuple[type, ...] = (type(reversed({})), type(reversed({}.values())), type(reversed({}.items())))


def _skip(it: Any, n: int) -> None:
    """Take the first items from an iterator."""
    for _ in itertools.islice(it, n):
        pass


def _slot_names(c: type) -> list[str]:
    slots = names_of(c).get("__slots__", ())
    names = [slots] if is_a(slots, str) else list(slots)
    return [f"_{c.__name__.lstrip('_')}{s}" if s.startswith("__") and not s.endswith("__") else s for s in names]


def _base_new(t: type) -> Any:
    """The ``__new__`` that makes an empty object of a class; None where its base holds what can't be put in later."""
    base = next(c for c in t.__mro__ if not c.__flags__ & (1 << 9))
    return base.__new__ if base in (object, dict, list, collections.OrderedDict) else None


_MAKERS: dict[type, Any] = {
    tuple: Rebuilder.tuple_, list: Rebuilder.list_, dict: Rebuilder.dict_, collections.OrderedDict: Rebuilder.dict_,
    collections.defaultdict: Rebuilder.dict_, collections.Counter: Rebuilder.dict_, set: Rebuilder.set_,
    frozenset: Rebuilder.set_, collections.deque: Rebuilder.deque, slice: Rebuilder.slice_,
    types.CellType: Rebuilder.cell, types.SimpleNamespace: Rebuilder.namespace,
    types.FunctionType: Rebuilder.function, types.MethodType: Rebuilder.method,
    types.BuiltinFunctionType: Rebuilder.bound_builtin, types.MethodWrapperType: Rebuilder.bound_builtin,
    functools.partial: Rebuilder.partial, ForeignMethod: Rebuilder.foreign_method, SuperValue: Rebuilder.super_,
}  # fmt: skip


# ---- effects


def effect_lines(rb: Rebuilder) -> list[str]:
    """Lines that replay what capture did to pre-existing objects. Values are built before the first line runs."""
    cap = rb.cap
    out: list[str] = []
    bump = False
    for ref in cap.refs:
        if type(ref) is ListRef:
            out += _list_effect(rb, ref)
        elif type(ref) is DictRef:
            lines = _dict_effect(rb, ref)
            out += lines
            bump = bump or bool(lines) and ref.owner is not None and issubclass(type(ref.owner.obj), Module)
        elif type(ref) is SetRef:
            for name, args in ref.log:  # as they were made: the order of a set tells
                out.append(f"{rb.load(ref.source)}.{name}({', '.join(map(rb.value, args))})")
        elif type(ref) is CellRef and ref.dirty:
            out.append(f"{rb.load(ref.source)}.cell_contents = {rb.value(ref.value)}")
        elif type(ref) is ObjRef:
            for name, v in ref.slots.items():
                put = "_fgSetclass" if is_a(ref.obj, type) else "_fgSetattr"
                out.append(f"{put}({rb.load(ref.source)}, {name!r}, {rb.value(v)})")
    if bump:
        out.append("_fgE[0] += 1")
    out += [*context_lines(rb), *data_lines(cap, rb)]
    for inp in cap.tensors:
        if inp.grad_synced and inp.graph._grad is not inp.grad_before:
            out.append(f"{rb.load(inp.source)}._grad = {rb.value(inp.graph._grad)}")
        for name, v in inp.attrs.items():
            out.append(f"{rb.load(inp.source)}.{name} = {rb.value(v)}")
    return out + call_lines(rb)


def _list_effect(rb: Rebuilder, ref: ListRef) -> list[str]:
    if ref.items is None:
        if not ref.tail:
            return []
        s = rb.load(ref.source)
        if len(ref.tail) == 1:
            return [f"{s}.append({rb.value(ref.tail[0])})"]
        return [f"{s}.extend([{', '.join(rb.value(v) for v in ref.tail)}])"]
    if not ref.dirty:
        return []
    s = rb.load(ref.source)
    body = "[" + ", ".join(rb.value(v) for v in ref.items) + "]"
    if type(ref.obj) is list:
        return [f"{s}[:] = {body}"]
    if is_a(ref.obj, list):  # its own methods have been evaluated already
        return [f"{rb.cap.consts.name(list.__setitem__)}({s}, slice(None), {body})"]
    new = rb.bind(body)
    return [f"{s}.clear()", f"{s}.extend({new})"]


def _dict_effect(rb: Rebuilder, ref: DictRef) -> list[str]:
    if not ref.log:
        return []
    s = rb.load(ref.source)
    own = not plain_container(ref.obj)  # its own methods have been evaluated already
    put, drop = rb.cap.consts.name(dict.__setitem__), rb.cap.consts.name(dict.__delitem__)
    out = []
    last = {k: n for n, (_, k, _) in enumerate(ref.log)}
    deleted = any(op == "del" for op, _, _ in ref.log)
    for n, (op, k, v) in enumerate(ref.log):
        if not deleted and k in ref.obj and (last[k] != n or v is ref.cache.get(k, NULL)):
            continue  # overwritten later, or what it was before; the key's place does not change
        key = _key(rb, k)
        if own:
            out.append(f"{put}({s}, {key}, {rb.value(v)})" if op == "set" else f"{drop}({s}, {key})")
        else:
            out.append(f"{s}[{key}] = {rb.value(v)}" if op == "set" else f"del {s}[{key}]")
    return out


def _key(rb: Rebuilder, k: Any) -> str:
    if k is NULL:
        raise Refuse(breaks.INTERNAL, "a key without a place")
    return rb.value(k)
