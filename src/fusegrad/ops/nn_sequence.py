"""Connectionist temporal classification, and fractional max pooling: operators over data-dependent paths."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.rooted import rooted
from ..meta import Meta
from ..op import Sample, function, op
from ._nn import prod, shape_list, spread
from .nn_loss import reduction_of
from .nn_pool import _take_flat


def _logaddexp(*parts: np.ndarray) -> np.ndarray:
    out = parts[0]
    for p in parts[1:]:
        out = np.logaddexp(out, p)
    return out


def _with_blanks(target: np.ndarray, blank: int) -> np.ndarray:
    out = np.full(2 * target.size + 1, blank, np.int64)
    out[1::2] = target
    return out


def _paths(logp: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """log alpha of Graves et al. (2006): (T, 2S + 1) total log probability of the prefixes."""
    steps, n = logp.shape[0], labels.size
    alpha = np.full((steps, n), -np.inf)
    if not steps:
        return alpha
    alpha[0, 0] = logp[0, labels[0]]
    if n > 1:
        alpha[0, 1] = logp[0, labels[1]]
    skip = np.zeros(n, bool)
    skip[2:] = labels[2:] != labels[:-2]
    skip[::2] = False
    for t in range(1, steps):
        before = alpha[t - 1]
        one = np.concatenate(([-np.inf], before[:-1]))
        two = np.where(skip, np.concatenate(([-np.inf, -np.inf], before[:-2]))[:n], -np.inf)
        alpha[t] = _logaddexp(before, one, two) + logp[t, labels]
    return alpha


def _total(alpha: np.ndarray) -> float:
    if not alpha.shape[0]:
        return 0.0 if alpha.shape[1] == 1 else -np.inf
    last = alpha[-1]
    return float(np.logaddexp(last[-1], last[-2])) if last.size > 1 else float(last[-1])


def _targets(targets: np.ndarray, lengths: tuple, i: int) -> np.ndarray:
    if targets.ndim == 1:
        start = sum(lengths[:i])
        return targets[start : start + lengths[i]]
    return targets[i, : lengths[i]]


@op(
    "_ctc(log_probs: T, targets: T, input_lengths: ints, target_lengths: ints, blank: int = 0, "
    "zero_infinity: bool = False)",
    kind="extern",
    method=False,
)
class _ctc:
    """Negative log likelihood (N) of the targets under (T, N, C) log probabilities."""

    def meta(logp, targets, input_lengths, target_lengths, blank, zero_infinity):
        return Meta((logp.shape[1],), logp.dtype)

    def kernel(logp, targets, input_lengths, target_lengths, blank, zero_infinity):
        out = np.empty(logp.shape[1], logp.dtype)
        with np.errstate(invalid="ignore"):
            for i, n in enumerate(input_lengths):
                labels = _with_blanks(_targets(targets, target_lengths, i), blank)
                out[i] = -_total(_paths(logp[:n, i].astype(np.float64), labels))
        if zero_infinity:
            out[np.isinf(out)] = 0
        return out

    def vjp_log_probs(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity):
        return _ctc_grad(g, log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)

    def samples():
        logp = np.log(np.full((4, 1, 3), 1 / 3))
        yield Sample(logp, np.array([[1, 2]]), (4,), (2,), grad=False)


@op(
    "_ctc_grad(grad: T, log_probs: T, targets: T, input_lengths: ints, target_lengths: ints, blank: int, "
    "zero_infinity: bool)",
    kind="extern",
    method=False,
    nondiff=True,
)
class _ctc_grad:
    """Gradient of _ctc for log probabilities that come from log_softmax (which PyTorch assumes as well)."""

    def meta(g, logp, targets, input_lengths, target_lengths, blank, zero_infinity):
        return Meta(logp.shape, logp.dtype)

    def kernel(g, logp, targets, input_lengths, target_lengths, blank, zero_infinity):
        out = np.zeros(logp.shape, np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            for i, n in enumerate(input_lengths):
                lp = logp[:n, i].astype(np.float64)
                labels = _with_blanks(_targets(targets, target_lengths, i), blank)
                alpha = _paths(lp, labels)
                nll = -_total(alpha)
                if zero_infinity and np.isinf(nll):
                    continue
                beta = _paths(lp[::-1], labels[::-1])[::-1, ::-1]
                both = alpha + beta
                collected = np.full(lp.shape, -np.inf)
                for s, label in enumerate(labels):
                    collected[:, label] = np.logaddexp(collected[:, label], both[:, s])
                out[:n, i] = np.exp(lp) - np.exp(collected + nll - lp)
        return (out * g[None, :, None]).astype(logp.dtype)

    def samples():
        logp = np.log(np.full((4, 1, 3), 1 / 3))
        yield Sample(np.ones(1), logp, np.array([[1, 2]]), (4,), (2,), 0, False, grad=False)


def _lengths(lengths: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in (lengths.reshape(-1).tolist() if hasattr(lengths, "tolist") else lengths))


@function("nn.functional.ctc_loss(log_probs: T, targets: T, blank: int, zero_infinity: bool)", names=("ctc_loss",))
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """CTC loss: log_probs (T, N, C) or (T, C), targets (N, S) or all joined; "mean" divides by target lengths."""
    from .. import tensor

    if isinstance(reduction, int):
        reduction = ("none", "mean", "sum")[reduction]
    reduction_of(reduction)
    batched = log_probs.ndim == 3
    x = log_probs if batched else log_probs.unsqueeze(1)
    in_lengths, out_lengths = _lengths(input_lengths), _lengths(target_lengths)
    steps, batch, classes = x.shape
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if len(in_lengths) != batch or len(out_lengths) != batch:
        raise RuntimeError("input_lengths and target_lengths must be of size batch_size")
    if any(n < 0 or n > steps for n in in_lengths):
        raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got {list(in_lengths)}")
    if any(n < 0 for n in out_lengths):
        raise RuntimeError(f"Expected target_lengths to be non-negative, but got {list(out_lengths)}")
    if not batched and targets.ndim == 1:
        targets = targets.unsqueeze(0)
    if targets.ndim == 2 and max(out_lengths, default=0) > targets.shape[1]:
        raise RuntimeError(
            f"Expected tensor to have size at least {max(out_lengths)} at dimension 1, but got "
            f"size {shape_list(targets)}"
        )
    if not x.dtype.is_floating_point:
        raise RuntimeError(f'"ctc_loss" not implemented for {x.dtype.name}')
    loss = _ctc(x, targets.long(), in_lengths, out_lengths, blank, bool(zero_infinity))
    if reduction == "mean":
        by = tensor([max(n, 1) for n in out_lengths], dtype=loss.dtype)
        return (loss / by).mean()
    if reduction == "sum":
        return loss.sum()
    return loss if batched else loss.squeeze(0)


def _starts(sample: np.ndarray, size: int, out: int, window: int) -> np.ndarray:
    """Starts of `out` windows at random intervals, one row for each sample in [0, 1) (Graham, 2014)."""
    starts = np.empty((*sample.shape, out), np.int64)
    if out > 1:
        alpha = sample.dtype.type(size - window) / sample.dtype.type(out - 1)  # PyTorch computes in this dtype
        at = np.arange(out - 1, dtype=sample.dtype)
        starts[..., : out - 1] = ((at + sample[..., None]) * alpha).astype(np.int64) - (sample * alpha).astype(
            np.int64
        )[..., None]
    if out > 0:
        starts[..., out - 1] = size - window
    return starts


def _fractional(nd, input, kernel_size, output_size, output_ratio, return_indices, samples):
    from .. import from_numpy, rand

    fn = f"fractional_max_pool{nd}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{fn} requires specifying either an output_size or an output_ratio")
    window = spread(kernel_size, nd, "kernel_size", fn)
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(f"{fn}: Expected {nd + 1}D or {nd + 2}D tensor, but got: {shape_list(input)}")
    x = input if input.ndim == nd + 2 else input.unsqueeze(0)
    size = tuple(int(s) for s in x.shape[2:])
    if any(s == 0 for s in x.shape[1:]):
        raise RuntimeError(
            f"{fn}: Expected input to have non-zero size for non-batch dimensions, but got {shape_list(input)}"
        )
    if output_size is None:
        ratio = spread(output_ratio, nd, "output_ratio", fn)
        if any(not 0 < r < 1 for r in ratio):
            raise ValueError(f"{fn}: output_ratio must be between 0 and 1 (got {output_ratio})")
        output_size = [int(s * r) for s, r in zip(size, ratio, strict=True)]
    out = spread(output_size, nd, "output_size", fn)
    for s, o, k in zip(size, out, window, strict=True):
        if o + k - 1 > s:
            raise RuntimeError(f"{fn}: pool size ({k}) too large relative to input size ({s}) for {o} outputs")
    n, c = x.shape[:2]
    drawn = rand(n, c, nd, dtype=x.dtype) if samples is None else samples
    index: Any = np.zeros((n, c, *((1,) * (2 * nd))), np.int64)
    sample = drawn.numpy()[:n]
    for i in range(nd):  # in two dimensions the samples come last dimension first
        start = _starts(sample[..., i if nd == 3 else nd - 1 - i], size[i], out[i], window[i])
        shape = [n, c] + [1] * (2 * nd)
        shape[2 + i] = out[i]
        reach = np.arange(window[i]).reshape([-1 if j == nd + i else 1 for j in range(2 * nd)])
        index = index * size[i] + start.reshape(shape) + reach
    index = index.reshape(n, c, *out, prod(window))
    values = _take_flat(rooted(x), from_numpy(np.ascontiguousarray(index)))
    y, pick = values.max(-1)
    where = from_numpy(index).gather(-1, pick.unsqueeze(-1)).squeeze(-1)
    if input.ndim == nd + 1:
        y, where = y.squeeze(0), where.squeeze(0)
    return (y, where) if return_indices else y


@function("nn.functional.fractional_max_pool2d(input: T, kernel_size: ints, output_size: ints, return_indices: bool)")
def fractional_max_pool2d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """Maximum over windows at random intervals of (N, C, H, W)."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@function("nn.functional.fractional_max_pool3d(input: T, kernel_size: ints, output_size: ints, return_indices: bool)")
def fractional_max_pool3d(
    input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None
):
    """Maximum over windows at random intervals of (N, C, D, H, W)."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)
