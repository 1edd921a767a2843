"""Texts made of numbers that change from call to call: right at every call, and no version for each number."""

from __future__ import annotations

import dataclasses
import io
import logging
import reprlib
from typing import Any

import pytest
from helpers import check

import fusegrad as T

X = T.ones(3)
ONE_GRAPH = {
    "plain": lambda x, n: (x * n, f"{n}"),
    "among others": lambda x, n: (x * n, f"step {n} of {n * 2 + 1}: {x.shape[0]}"),
    "braces and quotes": lambda x, n: (x * n, f"{{'{n}'}} \"{n}\" \\{n}\n"),
    "filled": lambda x, n: (x * n, f"{n:>6}|{n:03d}|{n:x}|{n:+}"),
    "width": lambda x, n: (x * n, f"{x.shape[0]:{2}}|{n!r:>4}|{n!s:>4}|{n!a:<5}|"),
    "filled with braces": lambda x, n: (x * n, f"{n:{'{'}>6}{n!r:{'}'}<6}", format(n, "{^9d"), f"{n}:{{"),
    "debugging": lambda x, n: (x * n, f"{n=} {n + 1 = }"),
    "a float": lambda x, n: (x * n, f"{n / 7:.3f} {n / 3:e} {n * 0.5}"),
    "str and repr": lambda x, n: (x * n, str(n), repr(n), format(n, "04d"), format(n)),
    "joined": lambda x, n: (x * n, "a" + str(n) + "b" + f"{n}" + "c"),
    "added to": lambda x, n: (x * n, added_to(n)),
    "percent": lambda x, n: (x * n, "%d of %5.2f in %s {}" % (n, n / 2, "it")),  # noqa: UP031
    "percent of one": lambda x, n: (x * n, "%d%%" % n),  # noqa: UP031
    "format": lambda x, n: (x * n, "{} and {1:>4}{{}}".replace("{}", "{0}", 1).format(n, n + 1)),
    "in containers": lambda x, n: (x * n, [f"k{n}"], {"a": f"v{n}"}, (f"t{n}", [f"u{n}"])),
    "in an object": lambda x, n: (x * n, Named(f"n{n}").name),
    "two of them": lambda x, n: (x * n, f"{f'{n}'}-{f'{n + 1}'}"),
}


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


def added_to(n: Any) -> Any:
    text = "n"
    text += f"={n}"
    text += "."
    return text


@pytest.mark.parametrize("name", ONE_GRAPH)
def test_one_graph(name: str) -> None:
    """The third version serves all numbers; no break."""
    check(ONE_GRAPH[name], *((X, n) for n in (3, 5, 8, -1, 0, 1, 12, 10**6)), breaks=0, compiles=3)


LOOKED_AT = {
    "key": lambda x, n: (x * n, {"k3": 1, "k5": 2}.get(f"k{n}", 0)),
    "new key": lambda x, n: (x * n, {f"k{n}": x}),
    "keyword": lambda x, n: (x * n, dict(**{f"k{n}": n})),
    "attribute": lambda x, n: (x * n, getattr(Numbered, f"k{n}", None), hasattr(Numbered, f"k{n}")),
    "compared": lambda x, n: (x * n, f"{n}" == "5", "5" == f"{n}", f"{n}" < "6", f"{n}" in ["5"], "5" in f"{n}"),
    "truth": lambda x, n: x * n if f"{n}" else x,
    "length": lambda x, n: (x * n, len(f"{n}"), f"{n}".zfill(4), f"{n}"[0], f"{n}"[::-1], f"{n}" * 2),
    "items": lambda x, n: (x * n, list(f"{n}"), *f"{n}"),
    "join": lambda x, n: (x * n, ", ".join([f"{n}", "a"]), "".join(f"{k}{n}" for k in range(2))),
    "join in a handler": lambda x, n: handled(x, n),
    "number again": lambda x, n: x * int(f"{n}") + float(f"{n}.5"),
    "sorted": lambda x, n: (x * n, sorted([f"{n}", "4"]), max(f"{n}", "4"), {f"{n}", "4"}),
    "an error": lambda x, n: (x * n, ValueError(f"{n}").args, str(ValueError(f"{n}"))),
    "text of a text": lambda x, n: (x * n, f"{f'{n}':>9}", "%s!" % f"{n}", f"{f'{n}'!r}", "{}".format(f"{n}")),  # noqa: UP031
    "kind": lambda x, n: (x * n, type(f"{n}"), isinstance(f"{n}", str), hash(f"{n}") == hash(str(n))),
}


