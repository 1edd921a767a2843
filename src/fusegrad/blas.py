"""numpy's BLAS: products of small matrices on one thread, and what it has that numpy has no function for.

OpenBLAS splits a product over all processors from 2**18 multiplications on (some ten microseconds of work), and its
threads wait for each other busily.  Where other programs run on the same processors, such a product takes as long as
the scheduler likes: milliseconds.  One thread is as fast up to about ``SMALL`` multiplications even on an idle machine.

The number of threads is a setting of the process.  It is lowered for the one call and put back; a caller that finds it
at 1 (set by the user, or by another thread in the middle of such a call) leaves it alone, so that it always returns.

Few rows times a transposed matrix (a linear layer on a small batch) take OpenBLAS half as long the other way round,
``(b.T @ a.T).T``: it then copies the few rows, and not the matrix, into the order that its inner loop wants.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__ = [
    "BLAS_ALONE", "SHARED", "SMALL", "alone", "best_dot", "few_rows", "is_small", "large_dot", "large_matmul",
    "may_be_few_rows", "routine", "set_blas_threads", "small_dot", "small_matmul", "substitute",
]  # fmt: skip

BLAS_ALONE = 1 << 18  # OpenBLAS uses one thread up to here by itself
SMALL = 1 << 22
SHARED = 1 << 23  # multiplications of a whole stack from which threads are worth their start

_most = 0  # threads that BLAS had at first
_found: tuple[Callable[[], int], Callable[[int], Any]] | None = None


def _one() -> int:
    return 1


def routine(name: str) -> tuple[Any, Any] | None:
    """A function of the BLAS and LAPACK that numpy uses, and its type of sizes; None where it is another library.

    ``name``: as in C (cblas_strsm) or, with a trailing underscore, in Fortran (spotrf_).
    """
    import ctypes

    try:
        from numpy._core import _multiarray_umath as core

        library = ctypes.CDLL(core.__file__)  # loaded already; symbols of the libraries it needs are found too
    except (ImportError, AttributeError, OSError):
        return None
    for prefix in ("scipy_", ""):
        for suffix, size in (("64_", ctypes.c_int64), ("", ctypes.c_int)):
            found = getattr(library, f"{prefix}{name}{suffix}", None)
            if found is not None:
                return found, size
    return None


def _find() -> tuple[Callable[[], int], Callable[[int], Any]]:
    """How to read and set the number of threads; for another BLAS than OpenBLAS: as if it were 1 for ever."""
    global _found
    import ctypes

    found: Any = None
    pair = routine("openblas_get_num_threads"), routine("openblas_set_num_threads")
    if pair[0] is not None and pair[1] is not None:
        read, write = pair[0][0], pair[1][0]
        read.argtypes, read.restype = [], ctypes.c_int
        write.argtypes, write.restype = [ctypes.c_int], None
        found = read, write
    _found = found or (_one, int)
    return _found


def set_blas_threads(n: int) -> None:
    """Let numpy's BLAS use ``n`` threads (never more than it started with); nothing for a BLAS we do not know."""
    global _most
    read, write = _found or _find()
    _most = _most or read()
    write(min(n, _most))


def is_small(multiplications: int) -> bool:
    """Whether a product of this many multiplications is one that BLAS would spread over threads for nothing."""
    return BLAS_ALONE < multiplications < SMALL


def small_matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.matmul`` with each product on one thread; the products of a large stack are shared out over threads."""
    read, write = _found or _find()
    threads = read()
    if threads == 1:
        return np.matmul(a, b, out)
    if a.ndim > 2 and a.size * b.shape[-1] >= SHARED:
        return large_matmul(a, b, out)
    write(1)
    try:
        return np.matmul(a, b, out)
    finally:
        write(threads)


def small_dot(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """``np.dot`` on one thread."""
    read, write = _found or _find()
    threads = read()
    if threads == 1:
        return np.dot(a, b, out)
    write(1)
    try:
        return np.dot(a, b, out)
    finally:
        write(threads)


def may_be_few_rows(k: int, n: int) -> bool:
    """Whether ``few_rows`` can be true for products with a (k, n) matrix."""
    return n >= 256 and k >= 128


def few_rows(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether ``a @ b`` of two matrices is computed the other way round. The bounds were measured (decision 19)."""
    (m, k), n = a.shape, b.shape[1]
    if not (n >= 256 and k >= 128 and 8 * m <= n and m * n >= 2048 and (m <= 32 or k >= 512)):
        return False
    return a.dtype is _F32 and b.dtype is _F32 and a.flags.c_contiguous and b.flags.f_contiguous


