"""Shape arithmetic shared by the operator files: axes of reductions, view strides, spreading a cotangent back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..meta import contiguous_strides, is_contiguous, surely_equal, surely_less
from ..place import root_array
from ..size_values import known_ge, same
from ._half import half, single


def axes_of(ndim: int, dim: tuple[int, ...] | int | None) -> tuple[int, ...] | None:
    """Axes for a numpy reduction; None means all of them (also for 0-d arrays, where PyTorch allows dim 0)."""
    if dim is None or dim == () or ndim == 0:
        return None
    return dim if isinstance(dim, tuple) else (dim,)


def reduced_shape(shape: Sequence[Any], dim: tuple[int, ...] | int | None, keepdim: bool) -> tuple:
    """Shape after reducing ``dim`` (None or (): every dimension)."""
    axes = axes_of(len(shape), dim)
    if axes is None:
        return (1,) * len(shape) if keepdim else ()
    if keepdim:
        return tuple(1 if i in axes else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in axes)


def reduced_count(shape: Sequence[Any], dim: tuple[int, ...] | int | None) -> Any:
    """Number of elements that go into one result."""
    axes = axes_of(len(shape), dim)
    n: Any = 1
    for i in range(len(shape)) if axes is None else axes:
        n = n * shape[i]
    return n


def keep(x: Any, ndim: int, dim: tuple[int, ...] | int | None, keepdim: bool) -> Any:
    """A reduced tensor with its reduced dimensions put back as size 1, so that it broadcasts against the input."""
    if keepdim or ndim == 0:
        return x
    axes = axes_of(ndim, dim)
    if axes is None:
        return x  # 0-d: broadcasts as it is
    if axes == tuple(range(len(axes))):
        return x  # leading dimensions: broadcasting puts them back
    for a in sorted(axes):
        x = x.unsqueeze(a)
    return x


def spread(g: Any, shape: Sequence[Any], dim: tuple[int, ...] | int | None, keepdim: bool) -> Any:
    """The cotangent of a sum: ``g`` repeated over the reduced dimensions of ``shape``."""
    return keep(g, len(shape), dim, keepdim).expand(tuple(shape)) if shape else g


def numel_of(shape: Sequence[Any]) -> Any:
    n: Any = 1
    for s in shape:
        n = n * s
    return n


def infer_size(shape: Sequence[Any], numel: Any) -> tuple:
    """``shape`` with a -1 filled in so that it has ``numel`` elements. RuntimeError as PyTorch's."""
    shape = tuple(shape)
    hole: Any = None
    known: Any = 1
    for i, s in enumerate(shape):
        if surely_less(s, 0):
            if s != -1:
                raise RuntimeError(f"invalid shape dimension {s}")
            if hole is not None:
                raise RuntimeError("only one dimension can be inferred")
            hole = i
        else:
            known = known * s
    if hole is None:
        if known is not numel and known != numel:
            raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
        return shape
    if known == 0:
        if numel == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension "
                "size -1 can be any value and is ambiguous"
            )
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    if numel % known != 0:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return (*shape[:hole], numel // known, *shape[hole + 1 :])


def view_strides(shape: Sequence[Any], strides: Sequence[Any] | None, new: Sequence[Any]) -> tuple | None:
    """Strides of the view of shape ``new`` over the same memory, or None where a copy would be needed.

    ``strides`` None means contiguous. Old dimensions are merged into runs that are contiguous in memory; each must be
    covered exactly by some of the new dimensions. Export may not guard: what is unknown there counts as a copy.
    """
    if strides is None or is_contiguous(shape, strides):
        return contiguous_strides(new)
    if any(type(s) is int and s == 0 for s in shape):
        return tuple(strides) if tuple(shape) == tuple(new) else contiguous_strides(new)
    runs: list[list[Any]] = []  # [elements, stride of the last dimension], innermost first
    for s, st in zip(reversed(shape), reversed(strides), strict=True):
        if surely_equal(s, 1):
            continue
        if runs and surely_equal(st, runs[-1][1] * runs[-1][0]):
            runs[-1][0] = runs[-1][0] * s
        else:
            runs.append([s, st])
    out: list[Any] = []
    i, left = 0, None
    step: Any = runs[0][1] if runs else 1
    for s in reversed(new):
        if surely_equal(s, 1):
            out.append(step)
            continue
        if left is None:
            if i == len(runs):
                return None
            left, step = runs[i]
        if same(left, s):
            out.append(step)
            step, left, i = step * s, None, i + 1
            continue
        if surely_equal(s, 0) or not known_ge(s, 1) or not surely_equal(left % s, 0):
            return None
        out.append(step)
        step, left = step * s, left // s
        if surely_equal(left, 1):
            left, i = None, i + 1
    return tuple(reversed(out))


def np_axes_sum(a: np.ndarray, axes: tuple[int, ...] | None, keepdim: bool, dtype: Any = None) -> np.ndarray:
    """``np.add.reduce`` with about the accuracy of pairwise summation for every axis.

    numpy sums pairwise only along the innermost axis; over the others it adds row after row, and float32 loses a digit
    for every hundred-fold of rows. Long such sums are therefore done in blocks of rows.
    """
    if a.dtype == np.float16 and (dtype is None or dtype == np.float16):
        return half(np_axes_sum(single(a), axes, keepdim))
    if axes is not None and a.ndim > 1 and a.size > 16384 and a.dtype.kind == "f":
        acc = np.dtype(dtype) if dtype is not None else a.dtype
        inner = min(range(a.ndim), key=lambda i: (abs(a.strides[i]) if a.shape[i] > 1 else 1 << 62, -i))
        if inner not in axes:
            return _sum_rows(a, axes, keepdim, acc)
    return np.add.reduce(a, axis=axes, dtype=dtype, keepdims=keepdim)


def _sum_rows(a: np.ndarray, axes: tuple[int, ...], keepdim: bool, acc: np.dtype) -> np.ndarray:
    """Sums over axes other than the innermost one: one axis after the other, in blocks."""
    k = len(axes)
    if a.flags.c_contiguous and set(axes) == set(range(k)):
        out = _sum_flat(a.reshape(-1, numel_of(a.shape[k:])), acc).reshape(a.shape[k:])
        return out.reshape((1,) * k + out.shape) if keepdim else out
    for i in sorted(axes, key=lambda i: abs(a.strides[i])):
        a = _blocked_sum(a, i, acc)
    return a if keepdim else a.squeeze(axes)


def _sum_flat(a: np.ndarray, acc: np.dtype) -> np.ndarray:
    """Column sums of a contiguous (n, m) array; short rows are first added up several at a time."""
    n, m = a.shape
    group = 1024 // m if m else 0
    if group > 1 and n > 4 * group:
        whole = n // group * group
        wide = _blocked_sum(a[:whole].reshape(-1, group * m), 0, acc).reshape(group, m)
        rest = np.add.reduce(a[whole:], axis=0, dtype=acc)
        return _blocked_sum(wide, 0, acc)[0] + rest
    return _blocked_sum(a, 0, acc)[0]


def _blocked_sum(a: np.ndarray, axis: int, acc: np.dtype) -> np.ndarray:
    """Sum along one axis (kept) in blocks, the blocks added pairwise."""
    n, block = a.shape[axis], 128
    if n <= 2 * block:
        return np.add.reduce(a, axis=axis, dtype=acc, keepdims=True)
    lead = (slice(None),) * axis
    parts = [
        np.add.reduce(a[(*lead, slice(i, i + block))], axis=axis, dtype=acc, keepdims=True) for i in range(0, n, block)
    ]
    while len(parts) > 1:
        parts = [parts[i] + parts[i + 1] if i + 1 < len(parts) else parts[i] for i in range(0, len(parts), 2)]
    return parts[0]


def restride(a: np.ndarray, shape: tuple, strides: tuple) -> np.ndarray:
    """A writable view of ``a`` with these strides in bytes, from its first element."""
    if a.flags.c_contiguous:
        return np.ndarray(shape, a.dtype, a, 0, strides)
    root = root_array(a)
    if not root.flags.c_contiguous:
        if not root.flags.f_contiguous:
            return np.lib.stride_tricks.as_strided(a, shape, strides)
        root = root.T
    # (the base of what as_strided gives is no array: whose memory it is could not be told)
    at = a.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return np.ndarray(shape, a.dtype, root, at, strides)


def _expanded(size: tuple, old: tuple, steps: tuple) -> tuple[tuple, tuple]:
    """Shape and strides of an array of shape ``old`` expanded to ``size``. ValueError for what does not fit."""
    at = len(size) - len(old)
    if at < 0:
        raise ValueError
    shape, strides = [*size], [0] * len(size)
    for n, step in zip(old, steps, strict=True):
        want = shape[at]
        if want == n or want == -1:
            shape[at], strides[at] = n, step
        elif n != 1:
            raise ValueError
        at += 1
    if shape and min(shape) < 0:
        raise ValueError
    return tuple(shape), tuple(strides)


_EXPANDED: dict[tuple, tuple[tuple, tuple]] = {}  # by size, shape and strides: what ``_expanded`` gives


def expand_array(a: np.ndarray, size: tuple) -> np.ndarray:
    """``a`` expanded to ``size``, a view of it; -1 keeps a size. ValueError for what does not fit."""
    key = size, a.shape, a.strides
    found = _EXPANDED.get(key)
    if found is None:
        shape, strides = _expanded(*key)
        out = restride(a, shape, strides)  # TypeError where a size is none of Python
        if len(_EXPANDED) >= 1024:
            _EXPANDED.clear()
        _EXPANDED[key] = shape, strides
        return out
    if a.flags.c_contiguous:
        return np.ndarray(found[0], a.dtype, a, 0, found[1])
    return restride(a, *found)
