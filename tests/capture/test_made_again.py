"""Classes, modules and functions that a compiled function makes at every call and that outlive a graph break: guarded
by structure, so that calls do not recompile; and never stale."""

import abc
import collections
import dataclasses
import functools

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn

X = T.arange(3.0) + 1


def simple(x):
    class P:
        k = 2

        def __init__(self, v):
            self.v = v

        def get(self):
            return self.v * self.k

        @property
        def twice(self):
            return self.v * 2

        @staticmethod
        def s(v):
            return v + 1

        @classmethod
        def make(cls, v):
            return cls(v * 3)

    p = P(x)
    print(end="")
    return p.get() + P(x * 2).get() + p.twice + P.s(x) + P.make(x).v, isinstance(p, P), type(p).__name__


def closes_over(x):
    n = [x.shape[0]]

    class P:
        def get(self, w=n):
            n[0] += 1
            return x * n[0] + len(w)

    p = P()
    print(end="")
    a = p.get()
    print(end="")
    return a + p.get() + P().get(), n


def data_class(x):
    @dataclasses.dataclass
    class D:
        a: T.Tensor
        b: int = 2
        c: list = dataclasses.field(default_factory=list)

        def s(self):
            return self.a * self.b + x

    d = D(x)
    print(end="")
    e = D(x * 2, b=3)
    e.c.append(1)
    return d.s() + e.s(), len(e.c) + len(d.c)


def named_tuple(x):
    N = collections.namedtuple("N", "a b")
    n = N(x, 2)
    print(end="")
    return n.a * n.b + N(x, 1).a + n._replace(b=5).b, tuple(n._fields)


def bases(x):
    class A:
        def f(self, v):
            return v * 2

    class B(A):
        def f(self, v):
            return super().f(v) + 1

    b = B()
    print(end="")
    return b.f(x), isinstance(b, A), issubclass(B, A)


class Outside:
    factor = 3.0

    def g(self, v):
        return v * self.factor


def base_from_outside(x):
    class B(Outside):
        def f(self, v):
            return self.g(v) + self.factor

    b = B()
    print(end="")
    return b.f(x) + B().g(x)


def abstract(x):
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self, v): ...

    class B(A):
        def f(self, v):
            return v * 2

    b = B()
    print(end="")
    return b.f(x), isinstance(b, A)


def layer(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        def forward(self, v):
            return self.l(v).relu()

    net = Net()
    for p in net.parameters():
        p.data.fill_(0.5)
    y = net(x)
    print(end="")
    return net(x) + y


def modules(x):
    net = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 2))
    for p in net.parameters():
        p.data.fill_(0.5)
    y = net(x)
    print(end="")
    return net(x) + y


def training(x):
    net = nn.Linear(3, 2)
    with T.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    opt = T.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        opt.zero_grad()
        net(x).sum().backward()
        opt.step()
        print(end="")
    return net(x).detach()


def functions(x):
    k = [0]

    def deco(fn):
        @functools.wraps(fn)
        def w(*a):
            return fn(*a) * 2

        return w

    @deco
    def h(a):
        k[0] += 1
        return a * k[0] + x

    y = h(x)
    print(end="")
    z = functools.partial(h, y)
    print(end="")
    return z() + h(y)


def exceptions(x):
    class Odd(ValueError):
        def __init__(self, n):
            super().__init__(n)
            self.n = n

    try:
        print(end="")
        raise Odd(3)
    except Odd as e:
        return x * e.n


MADE = [simple, closes_over, data_class, named_tuple, bases, base_from_outside, abstract, layer, modules, training,
        functions, exceptions]  # fmt: skip


@pytest.mark.parametrize("f", MADE, ids=lambda f: f.__name__)
def test_settles(f):
    T.compiler.reset()
    c = T.compile(f)
    counts = []
    for _ in range(7):
        T.manual_seed(0)
        want = f(X)
        T.manual_seed(0)
        assert tree(c(X)) == tree(want)
        counts.append(T.compiler.stats()["compiles"])
    s = T.compiler.stats()
    assert counts[-1] == counts[3], s["recompile_reasons"]
    assert not any("FG015" in b or "FG014" in b for b in s["break_reasons"]), s["break_reasons"]


def parts(x, make):
    cls = make()
    print(end="")
    return cls().f(x), cls.k


def _variant(factor, k, base=object, more=False):
    def make():
        if more:

            class C(base):
                def f(self, x):
                    return x * factor + 1
        else:

            class C(base):
                def f(self, x):
                    return x * factor

        C.k = k
        C.__qualname__ = "C"
        return C

    return make


class Base:
    def f(self, x):
        return x * 100


@pytest.mark.filterwarnings("ignore:.*compiled 8 times")
def test_what_differs_is_seen():
    """Alike in name, but with another closure, constant, code or base."""
    T.compiler.reset()
    c = T.compile(parts)
    w = T.tensor([1.0, 2.0, 4.0])
    for make in (_variant(2, 1), _variant(2, 1), _variant(3, 1), _variant(w, 1), _variant(w * 2, 1), _variant(2, "a"),
                 _variant(2, None), _variant(5, 1, more=True), _variant(6, 1, Base), _variant(7, [1]),
                 _variant(8, [2])):  # fmt: skip
        for _ in range(2):
            assert tree(c(X, make)) == tree(parts(X, make))


def test_a_method_added_to_the_base():
    T.compiler.reset()
    c = T.compile(base_from_outside)
    try:
        for _ in range(4):
            assert tree(c(X)) == tree(base_from_outside(X))
        Outside.factor = 7.0
        assert tree(c(X)) == tree(base_from_outside(X))
        Outside.__init__ = lambda self: setattr(self, "factor", 11.0)
        assert tree(c(X)) == tree(base_from_outside(X))
        Outside.g = lambda self, v: v - 1
        assert tree(c(X)) == tree(base_from_outside(X))
        Outside.__getattribute__ = lambda self, n: 1.5 if n == "factor" else object.__getattribute__(self, n)
        assert tree(c(X)) == tree(base_from_outside(X))
    finally:
        Outside.factor = 3.0
        for name in ("__init__", "__getattribute__"):
            if name in vars(Outside):
                delattr(Outside, name)
        Outside.g = lambda self, v: v * self.factor


def test_parameters_that_become_one():
    """A module made anew whose weights are tied in a later call."""

    def f(x, tied):
        net = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        for p in net.parameters():
            p.data.fill_(0.5)
        if tied:
            net[1].weight = net[0].weight
        print(end="")
        opt = [p for p in net.parameters()]
        return net(x).sum().detach(), len(opt)

    c = T.compile(f)
    for tied in (0, 0, 0, 0, 1, 1, 0):
        assert tree(c(X, bool(tied))) == tree(f(X, bool(tied)))
