"""Regions: a recorded graph as one compiled, differentiable call on real tensors.

``build_region`` takes graph tensors (with the tape that library code recorded over them), derives the backward by
running the eager autograd engine on graph tensors, splits the joint graph in two, compiles the forward, and generates a
flat Python function that is the call.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from fusegrad.autograd.modes import STATE, enable_grad
from fusegrad.autograd.node import CAST
from fusegrad.errors import DataDependentError
from fusegrad.handler import active
from fusegrad.native.meter import phase
from fusegrad.tensor import Tensor

from .ir.bind import bind_sizes, symbols_in, used_symbols
from .ir.builder import GraphBuilder
from .ir.control import loops_by_data
from .ir.graph import Graph
from .ir.interp import run, run_tensors
from .ir.unview import axis_order
from .options import Options, make_options
from .passes.absent import without_cotangents
from .passes.rewrite import prune
from .region_code import changes, generate
from .region_history import computed_from, inside_of, is_freed, kept_by_tape, leaves_of, meets, places_of, shares
from .region_plan import Plan, View, make_plan
from .region_program import compile_program
from .region_record import engine_gradients, lines_of_derivatives, other_inputs, plain_meta, real_of, reorder_inputs
from .region_split import (
    Shape,
    gradient_graph,
    gradient_graph_of_both,
    inputs_read,
    read_by_backward,
    recomputed_from,
    root_of,
    split,
)

__all__ = ["Region", "build_region"]


def build_region(
    builder: GraphBuilder,
    inputs: list[Tensor],
    outputs: list[Tensor],
    *,
    name: str = "region",
    options: Any = None,
    apart: bool = False,
) -> Region:
    """Compile what ``builder`` recorded.

    Args:
        inputs: graph tensors from ``builder.new_input``, in call order. Real tensors that the builder lifted are
            bound as constants.
        outputs: graph tensors to return. Their tape decides what is differentiable; inputs changed in place are
            written back by the call.
        options: Options, a dict of its fields or None.
        apart: the caller guards that inputs which are written to share no memory with other inputs; they may then be
            updated where they are.

    Returns a ``Region``: call it with one Tensor (or number, for a weak input) per input, then an int for each of
    ``region.size_params``.
    """
    return Region(builder, list(inputs), list(outputs), name, make_options(options), apart=apart)


class Partial(NamedTuple):
    """A backward for some of the cotangents: which gradients it gives, which saved inputs and results it reads."""

    run: Callable[..., tuple]
    random: bool
    there: list[bool]
    inputs: list[int]
    results: list[int]


class Region:
    """A compiled piece of a program. ``region(*tensors_and_numbers, *sizes)`` returns a tuple of Tensors."""

    def __init__(
        self,
        builder: GraphBuilder,
        inputs: list[Tensor],
        outputs: list[Tensor],
        name: str,
        options: Options,
        writes: bool = True,
        apart: bool = False,
    ) -> None:
        self.name, self.options, self.builder = name, options, builder
        self.arity = len(inputs)
        self.plan: Plan = make_plan(builder, inputs + other_inputs(builder, inputs), outputs, writes)
        self._lock = threading.Lock()
        self._backward: Any = None
        self.backward_run: Any = None  # its function, once it is compiled
        self.backward_random = False
        self._second: dict[tuple, tuple] = {}  # by which cotangents need a gradient
        self._partial: dict[frozenset[int], Partial] = {}  # by which cotangents there are
        self.layouts: dict[tuple, tuple] = {}  # of gradients, see region_layouts
        self._loops: bool | None = None
        self.assumed: list[Any] = []  # conditions on sizes that came up after the guards of the call were made
        with phase("passes"):
            self.joint = self._record_joint(builder, inputs)
            self._split()
            self._sizes()
        wishes = self._wishes() if apart else {}
        self.program = self._compile("forward", wishes)
        self.in_place = _granted(self.program, wishes)
        self.plan_writes = list(self.plan.writes)
        self.watched = computed_from(self.differentiable, self.plan.watched)
        self.check: Any = None
        if options.verify:
            from .verification.region_check import RegionCheck

            self.check = RegionCheck(self, options.verify)
        with phase("codegen"):
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
        seen = list(values)  # as operators of the captured code have them, whatever lies in memory for them
        self.orders = [axis_order(t._g.meta) for t in plan.results]
        values = [builder.in_order(v, order) if order else v for v, order in zip(values, self.orders, strict=True)]
        values += [builder.value_of(t) for _, t, _ in plan.writes]
        self.results, self.writes, self.forward_nodes = len(plan.results), len(plan.writes), len(graph.nodes)
        self._find_history(builder)
        first = inputs + other_inputs(builder, inputs)
        candidates = [(i, builder.leaf_of(t)) for i, t in enumerate(first)]
        candidates = [(i, leaf) for i, leaf in candidates if leaf is not None]
        self.candidates = [i for i, _ in candidates]
        self.dead_leaves = {j: leaves_of(self.recorded(j), candidates) for j in self.dead}
        cotangents, found = self._run_backward(builder, [leaf for _, leaf in candidates])
        pairs = [(i, g) for (i, _), g in zip(candidates, found, strict=True) if g is not None] if found else []
        self.leaves: list[int] = [i for i, _ in pairs]
        self.leaf_tensors = [leaf for i, leaf in candidates if i in set(self.leaves)]
        gradients = [builder.value_of(g) for _, g in pairs]
        constants = other_inputs(builder, inputs + cotangents)
        self.constants = [real_of(builder, t) for t in constants]
        self.primals = inputs + constants
        self.cotangents = len(cotangents)
        kept = {id(v) for v in builder.kept}
        self.kept_inputs = {i for i, t in enumerate(self.primals) if id(t._g.cell.source) in kept}
        self.kept_results = {j for j, v in enumerate(seen) if id(root_of(v)) in kept}
        places = places_of(self.primals, {i for i, _, _ in plan.writes}, seen)
        changed = {i: self.primals[i] for i, _, _ in plan.writes}
        written = {id(t._g.cell.source): i for i, t in changed.items()}
        written |= {id(t._st): i for i, t in changed.items() if t._st is not None}
        self.hidden = len(self.primals)  # stands for leaves made inside: a whole backward pass reaches them too
        inner = [(self.hidden, t) for t in builder.inner_leaves]
        self.tape = kept_by_tape(self.differentiable, [*candidates, *inner], places, written)
        self.saved_written = tuple(sorted({i for k in self.tape for i in k.written}))
        self.reached = [sum(1 << i for i in leaves_of(t, candidates)) for t in self.differentiable]
        reorder_inputs(graph, [t._g.cell.source for t in self.primals + cotangents])
        graph.outputs = [*values, *gradients]
        builder.tensors = list(self.primals)
        return self._pruned_copy(graph)

    def _pruned_copy(self, graph: Graph) -> Graph:
        """What this region needs of the builder's graph, which keeps growing when a backward is differentiated."""
        everything = graph.nodes
        prune(graph)
        forward = set(everything[: self.forward_nodes])
        self.forward_nodes = sum(node in forward for node in graph.nodes)
        copy, _ = graph.copy()
        graph.nodes = everything
        lines_of_derivatives(copy, self.forward_nodes)
        return copy

    def _find_history(self, builder: GraphBuilder) -> None:
        """Which results and mutated inputs have a history, and which of these can never be differentiated (``dead``)."""  # noqa: E501
        plan = self.plan
        self.dead: dict[int, str] = {}  # result or results + write -> why its backward fails ("": freed)
        self.differentiable_results: list[int] = []
        self.differentiable: list[Tensor] = []
        for j, t in enumerate([*plan.results, *(t for _, t, _ in plan.writes)]):
            recorded = t.requires_grad and t.grad_fn is not None
            if recorded and j >= len(plan.results):
                recorded = plan.writes[j - len(plan.results)][2] == "record"
            if not recorded:
                continue
            if is_freed(t):
                self.dead[j] = ""
            else:
                self.differentiable.append(t)
                if j < len(plan.results):
                    self.differentiable_results.append(j)
        self.shares = shares(self.differentiable)
        given = {id(t) for t in plan.results}
        if self.differentiable and any(id(t) in given for t in builder.inner_leaves):
            # the caller gets the leaf: its gradient would have to reach it (a hidden leaf's is never seen)
            raise NotImplementedError("results and a leaf they depend on were both made inside the captured code")

    def _run_backward(self, builder: GraphBuilder, leaves: list[Tensor]) -> tuple[list[Tensor], list[Any]]:
        """The eager engine on graph tensors: cotangents of the differentiable tensors, gradients of the leaves.

        An error of the engine (a saved tensor that the captured code changed in place) becomes the error of the
        backward of those results that meet it.
        """
        if not self.differentiable:
            return [], []
        if not leaves and not builder.inner_leaves:
            raise NotImplementedError("a result depends on no input of the region but has a history")
        cotangents = [builder.new_input(plain_meta(t), name=f"g{i}") for i, t in enumerate(self.differentiable)]
        if not leaves:
            return cotangents, []
        try:
            return cotangents, engine_gradients(builder, self.differentiable, leaves, cotangents)
        except RuntimeError as error:
            if isinstance(error, DataDependentError):
                raise
            self._bury(builder, leaves, cotangents, str(error))
        return self._run_backward(builder, leaves)

    def _bury(self, builder: GraphBuilder, leaves: list[Tensor], cotangents: list[Tensor], message: str) -> None:
        """Count those results as dead whose own backward fails; all of them, if each alone could be differentiated."""
        failed: dict[int, str] = {}
        for t, g in zip(self.differentiable, cotangents, strict=True):
            try:
                engine_gradients(builder, [t], leaves, [g])
            except RuntimeError as error:
                failed[id(t)] = str(error)
        failed = failed or dict.fromkeys(map(id, self.differentiable), message)
        everything = [*self.plan.results, *(t for _, t, _ in self.plan.writes)]
        alive = {id(t) for t in self.differentiable}
        self.dead.update({j: failed[id(t)] for j, t in enumerate(everything) if id(t) in alive and id(t) in failed})
        pairs = list(zip(self.candidates, leaves, strict=True))
        self.dead_leaves = {j: leaves_of(self.recorded(j), pairs) for j in self.dead}
        self.differentiable = [t for t in self.differentiable if id(t) not in failed]
        self.differentiable_results = [j for j in self.differentiable_results if j not in self.dead]
        self.shares = shares(self.differentiable)
        builder.tensors = [t for t in builder.tensors if not any(t is c for c in cotangents)]
        del builder.graph.nodes[self.forward_nodes :]

    def recorded(self, j: int) -> Tensor:
        """Result j, or mutated input j - results, as recorded."""
        return [*self.plan.results, *(t for _, t, _ in self.plan.writes)][j]

    def _split(self) -> None:
        """Forward and backward, and what the backward needs of the forward."""
        shape = Shape(
            self.results, self.writes, self.cotangents, self.forward_nodes, bool(self.differentiable),
            tuple(sorted(self.kept_inputs)), tuple(sorted(self.kept_results)),
        )  # fmt: skip
        self.shape = shape
        self.parts, self.cache_key = split(self.joint, shape, self.options)
        self.face, behind = self.parts.forward_face, self.parts.backward_face
        self.gradient_reads = self.parts.reads
        self.snapshots = self._overwritten()
        self.backward_random = behind is not None and behind.random
        self.backward_sizes = list(behind.size_params) if behind is not None else []
        saved = self.parts.saved
        self.read_inputs = {i for kind, i in saved if kind == "input" and not self.face.weak[i]}
        self.read_results = {j for kind, j in saved if kind == "output" and j < self.results}
        self.saved_inputs = tuple(sorted(self.read_inputs.union(*(k.inputs for k in self.tape))))
        self.saved_results = tuple(sorted(self.read_results.union(*(k.outputs for k in self.tape))))
        inputs = [(k, i) for k, (kind, i) in enumerate(saved) if kind == "input"]
        self.saved_places = tuple((k, i) for k, i in inputs if i in self.read_inputs)
        again = {i for _, i in self.saved_places if i in self.parts.recomputed}
        late = read_by_backward(self.joint, self.forward_nodes, len(self.primals), self.results)[0]
        ahead = {i for i in late - self.read_inputs if not self.face.weak[i]}  # the forward computes what reads them
        self.recomputed = tuple(sorted((again | ahead) - set(self.snapshots)))

    @property
    def forward(self) -> Graph:
        """The graph of the forward."""
        return self.parts.forward

    @property
    def backward_graph(self) -> Graph | None:
        """The graph of the backward, if there is one."""
        return self.parts.backward

    def _overwritten(self) -> list[int]:
        """Mutated inputs, and those that get another memory, whose old contents a differentiable backward needs (copied
        at each call)."""
        moved = [i for i, t in enumerate(self.primals) if "moved" in t._g.__dict__]
        kept = {i for kind, i in self.parts.saved if kind == "input"}.union(self.gradient_reads)
        written = [i for i, _, _ in self.plan.writes if i in self.gradient_reads]
        return written + [i for i in moved if i in kept and i not in written]

    def _wishes(self) -> dict[int, int]:
        """Results (by number) that may be written over the mutated input (by number) whose new value they are."""
        if self.differentiable:
            return {}
        first = self.results
        return {
            first + k: i
            for k, (i, _, history) in enumerate(self.plan.writes)
            if history == "keep" and first + k not in self.dead
        }

    def _sizes(self) -> None:
        """Which sizes the caller passes, and which the backward takes from the forward's inputs."""
        symbolic = self.differentiable and self.joint.sizes is not None
        bound = self.face.bound
        self.gradient_sizes = sorted(used_symbols(self.joint) - set(bound)) if symbolic else []
        views = {
            s
            for r in self.plan.recipes
            if isinstance(r, View)
            for _, attrs, _ in r.chain
            for s in symbols_in(tuple(attrs.values()))
        }
        needed = {*self.face.size_params, *self.backward_sizes, *self.gradient_sizes, *views}
        self.size_params: list[str] = sorted(s for s in needed if s not in bound)

    def _forget(self) -> None:
        """Drop recorded tensors that nothing needs any more. The tape stays, for a backward that is differentiated."""
        self.specs = [(t._g.meta.shape, t._g.meta.dtype) for t in self.plan.results]
        self.result_versions = [changes(t) if t._g.cell.source is None else 0 for t in self.plan.results]
        self.plan.results, self.plan.writes, self.plan.watched = [], [], {}
        self.plan_writes = [(i, None, history) for i, _, history in self.plan_writes]

    def result_spec(self, j: int) -> tuple[Any, Any]:
        """(shape, dtype) of result j as recorded."""
        return self.specs[j]

    # -- running
    def __call__(self, *args: Any) -> tuple:
        return self.call(*args)

    def _compile(self, which: str, into: dict[int, int]) -> Callable[..., tuple]:
        """The program of the forward or the backward."""
        key = f"{self.cache_key} {which} {sorted(into.items())}" if self.cache_key else ""
        parts, sizes = self.parts, self.joint.sizes
        return compile_program(lambda: getattr(parts, which), self.options, into, key, sizes)

    def backward_program(self) -> Callable[..., tuple]:
        """The compiled backward; compiled at its first use, once."""
        found = self._backward
        if found is None:
            with self._lock:
                if self._backward is None:
                    self._backward = self._compile("backward", {})
                    self.backward_run = getattr(self._backward, "run", self._backward)
                found = self._backward
        return found

    def partial_backward(self, given: frozenset[int]) -> Partial:
        """The compiled backward for these cotangents alone."""
        found = self._partial.get(given)
        if found is None:
            with self._lock:
                graph, parts = self.backward_graph, self.parts
                assert graph is not None
                less, there = self._without(graph, given)
                key = f"{self.cache_key} partial {sorted(given)}" if self.cache_key else ""
                program = compile_program(less, self.options, None, key, self.joint.sizes)
                read = inputs_read(less, len(parts.saved))
                inputs, results = (
                    [i for k, (kind, i) in enumerate(parts.saved) if k in read and kind == what]
                    for what in ("input", "output")
                )
                mask = sum(1 << k for k in given)
                tape = [k for k in self.tape if k.results & mask]
                inputs = sorted({i for i in inputs if i in self.read_inputs}.union(*(k.inputs for k in tape)))
                results = sorted({*results}.union(*(k.outputs for k in tape)))
                found = Partial(getattr(program, "run", program), less.random, there, inputs, results)
                self._partial[given] = found
        return found

    def _without(self, graph: Graph, given: frozenset[int]) -> tuple[Graph, list[bool]]:
        """A graph of the gradients for these cotangents alone, and which gradients there are.

        A gradient that no cotangent flows to may still be there, as zeros; but only for what the results' histories
        lead to.
        """
        less, there = without_cotangents(graph, graph.inputs[len(graph.inputs) - self.cotangents :], given)
        reached = [any(self.reached[k] >> i & 1 for k in given) for i in self.leaves]
        kept = [r for r, keep in zip(reached, there, strict=True) if keep]
        less.outputs = [out for out, r in zip(less.outputs, kept, strict=True) if r]
        return prune(less), [a and b for a, b in zip(there, reached, strict=True)]

    def meets(self, what: str, i: int, given: frozenset[int], leaves: int) -> bool:
        """Whether a backward from the results ``given`` to the inputs ``leaves`` (bits) reads saved input or result
        ``i``, or what the call wrote to input ``i``, here or in eager code.
        """
        if what in ("written", "later"):
            return meets(self.tape, what, i, given, leaves)
        read = self.read_inputs if what == "input" else self.read_results
        return i in read or meets(self.tape, f"{what}s", i, given, leaves)

    def partial_reads(self, given: frozenset[int]) -> set[int]:
        """The inputs that the gradient reads when only these cotangents are given."""
        graph = self.gradient_graph()
        return inputs_read(self._without(graph, given)[0], len(graph.inputs) - self.cotangents)

    def differentiable_gradients(self, held: tuple, grads: list[Any], sizes: tuple, rng: tuple) -> list[Any]:
        """Gradients as differentiable functions of the inputs (``held``) and of the cotangents (None: there is none).

        The gradient's graph is run by the engine with graph tensors among the cotangents (a backward that is being
        captured), and for sizes that the compiled derivative was not made for.
        """
        cotangents = [g for g in grads if g is not None]
        env = dict(zip(self.gradient_sizes, sizes, strict=True))
        if any(t._data is None for t in cotangents):
            recording = any(t._data is None and isinstance(t._g.handler, GraphBuilder) for t in cotangents)
            if STATE.grad and recording:
                raise DataDependentError("differentiating the backward of a compiled region is not captured", None)
            return self._gradients_on_graph(held, grads, env, rng)
        if self.loops:
            return self._gradients_on_graph(held, grads, env, rng)
        flags = tuple(None if g is None else g.requires_grad for g in grads)
        second, there = self._second_region(flags)
        if second is None:
            return [None] * len(there)
        if not second.fits(held, env):
            return self._gradients_on_graph(held, grads, env, rng)
        args = [*held, *cotangents, *(env[s] for s in second.size_params)]
        made = iter(second.call(*args, rng=rng) if second.face.draws else second.call(*args))
        return [next(made) if keep else None for keep in there]

    def gradients_are_fixed(self, grads: list[Any]) -> bool:
        """Whether the gradients for these cotangents (None: there is none) depend on nothing that can be
        differentiated.
        """
        if self.loops or any(g is not None and (g._data is None or g.requires_grad) for g in grads):
            return False
        second, _ = self._second_region(tuple(None if g is None else False for g in grads))
        return second is None or not (second.differentiable or second.dead)

    @functools.cached_property
    def recomputed_from(self) -> tuple[int, ...]:
        """The inputs, numbers excepted, that values of the forward are computed from which the gradient reads."""
        return tuple(i for i in recomputed_from(self.joint, self.shape) if not self.face.weak[i])

    @functools.cached_property
    def kept_apart(self) -> tuple[int, ...]:
        """Those of them whose arrays are not saved for the backward."""
        saved = {i for _, i in self.saved_places}
        return tuple(i for i in self.recomputed_from if i not in saved)

    @property
    def loops(self) -> bool:
        """Whether the gradient runs loops whose number of rounds depends on data: it is differentiated on the eager
        tape.
        """
        if self._loops is None:
            self._loops = any(loops_by_data(node) for node in self.gradient_graph().nodes)
        return self._loops

    def _gradients_on_graph(self, held: tuple, grads: list[Any], env: dict[str, int], rng: tuple) -> list[Any]:
        graph = self.gradient_graph()
        given = frozenset(k for k, g in enumerate(grads) if g is not None)
        there = [True] * len(graph.outputs)
        if len(given) < len(grads):
            graph, there = self._without(graph, given)
        full = [0 if g is None else g for g in grads]  # an absent one is read by nothing
        args = [*held, *full, *(env[s] for s in graph.size_params)]
        made = iter(run_tensors(graph, [*args, *rng] if graph.random else args)[0])
        return [next(made) if keep else None for keep in there]

    def gradients_of_both(
        self,
        then: list[Any],
        now: list[Any],
        grads: list[Any],
        given: frozenset[int],
        sizes: tuple,
        rng: tuple,
        views: bool,
    ) -> list[Any]:
        """Gradients as arrays, by eager operators: the forward's values from the inputs as they were, what the
        derivatives read from the inputs (``views``: and from views of them) as they are. ``given``: numbers of the
        cotangents that there are.
        """  # fmt: skip
        graph, there = self._without(gradient_graph_of_both(self.joint, self.shape, views), given)
        env = dict(zip(self.gradient_sizes, sizes, strict=True))
        full = [0 if g is None else g for g in grads]
        args = [*then, *now, *full, *(env[s] for s in graph.size_params)]
        made = iter(run(graph, [*args, *rng] if graph.random else args))
        return [next(made) if keep else None for keep in there]

    inside = functools.cached_property(lambda self: inside_of(self.differentiable))  # by result: it was computed from

    def hooked(self, at: int) -> bool:
        """Whether the captured code registered hooks on result ``at``."""
        t = self.differentiable[at]
        hooks = None if t._node is None else t._node.hooks
        return hooks is not None and bool(hooks["tensor"].get(t._nr))

    def arriving(self, at: int, held: tuple, grads: list[Any], sizes: tuple, rng: tuple, own: bool = False) -> Any:
        """The gradient of result ``at`` by way of the other results that were computed from it (None: of none).

        ``own``: with what it gets itself, too.

        Results of one region are results of one node: this is what lies between two of them. Only hooks, retain_grad
        and gradients with respect to a result ask for it.
        """
        others = [None if k == at and not own else g for k, g in enumerate(grads)]
        given = [g for g in others if g is not None]
        if not given:
            return None
        second, _ = self._second_region(tuple(None if g is None else g.requires_grad for g in others), at)
        if second is None:
            return None
        env = dict(zip(self.gradient_sizes, sizes, strict=True))
        if any(g._data is None for g in given) or not second.fits(held, env):
            raise RuntimeError(
                "the gradient at a result of compiled code from which another of its results was computed is not known "
                "for batched gradients or for these sizes; compute one of the two outside of the compiled function"
            )
        args = [*held, *given, *(env[s] for s in second.size_params)]
        return (second.call(*args, rng=rng) if second.face.draws else second.call(*args))[0]

    def _second_region(self, flags: tuple[bool | None, ...], at: int | None = None) -> tuple[Region | None, list[bool]]:
        """The backward as a region of its own (and which gradients it gives):

        recorded by the engine from the tape of the captured code, with its own tape. ``flags``: which cotangents need
        a gradient; None: there is no such cotangent. ``at``: only as far as this result.
        """
        builder = self.builder
        with builder.lock:
            key = flags if at is None else (at, flags)
            found = self._second.get(key)
            if found is not None:
                return found
            from fusegrad.autograd import grad

            ctx = self.joint.sizes
            known = 0 if ctx is None else len(ctx.guards)
            roots, cotangents = self._roots(flags)
            with active(builder), enable_grad():
                targets = self.leaf_tensors if at is None else [self.differentiable[at]]
                outs = grad(roots, targets, cotangents, True, True, allow_unused=True)
            there = [t is not None for t in outs]
            region = None
            if any(there):
                inputs = self.primals + cotangents
                made = [t for t in outs if t is not None]
                region = Region(builder, inputs, made, self.name + "_second", self.options, writes=False)
                region.assumed = [] if ctx is None else list(ctx.guards[known:])
            self._second[key] = region, there
            return region, there

    def _roots(self, flags: tuple[bool | None, ...]) -> tuple[list[Tensor], list[Tensor]]:
        """The differentiable tensors with a cotangent, and new cotangents of them (see ``_second_region``)."""
        pairs = [(i, t, f) for i, (t, f) in enumerate(zip(self.differentiable, flags, strict=True)) if f is not None]
        cotangents = [self.builder.new_input(plain_meta(t), f, f"c{i}") for i, t, f in pairs]
        self.builder.tensors = list(self.primals)
        return [t for _, t, _ in pairs], cotangents

    def recorded_gradient(self, given: frozenset[int]) -> tuple[Graph, list[bool]]:
        """Inputs and the ``given`` cotangents -> gradients, recorded anew by the engine; and which gradients there are.

        What verification holds ``partial_backward`` against, which is made of the backward of all results.
        """
        builder, graph = self.builder, self.builder.graph
        with builder.lock:
            forward = set(graph.nodes)
            roots, cotangents = self._roots(tuple(False if k in given else None for k in range(self.cotangents)))
            found = engine_gradients(builder, roots, self.leaf_tensors, cotangents)
            reorder_inputs(graph, [t._g.cell.source for t in self.primals + cotangents])
            graph.outputs = [builder.value_of(t) for t in found if t is not None]
            everything = graph.nodes
            prune(graph)
            count = sum(node in forward for node in graph.nodes)
            copy, _ = graph.copy()
            graph.nodes = everything
        copy.mutations = []
        lines_of_derivatives(copy, count)
        return bind_sizes(copy), [t is not None for t in found]

    def fits(self, args: tuple, env: dict[str, int]) -> bool:
        """Whether the conditions on sizes hold that were found only when a backward was differentiated, and no input
        has got another dtype since the call (by ``.data``).
        """
        if CAST and any(
            isinstance(t, Tensor) and t.dtype is not v.dtype for t, v in zip(args, self.joint.inputs, strict=False)
        ):
            return False
        if not self.assumed:
            return True
        sizes = {**env, **{s: args[i].shape[d] for s, (i, d) in self.face.bound.items() if i < len(args)}}
        return all(g.check(sizes) for g in self.assumed)

    def gradient_graph(self) -> Graph:
        """Inputs and cotangents -> gradients, before any pass."""
        return gradient_graph(self.joint, self.shape)

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
        return (
            f"<Region {self.name}: {len(self.forward.nodes)} nodes{', differentiable' if self.shape.backward else ''}>"
        )


# -- helpers


def _granted(program: Any, wishes: dict[int, int]) -> set[int]:
    """The inputs that a program updates where they are."""
    made = getattr(program, "program", None)
    return set() if made is None else set(wishes.values()) & set(made.given)
