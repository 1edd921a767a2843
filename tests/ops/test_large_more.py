"""Operators that have machine code for large arrays alone: against numpy, or the operators that they are made of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.ops._pool_kernels import adaptive_bounds

F = torch.nn.functional
RNG = np.random.default_rng(3)
INF, NAN = float("inf"), float("nan")
ODD = [0.0, -0.0, 1, -1, 2.5, -2.5, INF, -INF, NAN, 1e-45, -1e-45, 3e38, -3e38, 1e30, 7, -7, 0.1, -0.1, 16777217]


def alike(got: torch.Tensor, want: np.ndarray) -> None:
    """Equal in every bit that counts."""
    a = got.detach().numpy()
    np.testing.assert_array_equal(a, want)
    fine = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(a[fine]), np.signbit(want[fine]))


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_remainders(name: str) -> None:
    for dtype in (np.float32, np.float64):
        x, y = (v.ravel() for v in np.meshgrid(np.array(ODD, dtype), np.array(ODD, dtype)))
        x = np.concatenate([x, RNG.standard_normal(20000).astype(dtype) * 1000, np.full(5, 7, dtype)])
        y = np.concatenate([y, RNG.standard_normal(20000).astype(dtype), np.full(5, -3, dtype)])
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x, y)
        alike(getattr(torch, name)(torch.from_numpy(x), torch.from_numpy(y)), want)
        square = x[:20000].reshape(200, 100)
        with np.errstate(all="ignore"):
            want = getattr(np, name)(square, y[:100])
        alike(getattr(torch, name)(torch.from_numpy(square), torch.from_numpy(y[:100])), want)


def test_threshold() -> None:
    for dtype in (np.float32, np.float64):
        x = np.array(ODD * 1200, dtype)
        alike(F.threshold(torch.from_numpy(x), 0.1, 20.0), np.where(x <= dtype(0.1), dtype(20), x))
        alike(
            F.threshold(torch.from_numpy(x).view(-1, 19).t(), -1, -0.5),
            np.where(x <= -1, dtype(-0.5), x).reshape(-1, 19).T,
        )
    alike(F.threshold(torch.tensor([1, 5]), 3, 7), np.array([7, 5]))


def test_running_products() -> None:
    for dtype, shape, dim in itertools.product((np.float32, np.float64), ((130, 140), (20, 30, 40)), (0, 1, -1)):
        x = (RNG.standard_normal(shape) * 0.9).astype(dtype)
        x.flat[7], x.flat[500], x.flat[900] = NAN, 0, INF
        with np.errstate(all="ignore"):
            want = np.multiply.accumulate(x, dim, np.float64).astype(dtype)
        alike(torch.cumprod(torch.from_numpy(x), dim), want)
        alike(torch.cumprod(torch.from_numpy(np.asfortranarray(x)), dim), want)


@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1), (0, 2), 2])
def test_sums_without_nan(dim: object) -> None:
    x = RNG.standard_normal((30, 40, 20)).astype(np.float32)
    x[x > 1.5] = NAN
    x[:, 3, 3] = NAN
    for a in (x, x.transpose(1, 0, 2)):
        for keep in (False, True):
            got = torch.from_numpy(a).nansum(dim, keepdim=keep)
            np.testing.assert_allclose(
                got.numpy(), np.nansum(a.astype(float), dim, keepdims=keep), rtol=1e-5, atol=1e-5
            )
            leaf = torch.from_numpy(a.copy()).requires_grad_()
            y = leaf.nansum(dim, keepdim=keep)
            np.testing.assert_allclose(y.detach().numpy(), got.numpy(), rtol=1e-5, atol=1e-5)
            (g,) = torch.autograd.grad(y.sum(), leaf)
            np.testing.assert_array_equal(g.numpy(), (~np.isnan(a)).astype(np.float32))
    assert torch.full((3, 2), NAN).nansum(1).tolist() == [0, 0, 0]
    assert torch.tensor([INF, NAN, 1]).nansum() == INF and torch.zeros(0, 3).nansum(0).tolist() == [0, 0, 0]
    assert (
        torch.tensor([1, 2]).nansum() == 3
        and torch.tensor([1.0, NAN]).nansum(dtype=torch.float64).dtype is torch.float64
    )


def test_long_products_and_norms() -> None:
    x = RNG.standard_normal(40000).astype(np.float32)
    y = np.exp(x * 0.01)
    np.testing.assert_allclose(torch.from_numpy(y).prod().item(), np.prod(y.astype(float)), rtol=1e-5)
    np.testing.assert_allclose(torch.from_numpy(x).norm().item(), np.linalg.norm(x.astype(float)), rtol=1e-6)
    x[5] = NAN
    assert torch.from_numpy(x).norm().isnan() and torch.from_numpy(x).prod().isnan()


def test_trapezoids_of_equal_steps() -> None:
    """PyTorch's sum less half of the ends, so an infinite end is no number."""
    y = RNG.standard_normal((7, 9))
    for dim, dx in itertools.product((0, 1, -1), (None, 2, 0.5)):
        got = torch.trapezoid(torch.from_numpy(y), dim=dim, **({} if dx is None else {"dx": dx}))
        np.testing.assert_allclose(got.numpy(), np.trapezoid(y, dx=dx or 1, axis=dim), rtol=1e-12, atol=1e-12)
    assert torch.trapezoid(torch.tensor([INF, 1, 2])).isnan() and torch.trapezoid(torch.tensor([1, INF, 2])) == INF
    assert torch.trapezoid(torch.tensor([5.0])) == 0 and torch.trapezoid(torch.zeros(3, 0)).tolist() == [0, 0, 0]
    whole = torch.trapezoid(torch.tensor([1, 2, 3]))
    assert whole == 4 and whole.dtype is torch.float32
    x = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: torch.trapezoid(x, dx=0.3), (x,))


