"""Variance, norms, logsumexp, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.names import renamed
from ..errors import warn
from ..meta import Meta, normalize_dim, normalize_dims, surely_less
from ..op import Sample, function, op
from ..size_values import sym_max, varies
from ._half import half, single
from ._names import numpy_names
from ._native_reduce import reduced, spread_of
from ._samples import t
from ._shapes import axes_of, keep, np_axes_sum, reduced_count, reduced_shape
from .checks import refuse_where
from .reduce import _peak, amax, amin, mean, sum_


def _var_kernel(a: np.ndarray, dim: Any, correction: Any, keepdim: bool) -> np.ndarray:
    """Two passes: mean, then the mean of squared deviations."""
    if a.dtype.kind != "f":
        raise RuntimeError("std and var only support floating point and complex dtypes")
    if a.dtype == np.float16:
        return half(_var_kernel(single(a), dim, correction, keepdim))
    axes = axes_of(a.ndim, dim)
    n = reduced_count(a.shape, axes)
    with np.errstate(all="ignore"):
        d = np.asarray(a - np_axes_sum(a, axes, True) / a.dtype.type(max(n, 1))) if n else a
        np.multiply(d, d, out=d) if n else None
        return np.asarray(np_axes_sum(d, axes, keepdim) / a.dtype.type(max(n - correction, 0)))


def _var_meta(m: Meta, dim: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Meta:
    if not m.dtype.is_floating_point:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    return Meta(reduced_shape(m.shape, dim, keepdim), m.dtype)


def _freedom(shape: Any, dim: Any, correction: Any) -> Any:
    """Number of elements less the correction, at least 0."""
    n = reduced_count(shape, dim) - correction
    return max(n, 0) if isinstance(n, (int, float)) else sym_max(n, 0)


def _deviation(x: Any, dim: Any) -> Any:
    return x - mean(x, dim, True)


def _over(x: Any, n: Any) -> Any:
    """x / n, where n may be 0 (NaN or infinity then)."""
    return x / n


def _var_samples() -> Any:
    yield Sample(t(3, 4))
    yield Sample(t(2, 3, 4), (0, 2), correction=0)
    yield Sample(t(2, 3, 4), 1, keepdim=True)


@op(
    "var(input: T, dim: dims? = None, *, correction: num = 1, keepdim: bool = False)",
    kind="reduce",
    method=False,
    function=False,
)
class var_op:
    """Variance over ``dim``: the sum of squared deviations over (n - correction)."""

    def kernel(a, dim=None, correction=1, keepdim=False):
        found = spread_of("var", a, dim, correction, keepdim)
        return _var_kernel(a, dim, correction, keepdim) if found is None else found

    meta = _var_meta

    def decompose(x, dim=None, correction=1, keepdim=False):
        d = _deviation(x, dim)
        n = _freedom(x.shape, dim, correction)
        return _over(sum_(d * d, dim, keepdim), n)

    def vjp(g, input, dim, correction, keepdim):
        n = _freedom(input.shape, dim, correction)
        return keep(g, input.ndim, dim, keepdim) * (_deviation(input, dim) * _over(input.new_ones(()) * 2, n))

    def ref(a, dim=None, correction=1, keepdim=False):
        return np.var(a, axis=axes_of(a.ndim, dim), ddof=correction, keepdims=keepdim)

    samples = _var_samples

    def errors():
        yield (t(3, dtype=dt.int64),), {}, RuntimeError, "floating point"


@op(
    "std(input: T, dim: dims? = None, *, correction: num = 1, keepdim: bool = False)",
    kind="reduce",
    method=False,
    function=False,
)
class std_op:
    """Square root of the variance; its gradient at constant data is 0."""

    def kernel(a, dim=None, correction=1, keepdim=False):
        found = spread_of("std", a, dim, correction, keepdim)
        if found is not None:
            return found
        wide = single(a) if a.dtype == np.float16 else a  # the variance may overflow
        return np.asarray(np.sqrt(_var_kernel(wide, dim, correction, keepdim)).astype(a.dtype, copy=False))

    meta = _var_meta

    def decompose(x, dim=None, correction=1, keepdim=False):
        return var_op(x, dim, correction=correction, keepdim=keepdim).sqrt()

    def vjp(g, input, out, dim, correction, keepdim):
        n = _freedom(input.shape, dim, correction)
        if input.dtype.itemsize == 2:  # g / out may overflow
            apart = _deviation(input, dim) / keep(out.masked_fill(out == 0, 1), input.ndim, dim, keepdim)
            return keep(g, input.ndim, dim, keepdim) * (apart * _over(input.new_ones(()), n))
        scale = (g / out).masked_fill(out == 0, 0)
        return keep(scale, input.ndim, dim, keepdim) * (_deviation(input, dim) * _over(input.new_ones(()), n))

    def ref(a, dim=None, correction=1, keepdim=False):
        return np.std(a, axis=axes_of(a.ndim, dim), ddof=correction, keepdims=keepdim)

    samples = _var_samples


def _moment_args(dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple:
    """Overloads: f(x, unbiased), f(x, dim, unbiased, keepdim), f(x, dim, correction=, keepdim=)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(bool(unbiased))
    return dim, correction, keepdim


