"""functional_call in compiled code: a module given to a function of the library stays a module."""

from __future__ import annotations

import pytest

import fusegrad as T
from fusegrad import nn

F = nn.functional


def network() -> nn.Module:
    T.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4), nn.Linear(4, 1))


def inner_step(net: nn.Module, x: T.Tensor, y: T.Tensor) -> T.Tensor:
    """One step of MAML: the loss after an update that is differentiated through."""
    params = dict(net.named_parameters())
    loss = F.mse_loss(T.func.functional_call(net, params, (x,)), y)
    grads = T.autograd.grad(loss, tuple(params.values()), create_graph=True)
    moved = {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads, strict=True)}
    return F.mse_loss(T.func.functional_call(net, moved, (x,)), y)


def test_gradients_through_an_inner_update() -> None:
    x, y = T.randn(5, 3), T.randn(5, 1)
    results = []
    for f in (inner_step, T.compile(inner_step, fullgraph=True)):
        net = network()
        before = dict(net.named_parameters())
        for _ in range(2):
            loss = f(net, x, y)
            loss.backward()
        assert all(a is b for a, b in zip(before.values(), net.parameters(), strict=True))
        results.append([loss, *(p.grad for p in net.parameters()), *net.buffers()])
    for a, b in zip(*results, strict=True):
        T.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_module_is_whole_after_an_error() -> None:
    net = network()
    weight = net[0].weight

    @T.compile
    def f(x: T.Tensor) -> T.Tensor:
        return T.func.functional_call(net, {"0.weight": T.zeros(4, 2)}, (x,))

    for _ in range(2):
        with pytest.raises(RuntimeError, match="shape"):
            f(T.ones(2, 3))
        assert net[0].weight is weight


def test_other_names_and_tied_weights() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    f = T.compile(lambda w, x: T.func.functional_call(net, {"0.weight": w, "no.such": w}, x), fullgraph=True)
    w, x = T.tensor([[1.0, 2.0], [0.0, 1.0]]), T.ones(1, 2)
    assert f(w, x).tolist() == [[5.0, 1.0]] and net[1].weight is net[0].weight is not w
