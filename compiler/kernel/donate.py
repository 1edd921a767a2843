"""Results that may be written over an input: the new value of a tensor that the graph updates in place.

The caller asks (``into``: number of the result -> number of the input) and promises that the input's memory may be
written and overlaps no other argument.  The wish is granted only if nothing can notice: the input is not read after
(or, inside the writing loop, at any other place than) the element that is written, and nothing that runs from then on
can raise an error and leave the update half done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..ir.graph import Value
from .affine import same
from .calls import is_blas
from .fuse import Group
from .joins import is_join
from .memory import dense_order
from .stages import Analysis, read_by

__all__ = ["grant", "may_replace"]


def grant(
    into: dict[int, int],
    results: Sequence[Any],
    inputs: Sequence[Value],
    analysis: Analysis,
    groups: Sequence[Group],
    plans: Sequence[Any],
) -> dict[Value, Value]:
    """Result value -> the input it is written to, for the wishes that are safe."""
    position = {s.value: k for k, g in enumerate(groups) for s in g.stages}
    stored = Counter(analysis.arrays[v][0] for v in results if isinstance(v, Value) and v in analysis.arrays)
    quiet, last = _quiet_from(groups), _last_readers(groups, analysis)
    given: dict[Value, Value] = {}
    taken: set[Value] = set()
    for result, source in into.items():
        value, target = results[result], inputs[source]
        if not isinstance(value, Value) or value not in position or target in taken or target in stored:
            continue
        at = position[value]
        if stored[value] != 1 or at < quiet or last.get(target, -1) > at or not _same_memory(value, target):
            continue
        if _read_in_place(value, target, groups[at], plans[at]):
            given[value] = target
            taken.add(target)
    return given


def _same_memory(value: Value, target: Value) -> bool:
    """Same dtype, shape and C order."""
    a, b = value.meta, target.meta
    if (
        a.dtype is not b.dtype
        or b.weak
        or b.strides is not None
        or len(a.shape) != len(b.shape)
        or dense_order(a) is not None
    ):
        return False
    return all(same(x, y) for x, y in zip(a.shape, b.shape, strict=True))


def may_replace(value: Value, old: Value, group: Group, plan: Any) -> bool:
    """Whether ``group`` may store ``value`` over ``old``, which it is the last to read."""
    a, b = value.meta, old.meta
    if (
        a.dtype is not b.dtype
        or len(a.shape) != len(b.shape)
        or dense_order(a) is not None
        or dense_order(b) is not None
    ):
        return False
    if not all(same(x, y) for x, y in zip(a.shape, b.shape, strict=True)) or value not in plan.made:
        return False
    return _read_in_place(value, old, group, plan)


def _quiet_from(groups: Sequence[Group]) -> int:
    """The first group whose results may be written over inputs: there is no index check in its kernel, and no check or
    library call with a will of its own afterwards.
    """
    first = len(groups)
    while first > 0:
        g = groups[first - 1]
        if g.node is None:
            if any(s.checks for s in g.stages):
                break
        elif not is_blas(g.node) and not is_join(g.node):
            break
        first -= 1
    if first and groups[first - 1].node is None:  # a check: the groups of its kernel come too early as well
        while first < len(groups) and (groups[first].node is None or is_join(groups[first].node)):
            first += 1
    return first


def _last_readers(groups: Sequence[Group], analysis: Analysis) -> dict[Value, int]:
    """The last group that reads each value in memory."""
    last: dict[Value, int] = {}
    for k, g in enumerate(groups):
        if g.node is not None:
            last.update(dict.fromkeys(read_by(g.node, analysis.arrays), k))
        for s in g.stages:
            last.update((v, k) for v, _ in s.reads)
    return last


def _read_in_place(value: Value, target: Value, group: Group, plan: Any) -> bool:
    """In the writing loop the input is read at the element that is written, and only in the phase that writes it: not
    by a value that a later phase computes again, directly or for something that it computes again.
    """
    writer = plan.made[value]
    if writer.combine is not None:
        return not any(v is target for s in group.stages for v, _ in s.reads)
    for stage in group.stages:
        for v, where in stage.reads:
            if v is not target:
                continue
            if plan.runs[stage] != {plan.phase[writer]}:
                return False
            if tuple(ix.rename(group.maps[stage]) for ix in where) != plan.at[value]:
                return False
    return True
