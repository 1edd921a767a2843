"""Fast paths of generated functions: plain tensors of one dtype, straight to the kernel.

Whatever a fast path does not take (subclasses, other dtypes, graph tensors, modes, errors of the kernel) goes on to the
line after it, the call of the dispatcher.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from . import dtypes
from .autograd.modes import SLOW
from .callnode import Operand, is_fast, several_lines, shared_chains, stale, wrap_lines
from .dispatch import FROM_NUMPY, cast_array
from .op import Op


@functools.lru_cache(maxsize=256)
def _joint(da: np.dtype, wide_a: bool, db: np.dtype, wide_b: bool) -> np.dtype:
    """The dtype in which tensors of two dtypes are combined; whether they have dimensions counts."""
    return dtypes.result_type_of([(FROM_NUMPY[da], wide_a), (FROM_NUMPY[db], wide_b)], []).np


def joined(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Operands of two dtypes, cast as the dispatcher casts them."""
    d = _joint(a.dtype, a.ndim > 0, b.dtype, b.ndim > 0)
    return a if a.dtype is d else cast_array(a, d), b if b.dtype is d else cast_array(b, d)


def floats(a: np.ndarray) -> np.ndarray:
    """An array of integers as it is combined with a number that is none."""
    return cast_array(a, dtypes.get_default_dtype().np)


class _Numbers(dict[Any, Any]):
    """``NUM32[number]``: a float32 array of no dimensions, which numpy takes in half the time of a Python number. (Not
    for zeros: 0.0 and -0.0 are one key.)"""

    def __missing__(self, number: Any) -> Any:
        if not -3e38 < number < 3e38:  # numpy complains of those that are none of float32
            return number
        if len(self) >= 1024:
            self.clear()
        found = self[number] = np.array(number, np.float32)
        return found


MAY_BE_TENSOR = frozenset({"any"})  # attributes that may still be a tensor when their types are checked
ENV: dict[str, Any] = {
    "SLOW": SLOW,
    "FLOATS": {d.np for d in dtypes.ALL if d.is_floating_point},
    "SAFE_INT": 2**24,
    "NPBOOL": dtypes.bool_.np,
    "NPI64": dtypes.int64.np,
    "array": np.array,
    "joined": joined,
    "NUM32": _Numbers(),
    "floats": floats,
    "concatenate": np.concatenate,
    "prod": math.prod,
}
_ERRORS = "(ValueError, TypeError, IndexError, FloatingPointError, RuntimeWarning)"


def fast_kind(op: Op) -> bool:
    """Whether ``fast_lines`` has a path for the operator."""
    sig = op.sig
    if op.kind != "pointwise" or op.n_out != 1 or any(p.type == "T[]" or p.optional for p in sig.tensors):
        return False
    if op.promote == "none" or "promote_params" in op.fields:
        return False
    power = len(sig.tensors) == 2 and sig.tensors[1].type == "Tn" and op.promote in ("same", "float")
    if not isinstance(op.kernel, np.ufunc) and not power:
        return False
    return not sig.attrs and len(sig.tensors) in (1, 2)  # attributes change the kernel: general path


def fast_lines(op: Op) -> list[str]:
    """The fast path of a pointwise operator whose kernel is a plain array function; [] if it has none."""
    if not fast_kind(op):
        return []
    names = [p.name for p in op.sig.tensors]
    if len(names) == 1:
        return _unary_lines(op, names[0])
    return _binary_lines(op, names[0], names[1]) + number_first_lines(op)


def _unary_lines(op: Op, x: str) -> list[str]:
    lines = [f"if {is_fast(x)} and not SLOW[0]:", f"    a0 = {x}._data", "    if a0 is not None:"]
    pad = "        "
    if _picky(op):
        lines.append(f"        if {_kinds(op, 'a0.dtype')}:")
        pad += "    "
    lines += [
        pad + "try:",
        pad + "    r = kernel(a0)",
        pad + "except (TypeError, FloatingPointError, RuntimeWarning):",
        pad + "    r = None",
        pad + "if r is not None:",
    ]
    return lines + _indented(wrap_lines(op, [Operand(x)], "NO_ATTRS"), pad + "    ")


