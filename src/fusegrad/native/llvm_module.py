"""A Kernel -> text of one LLVM module, with the function CPython calls.

The module has no address in it: what it needs from the process (CPython functions, type objects, the thread function,
the number of threads) is written into the global `cells` when the code is loaded, so object code can be kept on disk.

Exported symbols (`p` is a prefix made of the content hash):
    p_cells    [CELLS x ptr]
    p_call     PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)      METH_FASTCALL
    p_run      void (int64_t *ctx, int64_t threads)                                 for the ctypes path
"""

from __future__ import annotations

from collections.abc import Callable

from . import jit
from .layout import CELLS, DATA, DESCR, DIMS, NDIM, STRIDES, TYPE
from .llvm_convolve import ConvolutionPrinter
from .llvm_expr import MEMORY, Module, Writer, emit_size
from .llvm_nest import NestPrinter, Slots
from .llvm_shared import Form, find_shared, shared_nest
from .nest import ArrayParam, Kernel, ScalarParam, SizeParam
from .params import slot_names
from .plan import PlannedNest, plan, static_work
from .scalar import Size

# own[k] = ctx[table[2k]] + table[2k+1]: the ctx of a shared nest
FILL = """define internal void @fill(ptr %own, ptr %ctx, ptr %table, i64 %n) nounwind noinline {
entry:
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %loop]
  %row = getelementptr {i64, i64}, ptr %table, i64 %k
  %slot = load i64, ptr %row
  %place = getelementptr i64, ptr %ctx, i64 %slot
  %value = load i64, ptr %place
  %second = getelementptr i64, ptr %row, i64 1
  %shift = load i64, ptr %second
  %sum = add i64 %value, %shift
  %to = getelementptr i64, ptr %own, i64 %k
  store i64 %sum, ptr %to
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}"""
# whether args[table[3k]] are arrays of dtype cells[table[3k+2]]; their data pointers go to ctx[table[3k+1]]
READ = f"""define internal i1 @read(ptr %args, ptr %ctx, ptr %cells, ptr %table, i64 %n) nounwind noinline {{
entry:
  %cell = getelementptr ptr, ptr %cells, i64 {CELLS.index("array_type")}
  %kind = load ptr, ptr %cell
  br label %loop
loop:
  %k = phi i64 [0, %entry], [%next, %fine]
  %row = getelementptr {{i64, i64, i64}}, ptr %table, i64 %k
  %which = load i64, ptr %row
  %second = getelementptr i64, ptr %row, i64 1
  %slot = load i64, ptr %second
  %third = getelementptr i64, ptr %row, i64 2
  %dtype = load i64, ptr %third
  %arg = getelementptr ptr, ptr %args, i64 %which
  %object = load ptr, ptr %arg
  %typeat = getelementptr i8, ptr %object, i64 {TYPE}
  %type = load ptr, ptr %typeat
  %same = icmp eq ptr %type, %kind
  br i1 %same, label %array, label %other
array:
  %descrat = getelementptr i8, ptr %object, i64 {DESCR}
  %descr = load ptr, ptr %descrat
  %wanted = getelementptr ptr, ptr %cells, i64 %dtype
  %want = load ptr, ptr %wanted
  %typed = icmp eq ptr %descr, %want
  br i1 %typed, label %fine, label %other
fine:
  %dataat = getelementptr i8, ptr %object, i64 {DATA}
  %data = load ptr, ptr %dataat
  %to = getelementptr ptr, ptr %ctx, i64 %slot
  store ptr %data, ptr %to
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i1 true
other:
  ret i1 false
}}"""
UNLOCK = 800_000  # work (rough operations) from which the GIL is released: about 20 microseconds
SPLIT = 4_000_000  # work from which a nest is split over threads

MANY = 24  # arrays from which a loop over a table reads the arguments


def _table(name: str, rows: list[int]) -> str:
    return f"@{name} = private unnamed_addr constant [{len(rows)} x i64] [{', '.join(f'i64 {r}' for r in rows)}]"


