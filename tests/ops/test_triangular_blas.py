"""Triangular systems by BLAS: every layout, stacks, zeros on the diagonal, and triangles that are not read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as torch
from fusegrad import blas

rng = np.random.default_rng(5)
LAYOUTS = {
    "rows": lambda a: a,
    "columns": lambda a: np.asfortranarray(a) if a.ndim == 2 else a.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "part of a larger one": lambda a: np.concatenate([a, a], -1)[..., : a.shape[-1]],
    "part, turned": lambda a: (
        np.concatenate([a, a], -2).swapaxes(-1, -2).copy().swapaxes(-1, -2)[..., : a.shape[-2], :]
    ),
    "every second": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "turned around": lambda a: a[..., ::-1, ::-1].copy()[..., ::-1, ::-1],
}


def systems(dtype: type, n: int, lead: tuple[int, ...] = ()) -> np.ndarray:
    return (rng.standard_normal((*lead, n, n)) / n + 2 * np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_triangles_and_units(dtype: type, layout: str) -> None:
    for n, lead, upper, unit in itertools.product((1, 5, 40), ((), (2,), (70,)), (False, True), (False, True)):
        a, b = systems(dtype, n, lead), rng.standard_normal((*lead, n, 3)).astype(dtype)
        triangle = np.triu(a) if upper else np.tril(a)
        if unit:
            triangle[..., range(n), range(n)] = 1
        want = np.linalg.solve(triangle.astype(np.float64), b.astype(np.float64))
        other = np.where(np.tri(n, dtype=bool).T if upper else np.tri(n, dtype=bool), a, np.nan).astype(dtype)
        for given, right in ((a, b), (other, LAYOUTS[layout](b))):
            got = torch.linalg.solve_triangular(
                torch.from_numpy(LAYOUTS[layout](given)), torch.from_numpy(right), upper=upper, unitriangular=unit
            )
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-4 if dtype is np.float32 else 1e-11, atol=1e-5)


def test_the_right_side_is_left_alone() -> None:
    a, b = systems(np.float32, 6), rng.standard_normal((6, 2)).astype(np.float32)
    kept = b.copy()
    torch.linalg.solve_triangular(torch.from_numpy(a), torch.from_numpy(b), upper=True)
    np.testing.assert_array_equal(b, kept)


def test_zero_on_the_diagonal_divides_by_zero() -> None:
    a, b = systems(np.float32, 4), np.ones((4, 1), np.float32)
    a[1, 1] = 0
    got = torch.linalg.solve_triangular(torch.from_numpy(a), torch.from_numpy(b), upper=False).numpy()
    assert np.isfinite(got[0]) and np.isinf(got[1])


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.from_numpy(systems(np.float32, 70)), torch.from_numpy(rng.standard_normal((70, 2)).astype(np.float32))
    want = torch.linalg.solve_triangular(a, b, upper=True).numpy()
    monkeypatch.setattr(blas, "_solver", lambda dtype: None)
    np.testing.assert_allclose(torch.linalg.solve_triangular(a, b, upper=True).numpy(), want, rtol=1e-4, atol=1e-6)


def test_cholesky_reads_the_lower_triangle_alone() -> None:
    a = systems(np.float64, 9)
    a = a @ a.T
    odd = np.where(np.tri(9, dtype=bool), a, np.nan)
    got = torch.linalg.cholesky(torch.from_numpy(odd)).numpy()
    np.testing.assert_allclose(got @ got.T, a)
    assert not np.triu(got, 1).any()


def test_cholesky_refuses_nan() -> None:
    for i, j in ((0, 0), (1, 0), (2, 2)):
        a = np.eye(3)
        a[i, j] = np.nan
        with pytest.raises(torch.linalg.LinAlgError, match="positive-definite"):
            torch.linalg.cholesky(torch.from_numpy(np.stack([np.eye(3), a])))
        assert torch.linalg.cholesky_ex(torch.from_numpy(a))[1].item() > 0
