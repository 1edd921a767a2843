"""Classes and instances that change between calls. See stale.py."""

import abc
import collections
import dataclasses
import enum
import functools

from stale import Scenarios, X, fresh_class

scenario = Scenarios()


@scenario
def class_attributes(C):
    K = fresh_class()
    o = K()
    f = C(lambda x: o.method(x) + K.scale)
    yield f(X)
    K.scale = 3.0
    yield f(X)
    o.scale = 4.0
    yield f(X)
    del o.scale
    yield f(X)
    K.extra = 1
    yield f(X)
    o.own = 9.0
    yield f(X)
    del o.own
    yield f(X)


@scenario
def methods_monkeypatched(C):
    K = fresh_class()
    o = K()
    f = C(lambda x: o.method(x) + o.static(x) + o.klass(x) + o.prop + o(x))
    yield f(X)
    K.method = lambda self, x: x * 50
    yield f(X)
    K.static = staticmethod(lambda x: x + 100)
    yield f(X)
    K.klass = classmethod(lambda cls, x: x + 1000)
    yield f(X)
    K.prop = property(lambda self: 1e4)
    yield f(X)
    K.__call__ = lambda self, x: x * 1e5
    yield f(X)
    o.method = lambda x: x * 3
    yield f(X)


@scenario
def inherited_attribute_overridden_later(C):
    class A:
        k = 1.0

        def m(self, x):
            return x * self.k

        @property
        def p(self):
            return 2.0

    class B(A):
        pass

    o = B()
    f = C(lambda x: o.m(x) + o.k + o.p)
    yield f(X)
    B.k = 5.0
    yield f(X)
    B.m = lambda self, x: x * 7
    yield f(X)
    B.p = property(lambda self: 9.0)
    yield f(X)
    del B.m
    yield f(X)


@scenario
def static_and_class_methods_overridden_in_a_subclass(C):
    class A:
        @staticmethod
        def s(x):
            return x + 1

        @classmethod
        def c(cls, x):
            return x + 2

    class B(A):
        pass

    o = B()
    f = C(lambda x: (o.s(x), o.c(x), B.s(x), B.c(x)))
    yield f(X)
    B.s = staticmethod(lambda x: x * 10)
    yield f(X)
    B.c = classmethod(lambda cls, x: x * 20)
    yield f(X)


@scenario
def super_methods_replaced(C):
    class A:
        def m(self, x):
            return x + 1

        @property
        def p(self):
            return 1.0

    class B(A):
        def m(self, x):
            return super().m(x) * 2 + super().p

    o = B()
    f = C(lambda x: o.m(x))
    yield f(X)
    A.m = lambda self, x: x + 100
    yield f(X)
    A.p = property(lambda self: 50.0)
    yield f(X)


@scenario
def bases_changed(C):
    class A:
        def m(self, x):
            return x + 1

    class Z:
        def m(self, x):
            return x * 9

    class B(A):
        pass

    o = B()
    f = C(lambda x: (o.m(x), isinstance(o, A)))
    yield f(X)
    B.__bases__ = (Z,)
    yield f(X)


@scenario
def class_of_an_instance_changed(C):
    K, L = fresh_class(), fresh_class()
    L.method = lambda self, x: x * 77
    o = K()
    f = C(lambda x: o.method(x))
    yield f(X)
    o.__class__ = L
    yield f(X)


@scenario
def getattr_hook(C):
    class G:
        def __init__(self):
            self.store = {"k": 2.0}

        def __getattr__(self, name):
            return self.store[name]

    o = G()
    f = C(lambda x: x * o.k)
    yield f(X)
    o.store["k"] = 3.0
    yield f(X)
    o.k = 5.0
    yield f(X)
    del o.k
    G.k = 6.0
    yield f(X)
    del G.k
    G.__getattr__ = lambda self, name: 8.0
    yield f(X)


@scenario
def getattribute_added(C):
    K = fresh_class()
    o = K()
    f = C(lambda x: x * o.own)
    yield f(X)
    K.__getattribute__ = lambda self, name: 8.0
    yield f(X)


@scenario
def getattr_hook_added(C):
    class G:
        pass

    o = G()
    f = C(lambda x: x * getattr(o, "k", 2.0))
    yield f(X)
    G.__getattr__ = lambda self, name: 8.0
    yield f(X)


@scenario
def hasattr_changes(C):
    class G:
        pass

    o = G()
    f = C(lambda x: x * 2 if hasattr(o, "k") else x * 3)
    yield f(X)
    o.k = 1
    yield f(X)
    del o.k
    yield f(X)
    G.k = 1
    yield f(X)


@scenario
def descriptor_on_the_type(C):
    class D:
        def __init__(self, v):
            self.v = v

        def __get__(self, obj, cls):
            return self.v

    class DD(D):
        def __set__(self, obj, v):
            pass

    class G:
        d = D(2.0)

    o = G()
    f = C(lambda x: x * o.d)
    yield f(X)

    vars(G)["d"].v = 3.0
    yield f(X)
    o.__dict__["d"] = 7.0
    yield f(X)
    G.d = DD(11.0)
    yield f(X)
    D.__get__ = lambda self, obj, cls: 13.0
    yield f(X)


@scenario
def data_descriptor_added_over_an_instance_attribute(C):
    K = fresh_class()
    o = K()
    f = C(lambda x: x * o.own)
    yield f(X)
    K.own = property(lambda self: 5.0)
    yield f(X)
    del K.own
    yield f(X)


