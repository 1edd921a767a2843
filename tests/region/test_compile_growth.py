"""The work of compiling a loop grows no faster than the loop: counted in Python calls, the same every time."""

import sys

import pytest

import fusegrad as T


def calls_to_compile(n, step):
    """Python functions called while the first call compiles."""
    f = T.compile(step(n), options={"cache": False})
    x = T.ones(2, n, 3)
    count = 0

    def note(frame, event, arg):
        nonlocal count
        count += event == "call"

    T.compiler.reset()
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        f(x)
    finally:
        sys.setprofile(before)
    assert T.compiler.stats()["graphs"] == 1 and T.compiler.stats()["graph_breaks"] == 0
    return count


def recurrent(n):
    w = T.ones(3, 3, requires_grad=True)

    def step(x):
        h = T.zeros(2, 3)
        for t in range(n):
            h = T.tanh(x[:, t] @ w + h * 0.5)
        h.sum().backward()
        return h.detach()

    return step


def optimizer(n):
    """The loop is over parameters."""
    params = [T.ones(3, requires_grad=True) for _ in range(n)]
    opt = T.optim.Adam(params)

    def step(x):
        opt.zero_grad()
        loss = sum((p * x[0, 0]).sum() for p in params)
        loss.backward()
        T.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        return loss.detach()

    return step


@pytest.mark.parametrize("step", [recurrent, optimizer])
def test_work_grows_like_the_loop(step):
    calls_to_compile(2, step)  # imports, tables made at first use
    few, more = calls_to_compile(10, step), calls_to_compile(40, step)
    assert more < 4.6 * few, (few, more)
