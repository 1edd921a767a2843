"""Regions: a recorded graph as one compiled, differentiable call on real tensors.

``build_region`` takes graph tensors (with the tape that library code recorded over them), derives the backward by
running the eager autograd engine on graph tensors, splits the joint graph in two, compiles the forward, and generates a
flat Python function that is the call.
"""

from __future__ import annotations

import hashlib
import threading
import warnings
from collections.abc import Callable
from typing import Any

from fusegrad.autograd.modes import STATE, no_grad
from fusegrad.handler import active
from fusegrad.tensor import Tensor

from .ir.bind import bind_sizes, bound_symbols, symbols_in
from .ir.builder import GraphBuilder
from .ir.graph import Graph, Value
from .ir.interp import run as interpret
from .ir.interp import run_tensors
from .options import Options, make_options
from .passes.partition import Parts, partition
from .passes.pipeline import AFTER, BEFORE, run_passes
from .passes.rewrite import prune
from .region_code import generate
from .region_plan import Plan, View, make_plan

__all__ = ["Region", "build_region", "compile_program", "region_from_graph"]


def build_region(
    builder: GraphBuilder, inputs: list[Tensor], outputs: list[Tensor], *, name: str = "region", options: Any = None
) -> Region:
    """Compile what ``builder`` recorded.

    Args:
        inputs: graph tensors from ``builder.new_input``, in call order. Real tensors that the builder lifted are
            bound as constants.
        outputs: graph tensors to return. Their tape decides what is differentiable; inputs changed in place are
            written back by the call.
        options: Options, a dict of its fields or None.

    Returns a ``Region``: call it with one Tensor (or number, for a weak input) per input, then an int for each of
    ``region.size_params``.
    """
    return Region(builder, list(inputs), list(outputs), name, make_options(options))


