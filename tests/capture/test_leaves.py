"""Leaves that are made inside of compiled code."""

import pytest
from helpers import check

import fusegrad as T

x = T.arange(3.0)


def test_hidden_leaf():
    """A leaf that nobody sees afterwards: gradients by it are taken inside, results keep the rest of the history."""
    w = T.ones(3, requires_grad=True)

    def f(x, w):
        a = x.clone().requires_grad_(True)
        y = (a**3 * w).sum()
        (g,) = T.autograd.grad(y, a, create_graph=True)
        return (g * g).mean()

    c = check(f, (x, w), breaks=0)
    w.grad = None
    c(x, w).backward()
    got, w.grad = w.grad, None
    f(x, w).backward()
    assert got.tolist() == w.grad.tolist()


def test_result_of_a_hidden_leaf_alone():
    def f(x):
        a = x.clone()
        a.requires_grad = True
        return (a * a).sum()

    c = check(f, (x,), breaks=0)
    c(x).backward()  # reaches nothing that can be seen, as in eager


def test_leaf_that_is_returned():
    def f(x):
        a = T.ones(3, requires_grad=True)
        return a, (a * x).sum()

    c = check(f, (x,), breaks=1)
    a, loss = c(x)
    loss.backward()
    assert a.is_leaf and a.grad.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "f",
    [
        lambda ys, x: T.autograd.grad(ys, x, allow_unused=True),
        lambda ys, x: T.autograd.grad(outputs=ys, inputs=[x], allow_unused=True),
        lambda ys, x: T.autograd.grad([y + 1 for y in ys], [x], allow_unused=True),
        lambda ys, x: (T.autograd.backward(ys), x.grad.clone()),
        lambda ys, x: (T.autograd.backward(tensors=ys), x.grad.clone()),
        lambda ys, x: (ys[0].backward(), x.grad.clone()),
    ],
)
def test_results_from_before_in_a_list(f):
    """What a list from before holds was computed from the leaf: its gradient was None."""

    def made(x):
        T.rand(1).item()  # breaks the graph
        return [(x * 2).sum()]

    for compiled in (f, lambda _, x: f(made(x), x)):
        w = T.ones(3).requires_grad_()
        want = compiled([(w * 2).sum()], w)
        w.grad = None
        got = T.compile(compiled)([(w * 2).sum()], w)
        assert want[-1].tolist() == got[-1].tolist() == [2.0] * 3
