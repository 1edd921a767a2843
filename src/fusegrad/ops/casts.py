"""Copies and changes of dtype: clone, contiguous, to, float, long and so on."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..cuda import NoDeviceError
from ..layout import checked_format, elementwise_strides, format_axes, format_strides
from ..meta import Meta
from ..op import Inline, Sample, function, op
from ..tensor import device
from ._blocked import converted, without_complaint
from ._half import half, single
from ._samples import t


@op("cast(input: T, dtype: dtype)", kind="pointwise", method=False, function=False)
class cast:
    """The elements converted to ``dtype`` (floats are truncated towards zero when they become integers)."""

    def kernel(a, dtype):
        if a.dtype.char + dtype.short in ("ef32", "ff16") and a.flags.c_contiguous:
            return single(a) if a.dtype.char == "e" else half(a)
        if dtype.category < 2 and a.dtype.kind == "f":
            return without_complaint(converted, a, dtype.np)
        return converted(a, dtype.np)

    def meta(m, dtype):
        return Meta(m.shape, dtype, elementwise_strides(m.shape, [m]))

    def vjp(g):
        return g  # the engine casts it to the input's dtype

    def scalar(b, x, dtype):
        return b.cast(x, dtype)

    def ref(a, dtype):
        return a.astype(dtype.np)

    def samples():
        yield Sample(t(3, 4), dt.float64)
        yield Sample(t(3, 4), dt.float32, grad=False)
        yield Sample(t(3, 4), dt.int64, grad=False)
        yield Sample(t(3, 4, dtype=dt.int64), dt.bool_)


_cast = cast.fn


@op("clone(input: T, *, memory_format: str? = None)", kind="pointwise")
class clone:
    """A copy with its own memory; the layout is kept, or that of a ``memory_format``."""

    def kernel(a, memory_format=None):
        if memory_format == "contiguous":
            return a.copy()
        return converted(a, a.dtype) if memory_format in (None, "preserve") else _ordered(a, memory_format)

    def meta(m, memory_format=None):
        if memory_format in (None, "preserve"):
            return Meta(m.shape, m.dtype, elementwise_strides(m.shape, [m]))
        return Meta(m.shape, m.dtype, format_strides(m.shape, checked_format(memory_format, "clone")))

    def vjp(g):
        return g

    def scalar(b, x, memory_format=None):
        return x

    def ref(a, memory_format=None):
        return a.copy()

    def samples():
        yield Sample(t(3, 4))

    def errors():
        yield (t(3, 4),), {"memory_format": "channels_last"}, RuntimeError, "required rank 4"


def _ordered(a: np.ndarray, memory_format: str) -> np.ndarray:
    axes = format_axes(memory_format, a.ndim)
    return a.transpose(axes).copy().transpose(np.argsort(axes))


@function("contiguous(input: T)", direct=True)
def contiguous(input: Any, *, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in C order (or that of a memory format), else a copy that does."""
    if memory_format is None:
        if (d := input._data) is not None and d.flags.c_contiguous or input.is_contiguous():
            return input
        return clone(input, memory_format="contiguous")
    if checked_format(memory_format, "contiguous") == "preserve":
        return input
    return in_format(input, memory_format)


def in_format(input: Any, memory_format: str | None) -> Any:
    """The tensor itself if it has the memory format (None, "preserve": any), else a copy that does."""
    if memory_format is None or checked_format(memory_format, "to") == "preserve":
        return input
    format_axes(memory_format, input.ndim)
    return input if input.is_contiguous(memory_format) else clone(input, memory_format=str(memory_format))


@function("to")
def to(
    input: Any,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: Any = None,
) -> Any:
    """``x.to(dtype)``, ``x.to(other)``, ``x.to(device, dtype)``: itself if nothing changes (unless ``copy``)."""
    rest = []
    for a in args:
        if isinstance(a, dt.dtype) or a in (float, int, bool):
            dtype = a
        elif hasattr(a, "_data"):
            dtype = a.dtype
        elif isinstance(a, bool):
            rest.append(a)
        elif a is not None:
            device = a
    if rest:
        copy = rest[1] if len(rest) > 1 else copy
    if device is not None:
        _check_device(device)
    if dtype is not None and not isinstance(dtype, dt.dtype):
        dtype = {float: dt.float64, int: dt.int64, bool: dt.bool_}.get(dtype) or _bad_dtype(dtype)
    if dtype is not None and dtype is not input.dtype:
        return in_format(_cast(input, dtype), memory_format)
    return clone(input, memory_format=memory_format) if copy else in_format(input, memory_format)


