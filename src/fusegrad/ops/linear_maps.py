"""Linear maps of small images (means over windows, interpolation) as one operator with a remembered matrix.

Such functions are several operators, or several passes over the positions in a window. What they do follows from sizes
and arguments alone: the function runs once on unit vectors (and on NaN, which shows what it reads, also with weight 0),
and each result of a small image is then a sum over the elements that it is made of, and over no others.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.modes import SLOW
from ..dispatch import FAST
from ..meta import Meta
from ..native.on_demand import defined
from ..op import Sample, op
from ..tensor import wrap
from ._nn import data

__all__ = ["linear_map", "map_call", "map_key", "mean_map", "plain_image", "run_map"]

_MANY = 1 << 18  # places of a matrix: beyond, the function itself runs
_KERNELS = defined("windows", "weighted")
_MAPS: dict[str, Callable[..., Any]] = {}
"""Name of a map -> the function of a tensor (N, C, *S) and of numbers that it is."""


class _Matrix:
    """The rows of a matrix: at which elements, times what, the elements and the results divided by what; the sizes of
    a result."""

    def __init__(self, index: np.ndarray, weight: np.ndarray, before: np.ndarray, over: np.ndarray, to: tuple) -> None:
        self.to = to
        self.calls: dict[tuple, tuple] = {}
        self.parts: dict[Any, tuple] = {}
        for c in "fd":
            self.parts[np.dtype(c)] = index, weight.astype(c), before.astype(c), over.astype(c)

    def call(self, shape: tuple, dtype: np.dtype) -> tuple:
        """What ``run_map`` needs for arrays of a shape: machine code, the shape of the result, matrices, sizes."""
        if (found := self.calls.get((shape, dtype))) is not None:
            return found
        if len(self.calls) >= 64:
            self.calls.clear()
        index, _, before, _ = parts = self.parts[dtype]
        lead = shape[: -len(self.to)]
        sizes = math.prod(lead), before.size, *index.shape
        found = self.calls[shape, dtype] = _KERNELS[dtype], (*lead, *self.to), parts, sizes
        return found


def run_map(x: np.ndarray, f: Any, to: tuple, parts: tuple, sizes: tuple) -> np.ndarray:
    """The sums that a matrix says; the rest is what ``_Matrix.call`` gives."""
    x = x if x.flags.c_contiguous else np.ascontiguousarray(x)
    y = np.empty(to, x.dtype)
    if f is not None:
        f(x, *parts, y, *sizes)
    else:
        planes, (index, weight, before, over) = sizes[0], parts
        each = x.reshape(planes, -1) / before
        read = np.where(index < 0, x.dtype.type(0), each[:, index])
        np.divide((read * weight).sum(2), over, out=y.reshape(planes, -1))
    return y


def _rows(reads: np.ndarray, values: np.ndarray, again: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(indices, weights) of a matrix: where ``values`` count (``reads``), what is read again with weight 0."""
    n = reads.shape[1]
    if again.any():
        reads, values = np.hstack([reads, again]), np.hstack([values, np.zeros_like(values)])
    most = max(1, int(reads.sum(1).max()))
    order = np.argsort(~reads, 1, kind="stable")[:, :most]
    there = np.take_along_axis(reads, order, 1)
    index = np.where(there, order % n, -1).astype(np.int64)
    return index, np.where(there, np.take_along_axis(values, order, 1), 0)


@functools.lru_cache(maxsize=256)
def _matrices(key: str) -> tuple[_Matrix, _Matrix]:
    """The map that ``key`` tells of, and its transpose."""
    name, size, args = ast.literal_eval(key)
    area = math.prod(size)
    eye = np.eye(area)

    def run(x: np.ndarray) -> np.ndarray:
        return _MAPS[name](wrap(x.reshape(area, 1, *size)), *args)._data

    y = run(eye)
    to = y.shape[2:]
    values = y.reshape(area, -1).T
    reads = np.isnan(run(np.where(eye == 1, np.nan, 0))).reshape(area, -1).T
    with np.errstate(all="ignore"):
        # an element that is read several times may give infinity minus infinity, or times 0
        mixed = np.isnan(run(np.where(eye == 1, np.inf, 0))).reshape(area, -1).T
        again = mixed & (values != 0)
        largest = np.max(values, 1, initial=0.0, where=reads)
        whole = np.rint(1 / largest)
        mean = np.all((values == largest[:, None]) | ~reads, 1) & (np.abs(1 / largest - whole) <= 1e-9 * whole)
    over = np.where(mean, whole, 1.0)  # a mean is a sum divided by a number: exact as the function is
    values, ones = np.where(mean[:, None] & reads, 1.0, values), np.ones(area)
    forward = _Matrix(*_rows(reads, values, again), ones, over, to)
    # the last results first, as where a pass for each position in a window adds to the gradient
    index, weight = _rows(*(m.T[:, ::-1] for m in (reads, values, again)))
    index = np.where(index < 0, -1, len(over) - 1 - index)
    return forward, _Matrix(index, weight, over, ones, size)


