"""What an operator's call leaves, printed for ``llvm_objects``: results with their node, views, lists of operands.

``made {n}``: ``f(r, attrs, *operands)`` returns the Tensor of array r. ``view 1``: ``f(r, attrs, chain, x)``.
``several {n} {outs}``: of the tuple r of arrays, a tuple of Tensors; ``first {n} {outs}``: the first of them alone.
``listed {n}``: ``f(r, attrs, *tensors, list)``, as ``made``, where the last operand is a list of tensors.
``attrs`` may be None where no operand asks for a gradient.
"""

from __future__ import annotations

from fusegrad.callnative import ALWAYS, DENSE, PLAIN, SURE

from .layout import BASE, DESCR, FLAGS, KIND, TYPE, Layout
from .llvm_expr import Module
from .llvm_objects import ASKS, EXTRA, TENSOR, Printer


def printed(module: Module, layout: Layout, name: str) -> str:
    """The function of this name."""
    kind, *numbers = name.split()
    n, outs = int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 1
    if kind == "listed":
        return _Listed(module, layout).printed(kind, n, 1)
    return _Result(module, layout).printed(kind, n, outs)


class _Result(Printer):
    """Prints one of them. Each looks at everything first, and returns None; then makes all; then fills it in."""

    def printed(self, kind: str, n: int, outs: int) -> str:
        self.view, self.shown, self.outs = kind == "view", outs if kind == "several" else 1, outs
        several = kind in ("several", "first")
        before = 3 if self.view else 2
        self.go_on_if(self.op(f"icmp eq i64 %n, {before + n}"))
        r, self.attrs = self.load("%args", 0), self.load("%args", 8)
        self.operands = [self.load("%args", 8 * (before + i)) for i in range(n)]
        self.plan = self.op(f"getelementptr i8, ptr {self.load('%self', self.at.items + 16)}, i64 {self.at.bytes}")
        self.flags = self.load(self.plan, 0, "i64")
        self.go_on_if(self.is_zero(self.load(self.cell("running"), 16, "i64")))
        if several:
            self.go_on_if(self.op(f"icmp eq i64 {self.load(r, 16, 'i64')}, {outs}"))
        self.rs = [self.load(r, self.at.items + 8 * j) for j in range(outs)] if several else [r]
        self._are_arrays()
        if self.view:
            self._is_view()
        self.codes = [self.look(x) for x in self.operands]
        asks = [self.bits(c, ASKS) for c in self.codes]
        mask = "0"
        for i, a in enumerate(asks):
            mask = self.op(f"or i64 {mask}, {self.op(f'select i1 {a}, i64 {1 << i}, i64 0')}")
        conditions = [self.op(f"icmp ne i64 {mask}, 0"), self.op(f"xor i1 {self.bits(self.flags, PLAIN)}, true")]
        if not several:
            conditions.append(self.any([self._floating(self.rs[0]), self.bits(self.flags, SURE)]))
        yes, no = self.label("record"), self.label("plain")
        self.do(f"br i1 {self._if_on(self.all(conditions))}, label %{yes}, label %{no}")
        self.start(yes)
        self._record(mask, asks)
        self.start(no)
        ts = [self.tensor(x) for x in self.rs[: self.shown]]
        for t in ts:
            self.fill(t, self.at.tensor, _rg=self.held(self.cell("false")), _node=self.held(self.cell("none")))
            self._place(t)
        self._return(ts, kind)
        return self.text()

    def _if_on(self, records: str) -> str:
        """The condition that a call is recorded, where some thread may have the grad mode off."""
        place = self.slot("i1", align=1)
        self.do(f"store i1 {records}, ptr {place}")
        some = self.op(f"icmp ne i64 {self.load(self.cell('no_grad'), self.at.used, 'i64')}, 0")

        def ask() -> None:
            on = self.op(f"call i64 @mode(ptr {self.cell('state')})")
            self.go_on_if(self.op(f"icmp ne i64 {on}, -2"), "failed")
            self.go_on_if(self.op(f"icmp ne i64 {on}, -1"))
            self.do(f"store i1 {self.op(f'icmp eq i64 {on}, 1')}, ptr {place}")

        self.when(self.all([records, some]), ask)
        return self.op(f"load i1, ptr {place}")

    def _return(self, ts: list[str], kind: str = "") -> None:
        several = self.shown > 1
        self.do(f"ret ptr {self.tuple([lambda t=t: t for t in ts]) if several else ts[0]}")  # type: ignore[misc]

    def _are_arrays(self) -> None:
        array, free = self.cell("array"), self.op(f"xor i1 {self.bits(self.flags, DENSE)}, true")
        for r in self.rs:
            self.go_on_if(self.same(self.load(r, TYPE), array))
            dense = self.op(f"and i32 {self.load(r, FLAGS, 'i32')}, 1")
            self.go_on_if(self.any([free, self.op(f"icmp ne i32 {dense}, 0")]))

    def _floating(self, r: str) -> str:
        kind = self.load(r, DESCR)
        letter = self.op(f"icmp eq i8 {self.load(kind, KIND, 'i8')}, {ord('f')}")
        return self.any([self.same(kind, self.cell("np32")), letter])

    def _is_view(self) -> None:
        """Go on where the result lies in the memory of the operand, and views are recorded."""
        x = self.operands[0]
        a, b = self.load(x, self.at.tensor["_data"]), self.load(self.rs[0], BASE)
        self.go_on_if(self.op(f"icmp ne ptr {b}, null"))
        self.go_on_if(self.any([self.same(a, b), self.same(self.load(a, BASE), b)]))
        self.go_on_if(self.is_zero(self.load(self.cell("no_grad"), self.at.used, "i64")))
        self.go_on_if(self.same(self.load(x, self.at.tensor["_extra"]), self.cell("none")))

    def _mask(self, k: int) -> str:
        """The condition that some operand of mask ``k`` of the plan asks for a gradient."""
        return self.bits(self.load(self.plan, 8 * k, "i64"), self.asked)

    def _record(self, mask: str, asks: list[str]) -> None:
        """Make the node and the tensors, and return them."""
        n, at, none = len(self.operands), self.at, self.cell("none")
        self.go_on_if(self.op(f"icmp ne ptr {self.attrs}, {none}"))
        self.asked = self.op(f"or i64 {mask}, {ALWAYS}")
        values = [self._mask(2 + 2 * i) for i in range(n)]
        wanted = [self.all([self.op(f"xor i1 {v}, true"), self._mask(3 + 2 * i)]) for i, v in enumerate(values)]
        for value, meta, code in zip(values, wanted, self.codes, strict=True):
            number = self.is_zero(self.op(f"and i64 {code}, {TENSOR}"))
            odd = self.any([self.all([value, self.bits(code, EXTRA)]), self.all([meta, number])])
            self.go_on_if(self.op(f"xor i1 {odd}, true"))
        metas = [self._kept_meta(x, w) for x, w in zip(self.operands, wanted, strict=True)]
        node = self.new("Node")
        seq = self.made(f"{self.cell('next')}(ptr {self.cell('counter')})")
        ts = [self.tensor(r) for r in self.rs[: self.shown]]
        edges = self.tuple([lambda i=i: self._edge(self.operands[i], asks[i]) for i in range(n)])  # type: ignore[misc]
        saved = [self._kept(x, *given) for x, *given in zip(self.operands, values, metas, strict=True)]
        self.fill(node, at.node, edges=edges, saved=self.tuple([lambda s=s: s for s in saved]), seq=seq)  # type: ignore[misc]
        zeros, zero = self.load("%self", at.items + 8), self.cell("zero")
        numbers = [self._field_if(asks[i], x, "_nr", zero) for i, x in enumerate(self.operands)]
        versions = [self._version(i) for i in range(n)]
        self.fill(node, at.node, nrs=self._numbers(numbers, zeros), versions=self._numbers(versions, zeros))
        self._finish(node, ts)
        self._return(ts)

    def _finish(self, node: str, ts: list[str]) -> None:
        """What a node keeps beside its operands, and the results' place."""
        at = self.at
        shapes, kinds = [self.shape(r) for r in self.rs], [self._dtype(r) for r in self.rs]
        if self.outs > 1:
            shape = self.tuple([lambda s=s: s for s in shapes])  # type: ignore[misc]
            dtype = self.tuple([lambda k=k: self.held(k) for k in kinds])  # type: ignore[misc]
        else:
            shape, dtype = shapes[0], self.held(kinds[0])
        self.fill(node, at.node, shape=shape, dtype=dtype, attrs=self.held(self.attrs))
        self.fill(node, at.node, op=self.held(self.load("%self", at.items)), hooks=self.held(self.cell("none")))
        if self.outs == 1:
            self.fill(ts[0], at.tensor, _rg=self.held(self.cell("true")), _node=node)
        else:
            for j, t in enumerate(ts):
                self.when(
                    self._floating(self.rs[j]), lambda j=j, t=t: self._of(node, t, j), lambda t=t: self._of("", t, 0)
                )
            self.do(f"call void {self.cell('decref')}(ptr {node})")
        if self.view:
            self.fill(node, at.node, out=self.held(self.cell("none")))
            self._place(ts[0])
        elif self.outs == 1:
            self.when(self._mask(1), lambda: self._keep_out(ts[0], node), lambda: self._no_out(ts[0], node))
        else:
            self._keep_outs(ts, node)

    def _of(self, node: str, t: str, nr: int) -> None:
        """The tensor is output ``nr`` of the node, or has no history."""
        rg, holder = self.cell("true" if node else "false"), node or self.cell("none")
        self.fill(t, self.at.tensor, _rg=self.held(rg), _node=self.held(holder))
        if nr:
            self.fill(t, self.at.tensor, _nr=self.made(f"{self.cell('new_int')}(i64 {nr})"))

    def _kept_meta(self, x: str, wanted: str) -> str:
        """The Meta of an operand where a rule needs that alone, else null."""
        place = self.slot("ptr", align=8)
        self.do(f"store ptr null, ptr {place}")

        def look() -> None:
            self.do(f"store ptr {self.meta(self.load(x, self.at.tensor['_data']))}, ptr {place}")

        self.when(wanted, look)
        return self.op(f"load ptr, ptr {place}")

    def _kept(self, x: str, kept: str, meta: str) -> str:
        """The operand, its Meta or None."""
        other = self.choose(self.same(meta, "null"), self.cell("none"), meta)
        found = self.choose(kept, x, other)
        self.when(self.same(found, meta), lambda: None, lambda: self.held(found))
        return found

    def _field_if(self, condition: str, x: str, name: str, other: str) -> str:
        """A field of operand x under a condition (that says too that it is a tensor), else another value."""
        place = self.slot("ptr", align=8)
        self.do(f"store ptr {other}, ptr {place}")
        at = self.at.tensor[name]
        self.when(condition, lambda: self.do(f"store ptr {self.load(x, at)}, ptr {place}"))
        return self.op(f"load ptr, ptr {place}")

    def _edge(self, x: str, asks: str) -> str:
        none = self.cell("none")
        node = self._field_if(asks, x, "_node", none)
        return self.held(self.choose(self.all([asks, self.same(node, none)]), x, node))

    def _version(self, i: int) -> str:
        """The version of an operand that some rule names."""
        named = self.op(f"icmp ne i64 {self.load(self.plan, 16 + 16 * i, 'i64')}, 0")
        return self._version_of(self.operands[i], self.all([named, self.bits(self.codes[i], TENSOR)]))

    def _version_of(self, x: str, condition: str) -> str:
        none, zero, place = self.cell("none"), self.cell("zero"), self.slot("ptr", align=8)
        self.do(f"store ptr {zero}, ptr {place}")
        st = self._field_if(condition, x, "_st", none)
        version = self.at.storage["version"]
        self.when(
            self.op(f"icmp ne ptr {st}, {none}"), lambda: self.do(f"store ptr {self.load(st, version)}, ptr {place}")
        )
        return self.op(f"load ptr, ptr {place}")

    def _numbers(self, numbers: list[str], zeros: str) -> str:
        """A tuple of ints; the plan's where all are zero."""
        place, zero = self.slot("ptr", align=8), self.cell("zero")

        def make() -> None:
            made = self.tuple([lambda x=x: self.held(x) for x in numbers])  # type: ignore[misc]
            self.do(f"store ptr {made}, ptr {place}")

        def usual() -> None:
            self.do(f"store ptr {self.held(zeros)}, ptr {place}")

        self.when(self.all(self.same(x, zero) for x in numbers), usual, make)
        return self.op(f"load ptr, ptr {place}")

    def _dtype(self, r: str) -> str:
        """The dtype of a result (borrowed)."""
        kind, place = self.load(r, DESCR), self.slot("ptr", align=8)
        self.do(f"store ptr {self.cell('float32')}, ptr {place}")

        def look() -> None:
            found = self.op(f"call ptr {self.cell('get_item')}(ptr {self.cell('dtypes')}, ptr {kind})")
            none = self.cell("none")
            self.do(f"store ptr {self.choose(self.same(found, 'null'), none, found)}, ptr {place}")

        self.when(self.op(f"icmp ne ptr {kind}, {self.cell('np32')}"), look)
        return self.op(f"load ptr, ptr {place}")

    def _entry(self, r: str, st: str) -> str:
        """What a node keeps of a result."""
        return self.tuple([lambda x=x: self.held(x) for x in (r, st, self.cell("zero"))])  # type: ignore[misc]

    def _keep_out(self, t: str, node: str) -> None:
        """``[(r, st, 0)]``: the result as its rules need it."""
        st = self.storage()
        entry, kept = self._entry(self.rs[0], st), self.made(f"{self.cell('new_list')}(i64 1)")
        self.do(f"store ptr {entry}, ptr {self.load(kept, self.at.list)}")
        self.fill(node, self.at.node, out=kept)
        self.fill(t, self.at.tensor, _st=st, _view=self.held(self.cell("none")))

    def _no_out(self, t: str, node: str) -> None:
        none = self.held(self.cell("none"), 3)
        self.fill(node, self.at.node, out=none)
        self.fill(t, self.at.tensor, _st=none, _view=none)

    def _keep_outs(self, ts: list[str], node: str) -> None:
        """The same of several; those without a Tensor are never changed, and share a Storage."""
        none, entries, asked = self.cell("none"), [], []
        for t in ts:
            self.fill(t, self.at.tensor, _view=self.held(none))
        hidden = self.storage() if self.shown < self.outs else ""
        for j, r in enumerate(self.rs):
            place = self.slot("ptr", align=8)
            keeps = self._mask(1 if j == 0 else 1 + 2 * len(self.operands) + j)

            def keep(j: int = j, r: str = r, place: str = place) -> None:
                st = self.storage() if j < self.shown else hidden
                self.do(f"store ptr {self._entry(r, st)}, ptr {place}")
                if j < self.shown:
                    self.fill(ts[j], self.at.tensor, _st=st)

            def leave(j: int = j, place: str = place) -> None:
                self.do(f"store ptr {self.held(none)}, ptr {place}")
                if j < self.shown:
                    self.fill(ts[j], self.at.tensor, _st=self.held(none))

            self.when(keeps, keep, leave)
            entries.append(self.op(f"load ptr, ptr {place}"))
            asked.append(keeps)
        if hidden:
            self.do(f"call void {self.cell('decref')}(ptr {hidden})")

        def some() -> None:
            kept = self.made(f"{self.cell('new_list')}(i64 {self.outs})")
            items = self.load(kept, self.at.list)
            for j, entry in enumerate(entries):
                self.store(items, 8 * j, entry)
            self.fill(node, self.at.node, out=kept)

        def nothing() -> None:
            for entry in entries[1:]:
                self.do(f"call void {self.cell('decref')}(ptr {entry})")
            self.fill(node, self.at.node, out=entries[0])

        self.when(self.any(asked), some, nothing)

    def _place(self, t: str) -> None:
        """``_st`` and ``_view`` of the tensor."""
        none, at = self.cell("none"), self.at
        if not self.view:
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


