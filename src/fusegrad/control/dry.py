"""Functions run on shapes alone: what eager code must know of a branch that it does not take, or of any round."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.modes import STATE
from ..dispatch import meta_of, pointwise_meta
from ..errors import ControlFlowError
from ..handler import Ref, active
from ..meta import Meta
from ..tensor import Tensor, wrap_ref
from .checks import is_number, mutated, need_same
from .reach import leaves_reached, through

_KEPT = 512
_seen: dict[tuple, None] = {}  # kinds of calls whose branches were compared
_lock = threading.Lock()


class ShapeHandler:
    """Gives every operator's result its shape and dtype, and no data. Real tensors get one stand-in each."""

    level = 0

    def __init__(self) -> None:
        self.stand_ins: dict[int, tuple[Tensor, Tensor]] = {}
        self.real: dict[int, Tensor] = {}  # id of a stand-in -> the real tensor

    def tensor(self, meta: Meta) -> Tensor:
        """A tensor of that shape and dtype."""
        return wrap_ref(Ref(self, meta))  # type: ignore[arg-type]

    def lift(self, t: Tensor) -> Tensor:
        if t._data is None:
            return t
        if id(t) not in self.stand_ins:
            made = self.tensor(t.meta_())
            made._rg = t.requires_grad
            self.stand_ins[id(t)] = made, t
            self.real[id(made)] = t
        return self.stand_ins[id(t)][0]

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

    def run(self, fn: Callable[..., Any], args: Any) -> Any:
        """``fn(*args)`` on stand-ins; no tensor that exists already can be changed meanwhile."""
        before, STATE.dry = STATE.dry, True
        try:
            with active(self):
                return fn(*pytree.tree_map(lambda x: self.lift(x) if isinstance(x, Tensor) else x, args))
        finally:
            STATE.dry = before

    def used(self, t: Any) -> list[Any]:
        """The ends of the tape of a result."""
        if not isinstance(t, Tensor):
            return []
        return leaves_reached(self.lift(t) if t._data is not None else t)


def check_branches(taken: Any, other: Any, operands: Any, leaves: list, out: Any, first: bool, grads: bool) -> Any:
    """ControlFlowError if ``other`` would have returned another structure, shape or dtype than ``out``.

    Returns for each leaf of ``out`` the real tensors that the leaf of ``other`` depends on (None without ``grads``).
    What cannot be told without data, or fails on shapes, is left to the call that takes the branch. Without ``grads``
    it is done once for functions of the same code and operands of the same kinds.
    """
    key = None
    if not grads:
        code = getattr(other, "__code__", other), getattr(taken, "__code__", taken)
        try:
            key = (*code, pytree.tree_structure(operands), tuple(_kind(x) for x in leaves))
            if key in _seen:
                return None
        except TypeError:  # something unhashable
            return None
    h = ShapeHandler()
    try:
        got = h.run(other, tuple(operands))
    except ControlFlowError:
        raise
    except Exception:
        return None
    names = ("true_fn_output", "false_fn_output") if first else ("false_fn_output", "true_fn_output")
    need_same(out, got, *names)
    if key is not None:
        with _lock:
            if len(_seen) >= _KEPT:
                _seen.clear()
            _seen[key] = None
        return None
    return [[h.real[id(x)] for x in h.used(t) if id(x) in h.real] for t in pytree.tree_leaves(got)]


def loop_uses(body_fn: Any, carried: Any, leaves: list[Tensor]) -> list[list[Tensor]] | None:
    """For each carried value the real tensors that it may depend on after any number of rounds; None if unknown."""
    h = ShapeHandler()
    flags = [t.requires_grad for t in leaves]
    spec = pytree.tree_structure(carried)
    while True:
        stand_ins = [h.tensor(t.meta_()) for t in leaves]
        for s, flag in zip(stand_ins, flags, strict=True):
            s._rg = flag
        try:
            out = pytree.tree_leaves(h.run(body_fn, pytree.tree_unflatten(stand_ins, spec)))
        except Exception:
            return None
        if len(out) != len(leaves):
            return None
        grown = [a or (isinstance(b, Tensor) and b.requires_grad) for a, b in zip(flags, out, strict=True)]
        if grown == flags:
            break
        flags = grown
    numbers: dict[int, Any] = {id(s): i for i, s in enumerate(stand_ins)}
    one = [{numbers.get(id(x), _End(x)) for x in h.used(t)} for t in out]
    uses = []
    for i in range(len(leaves)):
        first, rest = through(one, len(leaves), {i}, None)
        real = [leaves[k] for k in sorted(first) if leaves[k].requires_grad]
        uses.append(real + [h.real[id(e.end)] for e in rest if id(e.end) in h.real])
    return [u if flag else [] for u, flag in zip(uses, flags, strict=True)]


class _End:
    """The end of a tape as an element of a set."""

    __slots__ = ("end",)

    def __init__(self, end: Any) -> None:
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _End) and other.end is self.end

    def __hash__(self) -> int:
        return id(self.end)


def _kind(x: Any) -> tuple:
    if isinstance(x, Tensor):
        return tuple(x.shape), x.dtype
    return (type(x), x if is_number(x) else None)
