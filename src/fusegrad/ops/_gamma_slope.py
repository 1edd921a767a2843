"""How the quantiles of the gamma distribution move with its concentration."""

from __future__ import annotations

import numpy as np

_SERIES = 2000.0  # concentrations up to which the power series is summed


def _digamma(a: np.ndarray) -> np.ndarray:
    """For positive numbers: recurrence up to 10, then the asymptotic series [AS 6.3.18]."""
    a, low = a.copy(), np.zeros_like(a)
    while (small := a < 10).any():
        low[small] -= 1 / a[small]
        a[small] += 1
    y = 1 / (a * a)
    tail = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760))))))
    return low + np.log(a) - 0.5 / a - tail


def _by_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-dP/da over dP/dx, with P = sum of x^(a+n) e^-x / Gamma(a+n+1) differentiated term by term."""
    psi, term = _digamma(a + 1), x / a  # term: x^(n+1) Gamma(a) / Gamma(a+n+1), P over the density
    log = np.log(x)
    total = term * (log - psi)
    n = a.copy()
    for _ in range(20_000):
        n += 1
        psi += 1 / n
        term = term * (x / n)
        step = term * (log - psi)
        total += step
        if not ((np.abs(step) > np.abs(total) * 1e-17) | (n < x)).any():
            break
    return -total


def _by_expansion(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The quantile as a series in 1/sqrt(a) of the normal quantile z [Cornish and Fisher 1938], solved for z."""
    r = np.sqrt(a)
    z = (x - a) / r
    for _ in range(6):
        value = a + r * z + (z**2 - 1) / 3 + (z**3 - 7 * z) / (36 * r) - (3 * z**4 + 7 * z**2 - 16) / (810 * a)
        z = z - (value - x) / (r + 2 * z / 3 + (3 * z**2 - 7) / (36 * r))
    return 1 + z / (2 * r) - (z**3 - 7 * z) / (72 * r * a) + (3 * z**4 + 7 * z**2 - 16) / (810 * a * a)


def gamma_slope(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dx/da of gamma numbers x >= 0 with concentrations a > 0 while the probability of a smaller one stays."""
    like = a + x  # its order of axes is that of an elementwise result
    a, x = (v.astype(np.float64) for v in np.broadcast_arrays(a, x))
    out = np.full(a.shape, np.nan)
    with np.errstate(all="ignore"):
        inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        for where, rule in ((inside & (a <= _SERIES), _by_series), (inside & (a > _SERIES), _by_expansion)):
            if where.any():
                out[where] = rule(a[where], x[where])
    out[(x == 0) & (a > 0)] = 0
    result = np.empty_like(like)
    result[...] = out
    return result
