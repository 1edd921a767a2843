"""Kernels: every printer against the numpy interpreter, and against each other bit for bit."""

from __future__ import annotations

import os
import re
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from backend_gallery import cases, dropout, embedding, f32, f64, many, pointwise, rows, x1

from fusegrad import native, random
from fusegrad.dtypes import bool_
from fusegrad.native import compile_kernel, interp, jit, launch
from fusegrad.native.llvm_module import print_module
from fusegrad.native.nest import ArrayParam, Kernel, Loop, Nest, NestError, Phase, Reduce, SizeParam, Store
from fusegrad.native.scalar import b

CASES = [pytest.param(k, a, id=name) for name, k, a in cases()]
LLVM = SimpleNamespace(codegen="llvm", cache=False)
NUMBA = SimpleNamespace(codegen="numba", cache=False)


def outputs(kernel: Kernel) -> list[int]:
    passed = [p for p in kernel.params if not getattr(p, "source", None)]
    return [k for k, p in enumerate(passed) if isinstance(p, ArrayParam) and p.written]


def results(kernel: Kernel, args: list[Any], run: Any) -> list[np.ndarray]:
    args = list(args)
    for k in outputs(kernel):
        args[k] = args[k].copy()
    assert run(*args) is None
    return [args[k] for k in outputs(kernel)]


@pytest.mark.parametrize(("kernel", "args"), CASES)
def test_llvm_as_interpreter(kernel: Kernel, args: list[Any]) -> None:
    kernel.verify()
    want = results(kernel, args, lambda *a: interp.run(kernel, *a))
    got = results(kernel, args, compile_kernel(kernel, LLVM))
    for g, w in zip(got, want, strict=True):
        tolerance = 1e-5 if g.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance / 10)


