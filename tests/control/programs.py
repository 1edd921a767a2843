"""Programs with structured control flow, for the tests of compiled and of exported code.

Each: a function of tensors, and a function that makes its arguments from a length.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import fusegrad as fg
from fusegrad import control, nn

State = namedtuple("State", "h c")
D = fg.float64


def r(*shape: int) -> Any:
    return fg.randn(*shape, dtype=D).requires_grad_()


def choose(x: Any, w: Any) -> Any:
    h = (x @ w).tanh()
    a, b = fg.cond(h.sum() > 0, lambda h: (h * h + x, h.sum()), lambda h: (h - x, (w * w).sum()), (h,))
    return a.sin(), b


def choose_in_a_branch(x: Any, w: Any) -> Any:
    def inner(x: Any) -> Any:
        return fg.cond(x.sum() > 0.3, lambda x: x.exp(), lambda x: x * w[0], (x,))

    return fg.cond(x.sum() > 0, lambda x: inner(x) + 1, lambda x: inner(-x) * 2, (x,))


def one_branch_constant(x: Any, w: Any) -> Any:
    return fg.cond(x.sum() > 0, lambda: fg.zeros(3, dtype=D), lambda: x * w[1]) + x


def detached(x: Any, w: Any) -> Any:
    return fg.cond(w.sum() > 0, lambda: x.detach() * w[0], lambda: x * w[0].detach() + 1)


def until(x: Any, w: Any) -> Any:
    return fg.while_loop(
        lambda i, s: (s.h.abs().sum() < 50) & (i < 9),
        lambda i, s: (i + 1, State(s.h @ w * 1.5 + s.c, s.c * 1.1)),
        (fg.tensor(0), State(x, x * 0.5)),
    )


def no_round(x: Any, w: Any) -> Any:
    return fg.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x @ w), (fg.tensor(0), x))


def overwritten(x: Any, w: Any) -> Any:
    """After one round the second value no longer depends on where it started."""
    _, a, b = fg.while_loop(
        lambda i, a, b: i < 3, lambda i, a, b: (i + 1, a * 2, a + w[0]), (fg.tensor(0), x, x + w[1])
    )
    return b


def loop_of_choices(x: Any, w: Any) -> Any:
    def body(i: Any, x: Any) -> Any:
        return i + 1, fg.cond(i % 2 == 0, lambda x: (x @ w).sin(), lambda x: x * 1.5, (x,))

    return fg.while_loop(lambda i, x: i < 5, body, (fg.tensor(0), x))[1]


def recurrence(x: Any, w: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        h = (c["h"] @ w + x).tanh()
        return {"h": h, "n": c["n"] + 1}, (h * x, c["n"] * 2)

    c, (y, n) = control.scan(step, {"h": w[0], "n": fg.zeros((), dtype=D)}, x)
    return c["h"], y, n


def recurrence_backward(x: Any, w: Any) -> Any:
    c, y = control.scan(lambda c, x: ((c @ w) * x, c + x), w[0], x, reverse=True)
    return c, y


def along_columns(x: Any, w: Any) -> Any:
    c, y = control.scan(lambda c, x: (c * x, c.sum() + x), w[0], x.t() * 2, dim=1)
    return c, y


def start_is_forgotten(x: Any, w: Any) -> Any:
    return control.scan(lambda c, x: (x * w[0], c + 1), w[1] * 2, x)[0]


def mapped(x: Any, w: Any) -> Any:
    return control.map(lambda x, w, n: {"a": (x @ w).sin(), "b": x[0] ** n}, x, w, 2)


def linear_recurrence(x: Any, w: Any) -> Any:
    return control.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (x.sigmoid(), x * w[0]), 0)[1]


VECTORS = {
    f.__name__: f
    for f in (
        choose, choose_in_a_branch, one_branch_constant, detached, until, no_round, overwritten, loop_of_choices,
    )
}  # fmt: skip
SEQUENCES = {
    f.__name__: f
    for f in (
        recurrence, recurrence_backward, along_columns, start_is_forgotten, mapped, linear_recurrence,
    )
}  # fmt: skip
LOOPS_BY_DATA = ("until", "no_round", "overwritten", "loop_of_choices")


class Gated(nn.Module):
    """Two layers, one of which is used."""

    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(3, 3, dtype=D)
        self.large = nn.Sequential(nn.Linear(3, 5, dtype=D), nn.Tanh(), nn.Linear(5, 3, dtype=D))

    def forward(self, x: Any) -> Any:
        return fg.cond(x.sum() > 0, self.small, self.large, (x,))


class Recurrent(nn.Module):
    """A cell applied along the first dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(3, 4, dtype=D)
        self.out = nn.Linear(4, 2, dtype=D)

    def forward(self, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = self.cell(x, h)
            return h, self.out(h)

        return control.scan(step, x.new_zeros(x.shape[1], 4), x)[1]
