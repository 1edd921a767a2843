"""``vmap``'s handler: operators on tensors that stand for one example of a batch.

The values of all examples lie below in one tensor, batched along dimension 0. ``batch_rules`` says how each operator
runs on all examples at once; an operator without a rule is run example by example and stacked, which is always right.
"""

from __future__ import annotations

from operator import index
from typing import Any

from ..dispatch import dispatch, meta_of
from ..errors import DataDependentError
from ..handler import Ref
from ..inplace import check_writable
from ..inplace import write as write_below
from ..op import TABLE, Op
from ..tensor import Tensor, need_data, wrap_ref
from .levels import LevelHandler, rest_meta, unrecorded

RANDOMNESS = ("error", "different", "same")
BY_VALUE = frozenset({"bernoulli", "binomial", "multinomial", "poisson", "standard_gamma"})
"""Random operators whose distribution is in a tensor."""


class BatchRef(Ref):
    """Place of a batched tensor: ``value`` holds all examples along dimension 0 (or, not ``batched``, is the same for
    all of them).
    """

    __slots__ = ("value", "batched")

    def __init__(self, handler: BatchHandler, value: Tensor, batched: bool) -> None:
        m = value.meta_()
        super().__init__(handler, rest_meta(m) if batched else m)
        self.value, self.batched = value, batched


