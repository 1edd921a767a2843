"""Vector math: at most 2 ulp in float32 and float64, special values, signs of zero, and the numpy interpreter of it."""

from __future__ import annotations

import numpy as np
import pytest

from fusegrad.dtypes import float32, float64, int32
from fusegrad.native import interp
from fusegrad.native.scalar import UnsupportedScalar, b
from fusegrad.native.vecmath import check

NAMES = [*check.REFERENCES, "erf", "erfc", "gelu"]
ODD = ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf"]


@pytest.mark.parametrize("name", NAMES)
def test_float32(name: str) -> None:
    error, where = check.worst(name, check.sample(np.float32, 60_000))
    assert error <= check.BOUND, where


@pytest.mark.skipif(not check.HAS_LONG, reason="no wider float to compare with")
@pytest.mark.parametrize("name", list(check.REFERENCES))
def test_float64(name: str) -> None:
    error, where = check.worst(name, check.sample(np.float64, 40_000))
    assert error <= check.BOUND, where


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_float32_exhaustive(name: str) -> None:
    error, where = max((check.worst(name, x) for x in check.everything()), key=lambda pair: pair[0])
    assert error <= check.BOUND, where


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions_float64(name: str) -> None:
    mp = pytest.importorskip("mpmath")
    rng = np.random.default_rng(3)
    x = np.concatenate(
        [
            rng.uniform(-6.5, 6.5, 600),
            rng.uniform(-28, 28, 200),
            np.linspace(0.4, 1.2, 200),
            rng.normal(0, 1, 100) * 10.0 ** rng.uniform(-300, -1, 100),
        ]
    )
    with mp.workdps(40):
        exact = [getattr(mp, name)(mp.mpf(float(v))) for v in x]
        got = check.function(name, np.float64)(x)
        for v, g, e in zip(x, got, exact, strict=True):
            unit = np.spacing(abs(float(e))) or 5e-324
            assert abs(mp.mpf(float(g)) - e) <= check.BOUND * unit, v


RARE = {  # name -> (arguments, mpmath's value)
    "erfinv": (lambda r: np.concatenate([r.uniform(-1, 1, 99), 1 - 10.0 ** r.uniform(-16, -1, 60)]), "erfinv(v)"),
    "i0": (lambda r: r.uniform(-90, 90, 60), "besseli(0, v)"),
    "i1": (lambda r: np.concatenate([r.uniform(-90, 90, 50), r.uniform(-9, 9, 60)]), "besseli(1, v)"),
    "i0e": (lambda r: r.normal(0, 30, 80), "besseli(0, v) * exp(-abs(v))"),
    "i1e": (lambda r: r.normal(0, 30, 80), "besseli(1, v) * exp(-abs(v))"),
    "erfcx": (lambda r: np.concatenate([r.uniform(-9, 9, 80), 10.0 ** r.uniform(-9, 9, 30)]), "erfc(v) * exp(v * v)"),
    "log_ndtr": (lambda r: r.uniform(-30, 4, 80), "log(ncdf(v))"),
    "ndtr": (lambda r: r.uniform(-4, 6, 80), "ncdf(v)"),
    "ndtri": (lambda r: np.concatenate([r.uniform(0, 1, 90), 10.0 ** r.uniform(-37, -1, 60)]), ""),
}


def _quantile(mp, p):
    """mpmath's normal distribution function, inverted by Newton's method on its logarithm."""
    from fusegrad.ops._rare_kernels import ndtri

    q = min(p, 1 - p)
    z = mp.mpf(float(ndtri(np.array([float(q)]))[0]))
    for _ in range(4):
        e = mp.ncdf(z)
        z -= (mp.log(e) - mp.log(q)) * e * mp.sqrt(2 * mp.pi) * mp.exp(z * z / 2)
    return z if p <= 0.5 else -z


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", list(RARE))
def test_rare_functions(name: str, dtype: type) -> None:
    """float32 to its last place; float64 to a few, for log_ndtr and ndtr what rounding a multiple of x costs."""
    mp = pytest.importorskip("mpmath")
    draw, text = RARE[name]
    x = draw(np.random.default_rng(5)).astype(dtype)
    x = x[np.abs(x) < 1] if name == "erfinv" else x
    if dtype is np.float32 and name in ("i0", "i1"):
        x = np.clip(x, -80, 80)
    got = check.function(name, dtype)(x)
    bound = 0.6 if dtype is np.float32 else 60.0 if "ndtr" in name and name != "ndtri" else 5.0
    with mp.workdps(40):
        for v, g in zip(x, got, strict=True):
            w = mp.mpf(float(v))
            exact = (
                eval(text, vars(mp.mp) | {k: getattr(mp, k) for k in dir(mp)} | {"v": w}) if text else _quantile(mp, w)
            )
            assert abs(mp.mpf(float(g)) - exact) <= bound * float(np.spacing(dtype(abs(float(exact))))), v


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_digamma(n: int, dtype: type) -> None:
    import fusegrad

    mp = pytest.importorskip("mpmath")
    r = np.random.default_rng(6)
    x = np.concatenate([r.uniform(1e-3, 3, 60), r.uniform(3, 100, 30), r.uniform(-6, 0, 60)]).astype(dtype)
    got = fusegrad.polygamma(n, fusegrad.tensor(x)).numpy()
    with mp.workdps(40):
        exact = [float(mp.polygamma(n, mp.mpf(float(v)))) for v in x]
    np.testing.assert_allclose(got, exact, rtol=2e-7 if dtype is np.float32 else 3e-15)


