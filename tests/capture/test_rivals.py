"""What other compilers get wrong, and this one must not: a test for each phrase of the list (issue 4, item 13)."""

from __future__ import annotations

import math
import os
import threading
import traceback
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fusegrad.compiler import stats
from helpers import tree

import fusegrad as T
from fusegrad import nn

F = nn.functional


@pytest.fixture(autouse=True)
def _fresh() -> None:
    T.compiler.reset()
    T.manual_seed(0)


def test_mutated_input_overlaps_another_after_separate_ones() -> None:
    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return x * y

    c = T.compile(f)
    layouts: list[Any] = [
        lambda b: (b[:3], b[3:6]),  # separate: compiled first
        lambda b: (b[:3], b[1:4]),
        lambda b: (b[:3], b[:3]),
        lambda b: (b[0:6:2], b[1:7:2]),
        lambda b: (b[1:4], b[:3]),
        lambda b: (b[:3], T.ones(3)),
    ]
    for make in layouts * 2:
        a, b = T.arange(8.0), T.arange(8.0)
        assert T.equal(c(*make(a)), f(*make(b))) and T.equal(a, b)
    one = T.arange(3.0)
    assert T.equal(c(one, one), T.tensor([1.0, 4.0, 9.0])) and one.tolist() == [1.0, 2.0, 3.0]


def test_the_callers_tensor_is_never_changed_by_reuse_of_buffers() -> None:
    """Every intermediate could live in the memory of an argument or of an earlier result; none does."""

    def f(x: Any, w: Any) -> Any:
        h = x * 2
        for _ in range(4):
            h = (h @ w).relu() + h
        return h, h.sum(0), x.view(-1)

    c = T.compile(f)
    x, w = T.randn(6, 6), T.randn(6, 6)
    keep = x.clone(), w.clone()
    first = c(x, w)
    values = [t.clone() for t in first]
    for _ in range(5):
        c(T.randn(6, 6), w)
        c(x, w)
    assert T.equal(x, keep[0]) and T.equal(w, keep[1])
    assert all(T.equal(a, b) for a, b in zip(first, values, strict=True))
    first[2].add_(1)  # a view of the argument, as in eager
    assert T.equal(x, keep[0] + 1)


def test_gradients_of_an_aliased_input_are_counted_once() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x * y).sum() + x.sum()

    c = T.compile(f)
    for apart in (True, False, True, False):
        grads = []
        for g in (f, c):
            x = T.arange(3.0).requires_grad_()
            y = T.arange(3.0).requires_grad_() if apart else x
            g(x, y).backward()
            grads.append((x.grad.tolist(), y.grad.tolist()))
        assert grads[0] == grads[1]
    w = T.ones(3).requires_grad_()
    views = []
    for g in (f, c):
        w.grad = None
        g(w[:2], w[1:]).backward()
        views.append(w.grad.tolist())
    assert views[0] == views[1]

    def step(a: Any, b: Any) -> Any:
        loss = (a * b).sum()
        loss.backward()
        return a.grad.clone(), b.grad.clone()

    s = T.compile(step)
    for apart in (True, False):
        outs = []
        for g in (step, s):
            a = T.arange(3.0).requires_grad_()
            outs.append(tree(g(a, T.ones(3).requires_grad_() if apart else a)))
        assert outs[0] == outs[1]


@pytest.mark.parametrize("name", ["argmax", "argmin", "max", "min", "topk", "sort", "median"])
def test_ties_and_nan(name: str) -> None:
    nan = math.nan
    rows = [
        [1.0, 3.0, 3.0, 2.0],
        [nan, 1.0, nan, 2.0],
        [-0.0, 0.0, 0.0, -0.0],
        [2.0] * 4,
        [nan] * 4,
        [1.0, nan, 5.0, 5.0],
    ]
    x = T.tensor(rows)

    def f(x: Any) -> Any:
        y = x * 1
        out = getattr(y, name)(2, dim=1) if name == "topk" else getattr(y, name)(dim=1)
        return tuple(out) if isinstance(out, tuple) else (out,)

    def alone(x: Any) -> Any:
        return getattr(x * 1, name)() if name not in ("topk", "sort") else x

    c, a = T.compile(f), T.compile(alone)
    for t in (x, x[:, :1] if name != "topk" else x[:, :2], x.flip(1)):
        for got, want in zip(c(t), f(t), strict=True):
            assert np.array_equal(got.numpy(), want.numpy(), equal_nan=got.dtype.is_floating_point)
        for row in t:
            assert np.array_equal(a(row).numpy(), alone(row).numpy(), equal_nan=True)


