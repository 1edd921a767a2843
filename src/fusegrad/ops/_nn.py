"""Helpers shared by the nn operator files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def data(*shape: int, seed: int = 0, scale: float = 1.0, dtype: Any = np.float64) -> np.ndarray:
    """Reproducible normal test data."""
    return (np.random.default_rng(seed + sum(shape)).normal(size=shape) * scale).astype(dtype)


def indices(high: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Reproducible int64 test indices in [0, high)."""
    return np.random.default_rng(seed + high).integers(0, high, size=shape)


def shape_list(t: Any) -> list:
    """The shape as PyTorch's messages show it."""
    return list(t.shape)


def spread(value: Any, n: int, what: str, fn: str) -> tuple[int, ...]:
    """An int or a sequence of 1 or n ints as a tuple of n ints. RuntimeError names the argument."""
    if isinstance(value, (list, tuple)):
        value = tuple(value)
        if len(value) == 1:
            return value * n
        if len(value) != n:
            raise RuntimeError(f"{fn}: {what} must be an int or {n} ints, got {list(value)}")
        return value
    return (value,) * n


def prod(values: Sequence[Any]) -> Any:
    """Product that also works for symbolic sizes."""
    out: Any = 1
    for v in values:
        out = out * v
    return out
