"""More things that change between calls: in Python's own objects, in rare protocols. See stale.py."""

import argparse
import array
import collections
import contextvars
import dataclasses
import functools
import operator
import threading
import types
import weakref

from stale import Scenarios, X, fresh_class

import fusegrad as T

nn = T.nn
scenario = Scenarios()


# ---- Python's own objects


@scenario
def context_variables(C):
    v = contextvars.ContextVar("v", default=2.0)
    f = C(lambda x: x * v.get())
    yield f(X)
    token = v.set(3.0)
    yield f(X)
    v.reset(token)
    yield f(X)


@scenario
def thread_locals(C):
    v = threading.local()
    v.k = 2.0
    f = C(lambda x: x * v.k)
    yield f(X)
    v.k = 3.0
    yield f(X)
    out = []

    def other():
        v.k = 9.0
        out.append(f(X))

    t = threading.Thread(target=other)
    t.start()
    t.join()
    yield out
    yield f(X)


@scenario
def weak_references(C):
    class K:
        k = 2.0

    o = K()
    r = weakref.ref(o)
    f = C(lambda x: x * r().k if r() is not None else x * 100)
    yield f(X)
    o.k = 3.0
    yield f(X)
    del o
    yield f(X)


@scenario
def bytes_and_arrays(C):
    b, a, m = bytearray(b"ab"), array.array("i", [1, 2]), memoryview(bytearray(b"xy"))
    f = C(lambda x: x * len(b) + b[0] + a[1] + m[0])
    yield f(X)
    b.append(1)
    yield f(X)
    b[0] = 5
    yield f(X)
    a[1] = 50
    yield f(X)
    m[0] = 9
    yield f(X)


@scenario
def namespaces(C):
    n, a = types.SimpleNamespace(k=2.0), argparse.Namespace(lr=1.0)
    f = C(lambda x: x * n.k + a.lr)
    yield f(X)
    n.k = 3.0
    yield f(X)
    a.lr = 5
    yield f(X)
    del n.k
    yield f(X)


@scenario
def mappings(C):
    base = {"a": 1.0}
    proxy, chain = types.MappingProxyType(base), collections.ChainMap({}, base)
    user, count = collections.UserDict(a=1.0), collections.Counter(a=1)
    f = C(lambda x: x * proxy["a"] + chain["a"] + user["a"] + count["a"] + count["zz"])
    yield f(X)
    base["a"] = 2.0
    yield f(X)
    chain["a"] = 5.0
    yield f(X)
    user["a"] = 7.0
    yield f(X)
    count["zz"] += 3
    yield f(X)
    yield dict(count)


@scenario
def user_containers(C):
    class L(list):
        def total(self):
            return sum(self)

    class D(dict):
        def __getitem__(self, k):
            return dict.__getitem__(self, k) * 10

    v, d = L([1.0, 2.0]), D(a=1.0)
    f = C(lambda x: x * v.total() + d["a"] + len(v))
    yield f(X)
    v.append(3.0)
    yield f(X)
    d["a"] = 2.0
    yield f(X)
    L.total = lambda self: 100.0
    yield f(X)
    D.__getitem__ = lambda self, k: 1000.0
    yield f(X)
    L.__len__ = lambda self: 7
    yield f(X)


@scenario
def calls_of_globals_and_vars(C):
    g = {"T": T, "k": 2.0, "__name__": "scenario"}
    exec("def f(x, o):\n    return x * globals()['k'] + vars(o)['own'] + len(dir(o)) * 0\n", g)
    o = fresh_class()()
    f = C(g["f"])
    yield f(X, o)
    g["k"] = 3.0
    yield f(X, o)
    o.own = 5.0
    yield f(X, o)


