"""Names that were absent when code was captured and are there later, and what is written past ``__setattr__``.

See stale.py.
"""

import enum
import functools
import types
from collections import OrderedDict, namedtuple

import pytest
from stale import X, fresh_class

import fusegrad as T

nn = T.nn


class Pair(namedtuple("Pair", "a b")):
    """A tuple with a ``__dict__``."""


class Colour(enum.Enum):
    RED = 1


HOLDERS = {
    "class": lambda: fresh_class(),
    "instance": lambda: fresh_class()(),
    "tensor": lambda: T.ones(2),
    "parameter": lambda: nn.Parameter(T.ones(2)),
    "module": lambda: nn.Linear(2, 2),
    "enum member": lambda: Colour.RED,
    "function": lambda: types.FunctionType((lambda: 0).__code__, {}),
    "partial": lambda: functools.partial(min),
    "named tuple": lambda: Pair(1, 2),
    "python module": lambda: types.ModuleType("holder"),
    "list": lambda: type("L", (list,), {})(),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_an_absent_name_that_comes_and_goes(kind):
    holder = HOLDERS[kind]()
    f = T.compile(lambda x: x * getattr(holder, "late", 1.0))
    g = T.compile(lambda x, h: x + 1 if hasattr(h, "late") else x)
    for value in (None, 5.0, 7.0, None, 2.0, None):
        if value is not None:
            holder.late = value
        elif hasattr(holder, "late"):
            del holder.late
        assert f(X).tolist() == [value or 1.0] * 2
        assert g(X, holder).tolist() == [1.0 if value is None else 2.0] * 2


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_name_that_captured_code_sets_on_what_existed(kind):
    holder = HOLDERS[kind]()

    def f(x):
        holder.calls = getattr(holder, "calls", 0) + 1
        return x * holder.calls

    c = T.compile(f)
    try:
        assert [c(X).tolist() for _ in range(3)] == [[1.0] * 2, [2.0] * 2, [3.0] * 2]
        assert holder.calls == 3
    finally:
        del holder.calls


def test_calls_counted_on_the_compiled_function():
    @T.compile
    def f(x):
        f.calls = getattr(f, "calls", 0) + 1
        return x * f.calls

    assert [f(X).tolist() for _ in range(3)] == [[1.0] * 2, [2.0] * 2, [3.0] * 2]
    assert f.calls == 3


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        T.manual_seed(0)
        self.sub, self._k, self.flag = nn.Linear(2, 2), 2.0, True
        self.__dict__["_hidden"], self.__dict__["hidden"] = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.sub(x) * self._k + self._hidden(x) + self.hidden(x) + self.flag


PAST = {
    "a child": lambda m, other: object.__setattr__(m, "sub", other),
    "a child in the dict": lambda m, other: m.__dict__.__setitem__("sub", other),
    "a private number": lambda m, other: object.__setattr__(m, "_k", 5.0),
    "a private number in the dict": lambda m, other: vars(m).update(_k=7.0),
    "a hidden module": lambda m, other: m.__dict__.__setitem__("_hidden", other),
    "another hidden module": lambda m, other: m.__dict__.__setitem__("hidden", other),
    "a flag": lambda m, other: m.__dict__.__setitem__("flag", False),
    "a weight of a child": lambda m, other: m.sub.__dict__.__setitem__("weight", other.weight),
    "a bias of a hidden module": lambda m, other: m._hidden.__dict__.__setitem__("bias", None),
    "forward": lambda m, other: m.sub.__dict__.__setitem__("forward", lambda x: x),
    "the whole dict": lambda m, other: object.__setattr__(m, "__dict__", {**m.__dict__, "_k": 11.0}),
}


@pytest.mark.parametrize("what", PAST)
def test_written_past_setattr(what):
    m, other = Net(), nn.Linear(2, 2)  # all made before, so that nothing else tells of a change
    c = T.compile(m)
    first = c(X).tolist()
    assert c(X).tolist() == first
    PAST[what](m, other)
    assert m(X).tolist() != first
    for _ in range(2):
        assert T.allclose(c(X), m(X))


def test_a_shadow_that_goes_again():
    m, other = Net(), nn.Linear(2, 2)
    c = T.compile(m)
    first = c(X)
    object.__setattr__(m, "sub", other)
    assert T.allclose(c(X), m(X))
    object.__delattr__(m, "sub")
    assert T.equal(c(X), first)


class Kept(nn.Module):
    """Makes masks by size at their first use."""

    def __init__(self, kind):
        super().__init__()
        self.masks, self.shared = kind(), {"inner": {}}

    def mask(self, n):
        if n not in self.masks:
            self.masks[n] = T.ones(n)
        return self.masks[n]

    def got(self, n):
        if self.masks.get(n) is None:
            self.masks[n] = T.ones(n)
        return self.masks[n]

    def held(self, n):
        return self.shared["inner"].setdefault(n, T.ones(n))


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("how", ["mask", "got", "held"])
def test_what_a_dict_of_a_module_lacks_is_asked_on_every_call(how, kind):
    """A dict that is an attribute of a module is no part of its state: nothing tells that it changed."""
    net = Kept(kind)
    f = T.compile(lambda s: getattr(net, how)(2).mul_(s))
    for k in range(1, 4):
        out = f(0.5)
        assert out.tolist() == [0.5**k] * 2 and out is (net.shared["inner"] if how == "held" else net.masks)[2]
    net.masks.clear()
    net.shared["inner"].clear()
    assert f(0.5).tolist() == [0.5] * 2
