"""Views that repeat dimensions of size 1 without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..meta import surely_less
from ..op import Inline, Sample, function, op
from ..size_values import known_eq, varies
from ._samples import t
from ._shapes import expand_array
from .view import relayout


def _same_size(want: Any, n: Any) -> bool:
    """Whether ``expand`` leaves a size as it is. (An export does not ask whether a size is 1: no difference.)"""
    if type(n) is int and n == 1 and varies(want):
        return bool(known_eq(want, n))
    return bool(want == n)


@op("expand(input: T, size: shape)", kind="view")
class expand:
    """Dimensions of size 1 repeated without a copy (stride 0); -1 keeps a size. RuntimeError for what does not fit."""

    kernel = expand_array

    def meta(m, size):
        lead = len(size) - m.ndim
        if lead < 0:
            raise RuntimeError(
                f"expand(fusegrad.{m.dtype.name} tensor {list(m.shape)}, size={list(size)}): the number of sizes "
                f"provided ({len(size)}) must be greater or equal to the number of dimensions in the tensor "
                f"({m.ndim})"
            )
        shape, strides, own = list(size), [0] * len(size), m.stride()
        for i, want in enumerate(size):
            negative = surely_less(want, 0)
            if negative and (want != -1 or i < lead):
                raise RuntimeError(
                    f"The expanded size of the tensor ({want}) isn't allowed in a leading, non-existing dimension {i}"
                    if i < lead
                    else f"expand: invalid size {want}"
                )
            if i < lead:
                continue
            n = m.shape[i - lead]
            if negative or want is n or _same_size(want, n):
                shape[i], strides[i] = n, own[i - lead]
            elif n != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({want}) must match the existing size ({n}) at "
                    f"non-singleton dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: {list(m.shape)}"
                )
        for i in reversed(range(lead)):
            if type(shape[i]) is int and shape[i] == 1:  # the step over what lies inside, as `unsqueeze` has it
                strides[i] = shape[i + 1] * strides[i + 1] if i + 1 < len(shape) else 1
        return relayout(m, shape, strides)

    def vjp(g):
        return g  # the engine sums over what was broadcast

    def ref(a, size):
        lead = len(size) - a.ndim
        return np.broadcast_to(a, [a.shape[i - lead] if s == -1 else s for i, s in enumerate(size)])

    def samples():
        yield Sample(t(3, 1), (3, 4))
        yield Sample(t(1, 3), (2, -1, 3))
        yield Sample(t(), (2, 2))

    def errors():
        yield (t(2, 3), (3, 3)), {}, RuntimeError, "must match the existing size"
        yield (t(2, 3), (3,)), {}, RuntimeError, "number of sizes provided"


@function(
    "expand_as(input: T, other: T)",
    inline=Inline(expand, "type(other) is Tensor and other._data is not None", size="other._data.shape"),
)
def expand_as(input: Any, other: Any) -> Any:
    """Expanded to the shape of ``other``."""
    return expand(input, other.shape)


@function("broadcast_to(input: T, *size: ints)", inline=Inline(expand, "size and not kw", ints="size", least=-1))
def broadcast_to(input: Any, *size: Any, **kw: Any) -> Any:
    """Expanded to ``size``."""
    return expand(input, *size, **kw)
