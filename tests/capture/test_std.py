"""The standard library in captured code: iterators, containers and their subclasses, functools, copy, re."""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import functools
import heapq
import io
import itertools
import operator
import re
import sys
import types
from typing import Any

import pytest
from helpers import check, tree

import fusegrad as T

PATTERN = re.compile(r"l(\d+)_(\w+)")
SECOND = operator.itemgetter(1)
GELU = functools.partial(T.nn.functional.gelu, approximate="tanh")


class AttrDict(dict):
    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


class Filling(dict):
    def __missing__(self, key: Any) -> Any:
        self[key] = value = key * 2
        return value


class Numbers(list):
    def total(self) -> Any:
        return sum(self)

    def append(self, x: Any) -> None:
        super().append(x * 10)


class Shouting(dict):
    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key.upper(), value)


class Settings:
    def __init__(self, w: float) -> None:
        self.w, self.names, self.inner = w, ["a"], {"k": [1]}


class ByValue:
    def __init__(self, v: Any) -> None:
        self.v = v

    def __lt__(self, other: Any) -> bool:
        return self.v < other.v


def chains(x: Any, y: Any) -> Any:
    pairs = list(itertools.pairwise([x, y, x]))
    sums = list(itertools.accumulate([x, y, x]))
    products = list(itertools.accumulate([x, y], operator.mul, initial=x))
    both = [a * b for a, b in itertools.product([x, y], repeat=2)]
    star = list(itertools.starmap(lambda p, q: p - q, [(x, y), (y, x)]))
    flat = list(itertools.chain([x], (y,), itertools.chain.from_iterable([[x], [y]])))
    longest = list(itertools.zip_longest([x, y], [1], fillvalue=0))
    return pairs, sums, products, both, star, flat, longest, list(itertools.combinations([x, y, x], 2))


def numbers(x: Any, y: Any) -> Any:
    counter = itertools.count(5, 2)
    cycled = itertools.cycle([1, 2])
    left, right = itertools.tee(iter([1, 2, 3]))
    return (
        x * next(counter) + next(counter),
        [next(cycled) for _ in range(5)],
        list(itertools.compress([1, 2, 3], [1, 0, 1])),
        list(itertools.filterfalse(lambda v: v % 2, range(5))),
        next(left),
        list(right),
        list(left),
        list(itertools.repeat(7, 2)),
        list(itertools.islice(range(10), 2, 8, 2)),
        list(itertools.islice(itertools.count(), 3)),
        list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1])),
        list(itertools.permutations([1, 2, 3], 2)),
    )


def laziness(x: Any, y: Any) -> Any:
    """What is consumed, and when: seen by what the sources leave behind."""
    log: list = []

    def source(name: str, n: int = 5) -> Any:
        for k in range(n):
            log.append((name, k))
            yield k

    it = source("a")
    first = list(itertools.islice(it, 2))
    after = next(it)
    zipped = list(zip(source("b"), [1], strict=False))
    mapped = next(map(lambda v: v + 1, source("c")))
    chosen = next(filter(lambda v: v > 1, source("d")))
    taken = list(itertools.takewhile(lambda v: v < 2, source("e")))
    chained = next(itertools.chain(source("f"), source("g")))
    pulled = next(iter(lambda: log.append("call") or len(log), 3))
    two = map(lambda a, b: (a, b), source("h", 2), source("i", 3))
    return x * after, first, zipped, mapped, chosen, taken, chained, pulled, list(two), log


def groups(x: Any, y: Any) -> Any:
    data = [("a", x), ("a", y), ("b", x)]
    sums = {k: sum(v[1] for v in g) for k, g in itertools.groupby(data, key=lambda t: t[0])}
    late = [(k, list(g)) for k, g in list(itertools.groupby([1, 1, 2]))]
    it = itertools.groupby([1, 1, 1, 2, 2])
    k, g = next(it)
    first = next(g)
    k2, g2 = next(it)
    return sums, late, k, first, k2, list(g), list(g2), list(it)


class Sequence:
    def __init__(self, log: list) -> None:
        self.log = log

    def __len__(self) -> int:
        return 3

    def __getitem__(self, k: int) -> int:
        self.log.append(k)
        if k >= 3:
            raise IndexError
        return k * 2


