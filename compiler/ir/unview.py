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

    ``chain`` is a tuple of (view operator, attributes, output number). Views that only rearrange are undone by their inverse; the others
    become ``view_update``: a copy of the larger tensor with a part replaced.
    """
    parents = [base]
    for op, attrs, out in chain[:-1]:
        parents.append(emit(op, (parents[-1],), attrs)[out])
    for (op, attrs, out), parent in zip(reversed(chain), reversed(parents), strict=True):
        new = _undo(emit, op, attrs, out, parent, new)
    return new


def _undo(emit: Emit, op: Any, attrs: dict[str, Any], out: int, parent: Value, new: Value) -> Value:
    name = op.name
    if name == "transpose":
        return emit(op, (new,), attrs)[0]
    if name == "permute":
        dims = attrs["dims"]
        inverse = tuple(sorted(range(len(dims)), key=dims.__getitem__))
        return emit(op, (new,), {"dims": inverse})[0]
    if name in ("view", "reshape", "squeeze", "unsqueeze", "flatten", "unflatten", "alias", "detach", "t") and "reshape" in TABLE:
        if name == "t":
            return emit(op, (new,), attrs)[0]
        return emit(TABLE["reshape"], (new,), {"shape": tuple(parent.meta.shape)})[0]
    return emit(ops.view_update, (parent, new), {"view": name, "attrs": tuple(attrs.items()), "out": out})[0]
