"""float16 is computed in float32 and rounded once: every half number, eager and compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional
ALL = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
LARGEST = float(np.finfo(np.float16).max)

FORMULAS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], Any]]] = {
    "sinc": (fg.sinc, np.sinc),
    "hardswish": (F.hardswish, lambda x: np.where(x > 3, x, x * np.clip(x + 3, 0, 6) / 6)),
    "nan_to_num": (fg.nan_to_num, lambda x: np.nan_to_num(x, posinf=LARGEST, neginf=-LARGEST)),
    "power of 0": (lambda x: x**0, lambda x: np.ones_like(x)),
    "power of 3": (lambda x: x**3, lambda x: x**3),
    "rsqrt": (fg.rsqrt, lambda x: np.copysign(1, x) / np.sqrt(x)),
    "quotient": (lambda x: fg.div(x, 3, rounding_mode="trunc"), lambda x: np.trunc(x / 3)),
    "logit": (lambda x: fg.logit(x, 1e-3), lambda x: np.log(np.clip(x, 1e-3, 0.999) / (1 - np.clip(x, 1e-3, 0.999)))),
    "sigmoid": (fg.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "addcmul": (lambda x: fg.addcmul(x, x, x, value=-1), lambda x: x - x * x),
    "lerp": (lambda x: fg.lerp(x, -x, 0.25), lambda x: x + 0.25 * (-x - x)),
    "deg2rad": (fg.deg2rad, np.deg2rad),
    "no slope": (lambda x: F.elu(x, 0.0), lambda x: np.where(x > 0, x, 0 * np.clip(x, -1, 0))),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_every_half_number(name: str) -> None:
    f, formula = FORMULAS[name]
    x = fg.from_numpy(ALL.copy())
    with np.errstate(all="ignore"):
        want = formula(ALL.astype(np.float64)).astype(np.float16)
    for got in (f(x).numpy(), fg.compile(f)(x).numpy()):
        assert got.dtype == np.float16
        known = ~np.isnan(ALL) | ~np.isnan(want)
        with np.errstate(invalid="ignore"):
            off = np.abs(got[known].astype(np.float64) - want[known]) > 1e-3 * np.abs(want[known]) + 1e-7
        off |= np.isnan(got[known]) != np.isnan(want[known])
        assert not off.any(), (ALL[known][off][:5], got[known][off][:5], want[known][off][:5])


@pytest.mark.parametrize("name", FORMULAS)
def test_compiled_is_eager_to_the_bit(name: str) -> None:
    f, x = FORMULAS[name][0], fg.from_numpy(ALL.copy())
    want, got = f(x).numpy(), fg.compile(f)(x).numpy()
    same = (want.view(np.uint16) == got.view(np.uint16)) | (np.isnan(want) & np.isnan(got))
    assert same.all(), (ALL[~same][:5], got[~same][:5], want[~same][:5])


def test_two_operands() -> None:
    a, b = (fg.tensor(v, dtype=fg.float16) for v in ([60000.0, 3.0, 1000.0], [-60000.0, 1.0, 7.0]))
    for f, want in (
        (lambda a, b: fg.lerp(a, b, 0.5), [0.0, 2.0, 503.5]),  # the difference is beyond the largest half number
        (lambda a, b: fg.addcdiv(a, a, b, value=2.0), [60000.0, 9.0, 1286.0]),
        (lambda a, b: a.addcmul(a, b / b, value=-1.0), [0.0, 0.0, 0.0]),
    ):
        for g in (f, fg.compile(f)):
            np.testing.assert_array_equal(g(a, b).numpy(), np.array(want, np.float16))


@pytest.mark.parametrize("name", ["scatter_add", "gather", "cummax", "scatter_reduce"])
def test_one_place_along_a_dimension(name: str) -> None:
    """Additions to the one element that each index may name."""
    place = fg.zeros(1, 9000, dtype=fg.int64)
    f = {
        "scatter_add": lambda x: x.exp().scatter_add(0, place, x),
        "gather": lambda x: x.exp().gather(0, place),
        "cummax": lambda x: x.exp().cummax(0)[0],
        "scatter_reduce": lambda x: x.exp().scatter_reduce(0, place, x, "amax"),
    }[name]
    found = []
    for g in (f, fg.compile(f)):
        x = (fg.arange(9000, dtype=fg.float16) / 9000)[None].clone().requires_grad_()
        with warnings.catch_warnings(action="error", category=RuntimeWarning):
            y = g(x)
            y.sum().backward()
        found.append((y.detach().float().numpy(), x.grad.float().numpy()))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, 2e-3)


def _standard(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


ROWS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], Any]]] = {
    "norm": (lambda x: x.norm(dim=-1), lambda x: np.sqrt((x * x).sum(-1))),
    "norm of order 3": (lambda x: fg.linalg.vector_norm(x, 3, -1), lambda x: (abs(x) ** 3).sum(-1) ** (1 / 3)),
    "normalize": (lambda x: F.normalize(x, dim=-1), lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True))),
    "std": (lambda x: x.std(-1), lambda x: x.std(-1, ddof=1)),
    "layer_norm": (lambda x: F.layer_norm(x, (5,)), _standard),
    "group_norm": (lambda x: F.group_norm(x[:, None], 1)[:, 0], _standard),
    "instance_norm": (lambda x: F.instance_norm(x[:, None])[:, 0], _standard),
    "batch_norm": (lambda x: F.batch_norm(x.t(), None, None, training=True).t(), _standard),
    "rms_norm": (lambda x: F.rms_norm(x, (5,)), lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True))),
    "cosine": (lambda x: F.cosine_similarity(x, x, dim=-1), lambda x: np.ones(len(x))),
    "softmax": (lambda x: fg.log_softmax(x * 8, -1), lambda x: x * 8 - (x * 8).max(-1, keepdims=True)),
}  # where squares, their sums or variances are beyond float16


@pytest.mark.parametrize("name", ROWS)
def test_rows_whose_squares_are_beyond_float16(name: str) -> None:
    f, formula = ROWS[name]
    rows = np.array([[0.1, 300.0, 2.0, -1.5, 1000.0], [400.0, 500.0, -600.0, 2.0, 1.0]], dtype=np.float16)
    want = formula(rows.astype(np.float64))
    grads = []
    for g in (f, fg.compile(f)):
        x = fg.from_numpy(rows.copy()).requires_grad_()
        y = g(x)
        assert y.dtype is fg.float16
        np.testing.assert_allclose(y.detach().numpy(), want, rtol=3e-3, atol=2e-3)
        y.sum().backward()
        grads.append(x.grad.numpy().astype(np.float32))
    np.testing.assert_allclose(grads[1], grads[0], rtol=2e-2, atol=2e-4)


@pytest.mark.parametrize("p", [1, 2, 3.0, float("inf")])
def test_renorm_of_small_halves(p: float) -> None:
    """The factor and its gradient are computed in float32: 1e-7 is next to nothing in float16."""
    values = [[0.0, 0.0], [1e-4, 0.0], [3.0, 4.0], [6e-8, 0.0]]
    half = fg.tensor(values, dtype=fg.float16, requires_grad=True)
    full = half.detach().float().requires_grad_()
    results = [x.renorm(p, 0, 1e-3) for x in (half, full)]
    for r in results:
        r.sum().backward()
    assert results[0].dtype is half.grad.dtype is fg.float16
    np.testing.assert_allclose(results[0].detach().numpy(), results[1].detach().numpy(), 1e-3, 1e-7)
    np.testing.assert_allclose(half.grad.numpy(), full.grad.numpy(), 1e-3, 1e-6)
    assert half.grad[0].tolist() == half.grad[1].tolist() == [1, 1]
