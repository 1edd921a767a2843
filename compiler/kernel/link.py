"""A program (what ``Writer`` makes of a graph) as plain data, and the function that runs it.

The function is made from the data alone, whether they were written just now or come from the disk cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.blas import best_dot, large_dot, large_matmul, small_dot, small_matmul
from fusegrad.dtypes import BY_SHORT
from fusegrad.meta import Meta
from fusegrad.native.params import Face, face_from_plain, face_to_plain

from ..ir.graph import Graph, Node, Value, map_values
from ..ir.plain import attr_from_plain, attr_to_plain, from_plain, to_plain
from ..options import Options
from .calls import concrete, extern_call
from .control import control_call
from .large import large_empty

__all__ = ["FIXED", "Program", "link"]


class Program:
    """Data that a running function is made of.

    ``objects``: global of the function -> what it is: ("dtype", short), ("constant", value), ("kernel", k), or
    ("extern" | "control" | "view" | "meta", k) with k the number of a node of ``calls``. ``scratch``: arrays of one
    call, each (name, "flat", elements, dtype), (name, "shaped", flat array, elements, sizes, transposition) or (name,
    "view", text). ``given``: numbers of the inputs whose memory results take over.
    """

    def __init__(self, name: str, calls: Graph) -> None:
        self.name, self.calls = name, calls
        self.source = ""
        self.objects: dict[str, tuple[str, Any]] = {}
        self.scratch: list[tuple] = []
        self.pooled = False
        self.given: list[int] = []
        self.faces: list[Face] = []
        self.kernels: list[Callable[..., None]] = []

    def call(self, node: Node) -> int:
        """The number of a node among ``calls``; its arguments become inputs."""
        args = map_values(node.args, lambda v: self.calls.add_input(v.meta))
        self.calls.append(node.op, args, node.attrs, tuple(v.meta for v in node.outputs))
        return len(self.calls.nodes) - 1

    def to_plain(self) -> dict[str, Any]:
        """As JSON's values. TypeError if an attribute cannot be written down."""
        objects = {n: [k, attr_to_plain(v) if k == "constant" else v] for n, (k, v) in self.objects.items()}
        return {
            "name": self.name,
            "source": self.source,
            "objects": objects,
            "scratch": self.scratch,
            "pooled": self.pooled,
            "given": self.given,
            "kernels": [face_to_plain(f, f.key) for f in self.faces],
            "calls": to_plain(self.calls, locs=False),
        }


def program_from_plain(data: dict[str, Any], sizes: Any, load: Callable[[Face], Any]) -> Program | None:
    """What ``to_plain`` wrote. ``load``: the callable of a kernel, or None if its machine code is gone (then None)."""
    program = Program(data["name"], from_plain(data["calls"], sizes))
    program.source, program.pooled = data["source"], bool(data["pooled"])
    program.given = [int(i) for i in data["given"]]
    program.scratch = [_tuples(entry) for entry in data["scratch"]]
    program.faces = [face_from_plain(f) for f in data["kernels"]]
    for face in program.faces:
        kernel = load(face)
        if kernel is None:
            return None
        program.kernels.append(kernel)
    program.objects = {n: (k, attr_from_plain(v) if k == "constant" else v) for n, (k, v) in data["objects"].items()}
    return program


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _copy(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="K")


def _as_eager(error: IndexError) -> Exception:
    """The error of the class that the eager operator raises; kernels can only raise IndexError."""
    text = str(error)
    return RuntimeError(text.removeprefix("RuntimeError: ")) if text.startswith("RuntimeError: ") else error


FIXED: dict[str, Any] = {
    "_empty": np.empty, "_zeros": np.zeros, "_matmul": np.matmul, "_dot": np.dot, "_copy": _copy,
    "_as_eager": _as_eager,
    "_small_matmul": small_matmul, "_small_dot": small_dot, "_contiguous": np.ascontiguousarray,
    "_best_dot": best_dot, "_large_matmul": large_matmul, "_large_dot": large_dot, "_large": large_empty,
}  # fmt: skip
"""Globals that every running function may use."""


def link(program: Program, options: Options, relayout: Callable[[tuple], tuple]) -> Callable[..., tuple]:
    """The running function. ``relayout`` runs the graph on arguments of other strides than declared."""
    namespace: dict[str, Any] = {**FIXED, "_relayout": relayout}
    nodes = program.calls.nodes
    makers: dict[str, Callable[[Any], Any]] = {
        "dtype": lambda short: BY_SHORT[short].np,
        "constant": lambda value: value,
        "kernel": lambda k: program.kernels[k],
        "extern": lambda k: extern_call(nodes[k]),
        "control": lambda k: control_call(nodes[k], options),
        "view": lambda k: _view_call(nodes[k]),
        "meta": lambda k: _meta_call(nodes[k]),
    }
    for name, (kind, value) in program.objects.items():
        namespace[name] = makers[kind](value)
    if program.scratch:
        namespace["_scratch"] = _scratch(program.scratch)
    if program.pooled:
        pool: list[tuple] = []
        namespace["_take"], namespace["_give"] = pool.pop, pool.append
    exec(compile(program.source, f"<fusegrad {program.name}>", "exec"), namespace)
    return namespace["run"]


def _scratch(entries: list[tuple]) -> Callable[[], tuple]:
    """A function that makes the scratch arrays of one call."""
    makers: list[tuple[str, Callable[[dict[str, Any]], Any]]] = []
    for name, kind, *rest in entries:
        makers.append((name, _MAKERS[kind](*rest)))

    def make() -> tuple:
        made: dict[str, Any] = {}
        for name, maker in makers:
            made[name] = maker(made)
        return tuple(made.values())

    return make


def _flat(elements: int, dtype: str) -> Callable[[dict[str, Any]], Any]:
    kind = BY_SHORT[dtype].np
    return lambda made: large_empty((elements,), kind)


def _shaped(flat: str, elements: int, sizes: tuple, back: tuple | None) -> Callable[[dict[str, Any]], Any]:
    return lambda made: shape(made[flat][:elements], sizes, back)


def _view(text: str) -> Callable[[dict[str, Any]], Any]:
    code = compile(text, "<view>", "eval")
    return lambda made: eval(code, {}, made)


_MAKERS: dict[str, Callable[..., Any]] = {"flat": _flat, "shaped": _shaped, "view": _view}


def shape(flat: np.ndarray, sizes: tuple, back: tuple[int, ...] | None) -> np.ndarray:
    """A flat array in the order of its memory, then transposed."""
    shaped = flat.reshape(sizes)
    return shaped if back is None else shaped.transpose(back)


def _meta_call(node: Node) -> Callable[[tuple], Any]:
    first: Value = node.args[0]

    def call(shape: tuple) -> Any:
        return node.op.meta(Meta(shape, first.meta.dtype), **node.attrs)

    return call


def _view_call(node: Node) -> Callable[..., np.ndarray]:
    def call(array: np.ndarray, env: dict[str, int]) -> np.ndarray:
        return node.op.kernel(array, **{k: concrete(v, env) for k, v in node.attrs.items()})

    return call
