"""One handler for each builtin function and class."""

from __future__ import annotations

import builtins
import collections
import functools
import math
import types
import weakref
from typing import Any, _get_protocol_attrs  # type: ignore[attr-defined]

from fusegrad.nn.module import Module
from fusegrad.pytree import tree_leaves
from fusegrad.sizes import SymInt
from fusegrad.tensor import Size, Tensor

from . import breaks, texts
from .breaks import Break, Raised, Refuse
from .builtin_calls import BUILTINS, builtin
from .contracts import result_of
from .decode import TUPLES_ASK
from .instances import CLASSES
from .objects import mro_lookup
from .reductions import told_by_python
from .shown import concrete, escaped, placed, shown
from .state import is_fixed_class
from .subclasses import plain_value
from .values import (
    NULL,
    CellRef,
    Foreign,
    ForeignMethod,
    ObjRef,
    SymFloat,
    class_of,
    fixed_key,
    is_a,
    is_foreign,
    module_of,
)  # fmt: skip

# ---- one handler per builtin


@builtin(isinstance)
def _isinstance(ev: Any, args: list, kwargs: dict) -> bool:
    v, kinds = args
    if is_a(kinds, types.UnionType):
        kinds = kinds.__args__
        if not all(type(k) is type(None) or (is_a(k, type) and type(k) is not types.GenericAlias) for k in kinds):
            return ev.real(isinstance, v.obj if is_foreign(v) else v, args[1])
    elif not is_a(kinds, tuple):
        kinds = (kinds,)
    kinds = tuple(_of_typing(ev, k) for k in kinds)
    cls = class_of(v)
    if not is_fixed_class(cls) and not all(is_fixed_class(mro_lookup(cls, n)[0]) for n in _CLASS_READ):
        raise Break(breaks.OBJECT, f"{cls.__name__} says itself what its __class__ is", clean=True)
    for k in kinds:
        if is_a(k, tuple):
            if _isinstance(ev, [v, k], {}):
                return True
        elif is_a(k, types.UnionType):
            if _isinstance(ev, [v, k], {}):
                return True
        elif type(k).__name__ in _PLAIN_KINDS and module_of(type(k)) == "typing":
            if _isinstance(ev, [v, k.__origin__], {}):
                return True
        elif not is_a(k, type) or type(k) is types.GenericAlias:  # of typing, or nothing that can be asked
            if ev.real(isinstance, v.obj if is_foreign(v) else v, k):
                return True
        elif module_of(k) == "fusegrad.nn.parameter" and type(k) is not type:
            if ev.real(isinstance, v, k):
                return True
        elif getattr(k, "_is_protocol", False) and type(k) is not type:
            if _follows(ev, v, cls, k):
                return True
        elif _subclass(ev, cls, k, "__instancecheck__"):
            return True
    return False


_PLAIN_KINDS = ("_SpecialGenericAlias", "_CallableType", "_TupleType")  # of typing, without parameters


def _of_typing(ev: Any, kind: Any) -> Any:
    """A kind that ``isinstance`` is asked about: ``typing.Mapping`` is itself, other objects break the graph."""
    if not is_foreign(kind):
        return kind
    if type(kind) is not ObjRef or module_of(type(kind.obj)) != "typing":
        raise Break(breaks.OBJECT, "isinstance of a placeholder", clean=True)
    ev.cap.guard(f"{ev.cap.tok(kind.source)} is {ev.cap.consts.name(kind.obj)}", "identity", kind.source.path())
    return kind.obj


def _follows(ev: Any, v: Any, cls: type, protocol: Any) -> bool:
    """``isinstance(v, protocol)``: the class counts, and the attributes of the object itself."""
    try:
        if _subclass(ev, cls, protocol, "__instancecheck__"):
            return True
    except TypeError:  # its members are not all methods: the class alone does not tell
        pass
    written = type(v) is ObjRef and (v.slots or (v.dict is not None and v.dict.log))
    if written or not all(is_fixed_class(mro_lookup(cls, n)[0]) for n in _READING if hasattr(cls, n)):
        raise Break(breaks.OBJECT, f"isinstance with the protocol {protocol.__name__}", clean=True)
    answer = ev.real(isinstance, v.obj if is_foreign(v) else v, protocol)
    for name in _get_protocol_attrs(protocol):
        _hasattr(ev, [v, name], {})  # guards that it is there, or not
    return answer


_CLASS_READ = ("__class__", "__getattribute__")
_READING = ("__getattr__", "__getattribute__")


