"""Nesting of arguments and results as plain data, so that it can stand in a file.

A tree is ``"*"`` (a leaf) or an object with one of the keys list, tuple, dict, ordered_dict, default_dict, deque,
namedtuple. Leaves are listed apart, in order. Classes are never looked up by name: a namedtuple that comes from a file
is made anew with the same name and fields.
"""

from __future__ import annotations

import keyword
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from typing import Any

from .errors import ArgumentError, ExportError, FileError

LEAF = "*"
_DEPTH = 32
_MAPS = {"dict": dict, "ordered_dict": OrderedDict, "default_dict": defaultdict}
_SEQUENCES = {"list": list, "tuple": tuple, "deque": deque}
_NAMEDTUPLES: dict[tuple, type] = {}


def kind_of(value: Any) -> str | None:
    """The kind of container `value` is, or None for a leaf. Shapes (`Size`) count as tuples."""
    for table in (_MAPS, _SEQUENCES):
        for name, cls in table.items():
            if type(value) is cls:
                return name
    if isinstance(value, tuple):
        return "namedtuple" if hasattr(value, "_fields") else "tuple"
    return None


def flatten(value: Any, path: str, leaves: list[tuple[str, Any]], depth: int = 0) -> Any:
    """The tree of `value`; its leaves are appended to `leaves` as (path, leaf). ExportError if nested too deeply."""
    if depth > _DEPTH:
        raise ExportError(f"{path}: nested more than {_DEPTH} levels deep (does it contain itself?)")
    kind = kind_of(value)
    if kind is None:
        leaves.append((path, value))
        return LEAF
    if kind in _MAPS:
        items = []
        for k, v in value.items():
            if not isinstance(k, (str, int)):
                raise ExportError(f"{path}: dict keys must be str or int in an exported program, got {k!r}")
            items.append([k, flatten(v, f"{path}[{k!r}]", leaves, depth + 1)])
        return {kind: items}
    if kind == "namedtuple":
        cls = type(value)
        _NAMEDTUPLES.setdefault((cls.__name__, cls._fields), cls)
        items = [flatten(v, f"{path}.{f}", leaves, depth + 1) for f, v in zip(cls._fields, value, strict=True)]
        return {"namedtuple": items, "name": cls.__name__, "fields": list(cls._fields)}
    return {kind: [flatten(v, f"{path}[{i}]", leaves, depth + 1) for i, v in enumerate(value)]}


def kind_in(tree: dict) -> str:
    """The kind of container that a tree (no leaf) describes."""
    return "namedtuple" if "namedtuple" in tree else next(iter(tree))


def unflatten(tree: Any, leaves: Iterator[Any]) -> Any:
    """The value of this tree with the next leaves."""
    if tree == LEAF:
        return next(leaves)
    kind = kind_in(tree)
    if kind in _MAPS:
        items = [(k, unflatten(t, leaves)) for k, t in tree[kind]]
        return (
            defaultdict(None, items)
            if kind == "default_dict"
            else OrderedDict(items)
            if kind[0] == "o"
            else dict(items)
        )
    children = [unflatten(t, leaves) for t in tree[kind]]
    if kind == "namedtuple":
        return _namedtuple(tree["name"], tuple(tree["fields"]))(*children)
    return _SEQUENCES[kind](children)


def _namedtuple(name: str, fields: tuple[str, ...]) -> type:
    key = (name, fields)
    if key not in _NAMEDTUPLES:
        _NAMEDTUPLES[key] = namedtuple(name, fields)
    return _NAMEDTUPLES[key]


