"""The source of the Python function that runs a compiled graph, and the objects it names.

It allocates results, calls kernels and libraries in order, and returns.  Scratch memory comes from a pool: each call
takes its own set of arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.blas import SHARED, SMALL, is_small, may_be_few_rows
from fusegrad.dtypes import dtype, float32, int64
from fusegrad.heap import OWN_MAPPING
from fusegrad.meta import Meta, is_contiguous
from fusegrad.native import nest as nestmod
from fusegrad.native.params import Face
from fusegrad.sizes import SymInt, as_python, hint_of, known_ge

from ..ir.bind import bound_symbols
from ..ir.control import is_control
from ..ir.graph import Graph, Node, Value
from ..options import Options
from . import views
from .affine import product
from .calls import is_blas
from .emit import Buffer, KernelBuilder
from .fuse import Group
from .joins import is_join
from .link import FIXED, Program
from .link import shape as _shape
from .stages import reduced_axes, reduction_of
from .storage import Storage, shape_text

__all__ = ["Writer"]

POOL_BYTES = 64 << 20  # scratch kept between calls of one graph


class Writer(Storage):
    """Builds kernels and the source of the running function for one graph.

    ``shaped``: temporaries that library calls see, with the names of their shaped views. ``views``: views of scratch
    memory made with it. ``trial``: arrays like scratch memory, to see which views need no copy.
    """

    def __init__(self, graph: Graph, options: Options, banned: set[str], into: dict[int, int]) -> None:
        reserved = ("_relayout", "_scratch", "_take", "_give", "seed", "draw", "scratch", "run")
        super().__init__(graph, options, banned, into, {*FIXED, *reserved})
        self.program = Program(graph.name, Graph("calls", graph.sizes))
        self.kernels: list[nestmod.Kernel] = []
        self.schedule: list[str] = []
        self.allocated: set[Value] = set()
        self.shaped: dict[Value, str] = {}
        self.views: dict[str, str] = {}
        self.trial: dict[str, np.ndarray] = {}
        self.pooled = False
        self.body: list[str] = []
        self.program.source = self.write()
        self.program.pooled = self.pooled
        self.program.given = [self.graph.inputs.index(v) for v in self.given.values()]
        self.trial.clear()

    def object(self, wish: str, kind: str, value: Any) -> str:
        """A global of the running function (see ``Program``); equal types and kernels share one."""
        if kind in ("dtype", "kernel"):
            for name, have in self.program.objects.items():
                if have == (kind, value):
                    return name
        name = self.name(wish)
        self.program.objects[name] = (kind, value)
        return name

    def dtype(self, kind: dtype) -> str:
        """A global that holds the numpy type."""
        return self.object(f"_{kind.short}", "dtype", kind.short)

    def compiled(self, kernel: nestmod.Kernel) -> str:
        """A global that holds a kernel, compiled."""
        from fusegrad.native import prepare

        self.kernels.append(kernel)
        key, call = prepare(kernel, self.options)
        program = self.program
        if call in program.kernels:
            return self.object("", "kernel", program.kernels.index(call))
        program.kernels.append(call)
        program.faces.append(Face(kernel.name, kernel.params, kernel.scratch, kernel.errors, key))
        return self.object(f"_{kernel.name}", "kernel", len(program.kernels) - 1)

    # -- the running function -----------------------------------------------------------------------
    def write(self) -> str:
        """The source; compiles the kernels on the way."""
        builder: KernelBuilder | None = None
        for g, plan in zip(self.fusion.groups, self.plans, strict=True):
            if is_join(g.node):
                self.schedule.append("join")
            elif plan is not None:
                if builder is None:
                    builder = KernelBuilder(self.buffers, self.names)
                self.schedule.append(f"loops {g.name}")
                self.allocate(plan.stored)
                builder.add(plan)
                if builder.scratch_bytes() > nestmod.SCRATCH_LIMIT // 2:
                    self.flush(builder)
                    builder = None
            else:
                self.flush(builder)
                builder = None
                self.schedule.append(f"{'product' if is_blas(g.node) else 'call'} {g.name}")
                self.call(g)
        self.flush(builder)
        returned = self.returns()
        lines = [
            f"def run({self.arguments()}):",
            *(f"    {line}" for line in [*self.head(), *self.body, *self.tail(), returned]),
        ]
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
        return lines + self.empty_checks() + self.scratch()

    def empty_checks(self) -> list[str]:
        """The largest of nothing is an error: for a symbolic size seen by the call only, raised by the meta rule."""
        lines = []
        for node in self.graph.nodes:  # also those whose result is not used
            if (
                node.op.name == "_peak"
                or self.analysis.kinds[node] != "reduce"
                or reduction_of(node) not in ("max", "min", "argmax", "argmin")
            ):
                continue
            shape = node.args[0].meta.shape
            for d in reduced_axes(node):
                if isinstance(shape[d], SymInt) and known_ge(shape[d], 1) is not True:
                    f = self.object("_refuse_empty", "meta", self.program.call(node))
                    lines.append(f"if {as_python(shape[d])} == 0: {f}({shape_text(shape)})")
        return lines

    def layout_check(self, value: Value) -> str:
        m, name = value.meta, self.names[value]
        if m.strides is None or is_static_contiguous(m):
            return f"{name}.flags.c_contiguous"
        steps = [as_python(s * m.dtype.itemsize) for s in m.strides]
        return f"{name}.strides == ({', '.join(steps)},)"

    def scratch(self) -> list[str]:
        """Take scratch arrays from the pool (or make new ones); each call has its own."""
        entries: list[tuple] = []
        for slot in self.slots:
            entries.append((slot.name, "flat", slot.elements, slot.dtype.short))
            for t in slot.temps:
                view = self.shaped.get(t.value)
                if view is not None:
                    sizes, back = _in_order(self.buffers[t.value])
                    entries.append((view, "shaped", slot.name, t.elements, sizes, back))
        entries += [(name, "view", text) for text, name in self.views.items()]
        if not entries:
            return []
        self.program.scratch = entries
        names = [entry[0] for entry in entries]
        unpack = f"{', '.join(names)}{',' if len(names) == 1 else ''} = "
        if sum(s.nbytes for s in self.slots) > POOL_BYTES:
            return [f"{unpack}_scratch()"]
        self.pooled = True
        return ["try: scratch = _take()", "except IndexError: scratch = _scratch()", f"{unpack}scratch"]

    def tail(self) -> list[str]:
        return ["_give(scratch)"] if self.pooled else []

    def allocate(self, values: Any) -> None:
        values = {self.parts[v][0] if v in self.parts else self.shares.get(v, v) for v in values} - self.allocated
        self.allocated |= values
        for value in sorted(values, key=lambda v: self.buffers[v].name):
            buffer = self.buffers[value]
            if buffer.kind == "result" or (buffer.kind == "temp" and self.temps[value].slot is None):
                kind = self.dtype(buffer.dtype)
                sizes, back = (self.final[value], None) if value in self.final else _in_order(buffer)
                large = hint_of(product([*buffer.shape, buffer.dtype.itemsize])) >= OWN_MAPPING
                text = f"{'_large' if large else '_empty'}({shape_text(sizes)}, {kind})"
                self.body.append(f"{buffer.name} = {text if back is None else f'{text}.transpose({back})'}")

    def flush(self, builder: KernelBuilder | None) -> None:
        """Compile the nests collected so far and call them."""
        if builder is None:
            return
        kernel, given = builder.kernel(f"k{len(self.kernels)}")
        self.launch(kernel, given)

    def launch(self, kernel: nestmod.Kernel, given: list[str]) -> None:
        """The call of a kernel; errors as eager operators raise them."""
        line = f"{self.compiled(kernel)}({', '.join(given)})"
        if any(text.startswith("RuntimeError: ") for text in kernel.errors):
            self.body += [f"try: {line}", "except IndexError as e: raise _as_eager(e) from None"]
        else:
            self.body.append(line)

    # -- library calls ------------------------------------------------------------------------------
    def call(self, g: Group) -> None:
        node = g.node
        assert node is not None
        if is_blas(node):
            value = node.outputs[0]
            self.allocate([value])
            self.body.append(self.product(node))
            return
        if node in self.natives:
            self.native(node)
            return
        kind = "control" if is_control(node.op) else "extern"
        f = self.object(f"_{node.op.name}", kind, self.program.call(node))
        arrays = [self.number(v) if v.meta.weak else self.array(v) for v in node.inputs()]
        env = ", ".join(f"{s!r}: {s}" for s in sorted(self.symbols))
        targets = ", ".join(self.buffers[v].name for v in node.outputs)
        given = f"({', '.join(arrays)}{',' if len(arrays) == 1 else ''})"
        self.body.append(f"{targets} = {f}({given}, {{{env}}}, seed, draw)")

    def native(self, node: Node) -> None:
        """A call of a kernel of its own, with memory for it to work in."""
        found, value = self.natives[node], node.outputs[0]
        self.allocate([value])
        inputs = list(node.inputs())
        given = [self.array(inputs[k]) for k in found.args]
        given = [a if k in found.views else f"_contiguous({a})" for k, a in zip(found.args, given, strict=True)]
        given.append(self.memory(value))
        kind = self.dtype(value.meta.dtype)
        given += [f"_empty({n}, {kind})" for n in found.scratch]
        given += [f"_zeros({n}, {self.dtype(int64)})" for n in found.zeros]
        self.launch(found.kernel, given)

    def product(self, node: Node) -> str:
        """A matrix product into its buffer; many rows times one matrix is one product of two matrices."""
        left, right = (self.array(a) for a in node.args)
        out = self.memory(node.outputs[0])
        a, b = (arg.meta.shape for arg in node.args)
        matmul, dot = self.library(a, b)
        if len(b) != 2 or len(a) < 2:
            return f"{matmul}({left}, {right}, {out})"
        k, n = (s if type(s) is int else s.hint for s in b)
        if may_be_few_rows(k, n) and node.outputs[0].meta.dtype is float32:
            dot = "_best_dot"
        if len(a) > 2:
            rows = product(a[:-1])
            if type(rows) is int and rows == 0:
                return f"{matmul}({left}, {right}, {out})"
            left = self.kept(f"{left}.reshape({shape_text((rows, a[-1]))})", self.analysis.arrays[node.args[0]][0])
            out = self.kept(f"{out}.reshape({shape_text((rows, b[-1]))})", node.outputs[0])
        return f"{dot}({left}, {right}, {out})"

    def library(self, a: tuple, b: tuple) -> tuple[str, str]:
        """The library's functions for a product of these shapes: small ones are kept on one thread, large ones and
        large stacks shared out."""
        rows = a[:-1] if len(b) == 2 else a[-2:-1]  # of one product, where a stack is not taken as one
        sizes = (*rows, a[-1], *b[-1:]) if len(b) > 1 else a[-2:]
        work = product([s if type(s) is int else s.hint for s in sizes])
        whole = product([s if type(s) is int else s.hint for s in (*a, *b[-1:])]) if len(b) > 1 else work
        if work >= SMALL or (len(b) > 2 and whole >= SHARED):
            return ("_large_matmul", "_large_dot") if len(b) > 1 else ("_matmul", "_dot")
        if not is_small(work):
            return "_matmul", "_dot"
        return "_small_matmul", "_small_dot"

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
            return f"{text}.reshape({shape_text(shape)})"
        order = views._permutation(node)
        if order is not None:
            if len(order) == 2:
                return f"{text}.T" if order == (1, 0) else text
            return f"{text}.transpose({order})"
        if node.op.name in ("alias", "detach"):
            return text
        f = self.object(f"_{node.op.name}", "view", self.program.call(node))
        env = ", ".join(f"{s!r}: {s}" for s in sorted(self.symbols))
        return f"{f}({text}, {{{env}}})"

    # -- results ------------------------------------------------------------------------------------
    def returns(self) -> str:
        seen: set[Value] = set()
        parts = [self.result(v, seen) for v in self.returned()]
        return f"return ({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    def result(self, value: Any, seen: set[Value]) -> str:
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self.result(v, seen) for v in value)}]"
        if isinstance(value, SymInt):
            return as_python(value)
        if not isinstance(value, Value):
            return repr(value) if isinstance(value, (int, type(None))) else self.object("_constant", "constant", value)
        if value.meta.weak:
            return self.number(value)
        base, _ = self.analysis.arrays[value]
        text = self.buffers[base].name if base in self.final else self.array(value)
        if base.node is None or base in seen:
            return f"_copy({text})"
        seen.add(base)
        if base.meta.strides is not None and base in self.buffers and self.buffers[base].order is None:
            return f"_contiguous({text})"  # a library call's result is in C order, whatever the operator's own layout
        return text


def _in_order(buffer: Buffer) -> tuple[tuple, tuple[int, ...] | None]:
    """The sizes as they lie in memory, and the transposition that gives the buffer's own dimensions."""
    if buffer.order is None:
        return buffer.shape, None
    return tuple(buffer.shape[d] for d in buffer.order), tuple(buffer.order.index(d) for d in range(len(buffer.order)))


def is_static_contiguous(meta: Meta) -> bool:
    """Contiguous for certain: all sizes and strides are ints that say so."""
    if not all(type(s) is int for s in (*meta.shape, *meta.stride())):
        return False
    return is_contiguous(meta.shape, meta.stride())
