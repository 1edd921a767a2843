"""Segments: generated Python source for what happens from one state of a frame to the next."""

from __future__ import annotations

import types
import warnings
from typing import Any

from fusegrad.autograd import modes
from fusegrad.tensor import Tensor

from ..warned import warn
from . import breaks
from .breaks import Refuse
from .decode import CALLABLE_FIRST, Instr
from .engine_calls import rehearse
from .evaluator import Evaluator, Frame, Outcome
from .handled import HANDLED, LASTI, NULL_PLACE, VALUE, Before, Lasti, levels, match_star, raise_star
from .inputs import check_flags, check_moved, flag_lines, settle
from .instr_basic import Pending
from .instr_control import call_ex_operands, call_operands, real_special
from .rebuild import CannotRebuild, Rebuilder, effect_lines
from .values import NULL, CellRef, ForeignMethod, ObjRef, class_of
from .yields import WAITS, Thrown, waiting

_BINARY = {"add": "+", "and_": "&", "floordiv": "//", "lshift": "<<", "matmul": "@", "mul": "*", "mod": "%", "or_": "|",
           "pow": "**", "rshift": ">>", "sub": "-", "truediv": "/", "xor": "^"}  # fmt: skip
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}
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


class SegmentWriter:
    """Writes one segment."""

    def __init__(self, cap: Any, ev: Any, unit: Any) -> None:
        self.cap, self.ev, self.unit = cap, ev, unit
        self.rb = Rebuilder(cap, ev)
        self.final = True
        self.successors: list[Any] = []
        self.handled: str | None = None  # the exception that the breaking instruction's handler handles

    # ---- entry points

    def returning(self, out: Outcome) -> list[str]:
        """Body for a frame that returned a value."""
        value = self.rb.value(out.value)
        effects = effect_lines(self.rb)
        if effects and not value.isidentifier() and not _is_literal(value):
            value = self.rb.bind(value)
        tail = [*effects, *self.mode_lines()]
        tail.append(f"return {value}" if self.unit.plain_return else f"return None, {value}")
        return self.assemble(tail)

    def breaking(self, out: Outcome) -> list[str]:
        """Body for a break: effects, the instruction for real, the next state."""
        self.final = False
        frame, ins = out.frame, out.ins
        if self.ev.exc is not None:
            self.handled = self.rb.value(self.ev.exc)
        if ins.op in WAITS:
            return waiting(self, frame, ins)
        plan = self._plan(frame, ins)
        base = frame.stack[: len(frame.stack) - plan.pops]
        body: list[str] = []
        region = self.handler_of(frame, ins)
        if plan.branch is not None:
            test, (yes, yes_pops), (no, no_pops) = plan.branch
            a = self.state(
                frame, yes, frame.stack[: len(frame.stack) - yes_pops] if yes_pops else list(frame.stack), []
            )
            b = self.state(frame, no, frame.stack[: len(frame.stack) - no_pops] if no_pops else list(frame.stack), [])
            body += [*plan.stmts, f"if {test}:", f"    return {a}", f"return {b}"]
            raising = [*plan.stmts, f"_fgb = bool({test})"]
            after = ["if _fgb:", f"    return {a}", f"return {b}"]
        else:
            raising, after = plan.stmts, []
            if not plan.leaves:
                after = [f"return {self.state(frame, ins.index + 1, base, plan.pushes, plan.handles)}"]
            body = [*raising, *after]
        if region is not None and raising:
            stack: list[Any] = list(frame.stack)
            Evaluator.enter_handler(stack, region, ins, _Text("_fge"))
            body = self._caught(raising, self.state(frame, region.target, stack, []), after)
        effects = effect_lines(self.rb)
        return self.assemble([*effects, *self.mode_lines(), *body])

    @staticmethod
    def handler_of(frame: Frame, ins: Instr) -> Any:
        """The exception region around an instruction, but for what Python puts around all of a generator (3.12)."""
        region = frame.program.handler(ins.index)
        if region is not None and frame.program.instrs[region.target].op == "STOPITERATION_ERROR":
            return None
        return region

    def _caught(self, raising: list[str], handler: str, after: list[str]) -> list[str]:
        """The breaking instruction inside of a ``try``. Inside of a handler the exception that is handled there is the
        thread's while it runs."""
        now = self.handled
        if now is None:
            return ["try:", *_indented(raising), "except BaseException as _fge:", f"    return {handler}", *after]
        return ["_fgwas = _fgpeek()", "_fgout = None", "try:", f"    _fgpush({now})", *_indented(raising),
                "except BaseException as _fge:", f"    _fgout = {handler}", "_fgpop(_fgwas)",
                "if _fgout is not None:", "    try:", "        return _fgout", "    finally:", "        del _fgout",
                *after]  # fmt: skip

    def mode_lines(self) -> list[str]:
        now, infer = modes.STATE.grad, modes.STATE.inference
        if infer is not self.cap.inference_before:
            return [f"_fgmode(({now}, {infer}))"]
        return [f"_fggrad({now})"] if now is not self.cap.grad_before else []

    def assemble(self, tail: list[str]) -> list[str]:
        """Loads, region call, rebuilt values, then the tail."""
        region_lines = self._region()
        first, undo, last = flag_lines(self.cap, self.rb)
        rest = [*self.rb.lines, *last, *tail]
        if region_lines:
            # errors of the segment's own line are those of its arguments: 1 / n of a number that changes
            rest = ["try:", *_indented(region_lines), "except Exception as _fge0:",
                    "    if not getattr(_fge0, 'fusegrad_untouched', _fge0.__traceback__.tb_next is None):",
                    "        raise", *_indented(undo), "else:", *_indented(rest), self._again()]  # fmt: skip
        return [*self.rb.loads, *first, *rest]

    def _again(self) -> str:
        """What follows if the region fails before it changed anything: Python runs the same code, so that effects,
        handlers and the error itself are its own.
        """
        unit = self.unit
        again = f"{self.cap.consts.name(unit.plain)}(({unit.args_text}{',' if unit.names else ''}))"
        return f"return None, {again}" if unit.top and not self.final and not unit.suspends else f"return {again}"

    # ---- the region

    def _region(self) -> list[str]:
        cap, builder = self.cap, self.cap.builder
        outs = [*self.rb.outputs, *builder.required]
        outs += builder.unread(outs)
        if not outs and not builder.mutated() and not builder.graph.draws:
            settle(cap, set())
            return []
        _check_leaves(self.ev, builder, outs)
        check_flags(self.ev, outs)
        check_moved(self.ev, outs)
        _check_views(outs)
        rehearse(self.ev, outs)
        used = _used_values(builder, outs) | cap.pinned
        settle(cap, used)
        inputs: list[Tensor] = []
        texts: list[str] = []
        for inp in cap.tensors:
            if id(inp.entry._g.cell.source) in used:
                inputs.append(inp.entry)
                texts.append(self.rb.load(inp.source))
        for t, code in cap.weak_inputs:
            if id(t._g.cell.source) in used:
                inputs.append(t)
                texts.append(self.rb.expand(code))
        keep = {id(t) for t in inputs} | {id(t) for t in builder.tensors if not _of_capture(cap, t)}
        builder.tensors = [t for t in builder.tensors if id(t) in keep]
        region = self.unit.build_region(builder, inputs, outs)
        for s in region.size_params:
            texts.append(self.rb.expand(cap.size_sources[s]))
        name = cap.consts.name(region.call)
        call = f"{name}({', '.join(texts)})"
        if outs:
            call = ", ".join(f"_fgr{k}" for k in range(len(outs))) + f"{',' if len(outs) == 1 else ''} = {call}"
        leaves = [f"_fgr{k}._ask_grad(True)" for k, t in enumerate(outs) if t._rg and t._node is None]
        if leaves:
            call += "; " + "; ".join(leaves)
        taped = [t for t in [*outs, *(m for m, _ in builder.mutated())] if t._rg and t._node is not None]
        if taped and not cap.grad_before:  # part of it was recorded under enable_grad
            return ["_fggrad(True)", "try:", "    " + call, "finally:", "    _fggrad(False)"]
        return [call]

    # ---- states

    def state(self, frame: Frame, ip: int, stack: list[Any], pushes: list[Any], handles: str = "") -> str:
        """Text of ``(dispatcher, values)`` for the state at ``ip``."""
        program = frame.program
        live = program.live_at(ip)
        slots = [k for k, v in enumerate(frame.slots) if v is not NULL and (k in live or _closed_late(v))]
        values = ["_fgF"] if self.unit.shared else []
        for k in slots:
            v = frame.slots[k]
            values.append(self.rb.load(v.source) if type(v) is Pending else self.rb.value(v))
        kinds = []
        handled = [self.rb.value(v) for v in levels(frame.stack, self.ev.exc)]
        if handles:
            handled[-1] = handles
        for v in stack:
            kind = NULL_PLACE if v is NULL else HANDLED if type(v) is Before else LASTI if type(v) is Lasti else VALUE
            kinds.append(kind)
            if kind == HANDLED:
                values.append(handled.pop(0))
            elif kind != NULL_PLACE:
                values.append(v.text if type(v) in (_Text, Lasti, Thrown) else self.rb.value(v))
        kinds += [NULL_PLACE if p is None else VALUE for p in pushes]
        pushes = [p for p in pushes if p is not None]
        nxt = self.unit.successor(ip, tuple(slots), tuple(kinds))
        self.successors.append(nxt)
        text = ", ".join([*values, *pushes])
        return f"{nxt.var}, ({text}{',' if len(values) + len(pushes) == 1 else ''})"

    # ---- breaking instructions

    def _plan(self, frame: Frame, ins: Instr) -> Plan:
        make = _PLANS.get(ins.op)
        if make is None:
            raise Refuse(breaks.INSTRUCTION, f"a break at instruction {ins.op}")
        return make(self, frame, ins)

    def val(self, v: Any) -> str:
        return self.rb.value(v)

    def operand(self, v: Any) -> str:
        """As `val`, for places where Python warns of a literal or takes none (``3[0]``, ``None()``, ``3.real``)."""
        text = self.val(v)
        return text if text.isidentifier() and text not in _WORDS else self.rb.bind(text)


