"""Arguments of generated functions: the statements that bring static attributes into canonical form, or refuse them."""

from __future__ import annotations

from typing import Any

from .arguments import check_line
from .dispatch import place_of, type_error
from .op import Op, Param
from .tensor import Tensor


class _Missing:
    """Default of a required argument that may come under another name."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()
DIMS = ("dim", "dim+1", "dims")


def tensor_lines(op: Op, env: dict[str, Any]) -> list[str]:
    """The checks of tensors' types for operators whose errors about dimensions would come before the dispatcher's."""
    sig = op.sig
    if len(sig.tensors) < 2 or not op.method or not any(p.type in DIMS for p in sig.attrs):
        return []
    return [check_line(p.name, p.type, place_of(op, p), env, optional=p.optional) for p in sig.tensors if p.type == "T"]


def convert_lines(op: Op, p: Param, env: dict[str, Any]) -> str:
    """The statement that brings one static attribute into canonical form, or refuses its type."""
    n, guard = p.name, f"if {p.name} is not None: " if p.optional else ""
    ndim = "nd" if op.sig.tensors else "0"
    env[f"W_{n}"] = where = place_of(op, p)
    if p.type == "dim":
        usual = f"if type({n}) is int and -{ndim} <= {n} < {ndim}:\n    if {n} < 0: {n} += {ndim}"
        return f"{usual}\nelse:\n    {guard}{n} = _dim({n}, {ndim}, W_{n})"
    if p.type == "dim+1":
        return f"if type({n}) is not int or not 0 <= {n} <= {ndim}:\n    {guard}{n} = _dim({n}, {ndim} + 1, W_{n})"
    if p.type == "dims" and p.has_default and p.default == ():  # all dimensions, and canonical
        return "\n".join([f"if {n} is None: {n} = D_{n}", f"elif {n} is not D_{n}:", *_dims_lines(n, ndim)])
    if p.type == "dims":
        return "\n".join([f"if {n} is not None:" if guard else "if True:", *_dims_lines(n, ndim)])
    if p.type == "ints":
        made = f"{n} = _ints({n}, W_{n})"
        inner = f"    for v in {n}:\n        if type(v) is not int:\n            {made}\n            break"
        return f"if type({n}) is tuple:\n{inner}\nelse: {guard}{made}" if not guard else f"{guard}{made}"
    if p.type == "dtype":
        return f"if {n} is not None: {n} = _dtype({n}, W_{n})"
    return check_line(n, p.type, where, env, optional=p.optional, default=f"D_{n}" if p.has_default else "")


def _dims_lines(n: str, ndim: str) -> list[str]:
    """Indented statements that make a tuple of dimensions of ``n``; the usual ones without a call."""
    made = f"{n} = _dims({n}, {ndim}, W_{n})"
    return [
        f"    if type({n}) is int and -{ndim} <= {n} < {ndim}: {n} = ({n} if {n} >= 0 else {n} + {ndim},)",
        f"    elif type({n}) is tuple and len({n}) == len({{*{n}}}):",
        f"        for v in {n}:",
        f"            if type(v) is not int or not 0 <= v < {ndim}:",
        f"                {made}",
        "                break",
        f"    else: {made}",
    ]


def shape_lines(op: Op, p: Param, env: dict[str, Any]) -> list[str]:
    """The statements that make one shape of varargs ``_name``, or of ``name`` given by keyword."""
    n = p.name
    env[f"W_{n}"] = place_of(op, p)
    made = f"{n} = _shape(_{n}, {n}, W_{n})"
    missing = f"{op.name}() missing 1 required positional argument: '{n}'"
    absent = "pass" if p.optional else f"raise TypeError({missing!r})"
    return [
        f"if {n} is None:",
        f"    if _{n}:",
        f"        for v in _{n}:",
        "            if type(v) is not int or v < -1:",
        f"                {made}",
        "                break",
        f"        else: {n} = _{n}",
        f"    else: {absent}",
        f"elif type({n}) is not tuple or _{n}: {made}",
        "else:",
        f"    for v in {n}:",
        "        if type(v) is not int or v < -1:",
        f"            {made}",
        "            break",
    ]


def ndim_line(op: Op) -> str:
    """The statement that finds the number of dimensions for ``convert_lines``; "" if nothing there asks for it."""
    sig = op.sig
    if not sig.tensors or not any(p.type in DIMS for p in sig.attrs):
        return ""
    x = sig.tensors[0].name
    plain = f"(type({x}) is Tensor or type({x}) in FAST) and {x}._data is not None"
    line = f"nd = {x}._data.ndim if {plain} else _ndim({x}, OP)"
    asking = [p for p in sig.attrs if p.type in DIMS]
    if all(p.type == "dims" and p.has_default and p.default in (None, ()) for p in asking):
        given = " or ".join(f"{p.name} is not D_{p.name}" for p in asking)
        return f"if {given}: {line}"
    return line


def ndim_of(t: Any, op: Op) -> int:
    """The number of dimensions of the first operand ``t`` (of the first tensor in a list). TypeError for no tensor."""
    if isinstance(t, Tensor):
        return t.ndim
    first = op.sig.tensors[0]
    if first.type == "T[]":
        return t[0].ndim if isinstance(t, (tuple, list)) and t and isinstance(t[0], Tensor) else 0
    if t is None and first.optional or first.type == "Tn":
        return 0
    raise type_error(op, first, t)
