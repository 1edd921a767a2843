"""GraphBuilder: the handler that turns operator calls on graph tensors into nodes.

A graph tensor is a ``Tensor`` without data whose ``_g`` is a ``Place``.  Values of the graph never change, tensors do:
so a tensor's contents are described by a ``Cell`` (the storage that it shares with its views) and the chain of view
operators that leads from the storage to it. An in-place write replaces the cell's value and counts its version up; a
view that was looked at before replays its chain when it is next read. That is all of functionalisation: what is left at
the end are inputs whose cell holds another value than at the start (``mutated``).
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

from fusegrad.autograd.node import CustomNode
from fusegrad.control.checks import mutated
from fusegrad.errors import DataDependentError, NotRecordedError
from fusegrad.handler import Ref
from fusegrad.meta import Meta
from fusegrad.op import TABLE
from fusegrad.size_floats import SymbolicNumber
from fusegrad.tensor import Tensor, wrap_ref

from .graph import Graph, Value
from .infer import infer

__all__ = ["Cell", "GraphBuilder", "Place"]

_HERE = str(Path(__file__).parents[1])
_ENGINE = str(Path(sys.modules["fusegrad.tensor"].__file__ or "").parent)


_OVERLAPPING = ("expand", "unfold", "as_strided", "as_strided_from")  # views whose elements may share memory


class Cell:
    """The storage behind a graph tensor and its views: the value it holds now, and how often it was written.

    ``depth``: inside of how many bodies (see compiler/control) it was made.
    """

    __slots__ = ("value", "version", "tensor", "source", "depth", "counted")

    def __init__(self, value: Value, source: Value | None = None, depth: int = 0) -> None:
        self.value, self.depth = value, depth
        self.version = 0
        self.counted = False  # whether a write counts in the tensor's own versions: one through ``.data`` does not
        self.tensor: Any = None  # the graph tensor of an input
        self.source = source  # the input whose storage this is, or None


class Place(Ref):
    """Where a graph tensor is: a cell, the chain of views from it, and the value read at ``version``."""

    __slots__ = ("cell", "chain", "value", "version", "depth")

    def __init__(self, handler: GraphBuilder, meta: Meta, cell: Cell, chain: tuple, value: Value) -> None:
        self.handler, self.meta, self.depth = handler, meta, handler.depth
        self.cell, self.chain, self.value = cell, chain, value
        self.version = cell.version


class Identity(CustomNode):
    """The grad_fn of an input whose real tensor is not a leaf.

    Passes the gradient on to the tensor that stands for it.
    """

    __slots__ = ()

    def __init__(self, stand_in: Tensor) -> None:
        super().__init__("InputBackward", (stand_in,), (0,), [(tuple(stand_in.shape), stand_in.dtype)])

    def apply(self, grads: list) -> list:
        return grads


class GraphBuilder:
    """Records a graph while library code runs on graph tensors.

    Attributes:
        graph: what was recorded so far.
        constants: (input Value, real Tensor) for each real tensor that took part; they are inputs of the graph like any
        other. loc: the user's (file, line); capture sets it. None: found by walking the frames at each node.
    """

    level = 0

    def __init__(self, name: str = "graph", sizes: Any = None) -> None:
        self.graph = Graph(name, sizes)
        self.constants: list[tuple[Value, Tensor]] = []
        self.loc: tuple[str, int] | None = None
        self.lock = threading.RLock()  # held by whoever adds to a graph that regions are made of already
        self.tensors: list[Tensor] = []  # one graph tensor for each input of the graph, in order
        self._lifted: dict[int, Tensor] = {}
        self._written: list[Cell] = []
        self.inner_leaves: list[Tensor] = []  # tensors that requires_grad_() was called on, inputs excepted
        self.on_leaf: Any = None  # told of each of them
        self.on_warning: Any = None  # told what the library warns of
        self.on_override: Any = None  # told of classes with a __torch_function__ before it is called
        self.required: list[Tensor] | None = None  # checks of values to make at run time; None: they are left out
        self.depth = 0  # how many bodies of control flow are being recorded, one inside of the other
        self.signals: tuple = ()  # exceptions by which capture gives up; empty when a program is traced
        self.kept: set[Value] = set()  # what eager code keeps for control flow and checkpoints
        self.bodies: list[Any] = []  # what was recorded for control flow while a program is captured
        self.numbers: Any = None  # called for operators with changing numbers among their attributes (number_forms)
        self.look: Any = None  # capture's watch for side effects: look(fn) -> what changed since, when called

    # -- inputs
    def new_input(
        self, meta: Meta, requires_grad: bool = False, name: str | None = None, cls: type = Tensor, leaf: bool = True
    ) -> Tensor:
        """A graph tensor for a new input of the graph. A Meta with ``weak`` stands for a Python number given at run
        time.

        ``leaf=False`` (with ``requires_grad``): the real tensor has a grad_fn, so in-place changes of it are allowed.
        """
        value = self.graph.add_input(meta, name)
        cell = Cell(value, value)
        tensor = wrap_ref(Place(self, meta, cell, (), value), cls)
        tensor._st = None  # where a transform runs: what it stands for is older
        tensor._g.depth = 0
        tensor._rg = requires_grad
        cell.tensor = tensor
        self.tensors.append(tensor)
        if requires_grad and not leaf:
            stand_in = wrap_ref(Place(self, meta, Cell(value), (), value))
            stand_in._rg = True
            tensor._g.__dict__["leaf"] = stand_in
            tensor._node = Identity(stand_in)
        return tensor

    def lift(self, tensor: Tensor) -> Tensor:
        """The graph tensor that stands for a real one (always the same for the same tensor object).

        Graph tensors pass through.
        """
        if tensor._data is None:
            if getattr(tensor._g, "handler", None) is not self:
                raise RuntimeError("a tensor of another graph (or of vmap) was used while this graph was recorded")
            return tensor
        found = self._lifted.get(id(tensor))
        if found is None:
            name = f"const{len(self.constants)}"
            found = self.new_input(tensor.meta_(), tensor.requires_grad, name, leaf=tensor.grad_fn is None)
            self._lifted[id(tensor)] = found
            self.constants.append((found._g.cell.source, tensor))  # keeps the tensor, and so its id, alive
        return found

    def lift_all(self, args: tuple) -> tuple[tuple, list[Tensor]]:
        """Canonical arguments of an operator with every real tensor lifted, and their flat list."""
        flat: list[Tensor] = []
        out = []
        for a in args:
            if isinstance(a, SymbolicNumber):
                a = a.graph_number(self)
            if isinstance(a, Tensor):
                a = self.lift(a)
                flat.append(a)
            elif isinstance(a, tuple):
                a = tuple(map(self.lift, a))
                flat.extend(a)
            out.append(a)
        return tuple(out), flat

    def adopt(self, real: Tensor, graph_tensor: Tensor) -> None:
        """Let ``lift(real)`` give ``graph_tensor`` (an input made before), and keep ``real`` alive."""
        self._lifted[id(real)] = graph_tensor
        graph_tensor._g.__dict__["real"] = real

    def forget(self) -> None:
        """Let go of the real tensors that stood behind inputs (constants excepted): recording is over."""
        kept = {id(real) for _, real in self.constants}
        self._lifted = {k: t for k, t in self._lifted.items() if k in kept}
        for t in self.tensors:
            t._g.__dict__.pop("real", None)
        self.on_leaf = self.on_warning = self.on_override = None

    def leaf_of(self, tensor: Tensor) -> Tensor | None:
        """What to differentiate with respect to for an input.

        The tensor, its stand-in for a non-leaf, or None if it needs no gradient.
        """
        kept = tensor._g.__dict__
        found = kept.get("leaf")
        if found is not None:
            return found
        tensor = kept.get("moved", tensor)
        return tensor if tensor._rg and tensor._node is None else None

    # -- reading
    def is_mine(self, tensor: Any) -> bool:
        """Whether ``tensor`` is a graph tensor of this builder."""
        return isinstance(tensor, Tensor) and tensor._data is None and getattr(tensor._g, "handler", None) is self

    def value_of(self, tensor: Tensor) -> Value:
        """The value that a graph tensor (or a lifted real one) holds now; replays the views of a storage that was
        written.
        """
        place = self.lift(tensor)._g
        cell = place.cell
        if place.version != cell.version:
            value = cell.value
            for op, attrs, out in place.chain:
                value = self._emit(op, (value,), attrs)[out]
            if place.depth < self.depth:  # the nodes will be taken out of the graph with the body
                return value
            place.value, place.version = value, cell.version
        return place.value

    def mutated(self) -> list[tuple[Tensor, Value]]:
        """Inputs whose contents were changed in place, with their new values, in order of first write."""
        return [(c.tensor, c.value) for c in self._written if c.source is not None and c.value is not c.source]

    def same_storage(self, t: Tensor, source: Tensor, whole: bool) -> tuple[Any, Any] | None:
        """Arrays that lie as the two do, if they are different views of one storage (``whole``: or the same one)."""
        if not self.is_mine(source) or t._g.cell is not source._g.cell:
            return None
        from .overlap import places

        return places(t._g.cell.value.meta, t._g.chain, source._g.chain, whole)

    def passed(self, t: Tensor) -> Tensor:
        """A tensor as it enters or leaves a nested graph. (A builder whose tape is lost stops gradients here.)"""
        return t

    # -- Handler
    def dispatch(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        """Append a node; its results are fresh graph tensors, views when ``op.kind == "view"`` and the result shares
        memory.
        """
        values = tuple(self._arg(a) for a in args)
        if op.kind in _ARRAYS_ONLY and isinstance(values[0], Value) and values[0].meta.weak:
            raise TypeError(f"{op.name}(): a number that changes between calls is not a tensor here")
        if "generator" in attrs:  # draws were dealt with by now
            attrs = {k: v for k, v in attrs.items() if k != "generator"}
        metas = infer(op, values, attrs)
        seen = metas  # what the program sees: after a write the value lies densely, the tensor with the gaps it had
        if op.kind == "view" and (own := self.lift(args[0]).meta_()).strides != values[0].meta.strides:
            seen = infer(op, (own, *values[1:]), attrs)
        if op.kind == "view" and "within" in op.fields:
            place = self.lift(args[0])._g
            if not place.chain and place.cell.source is None:  # the memory of an input may go beyond what is known here
                op.fields["within"](place.cell.value.meta, **attrs)
        node = self.graph.append(op, values, attrs, metas, self.loc or user_loc())
        if op.kind == "random":
            self.graph.draws = max(self.graph.draws, attrs.get("draw", 0) + 1)
        if op.kind == "view":
            base = self.lift(args[0])._g
            results = [self._view(base, op, attrs, i, v, seen[i]) for i, v in enumerate(node.outputs)]
        else:
            results = [wrap_ref(Place(self, v.meta, Cell(v, depth=self.depth), (), v)) for v in node.outputs]
        return results[0] if op.n_out == 1 else tuple(results)

    def _arg(self, arg: Any) -> Any:
        if isinstance(arg, Tensor):
            return self.value_of(arg)
        if isinstance(arg, (list, tuple)):
            return [self._arg(a) for a in arg]
        return arg

    def _view(self, base: Place, op: Any, attrs: dict[str, Any], out: int, value: Value, meta: Meta) -> Tensor:
        return wrap_ref(Place(self, meta, base.cell, (*base.chain, (op, attrs, out)), value))

    def _emit(self, op: Any, args: tuple, attrs: dict[str, Any]) -> list[Value]:
        return self.graph.append(op, args, attrs, infer(op, args, attrs), self.loc or user_loc()).outputs

    def in_order(self, value: Value, order: tuple[int, ...]) -> Value:
        """``value`` with its axes permuted, laid out in C order.

        The memory of a tensor whose axes run from slow to fast by ``order``.
        """
        turned = self._emit(TABLE["permute"], (value,), {"dims": order})[0]
        return self._emit(TABLE["clone"], (turned,), {"memory_format": "contiguous"})[0]

    def alias(self, src: Tensor) -> Tensor:
        """Another tensor at the same place, without history."""
        old = src._g
        place = Place(self, old.meta, old.cell, old.chain, old.value)
        place.version = old.version
        return wrap_ref(place)

    def write(self, dst: Tensor, src: Tensor) -> None:
        """In-place change: ``dst`` (perhaps a view) now holds ``src``, which has its shape and dtype."""
        from .unview import laid_out, update

        place, value = self.lift(dst)._g, self.value_of(src)
        cell = place.cell
        if cell.depth < self.depth:
            self.refuse_change(dst)
        if any(op.name in _OVERLAPPING for op, _, _ in place.chain[:-1]):
            raise DataDependentError(
                "an in-place change of a part of an expanded tensor (or of another whose elements share memory) is not "
                "captured: clone() the tensor first",
                dst,
            )
        if place.chain:
            cell.value = update(self._emit, cell.value, place.chain, value)
        else:
            cell.value = value = laid_out(self._emit, value, cell.value)
        if cell.version == 0:
            self._written.append(cell)
        cell.version += 1
        own = cell.tensor
        cell.counted = cell.counted or own is None or dst is own or (dst._st is not None and dst._st is own._st)
        place.value, place.version = value, cell.version

    def move(self, t: Tensor, value: Tensor) -> Tensor:
        """``t.data = value``: from now on ``t`` lies where ``value`` does. Returns the tensor that stands at its old
        place, with which the graph is called if ``t`` was an input.
        """
        old, new = t._g, value._g
        stand_in = wrap_ref(old, type(t))
        stand_in._rg = t._rg
        if old.cell.tensor is t:
            old.cell.tensor = stand_in
            old.__dict__["moved"] = t  # what a gradient is for
            self.tensors = [stand_in if x is t else x for x in self.tensors]
        t._g = Place(self, new.meta, new.cell, new.chain, new.value)
        t._g.version = new.version
        return stand_in

    def refuse_change(self, t: Tensor) -> None:
        """A branch or a body may not change what it did not make."""
        if self.signals:
            raise NotRecordedError("a branch or a body changes a tensor in place that it did not make")
        raise mutated("control flow", t)

    def record_control(self, kind: str, *args: Any) -> Any:
        """A call of ``fusegrad.control`` on tensors of this graph."""
        from ..control.record import record

        return record(self, kind, *args)

    def draw(self, count: int) -> tuple[int, int]:
        """(seed, first draw) as a graph holds them: relative to what the caller of the graph passes."""
        first = self.graph.draws
        self.graph.draws += count
        return 0, first

    def require(self, ok: Tensor) -> None:
        """All of ``ok`` must be true when the graph runs."""
        if self.depth and self.required is not None:
            raise NotRecordedError("a branch or a body checks values of tensors")
        if self.required is not None:
            self.required.append(TABLE["require"](ok))

    def unread(self, results: list[Tensor]) -> list[Tensor]:
        """Results of operators that may fail and on which neither ``results`` nor changed inputs depend: returned as
        well, they make the operators run.
        """
        from .fails import unread

        values = [self.value_of(t) for t in results] + [value for _, value in self.mutated()]
        return [wrap_ref(Place(self, v.meta, Cell(v), (), v)) for v in unread(self.graph.nodes, values)]

    def set_requires_grad(self, tensor: Tensor, value: bool) -> None:
        """Told by ``requires_grad_()``: a leaf was made (or unmade) while the graph was recorded."""
        if tensor._g.depth < self.depth:
            self.refuse_change(tensor)
        if value and tensor._g.cell.tensor is not tensor:
            self.inner_leaves.append(tensor)
            if self.on_leaf is not None:
                self.on_leaf(tensor)


_ARRAYS_ONLY = ("view", "reduce", "gather")


def user_loc() -> tuple[str, int] | None:
    """(file, line) of the nearest frame outside fusegrad."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not (name.startswith(_ENGINE) or name.startswith(_HERE) or name[0] == "<"):
            return name, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None
