"""What is checked about a program that came from a file, before anything of it runs."""

from __future__ import annotations

import math
from typing import Any

from fusegrad.compiler.ir.graph import Graph, Value
from fusegrad.compiler.ir.verify import GraphError
from fusegrad.compiler.ir.verify import verify as verify_graph

from fusegrad.sizes import SymInt

from .errors import FileError
from .program import ExportedProgram, State

MAX_NODES = 1_000_000
MAX_BYTES = 1 << 44  # of one value with static sizes: more cannot be meant
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "num": (int, float), "bool": (bool,), "str": (str,), "dim": (int,),
    "dim+1": (int,), "dims": (int, tuple), "ints": (int, tuple), "shape": (int, tuple),
}  # fmt: skip


def verify_program(p: ExportedProgram) -> None:
    """Check types, sizes and cross references. FileError says where."""
    with p.numbers():
        _graph(p)
    _arguments(p)
    _state(p)
    _outputs(p)
    count = len(p.graph.nodes)
    for node, _ in p.stops:
        _need(node < count, "stops", f"there is no node {node}")


def _need(condition: Any, path: str, message: str) -> None:
    if not condition:
        raise FileError(f"load: {path}: {message}")


# ---- the graph ----
def _graph(p: ExportedProgram) -> None:
    graph = p.graph
    _need(len(graph.nodes) <= MAX_NODES, "graph", f"more than {MAX_NODES} nodes")
    _need(0 <= graph.draws < 1 << 31, "graph", "bad number of draws")
    for value in graph.inputs:
        _value(value, f"input {value.name}")
        _need(value.meta.strides is None, value.name, "an input must be a plain tensor")
        _need(value.meta.weak == (value.index in p.floats), value.name, "an input must be a tensor or a listed number")
    _nodes(graph, "")
    try:
        verify_graph(graph)
    except GraphError as e:
        raise FileError(f"load: graph.json: {e}") from None
    except (ValueError, TypeError, RuntimeError, IndexError, KeyError, ArithmeticError, AttributeError) as e:
        raise FileError(f"load: graph.json: {type(e).__name__}: {e}") from None


def _nodes(graph: Graph, at: str) -> None:
    """The nodes of a graph, and those of the graphs inside (whose depth the reader has limited)."""
    for i, node in enumerate(graph.nodes):
        path = f"{at}nodes[{i}] ({node.op.name})"
        _arguments_of(node, path)
        _attributes(node, path)
        for value in node.outputs:
            _value(value, path)
        draw = node.attrs.get("draw")
        _need(draw is None or 0 <= draw < max(graph.draws, 1), path, "draws more random numbers than the graph says")
        for name, inner in node.attrs.items():
            if isinstance(inner, Graph):
                for value in inner.inputs:
                    _value(value, f"{path}.{name}: input {value.name}")
                    _need(value.meta.strides is None, path, "an input of a nested graph must be a plain tensor")
                _need(len(inner.nodes) <= MAX_NODES, path, f"more than {MAX_NODES} nodes")
                _nodes(inner, f"{path}.{name}.")


def _value(value: Value, path: str) -> None:
    sizes = [s for s in value.meta.shape if not isinstance(s, SymInt)]
    total = math.prod(sizes) * value.meta.dtype.itemsize
    _need(all(type(s) is int for s in sizes) and total <= MAX_BYTES, path, f"a tensor of {total} bytes")


def _arguments_of(node: Any, path: str) -> None:
    """Each tensor argument is of the kind its operator declares: a value, a number, null or a list of values."""
    declared = node.op.sig.tensors
    _need(len(node.args) == len(declared), path, f"{len(node.args)} tensor arguments instead of {len(declared)}")
    for a, arg in zip(declared, node.args, strict=True):
        if a.type == "T[]":
            good = isinstance(arg, (list, tuple)) and all(
                isinstance(v, Value) or (v is None and a.optional) for v in arg
            )
        else:
            number = isinstance(arg, (bool, int, float, SymInt))
            good = isinstance(arg, Value) or (arg is None and a.optional) or (a.type == "Tn" and number)
        _need(good, path, f"argument {a.name} is of the wrong kind")
        _bounded(arg, f"{path}.{a.name}")


