"""Programs whose sizes vary, against eager: resampling, real tensors beside sizes, numbers made of sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fusegrad.export import ConstraintError, Dim, export

import fusegrad as T
import fusegrad.nn.functional as F

TABLE = T.arange(20.0).reshape(10, 2)
PAIR = T.tensor([0.5, 2.0])


def _put(t: Any, index: Any, value: Any) -> Any:
    t[index] = value
    return t


BESIDE: dict[str, Callable[[Any], Any]] = {
    "rows of a table": lambda x: x + TABLE[: x.shape[0]],
    "rows by position": lambda x: F.embedding(T.arange(x.shape[0]), TABLE) + x,
    "one row": lambda x: TABLE[x.shape[0]] + TABLE.select(0, x.shape[0]),
    "narrow": lambda x: TABLE.T.narrow(1, 0, x.shape[0]).T + x,
    "split": lambda x: TABLE.split([x.shape[0], 10 - x.shape[0]])[1].sum(0) + x,
    "product": lambda x: PAIR * x.shape[0] + x.shape[0] * PAIR,
    "quotients": lambda x: PAIR / x.shape[0] + x.shape[0] / PAIR + TABLE.sum() / x.shape[0],
    "powers": lambda x: PAIR ** x.shape[0] + (PAIR / x.shape[0] ** 0.5).softmax(0),
    "whole division": lambda x: PAIR // x.shape[0] + TABLE % x.shape[0],
    "comparison": lambda x: T.where(PAIR * 3 > x.shape[0], PAIR, x),
    "bounds": lambda x: (PAIR * 9).clamp(max=x.shape[0]) + x,
    "expanded": lambda x: PAIR.expand(x.shape[0], 2) + PAIR.repeat(x.shape[0], 1),
    "made like it": lambda x: PAIR.new_zeros(x.shape[0], 2) + PAIR.new_full((2,), x.shape[0]),
    "rolled": lambda x: TABLE.roll(x.shape[0], 0),
    "padded by a size": lambda x: F.pad(PAIR[None], (0, 0, 0, x.shape[0]), value=3.0),
    "padded to a length": lambda x: F.pad(x, (0, 0, 0, 9 - x.shape[0])),
    "in place": lambda x: T.tensor([0.0, 1.0]).add_(x.shape[0]).mul_(x[0]),
    "filled": lambda x: T.tensor([0.0, 1.0]).fill_(x.shape[0]),
    "filled where": lambda x: x.masked_fill(x > 0, x.shape[0]) + x.clone().masked_fill_(x > 0, x.shape[0] / 2),
    "assigned": lambda x: _put(x.clone(), (slice(None), 0), x.shape[0]),
    "assigned where": lambda x: _put(T.tensor([1.0, -1.0]), PAIR > 1, x.shape[0]) + _put(x * 1, x > 0, x.shape[0]),
    "quantiles": lambda x: x.quantile(0.3, dim=0) + x.nanquantile(PAIR / 2, dim=0),
}


@pytest.mark.parametrize("name", BESIDE)
def test_real_tensors_and_numbers_beside_sizes(name: str) -> None:
    f = BESIDE[name]
    run = export(f, (T.randn(4, 2),), dynamic_shapes=({0: Dim("n", min=1, max=9)},)).module(compile=False)
    for n in (1, 4, 7):
        x = T.randn(n, 2)
        want = f(x)
        got = run(x)
        assert got.dtype is want.dtype
        T.testing.assert_close(got, want)


HOW: list[tuple[str, dict[str, Any]]] = [
    ("nearest", {"scale_factor": 2}),
    ("nearest", {"size": (7, 5)}),
    ("nearest-exact", {"scale_factor": 1.5}),
    ("bilinear", {"scale_factor": 0.5}),
    ("bilinear", {"size": (9, 3), "align_corners": True}),
    ("bicubic", {"scale_factor": 2}),
]


@pytest.mark.parametrize(("mode", "how"), HOW, ids=lambda v: v if isinstance(v, str) else next(iter(v)))
def test_interpolate_at_every_size(mode: str, how: dict[str, Any]) -> None:
    def f(x: Any) -> Any:
        return F.interpolate(x, mode=mode, **how), F.interpolate(x[:, :, :3, :3], size=x.shape[2:], mode=mode)

    sizes = {2: Dim("h", min=3, max=30), 3: Dim("w", min=3, max=30)}
    run = export(f, (T.randn(1, 2, 6, 8),), dynamic_shapes=(sizes,)).module(compile=False)
    for h, w in ((6, 8), (3, 3), (13, 4)):
        x = T.randn(1, 2, h, w)
        T.testing.assert_close(run(x), f(x))


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [True, False])
def test_grids_at_every_size(padding: str, align: bool) -> None:
    def f(x: Any, theta: Any) -> Any:
        grid = F.affine_grid(theta, x.shape, align_corners=align)
        return [
            F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)
            for mode in ("bilinear", "bicubic", "nearest")
        ]

    sizes = {0: Dim("b", min=1), 2: Dim("h", min=1, max=30), 3: Dim("w", min=1, max=30)}
    program = export(f, (T.randn(2, 2, 6, 8), T.randn(2, 2, 3)), dynamic_shapes=(sizes, {0: sizes[0]}))
    run = program.module(compile=False)
    for b, h, w in ((2, 6, 8), (1, 1, 1), (2, 1, 5)):
        x, theta = T.randn(b, 2, h, w), T.randn(b, 2, 3) * 0.7
        got, want = run(x, theta), f(x, theta)
        for p, q in zip(got[:2], want[:2], strict=True):
            T.testing.assert_close(p, q, atol=1e-4, rtol=1e-4)
        assert (got[2] != want[2]).sum() <= 1  # a coordinate half way may round to the other side


def test_the_gradient_of_a_nearest_grid_is_zero_and_not_missing() -> None:
    x, grid = T.randn(1, 1, 3, 3, requires_grad=True), T.zeros(1, 2, 2, 2, requires_grad=True)
    out = F.grid_sample(x, grid, mode="nearest", align_corners=False)
    gx, gg = T.autograd.grad(out.sum(), (x, grid))
    assert gg.tolist() == T.zeros(1, 2, 2, 2).tolist()
    assert gx.sum().item() == 4.0 and gx[0, 0, 1, 1].item() == 4.0  # all four look at the middle


def _refusal(f: Any) -> str:
    with pytest.raises(ConstraintError) as e:
        export(f, (T.randn(2, 6),), dynamic_shapes=({1: Dim("n", min=2, max=30)},))
    return str(e.value)


def test_a_refusal_names_the_repair() -> None:
    """A repair that is followed makes the program exportable."""
    assert "Declare the axis a multiple: 2 * Dim('n_2')" in _refusal(lambda x: x.reshape(4, -1))
    half = Dim("n_2", min=1, max=15)
    run = export(lambda x: x.reshape(4, -1), (T.randn(2, 6),), dynamic_shapes=({1: 2 * half},)).module()
    assert run(T.ones(2, 8)).shape == (4, 4)
    assert "fusegrad.control.scan" in _refusal(lambda x: sum(x[:, i] for i in range(x.shape[1])))
    assert "Declare it: Dim('n', min=5)" in _refusal(lambda x: x if x.shape[1] >= 5 else -x)
