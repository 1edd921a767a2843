"""What the tape over captured code says of a region's results: freed, which leaves, what they share."""

from __future__ import annotations

from typing import Any

from fusegrad.tensor import Tensor

__all__ = ["is_freed", "leaves_of", "saves", "shares"]


def is_freed(t: Tensor) -> bool:
    """Whether the history of ``t`` was freed by a backward pass inside the captured code."""
    todo, seen = [t.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or isinstance(node, Tensor) or node in seen:
            continue
        if node.freed:
            return True
        seen.add(node)
        todo.extend(node.edges)
    return False


def shares(results: list[Tensor]) -> list[frozenset[int]]:
    """For each result the numbers of those whose history has a node with saved tensors in common with its own.

    A backward pass frees such nodes, and eager code can't pass through them again; other results it can.
    """
    kept = [{id(n) for n in _history(t) if not isinstance(n, Tensor) and _frees(n)} for t in results]
    return [frozenset(k for k, other in enumerate(kept) if other & mine) for mine in kept]


def saves(results: list[Tensor], start: int) -> bool:
    """Whether a node that is newer than ``start`` in the history of ``results`` keeps tensors."""
    nodes = [n for t in results for n in _history(t) if not isinstance(n, Tensor)]
    return any(n.seq > start and _frees(n) for n in nodes)


def _frees(node: Any) -> bool:
    if node.op is None:
        return bool(node.saved)
    return node.op.frees == 1 or (node.op.frees == 2 and node.keeps())


def _history(t: Tensor) -> list[Any]:
    """The nodes and leaves that the history of ``t`` leads to."""
    todo, seen = [t.grad_fn], {}
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen[id(node)] = node
        if not isinstance(node, Tensor):
            todo.extend(node.edges)
    return list(seen.values())


def leaves_of(t: Tensor, candidates: list[tuple[int, Any]]) -> list[int]:
    """The candidates (number, leaf) that the history of ``t`` leads to."""
    seen = set(map(id, _history(t)))
    return [i for i, leaf in candidates if id(leaf) in seen]
