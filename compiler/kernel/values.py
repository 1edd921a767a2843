"""From a graph value and an index to a scalar expression.

``Evaluator.value(v, index)`` is the expression of element ``index`` of ``v``.  It walks from the value through
pointwise operators, views and gathers to *leaves*: values that the caller says are in memory or in an accumulator
(``leaf``).  The same walk is used three times: to try whether an operator can be expressed at all, to collect what a
stage reads, and to build the final loop bodies.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from fusegrad import dtypes
from fusegrad.dispatch import promoted
from fusegrad.native.scalar import Builder, Expr
from fusegrad.sizes import SymInt, as_python

from ..ir.graph import Value
from ..ir.infer import meta_of
from . import gathers, views
from .affine import Ix, Space, linearize, reshape_index

__all__ = ["Evaluator", "NeedRoot", "NotLowerable", "size_text"]

Index = tuple[Ix, ...]
Leaf = Callable[[Value, Index], "Expr | None"]


class NotLowerable(Exception):
    """The operator cannot be expressed in a kernel; it runs as a call of its eager kernel."""


class NeedRoot(Exception):
    """``value`` must be kept in memory: it is read in another shape, at places that its own loops do not describe."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value


def size_text(size: Any) -> Any:
    """A size as kernels take it: an int or text over symbol names."""
    if type(size) is int:
        return size
    text = as_python(size)
    return ast.unparse(_Products().visit(ast.parse(text, mode="eval"))) if "**" in text else text