def _subclass(ev: Any, cls: type, kind: type, check: str) -> bool:
    """Whether a class counts as another; guarded where that may change."""
    meta = type(kind)
    if mro_lookup(meta, check)[0].__module__ == "typing":  # of ``Any``: it refuses to be asked
        raise Break(breaks.OBJECT, f"{meta.__name__} has a {check} of its own", clean=True)
    if meta is not type and not is_fixed_class(meta):
        if any(is_a(mro_lookup(meta, n)[1], types.FunctionType) for n in (check, "__subclasscheck__")):
            owner, hook = mro_lookup(meta, check)
            if not is_fixed_class(owner):
                raise Break(breaks.OBJECT, f"{meta.__name__} has a {check} of its own", clean=True)
    answer = issubclass(cls, kind)
    ev.cap.bases_guard(cls)
    if meta is not type and not (is_fixed_class(cls) and is_fixed_class(kind)):  # classes may be registered later
        class_text = lambda k: ev.cap.tok(ev.cap.class_source(k))  # noqa: E731
        ev.cap.guard(f"_fgsubclass({class_text(cls)}, {class_text(kind)}) is {answer}", "class", cls.__name__)
    return answer


@builtin(issubclass)
def _issubclass(ev: Any, args: list, kwargs: dict) -> bool:
    cls, kinds = args
    if is_a(cls, type) and is_a(kinds, type):
        return _subclass(ev, cls, kinds, "__subclasscheck__")
    if is_a(cls, type) and is_a(kinds, tuple) and all(is_a(k, type) for k in kinds):
        return any(_subclass(ev, cls, k, "__subclasscheck__") for k in kinds)
    return ev.real(issubclass, *args)


