"""Generates the Python function of every table operator: argument binding, and a fast path for plain arrays.

The source is assembled as text so that the signature is real (names, defaults, keyword-only markers, errors from
Python itself) and a call costs no argument parsing. ``deferred.source_of(op.fn)`` shows it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .autograd.modes import SLOW, STATE
from .autograd.node import Node, Storage, View, next_seq
from .backgen import backward_of
from .deferred import deferred
from .dispatch import DENSE, FAST, check_saved, dispatch, light_meta, meta_of, pointwise_meta, quick, replay, tie_view
from .meta import Meta, normalize_dim, normalize_dims
from .op import Op, Param, on_op
from .size_floats import SymbolicNumber
from .sizes import SymInt
from .tensor import Tensor, refresh

_FLOATS = {d.np for d in dtypes.ALL if d.is_floating_point}


class _Missing:
    """Default of a required argument that may come under another name."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()


def _write_out(name: str, out: Any, result: Any) -> Any:
    from .inplace import write_out  # above this module

    return write_out(name, out, result)


def all_ints(values: tuple) -> bool:
    """Whether all are plain ints."""
    for v in values:  # noqa: SIM110  (faster than all())
        if type(v) is not int:
            return False
    return True


def as_ints(value: Any, name: str = "size") -> tuple:
    """An int or a sequence of ints as a tuple."""
    if type(value) is tuple and all_ints(value):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_as_int(v, name) for v in value)
    return (_as_int(value, name),)


def _as_int(v: Any, name: str) -> Any:
    if type(v) is int or isinstance(v, SymInt):
        return v
    if isinstance(v, bool) or not hasattr(v, "__index__"):
        raise TypeError(f"argument '{name}' must be tuple of ints, but found element of type {type(v).__name__}")
    return v.__index__()


def as_shape(values: tuple, keyword: Any, name: str, fn: str) -> tuple:
    """A shape given as varargs, as one sequence, or by keyword."""
    if keyword is not None:
        if values:
            raise TypeError(f"{fn}() got multiple values for argument '{name}'")
        return as_ints(keyword, name)
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    if all_ints(values):
        return values
    return tuple(_as_int(v, name) for v in values)


def as_dtype(d: Any) -> Any:
    """A dtype argument; TypeError for what is not one."""
    if d is None or isinstance(d, dtypes.dtype):
        return d
    if d is float:
        return dtypes.get_default_dtype()
    if d is int:
        return dtypes.int64
    if d is bool:
        return dtypes.bool_
    raise TypeError(f"dtype must be a fusegrad dtype, not {type(d).__name__}")


def _convert(p: Param, first: str | None) -> str:
    """The statement that brings one static attribute into canonical form."""
    n, guard = p.name, f"if {p.name} is not None: " if p.optional else ""
    ndim = "nd" if first else "0"
    plain = f"if type({n}) is not int or not 0 <= {n} < {ndim}:"  # canonical already: no call
    if p.type == "dim":
        return f"{plain}\n    {guard}{n} = _dim({n}, {ndim})"
    if p.type == "dim+1":
        return f"{guard}{n} = _dim({n}, {ndim} + 1)"
    if p.type == "dims" and p.has_default and p.default == ():  # all dimensions, and canonical
        return f"if {n} is not D_{n}: {n} = ({n},) if type({n}) is int and 0 <= {n} < {ndim} else _dims({n}, {ndim})"
    if p.type == "dims":
        return f"{guard}{n} = ({n},) if type({n}) is int and 0 <= {n} < {ndim} else _dims({n}, {ndim})"
    if p.type == "ints":
        return f"{guard}{n} = _ints({n}, {n!r})"
    if p.type == "dtype":
        return f"if {n} is not None: {n} = _dtype({n})"
    return ""


def _ndim_line(op: Op) -> str:
    """The statement that finds the number of dimensions for ``_convert``; "" if nothing there asks for it."""
    sig = op.sig
    if not sig.tensors or not any(p.type in ("dim", "dim+1", "dims") for p in sig.attrs):
        return ""
    x = sig.tensors[0].name
    line = f"nd = {x}._data.ndim if type({x}) in FAST and {x}._data is not None else _ndim({x})"
    asking = [p for p in sig.attrs if p.type in ("dim", "dim+1", "dims")]
    if all(p.type == "dims" and p.has_default and p.default in (None, ()) for p in asking):
        given = " or ".join(f"{p.name} is not D_{p.name}" for p in asking)
        return f"if {given}: {line}"
    return line


