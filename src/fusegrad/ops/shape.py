"""Joining, repeating and rearranging: results with memory of their own."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..arguments import as_tensors
from ..autograd.names import renamed
from ..dtypes import result_type_of
from ..errors import warn
from ..meta import Meta, normalize_dim, normalize_dims, surely_less
from ..op import Inline, Sample, function, op
from ..tensor import Tensor, own
from ._samples import t
from .moves import moved


def joint_dtype(metas: Sequence[Meta]) -> dt.dtype:
    return result_type_of([(m.dtype, m.ndim > 0) for m in metas if not m.weak], [m.dtype for m in metas if m.weak])


def _skipped(m: Any) -> bool:
    """An empty vector joins with anything (a rule kept from old PyTorch)."""
    return len(m.shape) == 1 and type(m.shape[0]) is int and m.shape[0] == 0


def _one_dtype(arrays: list) -> list:
    """Arrays of the dtype PyTorch's promotion gives (numpy's differs: int64 and float32 are float32)."""
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first and a.dtype != first:
            d = result_type_of([(dt.FROM_NUMPY[x.dtype], x.ndim > 0) for x in arrays], []).np
            return [x.astype(d, copy=False) for x in arrays]
    return arrays


@op("cat(tensors: T[], dim: int = 0)", kind="gather", method=False, function=False)
class cat_op:
    """Tensors joined along an existing dimension."""

    short = "len({0}) == 2 and {0}[0].dtype is {0}[1].dtype", "concatenate({0}, {dim})"

    def kernel(arrays, dim=0):
        arrays = _one_dtype(arrays)
        try:
            return np.concatenate(arrays, dim)
        except ValueError:
            used = [a for a in arrays if not _skipped(a)]
            if len(used) == len(arrays):
                raise
            return np.concatenate(used, axis=dim)

    def meta(metas, dim=0):
        used = [m for m in metas if not _skipped(m)] or list(metas[:1])
        first, total = used[0], 0
        for i, m in enumerate(used):
            if m.ndim != first.ndim:
                raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {m.ndim}")
            if m.ndim == 0:
                raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
            for d, (a, b) in enumerate(zip(first.shape, m.shape, strict=True)):
                if d != dim and a is not b and a != b:
                    raise RuntimeError(
                        f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got "
                        f"size {b} for tensor number {i} in the list."
                    )
            total = total + m.shape[dim]
        return Meta((*first.shape[:dim], total, *first.shape[dim + 1 :]), joint_dtype(metas))

    def vjp(g, tensors_meta, dim, need):
        out, start = [], 0
        for m, wanted in zip(tensors_meta, need, strict=True):
            if _skipped(m) and g.ndim != 1:
                out.append(g.new_zeros((0,)) if wanted else None)
                continue
            n = m.shape[dim]
            out.append(g.narrow(dim, start, n) if wanted else None)
            start = start + n
        return (out,)

    def on_arrays(g, tensors_meta, dim, need):
        out, start, lead = [], 0, (slice(None),) * dim
        for m, e in zip(tensors_meta, need, strict=True):
            if m.dtype.np is not g.dtype or _skipped(m):
                return None
            stop = start + m.shape[dim]
            out.append(None if e is None else g[(*lead, slice(start, stop))])
            start = stop
        return out

    def ref(arrays, dim=0):
        return np.concatenate(arrays, axis=dim)

    def samples():
        yield Sample([t(3, 4), t(2, 4)], 0)
        yield Sample([t(2, 1), t(2, 3), t(2, 2)], 1)


@function(
    "cat(tensors: T[], dim: dim, axis: dim)",
    names=("concat", "concatenate"),
    method=False,
    direct=True,
    inline=Inline(
        cat_op,
        "axis is None and type(dim) is int and -(n := arrays[0].ndim) <= dim < n and (dim == 0 or n > 1)",
        dim="dim % n",
    ),
)
def cat(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Any:
    """Tensors joined along an existing dimension. ValueError for an empty list, RuntimeError for sizes that differ."""
    if (type(tensors) is list or type(tensors) is tuple) and tensors and axis is None and type(dim) is int:
        d = getattr(tensors[0], "_data", None)
        if d is not None and 0 <= dim < d.ndim and (dim == 0 or d.ndim > 1):  # an empty vector may stand for any rank
            return _cat(tensors, dim)
    tensors = tuple(as_tensors(tensors, ("cat", "tensors", 1)))
    if not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    if axis is not None:
        dim = axis
    first = tensors[0]
    if isinstance(first, Tensor):
        n = first.ndim
        if n == 1 and len(tensors) > 1:  # an empty vector says nothing of the number of dimensions
            for x in tensors:
                if isinstance(x, Tensor) and x.ndim != 1:
                    n = x.ndim
                    break
        if n == 0:
            raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
        if type(dim) is not int or not 0 <= dim < n:
            dim = normalize_dim(dim, n)
    return _cat(tensors, dim)


_cat = cat_op.fn


def _dtype_at(edge: Any) -> Any:
    """The numpy dtype of what an edge leads to; None where that is not known at once."""
    if isinstance(edge, Tensor):
        return None if edge._data is None else edge._data.dtype
    return getattr(edge.dtype, "np", None)  # (of several outputs: a tuple)


@op("stack(tensors: T[], dim: dim+1 = 0)", kind="gather", method=False, function=False)
class stack_op:
    """Tensors of one shape joined along a new dimension."""

    short = (
        "len({0}) == 2 and (d := {0}[0]).dtype is {0}[1].dtype and {dim} == 0 and d.ndim and d.size < 4096",
        "array({0})",
    )

    def kernel(arrays, dim=0):
        arrays = _one_dtype(arrays)
        first = arrays[0].shape
        for a in arrays:
            if a.shape != first:
                raise ValueError("shapes")  # the meta rule words it
        if dim == 0 and first:
            return np.concatenate(arrays).reshape((len(arrays), *first))
        at = (*(slice(None),) * dim, None, Ellipsis)
        return np.concatenate([a[at] for a in arrays], dim)

    def meta(metas, dim=0):
        first = metas[0]
        for i, m in enumerate(metas):
            if m.ndim != first.ndim or any(a is not b and a != b for a, b in zip(first.shape, m.shape, strict=True)):
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                    f"{list(m.shape)} at entry {i}"
                )
        return Meta((*first.shape[:dim], len(metas), *first.shape[dim:]), joint_dtype(metas))

    def vjp(g, dim, need):
        return ([g.select(dim, i) if wanted else None for i, wanted in enumerate(need)],)

    def on_arrays(g, dim, need):
        if not all([e is None or _dtype_at(e) is g.dtype for e in need]):
            return None
        lead = (slice(None),) * dim
        return [None if e is None else g[(*lead, i, ...)] for i, e in enumerate(need)]

    def ref(arrays, dim=0):
        return np.stack(arrays, axis=dim)

    def samples():
        yield Sample([t(3, 4), t(3, 4, seed=1)], 1)
        yield Sample([t(), t(seed=1), t(seed=2)])


@function(
    "stack(tensors: T[], dim: dim)",
    method=False,
    direct=True,
    inline=Inline(
        stack_op,
        "axis is None and type(dim) is int and -(n := arrays[0].ndim + 1) <= dim < n",
        dim="dim % n",
    ),
)
def stack(tensors: Any, dim: int = 0, *, axis: int | None = None) -> Any:
    """Tensors of one shape joined along a new dimension. RuntimeError for an empty list or shapes that differ."""
    if axis is not None:
        dim = axis
    if (type(tensors) is list or type(tensors) is tuple) and tensors:
        return _stack(tensors, dim)
    tensors = tuple(as_tensors(tensors, ("stack", "tensors", 1)))
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    return _stack(tensors, dim)


_stack = stack_op.fn


def _tuple(tensors: Any, name: str) -> tuple:
    if hasattr(tensors, "_data"):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@function(
    "hstack(tensors: T[])",
    method=False,
    inline=Inline(cat_op, "arrays[0].ndim", dim="0 if arrays[0].ndim == 1 else 1"),
)
def hstack(tensors: Any) -> Any:
    """Joined along columns (along the only dimension for vectors)."""
    from .split import atleast_1d

    xs = atleast_1d(_tuple(tensors, "hstack"))
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


@function(
    "vstack(tensors: T[])",
    names=("row_stack",),
    method=False,
    inline=Inline(cat_op, "arrays[0].ndim > 1", dim="0"),
)
def vstack(tensors: Any) -> Any:
    """Joined along rows; vectors are rows."""
    from .split import atleast_2d

    return cat(atleast_2d(_tuple(tensors, "vstack")), 0)


@function("dstack(tensors: T[])", method=False)
def dstack(tensors: Any) -> Any:
    """Joined along the third dimension."""
    from .split import atleast_3d

    return cat(atleast_3d(_tuple(tensors, "dstack")), 2)


@function("column_stack(tensors: T[])", method=False)
def column_stack(tensors: Any) -> Any:
    """Joined along columns; vectors are columns."""
    xs = _tuple(tensors, "column_stack")
    return hstack([x.reshape(-1, 1) if x.ndim <= 1 else x for x in xs])


@function("repeat(input: T, *repeats: ints)", function=False)
def repeat(input: Any, *repeats: Any, **kw: Any) -> Any:
    """A copy repeated ``repeats`` times along each dimension. RuntimeError for fewer numbers than dimensions."""
    from .view import _shape_arg

    n = _shape_arg(repeats, kw.get("repeats"))
    lead = len(n) - input.ndim
    if lead < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(surely_less(k, 0) for k in n):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(n)}")
    if all(type(k) is int and k == 1 for k in n):
        return input.reshape((1,) * lead + tuple(input.shape)).clone()
    return moved(_repeated, input, n)


def _repeated(input: Any, n: tuple) -> Any:
    shape = (1,) * (len(n) - input.ndim) + tuple(input.shape)
    apart = [s for i in range(len(n)) for s in (1, shape[i])]
    full = [s for i in range(len(n)) for s in (n[i], shape[i])]
    out = input.reshape(apart).expand(full).clone(memory_format="contiguous")
    return own(out.view([a * b for a, b in zip(n, shape, strict=True)]))


@function("tile(input: T, *dims: ints)")
def tile(input: Any, *dims: Any, **kw: Any) -> Any:
    """Like ``repeat``; missing leading numbers count as 1."""
    from .view import _shape_arg

    n = _shape_arg(dims, kw.get("dims"))
    return repeat(input, (1,) * (input.ndim - len(n)) + tuple(n))


@function("repeat_interleave(input: T, repeats: Tn, dim: dim, output_size: int)")
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element repeated, along ``dim`` or over the flattened tensor; ``repeats``: a number or a tensor."""
    from ..tensor import need_data, wrap

    if repeats is None:  # repeat_interleave(repeats): the indices
        counts = need_data(input, "repeat_interleave")
        if counts.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return wrap(np.repeat(np.arange(counts.size), counts))
    if dim is None:
        input, dim = input.reshape(-1), 0
    if input.ndim == 0:
        input = input.reshape(1)
    dim = normalize_dim(dim, input.ndim)
    n = input.shape[dim]
    if not hasattr(repeats, "_data"):
        if surely_less(repeats, 0):
            raise RuntimeError("Repeats must be non-negative")
        s = tuple(input.shape)
        wide = renamed(moved(_each_repeated, input, repeats, dim), "CloneBackward0")
        return wide.view((*s[:dim], n * repeats, *s[dim + 1 :]))
    counts = need_data(repeats, "repeat_interleave")
    if counts.dtype.kind not in "iu":
        raise RuntimeError("repeats has to be Long or Int tensor")
    if counts.ndim > 1 or (counts.ndim == 1 and counts.size not in (1, n)):
        raise RuntimeError(
            "repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.size} and input.size({dim}) = {n}"
        )
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    counts = np.broadcast_to(counts, (n,))
    return input.index_select(dim, wrap(np.repeat(np.arange(n), counts)))


