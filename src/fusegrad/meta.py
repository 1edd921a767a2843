"""Meta: what is known of a tensor without its data. Also the rules about shapes that many operators share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .dtypes import dtype
from .size_values import SymbolicSize, known_eq

Sizes = tuple[Any, ...]  # of int or SymInt


class Meta:
    """Shape, dtype and layout of a tensor.

    ``strides`` are in elements; None means C-contiguous. ``weak`` marks a Python number (a scalar input of a graph),
    which takes part in type promotion by its category alone.
    """

    __slots__ = ("shape", "dtype", "strides", "weak")

    def __init__(
        self, shape: Sequence[Any], dtype: dtype, strides: Sequence[Any] | None = None, weak: bool = False
    ) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.strides = None if strides is None else tuple(strides)
        self.weak = weak

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Any:
        n: Any = 1
        for s in self.shape:
            n = n * s
        return n

    def stride(self) -> Sizes:
        """The strides in elements, written out."""
        return contiguous_strides(self.shape) if self.strides is None else self.strides

    def _key(self) -> tuple:
        return self.shape, self.dtype, self.strides, self.weak

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Meta) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        text = f"{self.dtype.short}[{', '.join(map(str, self.shape))}]"
        if self.weak:
            text += "~"
        return text if self.strides is None else f"{text}@({', '.join(map(str, self.strides))})"


def contiguous_strides(shape: Sequence[Any]) -> Sizes:
    """Strides in elements of a C-contiguous tensor (a size of 0 counts as 1, as in PyTorch)."""
    out: list[Any] = []
    step: Any = 1
    for s in reversed(shape):
        out.append(step)
        if not (isinstance(s, int) and s == 0):
            step = step * s
    return tuple(reversed(out))


def steps_of(a: Any) -> tuple[int, ...]:
    """Strides in elements of an array. numpy gives a new dimension of size 1 the stride 0; here it is the step over
    what lies inside of it, as PyTorch has it."""
    out = [s // a.itemsize for s in a.strides]
    if 0 in out:
        for d in reversed(range(len(out))):
            if out[d] == 0 and a.shape[d] == 1:
                out[d] = a.shape[d + 1] * out[d + 1] if d + 1 < len(out) else 1
    return tuple(out)


def is_contiguous(shape: Sequence[Any], strides: Sequence[Any]) -> bool:
    """Whether elements lie in C order without gaps; dimensions of size 1 do not matter.

    For symbolic sizes it asks only what matters. Export, which may not guard, takes an unknown size to be neither 0
    nor 1: that can only make a copy where a view would have done.
    """
    step: Any = 1
    if any(type(s) is int and s == 0 for s in shape):
        return True
    for s, st in zip(reversed(shape), reversed(strides), strict=True):
        if isinstance(s, int) and s == 1:
            continue
        if not surely_equal(st, step):
            if isinstance(s, int) or not surely_equal(s, 1):
                return False
        else:
            step = step * s
    return True


def surely_equal(a: Any, b: Any) -> bool:
    """a == b for ints and SymInts; False if that is unknown and may not be guarded (export)."""
    known = known_eq(a, b)
    if known is None:
        ctx = (a if isinstance(a, SymbolicSize) else b).ctx
        return ctx.mode == "guard" and a == b
    return known


def surely_less(a: Any, b: int) -> bool:
    """a < b for ints and SymInts, asked before a size is refused.

    Export asks it while it records, so that a program promises no size that eager code refuses. Programs that are
    loaded or compiled are past that: False if it is unknown there.
    """
    return (not isinstance(a, SymbolicSize) or a.ctx.asks) and bool(a < b)


def broadcast_shapes(*shapes: Sequence[Any]) -> Sizes:
    """The shape that all of ``shapes`` broadcast to. RuntimeError names the sizes that do not match."""
    ndim = max((len(s) for s in shapes), default=0)
    out: list[Any] = [1] * ndim
    for shape in shapes:
        off = ndim - len(shape)
        for i, s in enumerate(shape):
            have = out[off + i]
            if have is s:
                continue
            if isinstance(have, int) and have == 1:
                out[off + i] = s
            elif (isinstance(s, int) and s == 1) or have == s:
                continue
            elif have == 1:  # a symbolic size that turned out to be 1
                out[off + i] = s
            elif s == 1:
                continue
            else:
                raise RuntimeError(
                    f"The size of tensor a ({have}) must match the size of tensor b ({s}) at non-singleton "
                    f"dimension {off + i}"
                )
    return tuple(out)


def normalize_dim(dim: Any, ndim: int) -> int:
    """``dim`` counted from the front. IndexError as PyTorch's when it is out of range; 0-d counts as 1-d."""
    n = ndim or 1
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"dim must be int, not {type(dim).__name__}")
    d = dim.__index__()
    if not -n <= d < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
    return d + n if d < 0 else d


def normalize_dims(dims: Any, ndim: int) -> tuple[int, ...]:
    """A tuple of dims counted from the front. RuntimeError for one given twice."""
    if isinstance(dims, int) or not hasattr(dims, "__iter__"):
        return (normalize_dim(dims, ndim),)
    out = tuple(normalize_dim(d, ndim) for d in dims)
    if len(set(out)) != len(out):
        twice = next(d for d in out if out.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return out
