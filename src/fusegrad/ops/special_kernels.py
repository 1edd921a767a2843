"""numpy kernels of the special functions: erf and its kin, the gamma family.

Every function takes a float16, float32 or float64 array and gives one of the same dtype.  Coefficients marked "fitted"
are our own: interpolation at Chebyshev points in 50 digits, then written as powers.

Sources of the formulas:
  [SL] M. M. Shepherd, J. G. Laframboise, "Chebyshev approximation of (1+2x) exp(x^2) erfc x in 0 <= x < inf",
       Math. Comp. 36 (1981): the map y = (x - 3.75) / (x + 3.75) and the function to fit.
  [G]  M. Giles, "Approximating the erfinv function", GPU Computing Gems 2 (2011), the single precision table.
  [AS] M. Abramowitz, I. Stegun, "Handbook of Mathematical Functions": 6.1.17, 6.1.40 (Stirling), 6.3.6, 6.3.7,
       6.3.18, 6.4.7.
  [EM] Euler-Maclaurin summation of the Hurwitz zeta function, as in K. Knopp, "Theory and Application of Infinite
       Series", section 64.
  [D]  T. J. Dekker, "A floating-point technique for extending the available precision", Numer. Math. 18 (1971).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._blocked import flattened, in_blocks, pick

Array = np.ndarray
_FEW = 100
_ROOT_HALF = math.sqrt(0.5)

# (1 + 2x) exp(x^2) erfc(x) in y of [SL]; fitted
_ERFCX64 = (
    1.2375126308378275,
    -0.14024059858554697,
    0.003585415485463775,
    0.08227673849014516,
    -0.10880393014171785,
    0.09230432116037876,
    -0.058693398590212366,
    0.028362277418940665,
    -0.009746579552504244,
    0.0017556258530017257,
    0.0002937136342850081,
    -0.0002901540809795271,
    5.1649211390702855e-05,
    2.2384240314224437e-05,
    -1.1444412439171722e-05,
    -9.735619015182663e-07,
    1.752057970166318e-06,
    -5.721597255990987e-08,
    -2.591069687796658e-07,
    2.3261913276696566e-08,
    3.8965452548985966e-08,
    -3.743568033634583e-09,
    -5.28428697963142e-09,
    3.110310719839165e-10,
    4.434959070009628e-10,
)
_ERFCX32 = (
    1.2375126300030113,
    -0.1402405987127234,
    0.0035854974289632052,
    0.08227675095346368,
    -0.10880525203898243,
    0.09230412174644181,
    -0.05868533658608146,
    0.028363473790408853,
    -0.009770286714565772,
    0.001752209498690462,
    0.00033034420935822574,
    -0.0002851543388991308,
    2.1987965983870166e-05,
    1.8780736285192822e-05,
)
_ERFCX_SHORT = (
    1.2375126308378275,
    -0.14024310696627976,
    0.00358570680579673,
    0.08232711624284668,
    -0.1088098386941157,
    0.09201916856436688,
    -0.058659114965607446,
    0.029028182110101497,
    -0.009830616404036218,
    0.0010584335427230188,
    0.00039079593326293914,
)
# erf(x) / x - 1 in x^2 on [0, 1]; fitted
_ERF64 = (
    0.12837916709551256,
    -0.3761263890318375,
    0.11283791670954879,
    -0.026866170645076792,
    0.0052239776248180145,
    -0.000854832698083379,
    0.0001205533111164271,
    -1.4925595266831182e-05,
    1.6461000484121368e-06,
    -1.6350312701054695e-07,
    1.4659775274047436e-08,
    -1.1372848856791674e-09,
    5.957176147748911e-11,
)
_ERF32 = (
    0.12837916584835089,
    -0.37612626666720334,
    0.11283594715160218,
    -0.026854212010626412,
    0.005189087423433974,
    -0.000801686428716587,
    7.875875062685488e-05,
)
# lgamma(2 + u) / (u (u + 1)) on [-1, 1]; fitted
_LGAMMA = (
    0.42278433509846713,
    -0.1003173016743539,
    0.032965000621155816,
    -0.012384192193374183,
    0.004998641164698706,
    -0.0021081308338353785,
    0.0009153769221939477,
    -0.0004057073998333553,
    0.00018255264018626728,
    -8.309510094797398e-05,
    3.8168877217049974e-05,
    -1.7661849545809686e-05,
    8.22227252824938e-06,
    -3.8465374565754054e-06,
    1.8077244952477939e-06,
    -8.554195306752008e-07,
    4.0491176292722286e-07,
    -1.8624721164419038e-07,
    8.858800462314761e-08,
    -5.1889381335192836e-08,
    2.4876913129422816e-08,
    -9.172949166290702e-10,
    3.821541398410965e-10,
    -8.87711600370437e-09,
    4.305220610785349e-09,
    2.444386936885692e-09,
    -1.1901740908188623e-09,
    -8.152852870624974e-10,
    3.9592899392841773e-10,
)
# Bernoulli numbers B2, B4, ... over 2k(2k-1), over 2k, and over (2k)!
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_EULER = (
    0.08333333333333333,
    -0.001388888888888889,
    3.306878306878307e-05,
    -8.267195767195768e-07,
    2.08767569878681e-08,
    -5.284190138687493e-10,
    1.3382536530684679e-11,
    -3.3896802963225827e-13,
    8.586062056277845e-15,
)
_GILES_CENTRE = (
    1.50140941,
    0.246640727,
    -0.00417768164,
    -0.00125372503,
    0.00021858087,
    -4.39150654e-06,
    -3.5233877e-06,
    3.43273939e-07,
    2.81022636e-08,
)
_GILES_TAIL = (
    2.83297682,
    1.00167406,
    0.00943887047,
    -0.0076224613,
    0.00573950773,
    -0.00367342844,
    0.00134934322,
    0.000100950558,
    -0.000200214257,
)


def _poly(coefficients: tuple[float, ...], x: Array) -> Array:
    """Horner's rule, constant term first."""
    acc = np.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        acc *= x
        acc += c
    return acc


