"""Running sums, products and extrema along a dimension."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta, normalize_dims, surely_less
from ..native.on_demand import defined
from ..op import Sample, Scan, function, late_function, op
from ._results import named_results
from ._samples import t
from .reduce import _acc_dtype, _acc_pre, _np_acc

cat = late_function("cat")
LARGE = 16384  # elements from which machine code is used


def _accumulate(ufunc: Any, a: np.ndarray, dim: int, dtype: Any) -> np.ndarray:
    """A running reduction; float32 and float16 run in float64, as a running sum has no pairwise order."""
    d = a.dtype if dtype is None and a.dtype.kind == "f" else np.dtype(_np_acc(a, dtype) or a.dtype)
    if a.ndim == 0:
        return a.astype(d)
    if d.kind == "f" and d.itemsize < 8:
        wide = ufunc.accumulate(a, dim, np.float64)
        with np.errstate(over="ignore"):
            return wide.astype(d)
    return ufunc.accumulate(a, dim, d)


_SUMS = {(rows, way): defined("scans", "running_sum", rows, way) for rows in (True, False) for way in (1, -1)}


_PRODUCTS = {rows: defined("scans", "running_sum", rows, 1, "mul") for rows in (True, False)}


def _native_sum(a: np.ndarray, dim: int, direction: int) -> np.ndarray | None:
    """A running sum (product: ``direction`` 0) by machine code, with the bits of ``_accumulate``; None without one."""
    if not a.size or not a.ndim or a.dtype.char not in "fd":
        return None
    dim %= a.ndim
    rows = dim == a.ndim - 1
    f = (_SUMS[rows, direction] if direction else _PRODUCTS[rows])[a.dtype]
    if f is None:
        return None
    out = np.empty(a.shape, a.dtype)
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    if rows:
        n = a.shape[dim]
        f(a, out, a.size // n, n)
    else:
        f(a, out, math.prod(a.shape[:dim]), a.shape[dim], math.prod(a.shape[dim + 1 :]))
    return out


@op("cumsum(input: T, dim: dim, *, dtype: dtype? = None)", kind="extern", inplace=True)
class cumsum:
    """Running sum along ``dim``; integers and bool sum to int64."""

    out_apart = True

    def kernel(a, dim, dtype=None):
        found = _native_sum(a, dim, 1) if dtype is None else None
        return _accumulate(np.add, a, dim, dtype) if found is None else found

    def meta(m, dim, dtype=None):
        return Meta(m.shape, _acc_dtype(m.dtype, dtype))

    def vjp(g, dim):
        return cumsum_back(g, dim)

    def ref(a, dim, dtype=None):
        return np.cumsum(a, dim)

    scan = Scan("add", _acc_pre)

    def samples():
        yield Sample(t(3, 4), 0)
        yield Sample(t(2, 3), -1)


@op("cumsum_back(input: T, dim: dim)", kind="extern", method=False, function=False)
class cumsum_back:
    """Running sum from the end of ``dim``."""

    def kernel(a, dim):
        if a.ndim == 0:
            return _accumulate(np.add, a, dim, None)
        if (found := _native_sum(a, dim, -1)) is not None:
            return found
        return np.ascontiguousarray(np.flip(_accumulate(np.add, np.flip(a, dim), dim, None), dim))

    def meta(m, dim):
        return Meta(m.shape, _acc_dtype(m.dtype, None))

    def vjp(g, dim):
        return g.cumsum(dim)

    def ref(a, dim):
        return np.flip(np.cumsum(np.flip(a, dim), dim), dim)

    scan = Scan("add", _acc_pre, down=True)

    def samples():
        yield Sample(t(3, 4), 0)
        yield Sample(t(2, 3), -1)


@op("cumprod(input: T, dim: dim, *, dtype: dtype? = None)", kind="extern", inplace=True)
class cumprod:
    """Running product along ``dim``. The gradient needs no division: it is exact with zeros, to every order."""

    out_apart = True

    def kernel(a, dim, dtype=None):
        found = _native_sum(a, dim, 0) if dtype is None and a.size >= LARGE else None
        return _accumulate(np.multiply, a, dim, dtype) if found is None else found

    def meta(m, dim, dtype=None):
        return Meta(m.shape, _acc_dtype(m.dtype, dtype))

    def vjp(g, input, out, dim, dtype):
        x = input if dtype is None else input.to(dtype)
        if x.ndim == 0:
            return g
        # d out_j / d x_k = (product before k) * (product of k+1..j); the sum over j is a linear recurrence from the end
        n = x.shape[dim]
        if (type(n) is int and n <= 1) or surely_less(n, 1):
            return g
        first = x.narrow(dim, 0, 1)
        before = cat([first.new_ones(first.shape), out.narrow(dim, 0, n - 1)], dim)
        return before * linear_scan_back(x, g, dim)

    def ref(a, dim, dtype=None):
        return np.cumprod(a, dim)

    scan = Scan("mul", _acc_pre)

    def samples():
        yield Sample(t(3, 4), 0)
        yield Sample(t(2, 3), -1)


def _scan(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """s[k] = a[k] * s[k - 1] + b[k] along the first axis, with s[-1] = 0."""
    n = b.shape[0]
    s = np.array(b, order="C")
    if n <= 128 or s[0].size >= 64:
        for k in range(1, n):
            s[k] += a[k] * s[k - 1]
        return s
    a, step = np.array(a, order="C"), 1  # long and thin: log2(n) sweeps, each over all elements
    while step < n:
        s[step:] = s[step:] + a[step:] * s[:-step]
        a[step:] = a[step:] * a[:-step]
        step *= 2
    return s


@op("linear_scan(a: T, b: T, dim: int)", kind="extern", method=False, function=False)
class linear_scan:
    """The recurrence ``s[k] = a[k] * s[k - 1] + b[k]`` along ``dim`` from ``s[-1] = 0`` (``a[0]`` is not used)."""

    def kernel(a, b, dim):
        return np.moveaxis(_scan(np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)), 0, dim)

    def meta(a, b, dim):
        return Meta(b.shape, b.dtype)

    def vjp(g, a, out, dim, need):
        n = a.shape[dim]
        gb = linear_scan_back(a, g, dim)
        if n == 0:
            return gb if need[0] else None, gb
        first = out.narrow(dim, 0, 1)
        ga = gb * cat([first.new_zeros(first.shape), out.narrow(dim, 0, n - 1)], dim) if need[0] else None
        return ga, gb

    def ref(a, b, dim):
        a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
        out = [b[0]]
        for k in range(1, len(b)):
            out.append(a[k] * out[-1] + b[k])
        return np.moveaxis(np.stack(out), 0, dim)

    scan = Scan("linear")

    def samples():
        yield Sample(t(4, 3), t(4, 3, seed=1), 0)


@op("linear_scan_back(a: T, b: T, dim: int)", kind="extern", method=False, function=False)
class linear_scan_back:
    """The recurrence ``s[k] = a[k + 1] * s[k + 1] + b[k]`` along ``dim`` down from ``s[n] = 0`` (``a[0]`` is not
    used).
    """

    def kernel(a, b, dim):
        a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
        s = _scan(np.concatenate([a[:1], a[:0:-1]]), b[::-1])
        return np.ascontiguousarray(np.moveaxis(s[::-1], 0, dim))

    def meta(a, b, dim):
        return Meta(b.shape, b.dtype)

    def vjp(g, a, out, dim, need):
        n = a.shape[dim]
        gb = linear_scan(a, g, dim)
        if n == 0:
            return gb if need[0] else None, gb
        first = out.narrow(dim, 0, 1)
        ga = None
        if need[0]:
            ga = cat([first.new_zeros(first.shape), gb.narrow(dim, 0, n - 1) * out.narrow(dim, 1, n - 1)], dim)
        return ga, gb

    def ref(a, b, dim):
        a, b = np.moveaxis(a, dim, 0), np.moveaxis(b, dim, 0)
        out = [b[-1]]
        for k in range(len(b) - 2, -1, -1):
            out.append(a[k + 1] * out[-1] + b[k])
        return np.moveaxis(np.stack(out[::-1]), 0, dim)

    scan = Scan("linear", down=True)

    def samples():
        yield Sample(t(4, 3), t(4, 3, seed=1), 0)
        yield Sample(t(2, 5), t(2, 5, seed=1), 1)


def _native_extremum(a: np.ndarray, dim: int, combine: str) -> tuple | None:
    """Running extrema and their places in a large array; None where machine code is not to be had."""
    if a.size < LARGE or a.dtype.char not in "fd":
        return None
    dim %= a.ndim
    rows = dim == a.ndim - 1
    f = _EXTREMA[rows, combine][a.dtype]
    if f is None:
        return None
    values, places = np.empty(a.shape, a.dtype), np.empty(a.shape, np.int64)
    sizes = math.prod(a.shape[:dim]), a.shape[dim], math.prod(a.shape[dim + 1 :])
    f(np.ascontiguousarray(a), values, places, *sizes[: 2 if rows else 3])
    return values, places


_EXTREMA = {(rows, c): defined("scans", "running_extremum", rows, c) for rows in (True, False) for c in ("max", "min")}


_LOGSUMEXP = {rows: defined("scans", "running_logsumexp", rows) for rows in (True, False)}


def _running(ufunc: Any, name: str) -> Any:
    def kernel(a, dim):
        if a.ndim == 0:
            return a.copy(), np.zeros((), np.int64)
        found = _native_extremum(a, dim, name[3:])
        if found is not None:
            return found
        values = ufunc.accumulate(a, axis=dim)
        here = a == values
        if a.dtype.kind == "f":
            here |= np.isnan(a)
        shape = [1] * a.ndim
        shape[dim] = -1
        index = np.where(here, np.arange(a.shape[dim]).reshape(shape), 0)
        return values, np.maximum.accumulate(index, axis=dim)

    return kernel


def _running_meta(m, dim):
    return Meta(m.shape, m.dtype), Meta(m.shape, dt.int64)


def _running_vjp(g0, out1, input_meta, dim):
    return g0 if not input_meta.shape else g0.new_zeros(input_meta.shape).scatter_add(dim, out1, g0)


@op("cummax_dim(input: T, dim: dim)", kind="extern", n_out=2, method=False, function=False)
class cummax_op:
    """Running maximum along ``dim``, and the index of its last occurrence."""

    kernel, meta, vjp = _running(np.maximum, "cummax"), _running_meta, _running_vjp

    def samples():
        yield Sample(t(3, 4), 1)


@op("cummin_dim(input: T, dim: dim)", kind="extern", n_out=2, method=False, function=False)
class cummin_op:
    """Running minimum along ``dim``, and the index of its last occurrence."""

    kernel, meta, vjp = _running(np.minimum, "cummin"), _running_meta, _running_vjp

    def samples():
        yield Sample(t(3, 4), 1)


CummaxResult = named_results("cummax", ["values", "indices"])
CumminResult = named_results("cummin", ["values", "indices"])


@function("cummax(input: T, dim: dim)")
def cummax(input: Any, dim: int) -> Any:
    """Running maximum along ``dim``: (values, indices)."""
    return CummaxResult(*cummax_op(input, dim))


@function("cummin(input: T, dim: dim)")
def cummin(input: Any, dim: int) -> Any:
    """Running minimum along ``dim``: (values, indices)."""
    return CumminResult(*cummin_op(input, dim))


def _sum_logs(h: np.ndarray, logs: np.ndarray, dim: int, back: bool, outer: np.ndarray) -> np.ndarray:
    """Running sums of h exp(logs), times exp(outer); positive and negative h apart, so that it stays logarithms."""

    def part(h: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            x = np.log(np.where(h > 0, h, 0)) + logs
            x = np.flip(logcumsumexp.kernel(np.flip(x, dim), dim), dim) if back else logcumsumexp.kernel(x, dim)
            return np.exp(x + outer)

    return part(h) - part(-h)


@op("shares_back(a: T, x: T, total: T, dim: dim)", kind="extern", promote="same", function=False, method=False)
class shares_back:
    """Sum over k >= j of a[k] exp(x[j] - total[k]): the derivative of logcumsumexp. 0 where x[j] is -inf."""

    def kernel(a, x, total, dim):
        low = x == -np.inf
        r = _sum_logs(a, -total, dim, True, np.where(low, 0, x)) if x.ndim else a * np.exp(x - total)
        return np.where(low, x.dtype.type(0), r)

    def meta(a, x, total, dim):
        return Meta(x.shape, x.dtype)

    def vjp(g, a, x, total, dim, need):
        along = shares(g, x, total, dim) if need[0] or need[2] else None
        return along, g * shares_back(a, x, total, dim) if need[1] else None, -a * along if need[2] else None

    def samples():
        x = t(3, 4)
        yield Sample(t(3, 4, seed=1), x, np.log(np.cumsum(np.exp(x), 0)), 0)


@op("shares(a: T, x: T, total: T, dim: dim)", kind="extern", promote="same", function=False, method=False)
class shares:
    """Sum over j <= k of a[j] exp(x[j] - total[k]): what logcumsumexp becomes along a."""

    def kernel(a, x, total, dim):
        low = x == -np.inf
        if not x.ndim:
            return np.where(low, x.dtype.type(0), a * np.exp(x - total))
        empty = total == -np.inf
        r = _sum_logs(np.where(low, 0, a), np.where(low, 0, x), dim, False, np.where(empty, 0, -total))
        return np.where(empty, x.dtype.type(0), r)

    def meta(a, x, total, dim):
        return Meta(x.shape, x.dtype)

    def vjp(g, a, x, total, dim, need):
        back = shares_back(g, x, total, dim) if need[0] or need[1] else None
        return back, a * back if need[1] else None, -g * shares(a, x, total, dim) if need[2] else None

    def samples():
        x = t(3, 4)
        yield Sample(t(3, 4, seed=1), x, np.log(np.cumsum(np.exp(x), 0)), 0)


@op("logcumsumexp(input: T, dim: dim)", kind="extern")
class logcumsumexp:
    """Log of the running sum of exponentials, without overflow. RuntimeError for integers."""

    out_apart = True

    def kernel(a, dim):
        if a.dtype.kind != "f":
            raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{a.dtype}'")
        if a.ndim == 0:
            return a.copy()
        if a.size >= LARGE and a.dtype.char in "fd":
            dim %= a.ndim
            rows = dim == a.ndim - 1
            if (f := _LOGSUMEXP[rows][a.dtype]) is not None:
                out = np.empty(a.shape, a.dtype)
                sizes = math.prod(a.shape[:dim]), a.shape[dim], math.prod(a.shape[dim + 1 :])
                f(np.ascontiguousarray(a), out, np.empty_like(out), np.empty_like(out), *sizes[: 2 if rows else 3])
                return out
        with np.errstate(invalid="ignore"):
            return np.logaddexp.accumulate(a, axis=dim)

    def meta(m, dim):
        if not m.dtype.is_floating_point:
            raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{m.dtype.name}'")
        return Meta(m.shape, m.dtype)

    def vjp(g, input, out, dim):
        return shares_back(g, input, out, dim)

    def ref(a, dim):
        return np.log(np.cumsum(np.exp(a), dim))

    def samples():
        yield Sample(t(3, 4), 0)
        yield Sample(t(2, 3), -1)


@function("diff(input: T, n: int, dim: dim, prepend: T, append: T)")
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along ``dim``, ``n`` times; ``prepend`` and ``append`` are joined on first."""
    if input.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for what in (prepend, append):
        if what is not None and what.ndim != input.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    if prepend is not None or append is not None:
        input = cat([x for x in (prepend, input, append) if x is not None], dim)
    size = input.shape[dim]
    if n == 0:
        return input.clone()
    if type(size) is int:
        n = min(n, size)
    for _ in range(n):
        size = input.shape[dim]
        a, b = input.narrow(dim, 1, size - 1), input.narrow(dim, 0, size - 1)
        input = a ^ b if input.dtype is dt.bool_ else a - b
    return input


