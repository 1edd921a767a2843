"""A compiled graph: the Python function that allocates results, runs kernels and library calls in order, and returns.

``compile_graph(graph, options)`` is the entry of this package.  The function it builds is printed by
``CompiledGraph.text()``.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.meta import Meta, is_contiguous
from fusegrad.sizes import SymInt

from .. import stored
from ..ir.graph import Graph
from ..options import Options, make_options
from .link import Program, link, program_from_plain

if TYPE_CHECKING:
    from fusegrad.native.nest import Kernel

    from .writer import Writer

__all__ = ["CompiledGraph", "compile_graph"]

MAX_LAYOUTS = 8


class CompiledGraph:
    """Callable on arrays, by the call convention of ``ir/graph.py``; returns outputs, then new values of mutated
    inputs.

    Arrays must have the dtypes and shapes of the graph's inputs; other strides than declared are handled by another
    version of the code. No result shares memory with an input or with another result. May be called by several
    threads at once.
    """

    def __init__(
        self,
        graph: Graph | Callable[[], Graph],
        options: Options,
        into: dict[int, int] | None = None,
        key: str = "",
        sizes: Any = None,
    ) -> None:
        self._graph, self.options, self.into, self.key = graph, options, into or {}, key
        self.program: Program
        self.run: Callable[..., tuple]
        if not key or not self._stored(sizes):
            self.program = self.parts.program
            self.run = link(self.program, self.options, self._relayout)
            if key:
                stored.put(f"program {key}", self.program.to_plain)
        self._layouts: dict[tuple, CompiledGraph] = {}
        self._lock = threading.Lock()

    def _stored(self, sizes: Any) -> bool:
        """Take the program from the disk cache, if it is there."""
        from fusegrad.native import load_kernel

        def read(data: Any) -> bool:
            program = program_from_plain(data, sizes, load_kernel)
            if program is not None:
                self.program, self.run = program, link(program, self.options, self._relayout)
            return program is not None

        return bool(stored.get(f"program {self.key}", read))

    @property
    def graph(self) -> Graph:
        """What is computed."""
        if not isinstance(self._graph, Graph):
            self._graph = self._graph()
        return self._graph

    @functools.cached_property
    def parts(self) -> Writer:
        """How the program is made: stages, groups, buffers. Made again if the program came from the disk cache."""
        return _write(self.graph, self.options, self.into)

    def __call__(self, *args: Any) -> tuple:
        return self.run(*args)

    @property
    def kernels(self) -> list[Kernel]:
        """The native functions, in the order of their calls."""
        return self.parts.kernels

    @property
    def source(self) -> str:
        """Source of the function that runs the graph."""
        return self.program.source

    @property
    def refusals(self) -> list[str]:
        """Why stages that might share loops do not."""
        return self.parts.fusion.refusals

    def text(self) -> str:
        """Schedule, loop nests and the function that runs them."""
        lines = ["schedule"]
        lines += [f"  {step}" for step in self.parts.schedule]
        for kernel in self.kernels:
            lines += ["", kernel.text()]
        if self.refusals:
            lines += ["", "not fused"]
            lines += [f"  {r}" for r in self.refusals]
        return "\n".join([*lines, "", self.source])

    def _relayout(self, args: tuple) -> tuple:
        """Run with strides that differ from the declared ones."""
        key: list[tuple | None] = []
        fixed = list(args)
        for i, value in enumerate(self.graph.inputs):
            a = args[i]
            if not isinstance(a, np.ndarray):
                key.append(None)
                continue
            steps = None
            if not a.flags.c_contiguous:
                if any(isinstance(s, SymInt) for s in value.meta.shape) or any(s % a.itemsize for s in a.strides):
                    fixed[i] = np.array(a, order="C")
                else:
                    steps = tuple(s // a.itemsize for s in a.strides)
            key.append(steps)
        with self._lock:
            if tuple(key) not in self._layouts and len(self._layouts) >= MAX_LAYOUTS:
                fixed = [np.array(a, order="C") if isinstance(a, np.ndarray) else a for a in args]
                key = [None] * len(self.graph.inputs)
            found = self._layouts.get(tuple(key))
            if found is None:
                stored_key = f"{self.key} {key}" if self.key else ""
                found = self._layouts[tuple(key)] = CompiledGraph(
                    functools.partial(_with_strides, self.graph, key),
                    self.options,
                    self.into,
                    stored_key,
                    self.graph.sizes,
                )
        return found.run(*fixed)


def compile_graph(
    graph: Graph | Callable[[], Graph],
    options: Options | dict | None = None,
    into: dict[int, int] | None = None,
    key: str = "",
    sizes: Any = None,
) -> CompiledGraph:
    """Compile a functional graph whose composite operators were decomposed.

    ``into`` maps numbers of results to numbers of inputs whose new value they are (an optimizer's step). Where that
    is safe, and the input is C-contiguous, the result is written straight into the input's memory and the input array
    itself is returned in its place; else the result is a fresh array, as always. The caller promises that such an
    input is writable and overlaps no other argument.

    ``key``: under which the disk cache keeps the program ("": nowhere); then ``graph`` may be a function that gives the
    graph, called if it is needed, and ``sizes`` is the context of its symbols.
    """
    return CompiledGraph(graph, make_options(options), into, key, sizes)


def _with_strides(graph: Graph, strides: list[tuple | None]) -> Graph:
    other, _ = graph.copy()
    for value, steps in zip(other.inputs, strides, strict=True):
        m = value.meta
        if m.weak:
            continue
        if steps is not None and is_contiguous(m.shape, steps):
            steps = None
        value.meta = Meta(m.shape, m.dtype, steps, m.weak)
    return other


def _write(graph: Graph, options: Options, into: dict[int, int]) -> Writer:
    """The program; operators that turn out to need an instruction the printer does not have become library calls.

    It serves all sizes that the guards allow, in other processes as well: nothing more is assumed about sizes.
    """
    from fusegrad.native.scalar import UnsupportedScalar

    from .writer import Writer

    banned: set[str] = set()
    while True:
        try:
            with nullcontext() if graph.sizes is None else graph.sizes.proving():
                return Writer(graph, options, banned, into)
        except UnsupportedScalar as e:
            if str(e) in banned:
                raise
            banned.add(str(e))
