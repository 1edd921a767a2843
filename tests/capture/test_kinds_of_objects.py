"""Objects of the usual kinds, read, written and made in compiled code, break no graph."""

import argparse
import collections
import dataclasses
import enum
import functools
import types
from typing import Any, NamedTuple

import pytest

import fusegrad as fg


class Plain:
    def __init__(self, a: Any, f: Any) -> None:
        self.a, self.f = a, f


class Slots:
    __slots__ = ("a", "f")

    def __init__(self, a: Any, f: Any) -> None:
        self.a, self.f = a, f


class SlotsAndDict(Slots):
    pass


class OwnSpace(types.SimpleNamespace):
    def twice(self) -> Any:
        return self.a * 2


@dataclasses.dataclass
class Data:
    a: Any
    f: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    a: Any
    f: Any


class Named(NamedTuple):
    a: Any
    f: Any


class Mapped(dict):
    __getattr__ = dict.__getitem__


class Module(fg.nn.Module):
    def __init__(self, a: Any, f: Any) -> None:
        super().__init__()
        self.a, self.f = a, f


def module(a: Any, f: Any) -> types.ModuleType:
    made = types.ModuleType("made")
    made.a, made.f = a, f  # type: ignore[attr-defined]
    return made


KINDS = {
    "plain": Plain,
    "slots": Slots,
    "slots and dict": SlotsAndDict,
    "namespace": lambda a, f: types.SimpleNamespace(a=a, f=f),
    "own namespace": lambda a, f: OwnSpace(a=a, f=f),
    "arguments": lambda a, f: argparse.Namespace(a=a, f=f),
    "dataclass": Data,
    "frozen": Frozen,
    "named": Named,
    "mapped": lambda a, f: Mapped(a=a, f=f),
    "module": Module,
    "python module": module,
    "class": lambda a, f: type("C", (), {"a": a, "f": staticmethod(f)}),
}
FIXED = {"frozen", "named"}


def check(f: Any, *args: Any) -> None:
    """Compiled as plain, without a break, with one compile for three calls."""
    fg.compiler.reset()
    compiled = fg.compile(f)
    for _ in range(3):
        assert fg.equal(compiled(*args), f(*args))
    stats = fg.compiler.stats()
    assert (stats["graph_breaks"], stats["plain_frames"]) == (0, 0), stats["break_reasons"]
    assert stats["compiles"] == 1, stats["recompile_reasons"]


@pytest.mark.parametrize("kind", KINDS)
def test_read(kind):
    o = KINDS[kind](2.0, fg.neg)
    check(lambda x: o.f(x) * o.a, fg.ones(3))
    check(lambda x, o: o.f(x) * o.a, fg.ones(3), o)


@pytest.mark.parametrize("kind", KINDS)
def test_read_follows_changes(kind):
    if kind in FIXED:
        pytest.skip("can't be changed")
    o = KINDS[kind](2.0, fg.neg)
    f = fg.compile(lambda x: o.f(x) * o.a)
    x = fg.ones(3)
    assert fg.equal(f(x), fg.neg(x) * 2.0)
    o.a = 5.0
    assert fg.equal(f(x), fg.neg(x) * 5.0)
    o.f = staticmethod(fg.abs) if kind == "class" else fg.abs
    assert fg.equal(f(x), fg.abs(x) * 5.0)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - FIXED - {"mapped"}))
def test_written(kind):
    o = KINDS[kind](2.0, fg.neg)

    def f(x: fg.Tensor) -> fg.Tensor:
        o.a = 3.0
        return o.f(x) * o.a

    check(f, fg.ones(3))
    assert o.a == 3.0


MADE_INSIDE = ["plain", "slots", "namespace", "dataclass", "frozen", "named", "mapped", "module"]


@pytest.mark.parametrize("kind", MADE_INSIDE)
def test_made_inside(kind):
    make = KINDS[kind]

    def f(x: fg.Tensor) -> fg.Tensor:
        o = make(x * 2, fg.neg)
        return o.f(x) * o.a

    check(f, fg.ones(3))


def test_methods_of_a_namespace():
    o = OwnSpace(a=2.0)
    check(lambda x: x * o.twice(), fg.ones(3))


def test_other_containers():
    chain = collections.ChainMap({"a": 2.0}, {"b": 3.0})
    ordered, counts = collections.OrderedDict(a=2.0), collections.Counter("aab")
    half = functools.partial(fg.mul, other=0.5)
    color = enum.Enum("Color", {"RED": 2.0})
    for f in (
        lambda x: x * chain["a"] * chain["b"],
        lambda x: x * ordered["a"] * counts["a"],
        lambda x: half(x) * color.RED.value,
    ):
        check(f, fg.ones(3))
