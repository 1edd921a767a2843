"""`assert_close`: tensors, numbers, arrays and containers of them compared within the tolerances of their dtype."""

from __future__ import annotations

import cmath
import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import fusegrad

from . import dtypes
from .tensor import Tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

# (relative, absolute) by dtype, PyTorch's documented defaults; other dtypes must be equal.
_TOLERANCES = {dtypes.float16: (1e-3, 1e-5), dtypes.float32: (1.3e-6, 1e-5), dtypes.float64: (1e-7, 1e-7)}


class _Check:
    """One call's settings; the methods raise AssertionError, with the place of a difference inside of containers."""

    def __init__(self, rtol: float | None, atol: float | None, nan: bool, dtype: bool, stride: bool, msg: Any):
        if (rtol is None) != (atol is None):
            given = "rtol" if atol is None else "atol"
            raise ValueError(f"give both 'rtol' and 'atol', or neither: only {given} was given")
        self.given = None if rtol is None or atol is None else (rtol, atol)
        self.nan, self.dtype, self.stride, self.msg = nan, dtype, stride, msg

    def fail(self, text: str, where: str) -> None:
        text += f"\n\nThe failure occurred for item {where}" if where else ""
        raise AssertionError(self.msg(text) if callable(self.msg) else self.msg or text)

    def value(self, got: Any, want: Any, where: str = "") -> None:
        if isinstance(got, Mapping) and isinstance(want, Mapping):
            if got.keys() != want.keys():
                missing, extra = [k for k in want if k not in got], [k for k in got if k not in want]
                self.fail(f"The keys of the mappings do not match: missing {missing}, additional {extra}", where)
            for k in want:
                self.value(got[k], want[k], f"{where}[{k!r}]")
        elif _is_sequence(got) and _is_sequence(want):
            if len(got) != len(want):
                self.fail(f"The length of the sequences mismatch: {len(got)} != {len(want)}", where)
            for k, (a, b) in enumerate(zip(got, want, strict=True)):
                self.value(a, b, f"{where}[{k}]")
        elif isinstance(got, Tensor) and isinstance(want, Tensor):
            self.tensor(got, want, where)
        elif isinstance(got, np.ndarray) and isinstance(want, np.ndarray):
            self.tensor(_tensor(got), _tensor(want), where)
        elif got is None and want is None:
            return
        elif _is_number(got) and _is_number(want):
            self.number(got, want, where)
        else:
            raise TypeError(f"assert_close: no way to compare {type(got)} with {type(want)}")

    def number(self, got: Any, want: Any, where: str) -> None:
        if isinstance(got, bool) or isinstance(want, bool):
            if got is not want:
                self.fail(f"Booleans mismatch: {got} is not {want}", where)
            return
        if self.dtype and type(got) is not type(want):
            self.fail(f"The (d)types do not match: {type(got)} != {type(want)}.", where)
        rtol, atol = self.given or ((0, 0) if isinstance(got, int) and isinstance(want, int) else (1e-7, 1e-7))
        both_nan = self.nan and cmath.isnan(got) and cmath.isnan(want)
        if got == want or both_nan or (cmath.isfinite(got) and abs(got - want) <= atol + rtol * abs(want)):
            return
        self.fail(
            f"Scalars are not {'close' if rtol or atol else 'equal'}!\n\nExpected {want} but got {got}.\n"
            f"Absolute difference: {abs(got - want)} (up to {atol} allowed)",
            where,
        )

    def tensor(self, got: Tensor, want: Tensor, where: str) -> None:
        self.attribute("shape", tuple(got.shape), tuple(want.shape), where)
        if self.dtype:
            self.attribute("dtype", got.dtype, want.dtype, where)
        if self.stride:
            self.attribute("stride()", got.stride(), want.stride(), where)
        a, b = got.detach().numpy(), want.detach().numpy()
        kinds = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (got, want)]
        rtol, atol = self.given or (max(k[0] for k in kinds), max(k[1] for k in kinds))
        if rtol or atol or a.dtype != b.dtype:
            a, b = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            apart = np.abs(np.subtract(a, b, dtype=np.float64))
            near = a == b
            if rtol or atol:
                near |= np.isfinite(a) & (apart <= atol + rtol * np.abs(b))
            if self.nan:
                near |= (a != a) & (b != b)
            relative = apart / np.abs(b.astype(np.float64))
        if near.all():
            return
        lines = [f"Tensor-likes are not {'close' if rtol or atol else 'equal'}!", ""]
        count, at = int((~near).sum()), _place(apart, near)
        lines.append(f"Mismatched elements: {count} / {near.size} ({100 * count / near.size:.1f}%)")
        lines.append(f"Greatest absolute difference: {apart[at]} at index {at} (up to {atol} allowed)")
        at = _place(relative, near)
        lines.append(f"Greatest relative difference: {relative[at]} at index {at} (up to {rtol} allowed)")
        self.fail("\n".join(lines), where)

    def attribute(self, name: str, got: Any, want: Any, where: str) -> None:
        if got != want:
            self.fail(f"The values for attribute '{name}' do not match: {got} != {want}.", where)


