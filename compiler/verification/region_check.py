"""A region beside its recorded graph: the graph as capture recorded it, before any pass, on eager operators.

The program of a region is pure: arrays in, arrays out (only updates in place touch its inputs, which are copied first).
So running the recorded graph beside it has no effects outside, whatever the function around it does. The backward is
checked when it runs, from copies of the forward's inputs: that covers the derivation's split, what was saved and what
is recomputed.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.autograd.modes import STATE
from fusegrad.tensor import wrap

from ..errors import VerificationError
from ..ir.bind import bind_sizes
from ..ir.graph import Graph, Node, Value
from ..ir.interp import run as interpret
from ..passes.rewrite import prune
from ..region_node import CompiledBackward
from ..region_split import root_of
from .compare import difference
from .counts import note
from .locate import first_difference, place
from .noise import agree
from .own import OwnBuiltins

if TYPE_CHECKING:
    from ..region import Region

__all__ = ["Kept", "RegionCheck", "VerifiedBackward", "forward_graph"]


class _Here(threading.local):
    """Per thread: no checks while a check runs, nor in the process that runs eager code."""

    off = False


HERE = _Here()


class Kept:
    """What a call was given: copies of the arrays, numbers, sizes, random position."""

    __slots__ = ("args",)

    def __init__(self, args: tuple) -> None:
        self.args = tuple(a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args)


def forward_graph(region: Region) -> Graph:
    """Inputs -> results and new values of mutated inputs, before any pass."""
    graph, _ = region.joint.copy()
    graph.outputs = graph.outputs[: region.results + region.writes]
    graph.mutations = []
    graph.inputs = graph.inputs[: len(graph.inputs) - region.cotangents]
    return bind_sizes(prune(graph))


class RegionCheck:
    """Checks every n-th call of one region, and the backward passes of those calls."""

    def __init__(self, region: Region, every: int) -> None:
        self.region, self.every = region, every
        self._calls = itertools.count()
        self._graphs: dict[Any, Any] = {}  # "forward", "backward" or the cotangents there are
        self._lock = threading.Lock()

    # -- called by the generated code of the region
    def keep(self, *args: Any) -> Kept | None:
        """Copies of a call's inputs, if this call is to be checked."""
        if HERE.off or next(self._calls) % self.every:
            return None
        with OwnBuiltins():
            return Kept(args)

    def forward(self, kept: Kept, results: tuple) -> None:
        """Compare what the program gave with the results of the recorded graph."""
        if not HERE.off:
            with OwnBuiltins():
                self._forward(kept, results)

    # -- comparing
    def graph(self, which: str) -> Graph:
        """The reference for "forward" or "backward"."""
        with self._lock:
            found = self._graphs.get(which)
            if found is None:
                found = forward_graph(self.region) if which == "forward" else self.region.gradient_graph()
                self._graphs[which] = found
            return found

    def _forward(self, kept: Kept, results: Any) -> None:
        region, graph = self.region, self.graph("forward")
        n, face = len(graph.inputs), region.face
        sizes = {s: kept.args[i].shape[d] for s, (i, d) in face.bound.items()}
        sizes.update(zip(face.size_params, kept.args[n : n + len(face.size_params)], strict=True))
        if not set(graph.size_params) <= set(sizes):
            return  # a size that only removed code used
        rng = kept.args[n + len(face.size_params) :]
        args = [*kept.args[:n], *(sizes[s] for s in graph.size_params), *(rng if graph.random else ())]
        self._compare(graph, args, list(results[: region.results + region.writes]), self._forward_name)

    def backward(self, kept: Kept, node: Any, cotangents: list[Any], gradients: list[Any]) -> None:
        """Gradients (Tensors, or None where nothing flows) against the recorded derivative.

        ``cotangents``: arrays; None for a result that is not differentiated.
        """
        graph, there = self._derivative(cotangents)
        args = self._given(graph, kept, node, cotangents)
        if args is None:
            return
        for j, (g, is_there) in enumerate(zip(gradients, there, strict=True)):
            if g is not None and not is_there:
                self._fail(
                    f"{self._gradient_name(j)} is there, and is None in eager code", self._gradient_name(j), None
                )
            if g is None and is_there:
                self._fail(f"{self._gradient_name(j)} is None; eager code has one", self._gradient_name(j), None)
        places = [j for j, is_there in enumerate(there) if is_there]
        found = [gradients[j]._data for j in places]
        self._compare(graph, args, found, lambda k: self._gradient_name(places[k]))

    def gradients(self, kept: Kept, node: Any, cotangents: list[Any]) -> list[np.ndarray | None] | None:
        """The recorded derivative alone, on eager operators: nothing is compiled. None: it can't be run."""
        graph, there = self._derivative(cotangents)
        args = self._given(graph, kept, node, cotangents)
        if args is None:
            return None
        made = iter(interpret(graph, args))
        return [next(made) if is_there else None for is_there in there]

    def _derivative(self, cotangents: list[Any]) -> tuple[Graph, list[bool]]:
        """The recorded derivative by these cotangents, and which gradients it gives."""
        if all(g is not None for g in cotangents):
            graph = self.graph("backward")
            return graph, [True] * len(graph.outputs)
        given = frozenset(k for k, g in enumerate(cotangents) if g is not None)
        found = self._graphs.get(given)
        if found is None:
            found = self._graphs[given] = self.region.recorded_gradient(given)
        return found

    def _given(self, graph: Graph, kept: Kept, node: Any, cotangents: list[Any]) -> list[Any] | None:
        env = dict(zip(self.region.gradient_sizes, node.second_sizes, strict=True))
        if not set(graph.size_params) <= set(env):
            return None
        arrays = [g for g in cotangents if g is not None]
        rng = node.rng if graph.random else ()
        return [*kept.args[: len(graph.inputs) - len(arrays)], *arrays, *(env[s] for s in graph.size_params), *rng]

    def _compare(self, graph: Graph, args: list[Any], found: list[Any], name: Any) -> None:
        HERE.off = True
        try:
            note("verified_regions")
            with np.errstate(all="ignore"):
                try:
                    want = list(interpret(graph, args))
                except Exception as error:
                    self._fail(f"eager code raises {type(error).__name__}: {error}; compiled code does not", None, None)
            pairs = [(j, e, c) for j, (e, c) in enumerate(zip(want, found, strict=True)) if c is not None]
            for j, e, c in pairs:
                self._shapes(graph, j, np.asarray(e), np.asarray(c), name)
            kept = [
                e if c is None or _unwritten(graph, j) else c for j, (e, c) in enumerate(zip(want, found, strict=True))
            ]
            for j, ok in enumerate(agree(graph, args, want, kept)):
                if not ok.all():
                    self._differs(graph, args, j, difference(np.asarray(want[j]), np.asarray(kept[j]), ok), name(j))
        finally:
            HERE.off = False

    def _shapes(self, graph: Graph, j: int, eager: np.ndarray, compiled: np.ndarray, name: Any) -> None:
        if eager.shape != compiled.shape or eager.dtype != compiled.dtype and not _is_number(graph, j):
            self._fail(
                f"{name(j)}: eager has {eager.dtype}{list(eager.shape)}, compiled {compiled.dtype}"
                f"{list(compiled.shape)}", name(j), _producer(graph, j),
            )  # fmt: skip

    def _differs(self, graph: Graph, args: list[Any], j: int, found: Any, what: str) -> None:
        producer = _producer(graph, j)
        first = first_difference(graph, args, self.region.options)
        lines = [f"{what} differs from eager", f"  {found}"]
        if first is not None:
            node, inner = first
            lines.append(f"  first operator that differs: {node.op.name} at {place(node)}: {inner}")
        elif producer is not None:
            node = producer
            lines.append(
                f"  made by {node.op.name} at {place(node)}; every operator compiled on its own agrees, so the fault is"
                " in how the graph was split, fused or laid out in memory"
            )
        else:
            node = None
        self._fail("\n".join(lines), what, node, found)

    def _fail(self, text: str, what: str | None, node: Node | None, found: Any = None) -> None:
        raise VerificationError(
            f"compiled {self.region.name}: {text}", function=self.region.name, what=what or "",
            operator=node.op.name if node is not None else None, location=node.loc if node is not None else None,
            difference=found.size if found is not None else None, index=found.index if found is not None else None,
        )  # fmt: skip

    def _forward_name(self, j: int) -> str:
        region = self.region
        if j < region.results:
            return f"result {j}"
        i = region.plan_writes[j - region.results][0]
        return f"the new value of input {i} ({self._input(i)})"

    def _gradient_name(self, j: int) -> str:
        i = self.region.leaves[j]
        return f"the gradient of input {i} ({self._input(i)})"

    def _input(self, i: int) -> str:
        return self.region.joint.inputs[i].name