@pytest.mark.parametrize("name", list(RARE))
def test_rare_functions_at_the_ends(name: str) -> None:
    """Infinities, zeros and numbers outside, as numpy's kernels have them; both dtypes."""
    from fusegrad.native.interp import FUNCTIONS

    x = np.array([0.0, -0.0, 1, -1, 2, -2, 40, -40, 1e5, -1e5, 1e300, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        for v in (x, x.astype(np.float32)):
            got, wanted = check.function(name, v.dtype)(v), FUNCTIONS[name](v)
            np.testing.assert_allclose(got, wanted, rtol=1e-6 if v.dtype == np.float32 else 1e-13)
            np.testing.assert_array_equal(np.signbit(got[:2]), np.signbit(wanted[:2]))


@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_pieces_of_one_formula_in_float32(name: str) -> None:
    """Both sides of every border between formulas, densely."""
    x = np.concatenate([np.linspace(m - 0.05, m + 0.05, 50_000) for m in (0.75, 1, 4, 4.5, 5.5, 13, 14.6)]).astype(
        np.float32
    )
    for v in (x, -x):
        error, where = check.worst(name, v)
        assert error <= check.BOUND, where


def test_gelu_of_infinities_and_zeros() -> None:
    got = check.function("gelu", np.float32)(np.float32([-np.inf, np.inf, np.nan, -0.0, 0.0, -1e30, -20]))
    np.testing.assert_array_equal(got, np.float32([np.nan, np.inf, np.nan, -0.0, 0.0, -0.0, -0.0]))
    np.testing.assert_array_equal(np.signbit(got[3:]), [True, False, True, True])


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_relative_accuracy_near_zero(name: str, dtype: type) -> None:
    """Odd functions keep -0.0, and are x (or 2x/sqrt(pi)) to full relative precision for tiny x, denormals included."""
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, tiny, -tiny, np.finfo(dtype).tiny, 1e-30, -1e-12], dtype)
    got = check.function(name, dtype)(x)
    slope = np.longdouble(2) / np.sqrt(np.longdouble(np.pi)) if name == "erf" else np.longdouble(1)
    want = (x.astype(np.longdouble) * slope).astype(dtype)
    if name in ("expm1", "log1p"):
        want[6] = getattr(np, name)(np.longdouble(x[6]))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))
    np.testing.assert_array_max_ulp(got, want, 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exponentials_at_the_ends_of_their_range(dtype: type) -> None:
    """Numbers too small for a normal one are kept, masked scores (-1e9, -inf) give 0, and NaN stays."""
    last, huge = (-104, 89) if dtype is np.float32 else (-746, 710)
    ends = [*np.linspace(last - 1, last + 18, 400), *np.linspace(huge - 1.5, huge + 1, 50)]
    x = np.array([*ends, -1e9, -np.inf, np.inf, np.nan, np.finfo(dtype).min], dtype)
    for name, at in (("exp", x), ("exp2", (x * 1.4426950408889634).astype(dtype))):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(at.astype(np.longdouble)).astype(dtype)
        got = check.function(name, dtype)(at)
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        some = np.isfinite(want)
        np.testing.assert_array_max_ulp(got[some], want[some], 1)
        np.testing.assert_array_equal(got[~some], want[~some])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_functions(dtype: type) -> None:
    """Everywhere for float32, also near the zeros; for float64 to the size of the terms that are added."""
    mp = pytest.importorskip("mpmath")
    rng = np.random.default_rng(4)
    x = np.concatenate([
        rng.uniform(0, 12, 300), 10.0 ** rng.uniform(-30, 30, 100), rng.uniform(-8, 0, 200),
        *(v + rng.normal(0, 1e-3, 60) for v in (1, 2, 1.46163214, 3, 4, 8.5, 10)),
    ]).astype(dtype)  # fmt: skip
    with mp.workdps(40):
        for name, f in (("lgamma", lambda v: mp.re(mp.loggamma(v))), ("digamma", mp.digamma)):
            got = check.function(name, dtype)(x)
            for v, g in zip(x, got, strict=True):
                exact = f(mp.mpf(float(v)))
                unit = float(np.spacing(dtype(abs(float(exact)))))
                if dtype is np.float64 and (v < 0 or name == "digamma"):
                    unit = max(unit, 1e-15 * (1 + abs(float(v * mp.digamma(v)))))  # what rounding of x is worth
                assert abs(mp.mpf(float(g)) - exact) <= check.BOUND * unit, (name, v)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_functions_of_special_values(dtype: type) -> None:
    inf, nan = np.inf, np.nan
    x = np.array([0.0, -0.0, inf, -inf, nan, 1, 2, -1, -2], dtype)
    np.testing.assert_array_equal(check.function("lgamma", dtype)(x), [inf, inf, inf, inf, nan, 0, 0, inf, inf])
    got = check.function("digamma", dtype)(x)
    np.testing.assert_array_equal(got[:5], [-inf, inf, inf, nan, nan])
    assert np.isnan(got[7:]).all()
    loads = {"x": np.array([0.25, 3.5, 20.0, -1.5], dtype)}
    for name in ("lgamma", "digamma"):
        value = getattr(b, name)(b.load("x", float32 if dtype is np.float32 else float64, terms={"i": 1}))
        np.testing.assert_allclose(
            interp.expression(value, loads), check.function(name, dtype)(loads["x"]), rtol=8 * np.finfo(dtype).eps
        )


def test_torch_compiles_erf_mistake_is_not_ours() -> None:
    x = np.float32([1e-6, 1e-4])
    np.testing.assert_allclose(check.function("erf", np.float32)(x), x * 1.1283791670955126, rtol=2e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pow(dtype: type) -> None:
    rng = np.random.default_rng(5)
    n = 20_000
    x = [
        np.exp(rng.uniform(-5, 5, n)),
        1 + rng.normal(0, 1e-3, n),
        rng.integers(-20, 20, n),
        np.exp(rng.uniform(-300, 300, n)),
    ]
    y = [rng.uniform(-40, 40, n), rng.normal(0, 3e5, n), rng.integers(-20, 20, n), rng.uniform(-3, 3, n)]
    special = np.array(
        [0.0, -0.0, 1, -1, 2, -2, 0.5, -0.5, 3, -3, np.inf, -np.inf, np.nan, 1e300, -1e300, 5e-324], dtype
    )
    a, c = (v.ravel() for v in np.meshgrid(special, special))
    xs, ys = np.concatenate([*x, a]).astype(dtype), np.concatenate([*y, c]).astype(dtype)
    got = check.function("pow", dtype, 2)(xs, ys)
    wide = np.float64 if dtype == np.float32 or not check.HAS_LONG else np.longdouble
    with np.errstate(all="ignore"):
        exact = np.power(xs.astype(wide), ys.astype(wide))
        error = check.ulps(got, exact)
    assert error.max() <= check.BOUND, (xs[error.argmax()], ys[error.argmax()])
    number = ~np.isnan(got)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(exact)[number])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, -0.5])
