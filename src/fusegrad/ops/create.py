"""Making tensors: constants, ranges, windows, copies of Python and numpy data."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..meta import Meta, contiguous_strides
from ..op import Sample, function, op
from ..tensor import Tensor, device as Device, wrap


def check_place(device: Any = None, layout: Any = None) -> None:
    """RuntimeError for a device or a layout that does not exist here."""
    if device is not None and str(device) != "cpu":
        Device(device)
    if layout is not None and str(layout).rsplit(".", 1)[-1] != "strided":
        raise RuntimeError(f"only strided tensors exist here, not layout {layout}")


def finish(result: Tensor, requires_grad: bool, out: Tensor | None = None) -> Tensor:
    """Apply the last arguments that creation functions share."""
    if out is not None:
        if tuple(out.shape) != tuple(result.shape):
            raise RuntimeError(f"out= has shape {list(out.shape)}, the result has {list(result.shape)}")
        out.copy_(result)
        result = out
    return result.requires_grad_() if requires_grad else result


def sizes_of(args: tuple, name: str) -> tuple:
    """Sizes given as varargs or as one sequence; RuntimeError for a negative one."""
    if len(args) == 1 and not isinstance(args[0], (int, Tensor)) and hasattr(args[0], "__iter__"):
        args = tuple(args[0])
    for s in args:
        if isinstance(s, float) or isinstance(s, str) or s is None:
            raise TypeError(f"{name}(): argument 'size' must be tuple of ints, but found element of type "
                            f"{type(s).__name__}")
        if isinstance(s, int) and s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {s}: {list(args)}")
    return tuple(s if not isinstance(s, (Tensor, np.integer)) else int(s) for s in args)


def _kind(dtype: Any) -> Any:
    """A dtype argument; Python's float, int and bool stand for the usual ones."""
    from ..callgen import as_dtype
    return as_dtype(dtype)


# ---- filled with one value ----

@op("full(size: ints, value: num, dtype: dtype)", kind="create", function=False)
class full_op:
    """A tensor of one value."""

    def kernel(size, value, dtype):
        return np.zeros(size, dtype.np) if type(value) is int and value == 0 else np.full(size, value, dtype.np)

    def meta(size, value, dtype):
        return Meta(size, dtype)

    def scalar(b, size, value, dtype):
        return b.const(value, dtype)

    def ref(size, value, dtype):
        return np.full(size, value, dtype.np)

    def samples():
        yield Sample((2, 3), 1.5, dt.float32)
        yield Sample((), 3, dt.int64)


@op("zeros(size: ints, dtype: dtype)", kind="create", function=False)
class zeros_op:
    """A tensor of zeros."""

    def kernel(size, dtype):
        return np.zeros(size, dtype.np)

    def meta(size, dtype):
        return Meta(size, dtype)

    def scalar(b, size, dtype):
        return b.const(0, dtype)

    def ref(size, dtype):
        return np.zeros(size, dtype.np)

    def samples():
        yield Sample((2, 3), dt.float32)


@op("empty(size: ints, dtype: dtype)", kind="create", function=False)
class empty_op:
    """A tensor whose contents are undefined."""

    def kernel(size, dtype):
        return np.empty(size, dtype.np)

    def meta(size, dtype):
        return Meta(size, dtype)

    def scalar(b, size, dtype):
        return b.const(0, dtype)

    def samples():
        yield Sample((2, 3), dt.float32)


