"""The Hurwitz zeta function, by Euler-Maclaurin summation (K. Knopp, "Theory and Application of Infinite Series")."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import Sample, op
from ._data import t
from .special_kernels import _EULER

_DIRECT = 30  # terms that are summed one by one before the rest is estimated


def _kernel(s: Any, q: Any) -> np.ndarray:
    kind = np.result_type(s, q) if isinstance(s, np.ndarray) and isinstance(q, np.ndarray) else None
    kind = kind or (s if isinstance(s, np.ndarray) else q).dtype
    out = np.empty_like(s + q, kind)  # its axes in the order of the operands'
    s, q = np.broadcast_arrays(np.asarray(s, np.float64), np.asarray(q, np.float64))
    pole = (q <= 0) & (q == np.floor(q))
    wrong = (s < 1) | (q < 0) & (s != np.floor(s)) & ~pole | np.isnan(s) | np.isnan(q)
    plain = ~(pole | wrong | (s == 1) | np.isinf(q))
    x, a = np.where(plain, s, 2.0), np.where(plain, q, 1.0)
    total, steps = np.zeros(x.shape), _DIRECT + int(max(0.0, -a.min(initial=0.0)))
    for k in range(steps):
        total += (a + k) ** -x
    a = a + steps
    total += a ** (1 - x) / (x - 1) + 0.5 * a**-x
    factor, power = x.copy(), a ** (-x - 1)
    for j, b in enumerate(_EULER):
        total += b * factor * power
        factor *= (x + 2 * j + 1) * (x + 2 * j + 2)
        power = power / (a * a)
    total = np.where(np.isinf(q), np.nan, total)  # as PyTorch: no limit is taken
    out[...] = np.where(wrong, np.nan, np.where(pole | (s == 1), np.inf, total))
    return out


@op("special.zeta(input: Tn, other: Tn)", kind="pointwise", promote="float", method=False)
class zeta:
    """The sum of (other + k) ** -input over k = 0, 1, 2...; its derivative by ``input`` is not implemented."""

    def kernel(x: Any, q: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return _kernel(x, q)

    def vjp_input(g: Any, input: Any, other: Any) -> Any:
        raise NotImplementedError("zeta: the derivative for 'input' is not implemented: pass a detach() of it")

    def vjp_other(g: Any, input: Any, other: Any) -> Any:
        return g * (-input * zeta(input + 1, other))

    def samples() -> Any:
        yield Sample(3.0, t(3, 4, low=0.5, high=4))
        yield Sample(t(3, 4, low=1.5, high=6), t(3, 4, low=0.5, high=4), grad=False)
