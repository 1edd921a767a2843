"""Details of Python that compiled code must keep: class patterns, order of sets, iterators that a break cuts, classes
made anew with attributes of many kinds, powers of negative numbers."""

import collections
import collections.abc
import functools
import types
import typing

import fusegrad as fg

X = fg.ones(2)


def pause():
    """A call that breaks the graph."""
    print(end="")


def told(f, *args):
    try:
        return f(*args)
    except Exception as e:
        return type(e).__name__, str(e)


def same(f, *makers, calls=2):
    """The compiled function gives what ``f`` gives, and leaves its arguments the same."""
    g = fg.compile(f)
    for _ in range(calls):
        a, b = [m() for m in makers], [m() for m in makers]
        want, got = told(f, X, *a), told(g, X, *b)
        assert str(got) == str(want) and str(a) == str(b)
    return want


class Pair:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


class Half(Pair):
    __match_args__ = ("a",)


class ListArgs(Pair):
    __match_args__ = ["a", "b"]


class NoneArgs(Pair):
    __match_args__ = (None,)


class Number(int):
    pass


class Asked(dict):
    def get(self, key, default=None):
        return super().get(key, default) if key != "hidden" else default


class Anything(type):
    def __instancecheck__(cls, obj):
        return obj == 3


class Three(metaclass=Anything):
    pass


def twice(v):
    match v:
        case Pair(1, a=x):
            return x


def positional(v, cls):
    match v:
        case cls(p):
            return p
    return "no"


def key_of(v, k):
    match v:
        case {k.a: 1, k.b: x}:
            return x
        case {"hidden": x}:
            return x
    return "none"


def test_patterns_of_classes_and_mappings():
    def f(x):
        y = x * 2
        out = [told(twice, Pair(1, 2)), told(positional, Number(5), Number), told(positional, Pair(4, 5), Pair)]
        out += [told(positional, v, type(v)) for v in (ListArgs(1, 2), NoneArgs(1, 2), Half(7, 8))]
        out += [told(positional, 3, Three), told(positional, 4, Three), told(positional, 3, 3)]
        out += [told(key_of, {"m": 1, "n": 2}, Pair("m", "n")), told(key_of, {"m": 1, "n": 2}, Pair("m", "m"))]
        out.append(told(key_of, Asked(hidden=5), Pair("m", "n")))
        return y + 1, out

    out = same(f)[1]
    assert out[0] == ("TypeError", "Pair() got multiple sub-patterns for attribute 'a'")
    assert out[1:3] == [5, 4] and out[5] == 7 and out[3][0] == out[4][0] == "TypeError"
    assert out[9] == 2 and out[10][0] == "ValueError" and out[11] == "none"


def test_negative_numbers_to_a_power_that_changes():
    def f(x, n):
        return x * 2, (-1.0) ** n, (-2) ** float(n), (-1) ** n

    g = fg.compile(f)
    for n in (2, 3, 4, 5, 6):
        assert g(X, n)[1:] == f(X, n)[1:]


def shrunk():
    s = set(range(100))
    for n in range(100):
        if n not in (1, 64, 99):
            s.discard(n)
    return s


def test_sets_keep_the_order_that_their_history_gave_them():
    def f(x, s):
        out = [list(s), str(s), sum((v * 0.1 for v in s), 0.0)]
        s.discard(99)
        out.append(list(s))
        t = set(range(70))
        t -= set(range(2, 64))
        pause()
        return x * 2, out, list(t)

    assert list(shrunk()) != list({1, 64, 99}) or list(shrunk()) != list(set(list(shrunk())))
    same(f, shrunk)
    g = fg.compile(lambda x, s: (x * 2, list(s)))
    assert g(X, {1, 64})[1] == list({1, 64}) and g(X, shrunk())[1] == list(shrunk())


def test_iterators_over_dicts_and_sets_see_changes_after_a_break():
    def f(x, d, s):
        out = []
        for v in d.values():
            pause()
            out.append(v)
            for k in list(d):
                d[k] += 1
        items = iter({1: 2, 3: 4}.items())
        out.append(next(items))
        pause()
        out += [*items, type(items).__name__]
        return x * 2, out

    assert same(f, lambda: {1: 2, 3: 4, 5: 6}, lambda: {1})[1][:3] == [2, 5, 8]

    def grows(x, d):
        for k in d:
            pause()
            d[k + 10] = 1
        return x * 2

    assert same(grows, lambda: {1: 2, 3: 4}) == ("RuntimeError", "dictionary changed size during iteration")
    assert same(grows_a_set, lambda: {1, 2, 3}) == ("RuntimeError", "Set changed size during iteration")


def grows_a_set(x, s):
    for k in s:
        pause()
        s.add(k + 10)
    return x * 2


class Ordered(collections.OrderedDict):
    pass


def test_ordered_dicts():
    def f(x, o):
        y = x * 2
        made = Ordered.fromkeys("abc", 0)
        made.move_to_end("a")
        o.move_to_end("a", False)
        out = [list(o), list(made.items()), type(made).__name__, collections.OrderedDict.fromkeys("ab", value=1)]
        o.move_to_end(key="a", last=True)
        out += [o.setdefault("z", default=9), list(o), o.pop("q", default=3), o.setdefault(key="y")]
        out += [told(Ordered, [("a", 1)], None), collections.defaultdict.fromkeys("a", 1)]
        return y, out

    out = same(f, lambda: collections.OrderedDict.fromkeys("cba", 1))[1]
    assert out[0] == ["a", "c", "b"] and out[4] == 9 and out[5] == ["c", "b", "a", "z"] and out[6] == 3

    def moves(x, o):
        for k in o:
            o.move_to_end(k)
        return x * 2

    want = same(moves, lambda: collections.OrderedDict.fromkeys("abc"))
    assert want[0] == "RuntimeError"