@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((3, 5, 4001), 7),
        ((2, 9, 50, 47), (7, 40)),
        ((2, 6, 15, 17, 19), (4, 17, 9)),
        ((2, 5, 64, 64), (90, 7)),
        ((1, 9, 90, 90), (1, 7)),
    ],
)
def test_adaptive_means(shape: tuple, size: object) -> None:
    nd = len(shape) - 2
    sizes = (size,) * nd if isinstance(size, int) else size
    x = RNG.standard_normal(shape)
    x.flat[11], x.flat[5000] = NAN, INF
    want = x
    for d, n in enumerate(sizes, 2):
        parts = [want.take(range(a, b), d).mean(d) for a, b in adaptive_bounds(shape[d], n)]
        want = np.stack(parts, d)
    pool = getattr(F, f"adaptive_avg_pool{nd}d")
    for dtype, tol in ((np.float32, 1e-5), (np.float64, 1e-12)):
        leaf = torch.from_numpy(x.astype(dtype)).requires_grad_()
        y = pool(leaf, size)
        np.testing.assert_allclose(y.detach().numpy(), want, rtol=tol, atol=tol)
        v = torch.randn(*y.shape, dtype=y.dtype)
        (g,) = torch.autograd.grad(y, leaf, v)
        back = v.numpy().astype(float)
        for d, n in reversed([*enumerate(sizes, 2)]):
            full = np.zeros((*back.shape[:d], shape[d], *back.shape[d + 1 :]))
            for i, (a, b) in enumerate(adaptive_bounds(shape[d], n)):
                full[(*(slice(None),) * d, slice(a, b))] += back.take([i], d) / (b - a)
            back = full
        np.testing.assert_allclose(g.numpy(), back, rtol=tol * 10, atol=tol)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses_of_images(reduction: str) -> None:
    for dtype, shape in itertools.product(
        (np.float32, np.float64), ((3, 5, 7, 6), (2, 4, 9), (1, 3, 2, 3, 4), (2, 3, 0, 4))
    ):
        x = RNG.standard_normal(shape).astype(dtype)
        target = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
        for ignored in (-100, 1):
            a, i = torch.from_numpy(x).requires_grad_(), torch.from_numpy(target)
            flat = a.movedim(1, -1).reshape(-1, shape[1])
            loss = F.cross_entropy(a, i, ignore_index=ignored, reduction=reduction)
            want = F.cross_entropy(flat, i.reshape(-1), ignore_index=ignored, reduction=reduction)
            nll = F.nll_loss(a.log_softmax(1), i, ignore_index=ignored, reduction=reduction)
            want = want.reshape(loss.shape)
            v = torch.randn(*loss.shape, dtype=loss.dtype)
            tol = 1e-5 if dtype is np.float32 else 1e-12
            grads = [torch.autograd.grad(y, a, v)[0].numpy() for y in (loss, nll, want)]
            for y, g in zip((loss, nll), grads, strict=False):
                np.testing.assert_allclose(y.detach().numpy(), want.detach().numpy(), rtol=tol, atol=tol)
                np.testing.assert_allclose(g, grads[2], rtol=tol, atol=tol)