@function("zeros", method=False)
def zeros(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """A tensor of zeros; dtype defaults to the default floating point type."""
    check_place(device, layout)
    size = sizes_of(size or (kw.pop("size"),), "zeros")
    return finish(zeros_op(size, _kind(dtype) or dt.get_default_dtype()), requires_grad, out)


@function("ones", method=False)
def ones(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """A tensor of ones; dtype defaults to the default floating point type."""
    check_place(device, layout)
    size = sizes_of(size or (kw.pop("size"),), "ones")
    return finish(full_op(size, 1, _kind(dtype) or dt.get_default_dtype()), requires_grad, out)


@function("empty", method=False)
def empty(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
          memory_format=None, **kw):
    """A tensor whose contents are undefined."""
    check_place(device, layout)
    size = sizes_of(size or (kw.pop("size"),), "empty")
    return finish(empty_op(size, _kind(dtype) or dt.get_default_dtype()), requires_grad, out)


def _value(value: Any, dtype: Any) -> tuple[Any, Any]:
    """A fill value as a Python number, and the dtype it implies."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise TypeError("full(): argument 'fill_value' must be Number, not Tensor with dimensions")
        return value.item(), dtype or value.dtype
    if isinstance(value, (np.generic,)):
        value = value.item()
    if not isinstance(value, (bool, int, float)) and not hasattr(value, "expr"):
        raise TypeError(f"full(): argument 'fill_value' (position 2) must be Number, not {type(value).__name__}")
    return value, dtype or dt.number_dtype(value)


@function("full", method=False)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A tensor of one value; dtype defaults to what the value implies."""
    check_place(device, layout)
    value, kind = _value(fill_value, _kind(dtype))
    return finish(full_op(sizes_of((size,), "full"), value, kind), requires_grad, out)


@op("full_like(input: T, value: num, dtype: dtype? = None)", kind="pointwise", function=False, method=False)
class full_like_op:
    """One value in the shape and layout of input."""

    nondiff = True

    def kernel(x, value, dtype=None):
        kind = x.dtype if dtype is None else dtype.np
        return np.zeros_like(x, kind) if type(value) is int and value == 0 else np.full_like(x, value, kind)

    def meta(input, value, dtype=None):
        return Meta(input.shape, dtype or input.dtype, input.strides and dense_strides(input))

    def scalar(b, x, value, dtype=None):
        return b.const(value, dtype or x.dtype)

    def ref(x, value, dtype=None):
        return np.full_like(x, value, x.dtype if dtype is None else dtype.np)

    def samples():
        yield Sample(np.ones((2, 3), np.float32), 2.5)
        yield Sample(np.ones((2, 3), np.float32), 2, dt.int64)


def dense_strides(m: Meta) -> tuple | None:
    """Strides of a dense tensor with the axes of m in the same order (numpy's order "K")."""
    from ..layout import elementwise_strides
    return elementwise_strides(m.shape, [m])


def like(input: Any, value: Any, dtype: Any = None) -> Tensor:
    """full_like for the rules in this package: no checks."""
    return full_like_op(input, value, dtype)


def _like(input, value, dtype, layout, device, requires_grad) -> Tensor:
    check_place(device, layout)
    return finish(full_like_op(input, value, _kind(dtype)), requires_grad)


@function("zeros_like", method=False)
def zeros_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    """Zeros in the shape of input, and of its dtype unless another is given."""
    return _like(input, 0, dtype, layout, device, requires_grad)


@function("ones_like", method=False)
def ones_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
              memory_format=None):
    """Ones in the shape of input, and of its dtype unless another is given."""
    return _like(input, 1, dtype, layout, device, requires_grad)


@function("full_like", method=False)
def full_like(input, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
              memory_format=None):
    """One value in the shape of input, and of its dtype unless another is given."""
    value, _ = _value(fill_value, dtype)
    return _like(input, value, dtype, layout, device, requires_grad)


@function("empty_like", method=False)
def empty_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
               memory_format=None):
    """Undefined contents in the shape of input, and of its dtype unless another is given."""
    return _like(input, 0, dtype, layout, device, requires_grad)


def _new(self, size, value, dtype, layout, device, requires_grad, name) -> Tensor:
    check_place(device, layout)
    return finish(full_op(sizes_of(size, name), value, _kind(dtype) or self.dtype), requires_grad)