def _ndim(t: Any) -> int:
    if isinstance(t, Tensor):
        return t.ndim
    if isinstance(t, (tuple, list)) and t and isinstance(t[0], Tensor):
        return t[0].ndim
    return 0


class _Text:
    """The pieces of one generated function."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.required: list[str] = []  # parameters whose absence the body has to report
        self.env: dict[str, Any] = {
            "OP": op,
            "_dispatch": dispatch,
            "_quick": quick,
            "_dim": normalize_dim,
            "_dims": normalize_dims,
            "_ints": as_ints,
            "_shape": as_shape,
            "_dtype": as_dtype,
            "_ndim": _ndim,
            "FAST": FAST,
            "SLOW": SLOW,
            "STATE": STATE,
            "Node": Node,
            "Storage": Storage,
            "next_seq": next_seq,
            "Tensor": Tensor,
            "new": object.__new__,
            "kernel": op.kernel,
            "ndarray": np.ndarray,
            "asarray": np.asarray,
            "refresh": refresh,
            "FLOATS": _FLOATS,
            "SAFE_INT": 2**24,
            "ok": _operand,
            "light_meta": meta_of if op.fields.get("meta_layout") else light_meta,
            "tie_view": tie_view,
            "View": View,
            "Meta": Meta,
            "check_saved": check_saved,
            "MISSING": MISSING,
            "NPBOOL": dtypes.bool_.np,
            "write_out": _write_out,
            "__name__": "fusegrad.calls",
            "NO_ATTRS": {},
            "FROM_NUMPY": dtypes.FROM_NUMPY,
            "F32": dtypes.float32,
            "NP32": dtypes.float32.np,
        }

    def parameters(self) -> str:
        out: list[str] = []
        star = False
        for p in self.op.sig.params:
            if p.type == "shape" and not p.keyword:
                out.append(f"*_{p.name}")
                out.append(f"{p.name}=None")
                star = True
                continue
            if p.keyword and not star:
                out.append("*")
                star = True
            if p.has_default:
                self.env[f"D_{p.name}"] = p.default
                out.append(f"{p.name}=D_{p.name}")
            elif p.name in ("dim", "keepdim") and not p.keyword and p.name in dict(self.synonyms()):
                out.append(f"{p.name}=MISSING")
            elif any(x.endswith("=MISSING") for x in out):
                out.append(f"{p.name}=MISSING")  # Python wants a default after a default
                self.required.append(p.name)
            else:
                out.append(p.name)
        if self.op.kind == "random" or self.op.fields.get("draws"):
            out += ([] if star else ["*"]) + ["generator=None", "seed=None", "draw=None"]
            star = True
        extra = [f"{numpy_name}=None" for _, numpy_name in self.synonyms()] + (["out=None"] if self.takes_out() else [])
        if extra:
            out += ([] if star else ["*"]) + extra
        return ", ".join(out)

    def synonyms(self) -> list[tuple[str, str]]:
        """numpy's names of parameters that this operator also takes, as PyTorch does."""
        names = {p.name for p in self.op.sig.params}
        return [(a, b) for a, b in (("dim", "axis"), ("keepdim", "keepdims")) if a in names and b not in names]

    def takes_out(self) -> bool:
        """Whether the function has ``out=``: operators that compute a new tensor from tensors."""
        sig = self.op.sig
        plain = self.op.kind in ("pointwise", "reduce", "gather", "extern", "composite") and "." not in sig.name
        names = {p.name for p in sig.params}
        return plain and bool(sig.tensors) and "out" not in names and not any(p.type == "shape" for p in sig.params)

    def preamble(self) -> list[str]:
        """Lines before everything else: synonyms, ``out=``."""
        sig = self.op.sig
        lines = []
        for name, other in self.synonyms():
            lines.append(f"if {other} is not None: {name} = {other}")
            if not next(p for p in sig.params if p.name == name).has_default:
                lines.append(
                    f"elif {name} is MISSING: raise TypeError(\"{sig.name}() missing 1 required argument: '{name}'\")"
                )
        for name in self.required:
            lines.append(
                f"if {name} is MISSING: raise TypeError(\"{sig.name}() missing 1 required argument: '{name}'\")"
            )
        if self.takes_out():
            given = [p.name if p.is_tensor else f"{p.name}={p.name}" for p in sig.params]
            lines.append(f"if out is not None: return write_out({sig.name!r}, out, OP.fn({', '.join(given)}))")
        return lines

    def body(self) -> list[str]:
        sig = self.op.sig
        first = sig.tensors[0].name if sig.tensors else None
        lines = [_ndim_line(self.op)]
        for p in sig.attrs:
            if p.type == "shape" and not p.keyword:
                keep = f"if {p.name} is not None or _{p.name}: " if p.optional else ""
                lines.append(f"{keep}{p.name} = _shape(_{p.name}, {p.name}, {p.name!r}, {sig.name!r})")
            elif p.type == "shape":
                lines.append(f"{p.name} = _ints({p.name}, {p.name!r})")
            else:
                lines += _convert(p, first).split("\n")
        if not fast_lines(self.op):
            lines += general_lines(self.op)
        args = ", ".join(p.name for p in sig.tensors) + ("," if sig.tensors else "")
        attrs = [f"{p.name!r}: {p.name}" for p in sig.attrs]
        if self.op.kind == "random" or self.op.fields.get("draws"):
            attrs += ["'generator': generator", "'seed': seed", "'draw': draw"]
        rest = f"OP, ({args}), {{{', '.join(attrs)}}}"
        if is_quick(self.op):
            conds = [f"type({p.name}) not in FAST" for p in sig.attrs if p.type in _MAY_BE_TENSOR]
            lines.append(f"if {' and '.join(conds)}: return _quick({rest})" if conds else f"return _quick({rest})")
        lines.append(f"return _dispatch({rest})")
        return [x for x in lines if x]


