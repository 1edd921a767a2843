"""masked_scatter and put: writing a run of elements where a mask or flat positions say."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.node import one_storage
from ..dispatch import FAST
from ..meta import broadcast_shapes
from ..op import function
from ..tensor import need_data, own, wrap
from ._inplace_forms import _in_place, changed, quiet
from .index import index_put_op
from .index_write import index_copy_op


@function("masked_scatter(input: T, mask: T, source: T)")
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """A copy (broadcast with ``mask``) that holds the elements of ``source``, in order, where ``mask`` is true."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.name}")
    if input.dtype is not source.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype.name} and {source.dtype.name}"
        )
    shape = broadcast_shapes(input.shape, mask.shape)
    where = need_data(mask.expand(shape), "masked_scatter").reshape(-1).nonzero()[0]
    if where.size > source.numel():
        raise RuntimeError(
            "masked_scatter: expected self and source to have enough elements: "
            f"{where.size} are needed, source has {source.numel()}"
        )
    flat = input.expand(shape).reshape(-1)
    values = source.reshape(-1).narrow(0, 0, where.size)
    return own(index_copy_op(flat, wrap(where), values, 0).view(shape))


@function("masked_scatter_(input: T, mask: T, source: T)", function=False)
def masked_scatter_(input: Any, mask: Any, source: Any) -> Any:
    """In-place form of ``masked_scatter``."""
    if type(mask) in FAST and (m := mask._data) is not None and m.dtype.kind == "b" and quiet(input, source):
        d, values = input._data, source._data
        apart = mask._st is None or not one_storage(mask._st, input._st)
        if m.shape == d.shape and apart and (n := int(np.count_nonzero(m))) <= values.size:
            d[m] = values.reshape(-1)[:n]
            changed(input)
            return input
    return _in_place(input, lambda old: masked_scatter(old, mask, source))


@function("put(input: T, index: T, source: T, accumulate: bool)")
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with elements of the flattened tensor at ``index`` replaced by ``source`` (or added to)."""
    if input.dtype is not source.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype")
    if index.dtype is not dt.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype.name}")
    if index.numel() != source.numel():
        raise IndexError("put_(): Expected source and index to have the same number of elements")
    if input.numel() == 0 and index.numel():
        raise IndexError("put_(): tried to put elements into an empty tensor")
    flat = index_put_op(input.reshape(-1), [index.reshape(-1)], source.reshape(-1), (0,), accumulate)
    return own(flat.view(input.shape))


@function("put_(input: T, index: T, source: T, accumulate: bool)", function=False)
def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """In-place form of ``put``."""
    if not accumulate and type(index) in FAST and (i := index._data) is not None and i.dtype.char == "l":
        if quiet(input, source) and i.size == source._data.size and (n := input._data.size):
            apart = index._st is None or not one_storage(index._st, input._st)
            if apart and (not i.size or -n <= int(i.min()) and int(i.max()) < n):
                input._data.reshape(-1)[i.reshape(-1)] = source._data.reshape(-1)
                changed(input)
                return input
    return _in_place(input, lambda old: put(old, index, source, accumulate), index, source)
