"""Floats that change between calls, where a call depends on their values."""

from __future__ import annotations

from typing import Any

from fusegrad.dtypes import finfo
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
    return float(v) if type(v) is SymFloat else v


_FILLED = {"tensor": 0, "as_tensor": 0, "asarray": 0, "scalar_tensor": 0, "full": 1}  # where they take the number
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
    dtype = fusegrad.get_default_dtype() if kind is None else kind
    if not -3e38 < value.hint < 3e38 or getattr(dtype, "itemsize", 0) < 4:
        return None
    if name in ("full", "scalar_tensor"):  # what is too large for the dtype is refused
        ev.cap.float_guard(f"-3e38 < {value.code} < 3e38", value.srcs)
    words = {k: v for k, v in kwargs.items() if k != "requires_grad"}
    one = ev.library(fusegrad.ones, [() if place == 0 else args[0]], words)
    out = ev.library(fusegrad.mul, [one, value], {})
    if kwargs.get("requires_grad"):
        out = ev.library(fusegrad.Tensor.requires_grad_, [out], {})
    return out


FILLS = frozenset(  # a number too large for the dtype is refused
    {"where", "masked_fill", "masked_fill_", "fill_", "addcmul", "addcmul_", "addcdiv", "addcdiv_"}
)


def fits(args: list, kwargs: dict) -> bool:
    """Whether the changing floats among the arguments are numbers of the dtype they are written into; guarded."""
    values = [*args, *kwargs.values()]
    kinds = [v.dtype for v in values if issubclass(type(v), Tensor) and v.dtype.is_floating_point]
    limit = finfo(kinds[0]).max if kinds else None
    return limit is None or all(abs(v) <= limit for v in values if type(v) is SymFloat)
