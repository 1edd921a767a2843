"""What PyTorch has under second names and few programs use: each does what its better known form does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import fusegrad as T
from fusegrad import nn

F = nn.functional
X = T.arange(6.0).view(2, 3)


def test_facts() -> None:
    assert (X.get_device(), X.is_signed(), X.is_conj(), X.is_neg(), X.is_cpu, X.is_pinned(), X.name) == (
        -1, True, False, False, True, False, None,
    )  # fmt: skip
    assert X.is_same_size(X + 1) and not X.is_same_size(X.t()) and X.is_set_to(X.view(2, 3)) and not X.is_set_to(X[:1])
    assert X.dim_order() == (0, 1) and X.t().dim_order() == (1, 0) and X.to_dense() is X
    assert X.new(2, 3).shape == (2, 3) and X.double().new([1, 2]).dtype is T.float64
    with pytest.raises(RuntimeError, match="accelerator"):
        X.pin_memory()


@pytest.mark.parametrize(
    "name,args",
    [
        ("view", ((3, 2),)), ("t", ()), ("unbind", ()), ("select", (0, 1)), ("expand", ((2, 3),)), ("split", (1,)),
        ("transpose", (0, 1)), ("permute", ((1, 0),)), ("detach", ()), ("diagonal", ()), ("squeeze", ()),
        ("unsqueeze", (0,)), ("unfold", (0, 2, 1)), ("as_strided", ((2, 2), (1, 1))),
    ],
)  # fmt: skip
def test_copies_of_views(name: str, args: tuple) -> None:
    x = X.clone().requires_grad_()
    got, want = getattr(T, f"{name}_copy")(x, *args), getattr(x, name)(*args)
    for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
        T.testing.assert_close(a, b)
        assert a._base is None and a.requires_grad == b.requires_grad
        a.detach().zero_()
    T.testing.assert_close(x.detach(), X)


def test_losses_and_layers() -> None:
    y = X.softmax(1)
    for k, reduction in enumerate(("none", "mean", "sum")):
        pairs = [
            (T.kl_div(y.log(), y + 0.1, k), F.kl_div(y.log(), y + 0.1, reduction=reduction)),
            (
                T.binary_cross_entropy_with_logits(X, y, None, None, k),
                F.binary_cross_entropy_with_logits(X, y, reduction=reduction),
            ),
            (
                T.margin_ranking_loss(X, y, y.sign(), 0.1, k),
                F.margin_ranking_loss(X, y, y.sign(), 0.1, reduction=reduction),
            ),
            (T.hinge_embedding_loss(X, y.sign(), 1.0, k), F.hinge_embedding_loss(X, y.sign(), reduction=reduction)),
            (T.poisson_nll_loss(X, y, True, False, 1e-8, k), F.poisson_nll_loss(X, y, reduction=reduction)),
        ]
        for a, b in pairs:
            T.testing.assert_close(a, b)
    assert T.constant_pad_nd(X, (1, 1), 2.0)[:, 0].tolist() == [2, 2] and T.alpha_dropout(X, 0.5, False) is not None
    T.testing.assert_close(X.prelu(T.tensor(0.1)), F.prelu(X, T.tensor(0.1)))
    T.testing.assert_close(T.frobenius_norm(X, (0, 1)), X.norm())
    T.testing.assert_close(T.nuclear_norm(X), T.linalg.svdvals(X).sum())
    T.testing.assert_close(T.norm_except_dim(X, 2, 0), X.norm(2, 1, True))
    assert X.clone().map_(X, lambda a, b: a + b).tolist() == (2 * X).tolist()
    with pytest.raises(RuntimeError, match="map_"):
        X.clone().requires_grad_().map_(X, max)


def test_new_tensors() -> None:
    with pytest.warns(UserWarning, match="range is deprecated"):
        assert T.range(0, 3).tolist() == [0, 1, 2, 3]
    data = bytearray(np.arange(4, dtype=np.float32).tobytes())
    t = T.frombuffer(data, dtype=T.float32, offset=4)
    t[0] = 7
    assert np.frombuffer(data, np.float32).tolist() == [0, 7, 2, 3]
    with pytest.raises(ValueError, match="offset"):
        T.frombuffer(data, dtype=T.float32, offset=16)
    for length in (1, 2, 5, 8):
        T.testing.assert_close(T.kaiser_window(length, False, 6.0, dtype=T.float64).numpy(), np.kaiser(length, 6.0))
        T.testing.assert_close(T.bartlett_window(length, False, dtype=T.float64).numpy(), np.bartlett(length))
    assert T.bartlett_window(4).tolist() == [0, 0.5, 1, 0.5]


def test_low_rank() -> None:
    T.manual_seed(0)
    a = T.randn(9, 3, dtype=T.float64) @ T.randn(3, 6, dtype=T.float64)
    for m in (a, a.mT):
        u, s, v = T.svd_lowrank(m, q=3)
        T.testing.assert_close(u @ s.diag() @ v.mT, m)
        u, s, v = T.pca_lowrank(m)
        T.testing.assert_close((u * s) @ v.mT, m - m.mean(0))
    with pytest.raises(ValueError, match="q"):
        T.svd_lowrank(a, q=7)
    b = T.randn(2, 4, 4, dtype=T.float64)
    factors, pivots = b.lu()
    p, lower, upper = T.lu_unpack(factors, pivots)
    T.testing.assert_close(p @ lower @ upper, b)
    T.testing.assert_close(b @ T.lu_solve(b[:, :, :2], factors, pivots), b[:, :, :2])


def test_registration_hooks() -> None:
    from fusegrad.nn.modules import module as M

    seen: list = []
    handles = [
        getattr(M, f"register_module_{kind}_registration_hook")(lambda m, name, value: seen.append(name))
        for kind in ("module", "parameter", "buffer")
    ]
    nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    names = ["weight", "bias", "weight", "bias", "running_mean", "running_var", "num_batches_tracked", "0", "1"]
    assert seen == names
    for h in handles:
        h.remove()
    with nn.register_module_module_registration_hook(lambda m, name, child: nn.Identity()):
        assert isinstance(nn.Sequential(nn.Linear(2, 2))[0], nn.Identity)
    assert isinstance(nn.Sequential(nn.Linear(2, 2))[0], nn.Linear) and len(seen) == 9


def test_old_spectral_norm() -> None:
    T.manual_seed(0)
    m = nn.utils.spectral_norm(nn.Linear(4, 3), n_power_iterations=30)
    assert sorted(m.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    out = m(T.randn(2, 4))
    np.testing.assert_allclose(T.linalg.svdvals(m.weight)[0].item(), 1, rtol=1e-4)
    out.sum().backward()
    assert m.weight_orig.grad is not None
    with pytest.raises(RuntimeError, match="two spectral_norm"):
        nn.utils.spectral_norm(m)
    nn.utils.remove_spectral_norm(m)
    assert sorted(m.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not found"):
        nn.utils.remove_spectral_norm(m)
    assert nn.utils.spectral_norm(nn.ConvTranspose2d(2, 5, 3)).weight_u.shape == (5,)


@pytest.mark.parametrize("kind", ["conv", "transposed", "linear"])
def test_fused_normalisation(kind: str) -> None:
    T.manual_seed(0)
    make = {"conv": nn.Conv2d, "transposed": nn.ConvTranspose2d, "linear": nn.Linear}[kind]
    layer = make(3, 4) if kind == "linear" else make(3, 4, 2)
    bn = (nn.BatchNorm1d if kind == "linear" else nn.BatchNorm2d)(4)
    x = T.randn(5, 3) if kind == "linear" else T.randn(5, 3, 6, 6)
    with T.no_grad():
        bn.weight.uniform_(0.5, 2), bn.bias.normal_(), bn(layer(x))
    fuse = nn.utils.fuse_linear_bn_eval if kind == "linear" else nn.utils.fuse_conv_bn_eval
    with pytest.raises(AssertionError, match="eval"):
        fuse(layer, bn)
    layer.eval(), bn.eval()
    fused = fuse(layer, bn, transpose=True) if kind == "transposed" else fuse(layer, bn)
    T.testing.assert_close(fused(x), bn(layer(x)), rtol=1e-4, atol=1e-5)


def test_modules_and_tools() -> None:
    from fusegrad.nn.attention import SDPBackend, sdpa_kernel
    from fusegrad.utils.data import DistributedSampler

    linear = nn.Linear(3, 2)
    wrapped = nn.DataParallel(linear)
    assert list(wrapped.state_dict()) == ["module.weight", "module.bias"]
    T.testing.assert_close(wrapped(X), linear(X))
    assert linear.to_empty(device="cpu") is linear and linear.weight.shape == (2, 3)
    assert nn.utils.skip_init(nn.Linear, 3, 2).weight.shape == (2, 3)
    with pytest.warns(FutureWarning, match="deprecated in favor"):
        nn.init.constant(t := T.empty(2), 3.0)
    assert t.tolist() == [3, 3]
    norm = T.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(3)))
    assert norm[0].running_mean is None and norm.eval()(X).mean().abs() < 1e-6
    with sdpa_kernel([SDPBackend.MATH]):
        assert F.scaled_dot_product_attention(X[None], X[None], X[None]).shape == (1, 2, 3)
    parts = [list(DistributedSampler(range(5), 2, r, shuffle=False)) for r in range(2)]
    assert parts == [[0, 2, 4], [1, 3, 0]]
    sampler = DistributedSampler(range(50), 2, 0)
    first = list(sampler)
    sampler.set_epoch(1)
    assert first == list(DistributedSampler(range(50), 2, 0)) and first != list(sampler) and len(sampler) == 25
    T.set_deterministic_debug_mode("warn")
    assert T.get_deterministic_debug_mode() == 1
    T.set_deterministic_debug_mode(0)
    assert not T.are_deterministic_algorithms_enabled() and not T.is_warn_always_enabled()


def test_tools_for_tests() -> None:
    T.manual_seed(0)
    for dtype in (T.float32, T.float64, T.int64, T.uint8, T.bool):
        t = T.testing.make_tensor(4, 5, dtype=dtype, device="cpu", noncontiguous=True)
        assert t.dtype is dtype and t.shape == (4, 5) and not t.is_contiguous()
    t = T.testing.make_tensor((200,), dtype=T.float32, low=2, high=3, requires_grad=True)
    assert t.min() >= 2 and t.max() < 3 and t.requires_grad
    assert (T.testing.make_tensor((200,), dtype=T.int32, low=0, high=2, exclude_zero=True) == 1).all()
    with pytest.raises(ValueError, match="less than"):
        T.testing.make_tensor((2,), dtype=T.float32, low=2, high=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        T.testing.assert_allclose(X, X.double() + 1e-7)
        with pytest.raises(AssertionError):
            T.testing.assert_allclose(X, X + 1)
