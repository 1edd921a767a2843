"""Arguments of generated functions: bringing static attributes into canonical form, and the statements that do it."""

from __future__ import annotations

from typing import Any

from . import dtypes
from .op import Op, Param
from .sizes import SymInt
from .tensor import Tensor


class _Missing:
    """Default of a required argument that may come under another name."""

    def __repr__(self) -> str:
        return "<required>"


MISSING = _Missing()


def all_ints(values: tuple) -> bool:
    """Whether all are plain ints."""
    for v in values:  # noqa: SIM110  (faster than all())
        if type(v) is not int:
            return False
    return True


def as_ints(value: Any, name: str = "size") -> tuple:
    """An int or a sequence of ints as a tuple."""
    if type(value) is tuple and all_ints(value):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(_as_int(v, name) for v in value)
    return (_as_int(value, name),)


def _as_int(v: Any, name: str) -> Any:
    if type(v) is int or isinstance(v, SymInt):
        return v
    if isinstance(v, bool) or not hasattr(v, "__index__"):
        raise TypeError(f"argument '{name}' must be tuple of ints, but found element of type {type(v).__name__}")
    return v.__index__()


def as_shape(values: tuple, keyword: Any, name: str, fn: str) -> tuple:
    """A shape given as varargs, as one sequence, or by keyword."""
    if keyword is not None:
        if values:
            raise TypeError(f"{fn}() got multiple values for argument '{name}'")
        return as_ints(keyword, name)
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    if all_ints(values):
        return values
    return tuple(_as_int(v, name) for v in values)


def as_dtype(d: Any) -> Any:
    """A dtype argument; TypeError for what is not one."""
    if d is None or isinstance(d, dtypes.dtype):
        return d
    if d is float:
        return dtypes.get_default_dtype()
    if d is int:
        return dtypes.int64
    if d is bool:
        return dtypes.bool_
    raise TypeError(f"dtype must be a fusegrad dtype, not {type(d).__name__}")


def convert_lines(p: Param, first: str | None) -> str:
    """The statement that brings one static attribute into canonical form."""
    n, guard = p.name, f"if {p.name} is not None: " if p.optional else ""
    ndim = "nd" if first else "0"
    plain = f"if type({n}) is not int or not 0 <= {n} < {ndim}:"  # canonical already: no call
    if p.type == "dim":
        return f"{plain}\n    {guard}{n} = _dim({n}, {ndim})"
    if p.type == "dim+1":
        return f"if type({n}) is not int or not 0 <= {n} <= {ndim}:\n    {guard}{n} = _dim({n}, {ndim} + 1)"
    if p.type == "dims" and p.has_default and p.default == ():  # all dimensions, and canonical
        return f"if {n} is not D_{n}: {n} = ({n},) if type({n}) is int and 0 <= {n} < {ndim} else _dims({n}, {ndim})"
    if p.type == "dims":
        return f"{guard}{n} = ({n},) if type({n}) is int and 0 <= {n} < {ndim} else _dims({n}, {ndim})"
    if p.type == "ints":
        made = f"{n} = _ints({n}, {n!r})"
        inner = f"    for v in {n}:\n        if type(v) is not int:\n            {made}\n            break"
        return f"if type({n}) is tuple:\n{inner}\nelse: {guard}{made}" if not guard else f"{guard}{made}"
    if p.type == "dtype":
        return f"if {n} is not None: {n} = _dtype({n})"
    return ""


def shape_lines(p: Param, fn: str) -> list[str]:
    """The statements that make one shape of varargs ``_name``, or of ``name`` given by keyword."""
    n = p.name
    made = f"{n} = _shape(_{n}, {n}, {n!r}, {fn!r})"
    return [
        f"if {n} is not None: {made}",
        f"elif _{n}:",
        f"    for v in _{n}:",
        "        if type(v) is not int:",
        f"            {made}",
        "            break",
        f"    else: {n} = _{n}",
        *([] if p.optional else [f"else: {n} = ()"]),
    ]


def ndim_line(op: Op) -> str:
    """The statement that finds the number of dimensions for ``convert_lines``; "" if nothing there asks for it."""
    sig = op.sig
    if not sig.tensors or not any(p.type in ("dim", "dim+1", "dims") for p in sig.attrs):
        return ""
    x = sig.tensors[0].name
    plain = f"(type({x}) is Tensor or type({x}) in FAST) and {x}._data is not None"
    line = f"nd = {x}._data.ndim if {plain} else _ndim({x})"
    asking = [p for p in sig.attrs if p.type in ("dim", "dim+1", "dims")]
    if all(p.type == "dims" and p.has_default and p.default in (None, ()) for p in asking):
        given = " or ".join(f"{p.name} is not D_{p.name}" for p in asking)
        return f"if {given}: {line}"
    return line


def ndim_of(t: Any) -> int:
    if isinstance(t, Tensor):
        return t.ndim
    if isinstance(t, (tuple, list)) and t and isinstance(t[0], Tensor):
        return t[0].ndim
    return 0
