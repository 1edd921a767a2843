"""Compiled generator functions and coroutines: what is sent, thrown and awaited, and when code runs, is Python's."""

import asyncio
import contextlib
import gc
import inspect
import traceback

import pytest
from helpers import tree

import fusegrad as T

X = T.arange(3.0)
LOG: list = []


def plain_loop(x, n=3):
    y = x * 2
    for i in range(n):
        got = yield y * i
        if got is not None:
            y = y + got
    return y.sum()


def handlers(x, n=3):
    try:
        try:
            z = yield x * 2
        except ValueError as e:
            LOG.append(("caught", str(e)))
            z = x * 5
        if z is None:
            z = x + n
        yield z + 1
        try:
            z = yield z
        finally:
            LOG.append("inner")
            yield x - 1
    except KeyError:
        yield x * 100
        raise
    finally:
        LOG.append("outer")
        y = x * 3
        LOG.append(y.sum().item())


def delegating(x, n=3):
    yield from (x + i for i in range(n))
    r = yield from plain_loop(x, 2)
    yield r
    with contextlib.suppress(ValueError):
        r = yield from handlers(x)
    yield from [x, x * 2]
    return r


@contextlib.contextmanager
def noted(name):
    LOG.append(f"enter {name}")
    try:
        yield name
    finally:
        LOG.append(f"exit {name}")


def managers(x, n=3):
    with noted("a"), T.no_grad():
        y = x * 2
        yield y
        with noted("b"):
            yield y * y
            LOG.append(T.is_grad_enabled())
    yield y + n, T.is_grad_enabled()


def ends_early(x, n=3):
    for i in range(n):
        if i == 1:
            return x * 7
        yield x + i
    yield x


def stops_itself(x, n=3):
    yield x
    next(iter(()))
    yield x * 2


def branches(x, n=3):
    total = x * 0
    while total.sum() < 10:
        total = total + x
        yield total
    if total.max() > 3:
        yield "large"
    else:
        yield "small"


def in_handler(x, n=3):
    try:
        raise KeyError("k")
    except KeyError as e:
        yield x * 2
        try:
            yield str(e)
            raise
        except KeyError as again:
            yield again is e
    yield x


def mutates(x, n=3):
    log = []
    for i in range(n):
        log.append(x * i)
        yield log
        log = list(log)
    x.add_(1)
    yield x


def recursive(x, n=3):
    if n:
        yield x * n
        yield from recursive(x + 1, n - 1)
        yield n


FUNCTIONS = [plain_loop, handlers, delegating, managers, ends_early, stops_itself, branches, in_handler, mutates,
             recursive]  # fmt: skip


def nexts(g):
    return list(g)


def sends(g):
    out = [next(g)]
    out += [g.send(T.ones(3) * k) for k in range(3)]
    return out, g.close()


def first_only(g):
    return next(g)


def dropped(g):
    out = next(g)
    del g
    gc.collect()
    return out


def closed(g):
    out = next(g)
    g.close()
    return out, list(g)


def never_started(g):
    g.close()
    return list(g)


def thrown(kind, after):
    def use(g):
        out = [next(g) for _ in range(after)]
        out.append(g.throw(kind("t")))
        return out + list(g)

    use.__name__ = f"thrown_{kind.__name__}_{after}"
    return use


def wrong_send(g):
    return g.send(1)


def value(g):
    def outer():
        out = yield from g
        yield "returned", out

    return list(outer())


USES = [nexts, sends, first_only, dropped, closed, never_started, thrown(ValueError, 1), thrown(KeyError, 2),
        thrown(StopIteration, 1), thrown(GeneratorExit, 1), thrown(ValueError, 0), wrong_send, value]  # fmt: skip


def seen(f, use):
    LOG.clear()
    x = T.arange(3.0)
    try:
        out = use(f(x))
    except BaseException as e:
        kinds = [type(e), type(e.__cause__), type(e.__context__)]
        out = (kinds, str(e))
    return tree(out), tree(x), list(LOG), T.is_grad_enabled()


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_generators(f):
    T.compiler.reset()
    c = T.compile(f)
    for use in USES:
        for _ in range(2):
            want, got = seen(f, use), seen(c, use)
            T.set_grad_enabled(True)
            assert got == want, use.__name__
    assert not any("FG014" in b for b in T.compiler.stats()["break_reasons"]), T.compiler.stats()["break_reasons"]
    assert T.compiler.stats()["compiles"] > 0


def test_it_is_a_generator_function():
    c = T.compile(plain_loop)
    assert inspect.isgeneratorfunction(c) and c.__name__ == "plain_loop"
    g = c(X)
    assert inspect.isgenerator(g) and g.__name__ == "plain_loop" and g.__qualname__ == "plain_loop"
    with pytest.raises(TypeError, match="plain_loop"):
        c()
    with pytest.raises(TypeError, match="can't be one graph"):
        T.compile(plain_loop, fullgraph=True)


def test_few_compiles():
    """Values and iterations after the first ones run what is there."""
    T.compiler.reset()
    c = T.compile(plain_loop)
    for x in (X, X + 1):
        assert tree(list(c(x, 6))) == tree(list(plain_loop(x, 6)))
    before = T.compiler.stats()["compiles"]
    for x in (X * 2, X - 1):
        assert tree(list(c(x, 6))) == tree(list(plain_loop(x, 6)))
    assert T.compiler.stats()["compiles"] == before


def test_nothing_runs_before_the_first_next():
    state = {"k": 1.0}

    def f(x):
        LOG.append("ran")
        yield x * state["k"]

    LOG.clear()
    g = T.compile(f)(X)
    assert not LOG
    state["k"] = 5.0
    assert next(g).tolist() == [0.0, 5.0, 10.0] and LOG == ["ran"]