class Down:
    def __init__(self, n: int, log: list) -> None:
        self.n, self.log = n, log

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> int:
        if not self.n:
            raise StopIteration
        self.n -= 1
        self.log.append(self.n)
        return self.n


def protocols(x: Any, y: Any) -> Any:
    log: list = []
    head = next(iter(Sequence(log)))
    back = next(reversed(Sequence(log)))
    down = Down(3, log)
    pair = next(zip(down, Sequence(log), strict=False))
    return x * head, back, pair, down.n, list(Sequence(log)), list(enumerate(down)), log


def heaps(x: Any, y: Any) -> Any:
    heap = [(3, "c"), (1, "a")]
    heapq.heapify(heap)
    heapq.heappush(heap, (2, "b"))
    least = heapq.heappop(heap)
    both = heapq.heappushpop(heap, (0, "z")), heapq.heapreplace(heap, (9, "y"))
    return x * least[0], heap, both, heapq.nsmallest(2, [3, 1, 2]), heapq.nlargest(1, [3, 1, 2], key=lambda v: -v)


def functional(x: Any, y: Any) -> Any:
    @functools.cmp_to_key
    def falling(a: Any, b: Any) -> int:
        return b - a

    return (
        functools.reduce(lambda a, b: a * b, [x, y, x]),
        GELU(x),
        functools.partial(lambda a, b, k=1: a * b + k, y, k=3)(x),
        sorted([(1, "b"), (2, "a")], key=SECOND),
        operator.methodcaller("mul", 2)(x),
        operator.attrgetter("shape")(x),
        list(map(operator.itemgetter(0), [[x], [y]])),
        sorted([3, 1, 2], key=falling),
        [v.v for v in sorted([ByValue(3), ByValue(1)])],
        max([ByValue(1), ByValue(2)], key=operator.attrgetter("v")).v,
    )


def regular(x: Any, y: Any) -> Any:
    out: dict = {}
    for name in ("l1_w", "l2_b", "other"):
        if m := PATTERN.fullmatch(name):
            out.setdefault(int(m.group(1)), {})[m[2]] = x * len(out)
    words = re.findall(r"\w", "a b"), re.split("_", "a_b"), re.sub(r"\d", lambda m: m.group() * 2, "a1")
    return out, words, [m.start() for m in re.finditer("a", "banana")], re.escape("a.b"), PATTERN.pattern


def copies(x: Any, y: Any) -> Any:
    s = Settings(2.0)
    s.inner["t"] = x
    shallow, deep = copy.copy(s), copy.deepcopy(s)
    shallow.names.append("b")
    deep.names.append("c")
    shared = [1]
    twice = copy.deepcopy([shared, shared])
    twice[0].append(2)
    return s, shallow, deep, twice, copy.copy([x, y]), copy.copy({"a": x}), copy.deepcopy((x, [y]))


def made_containers(x: Any, y: Any) -> Any:
    d = AttrDict(a=1)
    d.b = x * 2
    d["c"] = 3
    n = same = Numbers([1, 2])
    n.append(3)
    n += [4]
    nested: Any = collections.defaultdict(lambda: collections.defaultdict(int))
    nested["a"]["b"] += 2
    own = collections.defaultdict(lambda: x * 0)
    for k in range(3):
        own[k % 2] = own[k % 2] + y * k
    counts = collections.Counter("abca")
    counts.update(["b"])
    f = Filling()
    ns = types.SimpleNamespace(a=1, t=x)
    ns.b = d.a + 1
    return (
        (d.b * d.a + d.c, d, hasattr(d, "nope"), AttrDict({"k": 1}).k),
        (n, n is same, n.total(), len(n), n[1:]),
        (nested, own[0], own[1], own[7], sorted(own)),
        (counts, counts.most_common(1), counts["none"], counts + counts),
        (f["ab"], f, f.get("zz"), ns.t * ns.b, vars(ns)["a"]),
    )


BODIES = [chains, numbers, laziness, groups, protocols, heaps, functional, regular, copies, made_containers]


