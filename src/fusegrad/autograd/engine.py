"""The backward pass: vector-Jacobian products in dependency order, iterative, summing over paths.

Nodes are numbered as they are recorded and an edge always points to a lower number, so the highest pending number is
always safe to run: every consumer of its outputs has run already. Gradients of leaves are collected and stored at the
end, so an error on the way changes no ``.grad``.
"""

from __future__ import annotations

import functools
import heapq
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import warn
from ..handler import current
from ..meta import is_contiguous
from ..op import TABLE
from ..size_values import hint_of
from ..tensor import Tensor, extra_of, refresh, storage_of, wrap
from .array_pass import run_on_arrays
from .fitting import added, as_tensor, fit, is_one, materialized
from .hook_calls import call_hooks, call_node_hooks, check_nan, run_tensor_hooks
from .modes import RUNNING, SLOW, STATE, set_grad
from .node import AccumulateGrad, GradientEdge, Node, Severed
from .straight import ACCUMULATING, straight_backward, straight_gradients

Target = tuple[Any, int]


class Backward:
    """One run of the engine."""

    callbacks: list | None = None  # to be called at the end (see ``callbacks``)
    depth = 0  # passes around this one
    asked: Any = (
        frozenset()
    )  # where not all leaves get theirs: the nodes and leaves of which gradients are wanted, by id
    wanted: Any = frozenset()
    captured: dict[tuple[int, int], Tensor] = {}  # one of its own where something is wanted
    needed: set[int] | None = None
    on_arrays = False  # gradients are passed on as arrays (see ``array_pass``)

    def __init__(self, retain: bool, create: bool, into_leaves: bool = True) -> None:
        self.retain, self.create = retain, create
        self.into_leaves = into_leaves  # whether gradients are accumulated into all leaves
        self.roots: list[Any] = []
        self.heap: list[int] = []
        self.pending: dict[int, Node] = {}
        self.grads: dict[int, list] = {}  # by node number: a cotangent per output
        self.leaves: dict[int, tuple[Tensor, Tensor]] = {}

    def start(self, roots: Sequence[Any], cotangents: Sequence[Any]) -> None:
        """Push the cotangents of the roots."""
        for r, c in zip(roots, cotangents, strict=True):
            target, nr = edge_of(r)
            self.roots.append((target, nr))
            self.push(target, nr, first_cotangent(r, c, self.create))

    def reaches(self, edges: Sequence[Target]) -> list[bool]:
        """Whether this run brings a gradient to the hooks of each of ``edges``."""
        seen: dict[int, set[int]] = {}  # which outputs of a node get a gradient
        todo = list(self.roots)
        while todo:
            n, nr = todo.pop()
            given = seen.setdefault(id(n), set())
            if nr not in given:
                given.add(nr)
                if isinstance(n, Node) and (self.needed is None or n.seq in self.needed):
                    todo.extend(n.onward(nr, len(given) == 1))
        if not self.into_leaves:
            edges = [(e if isinstance(e, Node) or id(e) in self.asked else None, nr) for e, nr in edges]
        return [id(e) in seen and (not isinstance(e, Node) or e.brings(self, seen[id(e)], nr)) for e, nr in edges]

    def asks(self, target: Any, nr: int) -> bool:
        """Whether a gradient of output ``nr`` of a node, or of a leaf, is part of what this run was asked for."""
        needed = self.needed
        if needed is None or (id(target), nr) in self.wanted:
            return True
        if not isinstance(target, Node):
            return False
        return target.seq in needed or id(target) in self.asked and target.leads(self, nr)

    def push(self, target: Any, nr: int, g: Any) -> None:
        """Add a cotangent for output ``nr`` of a node, or for a leaf."""
        if self.on_arrays and type(g) is Tensor and g._data is not None:
            g = g._data
        if isinstance(target, Tensor):
            have = self.leaves.pop(id(target), None)  # at the end again: leaves stand in the order they are complete
            self.leaves[id(target)] = (target, g if have is None else added(have[1], g))
            return
        seq = target.seq
        have_list = self.grads.get(seq)
        if have_list is None:
            n = target.op.n_out if target.op is not None else target.n_out
            if n == 1:
                self.grads[seq] = [g]
            else:
                count = n if n > 0 else len(target.shape)
                self.grads[seq] = have_list = [None] * count
                have_list[nr] = g
            self.pending[seq] = target
            heapq.heappush(self.heap, -seq)
        elif have_list[nr] is None:
            have_list[nr] = g
        else:
            have_list[nr] = added(have_list[nr], g)

    def restrict(self, roots: Sequence[Any], targets: set[tuple[int, int]]) -> None:
        """Run only what leads to ``targets``."""
        ids = self.asked = {t for t, _ in targets}
        self.captured = {}
        first = [r for r in roots if isinstance(r, Node)]
        seen = {n.seq: n for n in first}
        todo, everything = list(seen.values()), True  # everything: every path leads to a target
        while todo:
            n = todo.pop()
            ends = True
            for e in n.edges:
                if e is None:
                    continue
                ends = False
                if isinstance(e, Tensor):
                    everything = everything and id(e) in ids
                elif e.seq not in seen:
                    seen[e.seq] = e
                    todo.append(e)
            everything = everything and not ends
        if everything and len(first) == len(roots) and ids.isdisjoint(map(id, seen.values())):
            return  # the targets are all the leaves: nothing to leave out
        self.wanted = targets
        self.needed = needed = {n.seq for n in seen.values() if n.op is None and n.watches(ids)}
        for seq in sorted(seen):
            for e in seen[seq].edges:
                if e is not None and (id(e) in ids or (isinstance(e, Node) and e.seq in needed)):
                    needed.add(seq)
                    break

    def found(self, e: Any, nr: int) -> Tensor | None:
        """The gradient that arrived at an edge, after the hooks of the leaf if it is one."""
        if isinstance(e, Node):
            return self.captured.get((id(e), nr))
        g = as_tensor(self.leaves.get(id(e), (None, None))[1])
        return call_hooks(e._extra.hooks, g) if g is not None and e._extra is not None and e._extra.hooks else g

    def run(self) -> None:
        """Run all pending nodes."""
        before = STATE.grad
        if before is not self.create:
            set_grad(self.create)
        heap, pending, grads = self.heap, self.pending, self.grads
        try:
            if self.on_arrays:
                run_on_arrays(self)
            while heap:
                seq = -heapq.heappop(heap)
                self.visit(pending.pop(seq), grads.pop(seq))
        finally:
            if STATE.grad is not before:  # a hook may have changed it, too
                set_grad(before)

    def run_inside(self, outer: Backward) -> None:
        """``run`` for a pass inside of another one."""
        from .deep import EVERY, elsewhere

        self.depth = outer.depth + 1
        if self.depth % EVERY:
            self.run()
        else:
            elsewhere(self.run)

    def choose(self) -> None:
        """Settle how gradients are passed on, before the first."""
        plain = not self.wanted and self.needed is None and not STATE.anomaly
        self.on_arrays = plain and not self.create and not SLOW[0]

    def visit(self, node: Node, gs: list) -> None:
        """Hooks of the tensors that a node made, and targets; then the node itself."""
        if node.hooks is not None or self.wanted:
            arrive = getattr(node, "arrive", None) if node.op is None else None
            if arrive is not None:
                arrive(self, gs)
            else:
                self.look(node, gs)
        if self.needed is None or node.seq in self.needed:
            self.step(node, gs)

    def look(self, node: Node, gs: list) -> None:
        """Call the hooks of what a node made; keep what was asked for."""
        if node.hooks is not None:
            run_tensor_hooks(node, gs)
        if self.wanted:
            for i, g in enumerate(gs):
                if g is not None and (id(node), i) in self.wanted:
                    self.captured[id(node), i] = g

    def step(self, node: Node, gs: list) -> None:
        """Run one node and pass its gradients on."""
        hooks, op = node.hooks, node.op
        if hooks is not None and hooks["pre"]:
            gs = call_node_hooks(hooks["pre"], gs)
        if op is not None and all(g is None for g in gs):  # by a hook
            out: Any = [None] * len(node.edges)
        else:
            out = node.apply(materialized(node, gs) if len(gs) > 1 and op is not None else gs)
        if hooks is not None and hooks["post"]:
            out = call_node_hooks(hooks["post"], list(out), gs)
        if STATE.anomaly and STATE.check_nan:
            check_nan(node, out)
        some = self.needed is not None
        for e, nr, g in zip(node.edges, node.nrs, out, strict=False):
            if e is None or g is None or (some and not self.asks(e, nr)):
                continue
            self.push(e, nr, fit(g, e, nr, node.seq))
        if not self.retain:
            node.free()


