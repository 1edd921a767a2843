"""Recording a whole program: the module's state becomes graph inputs, then the code runs once on graph tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import fusegrad.compiler  # noqa: F401  (the compiler registers its own operators)
from fusegrad.compiler.ir.builder import Cell, GraphBuilder, Place
from fusegrad.compiler.ir.graph import Value, flat_values

from fusegrad.autograd.modes import STATE, enable_grad, inference_mode
from fusegrad.dtypes import bool_, float64
from fusegrad.errors import DataDependentError, NotRecordedError
from fusegrad.handler import active
from fusegrad.meta import Meta
from fusegrad.nn import Module, Parameter
from fusegrad.op import TABLE
from fusegrad.place import root_array
from fusegrad.pytree import tree_leaves
from fusegrad.sizes import SizeFloat, library_asks, user_line
from fusegrad.tensor import Tensor, wrap

from .errors import ExportError
from .outside import Outside, tensors
from .watch import Watch

_HERE = __file__.rpartition("/")[0]


class ExportBuilder(GraphBuilder):
    """A GraphBuilder that also notes where gradients stop: the eager tape does not survive in a file."""

    def __init__(self, name: str, sizes: Any) -> None:
        super().__init__(name, sizes)
        self.stopped: dict[Any, set[int]] = {}  # node -> numbers of its tensor arguments (flat)
        self.gradless: set[Any] = set()  # cells of state that asks for no gradient
        self.floats: dict[str, tuple[Tensor, SizeFloat]] = {}  # floats made of sizes: they become number inputs
        self.selected: dict[Any, tuple] = {}  # cell of an item -> where it was read, and of what (see `_item`)
        self.stale: Any = None  # where an item was read that is used after its source was changed
        self.arrays: dict[int, tuple[Any, Tensor]] = {}  # id of a lifted real tensor -> (its array then, it)

    def text(self, t: Tensor) -> str:
        """What ``repr`` shows of a graph tensor."""
        told = self.graph.sizes.told
        if told is not None and not library_asks():
            told("a tensor")
        return f"<graph tensor {t._g.meta}>"

    def number(self, value: SizeFloat) -> Tensor:
        """The graph's number input for a float that is computed from sizes at each call."""
        if value.expr not in self.floats:
            meta = Meta((), float64, None, True)  # double until it meets a tensor
            self.floats[value.expr] = (self.new_input(meta, name=f"number{len(self.floats)}"), value)
        return self.floats[value.expr][0]

    def dispatch(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        for value in attrs.values():
            if isinstance(value, SizeFloat):
                float(value)  # refused: attributes are part of the program
        where = user_line()
        self.loc = where or ("", 0)  # an unset loc would be looked up, and found in this file
        try:
            if self.depth and op.kind != "view":
                args = tuple(self._stopped_arg(a) for a in args)
            if self.selected:
                self._use(op, args)
            out = super().dispatch(op, args, attrs)
        finally:
            self.loc = None
        self.graph.nodes[-1].loc = where
        if op.name == "index" and all(i.ndim == 0 for i in args[1]):
            self.selected[out._g.cell] = self._item(where, out, args[0], args[1])
        if self.depth:  # nodes of a nested graph are not numbered: stops are nodes of their own
            if op.kind == "view" and (not STATE.grad or is_detached(args[0])):
                for t in out if isinstance(out, tuple) else (out,):
                    t._g.__dict__["detached"] = True
            return out
        flat = [t for a in args for t in (a if isinstance(a, (tuple, list)) else (a,)) if isinstance(t, Tensor)]
        flat = [t for t in flat if not t._g.meta.weak]
        stops = {i for i, t in enumerate(flat) if not STATE.grad or is_detached(t)}
        if stops:
            self.stopped[self.graph.nodes[-1]] = stops
        return out

    def _item(self, where: Any, out: Tensor, source: Tensor, places: Any) -> tuple:
        """``out = source[i]`` by a 0-d tensor: a view in eager code, a copy in the program."""
        cell = self.lift(source)._g.cell
        return where or ("", 0), out._g.cell.version, cell, cell.version, [*map(self.value_of, places)]

    def _use(self, op: Any, args: tuple) -> None:
        """An operator reads items: their sources must be what they were. ``x[i] += 1`` puts the item where it was."""
        flat = [t for a in args for t in (a if isinstance(a, (tuple, list)) else (a,)) if isinstance(t, Tensor)]
        for t in flat:
            found = self.selected.get(t._g.cell) if t._data is None else None
            if found is None:
                continue
            if found[2].version != found[3]:
                self.stale = self.stale or found[0]
            if op.name == "index_put" and args[2] is t and [*map(self.value_of, args[1])] == found[4]:
                del self.selected[t._g.cell]

    def check_selected(self, results: Any) -> None:
        """ExportError if what is a view in eager code was changed, or what it looks at."""
        where = self.stale
        cells = {t._g.cell for t in tree_leaves(results) if isinstance(t, Tensor) and t._data is None}
        for cell, (place, version, source, seen, _) in self.selected.items():
            if cell.version != version or (cell in cells and source.version != seen):
                where = where or place
        if where is not None:
            raise ExportError(
                f"{where[0]}:{where[1]}: an item at the place that a 0-d tensor says is a view, and it or its source "
                "is changed in place afterwards: where depends on data, which a program can't follow. Write x[i] = "
                "value with the new value, or clone() the item"
            )

    # tensors that forward makes of real numbers: constants until something of the graph is written into them
    def lift(self, tensor: Tensor) -> Tensor:
        """As the graph's, with what a real tensor holds now; later changes of its memory are not seen."""
        if tensor._data is None:
            return super().lift(tensor)
        known = self.arrays.get(id(tensor))
        if known is not None and known[0] is not tensor._data:  # .data was set since
            self._forget(id(tensor))
        found = self._lifted.get(id(tensor))
        if found is None:
            meta = Meta(tuple(tensor.shape), tensor.dtype)  # constants are stored dense
            name = f"const{len(self.constants)}"
            found = self.new_input(meta, tensor.requires_grad, name, leaf=tensor.grad_fn is None)
            self._lifted[id(tensor)] = found
            self.arrays[id(tensor)] = tensor._data, tensor  # keeps the tensor, and so its id, alive
            self.constants.append(
                (found._g.cell.source, tensor if isinstance(tensor, Parameter) else wrap(tensor._data))
            )
        return found

    def _forget(self, key: int) -> None:
        del self.arrays[key], self._lifted[key]

    def part(self, root: Any) -> None:
        """The memory ``root`` is about to change: constants read from it keep what it held."""
        for key in [k for k, (array, _) in self.arrays.items() if root_array(array) is root]:
            self._forget(key)
        for i, (value, real) in enumerate(self.constants):
            if root_array(real._data) is root:
                self.constants[i] = value, wrap(real._data.copy())

    def write(self, dst: Tensor, src: Tensor) -> None:
        """As the graph's; a real tensor that forward made becomes one of the graph, with all that share its memory."""
        if dst._data is not None:
            self._take_in(dst)
        cell = dst._g.cell
        before = cell.value
        super().write(dst, src)
        if self.depth or cell in self.gradless or not dst.dtype.is_floating_point:
            return
        self.loc = user_line() or ("", 0)
        if unrecorded(dst):
            cell.value = self._emit(TABLE["with_history"], (cell.value, before), {})[0]
            dst._g.version = cell.version - 1  # to be read anew from the whole
        elif not dst._g.chain and not has_history(cell.value) and has_history(before):
            yes = self._emit(TABLE["full"], (), {"size": (), "value": True, "dtype": bool_})[0]
            cell.value = self._emit(TABLE["where"], (yes, cell.value, before), {})[0]  # what was before gets zeros
            dst._g.version = cell.version - 1
        self.loc = None

    def _take_in(self, t: Tensor) -> None:
        base = t if t._view is None else t._view.base
        root = root_array(base._data)
        sharing = [s for s in tensors() if s is not base and root_array(s._data) is root]
        kept = {id(real) for _, real in self.constants}
        value = self.value_of(base)
        self.part(root)
        base._g = Place(self, value.meta, Cell(value, depth=self.depth), (), value)
        like, base._data = base._data, None
        for s in sharing:
            if id(s) in kept:
                continue
            if s._view is not None and s._view.base is base:
                seen = base
                for op, attrs, number in s._view.chain:
                    seen = op.replay(seen, attrs)
                    seen = seen if number is None else seen[number]
            elif s._data.shape == like.shape and s._data.strides == like.strides:
                seen = self.alias(base)
            else:
                where = user_line()
                raise ExportError(
                    f"{f'{where[0]}:{where[1]}: ' if where else ''}a tensor made of numbers is changed in place, and "
                    "others that are not views of it share its memory: clone() it first"
                )
            s._g, s._data = seen._g, None

    def _stopped_arg(self, a: Any) -> Any:
        if isinstance(a, (tuple, list)):
            return tuple(map(self._stopped_arg, a))
        return self.passed(a) if isinstance(a, Tensor) else a

    def passed(self, t: Tensor) -> Tensor:
        """`t` where a nested graph reads or returns it: behind a node that stops gradients if none may flow."""
        t = self.lift(t)
        if not t.dtype.is_floating_point or t._g.meta.weak or (STATE.grad and not is_detached(t)):
            return t
        return super().dispatch(TABLE["stop_gradient"], (t,), {})

    def alias(self, src: Tensor) -> Tensor:
        out = super().alias(src)
        out._g.__dict__["detached"] = True
        return out


def has_history(value: Value, limit: int = 50) -> bool:
    """Whether gradients may flow from `value` to an input of the graph; True if its beginnings are far."""
    todo = [value]
    for _ in range(limit):
        if not todo:
            return False
        v = todo.pop()
        if v.meta.dtype.is_floating_point:
            if v.node is None:
                return True
            todo += flat_values(v.node.args)
    return True


def unrecorded(t: Tensor) -> bool:
    """Whether a change of `t` leaves the history of its memory as it is: under no_grad, and through detach."""
    return not STATE.grad or is_detached(t) or (t._view is not None and is_detached(t._view.base))


def is_detached(t: Tensor) -> bool:
    """Whether `t` was made by detach (and not asked for a gradient of its own since)."""
    if "detached" not in t._g.__dict__:
        return False
    rec = t._view
    if rec is not None and rec.made == "no_grad":  # it reports what its base does, and yet nothing flows through it
        return t.grad_fn is None
    return not t.requires_grad


@dataclass
class Slot:
    """A tensor of the module's state: its names (several if tied) and the graph tensor that stands for it."""

    real: Tensor
    stand_in: Tensor
    homes: list[tuple[Module, str, str]] = field(default_factory=list)  # (module, "_parameters" or "_buffers", name)
    names: list[str] = field(default_factory=list)
    persistent: list[bool] = field(default_factory=list)


def roots_of(f: Callable[..., Any]) -> list[tuple[str, Module]]:
    """The modules whose state belongs to `f`: itself, the object of a bound method, or what a function names."""
    if isinstance(f, Module):
        return [("", f)]
    if isinstance(f, functools.partial):
        return roots_of(f.func)
    owner = getattr(f, "__self__", None)
    if isinstance(owner, Module):
        return [("", owner)]
    f = inspect.unwrap(f)
    try:
        seen = inspect.getclosurevars(f)
    except (TypeError, ValueError):
        return []
    named = {**seen.globals, **seen.nonlocals}
    return [(name, m) for name, m in named.items() if isinstance(m, Module)]


def named_modules(roots: list[tuple[str, Module]], duplicates: bool = False) -> Iterator[tuple[str, Module]]:
    """All modules below the roots with their full names."""
    for prefix, root in roots:
        yield from root.named_modules(prefix=prefix, remove_duplicate=not duplicates)


def collect_state(roots: list[tuple[str, Module]], builder: ExportBuilder) -> list[Slot]:
    """One slot, and one graph input, for each tensor of the state, tied ones together."""
    slots: dict[int, Slot] = {}
    for prefix, m in named_modules(roots, duplicates=True):
        for kind in ("_parameters", "_buffers"):
            for name, t in m.__dict__[kind].items():
                if t is None:
                    continue
                key = f"{prefix}.{name}" if prefix else name
                if id(t) not in slots:
                    cls = Parameter if isinstance(t, Parameter) else Tensor
                    meta = Meta(tuple(t.shape), t.dtype)
                    label = "self." + re.sub(r"[^A-Za-z0-9_.]", "_", key)
                    stand_in = builder.new_input(meta, t.requires_grad, label, cls, leaf=t.grad_fn is None)
                    builder.adopt(t, stand_in)
                    if not t.requires_grad:
                        builder.gradless.add(stand_in._g.cell)
                    slots[id(t)] = Slot(t, stand_in)
                slot = slots[id(t)]
                slot.homes.append((m, kind, name))
                slot.names.append(key)
                slot.persistent.append(kind == "_parameters" or name not in m.__dict__["_non_persistent_buffers_set"])
    return list(slots.values())


@contextlib.contextmanager
def stand_ins(roots: list[tuple[str, Module]], slots: list[Slot]) -> Iterator[None]:
    """Put graph tensors in place of the state while the code runs; put everything back, attributes included."""
    before = [(m, _attributes(m)) for _, m in named_modules(roots)]
    for slot in slots:
        for m, kind, name in slot.homes:
            m.__dict__[kind][name] = slot.stand_in
    try:
        yield
    finally:
        for m, (plain, tables) in before:
            for kind, table in tables.items():
                m.__dict__[kind].clear()
                m.__dict__[kind].update(table)
            for gone in [k for k in m.__dict__ if k not in plain and k not in tables]:
                del m.__dict__[gone]
            m.__dict__.update(plain)


_TABLES = ("_parameters", "_buffers", "_modules")


def _attributes(m: Module) -> tuple[dict[str, Any], dict[str, dict]]:
    d = m.__dict__
    return {k: v for k, v in d.items() if k not in _TABLES}, {k: dict(d[k]) for k in _TABLES}


def run(
    builder: ExportBuilder,
    roots: list[tuple[str, Module]],
    slots: list[Slot],
    call: Callable[[], Any],
    arguments: list[tuple[str, Any]],
    alive: list[Tensor],
) -> tuple[Any, dict]:
    """(result of `call` on graph tensors, buffers that were reassigned: name -> (slot, new tensor))."""
    reassigned: dict[str, tuple[Slot, Tensor]] = {}
    watch = Watch(list(named_modules(roots)), arguments)
    outside = Outside(builder, [slot.real for slot in slots], alive)
    with stand_ins(roots, slots), contextlib.closing(watch), outside:
        try:
            with (
                active(builder),
                inference_mode(False),
                enable_grad(),
            ):  # as the program is later called: by its own modes
                result = call()
        except DataDependentError as e:
            raise located(e) from None
        watch.check()
        outside.check()
        builder.check_selected(result)
        for slot in slots:
            for (m, kind, name), key in zip(slot.homes, slot.names, strict=True):
                now = m.__dict__[kind].get(name)
                if now is not slot.stand_in:
                    reassigned[key] = (slot, now)
    return result, reassigned


def located(e: DataDependentError) -> DataDependentError:
    """The same refusal, led by the user's line and worded for export."""
    import sys

    engine = str(sys.modules["fusegrad"].__file__).rpartition("/")[0]
    compiler = str(sys.modules["fusegrad.compiler"].__file__).rpartition("/")[0]
    tb, where = e.__traceback__, None
    while tb is not None:
        file = tb.tb_frame.f_code.co_filename
        if not file.startswith((engine, compiler, _HERE, "<fusegrad ")):
            where = f"{file}:{tb.tb_lineno}"
        tb = tb.tb_next
    lead = f"{where}: " if where else ""
    if isinstance(e, NotRecordedError):
        return NotRecordedError(f"{lead}structured control flow that cannot be exported: {e}", e.tensor)
    said = str(e) if str(e).endswith(".") else f"{e}."
    message = (
        f"{lead}data-dependent control flow or value: {said} An exported program is one fixed graph: write the "
        "choice with tensor operations such as where(), or with fusegrad.cond(pred, true_fn, false_fn, operands), a "
        "loop with fusegrad.while_loop or fusegrad.control.scan."
    )
    return type(e)(message, e.tensor)
