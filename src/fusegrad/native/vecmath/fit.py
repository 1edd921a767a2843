"""Makes coefficients.py: interpolation at Chebyshev points in 60 digits, relative error within a factor 2 of the best.

pip install mpmath; python src/fusegrad/native/vecmath/fit.py > src/fusegrad/native/vecmath/coefficients.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 60


def fit(f: Callable, a: Any, b: Any, n: int) -> list:
    """Coefficients c0..cn of the polynomial that meets f at the Chebyshev points of [a, b]."""
    a, b = mp.mpf(a), mp.mpf(b)
    points = [(a + b) / 2 + (b - a) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n + 2)) for k in range(n + 1)]
    matrix = mp.matrix([[x**j for j in range(n + 1)] for x in points])
    return list(mp.lu_solve(matrix, mp.matrix([f(x) for x in points])))


def relative_error(f: Callable, c: list, a: Any, b: Any) -> Any:
    a, b = mp.mpf(a), mp.mpf(b)
    points = [a + (b - a) * k / 300 for k in range(301)]
    return max(abs(mp.polyval(c[::-1], x) / f(x) - 1) for x in points if f(x) != 0)


def show(name: str, f: Callable, a: Any, b: Any, n: int, middle: Any = 0) -> None:
    if middle:
        f, a, b = (lambda v, f=f: f(v + middle)), mp.mpf(a) - middle, mp.mpf(b) - middle
    c = fit(f, a, b, n)
    print(f"\n# relative error 2^{mp.nstr(mp.log(relative_error(f, c, a, b), 2), 4)}")
    items = [repr(float(x)) for x in c]
    line = f"{name} = ("
    for item in items:
        if len(line) + len(item) > 116:
            print(line.rstrip())
            line = "    "
        line += item + ", "
    print(line.rstrip(", ") + ")")


def at_zero(value: Any, f: Callable) -> Callable:
    """f with its limit near zero, where the formula cancels."""
    return lambda x: mp.mpf(value) if abs(x) < mp.mpf(10) ** -18 else f(x)


def odd(g: Callable, first: Any, second: Any) -> Callable:
    """h with g(x) = first*x + x**3 h(x**2)."""
    return at_zero(second, lambda z: (g(mp.sqrt(z)) / mp.sqrt(z) - first) / z)


def main() -> None:
    print('"""Polynomials, lowest power first; made by fit.py."""')
    half = mp.log(2) / 2 * mp.mpf("1.0001")
    e = at_zero(mp.mpf(1) / 2, lambda r: (mp.expm1(r) - r) / r**2)
    print("\n# exp: (e^r - 1 - r) / r^2 on |r| <= ln2/2")
    show("EXP_5", e, -half, half, 5)
    show("EXP_11", e, -half, half, 11)
    print("\n# log: (log(1+f) - f) / f^2 on sqrt(1/2)-1 <= f <= sqrt(2)-1")
    f0, f1 = mp.sqrt(0.5) - 1, mp.sqrt(2) - 1
    for n in (8, 9):
        show(f"LOG_{n}", at_zero(-mp.mpf(1) / 2, lambda f: (mp.log1p(f) - f) / f**2), f0, f1, n)
    print("\n# log: 2 atanh(s) = 2 s + s^3 h(s^2), s = f/(2+f)")
    h = odd(lambda s: 2 * mp.atanh(s), 2, mp.mpf(2) / 3)
    show("ATANH_6", h, 0, mp.mpf("0.17158") ** 2, 6)
    rest = at_zero(mp.mpf(2) / 5, lambda z: (h(z) - mp.mpf(2) / 3) / z)
    show("ATANH_REST", rest, 0, mp.mpf("0.17158") ** 2, 6)
    quarter = (mp.pi / 4 * mp.mpf("1.0001")) ** 2
    cos = at_zero(mp.mpf(1) / 24, lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2)
    for n in (3, 6):
        show(f"SIN_{n}", odd(mp.sin, 1, -mp.mpf(1) / 6), 0, quarter, n)
        show(f"COS_{n}", cos, 0, quarter, n)
    print("\n# tanh(x) = x + x^3 h(x^2) on x <= 0.65; sinh the same")
    for n in (5, 13):
        show(f"TANH_{n}", odd(mp.tanh, 1, -mp.mpf(1) / 3), 0, mp.mpf("0.65") ** 2, n)
    show("SINH_6", odd(mp.sinh, 1, mp.mpf(1) / 6), 0, mp.mpf("0.65") ** 2, 6)
    print("\n# erf(x) = x + x h(x^2) on x <= 1; erfc(x)^(1/4) in x - 2.5 on 1 <= x <= 4")
    erf = at_zero(2 / mp.sqrt(mp.pi) - 1, lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1)
    for n in (7, 14):
        show(f"ERF_{n}", erf, 0, 1, n)
    show("ERFC_ROOT_10", lambda x: mp.root(mp.erfc(x), 4), 1, 4, 10, mp.mpf(5) / 2)
    print("\n# normal distribution function: 1/2 + x h(x^2) on x <= 3/4")
    show(
        "CDF_4",
        at_zero(1 / mp.sqrt(2 * mp.pi), lambda z: (mp.ncdf(mp.sqrt(z)) - 0.5) / mp.sqrt(z)),
        0,
        mp.mpf(9) / 16,
        4,
    )
    print(
        "\n# e^(x^2/2) times that of -x, in x - m on 3/4 <= x <= 9/2 and on 9/2 <= x <= 14.6, where m is one\n"
        "# of those numbers near which the first coefficient is all but a float32"
    )
    mills = lambda x: mp.ncdf(-x) * mp.exp(x * x / 2)
    show("MILLS_13", mills, mp.mpf(3) / 4, mp.mpf(9) / 2, 13, mp.mpf(1331) / 512)
    show("MILLS_FAR_14", mills, mp.mpf(9) / 2, mp.mpf("14.6"), 14, mp.mpf(2665) / 256)
    print("\n# erfc(x) exp(x^2) (1 + 2 x) in t = (x - 4) / (x + 4) on 0.5 <= x <= 28; with 3 on 0 <= x <= 10.1")

    def scaled(middle: Any) -> Callable:
        def g(t: Any) -> Any:
            x = middle * (1 + t) / (1 - t)
            return mp.erfc(x) * mp.exp(x * x) * (1 + 2 * x)

        return g

    show("ERFC_24", scaled(4), mp.mpf("-3.5") / mp.mpf("4.5"), mp.mpf(24) / 32, 24)
    show("ERFC_10", scaled(3), -1, mp.mpf("7.1") / mp.mpf("13.1"), 10)
    print("\n# the same in t = (x - 15/4) / (x + 15/4) on x >= 0")
    end = lambda t: scaled(mp.mpf(15) / 4)(t) if t < 1 - mp.mpf(10) ** -6 else 2 / mp.sqrt(mp.pi)
    for n in (15, 24):
        show(f"ERFCX_{n}", end, -1, 1, n)
    print("\n# log gamma(2 + u) / (u (u + 1)) on |u| <= 1")
    for n in (13, 27):
        show(f"LGAMMA_{n}", lambda u: mp.loggamma(2 + u) / (u * (u + 1)) if u and u + 1 else 1 - mp.euler, -1, 1, n)
    print("\n# asin(x) = x + x^3 h(x^2) on x <= 1/2; atan on x <= tan(pi/8)")
    show("ASIN_12", odd(mp.asin, 1, mp.mpf(1) / 6), 0, mp.mpf("0.2501"), 12)
    show("ATAN_12", odd(mp.atan, 1, -mp.mpf(1) / 3), 0, mp.mpf("0.41422") ** 2, 12)
    quantiles()
    bessel()


def _quantile(w: Any) -> tuple[Any, Any]:
    """(z, x): x = erf(z) with (1 - x)(1 + x) = e^-w, by Newton's method on log erfc."""
    rest = mp.exp(-w)
    x = mp.sqrt(1 - rest)
    q = rest / (1 + x)
    if q > 0.5:
        return mp.erfinv(x), x
    u = mp.sqrt(-2 * mp.log(q / 2))
    z = (u - mp.log(u) / u) / mp.sqrt(2)
    for _ in range(12):
        e = mp.erfc(z)
        step = (mp.log(e) - mp.log(q)) * e * mp.sqrt(mp.pi) / 2 * mp.exp(z * z)
        z += step
        if abs(step) < mp.mpf(10) ** -45:
            break
    return z, x


