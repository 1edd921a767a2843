"""Generates the backward function of an operator from its vjp rules: the inlined form of ``dispatch.backward``."""
from __future__ import annotations

from typing import Any

from .autograd.node import Node
from .autograd.saved import freed_error, unpack, unpack_out
from .deferred import deferred
from .dispatch import FAST, backward, meta_of
from .meta import Meta
from .op import Op


def backward_of(op: Op) -> Any:
    """``backward(node, grads) -> gradients of the tensor inputs``; generated where the operator is plain enough."""
    plain = op.n_out == 1 and not any(p.type == "T[]" for p in op.sig.tensors)
    if not op.rules or not plain:
        return lambda node, grads: backward(op, node, grads)
    return deferred("backward", f"<fusegrad backward of {op.name}>", lambda: _source(op))


def _source(op: Op) -> tuple[str, dict[str, Any]]:
    """Source and globals of the backward function."""
    env: dict[str, Any] = {
        "FAST": FAST, "unpack": unpack, "unpack_out": unpack_out, "freed_error": freed_error, "Meta": Meta,
        "meta_of": meta_of, "__name__": "fusegrad.calls",
    }
    names = {n for r in op.rules.values() for n in r.names}
    lines = ["def backward(node, grads):", "    if node.freed: raise freed_error()", "    g = g0 = grads[0]",
             "    e = node.edges"]
    tensors = [p.name for p in op.sig.tensors]
    if names & {x for t in tensors for x in (t, t + "_meta")}:
        lines.append("    saved, versions = node.saved, node.versions")
    for i, t in enumerate(tensors):
        lines += _read(i, t, t in names, t + "_meta" in names)
    if names & {"out", "out0"}:
        lines.append("    out = out0 = unpack_out(node, node.out[0], 0) if node.out is not None else None")
    attrs = [p.name for p in op.sig.attrs] + ["seed", "draw"]
    used = [a for a in attrs if a in names]
    if used:
        lines.append("    attrs = node.attrs")
        lines += [f"    a_{a} = attrs.get({a!r})" for a in used]
    if "need" in names:
        lines.append("    need = tuple(x is not None for x in e)")

    def call(rule: Any, key: str) -> str:
        env[key] = rule.fn
        return f"{key}({', '.join('a_' + n if n in attrs else n for n in rule.names)})"

    if "*" in op.rules:
        lines.append(f"    r = {call(op.rules['*'], 'RULE')}")
        lines.append("    return r if type(r) is tuple else tuple(r)" if len(tensors) > 1 else
                     "    return r if type(r) is tuple else (r,)")
    else:
        parts = [f"{call(op.rules[t], f'RULE_{t}')} if e[{i}] is not None else None" if t in op.rules else "None"
                 for i, t in enumerate(tensors)]
        lines.append(f"    return ({', '.join(parts)},)")
    return "\n".join(lines), env


def _read(i: int, t: str, value: bool, meta: bool) -> list[str]:
    """Lines that read saved input ``t`` and its Meta."""
    if not value and not meta:
        return []
    lines = [f"    {t} = saved[{i}]"]
    if meta:
        lines += [f"    {t}_meta = {t} if type({t}) is Meta else None"]
    if value:
        lines += [
            f"    if type({t}) in FAST:",
            f"        st = {t}._st",
            f"        if st is not None and st.version != versions[{i}]: unpack(node, {t}, versions[{i}])",
            f"    elif {t} is not None and type({t}) is not Meta: {t} = unpack(node, {t}, versions[{i}])",
        ]
    if meta:
        lines.append(f"    if {t}_meta is None and {t} is not None: {t}_meta = meta_of({t})")
    return lines


__all__ = ["Node", "backward_of"]
