"""``a is b`` of objects from before that are one in some calls and two in others, wherever they come from."""

from __future__ import annotations

import collections
import functools

import numpy as np
import pytest

import fusegrad as T


class Plain:
    def __init__(self, k=0):
        self.k = k

    def method(self, x):
        return x * self.k


def closure(k):
    return lambda x: x * k


MAKE = {
    "dict": lambda k: {"a": 1}, "list": lambda k: [1], "tuple": lambda k: (1, [k]), "set": lambda k: {k},
    "object": Plain, "closure": closure, "partial": lambda k: functools.partial(T.add, other=k),
    "method": lambda k: Plain(k).method, "method of C": lambda k: [k].append, "slice": lambda k: slice(0, k),
    "tensor": lambda k: T.ones(2) * k, "class": lambda k: type("Q", (), {}), "module": lambda k: T.nn.ReLU(),
    "namedtuple": lambda k: collections.namedtuple("N", "a")(k), "deque": lambda k: collections.deque([k]),
    "bytearray": lambda k: bytearray(2), "iterator": lambda k: iter([k]), "exception": ValueError,
    "array": lambda k: np.ones(2) * k, "range": lambda k: range(k + 300), "frozenset": lambda k: frozenset([k, 500]),
    "manager": lambda k: T.no_grad(),
}  # fmt: skip
G1 = G2 = None


def arguments():
    return (lambda x, a, b: (x + 1, a is b, a is not b)), (lambda a, b: None)


def attributes():
    o = Plain()
    return (lambda x, a, b: (x + 1, o.a is o.b)), (lambda a, b: o.__dict__.update(a=a, b=b))


def of_modules():
    m, n = T.nn.Module(), T.nn.Linear(2, 2)

    def put(a, b):
        m.held, n.held = a, b

    return (lambda x, a, b: (x + 1, m.held is n.held)), put


def of_globals():
    def put(a, b):
        global G1, G2
        G1, G2 = a, b

    return (lambda x, a, b: (x + 1, G1 is G2)), put


def items():
    at = [0, 0]
    return (lambda x, a, b: (x + 1, at[0] is at[1])), (lambda a, b: at.__setitem__(slice(None), [a, b]))


def mixed():
    o, at = Plain(), [0]

    def put(a, b):
        global G2
        o.a, at[0], G2 = a, b, b

    return (lambda x, a, b: (x + 1, a is G2, o.a is at[0], o.a is G2, a is o.a)), put


@pytest.mark.parametrize("place", [arguments, attributes, of_modules, of_globals, items, mixed])
@pytest.mark.parametrize("kind", MAKE)
def test_identity(kind, place):
    def calls(wrap):
        f, put = place()
        run, out = wrap(f), []
        for k in range(5):
            a = MAKE[kind](k)
            b = a if k in (2, 4) else MAKE[kind](k)
            put(a, b)
            out.append(run(T.ones(2), a, b)[1:])
        return out

    T.compiler.reset()
    assert calls(T.compile) == calls(lambda f: f)


COMPARE = {
    "==": lambda a, b: (a == b, a != b), "in": lambda a, b: (a in [b], a in (1, b, 2)),
    "count": lambda a, b: [b, b].count(a),
    "keys": lambda a, b: (len({a: 1, b: 2}), {a: 1}.get(b, 7)), "sets": lambda a, b: len({a, b}),
    "lists": lambda a, b: ([a, b] == [b, a], (a, 1) == (b, 1)), "dicts": lambda a, b: {"k": a} == {"k": b},
    "ids": lambda a, b: id(a) == id(b), "hashes": lambda a, b: hash(a) == hash(b),
    "any": lambda a, b: any(v is a for v in (1, b)),
}  # fmt: skip


class Alike:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return isinstance(other, Alike) and self.k == other.k

    def __hash__(self):
        return 5


MAKE["alike"] = lambda k: Alike(k % 2)


@pytest.mark.parametrize("how", COMPARE)
@pytest.mark.parametrize("kind", MAKE)
def test_equality_that_is_identity(kind, how):
    """Comparing, searching, hashing: of values that stand for objects from before, as of those."""

    def outcome(run, *args):
        try:
            return run(*args)[1:]
        except Exception as e:
            return type(e).__name__

    def calls(wrap):
        o, at = Plain(), [0]
        run, out = wrap(lambda x: (x + 1, COMPARE[how](o.a, at[0]))), []
        for k in range(5):
            o.a = MAKE[kind](k)
            at[0] = o.a if k in (2, 4) else MAKE[kind](k)
            out.append(repr(outcome(run, T.ones(2))))
        return out

    T.compiler.reset()
    assert calls(T.compile) == calls(lambda f: f)
