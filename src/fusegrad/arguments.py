"""What a parameter takes, by its type in a signature, and the error for anything else.

Signatures (``op.Param``) say the types; the generated functions (``callgen``, ``public``) test for the usual Python
type in their own text and call the converters below for the rest. The rules are PyTorch's: an int parameter takes ints,
numpy's integers and integer tensors of one element, but no bool; a bool parameter nothing but bools; a number also a
tensor without dimensions that needs no gradient. The wording of the errors stands in ``wrong_type`` alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes
from .meta import normalize_dim, normalize_dims
from .size_values import SymbolicNumber, SymbolicSize
from .tensor import Tensor

Where = tuple[str, str, int]
"""(function, parameter, position) of an argument: position counts from 1; 0 leaves it out."""

WORDS = {
    "T": "Tensor",
    "Tn": "Tensor or number",
    "T[]": "tuple of Tensors",
    "int": "int",
    "dim": "int",
    "dim+1": "int",
    "float": "float",
    "num": "Number",
    "bool": "bool",
    "str": "str",
    "dtype": "fusegrad dtype",
    "dims": "tuple of ints",
    "ints": "tuple of ints",
    "shape": "tuple of ints",
}
NUMBERS = (bool, int, float, np.number, np.bool_, SymbolicSize, SymbolicNumber)


def wrong_type(where: Where, want: str, value: Any) -> TypeError:
    """The error for an argument of the wrong type, worded as PyTorch words it."""
    name, param, position = where
    at = f" (position {position})" if position else ""
    text = f"{name}(): argument '{param}'{at} must be {WORDS.get(want, want)}, not {type(value).__name__}"
    if hasattr(type(value), "__torch_function__") and not hasattr(value, "grad_fn"):  # no class derived from Tensor
        text += ". Import fusegrad.overrides first: then functions ask its __torch_function__"
    return TypeError(text)


def as_tensor(value: Any, where: Where) -> Any:
    """A tensor."""
    if isinstance(value, Tensor):
        return value
    raise wrong_type(where, "T", value)


def as_operand(value: Any, where: Where) -> Any:
    """A tensor or a number."""
    if isinstance(value, Tensor) or isinstance(value, NUMBERS):
        return value
    raise wrong_type(where, "Tn", value)


def as_tensors(value: Any, where: Where) -> Any:
    """A list or tuple of tensors."""
    if not isinstance(value, (list, tuple)):
        raise wrong_type(where, "T[]", value)
    for i, t in enumerate(value):
        if not isinstance(t, Tensor):
            name, param, _ = where
            kind = type(t).__name__
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument '{param}', but got {kind}")
    return value


def as_int(value: Any, where: Where) -> Any:
    """An int. A bool or a float isn't one; an integer tensor of one element is."""
    if isinstance(value, int):
        if not isinstance(value, bool):
            return int(value)
    elif isinstance(value, SymbolicSize):
        return value
    elif isinstance(value, Tensor):
        if value.dtype.category == dtypes.INT and value.numel() == 1:
            return value.item()
    elif (
        isinstance(value, np.integer) or isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iu"
    ):
        return value.__index__()
    elif hasattr(value, "__index__") and not isinstance(value, (np.generic, np.ndarray)):
        return value.__index__()
    raise wrong_type(where, "int", value)


def _number(value: Any, where: Where, want: str) -> Any:
    if isinstance(value, (SymbolicSize, SymbolicNumber)):
        return value
    if isinstance(value, (bool, int, float)):
        return value if isinstance(value, bool) else int(value) if isinstance(value, int) else float(value)
    if isinstance(value, (np.number, np.bool_)) and not isinstance(value, np.complexfloating):
        return value.item()
    if isinstance(value, Tensor) and value.ndim == 0 and not value.requires_grad:
        return value.item()
    if want == "num" and isinstance(value, (complex, np.complexfloating)):
        name, param, _ = where
        raise RuntimeError(f"{name}(): argument '{param}' is a complex number; fusegrad computes with real numbers")
    raise wrong_type(where, want, value)


def as_float(value: Any, where: Where) -> Any:
    """A float, or what stands for one: another number, a tensor without dimensions that needs no gradient."""
    return _number(value, where, "float")


def as_number(value: Any, where: Where) -> Any:
    """A number, as ``as_float``."""
    return _number(value, where, "num")


def as_bool(value: Any, where: Where) -> bool:
    """True or False, and nothing that is merely true or false."""
    if value is True or value is False:
        return value
    raise wrong_type(where, "bool", value)


def as_str(value: Any, where: Where) -> Any:
    """A string."""
    if isinstance(value, str):
        return value
    raise wrong_type(where, "str", value)


def all_ints(values: tuple) -> bool:
    """Whether all are plain ints."""
    for v in values:  # noqa: SIM110  (faster than all())
        if type(v) is not int:
            return False
    return True


