"""Tensors that enter a graph: their guards, their sizes, their gradients."""

from __future__ import annotations

import re
from typing import Any

from fusegrad import dtypes
from fusegrad.autograd import modes
from fusegrad.autograd.modes import STATE
from fusegrad.handler import in_transform
from fusegrad.meta import Meta, steps_of
from fusegrad.sizes import SymInt, poly_of
from fusegrad.tensor import Tensor, extra_of, storage_of

from .breaks import AUTOGRAD, OBJECT, VALUE, Break, Refuse, Restart
from .source import Source
from .values import is_foreign

UNREAD = object()  # ``grad_before`` of a tensor whose gradient was replaced before anything read it


class Input:
    """A real tensor, where it comes from, and the graph tensor that stands for it.

    ``sticky``: reached from a fixed object, guarded first by the identity of its array; ``const``: always this object.
    ``entry``: the graph tensor at the storage that the real one has before the call (another one than ``graph`` after
    ``t.data = value``). ``place``: where it was found (``source`` may be the object itself). ``drawn``: the segment
    makes it (see drawing), nothing else is or shares it.
    """

    __slots__ = (
        "real",
        "source",
        "graph",
        "entry",
        "grad_synced",
        "grad_before",
        "leaf",
        "attrs",
        "sticky",
        "const",
        "lazy",
        "touched",
        "place",
        "drawn",
    )

    def __init__(self, real: Any, source: Source, graph: Any) -> None:
        self.real, self.source, self.graph, self.entry = real, source, graph, graph
        self.place = source
        self.grad_synced = False
        self.grad_before: Any = None
        self.leaf = True
        self.attrs: dict[str, Any] = {}
        self.sticky = self.const = self.lazy = self.touched = self.drawn = False


def make_input(cap: Any, t: Any, source: Source) -> Input:
    """Guard a tensor's metadata and give it a graph tensor."""
    cls = type(t)
    if t._data is None:
        raise Break(OBJECT, "a tensor of an outer graph or of vmap")
    if cls is not Tensor and not cls.__module__.startswith("fusegrad."):
        raise Break(OBJECT, f"tensor subclass {cls.__name__}")
    const, place = cap.is_safe(source) and f"tensor {source.path()}" not in cap.facts.changing, source
    if const:  # a module's own tensor: the object is fixed while the module epoch stands
        cap.guard(f"{cap.tok(source)} is {cap.consts.name(t)}", "module", source.path(), t, True)
        source = cap.const(t, source.name)
    sticky = source.root().kind == "const"  # reached from a fixed object: most likely the same array every time
    cap.fixing = sticky
    try:
        out = _guarded(cap, t, source, cls, const)
    finally:
        cap.fixing = False
    out.sticky, out.const, out.place = sticky, const, place
    return out


def _guarded(cap: Any, t: Any, source: Source, cls: type, const: bool) -> Input:
    tok, d = cap.tok(source), cap.tok(source.attr("_data"))
    path = source.path()
    if not const:
        cap.guard(f"type({tok}) is {cap.consts.name(cls)}", "type", path, cls)
    shape = _shape(cap, t, source, d, path)
    cap.guard(f"{d}.dtype is {cap.consts.name(t._data.dtype)}", "dtype", path, t.dtype)
    strides = _strides(cap, t, source, d, shape)
    rg = t.requires_grad
    if t._view is None:
        cap.guard(f"{tok}._rg is {rg} and {tok}._view is None", "requires_grad", path, rg)
    else:
        cap.guard(f"{tok}.requires_grad is {rg}", "requires_grad", path, rg)
    marked = t.is_inference()
    if marked:
        cap.guard(f"{tok}.is_inference()", "inference", path, True)
    elif cap.grad_before and not const and (not rg or t._node is None):  # one with a history has no mark
        cap.guard(f"({tok}._extra is None or not {tok}.is_inference())", "inference", path, False)
    leaf = t._node is None
    if rg:
        cap.guard(f"({tok}._node is None) is {leaf}", "leaf", path, leaf)
    meta = Meta(shape, dtypes.FROM_NUMPY[t._data.dtype], strides)
    graph = cap.builder.new_input(meta, rg, _name(source), cls, leaf)
    cap.builder.adopt(t, graph)
    if marked:
        extra_of(graph).inference = True
    out = Input(t, source, graph)
    out.leaf = leaf
    return out


_NOT_NAME = re.compile(r"\W")


