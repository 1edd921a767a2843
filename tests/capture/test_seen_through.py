"""Objects that are read through: numbers and texts of subclasses, read-only views, weak dicts, signatures; searches
that ask items; blocks of ``catch_warnings``. Captured without a break, and anew when what was read is another one."""

from __future__ import annotations

import collections
import inspect
import types
import warnings
import weakref
from typing import Any

import pytest
from helpers import tree

import fusegrad as T


def both(make: Any, calls: int, breaks: int | None = None) -> dict:
    """``make(compile)`` gives a step; compiled steps do what plain ones do, whatever the step changes between calls."""
    T.compiler.reset()
    plain, compiled = make(lambda f: f), make(T.compile)
    for i in range(calls):
        assert tree(compiled(i)) == tree(plain(i)), i
    s = T.compiler.stats()
    if breaks is not None:
        assert s["graph_breaks"] == breaks and not s["plain_frames"], s["break_reasons"]
    return s


def subclass_values(compile_: Any) -> Any:
    Int, Text, Real = (type(n, (b,), {"tag": n}) for n, b in (("Int", int), ("Text", str), ("Real", float)))
    v: Any = [Int(2), Text("ab"), Real(1.5)]

    @compile_
    def f(x: Any) -> Any:
        a, s, d = v
        y = x * a + d - x[a] + x.view(a, -1).sum()
        numbers = [a + 1, 1 + a, -a, a == 2, 2 == a, a < 3, bool(a), a**2, int(a), a in [1, 2], a // 1,
                   1 / a, abs(a), divmod(a, 2), max(a, 1), sum([a, a]), a.bit_length(), d + 1, round(d), d.is_integer(),
                   "y" if a else "n"]  # fmt: skip
        texts = [f"{a}|{s}|{d}|{d:.2f}", s.upper(), len(s), "a" in s, s[0], s + "x", "x" + s, s * 2, [*s], sorted(s),
                 s.split("b"), "-".join([s, s]), str(a), repr(s), s == "ab", a.tag]  # fmt: skip
        kinds = [isinstance(a, int), type(a).__name__, type(a + 0).__name__, type(s + "").__name__]
        return y, numbers, texts, kinds, a, s, d

    def step(i: int) -> Any:
        if i == 1:
            v[0] = Int(1)
        if i == 2:
            v[1], v[2] = Text("cd"), Real(2.5)
        if i == 3:
            v[0] = Int(3)
        return f(T.arange(6.0))

    step.classes = Int, Text, Real  # type: ignore[attr-defined]
    return step


def test_numbers_and_texts_of_subclasses() -> None:
    s = both(subclass_values, 4, breaks=0)
    assert s["compiles"] <= 4


@pytest.mark.parametrize(
    "which,name,method",
    [(0, "__add__", lambda s, o: 100), (0, "__bool__", lambda s: False), (0, "__index__", lambda s: 1),
     (1, "__getitem__", lambda s, k: "Z"), (1, "__len__", lambda s: 7), (1, "__eq__", lambda s, o: False),
     (2, "__radd__", lambda s, o: 7.0), (2, "__round__", lambda s: 9), (0, "__str__", lambda s: "q")],
)  # fmt: skip
def test_subclasses_get_special_methods_later(which: int, name: str, method: Any) -> None:
    def make(compile_: Any) -> Any:
        inner = subclass_values(compile_)

        def step(i: int) -> Any:
            if i == 2:
                setattr(inner.classes[which], name, method)
            try:
                return inner(0)
            except Exception as e:
                return type(e).__name__

        return step

    both(make, 4)


def test_numbers_of_subclasses_with_methods() -> None:
    class Meters(float):
        def __add__(self, o: float) -> Any:
            return Meters(float(self) + 2 * o)

    def make(compile_: Any) -> Any:
        m = Meters(1.5)
        f = compile_(lambda x: (x * 2, m + 1, m * 2, float(m)))
        return lambda i: f(T.ones(2))

    both(make, 2)


def test_read_only_views_of_dicts() -> None:
    def make(compile_: Any) -> Any:
        d: dict = {"a": 2, "b": [1]}
        view = types.MappingProxyType(d)

        @compile_
        def f(x: Any) -> Any:
            both = isinstance(view, dict), type(view).__name__, type(view.copy()).__name__, view["b"] is d["b"]
            read = view["a"], list(view.items()), {**view}, dict(view), bool(view), view.get("b"), view.get("zz", 3)
            return x * view["a"], both, read, "a" in view, "zz" in view, len(view), list(view), [k for k in view]

        @compile_
        def g(x: Any) -> Any:
            d["c"] = x
            return view["c"] * 2, len(view)

        def step(i: int) -> Any:
            if i == 1:
                d["a"] = 3
            if i == 2:
                d["e"] = 9
            if i == 3:
                d.clear()
                d.update(a=1, b=[4])
            return f(T.ones(2)), g(T.ones(2))

        return step

    both(make, 5, breaks=0)