def accumulate(leaf: Tensor, g: Any, create: bool) -> None:
    """Add ``g``, a Tensor or an array, to ``leaf.grad``, unless the leaf was told since that it requires none."""
    if not leaf._rg:
        return
    if type(g) is np.ndarray:
        if leaf._extra is None:
            with ACCUMULATING:
                have = leaf._grad
                if have is None:
                    leaf._grad = owned_array(g, leaf)
                    return
                if not create and added_to(have, g):
                    return
        g = wrap(g)
    if leaf._extra is not None and leaf._extra.hooks:
        given, g = g, call_hooks(leaf._extra.hooks, g)
        if g is not given and not create:  # the user's own tensor
            g = TABLE["clone"](g) if g._data is None else wrap(g._data.copy())
        del given
    around = None if leaf._extra is None else leaf._extra.accumulator
    if around is not None:
        (g,) = call_node_hooks(around["pre"], [g])
        if g is None:
            return
    with ACCUMULATING:
        have = leaf._grad
        if have is None:
            leaf._grad = g if create else owned(g, leaf)
        elif create:
            leaf._grad = have + g
        else:
            before = STATE.grad
            set_grad(False)
            try:
                have.add_(g)
            finally:
                set_grad(before)
    if leaf._extra is not None:
        for fn in list(leaf._extra.post_hooks.values()):
            r = fn(leaf)
            if r is not None:
                kind = RuntimeError if isinstance(r, Tensor) else TypeError
                raise kind(f"Tensor post accumulate grad hooks should return None, got {type(r).__name__}.")
    if around is not None:
        call_node_hooks(around["post"], [], [g])


