"""What classes tell of themselves: their dicts, their subclasses; and the dicts that a TypedDict makes."""

import typing

import pytest
from helpers import tree

import fusegrad as T


class Registered:
    pass


class One(Registered):
    factor = 1


class Two(Registered):
    factor = 2
    other = 3

    def method(self):
        return 1

    @property
    def read(self):
        return 2


class Record(typing.TypedDict):
    a: T.Tensor
    n: int


class More(Record, total=False):
    b: int


def no_breaks(f, *between, x=None):
    """f compiled is f, also after each change of ``between``; in one graph."""
    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    x = T.ones(2)
    for change in (lambda: None, *between):
        change()
        assert tree(c(x)) == tree(f(x))
    return T.compiler.stats()["compiles"]


CLASS_DICTS = [
    lambda x: x * sum(v for k, v in vars(Two).items() if not k.startswith("_") and isinstance(v, int)),
    lambda x: ("added" in Two.__dict__, list(Two.__dict__), len(vars(Two)), x + 1),
    lambda x: (vars(Two).get("added", 7), Two.__dict__["factor"] * x, {**vars(Two)}["other"]),
    lambda x: (vars(Two)["method"](None), vars(Two)["read"].fget(None), type(vars(Two)).__name__, x + 1),
    lambda x: x * type(Two()).__dict__["factor"],
    lambda x: [k for k in vars(Two) if not k.startswith("__")],
]


@pytest.mark.parametrize("k", range(len(CLASS_DICTS)))
def test_dicts_of_classes(k, monkeypatch):
    def back():
        monkeypatch.undo()

    def put(name, v):
        return lambda: monkeypatch.setattr(Two, name, v, raising=False)

    no_breaks(CLASS_DICTS[k], put("factor", 5), put("added", 9), put("added", 10), back)


def test_a_dict_of_a_class_that_is_written_to():
    def f(x):
        Two.added = 3
        seen = "added" in vars(Two)
        del Two.added
        try:
            vars(Two)["z"] = 1
        except TypeError as e:
            return seen, "added" in vars(Two), str(e), x + 1

    def g(x):
        before = dict(vars(Two))
        Two.added = len(x)
        out = "added" in before, vars(Two)["added"] * x
        del Two.added
        return out

    for fn in (f, g):
        c = T.compile(fn)
        for _ in range(2):
            assert tree(c(T.ones(2))) == tree(fn(T.ones(2)))


def test_subclasses():
    def f(x):
        return x * sum(c.factor for c in Registered.__subclasses__()), [c.__name__ for c in Registered.__subclasses__()]

    assert no_breaks(f) == 1
    assert no_breaks(lambda x: {c.__name__: c for c in Registered.__subclasses__()}["Two"]().factor * x) == 1

    c = T.compile(f)
    assert tree(c(T.ones(2))) == tree(f(T.ones(2)))

    class Three(Registered):
        factor = 3

    assert tree(c(T.ones(2))) == tree(f(T.ones(2)))
    Three.factor = 7
    assert tree(c(T.ones(2))) == tree(f(T.ones(2)))
    Three.__bases__ = (Two,)
    assert tree(c(T.ones(2))) == tree(f(T.ones(2)))


def test_typed_dicts_are_dicts():
    def f(x):
        d = Record(a=x * 2, n=3)
        e = More()
        e["b"] = 3
        g, h = More({"a": x}, b=2), Record([("a", x), ("n", 1)])
        return d["a"] * d["n"] + e["b"], d, type(d), g, h, isinstance(d, dict), sorted(Record.__required_keys__)

    assert no_breaks(f) == 1


def test_autocast_is_asked_for():
    assert no_breaks(lambda x: (x + 1, T.is_autocast_enabled(), T.is_autocast_enabled("cpu"))) == 1
