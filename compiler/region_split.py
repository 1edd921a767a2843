"""The forward and backward graph of a region: made by passes and partition, or what the disk cache kept of them.

A call needs little of the graphs (``Face``): they themselves are text until someone reads them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fusegrad.native import meter

from . import stored
from .ir.bind import bind_sizes, bound_symbols
from .ir.control import is_control
from .ir.graph import Graph, Node, Value, map_values
from .options import Options
from .passes.rewrite import prune

__all__ = ["Face", "Shape", "Split", "gradient_graph", "gradient_graph_of_both", "inputs_read", "root_of", "split"]


class Shape(NamedTuple):
    """How the joint graph is to be split.

    Inputs: values the caller passes, then ``cotangents``. Outputs: ``results``, new contents of ``writes`` inputs,
    gradients. ``nodes``: how many belong to the forward as it was captured. ``backward``: whether there is one.
    ``kept_inputs``, ``kept_results``: numbers of those that eager code keeps inside of control flow.
    """

    results: int
    writes: int
    cotangents: int
    nodes: int
    backward: bool
    kept_inputs: tuple[int, ...] = ()
    kept_results: tuple[int, ...] = ()


class Face(NamedTuple):
    """What the caller of a graph has to know.

    ``weak``: which inputs are numbers; ``bound``: symbol -> (input, dimension) it is read from.
    """

    weak: list[bool]
    bound: dict[str, tuple[int, int]]
    size_params: list[str]
    draws: int
    random: bool
    outputs: int


def _face(graph: Graph) -> Face:
    weak = [v.meta.weak for v in graph.inputs]
    return Face(weak, bound_symbols(graph), list(graph.size_params), graph.draws, graph.random, len(graph.outputs))


class Split:
    """``saved``: where the backward's inputs come from (see ``partition.Parts``); ``reads``: inputs of the region that
    a differentiable backward reads; ``recomputed``: those from which the backward computes values of the forward again.
    ``forward_face``, ``backward_face``: of the two graphs.
    """

    def __init__(
        self,
        graphs: tuple[Graph | str, Graph | str | None],
        faces: tuple[Face, Face | None],
        saved: list[tuple[str, int]],
        reads: list[int],
        recomputed: list[int],
        sizes: Any,
    ) -> None:
        self._graphs, self._sizes = list(graphs), sizes
        self.forward_face, self.backward_face = faces
        self.saved, self.reads, self.recomputed = saved, reads, recomputed

    def _graph(self, k: int) -> Any:
        graph = self._graphs[k]
        if isinstance(graph, str):
            from .ir.text import parse

            graph = self._graphs[k] = parse(graph, sizes=self._sizes)
        return graph

    @property
    def forward(self) -> Graph:
        return self._graph(0)

    @property
    def backward(self) -> Graph | None:
        return self._graph(1)

    def to_plain(self, guards: list[Any]) -> dict[str, Any]:
        """As JSON's values, with the conditions on sizes that the passes found."""
        texts = [g.text(locs=False) if isinstance(g, Graph) else g for g in self._graphs]
        return {
            "graphs": texts,
            "faces": [self.forward_face, self.backward_face],
            "saved": self.saved,
            "reads": self.reads,
            "recomputed": self.recomputed,
            "guards": [[g.rel, str(g.lhs), str(g.rhs)] for g in guards],
        }


def _from_plain(data: dict[str, Any], sizes: Any) -> Split:
    faces = [_face_from_plain(f) for f in data["faces"]]
    if data["guards"]:
        from fusegrad.sizes_text import parse_poly

        for rel, lhs, rhs in data["guards"]:  # they hold for the sizes of this capture, which are part of the key
            if not sizes.decide(rel, parse_poly(lhs, sizes.symbols), parse_poly(rhs, sizes.symbols)):
                raise ValueError("a condition that does not hold")
    saved = [(kind, int(i)) for kind, i in data["saved"]]
    forward, backward = data["graphs"]
    if not isinstance(forward, str) or not isinstance(backward, (str, type(None))):
        raise ValueError("graphs are texts")
    reads, recomputed = ([int(i) for i in data[name]] for name in ("reads", "recomputed"))
    return Split((forward, backward), (faces[0], faces[1]), saved, reads, recomputed, sizes)


def _face_from_plain(data: Any) -> Any:
    if data is None:
        return None
    weak, bound, *rest = data
    return Face(weak, {s: (i, d) for s, (i, d) in bound.items()}, *rest)


def split(joint: Graph, shape: Shape, options: Options) -> tuple[Split, str]:
    """The parts of ``joint``, and the key of the region in the disk cache ("": not kept)."""
    key = _key(joint, shape, options)
    sizes = joint.sizes
    if key:
        found = stored.get(f"region {key}", lambda data: _from_plain(data, sizes))
        if found is not None:
            meter.HITS["regions"] += 1
            return found, key
    known = 0 if sizes is None else len(sizes.guards)
    made = _make(joint, shape, options)
    if key:
        stored.put(f"region {key}", lambda: made.to_plain([] if sizes is None else sizes.guards[known:]))
    return made, key