def as_ints(value: Any, where: Where) -> tuple:
    """An int or a sequence of ints as a tuple."""
    if type(value) is tuple and all_ints(value):
        return value
    if isinstance(value, (tuple, list)):
        return tuple([v if type(v) is int else _element(v, where) for v in value])
    try:
        return (as_int(value, where),)
    except TypeError:
        raise wrong_type(where, "ints", value) from None


def _element(v: Any, where: Where) -> Any:
    if type(v) is int or isinstance(v, SymbolicSize):
        return v
    try:
        return as_int(v, where)
    except TypeError:
        name, param, _ = where
        raise TypeError(
            f"{name}(): argument '{param}' must be tuple of ints, but found element of type {type(v).__name__}"
        ) from None


def as_dim(dim: Any, ndim: int, where: Where) -> int:
    """A dimension counted from the front. IndexError when it is out of range."""
    if type(dim) is not int:
        dim = as_int(dim, where).__index__()
    n = ndim or 1
    if -n <= dim < n:
        return dim + n if dim < 0 else dim
    return normalize_dim(dim, ndim)  # raises


def as_dims(dims: Any, ndim: int, where: Where) -> tuple[int, ...]:
    """Dimensions counted from the front, as a tuple. RuntimeError for one given twice."""
    return normalize_dims(as_ints(dims, where), ndim)


def as_sequence(value: Any, where: Where) -> Any:
    """An int, or a sequence of ints, as given."""
    if isinstance(value, (list, tuple)):
        return value if all_ints(value) else as_ints(value, where)  # type: ignore[arg-type]
    return as_ints(value, where)[0]


def as_shape(values: tuple, keyword: Any, where: Where) -> tuple:
    """A shape given as varargs, as one sequence, or by keyword. RuntimeError for a size below -1."""
    if keyword is not None:
        if values:
            raise TypeError(f"{where[0]}() got multiple values for argument '{where[1]}'")
        values = as_ints(keyword, where)
    elif len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = tuple(values[0])
    if not all_ints(values):
        values = tuple([_element(v, where) for v in values])
    for i, v in enumerate(values):
        if type(v) is int and v < -1:
            raise RuntimeError(f"{where[0]}(): invalid shape dimension {v} at index {i} of shape {list(values)}")
    return values


def as_varargs(values: tuple, others: Any, where: Where) -> tuple:
    """``*dims``: ints or one sequence of ints, as given; something must be given, here or by keyword (``others``)."""
    if all_ints(values):
        if values or others:
            return values
        raise TypeError(f"{where[0]}() missing 1 required positional argument: '{where[1]}'")
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return (as_ints(values[0], where),)
    return tuple([_element(v, where) for v in values])


def as_dtype(d: Any, where: Where = ("", "dtype", 0)) -> Any:
    """A dtype argument; TypeError for what is not one."""
    if d is None or isinstance(d, dtypes.dtype):
        return d
    if d is float:
        return dtypes.get_default_dtype()
    if d is int:
        return dtypes.int64
    if d is bool:
        return dtypes.bool_
    if not where[0]:
        raise TypeError(f"dtype must be a fusegrad dtype, not {type(d).__name__}")
    raise wrong_type(where, "dtype", d)


_INT = "type({n}) is not int"
_FLOAT = "type({n}) is not float and type({n}) is not int"
CHECKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "T": ("type({n}) not in FAST", as_tensor),
    "Tn": ("type({n}) not in FAST and type({n}) is not float and type({n}) is not int", as_operand),
    "T[]": ("", as_tensors),
    "int": (_INT, as_int),
    "dim": (_INT, as_int),
    "dim+1": (_INT, as_int),
    "float": (_FLOAT, as_float),
    "num": (_FLOAT, as_number),
    "bool": ("{n} is not False and {n} is not True", as_bool),
    "str": ("type({n}) is not str", as_str),
    "dtype": ("type({n}) is not DTYPE", as_dtype),
    "dims": (_INT, as_sequence),
    "ints": (_INT, as_sequence),
}
"""For each type: when the generated text calls the converter, in terms of the argument ``n``; and the converter."""


def check_line(
    name: str, kind: str, where: Where, env: dict[str, Any], *, optional: bool = False, default: str = ""
) -> str:
    """The statement that converts argument ``name``, or refuses it; ``env`` gets what it names. "" if all is taken.

    ``default``: the text of its default, which is passed on as it is.
    """
    if kind not in CHECKS:
        return ""
    test, convert = CHECKS[kind]
    tests = [f"{name} is not {default}"] if default else []
    if optional:
        tests.append(f"{name} is not None")
    tests += [test.format(n=name)] if test else []
    env[f"W_{name}"], env[convert.__name__] = where, convert
    env["DTYPE"] = dtypes.dtype
    call = f"{convert.__name__}({name}, W_{name})"
    change = f"{name} = {call}" if kind not in ("T", "Tn", "T[]", "bool", "str") else call
    return f"if {' and '.join(tests)}: {change}" if tests else change


def contained(t: Any, value: Any) -> bool:
    """``value in t``."""
    if not isinstance(value, (Tensor, int, float, np.number, np.bool_)):
        kind = type(value).__name__
        raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {kind}.")
    return bool((t == value).any())
