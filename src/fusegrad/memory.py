"""Where the elements of a tensor lie in memory: ``stride``, ``storage_offset``, ``data_ptr``."""

from __future__ import annotations

import functools
from typing import Any

from .meta import contiguous_strides, normalize_dim, steps_of
from .place import root_array
from .tensor import Tensor, need_data

_dense_steps = functools.lru_cache(4096)(contiguous_strides)


def stride(self: Tensor, dim: int | None = None) -> Any:
    """Steps in elements between neighbours along each dimension (or along one)."""
    d = self._data
    if d is not None:
        s = _dense_steps(d.shape) if d.flags.c_contiguous else steps_of(d)
    elif (m := self._g.meta).strides is None or self.is_contiguous():
        s = contiguous_strides(m.shape)
    else:
        s = m.strides
    return s if dim is None else s[normalize_dim(dim, len(s))]


def storage_offset(self: Tensor) -> Any:
    """Distance in elements from the start of the storage."""
    if self._data is None:
        return getattr(self._g, "offset", 0)
    d = self._data
    root = root_array(d)
    return (d.__array_interface__["data"][0] - root.__array_interface__["data"][0]) // d.itemsize


def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    return need_data(self, "data_ptr").__array_interface__["data"][0]


def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


for _method in (stride, storage_offset, data_ptr, element_size):
    setattr(Tensor, _method.__name__, _method)
