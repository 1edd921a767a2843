"""Programs whose sizes vary, against eager: resampling, real tensors beside sizes, numbers made of sizes."""

from __future__ import annotations

import numbers
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
    "rolled itself": lambda x: x.roll(1, 0) + x.roll(3, 0) * 2 + x.roll((-2, 1), (0, 1)) * 3,
    "places by remainders": lambda x: x[7 % x.shape[0]] + x.narrow(0, 5 % x.shape[0], 1) + x[: 3 % x.shape[0]].sum(0),
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
    halves = export(lambda x: x.chunk(2, 1), (T.randn(2, 6),), dynamic_shapes=({1: 2 * half},)).module(compile=False)
    assert [h.shape for h in halves(T.ones(2, 8))] == [(2, 4), (2, 4)]
    assert "fusegrad.control.scan" in _refusal(lambda x: sum(x[:, i] for i in range(x.shape[1])))
    assert "Declare it: Dim('n', min=5)" in _refusal(lambda x: x if x.shape[1] >= 5 else -x)


# what eager code refuses for sizes below these, and gives a result for from these on
REFUSED_BELOW: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "blocks": (2, lambda x: F.unfold(x[None, None], (2, 2))),
    "windows": (2, lambda x: F.max_pool1d(x.T[None], 2)),
    "views of windows": (2, lambda x: x.unfold(0, 2, 1)),
    "a negative size": (2, lambda x: T.zeros(x.shape[0] - 2) + x.sum()),
    "expanded to a negative size": (2, lambda x: x.sum(0).expand(x.shape[0] - 2, 2)),
    "repeated a negative number of times": (1, lambda x: x.repeat(x.shape[0] - 1, 1)),
    "narrowed": (2, lambda x: x.narrow(0, 1, x.shape[0] - 2)),
    "negative padding": (2, lambda x: F.pad(x, (0, 0, -1, -1))),
    "resampled to nothing": (2, lambda x: F.interpolate(x.T[None], scale_factor=0.5)),
    "resampled from nothing": (1, lambda x: F.interpolate(x.T[None], size=4)),
    "a grid": (1, lambda x: F.affine_grid(T.ones(1, 2, 3), (1, 1, x.shape[0], 2), align_corners=False)),
    "looked up by a grid": (1, lambda x: F.grid_sample(x[None, None], T.zeros(1, 2, 2, 2), align_corners=False)),
    "reflected": (2, lambda x: F.pad(x.T[None], (1, 1), mode="reflect")),
    "a convolution to nothing": (2, lambda x: F.conv_transpose1d(x.T[None], T.ones(2, 2, 1), padding=1, stride=2)),
    "the largest norm": (1, lambda x: T.linalg.vector_norm(x, float("inf"), 0)),
}


@pytest.mark.parametrize("name", REFUSED_BELOW)
def test_no_size_is_promised_that_eager_code_refuses(name: str) -> None:
    low, f = REFUSED_BELOW[name]
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        f(T.randn(low - 1, 2))
    with pytest.raises(ConstraintError, match=f"only right when .*>= {low}|n//2 >= 1"):
        export(f, (T.randn(4, 2),), dynamic_shapes=({0: Dim("n", min=low - 1)},))
    run = export(f, (T.randn(4, 2),), dynamic_shapes=({0: Dim("n", min=low)},)).module(compile=False)
    for n in (low, 7):
        x = T.randn(n, 2)
        T.testing.assert_close(run(x), f(x))


@pytest.mark.parametrize(
    "f", [lambda x: x.softmax(0) * 2, lambda x: x.logsumexp(0), lambda x: (x.log_softmax(0), x[0:])]
)
def test_an_empty_axis_is_what_eager_code_gives(f: Callable[[Any], Any]) -> None:
    run = export(f, (T.randn(4, 2),), dynamic_shapes=({0: Dim("n")},)).module()
    for n in (3, 0, 2):
        T.testing.assert_close(run(T.ones(n, 2)), f(T.ones(n, 2)))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_recurrent_layers_over_any_number_of_steps(kind: str) -> None:
    B, N = Dim("batch", min=1), Dim("steps", min=1)
    both = {"batch_first": True, "bidirectional": True}
    net = T.nn.LSTM(3, 4, proj_size=2, **both) if kind == "lstm" else T.nn.GRU(3, 4, num_layers=2, **both)
    run = export(net, (T.randn(2, 5, 3),), dynamic_shapes=({0: B, 1: N},)).module(compile=False)
    for shape in ((2, 5, 3), (3, 7, 3), (1, 1, 3)):
        x = T.randn(shape, requires_grad=True)
        got, want = run(x), net(x)
        T.testing.assert_close(got, want)
        T.testing.assert_close(T.autograd.grad(got[0].sum(), x), T.autograd.grad(want[0].sum(), x))


SEARCHED: dict[str, Callable[[Any], Any]] = {
    "get": lambda x: x * {2: 3}.get(x.shape[0], 1),
    "in": lambda x: x * (2 if x.shape[0] in {0, 1, 2} else 3),
    "a shape": lambda x: x * {(2,): 3}.get(x.shape, 1),
    "a set of sizes": lambda x: x * len({x.shape[0], 2}),
    "setdefault": lambda x: x * {2: 5.0}.setdefault(x.shape[0], 7.0),
    "hash": lambda x: x * hash(x.shape[0]),
    "a float": lambda x: x * {2.0: 3}.get(x.shape[0] / 1, 1),
}


@pytest.mark.parametrize("name", SEARCHED)
def test_sizes_as_keys_are_refused_unless_fixed(name: str) -> None:
    f = SEARCHED[name]
    with pytest.raises(ConstraintError, match="B == 2|value of"):
        export(f, (T.ones(2),), dynamic_shapes=({0: Dim("B", min=2, max=3)},))
    fixed = export(f, (T.ones(2),))
    assert T.equal(fixed.module(compile=False)(T.ones(2)), f(T.ones(2)))


def by_isinstance(x: Any) -> Any:
    n = x.shape[0]
    return x * 2 if isinstance(n, int) else x * 3


def by_abstract_class(x: Any) -> Any:
    return x * 2 if isinstance(x.shape[0], numbers.Integral) and not isinstance(len(x.shape), float) else x * 3


def by_pattern(x: Any) -> Any:
    match {"n": x.shape[0], "x": x}:
        case {"n": int(n)}:
            return x * 2 + n
        case _:
            return x * 3


def by_float(x: Any) -> Any:
    match x.shape[0] / 2:
        case float() as half:
            return x * half
        case _:
            return x * 3


def by_union(x: Any) -> Any:
    sizes = [n if isinstance(n, int | str) else 0 for n in (*x.shape, x.numel())]
    return x * sizes[0] + sizes[1]


@pytest.mark.parametrize("fn", [by_isinstance, by_abstract_class, by_pattern, by_float, by_union])
def test_what_kind_of_number_a_size_is(fn: Any) -> None:
    """The user's code is told that a size that varies is an int (it took the other branch, silently)."""
    run = export(fn, (T.rand(3),), dynamic_shapes=({0: Dim("n")},)).module(compile=False)
    for n in (3, 5, 1):
        x = T.rand(n)
        assert T.equal(run(x), fn(x))
