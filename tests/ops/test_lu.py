"""LU factors by LAPACK and by the loop that is used where there is none; cofactors by both ways."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as T
from fusegrad.ops import determinants, lu

SHAPES = [(5, 5), (7, 3), (3, 7), (2, 3, 4, 4), (0, 3), (3, 0), (2, 0, 3), (1, 1), (0, 3, 3), (40, 40)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_factors_by_both_ways(shape, dtype, monkeypatch):
    a = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    fast = lu.lu_op.kernel(a)
    monkeypatch.setattr(lu, "_lapack", lambda kind: None)
    slow = lu.lu_op.kernel(a)
    tolerance = 1e-4 if dtype is np.float32 else 1e-12
    for x, y in zip(fast, slow, strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape and x.flags.c_contiguous
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    p, low, up = fast[:3]
    np.testing.assert_allclose(p @ low @ up, a, rtol=tolerance, atol=tolerance)


def test_singular_matrices():
    """The number of the first zero pivot, and the rest of the factors."""
    a = np.array([[0.0, 0, 0], [1, 2, 3], [2, 4, 6]])
    *_, up, pivots, info = lu.lu_op.kernel(np.stack([a, np.eye(3), a * 0]))
    assert info.tolist() == [2, 0, 1] and pivots.tolist() == [[3, 2, 3], [1, 2, 3], [1, 2, 3]]
    assert up[0].tolist() == [[2, 4, 6], [0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cofactors_by_both_ways(dtype):
    rng = np.random.default_rng(1)
    a = (rng.standard_normal((6, 5, 5)) + 4 * np.eye(5)).astype(dtype)
    for x in (a, a[0], a * np.where(np.arange(6) == 2, 0, 1)[:, None, None].astype(dtype)):
        got = determinants.cofactors_op.kernel(x)
        wanted = determinants._cofactors(x.astype(np.float64), 0.0)
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=scale * (1e-6 if dtype is np.float32 else 1e-12))


NAN = float("nan")
SPOILT = {
    "pivot": [[NAN, 1.0], [1.0, 1.0]],
    "right": [[1.0, NAN], [1.0, 1.0]],
    "last": [[1.0, 1.0], [1.0, NAN]],
    "zeros": [[0.0, NAN], [0.0, 1.0]],
    "4 rows": [[NAN, 1.0, 2.0, 3.0], [1.0, 1.0, 5.0, 6.0], [3.0, 1.0, 2.0, 9.0], [0.0, 0.0, 1.0, 7.0]],
    "one": [[NAN]],
}


@pytest.mark.parametrize("dtype", [T.float32, T.float64])
@pytest.mark.parametrize("name", SPOILT)
def test_a_matrix_with_a_nan_is_not_singular(name, dtype):
    """LAPACK said so of some (a determinant of 0), and gave finite parts of others."""
    a = T.tensor(SPOILT[name], dtype=dtype)
    n = len(a)
    nan = T.full((n, n), NAN, dtype=dtype)
    one = T.eye(n, dtype=dtype)
    b = T.ones(n, 1, dtype=dtype)
    for run in (lambda f, *args: f(*args), lambda f, *args: T.compile(f)(*args)):
        for f in (T.linalg.inv, T.inverse, lambda x: T.linalg.matrix_power(x, -1), lambda x: T.linalg.inv_ex(x)[0]):
            assert T.equal(run(f, a).isnan(), nan.isnan())
        assert (
            run(T.linalg.solve, a, b).isnan().all()
            and run(T.linalg.solve, T.stack([one, a]), b)[0].tolist() == b.tolist()
        )
        assert run(T.linalg.det, a).isnan() and run(T.logdet, a).isnan()
        sign, log = run(T.linalg.slogdet, a)
        assert sign == 0 and log.isnan()
        both = run(T.linalg.inv, T.stack([one, a]))
        assert T.equal(both[0], one) and both[1].isnan().all()
        assert run(T.linalg.det, T.stack([one, a])).isnan().tolist() == [False, True]
        assert run(T.linalg.slogdet, T.stack([2 * one, a]))[0].tolist() == [1, 0]
    with pytest.raises(T.linalg.LinAlgError, match="singular"):
        T.linalg.inv(T.stack([a, T.zeros(n, n, dtype=dtype)]))
    x = a.clone().requires_grad_()
    T.linalg.det(x).backward()
    assert n == 1 or x.grad.isnan().all()
    T.linalg.lu_factor(a)  # was refused where LAPACK took the NaN for a zero
