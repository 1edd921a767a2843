"""Gradients that a compiled step stores for two leaves lie in memory of their own, as in eager."""

from __future__ import annotations

import pytest

import fusegrad as fg


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: (x + y).mul(2).sum(),
        lambda x, y: (x + y.t()).sum(),
        lambda x, y: (x - y).sum() + (x.t() * 1).sum(),
        lambda x, y: (x.t() * 3).sum() + y.sum(),
        lambda x, y: x.reshape(9).sum() + y.view(9).sum(),
    ],
    ids=["sum", "transposed", "mixed", "layout", "reshaped"],
)
def test_two_leaves(f) -> None:
    def step(x, y):
        f(x, y).backward()
        return x * 1

    grads = []
    for run in (step, fg.compile(step)):
        x, y = (fg.ones(3, 3).requires_grad_() for _ in range(2))
        run(x, y)
        x.grad.mul_(100)
        y.grad[0, 1] = 7.0
        grads.append((x.grad.tolist(), y.grad.tolist(), x.grad.stride(), y.grad.stride()))
    assert grads[0] == grads[1]
    assert len(set(grads[0][1][2])) == 1  # the write went to one element


def test_given_cotangent() -> None:
    def step(x, v):
        (x * 1).backward(v)
        return v * 2

    for run in (step, fg.compile(step)):
        x, v = fg.ones(3).requires_grad_(), fg.full((3,), 2.0)
        run(x, v)
        x.grad.mul_(100)
        assert v.tolist() == [2.0] * 3 and x.grad.tolist() == [200.0] * 3
