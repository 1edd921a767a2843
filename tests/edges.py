"""Operators at the edges of their domains, beside PyTorch: what is run, and the form in which results are kept.

``python tests/edges.py torch`` (with PyTorch) writes ``edges_of_torch.json``: for each expression its values, first
derivatives and sums of second derivatives. ``test_edges.py`` compares.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
import warnings
from typing import Any

DATA = pathlib.Path(__file__).with_name("edges_of_torch.json")
inf, nan = math.inf, math.nan

POINTS = [0.0, -0.0, 1e-30, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0, -20.0, 1e5, -1e5, inf, -inf, nan]

NAMES = """abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad rad2deg digamma lgamma erf erfc erfinv exp exp2
expm1 floor frac log log10 log1p log2 logit neg positive reciprocal round rsqrt sigmoid sign sin sinc sinh sqrt square
tan tanh trunc i0 nan_to_num relu isnan isinf signbit"""
SPECIAL = "entr erfcx i0e i1 i1e log_ndtr ndtr ndtri"
NN = """relu6 elu selu celu hardswish hardsigmoid hardtanh hardshrink softshrink tanhshrink softplus softsign gelu silu
mish logsigmoid leaky_relu rrelu"""

UNARY = [
    *(f"torch.{n}(x)" for n in NAMES.split()),
    *(f"torch.special.{n}(x)" for n in SPECIAL.split()),
    *(f"F.{n}(x)" for n in NN.split()),
    *(f"torch.pow(x, {e})" for e in ("0", "1", "2", "3", "-1", "-2", "0.5", "1.5", "-0.5", "inf", "-inf", "nan")),
    *(f"torch.pow({b}, x)" for b in ("0.0", "1.0", "2.0", "-2.0", "0.5", "inf", "-inf", "nan", "0", "1")),
    *(f"torch.polygamma({n}, x)" for n in (0, 1, 2)),
    "F.gelu(x, approximate='tanh')",
    "F.elu(x, 0.0)",
    "F.celu(x, 2.0)",
    "F.softplus(x, 2.0, 5.0)",
    "F.threshold(x, 1.0, 7.0)",
    "F.leaky_relu(x, 0.0)",
    "F.hardshrink(x, 0.0)",
    "torch.clamp(x, -1.0, 1.0)",
    "torch.clamp(x, min=0.0)",
    "torch.clamp(x, nan, 1.0)",
    "torch.clamp(x, -1.0, nan)",
    "torch.clamp(x, 1.0, -1.0)",
    "torch.clamp(x, -inf, inf)",
    "torch.clamp(x, torch.full_like(x, -1.0), torch.ones_like(x))",
    "torch.clamp(x, torch.full_like(x, nan), torch.ones_like(x))",
    "torch.logit(x, 0.1)",
    "torch.nan_to_num(x, 1.0, 2.0, 3.0)",
    "torch.round(x, decimals=2)",
    "torch.xlogy(x, x)",
    "torch.special.xlog1py(x, x)",
    "torch.where(x > 0, torch.sqrt(x), x)",
    "torch.where(x != 0, torch.sin(x) / x, torch.ones_like(x))",
    "torch.maximum(x, torch.zeros_like(x))",
    "torch.minimum(x, torch.zeros_like(x))",
    "x / x",
    "x - x",
    "torch.hypot(x, torch.zeros_like(x))",
    "torch.logaddexp(x, x)",
    "torch.logaddexp2(x, x)",
    "torch.copysign(x, -torch.ones_like(x))",
    "torch.fmod(x, 0.7)",
    "torch.remainder(x, 0.7)",
    "torch.remainder(x, 0.0)",
    "torch.div(x, 0.7, rounding_mode='floor')",
    "torch.frexp(x)[0]",
]

ENDS = [0.0, 1.0, -2.5, inf, -inf, nan]
BINARY = [
    *(
        f"torch.{n}(x, y)"
        for n in "pow atan2 maximum minimum fmax fmin hypot logaddexp logaddexp2 xlogy div mul".split()
    ),
    *(f"torch.{n}(x, y)" for n in "fmod remainder copysign nextafter dist".split()),
    *(f"F.{n}(x, y)" for n in "l1_loss mse_loss huber_loss smooth_l1_loss poisson_nll_loss".split()),
    "F.binary_cross_entropy_with_logits(x, y)",
    "F.hinge_embedding_loss(x, y)",
    "F.kl_div(x, y, reduction='sum')",
    "F.kl_div(x, y, reduction='sum', log_target=True)",
    "F.prelu(x, y)",
    "F.margin_ranking_loss(x, y, torch.ones_like(x))",
    "torch.special.xlog1py(x, y)",
    "torch.div(x, y, rounding_mode='trunc')",
    "torch.lerp(x, y, 0.6)",
    "torch.lerp(x, x + 1, y)",
    "torch.clamp(x, min=y)",
    "torch.clamp(x, max=y)",
    "torch.where(x > y, x, y)",
    "torch.addcdiv(x, y, x)",
    "torch.dist(x, y, inf)",
    "torch.cat([x, y]).norm()",
    "torch.logsumexp(torch.cat([x, y]), 0)",
]

ROWS = [
    [-inf] * 3,
    [inf, 1.0, 2.0],
    [1.0, nan, 3.0],
    [nan] * 3,
    [2.0, 1.0, 2.0, 1.0],
    [0.0] * 3,
    [0.0, 2.0, 3.0],
    [3.0],
    [],
    [1.0, 3.0, -2.0, 5.0],
]
REDUCTIONS = [
    *(f"torch.{n}(x)" for n in "sum mean nansum prod max min var std median nanmedian trapezoid diff".split()),
    *(f"torch.{n}(x, 0)" for n in "logsumexp amax amin prod cumprod cumsum std logcumsumexp".split()),
    *(f"torch.{n}(x, 0)[0]" for n in "max min median nanmedian cummax cummin".split()),
    *(f"F.{n}(x, 0)" for n in "softmax log_softmax softmin".split()),
    *(f"x.norm({p})" for p in ("0", "0.5", "1", "2", "3", "inf", "-inf", "-1")),
    *(f"torch.quantile(x, 0.4, interpolation='{k}')" for k in "linear lower higher midpoint nearest".split()),
    "torch.nanquantile(x, 0.4)",
    "torch.quantile(x, torch.tensor([0.0, 0.3, 1.0], dtype=x.dtype))",
    "x.var(0, correction=0)",
    "x.std(0, correction=0)",
    "torch.renorm(x[None], 2, 0, 1.0)",
    "F.normalize(x, dim=0)",
    "F.layer_norm(x, x.shape)",
    "F.rms_norm(x, x.shape)",
    "F.group_norm(x[None], 1)",
    "torch.sort(x, stable=True)[0]",
    "torch.gradient(x)[0]",
    "torch.cumulative_trapezoid(x)",
    "(x - x.max()).exp().sum()",
    "torch.outer(x, x).amax((0, 1))",
    "torch.logsumexp(torch.outer(x, x), (0, 1))",
    "F.cosine_similarity(x, x * 0 + 1, 0)",
    "F.max_pool1d(x[None, None], 2, 1)",
    "F.cross_entropy(x, torch.tensor(0))",
    "F.multi_margin_loss(x[None], torch.tensor([0]))",
    "F.multilabel_margin_loss(x[None], torch.tensor([[0] + [-1] * (len(x) - 1)]))",
    "F.triplet_margin_loss(x[None], x[None] * 1, x[None] * 2)",
    "torch.linalg.vector_norm(x, 4)",
    "torch.linalg.matrix_norm(x[None])",
    "torch.det(torch.diag(x))",
    "torch.dot(x, x)",
]


def numbers(t: Any) -> str:
    """The elements of a tensor (or nothing) as text."""
    return "None" if t is None else " ".join(f"{v:.4g}" for v in t.detach().reshape(-1).double().tolist())


def one(torch: Any, F: Any, expression: str, leaves: list[list[float]]) -> list[str]:
    """Values, first derivatives (weights 1, 2, 3... for the results), second derivatives of their sum."""
    xs = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in leaves]
    names = {"torch": torch, "F": F, "inf": inf, "nan": nan, "len": len, **dict(zip("xy", xs, strict=False))}
    try:
        out = eval(expression, names)
    except (RuntimeError, ValueError, IndexError) as e:
        return ["!" + type(e).__name__.strip("_")]
    parts = [numbers(out)]
    if not out.requires_grad:
        return parts
    weights = torch.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape)
    first = torch.autograd.grad(out, xs, weights, create_graph=True, allow_unused=True)
    parts += [numbers(g) for g in first]
    live = [g for g in first if g is not None and g.requires_grad]
    if live:
        try:
            ones = [torch.ones_like(g) for g in live]
            parts += [numbers(g) for g in torch.autograd.grad(live, xs, ones, allow_unused=True)]
        except RuntimeError:  # PyTorch has no second derivative
            pass
    return parts


def points(expression: str) -> list[list[list[float]]]:
    """The leaves that an expression is run on."""
    if expression in UNARY:
        return [[POINTS]]
    if expression in BINARY:
        return [[[a], [b]] for a in ENDS for b in ENDS]
    return [[row] for row in ROWS]


def results(torch: Any, F: Any) -> dict[str, list[list[str]]]:
    """For each expression the results at its points."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {e: [one(torch, F, e, p) for p in points(e)] for e in (*UNARY, *BINARY, *REDUCTIONS)}


if __name__ == "__main__" and sys.argv[1:] == ["torch"]:
    import torch
    import torch.nn.functional as functional

    lines = (f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in results(torch, functional).items())
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")