class BatchHandler(LevelHandler):
    """One call of a vmapped function: ``size`` examples."""

    what = "vmap"

    def __init__(self, size: Any, randomness: str = "error") -> None:
        super().__init__()
        self.size, self.randomness = size, randomness

    # -- in and out
    def enter(self, value: Tensor, dim: int | None) -> Tensor:
        """The tensor that stands for an example of ``value``, batched along ``dim``."""
        if dim is None:
            return value
        return self.wrap(value.movedim(dim, 0) if dim else value)

    def wrap(self, value: Tensor, batched: bool = True) -> Tensor:
        return wrap_ref(BatchRef(self, value, batched))

    def lift(self, t: Tensor) -> Tensor:
        return self.wrap(t, False)

    def same(self, ref: Any) -> Ref:
        return BatchRef(self, ref.value, ref.batched)

    def values(self, ref: Any) -> tuple[Tensor, ...]:
        return (ref.value,)

    def cut(self, ref: Any) -> Ref:
        return BatchRef(self, ref.value.detach(), ref.batched)

    def unrecorded(self, ref: Any) -> Ref:
        return BatchRef(self, unrecorded(ref.value), ref.batched)

    def parts(self, t: Any) -> tuple[Any, bool]:
        """(what lies below, whether it is batched) of an argument."""
        if isinstance(t, Tensor) and t._data is None and t._g.handler is self:
            return t._g.value, t._g.batched
        return t, False

    def front(self, value: Tensor, batched: bool) -> Tensor:
        """``value`` with a batch dimension in front, expanded if it had none."""
        return value if batched else value.unsqueeze(0).expand((self.size, *value.shape))

    # -- Handler
    def dispatch(self, op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
        self.check_alive()
        from .batch_rules import run

        xs: list[Any] = []
        bs: list[Any] = []
        for a in args:
            if isinstance(a, tuple):
                pairs = [self.parts(t) for t in a]
                xs.append(tuple(v for v, _ in pairs))
                bs.append(tuple(b for _, b in pairs))
            else:
                v, b = self.parts(a)
                xs.append(v)
                bs.append(b)
        any_batched = any(any(b) if isinstance(b, tuple) else b for b in bs)
        if op.kind == "random" or "draw" in attrs:
            return self.random(op, xs, bs, attrs, any_batched)
        if not any_batched:
            with self.below():
                return self.wrapped(dispatch(op, tuple(xs), attrs), False)
        with self.below():
            out = run(self, op, xs, bs, attrs)
        return self.decomposed(op, args, attrs) if out is NotImplemented else self.wrapped(out, True)

    def wrapped(self, out: Any, batched: bool) -> Any:
        if isinstance(out, (tuple, list)):
            return tuple(self.wrap(t, batched) for t in out)
        return self.wrap(out, batched)

    def decomposed(self, op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
        """Run the decomposition on this level, off its tape (the call itself is recorded by the dispatcher)."""

        def bare(t: Any) -> Any:
            if isinstance(t, tuple):
                return tuple(bare(x) for x in t)
            if not isinstance(t, Tensor):
                return t
            return wrap_ref(self.same(t._g)) if self.mine(t) else self.lift(t)

        return op.decompose(*(bare(a) for a in args), **attrs)  # type: ignore[misc]

    def random(self, op: Op, xs: list, bs: list, attrs: dict[str, Any], any_batched: bool) -> Any:
        """Random operators: the same draw for every example, or one each."""
        if self.randomness == "error" and "draw" in attrs:
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        from .batch_rules import loop

        with self.below():
            if self.randomness == "different":
                first, stride = attrs["draw"], self.stride
                return self.wrapped(loop(self, op, xs, bs, lambda i: {**attrs, "draw": first + i * stride}), True)
            if not any_batched:
                return self.wrapped(dispatch(op, tuple(xs), attrs), False)
            if op.kind == "random" and op.name in BY_VALUE:
                raise RuntimeError(
                    f"vmap: {op.name} of a batched tensor with randomness='same' is not supported, as in PyTorch: each "
                    "example would need the same numbers from another distribution. Use randomness='different', or "
                    "draw from a fixed distribution (rand, randn) and transform the numbers"
                )
            return self.wrapped(loop(self, op, xs, bs, lambda i: dict(attrs)), True)

    @property
    def draws_each(self) -> Any:
        return self.stride * index(self.size) if self.randomness == "different" else self.stride

    def draw(self, count: int, generator: Any = None) -> tuple[Any, int]:
        """As many draws as the mode needs."""
        if self.randomness == "error":
            return 0, 0  # ``random`` refuses the call
        # a size that varies is fixed here: the examples are drawn one by one
        return super().draw(count * index(self.size) if self.randomness == "different" else count, generator)

    def write(self, dst: Tensor, src: Tensor) -> None:
        """In-place change of all examples at once. RuntimeError where an example's value would have to go into a tensor
        that all examples share.
        """
        self.check_alive()
        value, b = self.parts(src)
        if b and not self.parts(dst)[1]:
            self.widen(dst)
        into, wide = self.parts(dst)
        if wide and not b:
            value = self.front(value, False).clone()
        with self.below():
            check_writable(into)
            write_below(into, value)

    def widen(self, t: Tensor) -> None:
        """Give a tensor that was made inside the vmapped function, equal for all examples so far, one value each."""
        rec = t._view
        root = t if rec is None else rec.base
        if not self.mine(root):
            raise RuntimeError(
                "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
                "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
                "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
                f"arithmetic, or make `self` (shape {list(t.shape)}) inside the function."
            )
        ref = root._g
        if not ref.batched:
            with self.below():
                ref.value, ref.batched = self.front(ref.value, False).clone(), True
        if rec is not None:
            part = root
            for op, attrs, nr in rec.chain:
                part = self.dispatch(op, (part,), dict(attrs))
                part = part if nr is None else part[nr]
            t._g.value, t._g.batched = part._g.value, True

    def one_each(self, like: Tensor, t: Tensor) -> None:
        """Give ``t``, made now, a value for each example if ``like`` has one: it may be changed in place later."""
        holder: Any = None
        while t._data is None and t._g.handler.level > self.level and hasattr(t._g, "value"):
            holder, t = t._g, t._g.value
        if not like._g.batched or t._data is None and t._g.handler.level > self.level:
            return
        if self.mine(t):
            if not t._g.batched:
                self.widen(t)
        elif holder is not None:
            with self.below():
                holder.value = self.wrap(self.front(t, False).clone())

    def each(self, fn: Any, *args: Any) -> Any:
        """``fn`` of every example in turn, stacked: for functions that read values. RuntimeError if shapes differ."""
        self.check_alive()
        pairs = [self.parts(a) for a in args]
        if not any(b for _, b in pairs):
            with self.below():
                return self.wrapped(fn(*(v for v, _ in pairs)), False)
        with self.below():
            rows = [fn(*(v.select(0, i) if b else v for v, b in pairs)) for i in range(self.size)]
            if not isinstance(rows[0], tuple):
                return self.wrapped(TABLE["stack"](rows, 0), True)
            made = self.wrapped(tuple(TABLE["stack"](list(col), 0) for col in zip(*rows, strict=True)), True)
            return type(rows[0])(*made)

    def text(self, t: Tensor) -> str:
        """How a tensor of this level prints."""
        kind = "one example of each of" if t._g.batched else "the same for all examples:"
        return f"<batched tensor {t._g.meta}, level {self.level}, {kind}\n{t._g.value!r}>"

    def read(self, t: Tensor, what: str) -> Any:
        """The array of a tensor of this level, for Python code that asks for values."""
        ref = t._g
        if not ref.batched:
            return need_data(ref.value, what)
        if what in ("nonzero", "masked_select", "unique", "argwhere") or "mask" in what:
            raise DataDependentError(
                "vmap: We do not support batching operators that can output dynamic shape: each example would "
                "have another "
                f"number of elements ({what}). Use where(), or multiply by the mask.",
                t,
            )
        if what == "bool":
            raise DataDependentError(
                "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. "
                "Each example "
                "may take another branch: write the choice with tensors, for example where(x > 0, a, b).",
                t,
            )
        raise DataDependentError(
            f"vmap: It looks like you're calling .{what}() on a Tensor. We don't support vmap over calling "
            f".{what}() on a "
            "Tensor, please try to rewrite what you're doing with other operations: each example has another value.",
            t,
        )


def example_metas(op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Metas of the outputs for one example; None if the operator has no meta rule."""
    if op.meta is None:
        return None

    def one(x: Any, b: Any) -> Any:
        if isinstance(x, tuple):
            return [one(v, w) for v, w in zip(x, b, strict=True)]
        m = meta_of(x)
        return rest_meta(m) if b else m

    return op.meta(*(one(x, b) for x, b in zip(xs, bs, strict=True)), **attrs)


__all__ = ["TABLE", "BatchHandler", "BatchRef", "example_metas"]