@scenario
def dynamic_attribute_names(C):
    o = fresh_class()()
    o.a, o.b = 1.0, 2.0
    f = C(lambda x, n: x * getattr(o, n) + operator.attrgetter(n)(o))
    yield f(X, "a")
    yield f(X, "b")
    o.a = 7.0
    yield f(X, "a")
    g = C(lambda x: x * operator.methodcaller("method", 2.0)(o) + operator.itemgetter(0)(box))
    box = [1.0]
    yield g(X)
    o.own = 9.0
    yield g(X)
    box[0] = 4.0
    yield g(X)


@scenario
def text_of_objects(C):
    class K:
        def __str__(self):
            return "ab"

        def __repr__(self):
            return "abc"

        def __format__(self, spec):
            return "abcd" + spec

    o = K()
    f = C(lambda x: x * len(str(o)) + len(repr(o)) + len(f"{o}") + len(f"{o:zz}"))
    yield f(X)
    K.__str__ = lambda self: "a" * 20
    yield f(X)
    K.__repr__ = lambda self: "a" * 30
    yield f(X)
    K.__format__ = lambda self, spec: "a" * 40
    yield f(X)


@scenario
def numbers_of_user_types(C):
    class K:
        v = 3

        def __index__(self):
            return self.v

        def __float__(self):
            return self.v * 2.0

        def __int__(self):
            return self.v

        def __hash__(self):
            return 1

    o = K()
    f = C(lambda x: x * float(o) + int(o) + [5, 6, 7, 8][o] + len(range(o)))
    yield f(X)
    o.v = 1
    yield f(X)
    K.__float__ = lambda self: 100.0
    yield f(X)
    K.__index__ = lambda self: 0
    yield f(X)


@scenario
def patterns(C):
    @dataclasses.dataclass
    class P:
        a: float
        b: float

    def g(x, p):
        match p:
            case P(1.0, b):
                return x * b
            case {"k": v}:
                return x + v
            case [a, *rest]:
                return x * a + len(rest)
            case _:
                return x

    f = C(g)
    for p in (P(1.0, 2.0), P(1.0, 3.0), P(2.0, 3.0), {"k": 1}, {"k": 2}, {}, [1, 2], [2], (3, 4, 5), None, "ab"):
        yield f(X, p)
    P.__match_args__ = ("b", "a")
    yield f(X, P(2.0, 1.0))


@scenario
def exceptions_caught(C):
    class A(Exception):
        pass

    class B(Exception):
        pass

    kinds = {"caught": A}

    def fail(x):
        raise kinds["raised"]("text")

    def g(x):
        try:
            return fail(x)
        except kinds["caught"] as e:
            return x * len(str(e))

    kinds["raised"] = A
    f = C(g)
    yield f(X)
    kinds["raised"] = kinds["caught"] = B
    yield f(X)
    kinds["caught"] = (A, B)
    yield f(X)
    kinds["caught"] = A
    yield f(X)


@scenario
def single_dispatch(C):
    @functools.singledispatch
    def h(v, x):
        return x

    f = C(lambda v, x: h(v, x))
    yield f(1, X)
    h.register(int, lambda v, x: x * 5)
    yield f(1, X)


@scenario
def frozen_and_nested_containers(C):
    deep = {"a": [({"b": [1.0]},)]}
    f = C(lambda x: x * deep["a"][0][0]["b"][0] + len(deep["a"]))
    yield f(X)
    deep["a"][0][0]["b"][0] = 2.0
    yield f(X)
    deep["a"][0] = ({"b": [9.0]},)
    yield f(X)
    deep["a"].append(1)
    yield f(X)


@scenario
def iterators_in_attributes(C):
    class K:
        pass

    o = K()
    o.it = iter([1.0, 2.0, 3.0])
    o.gen = (k * 2 for k in (1, 2, 3))
    f = C(lambda x: x * next(o.it) + next(o.gen))
    yield f(X)
    yield f(X)
    o.it = iter([50.0])
    yield f(X)
    yield f(X)


