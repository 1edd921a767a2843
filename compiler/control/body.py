"""Bodies: what a branch or a loop's function records, taken out of the graph around it.

A body is recorded with the builder of the graph around: what it closes over is found where it is, new inputs become
inputs of the whole graph, and autograd works as everywhere. Then the nodes are cut out. Values that they read and do
not define are what the body closes over; nodes and leaves of the tape that were there before are what its gradients go
to. Derivatives are bodies again, recorded by running the tape inside; so they have derivatives as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from fusegrad import pytree
from fusegrad.autograd.engine import Backward
from fusegrad.autograd.modes import STATE
from fusegrad.autograd.node import Node as TapeNode
from fusegrad.autograd.node import Storage, next_seq
from fusegrad.control.reach import ends_reached
from fusegrad.errors import ControlFlowError, DataDependentError, DrawnError, NotRecordedError
from fusegrad.meta import Meta, is_contiguous
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap_ref

from ..ir.bind import bind_sizes
from ..ir.builder import Cell, GraphBuilder, Place
from ..ir.graph import MAX_DEPTH, Graph, Node, Value, map_values

LEAF = "leaf"
Target = tuple[Any, int]  # a node of the tape with an output number, or a leaf (and 0)


class Part:
    """Nodes that were recorded apart, the numbers of the tape's nodes meanwhile, and the leaves made meanwhile."""

    nodes: list[Node]
    span: tuple[int, int]
    leaves: list[Tensor]


class Body:
    """A recorded function.

    Attributes:
        nodes: everything recorded for it, and more.
        params: placeholders of its arguments (loops alone; branches read their operands where they are).
        results: graph tensors; ``spec``: the structure they had.
        spans: numbers of the tape nodes that are inside. leaves: tensors that became leaves inside.
    """

    __slots__ = ("builder", "nodes", "params", "results", "spec", "spans", "leaves", "owner")

    def __init__(
        self,
        builder: GraphBuilder,
        nodes: list,
        params: list,
        results: list,
        spans: list,
        leaves: list,
        spec: Any = None,
    ) -> None:
        self.builder, self.nodes, self.params, self.results = builder, nodes, params, results
        self.spans, self.leaves, self.spec = spans, leaves, spec
        self.owner: Any = None  # the node of the tape around it

    def extended(self, part: Part, params: list, results: list) -> Body:
        """This body with more recorded after it."""
        return Body(
            self.builder, self.nodes + part.nodes, params, results, [*self.spans, part.span],
            [*self.leaves, *part.leaves],
        )  # fmt: skip

    def values(self) -> list[Value]:
        """The values of the results."""
        return [t._g.value for t in self.results]

    # -- the tape
    def inside(self, seq: int) -> bool:
        return any(a < seq < b for a, b in self.spans)

    def reached(self, results: list[Tensor]) -> tuple[list[Target], set[int]]:
        """What the tape of ``results`` leads to outside of the body (and its placeholders), and the numbers of the
        nodes inside on the way.
        """
        made = {id(t) for t in self.leaves}
        found: dict[tuple[int, int], Target] = {}
        seen: set[int] = set()
        todo = [(t._node if t._node is not None else t, t._nr) for t in results if t.requires_grad]
        while todo:
            target, nr = todo.pop()
            if isinstance(target, TapeNode) and self.inside(target.seq):
                if target.seq not in seen:
                    seen.add(target.seq)
                    todo += [(e, n) for e, n in zip(target.edges, target.nrs, strict=False) if e is not None]
            elif id(target) not in made:
                found.setdefault((id(target), nr), (target, nr))
        return list(found.values()), seen

    def stale(self) -> bool:
        """Whether a tensor that the tape inside keeps, for a backward to come, was changed in place since."""
        if self.owner is None or self.owner.freed:
            return False
        return any(_changed(t, version) for t, version in self.kept())

    def kept(self) -> Iterator[tuple[Any, Any]]:
        """What the nodes inside keep for a backward: (tensor, or storage of a result), and its version then."""
        for n in self.history():
            yield from zip(n.saved or (), n.versions or (), strict=False)
            yield from (k[1:] for k in n.out or () if k)
            yield from (k[1:] for k in getattr(n, "kept", ()))

    def history(self) -> Iterator[Any]:
        """The nodes of the tape inside, those of bodies inside included."""
        seen: set[int] = set()
        todo = [t._node for t in self.results if isinstance(t, Tensor) and t._node is not None]
        while todo:
            n = todo.pop()
            if not isinstance(n, TapeNode) or n.seq in seen or not self.inside(n.seq):
                continue
            seen.add(n.seq)
            todo += [e for e in n.edges if e is not None]
            yield n
            for inner in getattr(n, "bodies", ()):
                yield from inner.history()

    def kept_values(self) -> set[Value]:
        """The values in memory that eager code would keep in this body."""
        found: set[Value] = set()
        for t, _ in self.kept():
            for x in t if isinstance(t, tuple) else (t,):
                if isinstance(x, Tensor) and x._data is None and isinstance(x._g, Place):
                    found.add(x._g.cell.value)
        return found

    def outer(self) -> list[Target]:
        """What the results depend on outside, without the placeholders."""
        own = {id(p) for p in self.params}
        return [t for t in self.reached(self.results)[0] if id(t[0]) not in own]

    def depends(self) -> list[set]:
        """For each result the numbers of placeholders, and the targets outside, that its tape leads to.

        LEAF stands for leaves that were made inside.
        """
        own = {id(p): i for i, p in enumerate(self.params)}
        out = []
        for t in self.results:
            keys: set[Any] = {own.get(id(x), (id(x), nr)) for x, nr in self.reached([t])[0]}
            made = {id(x) for x in self.leaves}
            if t.requires_grad and made and any(id(x) in made for x, _ in ends_reached(t)):
                keys.add(LEAF)
            out.append(keys)
        return out

    def gradients(self, cotangents: list[tuple[Tensor, Tensor]], targets: list[Target]) -> list[Tensor | None]:
        """Records the gradients for ``targets`` of the pairs (result, cotangent); differentiable if the grad mode is
        on. None where nothing flows.
        """
        _, inner = self.reached([t for t, _ in cotangents])
        run = Within(inner, targets)
        for t, g in cotangents:
            if t.requires_grad:
                run.push(t._node if t._node is not None else t, t._nr, g)
        run.run()
        return [run.found.get((id(t), nr)) for t, nr in targets]


