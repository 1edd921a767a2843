"""Calls: closures, defaults, methods, properties, super, classes, partial, callbacks, decorators."""

import dataclasses
import enum
import functools
import math
import operator

import numpy as np
from helpers import check

import fusegrad as T

x, y = T.arange(3.0), T.ones(3) * 2
SCALE = 2.0


class Mode(enum.Enum):
    ADD = 1
    MUL = "m"


@dataclasses.dataclass
class Pair:
    a: object
    b: object = 3
    tags: list = dataclasses.field(default_factory=list)

    def total(self):
        return self.a + self.b


class Base:
    factor = 2

    def __init__(self, k):
        self.k = k
        self._cache = None

    def run(self, x):
        return x * self.k

    @property
    def double(self):
        return self.k * 2

    @double.setter
    def double(self, v):
        self.k = v / 2

    @classmethod
    def make(cls, k):
        return cls(k + 1)

    @staticmethod
    def shift(x):
        return x + 1

    def __call__(self, x):
        return self.run(x) + 1

    def __getitem__(self, i):
        return i * self.k

    def __len__(self):
        return 3

    def __contains__(self, v):
        return v == self.k

    def __add__(self, o):
        return self.k + (o.k if isinstance(o, Base) else o)

    __radd__ = __add__

    def __eq__(self, o):
        return isinstance(o, Base) and o.k == self.k

    def __hash__(self):
        return 7


class Child(Base):
    factor = 5

    def run(self, x):
        return super().run(x) * self.factor

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return len(name)
        raise AttributeError(name)


class Slotted:
    __slots__ = ("p", "q")

    def __init__(self, p, q):
        self.p, self.q = p, q


def test_closures_and_nonlocal():
    def f(x):
        n = 0
        acc = []

        def add(v, scale=SCALE):
            nonlocal n
            n += 1
            acc.append(v * scale)
            return n

        add(x)
        add(x, 3)
        g = lambda v: v + n  # noqa: E731
        return g(x), n, acc, [h(x) for h in (g, lambda v: v * n)]

    check(f, (x,), breaks=0)


def test_functions_returned():
    def f(x):
        k = 3
        z = x * 2

        def g(v, w=k):
            return v * w + z

        return g, functools.partial(g, w=5)

    c = T.compile(f)
    for _ in range(2):
        g, p = c(x)
        assert g(y).tolist() == f(x)[0](y).tolist() and p(y).tolist() == f(x)[1](y).tolist()
        assert g.__name__ == "g" and g.__closure__ is not None


def test_outer_nonlocal_is_an_effect():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        return x * count

    c = T.compile(f)
    assert [c(x)[1].item() for _ in range(4)] == [1, 2, 3, 4] and count == 4


def test_globals_are_effects():
    def f(x):
        global SCALE
        SCALE = SCALE + 1
        return x * SCALE

    c = T.compile(f)
    global SCALE
    SCALE = 2.0
    assert [c(x)[1].item() for _ in range(3)] == [3, 4, 5] and SCALE == 5
    SCALE = 2.0


def test_methods_properties_super():
    def f(x, b):
        c = Child(4)
        b.double = 10
        b.extra = x * 2
        return (
            b.run(x),
            b.double,
            c.run(x),
            c(x),
            Child.make(2).k,
            b.shift(x),
            c.dyn_abc,
            b[2],
            len(c),
            4 in c,
            5 in c,
            b + 1,
            1 + b,
            b + c,
            b == c,
            c == Child(4),
            b.extra,
            type(c).factor,
            c.factor,
            isinstance(c, Base),
            hasattr(c, "nope"),
            getattr(c, "zzz", 1),
            bool(c),
        )

    check(f, (x, Base(3)), (y, Child(1)), breaks=0)


def test_objects_made_inside_escape():
    def f(x):
        c = Child(x * 2)
        c._cache = [c.k, c]
        s = Slotted(x, 1)
        p = Pair(x, tags=[1])
        p.tags.append(x + 1)
        return c.k, s.p, s, p, p.total(), dataclasses.replace(p, b=4).b, p == p

    c = T.compile(f)
    for _ in range(2):
        k, sp, s, p, t, b, eq = c(x)
        assert s.p is sp and s.q == 1 and type(p) is Pair and b == 4 and eq
        assert t.tolist() == (x + 3).tolist() and p.tags[1].tolist() == (x + 1).tolist()

    def g(x):
        c = Child(x * 2)
        c.me = c
        return c

    o = T.compile(g)(x)
    assert o.me is o and o.k.tolist() == [0, 2, 4]


def test_attributes_are_effects_in_order():
    def f(x, b):
        b.k = x * 2
        b.k = b.k + 1
        b.n = 1
        del b._cache
        b.n += 1
        return b.k

    check(f, (x, Base(3)), breaks=0)

    def g(s, x):
        s.p = x
        s.q += 1
        return s.p

    c = T.compile(g)
    s = Slotted(1, 2)
    c(s, x), c(s, x)
    assert s.p is x and s.q == 4


def test_enum_and_match_on_it():
    def f(x, m):
        return x * 2 if m is Mode.MUL else x + (m.value if m == Mode.ADD else 0)

    check(f, (x, Mode.ADD), (x, Mode.MUL), breaks=0)


