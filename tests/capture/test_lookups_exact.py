"""Attributes as Python finds and deletes them: what a failed lookup falls back to, descriptors, bound C methods."""

import collections
import functools
import typing
import weakref

import numpy as np
import pytest

import fusegrad as T
from fusegrad import nn

from .helpers import X, alike, tree

# ---- lookups that fail


class Hidden:
    """``__getattribute__`` refuses a name, ``__getattr__`` gives it."""

    def __getattribute__(self, name):
        if name == "secret":
            raise AttributeError("not here")
        return super().__getattribute__(name)

    def __getattr__(self, name):
        return {"secret": 5, "broken": 6}.get(name, 7)

    @property
    def broken(self):
        raise AttributeError("inner")


class Bare:
    @property
    def broken(self):
        raise AttributeError("inner")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    @property
    def broken(self):
        raise AttributeError("inner")


def test_what_a_failed_lookup_falls_back_to():
    def read(x, o):
        try:
            return x + o.secret + o.broken * 10 + o.other * 100
        except AttributeError as e:
            return x, str(e)

    def ask(x, o):
        try:
            o.broken  # noqa: B018
        except AttributeError as e:
            return x, str(e), hasattr(o, "broken"), getattr(o, "broken", 3), hasattr(o, "absent")
        return x, hasattr(o, "broken"), getattr(o, "broken", 3), hasattr(o, "absent")

    x = T.tensor(X)
    assert alike(read, lambda: (x, Hidden()))["graph_breaks"] == 0
    for f in (read, ask):
        s = alike(f, lambda: (x, Hidden()), lambda: (x, Bare()))
        assert s["plain_frames"] == 0
    m = Layer()
    alike(lambda m, x: (m.inner(x), getattr(m, "broken", 4)), lambda: (m, x))
    alike(lambda m, x: m.broken, lambda: (m, x))


def test_errors_say_who_was_asked_for_what():
    class Asked:
        def __getattr__(self, name):
            if name == "given":
                raise AttributeError("mine", name="other", obj=3)
            raise AttributeError(f"{name} absent")

    class Plain:
        @property
        def through(self):
            return self.inner

    def f(x):
        out = []
        for ask in (
            lambda: Asked().q,
            lambda: Asked().given,
            lambda: Plain().through,
            lambda: Plain.nothing,
            lambda: Plain().nothing,
            lambda: getattr(Plain(), "computed"),  # noqa: B009
            lambda: object.__getattribute__(Plain(), "past"),
            lambda: x.nothing,
        ):
            try:
                ask()
            except AttributeError as e:
                out.append((e.name, type(e.obj).__name__))
        try:
            undefined_name  # noqa: B018, F821
        except NameError as e:
            out.append(e.name)

        def read():
            return later

        try:
            read()
        except NameError as e:
            out.append((e.name, str(e)))
        later = 1
        return x, out

    def same(x, o):
        try:
            o.absent  # noqa: B018
        except AttributeError as e:
            return x + (e.obj is o)

    o = Plain()
    alike(f, lambda: (T.tensor(X),))
    alike(same, lambda: (T.tensor(X), o), lambda: (T.tensor(X), Plain()))


@pytest.mark.parametrize("base", [dict, list, set, collections.OrderedDict, collections.deque])
def test_the_dict_of_containers_with_attributes(base):
    kind = type("Kind", (base,), {})

    def f(m, x):
        try:
            return x + m.__dict__["a"], hasattr(m, "__dict__"), len(vars(m))
        except AttributeError:
            return x

    def g(m, x):
        m.__dict__["b"] = 4
        return x + m.b + len(m.__dict__)

    def make():
        m = kind()
        m.a = 3
        return m, T.tensor(X)

    alike(f, make)
    alike(g, make)


# ---- deleting


class Box:
    """Properties and descriptors that say what ``del`` means."""

    def __init__(self):
        self.kept, self.log = 4, []

    @property
    def value(self):
        return self.kept

    @value.deleter
    def value(self):
        self.kept = 0
        self.log.append("deleted")

    @property
    def fixed(self):
        return 1


class Described:
    def __get__(self, obj, cls):
        return 5

    def __set__(self, obj, value):
        obj.kept = value

    def __delete__(self, obj):
        obj.kept = 7


class OnlySet:
    def __set__(self, obj, value):
        obj.__dict__["kept"] = value


class Boxes(Box):
    described, only = Described(), OnlySet()


class Refusing(Boxes):
    def __delattr__(self, name):
        self.log.append(name)


class Slotted:
    __slots__ = ("a", "__dict__")


