"""Floats that change between calls, where a call depends on their values."""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

from fusegrad.deferred import force
from fusegrad.dtypes import finfo
from fusegrad.op import TABLE, parse_signature
from fusegrad.tensor import Tensor

from .values import SymFloat

_PROMOTING = set(
    """add sub subtract rsub mul multiply div divide true_divide floor_divide pow float_power remainder fmod
    eq ne lt le gt ge not_equal less less_equal greater greater_equal where maximum minimum fmax fmin atan2 arctan2
    hypot copysign xlogy""".split()
)  # of integers and a float they make floats


def into_integers(name: str, args: list, kwargs: dict) -> bool:
    """Whether a call may write a float into a tensor of integers, which depends on its value: it may not fit."""
    kind = kwargs.get("dtype")
    if kind is None:
        if name.rstrip("_") in _PROMOTING and "alpha" not in kwargs:
            return False
        kind = next((v.dtype for v in args if issubclass(type(v), Tensor)), None)
    return kind is not None and not getattr(kind, "is_floating_point", True)


def fixed_float(v: Any) -> Any:
    """The value of a changing float, guarded."""
    return v.fixed() if type(v) is SymFloat else v


_FILLED = {
    "tensor": 0,
    "as_tensor": 0,
    "asarray": 0,
    "scalar_tensor": 0,
    "full": 1,
    "new_tensor": 1,
}  # where they take the number
_OPTIONS = {"dtype", "requires_grad", "device"}


def filled_with(ev: Any, name: str, args: list, kwargs: dict) -> Any:
    """``tensor(a)``, ``full(size, a)`` of a changing float: a tensor of one value, rounded to its dtype from there on.

    None if the call is another one.
    """
    import fusegrad

    place = _FILLED.get(name)
    if place is None or len(args) != place + 1 or type(args[place]) is not SymFloat or not _OPTIONS.issuperset(kwargs):
        return None
    value, kind = args[place], kwargs.get("dtype")
    if kind is None and name == "new_tensor":
        kind = kwargs["dtype"] = args[0].dtype
    elif kind is None and type(value.hint) is not float and name not in ("full", "scalar_tensor"):
        kind = kwargs["dtype"] = fusegrad.float64  # numpy's own
    dtype = fusegrad.get_default_dtype() if kind is None else kind
    if not -3e38 < value.hint < 3e38 or getattr(dtype, "itemsize", 0) < 4:
        return None
    if name in ("full", "scalar_tensor"):  # what is too large for the dtype is refused
        ev.cap.float_guard(f"-3e38 < {value.code} < 3e38", value.srcs)
    words = {k: v for k, v in kwargs.items() if k != "requires_grad"}
    one = ev.library(fusegrad.ones, [args[0] if name == "full" else ()], words)
    out = ev.library(fusegrad.mul, [one, value], {})
    if kwargs.get("requires_grad"):
        out = ev.library(fusegrad.Tensor.requires_grad_, [out], {})
    return out


FILLS = frozenset(  # a number too large for the dtype is refused
    {"where", "masked_fill", "masked_fill_", "fill_", "addcmul", "addcmul_", "addcdiv", "addcdiv_"}
)

_POWERS = {"pow", "pow_", "__pow__", "__ipow__", "float_power"}


def fixed_exponent(name: str, args: list) -> list:
    """The operands of a power. Exponents for which a root is taken are fixed: it treats -inf and -0.0 otherwise."""
    if name not in _POWERS or len(args) != 2 or type(args[1]) is not SymFloat:
        return args
    special = any(args[1] == root for root in (0.5, -0.5, 1.5))  # 1.5: its derivative is a root
    return [args[0], float(args[1])] if special else args


@functools.lru_cache(4096)
def _tensors_alone(fn: Any) -> frozenset:
    """Positions and names of the parameters of a library function that take tensors and no numbers."""
    op, types = getattr(fn, "op", None), getattr(fn, "types", "")
    if op is None and not types:
        op = TABLE.get(fn.__name__[:-1]) if fn.__name__.endswith("_") else None
    if op is None and not types:
        return frozenset()
    kinds = {p.name: p.type for p in (parse_signature(types) if op is None else op.sig).params}
    names = list(kinds if op is not None else inspect.signature(force(fn.__wrapped__)).parameters)
    strict = {n for n, kind in kinds.items() if kind in ("T", "T[]")}
    return frozenset({k for k, n in enumerate(names) if n in strict} | strict)


def operands(ev: Any, fn: Any, args: list, kwargs: dict) -> tuple[list, dict]:
    """Arguments of a library function, changing floats as tensors. Where a tensor is asked for they stay numbers: the
    function refuses them, as it does in eager code."""
    strict = _tensors_alone(fn) if type(fn) is types.FunctionType else ()

    def operand(key: Any, v: Any) -> Any:
        if key not in strict:
            return ev.native(v)
        if type(v) in (list, tuple):
            return type(v)(x if type(x) is SymFloat else ev.native(x) for x in v)
        return v if type(v) is SymFloat else ev.native(v)

    return [operand(k, v) for k, v in enumerate(args)], {n: operand(n, v) for n, v in kwargs.items()}


OTHER_FOR_TENSORS = {"normal", "scatter", "scatter_"}  # functions that do something else where they are given tensors


def fits(args: list, kwargs: dict) -> bool:
    """Whether the changing floats among the arguments are numbers of the dtype they are written into; guarded."""
    values = [*args, *kwargs.values()]
    kinds = [v.dtype for v in values if issubclass(type(v), Tensor) and v.dtype.is_floating_point]
    limit = finfo(kinds[0]).max if kinds else None
    return limit is None or all(abs(v) <= limit for v in values if type(v) is SymFloat)
