"""Generates the backward function of an operator from its vjp rules: the inlined form of ``dispatch.backward``."""

from __future__ import annotations

import dis
from functools import cached_property
from types import FunctionType
from typing import Any

import numpy as np

from .autograd.modes import SLOW, STATE
from .autograd.node import Node
from .autograd.saved import freed_error, unpack, unpack_out
from .deferred import deferred
from .dispatch import FAST, backward, meta_of
from .fused_grads import fused_gradients
from .meta import Meta
from .op import Late, Op
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


_CALL = {"PUSH_NULL", "PRECALL", "CALL", "BUILD_TUPLE", "BINARY_SUBSCR"}


def backward_of(op: Op) -> Any:
    """``backward(node, grads) -> gradients of the tensor inputs``; generated where the operator is plain enough."""
    op.frees = kept_kind(op)  # type: ignore[attr-defined]
    lists = any(p.type == "T[]" for p in op.sig.tensors)
    if not op.rules or op.n_out < 1 or lists and [*op.rules] != ["*"]:
        return lambda node, grads: backward(op, node, grads)
    made = deferred("backward", f"<fusegrad backward of {op.name}>", lambda: _source(op))
    return _rooted(made) if op.fields.get("rooted") else made


def _rooted(backward: Any) -> Any:
    """``backward`` of an operator whose gradients depend on its inputs in name (``autograd.rooted``)."""

    def whole(node: Any, grads: Any) -> Any:
        found = backward(node, grads)
        if not STATE.grad:
            return found
        from .autograd.rooted import tied_to  # above this module

        return tied_to(node, found)

    return whole


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
        *[f"    g{i} = grads[{i}]" for i in range(1, op.n_out) if f"g{i}" in names],
        "    e = node.edges",
        *_short_form(op, env),
    ]
    tensors = [p.name for p in op.sig.tensors]
    if names & {x for t in tensors for x in (t, t + "_meta")}:
        lines.append("    versions = node.versions")
    for i, p in enumerate(op.sig.tensors):
        read = _read_list if p.type == "T[]" else _read
        lines += read(i, p.name, p.name in names, p.name + "_meta" in names)
    if names & {"out", "out0"}:
        lines.append(f"    out = out0 = {_kept(op, 0)}")
    lines += [f"    out{i} = {_kept(op, i)}" for i in range(1, op.n_out) if f"out{i}" in names]
    attrs = [p.name for p in op.sig.attrs] + ["seed", "draw"]
    used = [a for a in attrs if a in names]
    if used:
        lines.append("    attrs = node.attrs")
        lines += [f"    a_{a} = attrs.get({a!r})" for a in used]
    if "need" in names:
        lines.append("    need = tuple(x is not None for x in e)")
    fused = fused_gradients(op)
    if fused is not None:
        env |= {"STATE": STATE, "SLOW": SLOW, "FUSED": fused}
        values = "".join(f"{'a_' + n if n in attrs else n}, " for n in fused.names)
        lines += [
            "    if not STATE.grad and not SLOW[0] and type(g) in FAST:",
            f"        r = FUSED(e, g, ({values}))",
            "        if r is not None: return r",
        ]

    def call(rule: Any, key: str) -> str:
        env[key] = rule.fn
        return f"{key}({', '.join('a_' + n if n in attrs else n for n in rule.names)})"

    if "*" in op.rules:
        lines.append(f"    r = {call(op.rules['*'], 'RULE')}")
        if any(p.type == "T[]" for p in op.sig.tensors):
            lines.append("    return [x for item in r for x in (item if isinstance(item, (tuple, list)) else (item,))]")
        else:
            lines.append(f"    return r if type(r) is tuple else {'tuple(r)' if len(tensors) > 1 else '(r,)'}")
    else:
        parts = [
            f"{call(op.rules[t], f'RULE_{t}')} if e[{i}] is not None else None" if t in op.rules else "None"
            for i, t in enumerate(tensors)
        ]
        lines.append(f"    return ({', '.join(parts)},)")
    return "\n".join(lines), env


def array_form(fn: Any) -> tuple[Any, bool] | None:
    """A rule as a function of arrays, and whether it makes views; None if it has no such form.

    It has one if it does arithmetic and calls operators of the table, by position, on its arguments and on shapes:
    then their kernels do the same.
    """
    if is_arithmetic(fn):
        return fn, False
    code, calls = fn.__code__, {}
    if code.co_freevars or code.co_cellvars or fn.__closure__:
        return None
    for i in dis.get_instructions(code):
        if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found = fn.__globals__.get(i.argval)
            if isinstance(found, Late) and found.name in found.table:
                found = found.table[found.name]
            if not isinstance(found, Op) or found.n_out != 1 or found.kind in ("create", "random"):
                return None
            calls[i.argval] = found
        elif i.opname == "LOAD_ATTR":
            if i.argval != "shape":
                return None
        elif i.opname not in _PLAIN | _CALL:
            return None
        elif i.opname == "BINARY_OP" and i.argrepr not in _ARITHMETIC | {"[]"}:
            return None
    views = {c.kind == "view" for c in calls.values()}
    if len(views) != 1:
        return None
    kernels = {name: c.kernel for name, c in calls.items()}
    return FunctionType(code, {**fn.__globals__, **kernels}, fn.__name__, fn.__defaults__), views.pop()


