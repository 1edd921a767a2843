"""Philox4x32-10 words in LLVM IR; the definition is in fusegrad/random.py."""

from __future__ import annotations

from typing import Any

from .llvm_expr import VECTOR, Module, Writer, vector
from .scalar import Expr, make

M0, M1, W0, W1, LOW = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF


def _philox(module: Module, width: int) -> str:
    """Name of a function (blocks, draw, seed) -> words: <4n x i32> for n consecutive lanes, block by block.

    Not inlined: the code is long, and used in the main loop, its rest and the mixed case.
    """
    name = f"philox{width}"
    if name in module.private:
        return name
    w, t = Writer(module), vector("i64", width)

    def imm(value: int) -> str:
        return str(value) if width == 1 else f"splat (i64 {value})"

    def op(code: str, x: str, y: str) -> str:
        return w.op(f"{code} {t} {x}, {y}")

    def low_high(x: str) -> tuple[str, str]:
        return w.op(f"and i64 {x}, {LOW}"), w.op(f"lshr i64 {x}, 32")

    k0, k1 = low_high("%seed")
    d0, d1 = low_high("%draw")
    c0, c1 = "%block", op("lshr", "%block", imm(32))
    c2, c3 = (w.splat("i64", d, width) for d in (d0, d1))
    for r in range(10):  # only the low halves of c count: masked where they are multiplied
        p0 = op("mul", op("and", c0, imm(LOW)), imm(M0))
        p1 = op("mul", op("and", c2, imm(LOW)), imm(M1))
        n0 = op("xor", op("xor", op("lshr", p1, imm(32)), c1), w.splat("i64", k0, width))
        n2 = op("xor", op("xor", op("lshr", p0, imm(32)), c3), w.splat("i64", k1, width))
        c0, c1, c2, c3 = n0, p1, n2, p0
        if r < 9:
            k0, k1 = (w.op(f"and i64 {w.op(f'add i64 {k}, {step}')}, {LOW}") for k, step in ((k0, W0), (k1, W1)))
    short = f"<{width} x i32>"
    parts = [w.op(f"trunc {t} {c} to {vector('i32', width)}") for c in (c0, c1, c2, c3)]
    if width == 1:
        v = "poison"
        for k, word in enumerate(parts):
            v = w.op(f"insertelement <4 x i32> {v}, i32 {word}, i64 {k}")
    else:
        both = ", ".join(f"i32 {k}" for k in range(2 * width))
        x, y = (
            w.op(f"shufflevector {short} {parts[k]}, {short} {parts[k + 1]}, <{2 * width} x i32> <{both}>")
            for k in (0, 2)
        )
        mixed = ", ".join(f"i32 {k * width + j}" for j in range(width) for k in range(4))
        v = w.op(f"shufflevector <{2 * width} x i32> {x}, <{2 * width} x i32> {y}, <{4 * width} x i32> <{mixed}>")
    result = vector("i32", 4 * width)
    head = (
        f"define internal {result} @{name}({t} %block, i64 %draw, i64 %seed) nounwind noinline memory(none) {VECTOR} {{"
    )
    module.private[name] = "\n".join([head, "entry:", *w.lines, f"  ret {result} {v}", "}"])
    return name


def _blocks(w: Writer, first: str, draw: str, seed: str, n: int) -> str:
    """<4n x i32>: the words of n blocks from block number `first` on."""
    block = first
    if n > 1:
        iota = ", ".join(f"i64 {k}" for k in range(n))
        block = w.op(f"add <{n} x i64> {w.splat('i64', first, n)}, <{iota}>")
    name = _philox(w.module, n)
    return w.op(f"call <{4 * n} x i32> @{name}({vector('i64', n)} {block}, i64 {draw}, i64 {seed})")


def random_word(p: Any, e: Expr, width: int) -> str:
    """int32 operand: word args[2] of draw args[1] under seed args[0] (p: NestPrinter)."""
    w: Writer = p.w
    seed, draw, index = e.args
    if width > 1 and (p.is_vector(seed) or p.is_vector(draw)):
        raise AssertionError("seed and draw must not vary inside a vector")
    i, d, s = p.val(index, width), p.val(draw, 1), p.val(seed, 1)
    if width >= 4 and index.op == "affine" and dict(index.attr[1]).get(p.lane) == 1:
        return _consecutive(w, w.op(f"extractelement <{width} x i64> {i}, i64 0"), d, s, width)
    if width >= 2 and index.op == "affine" and (odd := _every_second(index, p.lane)) is not None:
        first = w.op(f"sub i64 {w.op(f'extractelement <{width} x i64> {i}, i64 0')}, {odd}")
        words, t = _consecutive(w, first, d, s, 2 * width), f"<{2 * width} x i32>"
        places = ", ".join(f"i32 {2 * k + odd}" for k in range(width))
        return w.op(f"shufflevector {t} {words}, {t} poison, <{width} x i32> <{places}>")
    pair = _pair(index) if width >= 4 else None
    if pair is not None and dict(pair[0].attr[1]).get(p.lane) == 1:
        return _paired(p, e, i, *pair)
    return _one_by_one(w, i, d, s, width)


