"""Special methods and descriptors that a class does not have at the first call and has at a later one."""

import collections

from stale import Scenarios, X

import fusegrad as T

nn = T.nn
scenario = Scenarios()
test_nothing_goes_stale = scenario.test()


@scenario
def attribute_lookup(c):
    class A:
        pass

    a = A()
    f = c(lambda x: x * getattr(a, "k", 2))
    yield f(X)
    A.__getattr__ = lambda s, n: 6
    yield f(X)
    del A.__getattr__
    yield f(X)
    A.__getattribute__ = lambda s, n: 8 if n == "k" else object.__getattribute__(s, n)
    yield f(X)


@scenario
def attribute_lookup_of_a_module(c):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.k = 2

        def forward(self, x):
            return x * self.k

    m = M()
    f = c(lambda x: m(x))
    yield f(X)
    M.__getattribute__ = lambda s, n: 8 if n == "k" else object.__getattribute__(s, n)
    yield f(X)


@scenario
def a_setter_of_a_descriptor(c):
    class D:
        def __get__(self, obj, cls):
            return 6

    class A:
        d = D()

    a = A()
    f = c(lambda x: x * a.d)
    yield f(X)
    D.__set__ = lambda s, o, v: None
    a.__dict__["d"] = 9
    yield f(X)
    del D.__set__
    yield f(X)
    D.__delete__ = lambda s, o: None
    yield f(X)


@scenario
def a_getter_of_a_plain_value(c):
    class D:
        k = 3

    class A:
        d = D()

    a = A()
    f = c(lambda x: x * (a.d if isinstance(a.d, int) else a.d.k))
    yield f(X)
    D.__get__ = lambda s, o, cls: 6
    yield f(X)


@scenario
def a_field_of_a_named_tuple(c):
    class P(collections.namedtuple("P", "a b")):
        pass

    pair = collections.namedtuple("pair", "a b")
    for n, cls in ((pair(1, 2), pair), (P(1, 2), P)):
        f = c(lambda x, n=n: x * n.a + n.b)
        yield f(X)
        cls.a = property(lambda s: 50)
        yield f(X)


@scenario
def subscripts_of_a_class(c):
    class A:
        def __class_getitem__(cls, i):
            return i * 2

    f = c(lambda x: x * A[2])
    yield f(X)
    A.__class_getitem__ = classmethod(lambda cls, i: i * 5)
    yield f(X)


@scenario
def text(c):
    class A:
        k = 2

        def __repr__(self):
            return "q" * self.k

    a = A()
    f = c(lambda x: x * len(f"{a!r}") * len(str(a)) * len(f"{a}"))
    yield f(X)
    A.__str__ = lambda s: "zzzzz"
    yield f(X)
    A.__format__ = lambda s, spec: "xyz"
    yield f(X)


@scenario
def deletion_of_attributes(c):
    class A:
        pass

    a, log = A(), []

    def f(x):
        a.k = 1
        del a.k
        return x

    g = c(f)
    yield g(X), log
    A.__delattr__ = lambda s, n: log.append(n)
    yield g(X), log


@scenario
def reflected_operators_of_a_subclass(c):
    class A:
        def __add__(self, other):
            return 2

    class B(A):
        pass

    a, b = A(), B()
    f = c(lambda x: x * (a + b))
    yield f(X)
    B.__radd__ = lambda s, o: 9
    yield f(X)


@scenario
def bases_of_an_exception(c):
    class P1(Exception):
        pass

    class P2(Exception):
        pass

    class E(P1):
        pass

    def f(x):
        try:
            raise E("q")
        except P2:
            return x * 2
        except P1:
            return x * 3

    g = c(f)
    yield g(X)
    E.__bases__ = (P2,)
    yield g(X)


@scenario
def what_a_list_says_of_itself(c):
    class Own(list):
        pass

    values, empty = Own([1, 2]), Own()
    f = c(lambda x: x * sum(values) * len(values) * (2 if empty else 3))
    yield f(X)
    Own.__iter__ = lambda s: iter([9])
    yield f(X)
    Own.__len__ = lambda s: 5
    yield f(X)
    Own.__bool__ = lambda s: True
    yield f(X)
    Own.__getitem__ = lambda s, i: 7
    g = c(lambda x: x * values[0])
    yield g(X)
    del Own.__getitem__
    yield g(X)


@scenario
def what_a_dict_says_of_itself(c):
    class Own(dict):
        pass

    d = Own(a=1)
    f = c(lambda x: x * len([k for k in d]) * len(d.items()) * (2 if "b" in d else 3) * d.get("a", 4))
    yield f(X)
    Own.__iter__ = lambda s: iter("abc")
    yield f(X)
    Own.items = lambda s: [1, 2]
    yield f(X)
    Own.__contains__ = lambda s, k: True
    yield f(X)
    Own.get = lambda s, k, default: default
    yield f(X)


@scenario
def identity_as_equality(c):
    class A:
        pass

    a, b = A(), A()
    f = c(lambda x: x * (2 if a == b else 3) * (5 if a != b else 7))
    yield f(X)
    A.__eq__ = lambda s, o: True
    yield f(X)
    A.__ne__ = lambda s, o: True
    yield f(X)