def _short_form(op: Op, env: dict[str, Any]) -> list[str]:
    """Lines that use ``on_arrays`` where no graph is wanted; [] if there is none."""
    if op.on_arrays is None:
        return []
    env |= {"STATE": STATE, "SLOW": SLOW, "ON_ARRAYS": op.on_arrays, "wrap": wrap}
    others = "".join(f" and grads[{i}] is None" for i in range(1, op.n_out))
    return [
        f"    if not STATE.grad and not SLOW[0] and type(g) in FAST and g._data is not None{others}:",
        "        r = ON_ARRAYS(node, g._data)",
        "        if r is not None: return [x if x is None else g if x is g._data else wrap(x) for x in r]",
    ]


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


def array_names(op: Op) -> tuple[str, ...]:
    """What the array form of the rules of an operator asks for; () if there is none.

    It is ``on_arrays`` of the entry (whose ``any_dtype`` names the inputs that need not have the dtype of the
    gradient), or the rules themselves where they are plain arithmetic or calls of operators.
    """
    own = op.fields.get("on_arrays")
    if own is not None:
        return own.__code__.co_varnames[: own.__code__.co_argcount]
    rules = _by_input(op)
    if not rules or "*" in rules or any(array_form(r.fn) is None for r in rules.values()):
        return ()
    names = {n for r in rules.values() for n in r.names}
    known = {"g", "g0", "out", "out0", *(p.name for p in op.sig.params), *(p.name + "_meta" for p in op.sig.tensors)}
    return tuple(sorted(names)) if names <= known else ()


def _by_input(op: Op) -> dict[str, Any]:
    """The rules by the input they are for, as far as that is known."""
    if "*" in op.rules and len(op.sig.tensors) == 1:  # one rule for the one input
        return {op.sig.tensors[0].name: op.rules["*"]}
    return op.rules


def arrays_of(op: Op) -> Any:
    """``on_arrays(node, g) -> arrays``: gradients of the inputs without a graph, from that of the first output, where
    there is none of others.

    It gives None for what is not usual (other dtypes, a changed version, packed tensors, numpy's warnings made errors):
    then ``backward`` runs, and explains. None instead of a function for operators without such a form.
    """
    plain = op.n_out == 1 and not any(p.type == "T[]" for p in op.sig.tensors)
    if not op.rules or not array_names(op) or not plain and "on_arrays" not in op.fields:
        from .noted import can_be_noted, source  # at the first backward pass

        return deferred("on_arrays", f"<fusegrad noted {op.name}>", lambda: source(op)) if can_be_noted(op) else None
    form = deferred("on_arrays", f"<fusegrad arrays of {op.name}>", lambda: _array_source(op))
    if "on_arrays" in op.fields and all(p.type == "T" for p in op.sig.tensors):
        from .noted import can_be_noted, or_noted

        return or_noted(op, form) if can_be_noted(op) else form
    return form


def given_as(op: Op) -> str:
    """Which shapes and dtypes the gradients of ``on_arrays`` have.

    Those of the "inputs", those of the "output" (arithmetic on operands that were broadcast), or "any".
    """
    if "on_arrays" in op.fields:
        return "inputs"
    if not array_names(op):  # noted
        return "any"
    rules = [r.fn for r in op.rules.values()]
    if op.kind == "pointwise" and len(op.sig.tensors) == 1 and op.promote in ("same", "float"):
        return "inputs"
    return "output" if all(map(is_arithmetic, rules)) else "any"


def _once(name: str, find: Any) -> None:
    """Make ``find(op)`` the attribute ``name`` of operators: found at the first backward pass, not at import."""
    made: Any = cached_property(find)
    made.__set_name__(Op, name)
    setattr(Op, name, made)


_once("on_arrays", arrays_of)
_once("given_as", given_as)


