"""Convolutions in groups as loops: against eager code, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional

CASES = {  # shape of the input, of the weight, options
    "depthwise": ((2, 5, 9, 11), (5, 1, 3, 3), {"padding": 1, "groups": 5}),
    "depthwise with a stride": ((2, 5, 9, 11), (5, 1, 3, 3), {"stride": 2, "padding": 1, "groups": 5}),
    "depthwise, sides differ": ((2, 5, 9, 11), (5, 1, 3, 2), {"stride": (1, 2), "padding": (2, 0), "groups": 5}),
    "depthwise, dilated": ((3, 4, 12, 12), (4, 1, 3, 3), {"dilation": 2, "padding": 2, "groups": 4}),
    "depthwise, padding beyond the filter": ((3, 4, 6, 6), (4, 1, 3, 3), {"padding": 4, "groups": 4}),
    "depthwise, one tap": ((2, 3, 6, 6), (3, 1, 1, 1), {"groups": 3}),
    "depthwise, gaps between windows": ((2, 3, 7, 7), (3, 1, 2, 2), {"stride": 3, "groups": 3}),
    "depthwise in one dimension": ((4, 3, 50), (3, 1, 7), {"padding": 3, "groups": 3}),
    "one signal, a long filter": ((4, 1, 200), (1, 1, 32), {}),
    "one image": ((2, 1, 7, 30), (1, 1, 5, 5), {"padding": 2}),
    "two groups": ((2, 8, 10, 10), (6, 4, 3, 3), {"padding": 1, "groups": 2}),
    "four groups with a stride": ((2, 8, 10, 10), (16, 2, 3, 3), {"stride": 2, "padding": 1, "groups": 4}),
    "several filters for each channel": ((2, 4, 10, 10), (16, 1, 3, 3), {"groups": 4}),
}


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("name", CASES)
def test_groups_are_those_of_eager_code(name, dtype):
    shape, weight, options = CASES[name]
    fg.manual_seed(1)
    x, w = fg.randn(*shape, dtype=dtype), fg.randn(*weight, dtype=dtype)
    conv = F.conv1d if len(shape) == 3 else F.conv2d

    def f(x, w):
        return conv(x.relu() + 1, w, **options) * 2

    a, b = [t.clone().requires_grad_() for t in (x, w)], [t.clone().requires_grad_() for t in (x, w)]
    want, got = f(*a), fg.compile(f)(*b)
    g = fg.randn(*want.shape, dtype=dtype)
    tol = 1e-5 if dtype is fg.float32 else 1e-12
    for p, q in zip((want, *fg.autograd.grad(want, a, g)), (got, *fg.autograd.grad(got, b, g)), strict=True):
        p, q = p.detach().numpy(), q.detach().numpy()
        np.testing.assert_allclose(q, p, rtol=tol, atol=tol * float(np.abs(p).max()))


def test_transposed_and_with_any_number_of_samples():
    f = fg.compile(lambda x, w: F.conv_transpose2d(x, w, groups=4, stride=2, padding=1))
    w = fg.randn(4, 1, 3, 3)
    for n in (2, 5, 1, 0):
        x = fg.randn(n, 4, 6, 6)
        np.testing.assert_allclose(
            f(x, w).numpy(), F.conv_transpose2d(x, w, groups=4, stride=2, padding=1).numpy(), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("name", ["depthwise", "one signal, a long filter", "depthwise, dilated"])
def test_depthwise_convolutions_need_no_call(name):
    shape, weight, options = CASES[name]
    conv = F.conv1d if len(shape) == 3 else F.conv2d

    def f(x, w):
        return conv(x, w, **options).tanh()

    (region,) = fg.compiler.explain(f)(fg.randn(*shape).requires_grad_(), fg.randn(*weight).requires_grad_()).regions
    steps = [line.split()[0] for line in region.text().split("\n") if line.startswith("  ") and line.split()]
    assert "call" not in steps and "loops" in steps
