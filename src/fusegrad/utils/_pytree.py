"""PyTorch's names for nested containers: ``fusegrad.pytree``, with None as a leaf.

``fusegrad.func`` and the exporter go by ``fusegrad.pytree``, where None is an empty container as in JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fusegrad import pytree
from fusegrad.pytree import LEAF, TreeSpec, register_pytree_node, tree_unflatten

__all__ = [
    "LeafSpec", "PyTree", "TreeSpec", "register_pytree_node", "tree_all", "tree_all_only", "tree_any", "tree_any_only",
    "tree_flatten", "tree_iter", "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_",
    "tree_structure", "tree_unflatten",
]  # fmt: skip

PyTree = Any
IsLeaf = Callable[[Any], bool] | None


def LeafSpec() -> TreeSpec:
    """The structure of a single leaf."""
    return LEAF


def _stops(is_leaf: IsLeaf) -> Callable[[Any], bool]:
    if is_leaf is None:
        return lambda x: x is None
    return lambda x: x is None or is_leaf(x)


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of ``tree`` in order, and its structure. ``is_leaf(x)`` true stops the descent at ``x``."""
    return pytree.tree_flatten(tree, _stops(is_leaf))


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of ``tree`` alone."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterable[Any]:
    """An iterator over the leaves of ``tree``."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure of ``tree`` alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """``func`` of each leaf, with the leaves at the same place of ``rests``. ValueError if the structures differ."""
    return pytree.tree_map(func, tree, *rests, is_leaf=_stops(is_leaf))


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call ``func`` with each leaf for its effects; gives ``tree`` back."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(kinds: Any) -> Callable[[Any], bool]:
    """Whether a leaf is meant: by a class, a tuple of classes, or a function that says so."""
    if isinstance(kinds, (type, tuple)) or not callable(kinds):
        return lambda x: isinstance(x, kinds)
    return kinds


def tree_map_only(kinds: Any, func: Any = None, tree: PyTree = None, is_leaf: IsLeaf = None) -> PyTree:
    """``func`` of the leaves of one class (or classes, or that a function chooses); the others as they are."""
    meant = _chosen(kinds)
    return tree_map(lambda x: func(x) if meant(x) else x, tree, is_leaf=is_leaf)


def tree_map_only_(kinds: Any, func: Any = None, tree: PyTree = None, is_leaf: IsLeaf = None) -> PyTree:
    """``tree_map_only`` for its effects; gives ``tree`` back."""
    tree_map_only(kinds, func, tree, is_leaf)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(kinds: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for every leaf of one class (or classes)."""
    meant = _chosen(kinds)
    return all(pred(x) for x in tree_leaves(tree, is_leaf) if meant(x))


def tree_any_only(kinds: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` holds for a leaf of one class (or classes)."""
    meant = _chosen(kinds)
    return any(pred(x) for x in tree_leaves(tree, is_leaf) if meant(x))
