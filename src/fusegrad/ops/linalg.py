"""Linear algebra: inverse, solve, Cholesky. Kernels are LAPACK through numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..blas import substitute
from ..errors import LinAlgError
from ..meta import Meta, broadcast_shapes
from ..op import Sample, function, op
from ._results import named_results
from ._samples import t
from .matmul import matmul


def _mT(x: Any) -> Any:
    return x.transpose(-2, -1)


def square(name: str, m: Any) -> None:
    """RuntimeError unless batches of square float matrices (works on arrays and Metas)."""
    if m.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if m.shape[-1] != m.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {m.shape[-2]} by {m.shape[-1]} matrices"
        )
    need_float(name, m)


def need_float(name: str, m: Any) -> None:
    d = m.dtype if isinstance(m.dtype, dt.dtype) else dt.FROM_NUMPY[m.dtype]
    if not d.is_floating_point:
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {d.name}")


def _lapack(name: str, fn: Any, *args: Any, **kw: Any) -> Any:
    """Run a numpy routine; its LinAlgError becomes ours."""
    try:
        with np.errstate(all="ignore"):
            return fn(*args, **kw)
    except np.linalg.LinAlgError as e:
        raise LinAlgError(f"{name}: {e}") from None


def lapack_lu(name: str, fn: Any, a: np.ndarray, *more: np.ndarray) -> np.ndarray:
    """``fn(a, *more)``, which factors square matrices. All NaN for a matrix that holds one: LAPACK may take a NaN for a
    pivot of zero, or leave parts of the result finite.
    """
    failed = out = None
    try:
        out = _lapack(name, fn, a, *more)
        if not np.isnan(np.add.reduce(out, None)):
            return out
    except LinAlgError as e:
        failed = e
    spoilt = np.isnan(a).any((-2, -1), keepdims=True)
    if failed is not None:
        if not spoilt.any():
            raise failed
        out = _lapack(name, fn, np.where(spoilt, np.eye(a.shape[-1], dtype=a.dtype), a), *more)
    return np.where(spoilt, a.dtype.type(np.nan), out)


def lapack_svd(name: str, a: np.ndarray, full_matrices: bool) -> tuple:
    """Singular values and vectors of finite matrices; NaN for one with infinities, on which LAPACK may never come to an
    end. LinAlgError for a NaN.
    """
    bad = ~np.isfinite(a).all((-2, -1))
    if not bad.any():
        return tuple(_lapack(name, np.linalg.svd, a, full_matrices))
    if np.isnan(a).any():
        raise LinAlgError(
            f"{name}: The algorithm failed to converge because the input matrix contained non-finite values."
        )
    parts = _lapack(name, np.linalg.svd, np.where(bad[..., None, None], 0, a), full_matrices)
    lost = [bad.reshape(bad.shape + (1,) * (x.ndim - bad.ndim)) for x in parts]
    return tuple(np.where(b, a.dtype.type(np.nan), x) for b, x in zip(lost, parts, strict=True))


def _well(*shape: int, seed: int = 0) -> np.ndarray:
    """A well-conditioned square sample."""
    return t(*shape, seed=seed) + 3 * np.eye(shape[-1])


# ---- inverse and solve


@op("linalg.inv(A: T)", kind="extern")
class inv_op:
    """Inverse of (batches of) square matrices. LinAlgError (a RuntimeError) for a singular one."""

    def kernel(a):
        square("linalg.inv", a)
        if a.size == 0:
            return a.copy()
        try:
            return lapack_lu("linalg.inv", np.linalg.inv, a)
        except LinAlgError:
            raise LinAlgError(
                "linalg.inv: The diagonal element is zero, the inversion could not be completed because the input "
                "matrix is singular."
            ) from None

    def meta(m):
        square("linalg.inv", m)
        return Meta(m.shape, m.dtype)

    def vjp(g, out):
        return -matmul(_mT(out), matmul(g, _mT(out)))

    def ref(a):
        return np.linalg.inv(a)

    def samples():
        yield Sample(_well(3, 3))
        yield Sample(_well(2, 3, 3))

    def errors():
        yield (t(2, 3),), {}, RuntimeError, "square"


@function("inverse(input: T)")
def inverse(input: Any) -> Any:
    """Inverse of square matrices."""
    return inv_op(input)


def _solve_shapes(name: str, a: Any, b: Any) -> bool:
    """Checks; returns whether b is a batch of vectors."""
    square(name, a)
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: Expected A and B to have the same dtype")
    vector = b.ndim == 1 or (a.ndim - 1 == b.ndim and tuple(b.shape) == tuple(a.shape[:-1]))
    rows = b.shape[-1] if vector else b.shape[-2]
    if rows != a.shape[-1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation AX = B ({list(a.shape)} and {list(b.shape)})"
        )
    return vector


@op("solve_matrix(A: T, B: T)", kind="extern", method=False, function=False)
class solve_op:
    """X with A X = B for batches of matrices."""

    def kernel(a, b):
        if a.size == 0 or b.size == 0:
            return np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], a.dtype)
        try:
            return lapack_lu("linalg.solve", np.linalg.solve, a, b)
        except LinAlgError:
            raise LinAlgError("linalg.solve: The solver failed because the input matrix is singular.") from None

    def meta(a, b):
        return Meta((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), a.dtype)

    def vjp(g, A, out, need):
        gb = solve_op(_mT(A), g)
        return (-matmul(gb, _mT(out)) if need[0] else None), gb

    def ref(a, b):
        return np.linalg.solve(a, b)

    def samples():
        yield Sample(_well(3, 3), t(3, 2))
        yield Sample(_well(2, 3, 3), t(3, 2))


@function("linalg.solve(A: T, B: T, left: bool)")
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X with A X = B (or X A = B with ``left=False``); B may be a batch of vectors. LinAlgError for singular A."""
    if not left:
        _solve_shapes_right(A, B)
        if B.ndim == 1 or (A.ndim - 1 == B.ndim and tuple(B.shape) == tuple(A.shape[:-1])):
            return solve_op(_mT(A), B.unsqueeze(-1)).squeeze(-1)
        return _mT(solve_op(_mT(A), _mT(B)))
    vector = _solve_shapes("linalg.solve", A, B)
    return solve_op(A, B.unsqueeze(-1)).squeeze(-1) if vector else solve_op(A, B)


