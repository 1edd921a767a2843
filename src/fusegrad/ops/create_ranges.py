"""Ranges and index patterns: arange, linspace, logspace, eye, triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.modes import SLOW
from ..handler import current
from ..meta import Meta
from ..op import Op, Sample, function, op
from ..remembered import Remembered
from ..size_values import SymbolicSize
from ..tensor import Tensor, wrap
from .create import _kind, check_place, finish, make

_MADE: dict[tuple, np.ndarray] = {}


def _make_few(entry: Op, *attrs: Any) -> Tensor:
    """``create.make``; the elements of few numbers are remembered, and copied."""
    if SLOW[0] or current() is not None:
        return entry(*attrs)
    signs = [math.copysign(1.0, a) for a in attrs if type(a) is float]  # 0.0 equals -0.0, as 1 does 1.0
    key = (entry, attrs, *map(type, attrs), *signs)
    try:
        found = _MADE.get(key)
    except TypeError:  # not hashable
        return make(entry, *attrs)
    if found is not None:
        return wrap(found.copy())
    made = entry.kernel(*attrs)
    if made.size <= _FEW:
        if len(_MADE) >= 64:
            _MADE.clear()
        _MADE[key] = made.copy()
    return wrap(made)


def _length(start: Any, end: Any, step: Any) -> Any:
    """Number of elements of arange; RuntimeError for bounds that make none.

    Comparisons of sizes and numbers that are not fixed are conditions of the call.
    """
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if any(isinstance(v, float) and not math.isfinite(v) for v in (start, end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end < start) if step > 0 else (start < end):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if all(isinstance(v, (int, SymbolicSize)) for v in (start, end, step)):
        return end - start if isinstance(step, int) and step == 1 else -((start - end) // step)
    count = (end - start) / step
    return math.ceil(count if isinstance(count, float) else float(count))


@op("arange(start: num, end: num, step: num, dtype: dtype)", kind="create", function=False)
class arange_op:
    """start, start + step, ... below end."""

    def kernel(start, end, step, dtype):
        n = _length(start, end, step)
        if dtype.category == dt.INT and all(isinstance(v, int) for v in (start, step)):
            return np.arange(start, start + n * step, step, dtype=np.int64).astype(dtype.np, copy=False)
        r = np.arange(n, dtype=np.float64)
        r *= step
        r += start
        return r.astype(dtype.np, copy=False)

    def meta(start, end, step, dtype):
        return Meta((_length(start, end, step),), dtype)

    def scalar(b, start, end, step, dtype):
        i = b.index(0)
        if dtype.category == dt.INT and all(isinstance(v, int) for v in (start, step)):
            return b.cast(b.add(b.mul(i, step), start), dtype)
        i = b.cast(i, dt.float64)
        return b.cast(b.add(b.mul(i, b.const(step, dt.float64)), b.const(start, dt.float64)), dtype)

    def ref(start, end, step, dtype):
        return np.arange(start, end, step).astype(dtype.np)

    def samples():
        yield Sample(0, 5, 1, dt.int64)
        yield Sample(1.0, 2.0, 0.25, dt.float32)
        yield Sample(5, -2, -2, dt.int64)

    def errors():
        yield (0, 5, 0, dt.int64), {}, RuntimeError, "nonzero"
        yield (0, 5, -1, dt.int64), {}, RuntimeError, "inconsistent"


_FEW = 1024
_RANGE = np.arange(_FEW, dtype=np.int64)


def _int_bounds(dtype: Any, *values: Any) -> tuple:
    """Bounds as the dtype holds them: of an integer range the fractions are dropped first."""
    if dtype.category == dt.INT:
        return tuple(int(v) if isinstance(v, float) and math.isfinite(v) else v for v in values)
    return values


def _steps(steps: Any, name: str) -> Any:
    if isinstance(steps, float):
        raise TypeError(f"{name}(): argument 'steps' must be int, not float")
    if isinstance(steps, (int, SymbolicSize)) and steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return steps


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, (Tensor, np.generic)) else x


@function("arange(dtype: dtype, requires_grad: bool?)", method=False)
def arange(*args, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """arange(end), arange(start, end) or arange(start, end, step): integers give int64, else the default dtype."""
    if len(args) == 1 and type(args[0]) is int and not kw and dtype is device is layout is out is None:
        if requires_grad is False and 0 <= args[0] <= _FEW and not SLOW[0] and current() is None:
            return wrap(_RANGE[: args[0]].copy())
        return finish(make(arange_op, 0, args[0], 1, dt.int64), requires_grad)
    if not kw and 1 < len(args) < 4 and dtype is device is layout is out is None:
        if all([type(a) is int or type(a) is float for a in args]):
            kind = dt.get_default_dtype() if float in map(type, args) else dt.int64
            return finish(_make_few(arange_op, *args, *(() if len(args) == 3 else (1,)), kind), requires_grad)
    check_place(device, layout)
    names = ("end",) if len(args) + len(kw) == 1 else ("start", "end", "step")
    if len(args) > 3 or not set(kw) <= {"start", "end", "step"}:
        raise TypeError("arange() takes (end), (start, end) or (start, end, step)")
    if "step" in kw and len(args) == 1 and "start" not in kw and "end" not in kw:
        names = ("end",)
    given = dict(zip(names, map(_plain, args), strict=False))
    values = {"start": 0, "step": 1, **given, **{k: _plain(v) for k, v in kw.items()}}
    if "end" not in values:
        raise TypeError("arange() missing the argument 'end'")
    if out is not None and dtype is None:
        dtype = out.dtype
    if dtype is None:
        floats = any(isinstance(v, float) for v in values.values())
        dtype = dt.get_default_dtype() if floats else dt.int64
    kind = _kind(dtype)
    bounds = _int_bounds(kind, values["start"], values["end"], values["step"])
    if bounds[2] == 0 != values["step"]:
        raise ValueError("step must be nonzero")
    return finish(_make_few(arange_op, *bounds, kind), requires_grad, out)


@op("linspace(start: num, end: num, steps: int, dtype: dtype)", kind="create", function=False)
class linspace_op:
    """steps numbers evenly spaced from start to end, both included."""

    def kernel(start, end, steps, dtype):
        i = np.arange(steps, dtype=np.float64)
        step = (end - start) / (steps - 1) if steps > 1 else 0.0
        r = np.where(i < steps // 2 if steps > 1 else True, start + step * i, end - step * (steps - 1 - i))
        return r.astype(dtype.np)

    def meta(start, end, steps, dtype):
        if steps < 0:
            raise RuntimeError("number of steps must be non-negative")
        return Meta((steps,), dtype)

    def ref(start, end, steps, dtype):
        return np.linspace(start, end, steps).astype(dtype.np)

    def samples():
        yield Sample(-1.0, 3.0, 5, dt.float32)
        yield Sample(2.0, 3.0, 1, dt.float32)


@function(
    "linspace(start: Tn, end: Tn, steps: int, dtype: dtype, requires_grad: bool?)",
    method=False,
    inline=Remembered("start", "end", "steps"),
)
def linspace(
    start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """steps numbers evenly spaced from start to end, both included."""
    check_place(device, layout)
    kind = _kind(dtype) or dt.get_default_dtype()
    bounds = _int_bounds(kind, _plain(start), _plain(end))
    return finish(_make_few(linspace_op, *bounds, _steps(steps, "linspace"), kind), requires_grad, out)


@function("logspace(start: Tn, end: Tn, steps: int, base: float, dtype: dtype, requires_grad: bool?)", method=False)
def logspace(
    start,
    end,
    steps,
    base=10.0,
    *,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """base ** linspace(start, end, steps)."""
    check_place(device, layout)
    kind = _kind(dtype) or dt.get_default_dtype()
    bounds = _int_bounds(kind, _plain(start), _plain(end))
    exponents = linspace_op(*bounds, _steps(steps, "logspace"), dt.float64)
    return finish((_plain(base) ** exponents.to(dt.float64)).to(kind), requires_grad, out)


@op("eye(n: int, m: int, dtype: dtype)", kind="create", function=False)
class eye_op:
    """Ones on the diagonal."""

    def kernel(n, m, dtype):
        return np.eye(n, m, dtype=dtype.np)

    def meta(n, m, dtype):
        return Meta((n, m), dtype)

    def scalar(b, n, m, dtype):
        return b.cast(b.eq(b.index(0), b.index(1)), dtype)

    def ref(n, m, dtype):
        return np.eye(n, m, dtype=dtype.np)

    def samples():
        yield Sample(3, 4, dt.float32)


@function("eye(n: int, m: int, dtype: dtype, requires_grad: bool?)", method=False, inline=Remembered("n", "m"))
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A matrix with ones on the diagonal."""
    check_place(device, layout)
    m = n if m is None else m
    for name, v in (("n", n), ("m", m)):
        if isinstance(v, (int, SymbolicSize)) and v < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {v}")
    return finish(_make_few(eye_op, n, m, _kind(dtype) or dt.get_default_dtype()), requires_grad, out)


