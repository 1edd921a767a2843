"""Lines of generated functions that wrap the result, record its node, and tie a view to its base.

They are the inlined forms of ``tensor.wrap``, ``dispatch.record``, ``dispatch.save`` and ``dispatch.tie_view``: what
those find out from the table at every call is settled here when the function is generated. The names they use stand
in ``ENV``. Every attribute that is stored, and every object that is made, costs a call 5 and 80 nanoseconds, so objects
that most calls don't need are made when they are asked for, or shared: dictionaries of default attributes, Metas.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from . import dtypes
from .autograd.modes import NO_GRAD, RUNNING, STATE
from .autograd.node import Node, Severed, Storage, View, mark_young, next_seq
from .dispatch import DENSE, FAST, META32, check_saved, light_meta, meta_of, shared_meta, tie_view
from .meta import Meta
from .op import Op
from .tensor import Tensor, refresh

_EXACT = frozenset(
    {"dim", "dim+1", "dims", "ints", "shape", "int"}
)  # attributes that are equal only if they are the same


def shared_chains(op: Op) -> bool:
    """Whether views of one operator with equal attributes share those, and the record of how they were made."""
    return all(p.type in _EXACT for p in op.sig.attrs) and bool(op.sig.attrs)


def chain_of(chains: dict[Any, tuple], key: Any, op: Op, attrs: dict[str, Any]) -> tuple:
    """The attributes and the chain of a view of a tensor that is none itself, remembered under ``key``."""
    if len(chains) >= 256:
        chains.clear()
    found = chains[key] = attrs, ((op, attrs, None),)
    return found


ENV: dict[str, Any] = {
    "FAST": FAST,
    "STATE": STATE,
    "NO_GRAD": NO_GRAD,
    "RUNNING": RUNNING,
    "mark_young": mark_young,
    "Node": Node,
    "Storage": Storage,
    "View": View,
    "Meta": Meta,
    "Tensor": Tensor,
    "new_tensor": partial(object.__new__, Tensor),  # quicker than object.__new__(Tensor)
    "next_seq": next_seq,
    "ndarray": np.ndarray,
    "asarray": np.asarray,
    "refresh": refresh,
    "Severed": Severed,
    "tie_view": tie_view,
    "chain_of": chain_of,
    "check_saved": check_saved,
    "shared_meta": shared_meta,
    "META32": META32,
    "NO_ATTRS": {},
    "FROM_NUMPY": dtypes.FROM_NUMPY,
    "F32": dtypes.float32,
    "NP32": dtypes.float32.np,
}


def node_env(op: Op) -> dict[str, Any]:
    """Globals that the lines for ``op`` need beside ``ENV``."""
    return {
        "OP": op,
        "CHAINS": {},
        "light_meta": meta_of if op.fields.get("meta_layout") else light_meta,
        "DEFAULTS": {p.name: p.default for p in op.sig.attrs},
    }


def is_fast(x: str) -> str:
    """The condition that ``x`` is a plain tensor."""
    return f"(type({x}) is Tensor or type({x}) in FAST)"


def stale(x: str) -> str:
    """The condition that ``x`` is a view which ``refresh`` may have to tie to the history of its base."""
    return (
        f"{x}._view is not None and ({x}._view.version != {x}._st.version or not {x}._rg or type({x}._node) is Severed)"
    )


_AGE = "if RUNNING: mark_young({})"
GRAD_ON = "(not NO_GRAD or STATE.grad)"


class Operand:
    """An operand in generated lines: its name, the condition that it is a tensor ("" if that is sure), its value.

    ``value``: the name under which a number in its place is found. ``many``: a list of tensors (refreshed already; its
    ``rg`` is set).
    """

    def __init__(self, name: str, sure: str = "", value: str = "", many: bool = False) -> None:
        self.name, self.sure, self.value, self.many = name, sure, value or name, many

    def when(self, condition: str) -> str:
        """``condition`` on the operand, false where it is no tensor."""
        return f"{self.sure} and {condition}" if self.sure else condition


def wrap_lines(op: Op, operands: list[Operand], attrs: str, *, dtype: str | None = None) -> list[str]:
    """Lines that wrap array ``r``, record the node and return.

    ``attrs``: the expression of the attributes; ``dtype``: where the dtype of ``r`` is known already.
    """
    lines = [*_finish_lines(op, operands, attrs), *_array_lines(op, "r"), *_tensor_lines("t", "r")]
    view = _tie_lines(operands[0].name, attrs, shared_chains(op)) if op.kind == "view" else []
    if op.nondiff or not op.rules:
        return [*lines, "t._rg = False", "t._node = None", *(view or [_AGE.format("t")]), "return t"]
    if view:
        lines.append("d = a0.dtype")
        dtype = "d"
    before, needs = _asking(operands)
    kind = "" if op.promote in ("same", "float") else f" and ({dtype or 'r.dtype'} is NP32 or r.dtype.kind == 'f')"
    d = dtype or "d"
    return [
        *lines,
        *before,
        f"if {needs} and {GRAD_ON}{kind}:",
        *("    " + x for x in _node_lines(op, operands, attrs)),
        *("    " + x for x in _kept_output(op)),
        "    node_.shape = r.shape",
        *([] if dtype else ["    d = r.dtype"]),
        f"    node_.dtype = F32 if {d} is NP32 else FROM_NUMPY[{d}]",
        "    t._rg = True",
        "    t._node = node_",
        "else:",
        "    t._rg = False",
        "    t._node = None",
        *(view or ["    " + _AGE.format("t")]),
        "return t",
    ]


def _finish_lines(op: Op, operands: list[Operand], attrs: str, name: str = "finish") -> list[str]:
    """The line that leaves all of it to machine code (``callnative``), which gives None for what is not usual."""
    from .callnative import plan_of  # above this module

    if plan_of(op) is None:
        return []
    if op.nondiff or not op.rules:
        attrs = "None"
    elif not attrs.isidentifier():  # made only for a node
        asks = [f"rg{i}" if x.many else x.when(x.name + "._rg") for i, x in enumerate(operands)]
        attrs = f"({attrs}) if {' or '.join(asks)} else None"
    chain = ["chain_" if shared_chains(op) else "((OP, attrs_, None),)"] if op.kind == "view" else []
    given = ", ".join(["r", attrs, *chain, *(x.value for x in operands)])
    return [f"if {name} is not None and (t := {name}({given})) is not None: return t"]


def several_lines(op: Op, operands: list[Operand], attrs: str, first: bool) -> list[str]:
    """The same for the tuple ``r`` of the arrays of an operator with several results.

    ``first``: the caller wants the first alone, and no Tensors are made of the others.
    """
    every = range(op.n_out)
    made = range(1) if first else every
    lines = _finish_lines(op, operands, attrs, "finish_first" if first else "finish")
    lines.append(", ".join(f"r{i}" for i in every) + " = r")
    for i in every:
        lines += _array_lines(op, f"r{i}")
    for i in made:
        lines += _tensor_lines(f"t{i}", f"r{i}")
    end = f"return {', '.join(f't{i}' for i in made)}"
    without = [x for i in made for x in (f"t{i}._rg = False", f"t{i}._node = None", _AGE.format(f"t{i}"))]
    if op.nondiff or not op.rules:
        return [*lines, *without, end]
    before, needs = _asking(operands)
    lines += [*before, f"if {needs} and {GRAD_ON}:"]
    inner = [*_node_lines(op, operands, attrs), *_kept_outputs(op, [*made])]
    inner.append(f"node_.shape = {', '.join(f'r{i}.shape' for i in every)}")
    inner += [f"d{i} = r{i}.dtype" for i in every]
    inner.append(f"node_.dtype = {', '.join(f'F32 if d{i} is NP32 else FROM_NUMPY[d{i}]' for i in every)}")
    for i in made:
        nr = f"; t{i}._nr = {i}" if i else ""
        inner.append(f"if d{i} is NP32 or d{i}.kind == 'f': t{i}._rg = True; t{i}._node = node_{nr}")
        inner += ["else:", f"    t{i}._rg = False; t{i}._node = None", "    " + _AGE.format(f"t{i}")]
    return [*lines, *("    " + x for x in inner), "else:", *("    " + x for x in without), end]


def _array_lines(op: Op, r: str) -> list[str]:
    """Lines that make sure that ``r`` is an array, in the layout that the kind of the operator promises."""
    dense = [f"elif not {r}.flags.c_contiguous: {r} = {r}.copy()"] if op.kind in DENSE else []
    return [f"if type({r}) is not ndarray: {r} = asarray({r})", *dense]


def _tensor_lines(t: str, r: str) -> list[str]:
    """Lines that make Tensor ``t`` of array ``r``; its ``_rg`` and ``_node`` follow."""
    return [
        f"{t} = new_tensor()",
        f"{t}._data = {r}",
        f"{t}._nr = 0",
        f"{t}._g = {t}._st = {t}._view = {t}._grad = {t}._extra = None",
    ]


def _asking(operands: list[Operand]) -> tuple[list[str], str]:
    """Lines that find which operands need a gradient (``rg0``, ``rg1``...), and the condition that one does."""
    lines = []
    for i, x in enumerate(operands):
        if not x.many:
            lines += [f"if {x.when(stale(x.name))}: refresh({x.name})", f"rg{i} = {x.when(x.name + '._rg')}"]
    needs = " or ".join(f"rg{i}" for i in range(len(operands)))
    return lines, f"({needs})" if len(operands) > 1 else needs


def _tie_lines(x: str, attrs: str, shared: bool) -> list[str]:
    """The inlined form of ``dispatch.tie_view``, for the usual case."""
    chain, more = (f"((OP, {attrs}, None),)", f"(OP, {attrs}, None)") if not shared else ("chain_", "*chain_")
    return [
        f"b, rec = r.base, {x}._view",
        f"if b is not None and (b is a0 or b is a0.base) and {GRAD_ON}:",
        f"    st = {x}._st",
        f"    if st is None: st = {x}._st = Storage(); st.version = 0",
        "    t._st = st",
        "    t._view = v = View()",
        "    if rec is None:",
        f"        v.base, v.chain, v.made = {x}, {chain}, None",
        "    else:",
        f"        v.base, v.chain, v.made = rec.base, (*rec.chain, {more}), rec.made",
        "    v.version = st.version",
        f"    if {x}._extra is not None and {x}._extra.inference: tie_view(OP, {x}, t, {attrs})",
        "else:",
        f"    tie_view(OP, {x}, t, {attrs})",
    ]


def _node_lines(op: Op, operands: list[Operand], attrs: str) -> list[str]:
    """Lines that make ``node_``, all but what comes from the results, for an operand or more that need a gradient."""
    lines = ["node_ = Node()", "node_.op = OP"]
    if any(x.many for x in operands):
        lines += _collected(op, operands)
        edges, nrs = "(*edges,)", "(*nrs,)"
    elif len(operands) == 1:
        x = operands[0].name
        edges, nrs = f"({x}._node or {x},)", f"({x}._nr,)"
    else:
        edges = ", ".join(f"(({x.name}._node or {x.name}) if rg{i} else None)" for i, x in enumerate(operands))
        some = " or ".join(f"rg{i} and {x.name}._nr" for i, x in enumerate(operands))
        nrs = ", ".join(f"{x.name}._nr if rg{i} else 0" for i, x in enumerate(operands))
        edges, nrs = f"({edges},)", f"({nrs},) if {some} else {(0,) * len(operands)}"
    before, saved, versions = _saved(op, operands)
    return [
        *lines,
        f"node_.edges = {edges}",
        f"node_.nrs = {nrs}",
        *before,
        f"node_.saved = {saved}",
        f"node_.versions = {versions}",
        f"node_.attrs = {attrs}",
        "node_.seq = next_seq()",
        "node_.hooks = None",
    ]


def _asked(op: Op, nr: int) -> str | None:
    """The condition that a node keeps its output ``nr``; None if no rule names it."""
    names = {f"out{nr}", *(["out"] if nr == 0 else [])}
    return _needed([q for q, r in op.rules.items() if names & {*r.names}], [p.name for p in op.sig.tensors])


def _kept_output(op: Op) -> list[str]:
    """Lines that keep the one output where the rules need it."""
    cond = _asked(op, 0)
    if cond is None:
        return ["node_.out = None"]
    keep = "st = t._st = Storage(); st.version = 0; node_.out = [(r, st, 0)]"
    return [keep] if cond == "True" else [f"if {cond}: {keep}", "else: node_.out = None"]


def _kept_outputs(op: Op, made: list[int]) -> list[str]:
    """The same for several; those that no Tensor shows (not in ``made``) are never changed, and share a Storage."""
    lines, kept, conds = [], [], []
    for i in range(op.n_out):
        cond = _asked(op, i)
        if cond is None:
            kept.append("None")
            continue
        conds.append(cond)
        st = f"st{i}" if i in made else "hidden"
        entry = f"(r{i}, {st}, 0)"
        kept.append(entry if cond == "True" else f"{entry} if {cond} else None")
        if i in made:
            only = "" if cond == "True" else f"if {cond}: "
            lines.append(f"{only}st{i} = t{i}._st = Storage(); st{i}.version = 0")
        elif "hidden = Storage(); hidden.version = 0" not in lines:
            lines.append("hidden = Storage(); hidden.version = 0")
    whole = f"[{', '.join(kept)}]"
    if not conds:
        return ["node_.out = None"]
    some = "" if "True" in conds else f" if {' or '.join(conds)} else None"
    return [*lines, f"node_.out = {whole}{some}"]


def _collected(op: Op, operands: list[Operand]) -> list[str]:
    """Lines that collect the edges of all tensors, and what is kept of those in a list (``kept``, ``versions``)."""
    wanted = op.rules["*"].names
    lines = ["edges, nrs = [], []"]
    for i, (p, x) in enumerate(zip(op.sig.tensors, operands, strict=True)):
        if not x.many:
            lines += [
                f"edges.append(({x.name}._node or {x.name}) if rg{i} else None)",
                f"nrs.append({x.name}._nr if rg{i} else 0)",
            ]
            continue
        each = ["edges.append((x_._node or x_) if x_._rg else None)", "nrs.append(x_._nr if x_._rg else 0)"]
        if p.name in wanted:
            lines.append("versions = []")
            each += [
                "if x_._extra is not None: check_saved(x_)",
                "versions.append(x_._st.version if x_._st is not None else 0)",
            ]
        elif p.name + "_meta" in wanted:
            lines.append("kept = []")
            each += [
                "a = x_._data",
                "s, d = a.shape, a.dtype",
                "m = META32.get(s) if d is NP32 else None",
                "kept.append(shared_meta(s, d) if m is None else m)",
            ]
        lines += [f"for x_ in {x.name}:", *("    " + e for e in each)]
    return lines


def _saved(op: Op, operands: list[Operand]) -> tuple[list[str], str, str]:
    """Lines that go before, and the expressions of what the node keeps and of its versions."""
    params = [p.name for p in op.sig.tensors]
    lines, saved, versions, stores = [], [], [], []
    inline = len(operands) == 1 and not operands[0].many and not op.fields.get("meta_layout")
    if inline and any(params[0] + "_meta" in r.names for r in op.rules.values()):
        lines += ["s, d = a0.shape, a0.dtype", "m = META32.get(s) if d is NP32 else None"]
        lines += ["if m is None: m = shared_meta(s, d)"]
    for p, x in zip(params, operands, strict=True):
        # a rule of input q needs p: kept only if q needs a gradient
        cond = _needed([q for q, r in op.rules.items() if p in r.names], params)
        cond_meta = _needed([q for q, r in op.rules.items() if p + "_meta" in r.names], params)
        if x.many:
            value = cond is not None
            saved.append(f"tuple({x.name})" if value else "None" if cond_meta is None else "kept")
            versions.append("tuple(versions)" if value else "0")
            stores += ["True"] if value else []
            continue
        meta = "m" if inline else f"light_meta({x.value})"
        if cond is None:
            saved.append("None" if cond_meta is None else _if(cond_meta, meta, "None"))
            versions.append("0")
            continue
        # tensors made in inference mode have an _extra
        unsafe = x.when(f"{x.name}._extra is not None")
        lines.append(f"if {unsafe}{'' if cond == 'True' else f' and ({cond})'}: check_saved({x.name})")
        saved.append(_if(cond, x.value, "None" if cond_meta is None else _if(cond_meta, meta, "None")))
        stores.append(x.when(f"{x.name}._st is not None"))
        versions.append(f"({x.name}._st.version if {stores[-1]} else 0)")
    now = f"({', '.join(versions)},)"
    if stores and "True" not in stores:
        now = f"{now} if {' or '.join(stores)} else {(0,) * len(params)}"
    return lines, f"({', '.join(saved)},)", now


def _if(cond: str, value: str, other: str) -> str:
    return value if cond == "True" else f"({value} if {cond} else {other})"


def _needed(users: list[str], params: list[str]) -> str | None:
    """Condition under which one of the rules ``users`` runs; None if there is no such rule."""
    if not users:
        return None
    if "*" in users or len(params) == 1 or {*users} == {*params}:
        return "True"
    return " or ".join(f"rg{params.index(q)}" for q in users)