@scenario
def bound_methods_of_containers(C):
    v = [1.0]
    push, d = v.append, {"a": 1.0}
    get = d.get
    f = C(lambda x: (push(2.0), x * len(v) + get("a", 9.0))[1])
    yield f(X)
    yield f(X)
    d["a"] = 5.0
    yield f(X)
    d.clear()
    yield f(X)
    yield v


# ---- rare protocols of classes


@scenario
def metaclass_attributes(C):
    class M(type):
        k = 2.0

        @property
        def p(cls):
            return cls.k * 10

        def __len__(cls):
            return 3

        def __call__(cls, *a):
            return type.__call__(cls, *a)

    class K(metaclass=M):
        pass

    f = C(lambda x: x * K.k + K.p + len(K))
    yield f(X)
    M.k = 3.0
    yield f(X)
    K.k = 5.0
    yield f(X)
    M.p = property(lambda cls: 1.0)
    yield f(X)
    M.__len__ = lambda cls: 50
    yield f(X)
    g = C(lambda x: x * len(type(K()).__name__))
    yield g(X)
    M.__call__ = lambda cls, *a: "string"
    yield g(X)


@scenario
def class_counters(C):
    class K:
        count = 0

        def __init__(self):
            K.count += 1
            self.n = K.count

    f = C(lambda x: x * K().n)
    yield f(X)
    yield f(X)
    yield K.count
    K.count = 10
    yield f(X)


@scenario
def property_setters(C):
    class K:
        def __init__(self):
            self._v, self.log = 1.0, []

        @property
        def v(self):
            return self._v

        @v.setter
        def v(self, new):
            self.log.append(new)
            self._v = new * 2

    o = K()

    def g(x):
        o.v = o.v + 1
        return x * o.v

    f = C(g)
    yield f(X)
    yield f(X)
    K.v = property(lambda self: 5.0, lambda self, new: None)
    yield f(X)
    yield o.log


@scenario
def setattr_hooks(C):
    class K:
        pass

    o = K()

    def g(x):
        o.a = 2.0
        return x * o.a

    f = C(g)
    yield f(X)
    K.__setattr__ = lambda self, n, v: object.__setattr__(self, n, v * 10)
    yield f(X)
    del K.__setattr__
    K.a = property(lambda self: 7.0, lambda self, v: None)
    yield f(X)


@scenario
def subclass_hooks(C):
    import abc

    class A(abc.ABC):  # noqa: B024
        answer = True

        @classmethod
        def __subclasshook__(cls, other):
            return cls.answer

    class K:
        pass

    o = K()
    f = C(lambda x: x * 2 if isinstance(o, A) else x * 3)
    yield f(X)


@scenario
def comparison_methods(C):
    class K:
        def __init__(self, v):
            self.v = v

        def __eq__(self, o):
            return self.v == o.v

        def __lt__(self, o):
            return self.v < o.v

        def __hash__(self):
            return hash(self.v)

    a, b = K(1), K(2)
    f = C(lambda x: x * (2 if a == b else 3) + (4 if a < b else 5) + min(a, b).v + (1 if a in [b] else 0))
    yield f(X)
    a.v = 2
    yield f(X)
    K.__lt__ = lambda self, o: True
    yield f(X)
    K.__eq__ = lambda self, o: False
    yield f(X)


@scenario
def name_mangling_and_class_cells(C):
    class K:
        __k = 2.0

        def m(self, x):
            return x * self.__k + len(__class__.__name__)

    o = K()
    f = C(lambda x: o.m(x))
    yield f(X)
    K._K__k = 3.0
    yield f(X)
    K.__name__ = "Longer"
    yield f(X)


@scenario
def decorators_with_state(C):
    def counted(fn):
        @functools.wraps(fn)
        def inner(*a):
            inner.calls += 1
            return fn(*a) * inner.calls

        inner.calls = 0
        return inner

    @counted
    def h(x):
        return x + 1

    f = C(lambda x: h(x))
    yield f(X)
    yield f(X)
    h.calls = 10
    yield f(X)
    yield h.calls


test_nothing_goes_stale = scenario.test()
