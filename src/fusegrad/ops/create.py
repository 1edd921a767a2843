"""Making tensors: constants, ranges, windows, copies of Python and numpy data."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..arguments import as_dtype, as_ints
from ..autograd.modes import SLOW
from ..autograd.names import renamed
from ..dispatch import FAST
from ..handler import current
from ..inplace import check_overlap
from ..layout import checked_format
from ..meta import Meta, contiguous_strides
from ..op import Op, Sample, function, op
from ..place import Size
from ..remembered import Made, Remembered
from ..size_values import SymbolicNumber, SymbolicSize
from ..tensor import Tensor, of_class, wrap
from ..tensor import device as Device
from ._blocked import dense_like
from ._checked import in_place
from ._inplace_forms import changed, quiet


def check_place(device: Any = None, layout: Any = None) -> None:
    """RuntimeError for a device or a layout that does not exist here."""
    if device is not None and str(device) != "cpu":
        Device(device)
    if layout is not None and str(layout).rsplit(".", 1)[-1] != "strided":
        raise RuntimeError(f"only strided tensors exist here, not layout {layout}")


def finish(result: Tensor, requires_grad: bool, out: Tensor | None = None, operands: tuple = ()) -> Tensor:
    """Apply the last arguments that creation functions share. ``operands``: what may not share a part of ``out``."""
    if out is not None:
        check_overlap(out, operands)
        if result.dtype.category > out.dtype.category:
            raise RuntimeError(
                f"result type {result.dtype.name} can't be cast to the desired output type {out.dtype.name}"
            )
        if tuple(out.shape) != tuple(result.shape):
            if out._data is None or result._data is None:
                raise RuntimeError(f"out= has shape {list(out.shape)}, the result has {list(result.shape)}")
            out._data = np.empty(result._data.shape, out._data.dtype)  # PyTorch resizes it
        out.copy_(result)
        result = out
    return result._ask_grad(True) if requires_grad else result


def sizes_of(args: tuple, name: str) -> tuple:
    """Sizes given as varargs or as one sequence; RuntimeError for a negative one."""
    if len(args) == 1 and not isinstance(args[0], (int, Tensor)) and hasattr(args[0], "__iter__"):
        args = tuple(args[0])
    for s in args:
        if type(s) is not int or s < 0:
            break
    else:
        return args
    args = as_ints(args, (name, "size", 1))
    for s in args:
        if isinstance(s, (int, SymbolicSize)) and s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {s}: {list(args)}")
    return args


def given_size(size: tuple, kw: dict[str, Any], name: str) -> tuple:
    """The sizes given as varargs, or by the keyword ``size``. TypeError for none, and for other keywords."""
    no_others(kw, name, "size")
    if not size and not kw:
        raise TypeError(f"{name}() missing 1 required positional argument: 'size'")
    return size or (kw["size"],)


def no_others(kw: dict[str, Any], name: str, *known: str) -> None:
    """TypeError for a keyword that ``name`` does not know."""
    other = next((k for k in kw if k not in known), None)
    if other is not None:
        raise TypeError(f"{name}() got an unexpected keyword argument '{other}'")


def _kind(dtype: Any) -> Any:
    """A dtype argument; Python's float, int and bool stand for the usual ones."""
    if dtype is None or type(dtype) is dt.dtype:
        return dtype
    return as_dtype(dtype)


def make(entry: Op, *attrs: Any) -> Tensor:
    """Call a creation operator; straight to its kernel when no graph is captured."""
    if SLOW[0] or current() is not None:
        return entry(*attrs)
    return wrap(entry.kernel(*attrs))


# ---- filled with one value ----


@op("full(size: ints, value: num, dtype: dtype)", kind="create", function=False)
class full_op:
    """A tensor of one value."""

    def kernel(size, value, dtype):
        if type(value) is int and value == 0:
            return np.zeros(size, dtype.np)
        out = np.empty(size, dtype.np)
        out.fill(1 if type(value) is int and value == 1 else dt.element(value, dtype))
        return out

    def meta(size, value, dtype):
        dt.element(value, dtype)
        return Meta(size, dtype)

    def scalar(b, size, value, dtype):
        return b.const(dt.element(value, dtype), dtype)

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


def _blank(size: tuple, kind: Any, fill: int) -> Any:
    """An array of zeros or ones, of sizes one by one or in a tuple; None for all but plain ones."""
    if len(size) == 1 and (type(size[0]) is tuple or type(size[0]) is Size):
        size = size[0]
    elif not size:
        return None
    for s in size:
        if type(s) is not int or s < 0:
            return None
    if not fill:
        return np.zeros(size, kind)
    out = np.empty(size, kind)
    out.fill(fill)
    return out