def _every_second(index: Expr, lane: str) -> int | None:
    """0 or 1 for an index that is even or odd throughout, and goes up by 2 along the lanes."""
    offset, terms = index.attr[0], dict(index.attr[1])
    if terms.get(lane) != 2 or not isinstance(offset, int):
        return None
    return offset & 1 if all(isinstance(c, int) and c % 2 == 0 for c in terms.values()) else None


def _pair(index: Expr) -> tuple[Expr, int] | None:
    """(n, which) for an index that is the even (0) or odd (1) one of the pair that n is in, for an affine n."""
    which = 0
    if index.op == "add" and index.args[1].op == "const" and index.args[1].attr == 1:
        index, which = index.args[0], 1
    if index.op != "sub" or index.args[0].op != "affine" or index.args[1].op != "and_":
        return None
    n, one = index.args[1].args
    return (n, which) if n is index.args[0] and one.op == "const" and one.attr == 1 else None


def _paired(p: Any, e: Expr, i: str, n: Expr, which: int) -> str:
    """Both numbers of a pair are in the words of the lanes, if the first lane is an even one."""
    w, width = p.w, p.width
    straight = make("random_word", (*e.args[:2], n), e.dtype)
    p.deps[straight] = p.deps[e]
    words = p.val(straight, width)
    first = w.op(f"extractelement <{width} x i64> {p.val(n, width)}, i64 0")
    d, s = p.val(e.args[1], 1), p.val(e.args[0], 1)
    even, odd, join = w.label("even"), w.label("odd"), w.label("join")
    bit = w.op(f"trunc i64 {first} to i1")
    w.do(f"br i1 {bit}, label %{odd}, label %{even}")
    w.start(even)
    t, places = f"<{width} x i32>", ", ".join(f"i32 {k & ~1 | which}" for k in range(width))
    fast = w.op(f"shufflevector {t} {words}, {t} poison, {t} <{places}>")
    w.do(f"br label %{join}")
    w.start(odd)
    slow = _one_by_one(w, i, d, s, width)
    end = w.block
    w.do(f"br label %{join}")
    w.start(join)
    return w.op(f"phi {t} [{fast}, %{even}], [{slow}, %{end}]")


def _one_by_one(w: Writer, i: str, d: str, s: str, width: int) -> str:
    lanes = [i] if width == 1 else [w.op(f"extractelement <{width} x i64> {i}, i64 {k}") for k in range(width)]
    out = "poison"
    for k, lane in enumerate(lanes):
        words = _blocks(w, w.op(f"lshr i64 {lane}, 2"), d, s, 1)
        word = w.op(f"extractelement <4 x i32> {words}, i64 {w.op(f'and i64 {lane}, 3')}")
        out = word if width == 1 else w.op(f"insertelement <{width} x i32> {out}, i32 {word}, i64 {k}")
    return out


def _consecutive(w: Writer, first: str, draw: str, seed: str, width: int) -> str:
    """Lanes first .. first+width-1: whole blocks; when first is inside one, one more block and a shift by memory."""
    block, inside = w.op(f"lshr i64 {first}, 2"), w.op(f"and i64 {first}, 3")
    words = _blocks(w, block, draw, seed, width // 4)
    mixed, join = w.label("mixed"), w.label("join")
    before = w.block
    w.do(f"br i1 {w.op(f'icmp eq i64 {inside}, 0')}, label %{join}, label %{mixed}")
    w.start(mixed)
    more = _blocks(w, w.op(f"add i64 {block}, {width // 4}"), draw, seed, 1)
    memory = w.slot("i32", width + 4)
    w.do(f"store <{width} x i32> {words}, ptr {memory}, align 4")
    w.do(f"store <4 x i32> {more}, ptr {w.op(f'getelementptr i32, ptr {memory}, i64 {width}')}, align 4")
    at = w.op(f"getelementptr i32, ptr {memory}, i64 {inside}")
    shifted = w.op(f"load <{width} x i32>, ptr {at}, align 4")
    w.do(f"br label %{join}")
    w.start(join)
    return w.op(f"phi <{width} x i32> [{words}, %{before}], [{shifted}, %{mixed}]")
