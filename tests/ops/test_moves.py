"""Functions that only move elements: the gather that small tensors get, against the operators that larger ones get."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.ops import moves

F = fg.nn.functional
CASES = [
    (lambda x: x.repeat(2, 1, 3, 1), (2, 3, 4)),
    (lambda x: x.repeat(3), ()),
    (lambda x: x.repeat(0, 2), (2, 3)),
    (lambda x: x.tile(2), (2, 3)),
    (lambda x: x.roll(1, 0), (3, 4)),
    (lambda x: x.roll((1, -3), (0, -1)), (3, 4)),
    (lambda x: x.roll(5), (3, 4)),
    (lambda x: x.roll(0, 0), (3, 4)),
    (lambda x: x.repeat_interleave(3, 1), (2, 3, 2)),
    (lambda x: x.repeat_interleave(2), (2, 3)),
    (lambda x: F.pad(x, (2, 1), "reflect"), (2, 3, 4)),
    (lambda x: F.pad(x, (1, -2, -1, 1), "reflect"), (1, 2, 4, 5)),
    (lambda x: F.pad(x, (2, 1, 0, 3), "replicate"), (2, 3, 4)),
    (lambda x: F.pad(x, (-1, 2), "circular"), (2, 3, 4)),
    (lambda x: F.pad(x, (0, 0), "circular"), (2, 3, 4)),
    (lambda x: F.pixel_shuffle(x, 2), (2, 8, 2, 3)),
    (lambda x: F.pixel_unshuffle(x, 2), (2, 4, 6)),
    (lambda x: F.channel_shuffle(x, 3), (2, 6, 2)),
]


def gradients(f, x):
    y = f(x)
    v = fg.tensor(np.random.default_rng(1).standard_normal(tuple(y.shape)), dtype=x.dtype)
    (g,) = fg.autograd.grad((y * v).cos().sum(), x, create_graph=True)
    (h,) = fg.autograd.grad(g.square().sum(), x)
    return y, g, h


@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "turned"])
@pytest.mark.parametrize("f,shape", CASES)
def test_small_and_large_agree(f, shape, turned, monkeypatch):
    data = np.random.default_rng(0).standard_normal(shape[::-1] if turned else shape)

    def run():
        x = fg.tensor(data, requires_grad=True)
        return gradients(f, x.permute(*range(x.ndim)[::-1]) if turned and x.ndim else x), x

    small, _ = run()
    monkeypatch.setattr(moves, "_FEW", 0)
    large, _ = run()
    for a, b in zip(small, large, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-13, atol=1e-13)
    a, b = small[0], large[0]
    assert (a == b).all()
    assert a.grad_fn.name() == b.grad_fn.name() and a._is_view() == b._is_view() and a.is_contiguous()
    assert len(a.grad_fn.next_functions) == len(b.grad_fn.next_functions)


@pytest.mark.parametrize("f,shape", CASES)
def test_results_have_memory_of_their_own(f, shape):
    x = fg.zeros(*shape, dtype=fg.int64) if shape else fg.zeros((), dtype=fg.int64)
    y, again = f(x), f(x)
    y.fill_(7)
    assert (x == 0).all() and (again == 0).all()


def test_transforms_and_errors():
    x = fg.randn(5, 2, 3)
    assert (fg.vmap(lambda a: a.roll(1, 0))(x) == x.roll(1, 1)).all()
    assert (fg.func.jacrev(lambda a: F.pad(a, (1, 1), "reflect"))(x).sum() == 5 * 2 * 5).all()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Padding size should be less"):
            F.pad(x, (3, 3), "reflect")
        with pytest.raises(IndexError):
            x.roll(1, 4)
