"""Layouts: that of an elementwise result (numpy's and PyTorch's rule of keeping the operands' order of axes), and
those that a memory format asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .meta import Meta, contiguous_strides, is_contiguous
from .size_values import hint_of, same


def elementwise_strides(shape: Sequence[Any], operands: Sequence[Meta]) -> tuple | None:
    """Strides of the result of an elementwise operator; None if it is C-contiguous.

    The axes are sorted so that the operands' strides fall from the first to the last; where the operands disagree
    the C order wins (numpy's iteration order "K").
    """
    if all(m.strides is None for m in operands) or len(shape) < 2:
        return None
    n = len(shape)
    strides = [_expanded(m, shape) for m in operands if m.ndim > 0]
    perm = list(range(n - 1, -1, -1))  # fastest first
    for i in range(1, n):
        j0, pos = perm[i], i
        for k in range(i - 1, -1, -1):
            swap = _should_swap(strides, j0, perm[k])
            if swap is None:
                continue
            if not swap:
                break
            pos = k
        perm.pop(i)
        perm.insert(pos, j0)
    out: list[Any] = [0] * n
    step: Any = 1
    for d in perm:
        out[d] = step
        step = step * shape[d]
    if any(isinstance(s, int) and s == 0 for s in shape):
        return None
    result = tuple(out)
    static = all(type(v) is int for v in (*shape, *result))
    if same(result, contiguous_strides(shape)) or (static and is_contiguous(shape, result)):
        return None
    return result


_CHANNELS_LAST = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


def checked_format(memory_format: Any, name: str) -> str:
    """The format. TypeError from ``name`` for what is none."""
    if not isinstance(memory_format, str) or memory_format not in ("contiguous", "preserve", *_CHANNELS_LAST):
        kind = type(memory_format).__name__
        raise TypeError(f"{name}(): argument 'memory_format' must be fusegrad.memory_format, not {kind}")
    return memory_format


def format_axes(memory_format: str, ndim: int) -> Sequence[int]:
    """The axes of a tensor of ``ndim`` dimensions as a memory format orders them in memory, slowest first.
    RuntimeError if the format is for another number of dimensions."""
    if memory_format not in _CHANNELS_LAST:
        return range(ndim)
    axes = _CHANNELS_LAST[memory_format]
    if len(axes) != ndim:
        raise RuntimeError(f"required rank {len(axes)} tensor to use {memory_format} format")
    return axes


def format_strides(shape: Sequence[Any], memory_format: str) -> tuple | None:
    """Strides of a tensor in a memory format; None if they are those of C order."""
    if memory_format not in _CHANNELS_LAST:
        return None
    axes = format_axes(memory_format, len(shape))
    inner = contiguous_strides([shape[a] for a in axes])
    out = tuple(inner[axes.index(a)] for a in range(len(axes)))
    return None if same(out, contiguous_strides(shape)) else out


def has_format(m: Meta, memory_format: Any) -> bool:
    """Whether elements lie without gaps in the order of a memory format; False for other numbers of dimensions."""
    axes = _CHANNELS_LAST.get(checked_format(memory_format, "is_contiguous"), range(m.ndim))
    if len(axes) != m.ndim:
        return False
    steps = m.stride()
    return is_contiguous([m.shape[a] for a in axes], [steps[a] for a in axes])


def _expanded(m: Meta, shape: Sequence[Any]) -> list[Any]:
    """Absolute strides of ``m`` along the axes of ``shape``, 0 where it is broadcast or has size 1."""
    off = len(shape) - m.ndim
    own = m.stride()
    out: list[Any] = [0] * len(shape)
    for i, (s, st) in enumerate(zip(m.shape, own, strict=True)):
        if not (isinstance(s, int) and s == 1):
            st = hint_of(st)  # only the order counts: a symbolic stride must not become a condition on sizes
            out[off + i] = -st if st < 0 else st
    return out


def _should_swap(strides: list[list[Any]], outer: int, inner: int) -> bool | None:
    """Whether axis ``outer`` must become faster than ``inner``; None when no operand says."""
    swap: bool | None = None
    for s in strides:
        a, b = s[outer], s[inner]
        if (isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0):
            continue
        if b <= a:
            swap = False
        elif swap is None:
            swap = True
    return swap