@function("gradient(input: T, dim: dims, edge_order: int)", method=False)
def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list:
    """Numerical derivatives along dimensions: central differences inside, one-sided ones at the edges."""
    if edge_order not in (1, 2):
        raise RuntimeError("gradient only supports edge_order=1 and edge_order=2.")
    dims = (
        tuple(range(input.ndim))
        if dim is None
        else normalize_dims(tuple(dim) if isinstance(dim, list) else dim, input.ndim)
    )
    if spacing is None or isinstance(spacing, (int, float)):
        steps: list[Any] = [1 if spacing is None else spacing] * len(dims)
    else:
        steps = list(spacing) if isinstance(spacing, (list, tuple)) else [spacing]
    if len(steps) != len(dims):
        raise RuntimeError(
            "gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
            f"same length, but got {len(steps)} and {len(dims)}"
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError("gradient expected each dimension size to be at least edge_order+1")
    if not input.is_floating_point():
        input = input.to(dt.get_default_dtype())
    return [_slope(input, d, h, edge_order) for d, h in zip(dims, steps, strict=True)]


def _slope(x: Any, d: int, h: Any, edge_order: int) -> Any:
    """One derivative; ``h`` is a spacing, or the coordinates along the dimension."""
    n = x.shape[d]

    def at(i: int, count: int = 1) -> Any:
        return x.narrow(d, i, count)

    even = isinstance(h, (int, float))
    if even:
        step = [h] * (n - 1)
        gaps = x.new_full((n - 1,), float(h))
    else:
        gaps = (h.narrow(0, 1, n - 1) - h.narrow(0, 0, n - 1)).to(x.dtype)
        step = [gaps.select(0, i) for i in range(n - 1)]
    shape = [1] * x.ndim
    shape[d] = n - 2
    parts = []
    if n > 2:
        a, b = gaps.narrow(0, 0, n - 2).reshape(shape), gaps.narrow(0, 1, n - 2).reshape(shape)
        if even:
            parts = [(at(2, n - 2) - at(0, n - 2)) / (2 * h)]
        else:
            parts = [(at(2, n - 2) * (a / b) + at(1, n - 2) * (b / a - a / b) - at(0, n - 2) * (b / a)) / (a + b)]
    if edge_order == 1:
        first, last = (at(1) - at(0)) / step[0], (at(n - 1) - at(n - 2)) / step[-1]
    else:
        a, b = step[0], step[1]
        first = at(0) * (-(2 * a + b) / (a * (a + b))) + at(1) * ((a + b) / (a * b)) - at(2) * (a / (b * (a + b)))
        a, b = step[-2], step[-1]
        last = (
            at(n - 3) * (b / (a * (a + b)))
            - at(n - 2) * ((a + b) / (a * b))
            + at(n - 1) * ((a + 2 * b) / (b * (a + b)))
        )
    return cat([first, *parts, last], d)


@function("trapezoid(y: T, x: T, dx: num, dim: dim)", names=("trapz",), method=False)
def trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Trapezoidal rule along ``dim``, with points ``x`` or spacing ``dx``."""
    if y.shape[dim] == 0:
        return y.sum(dim)
    if x is None:
        ends = y.select(dim, 0) + y.select(dim, -1)
        return (y.sum(dim) - ends * 0.5) * (1.0 if dx is None else dx)
    return _trapezoids(y, x, dx, dim).sum(dim)


@function("cumulative_trapezoid(y: T, x: T, dx: num, dim: dim)", method=False)
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: Any = None, dim: int = -1) -> Any:
    """Running trapezoidal rule along ``dim``."""
    if y.shape[dim] == 0:
        return y.clone()
    return _trapezoids(y, x, dx, dim).cumsum(dim)


def _trapezoids(y: Any, x: Any, dx: Any, dim: int) -> Any:
    n = y.shape[dim]
    if x is None:
        step: Any = 1.0 if dx is None else dx
    else:
        if x.ndim == 1 and y.ndim > 1:
            if x.shape[0] != n:
                raise RuntimeError("There must be one `x` value for each sample point")
            shape = [1] * y.ndim
            shape[dim] = n
            x = x.reshape(shape)
        step = diff(x, dim=dim if x.ndim == y.ndim else -1)
    return (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) * step / 2
