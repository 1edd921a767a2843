"""Calls whose results nobody reads still raise what eager raises."""

from __future__ import annotations

import pytest

import fusegrad as fg


def unused_index(x, i):
    x[i]
    return x * 2


def unused_inverse(x, i):
    fg.linalg.inv(x)
    return x + 1


def unused_division(x, i):
    i // (i - i)
    return x + 1


@pytest.mark.parametrize("f", [unused_index, unused_inverse, unused_division], ids=lambda f: f.__name__)
def test_errors_of_unused_results(f) -> None:
    fg.compiler.reset()
    x, bad = fg.zeros(2, 2), fg.tensor([7])
    with pytest.raises(Exception) as eager:  # noqa: B017  (its class is what is compared)
        f(x, bad)
    with pytest.raises(type(eager.value)):
        fg.compile(f)(x, bad)
    assert any("FG018" in str(r) or "FG013" in str(r) for r in fg.compiler.stats()["break_reasons"])


def test_used_results_are_captured() -> None:
    fg.compiler.reset()
    c = fg.compile(lambda x, i: x[i] * 2)
    assert c(fg.arange(3.0), fg.tensor([2, 0])).tolist() == [4.0, 0.0]
    assert fg.compiler.stats()["break_reasons"] == []
