"""Everything that touches numba's insides, in one place.

Tried with numba 0.60 - 0.68.  What is not public: `compile_extra` with `Flags.noalias` (plain njit has no switch for
it, and LLVM stops vectorising loops that would need more than 128 overlap checks); `library.get_pointer_to_function`.
When the first is missing or fails, plain njit is used: the same results, slower for kernels with many arrays. Delete
this file when njit gets a noalias option and cfunc accepts typed pointers with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fusegrad import dtypes

NUMBA_TYPES = {
    "f32": "float32",
    "f64": "float64",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "u8": "uint8",
    "b1": "uint8",
}


@functools.lru_cache(maxsize=1)
def namespace() -> dict[str, Any]:
    """Names that kernel sources use."""
    import numba
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    names: dict[str, Any] = {
        "range": range,
        "min": min,
        "max": max,
        "abs": abs,
        "u64": types.uint64,
        "u32": types.uint32,
    }
    for d in dtypes.ALL:
        if d.short not in ("b1", "f16"):
            names[d.short] = getattr(types, NUMBA_TYPES[d.short])

    def same_type(llvm_name: str, count: int) -> Any:
        """Intrinsic f(x, ...) of floats that is LLVM's own."""

        def typing_1(context: Any, x: Any) -> Any:
            return x(x), lambda c, builder, s, a: _call(ir, builder, llvm_name, a)

        def typing_2(context: Any, x: Any, y: Any) -> Any:
            return x(x, x), lambda c, builder, s, a: _call(ir, builder, llvm_name, a)

        def typing_3(context: Any, x: Any, y: Any, z: Any) -> Any:
            return x(x, x, x), lambda c, builder, s, a: _call(ir, builder, llvm_name, a)

        return intrinsic((typing_1, typing_2, typing_3)[count - 1])

    for name, llvm_name, count in (
        ("sqrt", "sqrt", 1),
        ("floor", "floor", 1),
        ("ceil", "ceil", 1),
        ("trunc", "trunc", 1),
        ("round", "roundeven", 1),
        ("fabs", "fabs", 1),
        ("copysign", "copysign", 2),
        ("fma", "fma", 3),
    ):
        names[name] = same_type(llvm_name, count)

    @intrinsic
    def where(context: Any, c: Any, x: Any, y: Any) -> Any:
        out = x if not isinstance(x, types.IntegerLiteral) and x != types.literal(0) else y
        out = types.unliteral(out)

        def generate(ctx: Any, builder: Any, s: Any, a: Any) -> Any:
            flag = ctx.cast(builder, a[0], s.args[0], types.boolean)
            flag = builder.icmp_unsigned("!=", flag, ir.Constant(flag.type, 0)) if flag.type.width != 1 else flag
            return builder.select(flag, a[1], a[2])

        return out(types.boolean, out, out), generate

    names["where"] = where

    @intrinsic
    def fmod(context: Any, x: Any, y: Any) -> Any:
        return x(x, x), lambda c, builder, s, a: builder.frem(*a)

    names["fmod"] = fmod

    names.update(_integers(ir, types, intrinsic))
    for d in dtypes.ALL:
        if d.short in ("b1", "f16"):
            names.setdefault("stack_b1", _stack(ir, types, intrinsic, types.uint8))
            continue
        t = getattr(types, NUMBA_TYPES[d.short])
        names[f"stack_{d.short}"] = _stack(ir, types, intrinsic, t)
        names[f"bits_{d.short}"] = _bits(intrinsic, t)
        if d.category == 1:
            names[f"to_{d.short}"] = _float_to_int(intrinsic, t)
    names["random_word"] = _random_word(numba, types)
    return names


def _call(ir: Any, builder: Any, name: str, args: Any) -> Any:
    f = builder.module.declare_intrinsic(
        f"llvm.{name}", [args[0].type], ir.FunctionType(args[0].type, [a.type for a in args])
    )
    return builder.call(f, args)


