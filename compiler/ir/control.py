"""The operators that hold graphs: a choice, a loop, a scan, and the gradient of a loop.

A nested graph is an attribute: a ``Graph`` whose inputs are the operator's tensor arguments in order, which draws no
random numbers and mutates nothing, and whose free size symbols are those of the graph around it. It is never changed
once it stands in a node (copies of a graph share it).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.dtypes import bool_
from fusegrad.meta import Meta
from fusegrad.op import TABLE, Sample, op

from .graph import Graph, Value

__all__ = ["expand", "graph_reads", "is_control", "nested", "reads"]


def is_control(op: Any) -> bool:
    """Whether ``op`` holds graphs."""
    return op.name.startswith("control.")


def loops_by_data(node: Any) -> bool:
    """Whether a node is, or holds, the gradient of a ``while_loop``."""
    return node.op.name == "control.while_vjp" or any(
        loops_by_data(inner) for graph in nested(node) for inner in graph.nodes
    )


def nested(node: Any) -> list[Graph]:
    """The graphs that a node holds."""
    return [v for v in node.attrs.values() if isinstance(v, Graph)]


def reads(node: Any) -> list[set[Value]]:
    """For each result the arguments that it is computed from; a condition counts for a choice, not for a loop."""
    op, graphs = node.op.name, node.attrs
    parts = [list(a) if isinstance(a, (list, tuple)) else [a] for a in node.args]
    if op == "control.cond":
        both = [graph_reads(graphs[k]) for k in ("true", "false")]
        found = [{i + 1 for i in a | b} | {0} for a, b in zip(*both, strict=True)]
    elif op == "control.while_vjp":
        first = len(parts[0]) + len(parts[1])
        places = range(first, first + len(parts[2]))
        found = _rounds(graph_reads(graphs["vjp"]), list(places))
    else:
        found = _rounds(graph_reads(graphs["body"]), list(range(len(parts[0]))))
    flat = [a for part in parts for a in part]
    return [{flat[i] for i in places if isinstance(flat[i], Value)} for places in found]


def _rounds(one: list[set[int]], carried: list[int]) -> list[set[int]]:
    """What results depend on after any number of rounds; the first ones become the inputs at ``carried``."""
    result = {place: i for i, place in enumerate(carried)}
    found = [set(s) | ({carried[i]} if i < len(carried) else set()) for i, s in enumerate(one)]
    while True:
        grown = [s.union(*(found[result[p]] for p in s if p in result)) for s in found]
        if grown == found:
            return found
        found = grown


def graph_reads(graph: Graph) -> list[set[int]]:
    """For each output of a graph the numbers of the inputs that it is computed from."""
    seen: dict[Value, set[int]] = {v: {i} for i, v in enumerate(graph.inputs)}
    for node in graph.nodes:
        everything = list(node.inputs())
        rows = reads(node) if is_control(node.op) else [everything] * len(node.outputs)
        for v, row in zip(node.outputs, rows, strict=True):
            seen[v] = set().union(*(seen[x] for x in row))
    return [seen[v] for v in graph.outputs]


def expand(
    node_op: Any, args: Any, sizes: dict[str, int] | None, attrs: dict[str, Any], apply: Any = None
) -> list[Any]:
    """The operator's results on Tensors (see compiler/control/run.py); ``sizes`` None leaves sizes symbolic.

    ``apply(node, args, attrs)`` runs the operators of the nested graphs; None: the dispatcher does.
    """
    from ..control.run import RUN, Inner

    return RUN[node_op.name](*args, Inner(sizes, apply), **attrs)


def _kernel(name: str) -> Any:
    """The operator on arrays: by the reference interpreter."""

    def kernel(*args: Any, **attrs: Any) -> Any:
        from fusegrad.autograd.modes import no_grad
        from fusegrad.tensor import wrap

        def tensors(a: Any) -> Any:
            return [tensors(x) for x in a] if isinstance(a, (list, tuple)) else wrap(a) if hasattr(a, "dtype") else a

        with no_grad():
            out = expand(TABLE[name], map(tensors, args), {}, attrs)
        return tuple(t._data for t in out)

    return kernel


def plain(meta: Meta) -> Meta:
    """The type alone, laid out in C order."""
    return Meta(meta.shape, meta.dtype)


def _fits(what: str, graph: Graph, metas: list, outputs: int | None = None) -> list[Meta]:
    """The types of a nested graph's results, once its inputs were found to be those of the operator."""
    from .verify import equal_meta

    if not isinstance(graph, Graph):
        raise TypeError(f"{what} must be a graph, got {type(graph).__name__}")
    if len(graph.inputs) != len(metas):
        raise TypeError(f"{what} takes {len(graph.inputs)} inputs and gets {len(metas)}")
    for value, m in zip(graph.inputs, metas, strict=True):
        if m is None or not equal_meta(Meta(value.meta.shape, value.meta.dtype, None, value.meta.weak), m):
            raise TypeError(f"{what}: input {value.name} is {value.meta} and gets {m}")
    if graph.mutations or graph.draws or graph.random:
        raise TypeError(f"{what}: a nested graph changes no inputs and draws no random numbers")
    if outputs is not None and len(graph.outputs) != outputs:
        raise TypeError(f"{what}: {outputs} results expected, found {len(graph.outputs)}")
    for value in graph.outputs:
        if not isinstance(value, Value) or value.meta.weak:
            raise TypeError(f"{what}: every result must be a tensor")
    return [plain(v.meta) for v in graph.outputs]


def _same(what: str, found: list[Meta], want: list) -> None:
    from .verify import equal_meta

    if len(found) != len(want) or not all(equal_meta(a, plain(b)) for a, b in zip(found, want, strict=True)):
        raise TypeError(f"{what}: results {found} where {[plain(m) for m in want]} is expected")


