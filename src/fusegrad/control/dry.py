"""Functions run on shapes alone: what eager code must know of a branch that it does not take, or of any round."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.modes import STATE, slow_paths
from ..autograd.node import Node as TapeNode
from ..autograd.node import next_seq
from ..dispatch import meta_of, pointwise_meta
from ..dtypes import bool_
from ..errors import ControlFlowError
from ..handler import Ref, active
from ..meta import Meta
from ..op import late_function
from ..tensor import Tensor, wrap_ref
from .checks import is_number, mutated, need_same, version_of
from .reach import End, end_of, ends_reached, through

_where = late_function("where")
_KEPT = 512
_seen: dict[tuple, None] = {}  # kinds of calls whose branches were compared
_lock = threading.Lock()


class ShapeHandler:
    """Gives every operator's result its shape and dtype, and no data. Real tensors get one stand-in each."""

    level = 0

    def __init__(self) -> None:
        self.start = next_seq()
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

    # -- control flow inside: either branch, and a few rounds, with the history of all of them
    def record_control(self, kind: str, *args: Any) -> Any:
        """A call of control flow on tensors of this handler."""
        return getattr(self, "_" + kind)(*args)

    def _either(self, a: Any, b: Any) -> Any:
        flag = self.tensor(Meta((), bool_))
        return pytree.tree_map(lambda x, y: _where(flag, x, y) if isinstance(x, Tensor) else x, a, b)

    def _cond(self, pred: Any, true_fn: Any, false_fn: Any, operands: tuple) -> Any:
        yes, no = true_fn(*operands), false_fn(*operands)
        need_same(yes, no, "true_fn_output", "false_fn_output")
        return self._either(yes, no)

    def _while_loop(self, cond_fn: Any, body_fn: Any, carried: tuple) -> tuple:
        for _ in range(len(pytree.tree_leaves(carried)) + 1):
            out = tuple(body_fn(*carried))
            need_same(carried, out, "carried_inputs", "body_fn_output")
            carried = self._either(carried, out)
        return carried

    def _scan(self, combine_fn: Any, init: Any, xs: Any, reverse: bool) -> tuple[Any, Any]:
        n = pytree.tree_leaves(xs)[0].shape[0]
        carry, y = init, None
        for _ in range(min(n, len(pytree.tree_leaves(init)) + 1)):
            carry, y = combine_fn(carry, pytree.tree_map(lambda t: t[0], xs))
        return carry, pytree.tree_map(lambda t: t.unsqueeze(0).expand((n, *t.shape)).clone(), y)

    def _map(self, f: Any, xs: Any, args: tuple) -> Any:
        return self._scan(lambda c, x: ((), f(x, *args)), (), xs, False)[1]

    def run(self, fn: Callable[..., Any], args: Any) -> Any:
        """``fn(*args)`` on stand-ins; no tensor that exists already can be changed meanwhile."""
        before, STATE.dry = STATE.dry, True
        slow_paths(1)
        try:
            with active(self):
                return fn(*pytree.tree_map(lambda x: self.lift(x) if isinstance(x, Tensor) else x, args))
        finally:
            slow_paths(-1)
            STATE.dry = before

    def used(self, t: Any) -> list[tuple[Any, End]]:
        """The ends of the tape of a result: (stand-in or None, where the gradient of the real tensor goes).

        What the function computes of real tensors alone is computed for real: such nodes are passed over.
        """
        if not isinstance(t, Tensor):
            return []
        out: list[tuple[Any, End]] = []
        for x, nr in ends_reached(t, self.new):
            real = self.real.get(id(x))
            if real is not None:
                out += [(None, end) for end in ends_reached(real, self.new)]
            else:
                out.append((x, (x, nr)))
        return out

    def kept(self, results: list[Any]) -> list[tuple[Tensor, int]]:
        """The real tensors that the nodes under the results keep, with their versions."""
        found: dict[int, Tensor] = {}
        seen: set[int] = set()
        todo = [t._node for t in results if isinstance(t, Tensor) and t._node is not None]
        todo += [t._node for t in self.real.values() if t._node is not None]
        while todo:
            n = todo.pop()
            if not isinstance(n, TapeNode) or id(n) in seen or not self.new(n):
                continue
            seen.add(id(n))
            todo += [e for e in n.edges if e is not None]
            for s in n.saved or ():
                for t in s if isinstance(s, tuple) else (s,):
                    t = self.real.get(id(t), t)
                    if isinstance(t, Tensor) and t._data is not None:
                        found[id(t)] = t
        return [(t, version_of(t)) for t in found.values()]

    def new(self, node: Any) -> bool:
        return node.seq > self.start


def check_branches(
    taken: Any, other: Any, operands: Any, leaves: list, out: Any, first: bool, grads: bool
) -> tuple[list[list[End]], list] | None:
    """ControlFlowError if ``other`` would have returned another structure, shape or dtype than ``out``.

    Returns for each leaf of ``out`` where gradients of the leaf of ``other`` go, and what ``other`` would have kept for
    them (None without ``grads``).
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
    leaves = pytree.tree_leaves(got)
    return [[end for _, end in h.used(t)] for t in leaves], h.kept(leaves)


def loop_uses(body_fn: Any, carried: Any, leaves: list[Tensor]) -> tuple[list[list[End]], list] | None:
    """For each carried value where its gradient may go after any number of rounds, and what a round keeps for it.

    None if that cannot be told without data.
    """
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
    one = [{numbers.get(id(x), _End(end)) for x, end in h.used(t)} for t in out]
    uses: list[list[End]] = []
    for i in range(len(leaves)):
        first, rest = through(one, len(leaves), {i}, None)
        uses.append([end_of(leaves[k]) for k in sorted(first) if leaves[k].requires_grad] + [e.end for e in rest])
    return [u if flag else [] for u, flag in zip(uses, flags, strict=True)], h.kept(out)


class _End:
    """Where a gradient goes, as an element of a set."""

    __slots__ = ("end",)

    def __init__(self, end: End) -> None:
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _End) and other.end[0] is self.end[0] and other.end[1] == self.end[1]

    def __hash__(self) -> int:
        return hash((id(self.end[0]), self.end[1]))


def _kind(x: Any) -> tuple:
    if isinstance(x, Tensor):
        return tuple(x.shape), x.dtype
    return (type(x), x if is_number(x) else None)
