"""``graph.live``: which graphs are alive, what holds them, what they keep; ``graph.trace_lines``."""

from __future__ import annotations

import gc
import sys
import types
import weakref

import pytest

import fusegrad as fg
from fusegrad.autograd import graph
from fusegrad.autograd.modes import SLOW

PROGRAM = "program_with_losses"  # a module of its own, made for each test


class Trainer:
    def __init__(self) -> None:
        self.history: list = []


@pytest.fixture(autouse=True)
def nothing_alive():
    """The search goes through all objects: those of other tests are put away for it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    gc.collect()


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(PROGRAM)
    module.LOSSES = []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PROGRAM, module)


def losses() -> list:
    return sys.modules[PROGRAM].LOSSES  # type: ignore[attr-defined]


def loss_of(w: fg.Tensor) -> fg.Tensor:
    return (w * 2).exp().sum()


def mine(w: fg.Tensor) -> list:
    """The live graphs that reach ``w``'s size of memory (other tests may have left some)."""
    return [g for g in graph.live() if g.root == "SumBackward0" and g.bytes == 4000]


@pytest.mark.usefixtures("program")
def test_a_list_of_losses_is_found_with_bytes() -> None:
    w = fg.ones(1000, requires_grad=True)
    for _ in range(3):
        losses().append(loss_of(w))
    found = mine(w)
    assert len(found) == 3 and all(g.nodes == 3 and g.leaves == 1 and g.state == "whole" for g in found)
    assert sorted(h for g in found for h in g.held_by) == [f"LOSSES[{i}] (global of {PROGRAM})" for i in range(3)]
    text = str(graph.live())
    assert "3 graphs like this: SumBackward0, 3 nodes, 3.9 KB each, whole" in text
    assert f"held by: LOSSES[...] (global of {PROGRAM}): 3 items" in text and "hint: append loss.item()" in text
    losses().clear()
    assert not mine(w)


def test_local_variables_attributes_and_closures() -> None:
    w = fg.ones(1000, requires_grad=True)
    trainer = Trainer()
    trainer.last = loss_of(w)
    trainer.history.append({"loss": loss_of(w)})
    local = loss_of(w)

    def make():
        captured = loss_of(w)

        def closing():
            return captured

        return closing

    closing = make()
    held = sorted(h.split(" (")[0] for g in mine(w) for h in g.held_by)
    assert "trainer.last" in held and "trainer.history[0]['loss']" in held and "local" in held
    assert any("closure of" in h and "closing" in h for h in held)
    del local, closing


def test_variables_kept_by_the_traceback_of_an_exception() -> None:
    w = fg.ones(1000, requires_grad=True)

    def fails() -> None:
        inside = loss_of(w)
        raise ValueError(inside.item())

    kept = []
    try:
        fails()
    except ValueError as e:
        kept.append(e)
    ((holder,),) = [g.held_by for g in mine(w)]
    assert holder.startswith("inside (local variable of ") and "fails, line" in holder
    assert holder.endswith("kept by an exception's traceback)")
    kept.clear()
    assert not mine(w)


def test_freed_graphs_keep_no_bytes() -> None:
    w = fg.ones(1000, requires_grad=True)
    loss = loss_of(w)
    loss.backward()
    found = [g for g in graph.live() if any(h.startswith("loss (") for h in g.held_by)]
    assert len(found) == 1 and found[0].state == "freed" and found[0].bytes == 0


def test_create_graph_cycle_is_named() -> None:
    w = fg.ones(1000, requires_grad=True)
    loss_of(w).backward(create_graph=True)
    found = [g for g in graph.live() if g.cycles]
    assert len(found) == 1 and "create_graph=True" in found[0].cycles[0]
    assert any(h.startswith("w.grad (local variable") for h in found[0].held_by)
    assert "set .grad to None" in str(graph.live())
    w.grad = None
    assert not [g for g in graph.live() if g.cycles]


