"""Distances by machine code against the operators that they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.ops.products import euclidean, manhattan

SIZES = [((5, 3), (4, 3)), ((2, 5, 3), (4, 3)), ((2, 1, 5, 3), (3, 1, 3)), ((40, 19), (30, 19))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("p", [1, 2])
def test_cdist(p, sizes, dtype):
    """Values and gradients, also of rows that coincide and of what is no number."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(dtype) for s in sizes)
    b.reshape(-1, b.shape[-1])[0] = a.reshape(-1, a.shape[-1])[0]
    a.reshape(-1, a.shape[-1])[-1, 0] = np.nan
    op = {1: manhattan, 2: euclidean}[p]
    results = []
    for f in (lambda x, y: fg.cdist(x, y, p), op.decompose):
        x, y = fg.tensor(a, requires_grad=True), fg.tensor(b, requires_grad=True)
        d = f(x, y)
        g = fg.tensor(np.random.default_rng(1).standard_normal(tuple(d.shape)).astype(dtype))
        results.append([d.detach().numpy(), *(v.numpy() for v in fg.autograd.grad(d, [x, y], g))])
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_derivatives_of_sums_of_absolute_differences():
    rng = np.random.default_rng(2)
    x, y = (fg.tensor(rng.standard_normal(s), requires_grad=True) for s in ((4, 3), (2, 3)))
    assert fg.autograd.gradcheck(lambda x, y: fg.cdist(x, y, 1), (x, y))
    assert fg.autograd.gradgradcheck(lambda x, y: fg.cdist(x, y, 1), (x, y))
    assert type(fg.cdist(x, y, 1).grad_fn).__name__ == "CdistBackward0"


def test_many_distances_in_a_graph():
    """Captured where their own kernels are faster than loops of the graph: the same values and derivatives, also of
    broadcast batches, rows that coincide, and what is no number; to the second order."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2, 1, 40, 37)), rng.standard_normal((45, 37))
    b[0] = a[0, 0, 0]
    a[1, 0, -1, 0], a[1, 0, -2, 0] = np.nan, np.inf
    f = fg.compile(lambda x, y: fg.cdist(x, y).tanh().sum(-1))
    results = []
    for g in (f, lambda x, y: euclidean.decompose(x, y.expand(2, 1, 45, 37)).tanh().sum(-1)):
        x, y = fg.tensor(a, requires_grad=True), fg.tensor(b, requires_grad=True)
        d = g(x, y)
        results.append([d.detach().numpy(), *(v.numpy() for v in fg.autograd.grad(d.sum(), [x, y]))])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)

    def curved(x, y):
        gx, gy = fg.autograd.grad(fg.cdist(x, y).square().sum(), [x, y], create_graph=True)
        return fg.cdist(gx, gy).sum()

    results = []
    for g in (fg.compile(curved), curved):
        x, y = fg.tensor(a[0, 0], requires_grad=True), fg.tensor(b[1:], requires_grad=True)
        g(x, y).backward()
        results.append([x.grad.numpy(), y.grad.numpy()])
    for got, wanted in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