def _closed_late(v: Any) -> bool:
    """Whether a local that is read no more must live on: Python closes a generator when its frame ends."""
    if type(v) is Pending:
        return type(v.obj) is types.GeneratorType
    return type(v) is ObjRef and type(v.obj) is types.GeneratorType


def _indented(lines: list[str]) -> list[str]:
    return ["    " + s for s in lines]


def _check_views(outs: list[Tensor]) -> None:
    """Refuse views that can't follow a change of their base (of ``unbind``, or made under no_grad): eager code says so
    when they are used, and a view made anew behind the region would have lost that."""
    for t in outs:
        rec, storage = t._view, t._st
        if rec is not None and rec.made is not None and rec.base._rg and storage is not None:
            if rec.version != storage.version:
                raise Refuse(breaks.ALIAS, "a view that can't be tied to its changed base leaves the compiled code")


def _check_leaves(ev: Any, builder: Any, outs: list[Tensor]) -> None:
    """A leaf made during capture that lives on beside results computed from it is made for real."""
    if not builder.inner_leaves:
        return
    given = {id(t) for t in outs}
    for t in builder.inner_leaves:
        if id(t) in given and t._grad is not None and id(t) in ev.made:
            raise CannotRebuild(t, "a leaf with a gradient")
    if not any(t._rg and t._node is not None for t in outs):
        return
    for t in builder.inner_leaves:
        if id(t) in given and id(t) in ev.made:
            raise CannotRebuild(t, "a leaf with results that depend on it")


