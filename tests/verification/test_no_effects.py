"""Verification changes nothing: effects happen once, counters and random numbers stay, right programs pass."""

from __future__ import annotations

import gc
import itertools
import os
import random
import threading
import time
from typing import Any

import numpy as np
import pytest
from fusegrad.compiler.verification.settings import Verify, make_verify

import fusegrad as T
from fusegrad import nn


@pytest.fixture(autouse=True)
def fresh() -> Any:
    T.compiler.reset()
    yield
    T.compiler.reset()


def verified() -> int:
    s = T.compiler.stats()
    assert not s["not_verified"], s["not_verified"]
    return s["verified_calls"]


def test_effects_happen_once(capsys: Any) -> None:
    log, count, box = [], itertools.count(), {"n": 0}
    x = T.zeros(3)

    def f(t):
        log.append(next(count))
        box["n"] += 1
        print("called", box["n"])
        t.add_(1)
        random.random()
        np.random.rand()
        return t * 2 + T.rand(3)

    random.seed(0), np.random.seed(0), T.manual_seed(0)
    want = [random.random() for _ in range(4)][-1], [np.random.rand() for _ in range(4)][-1]
    random.seed(0), np.random.seed(0)
    c = T.compile(f, verify=True)
    for _ in range(3):
        c(x)
    assert log == [0, 1, 2] and box == {"n": 3} and x.tolist() == [3.0] * 3
    assert capsys.readouterr().out == "called 1\ncalled 2\ncalled 3\n"
    assert (random.random(), np.random.rand()) == want
    assert T.get_rng_state().tolist()[8] == 3
    assert verified() == 3


def test_files_are_written_once(tmp_path: Any) -> None:
    """What reaches out of the process does so once; writing to an open file is cut off, opening one refused."""
    a, b = tmp_path / "a", tmp_path / "b"
    with open(a, "w", buffering=1) as file:

        def to_open_file(x):
            file.write("line\n")
            return x * 2

        def to_new_file(x):
            with open(b, "a") as out:
                out.write("line\n")
            return x * 2

        for _ in range(2):
            assert T.compile(to_open_file, verify=True)(T.ones(2)).tolist() == [2.0, 2.0]
            assert T.compile(to_new_file, verify=True)(T.ones(2)).tolist() == [2.0, 2.0]
            os.write(file.fileno(), b"")
    assert a.read_text() == "line\n" * 2 and b.read_text() == "line\n" * 2
    assert T.compiler.stats()["not_verified"] == {"it reaches out of the process (open)": 2}


def test_eager_operators_compiled_beside(tmp_path: Any, monkeypatch: Any) -> None:
    """The first eager softmax of all may be that of the child: what it keeps on disk is no reason to give up."""
    from fusegrad.native.on_demand import OnDemand

    monkeypatch.setenv("FUSEGRAD_CACHE_DIR", str(tmp_path / "kept"))
    for kernels in [k for k in gc.get_objects() if type(k) is OnDemand]:
        kernels.clear()
    T.compile(lambda x: T.softmax(x, 0).sigmoid(), verify=True)(T.ones(3))
    assert verified() == 1


def test_position_in_an_open_file(tmp_path: Any) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(bytes(range(10)))
    fd = os.open(path, os.O_RDONLY)
    c = T.compile(lambda x: x * os.read(fd, 1)[0], verify=True)
    assert [c(T.ones(1)).item() for _ in range(4)] == [0.0, 1.0, 2.0, 3.0]
    os.close(fd)
    assert verified() == 4


def train(verify: Any) -> tuple[list[float], dict[str, Any]]:
    T.compiler.reset()
    T.manual_seed(3)
    # a bias before batch norm has no gradient but rounding, which Adam makes large: no difference is to be reported
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 3))
    opt = T.optim.Adam(model.parameters(), lr=1e-2)
    log: list[int] = []

    def step(x, y):
        log.append(len(log))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        if loss > 100:
            print("large")
        opt.step()
        return loss.detach()

    c = T.compile(step, verify=verify)
    losses = [c(T.randn(n, 6), T.randint(0, 3, (n,))).item() for n in (5, 5, 7, 9, 5)]
    assert log == [0, 1, 2, 3, 4]
    return losses, T.compiler.stats()


def test_a_training_step_and_its_counters() -> None:
    plain, before = train(False)
    checked, after = train(True)
    assert plain == checked  # the very numbers
    assert after["verified_calls"] == 5 and after["verified_regions"] >= 5 and not after["not_verified"]
    for key in ("compiles", "recompiles", "recompile_reasons", "graph_breaks", "plain_frames", "graphs"):
        assert before[key] == after[key], key


def test_every_nth_call() -> None:
    c = T.compile(lambda x: x + 1, verify=3)
    for _ in range(7):
        c(T.ones(2))
    assert verified() == 3 and T.compiler.stats()["verified_regions"] == 3


