"""cat and stack without a copy: every piece is written straight to its place in the joined array.

Before stages are made, ``cat(a, b)`` becomes ``join(piece(a), piece(b))``.  A piece is an elementwise stage like any
other (its argument is usually folded into it); ``join`` is no code at all: it only says that the joined array is
complete when all pieces are stored.
"""

from __future__ import annotations

import itertools
from typing import Any

from fusegrad.meta import Meta, contiguous_strides
from fusegrad.op import Op, parse_signature

from ..ir.graph import Graph, Node, Value, map_values

__all__ = ["expand_joins", "is_join", "is_turned", "places"]

MAX_PIECES = 32


def _cast(b: Any, x: Any, dtype: Any) -> Any:
    return b.cast(x, dtype)


PIECE = Op(parse_signature("piece(input: T, dtype: dtype)"), "pointwise", "none", kernel=None, scalar=_cast)  # type: ignore[arg-type]
_JOINED = parse_signature("join(pieces: T[], dim: int, stacked: bool, steps: ints = ())")
JOIN = Op(_JOINED, "gather", "none", kernel=None)  # type: ignore[arg-type]


def is_join(node: Node | None) -> bool:
    return node is not None and node.op is JOIN


def _pieces(node: Node) -> list[Value] | None:
    """The values that a cat or stack joins, if this file can handle it."""
    if node.op.name not in ("cat", "stack") or len(node.args) != 1 or is_turned(node):
        return None
    out = node.outputs[0].meta
    values = list(node.args[0])
    if not 1 < len(values) <= MAX_PIECES or not all(isinstance(v, Value) and not v.meta.weak for v in values):
        return None
    n = len(out.shape) - (node.op.name == "stack")
    values = [v for v in values if len(v.meta.shape) == n]  # cat skips empty vectors
    return values if values else None


def is_turned(node: Node) -> bool:
    """Whether a cat puts slices of one value together, nearly all of it one slice: what ``roll`` does.

    Its readers then look into that value themselves, under conditions that are free in most of a loop.
    """
    if node.op.name != "cat" or not 1 < len(node.args[0]) <= 3:
        return False
    sources = set()
    for v in node.args[0]:
        if not isinstance(v, Value) or v.node is None or v.node.op.name != "slice" or v.node.attrs["step"] != 1:
            return False
        sources.add(v.node.args[0])
    out, dim = node.outputs[0].meta, node.attrs["dim"]
    parts = [v.meta.shape[dim] for v in node.args[0]]
    if len(sources) > 1 or not all(type(n) is int for n in parts):
        return False
    return sources.pop().meta.dtype is out.dtype and 4 * max(parts) >= 3 * sum(parts)


def expand_joins(graph: Graph) -> Graph:
    """The graph with joins made of pieces; the same graph if there is nothing to join."""
    if not any(_pieces(node) for node in graph.nodes):
        return graph
    new = Graph(graph.name, graph.sizes)
    env: dict[Value, Value] = {v: new.add_input(v.meta, v.name) for v in graph.inputs}
    for node in graph.nodes:
        metas = tuple(v.meta for v in node.outputs)
        values = _pieces(node)
        if values is None:
            made = new.append(node.op, map_values(node.args, env.__getitem__), node.attrs, metas, node.loc)
        else:
            out = node.outputs[0].meta
            parts = [
                new.append(PIECE, (env[v],), {"dtype": out.dtype}, (Meta(v.meta.shape, out.dtype),), node.loc).outputs[
                    0
                ]
                for v in values
            ]
            stacked = node.op.name == "stack"
            dim = node.attrs["dim"] % len(out.shape)
            made = new.append(JOIN, (parts,), {"dim": dim, "stacked": stacked}, (Meta(out.shape, out.dtype),), node.loc)
        env.update(zip(node.outputs, made.outputs, strict=True))
    new.outputs = [map_values(out, env.__getitem__) for out in graph.outputs]
    new.mutations = [(env[dst], map_values(src, env.__getitem__)) for dst, src in graph.mutations]
    new.draws, new.size_params = graph.draws, list(graph.size_params)
    return new


def places(node: Node) -> dict[Value, tuple[Any, tuple]]:
    """For each piece of a join: its offset and strides inside the joined array, in elements.

    With ``steps``: pieces of the last dimensions taken in steps, one for each position, in row-major order.
    """
    dim, strides = node.attrs["dim"], contiguous_strides(node.outputs[0].meta.shape)
    steps = node.attrs.get("steps")
    if steps:
        k = len(strides) - len(steps)
        apart = (*strides[:k], *(s * n for s, n in zip(strides[k:], steps, strict=True)))
        positions = itertools.product(*(range(n) for n in steps))
        at = [sum(p * s for p, s in zip(position, strides[k:], strict=True)) for position in positions]
        return {piece: (offset, apart) for piece, offset in zip(node.args[0], at, strict=True)}
    found: dict[Value, tuple[Any, tuple]] = {}
    offset: Any = 0
    for piece in node.args[0]:
        if node.attrs["stacked"]:
            found[piece] = offset, (*strides[:dim], *strides[dim + 1 :])
            offset = offset + strides[dim]
        else:
            found[piece] = offset, strides
            offset = offset + strides[dim] * piece.meta.shape[dim]
    return found