@pytest.mark.parametrize("f", BODIES, ids=lambda f: f.__name__)
def test_body(f: Any) -> None:
    check(f, (T.tensor([1.0, 2.0]), T.tensor([0.5, 3.0])), breaks=0)


def counters(x: Any, c: Any) -> Any:
    c.update({"a": 2, "b": 1})
    c.update(["a", "z"])
    c.subtract(a=1)
    c["q"] += 1
    del c["nope"]
    return x * c["a"], c.most_common(), c["none"], c.total(), c + c, c | collections.Counter(a=9), c.copy(), c == c


def ordered(x: Any, d: Any) -> Any:
    d.move_to_end("a")
    gone = d.popitem(last=False)
    d["new"] = 1
    d.move_to_end("new", last=False)
    last = d.popitem()
    d[gone[0]] = gone[1]
    return (
        x,
        gone,
        last,
        list(d.items()),
        list(reversed(d)),
        d.copy(),
        d == collections.OrderedDict(reversed(d.items())),
    )


def defaults(x: Any, d: Any) -> Any:
    d["k"].append(len(d["k"]))
    d["t"].append(x)
    return d["k"][-1], sum(d["t"]), "none" in d, d.get("none"), d.copy(), d | {"z": 1}


def attributes(x: Any, d: Any) -> Any:
    d.n += 1
    d["z"] = 3
    d.w = x * d.lr
    return d.w * d.n, hasattr(d, "nope"), getattr(d, "nope", 4), len(d), list(d), d.get("lr"), {**d}


def own_methods(x: Any, d: Any) -> Any:
    d["key"] = x * 2
    d.update(other=1)
    return d["KEY"], list(d)


def own_list(x: Any, n: Any) -> Any:
    n.append(len(n))
    n[0] = 5
    return x * n.total(), n[0], list(n), [v for v in n], n[-1]


def missing(x: Any, d: Any) -> Any:
    return x, d["a"], d["b"], dict(d), "c" in d, d.get("c")


def lists(x: Any, items: Any) -> Any:
    items += [1]
    items *= 2
    items[0] = 7
    items.insert(1, 5)
    return x * items.count(1), items.copy(), items.index(5)


def queues(x: Any, q: Any) -> Any:
    q.rotate(1)
    q.appendleft(x)
    q += [3]
    return q.pop(), len(q), q[0] * 2


CONTAINERS = [
    (counters, collections.Counter(a=1)),
    (ordered, collections.OrderedDict(a=1, b=2, c=3)),
    (defaults, collections.defaultdict(list)),
    (attributes, AttrDict(n=1, lr=0.5)),
    (own_methods, Shouting(A=1)),
    (own_list, Numbers([1, 2])),
    (missing, Filling(a=1)),
    (lists, [2, 3]),
    (queues, collections.deque([1, 2], maxlen=3)),
]


@pytest.mark.parametrize(("f", "given"), CONTAINERS, ids=lambda v: getattr(v, "__name__", ""))
def test_container_from_before(f: Any, given: Any) -> None:
    """Effects on containers with behaviour of their own are those of Python, their order included."""
    check(f, (T.tensor([1.0, 2.0]), given), breaks=None)
    T.compiler.reset()
    plain, compiled, c = copy.deepcopy(given), copy.deepcopy(given), T.compile(f)
    for _ in range(3):  # on one object that changes
        x = T.tensor([1.0, 2.0])
        try:
            want = repr(f(x, plain))
        except KeyError:
            with pytest.raises(KeyError):
                c(x, compiled)
            continue
        assert repr(c(x, compiled)) == want
        assert repr(compiled) == repr(plain)


def test_cached_functions() -> None:
    """Asked at every call: a cleared cache is seen; tensors come from outside of the graph."""
    made: list = []

    @functools.lru_cache
    def table(n: int) -> Any:
        made.append(n)
        return T.arange(float(n)) * len(made)

    @functools.cache
    def size(n: int, k: str = "a") -> int:
        return n * factor[0]

    factor = [1]
    T.compiler.reset()
    c = T.compile(lambda x: x + table(2) * size(3, k="b"))
    x = T.zeros(2)
    assert c(x).tolist() == [0.0, 3.0] and c(x).tolist() == [0.0, 3.0] and made == [2]
    table.cache_clear()
    size.cache_clear()
    factor[0] = 2
    assert c(x).tolist() == [0.0, 12.0] and made == [2, 2]
    assert T.compiler.stats()["graph_breaks"] == 0


