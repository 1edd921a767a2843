"""Nesting of arguments and results as plain data, so that it can stand in a file.

A tree is ``"*"`` (a leaf) or an object with one of the keys list, tuple, dict, ordered_dict, default_dict, deque,
namedtuple, dataclass. Leaves are listed apart, in order. Classes are never looked up by name: a namedtuple or dataclass
that comes from a file is made anew with the same name and fields.
"""

from __future__ import annotations

import copy
import dataclasses
import keyword
import unicodedata
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from typing import Any

from fusegrad.nn import Module
from fusegrad.tensor import Tensor

from .errors import ArgumentError, ExportError, FileError

LEAF = "*"
_DEPTH = 32
_MAPS = {"dict": dict, "ordered_dict": OrderedDict, "default_dict": defaultdict}
_SEQUENCES = {"list": list, "tuple": tuple, "deque": deque}
RECORDS = ("namedtuple", "dataclass")  # trees of these have a name and fields
_CLASSES: dict[tuple, type] = {}  # (kind, name, fields) -> the class of the results


def kind_of(value: Any) -> str | None:
    """The kind of container `value` is, or None for a leaf. Shapes (`Size`) count as tuples."""
    for table in (_MAPS, _SEQUENCES):
        for name, cls in table.items():
            if type(value) is cls:
                return name
    if isinstance(value, tuple):
        return "namedtuple" if hasattr(value, "_fields") else "tuple"
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, list, dict, Tensor, Module)):
        return "dataclass"
    return None


def fields_of(value: Any) -> list[str]:
    """The names of a namedtuple's or dataclass's fields."""
    return list(value._fields) if isinstance(value, tuple) else [f.name for f in dataclasses.fields(value)]


def labelled(value: Any) -> list[tuple[str, Any]]:
    """The parts of a container with what follows its name in a path: ``[0]``, ``['key']``, ``.field``."""
    kind = kind_of(value)
    if kind in _MAPS:
        return [(f"[{k!r}]", v) for k, v in value.items()]
    if kind in RECORDS:
        return [(f".{name}", getattr(value, name)) for name in fields_of(value)]
    return [(f"[{i}]", v) for i, v in enumerate(value)]


def flatten(value: Any, path: str, leaves: list[tuple[str, Any]], depth: int = 0) -> Any:
    """The tree of `value`; its leaves are appended to `leaves` as (path, leaf). ExportError if nested too deeply."""
    if depth > _DEPTH:
        raise ExportError(f"{path}: nested more than {_DEPTH} levels deep (does it contain itself?)")
    kind = kind_of(value)
    if kind is None:
        leaves.append((path, value))
        return LEAF
    parts = labelled(value)
    if kind in RECORDS:
        for name in (type(value).__name__, *fields_of(value)):
            if not _good_name(name):
                raise ExportError(f"{path}: a {kind} with the name {name!r} cannot stand in a file")
    if kind in _MAPS:
        for k in value:
            if not isinstance(k, (str, int)) or isinstance(k, bool):
                raise ExportError(f"{path}: dict keys must be str or int in an exported program, got {k!r}")
    items = [flatten(v, path + label, leaves, depth + 1) for label, v in parts]
    if kind in _MAPS:
        return {kind: [[k, item] for k, item in zip(value, items, strict=True)]}
    if kind in RECORDS:
        name, fields = type(value).__name__, fields_of(value)
        _CLASSES.setdefault((kind, name, tuple(fields)), type(value))
        return {kind: items, "name": name, "fields": fields}
    return {kind: items}


def rebuild(value: Any, leaves: Iterator[Any]) -> Any:
    """Containers of the very classes of `value` (with a deque's length, a defaultdict's factory) and other leaves."""
    kind = kind_of(value)
    if kind is None:
        return next(leaves)
    parts = [rebuild(v, leaves) for _, v in labelled(value)]
    if kind in _MAPS or kind == "dataclass":
        out = copy.copy(value)
        for name, part in zip(value if kind in _MAPS else fields_of(value), parts, strict=True):
            if kind in _MAPS:
                out[name] = part
            else:
                object.__setattr__(out, name, part)
        return out
    if kind == "deque":
        return deque(parts, value.maxlen)
    return type(value)(*parts) if kind == "namedtuple" else type(value)(parts)


def kind_in(tree: dict) -> str:
    """The kind of container that a tree (no leaf) describes."""
    return next(k for k in tree if k not in ("name", "fields"))


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
    if kind not in RECORDS:
        return _SEQUENCES[kind](children)
    cls = _class(kind, tree["name"], tuple(tree["fields"]))
    if kind == "namedtuple":
        return cls(*children)
    out: Any = object.__new__(cls)  # its parts are known: no __init__ or __post_init__ works them out again
    for name, child in zip(tree["fields"], children, strict=True):
        object.__setattr__(out, name, child)
    return out


def _class(kind: str, name: str, fields: tuple[str, ...]) -> type:
    key = (kind, name, fields)
    if key not in _CLASSES:
        _CLASSES[key] = namedtuple(name, fields) if kind == "namedtuple" else dataclasses.make_dataclass(name, fields)
    return _CLASSES[key]


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
    children, parts = tree[kind], labelled(value)
    if kind in RECORDS and fields_of(value) != tree["fields"]:
        raise ArgumentError(f"{path}: has the fields {fields_of(value)}, allowed {tree['fields']}")
    if len(parts) != len(children):
        raise ArgumentError(f"{path}: has {len(parts)} entries, allowed {len(children)}")
    for child, (label, v) in zip(children, parts, strict=True):
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
    if kind in RECORDS:
        return f"{tree['name']}({inner})"
    return f"[{inner}]" if kind == "list" else f"({inner}{',' if len(tree[kind]) == 1 else ''})"


def check(tree: Any, path: str, depth: int = 0) -> int:
    """Check a tree that came from a file; returns its number of leaves. FileError for anything malformed."""
    if tree == LEAF and isinstance(tree, str):
        return 1
    if depth > _DEPTH:
        raise FileError(f"load: graph.json: {path}: nested too deeply")
    named = isinstance(tree, dict) and any(kind in tree for kind in RECORDS)
    if not isinstance(tree, dict) or len(tree) != (3 if named else 1):
        raise FileError(f"load: graph.json: {path}: expected a tree")
    kind = next((k for k in (*_MAPS, *_SEQUENCES, *RECORDS) if k in tree), "")
    children = tree.get(kind)
    if not isinstance(children, list):
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
    elif kind in RECORDS:
        _check_record(kind, tree, len(children), path)
    return sum(check(t, f"{path}[{i}]", depth + 1) for i, t in enumerate(children))


def _check_record(kind: str, tree: dict, count: int, path: str) -> None:
    names = tree.get("fields")
    if set(tree) != {kind, "name", "fields"} or not isinstance(names, list) or len(names) != count:
        raise FileError(f"load: graph.json: {path}: malformed {kind}")
    for name in (tree["name"], *names):
        if not _good_name(name) or (kind == "namedtuple" and name is not tree["name"] and name[0] == "_"):
            raise FileError(f"load: graph.json: {path}: malformed {kind} name {str(name)[:40]!r}")
    if len(set(names)) != count:
        raise FileError(f"load: graph.json: {path}: a field occurs twice")


def _good_name(name: Any) -> bool:
    plain = isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and len(name) < 200
    return plain and not name.startswith("__") and unicodedata.normalize("NFKC", name) == name  # as Python reads it
