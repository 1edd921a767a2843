"""The first operator of a graph that compiled code gets wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.tensor import Tensor, wrap

from ..ir.graph import Graph, Node, Value
from ..ir.interp import Run, size_env
from ..ir.interp import run as interpret
from ..options import Options
from ..passes.pipeline import AFTER, BEFORE, run_passes
from ..passes.rewrite import prune
from .compare import Difference, difference
from .noise import agree

__all__ = ["first_difference", "place"]

ONE_BY_ONE = 200  # operators compiled on their own at most


def place(node: Node) -> str:
    """The user's file and line of a node."""
    return f"{node.loc[0]}:{node.loc[1]}" if node.loc else "an unknown line"


def first_difference(graph: Graph, args: list[Any], options: Options) -> tuple[Node, Difference] | None:
    """The first node whose compiled result is not what its eager operator gives.

    First all nodes are compiled in one graph that returns every value; if that agrees everywhere, every value is
    compiled alone, with what leads to it fused as it would be.
    """
    values = [v for node in graph.nodes for v in node.outputs if not v.meta.weak]
    if not values:
        return None
    found = _check(graph, values, args, options)
    if found is not None:
        return found
    for v in values[:ONE_BY_ONE]:
        if v.node is not None and v.node.op.kind != "view":
            found = _check(graph, [v], args, options)
            if found is not None:
                return found
    return None


def _check(graph: Graph, values: list[Value], args: list[Any], options: Options) -> tuple[Node, Difference] | None:
    from ..region_program import compile_program

    part, env = graph.copy()
    nodes = dict(zip(part.nodes, graph.nodes, strict=True))
    part.outputs = [env[v] for v in values]
    part.mutations = []
    whole = list(graph.inputs)
    prune(part)
    given = size_env(graph, args)
    try:
        program = run_passes(run_passes(part, BEFORE), AFTER)
        rng = args[len(whole) + len(graph.size_params) :]
        call = [_own(a) for a in args[: len(whole)]]
        sizes = [given[s] for s in program.size_params]
        compiled = list(compile_program(program, options)(*call, *sizes, *(rng if program.random else ())))
        reference = [*args[: len(whole)], *(given[s] for s in part.size_params), *(rng if part.random else ())]
        with np.errstate(all="ignore"):
            eager = list(interpret(part, reference))
    except Exception:
        return None  # some values have no place in memory: they are looked at one by one
    if len(values) > 1:
        return _local(part, nodes, reference, compiled)
    ok = agree(part, reference, eager, compiled)[0]
    if ok.all():
        return None
    return nodes[part.outputs[0].node], difference(np.asarray(eager[0]), np.asarray(compiled[0]), ok)


def _local(graph: Graph, nodes: dict[Node, Node], args: list[Any], compiled: list[Any]) -> Any:
    """Every operator on its own: the eager operator on the *compiled* operands against the compiled result."""
    known: dict[Value, Any] = dict(zip(graph.outputs, compiled, strict=True))
    sizes = size_env(graph, args)
    rng = args[len(graph.inputs) + len(graph.size_params) :]
    for node in graph.nodes:
        if not all(v in known for v in node.outputs):
            continue
        single = _Single(graph, sizes, *(rng or (0, 0)))
        for v in {*node.inputs()}:
            if v.node is None:
                a = args[graph.inputs.index(v)]
                single.values[v] = wrap(a) if isinstance(a, np.ndarray) else a
            elif v in known:
                single.values[v] = wrap(np.asarray(known[v]))
        if any(v not in single.values for v in node.inputs()):
            continue
        try:
            with np.errstate(all="ignore"):
                single.node(node)
        except Exception:
            continue
        one, operands = _alone(graph, node, single)
        for v in node.outputs:
            e = single.values[v]
            e, c = np.asarray(e._data if isinstance(e, Tensor) else e), np.asarray(known[v])
            if e.shape != c.shape:
                return nodes[node], Difference(float("inf"), (), list(e.shape), list(c.shape), e.size, e.size)
            one.outputs = [one.nodes[0].outputs[node.outputs.index(v)]]
            ok = agree(one, [*operands, *(sizes[s] for s in one.size_params), *(rng if one.random else ())], [e], [c])[
                0
            ]
            if not ok.all():
                return nodes[node], difference(e, c, ok)
    return None


class _Single(Run):
    """Runs one node on given operands."""


def _alone(graph: Graph, node: Node, single: Run) -> tuple[Graph, list[Any]]:
    """A graph of this node alone, and its inputs."""
    from ..ir.bind import bind_sizes
    from ..ir.graph import map_values

    one = Graph(graph.name, graph.sizes)
    operands: list[Any] = []
    env: dict[Value, Value] = {}
    for v in node.inputs():
        if v not in env:
            env[v] = one.add_input(v.meta)
            given = single.values[v]
            operands.append(given._data if isinstance(given, Tensor) else given)
    new = one.append(
        node.op, map_values(node.args, env.__getitem__), dict(node.attrs), tuple(v.meta for v in node.outputs)
    )
    one.outputs = list(new.outputs)
    return bind_sizes(one), operands


def _own(a: Any) -> Any:
    return a.copy(order="K") if isinstance(a, np.ndarray) else a
