"""Features of Python in and around captured code, each compared with the plain function, on every version."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import sys
import types
import weakref
from typing import Any

import pytest
from helpers import compare

import fusegrad as T

# ---- match


@dataclasses.dataclass
class Point:
    a: Any
    b: Any


class Kind(enum.Enum):
    A = 1
    B = 2


def matched(v, x):
    match v:
        case 0:
            return x
        case 1 | 2:
            return x * 2
        case "s" as q:
            return x * 3, q
        case [a, *r] if a == 9:
            return x * a, r
        case [a, b]:
            return x * a + b
        case (a, (b, c), *_, d):
            return x * a * b * c * d
        case {"k": k, **rest}:
            return x * k, rest
        case Point(a=3, b=b):
            return x * b
        case Point(a, b):
            return x * a - b
        case Kind.A:
            return x * 11
        case float(v):
            return x * v
        case None:
            return x * 12
        case True:
            return x * 13
        case bytes():
            return x * 14
        case T.Tensor():
            return x * v
        case _:
            return x * 15


SUBJECTS = [0, 2, "s", [9, 1, 2], [1, 2], (1, (2, 3), 4, 5), {"k": 3, "z": 1}, {}, Point(3, 4), Point(1, 2), Kind.A,
            Kind.B, 2.5, None, True, b"", object]  # fmt: skip


@pytest.mark.parametrize("subject", SUBJECTS, ids=repr)
def test_match(subject):
    compare(lambda x: matched(subject, x))


# ---- names and unpacking


def test_names():
    def f(x):
        y = x * 2
        z = y + 1
        del y
        o = types.SimpleNamespace(a=1, b=2)
        del o.a
        numbers = [1, 2, 3, 4]
        del numbers[1:3], numbers[0]
        try:
            y  # noqa: B018, F821
        except UnboundLocalError as e:
            error = str(e)
        rows = [q := x * k for k in range(3)]
        a, *b, c = rows
        return z, vars(o), numbers, error, q, [*b, *(c,), a], {**{"a": a}, "b": 1}

    assert compare(f)["graph_breaks"] == 0


def test_deleted_cell():
    def f(x):
        k = 2

        def g():
            return x * k  # noqa: F821

        a = g()
        del k
        try:
            g()
        except NameError as e:
            return a, str(e)

    assert compare(f)["graph_breaks"] == 0


def test_comprehensions():
    def f(x):
        i, k = 7, 3
        shadowed = [i for i in range(3)]
        late = [lambda: i for i in range(2)]  # noqa: B023
        nested = [[x * i * k for i in range(j)] for j in range(2)]
        return shadowed, i, [g() for g in late], nested, {i: x + i for i in range(2)}, {i % 2 for i in range(k)}

    assert compare(f)["graph_breaks"] == 0


# ---- managers, functools, weak references, copies


class Swallow:
    def __init__(self, k):
        self.k, self.log = k, []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, tb):
        self.log.append(str(kind))
        return kind is ValueError


def test_managers():
    def f(x):
        y = x
        with Swallow(1) as a, Swallow(2) as b, contextlib.suppress(KeyError):
            y = y * a.k * b.k
            {}["z"]
        with Swallow(1) as c:
            y = y + 1
            raise ValueError
        with contextlib.ExitStack() as stack:
            d = stack.enter_context(Swallow(3))
            stack.callback(lambda: d.log.append("called"))
            y = y * d.k
            stack.push(lambda *e: True)
            raise OSError
        with contextlib.nullcontext(4) as k:
            y = y * k
        return y, a.log, b.log, c.log, d.log

    compare(f)


@functools.lru_cache(None)
def cached(k):
    return k * 2


class Lazy:
    def __init__(self):
        self.n = 0

    @functools.cached_property
    def v(self):
        self.n += 1
        return 3


@functools.singledispatch
def by_type(a, x):
    return x


@by_type.register
def _(a: int, x):
    return x * 2


@by_type.register(list)
def _(a, x):
    return x * 3


def test_functools():
    def f(x):
        c = Lazy()
        return x * c.v * c.v * cached(3), c.n, vars(c), by_type(1, x), by_type([], x), by_type("s", x)

    assert compare(f)["graph_breaks"] == 0


def test_weak_references():
    def f(x):
        o = Lazy()
        r = weakref.ref(o)
        d = weakref.WeakKeyDictionary()
        d[o] = 3
        return x * r().v * d[o], len(weakref.WeakSet([o])), r() is o

    compare(f)


def test_copies():
    def f(x):
        a = [x, [1, {"k": x * 2}]]
        b, c = copy.copy(a), copy.deepcopy(a)
        c[0].add_(1)
        b[1].append(2)
        return a, b, c

    assert compare(f)["graph_breaks"] == 0


# ---- values


def test_containers():
    def f(x):
        d = {"b": x, "a": x * 2}
        keys, items = d.keys(), d.items()
        d["c"] = 1
        d["b"] = d.pop("a")
        s = {3, 1, 2}
        s |= {5}
        s ^= {2, 9}
        numbers = list(range(6))
        numbers[1:3] = [9]
        numbers[::2] = [0] * len(numbers[::2])
        numbers[:0] = ["a"]
        del numbers[::3]
        order = collections.OrderedDict(a=1, b=2)
        order.move_to_end("a")
        return (
            list(keys),
            [p[0] for p in items],
            keys & {"b"},
            list(reversed(d)),
            d | {"z": 1},
            s,
            s & {3},
            numbers,
            order,
        )

    assert compare(f)["graph_breaks"] == 0


def test_bytes():
    def f(x):
        b, ba = b"ab\x01", bytearray(b"ab")
        ba[0] = 5
        ba += b"z"
        ba.append(3)
        return x * b[2], bytes(ba), b.hex(), memoryview(b)[0], int.from_bytes(b, "big"), len(ba), b"%d" % 3, {b: 1}

    compare(f)


def test_formats():
    def f(x):
        n, v = x.shape[0], x.sum().item()
        text = (
            f"{n:>5}|{n!r}|{v:.2f}|{v=:.1f}|{x.shape}|{n:{n}d}|{tuple(x.shape)!s:>10}|{n / 7:e}|{n:,}|{n:#x}|{'a':^{n}}"
        )
        return text, "%d %5.2f" % (n, v), f"{n:>4}", str(n) + repr(v)  # noqa: UP031

    compare(f)


# ---- syntax of later versions

GENERIC_FUNCTION = """
def g[A](x: A) -> A:
    return x * 2

