"""Functions run on shapes alone: how eager ``cond`` compares the branch that ran with the one that did not."""

from __future__ import annotations

import threading
from typing import Any

from .. import pytree
from ..autograd.modes import STATE
from ..dispatch import meta_of, pointwise_meta
from ..errors import ControlFlowError
from ..handler import Ref, active
from ..meta import Meta
from ..tensor import Tensor, wrap_ref
from .checks import is_number, mutated, need_same

_KEPT = 512
_seen: dict[tuple, None] = {}  # kinds of calls whose branches were compared
_lock = threading.Lock()


class ShapeHandler:
    """Gives every operator's result its shape and dtype, and no data."""

    level = 0

    def tensor(self, meta: Meta) -> Tensor:
        """A tensor of that shape and dtype."""
        return wrap_ref(Ref(self, meta))  # type: ignore[arg-type]

    def lift(self, t: Tensor) -> Tensor:
        return t if t._data is None else self.tensor(t.meta_())

    def lift_all(self, args: tuple) -> tuple[tuple, list[Tensor]]:
        out: list[Any] = []
        flat: list[Tensor] = []
        for a in args:
            if isinstance(a, Tensor):
                a = self.lift(a)
                flat.append(a)
            elif isinstance(a, tuple):
                a = tuple(map(self.lift, a))
                flat.extend(a)
            out.append(a)
        return tuple(out), flat

    def dispatch(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        if op.meta is None and op.kind != "pointwise":
            raise NotImplementedError(f"{op.name} has no shape rule")
        attrs = {k: v for k, v in attrs.items() if k != "generator"}
        result = (op.meta or pointwise_meta(op))(*map(meta_of, args), **attrs)
        if isinstance(result, (tuple, list)):
            return tuple(map(self.tensor, result))
        return self.tensor(result)

    def alias(self, src: Tensor) -> Tensor:
        return self.tensor(src._g.meta)

    def write(self, dst: Tensor, src: Tensor) -> None:
        if dst._data is not None:
            raise mutated("cond", dst)

    def draw(self, count: int, generator: Any = None) -> tuple[int, int]:
        return 0, 0


def check_branches(taken: Any, other: Any, operands: Any, leaves: list, out: Any, first: bool) -> None:
    """ControlFlowError if ``other`` would have returned another structure, shape or dtype than ``out``.

    Done once for functions of the same code and operands of the same kinds; what cannot be told without data, or
    fails on shapes, is left to the call that takes the branch.
    """
    code = getattr(other, "__code__", other), getattr(taken, "__code__", taken)
    try:
        key = (*code, pytree.tree_structure(operands), tuple(_kind(x) for x in leaves))
        if key in _seen:
            return
    except TypeError:  # something unhashable
        return
    h = ShapeHandler()
    inside = pytree.tree_map(lambda x: h.lift(x) if isinstance(x, Tensor) and x._data is not None else x, operands)
    before, STATE.dry = STATE.dry, True
    try:
        with active(h):
            got = other(*inside)
    except ControlFlowError:
        raise
    except Exception:
        return
    finally:
        STATE.dry = before
    names = ("true_fn_output", "false_fn_output") if first else ("false_fn_output", "true_fn_output")
    need_same(out, got, *names)
    with _lock:
        if len(_seen) >= _KEPT:
            _seen.clear()
        _seen[key] = None


def _kind(x: Any) -> tuple:
    if isinstance(x, Tensor):
        return tuple(x.shape), x.dtype
    return (type(x), x if is_number(x) else None)
