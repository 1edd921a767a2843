"""Test data for ``samples()``: uniform numbers in a range, small integers, bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt


def t(*shape: int, low: float = -2.0, high: float = 2.0, dtype: Any = None, seed: int = 0) -> np.ndarray:
    """Numbers in [low, high) as float64 (or ``dtype``), the same in every call."""
    rng = np.random.default_rng([seed, len(shape), *shape])
    if dtype is dt.bool_:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype is not None and not dtype.is_floating_point:
        return np.asarray(rng.integers(0 if dtype is dt.uint8 else -9, 10, shape)).astype(dtype.np)
    values = np.asarray(rng.uniform(low, high, shape))
    return values if dtype is None else values.astype(dtype.np)


def t2(*shape: int, **kw: Any) -> np.ndarray:
    """Other numbers than t gives."""
    return t(*shape, seed=1, **kw)


def t3(*shape: int, **kw: Any) -> np.ndarray:
    """Other numbers than t and t2 give."""
    return t(*shape, seed=2, **kw)