def _place(distance: np.ndarray, near: np.ndarray) -> tuple[int, ...]:
    """Index of the largest distance among the elements that differ."""
    worst = np.argmax(np.where(near, -1.0, np.nan_to_num(distance, nan=np.inf)))
    return tuple(int(k) for k in np.unravel_index(worst, near.shape))


def _tensor(a: np.ndarray) -> Tensor:
    from . import tensor

    return tensor(a)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, (str, bytes))


def _is_number(x: Any) -> bool:
    return isinstance(x, (numbers.Number, np.number, np.bool_))


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless ``actual`` is near ``expected``: |actual - expected| <= atol + rtol * |expected|.

    Tensors, arrays, numbers, None, and sequences and mappings of them. Without tolerances: float16 1e-3 and 1e-5,
    float32 1.3e-6 and 1e-5, float64 and numbers 1e-7 and 1e-7, all else exactly. Shapes and dtypes must agree (dtypes
    unless check_dtype is False). msg: the text of the error, or a function of the text it would have.
    allow_subclasses, check_device and check_layout have no effect: there is one device and one layout.
    """
    _Check(rtol, atol, equal_nan, check_dtype, check_stride, msg).value(actual, expected)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The older form of `assert_close`: any dtypes, NaN equal to NaN. It warns."""
    warnings.warn(
        "`fusegrad.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. "
        "Please use `fusegrad.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, Tensor):
        actual = fusegrad.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = fusegrad.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        pair = [_TOLERANCES.get(t.dtype, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = max(p[0] for p in pair), max(p[1] for p in pair)
    settings: dict[str, Any] = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_dtype": False,
        "check_stride": False,
    }
    assert_close(actual, expected, msg=msg or None, **settings)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: Any = None,
    high: Any = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Random numbers of a dtype in [low, high): by default [-9, 9), [0, 10) for uint8, {0, 1} for bool.

    ValueError for bounds that are no interval.
    """
    size = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive")
    whole = not dtype.is_floating_point
    default = (0, 2) if dtype is dtypes.bool_ else (0, 10) if dtype is dtypes.uint8 else (-9, 10) if whole else (-9, 9)
    low, high = default[0] if low is None else low, default[1] if high is None else high
    if not low < high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    wide = (*size[:-1], 2 * size[-1]) if noncontiguous and size else size
    if whole:
        made = fusegrad.randint(math.ceil(low), math.ceil(high), wide, dtype=dtypes.int64).to(dtype)
    else:
        made = fusegrad.empty(wide, dtype=dtype).uniform_(low, high)
    if noncontiguous and size:
        made = made[..., ::2]
    if exclude_zero:
        made[made == 0] = 1 if whole else dtypes.finfo(dtype).tiny
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_(requires_grad)
