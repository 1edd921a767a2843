"""`export`: from a function or module and example arguments to an `ExportedProgram`."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from fusegrad.compiler.ir.bind import bind_sizes
from fusegrad.compiler.ir.fails import unread
from fusegrad.compiler.ir.graph import Graph, Value, flat_values

from fusegrad import dtypes
from fusegrad.meta import Meta
from fusegrad.nn import Module, Parameter
from fusegrad.pytree import tree_leaves
from fusegrad.sizes import ConstraintError, SizeContext, SizeFloat, SymInt, known_eq
from fusegrad.tensor import Tensor

from .capture import ExportBuilder, Slot, collect_state, is_detached, named_modules, roots_of, run
from .dims import DimTable, leaf_specs
from .errors import ExportError
from .lost import warn_of_lost
from .outside import tensors
from .program import DimRange, ExportedProgram, Leaf, Output, Param, State
from .texts import Texts
from .tree import flatten, kind_of, labelled, rebuild

_PLAIN = (bool, int, float, str, type(None), dtypes.dtype, type(Ellipsis))

_ONE = threading.RLock()  # while code is recorded, stand-ins take the place of its state: one at a time


@dataclass
class _Given:
    """One bound argument of the example call."""

    name: str
    kind: str
    value: Any
    optional: bool


def export(
    f: Callable[..., Any],
    args: tuple = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = True,
) -> ExportedProgram:
    """Record `f` (a module or function) as one graph that can be saved and run without its source.

    Args:
        f: the module or function; it is run once on tensors without data.
        args, kwargs: example arguments. Tensors may change in value; numbers, strings and None are fixed.
        dynamic_shapes: which axes may vary: a dict by argument name or a tuple by position, with ``{axis: Dim}``, a
            list with one entry an axis, or None for each tensor, nested like the arguments.
        strict: accepted for compatibility.

    Raises:
        ExportError: the program cannot be exported as written.
        ConstraintError: it is right only for sizes that `dynamic_shapes` does not promise.
        DataDependentError: it branches on the value of a tensor; the message begins with the line.
    """
    if not callable(f):
        raise TypeError(f"export: expected a module or function, got {type(f).__name__}")
    if isinstance(args, Tensor) or not isinstance(args, (tuple, list)):
        raise TypeError(f"export: args must be a tuple of example arguments, got {type(args).__name__}")
    given = _bind(f, tuple(args), dict(kwargs or {}))
    static: set[str] = set()
    joined: dict[str, str] = {}
    with _ONE:
        alive = tensors()
        while True:
            attempt = _Attempt(f, given, dynamic_shapes, frozenset(static), dict(joined))
            try:
                return attempt.run(alive)
            except ConstraintError as e:
                if not _settle(e, attempt.table, static, joined):
                    raise


def _settle(e: ConstraintError, table: DimTable, static: set[str], joined: dict[str, str]) -> bool:
    """After a refusal: decide one more Dim.AUTO axis (equal to another, or fixed). False if none is concerned."""
    needed = getattr(e, "needed", None)
    names = [] if needed is None else sorted(needed.symbols() & table.auto)
    if needed is None or not names:
        return False
    a, b = needed.lhs.single_atom(), needed.rhs.single_atom()
    if needed.rel == "==" and a is not None and b is not None and a.text in table.auto and b.kind == "symbol":
        joined[a.text] = b.text
        return True
    static.update(names)
    return True


# ---- arguments ----
def _bind(f: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> list[_Given]:
    """The example's arguments by name, defaults included. TypeError as a call would raise."""
    target = f.forward if isinstance(f, Module) and getattr(f, "__signature__", None) is None else f
    try:
        signature = inspect.signature(target)
    except (ValueError, TypeError):
        return [_Given(f"arg{i}", "positional", a, False) for i, a in enumerate(args)] + [
            _Given(k, "keyword", v, False) for k, v in kwargs.items()
        ]
    bound = signature.bind(*args, **kwargs)
    explicit = set(bound.arguments)
    bound.apply_defaults()
    kinds: dict[Any, str] = {inspect.Parameter.POSITIONAL_ONLY: "positional", inspect.Parameter.KEYWORD_ONLY: "keyword"}
    out: list[_Given] = []
    for name, value in bound.arguments.items():
        p = signature.parameters[name]
        if p.kind is inspect.Parameter.VAR_POSITIONAL:
            for g in out:
                g.kind = "positional" if g.kind == "either" else g.kind
            out += [_Given(f"{name}_{i}", "positional", v, False) for i, v in enumerate(value)]
        elif p.kind is inspect.Parameter.VAR_KEYWORD:
            out += [_Given(k, "keyword", v, False) for k, v in value.items()]
        else:
            optional = p.default is not inspect.Parameter.empty and name not in explicit
            out.append(_Given(name, kinds.get(p.kind, "either"), value, optional))
    return out