class _Products(ast.NodeTransformer):
    """Writes powers as products: kernels know no ``**``."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant)):
            return node
        product: ast.expr = node.left
        for _ in range(int(str(node.right.value)) - 1):
            product = ast.BinOp(product, ast.Mult(), node.left)
        return product


class Evaluator:
    """Builds scalar expressions of graph values inside one iteration space.

    ``loops``: name of the loop of each axis of ``space``. ``leaf(value, index)``: the expression of a value that is
    not computed here, or None. A contiguous leaf may also be asked for by its position in C order: an index of one
    entry, whatever its dimensions; ``held(value)`` says which values are leaves: "input" (in memory and contiguous
    before any loop runs), "root" (perhaps in memory, contiguous) or None. ``scalar(value)``: the kernel parameter of
    a run-time number. ``error(text)``: number of a message for failed index checks. ``number(name, dtype)``: another
    parameter of the call ("seed", "draw").
    """

    def __init__(
        self,
        space: Space,
        loops: Sequence[str],
        leaf: Leaf,
        held: Callable[[Value], str | None],
        scalar: Callable[[Value], Expr],
        error: Callable[[str], int],
        number: Callable[[str, Any], Expr],
    ) -> None:
        self.space, self.loops, self.leaf, self.held, self.scalar, self.error = space, loops, leaf, held, scalar, error
        self.number = number
        self.b = Builder()
        self.memo: dict[tuple[Value, Index, Expr | None], Expr] = {}
        self.mask: Expr | None = None  # loads happen only where this holds

    # -- indices ------------------------------------------------------------------------------------
    def index_expr(self, ix: Ix) -> Expr:
        """An index as an int64 expression."""
        b = self.b
        total: Expr | None = None
        parts = [(b.index(self.loops[axis]), coef) for axis, coef in ix.terms] + list(ix.dyn)
        for expr, coef in parts:
            term = expr if type(coef) is int and coef == 1 else b.mul(expr, b.size(size_text(coef)))
            total = term if total is None else b.add(total, term)
        if total is None:
            return b.size(size_text(ix.const))
        if not (type(ix.const) is int and ix.const == 0):
            total = b.add(total, b.size(size_text(ix.const)))
        return total

    def divmod_expr(self, ix: Ix, n: Any) -> tuple[Expr, Expr]:
        """Quotient and remainder of a non-negative index."""
        e, d = self.index_expr(ix), self.b.size(size_text(n))
        return self.b.floordiv(e, d), self.b.mod(e, d)

    def load(self, buffer: str, dtype: Any, strides: Sequence[Any], index: Index, offset: Any = 0) -> Expr:
        """Element ``index`` of a buffer with these strides."""
        where = position(index, strides) + offset
        return self.b.load(
            buffer, dtype, size_text(where.const), {self.loops[a]: size_text(c) for a, c in where.terms},
            [(e, size_text(c)) for e, c in where.dyn], self.mask,
        )  # fmt: skip

    def under(self, mask: Expr, value: Value, index: Index) -> Expr:
        """The element where ``mask`` holds, else zero; nothing is read elsewhere."""
        outside = self.mask
        self.mask = mask if outside is None else self.b.and_(outside, mask)
        try:
            x = self.value(value, index)
        finally:
            self.mask = outside
        return self.b.where(mask, x, self.b.const(0, x.dtype))

    # -- values -------------------------------------------------------------------------------------
    def value(self, value: Value, index: Index) -> Expr:
        """The expression of one element."""
        key = (value, index, self.mask)
        found = self.memo.get(key)
        if found is None:
            found = self.leaf(value, index)
            if found is None:
                found = self.compute(value, index)
            self.memo[key] = found
        return found

    def compute(self, value: Value, index: Index) -> Expr:
        """As ``value``, but ``value`` itself is computed even if it is a leaf."""
        node = value.node
        if node is None:
            raise NotLowerable(f"{value!r} is no leaf")
        if node.op.name in views.RESHAPES:
            return self.reshaped(value, index)
        if views.has_rule(node.op):
            return self.value(node.args[0], views.view_index(node, value.index, index, self.space, self.divmod_expr))
        rule = gathers.RULES.get(node.op.name)
        if rule is not None:
            return self.fit(rule(self, node, value, index), value)
        if node.op.scalar is None or len(node.outputs) != 1:
            raise NotLowerable(f"{node.op.name} has no scalar rule")
        return self.pointwise(node, value, index)

    def reshaped(self, value: Value, index: Index) -> Expr:
        """An element of a value seen in another shape."""
        base = value
        while base.node is not None and base.node.op.name in views.RESHAPES:
            base = base.node.args[0]
        held = self.held(base)
        if held == "input":
            return self.value(base, (linearize(index, value.meta.shape),))
        inside = reshape_index(index, value.meta.shape, base.meta.shape, self.space, self.divmod_expr)
        if held != "strided" and any(ix.dyn for ix in inside) and not any(ix.dyn for ix in index):
            if held is None:
                if base.node is not None and views.has_rule(base.node.op):  # is never kept: what it looks at may be
                    return self.value(base, inside)
                raise NeedRoot(base)
            return self.value(base, (linearize(index, value.meta.shape),))
        return self.value(base, inside)

    def pointwise(self, node: Any, value: Value, index: Index) -> Expr:
        op = node.op
        xs = self.operands(node, index, value.meta.shape)
        b = Builder(lambda dim: self.index_expr(index[dim]), value.meta.dtype)
        attrs = {k: self.attr(v) for k, v in node.attrs.items()}
        if "draw" in attrs:
            attrs["seed"] = self.number("seed", dtypes.int64)
            attrs["draw"] = self.b.add(self.number("draw", dtypes.int64), attrs["draw"])
        special = gathers.SPECIAL.get(op.name)
        result = special(self, node, b, xs, index, attrs) if special is not None else NotImplemented
        if result is NotImplemented:
            result = op.scalar(b, *xs, **attrs)
        return self.fit(result, value)

    def fit(self, result: Any, value: Value) -> Expr:
        """A result in the value's dtype."""
        want = value.meta.dtype
        if not isinstance(result, Expr):
            return self.b.const(result, want)
        return result if result.dtype is want else self.b.cast(result, want)

    def operands(self, node: Any, index: Index, shape: tuple) -> list[Any]:
        """The arguments of a pointwise operator as expressions of the computation dtype."""
        op = node.op
        only = op.fields.get("promote_params")
        common = None
        if op.promote != "none":
            common = promoted(op, tuple(_metas(a) for a in node.args))
        out: list[Any] = []
        for p, arg in zip(op.sig.tensors, node.args, strict=True):
            cast = common if only is None or p.name in only else None
            if isinstance(arg, (list, tuple)):
                raise NotLowerable(f"{op.name} takes a list")
            if isinstance(arg, Value):
                x = self.operand(arg, index, shape)
                out.append(self.widen(x if cast is None else self.b.cast(x, cast)))
            elif arg is None:
                out.append(None)
            elif isinstance(arg, SymInt):
                out.append(self.b.cast(self.b.size(size_text(arg)), cast or dtypes.int64))
            else:
                out.append(arg if cast is None else self.widen(self.b.const(arg, cast)))
        return out

    def operand(self, arg: Value, index: Index, shape: tuple) -> Expr:
        if arg.meta.weak and arg.node is None:
            return self.scalar(arg)
        return self.value(arg, views.broadcast_index(index, shape, arg.meta.shape))

    def widen(self, x: Expr) -> Expr:
        """float16 is computed in float32 and rounded after each operator."""
        return self.b.cast(x, dtypes.float32) if x.dtype is dtypes.float16 else x

    def attr(self, value: Any) -> Any:
        """An attribute as scalar rules take it: symbolic sizes (in tuples too) as expressions."""
        return scalar_attr(self.b, value)


def _metas(arg: Any) -> Any:
    found = meta_of(arg)
    return tuple(found) if isinstance(found, list) else found


def position(index: Index, strides: Sequence[Any]) -> Ix:
    """Offset in elements of an index into a buffer."""
    total = Ix()
    for ix, stride in zip(index, strides, strict=True):
        total = total + ix.scale(stride)
    return total


def scalar_attr(b: Any, value: Any) -> Any:
    """See `attr`."""
    if isinstance(value, tuple):
        return tuple(scalar_attr(b, v) for v in value)
    return b.size(size_text(value)) if isinstance(value, SymInt) else value


def number_type(value: Value) -> Any:
    """How a run-time number is passed to kernels: floats in double precision, whatever they meet."""
    d = value.meta.dtype
    return dtypes.float64 if d.category == 2 else dtypes.int64 if d.category == 1 else d
