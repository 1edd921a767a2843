"""``while_loop``: a function repeated as long as a condition on its values holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import dtypes, pytree
from ..autograd.modes import STATE
from ..errors import ControlFlowError
from ..tensor import Tensor
from .checks import Purity, kind_of, leaves_of, need_callable, need_same, recorder
from .dry import loop_uses
from .reach import rooted


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple | list) -> tuple:
    """The carried values after ``body_fn`` was applied to them as long as ``cond_fn`` was true of them.

    Args:
        cond_fn: ``cond_fn(*carried) -> `` a bool or a 0-d bool tensor.
        body_fn: ``body_fn(*carried) -> `` a tuple of the structure, shapes and dtypes of ``carried_inputs``.
        carried_inputs: a tuple of (nested) tensors and numbers.

    The number of rounds may depend on the data, in compiled and exported code as well. Gradients run the rounds
    backward; in compiled code the backward pass runs the loop again and keeps the carried values of every round.

    Raises RuntimeError for a condition that is not a single bool, for carried values that change structure, shape or
    dtype, for in-place changes of carried or closed-over tensors, and for results that alias them.
    """
    need_callable(cond_fn, "while_loop: cond_fn must be callable.")
    need_callable(body_fn, "while_loop: body_fn must be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(
            f"Expect carried_inputs to be a tuple of tensors and numbers, but got {type(carried_inputs).__name__}."
        )
    carried = tuple(carried_inputs)
    leaves = leaves_of(carried, "while_loop: carried_inputs")
    h = recorder(leaves)
    if h is not None:
        return h.record_control("while_loop", cond_fn, body_fn, carried)
    return run(cond_fn, body_fn, carried, None)


def run(cond_fn: Any, body_fn: Any, carried: tuple, limit: int | None) -> tuple:
    """The loop itself, in Python. ``limit``: after so many rounds None is returned."""
    start = pytree.tree_leaves(carried)
    pure = Purity("while_loop", start, cond_fn, body_fn)
    rounds, inputs = 0, carried
    while True:
        flag = cond_fn(*carried)
        if not holds(flag):
            break
        if rounds == limit:
            return None  # type: ignore[return-value]
        before = pytree.tree_leaves(carried)
        carried = next_values(carried, body_fn(*carried))
        pure.apart(carried, before)
        rounds += 1
    pure.unchanged()
    if not rounds:
        carried = pytree.tree_map(lambda t: t.clone() if isinstance(t, Tensor) else t, carried)
    by_data = isinstance(flag, Tensor) and flag._data is not None and all(_plain(t) for t in start)
    if by_data and STATE.grad and any(t.requires_grad for t in pure.tensors):
        return _as_any_rounds(body_fn, inputs, start, carried)
    return carried


def _as_any_rounds(body_fn: Any, inputs: tuple, start: list, carried: tuple) -> tuple:
    """The results with the history that they have after any number of rounds: what those may use gets a gradient."""
    uses = loop_uses(body_fn, inputs, start)
    if uses is None:
        return carried
    leaves, spec = pytree.tree_flatten(carried)
    return pytree.tree_unflatten(rooted(leaves, *uses), spec)


def _plain(t: Any) -> bool:
    return isinstance(t, Tensor) and t._data is not None


def holds(flag: Any) -> bool:
    """The value of what ``cond_fn`` returned. ControlFlowError unless it is one bool."""
    check_flag(flag)
    return bool(flag)


def check_flag(flag: Any) -> None:
    """ControlFlowError unless ``flag`` is a bool or a 0-d bool tensor."""
    if isinstance(flag, Tensor):
        if flag.ndim == 0 and flag.dtype is dtypes.bool_:
            return
    elif type(flag) is bool:
        return
    raise ControlFlowError(
        f"while_loop: Expected cond_fn to return a bool or a 0-d bool tensor, but got {kind_of(flag)}."
    )


def next_values(carried: tuple, out: Any) -> tuple:
    """What ``body_fn`` returned, as the next carried values. ControlFlowError where it does not fit."""
    if not isinstance(out, (tuple, list)):
        raise ControlFlowError(
            f"while_loop: Expected body_fn to return a tuple like carried_inputs, but got {type(out).__name__}."
        )
    out = tuple(out)
    leaves_of(out, "while_loop: results of body_fn")
    need_same(carried, out, "carried_inputs", "body_fn_output")
    return out