def _fixed(path: str, value: Any) -> Any:
    """A value that may stand in a file, as it is compared at calls. ExportError for others."""
    if isinstance(value, (np.bool_, np.integer, np.floating)):
        value = value.item()
    if isinstance(value, np.ndarray):
        raise ExportError(f"{path}: is a numpy array; export takes tensors (fusegrad.from_numpy)")
    if type(value) in _PLAIN:
        return value
    raise ExportError(
        f"{path}: an argument of type {type(value).__name__} cannot be exported; tensors, numbers, strings, None, "
        "dtypes and nested lists, tuples, dicts and dataclasses of them can. Bind it before: "
        f"export(lambda x: f(x, {_identifier(path)}), ...)"
    )


def _identifier(path: str) -> str:
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in path.replace("']", "").replace("['", "_")).strip("_")
    while "__" in name:
        name = name.replace("__", "_")
    return name if name.isidentifier() and name.isascii() else "x"


class _Attempt:
    """One recording, with the AUTO dims decided so far."""

    def __init__(
        self, f: Any, given: list[_Given], dynamic: Any, static: frozenset[str], joined: dict[str, str]
    ) -> None:
        self.f, self.given = f, given
        self.roots = roots_of(f)
        self.ctx = SizeContext("constrain")
        self.ctx.asks = True
        self.ctx.real = lambda size: SizeFloat(("size", size.expr), size.ctx)
        self.table = DimTable(self.ctx, static, joined)
        self.specs = leaf_specs(_by_argument(dynamic, given), [g.name for g in given], {g.name: g.value for g in given})
        name = "forward" if isinstance(f, Module) else getattr(f, "__name__", "program")
        self.builder = ExportBuilder(name if name.isidentifier() else "program", self.ctx)
        self.leaves: list[Leaf] = []
        self.params: list[Param] = []
        self.made: list[tuple[str, Any]] = []  # the arguments as the code sees them, by name

    def run(self, alive: list[Tensor]) -> ExportedProgram:
        told = self.ctx.told = Texts()
        call = self._arguments()
        slots = collect_state(self.roots, self.builder)
        arguments = len(self.builder.graph.inputs) - len(slots)
        result, reassigned = run(self.builder, self.roots, slots, call, self.made, alive)
        self.ctx.told = None
        told.check()
        found: list[tuple[str, Any]] = []
        tree = flatten(result, "result", found)
        warn_of_lost([*(leaf for _, leaf in found), *(t for t, _ in self.builder.mutated())])
        outputs = [self._output(path, leaf, arguments) for path, leaf in found]
        graph = self.builder.graph
        graph.mutations = [(t._g.cell.source, value) for t, value in self.builder.mutated()]  # state and arguments
        self._apart(slots)
        for name, (slot, new) in reassigned.items():
            graph.mutations.append(self._reassigned(name, slot, new))
        graph.outputs += unread(graph.nodes, graph.results())  # not returned, but run: eager code raises in them
        stops = prune(graph, self.builder.stopped)
        bind_sizes(graph)
        state, tensors = self._state(slots)
        floats = {t._g.cell.source.index: f.tree for t, f in self.builder.floats.values()}
        return ExportedProgram(
            graph.name, graph, self.ctx, self._dims(), self.params, self.leaves, tree, outputs, state, tensors, stops,
            any(m.training for _, m in self.roots), floats, dtypes.get_default_dtype(),
        )  # fmt: skip

    # inputs
    def _arguments(self) -> Callable[[], Any]:
        positional: list[Any] = []
        keywords: dict[str, Any] = {}
        for g in self.given:
            if g.optional and not _is_plain(g.value):
                continue  # an object as a default: the function supplies it itself, calls cannot give another
            found: list[tuple[str, Any]] = []
            tree = flatten(g.value, g.name, found)
            self.params.append(Param(g.name, g.kind, g.optional, tree))
            made = rebuild(g.value, iter([self._leaf(path, leaf) for path, leaf in found]))
            self.made.append((g.name, made))
            if g.kind == "keyword":
                keywords[g.name] = made
            else:
                positional.append(made)
        return lambda: self.f(*positional, **keywords)

    def _leaf(self, path: str, leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            if path in self.specs:
                raise ExportError(f"dynamic_shapes for {path}: it is no tensor")
            value = _fixed(path, leaf)
            self.leaves.append(Leaf(path, None, value))
            return value
        if leaf._data is None:
            raise ExportError(f"{path}: a tensor of another graph cannot be an example")
        spec = self.specs.get(path, {})
        shape = tuple(self.table.size(spec[i], n, path, i) if i in spec else n for i, n in enumerate(leaf.shape))
        number = len(self.builder.graph.inputs)
        made = self.builder.new_input(
            Meta(shape, leaf.dtype), leaf.requires_grad, _identifier(path), leaf=leaf.grad_fn is None
        )
        self.leaves.append(Leaf(path, number))
        return made

    # outputs
    def _output(self, path: str, leaf: Any, arguments: int) -> Output:
        if isinstance(leaf, SymInt):
            return Output("size", leaf)
        if isinstance(leaf, SizeFloat):
            return Output("number", leaf.tree)
        if not isinstance(leaf, Tensor):
            return Output("fixed", _returned(path, leaf))
        t = self.builder.lift(leaf)
        place = t._g
        source = place.cell.source
        if source is not None and not place.chain and source.index < arguments and not is_detached(t):
            return Output("input", source.index)
        graph = self.builder.graph
        value = self.builder.value_of(t)
        for i, known in enumerate(graph.outputs):
            if known is value:
                return Output("value", i, is_detached(t))
        graph.outputs.append(value)
        return Output("value", len(graph.outputs) - 1, is_detached(t))

    def _reassigned(self, name: str, slot: Slot, new: Any) -> tuple[Value, Value]:
        source = slot.stand_in._g.cell.source
        if not isinstance(new, Tensor):
            raise ExportError(f"self.{name} is changed by forward from a tensor to {type(new).__name__}")
        value = self.builder.value_of(new)
        old, now = source.meta, value.meta
        if old.dtype is not now.dtype or len(old.shape) != len(now.shape):
            raise ExportError(f"self.{name} is changed by forward from {old} to {now}; a buffer must keep its type")
        if not all(known_eq(a, b) for a, b in zip(old.shape, now.shape, strict=True)):
            raise ExportError(f"self.{name} is changed by forward from {old} to {now}; a buffer must keep its shape")
        return source, value

    # state
    def _apart(self, slots: list[Slot]) -> None:
        """ExportError for a change in memory that is seen through another tensor of the program: in a file, each has
        its own."""
        changed = {v.index for v, _ in self.builder.graph.mutations}
        seen = [(slot.names[0], slot.real._data) for slot in slots]
        seen += [("a tensor that the code closes over", real._data) for _, real in self.builder.constants]
        for prefix, m in named_modules(self.roots):
            own = {k: v for k, v in vars(m).items() if k not in ("_parameters", "_buffers", "_modules")}
            found = [(".".join(filter(None, (prefix, k))), t) for k, v in own.items() for t in tree_leaves(v)]
            seen += [(name, t._data) for name, t in found if isinstance(t, Tensor) and t._data is not None]
        for slot in slots:
            if slot.stand_in._g.cell.source.index not in changed:
                continue
            for name, data in seen:
                if data is not slot.real._data and np.may_share_memory(data, slot.real._data):
                    raise ExportError(
                        f"{slot.names[0]} is changed by forward and shares memory with {name}, which an exported "
                        "program would not change: give one of them memory of its own (clone()), or take the part that "
                        "is shared inside forward"
                    )

    def _state(self, slots: list[Slot]) -> tuple[list[State], dict[str, np.ndarray]]:
        state: list[State] = []
        tensors: dict[str, np.ndarray] = {}
        for slot in slots:
            key = slot.names[0]
            tensors[key] = np.array(slot.real._data, order="C")
            number = slot.stand_in._g.cell.source.index
            for name, (_, table, _), keep in zip(slot.names, slot.homes, slot.persistent, strict=True):
                kind = "parameter" if table == "_parameters" else "buffer"
                state.append(State(name, kind, key, number, slot.real.requires_grad, keep))
        for i, (value, real) in enumerate(self.builder.constants):
            key = f"constant:{i}"
            tensors[key] = np.array(real._data, order="C")
            state.append(
                State(value.name, "constant", key, value.index, isinstance(real, Parameter) and real.requires_grad)
            )
        return state, tensors

    def _dims(self) -> list[DimRange]:
        self.ctx.freeze()  # compiling may not ask for more than what is promised here
        return [DimRange(s.name, s.min, s.max, s.hint) for s in self.ctx.symbols.values()]


def _is_plain(value: Any) -> bool:
    """Whether a default value can stand in a file."""
    kind = kind_of(value)
    if kind is None:
        return isinstance(value, (*_PLAIN, np.number, np.bool_))
    return all(_is_plain(v) for _, v in labelled(value))


def _returned(path: str, leaf: Any) -> Any:
    if isinstance(leaf, (np.bool_, np.integer, np.floating)):
        leaf = leaf.item()
    if type(leaf) not in _PLAIN:
        raise ExportError(
            f"{path}: the program returns an object of type {type(leaf).__name__}; tensors, numbers, strings, "
            "None and nested lists, tuples, dicts and dataclasses of them can be returned"
        )
    return leaf


def _by_argument(dynamic: Any, given: list[_Given]) -> Any:
    """`dynamic_shapes` with the entries of ``*args`` and ``**kwargs`` (nested, as in PyTorch) spread out."""
    if not isinstance(dynamic, Mapping):
        return dynamic
    names = {g.name for g in given}
    out: dict[str, Any] = {}
    for key, spec in dynamic.items():
        spread = [g.name for g in given if g.name.startswith(f"{key}_") and g.name[len(key) + 1 :].isdigit()]
        if key not in names and spread and isinstance(spec, (tuple, list)) and len(spec) == len(spread):
            out.update(zip(spread, spec, strict=True))
        elif key not in names and isinstance(spec, Mapping) and spec and set(spec) <= names:
            out.update(spec)
        else:
            out[key] = spec
    return out


def prune(graph: Graph, stopped: Mapping[Any, set[int]]) -> set[tuple[int, int]]:
    """Drop nodes that no result needs (random ones too: draws are numbered); returns the stops by node number."""
    needed = set(graph.results())
    for node in reversed(graph.nodes):
        if any(v in needed for v in node.outputs):
            needed.update(flat_values(node.args))
    graph.nodes = [n for n in graph.nodes if any(v in needed for v in n.outputs)]
    return {(i, j) for i, n in enumerate(graph.nodes) for j in stopped.get(n, ())}
