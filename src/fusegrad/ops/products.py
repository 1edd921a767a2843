"""Other products and distances: inner, tensordot, kron, cross, chains of matrices, bilinear, cdist, pdist."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import bool_, float32, float64
from ..meta import Meta, broadcast_shapes
from ..native.on_demand import defined
from ..op import Inline, Sample, function, op
from ..tensor import own, wrap
from ._data import t, t2
from ._native import plain_arrays
from .matmul import _TYPES, matmul


@function("chain_matmul(*matrices: T[])", method=False)
def chain_matmul(*matrices: Any) -> Any:
    """Product of matrices, from left to right."""
    out = matrices[0]
    for m in matrices[1:]:
        out = matmul(out, m)
    return out


@function("linalg.multi_dot(tensors: T[])")
def multi_dot(tensors: Any) -> Any:
    """Product of a list of matrices (the first and last may be vectors)."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for i, x in enumerate(tensors):
        ends = i in (0, len(tensors) - 1)
        if not (x.ndim == 2 or (ends and x.ndim == 1)):
            raise RuntimeError(f"multi_dot(): tensor {i} must be {'1D or ' if ends else ''}2D but got {x.ndim}D")
        if x.dtype is not tensors[0].dtype:
            raise RuntimeError(
                "multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{tensors[0].dtype} and tensor {i} {x.dtype}"
            )
    return chain_matmul(*tensors)


@function("inner(input: T, other: T)")
def inner(input: Any, other: Any) -> Any:
    """Sum products over the last dimensions of both."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and "
            f"{list(other.shape)}"
        )
    return tensordot(input, other, ([-1], [-1]))


@function("linalg.vecdot(x: T, y: T, dim: dim)")
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Inner products along ``dim``."""
    if not x.is_floating_point() and x.dtype is not y.dtype:
        raise RuntimeError("linalg.vecdot: both tensors must have the same dtype")
    return (x * y).sum(dim)


