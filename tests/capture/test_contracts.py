"""What Python asks of calls: arguments of builtins, results of special methods, iterators that go on after an error."""

import functools  # noqa: F401
import itertools
import operator  # noqa: F401
import typing

import pytest

import fusegrad as fg

T, K = typing.TypeVar("T"), typing.TypeVar("K")


class Gives:
    """Every special method gives ``value``."""

    def __init__(self, value):
        self.value = value

    def _give(self, *args):
        return self.value

    __int__ = __float__ = __bool__ = __len__ = __repr__ = __str__ = __format__ = __hash__ = __iter__ = _give


class Badly:
    def __init__(self):
        return 5


class Whole(int):
    pass


CALLS = """
int(x=3); int(base=10); float(x=3); bool(x=3); bool(1, 2); object(1); type(1, foo=2); list(map(len)); iter()
list(reversed([1], [2])); list(filter(None)); range(stop=3); slice(stop=3); max(1, 2, default=3); sum([b"a"], b"")
format(1, None); dict([(1, 2)], [(1, 2)]); dict([1]); [1].sort(None); dict.fromkeys([1], 2, 3); ",".join(["a"], 1)
",".join(3); next(itertools.count("a")); list(itertools.tee([1], -1)); functools.reduce(operator.add, 3)
isinstance([], list[int]); isinstance([], int | list[int]); isinstance(3, typing.Any); map(len, 3)
itertools.accumulate(3)
"""
RESULTS = """
int(Gives("a")); int(Gives(3.5)); float(Gives(3)); bool(Gives(1)); not Gives(None); len(Gives(-1)); len(Gives(2**70))
len(Gives(True)); type(len(Gives(Whole(3)))).__name__; repr(Gives(3)); str(Gives(3)); f"{Gives(3)}"; f"{Gives(3)!r}"
hash(Gives("a")); hash(Gives(-1)); hash(Gives(2**70)); type(hash(Gives(True))).__name__; iter(Gives(3)); Badly()
list(Gives([1])); len(Gives(2)); f"{Gives('a')}"
"""
MADE = """
type(map(len, [])).__name__; isinstance(map(len, []), map); hasattr(map(len, []), "send")
type(itertools.chain([1])).__name__; type(v for v in []).__name__; repr(dict[K, T][int, str])
list[T].__parameters__ == (T,); dict[K, T].__args__ == (K, T); operator.length_hint(itertools.repeat(None, 50))
"""


def function_of(forms):
    """A function that does one after the other and tells of each."""
    lines = ["def f(x):", "    y = x * 2", "    out = []"]
    for form in forms.strip().replace("\n", "; ").split("; "):
        lines += ["    try:", f"        out.append({form})", "    except Exception as e:"]
        lines += ["        out.append(type(e).__name__ + ': ' + str(e))"]
    names = dict(globals())
    exec("\n".join([*lines, "    return y + 1, out"]), names)
    return names["f"]


@pytest.mark.parametrize("forms", [CALLS, RESULTS, MADE], ids=["arguments", "results", "made"])
def test_python_says_what_it_takes(forms):
    f = function_of(forms)
    y, out = fg.compile(f)(fg.ones(2))
    assert y.tolist() == [3.0, 3.0] and out == f(fg.ones(2))[1]
    assert len(out) == forms.strip().replace("\n", "; ").count("; ") + 1 and any(type(v) is str for v in out)


def test_iterators_in_c_go_on_after_an_error():
    def goes(it):
        out = []
        for _ in range(5):
            try:
                out.append(next(it))
            except Exception as e:
                out.append(type(e).__name__)
        return out

    def stops(v):
        raise StopIteration

    def f(x):
        y = x * 2
        texts = ["1", "a", "3"]
        out = [goes(map(int, texts)), goes(filter(int, texts)), goes(itertools.chain([1], 3, [4]))]
        out.append(goes(itertools.accumulate([1, "a", 3])))
        out.append([v for v in map(stops, texts)])
        return y + 1, out

    out = fg.compile(f)(fg.ones(2))[1]
    assert out[0] == [1, "ValueError", 3, "StopIteration", "StopIteration"]
    assert out[1] == ["1", "ValueError", "3", "StopIteration", "StopIteration"]
    assert out == f(fg.ones(2))[1] and out[4] == []


def test_iterators_in_c_ask_for_theirs_when_they_are_made():
    log = []

    class Numbers:
        def __iter__(self):
            log.append("asked")
            return iter([1, 2])

    def f(x):
        a, b = map(str, Numbers()), itertools.takewhile(bool, Numbers())
        log.append("made")
        return x * 2, list(a), list(b)

    assert fg.compile(f)(fg.ones(2))[1:] == (["1", "2"], [1, 2])
    assert log == ["asked", "asked", "made"]


def test_wrappers_take_over_what_they_are_told_to():
    def f(x):
        def inner():
            "told"

        inner.k = 1
        bare = functools.wraps(inner, assigned=(), updated=())(lambda: None)
        half = functools.update_wrapper(lambda: None, inner, ("__doc__",))

        class Picks:
            @functools.singledispatchmethod
            def pick(self, value):
                self.kind = "any"

            @pick.register(int)
            def _(self, value):
                self.kind = "int"

        a = Picks()
        a.pick(3)
        out = [(g.__name__, g.__doc__, g.__dict__.get("k"), g.__wrapped__ is inner) for g in (bare, half)]
        return x * 2, a.kind, out

    expected = [("<lambda>", None, None, True), ("<lambda>", "told", 1, True)]
    assert fg.compile(f)(fg.ones(2))[1:] == f(fg.ones(2))[1:] == ("int", expected)
