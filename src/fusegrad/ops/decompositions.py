"""Eigenvalues, singular values and QR."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..meta import Meta
from ..op import Sample, function, late_function, op
from ._results import named_results
from ._samples import t
from .linalg import _lapack, _mT, lapack_svd, need_float, square, triangular_op
from .matmul import matmul

cat = late_function("cat")


def _asked(vectors: tuple, g: Any) -> Any:
    """Which values and vectors a loss asks for, by their cotangents (columns of ``vectors``, and ``g``), where it asks
    for vectors at all. Shape (..., k), bool.
    """
    used = (vectors[0] != 0).any(-2)
    for v in vectors[1:]:
        used = used.logical_or((v != 0).any(-2))
    return used.logical_or((g != 0).logical_and(used.any(-1, keepdim=True)))


def _gaps(w: Any, asked: Any) -> Any:
    """w_j - w_i, by which cotangents of vectors are divided.

    The vectors of equal values are not determined, so a loss that asks for them has no derivative: 0 / NaN. One that
    does not has cotangents of 0 there, which are divided by infinity, as on the diagonal.
    """
    gap = w.unsqueeze(-2) - w.unsqueeze(-1)
    equal = gap == 0
    lost = asked.unsqueeze(-2).logical_or(asked.unsqueeze(-1)).triu(1)
    gap = gap.masked_fill(equal, math.inf)
    return gap.masked_fill(equal.logical_and(lost.logical_or(_mT(lost))), math.nan)


@op("eigh_pair(A: T, UPLO: str = 'L')", kind="extern", n_out=2, method=False, function=False)
class eigh_op:
    """Eigenvalues (ascending) and eigenvectors of symmetric matrices; the lower triangle is read."""

    def kernel(a, UPLO="L"):
        if a.size == 0:
            return np.zeros(a.shape[:-1], a.dtype), a.copy()
        w, v = _lapack("linalg.eigh", np.linalg.eigh, a, UPLO)
        return w, v

    def meta(m, UPLO="L"):
        square("linalg.eigh", m)
        return Meta(m.shape[:-1], m.dtype), Meta(m.shape, m.dtype)

    def vjp(g0, g1, out0, out1):
        vt = _mT(out1)
        gap = _gaps(out0, _asked((g1,), g0))
        inner = matmul(vt, g1) / gap
        full = matmul(out1, matmul(inner + g0.diag_embed(), vt))
        return (full + _mT(full)) * 0.5

    def samples():
        a = t(3, 3)
        yield Sample(a + a.T, grad=False)  # the gradient is that of symmetric changes


EighResult = named_results("linalg_eigh", ["eigenvalues", "eigenvectors"])


@function("linalg.eigh(A: T, UPLO: str)")
def eigh(A: Any, UPLO: str = "L") -> Any:
    """(eigenvalues, eigenvectors) of symmetric matrices, eigenvalues ascending."""
    square("linalg.eigh", A)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return EighResult(*eigh_op(A, UPLO.upper()))


@function("linalg.eigvalsh(A: T, UPLO: str)")
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of symmetric matrices, ascending."""
    return eigh(A, UPLO)[0]


@op("svd_triple(A: T, full_matrices: bool = False)", kind="extern", n_out=3, method=False, function=False)
class svd_op:
    """U, S, V^T with A = U diag(S) V^T, singular values descending."""

    def kernel(a, full_matrices=False):
        m, n = a.shape[-2:]
        k = min(m, n)
        if a.size == 0:
            batch = a.shape[:-2]
            eye = [
                np.array(
                    np.broadcast_to(
                        np.eye(r, r if full_matrices else k, dtype=a.dtype), (*batch, r, r if full_matrices else k)
                    )
                )
                for r in (m, n)
            ]
            return eye[0], np.zeros((*batch, k), a.dtype), np.swapaxes(eye[1], -2, -1)
        return lapack_svd("linalg.svd", a, full_matrices)

    def meta(A, full_matrices=False):
        need_float("linalg.svd", A)
        m, n = A.shape[-2:]
        from ..size_values import sym_min

        k, batch = sym_min(m, n), A.shape[:-2]
        return (
            Meta((*batch, m, m if full_matrices else k), A.dtype),
            Meta((*batch, k), A.dtype),
            Meta((*batch, n if full_matrices else k, n), A.dtype),
        )

    def vjp(g0, g1, g2, out0, out1, out2):
        return _svd_grad(g0, g1, g2, out0, out1, out2)

    def samples():
        yield Sample(t(4, 3))
        yield Sample(t(3, 4))


def _svd_grad(gu: Any, gs: Any, gvh: Any, u: Any, s: Any, vh: Any) -> Any:
    """Gradient of the (reduced) singular value decomposition.

    With E_ij = s_j^2 - s_i^2 off the diagonal: U ((skew(U^T gU) / E) S + S (skew(V^T gV) / E) + diag(gS)) V^T, plus
    what leaves the column spaces. NaN where equal singular values leave vectors undetermined that the loss asks for.
    """
    k = s.shape[-1]
    u, vh = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
    gu, gvh = gu.narrow(-1, 0, k), gvh.narrow(-2, 0, k)
    v, gv = _mT(vh), _mT(gvh)
    m, n = u.shape[-2], v.shape[-2]
    asked = _asked((gu, gv), gs)
    gap = _gaps(s * s, asked)

    def skew(x: Any) -> Any:
        return (x - _mT(x)) / gap

    ugu, vgv = matmul(_mT(u), gu), matmul(vh, gv)
    core = skew(ugu) * s.unsqueeze(-2) + s.unsqueeze(-1) * skew(vgv) + gs.diag_embed()
    out = matmul(u, matmul(core, vh))
    safe = s.masked_fill((s == 0).logical_and(asked.logical_not()), 1).unsqueeze(-2)
    if m > k:
        part = gu / safe
        out = out + matmul(part - matmul(u, matmul(_mT(u), part)), vh)
    if n > k:
        part = gv / safe
        out = out + matmul(u, _mT(part - matmul(v, matmul(vh, part))))
    return out


