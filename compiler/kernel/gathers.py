"""Operators whose elements come from computed places, and scalar rules that need more than their operands.

A rule gets the evaluator, the node, the value and the index into it, and returns the element's expression.  Indices
that come from tensors are checked against the size of the dimension; a failed check makes the kernel raise IndexError
after it has run, with the eager operator's text.
"""

from __future__ import annotations

from typing import Any

from fusegrad.native.scalar import walk
from fusegrad.sizes import hint_of, known_ge

from .affine import ZERO, Ix
from .joins import is_turned
from .views import broadcast_index, position

__all__ = ["RULES", "SPECIAL"]


def _checked(ev: Any, index_value: Any, at: tuple, size: Any, wrap: bool, text: str) -> Ix:
    """A dimension's index read from a tensor."""
    from .values import size_text

    raw = ev.value(index_value, at)
    return Ix((), 0, ((ev.b.check(raw, size_text(size), ev.error(text), wrap), 1),))


def out_of_bounds(dim: int, kind: str = "") -> str:
    """The eager operators' text. Errors that are not IndexErrors start with their class; see program.py."""
    return f"{kind}index {{index}} is out of bounds for dimension {dim} with size {{size}}"


def _element(ev: Any, source: Any, where: tuple) -> Any:
    """An element at checked indices. Where it does not depend on one of them (a dimension of size 1, a tensor of equal
    elements), nothing else would use that index, and so check it.
    """
    x = ev.value(source, where)
    for ix in where:
        for checked, _ in ix.dyn:
            if not any(e is checked for e in walk([x])):
                other = 1 if x.op == "const" and x.attr == 0 else 0
                x = ev.b.where(ev.b.ge(checked, 0), x, ev.b.const(other, x.dtype))
    return x


