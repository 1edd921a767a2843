"""Views as index maps: for each view operator, where an element of the result lies in the operator's input.

A rule gets the node, the number of the output and the index into that output (one ``Ix`` a dimension), and returns
the index into the input. Views therefore never become code; a view operator without a rule runs outside of kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusegrad.size_values import known_ge, sym_max, sym_min

from .affine import ZERO, Ix, constant, reshape_index

__all__ = ["RULES", "has_rule", "is_rearrangement", "view_index"]

Index = tuple[Ix, ...]
Rule = Callable[[Any, int, Index, tuple, tuple], Index]


def _permutation(node: Any) -> tuple[int, ...] | None:
    """Result dimension -> input dimension, for operators that only reorder dimensions."""
    name, attrs = node.op.name, node.attrs
    n = len(node.args[0].meta.shape)
    order = list(range(n))
    if name == "permute":
        return tuple(d % n for d in attrs["dims"]) if n else ()
    if name in ("transpose", "swapaxes", "swapdims"):
        a, b = (attrs[p] for p in _names(node)[:2])
        if n:
            order[a % n], order[b % n] = order[b % n], order[a % n]
        return tuple(order)
    if name in ("t", "T", "numpy_T"):
        return tuple(reversed(order))
    if name in ("mT", "adjoint") and n >= 2:
        order[-1], order[-2] = order[-2], order[-1]
        return tuple(order)
    return None


def _names(node: Any) -> list[str]:
    return [p.name for p in node.op.sig.attrs]


def _permute(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    order = _permutation(node)
    result: list[Ix] = [ZERO] * len(in_shape)
    for d, source in enumerate(order):  # type: ignore[arg-type]
        result[source] = index[d]
    return tuple(result)


def _expand(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    return broadcast_index(index, out_shape, in_shape)


def broadcast_index(index: Sequence[Ix], out_shape: Sequence[Any], in_shape: Sequence[Any]) -> Index:
    """The index into an operand of ``in_shape`` that was broadcast to ``out_shape``."""
    lead = len(out_shape) - len(in_shape)
    return tuple(ZERO if _is_one(size, out_shape[lead + d]) else index[lead + d] for d, size in enumerate(in_shape))


def _is_one(size: Any, wide: Any) -> bool:
    """Whether a size is broadcast to ``wide``: 1, or a symbol guarded to be 1 where ``wide`` is not."""
    if type(size) is int:
        return size == 1
    return size.hint == 1 and (wide if type(wide) is int else wide.hint) != 1


def position(value: Any, size: Any) -> Any:
    """A Python index counted from the front; the sign of a symbolic one may change between calls."""
    known = known_ge(value, 0)
    if known is None:
        return value + size * sym_min(1, sym_max(0, -value))
    return value if known else value + size


def _select(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    dim = node.attrs["dim"] % len(in_shape)
    at = constant(position(node.attrs["index"], in_shape[dim]))
    return (*index[:dim], at, *index[dim:])


def _narrow(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    dim = node.attrs["dim"] % len(in_shape)
    start = position(node.attrs["start"], in_shape[dim])
    return (*index[:dim], index[dim] + start, *index[dim + 1 :])


def _slice(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    attrs = node.attrs
    dim = attrs["dim"] % len(in_shape)
    size, step, start = in_shape[dim], attrs.get("step", 1), attrs.get("start")
    start = 0 if start is None else sym_max(sym_min(position(start, size), size), 0)
    return (*index[:dim], index[dim].scale(1 if step is None else step) + start, *index[dim + 1 :])


def _flip(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    result = list(index)
    for dim in node.attrs["dims"]:
        dim %= len(in_shape)
        result[dim] = index[dim].scale(-1) + (in_shape[dim] - 1)
    return tuple(result)


def _same(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    return index


def _pieces(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    """split, chunk and their kin: piece ``out`` starts after the pieces before it."""
    dim = node.attrs.get("dim", 0) % len(in_shape)
    start: Any = 0
    for value in node.outputs[:out]:
        start = start + value.meta.shape[dim]
    return (*index[:dim], index[dim] + start, *index[dim + 1 :])


def _unbind(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    dim = node.attrs.get("dim", 0) % len(in_shape)
    return (*index[:dim], constant(out), *index[dim:])


def _diagonal(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    attrs, n = node.attrs, len(in_shape)
    a, b, offset = attrs.get("dim1", 0) % n, attrs.get("dim2", 1) % n, attrs.get("offset", 0)
    rest, along = list(index[:-1]), index[-1]
    result = []
    for d in range(n):
        if d == a:
            result.append(along + max(-offset, 0))
        elif d == b:
            result.append(along + max(offset, 0))
        else:
            result.append(rest.pop(0))
    return tuple(result)


def _unfold(node: Any, out: int, index: Index, in_shape: tuple, out_shape: tuple) -> Index:
    dim = _first(node, "dimension", "dim") % max(len(in_shape), 1)
    step = node.attrs["step"]
    if not in_shape:
        return ()
    return (*index[:dim], index[dim].scale(step) + index[-1], *index[dim + 1 : -1])


def _first(node: Any, *names: str) -> Any:
    return next(node.attrs[name] for name in names if name in node.attrs)


RESHAPES = (
    "view", "reshape", "flatten", "unflatten", "ravel", "squeeze", "squeeze_dims", "unsqueeze",
    "view_as", "reshape_as", "atleast_1d", "atleast_2d",
)  # fmt: skip
PERMUTES = ("permute", "transpose", "swapaxes", "swapdims", "t", "T", "mT", "numpy_T", "adjoint")
RULES: dict[str, Rule] = {
    **{name: _permute for name in PERMUTES},
    **{name: _same for name in ("alias", "detach")},
    **{name: _expand for name in ("expand", "broadcast_to", "expand_as")},
    "select": _select, "narrow": _narrow, "slice": _slice, "flip": _flip, "unbind": _unbind,
    "diagonal": _diagonal, "unfold": _unfold,
    **{name: _pieces for name in ("split", "chunk", "split_with_sizes", "tensor_split")},
}  # fmt: skip


def has_rule(op: Any) -> bool:
    """Whether an operator is a view that kernels read through."""
    return op.name in RULES or (op.name in RESHAPES)


def is_rearrangement(op: Any) -> bool:
    """A view that shows every element of its input exactly once, undone by reshape and transpose."""
    return op.name in RESHAPES or op.name in PERMUTES or op.name in ("alias", "detach")


def view_index(node: Any, out: int, index: Index, space: Any, expr_of: Any) -> Index:
    """The index into the input of view ``node`` of the element at ``index`` of its output number ``out``."""
    in_shape, out_shape = node.args[0].meta.shape, node.outputs[out].meta.shape
    if node.op.name in RESHAPES:
        return reshape_index(index, out_shape, in_shape, space, expr_of)
    return RULES[node.op.name](node, out, index, in_shape, out_shape)