def test_environment(monkeypatch: Any) -> None:
    monkeypatch.setenv("FUSEGRAD_VERIFY", "1")
    on, off = T.compile(lambda x: x + 1), T.compile(lambda x: x + 2, verify=False)
    monkeypatch.delenv("FUSEGRAD_VERIFY")
    later = T.compile(lambda x: x + 3)
    on(T.ones(2)), off(T.ones(2)), later(T.ones(2))
    assert verified() == 1
    assert make_verify(None) == Verify(0)
    for text, want in (("0", 0), ("", 0), ("4", 4)):
        monkeypatch.setenv("FUSEGRAD_VERIFY", text)
        assert make_verify(None) == Verify(want)
    monkeypatch.setenv("FUSEGRAD_VERIFY", "region")
    assert make_verify(None) == Verify(1, False)
    monkeypatch.setenv("FUSEGRAD_VERIFY", "yes")
    with pytest.raises(ValueError, match="FUSEGRAD_VERIFY=yes: allowed are 1"):
        T.compile(lambda x: x)
    with pytest.raises(ValueError, match=r"compile\(verify=-1\)"):
        T.compile(lambda x: x, verify=-1)


def test_a_function_that_differs_from_itself() -> None:
    c = T.compile(lambda x: x * (time.perf_counter_ns() % 10007), verify=True)
    c(T.ones(2))
    (reason,) = T.compiler.stats()["not_verified"]
    assert "each time it runs" in reason and T.compiler.stats()["verified_regions"] == 1


def test_other_threads_running() -> None:
    stop = threading.Event()
    t = threading.Thread(target=stop.wait)
    t.start()
    T.compile(lambda x: x * 2, verify=True)(T.ones(2))
    stop.set()
    t.join()
    assert T.compiler.stats()["not_verified"] == {"other threads are running": 1}


def test_exceptions_pass_as_they_are() -> None:
    def f(x, n):
        y = x * 2
        if n:
            raise ValueError(f"n is {n}")
        return y @ x.reshape(-1, 1) @ x

    c = T.compile(f, verify=True)
    for n, kind in ((1, ValueError), (0, RuntimeError), (2, ValueError)):
        with pytest.raises(kind) as e:
            c(T.ones(3), n)
        lines = [t.lineno + 1 for t in e.traceback if t.frame.code.raw.co_filename == __file__]
        assert lines[-1] == f.__code__.co_firstlineno + (3 if n else 4)
    assert verified() == 3


def test_wrapped_data_and_kinds_of_callables() -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(T.ones(3))
            self.calls = 0

        def forward(self, x, *, k=2):
            "doc"
            self.calls += 1
            return x * self.w * k

        @T.compile(verify=True)
        def method(self, x: Any, k: int = 3, *rest: int, flag: bool = False, **kw: int) -> Any:
            "about"
            return x * self.w * (k + sum(rest) + sum(kw.values()))

    m = M()
    assert T.compile(m, verify=True)(T.ones(3), k=4).tolist() == [4.0] * 3 and m.calls == 1
    assert m.method(T.ones(3), 1, 2, 3, a=4).tolist() == [10.0] * 3
    assert M.method.__doc__ == "about" and M.method.__name__ == "method" and M.method.__defaults__ == (3,)
    with pytest.raises(TypeError, match="method"):
        m.method()
    assert verified() == 2


def test_rounding_is_no_difference() -> None:
    def f(x):
        d = x.mean(0) - x.sum(0) / x.shape[0]  # nothing but rounding
        return d, d > 0, (x / 3 * 3 - x).argmax(), T.softmax(x, 1), x.var(0)

    T.manual_seed(0)
    for dtype in (T.float32, T.float64, T.float16):
        T.compile(f, verify="region")(T.randn(1000, 5).to(dtype))


def test_ties_are_no_rounding(monkeypatch: Any) -> None:
    """Equal numbers stay equal in the noisy runs: the wrong one of two maxima is a fault."""
    from fusegrad.compiler.verification import noise

    from fusegrad.op import TABLE

    x = T.tensor([1.0, 3.0, 3.0, 2.0])
    graph = T.compiler.trace(lambda x: (x * 2).argmax(), (x,)).builder.graph
    if not graph.outputs:
        graph.outputs = [graph.nodes[-1].outputs[0]]
    assert TABLE["argmax"].kind == "reduce"
    ok = noise.agree(graph, [x.numpy()], [np.int64(1)], [np.int64(2)])
    assert not ok[0].any()


def test_compiled_functions_inside_others_are_checked_once() -> None:
    inner = T.compile(lambda x: x * 2, verify=True)

    def f(x):
        y = inner(x)
        if y.sum() > 0:
            y = inner(y)
        return y

    assert T.compile(f, verify=True)(T.ones(3)).tolist() == [4.0] * 3
    assert verified() == 1


