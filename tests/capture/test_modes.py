"""Modes: inference mode is captured; under saved-tensor hooks and in anomaly mode compiled functions run plainly."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from helpers import check

import fusegrad as T
from fusegrad import nn


def test_inference_mode_inside() -> None:
    net = nn.Linear(3, 2)

    def f(x: Any) -> Any:
        a = net(x)
        with T.inference_mode():
            b = net(x)
            c = b * 2
        with T.inference_mode(False):
            d = net(x)
        return a, b, c, d, T.is_inference_mode_enabled()

    x = T.randn(2, 3)
    c = check(f, (x,), breaks=0)
    assert [t.is_inference() for t in c(x)[:4]] == [False, True, True, False]
    assert [t.requires_grad for t in c(x)[:4]] == [True, False, False, True]


def test_inference_mode_decorator_and_break() -> None:
    seen: list[bool] = []

    @T.inference_mode()
    def g(x: Any) -> Any:
        y = x * 2
        seen.append(y.is_inference())
        print(end="")
        return y + 1

    def f(x: Any) -> Any:
        y = g(x)
        return y, T.is_inference_mode_enabled(), T.is_grad_enabled(), x * 3

    check(f, (T.ones(2),), breaks=3)  # print, and the two calls around it
    assert all(seen)
    assert not T.is_inference_mode_enabled()
    c = T.compile(f)
    assert c(T.ones(2))[0].is_inference() and not c(T.ones(2))[3].is_inference()


def test_called_in_inference_mode() -> None:
    """An entry of its own: compiled, its results marked; the one from outside of the mode is kept."""
    T.compiler.reset()
    w = T.ones(3).requires_grad_()
    c = T.compile(lambda x: x * w)
    for _ in range(3):
        y = c(T.ones(3))
        assert y.requires_grad and not y.is_inference()
        with T.inference_mode():
            z = c(T.ones(3))
        assert not z.requires_grad and z.is_inference()
    s = T.compiler.stats()
    assert s["compiles"] == 2 and s["plain_frames"] == 0, s


def test_another_threads_mode_compiles_nothing() -> None:
    """The library counts threads in slow modes; a thread that is in none keeps its entries."""
    T.compiler.reset()
    c = T.compile(lambda x: x * 2)
    c(T.ones(3))
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with T.inference_mode():
            inside.set()
            done.wait(10)

    t = threading.Thread(target=other)
    t.start()
    inside.wait(10)
    for _ in range(12):
        assert c(T.ones(3)).tolist() == [2.0] * 3
    done.set()
    t.join()
    assert T.compiler.stats()["compiles"] == 1


def test_inference_tensors_are_refused_as_in_eager() -> None:
    w = T.ones(3).requires_grad_()
    with T.inference_mode():
        x = T.ones(3)

    def f(x: Any) -> Any:
        return (x * w).sum()

    c = T.compile(f)
    c(T.ones(3))
    with pytest.raises(RuntimeError) as want:
        f(x)
    with pytest.raises(RuntimeError) as got:
        c(x)
    assert str(got.value) == str(want.value)


def test_saved_tensor_hooks_and_anomaly_mode_run_plainly() -> None:
    w = T.ones(3).requires_grad_()

    def f(x: Any) -> Any:
        return (x * w).exp().sum()

    for mode in (lambda: T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t), T.autograd.detect_anomaly):
        T.compiler.reset()
        c = T.compile(f)
        want = T.autograd.grad(f(T.ones(3)), w)[0]
        with mode():
            y = c(T.ones(3))
        assert T.allclose(T.autograd.grad(y, w)[0], want)
        s = T.compiler.stats()
        assert s["compiles"] == 0 and any("FG019" in r for r in s["break_reasons"]), s["break_reasons"]
        assert T.allclose(T.autograd.grad(c(T.ones(3)), w)[0], want)
        assert T.compiler.stats()["compiles"] == 1


def test_errors_leave_the_mode() -> None:
    """An exception in the middle of captured code leaves grad mode and inference mode as Python does."""

    def f(x: Any, n: int) -> Any:
        with T.inference_mode():
            y = x * 2
            if n > 1:
                raise ValueError("n")
        return y

    c = T.compile(f)
    for n in (1, 2, 1, 2):
        try:
            c(T.ones(2), n)
        except ValueError:
            assert n == 2
        assert not T.is_inference_mode_enabled() and T.is_grad_enabled()


def test_decorators_made_inside() -> None:
    def f(x: Any) -> Any:
        @T.no_grad()
        def doubled(y: Any) -> Any:
            """Twice."""
            return y * 2

        @T.no_grad
        def both(y: Any) -> Any:
            yield y * 2
            yield y * 3

        tripled = T.enable_grad()(lambda y: y * 3)
        return doubled(x), *both(x), tripled(x), x * 5, doubled.__name__, doubled.__doc__, T.is_grad_enabled()

    for mode in (True, False):
        with T.set_grad_enabled(mode):
            check(f, (T.ones(2, requires_grad=True),), breaks=0)
