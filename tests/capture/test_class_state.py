"""Class attributes that compiled code sets, and metaclasses."""

import abc

import pytest
from helpers import check, tree

import fusegrad as T
from fusegrad import nn


def run(make, *calls, breaks=0, compiles=None, graphs=None):
    """``make()`` gives (function, classes); results and the classes' attributes are those of plain Python."""
    T.compiler.reset()
    plain, a = make()
    f, b = make()
    c = T.compile(f)
    for args in calls:
        assert tree(plain(*args)) == tree(c(*args))
        for p, q in zip(a, b, strict=True):
            assert shown(p) == shown(q)
    s = T.compiler.stats()
    if breaks is not None:
        assert s["graph_breaks"] == breaks and s["plain_frames"] == 0, s["break_reasons"]
    if compiles is not None:
        assert s["compiles"] <= compiles, s["recompile_reasons"]


def shown(cls):
    return [(k, tree(v)) for k, v in vars(cls).items() if not k.startswith("__") and not callable(v)]


X = T.arange(3.0)


def counter():
    class C:
        count = 0
        last = None

    def f(x):
        C.count += 1
        C.last = x * C.count
        return C.last + C.count

    return f, [C]


def by_instance():
    class Base:
        seen = 0
        names = ("a",)

        def __init__(self, v):
            type(self).seen += 1
            self.v = v * self.seen

    class Sub(Base):
        pass

    def f(x):
        a, b, s = Base(x), Base(x), Sub(x)
        Sub.names = (*Base.names, f"n{Sub.seen}")
        return a.v + b.v + s.v, a.seen, s.seen, s.names, hasattr(Base, "more")

    return f, [Base, Sub]


def class_method():
    class C:
        total = 0.0
        __slots__ = ()

        @classmethod
        def add(cls, v):
            cls.total = cls.total + v
            return cls.total

    def f(x, n):
        C.add(n)
        return x * C.add(1.0)

    return f, [C]


def hidden_by_instances():
    class C:
        k = 1

    def f(x):
        a, b = C(), C()
        a.k = 5
        C.k = C.k + 1
        C.new = 7
        return x * a.k + b.k, a.new, b.k, C().new

    return f, [C]


def in_forward():
    class Net(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(T.ones(3))

        def forward(self, x):
            Net.calls += 1
            type(self).calls += 1
            return self.w * x * self.calls

    net = Net()
    return lambda x: net(x).sum(), [Net]


def with_setattr():
    class C:
        pass

    def f(x):
        setattr(C, "p", 3)  # noqa: B010
        setattr(C, f"q{x.shape[0]}", C.p + 1)
        return x * C.p + C.q3, getattr(C, "q3", None)

    return f, [C]


def overlaid_super():
    class A:
        k = 2

    class B(A):
        k = 3

        def read(self):
            A.k = A.k + 1
            return super().k, self.k

    def f(x):
        return x * B().read()[0], B().read()

    return f, [A, B]


@pytest.mark.parametrize("make, calls, compiles", [
    (counter, [(X,)] * 5, 2), (by_instance, [(X,)] * 2, None), (class_method, [(X, 1.0), (X, 2.0), (X, 3.5)], 2),
    (hidden_by_instances, [(X,)] * 4, 2), (in_forward, [(X,)] * 5, 2), (with_setattr, [(X,)] * 3, 2),
    (overlaid_super, [(X,)] * 4, 2),
])  # fmt: skip
def test_set_in_one_graph(make, calls, compiles):
    run(make, *calls, compiles=compiles)


def breaks_between():
    class C:
        n = 0

    def f(x):
        C.n += 1
        y = x * C.n
        print(end="")
        C.n += 10
        return y + C.n

    return f, [C]


def given_back():
    class C:
        hook = None

        def m(self):
            return 1

    def f(x):
        C.hook = lambda self, v: v * 2
        return C().hook(x)

    return f, [C]


def a_method_replaced():
    class C:
        def m(self):
            return 1

    def f(x):
        before = C().m()
        C.m = lambda self: 2
        return x * C().m(), before

    return f, [C]


def raised_after():
    class C:
        n = 0

    def f(x):
        C.n += 1
        try:
            raise ValueError(C.n)
        except ValueError as e:
            return x * e.args[0]

    return f, [C]


@pytest.mark.parametrize("make", [breaks_between, given_back, a_method_replaced, raised_after])
def test_set_for_real_around_breaks(make):
    run(make, *[(X,)] * 4, breaks=None)


def test_changed_outside_between_calls():
    class C:
        k = 1

    def f(x):
        C.k += 1
        return x * C.k

    c = T.compile(f)
    for k in (1, 1, 5, 7, -3):
        C.k = k
        assert c(T.ones(1)).item() == k + 1 == C.k
    C.k = 1.5
    assert c(T.ones(1)).item() == 2.5 == C.k
    del C.k
    with pytest.raises(AttributeError):
        c(T.ones(1))


class Tagged(type):
    made = 0

    def __call__(cls, *args, **kwargs):
        out = super().__call__(*args, **kwargs)
        out.tag = cls.weight
        return out

    @property
    def weight(cls):
        return 3 + cls.extra

    def scale(cls, x):
        return x * cls.weight


class Thing(metaclass=Tagged):
    extra = 1

    def __init__(self, v):
        self.v = v


class Singleton(type):
    _instances: dict = {}

    def __call__(cls, *args):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args)
        return cls._instances[cls]


class Config(metaclass=Singleton):
    def __init__(self, k=2):
        self.k = k


class Guarded(type):
    log: list = []

    def __setattr__(cls, name, value):
        cls.log.append(name)
        super().__setattr__(name, value * 2)


class Watched(metaclass=Guarded):
    k = 1


class Registry(abc.ABCMeta):
    def __len__(cls):
        return 4


class Listed(metaclass=Registry):
    pass


def test_metaclass_call_and_property():
    def f(x):
        t = Thing(x)
        return t.v * t.tag, Thing.scale(x), Thing.weight

    check(f, (X,), breaks=0, compiles=1)


def test_singleton():
    def f(x):
        a, b = Config(3), Config()
        return x * a.k, a is b

    Singleton._instances.clear()
    want = f(X)
    c = T.compile(f)
    for _ in range(3):
        Singleton._instances.clear()
        got = c(X)
        assert tree(got) == tree(want) and Singleton._instances[Config].k == 3
    assert c(X)[1] is True


def test_metaclass_with_a_setattr_of_its_own():
    def f(x):
        Watched.k = Watched.k + 1
        return x * Watched.k

    found = []
    for g in (f, T.compile(f)):
        Guarded.log.clear()
        type.__setattr__(Watched, "k", 1)
        found.append(([g(X).tolist() for _ in range(3)], list(Guarded.log), Watched.k))
    assert found[0] == found[1]


def test_metaclass_changed_between_calls():
    class Meta(type):
        def __call__(cls, v):
            return super().__call__(v * 2)

        def name_of(cls):
            return 1

    class C(metaclass=Meta):
        def __init__(self, v):
            self.v = v

    def f(x):
        return C(x).v + C.name_of()

    c = T.compile(f)
    assert c(T.ones(1)).item() == 3
    Meta.__call__ = lambda cls, v: type.__call__(cls, v * 5)
    assert c(T.ones(1)).item() == 6
    Meta.name_of = lambda cls: 10
    assert c(T.ones(1)).item() == 15
    del Meta.__call__
    assert c(T.ones(1)).item() == 11


def test_length_of_a_class():
    def f(x):
        return x * len(Listed)

    check(f, (X,), plain=None)
