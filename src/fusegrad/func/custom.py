"""Custom Functions under vmap and in forward mode: their ``vmap`` and ``jvp`` staticmethods, or rules made from
``forward`` and ``backward`` (``generate_vmap_rule = True``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import pytree
from ..autograd.function import Function, FunctionNode, _defined, _finish, needs_setup_context, run
from ..autograd.modes import STATE, no_grad
from ..handler import _active
from ..op import TABLE
from ..tensor import Tensor, storage_of
from .batch import BatchHandler
from .dual import DualHandler
from .levels import LevelHandler


class VmapInfo(NamedTuple):
    """What a Function's ``vmap`` is told of the transform."""

    batch_size: int
    randomness: str


def apply(cls: Any, args: tuple, kwargs: dict) -> Any:
    """``cls.apply`` with tensors of a level among the arguments."""
    inside = pytree.tree_leaves(args)
    h = max((t._g.handler for t in inside if isinstance(t, Tensor) and t._data is None), key=lambda x: x.level)
    h.check_alive()
    batched = isinstance(h, BatchHandler)
    new_style = "setup_context" in _defined(cls)
    needs = STATE.grad and any(isinstance(a, Tensor) and a._rg for a in args)
    if not new_style and (batched or _in_transform(h)):
        raise RuntimeError(needs_setup_context(cls))
    if batched:
        out, ctx = _batched(cls, h, args, kwargs), None
    else:
        out, ctx = _dual(cls, h, args, kwargs, new_style)
    if not needs:
        return out
    return on_tape(cls, args, out) if ctx is None else again_on_tape(cls, ctx, args, out)


def _in_transform(h: LevelHandler) -> bool:
    """Whether ``h`` belongs to a function transform (and not to a ``forward_ad.dual_level``)."""
    return not getattr(h, "dual_level", False)


def on_tape(cls: Any, args: tuple, out: Any) -> Any:
    """Put a node of the Function under ``out`` on the level of its arguments."""
    node = context(cls, args)
    tensors = [a for a in args if isinstance(a, Tensor)]
    node.arg_tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    node.edges = tuple((t._node or t) if t._rg else None for t in tensors)
    node.nrs = tuple(t._nr for t in tensors)
    with no_grad():
        cls.setup_context(node.context(), args, out)
    return _finish(node, args, out, True)


def again_on_tape(cls: Any, ctx: FunctionNode, args: tuple, out: Any) -> Any:
    """``on_tape`` for a Function of the old form, whose ``ctx`` was filled by values below: the same with duals."""
    node = context(cls, args)
    tensors = [a for a in args if isinstance(a, Tensor)]
    node.arg_tensors, node.materialize = ctx.arg_tensors, ctx.materialize
    node.edges = tuple((t._node or t) if t._rg else None for t in tensors)
    node.nrs = tuple(t._nr for t in tensors)
    node.__dict__.update(ctx.__dict__)
    outs = out if isinstance(out, tuple) else (out,)
    ours = {id(below): above for below, above in zip(ctx.below, (*args, *outs), strict=True)}

    def over(t: Any) -> Any:
        return ours.get(id(t), t)

    node.dirty = tuple(map(over, ctx.dirty))
    node.non_differentiable = tuple(map(over, ctx.non_differentiable))
    node.to_save = tuple(outs[v] if how == "out" else over(t) for how, t, v in ctx.kept)
    del ctx.below
    return _finish(node, args, out, True)


def context(cls: Any, args: tuple) -> FunctionNode:
    node = FunctionNode(cls)
    node.needs_input_grad = tuple(isinstance(a, Tensor) and a._rg for a in args)
    return node


# ---- vmap


def _batched(cls: Any, h: BatchHandler, args: tuple, kwargs: dict) -> Any:
    generate = getattr(cls, "generate_vmap_rule", False)
    own = "vmap" in _defined(cls)
    if generate and own:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            "staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
            "avoid ambiguity."
        )
    if not (generate or own):
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and "
            f"implement the "
            "vmap staticmethod or set generate_vmap_rule=True."
        )
    parts = [_split(h, a) for a in args]
    below = [v for v, _ in parts]
    with h.below():
        if not any(pytree.tree_leaves([b for _, b in parts])):
            out: Any = pytree.tree_map(
                lambda t: h.wrap(t, False) if isinstance(t, Tensor) else t, cls.apply(*below, **kwargs)
            )
            return out
        if generate:
            return _generated(cls, h, parts)
        dims = tuple(pytree.tree_map(lambda b: 0 if b else None, b) for _, b in parts)
        r = cls.vmap(VmapInfo(h.size, h.randomness), dims, *below)
        if not isinstance(r, tuple) or len(r) != 2:
            raise RuntimeError(f"{cls.__name__}.vmap must return (outputs, out_dims), got {type(r).__name__}")
        return _from_vmap(h, cls, *r)


