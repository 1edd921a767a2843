"""Jumps, loops, comparisons, operators, exceptions, `with`, unpacking, calls."""

from __future__ import annotations

from typing import Any

from . import breaks
from .breaks import Break, Raised
from .decode import CALLABLE_FIRST, TUPLES_ASK, UNPACK_TELLS_COUNT, Instr
from .evaluator import Evaluator, Frame, handles
from .handled import Before, callers, match_star, raise_star, traceback_of
from .values import NULL, class_of, fixed_key, is_a, is_foreign, names_of


@handles("JUMP_FORWARD")
def _jump(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.ip = ins.target


@handles("POP_JUMP_IF_FALSE")
def _if_false(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if not ev.truth(f.stack.pop()):
        f.ip = ins.target


@handles("POP_JUMP_IF_TRUE")
def _if_true(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if ev.truth(f.stack.pop()):
        f.ip = ins.target


@handles("POP_JUMP_IF_NONE")
def _if_none(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if f.stack.pop() is None:
        f.ip = ins.target


@handles("POP_JUMP_IF_NOT_NONE")
def _if_not_none(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if f.stack.pop() is not None:
        f.ip = ins.target


@handles("JUMP_IF_FALSE_OR_POP")
def _false_or_pop(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if ev.truth(f.stack[-1]):
        f.stack.pop()
    else:
        f.ip = ins.target


@handles("JUMP_IF_TRUE_OR_POP")
def _true_or_pop(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if ev.truth(f.stack[-1]):
        f.ip = ins.target
    else:
        f.stack.pop()


@handles("TO_BOOL")
def _to_bool(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack[-1] = ev.truth(f.stack[-1])


@handles("UNARY_NOT")
def _not(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack[-1] = not ev.truth(f.stack[-1])


@handles("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def _unary(ev: Evaluator, f: Frame, ins: Instr) -> None:
    name = {"UNARY_NEGATIVE": "neg", "UNARY_POSITIVE": "pos", "UNARY_INVERT": "invert"}[ins.op]
    f.stack[-1] = ev.unary(name, f.stack[-1])


@handles("BINARY_OP")
def _binary(ev: Evaluator, f: Frame, ins: Instr) -> None:
    b = f.stack.pop()
    a = f.stack.pop()
    f.stack.append(ev.binary(ins.arg, a, b, ins.extra))


@handles("COMPARE_OP")
def _compare(ev: Evaluator, f: Frame, ins: Instr) -> None:
    b = f.stack.pop()
    a = f.stack.pop()
    r = ev.compare(ins.arg, a, b)
    f.stack.append(ev.truth(r) if ins.extra else r)


@handles("IS_OP")
def _is(ev: Evaluator, f: Frame, ins: Instr) -> None:
    b = f.stack.pop()
    a = f.stack.pop()
    f.stack.append(ev.same(a, b) != ins.arg)


@handles("CONTAINS_OP")
def _contains(ev: Evaluator, f: Frame, ins: Instr) -> None:
    b = f.stack.pop()
    a = f.stack.pop()
    f.stack.append(ev.contains(b, a) != ins.arg)


@handles("BINARY_SUBSCR")
def _subscr(ev: Evaluator, f: Frame, ins: Instr) -> None:
    k = f.stack.pop()
    f.stack.append(ev.getitem(f.stack.pop(), k))


@handles("BINARY_SLICE")
def _slice(ev: Evaluator, f: Frame, ins: Instr) -> None:
    stop = f.stack.pop()
    start = f.stack.pop()
    f.stack.append(ev.getitem(f.stack.pop(), slice(start, stop)))


@handles("STORE_SUBSCR")
def _store_subscr(ev: Evaluator, f: Frame, ins: Instr) -> None:
    k = f.stack.pop()
    obj = f.stack.pop()
    ev.setitem(obj, k, f.stack.pop())


@handles("STORE_SLICE")
def _store_slice(ev: Evaluator, f: Frame, ins: Instr) -> None:
    stop = f.stack.pop()
    start = f.stack.pop()
    obj = f.stack.pop()
    ev.setitem(obj, slice(start, stop), f.stack.pop())


@handles("DELETE_SUBSCR")
def _delete_subscr(ev: Evaluator, f: Frame, ins: Instr) -> None:
    k = f.stack.pop()
    ev.delitem(f.stack.pop(), k)


@handles("LOAD_ATTR")
def _load_attr(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack[-1] = ev.getattr(f.stack[-1], ins.arg)


@handles("LOAD_METHOD")
def _load_method(ev: Evaluator, f: Frame, ins: Instr) -> None:
    value = ev.getattr(f.stack.pop(), ins.arg)
    f.stack += [value, NULL] if CALLABLE_FIRST else [NULL, value]


@handles("LOAD_SUPER_ATTR")
def _load_super(ev: Evaluator, f: Frame, ins: Instr) -> None:
    self_ = f.stack.pop()
    cls = f.stack.pop()
    if f.stack.pop() is not super:
        raise Break(breaks.OBJECT, "a super that is not Python's own", clean=True)
    value = ev.getattr(ev.make_super(cls, self_), ins.arg)
    if ins.extra & 1:
        f.stack += [value, NULL] if CALLABLE_FIRST else [NULL, value]
    else:
        f.stack.append(value)


@handles("STORE_ATTR")
def _store_attr(ev: Evaluator, f: Frame, ins: Instr) -> None:
    obj = f.stack.pop()
    ev.setattr(obj, ins.arg, f.stack.pop())


@handles("DELETE_ATTR")
def _delete_attr(ev: Evaluator, f: Frame, ins: Instr) -> None:
    ev.delattr(f.stack.pop(), ins.arg)


# ---- loops, unpacking


@handles("GET_ITER", "GET_YIELD_FROM_ITER")
def _get_iter(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if f.depth == 0 and ins.op == "GET_YIELD_FROM_ITER":
        raise Break(breaks.INSTRUCTION, "yield from", clean=True)
    f.stack[-1] = ev.get_iter(f.stack[-1])


@handles("RETURN_GENERATOR")
def _return_generator(ev: Evaluator, f: Frame, ins: Instr) -> None:
    """The start of a compiled generator or coroutine: the frame goes on with what is sent first."""
    f.stack.append(None)


@handles("GET_AWAITABLE")
def _await(ev: Evaluator, f: Frame, ins: Instr) -> None:
    what = "await" if ins.arg in (0, None) else "async with"
    raise Break(breaks.INSTRUCTION, what, clean=True)


@handles("FOR_ITER")
def _for_iter(ev: Evaluator, f: Frame, ins: Instr) -> None:
    try:
        value = ev.next_of(f.stack[-1])
    except Raised as e:
        if not is_a(e.exc, StopIteration):
            raise
        f.stack.pop()
        f.ip = ins.target
        return
    f.stack.append(value)


@handles("SEND")
def _send(ev: Evaluator, f: Frame, ins: Instr) -> None:
    value = f.stack[-1]
    it = f.stack[-2]
    try:
        f.stack[-1] = ev.next_of(it) if value is None else ev.call(ev.getattr(it, "send"), [value], {})
    except Raised as e:
        if not is_a(e.exc, StopIteration):
            raise
        f.stack[-1] = e.exc.value
        if ins.extra:
            del f.stack[-2]
        f.ip = ins.target


@handles("UNPACK_SEQUENCE")
def _unpack(ev: Evaluator, f: Frame, ins: Instr) -> None:
    seq = f.stack.pop()
    items = ev.items_of(seq, limit=ins.arg + 1)
    n = len(items)
    if n < ins.arg:
        raise Raised(ValueError(f"not enough values to unpack (expected {ins.arg}, got {n})"))
    if n > ins.arg:
        got = f", got {ev.length(seq)}" if UNPACK_TELLS_COUNT and class_of(seq) in (list, tuple, dict) else ""
        raise Raised(ValueError(f"too many values to unpack (expected {ins.arg}{got})"))
    f.stack.extend(reversed(items))


@handles("UNPACK_EX")
def _unpack_ex(ev: Evaluator, f: Frame, ins: Instr) -> None:
    before, after = ins.arg & 255, ins.arg >> 8
    items = list(ev.items_of(f.stack.pop()))
    if len(items) < before + after:
        raise Raised(ValueError(f"not enough values to unpack (expected at least {before + after}, got {len(items)})"))
    rest = items[before : len(items) - after]
    tail = items[len(items) - after :] if after else []
    f.stack.extend(reversed([*items[:before], rest, *tail]))


@handles("INTRINSIC_1")
def _intrinsic(ev: Evaluator, f: Frame, ins: Instr) -> None:
    """3.12 and later: small operations that were instructions of their own."""
    v = f.stack[-1]
    if ins.arg == 3:  # a StopIteration that leaves a generator
        if is_a(v, StopIteration):
            new = RuntimeError("generator raised StopIteration")
            new.__cause__ = v
            f.stack[-1] = new
    elif ins.arg == 5:
        f.stack[-1] = ev.unary("pos", v)
    elif ins.arg == 6:
        f.stack[-1] = tuple(v)
    else:
        raise Break(breaks.INSTRUCTION, f"intrinsic {ins.arg}", clean=True)


@handles("CLEANUP_THROW")
def _cleanup_throw(ev: Evaluator, f: Frame, ins: Instr) -> None:
    """3.12 and later: an exception thrown into a `yield from`."""
    exc = f.stack[-1]
    if not is_a(exc, StopIteration):
        raise Raised(exc)
    del f.stack[-3:]
    f.stack += [None, exc.value]


# ---- exceptions, with


@handles("RAISE_VARARGS")
def _raise(ev: Evaluator, f: Frame, ins: Instr) -> None:
    cause = f.stack.pop() if ins.arg == 2 else NULL
    if ins.arg == 0:
        if ev.exc is None:
            callers(ev, "raise")
            raise Raised(RuntimeError("No active exception to reraise"))
        if is_foreign(ev.exc) and f.depth:  # what an inlined function raises is looked at as an object of capture
            raise Break(breaks.EXCEPT, "raise of an exception from before the break")
        raise Raised(ev.exc)
    exc = ev.as_exception(f.stack.pop())
    if cause is not NULL:
        exc.__cause__ = None if cause is None else ev.as_exception(cause, "exception causes")
    raise Raised(exc)


@handles("PUSH_EXC_INFO")
def _push_exc(ev: Evaluator, f: Frame, ins: Instr) -> None:
    exc = f.stack.pop()
    f.stack += [Before(ev.exc), exc]
    ev.exc = exc


@handles("POP_EXCEPT")
def _pop_except(ev: Evaluator, f: Frame, ins: Instr) -> None:
    ev.exc = f.stack.pop().exc


@handles("RERAISE")
def _reraise(ev: Evaluator, f: Frame, ins: Instr) -> None:
    raise Raised(f.stack.pop())


@handles("STOPITERATION_ERROR")
def _stop_iteration(ev: Evaluator, f: Frame, ins: Instr) -> None:
    """A generator ends in an exception: StopIteration becomes an error."""
    exc = f.stack[-1]
    if is_a(exc, StopIteration):
        f.stack[-1] = new = RuntimeError("generator raised StopIteration")
        new.__cause__ = new.__context__ = exc


@handles("CHECK_EG_MATCH")
def _match_group(ev: Evaluator, f: Frame, ins: Instr) -> None:
    """`except*`: what of an exception group is handled here, and the rest."""
    kinds, exc = f.stack[-1], f.stack[-2]
    if is_foreign(exc):
        raise Break(breaks.EXCEPT, "except* of an exception from before the break", clean=True)
    rest, match = ev.real(match_star, exc, kinds)
    f.stack[-2:] = [rest, match]
    if match is not None:
        ev.exc = match
    for part in (match, rest):
        if part is not None:
            place: Any = ev.made.get(id(exc), ev.outer)
            ev.made.setdefault(id(part), place)
            ev.raised.append(part)


@handles("PREP_RERAISE_STAR")
def _end_group(ev: Evaluator, f: Frame, ins: Instr) -> None:
    """The end of `except*`: what was not handled and what the handlers raised."""
    raised, exc = f.stack[-1], f.stack[-2]
    raised = ev.content(raised)
    if is_foreign(exc) or any(is_foreign(x) for x in raised):
        raise Break(breaks.EXCEPT, "except* of an exception from before the break", clean=True)
    f.stack[-2:] = [ev.real(raise_star, exc, raised)]


@handles("CHECK_EXC_MATCH")
def _match(ev: Evaluator, f: Frame, ins: Instr) -> None:
    kinds = f.stack.pop()
    for k in kinds if is_a(kinds, tuple) else (kinds,):
        if not (is_a(k, type) and issubclass(k, BaseException)):
            raise Raised(TypeError("catching classes that do not inherit from BaseException is not allowed"))
    ev.cap.bases_guard(class_of(f.stack[-1]))
    f.stack.append(issubclass(class_of(f.stack[-1]), kinds))


def _no_manager(mgr: Any, missing: str) -> Raised:
    text = f"'{class_of(mgr).__name__}' object does not support the context manager protocol"
    return Raised(TypeError(text + (" (missed __exit__ method)" if missing == "__exit__" else "")))


def real_special(mgr: Any, name: str) -> Any:
    """A context manager's method, for real: looked up on the type, bound."""
    for cls in type(mgr).__mro__:
        if name in names_of(cls):
            found = names_of(cls)[name]
            get = getattr(type(found), "__get__", None)
            return found if get is None else get(found, mgr, type(mgr))
    raise _no_manager(mgr, name).exc


@handles("BEFORE_WITH")
def _before_with(ev: Evaluator, f: Frame, ins: Instr) -> None:
    mgr = f.stack.pop()
    enter = ev.special(mgr, "__enter__")
    if enter is NULL:
        raise _no_manager(mgr, "__enter__")
    exit_ = ev.special(mgr, "__exit__")
    if exit_ is NULL:
        raise _no_manager(mgr, "__exit__")
    f.stack.append(exit_)
    f.stack.append(ev.call(enter, [], {}))


@handles("LOAD_SPECIAL")
def _load_special(ev: Evaluator, f: Frame, ins: Instr) -> None:
    mgr = f.stack.pop()
    m = ev.special(mgr, ins.arg)
    if m is NULL:
        raise _no_manager(mgr, ins.arg)
    f.stack += [m, NULL]


@handles("WITH_EXCEPT_START")
def _with_except(ev: Evaluator, f: Frame, ins: Instr) -> None:
    exc = f.stack[-1]
    exit_, me = f.stack[-ins.arg[0]], f.stack[-ins.arg[1]] if ins.arg[1] else NULL
    args = [] if me is NULL else [me]
    f.stack.append(ev.call(exit_, [*args, class_of(exc), exc, traceback_of(ev, exc)], {}))


# ---- calls


@handles("CALL")
def _call(ev: Evaluator, f: Frame, ins: Instr) -> None:
    fn, args, kwargs = call_operands(f.stack, ins)
    n = ins.arg + 2
    result = ev.call(fn, args, kwargs)
    del f.stack[-n:]
    f.stack.append(result)


def call_operands(stack: list[Any], ins: Instr) -> tuple[Any, list[Any], dict[str, Any]]:
    """(callable, positional, keywords) of a CALL whose operands are still on the stack."""
    n = ins.arg
    args = stack[-n:] if n else []
    a, b = stack[-n - 2], stack[-n - 1]
    if CALLABLE_FIRST:
        fn = a
        if b is not NULL:
            args = [b, *args]
    elif a is NULL:
        fn = b
    else:
        fn, args = a, [b, *args]
    names = ins.extra or ()
    if names:
        cut = len(args) - len(names)
        return fn, args[:cut], dict(zip(names, args[cut:], strict=False))
    return fn, args, {}


@handles("CALL_KW")
def _call_kw(ev: Evaluator, f: Frame, ins: Instr) -> None:
    names = f.stack.pop()
    fn, args, kwargs = call_operands(f.stack, Instr("CALL", ins.arg, -1, 0, 0, 0, names))
    result = ev.call(fn, args, kwargs)
    del f.stack[-ins.arg - 2 :]
    f.stack.append(result)


@handles("CALL_FUNCTION_EX")
def _call_ex(ev: Evaluator, f: Frame, ins: Instr) -> None:
    fn, args, kwargs, n = call_ex_operands(f.stack, ins)
    result = ev.call(
        fn, list(ev.items_of(args, sized=TUPLES_ASK)), dict(ev.mapping_of(kwargs)) if kwargs is not NULL else {}
    )
    del f.stack[-n:]
    f.stack.append(result)


def call_ex_operands(stack: list[Any], ins: Instr) -> tuple[Any, Any, Any, int]:
    """(callable, args, kwargs or NULL, stack items used) of a call with * and **."""
    fn, args, kwargs = ins.arg
    return stack[-fn], stack[-args], stack[-kwargs] if kwargs else NULL, ins.extra


# ---- match


@handles("GET_LEN")
def _get_len(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(ev.length(f.stack[-1]))


@handles("MATCH_SEQUENCE")
def _match_sequence(ev: Evaluator, f: Frame, ins: Instr) -> None:
    t = class_of(f.stack[-1])
    f.stack.append(bool(t.__flags__ & (1 << 5)))


@handles("MATCH_MAPPING")
def _match_mapping(ev: Evaluator, f: Frame, ins: Instr) -> None:
    t = class_of(f.stack[-1])
    f.stack.append(bool(t.__flags__ & (1 << 6)))


@handles("MATCH_KEYS")
def _match_keys(ev: Evaluator, f: Frame, ins: Instr) -> None:
    keys, subject = f.stack[-1], f.stack[-2]
    get = ev.getattr(subject, "get")
    absent = object()
    out, seen = [], set()
    for k in keys:
        if fixed_key(k) in seen:
            raise Raised(ValueError(f"mapping pattern checks duplicate key ({k!r})"))
        seen.add(fixed_key(k))
        value = ev.call(get, [k, absent], {})
        if value is absent:
            f.stack.append(None)
            return
        out.append(value)
    f.stack.append(tuple(out))


def _positional(ev: Evaluator, cls: type, n: int) -> Any:
    """The names of a class pattern's first parts; None where the one part is the subject itself."""
    try:
        names = ev.getattr(cls, "__match_args__")
    except Raised as e:
        if not is_a(e.exc, AttributeError):
            raise
        names = ()
        if cls.__flags__ & _MATCHES_SELF:
            names = (NULL,)
    if class_of(names) is not tuple:
        got = class_of(names).__name__
        raise Raised(TypeError(f"{cls.__name__}.__match_args__ must be a tuple (got {got})"))
    if len(names) < n:
        s = "" if len(names) == 1 else "s"
        raise Raised(TypeError(f"{cls.__name__}() accepts {len(names)} positional sub-pattern{s} ({n} given)"))
    for name in names[:n]:
        if name is not NULL and class_of(name) is not str:
            raise Raised(TypeError(f"__match_args__ elements must be strings (got {class_of(name).__name__})"))
    return None if names[:1] == (NULL,) else names[:n]


_MATCHES_SELF = 1 << 22  # int, str, list and the like, and what is made from them


def _match_nothing(cls: Any) -> None:
    match 0:
        case cls():
            pass


@handles("MATCH_CLASS")
def _match_class(ev: Evaluator, f: Frame, ins: Instr) -> None:
    names = f.stack.pop()
    cls = f.stack.pop()
    subject = f.stack.pop()
    if not issubclass(type(cls), type):
        ev.real(_match_nothing, None)  # Python's own error
    if not ev.call(isinstance, [subject, cls], {}):
        f.stack.append(None)
        return
    out: list[Any] = []
    first = _positional(ev, cls, ins.arg) if ins.arg else ()
    if first is None:
        out.append(subject)
    seen = set()
    for n in (*(first or ()), *names):
        if n in seen:
            raise Raised(TypeError(f"{cls.__name__}() got multiple sub-patterns for attribute {n!r}"))
        seen.add(n)
        try:
            out.append(ev.getattr(subject, n))
        except Raised as e:
            if not is_a(e.exc, AttributeError):
                raise
            f.stack.append(None)
            return
    f.stack.append(tuple(out))
