"""LU decomposition with partial pivoting."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..blas import alone, routine
from ..meta import Meta
from ..op import Sample, function, op
from ..size_values import sym_min
from ._results import named_results
from ._samples import t
from .checks import refuse_where
from .decompositions import _need_matrix
from .linalg import _mT, square, triangular_op
from .matmul import matmul
from .pad import constant_pad
from .shape import cat


def _factor(a: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray, int]:
    """(L and U in one matrix, 0-based row exchanges, 1 + column of the first zero pivot or 0) of one matrix."""
    a = a.copy()
    m, n = a.shape
    swaps, info = np.arange(min(m, n)), 0
    for j in range(min(m, n)):
        p = j + int(np.argmax(np.abs(a[j:, j]))) if pivot else j
        swaps[j] = p
        if a[p, j] == 0:
            info = info or j + 1
            continue
        if p != j:
            a[[j, p]] = a[[p, j]]
        a[j + 1 :, j] /= a[j, j]
        if j + 1 < n:
            a[j + 1 :, j + 1 :] -= np.outer(a[j + 1 :, j], a[j, j + 1 :])
    return a, swaps, info


def _order(swaps: list[int], m: int) -> list[int]:
    """The order of rows that a series of exchanges leads to."""
    order = list(range(m))
    for j, p in enumerate(swaps):
        order[j], order[p] = order[p], order[j]
    return order


@functools.cache
def _lapack(kind: str) -> Any:
    """getrf for arrays of a dtype, with its type of sizes; None for other dtypes and libraries."""
    found = routine({"f": "sgetrf_", "d": "dgetrf_"}[kind]) if kind in "fd" else None
    if found is not None:
        import ctypes

        found[0].argtypes, found[0].restype = [ctypes.c_void_p] * 6, None
    return found


def _factors(a: np.ndarray, pivot: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``_factor`` of all matrices of a stack [s, m, n]: by LAPACK where it can be had."""
    s, m, n = a.shape
    k = min(m, n)
    if not pivot or not k or (found := _lapack(a.dtype.char)) is None:
        parts = [_factor(x, pivot) for x in a]
        swaps = np.array([p[1] for p in parts], np.int64).reshape(s, k)
        return np.array([p[0] for p in parts], a.dtype).reshape(a.shape), swaps, np.array([p[2] for p in parts], int)
    import ctypes

    f, size = found
    both = np.array(a.swapaxes(-1, -2), order="C")  # column after column, as Fortran wants it
    pivots, info = np.zeros((s, k), np.dtype(size)), np.zeros(s, np.dtype(size))
    numbers = [size(m), size(n), size(m)]
    rows, columns, lead = [ctypes.addressof(v) for v in numbers]
    at, swap, bad = both.ctypes.data, pivots.ctypes.data, info.ctypes.data
    with alone(k * m * n):
        for i in range(s):
            f(rows, columns, at + i * both[0].nbytes, lead, swap + i * pivots[0].nbytes, bad + i * info.itemsize)
    for i in info.nonzero()[0]:
        if np.isnan(a[i]).any():  # LAPACK takes it for a pivot of zero
            both[i], info[i] = np.nan, 0
    return both.swapaxes(-1, -2), pivots - 1, info


