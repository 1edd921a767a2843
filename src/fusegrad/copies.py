"""Copies of tensors: ``copy.copy`` (the same memory), ``copy.deepcopy``, pickling."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .autograd.modes import STATE
from .place import root_array
from .tensor import Tensor, alias, extra_of, need_data, wrap


def _copy(self: Tensor) -> Tensor:
    """Another leaf on the same memory, without a gradient."""
    out = alias(self, type(self))
    out._rg = self.requires_grad
    out.__dict__.update(self.__dict__)
    return out


def _deepcopy(self: Tensor, memo: dict) -> Tensor:
    """A leaf on memory of its own; copies of tensors that shared memory share it again. RuntimeError for a non-leaf."""
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            "moment. Use detach().clone() instead."
        )
    if id(self) in memo:
        return memo[id(self)]
    out = wrap(_copied_array(need_data(self, "deepcopy"), memo), type(self))
    out._rg = self._rg
    if STATE.inference:
        extra_of(out).inference = True
    memo[id(self)] = out
    if self._grad is not None and type(self).copies_grad:
        out._grad = self._grad.__deepcopy__(memo)  # type: ignore[operator]
    out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return out


def _copied_array(d: np.ndarray, memo: dict) -> np.ndarray:
    """A copy of ``d``; if it is a part of another array, the same part of a copy of that."""
    root = root_array(d)
    if root is d and not d.size or not (root.flags.c_contiguous and root.dtype is d.dtype):
        return d.copy()
    new = memo.get(id(root))
    if new is None:
        new = memo[id(root)] = root.copy()
        memo.setdefault(id(memo), []).append(root)  # keeps the id taken, as copy.deepcopy does
    if root is d:
        return new
    offset = d.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return np.ndarray(d.shape, d.dtype, new, offset, d.strides)


def _reduce_ex(self: Tensor, protocol: Any) -> tuple:
    """What pickle keeps: class, values, ``requires_grad`` (the copy is a leaf) and attributes."""
    state = dict(self.__dict__) or None
    return _rebuild, (type(self), need_data(self, "pickle").copy(), self.requires_grad, state)


def _rebuild(cls: type, array: np.ndarray, rg: bool, state: dict | None) -> Tensor:
    out = wrap(array, cls)
    out._rg = rg
    if state:
        out.__dict__.update(state)
    return out


Tensor.__copy__ = _copy  # type: ignore[attr-defined]
Tensor.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]
Tensor.__reduce_ex__ = _reduce_ex  # type: ignore[method-assign, assignment]
