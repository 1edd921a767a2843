"""numpy kernels of rarer special functions: modified Bessel, normal quantiles, incomplete gamma.

Sources: [C] C. W. Clenshaw, "Chebyshev Series for Mathematical Functions", NPL Mathematical Tables 5 (1962), for the
form of the Bessel expansions (the coefficients are fitted, 50 digits); [AS] M. Abramowitz, I. Stegun, "Handbook of
Mathematical Functions", 6.5.29 and 6.5.31 (incomplete gamma); [T] N. M. Temme, "The asymptotic expansion of the
incomplete gamma functions", SIAM J. Math. Anal. 10 (1979); W. J. Lentz, Appl. Opt. 15 (1976), for the fraction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .special_kernels import _ERFCX64, _chunked, _double, _erfc, _erfc_positive, _poly, lgamma

Array = np.ndarray

# exp(-x) I0(x) and exp(-x) I1(x) / x on [0, 8]; sqrt(x) exp(-x) I(x) in 1/x on [0, 1/8]
_I0_NEAR = (
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.7268262914415555e-11,
    2.955052663129625e-12,
    -4.856446783110493e-13,
    7.67618549846838e-14,
    -1.1685332865345506e-14,
    1.7153911715225191e-15,
    -2.4312698460190526e-16,
    3.329942063880425e-17,
    -4.3447706395547665e-18,
)
_I1_NEAR = (
    0.12629359322181682,
    -0.17641651835783406,
    0.1026436586898471,
    -0.05294598120809499,
    0.024726449030626516,
    -0.010564084894626197,
    0.004156422944312888,
    -0.0015135724506312532,
    0.0005122859561685758,
    -0.00016176081582589674,
    4.781565107550054e-05,
    -1.3273163656039436e-05,
    3.4702513081376785e-06,
    -8.568720264695455e-07,
    2.0032947535521353e-07,
    -4.445059128796328e-08,
    9.381537386495773e-09,
    -1.8872497517228294e-09,
    3.625590281552117e-10,
    -6.663489723502027e-11,
    1.1736186298890901e-11,
    -1.9839743977649436e-12,
    3.223793365945566e-13,
    -5.042185504727032e-14,
    7.600684294649187e-15,
    -1.105596946911604e-15,
    1.5536318810494503e-16,
    -2.111414263388092e-17,
    2.7773010799570167e-18,
    -3.48901447271639e-19,
)
_I0_FAR = (
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.396232025708386e-09,
    4.940602388224974e-10,
    1.1889147107846069e-11,
    -3.149916527963373e-11,
    -1.3215811840444411e-11,
    -1.7941785315052209e-12,
    7.180124451217564e-13,
    3.8527783828690237e-13,
    1.540086223622408e-14,
    -4.150569359939181e-14,
    -9.554846849041664e-15,
    3.8116814243351245e-15,
    1.77256012037355e-15,
    -3.4255224890000575e-16,
    -2.8275912723664775e-16,
    3.4628248226046367e-17,
    4.4627353687004704e-17,
    -4.894951052917917e-18,
    -7.039337842458663e-18,
    1.2410185249324504e-18,
)
_I1_FAR = (
    0.38928811750914005,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196588e-10,
    -1.8974958123505018e-11,
    3.252603583015619e-11,
    1.4125807436610371e-11,
    2.035628544145659e-12,
    -7.198551776076825e-13,
    -4.083551111229825e-13,
    -2.101541848889319e-14,
    4.272440029894204e-14,
    1.0420277129407892e-14,
    -3.814403848436759e-15,
    -1.8803547176404084e-15,
    3.3082398311004077e-16,
    2.962593388506307e-16,
    -3.211138763845076e-17,
    -4.6472555560369855e-17,
    4.4782909949543995e-18,
    7.314601872436776e-18,
    -1.172845558678173e-18,
)


def _bessel(near: tuple, far: tuple, odd: bool, scaled: bool) -> Any:
    def f(x: Array) -> Array:
        from numpy.polynomial.chebyshev import chebval  # takes ten milliseconds to import

        a = np.abs(x)
        small = chebval(np.minimum(a, 8) / 4 - 1, near) * (a if odd else 1)
        large = chebval(16 / np.maximum(a, 8) - 1, far) / np.sqrt(np.maximum(a, 8))
        r = np.where(a <= 8, small, large)
        r = np.where(np.isinf(a), 0 if scaled else np.inf, r if scaled else r * np.exp(np.minimum(a, 800)))
        r = np.where(np.isnan(x), x, r)
        return np.copysign(r, x) if odd else r

    return lambda x: _chunked(_double(f), x)


i0 = _bessel(_I0_NEAR, _I0_FAR, False, False)
i0e = _bessel(_I0_NEAR, _I0_FAR, False, True)
i1 = _bessel(_I1_NEAR, _I1_FAR, True, False)
i1e = _bessel(_I1_NEAR, _I1_FAR, True, True)


def _erfcx(x: Array) -> Array:
    a = np.abs(x)
    y = np.where(np.isinf(a), 1, (a - 3.75) / (a + 3.75))
    far = _poly(_ERFCX64, y) / (1 + 2 * a)
    return np.where(x < 0, 2 * np.exp(x * x) - far, far)


def erfcx(x: Array) -> Array:
    """exp(x^2) erfc(x)."""
    return _chunked(_double(_erfcx), x)


def _log_ndtr(x: Array) -> Array:
    z = x * math.sqrt(0.5)
    low = np.minimum(z, 0)
    left = np.log(_erfcx(-low) * 0.5) - low * low
    right = np.log1p(-0.5 * _erfc_positive(np.maximum(z, 0)))
    return np.where(np.isnan(x), x, np.where(x < 0, left, right))


def log_ndtr(x: Array) -> Array:
    """Logarithm of the normal distribution function."""
    return _chunked(_double(_log_ndtr), x)


def _ndtri(p: Array) -> Array:
    """Newton's method on the logarithm of the distribution function, from a rough start."""
    q = np.where(p <= 0.5, p, 1 - p)
    safe = np.clip(q, 1e-320, 0.5)
    u = np.sqrt(-2 * np.log(safe))
    x = np.where(
        safe < 0.2, -(u - np.log(np.maximum(u, 1.1)) / np.maximum(u, 1.1) - 0.9 / np.maximum(u, 1)), (safe - 0.5) * 2.6
    )
    for _ in range(8):
        f = _log_ndtr(x)
        slope = np.exp(-0.5 * x * x - f) / math.sqrt(2 * math.pi)
        x = x - (f - np.log(safe)) / slope
    x = np.where(q == 0, -np.inf, np.where(p == 0.5, 0, x))
    x = np.where(p <= 0.5, x, -x)
    return np.where((p < 0) | (p > 1) | np.isnan(p), np.nan, x)