def _is_number(graph: Graph, j: int) -> bool:
    out = graph.outputs[j]
    return not isinstance(out, Value) or out.meta.weak


def _unwritten(graph: Graph, j: int) -> bool:
    """Whether a result is memory of ``empty`` that nothing was written to: it holds anything."""
    out = graph.outputs[j]
    made = root_of(out).node if isinstance(out, Value) else None
    return made is not None and made.op.name == "empty"


def _producer(graph: Graph, j: int) -> Node | None:
    out = graph.outputs[j] if j < len(graph.outputs) else None
    return out.node if isinstance(out, Value) else None


class VerifiedBackward(CompiledBackward):
    """The node of a region whose calls are checked; ``checked`` is what the forward was given (None: not checked)."""

    __slots__ = ("checked",)
    checked: Kept | None
    straight = None  # always through ``apply``

    def free(self) -> None:
        super().free()
        if self.freed:
            self.checked = None

    def replaced(self) -> bool:
        """Whether a saved input has got other contents since, by ``t.data = ...`` or a change of ``t.data``."""
        held, region = self.held, self.region
        places = [(at, i) for at, i in region.saved_places if i not in region.snapshots]
        return not self.packed and any(
            held[i]._data is not self.saved[at] or getattr(held[i]._st, "moved", 0) > self.seq  # type: ignore[index]
            for at, i in places
        )

    def apply(self, grads: list) -> list:
        kept = getattr(self, "checked", None)
        if kept is None or STATE.grad or any(g is not None and g._data is None for g in grads) or not self.edges:
            return super().apply(grads)
        if not self.freed and self.replaced():
            return super().apply(grads)  # of the new contents: the recorded derivative knows the old ones alone
        self.given = given = self.asked(grads)
        arrays = [g._data if k in given else None for k, g in enumerate(grads)]
        if HERE.off and not self.freed and not self.blocked and len(given) == len(grads):
            # verification's own backward, of the whole call: the program is checked when it runs
            region = self.region
            self._check(region.saved_inputs)
            if self.storages:
                self._check_results(region.saved_results)
            made = region.check.gradients(kept, self, arrays)
            return super().apply(grads) if made is None else [wrap(a) for a in made]
        found = super().apply(grads)
        if HERE.off or not given:
            return found
        with OwnBuiltins():
            self.region.check.backward(kept, self, arrays, found)
        return found
