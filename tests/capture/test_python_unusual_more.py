"""Unusual programs with the standard library, metaclasses, proxies and generators: one graph, the results of plain
Python."""

import collections
import contextlib
import copy
import itertools
import operator
import string
import types

import pytest
from helpers import tree

import fusegrad as T

X = T.arange(6.0).reshape(2, 3)
P = []


class Meta(type):
    def __getitem__(cls, i):
        return i * 2

    def __contains__(cls, i):
        return i == 3

    def __iter__(cls):
        return iter((1, 2))


class KM(metaclass=Meta):
    def __class_getitem__(cls, i):
        return "never"


class KG:
    def __class_getitem__(cls, i):
        return i


def p(*a):
    def d(f):
        P.append((f, a or (X,)))
        return f

    return d


@p()
def b1(x):
    g = operator.methodcaller("mean", dim=0)
    return g(x), operator.methodcaller("sum", 0, keepdim=True)(x)


@p()
def b2(x):
    return (
        operator.itemgetter(0, 1)({0: x, 1: 2}),
        operator.attrgetter("shape", "dtype")(x),
        operator.concat([1], [2]),
        operator.mul(x, 2),
        operator.contains([1], 1),
        operator.countOf([1, 1], 1),
        operator.index(True),
    )


@p()
def b4(x):
    return (
        sorted([("b", 2), ("a", 3)], key=operator.itemgetter(1), reverse=True),
        max(range(3), key=lambda i: x[0].shape[0] - i),
        sum([[1], [2]], []),
        dict(sorted({"b": 1, "a": 2}.items())),
        x.new_zeros(2),
        round(2.567, 2),
        divmod(7, 2),
        pow(2, 3, 5),
        abs(-x.shape[0]),
    )


@p()
def b5(x):
    s = "a,b;c"
    return (
        s.split(","),
        s.partition(";"),
        "x".join(["1", "2"]),
        s.replace("a", str(x.shape[0])),
        s.upper().lower().strip("c"),
        s.encode(),
        "ab" < "b",
        s[::-1],
        s.find("b"),
        "a" in s,
        f"{s!a:>8}",
        string.ascii_letters[:3],
    )


@p()
def b7(x):
    return x * KM[3], 3 in KM, [*KM], KG[4] * x


class Prox:
    def __init__(s, t):
        object.__setattr__(s, "t", t)

    def __getattr__(s, n):
        return getattr(object.__getattribute__(s, "t"), n)

    def __setattr__(s, n, v):
        setattr(s.t, n, v)

    def __delattr__(s, n):
        delattr(s.t, n)

    def __bool__(s):
        return False

    def __call__(s, *a):
        return s.t.scale if hasattr(s.t, "scale") else a


@p()
def b8(x):
    q = Prox(types.SimpleNamespace(a=x, b=2))
    q.c = q.b + 1
    del q.b
    return q.a * q.c, hasattr(q, "b"), bool(q), q(1), "y" if q else "n"


@p()
def b10(x):
    def f(a, /, b, *, c=2, **k):
        return a * b * c + k.get("d", 0)

    return f(x, b=2, **{"c": 3, "d": 1}), f(*(x, 1)), (lambda *a, **k: (len(a), sorted(k)))(1, *[2], z=1, **{"y": 2})


@p()
def b11(x):
    it = iter(x)
    a = next(it)
    rest = list(it)
    z = next(it, None)
    it2 = iter([1, 2].pop, 1)
    return a, len(rest), z, list(it2)


@p()
def b12(x):
    d = collections.defaultdict(list)
    [d[i % 2].append(x[i % 2] * i) for i in range(4)]
    c = collections.Counter("aab")
    o = collections.OrderedDict(a=1, b=2)
    o.move_to_end("a")
    cm = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return d[1], len(d), c.most_common(1), list(o), cm["a"], cm["b"]


@p()
def b13(x):
    with contextlib.ExitStack() as st:
        l = []
        st.callback(l.append, 3)
        v = st.enter_context(contextlib.nullcontext(x))
    return v, l


@p()
def b14(x):
    with (
        T.enable_grad(),
        T.autograd.grad_mode.set_grad_enabled(False) if hasattr(T.autograd, "grad_mode") else T.no_grad(),
    ):
        y = x * 2
    return y, T.is_grad_enabled()


@p()
def b15(x):
    def outer():
        v = 1

        class C:
            v = 2

            def get(s):
                return v

            w = [v for _ in range(2)]

        return C().get(), C.w, C.v

    return x * outer()[0], outer()


@p()
def b16(x):
    x = x.clone()
    y = x.view(-1)
    y[::2] += 1
    x.t()[0] *= 2
    z = x[0]
    z.add_(x[1])
    x[x > 3] = 0
    del y
    return x, z


@p()
def b17(x):
    a, b = x.shape
    n = a * b
    return (
        x.reshape(n // 2, 2),
        x.expand(3, a, b).sum(),
        n.bit_length(),
        a << 1 | b & 1,
        -a % b,
        a / b,
        a**b,
        str(n),
        float(n),
        f"{a / b:.2f}",
        a.__add__(2),
        min(a, b),
        [0] * a,
    )


@p()
def b20(x):
    def gen():
        try:
            while True:
                v = yield
                acc.append(v)
        finally:
            acc.append("closed")

    acc = []
    g = gen()
    next(g)
    g.send(x)
    g.send(2)
    g.close()
    return acc


@pytest.mark.parametrize("f, args", P, ids=[f.__name__ for f, _ in P])
def test_one_graph(f, args):
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        want, got = tree(f(*copy.deepcopy(args))), tree(c(*copy.deepcopy(args)))
        assert got == want
    s = T.compiler.stats()
    assert s["compiles"] == 1 and s["graph_breaks"] == 0 and s["plain_frames"] == 0, s["break_reasons"]


def test_attributes_of_generators_made_inside():
    """What capture does not know of an iterator is asked of the real one."""

    def f(x):
        it = itertools.repeat(x, 3)
        next(it)
        try:
            n = it.__length_hint__()
        except AttributeError:
            n = -1

        def gen():
            yield x

        return n, gen().__name__, gen().gi_running, hasattr(gen(), "nothing")

    c = T.compile(f)
    assert c(X) == f(X) == c(X)
