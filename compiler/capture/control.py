"""Calls of ``fusegrad.control`` in captured code: the functions are evaluated into nested graphs.

What such a function does to Python objects cannot be part of a graph: ``watcher`` finds it, and the call breaks.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fusegrad import control
from fusegrad.autograd.node import next_seq
from fusegrad.dtypes import INT
from fusegrad.op import Function, Op
from fusegrad.tensor import Tensor

from ..keeping import keep_tensors
from ..region_history import saves
from ..region_split import root_of
from . import breaks
from .breaks import Break, Raised, Restart
from .evaluator import ASIDE
from .rereading import Reading
from .values import CellRef, DictRef, Foreign, ListRef, ObjRef, SetRef, SymFloat, class_of, is_a

__all__ = ["FUNCTIONS", "check_saved", "checkpointed", "control_call", "read_again", "watcher"]

FUNCTIONS = (control.cond, control.while_loop, control.scan, control.map, control.associative_scan)
_LEAVES = (int, float, str, bytes, complex, type(None), Tensor, Foreign, Op, Function, type, types.ModuleType,
           types.BuiltinFunctionType, SymFloat, types.CodeType)  # fmt: skip
_SIMPLE = (list, tuple, dict, set, types.CellType)


def control_call(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """Run ``fn`` for real, with functions that are evaluated and operands as the evaluator has them."""
    a = [_argument(ev, v) for v in args]
    k = {n: _argument(ev, v) for n, v in kwargs.items()}
    bodies = ev.cap.builder.bodies
    known = len(bodies)
    out = ev.returned(ev.real(fn, *a, **k))
    ev.bodies += [(ev.outer, body) for body in bodies[known:]]
    return out


class _Checkpointed:
    """What a checkpointed function keeps: its arguments, as (cell of the graph, version), and what it read."""

    def __init__(self, cells: list[tuple[Any, int]], read: Reading) -> None:
        self.cells, self.read = cells, read

    def stale(self) -> bool:
        """Whether one was changed in place: eager code, which needs it to run the function again, fails then. Or what
        it would read then is another thing."""
        return any(cell.version != version for cell, version in self.cells) or self.read.stale()


def checkpointed(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``checkpoint(function, *args)``: the function is evaluated; its arguments count as kept for the gradient, if it
    would save anything."""
    builder, start = ev.cap.builder, next_seq()
    given = [a for a in args[1:] if builder.is_mine(a)]
    if kwargs.get("use_reentrant") in (True, None) and any(a.requires_grad for a in given):
        raise Break(breaks.CONTROL, "a reentrant checkpoint, whose backward refuses autograd.grad", clean=True)
    contexts = kwargs.get("context_fn")
    if contexts is not None and not _of_a_list(contexts):
        raise Break(breaks.CONTROL, "a checkpoint with contexts of the program's own (context_fn)", clean=True)
    values = [root_of(builder.value_of(a)) for a in given]
    cells = [(a._g.cell, a._g.cell.version) for a in given]
    changed, written = watcher(ev)(args[0] if args else None), _writes(ev)
    read = Reading(ev)
    try:
        out = ev.inline(fn, args, kwargs) if ev.kind_of(fn) == "inline" else ev.library(fn, args, kwargs)
    finally:
        read.end()
    results = [t for t in (out if type(out) in (tuple, list) else (out,)) if builder.is_mine(t)]
    if saves(results, start):
        if changed() or _writes(ev) != written:  # and once more in backward
            ev.cap.facts.breaks[ev.outer] = (breaks.CONTROL, "a checkpointed function changes objects or tensors")
            raise Restart
        builder.kept.update(values)
        ev.bodies.append((ev.outer, _Checkpointed(cells, read)))
        keep_tensors(results, given, start, read.check)
    return out


ASIDE.add(checkpointed.__code__)


def _of_a_list(contexts: Any) -> bool:
    """Whether ``context_fn`` runs no code of the program: none, or a selective checkpoint's by a list of operators.
    (What a graph keeps is for the partition to decide.)"""
    from fusegrad.utils.checkpoint import create_selective_checkpoint_contexts, noop_context_fn

    if contexts is noop_context_fn:
        return True
    own = type(contexts) is partial and contexts.func is create_selective_checkpoint_contexts
    return own and len(contexts.args) == 1 and type(contexts.args[0]) in (list, ListRef)