def test_partial_operator_math():
    def f(x, k):
        p = functools.partial(T.mul, x)
        return (
            p(2),
            operator.add(x, 1),
            math.sqrt(k),
            math.floor(k * 1.5),
            functools.reduce(lambda a, b: a + b, [x, x, y]),
            max(k, 2),
            round(k / 3, 2),
            divmod(k, 2),
            "%d" % k,  # noqa: UP031
            f"{k:>4}|{k!r}",
            f"a{k}b",
            " ".join(map(str, [k, 1])),
        )

    check(f, (x, 4), (x, 9), breaks=0)


def test_decorators():
    def deco(times):
        def wrap(fn):
            @functools.wraps(fn)
            def inner(*a, **k):
                out = fn(*a, **k)
                for _ in range(times):
                    out = out + 1
                return out

            return inner

        return wrap

    @deco(2)
    def g(x, k=1):
        return x * k

    def f(x):
        @deco(1)
        def h(v):
            return v * 3

        return g(x), g(x, k=4), h(x), h.__name__

    check(f, (x,), breaks=0)


def test_argument_errors():
    def g(a, b, *, c=1):
        return a

    def f(x, k):
        try:
            if k == 0:
                return g(x)
            if k == 1:
                return g(x, 1, 2)
            if k == 2:
                return g(x, b=1, d=2)
            return g(x, 1, c=2)
        except TypeError as e:
            return str(e).split(".")[-1]

    check(f, *((x, k) for k in range(4)), breaks=0)


def test_compile_on_everything():
    class A:
        def __init__(self):
            self.k = 3

        @T.compile
        def m(self, x):
            return x * self.k

        @classmethod
        @T.compile
        def c(cls, x):
            return x + 1

        @staticmethod
        @T.compile
        def s(x):
            return x + 2

        def __call__(self, x):
            return x * self.k

    a = A()
    assert a.m(x).tolist() == [0, 3, 6] and A.c(x).tolist() == [1, 2, 3] and a.s(x).tolist() == [2, 3, 4]
    assert T.compile(a)(x).tolist() == [0, 3, 6] and T.compile(a.__call__)(x).tolist() == [0, 3, 6]
    assert T.compile(functools.partial(T.mul, x))(y).tolist() == [0, 2, 4]
    assert T.compile(T.relu)(-x).tolist() == [0, 0, 0]
    f = T.compile(dynamic=True)(lambda x: x * 2)
    assert f(x).tolist() == [0, 2, 4]

    def named(a, b=2):
        """Doc."""
        return a * b

    c = T.compile(named)
    import inspect

    assert (
        c.__name__ == "named"
        and c.__doc__ == "Doc."
        and inspect.signature(c) == inspect.signature(named)
        and c(x).tolist() == [0, 2, 4]
    )


def test_compiled_calls_compiled_and_disabled():
    g = T.compile(lambda v: v * 2)

    @T.compiler.disable
    def h(v):
        assert not T.compiler.is_compiling()
        return v.numpy() + 1

    def f(x):
        a = g(x) + 1
        b = T.from_numpy(h(a.detach()))
        return a, b * 2

    c = T.compile(f)
    assert [v.tolist() for v in c(x)] == [v.tolist() for v in f(x)]


def test_function_arguments():
    def f(x, fn):
        return fn(x) + 1

    c = T.compile(f)
    for k in (1.0, 2.0, 3.0, 4.0):
        assert c(x, lambda v, k=k: v * k).tolist() == (x * k + 1).tolist()
        assert c(x, T.relu).tolist() == (x + 1).tolist()


def test_numpy_scalars_and_constants():
    def f(x):
        return x * np.float32(2) + np.pi + T.tensor([1.0, 2.0, 3.0]) + T.full((3,), 2.0), T.zeros(2), T.tensor(3)

    check(f, (x,), plain=0)
    c = T.compile(f)
    a, b = c(x)[1], c(x)[1]
    a += 1
    assert b.tolist() == [0, 0]
    t1, t2 = (T.compile(lambda: T.tensor([1.0, 2.0]))() for _ in range(2))
    t1 += 1
    assert t2.tolist() == [1, 2]


def test_attributes_of_functions_are_counted_up():
    def helper(x):
        helper.calls += 1
        helper.last = x
        return x * helper.calls

    def counted(fn):
        @functools.wraps(fn)
        def call(*args):
            call.n = getattr(call, "n", 0) + 1
            return fn(*args) * call.n

        return call

    @counted
    def other(x):
        return x + 1

    def f(x):
        return helper(x) + other(x), other.n, hasattr(helper, "none")

    outcomes = []
    for g in (f, T.compile(f)):
        helper.calls, other.__dict__["n"] = 0, 0
        T.compiler.reset()
        outcomes.append([str((g(T.ones(2)), helper.calls, helper.last)) for _ in range(4)])
        helper.calls = 10
        outcomes[-1].append(str(g(T.ones(2))))
    assert outcomes[0] == outcomes[1]
    stats = T.compiler.stats()
    assert stats["graph_breaks"] == 0 and stats["compiles"] <= 3


def test_errors_of_binding_count_the_arguments_as_python_does():
    def helper(x, y=1, *, k=1):
        print(end="")
        return x + y + k

    def f(x, *args, **kw):
        return helper(x, *args, **kw)

    compiled = T.compile(f)
    for args, kw in (((1,), {"k": 2}), ((1, 2), {}), ((1, 2), {"k": 1}), ((), {"z": 1}), ((), {"x": 1})):
        outcomes = []
        for g in (f, compiled):
            try:
                outcomes.append(str(g(T.ones(1), *args, **kw)))
            except TypeError as e:
                outcomes.append(str(e))
        assert outcomes[0] == outcomes[1]
