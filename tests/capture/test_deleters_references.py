"""Weak references, deleters and errors of properties, texts that are joined: captured, and never stale."""

import weakref

from stale import Scenarios, compiled, results

import fusegrad as T

scenario = Scenarios()


class Thing:
    def __init__(self, k=2.0):
        self.k = k


def x():
    return T.tensor([1.0, -2.0, 3.0])


@scenario
def what_a_weak_reference_gives(comp):
    def f(x, r):
        v = r()
        if v is None:
            return x * 100, False
        v.n = v.k + 1
        return x * v.k, v is r()

    c, o, other = comp(f), Thing(), Thing(9.0)
    r = weakref.ref(o)
    yield c(x(), r), o.n
    o.k = 3.0
    yield c(x(), r), o.n
    yield c(x(), weakref.ref(other)), other.n
    del o
    yield c(x(), r), c(x(), weakref.ref(other))


@scenario
def a_weak_reference_to_a_tensor(comp):
    t = x()
    r = weakref.ref(t)
    c = comp(lambda: r() * 2 if r() is not None else 5)
    yield c()
    t.mul_(3)
    yield c()
    del t
    yield c()


@scenario
def a_parent(comp):
    class Child:
        def __init__(self, parent):
            self.parent = weakref.ref(parent)

        def forward(self, x):
            return x * self.parent().k

    a, b = Thing(4.0), Thing(7.0)
    child = Child(a)
    c = comp(lambda x: child.forward(x))
    yield c(x())
    a.k = 5.0
    yield c(x())
    child.parent = weakref.ref(b)
    yield c(x())


@scenario
def the_same_object_twice(comp):
    def f(x, r, o):
        o.k = 5.0
        return x * r().k

    c, a, b = comp(f), Thing(), Thing()
    for u, v in ((a, b), (a, a), (a, b)):
        u.k, v.k = 1.0, 2.0
        yield c(x(), weakref.ref(u), v)


class Deleted:
    def __init__(self):
        self.log = []

    @property
    def v(self):
        return 2.0

    @v.deleter
    def v(self):
        self.log.append("del")

    @property
    def w(self):
        return 3.0

    unread = property(None, lambda self, v: None)


Deleted.late = property(lambda self: 1)  # without a name


@scenario
def deleters_of_properties(comp):
    def f(x, a):
        del a.v
        b = Deleted()
        del b.v
        return x * a.v, b.log

    c, before = comp(f), Deleted.v
    for _ in range(2):
        a = Deleted()
        yield c(x(), a), a.log
    Deleted.v = property(lambda self: 7.0, None, lambda self: self.log.append("other"))
    a = Deleted()
    yield c(x(), a), a.log
    Deleted.v = before


@scenario
def errors_of_properties(comp):
    class Inner(Deleted):
        pass

    def read(a):
        return a.unread

    def write(a):
        a.w = 1

    def delete(a):
        del a.w

    def nameless(a):
        a.late = 1

    def f(x, a, how):
        try:
            how(a)
        except AttributeError as e:
            return x, str(e)

    c = comp(f)
    for how in (read, write, delete, nameless):
        for a in (Deleted(), Inner()):
            yield c(x(), a, how)


@scenario
def joined_texts(comp):
    def f(x, n, g, k):
        parts = (
            "-".join(map(str, (n, g))),
            ", ".join([f"{n}", "a", str(g), k]),
            str(n).join("ab"),
            "é".join([str(n)] * 2),
        )
        return x * n, *parts, "-".join([k]), "x".join([])

    c = comp(f)
    for n, g, k in ((1, 2.5, "q"), (2, 3.5, "w"), (3, 4.5, "e"), (4, 5.5, "r"), (5, 1.5, "t"), (6, 2.0, "y")):
        yield c(x(), n, g, k)


test_scenarios = scenario.test()


def test_no_breaks():
    for name in ("what_a_weak_reference_gives", "a_parent", "deleters_of_properties", "errors_of_properties"):
        results(scenario[name], compiled)
        s = T.compiler.stats()
        assert (s["graph_breaks"], s["plain_frames"]) == (0, 0), (name, s["break_reasons"])