def _writes(ev: Any) -> dict[int, int]:
    """The inputs that were changed in place so far, with how often."""
    versions = ((id(i.graph._g.cell), i.graph._g.cell.version) for i in ev.cap.tensors)
    return {cell: version for cell, version in versions if version}


class _Selected:
    """``out = source[i]`` by a 0-d tensor: a view in eager code, whose place depends on data; a copy in the graph."""

    def __init__(self, out: Tensor, source: Tensor) -> None:
        self.cell = out._g.cell
        self.cells = [(t._g.cell, t._g.cell.version) for t in (out, source)]

    def stale(self) -> bool:
        """Whether one was changed in place since: eager code changes both."""
        return any(cell.version != version for cell, version in self.cells)


def note_selected(ev: Any, source: Any, index: Any, out: Any) -> None:
    """An item of a tensor was read: remember it if it is no view here and one in eager code."""
    items = index if is_a(index, tuple) else (index,)
    tensors = [i for i in items if is_a(i, Tensor)]
    if not tensors or not all(i.ndim == 0 and i._data is None and i.dtype.category == INT for i in tensors):
        return
    builder = ev.cap.builder
    if builder.is_mine(out) and builder.is_mine(source) and out._g.cell is not source._g.cell:
        ev.bodies.append((ev.outer, _Selected(out, source)))


def check_selected(ev: Any, outs: list[Tensor]) -> None:
    """`Restart` with a break where what eager code reads as a view leaves the region as a copy."""
    cells = {id(t._g.cell) for t in outs if ev.cap.builder.is_mine(t)}
    bad = [place for place, body in ev.bodies if type(body) is _Selected and id(body.cell) in cells]
    for place in bad:
        ev.cap.facts.breaks[place] = (breaks.VALUE, "the view at an index that is a tensor leaves the graph")
    if bad:
        raise Restart


def read_again(ev: Any) -> list[Reading]:
    """What a backward behind the segment would read again, in eager code."""
    return [body.read for _, body in ev.bodies if type(body) is _Checkpointed and body.read.sources]


def check_saved(ev: Any) -> None:
    """`Restart` with a break where a tensor that a body keeps for its gradient was changed in place afterwards.

    Eager code fails in the backward of such a branch if it was taken: that depends on the data.
    """
    for place, body in ev.bodies:
        if type(body) is _Selected and body.stale():
            ev.cap.facts.breaks[place] = (breaks.VALUE, "the view at an index that is a tensor is changed in place")
            raise Restart
    bad = [place for place, body in ev.bodies if body.stale()]
    for place in bad:
        ev.cap.facts.breaks[place] = (
            breaks.CONTROL,
            "a tensor that a branch, a body or a checkpoint needs for its gradient is changed in place later",
        )
    if bad:
        raise Restart


def _argument(ev: Any, v: Any) -> Any:
    t = type(v)
    if t in (Op, Function) or issubclass(t, type) or t is types.BuiltinFunctionType:
        return v
    if t is types.FunctionType or t is types.MethodType or t.__module__ == "functools":
        return _function(ev, v)
    if t is ObjRef and callable(v.obj):
        return _function(ev, v)
    return _operand(ev, v)


def _operand(ev: Any, v: Any) -> Any:
    """Containers that existed before by their content; the rest as it is."""
    t = type(v)
    if t in (ListRef, DictRef, SetRef):
        kind = class_of(v)
        if kind not in (list, dict):
            raise Break(breaks.OBJECT, f"a {kind.__name__} among the operands of control flow", clean=True)
        v = ev.content(v)
        t = type(v)
    if issubclass(t, Tensor):
        ev.cap.touch(v)
        return v
    if issubclass(t, Foreign):
        raise Break(breaks.OBJECT, f"a {class_of(v).__name__} is an operand of control flow", clean=True)
    if t is list:
        return [_operand(ev, x) for x in v]
    if issubclass(t, tuple):
        items = [_operand(ev, x) for x in v]
        return tuple(items) if t is tuple else tuple.__new__(t, items)
    if t is dict:
        return {k: _operand(ev, x) for k, x in v.items()}
    return v


