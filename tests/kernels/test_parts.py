"""Reductions of everything in parts: values, exact order for any number of threads, sizes that do not divide."""

from __future__ import annotations

import math

import fusegrad.compiler as compiler
import numpy as np
import pytest
from fusegrad.compiler.kernel import parts

import fusegrad as fg

rng = np.random.default_rng(5)
SHAPES = [(200_003,), (64 * 3000,), (3, 70_001), (2, 300, 401), (65, 63, 50), (1, 150_000)]
REDUCTIONS = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "max": lambda x: x.amax(),
    "min": lambda x: x.amin(),
    "all": lambda x: (x > -3).all(),
    "any": lambda x: (x > 3).any(),
    "sum and maximum": lambda x: (x.sum(), (x * 2).amax(), x.amin() + 1),
    "mean of squares": lambda x: ((x - 1) ** 2).mean().sqrt(),
    "of what is returned": lambda x: (lambda y: (y, y.sum()))(x.exp()),
}


def _results(f, *args):
    out = f(*args)
    return [t.numpy() for t in (out if isinstance(out, tuple) else (out,))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_values(name, shape, dtype):
    f = REDUCTIONS[name]
    x = fg.tensor(rng.standard_normal(shape).astype(dtype))
    tolerance = 1e-6 if dtype is np.float32 else 1e-14
    for got, want in zip(_results(compiler.compile(f), x), _results(f, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=20 * tolerance, atol=20 * tolerance)


def test_sums_are_as_exact_as_a_float64_sum():
    x = rng.standard_normal(1_000_003).astype(np.float32)
    got = compiler.compile(lambda t: t.sum())(fg.tensor(x)).item()
    assert got == np.float32(math.fsum(x.tolist()))


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_special_values_anywhere(special):
    x = rng.standard_normal(200_003).astype(np.float32)
    compiled = [compiler.compile(f) for f in (lambda t: t.amax(), lambda t: t.amin(), lambda t: t.sum())]
    for at in (0, 100_000, 200_001, 200_002):
        y = x.copy()
        y[at] = special
        for f, want in zip(compiled, (y.max(), y.min(), y.sum()), strict=True):
            if not np.isfinite(want):
                np.testing.assert_equal(f(fg.tensor(y)).item(), float(want))


def test_threads_do_not_change_bits():
    x = fg.tensor(rng.standard_normal(3_000_017).astype(np.float32))
    f = compiler.compile(lambda t: ((t * 1.3 - 0.2).exp() + t * t).sum())
    before, found = fg.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 7):
            fg.set_num_threads(threads)
            found.append(f(x).item())
    finally:
        fg.set_num_threads(before)
    assert len(set(found)) == 1


def test_symbolic_sizes():
    """One version for sizes above and below what is worth parts, nothing among them."""
    f = compiler.compile(lambda t: (t * 2).sum())
    for n in (150_000, 150_001, 400_000, 63, 64, 5, 1, 200_000):
        x = rng.standard_normal((n, 3)).astype(np.float32)
        np.testing.assert_allclose(f(fg.tensor(x)).item(), 2 * math.fsum(x.ravel().tolist()), rtol=1e-5, atol=1e-4)


def test_gradients():
    x = fg.tensor(rng.standard_normal((700, 301)).astype(np.float32), requires_grad=True)
    f = lambda t: ((t - t.mean()) ** 2).mean() + t.amax()
    got, want = (fg.autograd.grad(g(x), x)[0].numpy() for g in (compiler.compile(f), f))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-9)


def test_short_ones_too(monkeypatch):
    """The cut itself, with other lengths of the first loop than long reductions have."""
    monkeypatch.setattr(parts, "LEAST", 1)
    for shape in ((2,), (3, 2), (63, 2), (64, 1), (65, 3), (129, 2)):
        x = rng.uniform(0.8, 1.2, shape).astype(np.float32)
        f = compiler.compile(lambda t: (t.sum(), t.prod(), t.amax()), dynamic=False)
        for got, want in zip(_results(f, fg.tensor(x)), (x.sum(), x.prod(dtype=np.float64), x.max()), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5)


def test_numba_gives_the_same_bits():
    x = fg.tensor(rng.standard_normal(200_003).astype(np.float32))
    f = lambda t: (t * t + 1).sum()
    a, b = (compiler.compile(f, options={"codegen": c})(x).item() for c in ("llvm", "numba"))
    assert a == b
