"""Layers and functions against plain numpy, their gradients, initialisation, padded sequences."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F


def close(a, b, tol=1e-9):
    np.testing.assert_allclose(a.detach().numpy(), b, rtol=tol, atol=tol)


def rand(*shape, seed=0):
    return fg.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


def check_grad(fn, *inputs):
    assert fg.autograd.gradcheck(fn, inputs)
    assert fg.autograd.gradgradcheck(fn, inputs)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "groups"), [(1, 0, 1, 1), (2, 1, 1, 2), ((1, 2), (2, 0), (2, 1), 4)]
)
def test_conv2d(stride, padding, dilation, groups):
    x, w, b = rand(2, 4, 6, 7), rand(4, 4 // groups, 3, 2), rand(4)
    y = F.conv2d(x, w, b, stride, padding, dilation, groups)
    s, p, d = ((v, v) if isinstance(v, int) else v for v in (stride, padding, dilation))
    xp = np.pad(x.detach().numpy(), [(0, 0), (0, 0), (p[0],) * 2, (p[1],) * 2])
    ref = np.zeros(y.shape) + b.detach().numpy()[:, None, None]
    per = 4 // groups
    for o in range(4):
        for i in range(y.shape[2]):
            for j in range(y.shape[3]):
                rows, cols = i * s[0] + d[0] * np.arange(3), j * s[1] + d[1] * np.arange(2)
                part = xp[:, (o // (4 // groups)) * per :][:, :per][:, :, rows][:, :, :, cols]
                ref[:, o, i, j] += (part * w.detach().numpy()[o]).sum((1, 2, 3))
    close(y, ref)
    check_grad(lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation, groups), x, w, b)


def test_conv_transpose_is_the_transpose():
    x, w, y = rand(2, 3, 7), rand(4, 3, 3), rand(2, 4, 4)
    forward = (F.conv1d(x, w, stride=2, padding=1) * y).sum()
    backward = (F.conv_transpose1d(y, w, stride=2, padding=1, output_padding=0) * x).sum()
    close(forward, backward.item())
    check_grad(lambda y, w: F.conv_transpose1d(y, w, stride=2, padding=1, output_padding=1), y, w)


def test_conv_errors():
    with pytest.raises(RuntimeError, match=r"expected input.* to have 3 channels, but got 2 channels"):
        F.conv2d(fg.ones(1, 2, 5, 5), fg.ones(4, 3, 3, 3))
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F.conv1d(fg.ones(1, 1, 2), fg.ones(1, 1, 3))
    with pytest.raises(RuntimeError, match="should be the same"):
        F.conv1d(fg.ones(1, 1, 5).double(), fg.ones(1, 1, 3))
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)


def test_pooling():
    x = rand(2, 3, 6, 7)
    y, idx = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    flat = x.detach().numpy().reshape(2, 3, -1)
    close(y, np.take_along_axis(flat, idx.numpy().reshape(2, 3, -1), 2).reshape(y.shape))
    check_grad(lambda x: F.max_pool2d(x, 3, 2, 1), x)
    check_grad(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), x)
    check_grad(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), x)
    check_grad(lambda x: F.adaptive_max_pool2d(x, (4, 3)), x)
    close(F.adaptive_avg_pool2d(x, 1), x.detach().numpy().mean((2, 3), keepdims=True))
    nan = fg.tensor([[[1.0, math.nan, 2.0, 3.0]]])
    assert math.isnan(F.max_pool1d(nan, 2).numpy()[0, 0, 0])
    with pytest.raises(RuntimeError, match="at most half"):
        F.max_pool1d(nan, 2, padding=2)


@pytest.mark.parametrize("affine", [True, False])
def test_norms(affine):
    x = rand(4, 6, 5)
    w, b = (rand(6, seed=1), rand(6, seed=2)) if affine else (None, None)
    extra = (w, b) if affine else ()
    a = x.detach().numpy()
    ref = (a - a.mean((0, 2), keepdims=True)) / np.sqrt(a.var((0, 2), keepdims=True) + 1e-5)
    if affine:
        ref = ref * w.detach().numpy()[:, None] + b.detach().numpy()[:, None]
    rm, rv = fg.zeros(6, dtype=fg.float64), fg.ones(6, dtype=fg.float64)
    close(F.batch_norm(x, rm, rv, w, b, True, 0.1), ref)
    close(rm, 0.1 * a.mean((0, 2)))
    close(rv, 0.9 + 0.1 * a.var((0, 2), ddof=1))
    check_grad(lambda x, *p: F.batch_norm(x, None, None, *(p or (None, None)), True), x, *extra)
    check_grad(lambda x, *p: F.group_norm(x, 3, *(p or (None, None))), x, *extra)
    check_grad(lambda x, *p: F.instance_norm(x, None, None, *(p or (None, None))), x, *extra)
    xt = x.detach().transpose(1, 2).requires_grad_()
    check_grad(lambda x, *p: F.layer_norm(x, (6,), *(p or (None, None))), xt, *extra)
    check_grad(lambda x, *p: F.rms_norm(x, (6,), *p[:1]), xt, *extra[:1])


def test_layer_norm_large_mean_is_accurate():
    x = fg.tensor(np.random.default_rng(0).normal(size=(4, 1000)).astype("f") + 10000)
    y = F.layer_norm(x, (1000,)).numpy()
    a = x.numpy().astype("d")
    ref = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    assert np.abs(y - ref).max() < 2e-3


def test_softmax_extremes():
    x = fg.tensor([[1000.0, 0.0], [-math.inf, 0.0]])
    assert F.softmax(x, 1).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert F.log_softmax(x, 1)[0].tolist() == [0.0, -1000.0]
    check_grad(lambda x: F.softmax(x, 0), rand(3, 4))
    check_grad(lambda x: F.log_softmax(x, -1), rand(3, 4))
    with pytest.warns(UserWarning, match="Implicit dimension choice"):
        F.softmax(x)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(smoothing, weighted, reduction):
    x, t = rand(5, 4), np.array([0, 3, -100, 1, 1])
    w = np.array([0.5, 1.0, 2.0, 3.0]) if weighted else np.ones(4)
    a = x.detach().numpy()
    logp = a - a.max(1, keepdims=True)
    logp = logp - np.log(np.exp(logp).sum(1, keepdims=True))
    keep = t >= 0
    safe = np.where(keep, t, 0)
    own = -logp[np.arange(5), safe] * w[safe] * keep
    spread = -(logp * w).sum(1) * keep / 4
    loss = (1 - smoothing) * own + smoothing * spread
    total = (w[safe] * keep).sum()
    ref = loss if reduction == "none" else (loss.sum() if reduction == "sum" else loss.sum() / total)
    weight = fg.tensor(w) if weighted else None

    def fn(x):
        return F.cross_entropy(x, fg.tensor(t), weight, reduction=reduction, label_smoothing=smoothing)

    close(fn(x), ref)
    check_grad(fn, x)


def test_cross_entropy_probabilities_and_errors():
    x, p = rand(3, 4), F.softmax(rand(3, 4, seed=1), 1).detach()
    ref = -(F.log_softmax(x, 1) * p).sum(1).mean()
    close(F.cross_entropy(x, p), ref.item())
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        F.cross_entropy(x, fg.tensor([0, 7, 1]))
    with pytest.raises(ValueError, match="to match target batch_size"):
        F.cross_entropy(x, fg.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="expected target of dtype int64"):
        F.cross_entropy(x, fg.tensor([0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match="not a valid value for reduction"):
        F.cross_entropy(x, fg.tensor([0, 1, 2]), reduction="avg")


def test_mse_warns_about_broadcasting():
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(fg.ones(3, 1), fg.ones(3))


def test_bce():
    z = rand(3, 4)
    t = fg.tensor(np.random.default_rng(3).uniform(size=(3, 4)))
    p = z.sigmoid()
    close(F.binary_cross_entropy_with_logits(z, t), F.binary_cross_entropy(p, t).item())
    big = fg.tensor([1000.0, -1000.0])
    assert F.binary_cross_entropy_with_logits(big, fg.tensor([1.0, 0.0])).item() == 0.0
    assert F.binary_cross_entropy(fg.tensor([0.0]), fg.tensor([1.0])).item() == 100.0
    check_grad(lambda z: F.binary_cross_entropy_with_logits(z, t), z)


def test_embedding():
    w = rand(5, 3)
    i = fg.tensor([[0, 4], [4, 2]])
    close(F.embedding(i, w), w.detach().numpy()[i.numpy()])
    F.embedding(i, w, padding_idx=2).sum().backward()
    assert w.grad[:, 0].tolist() == [1.0, 0.0, 0.0, 0.0, 2.0]
    check_grad(lambda w: F.embedding(i, w), w.detach().requires_grad_())
    with pytest.raises(IndexError, match="out of range"):
        F.embedding(fg.tensor([5]), w)
    many = fg.tensor(np.random.default_rng(0).integers(0, 5, 500))
    w.grad = None
    F.embedding(many, w).sum().backward()
    close(w.grad[:, 0], np.bincount(many.numpy(), minlength=5).astype(float))


def test_attention():
    q, k, v = rand(2, 3, 4), rand(2, 5, 4, seed=1), rand(2, 5, 6, seed=2)
    qa, ka, va = (t.detach().numpy() for t in (q, k, v))
    s = qa @ ka.swapaxes(1, 2) / 2
    e = np.exp(s - s.max(-1, keepdims=True))
    close(F.scaled_dot_product_attention(q, k, v), (e / e.sum(-1, keepdims=True)) @ va)
    none = fg.zeros(3, 5, dtype=fg.bool)
    assert not F.scaled_dot_product_attention(q, k, v, none).detach().any()
    check_grad(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v)


def test_packed_lstm_equals_running_each_sequence_alone():
    fg.manual_seed(0)
    lstm = nn.LSTM(3, 4, 2, bidirectional=True)
    seqs = [fg.randn(n, 3) for n in (5, 2, 4)]
    packed = nn.utils.rnn.pack_sequence(seqs, enforce_sorted=False)
    out, (h, c) = lstm(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(out)
    assert lengths.tolist() == [5, 2, 4]
    for i, s in enumerate(seqs):
        alone, (h1, _) = lstm(s)
        close(padded[: len(s), i], alone.detach().numpy(), 1e-6)
        close(h[:, i], h1.detach().numpy(), 1e-6)


def test_causal_transformer_does_not_look_ahead():
    fg.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = fg.randn(1, 5, 8)
    y = layer(x, src_mask=mask)
    x2 = x.clone()
    x2[:, 3:] = 0
    close(layer(x2, src_mask=mask)[:, :3], y[:, :3].detach().numpy(), 1e-6)


def test_interpolate_and_grid_sample_identity():
    x = rand(1, 2, 4, 5)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        close(F.interpolate(x, (4, 5), mode=mode), x.detach().numpy())
    theta = fg.tensor([[[1.0, 0, 0], [0, 1.0, 0]]], dtype=fg.float64)
    grid = F.affine_grid(theta, (1, 2, 4, 5), align_corners=False)
    close(F.grid_sample(x, grid, align_corners=False), x.detach().numpy())
    close(F.fold(F.unfold(x, 2, stride=2), (4, 4), 2, stride=2) if x.shape[3] == 4 else x, x.detach().numpy())
    check_grad(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=False), x)


def test_initialisers_have_the_right_spread():
    fg.manual_seed(0)
    w = fg.empty(200, 300)
    nn.init.kaiming_uniform_(w, nonlinearity="relu")
    bound = math.sqrt(6 / 300)
    assert w.abs().max().item() <= bound and w.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
    nn.init.xavier_normal_(w)
    assert w.std().item() == pytest.approx(math.sqrt(2 / 500), rel=0.02)
    nn.init.trunc_normal_(w, std=1.0, a=-1.0, b=1.0)
    assert w.abs().max().item() <= 1.0 and w.std().item() == pytest.approx(0.5396, rel=0.02)
    q = nn.init.orthogonal_(fg.empty(5, 8, dtype=fg.float64))
    close(q @ q.t(), np.eye(5))
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        nn.init.xavier_uniform_(fg.empty(3))


def test_batch_norm_module_modes():
    bn = nn.BatchNorm1d(3)
    x = fg.randn(8, 3)
    bn(x)
    assert bn.num_batches_tracked.item() == 1
    bn.eval()
    before = bn.running_mean.clone()
    close(bn(x), ((x - before) / (bn.running_var + 1e-5).sqrt()).numpy(), 1e-5)
    assert fg.equal(bn.running_mean, before)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(fg.ones(1, 3))
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.BatchNorm2d(3)(x)


def test_training_with_dropout_learns():
    fg.manual_seed(0)
    x = fg.randn(64, 2)
    y = (x[:, 0] * x[:, 1] > 0).long()
    net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
    opt = fg.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(150):
        opt.zero_grad()
        F.cross_entropy(net(x), y).backward()
        opt.step()
    net.eval()
    assert (net(x).argmax(1) == y).double().mean().item() > 0.95
