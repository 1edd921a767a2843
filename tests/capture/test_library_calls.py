"""Library code that is evaluated with the user's: distributions, functional_call, hooks of modules."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import check

import fusegrad as T
from fusegrad import nn

D = T.distributions
F = nn.functional


def normal(m: Any, s: Any) -> Any:
    d = D.Normal(m, s.exp())
    z = d.rsample()
    q = D.Normal(T.zeros_like(m), T.ones_like(m))
    return (
        z,
        d.log_prob(z),
        d.entropy(),
        D.kl_divergence(d, q),
        d.sample((2,)),
        d.mean,
        d.stddev,
        d.cdf(z),
        d.batch_shape,
    )


def categorical(m: Any, s: Any) -> Any:
    d, e = D.Categorical(logits=m), D.Categorical(s.softmax(-1))
    a, b = d.sample(), e.sample((2,))
    return (
        a,
        b,
        d.log_prob(a),
        e.log_prob(b),
        d.entropy(),
        e.entropy(),
        d.probs,
        e.logits,
        D.kl_divergence(d, e),
        d.mode,
    )


def bernoulli(m: Any, s: Any) -> Any:
    d, e = D.Bernoulli(logits=m), D.Bernoulli(s.sigmoid())
    a = d.sample()
    return a, d.log_prob(a), d.entropy(), e.sample((2,)), D.kl_divergence(d, e), d.variance


def uniform(m: Any, s: Any) -> Any:
    d = D.Uniform(m - 2.0, m + s.exp())
    z = d.rsample()
    return z, d.log_prob(z), d.entropy(), d.mean, D.Uniform(0.0, 2.0).sample((3,))


@pytest.mark.parametrize("f", [normal, categorical, bernoulli, uniform])
def test_distributions(f: Any) -> None:
    """No break; the same numbers and the same draws; gradients as eager's."""
    m, s = T.randn(4, 3), T.randn(4, 3) * 0.3

    def step(m: Any, s: Any) -> Any:
        m, s = m.clone().requires_grad_(), s.clone().requires_grad_()
        out = f(m, s)
        total = sum(t.sum() for t in out if isinstance(t, T.Tensor) and t.requires_grad)
        values = [t.detach() if isinstance(t, T.Tensor) else t for t in out]
        return values, T.autograd.grad(total, (m, s), allow_unused=True)

    check(step, (m, s), (m * 0.5, s), breaks=0)


@pytest.mark.parametrize(
    ("make", "bad"),
    [
        (lambda v: D.Normal(T.zeros(3), v).log_prob(v), T.tensor([1.0, -1.0, 1.0])),
        (lambda v: D.Normal(v, 1.0).entropy() * 2, T.tensor([1.0, float("nan"), 1.0])),
        (lambda v: D.Bernoulli(v).mean, T.tensor([0.5, 1.5, 0.0])),
        (lambda v: D.Categorical(v).probs, T.tensor([0.5, -1.5, 0.0])),
        (lambda v: D.Uniform(T.ones(3) * 0.1, v).mean, T.tensor([0.5, 0.05, 1.0])),
        (lambda v: D.Categorical(logits=T.zeros(2)).log_prob((v * 2).long()), T.tensor([1.0, 0.0, 0.0])),
    ],
)
def test_arguments_of_distributions_are_checked(make: Any, bad: Any) -> None:
    """The error is eager's, also when nothing reads what was checked, and also after a good call."""
    good = T.tensor([0.25, 0.4, 0.3])
    count = T.zeros(())

    def f(v: Any) -> Any:
        count.add_(1)
        return make(v), count.clone()

    with pytest.raises(ValueError) as want:
        f(bad)
    count.zero_()
    T.compiler.reset()
    c = T.compile(f)
    for n in (1, 3):
        assert c(good)[1].item() == n
        with pytest.raises(ValueError) as got:
            c(bad)
        assert str(got.value) == str(want.value)
        assert count.item() == n + 1  # the addition before the error was made, as in eager
    assert T.compiler.stats()["graph_breaks"] == 0


