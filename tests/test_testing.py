"""fusegrad.testing.assert_close."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fusegrad as T

close = T.testing.assert_close
NAN = float("nan")


@pytest.mark.parametrize(
    ("a", "b", "kw"),
    [
        (T.ones(3), T.ones(3) + 1e-6, {}),
        (T.ones(2), T.ones(2, dtype=T.float64), {"check_dtype": False}),
        ({"a": [T.ones(1), 2.0]}, {"a": (T.ones(1), 2.0)}, {}),
        (NAN, NAN, {"equal_nan": True}),
        (T.tensor([NAN, np.inf]), T.tensor([NAN, np.inf]), {"equal_nan": True}),
        (T.tensor([2**60 + 1]), T.tensor([2**60 + 1]), {}),
        (T.zeros(0, 3), T.zeros(0, 3), {}),
        (np.ones(2), np.ones(2), {}),
        (T.ones(2, requires_grad=True), T.ones(2) * 1.5, {"rtol": 0.5, "atol": 0}),
        (None, None, {}),
        (True, True, {}),
    ],
)
def test_near(a, b, kw) -> None:
    close(a, b, **kw)


@pytest.mark.parametrize(
    ("a", "b", "kw", "error", "text"),
    [
        (T.ones(3), T.tensor([1, 1.1, 2]), {}, AssertionError, r"2 / 3 \(66.7%\)\n.*1.0 at index \(2,\)"),
        (T.ones(3), T.ones(2), {}, AssertionError, "'shape'"),
        (T.ones(3), T.ones(3, dtype=T.float64), {}, AssertionError, "'dtype'"),
        (T.ones(2, 2).t(), T.ones(2, 2), {"check_stride": True}, AssertionError, "stride"),
        ([T.ones(1), 2.0], [T.ones(1), 3.0], {}, AssertionError, r"(?s)Expected 3.0 but got 2.0.*item \[1\]"),
        ({"a": 1}, {"b": 1}, {}, AssertionError, "keys"),
        ([1], [1, 2], {}, AssertionError, "length"),
        (1, 1.0, {}, AssertionError, "types"),
        (True, False, {}, AssertionError, "Booleans"),
        (NAN, NAN, {}, AssertionError, "nan"),
        (T.tensor([NAN]), T.tensor([NAN]), {}, AssertionError, "1 / 1"),
        (T.tensor([np.inf]), T.tensor([-np.inf]), {"rtol": 1, "atol": 1}, AssertionError, "1 / 1"),
        (T.tensor([2**60 + 1]), T.tensor([2**60]), {}, AssertionError, "not equal"),
        (T.tensor([True]), T.tensor([False]), {}, AssertionError, "not equal"),
        (T.ones(2), T.zeros(2), {"msg": "here"}, AssertionError, "^here$"),
        (T.ones(2), T.zeros(2), {"msg": lambda m: "X " + m}, AssertionError, "^X Tensor-likes"),
        (T.ones(2), 1.0, {}, TypeError, "compare"),
        (T.ones(2), T.ones(2), {"rtol": 1}, ValueError, "both"),
    ],
)
def test_apart(a, b, kw, error, text) -> None:
    with pytest.raises(error) as e:
        close(a, b, **kw)
    assert re.search(text, str(e.value)), str(e.value)