def _usual(fill: int) -> Made:
    """The usual call of ``zeros`` or ``ones``."""
    return Made(lambda size: _blank(size, dt.get_default_dtype().np, fill), "size", others="kw")


def _usual_new(fill: int) -> Made:
    """The usual call of ``new_zeros`` or ``new_ones``."""

    def did(self: Any, size: tuple) -> Any:
        return _blank(size, d.dtype, fill) if type(self) in FAST and (d := self._data) is not None else None

    return Made(did, "self", "size", others="kw")


@function("zeros(dtype: dtype, requires_grad: bool?)", method=False, direct=True, inline=_usual(0))
def zeros(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """A tensor of zeros; dtype defaults to the default floating point type."""
    if device is not None or layout is not None:
        check_place(device, layout)
    size = sizes_of(given_size(size, kw, "zeros") if kw or not size else size, "zeros")
    result = make(zeros_op, size, dt.get_default_dtype() if dtype is None else _kind(dtype))
    return finish(result, requires_grad, out) if requires_grad or out is not None else result


@function("ones(dtype: dtype, requires_grad: bool?)", method=False, direct=True, inline=_usual(1))
def ones(*size, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """A tensor of ones; dtype defaults to the default floating point type."""
    if device is not None or layout is not None:
        check_place(device, layout)
    size = sizes_of(given_size(size, kw, "ones") if kw or not size else size, "ones")
    result = make(full_op, size, 1, dt.get_default_dtype() if dtype is None else _kind(dtype))
    return finish(result, requires_grad, out) if requires_grad or out is not None else result


@function("empty(dtype: dtype, requires_grad: bool?)", method=False, direct=True)
def empty(
    *size,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=None,
    **kw,
):
    """A tensor whose contents are undefined."""
    if device is not None or layout is not None:
        check_place(device, layout)
    size = sizes_of(given_size(size, kw, "empty") if kw or not size else size, "empty")
    result = make(empty_op, size, dt.get_default_dtype() if dtype is None else _kind(dtype))
    if memory_format is not None:
        if checked_format(memory_format, "empty") == "preserve":
            raise RuntimeError("empty() has no tensor whose layout could be kept; use empty_like() or another format")
        result = _formatted(result, memory_format)
    return finish(result, requires_grad, out) if requires_grad or out is not None else result


def _formatted(made: Tensor, memory_format: Any) -> Tensor:
    from .casts import in_format

    return in_format(made, memory_format)


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


@function(
    "full(size: ints, fill_value: num, dtype: dtype, requires_grad: bool?)",
    method=False,
    inline=Remembered("size", "fill_value", tuples=("size",)),
)
def full(size, fill_value, *, out=None, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A tensor of one value; dtype defaults to what the value implies."""
    check_place(device, layout)
    value, kind = _value(fill_value, _kind(dtype))
    if isinstance(value, SymbolicNumber) and hasattr(
        value, "tree"
    ):  # made of sizes: no attribute of a graph's node can hold it
        return finish(make(full_op, sizes_of((size,), "full"), 1.0, kind) * value, requires_grad, out)
    dt.element(value, kind)
    return finish(make(full_op, sizes_of((size,), "full"), value, kind), requires_grad, out)


def _filled(x: np.ndarray, value: Any, kind: Any = None) -> np.ndarray:
    if 0 not in x.strides:
        return np.full_like(x, value, kind)
    out = dense_like(x, kind)
    np.copyto(out, value, casting="unsafe")
    return out


@op("full_like(input: T, value: num, dtype: dtype? = None)", kind="pointwise", function=False, method=False)
class full_like_op:
    """One value in the shape and layout of input."""

    nondiff = True

    def kernel(x, value, dtype=None):
        kind = x.dtype if dtype is None else dtype.np
        if type(value) is int and value == 0 and (x.flags.c_contiguous or 0 not in x.strides):
            return np.zeros(x.shape, kind) if x.flags.c_contiguous else np.zeros_like(x, kind)
        out = np.empty(x.shape, kind) if x.flags.c_contiguous else dense_like(x, kind)
        out.fill(1 if type(value) is int and value == 1 else _element(value, kind))
        return out

    def meta(input, value, dtype=None):
        dt.element(value, dtype or input.dtype)
        return Meta(input.shape, dtype or input.dtype, input.strides and dense_strides(input))

    def scalar(b, x, value, dtype=None):
        return b.const(dt.element(value, dtype or x.dtype), dtype or x.dtype)

    def ref(x, value, dtype=None):
        return np.full_like(x, value, x.dtype if dtype is None else dtype.np)

    def samples():
        yield Sample(np.ones((2, 3), np.float32), 2.5)
        yield Sample(np.ones((2, 3), np.float32), 2, dt.int64)


_filled_like = full_like_op.fn


def dense_strides(m: Meta) -> tuple | None:
    """Strides of a dense tensor with the axes of m in the same order (numpy's order "K")."""
    from ..layout import elementwise_strides

    return elementwise_strides(m.shape, [m])


def like(input: Any, value: Any, dtype: Any = None) -> Tensor:
    """full_like for the rules in this package: no checks."""
    return full_like_op(input, value, dtype)


def _like(input, value, dtype, layout, device, requires_grad, memory_format=None) -> Tensor:
    if device is not None or layout is not None:
        check_place(device, layout)
    result = full_like_op(input, value, None if dtype is None else _kind(dtype))
    result = result if memory_format is None else _formatted(result, memory_format)
    return finish(result, requires_grad) if requires_grad else result


@function("zeros_like(input: T, dtype: dtype, requires_grad: bool?)", method=False, direct=True)
def zeros_like(
    input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None
):
    """Zeros in the shape of input, and of its dtype unless another is given."""
    if dtype is layout is device is memory_format is None and requires_grad is False:
        return _filled_like(input, 0)
    return _like(input, 0, dtype, layout, device, requires_grad, memory_format)


@function("ones_like(input: T, dtype: dtype, requires_grad: bool?)", method=False, direct=True)
def ones_like(
    input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None
):
    """Ones in the shape of input, and of its dtype unless another is given."""
    if dtype is layout is device is memory_format is None and requires_grad is False:
        return _filled_like(input, 1)
    return _like(input, 1, dtype, layout, device, requires_grad, memory_format)


@function("full_like(input: T, fill_value: num, dtype: dtype, requires_grad: bool?)", method=False)
def full_like(
    input,
    fill_value,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
    memory_format=None,
):
    """One value in the shape of input, and of its dtype unless another is given."""
    value, _ = _value(fill_value, dtype)
    return _like(input, value, dtype, layout, device, requires_grad, memory_format)


@function("empty_like(input: T, dtype: dtype, requires_grad: bool?)", method=False)
def empty_like(
    input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None
):
    """Undefined contents in the shape of input, and of its dtype unless another is given."""
    return _like(input, 0, dtype, layout, device, requires_grad, memory_format)


def _new(self, size, value, dtype, layout, device, requires_grad, name) -> Tensor:
    check_place(device, layout)
    made = make(full_op, sizes_of(size, name), value, _kind(dtype) or self.dtype)
    return finish(_each(self, made), requires_grad)


def _each(like: Tensor, made: Tensor) -> Tensor:
    """``made``, with memory for each example of which ``like`` is one."""
    if like._data is None and hasattr(like._g.handler, "one_each"):
        like._g.handler.one_each(like, made)
    return of_class(like, made)


@function(
    "new_zeros(self: T, dtype: dtype, requires_grad: bool?)",
    function=False,
    inline=_usual_new(0),
)
def new_zeros(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """Zeros of this tensor's dtype."""
    return _new(self, given_size(size, kw, "new_zeros"), 0, dtype, layout, device, requires_grad, "new_zeros")


@function(
    "new_ones(self: T, dtype: dtype, requires_grad: bool?)",
    function=False,
    inline=_usual_new(1),
)
def new_ones(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """Ones of this tensor's dtype."""
    return _new(self, given_size(size, kw, "new_ones"), 1, dtype, layout, device, requires_grad, "new_ones")


@function("new_empty(self: T, dtype: dtype, requires_grad: bool?)", function=False)
def new_empty(self, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, **kw):
    """Undefined contents of this tensor's dtype."""
    check_place(device, layout)
    size = sizes_of(given_size(size, kw, "new_empty"), "new_empty")
    return finish(_each(self, make(empty_op, size, _kind(dtype) or self.dtype)), requires_grad)


@function("new_full(self: T, size: ints, fill_value: num, dtype: dtype, requires_grad: bool?)", function=False)
def new_full(self, size, fill_value, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """One value, of this tensor's dtype."""
    value, _ = _value(fill_value, dtype)
    return _new(self, (size,), value, dtype, layout, device, requires_grad, "new_full")


@function("empty_strided(size: ints, stride: ints, dtype: dtype, requires_grad: bool?)", method=False)
def empty_strided(size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False):
    """Undefined contents with the given strides in elements."""
    check_place(device, layout)
    size, stride = tuple(size), tuple(stride)
    need = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if all(size) else 0
    kind = _kind(dtype) or dt.get_default_dtype()
    return finish(make(empty_op, (need,), kind).as_strided(size, stride).detach(), requires_grad)


@function("new_empty_strided(self: T, size: ints, stride: ints, dtype: dtype, requires_grad: bool?)", function=False)
def new_empty_strided(
    self, size, stride, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """Undefined contents of this tensor's dtype with the given strides in elements."""
    return empty_strided(size, stride, dtype=_kind(dtype) or self.dtype, device=device, requires_grad=requires_grad)


@function("empty_permuted(size: ints, physical_layout: ints, dtype: dtype, requires_grad: bool?)", method=False)
def empty_permuted(
    size, physical_layout, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
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


def _element(value: Any, kind: Any) -> Any:
    return dt.element(value, dt.FROM_NUMPY[kind])


def _filled_meta(input: Meta, value: Any = None) -> Meta:
    dt.element(value, input.dtype)
    return Meta(input.shape, input.dtype, input.strides and dense_strides(input))


def _fill_out(x, value, out):
    out.fill(_element(value, out.dtype))
    return out


@op("fill_number(input: T, value: num)", kind="pointwise", inplace=True, method=False, function=False)
class fill_number:
    """The number value in the shape, layout and dtype of input."""

    kernel_out = _fill_out
    meta = _filled_meta

    def kernel(x, value):
        return _filled(x, _element(value, x.dtype))

    def vjp(g):
        return zeros_like(g)

    def scalar(b, x, value):
        return b.const(dt.element(value, x.dtype), x.dtype)

    ref = np.full_like

    def samples():
        yield Sample(np.ones((2, 3)), 2.5)


@op("fill_tensor(input: T, value: T)", kind="pointwise", inplace=True, method=False, function=False)
class fill_tensor:
    """value, broadcast, in the shape, layout and dtype of input."""

    meta = _filled_meta

    def kernel(x, value):
        return _filled(x, value)

    def vjp_input(g):
        return zeros_like(g)

    def vjp_value(g):
        return g

    def scalar(b, x, value):
        return b.cast(value, x.dtype)

    ref = np.full_like

    def samples():
        yield Sample(np.ones((2, 3)), np.array(1.5))


def _fill_entry(value: Any, kind: dt.dtype) -> Op:
    if not isinstance(value, Tensor):
        dt.element(value, kind)
        return fill_number
    if value.ndim:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return fill_tensor


@function("fill(input: T, value: Tn)")
def fill(input, value):
    """value (a number or a 0-d tensor) in the shape, layout and dtype of input."""
    return _fill_entry(value, input.dtype)(input, value)


@function("fill_(input: T, value: Tn)", direct=True)
def fill_(input, value):
    """Set every element to value, a number or a 0-d tensor."""
    return in_place(_fill_entry(value, input.dtype))(input, value)


@function("zero_(self: T)", direct=True)
def zero_(self):
    """Set every element to 0."""
    if quiet(self):
        self._data.fill(0)
        changed(self)
        return self
    before = self._node
    in_place(fill_number)(self, 0)
    return self if self._view is not None or self._node is before else renamed(self, "ZeroBackward0")


@function("fill_diagonal_", function=False)
def fill_diagonal_(self, fill_value, wrap=False):
    """Set the main diagonal to a number; ``wrap``: of a tall matrix also the diagonals that begin below it.

    RuntimeError with fewer than two dimensions, and for more than two of different lengths.
    """
    if not isinstance(fill_value, (bool, int, float, np.number, Tensor)):
        raise TypeError(
            f"fill_diagonal_(): argument 'fill_value' (position 1) must be Number, not {type(fill_value).__name__}"
        )
    if self.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.ndim > 2:
        if len(set(self.shape)) != 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        self.as_strided((self.shape[0],), (sum(self.stride()),)).fill_(fill_value)
        return self
    self.diagonal().fill_(fill_value)
    height, width = self.shape
    for start in range(width + 1, height, width + 1) if wrap else ():
        self[start:].diagonal().fill_(fill_value)
    return self


@function("scalar_tensor(s: num, dtype: dtype, requires_grad: bool?)", method=False)
def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    """A 0-d tensor; dtype defaults to the default floating point type."""
    check_place(device, layout)
    return finish(make(full_op, (), s, _kind(dtype) or dt.get_default_dtype()), requires_grad)