def _array_source(op: Op) -> tuple[str, dict[str, Any]]:
    """Source and globals of ``on_arrays``."""
    names = array_names(op)
    env: dict[str, Any] = {
        "FAST": FAST,
        "Tensor": Tensor,
        "Meta": Meta,
        "ndarray": np.ndarray,
        "asarray": np.asarray,
        "UNUSUAL": _UNUSUAL,
        "freed_error": freed_error,
        "plain": _plain,
        "__name__": "fusegrad.calls",
    }
    lines = [
        "def on_arrays(node, g):",
        "    saved = node.saved",
        "    if saved is None: raise freed_error()",
        "    g0, d, e = g, g.dtype, node.edges",
        "    try:",
    ]
    for i in range(len(op.sig.tensors)):
        lines += ["        " + x for x in _read_array(op, i, names)]
    for i in range(op.n_out):
        if f"out{i}" in names or i == 0 and "out" in names:
            lines += ["        " + x for x in _read_output(i)]
    lines += [f"        a_{p.name} = node.attrs[{p.name!r}]" for p in op.sig.attrs if p.name in names]
    return "\n".join([*lines, *("        " + x for x in _array_calls(op, env)), "    except UNUSUAL: return None"]), env


def _read_array(op: Op, i: int, names: tuple[str, ...]) -> list[str]:
    """Lines that read saved input ``i`` as an array, a number, or None, and its Meta; of a list, the lists of these."""
    t = op.sig.tensors[i].name
    if op.sig.tensors[i].type == "T[]":
        lines = [f"{t} = [plain(x, v) for x, v in zip(saved[{i}], node.versions[{i}])]"] if t in names else []
        return [*lines, f"{t}_meta = saved[{i}]"] if t + "_meta" in names else lines
    lines = []
    if t in names:
        other = "" if t in op.fields.get("any_dtype", ()) else f" or {t}.dtype is not d"
        lines = [
            f"{t} = saved[{i}]",
            f"if type({t}) is Tensor or type({t}) in FAST:",
            f"    st, {t} = {t}._st, {t}._data",
            f"    if st is not None and st.version != node.versions[{i}]{other}: return None",
            f"elif type({t}) is not float and type({t}) is not int:",
            f"    if {t} is not None and type({t}) is not Meta: return None",
            f"    {t} = None",
        ]
    if t + "_meta" in names:
        lines += [f"{t}_meta = saved[{i}]", f"if type({t}_meta) is not Meta: return None"]
    return lines


def _read_output(i: int) -> list[str]:
    """Lines that read saved output ``i`` as an array, or None."""
    return [
        f"out{i} = None",
        f"if node.out is not None and node.out[{i}] is not None:",
        f"    out{i}, st, version = node.out[{i}]",
        f"    if type(out{i}) is not ndarray or st.version != version: return None",
        *([f"    if out{i}.dtype is not d: return None", "out = out0"] if i == 0 else []),
    ]


def _plain(t: Any, version: Any) -> np.ndarray:
    """The array of a saved tensor in a list. TypeError for a tensor that is none, or was changed: not usual."""
    if type(t) not in FAST or t._data is None or t._st is not None and t._st.version != version:
        raise TypeError
    return t._data


def _array_calls(op: Op, env: dict[str, Any]) -> list[str]:
    """Lines that call the rules and return what they make."""
    attrs = {p.name for p in op.sig.attrs}
    own = op.fields.get("on_arrays")
    if own is not None:
        env["OWN"] = own
        given = ["e" if n == "need" else f"a_{n}" if n in attrs else n for n in array_names(op)]
        return [f"return OWN({', '.join(given)})"]
    rules, parts = _by_input(op), []
    lines: list[str] = []
    for i, p in enumerate(op.sig.tensors):
        if p.name not in rules:
            parts.append("None")
            continue
        form: Any = array_form(rules[p.name].fn)
        env[f"RULE_{p.name}"], views = form
        given = [f"a_{n}" if n in attrs else n for n in rules[p.name].names]
        lines += [
            f"r{i} = None",
            f"if e[{i}] is not None:",
            f"    r{i} = RULE_{p.name}({', '.join(given)})",
            f"    if r{i} is not g:",
            f"        if type(r{i}) is not ndarray: r{i} = asarray(r{i}, d)",
            *([] if views else [f"        elif not r{i}.flags.c_contiguous: r{i} = r{i}.copy('K')"]),
        ]
        parts.append(f"r{i}")
    return [*lines, f"return ({', '.join(parts)},)"]


_UNUSUAL = (ValueError, TypeError, AttributeError, KeyError, OverflowError, FloatingPointError, RuntimeWarning)


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


def _read_list(i: int, t: str, value: bool, meta: bool) -> list[str]:
    """The same for a list of tensors, of which a tuple was saved, or a list of their Metas."""
    lines = [f"    {t} = saved[{i}]"]
    if meta:
        lines.append(f"    {t}_meta = {t} if type({t}) is list else meta_of({t})")
    if value:
        lines.append(f"    if {t} is not None: {t} = unpack(node, {t}, versions[{i}])")
    return lines if value or meta else []


def _kept(op: Op, nr: int) -> str:
    """The expression of saved output ``nr``, None where it was not kept."""
    there = "node.out is not None" if op.n_out == 1 else f"node.out is not None and node.out[{nr}] is not None"
    return f"unpack_out(node, node.out[{nr}], {nr}) if {there} else None"


__all__ = ["Node", "backward_of"]
