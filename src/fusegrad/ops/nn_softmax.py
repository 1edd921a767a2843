"""softmax, softmin and log_softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arguments import as_tensor
from ..errors import warn
from ..meta import Meta
from ..op import Inline, Sample, function, op
from ..tensor import wrap
from ._half import half, single
from ._native import along, plain_arrays, row_kernel, rows_of
from ._nn import data
from .reduce import _peak

_top, _sum, _subtract, _exp, _divide = np.maximum.reduce, np.add.reduce, np.subtract, np.exp, np.divide
_SOFTMAX, _SOFTMAX_GRAD = row_kernel("softmax"), row_kernel("softmax_grad")
_LOG_SOFTMAX, _LOG_SOFTMAX_GRAD = row_kernel("log_softmax"), row_kernel("log_softmax_grad")


def _softmax_meta(x: Meta, dim: int) -> Meta:
    if not x.dtype.is_floating_point:
        raise NotImplementedError(f"softmax is not implemented for dtype {x.dtype.name}; give dtype=")
    return Meta(x.shape, x.dtype)


def _shifted(x: np.ndarray, dim: int) -> np.ndarray:
    """x minus its maximum along `dim`, in new memory."""
    if x.ndim == 0:
        return np.asarray(x - x)
    top = _top(x, dim, None, None, True) if x.shape[dim] else np.zeros((), x.dtype)
    return _subtract(x, top)


@op("_softmax(input: T, dim: dim)", kind="composite", method=False)
class _softmax:
    """exp(x) normalised to sum 1 along `dim`."""

    meta = _softmax_meta

    def kernel(x, dim):
        if (found := rows_of(_SOFTMAX, dim, x)) is not None:
            return found
        if x.dtype.kind != "f":
            raise TypeError("dtype")  # the meta rule words it
        if x.itemsize == 2:
            return half(_softmax.kernel(single(x), dim=dim))
        e = _shifted(x, dim)
        _exp(e, e)
        return _divide(e, _sum(e, dim if x.ndim else None, None, None, True), e)

    def vjp(g, out, dim):
        if (arrays := plain_arrays(g, out)) and (found := along(_SOFTMAX_GRAD, dim, *arrays)) is not None:
            return wrap(found)
        return out * (g - (g * out).sum(dim, keepdim=True))

    def on_arrays(g, out, dim):
        found = along(_SOFTMAX_GRAD, dim, g, out)
        return None if found is None else (found,)

    def decompose(x, dim):
        e = (x - _peak(x, dim, True)).exp()
        return e / e.sum(dim, keepdim=True)

    def samples():
        yield Sample(data(3, 5), 1)
        yield Sample(data(3, 5, scale=40), 0)
        yield Sample(data(2, 3, 4), -2)

    def ref(x, dim):
        e = np.exp(x - x.max(axis=dim, keepdims=True))
        return e / e.sum(axis=dim, keepdims=True)

    def errors():
        yield (data(3, 5), 2), {}, IndexError, "out of range"


@op("_log_softmax(input: T, dim: dim)", kind="composite", method=False)
class _log_softmax:
    """log(softmax(x)) along `dim`, computed stably."""

    meta = _softmax_meta

    def kernel(x, dim):
        if (found := rows_of(_LOG_SOFTMAX, dim, x)) is not None:
            return found
        if x.dtype.kind != "f":
            raise TypeError("dtype")  # the meta rule words it
        if x.itemsize == 2:
            return half(_log_softmax.kernel(single(x), dim=dim))
        z = _shifted(x, dim)
        total = np.asarray(_sum(_exp(z), dim if x.ndim else None, None, None, True))
        return _subtract(z, np.log(total, total), z)

    def vjp(g, out, dim):
        if (arrays := plain_arrays(g, out)) and (found := along(_LOG_SOFTMAX_GRAD, dim, *arrays)) is not None:
            return wrap(found)
        return g - out.exp() * g.sum(dim, keepdim=True)

    def on_arrays(g, out, dim):
        found = along(_LOG_SOFTMAX_GRAD, dim, g, out)
        return None if found is None else (found,)

    def decompose(x, dim):
        z = x - _peak(x, dim, True)
        return z - z.exp().sum(dim, keepdim=True).log()

    def samples():
        yield Sample(data(3, 5), 1)
        yield Sample(data(3, 5, scale=40), 0)
        yield Sample(data(2, 3, 4), -2)

    def ref(x, dim):
        z = x - x.max(axis=dim, keepdims=True)
        return z - np.log(np.exp(z).sum(axis=dim, keepdims=True))

    def errors():
        yield (data(3, 5), 2), {}, IndexError, "out of range"


def _plain(entry: Any) -> Inline:
    return Inline(entry, "dtype is None and type(dim) is int and -(n := a0.ndim) <= dim < n", dim="dim % n")


def _implicit_dim(name: str, ndim: int, level: int) -> int:
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.")
    return 0 if ndim in (0, 1, 3) else 1


@function(
    "softmax(input: T, dim: dim, dtype: dtype)",
    method=True,
    names=("special.softmax",),
    direct=True,
    inline=_plain(_softmax),
)
def softmax(input, dim, dtype=None):
    """exp(x) normalised to sum 1 along `dim`; computed in `dtype` if given."""
    return _softmax.fn(input if dtype is None else input.to(dtype), dim)


@function(
    "log_softmax(input: T, dim: dim, dtype: dtype)",
    method=True,
    names=("special.log_softmax",),
    direct=True,
    inline=_plain(_log_softmax),
)
def log_softmax(input, dim, dtype=None):
    """log(softmax(x)) along `dim`; computed in `dtype` if given."""
    return _log_softmax.fn(input if dtype is None else input.to(dtype), dim)


@function("nn.functional.softmax(input: T, dim: dim, dtype: dtype)", direct=True, inline=_plain(_softmax))
def f_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) normalised to sum 1 along `dim`."""
    if dim is None:
        dim = _implicit_dim("softmax", as_tensor(input, ("softmax", "input", 1)).ndim, _stacklevel)
    return softmax(input, dim, dtype)


@function("nn.functional.softmin(input: T, dim: dim, dtype: dtype)")
def f_softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x) along `dim`."""
    if dim is None:
        dim = _implicit_dim("softmin", input.ndim, _stacklevel)
    return softmax(-input, dim, dtype)


@function("nn.functional.log_softmax(input: T, dim: dim, dtype: dtype)", direct=True, inline=_plain(_log_softmax))
def f_log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along `dim`."""
    if dim is None:
        dim = _implicit_dim("log_softmax", as_tensor(input, ("log_softmax", "input", 1)).ndim, _stacklevel)
    return log_softmax(input, dim, dtype)
