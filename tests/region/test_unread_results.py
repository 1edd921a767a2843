"""Calls whose results nobody reads still raise what eager raises: compiled, and in exported programs."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest

import fusegrad as fg
from fusegrad import nn

F = nn.functional


def index(x, i):
    x[i]
    return x * 2


def gather(x, i):
    x.gather(0, i.reshape(1, 1).expand(1, 2))
    return x + 1


def take(x, i):
    x.index_select(0, i)
    return x.sum()


def embedding(x, i):
    F.embedding(i, x)
    return x.exp()


def loss(x, i):
    F.nll_loss(x[:1], i)
    return x - 1


def inverse(x, i):
    fg.linalg.inv(x * i)
    return x + 1


def factor(x, i):
    fg.linalg.cholesky(x - i)
    return x.t()


def division(x, i):
    (i * 2) // (i - 7)
    return x + 1


def chain(x, i):
    """The failing call reads another call that may fail, and the failing one is read by calls that nobody reads."""
    y = x.index_select(0, i - i)
    (y.gather(1, i.reshape(1, 1)) * 2).sin()
    return x.cos()


def differentiated(x, i):
    x = x.detach().requires_grad_()
    (x[i] * x[:1]).exp()
    return fg.autograd.grad((x * x).sum(), x)[0]


def written(x, i):
    y = x * 1
    y[0] = 5.0
    y[i]
    y.mul_(2)
    return y


def probabilities(x, i):
    F.binary_cross_entropy(x / 10 * i, x * 0)
    return x + 1


def coins(x, i):
    fg.bernoulli(x / 10 * i)
    return x + 1


def draws(x, i):
    fg.multinomial(x * (5.0 - i), 1)
    return x + 1


def classes(x, i):
    F.cross_entropy(x[:1], i)
    return x + 1


def hot(x, i):
    F.one_hot(i, 5)
    return x + 1


def scattered(x, i):
    x.scatter(0, i.reshape(1, 1), 1.0)
    return x + 1


def put(x, i):
    x.index_put((i,), fg.zeros(2))
    return x + 1


def deviations(x, i):
    fg.normal(x, x * (5.0 - i))
    return x + 1


def weights(x, i):
    fg.cov(x, aweights=(5.0 - i) + x[0])
    return x + 1


def no_weights(x, i):
    fg.cov(x, fweights=i.expand(2))
    return x + 1


def variances(x, i):
    F.gaussian_nll_loss(x, x, x * (5.0 - i))
    return x + 1


def parts(x, i):
    x.quantile(i * 0.2, interpolation="lower")
    return x + 1


def counted(x, i):
    fg.histc(x / (7.0 - i))
    return x + 1


def pivots(x, i):
    fg.linalg.lu_factor(x * i)
    return x + 1


def checked_pivots(x, i):
    fg.linalg.lu_factor_ex(x * i, check_errors=True)
    return x + 1


def chosen(x, i):
    fg.cond(x.sum() > 0, lambda x, i: x[i] * 1, lambda x, i: x[i] * 2, (x, i))
    return x + 1


GOOD = {"inverse": 1, "factor": -9, "division": 3}
BAD = {"inverse": 0, "factor": 9, "no_weights": 0, "pivots": 0, "checked_pivots": 0}
PROGRAMS = [
    index,
    gather,
    take,
    embedding,
    loss,
    inverse,
    factor,
    division,
    chain,
    differentiated,
    written,
    probabilities,
    coins,
    draws,
    classes,
    hot,
    scattered,
    put,
    deviations,
    weights,
    no_weights,
    variances,
    parts,
    counted,
    pivots,
    checked_pivots,
    chosen,
]


def arguments(f: Callable, bad: bool) -> tuple:
    i = BAD.get(f.__name__, 7) if bad else GOOD.get(f.__name__, 1)
    return fg.tensor([[3.0, 1.0], [1.0, 2.0]]), fg.tensor([i])


def same_error(f: Callable, g: Callable, text: bool = True) -> None:
    args = arguments(f, True)
    with pytest.raises(Exception) as eager:  # noqa: B017  (its class and text are what is compared)
        f(*args)
    with pytest.raises(type(eager.value)) as other:
        g(*args)
    assert not text or str(other.value) == str(eager.value)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_compiled(f) -> None:
    fg.compiler.reset()
    c = fg.compile(f, fullgraph=True)
    good = arguments(f, False)
    assert fg.allclose(c(*good), f(*good))
    same_error(f, c)
    assert fg.allclose(c(*good), f(*good))
    assert fg.compiler.stats()["break_reasons"] == []


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("f", [p for p in PROGRAMS if p is not differentiated], ids=lambda f: f.__name__)
def test_exported(f, compiled) -> None:
    good = arguments(f, False)
    program = fg.export.export(f, good)
    file = io.BytesIO()
    fg.export.save(program, file)
    file.seek(0)
    for p in (program, fg.export.load(file)):
        run = p.module(compile=compiled)
        assert fg.allclose(run(*good), f(*good))
        same_error(f, run, text=f is not hot)  # which says more
        assert fg.allclose(run(*good), f(*good))


@pytest.mark.parametrize("compiled", [True, False])
def test_gradients_of_an_exported_program(compiled) -> None:
    net = nn.Linear(2, 2)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, i):
            self.net(x)[i]
            return self.net(x).tanh()

    x, i = arguments(index, False)
    run = fg.export.export(Net(), (x, i)).module(compile=compiled)
    want = fg.autograd.grad(net(x).tanh().sum(), list(net.parameters()))
    for a, b in zip(fg.autograd.grad(run(x, i).sum(), list(run.parameters())), want, strict=True):
        assert fg.allclose(a, b)
    with pytest.raises(IndexError):
        run(x, fg.tensor([7]))


def test_what_cannot_fail_is_left_out() -> None:
    def f(x):
        x.exp() @ x
        x.sum(0)
        return x + 1

    program = fg.export.export(f, (fg.ones(2, 2),))
    assert [n.op.name for n in program.graph.nodes] == ["add"] and len(program.graph.outputs) == 1


def test_used_results_are_captured() -> None:
    fg.compiler.reset()
    c = fg.compile(lambda x, i: x[i] * 2)
    assert c(fg.arange(3.0), fg.tensor([2, 0])).tolist() == [4.0, 0.0]
    assert fg.compiler.stats()["break_reasons"] == []


def read(f: Callable) -> Callable:
    """The same call, its result used."""
    calls = {
        "probabilities": lambda x, i: F.binary_cross_entropy(x / 10 * i, x * 0),
        "coins": lambda x, i: fg.bernoulli(x / 10 * i).sum() * 0,
        "classes": lambda x, i: F.cross_entropy(x[:1], i),
        "index": lambda x, i: x[i] * 2,
        "hot": lambda x, i: F.one_hot(i, 5) * 2,
        "inverse": lambda x, i: fg.linalg.inv(x * i),
        "deviations": lambda x, i: fg.normal(x, x * (5.0 - i)).sum() * 0,
        "weights": lambda x, i: fg.cov(x, aweights=(5.0 - i) + x[0]),
        "no_weights": lambda x, i: fg.cov(x, fweights=i.expand(2), correction=0),
        "variances": lambda x, i: F.gaussian_nll_loss(x, x, x * (5.0 - i)),
        "parts": lambda x, i: x.quantile(i * 0.2, interpolation="lower"),
        "counted": lambda x, i: fg.histc(x / (7.0 - i)),
        "pivots": lambda x, i: fg.linalg.lu_factor(x * i)[0],
    }
    return calls[f.__name__]


READ = [probabilities, coins, classes, index, hot, inverse, deviations, weights, no_weights, variances, parts, counted]


@pytest.mark.parametrize("f", [*READ, pivots], ids=lambda f: f.__name__)
def test_values_are_checked_where_results_are_read(f) -> None:
    """What eager kernels refuse, compiled code refuses, though it is decomposed."""
    call = read(f)
    good, bad = arguments(f, False), arguments(f, True)
    for c in (fg.compile(call, fullgraph=True), fg.export.export(call, good).module()):
        assert fg.allclose(c(*good), call(*good))
        with pytest.raises(Exception) as eager:  # noqa: B017  (its class is what is compared)
            call(*bad)
        with pytest.raises(type(eager.value)):
            c(*bad)
