"""Objects as keys, told apart by who they are, and what equals what: in later calls with others too."""

import collections

import pytest

import fusegrad as T
from fusegrad import nn

from .helpers import X, alike, tree

# ---- keys


A, B, C = (T.tensor(X) * n for n in (1, 2, 3))
TELLERS = {
    "set": lambda a, b, c: a + len({a, b, c}),
    "set call": lambda a, b, c: a + len(set([a, b])),
    "frozenset": lambda a, b, c: a + len(frozenset((a, b, c))),
    "in set": lambda a, b, c: a * 2 if a in {b, c} else a,
    "dict": lambda a, b, c: a + len({a: 1, b: 2, c: 3}),
    "item": lambda a, b, c: a + {a: 1, b: 2, c: 3}[a],
    "get": lambda a, b, c: a + {a: 1}.get(b, 7),
    "keys": lambda a, b, c: a + len({a: 1}.keys() & {b: 1}.keys()),
    "tuples": lambda a, b, c: a + len({(a, 1), (b, 1)}),
    "operators": lambda a, b, c: a + len({a} | {b}) + len({a} - {b}) + len({a, b} & {c, a}) + ({a} == {b}),
    "methods": lambda a, b, c: a + {a}.isdisjoint([b]) + {a}.issubset({b}) * 2 + len({a}.union([b], [c])) * 4,
    "of frozenset": lambda a, b, c: a + len(frozenset([a]).union([b])),
    "fromkeys": lambda a, b, c: a + len(dict.fromkeys([a, b, c])),
    "comprehension": lambda a, b, c: a + len({t: 1 for t in (a, b, c)}) + len({t for t in (a, b)}),  # noqa: C416
    "counter": lambda a, b, c: a + len(collections.Counter([a, b])),
    "equal dicts": lambda a, b, c: a + ({a: 1} == {b: 1}),
}


@pytest.mark.parametrize("name", TELLERS)
@pytest.mark.parametrize("kind", ["tensors", "objects"])
def test_keys_are_told_apart_in_later_calls(name, kind):
    tell = TELLERS[name]
    if kind == "objects":

        class Adding:
            """Something like a tensor as the left operand, by identity otherwise."""

            def __init__(self):
                self.t = T.tensor(X)

            def __add__(self, n):
                return self.t + n

            def __mul__(self, n):
                return self.t * n

        a, b, c = Adding(), Adding(), Adding()
    else:
        a, b, c = A, B, C
    s = alike(tell, lambda: (a, b, c), lambda: (a, a, a), lambda: (b, b, c), lambda: (c, b, c), lambda: (a, c, c))
    assert s["plain_frames"] == 0


def test_keys_of_dicts_and_sets_from_before_are_told_apart():
    a, b = T.tensor(X), T.tensor(X)

    def put(x, p, q, d):
        d[p] = 1
        d[q] = 2
        return x + d[p] + len(d), len(d)

    def add(x, p, q, s):
        s.add(p)
        s.add(q)
        return x + len(s)

    def look(x, p, d):
        return x + len(list(d)) + d.get(p, 9)

    x = T.tensor(X)
    alike(put, lambda: (x, a, b, {}), lambda: (x, a, a, {}), lambda: (x, a, b, {a: 5}), lambda: (x, b, b, {a: 5}))
    alike(add, lambda: (x, a, b, set()), lambda: (x, a, a, set()), lambda: (x, b, b, set()))
    alike(look, lambda: (x, a, {a: 1}), lambda: (x, b, {a: 1}), lambda: (x, b, {b: 1}))


def test_keys_written_and_only_counted():
    a, b = T.tensor(X), T.tensor(X)

    def count(x, p, q, d):
        d[p] = 1
        d[q] = 2
        return x + len(d)

    def pairs(x, p, q, d):
        d.update([(p, 1), (q, 2)])
        return x + len(d)

    x = T.tensor(X)
    for f in (count, pairs):
        alike(f, lambda: (x, a, b, {}), lambda: (x, a, a, {}), lambda: (x, a, b, {a: 1}), lambda: (x, b, b, {a: 1}))


def test_pairs_that_are_none():
    def f(x, d, src):
        try:
            d.update(src)
        except (TypeError, ValueError) as e:
            return x, str(e), d
        return x, d

    for src in ([(1, 2, 3)], [1], 3, [[1, 2], "ab"]):
        s = alike(f, lambda src=src: (T.tensor(X), {0: 0}, src))
        assert not any("fault" in r for r in s["break_reasons"])


