"""utils.checkpoint in both forms, and saved tensor hooks under create_graph."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.autograd.graph import saved_tensors_hooks
from fusegrad.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    checkpoint_sequential,
    set_checkpoint_debug_enabled,
)


def net() -> nn.Module:
    fg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 4), nn.GELU(), nn.Linear(4, 1))


def gradients(run, x) -> list[np.ndarray]:
    m = net()
    x = x.clone().requires_grad_()
    fg.manual_seed(7)
    loss = run(m, x).sum() + fg.rand(())
    loss.backward()
    return [loss.detach().numpy(), x.grad.numpy(), *(p.grad.numpy() for p in m.parameters())]


@pytest.mark.parametrize(
    "run",
    [
        lambda m, x: checkpoint(m, x, use_reentrant=False),
        lambda m, x: checkpoint(m, x, use_reentrant=True),
        lambda m, x: checkpoint(m, x, preserve_rng_state=True, use_reentrant=True),
        lambda m, x: checkpoint(m, x, use_reentrant=False, early_stop=False),
        lambda m, x: checkpoint_sequential(m, 2, x, use_reentrant=False),
        lambda m, x: checkpoint(lambda x: checkpoint(m, x, use_reentrant=False), x, use_reentrant=False),
    ],
)
def test_same_gradients_and_random_numbers(run) -> None:
    x = fg.randn(3, 4)
    for a, b in zip(gradients(lambda m, x: m(x), x), gradients(run, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_saves_only_the_inputs_and_runs_twice() -> None:
    calls = []

    def f(x, *, k=1):
        calls.append(fg.is_grad_enabled())
        return (x * k).exp().sin().exp()

    x = fg.ones(3, dtype=fg.float64, requires_grad=True)
    y = checkpoint(f, x, k=2, use_reentrant=False)
    assert not any(isinstance(v, fg.Tensor) for v in (y.grad_fn.saved or ()))
    (g,) = fg.autograd.grad(y.sum(), x, create_graph=True)
    assert calls == [True, True]
    (want,) = fg.autograd.grad((z := f(x, k=2)).sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), want.detach().numpy())
    np.testing.assert_allclose(fg.autograd.grad(g.sum(), x)[0].numpy(), fg.autograd.grad(want.sum(), x)[0].numpy())
    y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * fg.autograd.grad(f(x).sum(), x)[0].numpy())
    with fg.no_grad():
        assert not checkpoint(f, x, use_reentrant=False).requires_grad
    del z


def test_parameters_alone_need_gradients() -> None:
    m = net()
    checkpoint(m, fg.randn(3, 4), use_reentrant=False).sum().backward()
    assert all(p.grad is not None for p in m.parameters())


def test_refusals() -> None:
    x = fg.ones(3, requires_grad=True)
    other = [True]

    def changes(x):
        return x.exp().sin() if other[0] else x * 2

    y = checkpoint(changes, x, use_reentrant=False)
    other[0] = False
    with pytest.raises(CheckpointError, match="different number of tensors"):
        y.sum().backward()
    sizes = [slice(None)]
    y = checkpoint(lambda x: x[sizes[0]].exp(), x, use_reentrant=False)
    sizes[0] = slice(1, None)
    with pytest.raises(CheckpointError, match="different metadata"):
        y.sum().backward()
    with pytest.raises(ValueError, match="keyword"):
        checkpoint(lambda x, k: x, x, use_reentrant=True, k=1)
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(changes, x, determinism_check="foo", use_reentrant=False)

    def fails(x):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        checkpoint(fails, x, use_reentrant=False)
    (x * x).sum().backward()  # the hooks are gone
    assert x.grad is not None


def test_contexts_of_both_runs() -> None:
    log = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)

        def __exit__(self, *exc):
            log.append("end " + self.name)

    x = fg.ones(3, requires_grad=True)
    checkpoint(
        lambda x: x.exp(), x, context_fn=lambda: (Note("first"), Note("second")), use_reentrant=False
    ).sum().backward()
    assert log == ["first", "end first", "second", "end second"]


def test_second_order_through_saved_tensor_hooks() -> None:
    x = fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)

    def second(hooked: bool):
        def f(x):
            return ((x * 2).exp() * x).sum()

        if hooked:
            with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), lambda a: fg.from_numpy(a)):
                y = f(x)
        else:
            y = f(x)
        (g,) = fg.autograd.grad(y, x, create_graph=True)
        return fg.autograd.grad(g.sum(), x)[0].numpy()

    np.testing.assert_allclose(second(True), second(False))


def test_checkpoint_inside_compile() -> None:
    m = net().eval()
    x = fg.randn(3, 4)
    f = fg.compile(lambda x: checkpoint(m, x, use_reentrant=False).sum())
    np.testing.assert_allclose(f(x).item(), m(x).sum().item(), rtol=1e-5)
    a = x.clone().requires_grad_()
    f(a).backward()
    b = x.clone().requires_grad_()
    m(b).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4)


@pytest.mark.parametrize(
    "f",
    [fg.tanh, fg.exp, lambda w: w * w, lambda w: w.softmax(0), lambda w: w.prod(), lambda w: w / w.sum(),
     lambda w: fg.stack([w, w]), lambda w: w.cumprod(0), lambda w: w.amax(), lambda w: w.norm()],
)  # fmt: skip
def test_one_operator_alone_whose_tensors_are_packed(f: object) -> None:
    """The small derivatives that are noted as numpy calls leave packed tensors to the rules."""
    found = []
    for way in ("plain", "hooks", "nested"):
        x = fg.tensor([0.5, 0.7], requires_grad=True)
        if way == "hooks":
            with saved_tensors_hooks(lambda t: t * 1, lambda t: t):
                y = f(x)
        elif way == "nested":
            inner = lambda u: checkpoint(f, u, use_reentrant=False) * 1
            y = checkpoint(inner, x, use_reentrant=False)
        else:
            y = f(x)
        y.sum().backward()
        found.append(x.grad.tolist())
    assert found[1:] == found[:1] * 2


@pytest.mark.filterwarnings("ignore:checkpoint. pass use_reentrant")
def test_without_use_reentrant_the_older_form_is_used() -> None:
    m, x = net(), fg.randn(3, 4)
    with pytest.warns(UserWarning, match="None of the inputs"):
        assert not checkpoint(m, x).requires_grad
    x.requires_grad_()
    assert type(checkpoint(m, x).grad_fn).__name__ == "CheckpointFunctionBackward"
    with pytest.raises(RuntimeError, match="incompatible"):
        fg.autograd.grad(checkpoint(m, x).sum(), x)
    with pytest.raises(ValueError, match="keyword"):
        checkpoint(lambda x, k: x * k, x, k=2)
    with pytest.raises(ValueError, match="keyword"):
        checkpoint_sequential(m, 2, x, use_reentrant=False, k=2)


def test_saved_tensors_of_a_checkpoint_are_read_once_in_a_pass() -> None:
    class Twice(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x.sin())
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0] * ctx.saved_tensors[0]

    x = fg.ones(2, requires_grad=True)
    y = checkpoint(Twice.apply, x, use_reentrant=False)
    with pytest.raises(CheckpointError, match="read twice"):
        y.sum().backward()
    assert x.grad is None
    Twice.apply(x).sum().backward()  # without a checkpoint
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    for _ in range(2):  # each pass reads for itself
        y.sum().backward(retain_graph=True)
    assert fg.equal(y.grad_fn._saved_result, y.grad_fn._saved_result)


def test_debugged_checkpoints() -> None:
    x = fg.ones(2, requires_grad=True)
    with set_checkpoint_debug_enabled(True):
        checkpoint(lambda x: x.exp(), x, use_reentrant=False).sum().backward()
    assert x.grad is not None