@op("tri_indices(row: int, col: int, offset: int, upper: bool, dtype: dtype)", kind="create", function=False)
class tri_indices_op:
    """Rows and columns of a triangle, int64 of shape (2, n)."""

    def kernel(row, col, offset, upper, dtype):
        f = np.triu_indices if upper else np.tril_indices
        return np.stack(f(row, offset, col)).astype(dtype.np)

    def meta(row, col, offset, upper, dtype):
        if row < 0 or col < 0:
            raise RuntimeError(f"row and col must be non-negative, got {row} and {col}")
        n = sum(max(0, col - max(0, r + offset)) if upper else max(0, min(col, r + offset + 1)) for r in range(row))
        return Meta((2, n), dtype)

    def ref(row, col, offset, upper, dtype):
        return np.stack((np.triu_indices if upper else np.tril_indices)(row, offset, col)).astype(dtype.np)

    def samples():
        yield Sample(3, 4, 0, False, dt.int64)
        yield Sample(3, 4, 1, True, dt.int64)
        yield Sample(4, 3, -2, False, dt.int64)


def _triangle(row, col, offset, upper, dtype, device, layout) -> Tensor:
    check_place(device, layout)
    if row < 0 or col < 0:
        raise RuntimeError(f"row and col must be non-negative, got {row} and {col}")
    return _make_few(tri_indices_op, row, col, offset, upper, _kind(dtype) or dt.int64)


@function(
    "tril_indices(row: int, col: int, offset: int, dtype: dtype)",
    method=False,
    inline=Remembered("row", "col", "offset"),
)
def tril_indices(row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Indices of the lower triangle of a (row, col) matrix: int64, shape (2, n)."""
    return _triangle(row, col, offset, False, dtype, device, layout)


@function(
    "triu_indices(row: int, col: int, offset: int, dtype: dtype)",
    method=False,
    inline=Remembered("row", "col", "offset"),
)
def triu_indices(row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Indices of the upper triangle of a (row, col) matrix: int64, shape (2, n)."""
    return _triangle(row, col, offset, True, dtype, device, layout)
