"""Graphs as plain JSON data (dicts, lists, strings, finite numbers, None), and back; every field read is checked."""

from __future__ import annotations

import math
import re
from typing import Any

from fusegrad import dtypes
from fusegrad.meta import Meta

from .bind import bind_sizes
from .control import is_control
from .graph import MAX_DEPTH, Graph, Value

__all__ = ["PlainError", "attr_from_plain", "attr_to_plain", "from_plain", "to_plain"]

_DEPTH = 16  # nesting of lists in arguments and attributes


class PlainError(ValueError):
    """The data does not describe a graph. The message has the path to the field, as ``nodes[3].args[0]``."""


# -- graph -> data


def _size_out(size: Any) -> Any:
    return size if isinstance(size, int) else str(size)


def meta_to_plain(meta: Meta) -> dict[str, Any]:
    """A Meta as data; sizes are ints or expressions in text."""
    data: dict[str, Any] = {"dtype": meta.dtype.name, "shape": [_size_out(s) for s in meta.shape]}
    if meta.strides is not None:
        data["strides"] = [_size_out(s) for s in meta.strides]
    if meta.weak:
        data["weak"] = True
    return data


def attr_to_plain(value: Any) -> Any:
    """An attribute or number: JSON's own values stay; the rest is an object with one key."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, dtypes.dtype):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return {"tuple": [attr_to_plain(v) for v in value]}
    if isinstance(value, list):
        return [attr_to_plain(v) for v in value]
    if isinstance(value, slice):
        return {"slice": [attr_to_plain(v) for v in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    if isinstance(value, Graph):
        return {"graph": to_plain(value)}
    if hasattr(value, "expr"):
        return {"size": str(value)}
    raise TypeError(f"a graph cannot hold the attribute value {value!r} of type {type(value).__name__}")


def to_plain(graph: Graph, locs: bool = True) -> dict[str, Any]:
    """The graph as data. Values are numbered: inputs first, then results in order; a reference is ``{"value": n}``."""
    ids = {value: i for i, value in enumerate(graph.inputs)}
    for node in graph.nodes:
        for value in node.outputs:
            ids[value] = len(ids)

    def arg(a: Any) -> Any:
        if isinstance(a, Value):
            return {"value": ids[a]}
        if isinstance(a, (list, tuple)):
            return [arg(x) for x in a]
        return attr_to_plain(a)

    nodes = []
    for node in graph.nodes:
        data: dict[str, Any] = {
            "op": node.op.name,
            "args": [arg(a) for a in node.args],
            "attrs": {k: attr_to_plain(v) for k, v in node.attrs.items()},
            "outputs": [meta_to_plain(v.meta) for v in node.outputs],
        }
        if locs and node.loc is not None:
            data["loc"] = [node.loc[0].replace("\\", "/").rsplit("/", 1)[-1], node.loc[1]]
        nodes.append(data)
    return {
        "name": graph.name,
        "inputs": [{"name": v.name, **meta_to_plain(v.meta)} for v in graph.inputs],
        "size_params": list(graph.size_params),
        "nodes": nodes,
        "outputs": [arg(v) for v in graph.outputs],
        "mutations": [[ids[d], arg(s)] for d, s in graph.mutations],
        "draws": graph.draws,
    }


# -- data -> graph


def _need(condition: bool, path: str, message: str) -> None:
    if not condition:
        raise PlainError(f"{path}: {message}")


def _field(data: Any, key: str, kind: Any, path: str) -> Any:
    _need(isinstance(data, dict), path, "expected an object")
    _need(key in data, path, f"field {key!r} is missing")
    value = data[key]
    ok = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    _need(ok, f"{path}.{key}", f"expected {getattr(kind, '__name__', kind)}, found {type(value).__name__}")
    return value


class _Reader:
    def __init__(self, ops: dict[str, Any], sizes: Any, depth: int = 0) -> None:
        self.ops, self.depth = ops, depth
        self.sizes = sizes
        self.values: list[Value] = []

    def size(self, data: Any, path: str) -> Any:
        if isinstance(data, int) and not isinstance(data, bool):
            return data
        _need(isinstance(data, str) and len(data) < 500, path, "expected a size: an int or an expression")
        _need(self.sizes is not None, path, "symbolic size in a program without symbols")
        from fusegrad.sizes import parse_expr

        try:
            return parse_expr(data, self.sizes)
        except Exception as error:  # whatever the expression parser dislikes
            raise PlainError(f"{path}: bad size expression {data[:60]!r}: {error}") from None

    def meta(self, data: Any, path: str) -> Meta:
        name = _field(data, "dtype", str, path)
        _need(name in dtypes.BY_NAME, f"{path}.dtype", f"unknown dtype {name[:40]!r}")
        shape = _field(data, "shape", list, path)
        _need(len(shape) <= 64, path, "more than 64 dimensions")
        sizes = tuple(self.size(s, f"{path}.shape[{i}]") for i, s in enumerate(shape))
        _need(all(s >= 0 for s in sizes if isinstance(s, int)), path, "negative size")
        strides = None
        if "strides" in data:
            raw = _field(data, "strides", list, path)
            _need(len(raw) == len(shape), path, "strides and shape differ in length")
            strides = tuple(self.size(s, f"{path}.strides[{i}]") for i, s in enumerate(raw))
        weak = data.get("weak", False)
        _need(isinstance(weak, bool), path, "weak must be true or false")
        return Meta(sizes, dtypes.BY_NAME[name], strides, weak)

    def attr(self, data: Any, path: str, depth: int = 0) -> Any:
        _need(depth < _DEPTH, path, "nested too deeply")
        if data is None or isinstance(data, (bool, int, float, str)):
            return data
        if isinstance(data, list):
            return [self.attr(x, f"{path}[{i}]", depth + 1) for i, x in enumerate(data)]
        _need(isinstance(data, dict) and len(data) == 1, path, "expected an object with one key")
        (kind, value), *_ = data.items()
        if kind == "float":
            _need(value in ("inf", "-inf", "nan"), path, "expected inf, -inf or nan")
            return float(value)
        if kind == "dtype":
            _need(isinstance(value, str) and value in dtypes.BY_NAME, path, "unknown dtype")
            return dtypes.BY_NAME[value]
        if kind == "size":
            return self.size(value, path)
        if kind == "ellipsis":
            return Ellipsis
        _need(kind in ("tuple", "slice") and isinstance(value, list), path, f"unknown kind {str(kind)[:40]!r}")
        items = tuple(self.attr(x, f"{path}[{i}]", depth + 1) for i, x in enumerate(value))
        if kind == "tuple":
            return items
        _need(len(items) == 3, path, "a slice has three parts")
        return slice(*items)

    def graph_or_attr(self, op: Any, data: Any, path: str) -> Any:
        """An attribute of ``op``, which holds graphs if it is one of control flow."""
        if not (isinstance(data, dict) and set(data) == {"graph"} and is_control(op)):
            return self.attr(data, path)
        _need(self.depth < MAX_DEPTH, path, f"graphs nested deeper than {MAX_DEPTH}")
        return bind_sizes(_graph(data["graph"], _Reader(self.ops, self.sizes, self.depth + 1), f"{path}."))

    def arg(self, data: Any, path: str, depth: int = 0) -> Any:
        if isinstance(data, dict) and "value" in data:
            return self.value(data["value"], path)
        if isinstance(data, list):
            _need(depth < _DEPTH, path, "nested too deeply")
            return [self.arg(x, f"{path}[{i}]", depth + 1) for i, x in enumerate(data)]
        return self.attr(data, path, depth)

    def value(self, index: Any, path: str) -> Value:
        ok = isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(self.values)
        _need(ok, path, "refers to a value that is not defined before it")
        return self.values[index]

    def node(self, graph: Graph, data: Any, path: str) -> None:
        name = _field(data, "op", str, path)
        _need(name in self.ops, f"{path}.op", f"unknown operator {name[:60]!r}")
        args = tuple(self.arg(a, f"{path}.args[{i}]") for i, a in enumerate(_field(data, "args", list, path)))
        op = self.ops[name]
        given = _field(data, "attrs", dict, path)
        sig = getattr(op, "sig", None)
        order = {a.name: i for i, a in enumerate(sig.attrs)} if sig else {}  # as recorded: files sort their keys
        names = sorted(given, key=lambda k: order.get(k, len(order)))
        attrs = {k: self.graph_or_attr(op, given[k], f"{path}.attrs.{k[:40]}") for k in names}
        outs = _field(data, "outputs", list, path)
        _need(len(outs) > 0, path, "a node has at least one output")
        metas = tuple(self.meta(m, f"{path}.outputs[{i}]") for i, m in enumerate(outs))
        loc = None
        if "loc" in data:
            raw = _field(data, "loc", list, path)
            _need(len(raw) == 2 and isinstance(raw[0], str) and isinstance(raw[1], int), path, "loc is [file, line]")
            loc = (raw[0], raw[1])
        self.values.extend(graph.append(self.ops[name], args, attrs, metas, loc).outputs)


def attr_from_plain(data: Any, sizes: Any = None) -> Any:
    """The attribute that ``attr_to_plain`` wrote."""
    return _Reader({}, sizes).attr(data, "attribute")


def from_plain(data: Any, sizes: Any = None, ops: dict[str, Any] | None = None) -> Graph:
    """The graph that ``to_plain`` wrote. ``sizes``: the SizeContext that knows its symbols.

    Raises ``PlainError`` for anything malformed, including unknown operators and references to later values. Runs no
    code from ``data``. Call ``graph.verify()`` afterwards: types are not re-derived here.
    """
    if ops is None:
        from fusegrad.op import TABLE as ops  # noqa: N811
    return _graph(data, _Reader(ops, sizes), "")  # type: ignore[arg-type]


def _graph(data: Any, reader: _Reader, at: str) -> Graph:
    """A graph of ``data``; ``at``: where in the file it stands."""
    graph = Graph(_field(data, "name", str, f"{at}graph"), reader.sizes)
    for i, item in enumerate(_field(data, "inputs", list, f"{at}graph")):
        path = f"{at}inputs[{i}]"
        name = _field(item, "name", str, path)
        _need(re.fullmatch(r"[A-Za-z_][A-Za-z_0-9.]*", name) is not None, path, f"bad name {name[:60]!r}")
        _need(name not in graph._names, path, f"name {name[:60]!r} is used twice")
        reader.values.append(graph.add_input(reader.meta(item, path), name))
    for name in _field(data, "size_params", list, "graph"):
        _need(isinstance(name, str) and name.isidentifier(), f"{at}size_params", "expected names")
        graph.size_params.append(name)
    for i, item in enumerate(_field(data, "nodes", list, f"{at}graph")):
        reader.node(graph, item, f"{at}nodes[{i}]")
    graph.outputs = [
        reader.arg(a, f"{at}outputs[{i}]") for i, a in enumerate(_field(data, "outputs", list, f"{at}graph"))
    ]
    for i, pair in enumerate(_field(data, "mutations", list, f"{at}graph")):
        path = f"{at}mutations[{i}]"
        _need(isinstance(pair, list) and len(pair) == 2, path, "expected a pair")
        target = reader.value(pair[0], path)
        _need(target.node is None, path, "only an input can be mutated")
        graph.mutations.append((target, reader.arg(pair[1], path)))
    graph.draws = _field(data, "draws", int, f"{at}graph")
    return graph
