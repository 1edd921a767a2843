"""Element types, and PyTorch's promotion rules between them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

BOOL, INT, FLOAT = 0, 1, 2


class dtype:
    """An element type; the instances below are the only ones.

    Attributes: ``name``, ``short`` (as graphs print it), ``np`` (the numpy dtype), ``itemsize`` in bytes,
    ``category`` (0 bool, 1 integer, 2 floating point).
    """

    __slots__ = ("name", "short", "np", "itemsize", "category", "is_floating_point", "rank")

    def __init__(self, name: str, short: str, np_dtype: Any, category: int, rank: int) -> None:
        self.name, self.short, self.np = name, short, np.dtype(np_dtype)
        self.itemsize, self.category, self.rank = self.np.itemsize, category, rank
        self.is_floating_point = category == FLOAT

    is_complex = False

    @property
    def is_signed(self) -> builtins.bool:
        return self.category == FLOAT or (self.category == INT and self.np.kind == "i")

    def __repr__(self) -> str:
        return f"fusegrad.{self.name}"

    def __reduce__(self) -> tuple:
        return _by_name, (self.name,)

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: dict) -> dtype:
        return self


bool_ = dtype("bool", "b1", np.bool_, BOOL, 0)
uint8 = dtype("uint8", "u8", np.uint8, INT, 1)
int8 = dtype("int8", "i8", np.int8, INT, 2)
int16 = dtype("int16", "i16", np.int16, INT, 3)
int32 = dtype("int32", "i32", np.int32, INT, 4)
int64 = dtype("int64", "i64", np.int64, INT, 5)
float16 = dtype("float16", "f16", np.float16, FLOAT, 6)
float32 = dtype("float32", "f32", np.float32, FLOAT, 7)
float64 = dtype("float64", "f64", np.float64, FLOAT, 8)

ALL = (bool_, uint8, int8, int16, int32, int64, float16, float32, float64)
FROM_NUMPY: dict[Any, dtype] = {d.np: d for d in ALL}
BY_NAME: dict[str, dtype] = {d.name: d for d in ALL}
BY_SHORT: dict[str, dtype] = {d.short: d for d in ALL}
ALIASES = {"half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64}


def _by_name(name: str) -> dtype:
    return BY_NAME[name]


def from_numpy_dtype(d: Any) -> dtype:
    """The dtype of a numpy dtype (byte order ignored). TypeError for what no tensor can hold."""
    d = np.dtype(d)
    found = FROM_NUMPY.get(d) or FROM_NUMPY.get(d.newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {d}; the supported types are: float64, float32, float16, "
            "int64, int32, int16, int8, uint8 and bool"
        )
    return found


_default = float32


def get_default_dtype() -> dtype:
    """The floating point type of new tensors made from Python floats."""
    return _default


def set_default_dtype(d: dtype) -> None:
    """Set the type that Python floats become. TypeError unless ``d`` is a floating point dtype."""
    global _default
    if not isinstance(d, dtype) or not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default = d


_C_NAMES = {
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int",
    "int64": "int64_t",
    "float32": "float",
}


def _checked_width(value: Any) -> int:
    """The widest integers, in bytes, that a symbolic int may not fit into (where it may be guarded)."""
    if not hasattr(value, "hint"):
        return 0
    return 4 if getattr(getattr(value, "ctx", None), "mode", "") == "guard" else 1


def element(value: Any, d: dtype) -> Any:
    """A Python number as an element of ``d``, as PyTorch writes it into a tensor: fractions are cut off, negative
    integers wrap in an unsigned type. RuntimeError for a type that has no such value (NaN is no integer), OverflowError
    for an integer beyond 64 bits.
    """
    if type(value) is float and -60000.0 < value < 60000.0 and d.category == FLOAT:
        return value
    if type(value) is int:
        check_int(value)
    elif type(value) is float and d.category == FLOAT and abs(value) > np.finfo(d.np).max and value - value == 0:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES.get(d.name, d.name)} without overflow")
    if d.category == FLOAT or not isinstance(value, (int, float)):
        if d.category == INT and d.itemsize <= _checked_width(value):  # decided, and guarded
            info = np.iinfo(d.np)
            if not (-info.max if info.min == 0 else info.min) <= value <= info.max:
                raise RuntimeError(f"value cannot be converted to type {_C_NAMES[d.name]} without overflow")
        return value
    if d.category == BOOL:
        return value != 0
    info = np.iinfo(d.np)
    low = -info.max if info.min == 0 and isinstance(value, int) else info.min
    if not low <= value <= info.max or value == 2.0**63:
        raise RuntimeError(f"value cannot be converted to type {_C_NAMES[d.name]} without overflow")
    return int(value) % (info.max + 1) if value < 0 and info.min == 0 else int(value)


def promote_types(a: dtype, b: dtype) -> dtype:
    """The smallest dtype that PyTorch's lattice gives for both."""
    if a is b and isinstance(a, dtype):
        return a
    _check(a, "promote_types", "type1")
    _check(b, "promote_types", "type2")
    if a.rank > b.rank:
        a, b = b, a
    if a is uint8 and b is int8:
        return int16
    return b


