"""Breaking instructions: the source text that runs one instruction of a frame for real, between two graphs."""

from __future__ import annotations

import contextlib
import types
import warnings
from typing import TYPE_CHECKING, Any

from ..warned import warn
from .decode import CALLABLE_FIRST, Instr
from .evaluator import Frame
from .handled import match_star, raise_star
from .instr_basic import Pending
from .instr_control import call_ex_operands, call_operands, real_special
from .values import NULL, CellRef, ForeignMethod, ObjRef, class_of

if TYPE_CHECKING:
    from .segment import SegmentWriter

_BINARY = {"add": "+", "and_": "&", "floordiv": "//", "lshift": "<<", "matmul": "@", "mul": "*", "mod": "%", "or_": "|",
           "pow": "**", "rshift": ">>", "sub": "-", "truediv": "/", "xor": "^"}  # fmt: skip
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
_MAKES_MANAGER = contextlib.contextmanager(iter).__code__  # makes a generator and runs nothing of it: none to compile
_UNARY = {"UNARY_NEGATIVE": "-", "UNARY_POSITIVE": "+", "UNARY_INVERT": "~", "UNARY_NOT": "not "}


class Plan:
    """How a breaking instruction runs for real.

    ``expr``/``stmts``: what to run (operands already as text); ``pops``: stack items it takes; ``pushes``: names of
    results to push; ``branch``: (test text, (next ip, pops) if true, (next ip, pops) if false); ``leaves``: it only
    raises; ``handles``: the exception that is handled after it, if that is another one.
    """

    def __init__(
        self,
        pops: int,
        stmts: list[str],
        pushes: list[Any],
        branch: Any = None,
        leaves: bool = False,
        handles: str = "",
    ) -> None:
        self.pops, self.stmts, self.pushes, self.branch, self.leaves = pops, stmts, pushes, branch, leaves
        self.handles = handles


def _branch(test: str, on_true: Any, on_false: Any, pops: int = 1) -> Plan:
    return Plan(pops, [], [], (test, on_true, on_false))


