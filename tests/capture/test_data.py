"""``.data``: the tensor sees what is written through it, without counting it; setting it replaces the memory."""

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn


def changed(w, x):
    y = (w * w * x).sum()
    w.data.clamp_(-1, 1)
    return y


def changed_through_a_view(w, x):
    y = (w * w * x).sum()
    w.data[1:].mul_(3)
    return y + w[1].detach()


def kept_alias(w, x):
    d = w.data
    y = (w * w * x).sum()
    d.mul_(2)
    return y + d.sum()


def backward_inside(w, x):
    y = (w * w * x).sum()
    w.data.mul_(2)
    y.backward()
    g, w.grad = w.grad, None
    return (w * w * g).sum()


def replaced(w, x):
    y = (w * w * x).sum()
    w.data = w.data * 2
    return y


def replaced_then_used(w, x):
    w.data = w.data * x + 1
    return (w * w).sum()


def detached(w, x):  # the same counter: eager code refuses this backward
    y = (w * w * x).sum()
    w.detach().clamp_(-1, 1)
    return y


def in_no_grad(w, x):
    y = (w * w * x).sum()
    with T.no_grad():
        w.clamp_(-1, 1)
    return y


def both(w, x):
    w.data.mul_(2)
    with T.no_grad():
        w.mul_(2)
    return (w * x).sum()


def view_outside_grad(w, x):
    with T.no_grad():
        w.view(-1)[:2].add_(x[:2])
    return (w * x).sum()


FUNCTIONS = [changed, changed_through_a_view, kept_alias, backward_inside, replaced, replaced_then_used, detached,
             in_no_grad, both, view_outside_grad]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("before", [False, True], ids=["alone", "saved before"])
def test_data(f, before):
    """Values, gradients, and whether a graph that saved the tensor before the call can still be differentiated."""
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        seen = []
        for g in (f, c):
            w = T.tensor([1.0, 2.0, -3.0]).requires_grad_()
            x = T.tensor([1.0, 1.0, 2.0])
            other = (w * w).sum() if before else None
            version = w._version
            try:
                y = g(w, x)
                (y if other is None else y + other).backward()
                end = tree((y, w.grad))
            except RuntimeError as e:
                end = type(e).__name__, str(e).split("[")[0]
            seen.append((end, tree(w), w._version > version))
        assert seen[1] == seen[0]


def test_target_network():
    """Updates of a target network by ``.data``: one graph, the parameters stay the same objects in the same memory."""

    def f(online, target, x):
        y = online(x).sum()
        for p, q in zip(online.parameters(), target.parameters(), strict=True):
            q.data.mul_(0.9).add_(p.data, alpha=0.1)
            p.data.clamp_(-0.2, 0.2)
        return y + target(x).sum()

    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    seen = []
    for g in (f, c):
        T.manual_seed(0)
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        memory = [p.data_ptr() for p in (*a.parameters(), *b.parameters())]
        outs = [tree(g(a, b, T.ones(n, 3))) for n in (2, 2, 5, 7)]
        assert memory == [p.data_ptr() for p in (*a.parameters(), *b.parameters())]
        seen.append((outs, tree([*a.parameters(), *b.parameters()]), [p._version for p in b.parameters()]))
    assert seen[1] == seen[0]
