"""Floats that change between calls, where a call depends on their values."""

from __future__ import annotations

from typing import Any

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