def added_to(have: Tensor, g: np.ndarray) -> bool:
    """``have.add_(g)`` for a plain tensor that asks for no gradient; whether it was done."""
    d = have._data
    if type(have) is not Tensor or d is None or have._rg or have._view is not None or have._extra is not None:
        return False
    if SLOW[0] or RUNNING or d.dtype is not g.dtype or d.shape != g.shape or not d.flags.c_contiguous:
        return False
    try:
        np.add(d, g, d)
    except ValueError:  # it may not be written
        return False
    except (FloatingPointError, RuntimeWarning):  # comes when all is written
        pass
    storage_of(have).version += 1
    return True


def owned(g: Tensor, leaf: Tensor) -> Tensor:
    """``g`` itself if nobody else can see its memory and it is laid out as the leaf is, else a copy."""
    d = g._data
    if d is None:
        meta, order = getattr(g._g, "meta", None), leaf_order(leaf)
        if order is not None and meta is not None:
            back = [order.index(axis) for axis in range(len(order))]
            return TABLE["clone"](g.detach().permute(order), memory_format="contiguous").permute(back).detach()
        if meta is not None and meta.strides is not None or sys.getrefcount(g) > _alone[1]:
            return TABLE["clone"](g.detach(), memory_format="contiguous")
        return g.detach()
    of = leaf._data
    if of is not None and not of.flags.c_contiguous and of.strides != d.strides and is_dense(of):
        new = np.empty_like(of)  # keeps the order of its axes
        np.copyto(new, d)
        return _made(new)
    if not _alone:
        _alone.extend((sys.getrefcount(d), sys.getrefcount(g)))
    alike = d.flags.c_contiguous or of is not None and of.strides == d.strides
    alone = d.base is None and d.flags.owndata and alike and sys.getrefcount(d) <= _alone[0]
    if alone and not g._rg and g._st is None and sys.getrefcount(g) <= _alone[1]:
        return g
    return _made(d.copy("K" if alike else "C"))