def test_ctx_and_hook_cycles_are_named() -> None:
    class Keeps(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.result = x.exp()
            return ctx.result

        @staticmethod
        def backward(ctx, g):
            return g * ctx.result

    w = fg.ones(1000, requires_grad=True)
    gc.disable()
    try:
        y = Keeps.apply(w)
        z = w * 3
        z.register_hook(lambda g, z=z: None)
        del y, z
        cycles = [c for g in graph.live() for c in g.cycles]
        assert any("ctx.result of KeepsBackward is its own result" in c for c in cycles)
        assert any("on MulBackward0 refers to a result of this graph" in c for c in cycles)
        text = str(graph.live())
        assert "nothing else holds it: it stays until the garbage collector runs" in text and "tensor hook" in text
    finally:
        gc.enable()
    gc.collect()
    assert not [g for g in graph.live() if g.cycles]


def test_lines_are_opt_in() -> None:
    w = fg.ones(1000, requires_grad=True)
    kept = loss_of(w)
    assert mine(w)[0].line is None and "call fusegrad.autograd.graph.trace_lines()" in str(graph.live())
    before = SLOW[0]
    with graph.trace_lines():
        kept = loss_of(w)
        view = w * 1
        view[:2] = 0.0
    assert SLOW[0] == before
    line = loss_of.__code__.co_firstlineno + 1
    assert mine(w)[0].line == f"{__file__}:{line} in loss_of" and "lines are not known" not in str(graph.live())
    assert view.grad_fn.trace[-1].name == "test_lines_are_opt_in"
    graph.trace_lines()
    graph.trace_lines(False)
    assert SLOW[0] == before and loss_of(w).grad_fn.trace is None
    del kept


def test_anomaly_mode_gives_lines_too() -> None:
    w = fg.ones(1000, requires_grad=True)
    with fg.autograd.detect_anomaly():
        kept = loss_of(w)
    assert "in loss_of" in mine(w)[0].line
    del kept


def test_the_report_keeps_nothing_alive() -> None:
    def look() -> tuple:
        w = fg.ones(1000, requires_grad=True)
        loss = loss_of(w)
        report = graph.live()
        return report, weakref.ref(loss), weakref.ref(loss.grad_fn)

    gc.disable()
    try:
        report, tensor, node = look()
        assert tensor() is None and node() is None and "held by: loss (local variable" in str(report)
    finally:
        gc.enable()


def test_old_values_of_variables_do_not_stay() -> None:
    w = fg.ones(1000, requires_grad=True)
    loss = loss_of(w)
    ref = weakref.ref(loss)
    graph.live()
    del loss
    assert ref() is None


def test_without_referrers() -> None:
    w = fg.ones(1000, requires_grad=True)
    kept = loss_of(w)
    report = graph.live(referrers=False)
    assert any(g.bytes == 4000 and not g.held_by for g in report) and "live(referrers=True)" in str(report)
    assert report.bytes >= 4000
    del kept


@pytest.mark.usefixtures("program")
def test_many_graphs_and_deep_graphs_end_soon() -> None:
    w = fg.ones(10, requires_grad=True)
    losses().extend((w * i).sum() for i in range(500))
    x = w
    for _ in range(20000):
        x = x * 1.0
    report = graph.live()
    assert len(report) >= 501 and max(g.nodes for g in report) == 20000
    assert any("LOSSES[...]" in line and "500 items" in line for line in str(report).splitlines())


def test_compiled_regions() -> None:
    model = fg.nn.Linear(4, 2)
    loss = fg.compile(model)(fg.ones(3, 4)).exp().sum()
    found = [g for g in graph.live() if any(h.startswith("loss (") for h in g.held_by)]
    assert len(found) == 1 and found[0].leaves == 2 and found[0].bytes > 0
    assert not [g for g in graph.live() if g.root == "LinearBackward0"]  # the compiler's own graphs hold no data
    assert "CompiledBackward0" in str(fg.viz.graph(loss))
    del loss
    model = fg.compile(lambda x: x.exp())
    with graph.trace_lines():
        y = model(fg.ones(7, requires_grad=True))
    assert __file__ in [g for g in graph.live() if any(h.startswith("y (") for h in g.held_by)][0].line
    del y


def test_objects_that_refuse_their_class_are_no_obstacle() -> None:
    """The collector's objects are looked at by their type alone: no code of theirs runs."""

    class Prickly:
        def __init__(self, held):
            self.held = held

        @property
        def __class__(self):
            raise KeyboardInterrupt("asked")

    x = fg.ones(2, requires_grad=True)
    keep = Prickly([x * 2])
    assert "MulBackward" in str(fg.autograd.graph.live())
    del keep


def test_the_memory_of_results_is_told() -> None:
    w = fg.ones(1000, requires_grad=True)
    part = (w * 2)[:3]  # keeps all of the 4,000 bytes
    (found,) = [g for g in graph.live() if g.root == "SliceBackward0"]
    assert (found.bytes, found.results) == (0, 4000)
    assert ", and 3.9 KB in results" in str(graph.live())
    del part
    h = (w * 2).exp()  # saved for backward already
    (found,) = [g for g in graph.live() if g.root == "ExpBackward0"]
    assert (found.bytes, found.results) == (4000, 0)
    del h


def test_stored_activations_get_their_own_hint() -> None:
    w = fg.ones(1000, requires_grad=True)
    acts = {"first": loss_of(w), "second": loss_of(w)}
    text = str(graph.live())
    assert "held by: acts['first']" in text and "hint: store result.detach()" in text
    del acts


def test_holders_have_short_names() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("the search must not run code of the program")

    w = fg.ones(1000, requires_grad=True)
    state = {w: {"ema": loss_of(w)}, Loud(): loss_of(w), "k" * 100: loss_of(w)}
    w.extra = loss_of(w)

    def closure():
        first, second = loss_of(w), 2
        return lambda: first * second

    def generator():
        inner = loss_of(w)
        yield
        yield inner

    f, g = closure(), generator()
    next(g)
    held = " ".join(h for x in mine(w) for h in x.held_by)
    for words in (
        "state[<Tensor [1000]>]['ema'] (", "state[<Loud>] (", f"state['{'k' * 35}...] (", "w.extra (",
        "<lambda>: first> (",
        "<generator test_holders_have_short_names.<locals>.generator: inner> (",
    ):  # fmt: skip
        assert words in held, (words, held)
    del state, f, g


def test_a_graph_without_a_holder_in_sight_says_so() -> None:
    w = fg.ones(1000, requires_grad=True)
    ring: list = [loss_of(w)]
    ring.append(ring)
    gc.disable()
    try:
        del ring
        assert "nothing found that holds it: a cycle of other objects" in str(graph.live())
    finally:
        gc.enable()
