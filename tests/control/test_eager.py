"""Structured control flow in eager code: against hand-written loops, with first and second derivatives."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import control, nn
from fusegrad.autograd import gradcheck, gradgradcheck
from fusegrad.errors import ControlFlowError

State = namedtuple("State", "h c")


def r(*shape: int, grad: bool = True) -> Any:
    t = fg.randn(*shape, dtype=fg.float64)
    return t.requires_grad_() if grad else t


def both(f: Any, *args: Any) -> None:
    """First and second derivatives by differences."""
    assert gradcheck(f, args) and gradgradcheck(f, args)


def test_names() -> None:
    from fusegrad._higher_order_ops import scan

    assert scan is control.scan and fg._higher_order_ops.map is control.map
    assert fg.cond is control.cond and fg.while_loop is control.while_loop


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("kind", ["tensor", "bool", "one element"])
def test_cond(sign: float, kind: str) -> None:
    x, w = r(3), r(3, 3)

    def pick(x: Any, w: Any) -> Any:
        pred = x.detach().sum() * 0 + sign > 0
        pred = {"tensor": pred, "bool": bool(pred), "one element": pred.reshape(1, 1)}[kind]
        out = fg.cond(pred, lambda a: {"y": (a["x"] @ w).sin()}, lambda a: {"y": a["x"] * a["n"]}, ({"x": x, "n": 3},))
        return out["y"]

    want = (x @ w).sin() if sign > 0 else x * 3
    assert fg.equal(pick(x, w), want)
    both(lambda x: pick(x, w), x)
    if sign > 0:
        both(pick, x, w)


def test_cond_runs_one_branch_and_counts_its_draws_alone() -> None:
    ran = []

    def yes(x: Any) -> Any:
        ran.append(x._data is not None)
        return x + fg.rand(3)

    fg.manual_seed(3)
    out = fg.cond(fg.tensor(True), yes, lambda x: x - fg.rand(3) - fg.rand(3), (fg.zeros(3),))
    after = fg.rand(2)
    fg.manual_seed(3)
    assert fg.equal(out, fg.rand(3)) and fg.equal(after, fg.rand(2)) and ran == [True]


def test_gradients_of_a_modules_parameters() -> None:
    layer = nn.Linear(3, 3)
    x = fg.randn(2, 3)
    fg.cond(x.sum() < 1e9, layer, lambda x: x * 2, (x,)).sum().backward()
    np.testing.assert_allclose(layer.weight.grad.numpy(), np.tile(x.numpy().sum(0), (3, 1)), rtol=1e-5)
    assert fg.equal(layer.bias.grad, fg.full((3,), 2.0))


def test_while_loop_against_a_hand_written_one() -> None:
    def f(x: Any, w: Any) -> Any:
        i, s = fg.while_loop(
            lambda i, s: (s.h.detach().abs().sum() < 50) & (i < 9),
            lambda i, s: (i + 1, State(s.h @ w + s.c, s.c * 1.5)),
            (fg.tensor(0), State(x, x * 0.5)),
        )
        return s.h, s.c

    def by_hand(x: Any, w: Any) -> Any:
        i, h, c = 0, x, x * 0.5
        while h.detach().abs().sum() < 50 and i < 9:
            i, h, c = i + 1, h @ w + c, c * 1.5
        return h, c

    x, w = r(2), r(2, 2)
    for got, want in zip(f(x, w), by_hand(x, w), strict=True):
        assert fg.equal(got, want)
    both(f, x, w)


def test_while_loop_with_numbers_and_without_rounds() -> None:
    x = r(3)
    n, y = fg.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, x * 2), (0, x))
    assert n == 4 and type(n) is int and fg.equal(y, x * 16)
    n, y = fg.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2), (0, x))
    assert n == 0 and fg.equal(y, x) and y is not x and y.data_ptr() != x.data_ptr()
    (g,) = fg.autograd.grad(y.sum(), x)
    assert fg.equal(g, fg.ones(3, dtype=fg.float64))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scan_against_a_hand_written_loop(dim: int, reverse: bool) -> None:
    def f(xs: Any, h: Any, w: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            h = (c["h"] @ w + x).tanh()
            return {"h": h}, (h * x, x.sum(0, keepdim=True).expand(2))

        c, (a, b) = control.scan(step, {"h": h}, xs, dim=dim, reverse=reverse)
        return c["h"], a, b

    def by_hand(xs: Any, h: Any, w: Any) -> Any:
        a, b = [], []
        parts = xs.unbind(dim)
        for x in parts[::-1] if reverse else parts:
            h = (h @ w + x).tanh()
            a.append(h * x)
            b.append(x.sum(0, keepdim=True).expand(2))
        at = dim % 2
        return h, *(fg.stack(v[::-1] if reverse else v, 0).movedim(0, at) for v in (a, b))

    xs, h, w = r(4, 2) if dim == 0 else r(2, 4), r(2), r(2, 2)
    for got, want in zip(f(xs, h, w), by_hand(xs, h, w), strict=True):
        assert fg.equal(got, want)
    both(f, xs, h, w)


def test_scan_backward_is_linear_in_the_length() -> None:
    """One gradient of the whole sequence, not one of its size for each step."""
    xs = r(6, 2)
    c, _ = control.scan(lambda c, x: (c + x * x, x), r(2, grad=False), xs)
    seen, todo, kinds = set(), [c.grad_fn], []
    while todo:
        n = todo.pop()
        if n is None or isinstance(n, fg.Tensor) or n in seen:
            continue
        seen.add(n)
        kinds.append(n.name())
        todo += n.edges
    assert kinds.count("UnbindBackward0") == 1 and not any("Select" in k or "Slice" in k for k in kinds), kinds


def test_changing_the_sequence_before_the_backward_is_noticed() -> None:
    xs = r(3, 2) * 1
    c, _ = control.scan(lambda c, x: (c * x, x), r(2, grad=False), xs)
    with fg.no_grad():
        xs.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        c.sum().backward()


def test_map() -> None:
    xs, y = r(4, 2), r(2)

    def f(xs: Any, y: Any) -> Any:
        out = control.map(lambda x, y, n: [x["a"] * y, (x["b"] ** n).sum()], {"a": xs, "b": xs}, y, 3)
        return tuple(out)

    assert fg.equal(f(xs, y)[0], xs * y)
    both(f, xs, y)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6, 7, 8, 13, 16])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(n: int, reverse: bool) -> None:
    """Matrices: associative, not commutative; a pair: the linear recurrence."""
    m, a, b = r(2, n, 2), r(n, 2), r(n, 2)
    m = fg.randn(n, 2, 2, dtype=fg.float64)
    got = control.associative_scan(fg.matmul, m, 0, reverse)
    order = list(range(n))[:: -1 if reverse else 1]
    acc = m[order[0]]
    for k, i in enumerate(order):
        acc = acc @ m[i] if k else acc
        assert fg.allclose(got[i], acc)

    def f(a: Any, b: Any) -> Any:
        return control.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b), 0, reverse)[1]

    h, want = fg.zeros(2, dtype=fg.float64), [None] * n
    for i in order:
        h = a[i] * h + b[i]
        want[i] = h
    assert fg.allclose(f(a, b), fg.stack(want))
    if n in (1, 2, 5):
        both(f, a, b)


def test_associative_scan_combines_logarithmically_often() -> None:
    calls = []

    def add(a: Any, b: Any) -> Any:
        calls.append(1)
        return a + b

    out = control.associative_scan(add, fg.ones(3, 1000), 1)
    assert fg.equal(out[2], fg.arange(1.0, 1001.0)) and len(calls) <= 20


def test_transforms_pass_through() -> None:
    x = fg.tensor([[1.0, 2.0], [-3.0, 1.0]])
    pick = lambda x: fg.cond(x.sum() > 0, lambda x: (x * x).sum(), lambda x: x.sum() * 3, (x,))  # noqa: E731
    assert fg.equal(fg.vmap(pick)(x), fg.tensor([5.0, -6.0]))
    assert fg.equal(fg.vmap(fg.func.grad(pick))(x), fg.tensor([[2.0, 4.0], [3.0, 3.0]]))
    total = lambda x: control.scan(lambda c, x: (c * x, c + x), fg.ones(2), x)[0]  # noqa: E731
    y = fg.rand(3, 4, 2)
    assert fg.allclose(fg.vmap(total)(y), y.prod(1))
    value, tangent = fg.func.jvp(total, (y[0],), (fg.ones(4, 2),))
    assert fg.allclose(tangent, fg.func.jvp(lambda x: x.prod(0), (y[0],), (fg.ones(4, 2),))[1])
    loop = lambda x: fg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (fg.tensor(0), x))[1]  # noqa: E731
    assert fg.equal(fg.func.jvp(loop, (fg.ones(3),), (fg.ones(3),))[1], fg.full((3,), 8.0))


X = fg.ones(3)
I = fg.tensor(0)  # noqa: E741
P = fg.tensor(True)
XS = fg.ones(4, 3)
BUFFER = fg.ones(3)
REFUSED: dict[str, tuple[Any, str]] = {
    "other shape": (lambda: fg.cond(P, lambda x: x + 1, lambda x: x[:2] + 1, (X,)), "same metadata"),
    "other shape, other order": (lambda: fg.cond(~P, lambda x: x + 1, lambda x: x[:2] + 1, (X,)), "same metadata"),
    "other dtype": (lambda: fg.cond(P, lambda x: x + 1, lambda x: x.double(), (X,)), "same metadata"),
    "other structure": (lambda: fg.cond(P, lambda x: x + 1, lambda x: (x + 1,), (X,)), "same structure"),
    "number or tensor": (lambda: fg.cond(P, lambda x: 1, lambda x: x + 1, (X,)), "same metadata"),
    "long predicate": (lambda: fg.cond(X > 0, lambda x: x + 1, lambda x: x * 2, (X,)), "single-element"),
    "predicate": (lambda: fg.cond("yes", lambda x: x + 1, lambda x: x * 2, (X,)), "bool or tensor"),
    "branch": (lambda: fg.cond(P, 3, lambda x: x * 2, (X,)), "callable"),
    "operands": (lambda: fg.cond(P, lambda x: x + 1, lambda x: x * 2, X), "tuple"),
    "text operand": (lambda: fg.cond(P, lambda x, s: x + 1, lambda x, s: x * 2, (X, "a")), "str"),
    "alias": (lambda: fg.cond(P, lambda x: x, lambda x: x * 2, (X,)), "aliases an input"),
    "view": (lambda: fg.cond(P, lambda x: x[:], lambda x: x * 2, (X,)), "aliases an input"),
    "alias of a closure": (lambda: fg.cond(P, lambda: BUFFER, lambda: X * 2), "aliases an input"),
    "results alias": (lambda: fg.cond(P, lambda x: 2 * ((x + 1),), lambda x: (x, x + 1), (X,)), "alias each other"),
    "operand changed": (lambda: fg.cond(P, lambda x: x.add_(1) * 2, lambda x: x * 2, (fg.ones(3),)), "in place"),
    "closure changed": (lambda: fg.cond(P, lambda x: BUFFER.add_(1) * 2, lambda x: x * 2, (X,)), "in place"),
    "while shape": (lambda: fg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, fg.cat([x, x])), (I, X)), "same m"),
    "while dtype": (lambda: fg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.double()), (I, X)), "same metad"),
    "while structure": (lambda: fg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1,), (I, X)), "same structure"),
    "while no tuple": (lambda: fg.while_loop(lambda i: i < 3, lambda i: i + 1, (I,)), "return a tuple"),
    "while number": (lambda: fg.while_loop(lambda i: i < 3, lambda i: (i + 0.5,), (0,)), "same metadata"),
    "while long": (lambda: fg.while_loop(lambda x: x < 3, lambda x: (x + 1,), (X,)), "bool or a 0-d bool tensor"),
    "while int": (lambda: fg.while_loop(lambda x: 3, lambda x: (x + 1,), (X,)), "bool or a 0-d bool tensor"),
    "while changed": (lambda: fg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.mul_(2)), (I, X + 1)), "in pl"),
    "while alias": (lambda: fg.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x), (I, X)), "aliases an input"),
    "while operands": (lambda: fg.while_loop(lambda i: i < 3, lambda i: (i + 1,), I), "tuple"),
    "scan carry": (lambda: control.scan(lambda c, x: (fg.cat([c, x]), x), X, XS), "same metadata"),
    "scan alias": (lambda: control.scan(lambda c, x: (x, c * x), X, XS), "aliases an input"),
    "scan result": (lambda: control.scan(lambda c, x: c + x, X, XS), "return \\(carry, y\\)"),
    "scan lengths": (lambda: control.scan(lambda c, x: (c + x[0], c), X, (XS, fg.ones(5, 3))), "same size"),
    "scan empty": (lambda: control.scan(lambda c, x: (c + x, c), X, fg.ones(0, 3)), "dimension > 0"),
    "scan init": (lambda: control.scan(lambda c, x: (c + x, c), 0.0, XS), "must be a Tensor"),
    "scan no init": (lambda: control.scan(lambda c, x: (c, x * 2), (), XS), "requires init"),
    "scan y": (lambda: control.scan(lambda c, x: (c + x, 3), X, XS), "must be a Tensor"),
    "scan changed": (lambda: control.scan(lambda c, x: (c + x, BUFFER.add_(1) + 1), X, XS), "in place"),
    "map lengths": (lambda: control.map(lambda x: x[0] + x[1], (XS, fg.ones(5, 3))), "consistent"),
    "map empty": (lambda: control.map(lambda x: x + 1, fg.ones(0, 3)), "cannot be 0"),
    "associative shape": (lambda: control.associative_scan(lambda a, b: fg.cat([a, b]), XS, 0), "shapes and dtypes"),
    "associative structure": (lambda: control.associative_scan(lambda a, b: (a, b), XS, 0), "structure"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_refused(case: str) -> None:
    """RuntimeError, as PyTorch's refusals are."""
    call, message = REFUSED[case]
    with pytest.raises(RuntimeError, match=message):
        call()


