"""Writing through views: the new contents of a storage when one of its views is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.autograd.fitting import is_one
from fusegrad.op import TABLE
from fusegrad.sizes import hint_of

from . import ops
from .graph import Value

__all__ = ["axis_order", "laid_out", "update"]

Emit = Callable[[Any, tuple, dict], list[Value]]


def update(emit: Emit, base: Value, chain: tuple, new: Value) -> Value:
    """The storage ``base`` after the view that ``chain`` leads to was overwritten with ``new``.

    ``chain`` is a tuple of (view operator, attributes, output number). Views that only rearrange are undone by their
    inverse, ``select``, ``slice`` and ``diagonal`` by their ``_scatter`` operator; the others become ``view_update``: a
    copy with a part replaced.
    """
    parents = [base]
    for op, attrs, out in chain[:-1]:
        parents.append(emit(op, (parents[-1],), attrs)[out])
    for (op, attrs, out), parent in zip(reversed(chain), reversed(parents), strict=True):
        new = _undo(emit, op, attrs, out, parent, new)
    return laid_out(emit, new, base)


def laid_out(emit: Emit, new: Value, base: Value) -> Value:
    """``new`` with the order of axes of the storage it replaces (without its gaps), so that views of the storage can be
    taken of it too, and what is computed from it is laid out as in eager code.
    """
    order = steps_order(base.meta)
    if order == tuple(range(len(order))):
        return new if new.meta.strides is None else emit(TABLE["clone"], (new,), {"memory_format": "contiguous"})[0]
    if axis_order(new.meta) == order:
        return new
    turned = emit(TABLE["permute"], (new,), {"dims": order})[0]
    dense = emit(TABLE["clone"], (turned,), {"memory_format": "contiguous"})[0]
    inverse = tuple(sorted(range(len(order)), key=order.__getitem__))
    return emit(TABLE["permute"], (dense,), {"dims": inverse})[0]


def steps_order(meta: Any) -> tuple[int, ...]:
    """The axes from the one with the largest step to the one with the smallest; gaps between elements don't matter."""
    steps = meta.strides
    if steps is None or any(type(n) is int and n == 0 for n in meta.shape):
        return tuple(range(len(meta.shape)))
    return tuple(sorted(range(len(steps)), key=lambda d: (-abs(hint_of(steps[d])), d)))


def axis_order(meta: Any) -> tuple[int, ...] | None:
    """The axes from slowest to fastest of a result that eager lays out densely but not in C order; else None.

    Symbolic steps are compared as expressions: no condition on sizes may come up here.
    """
    strides, order = meta.strides, steps_order(meta)
    if strides is None or any(type(n) is int and n == 0 for n in meta.shape):
        return None
    step: Any = 1
    for d in reversed(order):
        if getattr(strides[d], "expr", strides[d]) != getattr(step, "expr", step):
            return None
        step = meta.shape[d] * step
    return order if order != tuple(range(len(order))) else None


def _undo(emit: Emit, op: Any, attrs: dict[str, Any], out: int, parent: Value, new: Value) -> Value:
    name = op.name
    if name == "transpose":
        return emit(op, (new,), attrs)[0]
    if name == "permute":
        dims = attrs["dims"]
        inverse = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        return emit(op, (new,), {"dims": inverse})[0]
    if name in ("view", "unsqueeze", "squeeze_dims"):
        if new.meta.strides is not None:
            new = emit(TABLE["clone"], (new,), {"memory_format": "contiguous"})[0]
        return emit(TABLE["view"], (new,), {"size": tuple(parent.meta.shape)})[0]
    if name == "expand":  # only one value can be written to all elements
        for _ in range(len(new.meta.shape) - len(parent.meta.shape)):
            new = emit(TABLE["select"], (new,), {"dim": 0, "index": 0})[0]
        return emit(TABLE["clone"], (_first_of(emit, new, parent),), {"memory_format": "contiguous"})[0]
    if name in ("select", "slice", "diagonal") and f"{name}_scatter" in TABLE:
        target = TABLE[f"{name}_scatter"]
        renamed = {"end": attrs.get("stop"), **attrs}
        return emit(target, (parent, new), {p.name: renamed[p.name] for p in target.sig.attrs})[0]
    return emit(ops.view_update, (parent, new), {"view": name, "attrs": tuple(attrs.items()), "number": out})[0]


def _first_of(emit: Emit, new: Value, parent: Value) -> Value:
    """The first elements of ``new`` along the dimensions in which ``parent`` was expanded."""
    for d, n in enumerate(parent.meta.shape):
        if new.meta.shape[d] is not n and is_one(n):
            new = emit(TABLE["slice"], (new,), {"dim": d, "start": 0, "stop": 1, "step": 1})[0]
    return new
