"""Determinants, their logarithms and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import LinAlgError
from ..meta import Meta
from ..op import Sample, function, late_function, op
from ._results import named_results
from ._samples import t
from .linalg import _lapack, _mT, _well, lapack_lu, square
from .matmul import matmul

cat = late_function("cat")


@op("inv_inf(A: T)", kind="extern", method=False, function=False)
class inverse_op:
    """Inverse of square matrices; for a singular one the cofactors over zero: infinities, and NaN where they are 0."""

    def kernel(a):
        if a.size == 0:
            return a.copy()
        try:
            return lapack_lu("linalg.inv", np.linalg.inv, a)
        except LinAlgError:
            out = np.empty_like(a)
            for i in np.ndindex(a.shape[:-2]):
                if np.isnan(a[i]).any():
                    out[i] = np.nan
                    continue
                try:
                    out[i] = np.linalg.inv(a[i])
                except np.linalg.LinAlgError:
                    with np.errstate(all="ignore"):
                        out[i] = _cofactors(a[i], 0.0).T / a.dtype.type(
                            0
                        )  # by the singular values, whatever the condition
            return out

    def meta(m):
        return Meta(m.shape, m.dtype)

    def vjp(g, out):
        return -matmul(_mT(out), matmul(g, _mT(out)))

    def ref(a):
        return np.linalg.inv(a)

    def samples():
        yield Sample(_well(3, 3))
        yield Sample(_well(2, 3, 3))


@op("slogdet_pair(A: T)", kind="extern", n_out=2, method=False, function=False)
class slogdet_op:
    """(sign, log|det|) of square matrices."""

    def kernel(a):
        square("linalg.slogdet", a)
        sign, log = _lapack("linalg.slogdet", np.linalg.slogdet, a)
        sign, log = np.asarray(sign, a.dtype), np.asarray(log, a.dtype)
        if not np.isfinite(log).all():
            lost = np.isnan(log) | (np.isinf(log) & np.isnan(a).any((-2, -1)))
            sign, log = np.where(lost, a.dtype.type(0), sign), np.where(lost, a.dtype.type(np.nan), log)
        return sign, log

    def meta(m):
        square("linalg.slogdet", m)
        return Meta(m.shape[:-2], m.dtype), Meta(m.shape[:-2], m.dtype)

    def vjp(g1, A):
        return g1.unsqueeze(-1).unsqueeze(-1) * _mT(inverse_op(A))

    def ref(a):
        return tuple(np.linalg.slogdet(a))

    def samples():
        yield Sample(_well(3, 3))


SlogdetResult = named_results("linalg_slogdet", ["sign", "logabsdet"])
OldSlogdetResult = named_results("slogdet", ["sign", "logabsdet"])


@function("linalg.slogdet(A: T)", method=False)
def slogdet(A: Any) -> Any:
    """(sign, logabsdet) of the determinants of square matrices."""
    return SlogdetResult(*slogdet_op(A))


@function("slogdet(input: T)", method=True)
def slogdet_old(input: Any) -> Any:
    """(sign, logabsdet) of the determinants of square matrices (older name)."""
    return OldSlogdetResult(*slogdet_op(input))


@op("linalg.det(A: T)", kind="extern", names=("det",), method=True)
class det_op:
    """Determinants of square matrices. The gradient is exact for singular matrices, too."""

    def kernel(a):
        square("linalg.det", a)
        out = np.asarray(_lapack("linalg.det", np.linalg.det, a), a.dtype)
        if not out.all():  # LAPACK takes a NaN for a pivot of zero
            out = np.where((out == 0) & np.isnan(a).any((-2, -1)), a.dtype.type(np.nan), out)
        return out

    def meta(m):
        square("linalg.det", m)
        return Meta(m.shape[:-2], m.dtype)

    def vjp(g, A):
        return g.unsqueeze(-1).unsqueeze(-1) * cofactors(A)

    def ref(a):
        return np.linalg.det(a)

    def samples():
        yield Sample(_well(3, 3))
        yield Sample(_well(2, 2, 2))


def cofactors(A: Any) -> Any:
    """The matrix of cofactors: no division, so singular matrices are no exception."""
    n = A.shape[-1]
    if n == 0:
        return A
    if n == 1:
        return A.new_ones(A.shape)
    if type(n) is int and n <= 3:
        return _small_cofactors(A, n)
    return cofactors_op(A)


def _small_cofactors(A: Any, n: int) -> Any:
    """Of 2 and 3 rows, as products of elements; as for more rows, a matrix that is not finite has NaN everywhere."""
    spoilt = (A * 0).sum((-2, -1), keepdim=True)
    if n == 2:
        signs = A.new_tensor([[1, -1], [-1, 1]])
        return A.flip((-2, -1)) * signs + spoilt
    twice = cat([A, A], -1)
    twice = cat([twice, twice], -2)  # the cofactor at (i, j) is that of the rows and columns after them, cyclically

    def at(i: int, j: int) -> Any:
        return twice.narrow(-2, i, 3).narrow(-1, j, 3)

    return at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1) + spoilt


def _frame(a: np.ndarray) -> tuple:
    """(U, s, V^T, det(U) det(V)) of matrices that are finite."""
    u, s, vh = np.linalg.svd(a)
    return u, s, vh, np.linalg.det(u) * np.linalg.det(vh)


def _where_finite(fn: Any, a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """``fn(a, *more)``, with NaN in place of matrices for which ``a`` is not finite."""
    bad = ~np.isfinite(a).all((-2, -1), keepdims=True)
    with np.errstate(all="ignore"):
        out = fn(np.where(bad, 0, a).astype(np.float64), *more).astype(a.dtype)
    return np.where(bad, a.dtype.type(np.nan), out) if bad.any() else out


def _cofactors(a: np.ndarray, limit: float) -> np.ndarray:
    """det(U) det(V) U diag(products of the other singular values) V^T; det(A) A^-T, which is quicker, if all matrices
    have condition numbers below ``limit``."""
    try:
        inverse, det = np.linalg.inv(a), np.abs(np.linalg.det(a))
    except np.linalg.LinAlgError:
        det = np.zeros(())
    if det.size and (det > 1e-290).all() and np.isfinite(det).all():
        condition = np.abs(a).sum(-1).max(-1) * np.abs(inverse).sum(-1).max(-1)
        if (condition < limit).all():
            return np.swapaxes(inverse, -1, -2) * np.linalg.det(a)[..., None, None]
    u, s, vh, sign = _frame(a)
    return u * (_products_without(s) * sign[..., None])[..., None, :] @ vh


def _products_without(s: np.ndarray) -> np.ndarray:
    """For each element along the last dimension, the product of the others."""
    one = np.ones_like(s[..., :1])
    before = np.concatenate([one, s[..., :-1]], -1).cumprod(-1)
    after = np.concatenate([one, s[..., :0:-1]], -1).cumprod(-1)[..., ::-1]
    return before * after


def _cofactors_grad(a: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The second derivative of det at ``a`` along ``h``: in the frame of the singular vectors, with p_ij the product of
    the singular values but for i and j, H_kk p_ik summed over k on the diagonal, and -H_ji p_ij elsewhere.
    """
    u, s, vh, sign = _frame(a)
    n = s.shape[-1]
    eye = np.eye(n, dtype=bool)
    p = np.where(eye, 0, _products_without(np.where(eye, 1, s[..., None, :])))
    h = np.swapaxes(u, -2, -1) @ h @ np.swapaxes(vh, -2, -1)
    inner = -np.swapaxes(h, -2, -1) * p
    inner[..., range(n), range(n)] = (p @ np.diagonal(h, 0, -2, -1)[..., None])[..., 0]
    return u @ (inner * sign[..., None, None]) @ vh