_WHOLE, _BACKWARDS = slice(None), slice(None, None, -1)


def _each_repeated(input: Any, repeats: Any, dim: int) -> Any:
    s = tuple(input.shape)
    wide = input.unsqueeze(dim + 1).expand((*s[: dim + 1], repeats, *s[dim + 1 :]))
    return wide.clone(memory_format="contiguous")


@op("flip(input: T, dims: dims)", kind="gather", method=False, function=False)
class flip_op:
    """The order of elements reversed along ``dims``."""

    def kernel(a, dims):
        if not a.ndim:
            return a.copy()
        cut = [_WHOLE] * a.ndim
        for d in dims:
            cut[d] = _BACKWARDS
        return a[tuple(cut)].copy()

    def meta(m, dims):
        return Meta(m.shape, m.dtype)

    def vjp(g, dims):
        return flip_op(g, dims)

    def ref(a, dims):
        return np.flip(a, dims)

    def samples():
        yield Sample(t(3, 4), (0,))
        yield Sample(t(2, 3, 4), (0, -1))

    def errors():
        yield (t(2, 3), (2,)), {}, IndexError, "Dimension out of range"


@function(
    "flip(input: T, *dims: ints)",
    inline=Inline(flip_op, "dims and not kw and len(dims) == len({*dims}) and max(dims) < a0.ndim", ints="dims"),
)
def flip(input: Any, *dims: Any, **kw: Any) -> Any:
    """The order of elements reversed along dimensions: ``x.flip(0)``, ``x.flip(0, 1)``, ``x.flip((0, 1))``."""
    from .view import _shape_arg

    return flip_op(input, _shape_arg(dims, kw.get("dims")))


