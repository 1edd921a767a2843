"""Classes, attributes and operators of the user's in captured code, compared with the plain function."""

import enum
import functools
import types
from typing import Any

import pytest
from helpers import X, compare

import fusegrad as T

# ---- classes


class Base:
    def __init__(self, k):
        self.k = k

    def f(self, x):
        return x * self.k

    @classmethod
    def make(cls, k):
        return cls(k)

    @property
    def p(self):
        return self.k * 2


class Derived(Base):
    def f(self, x):
        inner = lambda: super(Derived, self).f(x)  # noqa: E731
        return super().f(x) + inner()

    @classmethod
    def make(cls, k):
        return super().make(k + 1)

    @property
    def p(self):
        return super().p + 1

    def name(self):
        return __class__.__name__

    def many(self, x):
        return [super(Derived, self).f(x) for _ in range(2)]


DERIVED = Derived(3)


def test_super():
    def f(x):
        return [(d.f(x), d.p, d.name(), d.many(x)) for d in (Derived.make(2), DERIVED)]

    assert compare(f)["graph_breaks"] == 0


class Doubling:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, kind=None):
        return self if obj is None else getattr(obj, self.name, 0)

    def __set__(self, obj, value):
        setattr(obj, self.name, value * 2)


class NonData:
    def __get__(self, obj, kind=None):
        return lambda x: x * 3


class WithDescriptors:
    d = Doubling()
    n = NonData()


class Anything:
    def __init__(self):
        object.__setattr__(self, "store", {})

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.store.get(name, 7)

    def __setattr__(self, name, value):
        self.store[name] = value

    def __delattr__(self, name):
        del self.store[name]


class Watched:
    def __init__(self):
        self.v = 2

    def __getattribute__(self, name):
        return 5 if name == "w" else object.__getattribute__(self, name)


class Meta(type):
    def __call__(cls, *args):
        made = super().__call__(*args)
        made.tag = cls.__name__
        return made

    @property
    def four(cls):
        return 4

    def __len__(cls):
        return 9

    def __getitem__(cls, k):
        return k * 2

    def __iter__(cls):
        return iter([1, 2])


class WithMeta(metaclass=Meta):
    def __init__(self, k):
        self.k = k


class Slots:
    __slots__ = ("a", "b", "__weakref__")

    def __init__(self, a):
        self.a = a


HELD: Any = types.SimpleNamespace(d=WithDescriptors(), a=Anything(), w=Watched(), s=Slots(5))


def test_attributes():
    def f(x):
        h, g, w = WithDescriptors(), Anything(), Watched()
        h.d, HELD.d.d, g.a, HELD.a.q = 3, 4, 2, 3
        y = x * h.d * HELD.d.d * g.a * g.other * HELD.a.q * w.w * w.v * HELD.w.w
        del g.a, HELD.a.q
        return y, h.n(x), HELD.d.n(x), vars(h), vars(HELD.d), g.store, HELD.a.store, hasattr(g, "foo")

    compare(f)


def test_metaclass():
    def f(x):
        o = WithMeta(3)
        return x * o.k, o.tag, WithMeta.four, len(WithMeta), WithMeta[3], list(WithMeta)

    compare(f)


def test_slots():
    def f(x):
        s, t = Slots(2), HELD.s
        s.b = 3
        t.b = 6
        y = x * s.a * s.b * t.a * t.b
        del s.b, t.b
        return y, hasattr(s, "b"), hasattr(t, "b"), hasattr(t, "a")

    compare(f)


class Number:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return Number(self.v + (other.v if isinstance(other, Number) else other))

    __radd__ = __add__

    def __iadd__(self, other):
        self.v = self.v + other
        return self

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Number(self.v * other)

    def __matmul__(self, other):
        return self.v + 100

    def __rmatmul__(self, other):
        return self.v + 200

    def __neg__(self):
        return Number(-self.v)

    def __eq__(self, other):
        return isinstance(other, Number)

    def __lt__(self, other):
        return "lt"

    def __gt__(self, other):
        return "gt"

    def __getitem__(self, k):
        return self.v[k]

    def __contains__(self, k):
        return k == 3

    def __len__(self):
        return 3

    def __bool__(self):
        return False

    def __call__(self, a):
        return self.v * a

    def __iter__(self):
        yield self.v
        yield self.v * 2

    def __index__(self):
        return 2

    def __hash__(self):
        return 5

    def __divmod__(self, other):
        return 1, 2

    def __format__(self, spec):
        return "F" + spec

    def __reversed__(self):
        return iter([self.v])


class Integer(int):
    """`!=` is int's own, whatever `__eq__` says."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("where", ["made inside", "from before"])
def test_operators_of_users(where):
    outside = Number(T.tensor(X))

    def f(x):
        a = Number(x) if where == "made inside" else outside
        out = [(a + 1).v, (1 + a).v, (a * 2).v, (-a).v, a == Number(1), a != 3, a < 3, 3 < a, a > 3, a[0], 3 in a]
        out += [len(a), bool(a), a(2), list(a), [1, 2, 3][a], {a: 1}[Number(2)], a @ 1, 1 @ a, x @ a, divmod(a, 1)]
        out += [f"{a:>3}", list(reversed(a)), Integer(3) != 4, Integer(3) != 3, Integer(3) == 4]
        b = a
        b += 1
        b.v = b.v - 1
        try:
            a * "s"
        except TypeError as e:
            out.append(str(e))
        return out

    compare(f)


class Access(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


class Methods:
    def __init__(self):
        self.k = 2

    @functools.singledispatchmethod
    def kind(self, a, x=1):
        return x * self.k

    @kind.register
    def _(self, a: int, x=1):
        return x + a

    @kind.register(str)
    def _text(self, a, x=1):
        return x - len(a)

    def two(self, a, b=3, *, c=4):
        return a * b + c * self.k

    seven = functools.partialmethod(two, b=7)


def test_methods_that_functools_makes_and_flags_are_captured():
    def f(o, a, x, flag):
        late = o.seven
        return (
            o.kind(a, x),
            o.kind(a, x=x),
            o.seven(x),
            late(x, c=1),
            ~flag,
            flag | Access.RUN,
            bool(flag & Access.READ),
        )

    outcomes = []
    for g in (f, T.compile(f)):
        T.compiler.reset()
        o, out = Methods(), []
        for a, flag in ((1, Access.READ), ("ab", Access.WRITE), (2.5, Access.READ | Access.RUN), (2, Access(0))):
            out.append(str(g(o, a, T.ones(2), flag)))
        o.k = 5
        out.append(str(g(o, 2.5, T.ones(2), flag)))
        outcomes.append(out)
    assert outcomes[0] == outcomes[1]
    assert T.compiler.stats()["graph_breaks"] == T.compiler.stats()["plain_frames"] == 0
