"""Where in a storage two graph tensors would be: for the refusal of in-place operators on overlapping operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.sizes import SymInt, hint_of
from fusegrad.tensor import wrap

__all__ = ["places"]

Chain = tuple[tuple[Any, dict[str, Any], int], ...]  # (view operator, attributes, output number) from the storage on


def places(meta: Any, a: Chain, b: Chain, whole: bool = False) -> tuple[np.ndarray, np.ndarray] | None:
    """Arrays, never read, that lie to each other as the views ``a`` and ``b`` of a storage described by ``meta``.

    None: the two are the same view (unless ``whole``), or certainly apart. Symbolic sizes that the answer depends on
    are guarded where guards are allowed; an export decides by the sizes of its example.
    """
    if (a == b and not whole) or _apart(a, b):
        return None
    shape = tuple(map(_number, meta.shape))
    strides = tuple(_number(s) for s in meta.stride())
    if 0 in shape or any(s < 0 for s in strides):
        return None
    item = np.dtype(meta.dtype.np)
    reach = 1 + sum(s * (n - 1) for s, n in zip(strides, shape, strict=True))
    memory = np.empty(reach, item)  # untouched pages cost nothing
    base = np.lib.stride_tricks.as_strided(memory, shape, [s * item.itemsize for s in strides])
    return _replayed(base, a), _replayed(base, b)


def _replayed(base: np.ndarray, chain: Chain) -> np.ndarray:
    t: Any = wrap(base)
    for op, attrs, out in chain:
        found = op.replay(t, {k: _numbers(v) for k, v in attrs.items()})
        t = found if not isinstance(found, (tuple, list)) else found[out]
    data: np.ndarray = t._data
    return data


def _apart(a: Chain, b: Chain) -> bool:
    """Whether the views part at different indices of one dimension, or at different results of one operator."""
    for (op, attrs, out), (other, others, number) in zip(a, b, strict=False):
        if op is not other:
            return False
        if attrs != others:
            i, k = attrs.get("index"), others.get("index")
            return op.name == "select" and attrs["dim"] == others["dim"] and _distinct(i, k)
        if out != number:
            return True
    return False


def _distinct(i: Any, k: Any) -> bool:
    return type(i) is int and type(k) is int and i != k and (i < 0) == (k < 0)


def _number(s: Any) -> int:
    if isinstance(s, SymInt) and s.ctx.mode != "guard":
        return hint_of(s)
    return s.__index__()  # type: ignore[no-any-return]


def _numbers(v: Any) -> Any:
    if isinstance(v, SymInt):
        return _number(v)
    return tuple(map(_numbers, v)) if isinstance(v, tuple) else v