class Region:
    """A compiled piece of a program. ``region(*tensors_and_numbers, *sizes)`` returns a tuple of Tensors."""

    def __init__(
        self, builder: GraphBuilder, inputs: list[Tensor], outputs: list[Tensor], name: str, options: Options
    ) -> None:
        self.name, self.options = name, options
        self.arity = len(inputs)
        self.plan: Plan = make_plan(builder, inputs + _others(builder, inputs), outputs)
        self._lock = threading.Lock()
        self._backward: Any = None
        self._second: Any = None
        self.parts: Parts | None = None
        self.backward_graph: Graph | None = None
        self.joint = self._record_joint(builder, inputs)
        self._split()
        self._sizes()
        self.program = compile_program(self.forward, options)
        self.call, self.source = generate(self)
        self._forget()

    # -- building
    def _record_joint(self, builder: GraphBuilder, inputs: list[Tensor]) -> Graph:
        """Append the backward to the builder's graph and return it with inputs ordered.

        The order: call inputs, constants, cotangents.
        """
        graph, plan = builder.graph, self.plan
        graph.name = self.name
        values = [builder.value_of(t) for t in plan.results]
        self.orders = [_axis_order(t._g.meta) for t in plan.results]
        values = [builder.in_order(v, order) if order else v for v, order in zip(values, self.orders, strict=True)]
        values += [builder.value_of(t) for _, t, _ in plan.writes]
        self.results, self.writes, self.forward_nodes = len(plan.results), len(plan.writes), len(graph.nodes)
        history = [j for j, t in enumerate(plan.results) if t.requires_grad and t.grad_fn is not None]
        self.freed = {j for j in history if _is_freed(plan.results[j])}
        history = [j for j in history if j not in self.freed]
        plan.writes = [(i, t, recorded and not _is_freed(t)) for i, t, recorded in plan.writes]
        self.differentiable_results = history
        self.differentiable = [plan.results[j] for j in history] + [t for _, t, recorded in plan.writes if recorded]
        if self.differentiable and builder.inner_leaves:
            raise NotImplementedError("a result depends on a leaf that was made inside the captured code")
        first = inputs + _others(builder, inputs)
        candidates = [(i, builder.leaf_of(t)) for i, t in enumerate(first)]
        leaves = [leaf for _, leaf in candidates if leaf is not None]
        cotangents: list[Tensor] = []
        gradients: list[Any] = []
        self.leaves: list[int] = []
        if self.differentiable and leaves:
            cotangents, gradients = self._run_backward(builder, leaves)
            positions = [i for i, leaf in candidates if leaf is not None]
            self.leaves = [i for i, g in zip(positions, gradients, strict=True) if g is not None]
            gradients = [builder.value_of(g) for g in gradients if g is not None]
        if not self.leaves:
            self.differentiable, self.differentiable_results, gradients = [], [], []
        constants = _others(builder, inputs + cotangents)
        self.constants = [_real_of(builder, t) for t in constants]
        self.cotangents = len(cotangents)
        _reorder(graph, [t._g.cell.source for t in inputs + constants + cotangents])
        graph.outputs = [*values, *gradients]
        return graph

    def _run_backward(self, builder: GraphBuilder, leaves: list[Tensor]) -> tuple[list[Tensor], list[Any]]:
        """The eager engine on graph tensors: cotangents of the differentiable tensors, gradients of the leaves."""
        from fusegrad.autograd import grad

        cotangents = [builder.new_input(_plain(t), name=f"g{i}") for i, t in enumerate(self.differentiable)]
        with active(builder), no_grad():
            before, builder.loc = builder.loc, None
            found = grad(self.differentiable, leaves, cotangents, allow_unused=True, retain_graph=True)
            builder.loc = before
        return cotangents, list(found)

    def _split(self) -> None:
        """Passes, then the partition into forward and backward (when there is a backward)."""
        check = self.options.check
        count = self.results + self.writes
        primals = len(self.joint.inputs) - self.cotangents
        whole = run_passes(self.joint, BEFORE, check)
        if not self.leaves:
            self.forward = _without_cotangents(run_passes(prune(whole), AFTER, check), primals)
            self.saved_inputs = self.saved_results = ()
            return
        keep_inputs, keep_outputs = _read_by_backward(self.joint, self.forward_nodes, primals, self.results)
        parts = partition(whole, count, self.cotangents, keep_inputs, keep_outputs, self.options.recompute)
        self.forward = parts.forward = run_passes(parts.forward, AFTER, check)
        self.backward_graph = parts.backward = run_passes(parts.backward, AFTER, check)
        self.parts = parts
        self.saved_inputs = tuple(
            i for kind, i in parts.saved if kind == "input" and not self.forward.inputs[i].meta.weak
        )
        self.saved_results = tuple(sorted({j for kind, j in parts.saved if kind == "output" and j < self.results}))

    def _sizes(self) -> None:
        """Which sizes the caller passes, and which the backward takes from the forward's inputs."""
        self.backward_sizes = list(self.backward_graph.size_params) if self.backward_graph is not None else []
        symbolic = self.leaves and self.joint.sizes is not None
        self.gradient_sizes = list(self.gradient_graph().size_params) if symbolic else []
        bound = bound_symbols(self.forward)
        views = {
            s
            for r in self.plan.recipes
            if isinstance(r, View)
            for _, attrs, _ in r.chain
            for s in symbols_in(tuple(attrs.values()))
        }
        needed = {*self.forward.size_params, *self.backward_sizes, *self.gradient_sizes, *views}
        self.size_params: list[str] = sorted(s for s in needed if s not in bound)

    def _forget(self) -> None:
        """Drop the recorded tensors, and with them the tape.

        What is needed of them stands in the generated code by now.
        """
        self.specs = [(t._g.meta.shape, t._g.meta.dtype) for t in self.plan.results]
        self.plan.results, self.plan.writes, self.differentiable = [], [], []

    def result_spec(self, j: int) -> tuple[Any, Any]:
        """(shape, dtype) of result j as recorded."""
        return self.specs[j]

    # -- running
    def __call__(self, *args: Any) -> tuple:
        return self.call(*args)

    def backward_program(self) -> Callable[..., tuple]:
        """The compiled backward; compiled at its first use, once."""
        found = self._backward
        if found is None:
            with self._lock:
                if self._backward is None:
                    assert self.backward_graph is not None
                    self._backward = compile_program(self.backward_graph, self.options)
                found = self._backward
        return found

    def differentiable_gradients(self, held: tuple, cotangents: list[Tensor], sizes: tuple, rng: tuple) -> list[Any]:
        """Gradients as differentiable functions of the inputs and cotangents."""
        args = [*held, *cotangents, *sizes]
        if any(isinstance(t, Tensor) and t._data is None for t in args):
            outs, _ = run_tensors(self.gradient_graph(), [*args, *rng])
            return outs
        with self._lock:
            if self._second is None:
                flags = [i in self.leaves for i in range(len(held))] + [True] * len(cotangents)
                self._second = region_from_graph(self.gradient_graph(), flags, self.name + "_second", self.options)
            second = self._second
        return list(second.call(*args, rng=rng) if second.forward.draws else second.call(*args))

    def gradient_graph(self) -> Graph:
        """Inputs and cotangents -> gradients, before any pass: what a second derivative differentiates."""
        graph, _ = self.joint.copy()
        graph.outputs = graph.outputs[self.results + self.writes :]
        graph.mutations = []
        graph.name = self.name + "_gradient"
        return bind_sizes(prune(graph))

    # -- reading
    def text(self) -> str:
        """Graphs, schedule, kernels and the generated call."""
        parts = ["# captured\n" + self.joint.text(), "# forward\n" + self.forward.text()]
        if self.backward_graph is not None:
            parts.append("# backward\n" + self.backward_graph.text())
        for title, program in (("forward program", self.program), ("backward program", self._backward)):
            if program is not None and hasattr(program, "text"):
                parts.append(f"# {title}\n{program.text()}")
        parts.append("# call\n" + self.source)
        return "\n".join(parts)

    def key(self) -> str:
        """Hash of what the code depends on: the canonical graphs and the options."""
        text = self.forward.text(locs=False) + (self.backward_graph.text(locs=False) if self.backward_graph else "")
        return hashlib.sha256((text + self.options.key()).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"<Region {self.name}: {len(self.forward.nodes)} nodes{', differentiable' if self.leaves else ''}>"


def region_from_graph(graph: Graph, requires_grad: list[bool], name: str, options: Any = None) -> Region:
    """A Region of a graph: its nodes are replayed on graph tensors, so that the eager tape describes its derivative."""
    builder = GraphBuilder(name, graph.sizes)
    inputs = [
        builder.new_input(v.meta, flag and v.meta.dtype.is_floating_point and not v.meta.weak, v.name)
        for v, flag in zip(graph.inputs, requires_grad, strict=True)
    ]
    outputs = replay(graph, builder, inputs)
    builder.graph.draws = max(builder.graph.draws, graph.draws)
    tensors = [t for t in outputs if isinstance(t, Tensor)]
    if len(tensors) != len(outputs):
        raise ValueError("region_from_graph: every output must be a value")
    return build_region(builder, inputs, tensors, name=name, options=options)


def replay(graph: Graph, builder: GraphBuilder, inputs: list[Tensor]) -> list[Any]:
    """Run a graph's nodes through the dispatcher on graph tensors (records the tape); returns its outputs."""
    from fusegrad.dispatch import dispatch

    from .ir.graph import map_values

    env: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    before = STATE.grad
    STATE.grad = True
    try:
        with active(builder):
            for node in graph.nodes:
                builder.loc = node.loc or ("", 0)
                out = dispatch(node.op, map_values(node.args, env.__getitem__), dict(node.attrs))
                outs = out if isinstance(out, (tuple, list)) else (out,)
                env.update(zip(node.outputs, outs, strict=True))
    finally:
        STATE.grad = before
        builder.loc = None
    return [map_values(out, env.__getitem__) for out in graph.outputs]


# -- helpers


def compile_program(graph: Graph, options: Options) -> Callable[..., tuple]:
    """A callable for a functional graph: compiled, or the reference interpreter when the options ask for it.

    A graph that the code generator fails on runs by the interpreter as well, with one warning; with ``check`` the
    failure is raised.
    """
    if options.interpret:
        return lambda *args: interpret(graph, args)
    from .kernel.program import compile_graph

    try:
        return compile_graph(graph, options)
    except Exception as error:
        if options.check:
            raise
        warnings.warn(
            f"fusegrad: no code could be generated for graph {graph.name} ({type(error).__name__}: {error}); "
            "it runs uncompiled. This is a bug in fusegrad.",
            RuntimeWarning,
            stacklevel=2,
        )
        return lambda *args: interpret(graph, args)


def _others(builder: GraphBuilder, known: list[Tensor]) -> list[Tensor]:
    """Inputs of the builder that are not in ``known``, in the order they were made."""
    seen = {id(t) for t in known}
    return [t for t in builder.tensors if id(t) not in seen]


def _without_cotangents(graph: Graph, primals: int) -> Graph:
    del graph.inputs[primals:]
    return graph


def _real_of(builder: GraphBuilder, t: Tensor) -> Tensor:
    source = t._g.cell.source
    for value, real in builder.constants:
        if value is source:
            return real
    raise ValueError(f"input {source.name} of the graph is neither an argument of the region nor a real tensor")


def _axis_order(meta: Any) -> tuple[int, ...] | None:
    """The axes from slowest to fastest of a result that eager lays out densely but not in C order; else None."""
    strides = meta.strides
    if strides is None or not all(type(s) is int for s in (*strides, *meta.shape)) or 0 in meta.shape:
        return None
    order = tuple(sorted(range(len(strides)), key=lambda d: (-strides[d], d)))
    step = 1
    for d in reversed(order):
        if strides[d] != step:
            return None
        step *= meta.shape[d]
    return order if order != tuple(range(len(order))) else None


def _is_freed(t: Tensor) -> bool:
    """Whether the history of ``t`` was freed by a backward pass inside the captured code."""
    todo, seen = [t.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or isinstance(node, Tensor) or node in seen:
            continue
        if node.freed:
            return True
        seen.add(node)
        todo.extend(node.edges)
    return False


def _plain(t: Tensor) -> Any:
    from fusegrad.meta import Meta

    return Meta(t._g.meta.shape, t._g.meta.dtype)


def _reorder(graph: Graph, values: list[Value]) -> None:
    """Make ``values`` the graph's inputs, in that order."""
    graph.inputs = values
    for i, value in enumerate(values):
        value.index = i


def _root(value: Value) -> Value:
    """The value whose memory a chain of views looks at."""
    while value.node is not None and value.node.op.kind == "view":
        value = value.node.args[0]
    return value


def _read_by_backward(joint: Graph, forward_nodes: int, primals: int, outputs: int) -> tuple[set[int], set[int]]:
    """Inputs and outputs that the eager tape would have saved.

    Those are the ones read by backward nodes, directly or through views.
    """
    read = {_root(v) for node in joint.nodes[forward_nodes:] for v in node.inputs()}
    inputs = {i for i, v in enumerate(joint.inputs[:primals]) if v in read}
    return inputs, {j for j, v in enumerate(joint.outputs[:outputs]) if isinstance(v, Value) and _root(v) in read}
