"""Reductions: sums, products, extrema and logical reductions over dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import SLOW, STATE
from ..autograd.names import renamed
from ..dispatch import FAST
from ..meta import Meta
from ..op import Reduce, Sample, function, late_function, op
from ..tensor import Tensor, wrap
from ._half import half, single
from ._names import numpy_names
from ._native_reduce import reduced
from ._results import named_results
from ._samples import t
from ._shapes import axes_of, expand_array, keep, np_axes_sum, reduced_count, reduced_shape, spread

cat = late_function("cat")
_add, _F32, _F64 = np.add.reduce, dt.float32.np, dt.float64.np

_PRETTY = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long"}


def _acc_dtype(d: dt.dtype, dtype: dt.dtype | None) -> dt.dtype:
    """The dtype of a sum or product: integers and bool widen to int64."""
    return dtype if dtype is not None else d if d.is_floating_point else dt.int64


def _acc_pre(b: Any, x: Any, dtype: dt.dtype | None = None, **_: Any) -> Any:
    return b.cast(x, _acc_dtype(x.dtype, dtype))


def _need_float(name: str, d: dt.dtype, dtype: dt.dtype | None = None) -> dt.dtype:
    if dtype is not None and not dtype.is_floating_point:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Optional dtype must be either a floating point or "
            f"complex dtype. Got: {_PRETTY[dtype.name]}"
        )
    d = dtype or d
    if not d.is_floating_point:
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {_PRETTY[d.name]}"
        )
    return d


def _np_acc(a: np.ndarray, dtype: dt.dtype | None) -> Any:
    return dtype.np if dtype is not None else (None if a.dtype.kind == "f" else np.int64)


def _spread_array(g: np.ndarray, shape: tuple, dim: Any, keepdim: bool) -> np.ndarray:
    """``spread`` of an array."""
    if not shape:
        return g
    if g.ndim and not keepdim:
        axes = axes_of(len(shape), dim)
        g = g[tuple([None if i in axes else slice(None) for i in range(len(shape))])]
    return expand_array(g, shape)


@op("sum(input: T, dim: dims? = None, keepdim: bool = False, *, dtype: dtype? = None)", kind="reduce")
class sum_:
    """Sum of the elements over ``dim`` (all dimensions by default). Integers and bool sum to int64."""

    def kernel(a, dim=None, keepdim=False, dtype=None):
        if dtype is None and (found := reduced("sum", a, dim, keepdim)) is not None:
            return found
        if dtype is None and a.size <= 16384 and (a.dtype is _F32 or a.dtype is _F64):  # the usual call
            return _add(a, dim or None if a.ndim else None, keepdims=keepdim, out=...)  # out: 0-d arrays, no scalars
        return np_axes_sum(a, axes_of(a.ndim, dim), keepdim, _np_acc(a, dtype))

    def meta(m, dim=None, keepdim=False, dtype=None):
        return Meta(reduced_shape(m.shape, dim, keepdim), _acc_dtype(m.dtype, dtype))

    def vjp(g, input_meta, dim, keepdim):
        return spread(g, input_meta.shape, dim, keepdim)

    def on_arrays(g, input_meta, dim, keepdim):
        if g.dtype is not input_meta.dtype.np:
            return None
        return (_spread_array(g, input_meta.shape, dim, keepdim),)

    def ref(a, dim=None, keepdim=False, dtype=None):
        return np.sum(a, axis=axes_of(a.ndim, dim), keepdims=keepdim, dtype=_np_acc(a, dtype))

    reduce = Reduce("add", pre=_acc_pre)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(2, 3, 4), dim=(0, 2))
        yield Sample(t(2, 3, 4), dim=1, keepdim=True)
        yield Sample(t())

    def errors():
        yield (t(2, 3),), {"dim": 5}, IndexError, "Dimension out of range"
        yield (t(2, 3),), {"dim": (0, 0)}, RuntimeError, "multiple times"


@op("mean(input: T, dim: dims? = None, keepdim: bool = False, *, dtype: dtype? = None)", kind="reduce")
class mean:
    """Mean over ``dim`` (all dimensions by default). RuntimeError for integer inputs, unless ``dtype`` says a float."""

    def kernel(a, dim=None, keepdim=False, dtype=None):
        if dtype is None and (found := reduced("mean", a, dim, keepdim)) is not None:
            return found
        if a.dtype.kind != "f" or dtype is not None:
            a = a.astype(_need_float("mean", dt.FROM_NUMPY[a.dtype], dtype).np, copy=False)
        axes = axes_of(a.ndim, dim)
        n = a.size if axes is None else reduced_count(a.shape, axes)
        if n == 0:
            return np.full(reduced_shape(a.shape, dim, keepdim), np.nan, a.dtype)
        if a.dtype == np.float16:  # the sum may overflow where the mean does not
            return half(np_axes_sum(single(a), axes, keepdim) / n)
        return np_axes_sum(a, axes, keepdim) / a.dtype.type(n)

    def meta(m, dim=None, keepdim=False, dtype=None):
        return Meta(reduced_shape(m.shape, dim, keepdim), _need_float("mean", m.dtype, dtype))

    def vjp(g, input_meta, dim, keepdim):
        shape = input_meta.shape
        return spread(g, shape, dim, keepdim) / reduced_count(shape, dim)  # memory of its own, which may be written to

    def on_arrays(g, input_meta, dim, keepdim):
        if g.dtype is not input_meta.dtype.np:
            return None
        shape = input_meta.shape
        if g.ndim == 0:
            out = np.empty(shape, g.dtype)
            out.fill(g / reduced_count(shape, dim))
            return (out,)
        return (np.true_divide(_spread_array(g, shape, dim, keepdim), reduced_count(shape, dim), out=...),)

    def ref(a, dim=None, keepdim=False, dtype=None):
        return np.mean(a.astype(np.float64), axis=axes_of(a.ndim, dim), keepdims=keepdim).astype(a.dtype)

    reduce = Reduce("add", pre=_acc_pre, finish=lambda b, acc, n, **_: acc / n)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(2, 3, 4), dim=(0, 2))
        yield Sample(t(2, 3, 4), dim=1, keepdim=True)

    def errors():
        yield (t(2, 3, dtype=dt.int64),), {}, RuntimeError, "could not infer output dtype"


@op("prod(input: T, dim: dim? = None, keepdim: bool = False, *, dtype: dtype? = None)", kind="reduce")
class prod:
    """Product over one dimension, or over all. The gradient is exact to every order, also with zeros."""

    def kernel(a, dim=None, keepdim=False, dtype=None):
        if dtype is None and a.dtype.kind == "f" and (found := reduced("prod", a, dim, keepdim)) is not None:
            return found
        return np.multiply.reduce(a, axis=axes_of(a.ndim, dim), dtype=_np_acc(a, dtype), keepdims=keepdim)

    def meta(m, dim=None, keepdim=False, dtype=None):
        return Meta(reduced_shape(m.shape, dim, keepdim), _acc_dtype(m.dtype, dtype))

    def vjp(g, input, dim, keepdim, dtype):
        x = input if dtype is None else input.to(dtype)
        if x.ndim == 0:
            return g
        shape = x.shape
        if dim is None:
            x, d = x.reshape(-1), 0
        else:
            d, g = dim, keep(g, x.ndim, dim, keepdim)
        # product of all the others = product before * product after: no division, so zeros are exact
        before = _exclusive(x, d)
        after = _exclusive(x.flip(d), d).flip(d)
        return (g * (before * after)).reshape(shape)

    def ref(a, dim=None, keepdim=False, dtype=None):
        return np.prod(a, axis=axes_of(a.ndim, dim), keepdims=keepdim, dtype=_np_acc(a, dtype))

    reduce = Reduce("mul", pre=_acc_pre)

    def samples():
        yield Sample(t(3, 4))
        yield Sample(t(2, 3, 4), dim=1)
        yield Sample(t(2, 3, 4), dim=2, keepdim=True)


def _exclusive(x: Any, d: int) -> Any:
    """Cumulative product of the elements before each element along ``d``."""
    n = x.shape[d]
    if n == 0:
        return x
    first = x.narrow(d, 0, 1)
    one = first.new_ones(first.shape)
    return cat([one, x.narrow(d, 0, n - 1)], d).cumprod(d)


def _check_extremum(name: str, shape: tuple, dim: Any, whole: type = RuntimeError) -> None:
    """An extremum of nothing is an error; of an empty batch it is empty."""
    axes = axes_of(len(shape), dim)
    if axes is None:
        if any(type(s) is int and s == 0 for s in shape):
            raise whole(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return
    for a in axes:
        if type(shape[a]) is int and shape[a] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {a} to have non-zero size.")


def _extremum(ufunc: Any, name: str) -> Any:
    reduce, what = ufunc.reduce, name[1:]

    def kernel(a, dim=(), keepdim=False):
        if a.size == 0:
            _check_extremum(name, a.shape, dim)
        if (found := reduced(what, a, dim, keepdim)) is not None:
            return found
        return reduce(a, dim or None if a.ndim else None, keepdims=keepdim, out=...)

    return kernel


def _extremum_meta(name: str) -> Any:
    def meta(m, dim=(), keepdim=False):
        _check_extremum(name, m.shape, dim)
        return Meta(reduced_shape(m.shape, dim, keepdim), m.dtype)

    return meta


def _share_evenly(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """Gradient of an extremum: all elements equal to it get the same share. Nothing equals a NaN: all are NaN then."""
    at = input == keep(out, input.ndim, dim, keepdim)
    count = at.sum(dim or None, keepdim=True) if input.ndim else at.to(g.dtype)
    return at * (keep(g, input.ndim, dim, keepdim) / count)


def _share_of_all(g: Any, input: Any, out: Any, dim: Any, keepdim: bool) -> Any:
    """Gradient of ``max(x)`` and ``min(x)``: NaNs share that of a NaN, and no other element gets anything."""
    at = (input == keep(out, input.ndim, dim, keepdim)).logical_or(input.isnan())
    count = at.sum() if input.ndim else at.to(g.dtype)
    share = keep(g, input.ndim, dim, keepdim) / count
    return (at * share).masked_fill(at.logical_not(), 0)


def _extremum_samples() -> Any:
    yield Sample(t(3, 4))
    yield Sample(t(2, 3, 4), dim=(0, 2))
    yield Sample(t(2, 3, 4), dim=1, keepdim=True)


@op("amax(input: T, dim: dims = (), keepdim: bool = False)", kind="reduce")
class amax:
    """Largest element over ``dim``; NaN wins. Equal elements share the gradient evenly."""

    kernel, meta = _extremum(np.maximum, "amax"), _extremum_meta("amax")

    def vjp(g, input, out, dim, keepdim):
        return _share_evenly(g, input, out, dim, keepdim)

    def ref(a, dim=(), keepdim=False):
        return np.max(a, axis=axes_of(a.ndim, dim), keepdims=keepdim)

    reduce = Reduce("max")
    samples = _extremum_samples

    def errors():
        yield (t(0, 3),), {"dim": 0}, IndexError, "non-zero size"
        yield (t(0),), {}, RuntimeError, "reduction dim to be specified"


@op("_peak(input: T, dim: dims = (), keepdim: bool = False)", kind="reduce", method=False, function=False)
class _peak:
    """amax, but no error for nothing: what softmax takes off from its elements, where there are some."""

    def kernel(a, dim=(), keepdim=False):
        return amax.kernel(a, dim, keepdim) if a.size else np.zeros(reduced_shape(a.shape, dim, keepdim), a.dtype)

    def meta(m, dim=(), keepdim=False):
        return Meta(reduced_shape(m.shape, dim, keepdim), m.dtype)

    def vjp(g, input, out, dim, keepdim):
        return _share_evenly(g, input, out, dim, keepdim)

    def ref(a, dim=(), keepdim=False):
        return np.max(a, axis=axes_of(a.ndim, dim), keepdims=keepdim)

    reduce = Reduce("max")
    samples = _extremum_samples


@op("amin(input: T, dim: dims = (), keepdim: bool = False)", kind="reduce")
class amin:
    """Smallest element over ``dim``; NaN wins. Equal elements share the gradient evenly."""

    kernel, meta = _extremum(np.minimum, "amin"), _extremum_meta("amin")

    def vjp(g, input, out, dim, keepdim):
        return _share_evenly(g, input, out, dim, keepdim)

    def ref(a, dim=(), keepdim=False):
        return np.min(a, axis=axes_of(a.ndim, dim), keepdims=keepdim)

    reduce = Reduce("min")
    samples = _extremum_samples

    def errors():
        yield (t(0, 3),), {"dim": 0}, IndexError, "non-zero size"


@op("max_all(input: T, dim: dims = (), keepdim: bool = False)", kind="reduce", method=False, function=False)
class max_all:
    """``max(x)``: amax of everything, but NaNs share the gradient of a NaN."""

    kernel, meta, vjp = amax.kernel, amax.meta, _share_of_all
    reduce = Reduce("max")

    def ref(a, dim=(), keepdim=False):
        return np.max(a)

    def samples():
        yield Sample(t(3, 4))


@op("min_all(input: T, dim: dims = (), keepdim: bool = False)", kind="reduce", method=False, function=False)
class min_all:
    """``min(x)``: amin of everything, but NaNs share the gradient of a NaN."""

    kernel, meta, vjp = amin.kernel, amin.meta, _share_of_all
    reduce = Reduce("min")

    def ref(a, dim=(), keepdim=False):
        return np.min(a)

    def samples():
        yield Sample(t(3, 4))


_INT64 = np.dtype(np.int64)


def _arg_kernel(fn: Any, name: str) -> Any:
    def kernel(a, dim=None, keepdim=False):
        if a.dtype.kind == "b":
            raise RuntimeError(f"{name}(): does not support bool input")
        if a.ndim == 0:
            return np.zeros((), np.int64)
        if a.size == 0:
            _check_extremum(name, a.shape, dim, IndexError)
        if keepdim:
            return np.asarray(fn(a, axis=dim, keepdims=True), dtype=np.int64)
        at = method(a, dim)
        return at if type(at) is np.ndarray and at.dtype is _INT64 else np.asarray(at, dtype=np.int64)

    method = getattr(np.ndarray, fn.__name__)
    return kernel


def _arg_meta(name: str) -> Any:
    def meta(m, dim=None, keepdim=False):
        if m.dtype is dt.bool_:
            raise RuntimeError(f"{name}(): does not support bool input")
        _check_extremum(name, m.shape, dim, IndexError)
        return Meta(reduced_shape(m.shape, dim, keepdim), dt.int64)

    return meta


def _dim_samples() -> Any:
    yield Sample(t(3, 4))
    yield Sample(t(2, 3, 4), dim=1)
    yield Sample(t(2, 3, 4), dim=2, keepdim=True)


@op("argmax(input: T, dim: dim? = None, keepdim: bool = False)", kind="reduce")
class argmax:
    """Index of the largest element (the first of equals; a NaN counts as largest), int64."""

    kernel, meta = _arg_kernel(np.argmax, "argmax"), _arg_meta("argmax")
    nondiff = True
    reduce = Reduce("argmax")

    def ref(a, dim=None, keepdim=False):
        return np.argmax(a, axis=dim, keepdims=keepdim)

    samples = _dim_samples

    def errors():
        yield (t(0),), {}, IndexError, "reduction dim"


@op("argmin(input: T, dim: dim? = None, keepdim: bool = False)", kind="reduce")
class argmin:
    """Index of the smallest element (the first of equals; a NaN counts as smallest), int64."""

    kernel, meta = _arg_kernel(np.argmin, "argmin"), _arg_meta("argmin")
    nondiff = True
    reduce = Reduce("argmin")

    def ref(a, dim=None, keepdim=False):
        return np.argmin(a, axis=dim, keepdims=keepdim)

    samples = _dim_samples

    def errors():
        yield (t(0),), {}, IndexError, "reduction dim"


def _logical_kernel(ufunc: Any) -> Any:
    def kernel(a, dim=None, keepdim=False):
        axes = None if dim is None or a.ndim == 0 else dim
        out = np.asarray(ufunc.reduce(a, axis=axes, keepdims=keepdim, dtype=np.bool_))
        return out.astype(np.uint8) if a.dtype == np.uint8 else out

    return kernel


def _logical_meta(m, dim=None, keepdim=False):
    shape = m.shape if dim == () else reduced_shape(m.shape, dim, keepdim)
    return Meta(shape, dt.uint8 if m.dtype is dt.uint8 else dt.bool_)


def _logical_pre(b: Any, x: Any, **_: Any) -> Any:
    return b.ne(x, b.const(0, x.dtype))


@op("all(input: T, dim: dims? = None, keepdim: bool = False)", kind="reduce")
class all_:
    """Whether every element is true; bool (uint8 for uint8 inputs)."""

    kernel, meta = _logical_kernel(np.logical_and), _logical_meta
    nondiff = True
    reduce = Reduce("and", pre=_logical_pre)

    def ref(a, dim=None, keepdim=False):
        return np.all(a, axis=dim, keepdims=keepdim)

    def samples():
        yield Sample(t(3, 4) > -1)
        yield Sample(t(2, 3, 4), dim=1, keepdim=True)


@op("any(input: T, dim: dims? = None, keepdim: bool = False)", kind="reduce")
class any_:
    """Whether some element is true; bool (uint8 for uint8 inputs)."""

    kernel, meta = _logical_kernel(np.logical_or), _logical_meta
    nondiff = True
    reduce = Reduce("or", pre=_logical_pre)

    def ref(a, dim=None, keepdim=False):
        return np.any(a, axis=dim, keepdims=keepdim)

    def samples():
        yield Sample(t(3, 4) > 1)
        yield Sample(t(2, 3, 4), dim=1, keepdim=True)


def _with_index(arg: Any, ufunc: Any, name: str) -> Any:
    def kernel(a, dim, keepdim=False):
        if a.ndim == 0:
            return a.copy(), np.zeros((), np.int64)
        if a.size == 0:
            _check_extremum(name, a.shape, dim)
        at = method(a, dim, None) if not keepdim else method(a, dim, None, keepdims=True)
        found = reduce(a, dim, None, None, keepdim)
        if found.dtype.kind == "f" and np.count_nonzero(found) < found.size:  # of 0.0 and -0.0 the one at the index
            found = np.take_along_axis(a, at if keepdim else np.expand_dims(at, dim), dim)
            found = found if keepdim else found.squeeze(dim)
        return found, at

    reduce, method = ufunc.reduce, getattr(np.ndarray, arg.__name__)
    return kernel


def _with_index_meta(name: str) -> Any:
    def meta(m, dim, keepdim=False):
        _check_extremum(name, m.shape, dim)
        shape = reduced_shape(m.shape, dim, keepdim)
        return Meta(shape, m.dtype), Meta(shape, dt.int64)

    return meta


def at_index(g: Any, index: Any, shape: tuple, dim: int, keepdim: bool) -> Any:
    """Zeros of ``shape`` with ``g`` at ``index`` along ``dim``: the gradient of picking one element a row."""
    if not shape:
        return g
    if not keepdim:
        g, index = g.unsqueeze(dim), index.unsqueeze(dim)
    return g.new_zeros(shape).scatter(dim, index, g)


@op("max_dim(input: T, dim: dim, keepdim: bool = False)", kind="reduce", n_out=2)
class max_dim:
    """Largest element along ``dim`` and its index; the gradient goes to that index."""

    kernel, meta = _with_index(np.argmax, np.maximum, "max"), _with_index_meta("max")

    def vjp(g0, out1, input_meta, dim, keepdim):
        return at_index(g0, out1, input_meta.shape, dim, keepdim)

    def ref(a, dim, keepdim=False):
        return np.max(a, axis=dim, keepdims=keepdim), np.argmax(a, axis=dim, keepdims=keepdim)

    def samples():
        yield Sample(t(3, 4), 1)
        yield Sample(t(2, 3, 4), 0, keepdim=True)


@op("min_dim(input: T, dim: dim, keepdim: bool = False)", kind="reduce", n_out=2)
class min_dim:
    """Smallest element along ``dim`` and its index; the gradient goes to that index."""

    kernel, meta = _with_index(np.argmin, np.minimum, "min"), _with_index_meta("min")

    def vjp(g0, out1, input_meta, dim, keepdim):
        return at_index(g0, out1, input_meta.shape, dim, keepdim)

    def ref(a, dim, keepdim=False):
        return np.min(a, axis=dim, keepdims=keepdim), np.argmin(a, axis=dim, keepdims=keepdim)

    def samples():
        yield Sample(t(3, 4), 1)
        yield Sample(t(2, 3, 4), 0, keepdim=True)


MaxResult = named_results("max", ["values", "indices"])
MinResult = named_results("min", ["values", "indices"])
AminmaxResult = named_results("aminmax", ["min", "max"])
_MISSING: Any = object()


_max_all, _min_all = max_all.fn, min_all.fn


@function("max(input: T, keepdim: bool, other: Tn)", direct=True)
@numpy_names
def max_(input: Any, dim: Any = _MISSING, keepdim: bool = False, *, other: Any = _MISSING) -> Any:
    """``max(x)``, ``max(x, dim, keepdim)`` -> (values, indices), or the elementwise ``max(x, other)``."""
    if dim is _MISSING and other is _MISSING and isinstance(input, Tensor) and input._data is not None:
        if input._data.size:
            return _max_all(input)
    if not hasattr(input, "_data"):
        raise TypeError(f"max(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if other is not _MISSING or hasattr(dim, "_data"):
        return input.maximum(dim if other is _MISSING else other)
    if dim is not _MISSING:
        return tuple.__new__(MaxResult, max_dim(input, dim, keepdim))
    if input.numel() == 0:
        _check_extremum("max", (0,), ())
    return max_all(input)


@function("min(input: T, keepdim: bool, other: Tn)", direct=True)
@numpy_names
def min_(input: Any, dim: Any = _MISSING, keepdim: bool = False, *, other: Any = _MISSING) -> Any:
    """``min(x)``, ``min(x, dim, keepdim)`` -> (values, indices), or the elementwise ``min(x, other)``."""
    if dim is _MISSING and other is _MISSING and isinstance(input, Tensor) and input._data is not None:
        if input._data.size:
            return _min_all(input)
    if not hasattr(input, "_data"):
        raise TypeError(f"min(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if other is not _MISSING or hasattr(dim, "_data"):
        return input.minimum(dim if other is _MISSING else other)
    if dim is not _MISSING:
        return tuple.__new__(MinResult, min_dim(input, dim, keepdim))
    if input.numel() == 0:
        _check_extremum("min", (0,), ())
    return min_all(input)


@function("aminmax(input: T, dim: dim, keepdim: bool)")
@numpy_names
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, over one dimension or all."""
    d = () if dim is None else (dim,)
    if dim is None and input.numel() == 0:
        _check_extremum("aminmax", (0,), ())
    pair = amin(input, d, keepdim), amax(input, d, keepdim)
    return AminmaxResult(*[x if x._node is None else renamed(x, "AminmaxBackward0") for x in pair])


