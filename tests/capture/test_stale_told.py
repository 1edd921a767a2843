"""What Python tells of names, functions, classes and objects, changed between calls. See stale.py."""

import copy
import functools
import os
import random
import sys
import time
import types
from typing import Protocol, runtime_checkable
from unittest import mock

import pytest
from stale import Scenarios, X, compiled

import fusegrad as T

scenario = Scenarios()


# ---- names


@scenario
def global_that_is_not_there_yet(C):
    g = {"__name__": "scenario"}
    exec("def f(x):\n global n\n try: n\n except NameError: n = 0\n n = n + 1\n return x * n\n", g)
    f = C(g["f"])
    yield f(X), g["n"]
    yield f(X), g["n"]
    del g["n"]
    yield f(X), g["n"]


@scenario
def builtin_that_is_not_there_yet(C):
    names = {"NameError": NameError}
    g = {"__name__": "scenario", "__builtins__": names}
    exec("def f(x):\n try: return x * n\n except NameError: return x\n", g)
    f = C(g["f"])
    yield f(X)
    names["n"] = 3
    yield f(X)
    g["n"] = 5
    yield f(X)
    del g["n"], names["n"]
    yield f(X)


@scenario
def global_deleted_inside(C):
    g = {"__name__": "scenario", "n": 1}
    exec("def f(x):\n global n\n del n\n try: n\n except NameError: return x * 7\n return x\n", g)
    f = C(g["f"])
    yield f(X), "n" in g
    g["n"] = 2
    yield f(X), "n" in g


# ---- functions and classes


def wrapped(fn):
    @functools.wraps(fn)
    def w(*args):
        return fn(*args)

    return w


@scenario
def what_a_function_is_called(C):
    def double(x):
        """Twice."""
        return x * 2

    def triple(x):
        """Thrice."""
        return x * 3

    def tell(x, fn):
        return fn(x), fn.__name__, fn.__doc__, fn.__qualname__, fn.__wrapped__.__name__, f"{fn.__name__!r}"

    f, a, b = C(tell), wrapped(double), wrapped(triple)
    yield f(X, a)
    yield f(X, b)
    a.__name__, a.__doc__ = "other", None
    yield f(X, a)
    a.__wrapped__ = triple
    yield f(X, a)


@scenario
def what_an_enclosed_function_is_called(C):
    def h(x):
        return x + 1

    f = C(lambda x: (h(x), h.__name__, h.__doc__, h.__module__))
    yield f(X)
    h.__name__, h.__doc__, h.__module__ = "g", "new", "elsewhere"
    yield f(X)


@scenario
def classes_made_from_a_class(C):
    class Base:
        pass

    f = C(lambda x: (x + len(Base.__subclasses__()), [c.__name__ for c in Base.__subclasses__()]))
    yield f(X)
    kept = [type("A", (Base,), {})]
    yield f(X)
    kept.append(type("B", (Base,), {}))
    yield f(X)


@scenario
def names_that_a_module_gives_itself(C):
    m, asked = types.ModuleType("lazy_of_a_test"), []

    def give(name):
        asked.append(name)
        if name == "k":
            return 3
        raise AttributeError(name)

    m.__getattr__ = give
    f = C(lambda x: x * m.k + getattr(m, "j", 1))
    yield f(X), asked
    yield f(X), asked
    m.k = 10
    yield f(X), asked
    m.__getattr__ = lambda name: 100
    yield f(X), asked
    del m.__getattr__
    yield f(X), asked


# ---- protocols


@runtime_checkable
class Walks(Protocol):
    def walk(self): ...


@runtime_checkable
class Sized(Protocol):
    size: int


class Unchecked(Protocol):
    def walk(self): ...


def follows(x, o):
    return x, isinstance(o, Walks), isinstance(o, Sized), isinstance(x, Walks), isinstance(o, (int, Walks))


@scenario
def attributes_that_a_protocol_asks_for(C):
    class Thing:
        pass

    f, thing = C(follows), Thing()
    yield f(X, thing)
    thing.walk = lambda: 1
    yield f(X, thing)
    thing.size = 3
    yield f(X, thing)
    thing.walk = None
    yield f(X, thing)
    del thing.size
    yield f(X, thing)
    Thing.walk = lambda self: 1
    yield f(X, Thing())
    Thing.size = 4
    yield f(X, Thing())
    yield f(X, 3)
    module = T.nn.Linear(2, 2)
    yield f(X, module)
    module.size = 4
    yield f(X, module)


@scenario
def protocol_and_an_object_made_inside(C):
    class Thing:
        pass

    def g(x):
        thing = Thing()
        before = isinstance(thing, Sized), isinstance(thing, Walks)
        thing.size = x
        return x, before, isinstance(thing, Sized)

    f = C(g)
    yield f(X)
    Thing.walk = lambda self: 1
    yield f(X)
    Thing.size = 1
    yield f(X)


