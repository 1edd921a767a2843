"""What a recorded call leaves behind, made by machine code: the Tensor around a result, its Node, the record of a view.

The text of an LLVM module has one function that CPython calls (METH_FASTCALL); it has a *plan* as its ``self``: a
tuple of the operator, one zero for each operand, and bytes with the masks that ``callnative.plan_of`` makes. They do
what the lines of ``callnode.wrap_lines`` do, in the usual case alone: for everything else they return None before
anything is made or changed, and those lines follow. Where objects keep what stands in ``Layout``, which is read from
objects of the process and tried out before any of this is called.

``wrap(r)`` makes a Tensor around an array. ``writable(x, *others)``: True where a kernel may write into the memory of
x from the others, and nothing but a new version is to be noted. The functions of operators are in ``llvm_results``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .layout import DESCR, DIMS, FLAGS, NDIM, OBJECT_CELLS, TYPE, Layout
from .llvm_expr import Module, Writer

DENSE_WRITABLE = 0x401  # flags of an array
TENSOR, ASKS, EXTRA = 1, 2, 4  # what ``look`` says of an operand


def module_text(layout: Layout, name: str) -> str:
    """The module of one function: ``wrap``, or one of ``llvm_results``."""
    from .llvm_results import printed

    module, functions = Module(), []
    for helper, kind in {"shape": "ptr", "meta": "ptr", "tensor": "ptr", "look": "i64", "mode": "i64"}.items():
        p = Printer(module, layout)
        functions.append(p.helper(helper, getattr(p, f"{helper}_of"), kind))
    p, kind = Printer(module, layout), name.split()[0]
    functions.append(getattr(p, kind)() if kind in ("wrap", "writable", "piece") else printed(module, layout, name))
    cells = f"@objects_cells = global [{len(OBJECT_CELLS)} x ptr] zeroinitializer, align 8"
    return "\n".join([cells, *functions, ""])


class Printer(Writer):
    """Prints one function."""

    def __init__(self, module: Module, layout: Layout) -> None:
        super().__init__(module)
        self.at = layout

    # ---- small things

    def cell(self, name: str) -> str:
        return self.op(
            f"load ptr, ptr getelementptr (ptr, ptr @objects_cells, i64 {OBJECT_CELLS.index(name)}), align 8"
        )

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

    def look(self, x: str) -> str:
        """What there is to say of an operand; goes on where that is usual."""
        code = self.op(f"call i64 @look(ptr {x})")
        self.go_on_if(self.op(f"icmp ne i64 {code}, -1"))
        return code

    def helper(self, name: str, body: Callable[[str], str], kind: str) -> str:
        """The function that one of these calls."""
        self.do(f"ret {kind} {body('%a')}")
        if kind == "ptr":
            self.start("failed")
            self.do("ret ptr null")
        else:
            self.start("leave")
            self.do("ret i64 -1")
        head = f"define internal {kind} @{name}(ptr %a) nounwind noinline {{"
        return "\n".join([head, "entry:", *self.allocas, *self.lines, "}"])

    def each(self, count: str, body: Callable[[str], object]) -> None:
        """``body(k)`` for each k below ``count``."""
        counter = self.slot("i64", align=8)
        self.do(f"store i64 0, ptr {counter}")
        top, inside, end = self.label("top"), self.label("body"), self.label("end")
        self.do(f"br label %{top}")
        self.start(top)
        k = self.op(f"load i64, ptr {counter}")
        self.do(f"br i1 {self.op(f'icmp slt i64 {k}, {count}')}, label %{inside}, label %{end}")
        self.start(inside)
        body(k)
        self.do(f"store i64 {self.op(f'add i64 {k}, 1')}, ptr {counter}")
        self.do(f"br label %{top}")
        self.start(end)

    def item(self, items: str, k: str) -> str:
        """Where item ``k`` lies."""
        return self.op(f"getelementptr ptr, ptr {items}, i64 {k}")

    def items_of(self, t: str) -> str:
        """Where the items of a tuple begin."""
        return self.op(f"getelementptr i8, ptr {t}, i64 {self.at.items}")

    def shape_of(self, a: str) -> str:
        rank = self.op(f"sext i32 {self.load(a, NDIM, 'i32')} to i64")
        dims, found = self.load(a, DIMS), self.made(f"{self.cell('new_tuple')}(i64 {rank})")
        items = self.items_of(found)

        def put(k: str) -> None:
            size = self.op(f"load i64, ptr {self.op(f'getelementptr i64, ptr {dims}, i64 {k}')}")
            number = self.made(f"{self.cell('new_int')}(i64 {size})")
            self.do(f"store ptr {number}, ptr {self.item(items, k)}")

        self.each(rank, put)
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

    def look_of(self, x: str) -> str:
        at, none = self.at.tensor, self.cell("none")
        kind = self.load(x, TYPE)
        number, tensor = self.label("number"), self.label("tensor")
        is_number = self.any(self.same(kind, self.cell(c)) for c in ("float", "int", "none_type"))
        self.do(f"br i1 {is_number}, label %{number}, label %{tensor}")
        self.start(number)
        self.do("ret i64 0")
        self.start(tensor)
        st, record, rg = (self.load(x, at[name]) for name in ("_st", "_view", "_rg"))
        false, asks = self.cell("false"), self.same(rg, self.cell("true"))
        self.go_on_if(self.any([asks, self.same(rg, false)]))
        new, storage = self.same(st, none), self.cell("Storage")
        self.when(new, lambda: None, lambda: self.go_on_if(self.same(self.load(st, TYPE), storage)))

        def fresh() -> None:  # the view has the history of its base
            self.go_on_if(self.op(f"xor i1 {new}, true"))
            version = self.load(st, self.at.storage["version"])
            self.go_on_if(self.same(version, self.load(record, self.at.view["version"])))
            base = self.load(record, self.at.view["base"])
            real = self.op(f"icmp ne ptr {self.load(base, at['_data'])}, {none}")
            self.go_on_if(self.same(rg, self.load(base, at["_rg"])))  # else it may be about to lose or get a history
            self.go_on_if(self.any([asks, real]))

        self.when(self.op(f"icmp ne ptr {record}, {none}"), fresh)
        extra = self.op(f"icmp ne ptr {self.load(x, at['_extra'])}, {none}")
        bits = [self.op(f"select i1 {c}, i64 {bit}, i64 0") for c, bit in ((asks, ASKS), (extra, EXTRA))]
        return self.op(f"or i64 {self.op(f'or i64 {bits[0]}, {bits[1]}')}, {TENSOR}")

    def mode_of(self, state: str) -> str:
        """The grad mode of this thread: 1 or 0."""
        value = self.op(f"call ptr {self.cell('get_attr')}(ptr {state}, ptr {self.cell('grad_name')})")
        self.go_on_if(self.op(f"icmp ne ptr {value}, null"), "error")
        self.do(f"call void {self.cell('decref')}(ptr {value})")  # True and False live on
        on = self.same(value, self.cell("true"))
        self.go_on_if(self.any([on, self.same(value, self.cell("false"))]))
        self.do(f"ret i64 {self.op(f'zext i1 {on} to i64')}")
        self.start("error")
        return "-2"

    def fill(self, p: str, offsets: dict[str, int], **values: str) -> None:
        for name, value in values.items():
            self.store(p, offsets[name], value)

    def storage(self) -> str:
        st = self.new("Storage")
        self.store(st, self.at.storage["version"], self.held(self.cell("zero")))
        return st

    def text(self) -> str:
        """The end of the function: what does not fit is left to the caller, None; errors have been set."""
        self.start("leave")
        self.do(f"ret ptr {self.held(self.cell('none'))}")
        self.start("failed")
        self.do("ret ptr null")
        head = "define ptr @objects_call(ptr %self, ptr %args, i64 %n) nounwind {"
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
        return self.text()

    def writable(self) -> str:
        """True for a plain tensor with dense memory, and plain others of the same dtype (the plan is 1, else of any) or
        numbers, none of which asks for a gradient or is known to share the memory."""
        self.go_on_if(self.op("icmp sge i64 %n, 1"))
        self.go_on_if(self.is_zero(self.load(self.cell("running"), 16, "i64")))
        x, at, none = self.load("%args", 0), self.at.tensor, self.cell("none")
        self.go_on_if(self.same(self.load(x, at["_extra"]), none))
        self._quiet(x)
        data, st, storage = self.load(x, at["_data"]), self.load(x, at["_st"]), self.cell("Storage")
        flags = self.op(f"and i32 {self.load(data, FLAGS, 'i32')}, {DENSE_WRITABLE}")
        self.go_on_if(self.op(f"icmp eq i32 {flags}, {DENSE_WRITABLE}"))
        same_dtype = self.same("%self", self.cell("true"))
        any_dtype, kind = self.op(f"xor i1 {same_dtype}, true"), self.load(data, DESCR)
        others = self.op("add i64 %n, -1")

        def other(k: str) -> None:
            y = self.op(f"load ptr, ptr {self.item(self.op('getelementptr ptr, ptr %args, i64 1'), k)}")
            t = self.load(y, TYPE)
            number = self.any(self.same(t, self.cell(c)) for c in ("float", "int"))
            self.when(number, lambda: None, lambda: tensor(y))

        def tensor(y: str) -> None:
            self._quiet(y)
            self.go_on_if(self.any([any_dtype, self.same(self.load(self.load(y, at["_data"]), DESCR), kind)]))
            own, there = self.same(y, x), self.load(y, at["_st"])
            known = [self.same(self.load(s, TYPE), storage) for s in (st, there)]  # None is none
            apart = self.all([*known, self.op(f"icmp ne ptr {st}, {there}")])
            apart = self.any([apart, self.same(there, none)])
            self.go_on_if(self.any([self.all([own, same_dtype]), self.all([self.op(f"icmp ne ptr {y}, {x}"), apart])]))

        self.each(others, other)
        self.do(f"ret ptr {self.held(self.cell('true'))}")
        return self.text()

    def _quiet(self, x: str) -> None:
        """Go on for a plain tensor with an array that asks for no gradient, nor does what it is a view of."""
        at, none, false = self.at.tensor, self.cell("none"), self.cell("false")
        self.go_on_if(self.same(self.load(x, TYPE), self.cell("Tensor")))
        self.go_on_if(self.same(self.load(self.load(x, at["_data"]), TYPE), self.cell("array")))
        self.go_on_if(self.same(self.load(x, at["_rg"]), false))
        record = self.load(x, at["_view"])

        def of_base() -> None:
            base = self.load(record, self.at.view["base"])
            self.go_on_if(self.same(self.load(base, at["_rg"]), false))

        self.when(self.op(f"icmp ne ptr {record}, {none}"), of_base)

    def piece(self) -> str:
        """``piece(r, st, rg, node, nr, base, chain, version, made)``: one of several views of a tensor."""
        self.go_on_if(self.op("icmp eq i64 %n, 9"))
        r, *rest = [self.load("%args", 8 * k) for k in range(9)]
        self.go_on_if(self.same(self.load(r, TYPE), self.cell("array")))
        t, v, none = self.new("Tensor"), self.new("View"), self.held(self.cell("none"), 3)
        names = ("_st", "_rg", "_node", "_nr")
        self.fill(t, self.at.tensor, _data=self.held(r), _view=v, _g=none, _grad=none, _extra=none)
        self.fill(t, self.at.tensor, **{k: self.held(x) for k, x in zip(names, rest, strict=False)})
        names = ("base", "chain", "version", "made")
        self.fill(v, self.at.view, **{k: self.held(x) for k, x in zip(names, rest[4:], strict=True)})
        self.do(f"ret ptr {t}")
        return self.text()