@pytest.mark.parametrize(("kernel", "args"), CASES)
def test_ctypes_path_as_fast_path(kernel: Kernel, args: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    got = results(kernel, args, compile_kernel(kernel, LLVM))
    monkeypatch.setattr(launch, "layout_is_known", lambda: False)
    monkeypatch.setattr(native, "_loaded", {})
    monkeypatch.setattr(native, "kernel_key", lambda k, c: f"{id(k):032x}slow")
    slow = compile_kernel(kernel, LLVM)
    assert type(slow).__name__ == "function"
    for g, w in zip(results(kernel, args, slow), got, strict=True):
        np.testing.assert_array_equal(g, w)


QUICK = {
    "add-f32-3x100",
    "argmax-f64-3x100",
    "softmax",
    "layer_norm",
    "short_rows-9-f32",
    "embedding",
    "lane_gather",
    "dropout",
    "integers",
    "two_nests",
    "pad",
    "bools",
    "maths",
}


@pytest.mark.parametrize("names", [QUICK, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
def test_numba_gives_the_same_bits(names: set[str] | None) -> None:
    """numba takes 0.2 s a kernel: a choice, and all in the slow run."""
    pytest.importorskip("numba")
    for name, kernel, args in cases():
        if names is not None and name not in names:
            continue
        want = results(kernel, args, compile_kernel(kernel, LLVM))
        got = results(kernel, args, compile_kernel(kernel, NUMBA))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.view(f"u{g.itemsize}"), w.view(f"u{w.itemsize}"), err_msg=name)


def test_source_reads_well() -> None:
    text = native.source(pointwise("chain", x1() * 2.0 + 1.0, {"x": f32}))
    assert "for i in range(lo, hi):" in text and "y[i] = " in text


# ---------------------------------------------------------------- machine code


def test_many_arrays_vectorise() -> None:
    kernel = many(16, 8)
    text = native.source(kernel, "asm")
    nest = text[text.index("nest0:") : text.index(".size\tnest0")]
    if "emeraldrapids" in jit.target_name() or "+avx" in jit.target_name():
        packed = len(re.findall(r"v(add|mul)ps\b", nest))
        scalar = len(re.findall(r"v(add|mul)ss\b", nest))
        assert packed >= 16 * 8 and scalar == 0
        assert re.search(r"v(add|mul)ps\t.*%[yz]mm", nest)


def test_vector_math_has_no_calls() -> None:
    value = b.exp(x1()) + b.log(x1()) + b.tanh(x1()) + b.erf(x1()) + b.sin(x1()) + b.pow(x1(), 0.3) + b.expm1(x1())
    text = native.source(pointwise("maths", value, {"x": f32}), "asm")
    nest = text[text.index("nest0:") : text.index(".size\tnest0")]
    assert "call" not in nest


def test_column_sums_run_over_columns() -> None:
    """A factor for each row must not turn the lanes down the columns: that gathers one element from every row."""
    at = {"i": 96, "j": 1}
    scaled = b.mul(b.load("x", f32, terms=at), b.load("r", f32, terms={"i": 1}))
    nest = Nest(
        (Loop("j", 96),),
        (
            Phase((Loop("i", 50),), (Reduce("s", "add", scaled),)),
            Phase((), (), (Store("y", b.acc("s", f32), terms={"j": 1}),)),
        ),
    )
    kernel = Kernel("columns", (ArrayParam("x", f32), ArrayParam("r", f32), ArrayParam("y", f32, True)), (nest,))
    assert "gather" not in native.source(kernel, "llvm")
    x, r = np.random.default_rng(0).normal(size=(50, 96)).astype(np.float32), np.arange(50, dtype=np.float32)
    y = np.empty(96, np.float32)
    compile_kernel(kernel, LLVM)(x, r, y)
    np.testing.assert_allclose(y, (x * r[:, None]).astype(np.float64).sum(0), rtol=1e-6, atol=1e-5)


# ---------------------------------------------------------------- numbers


def run_rows(x: np.ndarray, combine: str = "add") -> np.ndarray:
    dt = f32 if x.dtype == np.float32 else f64
    out = np.empty(x.shape[0], np.int64 if combine.startswith("arg") else x.dtype)
    compile_kernel(rows(combine, combine, dt), LLVM)(x, out)
    return out


def test_big_sums_are_accurate() -> None:
    x = np.full((1, 1_000_000), 1 / 255, np.float32)
    exact = float(np.float32(1 / 255)) * 1_000_000
    assert abs(float(run_rows(x)[0]) - exact) / exact < 2e-6
    assert run_rows(np.ones((1, 20_000_000), np.float32))[0] == 20_000_000
    column = rows("column", "add", f32, "n", "m", (1, "n"))
    with pytest.raises(NestError):
        Kernel("bad", column.params, column.nests[:1] + (Nest((Loop("i", "zz"),), ()),)).verify()


def test_column_sums_are_accurate() -> None:
    n, m = 16, 300_000
    x = np.full((m, n), 1 / 255, np.float32)
    kernel = Kernel(
        "columns",
        (ArrayParam("x", f32), ArrayParam("y", f32, True)),
        (
            Nest(
                (Loop("j", n),),
                (
                    Phase((Loop("i", m),), reduces=(Reduce("s", "add", b.load("x", f32, terms={"i": n, "j": 1})),)),
                    Phase(stores=(Store("y", b.acc("s", f32), terms={"j": 1}),)),
                ),
            ),
        ),
    )
    out = np.empty(n, np.float32)
    compile_kernel(kernel, LLVM)(x, out)
    exact = float(np.float32(1 / 255)) * m
    assert (abs(out - exact) / exact < 2e-6).all()


def test_special_values_keep_their_meaning() -> None:
    kernel = pointwise("special", x1() * 1.0 + x1("z"), {"x": f32, "z": f32})
    tiny = np.float32(1e-45)
    x = np.array([np.nan, np.inf, -0.0, tiny, -tiny, 3e-39], np.float32)
    z = np.array([1, -np.inf, -0.0, 0, 0, 0], np.float32)
    out = np.empty_like(x)
    compile_kernel(kernel, LLVM)(x, z, out)
    np.testing.assert_array_equal(out.view(np.uint32)[2:], (x[2:] + z[2:]).view(np.uint32))
    assert np.isnan(out[:2]).all()


def test_arithmetic_is_numpys_bit_for_bit() -> None:
    """No contraction: products and sums are rounded one by one."""
    rng = np.random.default_rng(0)
    x, z = (rng.normal(0, 1, 5000).astype(np.float32) for _ in range(2))
    out = np.empty_like(x)
    compile_kernel(pointwise("mad", x1() * x1("z") + x1("z") / x1(), {"x": f32, "z": f32}), LLVM)(x, z, out)
    np.testing.assert_array_equal(out, x * z + z / x)


def test_random_numbers_are_the_generators() -> None:
    for n, m in ((5, 64), (7, 33), (1, 3)):
        x, y = np.ones((n, m), np.float32), np.empty((n, m), np.float32)
        compile_kernel(dropout(n, m), LLVM)(x, y, 987654321, 3)
        keep = random.uniform(987654321, 3, (n, m)) < np.float32(0.7)
        np.testing.assert_array_equal(y, np.where(keep, x / np.float32(0.7), 0))


# ---------------------------------------------------------------- calls


def test_same_array_twice_and_in_place() -> None:
    x = np.arange(100, dtype=np.float32)
    out = np.empty_like(x)
    k = compile_kernel(pointwise("twice", x1() * x1("z"), {"x": f32, "z": f32}), LLVM)
    k(x, x, out)
    np.testing.assert_array_equal(out, x * x)
    inplace = Kernel(
        "inplace",
        (ArrayParam("x", f32, True), SizeParam("n", ("x", "shape", 0))),
        (Nest((Loop("i", "n"),), (Phase(stores=(Store("x", x1() + 1.0, terms={"i": 1}),)),)),),
    )
    compile_kernel(inplace, LLVM)(x)
    np.testing.assert_array_equal(x, np.arange(1, 101, dtype=np.float32))


def test_check_raises_index_error() -> None:
    table, out = np.ones((4, 8), np.float32), np.empty((3, 8), np.float32)
    k = compile_kernel(embedding(), LLVM)
    for bad in (4, -5, 2**62):
        with pytest.raises(IndexError, match=rf"index {bad} is out of bounds for dimension 0 with size 4 \(100%\)"):
            k(table, np.array([0, bad, 1]), out)
    with pytest.raises(IndexError, match="index -1 "):
        compile_kernel(embedding(wrap=False), LLVM)(table, np.array([0, -1, 1]), out)
    k(table, np.array([0, -4, 3]), out)


def test_wrong_arguments_are_refused() -> None:
    k = compile_kernel(pointwise("refuse", x1() * 2.0, {"x": f32}), LLVM)
    x = np.ones(3, np.float32)
    with pytest.raises(TypeError, match="expected 2 arguments, got 1"):
        k(x)
    for wrong in (x.astype(np.float64), [1.0], None, x.astype(">f4")):
        with pytest.raises(TypeError, match="x must be an array of float32"):
            k(wrong, x)
    with pytest.raises(TypeError):
        compile_kernel(dropout(1, 3), LLVM)(np.ones((1, 3), np.float32), np.empty((1, 3), np.float32), 1.5, 0)
    with pytest.raises(ValueError, match="codegen"):
        compile_kernel(dropout(1, 3), SimpleNamespace(codegen="fortran"))


def test_array_subclasses_go_through() -> None:
    class Sub(np.ndarray):
        pass

    x, out = np.arange(5, dtype=np.float32).view(Sub), np.empty(5, np.float32)
    compile_kernel(pointwise("subclass", x1() * 2.0, {"x": f32}), LLVM)(x, out)
    np.testing.assert_array_equal(out, np.arange(5) * 2)


def test_equal_kernels_are_compiled_once() -> None:
    one, two = (compile_kernel(pointwise(name, x1() * 5.0, {"x": f32}), LLVM) for name in ("one", "two"))
    assert one is two


# ---------------------------------------------------------------- threads


@pytest.fixture
def threads() -> Any:
    before = launch.get_num_threads()
    yield launch.set_num_threads
    launch.set_num_threads(before)


def test_results_do_not_depend_on_threads(threads: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (2000, 1501)).astype(np.float32)
    flat = x.reshape(-1)
    row, chain = (
        compile_kernel(rows("rows", "add", f32), LLVM),
        compile_kernel(pointwise("c", b.exp(x1()), {"x": f32}), LLVM),
    )
    seen = []
    for n in (1, 2, 3, 5):
        threads(n)
        sums, values = np.empty(2000, np.float32), np.empty_like(flat)
        row(x, sums)
        chain(flat, values)
        seen.append((sums, values))
    for sums, values in seen[1:]:
        np.testing.assert_array_equal(sums, seen[0][0])
        np.testing.assert_array_equal(values, seen[0][1])


def test_many_callers_at_once(threads: Any) -> None:
    threads(2)
    x = np.ones(2_000_000, np.float32)
    k = compile_kernel(pointwise("callers", x1() + 1.0, {"x": f32}), LLVM)
    bad = []

    def work() -> None:
        out = np.zeros_like(x)
        k(x, out)
        bad.append(not (out == 2.0).all())

    callers = [threading.Thread(target=work) for _ in range(6)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert bad == [False] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_forked_children_work(threads: Any) -> None:
    threads(2)
    x, out = np.ones(2_000_000, np.float32), np.empty(2_000_000, np.float32)
    k = compile_kernel(pointwise("forked", x1() + 3.0, {"x": f32}), LLVM)
    k(x, out)
    child = os.fork()
    if child == 0:
        try:
            out[:] = 0
            k(x, out)
            compile_kernel(pointwise("in_child", x1() + 4.0, {"x": f32}), LLVM)(x[:3], out[:3])
            os._exit(0 if (out[3:] == 4).all() and (out[:3] == 5).all() else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_thread_number_is_checked() -> None:
    with pytest.raises(RuntimeError, match="positive"):
        launch.set_num_threads(0)
    with pytest.raises(TypeError):
        launch.set_num_threads(1.5)  # type: ignore[arg-type]
    assert launch.get_num_threads() >= 1


def test_module_text_has_no_addresses() -> None:
    assert not re.search(r"inttoptr", print_module(many(2, 1), "p"))


def test_results_do_not_depend_on_where_arrays_lie() -> None:
    """Vectors begin where lines of the cache do: the same bits for every address, also in place, in rows and of bytes,
    and nothing written outside."""
    x = b.load("x", f32, terms={"i": "m", "j": 1})
    at = {"i": "m", "j": 1}
    stores = (Store("y", b.tanh(x) * 3.0 + x, terms=at), Store("z", x > 0.5, terms=at))
    params = (ArrayParam("x", f32), ArrayParam("y", f32, True), ArrayParam("z", bool_, True))
    nest = Nest((Loop("i", "n"), Loop("j", "m")), (Phase((), (), stores),))
    run = compile_kernel(Kernel("placed", (*params, SizeParam("n"), SizeParam("m")), (nest,)))
    rng = np.random.default_rng(3)
    for n, m in ((1, 2000), (3, 131), (2, 257), (5, 7)):
        values = rng.standard_normal((n, m)).astype(np.float32)
        wanted = None
        for shift in (0, 1, 3, 4, 8, 13, 15):
            room, flags = np.full(n * m + 64, 7, np.float32), np.full(n * m + 128, 7, np.uint8)
            y, z = room[shift : shift + n * m].reshape(n, m), flags[shift * 5 : shift * 5 + n * m].reshape(n, m)
            y[:] = values
            run(y if shift % 2 else values, y, z.view(bool), n, m)
            wanted = wanted or (y.tobytes(), z.tobytes())
            assert (y.tobytes(), z.tobytes()) == wanted
            assert (room[:shift] == 7).all() and (room[shift + n * m :] == 7).all()
            assert (flags[: shift * 5] == 7).all() and (flags[shift * 5 + n * m :] == 7).all()
        np.testing.assert_allclose(y, np.tanh(values) * 3 + values, rtol=1e-5)
        np.testing.assert_array_equal(z.view(bool), values > 0.5)
