"""Random numbers of the program's own generators: drawn for real at every call, in the program's order, without a break
where nothing looks at their values."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from helpers import tree

import fusegrad as T
from fusegrad import func
from fusegrad.nn import functional as F
from fusegrad.utils.checkpoint import checkpoint

FORMS = {
    "alone": lambda x: random.random(),
    "twice": lambda x: x * random.random() + random.uniform(1, 2),
    "others": lambda x: x * random.gauss(0, 1) + random.betavariate(0.4, 0.4) + random.expovariate(2.0),
    "numpy": lambda x: x * np.random.rand() + np.random.normal(1.0, 0.5) + np.random.beta(0.4, 0.4),
    "arithmetic": lambda x: [(r := random.random()) ** 2, 1 / r, -r, abs(r), r % 0.3, r // 0.1, x / r, r - x],
    "made": lambda x: (T.tensor(random.random()), T.ones(3) * random.random()),
    "operators": lambda x: (x.clamp(max=(r := random.random())), T.lerp(x, x * 2, r), x.add(x, alpha=r), r),
    "comprehension": lambda x: x + sum([random.random() for _ in range(3)]),
    "closure": lambda x: (lambda k=random.random(): x * k)(),
    "key": lambda x: [isinstance(random.random(), float), type(random.random()).__name__],
}  # fmt: skip


def _loop(x):
    for _ in range(4):
        x = x * random.random() + random.uniform(-1, 1)
    return x


def _mixup(x):
    lam = np.random.beta(0.4, 0.4)
    return lam * x + (1 - lam) * x[T.randperm(x.shape[0])]


def _branch(x):
    if random.random() < 0.5:
        x = x + 1
    return x * random.random()


def _text(x):
    r = random.random()
    return f"{r:.3f}", x + r


def _size(x):
    return x[: int(random.random() * 4)]


def _integers(x):
    return x * random.randint(1, 5) + random.choice([1, 2, 3])


def _shuffle(x):
    order, own = list(range(4)), SIZES[:]
    random.shuffle(order)
    random.shuffle(own)
    return x[order], order, own, [x[i] for i in order], x[order[0]] + own[1]


SIZES = [0.5, 1.5, 4.0]
FORMS |= {"loop": _loop, "mixup": _mixup, "shuffle": _shuffle, "integers": _integers,
          "part": lambda x: (y := x[: random.randint(1, 3)]).sum() / y.shape[0] + y.exp().mean(),
          "whole": lambda x: [x * random.randint(-1, 5), (r := random.randrange(4)), r / 3, r % 3, x[r],
                              x[random.randint(0, 3)], random.choice(SIZES) * x, random.getrandbits(8), -r],
          "choices": lambda x: (x[random.sample(range(4), 2)], random.choice([3, 1, 2]), random.choice(range(9)),
                                T.full((2,), random.randrange(1, 9, 2)), T.tensor([random.randint(1, 2), 3])),
          "numpy whole": lambda x: [x * np.random.randint(5), x[np.random.randint(0, 4)], np.random.randint(0, 4, 2)],
          "arrays": lambda x: [x[np.random.permutation(4)], x * T.from_numpy(np.random.randn(4)),
                               np.random.choice(5, 3),
                               T.tensor(np.random.uniform(size=(2, 2))), x[np.random.randint(0, 4, size=(2,))] + 1,
                               np.random.multivariate_normal([0.0, 1.0], [[1.0, 0.0], [0.0, 2.0]], 2).sum()],
          }  # fmt: skip
LOOKED_AT = {"math": lambda x: x * math.sin(random.random()) + math.log(random.random()),
             "range": lambda x: (T.where(x > 2, r := random.random(), x), x**r, T.full((3,), r), T.tensor([r, 2.0])),
             "branch": _branch, "text": _text, "size": _size,
             "even": lambda x: x + 1 if random.randrange(6) % 2 else x * random.choice(SIZES),
             "outside": lambda x: x[random.randint(0, 2) + x.shape[0] - 3] if random.randint(0, 1) else x[-1],
             "item": lambda x: SIZES[random.randrange(3)] * x, "whole text": lambda x: f"{random.randint(1, 9)}",
             "times": lambda x: [x for _ in range(random.randint(1, 3))],
             "order": lambda x: sorted([random.random(), random.random(), random.random()]),
             "largest": lambda x: x * max(random.random(), 0.5),
             "rounded": lambda x: round(random.random(), 2),
             "probability": lambda x: F.dropout(x, random.random()),
             "set": lambda x: len({random.random(), 1.0})}  # fmt: skip


def calls(f, n=4):
    """Results of n calls from one seed, and what every generator gives next."""
    random.seed(5)
    np.random.seed(5)
    T.manual_seed(5)
    out = [tree(f(T.arange(4.0) + 1)) for _ in range(n)]
    return out, random.random(), np.random.rand(), T.get_rng_state().tolist()


@pytest.mark.parametrize("name", FORMS)
def test_a_draw_is_an_input_of_the_graph(name):
    T.compiler.reset()
    assert calls(T.compile(FORMS[name], fullgraph=True)) == calls(FORMS[name])
    assert T.compiler.stats()["compiles"] <= 2


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_draw_whose_value_is_looked_at_breaks_the_graph(name):
    T.compiler.reset()
    assert calls(T.compile(LOOKED_AT[name]), 6) == calls(LOOKED_AT[name], 6)
    assert T.compiler.stats()["graph_breaks"] and not T.compiler.stats()["plain_frames"]


@pytest.mark.parametrize("make", [random.Random, np.random.RandomState, np.random.default_rng])
def test_own_generators(make):
    def f(x, rng):
        return x * rng.normal(0, 1) if make is not random.Random else x * rng.gauss(0, 1), rng.uniform(1, 2)

    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    a, b = make(3), make(3)
    for n in range(4):
        if n == 2:
            a, b = make(7), make(7)
        assert tree(c(T.ones(3), a)) == tree(f(T.ones(3), b))
    assert a.uniform(0, 1) == b.uniform(0, 1)
    assert T.compiler.stats()["compiles"] == 1


def test_generators_take_turns_in_the_order_of_the_program():
    a, g = random.Random(1), np.random.default_rng(2)

    def f(x):
        y = x * a.random() + g.normal() * random.random() + np.random.normal() + a.random()
        print(end="")
        return y * g.random() + random.random()

    def both(run):
        a.seed(1)
        g.bit_generator.state = np.random.default_rng(2).bit_generator.state
        return calls(run), a.random(), g.random()

    T.compiler.reset()
    assert both(T.compile(f)) == both(f)


def test_a_generator_of_another_class_or_in_another_place():
    class Quarter(random.Random):
        def random(self):
            return 0.25

    class Holder:
        rng = random.Random(1)

    def f(x, o, other=None):
        y = x * o.rng.random()
        if other is not None:
            o.rng = other
        return y + o.rng.random()

    def both(run):
        o, r = Holder(), random.Random(5)
        o.rng = random.Random(1)
        out = [tree(run(T.ones(2), o)), tree(run(T.ones(2), o, r)), tree(run(T.ones(2), o))]
        o.rng = Quarter()
        return out, tree(run(T.ones(2), o)), r.random()

    T.compiler.reset()
    assert both(T.compile(f)) == both(f)


def test_the_module_function_is_replaced(monkeypatch):
    def f(x):
        return x * random.random()

    c = T.compile(f, fullgraph=True)
    random.seed(1)
    first = c(T.ones(2))
    random.seed(1)
    assert first.tolist() == f(T.ones(2)).tolist()
    monkeypatch.setattr(random, "random", lambda: 7.0)
    assert T.compile(f)(T.ones(2)).tolist() == [7.0, 7.0]


def test_a_region_that_fails_draws_nothing():
    """Python runs the code again, and draws itself."""

    def f(x, i):
        r, q = random.random(), np.random.rand()
        try:
            return x[i] * r + q
        except IndexError:
            return "out of range", random.random()

    def both(run):
        random.seed(5)
        np.random.seed(5)
        out = [tree(run(T.arange(4.0), T.tensor([i]))) for i in (1, 9, 2)]
        return out, random.random(), np.random.rand()

    assert both(T.compile(f)) == both(f)


def test_a_region_that_a_transform_refuses_draws_nothing():
    def f(x):
        x.add_(random.random())
        return x.sum()

    def both(run):
        x = T.ones(3)
        random.seed(5)
        run(x)
        with pytest.raises(RuntimeError):
            func.grad(lambda t: (t * run(x)).sum())(T.ones(3))
        return random.random(), x.tolist()

    assert both(T.compile(f)) == both(f)


class Scaled(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.r = random.random()
        return x * ctx.r

    @staticmethod
    def backward(ctx, g):
        return g * ctx.r * random.random()


def _hook(x):
    y = x * 2
    y.register_hook(lambda g: g * random.random())
    return (y * random.random()).sum()


RUN_LATER = {"hook": _hook, "function": lambda x: (Scaled.apply(x) + random.random()).sum(),
             "checkpoint": lambda x: checkpoint(lambda t: (t * random.random()).sin(), x, use_reentrant=False).sum(),
             "vmap": lambda x: func.vmap(lambda t: t * random.random())(x).sum()}  # fmt: skip


@pytest.mark.parametrize("name", RUN_LATER)
def test_code_that_backward_calls_draws_then(name):
    f = RUN_LATER[name]

    def step(run):
        def one(x):
            x = x.clone().requires_grad_()
            y = run(x)
            random.random()
            y.backward()
            return x.grad, y

        return one

    assert calls(step(T.compile(f))) == calls(step(f))


TENSORS = {
    "returned": lambda x, g: T.randn(4, generator=g),
    "changed": lambda x, g: (z := T.randn(4, generator=g), z.add_(x), z[1:]),
    "zeroed": lambda x, g: (z := T.randn(4, generator=g), z.clone(), z.zero_()),
    "leaf": lambda x, g: (z := T.randn(4, generator=g).requires_grad_(), (z * x).sum()),
    "into another": lambda x, g: x.add_(T.randn(4, generator=g)),
    "views": lambda x, g: (z := T.rand(4, generator=g), z.view(2, 2)),
    "kinds": lambda x, g: (T.randint(0, 9, (3,), generator=g), T.randperm(5, generator=g),
                           T.normal(0.0, 1.0, (2,), generator=g), T.rand(2, 2, dtype=T.float64, generator=g)),
    "index": lambda x, g: x[T.randint(0, 4, (2,), generator=g)],
    "shape": lambda x, g: T.randn(x.shape, generator=g) + x,
    "in place": lambda x, g: (T.empty(4).normal_(1, 2, generator=g), x.view(2, 2).t().uniform_(generator=g),
                              T.zeros(3, dtype=T.bool).bernoulli_(0.5, generator=g), T.rand(2, generator=g)),
    "init": lambda x, g: (w := T.ones(2, 3).requires_grad_(), T.nn.init.kaiming_uniform_(w, a=1, generator=g),
                          T.nn.init.normal_(x, std=0.1, generator=g)),
    "history": lambda x, g: (lambda z: T.autograd.grad(((z * x).exponential_(generator=g) * z).sum(), z))(
        T.ones(4).requires_grad_()),
    "beside the default": lambda x, g: T.randn(4, generator=g) + T.randn(4) * random.random(),
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_an_own_generator(name):
    f = TENSORS[name]

    def both(run):
        g = T.Generator().manual_seed(3)
        out = calls(lambda x: [run(x, g), x, g.initial_seed()])
        return out, T.rand(2, generator=g).tolist()

    T.compiler.reset()
    assert both(T.compile(f, fullgraph=True)) == both(f)
    assert T.compiler.stats()["compiles"] <= 2


SIZED = [lambda x, g: T.randn(x.shape, generator=g) + x, lambda x, g: T.rand(2, x.shape[0], generator=g) * x,
         lambda x, g: x[T.randperm(x.shape[0], generator=g)], lambda x, g: T.randn(2 * len(x), generator=g),
         lambda x, g: T.randint(0, 9, (x.shape[0], 2), generator=g),
         lambda x, g: T.normal(0.0, 1.0, (len(x),), generator=g)]  # fmt: skip


@pytest.mark.parametrize("k", range(len(SIZED)))
def test_own_generators_and_sizes_that_change(k):
    f = SIZED[k]

    def both(run):
        g = T.Generator().manual_seed(3)
        return [tree(run(T.arange(float(n)), g)) for n in (3, 4, 5, 0, 1, 7)]

    T.compiler.reset()
    assert both(T.compile(f, fullgraph=True)) == both(f)
    assert T.compiler.stats()["compiles"] <= 2


def test_a_size_that_gets_negative_is_caught():
    def f(x, g):
        try:
            return T.randn(len(x) - 3, generator=g)
        except RuntimeError:
            return "caught", x + 1

    def both(run):
        g = T.Generator().manual_seed(3)
        return [tree(run(T.arange(float(n)), g)) for n in (5, 4, 6, 3, 2)], T.rand(1, generator=g).item()

    T.compiler.reset()
    assert both(T.compile(f)) == both(f)


def test_own_generators_that_change_or_are_one():
    def f(x, a, b):
        return x + T.rand(4, generator=a) + T.rand(4, generator=b) + T.rand(4)

    def both(run):
        T.manual_seed(0)
        a, b = T.Generator().manual_seed(1), T.Generator().manual_seed(2)
        return [tree(run(T.ones(4), *gs)) for gs in ((a, b), (a, a), (b, a), (T.default_generator, a))]

    assert both(T.compile(f)) == both(f)


def test_a_training_step_with_a_draw_is_one_region():
    def train(wrap):
        T.manual_seed(0)
        np.random.seed(0)
        m = T.nn.Linear(4, 3)
        o = T.optim.SGD(m.parameters(), lr=0.1)

        def step(x, y):
            lam = np.random.beta(0.4, 0.4)
            o.zero_grad()
            out = m(lam * x + (1 - lam) * x.flip(0))
            loss = lam * F.cross_entropy(out, y) + (1 - lam) * F.cross_entropy(out, y.flip(0))
            loss.backward()
            o.step()
            return loss

        run = wrap(step)
        x = T.arange(24.0).reshape(6, 4) / 10
        return [float(run(x, T.arange(6) % 3).detach()) for _ in range(4)], m.weight.tolist()

    got, want = train(lambda f: T.compile(f, fullgraph=True)), train(lambda f: f)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-4, atol=1e-6)
