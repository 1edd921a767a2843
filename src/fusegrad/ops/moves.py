"""Elements moved to places that follow from shapes alone: repeat, roll, padding by reflection, pixel_shuffle...

Such functions are several operators. Of a small tensor the result is one gather instead: the function runs once on the
numbers of the elements, and where they went is remembered.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.modes import SLOW
from ..dispatch import FAST
from ..meta import Meta
from ..op import Sample, op
from ..tensor import Tensor, wrap
from ._index_kernels import add_flat
from ._samples import t
from .index import index_backward, index_op

_FEW = 4096  # elements: beyond, slices copied one after the other are quicker than a gather


@op("flat_take(input: T, index: T)", kind="gather", method=False, function=False)
class flat_take:
    """``input.reshape(-1)[index]`` for int64 positions of any shape, all of them inside."""

    def kernel(a, index):
        return a.reshape(-1).take(index)

    def meta(m, index):
        return Meta(index.shape, m.dtype)

    def vjp_input(g, input_meta, index):
        return flat_put(g, index, input_meta.shape)

    def decompose(input, index):
        return index_op(input.reshape((-1,)), [index], (0,))

    def samples():
        yield Sample(t(2, 3), np.array([[0, 5, 5], [1, 2, 0]]))
        yield Sample(t(4), np.array([3, 0]))


@op("flat_put(grad: T, index: T, size: ints)", kind="gather", method=False, function=False)
class flat_put:
    """Zeros of ``size`` with ``grad`` added at the positions: the transpose of ``flat_take``."""

    def kernel(g, index, size):
        out = np.zeros(size, g.dtype)
        add_flat(out.reshape(-1), index.reshape(-1), g.reshape(-1))
        return out

    def meta(g, index, size):
        return Meta(size, g.dtype)

    def vjp_grad(g, index):
        return flat_take(g, index)

    def decompose(grad, index, size):
        n = 1
        for s in size:
            n = n * s
        return index_backward(grad.reshape((-1,)), [index.reshape((-1,))], (n,), (0,)).reshape(size)

    def samples():
        yield Sample(t(2, 3), np.array([[0, 5, 5], [1, 2, 0]]), (2, 3))


def moved(function: Callable[..., Any], input: Any, *args: Any) -> Any:
    """``function(input, *args)``, which must only move elements to a new tensor; ``args`` can be hashed."""
    a = input._data if type(input) is Tensor or type(input) in FAST else None
    if a is None or SLOW[0] or not 0 < a.size <= _FEW:
        return function(input, *args)
    index = _places(function, a.shape, args)
    return function(input, *args) if index is None else _take(input, index)


_take = flat_take.fn


@functools.lru_cache(maxsize=512)
def _places(function: Callable[..., Any], shape: tuple, args: tuple) -> Tensor | None:
    """The number of the element that stands at each place of the result; None if there are too many."""
    found = function(wrap(np.arange(math.prod(shape)).reshape(shape)), *args)._data
    return wrap(np.array(found, order="C")) if found.size <= 4 * _FEW else None
