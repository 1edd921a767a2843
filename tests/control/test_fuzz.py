"""A few random programs; `python tests/control/fuzzing.py FIRST COUNT` runs more."""

from __future__ import annotations

import warnings

import pytest

import fusegrad as fg

from .fuzzing import one


@pytest.mark.parametrize("seed", range(16))
def test_program(seed: int) -> None:
    fg.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert one(seed) is None
    assert not [r for r in fg.compiler.stats()["break_reasons"] if "FG014" in r]
