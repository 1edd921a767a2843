"""Code of the user that the autograd engine calls: custom Functions, hooks on gradients.

Inside of captured code the engine runs for real on graph tensors, so such code is evaluated when the engine calls it,
in its place. A backward that comes after the captured code runs the compiled gradient instead: the user's code was
evaluated when that was recorded. This is right only for code whose value depends on its arguments and on ``ctx``
alone and that leaves no trace. ``rehearse`` runs the engine once before the region is built and looks: if the code
does more, the call that brought it in (``apply``, ``register_hook``) breaks the graph and is made for real.
"""

from __future__ import annotations

import collections
import functools
import types
from typing import Any

from fusegrad.autograd import function
from fusegrad.autograd.modes import STATE, no_grad
from fusegrad.meta import Meta
from fusegrad.tensor import Tensor, extra_of

from . import breaks, inputs
from .breaks import Break, Leak, Raised, Refuse, Restart
from .control import check_saved, check_selected
from .values import (
    CellRef,
    DictRef,
    Foreign,
    ListRef,
    ObjRef,
    SetRef,
    SymFloat,
    is_a,
    is_foreign,
)  # fmt: skip

# Guards whose truth lasts from the forward to the backward: who is called, not with which values.
_LASTING = {"identity", "class", "code", "builtin", "library", "import", "type", "defaults", "module", "hooks"}


class _Box:
    """A value of the evaluator on its way through library code that only asks whether it is a Tensor."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _box(v: Any) -> Any:
    return v if issubclass(type(v), Tensor) else _Box(v)


def _unbox(v: Any) -> Any:
    if type(v) is _Box:
        return v.value
    return tuple(_unbox(x) for x in v) if type(v) is tuple else v


class EngineCalls:
    """What one evaluator knows of code that the engine calls."""

    def __init__(self) -> None:
        self.roots: list[Any] = []  # objects that such code may change
        self.places: list[Any] = []  # what brought it in: instructions of the outermost frame
        self.keep: list[Any] = []
        self.guilty: Any = None  # the place that brought in the code which runs, or failed, last
        self.retired = False  # capture is over


def engine_callback(ev: Any, target: Any, what: str) -> Any:
    """A real function that evaluates ``target`` when the engine calls it."""
    state, place = ev.engine, ev.outer
    state.roots.append(target)
    state.places.append(place)

    def call(*args: Any) -> Any:
        if state.retired:
            return _late(ev, target, args, what)
        before, state.guilty = state.guilty, place
        try:
            out = ev.call(target, list(args), {})
        except Raised as e:
            raise e.exc from None
        state.guilty = before
        return out

    try:
        call.__name__ = ev.getattr(target, "__name__")  # errors about hooks tell it
    except (Raised, TypeError):
        pass
    ev.cap.keep.append(call)
    return call


def _late(ev: Any, target: Any, args: tuple, what: str) -> Any:
    """After capture: the gradient of a compiled region is being differentiated, from the tape of the captured code."""
    known = len(ev.cap.guards)
    try:
        out = ev.call(target, list(args), {})
    except Raised as e:
        raise e.exc from None
    except (Break, Refuse, Restart, Leak) as e:
        raise RuntimeError(f"{what} of compiled code can't be differentiated: {e}") from None
    if any(g.kind not in _LASTING for g in ev.cap.guards[known:]):
        raise RuntimeError(f"{what} of compiled code can't be differentiated: it reads values from outside")
    return out


# ---- custom Functions


def apply(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``MyFunction.apply(...)``: forward is evaluated now, backward when the engine comes to it."""
    cls, rest = args[0], tuple(args[1:])
    if is_foreign(cls) or not issubclass(cls, function.Function):
        raise Break(breaks.CALL, "apply of an object", clean=True)
    new_style = "setup_context" in function._defined(cls)
    if STATE.transforms and not new_style:
        raise Break(breaks.AUTOGRAD, f"{cls.__name__}, which has no setup_context, under a transform", clean=True)
    if not new_style:
        ev.cap.guard("not _fgS.transforms", "mode", "function transforms", False)
    if kwargs or new_style and function._has_defaults(cls.forward):
        rest, kwargs = function._positional(cls, rest, kwargs, new_style)
    for a in rest:
        if issubclass(type(a), Tensor) and a._data is None and hasattr(a._g.handler, "read"):
            raise Break(breaks.AUTOGRAD, f"{cls.__name__} under vmap or in forward mode", clean=True)
        if type(a) is SymFloat:
            ev.cap.pin(a)
    proxy = _proxy(ev, cls)
    node, out = ev.real(function.run, proxy, tuple(map(_box, rest)), {k: _box(v) for k, v in kwargs.items()})
    for t in out if type(out) is tuple else (out,):
        if issubclass(type(t), Tensor):
            ev.cap.touch(t)
    ev.engine.roots.append(function.Context(node))
    return _unbox(out)