class _Listed(_Result):
    """Prints the function of an operator whose last operand is a list, or a tuple, of tensors."""

    def printed(self, kind: str, n: int, outs: int) -> str:
        self.view, self.shown, self.outs = False, 1, 1
        self.go_on_if(self.op(f"icmp eq i64 %n, {2 + n}"))
        self.attrs, self.rs = self.load("%args", 8), [self.load("%args", 0)]
        self.operands, self.given = (
            [self.load("%args", 16 + 8 * i) for i in range(n - 1)],
            self.load("%args", 8 + 8 * n),
        )
        self.plan = self.op(f"getelementptr i8, ptr {self.load('%self', self.at.items + 16)}, i64 {self.at.bytes}")
        self.flags = self.load(self.plan, 0, "i64")
        self.go_on_if(self.is_zero(self.load(self.cell("running"), 16, "i64")))
        self._are_arrays()
        self.codes = [self.look(x) for x in self.operands]
        self.count, found = self.load(self.given, 16, "i64"), self.slot("i64", align=8)
        self.do(f"store i64 0, ptr {found}")
        is_list = self.same(self.load(self.given, TYPE), self.cell("list_type"))
        items = self.choose(is_list, self.load(self.given, self.at.list), self.items_of(self.given))

        def look(k: str) -> None:
            code = self.look(self.op(f"load ptr, ptr {self.item(items, k)}"))
            before = self.op(f"load i64, ptr {found}")
            self.do(f"store i64 {self.op(f'or i64 {code}, {before}')}, ptr {found}")
            self.go_on_if(self.bits(code, TENSOR))

        self.each(self.count, look)
        self.found = self.op(f"load i64, ptr {found}")
        asks = [self.bits(c, ASKS) for c in [*self.codes, self.found]]
        mask = "0"
        for i, a in enumerate(asks):
            mask = self.op(f"or i64 {mask}, {self.op(f'select i1 {a}, i64 {1 << i}, i64 0')}")
        derived, yes, no = self.op(f"xor i1 {self.bits(self.flags, PLAIN)}, true"), self.label("yes"), self.label("no")
        records = self.all([self.op(f"icmp ne i64 {mask}, 0"), derived, self._floating(self.rs[0])])
        self.do(f"br i1 {self._if_on(records)}, label %{yes}, label %{no}")
        self.start(yes)
        self._record_list(mask, asks)
        self.start(no)
        t = self.tensor(self.rs[0])
        self.fill(t, self.at.tensor, _rg=self.held(self.cell("false")), _node=self.held(self.cell("none")))
        self._place(t)
        self.do(f"ret ptr {t}")
        return self.text()

    def _record_list(self, mask: str, asks: list[str]) -> None:
        """Make the node and the tensor, and return it."""
        n, at, none, zero = len(self.operands), self.at, self.cell("none"), self.cell("zero")
        self.go_on_if(self.op(f"icmp ne ptr {self.attrs}, {none}"))
        self.asked = self.op(f"or i64 {mask}, {ALWAYS}")
        for c in [*self.codes, self.found]:
            self.go_on_if(self.is_zero(self.op(f"and i64 {c}, {EXTRA}")))
        values = [self._mask(2 + 2 * i) for i in range(n + 1)]
        wanted = [self.all([self.op(f"xor i1 {v}, true"), self._mask(3 + 2 * i)]) for i, v in enumerate(values)]
        metas = [self._kept_meta(x, w) for x, w in zip(self.operands, wanted[:n], strict=True)]
        self.given = self.made(f"{self.cell('to_tuple')}(ptr {self.given})")
        self.items = self.items_of(self.given)
        kept, inner = self._of_list(values[n], wanted[n])
        node, t = self.new("Node"), self.tensor(self.rs[0])
        seq = self.made(f"{self.cell('next')}(ptr {self.cell('counter')})")
        total = self.op(f"add i64 {self.count}, {n}")
        edges, nrs = (self.made(f"{self.cell('new_tuple')}(i64 {total})") for _ in range(2))
        for i, x in enumerate(self.operands):
            self.store(edges, at.items + 8 * i, self._edge(x, asks[i]))
            self.store(nrs, at.items + 8 * i, self.held(self._field_if(asks[i], x, "_nr", zero)))
        to, numbers = (self.op(f"getelementptr i8, ptr {p}, i64 {at.items + 8 * n}") for p in (edges, nrs))

        def put(k: str) -> None:
            x = self.op(f"load ptr, ptr {self.item(self.items, k)}")
            needs = self.same(self.load(x, at.tensor["_rg"]), self.cell("true"))
            self.do(f"store ptr {self._edge(x, needs)}, ptr {self.item(to, k)}")
            self.do(f"store ptr {self.held(self._field_if(needs, x, '_nr', zero))}, ptr {self.item(numbers, k)}")

        self.each(self.count, put)
        saved = [self._kept(x, v, m) for x, v, m in zip(self.operands, values[:n], metas, strict=True)]
        versions = [self.held(self._version(i)) for i in range(n)]
        self.fill(node, at.node, saved=self.tuple([lambda s=s: s for s in [*saved, kept]]))  # type: ignore[misc]
        self.fill(node, at.node, versions=self.tuple([lambda v=v: v for v in [*versions, inner]]))  # type: ignore[misc]
        self.fill(node, at.node, edges=edges, nrs=nrs, seq=seq)
        self.do(f"call void {self.cell('decref')}(ptr {self.given})")
        self._finish(node, [t])
        self.do(f"ret ptr {t}")

    def _of_list(self, value: str, meta: str) -> tuple[str, str]:
        """What is kept of the list, and its versions: the tensors with theirs, a list of Metas and 0, or None and 0."""
        kept, versions = self.slot("ptr", align=8), self.slot("ptr", align=8)
        none, zero = self.cell("none"), self.cell("zero")

        def tensors() -> None:
            found = self.made(f"{self.cell('new_tuple')}(i64 {self.count})")
            to = self.items_of(found)

            def put(k: str) -> None:
                x = self.op(f"load ptr, ptr {self.item(self.items, k)}")
                self.do(f"store ptr {self.held(self._version_of(x, 'true'))}, ptr {self.item(to, k)}")

            self.each(self.count, put)
            self.do(f"store ptr {found}, ptr {versions}")
            self.do(f"store ptr {self.held(self.given)}, ptr {kept}")

        def metas() -> None:
            found = self.made(f"{self.cell('new_list')}(i64 {self.count})")
            to = self.load(found, self.at.list)

            def put(k: str) -> None:
                x = self.op(f"load ptr, ptr {self.item(self.items, k)}")
                self.do(f"store ptr {self.meta(self.load(x, self.at.tensor['_data']))}, ptr {self.item(to, k)}")

            self.each(self.count, put)
            self.do(f"store ptr {found}, ptr {kept}")

        def other() -> None:
            self.do(f"store ptr {self.held(zero)}, ptr {versions}")
            self.when(meta, metas, lambda: self.do(f"store ptr {self.held(none)}, ptr {kept}"))

        self.when(value, tensors, other)
        return self.op(f"load ptr, ptr {kept}"), self.op(f"load ptr, ptr {versions}")
