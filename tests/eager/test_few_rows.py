"""Products of few rows with a transposed matrix: the other way round where it pays, right, the same compiled."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as T
from fusegrad import blas

RNG = np.random.default_rng(5)


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


SIZES = [(8, 784, 512), (4, 784, 512), (2, 128, 1024), (16, 256, 256), (32, 128, 300), (64, 1024, 1024), (33, 512, 264),
         (3, 300, 700)]  # fmt: skip


def layouts(m: int, k: int, n: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Left and right operands of every order, cut out of others, negative steps, read-only."""
    a, w = numbers(m, k), numbers(n, k)
    fixed = w.copy()
    fixed.flags.writeable = False
    return [
        (a, w.T), (a, np.ascontiguousarray(w.T)), (np.asfortranarray(a), w.T), (numbers(m, k + 3)[:, 3:], w.T),
        (a[::-1], w.T), (a, w[::-1].T), (a, fixed.T), (a, numbers(n, k + 1)[:, 1:].T), (numbers(2 * m, k)[::2], w.T),
    ]  # fmt: skip


@pytest.mark.parametrize("m,k,n", [*SIZES, (0, 256, 512), (1, 784, 512), (128, 256, 256), (8, 0, 512), (4, 4, 4)])
def test_product_is_right(m: int, k: int, n: int) -> None:
    for a, b in layouts(m, k, n):
        want = a.astype(np.float64) @ b.astype(np.float64)
        out = np.full((m, n), np.nan, np.float32)
        assert blas.best_dot(a, b, out) is out
        for found in (out, blas.best_dot(a, b), T.matmul(T.from_numpy(a.copy()), T.from_numpy(b.copy())).numpy()):
            assert found.flags.c_contiguous and found.dtype == np.float32
            np.testing.assert_allclose(found, want, rtol=0, atol=2e-6 * max(k, 1))


@pytest.mark.parametrize("m,k,n", SIZES)
def test_only_where_it_pays(m: int, k: int, n: int) -> None:
    a, w = numbers(m, k), numbers(n, k)
    assert blas.few_rows(a, w.T) == (8 * m <= n and m * n >= 2048)
    assert not blas.few_rows(a, np.ascontiguousarray(w.T)) and not blas.few_rows(a[:, ::-1], w.T)
    assert not blas.few_rows(a.astype(np.float64), w.astype(np.float64).T)
    assert not blas.few_rows(numbers(n, k), w.T) and not blas.few_rows(a[:1], w.T)


def test_sizes_that_are_taken() -> None:
    taken = [s for s in SIZES if blas.few_rows(numbers(s[0], s[1]), numbers(s[2], s[1]).T)]
    assert taken == [(8, 784, 512), (4, 784, 512), (2, 128, 1024), (16, 256, 256), (32, 128, 300), (64, 1024, 1024),
                     (33, 512, 264), (3, 300, 700)]  # fmt: skip


@pytest.mark.parametrize("m,k,n", [*SIZES, (1, 784, 512), (128, 256, 256)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_is_eager_to_the_bit(m: int, k: int, n: int, dynamic: bool) -> None:
    """The values of a product depend on the order; eager and compiled code choose the same."""
    w, b = T.from_numpy(numbers(n, k)).requires_grad_(), T.from_numpy(numbers(n)).requires_grad_()

    def f(x: T.Tensor) -> T.Tensor:
        return T.nn.functional.linear(x, w, b).relu() + (x.unsqueeze(0) @ w.T)[0]

    compiled = T.compile(f, dynamic=dynamic, fullgraph=True)
    for rows in (m, m + 1):
        x = T.from_numpy(numbers(rows, k)).requires_grad_()
        found, want = compiled(x), f(x)
        assert found.tolist() == want.tolist()
        ours = T.autograd.grad(found.sum(), (x, w, b))
        for g, e in zip(ours, T.autograd.grad(want.sum(), (x, w, b)), strict=True):
            np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-5, atol=1e-4)


def test_number_of_threads_is_as_before() -> None:
    read = blas._find()[0]
    before = read()
    a, w = numbers(8, 784), numbers(512, 784)
    assert blas.few_rows(a, w.T)
    blas.best_dot(a, w.T)
    assert read() == before
