"""More rules of PyTorch that are easily missed; the values and errors were taken from PyTorch."""

import math

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.nn import functional as F

# ---- matrices that are not finite


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
def test_singular_values_of_infinities_are_nan_and_of_nans_an_error(n, dtype):
    for i in range(n):
        a = fg.eye(n, dtype=dtype)
        a[i, i] = math.inf
        assert fg.linalg.svdvals(a).isnan().all()
        a[i, i] = math.nan
        with pytest.raises(RuntimeError, match="non-finite"):
            fg.linalg.svdvals(a)
        with pytest.raises(RuntimeError, match="non-finite"):
            fg.linalg.pinv(a)
    both = fg.stack([fg.eye(n, dtype=dtype), fg.full((n, n), math.inf, dtype=dtype)])
    np.testing.assert_array_equal(fg.linalg.svdvals(both)[0], np.ones(n))


def test_a_determinant_of_a_nan_has_a_gradient_of_nan():
    a = fg.eye(3).masked_fill(fg.eye(3) == 1, math.nan).requires_grad_()
    fg.det(a).backward()
    assert a.grad.isnan().any()


# ---- nothing to work on


@pytest.mark.parametrize(("shape", "dim"), [((0,), 0), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), 1)])
def test_cumulative_trapezoid_of_nothing(shape, dim):
    assert tuple(fg.cumulative_trapezoid(fg.ones(shape), dim=dim).shape) == shape


def test_combinations_of_nothing():
    for n in (0, 1, 2):
        for again in (False, True):
            assert tuple(fg.combinations(fg.arange(float(n)), 0, again).shape) == (0,)
    assert tuple(fg.combinations(fg.arange(1.0), 2).shape) == (0, 2)


@pytest.mark.parametrize(("shape", "groups"), [((1, 1), 1), ((1, 3), 3), ((1, 2, 1, 1), 2)])
def test_group_norm_of_single_values_is_refused(shape, groups):
    with pytest.raises(ValueError, match="more than 1 value"):
        F.group_norm(fg.ones(shape), groups)


def test_logaddexp_of_large_equal_numbers_shares_its_gradient():
    x, y = fg.full((2,), 1e20, requires_grad=True), fg.full((2,), 1e20, requires_grad=True)
    for f in (fg.logaddexp, fg.logaddexp2):
        for g in fg.autograd.grad(f(x, y).sum(), (x, y)):
            np.testing.assert_array_equal(g, [0.5, 0.5])