def _binary_lines(op: Op, x: str, y: str) -> list[str]:
    """``b`` is the second array or number, and ``o`` the second tensor or None."""
    number, picks = op.sig.tensors[1].type == "Tn", "refuse" in op.fields  # some dtypes are refused
    lines = [
        f"if {is_fast(x)} and not SLOW[0]:",
        f"    a0 = {x}._data",
        "    if a0 is not None:",
        "        da = a0.dtype",
        f"        if {is_fast(y)}:",
        f"            o, b = {y}, {y}._data",
        "            if b is not None and b.dtype is not da: "
        + ("b = None" if picks else "a0, b = joined(a0, b); da = a0.dtype"),
    ]
    divides = op.promote == "float" and not picks
    if divides:
        lines.append("            if b is not None and da is NPI64: a0, b = floats(a0), floats(b); da = a0.dtype")
    if number:
        quick = f"NUM32[{y}] if {y} and da is NP32 else {y}" if isinstance(op.kernel, np.ufunc) else y
        takes = _takes("da", y) if not divides else "(da is NP32 or da in FLOATS)"
        lines.append(f"        elif ({small_number(y)}) and {takes}: o, b = None, {quick}")
        if not picks:
            kind = f"({small_number(y)})" if divides else f"type({y}) is float"
            lines.append(f"        elif {kind} and da.kind == 'i': o, b = None, {y}; a0 = floats(a0); da = a0.dtype")
    lines += [
        "        else: b = None",
        f"        if b is not None{_only_kinds(op)}:",
        "            try:",
        "                r = kernel(a0, b)",
        f"            except {_ERRORS}:",
        "                r = None",
        "            if r is not None:",
    ]
    second = Operand("o", "o is not None", y) if number else Operand(y)
    wrap = wrap_lines(op, [Operand(x), second], "NO_ATTRS", dtype="da" if op.promote in ("same", "float") else None)
    return lines + _indented(wrap, " " * 16)


def number_first_lines(op: Op) -> list[str]:
    """The fast path of a number and a plain tensor, in that order; [] for other operators."""
    if not fast_kind(op) or [p.type for p in op.sig.tensors] != ["Tn", "Tn"]:
        return []
    x, y = (p.name for p in op.sig.tensors)
    quick = f"NUM32[{x}] if {x} and da is NP32 else {x}" if isinstance(op.kernel, np.ufunc) else x
    lines = [
        f"if ({small_number(x)}) and {is_fast(y)} and not SLOW[0]:",
        f"    a0 = {y}._data",
        f"    if a0 is not None and ((da := a0.dtype) is NP32 or {_takes('da', x)}){_only_kinds(op)}:",
        "        try:",
        f"            r = kernel({quick}, a0)",
        f"        except {_ERRORS}:",
        "            r = None",
        "        if r is not None:",
    ]
    operands = [Operand("None", "False", x), Operand(y)]
    return lines + _indented(
        wrap_lines(op, operands, "NO_ATTRS", dtype="da" if op.promote in ("same", "float") else None), " " * 12
    )


def small_number(x: str) -> str:
    """The condition that ``x`` is a Python number that floating point arrays take as it is."""
    return f"type({x}) is float or type({x}) is int and -SAFE_INT < {x} < SAFE_INT"


def _takes(d: str, x: str) -> str:
    """The condition that arrays of dtype ``d`` stay of it beside the small number ``x``."""
    return f"({d} is NP32 or {d} in FLOATS or {d} is NPI64 and type({x}) is int)"


def _only_kinds(op: Op) -> str:
    """The condition on the dtype ``da``, where the operator has one, for the end of a line of conditions."""
    return f" and {_kinds(op, 'da')}" if _picky(op) else ""


def _indented(lines: Sequence[str], pad: str) -> list[str]:
    return [pad + x for x in lines]


def general_kind(op: Op) -> bool:
    """Whether ``general_lines`` has a path for the operator."""
    sig = op.sig
    if op.kind in ("create", "random") or op.fields.get("draws") or op.n_out < 1 or not sig.tensors:
        return False
    return not (any(p.type == "T[]" for p in sig.tensors) or "promote_params" in op.fields or sig.tensors[0].optional)


