"""Sums of weighted slices by tables: resampling, its derivatives of every order, eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.nn import functional as F
from fusegrad.ops.resample import along, tables

MODES = [("linear", 1), ("bilinear", 2), ("bicubic", 2), ("nearest", 2), ("nearest-exact", 1), ("trilinear", 3)]


def matrix(n: int, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    found = np.zeros((places.shape[1], n))
    for k, row in enumerate(places):
        for i, p in enumerate(row):
            if p >= 0:
                found[i, p] += weights[k, i]
    return found


@pytest.mark.parametrize("taps", [1, 2, 5, 9])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_is_a_matrix_and_its_transpose(taps: int, dtype: type) -> None:
    rng = np.random.default_rng(taps)
    places, weights = rng.integers(0, 7, (taps, 11)), rng.normal(size=(taps, 11)).astype(dtype)
    m = matrix(7, places, weights)
    np.testing.assert_allclose(matrix(11, *tables(places, weights, 7)), m.T, rtol=1e-6)
    for dim in (0, 1, 2):
        shape = [3, 4, 5]
        shape[dim] = 7
        data = rng.normal(size=shape).astype(dtype)
        for order in ("C", "F"):
            x = torch.from_numpy(np.asarray(data, order=order)).requires_grad_()
            y = along(x, dim, list(places), list(weights))
            want = np.moveaxis(np.moveaxis(data, dim, -1) @ m.T, -1, dim)
            tolerance = 1e-5 if dtype is np.float32 else 1e-13
            np.testing.assert_allclose(y.detach().numpy(), want, rtol=tolerance, atol=tolerance)
            g = rng.normal(size=want.shape).astype(dtype)
            (gx,) = torch.autograd.grad(y, x, torch.from_numpy(g))
            back = np.moveaxis(np.moveaxis(g, dim, -1) @ m, -1, dim)
            np.testing.assert_allclose(gx.numpy(), back, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode,nd", MODES)
def test_resampling_compiled_and_to_the_second_order(mode: str, nd: int) -> None:
    x = torch.randn(2, 2, *(6, 5, 4)[:nd], dtype=torch.float64, requires_grad=True)
    f = lambda v: F.interpolate(v * v, size=(9, 3, 7)[:nd], mode=mode)
    assert torch.autograd.gradgradcheck(f, (x,))
    g = torch.compile(f)
    for v in (f(x), g(x)):
        (grad,) = torch.autograd.grad(v.square().sum(), x)
        np.testing.assert_allclose(v.detach().numpy(), f(x).detach().numpy(), rtol=1e-12)
        np.testing.assert_allclose(grad.numpy(), torch.autograd.grad(f(x).square().sum(), x)[0].numpy(), rtol=1e-12)


def test_infinite_elements_stay_where_they_are() -> None:
    """What is only padding in a table meets no element: 0 times infinity would be NaN."""
    x = torch.zeros(1, 1, 8, requires_grad=True)
    y = F.interpolate(x, size=3, mode="nearest")
    g = torch.tensor([[[float("inf"), 1.0, 2.0]]])
    (gx,) = torch.autograd.grad(y, x, g)
    np.testing.assert_array_equal(gx.numpy(), [[[np.inf, 0, 1, 0, 0, 2, 0, 0]]])


def test_places_outside_are_refused() -> None:
    from fusegrad.ops.resample import weighted_slices

    x, w = torch.zeros(3), torch.ones(1, 2)
    bad = torch.tensor([[0, 3]])
    with pytest.raises(IndexError, match="outside"):
        weighted_slices(x, bad, w, bad, w, 0)
