"""Products of small matrices as loops, and of one matrix with many vectors as one product: against eager code."""

from __future__ import annotations

import numpy as np
import pytest
from fusegrad.compiler.kernel import products
from fusegrad.compiler.tracer import trace

import fusegrad as torch

rng = np.random.default_rng(7)
SHAPES = [
    ((300, 4, 4), (300, 4, 4)),
    ((300, 2, 3), (300, 3, 5)),
    ((7, 1, 4, 4), (3, 4, 2)),
    ((200, 3, 3), (200, 3, 1)),
    ((6, 4), (500, 4, 1)),
    ((6, 4), (40, 30, 4, 1)),
    ((6, 4), (500, 4, 3)),
    ((300, 1, 4), (300, 4, 1)),
    ((0, 3, 3), (0, 3, 3)),
    ((300, 3, 0), (300, 0, 2)),
    ((5, 4), (4, 6)),
    ((70, 20, 1), (70, 1, 30)),
    ((40, 20, 30), (40, 30, 1)),
    ((2, 1, 20), (4, 2, 20, 30)),
    ((9, 7), (7,)),
    ((7,), (7, 9)),
    ((7,), (7,)),
    ((1, 7), (7,)),
    ((7,), (7, 1)),
]


def _data(shape: tuple[int, ...], dtype: type) -> torch.Tensor:
    return torch.from_numpy(rng.standard_normal(shape).astype(dtype)).requires_grad_()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_values_and_gradients(shapes: tuple, dtype: type) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ y) * 2

    x, y = (_data(s, dtype) for s in shapes)
    want = f(x, y)
    v = torch.from_numpy(rng.standard_normal(want.shape).astype(dtype))
    expected = torch.autograd.grad(want, (x, y), v)
    out = torch.compile(f)(x, y)
    got = torch.autograd.grad(out, (x, y), v)
    assert out.stride() == want.stride()
    for a, b in zip((out, *got), (want, *expected), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-5)


def test_any_number_of_matrices() -> None:
    f = torch.compile(lambda x, y: (x @ y).sum(0))
    before = torch.compiler.stats()["compiles"]
    for n in (3, 50, 400, 1000):
        x, y = _data((n, 3, 3), np.float32), _data((n, 3, 2), np.float32)
        np.testing.assert_allclose(f(x, y).detach().numpy(), (x @ y).sum(0).detach().numpy(), rtol=1e-4, atol=1e-4)
    assert torch.compiler.stats()["compiles"] - before <= 3


@pytest.mark.parametrize("shapes", [((9, 16, 16), (9, 16, 16)), ((300, 16, 16), (16, 1))], ids=str)
def test_larger_ones_stay_with_the_library(shapes: tuple) -> None:
    graph = trace(lambda x, y: x @ y, tuple(_data(s, np.float32) for s in shapes)).builder.graph
    assert products.expand_products(graph) is graph


def test_stacks_of_outer_products_and_of_vectors_are_loops() -> None:
    stacks = (((70, 99, 1), (70, 1, 99)), ((40, 20, 30), (40, 30, 1)), ((40, 1, 30), (40, 30, 20)))
    shapes = (*stacks, ((20, 30), (30,)), ((20,), (20, 30)), ((30,), (30,)))
    for shape in shapes:
        graph = trace(lambda x, y: x @ y, tuple(_data(s, np.float32) for s in shape)).builder.graph
        assert all(node.op.name != "matmul" for node in products.expand_products(graph).nodes), shape


def test_signs_of_zero_of_outer_products() -> None:
    x, y = torch.full((40, 9, 1), -1.0), torch.zeros(40, 1, 9)
    np.testing.assert_array_equal(np.signbit(torch.compile(lambda x, y: x @ y)(x, y)), np.signbit(x @ y))