def list_kind(op: Op) -> bool:
    """Whether ``list_lines`` has a path for the operator: one of its operands is a list of tensors."""
    sig = op.sig
    if op.kind in ("create", "random", "view") or op.fields.get("draws") or op.n_out != 1 or op.promote != "none":
        return False
    if op.fields.keys() & {"refuse", "promote_params", "accepts", "meta_layout"}:
        return False
    plain = all(p.type == "T[]" or p.type == "T" and not p.optional for p in sig.tensors)
    return plain and [p.type for p in sig.tensors].count("T[]") == 1 and [*op.rules] == ["*"]


def list_lines(op: Op, where: dict[str, str], when: str = "", made: Sequence[str] = (), call: str = "") -> list[str]:
    """The fast path of an operator that takes a list (or tuple) of plain tensors, and perhaps tensors beside it."""
    if not list_kind(op):
        return []
    conds, arrays, operands = ["not SLOW[0]"], [], []
    before, good, many = [], [when] if when else [], ""
    for i, p in enumerate(op.sig.tensors):
        n = where[p.name]
        if p.type == "T[]":
            many = f"rg{i}"
            conds.append(f"(type({n}) is list or type({n}) is tuple) and {n}")
            arrays.append("arrays")
            operands.append(Operand(n, many=True))
            loop = [
                "    arrays = []",
                f"    {many} = False",
                f"    for x_ in {n}:",
                f"        a = x_._data if {is_fast('x_')} else None",
                "        if a is None: break",
                f"        if {stale('x_')}: refresh(x_)",
                f"        if x_._rg: {many} = True",
                "        arrays.append(a)",
            ]
        else:
            conds.append(is_fast(n))
            before.append(f"        a{i} = {n}._data")
            good.append(f"a{i} is not None")
            arrays.append(f"a{i}")
            operands.append(Operand(n))
    conds += [f"type({where[p.name]}) not in FAST" for p in op.sig.attrs if p.type in MAY_BE_TENSOR]
    attrs, _ = _attributes(op, where)
    call = call or call_of(op, arrays, where)
    good = good or ["True"]
    return [
        f"if {' and '.join(conds)}:",
        *loop,
        "    else:",
        *before,
        f"        if {' and '.join(good)}:",
        "            try:",
        *_indented(made, " " * 16),
        f"                r = {call}",
        f"            except {_ERRORS}:",
        "                r = None",
        "            if type(r) is ndarray:",
        *_indented(wrap_lines(op, operands, attrs), " " * 16),
    ]


def general_lines(
    op: Op,
    values: dict[str, str] | None = None,
    first: bool = False,
    when: str = "",
    made: Sequence[str] = (),
    call: str = "",
) -> list[str]:
    """A fast path for operators of any kind: plain tensors of one dtype; attributes are canonical here.

    ``values``: where the value of a parameter is found, if not under its own name. ``first``: of several results, the
    first alone is returned. ``when``: a condition more, on the arrays; ``made``: lines before the kernel's call;
    ``call``: what takes its place.
    """
    sig = op.sig
    where = {p.name: p.name for p in sig.params} | (values or {})
    if not general_kind(op):
        return list_lines(op, where, when, made, call)
    conds = ["not SLOW[0]"]
    lines, good, operands = [], [], []
    for i, p in enumerate(sig.tensors):
        n = where[p.name]
        plain, same = is_fast(n), "" if op.promote == "none" or i == 0 else f" and a{i}.dtype is a0.dtype"
        test = f"a{i} is not None{same}"
        if _takes_number(op, i):
            conds.append(f"({plain} or {small_number(n)})")
            lines.append(f"    o{i} = {n} if type({n}) is not float and type({n}) is not int else None")
            lines.append(f"    a{i} = {n} if o{i} is None else o{i}._data")
            good.append(f"({test} if o{i} is not None else {_takes('a0.dtype', n)})")
            operands.append(Operand(f"o{i}", f"o{i} is not None", n))
        elif p.optional:
            conds.append(f"({n} is None or {plain})")
            lines.append(f"    a{i} = {n}._data if {n} is not None else None")
            good.append(f"({n} is None or {test})")
            operands.append(Operand(n, f"{n} is not None"))
        else:
            conds.append(plain)
            lines.append(f"    a{i} = {n}._data")
            good.append(test)
            operands.append(Operand(n))
    conds += [f"type({where[p.name]}) not in FAST" for p in sig.attrs if p.type in MAY_BE_TENSOR]
    if _picky(op):
        good.append(_kinds(op, "a0.dtype"))
    if when:
        good.append(when)
    lines = [
        f"if {' and '.join(conds)}:",
        *lines,
        f"    if {' and '.join(good)}:",
        "        try:",
        *_indented(made, " " * 12),
        f"            r = {call or call_of(op, [f'a{i}' for i in range(len(sig.tensors))], where)}",
        f"        except {_ERRORS}:",
        "            r = None",
        f"        if {'r is not None and type(r) is not tuple' if op.n_out == 1 else 'type(r) is tuple'}:",
    ]
    attrs, before = _attributes(op, where)
    wrap = wrap_lines(op, operands, attrs) if op.n_out == 1 else several_lines(op, operands, attrs, first)
    return lines + _indented(before + wrap, " " * 12)