@function("fliplr(input: T)")
def fliplr(input: Any) -> Any:
    """Columns in reverse order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip_op(input, (1,))


@function("flipud(input: T)")
def flipud(input: Any) -> Any:
    """Rows in reverse order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip_op(input, (0,))


@function("roll(input: T, shifts: ints, dims: ints)")
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved along dimensions, round the end to the start (flattened when no dimension is given)."""
    shifts = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    if dims is None or dims == ():
        if len(shifts) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return moved(_rolled_flat, input, shifts)
    dims = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if len(shifts) != len(dims):
        if not shifts:
            raise RuntimeError("`shifts` required")
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if input.ndim == 0:
        normalize_dim(dims[0], 0)
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return moved(_rolled, input, shifts, dims)


def _rolled_flat(input: Any, shifts: tuple) -> Any:
    return own(_rolled(input.reshape(-1), shifts, (0,)).view(input.shape))


def _rolled(input: Any, shifts: tuple, dims: tuple) -> Any:
    out = input
    for s, d in zip(shifts, dims, strict=True):
        d = normalize_dim(d, input.ndim)
        n = input.shape[d]
        k = s % n if not (type(n) is int and n == 0) else 0
        if type(k) is int and k == 0:
            continue
        out = cat([out.narrow(d, n - k, k), out.narrow(d, 0, n - k)], d)
    return input.clone(memory_format="contiguous") if out is input else out


@function("rot90(input: T, k: int, dims: ints)")
def rot90(input: Any, k: int = 1, dims: Sequence[int] = (0, 1)) -> Any:
    """Rotated by ``k`` quarter turns in the plane of ``dims``. RuntimeError unless these are two different ones."""
    dims = tuple(dims)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == input.ndim:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    a, b = normalize_dims(dims, input.ndim)
    k %= 4
    if k == 1:
        return own(flip_op(input, (b,)).transpose(a, b))
    if k == 2:
        return flip_op(input, (a, b))
    if k == 3:
        return own(flip_op(input, (a,)).transpose(a, b))
    return input.clone()


@function("diag_embed(input: T, offset: int, dim1: dim, dim2: dim)")
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension of ``input`` on a diagonal."""
    from .view_grads import diagonal_backward

    n = input.ndim + 1
    a, b = normalize_dim(dim1, n), normalize_dim(dim2, n)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    side = input.shape[-1] + abs(offset)
    rest = iter(input.shape[:-1])
    size = tuple(side if i in (a, b) else next(rest) for i in range(n))
    return diagonal_backward(input, size, offset, a, b)


