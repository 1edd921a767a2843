"""Dispatch, guards, limits, threads, forks, explanations, documentation."""

import gc
import os
import pickle
import threading
import warnings
import weakref
from pathlib import Path

import pytest

import fusegrad as T
from fusegrad.native import meter

nn = T.nn
x = T.arange(3.0)


def test_one_compile_from_many_threads():
    T.compiler.reset()
    c = T.compile(lambda x: x * 2 + 1)
    start, out = threading.Barrier(16), []

    def work():
        start.wait()
        out.append(c(x).tolist())

    threads = [threading.Thread(target=work) for _ in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert out == [[1, 3, 5]] * 16 and T.compiler.stats()["compiles"] == 1


def test_fork():
    c = T.compile(lambda x: x * 2)
    c(x)
    pid = os.fork()
    if pid == 0:
        ok = c(x).tolist() == [0, 2, 4] and T.compile(lambda x: x - 1)(x).tolist() == [-1, 0, 1]
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_limit_warns_once_and_stays_right():
    class K:
        pass

    def f(a, k):
        return a + len(type(k).__name__)

    c = T.compile(f, options={"limit": 3})
    kinds = [type("K" * n, (), {}) for n in range(1, 8)]
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        for kind in kinds:
            assert c(x, kind()).tolist() == f(x, kind()).tolist()
    texts = [str(v.message) for v in w if "was compiled" in str(v.message)]
    assert len(texts) == 1 and "type(k)" in texts[0]
    T.compiler.reset()
    assert c(x, kinds[0]()).tolist() == [1, 2, 3]


def test_explain_tells_of_what_the_function_called_alone():
    """Also of functions that were called before it was asked; never of those that others called."""

    def inner(x):
        return x.sin() if x.sum() > 0 else x.cos()

    def outer(x):
        print(end="")
        return inner(x) * 2

    def other(x):
        return (x * 2).cos()

    compiled = T.compile(outer)
    compiled(T.ones(3))
    report = T.compiler.explain(other)(T.ones(3))
    assert len(report.regions) == 1 and not report.break_reasons and "outer" not in str(report)
    for _ in range(2):
        report = T.compiler.explain(compiled)(T.ones(3))
        assert [r.code for r in report.break_reasons] and "inner" in str(report) and "other" not in str(report)


def test_explain():
    def f(a):
        b = a * 2
        if b.sum() > 3:
            b = b + 1
        return b

    e = T.compiler.explain(f)(x)
    assert e.graph_count == 2 and e.graph_break_count == 1 and "FG001" in str(e.break_reasons[0])
    assert (
        f"{__file__}:{f.__code__.co_firstlineno + 2}" in str(e)
        and "mul" in str(e)
        and "a._data.shape == (3,)" in str(e)
    )


def test_stats_count_recompiles_with_reasons():
    T.compiler.reset()
    c = T.compile(lambda a, k: a * k)
    c(x, 2), c(x, 2), c(x, 3)
    s = T.compiler.stats()
    assert s["compiles"] == 2 and s["recompiles"] == 1 and "k == 2" in s["recompile_reasons"][0]
    assert s["compile_seconds"] > 0


def test_seconds_of_phases_add_up(monkeypatch):
    """A phase inside another takes its seconds out of the outer one, also when it fails."""
    now = [0.0]
    monkeypatch.setattr(meter, "perf_counter_ns", lambda: int(now[0] * 1e9))
    T.compiler.reset()
    with meter.phase("capture"):
        now[0] += 1
        with meter.phase("passes"):
            now[0] += 10
            with pytest.raises(ValueError), meter.phase("kernels"):
                now[0] += 100
                raise ValueError
        with meter.phase("codegen"):
            now[0] += 1000
        now[0] += 5
    s = T.compiler.stats()
    assert [s[f"{p}_seconds"] for p in meter.PHASES] == [6, 10, 1000, 100] and s["compile_seconds"] == 1116


def test_every_phase_of_a_compile_is_counted():
    """Also of the backward, which is compiled at its first use."""
    T.compiler.reset()
    a = T.ones(3, requires_grad=True)
    out = T.compile(lambda a: (a.sin() * 1.75).sum())(a)
    first = T.compiler.stats()
    assert all(first[f"{p}_seconds"] > 0 for p in meter.PHASES)
    out.backward()
    then = T.compiler.stats()
    assert then["codegen_seconds"] > first["codegen_seconds"] and then["capture_seconds"] == first["capture_seconds"]
    assert then["compile_seconds"] == pytest.approx(sum(then[f"{p}_seconds"] for p in meter.PHASES))


def test_nothing_is_kept_alive():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        def forward(self, a):
            return self.l(a)

    n = Net()
    c = T.compile(n)
    out = weakref.ref(c(x))
    r = weakref.ref(n)
    assert out() is None
    del n, c
    gc.collect()
    assert r() is None


def test_pickle_and_names():
    m = T.compile(nn.Linear(2, 2))
    again = pickle.loads(pickle.dumps(m))
    assert again(T.ones(1, 2)).tolist() == m(T.ones(1, 2)).tolist() and isinstance(again, nn.Linear)
    assert "Linear" in repr(m) and m._orig_mod is not m


def test_modules_of_one_class_share_code():
    class Block(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.l, self.k = nn.Linear(3, 3), k

        @T.compile
        def forward(self, a):
            return self.l(a) * self.k

    T.compiler.reset()
    for k in range(12):
        b = Block(float(k))
        assert b(x).tolist() == pytest.approx((b.l(x) * k).tolist())
    assert T.compiler.stats()["compiles"] <= 4, T.compiler.stats()["recompile_reasons"]


def test_guards_see_what_changes():
    class C:
        k, d = 1.0, {"a": [1, 2]}

    c = C()

    def f(a):
        return a * c.k + c.d["a"][-1] + len(c.d["a"])

    g = T.compile(f)
    assert g(x).tolist() == f(x).tolist()
    for change in (
        lambda: setattr(c, "k", 2.0), lambda: setattr(C, "k", 5.0), lambda: delattr(c, "k"), lambda: c.d["a"].append(7),
        lambda: setattr(c, "d", {"a": [T.ones(3)]}), lambda: setattr(C, "k", None), lambda: setattr(C, "k", 1.5),
    ):  # fmt: skip
        change()
        try:
            want = f(x).tolist()
        except TypeError:
            with pytest.raises(TypeError):
                g(x)
        else:
            assert g(x).tolist() == want


def test_default_dtype_and_modes_are_guarded():
    f = T.compile(lambda: T.zeros(2) + 0.5)
    assert f().dtype is T.float32
    T.set_default_dtype(T.float64)
    try:
        assert f().dtype is T.float64
    finally:
        T.set_default_dtype(T.float32)
    assert f().dtype is T.float32


def test_generated_pages_are_current():
    from fusegrad.compiler.capture import docs

    folder = Path(__file__).parents[2] / "docs"
    for name, text in {**docs.break_pages(), "instructions.md": docs.instruction_page()}.items():
        assert (folder / name).read_text() == text, f"run: python -m fusegrad.compiler.capture.docs docs ({name})"


def test_the_demo_and_the_built_in_workloads_are_compiled():
    """Though they are modules of the library, whose functions are called for real."""
    from fusegrad import bench, demo

    T.compiler.reset()
    model = demo.classifier()
    opt = T.optim.SGD(model.parameters(), lr=0.1)
    T.compile(demo.step)(model, opt, T.randn(4, 64), T.tensor([0, 1, 2, 3]))
    found = T.compiler.stats()
    assert found["graphs"] >= 2 and found["plain_frames"] == 0
    for name, make in bench.WORKLOADS.items():
        T.compiler.reset()
        f, args = make()
        T.compile(f)(*args)
        found = T.compiler.stats()
        assert found["graphs"] >= 1 and found["break_reasons"] == [], name


def test_default_dtype_set_inside_holds_for_what_follows():
    """Between changes of the default dtype integers become that dtype, computed in it; the change itself is made."""

    def f(x, restore):
        before = T.get_default_dtype()
        T.set_default_dtype(T.float64)
        try:
            return x.long().exp(), T.ones(1), x.long() / 2
        finally:
            if restore:
                T.set_default_dtype(before)

    g = T.compile(f)
    for restore in (True, False, True):
        want = f(T.ones(2), True)
        out = g(T.ones(2), restore)
        left = T.get_default_dtype()
        T.set_default_dtype(T.float32)
        assert [v.dtype for v in out] == [T.float64] * 3
        assert all(T.allclose(a, b, rtol=1e-14, atol=0) for a, b in zip(out, want, strict=True))
        assert left is (T.float32 if restore else T.float64)


@pytest.mark.parametrize(
    ("change", "back", "read"),
    [
        (lambda: T.set_printoptions(precision=2), lambda: T.set_printoptions(profile="default"), None),
        (lambda: T.set_num_threads(1), lambda: T.set_num_threads(2), T.get_num_threads),
        (
            lambda: T.use_deterministic_algorithms(True),
            lambda: T.use_deterministic_algorithms(False),
            T.are_deterministic_algorithms_enabled,
        ),
        (
            lambda: T.set_float32_matmul_precision("high"),
            lambda: T.set_float32_matmul_precision("highest"),
            T.get_float32_matmul_precision,
        ),
        (lambda: T.set_warn_always(True), lambda: T.set_warn_always(False), T.is_warn_always_enabled),
    ],
)
def test_what_holds_for_the_process_is_set_by_every_call(change, back, read):
    read = read or (lambda: str(T.tensor(1.23456)))

    def f(x):
        y = x * 2
        change()
        return y + 1

    g, before = T.compile(f), read()
    for _ in range(3):
        try:
            g(T.ones(2))
            assert read() != before
        finally:
            back()
        assert read() == before


def test_containers_registered_inside_are_registered_by_every_call():
    made = []

    def f(x):
        kind = type("Pair", (), {})
        T.pytree.register_pytree_node(kind, lambda p: ([p.a], None), lambda parts, _: parts[0])
        made.append(kind)
        return x + 1

    g = T.compile(f)
    for _ in range(2):
        g(T.ones(2))
        one = made[-1]()
        one.a = 3
        assert T.pytree.tree_leaves(one) == [3]
