"""Generates the backward function of an operator from its vjp rules: the inlined form of ``dispatch.backward``."""

from __future__ import annotations

import dis
from typing import Any

import numpy as np

from .autograd.modes import SLOW, STATE
from .autograd.node import Node
from .autograd.saved import freed_error, unpack, unpack_out
from .deferred import deferred
from .dispatch import FAST, backward, meta_of
from .meta import Meta
from .op import Op
from .tensor import Tensor, wrap

_ARITHMETIC = {"+", "-", "*", "/"}
_PLAIN = {
    "RESUME",
    "LOAD_FAST",
    "LOAD_FAST_LOAD_FAST",
    "LOAD_FAST_BORROW",
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
    "LOAD_CONST",
    "LOAD_SMALL_INT",
    "BINARY_OP",
    "UNARY_NEGATIVE",
    "COMPARE_OP",
    "RETURN_VALUE",
    "RETURN_CONST",
    "CACHE",
    "NOP",
}


def backward_of(op: Op) -> Any:
    """``backward(node, grads) -> gradients of the tensor inputs``; generated where the operator is plain enough."""
    op.frees = kept_kind(op)  # type: ignore[attr-defined]
    plain = op.n_out == 1 and not any(p.type == "T[]" for p in op.sig.tensors)
    if not op.rules or not plain:
        return lambda node, grads: backward(op, node, grads)
    return deferred("backward", f"<fusegrad backward of {op.name}>", lambda: _source(op))


# What a pass frees in the nodes of an operator. A node that kept no tensor is not freed: it may run again.
Op.frees = 1  # type: ignore[attr-defined]


def kept_kind(op: Op) -> int:
    """0: its nodes never keep tensors; 1: they do; 2: they may keep a number in place of a tensor (``Node.keeps``)."""
    names = {n for r in op.rules.values() for n in r.names}
    kept = [p for p in op.sig.tensors if p.name in names]
    if any(n == "out" or (n[:3] == "out" and n[3:].isdigit()) for n in names):
        return 1
    if op.fields.get("frees_numbers"):
        return 1
    return 0 if not kept else 2 if any(p.type == "Tn" or p.optional for p in kept) else 1


def _source(op: Op) -> tuple[str, dict[str, Any]]:
    """Source and globals of the backward function."""
    env: dict[str, Any] = {
        "FAST": FAST,
        "unpack": unpack,
        "unpack_out": unpack_out,
        "freed_error": freed_error,
        "Meta": Meta,
        "meta_of": meta_of,
        "__name__": "fusegrad.calls",
    }
    names = {n for r in op.rules.values() for n in r.names}
    lines = [
        "def backward(node, grads):",
        "    saved = node.saved",
        "    if saved is None: raise freed_error()",
        "    g = g0 = grads[0]",
        "    e = node.edges",
        *_on_arrays(op, env),
    ]
    tensors = [p.name for p in op.sig.tensors]
    if names & {x for t in tensors for x in (t, t + "_meta")}:
        lines.append("    versions = node.versions")
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
        lines.append(
            "    return r if type(r) is tuple else tuple(r)"
            if len(tensors) > 1
            else "    return r if type(r) is tuple else (r,)"
        )
    else:
        parts = [
            f"{call(op.rules[t], f'RULE_{t}')} if e[{i}] is not None else None" if t in op.rules else "None"
            for i, t in enumerate(tensors)
        ]
        lines.append(f"    return ({', '.join(parts)},)")
    return "\n".join(lines), env


def is_arithmetic(fn: Any) -> bool:
    """Whether a rule only adds, subtracts, multiplies, divides, negates and compares its arguments, all at once.

    Such a rule means the same for arrays of one dtype as for tensors, by the same ufuncs.
    """
    code = fn.__code__
    if code.co_names or code.co_freevars or code.co_cellvars or fn.__closure__:
        return False
    for i in dis.get_instructions(code):
        if i.opname not in _PLAIN or (i.opname == "BINARY_OP" and i.argrepr not in _ARITHMETIC):
            return False
    return True


def _on_arrays(op: Op, env: dict[str, Any]) -> list[str]:
    """Lines that run rules of plain arithmetic on the arrays themselves when no graph is wanted; [] if it has others.

    Anything unusual (other dtypes, a changed version, numpy's warnings made errors) goes on to the general lines.
    """
    tensors, attrs = [p.name for p in op.sig.tensors], {p.name for p in op.sig.attrs}
    rules = op.rules
    if "*" in rules and len(tensors) == 1:  # one rule for the one input
        rules = {tensors[0]: rules["*"]}
    if not rules or "*" in rules or not all(is_arithmetic(r.fn) for r in rules.values()):
        return []
    names = {n for r in rules.values() for n in r.names}
    if not names <= {"g", "g0", "out", "out0", *tensors, *attrs}:
        return []
    env |= {"STATE": STATE, "SLOW": SLOW, "_made": _made, "ndarray": np.ndarray, "UNUSUAL": _UNUSUAL}
    lines = [
        "if not STATE.grad and not SLOW[0] and type(g) in FAST and g._data is not None:",
        "    try:",
        "        b_g = b_g0 = g._data",
        "        d = b_g.dtype",
    ]
    for i, t in enumerate(tensors):
        if t in names:
            lines += [
                f"        b_{t} = saved[{i}]",
                f"        if type(b_{t}) in FAST:",
                f"            st, b_{t} = b_{t}._st, b_{t}._data",
                f"            changed = st is not None and st.version != node.versions[{i}]",
                f"            if changed or b_{t}.dtype is not d: raise ValueError",
                f"        elif type(b_{t}) is not float and type(b_{t}) is not int: b_{t} = None",
            ]
    if names & {"out", "out0"}:
        lines += [
            "        b_out = b_out0 = None",
            "        if node.out is not None:",
            "            b_out, st, version = node.out[0]",
            "            b_out0 = b_out",
            "            if type(b_out) is not ndarray: raise ValueError",
            "            if b_out.dtype is not d or st.version != version: raise ValueError",
        ]
    lines += [f"        b_{a} = node.attrs[{a!r}]" for a in sorted(attrs & names)]
    parts = []
    for i, t in enumerate(tensors):
        if t in rules:
            env[f"RULE_{t}"] = rules[t].fn
            call = f"_made(RULE_{t}({', '.join('b_' + n for n in rules[t].names)}), g)"
            parts.append(f"{call} if e[{i}] is not None else None")
        else:
            parts.append("None")
    lines += [f"        return ({', '.join(parts)},)", "    except UNUSUAL: pass"]
    return ["    " + x for x in lines]


_UNUSUAL = (ValueError, TypeError, AttributeError, KeyError, OverflowError, FloatingPointError, RuntimeWarning)


def _made(r: Any, g: Tensor) -> Tensor:
    """A Tensor for what a rule made of arrays."""
    if r is g._data:
        return g
    if type(r) is not np.ndarray:
        return wrap(np.asarray(r, g._data.dtype))
    return wrap(r if r.flags.c_contiguous else r.copy())


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
