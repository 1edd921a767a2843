"""Reductions in LLVM IR: one accumulator a lane in stack slots (promoted to registers), folded as a fixed tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fusegrad.dtypes import dtype, float32, float64, int64

from .llvm_expr import SUFFIX, Writer, constant, llvm_type, vector
from .nest import Loop, Reduce
from .plan import row_major
from .scalar import make


def acc_dtype(r: Reduce) -> dtype:
    """What a reduction accumulates in."""
    return float64 if r.combine in ("add", "mul", "linear") and r.value.dtype is float32 else r.value.dtype


def identity(combine: str, dt: dtype) -> object:
    """Start value of an accumulator."""
    if combine in ("add", "sum", "or", "linear"):
        return 0
    if combine in ("mul", "and"):
        return True if dt.category == 0 else 1 if combine == "mul" else -1
    low = combine in ("max", "argmax")
    if dt.category == 2:
        return float("-inf") if low else float("inf")
    if dt.category == 0:
        return not low
    bits = dt.itemsize * 8
    small, big = (-(1 << bits - 1), (1 << bits - 1) - 1) if dt.is_signed else (0, (1 << bits) - 1)
    return small if low else big


def acc_types(r: Reduce) -> list[dtype]:
    """Element types of a reduction's accumulators: the value, and the position for argmax and argmin."""
    return [acc_dtype(r), int64] if r.combine.startswith("arg") else [acc_dtype(r)]


_OPS = {"add": ("fadd", "add"), "sum": ("fadd", ""), "mul": ("fmul", "mul"), "and": ("", "and"), "or": ("", "or")}


def combine(p: Any, r: Reduce, slot: list[str], inner: Sequence[Loop]) -> None:
    """slot = slot combined with the current value, in active lanes (p: NestPrinter)."""
    w: Writer = p.w
    width = p.width
    types = acc_types(r)
    product = r.combine == "sum" and r.value.op == "mul"
    new = [p.val(e, width) for e in (r.value.args if product else r.exprs())]
    if types[0] is not r.value.dtype:
        short, long = llvm_type(r.value.dtype, width), llvm_type(types[0], width)
        new = [w.op(f"fpext {short} {v} to {long}") for v in new]
    if len(types) == 2:
        where = make("affine", (), int64, (0, row_major(inner)))
        p.deps[where] = frozenset(loop.name for loop in inner)
        new.append(p.val(where, width) if inner else constant(int64, 0, width))
    old = [w.op(f"load {llvm_type(d, width)}, ptr {s}") for d, s in zip(types, slot, strict=False)]
    if product:
        t = llvm_type(types[0], width)
        name = f"llvm.fma.{f'v{width}' if width > 1 else ''}{SUFFIX[llvm_type(types[0])]}"
        merged = [w.call(t, name, [(t, v) for v in (*new, old[0])])]
    elif r.factor is not None:
        old_scaled = w.op(f"fmul {llvm_type(types[0], width)} {old[0]}, {new[1]}")
        merged = [w.op(f"fadd {llvm_type(types[0], width)} {old_scaled}, {new[0]}")]
    else:
        merged = _merge(w, r, old, new, width)
    for d, s, o, m in zip(types, slot, old, merged, strict=False):
        t = llvm_type(d, width)
        if p.mask:
            m = w.op(f"select <{width} x i1> {p.mask}, {t} {m}, {t} {o}")
        w.do(f"store {t} {m}, ptr {s}")


def _merge(w: Writer, r: Reduce, old: list[str], new: list[str], width: int) -> list[str]:
    """Combine two accumulators; `new` may be fresh values (later positions) or another lane's accumulator."""
    dt = acc_dtype(r)
    t = llvm_type(dt, width)
    if r.combine in _OPS:
        code = _OPS[r.combine][0 if dt.category == 2 else 1]
        return [w.op(f"{code} {t} {old[0]}, {new[0]}")]
    flag, high = vector("i1", width), r.combine.endswith("max")
    if dt.category == 2:
        better = w.op(f"fcmp {'ogt' if high else 'olt'} {t} {new[0]}, {old[0]}")
        nan = w.op(f"fcmp uno {t} {new[0]}, {new[0]}")
        if len(old) == 1:
            take = w.op(f"or {flag} {better}, {nan}")
            return [w.op(f"select {flag} {take}, {t} {new[0]}, {t} {old[0]}")]
        fine = w.op(f"fcmp ord {t} {old[0]}, {old[0]}")
        take = w.op(f"or {flag} {better}, {w.op(f'and {flag} {nan}, {fine}')}")
        same = w.op(f"fcmp oeq {t} {new[0]}, {old[0]}")
        both = w.op(f"and {flag} {nan}, {w.op(f'fcmp uno {t} {old[0]}, {old[0]}')}")
        same = w.op(f"or {flag} {same}, {both}")
    else:
        code = ("s" if dt.category and dt.is_signed else "u") + ("gt" if high else "lt")
        take = w.op(f"icmp {code} {t} {new[0]}, {old[0]}")
        if len(old) == 1:
            return [w.op(f"select {flag} {take}, {t} {new[0]}, {t} {old[0]}")]
        same = w.op(f"icmp eq {t} {new[0]}, {old[0]}")
    # equal values: the earlier position; -1 (as unsigned the largest) means no value yet
    it = vector("i64", width)
    earlier = w.op(f"icmp ult {it} {new[1]}, {old[1]}")
    take = w.op(f"or {flag} {take}, {w.op(f'and {flag} {same}, {earlier}')}")
    return [w.op(f"select {flag} {take}, {x} {n}, {x} {o}") for x, n, o in zip((t, it), new, old, strict=False)]


def running(p: Any, r: Reduce, slot: list[str]) -> None:
    """Make the accumulator, with the current point included, known as ``acc``."""
    width = p.width
    value, _ = finish(p, r, slot, width, False)
    p.vals[make("acc", (), r.dtype, r.name), width] = value


def finish(p: Any, r: Reduce, slot: list[str], width: int, fold: bool) -> tuple[str, int]:
    """(operand of the result in r.dtype, its width): fold lanes [0, n/2) with [n/2, n) until one is left."""
    w: Writer = p.w
    types = acc_types(r)
    values = [w.op(f"load {llvm_type(d, width)}, ptr {s}") for d, s in zip(types, slot, strict=False)]
    while fold and width > 1:
        half = width // 2
        parts = []
        for start in (0, half):
            lanes = ", ".join(f"i32 {start + k}" for k in range(half))
            parts.append(
                [
                    w.op(
                        f"shufflevector {llvm_type(d, width)} {v}, {llvm_type(d, width)} poison, "
                        f"<{half} x i32> <{lanes}>"
                    )
                    for d, v in zip(types, values, strict=False)
                ]
            )
        width = half
        if width == 1:
            parts = [
                [w.op(f"extractelement <1 x {llvm_type(d)}> {v}, i64 0") for d, v in zip(types, part, strict=False)]
                for part in parts
            ]
        values = _merge(w, r, parts[0], parts[1], width)
    if len(types) == 2:
        return values[1], width
    if types[0] is not r.dtype:
        return w.op(f"fptrunc {llvm_type(types[0], width)} {values[0]} to {llvm_type(r.dtype, width)}"), width
    return values[0], width
