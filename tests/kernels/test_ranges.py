"""Loops with conditions on their indices: gradients of slices, borders, rolls. Bit for bit what eager code gives."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as torch

rng = np.random.default_rng(13)
F = torch.nn.functional

PROGRAMS = {
    "differences": lambda x: x[..., 1:] * x[..., :-1],
    "windows apart": lambda x: x[..., : x.shape[-1] // 2].tanh() * 2 + 0 * x[..., -(x.shape[-1] // 2) :],
    "rows": lambda x: x[1:] - x[:-1] * 3,
    "both": lambda x: x[1:-1, 1:-1] * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]),
    "one column": lambda x: x[:, 1:2] * x[:, :3].sum(1, keepdim=True),
    "last columns": lambda x: x[:, -3:] * x[:, -3:],
    "border": lambda x: F.pad(x * 2, (1, 2, 3, 0)) * 1.5,
    "border of ones": lambda x: F.pad(x, (2, 1), value=1.0).exp(),
    "negative border": lambda x: F.pad(x, (-1, 2)) * x[:, :1],
    "roll": lambda x: torch.roll(x, 1, 1) * x - torch.roll(x, -2, 0),
    "roll far": lambda x: torch.roll(x, x.shape[1] // 2, 1) * x,
    "roll flat": lambda x: torch.roll(x, 3) * x,
    "roll and sum": lambda x: (torch.roll(x, 1, 1) * x).amax(1),
    "sum of a border": lambda x: F.pad(x, (1, 1)).sum(0) + F.pad(x, (1, 1), value=2.0).amax(0),
    "cat of slices": lambda x: torch.cat([x[:, -1:], x, x[:, :1]], 1) * 2,
    "cat of slices turned": lambda x: torch.cat([x[:, 1:], x[:, :1]], 1).t() * 2,
}


def _check(f, *shape: int, dtype=np.float32, compiled=None) -> None:
    x = torch.from_numpy(rng.standard_normal(shape).astype(dtype)).requires_grad_()
    with torch.no_grad():
        x[0, 0] = float("inf")
        x[-1, -1] = float("nan")
    want = f(x)
    v = torch.from_numpy(rng.standard_normal(want.shape).astype(dtype))
    (expected,) = torch.autograd.grad(want, x, v)
    out = (compiled or torch.compile(f))(x)
    (got,) = torch.autograd.grad(out, x, v)
    for a, b in ((out, want), (got, expected)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=4e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes_around_the_width_of_vectors(name: str, dtype: type) -> None:
    for shape in ((4, 5), (5, 33), (37, 131)):
        _check(PROGRAMS[name], *shape, dtype=dtype)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_vary(name: str) -> None:
    compiled = torch.compile(PROGRAMS[name])
    for shape in ((6, 40), (9, 70), (3, 4), (50, 150), (7, 64)):
        _check(PROGRAMS[name], *shape, compiled=compiled)


@pytest.mark.parametrize("name", ["both", "roll", "border"])
def test_threads(name: str) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        _check(PROGRAMS[name], 501, 403)
    finally:
        torch.set_num_threads(before)


def test_nothing_is_read_beside_the_array() -> None:
    """Slices at the very ends of memory that other numbers surround."""
    for start, stop in itertools.product((0, 1, 7), (100, 99, 61)):
        _check(lambda x, a=start, b=stop: x[:, a:b] * x[:, 100 - b : 100 - a], 3, 100)


def test_a_roll_is_no_copy() -> None:
    f = torch.compile(lambda x: torch.roll(x, 1, 1) + x)
    f(torch.randn(40, 50))
    text = torch.compiler.explain(f)(torch.randn(40, 50)).details()
    assert "piece" not in text


STARTS = {
    "from the middle": lambda x: x[:, -(x.shape[1] // 2) :] * 2,
    "from the end by a size": lambda x: x[:, -x.shape[0] :] * 2,
    "to the middle": lambda x: x[:, : -(x.shape[1] // 2)] * 2,
    "more than there is": lambda x: x[:, -50:] * 2,
    "past the end": lambda x: x[:, 45:] * 2,
    "up to more than there is": lambda x: x[:, :50] * 2,
    "one row": lambda x: x[-(x.shape[0] // 2)] * 2,
    "narrow": lambda x: x.narrow(1, -(x.shape[1] // 2), 2) * 2,
    "select": lambda x: x.select(1, -(x.shape[0] // 2)) * 2,
}


@pytest.mark.parametrize("name", STARTS)
def test_symbolic_and_negative_starts(name: str) -> None:
    """Where a slice begins is as in eager code for every size, also where it is cut off at either end."""
    f = STARTS[name]
    compiled = torch.compile(f)
    for shape in ((6, 40), (9, 70), (8, 48), (5, 52), (12, 33), (7, 49), (9, 90)):
        x = torch.arange(shape[0] * shape[1], dtype=torch.float32).reshape(shape).requires_grad_()
        want, got = f(x), compiled(x)
        np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
        grads = [torch.autograd.grad(y.sum(), x)[0].numpy() for y in (want, got)]
        np.testing.assert_array_equal(*grads)
