"""Linear algebra on top of the decompositions: pseudo-inverse, powers, exponential, rank, least squares."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta
from ..op import Sample, function, late_function, op
from ._results import named_results
from ._samples import t
from .decompositions import _need_matrix, eigh_op, svd_op, svdvals
from .linalg import LinAlgError, _lapack, _mT, cholesky_op, inv_op, lapack_svd, solve, solve_op, square
from .lu import _factor as lu_factor
from .matmul import matmul

cat = late_function("cat")


def _eye(like: Any, n: Any) -> Any:
    return like.new_ones((n,)).diag()


def _tolerance(A: Any, s: Any, atol: Any, rtol: Any) -> Any:
    """max(atol, rtol * largest singular value), with PyTorch's defaults; shape (..., 1)."""
    if rtol is None:
        given = atol is not None and not (not hasattr(atol, "_data") and atol == 0)
        rtol = 0.0 if given else dt.finfo(A.dtype).eps * max(A.shape[-2:])
    top = s.amax(-1, keepdim=True) if s.shape[-1] else s.sum(-1, keepdim=True)
    r = rtol.unsqueeze(-1) if hasattr(rtol, "_data") else rtol
    a = atol.unsqueeze(-1) if hasattr(atol, "_data") else (0.0 if atol is None else atol)
    bound = top * r
    return bound.maximum(a) if hasattr(a, "_data") else bound.clamp(min=a)


@op("pinv_matrix(A: T, tol: T, hermitian: bool = False)", kind="extern", method=False, function=False)
class pinv_op:
    """Pseudo-inverse; singular values up to ``tol`` (..., 1) count as 0; ``hermitian`` reads the lower triangle."""

    def kernel(a, tol, hermitian=False):
        if a.size == 0:
            return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
        if hermitian:
            a = np.tril(a) + np.swapaxes(np.tril(a, -1), -2, -1)
        u, s, vh = lapack_svd("linalg.pinv", a, False)
        inv = np.where(s > tol, 1 / np.where(s > tol, s, 1), 0).astype(a.dtype)
        return np.matmul(np.swapaxes(vh, -2, -1) * inv[..., None, :], np.swapaxes(u, -2, -1))

    def meta(m, tol, hermitian=False):
        return Meta((*m.shape[:-2], m.shape[-1], m.shape[-2]), m.dtype)

    def vjp_A(g, A, out):
        # Golub and Pereyra 1973: d P = -P dA P + P P^T dA^T (I - A P) + (I - P A) dA^T P^T P
        p, gt = out, _mT(g)
        first = -_mT(matmul(matmul(p, gt), p))
        second = matmul(gt - matmul(A, matmul(p, gt)), matmul(p, _mT(p)))
        third = matmul(matmul(_mT(p), p), gt - matmul(matmul(gt, p), A))
        return first + second + third

    def ref(a, tol, hermitian=False):
        return np.linalg.pinv(a)

    def samples():
        yield Sample(t(4, 3), np.zeros((1,)))
        yield Sample(t(3, 4), np.zeros((1,)))


@function("linalg.pinv(A: T, hermitian: bool)")
def pinv(A: Any, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Moore-Penrose inverse; singular values up to max(atol, rtol * largest) count as zero."""
    _need_matrix("linalg.pinv", A)
    rtol = rcond if rcond is not None else rtol
    if hermitian:
        square("linalg.pinv", A)
    s = eigh_op(A.detach())[0].abs() if hermitian else svd_op(A.detach(), False)[1]
    return pinv_op(A, _tolerance(A, s, atol, rtol).to(A.dtype).detach(), hermitian)


@function("pinverse(input: T, rcond: float)")
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Pseudo-inverse (older name)."""
    return pinv(input, rcond)


@function("linalg.matrix_rank(A: T, hermitian: bool)")
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None) -> Any:
    """Number of singular values above max(atol, rtol * largest), int64."""
    _need_matrix("linalg.matrix_rank", A)
    s = (eigh_op(A)[0].abs() if hermitian else svdvals(A)).detach()
    if tol is not None:
        atol, rtol = tol, 0.0
    return (s > _tolerance(A, s, atol, rtol)).sum(-1)


