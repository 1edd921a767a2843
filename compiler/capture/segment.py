"""Segments: generated Python source for what happens from one state of a frame to the next."""

from __future__ import annotations

import types
from typing import Any

from fusegrad.tensor import Tensor

from ..region_history import leaves_of
from ..region_node import ReadAgain
from ..thread_modes import mode_now
from . import breaks
from .break_plans import PLANS, Plan
from .breaks import Refuse
from .control import read_again
from .decode import Instr
from .drawing import draw_lines
from .engine_calls import rehearse
from .evaluator import Evaluator, Frame, Outcome
from .handled import HANDLED, LASTI, NULL_PLACE, VALUE, Before, Lasti, levels
from .inputs import check_flags, check_moved, flag_lines, settle
from .instr_basic import Pending
from .quiet import quiet_lines
from .rebuild import CannotRebuild, Rebuilder, effect_lines
from .seeding import seed_lines
from .values import NULL, Foreign, is_a
from .yields import WAITS, Thrown, waiting


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
        effects = [*effect_lines(self.rb), *quiet_lines(self.ev)]
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
        effects = [*effect_lines(self.rb), *quiet_lines(self.ev)]
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
        return ["_fgwas = _fgpeek()", "_fgout = None", "try:", f"    _fgpush({now})", *_indented(_popped(raising)),
                "except BaseException as _fge:", f"    _fgout = {handler}", "_fgpop(_fgwas)",
                "if _fgout is not None:", "    try:", "        return _fgout", "    finally:", "        del _fgout",
                *after]  # fmt: skip

    def mode_lines(self) -> list[str]:
        now, infer, asked = mode_now()
        if infer is not self.cap.inference_before or asked:
            return [f"_fgmode(({now}, {infer}, {asked}))"]
        return [f"_fggrad({now})"] if now is not self.cap.grad_before else []

    def assemble(self, tail: list[str]) -> list[str]:
        """Loads, region call, rebuilt values, then the tail."""
        region_lines = self._region()
        first, undo, last = flag_lines(self.cap, self.rb)
        sown, unsown = seed_lines(self.cap, self.rb)
        drawn, undrawn = draw_lines(self.cap, self.rb)
        if any(d.gen is None for d in self.cap.draws):  # it may fail: nothing was done yet
            drawn = ["_fgfails = False", "try:", *_indented(drawn), "except Exception:", "    _fgfails = True",
                     "if _fgfails:", *_indented([*unsown, *undrawn, self._again()])]  # fmt: skip
        first, undo = [*sown, *drawn, *first], [*unsown, *undrawn, *undo]
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
        used |= _reached_leaves(cap, outs, used)
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
        read = read_again(self.ev) if cap.grad_before and any(t._rg and t._node is not None for t in outs) else []
        before = []
        if read:
            again, names = cap.consts.name(ReadAgain), ", ".join(f"_fgr{k}" for k in range(len(outs)))
            before = [f"_fgread = {again}(lambda: ({''.join(f'*{r.text(self._now)}, ' for r in read)}))"]
            call += f"; _fgread.tie(({names},))"
        leaves = [f"_fgr{k}._ask_grad(True)" for k, t in enumerate(outs) if t._rg and t._node is None]
        if leaves:
            call += "; " + "; ".join(leaves)
        taped = [t for t in [*outs, *(m for m, _ in builder.mutated())] if t._rg and t._node is not None]
        if taped and not cap.grad_before:  # part of it was recorded under enable_grad
            return ["_fggrad(True)", "try:", "    " + call, "finally:", "    _fggrad(False)"]
        return [*before, call]

    def _now(self, source: Any) -> str:
        """Text that reads a source anew."""
        return source.text

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
        make = PLANS.get(ins.op)
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
    """Whether a local that is read no more must live on: its end can be seen (a generator is closed, a ``__del__``
    runs, a weak reference dies), and Python ends it with the frame."""
    if not is_a(v, (Pending, Foreign)):
        return False
    t = type(v.obj)
    if t is types.GeneratorType or hasattr(t, "__del__"):
        return True
    return bool(t.__weakrefoffset__ and t.__flags__ & (1 << 9)) and not issubclass(t, (Tensor, type))


def _popped(lines: list[str]) -> list[str]:
    """Lines with what the thread handled before restored at each return: some iterators end a loop in the middle."""
    out = []
    for s in lines:
        text = s.lstrip()
        if text.startswith("return "):
            out.append(s[: len(s) - len(text)] + "_fgpop(_fgwas)")
        out.append(s)
    return out


def _indented(lines: list[str]) -> list[str]:
    return ["    " + s for s in lines]


def _check_views(outs: list[Tensor]) -> None:
    """Refuse views that can't follow a change of their base (of ``unbind``, or made under no_grad): eager code says so
    when they are used, and a view made anew behind the region would have lost that."""
    for t in outs:
        rec, storage = t._view, t._st
        if rec is not None and rec.base._extra is not None and rec.base._extra.undo:
            raise Refuse(breaks.ALIAS, "a view whose base was given another look (t_) leaves the compiled code")
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


def _reached_leaves(cap: Any, outs: list[Tensor], used: set[int]) -> set[int]:
    """ids of values of inputs that nothing reads, but a backward gives a gradient: that of a custom function can."""
    builder = cap.builder
    values = [(id(i.entry._g.cell.source), builder.leaf_of(i.entry)) for i in cap.tensors if i.entry._rg or i.graph._rg]
    unread = [(v, leaf) for v, leaf in values if leaf is not None and v not in used]
    if not unread:
        return set()
    ends = [*outs, *(t for t, _ in builder.mutated())]
    return {v for t in ends if t._rg and t._node is not None for v in leaves_of(t, unread)}


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
