"""Split a joint graph into a forward and a backward graph by a minimum cut.

Every value known before the backward pass may be *saved* (written by the forward, read by the backward), *recomputed*
in the backward from other saved values, or not be needed.  With ``in(v) -> out(v)`` weighted by the cost of saving
``v``, ``source -> in(v)`` by the cost of recomputing it, and infinite edges along the data flow, a minimum cut between
the source and what the backward reads is the cheapest choice. Matrix products, convolutions and reductions have
infinite recompute cost: they are always behind the cut.  What the forward's own results don't need is not computed
twice by leaving it to the backward: that costs nothing.

Inputs and outputs of the forward exist anyway, so saving them by reference costs one read.  That is allowed only where
the eager tape would have saved them too (``keep_inputs`` / ``keep_outputs``): otherwise a later in-place change by the
user, legal in eager, would break the backward.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..ir.graph import Graph, Node, Value, map_values
from .maxflow import INFINITE, Network

__all__ = ["Parts", "partition"]

# nanoseconds, orders of magnitude on one core; only ratios matter
_READ, _WRITE, _CALL = 0.05, 0.1, 100.0  # a byte read, a byte written, one more buffer to allocate and pass on
_CHEAP, _COSTLY = 0.05, 0.6  # recomputing one element
_RANDOM = 0.1  # drawing one again: more than that in time, but eager keeps no mask either
_NORMAL = 2.0  # a logarithm, a root and a sine: saved, if eager saves it too
_COSTLY_OPS = frozenset(
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh sigmoid erf erfc pow gelu "
    "silu mish softplus logsigmoid selu elu celu logaddexp lgamma digamma erfinv "
    "erfcx ndtr ndtri log_ndtr i0 i0e i1 i1e".split()
)


@dataclass
class Parts:
    """The two graphs, and where the backward's inputs come from.

    ``saved[i]`` describes input i of ``backward``: ``("input", k)``: forward input k; ``("output", j)``: forward output
    j, by reference. Inputs after those are the cotangents.  ``forward.outputs[outputs:]`` are values that only the
    backward uses. ``recomputed``: forward inputs from which the backward computes values of the forward again.
    """

    forward: Graph
    backward: Graph
    outputs: int
    saved: list[tuple[str, int]] = field(default_factory=list)
    recomputed: list[int] = field(default_factory=list)


def hint(size: Any) -> int:
    """An int for a size: itself, or the value a symbolic size has in this capture."""
    return size if isinstance(size, int) else int(size.hint)


def numel(value: Value) -> int:
    """Number of elements, by hints."""
    count = 1
    for size in value.meta.shape:
        count *= hint(size)
    return count


def _recompute_cost(value: Value, forward: set[Value]) -> float:
    """``forward``: what the results of the forward depend on."""
    node = value.node
    assert node is not None
    kind = node.op.kind
    if kind == "view" or (kind in ("pointwise", "reduce") and value not in forward):
        return 0.0
    if kind == "create":
        return _CHEAP * numel(value)
    if kind == "pointwise":
        work = max([numel(value), *(numel(v) for v in node.inputs())])
        return (_COSTLY if node.op.name in _COSTLY_OPS else _CHEAP) * work
    if kind == "random":
        return (_NORMAL if node.op.name == "randn" else _RANDOM) * numel(value)
    return INFINITE


def _save_cost(value: Value, by_reference: bool) -> float:
    if value.meta.weak:
        return 1.0
    size = numel(value) * value.meta.dtype.itemsize
    return 20.0 + _READ * size if by_reference else _CALL + (_READ + _WRITE) * size


def _late(joint: Graph, cotangents: list[Value]) -> set[Value]:
    """Values that depend on a cotangent."""
    late = set(cotangents)
    for node in joint.nodes:
        if any(v in late for v in node.inputs()):
            late.update(node.outputs)
    return late


def _needed_late(joint: Graph, late: set[Value], results: list[Any]) -> list[Value]:
    """Early values that the backward reads directly, in order of definition."""
    needed = {v for v in results if isinstance(v, Value) and v not in late}
    for node in joint.nodes:
        if node.outputs[0] in late:
            needed.update(v for v in node.inputs() if v not in late)
    order = [*joint.inputs, *(v for node in joint.nodes for v in node.outputs)]
    return [v for v in order if v in needed]


def _needed_early(joint: Graph, outputs: list[Any]) -> set[Value]:
    """What the results and mutations of the forward depend on."""
    needed = {v for v in outputs if isinstance(v, Value)}
    needed.update(src for _, src in joint.mutations if isinstance(src, Value))
    for node in reversed(joint.nodes):
        if any(v in needed for v in node.outputs):
            needed.update(node.inputs())
    return needed


def _choose(
    joint: Graph, late: set[Value], needed: list[Value], forward: set[Value], reference: set[Value], recompute: bool
) -> list[Value]:
    """The values to save."""
    if not needed:
        return []
    early = [v for v in joint.inputs if v not in late]
    early += [v for node in joint.nodes for v in node.outputs if v not in late]
    if not recompute:
        return needed
    place = {v: 2 + 2 * i for i, v in enumerate(early)}
    network = Network(2 + 2 * len(early))
    for v, at in place.items():
        network.edge(at, at + 1, _save_cost(v, v in reference))
        network.edge(0, at, INFINITE if v.node is None else _recompute_cost(v, forward))
        if v.node is not None:
            for u in v.node.inputs():
                network.edge(place[u] + 1, at, INFINITE)
    for v in needed:
        network.edge(place[v] + 1, 1, INFINITE)
    side = network.min_cut(0, 1)
    chosen = [v for v, at in place.items() if at in side and at + 1 not in side]
    return chosen if _new_bytes(chosen, reference) <= _new_bytes(needed, reference) else needed


def _new_bytes(values: list[Value], reference: set[Value]) -> int:
    """Memory that only the saved values keep alive."""
    return sum(numel(v) * v.meta.dtype.itemsize for v in values if v not in reference)


def partition(
    joint: Graph,
    forward_outputs: int,
    cotangents: int,
    keep_inputs: set[int],
    keep_outputs: set[int],
    recompute: bool = True,
) -> Parts:
    """Split ``joint`` (inputs: primals then ``cotangents``; outputs: ``forward_outputs`` results then gradients).

    ``keep_inputs`` / ``keep_outputs``: positions that may be saved by reference. Gradients that are not values stay as
    they are (None).
    """
    count = len(joint.inputs) - cotangents
    primals, tangents = joint.inputs[:count], joint.inputs[count:]
    results = joint.outputs[forward_outputs:]
    late = _late(joint, tangents)
    needed = _needed_late(joint, late, results)
    overwritten = {dst for dst, _ in joint.mutations}
    reference = {v for i, v in enumerate(primals) if v.meta.weak or (i in keep_inputs and v not in overwritten)}
    position: dict[Value, int] = {}
    for j in keep_outputs:
        out = joint.outputs[j]
        if isinstance(out, Value) and out.node is not None:
            position.setdefault(out, j)
            reference.add(out)
    early = _needed_early(joint, joint.outputs[:forward_outputs])
    save = _choose(joint, late, needed, early, reference, recompute)
    forward, env = _forward(joint, count, forward_outputs, late)
    parts = Parts(forward, Graph(joint.name + "_backward", joint.sizes), forward_outputs)
    index = {v: i for i, v in enumerate(primals)}
    for v in save:
        if v in reference and v in index:
            parts.saved.append(("input", index[v]))
        elif v in reference:
            parts.saved.append(("output", position[v]))
        else:
            parts.saved.append(("output", len(forward.outputs)))
            forward.outputs.append(env[v])
    _trim(forward)
    again = _backward(parts.backward, joint, save, tangents, results)
    made = [node for node in again if node.op.kind != "view" and not early.isdisjoint(node.outputs)]
    read = {_root(v) for node in made for v in node.inputs()}
    parts.recomputed = [i for i, v in enumerate(primals) if v in read]
    return parts


def _root(value: Value) -> Value:
    while value.node is not None and value.node.op.kind == "view":
        value = value.node.args[0]
    return value


def _forward(joint: Graph, count: int, outputs: int, late: set[Value]) -> tuple[Graph, dict[Value, Value]]:
    """All early nodes; ``_trim`` drops the ones that turn out not to be needed."""
    graph = Graph(joint.name, joint.sizes)
    env: dict[Value, Value] = {v: graph.add_input(v.meta, v.name) for v in joint.inputs[:count]}
    for node in joint.nodes:
        if node.outputs[0] not in late:
            new = graph.append(
                node.op,
                map_values(node.args, env.__getitem__),
                node.attrs,
                tuple(v.meta for v in node.outputs),
                node.loc,
            )
            env.update(zip(node.outputs, new.outputs, strict=True))
    graph.outputs = [map_values(out, env.__getitem__) for out in joint.outputs[:outputs]]
    graph.mutations = [(env[dst], map_values(src, env.__getitem__)) for dst, src in joint.mutations]
    graph.draws = joint.draws
    return graph, env


def _trim(graph: Graph) -> None:
    from .rewrite import prune

    prune(graph)


def _backward(graph: Graph, joint: Graph, save: list[Value], tangents: list[Value], results: list[Any]) -> set[Node]:
    """Fill ``graph`` with what the gradients need, starting from the saved values and the cotangents: nodes of
    ``joint``, which are returned."""
    env: dict[Value, Value] = {}
    for i, v in enumerate(save):
        env[v] = graph.add_input(v.meta, v.name if v.node is None else f"saved{i}")
    for i, v in enumerate(tangents):
        env[v] = graph.add_input(v.meta, v.name or f"g{i}")
    live = {v for v in results if isinstance(v, Value) and v not in env}
    wanted: set[Node] = set()
    for node in reversed(joint.nodes):
        if any(v in live and v not in env for v in node.outputs):
            wanted.add(node)
            live.update(v for v in node.inputs() if v not in env)
    for node in joint.nodes:
        if node in wanted:
            new = graph.append(
                node.op,
                map_values(node.args, env.__getitem__),
                node.attrs,
                tuple(v.meta for v in node.outputs),
                node.loc,
            )
            for old, value in zip(node.outputs, new.outputs, strict=True):
                env.setdefault(old, value)
    graph.outputs = [map_values(v, env.__getitem__) for v in results]
    return wanted