def _jump_if(want: bool, pop_on_jump: bool, pop_on_fall: bool) -> Any:
    def make(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
        test = w.val(f.stack[-1])
        jump = (ins.target, int(pop_on_jump))
        fall = (ins.index + 1, int(pop_on_fall))
        return _branch(test, jump if want else fall, fall if want else jump)

    return make


def _for_iter(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    it = w.val(f.stack[-1])
    n = len(f.stack)
    more = w.state(f, ins.index + 1, f.stack[:n], ["_fgv"])
    done = w.state(f, ins.target, f.stack[: n - 1], [])
    return Plan(
        0, [f"_fgv = next({it}, _fgStop)", "if _fgv is _fgStop:", f"    return {done}", f"return {more}"], ["_fgv"]
    )


def _call_text(
    w: SegmentWriter, fn: Any, args: list[Any], kwargs: dict[str, Any], star: Any = None, kw: Any = None
) -> str:
    parts = [w.val(a) for a in args] + [
        f"{k}={w.val(v)}" if k.isidentifier() else f"**{{{k!r}: {w.val(v)}}}" for k, v in kwargs.items()
    ]
    if star is not None:
        parts.append("*" + w.val(star))
    if kw is not None and kw is not NULL:
        parts.append("**" + w.val(kw))
    return f"{_callable_text(w, fn)}({', '.join(parts)})"


def _callable_text(w: SegmentWriter, fn: Any) -> str:
    """The callable for real; user functions go through ``_fgNested``, which compiles them on their own."""
    if type(fn) is ForeignMethod:
        return f"{w.val(fn.ref)}.{fn.name}"
    if fn is warnings.warn:
        return w.cap.consts.name(warn)
    text = w.operand(fn)
    t = type(fn)
    inner = fn.__func__ if t is types.MethodType else fn
    if type(inner) is types.FunctionType and (
        inner.__code__ is _MAKES_MANAGER
        or inner in _never()
        or w.ev.kind_of(inner) != "inline"
        or (inner.__module__ or "").startswith("fusegrad")
    ):
        return text
    if t in (types.FunctionType, types.MethodType) or (t is ObjRef and hasattr(class_of(fn), "forward")):
        return f"_fgNested({text})"
    return text


def _never() -> Any:
    from .calls import SPECIAL

    return SPECIAL


def _call(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    fn, args, kwargs = call_operands(f.stack, ins)
    return Plan(ins.arg + 2, [f"_fgv = {_call_text(w, fn, args, kwargs)}"], ["_fgv"])


def _call_kw(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    fn, args, kwargs = call_operands(f.stack[:-1], Instr("CALL", ins.arg, -1, 0, 0, 0, f.stack[-1]))
    return Plan(ins.arg + 3, [f"_fgv = {_call_text(w, fn, args, kwargs)}"], ["_fgv"])


def _call_ex(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    fn, args, kwargs, n = call_ex_operands(f.stack, ins)
    return Plan(n, [f"_fgv = {_call_text(w, fn, [], {}, args, kwargs)}"], ["_fgv"])


def _binary(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    a, b = w.val(f.stack[-2]), w.val(f.stack[-1])
    op = _BINARY[ins.arg]
    if ins.extra:
        return Plan(2, [f"_fgv = {a}", f"_fgv {op}= {b}"], ["_fgv"])
    return Plan(2, [f"_fgv = {a} {op} {b}"], ["_fgv"])


def _compare(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    text = f"{w.val(f.stack[-2])} {_COMPARE[ins.arg]} {w.val(f.stack[-1])}"
    return Plan(2, [f"_fgv = bool({text})" if ins.extra else f"_fgv = {text}"], ["_fgv"])


def _contains(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    word = "not in" if ins.arg else "in"
    return Plan(2, [f"_fgv = {w.val(f.stack[-2])} {word} {w.val(f.stack[-1])}"], ["_fgv"])


def _is(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    word = "is not" if ins.arg else "is"
    return Plan(2, [f"_fgv = {w.operand(f.stack[-2])} {word} {w.operand(f.stack[-1])}"], ["_fgv"])


def _unary(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = {_UNARY[ins.op]}{w.val(f.stack[-1])}"], ["_fgv"])


def _to_bool(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = bool({w.val(f.stack[-1])})"], ["_fgv"])


def _subscr(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(2, [f"_fgv = {w.operand(f.stack[-2])}[{w.val(f.stack[-1])}]"], ["_fgv"])


def _slice(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    obj, start, stop = (w.val(x) for x in f.stack[-3:])
    return Plan(3, [f"_fgv = {obj}[{start}:{stop}]"], ["_fgv"])


def _store_slice(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    v, obj, start, stop = (w.val(x) for x in f.stack[-4:])
    return Plan(4, [f"{obj}[{start}:{stop}] = {v}"], [])


def _store_subscr(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    v, obj, k = (w.val(x) for x in f.stack[-3:])
    return Plan(3, [f"{obj}[{k}] = {v}"], [])


def _delete_subscr(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(2, [f"del {w.val(f.stack[-2])}[{w.val(f.stack[-1])}]"], [])


def _load_attr(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = {w.operand(f.stack[-1])}.{ins.arg}"], ["_fgv"])


def _load_method(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = {w.operand(f.stack[-1])}.{ins.arg}"], ["_fgv", None] if CALLABLE_FIRST else [None, "_fgv"])


def _store_attr(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(2, [f"{w.val(f.stack[-1])}.{ins.arg} = {w.val(f.stack[-2])}"], [])


def _delete_attr(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"del {w.val(f.stack[-1])}.{ins.arg}"], [])


def _get_iter(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = iter({w.val(f.stack[-1])})"], ["_fgv"])


def _unpack(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    names = [f"_fgu{k}" for k in range(ins.arg)]
    return Plan(
        1, [f"{', '.join(names)}{',' if len(names) == 1 else ''} = {w.val(f.stack[-1])}"], list(reversed(names))
    )


def _before_with(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    m, special = w.val(f.stack[-1]), w.cap.consts.name(real_special)
    lines = [f"_fgv = {special}({m}, '__enter__')", f"_fgx = {special}({m}, '__exit__')", "_fgv = _fgv()"]
    return Plan(1, lines, ["_fgx", "_fgv"])


def _load_special(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    special = w.cap.consts.name(real_special)
    return Plan(1, [f"_fgv = {special}({w.val(f.stack[-1])}, {ins.arg!r})"], ["_fgv", None])


def _load_super(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    super_, cls, me = (w.val(v) for v in f.stack[-3:])
    pushes: list[Any] = ["_fgv"]
    if ins.extra & 1:
        pushes = ["_fgv", None] if CALLABLE_FIRST else [None, "_fgv"]
    given = f"{cls}, {me}" if ins.extra & 2 or f.stack[-3] is super else ""  # super() of another super takes nothing
    return Plan(3, [f"_fgv = {super_}({given}).{ins.arg}"], pushes)


def _format(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    flags = ins.arg
    has = bool(flags & 4)
    conv = {0: "", 1: "!s", 2: "!r", 3: "!a"}[flags & 3]
    v = w.rb.bind(w.val(f.stack[-2 if has else -1]))
    if has:
        s = w.rb.bind(w.val(f.stack[-1]))
        return Plan(2, [f'_fgv = f"{{{v}{conv}:{{{s}}}}}"'], ["_fgv"])
    return Plan(1, [f'_fgv = f"{{{v}{conv}}}"'], ["_fgv"])


def _format_simple(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = format({w.val(f.stack[-1])})"], ["_fgv"])


def _format_spec(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    v, spec = w.rb.bind(w.val(f.stack[-2])), w.rb.bind(w.val(f.stack[-1]))
    return Plan(2, [f'_fgv = f"{{{v}:{{{spec}}}}}"'], ["_fgv"])


def _convert(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    v = w.rb.bind(w.val(f.stack[-1]))
    return Plan(1, [f'_fgv = f"{{{v}!{" sra"[ins.arg]}}}"'], ["_fgv"])


def _interpolation(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    from string import templatelib  # type: ignore[attr-defined]  # 3.14

    conversion, has = ins.arg
    n = 2 + has
    value, text, *spec = (w.val(v) for v in f.stack[-n:])
    make = w.cap.consts.name(templatelib.Interpolation)
    return Plan(n, [f"_fgv = {make}({value}, {text}, {conversion!r}, {spec[0] if has else repr('')})"], ["_fgv"])


def _template(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    from string import templatelib  # type: ignore[attr-defined]  # 3.14

    def template(strings: tuple, fields: tuple) -> Any:
        parts = [p for pair in zip(strings, fields, strict=False) for p in pair]
        return templatelib.Template(*parts, *strings[len(fields) :])

    strings, fields = (w.val(v) for v in f.stack[-2:])
    return Plan(2, [f"_fgv = {w.cap.consts.name(template)}({strings}, {fields})"], ["_fgv"])


def _import_name(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    g = w.cap.consts.name(f.globals)
    level, names = f.stack[-2], f.stack[-1]
    return Plan(2, [f"_fgv = __import__({ins.arg!r}, {g}, None, {names!r}, {level!r})"], ["_fgv"])


def _list_extend(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    target = w.val(f.stack[-1 - ins.arg])
    verb = {"LIST_EXTEND": "extend", "SET_UPDATE": "update", "DICT_UPDATE": "update", "DICT_MERGE": "update"}[ins.op]
    value = w.val(f.stack[-1])
    if verb == "update" and ins.op != "SET_UPDATE":  # `update` would take pairs as well
        value = f"{{**{value}}}"
    return Plan(1, [f"{target}.{verb}({value})"], [])


def _list_to_tuple(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"_fgv = tuple({w.val(f.stack[-1])})"], ["_fgv"])


def _add(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    verb = "append" if ins.op == "LIST_APPEND" else "add"
    return Plan(1, [f"{w.val(f.stack[-1 - ins.arg])}.{verb}({w.val(f.stack[-1])})"], [])


def _map_add(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    k, v = w.val(f.stack[-2]), w.val(f.stack[-1])
    return Plan(2, [f"{w.val(f.stack[-2 - ins.arg])}[{k}] = {v}"], [])


def _build(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    n = ins.arg * (2 if ins.op == "BUILD_MAP" else 1)
    items = [w.val(v) for v in f.stack[len(f.stack) - n :]]
    if ins.op == "BUILD_MAP":
        items = [f"{k}: {v}" for k, v in zip(items[::2], items[1::2], strict=True)]
    made = "set()" if ins.op == "BUILD_SET" and not n else f"{{{', '.join(items)}}}"
    return Plan(n, [f"_fgv = {made}"], ["_fgv"])


def _store_global(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    return Plan(1, [f"{w.cap.consts.name(f.globals)}[{ins.arg!r}] = {w.val(f.stack[-1])}"], [])


def _raise(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    values = [w.val(v) for v in f.stack[len(f.stack) - ins.arg :]]
    return Plan(ins.arg, [f"raise {' from '.join(values)}"], [], leaves=True)


def _with_except(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    exit_, me = f.stack[-ins.arg[0]], f.stack[-ins.arg[1]] if ins.arg[1] else NULL
    exc = w.val(f.stack[-1])
    args = ([] if me is NULL else [w.val(me)]) + [f"type({exc})", exc, f"{exc}.__traceback__"]
    return Plan(0, [f"_fgv = {_callable_text(w, exit_)}({', '.join(args)})"], ["_fgv"])


def _match_group(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    exc, kinds = (w.val(v) for v in f.stack[-2:])
    return Plan(
        2,
        [f"_fgv, _fgw = {w.cap.consts.name(match_star)}({exc}, {kinds})"],
        ["_fgv", "_fgw"],
        handles=f"{exc} if _fgw is None else _fgw",
    )


def _end_group(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    exc, raised = (w.val(v) for v in f.stack[-2:])
    return Plan(2, [f"_fgv = {w.cap.consts.name(raise_star)}({exc}, {raised})"], ["_fgv"])


def _store_deref(w: SegmentWriter, f: Frame, ins: Instr) -> Plan:
    cell = f.slots[ins.arg]
    text = w.rb.load(cell.source) if type(cell) in (CellRef, Pending) else w.val(cell)
    return Plan(1, [f"{text}.cell_contents = {w.val(f.stack[-1])}"], [])


PLANS: dict[str, Any] = {
    "POP_JUMP_IF_FALSE": _jump_if(False, True, True), "POP_JUMP_IF_TRUE": _jump_if(True, True, True),
    "JUMP_IF_FALSE_OR_POP": _jump_if(False, False, True), "JUMP_IF_TRUE_OR_POP": _jump_if(True, False, True),
    "FOR_ITER": _for_iter, "CALL": _call, "CALL_KW": _call_kw, "CALL_FUNCTION_EX": _call_ex, "BINARY_OP": _binary,
    "COMPARE_OP": _compare, "CONTAINS_OP": _contains, "IS_OP": _is, "UNARY_NEGATIVE": _unary, "UNARY_POSITIVE": _unary,
    "UNARY_INVERT": _unary, "UNARY_NOT": _unary, "TO_BOOL": _to_bool, "BINARY_SUBSCR": _subscr,
    "STORE_SUBSCR": _store_subscr, "DELETE_SUBSCR": _delete_subscr, "LOAD_ATTR": _load_attr, "STORE_ATTR": _store_attr,
    "DELETE_ATTR": _delete_attr, "GET_ITER": _get_iter, "UNPACK_SEQUENCE": _unpack, "BEFORE_WITH": _before_with,
    "FORMAT_VALUE": _format, "FORMAT_SIMPLE": _format_simple, "IMPORT_NAME": _import_name, "LIST_EXTEND": _list_extend,
    "SET_UPDATE": _list_extend, "DICT_UPDATE": _list_extend, "DICT_MERGE": _list_extend, "STORE_GLOBAL": _store_global,
    "STORE_DEREF": _store_deref, "LOAD_METHOD": _load_method, "LOAD_SPECIAL": _load_special,
    "LOAD_SUPER_ATTR": _load_super, "BINARY_SLICE": _slice, "STORE_SLICE": _store_slice, "CONVERT_VALUE": _convert,
    "FORMAT_WITH_SPEC": _format_spec, "RAISE_VARARGS": _raise, "CHECK_EG_MATCH": _match_group,
    "WITH_EXCEPT_START": _with_except, "LIST_TO_TUPLE": _list_to_tuple, "LIST_APPEND": _add, "SET_ADD": _add,
    "MAP_ADD": _map_add, "BUILD_SET": _build, "BUILD_MAP": _build,
    "PREP_RERAISE_STAR": _end_group, "BUILD_INTERPOLATION": _interpolation, "BUILD_TEMPLATE": _template,
}  # fmt: skip