def _integers(ir: Any, types: Any, intrinsic: Any) -> dict[str, Any]:
    """Shifts and division as the LLVM printer defines them."""

    def shift(code: str) -> Any:
        def typing(context: Any, x: Any, y: Any) -> Any:
            x = types.int64 if isinstance(x, types.IntegerLiteral) else x

            def generate(ctx: Any, builder: Any, s: Any, a: Any) -> Any:
                t = a[0].type
                inside = builder.icmp_unsigned("<", a[1], ir.Constant(t, t.width))
                arithmetic = code == "shr" and x.signed
                safe = builder.select(inside, a[1], ir.Constant(t, t.width - 1 if arithmetic else 0))
                if arithmetic:
                    return builder.ashr(a[0], safe)
                moved = builder.shl(a[0], safe) if code == "shl" else builder.lshr(a[0], safe)
                return builder.select(inside, moved, ir.Constant(t, 0))

            return x(x, x), generate

        return intrinsic(typing)

    @intrinsic
    def trunc_div(context: Any, x: Any, y: Any) -> Any:
        x = types.int64 if isinstance(x, types.IntegerLiteral) else x

        def generate(ctx: Any, builder: Any, s: Any, a: Any) -> Any:
            t = a[0].type
            zero, one, minus = (ir.Constant(t, v) for v in (0, 1, -1))
            by_zero = builder.icmp_unsigned("==", a[1], zero)
            if not x.signed:
                d = builder.select(by_zero, one, a[1])
                return builder.select(by_zero, zero, builder.udiv(a[0], d))
            by_minus = builder.icmp_unsigned("==", a[1], minus)
            d = builder.select(builder.or_(by_zero, by_minus), one, a[1])
            q = builder.select(by_minus, builder.sub(zero, a[0]), builder.sdiv(a[0], d))
            return builder.select(by_zero, zero, q)

        return x(x, x), generate

    return {"shl": shift("shl"), "shr": shift("shr"), "lshr": shift("lshr"), "trunc_div": trunc_div}


def _stack(ir: Any, types: Any, intrinsic: Any, t: Any) -> Any:
    """stack(n): pointer to n elements of stack memory; n is a literal."""

    def typing(context: Any, n: Any) -> Any:
        if not isinstance(n, types.IntegerLiteral):
            return None

        def generate(ctx: Any, builder: Any, s: Any, a: Any) -> Any:
            with builder.goto_entry_block():
                p = builder.alloca(ctx.get_data_type(t), ir.Constant(ir.IntType(64), n.literal_value))
                p.align = 64
            return p

        return types.CPointer(t)(n), generate

    return intrinsic(prefer_literal=True)(typing)


def _bits(intrinsic: Any, t: Any) -> Any:
    def typing(context: Any, x: Any) -> Any:
        return t(x), lambda ctx, builder, s, a: builder.bitcast(a[0], ctx.get_value_type(t))

    return intrinsic(typing)


def _float_to_int(intrinsic: Any, t: Any) -> Any:
    def typing(context: Any, x: Any) -> Any:
        def generate(ctx: Any, builder: Any, s: Any, a: Any) -> Any:
            to = ctx.get_value_type(t)
            return (builder.fptosi if t.signed else builder.fptoui)(a[0], to)

        return t(x), generate

    return intrinsic(typing)


def _random_word(numba: Any, types: Any) -> Any:
    u64, i32 = types.uint64, types.int32

    @numba.njit(inline="never", error_model="numpy")
    def random_word(seed, draw, index):  # the definition is in fusegrad/random.py
        low = u64(0xFFFFFFFF)
        block = u64(index) >> u64(2)
        c0, c1 = block & low, block >> u64(32)
        c2, c3 = u64(draw) & low, u64(draw) >> u64(32)
        k0, k1 = u64(seed) & low, u64(seed) >> u64(32)
        for _ in range(10):
            p0, p1 = u64(0xD2511F53) * c0, u64(0xCD9E8D57) * c2
            c0, c1, c2, c3 = (p1 >> u64(32)) ^ c1 ^ k0, p1 & low, (p0 >> u64(32)) ^ c3 ^ k1, p0 & low
            k0, k1 = (k0 + u64(0x9E3779B9)) & low, (k1 + u64(0xBB67AE85)) & low
        which = u64(index) & u64(3)
        word = c0 if which == 0 else c1 if which == 1 else c2 if which == 2 else c3
        return i32(word)

    return random_word


def compile_function(function: Callable, types_: list[Any]) -> tuple[int, Any]:
    """(address, what must stay alive) of a function of raw pointers and numbers.  The function found there is
    `int32 f(void *result, void *error, args...)`."""
    from numba import types

    try:
        result = _compile_noalias(function, tuple(types_), types.void)
    except (ImportError, AttributeError, TypeError):
        import numba

        dispatcher = numba.njit(types.void(*types_), error_model="numpy", nogil=True, boundscheck=False)(function)
        result = dispatcher.overloads[tuple(types_)]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return address, result


def _compile_noalias(function: Callable, args: tuple, result: Any) -> Any:
    from numba.core import compiler
    from numba.core.registry import cpu_target

    flags = compiler.Flags()
    flags.noalias = True
    flags.error_model = "numpy"
    flags.no_compile, flags.enable_pyobject, flags.force_pyobject = False, False, False
    flags.release_gil = True
    flags.no_cpython_wrapper, flags.no_cfunc_wrapper = True, True
    return compiler.compile_extra(
        cpu_target.typing_context, cpu_target.target_context, function, args, result, flags, {}
    )


def pointer(short: str) -> Any:
    """numba type of a pointer to elements of a dtype."""
    from numba import types

    return types.CPointer(getattr(types, NUMBA_TYPES[short]))


def number(short: str) -> Any:
    from numba import types

    return types.boolean if short == "b1" else getattr(types, NUMBA_TYPES[short])
