"""Test data for ``samples()``: small reproducible arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt


def t(*shape: int, dtype: Any = None, seed: int = 0) -> np.ndarray:
    """Normal numbers (small integers, or random bits, for other dtypes)."""
    rng = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    if dtype is None or dtype.is_floating_point:
        return np.asarray(rng.normal(size=shape)).astype(np.float64 if dtype is None else dtype.np)
    if dtype is dt.bool_:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    return np.asarray(rng.integers(0 if dtype is dt.uint8 else -9, 10, shape)).astype(dtype.np)


def ti(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    """int64 indices in [0, high)."""
    return np.asarray(np.random.default_rng(seed + high + sum(shape)).integers(0, high, shape)).astype(np.int64)
