"""Pools, interpolation and norms of small tensors by their short way, against the operators they are made of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.autograd.modes import slow_paths
from fusegrad.nn import functional as F
from fusegrad.ops import _conv_kernels as ck

IMAGE, ROW, BLOCK = (2, 3, 6, 7), (2, 3, 8), (1, 2, 3, 4, 4)
ONE = {
    "avg 2": (lambda x: F.avg_pool2d(x, 2), IMAGE[1:]),
    "avg past the end": (lambda x: F.avg_pool2d(x, [3, 2], 2, 1, True, False), IMAGE[1:]),
    "avg of a row": (lambda x: F.avg_pool1d(x, 3, 1, 1), ROW[1:]),
    "avg of a block": (lambda x: F.avg_pool3d(x, 2, divisor_override=3), BLOCK[1:]),
    "max 2": (lambda x: F.max_pool2d(x, 2), IMAGE[1:]),
    "max, transposed": (lambda x: F.max_pool2d(x.mT, (2, 3), (1, 2)), IMAGE[1:]),
    "max, overlapping": (lambda x: F.max_pool2d(x, 3, 1, 1, ceil_mode=True), IMAGE[1:]),
    "max of a row": (lambda x: F.max_pool1d(x, [2], stride=(), dilation=2), ROW[1:]),
    "max of a block": (lambda x: F.max_pool3d(x, 2, 1), BLOCK[1:]),
    "max of many": (lambda x: F.max_pool2d(x, 2), (2, 70, 70)),
    "prelu": (lambda x: F.prelu(x, x[0, 0, :1] / 8), IMAGE[1:]),
    "prelu, a number": (lambda x: F.prelu(x, x[0, 0, 0]), IMAGE[1:]),
}
CASES = {
    "avg 2": (lambda x: F.avg_pool2d(x, 2), IMAGE),
    "avg past the end": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), IMAGE),
    "avg with a divisor": (lambda x: F.avg_pool2d(x, (2, 3), divisor_override=5), IMAGE),
    "avg of a row": (lambda x: F.avg_pool1d(x, 3, 1, 1), ROW),
    "avg of a block": (lambda x: F.avg_pool3d(x, 2), BLOCK),
    "adaptive avg": (lambda x: F.adaptive_avg_pool2d(x, (4, 3)), IMAGE),
    "adaptive avg, larger": (lambda x: F.adaptive_avg_pool2d(x, (None, 9)), IMAGE),
    "adaptive avg of a row": (lambda x: F.adaptive_avg_pool1d(x, 3), ROW),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest-exact": (lambda x: F.interpolate(x, size=(4, 9), mode="nearest-exact"), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=(1.7, 2.0), mode="bilinear"), IMAGE),
    "bilinear, corners": (lambda x: F.interpolate(x, size=(3, 9), mode="bilinear", align_corners=True), IMAGE),
    "bilinear, the same size": (lambda x: F.interpolate(x, size=(6, 7), mode="bilinear"), IMAGE),
    "bicubic": (lambda x: F.interpolate(x, size=5, mode="bicubic"), IMAGE),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), BLOCK),
    "max 2": (lambda x: F.max_pool2d(x, 2), IMAGE),
    "max, overlapping": (lambda x: F.max_pool2d(x, 3, 1, 1, ceil_mode=True), IMAGE),
    "max of a row, dilated": (lambda x: F.max_pool1d(x, [2], stride=(), dilation=2), ROW),
    **{f"{name}, one image": (f, shape) for name, (f, shape) in ONE.items()},
    "glu": (lambda x: F.glu(x, 2), IMAGE),
    "glu of the last": (lambda x: F.glu(x.mT), IMAGE),
    "binary cross entropy": (lambda x: F.binary_cross_entropy(x.sigmoid(), x.cos().abs()), ROW),
    "each binary cross entropy": (
        lambda x: F.binary_cross_entropy(x.mT.sigmoid(), x.detach().mT.cos().abs(), reduction="none"),
        ROW,
    ),
    "addmm": (lambda x: fg.addmm(x[0, :, :3], x[1], x[0].t()), ROW),
    "addmm of a row": (lambda x: x[0, 0, :3].addmm(x[1, :, :5], x[0].t()[:5]), ROW),
    "addmm with factors": (lambda x: fg.addmm(x[0, :, :3], x[1], x[0].t(), beta=0.5, alpha=2), ROW),
    "baddbmm": (lambda x: fg.baddbmm(x[..., :3], x, x.mT), ROW),
    "baddbmm, broadcast": (lambda x: fg.baddbmm(x[:1, :, :3], x, x.mT), ROW),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (4, 3)), IMAGE),
    "adaptive max and places": (lambda x: F.adaptive_max_pool2d(x, 4, return_indices=True)[1] + x.sum() * 0, IMAGE),
    "conv": (lambda x: F.conv2d(x, x[:, :, :3, :2], x[0, 0, 0, :2], (2, 1), (1, 0)), IMAGE),
    "conv in groups": (lambda x: F.conv2d(x, x.reshape(-1)[:12].view(6, 1, 1, 2), None, 1, 1, (1, 2), 3), IMAGE),
    "conv transposed": (lambda x: F.conv_transpose2d(x, x[0, :, :4, :2].reshape(3, 2, 2, 2), x[0, 0, 0, :2], 2), IMAGE),
    "conv transposed in groups": (
        lambda x: F.conv_transpose2d(x, x[0, :, :2, :3, None], None, (2, 1), (1, 0), (1, 0), 3, (2, 1)),
        IMAGE,
    ),
    "conv of a row transposed": (lambda x: F.conv_transpose1d(x, x[:1, :, :2].reshape(3, 1, 2), padding=1), ROW),
    "conv of a row": (lambda x: F.conv1d(x, x[:, :, :3], x[0, 0, :2], padding=2, dilation=2), ROW),
    "group norm": (lambda x: F.group_norm(x, 3, x[0, :, 0, 0], x[1, :, 0, 0]), IMAGE),
    "group norm, no parameters": (lambda x: F.group_norm(x, 1), ROW),
    "batch norm": (lambda x: F.batch_norm(x, None, None, x[0, :, 0, 0], x[1, :, 0, 0], training=True), IMAGE),
    "batch norm of a row": (lambda x: F.batch_norm(x, x.new_zeros(3), x.new_ones(3), training=True), ROW),
    "batch norm, given": (lambda x: F.batch_norm(x, x.new_ones(3), x.new_ones(3), x[0, :, 0], x[1, :, 0]), ROW),
}
DTYPES = [fg.float32, fg.float64]


def by_both(run) -> list:
    found = []
    for slow in (0, 1):
        slow_paths(slow)
        try:
            found.append(run())
        finally:
            slow_paths(-slow)
    return found


def derivatives(f, shape, dtype) -> list:
    """Values, gradient, gradient of the gradient (None where it does not depend on the input)."""
    rng = np.random.default_rng(0)
    x = fg.from_numpy(rng.permutation(np.arange(np.prod(shape)) / 8 - 3).reshape(shape)).to(dtype).requires_grad_()
    y = f(x)
    g = fg.from_numpy(rng.standard_normal(tuple(y.shape))).to(dtype)
    (plain,) = fg.autograd.grad(y, x, g, retain_graph=True)
    (first,) = fg.autograd.grad(y, x, g, create_graph=True)
    second = fg.autograd.grad((first * first).sum(), x, allow_unused=True)[0] if first.requires_grad else None
    return [y.detach(), plain, first.detach(), second]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_as_the_operators(name, dtype):
    f, shape = CASES[name]
    close = {"rtol": 2e-4, "atol": 2e-5} if dtype is fg.float32 else {"rtol": 1e-11, "atol": 1e-11}
    for a, b in zip(*by_both(lambda: derivatives(f, shape, dtype)), strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            assert a.dtype is b.dtype
            np.testing.assert_allclose(a.numpy(), b.numpy(), **close)


ALONE = [n for n in CASES if not any(w in n for w in ("norm", "places", "conv", "entropy"))]


@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan], ids=str)
def test_infinite_elements_stay_in_their_windows(name, special):
    f, shape = CASES[name]
    x = np.zeros(shape, np.float32)
    x.reshape(-1)[[0, 5, -1]] = special
    fast, slow = by_both(lambda: f(fg.from_numpy(x)).numpy())
    np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("size", [(6, 7), (6, 3), (3, 7), (2, 2)], ids=str)
@pytest.mark.parametrize("mode", ["pool", "area", "nearest", "bilinear", "bicubic"])
def test_results_are_laid_out_the_same_compiled(mode, size):
    x = fg.arange(252.0)
    images = x.reshape(2, 6, 7, 3).permute(0, 3, 1, 2), x.reshape(2, 3, 7, 6).mT, x.reshape(2, 3, 6, 7)

    def resampled(x):
        return F.adaptive_avg_pool2d(x, size) if mode == "pool" else F.interpolate(x, size, mode=mode)

    for image in images:
        y = fg.compile(resampled)(image)
        assert y.stride() == resampled(image).stride()
        assert y.data_ptr() != image.data_ptr()


def test_means_of_whole_numbers_are_exact():
    x = fg.arange(81.0).view(1, 1, 9, 9)
    assert F.avg_pool2d(x, 3).flatten().tolist() == [10, 13, 16, 37, 40, 43, 64, 67, 70]
    assert F.adaptive_avg_pool2d(x, 3).flatten().tolist() == [10, 13, 16, 37, 40, 43, 64, 67, 70]


def test_names_are_those_of_pytorch():
    x = fg.zeros(1, 2, 4, 4, requires_grad=True)
    for f, name in (
        (lambda: F.avg_pool2d(x, 2), "AvgPool2DBackward0"),
        (lambda: F.adaptive_avg_pool2d(x, 3), "AdaptiveAvgPool2DBackward0"),
        (lambda: F.interpolate(x, scale_factor=2), "UpsampleNearest2DBackward0"),
        (lambda: F.interpolate(x, size=3, mode="nearest-exact"), "UpsampleNearestExact2DBackward0"),
        (lambda: F.interpolate(x, size=3, mode="bilinear", antialias=True), "UpsampleBilinear2DAaBackward0"),
        (lambda: F.batch_norm(x, fg.zeros(2), fg.ones(2)), "NativeBatchNormBackward0"),
        (lambda: F.batch_norm(x, None, None, training=True), "NativeBatchNormBackward0"),
        (lambda: F.conv2d(x, x, x[0, :1, 0, 0]), "ConvolutionBackward0"),
        (lambda: F.group_norm(x, 2), "NativeGroupNormBackward0"),
    ):
        assert f().grad_fn.name() == name


@pytest.mark.parametrize("step, border, apart", list(itertools.product((1, 2, 3), (0, 1, 2), (1, 2))))
@pytest.mark.parametrize("nd", [1, 2])
def test_convolutions_of_few_elements(nd, step, border, apart, monkeypatch):
    """One loop against columns and products: the result and both derivatives; nothing beside the input takes part."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 2, 7, 6)[: 2 + nd]), rng.standard_normal((3, 2, 3, 2)[: 2 + nd])
    along = tuple((v,) * nd for v in (step, border, apart))
    g = rng.standard_normal(ck.forward(x, w, *along, 1).shape)
    endless = np.where(w == w.max(), np.inf, w)

    def run() -> list:
        back = ck.input_grad(g, endless, x.shape[2:], *along, 1)
        return [
            ck.forward(x, w, *along, 1),
            ck.input_grad(g, w, x.shape[2:], *along, 1),
            ck.weight_grad(g, x, w.shape[2:], *along, 1),
            np.isfinite(back),
        ]

    monkeypatch.setattr(ck, "_FEW", dict.fromkeys("xwy", 1 << 20))
    ck._loop_sizes.cache_clear()
    few = run()
    monkeypatch.setattr(ck, "_FEW", dict.fromkeys("xwy", 0))
    ck._loop_sizes.cache_clear()
    with np.errstate(invalid="ignore"):
        many = run()
    monkeypatch.undo()
    ck._loop_sizes.cache_clear()
    for a, b in zip(few[:3], many[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    if step > 1:  # with step 1 the columns' way is a convolution with a border of zeros
        np.testing.assert_array_equal(few[3], many[3])


REFUSED = [
    lambda x: F.conv2d(x, fg.ones(2, 2, 1, 1)),
    lambda x: F.conv2d(x, fg.ones(2, 3, 5, 1)),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1, 1), fg.ones(3)),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1, 1), stride=0),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1, 1), padding=-1),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1, 1), padding=(1, 1, 1)),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1, 1, dtype=fg.float64)),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1, 1), groups=2),
    lambda x: F.conv2d(x, fg.ones(2, 3, 1)),
    lambda x: F.avg_pool2d(x, 0),
    lambda x: F.avg_pool2d(x, 2, 0),
    lambda x: F.avg_pool2d(x, 2, padding=2),
    lambda x: F.avg_pool2d(x, 5),
    lambda x: F.avg_pool2d(x, (2, 2, 2)),
    lambda x: F.avg_pool2d(x, 2, divisor_override=0),
    lambda x: F.max_pool2d(x, 2, 0),
    lambda x: F.max_pool2d(x, (2, 2, 2)),
    lambda x: F.max_pool2d(x, 2, padding=2),
    lambda x: F.max_pool2d(x, 7),
    lambda x: F.adaptive_avg_pool2d(x, -1),
    lambda x: F.adaptive_max_pool2d(x, (2, 2, 2)),
    lambda x: F.adaptive_max_pool2d(x, -1),
    lambda x: F.interpolate(x, scale_factor=float("nan")),
    lambda x: F.interpolate(x, scale_factor=0.1),
    lambda x: F.interpolate(x, size=2, scale_factor=2),
    lambda x: F.interpolate(x, size=2, mode="trilinear"),
    lambda x: F.interpolate(x, size=2, align_corners=True),
    lambda x: F.interpolate(x, size=(2, 2, 2)),
    lambda x: F.group_norm(x, 2),
    lambda x: F.group_norm(x, 0),
    lambda x: F.group_norm(x, 3, fg.ones(2)),
    lambda x: F.batch_norm(x, fg.zeros(3), None),
    lambda x: F.batch_norm(x, fg.zeros(2), fg.ones(2)),
    lambda x: F.batch_norm(x[:1, :, :1, :1], None, None, training=True),
    lambda x: F.batch_norm(x, fg.zeros(3, requires_grad=True), fg.ones(3)),
    lambda x: F.batch_norm(x, fg.zeros(3), fg.ones(3), eps=-1.0),
]