@pytest.mark.parametrize("kind", [Boxes, Refusing])
@pytest.mark.parametrize("where", ["before", "inside"])
def test_del_of_described_attributes(kind, where):
    def f(x, b=None):
        b = b or kind()
        out = []
        for name in ("value", "described", "fixed", "absent"):
            try:
                delattr(b, name)
            except AttributeError as e:
                out.append(str(e))
            out.append(b.kept)
        try:
            del b.only
        except AttributeError:
            out.append("only")
        return x + b.kept, out, b.log

    alike(f, lambda: (T.tensor(X), *([kind()] if where == "before" else [])))


def test_del_of_slots():
    def f(x, o):
        out = []
        for name in ("a", "b"):
            try:
                delattr(o, name)
            except AttributeError:
                out.append(name)
            out.append(hasattr(o, name))
        return x, out

    def make(*names):
        o = Slotted()
        for n in names:
            setattr(o, n, 1)
        return T.tensor(X), o

    alike(f, lambda: make("a"), lambda: make("b"), lambda: make("a", "b"), lambda: make())


# ---- bound methods and descriptors in C


def test_bound_methods_in_c_see_what_changed():
    got, mapping, items = [1, 2], {"a": 1}, {1}
    calls = {
        "list item": (got.__getitem__, (0,), lambda n: got.__setitem__(0, n)),
        "list len": (got.__len__, (), lambda n: got.append(n)),
        "dict item": (mapping.__getitem__, ("a",), lambda n: mapping.__setitem__("a", n)),
        "dict in": (mapping.__contains__, ("b",), lambda n: mapping.__setitem__("b", n)),
        "set len": (items.__len__, (), items.add),
    }
    x = T.zeros(1)
    for name, (method, args, change) in calls.items():
        c = T.compile(lambda x, method=method, args=args: x + method(*args))
        for n in (10, 20, 30):
            assert c(x).item() == method(*args), name
            change(n)


def test_get_of_a_descriptor_reads_what_changed():
    class K:
        a = 1

        def __init__(self):
            self.q = 2

        def m(self):
            return self.q

    k = K()
    inner = property(lambda s: s.q)
    names, method, read = type.__dict__["__dict__"].__get__, K.m.__get__, inner.__get__
    x = T.zeros(1)
    of_class = T.compile(lambda x: x + names(K)["a"])
    of_object = T.compile(lambda x: x + method(k)() + read(k))
    for n in (1, 4, 6):
        K.a = k.q = n
        assert of_class(x).item() == n
        assert of_object(x).item() == 2 * n


# ---- super()


class Odd:
    @staticmethod
    def nothing():
        return super().__init__()

    @staticmethod
    def many(*args):
        return super().__init__()

    def gone(self):
        del self
        return super().__init__()


def test_super_without_what_it_needs():
    def outside(x):
        return super().__init__()

    def call(x, name):
        try:
            getattr(Odd(), name)()
        except RuntimeError as e:
            return x, str(e)
        return x

    x = T.tensor(X)
    for name in ("nothing", "many", "gone"):
        s = alike(functools.partial(call, name=name), lambda: (x,))
        assert not any("fault" in r for r in s["break_reasons"])
    alike(outside, lambda: (x,))


# ---- id() of objects


class Counted:
    def __init__(self):
        self.n = 0


def test_id_of_an_object_takes_no_break_while_it_is_the_same():
    o, d = Counted(), {}

    def f(x, seen):
        return x + (id(o) in seen) + (id(d) in seen) * 2 + (id(o) == id(d)) * 4

    s = alike(f, lambda: (T.tensor(X), {id(o): 1}), lambda: (T.tensor(X), {id(d): 1}))
    assert s["graph_breaks"] == 0
    twice = T.compile(lambda x, p, q: x + len({id(p), id(q)}))
    for p, q, n in ((o, d, 2), (o, o, 1), (Counted(), o, 2), (d, d, 1)):
        assert twice(T.zeros(1), p, q).item() == n


# ---- weak references and kinds of typing


def test_a_weak_reference_is_asked_at_every_call():
    class Child:
        def __init__(self, parent):
            self.parent = weakref.ref(parent)

    parent = Counted()
    child, held = Child(parent), T.tensor(X)
    ref = weakref.ref(held)

    def up(x, c):
        c.parent().n += 1
        return x + c.parent().n

    def alive(x, r):
        return x * 2 if r() is None else x + r()

    x = T.tensor(X)
    T.compiler.reset()
    u, a = T.compile(up), T.compile(alive)
    assert [u(x, child)[0].item() for _ in range(3)] == [2, 3, 4]
    assert tree(a(x, ref)) == tree(x + x)
    held.mul_(3)
    assert tree(a(x, ref)) == tree(x * 4)
    del held
    assert tree(a(x, ref)) == tree(x * 2)
    assert T.compiler.stats()["graph_breaks"] == 0


