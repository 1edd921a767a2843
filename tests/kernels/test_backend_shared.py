"""Nests that differ only in their arrays become one function; kernels of many arrays read them by a loop."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fusegrad.dtypes import float32 as f32
from fusegrad.dtypes import float64 as f64
from fusegrad.native import compile_kernel, interp, launch
from fusegrad.native.llvm_module import print_module
from fusegrad.native.nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, ScalarParam, SizeParam, Store
from fusegrad.native.scalar import b

OPTIONS = SimpleNamespace(codegen="llvm", cache=False)


def functions(kernel: Kernel) -> list[str]:
    return re.findall(r"define internal void @((?:nest|shared)\d+)\(", print_module(kernel, "k"))


def check(kernel: Kernel, args: list[Any]) -> list[np.ndarray]:
    """Runs the kernel compiled and interpreted; the outputs must be the same to 1e-6."""
    kernel.verify()
    passed = [p for p in kernel.params if not getattr(p, "source", None)]
    outs = [k for k, p in enumerate(passed) if isinstance(p, ArrayParam) and p.written]
    got, want = list(args), list(args)
    for k in outs:
        got[k], want[k] = args[k].copy(), args[k].copy()
    compile_kernel(kernel, OPTIONS)(*got)
    interp.run(kernel, *want)
    for k in outs:
        np.testing.assert_allclose(got[k], want[k], rtol=1e-6, atol=1e-6)
    return [got[k] for k in outs]


def nest(
    source: str, out: str, offset: Any = 0, size: Any = 5, add: Any = 1.0, loop: str = "i", dtype: Any = f32
) -> Nest:
    x = b.load(source, dtype, offset=offset, terms={loop: 1})
    return Nest((Loop(loop, size),), (Phase(stores=(Store(out, b.exp(x) + add, terms={loop: 1}),)),))


def arrays(names: str, written: str = "") -> list[ArrayParam]:
    return [ArrayParam(n, f32, n in written.split()) for n in names.split()]


def rng(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype("f4")


def test_equal_up_to_arrays_offsets_and_names() -> None:
    kernel = Kernel(
        "k",
        tuple(arrays("x y a b c", "a b c")),
        (nest("x", "a"), nest("y", "b", 3, loop="j"), nest("x", "c", 10)),
    )
    assert functions(kernel) == ["shared0"]
    a, b_, c = check(kernel, [rng(20), rng(9), rng(5), rng(5), rng(5)])
    np.testing.assert_allclose(c, np.exp(rng(20)[10:15]) + 1, rtol=1e-6)


@pytest.mark.parametrize(
    "other",
    [nest("y", "b", add=2.0), nest("y", "b", size=4), nest("b", "b"), nest("y", "b", add=b.scalar("s", f32))],
    ids=["constant", "size", "in place", "scalar"],
)
def test_not_equal(other: Nest) -> None:
    params = (*arrays("x y a b", "a b"), ScalarParam("s", f32))
    kernel = Kernel("k", params, (nest("x", "a"), other))
    assert functions(kernel) == ["nest0", "nest1"]
    check(kernel, [rng(5), rng(6), rng(5), rng(6), 1.5])


def test_numbers_and_sizes_are_passed_on() -> None:
    params = (
        *arrays("x y a b", "a b"),
        ScalarParam("s", f32),
        ScalarParam("t", f32),
        SizeParam("n", ("a", "shape", 0)),
        SizeParam("m", ("b", "shape", 0)),
    )
    nests = (
        nest("x", "a", "n", size="n", add=b.scalar("s", f32)),
        nest("y", "b", "m*2", size="m", add=b.scalar("t", f32)),
        nest("x", "a", 0, size="n", add=b.scalar("t", f32)),
    )
    kernel = Kernel("k", params, nests)
    assert functions(kernel) == ["shared0"]
    check(kernel, [rng(8), rng(30), rng(4), rng(9), 0.25, 4.0])


def test_one_buffer_read_and_written_keeps_its_offsets() -> None:
    """Which accesses go to the same buffer, and how far apart, is part of what is shared."""

    def step(buffer: str, at: int, apart: int) -> Nest:
        x = b.load(buffer, f32, offset=at, terms={"i": 1})
        return Nest((Loop("i", 4),), (Phase(stores=(Store(buffer, x * 2.0, offset=at + apart, terms={"i": 1}),)),))

    kernel = Kernel("k", tuple(arrays("x", "x")), (step("x", 0, 4), step("x", 4, 4), step("x", 8, 8)))
    assert functions(kernel) == ["shared0", "nest2"]
    check(kernel, [rng(24)])


def test_reductions_rows_and_gathers() -> None:
    def rows(x: str, out: str, acc: str) -> Nest:
        value = b.load(x, f32, terms={"i": 7, "j": 1})
        phases = (
            Phase((Loop("j", 7),), (Reduce(acc, "max", value),)),
            Phase((Loop("j", 7),), (), (Store(out, value - b.acc(acc, f32), terms={"i": 7, "j": 1}),)),
        )
        return Nest((Loop("i", 3),), phases)

    kernel = Kernel("k", tuple(arrays("x y a b", "a b")), (rows("x", "a", "r"), rows("y", "b", "top")))
    assert functions(kernel) == ["shared0"]
    check(kernel, [rng(3, 7), rng(7, 3).reshape(3, 7), rng(3, 7), rng(3, 7)])


def test_threads() -> None:
    n = 3_000_000
    kernel = Kernel("k", tuple(arrays("x y a b", "a b")), (nest("x", "a", size=n), nest("y", "b", size=n)))
    assert functions(kernel) == ["shared0"]
    x, y = rng(n), -rng(n)
    found = []
    before = launch.get_num_threads()
    try:
        for threads in (1, 2):
            launch.set_num_threads(threads)
            outs = np.zeros(n, "f4"), np.zeros(n, "f4")
            compile_kernel(kernel, OPTIONS)(x, y, *outs)
            found.append(outs)
    finally:
        launch.set_num_threads(before)
    for source, one, two in zip((x, y), *found, strict=True):
        np.testing.assert_array_equal(one, two)
        np.testing.assert_allclose(one, np.exp(source) + 1, rtol=1e-6)


def many(count: int) -> tuple[Kernel, list[np.ndarray]]:
    names = [f"x{k}" for k in range(count)]
    params = [ArrayParam(n, f64 if k == 3 else f32) for k, n in enumerate(names)]
    nests = []
    for k, n in enumerate(names):
        if k != 3:
            nests.append(nest(n, f"y{k}", size="n"))
            params.append(ArrayParam(f"y{k}", f32, True))
    params.append(ScalarParam("unused", f32))
    params.append(SizeParam("n", ("x1", "shape", 0)))
    args: list[Any] = [rng(6 + k)[:6].astype("f8" if k == 3 else "f4") for k in range(count)]
    return Kernel("many", tuple(params), tuple(nests)), [*args, *(np.zeros(6, "f4") for _ in range(count - 1)), 2.0]


@pytest.mark.parametrize("count", [5, 30])
def test_many_arrays(count: int) -> None:
    kernel, args = many(count)
    check(kernel, args)
    run = compile_kernel(kernel, OPTIONS)
    for k in (0, 1, count - 1):
        bad = list(args)
        bad[k] = bad[k].astype("i8")
        with pytest.raises(TypeError):
            run(*bad)
        bad[k] = [1.0, 2.0]
        with pytest.raises(TypeError):
            run(*bad)
    with pytest.raises(TypeError):
        run(*args[:-1])