_MAY_BE_TENSOR = frozenset({"num", "float", "int", "any", "bool"})  # attributes that may be given as a tensor


def is_quick(op: Op) -> bool:
    """Whether calls of an operator without a generated fast path may take ``dispatch.quick``."""
    if op.kind in ("create", "view") or op.fields.get("draws") or not op.sig.tensors or op.nondiff:
        return False
    if "refuse" in op.fields or "promote_params" in op.fields or op.promote not in ("none", "same") or _picky(op):
        return False
    return bool(op.rules) and not general_lines(op) and not fast_lines(op)


def _operand(x: Any) -> bool:
    """Whether a binary operator takes ``x`` (else Python is told NotImplemented)."""
    return isinstance(x, (Tensor, int, float, np.number, np.bool_, SymInt, SymbolicNumber))


def _fast_unary(op: Op, x: str) -> list[str]:
    cond = f"type({x}) in FAST and not SLOW[0]"
    lines = [f"if {cond}:", f"    a = {x}._data", "    if a is not None:"]
    pad = "        "
    if _picky(op):
        lines.append(f"        if {_kinds(op, 'a')}:")
        pad += "    "
    lines += [
        pad + "try:",
        pad + "    r = kernel(a)",
        pad + "except (TypeError, FloatingPointError, RuntimeWarning):",
        pad + "    r = None",
        pad + "if r is not None:",
    ]
    return lines + _wrap(op, (x,), pad + "    ")


def _fast_binary(op: Op, x: str, y: str) -> list[str]:
    lines = [
        f"if type({x}) in FAST and not SLOW[0]:",
        f"    a = {x}._data",
        "    if a is not None:",
        "        r = None",
        "        try:",
        f"            if type({y}) in FAST:",
        f"                b = {y}._data",
    ]
    same = "b is not None and a.dtype is b.dtype"
    if _picky(op):
        same += f" and {_kinds(op, 'a')}"
    lines += [f"                if {same}:", "                    r = kernel(a, b)"]
    if op.sig.tensors[1].type == "Tn":
        number = f"type({y}) is float and a.dtype in FLOATS or type({y}) is int and -SAFE_INT < {y} < SAFE_INT and a.dtype in FLOATS"  # noqa: E501
        lines += [f"            elif {number}:", f"                r = kernel(a, {y})"]
    lines += [
        "        except (ValueError, TypeError, FloatingPointError, RuntimeWarning):",
        "            r = None",
        "        if r is not None:",
    ]
    return lines + _wrap(op, (x, y), "            ")


