"""Generates the Python function of every table operator: argument binding, and a fast path for plain arrays.

The source is assembled as text so that the signature is real (names, defaults, keyword-only markers, errors from
Python itself) and a call costs no argument parsing. ``deferred.source_of(op.fn)`` shows it. ``callargs`` has the
statements about arguments, ``callfast`` the fast paths, ``callnode`` what wraps and records a result.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from . import callfast, callnode, dtypes
from .arguments import as_dim, as_dims, as_dtype, as_ints, as_shape
from .backgen import backward_of
from .callargs import DIMS, MISSING, convert_lines, ndim_line, ndim_of, shape_lines, tensor_lines
from .callfast import MAY_BE_TENSOR, fast_kind, fast_lines, general_lines, is_quick, number_first_lines
from .deferred import deferred
from .dispatch import dispatch, pointwise_meta, quick, replay
from .op import Inline, Op, on_op
from .place import Size
from .size_values import SymbolicNumber, SymbolicSize
from .tensor import Tensor, wrap


def _write_out(name: str, out: Any, result: Any, operands: tuple = ()) -> Any:
    from .inplace import write_out  # above this module

    return write_out(name, out, result, operands)


class _Text:
    """The pieces of one generated function."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.required: list[str] = []  # parameters whose absence the body has to report
        self.env: dict[str, Any] = {
            **callnode.ENV,
            **callfast.ENV,
            **callnode.node_env(op),
            "kernel": op.kernel,
            "_dispatch": dispatch,
            "_quick": quick,
            "_dim": as_dim,
            "_dims": as_dims,
            "_ints": as_ints,
            "_shape": as_shape,
            "_dtype": as_dtype,
            "_ndim": ndim_of,
            "ok": _operand,
            "comparable": _comparable,
            "MISSING": MISSING,
            "write_out": _write_out,
            "__name__": "fusegrad.calls",
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
            parts = self.op.kind == "pointwise" or "out_apart" in self.op.fields
            apart = "".join(f"{p.name}, " for p in sig.tensors) if parts else ""
            call = f"OP.fn({', '.join(given)})"
            lines.append(f"if out is not None: return write_out({sig.name!r}, out, {call}, ({apart}))")
        return lines

    def body(self, first: bool = False, short: bool = False) -> list[str]:
        """Everything after the preamble. ``first``: of several results, the first alone is returned. ``short``: without
        the lines that serve tensors with data."""
        sig = self.op.sig
        lines = [*tensor_lines(self.op, self.env), ndim_line(self.op)]
        for p in sorted(sig.attrs, key=lambda p: p.type in DIMS):  # wrong types are refused before wrong dimensions
            if p.type == "shape" and not p.keyword:
                lines += shape_lines(self.op, p, self.env)
            else:
                lines += convert_lines(self.op, p, self.env).split("\n")
        if not short and not fast_kind(self.op):
            lines += general_lines(self.op, first=first)
        args = ", ".join(p.name for p in sig.tensors) + ("," if sig.tensors else "")
        attrs = [f"{p.name!r}: {p.name}" for p in sig.attrs]
        if self.op.kind == "random" or self.op.fields.get("draws"):
            attrs += ["'generator': generator", "'seed': seed", "'draw': draw"]
        rest = f"OP, ({args}), {{{', '.join(attrs)}}}"
        if is_quick(self.op):
            conds = [f"type({p.name}) not in FAST" for p in sig.attrs if p.type in MAY_BE_TENSOR]
            lines.append(f"if {' and '.join(conds)}: return _quick({rest})" if conds else f"return _quick({rest})")
        lines.append(f"return _dispatch({rest}){'[0]' if first else ''}")
        return [x for x in lines if x]


def _function(head: str, lines: list[str]) -> str:
    return "\n".join([f"def {head}:", *("    " + line for line in lines)])


def inlined(inline: Inline, env: dict[str, Any], also: str) -> list[str]:
    """Lines for a published function whose usual call is one operator's; what they need is put into ``env``.

    ``also``: a condition on the function's parameters.
    """
    op, given = inline.op, dict(inline.given)
    made = [f"e_{p.name} = {given[p.name]}" for p in op.sig.attrs if not given.get(p.name, "x").isidentifier()]
    given |= {line.split(" = ")[0].removeprefix("e_"): line.split(" = ")[0] for line in made}
    when = " and ".join(x for x in (also, inline.when) if x)
    for p in op.sig.attrs if all(p.has_default for p in op.sig.attrs) else ():
        if env.setdefault(f"D_{p.name}", p.default) is not p.default:
            raise ValueError(f"{op.name}: the function's default of {p.name!r} is not the operator's")
    env.update({k: v for k, v in {**_Text(op).env, "Size": Size, **inline.using}.items() if k not in env})
    lines = general_lines(op, given, when=when, made=made, call=inline.call)
    if inline.kind is not None:
        several = ", ".join(f"t{i}" for i in range(op.n_out))
        env["made_"] = partial(tuple.__new__, inline.kind)
        lines = [x.replace(f"return {several}", f"return made_(({several}))") for x in lines]
        lines = [x.replace("is not None: return t", "is not None: return made_(t)") for x in lines]
    if not inline.ints:
        return lines
    n = inline.ints  # given one by one, or in one sequence
    return [
        f"ints_ = {n}",
        f"if len({n}) == 1 and (k_ := type({n}[0])) is not int and (k_ is tuple or k_ is Size or k_ is list):",
        f"    {n} = tuple({n}[0])",
        f"for v in {n}:",
        f"    if type(v) is not int or v < {inline.least}: break",
        "else:",
        *("    " + x for x in lines),
        f"{n} = ints_",
    ]


def _operand(x: Any) -> bool:
    """Whether a binary operator takes ``x`` (else Python is told NotImplemented)."""
    return isinstance(x, (Tensor, int, float, np.number, np.bool_, SymbolicSize, SymbolicNumber))


def _comparable(x: Any) -> Any:
    """An array of numbers as a tensor. Without it ``t == array`` is one bool: Python's comparison of identities."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        try:
            dtypes.from_numpy_dtype(x.dtype.newbyteorder("="))
        except TypeError:
            return x
        return wrap(np.array(x, x.dtype.newbyteorder("="), order="C"))
    return x


def finish(op: Op) -> None:
    """Generate ``op.fn``; fill in the default meta rule and the backward."""
    if op.meta is None and op.kind == "pointwise":
        op.meta = pointwise_meta(op)
    name = op.name.split(".")[-1]

    def build(short: bool = False) -> tuple[str, dict[str, Any]]:
        text = _Text(op)
        lines = [*text.preamble(), *([] if short else fast_lines(op)), *text.body(short=short)]
        return _function(f"{name}({text.parameters()})", lines), text.env

    def build_first(short: bool = False) -> tuple[str, dict[str, Any]]:
        text = _Text(op)
        return _function(f"first({text.parameters()})", text.preamble() + text.body(first=True, short=short)), text.env

    fn: Any = deferred(name, f"<fusegrad op {op.name}>", build, two=True)
    fn.__module__ = "fusegrad"
    fn.__doc__ = op.doc or f"{op.sig.text}"
    fn.op = op
    op.fn = fn
    if op.n_out > 1:
        op.first = deferred("first", f"<fusegrad op {op.name}, first result>", build_first, two=True)
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

    def build(short: bool = False) -> tuple[str, dict[str, Any]]:
        text = _Text(op)
        attrs = ", ".join(f"{p.name!r}: D_{p.name}" for p in op.sig.attrs)
        for p in op.sig.attrs:
            text.env[f"D_{p.name}"] = p.default
        fast = []
        if not short:
            fast = number_first_lines(op) if swapped else fast_lines(op)
            if not swapped and not fast:
                fast = general_lines(op, {p.name: f"D_{p.name}" for p in op.sig.attrs})
        lines = [
            *fast,
            *([f"{y} = comparable({y})"] if method in ("__eq__", "__ne__") else []),
            f"if not ok({x if swapped else y}): return NotImplemented",
            f"return _dispatch(OP, ({x}, {y}), {{{attrs}}})",
        ]
        return _function(f"{method}({y if swapped else x}, {x if swapped else y})", lines), text.env

    return deferred(method, f"<fusegrad {method}>", build, two=True)


on_op.append(finish)
