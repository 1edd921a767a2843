"""Where the size symbols of a graph get their values when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fusegrad.sizes import SymInt, poly_of

from .graph import Graph, Value

__all__ = ["bind_sizes", "bound_symbols", "used_symbols"]


def symbols_in(value: Any) -> Iterator[str]:
    """Names of the symbols in a (nested) size, attribute or shape."""
    if isinstance(value, SymInt):
        yield from poly_of(value).symbols()
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from symbols_in(item)
    elif isinstance(value, slice):
        yield from symbols_in((value.start, value.stop, value.step))
    elif isinstance(value, Graph):  # all of them: what the nested graph's inputs bind, the outer ones know as well
        yield from used_symbols(value)


def used_symbols(graph: Graph) -> set[str]:
    """All symbols that occur in the types, arguments, attributes and outputs of a graph."""
    if graph.sizes is None or not graph.sizes.symbols:
        return set()
    found: set[str] = set()
    for value in graph.inputs:
        found.update(symbols_in((value.meta.shape, value.meta.strides or ())))
    for node in graph.nodes:
        for item in (*node.args, *node.attrs.values()):
            if type(item) not in _WITHOUT:
                found.update(symbols_in(item))
        for value in node.outputs:
            for size in value.meta.shape:
                if type(size) is not int:
                    found.update(symbols_in(size))
    found.update(symbols_in(graph.outputs))
    return found


_WITHOUT = (Value, int, bool, float, str, type(None))


def bound_symbols(graph: Graph) -> dict[str, tuple[int, int]]:
    """Symbol -> (input number, dimension) for every symbol that is by itself the size of an input's dimension."""
    found: dict[str, tuple[int, int]] = {}
    for i, value in enumerate(graph.inputs):
        for d, size in enumerate(value.meta.shape):
            if isinstance(size, SymInt):
                atom = size.expr.single_atom()
                if atom is not None and atom.kind == "symbol":
                    found.setdefault(atom.text, (i, d))
    return found


def bind_sizes(graph: Graph) -> Graph:
    """Set ``size_params`` to the used symbols that no input dimension gives, in order of name. Returns the graph."""
    if graph.sizes is not None:
        graph.size_params = sorted(used_symbols(graph) - set(bound_symbols(graph)))
    return graph