def f(x):
    return g(x)
"""
GENERIC_CLASS = """
class G[A]:
    def __init__(self, a: A):
        self.a = a

    def m[B](self, b: B):
        return self.a * b

def f(x):
    return G(2).m(x), G[int](3).m(x)
"""
GENERICS_INSIDE = """
def f(x):
    def g[A](y: A) -> A:
        return y * 3

    type L[A] = list[A]

    class C[A]:
        v = 2

    return g(x), L.__name__, C().v, g.__type_params__[0].__name__
"""
NESTED_F_STRING = """
def f(x):
    return f"{f"{x.shape[0]}"}", x * 2
"""
TEMPLATE = """
def f(x):
    n = x.shape[0]
    t = t"a{n:>3}b{n!r}"
    fields = [(i.value, i.expression, i.conversion, i.format_spec) for i in t.interpolations]
    return t.strings, fields, x * t.values[0]
"""
TWO_CLASSES = """
def f(x):
    try:
        raise ValueError
    except ValueError, TypeError:
        return x * 2
"""
NEWER = {
    "generic function": (12, GENERIC_FUNCTION),
    "generic class": (12, GENERIC_CLASS),
    "generics inside": (12, GENERICS_INSIDE),
    "nested f-string": (12, NESTED_F_STRING),
    "template": (14, TEMPLATE),
    "except without parentheses": (14, TWO_CLASSES),
}


@pytest.mark.parametrize("name", NEWER)
def test_newer_syntax(name):
    minor, source = NEWER[name]
    if sys.version_info < (3, minor):
        pytest.skip(f"syntax of Python 3.{minor}")
    names: dict = {"__name__": __name__}
    exec(source, names)
    compare(names["f"])