def test_pow_of_constants(exponent: float) -> None:
    x = np.array([0.0, -0.0, 2.0, -3.0, np.inf, -np.inf, np.nan, 1e-40], np.float32)
    got = interp.expression(b.pow(b.load("x", float32, terms={"i": 1}), exponent), {"x": x}, expanded=True)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.power(x, np.float32(exponent)), rtol=2e-7)


@pytest.mark.parametrize("name", ["mod", "fmod", "floordiv", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8])
def test_division_and_extremes(name: str, dtype: type) -> None:
    rng = np.random.default_rng(6)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        x, y = (check.sample(kind, 3000, seed) for seed in (1, 2))
        y = np.roll(y, 5)
    else:
        info = np.iinfo(kind)
        x, y = (rng.integers(info.min, info.max, 3000, dtype=kind, endpoint=True) for _ in range(2))
        y[::3] = rng.integers(max(info.min, -4), 5, 1000)
        x[:50] = info.min
    with np.errstate(all="ignore"):
        names = {"mod": np.remainder, "fmod": np.fmod, "floordiv": np.floor_divide}
        want = names.get(name, getattr(np, name, None))(x, y)  # type: ignore[misc]
    np.testing.assert_array_equal(check.function(name, dtype, 2)(x, y), want)


@pytest.mark.parametrize("name", NAMES)
def test_expansions_through_numpy(name: str) -> None:
    """The expansion itself, run by numpy: no compiler involved."""
    x = np.linspace(0.05, 0.95, 200).astype(np.float64)
    e = getattr(b, name)(b.load("x", float64, terms={"i": 1}))
    got, plain = (interp.expression(e, {"x": x}, expanded) for expanded in (True, False))
    np.testing.assert_allclose(got, plain, rtol=1e-14, equal_nan=True)


