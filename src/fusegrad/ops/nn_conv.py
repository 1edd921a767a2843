"""Convolutions: three extern operators that are each other's derivatives, and PyTorch's functions over them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..autograd.names import named
from ..meta import Meta, surely_less
from ..op import Inline, Sample, function, op
from . import _conv_kernels as ck
from ._nn import data, shape_list, spread
from .linear_maps import plain_image


def _conv_ref(x: np.ndarray, w: np.ndarray, stride: Any, padding: Any, dilation: Any, groups: Any) -> np.ndarray:
    """Direct sum over kernel positions, group by group."""
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)])
    span = tuple(d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:], strict=False))
    nd = len(span)
    win = np.lib.stride_tricks.sliding_window_view(x, span, axis=tuple(range(2, 2 + nd)))
    steps = tuple(slice(None, None, s) for s in stride)
    win = win[(slice(None), slice(None), *steps, *(slice(None, None, d) for d in dilation))]
    parts = []
    for wx, ww in zip(np.split(win, groups, 1), np.split(w, groups, 0), strict=False):
        axes = [1, *range(2 + nd, 2 + 2 * nd)]
        parts.append(np.moveaxis(np.tensordot(wx, ww, (axes, list(range(1, 2 + nd)))), -1, 1))
    return np.concatenate(parts, 1)


@op(
    "_conv(input: T, weight: T, stride: ints, padding: ints, dilation: ints, groups: int)",
    kind="extern",
    method=False,
)
class _conv:
    """Cross-correlation: input (N, C, *S), weight (O, C/groups, *K) -> (N, O, *L)."""

    def meta(x, w, stride, padding, dilation, groups):
        out = ck.out_sizes(x.shape[2:], w.shape[2:], stride, padding, dilation)
        return Meta((x.shape[0], w.shape[0], *out), x.dtype)

    def kernel(x, w, stride, padding, dilation, groups):
        return ck.forward(x, w, stride, padding, dilation, groups)

    def vjp_input(g, weight, input_meta, stride, padding, dilation, groups):
        return _conv_input(g, weight, input_meta.shape[2:], stride, padding, dilation, groups)

    def vjp_weight(g, input, weight_meta, stride, padding, dilation, groups):
        return _conv_weight(g, input, weight_meta.shape[2:], stride, padding, dilation, groups)

    ref = _conv_ref

    def samples():
        yield Sample(data(2, 3, 7), data(4, 3, 3), (2,), (1,), (1,), 1)
        yield Sample(data(2, 4, 5, 6), data(6, 2, 3, 2), (1, 2), (1, 0), (1, 1), 2)
        yield Sample(data(1, 2, 6, 6), data(2, 1, 3, 3), (1, 1), (2, 2), (2, 2), 2)


@op(
    "_conv_with_bias(input: T, weight: T, bias: T, stride: ints, padding: ints, dilation: ints, groups: int)",
    kind="composite",
    method=False,
    function=False,
)
class _conv_with_bias:
    """_conv plus the bias of each output channel; for eager tensors (captured, the two fuse with what follows)."""

    def meta(x, w, bias, stride, padding, dilation, groups):
        return _conv.meta(x, w, stride, padding, dilation, groups)

    def kernel(x, w, bias, stride, padding, dilation, groups):
        y = ck.forward(x, w, stride, padding, dilation, groups)
        y += bias.reshape((-1, *((1,) * (w.ndim - 2))))
        return y

    def vjp_input(g, weight, input_meta, stride, padding, dilation, groups):
        return _conv_input(g, weight, input_meta.shape[2:], stride, padding, dilation, groups)

    def vjp_weight(g, input, weight_meta, stride, padding, dilation, groups):
        return _conv_weight(g, input, weight_meta.shape[2:], stride, padding, dilation, groups)

    def vjp_bias(g):
        return g.sum((0, *range(2, g.ndim)))

    def decompose(input, weight, bias, stride, padding, dilation, groups):
        y = _conv(input, weight, stride, padding, dilation, groups)
        return y + bias.reshape((-1, *((1,) * (weight.ndim - 2))))

    def samples():
        yield Sample(data(2, 3, 7), data(4, 3, 3), data(4), (2,), (1,), (1,), 1)
        yield Sample(data(2, 4, 5, 6), data(6, 2, 3, 2), data(6), (1, 2), (1, 0), (1, 1), 2)


@op(
    "_conv_input(grad: T, weight: T, size: ints, stride: ints, padding: ints, dilation: ints, groups: int)",
    kind="extern",
    method=False,
)
class _conv_input:
    """The derivative of _conv for its input, also the transposed convolution: (N, O, *L) -> (N, C, *size)."""

    def meta(g, w, size, stride, padding, dilation, groups):
        return Meta((g.shape[0], w.shape[1] * groups, *size), g.dtype)

    def kernel(g, w, size, stride, padding, dilation, groups):
        return ck.input_grad(g, w, size, stride, padding, dilation, groups)

    def vjp_grad(g, weight, grad_meta, stride, padding, dilation, groups):
        return _crop(_conv(g, weight, stride, padding, dilation, groups), grad_meta.shape)

    def vjp_weight(g, grad, weight_meta, stride, padding, dilation, groups):
        return _conv_weight(grad, g, weight_meta.shape[2:], stride, padding, dilation, groups)

    def samples():
        yield Sample(data(2, 4, 4), data(4, 3, 3), (7,), (2,), (1,), (1,), 1)
        yield Sample(data(2, 6, 5, 3), data(6, 2, 3, 2), (5, 6), (1, 2), (1, 0), (1, 1), 2)


@op(
    "_conv_weight(grad: T, input: T, taps: ints, stride: ints, padding: ints, dilation: ints, groups: int)",
    kind="extern",
    method=False,
)
class _conv_weight:
    """The derivative of _conv for its weight: (N, O, *L), (N, C, *S) -> (O, C/groups, *taps)."""

    def meta(g, x, taps, stride, padding, dilation, groups):
        return Meta((g.shape[1], x.shape[1] // groups, *taps), g.dtype)

    def kernel(g, x, taps, stride, padding, dilation, groups):
        return ck.weight_grad(g, x, taps, stride, padding, dilation, groups)

    def vjp_grad(g, input, grad_meta, stride, padding, dilation, groups):
        return _crop(_conv(input, g, stride, padding, dilation, groups), grad_meta.shape)

    def vjp_input(g, grad, input_meta, stride, padding, dilation, groups):
        return _conv_input(grad, g, input_meta.shape[2:], stride, padding, dilation, groups)

    def samples():
        yield Sample(data(2, 4, 4), data(2, 3, 7), (3,), (2,), (1,), (1,), 1)
        yield Sample(data(2, 6, 5, 3), data(2, 4, 5, 6), (3, 2), (1, 2), (1, 0), (1, 1), 2)


def _crop(t: Any, shape: Any) -> Any:
    """`t` without the positions that a large output_padding adds beyond `shape`."""
    for d in range(2, t.ndim):
        if t.shape[d] != shape[d]:
            t = t.narrow(d, 0, shape[d])
    return t


# ---- PyTorch's functions ----------------------------------------------------------------------------


def _check(fn: str, nd: int, input: Any, weight: Any, bias: Any, groups: int, transposed: bool) -> bool:
    """Shapes and dtypes fit; returns whether the input has no batch dimension."""
    if weight.ndim != nd + 2:
        raise RuntimeError(f"{fn}: expected weight with {nd + 2} dimensions, got weight of size {shape_list(weight)}")
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(
            f"Expected {nd + 1}D (unbatched) or {nd + 2}D (batched) input to {fn}, but got input of size: "
            f"{shape_list(input)}"
        )
    if groups <= 0:
        raise RuntimeError(f"{fn}: non-positive groups is not supported")
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"{fn}: Input type ({input.dtype.name}) and weight type ({weight.dtype.name}) should be the same"
        )
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(
            f"{fn}: Input type ({input.dtype.name}) and bias type ({bias.dtype.name}) should be the same"
        )
    channels = input.shape[input.ndim - nd - 1]
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups
    if channels != wanted:
        raise RuntimeError(
            f"Given {'transposed=1, ' if transposed else ''}groups={groups}, weight of size {shape_list(weight)}, "
            f"expected input{shape_list(input)} to have {wanted} channels, but got {channels} channels instead"
        )
    if surely_less(weight.shape[0], 1):
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least 1 at dimension 0, but got weight of size "
            f"{shape_list(weight)} instead"
        )
    if weight.shape[0] % groups != 0:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {shape_list(weight)} instead"
        )
    n_out = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and (bias.ndim != 1 or bias.shape[0] != n_out):
        raise RuntimeError(
            f"Given weight of size {shape_list(weight)}, expected bias to be 1-dimensional with {n_out} elements, "
            f"but got bias of size {shape_list(bias)} instead"
        )
    return input.ndim == nd + 1


def _positive(fn: str, what: str, values: tuple, low: int) -> None:
    for v in values:
        if surely_less(v, low):
            raise RuntimeError(f"{fn}: {'non-positive' if low else 'negative'} {what} is not supported")


@functools.lru_cache(maxsize=512, typed=True)
def _plan(nd: int, size: tuple, weight: tuple, groups: int, *given: Any) -> tuple | None:
    """(stride, padding, dilation) of a convolution of these shapes; None where something is to be refused."""
    try:
        stride, padding, dilation = (spread(v, nd, "", "") for v in given)
    except RuntimeError:
        return None
    exact = all(type(v) is int for v in (*stride, *padding, *dilation, groups))
    if not exact or min(*stride, *dilation, *weight, groups) < 1 or min(padding) < 0:
        return None
    if weight[0] % groups or size[1] != weight[1] * groups:
        return None
    out = ck.out_sizes(size[2:], weight[2:], stride, padding, dilation)
    return (stride, padding, dilation) if min(out) > 0 else None


def _plan_of(nd: int, size: tuple, weight: tuple, stride: Any, padding: Any, dilation: Any, groups: Any) -> Any:
    try:
        return _plan(nd, size, weight, groups, stride, padding, dilation)
    except TypeError:  # lists
        return None


_conv_fn, _conv_with_bias_fn = _conv.fn, _conv_with_bias.fn


def _plainly(nd: int, input: Any, weight: Any, bias: Any, *given: Any) -> Any:
    """The convolution of plain tensors that fit; None for all else."""
    x, w = plain_image(input, nd, True), plain_image(weight, nd)
    if x is None or w is None or x.dtype is not w.dtype:
        return None
    single = x.ndim == nd + 1
    plan = _plan_of(nd, (1, *x.shape) if single else x.shape, w.shape, *given)
    if plan is None:
        return None
    if bias is not None:
        v = plain_image(bias, -1)
        if v is None or v.dtype is not x.dtype or v.size != w.shape[0]:
            return None
    if single:
        input = input.unsqueeze(0)
    if bias is None:
        found = _conv_fn(input, weight, *plan, given[-1])
    else:
        found = _conv_with_bias_fn(input, weight, bias, *plan, given[-1])
    return found.squeeze(0) if single else found


def _convolve(nd, input, weight, bias, stride, padding, dilation, groups):
    found = _plainly(nd, input, weight, bias, stride, padding, dilation, groups)
    if found is not None:
        return found
    fn = f"conv{nd}d"
    unbatched = _check(fn, nd, input, weight, bias, groups, False)
    stride, dilation = spread(stride, nd, "stride", fn), spread(dilation, nd, "dilation", fn)
    _positive(fn, "stride", stride, 1)
    _positive(fn, "dilation", dilation, 1)
    if isinstance(padding, str):
        input, padding = _named_padding(fn, nd, input, weight, padding, stride, dilation)
    padding = spread(padding, nd, "padding", fn)
    _positive(fn, "padding", padding, 0)
    size = input.shape[input.ndim - nd :]
    for s, p, d, k in zip(size, padding, dilation, weight.shape[2:], strict=True):
        if s + 2 * p < d * (k - 1) + 1:
            raise RuntimeError(
                f"Calculated padded input size per channel: "
                f"{[a + 2 * b for a, b in zip(size, padding, strict=False)]}. Kernel size: "
                f"{[b * (c - 1) + 1 for b, c in zip(dilation, weight.shape[2:], strict=False)]}. Kernel size "
                f"can't be greater than "
                "actual input size"
            )
    x = input.unsqueeze(0) if unbatched else input
    y = _conv(x, weight, stride, padding, dilation, groups)
    if bias is not None:
        y = y + bias.view(bias.shape[0], *((1,) * nd))
    y = named(y, "ConvolutionBackward0", (x, weight, bias))
    return y.squeeze(0) if unbatched else y


def _named_padding(fn, nd, input, weight, padding, stride, dilation):
    if padding == "valid":
        return input, (0,) * nd
    if padding != "same":
        raise RuntimeError(f"{fn}: padding must be an int, a tuple of ints, 'same' or 'valid', got {padding!r}")
    if any(s != 1 for s in stride):
        raise RuntimeError(f"{fn}: padding='same' is not supported for strided convolutions")
    total = tuple(d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True))
    if any(t % 2 for t in total):  # one more on the right where the total is odd
        from .. import nn

        extra = [e for t in reversed(total) for e in (0, t % 2)]
        input = nn.functional.pad(input, extra)
    return input, tuple(t // 2 for t in total)


@functools.lru_cache(maxsize=512, typed=True)
def _transposed_plan(nd: int, shape: tuple, weight: tuple, groups: int, *given: Any) -> tuple | None:
    """(sizes of the result, stride, padding, dilation) of a transposed convolution; None where something is to be
    refused."""
    try:
        stride, padding, dilation, extra = (spread(v, nd, "", "") for v in given)
    except RuntimeError:
        return None
    exact = all(type(v) is int for v in (*stride, *padding, *dilation, *extra, groups))
    if not exact or min(*stride, *dilation, *weight, groups) < 1 or min(*padding, *extra) < 0:
        return None
    if weight[0] % groups or shape[1] != weight[0]:
        return None
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        return None
    each = zip(shape[2:], stride, padding, dilation, weight[2:], extra, strict=True)
    size = tuple((s - 1) * st - 2 * p + d * (k - 1) + e + 1 for s, st, p, d, k, e in each)
    return (size, stride, padding, dilation) if min(size) > 0 else None


def _transposed_plainly(nd: int, input: Any, weight: Any, bias: Any, groups: Any, *given: Any) -> Any:
    """The transposed convolution of plain tensors (N, C, *S) that fit; None for all else."""
    x, w = plain_image(input, nd), plain_image(weight, nd)
    if x is None or w is None or x.dtype is not w.dtype:
        return None
    try:
        plan = _transposed_plan(nd, x.shape, w.shape, groups, *given)
    except TypeError:  # lists
        return None
    if plan is None:
        return None
    if bias is not None:
        v = plain_image(bias, -1)
        if v is None or v.dtype is not x.dtype or v.size != w.shape[1] * groups:
            return None
    y = _conv_input.fn(input, weight, *plan, groups)
    if bias is not None:
        y = y + bias.view(v.size, *((1,) * nd))
    return named(y, "ConvolutionBackward0", (input, weight, bias))


def _transposed(nd, input, weight, bias, stride, padding, output_padding, groups, dilation):
    found = _transposed_plainly(nd, input, weight, bias, groups, stride, padding, dilation, output_padding)
    if found is not None:
        return found
    fn = f"conv_transpose{nd}d"
    unbatched = _check(fn, nd, input, weight, bias, groups, True)
    stride, dilation = spread(stride, nd, "stride", fn), spread(dilation, nd, "dilation", fn)
    padding, extra = spread(padding, nd, "padding", fn), spread(output_padding, nd, "output_padding", fn)
    _positive(fn, "stride", stride, 1)
    _positive(fn, "dilation", dilation, 1)
    _positive(fn, "padding", padding, 0)
    _positive(fn, "output_padding", extra, 0)
    for e, s, d in zip(extra, stride, dilation, strict=True):
        if e >= s and e >= d:
            raise RuntimeError(
                f"output padding must be smaller than either stride or dilation, but got output_padding: {list(extra)} "
                f"stride: {list(stride)} dilation: {list(dilation)}"
            )
    x = input.unsqueeze(0) if unbatched else input
    size = tuple(
        (s - 1) * st - 2 * p + d * (k - 1) + e + 1
        for s, st, p, d, k, e in zip(x.shape[2:], stride, padding, dilation, weight.shape[2:], extra, strict=True)
    )
    if any(surely_less(s, 1) for s in size):
        raise RuntimeError(
            f"Given input size per channel: {list(x.shape[2:])}. Calculated output size per channel: {list(size)}. "
            "Output size is too small"
        )
    y = _conv_input(x, weight, size, stride, padding, dilation, groups)
    if bias is not None:
        y = y + bias.view(bias.shape[0], *((1,) * nd))
    y = named(y, "ConvolutionBackward0", (x, weight, bias))
    return y.squeeze(0) if unbatched else y


def _array_plan(nd: int, x: Any, w: Any, *given: Any) -> Any:
    """``_plan`` for arrays, of which the operator takes some as they are."""
    if x.ndim != nd + 2 or w.ndim != nd + 2 or x.dtype is not w.dtype or x.dtype.char not in "fd" or not x.size:
        return None
    return _plan_of(nd, x.shape, w.shape, *given)


def _inline(nd: int) -> Inline:
    """The usual call without a bias."""
    when = f"bias is None and (plan := array_plan({nd}, a0, a1, stride, padding, dilation, groups)) is not None"
    steps = {"stride": "plan[0]", "padding": "plan[1]", "dilation": "plan[2]"}
    return Inline(_conv, when, using={"array_plan": _array_plan}, **steps)


@function(
    "nn.functional.conv1d(input: T, weight: T, bias: T, stride: ints, dilation: ints, groups: int)",
    names=("conv1d",),
    inline=_inline(1),
)
def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """1-d cross-correlation: (N, C, L), (O, C/groups, K) -> (N, O, L')."""
    return _convolve(1, input, weight, bias, stride, padding, dilation, groups)


@function(
    "nn.functional.conv2d(input: T, weight: T, bias: T, stride: ints, dilation: ints, groups: int)",
    names=("conv2d",),
    inline=_inline(2),
)
def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """2-d cross-correlation: (N, C, H, W), (O, C/groups, KH, KW) -> (N, O, H', W')."""
    return _convolve(2, input, weight, bias, stride, padding, dilation, groups)


@function(
    "nn.functional.conv3d(input: T, weight: T, bias: T, stride: ints, dilation: ints, groups: int)",
    names=("conv3d",),
    inline=_inline(3),
)
def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """3-d cross-correlation: (N, C, D, H, W), (O, C/groups, KD, KH, KW) -> (N, O, D', H', W')."""
    return _convolve(3, input, weight, bias, stride, padding, dilation, groups)


@function(
    "nn.functional.conv_transpose1d(input: T, weight: T, bias: T, stride: ints, padding: ints, "
    "output_padding: ints, groups: int, dilation: ints)",
    names=("conv_transpose1d",),
)
def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv1d: (N, C, L), (C, O/groups, K) -> (N, O, L')."""
    return _transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function(
    "nn.functional.conv_transpose2d(input: T, weight: T, bias: T, stride: ints, padding: ints, "
    "output_padding: ints, groups: int, dilation: ints)",
    names=("conv_transpose2d",),
)
def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv2d: (N, C, H, W), (C, O/groups, KH, KW) -> (N, O, H', W')."""
    return _transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@function(
    "nn.functional.conv_transpose3d(input: T, weight: T, bias: T, stride: ints, padding: ints, "
    "output_padding: ints, groups: int, dilation: ints)",
    names=("conv_transpose3d",),
)
def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The transpose of conv3d: (N, C, D, H, W), (C, O/groups, KD, KH, KW) -> (N, O, D', H', W')."""
    return _transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