def _name(source: Source) -> str | None:
    if len(source.name) > 60:
        return None
    name = _NOT_NAME.sub("_", source.name).strip("_")
    return name if name.isidentifier() and len(name) < 40 else None


def _shape(cap: Any, t: Any, source: Source, d: str, path: str) -> tuple:
    real = t._data.shape
    marked = getattr(t, "_dynamic_dims", None) or ()
    cap.facts.changing.update(f"{path}.shape[{k}]" for k in marked)  # also where the next tensor is not marked
    moving = [k for k in range(len(real)) if k in marked or cap.facts.is_dynamic(f"{path}.shape[{k}]")]
    if getattr(t, "_static_dims", None):
        moving = [k for k in moving if k not in t._static_dims]
    if not moving:
        cap.guard(f"{cap.tok(source.attr('_data').attr('shape'))} == {tuple(real)!r}", "shape", path, tuple(real))
        return tuple(real)
    shp = source.attr("_data").attr("shape")
    stok = cap.tok(shp)
    cap.guard(f"len({stok}) == {len(real)}", "rank", path, len(real))
    out: list[Any] = []
    for k, n in enumerate(real):
        if k in moving:
            out.append(cap.symbol(shp.item(k), n, 0))
        else:
            cap.guard(f"{cap.tok(shp.item(k))} == {n}", "dim", f"{path}.shape[{k}]", n)
            out.append(n)
    return tuple(out)


def _strides(cap: Any, t: Any, source: Source, d: str, shape: tuple) -> tuple | None:
    data, path = t._data, source.path()
    if data.flags.c_contiguous:
        cap.guard(f"{d}.flags.c_contiguous", "layout", path, "contiguous")
        return None
    size, real = data.itemsize, steps_of(data)
    dense = _dense_steps(data, real, shape)
    if dense is None and any(cap.facts.is_dynamic(f"{path}.strides[{k}]") for k in range(data.ndim)):
        return _moving_strides(cap, t, source, real)
    if dense is None or all(isinstance(n, int) for n in shape):
        cap.guard(f"{d}.strides == {data.strides!r}", "layout", path, data.strides)
        return real
    text = ", ".join(f"{size} * {cap.size_code(s)}" for s in dense)
    cap.guard(f"{d}.strides == ({text},)", "layout", path, data.strides)
    return dense


def _dense_steps(data: Any, real: tuple, shape: tuple) -> tuple | None:
    """The steps of a permutation of a contiguous layout, which keeps its form when sizes change; None for others."""
    order = sorted(range(data.ndim), key=lambda k: (-abs(data.strides[k]), k))
    dense: list[Any] = [0] * data.ndim
    step: Any = 1
    hint = 1
    for k in reversed(order):
        if hint != real[k]:
            return None
        dense[k] = step
        step, hint = step * shape[k], hint * data.shape[k]
    return tuple(dense)


