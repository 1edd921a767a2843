"""What a recorded call leaves behind, made by machine code: the Tensor around a result, its Node, the record of a view.

The text of one LLVM module. Its functions are what CPython calls (METH_FASTCALL); each has a *plan* as its ``self``: a
tuple of the operator, one zero for each operand, and bytes with the masks that ``callnative.plan_of`` makes. They do
what the lines of ``callnode.wrap_lines`` do, in the usual case alone: for everything else they return None before
anything is made or changed, and those lines follow. Where objects keep what stands in ``Layout``, which is read from
objects of the process and tried out before any of this is called.

``wrap(r)``: a Tensor around an array. ``made{n}(r, attrs, *operands)``: the result of an operator; ``attrs`` may be
None where no operand asks for a gradient. ``view(r, attrs, chain, x)``: the same for a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fusegrad.callnative import ALWAYS, COUNTS, DENSE, PLAIN, SURE

from .layout import DESCR, DIMS, NDIM
from .llvm_expr import Module, Writer

CELLS = (
    "array Tensor Node Storage View float int none_type none true false zero float32 np32 dtypes metas shared_meta "
    "no_grad running counter alloc new_tuple get_item new_int next new_list concat incref decref vectorcall"
).split()
TYPE, BASE, FLAGS, KIND = 8, 48, 64, 24  # of objects, of array objects, of dtype objects; tried out with the rest
SYMBOLS = ["objects_cells", "objects_wrap", "objects_view", *(f"objects_made{n}" for n in COUNTS)]


class Layout(NamedTuple):
    """Where fields lie in objects, in bytes: slots of classes, items of tuples, bytes and lists, sizes of sets."""

    tensor: dict[str, int]
    node: dict[str, int]
    storage: dict[str, int]
    view: dict[str, int]
    items: int  # of a tuple
    bytes: int
    list: int
    used: int  # of a set
    counted: bool  # references are counted in the first word, without exceptions


def module_text(layout: Layout) -> str:
    """The whole module."""
    module = Module()

    def printer() -> _Printer:
        return _Printer(module, layout)

    functions = []
    for name in ("shape", "meta", "tensor"):
        p = printer()
        functions.append(p.helper(name, getattr(p, f"{name}_of")))
    functions += [printer().wrap(), printer().result("view", 1, view=True)]
    functions += [printer().result(f"made{n}", n) for n in COUNTS]
    cells = f"@objects_cells = global [{len(CELLS)} x ptr] zeroinitializer, align 8"
    return "\n".join([cells, *functions, ""])


class _Printer(Writer):
    """Prints one function."""

    def __init__(self, module: Module, layout: Layout) -> None:
        super().__init__(module)
        self.at = layout

    # ---- small things

    def cell(self, name: str) -> str:
        return self.op(f"load ptr, ptr getelementptr (ptr, ptr @objects_cells, i64 {CELLS.index(name)}), align 8")

    def load(self, p: str, offset: int, type_: str = "ptr") -> str:
        return self.op(f"load {type_}, ptr {self.op(f'getelementptr i8, ptr {p}, i64 {offset}')}")

    def store(self, p: str, offset: int, value: str) -> None:
        self.do(f"store ptr {value}, ptr {self.op(f'getelementptr i8, ptr {p}, i64 {offset}')}")

    def same(self, a: str, b: str) -> str:
        return self.op(f"icmp eq ptr {a}, {b}")

    def is_zero(self, value: str) -> str:
        return self.op(f"icmp eq i64 {value}, 0")

    def bits(self, value: str, mask: int | str) -> str:
        """The condition that some bit of a mask is set."""
        return self.op(f"icmp ne i64 {self.op(f'and i64 {value}, {mask}')}, 0")

    def all(self, conditions: Iterable[str]) -> str:
        first, *others = conditions
        for c in others:
            first = self.op(f"and i1 {first}, {c}")
        return first

    def any(self, conditions: Iterable[str]) -> str:
        first, *others = conditions
        for c in others:
            first = self.op(f"or i1 {first}, {c}")
        return first

    def go_on_if(self, condition: str, other: str = "leave") -> None:
        good = self.label("good")
        self.do(f"br i1 {condition}, label %{good}, label %{other}")
        self.start(good)

    def when(self, condition: str, body: Callable[[], object], otherwise: Callable[[], object] | None = None) -> None:
        yes, no, end = self.label("yes"), self.label("no"), self.label("end")
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")
        self.start(yes)
        body()
        self.do(f"br label %{end}")
        self.start(no)
        if otherwise is not None:
            otherwise()
        self.do(f"br label %{end}")
        self.start(end)

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.op(f"select i1 {condition}, ptr {a}, ptr {b}")

    def held(self, p: str, times: int = 1) -> str:
        """``p``, with so many references more."""
        if self.at.counted:
            count = self.op(f"add i64 {self.op(f'load i64, ptr {p}')}, {times}")
            self.do(f"store i64 {count}, ptr {p}")
        else:
            for _ in range(times):
                self.do(f"call void {self.cell('incref')}(ptr {p})")
        return p

    def made(self, call: str) -> str:
        """A new object; no memory is an error."""
        found = self.op(f"call ptr {call}")
        self.go_on_if(self.op(f"icmp ne ptr {found}, null"), "failed")
        return found

    def new(self, kind: str) -> str:
        return self.made(f"{self.cell('alloc')}(ptr {self.cell(kind)}, i64 0)")

    def tuple(self, items: list[Callable[[], str]]) -> str:
        """A tuple; each item comes with a reference of its own."""
        t = self.made(f"{self.cell('new_tuple')}(i64 {len(items)})")
        for k, item in enumerate(items):
            self.store(t, self.at.items + 8 * k, item())
        return t

    def shape(self, a: str) -> str:
        """The shape of an array as a tuple of ints."""
        return self.made(f"@shape(ptr {a})")

    def meta(self, a: str) -> str:
        """The shared Meta of an array."""
        return self.made(f"@meta(ptr {a})")

    def tensor(self, r: str) -> str:
        """A Tensor around ``r``; ``_rg``, ``_node``, ``_st`` and ``_view`` follow."""
        return self.made(f"@tensor(ptr {r})")

    def helper(self, name: str, body: Callable[[str], str]) -> str:
        """The function that one of these calls."""
        self.do(f"ret ptr {body('%a')}")
        self.start("failed")
        self.do("ret ptr null")
        head = f"define internal ptr @{name}(ptr %a) nounwind noinline {{"
        return "\n".join([head, "entry:", *self.allocas, *self.lines, "}"])

    def shape_of(self, a: str) -> str:
        rank = self.op(f"sext i32 {self.load(a, NDIM, 'i32')} to i64")
        dims, found = self.load(a, DIMS), self.made(f"{self.cell('new_tuple')}(i64 {rank})")
        counter = self.slot("i64", align=8)
        self.do(f"store i64 0, ptr {counter}")
        top, body, end = self.label("top"), self.label("body"), self.label("end")
        self.do(f"br label %{top}")
        self.start(top)
        k = self.op(f"load i64, ptr {counter}")
        self.do(f"br i1 {self.op(f'icmp slt i64 {k}, {rank}')}, label %{body}, label %{end}")
        self.start(body)
        size = self.op(f"load i64, ptr {self.op(f'getelementptr i64, ptr {dims}, i64 {k}')}")
        number = self.made(f"{self.cell('new_int')}(i64 {size})")
        items = self.op(f"getelementptr i8, ptr {found}, i64 {self.at.items}")
        self.do(f"store ptr {number}, ptr {self.op(f'getelementptr ptr, ptr {items}, i64 {k}')}")
        self.do(f"store i64 {self.op(f'add i64 {k}, 1')}, ptr {counter}")
        self.do(f"br label %{top}")
        self.start(end)
        return found

    def meta_of(self, a: str) -> str:
        shape, place, kind = self.shape(a), self.slot("ptr", align=8), self.load(a, DESCR)
        self.do(f"store ptr null, ptr {place}")

        def look() -> None:
            found = self.op(f"call ptr {self.cell('get_item')}(ptr {self.cell('metas')}, ptr {shape})")
            self.do(f"store ptr {found}, ptr {place}")
            self.when(self.op(f"icmp ne ptr {found}, null"), lambda: self.held(found))

        def ask() -> None:
            given = self.slot("ptr", 2, align=16)
            self.do(f"store ptr {shape}, ptr {given}")
            self.store(given, 8, kind)
            f = self.cell("vectorcall")
            found = self.made(f"{f}(ptr {self.cell('shared_meta')}, ptr {given}, i64 2, ptr null)")
            self.do(f"store ptr {found}, ptr {place}")

        self.when(self.same(kind, self.cell("np32")), look)
        self.when(self.same(self.op(f"load ptr, ptr {place}"), "null"), ask)
        self.do(f"call void {self.cell('decref')}(ptr {shape})")
        return self.op(f"load ptr, ptr {place}")

    def tensor_of(self, r: str) -> str:
        t, at = self.new("Tensor"), self.at.tensor
        self.store(t, at["_data"], self.held(r))
        self.store(t, at["_nr"], self.held(self.cell("zero")))
        none = self.held(self.cell("none"), 3)
        for name in ("_g", "_grad", "_extra"):
            self.store(t, at[name], none)
        return t

    def fill(self, p: str, offsets: dict[str, int], **values: str) -> None:
        for name, value in values.items():
            self.store(p, offsets[name], value)

    def storage(self) -> str:
        st = self.new("Storage")
        self.store(st, self.at.storage["version"], self.held(self.cell("zero")))
        return st

    def text(self, name: str) -> str:
        """The end of the function: what does not fit is left to the caller, None; errors have been set."""
        self.start("leave")
        self.do(f"ret ptr {self.held(self.cell('none'))}")
        self.start("failed")
        self.do("ret ptr null")
        head = f"define ptr @objects_{name}(ptr %self, ptr %args, i64 %n) nounwind {{"
        return "\n".join([head, "entry:", *self.allocas, *self.lines, "}"])

    # ---- the functions

    def wrap(self) -> str:
        """A Tensor around an array, without history."""
        self.go_on_if(self.op("icmp eq i64 %n, 1"))
        r = self.load("%args", 0)
        self.go_on_if(self.is_zero(self.load(self.cell("running"), 16, "i64")))
        t, none = self.tensor(r), self.held(self.cell("none"), 3)
        self.fill(t, self.at.tensor, _rg=self.held(self.cell("false")), _node=none, _st=none, _view=none)
        self.do(f"ret ptr {t}")
        return self.text("wrap")

    def result(self, name: str, n: int, view: bool = False) -> str:
        """A result with its node and its record as a view."""
        before = 3 if view else 2
        self.go_on_if(self.op(f"icmp eq i64 %n, {before + n}"))
        self.r, self.attrs = self.load("%args", 0), self.load("%args", 8)
        self.operands = [self.load("%args", 8 * (before + i)) for i in range(n)]
        self.masks = self.op(f"getelementptr i8, ptr {self.load('%self', self.at.items + 16)}, i64 {self.at.bytes}")
        self.go_on_if(self.same(self.load(self.r, TYPE), self.cell("array")))
        self.go_on_if(self.is_zero(self.load(self.cell("running"), 16, "i64")))
        flags = self.load(self.masks, 0, "i64")
        dense = self.op(f"and i32 {self.load(self.r, FLAGS, 'i32')}, 1")
        free = self.op(f"xor i1 {self.bits(flags, DENSE)}, true")
        self.go_on_if(self.any([free, self.op(f"icmp ne i32 {dense}, 0")]))
        if view:
            self._is_view()
        asking, self.extras = self.slot("i64", align=8), self.slot("i64", align=8)
        self.do(f"store i64 0, ptr {asking}")
        self.do(f"store i64 0, ptr {self.extras}")
        self.tensors = [self._operand(i, x, asking, view) for i, x in enumerate(self.operands)]
        mask = self.op(f"load i64, ptr {asking}")
        kind = self.load(self.r, DESCR)
        floating = self.any(
            [
                self.same(kind, self.cell("np32")),
                self.op(f"icmp eq i8 {self.load(kind, KIND, 'i8')}, {ord('f')}"),
                self.bits(flags, SURE),
            ]
        )
        derived = self.op(f"xor i1 {self.bits(flags, PLAIN)}, true")
        records = self.all([self.op(f"icmp ne i64 {mask}, 0"), derived, floating])
        yes, no = self.label("record"), self.label("plain")
        self.do(f"br i1 {records}, label %{yes}, label %{no}")
        self.start(yes)
        self._record(mask, view)
        self.start(no)
        t = self.tensor(self.r)
        self.fill(t, self.at.tensor, _rg=self.held(self.cell("false")), _node=self.held(self.cell("none")))
        self._place(t, view)
        self.do(f"ret ptr {t}")
        return self.text(name)

    def _is_view(self) -> None:
        """Go on where the result lies in the memory of the operand, and views are recorded."""
        x = self.operands[0]
        a, b = self.load(x, self.at.tensor["_data"]), self.load(self.r, BASE)
        self.go_on_if(self.op(f"icmp ne ptr {b}, null"))
        self.go_on_if(self.any([self.same(a, b), self.same(self.load(a, BASE), b)]))
        self.go_on_if(self.is_zero(self.load(self.cell("no_grad"), self.at.used, "i64")))
        self.go_on_if(self.same(self.load(x, self.at.tensor["_extra"]), self.cell("none")))

    def _operand(self, i: int, x: str, asking: str, view: bool) -> str:
        """Look at an operand; bit i of ``asking`` says that it asks for a gradient, of ``extras`` that it has an
        ``_extra``. Returns the condition that it is a tensor."""
        at, none = self.at.tensor, self.cell("none")
        kind = self.load(x, TYPE)
        number = "false" if view else self.any(self.same(kind, self.cell(c)) for c in ("float", "int", "none_type"))
        look, end = self.label("look"), self.label("end")
        self.do(f"br i1 {number}, label %{end}, label %{look}")
        self.start(look)
        st, record, rg = (self.load(x, at[name]) for name in ("_st", "_view", "_rg"))
        true, false = self.cell("true"), self.cell("false")
        asks = self.same(rg, true)
        self.go_on_if(self.any([asks, self.same(rg, false)]))
        plain, storage = self.same(st, none), self.cell("Storage")
        inner, after = self.label("storage"), self.label("after")
        self.do(f"br i1 {plain}, label %{after}, label %{inner}")
        self.start(inner)
        self.go_on_if(self.same(self.load(st, TYPE), storage))
        self.do(f"br label %{after}")
        self.start(after)

        def fresh() -> None:  # the view has the history of its base
            self.go_on_if(self.op(f"xor i1 {plain}, true"))
            version = self.load(st, self.at.storage["version"])
            self.go_on_if(self.same(version, self.load(record, self.at.view["version"])))
            base = self.load(record, self.at.view["base"])
            real = self.op(f"icmp ne ptr {self.load(base, at['_data'])}, {none}")
            self.go_on_if(self.any([asks, self.all([real, self.same(self.load(base, at["_rg"]), false)])]))

        self.when(self.op(f"icmp ne ptr {record}, {none}"), fresh)
        self._add(asking, asks, i)
        self._add(self.extras, self.op(f"icmp ne ptr {self.load(x, at['_extra'])}, {none}"), i)
        self.do(f"br label %{end}")
        self.start(end)
        return self.op(f"xor i1 {number}, true")

    def _add(self, place: str, condition: str, i: int) -> None:
        bit, old = self.op(f"select i1 {condition}, i64 {1 << i}, i64 0"), self.op(f"load i64, ptr {place}")
        self.do(f"store i64 {self.op(f'or i64 {bit}, {old}')}, ptr {place}")

    def _mask(self, k: int) -> str:
        """The condition that some operand of mask ``k`` of the plan asks for a gradient."""
        return self.bits(self.load(self.masks, 8 * k, "i64"), self.asked)

    def _record(self, mask: str, view: bool) -> None:
        """Make the node and the tensor, and return it. All is looked at, then all is made, then filled."""
        n, at, none = len(self.operands), self.at, self.cell("none")
        self.go_on_if(self.is_zero(self.load(self.cell("no_grad"), at.used, "i64")))
        self.go_on_if(self.op(f"icmp ne ptr {self.attrs}, {none}"))
        self.asked = self.op(f"or i64 {mask}, {ALWAYS}")
        extras = self.op(f"load i64, ptr {self.extras}")
        values = [self._mask(2 + 2 * i) for i in range(n)]
        for i, kept in enumerate(values):
            self.go_on_if(self.op(f"xor i1 {self.all([kept, self.bits(extras, 1 << i)])}, true"))
        rgs = [self.bits(mask, 1 << i) for i in range(n)]
        metas = [self._kept_meta(i, kept) for i, kept in enumerate(values)]
        node, shape = self.new("Node"), self.shape(self.r)
        seq = self.made(f"{self.cell('next')}(ptr {self.cell('counter')})")
        t = self.tensor(self.r)
        edges = self.tuple([lambda i=i: self._edge(i, rgs[i]) for i in range(n)])
        saved = self.tuple([lambda i=i: self._kept(i, values[i], metas[i]) for i in range(n)])
        self.fill(node, at.node, edges=edges, saved=saved, shape=shape, seq=seq, attrs=self.held(self.attrs))
        zeros = self.load("%self", at.items + 8)
        numbers = [self._number(i, rgs[i]) for i in range(n)]
        versions = [self._version(i) for i in range(n)]
        self.fill(node, at.node, nrs=self._numbers(numbers, zeros), versions=self._numbers(versions, zeros))
        self.fill(node, at.node, op=self.held(self.load("%self", at.items)), hooks=self.held(none))
        self.fill(node, at.node, dtype=self.held(self._dtype()))
        self.fill(t, at.tensor, _rg=self.held(self.cell("true")), _node=node)
        if view:
            self.fill(node, at.node, out=self.held(none))
            self._place(t, view)
        else:
            self.when(self._mask(1), lambda: self._keep_out(t, node), lambda: self._no_out(t, node))
        self.do(f"ret ptr {t}")

    def _kept_meta(self, i: int, kept: str) -> str:
        """The Meta of an operand where a rule needs that alone, else null."""
        place = self.slot("ptr", align=8)
        self.do(f"store ptr null, ptr {place}")

        def look() -> None:
            self.do(f"store ptr {self.meta(self.load(self.operands[i], self.at.tensor['_data']))}, ptr {place}")

        wanted = self.all([self.op(f"xor i1 {kept}, true"), self._mask(3 + 2 * i), self.tensors[i]])
        self.when(wanted, look)
        return self.op(f"load ptr, ptr {place}")

    def _kept(self, i: int, kept: str, meta: str) -> str:
        none, place = self.cell("none"), self.slot("ptr", align=8)

        def other() -> None:
            missing = self.same(meta, "null")
            self.do(f"store ptr {self.choose(missing, none, meta)}, ptr {place}")
            self.when(missing, lambda: self.held(none))

        def value() -> None:
            self.do(f"store ptr {self.held(self.operands[i])}, ptr {place}")

        self.when(kept, value, other)
        return self.op(f"load ptr, ptr {place}")

    def _field_if(self, condition: str, i: int, name: str, other: str) -> str:
        """A field of operand i under a condition (that says too that it is a tensor), else another value."""
        place = self.slot("ptr", align=8)
        self.do(f"store ptr {other}, ptr {place}")
        at = self.at.tensor[name]
        self.when(condition, lambda: self.do(f"store ptr {self.load(self.operands[i], at)}, ptr {place}"))
        return self.op(f"load ptr, ptr {place}")

    def _edge(self, i: int, asks: str) -> str:
        none = self.cell("none")
        node = self._field_if(asks, i, "_node", none)
        leaf = self.all([asks, self.same(node, none)])
        return self.held(self.choose(leaf, self.operands[i], node))

    def _number(self, i: int, asks: str) -> str:
        return self._field_if(asks, i, "_nr", self.cell("zero"))

    def _version(self, i: int) -> str:
        """The version of an operand that some rule names."""
        none, zero, place = self.cell("none"), self.cell("zero"), self.slot("ptr", align=8)
        self.do(f"store ptr {zero}, ptr {place}")
        named = self.op(f"icmp ne i64 {self.load(self.masks, 16 + 16 * i, 'i64')}, 0")
        st = self._field_if(self.all([named, self.tensors[i]]), i, "_st", none)
        version = self.at.storage["version"]
        self.when(
            self.op(f"icmp ne ptr {st}, {none}"), lambda: self.do(f"store ptr {self.load(st, version)}, ptr {place}")
        )
        return self.op(f"load ptr, ptr {place}")

    def _numbers(self, numbers: list[str], zeros: str) -> str:
        """A tuple of ints; the plan's where all are zero."""
        place, zero = self.slot("ptr", align=8), self.cell("zero")

        def usual() -> None:
            self.do(f"store ptr {self.held(zeros)}, ptr {place}")

        def make() -> None:
            made = self.tuple([lambda x=x: self.held(x) for x in numbers])  # type: ignore[misc]
            self.do(f"store ptr {made}, ptr {place}")

        self.when(self.all(self.same(x, zero) for x in numbers), usual, make)
        return self.op(f"load ptr, ptr {place}")

    def _dtype(self) -> str:
        """The dtype of the result (borrowed)."""
        kind, place = self.load(self.r, DESCR), self.slot("ptr", align=8)
        self.do(f"store ptr {self.cell('float32')}, ptr {place}")

        def look() -> None:
            found = self.op(f"call ptr {self.cell('get_item')}(ptr {self.cell('dtypes')}, ptr {kind})")
            none = self.cell("none")
            self.do(f"store ptr {self.choose(self.same(found, 'null'), none, found)}, ptr {place}")

        self.when(self.op(f"icmp ne ptr {kind}, {self.cell('np32')}"), look)
        return self.op(f"load ptr, ptr {place}")

    def _keep_out(self, t: str, node: str) -> None:
        """``[(r, st, 0)]``: the result as its rules need it."""
        st = self.storage()
        items = [self.r, st, self.cell("zero")]
        entry = self.tuple([lambda x=x: self.held(x) for x in items])  # type: ignore[misc]
        kept = self.made(f"{self.cell('new_list')}(i64 1)")
        self.do(f"store ptr {entry}, ptr {self.load(kept, self.at.list)}")
        self.fill(node, self.at.node, out=kept)
        self.fill(t, self.at.tensor, _st=st, _view=self.held(self.cell("none")))

    def _no_out(self, t: str, node: str) -> None:
        none = self.held(self.cell("none"), 3)
        self.fill(node, self.at.node, out=none)
        self.fill(t, self.at.tensor, _st=none, _view=none)

    def _place(self, t: str, view: bool) -> None:
        """``_st`` and ``_view`` of the tensor."""
        none, at = self.cell("none"), self.at
        if not view:
            self.held(none, 2)
            self.fill(t, at.tensor, _st=none, _view=none)
            return
        x, chain = self.operands[0], self.load("%args", 16)

        def first() -> None:
            st = self.storage()
            old = self.load(x, at.tensor["_st"])
            self.fill(x, at.tensor, _st=st)
            self.do(f"call void {self.cell('decref')}(ptr {old})")

        self.when(self.same(self.load(x, at.tensor["_st"]), none), first)
        v, record = self.new("View"), self.load(x, at.tensor["_view"])

        def of_base() -> None:
            self.fill(v, at.view, base=self.held(x), chain=self.held(chain), made=self.held(none))

        def of_view() -> None:
            base, made = self.load(record, at.view["base"]), self.load(record, at.view["made"])
            whole = self.made(f"{self.cell('concat')}(ptr {self.load(record, at.view['chain'])}, ptr {chain})")
            self.fill(v, at.view, base=self.held(base), chain=whole, made=self.held(made))

        self.when(self.same(record, none), of_base, of_view)
        st = self.load(x, at.tensor["_st"])
        self.fill(v, at.view, version=self.held(self.load(st, at.storage["version"])))
        self.fill(t, at.tensor, _st=self.held(st), _view=v)
