"""Which inputs of a loop can have a gradient, by what one round of it depends on.

A gradient that is structurally absent is None, a present one may be zero. A loop whose rounds depend on data, and a
branch that was not taken, must not decide which: what any number of rounds, or either branch, may use gets a gradient
(perhaps zeros), in eager and in compiled code alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ..autograd.modes import STATE
from ..autograd.node import CustomNode
from ..autograd.node import Node as TapeNode
from ..autograd.rooted import Drawn
from ..autograd.saved import check_version
from ..op import TABLE
from ..tensor import Tensor, alias

Key = Hashable  # an int below the number of carried values: that one; anything else stands for itself
_ROUNDS = 1000


def through(one: list[set], count: int, given: set[int], rounds: int | None) -> tuple[set[int], set]:
    """What gradients of the results ``given`` reach, backward through ``rounds`` rounds (None: any number of them).

    ``one[i]``: what result ``i`` reaches in one round. Results from ``count`` on are new in each round. Returns the
    carried values at the start, and everything else.
    """
    live = {i for i in given if i < count}
    rest: set[Any] = set()
    fixed = {i for i in given if i >= count}
    every = set(live)
    for _ in range(_ROUNDS if rounds is None else min(rounds, _ROUNDS)):
        reached = set().union(*(one[i] for i in live | fixed))
        now = {k for k in reached if type(k) is int and k < count}
        size = len(rest), len(every)
        rest |= reached - now
        every |= now
        if (len(rest), len(every)) == size and (rounds is None or now == live):
            live = now
            break
        live = (live | now) if rounds is None else now
    return (every if rounds is None else live), rest


End = tuple[Any, int]  # where a gradient goes: a leaf (and 0), or a node with an output number


def end_of(t: Tensor) -> End:
    """Where the gradient of ``t`` goes."""
    return (t._node if t._node is not None else t), t._nr


def ends_reached(t: Tensor, inside: Callable[[Any], bool] = lambda node: True) -> list[End]:
    """The ends of the tape of ``t``: leaves, and nodes that are not ``inside``."""
    if not t.requires_grad:
        return []
    found: dict[tuple[int, int], End] = {}
    seen: set[int] = set()
    todo: list[End] = [end_of(t)]
    while todo:
        n, nr = todo.pop()
        if isinstance(n, TapeNode) and inside(n):
            if id(n) not in seen:
                seen.add(id(n))
                todo += [(e, k) for e, k in zip(n.edges, n.nrs, strict=False) if e is not None]
        else:
            found[id(n), nr] = (n, nr)
    return list(found.values())


class Rooted(CustomNode):
    """History of results that have zeros as gradient of tensors they might have used.

    The first edges are those of the results themselves, the others of the tensors; ``uses[i]``: numbers of the edges
    that get zeros when result ``i`` gets a gradient. ``keeps``: tensors, with their versions, that they would have kept
    for it: changing one in place is an error whichever way was taken. ``choice``: gradients that are recorded require
    gradients themselves, as those of the way that was not taken may.
    """

    __slots__ = ("uses", "keeps", "choice")

    def apply(self, grads: list) -> list:
        for t, version in self.keeps:
            now = t._st.version if t._st is not None else 0
            if now != version:
                check_version(self, version, now, t.shape, t.dtype, "a tensor that a branch or a round may keep")
        tied = self.choice and STATE.grad
        if tied:
            grads = [g if g is None else named(g, self._ends(i)) for i, g in enumerate(grads)]
        out: list[Any] = list(grads) + [None] * (len(self.edges) - len(grads))
        for i, g in enumerate(grads):
            for k in self.uses[i] if g is not None else ():
                if out[k] is None:
                    shape, dtype = _spec(self.edges[k], self.nrs[k])
                    zeros = TABLE["zeros"](tuple(shape), dtype=dtype)
                    out[k] = named(zeros, [(self.edges[k], self.nrs[k])]) if tied else zeros
        return out

    def _ends(self, i: int) -> list[End]:
        """Where the gradient of result ``i`` goes, whichever way is taken."""
        return [(e, self.nrs[k]) for k in (i, *self.uses[i]) if (e := self.edges[k]) is not None]

    def free(self) -> None:
        """Zeros can be made again."""
        self.keeps = ()


def _spec(target: Any, nr: int) -> tuple[Any, Any]:
    return target.output_spec(nr) if isinstance(target, TapeNode) else (target.shape, target.dtype)


def named(t: Tensor, ends: list[End]) -> Tensor:
    """``t``, a gradient, as a function of what gradients go to at ``ends``, with derivative zero."""
    if t._rg or not ends or (t._data is None and t._g.handler.level > 0):
        return t
    out = alias(t)
    edges, nrs = tuple(e for e, _ in ends), tuple(n for _, n in ends)
    out._node = node = Drawn("IdentityBackward", edges, nrs, [(tuple(t.shape), t.dtype)])
    node.inputs = [_spec(*end) for end in ends]
    out._nr, out._rg = 0, True
    return out


def rooted(
    results: list[Any], ends: list[list[End]], keeps: list[tuple[Tensor, int]], choice: bool = False
) -> list[Any]:
    """The results (tensors and numbers) with zeros as gradient of ``ends[i]`` under result ``i``.

    ``keeps``, ``choice``: see ``Rooted``.
    """
    floats = [i for i, t in enumerate(results) if isinstance(t, Tensor) and t.dtype.is_floating_point]
    places = [i for i in floats if ends[i] or (choice and results[i].requires_grad)]
    if not places:
        return results
    own = [end_of(results[i]) if results[i].requires_grad else (None, 0) for i in places]
    numbers: dict[tuple[int, int], int] = {}
    more: list[End] = []
    uses = []
    for i in places:
        for end in ends[i]:
            if (id(end[0]), end[1]) not in numbers:
                numbers[id(end[0]), end[1]] = len(own) + len(more)
                more.append(end)
        uses.append([numbers[id(end[0]), end[1]] for end in ends[i]])
    specs = [(tuple(results[i].shape), results[i].dtype) for i in places]
    edges = [*own, *more]
    node = Rooted("ControlBackward0", tuple(e for e, _ in edges), tuple(n for _, n in edges), specs)
    node.uses, node.keeps, node.choice = uses, tuple(keeps), choice
    out = list(results)
    for n, i in enumerate(places):
        out[i] = alias(results[i])
        out[i]._node, out[i]._nr, out[i]._rg = node, n, True
    return out