def test_rounding_inside_of_composite_operators() -> None:
    """log(1 + small) is rounded in steps that no noise on operands and results shows."""

    def f(x, y):
        return T.log_softmax(x, 1), nn.functional.cross_entropy(x, y)

    c = T.compile(f, verify="region")
    for seed in range(3):
        T.manual_seed(seed)
        x = (T.randn(512, 10) * 6).requires_grad_()
        a, b = c(x, x.argmax(1))
        (a.sum() + b).backward()


def test_a_wrong_decomposition_is_no_rounding(monkeypatch: Any) -> None:
    from fusegrad.op import TABLE

    right = TABLE["_log_softmax"].decompose
    monkeypatch.setattr(TABLE["_log_softmax"], "decompose", lambda x, **attrs: right(x * 1.001, **attrs))
    with pytest.raises(T.compiler.VerificationError, match="_log_softmax"):
        T.compile(lambda x: T.log_softmax(x, 1), verify="region", options={"cache": False})(T.randn(5, 10) * 6)


def test_rounding_inside_of_loops() -> None:
    """A hundred rounds of a nested graph, each with its own rounding."""

    def f(w, xs):
        step = lambda h, x: ((h @ w + x).tanh() * 1.01 - h, h.sum())  # noqa: E731
        return T.control.scan(step, T.zeros(2, 4), xs)

    T.manual_seed(0)
    c = T.compile(f, verify=True)
    for n in (100, 7):
        w, xs = (T.randn(4, 4) * 0.8).requires_grad_(), T.randn(n, 2, 4)
        last, sums = c(w, xs)
        (last.sum() + sums.sum()).backward()
    assert verified() == 2


def test_containers_that_contain_themselves() -> None:
    def f(x, box):
        box.append(x)
        box.append(box)
        return box

    box = T.compile(f, verify=True)(T.ones(2), [])
    assert box[1] is box and verified() == 1


def test_some_results_are_differentiated() -> None:
    """The derivative of the other results takes no part: zero times an infinite slope would be NaN."""
    c = T.compile(lambda x, w: (x.log() * w, x * 2, x.sin() * w), verify=True)
    for k, want in ((1, [2.0, 2.0]), (2, [2.0, 3.0 * np.cos(1.0)])):
        x, w = (T.tensor(v, requires_grad=True) for v in ([0.0, 1.0], [2.0, 3.0]))
        before = T.compiler.stats()["verified_regions"]
        c(x, w)[k].sum().backward()
        assert T.compiler.stats()["verified_regions"] == before + 2
        np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-6)


def test_results_that_can_not_be_differentiated_together() -> None:
    """A reentrant checkpoint refuses ``grad``; one of three results keeps a weight that was changed."""
    from fusegrad.utils.checkpoint import checkpoint

    x = T.tensor([0.5, 2.0], requires_grad=True)
    y = T.compile(lambda x: checkpoint(T.exp, x * 2, use_reentrant=True), verify=True)(x)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([1.0, 4.0]), rtol=1e-6)
    w = T.eye(2).requires_grad_()

    def f(x):
        left = x * 1 @ w
        with T.no_grad():
            w.add_(1)
        return x * x, left, x.sin()

    square, left, _ = T.compile(f, verify=True)(x)
    assert T.autograd.grad(square.sum(), x)[0].tolist() == [1.0, 4.0]
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        left.sum().backward()
    assert verified() == 2


def test_gradients_are_laid_out_as_in_eager_code() -> None:
    """Of a transposed tensor, in the order of its memory, whether the backward is recorded or not."""

    def f(x, create):
        x = x.detach().requires_grad_()
        return T.autograd.grad((x * x).exp().sum(-1).sum(), x, create_graph=create)[0]

    c = T.compile(f, verify=True)
    for create in (False, True):
        assert c(T.randn(5, 9).t(), create).stride() == (1, 9)
        assert c(T.randn(5, 9), create).stride() == (9, 1)
    assert verified() == 4


def test_some_leaves_are_asked_for() -> None:
    """Results that lead to none of them take no part, as eager code runs no node of theirs."""
    c = T.compile(lambda x, w: (x.exp(), w.sin(), x * w), verify=True)
    x, w = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([0.5, 3.0], requires_grad=True)
    results = c(x, w)
    (g,) = T.autograd.grad([r.sum() for r in results], x, retain_graph=True)
    np.testing.assert_allclose(g.numpy(), x.exp().detach().numpy() + w.detach().numpy(), rtol=1e-6)
    (g,) = T.autograd.grad([results[0].sum(), results[1].sum()], w)
    np.testing.assert_allclose(g.numpy(), w.cos().detach().numpy(), rtol=1e-6)
    assert verified() == 1


def test_data_replaced() -> None:
    def f(w, x):
        y = (w * w * x).sum()
        w.data = w.data * 2
        return y

    w = T.tensor([1.0, 2.0, -3.0], requires_grad=True)
    T.compile(f, verify=True)(w, T.tensor([1.0, 1.0, 2.0])).backward()
    assert w.grad.tolist() == [4.0, 8.0, -24.0] and verified() == 1