@function("new_zeros", function=False)
def new_zeros(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """Zeros of this tensor's dtype."""
    return _new(self, size or (kw.pop("size"),), 0, dtype, layout, device, requires_grad, "new_zeros")


@function("new_ones", function=False)
def new_ones(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """Ones of this tensor's dtype."""
    return _new(self, size or (kw.pop("size"),), 1, dtype, layout, device, requires_grad, "new_ones")


@function("new_empty", function=False)
def new_empty(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """Undefined contents of this tensor's dtype."""
    check_place(device, layout)
    size = sizes_of(size or (kw.pop("size"),), "new_empty")
    return finish(empty_op(size, _kind(dtype) or self.dtype), requires_grad)


@function("new_full", function=False)
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """One value, of this tensor's dtype."""
    value, _ = _value(fill_value, dtype)
    return _new(self, (size,), value, dtype, layout, device, requires_grad, "new_full")


@function("new_tensor", function=False)
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None, pin_memory=False):
    """A copy of data, of this tensor's dtype."""
    return tensor(data, dtype=_kind(dtype) or self.dtype, device=device, requires_grad=requires_grad)


@function("empty_strided", method=False)
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Undefined contents with the given strides in elements."""
    check_place(device, layout)
    size, stride = tuple(size), tuple(stride)
    need = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    kind = _kind(dtype) or dt.get_default_dtype()
    return finish(empty_op((need,), kind).as_strided(size, stride).detach(), requires_grad)


@function("new_empty_strided", function=False)
def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, requires_grad=False,
                      pin_memory=False):
    """Undefined contents of this tensor's dtype with the given strides in elements."""
    return empty_strided(size, stride, dtype=_kind(dtype) or self.dtype, device=device, requires_grad=requires_grad)


@function("empty_permuted", method=False)
def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False,
                   pin_memory=False):
    """Undefined contents, dense, with the axes in memory in the given order (slowest first)."""
    size = tuple(size)
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: {list(physical_layout)} is no permutation of the {len(size)} dimensions")
    steps = contiguous_strides([size[d] for d in physical_layout])
    stride = [0] * len(size)
    for d, s in zip(physical_layout, steps, strict=True):
        stride[d] = s
    return empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)


# ---- filling an existing tensor ----

def _refuse_fill(input: Any, value: Any) -> None:
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")


def _fill_out(x, value, out):
    if isinstance(value, np.ndarray):
        return NotImplemented
    out.fill(value)
    return out


@op("fill(input: T, value: Tn)", kind="pointwise", promote="same", inplace=True)
class fill:
    """value (a number or a 0-d tensor) in the shape, layout and dtype of input."""

    promote_params = ("input",)
    kernel_out = _fill_out

    def kernel(x, value):
        if isinstance(value, np.ndarray):
            if value.ndim:
                raise TypeError("value has dimensions")  # the meta rule words it
            value = value[()]
        return np.full_like(x, value)

    def meta(input, value):
        _refuse_fill(input, value)
        return Meta(input.shape, input.dtype, input.strides and dense_strides(input))

    def vjp_input(g):
        return zeros_like(g)

    def vjp_value(g):
        return g.sum()

    def scalar(b, x, value):
        return b.cast(value, x.dtype)

    def ref(x, value):
        return np.full_like(x, value)

    def samples():
        yield Sample(np.ones((2, 3)), 2.5)
        yield Sample(np.ones((2, 3)), np.array(1.5))

    def errors():
        yield (np.ones(3), np.ones(3)), {}, RuntimeError, "0-dimension"


@function("zero_")
def zero_(self):
    """Set every element to 0."""
    return self.fill_(0)


# ---- ranges ----

