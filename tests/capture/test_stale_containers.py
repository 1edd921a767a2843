"""Containers and plain values that change between calls. See stale.py."""

import collections

import numpy as np
from stale import Scenarios, X

import fusegrad as T

scenario = Scenarios()


@scenario
def lists(C):
    v = [1.0, T.ones(2), [2.0]]
    f = C(lambda x: x * v[0] + v[1] + v[2][0] + len(v))
    yield f(X)
    v[0] = 2.0
    yield f(X)
    v.append(5)
    yield f(X)
    v[2].append(7)
    yield f(X)
    v[2][0] = 9.0
    yield f(X)
    v[1] = T.zeros(2)
    yield f(X)
    v.reverse()
    yield f(X)


@scenario
def deques_by_their_limit(C):
    f = C(lambda x, d: (d.append(x), len(d), d[-1] * 2)[1:])
    for limit in (3, None, 4, 3, 1):
        yield f(X, collections.deque([1, 2, 3], maxlen=limit))


@scenario
def list_iterated(C):
    v = [1.0, 2.0]

    def g(x):
        for k in v:
            x = x * k + 1
        return x

    f = C(g)
    yield f(X)
    v.append(3.0)
    yield f(X)
    v.pop(0)
    yield f(X)
    v.clear()
    yield f(X)


@scenario
def dicts(C):
    d = {"a": 1.0, "b": 2.0}

    def g(x):
        for k, v in d.items():
            x = x * v + len(k)
        return x * d["a"]

    f = C(g)
    yield f(X)
    d["a"] = 5.0
    yield f(X)
    d["ccc"] = 2.0
    yield f(X)
    a = d.pop("a")
    d["a"] = a
    yield f(X)
    del d["b"]
    yield f(X)


@scenario
def dict_get(C):
    d = {}
    f = C(lambda x: x * d.get("k", 2.0) + (1 if "k" in d else 0) + len(d))
    yield f(X)
    d["k"] = 3.0
    yield f(X)
    d["z"] = 3.0
    yield f(X)
    d.clear()
    yield f(X)


@scenario
def keys_equal_but_not_the_same(C):
    d = {1: 2.0}
    f = C(lambda x: [x * v + (1 if type(k) is bool else 0) + (3 if type(k) is float else 0) for k, v in d.items()])
    yield f(X)
    d.clear()
    d[True] = 2.0
    yield f(X)
    d.clear()
    d[1.0] = 2.0
    yield f(X)


@scenario
def equal_numbers_of_other_types(C):
    f = C(lambda x, k: (x * k, type(k).__name__))
    for k in (1, True, 1.0, 0, False, 0.0, -0.0, 1, np.float32(1), np.int64(1), float("nan"), float("inf"), 2**70):
        yield f(X, k)


@scenario
def tuples_with_equal_content(C):
    f = C(lambda x, t: (x * t[0], [type(k).__name__ for k in t]))
    for t in ((1, 2), (True, 2), (1.0, 2), (1, 2.0), (1, 2, 3), [1, 2], (1, (2,))):
        yield f(X, t)


@scenario
def sets(C):
    s = {1, 2}
    f = C(lambda x: x * (2 if 1 in s else 3) + len(s))
    yield f(X)
    s.discard(1)
    yield f(X)
    s.add(5)
    yield f(X)
    s |= {True}
    yield f(X)


@scenario
def sets_of_other_types(C):
    f = C(lambda x, s: [x * 2 if type(k) is bool else x * 3 for k in s])
    yield f(X, {1})
    yield f(X, {True})
    yield f(X, {1.0})
    yield f(X, frozenset({1}))
    yield f(X, frozenset({True}))


@scenario
def deques_and_ranges(C):
    q = collections.deque([1.0, 2.0], maxlen=3)

    def g(x, r):
        for k in q:
            x = x * k
        for k in r:
            x = x + k
        return x

    f = C(g)
    yield f(X, range(3))
    q.append(5.0)
    yield f(X, range(3))
    q.append(6.0)
    yield f(X, range(4))
    yield f(X, range(0, 4, 2))
    yield f(X, range(0))


@scenario
def default_dicts(C):
    d = collections.defaultdict(lambda: 2.0)
    f = C(lambda x: x * d["k"])
    yield f(X)
    yield dict(d)
    d["k"] = 5.0
    yield f(X)
    del d["k"]
    d.default_factory = lambda: 9.0
    yield f(X)
    del d["k"]
    d.default_factory = None
    yield f(X)
    yield dict(d)


@scenario
def ordered_dicts(C):
    d = collections.OrderedDict(a=1.0, b=2.0)

    def g(x):
        for v in d.values():
            x = x * 2 + v
        return x

    f = C(g)
    yield f(X)
    d.move_to_end("a")
    yield f(X)


@scenario
def strings(C):
    f = C(lambda x, s: x * len(s) if s != "sum" else x.sum())
    for s in ("a", "sum", "bb", "ccc", "dddd", "sum", "eeeee", "f"):
        yield f(X, s)


@scenario
def string_subclasses(C):
    class S(str):
        def __len__(self):
            return 100

    f = C(lambda x, s: x * len(s))
    yield f(X, "ab")
    yield f(X, S("ab"))


test_nothing_goes_stale = scenario.test()
