"""Unusual programs over the whole of Python: one graph, nothing run plainly, the results of plain Python."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator

import pytest
from helpers import tree

import fusegrad as T

X = T.arange(6.0).reshape(2, 3)
P = []


def p(*a):
    def d(f):
        P.append((f, a or (X,)))
        return f

    return d


@contextlib.contextmanager
def cm(l, v):
    l.append(v)
    try:
        yield v * 2
    except ValueError:
        l.append("v")
    finally:
        l.append(-v)


class Base:
    scale = 2.0

    def __init__(self, k):
        self.k = k

    @property
    def half(self):
        return self.k / 2

    @half.setter
    def half(self, v):
        self.k = v * 2

    def __call__(self, x):
        return x * self.k * self.scale

    def __getattr__(self, n):
        if n.startswith("dyn_"):
            return int(n[4:])
        raise AttributeError(n)

    def __enter__(self):
        self.k += 1
        return self

    def __exit__(self, *a):
        self.k -= 1
        return a[0] is KeyError

    def __getitem__(self, i):
        return self.k + i

    def __contains__(self, v):
        return v == self.k

    def __len__(self):
        return 3

    def __iter__(self):
        return iter((self.k, self.k + 1))

    def __lt__(self, o):
        return self.k < o.k

    def __eq__(self, o):
        return isinstance(o, Base) and self.k == o.k

    def __hash__(self):
        return hash(self.k)

    def __index__(self):
        return self.k

    def __matmul__(self, o):
        return o @ o.t() * self.k

    def __rtruediv__(self, o):
        return o * self.k

    def __format__(self, s):
        return f"<{self.k}:{s}>"


class Sub(Base):
    def __init__(self, k, *a, **kw):
        super().__init__(k)
        self.a = a
        self.kw = kw

    def __call__(self, x):
        return super().__call__(x) + len(self.a) + sum(self.kw.values())

    @classmethod
    def make(cls, k):
        return cls(k, 1, 2, z=3)


@p()
def a1(x):
    s = Sub.make(2)
    s.half = s.half + 1
    return s(x) + s.dyn_7 + s[1] + len(s)


@p()
def a2(x):
    with Base(2) as b, Base(3) as c:
        y = b(x) + c(x)
    return y, b.k, c.k


@p()
def a3(x):
    bs = sorted([Base(3), Base(1), Base(2)])
    d = {b.k: i for i, b in enumerate(bs)}
    return (
        x * d[2] + sum(k * i for k, i in d.items()),
        [*bs[0]],
        x / bs[1],
        bs[2] @ x,
        f"{bs[0]:ab}",
        3 in bs[2],
    )


@p()
def a4(x):
    def counter():
        n = 0

        def inc(by=1):
            nonlocal n
            n += by
            return n

        return inc

    c = counter()
    c()
    c(3)
    return x * c()


@p()
def a5(x):
    f = functools.partial(lambda a, *b, c=1, **d: a * c + sum(b) + sum(d.values()), x, 2.0, c=3)
    return f(1.0, e=4.0) + f(c=5)


@p()
def a6(x):
    fs = [lambda v, i=i: v * i for i in range(3)] + [(lambda v: v + y) for y in (x,)]  # noqa: B023
    return functools.reduce(lambda a, f: f(a) + a, fs, x)


@p()
def a7(x):
    d = collections.deque([x], maxlen=2)
    d.append(x + 1)
    d.appendleft(x * 2)
    d.rotate(1)
    return d[0] - d[-1], len(d), d.maxlen


Pt = collections.namedtuple("Pt", "x y", defaults=[3])


class Pt2(Pt):
    def s(self):
        return self.x * self.y


@p()
def a8(x):
    q = Pt2(x)
    a, b = q
    r = q._replace(y=5)
    return q.s() + r.s() + b, q._fields, Pt(*r)[1], q == q


@dataclasses.dataclass(frozen=True, order=True)
class D:
    a: float
    b: tuple = ()
    c: list = dataclasses.field(default_factory=list, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "b", (*self.b, self.a))


@p()
def a9(x):
    d = D(2.0)
    e = dataclasses.replace(d, a=3.0)
    d.c.append(1)
    return x * d.a + sum(e.b), d < e, dataclasses.asdict(e)["a"], len(d.c)


class Col(enum.Enum):
    R = 1
    G = 2

    @property
    def f(self):
        return self.value * 2.0

    @classmethod
    def pick(cls, n):
        return cls(n)


class Fl(enum.IntFlag):
    A = 1
    B = 2
    C = 4


@p()
def a10(x):
    c = Col.pick(2)
    return (
        x * c.f + (1 if c is Col.G else 0),
        c.name,
        (Fl.A | Fl.C) & Fl.C == Fl.C,
        [m.name for m in Col],
        Col["R"].value * x,
    )


@p()
def a11(x):
    def g(n):
        for i in range(n):
            r = yield x * i
            if r:
                yield r
        return n

    def h():
        k = yield from g(3)
        yield x + k

    it = h()
    a = next(it)
    b = it.send(5)
    return [a, b, *it]


@p()
def a12(x):
    return (
        [v for r in x for v in r if v.ndim == 0][2],
        {i: x[i] for i in range(2)},
        {n for n in x.shape},
        sum(a * b for a, b in zip(x, x + 1, strict=True)),
    )


@p()
def a13(x):
    m = map(lambda a, b: a * b, x, itertools.count(1))
    f = filter(None, [0, 1, 2])
    e = enumerate(x, 5)
    return (
        list(m),
        list(f),
        [i for i, _ in e],
        min((3, 1, 2), key=lambda v: -v),
        max([], default=7),
        any(i > 1 for i in range(3)),
        all([]),
    )


@p()
def a14(x):
    return (
        f"{x.shape[0]:>4}|{x.ndim!r:^5}|{tuple(x.shape)}",
        x * len(f"{x.numel()}"),
        "%d-%s" % (x.shape[1], x.dtype),  # noqa: UP031
        f"{x.size(0):03d}",
    )


@p()
def a15(x):
    return (
        x * math.sqrt(x.shape[0]) + math.log(x.numel(), 2),
        math.prod(x.shape),
        math.isclose(1, 1 + 1e-12),
        math.comb(x.shape[1], 2),
    )


@p()
def a17(x):
    l = []
    with cm(l, 1) as a, contextlib.suppress(KeyError), T.no_grad():
        with cm(l, 2) as b:
            y = x * a * b
            raise KeyError
    return y, l, T.is_grad_enabled()


@p()
def a18(x):
    out = []
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            out.append(x * i)
            {}[i] if i == 2 else None
        except KeyError as e:
            out.append(e.args[0])
        else:
            out.append("else")
        finally:
            out.append("fin")
    else:
        out.append("never")
    return out


@p()
def a19(x):
    try:
        try:
            raise ValueError("a")
        except ValueError as e:
            raise TypeError("b") from e
    except (TypeError, KeyError) as e:
        c = e.__cause__
    return x * 2, str(c), type(c).__name__


@p()
def a20(x):
    match {"op": "mul", "args": [2, 3, 4], "t": x}:
        case {"op": "add"}:
            return x
        case {"op": "mul" | "div" as o, "args": [a, *r], "t": T.Tensor() as t} if a < 3:
            return t * a + sum(r), o


@p()
def a21(x):
    match Pt(x, (1, [2, Base(4)])):
        case Pt(y=(1, [n, Base(k=k)])):
            return x * n * k


@p()
def a22(x):
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    def ack(t, d):
        return t if d == 0 else ack(t * 2, d - 1)

    return x * fib(8), ack(x, 20)


@p()
def a24(x):
    s = {1, 2} | {3}
    s -= {2}
    t = frozenset(s) & {3, 4}
    d = dict(zip("ab", x, strict=False))
    d |= {"c": x[0] * 2}
    k, v = d.popitem()
    return sum(d.values()), sorted(s), t, k, v, d.setdefault("z", x[1]), [*d]


@p()
def a26(x):
    return (
        x[..., 1:],
        x[:, None, [0, 2]],
        x[slice(None, 1)],
        x[-1, ::2],
        x[x.shape[0] - 1],
        x[T.tensor([1, 0])][:, range(2)] if False else x[:, :2],
    )


@p()
def a27(x):
    assert x.ndim == 2, "bad"
    if not isinstance(x, (int, T.Tensor)):
        return None
    if hasattr(x, "foo") or getattr(x, "bar", None) is not None:
        return 1
    return x.sum(dim=0) if callable(x.sum) else x


@p()
def a28(x):
    class S:
        __slots__ = ("v",)

        def __init__(s, v):
            s.v = v

        def __iadd__(s, o):
            s.v = s.v + o
            return s

    s = S(x)
    s += 1
    s += x
    return s.v


@p()
def a29(x):
    def deco(n):
        def d(f):
            @functools.wraps(f)
            def w(*a, **k):
                return f(*a, **k) * n

            return w

        return d

    @deco(2)
    @deco(3)
    def f(v, *, b):
        return v + b

    return f(x, b=1), f.__name__


@p()
def a31(x):
    return (
        operator.itemgetter(1)(x) + operator.attrgetter("T")(x).sum() + operator.methodcaller("mean", dim=0)(x),
        list(itertools.chain.from_iterable([x, x]))[3],
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        [*itertools.pairwise(range(3))],
        x * next(itertools.islice(itertools.cycle([5, 6]), 1, 2)),
    )


@p()
def a32(x):
    y = x
    while y.shape[0] < 10:
        y = T.cat([y, y])
    i = 0
    while True:
        i += 1
        if i % 2:
            continue
        if i > 4:
            break
        y = y + i
    return y


@p()
def a33(x):
    a = b = c = x
    a = a + 1
    (p, q), r = (a, b), c
    p, q = q, p
    z = (w := x * 2) + w
    return p - q + r, z, x if 0 < 1 < 2 != 3 else w


G = {"n": 0}
L = []


@p()
def a35(x):
    r = []
    for k, (a, b) in enumerate(zip(x.unbind(0), reversed(x.unbind(0)), strict=False)):
        r.append(a * k - b)
    return T.stack(r).sum(), [t.shape for t in x.split(1)], x.T.tolist.__name__


@p()
def a36(x):
    e = None
    try:
        raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
    except* ValueError as g:
        e = len(g.exceptions)
    except* TypeError as g:
        e = (e, len(g.exceptions))
    return x, e


@pytest.mark.parametrize("f, args", P, ids=[f.__name__ for f, _ in P])
def test_one_graph(f, args):
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        want, got = tree(f(*copy.deepcopy(args))), tree(c(*copy.deepcopy(args)))
        assert got == want
    s = T.compiler.stats()
    assert s["compiles"] == 1 and s["graph_breaks"] == 0 and s["plain_frames"] == 0, s["break_reasons"]
