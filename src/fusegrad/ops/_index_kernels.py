"""Array code shared by indexing and scattering."""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..native.on_demand import defined

_UNSIGNED = {np.dtype(np.int64): np.uint64, np.dtype(np.int32): np.uint32}


_largest = np.maximum.reduce


def in_range(index: np.ndarray, n: int) -> bool:
    """Whether all of a non-empty int64 or int32 ``index`` is in [0, n): one sweep, negatives being huge unsigned."""
    if index.size <= 16:
        values = index.ravel().tolist()
        return min(values) >= 0 and max(values) < n
    return bool(_largest(index.view(_UNSIGNED[index.dtype]), None) < n)


def few_places(d: np.ndarray, dim: Any, index: Any) -> bool:
    """Whether ``index`` is a vector of few places of the vector ``d``."""
    if d.ndim != 1 or type(dim) is not int or dim and dim != -1 or type(index) is not np.ndarray:
        return False
    if index.ndim != 1 or index.dtype is not _INT64 or not 0 < len(index) <= 16:
        return False
    places = index.tolist()
    return min(places) >= 0 and max(places) < len(d)


def check_range(index: np.ndarray, n: int, dim: int, negative: bool = True) -> None:
    """IndexError for an index outside of a dimension of size ``n``."""
    if index.size == 0 or (not negative and in_range(index, n)):
        return
    if index.size <= 16:
        values = index.ravel().tolist()
        lo, hi = min(values), max(values)
    else:
        lo, hi = int(index.min()), int(index.max())
    if hi >= n or lo < (-n if negative else 0):
        bad = hi if hi >= n else lo
        if negative:
            raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {n}")
        raise IndexError(f"index out of range in self: index {bad}, dimension {dim} has size {n}")


def scatter_slots(index: np.ndarray, dim: int) -> tuple:
    """numpy's index for the elements a gather or scatter along ``dim`` touches."""
    every = (grids if index.size <= 4096 else grids.__wrapped__)(index.shape)
    return (*every[:dim], index, *every[dim + 1 :])


@functools.lru_cache(maxsize=64)
def grids(shape: tuple) -> tuple:
    """For each dimension the numbers of its elements, in a shape that broadcasts against the others."""
    return tuple([np.arange(n).reshape((-1,) + (1,) * (len(shape) - 1 - i)) for i, n in enumerate(shape)])


def add_at(out: np.ndarray, where: tuple, values: np.ndarray) -> None:
    """``out[where] += values`` where positions hit several times get all their values, in order."""
    first = where[0]
    if len(where) == 1 and out.ndim == 1 and isinstance(first, np.ndarray):
        return (np.logical_or if out.dtype.kind == "b" else np.add).at(out, first, values)
    if len(where) == 1 and isinstance(first, np.ndarray) and out.ndim > 1 and first.size:
        shape = first.shape + out.shape[1:]
        rows = values if values.shape == shape else np.broadcast_to(values, shape)
        if first.ndim == 1:
            return add_rows(out, first, rows)
        return add_rows(out, first.reshape(-1), rows.reshape(first.size, *out.shape[1:]))
    if (
        len(where) > 1
        and len(where) == 1 + sum(isinstance(w, slice) for w in where)
        and isinstance(where[-1], np.ndarray)
    ):
        axis = len(where) - 1  # one index tensor behind whole dimensions: rows of the moved array
        if where[-1].ndim == 1 and where[-1].size:
            return add_rows(
                np.moveaxis(out, axis, 0),
                where[-1],
                np.moveaxis(
                    np.broadcast_to(values, out.shape[:axis] + where[-1].shape + out.shape[axis + 1 :]), axis, 0
                ),
            )
    if out.flags.c_contiguous and all(isinstance(w, np.ndarray) for w in where) and len(where) == out.ndim:
        wide = np.broadcast_arrays(*where)
        if wide[0].size == 0:
            return None
        flat = np.ravel_multi_index(
            tuple(w % n if w.min() < 0 else w for w, n in zip(wide, out.shape, strict=True)), out.shape
        )
        return add_flat(out.reshape(-1), flat.reshape(-1), np.broadcast_to(values, flat.shape).reshape(-1))
    np.add.at(out, where, values)
    return None