def test_two_at_once():
    c = T.compile(plain_loop)
    a, b = c(X), c(X + 1)
    got = [tree(t) for pair in zip(a, b, strict=True) for t in pair]
    want = [tree(t) for pair in zip(plain_loop(X), plain_loop(X + 1), strict=True) for t in pair]
    assert got == want


def test_gradients_through_a_generator():
    def f(w):
        for k in range(3):
            yield (w * w).sum() * k
            w = w * 2

    found = []
    for g in (f, T.compile(f)):
        w = T.ones(3, requires_grad=True)
        sum(g(w)).backward()
        found.append(w.grad.tolist())
    assert found[0] == found[1]


def test_consumed_inside_of_another():
    c = T.compile(plain_loop)

    def outer(x):
        return sum(t.sum() for t in c(x, 4))

    T.compiler.reset()
    d = T.compile(outer)
    got = d(X)
    assert T.compiler.stats()["graph_breaks"] == 0 and got == outer(X)


class Stream:
    def __init__(self, k):
        self.k = k

    @T.compile
    def __iter__(self):
        while True:
            self.k += 1
            yield X * self.k


def test_method_and_endless():
    s = Stream(2)
    it = iter(s)
    assert [next(it)[1].item() for _ in range(5)] == [3, 4, 5, 6, 7] and s.k == 7


# ---- coroutines


async def later(x, n=1):
    for _ in range(n):
        await asyncio.sleep(0)
    return x * 2


async def fails(x):
    y = x * 2
    await asyncio.sleep(0)
    raise RuntimeError(f"no {y.sum().item()}")


async def straight(x):
    return (x * 2 + 1).sum()


async def awaits(x):
    y = x + 1
    z = await later(y)
    w = await later(z * y, 2)
    return (z * w).sum()


async def handles(x):
    y = x * 3
    try:
        await fails(y)
    except RuntimeError as e:
        LOG.append(str(e))
        y = await later(y)
    finally:
        LOG.append("finally")
    return y + 1


async def loops(x):
    total = x * 0
    for i in range(4):
        total = total + await later(x * i)
        if total.sum() > 20:
            break
    return total


async def uses_managers(x):
    lock = asyncio.Lock()
    y = x * 2
    async with lock:
        y = y + await later(x)
    async for v in source(y):
        y = y + v
    return y.sum(), [v async for v in source(x)]


async def source(x):
    for i in range(3):
        await asyncio.sleep(0)
        yield x * i


async def wrong(x):
    return await (x * 2)


async def gathers(x):
    parts = await asyncio.gather(*(later(x + i) for i in range(3)))
    return sum(parts)


async def waits_long(x):
    try:
        y = x * 2
        await asyncio.sleep(30)
        return y
    except asyncio.CancelledError:
        LOG.append((y * 2).sum().item())
        raise
    finally:
        LOG.append("end")


ASYNC = [straight, awaits, handles, loops, uses_managers, wrong, gathers, fails]


def outcome(f, x=X):
    LOG.clear()
    try:
        return tree(asyncio.run(f(x))), list(LOG)
    except Exception as e:
        return type(e), str(e), list(LOG)


@pytest.mark.parametrize("f", ASYNC, ids=lambda f: f.__name__)
def test_coroutines(f):
    T.compiler.reset()
    c = T.compile(f)
    assert inspect.iscoroutinefunction(c)
    for x in (X, X, X + 1, T.ones(5)):
        assert outcome(c, x) == outcome(f, x)
    assert not any("FG014" in b for b in T.compiler.stats()["break_reasons"]), T.compiler.stats()["break_reasons"]
    assert T.compiler.stats()["compiles"] > 0


def test_many_tasks():
    async def many(f):
        return await asyncio.gather(*(f(X + i) for i in range(6)))

    c = T.compile(awaits)
    assert tree(asyncio.run(many(c))) == tree(asyncio.run(many(awaits)))
    assert tree(asyncio.run(many(c))) == tree(asyncio.run(many(awaits)))


def test_cancelled():
    async def main(f):
        LOG.clear()
        task = asyncio.ensure_future(f(X))
        await asyncio.sleep(0.001)
        await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return list(LOG)

    c = T.compile(waits_long)
    for _ in range(2):
        assert asyncio.run(main(c)) == asyncio.run(main(waits_long))


def test_others_are_recorded():
    T.compiler.reset()
    c = T.compile(source)
    assert c is source
    reasons = T.compiler.stats()["break_reasons"]
    assert any("FG012" in r and "async generator" in r for r in reasons), reasons


def _waits(x, log):
    """Lines: every place where something can be thrown in."""
    yield x
    try:
        yield x + 1
    except ValueError as e:
        log.append(e.__traceback__.tb_lineno)
        yield x + 2
    try:
        yield x + 3
    except KeyError:
        raise


async def _awaits(x, log):
    await _Once()
    try:
        await _Once()
    except ValueError as e:
        log.append(e.__traceback__.tb_lineno)
    await _Once()


class _Once:
    def __await__(self):
        return (yield 1)


@pytest.mark.parametrize("f", [_waits, _awaits])
@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_what_is_thrown_in_shows_the_line_where_the_frame_waits(f, kind):
    for n in range(4):
        seen = []
        for g in (f, T.compile(f)):
            log = []
            it = g(T.ones(2), log)
            out = [log]
            try:
                for _ in range(n + 1):
                    it.send(None)
                it.throw(kind("thrown"))
            except (ValueError, KeyError, StopIteration) as e:
                out.append(type(e))
                out.append([t.lineno for t in traceback.extract_tb(e.__traceback__)][1:])
            seen.append(out)
        assert seen[0] == seen[1]