def test_refused_by_other_classes() -> None:
    with pytest.raises(IndexError, match="out of range"):
        control.scan(lambda c, x: (c + x, c), X, XS, dim=5)
    with pytest.raises(IndexError, match="out of range"):
        control.associative_scan(fg.add, XS, 4)
    with pytest.raises(IndexError):
        control.map(lambda x: x, fg.tensor(1.0))
    with pytest.raises(ValueError, match="dimension > 0"):
        control.associative_scan(fg.add, fg.ones(0, 3), 0)
    with pytest.raises(ValueError, match="pointwise"):
        control.associative_scan(fg.add, XS, 0, combine_mode="x")


def test_the_check_of_the_other_branch_changes_nothing() -> None:
    """It runs on shapes: real tensors stay, no numbers are drawn, and what it cannot tell is no error."""
    state, buffer = fg.get_rng_state(), fg.zeros(3)

    def other(x: Any) -> Any:
        buffer.add_(1)
        return x

    fg.cond(P, lambda x: x + 1, other, (X,))
    fg.cond(P, lambda x: x + 1, lambda x: x * x.sum().item(), (X,))
    fg.cond(P, lambda x: x + 1, lambda x: x + fg.rand(3), (X,))
    assert fg.equal(buffer, fg.zeros(3)) and fg.equal(fg.get_rng_state(), state)
    buffer.add_(1)  # allowed again


