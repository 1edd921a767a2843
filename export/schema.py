"""A program as the files of the format, and back. Version list: newest last.

1.0 (2026-11-29): first version.
1.1 (2026-11-29): operators of control flow, whose attributes hold graphs.
1.2 (2026-11-30): the operator with_history: changes made without a graph keep the history of what was changed.
1.3 (2026-11-30): dataclasses among the arguments and results.

A newer *minor* version may add operators and optional fields; a newer *major* version is refused. Every released
version must load for ever: add a fixture to ``tests/export/fixtures`` when the version changes.
"""

from __future__ import annotations

import hashlib
from typing import Any

from fusegrad.compiler.ir.plain import PlainError, attr_to_plain, from_plain, to_plain

from fusegrad import dtypes
from fusegrad.size_floats import OPERATIONS
from fusegrad.sizes import SizeContext, parse_expr, poly_of

from . import tree as trees
from .errors import FileError, VersionError
from .plain_json import dump, load
from .program import DimRange, ExportedProgram, Leaf, Output, Param, State, size_text
from .tensors import pack_tensors, unpack_tensors

FORMAT = "fusegrad.export"
VERSION = (1, 3)
_MAX_INT = 1 << 63


# ---- program -> members ----
def to_members(program: ExportedProgram, producer: str) -> dict[str, bytes]:
    """The members of the zip. The same program gives the same bytes."""
    graph = dump(to_data(program))
    weights = pack_tensors(program.tensors)
    head = {
        "format": FORMAT,
        "version": list(VERSION),
        "producer": producer,
        "members": {
            "graph.json": {"bytes": len(graph), "sha256": hashlib.sha256(graph).hexdigest()},
            "weights.safetensors": {"bytes": len(weights), "sha256": hashlib.sha256(weights).hexdigest()},
        },
    }
    return {"format.json": dump(head), "graph.json": graph, "weights.safetensors": weights}


def to_data(p: ExportedProgram) -> dict[str, Any]:
    """Everything but the tensors' data as plain values."""
    return {
        "name": p.name,
        "training": p.training,
        "default_dtype": p.default_dtype.name,
        "dims": [{"name": d.name, "min": d.min, "max": d.max, "example": d.example} for d in p.dims],
        "params": [{"name": a.name, "kind": a.kind, "optional": a.optional, "tree": a.tree} for a in p.params],
        "leaves": [
            {"path": leaf.path, "fixed": attr_to_plain(leaf.fixed)}
            if leaf.input is None
            else {"path": leaf.path, "input": leaf.input}
            for leaf in p.leaves
        ],
        "result": {"tree": p.tree, "leaves": [_output_data(o) for o in p.outputs]},
        "state": [
            {
                "name": s.name, "kind": s.kind, "tensor": s.tensor, "input": s.input,
                "requires_grad": s.requires_grad, "persistent": s.persistent,
            }
            for s in p.state
        ],
        "stops": sorted(map(list, p.stops)),
        "floats": [[i, _tree_data(t)] for i, t in sorted(p.floats.items())],
        "graph": to_plain(p.graph),
    }  # fmt: skip


def _output_data(o: Output) -> dict[str, Any]:
    value = o.value
    if o.kind == "size":
        value = size_text(value)
    elif o.kind == "fixed":
        value = attr_to_plain(value)
    elif o.kind == "number":
        value = _tree_data(value)
    return {"kind": o.kind, "value": value, "detached": o.detached}


def _tree_data(tree: tuple) -> Any:
    """An expression of sizes and numbers (see size_floats.py) as plain data."""
    if tree[0] == "size":
        return {"size": str(tree[1])}
    return attr_to_plain(tree[1]) if tree[0] == "number" else [tree[0], _tree_data(tree[1]), _tree_data(tree[2])]