def _function(ev: Any, v: Any) -> Any:
    def evaluated(*args: Any, **kwargs: Any) -> Any:
        try:
            return ev.call(v, list(args), kwargs)
        except Raised as e:
            raise e.exc from None

    evaluated.stands_for = v  # type: ignore[attr-defined]
    ev.made[id(evaluated)] = ev.outer
    ev.cap.keep.append(evaluated)
    return evaluated


# ---- side effects


def watcher(ev: Any) -> Callable[[Any], Callable[[], str | None]]:
    """``look(fn)`` remembers the objects that ``fn`` can reach; what it returns says what has changed since."""

    def look(fn: Any) -> Callable[[], str | None]:
        cap = ev.cap
        refs = {id(r): _ref_state(r) for r in cap.refs}
        objects: dict[int, tuple[Any, Any]] = {}
        for obj in _reached(ev, fn):
            objects[id(obj)] = (obj, _state(obj))

        def changed() -> str | None:
            for r in cap.refs:
                if _ref_state(r) != refs.get(id(r), _pristine(r)):
                    return r.source.name if not is_a(r, CellRef) else "a variable of the function around it"
            for obj, before in objects.values():
                if _state(obj) != before:
                    return f"a {type(obj).__name__} that was made outside of it"
            return None

        return changed

    return look


def _ref_state(r: Any) -> Any:
    """What was written to a placeholder so far."""
    t = type(r)
    if t is ListRef:
        return (r.dirty, len(r.tail), tuple(map(id, r.items)) if r.dirty and r.items is not None else None)
    if t is DictRef:
        return (len(r.log), r.cleared)
    if t is SetRef:
        return (r.dirty, frozenset(map(id, r.view)) if r.dirty else None)
    if t is CellRef:
        return (r.dirty, id(r.value) if r.dirty else None)
    return tuple((k, id(v)) for k, v in r.slots.items()) if t is ObjRef else None


def _pristine(r: Any) -> Any:
    """The state of a placeholder that was met only inside of the body and not written to."""
    t = type(r)
    if t is ListRef:
        return (False, 0, None)
    if t is DictRef:
        return (0, False)
    if t is SetRef or t is CellRef:
        return (False, None)
    return () if t is ObjRef else None


def _state(obj: Any) -> Any:
    """The content of an object made during capture, by identity."""
    t = type(obj)
    if t is types.CellType:
        try:
            return id(obj.cell_contents)
        except ValueError:
            return None
    if t is list:
        return tuple(map(id, obj))
    if t is dict:
        return tuple((id(k), id(v)) for k, v in obj.items())
    if t is set:
        return frozenset(map(id, obj))
    d = getattr(obj, "__dict__", None)
    return tuple((k, id(v)) for k, v in d.items()) if d is not None else None


def _reached(ev: Any, fn: Any) -> Iterator[Any]:
    """Mutable objects made during capture that ``fn`` can reach. Break for those whose state can't be seen."""
    todo, seen = [fn], {id(fn)}
    while todo:
        x = todo.pop()
        t = type(x)
        if issubclass(t, _LEAVES):
            continue
        inner: list[Any] = []
        if t is types.FunctionType:
            inner = [getattr(x, "stands_for", None), *(x.__closure__ or ()), x.__defaults__, x.__kwdefaults__]
            if hasattr(x, "stands_for"):
                inner = inner[:1]
            elif id(x) not in ev.new_functions and (x.__module__ or "").split(".")[0] != "fusegrad":
                continue  # it existed before: what it reaches is behind placeholders
        elif t is types.MethodType:
            inner = [x.__func__, x.__self__]
        elif t.__module__ == "functools" and hasattr(x, "func"):
            inner = [x.func, *x.args, *x.keywords.values()]
        elif t in _SIMPLE:
            if t is not tuple:
                yield x
            if t is types.CellType:
                try:
                    inner = [x.cell_contents]
                except ValueError:
                    inner = []
            else:
                inner = list(x.values()) if t is dict else list(x)
        elif issubclass(t, tuple):
            inner = list(x)
        elif hasattr(t, "__next__") or t.__name__ == "GenValue":
            raise Break(breaks.CONTROL, f"the function closes over a {t.__name__}", clean=False)
        else:
            yield x
            d = getattr(x, "__dict__", None)
            inner = list(d.values()) if type(d) is dict else []
        for item in inner:
            if id(item) not in seen:
                seen.add(id(item))
                todo.append(item)