def _split(h: BatchHandler, a: Any) -> tuple[Any, Any]:
    """An argument as it lies below, and which tensors are batched: in containers too, in the same structure."""
    leaves, spec = pytree.tree_flatten(a, is_leaf=lambda x: x is None)
    pairs = [h.parts(t) for t in leaves]
    return pytree.tree_unflatten([v for v, _ in pairs], spec), pytree.tree_unflatten([b for _, b in pairs], spec)


def _from_vmap(h: BatchHandler, cls: Any, out: Any, dims: Any) -> Any:
    multi = isinstance(out, (tuple, list))
    outs = list(out) if multi else [out]
    several = isinstance(dims, (tuple, list))
    where = list(dims) if several else [dims] * len(outs)
    if several and not multi or len(where) != len(outs) or not all(d is None or type(d) is int for d in where):
        raise RuntimeError(
            f"{cls.__name__}.vmap returned an incompatible (outputs, out_dims) tuple: out_dims={dims!r} for "
            f"{f'{len(outs)} outputs' if multi else 'one output'}; give one dimension (or None) for each output"
        )
    made = []
    for t, d in zip(outs, where, strict=True):
        if not isinstance(t, Tensor):
            made.append(t)
        elif d is None:
            made.append(h.wrap(t, False))
        else:
            made.append(h.wrap(t.movedim(d, 0) if d else t))
    return tuple(made) if multi else made[0]


def _generated(cls: Any, h: BatchHandler, parts: list) -> Any:
    """Run the Function on all examples as *one* Function of what lies below, which has the tape there."""
    rule = type(
        f"Vmapped{cls.__name__}",
        (_Vmapped,),
        {"of": cls, "size": h.size, "randomness": h.randomness, "wide": tuple(b for _, b in parts), "multi": [False]},
    )
    out = rule.apply(*(v for v, _ in parts))
    outs = out if isinstance(out, tuple) else (out,)
    made = tuple(h.wrap(t) if isinstance(t, Tensor) else t for t in outs)
    return made if rule.multi[0] else made[0]