def test_isinstance_of_kinds_of_typing():
    def f(x, m):
        return x + isinstance(m, typing.Mapping) + 2 * isinstance(m, (typing.Sequence, typing.Callable))

    for m in ({}, [], 3, "a", len):
        assert alike(f, lambda m=m: (T.tensor(X), m))["graph_breaks"] == 0


# ---- identity of numbers


def test_is_between_sizes_and_numbers():
    def f(x, n):
        a, b = x.shape
        return x.sum() + (a is b) + 2 * (a is n) + 4 * (a is not b) + 8 * (a is len(x)), a is True, a + 1 is b + 1

    shapes = [(3, 3), (4, 4), (5, 5), (5, 6), (1, 1), (6, 5)]
    alike(f, *(lambda s=s, n=n: (T.ones(s), n) for s in shapes for n in (3, 5)))


# ---- attributes of objects from before that are Python's own


def test_what_is_callable():
    class Silent:
        pass

    class Speaks:
        def __call__(self):
            return 1

    def f(x, items, names, o, k):
        seen = (items.append, names.get, names.__len__, o, k, Silent, items, len, x, x.sum, None, items.append.__call__)
        kinds = (type(items.append).__name__, type(names.__len__).__name__, isinstance(items.append, typing.Callable))
        return x, [callable(v) for v in seen], kinds

    o = Silent()
    c = T.compile(f)
    for _ in range(2):
        assert tree(c(T.tensor(X), [], {}, o, Speaks())) == tree(f(T.tensor(X), [], {}, o, Speaks()))
    Silent.__call__ = lambda self: 1
    assert tree(c(T.tensor(X), [], {}, o, Speaks())) == tree(f(T.tensor(X), [], {}, o, Speaks()))


NAMES = ("__name__", "__annotations__", "__mro__", "__call__", "__bases__", "__doc__", "__dict__", "absent")


@pytest.mark.parametrize("make", [dict, list, set, collections.deque, collections.OrderedDict, collections.Counter])
def test_names_that_only_the_class_has(make):
    class Thing:
        pass

    def f(x, v):
        out = []
        for name in NAMES:
            try:
                out.append((name, hasattr(v, name), getattr(v, name)))
            except AttributeError as e:
                out.append((name, hasattr(v, name), str(e)))
        return x, out

    c = T.compile(f)
    o, p, t = Thing(), nn.Parameter(T.tensor(X)), T.tensor(X)
    for v in (make(), o, p, t):
        T.compiler.reset()
        for _ in range(3):
            assert tree(c(T.tensor(X), v)) == tree(f(T.tensor(X), v))
    assert "__annotations__" not in Thing.__dict__  # a look at the class would have made them
    o.__name__ = t.__name__ = "mine"
    for v in (o, t):
        assert tree(c(T.tensor(X), v)) == tree(f(T.tensor(X), v))


def test_a_name_that_only_the_class_has_takes_one_compile():
    class Thing:
        pass

    s = alike(
        lambda x, o: (x, hasattr(o, "__name__"), hasattr(o, "__bases__")), lambda: (T.tensor(X), Thing()), calls=4
    )
    assert s["compiles"] == 1


# ---- nobody else asks


ASKED = []


def _asked(self, name):
    ASKED.append(name)
    if name != "extra":
        raise AttributeError(name)
    return 5


class AskedTuple(collections.namedtuple("AskedTuple", "a b")):
    __slots__ = ()
    __getattr__ = _asked


class AskedDict(dict):
    __getattr__ = _asked

    def __missing__(self, key):
        return len(self)


def test_only_the_program_asks_for_attributes():
    pre = AskedTuple(1, 2), AskedDict(a=1)

    def f(x, k):
        t, d = pre if k % 2 else (AskedTuple(k, 2), AskedDict(a=k))
        return x * t.a + d["a"], t.extra, d["none"], {t: 1}[t], t._replace(a=3), d, t

    def asked(run):
        ASKED.clear()
        return [(tree(run(T.tensor(X), k)), list(ASKED)) for k in (0, 1, 2, 3, 1)]

    assert asked(T.compile(f)) == asked(f)


def test_arrays_made_inside_keep_their_layout():
    def f(x):
        return (
            x * 2,
            np.zeros((2, 3), order="F"),
            np.arange(6).reshape(2, 3)[:, ::2],
            np.broadcast_to(np.ones(2), (2, 2)),
        )

    for _ in range(2):
        for a, b in zip(T.compile(f)(T.ones(2))[1:], f(T.ones(2))[1:], strict=True):
            assert (a.strides, a.flags.writeable, a.tolist()) == (b.strides, b.flags.writeable, b.tolist())
