"""History of the steps of an eager ``scan``: which carries have a gradient does not depend on the step.

In compiled code, as in PyTorch, the backward pass of a scan is a scan: a carry that has a gradient in some step has one
in every step, zeros at first. Zeros are not nothing where a slope is infinite or NaN, so eager code has them as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import pytree
from ..autograd.node import CustomNode, next_seq
from ..dtypes import float32
from ..op import TABLE
from ..tensor import Tensor, alias
from .reach import End, end_of, ends_reached, through

_TOKEN_ARRAY = np.zeros((), np.float32)
_TOKEN_ARRAY.flags.writeable = False
_TOKEN = ((), float32)  # what goes from step to step to say that there is a backward pass


class First(CustomNode):
    """The carries before the first step: what all steps together do not lead to gets nothing."""

    __slots__ = ("steps", "which")

    def apply(self, grads: list) -> list:
        return [g if i in self.steps.at_start else None for i, g in zip(self.which, grads, strict=True)]


class Step(CustomNode):
    """Outputs: the carries after a step that require a gradient (``which``), and a token for the step after it."""

    __slots__ = ("steps", "which")

    def apply(self, grads: list) -> list:
        out = list(grads[:-1])
        for k, i in enumerate(self.which):
            if out[k] is None and i in self.steps.live:
                shape, kind = self.outputs[k]
                out[k] = TABLE["zeros"](shape, dtype=kind)
        return [*out, _token()] if len(self.edges) > len(out) else out

    def on_arrays(self, grads: list) -> list:
        """The same for arrays."""
        out = list(grads[:-1])
        for k, i in enumerate(self.which):
            if out[k] is None and i in self.steps.live:
                shape, kind = self.outputs[k]
                out[k] = np.zeros(shape, kind.np)
        return [*out, _TOKEN_ARRAY] if len(self.edges) > len(out) else out


class Last(CustomNode):
    """The carries at the end and the stacked results (``which``, by number) over the last step."""

    __slots__ = ("steps", "which")

    def apply(self, grads: list) -> list:
        self.steps.start({i for i, g in zip(self.which, grads, strict=True) if g is not None})
        return [*grads, _token()]

    def on_arrays(self, grads: list) -> list:
        """The same for arrays."""
        self.steps.start({i for i, g in zip(self.which, grads, strict=True) if g is not None})
        return [*grads, _TOKEN_ARRAY]


class Steps:
    """What the nodes of one scan share. ``reached``: what each result of the last step depends on: numbers of carries
    before it, and other ends; ``live``: the carries with a gradient in the backward pass that runs, ``at_start``: those
    before the first step."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.count = 0
        self.reached: list[set] = []
        self.live: set[int] = set()
        self.at_start: set[int] = set()
        self.last: Step | None = None
        self.begun = 0

    def first(self, carry: Any) -> Any:
        """The carry before the first step, with its history."""
        leaves, spec = pytree.tree_flatten(carry)
        self.count = len(leaves)
        which = _asking(leaves)
        if not which or any(t._data is None for t in leaves):
            return carry
        return pytree.tree_unflatten(self._under(First, "ScanStartBackward0", leaves, which, ())[0], spec)

    def begin(self, carry: Any) -> None:
        """The last step begins."""
        self.before = {_key(end_of(t)): i for i, t in enumerate(pytree.tree_leaves(carry)) if t.requires_grad}
        self.begun = next_seq()

    def after(self, carry: Any, y: Any, last: bool) -> Any:
        """The carry after a step (the ``last``), with its history."""
        one = isinstance(carry, Tensor)
        leaves: list = [carry] if one else pytree.tree_leaves(carry)
        which = _asking(leaves)
        if not which or any(t._data is None for t in leaves):
            return carry
        if last:
            results = [*leaves, *pytree.tree_leaves(y)]
            inside = lambda node: node.seq > self.begun
            self.reached = [{self.before.get(_key(e), _key(e)) for e in ends_reached(t, inside)} for t in results]
        leaves, self.last = self._under(Step, "ScanStepBackward0", leaves, which, (_TOKEN,))
        return leaves[0] if one else pytree.tree_unflatten(leaves, pytree.tree_structure(carry))

    def results(self, carry: Any, ys: Any) -> Any:
        """The results of the scan, with their history."""
        leaves, spec = pytree.tree_flatten((carry, ys))
        which = _asking(leaves)
        if self.last is None or not which or any(t._data is None for t in leaves):
            return carry, ys
        leaves, _ = self._under(Last, "ScanBackward0", leaves, which, ())
        return pytree.tree_unflatten(leaves, spec)

    def start(self, given: set[int]) -> None:
        """A backward pass from the results ``given`` begins."""
        self.live, _ = through(self.reached, self.count, given, None)
        self.at_start, _ = through(self.reached, self.count, given, self.length)
        self.live |= {i for i in given if i < self.count}

    def _under(self, kind: type, name: str, leaves: list, which: list[int], more: tuple) -> tuple[list, Any]:
        ends: list[End] = [end_of(leaves[i]) for i in which]
        if self.last is not None:
            ends.append((self.last, len(self.last.which)))
        specs = [*((tuple(leaves[i].shape), leaves[i].dtype) for i in which), *more]
        node = kind(name, tuple(e for e, _ in ends), tuple(n for _, n in ends), specs)
        node.steps, node.which = self, which
        leaves = list(leaves)
        for k, i in enumerate(which):
            leaves[i] = alias(leaves[i])
            leaves[i]._node, leaves[i]._nr, leaves[i]._rg = node, k, True
        return leaves, node


def _asking(leaves: list) -> list[int]:
    return [i for i, t in enumerate(leaves) if isinstance(t, Tensor) and t.requires_grad and t.dtype.is_floating_point]


def _key(end: End) -> tuple[int, int]:
    return id(end[0]), end[1]


def _token() -> Tensor:
    return TABLE["zeros"]((), dtype=float32)
