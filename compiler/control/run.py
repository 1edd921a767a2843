"""Control flow operators on Tensors: what the reference interpreter does, and programs that are replayed.

On real tensors a loop is a Python loop over the nested graph, with the tape if the grad mode is on; on graph tensors
the call is recorded into their graph again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad import control
from fusegrad.control.checks import recorder, shares
from fusegrad.control.scans import unbound
from fusegrad.dispatch import dispatch
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap

from ..ir.bind import bound_symbols
from ..ir.control import expand, is_control
from ..ir.graph import Graph, Node, Value
from ..kernel.calls import concrete
from .record import record

__all__ = ["RUN", "Inner"]


class Inner:
    """Runs nested graphs: ``sizes`` of the graph around (None: they stay symbolic), and how one operator is run."""

    def __init__(self, sizes: dict[str, Any] | None, apply: Any = None) -> None:
        self.sizes, self.apply = sizes, apply or _dispatched

    def __call__(self, graph: Graph, args: list) -> list[Any]:
        """The results of a nested graph for its inputs."""
        values: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
        sizes = self.sizes
        if sizes is not None:
            sizes = {**sizes, **{s: args[i].shape[d] for s, (i, d) in bound_symbols(graph).items()}}

        def get(a: Any) -> Any:
            if isinstance(a, Value):
                return values[a]
            if isinstance(a, (list, tuple)):
                return tuple(map(get, a))
            return a if sizes is None else concrete(a, sizes)

        for node in graph.nodes:
            inputs = tuple(map(get, node.args))
            attrs = dict(node.attrs) if sizes is None else {k: concrete(v, sizes) for k, v in node.attrs.items()}
            if is_control(node.op):
                out: Any = expand(node.op, inputs, sizes, attrs, self.apply)
            else:
                out = self.apply(node, inputs, attrs)
            values.update(zip(node.outputs, out if isinstance(out, (tuple, list)) else (out,), strict=True))
        return [values[v] for v in graph.outputs]


def _dispatched(node: Node, args: tuple, attrs: dict[str, Any]) -> Any:
    return dispatch(node.op, args, attrs)


def fresh(results: list, args: Any) -> list:
    """Results that share memory with arguments, or with results before them, are copied: a graph may say so (a gradient
    that goes to two operands), functions of users may not.
    """
    known = [a for a in args if isinstance(a, Tensor)]
    for t in results:
        known.append(t.clone() if any(shares(t, o) for o in known) else t)
    return known[len(known) - len(results) :]


def cond(pred: Any, operands: Any, inner: Inner, *, true: Graph, false: Graph) -> list:
    return control.cond(
        pred,
        lambda *xs: fresh(inner(true, list(xs)), xs),
        lambda *xs: fresh(inner(false, list(xs)), xs),
        tuple(operands),
    )


def while_loop(carried: Any, extra: Any, inner: Inner, *, test: Graph, body: Graph) -> list:
    extra = list(extra)
    return list(
        control.while_loop(
            lambda *xs: inner(test, [*xs, *extra])[0],
            lambda *xs: tuple(fresh(inner(body, [*xs, *extra]), [*xs, *extra])),
            tuple(carried),
        )
    )


def rounds(carried: Any, extra: list, inner: Inner, test: Graph, body: Graph) -> list[list]:
    """The carried values before every round, and at the end."""
    states = [[t.clone() for t in carried]]
    while bool(inner(test, [*states[-1], *extra])[0]):
        states.append(inner(body, [*states[-1], *extra]))
    return states


def while_vjp(carried: Any, extra: Any, grads: Any, inner: Inner, *, test: Graph, body: Graph, vjp: Graph) -> list:
    extra, count = list(extra), len(grads)
    if recorder([*carried, *grads]) is not None:
        raise NotImplementedError("the gradient of while_loop is not recorded again")
    states = rounds(carried, extra, inner, test, body)
    g, sums = list(grads), None
    for state in reversed(states[:-1]):
        out = inner(vjp, [*state, *extra, *g])
        g, more = out[:count], out[count:]
        sums = more if sums is None else [a + b for a, b in zip(sums, more, strict=True)]
    if sums is None:
        out = inner(vjp, [*states[0], *extra, *g])
        sums = [t * 0 for t in out[count:]]
    return [*fresh(g, grads), *sums]


def scan(init: Any, xs: Any, extra: Any, inner: Inner, *, body: Graph, reverse: bool = False) -> list:
    init, xs, extra, count = list(init), list(xs), list(extra), len(init)
    h = recorder([*init, *xs])
    if h is not None:

        def step(carry: list, x: list) -> tuple[list, list]:
            out = inner(body, [*carry, *x, *extra])
            return fresh(out[:count], [*carry, *x, *extra]), out[count:]

        carry, ys = record(h, "scan", step, init, xs, reverse)
        return [*carry, *ys]
    slices, _ = unbound(xs)
    steps = list(zip(*slices, strict=True))
    carry, rows = [t.clone() for t in init], []
    for x in reversed(steps) if reverse else steps:
        out = inner(body, [*carry, *x, *extra])
        carry = out[:count]
        rows.append(out[count:])
    if not rows:
        return [*carry, *(_empty(v.meta, inner.sizes) for v in body.outputs[count:])]
    rows = rows[::-1] if reverse else rows
    return [*carry, *(TABLE["stack"](list(col), 0) for col in zip(*rows, strict=True))]


def _empty(meta: Any, sizes: Any) -> Tensor:
    return wrap(np.empty((0, *(concrete(s, sizes or {}) for s in meta.shape)), meta.dtype.np))


RUN: dict[str, Any] = {"control." + f.__name__: f for f in (cond, while_loop, while_vjp, scan)}
