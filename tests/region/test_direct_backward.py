"""``backward()`` where compiled code alone lies before the leaves: as the engine's own pass does it."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as torch


def leaves() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return torch.randn(3, 4).requires_grad_(), torch.randn(4).requires_grad_()


@pytest.mark.parametrize("f", [lambda x, y: x * y, lambda x, y: x + y, lambda x, y: (x @ y).exp(), lambda x, y: x * x])
def test_gradients_accumulate_and_share_no_memory(f) -> None:
    x, y = leaves()
    v = torch.randn(*f(x, y).shape)
    f(x, y).backward(v)
    f(x, y).backward(v)
    want = [t.grad for t in (x, y)]
    x.grad = y.grad = None
    compiled = torch.compile(f)
    compiled(x, y).backward(v)
    first = [None if t.grad is None else t.grad for t in (x, y)]
    compiled(x, y).backward(v)
    held = [v, *(t.grad for t in (x, y) if t.grad is not None)]
    for i, a in enumerate(held):
        assert not any(np.may_share_memory(a.numpy(), b.numpy()) for b in held[i + 1 :])
    for t, w, before in zip((x, y), want, first, strict=True):
        assert (t.grad is None) == (w is None)
        if w is not None:
            assert t.grad is before  # added in place, as PyTorch does
            np.testing.assert_allclose(t.grad.numpy(), w.numpy(), rtol=1e-5)


def test_the_second_pass_is_refused_and_retained_graphs_are_not() -> None:
    x, y = leaves()
    f = torch.compile(lambda x, y: (x * y.exp()).sum())
    out = f(x, y)
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()
    kept = x.grad.clone()
    out = torch.compile(lambda x, y: (x * y).sum())(x, y)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        out.backward()
    np.testing.assert_array_equal(x.grad.numpy(), kept.numpy())


def test_hooks_of_leaves_and_results_run() -> None:
    x, y = leaves()
    f = torch.compile(lambda x, y: (x * y).sum())
    seen = []
    handle = x.register_hook(lambda g: seen.append("leaf") or g * 2)
    f(x, y).backward()
    handle.remove()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(2 * y.detach().numpy(), (3, 4)))
    out = f(x, y)
    out.register_hook(lambda g: seen.append("result"))
    out.backward()
    x.register_post_accumulate_grad_hook(lambda t: seen.append("after"))
    f(x, y).backward()
    assert seen == ["leaf", "result", "after"]


def test_a_leaf_that_no_longer_requires_a_gradient_gets_none() -> None:
    x, y = leaves()
    out = torch.compile(lambda x, y: (x * y).sum())(x, y)
    x.requires_grad_(False)
    out.backward()
    assert x.grad is None and y.grad is not None


def test_inside_of_another_pass_and_with_a_graph() -> None:
    x, y = leaves()
    f = torch.compile(lambda x, y: (x * x * y).sum())

    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t.clone()

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                f(x, y).backward()
            return g

    z = torch.ones(2, requires_grad=True)
    Inner.apply(z).sum().backward()
    want = 2 * x.detach().numpy() * y.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)
    x.grad = None
    f(x, y).backward(create_graph=True)
    assert x.grad.requires_grad
    np.testing.assert_allclose(x.grad.detach().numpy(), want, rtol=1e-6)


def test_wrong_cotangents_are_refused() -> None:
    x, y = leaves()
    f = torch.compile(lambda x, y: x * y)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        f(x, y).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        f(x, y).backward(torch.ones(2))
    assert x.grad is None


def programs() -> dict:
    def two(x, y):
        return (x * y).sum(), (x.exp() * y).sum(0)

    return {
        "scalar": (lambda x, y: (x * y.sin()).sum(), None),
        "matrix": (lambda x, y: x * y.sin(), (3, 4)),
        "one of two results": (lambda x, y: two(x, y)[0], None),
        "linear, nothing saved": (lambda x, y: (x + 2 * y).sum(), None),
        "an unused leaf": (lambda x, y: (x * 2).sum(), None),
        "dropout": (lambda x, y: torch.nn.functional.dropout(x * y, 0.5).sum(), None),
    }


@pytest.mark.parametrize("case", programs())
@pytest.mark.parametrize("leaf", ["plain", "transposed", "hooked", "view", "result"])
def test_the_short_form_gives_what_the_engine_gives(case: str, leaf: str, monkeypatch) -> None:
    from fusegrad.compiler.region_node import CompiledBackward

    f, shape = programs()[case]
    compiled = torch.compile(f)
    found = {}
    for short in (True, False):
        if not short:
            monkeypatch.setattr(CompiledBackward, "straight", None)
        x, y = leaves()
        if leaf == "transposed":
            x = torch.randn(4, 3).t().detach().requires_grad_()
        given = x[:] if leaf == "view" else x * 1 if leaf == "result" else x
        if leaf == "hooked":
            x.register_hook(lambda g: g * 3)
        v = None if shape is None else torch.linspace(-1, 1, 12).reshape(shape)
        torch.manual_seed(7)
        out = compiled(given, y)
        only = torch.autograd.grad(out, given, v, retain_graph=True)
        both = torch.autograd.grad(out, (y, given), v, retain_graph=True, allow_unused=True)
        out.backward(v, retain_graph=True)
        out.backward(v)
        again = ""
        try:
            out.backward(v)
        except RuntimeError as e:
            again = str(e)
        found[short] = [*only, *both, x.grad, y.grad], again, x.grad.stride(), x.grad._version
    (a, *rest), (b, *others) = found[True], found[False]
    assert rest == others
    for left, right in zip(a, b, strict=True):
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left.numpy(), right.numpy())
