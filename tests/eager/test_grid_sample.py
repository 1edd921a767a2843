"""grid_sample of images: machine code against the operators that it is made of, and derivatives of any order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.nn.functional import grid_sample
from fusegrad.ops.nn_grid import _composed

WAYS = [*itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True))]
SIZES = [((2, 3, 5, 7), (2, 4, 6, 2)), ((1, 1, 1, 1), (1, 2, 3, 2)), ((2, 1, 3, 1), (2, 5, 1, 2))]


def arrays(image, points, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x, grid = rng.standard_normal(image).astype(dtype), (rng.standard_normal(points) * 1.2).astype(dtype)
    grid.flat[:5] = -1, 1, 0, 0.5, -0.5
    return x, grid, rng.standard_normal((*image[:2], *points[1:3])).astype(dtype)


def results(f, x, grid, g):
    x, grid = fg.tensor(x, requires_grad=True), fg.tensor(grid, requires_grad=True)
    y = f(x, grid)
    return y.detach().numpy(), *(t.numpy() for t in fg.autograd.grad(y, [x, grid], fg.tensor(g)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_as_its_operators(how, dtype):
    for image, points in SIZES:
        given = arrays(image, points, dtype)
        got = results(lambda x, c: grid_sample(x, c, *how), *given)
        wanted = results(lambda x, c: _composed(x, c, *how), *given)
        np.testing.assert_array_equal(got[0], wanted[0])
        tolerance = 2e-5 if dtype is np.float32 else 1e-12
        for a, b in zip(got[1:], wanted[1:], strict=True):
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_points_and_pixels_that_are_no_numbers(how):
    """What lies outside is 0, not a weight of 0 times a pixel; no place is read that is not there."""
    x, grid, _ = arrays((2, 3, 5, 7), (2, 4, 6, 2), np.float32)
    grid.flat[[0, 3, 6, 8, 11]] = np.nan, np.inf, -np.inf, 1e30, -1e30
    x.flat[5], x.flat[50] = np.nan, np.inf
    with fg.no_grad():
        got, wanted = (f(fg.tensor(x), fg.tensor(grid), *how).numpy() for f in (grid_sample, _composed))
    np.testing.assert_array_equal(got, wanted)


def not_numbers():
    x, grid, g = arrays((2, 3, 5, 7), (2, 4, 6, 2), np.float32)
    grid.flat[[0, 3, 6, 8, 11]] = np.nan, np.inf, -np.inf, 1e30, -1e30
    return x, grid, g


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_gradients_at_points_that_are_no_numbers(how):
    """A pixel gets nothing from a point that lies outside, in machine code as by the operators."""
    x, grid, g = not_numbers()
    for pixels in ((), (5, 50)):
        x.flat[list(pixels)] = np.inf
        got = results(lambda x, c: grid_sample(x, c, *how), x, grid, g)
        wanted = results(lambda x, c: _composed(x, c, *how), x, grid, g)
        if not pixels and how[:2] != ("bicubic", "border"):  # a weight that is no number times a border's pixel
            assert np.isfinite(got[1]).all()
        count = 2 if pixels and how[0] == "bicubic" else 3  # inf or NaN for the grid: the order of the products
        for a, b in zip(got[:count], wanted[:count], strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_compiled_gradients_at_points_that_are_no_numbers(mode):
    given = not_numbers()
    compiled = fg.compile(lambda x, c: grid_sample(x, c, mode, align_corners=False))
    got, wanted = results(compiled, *given), results(lambda x, c: grid_sample(x, c, mode, align_corners=False), *given)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("how", [("bilinear", "zeros"), ("bicubic", "border"), ("bilinear", "reflection")])
def test_derivatives(how):
    rng = np.random.default_rng(1)
    x = fg.tensor(rng.standard_normal((1, 2, 3, 4)), requires_grad=True)
    grid = fg.tensor(rng.uniform(-0.8, 0.8, (1, 2, 2, 2)), requires_grad=True)

    def f(x, grid):
        return grid_sample(x, grid, *how, False)

    assert fg.autograd.gradcheck(f, (x, grid)) and fg.autograd.gradgradcheck(f, (x, grid))
    y = f(x, grid)
    assert type(y.grad_fn).__name__ == "GridSampler2DBackward0"
    rows = fg.tensor(rng.standard_normal((3, *y.shape)))
    batched = fg.autograd.grad(y, [x, grid], rows, is_grads_batched=True, retain_graph=True)
    for k in range(3):
        for one, all_ in zip(fg.autograd.grad(y, [x, grid], rows[k], retain_graph=True), batched, strict=True):
            np.testing.assert_allclose(all_[k].numpy(), one.numpy(), rtol=1e-12, atol=1e-12)


def test_transforms_and_other_layouts():
    x, grid, _ = (fg.tensor(a) for a in arrays((1, 2, 4, 5), (1, 3, 2, 2), np.float64))

    def f(x, grid):
        return grid_sample(x, grid, align_corners=False)

    def plain(x, grid):
        return _composed(x, grid, "bilinear", "zeros", False)

    def loss(h):
        return lambda c: h(x, c).pow(3).sum()

    close = np.testing.assert_allclose
    close(fg.func.jacfwd(f, 1)(x, grid).numpy(), fg.func.jacrev(f, 1)(x, grid).numpy(), rtol=1e-12, atol=1e-12)
    close(fg.func.hessian(loss(f))(grid).numpy(), fg.func.hessian(loss(plain))(grid).numpy(), rtol=1e-12)
    many = fg.func.vmap(f)(fg.stack([x, x * 2]), fg.stack([grid, grid / 2])).numpy()
    np.testing.assert_array_equal(many, np.stack([f(x, grid).numpy(), f(x * 2, grid / 2).numpy()]))
    turned = f(x.transpose(2, 3).contiguous().transpose(2, 3), grid.flip(1).flip(1).expand(1, 3, 2, 2))
    np.testing.assert_array_equal(turned.numpy(), f(x, grid).numpy())
