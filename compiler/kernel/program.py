"""A compiled graph: the Python function that allocates results, runs kernels and library calls in order, and returns.

``compile_graph(graph, options)`` is the entry of this package.  The function it builds is printed by ``CompiledGraph.text()``.
"""

from __future__ import annotations

import keyword
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from fusegrad.meta import Meta, is_contiguous
from fusegrad.sizes import SymInt, as_python

from ..ir.bind import bound_symbols, symbols_in
from ..ir.graph import Graph, Node, Value
from ..options import Options, make_options
from . import nest as nestmod
from . import views
from .affine import product
from .calls import concrete, extern_call, is_blas
from .donate import grant
from .emit import Buffer, KernelBuilder, plan_group
from .fuse import Fusion, Group, fuse
from .joins import expand_joins, is_join, places
from .memory import Slot, Temp, assign_slots, dense_order, dense_strides
from .scalar import UnsupportedScalar
from .stages import Analysis, analyse, read_by

__all__ = ["CompiledGraph", "compile_graph"]

POOL_BYTES = 64 << 20  # scratch kept between calls of one graph
MAX_LAYOUTS = 8


class CompiledGraph:
    """Callable on arrays, by the call convention of ``ir/graph.py``; returns outputs, then new values of mutated inputs.

    Arrays must have the dtypes and shapes of the graph's inputs; other strides than declared are handled by another version of the
    code. No result shares memory with an input or with another result. May be called by several threads at once.
    """

    def __init__(self, graph: Graph, options: Options, into: dict[int, int] | None = None) -> None:
        self.graph, self.options, self.into = graph, options, into or {}
        self.parts = _write(graph, options, self._relayout, self.into)
        self.run: Callable[..., tuple] = self.parts.function()
        self.refusals = self.parts.fusion.refusals
        self._layouts: dict[tuple, CompiledGraph] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> tuple:
        return self.run(*args)

    @property
    def kernels(self) -> list[nestmod.Kernel]:
        """The native functions, in the order of their calls."""
        return self.parts.kernels

    @property
    def source(self) -> str:
        """Source of the function that runs the graph."""
        return self.parts.source

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
                found = self._layouts[tuple(key)] = CompiledGraph(_with_strides(self.graph, key), self.options, self.into)
        return found.run(*fixed)


def compile_graph(graph: Graph, options: Options | dict | None = None, into: dict[int, int] | None = None) -> CompiledGraph:
    """Compile a functional graph whose composite operators were decomposed.

    ``into`` maps numbers of results to numbers of inputs whose new value they are (an optimizer's step). Where that is safe, and the input is
    C-contiguous, the result is written straight into the input's memory and the input array itself is returned in its place; else the
    result is a fresh array, as always. The caller promises that such an input is writable and overlaps no other argument.
    """
    return CompiledGraph(graph, make_options(options), into)


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


def _write(graph: Graph, options: Options, relayout: Callable[[tuple], tuple], into: dict[int, int]) -> _Writer:
    """The program; operators that turn out to need an instruction the printer does not have become library calls."""
    banned: set[str] = set()
    while True:
        try:
            return _Writer(graph, options, relayout, banned, into)
        except UnsupportedScalar as e:
            if str(e) in banned:
                raise
            banned.add(str(e))


