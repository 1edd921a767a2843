"""The graph: a typed, functional SSA program over the operators of the table.

A ``Graph`` is plain data.  A ``Node`` applies one operator of ``fusegrad.op.TABLE`` to values; every node's outputs are
``Value`` objects that carry a ``Meta`` (shape, dtype, strides).  Nothing inside a graph mutates anything: writes to
inputs are listed in ``mutations`` and done by whoever runs the graph, after all outputs have been computed.

Conventions that every reader of a graph may rely on:

* ``node.args`` has one entry for each tensor parameter of the operator, in order: a ``Value``, a Python number (weak in
  promotion), ``None`` (absent optional tensor) or a list of those (``T[]``).  A ``SymInt`` may stand where a number
  may.
* ``node.attrs`` holds *all* other parameters by name (defaults filled in): numbers, strings, None, dtypes, ``SymInt``
  and tuples of these; a ``Graph`` where the operator is one of control flow (``ir/control.py``).
* A value with ``meta.weak`` is a Python number that is known only at run time (0-d, promotes weakly).
* Sizes named in shapes are bound by the inputs' shapes; those that no input dimension is equal to are listed in
  ``size_params`` and passed as Python ints after the inputs.
* A random operator's attribute ``draw`` counts from 0 inside the graph; whoever runs the graph adds the generator's
  position.

Call convention of everything that runs a graph (interpreter, ``CompiledGraph``): one argument for each input (an
ndarray, or a Python number for a weak input), then one int for each of ``size_params``, then, if ``graph.random`` is
true, two ints: seed and first draw. A random node's absolute draw is first draw + its ``draw`` attribute.  (A backward
graph may recompute a random node of its forward graph.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["MAX_DEPTH", "Graph", "Node", "Value", "flat_values", "map_values"]

MAX_DEPTH = 8  # of graphs inside of graphs


class Value:
    """One result of a node, or an input of the graph (``node is None``; ``index`` is then its position among the
    inputs).
    """

    __slots__ = ("meta", "node", "index", "name", "__weakref__")

    def __init__(self, meta: Any, node: Node | None, index: int, name: str = "") -> None:
        self.meta = meta
        self.node = node
        self.index = index
        self.name = name

    @property
    def shape(self) -> tuple:
        return self.meta.shape

    @property
    def dtype(self) -> Any:
        return self.meta.dtype

    def __repr__(self) -> str:
        origin = "input" if self.node is None else self.node.op.name
        return f"<Value {self.name or '?'} {self.meta} of {origin}>"


class Node:
    """One operator applied to values. ``loc`` is the user's (file, line), if known."""

    __slots__ = ("op", "args", "attrs", "outputs", "loc")

    def __init__(
        self, op: Any, args: tuple, attrs: dict[str, Any], metas: tuple, loc: tuple[str, int] | None = None
    ) -> None:
        self.op = op
        self.args = args
        self.attrs = attrs
        self.outputs = (
            [Value(metas[0], self, 0)] if len(metas) == 1 else [Value(meta, self, i) for i, meta in enumerate(metas)]
        )
        self.loc = loc

    def inputs(self) -> list[Value]:
        """All values read by this node, in order (the same value may come twice)."""
        return flat_values(self.args)

    def __repr__(self) -> str:
        return f"<Node {self.op.name} -> {len(self.outputs)}>"


def flat_values(args: Any) -> list[Value]:
    """The ``Value`` objects of a (nested) argument structure."""
    out = []
    for arg in args:
        if type(arg) is Value:
            out.append(arg)
        elif isinstance(arg, (list, tuple)):
            out += flat_values(arg)
    return out


def map_values(args: Any, f: Callable[[Value], Any]) -> Any:
    """A copy of an argument structure with ``f`` applied to each ``Value``; lists stay lists, tuples stay tuples."""
    kind = type(args)
    if kind is Value:
        return f(args)
    if kind is tuple:
        return tuple([f(a) if type(a) is Value else map_values(a, f) for a in args])
    if issubclass(kind, (list, tuple)):
        return kind(map_values(arg, f) for arg in args)
    return args