def _solve_shapes_right(A: Any, B: Any) -> None:
    square("linalg.solve", A)
    if A.dtype is not B.dtype:
        raise RuntimeError("linalg.solve: Expected A and B to have the same dtype")
    if B.shape[-1] != A.shape[-1]:
        raise RuntimeError("linalg.solve: Incompatible shapes of A and B for the equation XA = B")


def _substitute(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """Solve triangular systems: by BLAS, or by blocks with LAPACK on those of the diagonal."""
    n, block = a.shape[-1], 64
    x = np.array(np.broadcast_to(b, np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:]), order="C")
    count = x.size // (n * x.shape[-1])
    if count >= 64 and n < 32:
        return _substitute_stack(np.broadcast_to(a, (*x.shape[:-2], n, n)), x, upper, unit)
    many = count > 4 and n < 32  # numpy has a loop for stacks
    if not many and (unit or np.diagonal(a, 0, -2, -1).all()):
        wide = np.broadcast_to(a, (*x.shape[:-2], n, n))
        if substitute(wide, x, upper, unit):
            return x
    starts = range(0, n, block)
    for s in reversed(starts) if upper else starts:
        e = min(s + block, n)
        d = np.triu(a[..., s:e, s:e]) if upper else np.tril(a[..., s:e, s:e])
        if unit:
            i = np.arange(e - s)
            d[..., i, i] = 1
        if upper and e < n:
            x[..., s:e, :] -= a[..., s:e, e:] @ x[..., e:, :]
        elif not upper and s:
            x[..., s:e, :] -= a[..., s:e, :s] @ x[..., :s, :]
        i = np.arange(e - s)
        if (d[..., i, i] == 0).any():
            x[..., s:e, :] = _substitute_rows(d, x[..., s:e, :], upper)
        else:
            x[..., s:e, :] = np.linalg.solve(d, x[..., s:e, :])
    return x