class _Vmapped(Function):
    """A Function over a whole batch: ``of`` on tensors batched along dimension 0 where ``wide`` says so."""

    of: Any
    size: Any
    randomness: str
    wide: tuple
    multi: list

    @classmethod
    def enter(cls, h: BatchHandler, args: tuple, wide: Any = None) -> list:
        wide = (True,) * len(args) if wide is None else wide
        return [_join(h, a, w) for a, w in zip(args, wide, strict=True)]

    @classmethod
    def inside(cls, fn: Any) -> Any:
        """``fn(handler)`` at a level of its own."""
        h = BatchHandler(cls.size, cls.randomness)
        with h.running():
            return fn(h)

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        # a bare class method: forward needs the class that it belongs to
        def forward(*inputs: Any) -> tuple:
            def body(h: BatchHandler) -> tuple:
                out = cls.of.forward(*cls.enter(h, inputs, cls.wide))
                cls.multi[0] = isinstance(out, (tuple, list))
                outs = out if cls.multi[0] else (out,)
                return tuple(h.front(*h.parts(t)) if isinstance(t, Tensor) else t for t in outs)

            return cls.inside(body)

        def setup_context(ctx: Any, inputs: tuple, output: tuple) -> None:
            def body(h: BatchHandler) -> tuple:
                inner = FunctionNode(cls.of)
                inner.needs_input_grad = ctx.needs_input_grad
                outs = tuple(cls.enter(h, output))
                cls.of.setup_context(
                    inner.context(), tuple(cls.enter(h, inputs, cls.wide)), outs if cls.multi[0] else outs[0]
                )
                return inner, [h.parts(t) for t in inner.to_save], [h.parts(t) for t in inner.saved_for_forward]

            ctx.inner, kept, ahead = cls.inside(body)
            ctx.saved_wide = [b for _, b in kept]
            ctx.ahead_wide = [b for _, b in ahead]
            ctx.save_for_backward(*(v for v, _ in kept))
            ctx.save_for_forward(*(v for v, _ in ahead))
            ctx.inner.to_save = ctx.inner.saved_for_forward = ()

        def backward(ctx: Any, *gs: Any) -> tuple:
            saved = ctx.saved_tensors

            def body(h: BatchHandler) -> tuple:
                _fill(ctx.inner, cls.enter(h, saved, ctx.saved_wide))
                try:
                    r = cls.of.backward(ctx.inner.context(), *cls.enter(h, gs))
                finally:
                    ctx.inner.kept = []
                r = r if isinstance(r, tuple) else (r,)
                return tuple(_to_input(h, g, w) for g, w in zip(r, cls.wide, strict=False))

            return cls.inside(body)

        def jvp(ctx: Any, *ts: Any) -> tuple:
            saved = ctx.saved_tensors

            def body(h: BatchHandler) -> tuple:
                _fill(ctx.inner, cls.enter(h, saved, ctx.ahead_wide))
                r = cls.of.jvp(ctx.inner.context(), *cls.enter(h, ts, cls.wide))
                r = r if isinstance(r, tuple) else (r,)
                return tuple(h.front(*h.parts(t)) if isinstance(t, Tensor) else t for t in r)

            return cls.inside(body)

        body: dict[str, Any] = {
            "forward": staticmethod(forward),
            "setup_context": staticmethod(setup_context),
            "backward": staticmethod(backward),
            "vmap": staticmethod(_no_vmap),
            "generate_vmap_rule": False,
        }
        if "jvp" in _defined(cls.of):
            body["jvp"] = staticmethod(jvp)
        if any(isinstance(a, Tensor) and a._data is None for a in pytree.tree_leaves(args)):
            del body["vmap"]
            body["generate_vmap_rule"] = True
        return type(cls.__name__, (Function,), body).apply(*args, **kwargs)


def _join(h: BatchHandler, a: Any, wide: Any) -> Any:
    """The opposite of ``_split``."""
    if wide is True or wide is False:
        return h.wrap(a) if wide and isinstance(a, Tensor) else a
    leaves, spec = pytree.tree_flatten(a, is_leaf=lambda x: x is None)
    flags = pytree.tree_leaves(wide)
    return pytree.tree_unflatten([_join(h, x, w) for x, w in zip(leaves, flags, strict=True)], spec)


def _no_vmap(*args: Any) -> Any:
    raise RuntimeError("this rule is for one level of vmap")


def _to_input(h: BatchHandler, g: Any, wide: bool) -> Any:
    if not isinstance(g, Tensor):
        return g
    value, b = h.parts(g)
    if wide:
        return h.front(value, b)
    return value.sum(0) if b else value * h.size


def _fill(inner: FunctionNode, saved: list) -> None:
    inner.kept = [("in", t, t._st.version if isinstance(t, Tensor) and t._st is not None else 0) for t in saved]


# ---- forward mode


def _dual(cls: Any, h: DualHandler, args: tuple, kwargs: dict, new_style: bool) -> tuple[Any, Any]:
    """The outputs; and of a Function of the old form its ``ctx``, which knows the values below (``below``)."""
    parts = [_values(h, a) for a in args]
    below = tuple(p for p, _ in parts)
    before = _active.stack
    _active.stack = before + (h.outer,)
    try:
        if new_style:
            out = cls.apply(*below, **kwargs)
            ctx = context(cls, below)
            with no_grad():
                cls.setup_context(ctx.context(), below, out)
        else:
            if any(isinstance(a, Tensor) and a._data is None and isinstance(a._g.handler, LevelHandler) for a in below):
                raise RuntimeError("a Function without setup_context works on one level of forward mode only")
            ctx, out = run(cls, below, kwargs)
        multi = isinstance(out, (tuple, list))
        outs = list(out) if multi else [out]
        made: list = [None] * len(outs)
        if any(t is not None for _, t in parts):
            made = _tangents(cls, ctx, parts, outs)
    finally:
        _active.stack = before
    dirty = {id(t) for t in ctx.dirty}
    results: list[Any] = []
    for y, t in zip(outs, made, strict=True):
        again = next((a for a, (p, _) in zip(args, parts, strict=True) if p is y and id(y) in dirty), None)
        if again is not None and h.mine(again):
            again._g.tangent = t
            results.append(again)
        else:
            results.append(h.wrap(y, t) if isinstance(y, Tensor) else y)
    if new_style:
        return (tuple(results) if multi else results[0]), None
    ctx.below = (*below, *outs)
    return (tuple(results) if multi else results[0]), ctx