# ---- members -> program ----
def from_members(members: dict[str, memoryview]) -> ExportedProgram:
    """The program, checked (see verify.py). FileError for anything that is not right."""
    from .verify import verify_program

    head = load(members["format.json"], "format.json", 8)
    check_head(head)
    for name, want in head["members"].items():
        if len(members[name]) != want["bytes"] or hashlib.sha256(members[name]).hexdigest() != want["sha256"]:
            raise FileError(f"load: {name} does not match its checksum: the file was altered or damaged")
    data = load(members["graph.json"], "graph.json", 80)
    tensors = unpack_tensors(members["weights.safetensors"])
    try:
        program = from_data(data, tensors)
    except PlainError as e:
        raise FileError(f"load: graph.json: {e}") from None
    verify_program(program)
    return program


def check_head(head: Any) -> None:
    """Format name, version and member list of format.json."""
    _need(isinstance(head, dict) and head.get("format") == FORMAT, "format.json", "not an exported fusegrad program")
    version = head.get("version")
    good = isinstance(version, list) and len(version) == 2 and all(type(v) is int and 0 <= v < 1 << 31 for v in version)
    _need(good, "format.json", "bad version")
    if version[0] != VERSION[0]:
        raise VersionError(
            f"load: the file has format version {version[0]}.{version[1]}; this fusegrad reads version {VERSION[0]}.x. "
            "Load it with a fusegrad of that version, or export the program again."
        )
    members = head.get("members")
    names = {"graph.json", "weights.safetensors"}
    _need(isinstance(members, dict) and set(members) == names, "format.json", "bad list of members")
    for name, item in members.items():
        good = isinstance(item, dict) and type(item.get("bytes")) is int and isinstance(item.get("sha256"), str)
        _need(good, "format.json", f"bad entry for {name}")


def _need(condition: bool, path: str, message: str) -> None:
    if not condition:
        raise FileError(f"load: {path}: {message}")


def get(data: Any, key: str, kind: type, path: str) -> Any:
    """A field of an object, of exactly this type."""
    _need(isinstance(data, dict) and key in data, path, f"field {key!r} is missing")
    value = data[key]
    _need(type(value) is kind, f"{path}.{key}", f"expected {kind.__name__}, found {type(value).__name__}")
    return value


def from_data(data: Any, tensors: dict[str, Any]) -> ExportedProgram:
    """The program of parsed JSON; structure is checked here, meaning in verify.py."""
    ctx = SizeContext("constrain")
    dims = [_dim(d, ctx, f"dims[{i}]") for i, d in enumerate(get(data, "dims", list, "program"))]
    graph = from_plain(get(data, "graph", dict, "program"), ctx)
    params = [_param(a, f"params[{i}]") for i, a in enumerate(get(data, "params", list, "program"))]
    leaves = [_leaf(a, f"leaves[{i}]") for i, a in enumerate(get(data, "leaves", list, "program"))]
    result = get(data, "result", dict, "program")
    tree = result.get("tree")
    count = trees.check(tree, "result.tree")
    outputs = [_output(o, ctx, f"result.leaves[{i}]") for i, o in enumerate(get(result, "leaves", list, "result"))]
    _need(count == len(outputs), "result", f"{count} leaves in the tree, {len(outputs)} listed")
    _need(sum(trees.check(p.tree, p.name) for p in params) == len(leaves), "params", "wrong number of leaves")
    state = [_state(s, f"state[{i}]") for i, s in enumerate(get(data, "state", list, "program"))]
    stops = {_pair(s, f"stops[{i}]") for i, s in enumerate(get(data, "stops", list, "program"))}
    name = get(data, "name", str, "program")
    training = get(data, "training", bool, "program")
    floats = {}
    for i, item in enumerate(get(data, "floats", list, "program")):
        path = f"floats[{i}]"
        _need(isinstance(item, list) and len(item) == 2 and type(item[0]) is int, path, "expected an input and a tree")
        floats[item[0]] = _tree(item[1], ctx, path)
    kind = dtypes.BY_NAME.get(get(data, "default_dtype", str, "program"))
    if kind is None or not kind.is_floating_point:
        raise FileError("load: program.default_dtype: expected a floating point dtype")
    return ExportedProgram(
        name, graph, ctx, dims, params, leaves, tree, outputs, state, tensors, stops, training, floats, kind
    )  # fmt: skip


