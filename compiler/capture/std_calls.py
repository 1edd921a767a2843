"""Handlers for the standard library: itertools, heapq, functools, operator, copy, re."""

from __future__ import annotations

import _collections
import _heapq
import collections
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import operator
import re
import reprlib
import sys
import types
from typing import Any

from fusegrad.handler import active
from fusegrad.tensor import Tensor

from . import breaks, inputs, std_python
from .aliases import shared
from .breaks import Break, Raised
from .builtin_calls import BUILTINS, PURE, builtin
from .builtin_table import cls_handler
from .calls import SPECIAL
from .handled import callers, traceback_of
from .instances import CLASSES
from .iteration import ITERATORS
from .values import NULL, DictRef, ListRef, ObjRef, SetRef, SymFloat, class_of, fixed_key, is_a, is_foreign

# ---- itertools


_OVER = {itertools.accumulate: (0,), itertools.pairwise: (0,), itertools.cycle: (0,), itertools.compress: (0, 1),
         itertools.starmap: (1,), itertools.takewhile: (1,), itertools.dropwhile: (1,), itertools.filterfalse: (1,),
         itertools.groupby: (0,), getattr(itertools, "batched", None): (0,),
         itertools.zip_longest: range(1000)}  # fmt: skip


def _begun(ev: Any, args: list, over: Any) -> list:
    """Arguments with iterators in the place of what a C iterator runs over: it asks for those when it is made."""
    args = list(args)
    for k in over:
        if k >= len(args):
            break
        it = ev.get_iter(args[k])
        if not (type(it) in ITERATORS or type(it).__name__ == "GenValue"):
            it = ev.inline(std_python.each, [it], {})
        args[k] = it
    return args


def _python_form(cls: Any, fn: Any) -> None:
    over = _OVER.get(cls, ())

    def h(ev: Any, args: list, kwargs: dict) -> Any:
        if cls is itertools.count and any(is_a(v, (str, bytes, list, tuple, dict, type(None))) for v in args):
            raise Break(breaks.CALL, "count of what is no number", clean=True)
        if cls is itertools.islice and any(class_of(v) is float for v in args[1:]):
            raise Break(breaks.CALL, "islice with floats, which it refuses", clean=True)
        return ev.inline(fn, _begun(ev, args, over), kwargs)

    BUILTINS[cls] = h