def _bad_dtype(d: Any) -> Any:
    raise TypeError(
        f"to() received an invalid combination of arguments: {d!r} is neither a dtype, a device nor a tensor"
    )


def _check_device(d: Any) -> None:
    if isinstance(d, (str, device)):
        device(d)
    else:
        _bad_dtype(d)


def _make(name: str, target: dt.dtype, names: tuple[str, ...] = ()) -> None:
    def convert(input: Any, *, memory_format: Any = None) -> Any:
        d = input._data
        same = input.dtype is target if d is None else d.dtype is target.np
        result = input if same else _cast(input, target)
        return result if memory_format is None else in_format(result, memory_format)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"The tensor as {target.name}; itself if it is that already."
    when = "memory_format is None and a0.dtype is not NP_TARGET"
    inline = Inline(cast, when, dtype="TARGET", using={"NP_TARGET": target.np, "TARGET": target})
    function(f"{name}(input: T)", function=False, direct=True, inline=inline)(convert)


for _name, _target in (
    ("float", dt.float32),
    ("double", dt.float64),
    ("half", dt.float16),
    ("long", dt.int64),
    ("int", dt.int32),
    ("short", dt.int16),
    ("char", dt.int8),
    ("byte", dt.uint8),
    ("bool", dt.bool_),
):
    _make(_name, _target)


_TYPE_NAMES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "int64": "LongTensor",
    "int32": "IntTensor",
    "int16": "ShortTensor",
    "int8": "CharTensor",
    "uint8": "ByteTensor",
    "bool": "BoolTensor",
}
_BY_TYPE_NAME = {v: dt.BY_NAME[k] for k, v in _TYPE_NAMES.items()}


@function("type(input: T, non_blocking: bool)", function=False)
def type_(input: Any, dtype: Any = None, non_blocking: bool = False, *, memory_format: Any = None) -> Any:
    """The type's name (``torch.FloatTensor``), or the tensor converted to a dtype given as such or by that name."""
    if dtype is None:
        return "torch." + _TYPE_NAMES[input.dtype.name]
    if isinstance(dtype, str):
        found = _BY_TYPE_NAME.get(dtype.rsplit(".", 1)[-1])
        if found is None:
            raise ValueError(f"invalid type: {dtype!r}")
        dtype = found
    return to(input, dtype, memory_format=memory_format)


@function("type_as(input: T, other: T)", function=False)
def type_as(input: Any, other: Any) -> Any:
    """Converted to the dtype of ``other``."""
    return to(input, other.dtype)


@function("cpu(input: T)", function=False)
def cpu(input: Any, *, memory_format: Any = None) -> Any:
    """The tensor itself: the CPU is the only device."""
    return in_format(input, memory_format)


@function("cuda(input: T)", function=False)
def cuda(input: Any, *args: Any, **kwargs: Any) -> Any:
    """NoDeviceError: there are no GPUs; ask ``fusegrad.cuda.is_available()`` first."""
    raise NoDeviceError("cuda")


@function("detach(input: T)", method=False)
def detach(input: Any) -> Any:
    """The same memory without history."""
    return input.detach()


@function("numel(input: T)", method=False)
def numel(input: Any) -> Any:
    """The number of elements."""
    return input.numel()


@function("is_floating_point(input: T)", method=False)
def is_floating_point(input: Any) -> bool:
    """Whether the dtype is a floating point one."""
    return input.is_floating_point()


@function("is_complex(input: T)", method=False)
def is_complex(input: Any) -> bool:
    """Whether the dtype is complex (never)."""
    return input.is_complex()


@function("is_nonzero(input: T)")
def is_nonzero(input: Any) -> bool:
    """Whether a one-element tensor differs from zero. RuntimeError for any other number of elements."""
    return bool(input)
