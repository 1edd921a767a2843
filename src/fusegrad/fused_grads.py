"""Derivatives of pointwise operators in one native pass over large arrays, made of the vjp rules themselves.

A rule runs once on tensors that stand for one element; every pointwise operator it calls adds its loop expression (the
entry's ``scalar``). A rule that asks for more (shapes, operators without such an expression, a choice by a value) has
no fused form, and runs as it is. Only where no graph of the gradients is wanted, and for plain arrays of one shape and
dtype in C order: there the fused form computes what the operators would, element by element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .dispatch import FAST, promoted
from .handler import Ref
from .meta import Meta
from .native.on_demand import OnDemand
from .op import Op
from .tensor import Tensor, wrap, wrap_ref

SMALLEST = 1 << 14  # elements: below, numpy's calls cost less than what compiling may
VARIANTS = 8  # values of attributes that are constants of the code
_ROUNDED = (np.add, np.subtract, np.multiply, np.divide, np.reciprocal, np.negative, np.absolute, np.square, np.sqrt)
_CHOSEN = (np.maximum, np.minimum, np.isnan, np.isfinite, np.logical_and, np.logical_or, np.logical_not)
_COMPARED = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_SAME = frozenset((*_ROUNDED, *_CHOSEN, *_COMPARED))


def _same_bits(op: Op) -> bool:
    """Whether numpy's kernel of an operator, which computes small arrays, rounds as the loop does: numpy's exp, sin,
    log and powers are other approximations, and an element's gradient must not depend on how many there are."""
    return op.kernel in _SAME if isinstance(op.kernel, np.ufunc) else op.name != "pow"


class _Element:
    """The handler of tensors that stand for one element: operators become loop expressions."""

    level = 0

    def place(self, expr: Any) -> Tensor:
        """The tensor of an expression."""
        ref = Ref(self, Meta((1,), expr.dtype))  # type: ignore[arg-type]
        ref.expr = expr  # type: ignore[attr-defined]
        return wrap_ref(ref)

    def dispatch(self, op: Op, args: tuple, attrs: dict[str, Any]) -> Tensor:
        """The expression of a pointwise operator; NotImplementedError for any other."""
        from .native.scalar import Expr, b

        if op.kind != "pointwise" or op.scalar is None or op.n_out != 1 or "draw" in attrs or not _same_bits(op):
            raise NotImplementedError(op.name)
        only = op.fields.get("promote_params")
        common = None if op.promote == "none" else promoted(op, args)
        xs: list[Any] = []
        for p, a in zip(op.sig.tensors, args, strict=True):
            cast = common if only is None or p.name in only else None
            if isinstance(a, Tensor):
                if a._data is not None:
                    raise NotImplementedError("a tensor of its own")
                x = a._g.expr  # type: ignore[union-attr]
                xs.append(x if cast is None else b.cast(x, cast))
            else:
                xs.append(a if a is None or cast is None else b.const(a, cast))
        found = op.scalar(b, *xs, **attrs)
        if not isinstance(found, Expr):
            raise NotImplementedError(f"{op.name} of constants")
        return self.place(found)


class FusedGradients:
    """``fused(edges, values)``: gradients of the inputs of ``op`` from what its rules name, or None for the rules."""

    __slots__ = ("op", "names", "tensors", "inputs", "made", "variants")

    def __init__(self, op: Op, names: tuple[str, ...]) -> None:
        self.op, self.names = op, names
        attrs = {p.name for p in op.sig.attrs}
        self.tensors = [n for n in names if n not in attrs]
        self.inputs = [p.name for p in op.sig.tensors]
        self.made: dict[Any, OnDemand | None] = {}
        self.variants: set[Any] = set()

    def __call__(self, edges: list, g: Tensor, values: tuple) -> list[Tensor | None] | None:
        lead = g._data
        if lead is None or lead.size < SMALLEST or lead.dtype.char not in "fd":
            return None
        arrays: list[np.ndarray] = []
        attrs: list[Any] = []
        for name, v in zip(self.names, values, strict=True):
            if name not in self.tensors:
                attrs.append(v)
                continue
            a = v._data if type(v) in FAST else None
            if a is None or a.shape != lead.shape or a.dtype is not lead.dtype:
                return None
            if not a.flags.c_contiguous:
                if 0 not in a.strides:  # an order of axes that the result would keep
                    return None
                a = np.ascontiguousarray(a)  # expanded: the gradient of a sum
            arrays.append(a)
        key = tuple([(type(v), v) for v in attrs])
        out: list[Tensor | None] = []
        for i, e in enumerate(edges):
            if e is None or self.inputs[i] not in self.op.rules and "*" not in self.op.rules:
                out.append(None)
                continue
            kernels = self.kernels(i, key)
            f = None if kernels is None else kernels[lead.dtype]
            if f is None:
                return None
            result = np.empty(lead.shape, lead.dtype)
            f(*arrays, result, lead.size)
            out.append(wrap(result))
        return out

    def kernels(self, i: int, key: tuple) -> OnDemand | None:
        """The kernels of the gradient of input ``i`` for these attributes."""
        try:
            if (i, key) in self.made:
                return self.made[i, key]
        except TypeError:  # an attribute that cannot be told from others
            return None
        self.variants.add(key)
        if len(self.variants) > VARIANTS:
            return None
        attrs = iter([v for _, v in key])
        fixed = {n: next(attrs) for n in self.names if n not in self.tensors}
        try:
            self.expression(i, dtypes.float32, fixed)
        except Exception:  # whatever it asks for that one element does not have
            self.made[i, key] = None
            return None
        name = f"gradient {self.op.name} {self.inputs[i]} {sorted(fixed.items())!r}"
        self.made[i, key] = OnDemand(name, lambda d: self.define(i, d, fixed))
        return self.made[i, key]

    def expression(self, i: int, d: Any, fixed: dict[str, Any]) -> Any:
        """The rule of input ``i`` on one element."""
        from .native.scalar import b

        rule = self.op.rules.get(self.inputs[i]) or self.op.rules["*"]
        element = _Element()
        given = {n: element.place(b.load("x_" + n, d, terms={"i": 1})) for n in self.tensors}
        found = rule.fn(*((given | fixed)[n] for n in rule.names))
        if type(found) is tuple:
            (found,) = found
        expr = found._g.expr
        if expr.dtype is not d:
            raise NotImplementedError("another dtype")
        return expr

    def define(self, i: int, d: Any, fixed: dict[str, Any]) -> Any:
        """The kernel for a dtype: the tensors that the rules name, the result, how many elements there are."""
        from .native.nest import ArrayParam, Kernel, Loop, Nest, Phase, SizeParam, Store

        value = self.expression(i, d, fixed)
        nest = Nest((Loop("i", "n"),), (Phase(stores=(Store("result", value, terms={"i": 1}),)),))
        params: Any = (*(ArrayParam("x_" + n, d) for n in self.tensors), ArrayParam("result", d, True), SizeParam("n"))
        return Kernel("gradient", params, (nest,))


def fused_gradients(op: Op) -> FusedGradients | None:
    """The fused form of an operator's rules, if they may have one."""
    if op.kind != "pointwise" or op.n_out != 1 or any(p.type != "T" or p.optional for p in op.sig.tensors):
        return None
    if "*" in op.rules and len(op.sig.tensors) != 1:
        return None
    names: list[str] = []
    for r in op.rules.values():
        names += [n for n in r.names if n not in names]
    known = {"g", "out", *(p.name for p in op.sig.params)}
    return FusedGradients(op, tuple(names)) if names and set(names) <= known else None
