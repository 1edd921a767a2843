"""Attributes as Python finds and deletes them: what a failed lookup falls back to, descriptors, bound C methods; and
objects as keys, told apart by who they are."""

import collections
import functools
import typing
import weakref

import pytest

import fusegrad as T
from fusegrad import nn

from .helpers import tree

X = [1.0, -2.0, 3.0]


def outcome(f, make):
    try:
        return tree(f(*make()))
    except Exception as e:
        return type(e), str(e)


def alike(f, *makers, calls=2):
    """f compiled gives what f gives, for arguments made anew, also when another maker's went before."""
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(calls):
        for make in makers:
            assert outcome(c, make) == outcome(f, make)
    return T.compiler.stats()


# ---- keys


A, B, C = (T.tensor(X) * n for n in (1, 2, 3))
TELLERS = {
    "set": lambda a, b, c: a + len({a, b, c}),
    "set call": lambda a, b, c: a + len(set([a, b])),
    "frozenset": lambda a, b, c: a + len(frozenset((a, b, c))),
    "in set": lambda a, b, c: a * 2 if a in {b, c} else a,
    "dict": lambda a, b, c: a + len({a: 1, b: 2, c: 3}),
    "item": lambda a, b, c: a + {a: 1, b: 2, c: 3}[a],
    "get": lambda a, b, c: a + {a: 1}.get(b, 7),
    "keys": lambda a, b, c: a + len({a: 1}.keys() & {b: 1}.keys()),
    "tuples": lambda a, b, c: a + len({(a, 1), (b, 1)}),
    "operators": lambda a, b, c: a + len({a} | {b}) + len({a} - {b}) + len({a, b} & {c, a}) + ({a} == {b}),
    "methods": lambda a, b, c: a + {a}.isdisjoint([b]) + {a}.issubset({b}) * 2 + len({a}.union([b], [c])) * 4,
    "of frozenset": lambda a, b, c: a + len(frozenset([a]).union([b])),
    "fromkeys": lambda a, b, c: a + len(dict.fromkeys([a, b, c])),
    "comprehension": lambda a, b, c: a + len({t: 1 for t in (a, b, c)}) + len({t for t in (a, b)}),  # noqa: C416
    "counter": lambda a, b, c: a + len(collections.Counter([a, b])),
    "equal dicts": lambda a, b, c: a + ({a: 1} == {b: 1}),
}


@pytest.mark.parametrize("name", TELLERS)
@pytest.mark.parametrize("kind", ["tensors", "objects"])
def test_keys_are_told_apart_in_later_calls(name, kind):
    tell = TELLERS[name]
    if kind == "objects":

        class Adding:
            """Something like a tensor as the left operand, by identity otherwise."""

            def __init__(self):
                self.t = T.tensor(X)

            def __add__(self, n):
                return self.t + n

            def __mul__(self, n):
                return self.t * n

        a, b, c = Adding(), Adding(), Adding()
    else:
        a, b, c = A, B, C
    s = alike(tell, lambda: (a, b, c), lambda: (a, a, a), lambda: (b, b, c), lambda: (c, b, c), lambda: (a, c, c))
    assert s["plain_frames"] == 0


def test_keys_of_dicts_and_sets_from_before_are_told_apart():
    a, b = T.tensor(X), T.tensor(X)

    def put(x, p, q, d):
        d[p] = 1
        d[q] = 2
        return x + d[p] + len(d), len(d)

    def add(x, p, q, s):
        s.add(p)
        s.add(q)
        return x + len(s)

    def look(x, p, d):
        return x + len(list(d)) + d.get(p, 9)

    x = T.tensor(X)
    alike(put, lambda: (x, a, b, {}), lambda: (x, a, a, {}), lambda: (x, a, b, {a: 5}), lambda: (x, b, b, {a: 5}))
    alike(add, lambda: (x, a, b, set()), lambda: (x, a, a, set()), lambda: (x, b, b, set()))
    alike(look, lambda: (x, a, {a: 1}), lambda: (x, b, {a: 1}), lambda: (x, b, {b: 1}))


def test_keys_written_and_only_counted():
    a, b = T.tensor(X), T.tensor(X)

    def count(x, p, q, d):
        d[p] = 1
        d[q] = 2
        return x + len(d)

    def pairs(x, p, q, d):
        d.update([(p, 1), (q, 2)])
        return x + len(d)

    x = T.tensor(X)
    for f in (count, pairs):
        alike(f, lambda: (x, a, b, {}), lambda: (x, a, a, {}), lambda: (x, a, b, {a: 1}), lambda: (x, b, b, {a: 1}))


def test_pairs_that_are_none():
    def f(x, d, src):
        try:
            d.update(src)
        except (TypeError, ValueError) as e:
            return x, str(e), d
        return x, d

    for src in ([(1, 2, 3)], [1], 3, [[1, 2], "ab"]):
        s = alike(f, lambda src=src: (T.tensor(X), {0: 0}, src))
        assert not any("fault" in r for r in s["break_reasons"])