SvdResult = named_results("linalg_svd", ["U", "S", "Vh"])
OldSvdResult = named_results("svd", ["U", "S", "V"])


def _need_matrix(name: str, A: Any) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    need_float(name, A)


@function("linalg.svd(A: T, full_matrices: bool)")
def svd(A: Any, full_matrices: bool = True, *, driver: Any = None) -> Any:
    """(U, S, Vh) with A = U diag(S) Vh; U and Vh square, or reduced with ``full_matrices=False``."""
    _need_matrix("linalg.svd", A)
    return SvdResult(*svd_op(A, bool(full_matrices)))


@function("svd(input: T, some: bool, compute_uv: bool)")
def svd_old(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """(U, S, V) with input = U diag(S) V^T (older name)."""
    _need_matrix("linalg.svd", input)
    u, s, vh = svd_op(input, not some)
    if not compute_uv:
        m, n = input.shape[-2:]
        return OldSvdResult(input.new_zeros((*input.shape[:-2], m, m)), s, input.new_zeros((*input.shape[:-2], n, n)))
    return OldSvdResult(u, s, _mT(vh))


@function("linalg.svdvals(A: T)")
def svdvals(A: Any, *, driver: Any = None) -> Any:
    """Singular values, descending."""
    _need_matrix("linalg.svdvals", A)
    return svd_op(A, False)[1]


@op("qr_pair(A: T, mode: str = 'reduced')", kind="extern", n_out=2, method=False, function=False)
class qr_op:
    """Q with orthonormal columns and upper triangular R, A = Q R."""

    def kernel(a, mode="reduced"):
        m, n = a.shape[-2:]
        k = m if mode == "complete" else min(m, n)
        if a.size == 0:
            q = np.array(np.broadcast_to(np.eye(m, k, dtype=a.dtype), (*a.shape[:-2], m, k)))
            return q, np.zeros((*a.shape[:-2], k, n), a.dtype)
        if mode == "r":
            return np.zeros((0,), a.dtype), _lapack("linalg.qr", np.linalg.qr, a, "r")
        return tuple(_lapack("linalg.qr", np.linalg.qr, a, mode))

    def meta(A, mode="reduced"):
        from ..size_values import sym_min

        m, n = A.shape[-2:]
        k, batch = m if mode == "complete" else sym_min(m, n), A.shape[:-2]
        return Meta((0,) if mode == "r" else (*batch, m, k), A.dtype), Meta((*batch, k, n), A.dtype)

    def vjp(g0, g1, out0, out1, mode):
        return _qr_grad(g0, g1, out0, out1, mode)

    def samples():
        yield Sample(t(4, 3))
        yield Sample(t(3, 4))


def _half(x: Any) -> Any:
    """Lower triangle with half the diagonal."""
    return x.tril(-1) + x.diagonal(0, -2, -1).diag_embed() * 0.5


def _qr_grad(gq: Any, gr: Any, q: Any, r: Any, mode: str) -> Any:
    """Gradient of a reduced QR (Walter and Lehmann, "Algorithmic differentiation of linear algebra functions")."""
    m, n = q.shape[-2], r.shape[-1]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
            "linalg.qr(A, mode='reduced') if you are going to require its derivatives"
        )
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
    if m >= n:
        w = matmul(r, _mT(gr)) - matmul(_mT(gq), q)
        sym = w.tril() + _mT(w.tril(-1))
        inner = gq + matmul(q, sym)
        return _mT(triangular_op(r, _mT(inner), True))
    # wide: the first m columns are QR of their own, the others R2 = Q^T A2
    r1, r2 = r.narrow(-1, 0, m), r.narrow(-1, m, n - m)
    gr1, gr2 = gr.narrow(-1, 0, m), gr.narrow(-1, m, n - m)
    ga2 = matmul(q, gr2)
    gq = gq + matmul(matmul(q, r2), _mT(gr2))
    w = matmul(r1, _mT(gr1)) - matmul(_mT(gq), q)
    inner = gq + matmul(q, w.tril() + _mT(w.tril(-1)))
    ga1 = _mT(triangular_op(r1, _mT(inner), True))
    return cat([ga1, ga2], -1)


QrResult = named_results("linalg_qr", ["Q", "R"])
OldQrResult = named_results("qr", ["Q", "R"])


@function("linalg.qr(A: T, mode: str)")
def qr(A: Any, mode: str = "reduced") -> Any:
    """(Q, R) with A = Q R; ``mode`` reduced, complete or r (R alone)."""
    _need_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return QrResult(*qr_op(A, mode))


@function("qr(input: T, some: bool)")
def qr_old(input: Any, some: bool = True) -> Any:
    """(Q, R) (older name)."""
    return OldQrResult(*qr(input, "reduced" if some else "complete"))
