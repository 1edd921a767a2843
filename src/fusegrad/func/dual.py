"""Forward mode's handler: dual tensors, a value with its tangent.

Operators run on the values below; ``jvp_rules`` derives what happens to the tangents from the op table.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import dispatch
from ..handler import Ref
from ..inplace import check_writable
from ..inplace import write as write_below
from ..op import TABLE, Op
from ..tensor import Tensor, need_data, storage_of, wrap, wrap_ref
from .levels import LevelHandler, unrecorded


class DualRef(Ref):
    """Place of a dual tensor: its value, and its tangent (None: zero)."""

    __slots__ = ("primal", "tangent")

    def __init__(self, handler: DualHandler, primal: Tensor, tangent: Tensor | None) -> None:
        super().__init__(handler, primal.meta_())
        self.primal, self.tangent = primal, tangent


class DualHandler(LevelHandler):
    """One forward-mode level."""

    what = "a forward-mode level"

    def __init__(self) -> None:
        super().__init__()
        self.promoted: list[Tensor] = []

    def wrap(self, primal: Tensor, tangent: Tensor | None = None) -> Tensor:
        return wrap_ref(DualRef(self, primal, tangent))

    def lift(self, t: Tensor) -> Tensor:
        return self.wrap(t)

    def same(self, ref: Any) -> Ref:
        return DualRef(self, ref.primal, ref.tangent)

    def values(self, ref: Any) -> tuple[Tensor, ...]:
        return (ref.primal,) if ref.tangent is None else (ref.primal, ref.tangent)

    def cut(self, ref: Any) -> Ref:
        return DualRef(self, ref.primal.detach(), None)

    def unrecorded(self, ref: Any) -> Ref:
        return DualRef(self, unrecorded(ref.primal), None if ref.tangent is None else unrecorded(ref.tangent))

    dual_level = False  # whether it is forward_ad's, and not a function transform's

    def value(self, a: Any) -> Any:
        return self.parts(a)[0]

    def parts(self, t: Any) -> tuple[Any, Any]:
        """(value, tangent or None) of an argument."""
        if isinstance(t, Tensor) and t._data is None and t._g.handler is self:
            return t._g.primal, t._g.tangent
        return t, None

    # -- Handler
    def dispatch(self, op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
        if not self.alive and self.dual_level:  # a dual tensor that outlived its level is its value
            return dispatch(
                op, tuple(tuple(map(self.value, a)) if type(a) is tuple else self.value(a) for a in args), attrs
            )
        self.check_alive()
        if self.dual_level and not any(self.mine(t) for a in args for t in (a if type(a) in (tuple, list) else (a,))):
            with self.below():  # made inside of the level without a dual operand: an ordinary tensor
                return dispatch(op, args, attrs)
        from .jvp_rules import tangents_of

        xs, ts = [], []
        for a in args:
            if isinstance(a, tuple):
                pairs = [self.parts(t) for t in a]
                xs.append(tuple(p for p, _ in pairs))
                ts.append(tuple(t for _, t in pairs))
            else:
                p, t = self.parts(a)
                xs.append(p)
                ts.append(t)
        with self.below():
            out = dispatch(op, tuple(xs), dict(attrs))
            outs = out if isinstance(out, (tuple, list)) else (out,)
            made: tuple = (None,) * len(outs)
            if not op.nondiff and any(t is not None for a in ts for t in (a if isinstance(a, tuple) else (a,))):
                made = tangents_of(op, xs, ts, attrs, outs)
                if op.kind != "view":
                    made = tuple(None if t is None else own_tangent(t, ts) for t in made)
        duals = tuple(self.wrap(y, t if y.dtype.is_floating_point else None) for y, t in zip(outs, made, strict=True))
        return duals if isinstance(out, (tuple, list)) else duals[0]

    def write(self, dst: Tensor, src: Tensor) -> None:
        """In-place change of value and tangent."""
        if not self.alive and self.dual_level:
            write_below(self.value(dst), self.value(src))
            return
        self.check_alive()
        value, tangent = self.parts(src)
        if not self.mine(dst):
            self.promote(dst)
        ref = dst._g
        if tangent is not None and ref.tangent is None:
            self.give_tangent(dst)
        with self.below():
            check_writable(ref.primal)
            write_below(ref.primal, value)
            if ref.tangent is not None:
                write_below(
                    ref.tangent,
                    tangent if tangent is not None else TABLE["zeros"](tuple(value.shape), dtype=value.dtype),
                )

    def give_tangent(self, t: Tensor) -> None:
        """A zero tangent for a tensor without one (for the base, if it is a view, which then sees a part of it)."""
        rec = t._view
        root = t if rec is None or not self.mine(rec.base) else rec.base
        ref = root._g
        with self.below():
            if ref.tangent is None:
                ref.tangent = TABLE["zeros"](tuple(ref.primal.shape), dtype=ref.primal.dtype)
        if root is not t:
            part = root
            for op, attrs, nr in rec.chain:  # type: ignore[union-attr]
                part = self.dispatch(op, (part,), dict(attrs))
                part = part if nr is None else part[nr]
            t._g.tangent = part._g.tangent

    def promote(self, t: Tensor) -> None:
        """Make an ordinary tensor that a dual is written into (and its base) dual, until the level ends."""
        rec = t._view
        if rec is not None and not self.mine(rec.base):
            self.promote(rec.base)
        below = wrap(t._data) if t._data is not None else wrap_ref(t._g)
        below._st, below._node, below._nr, below._rg = storage_of(t), t._node, t._nr, t._rg
        t._node, t._nr, t._rg, t._st = None, 0, False, None
        t._data, t._g = None, DualRef(self, below, None)
        self.promoted.append(t)

    def adopt(self, t: Tensor) -> None:
        """An ordinary view of a tensor that became dual: dual as well."""
        rec = t._view
        part = rec.base  # type: ignore[union-attr]
        for op, attrs, nr in rec.chain:  # type: ignore[union-attr]
            part = self.dispatch(op, (part,), dict(attrs))
            part = part if nr is None else part[nr]
        below = wrap(t._data)  # type: ignore[arg-type]
        below._st, below._node, below._nr, below._rg = t._st, t._node, t._nr, t._rg
        t._node, t._nr, t._rg, t._st = None, 0, False, None
        t._data, t._g = None, DualRef(self, below, part._g.tangent)
        self.promoted.append(t)

    def ended(self) -> None:
        for t in self.promoted:
            below = t._g.primal
            t._data, t._g = below._data, below._g
            t._node, t._nr, t._rg, t._st = below._node, below._nr, below._rg, below._st
        self.promoted = []

    def text(self, t: Tensor) -> str:
        """How a dual tensor prints: with its tangent."""
        value = repr(t._g.primal)
        if t._g.tangent is None or self.dual_level and not self.alive:
            return value
        value, tangent = value[:-1], f"tangent={t._g.tangent!r}"
        room = 80 - (len(value) - value.rfind("\n") + 1) - 2
        return f"{value}{', ' if len(tangent) <= room else ',' + chr(10) + ' ' * 7}{tangent})"

    def read(self, t: Tensor, what: str) -> Any:
        """Python code that asks for a value gets the primal's."""
        return need_data(t._g.primal, what)


def own_tangent(t: Tensor, given: list) -> Tensor:
    """``t`` on memory that no tangent among ``given`` has: both may be changed in place later."""
    others = [o for a in given for o in (a if isinstance(a, tuple) else (a,)) if o is not None]
    d = t._data
    if d is None:
        shared = t._view is not None or any(o is t for o in others)
    else:
        shared = not d.flags.owndata or any(o._data is not None and np.may_share_memory(o._data, d) for o in others)
    return TABLE["clone"](t) if shared else t


__all__ = ["DualHandler", "DualRef"]
