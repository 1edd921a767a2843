"""erfinv and the quantile of the normal distribution: polynomials in w = -log(1 - x^2), or in its root (the form of M.
Giles, "Approximating the erfinv function", 2011); float32 goes through float64 with shorter ones.
"""

from __future__ import annotations

from ..scalar import Expr, b
from .coefficients import (
    ERFINV_14,
    ERFINV_24,
    ERFINV_FAR_18,
    ERFINV_MID_10,
    ERFINV_MID_20,
    NDTRI_END_18,
    NDTRI_FAR_12,
    NDTRI_FAR_20,
)
from .gamma import cut
from .helpers import INF, const, copysign, poly
from .logarithm import log

_ROOT_2 = 2**0.5


def _ratio(w: Expr, root: Expr, short: bool) -> Expr:
    """erfinv(x) / x for w up to 37 (16.8 if short)."""
    near = poly(b.sub(w, 25 / 8), ERFINV_14 if short else ERFINV_24)
    if short:
        return b.where(b.gt(w, 6.25), poly(b.sub(root, 13 / 4), ERFINV_MID_10), near)
    beyond = poly(b.sub(root, 13 / 4), ERFINV_MID_20)
    out = b.branch(b.gt(w, 6.25), beyond, near)
    return b.branch(b.gt(w, 16.0), poly(b.sub(root, 5.0), ERFINV_FAR_18), out)


def _erfinv(x: Expr, short: bool) -> Expr:
    w = b.neg(log(b.mul(b.sub(1.0, x), b.add(x, 1.0))))
    out = b.mul(x, _ratio(w, b.sqrt(w), short))
    return b.where(b.eq(b.abs(x), 1.0), copysign(const(INF, x), x), out)


def _ndtri(p: Expr, short: bool) -> Expr:
    low = b.le(p, 0.5)
    q = b.where(low, p, b.sub(1.0, p))
    w = b.neg(log(b.mul(b.mul(q, 4.0), b.sub(1.0, q))))
    root = b.sqrt(w)
    z = b.mul(b.sub(1.0, b.add(q, q)), _ratio(w, root, short))
    if short:
        z = b.branch(b.gt(root, 4.0), poly(b.sub(root, 7.0), NDTRI_FAR_12), z)
    else:
        end = b.where(b.gt(root, 14.0), poly(b.sub(root, 83 / 4), NDTRI_END_18), poly(b.sub(root, 10.0), NDTRI_FAR_20))
        z = b.branch(b.gt(root, 6.0), end, z)
    z = b.where(b.eq(q, 0.0), const(INF, p), b.mul(z, _ROOT_2))
    return b.where(low, b.sub(0.0, z), z)


RULES = {"erfinv": cut(_erfinv), "ndtri": cut(_ndtri)}