def _single(what: str, metas: list[Meta]) -> None:
    if len(metas) != 1 or metas[0].shape != () or metas[0].dtype is not bool_:
        raise TypeError(f"{what} must give one 0-d bool, got {metas}")


def _graphs(**bodies: str) -> dict[str, Any]:
    """Nested graphs of one or two vectors for samples, from the lines of their nodes and results."""
    from .text import parse

    heads = {"vjp": "graph vjp(x: f64[3], w: f64[3], g: f64[3])"}
    return {k: parse(f"{heads.get(k, f'graph {k}(x: f64[3], w: f64[3])')}\n{b}") for k, b in bodies.items()}


def _vectors() -> tuple[np.ndarray, np.ndarray]:
    return np.array([0.5, -1.0, 2.0]), np.array([3.0, 2.0, 0.5])


_SMALL = "%0: f64[] = sum(x, dim=None, keepdim=False, dtype=None)\n%1: b1[] = lt(%0, 9)\nreturn %1"
_TIMES = "%0: f64[3] = mul(x, w)\nreturn %0"
_TIMES_VJP = "%0: f64[3] = mul(g, w)\n%1: f64[3] = mul(g, x)\nreturn %0, %1"
_FORM: dict[str, Any] = {"kind": "extern", "method": False, "function": False, "n_out": -1, "nondiff": True}


@op("control.cond(pred: T, operands: T[], *, true: any, false: any)", **_FORM)
class cond:
    """The results of the graph ``true`` on ``operands`` if ``pred`` (one element) is true, else those of ``false``."""

    kernel = _kernel("control.cond")

    def meta(pred: Meta, operands: list, *, true: Graph, false: Graph) -> tuple:
        if any(isinstance(s, int) and s != 1 for s in pred.shape):
            raise TypeError(f"cond: the predicate has the shape {pred.shape}")
        found = _fits("cond: true", true, operands)
        _same("cond: false", _fits("cond: false", false, operands, len(found)), found)
        return tuple(found)

    def samples() -> Iterator[Sample]:
        for flag in (True, False):
            yield Sample(np.array(flag), [*_vectors()], **_graphs(true=_TIMES, false="return x"))


@op("control.while_loop(carried: T[], extra: T[], *, test: any, body: any)", **_FORM)
class while_loop:
    """``carried = body(*carried, *extra)`` as long as ``test(*carried, *extra)`` is true; the last ``carried``."""

    kernel = _kernel("control.while_loop")

    def meta(carried: list, extra: list, *, test: Graph, body: Graph) -> tuple:
        _single("while_loop: test", _fits("while_loop: test", test, [*carried, *extra]))
        found = _fits("while_loop: body", body, [*carried, *extra], len(carried))
        _same("while_loop: body", found, carried)
        return tuple(found)

    def samples() -> Iterator[Sample]:
        x, w = _vectors()
        yield Sample([x], [w], **_graphs(test=_SMALL, body=_TIMES))


@op("control.while_vjp(carried: T[], extra: T[], grads: T[], *, test: any, body: any, vjp: any)", **_FORM)
class while_vjp:
    """The gradient of ``while_loop``: the loop is run again, all its carried values are kept, and
    ``g..., t... = vjp(*carried, *extra, *g)`` goes over them from the last to the first, starting from ``grads``.
    Results: the last ``g``, then the sums of the ``t`` (gradients of what the loop closes over).
    """

    kernel = _kernel("control.while_vjp")

    def meta(carried: list, extra: list, grads: list, *, test: Graph, body: Graph, vjp: Graph) -> tuple:
        while_loop.meta(carried, extra, test=test, body=body)  # type: ignore[attr-defined]
        found = _fits("while_vjp: vjp", vjp, [*carried, *extra, *grads])
        _same("while_vjp: vjp", found[: len(grads)], grads)
        return tuple(found)

    def samples() -> Iterator[Sample]:
        x, w = _vectors()
        for start in (x, x * 9):  # several rounds, and none
            yield Sample([start], [w], [np.ones(3)], **_graphs(test=_SMALL, body=_TIMES, vjp=_TIMES_VJP))


@op("control.scan(init: T[], xs: T[], extra: T[], *, body: any, reverse: bool = False)", **_FORM)
class scan:
    """``carry..., y... = body(*carry, *x, *extra)`` for the slices ``x`` of ``xs`` along their first dimension; the
    last carry, then the ``y``, stacked. ``reverse``: from the last slice to the first.
    """

    kernel = _kernel("control.scan")

    def meta(init: list, xs: list, extra: list, *, body: Graph, reverse: bool = False) -> tuple:
        from .verify import equal_size

        if not xs or any(not m.shape or m.weak for m in xs):
            raise TypeError("scan: xs must be tensors with a first dimension")
        n = xs[0].shape[0]
        if not all(equal_size(m.shape[0], n) for m in xs):
            raise TypeError("scan: xs differ in their first dimension")
        slices = [Meta(m.shape[1:], m.dtype) for m in xs]
        found = _fits("scan: body", body, [*init, *slices, *extra])
        _same("scan: body", found[: len(init)], init)
        return (*found[: len(init)], *(Meta((n, *m.shape), m.dtype) for m in found[len(init) :]))

    def samples() -> Iterator[Sample]:
        x, w = _vectors()
        body = "%0: f64[3] = mul(x, w)\n%1: f64[3] = add(x, w)\nreturn %0, %1"
        for reverse in (False, True):
            yield Sample([x], [np.stack([w, x, w + 1])], [], **_graphs(body=body), reverse=reverse)
