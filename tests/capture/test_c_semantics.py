"""What C code asks of objects on its way: identity before ``==``, ``__index__``, lengths; its words for iterators."""

import collections
import itertools
import math
import operator

import pytest

import fusegrad as T

from .helpers import tree

NAN = float("nan")


class Key:
    def __init__(self, n, log, equal=True):
        self.n, self.log, self.equal = n, log, equal

    def __hash__(self):
        return 1

    def __eq__(self, other):
        self.log.append((self.n, getattr(other, "n", other)))
        return self.equal


class Index:
    def __init__(self, log, n=1):
        self.log, self.n = log, n

    def __index__(self):
        self.log.append("index")
        return self.n

    def __len__(self):
        self.log.append("len")
        return self.n

    def __getitem__(self, k):
        self.log.append(k)
        return (7, 8)[k]


def made(log):
    for v in (1, 2, 3):
        log.append(v)
        yield v


def groups(log, *equal):
    return [(k.n, [v.n for v in vs]) for k, vs in itertools.groupby(Key(n, log, e) for n, e in enumerate(equal))]


def after(values, f):
    f(values)
    return list(values)


RUNS = {
    "groupby nan": lambda log: [len(list(v)) for k, v in itertools.groupby([NAN, NAN, 1, 1])],
    "groupby": lambda log: groups(log, True, False, False),
    "groupby equal": lambda log: groups(log, True, True, False, True),
    "groupby keys": lambda log: [k.n for k, _ in itertools.groupby([Key(1, log), Key(2, log, False), Key(3, log)])],
    "groupby part": lambda log: [(next(v), k) for k, v in itertools.groupby([1, 1, 2, 2, 3])],
    "groupby late": lambda log: [list(v) for v in [v for k, v in itertools.groupby([1, 1, 2])]],
    "groupby lazy": lambda log: [(log.append("g"), list(v)) for k, v in itertools.groupby(made(log), lambda v: v > 1)],
    "iter until nan": lambda log: list(iter(iter([1, NAN, 2]).__next__, NAN)),
    "iter until": lambda log: [k.n for k in iter(iter([Key(1, log, False), Key(2, log)]).__next__, Key(9, log, False))],
    "nan": lambda log: (
        NAN in [NAN],
        NAN in iter([NAN]),
        [NAN] == [NAN],
        [NAN].index(NAN),
        operator.countOf([NAN], NAN),
    ),
    "remove": lambda log: [v.remove(Key(1, log)) or len(v) for v in [[Key(2, log, False), Key(3, log)]]],
    "repeat": lambda log: [0] * Index(log, 2),
    "repeat by": lambda log: Index(log, 2) * (0, 1),
    "repeat text": lambda log: "ab" * Index(log, 2),
    "insert": lambda log: after([1, 2], lambda v: v.insert(Index(log), 5)),
    "pop": lambda log: after([1, 2, 3], lambda v: v.pop(Index(log))),
    "rotate": lambda log: after(collections.deque([1, 2, 3]), lambda v: v.rotate(Index(log))),
    "item": lambda log: [1, 2, 3][Index(log)],
    "__mul__": lambda log: [1].__mul__(Index(log, 3)),
    "extend": lambda log: after([1], lambda v: v.extend(Index(log, 2))),
    "+=": lambda log: after([1], lambda v: operator.iadd(v, Index(log, 2))),
    "deque +=": lambda log: after(collections.deque([1]), lambda v: operator.iadd(v, Index(log, 2))),
}
WORDS = {
    "len": lambda log: len(made(log)),
    "len map": lambda log: len(map(abs, [1])),
    "reversed": lambda log: reversed(made(log)),
    "abs": lambda log: abs(made(log)),
    "int": lambda log: int(made(log)),
    "sqrt": lambda log: math.sqrt(made(log)),
    "+": lambda log: made(log) + 1,
    "item": lambda log: made(log)[0],
    "call": lambda log: made(log)(),
    "index": lambda log: [1][made(log)],
    "range": lambda log: range(made(log)),
    "attribute": lambda log: made(log).foo,
}


@pytest.mark.parametrize("name", [*RUNS, *(f"error of {n}" for n in WORDS)])
def test_asked(name):
    run = RUNS.get(name) or WORDS[name[len("error of ") :]]

    def f(x, log):
        try:
            out = run(log)
        except (TypeError, AttributeError) as e:
            out = type(e).__name__, str(e)
        return x + 1, out

    c = T.compile(f)
    for n in (1, 2):
        want_log, log = [], []
        want = f(T.ones(n), want_log)
        assert tree(c(T.ones(n), log)) == tree(want) and log == want_log