def ndtri(x: Array) -> Array:
    """Quantile of the standard normal distribution."""
    return _chunked(_double(_ndtri), x)


def ndtr(x: Array) -> Array:
    """Distribution function of the standard normal."""
    return _chunked(_double(lambda v: 0.5 * _erfc(v * -math.sqrt(0.5))), x)


def _gamma_series(a: Array, x: Array) -> Array:
    """Lower regularised function by its power series [AS 6.5.29]."""
    term = 1 / a
    total = term.copy()
    n = a.copy()
    for _ in range(5000):
        n += 1
        term = term * (x / n)
        total += term
        if not (np.abs(term) > np.abs(total) * 1e-17).any():
            break
    return total * np.exp(a * np.log(x) - x - lgamma(a))


def _gamma_fraction(a: Array, x: Array) -> Array:
    """Upper regularised function by its continued fraction [AS 6.5.31], evaluated as Lentz does."""
    tiny = 1e-300
    b = x + 1 - a
    c = np.full_like(x, 1 / tiny)
    d = 1 / np.where(b == 0, tiny, b)
    h = d.copy()
    done = np.zeros(x.shape, bool)  # each element on its own: the last place of a step may change for ever
    for i in range(1, 5000):
        an = -i * (i - a)
        b = b + 2
        d = an * d + b
        d = 1 / np.where(d == 0, tiny, d)
        c = b + an / c
        c = np.where(c == 0, tiny, c)
        step = d * c
        h = np.where(done, h, h * step)
        done |= ~(np.abs(step - 1) > 3e-16)
        if done.all():
            break
    return h * np.exp(a * np.log(x) - x - lgamma(a))


