"""Faults put into the compiler on purpose: verification finds each kind and says where it is."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np
import pytest
from fusegrad.compiler import VerificationError, region, region_code, region_plan
from fusegrad.compiler.capture import rebuild, segment
from fusegrad.compiler.guards import GuardProgram

import fusegrad as T
from fusegrad.op import TABLE


@pytest.fixture(autouse=True)
def fresh(tmp_path: Any, monkeypatch: Any) -> Any:
    """An empty disk cache: the keys in it know nothing of the faults."""
    monkeypatch.setenv("FUSEGRAD_CACHE_DIR", str(tmp_path / "cache"))
    T.compiler.reset()
    yield
    T.compiler.reset()


def line_of(f: Any, offset: int = 0) -> tuple[str, int]:
    return f.__code__.co_filename, f.__code__.co_firstlineno + offset


# ---- kernels: the region's recorded graph knows better


@pytest.mark.parametrize("how", [True, "region"])
def test_wrong_operator_is_named(monkeypatch: Any, how: Any) -> None:
    monkeypatch.setattr(TABLE["tanh"], "scalar", lambda b, x: b.tanh(x) * 1.001)

    def f(x):
        y = x * 2 + 1
        z = y.tanh()
        return (z * y).sum()

    with pytest.raises(VerificationError) as e:
        T.compile(f, verify=how)(T.ones(7))
    assert e.value.operator == "tanh" and e.value.location == line_of(f, 2)
    assert e.value.difference > 1e-3 and "eager" in str(e.value)


def test_small_relative_error_beside_large_numbers(monkeypatch: Any) -> None:
    eager = np.vectorize(math.erf)  # not made of the loop expression, as the operator's own kernel is
    monkeypatch.setattr(TABLE["erf"], "kernel", lambda x: eager(x).astype(x.dtype))
    monkeypatch.setattr(TABLE["erf"], "scalar", lambda b, x: b.where(b.abs(x) < 1e-3, b.erf(x) * 1.17, b.erf(x)))
    with pytest.raises(VerificationError) as e:
        T.compile(T.erf, verify="region")(T.tensor([1e-6, 1.0, 1e6]))
    assert e.value.index == (0,) and e.value.operator == "erf"


def test_wrong_gradient_is_found_when_the_backward_runs(monkeypatch: Any) -> None:
    monkeypatch.setattr(TABLE["cos"], "scalar", lambda b, x: b.cos(x) + 0.01)

    def f(x, w):
        return (x * w).sin().sum()

    w = T.ones(5, requires_grad=True)
    out = T.compile(f, verify="region")(T.ones(5), w)
    with pytest.raises(VerificationError) as e:
        out.backward()
    assert "gradient" in e.value.what and "w" in e.value.what and e.value.operator == "cos"
    assert e.value.location == line_of(f, 1) and w.grad is None


def test_wrong_gradient_inside_and_in_second_order(monkeypatch: Any) -> None:
    monkeypatch.setattr(TABLE["cos"], "scalar", lambda b, x: b.cos(x) + 0.01)

    def step(w):
        w.sin().sum().backward()
        return w.grad

    with pytest.raises(VerificationError):
        T.compile(step, verify="region")(T.ones(5, requires_grad=True))
    w = T.ones(5, requires_grad=True)
    out = T.compile(lambda x: x.cos().sum(), verify=False, options={"verify": 1, "interpret": False})
    with pytest.raises(VerificationError):
        (g,) = T.autograd.grad(out(w), w, create_graph=True)
        g.sum().backward()


def test_wrong_gradient_of_some_results(monkeypatch: Any) -> None:
    """The backward for some cotangents is made from the backward for all; the engine knows better."""
    from fusegrad.compiler.passes import absent

    monkeypatch.setattr(absent._Without, "_zeros", _ones)
    monkeypatch.setattr(absent._Without, "_part", lambda self, node: False)
    x = T.ones(3, requires_grad=True)
    a, b = T.compile(lambda x: (x.sin(), x.exp() * 2), verify="region")(x)
    with pytest.raises(VerificationError, match="gradient of input 0"):
        b.sum().backward()


def _ones(self: Any, v: Any) -> Any:
    attrs = {"size": tuple(v.meta.shape), "value": 1, "dtype": v.meta.dtype}
    return self.emit(TABLE["full"], (), attrs, (v.meta,))[0]


def test_wrong_update_in_place(monkeypatch: Any) -> None:
    monkeypatch.setattr(TABLE["exp"], "scalar", lambda b, x: b.exp(x) + 1)

    def f(x):
        x.copy_(x.exp())

    with pytest.raises(VerificationError) as e:
        T.compile(f, verify="region")(T.ones(5))
    assert "new value of input 0 (x)" in e.value.what


def test_wrong_dtype(monkeypatch: Any) -> None:
    right = TABLE["_log_softmax"].decompose
    monkeypatch.setattr(TABLE["_log_softmax"], "decompose", lambda x, **a: right(x.double(), **a))

    def f(x):
        return T.log_softmax(x, 1)

    for how in (True, "region"):
        with pytest.raises(VerificationError, match=r"eager has float32\[2, 3\], compiled float64") as e:
            T.compile(f, verify=how)(T.ones(2, 3))
        assert e.value.operator == "_log_softmax" and e.value.location == line_of(f, 1)


def test_wrong_strides(monkeypatch: Any) -> None:
    """Right numbers in another order of memory."""
    monkeypatch.setattr(region, "axis_order", lambda meta: (1, 0))
    with pytest.raises(VerificationError, match=r"result: strides in bytes: eager \(8, 4\), compiled \(4, 12\)"):
        T.compile(lambda x: x * 2, verify=True)(T.ones(3, 2))


@pytest.mark.parametrize("kind", ["closure", "module", "optimizer", "generator", "worker", "thread"])
def test_a_wrong_kernel_is_found_wherever_it_runs(monkeypatch: Any, kind: str) -> None:
    monkeypatch.setattr(TABLE["tanh"], "scalar", lambda b, x: b.tanh(x) * 1.001)
    x, model = T.ones(3), T.nn.Sequential(T.nn.Linear(3, 3), T.nn.Tanh())
    opt = T.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        opt.zero_grad()
        model(x).sum().backward()
        opt.step()

    def rows(n: int) -> Any:
        for _ in range(n):
            yield x.tanh()

    def run() -> str:
        with pytest.raises(VerificationError) as e:
            run_kind[kind]()
        return f"{e.value.operator} {e.value.location is not None}"

    run_kind = {
        "closure": lambda: T.compile(lambda: x.tanh() + 1, verify=True)(),
        "module": lambda: T.compile(model, verify=True)(x),
        "optimizer": T.compile(step, verify=True),
        "generator": lambda: T.compile(lambda: sum(rows(2)), verify=True)(),
        "worker": lambda: T.compile(T.tanh, verify=True)(x),
        "thread": lambda: T.compile(T.tanh, verify=True)(x),
    }
    if kind == "worker":
        data = _Checked(run)
        (text,) = [t[0] for t in T.utils.data.DataLoader(data, num_workers=1, collate_fn=list)]
    elif kind == "thread":
        found: list[str] = []
        t = threading.Thread(target=lambda: found.append(run()))
        t.start(), t.join()
        (text,) = found
    else:
        text = run()
    assert text == "tanh True"


class _Checked(T.utils.data.Dataset):
    def __init__(self, run: Any) -> None:
        self.run = run

    def __len__(self) -> int:
        return 1

    def __getitem__(self, i: int) -> str:
        return self.run()


def test_eager_error_that_compiled_code_misses(monkeypatch: Any) -> None:
    x = T.ones(1, requires_grad=True)
    for f in (T.exp, T.Tensor.exp, T.compile(T.exp, verify="region")):  # functions are made with the kernel of then
        f(x).backward()
    T.compiler.reset()
    monkeypatch.setattr(TABLE["exp"], "kernel", lambda x: 1 / 0)
    with pytest.raises(VerificationError, match="ZeroDivisionError"):
        T.compile(T.exp, verify="region")(T.ones(5))


def test_wrong_random_numbers(monkeypatch: Any) -> None:
    draw = region_code.draw_numbers
    monkeypatch.setitem(region_code._HELPERS, "draw_numbers", lambda n: (draw(n)[0], draw(1)[1]))
    with pytest.raises(VerificationError, match="result|random numbers"):
        T.compile(lambda x: x + T.rand(4), verify=True)(T.ones(4))


# ---- capture: the whole call beside the plain function

G = 1.0


def test_stale_global(monkeypatch: Any) -> None:
    init = GuardProgram.__init__

    def forget(self: Any, *args: Any) -> None:
        init(self, *args)
        self.text = "True"

    monkeypatch.setattr(GuardProgram, "__init__", forget)
    monkeypatch.setattr(sys.modules[__name__], "G", 1.0)
    c = T.compile(lambda x: x * G, verify=True)
    c(T.ones(3))
    monkeypatch.setattr(sys.modules[__name__], "G", 2.0)
    with pytest.raises(VerificationError) as e:
        c(T.ones(3))
    assert e.value.what == "result" and e.value.difference == 1.0


class Counter:
    def __init__(self) -> None:
        self.n, self.seen = 0, []

    def __call__(self, x: Any) -> Any:
        self.n += 1
        self.seen.append(x)
        return x * self.n


@pytest.mark.parametrize("lost", [[0], [-1]])
def test_lost_side_effect(monkeypatch: Any, lost: list[int]) -> None:
    monkeypatch.setattr(segment, "effect_lines", lambda rb: _without(rebuild.effect_lines(rb), lost))
    c = Counter()
    with pytest.raises(VerificationError) as e:
        T.compile(lambda x: c(x), verify=True)(T.ones(3))
    assert "<c>" in e.value.what


def _without(lines: list[str], lost: list[int]) -> list[str]:
    return [s for k, s in enumerate(lines) if k not in [i % len(lines) for i in lost]]


def test_repeated_side_effect(monkeypatch: Any) -> None:
    monkeypatch.setattr(segment, "effect_lines", lambda rb: rebuild.effect_lines(rb) * 2)
    log: list[int] = []

    def f(x):
        log.append(1)
        return x * 2

    with pytest.raises(VerificationError) as e:
        T.compile(f, verify=True)(T.ones(3))
    assert "<log>" in e.value.what


def test_lost_alias(monkeypatch: Any) -> None:
    """A view that is computed into memory of its own has the right numbers, and is still wrong."""
    monkeypatch.setattr(region_plan, "_alias", lambda plan, root, first, t, counters: region_plan._result(plan, t))
    with pytest.raises(VerificationError, match="shared"):
        T.compile(lambda x: (x * 2, x[1:]), verify=True)(T.ones(3))


def test_lost_history(monkeypatch: Any) -> None:
    monkeypatch.setattr(region_code._Writer, "tape", lambda self: None)
    with pytest.raises(VerificationError, match="requires_grad"):
        T.compile(lambda x: x * 2, verify=True)(T.ones(3, requires_grad=True))


def test_history_to_the_wrong_leaf(monkeypatch: Any) -> None:
    """Right values, a graph, but the gradients go to the wrong places."""
    edges = region_code._Writer.edges
    monkeypatch.setattr(region_code._Writer, "edges", lambda self, inputs: edges(self, inputs[::-1]))
    x, y = T.ones(3, requires_grad=True), T.full((3,), 2.0, requires_grad=True)
    with pytest.raises(VerificationError, match="gradients of a backward"):
        T.compile(lambda x, y: x * y, verify=True)(x, y)


def test_other_exception(monkeypatch: Any) -> None:
    from fusegrad.compiler.runtime import Unit

    def wrong(self: Any, values: tuple) -> Any:
        raise KeyError("wrong")

    monkeypatch.setattr(Unit, "plain", wrong)

    def f(x):
        raise ValueError(f"size {x.shape[0]}")

    with pytest.raises(VerificationError, match="exception") as e:
        T.compile(f, verify=True)(T.ones(3))
    assert isinstance(e.value.__context__, KeyError)


def test_verification_errors_are_not_taken_for_errors_of_the_program(monkeypatch: Any) -> None:
    """The program's own ``except`` does not hide that compiled code went wrong."""
    monkeypatch.setattr(TABLE["exp"], "scalar", lambda b, x: b.exp(x) + 1)

    def f(x):
        try:
            return x.exp()
        except Exception:
            return None

    with pytest.raises(VerificationError):
        T.compile(f, verify=True)(T.ones(5))


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: m.forward, lambda m: m.__call__, lambda m: lambda x: m(x)])
def test_lost_write_to_a_buffer(monkeypatch: Any, wrap: Any) -> None:
    monkeypatch.setattr(region_code._Writer, "writes", lambda self: None)
    model = T.nn.BatchNorm1d(3)
    with pytest.raises(VerificationError, match="running_mean|num_batches"):
        T.compile(wrap(model), verify=True)(T.randn(4, 3))
