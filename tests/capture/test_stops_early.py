"""Builtins and methods that go through an iterator: how far, in which order with the functions they call, and what is
left when they stop or fail."""

import functools
import itertools
import operator

import pytest

import fusegrad as T

from .helpers import tree

ADD = operator.add
RUNS = {
    "sum": lambda it, key, add: sum(it),
    "max": lambda it, key, add: max(it),
    "max key": lambda it, key, add: max(it, key=key),
    "min key default": lambda it, key, add: min(it, key=key, default=7),
    "sorted": lambda it, key, add: sorted(it, key=key),
    "reduce": lambda it, key, add: functools.reduce(add, it),
    "reduce from": lambda it, key, add: functools.reduce(add, it, 10),
    "isdisjoint": lambda it, key, add: {1}.isdisjoint(it),
    "isdisjoint of keys": lambda it, key, add: {1: 0}.keys().isdisjoint(map(key, it)),
    "issuperset": lambda it, key, add: {1, 3}.issuperset(map(key, it)),
    "issubset": lambda it, key, add: {1}.issubset(it),
    "intersection": lambda it, key, add: sorted({1, 3}.intersection(it)),
    "in": lambda it, key, add: 1 in it,
    "in map": lambda it, key, add: 1 in map(key, it),
    "any": lambda it, key, add: any(map(key, it)),
    "indexOf": lambda it, key, add: operator.indexOf(it, 1),
    "zip": lambda it, key, add: list(zip(it, map(key, [1, 2]), strict=False)),
    "map": lambda it, key, add: list(map(add, it, [1, 2])),
    "accumulate": lambda it, key, add: list(itertools.accumulate(it, add)),
    "extend": lambda it, key, add: [0].extend(map(key, it)),
    "update": lambda it, key, add: set().update(map(key, it)),
    "takewhile": lambda it, key, add: list(itertools.takewhile(lambda v: v > 2, it)),
}


class Counting:
    """An iterator that tells what is asked of it."""

    def __init__(self, values, log):
        self.values, self.log = list(values), log

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append("next")
        if not self.values:
            raise StopIteration
        return self.values.pop(0)


@pytest.mark.parametrize("values", [(3, 1, 2), (), (5,), (1, "a", 2), (3, [], 1)], ids=str)
@pytest.mark.parametrize("name", list(RUNS))
def test_how_far(name, values):
    run = RUNS[name]

    def f(x, log):
        def key(v):
            log.append(("key", v))
            return v

        def add(a, b):
            log.append(("add", a, b))
            return a + b

        def made():
            for v in values:
                log.append(v)
                yield v

        out = []
        for it in (Counting(values, log), made(), iter(list(values))):
            try:
                out.append(run(it, key, add))
            except (TypeError, ValueError, AttributeError) as e:
                out.append((type(e).__name__, str(e)))
            out.append(list(it))
        return x + 1, out

    c = T.compile(f)
    for n in (1, 2):
        want_log, log = [], []
        want = f(T.ones(n), want_log)
        assert tree(c(T.ones(n), log)) == tree(want) and log == want_log


def test_a_set_from_before():
    def f(x, s, log):
        def made():
            for v in (1, 2, 3):
                log.append(v)
                yield v

        return x + 1, s.isdisjoint(made()), s.issuperset(made()), s.issubset(made())

    c = T.compile(f)
    for s in ({2}, {1, 2, 3, 4}, frozenset({2}), {9}):
        want_log, log = [], []
        want = f(T.ones(2), s, want_log)
        assert tree(c(T.ones(2), s, log)) == tree(want) and log == want_log


def test_extremes_of_sizes():
    def f(x, y):
        return x * max(v.shape[0] for v in (x, y)), max(x.shape[0], y.shape[0]), min(v.shape[0] for v in [x, y])

    T.compiler.reset()
    c = T.compile(f)
    for n, m in ((4, 2), (2, 3), (5, 3), (6, 7)):
        x, y = T.ones(n, 1), T.ones(m, 1)
        assert tree(c(x, y)) == tree(f(x, y))
    assert T.compiler.stats()["graph_breaks"] == 0


def test_a_key_that_grows_the_list():
    def f(x, values):
        made = [1]

        def key(v):
            if len(made) < 4:
                made.append(v + 1)
            return v

        def grow(v):
            if len(values) < 6:
                values.append(v + 1)
            return v

        return x + 1, max(made, key=key), sum(grow(v) for v in values), max(values, key=grow)

    c = T.compile(f)
    for _ in range(2):
        a, b = [1, 2], [1, 2]
        assert tree(c(T.ones(1), a)) == tree(f(T.ones(1), b)) and a == b
