"""numpy kernels of several passes, done piece by piece so that the pieces stay in the cache; large ones on threads.

Pieces of which the place matters depend on sizes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..threads import get_num_threads, run_together
from ._half import half, single

BLOCK = 16384  # elements
ROWS = 1 << 16  # elements of a piece of rows: whole rows, and few Python calls
SHARED = 1 << 18  # elements from which threads are worth their start
_LARGE = 2 * BLOCK


def in_pieces(f: Callable[[slice], Any], n: int, step: int, size: int) -> None:
    """``f`` of the slices of length ``step`` of range(n); by several threads if there are ``size`` >= SHARED elements.

    numpy's floating point warnings are off meanwhile.
    """
    pieces = [slice(i, min(i + step, n)) for i in range(0, n, step)]
    threads = min(get_num_threads(), len(pieces)) if size >= SHARED else 1

    def run(part: list[slice]) -> None:
        with np.errstate(all="ignore"):  # a thread begins with numpy's defaults
            for piece in part:
                f(piece)

    if threads < 2:
        run(pieces)
        return
    m = len(pieces)
    run_together(run, [pieces[m * k // threads : m * (k + 1) // threads] for k in range(threads)])


def in_blocks(f: Callable[[slice], Any], n: int) -> None:
    """``f`` of pieces of n elements whose values do not depend on where a piece begins.

    With threads the pieces are longer: between numpy's calls they hand the interpreter to each other.
    """
    shared = n >= SHARED and get_num_threads() > 1
    in_pieces(f, n, ROWS if shared else BLOCK, n)


def row_step(width: int) -> int:
    """Rows of this many elements in a piece."""
    return max(1, ROWS // max(width, 1))


def dense_like(x: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Memory for an elementwise result: dense, the axes in the order of x's.

    np.empty_like takes an expanded axis (stride 0) for the fastest; elementwise operators let it stand where it is.
    """
    out = np.empty_like(x, dtype)
    if out.flags.c_contiguous or 0 not in x.strides:
        return out
    flags = (["readonly"], ["writeonly", "allocate"])
    both = np.nditer((x, None), ["zerosize_ok"], flags, op_dtypes=(x.dtype, out.dtype), order="K").operands
    return both[1]


def _states() -> tuple[Any, Any]:
    """numpy's variable of the states of floating point errors, and its value in which invalid numbers are ignored;
    None where this numpy has none: ``np.errstate`` makes a new value in every call, which takes five times as long."""
    try:
        from numpy._core import umath

        variable: Any = umath._extobj_contextvar  # type: ignore[attr-defined]
        with np.errstate(invalid="ignore"):
            return variable, variable.get()
    except (ImportError, AttributeError, LookupError):
        return None, None


_variable, _ignoring = _states()


def without_complaint(fn: Callable[..., np.ndarray], *args: Any) -> np.ndarray:
    """``fn(*args)`` without numpy's word about invalid numbers, for a ``fn`` that can meet no other."""
    if _variable is None:
        with np.errstate(invalid="ignore"):
            return fn(*args)
    before = _variable.set(_ignoring)
    try:
        return fn(*args)
    finally:
        _variable.reset(before)


def converted(x: np.ndarray, dtype: Any) -> np.ndarray:
    """A copy of another dtype, laid out as an elementwise result."""
    out = x.astype(dtype)
    if out.flags.c_contiguous or 0 not in x.strides:
        return out
    laid = dense_like(x, dtype)
    laid[...] = out
    return laid


def flattened(x: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The elements in the order of memory, and what gives a flat result the layout of an elementwise one."""
    if x.ndim < 2 or x.flags.c_contiguous:
        return x.ravel(), lambda out: out.reshape(x.shape)
    axes, restored = memory_order(x)
    return x.transpose(axes).ravel(), restored


def memory_order(x: np.ndarray) -> tuple[list[int], Callable[[np.ndarray], np.ndarray]]:
    """The axes in the order an elementwise result has them in memory, and what gives a flat result that layout."""
    steps = dense_like(x).strides
    axes = sorted(range(x.ndim), key=lambda d: -steps[d])
    shape = tuple(x.shape[d] for d in axes)
    back = sorted(range(x.ndim), key=axes.__getitem__)
    return axes, lambda out: out.reshape(shape).transpose(back)


def blocked(f: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """An elementwise kernel of one array that works on large arrays in pieces; the result has the array's dtype."""

    @functools.wraps(f)
    def kernel(x: np.ndarray, **attrs: Any) -> np.ndarray:
        if x.size < _LARGE:
            return f(x, **attrs)
        flat, restored = flattened(x)
        out = np.empty_like(flat)

        def piece(at: slice) -> None:
            out[at] = f(flat[at], **attrs)

        in_blocks(piece, len(flat))
        return restored(out)

    return kernel


def rounded_once(f: Callable[..., Any]) -> Callable[..., Any]:
    """A pointwise kernel of several steps that computes float16 in float32 and rounds its result alone.

    Steps between would overflow beyond 65504 and lose bits; compiled code does the same.
    """

    @functools.wraps(f)
    def kernel(*operands: Any, **attrs: Any) -> Any:
        first = operands[0] if type(operands[0]) is np.ndarray else operands[-1]
        if type(first) is not np.ndarray or first.dtype.char != "e":
            return f(*operands, **attrs)
        arrays = [x for x in operands if isinstance(x, np.ndarray)]
        if any(x.dtype.char != "e" for x in arrays):
            return f(*operands, **attrs)  # of several dtypes: the kernel knows what to do, or refuses them
        wide = [single(x) if isinstance(x, np.ndarray) else x for x in operands]
        with np.errstate(over="ignore"):
            return half(f(*wide, **attrs))

    return kernel


def pick(mask: np.ndarray, x: Any, y: Any, least: int = _LARGE) -> np.ndarray:
    """numpy.where of operands of one dtype. From least elements on by bits: where() mispredicts a branch for each."""
    if mask.size < least or not mask.flags.c_contiguous:
        return np.where(mask, x, y)
    model = x if isinstance(x, np.ndarray) and x.ndim else y
    width = model.dtype.itemsize
    if width < 4 or any(v.shape != mask.shape or not v.flags.c_contiguous for v in (x, y) if np.ndim(v)):
        return np.where(mask, x, y)
    bits = np.int32 if width == 4 else np.int64
    out = np.empty(mask.shape, model.dtype)
    flat = mask.reshape(-1).view(np.int8)
    a, b = (v.reshape(-1).view(bits) if np.ndim(v) else model.dtype.type(v).reshape(1).view(bits)[0] for v in (x, y))
    target = out.reshape(-1).view(bits)
    for i in range(0, len(flat), BLOCK):
        piece = slice(i, i + BLOCK)
        m = flat[piece].astype(bits)
        np.negative(m, out=m)  # all ones where the mask holds
        p, q = (v[piece] if np.ndim(v) else v for v in (a, b))
        o = target[piece]
        np.bitwise_xor(p, q, out=o)
        np.bitwise_and(o, m, out=o)
        np.bitwise_xor(o, q, out=o)
    return out
