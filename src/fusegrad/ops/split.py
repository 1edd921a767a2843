"""Views that come several at a time: split, chunk, unbind and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arguments import as_int, as_ints
from ..autograd.lines import trace_here
from ..autograd.modes import NO_GRAD, SLOW, STATE
from ..autograd.node import CustomNode, View, next_seq
from ..callnative import given
from ..dispatch import FROM_NUMPY, made_now
from ..dtypes import float32
from ..meta import normalize_dim, surely_less
from ..op import TABLE, function
from ..size_values import known_eq
from ..tensor import Tensor, extra_of, of_class, refresh, storage_of
from .view_slice import select, slice_

piece: Any = None  # machine code that makes a view of several
given(globals(), "piece", "piece")
_new_tensor = partial(object.__new__, Tensor)  # quicker than object.__new__(Tensor)


class _Divided(CustomNode):
    """The history of views that one call made together; ``dim`` was divided, or disappeared (``gone``)."""

    __slots__ = ("gone",)

    def __init__(self, label: str, input: Any, outputs: Sequence[Any], attrs: dict[str, int], gone: bool) -> None:
        self.op = self.out = self.hooks = self.shape = self.dtype = None
        self.saved = self.versions = ()
        self.edges, self.nrs = (input._node or input,), (input._nr,)
        self.label, self.outputs, self.attrs, self.gone = label, outputs, attrs, gone
        self.seq = next_seq()
        if SLOW[0] and (STATE.anomaly or STATE.lines):
            self.trace = trace_here()

    def free(self) -> None:
        """Nothing was kept."""

    def on_arrays(self, grads: list) -> Any:
        """``apply`` for arrays."""
        whole = grads
        if any([g is None for g in grads]):
            whole = [np.zeros(s, d.np) if g is None else g for g, (s, d) in zip(grads, self.outputs, strict=True)]
        return (TABLE["stack" if self.gone else "cat"].kernel(whole, self.attrs["dim"]),)

    def apply(self, grads: list) -> Any:
        zeros = TABLE["zeros"]
        whole = [zeros(s, dtype=d) if g is None else g for g, (s, d) in zip(grads, self.outputs, strict=True)]
        return (TABLE["stack" if self.gone else "cat"](whole, self.attrs["dim"]),)


def _together(label: str, input: Any, dim: int, keys: list, gone: bool = False) -> tuple:
    """Views ``input[..., key]`` along ``dim`` that one call makes: ranges (start, stop), or indices if ``gone``.

    In-place changes of them are refused where a gradient is recorded.
    """
    d = input._data
    if d is not None and not SLOW[0]:
        return _plain(label, input, _Plan(d.shape, dim, keys, gone))
    recording = not NO_GRAD or STATE.grad
    op = select if gone else slice_
    views = tuple(op(input, **_attrs(dim, k, gone)) for k in keys)
    for t in views:
        if t._view is not None and recording:
            t._view.made = "multi"
    if recording and input._rg and d is not None and views:
        kind = FROM_NUMPY[d.dtype]
        node = _Divided(label, input, [(t._data.shape, kind) for t in views], {"dim": dim}, gone)
        for i, t in enumerate(views):
            t._node, t._nr, t._rg = node, i, True
    return views


def _attrs(dim: int, key: Any, gone: bool) -> dict:
    """Attributes of the view operator that makes one of the views."""
    return {"dim": dim, "index": key} if gone else {"dim": dim, "start": key[0], "stop": key[1], "step": 1}


class _Plan:
    """How tensors of one shape are divided: for each view numpy's index and its record; and the views' shapes."""

    __slots__ = ("attrs", "gone", "pieces", "some", "shapes", "singles")

    def __init__(self, shape: tuple, dim: int, keys: Sequence[Any], gone: bool) -> None:
        op, lead, before, after = select if gone else slice_, (slice(None),) * dim, shape[:dim], shape[dim + 1 :]
        self.attrs, self.gone, self.pieces, self.shapes, self.some = {"dim": dim}, gone, [], [], bool(keys)
        for k in keys:
            index = (*lead, k, ...) if gone else (*lead, slice(*k)) if dim else slice(*k)
            self.pieces.append((index, ((op, _attrs(dim, k, gone), None),)))
            size = () if gone else (k[1] - k[0],)
            self.shapes.append((*before, *size, *after))
        self.singles = [(s, float32) for s in self.shapes]


_PLANS: dict[tuple, _Plan] = {}
_SINGLE = float32.np


def _plan(shape: tuple, dim: int, size: int) -> _Plan:
    """The plan of views of ``size`` each (the last may be shorter), of single slices for size 0; it is remembered."""
    key = shape, dim, size
    found = _PLANS.get(key)
    if found is None:
        n = shape[dim]
        keys = [(i, min(i + size, n)) for i in range(0, n, size)] or [(0, 0)] if size else [*range(n)]
        found = _Plan(shape, dim, keys, not size)
        if len(keys) <= 64:
            if len(_PLANS) >= 256:
                _PLANS.clear()
            _PLANS[key] = found
    return found


def _plain(label: str, input: Any, plan: _Plan) -> tuple:
    """The views of a tensor with data, without a call of an operator for each."""
    if input._view is not None:
        refresh(input)
    d, storage, rec, node = input._data, input._st or storage_of(input), input._view, None
    base, before = (input, ()) if rec is None else (rec.base, rec.chain)
    recording = not NO_GRAD or STATE.grad
    asks = input._rg and recording and plan.some
    if asks:
        kind = d.dtype
        outputs = plan.singles if kind is _SINGLE else [(s, FROM_NUMPY[kind]) for s in plan.shapes]
        node = _Divided(label, input, outputs, plan.attrs, plan.gone)
    made, version, views, i = "multi" if recording else made_now(rec), storage.version, [], 0
    for key, chain in plan.pieces:
        whole = chain if rec is None else (*before, *chain)
        nr = i if asks else 0
        if piece is not None:
            views.append(piece(d[key], storage, asks, node, nr, base, whole, version, made))
            i += 1
            continue
        t: Any = _new_tensor()
        t._data, t._st, t._rg, t._node, t._nr = d[key], storage, asks, node, nr
        t._g = t._grad = t._extra = None
        t._view = v = View()
        v.base, v.chain, v.version, v.made = base, whole, version, made
        views.append(t)
        i += 1
    if input._extra is not None and input._extra.inference:
        for t in views:
            extra_of(t).inference = True
    return of_class(input, tuple(views))


def _pieces(input: Any, dim: int, bounds: Sequence[Any]) -> tuple:
    return tuple(slice_(input, dim, a, b, 1) for a, b in zip(bounds[:-1], bounds[1:], strict=True))


def _split(label: str, input: Any, dim: int, bounds: Sequence[Any]) -> tuple:
    if input._view is not None:
        refresh(input)
    return _together(label, input, dim, list(zip(bounds[:-1], bounds[1:])))  # noqa: B905


def _not_scalar(name: str, input: Any) -> None:
    if input.ndim == 0:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")


@function("split(tensor: T, dim: dim)")
def split(tensor: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> tuple:
    """Views along ``dim`` of ``split_size`` elements each (the last may be shorter), or of the sizes in a list."""
    size = split_size if split_size_or_sections is None else split_size_or_sections
    d = tensor._data
    if d is not None and type(size) is int and size > 0 and type(dim) is int and -d.ndim <= dim < d.ndim:
        if not SLOW[0]:
            return _plain("SplitBackward0", tensor, _plan(d.shape, dim % d.ndim, size))
        n = d.shape[dim]
        return _split("SplitBackward0", tensor, dim % d.ndim, [*range(0, n, size), n] if n else [0, 0])
    if isinstance(size, (list, tuple)):
        return split_with_sizes(tensor, size, dim)
    size = as_int(size, ("split", "split_size_or_sections", 2))
    _not_scalar("split", tensor)
    dim = normalize_dim(dim, tensor.ndim)
    n = tensor.shape[dim]
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0:
        if n != 0:
            raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
        return _split("SplitBackward0", tensor, dim, [0, 0])
    count = int((n + size - 1) // size) or 1
    if count == 1:
        return _split("SplitBackward0", tensor, dim, [0, n])
    return _split("SplitBackward0", tensor, dim, [*(i * size for i in range(count)), n])


@function("split_with_sizes(input: T, split_sizes: ints, dim: dim)")
def split_with_sizes(input: Any, split_sizes: Sequence[Any], dim: int = 0) -> tuple:
    """Views along ``dim`` of the given sizes, which must add up. RuntimeError otherwise."""
    _not_scalar("split", input)
    dim = normalize_dim(dim, input.ndim)
    bounds: list[Any] = [0]
    for s in split_sizes:
        if surely_less(s, 0):
            raise RuntimeError(
                "split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={list(split_sizes)}"
            )
        bounds.append(bounds[-1] + s)
    if bounds[-1] != input.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {input.shape[dim]} (input tensor's size at "
            f"dimension {dim}), but got split_sizes={list(split_sizes)}"
        )
    return _split("SplitWithSizesBackward0", input, dim, bounds)


@function("chunk(input: T, chunks: int, dim: dim)")
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple:
    """At most ``chunks`` views along ``dim``, all of one size but perhaps the last. RuntimeError unless chunks > 0."""
    d = input._data
    if d is not None and type(dim) is int and -d.ndim <= dim < d.ndim and chunks > 0 and (n := d.shape[dim]):
        size = (n + chunks - 1) // chunks
        if not SLOW[0]:
            return _plain("SplitBackward0", input, _plan(d.shape, dim % d.ndim, size))
        return _split("SplitBackward0", input, dim % d.ndim, [*range(0, n, size), n])
    _not_scalar("chunk", input)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = normalize_dim(dim, input.ndim)
    n = input.shape[dim]
    size = (n + chunks - 1) // chunks
    if size == 0:
        return _split("SplitWithSizesBackward0", input, dim, [0] * (chunks + 1))
    if type(n) is not int and known_eq(size * chunks, n):  # the number of pieces is no question
        return _split("SplitBackward0", input, dim, [size * i for i in range(chunks + 1)])
    return split(input, size, dim)


@function("unbind(input: T, dim: dim)")
def unbind(input: Any, dim: int = 0) -> tuple:
    """The slices along ``dim``, as views."""
    d = input._data
    if d is not None and type(dim) is int and -d.ndim <= dim < d.ndim:
        if not SLOW[0]:
            return _plain("UnbindBackward0", input, _plan(d.shape, dim % d.ndim, 0))
        if input._view is not None:
            refresh(input)
        dim %= d.ndim
        return _together("UnbindBackward0", input, dim, [*range(d.shape[dim])], gone=True)
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    dim = normalize_dim(dim, input.ndim)
    input.requires_grad  # noqa: B018  (ties a stale view)
    return _together("UnbindBackward0", input, dim, list(range(int(input.shape[dim]))), gone=True)


@function("tensor_split(input: T, dim: dim, indices: T)")
def tensor_split(
    input: Any, indices_or_sections: Any = None, dim: int = 0, *, indices: Any = None, sections: Any = None
) -> tuple:
    """Views along ``dim``: a number of nearly equal sections, or cut before each of the indices."""
    cuts = next((c for c in (indices_or_sections, indices, sections) if c is not None), None)
    if not hasattr(cuts, "_data"):
        where = ("tensor_split", _CUTS[0], 2)
        cuts = as_ints(cuts, where) if isinstance(cuts, (list, tuple)) else as_int(cuts, where)
    _not_scalar("tensor_split", input)
    dim = normalize_dim(dim, input.ndim)
    n = input.shape[dim]
    if hasattr(cuts, "_data"):
        if cuts.ndim > 1 or cuts.is_floating_point():
            raise RuntimeError(
                "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional "
                "long tensor"
            )
        cuts = cuts.tolist()
    if isinstance(cuts, (list, tuple)):
        bounds = [0, *cuts, n]
        return tuple(slice_(input, dim, a, b, 1) for a, b in zip(bounds[:-1], bounds[1:], strict=True))
    if cuts <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
    small, extra = n // cuts, int(n % cuts)
    bounds = [0]
    for i in range(cuts):
        bounds.append(bounds[-1] + small + (1 if i < extra else 0))
    return _pieces(input, dim, bounds)


_CUTS = ("indices_or_sections", "indices", "sections")


def _cuts(name: str, given: tuple, kw: dict[str, Any]) -> Any:
    """Where to cut: a number of sections, or indices in a list, one after the other, or by keyword. TypeError else."""
    if len(given) + len(kw) == 0 or set(kw) - set(_CUTS) or (kw and len(given) + len(kw) > 1):
        raise TypeError(f"{name}() takes the input and either a number of sections or indices")
    where = (name, next(iter(kw), _CUTS[0]), 2)
    if len(given) > 1:
        return as_ints(given, where)
    value = given[0] if given else next(iter(kw.values()))
    return as_ints(value, where) if isinstance(value, (list, tuple)) else as_int(value, where)


def _np_split(name: str, input: Any, arg: Any, dim: int) -> tuple:
    if isinstance(arg, (list, tuple)) or hasattr(arg, "_data"):
        return tensor_split(input, arg, dim)
    n = input.shape[dim]
    if arg <= 0 or n % arg != 0:
        raise RuntimeError(
            f"{name} attempted to split along dimension {dim}, but the size of the dimension {n} is not "
            f"divisible by the split_size {arg}!"
        )
    return tensor_split(input, arg, dim)


@function("hsplit(input: T)")
def hsplit(input: Any, *indices_or_sections: Any, **kw: Any) -> tuple:
    """Split along columns (the only dimension of a vector)."""
    arg = _cuts("hsplit", indices_or_sections, kw)
    if input.ndim < 1:
        raise RuntimeError(
            f"hsplit requires a tensor with at least 1 dimension, but got a tensor with {input.ndim} dimensions!"
        )
    return _np_split("hsplit", input, arg, 0 if input.ndim == 1 else 1)


@function("vsplit(input: T)")
def vsplit(input: Any, *indices_or_sections: Any, **kw: Any) -> tuple:
    """Split along rows."""
    arg = _cuts("vsplit", indices_or_sections, kw)
    if input.ndim < 2:
        raise RuntimeError(
            f"vsplit requires a tensor with at least 2 dimension, but got a tensor with {input.ndim} dimensions!"
        )
    return _np_split("vsplit", input, arg, 0)


@function("dsplit(input: T)")
def dsplit(input: Any, *indices_or_sections: Any, **kw: Any) -> tuple:
    """Split along the third dimension."""
    arg = _cuts("dsplit", indices_or_sections, kw)
    if input.ndim < 3:
        raise RuntimeError(
            f"dsplit requires a tensor with at least 3 dimension, but got a tensor with {input.ndim} dimensions!"
        )
    return _np_split("dsplit", input, arg, 2)


def _atleast(n: int, tensors: tuple, grow: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(grow(x) for x in tensors[0])
    return grow(tensors[0]) if len(tensors) == 1 else tuple(grow(x) for x in tensors)


@function("atleast_1d(*tensors: T[])", method=False)
def atleast_1d(*tensors: Any) -> Any:
    """Numbers as vectors of one element; others unchanged."""
    return _atleast(1, tensors, lambda x: x.reshape(1) if x.ndim == 0 else x)


@function("atleast_2d(*tensors: T[])", method=False)
def atleast_2d(*tensors: Any) -> Any:
    """Vectors as one row; others unchanged."""
    return _atleast(2, tensors, lambda x: x.reshape(1, 1) if x.ndim == 0 else x.unsqueeze(0) if x.ndim == 1 else x)


@function("atleast_3d(*tensors: T[])", method=False)
def atleast_3d(*tensors: Any) -> Any:
    """At least three dimensions; others unchanged."""

    def grow(x: Any) -> Any:
        if x.ndim == 0:
            return x.reshape(1, 1, 1)
        return x.unsqueeze(0).unsqueeze(-1) if x.ndim == 1 else x.unsqueeze(-1) if x.ndim == 2 else x

    return _atleast(3, tensors, grow)
