"""Which inputs of a loop can have a gradient, by what one round of it depends on.

A gradient that is structurally absent is None, a present one may be zero. A loop whose rounds depend on data, and a
branch that was not taken, must not decide which: what any number of rounds, or either branch, may use gets a gradient
(perhaps zeros), in eager and in compiled code alike.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from ..autograd.node import CustomNode
from ..autograd.node import Node as TapeNode
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


def leaves_reached(t: Tensor, inside: Callable[[Any], bool] = lambda node: True) -> list[Any]:
    """The ends of the tape of ``t``: leaves, and nodes that are not ``inside``."""
    if not t.requires_grad:
        return []
    found: dict[int, Any] = {}
    seen: set[int] = set()
    todo: list[Any] = [t._node if t._node is not None else t]
    while todo:
        n = todo.pop()
        if isinstance(n, TapeNode) and inside(n):
            if id(n) not in seen:
                seen.add(id(n))
                todo += [e for e in n.edges if e is not None]
        else:
            found[id(n)] = n
    return list(found.values())


class Rooted(CustomNode):
    """History of results that have zeros as gradient of tensors they might have used.

    The first edges are those of the results themselves, the others of the tensors; ``uses[i]``: numbers of the edges
    that get zeros when result ``i`` gets a gradient.
    """

    __slots__ = ("uses",)

    def apply(self, grads: list) -> list:
        if self.freed:
            return [None] * len(self.edges)
        out: list[Any] = list(grads) + [None] * (len(self.edges) - len(grads))
        for i, g in enumerate(grads):
            for k in self.uses[i] if g is not None else ():
                if out[k] is None:
                    shape, dtype = _spec(self.edges[k], self.nrs[k])
                    out[k] = TABLE["zeros"](tuple(shape), dtype=dtype)
        return out

    def free(self) -> None:
        """Nothing is kept."""


def _spec(target: Any, nr: int) -> tuple[Any, Any]:
    return target.output_spec(nr) if isinstance(target, TapeNode) else (target.shape, target.dtype)


def rooted(results: list[Any], tensors: list[list[Tensor]]) -> list[Any]:
    """The results (tensors and numbers) with zeros as gradient of ``tensors[i]`` under result ``i``."""
    places = [i for i, t in enumerate(results) if isinstance(t, Tensor) and t.dtype.is_floating_point]
    places = [i for i in places if tensors[i]]
    if not places:
        return results
    edges: list[Any] = []
    nrs: list[int] = []
    for i in places:
        t = results[i]
        edges.append((t._node if t._node is not None else t) if t.requires_grad else None)
        nrs.append(t._nr if t.requires_grad else 0)
    numbers: dict[tuple[int, int], int] = {}
    uses = []
    for i in places:
        row = []
        for x in tensors[i]:
            end = x._node if x._node is not None else x
            key = (id(end), x._nr)
            if key not in numbers:
                numbers[key] = len(edges)
                edges.append(end)
                nrs.append(x._nr)
            row.append(numbers[key])
        uses.append(row)
    specs = [(tuple(results[i].shape), results[i].dtype) for i in places]
    node = Rooted("ControlBackward0", tuple(edges), tuple(nrs), specs)
    node.uses = uses
    out = list(results)
    for n, i in enumerate(places):
        out[i] = alias(results[i])
        out[i]._node, out[i]._nr, out[i]._rg = node, n, True
    return out
