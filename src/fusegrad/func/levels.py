"""Levels: what ``vmap`` and forward mode have in common.

A transform runs its function on *level tensors*: Tensors without data whose ``_g`` says which transform made them and
what lies below (a batch of values; a value and its tangent). What lies below are ordinary tensors, or tensors of an
outer level, or graph tensors; so transforms nest by nothing more than calling operators on what lies below. Each level
has a tape of its own on its level tensors; the values below carry the tapes of the outer levels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import pytree
from ..autograd.modes import RUNNING, STATE
from ..autograd.node import next_seq
from ..errors import DataDependentError
from ..handler import Ref, _active, current
from ..meta import Meta
from ..tensor import Tensor, wrap_ref


class LevelHandler:
    """Base of the handlers of ``vmap`` and forward mode. ``outer`` is what was active when the transform began."""

    what = "a function transform"

    def __init__(self) -> None:
        self.outer = current()
        self.level: int = 1 + (self.outer.level if isinstance(self.outer, LevelHandler) else 0)
        self.alive = True

    # -- what subclasses give
    def lift(self, t: Tensor) -> Tensor:
        """``t`` (of a lower level) as a tensor of this level."""
        raise NotImplementedError

    def same(self, ref: Ref) -> Ref:
        """A ref to the same place."""
        raise NotImplementedError

    def values(self, ref: Ref) -> tuple[Tensor, ...]:
        """The tensors below."""
        raise NotImplementedError

    def cut(self, ref: Ref) -> Ref:
        """A ref to the same place whose values below are detached."""
        raise NotImplementedError

    def unrecorded(self, ref: Ref) -> Ref:
        """The same, but tangents stay: without what reverse mode has recorded."""
        return self.cut(ref)

    # -- the protocol of handlers
    def alias(self, src: Tensor) -> Tensor:
        """``detach``: on every level."""
        return wrap_ref(self.cut(src._g))

    @property
    def stride(self) -> Any:
        """How many draws the levels below use for each draw of this one."""
        return self.outer.draws_each if isinstance(self.outer, LevelHandler) else 1

    @property
    def draws_each(self) -> Any:
        """How many draws this level and those below use for one."""
        return self.stride

    def draw(self, count: int, generator: Any = None) -> tuple[Any, int]:
        """Draws come from below: the graph's, the given generator's, or the default generator's."""
        outer = self.outer
        if isinstance(outer, LevelHandler):
            return outer.draw(count, generator)
        if generator is None:
            if outer is not None:
                return outer.draw(count)
            from ..random import default_generator as generator
        elif outer is not None:
            raise DataDependentError("a random operator with a generator= of its own is not captured")
        return generator.initial_seed(), generator.take(count)

    def mine(self, t: Any) -> bool:
        """Whether ``t`` is a tensor of this level."""
        return isinstance(t, Tensor) and t._data is None and t._g.handler is self

    def check_alive(self) -> None:
        """RuntimeError when a tensor of this level is used after its transform ended."""
        if not self.alive:
            raise RuntimeError(
                f"a tensor of {self.what} was used after it had ended: return it from the function instead of storing "
                "it elsewhere (in a global, a list or an attribute)"
            )

    @contextmanager
    def running(self) -> Iterator[None]:
        """The extent of the transform: its level is the active one; afterwards its tensors are dead."""
        before = _active.stack
        _active.stack = before + (self,)
        try:
            yield
        finally:
            _active.stack = before
            self.alive = False
            self.ended()

    def ended(self) -> None:
        """Called when the transform is over."""

    @contextmanager
    def below(self) -> Iterator[None]:
        """Inside, the level below is the active one."""
        before = _active.stack
        _active.stack = before + (self.outer,)
        try:
            yield
        finally:
            _active.stack = before


class Extent:
    """The extent of a transform that differentiates: its function may change in place what it was given (``args``)
    and what it makes itself (since ``start``), but no tensor from outside.
    """

    def __init__(self, *args: Any) -> None:
        self.args = args
        self.start = 0
        self.outer: Extent | None = None

    def __enter__(self) -> Extent:
        self.outer, STATE.extent = STATE.extent, self
        self.start = next_seq()
        RUNNING.append(self.start)
        return self

    def __exit__(self, *exc: Any) -> None:
        RUNNING.remove(self.start)
        STATE.extent = self.outer

    def given(self, t: Tensor) -> bool:
        """Whether ``t`` is an argument, or shares its memory."""
        base = t if t._view is None else t._view.base
        for x in pytree.tree_flatten(self.args)[0]:
            while isinstance(x, Tensor):
                if x is base or base._st is not None and x._st is base._st:
                    return True
                h = None if x._data is not None else x._g.handler
                x = h.values(x._g)[0] if isinstance(h, LevelHandler) else None
        return False


def top_level() -> LevelHandler | None:
    """The innermost level that is active in this thread, or None."""
    h = current()
    return h if isinstance(h, LevelHandler) else None


def local_alias(t: Tensor) -> Tensor:
    """``t`` without the history of its own level; what lies below keeps its history."""
    if t._data is None and isinstance(t._g.handler, LevelHandler):
        return wrap_ref(t._g.handler.same(t._g))
    return t.detach()


def unrecorded(t: Tensor) -> Tensor:
    """``t`` without history at any level: what a transform gives where nothing is recorded outside of it."""
    if t._data is None and isinstance(t._g.handler, LevelHandler):
        return wrap_ref(t._g.handler.unrecorded(t._g))
    return t.detach()


def lifted(t: Tensor) -> Tensor:
    """``t`` as a tensor of the innermost active level, without history there; for plain tensors outside of any level
    and tensors of that level itself: an alias without history.
    """
    h = top_level()
    if h is None or h.mine(t):
        return local_alias(t)
    return h.lift(t)


def tracked(t: Tensor) -> bool:
    """Whether ``t`` has a history on its own level or on one below."""
    while True:
        if t.requires_grad:
            return True
        if t._data is not None or not isinstance(t._g.handler, LevelHandler):
            return False
        below = t._g.handler.values(t._g)
        if len(below) > 1 and tracked(below[1]):
            return True
        t = below[0]


def rest_meta(m: Meta) -> Meta:
    """The Meta of one example, from that of the batch (batched along dimension 0)."""
    return Meta(m.shape[1:], m.dtype, None if m.strides is None else m.strides[1:])


def one_each(like: Any, t: Tensor) -> None:
    """Give ``t``, a result made now, memory of its own for each example of which ``like`` has one, under every vmap."""
    while like._data is None and hasattr(like._g.handler, "one_each"):
        like._g.handler.one_each(like, t)
        like = like._g.value
