"""A convolution (convolution.py) -> one LLVM function `void name(ptr ctx, i64 lo, i64 hi)`.

The innermost loops are written out: for one row of taps, one fused multiply-add for each accumulator.  Accumulators are
vectors along a row of the grid.  A value of the image is read once for all outputs of a block, a weight once for all
vectors.  Loops over channels and rows of taps are real loops, so the code stays short.
"""

from __future__ import annotations

from collections.abc import Callable

from .convolution import LARGE, SLOTS, Convolution
from .llvm_expr import SUFFIX, VECTOR, Module, Writer
from .llvm_nest import Slots


class ConvolutionPrinter:
    """Prints one convolution."""

    def __init__(self, module: Module, body: Convolution, name: str, slots: Slots) -> None:
        self.w, self.c, self.name, self.slots = Writer(module), body, name, slots
        self.t = "float" if body.lanes == 16 else "double"
        self.bytes = body.bytes
        self.v = f"<{body.lanes} x {self.t}>"
        self.iota = ", ".join(f"i32 {k}" for k in range(body.lanes))

    def text(self) -> str:
        w, c = self.w, self.c
        self.x, self.weights, self.y = (self._argument(name) for name in (c.x, c.w, c.y))
        self.n = self._argument("n", "i64")
        self.border = self._argument(c.border) if c.copies else ""
        w.do(f"br i1 {w.op('icmp slt i64 %lo, %hi')}, label %begin, label %end")
        w.start("begin")
        if c.bordered:
            self._clear_border()
        (self._sums if c.what == "sums" else self._weights)()
        w.do("br label %end")
        w.start("end")
        w.do("ret void")
        head = f"define internal void @{self.name}(ptr noalias %ctx, i64 %lo, i64 %hi) nounwind {VECTOR} {{"
        return "\n".join([head, "entry:", *w.allocas, *w.lines, "}"])

    # ------------------------------------------------------------ small pieces

    def _argument(self, name: str, type_: str = "ptr") -> str:
        p = self.w.op(f"getelementptr i64, ptr %ctx, i64 {self.slots.of[name]}")
        return self.w.op(f"load {type_}, ptr {p}, align 8")

    def _at(self, p: str, *terms: tuple[str | int, int]) -> str:
        """p + the sum of index * distance, in elements."""
        w, total = self.w, 0
        for index, distance in terms:
            if isinstance(index, int):
                total += index * distance
            elif distance:
                step = index if distance == 1 else w.op(f"mul i64 {index}, {distance}")
                p = w.op(f"getelementptr {self.t}, ptr {p}, i64 {step}")
        return w.op(f"getelementptr {self.t}, ptr {p}, i64 {total}") if total else p

    def _loop(self, lo: str | int, hi: str | int, body: Callable[[str | int], object]) -> None:
        """body(index) for lo <= index < hi; the caller knows that lo < hi."""
        if isinstance(lo, int) and isinstance(hi, int) and hi - lo == 1:
            body(lo)
            return
        w = self.w
        before, start, after = w.block, w.label("loop"), w.label("done")
        w.do(f"br label %{start}")
        w.start(start)
        position = len(w.lines)
        i, following = w.name(), w.name()
        body(i)
        w.do(f"{following} = add nsw i64 {i}, 1")
        w.do(f"br i1 {w.op(f'icmp slt i64 {following}, {hi}')}, label %{start}, label %{after}")
        w.lines.insert(position, f"  {i} = phi i64 [{lo}, %{before}], [{following}, %{w.block}]")
        w.start(after)

    def _first(self, block: str | int, size: int, total: int) -> str | int:
        """Where a block begins: the last one overlaps the one before if sizes do not fit."""
        if isinstance(block, int):
            return min(block * size, total - size)
        start = self.w.op(f"mul i64 {block}, {size}")
        if total % size == 0:
            return start
        return self.w.call("i64", "llvm.smin.i64", [("i64", start), ("i64", str(total - size))])

    def _mask(self, x0: str | int, lanes: int, scale: int = 1) -> str | None:
        """Lanes of a vector that begins at column x0 that belong to the grid; None for all."""
        c, width = self.c, self.c.grid[1]
        if width % (c.lanes * (c.wide if c.what == "sums" else 1)) == 0:
            return None
        if isinstance(x0, int) and x0 + c.lanes <= width:
            return None
        left = str(width - x0) if isinstance(x0, int) else self.w.op(f"sub i64 {width}, {x0}")
        if scale != 1:
            left = self.w.op(f"sub i64 {self.w.op(f'mul i64 {left}, {scale}')}, {scale - 1}")
        iota = ", ".join(f"i32 {k}" for k in range(lanes))
        count = self.w.splat("i32", self.w.op(f"trunc i64 {left} to i32"), lanes)
        return self.w.op(f"icmp slt <{lanes} x i32> <{iota}>, {count}")

    def _load(self, p: str, mask: str | None = None, lanes: int = 0) -> str:
        lanes = lanes or self.c.lanes
        v = f"<{lanes} x {self.t}>"
        if mask is None:
            return self.w.op(f"load {v}, ptr {p}, align {self.bytes}")
        args = [("ptr", p), ("i32", str(self.bytes)), (f"<{lanes} x i1>", mask), (v, "zeroinitializer")]
        return self.w.call(v, f"llvm.masked.load.v{lanes}{SUFFIX[self.t]}.p0", args)

    def _image_vector(self, p: str, mask: str | None) -> str:
        """A vector of every step-th element; mask: of the elements between as well."""
        lanes, step = self.c.lanes, self.c.step[1]
        if step == 1:
            return self._load(p, mask)
        wide = self._load(p, mask, lanes * step)
        every = ", ".join(f"i32 {k * step}" for k in range(lanes))
        t = f"<{lanes * step} x {self.t}>"
        return self.w.op(f"shufflevector {t} {wide}, {t} poison, <{lanes} x i32> <{every}>")

    def _fma(self, a: str, x: str, total: str) -> str:
        return self.w.call(self.v, f"llvm.fma.v{self.c.lanes}{SUFFIX[self.t]}", [(self.v, v) for v in (a, x, total)])

    # ------------------------------------------------------------ images with borders

    def _clear_border(self) -> None:
        w, c = self.w, self.c
        slot, count = "%lo", c.together if c.what == "weights" else 1
        if c.what == "sums":  # samples: parts of threads begin at least n / SLOTS apart
            few = w.call("i64", "llvm.smin.i64", [("i64", self.n), ("i64", str(SLOTS))])
            slot = w.op(f"sdiv i64 {w.op(f'mul i64 %lo, {few}')}, {self.n}")
        self.own = self._at(self.border, (slot, c.slot * count))
        args = [("ptr", self.own), ("i8", "0"), ("i64", str(c.slot * count * self.bytes)), ("i1", "false")]
        w.call("void", "llvm.memset.p0.i64", args)

    def _copy(self, target: str, source: str, elements: int) -> None:
        args = [("ptr", target), ("ptr", source), ("i64", str(elements * self.bytes)), ("i1", "false")]
        self.w.call("void", "llvm.memcpy.p0.p0.i64", args)

    def _image(self, n: str | int, slot: str | int = 0) -> str:
        """The image of sample n: the input's own memory where that can be read as it is, else a copy in a slot."""
        w, c = self.w, self.c
        own = self._at(self.own, (slot, c.slot)) if c.bordered else ""
        sample = self._at(self.x, (n, c.channels * c.size[0] * c.size[1]))
        if c.bordered:
            (h, wd), (top, left), (rows, columns) = c.size, c.low, c.reach
            first, last = max(0, -top), min(h, rows - top)
            start, stop = max(0, -left), min(wd, columns - left)
            if first < last and start < stop:

                def row(k: str | int, r: str | int) -> None:
                    source = self._at(sample, (k, h * wd), (r, wd), (start, 1))
                    target = self._at(own, (k, c.pitch[0]), (r, c.pitch[1]), (top, c.pitch[1]), (start + left, 1))
                    self._copy(target, source, stop - start)

                self._loop(0, c.channels, lambda k: self._loop(first, last, lambda r: row(k, r)))
            return own
        if not c.beyond or c.what == "weights":
            return sample
        # the last sample is copied, so that nothing is read behind the end of the input
        copy, join, before = w.label("copy"), w.label("join"), w.block
        last_one = w.op(f"icmp eq i64 {n}, {w.op(f'sub i64 {self.n}, 1')}")
        w.do(f"br i1 {last_one}, label %{copy}, label %{join}")
        w.start(copy)
        self._copy(self.border, sample, c.channels * c.size[0] * c.size[1])
        tail = self._at(self.border, (c.channels * c.size[0] * c.size[1], 1))
        args = [("ptr", tail), ("i8", "0"), ("i64", str(c.beyond * self.bytes)), ("i1", "false")]
        w.call("void", "llvm.memset.p0.i64", args)
        w.do(f"br label %{join}")
        w.start(join)
        return w.op(f"phi ptr [{self.border}, %{copy}], [{sample}, %{before}]")

    # ------------------------------------------------------------ sums

    def _sums(self) -> None:
        c = self.c
        tiles = -(-c.vectors // c.wide)
        large = c.outputs * c.channels * c.taps[0] * c.taps[1] * self.bytes > LARGE

        def sample(n: str | int) -> None:
            image = self._image(n)
            target = self._at(self.y, (n, c.outputs * c.target[0] * c.target[1]))
            blocks, rows = (0, c.blocks[0]), (0, c.grid[0])
            tile = lambda b, r, t: self._tile(image, target, self._first(b, c.block[0], c.outputs), r, t)
            if large:
                self._loop(
                    *blocks, lambda b: self._loop(*rows, lambda r: self._loop(0, tiles, lambda t: tile(b, r, t)))
                )
            else:
                self._loop(
                    *rows, lambda r: self._loop(0, tiles, lambda t: self._loop(*blocks, lambda b: tile(b, r, t)))
                )

        self._loop("%lo", "%hi", sample)

    def _tile(self, image: str, target: str, first: str | int, row: str | int, tile: str | int) -> None:
        """The outputs from `first` on of a block, in one row, `wide` vectors."""
        w, c = self.w, self.c
        offset, by_output, by_channel, by_row, by_column = c.weight
        step = c.wide * c.lanes
        x0 = tile * step if isinstance(tile, int) else w.op(f"mul i64 {tile}, {step}")
        start = self._at(image, (row, c.pitch[1] * c.step[0]), (x0, c.step[1]))
        weights = self._at(self.weights, (first, by_output), (offset, 1))
        totals = [[w.slot(self.v) for _ in range(c.wide)] for _ in range(c.block[0])]
        for slots in totals:
            for s in slots:
                w.do(f"store {self.v} zeroinitializer, ptr {s}")

        def taps(k: str | int, ky: str | int) -> None:
            from_ = self._at(start, (k, c.pitch[0]), (ky, c.pitch[1] * c.dilation[0]))
            by = self._at(weights, (k, by_channel), (ky, by_row))
            for kx in range(c.taps[1]):
                image = [
                    self._image_vector(self._at(from_, (kx * c.dilation[1] + v * c.lanes * c.step[1], 1)), None)
                    for v in range(c.wide)
                ]
                for j, slots in enumerate(totals):
                    one = w.op(f"load {self.t}, ptr {self._at(by, (kx * by_column + j * by_output, 1))}")
                    weight = w.splat(self.t, one, c.lanes)
                    for s, x in zip(slots, image, strict=True):
                        old = w.op(f"load {self.v}, ptr {s}")
                        w.do(f"store {self.v} {self._fma(x, weight, old)}, ptr {s}")

        self._loop(0, c.channels, lambda k: self._loop(0, c.taps[0], lambda ky: taps(k, ky)))
        self._store_tile(target, first, row, x0, totals)

    def _store_tile(
        self, target: str, first: str | int, row: str | int, x0: str | int, totals: list[list[str]]
    ) -> None:
        w, c = self.w, self.c
        height, width, y0, left, ystep, xstep = c.target
        line = self._at(target, (first, height * width), (row, ystep * width), (x0, xstep), (y0 * width + left, 1))
        for v in range(c.wide):
            start = x0 + v * c.lanes if isinstance(x0, int) else w.op(f"add i64 {x0}, {v * c.lanes}")
            mask = self._mask(start, c.lanes) or "splat (i1 true)"
            for j, slots in enumerate(totals):
                p = self._at(line, (j, height * width), (v * c.lanes, xstep))
                value = w.op(f"load {self.v}, ptr {slots[v]}")
                self._put(value, p, xstep, mask)

    def _put(self, value: str, p: str, step: int, mask: str) -> None:
        w, lanes = self.w, self.c.lanes
        kind, place = "store", ("ptr", p)
        if step != 1:
            every = ", ".join(f"i64 {k * step}" for k in range(lanes))
            place = (f"<{lanes} x ptr>", w.op(f"getelementptr {self.t}, ptr {p}, <{lanes} x i64> <{every}>"))
            kind = "scatter"
        suffix = f"v{lanes}{SUFFIX[self.t]}." + ("p0" if step == 1 else f"v{lanes}p0")
        args = [(self.v, value), place, ("i32", str(self.bytes)), (f"<{lanes} x i1>", mask)]
        w.call("void", f"llvm.masked.{kind}.{suffix}", args)

    # ------------------------------------------------------------ weights

    def _weights(self) -> None:
        w, c = self.w, self.c
        sums = self._argument(c.sums)
        each = c.accumulators // c.blocks[0]
        part = self._at(sums, ("%lo", each))
        size = w.op(f"mul i64 {w.op('sub i64 %hi, %lo')}, {each * self.bytes}")
        w.call("void", "llvm.memset.p0.i64", [("ptr", part), ("i8", "0"), ("i64", size), ("i1", "false")])
        more, after = w.label("more"), w.label("after")
        w.do(f"br i1 {w.op(f'icmp sgt i64 {self.n}, 0')}, label %{more}, label %{after}")
        w.start(more)
        tile = c.accumulators // (c.blocks[0] * c.blocks[1] * c.taps[0])

        def place(b: str | int, k: str | int, ky: str | int) -> str:
            return self._at(sums, (b, each), (k, tile * c.taps[0]), (ky, tile))

        def over(f: Callable[[str | int, str | int, str | int], None]) -> None:
            inner = lambda b, k: self._loop(0, c.taps[0], lambda ky: f(b, k, ky))
            self._loop("%lo", "%hi", lambda b: self._loop(0, c.blocks[1], lambda k: inner(b, k)))

        def samples(part: str | int) -> None:
            first = w.op(f"mul i64 {part}, {c.together}")
            left = w.op(f"sub i64 {self.n}, {first}")
            count = w.call("i64", "llvm.smin.i64", [("i64", left), ("i64", str(c.together))])
            if c.bordered:
                self._loop(0, count, lambda q: self._image(w.op(f"add i64 {first}, {q}"), q))
                images = self.own
            else:
                images = self._at(self.x, (first, c.slot))
            cotangents = self._at(self.y, (first, c.outputs * c.grid[0] * c.grid[1]))
            over(lambda b, k, ky: self._samples(images, cotangents, count, b, k, ky, place(b, k, ky)))

        parts = w.op(f"sdiv i64 {w.op(f'add i64 {self.n}, {c.together - 1}')}, {c.together}")
        self._loop(0, parts, samples)
        w.do(f"br label %{after}")
        w.start(after)
        over(lambda b, k, ky: self._fold(b, k, ky, place(b, k, ky)))

    def _products(self) -> list[tuple[int, int, int]]:
        """(output, channel, tap) of each accumulator of a block."""
        outputs, channels = self.c.block
        return [(j, k, x) for j in range(outputs) for k in range(channels) for x in range(self.c.taps[1])]

    def _samples(
        self, images: str, cotangents: str, count: str, b: str | int, k: str | int, ky: str | int, place: str
    ) -> None:
        """Add what some samples give to a block."""
        w, c = self.w, self.c
        outputs, channels = c.block
        o, k = self._first(b, outputs, c.outputs), self._first(k, channels, c.channels)
        area = c.grid[0] * c.grid[1]
        cotangents = self._at(cotangents, (o, area))
        images = self._at(images, (k, c.pitch[0]), (ky, c.pitch[1] * c.dilation[0]))
        totals = {p: w.slot(self.v) for p in self._products()}
        for s in totals.values():
            w.do(f"store {self.v} zeroinitializer, ptr {s}")

        def step(q: str | int, r: str | int, v: str | int) -> None:
            x0 = v * c.lanes if isinstance(v, int) else w.op(f"mul i64 {v}, {c.lanes}")
            mask = self._mask(x0, c.lanes)
            between = mask if c.step[1] == 1 else self._mask(x0, c.lanes * c.step[1], c.step[1])
            if between is None and c.step[1] > 1:  # what lies behind the last column that is used may not be there
                between = f"<{', '.join(['i1 true'] * (c.lanes * c.step[1] - 1) + ['i1 false'])}>"
            g = self._at(cotangents, (q, c.outputs * area), (r, c.grid[1]), (x0, 1))
            x = self._at(images, (q, c.slot), (r, c.pitch[1] * c.step[0]), (x0, c.step[1]))
            gs = [self._load(self._at(g, (j, area)), mask) for j in range(outputs)]
            for channel in range(channels):
                for kx in range(c.taps[1]):
                    p = self._at(x, (channel, c.pitch[0]), (kx, c.dilation[1]))
                    xs = self._image_vector(p, between)
                    for j in range(outputs):
                        s = totals[j, channel, kx]
                        old = w.op(f"load {self.v}, ptr {s}")
                        w.do(f"store {self.v} {self._fma(gs[j], xs, old)}, ptr {s}")

        def row(q: str | int, r: str | int) -> None:
            if c.vectors > 4:
                self._loop(0, c.vectors, lambda v: step(q, r, v))
                return
            for v in range(c.vectors):
                step(q, r, v)

        self._loop(0, count, lambda q: self._loop(0, c.grid[0], lambda r: row(q, r)))
        for i, s in enumerate(totals.values()):
            p = self._at(place, (i, c.lanes))
            total = w.op(f"fadd {self.v} {self._load(p)}, {w.op(f'load {self.v}, ptr {s}')}")
            w.do(f"store {self.v} {total}, ptr {p}, align {self.bytes}")

    def _fold(self, b: str | int, k: str | int, ky: str | int, place: str) -> None:
        """Add the lanes of a block's accumulators, halves first, and store the results."""
        w, c = self.w, self.c
        offset, by_output, by_channel, by_row, by_column = c.weight
        o, k = self._first(b, c.block[0], c.outputs), self._first(k, c.block[1], c.channels)
        target = self._at(self.weights, (o, by_output), (k, by_channel), (ky, by_row), (offset, 1))
        for i, (j, channel, kx) in enumerate(self._products()):
            v, n = self._load(self._at(place, (i, c.lanes))), c.lanes
            while n > 1:
                n //= 2
                whole, halves = f"<{2 * n} x {self.t}>", []
                for start in (0, n):
                    lanes = ", ".join(f"i32 {start + q}" for q in range(n))
                    halves.append(w.op(f"shufflevector {whole} {v}, {whole} poison, <{n} x i32> <{lanes}>"))
                v = w.op(f"fadd <{n} x {self.t}> {halves[0]}, {halves[1]}")
            one = w.op(f"extractelement <1 x {self.t}> {v}, i64 0")
            p = self._at(target, (j, by_output), (channel, by_channel), (kx, by_column))
            w.do(f"store {self.t} {one}, ptr {p}, align {self.bytes}")
