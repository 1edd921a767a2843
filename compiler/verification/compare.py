"""When two arrays are the same: tolerances by dtype, and where they differ most.

A result of a region is first compared by ``rounding``: a relative bound, with no absolute part, so that a wrong `erf`
near zero is seen beside large numbers. What lies outside is compared again with the spread of noisy runs (``noise``).
Whole functions are compared by ``whole``: rounding differences have gone through more by then, and what this level
looks for (a stale value, a lost effect) is gross.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Difference", "TOLERANCES", "Tolerance", "difference", "numbers_close", "same", "within"]


@dataclass(frozen=True)
class Tolerance:
    """``rounding``: relative, region by region. ``unit``: one rounding error. ``whole``: relative to the element and,
    a tenth of it, to the largest element, function by function."""

    rounding: float
    unit: float
    whole: float


TOLERANCES: dict[str, Tolerance] = {
    "float64": Tolerance(rounding=8e-15, unit=2.3e-16, whole=1e-7),
    "float32": Tolerance(rounding=4e-6, unit=1.2e-7, whole=2e-3),
    "float16": Tolerance(rounding=8e-3, unit=9.8e-4, whole=5e-2),
}
SPREAD = 6.0  # how many times the spread of the noisy runs is allowed


@dataclass(frozen=True)
class Difference:
    """The largest difference between two arrays."""

    size: float
    index: tuple[int, ...]
    eager: Any
    compiled: Any
    count: int
    total: int

    def __str__(self) -> str:
        at = f" at {list(self.index)}" if self.index else ""
        many = f"; {self.count} of {self.total} elements differ" if self.total > 1 else ""
        return f"largest difference {self.size:.3g}{at}: eager {self.eager}, compiled {self.compiled}{many}"


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where two arrays hold the same number; NaN is NaN."""
    equal = np.asarray(a == b)
    if a.dtype.kind == "f":
        equal |= np.isnan(a) & np.isnan(b)
    return equal


def within(eager: np.ndarray, compiled: np.ndarray, spread: Any = None) -> np.ndarray:
    """Where the compiled number is the eager one but for rounding (bool, the shape of both)."""
    ok = same(eager, compiled)
    if eager.dtype.kind != "f" or ok.all():
        return ok
    bounds = TOLERANCES[eager.dtype.name]
    with np.errstate(all="ignore"):
        a, b = eager.astype(np.float64), compiled.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        allowed = bounds.rounding * np.maximum(np.abs(a), np.abs(b)) + float(np.finfo(eager.dtype).tiny)
        if spread is not None:
            allowed = allowed + SPREAD * spread
        return ok | (finite & (np.abs(a - b) <= allowed))


def within_whole(eager: np.ndarray, compiled: np.ndarray, noisy: Sequence[np.ndarray] = ()) -> np.ndarray:
    """The same for whole functions; ``noisy``: what eager runs with noise in their inputs gave."""
    eager, compiled = np.asarray(eager), np.asarray(compiled)
    ok = same(eager, compiled)
    if ok.all():
        return ok
    if eager.dtype.kind != "f":
        for n in noisy:
            ok = ok | (n == compiled)
        return ok
    bound = TOLERANCES[eager.dtype.name].whole
    with np.errstate(all="ignore"):
        a, b = eager.astype(np.float64), compiled.astype(np.float64)
        finite = np.isfinite(a) & np.isfinite(b)
        largest = np.max(np.abs(a), where=finite, initial=0.0)
        allowed = bound * np.maximum(np.abs(a), np.abs(b)) + bound / 10 * largest + bound * 1e-3
        for n in noisy:
            gap = np.abs(n.astype(np.float64) - a)
            allowed = np.fmax(allowed, SPREAD * np.where(np.isfinite(gap), gap, 0.0))
            ok = ok | same(n, compiled)
        return ok | (finite & (np.abs(a - b) <= allowed))


def difference(eager: np.ndarray, compiled: np.ndarray, ok: np.ndarray) -> Difference:
    """The largest of the differences outside of ``ok``."""
    with np.errstate(all="ignore"):
        gap = np.abs(eager.astype(np.float64) - compiled.astype(np.float64))
    gap = np.where(ok, -1.0, np.where(np.isnan(gap), np.inf, gap))
    at = np.unravel_index(int(np.argmax(gap)), gap.shape) if gap.ndim else ()
    index = tuple(int(i) for i in at)
    return Difference(
        float(gap[at]), index, eager[at].item(), compiled[at].item(), int((~ok).sum()), max(int(eager.size), 1)
    )


def numbers_close(a: float, b: float, noisy: Sequence[float] = ()) -> bool:
    """Python floats of whole functions: they mostly come from float32 tensors."""
    return bool(within_whole(_one(a), _one(b), [_one(n) for n in noisy]).all()) or a == b


def _one(x: float) -> np.ndarray:
    return np.array(x, np.float32)
