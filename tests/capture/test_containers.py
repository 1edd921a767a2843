"""Lists, dicts, sets, tuples, deques, named tuples: made inside, passed in, changed, returned."""

import collections

import pytest
from helpers import check

import fusegrad as T

x, y = T.arange(3.0), T.ones(3) * 2
DEFAULTS = {"a": 1.0, "b": [1, 2]}
HISTORY: list = []
Point = collections.namedtuple("Point", "a b")


def test_list_made_inside():
    def f(x):
        out = []
        for i in range(3):
            out.append(x * i)
        out.insert(0, x)
        out[1] = out[1] + 1
        out += [x]
        last = out.pop()
        del out[0]
        return out, last, out[::-1], len(out)

    check(f, (x,), breaks=0)


def test_list_argument():
    def f(items):
        items.append(items[0] * 2)
        items[0] = items[1] + 1
        items.extend([items[0], 5])
        items.reverse()
        return items, items[-1]

    check(f, ([x, y],), ([x],), ([y, x, y],), breaks=0)


def test_list_append_only_reads_nothing():
    def f(items, x):
        items.append(x + 1)
        return x

    check(f, ([], x), ([1, 2], x), ([x, y, 3], x), breaks=0, compiles=1)


def test_nested_containers():
    def f(d):
        d["k"]["l"][1] = d["k"]["t"][0] * d["k"]["l"][0]
        d["k"]["n"] = {"m": [d["k"]["l"][1]]}
        return d["k"]

    check(f, ({"k": {"l": [x, None], "t": (y, 3)}},), breaks=0)


def test_dict_methods():
    def f(d, x):
        a = d.get("a")
        b = d.get("zz", 7)
        c = d.pop("c", None)
        d.setdefault("s", x)
        d.update(u=x * 2)
        d["new"] = len(d)
        keys = list(d)
        vals = [v for v in d.values() if v is not None]
        items = {k: 1 for k, v in d.items()}
        return a, b, c, keys, vals, items, "a" in d, "q" not in d

    check(f, ({"a": x, "c": 3}, y), ({"c": None, "a": 1.5}, y), ({}, y), breaks=0)


def test_dict_order_after_writes():
    def f(d, x):
        d["a"] = x
        del d["b"]
        d["b"] = x + 1
        d["a"] = x + 2
        return list(d.items())

    check(f, ({"a": 1, "b": 2, "c": 3}, x), breaks=0)


def test_dict_clear_popitem():
    def f(d, x):
        k, v = d.popitem()
        d2 = d.copy()
        d.clear()
        d["z"] = x
        return k, v, d2, d

    check(f, ({"a": x, "b": y}, y), breaks=0)


def test_defaultdict_counter_ordered():
    def f(x):
        d = collections.defaultdict(list)
        d["a"].append(x)
        d["b"].append(x * 2)
        o = collections.OrderedDict()
        o["k"] = d["a"][0]
        return dict(d), o, sum(len(v) for v in d.values())

    check(f, (x,), breaks=0)

    def g(d, x):
        d["p"].append(x)
        d["q"] = [x]
        return d["p"], len(d)

    check(g, (collections.defaultdict(list), x), (collections.defaultdict(list, p=[y]), x), breaks=0)


def test_sets():
    def f(x, s):
        t = {1, 2, 3} | {4}
        t.discard(2)
        s.add(9)
        n = len(s & {1, 9})
        return x * len(t), 3 in t, n, s

    check(f, (x, {1}), (x, {2, 5}), breaks=0)


def test_tuples_and_named():
    def f(p, t):
        a, b = p
        q = p._replace(a=b * 2)
        (c, *rest), d = t
        return q, q.a + a, rest, c, Point(a, d), p[1:], t + (1,)

    check(f, (Point(x, y), ((x, 1, 2), y)), breaks=0)


def test_identity_kept():
    def f(a, b):
        l = [a]
        d = {"x": l, "y": l}
        return d, l, a is b, l is d["x"]

    def same(a, b):
        d, l, ab, ld = c(a, b)
        assert d["x"] is d["y"] is l and l[0] is a and ld
        return ab

    c = T.compile(f)
    assert same(x, x) and not same(x, y) and same(y, y)


