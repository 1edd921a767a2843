"""Replace composite operators by the operators they are made of.

An operator is replaced when its entry has ``decompose`` and none of ``scalar``, ``reduce`` or a view's index map, i.e.
when kernels could not be generated for it otherwise, unless the entry says ``whole``: captured only where its own
kernel is the faster one.  The decomposition is the entry's own Python code, run on graph
tensors; what it calls is decomposed as well.
"""

from __future__ import annotations

from typing import Any

from fusegrad.autograd.modes import no_grad
from fusegrad.dtypes import float16
from fusegrad.handler import active
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap_ref

from ..ir.builder import Cell, GraphBuilder, Place
from ..ir.graph import Graph, Value, map_values

__all__ = ["decompose", "splits"]


def splits(op: Any) -> bool:
    """Whether this pass replaces ``op``."""
    plain = op.scalar is None and op.reduce is None and op.kind != "view" and not op.fields.get("whole")
    return plain and op.decompose is not None


class _Decomposer(GraphBuilder):
    """A builder that never records a composite."""

    def dispatch(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        if not splits(op):
            return super().dispatch(op, args, attrs)
        return op.decompose(*args, **attrs)

    def tensor(self, value: Value) -> Tensor:
        """A graph tensor that holds ``value``."""
        return wrap_ref(Place(self, value.meta, Cell(value), (), value))


def decompose(graph: Graph) -> Graph:
    """The graph without composites that have a decomposition. The old graph stays as it is."""
    if not any(splits(node.op) for node in graph.nodes):
        return graph
    builder = _Decomposer(graph.name, graph.sizes)
    new = builder.graph
    env: dict[Value, Any] = {v: new.add_input(v.meta, v.name) for v in graph.inputs}
    new.draws = graph.draws
    with no_grad(), active(builder):
        for node in graph.nodes:
            builder.loc = node.loc
            args = map_values(node.args, env.__getitem__)
            if not splits(node.op):
                metas = tuple(v.meta for v in node.outputs)
                results: Any = new.append(node.op, args, node.attrs, metas, node.loc).outputs
            else:
                out = _made_of(node, map_values(args, builder.tensor))
                made = [builder.value_of(t) for t in (out if isinstance(out, (tuple, list)) else (out,))]
                results = [_laid_out(builder, old, v) for old, v in zip(node.outputs, made, strict=True)]
            env.update(zip(node.outputs, results, strict=True))
    with no_grad(), active(builder):
        new.outputs = [_laid_out(builder, out, map_values(out, env.__getitem__)) for out in graph.outputs]
    new.mutations = [(env[dst], map_values(src, env.__getitem__)) for dst, src in graph.mutations]
    new.draws = graph.draws
    new.size_params = list(graph.size_params)
    return new


def _made_of(node: Any, args: Any) -> Any:
    """What the operators of a decomposition give.

    Of float16 they compute in float32, and the results alone are rounded, as the eager kernels do: the squares of
    numbers above 256 would be infinite, and norms and variances with them.
    """
    if node.op.kind not in ("composite", "reduce") or not any(v.meta.dtype is float16 for v in node.inputs()):
        return node.op.decompose(*args, **node.attrs)
    out = node.op.decompose(*(_wide(a) for a in args), **node.attrs)
    several = isinstance(out, (tuple, list))
    narrow = [
        t.half() if v.meta.dtype is float16 else t
        for t, v in zip(out if several else (out,), node.outputs, strict=True)
    ]
    return narrow if several else narrow[0]


def _wide(a: Any) -> Any:
    return a.float() if isinstance(a, Tensor) and a.dtype is float16 else a


def _laid_out(builder: _Decomposer, old: Any, new: Any) -> Any:
    """An output in the layout that the composite promised: what it is made of may keep another order of axes."""
    if not isinstance(old, Value) or not isinstance(new, Value) or old.meta.strides is not None or not new.meta.strides:
        return new
    return builder.value_of(TABLE["clone"](builder.tensor(new), memory_format="contiguous"))
