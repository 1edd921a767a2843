"""Pooling as loops, and memory in steps of two to four: bit for bit what eager gives."""

from __future__ import annotations

import fusegrad.compiler as compiler
import numpy as np
import pytest
from fusegrad.compiler.kernel.program import compile_graph
from fusegrad.compiler.kernel.windows import expand_windows
from fusegrad.compiler.tracer import trace

import fusegrad as fg
from fusegrad.native import source

F = fg.nn.functional

POOLS = {
    "max 2": (lambda x: F.max_pool2d(x, 2), (3, 4, 28, 28)),
    "max 2, short rows": (lambda x: F.max_pool2d(x, 2), (5, 3, 10, 6)),
    "max 2, a row left": (lambda x: F.max_pool2d(x, 2), (3, 4, 11, 14)),
    "max 3": (lambda x: F.max_pool2d(x, 3), (3, 4, 21, 45)),
    "max 3, step 2": (lambda x: F.max_pool2d(x, 3, 2), (3, 4, 21, 44)),
    "max 1x4": (lambda x: F.max_pool2d(x, (1, 4)), (2, 4, 5, 140)),
    "max 2, dilated": (lambda x: F.max_pool2d(x, 2, 2, 0, 3), (2, 4, 12, 40)),
    "max, border": (lambda x: F.max_pool2d(x, 3, 2, 1), (3, 4, 20, 48)),
    "max of rows": (lambda x: F.max_pool1d(x, 2), (3, 4, 48)),
    "max of volumes": (lambda x: F.max_pool3d(x, 2), (2, 2, 4, 6, 20)),
    "max of a product": (lambda x: F.max_pool2d(fg.relu(x * 2), 2), (3, 4, 28, 28)),
    "mean 2": (lambda x: F.avg_pool2d(x, 2), (3, 4, 20, 48)),
    "mean 3, step 1": (lambda x: F.avg_pool2d(x, 3, 1), (3, 4, 20, 48)),
    "mean, border": (lambda x: F.avg_pool2d(x, 2, 2, 1), (3, 4, 20, 48)),
    "max 3, border, step 1": (lambda x: F.max_pool2d(x, 3, 1, 1), (5, 4, 21, 29)),
    "max 3x2, border, dilated": (lambda x: F.max_pool2d(x, (3, 2), (2, 3), (1, 1), (2, 1)), (5, 4, 24, 39)),
    "max of rows that leaves some unseen": (lambda x: F.max_pool1d(x, 2, 4), (9, 8, 24)),
    "mean 3, border, step 2": (lambda x: F.avg_pool2d(x, 3, 2, 1), (2, 3, 8, 14)),
    "mean 3, border not counted": (lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), (2, 3, 7, 9)),
    "mean of volumes, overlapping": (lambda x: F.avg_pool3d(x, (2, 1, 2), 1, (1, 0, 0)), (1, 2, 4, 3, 6)),
    "max, past the end": (lambda x: F.max_pool2d(x, 2, ceil_mode=True), (3, 4, 11, 13)),
    "mean, past the end": (lambda x: F.avg_pool2d(x, 2, ceil_mode=True), (3, 4, 11, 13)),
    "mean 3 of rows, past the end": (lambda x: F.avg_pool1d(x, 3, 2, ceil_mode=True), (3, 4, 12)),
    "norm of rows, past the end": (lambda x: F.lp_pool1d(x, 2.0, 3, 2, ceil_mode=True), (3, 4, 12)),
}