def _moments(name: str, input: Any, dim: Any, unbiased: Any, keepdim: bool, correction: Any) -> tuple:
    """``_moment_args``, with PyTorch's warning where too few elements are left to divide by."""
    args = dim, correction, _ = _moment_args(dim, unbiased, keepdim, correction)
    shape, n = input.shape, 1
    dims = range(len(shape)) if dim is None or type(dim) in (tuple, list) and not dim else dim
    for i in (dims,) if isinstance(dims, int) else dims:
        if not (type(i) is int and -len(shape) <= i < len(shape)) or type(shape[i]) is not int:
            return args  # an error later, or a size that varies
        n *= shape[i]
    if isinstance(correction, (int, float)) and n <= correction and input.dtype.is_floating_point:
        warn(
            f"{name}(): degrees of freedom is <= 0: {n} elements with a correction of {correction}. Correction should "
            "be strictly less than the reduction factor (input numel divided by output numel)."
        )
    return args


@function("var(input: T, unbiased: bool, keepdim: bool, correction: num)")
@numpy_names
def var(input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """Variance over ``dim``: ``correction`` 1 (default) divides by n - 1. RuntimeError for integers."""
    dim, correction, keepdim = _moments("var", input, dim, unbiased, keepdim, correction)
    return var_op(input, dim, correction=correction, keepdim=keepdim)


@function("std(input: T, unbiased: bool, keepdim: bool, correction: num)")
@numpy_names
def std(input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    """Standard deviation over ``dim``. RuntimeError for integers."""
    dim, correction, keepdim = _moments("std", input, dim, unbiased, keepdim, correction)
    return std_op(input, dim, correction=correction, keepdim=keepdim)


@function("var_mean(input: T, unbiased: bool, keepdim: bool, correction: num)", method=False)
@numpy_names
def var_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple:
    """(variance, mean) over ``dim``."""
    dim, correction, keepdim = _moments("var_mean", input, dim, unbiased, keepdim, correction)
    pair = var_op(input, dim, correction=correction, keepdim=keepdim), mean(input, dim, keepdim)
    return tuple([x if x._node is None else renamed(x, "VarMeanBackward0") for x in pair])


@function("std_mean(input: T, unbiased: bool, keepdim: bool, correction: num)", method=False)
@numpy_names
def std_mean(
    input: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
) -> tuple:
    """(standard deviation, mean) over ``dim``."""
    dim, correction, keepdim = _moments("std_mean", input, dim, unbiased, keepdim, correction)
    pair = std_op(input, dim, correction=correction, keepdim=keepdim), mean(input, dim, keepdim)
    return tuple([x if x._node is None else renamed(x, "StdMeanBackward0") for x in pair])


@op(
    "logsumexp(input: T, dim: dims, keepdim: bool = False)",
    kind="composite",
    promote="float",
    names=("special.logsumexp",),
)
class logsumexp:
    """log(sum(exp(x))) over ``dim`` without overflow; all -inf gives -inf, with gradient 0."""

    def kernel(a, dim, keepdim=False):
        axes = axes_of(a.ndim, dim)
        if a.size == 0:
            with np.errstate(divide="ignore"):
                return np.log(np.add.reduce(np.exp(a), axis=axes, keepdims=keepdim))
        m = np.maximum.reduce(a, axis=axes, keepdims=True)
        m = np.where(np.isinf(m), 0, m).astype(a.dtype)
        with np.errstate(divide="ignore", over="ignore"):
            s = np.log(np_axes_sum(np.exp(a - m), axes, keepdim))
        return s + m.reshape(np.shape(s))

    def meta(m, dim, keepdim=False):
        d = m.dtype if m.dtype.is_floating_point else dt.get_default_dtype()
        return Meta(reduced_shape(m.shape, dim, keepdim), d)

    def decompose(x, dim, keepdim=False):
        if not x.is_floating_point():
            x = x.to(dt.get_default_dtype())
        m = _peak(x, dim, True).detach()
        m = m.masked_fill(m.abs() == float("inf"), 0)
        s = sum_((x - m).exp(), dim, keepdim).log()
        return s + m.reshape(s.shape)

    def vjp(g, input, out, dim, keepdim):
        n = input.ndim
        total = keep(out, n, dim, keepdim)
        return keep(g, n, dim, keepdim) * (input - total.masked_fill(total == float("-inf"), 0)).exp()

    def ref(a, dim, keepdim=False):
        return np.log(np.sum(np.exp(a), axis=axes_of(a.ndim, dim), keepdims=keepdim))

    def samples():
        yield Sample(t(3, 4), 1)
        yield Sample(t(2, 3, 4), (0, -1), True)


# ---- norms


def _norm_kernel(a: np.ndarray, axes: Any, p: float, keepdim: bool) -> Any:
    if p == 2:
        return np.sqrt(np_axes_sum(a * a, axes, keepdim))
    a = np.abs(a)
    if p == 1:
        return np_axes_sum(a, axes, keepdim)
    if p == np.inf:
        return np.maximum.reduce(a, axis=axes, keepdims=keepdim)
    if p == -np.inf:
        return np.minimum.reduce(a, axis=axes, keepdims=keepdim)
    if p == 0:
        return np_axes_sum((a != 0).astype(a.dtype), axes, keepdim)
    with np.errstate(all="ignore"):
        return np_axes_sum(a ** a.dtype.type(p), axes, keepdim) ** a.dtype.type(1 / p)


def _norm_checks(m: Any, ord: float, dim: Any) -> None:
    d = m.dtype if isinstance(m.dtype, dt.dtype) else dt.FROM_NUMPY[m.dtype]
    if not d.is_floating_point:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {d.name}")
    if (ord < 0 or ord == float("inf")) and any(
        surely_less(m.shape[i], 1) for i in (axes_of(m.ndim, dim) or range(m.ndim))
    ):
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not "
            "have an identity"
        )


@op(
    "vector_norm(input: T, ord: num = 2, dim: dims? = None, keepdim: bool = False)",
    kind="reduce",
    method=False,
    function=False,
)
class vector_norm_op:
    """(sum |x|^ord)^(1/ord) over ``dim``; inf and -inf give the largest and smallest |x|, 0 counts what is not zero.

    The gradient at zero is zero. Where the result is NaN, the gradient of ord inf goes to the NaNs.
    """

    def kernel(a, ord=2, dim=None, keepdim=False):
        _norm_checks(a, ord, dim)
        if ord == 2 and (found := reduced("norm", a, dim, keepdim)) is not None:
            return found
        axes = axes_of(a.ndim, dim)
        if a.dtype == np.float16:
            return half(np.asarray(_norm_kernel(single(a), axes, ord, keepdim)))
        return _norm_kernel(a, axes, ord, keepdim)

    def meta(m, ord=2, dim=None, keepdim=False):
        _norm_checks(m, ord, dim)
        return Meta(reduced_shape(m.shape, dim, keepdim), m.dtype)

    def decompose(x, ord=2, dim=None, keepdim=False):
        if ord == 2:
            return sum_(x * x, dim, keepdim).sqrt()
        a = x.abs()
        if ord == 1:
            return sum_(a, dim, keepdim)
        if ord in (float("inf"), float("-inf")):
            return (amax if ord > 0 else amin)(a, dim or (), keepdim)
        if ord == 0:
            return sum_((x != 0).to(x.dtype), dim, keepdim)
        return sum_(a**ord, dim, keepdim) ** (1 / ord)

    def vjp(g, input, out, ord, dim, keepdim):
        n = input.ndim
        if ord == 0:
            return input.new_zeros(input.shape)
        gk = keep(g, n, dim, keepdim)
        if ord == 1:
            return input.sign() * gk
        outk = keep(out, n, dim, keepdim)
        if ord == 2:
            return gk * (input / outk).masked_fill(outk == 0, 0)  # 0 at 0, where the second derivative is NaN
        if ord in (float("inf"), float("-inf")):
            at = (input.abs() == outk).logical_or(input.isnan())
            count = at.sum(dim or None, keepdim=True) if n else at.to(g.dtype)
            return input.sign() * (at * (gk / count))
        size = input.abs()
        zero = size == 0
        if ord < 1:  # no slope at 0, where the second derivative is NaN
            return input.sign() * (size ** (ord - 1)).masked_fill(zero, 0) * gk * outk ** (1 - ord)
        power = (size.masked_fill(zero, 1) ** (ord - 1)).masked_fill(zero, 0)
        scale = (gk / outk.masked_fill(outk == 0, 1) ** (ord - 1)).masked_fill(outk == 0, 0)
        return input.sign() * power * scale

    def ref(a, ord=2, dim=None, keepdim=False):
        return np.asarray(_norm_kernel(a.astype(np.float64), axes_of(a.ndim, dim), ord, keepdim))

    def samples():
        for p in (1, 2, 3, 2.5, float("inf"), float("-inf"), 0):
            yield Sample(t(3, 4), p, (1,))
        yield Sample(t(2, 3, 4), 2, (0, 2), True)


@function("linalg.vector_norm(x: T, ord: num, dim: dims, keepdim: bool, dtype: dtype)")
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Vector norm of order ``ord`` over ``dim`` (over all elements by default)."""
    if dtype is not None:
        x = x.to(dtype)
    return vector_norm_op(x, ord, dim, keepdim)


def _need_matrix(name: str, x: Any) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")


@function("linalg.matrix_norm(A: T, dim: dims, keepdim: bool, dtype: dtype)")
def matrix_norm(A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Matrix norm: "fro", "nuc", inf, -inf, 1, -1, 2 or -2 over the two dimensions ``dim``."""
    _need_matrix("linalg.matrix_norm", A)
    dim = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    a, b = normalize_dim(dim[0], A.ndim), normalize_dim(dim[1], A.ndim)
    if a == b:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    if not A.is_floating_point():
        raise RuntimeError(f"linalg.matrix_norm: Expected a floating point or complex tensor as input. Got {A.dtype}")
    if dtype is not None:
        A = A.to(dtype)
    if ord == "fro":
        return vector_norm_op(A, 2, (a, b), keepdim)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        from .decompositions import svdvals

        s = svdvals(A.movedim((a, b), (-2, -1)))
        empty = surely_less(s.shape[-1], 1)
        out = s.sum(-1) if ord == "nuc" or empty else (s.amax(-1) if ord > 0 else s.amin(-1))
        if keepdim:
            for d in sorted((a, b)):
                out = out.unsqueeze(d)
        return out
    if isinstance(ord, str) or abs(ord) not in (1, float("inf")):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if abs(ord) == float("inf"):
        a, b = b, a
    sums = vector_norm_op(A, 1, (a,), keepdim)
    if not keepdim and b > a:
        b -= 1
    if surely_less(sums.shape[b], 1):
        return sums.sum(b, keepdim)
    return sums.amax(b, keepdim) if ord > 0 else sums.amin(b, keepdim)


@function("linalg.norm(A: T, dim: dims, keepdim: bool, dtype: dtype)")
def linalg_norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Vector norm, or matrix norm of a matrix with ``ord`` or two dimensions."""
    if dim is not None:
        dims = normalize_dims(tuple(dim) if isinstance(dim, list) else dim, A.ndim)
        if ord is not None and len(dims) not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    elif ord is not None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
            )
        dims = tuple(range(A.ndim))
    else:
        dims = None
    if isinstance(ord, str) and dims is not None and len(dims) != 2:
        raise RuntimeError(f"linalg.norm: order {ord} is for matrices only")
    if ord is not None and dims is not None and len(dims) == 2:
        return matrix_norm(A, ord, dims, keepdim, dtype=dtype)
    if not A.is_floating_point() and dtype is None:
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {A.dtype}")
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@function("norm(input: T, dim: dims, keepdim: bool, dtype: dtype)")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """Norm of order ``p`` over ``dim``: a vector norm, or "fro" and "nuc" of matrices."""
    if dtype is not None:
        input = input.to(dtype)
    if isinstance(dim, list):
        dim = tuple(dim)
    if p == "nuc":
        d = (0, 1) if dim is None else dim
        if dim is None and input.ndim != 2:
            raise RuntimeError("norm: the nuclear norm needs a matrix")
        return matrix_norm(input, "nuc", d, keepdim)
    if isinstance(p, str):
        if p != "fro":
            raise RuntimeError(f"only valid string values are 'fro' and 'nuc', found {p}")
        p = 2
    if p is None:
        p = 2
    if not input.is_floating_point():
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype}"
        )
    return vector_norm_op(input, p, dim, keepdim)


@function("dist(input: T, other: T, p: num)")
def dist(input: Any, other: Any, p: Any = 2) -> Any:
    """The p-norm of ``input - other``."""
    return vector_norm_op(input - other, p)


@function("renorm(input: T, p: num, dim: dim, maxnorm: num)")
def renorm(input: Any, p: Any, dim: int, maxnorm: float) -> Any:
    """Slices along ``dim`` scaled down so that their p-norm is at most ``maxnorm``."""
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    d = normalize_dim(dim, input.ndim)
    if input.dtype is dt.float16:  # 1e-7 is next to nothing there: the factor is computed in float32, with its gradient
        return renorm(input.float(), p, d, maxnorm).half()
    size = vector_norm_op(input, p, tuple(i for i in range(input.ndim) if i != d), True)
    factor = (maxnorm / (size + 1e-7)).masked_fill((size > maxnorm).logical_not(), 1)
    return input * factor


@function("renorm_(input: T, p: num, dim: dim, maxnorm: num)", function=False)
def renorm_(input: Any, p: Any, dim: int, maxnorm: float) -> Any:
    """In-place form of ``renorm``."""
    from ._inplace_forms import _in_place

    return _in_place(input, lambda old: renorm(old, p, dim, maxnorm))


# ---- quantiles


def _quantile(name: str, input: Any, q: Any, dim: Any, keepdim: bool, interpolation: str, ignore_nan: bool) -> Any:
    if not input.is_floating_point():
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if not hasattr(q, "_data"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = input.new_full((), q * 1.0)
    if q.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    refuse_where(lambda q: ~((q >= 0) & (q <= 1)), q, f"{name}() q values must be in the range [0, 1]")
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    ndim = input.ndim
    if dim is None:
        x, d, out_shape = input.reshape(-1), 0, (1,) * ndim if keepdim else ()
    else:
        d = normalize_dim(dim, ndim)
        x = input if ndim else input.reshape(1)
        out_shape = reduced_shape(input.shape, (d,), keepdim)
    x = x.movedim(d, -1).sort(-1)[0]
    n = x.shape[-1]
    bad = x != x
    count = (n - bad.sum(-1, keepdim=True)) if ignore_nan else n
    rank = q.reshape(-1) * (count - 1)
    if ignore_nan:
        rank = rank.clamp(min=0)
    else:
        last = rank.new_full((), n - 1) if varies(n) else n - 1
        rank = rank.masked_fill(bad.any(-1, keepdim=True), last)  # the NaN, which comes last
    low, high = {"lower": (rank.floor(), None), "higher": (rank.ceil(), None), "nearest": (rank.round(), None)}.get(
        interpolation, (rank.floor(), rank.ceil())
    )
    wide = (*x.shape[:-1], low.shape[-1])
    out = x.gather(-1, low.long().expand(wide))
    if high is not None:
        weight = rank - low if interpolation == "linear" else rank.new_full((), 0.5)
        out = out.lerp(x.gather(-1, high.long().expand(wide)), weight.expand(wide) if weight.ndim else weight)
    out = out.movedim(-1, 0)
    out = out.reshape(out_shape if q.ndim == 0 else (q.shape[0], *out_shape))
    return out if out._node is None else renamed(out, "SqueezeBackward4")


@function("quantile(input: T, q: Tn, dim: dim, keepdim: bool, interpolation: str)")
def quantile(input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """q-quantiles over ``dim``, interpolated between sorted elements; NaN where there is a NaN."""
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@function("nanquantile(input: T, q: Tn, dim: dim, keepdim: bool, interpolation: str)")
def nanquantile(input: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    """q-quantiles over ``dim`` of the elements that are not NaN."""
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


@function("cov(input: T, correction: int, fweights: T, aweights: T)")
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariance matrix of variables (rows) from observations (columns), perhaps weighted."""
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if input.dtype is dt.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = input.reshape(1, -1) if input.ndim < 2 else input
    n = x.shape[1]
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        if w.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions"
            )
        if w.is_floating_point() is (name == "fweights") or w.dtype is dt.bool_:
            raise RuntimeError(
                f"cov(): expected {name} to have {'integral' if name[0] == 'f' else 'floating point'} dtype but "
                f"got {name} with {w.dtype.name} dtype"
            )
        if w.numel() != n:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                f"{w.numel()} != {n}"
            )
        if n:
            refuse_where(lambda w: w < 0, w, f"cov(): {name} cannot be negative")
    w = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    total = n if w is None else w.sum()
    if w is not None and n:
        refuse_where(lambda t: t == 0, total, "cov(): weights sum to zero, can't be normalized", "ZeroDivisionError")
    if not x.is_floating_point():
        x = x.to(dt.get_default_dtype())
    center = (x.sum(1) if w is None else (x * w).sum(1)) / total
    if w is not None and aweights is not None and correction:
        by = aweights if fweights is None else fweights * aweights * aweights / aweights
        squares = (aweights * aweights if fweights is None else w * aweights).sum()
        norm_ = total - correction * squares / by.sum()
    else:
        norm_ = total - correction
    norm_ = max(norm_, 0) if not hasattr(norm_, "_data") else norm_.clamp(min=0)
    d = x - center.unsqueeze(1)
    out = d @ (d if w is None else d * w).t() / norm_
    return out.squeeze()


@function("corrcoef(input: T)")
def corrcoef(input: Any) -> Any:
    """Correlation coefficients of variables (rows) from observations (columns)."""
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    c = cov(input)
    if c.ndim == 0:
        return c / c
    s = c.diag().sqrt()
    return (c / s.unsqueeze(1) / s.unsqueeze(0)).clamp(-1, 1)
