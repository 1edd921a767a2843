"""Sums down columns that are taken along where rows are computed (``kernel/columns.py``)."""

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.testing import assert_close

F = fg.nn.functional


@pytest.fixture(autouse=True)
def _threads():
    before = fg.get_num_threads()
    yield
    fg.set_num_threads(before)


PROGRAMS = {
    "layer norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "rms norm": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w) + b,
    "bias and relu": lambda x, w, b: fg.relu(x + b) * w,
    "softmax": lambda x, w, b: fg.softmax(x + b, -1) * w,
    "sum of results": lambda x, w, b: fg.tanh(x * w + b).sum(tuple(range(x.ndim - 1))),
    "mean and rows": lambda x, w, b: (x * w + b).exp() - (x * w).mean(tuple(range(x.ndim - 1))),
}
SHAPES = [(2100, 32), (700, 100), (40, 50, 64), (1, 3000, 64), (3, 1, 1000, 64), (2, 40_000), (70_000, 3), (20, 5000)]


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name, shape, dtype):
    f = PROGRAMS[name]
    x = (fg.randn(*shape, dtype=dtype) / 4).requires_grad_()
    w, b = (fg.randn(shape[-1], dtype=dtype).requires_grad_() for _ in range(2))
    y, z = f(x, w, b), fg.compile(f)(x, w, b)
    v = fg.randn(*y.shape, dtype=dtype)
    tolerance = {"rtol": 1e-4, "atol": 2e-4} if dtype is fg.float32 else {"rtol": 1e-9, "atol": 1e-9}
    assert_close(z, y, **tolerance)
    for a, e in zip(fg.autograd.grad(z, (x, w, b), v), fg.autograd.grad(y, (x, w, b), v), strict=True):
        assert_close(a, e, **tolerance)


def test_sizes_that_change():
    f = fg.compile(lambda x, w, b: F.layer_norm(x, (64,), w, b), dynamic=True)
    w, b = fg.ones(64, requires_grad=True), fg.zeros(64, requires_grad=True)
    for n in (3000, 1, 2, 15, 16, 17, 4097, 0, 5):
        x = fg.randn(n, 64, dtype=fg.float32).requires_grad_()
        y = f(x, w, b)
        for a, e in zip(
            fg.autograd.grad(y.sum(), (x, w, b)),
            fg.autograd.grad(F.layer_norm(x, (64,), w, b).sum(), (x, w, b)),
            strict=True,
        ):
            assert_close(a, e, rtol=1e-4, atol=1e-3)


def test_no_bit_depends_on_threads():
    x, v = fg.randn(5000, 96).requires_grad_(), fg.randn(5000, 96)
    w, b = fg.randn(96).requires_grad_(), fg.randn(96).requires_grad_()
    f, alone = fg.compile(PROGRAMS["layer norm"]), fg.compile(lambda x: x.sum(0))
    found = []
    for threads in (1, 2, 3, 8):
        fg.set_num_threads(threads)
        grads = fg.autograd.grad(f(x, w, b), (x, w, b), v)
        found.append([t.numpy() for t in (*grads, alone(fg.cat([v] * 3)))])
    for others in found[1:]:
        for a, e in zip(others, found[0], strict=True):
            np.testing.assert_array_equal(a, e)


def test_the_sums_are_exact_to_float32():
    """Accumulated in float64, as other sums: ones and tiny numbers in turns."""
    x = fg.zeros(40_000, 64)
    x[0::2], x[1::2] = 1.0, 1e-8
    got = fg.compile(lambda x: x.sum(0))(x)
    assert fg.equal(got, fg.full((64,), float(np.float32(20_000 + 20_000e-8))))
    w = fg.ones(64, requires_grad=True)
    y = fg.compile(lambda x, w: fg.relu(x * w))(x, w)
    (g,) = fg.autograd.grad(y, w, fg.ones_like(y))
    assert fg.equal(g, got)


def test_rows_are_read_once():
    """One nest computes the rows and adds to the sums; the second reads the sums of parts alone."""
    from fusegrad.compiler.kernel.columns import along_rows

    from fusegrad.dtypes import float32
    from fusegrad.native.nest import Loop, Nest, Phase, Reduce, Store
    from fusegrad.native.scalar import b

    x = b.load("x", float32, 0, {"i": 100, "j": 1})
    rows = Nest((Loop("i", 4000), Loop("j", 100)), (Phase(stores=(Store("y", x * 2.0, terms={"i": 100, "j": 1}),)),))
    made = b.load("y", float32, 0, {"r": 100, "c": 1})
    sums = Phase((Loop("r", 4000),), (Reduce("s", "add", made * made),))
    columns = Nest((Loop("c", 100),), (sums, Phase(stores=(Store("z", b.acc("s", float32), terms={"c": 1}),))))
    (first, second), scratch = along_rows(rows, columns, 3)
    assert first.together == 250 and len(first.outer) == 1 and len(first.phases) == 1
    assert {s.access.buffer for s in first.phases[0].stores} == {"y", "columns3_0"}
    assert second.phases[0].inner == (Loop("part", 16),)
    assert [(s.name, s.size, s.scope) for s in scratch] == [("columns3_0", 1600, "parts")]
    shifted = Phase((Loop("r", 4000),), (Reduce("s", "add", b.load("y", float32, 1, {"r": 100, "c": 1})),))
    assert along_rows(rows, Nest((Loop("c", 100),), (shifted, *columns.phases[1:])), 3) is None  # written meanwhile