def _compare(f, x, v=None):
    x = fg.tensor(x, requires_grad=True)
    compiled = compiler.compile(f)
    for _ in range(2):
        want, got = f(x), compiled(x)
        np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
        g = fg.randn(want.shape).to(want.dtype) if v is None else fg.tensor(np.resize(v, want.shape))
        a, b = (fg.autograd.grad(y, x, g)[0].numpy() for y in (got, want))
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", POOLS)
def test_as_eager(name, dtype):
    f, shape = POOLS[name]
    _compare(f, np.random.default_rng(0).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("name", POOLS)
def test_ties_and_special_values(name):
    """The first of equal maxima gets the gradient, the last of several NaN; infinite gradients stay in their places."""
    f, shape = POOLS[name]
    rng = np.random.default_rng(1)
    x = rng.integers(-2, 3, shape).astype(np.float32)
    for value in (np.nan, -np.inf, np.inf):
        x.flat[rng.integers(0, x.size, x.size // 9)] = value
    x[0, 0] = -np.inf
    _compare(f, x, np.array([1.0, np.inf, -2.0, 3.0, np.nan, 5.0, 7.0], np.float32))


@pytest.mark.parametrize("name", [n for n in POOLS if "border" in n and n.startswith("max")])
def test_windows_without_a_number_keep_to_the_input(name):
    """Where all that a window sees is -inf or NaN, the gradient goes to an element and not into the border."""
    f, shape = POOLS[name]
    v = np.array([1, -2, 3, 5, -7], np.float32)  # sums in any order are the same
    _compare(f, np.full(shape, -np.inf, np.float32), v)
    _compare(f, np.where(np.random.default_rng(1).random(shape) < 0.3, np.nan, -np.inf).astype(np.float32), v)


def test_symbolic_sizes():
    compiled = compiler.compile(lambda x: F.max_pool2d(x, 2).sum())
    for n, size in ((2, 12), (3, 18), (4, 20), (5, 22)):
        x = fg.randn(n, 3, size, size, requires_grad=True)
        for a, b in zip(fg.autograd.grad(compiled(x), x), fg.autograd.grad(F.max_pool2d(x, 2).sum(), x), strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_pooling_is_no_call():
    graph = trace(lambda x: F.max_pool2d(x, 2), (fg.randn(2, 3, 8, 8),))
    graph.builder.graph.outputs = [graph.builder.value_of(graph.outputs)]
    names = [node.op.name for node in expand_windows(graph.builder.graph).nodes]
    assert "_max_values" not in names and names.count("maximum") == 3


# ---- every n-th element


def _graph(f, *arrays):
    traced = trace(f, tuple(fg.from_numpy(a) for a in arrays))
    outs = traced.outputs if isinstance(traced.outputs, tuple) else (traced.outputs,)
    traced.builder.graph.outputs = [traced.builder.value_of(o) for o in outs]
    return traced.builder.graph


def _kernels(f, *arrays):
    compiled = compile_graph(_graph(f, *arrays))
    for got, want in zip(compiled(*arrays), [f(*map(fg.from_numpy, arrays))], strict=True):
        np.testing.assert_array_equal(got, want.numpy())
    return "\n".join(source(k, "llvm") for k in compiled.kernels)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1", "?"])
@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("length", [3, 48, 203])
def test_reading_every_nth(dtype, step, length):
    x = np.random.default_rng(0).integers(0, 2 if dtype == "?" else 100, (7, length)).astype(dtype)

    def f(t):
        return t[:, ::step].clone() if dtype == "?" else t[:, ::step] + t[:, ::step]

    text = _kernels(f, x)
    if length > 100:
        assert "masked.gather" not in text


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4", "i8", "u1"])
@pytest.mark.parametrize("n", [2, 3, 4])
@pytest.mark.parametrize("length", [1, 5, 48, 203])
def test_writing_every_nth(dtype, n, length):
    x = np.random.default_rng(0).integers(0, 50, (7, length)).astype(dtype)
    text = _kernels(lambda t: fg.stack([t + k for k in range(n)], -1), x)
    if length > 100:
        assert "masked.scatter" not in text


def test_neither_reads_nor_writes_beside():
    """The last element that is read is the last of its memory; what is written ends there too."""
    for length in (1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 129):
        memory = np.zeros(2 * length - 1 + 64, np.float32)
        memory[2 * length - 1 :] = np.nan
        x = memory[: 2 * length - 1]
        got = compile_graph(_graph(lambda t: t[::2] * 3, x))(x)[0]
        assert np.isfinite(got).all() and got.shape == (length,)


def test_rotary_embedding():
    def rotate(x, c, s):
        a, b = x[..., ::2], x[..., 1::2]
        return fg.stack((a * c - b * s, a * s + b * c), -1).flatten(-2)

    rng = np.random.default_rng(0)
    x, c, s = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 9, 64), (9, 32), (9, 32)))
    text = _kernels(rotate, x, c, s)
    assert "masked.gather" not in text and "masked.scatter" not in text


@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("pool", ["max_pool1d", "avg_pool1d"])
def test_every_window_and_size(pool, ceil):
    """Windows end where the input ends, whatever follows in memory; sizes and windows may change."""
    f = lambda x, k, s, p: getattr(F, pool)(x, k, s, p, ceil_mode=ceil)
    for k, s, p in ((2, 2, 0), (3, 1, 0), (3, 2, 1), (2, 3, 0), (4, 3, 2), (7, 3, 0)):
        compiled = [compiler.compile(f, dynamic=d) for d in (None, False, True)]
        for n in (9, 8, 11, 7, 10):
            x = fg.randn(2, 3, n, requires_grad=True)
            want = f(x, k, s, p)
            (g,) = fg.autograd.grad(want.square().sum(), x)
            for c in compiled:
                got = c(x, k, s, p)
                np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-5, 1e-6)
                (h,) = fg.autograd.grad(got.square().sum(), x)
                np.testing.assert_allclose(h.numpy(), g.numpy(), 1e-5, 1e-6)