def test_wrong_targets_of_images() -> None:
    x, i = torch.randn(2, 3, 4, 4), torch.zeros(2, 4, 4, dtype=torch.int64)
    for bad in (3, -1):
        i[1, 2, 3] = bad
        for loss in (F.cross_entropy, F.nll_loss):
            with pytest.raises(IndexError, match=f"Target {bad} is out of bounds"):
                loss(x, i)
            assert loss(x, i, ignore_index=bad).isfinite()
    x[0, 1, 2, 2], x[1, :, 0, 0] = INF, -INF
    i[1, 2, 3] = 0
    loss = F.cross_entropy(x, i, reduction="none")
    assert loss[0, 2, 2].isnan() or loss[0, 2, 2] == INF
    assert loss[1, 0, 0].isnan() and int(loss.isfinite().sum()) == 30


def test_largest_differences() -> None:
    """cdist with p = inf: each difference that is the largest has the whole gradient, as in PyTorch."""
    for dtype, sizes in itertools.product(
        (np.float32, np.float64), (((5, 3), (4, 3)), ((2, 5, 3), (4, 3)), ((40, 19), (30, 19)))
    ):
        a, b = (np.round(RNG.standard_normal(s) * 2).astype(dtype) for s in sizes)
        apart = a[..., :, None, :] - b[..., None, :, :]
        want = np.abs(apart).max(-1)
        x, y = (torch.from_numpy(v).requires_grad_() for v in (a, b))
        v = RNG.standard_normal(want.shape).astype(dtype)
        through = v[..., None] * np.sign(apart) * (np.abs(apart) == want[..., None])
        grads = [through.sum(-2).reshape(-1, *a.shape).sum(0), -through.sum(-3).reshape(-1, *b.shape).sum(0)]
        f = lambda x, y: torch.cdist(x, y, INF)  # noqa: E731
        for g in (f, torch.compile(f)):
            d = g(x, y)
            np.testing.assert_array_equal(d.detach().numpy(), want)
            for got, expected in zip(torch.autograd.grad(d, [x, y], torch.from_numpy(v)), grads, strict=True):
                np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)
        if a.ndim == 2:
            rows = torch.func.vmap(lambda r, y=y: torch.cdist(r[None], y, INF)[0])(x)
            got = torch.autograd.grad(rows, [x, y], torch.from_numpy(v))
            for u, w in zip(got, grads, strict=True):
                np.testing.assert_allclose(u.numpy(), w, rtol=1e-5, atol=1e-5)
    x, y = (torch.randn(n, 3, dtype=torch.float64, requires_grad=True) for n in (4, 2))
    assert torch.autograd.gradcheck(lambda x, y: torch.cdist(x, y, INF), (x, y))
    assert torch.autograd.gradgradcheck(lambda x, y: torch.cdist(x, y, INF), (x, y))
    assert torch.cdist(torch.zeros(0, 3), torch.zeros(2, 3), INF).shape == (0, 2)
    assert torch.cdist(torch.zeros(2, 0), torch.zeros(3, 0), INF).tolist() == [[0, 0, 0]] * 2
    nan = torch.tensor([[NAN, 1.0]])
    assert torch.cdist(nan, torch.zeros(1, 2), INF).isnan().all()
    assert type(torch.cdist(x, y, INF).grad_fn).__name__ == type(torch.cdist(x, y, 1).grad_fn).__name__


