"""Philox4x32-10 words in LLVM IR; the definition is in fusegrad/random.py."""
from __future__ import annotations

from typing import Any

from ..kernel.scalar import Expr
from .llvm_expr import Writer, vector

M0, M1, W0, W1, LOW = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85, 0xFFFFFFFF


def _imm(value: int, width: int) -> str:
    return str(value) if width == 1 else f"splat (i64 {value})"


def philox(w: Writer, block: str, draw: str, seed: str, width: int) -> list[str]:
    """Four int64 operands holding 32-bit words, for int64 block numbers; draw and seed are scalars."""
    t = vector("i64", width)

    def op(code: str, x: str, y: str) -> str:
        return w.op(f"{code} {t} {x}, {y}")

    def low_high(x: str) -> tuple[str, str]:
        x_low = w.splat("i64", w.op(f"and i64 {x}, {LOW}"), width)
        return x_low, w.splat("i64", w.op(f"lshr i64 {x}, 32"), width)
    low = _imm(LOW, width)
    c0, c1 = op("and", block, low), op("lshr", block, _imm(32, width))
    c2, c3 = low_high(draw)
    k0, k1 = low_high(seed)
    for r in range(10):
        p0, p1 = op("mul", c0, _imm(M0, width)), op("mul", c2, _imm(M1, width))
        n0 = op("xor", op("xor", op("lshr", p1, _imm(32, width)), c1), k0)
        n2 = op("xor", op("xor", op("lshr", p0, _imm(32, width)), c3), k1)
        c0, c1, c2, c3 = n0, op("and", p1, low), n2, op("and", p0, low)
        if r < 9:
            k0 = op("and", op("add", k0, _imm(W0, width)), low)
            k1 = op("and", op("add", k1, _imm(W1, width)), low)
    return [c0, c1, c2, c3]


def random_word(p: Any, e: Expr, width: int) -> str:
    """int32 operand: word args[2] of draw args[1] under seed args[0] (p: NestPrinter)."""
    w: Writer = p.w
    seed, draw, index = e.args
    i = p.val(index, width)
    t, t32 = vector("i64", width), vector("i32", width)
    if width > 1 and (p.is_vector(seed) or p.is_vector(draw)):
        raise AssertionError("seed and draw must not vary inside a vector")
    consecutive = (width >= 4 and index.op == "affine" and dict(index.attr[1]).get(p.lane) == 1)
    if not consecutive:
        return _generic(w, i, p.val(draw, 1), p.val(seed, 1), width, t, t32)
    first = w.op(f"extractelement {t} {i}, i64 0")
    aligned = w.op(f"icmp eq i64 {w.op(f'and i64 {first}, 3')}, 0")
    d, s = p.val(draw, 1), p.val(seed, 1)
    fast, slow, join = w.label("aligned"), w.label("mixed"), w.label("join")
    w.do(f"br i1 {aligned}, label %{fast}, label %{slow}")
    w.start(fast)
    x = _aligned(w, first, d, s, width)
    fast_end = w.block
    w.do(f"br label %{join}")
    w.start(slow)
    y = _generic(w, i, d, s, width, t, t32)
    slow_end = w.block
    w.do(f"br label %{join}")
    w.start(join)
    return w.op(f"phi {t32} [{x}, %{fast_end}], [{y}, %{slow_end}]")


def _generic(w: Writer, i: str, draw: str, seed: str, width: int, t: str, t32: str) -> str:
    """Every lane runs its own block and picks a word."""
    words = philox(w, w.op(f"lshr {t} {i}, {_imm(2, width)}"), draw, seed, width)
    bit0 = w.op(f"trunc {t} {i} to {vector('i1', width)}")
    bit1 = w.op(f"trunc {t} {w.op(f'lshr {t} {i}, {_imm(1, width)}')} to {vector('i1', width)}")
    flag = vector("i1", width)
    x = w.op(f"select {flag} {bit0}, {t} {words[1]}, {t} {words[0]}")
    y = w.op(f"select {flag} {bit0}, {t} {words[3]}, {t} {words[2]}")
    return w.op(f"trunc {t} {w.op(f'select {flag} {bit1}, {t} {y}, {t} {x}')} to {t32}")


def _aligned(w: Writer, first: str, draw: str, seed: str, width: int) -> str:
    """Lanes first .. first+width-1 with first a multiple of 4: a quarter of the blocks, words interleaved."""
    n = width // 4
    block = w.op(f"lshr i64 {first}, 2")
    if n > 1:
        iota = ", ".join(f"i64 {k}" for k in range(n))
        block = w.op(f"add <{n} x i64> {w.splat('i64', block, n)}, <{iota}>")
    words = philox(w, block, draw, seed, n)
    small = f"<{n} x i32>"
    if n == 1:
        v = "poison"
        for k, word in enumerate(words):
            v = w.op(f"insertelement <4 x i32> {v}, i32 {w.op(f'trunc i64 {word} to i32')}, i64 {k}")
        return v
    parts = [w.op(f"trunc <{n} x i64> {word} to {small}") for word in words]
    both = ", ".join(f"i32 {k}" for k in range(2 * n))
    x, y = (w.op(f"shufflevector {small} {parts[k]}, {small} {parts[k + 1]}, <{2 * n} x i32> <{both}>") for k in (0, 2))
    mixed = ", ".join(f"i32 {k * n + j}" for j in range(n) for k in range(4))
    return w.op(f"shufflevector <{2 * n} x i32> {x}, <{2 * n} x i32> {y}, <{width} x i32> <{mixed}>")
