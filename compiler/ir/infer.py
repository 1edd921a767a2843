"""The types of a node's results, from the operator's meta rule."""

from __future__ import annotations

from typing import Any

from fusegrad import dtypes
from fusegrad.dispatch import pointwise_meta
from fusegrad.meta import Meta
from fusegrad.sizes import SymInt

from .graph import Value

__all__ = ["infer", "meta_of"]


def meta_of(arg: Any) -> Any:
    """What a meta rule sees of an argument: a value's Meta; a number as a weak 0-d Meta; None; lists of these."""
    if isinstance(arg, Value):
        return arg.meta
    if isinstance(arg, Meta) or arg is None:
        return arg
    if isinstance(arg, (list, tuple)):
        return [meta_of(a) for a in arg]
    if isinstance(arg, SymInt):
        return Meta((), dtypes.int64, weak=True)
    return Meta((), dtypes.number_dtype(arg), weak=True)


def infer(op: Any, args: tuple, attrs: dict[str, Any]) -> tuple[Meta, ...]:
    """Metas of the results of ``op`` on values, Metas and numbers.

    Raises the operator's own error for bad shapes or types.
    """
    metas = [meta_of(a) for a in args]
    if op.meta is None and op.kind != "pointwise":
        raise NotImplementedError(f"operator {op.name} has no meta rule, so it cannot stand in a graph")
    result = (op.meta or pointwise_meta(op))(*metas, **attrs)
    found = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if op.kind == "pointwise" and metas and all(isinstance(m, Meta) and m.weak for m in metas):
        return tuple(Meta(m.shape, m.dtype, weak=True) for m in found)
    return found