@function("linalg.cond(A: T)")
def cond(A: Any, p: Any = None) -> Any:
    """Condition number in norm ``p`` (2 by default)."""
    from .norms import matrix_norm

    _need_matrix("linalg.cond", A)
    if p is None or p in (2, -2):
        s = svdvals(A)
        if s.shape[-1] == 0:
            return s.sum(-1)
        return s.select(-1, 0) / s.select(-1, -1) if p in (None, 2) else s.select(-1, -1) / s.select(-1, 0)
    square("linalg.cond", A)
    if isinstance(p, str) and p not in ("fro", "nuc"):
        raise RuntimeError(f"linalg.cond: unknown norm {p!r}")
    return matrix_norm(A, p) * matrix_norm(inv_op(A), p)


@function("linalg.matrix_power(A: T, n: int)", names=("matrix_power",), method=True)
def matrix_power(A: Any, n: int) -> Any:
    """Integer powers of square matrices by repeated squaring; negative ones of the inverse."""
    if A.dtype is dt.bool_:
        raise NotImplementedError("linalg.matrix_power: not implemented for bool")
    if A.dtype.category != dt.INT or n < 0:
        square("linalg.matrix_power", A)
    elif A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        square("linalg.matrix_power", A.double())  # words it
    if n == 0:
        return A.masked_fill(A.new_ones((), dtype=dt.bool_), 0) + _eye(A, A.shape[-1])
    if n < 0:
        A, n = inv_op(A), -n
    if n == 1:
        return A.clone()
    out, base = None, A
    while n:
        if n & 1:
            out = base if out is None else matmul(out, base)
        n >>= 1
        if n:
            base = matmul(base, base)
    return out


_PADE13 = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)


def _expm(a: np.ndarray) -> np.ndarray:
    """Scaling and squaring with the order 13 Pade approximant (Higham 2005), in float64."""
    x = a.astype(np.float64)
    norm = np.abs(x).sum(-2).max(-1, initial=0)
    with np.errstate(divide="ignore"):
        k = np.maximum(np.ceil(np.log2(np.where(norm > 0, norm, 1) / 5.371920351148152)), 0)
    k = np.where(np.isfinite(k), k, 0).astype(int)
    x = x / (2.0**k)[..., None, None]
    b, eye = _PADE13, np.eye(a.shape[-1])
    x2 = x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    u = x @ (x6 @ (b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * eye)
    v = x6 @ (b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * eye
    r = np.linalg.solve(v - u, v + u)
    for i in range(int(k.max(initial=0))):
        r = np.where((k > i)[..., None, None], r @ r, r)
    return r.astype(a.dtype)


@op("matrix_exp(input: T)", kind="extern", names=("linalg.matrix_exp",))
class matrix_exp:
    """Exponential of square matrices."""

    def kernel(a):
        square("linalg.matrix_exp", a)
        return a.copy() if a.size == 0 else _lapack("linalg.matrix_exp", _expm, a)

    def meta(m):
        square("linalg.matrix_exp", m)
        return Meta(m.shape, m.dtype)

    def vjp(g, input):
        # the derivative is the upper right block of exp([[A^T, G], [0, A^T]])
        n = input.shape[-1]
        at = _mT(input)
        top, bottom = cat([at, g], -1), cat([at.new_zeros(at.shape), at], -1)
        return matrix_exp(cat([top, bottom], -2)).narrow(-2, 0, n).narrow(-1, n, n)

    def ref(a):
        return _expm(a)

    def samples():
        yield Sample(t(3, 3))
        yield Sample(t(2, 2, 2))


# ---- variants with info codes


InvEx = named_results("linalg_inv_ex", ["inverse", "info"])
CholeskyEx = named_results("linalg_cholesky_ex", ["L", "info"])
SolveEx = named_results("linalg_solve_ex", ["result", "info"])


@op("_order_failed(A: T, positive: bool)", kind="extern", method=False, function=False, nondiff=True)
class order_failed:
    """For each matrix 0, or from 1 on the order of the leading minor that is not positive-definite (``positive``) or of
    the first zero pivot; int32."""

    def kernel(a, positive):
        out = np.zeros(a.shape[:-2], np.int32)
        for i in np.ndindex(out.shape):
            out[i] = _minor_failed(a[i]) if positive else _pivot_failed(a[i])
        return out

    def meta(m, positive):
        return Meta(m.shape[:-2], dt.int32)

    def samples():
        yield Sample(np.array([[1.0, 2.0], [2.0, 4.0]]), False, grad=False)
        yield Sample(np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])]), True, grad=False)


