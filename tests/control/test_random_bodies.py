"""Random numbers in the functions of control flow: compiled code draws what eager code draws, and as many."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as fg
from fusegrad import control
from fusegrad.nn import functional as F


def noisy_scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        noise = fg.rand(3)
        return carry * noise + row, carry * noise.sin() + fg.randn(3)

    last, rows = control.scan(step, fg.ones(3), x)
    return last + fg.rand(3), rows


def backwards(x: Any) -> Any:
    return control.scan(lambda c, row: (c + F.dropout(row, 0.4), c * row), fg.zeros(3), x, reverse=True)[1]


def dropped_rows(x: Any) -> Any:
    return control.map(lambda row: F.dropout(row.sin(), 0.5), x) + fg.rand(1)


def nested(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        inner = control.map(lambda v: v * fg.rand(()), row)
        return c + inner, fg.where(fg.rand(3) > 0.5, inner, c)

    return control.scan(step, fg.zeros(3), x)


def pairs(x: Any) -> Any:
    return control.map(lambda row, k: (row * fg.rand(3) * k, fg.randint(0, 9, (2,))), x, 2.0)


def choice(x: Any) -> Any:
    y = control.cond(x.sum() > 0, lambda v: v * fg.rand(3), lambda v: v - fg.rand(5, 3), (x,))
    return y + fg.rand(1)


def loop(x: Any) -> Any:
    _, y = control.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * fg.rand(3)), (fg.tensor(0), x))
    return y + fg.rand(1)


def along_columns(x: Any) -> Any:
    return control.scan(lambda c, v: (c + v * fg.rand(v.shape[0]), c), fg.zeros(x.shape[0]), x, dim=1)[0]


GRAPHS = (noisy_scan, backwards, dropped_rows, nested, pairs, along_columns)


def outcome(f: Any, n: int = 5) -> tuple:
    """Results, first and second derivatives, and the state of the generator."""
    fg.manual_seed(n)
    x = (fg.arange(n * 3.0).reshape(n, 3) / 7 - 0.5).requires_grad_()
    out = f(x)
    out = out if isinstance(out, tuple) else (out,)
    tensors = [t for t in out if t.requires_grad]
    (g,) = fg.autograd.grad(sum((t * t).sum() for t in tensors), x, create_graph=True)
    h = fg.autograd.grad(g.sum(), x, allow_unused=True)[0] if g.requires_grad else None
    return (*(t.detach() for t in out), g.detach(), fg.zeros(1) if h is None else h, fg.get_rng_state())


@pytest.mark.parametrize("f", [*GRAPHS, choice, loop], ids=lambda f: f.__name__)
def test_the_draws_of_eager(f: Any) -> None:
    fg.compiler.reset()
    c = fg.compile(f)
    for n in (5, 5, 4, 7, 5):
        for a, b in zip(outcome(c, n), outcome(f, n), strict=True):
            assert a.dtype is b.dtype and fg.allclose(a, b), (n, a, b)
    if f in GRAPHS:
        first = fg.compiler.stats()["break_reasons"]
        fg.compiler.reset()
        outcome(c)
        assert fg.compiler.stats()["graph_breaks"] == 0, first
        assert fg.compiler.stats()["compiles"] == 1


def test_long_scans_break() -> None:
    fg.compiler.reset()
    c = fg.compile(dropped_rows)
    for a, b in zip(outcome(c, 80), outcome(dropped_rows, 80), strict=True):
        assert fg.allclose(a, b)
    assert "FG020" in fg.compiler.stats()["break_reasons"][0]


def test_effects_happen_once_a_step() -> None:
    def f(x: Any, log: list) -> Any:
        def step(c: Any, row: Any) -> Any:
            log.append(row.shape[0])
            return c + row * fg.rand(3), c

        return control.scan(step, fg.zeros(3), x)[0]

    x = fg.ones(4, 3)
    found = []
    for g in (f, fg.compile(f), fg.compile(f)):
        log: list = []
        fg.manual_seed(1)
        out = [g(x, log).tolist(), g(x, log).tolist()]
        found.append((out, log, fg.get_rng_state().tolist()))
    assert found[0] == found[1] == found[2]