def number_dtype(value: Any) -> dtype:
    """The dtype a Python (or numpy) number stands for: bool, int64, or the default floating point type."""
    if isinstance(value, (builtins.bool, np.bool_)):
        return bool_
    if isinstance(value, (float, np.floating)) or hasattr(value, "graph_number"):  # a float that changes
        return _default
    return int64


def check_int(value: int) -> None:
    """OverflowError for an integer that has no place in 64 bits."""
    if not -(2**63) <= value < 2**64:
        raise OverflowError(f"int too big to convert: {value} does not fit into 64 bits")


def result_type_of(strong: list[tuple[dtype, builtins.bool]], weak: list[dtype]) -> dtype:
    """Promotion of tensors, given as (dtype, has dimensions), and of Python numbers (``weak``).

    Priority: tensors with dimensions, then 0-d tensors, then numbers; a lower class changes the result only when its
    category (bool < int < float) is higher. (PyTorch documentation, "Tensor Attributes", type promotion.)
    """
    dim = zero = num = None
    for d, has_dims in strong:
        if has_dims:
            dim = d if dim is None else promote_types(dim, d)
        else:
            zero = d if zero is None else promote_types(zero, d)
    for d in weak:
        num = d if num is None else promote_types(num, d)
    if num is not None and num.category == FLOAT:
        num = _default  # a number brings its category only, not a type of its own
    out = dim
    for lower in (zero, num):
        if lower is not None and (out is None or lower.category > out.category):
            out = lower
    assert out is not None
    return out


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """Whether PyTorch's casting rules allow ``from_`` to become ``to`` (categories may only grow)."""
    _check(from_, "can_cast", "from_")
    _check(to, "can_cast", "to")
    return from_.category <= to.category


def _check(d: Any, name: str, param: str) -> None:
    if not isinstance(d, dtype):
        raise TypeError(f"{name}(): argument '{param}' must be a fusegrad dtype, not {type(d).__name__}")


class finfo:
    """Limits of a floating point dtype (default: the default dtype): bits, eps, max, min, tiny, resolution."""

    def __init__(self, d: dtype | None = None) -> None:
        d = d or _default
        if not d.is_floating_point:
            raise TypeError(f"finfo() requires a floating point input type, got {d.name}; use iinfo() for integers")
        i = np.finfo(d.np)
        self.bits, self.dtype = d.itemsize * 8, d.name
        self.eps, self.max, self.min = float(i.eps), float(i.max), float(i.min)
        self.tiny = self.smallest_normal = float(i.tiny)
        self.resolution = float(str(i.resolution))

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        return f"finfo({', '.join(f'{n}={getattr(self, n):g}' for n in names)}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, d: dtype) -> None:
        if d.category != INT:
            raise TypeError(f"iinfo() requires an integer input type, got {d.name}; use finfo() for floating point")
        i = np.iinfo(d.np)
        self.bits, self.dtype, self.max, self.min = d.itemsize * 8, d.name, int(i.max), int(i.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
