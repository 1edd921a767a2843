"""Modified Bessel functions of order 0 and 1, and the scaled ones: polynomials up to 8, in 16/x beyond (the pieces of
C. W. Clenshaw, "Chebyshev Series for Mathematical Functions", 1962). float32 goes through float64 with shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..scalar import Expr, b
from .coefficients import I0_19, I0_29, I0_FAR_7, I0_FAR_25, I1_19, I1_29, I1_FAR_7, I1_FAR_25
from .exponential import exp
from .gamma import cut
from .helpers import INF, const, copysign, poly

Series = Sequence[float]


def _bessel(long: tuple[Series, Series], short: tuple[Series, Series], odd: bool, scaled: bool) -> Callable:
    def run(x: Expr, few: bool) -> Expr:
        near, far = short if few else long
        a = b.abs(x)
        large = b.gt(a, 8.0)
        small = poly(b.sub(b.mul(a, 0.25), 1.0), near)
        r = b.mul(small, a) if odd else small
        c = b.where(large, a, const(8.0, x))
        r = b.branch(large, b.div(poly(b.sub(b.div(const(16.0, x), c), 1.0), far), b.sqrt(c)), r)
        if not scaled:
            r = b.where(b.eq(a, INF), const(INF, x), b.mul(r, exp(b.where(b.gt(a, 800.0), const(800.0, x), a))))
        return copysign(r, x) if odd else r

    return cut(run)


_ZERO, _ONE = ((I0_29, I0_FAR_25), (I0_19, I0_FAR_7)), ((I1_29, I1_FAR_25), (I1_19, I1_FAR_7))
RULES = {
    "i0": _bessel(*_ZERO, False, False),
    "i0e": _bessel(*_ZERO, False, True),
    "i1": _bessel(*_ONE, True, False),
    "i1e": _bessel(*_ONE, True, True),
}