def _length(start: Any, end: Any, step: Any) -> Any:
    """Number of elements of arange; RuntimeError for bounds that make none."""
    if all(isinstance(v, (int, float)) for v in (start, end, step)):
        if step == 0:
            raise RuntimeError("step must be nonzero")
        if not (math.isfinite(start) and math.isfinite(end)):
            raise RuntimeError(f"unsupported range: {start} -> {end}")
        if (end - start) * step < 0:
            raise RuntimeError("upper bound and lower bound inconsistent with step sign")
        if isinstance(start, int) and isinstance(end, int) and isinstance(step, int):
            return -((start - end) // step)
        return math.ceil((end - start) / step)
    return end - start if isinstance(step, int) and step == 1 else -((start - end) // step)


@op("arange(start: num, end: num, step: num, dtype: dtype)", kind="create", function=False)
class arange_op:
    """start, start + step, ... below end."""

    def kernel(start, end, step, dtype):
        n = _length(start, end, step)
        if dtype.category == dt.INT and all(isinstance(v, int) for v in (start, step)):
            return np.arange(n, dtype=np.int64).__mul__(step).__add__(start).astype(dtype.np, copy=False)
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


def _int_bounds(dtype: Any, *values: Any) -> tuple:
    """Bounds as the dtype holds them: of an integer range the fractions are dropped first."""
    if dtype.category == dt.INT:
        return tuple(int(v) if isinstance(v, float) and math.isfinite(v) else v for v in values)
    return values


def _steps(steps: Any, name: str) -> Any:
    if isinstance(steps, float):
        raise TypeError(f"{name}(): argument 'steps' must be int, not float")
    if isinstance(steps, int) and steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return steps


def _plain(x: Any) -> Any:
    return x.item() if isinstance(x, (Tensor, np.generic)) else x


@function("arange", method=False)
def arange(*args, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """arange(end), arange(start, end) or arange(start, end, step): integers give int64, else the default dtype."""
    check_place(device, layout)
    names = ("end",) if len(args) + len(kw) == 1 else ("start", "end", "step")
    if len(args) > 3 or not set(kw) <= {"start", "end", "step"}:
        raise TypeError("arange() takes (end), (start, end) or (start, end, step)")
    if "step" in kw and len(args) == 1 and "start" not in kw and "end" not in kw:
        names = ("end",)
    values = {"start": 0, "step": 1, **dict(zip(names, map(_plain, args))), **{k: _plain(v) for k, v in kw.items()}}
    if "end" not in values:
        raise TypeError("arange() missing the argument 'end'")
    if dtype is None:
        floats = any(isinstance(v, float) for v in values.values())
        dtype = dt.get_default_dtype() if floats else dt.int64
    kind = _kind(dtype)
    bounds = _int_bounds(kind, values["start"], values["end"], values["step"])
    return finish(arange_op(*bounds, kind), requires_grad, out)


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


@function("linspace", method=False)
def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
             requires_grad=False):
    """steps numbers evenly spaced from start to end, both included."""
    check_place(device, layout)
    kind = _kind(dtype) or dt.get_default_dtype()
    bounds = _int_bounds(kind, _plain(start), _plain(end))
    return finish(linspace_op(*bounds, _steps(steps, "linspace"), kind), requires_grad, out)


@function("logspace", method=False)
def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=False,
             requires_grad=False):
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


@function("eye", method=False)
def eye(n, m=None, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A matrix with ones on the diagonal."""
    check_place(device, layout)
    m = n if m is None else m
    for name, v in (("n", n), ("m", m)):
        if isinstance(v, int) and v < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {v}")
    return finish(eye_op(n, m, _kind(dtype) or dt.get_default_dtype()), requires_grad, out)


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
    return tri_indices_op(row, col, offset, upper, _kind(dtype) or dt.int64)


@function("tril_indices", method=False)
def tril_indices(row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Indices of the lower triangle of a (row, col) matrix: int64, shape (2, n)."""
    return _triangle(row, col, offset, False, dtype, device, layout)


@function("triu_indices", method=False)
def triu_indices(row, col, offset=0, *, dtype=None, device=None, layout=None):
    """Indices of the upper triangle of a (row, col) matrix: int64, shape (2, n)."""
    return _triangle(row, col, offset, True, dtype, device, layout)


def _window(name: str, length: int, periodic: bool, dtype: Any, weights: tuple[float, ...]) -> Tensor:
    """Sum of weights[k] cos(2 pi k i / N)."""
    kind = _kind(dtype) or dt.get_default_dtype()
    if length < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={length}")
    if not kind.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind.name}")
    if length <= 1:
        return ones(length, dtype=kind)
    phase = arange_op(0.0, float(length), 1.0, dt.float64) * (2 * math.pi / (length if periodic else length - 1))
    total = weights[0]
    for k, w in enumerate(weights[1:], 1):
        total = total + w * (phase * k).cos()
    return total.to(kind)


@function("hann_window", method=False)
def hann_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                requires_grad=False):
    """1/2 - 1/2 cos(2 pi i / N); N = window_length, or one less if not periodic."""
    check_place(device, layout)
    return finish(_window("hann_window", window_length, periodic, dtype, (0.5, -0.5)), requires_grad)


@function("hamming_window", method=False)
def hamming_window(window_length, periodic=True, alpha=0.54, beta=0.46, *, dtype=None, layout=None, device=None,
                   pin_memory=False, requires_grad=False):
    """alpha - beta cos(2 pi i / N); N = window_length, or one less if not periodic."""
    check_place(device, layout)
    return finish(_window("hamming_window", window_length, periodic, dtype, (alpha, -beta)), requires_grad)


@function("blackman_window", method=False)
def blackman_window(window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False,
                    requires_grad=False):
    """0.42 - 0.5 cos(2 pi i / N) + 0.08 cos(4 pi i / N)."""
    check_place(device, layout)
    return finish(_window("blackman_window", window_length, periodic, dtype, (0.42, -0.5, 0.08)), requires_grad)


