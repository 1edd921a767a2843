"""``manual_seed`` in captured code: the numbers, and the state after every call, are those of plain code."""

import numpy as np
import pytest
from stale import Scenarios, compiled, results

import fusegrad as T
from fusegrad.utils.checkpoint import checkpoint

scenario = Scenarios()


def x():
    return T.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], requires_grad=True)


@scenario
def a_seed_before_draws(comp):
    def f(x):
        T.manual_seed(3)
        return T.nn.functional.dropout(x + T.rand(3), 0.5)

    c = comp(f)
    T.manual_seed(1)
    for _ in range(3):
        a = x()
        y = c(a)
        y.sum().backward()
        yield y, a.grad, T.get_rng_state(), T.rand(2)


@scenario
def a_seed_that_changes(comp):
    def f(x, seed):
        g = T.manual_seed(seed)
        return x + T.rand(3), g is T.default_generator, type(g).__name__

    def g(x):
        return T.manual_seed(seed=x.shape[0] * 7), T.rand(2)

    c, d = comp(f), comp(g)
    for seed in (1, 2, 1, 5, -1):
        yield c(x(), seed), T.get_rng_state()
        yield d(T.ones(seed + 2))[1], T.initial_seed()


@scenario
def no_draws(comp):
    c = comp(lambda x: (T.manual_seed(6), x * 2)[1])
    yield c(x()), T.get_rng_state(), T.rand(1)


@scenario
def seeds_one_after_the_other(comp):
    def f(x):
        T.manual_seed(2)
        T.manual_seed(5)
        return x + T.rand(3)

    yield comp(f)(x()), T.get_rng_state()


@scenario
def between_draws(comp):
    def f(x):
        a = T.rand(3)
        T.manual_seed(4)
        b = T.rand(3)
        T.manual_seed(5)
        return x + a, b, [T.manual_seed(i) and T.randn(2) for i in range(3)]

    c = comp(f)
    T.manual_seed(1)
    for _ in range(3):
        yield c(x()), T.get_rng_state()


@scenario
def breaks_around(comp):
    def f(x):
        T.manual_seed(2)
        print("", end="")
        y = x + T.rand(3)
        a = T.initial_seed(), T.get_rng_state()
        T.manual_seed(3)
        return T.nn.functional.dropout(y), a

    c = comp(f)
    for _ in range(3):
        yield c(x()), T.get_rng_state()


@scenario
def an_error_before_the_seed(comp):
    def f(x, i):
        y = x.gather(1, i)
        T.manual_seed(4)
        return y + T.rand(1)

    c, good, bad = comp(f), T.tensor([[0], [1]]), T.tensor([[5], [0]])
    yield c(x(), good), T.get_rng_state()
    T.manual_seed(78)
    T.rand(1)
    with pytest.raises((RuntimeError, IndexError)):
        c(x(), bad)
    yield T.get_rng_state(), T.rand(2)
    yield c(x(), good), T.get_rng_state()


@scenario
def other_seeds(comp):
    def f(x, seed):
        T.manual_seed(seed)
        return x + T.rand(3)

    c = comp(f)
    for seed in (-1, 2**63, 2**64, -(2**63) - 1, True, 3.7, "a", np.int64(5), T.tensor(4), 2**61, 2**62 + 5, 0):
        try:
            yield c(x(), seed), T.get_rng_state()
        except (RuntimeError, ValueError, TypeError) as e:
            yield type(e).__name__, str(e)


@scenario
def in_functions_that_others_call(comp):
    def seeded(x):
        T.manual_seed(9)
        return x * T.rand(x.shape)

    def hooked(x):
        x = x * 1
        x.register_hook(seeded)
        return x * T.rand(2, 3)

    fs = [
        lambda x: checkpoint(seeded, x, use_reentrant=False) + T.rand(3),
        lambda x: T.func.vmap(lambda a: (T.manual_seed(3), a * 2)[1])(x) + T.rand(3),
        lambda x: T.cond(x.sum() > 0, lambda a: (T.manual_seed(5), a * 2)[1], lambda a: a * 1, (x,)) + T.rand(3),
        hooked,
    ]
    for f in fs:
        c = comp(f)
        for n in range(2):
            T.manual_seed(n)
            a = x()
            y = c(a)
            y.sum().backward()
            yield y, a.grad, T.get_rng_state()


test_scenarios = scenario.test()


@pytest.mark.parametrize("name", ["a_seed_before_draws", "no_draws", "seeds_one_after_the_other"])
def test_no_breaks(name):
    results(scenario[name], compiled)
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]


def test_a_changing_seed_compiles_twice():
    T.compiler.reset()
    c = T.compile(lambda x, seed: (T.manual_seed(seed), x + T.rand(3))[1])
    for seed in range(6):
        c(x(), seed)
    s = T.compiler.stats()
    assert (s["compiles"], s["graph_breaks"]) == (2, 0), s["recompile_reasons"]