def _index(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    """``x[i, :, j]`` with integer tensors: they broadcast together and stand where the first one did if they are
    neighbours.
    """
    source, picks = node.args
    dims, shape = node.attrs["dims"], source.meta.shape
    wide = broadcast_shapes_quiet([p.meta.shape for p in picks])
    at = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    mine, rest = index[at : at + len(wide)], [*index[:at], *index[at + len(wide) :]]
    where = []
    for d in range(len(shape)):
        if d in dims:
            p = picks[dims.index(d)]
            where.append(_checked(ev, p, broadcast_index(mine, wide, p.meta.shape), shape[d], True, out_of_bounds(d)))
        else:
            where.append(rest.pop(0))
    return _element(ev, source, tuple(where))


def broadcast_shapes_quiet(shapes: list[tuple]) -> tuple:
    """The common shape of operands that are known to broadcast (records no guards)."""
    n = max(len(s) for s in shapes)
    out: list[Any] = [1] * n
    for shape in shapes:
        for d, size in enumerate(shape, n - len(shape)):
            if not (type(size) is int and size == 1):
                out[d] = size
    return tuple(out)


def _index_select(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    source, picks = node.args[0], node.args[1]
    shape = source.meta.shape
    if not shape:
        return ev.value(source, ())
    dim = node.attrs["dim"] % len(shape)
    at = (index[dim],) if picks.meta.shape else ()
    text = f"index out of range in self: index {{index}}, dimension {dim} has size {{size}}"
    ix = _checked(ev, picks, at, shape[dim], False, text)
    return _element(ev, source, (*index[:dim], ix, *index[dim + 1 :]))


def _gather(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    source, picks = node.args[0], node.args[1]
    shape = source.meta.shape
    if not shape:
        return ev.value(source, ())
    dim = node.attrs["dim"] % len(shape)
    ix = _checked(ev, picks, index, shape[dim], False, out_of_bounds(dim, "RuntimeError: "))
    return _element(ev, source, (*index[:dim], ix, *index[dim + 1 :]))


def _at_class(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    source, picks = node.args
    dim = 0 if len(source.meta.shape) == 1 else 1
    ix = _checked(ev, picks, index, source.meta.shape[dim], False, "Target {index} is out of bounds.")
    return _element(ev, source, (*index[:dim], ix, *index[dim:]))


def _scatter_one(ev: Any, node: Any, value: Any, index: tuple, add: bool) -> Any:
    """scatter with one index along ``dim``: every element is either written by it or kept."""
    base, picks = node.args[:2]
    src = node.args[2] if len(node.args) > 2 else node.attrs["value"]
    shape = base.meta.shape
    dim = node.attrs["dim"] % len(shape)
    at = (*index[:dim], ZERO, *index[dim + 1 :])
    target = _checked(ev, picks, at, shape[dim], False, out_of_bounds(dim, "RuntimeError: ")).dyn[0][0]
    here = ev.b.eq(ev.index_expr(index[dim]), target)
    old = ev.value(base, index)
    new = ev.value(src, at) if hasattr(src, "meta") else ev.b.const(ev.attr(src), value.meta.dtype)
    if add:
        new = ev.b.add(ev.widen(old), ev.widen(new))
    return ev.b.where(here, ev.b.cast(new, value.meta.dtype), old)


def _scatter(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    return _scatter_one(ev, node, value, index, add=False)


def _scatter_add(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    return _scatter_one(ev, node, value, index, add=True)


def can_scatter(node: Any) -> bool:
    """One index along ``dim``, and all other dimensions covered: then each element has one source."""
    base, picks = node.args[0].meta.shape, node.args[1].meta.shape
    if not base or len(base) != len(picks) or node.attrs.get("reduce") is not None:
        return False
    dim = node.attrs["dim"] % len(base)
    from .affine import same

    if known_ge(base[dim], 1) is not True:  # no element would look at the index, which is out of range
        return False
    return same(picks[dim], 1) and all(same(a, b) for d, (a, b) in enumerate(zip(base, picks, strict=True)) if d != dim)


def _at(ev: Any, node: Any, index: tuple) -> tuple[Any, tuple]:
    """Where a select along ``dim`` lies: the mask of those elements, and the index into the smaller tensor."""
    shape = node.outputs[0].meta.shape
    dim, at = node.attrs["dim"] % len(shape), node.attrs["index"]
    at = position(at, shape[dim])
    return ev.b.eq(ev.index_expr(index[dim]), ev.b.size(_text(at))), (*index[:dim], *index[dim + 1 :])


def _inside(ev: Any, node: Any, index: tuple, small: tuple) -> tuple[Any, tuple]:
    """Where a slice along ``dim`` lies: the mask of those elements, and the index into the smaller tensor of shape
    ``small``.
    """
    from .values import NotLowerable

    shape, attrs = node.outputs[0].meta.shape, node.attrs
    dim, start = attrs["dim"] % len(shape), 0 if attrs["start"] is None else attrs["start"]
    if attrs["step"] != 1 or type(start) is not int or (start < 0 and type(shape[dim]) is not int):
        raise NotLowerable("a slice with a step or an unknown start")
    if start < 0:
        start = max(start + shape[dim], 0)
    return _window(ev, index, dim, start, small[dim])


def _window(ev: Any, index: tuple, dim: int, start: Any, count: Any) -> tuple[Any, tuple]:
    """Mask of the elements at ``start <= index[dim] < start + count``, and the index counted from ``start``."""
    b, i = ev.b, ev.index_expr(index[dim])
    mask = b.and_(b.ge(i, b.size(_text(start))), b.lt(i, b.size(_text(start + count))))
    here = ZERO if type(count) is int and count == 1 else index[dim] + (0 - start)
    return mask, (*index[:dim], here, *index[dim + 1 :])


def _cat(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    """Slices of one value side by side; others are joins."""
    from .values import NotLowerable

    if not is_turned(node):
        raise NotLowerable("a join")
    dim, start, found = node.attrs["dim"] % len(index), 0, []
    for piece in node.args[0]:
        count = piece.meta.shape[dim]
        mask, at = _window(ev, index, dim, start, count)
        found.append((count, mask, ev.under(mask, piece, at)))
        start = start + count
    found.sort(key=lambda part: hint_of(part[0]))  # any order is right
    result = found[0][2]
    for _, mask, x in found[1:]:
        result = ev.b.where(mask, x, result)
    return result


def _select_backward(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    mask, at = _at(ev, node, index)
    return ev.under(mask, node.args[0], at)


def _slice_backward(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    mask, at = _inside(ev, node, index, node.args[0].meta.shape)
    return ev.under(mask, node.args[0], at)


def _select_scatter(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    base, src = node.args
    mask, at = _at(ev, node, index)
    return ev.b.where(mask, ev.b.cast(ev.under(mask, src, at), value.meta.dtype), ev.value(base, index))


def _slice_scatter(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    base, src = node.args
    mask, at = _inside(ev, node, index, src.meta.shape)
    return ev.b.where(mask, ev.b.cast(ev.under(mask, src, at), value.meta.dtype), ev.value(base, index))


def _constant_pad(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    shape, pad, n = node.args[0].meta.shape, node.attrs["pad"], len(value.meta.shape)
    mask, at = None, list(index)
    for k in range(len(pad) // 2):
        d, (low, high) = n - 1 - k, pad[2 * k : 2 * k + 2]
        if low or high:
            here, moved = _window(ev, tuple(at), d, low, shape[d])
            mask, at = here if mask is None else ev.b.and_(mask, here), list(moved)
    if mask is None:
        return ev.value(node.args[0], index)
    filled = ev.b.const(ev.attr(node.attrs["value"]), value.meta.dtype)
    return ev.b.where(mask, ev.under(mask, node.args[0], tuple(at)), filled)


def _one_hot(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    text = "RuntimeError: one_hot: class {index} is negative or not smaller than num_classes = {size}"
    at = _checked(ev, node.args[0], index[:-1], node.attrs["num_classes"], False, text).dyn[0][0]
    return ev.b.eq(ev.index_expr(index[-1]), at)


def _scatter_value(ev: Any, node: Any, value: Any, index: tuple) -> Any:
    return _scatter_one(ev, node, value, index, add=False)


def _text(size: Any) -> Any:
    from .values import size_text

    return size_text(size)


RULES = {
    "select_backward": _select_backward, "slice_backward": _slice_backward, "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter, "constant_pad": _constant_pad, "one_hot": _one_hot,
    "scatter_value": _scatter_value,
    "_at_class": _at_class, "cat": _cat,
    "index": _index, "index_select": _index_select, "gather": _gather, "scatter": _scatter, "scatter_add": _scatter_add,
}  # fmt: skip

# ---- pointwise operators that need the node or exact forms


def _power(ev: Any, node: Any, b: Any, xs: list, index: tuple, attrs: dict) -> Any:
    """Small constant exponents as the eager kernel computes them."""
    x, y = xs
    if y.op != "const" or x.dtype.category != 2:
        return NotImplemented
    forms = {
        0.0: lambda: b.const(1.0, x.dtype), 0.5: lambda: b.sqrt(x), 1.0: lambda: x, 2.0: lambda: b.mul(x, x),
        3.0: lambda: b.mul(b.mul(x, x), x), -0.5: lambda: b.reciprocal(b.sqrt(x)), -1.0: lambda: b.reciprocal(x),
        -2.0: lambda: b.reciprocal(b.mul(x, x)),
    }  # fmt: skip
    form = forms.get(y.attr)
    return NotImplemented if form is None else form()


def _integer_division(ev: Any, node: Any, b: Any, xs: list, index: tuple, attrs: dict) -> Any:
    """Integers may be divided in a kernel only by a known number: zero must raise the eager error."""
    from .values import NotLowerable

    if xs[1].dtype.category < 2 and (xs[1].op != "const" or xs[1].attr == 0):
        raise NotLowerable(f"{node.op.name} of integers by a tensor")
    return NotImplemented


_DIVISIONS = ("floor_divide", "floor_quotient", "trunc_divide", "remainder", "fmod")
SPECIAL = {"pow": _power, **{name: _integer_division for name in _DIVISIONS}}