def _pivot_failed(a: np.ndarray) -> int:
    try:
        np.linalg.inv(a)
    except np.linalg.LinAlgError:
        found = lu_factor(np.ascontiguousarray(a), True)[2]
        return found or (0 if np.isnan(a).any() else len(a))  # no exact zero in ours: LAPACK's is the last
    return 0


def _minor_failed(a: np.ndarray) -> int:
    for k in range(1, len(a) + 1):
        try:
            cholesky_op.kernel(a[:k, :k])
        except LinAlgError:
            return k
    return 0


def _attempt(run: Any, A: Any, positive: bool, check_errors: bool, name: str) -> tuple[Any, Any]:
    """(``run(A)``, info): NaN for the matrices that fail. While a graph is captured a failure is an error, info 0."""
    square(name, A)
    if A._data is None:
        return run(A), A.detach().new_zeros(A.shape[:-2], dtype=dt.int32)
    try:
        return run(A), A.detach().new_zeros(A.shape[:-2], dtype=dt.int32)
    except LinAlgError as e:
        if check_errors:
            raise LinAlgError(f"{name}: {str(e).partition(': ')[2]}") from None
    info = order_failed(A.detach(), positive)
    bad = (info > 0)[..., None, None]
    X = run(A.masked_fill(bad, 0.0) + bad * _eye(A, A.shape[-1]))
    return X.masked_fill(bad if X.ndim >= bad.ndim else bad.squeeze(-1), float("nan")), info


@function("linalg.inv_ex(A: T, check_errors: bool)")
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """(inverse, info): info is the number of the first zero pivot of each matrix, or 0."""
    return InvEx(*_attempt(inv_op, A, False, check_errors, "linalg.inv_ex"))


@function("linalg.cholesky_ex(A: T, upper: bool, check_errors: bool)")
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """(L, info): info is the order of the first leading minor that is not positive-definite, or 0."""

    def run(a: Any) -> Any:
        return _mT(cholesky_op(_mT(a))) if upper else cholesky_op(a)

    return CholeskyEx(*_attempt(run, A, True, check_errors, "linalg.cholesky_ex"))


@function("linalg.solve_ex(A: T, B: T, left: bool, check_errors: bool)")
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """(X, info): info is the number of the first zero pivot of each matrix, or 0."""
    return SolveEx(*_attempt(lambda a: solve(a, B, left=left), A, False, check_errors, "linalg.solve_ex"))


LstsqResult = named_results("linalg_lstsq", ["solution", "residuals", "rank", "singular_values"])