def _key(joint: Graph, shape: Shape, options: Options) -> str:
    """Hash of all that the parts depend on; "" if they are not to be kept (on disk they lose the user's lines)."""
    if not options.cache or options.check or options.interpret or options.codegen != "llvm":
        return ""
    if not all(node.op.module.startswith("fusegrad.") for node in joint.nodes):
        return ""  # operators of the user's: their names do not say what they do
    try:
        text = joint.text(locs=False)
    except TypeError:  # attributes that have no text
        return ""
    sizes = joint.sizes
    facts: tuple = ()
    if sizes is not None:
        symbols = sorted(tuple(s) for s in sizes.symbols.values())
        facts = (sizes.mode, symbols, [g.text for g in sizes.guards], sorted(sizes.raised.items()))
    return stored.digest(text, tuple(shape), facts, options.key())


def _make(joint: Graph, shape: Shape, options: Options) -> Split:
    """Passes, then the partition into forward and backward (when there is a backward)."""
    from .passes.partition import partition
    from .passes.pipeline import AFTER, BEFORE, run_passes

    check, sizes = options.check, joint.sizes
    whole = run_passes(joint, BEFORE, check)
    if not shape.backward:
        forward = run_passes(prune(whole), AFTER, check)
        return Split((forward, None), (_face(forward), None), [], [], [], sizes)
    primals = len(joint.inputs) - shape.cotangents
    reads = sorted(inputs_read(gradient_graph(joint, shape), primals))
    keep_inputs, keep_outputs = read_by_backward(joint, shape.nodes, primals, shape.results)
    keep_inputs |= set(shape.kept_inputs)
    keep_outputs |= set(shape.kept_results)
    count = shape.results + shape.writes
    parts = partition(whole, count, shape.cotangents, keep_inputs, keep_outputs, options.recompute)
    forward, backward = (run_passes(g, AFTER, check) for g in (parts.forward, parts.backward))
    faces = (_face(forward), _face(backward))
    return Split((forward, backward), faces, parts.saved, reads, parts.recomputed, sizes)


def gradient_graph(joint: Graph, shape: Shape) -> Graph:
    """Inputs and cotangents -> gradients, before any pass."""
    graph, _ = joint.copy()
    graph.outputs = graph.outputs[shape.results + shape.writes :]
    graph.mutations = []
    graph.name = joint.name + "_gradient"
    return bind_sizes(prune(graph))


def gradient_graph_of_both(joint: Graph, shape: Shape, views: bool) -> Graph:
    """Inputs as the forward reads them, inputs (``views``: and views of them) as the backward does, cotangents ->
    gradients."""
    graph, _ = joint.copy()
    primals = len(graph.inputs) - shape.cotangents
    again = {v: Value(v.meta, None, 0, f"{v.name}_now" if v.name else "") for v in graph.inputs[:primals]}
    graph.inputs[primals:primals] = again.values()
    for k, v in enumerate(graph.inputs):
        v.index = k
    now = lambda v: again.get(v, v)
    seen = []
    for node in graph.nodes[: shape.nodes] if views else ():
        if node.op.kind == "view" and node.args[0] in again:
            seen.append(Node(node.op, map_values(node.args, now), node.attrs, tuple(v.meta for v in node.outputs)))
            again.update(zip(node.outputs, seen[-1].outputs, strict=True))
    for node in graph.nodes[shape.nodes :]:
        node.args = map_values(node.args, now)
    graph.outputs = [map_values(out, now) for out in graph.outputs[shape.results + shape.writes :]]
    graph.nodes[shape.nodes : shape.nodes] = seen
    graph.mutations = []
    graph.name = joint.name + "_gradient"
    return bind_sizes(prune(graph))


def recomputed_from(joint: Graph, shape: Shape) -> tuple[int, ...]:
    """Numbers of the inputs that those values of the forward depend on which the gradients read."""
    forward = joint.nodes[: shape.nodes]
    needed = {v for node in joint.nodes[shape.nodes :] for v in node.inputs()}
    needed |= set(joint.outputs[shape.results + shape.writes :])
    for node in reversed(forward):
        if not needed.isdisjoint(node.outputs):
            needed.update(node.inputs())
    used = {v for node in forward if not needed.isdisjoint(node.outputs) for v in node.inputs()}
    return tuple(i for i, v in enumerate(joint.inputs[: len(joint.inputs) - shape.cotangents]) if v in used)


def inputs_read(graph: Graph, primals: int) -> set[int]:
    """Numbers of the first ``primals`` inputs that nodes or outputs read."""
    read = {v for node in graph.nodes for v in node.inputs()} | set(graph.results())
    return {i for i, v in enumerate(graph.inputs[:primals]) if v in read}


def root_of(value: Value) -> Value:
    """The value whose memory a chain of views looks at."""
    while value.node is not None and value.node.op.kind == "view":
        value = value.node.args[0]
    return value


def read_by_backward(joint: Graph, forward_nodes: int, primals: int, outputs: int) -> tuple[set[int], set[int]]:
    """Inputs and outputs that the eager tape would have saved.

    Those are the ones read by backward nodes, directly or through views; but not by those of control flow, which
    compute a forward again and so read more than eager keeps.
    """
    nodes = [node for node in joint.nodes[forward_nodes:] if not is_control(node.op)]
    read = {root_of(v) for node in nodes for v in node.inputs()}
    inputs = {i for i, v in enumerate(joint.inputs[:primals]) if v in read}
    return inputs, {j for j, v in enumerate(joint.outputs[:outputs]) if isinstance(v, Value) and root_of(v) in read}
