"""Attention: scaled dot product attention, multi-head attention, gumbel_softmax."""

from __future__ import annotations

import math
from typing import Any

from ..autograd.names import named
from ..op import function
from ._nn import shape_list
from .nn_softmax import _softmax


def _f() -> Any:
    from .. import nn

    return nn.functional


@function(
    "nn.functional.scaled_dot_product_attention(query: T, key: T, value: T, attn_mask: T, "
    "dropout_p: float, is_causal: bool, scale: float, enable_gqa: bool)",
)
def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """softmax(q k^T * scale + mask) v: q (..., H, L, E), k (..., H, S, E), v (..., H, S, Ev) -> (..., H, L, Ev).

    A boolean mask says which positions take part; a row without any gives zeros.
    """
    given = query, key, value
    if any(t.ndim < 2 for t in given):
        raise RuntimeError(
            "scaled_dot_product_attention: Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{shape_list(query)}, {shape_list(key)}, {shape_list(value)}"
        )
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype.name} key.dtype: {key.dtype.name} and value.dtype: {value.dtype.name} instead."
        )
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if enable_gqa:
        heads = query.shape[-3]
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        from .. import bool as bool_
        from .. import ones

        attn_mask = ones((query.shape[-2], key.shape[-2]), dtype=bool_).tril()
    if attn_mask is not None:
        if attn_mask.dtype.category == 0:
            scores = scores.masked_fill(~attn_mask, -math.inf)
        else:
            scores = scores + attn_mask
    weights = _softmax(scores, -1) if attn_mask is None or is_causal else _masked_softmax(scores)
    if dropout_p > 0.0:
        weights = _f().dropout(weights, dropout_p, True)
    out = weights @ value
    if query.ndim == 4 and dropout_p == 0.0 and not getattr(attn_mask, "requires_grad", False):
        return named(out, "ScaledDotProductFlashAttentionForCpuBackward0", given)
    return out


def _masked_softmax(scores):
    """softmax along the last dimension; zeros, and no gradient, for a row that is masked completely."""
    hidden = (scores == -math.inf).all(-1, keepdim=True)
    return _softmax(scores.masked_fill(hidden, 0.0), -1).masked_fill(hidden, 0.0)


def _check_mha(query, key, value, key_padding_mask, attn_mask, num_heads) -> bool:
    """Whether the input is batched; RuntimeError or AssertionError for shapes that do not fit."""
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    batched = query.ndim == 3
    if key.ndim != query.ndim or value.ndim != query.ndim:
        raise AssertionError(
            f"For {'batched' if batched else 'unbatched'} ({query.ndim}-D) `query`, expected `key` and `value` to be "
            f"{query.ndim}-D but found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.ndim != query.ndim - 1:
        raise AssertionError(
            f"Expected `key_padding_mask` to be None or {query.ndim - 1}-D but found {key_padding_mask.ndim}-D tensor"
        )
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(f"Expected `attn_mask` to be None, 2-D or 3-D but found {attn_mask.ndim}-D tensor")
    return batched


def _additive(mask: Any, like: Any) -> Any:
    """A mask as numbers to add: -inf where a boolean one is True."""
    if mask is None or mask.dtype.is_floating_point:
        return mask
    if mask.dtype.category != 0:
        raise AssertionError("only bool and floating types of masks are supported")
    return like.new_zeros(mask.shape).masked_fill(mask, -math.inf)


def _project(query, key, value, weight, bias, separate, embed_dim):
    """The in-projections of query, key and value."""
    F = _f()
    if separate is not None:
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), separate, biases, strict=True)]
    if query is key and key is value:
        return list(F.linear(query, weight, bias).chunk(3, -1))
    weights = weight.split(embed_dim)
    biases = (None,) * 3 if bias is None else bias.split(embed_dim)
    return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]


