"""Large products of matrices shared out over the threads of kernels, each piece one call of numpy's BLAS.

OpenBLAS's own threads wait for each other busily: on two processors they reach nine tenths of what two products side by
side do, and where others use the machine too, a product takes until each of them has had its turn. Here whoever is
there takes the next piece (``native/llvm_threads.py``).
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np

from . import blas
from .threads import get_num_threads

__all__ = ["large_dot", "large_matmul"]

_LEAST = 1 << 20  # multiplications of a piece: 10 microseconds
_PIECES = 1  # of one product for each thread: each copies the whole of the other operand
_NARROW = 16  # rows or columns below which a product is one of vectors, for which BLAS has other functions
_PLAIN, _TURNED = 111, 112  # of the C interface


def large_dot(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.dot`` of two matrices."""
    if out is None:
        out = np.empty((a.shape[0], b.shape[1]), a.dtype)
    threads = get_num_threads()
    if threads > 1 and a.size * b.shape[1] >= 2 * _LEAST and _shared(a, b, out, threads):
        return out
    return np.dot(a, b, out) if out.flags.c_contiguous else np.matmul(a, b, out)


def large_matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.matmul`` of stacks of matrices that have the same leading sizes, or of two matrices."""
    if a.ndim == b.ndim >= 2 and a.shape[:-2] == b.shape[:-2]:
        if a.ndim == 2:
            return large_dot(a, b, out)
        if out is None:
            out = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
        threads = get_num_threads()
        if threads > 1 and a.size * b.shape[-1] >= 2 * _LEAST and _shared(a, b, out, threads):
            return out
    return np.matmul(a, b, out)


def _shared(a: np.ndarray, b: np.ndarray, out: np.ndarray, threads: int) -> bool:
    """Compute the product into ``out`` in pieces; whether that could be done (nothing is written if not)."""
    if a.dtype is not b.dtype or a.dtype is not out.dtype or not a.dtype.isnative:
        return False
    if min(a.shape[-2], b.shape[-1]) < _NARROW or a.shape[-1] != b.shape[-2]:
        return False
    run = _runner(a.dtype.char)
    left, right, made = _order(a), _order(b), _order(out)
    if run is None or left is None or right is None or made is None or made[0] != _PLAIN:
        return False
    m, k = a.shape[-2:]
    n = b.shape[-1]
    if a.ndim == 2:
        steps = _cut(m, n, k, threads, left[0] == _TURNED)
        count, inner, places = steps[0], steps[0], _moves(steps, a, b, out)
        sizes = steps[1:]
    else:
        levels = _levels(a, b, out)
        if levels is None:
            return False
        count, inner, places = levels
        sizes = (m, n, 0, 0)
    run(count, threads, (left[0], right[0], sizes[0], sizes[1], k, m, n, sizes[2], sizes[3], a.ctypes.data, left[1],
                         b.ctypes.data, right[1], out.ctypes.data, made[1], inner, *places))  # fmt: skip
    return True


def _order(x: np.ndarray) -> tuple[int, int] | None:
    """How matrices lie in memory, as BLAS says it, and its leading dimension; None where it can't."""
    (rows, columns), (down, along), item = x.shape[-2:], x.strides[-2:], x.itemsize
    if along == item and down % item == 0 and down >= columns * item:
        return _PLAIN, down // item
    if down == item and along % item == 0 and along >= rows * item:
        return _TURNED, along // item
    return None


def _cut(m: int, n: int, k: int, threads: int, turned: bool) -> tuple[int, int, int, int, int]:
    """Number of pieces, their rows and columns, and the steps of each: rows are cut, but columns where the left operand
    lies in columns, or where they are many more."""
    count = max(1, min(_PIECES * threads, m * n * k // _LEAST))
    if turned or n > 2 * m:
        step = -(-n // count)
        step += -step % 16
        return -(-n // step), m, step, 0, step
    step = -(-m // count)
    step += -step % 16
    return -(-m // step), step, n, step, 0


def _moves(steps: tuple[int, int, int, int, int], a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[int, ...]:
    """Bytes from piece to piece of one product (there is no outer level)."""
    down, along = steps[3], steps[4]
    return (0, down * a.strides[0], 0, along * b.strides[1], 0, down * out.strides[0] + along * out.strides[1])


def _levels(*stacks: np.ndarray) -> tuple[int, int, tuple[int, ...]] | None:
    """Number of matrices of stacks, how many the inner level has, and the bytes from one to the next."""
    sizes = [s for s in stacks[0].shape[:-2]]
    strides = [list(s.strides[:-2]) for s in stacks]
    axis = len(sizes) - 2
    while axis >= 0 and len(sizes) > 2:  # three and more levels: those that follow each other evenly are one
        if all(t[axis] == t[axis + 1] * sizes[axis + 1] for t in strides):
            sizes[axis : axis + 2] = [sizes[axis] * sizes[axis + 1]]
            for t in strides:
                del t[axis]
        axis -= 1
    if len(sizes) > 2:
        return None
    if len(sizes) == 1:
        sizes, strides = [1, *sizes], [[0, *t] for t in strides]
    return sizes[0] * sizes[1], max(sizes[1], 1), tuple(step for t in strides for step in t)


@functools.cache
def _runner(kind: str) -> Callable[[int, int, tuple[int, ...]], None] | None:
    """What runs pieces of a dtype; None where numpy's BLAS or machine code cannot be had."""
    found = blas.routine({"f": "cblas_sgemm", "d": "cblas_dgemm"}.get(kind, ""))
    if found is None or kind not in "fd":
        return None
    try:
        from .native import launch, llvm_products

        gemm, size = found
        pieces = launch.loaded("products", llvm_products.text(size is ctypes.c_int64), llvm_products.SYMBOLS)
        at, address = launch.parallel(), ctypes.cast(gemm, ctypes.c_void_p).value
    except (ImportError, OSError, RuntimeError, AttributeError):
        return None
    share = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3)(at)  # without the GIL
    piece = pieces["fd".index(kind)]
    context = ctypes.c_int64 * len(llvm_products.CONTEXT)

    def run(count: int, threads: int, numbers: tuple[int, ...]) -> None:
        with blas.alone(0):
            share(piece, ctypes.byref(context(address, *numbers)), count, threads, 1)

    return run