def test_single_dispatch() -> None:
    @functools.singledispatch
    def total(v: Any) -> Any:
        return 0

    @total.register(list)
    def _(v: Any) -> Any:
        return sum(total(q) for q in v)

    @total.register(T.Tensor)
    def _(v: Any) -> Any:
        return v.sum()

    T.compiler.reset()
    c = T.compile(lambda x: total([x, [x], "no", 3.0]))
    assert c(T.ones(2)).item() == 4.0 and T.compiler.stats()["graph_breaks"] == 0
    total.register(float, lambda v: v)
    assert c(T.ones(2)).item() == 7.0


def test_exit_stack() -> None:
    def f(x: Any, fail: bool) -> Any:
        log: list = []

        @contextlib.contextmanager
        def level(n: int) -> Any:
            log.append(("in", n))
            try:
                yield n
            except ValueError:
                log.append(("caught", n))
            finally:
                log.append(("out", n))

        with contextlib.ExitStack() as stack:
            a = [stack.enter_context(level(k)) for k in range(2)]
            stack.callback(log.append, "callback")
            stack.enter_context(T.no_grad())
            if fail:
                raise ValueError("x")
            x = x * (sum(a) + 1)
        return x, log, T.is_grad_enabled()

    check(f, (T.ones(2), False), breaks=0)
    check(f, (T.ones(2), True), breaks=0)


@pytest.mark.parametrize("ask", [sys.exception, lambda: sys.exc_info()[1]])
def test_the_exception_being_handled(ask: Any) -> None:
    class Asks:
        def __enter__(self) -> None:
            assert ask() is None

        def __exit__(self, kind: Any, exc: Any, trace: Any) -> bool:
            seen.append(repr(ask()))
            return kind is KeyError

    seen: list = []

    def f(x: Any, fail: bool) -> Any:
        seen.clear()
        seen.append(ask())
        with Asks():
            if fail:
                raise KeyError("with")
        try:
            raise ValueError("outer")
        except ValueError as e:
            x = x * (2 if ask() is e else 3)
            try:
                raise TypeError("inner")
            except TypeError as e2:
                x = x * (5 if ask() is e2 else 7)
            finally:
                x = x * (11 if ask() is e else 13)
        return x, list(seen), ask()

    for fail in (False, True):
        check(f, (T.ones(2), fail), breaks=0)
    assert T.compile(f)(T.ones(2), True)[0].tolist() == [110.0, 110.0]


@pytest.mark.parametrize("ask", [sys.exception, lambda: sys.exc_info()[1]])
def test_the_exception_its_caller_handles(ask: Any) -> None:
    def f(x: Any) -> Any:
        return x + 1, repr(ask())

    c = T.compile(f)
    for _ in range(2):
        assert c(T.ones(2))[1] == "None"
        try:
            raise ValueError("of the caller")
        except ValueError:
            assert c(T.ones(2))[1] == "ValueError('of the caller')"


def test_the_exception_being_handled_takes_no_arguments() -> None:
    for ask in (sys.exception, sys.exc_info):
        with pytest.raises(TypeError, match="no arguments"):
            T.compile(lambda x, ask=ask: (x, ask(1)))(T.ones(2))


def test_iterators_carried_over_breaks() -> None:
    def f(x: Any) -> Any:
        out = []
        for i, j in itertools.product([1, 2], [3, 4]):
            x = x * i
            if x.sum() > 5:
                out.append(j)
        for a in itertools.chain([1], [2]):
            if x.sum() > a:
                out.append(a)
        for v in map(lambda v: v * 2, [x, x]):
            if v.sum() > 3:
                out.append(v)
        return x, out

    check(f, (T.ones(3),), breaks=None, plain=None)