def test_list_shared_by_two_names():
    def f(a, b):
        a.append(1)
        return len(b)

    c = T.compile(f)
    l = [0]
    assert c([0], [0]) == 1
    assert c(l, l) == 2
    assert c([0], [0]) == 1


def test_deque():
    def f(x, q):
        d = collections.deque(maxlen=2)
        for i in range(4):
            d.append(x + i)
        q.append(x)
        return list(d), q

    check(f, (x, collections.deque([1])), (x, collections.deque([1, 2], maxlen=2)))


def test_global_containers():
    def f(x):
        HISTORY.append(x * 2)
        return x * DEFAULTS["a"] + sum(DEFAULTS["b"])

    HISTORY.clear()
    c = T.compile(f)
    for k in range(3):
        c(x + k)
    assert [h[0].item() for h in HISTORY] == [0, 2, 4]
    DEFAULTS["a"] = 3.0
    assert c(y)[0].item() == 9
    DEFAULTS["b"].append(10)
    assert c(y)[0].item() == 19
    DEFAULTS["b"].pop()
    DEFAULTS["a"] = 1.0


def test_comprehensions_and_builtins():
    def f(xs, n):
        a = [v * i for i, v in enumerate(xs) if i != 1]
        b = {i: v for i, v in zip(range(n), xs, strict=False)}
        c = sum(v.sum() for v in xs)
        d = max(xs, key=lambda v: v.shape[0])
        e = sorted([3, 1, 2], key=lambda v: -v)
        g = list(map(lambda v: v + 1, xs))
        h = list(filter(lambda v: v.ndim == 1, xs))
        return (
            a,
            b,
            c,
            d,
            e,
            g,
            h,
            any(i > 1 for i in range(n)),
            all([True, n > 0]),
            list(reversed(xs)),
            min(n, 7),
            abs(-n),
        )

    check(f, ([x, y, x], 2), ([x], 3), breaks=0)


def test_starred_and_slices():
    def f(*args, **kw):
        first, *rest = args

        def g(a, b=2, *c, d=4, **e):
            return a + b + d + len(c) + len(e)

        return first, rest, g(*rest, **kw), [*args, 1], {**kw, "z": 0}, args[-1]

    check(lambda a, b, c: f(a, b, c, d=1, q=3), (x, y, 3.0), breaks=0)


def test_iterator_carried_over_a_break():
    def f(xs):
        out = []
        it = iter(xs)
        for v in it:
            out.append(v * 2)
            if v.sum() > 3:
                out.append(next(it, None))
        return out

    check(f, ([x, y, x, y],), ([y, y],), plain=0)


def test_zip_carried_over_a_break():
    def f(xs):
        t = 0
        for i, (a, b) in enumerate(zip(xs, xs[1:], strict=False)):
            t = t + float((a * b).sum()) * i
        return t

    check(f, ([x, y, x],), plain=0)


class OwnList(list):
    """No list, but one to C code."""


class Unlike(list):
    def __iter__(self):
        return iter([7])


@pytest.mark.parametrize("kind", [list, collections.deque, OwnList, Unlike])
def test_extended_by_itself(kind):
    """Also when what is added reads the container that it goes to."""

    def f(x, k, a, b):
        a.extend(a)
        b.append(x)
        b.extend(v * 2 for v in list(b))
        b += b
        if kind is collections.deque:
            a.extendleft(a)
        new = kind([k])
        new.extend(new)
        return len(a), new, a[-1] * x

    c = T.compile(f)
    for k in (2, 2, 5):
        one, two = [(kind([1, k]), kind([3])) for _ in range(2)]
        want, got = f(T.ones(2), k, *one), c(T.ones(2), k, *two)
        assert (got[0], whole(got[1])) == (want[0], whole(want[1]))
        assert got[2].tolist() == want[2].tolist()
        for p, q in zip(one, two, strict=True):
            assert [str(v) for v in whole(q)] == [str(v) for v in whole(p)]


def whole(v):
    """The items, past an ``__iter__``."""
    return list(v) if isinstance(v, collections.deque) else list.__getitem__(v, slice(None))