def _values(h: DualHandler, a: Any) -> tuple[Any, Any]:
    """(primal, tangent) of an argument; of a container its values alone (as in PyTorch it has no tangents)."""
    if isinstance(a, Tensor) or not isinstance(a, (list, tuple, dict)):
        return h.parts(a)
    return pytree.tree_map(lambda t: h.parts(t)[0], a), None


def _tangents(cls: Any, ctx: FunctionNode, parts: list, outs: list) -> list:
    if "jvp" not in _defined(cls):
        raise NotImplementedError(
            f"You must implement the jvp function for custom autograd.Function to use it with forward mode AD "
            f"({cls.__name__})."
        )
    kept = ctx.kept
    _fill(ctx, list(ctx.saved_for_forward))  # what ``save_for_backward`` kept is not for ``jvp``
    given = [
        TABLE["zeros"](tuple(p.shape), dtype=p.dtype)
        if t is None and isinstance(p, Tensor) and ctx.materialize and p.dtype.is_floating_point
        else t
        for p, t in parts
    ]
    before = {id(t): storage_of(t).version for t in given if isinstance(t, Tensor)}
    try:
        r = cls.jvp(ctx.context(), *given)
    finally:
        ctx.kept = kept
    r = list(r) if isinstance(r, (tuple, list)) else [r]
    if len(r) != len(outs):
        raise RuntimeError(f"{cls.__name__}.jvp returned {len(r)} tangents for {len(outs)} outputs")
    fixed = {id(t) for t in ctx.non_differentiable}
    changed = {id(t) for t in ctx.dirty}
    for i, (y, t) in enumerate(zip(outs, r, strict=True)):
        if id(y) in fixed or not isinstance(y, Tensor) or not y.dtype.is_floating_point:
            if t is not None:
                raise RuntimeError(
                    f"{cls.__name__}.jvp returned a gradient at position {i}, but the corresponding forward output is "
                    "not a differentiable Tensor. You should return None at that position instead."
                )
        elif t is not None and not isinstance(t, Tensor):
            raise RuntimeError(f"{cls.__name__}.jvp: expected a Tensor or None for output {i}, got {type(t).__name__}")
        elif t is not None and tuple(t.shape) != tuple(y.shape):
            raise RuntimeError(
                f"{cls.__name__}.jvp returned a tangent of shape {list(t.shape)} for an output of shape {list(y.shape)}"
            )
        elif t is not None:
            _check_tangent(cls, y, t, parts, given, before if id(y) in changed else None)
    return r


def _check_tangent(cls: Any, y: Tensor, t: Tensor, parts: list, given: list, before: dict | None) -> None:
    """RuntimeError for a tangent that does not share memory where its value does: in-place changes would miss it."""
    for (p, own), passed in zip(parts, given, strict=True):
        if own is None or not isinstance(p, Tensor):
            continue
        if before is not None and p is y:
            if t is not passed or storage_of(t).version == before[id(t)]:
                raise RuntimeError(
                    f"{cls.__name__}: an inplace custom Function is not modifying the forward mode gradients inplace. "
                    "If the forward is modifying an input inplace, then the jvp function must modify the "
                    "corresponding gradient inplace."
                )
        elif y._view is not None and y._view.base is (p if p._view is None else p._view.base):
            if t._view is None:
                raise RuntimeError(
                    f"{cls.__name__}: a custom Function's forward is returning a view (or an input as-is) but the jvp "
                    "is not returning a view."
                )
            if t._view.base is not (own if own._view is None else own._view.base):
                raise RuntimeError(
                    f"{cls.__name__}: a custom Function is returning a view but the jvp is not returning a view of the "
                    "given grad input or of its base."
                )
