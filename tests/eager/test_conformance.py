"""Rules that PyTorch's own operator database asks for, beyond values: out=, layouts, info codes, zero slopes, ctx."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.deferred import force
from fusegrad.outs import OUT


@pytest.mark.parametrize("name", sorted(OUT))
def test_out_is_taken(name: str) -> None:
    fn = fg
    for part in name.split("."):
        fn = getattr(fn, part)
    assert "out" in inspect.signature(force(fn), follow_wrapped=False).parameters


def test_out_is_written_and_resized() -> None:
    x, o = fg.randn(3, 4), fg.empty(0)
    assert fg.softmax(x, 1, out=o) is o and o.shape == (3, 4)
    v, i = fg.empty(3), fg.empty(3, dtype=fg.int64)
    r = fg.max(x, 1, out=(v, i))
    assert r.values is v and r.indices is i
    assert np.array_equal(v.numpy(), x.numpy().max(1))
    assert fg.add(x, x, alpha=2, out=o) is o
    assert np.allclose(o.numpy(), 3 * x.numpy())


def test_out_refusals() -> None:
    x = fg.randn(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        fg.stack([x, x], out=fg.empty(2, 4))
    a = fg.randn(6)
    with pytest.raises(RuntimeError, match="single memory location"):
        fg.take(a, fg.tensor([0, 1]), out=a)
    with pytest.raises(RuntimeError, match="dtype"):
        fg.gather(fg.ones(2, 2), 1, fg.zeros(2, 2, dtype=fg.int64), out=fg.ones(2, 2, dtype=fg.float64))
    with pytest.raises(RuntimeError, match="dimensions"):
        fg.gather(fg.ones(2, 2), 1, fg.tensor([0, 1]))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sum(2),
        lambda x: x.mean(2),
        lambda x: x.amax(2),
        lambda x: x.softmax(1),
        lambda x: x.cumsum(0),
        lambda x: x.std(2),
        lambda x: x.max(2).values,
        lambda x: fg.cat([x, x]),
        lambda x: x.all(2),
        lambda x: x.sort(1)[0],
    ],
)
def test_results_of_permuted_inputs_are_contiguous(fn) -> None:  # type: ignore[no-untyped-def]
    x = fg.randn(3, 4, 5).permute(1, 0, 2) * 2
    y = fn(x)
    assert y.is_contiguous()
    assert np.allclose(y.numpy(), fn(x.contiguous()).numpy())


@pytest.mark.parametrize("fn", [lambda x, m: x - m, lambda x, m: m - x, lambda x, m: 1 - m, lambda x, m: m - m])
def test_minus_refuses_bool(fn) -> None:  # type: ignore[no-untyped-def]
    x = fg.ones(3)
    with pytest.raises(RuntimeError, match="Subtraction"):
        fn(x, x > 0)


def test_info_codes() -> None:
    A = fg.stack([fg.eye(3), fg.tensor([[1.0, 2, 3], [2, 4, 6], [1, 1, 1]])])
    X, info = fg.linalg.inv_ex(A)
    assert info.tolist() == [0, 3] and info.dtype is fg.int32
    assert np.array_equal(X[0].numpy(), np.eye(3)) and bool(X[1].isnan().all())
    assert fg.linalg.cholesky_ex(fg.tensor([[1.0, 0], [0, -1]])).info.item() == 2
    assert fg.linalg.solve_ex(fg.zeros(2, 2), fg.ones(2)).info.item() == 1
    with pytest.raises(RuntimeError, match="linalg.inv_ex"):
        fg.linalg.inv_ex(A, check_errors=True)
    B = (fg.eye(2) * 2).requires_grad_()
    fg.linalg.inv_ex(B).inverse.sum().backward()
    assert B.grad is not None


F = fg.nn.functional


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: F.avg_pool2d(x, 2),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.pad(x, (1, 1, 0, 2), "replicate"),
        lambda x: F.pad(x, (1, 2, 1, 0), "reflect"),
        lambda x: F.interpolate(x, size=3, mode="area"),
        lambda x: F.nll_loss(x, fg.zeros(2, 6, 6, dtype=fg.int64)),
    ],
)
def test_zero_slopes_stay_in_the_graph(fn) -> None:  # type: ignore[no-untyped-def]
    x = fg.randn(2, 3, 6, 6, requires_grad=True)
    y = fn(x)
    (g,) = fg.autograd.grad((y * 2).sum(), x, create_graph=True)
    assert g.requires_grad
    (h,) = fg.autograd.grad((g * g.detach()).sum(), x)
    assert not np.any(h.numpy())
    (g,) = fg.autograd.grad((fn(x) * 2).sum(), x)
    assert not g.requires_grad


def test_copy_of_plain_values_keeps_the_history() -> None:
    x = fg.ones(3, requires_grad=True)
    for change in (lambda y: y.copy_(fg.zeros(3)), lambda y: y.fill_(1.0), lambda y: y.zero_()):
        y = x * 2
        change(y)
        assert y.requires_grad and y.grad_fn is not None
        (g,) = fg.autograd.grad(y.sum(), x)
        assert g.tolist() == [0.0, 0.0, 0.0]


def test_ctx_takes_attributes_of_any_name() -> None:
    names = (
        "hooks",
        "saved",
        "out",
        "attrs",
        "edges",
        "nrs",
        "seq",
        "shape",
        "dtype",
        "freed",
        "kept",
        "dirty",
        "op",
        "cls",
    )

    class Scale(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x, k):  # type: ignore[no-untyped-def]
            for i, n in enumerate(names):
                setattr(ctx, n, i)
            ctx.k = k
            ctx.save_for_backward(x)
            return x * k

        @staticmethod
        def backward(ctx, g):  # type: ignore[no-untyped-def]
            assert [getattr(ctx, n) for n in names] == list(range(len(names)))
            assert ctx.needs_input_grad == (True, False) and len(ctx.saved_tensors) == 1
            return g * ctx.k, None

    x = fg.ones(2, requires_grad=True)
    y = Scale.apply(x, 3.0)
    assert y.grad_fn.k == 3.0
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_histogram() -> None:
    x = np.random.default_rng(0).normal(size=50)
    h, e = fg.histogram(fg.tensor(x), 7)
    want, edges = np.histogram(x, 7)
    assert np.array_equal(h.numpy(), want) and np.allclose(e.numpy(), edges)
    h, e = fg.histogram(fg.tensor(x), fg.tensor([-1.0, 0.0, 0.5], dtype=fg.float64), density=True)
    assert np.allclose(h.numpy(), np.histogram(x, [-1.0, 0.0, 0.5], density=True)[0])
