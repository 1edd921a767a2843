"""Eager kernels of distances, running extrema and logsumexp, products and norms, operators of several tensors."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as torch

KINDS = (np.float32, np.float64)


@pytest.mark.parametrize("dtype", KINDS)
def test_distances_and_their_gradients(dtype: type) -> None:
    rng = np.random.default_rng(0)
    a, c = rng.normal(size=(2, 9, 5)).astype(dtype), rng.normal(size=(2, 7, 5)).astype(dtype)
    c[0, 3] = a[0, 2]  # no distance, no gradient
    x, z = (torch.from_numpy(v).requires_grad_() for v in (a, c))
    d = torch.cdist(x, z)
    apart = a[:, :, None].astype(float) - c[:, None].astype(float)
    far = np.sqrt((apart**2).sum(-1))
    tolerance = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(d.detach().numpy(), far, rtol=tolerance, atol=tolerance)
    g = rng.normal(size=far.shape).astype(dtype)
    gx, gz = torch.autograd.grad(d, (x, z), torch.from_numpy(g))
    weight = np.divide(g, far, out=np.zeros_like(far), where=far > 0)[..., None] * apart
    np.testing.assert_allclose(gx.numpy(), weight.sum(2), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gz.numpy(), -weight.sum(1), rtol=tolerance, atol=tolerance)
    one = torch.cdist(x[0], z)  # batches broadcast
    np.testing.assert_allclose(one.detach().numpy()[1], np.sqrt(((a[0][:, None] - c[1]) ** 2).sum(-1)), rtol=tolerance)
    i, j = np.triu_indices(9, 1)
    np.testing.assert_allclose(torch.pdist(x[0]).detach().numpy(), np.linalg.norm(a[0][i] - a[0][j], axis=1), rtol=1e-5)


def test_distances_to_the_second_order() -> None:
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    z = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.cdist, (x, z)) and torch.autograd.gradgradcheck(torch.cdist, (x, z))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_running_extrema_of_large_arrays(dtype: type, dim: int) -> None:
    x = np.random.default_rng(2).normal(size=(130, 140)).round(1).astype(dtype)
    x[3, 4], x[5, 5], x[6, 6] = np.nan, np.inf, -np.inf
    shape = [1, 1]
    shape[dim] = -1
    for f, ufunc in ((torch.cummax, np.maximum), (torch.cummin, np.minimum)):
        values, places = f(torch.from_numpy(x), dim)
        want = ufunc.accumulate(x, dim)
        np.testing.assert_array_equal(values.numpy(), want)
        last = np.where((x == want) | np.isnan(x), np.arange(x.shape[dim]).reshape(shape), 0)
        np.testing.assert_array_equal(places.numpy(), np.maximum.accumulate(last, dim))


@pytest.mark.parametrize("dtype", KINDS)
def test_operators_of_several_large_tensors(dtype: type) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 130, 140)).astype(dtype)
    x[0, :5], y[0, :5] = [np.inf, np.nan, 0, -np.inf, 0], [np.nan, np.inf, 0, 3, 5]
    a, c = torch.from_numpy(x), torch.from_numpy(y)
    close = 4e-7 if dtype is np.float32 else 1e-15
    np.testing.assert_allclose(torch.hypot(a, c).numpy(), np.hypot(x, y), rtol=close)
    np.testing.assert_allclose(torch.hypot(a * 1e30, c * 1e30).numpy()[1:], np.hypot(x, y)[1:] * 1e30, rtol=2e-6)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(torch.logaddexp(a, c).numpy(), np.logaddexp(x, y), rtol=1e-6, atol=1e-7)
    w = torch.from_numpy(y[1])
    np.testing.assert_array_equal(torch.nn.functional.prelu(a, w).numpy(), np.where(x > 0, x, x * y[1]))
    near = 1 + 0.01 * y[1:]
    np.testing.assert_allclose(torch.from_numpy(near).prod(1).numpy(), near.prod(1), rtol=1e-4)
    np.testing.assert_allclose(torch.from_numpy(near).norm(dim=0).numpy(), np.linalg.norm(near, axis=0), rtol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_length(mode: str) -> None:
    rng = np.random.default_rng(4)
    index, table = rng.integers(0, 9, (5, 3)), rng.normal(size=(9, 4))
    w = torch.from_numpy(table).requires_grad_()
    bags = torch.nn.functional.embedding_bag(torch.from_numpy(index), w, mode=mode)
    split = torch.nn.functional.embedding_bag(torch.from_numpy(index.ravel()), w, torch.arange(0, 15, 3), mode=mode)
    np.testing.assert_allclose(bags.detach().numpy(), getattr(table[index], mode)(1))
    g = torch.from_numpy(rng.normal(size=(5, 4)))
    one, other = (torch.autograd.grad(v, w, g)[0].numpy() for v in (bags, split))
    np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("dim", [0, 1])
def test_running_logsumexp_of_large_arrays(dtype: type, dim: int) -> None:
    x = (np.random.default_rng(5).normal(size=(130, 140)) * 8).astype(dtype)
    x[0, :3] = x[:3, 0] = x[9] = x[10, 20:] = -np.inf
    x[5, 5], x[7, 7], x[11, 3] = np.inf, np.nan, 1e30
    x[12, :50], x[12, 50:] = -1e4, 1e4
    with np.errstate(invalid="ignore"):
        want = np.logaddexp.accumulate(x.astype(np.float64), dim)
    close = 3e-6 if dtype is np.float32 else 1e-13
    for f in (torch.logcumsumexp, torch.compile(torch.logcumsumexp)):
        np.testing.assert_allclose(f(torch.from_numpy(x), dim).numpy(), want, rtol=close, atol=close)
    y = torch.from_numpy(x[20:].astype(np.float64)).requires_grad_()
    part = y[:, :70]  # below the size from which there is a kernel
    big, small = torch.logcumsumexp(torch.cat([part, part, part]), 1), torch.logcumsumexp(part, 1)
    g = torch.from_numpy(np.random.default_rng(6).normal(size=(110, 70)))
    (one,) = torch.autograd.grad(big, y, torch.cat([g, g, g]), retain_graph=True)
    (other,) = torch.autograd.grad(small, y, 3 * g)
    np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
