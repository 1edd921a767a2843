# ruff: noqa
"""Programs that together use every instruction a function can have; run plain and captured by test_versions.py."""

from __future__ import annotations

import functools
from typing import Any

G = 10
BOX: list[Any] = []


class Manager:
    def __init__(self, log: list, swallow: bool = False) -> None:
        self.log, self.swallow = log, swallow

    def __enter__(self) -> int:
        self.log.append("in")
        return 7

    def __exit__(self, kind: Any, exc: Any, tb: Any) -> bool:
        self.log.append(("out", kind.__name__ if kind else None))
        return self.swallow


class Base:
    tag = 3

    def __init__(self, k: int) -> None:
        self.k = k

    def scale(self, x: int, by: int = 2) -> int:
        return x * self.k * by


class Child(Base):
    __match_args__ = ("k",)

    def scale(self, x: int, by: int = 2) -> int:
        return super().scale(x, by=by) + super().tag + super(Child, self).scale(1)


def loops(n):
    total = 0
    for i in range(n):
        if i == 1:
            continue
        if i == 5:
            break
        for j in (1, 2):
            total += i * j
    else:
        total += 100
    while n > 0:
        n -= 1
        if n == 2:
            continue
        total += n
    else:
        total -= 1
    return total, n


def early_return(n):
    for i in range(10):
        with Manager([]):
            try:
                if i == n:
                    return i
            finally:
                BOX.append(i)
                if len(BOX) > 5:
                    BOX.clear()
    return -1


def comprehensions(n):
    i = "outer"
    a = [i * 2 for i in range(n)]
    b = {i: j for i in range(n) for j in range(i) if (i + j) % 2}
    c = {i % 2 for i in a if i > 1}
    d = [[x + y for x in range(2)] for y in range(n) if y != 1]
    fs = [lambda: k + n for k in range(3)]
    e = sum(i for i in a)
    return (
        i,
        a,
        b,
        sorted(c),
        d,
        [f() for f in fs],
        e,
        all(v >= 0 for v in a),
        any(v > 100 for v in a),
        tuple(v for v in a),
    )


def comprehension_over_cells(n):
    x = n

    def inner():
        return x

    return [x for x in range(3)], inner(), [(lambda: x)() + x for x in (5, 6)], x, [y := x, y + 1]