class Graph:
    """A functional program: ``inputs`` -> ``nodes`` (in execution order) -> ``outputs``.

    ``outputs`` holds values or Python constants (a number, None or SymInt returned as it is).  ``mutations`` lists
    ``(input value, new value)``.  ``draws`` counts the random draws of one run.  ``sizes`` is the SizeContext of the
    symbols in use, or None.
    """

    __slots__ = ("name", "inputs", "nodes", "outputs", "sizes", "draws", "mutations", "size_params", "_names")

    def __init__(self, name: str = "graph", sizes: Any = None) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Any] = []
        self.sizes = sizes
        self.draws = 0
        self.mutations: list[tuple[Value, Value]] = []
        self.size_params: list[str] = []
        self._names: set[str] = set()

    # -- building
    def add_input(self, meta: Any, name: str | None = None) -> Value:
        """Append an input. ``name`` is made unique among the inputs (default ``x0, x1, ...``)."""
        value = Value(meta, None, len(self.inputs), self._unique(name or f"x{len(self.inputs)}"))
        self.inputs.append(value)
        return value

    def append(
        self, op: Any, args: tuple, attrs: dict[str, Any], metas: tuple, loc: tuple[str, int] | None = None
    ) -> Node:
        """Append a node whose output metas are known. Returns it; its results are ``node.outputs``."""
        node = Node(op, args, attrs, metas, loc)
        self.nodes.append(node)
        return node

    def _unique(self, name: str) -> str:
        taken = self._names
        candidate, count = name, 1
        while candidate in taken:
            candidate = f"{name}_{count}"
            count += 1
        taken.add(candidate)
        return candidate

    # -- reading
    def results(self) -> Iterator[Value]:
        """Values that must survive: outputs and new values of mutated inputs."""
        yield from flat_values(self.outputs)
        for _, new in self.mutations:
            if isinstance(new, Value):
                yield new

    @property
    def random(self) -> bool:
        """Whether any node draws random numbers (then the graph is called with seed and first draw at the end)."""
        return any("draw" in node.attrs for node in self.nodes)

    def users(self) -> dict[Value, list[Node]]:
        """For each value, the nodes that read it (once per read), in order."""
        table: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs():
                table.setdefault(value, []).append(node)
        return table

    def number(self) -> dict[Value, str]:
        """Names for printing: inputs keep theirs, results are ``%0, %1, ...`` in order."""
        names = {value: value.name for value in self.inputs}
        count = 0
        for node in self.nodes:
            for value in node.outputs:
                names[value] = f"%{count}"
                count += 1
        return names

    def copy(self) -> tuple[Graph, dict[Value, Value]]:
        """A deep copy (operators, metas, attribute values shared) and the map from old to new values."""
        other = Graph(self.name, self.sizes)
        env: dict[Value, Value] = {v: other.add_input(v.meta, v.name) for v in self.inputs}
        for node in self.nodes:
            new = other.append(
                node.op,
                map_values(node.args, env.__getitem__),
                dict(node.attrs),
                tuple(v.meta for v in node.outputs),
                node.loc,
            )
            env.update(zip(node.outputs, new.outputs, strict=True))
        other.outputs = [map_values(out, env.__getitem__) for out in self.outputs]
        other.mutations = [(env[dst], map_values(src, env.__getitem__)) for dst, src in self.mutations]
        other.draws = self.draws
        other.size_params = list(self.size_params)
        return other, env

    def text(self, locs: bool = True) -> str:
        """The printed form; ``fusegrad.compiler.ir.text.parse`` reads it back."""
        from .text import print_graph

        return print_graph(self, locs=locs)

    def verify(self) -> None:
        """Re-derive every Meta; raises ``GraphError`` showing the place. See ``verify.py``."""
        from .verify import verify

        verify(self)

    def __eq__(self, other: object) -> bool:
        """Same program: equal text apart from the user's lines."""
        return isinstance(other, Graph) and self.text(locs=False) == other.text(locs=False)

    __hash__ = object.__hash__

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Graph {self.name}: {len(self.inputs)} inputs, {len(self.nodes)} nodes, {len(self.outputs)} outputs>"
