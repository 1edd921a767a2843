"""A program as text, for `print(program)` and `fusegrad inspect`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusegrad.size_floats import tree_text as float_text
from fusegrad.sizes import range_text

from .program import ExportedProgram, Output
from .tree import LEAF, RECORDS, kind_in

__all__ = ["inspect_text"]

_MAX_STATE = 40


def inspect_text(program: ExportedProgram) -> str:
    """What the program accepts, its sizes, state, result and graph."""
    lines = [f"program {program.signature_text()}", f"  mode: {'training' if program.training else 'evaluation'}"]
    if program.dims:
        lines.append("  sizes that may vary:")
        lines += [f"    {d.name} in {range_text(d.min, d.max)} (exported with {d.example})" for d in program.dims]
    lines.append(f"  arguments ({len(program.leaves)} leaves):")
    for leaf in program.leaves:
        if leaf.input is None:
            lines.append(f"    {leaf.path} fixed at {leaf.fixed!r}")
        else:
            lines.append(f"    {leaf.path}: {program.graph.inputs[leaf.input].meta}")
    lines.append(f"  result: {_result(program)}")
    for i, tree in program.floats.items():
        lines.append(f"  {program.graph.inputs[i].name} = {float_text(tree)}")
    lines += _state(program)
    lines.append("")
    lines.append(program.graph.text())
    return "\n".join(lines)


def _result(program: ExportedProgram) -> str:
    return tree_text(program.tree, iter([_leaf(program, o) for o in program.outputs]))


def _leaf(program: ExportedProgram, o: Output) -> str:
    if o.kind == "value":
        return str(program.graph.outputs[o.value].meta)
    if o.kind == "input":
        return f"the argument {program.graph.inputs[o.value].name}"
    return float_text(o.value) if o.kind == "number" else str(o.value) if o.kind == "size" else repr(o.value)


def tree_text(tree: Any, leaves: Iterator[str]) -> str:
    """A tree with the texts of its leaves: ``(f32[2], {'a': f32[3]})``, ``Pair(x=f32[2], y=3)``."""
    if tree == LEAF:
        return next(leaves)
    kind = kind_in(tree)
    if kind.endswith("dict"):
        return "{" + ", ".join(f"{k!r}: {tree_text(t, leaves)}" for k, t in tree[kind]) + "}"
    parts = [tree_text(t, leaves) for t in tree[kind]]
    if kind in RECORDS:
        return f"{tree['name']}({', '.join(f'{f}={p}' for f, p in zip(tree['fields'], parts, strict=True))})"
    inner = ", ".join(parts)
    return f"[{inner}]" if kind == "list" else f"({inner}{',' if len(parts) == 1 else ''})"


def _state(program: ExportedProgram) -> list[str]:
    total = sum(a.nbytes for a in program.tensors.values())
    lines = [f"  state: {len(program.tensors)} tensors, {total} bytes"]
    for s in program.state[:_MAX_STATE]:
        a = program.tensors[s.tensor]
        notes = [s.kind] + (["trainable"] if s.requires_grad else []) + ([] if s.persistent else ["not in state_dict"])
        lines.append(f"    {s.name}: {a.dtype.name}[{', '.join(map(str, a.shape))}] {', '.join(notes)}")
    if len(program.state) > _MAX_STATE:
        lines.append(f"    ... and {len(program.state) - _MAX_STATE} more")
    return lines