@pytest.mark.parametrize(
    ("shape", "weight", "options"),
    [
        ((3, 6, 14, 15), (6, 1, 3, 3), {"padding": 1}),
        ((3, 6, 14, 15), (6, 1, 3, 3), {"padding": 1, "stride": 2}),
        ((3, 6, 14, 15), (12, 1, 5, 2), {"padding": (2, 0), "stride": (2, 1), "dilation": (1, 3)}),
        ((2, 5, 9, 9), (5, 1, 3, 3), {"padding": 4}),
        ((4, 3, 200), (3, 1, 7), {"padding": 3}),
        ((4, 3, 200), (6, 1, 4), {"stride": 3, "dilation": 2}),
        ((2, 3, 30, 30), (3, 1, 9, 9), {}),
        ((2, 3, 5, 6, 7), (3, 1, 3, 3, 3), {"padding": 1}),
        ((0, 3, 9, 9), (3, 1, 3, 3), {"padding": 1}),
    ],
    ids=str,
)
def test_filters_of_single_channels(shape: tuple, weight: tuple, options: dict) -> None:
    """Against a convolution of each channel alone."""
    conv, c, each = getattr(F, f"conv{len(shape) - 2}d"), shape[1], weight[0] // shape[1]

    def apart(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        parts = [conv(x[:, k : k + 1], w[k * each : (k + 1) * each], **options) for k in range(c)]
        return torch.cat(parts, 1)

    for dtype, tol in ((torch.float32, 1e-4), (torch.float64, 1e-11)):
        torch.manual_seed(1)
        x, w = (torch.randn(*s, dtype=dtype).requires_grad_() for s in (shape, weight))
        y, want = conv(x, w, groups=c, **options), apart(x, w)
        v = torch.randn(*want.shape, dtype=dtype)
        pairs = [(y, want)]
        pairs += zip(torch.autograd.grad(y, [x, w], v), torch.autograd.grad(want, [x, w], v), strict=True)
        for got, wanted in pairs:
            np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=tol, atol=tol)
    if x.numel() and len(shape) < 5:
        x.data.view(-1)[3] = INF
        lost = [~f(x, w).detach().isfinite() for f in (lambda x, w: conv(x, w, groups=c, **options), apart)]
        assert torch.equal(*lost)
        turned = torch.from_numpy(np.asfortranarray(x.detach().numpy()))
        assert torch.equal(conv(turned, w, groups=c, **options), conv(x, w, groups=c, **options)) or lost[0].any()


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_borders(mode: str) -> None:
    """Each element gets back what its copies get, in the values of numpy's padding."""
    names = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    shapes = [
        ((4, 8, 40, 41), (1, 2, 3, 0)),
        ((2, 3, 90, 90), (8, 8, 8, 8)),
        ((7, 9, 900), (0, 5)),
        ((3, 2, 20, 21, 30), (1, 1, 2, 2, 0, 3)),
        ((2, 5, 8, 900), (7, 1, 7, 7)),
        ((30, 40, 50), (2, 2, 1, 1)),
        ((8, 3, 60, 60), (9, 1, -1, 2)),
    ]
    for shape, pads in shapes:
        for dtype in (np.float32, np.float64):
            x = RNG.standard_normal(shape).astype(dtype)
            x.flat[0], x.flat[77], x.flat[78] = NAN, INF, -0.0
            size = x.shape
            cut = [(max(-pads[2 * k], 0), max(-pads[2 * k + 1], 0)) for k in range(len(pads) // 2)]
            part = [slice(None)] * x.ndim
            grow = [(0, 0)] * x.ndim
            for k, (low, high) in enumerate(cut):
                d = x.ndim - 1 - k
                part[d] = slice(low, size[d] - high)
                grow[d] = (max(pads[2 * k], 0), max(pads[2 * k + 1], 0))
            if mode != "circular" and min(pads) < 0:
                continue
            want = np.pad(x[tuple(part)], grow, names[mode])
            leaf = torch.from_numpy(x).requires_grad_()
            y = F.pad(leaf, pads, mode=mode)
            alike(y, want)
            assert y.is_contiguous()
            v = RNG.standard_normal(want.shape).astype(dtype)
            (g,) = torch.autograd.grad(y, leaf, torch.from_numpy(v))
            numbers = np.pad(np.arange(x.size).reshape(shape)[tuple(part)], grow, names[mode])
            back = np.zeros(x.size)
            np.add.at(back, numbers.reshape(-1), v.reshape(-1))
            np.testing.assert_allclose(g.numpy().reshape(-1), back, rtol=1e-5, atol=1e-5)
            if leaf.ndim > 3:
                turned = F.pad(leaf.transpose(-1, -2), (*pads[2:4], *pads[:2], *pads[4:]), mode=mode)
                alike(turned.transpose(-1, -2), want)


@pytest.mark.parametrize("dim", [(0, -1), (-1, 0), [0, 1], (-2,), -1, 0, (1,), None, ()])
@pytest.mark.parametrize("keepdim", [False, True])
def test_nansum_over_dimensions_counted_from_either_end(dim, keepdim):
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    a[0, 1] = np.nan
    axes = None if dim in (None, ()) else tuple(dim) if isinstance(dim, (tuple, list)) else dim
    x = torch.from_numpy(a)
    assert torch.nansum(x, dim, keepdim).tolist() == np.nansum(a, axis=axes, keepdims=keepdim).tolist()
    assert torch.nanmean(x, dim, keepdim).shape == torch.nansum(x, dim, keepdim).shape
    for wrong in ((0, 0), (0, -2)):
        with pytest.raises(RuntimeError, match="appears multiple times"):
            torch.nansum(x, wrong)