def test_shared_parameters_in_a_set():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    c = T.compile(lambda m, x: x + len(set(m.parameters())))
    assert c(m, T.zeros(1)).item() == 4
    m[1].weight = m[0].weight
    assert c(m, T.zeros(1)).item() == 3


class Counted:
    def __init__(self):
        self.n = 0


def test_objects_in_a_frozenset_are_looked_at():
    one = Counted()
    kept = frozenset([one])

    def change(x, s, o):
        (other,) = s
        o.n += 1
        return x + other.n

    def read(x):
        return x + sum(o.n for o in kept)

    def member(x, o):
        return x + (o in kept) * 2 + len(kept)

    x = T.tensor(X)
    c, r, m = T.compile(change), T.compile(read), T.compile(member)
    for n in (1, 2):
        assert tree(c(x, kept, one)) == tree(x + n)
    for n in (5, 7, 7):
        one.n = n
        assert tree(r(x)) == tree(x + n)
    assert tree(m(x, one)) == tree(x + 3)
    assert tree(m(x, Counted())) == tree(x + 1)
    held = T.tensor(X)
    s = frozenset([held])
    t = T.compile(lambda x: x + sum(v.sum() for v in s))
    assert tree(t(x)) == tree(x + 2)
    held.mul_(2)
    assert tree(t(x)) == tree(x + 4)


def test_constants_in_a_frozenset_take_no_break():
    kinds = frozenset([T.float32, int, len, "a", 1, 2.5, (1, "b"), frozenset([3])])
    for v in (T.float32, float, len, "z", True, 2.5, (1, "b"), frozenset([3])):
        s = alike(lambda x, v: x + (v in kinds), lambda v=v: (T.tensor(X), v))
        assert s["graph_breaks"] == 0


# ---- objects that equal others


class Weight:
    def __init__(self, grams):
        self.grams = grams

    def __eq__(self, other):
        return self.grams == other.grams if isinstance(other, Weight) else NotImplemented

    __hash__ = None

    def __index__(self):
        return self.grams


class Whole(int):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = int.__hash__


class Scale:
    def __ne__(self, other):
        return NotImplemented


def test_equality_that_both_sides_do_not_know_is_identity():
    weight, whole, scale, plain = Weight(3), Whole(4), Scale(), object()

    def compared(x, grams):
        weight.grams = grams
        found = [weight == 3, weight != 3, weight == None, "a" == weight, weight in (1, [2], weight), weight == scale]  # noqa: E711
        found += [
            scale != 2,
            scale != scale,
            weight == Weight(5),
            weight != plain,
            [weight] == [5],
        ]
        return x * sum(2**i for i, f in enumerate(found) if f), found

    fast = T.compile(compared, fullgraph=True)
    for grams in (3, 5, 5, 6):
        want, got = compared(T.ones(2), grams), fast(T.ones(2), grams)
        assert want[1] == got[1] and want[0].tolist() == got[0].tolist()

    def numbers(x):
        return x * 2, whole == 4, 4 == whole, whole == 4.0, whole != 4, weight == 4

    want, got = numbers(T.ones(2)), T.compile(numbers)(T.ones(2))
    assert want[1:] == got[1:]


def test_numbers_of_objects_that_are_indexes():
    weight = Weight(3)

    def made(x):
        return x * int(weight) + float(weight), int(weight), float(weight)

    fast = T.compile(made, fullgraph=True)
    for grams in (3, 7, 7, -2):
        weight.grams = grams
        want, got = made(T.ones(2)), fast(T.ones(2))
        assert want[1:] == got[1:] and type(got[2]) is float and want[0].tolist() == got[0].tolist()


class Amount:
    def __init__(self, units):
        self.units = units

    def __eq__(self, other):
        return self.units == (other.units if isinstance(other, Amount) else other)

    __hash__ = None


def test_numbers_are_found_among_objects_that_equal_them():
    amount = Amount(3)
    kept, pair, named, line = [5, amount], (amount, "b"), {"k": amount, "n": [1]}, collections.deque([amount, 9])

    def found(x, units):
        amount.units = units
        seen = [
            3 in kept,
            3 not in pair,
            3 in named.values(),
            3 in {"k": amount}.values(),
            3 in line,
            [3] in [[amount]],
        ]
        seen += [x.shape[0] in kept, None in kept, "b" in pair, Amount(4) in named.values(), [1] in named.values()]
        return x * units, seen

    fast = T.compile(found, fullgraph=True)
    for units, size in ((3, 2), (4, 2), (4, 4), (9, 9), (3, 5)):
        want, got = found(T.ones(size), units), fast(T.ones(size), units)
        assert want[1] == got[1] and want[0].tolist() == got[0].tolist()
