"""Class statements inside of compiled code: evaluated, a part of the capture; made for real where the class or an
object of it outlives it."""

import abc
import collections
import dataclasses
import enum

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn


def everything(x):
    n = 3

    class A:
        "doc"

        k: int = 2
        z = k * n
        t = x * 2

        def __init__(self, a):
            self.a = a

        def f(self, y):
            return y * self.k * self.a + self.t

        @staticmethod
        def s(y):
            return y + 1

        @classmethod
        def c(cls):
            return cls(5)

        @property
        def p(self):
            return self.a * x

        @p.setter
        def p(self, v):
            self.a = v

        def name(self):
            return __class__.__name__

    class B(A):
        def f(self, y):
            return super().f(y) * 10

        def __add__(self, other):
            return self.a + other

    b, a = B(2), A(3)
    b.p = 4
    names = B.__name__, A.__doc__, A.__annotations__, [c.__name__ for c in B.__mro__], b.name()
    return b.f(x), a.f(x), A.s(x), B.c().f(x), a.p, b + 1, isinstance(b, A), issubclass(B, A), A.z, A.t, names


def data_class(x):
    @dataclasses.dataclass
    class P:
        a: int
        b: float = 3.0
        c: list = dataclasses.field(default_factory=list)

        def scaled(self, y):
            return y * self.a * self.b

    p, q = P(2), P(2)
    q.c.append(x)
    return p.scaled(x), p == P(2), p == P(3), len(q.c), [f.name for f in dataclasses.fields(P)]


def layer(x):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 2)

        def forward(self, x):
            return self.l(x).relu()

    return Net()(x)


def error(x):
    class E(ValueError):
        code = 3

    try:
        raise E("a")
    except E as e:
        return x * e.code, str(e)


def abstract(x):
    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    class C(Base):
        def f(self):
            return 2

    try:
        Base()
    except TypeError as e:
        return x * C().f(), type(e)


def body_with_statements(x):
    kept = x

    class A:
        x = 5
        x = x + 1
        del x

        def g(self):
            return kept

        try:
            missing  # noqa: B018, F821
        except NameError as e:
            q = str(e)
        for i in range(3):
            w = i

    return A().g() * A.w, hasattr(A, "x"), A.q


def containers(x):
    class L(list):
        def total(self):
            return sum(self)

    class D(dict):
        def __missing__(self, k):
            return k * 2

    values = L([x, x * 2])
    values.append(x)
    return values.total(), len(values), D(a=1)["a"], D()[4], type(values).__name__


def manager(x):
    class M:
        def __enter__(self):
            return x

        def __exit__(self, kind, value, tb):
            return kind is KeyError

    with M() as y:
        z = y * 2
        raise KeyError
    return z


def attribute_set(x):
    class A:
        v = 3

    A.v = 4
    A.f = lambda self, y: y * self.v
    return x * A.v + A().f(x)


def function(x):
    class F(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = x.clone().requires_grad_()
    F.apply(y).sum().backward()
    return y.grad


INSIDE = [everything, data_class, layer, error, abstract, body_with_statements, containers, manager, attribute_set,
          function]  # fmt: skip


def compare(f, c):
    seen = []
    for g in (f, c):
        T.manual_seed(0)
        seen.append(tree(g(T.tensor([1.0, -2.0, 3.0]))))
    assert seen[1] == seen[0]


@pytest.mark.parametrize("f", INSIDE, ids=lambda f: f.__name__)
def test_in_the_graph(f):
    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    for _ in range(3):
        compare(f, c)
    assert T.compiler.stats()["compiles"] == 1


def lives_over_a_break(x):
    class A:
        def __init__(self):
            self.v = x * 2

    a = A()
    print(end="")
    return a.v + 1, type(a).__name__


def breaks_in_the_body(x):
    class A:
        y = x.sum().item()

    return x * A.y


def slots(x):
    class S:
        __slots__ = ("a",)

    s = S()
    s.a = x * 2
    return s.a + 1, hasattr(s, "__dict__")


def enumeration(x):
    class E(enum.Enum):
        A = 1

    return x * E.A.value, E(1).name


def named_tuple(x):
    class C(collections.namedtuple("N", "a b")):  # noqa: PYI024
        def total(self):
            return self.a + self.b

    return C(x, 2).total()


def asks_for_its_name(x):
    class D:
        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, obj, kind=None):
            return self.name

    class A:
        d = D()

    return x * 2, A().d


@pytest.mark.parametrize(
    "f", [lives_over_a_break, breaks_in_the_body, slots, enumeration, named_tuple, asks_for_its_name],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_made_for_real(f):
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(3):
        compare(f, c)


def test_returned_classes_are_new_at_every_call():
    def f(x):
        class A:
            v = x * 2

            def g(self):
                return self.v + 1

        return A, A()

    c = T.compile(f)
    (a, i), (b, j) = c(T.ones(2)), c(T.zeros(2))
    assert a is not b and type(i) is a and type(j) is b and a.__qualname__.endswith("f.<locals>.A")
    assert i.g().tolist() == [3.0, 3.0] and j.g().tolist() == [1.0, 1.0]


def test_build_class_replaced(monkeypatch):
    import builtins

    def f(x):
        class A:
            v = 3

        return x * A.v

    T.compiler.reset()
    c = T.compile(f)
    x, build = T.ones(2), builtins.__build_class__
    assert c(x).tolist() == [3.0, 3.0]

    def built(*args, **kwargs):
        cls = build(*args, **kwargs)
        cls.v = 5
        return cls

    monkeypatch.setattr(builtins, "__build_class__", built)
    assert f(x).tolist() == [5.0, 5.0] and c(x).tolist() == [5.0, 5.0]


def bases():
    class Top:
        unit = 1

        def run(self, u):
            return u * 2

        @property
        def prop(self):
            return 3

        @classmethod
        def made(cls):
            return cls.unit

    class Mid(Top):
        pass

    return Top, Mid


READS = {
    "method": lambda C, u: C().run(u),
    "attribute": lambda C, u: u * C.unit,
    "of an object": lambda C, u: u * C().unit,
    "property": lambda C, u: u * C().prop,
    "class method": lambda C, u: u * C.made(),
    "absent": lambda C, u: u * (2 if hasattr(C, "nope") else 3),
    "absent of an object": lambda C, u: u * getattr(C(), "nope", 3),
}


def more(cls):
    cls.run = lambda self, u: u * 9
    cls.unit = cls.prop = cls.nope = 9
    cls.made = classmethod(lambda cls: 9)


class Other:
    unit = prop = nope = 7

    def run(self, u):
        return u * 7

    @staticmethod
    def made():
        return 7


CHANGES = {
    "base": lambda top, mid: more(mid),
    "base of the base": lambda top, mid: more(top),
    "bases": lambda top, mid: setattr(mid, "__bases__", (Other,)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", READS)
def test_bases_that_change_between_calls(read, change):
    """What a class that is made at every call inherits is looked up at every call."""
    top, mid = bases()

    def f(u):
        class C(mid):
            pass

        return READS[read](C, u)

    c = T.compile(f)
    x = T.ones(2)
    assert c(x).tolist() == f(x).tolist()
    CHANGES[change](top, mid)
    assert c(x).tolist() == f(x).tolist() and f(x)[0] in (2, 7, 9)