def _attributes(op: Op, where: dict[str, str]) -> tuple[str, list[str]]:
    """The expression of the attributes that a node keeps, and the lines before it."""
    attrs = op.sig.attrs
    if not attrs:
        return "NO_ATTRS", []
    made = "{" + ", ".join(f"{p.name!r}: {where[p.name]}" for p in attrs) + "}"
    if all(p.has_default for p in attrs):
        usual = " and ".join(f"{where[p.name]} is D_{p.name}" for p in attrs)
        made = (
            "DEFAULTS"
            if usual == " and ".join(f"D_{p.name} is D_{p.name}" for p in attrs)
            else (f"DEFAULTS if {usual} else {made}")
        )
    if op.kind == "view":  # needed twice
        if not shared_chains(op):
            return "attrs_", [f"attrs_ = {made}"]
        key = where[attrs[0].name] if len(attrs) == 1 else f"({', '.join(where[p.name] for p in attrs)})"
        return "attrs_", [
            f"found_ = CHAINS.get({key})",
            f"if found_ is None: found_ = chain_of(CHAINS, {key}, OP, {made})",
            "attrs_, chain_ = found_",
        ]
    return made, []


def call_of(op: Op, arrays: list[str], where: dict[str, str], kernel: str = "kernel") -> str:
    """The call of the kernel; by position where its parameters stand in the order of the signature (quicker)."""
    names = [p.name for p in op.sig.attrs]
    code = getattr(op.kernel, "__code__", None)
    by_place = code is not None and code.co_varnames[len(arrays) : code.co_argcount] == tuple(names)
    by_place = by_place or getattr(op.kernel, "by_place", None) == tuple(names)
    call = f"{kernel}({', '.join([*arrays, *(where[n] if by_place else f'{n}={where[n]}' for n in names)])})"
    short = op.fields.get("short")
    if short is None:
        return call
    condition, expression = (x.format(*arrays, **where) for x in short)
    return f"({expression}) if {condition} else {call}" if condition else expression


def _picky(op: Op) -> bool:
    """Whether the fast path is for some dtypes alone: the rest is promoted or refused by the dispatcher."""
    return op.promote == "float" or "accepts" in op.fields


def _kinds(op: Op, d: str) -> str:
    """The condition on the dtype ``d`` of the operands of such an operator."""
    floats = op.promote == "float" or op.fields.get("accepts") == "float"
    return f"({d} is NP32 or {d} in FLOATS)" if floats else f"{d} is not NPBOOL"


def _takes_number(op: Op, i: int) -> bool:
    """Whether operand ``i`` may be a Python number on the fast path (beside a floating point first operand)."""
    if i == 0 or op.sig.tensors[i].type != "Tn" or op.sig.tensors[i].optional:
        return False
    return op.promote != "none" or op.fields.get("number_too", False)


def is_quick(op: Op) -> bool:
    """Whether calls of an operator without a generated fast path may take ``dispatch.quick``."""
    if op.kind in ("create", "view") or op.fields.get("draws") or not op.sig.tensors or op.nondiff:
        return False
    if "refuse" in op.fields or "promote_params" in op.fields or op.promote not in ("none", "same") or _picky(op):
        return False
    return bool(op.rules) and not general_kind(op) and not fast_kind(op) and not list_kind(op)