def test_huge_arguments_of_sin() -> None:
    x = np.array([6381956970095103 * 2.0**797, 1e22, 2.0**1023, 1e300])
    got = check.function("sin", np.float64)(x)
    if check.HAS_LONG:
        assert check.ulps(got, np.sin(x.astype(np.longdouble))).max() <= check.BOUND
    big = np.array([3.4e38, 1e30, 2.0**60 + 2.0**40], np.float32)
    np.testing.assert_allclose(check.function("cos", np.float32)(big), np.cos(big.astype(np.float64)), rtol=2e-7)


def test_integers_become_float32_and_powers_stay_integers() -> None:
    i = b.load("x", int32, terms={"i": 1})
    assert b.exp(i).dtype is float32
    x = np.arange(-5, 6, dtype=np.int32)
    np.testing.assert_array_equal(interp.expression(b.pow(i, 5), {"x": x}), x**5)
    with pytest.raises(UnsupportedScalar):
        b.pow(i, i)


def test_special_values_of_single_precision_forms() -> None:
    """Functions with their own float32 expansion, at the edges of their ranges."""
    inf, nan = np.inf, np.nan
    cases = {
        "log1p": (
            [-1, -2, inf, -inf, nan, 3.4028235e38, -0.0, 1e-45],
            [-inf, nan, inf, nan, nan, 88.72284, -0.0, 1e-45],
        ),
        "expm1": ([inf, -inf, nan, 89, -200, -0.0, 1e-45], [inf, -1, nan, inf, -1, -0.0, 1e-45]),
        "erfc": ([inf, -inf, nan, 0, -0.0, 10.05, 12, -12], [0, 2, nan, 1, 1, 1e-45, 0, 2]),
    }
    for name, (x, want) in cases.items():
        got = check.function(name, np.float32)(np.array(x, np.float32))
        np.testing.assert_array_equal(got, np.array(want, np.float32), err_msg=name)
        number = ~np.isnan(got)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(np.array(want))[number], err_msg=name)


SPECIAL_BITS = [0, 0x3F7FFF00, 0x3F800000, 0x7F7FFF00, 0x7FFFFF00, 0x80000000, 0xBF7FFF00, 0xFF7FFF00]


@pytest.mark.parametrize("start", SPECIAL_BITS)
@pytest.mark.parametrize("name", check.SINGLE)
def test_float32_around_special_values_against_our_float64(name: str, start: int) -> None:
    """The method of the exhaustive test, on the neighbourhoods of 0, 1, the largest number, infinity and NaN."""
    error, where = check.exhaustive(name, rows=1, length=512, bits=range(start, start + 512))
    assert error <= check.BOUND, where


@pytest.mark.parametrize(("fixed", "value", "constant"), check.pow_cases())
def test_pow_float32_against_our_float64(fixed: str, value: float, constant: bool) -> None:
    for start in SPECIAL_BITS:
        error, where = check.exhaustive_pow(fixed, value, constant, length=8, bits=range(start, start + 512))
        assert error <= check.BOUND, where


@pytest.mark.slow
@pytest.mark.parametrize("name", check.SINGLE)
def test_float32_exhaustive_against_our_float64(name: str) -> None:
    error, where = check.exhaustive(name)
    assert error <= check.BOUND, where


@pytest.mark.slow
@pytest.mark.parametrize(("fixed", "value", "constant"), check.pow_cases())
def test_pow_float32_exhaustive_against_our_float64(fixed: str, value: float, constant: bool) -> None:
    error, where = check.exhaustive_pow(fixed, value, constant)
    assert error <= check.BOUND, where


def test_exhaustive_check_finds_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is wrong for one value is caught, with the value."""
    right = b.sqrt
    bits = range(0x3F800000, 0x3F800000 + 64 * 64)
    value = float(np.array(0x3F800123, np.uint32).view(np.float32))

    def wrong(x: object) -> object:
        return b.where(b.eq(x, value), b.const(0.5, x.dtype), right(x)) if x.dtype is float32 else right(x)

    monkeypatch.setattr(type(b), "sqrt", staticmethod(wrong), raising=False)
    error, where = check.exhaustive("sqrt", length=64, bits=bits)
    assert error > 1000 and where == value
