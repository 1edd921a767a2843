"""Floats made of sizes do not fix the sizes in compiled code: the third batch size compiles nothing."""

import numpy as np
import pytest

import fusegrad as T

FUNCTIONS = {
    "reciprocal": lambda x: x * (1.0 / x.shape[0]),
    "half": lambda x: x / (x.shape[0] * 0.5),
    "power": lambda x: x * x.shape[0] ** -0.5,
    "float64": lambda x: x.double() * (1 / x.shape[0]),
    "integers": lambda x: x.long() * (x.shape[0] / 2),
    "branch": lambda x: x * 2 if x.shape[0] / 2 > 1 else x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_floats_of_sizes_follow_the_call(name):
    f = FUNCTIONS[name]
    T.compiler.reset()
    g = T.compile(f)
    for n in (4, 5, 6, 7):
        x = T.randn(n, 3)
        got, want = g(x), f(x)
        assert got.dtype is want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert T.compiler.stats()["compiles"] == 2


def test_batch_norm_in_training_compiles_for_all_batches():
    a, b = T.nn.BatchNorm1d(3), T.nn.BatchNorm1d(3)
    T.compiler.reset()
    f = T.compile(a)
    for n in (4, 5, 6, 7):
        x = T.randn(n, 3)
        np.testing.assert_allclose(f(x).detach().numpy(), b(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(a.running_var.numpy(), b.running_var.numpy(), rtol=1e-5)
    assert T.compiler.stats()["compiles"] == 2
