"""Speed of single kernels: call overhead, compile time, and loops against numpy, one thread unless said.

python benchmarks/kernels.py [--json] [--threads N] [--codegen numba]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from fusegrad import native
from fusegrad.dtypes import float32 as f32
from fusegrad.dtypes import int64 as i64
from fusegrad.native.nest import (
    ArrayParam,
    Kernel,
    Loop,
    Nest,
    Phase,
    Reduce,
    ScalarParam,
    Scratch,
    Store,
)
from fusegrad.native.scalar import Expr, b

rng = np.random.default_rng(0)


def best(run: Callable[[], Any], seconds: float = 0.3) -> float:
    """Shortest time of one call, in seconds; calls much faster than the clock are timed in loops."""
    run()
    start = time.perf_counter()
    run()
    once = max(time.perf_counter() - start, 1e-7)
    inner = max(1, int(1e-3 / once))
    shortest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(inner):
            run()
        shortest = min(shortest, (time.perf_counter() - start) / inner)
    return shortest


def pointwise(name: str, values: list[Expr], inputs: int, n: int) -> Kernel:
    params = [ArrayParam(f"x{k}", f32) for k in range(inputs)]
    params += [ArrayParam(f"y{k}", f32, True) for k in range(len(values))]
    stores = tuple(Store(f"y{k}", v, terms={"i": 1}) for k, v in enumerate(values))
    return Kernel(name, tuple(params), (Nest((Loop("i", n),), (Phase(stores=stores),)),))


def loads(n: int) -> list[Expr]:
    return [b.load(f"x{k}", f32, terms={"i": 1}) for k in range(n)]


def normal(*shape: int) -> np.ndarray:
    return rng.normal(0, 1, shape).astype(np.float32)


def softmax(n: int, m: int) -> Kernel:
    at, j = {"i": m, "j": 1}, (Loop("j", m),)
    x = b.load("x", f32, terms=at)
    e = b.exp(x - b.acc("top", f32))
    kept = b.load("row", f32, terms={"j": 1})
    return Kernel(
        "softmax",
        (ArrayParam("x", f32), ArrayParam("y", f32, True)),
        (
            Nest(
                (Loop("i", n),),
                (
                    Phase(j, reduces=(Reduce("top", "max", x),)),
                    Phase(j, reduces=(Reduce("sum", "add", e),), stores=(Store("row", e, terms={"j": 1}),)),
                    Phase((), reduces=(Reduce("inverse", "add", 1.0 / b.acc("sum", f32)),)),
                    Phase(j, stores=(Store("y", kept * b.acc("inverse", f32), terms=at),)),
                ),
            ),
        ),
        scratch=(Scratch("row", f32, m),),
    )


def layer_norm(n: int, m: int) -> Kernel:
    at, j = {"i": m, "j": 1}, (Loop("j", m),)
    x = b.load("x", f32, terms=at)
    centred = x - b.acc("sum", f32) / float(m)
    scaled = centred * b.rsqrt(b.acc("squares", f32) / float(m) + 1e-5)
    value = scaled * b.load("w", f32, terms={"j": 1}) + b.load("v", f32, terms={"j": 1})
    return Kernel(
        "layer_norm",
        (ArrayParam("x", f32), ArrayParam("w", f32), ArrayParam("v", f32), ArrayParam("y", f32, True)),
        (
            Nest(
                (Loop("i", n),),
                (
                    Phase(j, reduces=(Reduce("sum", "add", x),)),
                    Phase(j, reduces=(Reduce("squares", "add", centred * centred),)),
                    Phase(j, stores=(Store("y", value, terms=at),)),
                ),
            ),
        ),
    )


def reduction(n: int, m: int, columns: bool) -> Kernel:
    outer, inner = (("j", m), ("i", n)) if columns else (("i", n), ("j", m))
    x = b.load("x", f32, terms={"i": m, "j": 1})
    return Kernel(
        "sums",
        (ArrayParam("x", f32), ArrayParam("y", f32, True)),
        (
            Nest(
                (Loop(*outer),),
                (
                    Phase((Loop(*inner),), reduces=(Reduce("s", "add", x),)),
                    Phase(stores=(Store("y", b.acc("s", f32), terms={outer[0]: 1}),)),
                ),
            ),
        ),
    )


def dropout(n: int) -> Kernel:
    keep = b.lt(b.uniform(b.scalar("seed", i64), b.scalar("draw", i64), b.index("i")), 0.9)
    value = b.where(keep, loads(1)[0] * (1 / 0.9), 0.0)
    return Kernel(
        "dropout",
        (ArrayParam("x0", f32), ArrayParam("y", f32, True), ScalarParam("seed", i64), ScalarParam("draw", i64)),
        (Nest((Loop("i", n),), (Phase(stores=(Store("y", value, terms={"i": 1}),)),)),),
    )


def np_softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def loops() -> list[tuple[str, Kernel, list[Any], Callable[[], Any] | None]]:
    """(name, kernel, arguments, the same in numpy)."""
    n = 1_000_000
    a, c, out = normal(n), normal(n), np.empty(n, np.float32)
    x, y = loads(2)
    wide = [sum(loads(16)[1:], loads(16)[0] * float(k + 2)) for k in range(8)]
    big, small = normal(4096, 1000), normal(4096, 768)
    rows, weights = np.empty_like(big), [normal(768), normal(768)]
    found = [
        ("add 1e6", pointwise("add", [x + y], 2, n), [a, c, out], lambda: np.add(a, c, out=out)),
        (
            "two exp + chain 1e6",
            pointwise("chain", [b.exp(-(x * x)) * y + b.exp(y * 0.5) - x], 2, n),
            [a, c, out],
            lambda: np.exp(-(a * a)) * c + np.exp(c * np.float32(0.5)) - a,
        ),
        (
            "16 inputs x 8 outputs 1e5",
            pointwise("many", wide, 16, 100_000),
            [normal(100_000) for _ in range(16)] + [np.empty(100_000, np.float32) for _ in range(8)],
            None,
        ),
        ("softmax 4096x1000", softmax(4096, 1000), [big, rows], lambda: np_softmax(big)),
        ("layer_norm 4096x768", layer_norm(4096, 768), [small, *weights, np.empty_like(small)], None),
        ("row sums 4096x1000", reduction(4096, 1000, False), [big, np.empty(4096, np.float32)], lambda: big.sum(1)),
        ("column sums 4096x1000", reduction(4096, 1000, True), [big, np.empty(1000, np.float32)], lambda: big.sum(0)),
        ("full sum 1e6", reduction(1, n, False), [a, np.empty(1, np.float32)], lambda: a.sum()),
        ("dropout 1e6", dropout(n), [a, out, 1234, 5], None),
    ]
    for f in ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "expm1", "log1p"):
        value = getattr(b, f)(b.abs(x) if f.startswith("log") else x)
        g = getattr(np, f, None)
        found.append(
            (
                f"{f} 1e6",
                pointwise(f, [value], 1, n),
                [a, out],
                (lambda g=g: g(np.abs(a) if g in (np.log, np.log1p) else a)) if g else None,
            )
        )
    found.append(("pow 1e6", pointwise("pow", [b.pow(b.abs(x), y)], 2, n), [a, c, out], lambda: np.abs(a) ** c))
    return found


def measure(codegen: str) -> dict[str, dict[str, float]]:
    """Name -> figures; times in microseconds."""
    options = SimpleNamespace(codegen=codegen, cache=False)
    figures: dict[str, dict[str, float]] = {}
    x, y = loads(2)
    small = [normal(8), normal(8), np.empty(8, np.float32)]
    chain = ((x + y) * 2.0 - x) / (b.abs(y) + 1.0)
    k = native.compile_kernel(pointwise("small", [chain], 2, 8), options)
    figures["call, 3 arrays of 8"] = {
        "us": best(lambda: k(*small)) * 1e6,
        "numpy": best(lambda: np.add(small[0], small[1], out=small[2])) * 1e6,
    }
    for name, kernel, args, other in loops():
        start = time.process_time()
        k = native.compile_kernel(kernel, options)
        compiled = time.process_time() - start
        entry = {"us": best(lambda k=k, args=args: k(*args)) * 1e6, "compile_ms": compiled * 1e3}
        if other:
            entry["numpy"] = best(other) * 1e6
        figures[name] = entry
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--codegen", default="llvm", choices=("llvm", "numba"))
    options = parser.parse_args()
    os.environ.setdefault("FUSEGRAD_CACHE_DIR", tempfile.mkdtemp())
    native.set_num_threads(options.threads)
    with np.errstate(all="ignore"):
        figures = measure(options.codegen)
    if options.json:
        json.dump(figures, sys.stdout, indent=1)
        return
    print(f"{'kernel':28} {'us':>10} {'numpy us':>10} {'compile ms':>11}")
    for name, f in figures.items():
        numpy_us = f"{f['numpy']:10.2f}" if "numpy" in f else " " * 10
        compiled = f"{f['compile_ms']:11.1f}" if "compile_ms" in f else ""
        print(f"{name:28} {f['us']:10.2f} {numpy_us} {compiled}")


if __name__ == "__main__":
    main()
