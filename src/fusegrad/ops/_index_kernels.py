"""Array code shared by indexing and scattering."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_range(index: np.ndarray, n: int, dim: int, negative: bool = True) -> None:
    """IndexError for an index outside of a dimension of size ``n``."""
    if index.size == 0:
        return
    lo, hi = int(index.min()), int(index.max())
    if hi >= n or lo < (-n if negative else 0):
        bad = hi if hi >= n else lo
        if negative:
            raise IndexError(f"index {bad} is out of bounds for dimension {dim} with size {n}")
        raise IndexError(f"index out of range in self: index {bad}, dimension {dim} has size {n}")


def scatter_slots(index: np.ndarray, dim: int) -> tuple:
    """numpy's index for the elements a gather or scatter along ``dim`` touches."""
    grids: list[Any] = [np.arange(n).reshape((-1,) + (1,) * (index.ndim - 1 - i)) for i, n in enumerate(index.shape)]
    grids[dim] = index
    return tuple(grids)


def add_at(out: np.ndarray, where: tuple, values: np.ndarray) -> None:
    """``out[where] += values`` where positions hit several times get all their values, in order."""
    first = where[0]
    if len(where) == 1 and isinstance(first, np.ndarray) and out.ndim > 1 and first.size:
        return add_rows(
            out,
            first.reshape(-1),
            np.broadcast_to(values, first.shape + out.shape[1:]).reshape(first.size, *out.shape[1:]),
        )
    if out.flags.c_contiguous and all(isinstance(w, np.ndarray) for w in where) and len(where) == out.ndim:
        wide = np.broadcast_arrays(*where)
        if wide[0].size == 0:
            return None
        flat = np.ravel_multi_index(
            tuple(w % n if w.min() < 0 else w for w, n in zip(wide, out.shape, strict=True)), out.shape
        )
        return _add_flat(out.reshape(-1), flat.reshape(-1), np.broadcast_to(values, flat.shape).reshape(-1))
    np.add.at(out, where, values)
    return None


def _add_flat(out: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    if out.dtype == np.bool_:
        np.logical_or.at(out, index, values)
    else:
        np.add.at(out, index, np.ascontiguousarray(values))


def add_rows(out: np.ndarray, index: np.ndarray, rows: np.ndarray) -> None:
    """``out[index[i]] += rows[i]``. Rows of the same index are added up first (sorted, stable), then added once."""
    n = out.shape[0]
    lo, hi = int(index.min()), int(index.max())
    if hi >= n or lo < -n:
        raise IndexError(f"index {hi if hi >= n else lo} is out of bounds for dimension 0 with size {n}")
    if lo < 0:
        index = np.where(index < 0, index + n, index)
    width = rows[0].size
    if width < 8 or out.dtype.kind == "b":
        if out.dtype.kind == "b":
            np.logical_or.at(out, index, rows)
        else:
            np.add.at(out, index, rows)
        return
    order = np.argsort(index, kind="stable")
    sorted_index = index[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_index[1:] != sorted_index[:-1])))
    if starts.size == index.size:
        out[index] += rows
    else:
        out[sorted_index[starts]] += np.add.reduceat(rows[order], starts, axis=0, dtype=out.dtype)
