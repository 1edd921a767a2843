"""The garbage collector rests while code is compiled, and is as the program left it afterwards."""

from __future__ import annotations

import gc
import os
import threading

import pytest
from fusegrad.compiler import collector
from fusegrad.compiler.collector import resting

import fusegrad as T


@pytest.fixture(autouse=True)
def on() -> object:
    was = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was else gc.disable)()


def collections() -> list[int]:
    return [s["collections"] for s in gc.get_stats()]


def test_no_collection_while_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[bool, str]] = []
    from fusegrad.compiler import compile_entry

    real = compile_entry._attempt

    def attempt(*args: object) -> object:
        seen.append((gc.isenabled(), "capture"))
        return real(*args)

    monkeypatch.setattr(compile_entry, "_attempt", attempt)
    f = T.compile(lambda x: (x * 2).sum())
    x = T.ones(3, requires_grad=True)
    f(x).backward()
    assert seen == [(False, "capture")] and gc.isenabled()
    f(x)
    assert len(seen) == 1 and gc.isenabled()


def test_no_collection_while_a_backward_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from fusegrad.compiler.kernel import program

    seen: list[bool] = []
    real = program.compile_graph

    def compile_graph(*args: object, **kwargs: object) -> object:
        seen.append(gc.isenabled())
        return real(*args, **kwargs)

    monkeypatch.setattr(program, "compile_graph", compile_graph)
    f = T.compile(lambda x: x.exp() * x)
    f(T.ones(3, requires_grad=True)).sum().backward()
    assert len(seen) == 2 and not any(seen) and gc.isenabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_errors_and_breaks_leave_it_as_it_was(enabled: bool) -> None:
    (gc.enable if enabled else gc.disable)()
    inside = []

    def broken(x: T.Tensor) -> T.Tensor:
        y = x + 1
        inside.append(gc.isenabled())  # runs for real, after what was compiled before it
        if y.sum() > 0:
            raise KeyError("mine")
        return y

    with pytest.raises(KeyError):
        T.compile(broken)(T.ones(2))
    with pytest.raises(T.compiler.GraphBreakError):
        T.compile(broken, fullgraph=True)(T.ones(2))
    assert gc.isenabled() is enabled and inside == [enabled]


def test_nested_and_in_threads() -> None:
    """The last one out switches it on again."""
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with resting():
            entered.set()
            leave.wait(10)

    t = threading.Thread(target=other)
    with resting():
        with resting():
            assert not gc.isenabled()
        assert not gc.isenabled()
        t.start()
        assert entered.wait(10)
    assert not gc.isenabled()
    leave.set()
    t.join()
    assert gc.isenabled() and collector._depth == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_made_meanwhile_collects() -> None:
    with resting():
        child = os.fork()
        if not child:
            on_at_once = gc.isenabled()
            with resting():
                off = not gc.isenabled()
            os._exit(0 if on_at_once and off and gc.isenabled() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()


def test_a_replaced_builtin_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    f = T.compile(lambda x: x * max(2, 3))
    monkeypatch.setattr("builtins.max", lambda *a: 7)
    assert f(T.ones(2)).tolist() == [7, 7]
    monkeypatch.undo()
    assert gc.isenabled() and collector._depth == 0