def add_flat(out: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    """``out[index] += values`` for vectors; repeated positions add up."""
    values = np.ascontiguousarray(values)
    f = _adding(out, index, values)
    if f is not None and out.flags.c_contiguous and 0 < index.size and in_range(index, out.size):
        f(np.ascontiguousarray(index), values, out, _NONE, 1, out.size, index.size, 1, index.size)
    elif out.dtype == np.bool_:
        np.logical_or.at(out, index, values)
    else:
        np.add.at(out, index, values)


_NONE = np.zeros(0, np.int64)


def _adding(out: np.ndarray, index: np.ndarray, values: np.ndarray, rows: bool = False) -> Any:
    """Machine code that adds many floats at places; None for the rest."""
    if values.size < _FEW_NUMBERS or values.dtype is not out.dtype or index.dtype is not _INT64:
        return None
    return _combining("sum", True, rows)[out.dtype] if out.dtype.char in "fd" and out.flags.aligned else None


def add_rows(out: np.ndarray, index: np.ndarray, rows: np.ndarray) -> None:
    """``out[index[i]] += rows[i]``; rows of the same index are added in their order."""
    n = out.shape[0]
    if index.size <= 32:  # quicker so
        few = index.tolist()
        lo, hi = min(few), max(few)
    else:
        lo, hi = int(index.min()), int(index.max())
    if hi >= n or lo < -n:
        raise IndexError(f"index {hi if hi >= n else lo} is out of bounds for dimension 0 with size {n}")
    if lo < 0:
        index = np.where(index < 0, index + n, index)
    width = rows[0].size
    f = _adding(out, index, rows, True)
    if f is not None:
        whole = out if out.flags.c_contiguous else out.copy("C")
        rows = np.ascontiguousarray(rows)
        f(np.ascontiguousarray(index), rows, whole, _NONE, 1, n, index.size, width, index.size)
        if whole is not out:
            out[...] = whole
    elif out.dtype.kind == "b":
        np.logical_or.at(out, index, rows)
    elif width < 16 and out.flags.c_contiguous:
        flat = (index[:, None] * width + np.arange(width)).reshape(-1)
        np.add.at(out.reshape(-1), flat, np.ascontiguousarray(rows).reshape(-1))
    else:
        _add_groups(out, index, rows)


_FEW = 8  # groups of up to so many rows are added one row of each group at a time


def _add_groups(out: np.ndarray, index: np.ndarray, rows: np.ndarray) -> None:
    """Rows sorted (stably) by index: small groups level by level, large ones with one reduction each."""
    order = np.argsort(index, kind="stable")
    keys = index[order]
    starts = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    counts = np.diff(starts, append=index.size)
    small = counts <= _FEW
    at, left = starts[small], counts[small]
    for level in range(int(left.max(initial=0))):
        if level:
            more = left > level
            at, left = at[more], left[more]
        out[keys[at]] += rows[order[at + level]]
    for first, count in zip(starts[~small].tolist(), counts[~small].tolist(), strict=True):
        members = order[first : first + count]
        out[keys[first]] += np.add.reduce(rows[members], axis=0, dtype=out.dtype)


def flat_slots(shape: tuple, index: np.ndarray, dim: int) -> np.ndarray:
    """Flat positions, in a contiguous array of ``shape``, of what a gather or scatter along ``dim`` touches."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * shape[i + 1]
    flat = index * strides[dim]
    for i, n in enumerate(index.shape):
        if i != dim and n > 1:
            flat += (np.arange(n) * strides[i]).reshape((-1,) + (1,) * (index.ndim - 1 - i))
    return flat


def whole_slices(index: np.ndarray, shape: tuple, dim: int) -> np.ndarray | None:
    """The vector of an index expanded over all dimensions but ``dim``, so that it picks whole slices; or None."""
    if index.shape[:dim] != shape[:dim] or index.shape[dim + 1 :] != shape[dim + 1 :] or index.ndim < 2:
        return None
    for i, (n, st) in enumerate(zip(index.shape, index.strides, strict=True)):
        if i != dim and st != 0 and n > 1:
            return None
    return index[tuple(slice(None) if i == dim else 0 for i in range(index.ndim))]


_INT64, _LITTLE = dt.int64.np, 4096  # elements: beyond, kernels whose columns are vectors
_FEW_NUMBERS = 512  # below, numpy's passes
SCATTER_ADD, INDEX_ADD = defined("picks", "scatter_add"), defined("picks", "index_add")


def along(index: np.ndarray, dim: int) -> tuple:
    """numpy's index for whole slices at a vector of places along ``dim``."""
    return (*(slice(None),) * dim, index)


def added(
    kernels: Any, a: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, *, into: bool = False
) -> np.ndarray | None:
    """``scatter_add`` or ``scatter`` (``index_add``, ``index_copy``: the index is a vector) in machine code; None for
    the rest, and for what is wrong: shapes, dtypes, indices. ``into``: it changes ``a`` (contiguous) and no copy.
    """
    shape, given, picks = a.shape, src.shape, index.shape
    if not index.flags.c_contiguous or not src.size:
        return None
    if not src.flags.c_contiguous:
        src = src.copy("C")
    if not index.size or not a.size:  # a wrong index is told of after the loop, which writes to place 0 for it
        return None
    if src.dtype is not a.dtype or index.dtype is not _INT64 or not len(given) == len(shape) > dim:
        return None
    before, behind = shape[:dim], shape[dim + 1 :]
    if given[:dim] != before or given[dim + 1 :] != behind:
        return None
    rows, puts = kernels is INDEX_ADD or kernels is INDEX_COPY, kernels is INDEX_COPY or kernels is SCATTER
    if rows:
        n = picks[0] if len(picks) == 1 and picks[0] == given[dim] else None
    else:
        fits = len(picks) == len(shape) and picks[dim] <= given[dim]
        n = picks[dim] if fits and picks[:dim] == before and picks[dim + 1 :] == behind else None
    if n is None:
        return None
    much = puts or src.size > _LITTLE
    f = (_combining("sum", True, rows) if much and not puts else kernels)[a.dtype]
    if f is None:
        return None
    if into and not in_range(index, shape[dim]):
        return None  # nothing may be added before the index that is wrong
    out = a if into else a.copy("C")
    try:
        f(index, src, out, *((_NONE,) if much else ()), prod(before), shape[dim], n, prod(behind), given[dim])
    except IndexError:
        return None  # explained by numpy's path
    return out


def combined(a: np.ndarray, index: np.ndarray, src: np.ndarray, dim: int, how: str, own: bool) -> np.ndarray | None:
    """``scatter_reduce`` (and ``scatter``, "put") in machine code, whole slices as rows; None for what numpy does."""
    shape, picks = a.shape, index.shape
    if src.dtype is not a.dtype or index.dtype is not _INT64 or a.dtype.char not in "fd" or not a.size * index.size:
        return None
    before, behind, m = shape[:dim], shape[dim + 1 :], picks[dim]
    if len(src.shape) != len(shape) or src.shape[:dim] != before or src.shape[dim + 1 :] != behind:
        return None
    if picks[:dim] != before or picks[dim + 1 :] != behind or not 0 < m <= src.shape[dim]:
        return None
    places = whole_slices(index, shape, dim)
    f = _combining(how, own, places is not None)[a.dtype]
    if f is None:
        return None
    count = np.zeros((a.size if places is None else shape[dim]) if how == "mean" else 0, _INT64)
    places = np.ascontiguousarray(index if places is None else places)
    out = a.copy("C")
    try:
        f(places, np.ascontiguousarray(src), out, count, prod(before), shape[dim], m, prod(behind), src.shape[dim])
    except IndexError:
        return None
    return out


@functools.cache
def _combining(how: str, own: bool, rows: bool) -> Any:
    return defined("picks", "scatter_reduce", how, own, rows)


SCATTER, INDEX_COPY = _combining("put", True, False), _combining("put", True, True)


def same_dtype(name: str, m: Any, src: Any) -> None:
    if m.dtype != src.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