@scenario
def slots(C):
    class S:
        __slots__ = ("a", "b")

    o = S()
    o.a = 2.0
    f = C(lambda x: x * o.a if hasattr(o, "a") else x * 5)
    yield f(X)
    o.a = 3.0
    yield f(X)
    del o.a
    yield f(X)


@scenario
def special_methods(C):
    class V:
        def __init__(self, v):
            self.v = v

        def __len__(self):
            return 3

        def __bool__(self):
            return True

        def __getitem__(self, k):
            return self.v * k

        def __contains__(self, k):
            return k == 1

        def __iter__(self):
            return iter([1, 2])

        def __add__(self, o):
            return self.v + o

        def __eq__(self, o):
            return True

        __hash__ = None

    v = V(2.0)

    def g(x):
        return x * len(v) + v[2] + (1 if 1 in v else 2) + sum(v) + (v + 1) + (10 if v else 20) + (5 if v == 3 else 6)

    f = C(g)
    yield f(X)
    for name, new in dict(__len__=lambda s: 4, __getitem__=lambda s, k: 100, __contains__=lambda s, k: False,
                          __iter__=lambda s: iter([50]), __add__=lambda s, o: 1000, __bool__=lambda s: False,
                          __eq__=lambda s, o: False).items():  # fmt: skip
        setattr(V, name, new)
        yield f(X)


@scenario
def len_without_bool(C):
    class V:
        n = 1

        def __len__(self):
            return self.n

    v = V()
    f = C(lambda x: x * 2 if v else x * 3)
    yield f(X)
    v.n = 0
    yield f(X)
    V.__bool__ = lambda self: True
    yield f(X)


@scenario
def enum_members(C):
    class E(enum.Enum):
        A = 1
        B = 2

    class Owner:
        e = E.A

    f = C(lambda x: x * 2 if Owner.e is E.A else x * Owner.e.value)
    yield f(X)
    Owner.e = E.B
    yield f(X)
    E.B._value_ = 10
    yield f(X)


@scenario
def enum_attributes(C):
    class E(enum.Enum):
        A = 1

        def scale(self):
            return 2.0

    E.A.weight = 3.0
    f = C(lambda x: x * E.A.weight + E.A.scale())
    yield f(X)
    E.A.weight = 4.0
    yield f(X)
    E.scale = lambda self: 100.0
    yield f(X)


@scenario
def dataclass_fields(C):
    @dataclasses.dataclass
    class D:
        a: float = 1.0
        b: list = dataclasses.field(default_factory=lambda: [1, 2])

    d = D()
    f = C(lambda x: x * d.a + sum(d.b))
    yield f(X)
    d.a = 2.0
    yield f(X)
    d.b.append(5)
    yield f(X)
    d.b[0] = 9
    yield f(X)
    d = D(a=7.0, b=[])
    yield f(X)


@scenario
def dataclass_made_inside(C):
    @dataclasses.dataclass
    class D:
        a: float
        b: float = 3.0

        def total(self):
            return self.a + self.b

    f = C(lambda x: x * D(2.0).total())
    yield f(X)
    D.total = lambda self: 50.0
    yield f(X)
    D.__init__.__defaults__ = (7.0,)
    del D.total
    D.total = lambda self: self.a + self.b
    yield f(X)


@scenario
def namedtuples(C):
    P = collections.namedtuple("P", "a b")
    f = C(lambda p, x: x * p.a + p.b)
    yield f(P(1, 2), X)
    yield f(P(1, 3), X)
    yield f(P(1.0, 3), X)
    Q = collections.namedtuple("Q", "b a")
    yield f(Q(1, 2), X)


@scenario
def isinstance_on_abc_registration(C):
    class A(abc.ABC):  # noqa: B024
        pass

    class K:
        pass

    o = K()
    f = C(lambda x: x * 2 if isinstance(o, A) else x * 3)
    yield f(X)
    A.register(K)
    yield f(X)
    g = C(lambda x: x * 2 if issubclass(K, A) else x * 3)
    yield g(X)


@scenario
def isinstance_by_metaclass(C):
    class M(type):
        answer = True

        def __instancecheck__(cls, o):
            return M.answer

    class A(metaclass=M):
        pass

    f = C(lambda x: x * 2 if isinstance(3, A) else x * 3)
    yield f(X)
    M.answer = False
    yield f(X)


@scenario
def instance_dict_replaced(C):
    K = fresh_class()
    o = K()
    f = C(lambda x: x * o.own)
    yield f(X)
    o.__dict__ = {"own": 4.0}
    yield f(X)
    vars(o)["own"] = 5.0
    yield f(X)


@scenario
def cached_property(C):
    class K:
        n = 2.0

        @functools.cached_property
        def c(self):
            return self.n * 2

    o = K()
    f = C(lambda x: x * o.c)
    yield f(X)
    K.n = 100.0
    yield f(X)
    del o.c
    yield f(X)
    yield o.c


@scenario
def new_and_init(C):
    class K:
        def __init__(self, v):
            self.v = v

    f = C(lambda x: x * K(2.0).v)
    yield f(X)

    def init(self, v):
        self.v = v * 10

    K.__init__ = init
    yield f(X)

    def new(cls, *a):
        o = object.__new__(cls)
        o.w = 1
        return o

    K.__new__ = new
    K.__init__ = lambda self, v: setattr(self, "v", v * 100)
    yield f(X)


@scenario
def class_without_init(C):
    class K:
        k = 1.0

    f = C(lambda x: x * K().k)
    yield f(X)
    K.__init__ = lambda self: setattr(self, "k", 5.0)
    yield f(X)


test_nothing_goes_stale = scenario.test()
