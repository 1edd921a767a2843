"""Writing through views: the new contents of a storage when one of its views is overwritten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.op import TABLE

from . import ops
from .graph import Value

__all__ = ["update"]

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
    """``new`` in C order if the storage it replaces is, so that views of the storage can be taken of it too."""
    if base.meta.strides is None and new.meta.strides is not None:
        return emit(TABLE["clone"], (new,), {"memory_format": "contiguous"})[0]
    return new


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
    if name in ("select", "slice", "diagonal") and f"{name}_scatter" in TABLE:
        target = TABLE[f"{name}_scatter"]
        renamed = {"end": attrs.get("stop"), **attrs}
        return emit(target, (parent, new), {p.name: renamed[p.name] for p in target.sig.attrs})[0]
    return emit(ops.view_update, (parent, new), {"view": name, "attrs": tuple(attrs.items()), "out": out})[0]
