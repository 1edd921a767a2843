"""Values and derivatives at zeros, infinities, NaNs, ties and large numbers are PyTorch's (see edges.py)."""

import json
import math

import edges
import pytest

import fusegrad
from fusegrad.nn import functional

WANT = json.loads(edges.DATA.read_text())
VALUE, FIRST, SECOND = "value", "first", "second"

# Where they differ, and why.
DIFFERENT = {
    "torch.i0(x)": (VALUE, "infinite at infinity; NaN in PyTorch"),
    "torch.special.i1(x)": (VALUE, "infinite at infinity; NaN in PyTorch"),
    "torch.special.i1e(x)": (FIRST, "PyTorch takes the derivative at a NaN for the one at 0"),
    "torch.special.entr(x)": (SECOND, "PyTorch continues 1 / x below 0, where the function is constant"),
    "torch.special.erfcx(x)": (FIRST, "its limit at infinity is 0; NaN in PyTorch"),
    "torch.special.ndtr(x)": (VALUE, "PyTorch's is 0 where it could be told from 0"),
    "torch.special.log_ndtr(x)": (FIRST, "infinite at -inf; NaN in PyTorch"),
    "F.gelu(x, approximate='tanh')": (FIRST, "its limits at infinity are 1 and 0; NaN in PyTorch"),
    "torch.lgamma(x)": (SECOND, "at -inf"),
    "torch.digamma(x)": (FIRST, "the trigamma function at -inf; NaN in PyTorch"),
    "torch.polygamma(0, x)": (FIRST, "as digamma"),
    "torch.polygamma(1, x)": (VALUE, "its limits at infinity are 0; NaN in PyTorch"),
    "torch.polygamma(2, x)": (VALUE, "its limits at infinity are 0; NaN in PyTorch"),
    "torch.sinc(x)": (SECOND, "digits that cancel"),
    "torch.sigmoid(x)": (FIRST, "1 - sigmoid(x) is 0 or a few digits of rounding"),
    "F.softsign(x)": (FIRST, "0 at infinity; NaN in PyTorch"),
    "F.mish(x)": (SECOND, "0 at infinity; NaN in PyTorch"),
    "F.silu(x)": (SECOND, "digits that cancel"),
    "F.logsigmoid(x)": (SECOND, "digits that cancel"),
    "F.softplus(x)": (SECOND, "digits that cancel"),
    "F.triplet_margin_loss(x[None], x[None] * 1, x[None] * 2)": (SECOND, "rounding"),
    "torch.pow(x, 0.5)": (SECOND, "at -inf"),
    "torch.pow(0.0, x)": (SECOND, "0, the function being constant; NaN in PyTorch"),
    "torch.pow(0, x)": (SECOND, "0, the function being constant; NaN in PyTorch"),
    "torch.where(x != 0, torch.sin(x) / x, torch.ones_like(x))": (SECOND, "digits that cancel"),
    "torch.pow(x, y)": (SECOND, "finite where the base is 0; NaN in PyTorch"),
    "torch.logaddexp(x, y)": (SECOND, "0 far from the diagonal; NaN in PyTorch"),
    "torch.logaddexp2(x, y)": (SECOND, "0 far from the diagonal; NaN in PyTorch"),
    "torch.prod(x)": (FIRST, "products of the others; PyTorch divides, which is NaN at infinity"),
    "torch.prod(x, 0)": (FIRST, "products of the others; PyTorch divides, which is NaN at infinity"),
    "torch.cumprod(x, 0)": (FIRST, "products of the others; PyTorch divides, which is NaN at infinity"),
    "torch.trapezoid(x)": (VALUE, "sums of neighbours; PyTorch subtracts the ends, which is NaN at infinity"),
    "torch.logsumexp(torch.cat([x, y]), 0)": (FIRST, "0 of elements that are -inf; NaN in PyTorch"),
    "torch.logsumexp(x, 0)": (FIRST, "0 of elements that are -inf; NaN in PyTorch"),
    "torch.logcumsumexp(x, 0)": (FIRST, "0 of elements that are -inf; NaN in PyTorch"),
    "torch.renorm(x[None], 2, 0, 1.0)": (FIRST, "NaN where the norm is"),
    "torch.det(torch.diag(x))": (FIRST, "NaN beside an infinity"),
}


def same(a: str, b: str) -> bool:
    """Whether two lists of numbers agree; no gradient counts as zeros."""
    if "!" in a + b:
        return a == b
    xs, ys = ([] if t == "None" else [float(v) for v in t.split()] for t in (a, b))
    if not xs or not ys:
        return not any(xs) and not any(ys)
    return len(xs) == len(ys) and all(
        math.isnan(x) and math.isnan(y) or x == y or abs(x - y) <= max(2e-3 * abs(y), 1e-12)
        for x, y in zip(xs, ys, strict=True)
    )


def differs(got: list[str], want: list[str], leaves: int) -> str | None:
    """The first part that differs."""
    for name, a, b in zip(
        [VALUE, *[FIRST] * leaves, *[SECOND] * leaves], _padded(got, leaves), _padded(want, leaves), strict=False
    ):
        if not same(a, b):
            return name
    return None


def _padded(entry: list[str], leaves: int) -> list[str]:
    if len(entry) == 1 and entry[0].startswith("!"):
        return entry
    return entry + ["None"] * (1 + 2 * leaves - len(entry))


@pytest.mark.parametrize("expression", WANT)
def test_edges(expression):
    points = edges.points(expression)
    leaves = len(points[0])
    exempt = DIFFERENT.get(expression, (None,))[0]
    order = [VALUE, FIRST, SECOND]
    for point, want in zip(points, WANT[expression], strict=True):
        got = edges.one(fusegrad, functional, expression, point)
        if len(want) == 1 + leaves:  # PyTorch has no second derivative, or a constant one
            got = got[: 1 + leaves]
        what = differs(got, want, leaves)
        if what is not None and (exempt is None or order.index(what) < order.index(exempt)):
            raise AssertionError(f"{what} at {point}: {got}, in PyTorch {want}")
