"""Calls that need nothing from the graph and give it nothing: a scheduler's step runs for real, after the region.

Evaluated like other code, a schedule would leave a guard at each of its branches, and each would cost a compile of the
whole training step. So capture only notes the call, and the segment makes it behind the effects of the code before it.
That is the program's order as long as the captured code does not look at what the call changes (the scheduler, the
optimizer's groups) afterwards; and, where the call runs functions of the user's or may raise, as long as nothing else
happens afterwards. If it does, the analysis starts again and evaluates the call.
"""

from __future__ import annotations

import types
from typing import Any

from fusegrad.tensor import Tensor

from .breaks import Restart
from .lines import as_frame, at_line
from .values import CellRef, DictRef, ListRef, ObjRef, SetRef, class_of

_MODULES = ("fusegrad.optim.lr_scheduler", "fusegrad.optim._cycles", "fusegrad.optim._scheduler")
_HARMLESS = {"StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "CosineAnnealingLR", "PolynomialLR",
             "CosineAnnealingWarmRestarts"}  # fmt: skip


class Later:
    """One noted call: ``ref.step(*args)``, and what had happened before it (None: what follows does not matter).

    ``frames``: (code, line) of the frames that make the call, outermost first, for the traceback of an error.
    """

    def __init__(
        self, place: Any, ref: ObjRef, args: list[Any], objects: list[Any], mark: Any, frames: list[tuple[Any, int]]
    ) -> None:
        self.place, self.ref, self.args, self.mark, self.frames = place, ref, args, mark, frames
        self.objects = objects
        self.watched = {id(o) for o in objects}


def is_scheduler_step(fn: types.FunctionType) -> bool:
    return fn.__code__.co_name == "step" and fn.__module__ in _MODULES


def note_step(ev: Any, fn: types.FunctionType, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """Note a scheduler's step for later; False: it must be evaluated."""
    cap = ev.cap
    if kwargs or not args or type(args[0]) is not ObjRef or ev.outer in cap.facts.inline:
        return False
    ref, rest = args[0], args[1:]
    obj = ref.obj
    cls = type(obj)
    if cls.__module__ not in _MODULES or len(rest) != (cls.__name__ == "ReduceLROnPlateau"):
        return False
    opt = vars(obj).get("optimizer")
    groups = getattr(opt, "param_groups", None)
    if type(groups) is not list or any(isinstance(g.get("lr"), Tensor) for g in groups):
        return False
    if rest and not (issubclass(type(rest[0]), Tensor) and rest[0].numel() == 1) and class_of(rest[0]) is not float:
        return False
    objects = [vars(obj), vars(opt), groups, *groups, *(vars(s) for s in vars(obj).get("_schedulers", ()))]
    tame = cls.__name__ in _HARMLESS or (cls.__name__ == "CyclicLR" and obj._scale_fn is None)
    if not tame and any(f.program.handler(f.ip - 1) is not None for f in ev.frames):
        return False  # its error would pass by a handler
    frames = [(f.program.code, f.program.instrs[f.ip - 1].line) for f in ev.frames]
    cap.later.append(Later(ev.outer, ref, rest, objects, None if tame else _mark(cap), frames))
    return True


def _mark(cap: Any) -> Any:
    """What the captured code has done so far, to compare with what it has done in the end."""
    out: list[Any] = [len(cap.builder.graph.nodes), len(cap.draws)]
    for ref in cap.refs:
        t = type(ref)
        if t is DictRef:
            out.append((id(ref), len(ref.log)) if ref.log else 0)
        elif t is ListRef:
            out.append((id(ref), [id(v) for v in [*(ref.items or ()), *ref.tail]]) if ref.dirty or ref.tail else 0)
        elif t is SetRef:
            out.append((id(ref), len(ref.view or ())) if ref.dirty else 0)
        elif t is CellRef:
            out.append((id(ref), id(ref.value)) if ref.dirty else 0)
        elif t is ObjRef:
            out.append([id(v) for v in ref.slots.values()] if ref.slots else 0)
    out += [id(inp.graph._grad) for inp in cap.tensors if inp.grad_synced]
    return [x for x in out if x != 0]


def look(cap: Any, obj: Any) -> None:
    """The captured code uses an object. Raises `Restart` if a noted call is to change it."""
    for call in cap.later:
        if id(obj) in call.watched:
            cap.facts.inline.add(call.place)
            raise Restart


def settle_calls(cap: Any) -> None:
    """At the end of the analysis. Raises `Restart` if something happened after a call that must come last."""
    for n, call in enumerate(cap.later):
        if call.mark is not None and (call.mark != _mark(cap) or n + 1 < len(cap.later)):
            cap.facts.inline.add(call.place)
            raise Restart


def changed_settings(cap: Any) -> list[tuple[DictRef, str]]:
    """(group, setting) of what noted calls will change."""
    ids = {i for call in cap.later for i in call.watched}
    return [(r, k) for r in cap.refs if type(r) is DictRef and id(r.obj) in ids for k in ("lr", "momentum", "betas")]


def call_lines(rb: Any) -> list[str]:
    """The noted calls, for the end of a segment's effects; at their own lines, which an error's traceback shows."""
    lines = []
    for call in rb.cap.later:
        inner = [rb.cap.consts.name(as_frame(code, line)) for code, line in call.frames[1:]]
        first, *rest = [*inner, f"{rb.load(call.ref.source)}.step", *(rb.value(a) for a in call.args)]
        lines.append(f"{first}({', '.join(rest)}){at_line(call.frames[0][1])}")
    return lines
