"""The dynamic graph as text."""

from __future__ import annotations

from typing import Any

from ..autograd.node import short_name
from .model import Builder, tensor_text


def render(b: Builder) -> str:
    """Leaves, operators in forward order with where their gradients go, outputs. Summarised as the drawing is."""
    lines = [f"dynamic graph: {b.summary()}"]
    shown = range(len(b.units))
    lines += _leaves(b)
    width = max((len(_head(b, u)) for u in shown), default=0)
    for u in shown:
        if len(b.units[u]) > 1:
            box = b.group_box(u)
            lines.append(f"{_head(b, u):{width}}  {'; '.join(row for _, row in box.rows)}")
            continue
        n = b.units[u][0]
        box = b.op_box(n, set())
        gradients = ", ".join(b.edge_text(e, nr) for e, nr in zip(n.edges, n.nrs, strict=False))
        rows = [row for style, row in box.rows[1:]]
        line = f"{_head(b, u):{width}}  {box.rows[0][1]}  -> {gradients or 'nothing'}"
        lines.append("; ".join([line, *rows]))
    for t in b.roots:
        if t.grad_fn is not None:
            where = f"#{b.number[t.grad_fn.seq]}"
            lines.append(f"output {b.names.get(id(t), '')}".rstrip() + f": {tensor_text(t)} from {where}")
    return "\n".join(lines + [f"note: {x}" for x in b.notes])


def _head(b: Builder, u: int) -> str:
    members: list[Any] = b.units[u]
    first = b.number[members[0].seq]
    if len(members) == 1:
        return f"#{first} {short_name(members[0])}"
    return f"#{first}..#{b.number[members[-1].seq]} {len(members)} operators"


def _leaves(b: Builder) -> list[str]:
    """A line per leaf; of many only the first."""
    lines = []
    for t in b.leaves[: b.limit]:
        grad = "grad None" if t.grad is None else f"grad {tensor_text(t.grad)}"
        grad = grad if t.requires_grad else "no graph was recorded"
        lines.append(f"leaf {b.leaf_name(t).removeprefix('leaf ')}: {tensor_text(t)}, {grad}")
    if len(b.leaves) > b.limit:
        lines.append(f"and {len(b.leaves) - b.limit} more leaves")
    return lines
