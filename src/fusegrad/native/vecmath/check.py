"""How far vector math is from the truth, in units in the last place.

    python -m fusegrad.native.vecmath.check [--exhaustive] [--dtype float32|float64] [function ...]

--exhaustive runs a function over all 2^32 float32 values (some minutes a function); otherwise a dense sample.
References: float64 numpy for float32, 80-bit numpy for float64 (where the platform has it); for erf, erfc, gelu of
float32 our own float64 ones, which the tests compare with mpmath.  --own: all 2^32 values against our own float64
functions, by one compiled loop (half a minute a function); the float64 ones are held to the references by the tests.
pow takes all bases with each of EXPONENTS, and all exponents with each of BASES.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fusegrad.dtypes import FROM_NUMPY, float32, float64, int32, int64

from .. import compile_kernel
from ..interp import FUNCTIONS
from ..nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, ScalarParam, SizeParam, Store
from ..scalar import b

REFERENCES: dict[str, Callable] = {
    name: FUNCTIONS[name]
    for name in (
        "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh sigmoid sqrt "
        "rsqrt reciprocal"
    ).split()
}
BOUND = 2.0  # the promise, in ulp
SINGLE = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log1p",
    "tanh",
    "sigmoid",
    "erf",
    "erfc",
    "gelu",
    "sin",
    "cos",
    "sqrt",
    "rsqrt",
)
"""Functions with a float32 form of their own; the others are the float64 one, rounded: nothing for --own to compare."""
CONSTANT = (-1.0, 0.5, 2.0, 3.0)  # exponents that pow takes apart when they are constants
EXPONENTS = (2.0, 3.0, -1.0, 0.5, 1.5, -2.5, 1 / 3, 7.0, -13.0, 0.01, 100.25, 1e6)
BASES = (2.0, 10.0, 0.5, 0.1, 1.0000001, 0.99999994, 3.4028235e38, 1e-45, -1.0, -3.0)
HAS_LONG = np.finfo(np.longdouble).nmant > 60


def function(name: str, dtype: Any, count: int = 1) -> Callable[..., np.ndarray]:
    """Arrays in, array out: one operator as a kernel."""
    dt = FROM_NUMPY[np.dtype(dtype)]
    inputs = [b.load(f"x{k}", dt, terms={"i": 1}) for k in range(count)]
    value = getattr(b, name)(*inputs)
    params: list[Any] = [
        *(ArrayParam(f"x{k}", dt) for k in range(count)),
        ArrayParam("y", value.dtype, True),
        SizeParam("n", ("x0", "shape", 0)),
    ]
    kernel = compile_kernel(
        Kernel(name, tuple(params), (Nest((Loop("i", "n"),), (Phase(stores=(Store("y", value, terms={"i": 1}),)),)),))
    )

    def run(*arrays: np.ndarray) -> np.ndarray:
        out = np.empty(arrays[0].shape, value.dtype.np)
        kernel(*arrays, out)
        return out

    return run


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Distance in units in the last place of the rounded exact value; inf where NaN or infinity disagree."""
    rounded = exact.astype(got.dtype)
    unit = np.spacing(np.abs(np.where(np.isfinite(rounded), rounded, 1)).astype(got.dtype))
    error = np.abs(got.astype(exact.dtype) - exact) / unit.astype(exact.dtype)
    odd = (np.isnan(got) != np.isnan(rounded)) | (np.isinf(got) != np.isinf(rounded))
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0, np.where(odd, np.inf, error))


def reference(name: str, x: np.ndarray) -> np.ndarray:
    """The exact values, in a wider format than x."""
    if name in ("erf", "erfc", "gelu"):
        return function(name, np.float64)(x.astype(np.float64))
    return REFERENCES[name](x.astype(np.float64 if x.dtype == np.float32 else np.longdouble))


def worst(name: str, x: np.ndarray) -> tuple[float, float]:
    """(largest error in ulp, where)."""
    with np.errstate(all="ignore"):
        error = ulps(function(name, x.dtype)(x), reference(name, x))
    k = int(np.argmax(error))
    return float(error[k]), float(x[k])


