"""Attributes that Python finds without asking the user's code, and attributes that only the C types know."""

import enum
import inspect
import types

import pytest

import fusegrad as fg


class Pair(tuple, enum.Enum):
    one = (1, "a")
    two = (2, "b")


def documented():
    class Plain:
        "of the class"

    class Told:
        @property
        def __doc__(self):
            return "told"

    a = Plain()
    before = a.__doc__
    a.__doc__ = "own"
    return before, a.__doc__, Told().__doc__, Plain.__doc__


def read_only():
    class Takes:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            print(end="")
            return kind is AttributeError

    told = ExceptionGroup("told", [TypeError(1)])
    with Takes():
        told.message = "other"
    each = (v for v in ())
    each.__name__ = "renamed"
    return told.message, each.__name__


def members():
    a = Pair.one
    return a is Pair["one"], [a][0] is Pair.one, {"k": a}["k"] is a, list(Pair)[1] is Pair.two


def unasked():
    asked = []

    class Reads:
        def __getattribute__(self, name):
            asked.append(name)
            return {}

    class Poses:
        @property
        def __class__(self):
            asked.append("class")
            return int

    class Says(dict):
        a = 3

        @property
        def __dict__(self):
            asked.append("dict")
            return {}

    reads, poses, says = Reads(), Poses(), Says()
    says.a = 4
    return [inspect.getattr_static(v, "missing", 0) for v in (reads, poses, says)], says.a, asked


def nameless():
    class Meta(type):
        @property
        def __module__(cls):
            raise AttributeError("none")

    class Made(metaclass=Meta):
        pass

    return isinstance(Made(), Made), hasattr(Made, "__module__")


def cells():
    print(end="")
    c = 3

    def reads():
        return c  # noqa: F821

    first = reads.__closure__[0].cell_contents
    reads.__closure__[0].cell_contents = 8
    out = first, reads(), c
    print(end="")  # nothing but the `del` needs the variable from here on: the interpreter crashed
    del c
    print(end="")
    return out


def fields_of_errors():
    class Own(OSError):
        def __init__(self, message, more):
            self.more = more
            super().__init__(message)

    errors = [
        Own("m", more=1),
        ImportError("a", name="n", path="p"),
        OSError(2, "no", "file"),
        AttributeError("a", obj=3),
    ]
    left = SystemExit(4)
    left.code = 7
    print(end="")
    names = ("more", "name", "path", "filename", "errno", "obj")
    kinds = []
    for number in (2, 11, 17):
        kinds.append(type(OSError(number, "a")).__name__)
        print(end="")
    return [(e.args, [getattr(e, n, 0) for n in names]) for e in errors], left.code, kinds


def descriptors_of_python():
    log = []

    class Uses:
        @types.DynamicClassAttribute
        def d(self):
            log.append("get")
            return len(log)

        @d.setter
        def d(self, value):
            log.append(value)

    a = Uses()
    first = a.d
    a.d = 4
    print(end="")
    return first, a.d, log


@pytest.mark.parametrize(
    "part",
    [descriptors_of_python, documented, fields_of_errors, read_only, members, unasked, nameless, cells],
    ids=lambda p: p.__name__,
)
def test_attributes(part):
    def f(x):
        y = x * 2
        return y + 1, part()

    c, plain = fg.compile(f), part()
    for _ in range(2):
        y, out = c(fg.ones(2))
        assert y.tolist() == [3.0, 3.0] and out == plain
    expected = {"documented": ("of the class", "own", "told", "of the class"), "read_only": ("told", "renamed"),
                "members": (True,) * 4, "unasked": ([0, 0, 0], 4, []), "nameless": (True, False),
                "cells": (3, 8, 8), "fields_of_errors": None,
                "descriptors_of_python": (1, 3, ["get", 4, "get"])}  # fmt: skip
    assert expected[part.__name__] in (None, plain)