def test_sizes_along_one_dimension() -> None:
    def f(x: Any, w: Any) -> Any:
        return (x @ w).softmax(0).sum(1) + x.mean() * x.shape[0]

    c, w = T.compile(f), T.randn(4, 2)
    for n in (3, 4, 5, 6, 1, 0, 7):
        x = T.randn(n, 4)
        assert T.allclose(c(x, w), f(x, w), equal_nan=True)
    assert stats()["compiles"] <= 2, stats()["recompile_reasons"]


def test_training_steps_with_a_learning_rate_schedule() -> None:
    """1,000 steps of Adam, whose step count and rate change at each; the state is that of eager."""

    def make(compiled: bool) -> Any:
        T.manual_seed(0)
        net = nn.Linear(2, 1)
        opt = T.optim.Adam(net.parameters(), lr=0.1)
        schedule = T.optim.lr_scheduler.CosineAnnealingLR(opt, 1000)

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = F.mse_loss(net(x), y)
            loss.backward()
            opt.step()
            return loss.detach()

        return (T.compile(step) if compiled else step), schedule, net, opt

    x, y = T.randn(8, 2), T.randn(8, 1)
    results = []
    for compiled in (False, True):
        step, schedule, net, opt = make(compiled)
        for _ in range(1000):
            loss = step(x, y)
            schedule.step()
        results.append((loss, net, opt))
    assert stats()["compiles"] <= 2, stats()["recompile_reasons"]
    (a, n, o), (b, m, q) = results
    assert T.allclose(a, b, rtol=1e-4) and T.allclose(n.weight, m.weight, rtol=1e-3, atol=1e-5)
    assert list(o.state_dict()["state"][0]) == list(q.state_dict()["state"][0])
    assert float(o.state_dict()["state"][0]["step"]) == float(q.state_dict()["state"][0]["step"]) == 1000


def test_betas_and_counters_that_change() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(T.ones(3))
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return self.w * x * self.calls

    def make() -> Any:
        net = Counting()
        return net, T.optim.Adam(net.parameters(), lr=0.1, betas=(0.9, 0.99))

    def step(net: Any, opt: Any, x: Any) -> Any:
        opt.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        opt.step()
        return loss.detach()

    (n, o), (m, q) = make(), make()
    c = T.compile(lambda x: step(m, q, x))
    for k in range(12):
        betas = (0.9 - k / 100, 0.99 - k / 1000)
        o.param_groups[0]["betas"] = q.param_groups[0]["betas"] = betas
        x = T.randn(3)
        assert T.allclose(step(n, o, x), c(x), rtol=1e-4)
        assert n.calls == m.calls == k + 1
    assert T.allclose(n.w, m.w, atol=1e-5) and stats()["compiles"] <= 3, stats()["recompile_reasons"]


def test_dropout_mask_and_generator() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.1))

    def f(x: Any) -> Any:
        return net(x), F.dropout(x, 0.3), T.rand(2), net(x).sum()

    c, x = T.compile(f), T.randn(4, 8)
    for seed in (1, 2, 1):
        outs = []
        for g in (f, c):
            T.manual_seed(seed)
            a = g(x)
            outs.append((a, T.get_rng_state(), T.randn(3)))
        for p, q in zip(outs[0][0], outs[1][0], strict=True):
            assert T.equal(p == 0, q == 0) and T.allclose(p, q)
        assert T.equal(outs[0][1], outs[1][1]) and T.equal(outs[0][2], outs[1][2])
    grads = []
    for g in (f, c):
        T.manual_seed(3)
        net.zero_grad()
        g(x)[0].sum().backward()  # the mask of the backward is the mask of the forward
        grads.append(net[0].weight.grad.clone())
    assert T.allclose(*grads)