def comprehension_raises(n):
    out = []
    i = 5
    try:
        out.append([10 // (n - i) for i in range(4)])
    except ZeroDivisionError as e:
        out.append(str(e))
    return out, i


def exceptions(n):
    log = []
    try:
        try:
            if n == 0:
                raise ValueError("zero")
            if n == 1:
                raise KeyError("one") from ValueError("cause")
            log.append("fine")
        except ValueError as e:
            log.append(str(e))
            try:
                raise TypeError("again")
            except (TypeError, IndexError) as e2:
                log.append(type(e2.__context__).__name__)
        else:
            log.append("else")
        finally:
            log.append("finally")
    except KeyError as e:
        log.append((str(e), str(e.__cause__)))
    return log


def reraises(n):
    try:
        [1, 2][n]
    except IndexError:
        if n > 5:
            raise
        return "caught"
    return "ok"


def managers(n):
    log = []
    with Manager(log) as a, Manager(log, True) as b:
        log.append(a + b)
        if n == 1:
            raise ValueError("swallowed")
        log.append("end")
    with Manager(log):
        if n == 2:
            return log
    return [log]


def not_a_manager(n):
    try:
        with n:
            pass
    except TypeError as e:
        return str(e)


def unpacking(n):
    a, b = n, n + 1
    a, b = b, a
    c, *d, e = range(n + 3)
    (f, g), h = (a, b), c
    try:
        x, y = [1, 2, 3][:n]
    except ValueError as err:
        x, y = str(err), None
    try:
        x2, y2 = range(n)
    except ValueError as err:
        x2 = str(err)
    return a, b, c, d, e, f, g, h, x, y, x2, [*d, 1, *d], {*d}, {**{"a": 1}, "b": n}


def calls(n):
    def f(a, b=2, *rest, c=3, **kw):
        return a, b, rest, c, sorted(kw.items())

    args, kw = (n, 1), {"c": 5, "z": 6}
    p = functools.partial(f, 1, c=9)
    return (
        f(n),
        f(n, c=1),
        f(*args),
        f(*args, **kw),
        f(0, *args, n, d=1, **kw),
        p(n),
        "a-b".split("-"),
        [].__len__(),
        max(n, 3),
    )


def call_errors(n):
    out = []
    for bad in (
        lambda: calls(1, 2),
        lambda: "x".join(1, 2, 3),
        lambda: dict(**{"a": 1}, **{"a": 2}),
        lambda: undefined_name,
    ):
        try:
            bad()
        except (TypeError, NameError) as e:
            out.append(type(e).__name__)
    return out


class Shown:
    def __format__(self, spec: str) -> str:
        return f"<{spec}>"

    def __str__(self) -> str:
        return "str"


def strings(n):
    x, s = 1.5 * n, Shown()
    return (
        f"{s}{s!s}{s:ab}{s!s:>4}",
        f"{n}|{x:.2f}|{n!r:>5}|{'a'!s}|{'é'!a}|{x:{n + 5}}|{n=}",
        "%d" % n,
        f"{'s'}{n:03d}",
    )


def slices(n):
    a = list(range(10))
    a[n : n + 2] = [0, 0, 0]
    del a[0], a[1:3]
    a[0] += 5
    a[-1] *= 2
    return a[1:], a[:n], a[::2], a[n], a[:-1][n:], (1, 2, 3)[n:]


def operators(n):
    a = n
    a += 3
    a -= 1
    a *= 2
    a //= 2
    a **= 2
    a %= 1000
    a <<= 2
    a >>= 1
    a |= 1
    a &= 255
    a ^= 3
    return a, a / 4, -a, +a, ~a, not a, a < 5, a <= n != 4, 1 < n < 3 < a, a == n, a is n, a is not None


def logic(n):
    a = n and n - 1 or "zero"
    b = not (n and n > 1)
    c = n if n > 1 else None
    d = 0
    if c is None:
        d += 1
    if c is not None and not b:
        d += 2
    e = n in (1, 2), n not in (1, 2), not n in (3,), (n or 0) < 2
    while not d:
        d = 9
    while c is None:
        c = 4
    return a, b, c, d, e, bool(n), (n > 0) + (not n)


def closures(n):
    count = 0

    def add(k=n, *, step: int = 1) -> int:
        nonlocal count
        count += k * step
        return count

    first = add()
    del n
    return first, add(2, step=3), count, (lambda q: q + count)(1), add.__defaults__, add.__kwdefaults__


def makes_function(n):
    def inner(a: int, b: str = "x", *, c: float = 2.0) -> list:
        return [a, b, c, n]

    return inner


def globals_(n):
    global G
    old = G
    G = old + n
    new = G
    G = old
    return old, new


def supers(n):
    return Child(n).scale(3), Child(n).scale(2, by=1)


def matches(n):
    out = []
    for v in (0, [1, 2], [1, 2, 3], {"k": n, "z": 1}, Child(n), "s", (n, n), 2.5, None):
        match v:
            case 0 | None:
                out.append("zero")
            case [1, b]:
                out.append(b)
            case [a, *rest] if len(rest) == 2:
                out.append((a, rest))
            case {"k": k, **more}:
                out.append((k, more))
            case Child(k):
                out.append(("child", k))
            case str() as s:
                out.append(s)
            case (a, b) if a == b:
                out.append(a)
            case float(f):
                out.append(f)
            case _:
                out.append("other")
    return out


def asserts(n):
    try:
        assert n > 1, f"n is {n}"
        assert n
    except AssertionError as e:
        return str(e)
    return "fine"


def unbound(n):
    if n > 1:
        x = 1
    try:
        return x
    except UnboundLocalError as e:
        return str(e)


def deletes(n):
    x = [n]
    box = Base(n)
    box.y = 1
    del box.y
    del x[0]
    y = x
    del x
    try:
        del x
    except UnboundLocalError:
        y.append("gone")
    return y, hasattr(box, "y")


def count_up(n):
    got = yield n
    try:
        for i in range(n):
            yield i + (got or 0)
    finally:
        BOX.append("closed")
        BOX.clear()
    return "done"


def delegates(n):
    r = yield from count_up(n)
    yield r


def bad_generator(n):
    yield 1
    raise StopIteration(n)


def generators(n):
    out = list(count_up(n)), list(delegates(n))
    g = count_up(n)
    out += (next(g), g.send(10), next(g, "end"))
    g.close()
    h = count_up(2)
    next(h), next(h)
    try:
        h.throw(ValueError("in"))
    except ValueError as e:
        out += (str(e),)
    try:
        list(bad_generator(n))
    except RuntimeError as e:
        out += (str(e), type(e.__cause__).__name__)
    a, b = (i * 2 for i in (n, 1))
    return out, a, b


def imports(n):
    import math
    from collections import OrderedDict as D
    from math import floor

    return floor(n + 0.5), math.ceil(n + 0.2), list(D(a=n))


def walrus(n):
    if (m := n + 1) > 2 and (k := m * 2):
        return m, k
    return [last := i for i in range(m)], last


def many_locals(n):
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = n
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = b8 = b9 = n + 1
    for i in range(2):
        a0, b0 = b0, a0
        a9, b9 = b9 + i, a9 + b8
    c = (lambda: b9)()
    return a0 + a1 + a2 + a3 + a4, a5 + a6 + a7 + a8 + a9, b0 + b1 + b2 + b3 + b4, b5 + b6 + b7 + b8 + c


def _wide(count: int) -> Any:
    """A function with more locals, constants and longer jumps than one byte can tell."""
    lines = ["def wide(n):"]
    lines += [f"    v{k} = n + {k + 300}" for k in range(count)]
    lines += ["    total = 0", "    for i in range(2):", "        if i == n: continue"]
    lines += [f"        total += v{k} - {k * 7 + 1000}" for k in range(count)]
    lines += [f"    return total, [v{count - 1} + q for q in range(n)], v3"]
    made: dict[str, Any] = {}
    exec(compile("\n".join(lines), "<wide>", "exec"), made)
    return made["wide"]


wide = _wide(270)

PROGRAMS = [
    loops, early_return, comprehensions, comprehension_over_cells, comprehension_raises, exceptions, reraises, managers,
    not_a_manager, unpacking, calls, call_errors, strings, slices, operators, logic, closures, globals_, supers, matches,
    asserts, unbound, deletes, generators, imports, walrus, many_locals,
]  # fmt: skip