@scenario
def protocol_and_an_object_written_to(C):
    class Thing:
        pass

    class Answers:
        def __init__(self):
            self.asked = []

        def __getattr__(self, name):
            self.asked.append(name)
            return 1

    def g(x, o):
        before = isinstance(o, Sized)
        o.size = 1
        return x, before, isinstance(o, Sized)

    f, asks = C(g), Answers()
    yield f(X, Thing())
    yield f(X, Thing())
    yield f(X, asks), asks.asked
    yield f(X, asks), asks.asked
    try:
        C(lambda x: x if isinstance(x, Unchecked) else x + 1)(X)
    except TypeError as e:
        yield str(e)


test_nothing_goes_stale = scenario.test()


# ---- what else


@pytest.mark.parametrize("name", ["time.time", "time.perf_counter", "random.random", "builtins.open"])
def test_the_compiler_calls_no_function_that_a_program_replaces(name, tmp_path, monkeypatch):
    """A replaced clock (or file) is asked by the program alone, in a process with an empty disk cache too."""
    monkeypatch.setenv("FUSEGRAD_CACHE_DIR", str(tmp_path / "cache"))
    module, attribute = name.split(".")
    owner = __builtins__ if module == "builtins" else globals()[module]
    call = (lambda: owner["open"]("x")) if type(owner) is dict else lambda: getattr(owner, attribute)()
    f = compiled(lambda x: (x * 1.5).exp() + call())
    with mock.patch(name, side_effect=[1.0, 2.0, 3.0]) as replaced:
        got = [f(X) for _ in range(3)]
    assert replaced.call_count == 3
    for k, y in enumerate(got):
        assert T.allclose(y, (X * 1.5).exp() + k + 1)


@pytest.mark.parametrize("slots", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        lambda o, x: x * o.a + getattr(o, "no", 1) + hasattr(o, "yes"),
        lambda o, x: (setattr(o, "b", x), x + 1)[1],
        lambda o, x: ([o], {"k": o}, (lambda *a: a)(o), x + 1),
        lambda o, x: (copy.copy(o) is o, print(end=""), x + 1),
        lambda o, x: x + isinstance(o, int) + callable(o) + (o is None),
    ],
)
def test_objects_are_asked_for_nothing_more(slots, body):
    """The attributes that an object's own ``__getattr__`` is asked for are those of the plain call."""
    asked = []

    def answer(self, name):
        asked.append(name)
        if name[:2] in ("__", "no"):
            raise AttributeError(name)
        return 5

    cls = type("Answers", (), {"__getattr__": answer, **({"__slots__": ("a", "b")} if slots else {})})
    seen = []
    for f in (body, compiled(body)):
        seen.append([])
        o = cls()
        o.a = 2
        for _ in range(3):
            asked.clear()
            f(o, X)
            seen[-1].append(list(asked))
    assert seen[0] == seen[1]


def test_records_of_c_code_break_the_graph_where_they_hide_fields():
    """``os.stat_result`` and its like are no tuples of their items; ``sys.version_info`` is a constant."""
    T.compiler.reset()
    f = T.compile(lambda x, p: (x + os.stat(p)[6], os.stat(p).st_mtime_ns > 0, time.gmtime(0).tm_year))
    size = os.stat(__file__).st_size
    for _ in range(2):
        y, *rest = f(X, __file__)
        assert T.equal(y, X + size)
        assert rest == [True, 1970]
    reasons = "\n".join(T.compiler.stats()["break_reasons"])
    assert "FG014" not in reasons
    assert "FG006" in reasons
    T.compiler.reset()
    g = T.compile(lambda x: x + (sys.version_info >= (3, 9)) + sys.version_info.major, fullgraph=True)
    assert T.equal(g(X), X + 4)
    assert random.random() < 1


def test_a_cached_function_is_called_when_the_program_calls_it():
    """Guards call it at the end, when all others say that it is called: its effects and its counts are those of the
    program."""
    made = []

    @functools.lru_cache
    def table(n):
        made.append(n)
        return n * 2

    def f(x, on, o):
        if not on:
            return x * o["a"]
        y = x * table(3) * table(3)
        return y + table(4) if o["b"] > 1 else y * table(5)

    def run(call):
        seen, o = [], {"a": 2, "b": 1}
        made.clear()
        table.cache_clear()
        for on, b, clear in [(1, 1, 0), (0, 1, 1), (1, 2, 1), (1, 2, 0), (0, 2, 1), (1, 1, 1), (1, 2, 1), (1, 1, 0)]:
            if clear:
                table.cache_clear()
            o["b"] = b
            seen.append((call(T.ones(2), bool(on), o).tolist(), list(made), table.cache_info()))
        return seen

    assert run(f) == run(T.compile(f))
    assert T.compiler.stats()["graph_breaks"] == 0
