"""Who is who among tensors: one object in two places is one leaf, has one gradient, one flag, one history."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn


def product(a: Any, b: Any) -> Any:
    return T.autograd.grad((a * b).sum(), (a, b), allow_unused=True)


def backward(a: Any, b: Any) -> Any:
    (a * b).sum().backward()
    return a.grad, b.grad


def attribute(a: Any, b: Any) -> Any:
    a.tag = 1
    b.tag = 2
    return a.tag, a * b


def flag(a: Any, b: Any) -> Any:
    a.requires_grad_(not a.requires_grad)
    return (b * 2).requires_grad, b.requires_grad


def gradient_set(a: Any, b: Any) -> Any:
    a.grad = T.ones(3)
    return None if b.grad is None else b.grad * 2


def gradient_cleared(a: Any, b: Any) -> Any:
    a.grad = None
    return b.grad


def leaves(same: bool, requires_grad: bool) -> Any:
    a = T.arange(3.0).requires_grad_(requires_grad)
    b = a if same else T.ones(3).requires_grad_(requires_grad)
    a.grad, b.grad = T.ones(3), T.ones(3) * 2
    return a, b


@pytest.mark.parametrize("order", [(False, True, False, True), (True, False, True, False)], ids=["apart", "same"])
@pytest.mark.parametrize(
    ("f", "requires_grad"),
    [
        (product, True),
        (backward, True),
        (attribute, False),
        (flag, True),
        (gradient_set, False),
        (gradient_cleared, True),
    ],
)
def test_one_object_in_two_arguments(f: Any, requires_grad: bool, order: tuple) -> None:
    T.compiler.reset()
    c = T.compile(f)
    for same in order:
        x, y = leaves(same, requires_grad), leaves(same, requires_grad)
        assert tree(c(*x)) == tree(f(*y))
        assert [tree((t.grad, t.requires_grad, vars(t))) for t in x] == [
            tree((t.grad, t.requires_grad, vars(t))) for t in y
        ]


def test_a_parameter_that_is_also_an_argument() -> None:
    def make() -> Any:
        T.manual_seed(0)
        lin = nn.Linear(3, 1, bias=False)

        def f(w: Any, x: Any) -> Any:
            lin.weight.grad = w.grad = None
            (lin(x) * w.sum()).sum().backward()
            return lin.weight.grad, w.grad

        return lin, f

    (n, f), (m, g) = make(), make()
    c, x = T.compile(g), T.ones(2, 3)
    for _ in range(2):
        assert tree(c(nn.Parameter(T.ones(1, 3)), x)) == tree(f(nn.Parameter(T.ones(1, 3)), x))
        assert tree(c(m.weight, x)) == tree(f(n.weight, x))


def test_leaves_in_a_list_that_become_one() -> None:
    """Reached from a fixed object, where only replaced arrays are looked at again."""

    def make() -> Any:
        leaves = [T.ones(2).requires_grad_(), T.ones(2).requires_grad_() * 1]
        leaves[1] = T.ones(2).requires_grad_()

        def f(x: Any) -> Any:
            return T.autograd.grad((leaves[0] * leaves[1] * x).sum(), leaves)

        return leaves, f

    (p, f), (q, g) = make(), make()
    c, x = T.compile(g), T.tensor([1.0, 2.0])
    assert tree(c(x)) == tree(f(x))
    for k in (0, 1):
        for some in (p, q):
            some[1 - k] = some[k] = (T.ones(2) * (k + 2)).requires_grad_()
        assert tree(c(x)) == tree(f(x))


def test_history_from_before_leads_to_another_input() -> None:
    """The gradient with respect to w passes through h, which was computed from w outside."""

    def one(w: Any, h: Any) -> Any:
        return T.autograd.grad((h * w).sum(), w)

    def two(w: Any, h: Any) -> Any:
        return T.autograd.grad((h * w).sum(), (w, h))

    def itself(w: Any, h: Any) -> Any:
        y = h * 3
        return T.autograd.grad((y * y).sum(), (h, y))

    for f in (one, two, itself):
        T.compiler.reset()
        c = T.compile(f)
        for scale in (2.0, 3.0):
            w = T.ones(3).requires_grad_()
            want = f(w, w * scale)
            assert tree(c(w, w * scale)) == tree(want)
        assert T.compiler.stats()["graph_breaks"] == (f is not itself)


def test_hash_of_a_tensor_is_the_one_of_plain_python() -> None:
    """A tensor's hash is its id; inside of tuples and sets too."""

    def f(x: Any) -> Any:
        return hash(x), hash(x) == id(x), {x: 1}[x], hash((x, 1)), hash((1, (x,))), hash(frozenset([x]))

    def g(x: Any) -> Any:
        z = x + 1
        return hash(x), hash(z) == id(z), {(x, 1): 2}[x, 1], hash(x) == hash(z)

    for fn in (f, g):
        c = T.compile(fn)
        a, b = T.ones(2), T.ones(3)
        for x in (a, b, a):
            assert c(x) == fn(x)