def _attributes(node: Any, path: str) -> None:
    """Each attribute has the type its operator declares; numbers fit 64 bits; required ones are there."""
    params = {a.name: a for a in node.op.sig.attrs}
    for name, value in node.attrs.items():
        if name in ("seed", "draw"):
            _need(type(value) is int and 0 <= value < 1 << 63, path, f"bad {name}")
            continue
        _need(name in params, path, f"unknown attribute {name[:40]!r}")
        _bounded(value, f"{path}.{name}")
        a = params[name]
        if value is None:
            _need(a.optional or (a.has_default and a.default is None), path, f"{name} must not be null")
        elif a.type in _TYPES and not isinstance(value, SymInt):
            good = isinstance(value, _TYPES[a.type]) and (
                a.type == "bool" or a.type == "num" or type(value) is not bool
            )
            if isinstance(value, tuple):
                good = all(type(v) is int or isinstance(v, SymInt) for v in value)
            _need(good, path, f"{name} must be {a.type}, got {type(value).__name__}")
        elif a.type == "dtype":
            _need(hasattr(value, "itemsize"), path, f"{name} must be a dtype")
    missing = [n for n, a in params.items() if n not in node.attrs and not a.has_default and not a.optional]
    _need(not missing, path, f"attribute {missing[:1]} is missing")


def _bounded(value: Any, path: str) -> None:
    if type(value) is int:
        _need(-(1 << 63) <= value < 1 << 64, path, "a number beyond 64 bits")
    elif isinstance(value, (tuple, list)):
        for v in value:
            _bounded(v, path)
    elif isinstance(value, slice):
        _bounded((value.start, value.stop, value.step), path)


# ---- around the graph ----
def _arguments(p: ExportedProgram) -> None:
    count = len(p.graph.inputs)
    used = [leaf.input for leaf in p.leaves if leaf.input is not None]
    _need(all(0 <= i < count for i in used) and len(set(used)) == len(used), "leaves", "bad input numbers")
    names = [a.name for a in p.params]
    _need(len(set(names)) == len(names), "params", "two arguments have the same name")
    bound: set[str] = set()
    for i in used:
        for size in p.graph.inputs[i].meta.shape:
            if isinstance(size, SymInt):
                bound |= size.expr.symbols()
    unbound = sorted({d.name for d in p.dims} - bound)
    _need(not unbound, "dims", f"no argument gives the size {unbound[:1]}")
    _need(set(p.graph.size_params) <= {d.name for d in p.dims}, "size_params", "unknown size")
    stated = {s.input for s in p.state if s.input is not None}
    left = [v.name for v in p.graph.inputs if v.index not in stated and v.index not in used and v.index not in p.floats]
    _need(not left, "state", f"input {left[:1]} is neither an argument nor state")
    twice = stated & set(used) or set(p.floats) & (stated | set(used))
    _need(not twice and all(0 <= i < count for i in p.floats), "inputs", "an input has two sources, or does not exist")
    _need(all(p.graph.inputs[i].meta.shape == () for i in p.floats), "floats", "a number input has a shape")


def _state(p: ExportedProgram) -> None:
    names = [s.name for s in p.state]
    _need(len(set(names)) == len(names), "state", "two entries have the same name")
    _need(
        {s.tensor for s in p.state} == set(p.tensors),
        "state",
        "the tensors listed are not those in weights.safetensors",
    )
    first: dict[str, State] = {}
    owner: dict[int, str] = {}
    for s in p.state:
        path = f"state {s.name[:60]!r}"
        parts = s.name.split(".")
        good = len(s.name) < 1000 and all(q and len(q) < 200 and not q.startswith("__") for q in parts)
        _need(good, path, "bad name")
        array = p.tensors[s.tensor]
        _need(not s.requires_grad or array.dtype.kind == "f", path, "only floating point tensors require gradients")
        same = first.setdefault(s.tensor, s)
        _need((same.input, same.requires_grad) == (s.input, s.requires_grad), path, f"contradicts {same.name[:60]!r}")
        if s.input is not None:
            _need(0 <= s.input < len(p.graph.inputs), path, "bad input number")
            _need(owner.setdefault(s.input, s.tensor) == s.tensor, path, "shares its input with another tensor")
            meta = p.graph.inputs[s.input].meta
            _need(
                tuple(meta.shape) == array.shape and all(type(n) is int for n in meta.shape),
                path,
                "shape differs from its data",
            )
            _need(meta.dtype.np == array.dtype, path, "dtype differs from its data")


def _outputs(p: ExportedProgram) -> None:
    _need(all(isinstance(v, Value) for v in p.graph.outputs), "outputs", "every graph output must be a value")
    arguments = {leaf.input for leaf in p.leaves if leaf.input is not None}
    for i, o in enumerate(p.outputs):
        path = f"result leaf {i}"
        if o.kind == "value":
            _need(0 <= o.value < len(p.graph.outputs), path, "there is no such graph output")
        elif o.kind == "input":
            _need(o.value in arguments, path, "there is no such argument")