def test_draws_keep_their_order() -> None:
    """Draws that are unused, used late, taken in branches or in loops are the numbers that eager draws."""

    def f(x: Any, k: int) -> Any:
        a = T.rand(3)
        T.randn(5)  # nobody reads it
        b = T.randint(0, 10, (3,))
        c = T.rand(3) if k else T.randn(3)
        d = [T.rand(()) for _ in range(k)]
        e = T.randperm(4)
        return c + b, e, a * x, d, T.bernoulli(T.full((4,), 0.5))

    c = T.compile(f)
    for k in (0, 1, 2, 0, 1):
        outs = []
        for g in (f, c):
            T.manual_seed(k)
            outs.append((tree(g(T.ones(3), k)), T.get_rng_state().tolist()))
        assert outs[0] == outs[1]


@pytest.mark.parametrize("name", ["erf", "expm1", "log1p", "tanh", "sin", "asinh", "sinh"])
def test_relative_accuracy_near_zero(name: str) -> None:
    x = T.tensor([s * m * 10.0**-e for e in range(1, 38) for m in (1.0, 3.3, 7.7) for s in (1, -1)])
    f = T.special.expm1 if not hasattr(T, name) else getattr(T, name)
    got = T.compile(lambda x: f(x * 1))(x).numpy().astype("float64")
    exact = {"erf": np.vectorize(math.erf), "asinh": np.arcsinh}.get(name) or getattr(np, name)
    want = exact(x.numpy().astype("float64"))
    assert np.all(np.abs(got - want) <= 4e-7 * np.abs(want))
    assert np.array_equal(np.signbit(got), np.signbit(want))


def test_nan_through_comparisons_max_and_where() -> None:
    def f(x: Any, y: Any) -> Any:
        return (
            x < y, x <= y, x == y, x != y, x > y, ~(x >= y),
            T.maximum(x, y), T.minimum(x, y), T.fmax(x, y), x.max(), x.amax(0), x.clamp(-1, 1), x.relu(),
            T.where(x > y, x, y), T.where(T.isnan(x), 0.0, x), x.nan_to_num(1.0), x.sum(), x.sort().values,
            F.leaky_relu(x), x.isnan().any(),
        )  # fmt: skip

    nan, inf = math.nan, math.inf
    x = T.tensor([1.0, nan, -0.0, inf, nan, -inf, 2.0, 0.0])
    y = T.tensor([nan, nan, 0.0, inf, 1.0, nan, -2.0, -0.0])
    for a, b in zip(T.compile(f)(x, y), f(x, y), strict=True):
        p, q = a.numpy(), b.numpy()
        assert np.array_equal(p, q, equal_nan=p.dtype.kind == "f")


