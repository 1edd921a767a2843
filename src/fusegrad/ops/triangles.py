"""The lower and upper triangle of matrices."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..meta import Meta
from ..op import Sample, op
from ._samples import t


def _need_matrix(name: str, ndim: int) -> None:
    if ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")


@functools.lru_cache(maxsize=64)
def _mask(fn: Any, n: int, m: int, diagonal: int) -> np.ndarray:
    """Which elements of a small matrix ``fn`` (tril or triu) keeps."""
    return fn(np.ones((n, m), np.bool_), diagonal)


@functools.lru_cache(maxsize=16)
def _nothing(dtype: np.dtype) -> np.ndarray:
    return np.zeros((), dtype)


def _triangle(name: str, fn: Any, keep_rule: Any) -> dict[str, Any]:
    def kernel(a, diagonal=0):
        _need_matrix(name, a.ndim)
        if a.size <= 4096 and a.shape[-1] * a.shape[-2] <= 4096:
            return np.ascontiguousarray(np.where(_mask(fn, *a.shape[-2:], diagonal), a, _nothing(a.dtype)))
        return np.ascontiguousarray(fn(a, diagonal))

    def meta(m, diagonal=0):
        _need_matrix(name, m.ndim)
        return Meta(m.shape, m.dtype)

    def scalar(b, x, diagonal=0):
        return b.where(keep_rule(b, diagonal), x, b.const(0, x.dtype))

    return {"kernel": kernel, "meta": meta, "scalar": scalar, "ref": fn}


def _triangle_samples() -> Any:
    yield Sample(t(3, 4))
    yield Sample(t(2, 3, 3), 1)
    yield Sample(t(4, 3), -1)


@op("tril(input: T, diagonal: int = 0)", kind="pointwise", inplace=True)
class tril:
    """The part of matrices on and below a diagonal; zero elsewhere. RuntimeError below two dimensions."""

    _p = _triangle("tril", np.tril, lambda b, k: b.index(-1) - b.index(-2) <= k)
    kernel, meta, scalar, ref = _p["kernel"], _p["meta"], _p["scalar"], _p["ref"]
    samples = _triangle_samples

    def vjp(g, diagonal):
        return tril(g, diagonal)


@op("triu(input: T, diagonal: int = 0)", kind="pointwise", inplace=True)
class triu:
    """The part of matrices on and above a diagonal; zero elsewhere. RuntimeError below two dimensions."""

    _p = _triangle("triu", np.triu, lambda b, k: b.index(-1) - b.index(-2) >= k)
    kernel, meta, scalar, ref = _p["kernel"], _p["meta"], _p["scalar"], _p["ref"]
    samples = _triangle_samples

    def vjp(g, diagonal):
        return triu(g, diagonal)