def _tree(data: Any, ctx: SizeContext, path: str) -> tuple:
    if isinstance(data, list):
        _need(len(data) == 3 and isinstance(data[0], str) and data[0] in OPERATIONS, path, "bad operation")
        return data[0], _tree(data[1], ctx, path), _tree(data[2], ctx, path)
    if isinstance(data, dict) and set(data) == {"size"} and isinstance(data["size"], str):
        try:
            return "size", poly_of(parse_expr(data["size"], ctx))
        except ValueError as e:
            raise FileError(f"load: {path}: {e}") from None
    value = _fixed(data, path)
    _need(isinstance(value, (int, float)) and not isinstance(value, bool), path, "expected a number")
    _need(abs(value) < _MAX_INT or isinstance(value, float), path, "a number beyond 64 bits")
    return "number", value


def _dim(data: Any, ctx: SizeContext, path: str) -> DimRange:
    name, low, example = (get(data, "name", str, path), get(data, "min", int, path), get(data, "example", int, path))
    high = data.get("max")
    _need(high is None or type(high) is int, f"{path}.max", "expected an int or null")
    bounded = 0 <= low < _MAX_INT and (high is None or high < _MAX_INT)
    _need(bounded and name not in ctx.symbols and name not in ("max", "min"), path, "bad or repeated dim")
    try:
        ctx.symbol(name, example, low, high)
    except ValueError as e:
        raise FileError(f"load: {path}: {e}") from None
    return DimRange(name, low, high, example)


def _param(data: Any, path: str) -> Param:
    kind = get(data, "kind", str, path)
    _need(kind in ("positional", "keyword", "either"), path, "bad kind")
    return Param(get(data, "name", str, path), kind, get(data, "optional", bool, path), data.get("tree"))


def _leaf(data: Any, path: str) -> Leaf:
    label = get(data, "path", str, path)
    if "input" in data:
        return Leaf(label, get(data, "input", int, path))
    _need("fixed" in data, path, "neither input nor fixed")
    return Leaf(label, None, _fixed(data["fixed"], path))


def _fixed(data: Any, path: str) -> Any:
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    kind, value = next(iter(data.items())) if isinstance(data, dict) and len(data) == 1 else (None, None)
    if kind == "float" and value in ("inf", "-inf", "nan"):
        return float(value)
    if kind == "dtype" and isinstance(value, str) and value in dtypes.BY_NAME:
        return dtypes.BY_NAME[value]
    _need(kind == "ellipsis", path, "bad fixed value")
    return Ellipsis


def _output(data: Any, ctx: SizeContext, path: str) -> Output:
    kind, detached = get(data, "kind", str, path), get(data, "detached", bool, path)
    _need("value" in data, path, "field 'value' is missing")
    value = data["value"]
    if kind in ("value", "input"):
        return Output(kind, get(data, "value", int, path), detached)
    if kind == "fixed":
        return Output(kind, _fixed(value, path))
    if kind == "number":
        return Output(kind, _tree(value, ctx, path))
    _need(kind == "size" and type(value) in (int, str), path, "bad kind of result")
    try:
        return Output(kind, parse_expr(value, ctx) if isinstance(value, str) else value)
    except ValueError as e:
        raise FileError(f"load: {path}: {e}") from None


def _state(data: Any, path: str) -> State:
    kind, number = get(data, "kind", str, path), data.get("input")
    _need(kind in ("parameter", "buffer", "constant"), path, "bad kind of state")
    _need(number is None or type(number) is int, path, "bad input number")
    flags = get(data, "requires_grad", bool, path), get(data, "persistent", bool, path)
    return State(get(data, "name", str, path), kind, get(data, "tensor", str, path), number, *flags)


def _pair(data: Any, path: str) -> tuple[int, int]:
    good = isinstance(data, list) and len(data) == 2 and all(type(v) is int and v >= 0 for v in data)
    _need(good, path, "expected two numbers")
    return data[0], data[1]
