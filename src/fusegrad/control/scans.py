"""``scan`` and ``map``: a function applied along one dimension, with and without a value carried from step to step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.modes import STATE
from ..autograd.node import CustomNode
from ..errors import ControlFlowError
from ..op import TABLE
from ..tensor import Tensor, storage_of, wrap
from .checks import Purity, leaves_of, need_callable, need_same, recorder
from .steps import Steps


def scan(combine_fn: Callable[..., Any], init: Any, xs: Any, dim: int = 0, reverse: bool = False) -> tuple[Any, Any]:
    """``carry, y = combine_fn(carry, x)`` for each slice ``x`` of ``xs`` along ``dim``.

    Returns ``(last carry, all ys stacked along dim)``; with ``reverse`` the slices are taken from the last to the
    first, and ``y`` still stands where its ``x`` was. ``init``, ``xs`` and what ``combine_fn`` returns may be nested;
    their leaves are tensors. The carry keeps structure, shapes and dtypes.

    Raises RuntimeError for an empty dimension or slices of different numbers, a carry that changes, in-place changes
    of tensors that the function did not make, a carry that aliases an input; IndexError for a bad ``dim``.
    """
    need_callable(combine_fn, f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse).__name__}")
    first = tensors_of(init, "init")
    if not first:
        raise RuntimeError("scan() operator requires init leaves.")
    leaves = tensors_of(xs, "xs")
    if not leaves:
        return init, []
    dim = check_dim("scan", leaves, dim)
    length = check_length("xs", leaves, dim)
    if dim:
        xs = pytree.tree_map(lambda t: t.movedim(dim, 0), xs)
    h = recorder([*first, *leaves])
    if h is not None:
        carry, ys = h.record_control("scan", combine_fn, init, xs, reverse)
    else:
        carry, ys = run(combine_fn, init, xs, length, reverse)
    if dim:
        ys = pytree.tree_map(lambda t: t.movedim(0, dim), ys)
    return carry, ys


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """``f(x, *args)`` for each slice ``x`` of ``xs`` along the first dimension; the results are stacked.

    ``xs``, ``args`` and the results may be nested. Raises RuntimeError for an empty or different first dimension and
    for in-place changes of tensors that ``f`` did not make; IndexError for a tensor without dimensions.
    """
    need_callable(f, f"map: f must be a callable, but got {f}")
    leaves = tensors_of(xs, "mapped xs")
    more = leaves_of(args, "map: args")
    if not leaves:
        raise RuntimeError("map: xs has no tensors.")
    if any(not t.ndim for t in leaves):
        raise IndexError("map: xs must have a first dimension, got a tensor without dimensions")
    sizes = [t.shape[0] for t in leaves]
    if any(bool(n != sizes[0]) for n in sizes):
        shapes = [tuple(t.shape) for t in leaves]
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")
    if sizes[0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    h = recorder([*leaves, *more])
    if h is not None:
        return h.record_control("map", f, xs, args)
    return run_map(f, xs, args)


def run_map(f: Any, xs: Any, args: tuple) -> Any:
    """The calls themselves."""
    pure = Purity("map", [*leaves_of(xs, "map: xs"), *leaves_of(args, "map: args")], f)
    slices, spec = unbound(xs)
    outs = [f(pytree.tree_unflatten(x, spec), *args) for x in zip(*slices, strict=True)]
    pure.unchanged()
    return stacked(outs, "map: results of f")


def run(combine_fn: Any, init: Any, xs: Any, length: int, reverse: bool) -> tuple[Any, Any]:
    """The loop itself, in Python; ``xs`` is sliced along dimension 0."""
    pure = Purity("scan", pytree.tree_leaves((init, xs)), combine_fn)
    slices, spec = unbound(xs)
    carry, ys = init, list[Any]()
    steps = list(zip(*slices, strict=True))
    history = Steps(length) if STATE.grad else None
    if history is not None:
        carry = history.first(carry)
    for x in reversed(steps) if reverse else steps:
        before = pytree.tree_leaves(carry)
        last = len(ys) + 1 == len(steps)
        if history is not None and last:
            history.begin(carry)
        carry, y = pair(combine_fn(carry, pytree.tree_unflatten(x, spec)), carry)
        pure.apart(carry, [*before, *x])
        if history is not None:
            carry = history.after(carry, y, last)
        ys.append(y)
    pure.unchanged()
    rows = stacked(ys[::-1] if reverse else ys, "scan: results of combine_fn")
    return (carry, rows) if history is None else history.results(carry, rows)


def pair(out: Any, carry: Any) -> tuple[Any, Any]:
    """What ``combine_fn`` returned as (carry, y). ControlFlowError where it does not fit."""
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise ControlFlowError(f"scan: Expected combine_fn to return (carry, y), but got {type(out).__name__}.")
    need_same(carry, out[0], "init", "carry")
    return out[0], out[1]


def unbound(xs: Any) -> tuple[list, Any]:
    """The slices of each leaf along dimension 0, and the structure."""
    leaves, spec = pytree.tree_flatten(xs)
    return [_slices(t) for t in leaves], spec


class Slices(CustomNode):
    """History of all slices of a tensor along dimension 0: one gradient of the whole, stacked.

    (The gradients of n selected slices would be n tensors of the whole size.)
    """

    __slots__ = ()

    def apply(self, grads: list) -> Any:
        return (TABLE["stack"]([_zeros(s) if g is None else g for g, s in zip(grads, self.outputs, strict=True)], 0),)


def _zeros(spec: tuple) -> Tensor:
    return TABLE["zeros"](spec[0], dtype=spec[1])


def _slices(t: Tensor) -> Any:
    if t._data is None or not (t.requires_grad and STATE.grad):
        return t.unbind(0)
    parts = [wrap(t._data[i, ...]) for i in range(t.shape[0])]
    edge = t._node if t._node is not None else t
    node = Slices("UnbindBackward0", (edge,), (t._nr,), [(tuple(x.shape), x.dtype) for x in parts])
    for i, x in enumerate(parts):
        x._st = storage_of(t)  # an in-place change of the whole is noticed by what saved the slice
        x._node, x._nr, x._rg = node, i, True
    return parts


def stacked(outs: list, what: str) -> Any:
    """One tree whose leaves are the leaves of ``outs``, stacked. ControlFlowError if the trees differ."""
    tensors_of(outs[0], what)
    for other in outs[1:]:
        need_same(outs[0], other, f"{what} at the first step", "those at a later one")
    return pytree.tree_map(lambda *ts: TABLE["stack"](list(ts), 0), *outs)


def tensors_of(tree: Any, what: str) -> list[Tensor]:
    """The leaves of ``tree``. RuntimeError unless all are tensors."""
    leaves = pytree.tree_leaves(tree)
    for t in leaves:
        if not isinstance(t, Tensor):
            raise RuntimeError(f"All {what} leaves must be a Tensor but got {t}")
    return leaves


def check_dim(name: str, leaves: list[Tensor], dim: int) -> int:
    """``dim`` counted from the front. IndexError if the first leaf has no such dimension."""
    n = leaves[0].ndim
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise RuntimeError(f"Dim must be an int, but got {type(dim).__name__}")
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    return dim % n


def check_length(what: str, leaves: list[Tensor], dim: int) -> Any:
    """The size of all leaves along ``dim``. RuntimeError if it is 0 or differs."""
    if any(t.ndim <= dim or t.shape[dim] == 0 for t in leaves):
        raise RuntimeError(f"All {what} leaves must at least have 'dim' number of dimensions and scan dimension > 0")
    length = leaves[0].shape[dim]
    if any(bool(t.shape[dim] != length) for t in leaves):
        raise RuntimeError(f"All {what} leaves must have the same size along the scanned dimension")
    return length
