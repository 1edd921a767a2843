"""Derivatives of pointwise operators in one native pass: made of the rules, and the same as the rules give."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as torch
from fusegrad import fused_grads
from fusegrad.nn import functional as F

CASES = {
    "hardswish": F.hardswish,
    "hardtanh": F.hardtanh,
    "elu": F.elu,
    "softplus with attributes": lambda x: F.softplus(x, 2.0, 1.5),
    "mish": F.mish,
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "atan2 of both": lambda x: torch.atan2(x, 0.5 - x),
    "logaddexp": lambda x: torch.logaddexp(x, 2 * x),
    "huber": lambda x: F.huber_loss(x, 0.3 * x.abs(), delta=0.7),
    "lgamma": lambda x: torch.lgamma(x + 1.5),
    "prelu": lambda x: F.prelu(x, x.detach()[0] * 0.1),
    "maximum": lambda x: torch.maximum(x, -x),
}


def gradient(f, data: np.ndarray, order: str = "C", scale: bool = True) -> np.ndarray:
    x = torch.from_numpy(np.asarray(data, order=order)).requires_grad_()
    y = f(x)
    y = y.sum() if y.ndim == 0 or not scale else (y * torch.linspace(-1, 1, data.shape[1], dtype=x.dtype)).sum()
    return torch.autograd.grad(y, x)[0].numpy()


@pytest.mark.parametrize("name", list(CASES))
def test_is_what_the_rules_give(name: str, monkeypatch) -> None:
    for dtype in (np.float32, np.float64):
        data = np.random.default_rng(1).uniform(-1.4, 3, (150, 120)).astype(dtype)
        data[0, :6] = [0, -0.0, 1, -1, 3, -3]
        if name == "lgamma":
            data = np.abs(data)
        for scale in (True, False):  # an expanded gradient too
            monkeypatch.setattr(fused_grads, "SMALLEST", 1 << 14)
            got = gradient(CASES[name], data, scale=scale)
            turned = gradient(CASES[name], data, "F", scale)
            monkeypatch.setattr(fused_grads, "SMALLEST", 1 << 60)
            want = gradient(CASES[name], data, scale=scale)
            tolerance = 2e-6 if dtype is np.float32 else 1e-13
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
            np.testing.assert_allclose(turned, want, rtol=tolerance, atol=tolerance)


def test_a_changed_input_is_noticed_and_a_graph_is_recorded() -> None:
    x = torch.linspace(-4, 4, 20_000, requires_grad=True)
    y = x * 1
    z = F.hardswish(y)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    (g,) = torch.autograd.grad(F.mish(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    step = 1e-2
    with torch.enable_grad():
        up = torch.autograd.grad(F.mish(x + step).sum(), x)[0] - torch.autograd.grad(F.mish(x - step).sum(), x)[0]
    np.testing.assert_allclose(h.numpy(), (up / (2 * step)).numpy(), atol=1e-3)


def test_many_values_of_an_attribute_do_not_compile_for_each() -> None:
    from fusegrad.op import TABLE

    x = torch.linspace(-4, 4, 20_000, requires_grad=True)
    fused = fused_grads.fused_gradients(TABLE["hardshrink"])
    for k in range(2 * fused_grads.VARIANTS):
        key = tuple((float, 1.0 + k) for n in fused.names if n not in fused.tensors)
        assert (fused.kernels(0, key) is None) == (k >= fused_grads.VARIANTS)
        (g,) = torch.autograd.grad(F.elu(x, 1.0 + k).sum(), x)
        want = np.where(x.detach().numpy() > 0, 1, (1.0 + k) * np.exp(x.detach().numpy()))
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-5)
