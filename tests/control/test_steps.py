"""Gradients of loops whose values are not finite: a carry has a gradient in every step, or in none, as in PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg
from fusegrad import control, pytree

INF, NAN = float("inf"), float("nan")

BODIES: dict[str, Any] = {
    "a product": lambda c, a, w: (c * a, c * 1),
    "exponentials": lambda c, a, w: ((c * 300).exp(), (c * a).clone()),
    "a carry of the slices": lambda c, a, w: (a * 3, c * a),
    "a result of the slices": lambda c, a, w: (c * a, a * 2),
    "a parameter": lambda c, a, w: (c * w + a, (c * a).exp()),
    "a parameter of the carry alone": lambda c, a, w: (c * w, c * a),
    "linear": lambda c, a, w: (c + a, c * 2),
    "logarithms": lambda c, a, w: (c.log() + a, c.sqrt() * w),
}
PAIRS: dict[str, Any] = {
    "swapped": lambda c, a, w: ([c[1] * 1, c[0] * a], c[0] * 2),
    "one feeds the other": lambda c, a, w: ([c[0] * a, c[0] * c[1]], c[1] * w),
    "one is left alone": lambda c, a, w: ([c[0] * a, c[1] * w], c[0].exp()),
    "a chain": lambda c, a, w: ([a * w, c[0] / a], c[1] * 1),
}
VALUES = {
    "finite": ([1.0, -2.0], [[2.0, 3.0], [0.5, 1.0], [2.0, 2.0]]),
    "infinite slices": ([1.0, -2.0], [[2.0, 3.0], [INF, 1.0], [2.0, -INF]]),
    "an infinite start": ([INF, -INF], [[2.0, 0.0], [0.5, 1.0], [2.0, 2.0]]),
    "nan": ([NAN, 1.0], [[2.0, 3.0], [1.0, NAN], [2.0, 2.0]]),
    "zeros": ([0.0, -0.0], [[0.0, 3.0], [0.0, 0.0], [2.0, 2.0]]),
    "one step": ([1.0, INF], [[INF, 3.0]]),
}


def gradients(compiled: bool, body: Any, pair: bool, values: tuple, which: str, reverse: bool) -> list:
    start, slices = (fg.tensor(v, requires_grad=True) for v in values)
    w = fg.tensor([0.5, 2.0], requires_grad=True)
    init = [start, start * 2] if pair else start

    def f(init: Any, xs: Any, w: Any) -> Any:
        return control.scan(lambda c, a: body(c, a, w), init, xs, reverse=reverse)

    carry, ys = (fg.compile(f) if compiled else f)(init, slices, w)
    results = {"carry": [carry], "ys": [ys], "all": [carry, ys]}[which]
    asking = [t for t in pytree.tree_leaves(results) if t.requires_grad]
    found = fg.autograd.grad(sum(t.sum() for t in asking), [start, slices, w], allow_unused=True, create_graph=True)
    return [None if g is None else (g.requires_grad, g.detach().numpy()) for g in found]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", [*BODIES, *PAIRS])
def test_gradients_in_eager_and_compiled_code(name: str, values: str, reverse: bool) -> None:
    """(what had no gradient in the last steps had none in eager code, and zeros in compiled code: 0 * inf is NaN)"""
    body, pair = (PAIRS[name], True) if name in PAIRS else (BODIES[name], False)
    for which in ("carry", "ys", "all"):
        want, got = (gradients(c, body, pair, VALUES[values], which, reverse) for c in (False, True))
        for a, b in zip(want, got, strict=True):
            assert (a is None) == (b is None), which
            if a is not None:
                assert a[0] == b[0], which
                assert a[1] == pytest.approx(b[1], rel=1e-4, nan_ok=True), which


def test_the_values_of_pytorch() -> None:
    start = fg.tensor([1.0, -INF], requires_grad=True)
    slices = fg.tensor([[2.0, 3.0], [INF, 1.0], [2.0, 2.0]], requires_grad=True)
    control.scan(lambda c, a: (c * a, c.clone()), start, slices)[1].sum().backward()
    assert start.grad.tolist() == [INF, 7.0]
    assert str(slices.grad.tolist()) == "[[inf, -inf], [2.0, -inf], [nan, nan]]"


@pytest.mark.parametrize(
    "f",
    [
        lambda x: control.map(lambda u: u * u, x),
        lambda x: control.map(lambda u: u + 1, x),
        lambda x: control.scan(lambda c, u: (c * u, c + u), x[0], x)[1],
        lambda x: control.scan(lambda c, u: (c + u, c + u), x[0], x)[1],
        lambda x: control.associative_scan(lambda a, b: a * b, x, 0),
        lambda x: control.associative_scan(lambda a, b: a + b, x, 0),
        lambda x: control.cond(x.sum() > 0, lambda x: x * x, lambda x: x.exp(), (x,)),
        lambda x: control.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), (fg.tensor(0), x))[1],
        lambda x: control.map(lambda u: control.cond(u > 0, lambda u: u * u, lambda u: u.exp(), (u,)), x),
    ],
)
def test_a_second_backward_is_refused_where_bodies_keep_something(f):
    def twice(g):
        x = fg.rand(4).requires_grad_()
        y = g(x)
        y.sum().backward()
        try:
            y.sum().backward()
        except RuntimeError as e:
            assert "second time" in str(e)
            return "refused"
        return x.grad.tolist() and "allowed"

    assert twice(fg.compile(f, options={"interpret": True})) == twice(f)