def _substitute_stack(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """Many small systems: row by row, each row of all of them at once."""
    n = a.shape[-1]
    d = np.ascontiguousarray(np.moveaxis(a, (-2, -1), (0, 1)))[:, :, None]
    x = np.ascontiguousarray(np.moveaxis(b, (-2, -1), (0, 1)))
    with np.errstate(all="ignore"):
        for i in reversed(range(n)) if upper else range(n):
            rest = slice(i + 1, n) if upper else slice(0, i)
            if x[rest].size:
                x[i] -= (d[i, rest] * x[rest]).sum(0)
            if not unit:
                x[i] /= d[i, i]
    return np.ascontiguousarray(np.moveaxis(x, (0, 1), (-2, -1)))


def _substitute_rows(d: np.ndarray, b: np.ndarray, upper: bool) -> np.ndarray:
    """Row by row, where a zero on the diagonal must give infinities and NaN as division does."""
    n, x = d.shape[-1], np.array(np.broadcast_to(b, np.broadcast_shapes(d.shape[:-2], b.shape[:-2]) + b.shape[-2:]))
    with np.errstate(all="ignore"):
        for i in reversed(range(n)) if upper else range(n):
            rest = slice(i + 1, n) if upper else slice(0, i)
            x[..., i, :] = (x[..., i, :] - (d[..., i, rest][..., None] * x[..., rest, :]).sum(-2)) / d[..., i, i][
                ..., None
            ]
    return x


@op(
    "triangular_solve_matrix(A: T, B: T, upper: bool, unitriangular: bool = False)",
    kind="extern",
    method=False,
    function=False,
)
class triangular_op:
    """X with A X = B where only a triangle of A is read."""

    def kernel(a, b, upper, unitriangular=False):
        if a.ndim == b.ndim == 2 and b.size and (unitriangular or a.diagonal().all()):
            x = b.copy("C")
            if substitute(a, x, upper, unitriangular):
                return x
        if b.size == 0 or a.size == 0:
            return np.zeros(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]) + b.shape[-2:], a.dtype)
        return _lapack("linalg.solve_triangular", _substitute, a, b, upper, unitriangular)

    def meta(a, b, upper, unitriangular=False):
        return Meta((*broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), a.dtype)

    def vjp(g, A, out, upper, unitriangular, need):
        gb = triangular_op(_mT(A), g, not upper, unitriangular)
        ga = None
        if need[0]:
            ga = -matmul(gb, _mT(out))
            k = 1 if unitriangular else 0
            ga = ga.triu(k) if upper else ga.tril(-k)
        return ga, gb

    def ref(a, b, upper, unitriangular=False):
        a = np.triu(a) if upper else np.tril(a)
        if unitriangular:
            a = a - np.apply_along_axis(np.diag, -1, np.diagonal(a, 0, -2, -1)) + np.eye(a.shape[-1])
        return np.linalg.solve(a, b)

    def samples():
        yield Sample(_well(3, 3), t(3, 2), True)
        yield Sample(_well(3, 3), t(3, 2), False, True)