def _wrap(op: Op, names: tuple[str, ...], pad: str, attrs: str = "NO_ATTRS") -> list[str]:
    """Lines that wrap array ``r`` and record the node."""
    lines = [
        "if type(r) is not ndarray: r = asarray(r)",
        *(["elif not r.flags.c_contiguous: r = r.copy()"] if op.kind in DENSE else []),
        "t = new(Tensor)",
        "t._data = r",
        "t._g = None",
        "t._nr = 0",
        "t._st = None",
        "t._view = None",
        "t._grad = None",
        "t._extra = None",
    ]
    view = _tie(names[0], attrs) if op.kind == "view" else []
    if op.nondiff or not op.rules:
        return [pad + x for x in [*lines, "t._rg = False", "t._node = None", *view, "return t"]]
    for i, x in enumerate(names):
        if i == 0 or op.sig.tensors[i].type == "T" and not op.sig.tensors[i].optional:
            lines += [f"if {x}._view is not None: refresh({x})", f"rg{i} = {x}._rg"]
        else:
            lines.append(
                f"rg{i} = False if type({x}) not in FAST else {x}._rg if {x}._view is None else {x}.requires_grad"
            )
    needs = " or ".join(f"rg{i}" for i in range(len(names)))
    kind = "" if op.promote in ("same", "float") else " and r.dtype.kind == 'f'"
    lines += [
        f"if ({needs}) and STATE.grad{kind}:",
        *("    " + x for x in _node(op, names, attrs)),
        "    t._rg = True",
        "    t._node = node_",
        "else:",
        "    t._rg = False",
        "    t._node = None",
        *view,
        "return t",
    ]
    return [pad + x for x in lines]


def _tie(x: str, attrs: str) -> list[str]:
    """The inlined form of ``dispatch.tie_view``, for the usual case."""
    return [
        f"b, rec = r.base, {x}._view",
        "if b is not None and (b is a0 or b is a0.base) and STATE.grad:",
        f"    st = {x}._st",
        f"    if st is None: st = {x}._st = Storage()",
        "    t._st = st",
        "    t._view = v = new(View)",
        "    if rec is None:",
        f"        v.base, v.chain, v.made = {x}, ((OP, {attrs}, None),), None",
        "    else:",
        f"        v.base, v.chain, v.made = rec.base, (*rec.chain, (OP, {attrs}, None)), rec.made",
        "    v.version = st.version",
        f"    if {x}._extra is not None and {x}._extra.inference: tie_view(OP, {x}, t, {attrs})",
        "else:",
        f"    tie_view(OP, {x}, t, {attrs})",
    ]