def test_the_class_of_the_refusals() -> None:
    with pytest.raises(ControlFlowError):
        fg.cond(P, lambda x: x, lambda x: x * 2, (X,))


def test_what_the_other_branch_uses_has_a_gradient_of_zeros() -> None:
    """And the result requires a gradient whichever branch is taken."""
    x, w = r(3), r(3)
    for flag in (True, False):
        y = fg.cond(fg.tensor(flag), lambda: x * 2, lambda: w * w)
        assert y.requires_grad
        gx, gw = fg.autograd.grad(y.sum(), (x, w))
        assert fg.equal(gx, fg.full((3,), 2.0 if flag else 0.0, dtype=fg.float64))
        assert fg.equal(gw, w * 0 if flag else 2 * w)
    y = fg.cond(fg.tensor(True), lambda: fg.ones(3), lambda: w.float() * 2)
    assert y.requires_grad and fg.autograd.grad(y.sum(), w)[0].abs().max() == 0
    a, b = fg.cond(fg.tensor(True), lambda: (x + 1, x * 2), lambda: (x + 1, w + 2))
    assert fg.autograd.grad(a.sum(), (x, w), allow_unused=True)[1] is None  # per result
    assert fg.cond(True, lambda: fg.ones(3), lambda: w.float()).requires_grad is False  # a bool just chooses
    with fg.no_grad():
        assert not fg.cond(fg.tensor(True), lambda: x * 2, lambda: w * w).requires_grad