@function("linalg.solve_triangular(A: T, B: T, upper: bool, left: bool, unitriangular: bool)")
def solve_triangular(A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    """X with A X = B (X A = B with ``left=False``) for triangular A; the other triangle is not read."""
    square("linalg.solve_triangular", A)
    if B.ndim < 2:
        raise RuntimeError("linalg.solve_triangular: The input tensor B must have at least 2 dimensions.")
    if A.dtype is not B.dtype:
        raise RuntimeError("linalg.solve_triangular: Expected A and B to have the same dtype")
    if B.shape[-2 if left else -1] != A.shape[-1]:
        raise RuntimeError(
            "linalg.solve_triangular: Incompatible shapes of A and B for the equation "
            f"{'AX' if left else 'XA'} = B ({list(A.shape)} and {list(B.shape)})"
        )
    if left:
        return triangular_op(A, B, upper, unitriangular)
    return _mT(triangular_op(_mT(A), _mT(B), not upper, unitriangular))


TriangularSolve = named_results("triangular_solve", ["solution", "cloned_coefficient"])


@function("triangular_solve(input: T, A: T, upper: bool, transpose: bool, unitriangular: bool)")
def triangular_solve(
    input: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """(X, copy of A) with A X = input for triangular A."""
    a = _mT(A) if transpose else A
    x = solve_triangular(a, input, upper=upper != transpose, unitriangular=unitriangular)
    return TriangularSolve(x, A.expand((*x.shape[:-2], *A.shape[-2:])).clone())


# ---- decompositions


@op("cholesky_lower(A: T)", kind="extern", method=False, function=False)
class cholesky_op:
    """Lower triangular L with L L^T = A; only the lower triangle of A is read."""

    def kernel(a):
        square("linalg.cholesky", a)
        if a.size == 0:
            return a.copy()
        try:
            with np.errstate(all="ignore"):
                low = np.linalg.cholesky(a)  # reads the lower triangle alone
            if np.isnan(low[..., -1, -1]).any():  # a NaN reaches the last place, and LAPACK may go on with it
                raise np.linalg.LinAlgError
            return low
        except np.linalg.LinAlgError:
            raise LinAlgError(
                "linalg.cholesky: The factorization could not be completed because the input is not positive-definite."
            ) from None

    def meta(m):
        square("linalg.cholesky", m)
        return Meta(m.shape, m.dtype)

    def vjp(g, out):
        # dA = L^-T Phi(L^T dL) L^-1, symmetrised; Phi: lower triangle with half the diagonal (Murray 2016, eq. 8)
        p = matmul(_mT(out), g).tril()
        p = p - p.diagonal(0, -2, -1).diag_embed() * 0.5
        left = triangular_op(_mT(out), p, True)
        s = _mT(triangular_op(_mT(out), _mT(left), True))
        return (s + _mT(s)) * 0.5

    def ref(a):
        return np.linalg.cholesky(a)

    def samples():
        a = t(3, 3)
        yield Sample(a @ a.T + np.eye(3), grad=False)  # the gradient is that of symmetric changes


@function("linalg.cholesky(A: T, upper: bool)")
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """Cholesky factor of symmetric positive-definite matrices (lower, or upper triangular)."""
    square("linalg.cholesky", A)
    return _mT(cholesky_op(_mT(A))) if upper else cholesky_op(A)


@function("cholesky(input: T, upper: bool)")
def cholesky_old(input: Any, upper: bool = False) -> Any:
    """Cholesky factor (older name)."""
    return cholesky(input, upper=upper)


@op("cholesky_solve_lower(B: T, L: T)", kind="extern", method=False, function=False)
class cholesky_solve_op:
    """X with (L L^T) X = B for lower triangular L. The gradient is that of the product, for the whole of L."""

    def kernel(b, low):
        return triangular_op.kernel(np.swapaxes(low, -2, -1), triangular_op.kernel(low, b, False), True)

    def meta(b, low):
        return Meta((*broadcast_shapes(b.shape[:-2], low.shape[:-2]), *b.shape[-2:]), b.dtype)

    def vjp(g, L, out, need):
        gb = cholesky_solve_op(g, L)
        half = matmul(gb, _mT(out))
        return gb, (-matmul(half + _mT(half), L) if need[1] else None)

    def ref(b, low):
        return np.linalg.solve(np.tril(low) @ np.swapaxes(np.tril(low), -2, -1), b)

    def samples():
        yield Sample(t(3, 2), np.tril(_well(3, 3)), grad=False)


@op("cholesky_inverse_lower(L: T)", kind="extern", method=False, function=False)
class cholesky_inverse_op:
    """Inverse of L L^T for lower triangular L. The gradient is that of the product, for the whole of L."""

    def kernel(low):
        x = triangular_op.kernel(low, np.broadcast_to(np.eye(low.shape[-1], dtype=low.dtype), low.shape), False)
        return np.swapaxes(x, -2, -1) @ x

    def meta(m):
        return Meta(m.shape, m.dtype)

    def vjp(g, L, out):
        return -matmul(matmul(out, matmul(g + _mT(g), out)), L)

    def ref(low):
        return np.linalg.inv(np.tril(low) @ np.swapaxes(np.tril(low), -2, -1))

    def samples():
        yield Sample(np.tril(_well(3, 3)), grad=False)


@function("cholesky_solve(B: T, L: T, upper: bool)")
def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """X with A X = B, from the Cholesky factor of A."""
    if B.ndim < 2 or L.ndim < 2:
        raise RuntimeError(f"b should have at least 2 dimensions, but has {min(B.ndim, L.ndim)} dimensions instead")
    if L.shape[-1] != L.shape[-2]:
        raise RuntimeError(
            f"cholesky_solve: A must be batches of square matrices, but they are {L.shape[-2]} by {L.shape[-1]} "
            "matrices"
        )
    if B.shape[-2] != L.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for cholesky_solve: each A matrix is {L.shape[-1]} by {L.shape[-1]} but "
            f"each b matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if B.dtype is not L.dtype:
        raise RuntimeError("cholesky_solve: Expected b and A to have the same dtype")
    return cholesky_solve_op(B, _mT(L) if upper else L)


@function("cholesky_inverse(L: T, upper: bool)")
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """Inverse of A, from its Cholesky factor."""
    square("cholesky_inverse", L)
    return cholesky_inverse_op(_mT(L) if upper else L)
