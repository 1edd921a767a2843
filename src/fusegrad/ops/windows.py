"""Windows for spectral analysis: sums of cosines."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes as dt
from ..op import function
from ..tensor import Tensor
from .create import _kind, check_place, finish, ones
from .create_ranges import arange_op


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


@function("hann_window(window_length: int, periodic: bool, dtype: dtype, requires_grad: bool?)", method=False)
def hann_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """1/2 - 1/2 cos(2 pi i / N); N = window_length, or one less if not periodic."""
    check_place(device, layout)
    return finish(_window("hann_window", window_length, periodic, dtype, (0.5, -0.5)), requires_grad)


@function(
    "hamming_window(window_length: int, periodic: bool, alpha: float, beta: float, dtype: dtype, requires_grad: bool?)",
    method=False,
)
def hamming_window(
    window_length,
    periodic=True,
    alpha=0.54,
    beta=0.46,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """alpha - beta cos(2 pi i / N); N = window_length, or one less if not periodic."""
    check_place(device, layout)
    return finish(_window("hamming_window", window_length, periodic, dtype, (alpha, -beta)), requires_grad)


@function("blackman_window(window_length: int, periodic: bool, dtype: dtype, requires_grad: bool?)", method=False)
def blackman_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """0.42 - 0.5 cos(2 pi i / N) + 0.08 cos(4 pi i / N)."""
    check_place(device, layout)
    return finish(_window("blackman_window", window_length, periodic, dtype, (0.42, -0.5, 0.08)), requires_grad)