class Gives:
    def __init__(self, v):
        self.v = v

    def __get__(self, obj, kind=None):
        return self.v


def test_classes_made_anew_hold_new_descriptors():
    def f(x):
        out = []
        for n in (1, 2, 3):
            pause()

            class C:
                @functools.cached_property
                def cached(self):
                    return n  # noqa: B023

                def two(self, a):
                    return a, n  # noqa: B023

                part = functools.partialmethod(two, n)
                given = Gives(n)

                @functools.singledispatchmethod
                def by_type(self, a):
                    return n  # noqa: B023

                def marked(self):
                    return 0

                marked.__isabstractmethod__ = n == 2
                marked = property(marked)

            pause()
            c = C()
            out.append((c.cached, c.part(), c.given, C.given, c.by_type(1), C.marked.__isabstractmethod__))
        return x * 2, out

    assert same(f, calls=3)[1] == [(n, (n, n), n, n, n, n == 2) for n in (1, 2, 3)]


class Loud(int):
    def __init__(self, n):
        self.asked = 0

    def __hash__(self):
        self.asked += 1
        return int(self)


class Documented:
    """The class's."""

    def __getattr__(self, name):
        raise AttributeError(name, "asked")


class Slots(Documented):
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1


class Shadow:
    """Stands for ``super`` in a module."""

    told = "shadow"


OTHER_SUPER = {"super": Shadow, "__name__": "other"}
exec("class Under:\n    def told(self):\n        return super().told", OTHER_SUPER)


class Plain:
    def kind(self):
        return super().__class__


class New(frozenset):
    def __new__(cls, items, extra):
        self = super().__new__(cls, items)
        self.extra = extra
        return self


class Counted(collections.defaultdict):
    pass


def test_objects_of_odd_classes():
    def f(x):
        y = x * 2
        doc, slots = Documented(), Slots()
        doc.__doc__ = "the object's"
        counted, frozen = Counted(int, a=1), New([1, 2], 3)
        keys = dict.fromkeys(map(Loud, range(3)))
        pause()
        out = [doc.__doc__, slots.a, told(lambda: slots.b), counted["b"], frozen.extra, sorted(frozen)]
        out += [sum(k.asked for k in keys), type(frozen).__name__, sum(k.asked for k in frozenset(keys))]
        base = frozenset(range(3))
        module = types.ModuleType("m")
        del module.__name__
        out += [OTHER_SUPER["Under"]().told(), Plain().kind() is super]
        out += [frozenset(base) is base, repr(module), told(super, 3, x)]
        return y + 1, out

    out = same(f)[1]
    assert out[0] == "the object's" and out[6] == 3 and out[9:12] == ["shadow", True, True]


FIELDS = (
    "name path msg filename lineno text errno strerror value code encoding start reason obj extra exceptions".split()
)


def test_what_lives_on_after_a_break():
    def f(x):
        moved = SyntaxError("bad")
        moved.filename, moved.lineno = "file", 4
        away = OSError(2, "no")
        away.filename = "there"
        errors = [moved, away, ImportError("m", name="n", path="p"), OSError(2, "no", "file"), StopIteration(5)]
        errors += [SystemExit(3), UnicodeDecodeError("utf8", b"abc", 0, 1, "why"), AttributeError("a", name="n", obj=3)]
        errors += [NameError("q", name="w"), ExceptionGroup("g", [ValueError(1)]), KeyError("k")]
        errors[2].extra = 1
        t = (1, [2])
        u, kept, pair = t, {"t": t}, (t, t)
        negative, whole = (-1.5).__format__, (5).__add__
        pause()
        out = [t is u, kept["t"] is t, pair[0] is t, pair[1] is t, negative(".1f"), whole(3)]
        try:
            types.SimpleNamespace.odd = 1
        except TypeError as e:
            out.append(str(e))
        return x * 2, out, errors

    (_, out, got), (_, _, want) = fg.compile(f)(X), f(X)
    assert out[:6] == [True, True, True, True, "-1.5", 8] and "immutable" in out[6]
    for a, b in zip(got, want, strict=True):
        fields = [(n, str(getattr(b, n))) for n in FIELDS if hasattr(b, n)]
        assert [(n, str(getattr(a, n))) for n in FIELDS if hasattr(a, n)] == fields
        assert repr(a) == repr(b) and str(a) == str(b) and str(a.args) == str(b.args) and type(a) is type(b)


KIND = typing.TypeVar("KIND")


def test_objects_in_tuples_are_keys_and_arguments_of_types():
    mark = Documented()

    def f(x, d):
        made = {(mark, 5): 1}
        kinds = collections.abc.Callable[[KIND], int]
        return x * 2, d[mark, 1], (mark, 2) in d, d.get((mark, 3)), made[mark, 5], str(kinds), kinds.__args__[0] is KIND

    g, d = fg.compile(f), {(mark, 1): 5, (mark, 2): 6}
    assert g(X, d)[1:] == f(X, d)[1:] == (5, True, None, 1, "collections.abc.Callable[[~KIND], int]", True)