def test_what_any_round_may_use_has_a_gradient() -> None:
    x, w = r(3), r(3)
    for rounds in (0, 1, 3):
        _, a, b = fg.while_loop(
            lambda i, a, b, n=rounds: i < n,
            lambda i, a, b: (i + 1, b * w, a * 2),
            (fg.tensor(0), x, fg.ones(3, dtype=w.dtype)),
        )
        assert a.requires_grad and b.requires_grad
        for t in (a, b):
            gx, gw = fg.autograd.grad(t.sum(), (x, w), allow_unused=True)
            assert gx is not None and gw is not None
    i = fg.while_loop(lambda i, n: i < 3, lambda i, n: (i + 1, n + 1.0), (fg.tensor(0), fg.tensor(0.0)))[1]
    assert not i.requires_grad


def test_control_flow_in_the_branch_not_taken() -> None:
    """What it uses is found through choices, loops and scans inside of it."""
    x, w, v = r(3), r(3), r(3)

    def other(x: Any) -> Any:
        a = fg.cond(x.sum() > 0, lambda: x * w, lambda: x + 1)
        _, b = fg.while_loop(lambda i, b: i < 2, lambda i, b: (i + 1, b * v), (fg.tensor(0), a))
        c, _ = control.scan(lambda c, t: (c * t, c), b, fg.stack([x, x]))
        return c + control.map(lambda t: t * 2, fg.stack([x, x])).sum(0)

    y = fg.cond(fg.tensor(True), lambda x: x * 3, other, (x,))
    gx, gw, gv = fg.autograd.grad(y.sum(), (x, w, v))
    assert gx.tolist() == [3.0] * 3 and gw.tolist() == [0.0] * 3 and gv.tolist() == [0.0] * 3
