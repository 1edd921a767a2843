"""Generators and coroutines in and around captured code, compared with the plain function, on every version."""

import asyncio
import contextlib
import inspect
from typing import Any

import pytest
from helpers import X, compare, tree

import fusegrad as T

LOG: list = []


# ---- coroutines, generators


async def double(x):
    return x * 2


async def outer(x):
    y = await double(x)
    await asyncio.sleep(0)
    return y + 1


async def numbers(x):
    for k in range(3):
        yield x * k


@contextlib.asynccontextmanager
async def five():
    yield 5


async def consumer(x):
    total = x * 0
    async for v in numbers(x):
        total = total + v
    async with five() as m:
        total = total + m
    return total + sum([v async for v in numbers(x)])


def generator(x):
    y = x * 2
    try:
        z = yield y
        yield y.sum() + z
        return 3
    finally:
        LOG.append("closed")


@pytest.mark.parametrize("f", [lambda x: asyncio.run(outer(x)), lambda x: asyncio.run(consumer(x))])
def test_coroutines_are_run_by_captured_code(f):
    compare(f)


def test_compiled_generator_and_coroutines():
    """They run as they are, and say so; fullgraph refuses them."""

    def consume(g: Any) -> Any:
        it = g(T.tensor(X))
        out = [type(it).__name__, next(it), it.send(5)]
        with pytest.raises(StopIteration) as e:
            next(it)
        it = g(T.tensor(X))
        next(it)
        it.close()
        log, LOG[:] = list(LOG), []
        return tree([*out, e.value.value, log])

    async def everything(g: Any) -> list:
        return [v async for v in g(T.tensor(X))]

    users = {
        generator: (consume, inspect.isgeneratorfunction),
        outer: (lambda g: tree(asyncio.run(g(T.tensor(X)))), inspect.iscoroutinefunction),
        numbers: (lambda g: tree(asyncio.run(everything(g))), inspect.isasyncgenfunction),
    }
    for f, (use, kind) in users.items():
        T.compiler.reset()
        c = T.compile(f)
        assert kind(c) and use(c) == use(f)
        if f is numbers:
            assert "an async generator" in T.compiler.stats()["break_reasons"][0]
        with pytest.raises(TypeError, match="generator or coroutine"):
            T.compile(f, fullgraph=True)


def test_generators_inside():
    def gen(x):
        for k in range(3):
            r = yield x * k
            if r:
                x = x + r
        return "end"

    def delegate(x):
        r = yield from gen(x)
        yield r

    def f(x):
        g = gen(x)
        out = [next(g), g.send(10)]
        try:
            while True:
                next(g)
        except StopIteration as e:
            out.append(e.value)
        return out, list(delegate(x))

    assert compare(f)["graph_breaks"] == 0


@pytest.mark.parametrize("kind", [StopIteration, ValueError])
@pytest.mark.parametrize("started", [False, True])
def test_an_error_thrown_into_a_generator_that_does_not_handle_it(kind, started):
    def gen(x):
        yield x
        yield x * 2

    def f(x):
        g = gen(x)
        if started:
            next(g)
        try:
            g.throw(kind("q"))
        except Exception as e:
            return x * 2, type(e).__name__, str(e), repr(e.__cause__), list(g)

    assert compare(f)["graph_breaks"] == 0
