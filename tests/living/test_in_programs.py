"""Compiled functions in programs: threads, fork, copies, pickles, subclasses, reloads, debuggers, errors."""

from __future__ import annotations

import asyncio
import copy
import cProfile
import functools
import gc
import importlib
import inspect
import io
import multiprocessing
import os
import pdb
import pickle
import sys
import threading
import traceback
import types
import weakref
from typing import Any

import pytest

import fusegrad as T
from fusegrad import nn


@pytest.fixture(autouse=True)
def fresh() -> Any:
    T.compiler.reset()
    yield
    T.compiler.reset()


def double(x: Any) -> Any:
    return x * 2 + 1


compiled_double = T.compile(double)


@T.compile
def by_name(x: Any) -> Any:
    return x * 3


class Holder(nn.Module):
    """Holds compiled functions as attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.f = T.compile(double, dynamic=True)
        self.g = by_name
        self.own = T.compile(self.scaled)
        self.inner = T.compile(nn.Linear(3, 3), fullgraph=True)

    def scaled(self, x: Any) -> Any:
        return x * self.linear.weight.sum()

    def forward(self, x: Any) -> Any:
        return self.own(self.g(self.f(self.inner(self.linear(x)))))


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    @T.compile
    def forward(self, x: Any) -> Any:
        return self.linear(x)

    @T.compile(fullgraph=True)
    def twice(self, x: Any) -> Any:
        return self.linear(x) * 2


x = T.ones(2, 3)


def cache_of(f: Any) -> Any:
    return getattr(f, "__func__", f).__fusegrad_cache__


# ---- copies and pickles


@pytest.mark.parametrize("make", [Holder, Decorated, lambda: T.compile(Holder()), lambda: T.compile(Decorated())])
@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_of_modules_are_independent_and_compiled(make: Any, again: Any) -> None:
    m = make()
    y = m(x)
    k = again(m)
    assert type(k) is type(m) and (k(x) == y).all() and list(k.state_dict()) == list(m.state_dict())
    T.compiler.reset()
    k(x)
    assert T.compiler.stats()["compiles"] > 0
    with T.no_grad():
        k.linear.weight.zero_()
    assert (m(x) == y).all() and not (k(x) == y).all()


def test_what_a_pickled_module_holds() -> None:
    m = Holder()
    m(x)
    k = pickle.loads(pickle.dumps(m))
    assert k.g is by_name and k.f is not m.f and cache_of(k.f).facts.dynamic_all
    assert k.own.__self__ is k and cache_of(k.own).func is Holder.scaled
    assert cache_of(k.inner._fg_call).fullgraph
    d = copy.deepcopy(m)
    assert d.f is m.f and d.own.__self__ is d


def test_functions_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(by_name)) is by_name and copy.deepcopy(by_name) is by_name


# ---- what decorators leave


def test_data_of_the_function() -> None:
    def g(x: Any, /, y: int = 2, *rest: int, k: int = 3, **kw: int) -> Any:
        "about"
        return x * y

    g.tag = 1  # type: ignore[attr-defined]
    c = T.compile(g)
    for name in ("__name__", "__qualname__", "__doc__", "__module__", "__defaults__", "__kwdefaults__", "tag"):
        assert getattr(c, name) == getattr(g, name), name
    assert c.__wrapped__ is g and inspect.isfunction(c) and c.__annotations__ == g.__annotations__
    assert inspect.signature(c) == inspect.signature(g) and inspect.getsource(c) == inspect.getsource(g)
    assert hash(c) == hash(c) and c in {c} and T.compile(c).__wrapped__ is g


def test_wraps() -> None:
    def decorate(f: Any) -> Any:
        @functools.wraps(f)
        def inner(*args: Any, **kwargs: Any) -> Any:
            return f(*args, **kwargs) + 1

        return inner

    @T.compile
    @decorate
    def f(x: Any, y: int = 3, *, z: int = 4) -> Any:
        "docs"
        return x * y + z

    @decorate
    @T.compile
    def g(x: Any) -> Any:
        return x * 2

    assert f.__doc__ == "docs" and str(inspect.signature(f)).startswith("(x: 'Any', y: 'int' = 3")
    assert f(x)[0, 0] == 8 and g(x)[0, 0] == 3


def test_kinds_of_methods() -> None:
    class C:
        @staticmethod
        @T.compile
        def a(x: Any) -> Any:
            return x + 1

        @T.compile
        @staticmethod
        def b(x: Any) -> Any:
            return x + 2

        @classmethod
        @T.compile
        def c(cls, x: Any) -> Any:
            return x + 3

        @T.compile
        @classmethod
        def d(cls, x: Any) -> Any:
            return x + 4

        @property
        @T.compile
        def e(self) -> Any:
            return T.full((1,), 5.0)

        @functools.cached_property
        @T.compile
        def f(self) -> Any:
            return T.full((1,), 6.0)

        @T.compile
        def __call__(self, x: Any) -> Any:
            return x + 7

    z = T.zeros(1)
    got = (C.a(z), C().a(z), C.b(z), C.c(z), C().d(z), C().e, C().f, C()(z), T.compile(C())(z))
    assert [v.item() for v in got] == [1, 1, 2, 3, 4, 5, 6, 7, 7]


def test_subclasses() -> None:
    class Sub(Decorated):
        def forward(self, x: Any) -> Any:
            return super().forward(x) + 1

        @T.compile
        def twice(self, x: Any) -> Any:
            return super().twice(x) + 1

    s = Sub()
    assert T.allclose(s(x), s.linear(x) + 1) and T.allclose(s.twice(x), s.linear(x) * 2 + 1)
    c = T.compile(s)
    assert isinstance(c, Sub) and (c(x) == s(x)).all() and (c.twice(x) == s.twice(x)).all()


# ---- threads and processes


def test_threads_at_once_compile_once() -> None:
    f = T.compile(lambda a, b: (a * b).tanh().sum())
    start, wrong = threading.Barrier(32), []

    def run(i: int) -> None:
        a = T.full((5,), i / 10)
        start.wait()
        for _ in range(3):
            if abs(f(a, a).item() - (a * a).tanh().sum().item()) > 1e-5:
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(32)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and T.compiler.stats()["compiles"] == 1


def test_threads_in_different_modes() -> None:
    """Grad mode belongs to a thread: each gets the entry of its own."""
    w = T.ones(3, requires_grad=True)
    f = T.compile(lambda a: (a * w).sum())
    start, got = threading.Barrier(8), {}

    def run(i: int) -> None:
        start.wait()
        with T.set_grad_enabled(i % 2 == 0):
            got[i] = [f(T.ones(3)).requires_grad for _ in range(5)]

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {i: [i % 2 == 0] * 5 for i in range(8)}


def test_asyncio() -> None:
    async def main() -> list:
        return await asyncio.gather(*(asyncio.to_thread(compiled_double, T.full((2,), float(i))) for i in range(8)))

    assert [v[0].item() for v in asyncio.run(main())] == [2 * i + 1 for i in range(8)]


def test_after_fork() -> None:
    warm, cold = T.compile(lambda a: (a * 3).sum()), T.compile(lambda a: (a * 4).sum())
    warm(T.ones(5))
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = repr([warm(T.ones(5)).item(), warm(T.ones(7)).item(), cold(T.ones(2)).item()])
        except BaseException as e:
            text = repr(e)
        os.write(w, text.encode())
        os._exit(0)
    os.close(w)
    os.waitpid(pid, 0)
    assert os.read(r, 1000).decode() == "[15.0, 21.0, 8.0]"
    os.close(r)


def _in_a_worker(i: int) -> float:
    return compiled_double(T.full((1,), float(i))).item()


def test_pool_of_forked_workers() -> None:
    compiled_double(T.ones(1))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_in_a_worker, range(4)) == [1.0, 3.0, 5.0, 7.0]


def test_fork_while_another_thread_compiles() -> None:
    """The child does not inherit a lock that nobody will release."""
    from fusegrad.compiler import runtime

    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with runtime.LOCK:
            held.set()
            release.wait()

    t = threading.Thread(target=hold)
    t.start()
    held.wait()
    pid = os.fork()
    if pid == 0:
        import signal

        signal.alarm(60)
        os._exit(0 if T.compile(lambda a: a + 1)(T.ones(1)).item() == 2 else 1)
    release.set()
    t.join()
    assert os.waitpid(pid, 0)[1] == 0


# ---- errors


def test_errors_from_inside_leave_no_trace() -> None:
    def f(a: Any, n: int) -> Any:
        b = a * 2
        if n > 2:
            raise KeyError(n)
        return b

    c = T.compile(f)
    for n in (1, 3, 2, 4, 1):
        if n <= 2:
            assert c(x, n)[0, 0] == 2
            continue
        with pytest.raises(KeyError) as e:
            c(x, n)
        frames = traceback.extract_tb(e.value.__traceback__)
        assert "raise KeyError" in frames[-1].line and {fr.filename for fr in frames} == {__file__}
        assert e.value.__cause__ is None and e.value.__context__ is None
    assert T.is_grad_enabled()


def test_errors_of_operators_end_in_the_users_line() -> None:
    def f(a: Any, b: Any) -> Any:
        c = a + 1
        return c @ b

    c = T.compile(f)
    for _ in range(2):
        with pytest.raises(RuntimeError) as e:
            c(x, x)
        mine = [fr for fr in traceback.extract_tb(e.value.__traceback__) if fr.filename == __file__]
        assert mine[-1].line == "return c @ b"
        assert not any("/compiler/" in fr.filename for fr in traceback.extract_tb(e.value.__traceback__))


# ---- tools that watch


def test_settrace() -> None:
    seen = []

    def tracer(frame: Any, event: str, arg: Any) -> Any:
        seen.append(frame.f_code.co_name)
        return tracer

    def f(a: Any) -> Any:
        b = a * 2
        if b.sum() > 0:
            b = b + 1
        return b

    c = T.compile(f)
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        results = [c(x), c(x), c(T.ones(4))]
    finally:
        sys.settrace(before)
    assert [r.flatten()[0].item() for r in results] == [3.0] * 3 and "f" in seen


def test_debugger_and_profiler() -> None:
    c = T.compile(lambda a: a * 2)
    debugger = pdb.Pdb(stdin=io.StringIO("c\n" * 5), stdout=io.StringIO())
    before = sys.gettrace()
    try:
        assert debugger.runcall(c, x)[0, 0] == 2
    finally:
        sys.settrace(before)
    assert cProfile.Profile().runcall(c, x)[0, 0] == 2


def test_breakpoint_runs_for_real(monkeypatch: Any) -> None:
    hits = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: hits.append(1))

    @T.compile
    def f(a: Any) -> Any:
        b = a * 2
        breakpoint()
        return b + 1

    assert f(x)[0, 0] == 3 and f(x)[0, 0] == 3 and len(hits) == 2


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="Python 3.12 on")
def test_monitoring_as_coverage_uses_it() -> None:
    tools, lines = sys.monitoring, []
    tools.use_tool_id(4, "test")
    try:
        tools.register_callback(4, tools.events.LINE, lambda code, line: lines.append(line))
        tools.set_events(4, tools.events.LINE)
        c = T.compile(lambda a: a * 2)
        assert c(x)[0, 0] == 2 and c(x)[0, 0] == 2 and lines
    finally:
        tools.set_events(4, 0)
        tools.free_tool_id(4)


def test_asserts_that_pytest_rewrote() -> None:
    """This very file is rewritten: its asserts keep their meaning and their texts in compiled functions."""

    @T.compile
    def f(a: Any, n: int) -> Any:
        assert n > 0, f"n is {n}"
        assert a.shape[0] == 2
        return a * n

    assert f(x, 2)[0, 0] == 2
    with pytest.raises(AssertionError, match="n is 0"):
        f(x, 0)
    with pytest.raises(AssertionError, match=r"assert 4 == 2"):
        f(T.ones(4), 1)


def test_reload(tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "fusegrad_reloaded.py"
    text = "import fusegrad as T\nK = {k}\n@T.compile\ndef f(x): return x * K{more}\ndef g(x): return x + K\n"
    path.write_text(text.format(k=2, more=""))
    module = importlib.import_module("fusegrad_reloaded")
    try:
        user = T.compile(lambda a: module.g(module.f(a)))
        one = T.ones(1)
        assert (module.f(one).item(), user(one).item()) == (2, 4)
        old = module.f
        path.write_text(text.format(k=30000, more=" + 1"))
        importlib.invalidate_caches()
        importlib.reload(module)
        assert (module.f(one).item(), user(one).item(), old(one).item()) == (30001, 60001, 30000)
    finally:
        sys.modules.pop("fusegrad_reloaded", None)


# ---- marks


def test_disable() -> None:
    seen = []

    @T.compiler.disable
    def plain(a: Any) -> Any:
        seen.append(a._data is not None)
        return a * 2

    f = T.compile(lambda a: plain(a + 1) + 1)
    assert f(x)[0, 0] == 5 and f(x)[0, 0] == 5 and seen == [True, True]
    assert plain.__name__ == "plain" and T.compile(plain) is plain and T.compile(double, disable=True) is double
    T.compiler.reset()
    inner = T.compile(lambda a: a * 2)
    assert T.compiler.disable(lambda a: inner(a))(x)[0, 0] == 2 and T.compiler.stats()["compiles"] == 0
    layer = T.compiler.disable(nn.Linear(3, 3))
    model = T.compile(nn.Sequential(layer, nn.ReLU()))
    assert (model(x) == layer(x).relu()).all()


def test_is_compiling() -> None:
    f = T.compile(lambda a: a + 1 if T.compiler.is_compiling() else a - 1)
    assert not T.compiler.is_compiling()
    assert f(T.zeros(1), **{}).item() in (1, -1)


def test_allow_in_graph() -> None:
    @T.compiler.allow_in_graph
    def opaque(a: Any) -> Any:
        return T.tanh(a) * 2

    f = T.compile(lambda a: opaque(a) + 1, fullgraph=True)
    assert f(T.zeros(2)).tolist() == [1.0, 1.0] and isinstance(opaque, types.FunctionType)


# ---- the end


def test_compiled_things_are_freed() -> None:
    f, m = T.compile(lambda a: a * 2), Decorated()
    c = T.compile(m)
    f(x), c(x)
    refs = [weakref.ref(f), weakref.ref(m), weakref.ref(c)]
    del f, m, c
    gc.collect()
    assert [r() for r in refs] == [None] * 3