def _node(op: Op, names: tuple[str, ...], attrs: str) -> list[str]:
    """Lines that make the node ``n`` (the inlined form of dispatch.record and save)."""
    params = [p.name for p in op.sig.tensors]
    lines = ["node_ = new(Node)", "node_.op = OP"]
    edge = [f"(({x}._node or {x}) if rg{i} else None)" for i, x in enumerate(names)]
    nr = [f"({x}._nr if rg{i} else 0)" for i, x in enumerate(names)]
    if len(names) == 1:
        edge, nr = [f"{names[0]}._node or {names[0]}"], [f"{names[0]}._nr"]
    lines += [f"node_.edges = ({', '.join(edge)},)", f"node_.nrs = ({', '.join(nr)},)"]
    saved, versions = [], []
    inline = len(names) == 1 and not op.fields.get("meta_layout")
    if inline and any(params[0] + "_meta" in r.names for r in op.rules.values()):
        a = "a" if fast_kind(op) else "a0"  # the inlined form of light_meta
        lines += [
            "m = new(Meta)",
            f"m.shape, m.dtype, m.strides, m.weak = {a}.shape, FROM_NUMPY[{a}.dtype], None, False",
        ]
    for i, (p, x) in enumerate(zip(params, names, strict=True)):
        # a rule of input q needs p: kept only if q needs a gradient
        cond = _needed([q for q, r in op.rules.items() if p in r.names], params)
        cond_meta = _needed([q for q, r in op.rules.items() if p + "_meta" in r.names], params)
        sure = i == 0 or op.sig.tensors[i].type == "T" and not op.sig.tensors[i].optional
        is_t = "" if sure else f"type({x}) in FAST and "
        meta = "m" if inline else f"light_meta({x})"
        if cond is None:
            saved.append(
                "None" if cond_meta is None else meta if cond_meta == "True" else f"({meta} if {cond_meta} else None)"
            )
            versions.append("0")
            continue
        # tensors made in inference mode have an _extra
        lines.append(f"if {is_t}{x}._extra is not None and ({cond}): check_saved({x})")
        other = "None" if cond_meta is None else f"({meta} if {cond_meta} else None)"
        saved.append(x if cond == "True" else f"({x} if {cond} else {other})")
        versions.append(f"({x}._st.version if {is_t}{x}._st is not None else 0)")
    lines += [f"node_.saved = ({', '.join(saved)},)", f"node_.versions = ({', '.join(versions)},)"]
    kept = _needed([q for q, r in op.rules.items() if "out" in r.names or "out0" in r.names], params)
    lines.append("node_.out = None")
    if kept is not None:
        test = "" if kept == "True" else f"if {kept}: "
        lines.append(f"{test}st = t._st = Storage(); node_.out = [(r, st, 0)]")
    lines += [
        f"node_.attrs = {attrs}",
        "node_.shape = r.shape",
        "d = r.dtype",
        "node_.dtype = F32 if d is NP32 else FROM_NUMPY[d]",
        "node_.seq = next_seq()",
        "node_.hooks = None",
        "node_.freed = False",
        "node_.trace = None",
    ]
    return lines


def _needed(users: list[str], params: list[str]) -> str | None:
    """Condition under which one of the rules ``users`` runs; None if there is no such rule."""
    if not users:
        return None
    if "*" in users:
        return "True"
    if len(params) == 1:
        return "True"
    return " or ".join(f"rg{params.index(q)}" for q in users)


def general_lines(op: Op, values: dict[str, str] | None = None) -> list[str]:
    """A fast path for operators of any kind: plain tensors of one dtype, one output; attributes are canonical here.

    ``values``: where an attribute's value is found, if not under its own name.
    """
    sig = op.sig
    if op.kind in ("create", "random") or op.fields.get("draws") or op.n_out != 1 or not sig.tensors:
        return []
    if any(p.type == "T[]" for p in sig.tensors) or "promote_params" in op.fields or sig.tensors[0].optional:
        return []
    names = tuple(p.name for p in sig.tensors)
    where = values or {p.name: p.name for p in sig.attrs}
    conds, arrays = ["not SLOW[0]"], []
    for i, p in enumerate(sig.tensors):
        also = f" or {p.name} is None" if p.optional else ""
        if _takes_number(op, i):
            also += f" or type({p.name}) is float or type({p.name}) is int and -SAFE_INT < {p.name} < SAFE_INT"
        conds.append(f"(type({p.name}) in FAST{also})")
    conds += [f"type({where[p.name]}) not in FAST" for p in sig.attrs if p.type in _MAY_BE_TENSOR]
    lines = [f"if {' and '.join(conds)}:"]
    good = []
    for i, p in enumerate(sig.tensors):
        same = "" if op.promote == "none" or i == 0 else f" and a{i}.dtype is a0.dtype"
        test = f"a{i} is not None{same}"
        if _takes_number(op, i):
            lines.append(f"    a{i} = {p.name}._data if type({p.name}) in FAST else {p.name}")
            test = f"({test} if type({p.name}) in FAST else a0.dtype in FLOATS)"
        elif p.optional:
            lines.append(f"    a{i} = {p.name}._data if {p.name} is not None else None")
            test = f"({p.name} is None or {test})"
        else:
            lines.append(f"    a{i} = {p.name}._data")
        good.append(test)
        arrays.append(f"a{i}")
    if _picky(op):
        good.append(_kinds(op, "a0"))
    attrs = "{" + ", ".join(f"{p.name!r}: {where[p.name]}" for p in sig.attrs) + "}"
    call = ", ".join([*arrays, *(f"{p.name}={where[p.name]}" for p in sig.attrs)])
    lines += [
        f"    if {' and '.join(good)}:",
        *([f"        attrs_ = {attrs}"] if sig.attrs else []),
        "        try:",
        f"            r = kernel({call})",
        "        except (ValueError, TypeError, IndexError, FloatingPointError, RuntimeWarning):",
        "            r = None",
        "        if r is not None and type(r) is not tuple:",
    ]
    return lines + _wrap(op, names, "            ", "attrs_" if sig.attrs else "NO_ATTRS")


