"""The reference interpreter.

Runs a graph node by node on the eager operators. Slow and simple; what compiled code is compared with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad import dispatch as _dispatch
from fusegrad.autograd.modes import no_grad
from fusegrad.handler import active
from fusegrad.sizes import SymInt, evaluate
from fusegrad.tensor import Tensor, wrap

from .bind import bound_symbols
from .control import expand, is_control
from .graph import Graph, Node, Value

__all__ = ["Run", "run", "run_tensors", "size_env"]


def size_env(graph: Graph, args: Any) -> dict[str, int]:
    """Values of the size symbols for a call: from the arrays' shapes and the explicit size parameters."""
    env = {name: int(args[i].shape[d]) for name, (i, d) in bound_symbols(graph).items()}
    first = len(graph.inputs)
    env.update(zip(graph.size_params, args[first : first + len(graph.size_params)], strict=True))
    return env


def _concrete(value: Any, env: dict[str, int]) -> Any:
    """Sizes replaced by ints."""
    if isinstance(value, SymInt):
        return evaluate(value, env)
    if isinstance(value, (tuple, list)):
        return type(value)(_concrete(v, env) for v in value)
    if isinstance(value, slice):
        return slice(_concrete(value.start, env), _concrete(value.stop, env), _concrete(value.step, env))
    return value


class Run:
    """One run of a graph: the values so far. Subclasses change what one operator does (`apply`)."""

    def __init__(self, graph: Graph, sizes: dict[str, int], seed: int, draw: int) -> None:
        self.sizes, self.seed, self.draw = sizes, seed, draw
        self.values: dict[Value, Any] = {}

    def get(self, arg: Any) -> Any:
        if isinstance(arg, Value):
            return self.values[arg]
        if isinstance(arg, (list, tuple)):
            return tuple(self.get(a) for a in arg)
        return _concrete(arg, self.sizes)

    def node(self, node: Node) -> None:
        attrs = {k: _concrete(v, self.sizes) for k, v in node.attrs.items()}
        if "draw" in attrs:
            attrs["seed"], attrs["draw"] = self.seed, self.draw + attrs["draw"]
        args = tuple(self.get(a) for a in node.args)
        if is_control(node.op):
            outs = expand(node.op, args, self.sizes, attrs, self.apply)
            self.values.update(zip(node.outputs, outs, strict=True))
            return
        numbers = not any(isinstance(t, Tensor) for a in args for t in (a if isinstance(a, tuple) else (a,)))
        args = tuple(
            _number_to_tensor(a, given) if p.type == "T" or (numbers and node.op.kind == "pointwise") else a
            for a, given, p in zip(args, node.args, node.op.sig.tensors, strict=True)
        )
        out = self.apply(node, args, attrs)
        outs = out if isinstance(out, (tuple, list)) else (out,)
        for value, t in zip(node.outputs, outs, strict=True):
            self.values[value] = t.item() if value.meta.weak else t

    def apply(self, node: Node, args: tuple, attrs: dict[str, Any]) -> Any:
        """The eager operator on concrete arguments."""
        if node.op.name == "view":  # a value may lie in another order than in the graph, and is nobody's memory
            return args[0].reshape(attrs["size"])
        return _dispatch.dispatch(node.op, args, attrs)


def _number_to_tensor(a: Any, given: Any) -> Any:
    """An operator on run-time numbers alone gets 0-d tensors of the numbers' own dtypes: it computes as Python does.

    ``given``: where the graph has it; a number that was cast is of the dtype it was cast to.
    """
    if not isinstance(a, (bool, int, float)):
        return a
    return wrap(np.asarray(a, given.meta.dtype.np if isinstance(given, Value) else None))


def run_tensors(graph: Graph, args: Any, runner: type[Run] = Run) -> tuple[list[Any], list[Any]]:
    """Outputs and new values of mutated inputs for real Tensors (and numbers), by the current grad mode.

    With a tape if that is on. ``runner`` says how a node is run.
    """
    args = list(args)
    extra = args[len(graph.inputs) + len(graph.size_params) :]
    seed, draw = extra if extra else (0, 0)
    state = runner(graph, size_env(graph, args), seed, draw)
    state.values.update(zip(graph.inputs, args[: len(graph.inputs)], strict=True))
    with active(None):
        for node in graph.nodes:
            state.node(node)
    return [state.get(v) for v in graph.outputs], [state.get(v) for _, v in graph.mutations]


def run(graph: Graph, args: Any, runner: type[Run] = Run) -> tuple[Any, ...]:
    """Outputs, then new values of mutated inputs, as arrays (never the memory of an input).

    ``args``: see the call convention in ``graph.py``; ``runner`` says how a node is run.
    """
    wrapped = [wrap(a) if isinstance(a, np.ndarray) else a for a in args]
    with no_grad():
        outs, new = run_tensors(graph, wrapped, runner)
    seen: list[np.ndarray] = [a for a in args if isinstance(a, np.ndarray)]
    values = [*graph.outputs, *(value for _, value in graph.mutations)]
    return tuple(_own(v, seen, _in_c_order(value)) for v, value in zip([*outs, *new], values, strict=True))


def _in_c_order(value: Any) -> bool:
    return isinstance(value, Value) and value.meta.strides is None


def _own(value: Any, seen: list[np.ndarray], dense: bool = False) -> Any:
    """The array of a result, copied if it may share memory with an input or an earlier result, is expanded, or not in C
    order where it should be (``dense``): results of compiled kernels are laid out as the graph says."""
    if isinstance(value, tuple):
        return [_own(v, seen) for v in value]
    if not isinstance(value, Tensor):
        return value
    array = value._data
    expanded = any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape, strict=True))
    if expanded or (dense and not array.flags.c_contiguous) or any(np.may_share_memory(array, other) for other in seen):
        array = array.copy()
    seen.append(array)
    return array