@op("cofactors(A: T)", kind="extern", method=False, function=False)
class cofactors_op:
    """Cofactors of square matrices, from their singular values: no division, and equal ones are no exception."""

    def kernel(a):
        return _where_finite(_cofactors, a, 1e6 if a.dtype.itemsize < 8 else 1e3)

    def meta(m):
        return Meta(m.shape, m.dtype)

    def vjp(g, A):
        return cofactors_grad_op(A, g)

    def samples():
        yield Sample(_well(4, 4))
        yield Sample(_well(2, 3, 3))


@op("cofactors_of(A: T, along: T)", kind="extern", method=False, function=False)
class cofactors_grad_op:
    """The derivative of the cofactors of A along a matrix (the same forwards and backwards: they are a gradient)."""

    def kernel(a, along):
        return _where_finite(_cofactors_grad, a, along)

    def meta(m, along):
        return Meta(m.shape, m.dtype)

    def vjp(g, A, along, need):
        return _third(A, along, g) if need[0] else None, cofactors_grad_op(A, g) if need[1] else None

    def samples():
        yield Sample(_well(4, 4), t(4, 4))


def _third(A: Any, g: Any, h: Any) -> Any:
    """The third derivative of det along g and h; by the inverse, so NaN for a singular A."""
    b = _mT(inverse_op(A))

    def trace(x: Any) -> Any:
        return x.sum((-2, -1), keepdim=True)

    def bent(x: Any) -> Any:
        return matmul(matmul(b, _mT(x)), b)

    bg, bh = bent(g), bent(h)
    tg, th = trace(b * g), trace(b * h)
    twice = matmul(bg, matmul(_mT(h), b)) + matmul(bh, matmul(_mT(g), b))
    return det_op(A).unsqueeze(-1).unsqueeze(-1) * ((tg * th - trace(bg * h)) * b - tg * bh - th * bg + twice)


@function("logdet(input: T)")
def logdet(input: Any) -> Any:
    """Logarithm of the determinant: NaN where it is negative, -inf where it is zero."""
    square("logdet", input)
    sign, log = slogdet_op(input)
    return log.masked_fill(sign == -1, float("nan")) if sign._data is None or (sign._data == -1).any() else log
