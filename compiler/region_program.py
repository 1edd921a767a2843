"""The program of a graph: compiled kernels, or the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.errors import warn
from fusegrad.native.meter import phase

from .collector import resting
from .ir.graph import Graph
from .ir.interp import run as interpret
from .options import Options


def compile_program(
    graph: Graph | Callable[[], Graph],
    options: Options,
    into: dict[int, int] | None = None,
    key: str = "",
    sizes: Any = None,
) -> Callable[..., tuple]:
    """A callable for a functional graph: compiled, or the reference interpreter when the options ask for it.

    A graph that the code generator fails on runs by the interpreter as well, with one warning; with ``check`` the
    failure is raised. A function that gives the graph, ``key``, ``sizes``: see ``compile_graph``.
    """
    if options.interpret:
        return _interpreted(graph)
    from .kernel.program import compile_graph

    try:
        with resting(), phase("codegen"):
            return compile_graph(graph, options, into, key, sizes)
    except Exception as error:
        if options.check:
            raise
        whole = graph if isinstance(graph, Graph) else graph()
        warn(
            f"fusegrad: no code could be generated for graph {whole.name} ({type(error).__name__}: {error}); "
            "it runs uncompiled. This is a bug in fusegrad.",
            RuntimeWarning,
        )
        return _interpreted(whole)


def _interpreted(graph: Graph | Callable[[], Graph]) -> Callable[..., tuple]:
    whole = graph if isinstance(graph, Graph) else graph()
    return lambda *args: interpret(whole, args)