@function("scalar_tensor", method=False)
def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A 0-d tensor; dtype defaults to the default floating point type."""
    check_place(device, layout)
    return finish(full_op((), s, _kind(dtype) or dt.get_default_dtype()), requires_grad)


# ---- from data ----

def _unwrapped(data: Any) -> Any:
    """Nested lists with tensors inside as nested lists of numbers."""
    if isinstance(data, Tensor):
        return data.tolist()
    if isinstance(data, (list, tuple)):
        return [_unwrapped(v) for v in data] if any(isinstance(v, (Tensor, list, tuple)) for v in data) else data
    return data


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


def _array(data: Any, dtype: Any) -> np.ndarray:
    """data as an array of a supported dtype, always a copy."""
    if isinstance(data, np.ndarray):
        kind = dtype or dt.from_numpy_dtype(data.dtype)
        return np.array(data, dtype=kind.np, order="C")
    leaf = _first_leaf(data)
    if isinstance(leaf, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(leaf, np.ndarray):
        data = np.array(data)
        return _array(data, dtype)
    try:
        a = np.array(_unwrapped(data))
    except ValueError as e:
        raise ValueError(f"expected sequences of equal length at every dimension: {e}") from None
    if a.dtype.kind in "OUS":
        bad = next((v for v in a.ravel() if not isinstance(v, (int, float))), None)
        if bad is None:
            raise RuntimeError("Overflow when unpacking long: an integer does not fit int64")
        raise TypeError(f"must be real number, not {type(bad).__name__}")
    if a.dtype == np.uint64:
        raise RuntimeError("Overflow when unpacking long: an integer does not fit int64")
    if a.dtype.kind == "c":
        raise TypeError("complex numbers are not supported")
    if dtype is not None:
        return _to(a, dtype)
    if a.dtype == np.float64 and not isinstance(leaf, np.generic) and not isinstance(leaf, Tensor):
        return a.astype(dt.get_default_dtype().np)
    if isinstance(leaf, Tensor):
        return a.astype(leaf.dtype.np)
    return a.astype(dt.from_numpy_dtype(a.dtype).np) if a.size else a.astype(dt.get_default_dtype().np)


def _to(a: np.ndarray, dtype: dt.dtype) -> np.ndarray:
    """Cast Python numbers; RuntimeError for an integer that does not fit."""
    if dtype.category == dt.INT and a.dtype.kind == "i" and a.size:
        info = np.iinfo(dtype.np)
        if a.min() < info.min or a.max() > info.max:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    with np.errstate(all="ignore"):
        return a.astype(dtype.np)


@function("tensor", method=False)
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of data: a number, nested sequences, an array or a tensor.

    Python floats become the default dtype, ints int64. ValueError for ragged sequences, TypeError for what is no number.
    """
    check_place(device)
    kind = _kind(dtype)
    if isinstance(data, Tensor):
        result = data.detach().clone()
        result = result if kind is None else result.to(kind)
    else:
        result = wrap(_array(data, kind))
    if requires_grad:
        if not result.dtype.is_floating_point:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        result.requires_grad_()
    return result


@function("as_tensor", method=False, names=("asarray",))
def as_tensor(data, dtype=None, device=None, **kw):
    """data as a tensor, sharing memory with a tensor or an array of the right dtype."""
    check_place(device)
    kind = _kind(dtype)
    if isinstance(data, Tensor):
        return data if kind is None or data.dtype is kind else data.to(kind)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        return shared if kind is None or shared.dtype is kind else shared.to(kind)
    return wrap(_array(data, kind))


@function("from_numpy", method=False)
def from_numpy(ndarray):
    """A tensor on the memory of an array. TypeError for other things, ValueError for byte orders or strides that no
    tensor can have."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dt.from_numpy_dtype(ndarray.dtype)
    if not ndarray.dtype.isnative:
        raise ValueError("given numpy array has byte order different from the native byte order. Conversion between "
                         "byte orders is currently not supported.")
    item = ndarray.dtype.itemsize
    if any(s % item for s in ndarray.strides) or not ndarray.flags.aligned:
        raise ValueError("given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
                         "reallocate the memory.")
    if type(ndarray) is not np.ndarray:
        ndarray = np.asarray(ndarray)
    return wrap(ndarray)
