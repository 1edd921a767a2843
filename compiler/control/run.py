"""Control flow operators on Tensors: what the reference interpreter does, and programs that are replayed.

On real tensors a loop is a Python loop over the nested graph, with the tape if the grad mode is on; on graph tensors
the call is recorded into their graph again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad import control
from fusegrad.control.checks import recorder
from fusegrad.control.scans import unbound
from fusegrad.dispatch import dispatch
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap

from ..ir.bind import bound_symbols
from ..ir.control import expand, is_control
from ..ir.graph import Graph, Value
from ..kernel.calls import concrete
from .record import record

__all__ = ["call"]


def call(graph: Graph, args: list, sizes: dict[str, Any] | None) -> list[Any]:
    """The results of a nested graph for its inputs and the sizes around it (None: they stay symbolic)."""
    values: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
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
        out = expand(node.op, inputs, sizes, attrs) if is_control(node.op) else dispatch(node.op, inputs, attrs)
        values.update(zip(node.outputs, out if isinstance(out, (tuple, list)) else (out,), strict=True))
    return [values[v] for v in graph.outputs]


def fresh(results: list, args: Any) -> list:
    """Results that are arguments are copied."""
    known = {id(a) for a in args}
    return [t.clone() if id(t) in known else t for t in results]


def cond(pred: Any, operands: Any, sizes: Any, *, true: Graph, false: Graph) -> list:
    return control.cond(
        pred,
        lambda *xs: fresh(call(true, list(xs), sizes), xs),
        lambda *xs: fresh(call(false, list(xs), sizes), xs),
        tuple(operands),
    )


def while_loop(carried: Any, extra: Any, sizes: Any, *, test: Graph, body: Graph) -> list:
    extra = list(extra)
    return list(
        control.while_loop(
            lambda *xs: call(test, [*xs, *extra], sizes)[0],
            lambda *xs: tuple(fresh(call(body, [*xs, *extra], sizes), [*xs, *extra])),
            tuple(carried),
        )
    )


def rounds(carried: Any, extra: list, sizes: Any, test: Graph, body: Graph) -> list[list]:
    """The carried values before every round, and at the end."""
    states = [[t.clone() for t in carried]]
    while bool(call(test, [*states[-1], *extra], sizes)[0]):
        states.append(call(body, [*states[-1], *extra], sizes))
    return states


def while_vjp(carried: Any, extra: Any, grads: Any, sizes: Any, *, test: Graph, body: Graph, vjp: Graph) -> list:
    extra, count = list(extra), len(grads)
    if recorder([*carried, *grads]) is not None:
        raise NotImplementedError("the gradient of while_loop is not recorded again")
    states = rounds(carried, extra, sizes, test, body)
    g, sums = list(grads), None
    for state in reversed(states[:-1]):
        out = call(vjp, [*state, *extra, *g], sizes)
        g, more = out[:count], out[count:]
        sums = more if sums is None else [a + b for a, b in zip(sums, more, strict=True)]
    if sums is None:
        out = call(vjp, [*states[0], *extra, *g], sizes)
        sums = [t * 0 for t in out[count:]]
    return [*fresh(g, grads), *sums]


def scan(init: Any, xs: Any, extra: Any, sizes: Any, *, body: Graph, reverse: bool = False) -> list:
    init, xs, extra, count = list(init), list(xs), list(extra), len(init)
    h = recorder([*init, *xs])
    if h is not None:

        def step(carry: list, x: list) -> tuple[list, list]:
            out = call(body, [*carry, *x, *extra], sizes)
            return fresh(out[:count], [*carry, *x, *extra]), out[count:]

        carry, ys = record(h, "scan", step, init, xs, reverse)
        return [*carry, *ys]
    slices, _ = unbound(xs)
    steps = list(zip(*slices, strict=True))
    carry, rows = [t.clone() for t in init], []
    for x in reversed(steps) if reverse else steps:
        out = call(body, [*carry, *x, *extra], sizes)
        carry = out[:count]
        rows.append(out[count:])
    if not rows:
        return [*carry, *(_empty(v.meta, sizes) for v in body.outputs[count:])]
    rows = rows[::-1] if reverse else rows
    return [*carry, *(TABLE["stack"](list(col), 0) for col in zip(*rows, strict=True))]


def _empty(meta: Any, sizes: Any) -> Tensor:
    return wrap(np.empty((0, *(concrete(s, sizes or {}) for s in meta.shape)), meta.dtype.np))


RUN: dict[str, Any] = {"control." + f.__name__: f for f in (cond, while_loop, while_vjp, scan)}
