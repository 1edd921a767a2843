"""Features of Python in and around captured code, each compared with the plain function, on every version."""

import asyncio
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import inspect
import sys
import types
import weakref
from typing import Any

import pytest
from helpers import tree

import fusegrad as T

X = [1.0, -2.0, 3.0]
LOG: list = []


def compare(f: Any, calls: int = 3) -> dict:
    T.compiler.reset()
    c = T.compile(f)
    want = tree(f(T.tensor(X)))
    for _ in range(calls):
        assert tree(c(T.tensor(X))) == want
    return T.compiler.stats()


# ---- coroutines, generators


async def double(x):
    return x * 2


async def outer(x):
    y = await double(x)
    await asyncio.sleep(0)
    return y + 1


async def numbers(x):
    for k in range(3):
        yield x * k


@contextlib.asynccontextmanager
async def five():
    yield 5


async def consumer(x):
    total = x * 0
    async for v in numbers(x):
        total = total + v
    async with five() as m:
        total = total + m
    return total + sum([v async for v in numbers(x)])


def generator(x):
    y = x * 2
    try:
        z = yield y
        yield y.sum() + z
        return 3
    finally:
        LOG.append("closed")


@pytest.mark.parametrize("f", [lambda x: asyncio.run(outer(x)), lambda x: asyncio.run(consumer(x))])
def test_coroutines_are_run_by_captured_code(f):
    compare(f)


def test_compiled_generator_and_coroutines():
    """They run as they are, and say so; fullgraph refuses them."""

    def consume(g: Any) -> Any:
        it = g(T.tensor(X))
        out = [type(it).__name__, next(it), it.send(5)]
        with pytest.raises(StopIteration) as e:
            next(it)
        it = g(T.tensor(X))
        next(it)
        it.close()
        log, LOG[:] = list(LOG), []
        return tree([*out, e.value.value, log])

    async def everything(g: Any) -> list:
        return [v async for v in g(T.tensor(X))]

    users = {
        generator: (consume, inspect.isgeneratorfunction),
        outer: (lambda g: tree(asyncio.run(g(T.tensor(X)))), inspect.iscoroutinefunction),
        numbers: (lambda g: tree(asyncio.run(everything(g))), inspect.isasyncgenfunction),
    }
    for f, (use, kind) in users.items():
        T.compiler.reset()
        c = T.compile(f)
        assert kind(c) and use(c) == use(f)
        if f is numbers:
            assert "an async generator" in T.compiler.stats()["break_reasons"][0]
        with pytest.raises(TypeError, match="generator or coroutine"):
            T.compile(f, fullgraph=True)


def test_generators_inside():
    def gen(x):
        for k in range(3):
            r = yield x * k
            if r:
                x = x + r
        return "end"

    def delegate(x):
        r = yield from gen(x)
        yield r

    def f(x):
        g = gen(x)
        out = [next(g), g.send(10)]
        try:
            while True:
                next(g)
        except StopIteration as e:
            out.append(e.value)
        return out, list(delegate(x))

    assert compare(f)["graph_breaks"] == 0


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


@pytest.mark.not_verified("verification compares a set of results in its order, which is none")
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