class Numbered:
    k3, k5, k8 = 3, 5, 8


def handled(x: Any, n: Any) -> Any:
    try:
        text = "-".join([f"{n}", "a"])
    except TypeError:
        return x
    return x * n, text


@pytest.mark.parametrize("name", LOOKED_AT)
def test_what_looks_into_a_text_has_its_letters(name: str) -> None:
    check(LOOKED_AT[name], *((X, n) for n in (3, 5, 8, 12, 3, 6)), repeat=2, plain=None)


def test_errors_say_the_number() -> None:
    def f(x: Any, n: Any) -> Any:
        if n > 6:
            raise ValueError(f"{n} is too large for {x.shape[0]}")
        return x * n

    check(f, *((X, n) for n in (3, 5, 8, 12, 6)), plain=None)


def test_the_text_of_an_error_is_not_asked_for() -> None:
    """An exception that leaves the frame: neither its ``__str__`` nor that of what it holds runs."""
    asked = []

    class Loud(ValueError):
        def __str__(self) -> str:
            asked.append("error")
            return "loud"

    class Held:
        def __repr__(self) -> str:
            asked.append("held")
            return "held"

        __str__ = __repr__

    def f(x: Any, kind: Any, what: Any) -> Any:
        raise kind(what)

    g = T.compile(f, options={"limit": 100})
    for kind, what in [(Loud, 1), (ValueError, Held()), *((ValueError, f"text {k}") for k in range(8))]:
        for _ in range(2):
            with pytest.raises(kind) as e:
                g(X, kind, what)
            assert e.value.args == (what,)
    assert not asked


def test_prints_and_logs() -> None:
    """A text for a call that runs for real: compiles and breaks do not grow with the numbers."""
    out = io.StringIO()
    log = logging.Logger("a test's")
    log.addHandler(logging.StreamHandler(out))

    def f(x: Any, n: Any) -> Any:
        y = x * n
        print(f"step {n}", f"{n:>4}", file=out)
        log.warning(f"rows: {x.shape[0]}")
        return y + n

    T.compiler.reset()
    g = T.compile(f)
    for n in range(1, 13):
        assert T.equal(g(T.ones(n), n), T.ones(n) * 2 * n)
    assert out.getvalue() == "".join(f"step {n} {n:>4}\nrows: {n}\n" for n in range(1, 13))
    stats = T.compiler.stats()
    assert stats["graph_breaks"] == 2
    assert stats["compiles"] <= 9
    assert not any("FG015" in r for r in stats["break_reasons"])


def test_floats_that_change() -> None:
    def f(x: Any, lr: float) -> Any:
        return x * lr, f"lr={lr:.2e}", str(lr), repr(lr)

    check(f, *((X, v) for v in (0.5, 0.25, 1e-5, 3.0, 1e22, 0.1, -2.5)), compiles=3)
    check(f, (X, 0.5), (X, 0.25), (X, 0.1), (X, float("inf")), (X, -0.0), (X, 2.0))


def test_fullgraph_stays_one_graph() -> None:
    check(LOOKED_AT["key"], *((X, n) for n in (3, 5, 8, 12)), breaks=0, fullgraph=True)


def test_texts_from_outside_are_joined() -> None:
    check(lambda x, s: (x + 1, s + "!", f"{s}-{s}", f"{s}"), *((X, f"s{n}") for n in range(8)), breaks=0, compiles=6)


@dataclasses.dataclass
class Step:
    n: int = 1
    then: Any = None


class Itself:
    def __init__(self) -> None:
        self.me = self

    @reprlib.recursive_repr("<again>")
    def __repr__(self) -> str:
        return f"Itself({self.me!r})"


def test_texts_of_dataclasses_and_of_what_holds_itself() -> None:
    def f(x: Any, step: Any, named: Any) -> Any:
        before = f"{step}"
        step.n, step.then = 5, Step(x.shape[0], [1])
        after = repr(step)
        step.then = step
        return x * len(after), before, after, str(step), f"{named!r:>20}", repr(Step(2, Step()))

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        got = c(X, Step(), Itself())
        assert got[1:] == f(X, Step(), Itself())[1:]
        assert got[3] == "Step(n=5, then=...)"
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]
