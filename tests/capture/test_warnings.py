"""Warnings of the library in compiled code: at every call, at the user's line, errors where the filter says so."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fusegrad as T

F, nn = T.nn.functional, T.nn

CASES = {
    "broadcast target": lambda y: F.mse_loss(y, T.zeros(2, 1)),
    "broadcast target of a module": lambda y: nn.L1Loss()(y, T.zeros(3)),
    "no dim": lambda y: F.softmax(y),
    "no dim of a module": lambda y: nn.LogSoftmax()(y),
    "size_average": lambda y: F.mse_loss(y, y, size_average=False),
    "kl_div by elements": lambda y: F.kl_div(y, y.sigmoid(), reduction="mean"),
    "grad of a result": lambda y: y.grad,
    "copy of a tensor": lambda y: T.tensor(y.detach()),
    "align_corners": lambda y: F.grid_sample(y.view(1, 1, 2, 3), T.zeros(1, 2, 2, 2)),
    "arguments of embedding_bag": lambda y: F.embedding_bag(T.ones(3, 2), T.tensor([[0, 1]])),
    "sample_n": lambda y: T.distributions.Normal(y, 1.0).sample_n(2).shape,
    "range": lambda y: T.range(0, 3) + y.sum(),
    "the user's": lambda y: warnings.warn("told", stacklevel=1) or y,
    "the user's, of the caller": lambda y: warnings.warn("told", DeprecationWarning, stacklevel=2) or y,
}


def x() -> Any:
    return T.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], requires_grad=True)


def told(call: Any, action: str) -> Any:
    """What three calls warn of: (class, text, file, line); an error's class and text."""
    T.manual_seed(0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        try:
            for _ in range(3):
                call()
        except Warning as e:
            return type(e), str(e)
    return [(w.category, str(w.message), w.filename, w.lineno) for w in found]


@pytest.mark.parametrize("action", ["always", "error", "ignore"])
@pytest.mark.parametrize("name", CASES)
def test_as_in_plain_code(name: str, action: str) -> None:
    def work(x: Any) -> Any:
        y = x * 2
        z = CASES[name](y)
        return z if z is None else z * 2 if isinstance(z, T.Tensor) else z

    def tried(x: Any) -> Any:
        try:
            return work(x)
        except ValueError:
            return None

    for f in (work, lambda x: work(x), tried):
        T.compiler.reset()
        c = T.compile(f)
        if action == "ignore":
            told(lambda c=c: c(x()), "ignore")  # compiled where nothing is told
        want = told(lambda f=f: f(x()), action)
        assert want == [] if action == "ignore" else want
        got = told(lambda c=c: c(x()), action)
        assert got == want
        if action == "ignore":
            assert told(lambda c=c: c(x()), "always") == told(lambda f=f: f(x()), "always")


@pytest.mark.not_verified("the eager code beside compiled code warns too")
def test_once_a_line() -> None:
    """The default filter shows a warning once for a line, also after a compile."""

    def f(x: Any) -> Any:
        y = x * 2
        return F.softmax(y)

    assert len(told(lambda: f(x()), "default")) == 1
    c = T.compile(f)
    assert len(told(lambda: c(x()), "default")) == 1
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__)
        c(x())
    assert found == []