@function("linalg.lstsq(A: T, B: T)")
def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: Any = None) -> Any:
    """Least squares solution of A X = B: (solution, residuals, rank, singular values)."""
    _need_matrix("linalg.lstsq", A)
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.lstsq: Expected input and other to have the same dtype, but got {A.dtype} and {B.dtype}"
        )
    if B.ndim < 1:
        raise RuntimeError("linalg.lstsq: other must have at least 1 dimension")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError("linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    vector = A.ndim - 1 == B.ndim
    b = B.unsqueeze(-1) if vector else B
    if b.shape[-2] != A.shape[-2]:
        raise RuntimeError(f"linalg.lstsq: input.size(-2) should match other.size({-1 if vector else -2})")
    x = matmul(pinv(A, rtol=rcond), b)
    m, n = A.shape[-2:]
    residuals = A.new_zeros((0,))
    rank = A.new_zeros((0,), dtype=dt.int64)
    if driver != "gels":
        rank = matrix_rank(A, rtol=rcond)
    if m > n and driver not in (None, "gelsy"):  # as LAPACK's xGELSY, PyTorch's usual driver, gives none
        full = driver == "gels" or bool((rank == n).all())
        residuals = ((b - matmul(A, x)) ** 2).sum(-2) if full else residuals
    elif A.requires_grad or b.requires_grad:
        residuals = matmul(A, x).reshape(-1).narrow(0, 0, 0)
    s = svdvals(A) if driver in ("gelsd", "gelss") else A.new_zeros((0,))
    if vector:
        x = x.squeeze(-1)
    return LstsqResult(x, residuals, rank, s)


@function("linalg.vander(x: T, N: int)")
def vander(x: Any, *, N: int | None = None) -> Any:
    """Matrix of powers 0 to N - 1 of the elements of vectors."""
    if x.ndim == 0:
        x = x.reshape(1)
    n = x.shape[-1] if N is None else N
    if n < 1:
        raise RuntimeError(f"N must be greater than 0. Got {n}")
    ones = x.new_ones((*x.shape, 1))
    if x.dtype is dt.bool_:
        ones, x = ones.long(), x.long()
    return cat([ones, x.unsqueeze(-1).expand((*x.shape, n - 1))], -1).cumprod(-1)


@function("vander(x: T, N: int, increasing: bool)", method=False)
def older_vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Matrix of powers of a vector's elements, the highest first unless ``increasing``."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    n = x.shape[0] if N is None else N
    if n < 0:
        raise RuntimeError("N must be non-negative.")
    if n == 0:
        return x.new_empty((x.shape[0], 0), dtype=dt.int64 if x.dtype is dt.bool_ else x.dtype)
    made = vander(x, N=n)
    return made if increasing else made.flip(-1)


@function("linalg.diagonal(A: T, offset: int, dim1: dim, dim2: dim)")
def linalg_diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonal of the last two dimensions, as a view."""
    return A.diagonal(offset, dim1, dim2)


@function("linalg.tensorinv(A: T, ind: int)")
def tensorinv(A: Any, ind: int = 2) -> Any:
    """Inverse of A as the map given by ``tensordot(A, x, ind)``."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, cols = A.shape[:ind], A.shape[ind:]
    m = A.reshape((_count(rows), -1) if A.numel() else (_count(rows), _count(cols)))
    if m.shape[0] != m.shape[1]:
        raise RuntimeError(
            f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
            f"{m.shape[1]} != {m.shape[0]}"
        )
    return inv_op(m).reshape((*cols, *rows))


@function("linalg.tensorsolve(A: T, B: T, dims: ints)")
def tensorsolve(A: Any, B: Any, dims: Any = None) -> Any:
    """x with tensordot(A, x, x.ndim) = B."""
    if A.dtype is not B.dtype:
        raise RuntimeError("linalg.tensorsolve: Expected A and B to have the same dtype")
    if dims is not None:
        rest = [i for i in range(A.ndim) if i not in [d % A.ndim for d in dims]]
        A = A.permute((*rest, *(d % A.ndim for d in dims)))
    shape = A.shape[B.ndim :]
    if _count(shape) != _count(A.shape[: B.ndim]) or B.numel() != _count(shape):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim])"
        )
    n = _count(shape)
    return solve_op(A.reshape((n, n)), B.reshape((n, 1))).reshape(shape)


def _count(shape: Any) -> Any:
    n: Any = 1
    for s in shape:
        n = n * s
    return n


@function("linalg.householder_product(input: T, tau: T)", names=("orgqr",), method=False)
def householder_product(input: Any, tau: Any) -> Any:
    """The first columns of H_1 ... H_k with H_i = I - tau_i v_i v_i^T, where v_i is column i of ``input`` (m, n) with 1
    on the diagonal and 0 above it. RuntimeError unless m >= n >= k.
    """
    _need_matrix("linalg.householder_product", input)
    m, n = input.shape[-2:]
    k = tau.shape[-1] if tau.ndim else 0
    if tau.ndim != input.ndim - 1 or m < n or n < k or tuple(tau.shape[:-1]) != tuple(input.shape[:-2]):
        raise RuntimeError(
            "linalg.householder_product: input (..., m, n) and tau (..., k) must have m >= n >= k and equal batches, "
            f"but they are {list(input.shape)} and {list(tau.shape)}"
        )
    if input.dtype is not tau.dtype:
        raise RuntimeError(f"linalg.householder_product: tau is {tau.dtype}, but input is {input.dtype}")
    v = input.tril(-1) + _eye(input, m).narrow(-1, 0, n)
    out = v.new_zeros(v.shape) + _eye(input, m).narrow(-1, 0, n)
    for i in range(k - 1, -1, -1):
        column = v.narrow(-1, i, 1)
        out = out - tau.narrow(-1, i, 1).unsqueeze(-1) * column * matmul(_mT(column), out)
    return out
