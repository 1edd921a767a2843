"""Derivatives of elementwise operators on arrays: one native pass instead of one operator after the other.

The vjp rules in the table say what a derivative is, in operators: that is what is recorded, compiled and differentiated
again.  Where none of this is wanted (a plain backward pass), a rule may ask for one of the kernels here.
"""

from __future__ import annotations

import math
from typing import Any

from ..tensor import wrap
from ._native import plain_arrays, pointwise, same_shape, scalar_kernel

__all__ = ["GELU", "SIGMOID", "SILU", "TANH", "TANH_GELU", "array_grad", "plain_grad"]

_GELU_A, _GELU_B = math.sqrt(2 / math.pi), 0.044715


def plain_grad(kernels: Any, g: Any, saved: Any) -> Any:
    """The derivative by a kernel of (cotangent, saved tensor), both of one shape; None if the rule must do it."""
    arrays = plain_arrays(g, saved)
    if not same_shape(arrays):
        return None
    found = pointwise(kernels, *arrays)  # type: ignore[misc]
    return None if found is None else wrap(found)


def array_grad(kernels: Any, g: Any, saved: Any) -> tuple | None:
    """The same for arrays, as ``on_arrays`` of an entry gives it."""
    if g.shape != saved.shape or g.dtype.char not in "fd":
        return None
    found = pointwise(kernels, g, saved)
    return None if found is None else (found,)


def _gelu(b: Any, g: Any, x: Any) -> Any:
    """g * (cdf + x * pdf)"""
    from .activation import normal_cdf

    pdf = b.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
    return g * (normal_cdf.scalar(b, x) + x * pdf)


def _tanh_gelu(b: Any, g: Any, x: Any) -> Any:
    end = b.const(8.0, x.dtype)  # tanh is exactly 1 from there on; see activation.gelu
    x = b.where(b.gt(x, end), end, b.where(b.lt(x, -end), -end, x))
    th = b.tanh(_GELU_A * (x + _GELU_B * (x * x * x)))
    inner = _GELU_A * (1.0 + 3 * _GELU_B * (x * x))
    return g * (0.5 * (1.0 + th) + 0.5 * x * (1.0 - th * th) * inner)


def _silu(b: Any, g: Any, x: Any) -> Any:
    s = b.sigmoid(x)
    return g * (s * (1.0 + x * (1.0 - s)))


GELU = scalar_kernel("gelu_grad", _gelu, "g x")
TANH_GELU = scalar_kernel("tanh_gelu_grad", _tanh_gelu, "g x")
SILU = scalar_kernel("silu_grad", _silu, "g x")
SIGMOID = scalar_kernel("sigmoid_grad", lambda b, g, out: g * ((1.0 - out) * out), "g out")
TANH = scalar_kernel("tanh_grad", lambda b, g, out: g * (1.0 - out * out), "g out")