def test_distributions_of_the_users_and_kl() -> None:
    class Shifted(D.Normal):
        def __init__(self, loc: Any, by: float) -> None:
            super().__init__(loc + by, T.ones_like(loc))
            self.by = by

        def rsample(self, shape: Any = ()) -> Any:
            return super().rsample(shape) - self.by

    @D.register_kl(Shifted, Shifted)
    def kl(p: Any, q: Any) -> Any:
        return (p.loc - q.loc) ** 2

    def f(x: Any) -> Any:
        d = Shifted(x, 2.0)
        return d.rsample(), d.by, D.kl_divergence(d, Shifted(x * 2, 1.0)), d

    check(f, (T.randn(3),), breaks=0)


def test_functional_call() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 2)
            self.register_buffer("scale", T.ones(2))

        def forward(self, x: Any, k: int = 1) -> Any:
            return self.inner(x) * self.scale * k

    net = Net()

    def f(x: Any, w: Any) -> Any:
        own = net(x)
        other = T.func.functional_call(net, {"inner.weight": w, "scale": T.tensor([2.0, 3.0])}, (x,), {"k": 2})
        return own, other, net(x), net.inner.weight is before

    before = net.inner.weight
    check(f, (T.randn(4, 3), T.randn(2, 3)), breaks=0)
    assert net.inner.weight is before


def test_maml_step_is_one_graph() -> None:
    """Gradients of a step made of functional_call, autograd.grad and functional_call: second derivatives."""
    net = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
    x, y = T.randn(5, 2), T.randn(5, 1)

    def f(x: Any, y: Any) -> Any:
        params = dict(net.named_parameters())
        loss = F.mse_loss(T.func.functional_call(net, params, (x,)), y)
        grads = T.autograd.grad(loss, list(params.values()), create_graph=True)
        fast = {k: p - 0.1 * g for (k, p), g in zip(params.items(), grads, strict=True)}
        net.zero_grad()
        F.mse_loss(T.func.functional_call(net, fast, (x,)), y).backward()
        return [p.grad for p in net.parameters()]

    check(f, (x, y), breaks=0)


def test_per_sample_gradients() -> None:
    net = nn.Linear(3, 2)

    def loss(p: Any, x: Any, y: Any) -> Any:
        return F.mse_loss(T.func.functional_call(net, p, (x,)), y)

    def f(x: Any, y: Any) -> Any:
        return T.func.vmap(T.func.grad(loss), in_dims=(None, 0, 0))(dict(net.named_parameters()), x, y)

    check(f, (T.randn(4, 3), T.randn(4, 2)), breaks=0)


def test_hooks_registered_and_removed_inside() -> None:
    """A forward hook registered by captured code runs, changes the result, and is gone after remove()."""
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    def f(x: Any) -> Any:
        seen: list = []
        h = net[0].register_forward_hook(lambda m, args, out: out * 2)
        g = net[2].register_forward_pre_hook(lambda m, args: seen.append(args[0]))
        y = net(x)
        h.remove()
        z = net(x)
        g.remove()
        return y, z, net(x), seen

    check(f, (T.randn(2, 3),), breaks=0)
    assert not net[0]._forward_hooks and not net[2]._forward_pre_hooks


def test_hook_registered_inside_stays() -> None:
    def make() -> Any:
        T.manual_seed(0)
        net = nn.Linear(2, 2)

        def f(x: Any) -> Any:
            if not net._forward_hooks:
                net.register_forward_hook(lambda m, args, out: out + 1)
            return net(x)

        return f

    plain, compiled = make(), T.compile(make())
    x = T.randn(1, 2)
    for _ in range(3):
        assert T.allclose(plain(x), compiled(x))


def test_the_compiler_asks_no_object_for_its_text() -> None:
    """Reasons of a recompilation are written without running the user's ``__repr__``."""

    class Odd:
        def __init__(self, n: int) -> None:
            self.items = [0] * n

        def __repr__(self) -> str:
            raise RuntimeError("repr was called")

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    def f(x: Any, items: Any) -> Any:
        return x * len(items)

    c = T.compile(f)
    for n in (1, 2, 3):
        assert c(T.ones(1), [Odd(1)] * n).item() == n
        assert T.compile(lambda x, o: x * len(o.items))(T.ones(1), Odd(n)).item() == n
