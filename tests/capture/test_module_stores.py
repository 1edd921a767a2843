"""Attributes of the user's modules that compiled code sets: as globals that it sets."""

import sys
import types

import pytest

import fusegrad as fg

MOD = types.ModuleType("settings_of_a_test")


@pytest.fixture(autouse=True)
def _fresh():
    vars(MOD).clear()
    vars(MOD).update(__name__="settings_of_a_test", scale=2.0, calls=0, items=[])
    fg.compiler.reset()
    yield
    vars(MOD).clear()
    MOD.__name__ = "settings_of_a_test"


def breaks() -> list:
    return fg.compiler.stats()["break_reasons"]


def test_set_and_read():
    def f(x):
        MOD.calls += 1
        MOD.last = x * MOD.scale
        MOD.scale = 5.0
        return MOD.last * MOD.scale, MOD.calls

    seen = []
    for g in (f, fg.compile(f)):
        vars(MOD).update(scale=2.0, calls=0)
        vars(MOD).pop("last", None)
        r = []
        for k in range(4):
            y, calls = g(fg.full((3,), float(k)))
            r.append((y.tolist(), calls, MOD.calls, MOD.scale, MOD.last.tolist()))
            MOD.scale += k
        seen.append(r)
    assert seen[0] == seen[1]
    assert breaks() == []


def test_functions_of_the_module_see_it():
    exec("def scaled(x):\n    return x * scale\n\ndef rescale(v):\n    global scale\n    scale = v", vars(MOD))

    def f(x):
        MOD.scale = 3.0
        a = MOD.scaled(x)
        MOD.rescale(4.0)
        return a + MOD.scaled(x) * MOD.scale, vars(MOD)["scale"]

    x = fg.ones(2)
    want = f(x)
    MOD.scale = 2.0
    got = fg.compile(f)(x)
    assert (got[0].tolist(), got[1]) == (want[0].tolist(), want[1]) == ([19.0, 19.0], 4.0)
    assert MOD.scale == 4.0


def test_over_a_break_and_at_an_error():
    def f(x, n):
        MOD.scale = 7.0
        print(end="")
        y = x * MOD.scale
        MOD.scale = 8.0
        if n:
            raise ValueError("no")
        return y

    g = fg.compile(f)
    assert g(fg.ones(2), 0).tolist() == [7.0, 7.0] and MOD.scale == 8.0
    MOD.scale = 1.0
    with pytest.raises(ValueError, match="no"):
        g(fg.ones(2), 1)
    assert MOD.scale == 8.0


def test_names_of_the_module_itself_and_other_classes():
    class Strict(types.ModuleType):
        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2)

    strict = Strict("strict")

    def f(x):
        strict.a = 3
        MOD.__doc__ = "text"
        return x * strict.a

    assert fg.compile(f)(fg.ones(2)).tolist() == [6.0, 6.0]
    assert (strict.a, MOD.__doc__) == (6, "text")


def test_a_module_that_is_imported(tmp_path, monkeypatch):
    (tmp_path / "counted_by_a_test.py").write_text("n = 0\n\ndef count():\n    global n\n    n += 1\n    return n\n")
    monkeypatch.syspath_prepend(tmp_path)
    import counted_by_a_test as m

    @fg.compile
    def f(x):
        m.n = m.n + 10
        return x * m.count()

    assert [f(fg.ones(1)).item() for _ in range(3)] == [11.0, 22.0, 33.0]
    assert m.n == 33 and sys.modules["counted_by_a_test"] is m
