"""``requires_grad`` of tensors from before, set in captured code and between calls."""

from __future__ import annotations

from typing import Any

from helpers import check, tree

import fusegrad as T
from fusegrad import nn


def pair() -> tuple[Any, Any]:
    T.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), nn.Sequential(nn.Linear(2, 4), nn.Linear(4, 1))


def both(make: Any, *calls: tuple, breaks: int | None = 0) -> None:
    """A function and the state it closes over, made twice: plain and compiled agree call by call."""
    T.compiler.reset()
    plain, compiled = make(), T.compile(make())
    for args in calls:
        assert tree(compiled(*args)) == tree(plain(*args))
    s = T.compiler.stats()
    assert s["plain_frames"] == 0 and (breaks is None or s["graph_breaks"] == breaks), s["break_reasons"]


def test_frozen_and_unfrozen_from_call_to_call() -> None:
    def make() -> Any:
        net, _ = pair()

        def f(x: Any, frozen: bool, how: int) -> Any:
            if how:
                net[0].requires_grad_(not frozen)
            else:
                for p in net[0].parameters():
                    p.requires_grad = not frozen
            net.zero_grad()
            net(x).square().sum().backward()
            return [p.grad for p in net.parameters()], [p.requires_grad for p in net.parameters()]

        return f

    x = T.randn(4, 3)
    both(make, *[(x, fr, how) for how in (0, 1) for fr in (True, False, True, True, False)])


def test_adversarial_step() -> None:
    """The discriminator is used, frozen, used, and thawed in one step."""

    def make() -> Any:
        g, d = pair()
        og, od = T.optim.SGD(g.parameters(), lr=0.1), T.optim.Adam(d.parameters())

        def f(z: Any, real: Any) -> Any:
            for p in d.parameters():
                p.requires_grad_(True)
            fake = g(z)
            od.zero_grad()
            loss = d(fake.detach()).mean() - d(real).mean()
            loss.backward()
            od.step()
            for p in d.parameters():
                p.requires_grad_(False)
            og.zero_grad()
            other = -d(fake).mean()
            other.backward()
            og.step()
            return loss.detach(), other.detach(), [p.grad for p in d.parameters()], [p.grad for p in g.parameters()]

        return f

    z, real = T.randn(4, 3), T.randn(4, 2)
    both(make, (z, real), (z, real), (z, real))


def test_flag_of_an_argument() -> None:
    def f(x: Any) -> Any:
        x.requires_grad_()
        y = (x**3).sum()
        y.backward()
        return y.detach(), x.grad, x.requires_grad, x.is_leaf

    check(f, (T.arange(3.0),), breaks=0)

    def g(x: Any) -> Any:
        x.requires_grad_(True)
        return (x**2).sum()

    for h in (g, T.compile(g)):
        x = T.arange(3.0)
        h(x).backward()
        assert x.requires_grad and x.grad.tolist() == [0.0, 2.0, 4.0]


def test_frozen_after_use() -> None:
    """What was computed before can be differentiated; a leaf that asks for no gradient any more gets none, as in
    PyTorch.
    """

    def f(w: Any, x: Any) -> Any:
        y = (w * x).sum()
        w.requires_grad_(False)
        z = (w * x).sum()
        return y, z, w.requires_grad

    for h in (f, T.compile(f)):
        w = T.ones(2).requires_grad_()
        y, z, flag = h(w, T.tensor([1.0, 2.0]))
        assert (y.requires_grad, z.requires_grad, flag, w.requires_grad) == (True, False, False, False)
        y.backward()
        assert w.grad is None


def test_errors_leave_the_flag() -> None:
    """A region that fails is run again in Python from the flags that were there."""

    def f(x: Any, i: Any) -> Any:
        before = x.requires_grad
        x.requires_grad_(True)
        return (x.index_select(0, i)).sum(), before

    def run(f: Any) -> Any:
        out = []
        for i in ([0, 1], [0, 9], [1, 1]):
            x = T.arange(3.0)
            try:
                out.append(tree(f(x, T.tensor(i))))
            except IndexError as e:
                out.append(str(e))
            out.append(x.requires_grad)
        return out

    assert run(T.compile(f)) == run(f)


def test_errors_of_the_flag_itself() -> None:
    def f(x: Any) -> Any:
        x.requires_grad_()
        return x * 2

    check(f, (T.arange(3),), plain=None)

    def g(x: Any) -> Any:
        x.requires_grad = False
        return x * 2

    w = T.ones(3).requires_grad_()
    messages = []
    for h in (g, T.compile(g)):
        try:
            h(w * 2)
        except RuntimeError as e:
            messages.append(str(e))
    assert len(messages) == 2 and messages[0] == messages[1]


def test_physics_informed_step() -> None:
    """Second derivatives with respect to an argument whose flag the step sets."""

    def make() -> Any:
        T.manual_seed(0)
        net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
        opt = T.optim.Adam(net.parameters())

        def step(x: Any) -> Any:
            x = x.requires_grad_(True)
            u = net(x)
            (du,) = T.autograd.grad(u.sum(), x, create_graph=True)
            (d2,) = T.autograd.grad(du.sum(), x, create_graph=True)
            loss = (d2 + u).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.detach()

        return step

    for view in (True, False):
        both(make, *[(T.linspace(0, 1, 5).reshape(-1, 1) if view else T.rand(5, 1),) for _ in range(3)])