@functools.lru_cache(maxsize=8)
def _triangles(m: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the elements of L but for its diagonal are, and those of U."""
    k = min(m, n)
    return np.tri(m, k, -1, dtype=bool), ~np.tri(k, n, -1, dtype=bool)


@op("lu_parts(A: T, pivot: bool = True)", kind="extern", n_out=5, method=False, function=False)
class lu_op:
    """P (float permutation matrix), L, U, pivots (int32, from 1) and info (int32) with A = P L U."""

    def kernel(a, pivot=True):
        *batch, m, n = a.shape
        k, s = min(m, n), math.prod(batch)
        with np.errstate(all="ignore"):
            both, swaps, info = _factors(a.reshape(s, m, n), pivot)
        p, low, up = np.zeros((s, m, m), a.dtype), np.zeros((s, m, k), a.dtype), np.zeros((s, k, n), a.dtype)
        below, above = _triangles(m, n)
        np.copyto(low, both[..., :k], where=below)
        low[..., range(k), range(k)] = 1
        np.copyto(up, both[..., :k, :], where=above)
        order = [_order(x, m) for x in swaps.tolist()]
        if s == 1:
            p[0][order[0], range(m)] = 1
        else:
            p[np.arange(s)[:, None], np.array(order, np.int64).reshape(s, m), np.arange(m)] = 1
        parts = p, low, up, (swaps + 1).astype(np.int32), info.astype(np.int32)
        return tuple([x.reshape((*batch, *x.shape[1:])) for x in parts])

    def meta(A, pivot=True):
        m, n = A.shape[-2:]
        k, batch = sym_min(m, n), A.shape[:-2]
        d = A.dtype
        return (Meta((*batch, m, m), d), Meta((*batch, m, k), d), Meta((*batch, k, n), d), Meta((*batch, k), dt.int32),
                Meta(batch, dt.int32))  # fmt: skip

    def vjp(g1, g2, out0, out1, out2):
        return matmul(out0, _grad(g1, g2, out1, out2))

    def samples():
        yield Sample(t(3, 3))
        yield Sample(t(4, 2))
        yield Sample(t(2, 4))


def _grad(gl: Any, gu: Any, low: Any, up: Any) -> Any:
    """P^T gA. Square: L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T; the rest of a tall L or a wide U goes along."""
    m, n = low.shape[-2], up.shape[-1]
    k = low.shape[-1]
    l1, gl1 = low.narrow(-2, 0, k), gl.narrow(-2, 0, k)
    u1, gu1 = up.narrow(-1, 0, k), gu.narrow(-1, 0, k)
    left, right = matmul(_mT(l1), gl1), matmul(gu1, _mT(u1))
    if n > k:
        left = left - matmul(gu.narrow(-1, k, n - k), _mT(up.narrow(-1, k, n - k)))
    if m > k:
        right = right - matmul(_mT(low.narrow(-2, k, m - k)), gl.narrow(-2, k, m - k))
    core = left.tril(-1) + right.triu()
    if m > k:  # rows below
        top = triangular_op(_mT(l1), core, True, True)
        return _mT(triangular_op(u1, _mT(cat([top, gl.narrow(-2, k, m - k)], -2)), True))
    first = _mT(triangular_op(u1, _mT(core), True))
    if n > k:
        first = cat([first, gu.narrow(-1, k, n - k)], -1)
    return triangular_op(_mT(l1), first, True, True)


LuResult = named_results("linalg_lu", ["P", "L", "U"])
LuFactor = named_results("linalg_lu_factor", ["LU", "pivots"])
LuFactorEx = named_results("linalg_lu_factor_ex", ["LU", "pivots", "info"])


@function("linalg.lu(A: T, pivot: bool)")
def lu(A: Any, *, pivot: bool = True) -> Any:
    """(P, L, U) with A = P L U."""
    _need_matrix("linalg.lu", A)
    p, low, up, _, _ = lu_op(A, pivot)
    return LuResult(p.detach() if pivot else p.detach().new_empty((0,)), low, up)


def _packed(low: Any, up: Any) -> Any:
    """L without its unit diagonal, and U, in one matrix."""
    m, n, k = low.shape[-2], up.shape[-1], low.shape[-1]
    low = low.tril(-1)
    if n > k:
        low = constant_pad(low, (0, n - k))
    return low + (constant_pad(up, (0, 0, 0, m - k)) if m > k else up)


@function("linalg.lu_factor_ex(A: T, pivot: bool, check_errors: bool)")
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """(LU in one matrix, pivots, info): info is the number of the first zero pivot, or 0."""
    _need_matrix("linalg.lu_factor_ex", A)
    _, low, up, pivots, info = lu_op(A, pivot)
    if check_errors:
        refuse_where(lambda i: i != 0, info, "linalg.lu_factor_ex: U is singular", "LinAlgError")
    return LuFactorEx(_packed(low, up), pivots, info)


@function("linalg.lu_factor(A: T, pivot: bool)", method=False)
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """(LU in one matrix, pivots). LinAlgError if U is singular."""
    _need_matrix("linalg.lu_factor", A)
    _, low, up, pivots, info = lu_op(A, pivot)
    singular = "linalg.lu_factor: U is singular: its diagonal holds a zero"
    refuse_where(lambda i: i != 0, info, singular, "LinAlgError")
    return LuFactor(_packed(low, up), pivots)


@function("linalg.lu_solve(LU: T, pivots: T, B: T, left: bool, adjoint: bool)")
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X with A X = B (X A = B; A^T for ``adjoint``), from ``lu_factor``."""
    square("linalg.lu_solve", LU)
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU and B to have the same dtype, but found {LU.dtype} and {B.dtype}"
        )
    if pivots.dtype is not dt.int32:
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type int32")
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if B.ndim < 2 or B.shape[-2 if left else -1] != LU.shape[-1]:
        raise RuntimeError(f"linalg.lu_solve: Incompatible shapes of A and B: {list(LU.shape)} and {list(B.shape)}")
    if not left:
        return _mT(lu_solve(LU, pivots, _mT(B), adjoint=not adjoint))
    p = permutation_op(pivots, LU.dtype)
    if adjoint:  # A^T = U^T L^T P^T
        y = triangular_op(_mT(LU), B, False)
        return matmul(p, triangular_op(_mT(LU), y, True, True))
    y = triangular_op(LU, matmul(_mT(p), B), False, True)
    return triangular_op(LU, y, True)


@op("_permutation(pivots: T, dtype: dtype)", kind="extern", promote="none", method=False, function=False)
class permutation_op:
    """P of an LU decomposition as a float matrix, from its exchanges of rows (counted from 1)."""

    nondiff = True

    def kernel(pivots, dtype):
        n = pivots.shape[-1]
        p = np.zeros((*pivots.shape, n), dtype.np)
        for i in np.ndindex(*pivots.shape[:-1]):
            p[i][_order((pivots[i] - 1).tolist(), n), np.arange(n)] = 1
        return p

    def meta(m, dtype):
        return Meta((*m.shape, m.shape[-1]), dtype)

    def samples():
        yield Sample(np.array([[2, 2, 3], [3, 3, 3]], np.int32), dt.float64, grad=False)
