"""Modules and parameters made inside of compiled code: a part of the graph, with the same numbers drawn; made for real
where they outlive it."""

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn

KEPT = nn.Linear(3, 3)


def softmax(x):
    return nn.Softmax(dim=-1)(x * 2)


def loss(x):
    return nn.SmoothL1Loss()(x * 2, x)


def sequential(x):
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))(x)


def child_from_outside(x):
    m = nn.Sequential(KEPT, nn.ReLU())
    m.eval()
    y = m(x).sum()
    y.backward()
    g, KEPT.weight.grad, KEPT.bias.grad = KEPT.weight.grad, None, None
    names = sorted(n for n, _ in m.named_parameters())
    return y, g, names, len(m.state_dict()), [type(c).__name__ for c in m.modules()], m.training, KEPT.training


def initialised(x):
    m = nn.Linear(3, 3)
    nn.init.zeros_(m.bias)
    nn.init.xavier_uniform_(m.weight)
    with T.no_grad():
        m.weight.mul_(2)
    m.bias.data.fill_(1.0)
    return m(x)


def batch_norm(x):
    m = nn.BatchNorm1d(3)
    y = m(x)
    m.train(False)
    return y + m(x), m.running_mean.clone()


def recurrent(x):
    return nn.LSTM(3, 4)(x[:, None])[0]


def attention(x):
    return nn.MultiheadAttention(3, 1)(x, x, x)[0]


class Net(nn.Module):
    def __init__(self, n: int) -> None:
        super().__init__()
        self.inner = nn.Linear(3, n)
        self.w = nn.Parameter(T.randn(n))
        self.register_buffer("b", T.zeros(n))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.b += 1
        return self.inner(x) * self.w + self.b


def users(x):
    m = Net(2)
    y = (m(x) + m(x)).sum()
    y.backward()
    return y, m.w.grad, m.calls, m.b, m.inner.weight.grad.shape


INSIDE = [softmax, loss, sequential, child_from_outside, initialised, batch_norm, recurrent, attention, users]


def compare(f, c, n):
    seen = []
    for g in (f, c):
        x = (T.arange(n * 3.0).reshape(n, 3) * 0.03).requires_grad_(f is not users and f is not child_from_outside)
        T.manual_seed(5)
        out = g(x)
        first = out[0] if isinstance(out, tuple) else out
        result = tree(out), T.get_rng_state().tolist()
        if x.requires_grad:
            first.sum().backward()
        seen.append((result, tree(x.grad)))
    assert seen[1] == seen[0]


@pytest.mark.parametrize("f", INSIDE, ids=lambda f: f.__name__)
def test_in_the_graph(f):
    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    for n in (2, 2, 5, 7):
        compare(f, c, n)
    assert T.compiler.stats()["compiles"] <= 3


def used_after_a_break(x):
    m = nn.Linear(3, 3)
    y = m(x)
    print(end="")
    return (y * 2).sum() + m(x).sum()


def parameter_is_set(x):
    m = nn.Module()
    m.register_buffer("b", T.ones(3))
    m.p = nn.Parameter(T.zeros(3))
    m.b = m.b + 1
    return x * m.b + m.p


@pytest.mark.parametrize("f", [used_after_a_break, parameter_is_set], ids=lambda f: f.__name__)
def test_breaks(f):
    T.compiler.reset()
    c = T.compile(f)
    for n in (2, 2, 5, 7):
        compare(f, c, n)
    assert T.compiler.stats()["plain_frames"] == 0


def test_returned():
    """A module or parameter that is returned is a real one, new at every call."""

    def f(x):
        m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        m.extra = 3
        p = nn.Parameter(x * 2)
        return m, m(x) * p, p

    T.compiler.reset()
    c = T.compile(f)
    x, seen = T.ones(2, 3), []
    for g in (f, c, c):
        T.manual_seed(1)
        m, y, p = g(x)
        y.sum().backward()
        assert type(m) is nn.Sequential and type(p) is nn.Parameter and m.extra == 3
        seen.append((m, tree([p.grad, m[0].weight.grad, m[0].weight, y]), sorted(m.state_dict())))
    assert seen[1][1:] == seen[0][1:] and seen[2][1:] == seen[0][1:] and seen[2][0] is not seen[1][0]