@pytest.mark.parametrize("text", ["list(itertools.islice([1, 2, 3], n))", "int.__add__(n, 1)", "str.upper(n)"])
def test_arguments_that_c_code_refuses(text: str) -> None:
    f = eval(f"lambda x, n: (x + 1, {text})", {"itertools": itertools})
    T.compiler.reset()
    c = T.compile(f)
    for n in (2.5, 3.5, 4.5):
        with pytest.raises((TypeError, ValueError)) as want:
            f(T.ones(2), n)
        with pytest.raises(type(want.value)) as got:
            c(T.ones(2), n)
        assert str(got.value) == str(want.value)
    assert not any("FG014" in r for r in T.compiler.stats()["break_reasons"])


def test_namespaces_made_inside() -> None:
    options = argparse.Namespace(lr=0.5, last=0)

    def f(x: Any, k: int) -> Any:
        options.last = 0
        made = argparse.Namespace(k=k, **vars(options))
        made.k += 1
        options.last = k
        return x * made.lr * made.k, "k" in made, made == argparse.Namespace(k=2), vars(made), repr(options)

    check(f, (T.ones(3), 1), (T.ones(3), 2), plain=0)


def _state_dicts(x: Any, k: int) -> Any:
    layer = T.nn.BatchNorm1d(3)
    kept = copy.deepcopy(layer.state_dict())
    both = collections.OrderedDict(a=x, b=[x * 2])
    other = copy.deepcopy({"both": both})["both"]
    other["a"].add_(k)
    other.move_to_end("a")
    return kept, kept._metadata, both, other, type(other).__name__, other["b"][0] is both["b"][0]


def _locals(x: Any, k: int, *rest: Any, u: int = 2, **kw: Any) -> Any:
    gone, unused = k + 1, x * 2
    del gone
    late = lambda: (inner, u)  # noqa: E731
    if k > 1:
        inner = x + 1
    d = locals()
    print(end="")
    inner = d["new"] = k
    return {n: v for n, v in d.items() if n != "late"}, late(), list(d), "new" in d


def _locals_late(x: Any, k: int) -> Any:
    print(end="")
    y = x + k
    return [(lambda: y)(), locals()]


class _Options:
    def __init__(self, lr: float = 0.1, **kw: Any) -> None:
        self.__dict__.update({n: v for n, v in locals().items() if n not in ("self", "kw")})


def _in_memory(x: Any, k: int) -> Any:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        print(k, end=" ")
    return x * 2, text.getvalue()


def test_copies_of_ordered_dicts_locals_and_files_in_memory() -> None:
    check(_state_dicts, (T.ones(3), 1), (T.ones(3), 2), breaks=0)
    check(_locals, (T.ones(3), 1), (T.ones(3), 2, x := T.ones(1), x), (T.ones(3), 3), breaks=1)
    check(_locals_late, (T.ones(3), 1), plain=1)
    check(lambda x, k: (x * (o := _Options(0.5, q=k)).lr, sorted(vars(o))), (T.ones(3), 1), breaks=0)
    check(_in_memory, (T.ones(3), 1), (T.ones(3), 2), plain=0)


def _with_attributes(x: Any, k: int) -> Any:
    """Objects of C classes with attributes set on them, made here: they keep those."""
    words = {"a b": 1, "class": k}
    made = [collections.OrderedDict(a=x), collections.Counter("ab"), functools.partial(dict, x, **words),
            types.SimpleNamespace(), T.nn.Linear(1, 1).state_dict()]  # fmt: skip
    for v in made:
        v.tag, v.own = [x * k], v
    copies = [copy.copy(made[0]), made[0].copy(), copy.copy(made[1])]
    return [sorted(vars(v)) for v in (*made, *copies)], [v.tag for v in made], [v.own is v for v in made], made


def test_attributes_of_objects_of_c_classes() -> None:
    c = T.compile(_with_attributes)
    for k in (1, 2):
        got, want = c(T.ones(2), k), _with_attributes(T.ones(2), k)
        assert tree(got[:3]) == tree(want[:3])
        assert [list(vars(v)) for v in got[3]] == [list(vars(v)) for v in want[3]]
        assert all(v.tag is t and v.own is v for v, t in zip(got[3], got[1], strict=True))
        assert list(got[3][2].keywords) == ["a b", "class"] and got[3][4]._metadata == want[3][4]._metadata
