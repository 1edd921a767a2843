"""Nested containers as a flat list of leaves and a description of the nesting.

Containers are exactly: list, tuple, dict, OrderedDict, defaultdict, deque, namedtuples, None (an empty container, as in
JAX and PyTorch), and classes given to ``register_pytree_node``.  Everything else, subclasses of those included, is a
leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

__all__ = [
    "TreeSpec", "register_pytree_node", "tree_all", "tree_flatten", "tree_leaves", "tree_map", "tree_structure",
    "tree_unflatten",
]  # fmt: skip


class TreeSpec:
    """The nesting.

    ``kind`` is the container's class (None for a leaf), ``context`` what it needs besides its children.
    """

    __slots__ = ("kind", "context", "children")

    def __init__(self, kind: type | None, context: Any, children: tuple[TreeSpec, ...]) -> None:
        self.kind, self.context, self.children = kind, context, children

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.kind is other.kind and self.context == other.context and self.children == other.children

    def __hash__(self) -> int:
        return hash((self.kind, self.context, self.children))

    @property
    def num_leaves(self) -> int:
        return 1 if self.kind is None else sum(c.num_leaves for c in self.children)

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        inner = ", ".join(map(repr, self.children))
        keys = f", {self.context}" if self.context is not None else ""
        return f"{self.kind.__name__}([{inner}]{keys})"


LEAF = TreeSpec(None, None, ())
_NODES: dict[type, tuple[Callable[[Any], tuple[list, Any]], Callable[[list, Any], Any]]] = {}


def register_pytree_node(
    cls: type, flatten: Callable[[Any], tuple[list, Any]], unflatten: Callable[[list, Any], Any]
) -> None:
    """Make ``cls`` a container.

    ``flatten(x) -> (children, context)``; ``unflatten(children, context) -> x``. ValueError if it is one.
    """
    if cls in _NODES:
        raise ValueError(f"{cls} is already registered as a pytree node")
    _NODES[cls] = (flatten, unflatten)


def _dict_type(make: Callable[[], Any]) -> tuple:
    def rebuild(children: list, keys: Any) -> Any:
        out = make()
        out.update(zip(keys, children, strict=True))
        return out

    return lambda d: (list(d.values()), tuple(d)), rebuild


register_pytree_node(list, lambda x: (list(x), None), lambda c, _: list(c))
register_pytree_node(tuple, lambda x: (list(x), None), lambda c, _: tuple(c))
register_pytree_node(type(None), lambda x: ([], None), lambda c, _: None)
register_pytree_node(dict, *_dict_type(dict))
register_pytree_node(OrderedDict, *_dict_type(OrderedDict))
register_pytree_node(
    defaultdict,
    lambda d: (list(d.values()), (d.default_factory, tuple(d))),
    lambda c, context: defaultdict(context[0], zip(context[1], c, strict=True)),
)
register_pytree_node(deque, lambda d: (list(d), d.maxlen), lambda c, maxlen: deque(c, maxlen))


def _is_namedtuple(cls: type) -> bool:
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves of ``tree`` in order, and its structure. ``is_leaf(x)`` true stops the descent at ``x``."""
    leaves: list[Any] = []
    return leaves, _walk(tree, leaves, is_leaf)


# module-level functions: an inner function that calls itself is a reference cycle, and would keep the leaves alive
def _walk(x: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    cls = type(x)
    if is_leaf is not None and is_leaf(x):
        leaves.append(x)
        return LEAF
    entry = _NODES.get(cls)
    if entry is not None:
        children, context = entry[0](x)
    elif _is_namedtuple(cls):
        children, context = list(x), None
    else:
        leaves.append(x)
        return LEAF
    return TreeSpec(cls, context, tuple(_walk(c, leaves, is_leaf) for c in children))


def tree_unflatten(leaves: Any, spec: TreeSpec) -> Any:
    """The tree of structure ``spec`` with these leaves. ValueError for a wrong number of them."""
    items = list(leaves)
    if len(items) != spec.num_leaves:
        raise ValueError(f"tree_unflatten: the structure {spec} has {spec.num_leaves} leaves, got {len(items)}")
    return _build(spec, iter(items))


def _build(spec: TreeSpec, source: Any) -> Any:
    if spec.kind is None:
        return next(source)
    children = [_build(c, source) for c in spec.children]
    entry = _NODES.get(spec.kind)
    return entry[1](children, spec.context) if entry is not None else spec.kind(*children)


def tree_structure(tree: Any) -> TreeSpec:
    """The structure of ``tree`` alone."""
    return tree_flatten(tree)[1]


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of ``tree`` alone."""
    return tree_flatten(tree, is_leaf)[0]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """``f`` applied to each leaf (with the leaves at the same place of ``rest``).

    ValueError if the structures differ.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for other in rest:
        more, other_spec = tree_flatten(other, is_leaf)
        if other_spec != spec:
            raise ValueError(f"tree_map: structures differ: {spec} and {other_spec}")
        columns.append(more)
    return tree_unflatten([f(*row) for row in zip(*columns, strict=True)], spec)


def tree_all(predicate: Callable[[Any], bool], tree: Any) -> bool:
    """Whether ``predicate`` holds for every leaf."""
    return all(map(predicate, tree_leaves(tree)))
