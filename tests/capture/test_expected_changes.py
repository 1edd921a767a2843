"""What will be another number, size or module the next time behind a break: known at once, it costs no version more."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from helpers import run

import fusegrad as T


def numbers_of_a_loop(x: Any) -> Any:
    for i in range(5):
        x = x * 2
        a = float(x.sum())
        x = x + a * 0.01
        print(i, end="")
        x = x + i
    return x


def numbers_in_tuples(x: Any) -> Any:
    for k, (name, v) in enumerate([("a", 2), ("a", 3), ("a", 4)]):
        x = x * v + k
        print(name, end="")
    return x


def a_counter_of_a_while(x: Any) -> Any:
    n, step = 0, 1.0
    while n < 4:
        x = x * step + n
        print(n, end="")
        n, step = n + 1, step * 0.5
    return x


def losses(x: Any) -> Any:
    total = 0.0
    for k in (1.0, 2.0, 3.0):
        total = total + (x * k).sum().item()
    return x * total


def measured(x: Any) -> Any:
    def scores(y: Any) -> Any:
        return y.sum().item(), (y.max().item(), len(y))

    return scores(x * 2), scores(x)[1][0] + 1


LAYERS = [T.nn.Linear(3, 3) for _ in range(4)]


def layers(x: Any) -> Any:
    for layer in LAYERS:
        x = layer(x)
        print("", end="")
        x = x * 2
    return x


def elements(x: Any, n: int) -> Any:
    x = T.arange(6.0) + x.sum()
    picked = x[x > x.mean() - n]
    return (picked * 2).sum(), T.nonzero(x > 2)[:, 0] + 1


@pytest.mark.parametrize("f", [numbers_of_a_loop, numbers_in_tuples, a_counter_of_a_while, losses, measured, layers])
def test_one_version_of_each_state(f: Any, capsys: Any) -> None:
    T.compiler.reset()
    c = T.compile(f)
    x = T.tensor([1.0, 2.0, 3.0])
    for k in (1, 1, -2):
        assert run(c, (x * k,)) == run(f, (x * k,))
    reasons = T.compiler.stats()["recompile_reasons"]
    assert len(reasons) == (f is a_counter_of_a_while), reasons  # its condition goes both ways


def test_sizes_that_depend_on_data() -> None:
    T.compiler.reset()
    c = T.compile(elements)
    x = T.tensor([1.0, 2.0, 3.0])
    for n in (0, 0, 0, 0):
        x = x - 4 + n
        assert run(c, (x, n)) == run(elements, (x, n))
    for n in (1, 2, 0, 2, 1):
        assert run(c, (x, n)) == run(elements, (x, n))
    reasons = "\n".join(T.compiler.stats()["recompile_reasons"])
    assert "shape" not in reasons, reasons


def test_static_stays_static() -> None:
    """With ``dynamic=False`` every number has a version of its own."""
    c = T.compile(losses, dynamic=False)
    x = T.tensor([1.0, 2.0, 3.0])
    for k in (1, -2):
        assert run(c, (x * k,)) == run(losses, (x * k,))


@functools.singledispatch
def told(o: Any, x: Any) -> Any:
    print("any", end="")
    return x


@told.register(int)
def _(o: int, x: Any) -> Any:
    print("int", float(x.sum()), end="")
    return x * o


@told.register(str)
def _(o: str, x: Any) -> Any:
    return x + len(o)


def test_a_dispatched_function_that_breaks(capsys: Any) -> None:
    """Its implementation is compiled on its own, and not what functools does to find it."""

    def f(x: Any, o: Any) -> Any:
        return told(o, x * 2) + 1

    T.compiler.reset()
    c = T.compile(f)
    x = T.tensor([1.0, 2.0, 3.0])
    for _ in range(2):
        for o in (1, "ab", 2.0, 3, "abc"):
            want = run(f, (x, o)), capsys.readouterr().out
            assert (run(c, (x, o)), capsys.readouterr().out) == want
    s = T.compiler.stats()
    assert s["plain_frames"] == 0 and s["compiles"] <= 16, s["recompile_reasons"]
