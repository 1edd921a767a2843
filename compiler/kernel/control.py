"""Control flow operators in compiled graphs: compiled subprograms, and the loop or choice around them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.graph import Graph, Node
from ..options import Options
from .calls import concrete

__all__ = ["control_call"]


class Subprogram:
    """A nested graph, compiled when it is first needed: ``run(arrays, sizes)`` -> its results."""

    def __init__(self, graph: Graph, options: Options) -> None:
        self.graph, self.options = graph, options
        self.run: Any = None
        self.sizes = tuple(graph.size_params)
        self.program: Any = None

    def ready(self) -> Callable[..., tuple]:
        """The function that runs it, on arrays and then sizes."""
        if self.run is None:
            self.program, self.run = _compiled(self.graph, self.options)
        return self.run

    def given(self, env: dict[str, int]) -> tuple[int, ...]:
        """The sizes that it takes from the program around it."""
        return tuple(env[s] for s in self.sizes)


def _compiled(graph: Graph, options: Options) -> tuple[Any, Callable[..., tuple]]:
    from ..ir.interp import run as interpret
    from .program import compile_graph

    try:
        program = compile_graph(graph, options)
        return program, program.run
    except Exception as error:
        if options.check:
            raise
        warnings.warn(
            f"fusegrad: no code could be generated for a nested graph ({type(error).__name__}: {error}); it runs "
            "uncompiled. This is a bug in fusegrad.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, lambda *args: interpret(graph, args)


def control_call(node: Node, options: Options) -> Callable[..., Any]:
    """``call(arrays, sizes, seed, draw)``: the results as fresh C-contiguous arrays (one array if there is one).

    ``arrays``: one entry for each ``Value`` among the node's arguments, in order.
    """
    programs = {k: Subprogram(v, options) for k, v in node.attrs.items() if isinstance(v, Graph)}
    step = _STEPS[node.op.name](node, programs)
    single = len(node.outputs) == 1

    def call(arrays: tuple, env: dict[str, int], seed: int = 0, draw: int = 0) -> Any:
        out = step(arrays, env)
        return out[0] if single else tuple(out)

    call.programs = programs  # type: ignore[attr-defined]
    return call


def _cond(node: Node, programs: dict[str, Subprogram]) -> Callable[..., Any]:
    yes, no = programs["true"], programs["false"]

    def step(arrays: tuple, env: dict[str, int]) -> Any:
        chosen = yes if arrays[0] else no
        return chosen.ready()(*arrays[1:], *chosen.given(env))

    return step


def _rounds(node: Node, programs: dict[str, Subprogram], keep: bool) -> Callable[..., Any]:
    """The loop; ``keep``: all carried values before each round and at the end, else those at the end alone."""
    test, body = programs["test"], programs["body"]
    count = len(node.args[0])
    more = len(node.args[1])

    def run(arrays: tuple, env: dict[str, int]) -> list[tuple]:
        extra = arrays[count : count + more]
        holds, again = test.ready(), body.ready()
        asked, sizes = (*extra, *test.given(env)), (*extra, *body.given(env))
        carried: tuple = tuple(np.array(a, order="C") for a in arrays[:count])
        states = [carried]
        while holds(*carried, *asked)[0]:
            carried = again(*carried, *sizes)
            if keep:
                states.append(carried)
            else:
                states[0] = carried
        return states

    return run


def _while(node: Node, programs: dict[str, Subprogram]) -> Callable[..., Any]:
    run = _rounds(node, programs, False)
    return lambda arrays, env: run(arrays, env)[0]


def _while_vjp(node: Node, programs: dict[str, Subprogram]) -> Callable[..., Any]:
    run, vjp = _rounds(node, programs, True), programs["vjp"]
    count, more = len(node.args[0]), len(node.args[1])
    given = len(node.args[2])
    shapes = [v.meta for v in node.outputs[given:]]

    def step(arrays: tuple, env: dict[str, int]) -> Any:
        extra, g = arrays[count : count + more], arrays[count + more :]
        states = run(arrays, env)
        back, sizes = vjp.ready(), vjp.given(env)
        sums: Any = None
        for carried in reversed(states[:-1]):
            out = back(*carried, *extra, *g, *sizes)
            g, parts = out[:given], out[given:]
            if sums is None:
                sums = [np.array(p) for p in parts]
            else:
                for total, p in zip(sums, parts, strict=True):
                    total += p
        if sums is None:
            g = tuple(np.array(a, order="C") for a in g)
            sums = [np.zeros(_shape(m, env), m.dtype.np) for m in shapes]
        return (*g, *sums)

    return step


def _scan(node: Node, programs: dict[str, Subprogram]) -> Callable[..., Any]:
    body = programs["body"]
    count, width = len(node.args[0]), len(node.args[1])
    last = count + width
    backward = bool(node.attrs.get("reverse"))
    metas = [v.meta for v in node.outputs[count:]]

    def step(arrays: tuple, env: dict[str, int]) -> Any:
        xs, rest = arrays[count:last], (*arrays[last:], *body.given(env))
        run = body.ready()
        n = len(xs[0])
        ys = [np.empty((n, *_shape(m, env)[1:]), m.dtype.np) for m in metas]
        carry: tuple = tuple(np.array(a, order="C") for a in arrays[:count])
        for i in range(n - 1, -1, -1) if backward else range(n):
            out = run(*carry, *[x[i, ...] for x in xs], *rest)
            carry = out[:count]
            for y, part in zip(ys, out[count:], strict=True):
                y[i] = part
        return (*carry, *ys)

    return step


def _shape(meta: Any, env: dict[str, int]) -> tuple[int, ...]:
    return tuple(concrete(s, env) for s in meta.shape)


_STEPS = {
    "control.cond": _cond,
    "control.while_loop": _while,
    "control.while_vjp": _while_vjp,
    "control.scan": _scan,
}
