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