def print_module(kernel: Kernel, prefix: str) -> str:
    """LLVM IR text of the whole kernel."""
    module = Module()
    nests = plan(kernel, jit.has_ldexp())
    slots = Slots(slot_names(kernel))
    buffers = {p.name: p.dtype for p in kernel.params if isinstance(p, ArrayParam)}
    buffers.update((s.name, s.dtype) for s in kernel.scratch)
    row = [s for s in kernel.scratch if s.scope == "row"]
    shared = find_shared(nests, buffers, {s.name for s in row})
    printed: set[str] = set()
    for k, nest in enumerate(nests):
        name, form = shared.get(k, (f"nest{k}", None))
        if name in printed:
            continue
        printed.add(name)
        if nest.body is not None:
            module.functions.append(ConvolutionPrinter(module, nest.body, name, slots).text())
            continue
        split = may_split(kernel, nest)
        if form is None:
            printer = NestPrinter(module, nest, name, buffers, slots, row, split)
        else:
            printer = NestPrinter(module, shared_nest(nest, form), name, buffers, Slots(form.names), row, split)
        module.functions.append(printer.text())
    module.functions += Launch(kernel, nests, slots, module, prefix, shared).functions()
    cells = f"@{prefix}_cells = global [{len(CELLS)} x ptr] zeroinitializer, align 8"
    return cells + "\n" + module.text()


def may_split(kernel: Kernel, nest: PlannedNest) -> bool:
    """Whether a nest can be large enough for threads."""
    work = static_work(nest)
    shared = any(s.scope == "kernel" for s in kernel.scratch)
    return not shared and bool(nest.outer) and nest.outer[0].size != 1 and (work is None or work >= SPLIT)