class _Writer:
    """Builds kernels and the source of the running function for one graph."""

    def __init__(
        self, graph: Graph, options: Options, relayout: Callable[[tuple], tuple], banned: set[str], into: dict[int, int]
    ) -> None:
        self.graph, self.options = graph, options = expand_joins(graph), options
        self.namespace: dict[str, Any] = {"_empty": np.empty, "_matmul": np.matmul, "_dot": np.dot, "_copy": _copy, "_relayout": relayout}
        self.symbols = _symbols(graph)
        self.taken = set(self.namespace) | self.symbols | {"seed", "draw"}
        self.names: dict[Value, str] = {v: self.name(v.name) for v in graph.inputs}
        self.analysis: Analysis = analyse(graph, options.fuse, banned)
        self.fusion: Fusion = fuse(self.analysis, options.fuse)
        self.kernels: list[nestmod.Kernel] = []
        self.schedule: list[str] = []
        self.slots: list[Slot] = []
        self.temps: dict[Value, Temp] = {}
        self.buffers: dict[Value, Buffer] = {}
        self.results: dict[Value, None] = {}
        self.parts: dict[Value, tuple[Value, Any, tuple]] = {}  # piece -> joined value, offset, strides
        self.allocated: set[Value] = set()
        self.views: dict[str, str] = {}  # expression on scratch memory -> variable
        self.trial: dict[str, np.ndarray] = {}  # arrays like scratch memory, to see which views need no copy
        self.into = into
        self.given: dict[Value, Value] = {}  # result -> the input whose memory it takes over
        self.body: list[str] = []
        self.source = self.write()

    # -- names and constants -------------------------------------------------------------------------------------------------------
    def name(self, wish: str) -> str:
        """A free Python name like ``wish``."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in wish) or "x"
        if not base.isidentifier() or keyword.iskeyword(base):
            base = f"x_{base}"
        found, k = base, 1
        while found in self.taken:
            found = f"{base}_{k}"
            k += 1
        self.taken.add(found)
        return found

    def constant(self, value: Any, wish: str) -> str:
        """A global of the running function that holds ``value``."""
        for name, have in self.namespace.items():
            if have is value:
                return name
        name = self.name(wish)
        self.namespace[name] = value
        return name

    def shape(self, sizes: tuple) -> str:
        parts = [as_python(s) for s in sizes]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    # -- storage -------------------------------------------------------------------------------------------------------------------
    def place(self) -> list[Any]:
        """Decide for every value in memory where it lives. Returns the plan of each group (None for library calls)."""
        a, groups = self.analysis, self.fusion.groups
        home = {s.value: g for g in groups for s in g.stages}
        for value in self.graph.results():
            if value in a.arrays:
                self.results[a.arrays[value][0]] = None
        stored = {base for base, _ in a.arrays.values() if base in home}
        last: dict[Value, int] = {}
        for position, g in enumerate(groups):
            for value in _reads(g, a):
                if home.get(value) is not g:
                    last[value] = position
                    if value in home:
                        stored.add(value)
        plans = [plan_group(g, stored) if g.node is None else None for g in groups]
        if self.into:
            results = [*self.graph.outputs, *(new for _, new in self.graph.mutations)]
            self.given = grant(self.into, results, self.graph.inputs, a, groups, plans)
        for g in groups:
            if is_join(g.node):
                self.parts.update((p, (g.node.outputs[0], *place)) for p, place in places(g.node).items())  # type: ignore[union-attr]
        for position, (g, plan) in enumerate(zip(groups, plans, strict=True)):
            made = plan.stored if plan is not None else g.node.outputs if is_blas(g.node) else ()  # type: ignore[union-attr]
            for value in made:
                whole = self.parts[value][0] if value in self.parts else value
                if whole not in self.results and whole not in self.temps:  # a joined array lives from its first piece on
                    self.temps[whole] = Temp(whole, position, max(last.get(whole, position), position))
        self.final = self.final_shapes(home)
        self.slots = assign_slots(list(self.temps.values()))
        for slot in self.slots:
            slot.name = self.name(slot.name)
        self.make_buffers(plans)
        return plans

    def final_shapes(self, home: dict[Value, Group]) -> dict[Value, tuple]:
        """Results that are another shape of what a loop makes, and nothing else reads as an array: allocated in that shape at once."""
        seen: dict[Value, list[Value]] = {}
        for value, (base, _) in self.analysis.arrays.items():
            seen.setdefault(base, []).append(value)
        found = {}
        for value in self.graph.results():
            base, chain = self.analysis.arrays.get(value, (value, []))
            if base in home and base in self.results and base not in self.given and len(seen[base]) == 1 and dense_order(base.meta) is None:
                if chain and all(node.op.name in views.RESHAPES for node in chain) and list(self.graph.results()).count(value) == 1:
                    found[base] = value.meta.shape
        return found

    def make_buffers(self, plans: list[Any]) -> None:
        for value, name in self.names.items():
            if not value.meta.weak:
                self.buffers[value] = _buffer(name, value.meta, "input", value.meta.stride())
                self.buffers[value].ready = True
        order = sorted(zip(self.fusion.groups, plans, strict=True), key=lambda x: not is_join(x[0].node))  # joins first
        for g, plan in order:
            made = sorted(plan.stored, key=lambda v: plan.made[v].number) if plan is not None else g.node.outputs
            for value in made:
                meta, order = Meta(value.meta.shape, value.meta.dtype), None
                if plan is not None:
                    order = dense_order(value.meta)
                if order is not None:
                    meta = Meta(meta.shape, meta.dtype, dense_strides(meta.shape, order))
                if value in self.parts:
                    whole, offset, strides = self.parts[value]
                    self.buffers[value] = Buffer(self.buffers[whole].name, meta.dtype, meta.shape, strides, "part", offset)
                    continue
                if value in self.given:
                    self.buffers[value] = _buffer(self.names[self.given[value]], meta, "input")
                    continue
                if value in self.temps:
                    slot = self.temps[value].slot
                    self.buffers[value] = _buffer(slot.name if slot is not None else self.name("tmp"), meta, "temp")
                elif value in self.results and (plan is not None or is_blas(g.node) or is_join(g.node)):
                    self.buffers[value] = _buffer(self.name("out"), meta, "result")
                else:
                    self.buffers[value] = _buffer(self.name("val"), meta, "extern")
                self.buffers[value].ready, self.buffers[value].order = plan is None, order

    # -- the running function ------------------------------------------------------------------------------------------------------
    def write(self) -> str:
        plans = self.place()
        builder: KernelBuilder | None = None
        for g, plan in zip(self.fusion.groups, plans, strict=True):
            if is_join(g.node):
                self.schedule.append("join")
            elif plan is not None:
                if builder is None:
                    builder = KernelBuilder(self.buffers, self.names)
                self.schedule.append(f"loops {g.name}")
                self.allocate(plan.stored)
                builder.add(plan)
                if builder.scratch_bytes() > nestmod.SCRATCH_LIMIT // 2:
                    builder = self.flush(builder)
            else:
                builder = self.flush(builder)
                self.schedule.append(f"{'product' if is_blas(g.node) else 'call'} {g.node.op.name}")
                self.call(g)
        self.flush(builder)
        returned = self.returns()
        lines = [f"def run({self.arguments()}):", *(f"    {line}" for line in [*self.head(), *self.body, *self.tail(), returned])]
        return "\n".join(lines) + "\n"

    def arguments(self) -> str:
        parts = [self.names[v] for v in self.graph.inputs] + list(self.graph.size_params) + ["seed=0", "draw=0"]
        return ", ".join(parts)

    def head(self) -> list[str]:
        """Sizes, the check of layouts, scratch memory."""
        lines = []
        names = [self.names[v] for v in self.graph.inputs]
        for symbol, (i, d) in bound_symbols(self.graph).items():
            if symbol in self.symbols:
                lines.append(f"{symbol} = {names[i]}.shape[{d}]")
        if self.graph.random:
            lines.append("if seed > 0x7fffffffffffffff: seed -= 1 << 64")
        checks = [self.layout_check(v) for v in self.graph.inputs if not v.meta.weak and v.meta.shape]
        if checks:
            everything = ", ".join([*names, *self.graph.size_params, "seed", "draw"])
            lines.append(f"if not ({' and '.join(checks)}): return _relayout(({everything}))")
        return lines + self.scratch()

    def layout_check(self, value: Value) -> str:
        m, name = value.meta, self.names[value]
        if m.strides is None or is_static_contiguous(m):
            return f"{name}.flags.c_contiguous"
        steps = [as_python(s * m.dtype.itemsize) for s in m.strides]
        return f"{name}.strides == ({', '.join(steps)},)"

    def scratch(self) -> list[str]:
        """Take scratch arrays from the pool (or make new ones); each call has its own."""
        names, makers = [], []
        for slot in self.slots:
            flat = np.dtype(slot.dtype.np)
            names.append(slot.name)
            makers.append(lambda made, e=slot.elements, d=flat: np.empty(e, d))
            for t in slot.temps:
                view = self.shaped.get(t.value)
                if view is not None:
                    names.append(view)
                    sizes, back = _in_order(self.buffers[t.value])
                    makers.append(lambda made, k=slot.name, n=t.elements, s=sizes, b=back: _shape(made[k][:n], s, b))
        for text, name in self.views.items():
            names.append(name)
            makers.append(lambda made, code=compile(text, "<view>", "eval"): eval(code, {}, made))
        if not names:
            return []

        def make() -> tuple:
            made: dict[str, Any] = {}
            for name, maker in zip(names, makers, strict=True):
                made[name] = maker(made)
            return tuple(made.values())

        self.namespace["_scratch"] = make
        unpack = f"{', '.join(names)}{',' if len(names) == 1 else ''} = "
        if sum(s.nbytes for s in self.slots) > POOL_BYTES:
            return [f"{unpack}_scratch()"]
        pool: list[tuple] = []
        self.namespace["_take"], self.namespace["_give"] = pool.pop, pool.append
        self.pooled = True
        return ["try: scratch = _take()", "except IndexError: scratch = _scratch()", f"{unpack}scratch"]

    def tail(self) -> list[str]:
        return ["_give(scratch)"] if self.pooled else []

    pooled = False

    @property
    def shaped(self) -> dict[Value, str]:
        """Temporaries that library calls see: their views with the right shape."""
        if "_shaped" not in self.__dict__:
            self.__dict__["_shaped"] = {}
        return self.__dict__["_shaped"]

    def allocate(self, values: Any) -> None:
        values = {self.parts[v][0] if v in self.parts else v for v in values} - self.allocated
        self.allocated |= values
        for value in sorted(values, key=lambda v: self.buffers[v].name):
            buffer = self.buffers[value]
            if buffer.kind == "result" or (buffer.kind == "temp" and self.temps[value].slot is None):
                dtype = self.constant(buffer.dtype.np, f"_{buffer.dtype.short}")
                sizes, back = (self.final[value], None) if value in self.final else _in_order(buffer)
                text = f"_empty({self.shape(sizes)}, {dtype})"
                self.body.append(f"{buffer.name} = {text if back is None else f'{text}.transpose({back})'}")

    def flush(self, builder: KernelBuilder | None) -> None:
        """Compile the nests collected so far and call them."""
        if builder is None:
            return None
        from ..backend import compile_kernel

        kernel, given = builder.kernel(f"k{len(self.kernels)}")
        self.kernels.append(kernel)
        call = self.name(f"_{kernel.name}")
        self.namespace[call] = compile_kernel(kernel, self.options)
        line = f"{call}({', '.join(given)})"
        if any(text.startswith("RuntimeError: ") for text in kernel.errors):
            self.namespace["_as_eager"] = _as_eager
            self.body += [f"try: {line}", "except IndexError as e: raise _as_eager(e) from None"]
        else:
            self.body.append(line)
        return None

    # -- library calls -------------------------------------------------------------------------------------------------------------
    def call(self, g: Group) -> None:
        node = g.node
        assert node is not None
        if is_blas(node):
            value = node.outputs[0]
            self.allocate([value])
            self.body.append(self.product(node))
            return
        f = self.name(f"_{node.op.name}")
        self.namespace[f] = extern_call(node)
        arrays = [self.number(v) if v.meta.weak else self.array(v) for v in node.inputs()]
        env = ", ".join(f"{s!r}: {s}" for s in sorted(self.symbols))
        targets = ", ".join(self.buffers[v].name for v in node.outputs)
        given = f"({', '.join(arrays)}{',' if len(arrays) == 1 else ''})"
        self.body.append(f"{targets} = {f}({given}, {{{env}}}, seed, draw)")

    def product(self, node: Node) -> str:
        """A matrix product into its buffer; many rows times one matrix is one product of two matrices."""
        left, right = (self.array(a) for a in node.args)
        out = self.memory(node.outputs[0])
        a, b = (arg.meta.shape for arg in node.args)
        if len(b) != 2 or len(a) < 2:
            return f"_matmul({left}, {right}, {out})"
        if len(a) > 2:
            rows = product(a[:-1])
            if type(rows) is int and rows == 0:
                return f"_matmul({left}, {right}, {out})"
            left = self.kept(f"{left}.reshape({self.shape((rows, a[-1]))})", self.analysis.arrays[node.args[0]][0])
            out = self.kept(f"{out}.reshape({self.shape((rows, b[-1]))})", node.outputs[0])
        return f"_dot({left}, {right}, {out})"

    def number(self, value: Value) -> str:
        return self.names[value] if value.node is None else f"{self.array(value)}.item()"

    def memory(self, value: Value) -> str:
        """The array variable that holds a value in memory, with its shape."""
        buffer = self.buffers[value]
        temp = self.temps.get(value)
        if temp is None or temp.slot is None:
            return buffer.name
        if value not in self.shaped:
            self.shaped[value] = self.name(f"{buffer.name}_v")
        return self.shaped[value]

    def array(self, value: Value) -> str:
        """An array expression for an argument or result: a value in memory with numpy views on it."""
        base, chain = self.analysis.arrays[value]
        text = self.memory(base)
        for node in chain:
            text = self.view(text, node)
        return self.kept(text, base)

    def kept(self, text: str, base: Value) -> str:
        """A view of scratch memory is made once, with the memory itself."""
        temp = self.temps.get(base)
        fixed = temp is not None and temp.slot is not None and "(_" not in text and not text.startswith("_")
        if not fixed or text == self.memory(base) or any(s in text for s in self.symbols):
            return text
        if text not in self.views:
            name = self.memory(base)
            if name not in self.trial:
                sizes, back = _in_order(self.buffers[base])
                self.trial[name] = _shape(np.empty(product(sizes), self.buffers[base].dtype.np), sizes, back)
            view = eval(text, {}, self.trial)
            if not np.may_share_memory(view, self.trial[name]):
                return text  # reshape had to copy: it must be done at each call
            self.views[text] = self.name(f"{self.buffers[base].name}_w")
            self.trial[self.views[text]] = view
        return self.views[text]

    def view(self, text: str, node: Node) -> str:
        shape = node.outputs[0].meta.shape
        if node.op.name in views.RESHAPES:
            return f"{text}.reshape({self.shape(shape)})"
        order = views._permutation(node)
        if order is not None:
            if len(order) == 2:
                return f"{text}.T" if order == (1, 0) else text
            return f"{text}.transpose({order})"
        if node.op.name in ("alias", "detach"):
            return text
        f = self.name(f"_{node.op.name}")
        self.namespace[f] = _view_call(node)
        env = ", ".join(f"{s!r}: {s}" for s in sorted(self.symbols))
        return f"{f}({text}, {{{env}}})"

    # -- results -------------------------------------------------------------------------------------------------------------------
    def returns(self) -> str:
        seen: set[Value] = set()
        parts = [self.result(v, seen) for v in [*self.graph.outputs, *(new for _, new in self.graph.mutations)]]
        return f"return ({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def result(self, value: Any, seen: set[Value]) -> str:
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.result(v, seen) for v in value)}]"
        if isinstance(value, SymInt):
            return as_python(value)
        if not isinstance(value, Value):
            return self.constant(value, "_constant") if not isinstance(value, (int, type(None))) else repr(value)
        if value.meta.weak:
            return self.number(value)
        base, _ = self.analysis.arrays[value]
        text = self.buffers[base].name if base in self.final else self.array(value)
        if base.node is None or base in seen:
            return f"_copy({text})"
        seen.add(base)
        return text

    def function(self) -> Callable[..., tuple]:
        self.trial.clear()
        code = compile(self.source, f"<fusegrad {self.graph.name}>", "exec")
        exec(code, self.namespace)
        return self.namespace["run"]


def _as_eager(error: IndexError) -> Exception:
    """The error of the class that the eager operator raises; kernels can only raise IndexError."""
    text = str(error)
    return RuntimeError(text.removeprefix("RuntimeError: ")) if text.startswith("RuntimeError: ") else error


def _copy(array: np.ndarray) -> np.ndarray:
    return np.array(array, order="K")


def _in_order(buffer: Buffer) -> tuple[tuple, tuple[int, ...] | None]:
    """The sizes as they lie in memory, and the transposition that gives the buffer's own dimensions."""
    if buffer.order is None:
        return buffer.shape, None
    return tuple(buffer.shape[d] for d in buffer.order), tuple(buffer.order.index(d) for d in range(len(buffer.order)))


