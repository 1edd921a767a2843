"""Sums of weighted slices along a dimension, by tables: what resampling of images is, and its derivative.

The derivative of a table is the transposed table in the same form, so both are gathers: nothing is added at indices.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..meta import Meta
from ..native.on_demand import defined
from ..op import Sample, op
from ._data import t

WRITTEN_OUT = 12  # taps
_KERNELS = {
    (rows, taps): defined("pairs", "weighted_slices", rows, taps)
    for rows in (True, False)
    for taps in range(WRITTEN_OUT + 1)
}


def tables(places: np.ndarray, weights: np.ndarray, n_in: int) -> tuple[np.ndarray, np.ndarray]:
    """The transposed form of [taps, n_out] tables: those of the slices of the input, padded by place -1, weight 0."""
    taps, n_out = places.shape
    flat = places.reshape(-1)
    order = np.argsort(flat, kind="stable")
    order = order[np.count_nonzero(flat < 0) :]  # none at -1
    counts = np.bincount(flat[order], minlength=n_in)
    rank = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    back = np.full((max(int(counts.max()), 1), n_in), -1, np.int64)
    back_weights = np.zeros(back.shape, weights.dtype)
    back[rank, flat[order]] = order % n_out
    back_weights[rank, flat[order]] = weights.reshape(-1)[order]
    return back, back_weights


def _windows(places: np.ndarray, weights: np.ndarray) -> list[tuple[int, int]] | None:
    """(start, end) of the slices that are summed, where these are neighbours, for results of many each."""
    counts = (places >= 0).sum(0)
    taps = np.arange(len(places))[:, None]
    if not np.array_equal(np.where(taps < counts, places[0] + taps, -1), places) or (weights != (places >= 0)).any():
        return None
    return [*zip(places[0].tolist(), (places[0] + counts).tolist(), strict=True)]


@op(
    "weighted_slices(input: T, places: T, weights: T, back: T, back_weights: T, dim: dim)",
    kind="extern",
    method=False,
    function=False,
)
class weighted_slices:
    """Along ``dim``, slice i of the result is the sum over k of weights[k, i] times slice places[k, i] of the input.

    A place of -1 adds nothing. ``back``, ``back_weights``: the transposed tables, for the gradient.
    """

    def kernel(input, places, weights, back, back_weights, dim):
        n = input.shape[dim]
        if places.size and not (-1 <= places.min() and places.max() < n):
            raise IndexError("weighted_slices: a place is outside of the input")
        taps, m = places.shape
        shape = (*input.shape[:dim], m, *input.shape[dim + 1 :])
        inner = math.prod(shape[dim + 1 :])
        f = (
            _KERNELS[inner == 1, taps if taps <= WRITTEN_OUT else 0][input.dtype]
            if weights.dtype is input.dtype
            else None
        )
        if f is None:
            turned = [1] * input.ndim
            turned[dim] = m
            parts = [
                np.where((p < 0).reshape(turned), 0, input.take(np.maximum(p, 0), dim) * w.reshape(turned))
                for p, w in zip(places, weights, strict=True)
            ]
            return np.ascontiguousarray(sum(parts[1:], parts[0])).astype(input.dtype, copy=False)
        out = np.empty(shape, input.dtype)
        if taps > WRITTEN_OUT and (bounds := _windows(places, weights)) is not None:
            before = (slice(None),) * dim
            for i, (a, b) in enumerate(bounds):
                out[(*before, i)] = np.add.reduce(input[(*before, slice(a, b))], dim)
            return out
        x, places, weights = map(np.ascontiguousarray, (input, places, weights))
        f(x, places, weights, out, math.prod(shape[:dim]), n, m, taps, *(() if inner == 1 else (inner,)))
        return out

    def meta(input, places, weights, back, back_weights, dim):
        return Meta((*input.shape[:dim], places.shape[1], *input.shape[dim + 1 :]), input.dtype)

    def vjp_input(g, places, weights, back, back_weights, dim):
        return weighted_slices(g, back, back_weights, places, weights, dim)

    def decompose(input, places, weights, back, back_weights, dim):
        shape = tuple(places.shape[1] if i == dim else 1 for i in range(input.ndim))
        total: Any = None
        for k in range(int(places.shape[0])):
            place = places.select(0, k)
            part = input.index_select(dim, place.clamp(min=0)) * weights.select(0, k).reshape(shape)
            part = part.masked_fill((place < 0).reshape(shape), 0)
            total = part if total is None else total + part
        return total

    def ref(input, places, weights, back, back_weights, dim):
        moved = np.moveaxis(input, dim, -1)
        out = (np.where(places < 0, 0, moved[..., np.maximum(places, 0)] * weights)).sum(-2)
        return np.moveaxis(out, -1, dim)

    def samples():
        places = np.array([[0, 1, 1, 2], [1, 1, 2, 2]])
        weights = np.array([[0.5, 1, 0.25, 2], [0.5, -1, 0.75, 0]])
        for kind in (np.float32,):
            given = weights.astype(kind)
            yield Sample(t(2, 3), places, given, *tables(places, given, 3), 1, grad=False)
            yield Sample(t(3, 2), places, given, *tables(places, given, 3), 0, grad=False)


def along(x: Any, dim: int, places: list[np.ndarray], weights: list[np.ndarray]) -> Any:
    """The sum of the slices of a float32 or float64 tensor at ``places``, each times its weight."""
    from ..tensor import wrap

    table = np.ascontiguousarray(np.stack(places), np.int64)
    given = np.ascontiguousarray(np.stack(weights)).astype(x.dtype.np)
    back = tables(table, given, int(x.shape[dim]))
    return weighted_slices(x, wrap(table), wrap(given), *map(wrap, back), dim)