def sample(dtype: Any, count: int, seed: int = 0) -> np.ndarray:
    """All kinds of values: random bit patterns, ordinary ranges, neighbourhoods of 0 and 1, special values."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    info = np.iinfo(np.int32 if kind == np.float32 else np.int64)
    limits = np.finfo(kind)
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        1,
        -1,
        0.5,
        -0.5,
        2,
        limits.tiny,
        limits.smallest_subnormal,
        -limits.smallest_subnormal,
        limits.max,
        limits.min,
    ]
    parts = [
        rng.integers(info.min, info.max, count, dtype=info.dtype, endpoint=True).view(kind),
        rng.uniform(-1.5, 1.5, count),
        rng.normal(0, 10, count),
        rng.uniform(-750, 750, count),
        rng.normal(0, 1, count) * np.exp(rng.uniform(-40, 5, count)),
        1 + rng.normal(0, 1e-3, count),
        special,
    ]
    return np.concatenate([np.asarray(p, kind) for p in parts])


def everything(chunk: int = 1 << 22) -> Iterator[np.ndarray]:
    """All float32 values."""
    for start in range(0, 1 << 32, chunk):
        yield np.arange(start, start + chunk, dtype=np.uint64).astype(np.uint32).view(np.float32)


def exhaustive(name: str, rows: int = 64, length: int = 1 << 18, bits: range = range(1 << 32)) -> tuple[float, float]:
    """(largest error in ulp of the float32 function over all values, where), against our own float64 function.

    bits: only values with these bit patterns (and some more, to whole blocks)."""
    x, wide = _all_values(length)
    return _search(f"all_{name}", getattr(b, name)(x), getattr(b, name)(wide), rows, length, bits)


def pow_cases() -> list[tuple[str, float, bool]]:
    """What ``exhaustive_pow`` is to be called with: (which operand is fixed, its value, whether as a constant)."""
    cases = [("exponent", v, True) for v in CONSTANT]
    return cases + [("exponent", v, False) for v in EXPONENTS] + [("base", v, False) for v in BASES]


def exhaustive_pow(
    fixed: str, value: float, constant: bool = False, length: int = 1 << 18, bits: range = range(1 << 32)
) -> tuple[float, float]:
    """``exhaustive`` for ``pow`` with one operand fixed ("base" or "exponent"), the other running over all values.

    constant: the fixed operand is part of the code, as in ``x ** 2``; else it is given at run time."""
    x, wide = _all_values(length)
    value = float(np.float32(value))
    narrow: Any = value if constant else b.scalar("fixed", float32)
    exact: Any = b.const(value, float64) if constant else b.cast(narrow, float64)
    pairs = ((narrow, x), (exact, wide)) if fixed == "base" else ((x, narrow), (wide, exact))
    got, right = (b.pow(*pair) for pair in pairs)
    return _search(f"pow_{fixed}", got, right, 64, length, bits, () if constant else (value,))


def _all_values(length: int) -> tuple[Any, Any]:
    """The float32 value whose bits are the position, from ``start`` on, and the same as float64."""
    position = b.add(b.scalar("start", int64), b.add(b.mul(b.index("i"), length), b.index("j")))
    x = b.bitcast(b.cast(position, int32), float32)
    return x, b.cast(x, float64)


def _search(
    name: str, got: Any, exact: Any, rows: int, length: int, bits: range, fixed: tuple[float, ...] = ()
) -> tuple[float, float]:
    """(largest error in ulp of ``got`` against ``exact``, where). Infinity is 2^128: one ulp above the largest."""
    rounded = b.cast(exact, float32)
    exponent = b.shr(b.and_(b.bitcast(rounded, int32), 0x7F800000), 23)
    exponent = b.where(b.gt(exponent, 254), b.const(254, int32), exponent)
    step = b.add(b.cast(b.where(b.lt(exponent, 1), b.const(1, int32), exponent), int64), 1023 - 150)
    found = b.cast(got, float64)
    found = b.where(b.isinf(got), b.where(b.gt(got, 0.0), b.const(2.0**128, float64), -(2.0**128)), found)
    error = b.div(b.abs(b.sub(found, exact)), b.bitcast(b.shl(step, 52), float64))
    odd = b.ne(b.isnan(got), b.isnan(rounded))
    same = b.or_(b.eq(got, rounded), b.and_(b.isnan(got), b.isnan(rounded)))
    error = b.where(same, b.const(0.0, float64), b.where(odd, b.const(float("inf"), float64), error))
    reduces = (Reduce("worst", "max", error), Reduce("at", "argmax", error))
    stores = (
        Store("errors", b.acc("worst", float64), terms={"i": 1}),
        Store("places", b.acc("at", int64), terms={"i": 1}),
    )
    phases = (Phase((Loop("j", length),), reduces), Phase((), (), stores))
    params: list[Any] = [ArrayParam("errors", float64, True), ArrayParam("places", int64, True)]
    params += [ScalarParam("start", int64), *(ScalarParam("fixed", float32) for _ in fixed)]
    kernel = compile_kernel(Kernel(name, tuple(params), (Nest((Loop("i", rows),), phases),)))
    errors, places, results = np.zeros(rows), np.zeros(rows, np.int64), []
    for start in range(bits.start, bits.stop, rows * length):
        kernel(errors, places, start, *fixed)
        k = int(np.argmax(errors))
        results.append((float(errors[k]), start + k * length + int(places[k])))
    error_, where = max(results)
    return error_, float(np.array(where, np.uint32).view(np.float32))


def main() -> int:
    parser = argparse.ArgumentParser(description="Errors of vector math in ulp")
    parser.add_argument("names", nargs="*", help="functions (default: all)")
    parser.add_argument("--exhaustive", action="store_true", help="all float32 values")
    parser.add_argument("--own", action="store_true", help="all float32 values, against our own float64 functions")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    options = parser.parse_args()
    failed = 0
    for name in options.names or ([*SINGLE, "pow"] if options.own else [*REFERENCES, "erf", "erfc", "gelu"]):
        start = time.perf_counter()
        if options.own and name == "pow":
            failed += _report_pow()
            continue
        if options.own:
            error, where = exhaustive(name)
        elif options.exhaustive:
            error, where = max((worst(name, x) for x in everything()), key=lambda pair: pair[0])
        else:
            dt = float32 if options.dtype == "float32" else float64
            error, where = worst(name, sample(dt.np, 500_000))
        failed += error > BOUND
        print(f"{name:10} {error:8.3f} ulp at {where!r}  {time.perf_counter() - start:.0f} s", flush=True)
    return 1 if failed else 0


def _report_pow() -> int:
    """Print the errors of pow; how many are above the bound."""
    failed = 0
    for fixed, value, constant in pow_cases():
        start = time.perf_counter()
        error, where = exhaustive_pow(fixed, value, constant)
        failed += error > BOUND
        value = float(np.float32(value))
        text = f"pow({value!r}, y)" if fixed == "base" else f"pow(x, {value!r}{' constant' if constant else ''})"
        print(f"{text:36} {error:8.3f} ulp at {where!r}  {time.perf_counter() - start:.0f} s", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