def test_work_of_a_loop_over_cells_grows_with_the_loop(monkeypatch: Any) -> None:
    """300 cells: instructions evaluated and operators recorded are counted, not seconds."""
    from fusegrad.compiler.capture.evaluator import Evaluator
    from fusegrad.compiler.ir.graph import Graph

    counts = {"steps": 0, "nodes": 0}
    step, append = Evaluator.step, Graph.append

    def counted(self: Any, *args: Any) -> Any:
        counts["steps"] += 1
        return step(self, *args)

    def appended(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts["nodes"] += 1
        return append(self, *args, **kwargs)

    monkeypatch.setattr(Evaluator, "step", counted)
    monkeypatch.setattr(Graph, "append", appended)
    cell = nn.GRUCell(2, 3)

    def f(xs: Any, h: Any) -> Any:
        for x in xs:
            h = cell(x, h)
        return h.sum()

    work = {}
    for n in (75, 150, 300):
        T.compiler.reset()
        counts.update(steps=0, nodes=0)
        c = T.compile(f)
        xs, h = T.randn(n, 1, 2), T.zeros(1, 3)
        assert T.allclose(c(xs, h), f(xs, h), atol=1e-4)
        work[n] = dict(counts)
    for kind in counts:
        first, second = work[150][kind] - work[75][kind], work[300][kind] - work[150][kind]
        assert 0 < second <= 2.2 * first, work


def test_first_call_from_32_threads_compiles_once() -> None:
    def f(x: Any) -> Any:
        return (x * 2).sin() + x.sum()

    c, x = T.compile(f), T.randn(16)
    want, wrong, gate = f(x), [], threading.Barrier(32)

    def work() -> None:
        gate.wait()
        for _ in range(3):
            if not T.allclose(c(x), want, atol=1e-5):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and stats()["compiles"] == 1


class Squares:
    def __len__(self) -> int:
        return 8

    def __getitem__(self, k: int) -> Any:
        return T.full((3,), float(k)), k * k


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_loader_that_forks_after_a_parallel_compiled_step() -> None:
    """Workers are forked after kernels have run on several threads; parent and children go on working."""
    c = T.compile(lambda x: (x * 2).exp().sum())
    big = T.randn(512, 512) * 0.1
    before = c(big)  # large enough to be split over threads
    threads = [threading.Thread(target=lambda: c(big)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    loader = T.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2)
    for _ in range(2):
        seen = [(x, y) for x, y in loader]
        assert [y.tolist() for _, y in seen] == [[0, 1, 4, 9], [16, 25, 36, 49]]
        assert T.equal(c(big), before)
        assert all(T.isfinite(c(x * 0.1)) for x, _ in seen)


HERE = str(Path(T.__file__).parent)


def user_frames(error: BaseException) -> list[str]:
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert files[-1] == __file__, files
    return files


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("kind", ["own", "nested", "after a break", "of a library function"])
def test_tracebacks_end_in_the_users_line(kind: str, warm: bool) -> None:
    """No frame of the compiler, at the first call and at later ones."""

    def deep(x: Any) -> Any:
        raise ValueError("deep")

    def f(x: Any, fail: bool) -> Any:
        if kind == "after a break":
            print(end="")
        y = x * 2
        if fail:
            if kind == "of a library function":
                return y @ T.ones(5, 5)
            if kind == "nested":
                deep(y)
            raise ValueError("mine")
        return y

    c = T.compile(f)
    if warm:
        c(T.ones(3), False)
        c(T.ones(3), False)
    for _ in range(2):
        with pytest.raises((ValueError, RuntimeError)) as e:
            c(T.ones(3), True)
        files = [frame.filename for frame in traceback.extract_tb(e.value.__traceback__)]
        compiler = os.sep + "compiler" + os.sep
        assert not any(compiler in name for name in files), files
        if kind == "of a library function":
            files = files[: max(k for k, name in enumerate(files) if name == __file__) + 1]
        assert files[-1] == __file__, files


def test_decorators_keep_the_type_of_what_they_decorate() -> None:
    """For type checkers by annotation (see tests/typecheck.py), at run time by name, signature and class."""
    import inspect

    @T.compile
    def f(x: Any, *, k: int = 2) -> Any:
        """Doc."""
        return x * k

    @T.compiler.disable
    def g(x: int) -> int:
        return x

    @T.no_grad()
    def h(x: int) -> int:
        return x

    assert (f.__name__, f.__doc__, str(inspect.signature(f))) == ("f", "Doc.", "(x: 'Any', *, k: 'int' = 2) -> 'Any'")
    assert g.__name__ == "g" and h.__name__ == "h" and typing.get_type_hints(h) == {"x": int, "return": int}
    net = T.compile(nn.Linear(2, 1))
    assert isinstance(net, nn.Linear) and isinstance(T.compile(nn.ReLU()), nn.Module)
    hints = typing.get_overloads(T.compile) if hasattr(typing, "get_overloads") else []
    assert hints or "F" in str(inspect.signature(T.compile)) or T.compile.__annotations__