def _axes(dim: Any, rank: int) -> tuple | None:
    """The dimensions to reduce, from the first, in order; None for all; () for what the general way looks at."""
    if dim is None or type(dim) is tuple and not dim:
        return None
    dims = (dim,) if type(dim) is int else tuple(dim) if type(dim) in (tuple, list) else ()
    if not all(type(d) is int and -rank <= d < rank for d in dims):
        return ()
    axes = tuple(sorted({d % rank for d in dims}))
    return axes if len(axes) == len(dims) else ()


@function("nansum(input: T, dim: dims, keepdim: bool, dtype: dtype)")
@numpy_names
def nansum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum with NaN counted as zero."""
    if not input.is_floating_point():
        return sum_(input, dim, keepdim, dtype=dtype)
    a = input._data
    graph = input.requires_grad and STATE.grad
    if dtype is None and a is not None and not graph and not SLOW[0] and type(input) in FAST:
        axes = _axes(dim, a.ndim)
        found = None if axes == () else reduced("nansum", a, axes, keepdim)
        if found is not None:
            return wrap(found)
    return sum_(input.masked_fill(input != input, 0), dim, keepdim, dtype=dtype)


@function("nanmean(input: T, dim: dims, keepdim: bool, dtype: dtype)")
@numpy_names
def nanmean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean of the elements that are not NaN (NaN where there is none). RuntimeError for integers."""
    if not input.is_floating_point():
        raise RuntimeError(f"nanmean(): expected input to have floating point or complex dtype but got {input.dtype}")
    total = nansum(input, dim, keepdim, dtype=dtype)
    return total / sum_(input == input, dim, keepdim)


@function("count_nonzero(input: T, dim: dims)")
@numpy_names
def count_nonzero(input: Any, dim: Any = None, *dims: Any) -> Any:
    """How many elements differ from zero, int64. Several dimensions may be given one after the other."""
    return sum_(input != 0, (dim, *dims) if dims else dim)


@function("trace(input: T)")
def trace(input: Any) -> Any:
    """Sum of the main diagonal of a matrix. RuntimeError unless 2-d."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return sum_(input.diagonal())
