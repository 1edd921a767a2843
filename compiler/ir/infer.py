"""The types of a node's results, from the operator's meta rule."""

from __future__ import annotations

from typing import Any

from fusegrad import dtypes
from fusegrad.meta import Meta, broadcast_shapes
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


def _promoted(op: Any, metas: list[Meta]) -> dtypes.dtype:
    strong = [(m.dtype, bool(m.shape)) for m in metas if not m.weak]
    dtype = dtypes.result_type_of(strong, [m.dtype for m in metas if m.weak])
    if op.promote == "compare":
        return dtypes.bool_
    if op.promote == "float" and not dtype.is_floating_point:
        return dtypes.get_default_dtype()
    return dtype


def pointwise_meta(op: Any, metas: list[Any]) -> Meta:
    """Broadcast shape and promoted dtype: the rule of pointwise operators that give none of their own."""
    flat: list[Meta] = []
    for m in metas:
        flat.extend(m if isinstance(m, list) else [] if m is None else [m])
    weak = all(m.weak for m in flat)
    return Meta(broadcast_shapes(*(m.shape for m in flat)), _promoted(op, flat), weak=weak)


def infer(op: Any, args: tuple, attrs: dict[str, Any]) -> tuple[Meta, ...]:
    """Metas of the results of ``op`` on values, Metas and numbers. Raises the operator's own error for bad shapes or types."""
    metas = [meta_of(a) for a in args]
    if op.meta is None:
        return (pointwise_meta(op, metas),)
    result = op.meta(*metas, **attrs)
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
