"""Eager operators on large arrays by machine code, and gradients in one pass: what numpy's form of them gives."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.ops import cumulative

F = torch.nn.functional


@pytest.mark.parametrize("shape", [(200, 300), (17, 1000), (20000,), (5, 70, 60), (40, 50, 11)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_running_sums_have_the_bits_of_numpy(shape: tuple, dtype, monkeypatch) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=dtype)
    spoiled = x.clone()
    spoiled.reshape(-1)[5000], spoiled.reshape(-1)[9000] = float("inf"), float("nan")
    given = [x, spoiled, x.movedim(0, -1), x * (1e38 if dtype is torch.float32 else 1e307)]

    def both() -> list:
        found = []
        for t in given:
            for dim in range(t.ndim):
                leaf = t.detach().requires_grad_()
                y = leaf.cumsum(dim)
                (g,) = torch.autograd.grad(y, leaf, t)
                found += [y.detach().numpy(), g.numpy()]
        return found

    native = both()
    monkeypatch.setattr(cumulative, "LARGE", 1 << 60)
    with np.errstate(all="ignore"):
        for a, b in zip(native, both(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_running_sums_of_other_dtypes_and_with_one() -> None:
    x = torch.ones(200, 100, dtype=torch.int32)
    assert x.cumsum(1).dtype is torch.int64 and x.cumsum(1)[0, -1] == 100
    assert x.float().cumsum(0, dtype=torch.float64).dtype is torch.float64
    y = torch.ones(200, 100)
    y.cumsum_(0)
    assert y[-1].eq(200).all() and y._version == 1


@pytest.mark.parametrize("shape", [(64, 10), (8, 10, 5), (10,)])
@pytest.mark.parametrize("ignore", [-100, 3])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_the_gradient_of_picked_classes(shape: tuple, ignore: int, reduction: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(*shape).requires_grad_()
    target = torch.randint(0, 10, (*shape[:1], *shape[2:]) if len(shape) > 1 else ())
    if ignore == -100 and target.ndim == 1:
        target[5] = -100

    def f(x):
        return F.nll_loss(x, target, ignore_index=ignore, reduction=reduction)

    v = torch.randn(*f(x).shape)
    (once,) = torch.autograd.grad(f(x), x, v)
    (recorded,) = torch.autograd.grad(f(x), x, v, create_graph=True)
    (compiled,) = torch.autograd.grad(torch.compile(f)(x), x, v)
    np.testing.assert_allclose(once.numpy(), recorded.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(once.numpy(), compiled.numpy(), rtol=1e-6)


def test_a_cotangent_that_is_not_finite_stays_at_the_target() -> None:
    """As in PyTorch: it was spread over the row as NaN, by a product with zero."""
    x, target = torch.randn(3, 4, requires_grad=True), torch.tensor([1, 2, 0])
    v = torch.tensor([float("inf"), 2.0, float("nan")])
    want = np.zeros((3, 4), np.float32)
    want[0, 1], want[1, 2], want[2, 0] = -np.inf, -2, np.nan

    def f(x):
        return F.nll_loss(x, target, reduction="none")

    for y, record in ((f(x), False), (f(x), True), (torch.compile(f)(x), False)):
        (g,) = torch.autograd.grad(y, x, v, create_graph=record)
        np.testing.assert_array_equal(g.detach().numpy(), want)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_relu_of_many_is_that_of_few(kind):
    """Bit by bit (signs of zeros, NaN), in any layout, in place too, and with its gradient."""
    few = np.array([-0.0, 0.0, np.nan, -1, 1, np.inf, -np.inf, 5], kind)
    want = torch.from_numpy(few.copy()).relu().numpy()
    bits = f"i{few.itemsize}"
    for lay in (lambda a: a, np.asfortranarray, lambda a: np.repeat(a, 2, 1)[:, ::2]):
        t = torch.from_numpy(lay(np.repeat(few[None], 100, 0)))
        out = t.relu()
        assert out.stride() == (t * 1).stride()
        again = t.clone().relu_()
        for r in (out, again):
            np.testing.assert_array_equal(r.numpy().copy().view(bits), np.repeat(want[None], 100, 0).view(bits))
        leaf = t.detach().clone().requires_grad_()
        leaf.relu().sum().backward()
        np.testing.assert_array_equal(leaf.grad.numpy(), (np.isnan(t.numpy()) | (t.numpy() > 0)).astype(kind))
