"""Scenarios of things that change between two calls of a compiled function; what test_stale_*.py are made of.

A scenario is a generator that is run twice, with a plain and with a compiled function; it yields what calls give before
and after a change. What they yield must be the same.
"""

import types
import warnings

import pytest
from helpers import tree

import fusegrad as T

X = T.ones(2)


class Scenarios(dict):
    """Scenarios by name; collected by using the object as a decorator."""

    def __call__(self, fn):
        assert fn.__name__ not in self
        self[fn.__name__] = fn
        return fn

    def test(self):
        """The test of them all."""

        @pytest.mark.parametrize("name", self)
        def test_nothing_goes_stale(name):
            want = results(self[name], lambda f: f)
            assert results(self[name], compiled) == want

        return test_nothing_goes_stale


def results(fn, compile_):
    """What a scenario yields, as text; an error ends it and is part of the result."""
    T.compiler.reset()
    out = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for v in fn(compile_):
                out.append(repr(tree(v)))
    except Exception as e:
        out.append((type(e).__name__, str(e)))
    return out


def compiled(f):
    """With a high limit, so that an entry and no plain run answers every call."""
    return T.compile(f, options={"limit": 100})


def other_module(**names):
    """A module of Python's."""
    m = types.ModuleType("other_module_of_a_test")
    m.__dict__.update(names)
    return m


class Base:
    scale = 2.0

    def __init__(self):
        self.own = 1.0

    def method(self, x):
        return x * self.scale + self.own

    @property
    def prop(self):
        return self.own * 10

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def klass(cls, x):
        return x * cls.scale

    def __call__(self, x):
        return self.method(x) + self.prop


def fresh_class(*bases):
    """A class like Base that may be changed."""
    return type(
        "Fresh", bases or (Base,), {k: v for k, v in vars(Base).items() if k not in ("__dict__", "__weakref__")}
    )
