"""``segment_reduce``: sums, means, products and extrema over runs of elements that follow each other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes
from ..meta import Meta, normalize_dim
from ..op import Sample, function, op
from ..tensor import Tensor
from .shape import cat

_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
_SCATTER = {"sum": "sum", "mean": "sum", "prod": "prod", "max": "amax", "min": "amin"}


@op("_segment_ids(lengths: T, n: int, unsafe: bool = False)", kind="extern", method=False, function=False, nondiff=True)
class _segment_ids:
    """For ``lengths`` of shape [..., s] the segment of each of n elements, [..., n]; s for those after the last."""

    def kernel(lengths: np.ndarray, n: int, unsafe: bool = False) -> np.ndarray:
        if (lengths < 0).any():
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        ends = lengths.cumsum(-1)
        if lengths.shape[-1] and ((ends[..., -1] > n).any() or not unsafe and (ends[..., -1] != n).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when "
                f"!unsafe: the elements are {n}"
            )
        return (np.arange(n)[:, None] >= ends[..., None, :]).sum(-1, dtype=np.int64)

    def meta(lengths: Meta, n: int, unsafe: bool = False) -> Meta:
        return Meta((*lengths.shape[:-1], n), dtypes.int64)

    def samples() -> Iterator[Sample]:
        yield Sample(np.array([2, 0, 3]), 5, grad=False)
        yield Sample(np.array([[2, 1], [0, 2]]), 4, True, grad=False)


def _checked(data: Tensor, reduce: Any, lengths: Any, offsets: Any, indices: Any, axis: int) -> tuple[Tensor, int]:
    """Lengths and axis, or the error for arguments that do not fit."""
    if reduce not in _START:
        raise RuntimeError(f"segment_reduce(): reduce must be one of {', '.join(_START)}, got {reduce}")
    if data.ndim == 0 or data.numel() == 0 and data.ndim > 1:
        raise RuntimeError("segment_reduce(): data must have at least one dimension and elements")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported: pass lengths or offsets")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not data.is_floating_point():
        raise NotImplementedError(f'"segment_reduce" not implemented for {data.dtype.name}: pass floating point data')
    where = offsets if offsets is not None else lengths
    if where.dtype not in (dtypes.int32, dtypes.int64):
        raise NotImplementedError(f'"segment_reduce" not implemented for {where.dtype.name} lengths: pass integers')
    axis = normalize_dim(axis, data.ndim)
    if axis != where.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}: lengths have "
            f"{where.ndim} dimensions"
        )
    if tuple(where.shape[:-1]) != tuple(data.shape[:axis]):
        raise RuntimeError(f"segment_reduce(): lengths {list(where.shape)} do not fit data {list(data.shape)}")
    if offsets is None:
        return lengths, axis
    return cat([offsets.narrow(-1, 0, 1), offsets.diff()], -1), axis  # what comes before the first is a run as well


@function(
    "segment_reduce(data: T, reduce: str, lengths: T?, indices: T?, offsets: T?, axis: int, unsafe: bool)", method=False
)
def segment_reduce(
    data: Any,
    reduce: Any,
    *,
    lengths: Any = None,
    indices: Any = None,
    offsets: Any = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Any:
    """``reduce`` (sum, mean, prod, max or min) of runs along ``axis``: of ``lengths`` elements each, or between
    ``offsets``. ``initial`` takes part in every run; without it empty ones give 0, NaN, 1, -inf or inf."""
    lengths, axis = _checked(data, reduce, lengths, offsets, indices, axis)
    n, count, first = data.shape[axis], lengths.shape[-1], int(offsets is not None)
    ids = _segment_ids(lengths, n, unsafe or first == 1)
    ids = ids.reshape((*ids.shape, *[1] * (data.ndim - axis - 1))).expand(data.shape)
    start = _START[reduce] if initial is None else initial
    base = data.detach().new_full((*data.shape[:axis], count + 1, *data.shape[axis + 1 :]), start)
    out = base.scatter_reduce(axis, ids, data, _SCATTER[reduce]).narrow(axis, first, count - first)
    if reduce != "mean":
        return out
    lengths = lengths.narrow(-1, first, count - first)
    sizes = lengths.reshape((*lengths.shape, *[1] * (data.ndim - axis - 1)))
    if initial is not None:  # an empty run is its initial value
        sizes = sizes.clamp(min=1)
    return out / sizes.to(data.dtype)
