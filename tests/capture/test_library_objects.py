"""Compiled modules inside of compiled code; functions of random and numpy.random."""

import collections
import copy
import random

import numpy as np
import pytest
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


class OwnDict(dict):
    pass


class OwnList(list):
    pass


OF_A_KIND = [
    lambda: collections.OrderedDict(a=T.ones(2), b=[1]),
    lambda: collections.defaultdict(list, a=T.ones(2), b=[1]),
    lambda: collections.Counter(a=1, b=2),
    lambda: OwnDict(a=T.ones(2), b=[1]),
    lambda: OwnList([T.ones(2), 1]),
    lambda: collections.deque([T.ones(2), 1], maxlen=4),
    lambda: {"k": [OwnDict(a=T.ones(2)), collections.OrderedDict(a=1)]},
]


@pytest.mark.parametrize("make", OF_A_KIND)
def test_copies_and_trees_of_containers_keep_their_kind(make):
    def f(x, v):
        tree = T.utils._pytree.tree_map(lambda t: t * 2 if isinstance(t, T.Tensor) else t, v)
        again = copy.copy(v)
        return x + 1, type(again), again, type(tree), tree, again is v

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        want, got = f(T.ones(2), make()), c(T.ones(2), make())
        assert str(got) == str(want)
        assert type(got[2]) is type(want[2]) and type(got[4]) is type(want[4])
    assert not any("FG014" in r for r in T.compiler.stats()["break_reasons"])
