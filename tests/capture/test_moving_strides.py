"""Parts of larger memories whose sizes change: their steps become run-time numbers, as sizes do."""

import pytest

import fusegrad as fg


def _parts(n):
    """A part of a matrix of n columns, of a batch of sequences of n steps, and a transposed one."""
    fg.manual_seed(n)
    x, y, z = fg.randn(3, n), fg.randn(2, n, 4), fg.randn(5, n)
    return x[:, -2:], y[:, n - 1], z[1:4, 1:3].t()


def _shown(a, b, c):
    return (a * 2).sum(), b.t() + 1, c.reshape(-1), c.stride(0) - c.shape[1], a.is_contiguous(), b + 1


def _viewed(a, b, c):
    try:
        return c.view(-1)
    except RuntimeError:
        return a.view(3, 2, 1) * 2, b.unsqueeze(1).expand(2, 3, 4).sum(1)


def _written(a, b, c):
    a.mul_(2)
    b[0] = c.sum()
    c.t().add_(a.sum())
    return a.select(1, 0), b.stride()


def _step(a, b, c):
    a, b, c = (t.detach().requires_grad_() for t in (a, b, c))
    loss = (a.exp().sum() + (b @ b.t()).sum()) * c.sin().sum()
    return (loss, *fg.autograd.grad(loss, (a, b, c)))


def _flat(out):
    return [x for v in out for x in _flat(v)] if isinstance(out, (tuple, list)) else [out]


@pytest.mark.parametrize("f", [_shown, _viewed, _written, _step])
def test_steps_through_changing_memories(f):
    compiled, before = fg.compile(f), fg.compiler.stats()["compiles"]
    for n in (6, 8, 9, 7, 5, 3, 11, 4):
        mine, plain = _parts(n), _parts(n)
        for a, b in zip(_flat(compiled(*mine)), _flat(f(*plain)), strict=True):
            fg.testing.assert_close(a, b)
            assert not isinstance(a, fg.Tensor) or a.stride() == b.stride()
        for a, b in zip(mine, plain, strict=True):
            fg.testing.assert_close(a._base, b._base)
    assert fg.compiler.stats()["compiles"] - before <= 3


def test_transposed_memories_stay_dense():
    def f(x):
        return (x * 2).stride(), x.exp()

    compiled, before = fg.compile(f), fg.compiler.stats()["compiles"]
    for n in (3, 4, 6, 5):
        x = fg.randn(n, n + 2).t()
        (a, y), (b, z) = compiled(x), f(x)
        assert a == b and y.stride() == z.stride() and fg.allclose(y, z)
    assert fg.compiler.stats()["compiles"] - before == 2
    assert "@(1, s" in fg.compiler.explain(compiled)(x).details()