def test_writes_to_read_only_views_are_refused() -> None:
    def make(compile_: Any) -> Any:
        view = types.MappingProxyType({"a": 2})

        @compile_
        def f(x: Any) -> Any:
            out = []
            try:
                view["q"] = 1  # type: ignore[index]
            except TypeError as e:
                out.append(str(e))
            try:
                view["zz"]
            except KeyError as e:
                out.append(repr(e))
            return x + 1, out, view == {"a": 2}, view | {"c": 1}

        return lambda i: f(T.ones(2))

    both(make, 2)


class Key:
    pass


def test_dicts_with_weak_keys_and_values() -> None:
    def make(compile_: Any) -> Any:
        k, other = Key(), Key()
        d = weakref.WeakKeyDictionary({k: 3})
        by_name = weakref.WeakValueDictionary({"a": k})

        @compile_
        def f(x: Any, q: Any) -> Any:
            return x * d.get(q, 7), q in d, by_name.get("a") is k, "zz" in by_name, by_name["a"] is k

        def step(i: int) -> Any:
            if i == 2:
                d[k] = 4
            if i == 3:
                d[other] = 5
            if i == 4:
                del d[k]
            return f(T.ones(2), k), f(T.ones(2), other)

        return step

    both(make, 6, breaks=0)


def test_weak_dicts_lose_what_died() -> None:
    def make(compile_: Any) -> Any:
        held = [Key()]
        by_name = weakref.WeakValueDictionary({"a": held[0]})
        f = compile_(lambda x: x + 1 if by_name.get("a") is None else x - 1)

        def step(i: int) -> Any:
            if i == 2:
                held.clear()
            return f(T.ones(2)), len(by_name)

        return step

    both(make, 4, breaks=0)


def test_missing_keys_of_weak_dicts() -> None:
    def make(compile_: Any) -> Any:
        d: Any = weakref.WeakKeyDictionary()
        k = Key()

        @compile_
        def f(x: Any) -> Any:
            try:
                return x * d[k]
            except KeyError:
                return x - 1

        return lambda i: f(T.ones(2))

    both(make, 2)


def test_signatures() -> None:
    def make(compile_: Any) -> Any:
        def g(x: Any, a: int = 1, *, b: float = 2.0, **kw: Any) -> Any:
            return x

        class Model:
            def run(self, x: Any, y: int = 3) -> Any:
                return x

            @classmethod
            def made(cls, z: Any) -> Any:
                return z

        m = Model()

        @compile_
        def f(x: Any, **given: Any) -> Any:
            p, q = inspect.signature(g).parameters, inspect.signature(m.run).parameters
            used = {k: v for k, v in given.items() if k in p}
            defaults = [v.default for v in p.values() if v.default is not inspect.Parameter.empty]
            open_ = any(v.kind == inspect.Parameter.VAR_KEYWORD for v in p.values())
            return x * len(used), list(p), defaults, list(q), open_, list(inspect.signature(Model.made).parameters)

        def step(i: int) -> Any:
            if i == 1:
                g.__defaults__ = (5,)
            if i == 2:
                g.__kwdefaults__ = {"b": 9.0}
            if i == 3:
                g.__code__ = (lambda x, c=1, *, b=2.0, **kw: x).__code__
            if i == 4:
                g.__signature__ = inspect.signature(lambda u: 1)  # type: ignore[attr-defined]
            return f(T.ones(2), a=1, z=2)

        return step

    both(make, 4, breaks=0)
    both(make, 6)


def test_signatures_that_live_on() -> None:
    def make(compile_: Any) -> Any:
        f = compile_(lambda x: (x + 1, inspect.signature(make), inspect.signature(make).parameters))

        def step(i: int) -> Any:
            y, sig, parameters = f(T.ones(2))
            return y, str(sig), list(parameters)

        return step

    both(make, 2)


class Valued:
    asked = 0

    def __init__(self, v: int) -> None:
        self.v = v

    def __eq__(self, o: Any) -> bool:
        Valued.asked += 1
        return isinstance(o, Valued) and self.v == o.v

    __hash__ = None  # type: ignore[assignment]