def _heads(x: Any, batch: Any, heads: int) -> Any:
    """(L, N, E) -> (N * heads, L, E / heads)."""
    return x.contiguous().view(x.shape[0], batch * heads, x.shape[2] // heads).transpose(0, 1)


@function("nn.functional.multi_head_attention_forward(query: T, key: T, value: T, dropout_p: float, attn_mask: T)")
def multi_head_attention_forward(
    query,
    key,
    value,
    embed_dim_to_check,
    num_heads,
    in_proj_weight,
    in_proj_bias,
    bias_k,
    bias_v,
    add_zero_attn,
    dropout_p,
    out_proj_weight,
    out_proj_bias,
    training=True,
    key_padding_mask=None,
    need_weights=True,
    attn_mask=None,
    use_separate_proj_weight=False,
    q_proj_weight=None,
    k_proj_weight=None,
    v_proj_weight=None,
    static_k=None,
    static_v=None,
    average_attn_weights=True,
    is_causal=False,
):
    """Attention in several heads: query (L, N, E), key and value (S, N, *) -> ((L, N, E), weights or None)."""
    batched = _check_mha(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same_qk, same_kv = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same_qk else key.unsqueeze(1)
        value = key if same_kv else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, embed_dim = query.shape
    if embed_dim != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed_dim}")
    head_dim = embed_dim // num_heads
    if head_dim * num_heads != embed_dim:
        raise AssertionError(f"embed_dim {embed_dim} not divisible by num_heads {num_heads}")
    keys, values = key.shape, value.shape
    if (keys[:2] != values[:2]) if use_separate_proj_weight else (keys != values):
        raise AssertionError(f"key shape {shape_list(key)} does not match value shape {shape_list(value)}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias, separate, embed_dim)
    key_padding_mask, attn_mask = _additive(key_padding_mask, q), _additive(attn_mask, q)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if attn_mask is not None:
        attn_mask = _shaped_mask(attn_mask, length, key.shape[0], batch * num_heads)
    if bias_k is not None and bias_v is not None:
        k, v, attn_mask, key_padding_mask = _append(
            k, v, bias_k.repeat(1, batch, 1), bias_v.repeat(1, batch, 1), 0, attn_mask, key_padding_mask
        )
    q = _heads(q, batch, num_heads)
    k = _heads(k, batch, num_heads) if static_k is None else static_k
    v = _heads(v, batch, num_heads) if static_v is None else static_v
    if add_zero_attn:
        zero = k.new_zeros((batch * num_heads, 1, head_dim))
        k, v, attn_mask, key_padding_mask = _append(k, v, zero, zero, 1, attn_mask, key_padding_mask)
    mask = _merge(attn_mask, key_padding_mask, batch, num_heads, k.shape[1])
    p = dropout_p if training else 0.0
    return _attend(
        q, k, v, mask, p, out_proj_weight, out_proj_bias, need_weights, average_attn_weights, batched, batch, num_heads
    )


def _shaped_mask(mask, length, source, heads):
    if mask.ndim == 2:
        if tuple(mask.shape) != (length, source):
            raise RuntimeError(
                f"The shape of the 2D attn_mask is {shape_list(mask)}, but should be {(length, source)}."
            )
        return mask.unsqueeze(0)
    if tuple(mask.shape) != (heads, length, source):
        raise RuntimeError(
            f"The shape of the 3D attn_mask is {shape_list(mask)}, but should be {(heads, length, source)}."
        )
    return mask


def _append(k, v, more_k, more_v, dim, attn_mask, key_padding_mask):
    """One more key and value position, which no mask covers."""
    from .. import cat

    pad = _f().pad
    k, v = cat([k, more_k], dim), cat([v, more_v], dim)
    attn_mask = None if attn_mask is None else pad(attn_mask, (0, 1))
    key_padding_mask = None if key_padding_mask is None else pad(key_padding_mask, (0, 1))
    return k, v, attn_mask, key_padding_mask


def _merge(attn_mask, key_padding_mask, batch, heads, source):
    """The two additive masks as one of shape (N * heads or 1, L or 1, S)."""
    if key_padding_mask is None:
        return attn_mask
    if tuple(key_padding_mask.shape) != (batch, source):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, source)}, but got {shape_list(key_padding_mask)}"
        )
    spread = key_padding_mask.view(batch, 1, 1, source).expand(-1, heads, -1, -1).reshape(batch * heads, 1, source)
    return spread if attn_mask is None else attn_mask + spread


def _attend(q, k, v, mask, p, weight, bias, need_weights, average, batched, batch, heads):
    F = _f()
    length, embed = q.shape[1], q.shape[2] * heads
    scores = (q * math.sqrt(1.0 / q.shape[2])) @ k.transpose(-2, -1)
    weights = _softmax(scores, -1) if mask is None else _masked_softmax(scores + mask)
    dropped = F.dropout(weights, p, True) if p > 0.0 else weights
    out = (dropped @ v).transpose(0, 1).contiguous().view(length * batch, embed)
    out = F.linear(out, weight, bias)
    out = out.view(length, batch, out.shape[1])
    shown = None
    if need_weights:
        shown = dropped.view(batch, heads, length, k.shape[1])
        shown = shown.mean(1) if average else shown
    if not batched:
        out = out.squeeze(1)
        shown = None if shown is None else shown.squeeze(0)
    return out, shown


@function("nn.functional.gumbel_softmax(logits: T, tau: num, eps: float, dim: dim)")
def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A sample of the Gumbel-softmax distribution (Jang et al., 2017); `hard` gives one-hot with soft gradients."""
    from .. import empty_like, zeros_like

    gumbels = -empty_like(logits).detach().exponential_().log()
    soft = _softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    one_hot = zeros_like(logits).detach().scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft
