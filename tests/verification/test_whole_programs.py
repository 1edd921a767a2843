"""Right programs that verification once took for wrong ones, or changed by looking at them."""

from __future__ import annotations

import builtins
import collections
import gc
from typing import Any

import numpy as np
import pytest
from fusegrad.compiler.tracer import trace
from fusegrad.compiler.verification import noise
from fusegrad.compiler.verification.match import mismatch
from fusegrad.compiler.verification.state import describe, history, says_by_itself

import fusegrad as T
from fusegrad import nn
from fusegrad.utils.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def fresh() -> Any:
    T.compiler.reset()
    yield
    T.compiler.reset()


def verified() -> int:
    s = T.compiler.stats()
    assert not s["not_verified"], s["not_verified"]
    return s["verified_calls"]


NUMBERS = {
    "half": lambda x, v: T.full((4,), v, dtype=T.float16),
    "where": lambda x, v: T.where(x > 0, x, v),
    "two": lambda x, v: T.where(x > 0, v, T.zeros(3, dtype=T.float64)) * v,
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_changing_number_has_the_dtype_it_is_cast_to(name: str) -> None:
    f = NUMBERS[name]
    c, x = T.compile(f, verify=True), T.tensor([-1.0, 0.0, 2.0])
    for v in (0.3, 0.25, 0.1, 1e-3):
        got, want = c(x, v), f(x, v)
        assert got.dtype is want.dtype and got.tolist() == want.tolist()
    assert verified() == 4


def views(y: Any) -> Any:
    return y[:1], y.split(1)[0], y.view(2, 1), y.detach(), y.long()


@pytest.mark.parametrize("leaf", [False, True])
@pytest.mark.parametrize("mode", [T.no_grad, T.inference_mode, T.enable_grad])
def test_the_walk_knows_what_views_would_say(mode: Any, leaf: bool) -> None:
    y = T.tensor([0.5, 1.0]).requires_grad_()
    y = y if leaf else y * 1
    with mode():
        made = views(y)
        seen = [history(v) for v in made]
        assert seen == [(v.requires_grad, v.grad_fn is not None) for v in made]


@pytest.mark.parametrize("leaf", [False, True])
def test_the_walk_knows_views_of_a_base_that_changed(leaf: bool) -> None:
    for grad in (True, False):
        base = T.tensor([0.5, 1.0])
        made = [base[:1], base.view(2, 1), base.long()]
        with T.set_grad_enabled(grad):
            base.mul_(T.ones(2, requires_grad=True))
        seen = [history(v) for v in made]
        assert seen == [(v.requires_grad, v.grad_fn is not None) for v in made]
        assert [r for r, _ in seen] == [grad, grad, False]


def test_an_inference_tensor_is_another_thing() -> None:
    with T.inference_mode():
        a = T.ones(2)
    b = T.ones(2)
    one, other = (describe({"result": t}, lambda f: None)[0] for t in (a, b))
    found = mismatch(one, other)
    assert found is not None and "inference" in found.text and mismatch(one, one) is None


def test_the_order_of_an_ordered_dict_counts() -> None:
    moved = collections.OrderedDict(a=1, b=2)
    moved.move_to_end("a")
    a, b, c = (
        describe({"result": d}, lambda f: None)[0]
        for d in (moved, collections.OrderedDict(b=2, a=1), collections.OrderedDict(a=1, b=2))
    )
    assert mismatch(a, b) is None and mismatch(a, c) is not None


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_run_as_often_as_without_verification(reentrant: bool) -> None:
    def train(verify: bool) -> Any:
        T.manual_seed(0)
        calls: list[int] = []
        norm = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

        def body(x: Any) -> Any:
            calls.append(1)
            return norm(x)

        f = T.compile(lambda x: checkpoint(body, x, use_reentrant=reentrant).sum(), verify=verify)
        for _ in range(2):
            f(T.randn(4, 3, requires_grad=True)).backward()
        return len(calls), int(norm[1].num_batches_tracked), norm[1].running_mean.tolist()

    plain = train(False)
    assert train(True) == plain and plain[:2] == (4, 4)


class Loud:
    shown = 0

    def __repr__(self) -> str:
        Loud.shown += 1
        return "loud"


class LoudError(ValueError):
    def __str__(self) -> str:
        Loud.shown += 1
        return "loud"


@pytest.mark.parametrize(
    "error", [KeyError(Loud()), ValueError([{1: Loud()}]), LoudError("x"), ValueError(collections.deque([Loud()]))]
)
def test_errors_are_not_shown_by_looking_at_them(error: Exception) -> None:
    def f(x: Any) -> Any:
        raise error

    Loud.shown = 0
    with pytest.raises(type(error)):
        T.compile(f, verify=True)(T.ones(2))
    assert Loud.shown == 0 and verified() == 1


def test_messages_are_compared_where_that_runs_nothing() -> None:
    for error in (KeyError("a"), ValueError([1, {"b": (T.ones(1), int)}]), ExceptionGroup("g", [OSError(2, "no")])):
        assert says_by_itself(error)


@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_is_on_where_it_is_on(enabled: bool) -> None:
    seen: list[bool] = []

    def f(x: Any) -> Any:
        seen.append(gc.isenabled())
        return x * 2

    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        T.compile(f, verify=True)(T.ones(2))
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [enabled] and verified() == 1


def test_builtins_that_the_program_replaced(monkeypatch: Any) -> None:
    c = T.compile(lambda x: x * len([1, 2]) if isinstance(x, T.Tensor) else x * 9, verify=True)
    x = T.ones(2)
    assert c(x).tolist() == [2.0, 2.0]
    with monkeypatch.context() as m:
        m.setattr(builtins, "len", lambda a: 7)
        m.setattr(builtins, "isinstance", lambda a, b: 0)
        found, now = c(x), (isinstance(1, int), len([]))
    assert found.tolist() == [9.0, 9.0] and now == (0, 7)
    assert c(x).tolist() == [2.0, 2.0] and verified() == 3


def test_new_defaults_of_the_plain_function() -> None:
    def g(x: Any, a: float = 1.0, *rest: Any, b: float = 2.0) -> Any:
        return x * a + b + len(rest)

    c, x = T.compile(g, verify=True), T.zeros(1)
    found = [c(x + 1).item()]
    g.__defaults__ = (5.0,)
    found += [c(x + 1).item(), c(x + 1, 3.0).item()]
    g.__kwdefaults__ = {"b": 7.0}
    found += [c(x + 1).item(), c(x + 1, 3.0, 0).item(), c(x + 1, b=1.0).item()]
    assert found == [3.0, 7.0, 5.0, 12.0, 11.0, 6.0] and verified() == 6


def test_noisy_runs_end_when_they_have_explained_all(monkeypatch: Any) -> None:
    """And go on to the last where they can't: what is allowed does not depend on when they end."""
    runs: list[int] = []
    one = noise._one_noisy_run

    def counted(graph: Any, args: Any, salt: int, *rest: Any) -> None:
        runs.append(salt)
        one(graph, args, salt, *rest)

    monkeypatch.setattr(noise, "_one_noisy_run", counted)
    x = np.linspace(0.1, 1.0, 5, dtype=np.float32)
    traced = trace(lambda x: (x + 1e4) - 1e4, (T.tensor(x),))
    graph = traced.builder.graph
    graph.outputs = [traced.builder.value_of(traced.outputs)]
    eager = (x + np.float32(1e4)) - np.float32(1e4)
    for off, ok in ((1e-4, True), (0.5, False)):
        runs.clear()
        (found,) = noise.agree(graph, [x], [eager], [eager + np.float32(off)])
        assert bool(found.all()) is ok and runs == list(range(1, runs[-1] + 1))
        assert runs[-1] == noise.RUNS if not ok else runs[-1] < noise.RUNS
