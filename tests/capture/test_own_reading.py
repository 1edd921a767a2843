"""Containers whose class reads them in its own way, and objects whose end is seen."""

import functools
import gc
import weakref

import pytest

import fusegrad as T

X = T.ones(2)


class Lying(set):
    def __iter__(self):
        return iter([99])


class LyingFrozen(frozenset):
    def __iter__(self):
        return iter([99])


SETS = {
    "set": lambda s: set(s), "frozenset": lambda s: frozenset(s), "union": lambda s: {1}.union(s),
    "intersection": lambda s: {1, 99, 2}.intersection(s), "difference": lambda s: {1, 99}.difference(s),
    "symmetric": lambda s: {1, 99}.symmetric_difference(s), "subset": lambda s: {1}.issubset(s),
    "superset": lambda s: {1, 2, 3}.issuperset(s), "disjoint": lambda s: {99}.isdisjoint(s),
    "update": lambda s: (lambda e: (e.update(s), e))({0})[1], "unpacked": lambda s: {*s}, "list": lambda s: list(s),
    "or": lambda s: {5} | s, "equal": lambda s: s == {1, 2, 3}, "length": lambda s: len(s),
    "sorted": lambda s: sorted(s),
    "removed": lambda s: (lambda e: (e.difference_update(s), e))({1, 99})[1],
}  # fmt: skip


@pytest.mark.parametrize("kind", [Lying, LyingFrozen])
@pytest.mark.parametrize("name", SETS)
def test_sets_read_other_sets_past_their_iteration(name, kind):
    f = SETS[name]
    c = T.compile(lambda x, s: (x + 1, f(s)))
    for _ in range(2):
        assert c(X, kind({1, 2, 3}))[1] == f(kind({1, 2, 3}))


NAMED = ["or", "and", "sub", "xor", "ior", "iand", "isub", "ixor", "ror", "rsub", "eq", "ne", "le", "lt", "ge", "gt"]
GIVEN = [{1, 2, 3}, frozenset({1, 2, 3}), [1, 2, 3], (1, 2, 3), {1: 1, 2: 2}, 3]


@pytest.mark.parametrize("name", NAMED)
def test_operators_called_by_name_take_containers_from_before(name):
    """They answered NotImplemented."""

    def f(x, made, given):
        own = made()
        method = getattr(own, f"__{name}__", None)
        if method is None or name[0] == "i" and isinstance(own, dict):
            return x + 1, None, own
        return x + 1, method(given), own

    c = T.compile(f)
    for made in (lambda: {1, 9}, lambda: frozenset({1, 9}), lambda: [1, 9], lambda: {1: 2}):
        for given in GIVEN:
            assert c(X, made, given)[1:] == f(X, made, given)[1:]


class Others(tuple):
    def __iter__(self):
        return iter([99])


class Scaled(tuple):
    def __getitem__(self, i):
        return tuple.__getitem__(self, i) * 10

    def __len__(self):
        return 1


TUPLES = {
    "first": lambda t: t[0], "last": lambda t: t[-1], "slice": lambda t: t[:2], "sum": lambda t: sum(t),
    "twice": lambda t: t * 2, "joined": lambda t: t + (5,), "in": lambda t: (2 in t, 99 in t),
    "count": lambda t: t.count(2),
    "list": lambda t: list(t), "length": lambda t: len(t), "equal": lambda t: t == (1, 2, 3), "text": lambda t: repr(t),
}  # fmt: skip


@pytest.mark.parametrize("kind", [Others, Scaled])
@pytest.mark.parametrize("name", TUPLES)
def test_tuples_keep_their_items(name, kind):
    f = TUPLES[name]
    c = T.compile(lambda x, t: (x + 1, f(t)))
    for _ in range(2):
        assert c(X, kind([1, 2, 3]))[1] == f(kind([1, 2, 3]))


def test_the_end_of_an_object_made_inside():
    log = []

    class Noisy:
        def __del__(self):
            log.append("end")

    def f(x):
        n = Noisy()
        y = x + 1
        del n
        log.append("after")
        return y

    c = T.compile(f)
    for _ in range(3):
        assert c(X).tolist() == [2.0, 2.0]
    assert log == ["end", "after"] * 3


def test_a_weak_reference_to_a_tensor_made_inside():
    def f(y):
        t = y * 2
        w = weakref.ref(t)
        a = 1 if w() is t else -1
        del t
        return y + a, w() is None

    c = T.compile(f)
    for _ in range(3):
        out, dead = c(X)
        assert out.tolist() == [2.0, 2.0] and dead


def test_a_weak_reference_to_an_object_from_before():
    class Box:
        k = 3

    def f(x, w):
        o = w()
        return x * (o.k if o is not None else -1)

    c, box = T.compile(f), Box()
    w = weakref.ref(box)
    assert c(X, w).tolist() == [3.0, 3.0]
    box.k = 4
    assert c(X, w).tolist() == [4.0, 4.0]
    del box
    gc.collect()
    assert c(X, w).tolist() == [-1.0, -1.0]


class Made:
    """A descriptor that computes a value once, as ``cached_property`` does."""

    def __init__(self, make):
        self.make = make

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, obj, cls=None):
        return obj.__dict__.setdefault(self.name, self.make(obj))


class Sizes:
    def __init__(self):
        self.k = 0

    @functools.cached_property
    def doubled(self):
        return self.k * 2

    @Made
    def tripled(self):
        return self.k * 3


class Fills:
    def __init__(self):
        self.k = 0

    def __getattr__(self, name):
        if name not in ("doubled", "tripled"):
            raise AttributeError(name)
        setattr(self, name, self.k * 7)
        return getattr(self, name)


class Counting:
    def __init__(self):
        self.k, self.doubled, self.tripled, self.read = 0, 1, 2, 0

    def __getattribute__(self, name):
        if name in ("doubled", "tripled", "k"):
            object.__getattribute__(self, "__dict__")["read"] += 1
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("name", ["doubled", "tripled"])
@pytest.mark.parametrize("kind", [Sizes, Fills, Counting])
def test_guards_compute_no_attribute(kind, name):
    """A guard on an attribute that another object has not got yet computes nothing: it would see the old ``k``."""

    def f(x, o):
        o.k = o.k + 1
        return x * getattr(o, name) + o.k

    def run(g):
        out = []
        for calls in (2, 2, 1):
            o = kind()
            out += [(g(X, o).tolist(), dict(vars(o))) for _ in range(calls)]
            vars(o).pop(name) if kind is not Counting else None
            out.append((g(X, o).tolist(), dict(vars(o))))
        return out

    assert run(T.compile(f)) == run(f)
