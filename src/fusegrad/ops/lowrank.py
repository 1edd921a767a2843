"""Factors of matrices from few products: `svd_lowrank`, `pca_lowrank`; older names of LU functions."""

from __future__ import annotations

from typing import Any

import fusegrad

from ..op import function
from ..tensor import Tensor


def _basis(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """An orthonormal basis that nearly holds the range of A - M (Halko, Martinsson and Tropp, 2009)."""

    def times(x: Tensor, turned: bool = False) -> Tensor:
        a = A.mT if turned else A
        return a @ x if M is None else a @ x - (M.mT if turned else M) @ x

    start = fusegrad.randn((A.shape[-1], q), dtype=A.dtype)
    basis = fusegrad.linalg.qr(times(start))[0]
    for _ in range(niter):
        basis = fusegrad.linalg.qr(times(basis, True))[0]
        basis = fusegrad.linalg.qr(times(basis))[0]
    return basis


@function("svd_lowrank(A: T, q: int?, niter: int?)", method=False)
def svd_lowrank(A: Tensor, q: Any = 6, niter: Any = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of the q largest singular values of A - M. ValueError for a q beyond the sizes of A."""
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if M is not None:
        M = M.expand(A.shape)
    if m < n:
        v, s, u = svd_lowrank(A.mT, q, niter, None if M is None else M.mT)
        return u, s, v
    basis = _basis(A, q, 2 if niter is None else niter, M)
    small = basis.mT @ A if M is None else basis.mT @ A - basis.mT @ M
    u, s, vh = fusegrad.linalg.svd(small, full_matrices=False)
    return basis @ u, s, vh.mT


@function("pca_lowrank(A: T, q: int?, center: bool, niter: int)", method=False)
def pca_lowrank(A: Tensor, q: Any = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V): the q main directions V of the rows of A, less their mean if `center`. q is 6 at most by default."""
    m, n = A.shape[-2:]
    q = min(6, m, n) if q is None else q
    if not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


@function("lu_solve(b: T, LU_data: T, LU_pivots: T)")
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """`linalg.lu_solve` with its arguments in the older order."""
    return fusegrad.linalg.lu_solve(LU_data, LU_pivots, b)


@function("lu_unpack(LU_data: T, LU_pivots: T, unpack_data: bool, unpack_pivots: bool)", method=False)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """(P, L, U) of what `linalg.lu_factor` gives; empty tensors for what is not asked for."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    p = lower = upper = LU_data.new_empty(0)
    if unpack_data:
        lower = LU_data[..., :k].tril(-1) + fusegrad.eye(m, k, dtype=LU_data.dtype)
        upper = LU_data[..., :k, :].triu()
    if unpack_pivots:
        order = fusegrad.arange(m).expand((*LU_pivots.shape[:-1], m)).reshape(-1, m).clone()
        rows = fusegrad.arange(order.shape[0])
        for i, to in enumerate((LU_pivots.reshape(-1, LU_pivots.shape[-1]) - 1).long().unbind(-1)):
            here, there = order[:, i].clone(), order[rows, to]
            order[:, i] = there
            order[rows, to] = here
        p = fusegrad.nn.functional.one_hot(order, m).to(LU_data.dtype).mT.reshape((*LU_pivots.shape[:-1], m, m))
    return p, lower, upper


@function("lu(A: T, pivot: bool, get_infos: bool)")
def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> tuple:
    """(LU, pivots), with `get_infos` also whether it failed: the older form of `linalg.lu_factor_ex`."""
    factors, pivots, infos = fusegrad.linalg.lu_factor_ex(A, pivot=pivot)
    return (factors, pivots, infos) if get_infos else (factors, pivots)
