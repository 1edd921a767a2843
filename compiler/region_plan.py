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

from dataclasses import dataclass, field
from typing import Any

from fusegrad.tensor import Tensor

from .ir.builder import Cell, GraphBuilder, Identity

__all__ = ["Input", "Plan", "Result", "Same", "View", "make_plan"]


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
    """``root`` is an ``Input`` or a ``Result``. ``requires_grad``: the view is part of the history of its root."""

    root: Any
    chain: tuple
    requires_grad: bool


@dataclass
class Plan:
    """``results[j]`` is the graph tensor that result j holds; ``recipes[k]`` says how output k is made.

    ``writes``: (number of the mutated input, graph tensor, what becomes of its history).
    """

    results: list[Tensor] = field(default_factory=list)
    recipes: list[Any] = field(default_factory=list)
    writes: list[tuple[int, Tensor, str]] = field(default_factory=list)


def make_plan(builder: GraphBuilder, inputs: list[Tensor], outputs: list[Tensor], writes: bool = True) -> Plan:
    """The plan for graph tensors ``outputs`` of a builder whose inputs (in call order) are ``inputs``."""
    plan = Plan()
    by_cell: dict[int, int] = {id(t._g.cell): i for i, t in enumerate(inputs)}
    position = {id(t): i for i, t in enumerate(inputs)}
    users: dict[int, int] = {}
    for t in {id(t): t for t in outputs}.values():
        users[id(t._g.cell)] = users.get(id(t._g.cell), 0) + 1
    done: dict[int, int] = {}
    roots: dict[int, Result] = {}
    for k, t in enumerate(outputs):
        if id(t) in done:
            plan.recipes.append(Same(done[id(t)]))
            continue
        done[id(t)] = k
        cell = t._g.cell
        if id(t) in position:
            plan.recipes.append(Input(position[id(t)]))
        elif id(cell) in by_cell:
            plan.recipes.append(View(Input(by_cell[id(cell)]), t._g.chain, t.requires_grad))
        else:
            shared = users[id(cell)] > 1 or bool(t._g.chain and t._g.meta.strides is not None)
            plan.recipes.append(_fresh(plan, t, cell, roots) if shared else _result(plan, t))
    for t, _ in builder.mutated() if writes else ():
        plan.writes.append((by_cell[id(t._g.cell)], t, _history(t)))
    return plan


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


def _fresh(plan: Plan, t: Tensor, cell: Cell, roots: dict[int, Result]) -> Any:
    """A recipe for an output that shares its storage (made inside the region) with others."""
    root = roots.get(id(cell))
    if root is None:
        base = _base(t)
        root = roots[id(cell)] = _result(plan, base)
        if base is t:
            return root
    if t is plan.results[root.index]:
        return root
    return View(root, t._g.chain, t.requires_grad)


def _base(t: Tensor) -> Tensor:
    """The tensor that a view looks at (with its history), or a tensor without chain on the same storage."""
    record = t._view
    if record is not None and not record.base._g.chain:
        return record.base
    if not t._g.chain:
        return t
    # a view whose base was itself detached: only the storage is left
    from fusegrad.tensor import wrap_ref

    from .ir.builder import Place

    cell = t._g.cell
    return wrap_ref(Place(t._g.handler, cell.value.meta, cell, (), cell.value))