def _moving_strides(cap: Any, t: Any, source: Source, real: tuple) -> tuple:
    """Steps through a part of a larger memory whose sizes change (``x[:, i]`` of longer and longer ``x``)."""
    size, path, strides = t._data.itemsize, source.path(), source.attr("_data").attr("strides")
    cap.guard(f"not {cap.tok(source.attr('_data'))}.flags.c_contiguous", "layout", path, "strided")
    out: list[Any] = []
    for k, step in enumerate(t._data.strides):
        tok = cap.tok(strides.item(k))
        if step > size and step % size == 0 and cap.facts.is_dynamic(f"{path}.strides[{k}]"):
            cap.guard(f"{tok} > {size} and {tok} % {size} == 0", "layout", path)
            out.append(cap.symbol(strides.item(k), step // size, 2, f"({tok} // {size})"))
        else:
            cap.guard(f"{tok} == {step}", "layout", f"{path}.strides[{k}]", step)
            out.append(real[k])
    return tuple(out)


def outside_of_transforms(ev: Any, what: str) -> None:
    """What function transforms refuse: the code is for calls outside of them."""
    if in_transform() or STATE.transforms:
        raise Break(AUTOGRAD, f"{what} under a transform", clean=True)
    ev.cap.guard("not _fgS.transforms", "mode", "function transforms", False)


def set_requires_grad(ev: Any, inp: Input, value: Any) -> None:
    """``t.requires_grad_(value)`` of a tensor from before: an effect, made for real by the segment."""
    inp.touched = True
    if inp.real._view is not None and inp.real._rg:
        raise Break(AUTOGRAD, "requires_grad of a view with a history is set", clean=True)
    ev.real(Tensor.requires_grad_, inp.graph, value)
    if inp.graph._rg is not inp.real._rg or inp in ev.cap.flags:
        ev.cap.flags[inp] = ev.outer


def set_data(ev: Any, t: Tensor, value: Any) -> None:
    """``t.data = value``: the tensor lies in the memory of the value from now on; for one from before an effect."""
    cap, builder = ev.cap, ev.cap.builder
    if not issubclass(type(value), Tensor) or (t._rg and not value.dtype.is_floating_point):
        if is_foreign(value):
            raise Break(AUTOGRAD, "tensor attribute .data is set to an object", clean=True)
        ev.real(setattr, t, "data", value)  # the error
    why = _unmovable(cap, t, value)
    if why:
        raise Break(AUTOGRAD, f"tensor attribute .data is set ({why})", clean=True)
    ev.calls += 1
    stand_in = builder.move(t, value)
    inp = cap.input_of.get(id(t))
    if inp is not None and inp.entry is t:
        inp.entry = stand_in
        cap.input_of[id(stand_in)] = inp
    if inp is not None:
        inp.touched = True
        cap.moved[inp] = (ev.outer, _version(t))


def _unmovable(cap: Any, t: Tensor, value: Tensor) -> str:
    """Why a new memory of ``t`` can't be a part of the graph, or ""."""
    mine = cap.builder.is_mine
    if not (mine(t) and mine(value)) or value._g.meta.weak:
        return "a tensor of another graph"
    if cap.builder.depth:
        return "inside of a branch or a body"
    if t._view is not None or t._node is not None:
        return "of a view or a result"
    if modes.STATE.inference or t.is_inference():
        return "in inference mode"
    if t.dtype is not value.dtype or tuple(t.shape) != tuple(value.shape):
        return "of another dtype or shape"
    return ""


def check_moved(ev: Any, outs: list[Tensor]) -> None:
    """Where a tensor whose ``.data`` was set is more than a leaf at its new place: set for real. Raises `Restart`."""
    moved = {id(i.graph): i for i in ev.cap.moved}
    if not moved:
        return
    guilty = [i for i in ev.cap.moved if i.graph._node is not None]
    changed = (t for t, _ in ev.cap.builder.mutated())
    todo: list[Any] = []
    for t in (*outs, *changed):
        if t._rg and t._node is not None:
            todo.append(t._node)
            if t._view is not None and id(t._view.base) in moved:  # a view of it would be made on another tensor
                guilty.append(moved[id(t._view.base)])
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen or issubclass(type(node), Tensor):
            continue
        seen.add(id(node))
        todo.extend(node.edges)
        for kept in getattr(node, "saved", None) or ():  # a backward would read what it holds by then
            guilty += [moved[id(k)] for k in (kept if type(kept) is tuple else (kept,)) if id(k) in moved]
    for inp in guilty:
        place = ev.cap.moved[inp][0]
        ev.cap.facts.breaks[place] = (AUTOGRAD, "tensor attribute .data is set of a tensor that later code keeps")
    if guilty:
        raise Restart


def data_lines(cap: Any, rb: Any) -> list[str]:
    """Lines that set ``.data`` for real, and count the changes since."""
    out = []
    for inp in cap.tensors:
        if inp in cap.moved:
            t = rb.load(inp.source)
            out.append(f"{t}.data = {rb.value(cap.builder.alias(inp.graph))}")
            changes = _version(inp.graph) - cap.moved[inp][1]
            if changes:
                out.append(f"{cap.consts.name(storage_of)}({t}).version += {changes}")
    return out


def _version(t: Tensor) -> int:
    return t._st.version if t._st is not None else 0


def check_flags(ev: Any, outs: list[Tensor]) -> None:
    """A leaf that needs no gradient at the end, but did when something that leaves the region was computed from it:
    its flag is changed for real. Raises `Restart`."""
    frozen = {id(i.graph): place for i, place in ev.cap.flags.items() if not i.graph._rg}
    if not frozen:
        return
    changed = (t for t, _ in ev.cap.builder.mutated())
    todo: list[Any] = [t.grad_fn for t in (*outs, *changed) if t._rg]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if id(node) in frozen:
            ev.cap.facts.breaks[frozen[id(node)]] = (AUTOGRAD, "requires_grad is set after the tensor was used")
            raise Restart
        if not isinstance(node, Tensor):
            todo.extend(node.edges)


def flag_lines(cap: Any, rb: Any) -> tuple[list[str], list[str], list[str]]:
    """Lines that set ``requires_grad`` before the region, that take it back if the region fails, and after it."""
    first, undo, last = [], [], []
    for inp in cap.flags:
        if inp.graph._rg is inp.real._rg:
            continue
        t = rb.load(inp.source)
        if inp.graph._rg:
            first.append(f"{t}.requires_grad_(True)")
            undo.append(f"{t}.requires_grad_(False)")
        else:
            last.append(f"{t}.requires_grad_(False)")
    return first, undo, last


def guard_numbers(cap: Any) -> None:
    """Whole numbers computed from ints of the program must fit the graph's 64 bits; Python's own have no end.

    Raises `Refuse` if one does not fit now.
    """
    ints = {name for name, s in cap.sizes.symbols.items() if s.min < 0}
    if not ints:
        return
    for node in cap.builder.graph.nodes:
        for v in (*node.args, *node.attrs.values()):
            if isinstance(v, SymInt) and not ints.isdisjoint(poly_of(v).symbols()):
                low, high = cap.sizes.interval(poly_of(v))
                if low is not None and high is not None and -(2**62) < low and high < 2**62:  # numbers drawn
                    continue
                code = cap.size_code(v)
                fits = abs(v.hint) < 2**62
                cap.guard(f"({-(2**62)} < {code} < {2**62}) is {fits}", "size")
                if not fits:
                    raise Refuse(VALUE, "a whole number of more than 62 bits")


def sync_grad(cap: Any, inp: Input) -> None:
    """Bring a real tensor's ``.grad`` into the graph (once)."""
    if inp.grad_synced:
        return
    inp.grad_synced = True
    src = inp.source.attr("_grad")
    if inp.real._grad is None:
        cap.guard(f"{cap.tok(src)} is None", "grad", src.path(), None)
        inp.graph._grad = None
    else:
        inp.graph._grad = _lazy_grad(cap, inp.real._grad, src)
    inp.grad_before = inp.graph._grad


def _lazy_grad(cap: Any, g: Any, src: Source) -> Any:
    """A gradient that is perhaps only replaced: its metadata is guarded when it turns out to be used."""
    if id(g) in cap.by_id or type(g) is not Tensor or g._data is None:
        return cap.realize(g, src)
    shape, kind = g._data.shape, dtypes.FROM_NUMPY[g._data.dtype]
    if (
        any(cap.facts.is_dynamic(f"{src.path()}.shape[{k}]") for k in range(len(shape)))
        or not g._data.flags.c_contiguous
    ):
        return cap.realize(g, src)
    cap.guard(f"type({cap.tok(src)}) is {cap.consts.name(Tensor)}", "type", src.path(), Tensor)
    graph = cap.builder.new_input(Meta(shape, kind, None), g.requires_grad, _name(src), Tensor, g._node is None)
    cap.builder.adopt(g, graph)
    out = Input(g, src, graph)
    out.leaf, out.lazy = g._node is None, True
    cap.register(out)
    return graph


def settle(cap: Any, used: set[int]) -> None:
    """Guard the gradients that were used after all; forget the others."""
    for inp in list(cap.tensors):
        if inp.lazy and (inp.touched or id(inp.entry._g.cell.source) in used or inp.entry._g.cell.version):
            inp.lazy = False
            d = cap.tok(inp.source.attr("_data"))
            _shape(cap, inp.real, inp.source, d, inp.source.path())
            cap.guard(
                f"{d}.dtype is {cap.consts.name(inp.real._data.dtype)}", "dtype", inp.source.path(), inp.real.dtype
            )
            cap.guard(f"{d}.flags.c_contiguous", "layout", inp.source.path(), "contiguous")
            tok, rg = cap.tok(inp.source), inp.real.requires_grad
            cap.guard(f"{tok}.requires_grad is {rg}", "requires_grad", inp.source.path(), rg)
            if rg:
                cap.guard(f"({tok}._node is None) is {inp.leaf}", "leaf", inp.source.path(), inp.leaf)
    cap.tensors = [i for i in cap.tensors if not i.lazy]


def sync_all_grads(cap: Any) -> None:
    """Before a backward inside: every leaf's gradient state must be known."""
    for inp in list(cap.tensors):
        if inp.graph._rg and inp.leaf:
            sync_grad(cap, inp)
