"""Values that are equal and not the same, defaults, and guards that must not run the user's code. See stale.py."""

import collections
import math

from stale import Scenarios, X

import fusegrad as T

scenario = Scenarios()


@scenario
def zeros_by_their_sign(C):
    """0.0 == -0.0: what full, copysign, atan2 and a division make of them differs."""
    f = C(lambda x, a: (T.full((2,), a), T.copysign(x, T.full_like(x, a)), x / a, T.atan2(x * 0, T.full((2,), a))))
    for a in (0.0, -0.0, 0.0, -0.0, 1.5, -0.0, 0.0, 2.5, -0.0, 0.0):
        yield [v.tolist() for v in f(X, a)]
    for a in (math.nan, math.inf, math.nan, 1.0, -math.inf, math.nan):
        yield [str(v.tolist()) for v in f(X, a)]


@scenario
def zeros_computed_from_a_float_that_changes(C):
    f = C(lambda x, a: (T.full((2,), a * 2), T.full((2,), -a), str(a + 0.0), f"{a}", math.copysign(1.0, a)))
    for a in (1.0, 2.0, 0.0, -0.0, 3.0, -0.0, 0.0):
        out = f(X, a)
        yield [v.tolist() if isinstance(v, T.Tensor) else v for v in out]


@scenario
def a_difference_that_is_nan(C):
    f = C(lambda x, a: (x * (a - a), T.full((2,), a - a).isnan(), (a - a) == 0))
    for a in (1.0, 2.0, math.inf, 3.0, math.inf, math.nan, 4.0, -math.inf):
        yield [str(v) for v in f(X, a)]


@scenario
def defaults_of_the_plain_function(C):
    def g(x, a=1.0, *rest, b=2.0):
        return x * a + b + len(rest)

    f = C(g)
    yield f(X)
    g.__defaults__ = (5.0,)
    yield f(X), f(X, 1.0), f(X, b=1.0)
    g.__kwdefaults__ = {"b": 7.0}
    yield f(X), f(X, 1.0, 2.0), f(X, b=1.0)
    g.__kwdefaults__["b"] = 8.0
    yield f(X)
    g.__defaults__ = ((),)
    yield f(X, 3.0)


@scenario
def defaults_of_the_compiled_function(C):
    """What is assigned to it stays, also when it is compiled again."""
    f = C(lambda x, a=1.0: x * a)
    yield f(X)
    f.__defaults__ = (5.0,)
    yield f(X), f(T.ones(3)), f(T.ones(4)), f(X.double()), f(X, 2.0)


@scenario
def dicts_that_make_what_is_missing(C):
    """Looking why an entry does not fit must not make keys."""

    class Missing(dict):
        def __missing__(self, key):
            self[key] = len(self)
            return self[key]

    def g(d):
        total = 0
        for v in d.values():
            total = total + v
        return total

    f = C(g)
    yield f({"a": X, "b": X})
    for kind in (collections.defaultdict, Missing):
        for keys in ("a", "ab", "b", "c", "ba"):
            d = kind(int) if kind is collections.defaultdict else kind()
            d.update(dict.fromkeys(keys, X))
            yield f(d), list(d)


@scenario
def properties_and_missing_attributes_are_not_read_by_guards(C):
    log = []

    class Plain:
        def __init__(self):
            self.k, self.inner = 2.0, [X]

    class Loud:
        @property
        def k(self):
            log.append("k")
            return 3.0

        @property
        def inner(self):
            log.append("inner")
            return [X]

    class Made:
        def __getattr__(self, name):
            log.append(name)
            return 4.0 if name == "k" else [X]

    def g(o, key):
        return o.k * X + o.inner[0] if key else o.k * X

    f = C(g)
    for key in (1, 0):
        for o in (Plain(), Loud(), Made(), Plain(), Made(), Loud()):
            yield f(o, key), list(log)
            log.clear()


@scenario
def an_attribute_becomes_a_property(C):
    log = []

    class A:
        k = 2.0

    def g(x, o):
        return x * o.k

    f, o = C(g), A()
    yield f(X, o)
    A.k = property(lambda self: log.append("read") or 5.0)
    yield f(X, o), list(log)
    yield f(X, o), list(log)


test_nothing_goes_stale = scenario.test()
