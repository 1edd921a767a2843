"""A program as text, for `print(program)` and `fusegrad inspect`."""

from __future__ import annotations

from typing import Any

from fusegrad.size_floats import tree_text
from fusegrad.sizes import SymInt, range_text

from .program import ExportedProgram

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
        lines.append(f"  {program.graph.inputs[i].name} = {tree_text(tree)}")
    lines += _state(program)
    lines.append("")
    lines.append(program.graph.text())
    return "\n".join(lines)


def _result(program: ExportedProgram) -> str:
    from .tree import unflatten

    leaves: list[Any] = []
    for o in program.outputs:
        if o.kind == "value":
            leaves.append(_Shown(program.graph.outputs[o.value].meta))
        elif o.kind == "input":
            leaves.append(_Shown(f"the argument {program.graph.inputs[o.value].name}"))
        else:
            leaves.append(
                _Shown(tree_text(o.value))
                if o.kind == "number"
                else _Shown(o.value)
                if isinstance(o.value, SymInt)
                else o.value
            )
    return repr(unflatten(program.tree, iter(leaves)))


class _Shown:
    def __init__(self, text: Any) -> None:
        self.text = str(text)

    def __repr__(self) -> str:
        return self.text


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