def match(tree: Any, value: Any, path: str, leaves: list[tuple[str, Any]]) -> None:
    """Append the leaves of `value`, which must have this tree (dicts by key, in any order); else ArgumentError."""
    if tree == LEAF:
        kind = kind_of(value)
        if kind is not None:
            raise ArgumentError(f"{path}: is a {kind}, allowed: one value that is not a container")
        leaves.append((path, value))
        return
    kind = kind_in(tree)
    got = kind_of(value)
    if got != kind and not (got in _MAPS and kind in _MAPS):
        raise ArgumentError(f"{path}: is a {got or type(value).__name__}, allowed: {describe(tree)}")
    if kind in _MAPS:
        _match_map(tree[kind], value, path, leaves)
        return
    children = tree[kind]
    if len(value) != len(children):
        raise ArgumentError(f"{path}: has {len(value)} entries, allowed {len(children)}")
    if kind == "namedtuple":
        if list(value._fields) != tree["fields"]:
            raise ArgumentError(f"{path}: has the fields {list(value._fields)}, allowed {tree['fields']}")
        labels = [f".{f}" for f in tree["fields"]]
    else:
        labels = [f"[{i}]" for i in range(len(children))]
    for label, child, v in zip(labels, children, value, strict=True):
        match(child, v, path + label, leaves)


def _match_map(items: list, value: Any, path: str, leaves: list[tuple[str, Any]]) -> None:
    keys = [k for k, _ in items]
    missing = [k for k in keys if k not in value]
    extra = [k for k in value if k not in keys]
    if missing or extra:
        raise ArgumentError(f"{path}: has the keys {list(value)}, allowed {keys}")
    for k, child in items:
        match(child, value[k], f"{path}[{k!r}]", leaves)


def describe(tree: Any) -> str:
    """Short text of a tree: `[*, (*, *)]`, `{'a': *}`."""
    if tree == LEAF:
        return LEAF
    kind = kind_in(tree)
    if kind in _MAPS:
        return "{" + ", ".join(f"{k!r}: {describe(t)}" for k, t in tree[kind]) + "}"
    inner = ", ".join(describe(t) for t in tree[kind])
    if kind == "namedtuple":
        return f"{tree['name']}({inner})"
    return f"[{inner}]" if kind == "list" else f"({inner}{',' if len(tree[kind]) == 1 else ''})"


def check(tree: Any, path: str, depth: int = 0) -> int:
    """Check a tree that came from a file; returns its number of leaves. FileError for anything malformed."""
    if tree == LEAF and isinstance(tree, str):
        return 1
    if depth > _DEPTH:
        raise FileError(f"load: graph.json: {path}: nested too deeply")
    if not isinstance(tree, dict) or not (len(tree) == 1 or "namedtuple" in tree):
        raise FileError(f"load: graph.json: {path}: expected a tree")
    kind = kind_in(tree)
    children = tree[kind]
    if kind not in _MAPS and kind not in _SEQUENCES and kind != "namedtuple" or not isinstance(children, list):
        raise FileError(f"load: graph.json: {path}: expected a tree")
    if kind in _MAPS:
        keys = []
        for item in children:
            good = isinstance(item, list) and len(item) == 2 and isinstance(item[0], (str, int))
            if not good or isinstance(item[0], bool):
                raise FileError(f"load: graph.json: {path}: expected pairs of a key and a tree")
            keys.append(item[0])
        if len(set(keys)) != len(keys):
            raise FileError(f"load: graph.json: {path}: a key occurs twice")
        children = [t for _, t in children]
    elif kind == "namedtuple":
        _check_namedtuple(tree, len(children), path)
    return sum(check(t, f"{path}[{i}]", depth + 1) for i, t in enumerate(children))


def _check_namedtuple(tree: dict, count: int, path: str) -> None:
    names = tree.get("fields")
    if set(tree) != {"namedtuple", "name", "fields"} or not isinstance(names, list) or len(names) != count:
        raise FileError(f"load: graph.json: {path}: malformed namedtuple")
    for name in (tree["name"], *names):
        plain = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and len(name) < 200
        if not plain or name.startswith("_"):
            raise FileError(f"load: graph.json: {path}: malformed namedtuple name {str(name)[:40]!r}")
    if len(set(names)) != count:
        raise FileError(f"load: graph.json: {path}: a field occurs twice")
