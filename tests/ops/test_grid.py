"""grid_sample: images and volumes in machine code against the operators that define it, and against numbers."""

import itertools

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional
CASES = [
    (nd, mode, padding, align)
    for nd, mode in ((2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest"))
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
]


@pytest.mark.parametrize(("nd", "mode", "padding", "align"), CASES)
def test_machine_code_as_operators(nd, mode, padding, align):
    from fusegrad.ops.nn_grid import _composed

    rng = np.random.default_rng(0)
    for size, points in (((4, 5, 3)[:nd], (3, 2, 4)[:nd]), ((1, 6, 2)[:nd], (2, 5, 1)[:nd])):
        x = fg.tensor(rng.standard_normal((2, 3, *size)), requires_grad=True)
        grid = fg.tensor(rng.standard_normal((2, *points, nd)) * 1.5, requires_grad=True)
        found = []
        for f in (lambda *a: F.grid_sample(*a[:4], align_corners=a[4]), _composed):
            y = f(x, grid, mode, padding, align)
            found.append([y, *fg.autograd.grad(y, (x, grid), fg.cos(fg.arange(y.numel()).view(y.shape).double()))])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)
        y = F.grid_sample(x.detach().float(), grid.detach().float(), mode, padding, align)
        if mode != "nearest":
            np.testing.assert_allclose(y.numpy(), found[0][0].detach().numpy(), rtol=1e-3, atol=1e-4)


def test_volumes_written_out():
    rng = np.random.default_rng(1)
    x, grid = rng.standard_normal((2, 3, 4, 5, 6)), rng.uniform(-1.2, 1.2, (2, 3, 2, 4, 3))
    want = np.zeros((2, 3, 3, 2, 4))
    for n, *p in itertools.product(*map(range, (2, 3, 2, 4))):
        c = [((g + 1) * s - 1) / 2 for g, s in zip(grid[(n, *p)][::-1], x.shape[2:], strict=True)]
        for corner in itertools.product((0, 1), repeat=3):
            at = [int(np.floor(v)) + k for v, k in zip(c, corner, strict=True)]
            if all(0 <= a < s for a, s in zip(at, x.shape[2:], strict=True)):
                weight = np.prod([1 - abs(v - a) for v, a in zip(c, at, strict=True)])
                want[(n, slice(None), *p)] += weight * x[(n, slice(None), *at)]
    got = F.grid_sample(fg.tensor(x), fg.tensor(grid), align_corners=False)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-12)


def test_volumes_have_gradients_of_both_orders():
    g = fg.Generator().manual_seed(0)
    x, grid = (
        fg.randn(*s, dtype=fg.float64, generator=g, requires_grad=True) for s in ((1, 2, 3, 3, 2), (1, 2, 1, 2, 3))
    )
    f = lambda x, grid: F.grid_sample(x, grid * 0.3, align_corners=True)  # noqa: E731
    assert fg.autograd.gradcheck(f, (x, grid)) and fg.autograd.gradgradcheck(f, (x, grid))


@pytest.mark.parametrize("nd", [2, 3])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_no_slope_on_the_border_itself(nd, padding):
    """As in PyTorch: a grid that ends at the border's pixels is usual (align_corners=True)."""
    x = fg.arange(3.0**nd).view(1, 1, *(3,) * nd)
    for compiled in (False, True):
        f = lambda grid: F.grid_sample(x, grid, padding_mode=padding, align_corners=True)  # noqa: E731
        f = fg.compile(f) if compiled else f
        for first, slope in (
            (-1.0, 0.0),
            (1.0, 0.0),
            (0.5, 1.0),
            (-0.25, 1.0),
            (-2.5 if padding == "border" else 3.0, 0.0),
        ):
            grid = fg.full((1,) * (nd + 1) + (nd,), 0.3)
            grid[..., 0] = first
            grid.requires_grad_()
            f(grid).sum().backward()
            assert grid.grad.flatten()[0].item() == pytest.approx(slope, abs=1e-5)
            assert grid.grad.flatten()[1].item() == pytest.approx(3.0)


@pytest.mark.parametrize("nd", [2, 3])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_points_that_are_nowhere(nd, padding):
    x = fg.ones((1, 2) + (4,) * nd)
    for value in (float("nan"), float("inf"), -float("inf"), 1e30):
        grid = fg.zeros((1,) + (2,) * nd + (nd,))
        grid[(0,) * (nd + 1)] = value
        y = F.grid_sample(x, grid, padding_mode=padding, align_corners=False)
        assert (y.flatten(2)[..., 1:] == 1).all()