def _made(d: np.ndarray) -> Tensor:
    t = wrap(d)
    if STATE.inference:
        extra_of(t).inference = True
    return t


def owned_array(d: np.ndarray, leaf: Tensor) -> Tensor:
    """``owned`` for a gradient that the pass holds as an array."""
    if not _array_alone:
        _array_alone.append(sys.getrefcount(d))
    of = leaf._data
    if of is None or not of.flags.c_contiguous:
        return owned(wrap(d), leaf)
    flags = d.flags
    alone = d.base is None and flags.owndata and flags.c_contiguous and sys.getrefcount(d) <= _array_alone[0]
    return wrap(d if alone else d.copy())


def leaf_order(leaf: Tensor) -> list[int] | None:
    """The axes of a dense leaf in the order they have in memory; None for C order, and for gaps or overlaps."""
    if leaf._data is not None:
        shape, steps = leaf._data.shape, tuple(s // leaf._data.itemsize for s in leaf._data.strides)
    else:
        meta = getattr(leaf._g, "meta", None)
        if meta is None or meta.strides is None:
            return None
        shape, steps = meta.shape, meta.strides
    if is_contiguous(shape, steps):
        return None
    order = sorted(range(len(shape)), key=lambda axis: -hint_of(steps[axis]))
    dense = is_contiguous([shape[axis] for axis in order], [steps[axis] for axis in order])
    return order if dense else None


def is_dense(d: np.ndarray) -> bool:
    """Whether the elements lie in memory without gaps or overlaps, in whatever order of axes."""
    step = d.itemsize
    for stride, n in sorted(zip(d.strides, d.shape, strict=True)):
        if n != 1:
            if stride != step:
                return False
            step *= n
    return True


def deliver(leaves: dict, create: bool) -> None:
    """Store the gradients that a backward pass collected: id -> (leaf, gradient)."""
    for key in list(leaves):
        leaf, g = leaves.pop(key)
        if type(g) is not np.ndarray:
            held = sys.getrefcount(g)
            if not _held:
                _held.append(held)
            if g._data is None and not create:
                g = apart(g, held > _held[0])
            elif create and (g is leaf or held > _held[0]) and g._node is None:
                g = TABLE["clone"](g)
        accumulate(leaf, g, create)


def apart(g: Tensor, held: bool) -> Tensor:
    """What `owned` does, for a graph tensor: a view, another layout, or what somebody else holds is copied."""
    if held or g._view is not None or g._g.meta.strides is not None or g._node is not None or g._rg:
        return TABLE["clone"](g, memory_format="contiguous")
    return g


_held: list[int] = []  # references seen in `deliver` to a gradient that nobody else holds
_array_alone: list[int] = []  # the same in `owned_array`, to memory alone
_alone: list[int] = []  # references seen in `owned` to memory and tensor of a gradient that nobody else holds


def count_references() -> None:
    """Measure `_alone` on the very path of a backward pass: Python versions count stack and locals differently."""
    for make in (lambda: wrap(np.zeros(1, np.float32)), lambda: np.zeros(1, np.float32)):
        leaf = wrap(np.zeros(1, np.float32))
        leaf._rg = True  # else it takes no gradient, and the user's first pass would be what is measured
        deliver({0: (leaf, make())}, False)


count_references()
assert _alone and _array_alone


def edge_of(t: Any) -> Target:
    """Where the gradient of a tensor or GradientEdge arrives: (node or leaf, output number)."""
    if isinstance(t, GradientEdge):
        node = t.node
        return (node.variable, 0) if isinstance(node, AccumulateGrad) else (node, t.output_nr)
    node = _history(t)
    return (t, 0) if node is None else (node, t._nr)


def _history(t: Tensor) -> Node | None:
    """``t.grad_fn``, which nobody looks at here: it needs no class called by its name."""
    if t._view is not None:
        refresh(t)
    node = t._node
    return None if type(node) is Severed else node


def first_cotangent(t: Any, g: Tensor | None, create: bool) -> Tensor:
    """The given cotangent of a root, checked; ones for a scalar. RuntimeError as PyTorch's."""
    if isinstance(t, GradientEdge):
        target, nr = edge_of(t)
        if isinstance(target, Node):
            shape, kind = target.output_spec(nr)
            t = TABLE["empty"](tuple(shape), dtype=kind)
        else:
            t = target
    if g is None:
        if not all(is_one(s) for s in t.shape):
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if t._data is not None and current() is None:
            return wrap(np.ones(t._data.shape, t._data.dtype))
        return TABLE["full"](tuple(t.shape), 1, t.dtype)
    if not isinstance(g, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    d, of = g._data, t._data
    if d is not None and of is not None and d.shape == of.shape and d.dtype is of.dtype:
        return g if create or not g._rg else g.detach()
    if tuple(g.shape) != tuple(t.shape):
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {g.shape} and output[0] has a shape of {t.shape}."
        )
    if g.dtype is not t.dtype:
        g = g.to(t.dtype)
    return g if create or not g._rg else g.detach()


def check_roots(tensors: Sequence[Tensor]) -> None:
    for i, t in enumerate(tensors):
        if isinstance(t, GradientEdge):
            continue
        if not isinstance(t, Tensor):
            raise TypeError(f"expected a Tensor to differentiate, got {type(t).__name__}")
        if not t.requires_grad or type(t._node) is Severed:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")


def as_tuple(x: Any) -> tuple:
    return tuple(x) if isinstance(x, (tuple, list)) and not isinstance(x, GradientEdge) else (x,)


def inputs_of(x: Any) -> tuple:
    """``inputs=`` as a tuple: of one Tensor or edge, or of what is iterated. TypeError for anything else."""
    return (x,) if isinstance(x, (Tensor, GradientEdge)) else tuple(x)


def run_backward(
    tensors: Any,
    gradients: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate gradients of ``tensors`` into the leaves (or into ``inputs`` alone)."""
    roots = as_tuple(tensors)
    cots = as_tuple(gradients) if gradients is not None else (None,) * len(roots)
    if len(cots) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(cots)} gradients")
    check_roots(roots)
    if len(roots) == 1 and not create_graph and inputs is None and straight_backward(roots[0], cots[0], retain_graph):
        return
    engine = Backward(create_graph if retain_graph is None else retain_graph, create_graph)
    into: tuple = ()
    if inputs is not None:
        into = inputs_of(inputs)
        if not into:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        check_inputs(into)
        engine.into_leaves = False
        for t in into:
            if isinstance(t, Tensor):
                t.retain_grad()  # of a leaf: nothing
        ends = [edge_of(t) for t in into]
        engine.restrict([edge_of(r)[0] for r in roots], {(id(e), nr) for e, nr in ends})
        if engine.needed is not None:  # nodes of inner tensors run, with their hooks, though nothing goes on from there
            engine.needed.update(e.seq for e, _ in ends if isinstance(e, Node))
    elif create_graph:
        _tell_of_cycle()
    before = STATE.run, STATE.grad
    STATE.run = engine
    set_grad(create_graph)  # hooks of leaves see the mode of the pass too
    try:
        engine.choose()
        engine.start(roots, cots)
        if before[0] is None:
            engine.run()
        else:
            engine.run_inside(before[0])
        if into:
            deliver_into(engine, into)
        else:
            deliver(engine.leaves, create_graph)
        if engine.callbacks:
            _call_callbacks(engine)
    finally:
        STATE.run = before[0]
        set_grad(before[1])


def _call_callbacks(engine: Backward) -> None:
    from .callbacks import call_all

    call_all(engine)


@functools.cache  # once in a process
def _tell_of_cycle() -> None:
    warn(
        "backward(create_graph=True) leaves gradients in .grad whose graph leads back to the leaves: a cycle, which "
        "keeps the memory of both until the garbage collector finds it. Use autograd.grad, which makes no cycle, or "
        "set .grad to None when it is no longer needed.",
        UserWarning,
    )


def deliver_into(engine: Backward, inputs: Sequence[Any]) -> None:
    """Store the gradients of ``inputs=``: of leaves and of inner tensors (an inner edge has no place for one)."""
    found: dict[int, tuple[Tensor, Any]] = {}
    for t in reversed(inputs):
        e, nr = edge_of(t)
        g = engine.captured.pop((id(e), nr), None)
        if isinstance(e, Tensor):
            g, t = as_tensor(engine.leaves.pop(id(e), (None, g))[1]), e
        if g is not None and isinstance(t, Tensor) and not _retained(t):
            found[len(found)] = t, g
    del g
    deliver(found, engine.create)


def _retained(t: Tensor) -> bool:
    """Whether ``retain_grad`` has stored the gradient of an inner tensor already."""
    node = _history(t)
    ref = node.hooks["retain"].get(t._nr) if node is not None and node.hooks else None
    return ref is not None and ref() is t


def check_inputs(inputs: Sequence[Tensor]) -> None:
    for t in inputs:
        if isinstance(t, GradientEdge):
            continue
        if not isinstance(t, Tensor):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")


def run_grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple:
    """Gradients of ``outputs`` with respect to ``inputs``; no ``.grad`` is touched."""
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    wrt = inputs_of(inputs)
    root, cot = (x[0] if type(x) in (tuple, list) and len(x) == 1 else x for x in (outputs, grad_outputs))
    if isinstance(root, Tensor) and not create_graph:
        found = straight_gradients(root, wrt, cot, retain_graph)
        if found is not None:
            return found
    roots = as_tuple(outputs)
    cots = as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(roots)
    if len(cots) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(cots)} gradients")
    check_roots(roots)
    for t in wrt:
        if not isinstance(t, (Tensor, GradientEdge)):
            wrong = RuntimeError if len(wrt) > 1 else TypeError
            raise wrong(f"grad(): all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    check_inputs(wrt)
    if not wrt:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    engine = Backward(create_graph if retain_graph is None else retain_graph, create_graph, into_leaves=False)
    edges = [edge_of(t) for t in wrt]
    engine.restrict([edge_of(r)[0] for r in roots], {(id(e), nr) for e, nr in edges})
    before = STATE.run, STATE.grad
    STATE.run = engine
    set_grad(create_graph)
    try:
        engine.choose()
        engine.start(roots, cots)
        if before[0] is None:
            engine.run()
        else:
            engine.run_inside(before[0])
        once = {(id(e), nr): engine.found(e, nr) for e, nr in edges}  # an input named twice gets one tensor
        arrived = [once[id(e), nr] for e, nr in edges]
        if engine.callbacks:
            _call_callbacks(engine)
    finally:
        STATE.run = before[0]
        set_grad(before[1])
    out: list[Any] = []
    for i, (g, (e, nr)) in enumerate(zip(arrived, edges, strict=True)):
        if g is None:
            if materialize_grads:
                if isinstance(wrt[i], GradientEdge):
                    raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
                shape, kind = e.output_spec(nr) if isinstance(e, Node) else (tuple(e.shape), e.dtype)
                g = TABLE["zeros"](shape, dtype=kind)._ask_grad(create_graph)
            elif not allow_unused:
                raise RuntimeError(
                    f"One of the differentiated Tensors (input {i}) appears to have not been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
        out.append(g)
    return tuple(out)
