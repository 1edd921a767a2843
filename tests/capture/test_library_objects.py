"""Compiled modules inside of compiled code; functions of random and numpy.random."""

import random

import numpy as np
from helpers import check

import fusegrad as T


class Counter(T.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = T.nn.Linear(3, 3)
        self.calls = 0
        self.register_buffer("seen", T.zeros(3))

    def forward(self, x):
        self.calls += 1
        self.seen += x.mean(0)
        return self.linear(x) * self.calls


def test_compiled_module_is_inlined():
    """A compiled module shares its state with the module, also while both are used in captured code."""
    results = []
    for compiled in (False, True):
        T.manual_seed(0)
        T.compiler.reset()
        module = Counter()
        inner = T.compile(module) if compiled else module

        def step(x, inner=inner, module=module):
            inner.calls += 10
            y = inner(x)
            module.calls += 100
            return y + inner(x) + module(x), inner.calls

        f = T.compile(step, fullgraph=True) if compiled else step
        out = [f(T.ones(2, 3)) for _ in range(3)]
        results.append(([(y.tolist(), n) for y, n in out], module.calls, module.seen.tolist()))
    assert results[0][1:] == results[1][1:]
    np.testing.assert_allclose(results[0][0][-1][0], results[1][0][-1][0], rtol=1e-5)


def test_module_functions_bound_to_hidden_objects():
    def f(x):
        y = x * 2
        items = [1, 2, 3]
        random.shuffle(items)
        k = random.choice(items)
        z = y * random.random() + float(np.random.rand())
        return z * k, items, random.sample(range(9), 3)

    def seeded(x):
        random.seed(1)
        np.random.seed(1)
        return x

    def both(x):
        return f(seeded(x))

    check(both, (T.arange(3.0),), plain=0)


def test_numbers_among_few_keys():
    def f(n, d, x):
        return x * (2 if n in d else 3) + d.get(n, 0) + (n in {1, 7})

    check(f, *((n, {2: 5, 4: 6}, T.ones(2)) for n in range(12)), compiles=6)