@builtin(len)
def _len(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.length(args[0])


@builtin(next)
def _next(ev: Any, args: list, kwargs: dict) -> Any:
    try:
        return ev.next_of(args[0])
    except Raised as e:
        if len(args) > 1 and is_a(e.exc, StopIteration):
            return args[1]
        raise


@builtin(getattr)
def _getattr(ev: Any, args: list, kwargs: dict) -> Any:
    try:
        return ev.getattr(args[0], args[1])
    except Raised as e:
        if len(args) > 2 and is_a(e.exc, AttributeError):
            return args[2]
        raise


@builtin(hasattr)
def _hasattr(ev: Any, args: list, kwargs: dict) -> bool:
    if issubclass(type(args[0]), Tensor) and mro_lookup(Tensor, args[1])[0] is not None:
        return True
    try:
        ev.getattr(args[0], args[1])
    except Raised as e:
        if is_a(e.exc, AttributeError):
            return False
        raise
    return True


@builtin(callable)
def _callable(ev: Any, args: list, kwargs: dict) -> bool:
    cls = class_of(args[0])
    owner, attr = mro_lookup(cls, "__call__")
    ev.cap.class_guard(cls, "__call__", attr)
    return owner is not None


@builtin(setattr)
def _setattr(ev: Any, args: list, kwargs: dict) -> None:
    ev.setattr(*args)


@builtin(delattr)
def _delattr(ev: Any, args: list, kwargs: dict) -> None:
    ev.delattr(*args)


@builtin(id)
def _id(ev: Any, args: list, kwargs: dict) -> Any:
    v = args[0]
    if issubclass(type(v), Foreign) and v.source.kind == "const":
        return id(v.obj)
    inp = ev.cap.input_of.get(id(v))
    if inp is not None:
        if inp.source.kind != "const":
            if not ev.cap.by_user():  # the library looks whether it met this tensor before
                ev.cap.told_apart[id(inp)] = inp
                return id(inp.real)
            c = ev.cap
            ev.numbers_fixed_by(lambda: c.is_still(inp.real, inp.source, place=c.number_place))
        return id(inp.real)
    if issubclass(type(v), Foreign):
        ev.numbers_fixed_by(lambda: ev.cap.is_still(v.obj, v.source, place=ev.cap.number_place))
        return id(v.obj)
    _must_be_made(ev, v)
    return ev.address(v)


def _must_be_made(ev: Any, v: Any) -> None:
    """The place of an object in memory is asked, and ``v`` only stands for one that comes from somewhere."""
    source = ev.cap.origin.get(id(v))
    if source is not None and source.kind != "const":
        raise Break(breaks.OBJECT, f"id() or hash() of a {class_of(v).__name__}", clean=True)


@builtin(hash)
def _hash(ev: Any, args: list, kwargs: dict) -> Any:
    m = ev.user_method(args[0], "__hash__")
    if m is not NULL:
        return result_of("__hash__", ev.call(m, [args[0]], {}))
    if is_foreign(args[0]):
        if class_of(args[0]).__hash__ is not object.__hash__:  # of its contents: a text, a date
            raise Break(breaks.OBJECT, f"hash of a {class_of(args[0]).__name__}", clean=True)
        return _id(ev, args, kwargs) >> 4
    if type(args[0]) is ForeignMethod:
        raise Break(breaks.OBJECT, "hash of a method of an object", clean=True)
    if isinstance(args[0], Tensor) and type(args[0]).__hash__ is Tensor.__hash__:
        return _id(ev, args, kwargs)
    if isinstance(args[0], (tuple, frozenset)) and any(isinstance(v, Tensor) for v in tree_leaves(list(args[0]))):
        raise Break(breaks.OBJECT, "hash of a tuple with tensors", clean=True)
    if is_a(args[0], (types.FunctionType, types.MethodType, functools.partial, type)):
        _must_be_made(ev, args[0])
    if class_of(args[0]).__hash__ is object.__hash__:
        ev.address(args[0])
    return ev.real(hash, fixed_key(args[0]))


@builtin(Tensor.__hash__)
def _tensor_hash(ev: Any, args: list, kwargs: dict) -> Any:
    return _id(ev, args, kwargs)


@builtin(abs)
def _abs(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.unary("abs", ev.content(args[0])) if len(args) == 1 and not kwargs else ev.real(abs, *args, **kwargs)


@builtin(pow)
def _pow(ev: Any, args: list, kwargs: dict) -> Any:
    if len(args) == 2 and not kwargs:
        return ev.binary("pow", *args, False)
    return ev.real(pow, *(fixed_key(ev.pure_arg(a)) for a in args), **{k: fixed_key(v) for k, v in kwargs.items()})


@builtin(repr)
def _repr(ev: Any, args: list, kwargs: dict) -> Any:
    return _text(ev, args[0], "__repr__", repr)


def _text(ev: Any, v: Any, name: str, fn: Any) -> Any:
    if type(v) is Size:
        v = placed(ev, concrete, ev, v)
    m = ev.user_method(v, name)
    if m is NULL and name == "__str__" and mro_lookup(class_of(v), "__str__")[0] is object:
        m = ev.user_method(v, "__repr__")
    if m is not NULL and not issubclass(class_of(v), Module):
        return result_of(name, ev.call(m, [v], {}))
    if type(v) in shown:
        return ev.real(fn, placed(ev, concrete, ev, v))
    v = plain_value(ev.cap, v)
    if issubclass(type(v), Tensor):
        raise Break(breaks.VALUE, "text of a tensor", clean=True)
    if type(v) in (SymInt, SymFloat):
        return texts.field(ev, v, 2 if name == "__repr__" else 1, "")
    if is_foreign(v) or type(v).__name__ in ("GenValue", "ForeignMethod", "SuperValue"):
        raise Break(breaks.OBJECT, f"text of a {class_of(v).__name__}", clean=True)
    if is_a(v, BaseException):
        return _error_text(ev, fn, v)
    return ev.real(fn, v)


def _error_text(ev: Any, fn: Any, e: BaseException) -> Any:
    """Text of an exception, with its arguments as texts show them while it is made."""
    args = e.args
    if any(type(x) is ForeignMethod for x in args):
        raise Break(breaks.OBJECT, "text of a method of an object", clean=True)
    if not any(type(x) in shown or type(x) in (SymInt, SymFloat) for x in args):
        return ev.real(fn, e)
    e.args = tuple(placed(ev, concrete, ev, x) for x in args)
    try:
        return ev.real(fn, e)
    finally:
        e.args = args


@builtin(ascii)
def _ascii(ev: Any, args: list, kwargs: dict) -> Any:
    if len(args) != 1 or kwargs:
        return ev.real(ascii, *args, **kwargs)
    return escaped(_text(ev, args[0], "__repr__", repr))


@builtin(format)
def _format(ev: Any, args: list, kwargs: dict) -> Any:
    v = args[0]
    spec = args[1] if len(args) > 1 else ""
    m = ev.user_method(v, "__format__")
    if m is not NULL:
        return result_of("__format__", ev.call(m, [v, spec], {}))
    if type(spec) is str and not spec:
        return _text(ev, v, "__str__", str)
    if type(v) in (SymInt, SymFloat) and type(spec) is str:
        return texts.field(ev, v, 0, spec)
    if is_a(v, Tensor):
        raise Break(breaks.VALUE, "text of a tensor", clean=True)
    return ev.real(format, ev.pure_arg(v), spec)


@builtin(vars)
def _vars(ev: Any, args: list, kwargs: dict) -> Any:
    if len(args) == 1:
        return ev.getattr(args[0], "__dict__")
    raise Refuse(breaks.FRAME, "vars() needs the real frame")


@builtin(locals)
def _locals(ev: Any, args: list, kwargs: dict) -> Any:
    from .instr_basic import locals_of

    frame = ev.frames[-1]
    if args or kwargs or frame.ip - 1 not in frame.program.locals_calls():
        raise Refuse(breaks.FRAME, "locals() needs the real frame")
    return locals_of(ev, frame)


@builtin(eval, exec)
def _own_frame(ev: Any, args: list, kwargs: dict) -> Any:
    raise Refuse(breaks.FRAME, "eval() and exec() need the real frame")


@builtin(dir)
def _dir(ev: Any, args: list, kwargs: dict) -> Any:
    if not args:
        raise Refuse(breaks.FRAME, "dir() needs the real frame")
    raise Break(breaks.CALL, "dir", clean=True)


@builtin(globals)
def _globals(ev: Any, args: list, kwargs: dict) -> Any:
    return ev.globals_ref(ev.frames[-1].globals)


@builtin(sorted)
def _sorted(ev: Any, args: list, kwargs: dict) -> list:
    items = list(ev.items_of(args[0], sized=True))
    ev._sort(items, kwargs)
    return items


def _math(fn: Any, low: float | None = None, high: float | None = None) -> None:
    """A math function of a changing number: computed by the segment, while the argument stays where it can't fail."""

    def h(ev: Any, args: list, kwargs: dict) -> Any:
        v = args[0] if args else None
        if type(v) is SymInt:
            v = ev.cap.sizes.real(v)
        if len(args) != 1 or type(v) is not SymFloat:
            return ev.real(fn, *[ev.pure_arg(a) for a in args], **kwargs)
        if (low is not None and not v.hint >= low) or (high is not None and not v.hint <= high):
            return ev.real(fn, float(v))
        if low is not None:
            ev.cap.float_guard(f"({v.code}) >= {low}", v.srcs)
        if high is not None:
            ev.cap.float_guard(f"({v.code}) <= {high}", v.srcs)
        return SymFloat(ev.cap, f"{ev.cap.consts.name(fn)}({v.code})", fn(v.hint), v.srcs)

    BUILTINS[fn] = h


for _f in (math.sin, math.cos, math.tan, math.atan, math.tanh, math.fabs):
    _math(_f, -1e300, 1e300)
_math(math.sqrt, 0.0)
_math(math.exp, None, 700.0)
_math(math.log, 1e-300, 1e300)
_math(math.log2, 1e-300, 1e300)
_math(math.log10, 1e-300, 1e300)


def _whole(fn: Any) -> None:
    """The whole number next to a changing float."""

    def h(ev: Any, args: list, kwargs: dict) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) is SymFloat:
            return ev.cap.whole(fn, args[0])
        return ev.real(fn, *[ev.pure_arg(a) for a in args], **{k: ev.pure_arg(a) for k, a in kwargs.items()})

    BUILTINS[fn] = h


for _f in (math.floor, math.ceil, math.trunc, round):
    _whole(_f)


# ---- classes


def cls_handler(*classes: type) -> Any:
    def put(h: Any) -> Any:
        for c in classes:
            CLASSES[c] = h
        return h

    return put


@cls_handler(list, tuple, set, frozenset, collections.deque)
def _sequence(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if not args:
        return ev.real(cls, **kwargs)
    if cls is frozenset and type(args[0]) is frozenset:
        return args[0]
    if cls in (set, frozenset):
        items = [ev.key(v) for v in ev.set_items(args[0])]
    else:
        items = ev.items_of(args[0], sized=cls is list or (cls is tuple and TUPLES_ASK))
    return ev.real(cls, items, *args[1:], **kwargs)


@cls_handler(dict, collections.OrderedDict)
def _dict(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    out = cls()
    if args:
        src = ev.content(args[0])
        if is_a(src, dict) or mro_lookup(class_of(src), "keys")[0] is not None:
            new: Any = ev.mapping_of(src)
        else:
            try:
                new = [ev.items_of(p) for p in ev.items_of(src)]
            except Raised as e:
                raise told_by_python(e, "dict") from None
            new = [(ev.key(p[0]), p[1]) if len(p) == 2 else p for p in new]
        ev.real(out.update, new)
    out.update(kwargs)
    return out


@cls_handler(collections.defaultdict)
def _defaultdict(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    factory = args[0] if args else None
    if is_foreign(factory):
        raise Break(breaks.CALL, "defaultdict with an object as its factory", clean=True)
    out: Any = ev.real(collections.defaultdict, factory)
    if len(args) > 1:
        out.update(ev.mapping_of(args[1]))
    out.update(kwargs)
    return out


@cls_handler(enumerate)
def _enumerate(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    start = args[1] if len(args) > 1 else kwargs.get("start", 0)
    return enumerate(ev.iterable(args[0]), int(start) if is_a(start, SymInt) else start)


@cls_handler(zip)
def _zip(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.real(zip, *[ev.iterable(a) for a in args], **kwargs)


@cls_handler(range)
def _range(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.numbers_fixed_by(lambda: ev.real(range, *[int(a) if is_a(a, SymInt) else ev.pure_arg(a) for a in args]))


@cls_handler(slice)
def _slice(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return ev.real(slice, *args)


@cls_handler(type)
def _type(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if len(args) == 1:
        return class_of(args[0])
    raise Break(breaks.CALL, "a class is made", clean=True)


@cls_handler(super)
def _super(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if len(args) == 2:
        return ev.make_super(*args)
    if args:
        raise Break(breaks.CALL, "super of a class alone", clean=True)
    from .instr_basic import local, read_cell

    f = ev.frames[-1]
    code = f.program.code
    if not code.co_argcount:
        raise Raised(RuntimeError("super(): no arguments"))
    if f.slots[0] is NULL:
        raise Raised(RuntimeError("super(): arg[0] deleted"))
    if "__class__" not in code.co_freevars:
        raise Raised(RuntimeError("super(): __class__ cell not found"))
    slot = f.program.slots.index("__class__")
    first = local(ev, f, 0)
    if type(first) in (types.CellType, CellRef):
        first = read_cell(ev, first, code.co_varnames[0])
    return ev.make_super(read_cell(ev, local(ev, f, slot), "__class__"), first)


@cls_handler(int, float, bool)
def _number(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if not args:
        return cls()
    v = args[0]
    if cls is bool:
        return ev.truth(v)
    if cls is float and type(v) is SymFloat:
        return v if type(v.hint) is float else SymFloat(ev.cap, f"float({v.code})", float(v.hint), v.srcs)
    if cls is int and is_a(v, SymInt):
        return v
    if cls is int and len(args) == 1 and type(v) is SymFloat:
        return ev.cap.whole(int, v)
    if cls is float and type(v) is SymInt:
        return SymFloat(ev.cap, f"float({ev.cap.size_code(v)})", float(v.hint), [])
    if issubclass(type(v), Tensor):
        raise Break(breaks.VALUE, f"{cls.__name__}() of a tensor", clean=True)
    name = f"__{cls.__name__}__"
    m = ev.user_method(v, name) if len(args) == 1 else NULL
    if m is NULL and len(args) == 1 and mro_lookup(class_of(v), name)[1] is NULL:
        name, m = "__index__", ev.user_method(v, "__index__")
    if m is not NULL:
        r = result_of(name, ev.call(m, [v], {}))
        return r if class_of(r) is cls else _number(ev, cls, [r], {})
    return ev.real(cls, *[ev.pure_arg(a) for a in args], **kwargs)


@cls_handler(weakref.ref, weakref.finalize)
def _weak(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """The captured code's own objects may live longer than they would: their end can be seen by a weak reference."""
    if args and not is_foreign(args[0]) and id(args[0]) not in ev.cap.origin:
        raise Refuse(breaks.FRAME, "a weak reference to an object made here")
    raise Break(breaks.CALL, f"call of weakref.{fn.__name__}", clean=True)


@cls_handler(str)
def _str(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if len(args) == 1 and not kwargs:
        return _text(ev, args[0], "__str__", str)
    return ev.real(str, *args, **kwargs)


@cls_handler(property, staticmethod, classmethod)
def _descriptor(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if any(is_foreign(v) for v in (*args, *kwargs.values())):
        raise Break(breaks.CALL, f"a {cls.__name__} of an object is made", clean=True)
    return ev.note_new(ev.real(cls, *args, **kwargs))


@cls_handler(functools.partial)
def _partial(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    if is_foreign(args[0]):
        raise Break(breaks.CALL, "partial of an object", clean=True)
    out: Any = functools.partial(args[0], *args[1:], **kwargs)
    ev.cap.keep.append(out)
    return out


@cls_handler(types.MethodType)
def _method(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    return types.MethodType(*args)


@cls_handler(builtins.object)
def _object(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    out = object()
    ev.cap.keep.append(out)
    return out