@pytest.mark.parametrize("i", range(len(REFUSED)))
def test_refusals_are_the_same(i):
    def run() -> tuple:
        with pytest.raises(Exception) as e:  # noqa: PT011  (compared)
            REFUSED[i](fg.ones(2, 3, 4, 4))
        return e.type, str(e.value)

    fast, slow = by_both(run)
    assert fast == slow


def test_running_statistics_move_once():
    """Statistics, versions and the counter after two steps, as without the short way."""

    def run() -> list:
        fg.manual_seed(0)
        norm = fg.nn.BatchNorm2d(3)
        for _ in range(2):
            norm(fg.randn(*IMAGE))
        stats = norm.running_mean, norm.running_var, norm.num_batches_tracked
        return [(t.tolist(), t._version) for t in stats]

    fast, slow = by_both(run)
    for (a, va), (b, vb) in zip(fast, slow, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        assert va > 0 and vb > 0
    assert fast[2] == (2, fast[2][1])
    shared = fg.ones(3)
    F.batch_norm(fg.ones(*IMAGE), shared, shared, training=True, momentum=0.5)
    np.testing.assert_allclose(shared.tolist(), [0.5] * 3)


REFUSED = [(0,), (2, 0), (2, 1, 2), (9,), ((2, 2, 2),), (2, -1), (2.0,), ("a",), (2, 2, 0, 1, 1.5)]


@pytest.mark.parametrize("args", REFUSED, ids=str)
@pytest.mark.parametrize("pool", [F.max_pool2d, F.avg_pool2d])
@pytest.mark.parametrize("shape", [IMAGE, IMAGE[1:], IMAGE[2:], (3, 0, 4)], ids=str)
def test_pools_refuse_the_same(pool, args, shape):
    def run():
        try:
            return pool(fg.ones(shape), *args).tolist()
        except Exception as e:  # noqa: BLE001  (compared)
            return type(e), str(e)

    fast, slow = by_both(run)
    assert fast == slow


def test_single_images_are_one_node():
    x = fg.randn(3, 6, 6, requires_grad=True)
    for f, name in ((F.max_pool2d, "MaxPool2DWithIndices"), (F.avg_pool2d, "AvgPool2D")):
        y = f(x, 2)
        assert type(y.grad_fn).__name__ == f"{name}Backward0" and y.grad_fn.next_functions[0][0].variable is x


def test_max_of_one_image_under_transforms():
    x = fg.randn(4, 2, 6, 6, dtype=fg.float64)

    def f(v):
        return F.max_pool2d(v, 2)

    one = x[0].clone().requires_grad_()
    y, g = f(one), fg.randn(5, 2, 3, 3, dtype=fg.float64)
    (many,) = fg.autograd.grad(y, one, g, is_grads_batched=True, retain_graph=True)
    for row, want in zip(many, g, strict=True):
        assert fg.equal(row, fg.autograd.grad(y, one, want, retain_graph=True)[0])
    assert fg.equal(fg.func.vmap(f)(x), f(x))
    (value, slope) = fg.func.jvp(f, (x[0],), (x[1],))
    assert fg.equal(value, f(x[0])) and slope.shape == value.shape


CONV_BAD = [
    lambda x: F.conv_transpose1d(x, x[0, :2, None]), lambda x: F.conv_transpose1d(x, x[0, :, None], x[0, 0]),
    lambda x: F.conv_transpose1d(x, x[0, :, None], stride=0), lambda x: F.conv_transpose1d(x, x[0, :, None], padding=9),
    lambda x: F.conv_transpose1d(x, x[0, :, None], padding=-1), lambda x: F.conv_transpose1d(x, x[0, :, None].double()),
    lambda x: F.conv_transpose1d(x, x[0, :, None], output_padding=1),
    lambda x: F.conv_transpose1d(x, x[0, :, None], groups=2),
    lambda x: F.conv_transpose1d(x, x[0, :, None], groups=0), lambda x: F.conv_transpose1d(x[:, :, :0], x[0, :, None]),
    lambda x: F.conv_transpose1d(x, x[0, :, None], stride=(1, 2)),
    lambda x: F.conv_transpose1d(x, x[0, :, None], stride=[2]),
    lambda x: F.conv_transpose1d(x, x[0]), lambda x: F.conv_transpose1d(x[:0], x[0, :, None]),
]  # fmt: skip
BAD = [
    *CONV_BAD,
    lambda x: F.glu(x, 1), lambda x: F.glu(x, 3), lambda x: F.glu(x[0, 0, 0]), lambda x: F.glu(x.long()),
    lambda x: F.glu(x, True), lambda x: fg.addmm(x[0], x[0], x[1]), lambda x: fg.addmm(x[0, :, :4], x[0], x[1].t()),
    lambda x: fg.addmm(x, x[0], x[1].t()), lambda x: fg.addmm(x[0, 0, :3].double(), x[0], x[1].t()),
    lambda x: fg.addmm(x[0, 0, 0], x[0], x[1].t()), lambda x: fg.addmm(x[0, :, :1], x[0], x[1].t(), beta=True),
    lambda x: fg.baddbmm(x, x, x), lambda x: fg.baddbmm(x[..., :3], x, x.mT[:1]), lambda x: fg.baddbmm(x[0], x, x.mT),
    lambda x: F.binary_cross_entropy(x, x), lambda x: F.binary_cross_entropy(x / 10, -x / 10),
    lambda x: F.binary_cross_entropy(x / 10, x * float("nan")), lambda x: F.binary_cross_entropy(x * 0, x.double() * 0),
    lambda x: F.binary_cross_entropy(x[..., :1] * 0, x * 0), lambda x: F.binary_cross_entropy(x[:0], x[:0]),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("at", range(len(BAD)))
def test_the_same_is_refused(at):
    x = fg.arange(1.0, 49).reshape(2, 3, 8)

    def run():
        try:
            return BAD[at](x).tolist()
        except Exception as e:  # noqa: BLE001  (compared)
            return type(e), str(e)

    fast, slow = by_both(run)
    assert repr(fast) == repr(slow)


@pytest.mark.parametrize("kind", DTYPES, ids=str)
def test_binary_cross_entropy_at_the_ends(kind):
    """Logarithms are not below -100; values against numpy's."""
    p = np.array([0, 1, 1e-40, 0.25, 1 - 2**-20, 0.5, 0, 1], np.float64)
    t = np.array([0, 1, 1, 0.5, 0, 0.125, 1, 0], np.float64)
    p, t = (v.astype(kind.np).astype(np.float64) for v in (p, t))
    with np.errstate(divide="ignore"):
        want = (t - 1) * np.maximum(np.log1p(-p), -100) - t * np.maximum(np.log(p), -100)
    got = F.binary_cross_entropy(fg.from_numpy(p).to(kind), fg.from_numpy(t).to(kind), reduction="none")
    np.testing.assert_allclose(got.numpy(), want, rtol=5e-7 if kind is fg.float32 else 1e-15)
