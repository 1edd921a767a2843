"""``cond``: one of two functions, chosen by a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.modes import STATE
from ..func.batch import BatchHandler
from ..func.levels import LevelHandler
from ..op import late_function
from ..tensor import Tensor
from .checks import Purity, captured_tensors, leaves_of, need_callable, need_same, recorder, truth
from .dry import check_branches
from .reach import rooted

_where = late_function("where")


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: tuple | list = ()) -> Any:
    """``true_fn(*operands)`` if ``pred`` is true, else ``false_fn(*operands)``; only the chosen one computes.

    Args:
        pred: a tensor of one element, a bool or a number.
        true_fn, false_fn: pure functions that return tensors (or numbers) of the same structure, shapes and dtypes.
            They may close over tensors and modules, whose gradients are computed as those of the operands.
        operands: a tuple of (nested) tensors and numbers.

    Eager code runs the chosen function, and the other one on shapes alone (where gradients are recorded at each call,
    else once for each kind of operands): results have one type, and what only the other branch uses gets a gradient
    of zeros. Gradients that are recorded (``create_graph``) require gradients if those of either branch might. Compiled
    and exported code holds both and chooses at each run. A predicate that is no tensor just chooses.

    Raises RuntimeError for a predicate of several elements, for branches whose results differ in structure, shape or
    dtype, for in-place changes of operands or closed-over tensors, and for results that alias them.
    """
    need_callable(true_fn, "Expect both branches to be callable.")
    need_callable(false_fn, "Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(
            "Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of tensors and "
            f"numbers, but got {type(operands).__name__}."
        )
    leaves = leaves_of(operands, "cond: operands")
    check_predicate(pred)
    if isinstance(pred, Tensor) and pred._data is None:
        if isinstance(pred._g.handler, BatchHandler):
            return _both(pred, true_fn, false_fn, operands, leaves)
        h = recorder([pred])
        if h is not None and not any(_at_level(t) for t in leaves):
            return h.record_control("cond", pred, true_fn, false_fn, tuple(operands))
    elif STATE.dry and isinstance(pred, Tensor) and recorder(leaves) is not None:
        return recorder(leaves).record_control("cond", pred, true_fn, false_fn, tuple(operands))
    taken, other = (true_fn, false_fn) if truth(pred) else (false_fn, true_fn)
    pure = Purity("cond", leaves, taken)
    out = taken(*operands)
    pure.unchanged()
    leaves_of(out, "cond: results of a branch")
    pure.apart(out)
    if isinstance(pred, Tensor) and pred._data is not None and all(_plain(t) for t in leaves):
        return _as_either(taken, other, operands, leaves, out, truth(pred))
    return out


def _as_either(taken: Any, other: Any, operands: Any, leaves: list, out: Any, first: bool) -> Any:
    """The result of the branch taken, with the types and the history that it has whichever is taken."""
    results, spec = pytree.tree_flatten(out)
    grads = STATE.grad and any(
        isinstance(t, Tensor) and t.requires_grad for t in (*results, *leaves, *captured_tensors(other))
    )
    uses = check_branches(taken, other, operands, leaves, out, first, grads)
    return out if uses is None else pytree.tree_unflatten(rooted(results, *uses, choice=True), spec)


def _plain(t: Any) -> bool:
    return not isinstance(t, Tensor) or t._data is not None


def check_predicate(pred: Any) -> None:
    """RuntimeError unless ``pred`` is a bool, a number or a tensor of one element."""
    if isinstance(pred, Tensor):
        count = pred.numel()
        if not count == 1:
            raise RuntimeError(
                f"Expected pred to be bool or single-element tensor, but got a tensor of shape {list(pred.shape)}."
            )
    elif not isinstance(pred, (bool, int, float)) and not hasattr(pred, "hint"):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")


def _at_level(t: Any) -> bool:
    return isinstance(t, Tensor) and t._data is None and isinstance(t._g.handler, LevelHandler)


def _both(pred: Tensor, true_fn: Any, false_fn: Any, operands: Any, leaves: list) -> Any:
    """Under vmap the examples choose differently: both branches run, and each example takes its own result."""
    pure = Purity("cond", leaves, true_fn, false_fn)
    yes = true_fn(*operands)
    no = false_fn(*operands)
    pure.unchanged()
    need_same(yes, no, "true_fn_output", "false_fn_output")
    flag = pred.reshape(()).to(_bool())

    def choose(a: Any, b: Any) -> Any:
        if not isinstance(a, Tensor):
            if a == b:
                return a
            raise RuntimeError("cond: under vmap the branches must return tensors, or the same numbers")
        return _where(flag, a, b)

    return pytree.tree_map(choose, yes, no)


def _bool() -> Any:
    from ..dtypes import bool_

    return bool_