@builtin(iter)
def _iter(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.get_iter(args[0]) if len(args) == 1 else ev.inline(std_python.until, args, kwargs)


@cls_handler(map)
def _map(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    args = _begun(ev, args, range(1, len(args)))
    return ev.inline(std_python.mapped_one if len(args) == 2 else std_python.mapped, args, kwargs)


@cls_handler(filter)
def _filter(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.inline(std_python.chosen, _begun(ev, args, (1,)), kwargs)


@cls_handler(reversed)
def _reversed(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    v = ev.content(args[0])
    m = ev.user_method(v, "__reversed__")
    if m is not NULL:
        return ev.call(m, [v], {})
    if is_foreign(v) or ev.user_method(v, "__getitem__") is not NULL:
        return ev.inline(std_python.backwards, [v], {})
    return ev.real(reversed, v)


for _name in (
    "chain accumulate pairwise batched cycle count repeat compress starmap takewhile dropwhile filterfalse zip_longest "
    "islice tee groupby"
).split():
    if hasattr(itertools, _name):
        _python_form(getattr(itertools, _name), getattr(std_python, _name))


_python_form(itertools.chain.from_iterable, std_python.from_iterable)


def _combinations(cls: Any) -> None:
    def h(ev: Any, args: list, kwargs: dict) -> Any:
        given = [ev.items_of(a) if k == 0 or cls is itertools.product else ev.pure_arg(a) for k, a in enumerate(args)]
        made = ev.real(cls, *given, **{k: fixed_key(v) for k, v in kwargs.items()})
        first = list(itertools.islice(made, 1000))
        if len(first) < 1000:  # what it runs over was read at its start: a list of them does the same
            return iter(first)
        return ev.inline(std_python.chain, [first, made], {})

    BUILTINS[cls] = h


for _c in (
    itertools.product,
    itertools.combinations,
    itertools.permutations,
    itertools.combinations_with_replacement,
):
    _combinations(_c)


# ---- heapq, bisect


def _heap(fn: Any) -> None:
    def h(ev: Any, args: list, kwargs: dict) -> Any:
        heap = args[0]
        if type(heap) is ListRef:
            heap = ev.list_items(heap)
            args[0].dirty = True
        return ev.real(fn, heap, *args[1:], **kwargs)

    BUILTINS[fn] = h


for _f in vars(_heapq).values():
    if is_a(_f, types.BuiltinFunctionType):
        _heap(_f)


@builtin(_collections._count_elements)
def _count(ev: Any, args: list, kwargs: dict) -> None:
    counts, items = args

    def count(x: Any) -> None:
        old = ev.dict_get(counts, x) if type(counts) is DictRef else counts.get(ev.key(x), 0)
        ev.setitem(counts, x, ev.binary("add", 0 if old is NULL else old, 1, False))

    if not ev.one_by_one(items, count):
        for x in ev.items_of(items):
            count(x)


@builtin(operator.length_hint)
def _length_hint(ev: Any, args: list, kwargs: dict) -> Any:
    if any(class_of(v).__module__ == "itertools" for v in args):  # some of those know
        raise Break(breaks.CALL, "length_hint of an iterator", clean=True)
    return ev.real(operator.length_hint, *map(ev.pure_arg, args), **kwargs)


@builtin(functools.cmp_to_key)
def _cmp_to_key(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.inline(std_python.cmp_to_key, args, kwargs)


@builtin(sys.exc_info)
def _exc_info(ev: Any, args: list, kwargs: dict) -> tuple:
    exc = _handled(ev, "sys.exc_info", args, kwargs)
    return (None, None, None) if exc is None else (class_of(exc), exc, traceback_of(ev, exc))


@builtin(sys.exception)
def _exception(ev: Any, args: list, kwargs: dict) -> Any:
    return _handled(ev, "sys.exception", args, kwargs)


def _handled(ev: Any, called: str, args: list, kwargs: dict) -> Any:
    """The exception being handled, or None; that none of the caller's is handled is guarded."""
    if args or kwargs:
        raise Break(breaks.CALL, f"{called} with arguments", clean=True)
    if ev.exc is None:
        callers(ev, called)
    return ev.exc


PURE |= {str.maketrans, bytes.maketrans, bytes.fromhex}


# ---- functools


def cached(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """A call of a cached function with constants: asked for real at every call, guards look at what it gives."""
    if not all(_constant(v) for v in (*args, *kwargs.values())):
        raise Break(breaks.CALL, f"cached function {fn.__name__} of a value that changes", clean=True)
    size = fn.cache_parameters()["maxsize"]
    if size is not None and size < 16:  # guards would ask for one value after the other at each call
        raise Break(breaks.CALL, f"function {fn.__name__} with a small cache", clean=True)
    given = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
    given = given.replace("{", "{{").replace("}", "}}")
    ev.calls += 1
    try:
        with active(None):
            value = ev.real(fn, *args, **kwargs)
    except Raised:
        raise Break(breaks.CALL, f"cached function {fn.__name__} raises: it is called again each time") from None
    source = again = ev.cap.const(fn).call(f"{{}}({given})")
    while again.text in ev.cap.asked:  # the same call once more: one that counts, in another text
        given += " "
        again = ev.cap.const(fn).call(f"{{}}({given})")
    ev.cap.asked.add(again.text)
    if again is not source:
        ev.cap.guard(f"{ev.cap.tok(again)} is {ev.cap.tok(source)}", "identity", fn.__name__)
    return ev.cap.realize(value, source)


def _constant(v: Any) -> bool:
    return type(v) in (int, str, bool, type(None), float) or (type(v) is tuple and all(map(_constant, v)))


@functools.singledispatch
def _dispatched(v: Any) -> None:
    """Only its code is of use: that of every function made by ``singledispatch``."""


DISPATCH_CODE = _dispatched.__code__


def single_dispatch(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """A call of a function made by ``functools.singledispatch``."""
    if not args:
        raise Raised(TypeError(f"{fn.__name__} requires at least 1 positional argument"))
    return ev.call(_implementation(ev, fn, args[0]), args, kwargs)


def _implementation(ev: Any, fn: Any, first: Any) -> Any:
    cls, name = class_of(first), ev.cap.consts.name
    impl = ev.real(fn.dispatch, cls)
    ev.cap.guard(f"{name(fn)}.dispatch({name(cls)}) is {name(impl)}", "identity", fn.__name__)
    return impl


def _dispatched_method(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    descriptor, obj, cls, *rest = args
    impl = _implementation(ev, descriptor.dispatcher, rest[0]) if rest else None
    if type(impl) is not types.FunctionType:
        raise Break(breaks.CALL, "call of a singledispatchmethod", clean=True)
    return ev.call(impl, [obj, *rest], kwargs)


# ---- logging

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}


def _logged(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """Messages of levels that a logger does not take, and the question whether it takes them. NULL: for Python."""
    me, name = args[0] if args else None, fn.__name__
    level = _LEVELS.get(name)
    if name == "isEnabledFor" and len(args) == 2 and not kwargs and type(args[1]) is int:
        level = args[1]
    if level is None or type(me) is not ObjRef or type(me.obj).__module__ != "logging" or "." not in fn.__qualname__:
        return NULL
    if "isEnabledFor" in vars(me.obj) or (name != "isEnabledFor" and len(args) < 2):
        return NULL
    taken = ev.real(me.obj.isEnabledFor, level)
    if type(taken) is not bool or (taken and name != "isEnabledFor"):
        return NULL
    tok, path = ev.cap.tok(me.source), me.source.path()
    ev.cap.class_guard(type(me.obj), "isEnabledFor", type(me.obj).isEnabledFor)
    ev.cap.guard(f"'isEnabledFor' not in {tok}.__dict__", "absent", path)  # else the user's would be asked by guards
    ev.cap.guard(f"{tok}.isEnabledFor({level}) is {taken}", "logging", path)
    return taken if name == "isEnabledFor" else None


SPECIAL["logging"] = _logged


# ---- operator


@cls_handler(operator.itemgetter, operator.attrgetter, operator.methodcaller)
def _make_getter(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.real(cls, *args, **kwargs)


@cls_handler(types.SimpleNamespace)
def _namespace(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if args:
        kwargs = {**ev.mapping_of(args[0]), **kwargs}
    return cls(**kwargs)


# ---- copy


def copy_one(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``copy.copy(v)``."""
    v = args[0] if args else kwargs["x"]
    t = type(v)
    if t in (ListRef, DictRef, SetRef):
        kind = type(v.obj)
        if kind in (list, dict, set):
            return kind(ev.content(v))
        if kind not in _COPIED:  # the copy is one of the subclass
            raise Break(breaks.CALL, f"copy of a {kind.__name__}", clean=True)
        if kind is collections.OrderedDict:
            _attributes(ev, v)
        return ev.call(ev.getattr(v, "copy"), [], {})
    if t is collections.OrderedDict:
        out = ev.real(t.copy, v)
        vars(out).update(vars(v))
        return out
    if _atom(v) or t in (tuple, frozenset, slice, property):
        return v
    if t in (list, dict, set) or t.__name__ in ("deque", "OrderedDict", "defaultdict", "Counter"):
        return ev.real(t.copy, v)
    state = _state_of(ev, v)
    return _with_state(ev, class_of(v), state)


_COPIED = (collections.OrderedDict, collections.defaultdict, collections.Counter, collections.deque)


def copy_all(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``copy.deepcopy(v)``."""
    if len(args) != 1 or kwargs:
        raise Break(breaks.CALL, "deepcopy with a memo", clean=True)
    return _deep(ev, args[0], {}, [])


def _deep(ev: Any, v: Any, memo: dict, keep: list) -> Any:
    if _atom(v):
        return v
    me, t, kind = id(v), type(v), class_of(v)
    if me in memo:
        return memo[me]
    keep.append(v)
    new: Any
    if issubclass(t, Tensor):
        new = memo[me] = _deep_tensor(ev, ev.native(v), memo)
        return new
    if kind is collections.OrderedDict:
        own = _attributes(ev, v)
    v = ev.content(v)
    if kind is collections.OrderedDict:
        new = memo[me] = collections.OrderedDict()
        vars(new).update({k: _deep(ev, x, memo, keep) for k, x in own.items()})
        new.update([(_deep(ev, k, memo, keep), _deep(ev, x, memo, keep)) for k, x in v.items()])
    elif kind is list:
        new = memo[me] = []
        new.extend(_deep(ev, x, memo, keep) for x in v)
    elif kind is tuple:
        new = tuple(_deep(ev, x, memo, keep) for x in v)
        new = v if all(a is b for a, b in zip(new, v, strict=True)) else new
    elif kind is dict:
        new = memo[me] = {}
        new.update((_deep(ev, k, memo, keep), _deep(ev, x, memo, keep)) for k, x in v.items())
    elif kind is set and all(map(_atom, v)):
        new = set(v)
    else:
        state = _state_of(ev, v)
        new = memo[me] = _with_state(ev, kind, {})
        new.__dict__.update({k: _deep(ev, x, memo, keep) for k, x in state.items()})
    memo[me] = new
    return new


def _attributes(ev: Any, v: Any) -> dict:
    """Attributes of an OrderedDict: those of a state dict made here."""
    if type(v) is not DictRef:
        return vars(v)
    if vars(v.obj):
        raise Break(breaks.CALL, "copy of an OrderedDict with attributes", clean=True)
    ev.cap.guard(f"not {ev.cap.tok(v.source)}.__dict__", "absent", v.source.path())
    return {}


def _share(cap: Any, a: Tensor, b: Tensor) -> bool:
    """Whether tensors of the graph share memory, as their copies would; that inputs don't is guarded."""
    if a._g.cell is b._g.cell:
        return True
    first, second = (next((i for i in cap.tensors if i.entry._g.cell is t._g.cell), None) for t in (a, b))
    if first is None or second is None:
        return False
    return shared(cap, first, second)


def _deep_tensor(ev: Any, t: Tensor, memo: dict) -> Tensor:
    inp = ev.cap.input_of.get(id(t))
    if ev.cap.builder.is_mine(t):
        seen = memo.setdefault("tensors", [])
        if any(_share(ev.cap, t, other) for other in seen):
            raise Break(breaks.CALL, "deepcopy of several tensors that share memory", clean=True)
        seen.append(t)
    extra = id(t) in ev.cap.attributes or inp is not None and bool(inp.attrs or getattr(inp.real, "__dict__", None))
    if t.grad_fn is not None or type(t) is not Tensor or extra or not ev.cap.builder.is_mine(t):
        raise Break(breaks.CALL, "deepcopy of this tensor", clean=True)
    if t._g.chain or not ev.real(Tensor.is_contiguous, t):
        raise Break(breaks.CALL, "deepcopy of a view, or of a tensor that is not contiguous", clean=True)
    if inp is not None:
        inputs.sync_grad(ev.cap, inp)
    out = ev.real(Tensor.clone, ev.real(Tensor.detach, t))
    if t._grad is not None:
        raise Break(breaks.CALL, "deepcopy of a tensor with a gradient", clean=True)
    return out._ask_grad(True) if t._rg else out


_ATOMS = (int, float, str, bytes, bool, complex, type(None), type(Ellipsis), range, type(NotImplemented))


def _atom(v: Any) -> bool:
    """Values whose copy is the value itself."""
    if is_foreign(v):
        return False
    return type(v) in _ATOMS or is_a(
        v, (SymFloat, types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
    ) or type(v).__name__ in ("SymInt", "dtype", "device")  # fmt: skip


_COPYING = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__getnewargs__",
            "__getnewargs_ex__", "__new__", "__slots__", "__setattr__", "__getattr__", "__getattribute__")  # fmt: skip


def _state_of(ev: Any, v: Any) -> dict:
    """The attributes of an instance that is copied by its ``__dict__`` alone; a break for other objects."""
    cls = class_of(v)
    plain = cls.__flags__ & (1 << 9) and cls.__dictoffset__
    own = (n for c in cls.__mro__ if c is not object for n in _COPYING if n in vars(c))
    if not plain or next(own, None) is not None or issubclass(cls, (dict, list, set, tuple, BaseException, int, str)):
        raise Break(breaks.CALL, f"copy of a {cls.__name__}", clean=True)
    for name in ("__reduce_ex__", "__dict__"):
        ev.user_method(v, name)
    if type(v) is ObjRef:
        return dict(ev.dict_view(ev.instance_dict(v)))
    return dict(vars(v))


def _with_state(ev: Any, cls: type, state: dict) -> Any:
    out: Any = object.__new__(cls)
    out.__dict__.update(state)
    ev.cap.keep.append(out)
    return out


# ---- re


def _regular(fn: Any) -> Any:
    def h(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
        a = [ev.pure_arg(v) for v in args]
        return found(ev, ev.real(fn, *a, **{k: ev.pure_arg(v) for k, v in kwargs.items()}))

    SPECIAL[fn] = h


def found(ev: Any, v: Any) -> Any:
    """A match can't be made again: if it lives on over a break, the search is made for real."""
    for m in v if type(v) is tuple else (v,):
        if type(m) is re.Match:
            ev.made[id(m)] = ev.outer
            ev.engine.keep.append(m)
    return v


def _finditer(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    return iter(list(found(ev, tuple(ev.real(fn, *map(ev.pure_arg, args), **kwargs)))))


SPECIAL[re.finditer] = _finditer
for _f in (re.compile, re.match, re.search, re.fullmatch, re.findall, re.sub, re.subn, re.split, re.escape):
    _regular(_f)


def _asked(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """A question of ``inspect`` about the kind of an object. Functions and classes are values, others are not those."""
    of = args[0] if len(args) == 1 and not kwargs else None
    if is_foreign(of) or not is_a(of, (type, types.FunctionType, types.MethodType)):
        raise Break(breaks.CALL, f"inspect.{fn.__name__} of a {class_of(of).__name__}", clean=True)
    return ev.real(fn, of)


for _f in (inspect.isclass, inspect.isfunction, inspect.ismethod, inspect.isgeneratorfunction,
           inspect.iscoroutinefunction):  # fmt: skip
    SPECIAL[_f] = _asked


def _guarded_repr(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """A ``__repr__`` that gives "..." inside of itself, as those of dataclasses: what it guards is called."""
    cells = {n: c.cell_contents for n, c in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)}
    inner = cells["user_function"]
    if kwargs or len(args) != 1 or type(inner) is not types.FunctionType:
        raise Break(breaks.CALL, "a __repr__ of another kind", clean=True)
    key = id(args[0]), id(inner)
    if key in ev.reprs:
        return cells.get("fillvalue", "...")
    ev.reprs.add(key)
    try:
        return ev.call(inner, args, {})
    finally:
        ev.reprs.discard(key)


for _f in (reprlib.recursive_repr(), getattr(dataclasses, "_recursive_repr", reprlib.recursive_repr())):
    SPECIAL[_f(repr).__code__] = _guarded_repr
SPECIAL[functools._lru_cache_wrapper] = cached


def _caching(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """A cached function is made: a new one at every call, with a cache of its own."""
    if fn is functools.lru_cache and not (args and type(args[0]) in (types.FunctionType, types.MethodType)):
        return ev.real(fn, *args, **kwargs)
    raise Break(breaks.CALL, "a cached function is made", clean=True)


for _f in (functools.lru_cache, functools.cache, functools.lru_cache(maxsize=1).__code__):
    SPECIAL[_f] = _caching
CLASSES[functools._lru_cache_wrapper] = _caching
SPECIAL[DISPATCH_CODE] = single_dispatch
SPECIAL[std_python.dispatched_method] = _dispatched_method
SPECIAL[enum.Flag.__invert__] = lambda ev, fn, args, kwargs: ev.real(fn, *args)  # it keeps the member it made
SPECIAL[copy.copy] = copy_one
SPECIAL[copy.deepcopy] = copy_all