class Launch:
    """Prints work estimate, run, and the CPython entry."""

    def __init__(
        self,
        kernel: Kernel,
        nests: list[PlannedNest],
        slots: Slots,
        module: Module,
        prefix: str,
        shared: dict[int, tuple[str, Form]] | None = None,
    ) -> None:
        self.kernel, self.nests, self.slots, self.module, self.prefix = kernel, nests, slots, module, prefix
        self.shared = shared or {}

    def functions(self) -> list[str]:
        work = [static_work(n) for n in self.nests]
        self.small = all(w is not None for w in work) and sum(w or 0 for w in work) < UNLOCK
        self.split = [may_split(self.kernel, n) for n in self.nests]
        return [self._run(), self._call()]

    def _work(self, w: Writer, nest: PlannedNest, sizes) -> str:
        static = static_work(nest)
        if static is not None:
            return str(static)
        inner = "0"
        for p in nest.phases:
            points = "1"
            for loop in p.inner:
                points = w.op(f"mul i64 {points}, {sizes(loop.size)}")
            inner = w.op(f"add i64 {inner}, {points}")
        total = w.op(f"mul i64 {inner}, {nest.weight}")
        for loop in nest.outer:
            total = w.op(f"mul i64 {total}, {sizes(loop.size)}")
        return total

    def _sizes(self, w: Writer):
        def param(name: str) -> str:
            return w.op(f"load i64, ptr {w.op(f'getelementptr i64, ptr %ctx, i64 {self.slots.of[name]}')}")

        return lambda size: emit_size(size, w.op, param)

    def _run(self) -> str:
        w = Writer(self.module)
        sizes = self._sizes(w)
        most = max((len(form.names) for _, form in self.shared.values()), default=0)
        own = w.slot("i64", max(most, 2), align=16) if most else ""
        if most:
            self.module.functions.append(FILL)
        for k, nest in enumerate(self.nests):
            n = sizes(nest.outer[0].size) if nest.outer else "1"
            name, ctx = f"nest{k}", "%ctx"
            if k in self.shared:
                name, form = self.shared[k]
                ctx = own
                self._fill(w, own, k, form, sizes)
            direct = f"call void @{name}(ptr {ctx}, i64 0, i64 {n})"
            if not self.split[k]:
                w.do(direct)
                continue
            big = w.op(f"icmp sge i64 {self._work(w, nest, sizes)}, {SPLIT}")
            many = w.op(f"and i1 {big}, {w.op('icmp sgt i64 %threads, 1')}")
            labels = [w.label("many"), w.label("one"), w.label("next")]
            w.do(f"br i1 {many}, label %{labels[0]}, label %{labels[1]}")
            w.start(labels[0])
            align = 64 if nest.lane_outer and len(nest.outer) == 1 else sizes(nest.together)
            w.do(f"call void {self._cell(w, 'parallel')}(ptr @{name}, ptr {ctx}, i64 {n}, i64 %threads, i64 {align})")
            w.do(f"br label %{labels[2]}")
            w.start(labels[1])
            w.do(direct)
            w.do(f"br label %{labels[2]}")
            w.start(labels[2])
        return "\n".join(
            [
                f"define void @{self.prefix}_run(ptr %ctx, i64 %threads) nounwind {{",
                "entry:",
                *w.allocas,
                *w.lines,
                "  ret void",
                "}",
            ]
        )

    def _fill(self, w: Writer, own: str, k: int, form: Form, sizes: Callable[[Size], str]) -> None:
        """The ctx of a shared nest: pointers with shifts (in bytes), numbers, sizes.  A table and a loop: straight
        code for hundreds of calls takes LLVM longer than the nests themselves."""
        item = {p.name: p.dtype.itemsize for p in self.kernel.params if isinstance(p, ArrayParam)}
        item.update((s.name, s.dtype.itemsize) for s in self.kernel.scratch)
        rows, late = [], []
        for n, name in enumerate(form.names):
            shift = form.shifts.get(name, 0)
            rows += [self.slots.of[name], shift * item[name] if isinstance(shift, int) and shift else 0]
            if not isinstance(shift, int):
                late.append((n, item[name], shift))
        self.module.functions.append(_table(f"rows{k}", rows))
        w.do(f"call void @fill(ptr {own}, ptr %ctx, ptr @rows{k}, i64 {len(form.names)})")
        for n, size, shift in late:
            place = w.op(f"getelementptr i64, ptr {own}, i64 {n}")
            more = w.op(f"mul i64 {sizes(shift)}, {size}")
            value = w.op(f"load i64, ptr {place}")
            w.do(f"store i64 {w.op(f'add i64 {value}, {more}')}, ptr {place}")

    # ------------------------------------------------------------ the function CPython calls

    def _cell(self, w: Writer, name: str) -> str:
        p = w.op(f"getelementptr ptr, ptr @{self.prefix}_cells, i64 {CELLS.index(name)}")
        return w.op(f"load ptr, ptr {p}, align 8")

    def _field(self, w: Writer, object_: str, offset: int, type_: str = "ptr") -> str:
        return w.op(f"load {type_}, ptr {w.op(f'getelementptr i8, ptr {object_}, i64 {offset}')}, align 8")

    def _put(self, w: Writer, slot: int, type_: str, value: str) -> None:
        w.do(f"store {type_} {value}, ptr {w.op(f'getelementptr i64, ptr %ctx, i64 {slot}')}, align 8")

    def _call(self) -> str:
        w, kernel = Writer(self.module), self.kernel
        passed = [p for p in kernel.params if not (isinstance(p, SizeParam) and p.source)]
        w.allocas.append(f"  %ctx = alloca i64, i64 {self.slots.count}, align 16")
        w.do(f"br i1 {w.op(f'icmp eq i64 %n, {len(passed)}')}, label %read, label %fallback")
        w.start("read")
        arrays = [p for p in passed if isinstance(p, ArrayParam)]
        many = len(arrays) > MANY
        asked = {q.source[0] for q in kernel.params if isinstance(q, SizeParam) and q.source}
        objects = {}
        for k, p in enumerate(passed):
            if not (many and isinstance(p, ArrayParam)) or p.name in asked:
                objects[p.name] = w.op(f"load ptr, ptr {w.op(f'getelementptr ptr, ptr %args, i64 {k}')}, align 8")
        if many:
            self._read_many(w, passed)
        elif arrays:
            self._read_few(w, arrays, objects)
        self._read_sizes(w, objects)
        self._read_numbers(w, objects)
        for s in kernel.scratch:
            if s.scope != "row":
                memory = w.slot(MEMORY[s.dtype.short], max(s.size, 2))
                self._put(w, self.slots.of[s.name], "ptr", memory)
        if kernel.errors:
            self._put(w, self.slots.error, "i64", "0")
        self._start(w)
        self._report(w)
        none = self._cell(w, "none")
        w.do(f"call void {self._cell(w, 'incref')}(ptr {none})")
        w.do(f"ret ptr {none}")
        w.start("fallback")
        w.do(f"ret ptr {w.op(self._vectorcall(w))}")
        w.start("failed")
        w.do("ret ptr null")
        return "\n".join(
            [
                f"define ptr @{self.prefix}_call(ptr %self, ptr %args, i64 %n) nounwind {{",
                "entry:",
                *w.allocas,
                *w.lines,
                "}",
            ]
        )

    def _vectorcall(self, w: Writer) -> str:
        f, target = self._cell(w, "vectorcall"), self._cell(w, "fallback")
        return f"call ptr {f}(ptr {target}, ptr %args, i64 %n, ptr null)"

    def _read_few(self, w: Writer, arrays: list[ArrayParam], objects: dict[str, str]) -> None:
        """Pointers; anything that is not the expected array goes to the fallback."""
        kind = self._cell(w, "array_type")
        descrs: dict[str, str] = {}
        fine = "true"
        for p in arrays:
            if p.dtype.short not in descrs:
                descrs[p.dtype.short] = self._cell(w, f"descr_{p.dtype.short}")
            same = w.op(f"icmp eq ptr {self._field(w, objects[p.name], TYPE)}, {kind}")
            self._unless(w, same, "array")
            same = w.op(f"icmp eq ptr {self._field(w, objects[p.name], DESCR)}, {descrs[p.dtype.short]}")
            fine = w.op(f"and i1 {fine}, {same}")
            self._put(w, self.slots.of[p.name], "ptr", self._field(w, objects[p.name], DATA))
        self._unless(w, fine, "typed")

    def _read_many(self, w: Writer, passed: list) -> None:
        """The same by a loop over a table of (argument, slot, cell of the dtype)."""
        rows = [
            row
            for k, p in enumerate(passed)
            if isinstance(p, ArrayParam)
            for row in (k, self.slots.of[p.name], CELLS.index(f"descr_{p.dtype.short}"))
        ]
        self.module.functions += [READ, _table("arrays", rows)]
        cells = f"ptr @{self.prefix}_cells"
        fine = w.op(f"call i1 @read(ptr %args, ptr %ctx, {cells}, ptr @arrays, i64 {len(rows) // 3})")
        self._unless(w, fine, "typed")

    def _unless(self, w: Writer, fine: str, label: str) -> None:
        """Go on at a new label, or to the fallback."""
        good = w.label(label)
        w.do(f"br i1 {fine}, label %{good}, label %fallback")
        w.start(good)

    def _read_sizes(self, w: Writer, objects: dict[str, str]) -> None:
        """Sizes and strides that are read from arrays."""
        found = [q for q in self.kernel.params if isinstance(q, SizeParam) and q.source]
        if not found:
            return
        item = {p.name: p.dtype.itemsize for p in self.kernel.params if isinstance(p, ArrayParam)}
        fine = "true"
        for q in found:
            array, _, axis = q.source  # type: ignore[misc]
            rank = self._field(w, objects[array], NDIM, "i32")
            fine = w.op(f"and i1 {fine}, {w.op(f'icmp sgt i32 {rank}, {axis}')}")
        self._unless(w, fine, "ranked")
        for q in found:
            array, what, axis = q.source  # type: ignore[misc]
            table = self._field(w, objects[array], DIMS if what == "shape" else STRIDES)
            v = self._field(w, table, 8 * axis, "i64")
            if what == "stride" and item[array] > 1:
                v = w.op(f"sdiv i64 {v}, {item[array]}")
            self._put(w, self.slots.of[q.name], "i64", v)

    def _read_numbers(self, w: Writer, objects: dict[str, str]) -> None:
        for p in self.kernel.params:
            if isinstance(p, ArrayParam) or (isinstance(p, SizeParam) and p.source):
                continue
            real = isinstance(p, ScalarParam) and p.dtype.category == 2
            t, f = ("double", self._cell(w, "as_double")) if real else ("i64", self._cell(w, "as_int"))
            v = w.op(f"call {t} {f}(ptr {objects[p.name]})")
            odd = w.op(f"fcmp oeq double {v}, -1.0" if real else f"icmp eq i64 {v}, -1")
            ask, good = w.label("ask"), w.label("number")
            w.do(f"br i1 {odd}, label %{ask}, label %{good}")
            w.start(ask)
            error = w.op(f"call ptr {self._cell(w, 'occurred')}()")
            w.do(f"br i1 {w.op(f'icmp eq ptr {error}, null')}, label %{good}, label %failed")
            w.start(good)
            self._put(w, self.slots.of[p.name], t, v)

    def _start(self, w: Writer) -> None:
        """Run; large work without the GIL and with threads."""
        run = f"call void @{self.prefix}_run(ptr %ctx, i64"
        if self.small:
            w.do(f"{run} 1)")
            return
        sizes = self._sizes(w)
        total = "0"
        for nest in self.nests:
            total = w.op(f"add i64 {total}, {self._work(w, nest, sizes)}")
        w.do(f"br i1 {w.op(f'icmp sge i64 {total}, {UNLOCK}')}, label %large, label %small")
        w.start("large")
        threads = w.op(f"load i64, ptr {self._cell(w, 'threads')}, align 8")
        state = w.op(f"call ptr {self._cell(w, 'save_thread')}()")
        w.do(f"{run} {threads})")
        w.do(f"call void {self._cell(w, 'restore_thread')}(ptr {state})")
        w.do("br label %ran")
        w.start("small")
        w.do(f"{run} 1)")
        w.do("br label %ran")
        w.start("ran")

    def _report(self, w: Writer) -> None:
        """IndexError for the recorded error, if any."""
        kernel = self.kernel
        if not kernel.errors:
            return
        code = w.op(f"load i64, ptr {w.op(f'getelementptr i64, ptr %ctx, i64 {self.slots.error}')}, align 8")
        cases = " ".join(f"i64 {k + 1}, label %error{k + 1}" for k in range(len(kernel.errors)))
        w.do(f"switch i64 {code}, label %fine [{cases}]")
        for k, template in enumerate(kernel.errors):
            w.start(f"error{k + 1}")
            text, args = template.replace("%", "%%"), []
            found = sorted((text.index(f"{{{n}}}"), n) for n in ("index", "size") if f"{{{n}}}" in text)
            for _, n in found:
                slot = self.slots.error + (1 if n == "index" else 2)
                args.append("i64 " + w.op(f"load i64, ptr {w.op(f'getelementptr i64, ptr %ctx, i64 {slot}')}, align 8"))
                text = text.replace(f"{{{n}}}", "%lld")
            data = text.encode() + b"\0"
            name = f"@text{k + 1}"
            items = "".join(f"\\{c:02X}" for c in data)
            self.module.functions.append(f'{name} = private unnamed_addr constant [{len(data)} x i8] c"{items}"')
            exc = w.op(f"load ptr, ptr {self._cell(w, 'index_error')}, align 8")
            f = self._cell(w, "format")
            w.do(f"call ptr (ptr, ptr, ...) {f}({', '.join([f'ptr {exc}', f'ptr {name}', *args])})")
            w.do("br label %failed")
        w.start("fine")
