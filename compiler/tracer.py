"""The plain tracer: run a function once on graph tensors.

No guards and no breaks: what the function reads besides its tensors is taken as constant, and a branch on a tensor's
value raises the engine's ``DataDependentError``.  ``fusegrad.export`` uses it, and tests of everything below capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegrad import pytree
from fusegrad.handler import active
from fusegrad.meta import Meta
from fusegrad.tensor import Tensor

from .ir.builder import GraphBuilder

__all__ = ["Trace", "trace", "trace_region"]


@dataclass
class Trace:
    """A traced call.

    ``inputs``: graph tensors of the example's tensors in flat order; ``outputs``: what the function returned.
    """

    builder: GraphBuilder
    inputs: list[Tensor]
    outputs: Any
    real: list[Tensor] = field(default_factory=list)


def trace(
    f: Callable[..., Any],
    args: tuple = (),
    kwargs: dict[str, Any] | None = None,
    *,
    sizes: Any = None,
    metas: Sequence[Meta] | None = None,
    name: str | None = None,
) -> Trace:
    """Run ``f(*args, **kwargs)`` once with every Tensor in the (nested) arguments replaced by a graph tensor.

    Args:
        sizes: the SizeContext of symbolic sizes, if any.
        metas: a Meta for each tensor (flat order) to use instead of the example's own, e.g. with symbolic sizes.
        name: the graph's name; default the function's.

    Real tensors that ``f`` uses besides its arguments (parameters) are lifted: see ``builder.constants``.
    """
    leaves, spec = pytree.tree_flatten((tuple(args), kwargs or {}))
    builder = GraphBuilder(name or getattr(f, "__name__", "graph"), sizes)  # type: ignore[arg-type]
    inputs: list[Tensor] = []
    real: list[Tensor] = []
    seen: dict[int, Tensor] = {}
    flat: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if id(leaf) not in seen:
                meta = metas[len(inputs)] if metas is not None else leaf.meta_()
                made = builder.new_input(meta, leaf.requires_grad, leaf=leaf.grad_fn is None)
                seen[id(leaf)] = made
                builder.adopt(leaf, made)
                inputs.append(made)
                real.append(leaf)
            leaf = seen[id(leaf)]
        flat.append(leaf)
    graph_args, graph_kwargs = pytree.tree_unflatten(flat, spec)
    with active(builder):
        outputs = f(*graph_args, **graph_kwargs)
    return Trace(builder, inputs, outputs, real)


def trace_region(
    f: Callable[..., Any], *args: Any, options: Any = None, sizes: Any = None, metas: Any = None
) -> Callable[..., Any]:
    """A Region of ``f`` for arguments like ``args``, as a function of tensors that returns what ``f`` returns.

    For tests and bring-up.
    """
    from .region import build_region

    traced = trace(f, args, sizes=sizes, metas=metas)
    leaves, spec = pytree.tree_flatten(traced.outputs)
    tensors = [t for t in leaves if isinstance(t, Tensor)]
    graph_tensors = [traced.builder.lift(t) for t in tensors]
    region = build_region(traced.builder, traced.inputs, graph_tensors, name=traced.builder.graph.name, options=options)

    def call(*new: Any) -> Any:
        given = [t for t in pytree.tree_flatten((tuple(new), {}))[0] if isinstance(t, Tensor)]
        results = iter(region(*given))
        return pytree.tree_unflatten([next(results) if isinstance(t, Tensor) else t for t in leaves], spec)

    call.region = region  # type: ignore[attr-defined]
    return call
