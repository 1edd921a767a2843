"""The whole suite in verification mode (``make verify``).

A comparison that itself fails is a fault, not a gap. Tests whose compiled functions can't be compared say so with
``@pytest.mark.not_verified(reason)``: they run as without that mode.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

_FAULTS = ("the eager run failed", "the process that ran eager code gave no answer", "the eager run could not be")


@pytest.fixture(autouse=bool(os.environ.get("FUSEGRAD_VERIFY")))
def comparisons_work(request: Any, monkeypatch: Any) -> Any:
    """Calls may go without a comparison for the reasons in docs/verification.md alone."""
    from fusegrad.compiler.verification import counts, whole

    if request.node.get_closest_marker("not_verified") is not None:
        monkeypatch.delenv("FUSEGRAD_VERIFY", raising=False)

    broken: list[str] = []

    def skip(why: str) -> None:
        counts.skip(why)
        if why.startswith(_FAULTS):
            broken.append(why)

    monkeypatch.setattr(whole, "skip", skip)
    yield
    assert not broken


def pytest_generate_tests(metafunc: Any) -> None:
    """A set has another order in every process: pytest-xdist then refuses to run."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        values = mark.args[1] if len(mark.args) > 1 else mark.kwargs.get("argvalues")
        assert not isinstance(values, (set, frozenset)), f"{metafunc.function.__name__} is parametrized over a set"