class Within(Backward):
    """A backward pass that stays among the nodes of a body."""

    def __init__(self, inner: set[int], targets: list[Target]) -> None:
        super().__init__(True, STATE.grad)
        self.needed = inner
        self.goals = {(id(t), nr) for t, nr in targets}
        self.wanted = self.goals
        self.found: dict[tuple[int, int], Tensor] = {}

    def push(self, target: Any, nr: int, g: Tensor) -> None:
        key = (id(target), nr)
        if key in self.goals:
            have = self.found.get(key)
            self.found[key] = g if have is None else have + g
        elif isinstance(target, TapeNode):
            super().push(target, nr, g)


def _changed(kept: Any, version: Any) -> bool:
    if isinstance(kept, tuple) and isinstance(version, tuple) and len(kept) == len(version):
        return any(map(_changed, kept, version))
    if isinstance(kept, tuple):  # (value, storage, version)
        return len(kept) == 3 and kept[1].version != kept[2]
    storage = kept if isinstance(kept, Storage) else getattr(kept, "_st", None)
    return storage is not None and type(version) is int and storage.version != version


def spec_of(target: Target) -> tuple[Any, Any]:
    """(shape, dtype) of a target."""
    t, nr = target
    return t.output_spec(nr) if isinstance(t, TapeNode) else (tuple(t.shape), t.dtype)


# ---- recording


@contextlib.contextmanager
def apart(builder: GraphBuilder) -> Iterator[Part]:
    """What is recorded inside is taken out of the graph again."""
    graph, part = builder.graph, Part()
    at, draws, leaves, start = len(graph.nodes), graph.draws, len(builder.inner_leaves), next_seq()
    if builder.depth >= MAX_DEPTH:
        raise NotRecordedError(f"control flow nested deeper than {MAX_DEPTH}")
    builder.depth += 1
    try:
        yield part
        part.nodes = graph.nodes[at:]
        part.leaves = builder.inner_leaves[leaves:]
    finally:
        builder.depth -= 1
        del graph.nodes[at:], builder.inner_leaves[leaves:]
    part.span = (start, next_seq())
    if graph.draws != draws:
        graph.draws = draws
        raise DrawnError("random numbers are drawn inside of a branch or a loop")


def placeholder(builder: GraphBuilder, meta: Meta, requires_grad: bool, name: str = "") -> Tensor:
    """The graph tensor that stands for an argument of a body; call it inside of ``apart``."""
    value = Value(meta, None, -1, name)
    t = wrap_ref(Place(builder, meta, Cell(value, depth=builder.depth), (), value))
    t._rg = requires_grad
    return t