_WORDS = ("None", "True", "False", "Ellipsis")


class _Text:
    """A stack entry that is already a variable of the segment."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


def _is_literal(text: str) -> bool:
    return text[:1] in "'\"0123456789-" and "(" not in text


def _of_capture(cap: Any, t: Tensor) -> bool:
    return id(t) in cap.input_of or any(t is w for w, _ in cap.weak_inputs)


def _used_values(builder: Any, outs: list[Tensor]) -> set[int]:
    """ids of graph input values that nodes read, outputs live in, or writes change."""
    used: set[int] = set()
    for node in builder.graph.nodes:
        for v in node.inputs():
            used.add(id(v))
    for t in outs:
        used.add(id(t._g.cell.source))
        used.add(id(t._g.cell.value))
    for t, _ in builder.mutated():
        used.add(id(t._g.cell.source))
    return used


# ---- plans


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
        inner in _never() or w.ev.kind_of(inner) != "inline" or (inner.__module__ or "").startswith("fusegrad")
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
    if ins.extra:
        pushes = ["_fgv", None] if CALLABLE_FIRST else [None, "_fgv"]
    return Plan(3, [f"_fgv = {super_}({cls}, {me}).{ins.arg}"], pushes)


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
    return Plan(1, [f"{target}.{verb}({w.val(f.stack[-1])})"], [])


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


_PLANS: dict[str, Any] = {
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
    "WITH_EXCEPT_START": _with_except,
    "PREP_RERAISE_STAR": _end_group, "BUILD_INTERPOLATION": _interpolation, "BUILD_TEMPLATE": _template,
}  # fmt: skip