def quantiles() -> None:
    print("\n# erfinv(x) / x in w - 25/8, w = -log(1 - x^2) <= 25/4; in sqrt(w) - m beyond; erfinv(x) in sqrt(w) - m")
    near = at_zero(mp.sqrt(mp.pi) / 2, lambda w: mp.fdiv(*_quantile(w)))
    ratio = lambda r: mp.fdiv(*_quantile(r * r))
    for n in (14, 24):
        show(f"ERFINV_{n}", near, 0, mp.mpf(25) / 4, n, mp.mpf(25) / 8)
    show("ERFINV_MID_10", ratio, mp.mpf(5) / 2, mp.mpf("4.1"), 10, mp.mpf(13) / 4)
    show("ERFINV_MID_20", ratio, mp.mpf(5) / 2, 4, 20, mp.mpf(13) / 4)
    show("ERFINV_FAR_18", ratio, 4, mp.mpf("6.1"), 18, 5)
    z = lambda r: _quantile(r * r)[0]
    show("NDTRI_FAR_12", z, 4, mp.mpf("10.2"), 12, 7)
    show("NDTRI_FAR_20", z, mp.mpf(6), 14, 20, 10)
    show("NDTRI_END_18", z, 14, mp.mpf("27.5"), 18, mp.mpf(83) / 4)


def bessel() -> None:
    print("\n# e^-x I0(x) and e^-x I1(x) / x in t = x/4 - 1 on x <= 8; e^-x sqrt(x) times them in t = 16/x - 1 beyond")
    functions = (lambda x: mp.exp(-x) * mp.besseli(0, x), at_zero(0.5, lambda x: mp.exp(-x) * mp.besseli(1, x) / x))
    for k, f in enumerate(functions):

        def far(t: Any, k: int = k) -> Any:
            x = 16 / (t + 1) if t > -1 else mp.mpf(10) ** 40
            return mp.exp(-x) * mp.besseli(k, x) * mp.sqrt(x) if x < 1e6 else 1 / mp.sqrt(2 * mp.pi)

        for n in (19, 29):
            show(f"I{k}_{n}", lambda t, f=f: f(4 * t + 4), -1, 1, n)
        for n in (7, 25):
            show(f"I{k}_FAR_{n}", far, -1, 1, n)


if __name__ == "__main__":
    main()