def _proxy(ev: Any, cls: type) -> type:
    """A Function whose methods evaluate those of ``cls``."""
    known = function._defined(cls)

    def evaluated(name: str) -> Any:
        target = ev.getattr(cls, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                out = ev.call(target, [_unbox(a) for a in args], {k: _unbox(v) for k, v in kwargs.items()})
            except Raised as e:
                raise e.exc from None
            if type(out) is tuple or (issubclass(type(out), tuple) and not is_foreign(out)):
                return tuple(_box(x) for x in out)
            return _box(out)

        return staticmethod(run)

    body: dict[str, Any] = {"forward": evaluated("forward")}
    if "setup_context" in known:
        body["setup_context"] = evaluated("setup_context")
    for name in ("backward", "vjp"):
        if name in known:
            back = engine_callback(ev, ev.getattr(cls, name), f"the backward of {cls.__name__}")
            body[name] = staticmethod(back)
    return type(cls.__name__, (function.Function,), body)


# ---- hooks


def register_hook(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``t.register_hook(f)`` of a tensor made by the captured code."""
    t = args[0]
    if len(args) != 2 or kwargs or not _made_inside(ev, t):
        raise Break(breaks.AUTOGRAD, "register_hook on a tensor from before", clean=True)
    handle = ev.real(fn, t, engine_callback(ev, args[1], "a hook"))
    ev.made[id(handle)] = ev.outer  # it acts on this very tensor: if it lives on, the hook is registered for real
    ev.engine.roots.append(handle)
    return handle


def retain_grad(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``t.retain_grad()`` of a tensor made by the captured code."""
    t = args[0]
    if not _made_inside(ev, t):
        raise Break(breaks.AUTOGRAD, "retain_grad on a tensor from before", clean=True)
    inputs.outside_of_transforms(ev, "retain_grad")
    ev.engine.roots.append(t)
    ev.engine.places.append(ev.outer)
    return ev.real(fn, t)


def is_view(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``t._is_view()``: the stand-in of a tensor from before is none."""
    inp = ev.cap.input_of.get(id(args[0])) if args else None
    if inp is None:
        return ev.library(fn, args, kwargs)
    found = inp.real._is_view()
    ev.cap.guard(f"{ev.cap.tok(inp.source)}._is_view() is {found}", path=inp.source.path())
    return found


def requires_grad_(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``t.requires_grad_()``."""
    if (args[1] if len(args) > 1 else kwargs.get("requires_grad", True)) is True:
        inputs.outside_of_transforms(ev, "requires_grad_")
    inp = ev.cap.input_of.get(id(args[0]))
    if inp is None:
        return ev.library(fn, args, kwargs)
    if len(args) + len(kwargs) > 2 or kwargs.keys() - {"requires_grad"}:
        return ev.library(fn, args, kwargs)  # the TypeError
    inputs.set_requires_grad(ev, inp, args[1] if len(args) > 1 else kwargs.get("requires_grad", True))
    return args[0]


def restrided(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``t.unsqueeze_(0)`` and the like, of a tensor made by the captured code: a graph can't do this to an input, nor
    count it in the version of one that shares its memory."""
    t = args[0]
    if issubclass(type(t), Tensor) and not (_made_inside(ev, t) and t._g.cell.source is None):
        raise Break(breaks.OBJECT, f"{fn.__name__} changes the shape of a tensor from before", clean=True)
    return ev.library(fn, args, kwargs)


def _made_inside(ev: Any, t: Any) -> bool:
    if not (issubclass(type(t), Tensor) and ev.cap.builder.is_mine(t)) or id(t) in ev.cap.input_of:
        return False
    if t._g.depth < ev.cap.builder.depth:
        raise Break(breaks.CONTROL, "a branch or a body hooks into a tensor that it did not make")
    return True


def with_leaf_hooks(ev: Any, run: Any, post: bool) -> Any:
    """Run the engine with the hooks that leaves from before have (``post``: those after accumulation too)."""
    marked = []
    ev.cap.engine_ran = True
    for inp in list(ev.cap.tensors):
        if not (inp.graph._rg and inp.leaf):
            continue
        extra, source = inp.real._extra, inp.source.attr("_extra")
        if extra is None:
            ev.cap.guard(f"{ev.cap.tok(source)} is None", "hooks", inp.source.path())
            continue
        if extra.accumulator is not None:
            raise Break(breaks.AUTOGRAD, f"{inp.source.name} has hooks on its AccumulateGrad node")
        ev.cap.guard(f"{ev.cap.tok(source.attr('accumulator'))} is None", "hooks", inp.source.path())
        found = []
        for kind in ("hooks", "post_hooks"):
            hooks = ev.cap.realize(  # their keys are others with every hook that is registered
                tuple(getattr(extra, kind).values()), source.attr(kind).call("tuple({}.values())")
            )
            found.append({k: engine_callback(ev, fn, "a hook") for k, fn in enumerate(hooks)})
        mine = extra_of(inp.graph)
        mine.hooks, mine.post_hooks = found[0], found[1] if post else {}
        marked.append(mine)
    try:
        return run()
    finally:
        for mine in marked:
            mine.hooks, mine.post_hooks = {}, {}


def backward(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``loss.backward()`` inside of captured code: the engine on graph tensors, gradients stored by the segment."""
    if ev.cap.builder.depth:
        raise Break(breaks.CONTROL, "backward() inside of a branch or a body")
    inputs.sync_all_grads(ev.cap)
    if kwargs.get("inputs") is not None or len(args) > 4:
        raise Break(breaks.AUTOGRAD, "backward(inputs=...)", clean=True)
    for a in (*args, *kwargs.values()):
        ev.native(a)  # what containers from before hold is among the tensors that were read then
    before = [(i, ev.cap.builder.leaf_of(i.graph)) for i in ev.cap.tensors if not i.leaf]
    out = with_leaf_hooks(ev, lambda: ev.library(fn, args, kwargs), True)
    for i, stand_in in before:
        if stand_in is not None and stand_in._grad is not None:
            raise Break(breaks.AUTOGRAD, f"backward reaches {i.source.name}, which was computed before")
    return out


def grad(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``autograd.grad`` inside of captured code: what lies between two tensors that were computed before is not in the
    graph."""
    given = {**dict(zip(("outputs", "inputs"), args, strict=False)), **kwargs}
    known = ev.cap.input_of
    roots = _flat(ev.native(given.get("outputs")))  # read first: containers from before may hold them
    wanted = [t for t in _flat(ev.native(given.get("inputs"))) if id(t) in known]
    for t in wanted:
        _without_hooks(ev, known[id(t)])
    if wanted:
        before = {id(ev.cap.builder.leaf_of(i.graph)): i for i in ev.cap.tensors if not i.leaf}
        for i in _reached(roots, before):
            if any(t is not i.graph for t in wanted):
                raise Break(breaks.AUTOGRAD, f"grad reaches {i.source.name}, which was computed before", clean=True)
    out = with_leaf_hooks(ev, lambda: ev.library(fn, args, kwargs), False)
    if (args[4:5] or (kwargs.get("create_graph", False),))[0] is False:  # arrays in eager code: views of nothing
        mine, alias = ev.cap.builder.is_mine, ev.cap.builder.alias
        out = type(out)([alias(t) if mine(t) and t._view is not None else t for t in out])
    return out


def _without_hooks(ev: Any, inp: Any) -> None:
    """A tensor that was computed before, asked for its gradient: what its node calls then (hooks, ``retain_grad``) is
    Python's to call."""
    node = inp.real.grad_fn
    if inp.leaf or node is None:
        return
    if node.hooks is not None:
        raise Break(breaks.AUTOGRAD, f"{inp.source.name}, computed before, has hooks or keeps its gradient", clean=True)
    ev.cap.guard(f"{ev.cap.tok(inp.source.attr('grad_fn').attr('hooks'))} is None", "hooks", inp.source.path())


def _flat(v: Any) -> list:
    """The tensors of an argument that is a tensor or a sequence of them."""
    return [t for t in (v if type(v) in (list, tuple) else (v,)) if issubclass(type(t), Tensor)]


def _reached(outputs: list, before: dict[int, Any]) -> list:
    """The inputs, of those that were computed before, that a backward pass from ``outputs`` comes to."""
    found, seen, todo = [], set(), [t if t.grad_fn is None else t.grad_fn for t in outputs]
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if issubclass(type(node), Tensor):
            if id(node) in before:
                found.append(before[id(node)])
        else:
            todo.extend(node.edges)
    return found


# ---- the rehearsal


def rehearse(ev: Any, outs: list[Tensor]) -> None:
    """Run the engine on what leaves the region, if it would call the user's code. Raises `Restart` where that code
    does more than compute."""
    check_saved(ev)
    check_selected(ev, outs)
    cap, builder, state = ev.cap, ev.cap.builder, ev.engine
    if not state.roots:
        return
    if any(t.grad_fn is None and t._extra is not None and t._extra.hooks for t in outs):
        state.guilty = None
        _break_at(ev, "a hook of a leaf that is made here")  # it is no part of the region's gradient
    left = [t for t in [*outs, *(t for t, _ in builder.mutated())] if t.requires_grad and t.grad_fn is not None]
    leaves = [builder.leaf_of(i.graph) for i in cap.tensors]
    leaves = [t for t in leaves if t is not None] or builder.inner_leaves
    if not left or not leaves:
        return
    graph, tensors = builder.graph, builder.tensors[:]
    known = len(graph.nodes), len(graph.inputs), len(cap.guards), len(cap.tensors), graph.draws
    before = _traces(ev)
    state.guilty = None
    cotangents = [builder.new_input(Meta(t._g.meta.shape, t._g.meta.dtype)) for t in left]
    detail = _rehearsed(state, left, leaves, cotangents)
    if not detail:
        if len(cap.tensors) != known[3] or any(g.kind not in _LASTING for g in cap.guards[known[2] :]):
            detail = "it reads values from outside"
        elif graph.draws != known[4]:
            detail = "it draws random numbers"
        elif _traces(ev) != before:
            detail = "it changes objects"
    weak = [t for t, _ in cap.weak_inputs if all(t is not x for x in tensors)]
    cap.pinned |= {id(t._g.cell.source) for t in weak}
    builder.tensors = [*tensors, *weak]
    del graph.nodes[known[0] :]
    if detail:
        _break_at(ev, detail)


def _rehearsed(state: EngineCalls, left: list[Tensor], leaves: list[Tensor], cotangents: list[Tensor]) -> str:
    """Why code that the engine calls can't be evaluated, or ""."""
    state.guilty = None
    try:
        with no_grad():
            function_grad(left, leaves, cotangents, allow_unused=True, retain_graph=True)
    except Break as b:
        return b.detail
    except Exception as e:  # the region meets it again, and makes it the error of its backward
        if state.guilty is not None and not str(e).startswith(_LOST):
            return "it raises an error"  # a backward pass for some of the inputs need not reach that code
        if len(left) > 1:  # the histories of the others may be whole
            each = (_rehearsed(state, [t], leaves, [g]) for t, g in zip(left, cotangents, strict=True))
            return next(filter(None, each), "")
    return ""


_LOST = ("Trying to", "one of the variables needed")  # errors of saved tensors that are gone or were changed


def _break_at(ev: Any, detail: str) -> None:
    state = ev.engine
    for place in state.places if state.guilty is None else [state.guilty]:
        ev.cap.facts.breaks[place] = (breaks.AUTOGRAD, f"code that a later backward calls: {detail}")
    raise Restart


def _traces(ev: Any) -> dict[int, tuple]:
    """What code that the engine calls could change: every object it can reach, with what is in it."""
    cap, seen, keep = ev.cap, {}, ev.engine.keep  # kept so that no id is used twice
    made = [v for v in cap.keep if type(v) not in (tuple, types.MethodType)]
    todo: list[Any] = [*cap.refs, *made, *ev.engine.roots]
    for f in ev.frames:
        todo += [*f.slots, *f.stack]
    while todo:
        v = todo.pop()
        if id(v) in seen:
            continue
        keep.append(v)
        if issubclass(type(v), Tensor):
            cell = getattr(v._g, "cell", None)
            seen[id(v)] = (id(cell), 0 if cell is None else cell.version, id(v._grad), v._rg)
            continue
        inside = [] if type(v) is types.FunctionType and id(v) not in ev.new_functions else _inside(v)
        keep.append(inside)
        seen[id(v)] = tuple(map(id, inside))
        todo += inside
    return seen


def _inside(v: Any) -> list[Any]:
    """The mutable parts of a value."""
    t = type(v)
    if t in (int, float, str, bool, type(None), bytes):
        return []
    if t is ListRef:
        return [*(v.items or ()), *v.tail, v.dirty]
    if t is DictRef:
        return [len(v.log), *v.writes.values()]
    if t is SetRef:
        return [v.dirty, *(v.view or ())]
    if t is CellRef:
        return [v.value, v.dirty]
    if t is ObjRef:
        return [*v.slots.values(), v.dict]
    if issubclass(t, Foreign):
        return []
    if issubclass(t, dict):
        return [x for kv in dict.items(v) for x in kv] + list(_attributes(v))
    if issubclass(t, (list, tuple, set, frozenset, collections.deque)):
        return [*v, *_attributes(v)]
    if t is types.CellType:
        try:
            return [v.cell_contents]
        except ValueError:
            return []
    if t is types.FunctionType:
        return [*(v.__closure__ or ()), v.__defaults__, v.__kwdefaults__]
    if t is types.MethodType:
        return [v.__func__, v.__self__]
    if t is functools.partial:
        return [v.func, *v.args, *v.keywords.values()]
    if t.__name__ == "GenValue":
        return [v.state, *v.frame.slots, *v.frame.stack]
    if is_a(v, (type, types.ModuleType, types.CodeType)):
        return []
    return list(_attributes(v))


def _attributes(v: Any) -> Any:
    try:
        return object.__getattribute__(v, "__dict__").values()
    except AttributeError:
        return ()


def retire(ev: Any) -> None:
    """Capture is over. What a second derivative needs is kept, but no object of the call that was captured."""
    state, cap = ev.engine, ev.cap
    state.keep, state.retired = [], True
    ev.outer = None  # what is evaluated from now on has no outermost frame
    for ref in cap.refs:  # cycles: what the program drops must go at once
        if type(ref) is ObjRef:
            ref.dict = None
        elif type(ref) is DictRef:
            ref.owner = None
    cap.by_id, cap.keep, cap.refs = {}, [], []
    for inp in cap.tensors:
        inp.real = None
        inp.graph._g.__dict__.pop("real", None)
    cap.builder.forget()


function_grad: Any = None


def _fill() -> None:
    from fusegrad.autograd import api
    from fusegrad.nn import _hooks

    from .calls import SPECIAL

    global function_grad
    function_grad = api.grad
    SPECIAL[api.backward] = SPECIAL[Tensor.backward] = backward
    SPECIAL[api.grad] = grad
    SPECIAL[Tensor.register_hook] = register_hook
    SPECIAL[Tensor.retain_grad] = retain_grad
    SPECIAL[Tensor._is_view] = is_view
    SPECIAL[Tensor.requires_grad_] = requires_grad_
    for name in ("squeeze_", "unsqueeze_", "t_", "transpose_", "swapaxes_", "swapdims_"):
        SPECIAL[getattr(Tensor, name)] = restrided
    SPECIAL[function.Function.apply.__func__] = apply  # type: ignore[attr-defined]
    SPECIAL[_hooks._functions] = lambda ev, fn, args, kwargs: ev.real(fn)


_fill()