@function("tensordot(a: T, b: T)", method=False)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sum products over pairs of dimensions: the last n of a with the first n of b, or two lists."""
    if hasattr(dims, "_data"):
        dims = dims.tolist()
    if isinstance(dims, (list, tuple)) and len(dims) == 1:
        dims = (dims[0], dims[0]) if isinstance(dims[0], (list, tuple)) else dims[0]
    if isinstance(dims, (list, tuple)):
        da, db = ([d] if isinstance(d, int) else list(d) for d in dims)
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        da, db = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    from ..meta import normalize_dims

    da, db = normalize_dims(tuple(da), a.ndim) if da else (), normalize_dims(tuple(db), b.ndim) if db else ()
    if len(da) != len(db):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype is not b.dtype:
        raise RuntimeError("tensordot: both inputs should have same dtype")
    return contract(a, b, da, db)


def contract(a: Any, b: Any, da: Any, db: Any) -> Any:
    """The contraction of dimensions ``da`` of a with ``db`` of b as one matrix product (size 1 broadcasts)."""
    inner_size: Any = 1
    for i, j in zip(da, db, strict=True):
        if a.shape[i] != b.shape[j]:
            if b.shape[j] == 1:
                a = a.sum(i, keepdim=True)
            elif a.shape[i] == 1:
                b = b.sum(j, keepdim=True)
            else:
                raise RuntimeError(
                    f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second "
                    f"has size {b.shape[j]} in dim {j}"
                )
        inner_size = inner_size * a.shape[i]
    ra, rb = [i for i in range(a.ndim) if i not in da], [j for j in range(b.ndim) if j not in db]
    sa, sb = [a.shape[i] for i in ra], [b.shape[j] for j in rb]
    rows, cols = _size(sa), _size(sb)
    x = a.permute((*ra, *da)).reshape((rows, inner_size))
    y = b.permute((*db, *rb)).reshape((inner_size, cols))
    return matmul(x, y).reshape((*sa, *sb))


def _size(shape: Any) -> Any:
    n: Any = 1
    for s in shape:
        n = n * s
    return n


@function("kron(input: T, other: T)")
def kron(input: Any, other: Any) -> Any:
    """Kronecker product."""
    n = max(input.ndim, other.ndim)
    a = (1,) * (n - input.ndim) + tuple(input.shape)
    b = (1,) * (n - other.ndim) + tuple(other.shape)
    x = input.reshape(tuple(s for k in a for s in (k, 1)))
    y = other.reshape(tuple(s for k in b for s in (1, k)))
    return own((x * y).reshape(tuple(p * q for p, q in zip(a, b, strict=True))))


def _crossed(a: Any, b: Any, dim: int) -> Any:
    """Products of each component and the next, in the place of the one after those."""
    return (a * b.roll(-1, dim) - a.roll(-1, dim) * b).roll(-1, dim)


_FIRST, _SECOND = np.array([1, 2, 0, 2, 0, 1]), np.array([2, 0, 1, 1, 2, 0])
_HALVES = [((slice(None),) * d + (slice(3),), (slice(None),) * d + (slice(3, 6),)) for d in range(4)]


@op("_cross(input: T, other: T, dim: dim)", kind="composite", method=False)
class _cross:
    """Cross products of tensors of one shape and dtype."""

    def meta(a, b, dim):
        return Meta(a.shape, a.dtype)

    def kernel(a, b, dim):
        both = a[_FIRST] * b[_SECOND] if dim == 0 else a.take(_FIRST, dim) * b.take(_SECOND, dim)
        if 0 <= dim < 4:
            plus, minus = _HALVES[dim]
            return both[plus] - both[minus]
        return np.subtract(*np.split(both, 2, dim))

    def vjp_input(g, other, dim):
        return linalg_cross(other, g, dim=dim)

    def vjp_other(g, input, dim):
        return linalg_cross(g, input, dim=dim)

    def decompose(a, b, dim):
        return _crossed(a, b, dim)

    def ref(a, b, dim):
        return np.cross(a, b, axis=dim)

    def samples():
        yield Sample(t(3), t(3, seed=1), 0)
        yield Sample(t(2, 3, 4), t(2, 3, 4, seed=1), 1)


def _cross_dim(a: np.ndarray, b: np.ndarray, dim: Any) -> int:
    """The dimension of cross products of two arrays of one shape; -1 for all but the usual."""
    n = a.ndim
    if a.shape != b.shape or a.dtype.kind == "b" or 3 not in a.shape:
        return -1
    if dim is None:
        return a.shape.index(3)
    if type(dim) is not int or not -n <= dim < n:
        return -1
    dim %= n
    return dim if a.shape[dim] == 3 else -1


_USUAL = Inline(
    _cross, "a0.dtype is a1.dtype and (d := cross_dim(a0, a1, dim)) >= 0", dim="d", using={"cross_dim": _cross_dim}
)


@function("cross(input: T, other: T, dim: dim)", inline=_USUAL)
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products along ``dim`` (the first of size 3 by default)."""
    if dim is None:
        if input.ndim != other.ndim:
            raise RuntimeError(f"inconsistent tensors dimensions input: {input.ndim} other: {other.ndim}")
        dim = next((i for i, s in enumerate(input.shape) if s == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
    return linalg_cross(input, other, dim=dim)


@function("linalg.cross(input: T, other: T, dim: dim)", inline=_USUAL)
def linalg_cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Cross products along ``dim``, of size 3 in both, broadcasting the others."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    from ..meta import normalize_dim

    d = normalize_dim(dim, input.ndim)
    if input.ndim == 0 or input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {list(input.shape)} and {list(other.shape)}"
        )
    if input.dtype is other.dtype and input.dtype is not bool_ and tuple(input.shape) == tuple(other.shape):
        return _cross.fn(input, other, d)
    return _crossed(input, other, d)


@function("cdist(x1: T, x2: T, p: float)", method=False)
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
    """p-norm distances of all rows of x1 (..., P, M) from all of x2 (..., R, M); gradient 0 where they coincide."""
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {_TYPES[x.dtype.name]}")
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError(f"cdist only supports non-negative p values, got {p}")
    from .norms import vector_norm_op

    alike = x1.dtype is x2.dtype and x1.dtype in (float32, float64)
    if alike and (p in (1, 2) and x1._data is not None is not x2._data or p == 2 and _many(x1, x2)):
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        if x1.shape[-1] and x1.shape[-2] and x2.shape[-2] and 0 not in batch:
            of = euclidean if p == 2 else manhattan
            return of(x1.expand((*batch, *x1.shape[-2:])), x2.expand((*batch, *x2.shape[-2:])))
    d = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if d.shape[-1] == 0:
        return d.sum(-1)
    if p == math.inf and x1.dtype is x2.dtype:
        batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return chebyshev(x1.expand((*batch, *x1.shape[-2:])), x2.expand((*batch, *x2.shape[-2:])))
    return vector_norm_op(d, p, (-1,))


def _many(*tensors: Any) -> bool:
    """Whether a graph is captured of so many distances that their kernels are faster than loops of the graph's own."""
    for x in tensors:
        if x._data is None and not (hasattr(x._g.handler, "record_control") and not hasattr(x._g.handler, "noting")):
            return False
    (p, m), r = tensors[0].shape[-2:], tensors[1].shape[-2]
    sizes = (*broadcast_shapes(*(x.shape[:-2] for x in tensors)), p, r, m)
    return all(type(s) is int for s in sizes) and math.prod(sizes) >= 2**16


def _apart(x1: Any, x2: Any) -> Any:
    return x1.unsqueeze(-2) - x2.unsqueeze(-3)


def _all_distances(kernels: Any, x1: np.ndarray, x2: np.ndarray) -> np.ndarray | None:
    """What a kernel gives for each pair of rows; None without one."""
    f = kernels[x1.dtype]
    if f is None:
        return None
    (p, m), r = x1.shape[-2:], x2.shape[-2]
    out = np.empty((*x1.shape[:-1], r), x1.dtype)
    turned = np.ascontiguousarray(x2.swapaxes(-1, -2))
    f(np.ascontiguousarray(x1), turned, out, math.prod(x1.shape[:-2]), p, r, m)
    return out


@op("euclidean_distances(x1: T, x2: T)", kind="extern", promote="same", method=False, function=False)
class euclidean:
    """Distances of all rows of x1 (..., P, M) from all of x2 (..., R, M), batches alike; gradient 0 at distance 0."""

    whole = True

    def kernel(x1, x2):
        if (found := _all_distances(_DISTANCES, x1, x2)) is not None:
            return found
        d = x1[..., :, None, :] - x2[..., None, :, :]
        return np.sqrt((d * d).sum(-1))

    def meta(x1, x2):
        return Meta((*x1.shape[:-1], x2.shape[-2]), x1.dtype)

    def decompose(x1, x2):
        from .norms import vector_norm_op

        return vector_norm_op(_apart(x1, x2), 2, (-1,))

    def vjp(g, x1, x2, out, need):
        arrays = plain_arrays(g, x1, x2, out)
        if arrays and _DISTANCES_GRAD[arrays[0].dtype] is not None:
            ga, a, c, far = arrays
            turned = (ga.swapaxes(-1, -2), far.swapaxes(-1, -2))
            return (
                wrap(_pulled(ga, far, a, c)) if need[0] else None,
                wrap(_pulled(*turned, c, a)) if need[1] else None,
            )
        if out._data is None and _many(x1, x2):
            turned = (g.swapaxes(-1, -2), out.swapaxes(-1, -2))
            return (
                euclidean_grad(g, out, x1, x2) if need[0] else None,
                euclidean_grad(*turned, x2, x1) if need[1] else None,
            )
        weight = _weights(g, out).unsqueeze(-1) * _apart(x1, x2)
        return (weight.sum(-2) if need[0] else None, -weight.sum(-3) if need[1] else None)

    def ref(x1, x2):
        return np.sqrt(((x1[..., :, None, :] - x2[..., None, :, :]) ** 2).sum(-1))

    def samples():
        yield Sample(t(4, 3), t2(5, 3))
        yield Sample(t(2, 4, 3), t2(2, 2, 3))


@op(
    "euclidean_distances_grad(slopes: T, far: T, x1: T, x2: T)",
    kind="extern",
    promote="same",
    method=False,
    function=False,
)
class euclidean_grad:
    """The gradient for x1 of its rows' distances ``far`` from x2's, given theirs (``slopes``); batches alike."""

    whole = True

    def kernel(slopes, far, x1, x2):
        if _DISTANCES_GRAD[x1.dtype] is not None:
            return _pulled(slopes, far, x1, x2)
        weight = np.divide(slopes, far, out=np.zeros_like(far), where=far != 0)
        return (weight[..., None] * (x1[..., :, None, :] - x2[..., None, :, :])).sum(-2, dtype=x1.dtype)

    def meta(slopes, far, x1, x2):
        return Meta(x1.shape, x1.dtype)

    def decompose(slopes, far, x1, x2):
        return (_weights(slopes, far).unsqueeze(-1) * _apart(x1, x2)).sum(-2)

    def vjp(g, slopes, far, x1, x2, need):
        along = (g.unsqueeze(-2) * _apart(x1, x2)).sum(-1)
        own, weights = _weights(along, far), _weights(slopes, far)
        return (
            own if need[0] else None,
            -own * weights if need[1] else None,
            g * weights.sum(-1, keepdim=True) if need[2] else None,
            -matmul(weights.swapaxes(-1, -2), g) if need[3] else None,
        )

    def ref(slopes, far, x1, x2):
        return ((slopes / far)[..., None] * (x1[..., :, None, :] - x2[..., None, :, :])).sum(-2)

    def samples():
        yield Sample(t(4, 5), t2(4, 5, low=1), t(4, 3), t2(5, 3))
        yield Sample(t(2, 4, 2), t2(2, 4, 2, low=1), t(2, 4, 3), t2(2, 2, 3))


def _weights(g: Any, far: Any) -> Any:
    zero = far == 0
    return (g / far.masked_fill(zero, 1)).masked_fill(zero, 0)


@op("manhattan_distances(x1: T, x2: T)", kind="extern", promote="same", method=False, function=False)
class manhattan:
    """Sums of absolute differences of all rows of x1 (..., P, M) and of x2 (..., R, M), batches alike."""

    def kernel(x1, x2):
        found = _all_distances(_SUMS, x1, x2)
        return np.abs(x1[..., :, None, :] - x2[..., None, :, :]).sum(-1) if found is None else found

    def meta(x1, x2):
        return Meta((*x1.shape[:-1], x2.shape[-2]), x1.dtype)

    def decompose(x1, x2):
        from .norms import vector_norm_op

        return vector_norm_op(_apart(x1, x2), 1, (-1,))

    def vjp(g, x1, x2, need):
        arrays = plain_arrays(g, x1, x2)
        if arrays and _SIGNS_GRAD[arrays[0].dtype] is not None:
            ga, a, c = arrays
            return (
                wrap(_signed(ga, a, c)) if need[0] else None,
                wrap(_signed(ga.swapaxes(-1, -2), c, a)) if need[1] else None,
            )
        signs = g.unsqueeze(-1) * _apart(x1, x2).sign()
        return (signs.sum(-2) if need[0] else None, -signs.sum(-3) if need[1] else None)

    def ref(x1, x2):
        return np.abs(x1[..., :, None, :] - x2[..., None, :, :]).sum(-1)

    def samples():
        yield Sample(t(4, 3), t2(5, 3))
        yield Sample(t(2, 3, 4), t2(2, 2, 4))


@op("chebyshev_distances(x1: T, x2: T)", kind="extern", promote="same", method=False, function=False)
class chebyshev:
    """The largest absolute difference of all rows of x1 (..., P, M) and of x2 (..., R, M), batches alike. Each one that
    is the largest has the whole gradient.
    """

    def kernel(x1, x2):
        found = _all_distances(_LARGEST, x1, x2) if x1.size and x2.size else None
        return np.abs(x1[..., :, None, :] - x2[..., None, :, :]).max(-1) if found is None else found

    def meta(x1, x2):
        return Meta((*x1.shape[:-1], x2.shape[-2]), x1.dtype)

    def vjp(g, x1, x2, out, need):
        arrays = plain_arrays(g, x1, x2, out)
        if arrays and _LARGEST_GRAD[arrays[0].dtype] is not None:
            ga, a, c, far = arrays
            turned = ga.swapaxes(-1, -2), far.swapaxes(-1, -2)
            return (
                wrap(_signed(ga, a, c, far)) if need[0] else None,
                wrap(_signed(turned[0], c, a, turned[1])) if need[1] else None,
            )
        apart = _apart(x1, x2)
        signs = (g.unsqueeze(-1) * apart.sign()).masked_fill(apart.abs() != out.unsqueeze(-1), 0)
        return (signs.sum(-2) if need[0] else None, -signs.sum(-3) if need[1] else None)

    def ref(x1, x2):
        return np.abs(x1[..., :, None, :] - x2[..., None, :, :]).max(-1)

    def samples():
        yield Sample(t(4, 3), t2(5, 3))
        yield Sample(t(2, 3, 4), t2(2, 2, 4))


def _signed(g: Any, x: Any, z: Any, *far: Any) -> np.ndarray:
    """The gradient for x of the sums of absolute differences of x's rows and z's, or of the largest ones (``far``)."""
    g, x, z, *far = map(np.ascontiguousarray, (g, x, z, *far))  # type: ignore[assignment]
    out = np.empty_like(x)
    (p, m), r = x.shape[-2:], z.shape[-2]
    (_LARGEST_GRAD if far else _SIGNS_GRAD)[x.dtype](g, x, z, *far, out, math.prod(x.shape[:-2]), p, r, m)
    return out


def _pulled(g: Any, far: Any, x: Any, z: Any) -> np.ndarray:
    """The gradient of the distances of x's rows from z's, for x."""
    g, far, x, z = map(np.ascontiguousarray, (g, far, x, z))
    out = np.empty_like(x)
    (p, m), r = x.shape[-2:], z.shape[-2]
    f = _DISTANCES_GRAD
    if m < 32 < r:  # vectors of rows, which are many
        f, z = _DISTANCES_GRAD_TURNED, np.ascontiguousarray(z.swapaxes(-1, -2))
    f[x.dtype](g, far, x, z, out, np.empty_like(g), math.prod(x.shape[:-2]), p, r, m)
    return out


_SUMS, _SIGNS_GRAD = defined("pairs", "distances", "sums"), defined("pairs", "signs_grad")
_LARGEST, _LARGEST_GRAD = defined("pairs", "distances", "largest"), defined("pairs", "signs_grad", True)
_DISTANCES = defined("pairs", "distances")
_DISTANCES_GRAD, _DISTANCES_GRAD_TURNED = (defined("pairs", "distances_grad", turned) for turned in (False, True))


@function("nn.functional.pdist(input: T, p: float)", names=("pdist",), method=False)
def pdist(input: Any, p: float = 2.0) -> Any:
    """p-norm distances between all pairs of different rows, as a vector."""
    from ..tensor import wrap
    from .norms import vector_norm_op

    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    i, j = np.triu_indices(int(input.shape[0]), 1)
    if p == 2 and input._data is not None and input.dtype in (float32, float64) and 0 not in input.shape:
        return euclidean(input, input).reshape(-1).index_select(0, wrap(i * int(input.shape[0]) + j))
    return vector_norm_op(input.index_select(0, wrap(i)) - input.index_select(0, wrap(j)), p, (-1,))


@function("nn.functional.bilinear(input1: T, input2: T, weight: T, bias: T)", names=("bilinear",), method=False)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """``x1 W x2 + b``: input1 (..., I), input2 (..., J), weight (O, I, J), bias (O)."""
    if input1.shape[-1] != weight.shape[1] or input2.shape[-1] != weight.shape[2]:
        raise RuntimeError(
            f"bilinear(): input sizes {input1.shape[-1]}, {input2.shape[-1]} do not match weight {list(weight.shape)}"
        )
    o, i, j = weight.shape
    left = matmul(input1, weight.permute((1, 0, 2)).reshape((i, o * j)))
    left = left.reshape((*input1.shape[:-1], o, j))
    out = matmul(left, input2.unsqueeze(-1)).squeeze(-1)
    return out if bias is None else out + bias
