"""What a region returns and how: which results are computed, which outputs are inputs, views or aliases made again for
real.

A region's outputs keep the storage relations of eager.  Every output gets a *recipe*:

    Same(k)                 the very object returned as output k
    Input(i)                the input object itself
    Result(j)               a fresh tensor around computed result j
    View(root, chain, rg)   the view operators of ``chain`` applied, eagerly, to an input or a result; an empty chain is
    ``detach``
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from fusegrad.autograd.node import Severed
from fusegrad.tensor import Tensor, storage_of, wrap_ref

from .ir.builder import GraphBuilder, Identity, Place
from .ir.unview import axis_order

__all__ = ["Input", "Plan", "Result", "Same", "Shared", "View", "make_plan"]


@dataclass(frozen=True)
class Same:
    index: int


@dataclass(frozen=True)
class Input:
    index: int


@dataclass(frozen=True)
class Result:
    index: int


@dataclass(frozen=True)
class View:
    """``root`` is an ``Input`` or a ``Result``. ``requires_grad``: the view is part of the history of its root; None:
    it is a view of what was detached, made without gradients.
    ``made``: what forbids in-place changes of it (see the engine's ``View``). ``counter``: the number of the counter of
    changes that it has, where that is not the root's (what came from ``.data``). ``own``: it is a view of nothing.
    """

    root: Any
    chain: tuple
    requires_grad: bool | None
    made: str | None = None
    counter: int | None = None
    own: bool = False


@dataclass(frozen=True)
class Shared:
    """The memory of ``root`` (seen through the views of ``chain``) under the tensor of result ``index``, which has a
    history of its own: a detached alias that was changed in place, or what a custom Function returned of its input
    (``made``: see the engine's ``View``).
    """

    root: Any
    index: int
    chain: tuple = ()
    made: str | None = None
    counter: int | None = None


@dataclass
class Plan:
    """``results[j]`` is the graph tensor that result j holds; ``recipes[k]`` says how output k is made.

    ``writes``: (number of the mutated input, graph tensor, what becomes of its history). ``counters``: roots that are
    seen through ``.data``, each with the input that counts their changes (it was moved to that memory) or None, and the
    changes that were counted.
    """

    results: list[Tensor] = field(default_factory=list)
    recipes: list[Any] = field(default_factory=list)
    writes: list[tuple[int, Tensor, str]] = field(default_factory=list)
    counters: list[tuple[Any, int | None, int]] = field(default_factory=list)
    watched: dict[int, Tensor] = field(default_factory=dict)  # views with a history, by output


def make_plan(builder: GraphBuilder, inputs: list[Tensor], outputs: list[Tensor], writes: bool = True) -> Plan:
    """The plan for graph tensors ``outputs`` of a builder whose inputs (in call order) are ``inputs``."""
    plan = Plan()
    by_cell: dict[int, int] = {id(t._g.cell): i for i, t in enumerate(inputs)}
    position = {id(t): i for i, t in enumerate(inputs)}
    groups: dict[int, list[Tensor]] = {}
    for t in {id(t): t for t in outputs}.values():
        groups.setdefault(id(t._g.cell), []).append(t)
    done: dict[int, int] = {}
    roots: dict[int, Result] = {}
    counters = _Counters(plan, inputs)
    alone = _Alone([*outputs, *(t for t, _ in builder.mutated())])
    for k, t in enumerate(outputs):
        if id(t) in done:
            plan.recipes.append(Same(done[id(t)]))
            continue
        done[id(t)] = k
        cell = t._g.cell
        group = groups[id(cell)]
        if id(t) in position:
            plan.recipes.append(Input(position[id(t)]))
        elif id(cell) in by_cell:
            i = by_cell[id(cell)]
            made = _alias(plan, Input(i), inputs[i]._g.__dict__.get("moved", inputs[i]), t, counters)
            plan.recipes.append(_as_own(made) if _of_nothing(t) and not _turned(t) else made)
        elif len(group) > 1 or (_looks(t) and (alone(t) or not _dense(t))):
            if id(cell) not in roots:
                roots[id(cell)] = _result(plan, _base(group))
            root = roots[id(cell)]
            same = t is plan.results[root.index]
            made = root if same else _alias(plan, root, plan.results[root.index], t, counters)
            if _of_nothing(t) and (not _turned(t) or (len(group) == 1 and not t.requires_grad)):
                made = _as_own(made)
            plan.recipes.append(made)
        else:
            plan.recipes.append(_result(plan, t))
        if type(plan.recipes[-1]) is View and t.requires_grad and t._node is not None:
            plan.watched[k] = t
    for t, _ in builder.mutated() if writes else ():
        plan.writes.append((by_cell[id(t._g.cell)], t, _history(t)))
    return plan


class _Counters:
    """Numbers of counters of changes that are not those of their memory's root."""

    def __init__(self, plan: Plan, inputs: list[Tensor]) -> None:
        self.plan, self.found = plan, {}  # type: ignore[var-annotated]
        self.moved = {id(t._g.__dict__["moved"]._st): i for i, t in enumerate(inputs) if "moved" in t._g.__dict__}

    def of(self, root: Any, t: Tensor) -> int:
        """The number of the counter of ``t``, which lies in the memory of ``root``."""
        storage = storage_of(t)
        number = self.found.setdefault((root, id(storage)), len(self.found))
        if number == len(self.plan.counters):
            moved = self.moved.get(id(storage))
            self.plan.counters.append((root, moved, storage.version))
        return number


def _looks(t: Tensor) -> bool:
    """Whether a result looks at memory that nobody has: a view, or one of other strides than its own memory has."""
    return bool(t._g.chain) and (t._g.meta.strides is not None or t._view is not None)


def _dense(t: Tensor) -> bool:
    """Whether memory of its own can have its strides."""
    return t._g.meta.strides is None or axis_order(t._g.meta) is not None


class _Alone:
    """Whether no other result was computed from a view: a view made anew, outside, knows nothing of what they bring to
    its gradient (its hooks, ``retain_grad``)."""

    def __init__(self, results: list[Tensor]) -> None:
        self.results = list({id(t): t for t in results if t._rg and t._node is not None}.values())

    def __call__(self, t: Tensor) -> bool:
        if t._node is None or len(self.results) < 2:
            return True
        todo: list[Any] = [r._node for r in self.results if r is not t and r._node is not t._node]
        if any(r is not t and r._node is t._node for r in self.results):
            return False
        seen: set[int] = set()
        while todo:
            node = todo.pop()
            if node is t._node:
                return False
            if node is not None and id(node) not in seen and not isinstance(node, Tensor):
                seen.add(id(node))
                todo.extend(node.edges)
        return True


def _of_nothing(t: Tensor) -> bool:
    """Whether it looks at a part of some memory, but is no view: detached from one, or what a function of several
    operators returned (``own``)."""
    return bool(t._g.chain) and t._view is None


def _as_own(recipe: Any) -> Any:
    return replace(recipe, own=True) if type(recipe) is View else recipe


def _turned(t: Tensor) -> bool:
    """Whether it looks otherwise at memory of its own by ``t_`` and the like: nobody has the old look."""
    return t._view is None and t._extra is not None and bool(t._extra.undo)


def _alias(plan: Plan, root: Any, first: Tensor, t: Tensor, counters: _Counters) -> Any:
    """A recipe for another tensor on the storage of ``root``, which is ``first`` in the graph."""
    counter = None if t._st is not None and t._st is first._st else counters.of(root, t)
    made = t._view.made if t._view is not None else None
    own = t._node is not None and t._node.op is None and made in ("function", "multi")  # that of a custom Function
    own = own or _turned(t)
    if not own and not first.requires_grad:  # what the memory's root is has no part in the history
        own = t._view is None or t._view.base._node is not None
    if t.requires_grad and t._node is not None and (own or not t._g.chain):
        return Shared(root, _result(plan, t).index, t._g.chain, made, counter)
    asks: bool | None = t.requires_grad and type(t._node) is not Severed
    if not asks and t._view is not None and made in ("no_grad", "inference") and not t._view.base._rg:
        asks = None
    return View(root, t._g.chain, asks, made, counter)


def _history(t: Tensor) -> str:
    """What became of the history of a mutated input: "keep" it, "record" the region's node, or "cut" it off."""
    node = t.grad_fn
    if isinstance(node, Identity):
        return "keep"  # changed under no_grad
    if node is not None and t.requires_grad:
        return "record"
    return "cut" if t._g.__dict__.get("leaf") is not None else "keep"


def _result(plan: Plan, t: Tensor) -> Result:
    plan.results.append(t)
    return Result(len(plan.results) - 1)


def _base(group: list[Tensor]) -> Tensor:
    """The tensor to compute for outputs that share a storage: the whole of it, with its history if it has one."""
    whole = [t for t in group if not t._g.chain]
    whole += [t._view.base for t in group if t._view is not None and not t._view.base._g.chain]
    for t in whole:
        if t.requires_grad:
            return t
    if whole:
        return whole[0]
    place = group[0]._g  # only views of a tensor that is gone: take the storage itself
    base = wrap_ref(Place(place.handler, place.cell.value.meta, place.cell, (), place.cell.value))
    base._st = group[0]._st
    return base
