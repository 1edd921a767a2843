"""Convolutions of volumes as convolutions of images: against eager code, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional

CASES = {  # shape of the input, of the weight, options
    "padded": ((2, 4, 7, 8, 18), (5, 4, 3, 3, 3), {"padding": 1}),
    "sides differ": ((3, 2, 7, 9, 20), (5, 2, 2, 3, 4), {"stride": (1, 2, 1), "padding": (0, 1, 2)}),
    "dilated": ((2, 2, 9, 9, 17), (3, 2, 3, 2, 3), {"dilation": (2, 1, 3), "padding": (2, 0, 3)}),
    "a stride along the depth": ((2, 3, 10, 6, 18), (4, 3, 3, 1, 1), {"stride": (3, 1, 1), "padding": (2, 0, 0)}),
    "planes left over": ((1, 3, 8, 6, 18), (4, 3, 2, 3, 3), {"stride": 3}),
    "single elements": ((2, 3, 4, 5, 6), (7, 3, 1, 1, 1), {}),
    "single elements with a stride": ((2, 3, 5, 5, 6), (7, 3, 1, 1, 1), {"stride": 2}),
    "one channel": ((2, 1, 6, 6, 20), (1, 1, 3, 3, 3), {}),
    "deep": ((1, 2, 14, 4, 16), (2, 2, 11, 3, 3), {"padding": 1}),
    "groups": ((2, 4, 6, 6, 16), (4, 2, 3, 3, 3), {"groups": 2}),
    "no samples": ((0, 4, 7, 8, 18), (5, 4, 3, 3, 3), {"padding": 1}),
}


def check(f, args, tol):
    want, got = f(*args), fg.compile(f)(*args)
    v = fg.randn(*want.shape, dtype=want.dtype)
    pairs = [(want, got), *zip(fg.autograd.grad(want, args, v), fg.autograd.grad(got, args, v), strict=True)]
    for a, b in pairs:
        assert a.shape == b.shape and a.stride() == b.stride()
        scale = max(1.0, float(a.detach().abs().amax())) if a.numel() else 1.0
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), atol=tol * scale, rtol=tol)


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("name", CASES)
def test_volumes_are_those_of_eager_code(name, dtype):
    shape, weight, options = CASES[name]
    fg.manual_seed(1)
    x, w = (fg.randn(*s, dtype=dtype).requires_grad_() for s in (shape, weight))
    tol = 1e-4 if dtype is fg.float32 else 1e-11
    check(lambda x, w: F.conv3d(x, w, **options), (x, w), tol)
    check(lambda x, w: F.conv3d(x.sin(), w, **options).relu() * 2, (x, w), tol)


def test_transposed_volumes():
    fg.manual_seed(1)
    for options in ({"padding": 1}, {"stride": 2, "output_padding": 1}):
        x, w, b = (fg.randn(*s).requires_grad_() for s in ((2, 4, 5, 6, 17), (4, 3, 3, 3, 3), (3,)))
        check(lambda x, w, b, o=options: F.conv_transpose3d(x, w, b, **o).tanh(), (x, w, b), 1e-4)


def test_any_number_of_samples_and_layout():
    fg.manual_seed(1)
    w = fg.randn(4, 3, 3, 3, 3)
    f = lambda x, w: F.conv3d(x, w, padding=1).relu().mean((2, 3, 4))  # noqa: E731
    compiled = fg.compile(f, dynamic=True)
    for n in (3, 1, 5):
        for x in (fg.randn(n, 3, 6, 7, 18), fg.randn(n, 6, 7, 18, 3).permute(0, 4, 1, 2, 3)):
            np.testing.assert_allclose(compiled(x, w).numpy(), f(x, w).numpy(), rtol=1e-4, atol=1e-5)


def test_what_is_not_finite_stays_where_it_belongs():
    x, w = fg.zeros(1, 1, 6, 6, 18), fg.ones(1, 1, 3, 3, 3)
    x[0, 0, 2, 3, 4], x[0, 0, 5, 5, 17] = float("inf"), float("nan")
    x.requires_grad_()
    f = lambda x, w: F.conv3d(x, w, padding=1)  # noqa: E731
    y, z = f(x, w), fg.compile(f)(x, w)
    np.testing.assert_array_equal(z.detach().numpy(), y.detach().numpy())
    v = fg.zeros_like(y)
    v[0, 0, 0, 0, 0] = float("nan")
    for a, b in zip(fg.autograd.grad(y, [x], v), fg.autograd.grad(z, [x], v), strict=True):
        np.testing.assert_array_equal(b.numpy(), a.numpy())
