"""Functions of the library that enclose the user's (``g = func.grad(loss)``): what the user's reads is guarded."""

import functools

import pytest

import fusegrad as T
from fusegrad import nn

FUNC = T.func
MAKERS = {
    "grad": lambda t: FUNC.grad(lambda u: (u * u * t).sum()),
    "grad_and_value": lambda t: FUNC.grad_and_value(lambda u: (u * u * t).sum()),
    "vmap": lambda t: FUNC.vmap(lambda u: u * t[1]),
    "hessian": lambda t: FUNC.hessian(lambda u: (u**3 * t).sum()),
    "jacrev": lambda t: FUNC.jacrev(lambda u: u * u * t),
    "jacfwd": lambda t: FUNC.jacfwd(lambda u: u * u * t),
    "two": lambda t: FUNC.vmap(FUNC.grad(lambda u: u * u * t[1])),
    "partial": lambda t: FUNC.grad(functools.partial(lambda k, u: (u * u * k).sum(), t)),
    "aux": lambda t: FUNC.grad(lambda u: ((u * u * t).sum(), t * 2), has_aux=True),
}


def same(a, b):
    a, b = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    return all(equal(x, y) for x, y in zip(a, b, strict=True))


def equal(x, y):
    return T.allclose(x, y) if isinstance(x, T.Tensor) else same(x, y)


def tensors():
    return [T.arange(3.0) * k + 1 for k in (1, 2, 3, 4)]


@pytest.mark.parametrize("name", MAKERS)
def test_given_by_the_caller(name):
    f = T.compile(lambda x, g: g(x), options={"interpret": True})
    for t in tensors():
        g = MAKERS[name](t)
        assert same(f(T.ones(3), g), g(T.ones(3)))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("place", ["global", "attribute", "dict", "default", "method"])
def test_kept_somewhere(name, place):
    space = {"box": {}}
    texts = {
        "global": "def f(x): return g(x)",
        "attribute": "def f(x): return o.g(x)",
        "dict": "def f(x): return box['g'](x)",
        "default": "def f(x, h=g): return h(x)",
        "method": "def f(x): return o.read()(x)",
    }

    class Owner:
        def read(self):
            return self.g

    o = space["o"] = Owner()
    f = None
    for t in tensors():
        space["g"] = space["box"]["g"] = o.g = g = MAKERS[name](t)
        if f is None or place == "default":
            exec(texts[place], space)
            made = space["f"]
            f = f or T.compile(lambda x, made: made(x), options={"interpret": True})
        assert same(f(T.ones(3), made), g(T.ones(3)))


@pytest.mark.parametrize("name", MAKERS)
def test_across_a_break(name):
    def f(x, log):
        t = x * 3 + 1
        g = MAKERS[name](t)
        if x.sum() > 1000:
            log.append("large")
        return g(x)

    c = T.compile(f, options={"interpret": True})
    for x in tensors():
        assert same(f(x, []), c(x, []))


def test_what_the_enclosed_function_reads_is_guarded():
    space = {"k": 2.0, "log": []}
    exec("def loss(u):\n    log.append(k)\n    return (u * u * k).sum()", space)
    g = FUNC.grad(space["loss"])
    f = T.compile(lambda x: g(x), options={"interpret": True})
    for k in (2.0, 3.0, 3.0, 5.0, 7.0):
        space["k"] = k
        assert f(T.ones(2)).tolist() == [2 * k] * 2
    assert space["log"] == [2.0, 3.0, 3.0, 5.0, 7.0]


def test_numbers_of_the_maker():
    def loss(u, w):
        return (u * u * w).sum()

    f = T.compile(lambda x, y, g: g(x, y), options={"interpret": True})
    for argnums in (0, 1, 0, (0, 1), (1, 0)):
        g = FUNC.grad(loss, argnums)
        assert same(f(T.full((2,), 3.0), T.ones(2), g), g(T.full((2,), 3.0), T.ones(2)))


def test_modules_and_their_methods():
    nets = [nn.Linear(2, 2) for _ in range(3)]
    f = T.compile(lambda x, g: g(x), options={"interpret": True})
    for net in nets:
        for g in (FUNC.vmap(net), FUNC.vmap(net.forward), FUNC.jacrev(net), FUNC.jacrev(functools.partial(net))):
            assert same(f(T.ones(4, 2), g), g(T.ones(4, 2)))
            with T.no_grad():
                net.weight.mul_(2)
            assert same(f(T.ones(4, 2), g), g(T.ones(4, 2)))


@pytest.mark.parametrize("make", [lambda h, x: FUNC.vjp(h, x)[1], lambda h, x: FUNC.linearize(h, x)[1]])
def test_pulled_back_and_linear_functions(make):
    f = T.compile(lambda x, g: g(x), options={"interpret": True})
    inside = T.compile(lambda x, h: make(h, x)(x), options={"interpret": True})

    def broken(x, h, log):
        g = make(h, x)
        if x.sum() > 1000:
            log.append("large")
        return g(x)

    across = T.compile(broken, options={"interpret": True})
    for t in tensors():
        h = lambda u, t=t: u * u * t
        assert same(f(T.ones(3), make(h, t)), make(h, t)(T.ones(3)))
        assert same(inside(t, h), make(h, t)(t))
        assert same(across(t, h, []), make(h, t)(t))


def test_a_partial_function_given_to_the_library():
    space = {"k": 2.0}
    exec("def loss(c, u): return (u * u * k * c).sum()", space)
    f = T.compile(lambda x, p: FUNC.grad(p)(x), options={"interpret": True})
    for k, c in ((2.0, 1), (3.0, 1), (3.0, 2), (5.0, 2.5)):
        space["k"] = k
        assert f(T.ones(2), functools.partial(space["loss"], c)).tolist() == [2 * k * c] * 2


def test_an_enclosed_function_makes_no_breaks():
    g = FUNC.grad(lambda u: (u * u).sum())
    f = T.compile(lambda x: g(x) + FUNC.vmap(g)(x.unsqueeze(1)).squeeze(1), options={"interpret": True})
    T.compiler.reset()
    assert f(T.ones(3)).tolist() == [4.0] * 3
    assert T.compiler.explain(f)(T.ones(3)).graph_break_count == 0
