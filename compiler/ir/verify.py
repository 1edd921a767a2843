"""The checker of graphs: structure, and every type re-derived from the operators' meta rules."""

from __future__ import annotations

from typing import Any

from fusegrad.meta import Meta
from fusegrad.sizes import SymInt, poly_of, same

from .graph import MAX_DEPTH, Graph, Node, Value, flat_values
from .infer import infer

__all__ = ["GraphError", "verify"]


class GraphError(ValueError):
    """A graph is malformed or a node's type is not what its operator's rule gives.

    The message names the pass (if known), the node with its neighbours, the rule's answer and the user's line.
    """


def _show(graph: Graph, at: int) -> str:
    from .text import print_node

    names = graph.number()
    lines = []
    for i in range(max(0, at - 2), min(len(graph.nodes), at + 3)):
        try:
            text = print_node(graph.nodes[i], _Names(names))  # type: ignore[arg-type]
        except Exception as error:  # a malformed node must not hide the message about it
            text = f"{graph.nodes[i].op.name}(...): cannot be printed: {error}"
        lines.append(f"  {'->' if i == at else '  '} {text}")
    return "\n".join(lines)


class _Names(dict):
    def __missing__(self, key: Value) -> str:
        return f"<{key.name or 'value of another graph'}>"


def _fail(graph: Graph, at: int, message: str, after: str) -> None:
    where = f" after pass '{after}'" if after else ""
    place = f"\n{_show(graph, at)}" if 0 <= at < len(graph.nodes) else ""
    loc = graph.nodes[at].loc if 0 <= at < len(graph.nodes) else None
    line = f"\n  from {loc[0]}:{loc[1]}" if loc else ""
    raise GraphError(f"graph {graph.name}{where}: {message}{place}{line}")


def equal_size(a: Any, b: Any) -> bool:
    """Whether two sizes are equal by what is known; never records a guard."""
    if same(a, b):
        return True
    ctx = next((s.ctx for s in (a, b) if isinstance(s, SymInt)), None)
    return ctx is not None and ctx.known_zero(poly_of(a) - poly_of(b)) is True


def equal_meta(a: Meta, b: Meta) -> bool:
    """Same dtype, weakness and shape (strides are a property of the eager result and do not bind compiled code)."""
    return (
        a.dtype is b.dtype
        and a.weak == b.weak
        and len(a.shape) == len(b.shape)
        and all(equal_size(x, y) for x, y in zip(a.shape, b.shape, strict=True))
    )


def verify(graph: Graph, after: str = "", depth: int = 0) -> None:
    """Check a graph and those inside of it. ``after`` names the pass that produced it. Raises ``GraphError``."""
    if depth > MAX_DEPTH:
        _fail(graph, -1, f"graphs nested deeper than {MAX_DEPTH}", after)
    defined: set[Value] = set()
    for i, value in enumerate(graph.inputs):
        if value.node is not None or value.index != i:
            _fail(graph, -1, f"input {i} ({value.name}) is not an input value with its own number", after)
        defined.add(value)
    if len({v.name for v in graph.inputs}) != len(graph.inputs):
        _fail(graph, -1, "two inputs have the same name", after)
    for at, node in enumerate(graph.nodes):
        for inner in node.attrs.values():
            if isinstance(inner, Graph):
                verify(inner, after, depth + 1)
        _node(graph, at, node, defined, after)
        defined.update(node.outputs)
    for value in graph.results():
        if value not in defined:
            _fail(graph, len(graph.nodes) - 1, f"result {value!r} is not defined in this graph", after)
    _edges(graph, after)


def _node(graph: Graph, at: int, node: Node, defined: set[Value], after: str) -> None:
    for value in flat_values(node.args):
        if value not in defined:
            _fail(graph, at, f"{node.op.name} reads a value that is not defined before it", after)
    if any(v.node is not node or v.index != i for i, v in enumerate(node.outputs)):
        _fail(graph, at, f"{node.op.name}: its outputs do not point back to it", after)
    sig = node.op.sig
    if len(node.args) != len(sig.tensors):
        _fail(
            graph, at, f"{node.op.name} takes {len(sig.tensors)} tensor arguments, the node has {len(node.args)}", after
        )
    known = {p.name for p in sig.attrs} | {"seed", "draw"}
    unknown = [k for k in node.attrs if k not in known]
    if unknown:
        _fail(graph, at, f"{node.op.name} has no attribute {unknown[0]!r}", after)
    if "draw" in node.attrs and not 0 <= node.attrs["draw"] < max(graph.draws, 1 << 62):
        _fail(graph, at, f"{node.op.name}: bad draw number {node.attrs['draw']!r}", after)
    try:
        metas = infer(node.op, node.args, node.attrs)
    except Exception as error:
        _fail(graph, at, f"{node.op.name}: its meta rule raises {type(error).__name__}: {error}", after)
    if len(metas) != len(node.outputs):
        _fail(
            graph, at, f"{node.op.name} has {len(metas)} outputs by its rule, the node has {len(node.outputs)}", after
        )
    for value, meta in zip(node.outputs, metas, strict=True):
        if not equal_meta(value.meta, meta):
            _fail(graph, at, f"{node.op.name}: output {value.index} is {value.meta}, its rule says {meta}", after)


def _edges(graph: Graph, after: str) -> None:
    for dst, new in graph.mutations:
        if dst.node is not None or dst not in graph.inputs:
            _fail(graph, -1, "only an input can be mutated", after)
        if not isinstance(new, Value) or not equal_meta(
            Meta(dst.meta.shape, dst.meta.dtype), Meta(new.meta.shape, new.meta.dtype)
        ):
            _fail(graph, -1, f"input {dst.name}: {dst.meta} is overwritten by {getattr(new, 'meta', new)}", after)
    if len({dst for dst, _ in graph.mutations}) != len(graph.mutations):
        _fail(graph, -1, "an input is mutated twice", after)
