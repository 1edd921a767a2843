"""Attention rows that see no key: zeros, and finite gradients for everything else."""

import math

import pytest

import fusegrad as torch
from fusegrad import nn

F = nn.functional


def module(**options):
    torch.manual_seed(0)
    return nn.MultiheadAttention(4, 2, batch_first=True, **options)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_hidden_rows_of_multi_head_attention(need_weights, kind):
    a, x = module(), torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, True], [False, True, True], [False, False, True]])  # row 0 sees nothing
    if kind == "float":
        mask = torch.zeros(3, 3).masked_fill(mask, -math.inf)
    for f in (a, torch.compile(a)):
        a.zero_grad()
        inside = x.clone().requires_grad_()
        out, weights = f(inside, inside, inside, attn_mask=mask, need_weights=need_weights)
        out[:, 1:].sum().backward()
        torch.testing.assert_close(out[:, 0], a.out_proj.bias.expand(2, 4))
        assert weights is None or weights[:, 0].eq(0).all()
        assert all(p.grad.isfinite().all() for p in a.parameters()) and inside.grad.isfinite().all()
        want, _ = a(x[:, 1:2], x[:, :1], x[:, :1])
        torch.testing.assert_close(out[:, 1:2], want)  # row 1 sees the first key alone


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_hidden_rows_of_scaled_dot_product_attention(kind):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 3, 4, requires_grad=True) for _ in range(3))
    mask = torch.tensor([[False, False, False], [True, True, False], [True, True, True]])
    if kind == "float":
        mask = torch.zeros(3, 3).masked_fill(~mask, -math.inf)
    for f in (F.scaled_dot_product_attention, torch.compile(F.scaled_dot_product_attention)):
        out = f(q, k, v, attn_mask=mask)
        assert out[:, 0].eq(0).all()
        torch.testing.assert_close(out[:, 2], F.scaled_dot_product_attention(q, k, v)[:, 2])
        for g in torch.autograd.grad(out.sum(), [q, k, v]):
            assert g.isfinite().all()


def test_all_keys_of_an_example_are_padding():
    a, x = module(), torch.randn(2, 3, 4)
    padding = torch.tensor([[False, False, True], [True, True, True]])
    for need in (True, False):
        out, _ = a(x, x, x, key_padding_mask=padding, need_weights=need)
        a.zero_grad()
        out[0].sum().backward()
        assert all(p.grad.isfinite().all() for p in a.parameters())
