"""Attributes that code sets on tensors it made, and reads of objects' identity and parts that only look like others."""

import copy

import pytest

import fusegrad as T

from .helpers import tree


def twice(f, make, breaks=0):
    """f compiled gives what f gives, for arguments made anew."""
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        assert tree(c(*make())) == tree(f(*make()))
    assert T.compiler.stats()["graph_breaks"] == breaks


def ones():
    return (T.ones(3),)


def test_set_and_read():
    def f(x):
        y = x * 2
        y.tag, y.parts = "name", [x + 1]
        y.parts.append(y.shape[0])
        view, same = y.view(-1), y.add_(1)
        asked = hasattr(y, "tag"), hasattr(view, "tag"), getattr(y, "other", 7), same.tag
        return y.parts[0] * y.parts[1], asked

    twice(f, ones)


def test_they_stay_on_results():
    def f(x):
        y = x * 2
        y.me, y.source, y.k = y, x, 3
        return [y]

    c, x = T.compile(f), T.ones(3)
    for _ in range(2):
        (y,) = c(x)
        assert y.me is y and y.source is x and vars(y).keys() == {"me", "source", "k"}
    assert not vars(x)


def test_past_a_break():
    def f(x):
        y = x * 2
        y.tag = [1]
        print(end="")
        y.tag.append(2)
        y.k = y.tag
        return [y]

    (y,) = T.compile(f)(T.ones(3))
    assert y.tag == [1, 2] and y.k is y.tag


@pytest.mark.parametrize("how", ["del", "dict", "vars", "deepcopy", "deepcopy of an argument", "method", "read only"])
def test_what_is_not_captured_is_right(how):
    def f(x):
        y = x * 2
        y.a = 1
        out = None
        if how == "del":
            del y.a
        elif how == "dict":
            y.__dict__["b"] = 2
        elif how == "vars":
            out = dict(vars(y))
        elif how == "deepcopy":
            out = vars(copy.deepcopy(y))
        elif how == "deepcopy of an argument":
            x.b = 5
            out = vars(copy.deepcopy(x))
        elif how == "method":
            y.sum = lambda: 3
            out = y.sum()
        else:
            try:
                y.shape = 3
            except AttributeError as e:
                out = str(e)
        y.c = 4
        return y, out

    for g in (T.compile(f), T.compile(f)):
        x = T.ones(3)
        y, out = g(x)
        z, want = f(T.ones(3))
        assert out == want and tree(y) == tree(z)
        assert {k: v for k, v in vars(y).items() if k != "sum"} == {k: v for k, v in vars(z).items() if k != "sum"}


def test_gradients():
    def f(x):
        y = x * 2
        y.weight = x.sum()
        return (y * y.weight).sum(), y.weight

    a, b = (T.arange(3.0, requires_grad=True) for _ in range(2))
    for g, x in ((f, a), (T.compile(f), b)):
        out, weight = g(x)
        (out + weight).backward()
    assert T.equal(a.grad, b.grad)


# ---- identity, and parts of functions and of super


def test_sizes_are_one_object_where_eager_says_so():
    def f(x, y):
        z = x + 1
        s = x.shape
        return x.shape is s, z.shape is z.shape, x.size() is x.shape, x.shape is y.shape, z.shape is x.shape

    twice(f, lambda: (T.ones(3), T.ones(3)))


def test_call_of_a_function_is_no_function():
    class Some:
        def method(self, x):
            return x + 5

    some = Some()

    def g(x, k=1):
        return x * k

    def f(x):
        inner = lambda v: v - 1  # noqa: E731
        called = g.__call__(x, k=3), inner.__call__(x), some.method.__call__(x), *map(g.__call__, [x, x])
        said = type(g.__call__).__name__, type(inner.__call__).__name__, g.__call__.__name__, g.__call__ is g
        return called, said, g.__call__.__self__ is g, some.method.__call__.__self__ == some.method

    twice(f, ones)
    made = T.compile(lambda x: (g.__call__, x + 1))(T.ones(2))[0]
    assert made == g.__call__ and T.equal(made(T.ones(2)), T.ones(2))


def test_what_super_is_made_of():
    class A:
        def m(self, x):
            return x * 2

    class B(A):
        @classmethod
        def on_class(cls):
            return super().__self__ is cls, super().__self_class__ is cls

        def f(self, x):
            s = super()
            return s.m(x), s.__self__ is self, s.__thisclass__ is B, s.__self_class__ is type(self), self.on_class()

    class C(B):
        pass

    for b in (B(), C()):
        twice(b.f, ones)
    b = B()
    compiled = T.compile(b.f)
    compiled(*ones())
    A.__thisclass__ = 5  # found first
    try:
        assert tree(compiled(*ones())) == tree(b.f(*ones()))
    finally:
        del A.__thisclass__
    twice(lambda x: (type(super(B, b).__get__).__name__, x + 1), ones, breaks=1)