def test_shared_parameters_in_a_set():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    c = T.compile(lambda m, x: x + len(set(m.parameters())))
    assert c(m, T.zeros(1)).item() == 4
    m[1].weight = m[0].weight
    assert c(m, T.zeros(1)).item() == 3


class Counted:
    def __init__(self):
        self.n = 0


def test_objects_in_a_frozenset_are_looked_at():
    one = Counted()
    kept = frozenset([one])

    def change(x, s, o):
        (other,) = s
        o.n += 1
        return x + other.n

    def read(x):
        return x + sum(o.n for o in kept)

    def member(x, o):
        return x + (o in kept) * 2 + len(kept)

    x = T.tensor(X)
    c, r, m = T.compile(change), T.compile(read), T.compile(member)
    for n in (1, 2):
        assert tree(c(x, kept, one)) == tree(x + n)
    for n in (5, 7, 7):
        one.n = n
        assert tree(r(x)) == tree(x + n)
    assert tree(m(x, one)) == tree(x + 3)
    assert tree(m(x, Counted())) == tree(x + 1)
    held = T.tensor(X)
    s = frozenset([held])
    t = T.compile(lambda x: x + sum(v.sum() for v in s))
    assert tree(t(x)) == tree(x + 2)
    held.mul_(2)
    assert tree(t(x)) == tree(x + 4)


def test_constants_in_a_frozenset_take_no_break():
    kinds = frozenset([T.float32, int, len, "a", 1, 2.5, (1, "b"), frozenset([3])])
    for v in (T.float32, float, len, "z", True, 2.5, (1, "b"), frozenset([3])):
        s = alike(lambda x, v: x + (v in kinds), lambda v=v: (T.tensor(X), v))
        assert s["graph_breaks"] == 0


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


class Weight:
    def __init__(self, grams):
        self.grams = grams

    def __eq__(self, other):
        return self.grams == other.grams if isinstance(other, Weight) else NotImplemented

    __hash__ = None

    def __index__(self):
        return self.grams


class Whole(int):
    def __eq__(self, other):
        return NotImplemented

    __hash__ = int.__hash__


class Scale:
    def __ne__(self, other):
        return NotImplemented


def test_equality_that_both_sides_do_not_know_is_identity():
    weight, whole, scale, plain = Weight(3), Whole(4), Scale(), object()

    def compared(x, grams):
        weight.grams = grams
        found = [weight == 3, weight != 3, weight == None, "a" == weight, weight in (1, [2], weight), weight == scale]  # noqa: E711
        found += [
            scale != 2,
            scale != scale,
            weight == Weight(5),
            weight != plain,
            [weight] == [5],
        ]
        return x * sum(2**i for i, f in enumerate(found) if f), found

    fast = T.compile(compared, fullgraph=True)
    for grams in (3, 5, 5, 6):
        want, got = compared(T.ones(2), grams), fast(T.ones(2), grams)
        assert want[1] == got[1] and want[0].tolist() == got[0].tolist()

    def numbers(x):
        return x * 2, whole == 4, 4 == whole, whole == 4.0, whole != 4, weight == 4

    want, got = numbers(T.ones(2)), T.compile(numbers)(T.ones(2))
    assert want[1:] == got[1:]


def test_numbers_of_objects_that_are_indexes():
    weight = Weight(3)

    def made(x):
        return x * int(weight) + float(weight), int(weight), float(weight)

    fast = T.compile(made, fullgraph=True)
    for grams in (3, 7, 7, -2):
        weight.grams = grams
        want, got = made(T.ones(2)), fast(T.ones(2))
        assert want[1:] == got[1:] and type(got[2]) is float and want[0].tolist() == got[0].tolist()


class Amount:
    def __init__(self, units):
        self.units = units

    def __eq__(self, other):
        return self.units == (other.units if isinstance(other, Amount) else other)

    __hash__ = None


def test_numbers_are_found_among_objects_that_equal_them():
    amount = Amount(3)
    kept, pair, named, line = [5, amount], (amount, "b"), {"k": amount, "n": [1]}, collections.deque([amount, 9])

    def found(x, units):
        amount.units = units
        seen = [
            3 in kept,
            3 not in pair,
            3 in named.values(),
            3 in {"k": amount}.values(),
            3 in line,
            [3] in [[amount]],
        ]
        seen += [x.shape[0] in kept, None in kept, "b" in pair, Amount(4) in named.values(), [1] in named.values()]
        return x * units, seen

    fast = T.compile(found, fullgraph=True)
    for units, size in ((3, 2), (4, 2), (4, 4), (9, 9), (3, 5)):
        want, got = found(T.ones(size), units), fast(T.ones(size), units)
        assert want[1] == got[1] and want[0].tolist() == got[0].tolist()
