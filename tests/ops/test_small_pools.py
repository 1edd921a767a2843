"""Pooling of few elements in one gather, against a pass for each position in the window; losses of one operator."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.autograd.modes import slow_paths
from fusegrad.ops import _pool_kernels as pk

CASES = [
    ((2, 3, 7), (3,), (2,), (1,), (1,), False),
    ((2, 3, 8), (2,), (2,), (0,), (1,), False),
    ((2, 2, 6, 7), (2, 3), (2, 2), (1, 1), (1, 2), True),
    ((1, 2, 4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 0, 1), (1, 1, 1), True),
]


@pytest.mark.parametrize("special", [None, -np.inf, np.inf, np.nan], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_few_and_many_windows_agree(case, special, monkeypatch):
    shape, window, stride, padding, dilation, ceil = case
    x = np.random.default_rng(0).integers(-3, 3, shape).astype(np.float32)  # ties
    if special is not None:
        x.reshape(-1)[::3] = special
    out = pk.out_sizes(shape[2:], window, stride, padding, dilation, ceil)
    ones = (1,) * len(window)
    plain = pk.out_sizes(shape[2:], window, stride, padding, ones, ceil)

    def run():
        pairs = pk.max_pool(x, window, stride, padding, dilation, ceil)
        with np.errstate(invalid="ignore"):
            total = pk.window_sum(x, plain, window, stride, padding)
        return (*pairs, pk.max_values(x, out, window, stride, padding, dilation), total)

    few = run()
    monkeypatch.setattr(pk, "_FEW", 0)
    for a, b in zip(few, run(), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_loss_depends_on_its_input_in_name(reduction):
    x = fg.randn(4, 3, dtype=fg.float64, requires_grad=True)
    target = fg.tensor([0, 2, -100, 1])
    loss = fg.nn.functional.nll_loss(x, target, reduction=reduction)
    want = -x.detach().numpy()[[0, 1, 3], [0, 2, 1]]
    got = loss.detach().numpy()
    if reduction == "none":
        np.testing.assert_array_equal(got, [want[0], want[1], 0, want[2]])
    else:
        np.testing.assert_allclose(got, want.mean() if reduction == "mean" else want.sum(), rtol=1e-15)
    (g,) = fg.autograd.grad(loss.sum(), x, create_graph=True)
    assert g.requires_grad and g[2].abs().sum() == 0
    (h,) = fg.autograd.grad(g.sum(), x)
    assert (h == 0).all()
    with pytest.raises(IndexError, match="Target 3 is out of bounds"):
        fg.nn.functional.nll_loss(x, fg.tensor([0, 3, 0, 0]))
    all_ignored = fg.nn.functional.nll_loss(x, fg.full((4,), -100), reduction="mean")
    assert all_ignored.isnan()
    for f in (fg.nn.functional.nll_loss, fg.compile(fg.nn.functional.nll_loss)):
        (g,) = fg.autograd.grad(f(x, fg.full((4,), -100)), x, create_graph=True)
        (h,) = fg.autograd.grad(f(x, fg.full((4,), -100)), x)
        assert (g == 0).all() and (h == 0).all()


def test_gather_refuses_what_is_outside():
    x = fg.arange(12.0).view(3, 4)
    for dim, bad in ((0, 3), (1, 4), (1, -1)):
        index = fg.zeros(3, 4, dtype=fg.int64)
        index[1, 2] = bad
        with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension {dim} with size"):
            x.gather(dim, index)
    index = fg.tensor([[2, 0, 1, 2]])
    assert x.gather(0, index).tolist() == [[8.0, 1.0, 6.0, 11.0]]
    cube = fg.arange(24.0).view(2, 3, 4)
    at = fg.tensor([2, 0]).view(1, 2, 1).expand(2, 2, 4)
    assert (cube.gather(1, at) == cube[:, [2, 0]]).all() and (cube.gather(1, at.contiguous()) == cube[:, [2, 0]]).all()


@pytest.mark.parametrize("loss", ["smooth_l1_loss", "huber_loss"])
def test_bent_losses_like_their_formulas(loss):
    x = fg.tensor([-3.0, -0.5, 0.0, 0.2, 7.0, float("inf")], dtype=fg.float64, requires_grad=True)
    y = getattr(fg.nn.functional, loss)(x, fg.zeros(6, dtype=fg.float64), reduction="none")
    assert y.tolist() == [2.5, 0.125, 0.0, 0.2 * 0.2 * 0.5, 6.5, float("inf")]
    (g,) = fg.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [-1.0, -0.5, 0.0, 0.2, 1.0, 1.0]
    (h,) = fg.autograd.grad(g.sum(), x)
    assert h.tolist() == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_remembered_calls_are_for_exactly_those_arguments(kind):
    """Calls with a window and nothing else are remembered by shape, dtype and window: what is equal to their arguments
    and not the same is treated as ever."""
    rest = ((None, 0, False, True), (None, 0, 0), (None, False), (np.array(2),), (None, 0, False, 1), ([2],), (2,), ())
    if kind == "max":
        rest = ((None, 0, 1, False), (None, 0, True), (None, 0, 1, 0), (None, False), (np.array(2),), ([2],), (2,), ())
    for n in (1, 2, 3):
        pool = getattr(fg.nn.functional, f"{kind}_pool{n}d")
        for shape in ((2, *(4,) * n), (1, 2, *(4,) * n), (2, *(4,) * n), (0, *(4,) * n), (4,) * n, (2, *(1,) * n)):
            for d in (fg.float32, fg.float64, fg.float16, fg.int64):
                x = fg.arange(float(np.prod(shape))).reshape(shape).to(d)
                for args in [(2, *more) for more in rest] + [((2,) * n,), (True,), (2.0,), (5,), (0,)]:
                    found = []
                    for slow in (0, 0, 1):
                        slow_paths(slow)
                        try:
                            out = pool(x, *args)
                            found.append((out.dtype, tuple(out.shape), out.tolist()))
                        except Exception as e:  # noqa: BLE001  (compared)
                            found.append((type(e), str(e)))
                        finally:
                            slow_paths(-slow)
                    assert found[0] == found[1] == found[2], (n, shape, d, args)