def _chunked(f: Callable[[Array], Array], x: Array) -> Array:
    """f over pieces that stay in the cache; f takes and gives 1-d float32 or float64 arrays."""
    if x.dtype == np.float16:
        return _chunked(f, x.astype(np.float32)).astype(np.float16)
    flat, restored = flattened(x)
    out = np.empty(flat.shape, x.dtype)

    def piece(at: slice) -> None:
        out[at] = f(flat[at])

    in_blocks(piece, len(flat))
    return restored(out)


def _double(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """f, which works in float64, for any floating dtype."""
    return lambda x: f(x if x.dtype == np.float64 else x.astype(np.float64))


# ---- error function ----

# exp(a^2/2) (a + 3) times the normal distribution function at -a, in (a - 3) / (a + 3); float32 is 0 from CDF_END on.
# Fitted as in native/vecmath/fit.py, relative error 2^-29.6
CDF_END = 14.5
CDF32 = (
    0.7290836906962499, -0.5093319895402824, 0.23001767766349004, -0.047262745275900214, -0.010462293756020216,
    0.006969813131301509, 0.0010241357110211651, -0.00103422205930406, -0.0002445826663503028, 0.00013312590875052613,
    5.5355966295438e-05,
)  # fmt: skip


def _exp_minus_square(x: Array) -> Array:
    """exp(-x^2) with the rounding error of the square put back (without it the error is about x^2 ulp)."""
    if x.dtype == np.float32:
        exact = x.astype(np.float64)
        exact *= exact
        square = exact.astype(np.float32)
        exact -= square
        rest = exact.astype(np.float32)
    else:
        square = x * x
        big = x * 134217729.0  # 2^27 + 1: x = high + low, 26 bits each [D]
        high = big - (big - x)
        low = x - high
        rest = ((high * high - square) + 2 * high * low) + low * low
    e = np.exp(-square)
    e -= e * rest
    return e


def _erfc_positive(x: Array, gauss: Array | None = None, short: tuple[float, ...] = ()) -> Array:
    """erfc for x >= 0 [SL]; beyond 28 it is 0 in float64.

    gauss: exp(-x^2), if its error does not matter; short: coefficients for float32 if a few ulp do not.
    """
    x = np.minimum(x, 28)
    y = (x - 3.75) / (x + 3.75)
    p = _poly((short or _ERFCX32) if x.dtype == np.float32 else _ERFCX64, y)
    p *= _exp_minus_square(x) if gauss is None else gauss
    p /= 1 + 2 * x
    return p


def _erf(x: Array) -> Array:
    a = np.abs(x)
    inside = a < 1
    s = np.clip(x, -1, 1)
    small = _poly(_ERF32 if x.dtype == np.float32 else _ERF64, s * s)
    small *= s
    small += s
    if inside.all():
        return small
    large = np.copysign(1 - _erfc_positive(a, np.exp(-(a * a)), _ERFCX_SHORT), x)
    return pick(inside, small, large, 256)


def _erfc(x: Array) -> Array:
    far = _erfc_positive(np.abs(x))
    out = np.where(x < 0, 2 - far, far)
    near = np.abs(x) < 0.5  # 1 - erf loses nothing here
    return np.where(near, 1 - _erf(np.where(near, x, 0)), out) if near.any() else out


def _erfinv(x: Array) -> Array:
    """Giles' single precision guess, then one step of Halley's method on erf, or on erfc where that is small."""
    a = np.abs(x)
    w = -np.log((1 - x) * (1 + x))
    guess = np.where(w < 5, _poly(_GILES_CENTRE, w - 2.5), _poly(_GILES_TAIL, np.sqrt(w) - 3)) * a
    guess = np.where(a < 1, guess, 0)
    for _ in range(2):
        error = np.where(a < 0.5, _erf(guess) - a, (1 - a) - _erfc_positive(guess))
        step = error / (2 / math.sqrt(math.pi) * np.exp(-guess * guess))
        guess = guess - step / (1 + guess * step)
    guess = np.where(a < 1, guess, np.where(a == 1, np.inf, np.nan))
    return np.copysign(guess, x)


def _few(f: Callable[[float], float], x: Array) -> Array:
    """The standard library's function element by element: faster than a dozen numpy calls on a few elements."""
    flat, restored = flattened(x)
    return restored(np.array([f(v) for v in flat.tolist()], x.dtype))


def erf(x: Array) -> Array:
    """Error function."""
    return _few(math.erf, x) if x.size <= _FEW else _chunked(_erf, x)


def erfc(x: Array) -> Array:
    """1 - erf(x), accurate where that is small."""
    return _few(math.erfc, x) if x.size <= _FEW else _chunked(_double(_erfc), x)


def erfinv(x: Array) -> Array:
    """Inverse of erf; infinite at -1 and 1, NaN outside."""
    return _chunked(_double(_erfinv), x)


def normal_cdf(x: Array) -> Array:
    """Distribution function of the standard normal: erfc(-x / sqrt 2) / 2."""
    if x.size <= _FEW:
        return _few(lambda v: 0.5 * math.erfc(v * -_ROOT_HALF), x)

    def f(x: Array) -> Array:
        far = _tail32(x) if x.dtype == np.float32 else _tail64(x)
        return np.where(x >= 0, 1 - far, far)

    return _chunked(f, x)


def _tail64(x: Array) -> Array:
    """The normal distribution function at -|x|."""
    far = _erfc_positive(np.abs(x) * _ROOT_HALF, np.exp(x * x * -0.5))
    far *= 0.5
    return far


def _tail32(x: Array) -> Array:
    """The same in float32: exp(-x^2/2) times a function that is smooth in (a - 3) / (a + 3), a = |x|."""
    a = np.abs(x)
    np.minimum(a, CDF_END, out=a)
    r = a + 3
    np.reciprocal(r, out=r)
    a -= 3
    a *= r
    p = _poly(CDF32, a)
    p *= r
    np.multiply(x, x, out=a)
    a *= -0.5
    p *= np.exp(a, out=a)
    return p


# ---- gamma family ----


def _sin_pi(x: Array) -> Array:
    """|sin(pi x)| with the argument reduced exactly."""
    return np.sin(math.pi * np.abs(x - np.rint(x)))


def _lgamma_positive(x: Array) -> Array:
    out = np.empty_like(x)
    tiny = x < 0.5
    u = np.where(tiny, x - 1, x - 2)  # argument minus 2 after lgamma(x) = lgamma(x + 1) - log x [AS 6.1.17]
    shift = np.ones_like(x)
    for _ in range(7):  # down to [1, 3]
        big = (u > 1) & (x < 8.5)
        if not big.any():
            break
        shift = np.where(big, shift * (u + 1), shift)
        u = np.where(big, u - 1, u)
    low = (u < -1) & ~tiny  # 0.5 <= x < 1
    mult = np.where(tiny | low, x, 1)
    u = np.where(low, x - 1, u)
    u = np.clip(u, -1, 1)
    out = u * (u + 1) * _poly(_LGAMMA, u) + np.log(shift) - np.log(mult)
    large = x >= 8.5
    if large.any():
        z = np.where(large, x, 9)
        r = 1 / z
        stirling = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + r * _poly(_STIRLING, r * r)
        out = np.where(large, np.where(np.isinf(x), np.inf, stirling), out)
    return out


def _lgamma(x: Array) -> Array:
    positive = x > 0
    out = _lgamma_positive(np.where(positive, x, 1 - x))
    if positive.all():
        return out
    mirrored = math.log(math.pi) - np.log(_sin_pi(x)) - out  # [AS 6.1.17]
    mirrored = np.where((x == np.rint(x)) | np.isinf(x), np.inf, mirrored)
    tiny = (x > -1e-8) & (x <= 0)
    mirrored = np.where(tiny, -np.log(np.abs(x)), mirrored)
    return np.where(positive, out, np.where(np.isnan(x), np.nan, mirrored))


def _digamma_positive(x: Array) -> Array:
    acc = np.zeros_like(x)
    for _ in range(10):  # [AS 6.3.6]
        small = x < 10
        if not small.any():
            break
        acc -= np.where(small, 1 / x, 0)
        x = np.where(small, x + 1, x)
    r = 1 / x
    return acc + (np.log(x) - 0.5 * r - r * r * _poly(_DIGAMMA, r * r))  # [AS 6.3.18]


def _digamma(x: Array) -> Array:
    positive = x > 0
    out = _digamma_positive(np.where(positive, x, 1 - x))
    if positive.all():
        return out
    frac = x - np.rint(x)
    mirrored = out - math.pi / np.tan(math.pi * frac)  # [AS 6.3.7]
    mirrored = np.where(frac == 0, np.nan, mirrored)
    mirrored = np.where(x == 0, np.copysign(np.inf, -x), mirrored)
    return np.where(positive, out, np.where(np.isfinite(x), mirrored, np.nan))


def _zeta(s: int, q: Array) -> Array:
    """Hurwitz zeta function of integer s >= 2 and q > 0 [EM]."""
    acc = np.zeros_like(q)
    shift = 9 + s
    for k in range(shift):
        acc += (q + k) ** -s
    a = q + shift
    acc += a ** (1 - s) / (s - 1) + 0.5 * a**-s
    factor = float(s)
    power = a ** (-s - 1)
    for j, b in enumerate(_EULER):
        acc += b * factor * power
        factor *= (s + 2 * j + 1) * (s + 2 * j + 2)
        power = power / (a * a)
    return np.where(np.isinf(q), 0, acc)


def _cot_derivative(n: int, x: Array) -> Array:
    """pi times the n-th derivative of cot(pi x): a polynomial in the cotangent."""
    p = np.array([0.0, 1.0])
    for _ in range(n):
        d = np.polynomial.polynomial.polyder(p)
        p = np.polynomial.polynomial.polymul(d, [-math.pi, 0, -math.pi])
    c = 1 / np.tan(math.pi * (x - np.rint(x)))
    return math.pi * np.polynomial.polynomial.polyval(c, p)


def polygamma(n: int, x: Array) -> Array:
    """n-th derivative of digamma; n >= 0."""
    if n == 0:
        return digamma(x)

    def f(x: Array) -> Array:
        sign = 1.0 if n % 2 else -1.0
        positive = x > 0
        q = np.where(positive, x, 1 - x)
        out = sign * math.factorial(n) * _zeta(n + 1, q)
        if positive.all():
            return out
        mirrored = (-1.0) ** n * out - _cot_derivative(n, x)  # [AS 6.4.7]
        at_pole = np.inf if n % 2 else -np.inf
        mirrored = np.where(x == np.rint(x), at_pole, mirrored)
        return np.where(positive, out, mirrored)

    return _chunked(_double(f), x)


def lgamma(x: Array) -> Array:
    """Logarithm of |Gamma(x)|; infinite at 0 and the negative integers."""
    return _chunked(_double(_lgamma), x)


def digamma(x: Array) -> Array:
    """Derivative of lgamma; -inf at 0, inf at -0, NaN at the negative integers."""
    return _chunked(_double(_digamma), x)


def _sinc_derivative(x: Array, n: int) -> Array:
    y = x * math.pi
    near = np.abs(y) <= n + 1
    z = np.where(near, y, 0)
    square, power = np.square(z), z if n % 2 else np.ones_like(z)
    series = np.zeros_like(z)
    for k in range((n + 1) // 2, n + 16):  # (-1)^k y^(2k-n) / ((2k-n)! (2k+1))
        series += power * ((-1) ** k / (2 * k + 1))
        power = power * square / ((2 * k + 1 - n) * (2 * k + 2 - n))
    far = np.where(near, n + 1.0, y)
    turns = np.sin(far), np.cos(far), -np.sin(far), -np.cos(far)
    r = turns[0] / far
    for j in range(1, n + 1):  # y f_j + j f_(j-1) is the j-th derivative of sin
        r = (turns[j % 4] - j * r) / far
    return np.where(near, series, r) * math.pi**n


def sinc_derivative(x: Array, n: int) -> Array:
    """The n-th derivative of sin(pi x) / (pi x): a series near 0, where the recurrence loses everything."""
    with np.errstate(invalid="ignore"):
        return _chunked(_double(lambda v: _sinc_derivative(v, n)), x)
