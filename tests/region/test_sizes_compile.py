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


RANGES = {
    "to": lambda a, b, s: T.arange(b),
    "from, to": lambda a, b, s: T.arange(a, b),
    "steps": lambda a, b, s: T.arange(a, b, s),
    "float32": lambda a, b, s: T.arange(a, b, s, dtype=T.float32),
    "to a fraction": lambda a, b, s: T.arange(a, 3.1),
    "by fractions": lambda a, b, s: T.arange(a, b, 0.5 if s > 0 else -0.5),
    "from a fraction": lambda a, b, s: T.arange(a * 0.7, b, s),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", RANGES)
def test_ranges_whose_bounds_change(name, dynamic):
    """Lengths are rounded up, and bounds that make no range are refused at every call."""
    f = RANGES[name]
    compiled = T.compile(f, dynamic=dynamic)
    for args in ((-1, 2, 2), (0, 3, 1), (1, 2, 2), (3, 2, 2), (3, 1, -1), (3, 1, 0), (3, 3, 1), (1, 5, 3), (2, 7, 4)):
        found = []
        for g in (f, compiled):
            try:
                found.append((str(g(*args)), None))
            except Exception as error:
                found.append((type(error), str(error)))
        assert found[0] == found[1], args


F = T.nn.functional
EMPTY = {
    "max_pool": lambda x: F.max_pool1d(x, 1),
    "avg_pool": lambda x: F.avg_pool1d(x, 1),
    "reflect": lambda x: F.pad(x, (0, 1), mode="replicate"),
    "unfold": lambda x: F.unfold(x, 1),
    "interpolate": lambda x: F.interpolate(x, 4),
    "group_norm": lambda x: F.group_norm(x[0, :1], 1),
    "amax": lambda x: x.amax(-1),
    "argmin": lambda x: x.argmin(),
    "max": lambda x: x.max(),
    "norm": lambda x: T.linalg.vector_norm(x, -1.0),
    "matrix norm": lambda x: T.linalg.matrix_norm(x, 1),
    "gradient of cumprod": lambda x: T.autograd.grad(x.requires_grad_().cumprod(-1).sum(), x)[0],
    "gradient of prod": lambda x: T.autograd.grad(x.requires_grad_().prod(-1).sum(), x)[0],
}


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("name", EMPTY)
def test_dimensions_that_become_empty(name, dim):
    """What eager code refuses for a size of 0 or 1 is refused by code that was compiled for changing sizes, too."""
    f = EMPTY[name]
    compiled = T.compile(f)
    for n in (3, 4, 5, 0, 1, 6):
        shape = [2, 3, 3]
        shape[dim] = n
        found = []
        for g in (f, compiled):
            try:
                found.append(g(T.ones(shape)).tolist())
            except Exception as error:
                found.append((type(error), str(error)))
        assert found[0] == found[1], n
