"""Accuracy of the special functions against the standard library, and their special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fusegrad.ops import special_kernels as sk


def ulps(f, reference, x, dtype):
    x = x.astype(dtype)
    want = np.array([reference(v) for v in x.astype(np.float64)])
    got = f(x)
    assert got.dtype == dtype
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(want).astype(dtype)).astype(np.float64)
    return error[np.isfinite(want.astype(dtype))].max()


RNG = np.random.default_rng(0)
SMALL = np.concatenate([RNG.uniform(-6, 6, 4000), 10.0 ** RNG.uniform(-30, 0, 1000), RNG.uniform(-1.5, 1.5, 4000)])


@pytest.mark.parametrize("dtype,bound", [(np.float32, 2), (np.float64, 4)])
def test_erf_erfc(dtype, bound):
    assert ulps(sk.erf, math.erf, SMALL, dtype) <= bound
    tail = RNG.uniform(5, 9 if dtype is np.float32 else 26, 2000)
    assert ulps(sk.erfc, math.erfc, np.concatenate([SMALL, tail]), dtype) <= bound + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erfinv_inverts(dtype):
    x = np.concatenate([RNG.uniform(-1, 1, 4000), 1 - 10.0 ** RNG.uniform(-7, -1, 500)]).astype(dtype)
    x = x[np.abs(x) < 1]
    y = sk.erfinv(x).astype(np.float64)
    back = np.array([math.erf(v) for v in y])
    eps = np.finfo(dtype).eps
    slope = 2 / math.sqrt(math.pi) * np.exp(-y * y)
    assert (np.abs(back - x) <= 4 * eps * (np.abs(x) + np.abs(y) * slope)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lgamma(dtype):
    x = np.concatenate([RNG.uniform(0.01, 0.9, 1000), RNG.uniform(2.1, 50, 2000), 10.0 ** RNG.uniform(-20, -1, 1000)])
    x = x.astype(dtype)
    want = np.array([math.lgamma(v) for v in x.astype(np.float64)])  # Python's own has errors of about 100 ulp
    np.testing.assert_allclose(sk.lgamma(x), want, rtol=1e-13 if dtype is np.float64 else 1.3e-7)
    d = RNG.uniform(-1e-4, 1e-4, 500).astype(dtype).astype(np.float64)
    near = (1 + d).astype(dtype)
    d = near.astype(np.float64) - 1
    series = d * (-0.5772156649015329 + d * (math.pi**2 / 12 + d * (-1.2020569031595942 / 3)))
    np.testing.assert_allclose(sk.lgamma(near), series, rtol=1e-12 if dtype is np.float64 else 1e-6)
    negative = RNG.uniform(-5, 0, 2000).astype(dtype)
    want = np.array([math.lgamma(v) for v in negative.astype(np.float64)])
    np.testing.assert_allclose(sk.lgamma(negative), want, atol=1e-13 if dtype is np.float64 else 1e-6, rtol=1e-6)


def test_digamma_and_polygamma_are_derivatives():
    x = np.concatenate([RNG.uniform(0.3, 12, 200), RNG.uniform(-0.9, -0.1, 50)])
    h = 1e-5
    slope = (sk.lgamma(x + h) - sk.lgamma(x - h)) / (2 * h)
    np.testing.assert_allclose(sk.digamma(x), slope, rtol=1e-6, atol=1e-6)
    for n in (1, 2, 3):
        slope = (sk.polygamma(n - 1, x + h) - sk.polygamma(n - 1, x - h)) / (2 * h)
        np.testing.assert_allclose(sk.polygamma(n, x), slope, rtol=1e-4)
    assert sk.digamma(np.array([1.0]))[0] == pytest.approx(-0.5772156649015329, rel=1e-15)
    assert sk.polygamma(1, np.array([1.0]))[0] == pytest.approx(math.pi**2 / 6, rel=1e-15)


def test_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0])
    np.testing.assert_array_equal(sk.erf(x)[:5], [0, 0, 1, -1, np.nan])
    assert np.signbit(sk.erf(x)[1])
    np.testing.assert_array_equal(sk.erfc(x)[:5], [1, 1, 0, 2, np.nan])
    np.testing.assert_array_equal(sk.erfinv(x), [0, 0, np.nan, np.nan, np.nan, np.inf, -np.inf])
    np.testing.assert_array_equal(sk.lgamma(x), [np.inf, np.inf, np.inf, np.inf, np.nan, 0, np.inf])
    np.testing.assert_array_equal(sk.digamma(x)[:4], [-np.inf, np.inf, np.inf, np.nan])
    assert np.isnan(sk.digamma(x)[6])


@pytest.mark.parametrize("shape", [(), (0,), (3, 4), (20000,)])
def test_shapes_and_layouts(shape):
    x = RNG.uniform(-2, 2, shape).astype(np.float32)
    x = x.T if x.ndim == 2 else x
    y = sk.erf(np.asarray(x))
    assert y.shape == x.shape and y.dtype == np.float32
    np.testing.assert_allclose(np.asarray(y).ravel(), [math.erf(v) for v in np.asarray(x).ravel()], rtol=1e-6)


def test_zeta() -> None:
    import pytest

    import fusegrad as torch

    f64, zeta = torch.float64, torch.special.zeta
    s = torch.tensor([2.0, 4.0, 3.0, 2.0, 4.0, 2.0], dtype=f64)
    q = torch.tensor([1.0, 1.0, 2.0, 0.5, 1e6, -0.5], dtype=f64)
    want = [np.pi**2 / 6, np.pi**4 / 90, 0.2020569031595943, np.pi**2 / 2, 3.3333383333366666e-19, np.pi**2 / 2 + 4]
    np.testing.assert_allclose(zeta(s, q).numpy(), want, rtol=1e-13)
    odd = zeta(torch.tensor([1.0, 0.5, 1.5, 4.0, 2.0]), torch.tensor([1.0, 1.0, -0.5, -2.0, 0.0]))
    np.testing.assert_array_equal(odd.numpy(), [np.inf, np.nan, np.nan, np.inf, np.inf])
    assert zeta(2, torch.tensor([1, 2])).dtype is torch.float32 and zeta(torch.tensor([2.0]), 1).item() > 1.64
    q = torch.tensor([1.0, 2.5], dtype=f64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda q: zeta(3.0, q), (q,)) and torch.autograd.gradgradcheck(
        lambda q: zeta(3.0, q), (q,)
    )
    np.testing.assert_allclose(torch.compile(zeta, fullgraph=True)(3.0, q.detach()), zeta(3.0, q).detach())
    with pytest.raises(NotImplementedError, match="derivative"):
        zeta(torch.tensor([2.0], requires_grad=True), 1.0).backward()
