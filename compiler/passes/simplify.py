"""Common subexpressions, constant operands, algebra that keeps the meaning of IEEE arithmetic, and dead code.

Only rewrites that give the very same bits are made: ``x * 1``, ``x / 1``, ``x - 0``, ``-(-x)``, casts to the own dtype,
shape operators that change nothing or undo each other.  Not ``x + 0`` (``-0.0 + 0`` is ``0.0``), not ``x * 0`` (NaN,
infinities), no reassociation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad import dtypes

from ..ir.graph import Graph, Node, Value
from ..ir.infer import infer
from ..ir.text import format_attr
from ..ir.verify import equal_meta, equal_size
from .rewrite import Rewriter, prune

__all__ = ["simplify"]


def simplify(graph: Graph) -> Graph:
    """A simplified copy of the graph; it computes the same bits from the same random draws."""
    return prune(_Simplifier(graph).run())


class _Simplifier(Rewriter):
    def __init__(self, old: Graph) -> None:
        super().__init__(old)
        self.seen: dict[tuple, list[Value]] = {}
        self.splats: dict[Value, Any] = {}  # values all of whose elements are one known number

    def node(self, node: Node) -> None:
        args = self.get(node.args)
        if node.op.kind == "pointwise":
            args = self.numbers(node, args)
        known = self.known(node, args)
        if known is None:
            key = _key(node, args)
            known = self.seen.get(key)
            if known is None:
                known = self.emit(node.op, args, node.attrs, tuple(v.meta for v in node.outputs))
                self.seen[key] = known
                self.note_splat(node, args, known)
        self.env.update(zip(node.outputs, known, strict=True))

    # -- constant operands
    def note_splat(self, node: Node, args: tuple, outs: list[Value]) -> None:
        """Remember results whose elements are all one number."""
        name, attrs = node.op.name, node.attrs
        number: Any = None
        if name in ("full", "full_like"):
            number = attrs.get("value")
        elif node.op.kind == "view" or name in ("clone", "flip"):
            number = self.splats.get(args[0]) if isinstance(args[0], Value) else None
        if isinstance(number, (bool, int, float)):
            for out in outs:
                try:
                    self.splats[out] = out.meta.dtype.np.type(number).item()
                except OverflowError:
                    continue

    def numbers(self, node: Node, args: tuple) -> tuple:
        """Arguments with splats replaced by their number where neither shape nor dtype of the result changes."""
        for i, (param, arg) in enumerate(zip(node.op.sig.tensors, args, strict=True)):
            if param.type != "Tn" or not isinstance(arg, Value) or arg not in self.splats:
                continue
            trial = (*args[:i], self.splats[arg], *args[i + 1 :])
            if not any(isinstance(a, Value) and not a.meta.weak for a in trial):
                continue
            try:
                metas = infer(node.op, trial, node.attrs)
            except Exception:  # the rule does not take a number here: leave the tensor
                continue
            if all(equal_meta(m, v.meta) for m, v in zip(metas, node.outputs, strict=True)):
                args = trial
        return args

    # -- algebra
    def known(self, node: Node, args: tuple) -> list[Value] | None:
        """Values that already hold the node's results, or None."""
        rule = _RULES.get(node.op.name)
        if rule is None or len(node.outputs) != 1:
            return None
        value = rule(node, args)
        if isinstance(value, Value) and equal_meta(value.meta, node.outputs[0].meta):
            return [value]
        return None


def _key(node: Node, args: tuple) -> tuple:
    return (node.op.name, _arg_key(args), tuple([(k, _attr_key(v)) for k, v in node.attrs.items()]))


_PLAIN = (int, bool, str, type(None))  # equal if their values are


def _attr_key(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    return value.text(locs=False) if isinstance(value, Graph) else format_attr(value)


def _arg_key(arg: Any) -> Any:
    kind = type(arg)
    if kind is Value:
        return id(arg)
    if kind in _PLAIN:
        return kind, arg
    if issubclass(kind, (list, tuple)):
        return tuple([_arg_key(a) for a in arg])
    return kind.__name__, format_attr(arg)


# -- rules: (node, arguments in the new graph) -> the value that the result equals, or None


def _is(value: Any, number: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == number


def _neutral(position: int, number: float) -> Callable[[Node, tuple], Any]:
    def rule(node: Node, args: tuple) -> Any:
        if any(k == "alpha" and v != 1 for k, v in node.attrs.items()) or node.attrs.get("rounding_mode") is not None:
            return None
        return args[1 - position] if _is(args[position], number) else None

    return rule


def _mul(node: Node, args: tuple) -> Any:
    return _neutral(1, 1)(node, args) or _neutral(0, 1)(node, args)


def _add(node: Node, args: tuple) -> Any:
    if node.outputs[0].meta.dtype.category == dtypes.INT:  # for floats -0.0 + 0 would change sign
        return _neutral(1, 0)(node, args) or _neutral(0, 0)(node, args)
    return None


def _sub(node: Node, args: tuple) -> Any:
    if isinstance(args[1], float) and str(args[1]) == "-0.0":
        return None
    return _neutral(1, 0)(node, args)


def _undoes_itself(node: Node, args: tuple) -> Any:
    """The second of two equal operators that cancel: neg, transpose."""
    inner = args[0].node if isinstance(args[0], Value) else None
    if inner is not None and inner.op is node.op and inner.attrs == node.attrs:
        return inner.args[0]
    return None


def _permute(node: Node, args: tuple) -> Any:
    dims = tuple(node.attrs["dims"])
    if dims == tuple(range(len(dims))):
        return args[0]
    inner = args[0].node
    if inner is not None and inner.op is node.op:
        outer = tuple(inner.attrs["dims"][d] for d in dims)
        if outer == tuple(range(len(dims))):
            return inner.args[0]
    return None


def _shape_only(node: Node, args: tuple) -> Any:
    """Reshapes and expands to the shape that the value (or the value it was reshaped from) has."""
    value, want = args[0], node.outputs[0].meta.shape
    while isinstance(value, Value):
        if len(value.meta.shape) == len(want) and all(map(equal_size, value.meta.shape, want)):
            return value if value.meta.strides == node.outputs[0].meta.strides else None
        inner = value.node
        if inner is None or node.op.name == "expand" or inner.op.name not in _RESHAPES:
            return None
        value = inner.args[0]
    return None


def _same(node: Node, args: tuple) -> Any:
    """Copies that keep the layout, and casts to the dtype that the value has."""
    same = isinstance(args[0], Value) and args[0].meta.strides == node.outputs[0].meta.strides
    return args[0] if same else None


_RESHAPES = ("view", "unsqueeze", "squeeze_dims")
_RULES: dict[str, Callable[[Node, tuple], Any]] = {
    "mul": _mul,
    "true_divide": _neutral(1, 1),
    "add": _add,
    "sub": _sub,
    "neg": _undoes_itself,
    "transpose": _undoes_itself,
    "permute": _permute,
    "expand": _shape_only,
    "clone": _same,
    "cast": _same,
    **dict.fromkeys(_RESHAPES, _shape_only),
}
