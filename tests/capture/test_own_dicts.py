"""Dicts with methods of their own that existed before (outputs of models): what they hold is read past those."""

import collections
import dataclasses
from typing import Any

from stale import Scenarios, compiled, results

import fusegrad as T

scenario = Scenarios()


def x() -> Any:
    return T.tensor([1.0, -2.0, 3.0])


class ModelOutput(collections.OrderedDict):
    """An ordered dict of the fields that are not None, read by name, by key and by number."""

    def __post_init__(self):
        for f in dataclasses.fields(self):
            v = getattr(self, f.name)
            if v is not None:
                self[f.name] = v

    def __getitem__(self, k):
        if isinstance(k, str):
            return dict(self.items())[k]
        return self.to_tuple()[k]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclasses.dataclass
class Output(ModelOutput):
    logits: Any = None
    hidden: Any = None
    loss: Any = None


@scenario
def outputs_are_read(comp):
    def f(o):
        parts = [k for k in o], list(o.values()), {k: v for k, v in o.items()}, [*o], o.to_tuple()
        return o.logits + o[0] + o["logits"] + len(o), bool(o), "loss" in o, o.get("loss"), o.get("q", 3), *parts

    c = comp(f)
    for _ in range(2):
        yield c(Output(logits=x())), c(Output(logits=x(), loss=x() * 2)), c(Output(logits=x(), hidden=(x(), x())))
    o = Output(logits=x(), loss=x())
    yield c(o)
    o.loss = x() * 5
    yield c(o)
    o.move_to_end("logits")
    yield c(o)
    dict.__setitem__(o, "logits", x() * 100)
    yield c(o)


@scenario
def a_key_that_is_not_there(comp):
    def f(o):
        try:
            return o["q"]
        except KeyError as e:
            return e.args

    c = comp(f)
    yield c(Output(logits=x())), c(Output(logits=x()))


@scenario
def a_training_step(comp):
    lin = T.nn.Linear(3, 3)
    T.nn.init.ones_(lin.weight)
    T.nn.init.zeros_(lin.bias)

    def forward(x):
        h = lin(x)
        return Output(logits=h, loss=h.pow(2).mean())

    def step(o, k):
        return o.loss * k + o.logits.mean() + o[1].sum() * 0

    a, b = comp(forward), comp(step)
    for _ in range(3):
        loss = b(a(x()), 2.0)
        lin.zero_grad()
        loss.backward()
        yield loss, lin.weight.grad


@scenario
def outputs_are_written(comp):
    def f(o):
        o.loss = o.logits * 2
        o["hidden"] = (1,)
        return o, o.loss, o[1], len(o)

    c = comp(f)
    for _ in range(2):
        yield c(Output(logits=x()))


class Own(dict):
    def __getitem__(self, k):
        return super().__getitem__(k) * 2

    def lookup(self, k):
        return dict.get(self, k, 7), dict.__len__(self), dict.__contains__(self, k), [*dict.keys(self)]


class Missing(Own):
    def __missing__(self, k):
        return 5.0


class Lies(dict):
    def __len__(self):
        return 42

    def __contains__(self, k):
        return True

    def keys(self):
        return ["q"]


@scenario
def methods_of_their_own(comp):
    def f(x, d):
        return x * d["a"], len(d), "b" in d, d.lookup("a"), list(d), d.get("a"), bool(d)

    def g(x, d):
        try:
            return x * d["q"], len(d)
        except KeyError as e:
            return str(e)

    c, e, h = comp(f), comp(g), comp(lambda x, d: (x, len(d), "z" in d, d.keys(), list(d), bool(d), d["a"]))
    for make in (Own, Missing):
        for v in (1.0, 2.0, 3.0):
            yield c(x(), make(a=v)), e(x(), make(a=v)), h(x(), Lies(a=v))
    yield c(x(), Own(b=3, a=1.0)), c(x(), Own(a=1.0, b=3))
    Own.get = lambda self, k: "own"
    yield c(x(), Own(a=1.0))
    del Own.get
    yield c(x(), Own(a=1.0))
    Own.__len__ = lambda self: 77
    yield c(x(), Own(a=1.0))
    del Own.__len__
    yield c(x(), Own(a=1.0))


class Ordered(collections.OrderedDict):
    def __getitem__(self, k):
        return super().__getitem__(k)


@scenario
def orders(comp):
    c = comp(lambda x, o: (x, list(o), list(o.items()), list(reversed(o)), list(dict.keys(o)), next(iter(o.values()))))
    o = Ordered(a=1, b=2, c=3)
    yield c(x(), o)
    o.move_to_end("a")
    yield c(x(), o)
    o["b"] = 5
    yield c(x(), o)
    del o["b"]
    yield c(x(), o)


test_scenarios = scenario.test()


def test_no_breaks():
    for name in ("outputs_are_read", "a_training_step"):
        results(scenario[name], compiled)
        assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]