def _shape(flat: np.ndarray, sizes: tuple, back: tuple[int, ...] | None) -> np.ndarray:
    shaped = flat.reshape(sizes)
    return shaped if back is None else shaped.transpose(back)


def _view_call(node: Node) -> Callable[..., np.ndarray]:
    def call(array: np.ndarray, env: dict[str, int]) -> np.ndarray:
        return node.op.kernel(array, **{k: concrete(v, env) for k, v in node.attrs.items()})

    return call


def is_static_contiguous(meta: Meta) -> bool:
    """Contiguous for certain: all sizes and strides are ints that say so."""
    if not all(type(s) is int for s in (*meta.shape, *meta.stride())):
        return False
    return is_contiguous(meta.shape, meta.stride())


def _buffer(name: str, meta: Meta, kind: str, strides: tuple | None = None) -> Buffer:
    return Buffer(name, meta.dtype, meta.shape, meta.stride() if strides is None else strides, kind)


def _reads(g: Group, a: Analysis) -> list[Value]:
    """Values in memory that a group reads."""
    if g.node is None:
        return [v for s in g.stages for v, _ in s.reads]
    return read_by(g.node, a.arrays)


def _symbols(graph: Graph) -> set[str]:
    found: set[str] = set()
    for value in graph.inputs:
        found.update(symbols_in((value.meta.shape, value.meta.strides or ())))
    for node in graph.nodes:
        found.update(symbols_in((*node.args, *node.attrs.values())))
        for value in node.outputs:
            found.update(symbols_in(value.meta.shape))
    found.update(symbols_in(tuple(graph.outputs)))
    return found


