"""Turns the op table's samples into calls: layouts, dtypes, conversions. Used by the generated tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import fusegrad as fg
from fusegrad.op import TABLE, Op, Sample

LAYOUTS = ("contiguous", "transposed", "strided", "negative")


def lay_out(a: np.ndarray, layout: str) -> np.ndarray:
    """The same values (but for expanded ones) in another memory layout."""
    if layout == "transposed" and a.ndim >= 2:
        return np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    if layout == "strided" and a.ndim >= 1:
        wide = np.zeros((*a.shape[:-1], a.shape[-1] * 2), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]
    if layout == "turned" and a.ndim >= 2:
        return np.ascontiguousarray(a.swapaxes(0, -1)).swapaxes(0, -1)
    if layout == "expanded" and a.ndim >= 1 and a.size:  # other values: the first ones again and again
        return np.lib.stride_tricks.as_strided(a[:1].copy(), a.shape, (0, *a[:1].copy().strides[1:]))
    if layout == "expanded and turned" and a.ndim >= 2 and a.size:
        return lay_out(np.ascontiguousarray(a.swapaxes(0, -1)), "expanded").swapaxes(0, -1)
    if layout == "negative" and a.ndim >= 1:
        return np.ascontiguousarray(a[::-1])[::-1]
    return np.ascontiguousarray(a) if a.ndim else a.copy()


def is_float(a: Any) -> bool:
    return isinstance(a, np.ndarray) and a.dtype.kind == "f"


def convert(x: Any, dtype: Any, layout: str, grad: bool) -> Any:
    """Sample arguments as tensors; floating point arrays in ``dtype``, with gradients if asked."""
    if isinstance(x, np.ndarray):
        a = lay_out(x.astype(dtype) if x.dtype.kind == "f" else x, layout)
        t = fg.from_numpy(a)
        return t.requires_grad_() if grad and a.dtype.kind == "f" else t
    if isinstance(x, fg.Tensor):
        return convert(x.detach().numpy(), dtype, layout, grad)
    if isinstance(x, (list, tuple)) and any(isinstance(v, (np.ndarray, fg.Tensor)) for v in x):
        return type(x)(convert(v, dtype, layout, grad) for v in x)
    return x


def call(
    op: Op, sample: Sample, dtype: Any = np.float64, layout: str = "contiguous", grad: bool = False
) -> tuple[tuple, dict]:
    """(args, kwargs) of one sample call."""
    args = tuple(convert(a, dtype, layout, grad) for a in sample.args)
    kwargs = {k: convert(v, dtype, layout, grad) for k, v in sample.kwargs.items()}
    return args, kwargs


def samples(op: Op) -> list[Sample]:
    return list(op.samples()) if op.samples is not None else []


def tensors(tree: Any) -> list[Any]:
    return [t for t in fg.pytree.tree_flatten(tree)[0] if isinstance(t, fg.Tensor)]


def ops(*kinds: str) -> Iterator[Op]:
    for name in sorted(TABLE):
        if not kinds or TABLE[name].kind in kinds:
            yield TABLE[name]


def close(got: Any, want: Any, tol: float, what: str = "") -> None:
    """Equal shape, dtype and values."""
    a, b = (np.asarray(x.detach().numpy() if isinstance(x, fg.Tensor) else x) for x in (got, want))
    assert a.shape == b.shape, f"{what}: shape {a.shape}, expected {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, expected {b.dtype}"
    if a.dtype.kind == "f":
        np.testing.assert_allclose(a, b, rtol=tol, atol=tol, equal_nan=True, err_msg=what)
    else:
        np.testing.assert_array_equal(a, b, err_msg=what)


def plain(x: Any) -> Any:
    """Tensors as arrays, in lists too."""
    if isinstance(x, fg.Tensor):
        return x.detach().numpy()
    return type(x)(plain(v) for v in x) if isinstance(x, (list, tuple)) else x
