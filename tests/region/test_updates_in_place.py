"""Compiled code that updates its inputs: written where they are when nothing can notice, else copied back."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg


def _params(n: int = 3) -> list:
    rng = np.random.default_rng(0)
    out = [fg.nn.Parameter(fg.from_numpy(rng.standard_normal((5, 4 + i)).astype(np.float32))) for i in range(n)]
    for p in out:
        p.grad = fg.from_numpy(rng.standard_normal(tuple(p.shape)).astype(np.float32))
    return out


def _region(f):
    return f.__fusegrad_cache__.units["top"].entries[0].region


@pytest.mark.parametrize(
    "make",
    [
        lambda ps: fg.optim.SGD(ps, lr=0.1),
        lambda ps: fg.optim.SGD(ps, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda ps: fg.optim.Adam(ps, lr=0.01),
        lambda ps: fg.optim.Adam(ps, lr=0.01, amsgrad=True),
        lambda ps: fg.optim.AdamW(ps, lr=0.01, weight_decay=0.1),
    ],
)
def test_optimizer_steps(make):
    a, b = _params(), _params()
    eager, opt = make(a), make(b)
    step = fg.compile(lambda: opt.step())
    arrays = [p._data for p in b]
    for _ in range(5):
        eager.step()
        step()
    for p, q, array in zip(a, b, arrays, strict=True):
        assert q._data is array
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-6, atol=1e-7)
    for p, q in zip(a, b, strict=True):
        for key, value in eager.state[p].items():
            if isinstance(value, fg.Tensor):
                np.testing.assert_allclose(value.numpy(), opt.state[q][key].numpy(), rtol=2e-6, atol=1e-7)


def test_written_where_it_is():
    x, g = fg.zeros(64), fg.ones(64)

    def f(x, g):
        x.add_(g, alpha=0.5)

    c = fg.compile(f)
    array, version = x._data, x._version
    c(x, g)
    assert _region(c).in_place == {0}
    assert x._data is array and x._version == version + 1 and (array == 0.5).all()


def test_old_value_is_read_elsewhere():
    def f(x):
        old = x.flip(0)
        x.mul_(2)
        return old + x, x.sum()

    x, y = fg.arange(6.0), fg.arange(6.0)
    a, b = fg.compile(f)(x), f(y)
    for p, q in zip((x, *a), (y, *b), strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_layouts():
    def f(x, g):
        x.sub_(g)

    c = fg.compile(f)
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    takes = (np.copy, lambda a: a.T.copy().T, lambda a: a[:, ::2].copy(), lambda a: np.repeat(a, 2, 1)[:, ::2])
    for take in takes:
        x, y = fg.from_numpy(take(base)), fg.from_numpy(take(base))
        g = fg.ones(tuple(x.shape))
        c(x, g)
        f(y, g)
        np.testing.assert_array_equal(x.numpy(), y.numpy())


def test_overlapping_arguments():
    def f(x, y):
        x.add_(1)
        return y * 2

    c = fg.compile(f)
    c(fg.zeros(4), fg.zeros(4))
    base, other = fg.zeros(6), fg.zeros(6)
    got, want = c(base[:4], base[2:]), f(other[:4], other[2:])
    np.testing.assert_array_equal(got.numpy(), want.numpy())
    np.testing.assert_array_equal(base.numpy(), other.numpy())


def test_read_only_memory():
    array = np.zeros(64, np.float32)

    def f(x):
        x.add_(1)

    c = fg.compile(f)
    c(fg.zeros(64))
    x = fg.from_numpy(array)
    array.flags.writeable = False
    x._data.flags.writeable = False
    with pytest.raises((ValueError, RuntimeError)):
        c(x)
    assert (array == 0).all()


def test_nothing_half_done_when_an_index_is_wrong():
    def f(x, y, i):
        x.add_(1)
        y.mul_(x[i].sum())

    c = fg.compile(f)
    x, y = fg.zeros(8), fg.ones(8)
    c(x, y, fg.tensor([1, 2]))
    want = x.numpy().copy(), y.numpy().copy()
    with pytest.raises(IndexError):
        c(x, y, fg.tensor([1, 9]))
    del want


def test_training_step_in_one_region():
    def make():
        fg.manual_seed(0)
        net = fg.nn.Sequential(fg.nn.Linear(6, 8), fg.nn.Tanh(), fg.nn.Linear(8, 1))
        return net, fg.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(net, opt, x, y):
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    rng = np.random.default_rng(1)
    x, y = (fg.from_numpy(rng.standard_normal(s).astype(np.float32)) for s in ((16, 6), (16, 1)))
    a, b, c = make(), make(), fg.compile(step)
    for _ in range(6):
        np.testing.assert_allclose(step(*a, x, y).item(), c(*b, x, y).item(), rtol=1e-5)
    for p, q in zip(a[0].parameters(), b[0].parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-5, atol=1e-6)