def best_dot(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.dot`` of two matrices in the faster order, small ones on one thread."""
    if few_rows(a, b):
        back = _dot(b.T, a.T, np.empty((b.shape[1], a.shape[0]), np.float32))
        if out is None:
            return np.ascontiguousarray(back.T)
        out[...] = back.T
        return out
    return _dot(a, b, np.empty((a.shape[0], b.shape[1]), a.dtype) if out is None else out)


def _dot(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> np.ndarray:
    """``np.dot`` as it is written, small ones on one thread."""
    if is_small(a.size * b.shape[1]):
        return small_dot(a, b, out)
    return large_dot(a, b, out) if a.size * b.shape[1] >= SMALL else np.dot(a, b, out)


def large_dot(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.dot`` of large matrices, shared out over threads."""
    from .shared_products import large_dot as shared

    return shared(a, b, out)


def large_matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.matmul`` of large matrices or stacks, shared out over threads."""
    from .shared_products import large_matmul as shared

    return shared(a, b, out)


_F32 = np.dtype(np.float32)
_ROW_MAJOR, _LEFT, _NO, _YES, _UPPER, _LOWER, _GIVEN, _ONES = 101, 141, 111, 112, 121, 122, 131, 132
_solvers: dict[Any, Any] = {}


def _solver(dtype: np.dtype) -> Any:
    """trsm of a dtype, or None."""
    if dtype not in _solvers:
        import ctypes

        letter = {"f": "s", "d": "d"}.get(dtype.char)
        found = routine(f"cblas_{letter}trsm") if letter else None
        if found is not None:
            f, size = found
            number = ctypes.c_float if letter == "s" else ctypes.c_double
            pointer = ctypes.c_void_p
            f.argtypes = [*[ctypes.c_int] * 5, size, size, number, pointer, size, pointer, size]
            f.restype = None
        _solvers[dtype] = None if found is None else found[0]
    return _solvers[dtype]


def substitute(a: np.ndarray, x: np.ndarray, upper: bool, unit: bool) -> bool:
    """Write the solution of the triangular systems a X = x over x; whether that could be done.

    a: [..., n, n], of which one triangle is read; x: C-contiguous [..., n, k] with the same leading sizes and dtype.
    """
    f = _solver(x.dtype)
    if f is None or a.dtype != x.dtype or not a.dtype.isnative or a.shape[:-2] != x.shape[:-2]:
        return False
    (n, k), item = x.shape[-2:], a.itemsize
    turned = a.strides[-2] == item and a.strides[-1] >= n * item
    if not turned and (a.strides[-1] != item or a.strides[-2] < n * item):
        a = np.ascontiguousarray(a)
    step = a.strides[-1 if turned else -2]
    lda = max(step // item, n)
    kind = (
        _ROW_MAJOR,
        _LEFT,
        _UPPER if upper != turned else _LOWER,
        _YES if turned else _NO,
        _ONES if unit else _GIVEN,
    )
    with alone(n * n * k):
        for i in np.ndindex(a.shape[:-2]):
            f(*kind, n, k, 1.0, a[i].ctypes.data, lda, x[i].ctypes.data, k)
    return True


@contextlib.contextmanager
def alone(multiplications: int) -> Iterator[None]:
    """Within the block BLAS uses one thread, if there are so few multiplications in one call."""
    read, write = _found or _find()
    threads = read()
    if threads == 1 or multiplications >= SMALL:
        yield
        return
    write(1)
    try:
        yield
    finally:
        write(threads)