def record_body(
    builder: GraphBuilder, what: str, fn: Callable[..., Any], arguments: Callable[[], tuple[list[Tensor], tuple]]
) -> Body:
    """Run ``fn`` on the arguments that ``arguments()`` makes: (placeholders, what to call ``fn`` with).

    ``results`` of the body are its leaves, numbers among them. NotRecordedError where it cannot be a part of a graph.
    """
    with apart(builder) as part, watch(builder, fn):
        params, args = arguments()
        try:
            out = fn(*args)
        except (DataDependentError, *builder.signals):
            raise
        except Exception as e:
            if builder.signals:  # whether it is raised at all depends on the data: eager code decides
                raise NotRecordedError(f"{what} raises {type(e).__name__}: {e}") from None
            raise
        leaves, spec = pytree.tree_flatten(out)
        leaves = [_settled(builder, t) if isinstance(t, Tensor) else t for t in leaves]
    body = Body(builder, part.nodes, params, leaves, [part.span], part.leaves, spec)
    if builder.signals:
        builder.bodies.append(body)
    return body


@contextlib.contextmanager
def watch(builder: GraphBuilder, fn: Any) -> Iterator[None]:
    """Capture looks for side effects of ``fn`` on Python objects: a graph can't repeat them."""
    before = builder.look(fn) if builder.look is not None else None
    yield
    if before is not None:
        found = before()
        if found:
            raise NotRecordedError(f"a branch or a body changes {found}")


def _settled(builder: GraphBuilder, t: Tensor) -> Tensor:
    """A result, its value read now (views of what was written are read again inside)."""
    if not builder.is_mine(t):
        if t._data is None:
            raise NotRecordedError("a branch or a body returns a tensor of a function transform")
        t = builder.lift(t)
    t = builder.passed(t)
    t.requires_grad  # noqa: B018  (a view's history is brought up to date)
    value = builder.value_of(t)
    if t._g.value is not value:  # a view made outside, of what was written since: not kept in its place
        t = wrap_ref(Place(builder, t._g.meta, t._g.cell, (), value))
    return t


def check_results(body: Body, what: str, copied: int | None = None) -> None:
    """NotRecordedError where eager code would refuse, or give results that a graph can't: aliases, other layouts.

    ``copied``: results from that number on are copied anyway.
    """
    builder, cells = body.builder, {p._g.cell for p in body.params}
    seen: set[Any] = set()
    for t in body.results[:copied]:
        if not isinstance(t, Tensor):
            continue
        cell, meta = t._g.cell, t._g.meta
        if cell in cells or cell.depth <= builder.depth or cell in seen:
            refuse(builder, f"{what}: a result aliases an input, a closed-over tensor or another result; clone() it")
        seen.add(cell)
        if meta.strides is not None and not is_contiguous(meta.shape, meta.strides):
            refuse(builder, f"{what}: a result is not contiguous; return its contiguous()")
    if any(isinstance(t, Tensor) and t._g.meta.weak for t in body.results):
        refuse(builder, f"{what}: a result is a Python number that changes between calls")


def refuse(builder: GraphBuilder, message: str) -> None:
    """Leave the decision to eager code when a program is captured; else an error."""
    raise NotRecordedError(message) if builder.signals else ControlFlowError(message)


def zeros(spec: tuple[Any, Any]) -> Tensor:
    """A graph tensor of zeros."""
    return TABLE["zeros"](tuple(spec[0]), dtype=spec[1])


# ---- graphs of bodies


def needed_nodes(nodes: list[Node], outputs: list[Value]) -> list[Node]:
    """The nodes that ``outputs`` depend on."""
    live = set(outputs)
    kept = []
    for node in reversed(nodes):
        if any(v in live for v in node.outputs):
            live.update(node.inputs())
            kept.append(node)
    return kept[::-1]


def free_values(nodes: list[Node], outputs: list[Value], bound: list[Value]) -> list[Value]:
    """Values that needed nodes or outputs read and that neither a node nor ``bound`` gives, in order of first use."""
    kept = needed_nodes(nodes, outputs)
    known = {*bound, *(v for node in kept for v in node.outputs)}
    found: dict[Value, None] = {}
    for node in kept:
        found.update(dict.fromkeys(v for v in node.inputs() if v not in known))
    found.update(dict.fromkeys(v for v in outputs if v not in known))
    return list(found)


def close(name: str, sizes: Any, nodes: list[Node], inputs: list[Value], outputs: list[Value]) -> Graph:
    """The graph of needed nodes with these inputs."""
    graph = Graph(name, sizes)
    env: dict[Value, Value] = {}
    for v in inputs:
        env[v] = graph.add_input(Meta(v.meta.shape, v.meta.dtype, None, v.meta.weak), v.name or None)
    for node in needed_nodes(nodes, outputs):
        new = graph.append(
            node.op,
            map_values(node.args, env.__getitem__),
            node.attrs,
            tuple(v.meta for v in node.outputs),
            node.loc,
        )
        for old, value in zip(node.outputs, new.outputs, strict=True):
            env.setdefault(old, value)
    graph.outputs = [env[v] for v in outputs]
    return bind_sizes(graph)