@function("diag(input: T, diagonal: int)")
def diag(input: Any, diagonal: int = 0) -> Any:
    """The matrix with a vector on its diagonal, or the diagonal of a matrix (a copy). RuntimeError otherwise."""
    if input.ndim == 1:
        return diag_embed(input, diagonal, 0, 1)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return input.diagonal(diagonal, 0, 1).clone()


@function("diagflat(input: T, offset: int)")
def diagflat(input: Any, offset: int = 0) -> Any:
    """The matrix with all elements of ``input`` on a diagonal."""
    return diag_embed(input.reshape(-1), offset, 0, 1)


@functools.cache  # once in a process
def _tell_of_indexing() -> None:
    warn("meshgrid: pass indexing='ij' or 'xy'. Without it matrix indexing ('ij') is used, unlike numpy's default.")


@function("meshgrid(*tensors: T[], indexing: str)", method=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple:
    """Coordinates of a grid: one tensor a vector, all of the grid's shape. ``indexing`` is "ij" (default) or "xy"."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        _tell_of_indexing()
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in tensors:
        if x.ndim > 1:
            raise RuntimeError(f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(x.shape)}")
        if x.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(tensors) >= 2
    xs = (tensors[1], tensors[0], *tensors[2:]) if swap else tensors
    shape = tuple(x.shape[0] if x.ndim else 1 for x in xs)
    grids = [
        x.reshape(tuple(shape[i] if i == j else 1 for j in range(len(xs)))).expand(shape) for i, x in enumerate(xs)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@function("cartesian_prod(*tensors: T[])", method=False)
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of the elements of vectors, one a row."""
    if any(x.ndim != 1 for x in tensors):
        bad = next(x for x in tensors if x.ndim != 1)
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(bad.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


@function("combinations(input: T, r: int, with_replacement: bool)")
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """Combinations of ``r`` elements of a vector, one a row."""
    import itertools

    from ..tensor import wrap

    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return input.new_empty((0,))
    n = int(input.shape[0])
    if r == 2:
        rows = np.stack(np.triu_indices(n, not with_replacement), -1).astype(np.int64, copy=False)
    else:
        pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
        rows = np.array(list(pick(range(n), r)), np.int64).reshape(-1, r)
    return input.index_select(0, wrap(rows.reshape(-1))).view(rows.shape)


@function("broadcast_tensors(*tensors: T[])", method=False)
def broadcast_tensors(*tensors: Any) -> tuple:
    """All tensors expanded to their common shape; those that have it already are given back themselves."""
    from ..meta import broadcast_shapes

    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(x if tuple(x.shape) == shape else x.expand(shape) for x in tensors)


@function("broadcast_shapes", method=False)
def broadcast_shapes_(*shapes: Any) -> Any:
    """The shape to which all of ``shapes`` broadcast. RuntimeError if they do not."""
    from ..meta import broadcast_shapes
    from ..tensor import Size

    for s in shapes:
        if not isinstance(s, (int, list, tuple)) and not hasattr(s, "ctx"):
            raise RuntimeError(
                f"broadcast_shapes(): shapes must be ints, or tuples or lists of ints, not {type(s).__name__}"
            )
    return Size(broadcast_shapes(*(tuple(s) if isinstance(s, (list, tuple)) else (s,) for s in shapes)))


@function("block_diag(*tensors: T[])", method=False)
def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of a larger one, zeros elsewhere."""
    from .split import atleast_2d

    if not tensors:
        from .create import empty

        return empty((1, 0))
    if any(x.ndim > 2 for x in tensors):
        bad = next(i for i, x in enumerate(tensors) if x.ndim > 2)
        raise RuntimeError(
            f"block_diag: Input tensors must have 2 or fewer dimensions. Input {bad} has {tensors[bad].ndim} dimensions"
        )
    xs = [atleast_2d(x) for x in tensors]
    width, rows, left = sum(x.shape[1] for x in xs), [], 0
    for x in xs:
        right = width - left - x.shape[1]
        rows.append(cat([x.new_zeros((x.shape[0], left)), x, x.new_zeros((x.shape[0], right))], 1))
        left += x.shape[1]
    return cat(rows, 0)


@function("sum_to_size(input: T, *size: ints)", function=False)
def sum_to_size(input: Any, *size: Any) -> Any:
    """Summed so that it has shape ``size``, to which ``input`` must be broadcastable from."""
    from .view import _shape_arg

    shape = _shape_arg(size)
    if not shape:
        return input.sum()
    lead = input.ndim - len(shape)
    if lead < 0 or any(a != b and b != 1 for a, b in zip(input.shape[lead:], shape, strict=True)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(input.shape)}}}.")
    out = input.sum(tuple(range(lead))) if lead else input
    dims = tuple(i for i, (a, b) in enumerate(zip(out.shape, shape, strict=True)) if a != b)
    return out.sum(dims, keepdim=True) if dims else out
