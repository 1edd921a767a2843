"""Texts of containers and objects with numbers that change: the numbers in them, never the names that capture has for
them, and containers of their own kind. Values of which another one comes with every call do not end in plain Python."""

from __future__ import annotations

import collections
import dataclasses
import fractions
import functools
import re
import types
from typing import Any

import pytest

import fusegrad as T


class Pair(collections.namedtuple("Pair", "a b")):
    pass


@dataclasses.dataclass
class Data:
    a: Any
    b: Any = None


class Table(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


class Trouble(Exception):
    pass


def given(a: Any, b: Any = 1) -> None:
    pass


SCOPE = {
    **globals(),
    "fractions": fractions,
    "functools": functools,
    "space": types.SimpleNamespace,
    "view": types.MappingProxyType,
}
MADE = """[n, {3}]|(n,)|{'a': n}|[{'a': (n, [n])}]|{n}|{n: 1}|{(n,): n}|[n, n / 3, True, None, 's']|slice(0, n)|n / 2
collections.deque([n], maxlen=3)|collections.OrderedDict(a=n)|collections.defaultdict(list, a=[n])|complex(n, 1)
collections.Counter(a=n)|collections.ChainMap({'a': n})|collections.UserDict(a=n)|functools.partial(given, n, b=n)
space(a=n)|Pair(n, [n])|Data(n, [n])|Table(a=n)|Ordered(a=n)|ValueError(n)|ValueError((n,), 'x')|Trouble(n, [n])
{'a': n}.values()|{'a': n}.items()|view({'a': n})|fractions.Fraction(n, 3)|T.Size([n, 2])|x.shape|KeyError(n)|range(n)
OSError(n, 'q')|ExceptionGroup('m', [ValueError(n)])|bytearray([n])|[n].append|frozenset([n])
[collections.OrderedDict(a=n), collections.deque([n]), slice(n), Pair(n, n), Data(n)]""".replace("\n", "|").split("|")
SHOWN = """str(v)|f'{v};{v!r:>30}'|'%s;%r' % (v, v)|v.__repr__()|f'{v!a}' + ascii(v)|'{};{!r}'.format(v, v)
type(v).__repr__(v)|str(ValueError(v)) + repr(KeyError(v))|str(AssertionError(v, 1))|'a' + str([v])"""


def outcome(f: Any, made: str | None, n: int) -> str:
    x = T.ones(n, 2)
    v = None if made is None else eval(made, SCOPE, {"n": n, "x": x})
    try:
        out = f(x, n, v)[1]
    except Exception as e:
        out = type(e).__name__, str(e)
    return re.sub("0x[0-9a-f]+", "", repr(out))


@pytest.mark.parametrize("where", ["made inside", "from before"])
@pytest.mark.parametrize("made", MADE)
def test_texts(made: str, where: str) -> None:
    inside = where == "made inside"
    for show in SHOWN.replace("\n", "|").split("|"):
        scope: dict = {}
        exec(f"def f(x, n, v):\n    v = {made if inside else 'v'}\n    return x + 1, {show}", SCOPE, scope)
        T.compiler.reset()
        f, c = scope["f"], T.compile(scope["f"])
        for n in (2, 3, 4, 5):
            want, got = outcome(f, None if inside else made, n), outcome(c, None if inside else made, n)
            assert got == want, (show, n)
        assert not any("FG014" in r for r in T.compiler.stats()["break_reasons"]), show


def test_exceptions_keep_what_they_were_given() -> None:
    def f(x: Any, d: Any, n: int) -> Any:
        e = ValueError(d, (n, [n]))
        text = str(e)
        return x + 1, type(e.args[0]), e.args[0] is d, e.args[1], len(text), e

    c = T.compile(f)
    for n in (2, 3, 4):
        d = collections.OrderedDict(a=n)
        want, got = f(T.ones(2), d, n), c(T.ones(2), d, n)
        assert str(got) == str(want) and got[-1].args[0] is d and got[2]


ANOTHER = {
    "bytes": lambda k: bytes([k]),
    "complex": lambda k: complex(k, 1),
    "frozenset": lambda k: frozenset([k]),
    "large int": lambda k: 2**70 + k,
    "tuple": lambda k: (k, k + 1),
    "list": lambda k: list(range(k)),
    "dict": lambda k: {f"k{j}": j for j in range(k)},
    "keys": lambda k: {f"k{k}": 1},
    "set": lambda k: {f"k{k}"},
    "nested": lambda k: ((k, "a"), [k / 2]),
    "tensors": lambda k: [T.ones(2)] * k,
    "deque": lambda k: collections.deque(range(k)),
    "counter": lambda k: collections.Counter("ab" * k),
    "size": lambda k: T.Size([k, 2]),
}
USED = {
    "kept": lambda x, v: (x + 1, v, [v]),
    "asked": lambda x, v: x + 1 if isinstance(v, int) and v is not None and v else x - 1,
    "shown": lambda x, v: (x + 1, f"{v}"),
    "measured": lambda x, v: x * len(v) if hasattr(v, "__len__") else x,
}


@pytest.mark.parametrize("how", USED)
@pytest.mark.parametrize("name", ANOTHER)
def test_another_value_at_every_call(name: str, how: str) -> None:
    f, make = USED[how], ANOTHER[name]
    T.compiler.reset()
    c = T.compile(f)
    for k in range(1, 15):
        assert str(c(T.ones(2), make(k))) == str(f(T.ones(2), make(k)))
    assert not any("FG015" in r for r in T.compiler.stats()["break_reasons"])