def test_searches_ask_the_items() -> None:
    def make(compile_: Any) -> Any:
        many = [Valued(1), Valued(2), Valued(3), Valued(2)]
        fixed, ring = tuple(many), collections.deque(many)

        @compile_
        def f(x: Any, p: Any, extra: list) -> Any:
            mine = list(many)
            mine.remove(p)
            extra.remove(p)
            counts = many.count(p), fixed.count(p), ring.count(p)
            places = many.index(p), many.index(p, 2), many.index(p, -3, -1), fixed.index(p), ring.index(p)
            return x * many.index(p), counts, places, len(mine), [1, 2.0, "a"].index(2), [x, x].index(x)

        def step(i: int) -> Any:
            Valued.asked = 0
            extra = [Valued(1), Valued(2), Valued(2)]
            out = f(T.ones(2), Valued(2), extra)
            return out, [p.v for p in extra], Valued.asked

        return step

    both(make, 4, breaks=0)


@pytest.mark.parametrize("name", ["index", "remove"])
def test_searches_for_what_is_not_there(name: str) -> None:
    def make(compile_: Any) -> Any:
        many = [Valued(1)]
        f = compile_(lambda x: (x + 1, getattr(many, name)(Valued(5))))

        def step(i: int) -> Any:
            with pytest.raises(ValueError):
                f(T.ones(2))

        return step

    both(make, 2)


# ---- blocks of catch_warnings


def _quiet(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
    return y + 1


def _recorded(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as seen:
        y = x * 2
    seen.append(1)  # type: ignore[arg-type]
    return y, seen


def _nested(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=UserWarning)
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="a.*b")
            y = x + 1
        warnings.resetwarnings()
        return y * 2


def _in_loops(x: Any) -> Any:
    for k in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = x + 1
            if k == 1:
                break
    return x


def _raising(x: Any) -> Any:
    try:
        with warnings.catch_warnings():
            raise ValueError("q")
    except ValueError as e:
        return x, str(e)


def _generator(x: Any) -> Any:
    def g() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield x
            yield x * 2

    return sum(g())


@pytest.mark.parametrize("f", [_quiet, _recorded, _nested, _in_loops, _raising, _generator])
def test_quiet_blocks_are_captured(f: Any) -> None:
    before = list(warnings.filters)

    def make(compile_: Any) -> Any:
        g = compile_(f)
        return lambda i: g(T.ones(2))

    both(make, 2, breaks=0)
    assert warnings.filters == before


def _warns_inside(x: Any) -> Any:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = x * 2
        warnings.warn("told", stacklevel=1)
    return y, [str(w.message) for w in seen]


def _made_errors(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("boo", stacklevel=1)
        except UserWarning as e:
            return x, str(e)


def _prints_inside(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
        print("inside", len(warnings.filters) > 0)
        warnings.warn("hidden", stacklevel=1)
    return y


def _library_warns(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            T.nn.init.uniform(x)
        except FutureWarning as e:
            return x, str(e)


def _bad_filter(x: Any) -> Any:
    with warnings.catch_warnings():
        try:
            warnings.simplefilter("nope")  # type: ignore[arg-type]
        except (AssertionError, ValueError) as e:
            return x, type(e).__name__


@pytest.mark.parametrize("f", [_warns_inside, _made_errors, _prints_inside, _library_warns, _bad_filter])
def test_blocks_in_which_something_warns_are_real(f: Any, capsys: Any) -> None:
    before = list(warnings.filters)

    def make(compile_: Any) -> Any:
        g = compile_(f)
        return lambda i: g(T.ones(2))

    both(make, 2)
    assert warnings.filters == before


def test_blocks_left_open_and_closed_elsewhere() -> None:
    def make(compile_: Any) -> Any:
        held: list = []

        @compile_
        def enter(x: Any) -> Any:
            block = warnings.catch_warnings()
            block.__enter__()
            warnings.simplefilter("ignore")
            held.append(block)
            return x + 1

        @compile_
        def leave(x: Any) -> Any:
            held.pop().__exit__()
            return x + 2

        def step(i: int) -> Any:
            before = len(warnings.filters)
            out = enter(T.ones(2))
            inside = len(warnings.filters) - before
            return out, inside, leave(T.ones(2)), len(warnings.filters) - before

        return step

    both(make, 2)


def test_python_forgets_what_it_told_before_a_block() -> None:
    def make(compile_: Any) -> Any:
        g = compile_(_quiet)

        def told() -> None:
            warnings.warn("here", stacklevel=1)

        def step(i: int) -> Any:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("default")
                for _ in range(3):
                    told()
                g(T.ones(1))
                for _ in range(3):
                    told()
            return len(seen)

        return step

    both(make, 3)


def test_older_names_of_inits_compile_once() -> None:
    def make(compile_: Any) -> Any:
        w = T.empty(3)

        @compile_
        def f(x: Any) -> Any:
            T.nn.init.constant(w, 2.0)
            return x + w

        def step(i: int) -> Any:
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                return f(T.ones(3)), [str(m.message) for m in seen]

        return step

    s = both(make, 12)
    assert not s["recompiles"] and T.nn.init.uniform is T.nn.init.uniform