def _picky(op: Op) -> bool:
    """Whether the fast path is for some dtypes alone: the rest is promoted or refused by the dispatcher."""
    return op.promote == "float" or "accepts" in op.fields


def _kinds(op: Op, array: str) -> str:
    """The condition on the dtype of ``array`` of such an operator."""
    floats = op.promote == "float" or op.fields.get("accepts") == "float"
    return f"{array}.dtype in FLOATS" if floats else f"{array}.dtype is not NPBOOL"


def _takes_number(op: Op, i: int) -> bool:
    """Whether operand ``i`` may be a Python number on the fast path (beside a floating point first operand)."""
    return i > 0 and op.sig.tensors[i].type == "Tn" and not op.sig.tensors[i].optional and op.promote != "none"


def fast_kind(op: Op) -> bool:
    """Whether ``fast_lines`` has a path for the operator."""
    sig = op.sig
    if op.kind != "pointwise" or op.n_out != 1 or any(p.type == "T[]" or p.optional for p in sig.tensors):
        return False
    if op.promote == "none" or "promote_params" in op.fields:
        return False
    if not isinstance(op.kernel, np.ufunc):
        return False
    return not sig.attrs and len(sig.tensors) in (1, 2)  # attributes change the kernel: general path


def fast_lines(op: Op) -> list[str]:
    """The fast path of a pointwise operator whose kernel is a plain array function; [] if it has none."""
    if not fast_kind(op):
        return []
    names = [p.name for p in op.sig.tensors]
    return _fast_unary(op, names[0]) if len(names) == 1 else _fast_binary(op, names[0], names[1])


def finish(op: Op) -> None:
    """Generate ``op.fn``; fill in the default meta rule and the backward."""
    if op.meta is None and op.kind == "pointwise":
        op.meta = pointwise_meta(op)
    name = op.name.split(".")[-1]

    def build() -> tuple[str, dict[str, Any]]:
        text = _Text(op)
        lines = [f"def {name}({text.parameters()}):"]
        return "\n".join(lines + ["    " + x for x in text.preamble() + fast_lines(op) + text.body()]), text.env

    fn: Any = deferred(name, f"<fusegrad op {op.name}>", build)
    fn.__module__ = "fusegrad"
    fn.__doc__ = op.doc or f"{op.sig.text}"
    fn.op = op
    op.fn = fn
    op.backward = backward_of(op)
    op.replay = _Replay(op)  # type: ignore[attr-defined]


class _Replay:
    __slots__ = ("op",)

    def __init__(self, op: Op) -> None:
        self.op = op

    def __call__(self, t: Tensor, attrs: dict) -> Any:
        return replay(self.op, t, attrs)


def dunder_of(op: Op, method: str) -> Any:
    """A binary special method: like the function, NotImplemented for operands it does not know; ``__r*__`` swaps."""
    names = [p.name for p in op.sig.tensors]
    if len(names) == 1:
        return op.fn
    x, y = names[:2]
    swapped = method.startswith("__r") and method not in ("__rshift__",)

    def build() -> tuple[str, dict[str, Any]]:
        text = _Text(op)
        attrs = ", ".join(f"{p.name!r}: D_{p.name}" for p in op.sig.attrs)
        for p in op.sig.attrs:
            text.env[f"D_{p.name}"] = p.default
        fast = [] if swapped else fast_lines(op) or general_lines(op, {p.name: f"D_{p.name}" for p in op.sig.attrs})
        lines = [f"def {method}({y if swapped else x}, {x if swapped else y}):"]
        lines += [
            "    " + ln
            for ln in [
                *fast,
                f"if not ok({x if swapped else y}): return NotImplemented",
                f"return _dispatch(OP, ({x}, {y}), {{{attrs}}})",
            ]
        ]
        return "\n".join(lines), text.env

    return deferred(method, f"<fusegrad {method}>", build)


on_op.append(finish)
