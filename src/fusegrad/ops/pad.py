"""Padding and one-hot coding."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import SLOW
from ..autograd.names import named
from ..autograd.rooted import rooted
from ..dispatch import FAST
from ..meta import Meta, surely_less
from ..op import Inline, Sample, function, late_function, op
from ..size_values import known_ge, varies
from ..tensor import need_data
from ._index_kernels import grids, in_range
from ._samples import t
from .moves import moved

cat = late_function("cat")


def _grow(shape: Any, pad: tuple) -> tuple:
    n = len(shape)
    return tuple(
        s + pad[2 * (n - 1 - i)] + pad[2 * (n - 1 - i) + 1] if n - 1 - i < len(pad) // 2 else s
        for i, s in enumerate(shape)
    )


def _windows(shape: Any, pad: tuple) -> tuple[tuple, tuple]:
    """(where the input goes in the result, which part of the input): negative pads cut."""
    n, dst, src = len(shape), [], []
    for i, s in enumerate(shape):
        k = n - 1 - i
        lo, hi = (pad[2 * k], pad[2 * k + 1]) if k < len(pad) // 2 else (0, 0)
        dst.append(slice(max(lo, 0), max(lo, 0) + s + min(lo, 0) + min(hi, 0)))
        src.append(slice(max(-lo, 0), s - max(-hi, 0)))
    return tuple(dst), tuple(src)


@functools.lru_cache(maxsize=256)
def _plan(shape: tuple, pad: tuple) -> tuple:
    """(shape of the result, where the input goes in it, which part of the input). ValueError for what is refused."""
    out = _grow(shape, pad)
    if len(pad) % 2 or len(pad) > 2 * len(shape) or (out and min(out) < 0):
        raise ValueError
    return out, *_windows(shape, pad)


@op("constant_pad(input: T, pad: ints, value: num = 0)", kind="gather", method=False, function=False)
class constant_pad:
    """Padding with a value: (left, right) of the last dimension, then of the one before, and so on; negative cuts."""

    def kernel(a, pad, value=0):
        shape, dst, src = _plan(a.shape, pad)
        if type(value) is int and value == 0:
            out = np.zeros(shape, a.dtype)
        else:
            out = np.full(shape, dt.element(value, dt.FROM_NUMPY[a.dtype]), a.dtype)
        out[dst] = a[src]
        return out

    def meta(m, pad, value=0):
        if len(pad) % 2:
            raise RuntimeError("Padding length must be divisible by 2")
        if len(pad) > 2 * m.ndim:
            raise RuntimeError(
                "Padding length should be less than or equal to two times the input dimension but got padding "
                f"length {len(pad)} and input of dimension {m.ndim}"
            )
        shape = _grow(m.shape, pad)
        for i, (s, old) in enumerate(zip(shape, m.shape, strict=True)):
            if surely_less(s, 0):
                raise RuntimeError(
                    f"The input size {old}, plus negative padding at dimension {i}, resulted in a negative output "
                    f"size {s}, which is invalid"
                )
        dt.element(value, m.dtype)
        return Meta(shape, m.dtype)

    def vjp(g, pad):
        return constant_pad(g, tuple(-p for p in pad), 0)

    def ref(a, pad, value=0):
        n = a.ndim
        return np.pad(
            a,
            [
                (pad[2 * (n - 1 - i)], pad[2 * (n - 1 - i) + 1]) if n - 1 - i < len(pad) // 2 else (0, 0)
                for i in range(n)
            ],
            constant_values=value,
        )

    def samples():
        yield Sample(t(3, 4), (1, 2))
        yield Sample(t(2, 3, 4), (1, 0, 2, 1), 2.5)


def _side(x: Any, dim: int, lo: int, hi: int, mode: str) -> Any:
    """One dimension padded by reflection, edge values or wrapping round."""
    n = x.shape[dim]
    if mode == "reflect" and (lo >= n or hi >= n):
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding ({lo}, {hi}) "
            f"at dimension {dim} of input {list(x.shape)}"
        )
    if mode == "circular" and (lo > n or hi > n):
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if n + lo + hi < (0 if mode == "circular" else 1):
        raise RuntimeError(f"input size {n} is too small for padding ({lo}, {hi})")
    if max(lo, hi) <= _FEW and min(lo, hi) >= 0 and (a := x._data) is not None and a.size > _MUCH and type(x) in FAST:
        if a.dtype.char in "fd" and not SLOW[0]:
            return _by_table(x, dim, n, lo, hi, mode)
    parts = [x.narrow(dim, max(-lo, 0), n - max(-lo, 0) - max(-hi, 0))]
    if mode == "circular":  # what is left after cutting wraps round
        x, n = parts[0], n + min(lo, 0) + min(hi, 0)
    if lo > 0:
        if mode == "reflect":
            parts.insert(0, x.narrow(dim, 1, lo).flip(dim))
        elif mode == "replicate":
            parts.insert(0, _edge(x, dim, 0, lo))
        else:
            parts.insert(0, x.narrow(dim, n - lo, lo))
    if hi > 0:
        if mode == "reflect":
            parts.append(x.narrow(dim, n - 1 - hi, hi).flip(dim))
        elif mode == "replicate":
            parts.append(_edge(x, dim, n - 1, hi))
        else:
            parts.append(x.narrow(dim, 0, hi))
    return parts[0] if len(parts) == 1 else cat(parts, dim)


_MUCH, _FEW = 1 << 15, 8  # elements from which tables are quicker than joined parts, for so few slices at a side


def _by_table(x: Any, dim: int, n: int, lo: int, hi: int, mode: str) -> Any:
    """The same as picked slices: what they get back is a few of them for each, not zeros around parts."""
    from ..tensor import wrap
    from .resample import weighted_slices

    return weighted_slices(x, *map(wrap, _tables(n, lo, hi, mode, x.dtype.np)), dim)


@functools.lru_cache(maxsize=64)
def _tables(n: int, lo: int, hi: int, mode: str, kind: Any) -> tuple:
    from .resample import tables

    at = np.arange(-lo, n + hi)
    if mode == "reflect":
        at = np.abs(at)
        at = np.where(at >= n, 2 * (n - 1) - at, at)
    else:
        at = at % n if mode == "circular" else np.clip(at, 0, n - 1)
    ones = np.ones((1, at.size), kind)
    return at[None], ones, *tables(at[None], ones, n)


def _edge(x: Any, dim: int, at: int, count: int) -> Any:
    return x.narrow(dim, at, 1).expand(tuple(count if i == dim else s for i, s in enumerate(x.shape)))


def _usual(pad: Any) -> Any:
    """A tuple of ints of which one is not 0; None for anything else."""
    if type(pad) is list:
        pad = (*pad,)
    elif type(pad) is not tuple:
        return None
    some = False
    for p in pad:
        if type(p) is not int:
            return None
        if p:
            some = True
    return pad if some else None


@function(
    "nn.functional.pad(input: T, pad: ints, mode: str, value: num)",
    inline=Inline(
        constant_pad,
        "mode == 'constant' and (value is None or type(value) is float or type(value) is int) "
        "and (pads := usual(pad)) is not None",
        pad="pads",
        value="0 if value is None else value",
        using={"usual": _usual},
    ),
)
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Padding from the last dimension backwards, in ``mode`` constant, reflect, replicate or circular."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if mode == "constant" and any(varies(p) for p in pad) and all(known_ge(p, 0) for p in pad):
        return _joined(input, pad, 0 if value is None else value)
    pads = tuple(int(p) for p in pad)
    if mode == "constant":
        value = 0 if value is None else value
        if all(p == 0 for p in pads) and len(pads) <= 2 * input.ndim:
            return input.clone()
        return constant_pad(input, pads, value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    k = len(pads) // 2
    if k not in (1, 2, 3) or input.ndim not in (k + 1, k + 2):
        raise NotImplementedError("Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now")
    if any(surely_less(s, 1) for s in input.shape[1:]):
        raise RuntimeError(f"pad: expected non-zero sizes except for the batch, got {list(input.shape)}")
    out = moved(_bordered, input if mode == "circular" else rooted(input), pads, mode)
    return named(out, _NODES[mode].format(k), (input,))


def _joined(input: Any, pads: Any, value: Any) -> Any:
    """Constant padding by sizes that are not fixed: blocks are put beside the input."""
    from .. import cat

    if len(pads) > 2 * input.ndim:
        raise RuntimeError(f"pad: {len(pads) // 2} dimensions are padded of an input with {input.ndim}")
    out = input
    for i in range(len(pads) // 2):
        dim, shape = input.ndim - 1 - i, list(out.shape)
        blocks = [out.new_full((*shape[:dim], p, *shape[dim + 1 :]), value) for p in pads[2 * i : 2 * i + 2]]
        out = cat([blocks[0], out, blocks[1]], dim)
    return out


_NODES = {
    "reflect": "ReflectionPad{}DBackward0",
    "replicate": "ReplicationPad{}DBackward0",
    "circular": "CatBackward0",
}


def _bordered(input: Any, pads: tuple, mode: str) -> Any:
    out = input
    for i in range(len(pads) // 2):
        out = _side(out, input.ndim - 1 - i, pads[2 * i], pads[2 * i + 1], mode)
    return out.clone() if out._view is not None or out is input else out


@op("one_hot(tensor: T, num_classes: int)", kind="gather", method=False, function=False, nondiff=True)
class one_hot_op:
    """1 at the class of each element along a new last dimension, 0 elsewhere."""

    def kernel(a, num_classes):
        if a.size and not in_range(a, num_classes):
            raise RuntimeError(
                "Class values must be non-negative."
                if a.min() < 0
                else "Class values must be smaller than num_classes."
            )
        out = np.zeros((*a.shape, num_classes), np.int64)
        if a.size <= 4096:
            out[(*grids(a.shape), a)] = 1
        else:
            np.put_along_axis(out, a[..., None], 1, -1)
        return out

    def meta(m, num_classes):
        return Meta((*m.shape, num_classes), dt.int64)

    def ref(a, num_classes):
        return np.eye(num_classes, dtype=np.int64)[a]

    def samples():
        yield Sample(np.array([[0, 2], [1, 0]]), 3, grad=False)


@function("nn.functional.one_hot(tensor: T, num_classes: int)")
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """int64 tensor with a 1 at each class index; ``num_classes`` -1 means one more than the largest."""
    if tensor.dtype is not dt.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        d = need_data(tensor, "one_hot")
        if d.size == 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        if d.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        num_classes = int(d.max()) + 1
    elif num_classes < 1 and tensor.numel():
        raise RuntimeError("num_classes should be positive")
    return one_hot_op(tensor, num_classes)