def map_call(key: str, shape: tuple, dtype: np.dtype) -> tuple:
    """What ``run_map`` needs for the map that ``key`` tells of."""
    return _matrices(key)[0].call(shape, dtype)


def _entry(name: str, rooted: bool) -> Any:
    """An operator for maps; ``rooted``: see ``autograd.rooted``."""

    class linear:
        """A linear map of (N, C, *S) or (C, *S), or (``back``) its transpose."""

        def meta(x, key, back):
            forward, transposed = _matrices(key)
            to = (transposed if back else forward).to
            return Meta((*x.shape[: -len(to)], *to), x.dtype)

        def kernel(x, key, back):
            forward, transposed = _matrices(key)
            return run_map(x, *(transposed if back else forward).call(x.shape, x.dtype))

        def vjp_input(g, key, back):
            return entry(g, key, not back)

        def samples():
            yield Sample(data(2, 3, 4), "('halves', (4,), ())")
            yield Sample(data(2, 1, 2), "('halves', (4,), ())", True)
            yield Sample(data(3, 4), "('halves', (4,), ())")

    linear.rooted = rooted  # type: ignore[attr-defined]
    entry = op(f"{name}(input: T, key: str, back: bool = False)", kind="extern", method=False, function=False)(linear)
    return entry


_linear_map = _entry("_linear_map", False)
_mean_map = _entry("_mean_map", True)
_MAPS["halves"] = lambda x: (x[..., ::2] + x[..., 1::2]) / 2


def plain_image(input: Any, nd: int, single: bool = False) -> Any:
    """The array of a plain floating point tensor (N, C, *S) with elements, else None. ``single``: (C, *S) as well."""
    if SLOW[0] or type(input) not in FAST:
        return None
    a = input._data
    if a is None or a.ndim != nd + 2 and not (single and a.ndim == nd + 1):
        return None
    return a if a.dtype.char in "fd" and a.size else None


@functools.lru_cache(maxsize=512, typed=True)
def _key(name: str, size: tuple, *args: Any) -> str | None:
    """The text that stands for a map in the graph; None for a large one, and where the function refuses."""
    area = math.prod(size)
    if area * 4 > _MANY:
        return None
    try:
        out = _MAPS[name](wrap(np.zeros((1, 1, *size))), *args)
    except (RuntimeError, ValueError, TypeError, ArithmeticError):
        return None
    return repr((name, size, args)) if 0 < out.numel() * area <= _MANY else None


def map_key(name: str, function: Callable[..., Any], size: tuple, *args: Any) -> str | None:
    """The attribute of the operator that is ``function`` for images of a size; None where there is none."""
    _MAPS.setdefault(name, function)
    try:
        return _key(name, size, *args)
    except TypeError:  # arguments that cannot be remembered
        return None


def linear_map(name: str, function: Callable[..., Any], input: Any, nd: int, *args: Any, mean: bool = False) -> Any:
    """``function(input, *args)`` by its matrix, or None where the function itself has to run.

    ``args``: plain values, numbers in them of exact types, and of tuples at most of ints. ``mean``: it has PyTorch's
    gradients that stay in the graph, and takes (C, *S), too.
    """
    a = plain_image(input, nd, mean)
    if a is None:
        return None
    key = map_key(name, function, a.shape[-nd:], *args)
    return None if key is None else (_mean if mean else _linear)(input, key)


_linear, _mean = _linear_map.fn, _mean_map.fn
mean_map = _mean_map