def _gamma_large(a: Array, x: Array) -> tuple[Array, Array]:
    """Both regularised functions for large a: the uniform expansion with its first correction [T]."""
    m = x / a - 1
    eta = np.copysign(np.sqrt(2 * np.maximum(m - np.log1p(m), 0)), m)
    near = np.abs(m) < 1e-4
    safe_m, safe_eta = np.where(near, 1, m), np.where(near, 1, eta)
    correction = np.where(near, -1 / 3 + m / 12, 1 / safe_m - 1 / safe_eta)
    r = np.exp(-0.5 * a * eta * eta) / np.sqrt(2 * math.pi * a) * correction
    z = eta * np.sqrt(a / 2)
    return 0.5 * _erfc(-z) - r, 0.5 * _erfc(z) + r


def igamma(a: Array, x: Array, upper: bool = False) -> Array:
    """Regularised lower (upper) incomplete gamma function of a >= 0, x >= 0; NaN elsewhere."""
    kind = np.result_type(a, x)
    a, x = (v.astype(np.float64) for v in np.broadcast_arrays(a, x))
    with np.errstate(all="ignore"):
        inner = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
        large = inner & (a > 1e5)
        series = inner & ~large & (x <= a + 1)
        fraction = inner & ~large & ~series
        lower = np.full(a.shape, np.nan)
        if series.any():
            lower[series] = _gamma_series(a[series], x[series])
        up = np.array(1 - lower)
        if fraction.any():
            up[fraction] = _gamma_fraction(a[fraction], x[fraction])
            lower[fraction] = 1 - up[fraction]
        if large.any():
            lower[large], up[large] = _gamma_large(a[large], x[large])
        edge = [
            (x == 0) & ~(a <= 0),
            ((a == 0) & (x > 0)) | (np.isposinf(x) & ~(a < 0) & ~np.isinf(a)),
            np.isposinf(a) & ~np.isinf(x) & ~(x < 0),
        ]  # as PyTorch, also where the other one is NaN
        values = [(0, 1), (1, 0), (0, 1)]
        for where, (lo, hi) in zip(edge, values, strict=True):
            lower[where], up[where] = lo, hi
    return (up if upper else lower).astype(kind)


def _bessel_over(x: Array, n: int) -> Array:
    a = np.abs(x)
    square, near = np.square(np.minimum(a, 20)) / 4, a <= 20
    term = np.full_like(a, 0.5**n / math.factorial(n))
    total = term.copy()
    for k in range(1, 60):  # 10^(2k) / (k! (n + k)!) is below 1e-20 of the sum by then
        term = term * square / (k * (n + k))
        total += term
    if near.all():
        return total
    far = np.where(near, 20, a)
    with np.errstate(all="ignore"):
        below, r = i0(far), i1(far) / far
        for m in range(1, n):  # [AS] 9.6.26
            below, r = r, (below - 2 * m * r) / np.square(far)
    return np.where(near, total, np.where(np.isfinite(below), r, np.where(np.isnan(x), x, np.inf)))


def bessel_over(x: Array, n: int) -> Array:
    """I_n(x) / x^n for n >= 1: the series of positive terms, or from I_0 and I_1 by recurrence."""
    return _chunked(_double(lambda v: _bessel_over(v, n)), x)
