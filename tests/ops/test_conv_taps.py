"""Convolutions of larger arrays in machine code: three maps against sums written out, for odd sizes."""

import itertools

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.ops import _conv_kernels, _conv_taps


def written_out(x, w, stride, padding, dilation, groups):
    """The result, and a function of its cotangent that gives the derivatives; float64, tap by tap."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    n, c, *size = x.shape
    o, cg, *kernel = w.shape
    wide = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    out = _conv_kernels.out_sizes(size, kernel, stride, padding, dilation)
    grouped = wide.reshape(n, groups, cg, *wide.shape[2:])
    weight = w.reshape(groups, o // groups, cg, *kernel)
    cuts = {}
    for tap in itertools.product(*map(range, kernel)):
        cuts[tap] = tuple(
            slice(t * d, t * d + (m - 1) * s + 1, s) for t, d, m, s in zip(tap, dilation, out, stride, strict=True)
        )
    y = sum(np.einsum("ngc...,goc->ngo...", grouped[(..., *cut)], weight[(..., *tap)]) for tap, cut in cuts.items())

    def back(v):
        v = v.astype(np.float64).reshape(n, groups, o // groups, *out)
        gx, gw = np.zeros_like(grouped), np.zeros_like(weight)
        for tap, cut in cuts.items():
            gx[(..., *cut)] += np.einsum("ngo...,goc->ngc...", v, weight[(..., *tap)])
            seen = grouped[(..., *cut)]
            gw[(..., *tap)] = np.einsum(
                "ngop,ngcp->goc", v.reshape(*v.shape[:3], -1), seen.reshape(*seen.shape[:3], -1)
            )
        inner = tuple(slice(p, p + s) for p, s in zip(padding, size, strict=True))
        return gx.reshape(wide.shape)[(..., *inner)], gw.reshape(w.shape)

    return y.reshape(n, o, *out), back


CASES = [  # samples, groups, channels and outputs of a group, size, kernel, stride, padding, dilation
    (2, 1, 3, 10, (17, 33), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 2, 4, 7, (20, 19), (3, 2), (2, 3), (1, 0), (1, 2)),
    (1, 1, 8, 26, (31, 40), (5, 5), (1, 1), (2, 2), (1, 1)),
    (2, 1, 26, 7, (24, 24), (3, 3), (1, 1), (1, 1), (2, 2)),
    (4, 3, 5, 9, (16, 16), (1, 1), (2, 2), (0, 0), (1, 1)),
    (2, 1, 6, 13, (15, 14), (4, 4), (2, 2), (1, 1), (1, 1)),
    (3, 1, 7, 11, (101,), (7,), (1,), (3,), (1,)),
    (2, 2, 6, 25, (64,), (3,), (3,), (4,), (2,)),
    (2, 1, 4, 8, (9, 10, 11), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    (1, 2, 3, 6, (9, 8, 12), (2, 3, 2), (2, 1, 2), (0, 2, 1), (1, 2, 1)),
    (3, 1, 26, 30, (7, 7), (3, 3), (1, 1), (1, 1), (1, 1)),  # small images: vectors of outputs
    (4, 2, 25, 40, (5, 9), (2, 3), (1, 1), (1, 1), (1, 1)),
    (5, 1, 30, 32, (4, 4, 4), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    (2, 1, 2, 3, (30, 30), (2, 2), (3, 3), (0, 0), (1, 1)),  # elements that no tap sees
]


def used(monkeypatch):
    """Every size goes this way, and whether each map did is noted."""
    monkeypatch.setattr(_conv_taps, "LEAST", 0)
    monkeypatch.setattr(_conv_taps, "_WASTE", 1e9)
    monkeypatch.setattr(_conv_kernels, "_FEW", dict.fromkeys("wxy", -1))
    _conv_kernels._loop_sizes.cache_clear()
    found = set()

    def noting(name):
        f = getattr(_conv_taps, name)

        def g(*args):
            r = f(*args)
            if r is not None and r is not False:
                found.add(name)
            return r

        monkeypatch.setattr(_conv_taps, name, g)

    for name in ("forward", "input_grad", "weight_grad"):
        noting(name)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_three_maps(case, dtype, monkeypatch):
    n, groups, c, o, size, kernel, *steps = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, groups * c, *size)).astype(dtype)
    w = rng.standard_normal((groups * o, c, *kernel)).astype(dtype)
    want, back = written_out(x, w, *steps, groups)
    found = used(monkeypatch)
    close = dict(rtol=1e-4, atol=1e-3) if dtype == "float32" else dict(rtol=1e-11, atol=1e-11)
    y = _conv_kernels.forward(x, w, *steps, groups)
    assert y.dtype == dtype and y.flags.c_contiguous
    np.testing.assert_allclose(y, want, **close)
    v = rng.standard_normal(y.shape).astype(dtype)
    gx, gw = back(v)
    np.testing.assert_allclose(_conv_kernels.input_grad(v, w, size, *steps, groups), gx, **close)
    np.testing.assert_allclose(_conv_kernels.weight_grad(v, x, kernel, *steps, groups), gw, **close)
    many = np.prod(y.shape[2:]) * n >= 512
    assert found == {"forward", "input_grad", *(["weight_grad"] if many else [])}


def test_layouts_and_what_is_not_finite(monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 4, 20, 24)).astype("float32")
    w = rng.standard_normal((6, 4, 3, 3)).astype("float32")
    steps = (1, 1), (1, 1), (1, 1)
    y = _conv_kernels.forward(x, w, *steps, 1)
    gw = _conv_kernels.weight_grad(y, x, (3, 3), *steps, 1)
    found = used(monkeypatch)
    turned = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    flipped = np.ascontiguousarray(w[:, :, ::-1])[:, :, ::-1]
    np.testing.assert_array_equal(_conv_kernels.forward(turned, flipped, *steps, 1), y)
    np.testing.assert_array_equal(_conv_kernels.weight_grad(np.asfortranarray(y), turned, (3, 3), *steps, 1), gw)
    assert found == {"forward", "weight_grad"}
    x[1, 2, 5, 23] = np.inf  # at the end of a row: only what sees it is changed
    z = _conv_kernels.forward(x, w, *steps, 1)
    changed = np.zeros(z.shape, bool)
    changed[1, :, 4:7, 22:24] = True
    assert (np.isfinite(z) == ~changed).all()
    gz = _conv_kernels.weight_grad(y, x, (3, 3), *steps, 1)
    assert (np.isfinite(gz[:, [0, 1, 3]])).all() and not np.isfinite(gz[:, 2, 1, 1]).any()
    assert np.isfinite(gz[:, 2, :, 0]).all()  # the first tap of a row never sees its end


def test_transposed_and_plain_convolutions_by_central_differences(monkeypatch):
    found = used(monkeypatch)
    g = fg.Generator().manual_seed(0)
    x, w = (fg.randn(*s, dtype=fg.float64, generator=g, requires_grad=True) for s in ((1, 2, 9, 8), (2, 3, 3, 2)))
    assert fg.autograd.gradcheck(
        lambda x, w: fg.nn.functional.conv_transpose2d(x, w, stride=2, padding=1, output_padding=1), (x, w)
    )
    v = fg.randn(4, 2, 2, 3, dtype=fg.float64, generator=g, requires_grad=True)
    assert fg.autograd.gradcheck(lambda x, v: fg.nn.functional.conv2d(x, v, stride=(1, 2), dilation=2), (x, v))
    assert {"forward", "input_grad"} <= found
