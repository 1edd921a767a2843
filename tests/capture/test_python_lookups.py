"""What Python looks up, and in which order: operators of subclasses, special methods that are no functions, attributes
behind a ``__getattribute__``, constructors that give something else, and who is who after a break."""

from __future__ import annotations

import collections
import copy

import pytest

import fusegrad as fg

pause = fg.compiler.disable(lambda: None)


def alike(f):
    """Two calls of the compiled function give what the plain one gives."""

    def run(x):
        y = x * 2
        out = f()
        return y + 1, out

    want, compiled = repr(f()), fg.compile(run)
    for _ in range(2):
        y, got = compiled(fg.ones(2))
        assert repr(got) == want
        assert y.tolist() == [3.0, 3.0]


class Base:
    def __floordiv__(self, other):
        return "Base"

    def __rfloordiv__(self, other):
        return "Base right"

    def __lt__(self, other):
        return f"{type(self).__name__}<"

    def __gt__(self, other):
        return f"{type(self).__name__}>"


class Inherits(Base):
    pass


class Overrides(Base):
    def __rfloordiv__(self, other):
        return "Overrides right"


def subclasses_are_asked_first_where_they_override():
    values = (Base(), Inherits(), Overrides(), 1)
    return [(a // b, a < b, a > b) for a in values for b in values if not a == b == 1]


class Without:
    __add__ = __lt__ = __iter__ = __contains__ = __len__ = __neg__ = __getitem__ = __call__ = __str__ = __hash__ = None


class EqualAlone:
    def __eq__(self, other):
        return True


def special_methods_that_are_none():
    a, out = Without(), []
    tries = (
        lambda: a + 1, lambda: a < 1, lambda: [*a], lambda: 1 in a, lambda: len(a), lambda: -a, lambda: a[0],
        lambda: a(), lambda: str(a), lambda: hash(a), lambda: {a}, lambda: hash(EqualAlone()),
        lambda: {EqualAlone(): 1}, lambda: hash((EqualAlone(),)),
    )  # fmt: skip
    for attempt in tries:
        try:
            out.append(attempt())
        except TypeError as e:
            out.append(str(e))
    return out


class Counting:
    n = 0

    def __call__(self, *others):
        self.n += 1
        return self.n, len(others)


counting = Counting()


class Odd:
    __add__ = counting
    __len__ = staticmethod(lambda: 3)
    __getitem__ = classmethod(lambda cls, i: (cls.__name__, i))


def special_methods_that_are_no_functions():
    before, o = counting.n, Odd()
    got = o + 1
    return got[0] - before, got[1], len(o), o[5], counting.n - before


class Proxy:
    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    def __getattribute__(self, name):
        reads.append(name)
        if name == "_target":
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_target"), name)


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self):
        self.a = 1

    def __getattribute__(self, name):
        return "hidden" if name == "a" else object.__getattribute__(self, name)


class Documented:
    """of the class"""

    def __init__(self, own):
        if own:
            self.__doc__ = "own"


class LateDocumented:
    @property
    def __doc__(self):
        return "computed"


reads: list[str] = []
proxy, slotted = Proxy(Base()), Slotted()


def attributes_behind_getattribute():
    del reads[:]
    made = Slotted()
    first = (
        proxy.__class__.__name__,
        isinstance(proxy, Base),
        isinstance(proxy, Inherits),
        type(proxy).__name__,
        slotted.a,
    )
    pause()
    slotted.b = 4
    docs = Documented(True).__doc__, Documented(False).__doc__, LateDocumented().__doc__
    own = object.__getattribute__(slotted, "a"), object.__getattribute__(made, "a"), hasattr(made, "b")
    return first, slotted.b, slotted.a, made.a, own, docs, reads[:]


class Gives:
    def __new__(cls, what):
        if what == "list":
            return [1, 2]
        return object.__new__(Sub if what == "sub" else cls)


class Sub(Gives):
    def __init__(self, what):
        self.what = what


def constructors_that_give_something_else():
    out = [Gives("list"), Sub("list"), type(Gives("sub")), Gives("sub").what, type(Gives("plain")), Sub("other").what]
    for wrong in (
        lambda: object(1),
        lambda: object.__new__(Documented.__base__, 1),
        lambda: Base(1),
        lambda: bool(x=1),
    ):
        try:
            out.append(wrong())
        except TypeError as e:
            out.append(str(e))
    return out


def who_is_who_after_a_break():
    made, box = Base(), [1]
    names = {id(made): "made", id(box): "box"}
    hashed = hash(made)
    counted = collections.Counter("ab")
    kept = id(counted)
    pause()
    counted += collections.Counter("b")
    pair = (1, [2])
    methods = box.append == box.append, box.append != box.append, box.append == [].append
    return names[id(made)], names[id(box)], hash(made) == hashed, id(counted) == kept, methods, copy.copy(pair) is pair


def signs_of_zeros_of_complex_numbers():
    out = []
    for real in (0.0, -0.0):
        for imag in (0.0, -0.0):
            z = complex(real, imag)
            pause()
            out.append((z, str(z.real), str(z.imag), [z]))
    return out


@pytest.mark.parametrize(
    "f",
    [
        subclasses_are_asked_first_where_they_override, special_methods_that_are_none,
        special_methods_that_are_no_functions, attributes_behind_getattribute, constructors_that_give_something_else,
        who_is_who_after_a_break, signs_of_zeros_of_complex_numbers,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_as_in_plain_python(f):
    alike(f)


def test_signs_and_nan_in_guards_of_complex_and_numpy_numbers():
    import numpy as np

    @fg.compile
    def f(x, z):
        return x * 2, str(z)

    values = [0j, -0j, complex(-0.0, 0.0), complex(float("nan"), 1), complex(float("nan"), 1)]
    values += [np.float32(0), np.float32(-0.0), np.complex64(-0j), np.float32("nan"), np.float32("nan"), np.float16(2)]
    for v in values:
        assert f(fg.ones(1), v)[1] == str(v)


def test_what_is_read_no_more_lives_until_the_frame_ends():
    import os
    import tempfile
    import weakref

    def f(x):
        made, known = Base(), weakref.WeakValueDictionary()
        known["made"] = made
        pair = (x, [1])
        same = pair
        place = tempfile.TemporaryDirectory()
        path = place.name
        pause()
        x = x + len(known)
        pause()
        return x, os.path.exists(path), pair is same, path

    for g in (f, fg.compile(f)):
        x, there, same, path = g(fg.zeros(1))
        assert (x.tolist(), there, same, os.path.exists(path)) == ([1.0], True, True, False)
