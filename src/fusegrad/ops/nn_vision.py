"""Rearrangements and resampling of images: pixel_shuffle, unfold, fold, interpolate, grid_sample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dtypes import float32, float64
from ..meta import Meta, surely_less
from ..op import Sample, function, op
from ..size_values import SymbolicSize, varies
from ..tensor import own
from . import _conv_kernels as ck
from ._nn import data, prod, shape_list, spread
from .linear_maps import linear_map, plain_image
from .moves import moved
from .resample import along as weighted


@function("nn.functional.pixel_shuffle(input: T, upscale_factor: int)", names=("pixel_shuffle",))
def pixel_shuffle(input, upscale_factor):
    """(*, C r^2, H, W) -> (*, C, H r, W r)."""
    r = upscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_shuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    if r == 1:
        return input.clone()
    *lead, c, h, w = input.shape
    if c % (r * r) != 0:
        raise RuntimeError(
            f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    return moved(_shuffled, input, r)


def _shuffled(input: Any, r: int) -> Any:
    *lead, c, h, w = input.shape
    k, n = c // (r * r), len(lead)
    x = input.reshape(*lead, k, r, r, h, w).permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return own(x.reshape(*lead, k, h * r, w * r))


@function("nn.functional.pixel_unshuffle(input: T, downscale_factor: int)", names=("pixel_unshuffle",))
def pixel_unshuffle(input, downscale_factor):
    """(*, C, H r, W r) -> (*, C r^2, H, W)."""
    r = downscale_factor
    if input.ndim < 3:
        raise RuntimeError(
            f"pixel_unshuffle expects input to have at least 3 dimensions, but got input with {input.ndim} dimension(s)"
        )
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    if r == 1:
        return input.clone()
    *lead, c, h, w = input.shape
    if h % r != 0 or w % r != 0:
        raise RuntimeError(
            f"pixel_unshuffle expects height and width to be divisible by downscale_factor, but sizes {h} and {w} are "
            f"not divisible by {r}"
        )
    return moved(_unshuffled, input, r)


def _unshuffled(input: Any, r: int) -> Any:
    *lead, c, h, w = input.shape
    n = len(lead)
    x = input.reshape(*lead, c, h // r, r, w // r, r).permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return own(x.reshape(*lead, c * r * r, h // r, w // r))


@function("nn.functional.channel_shuffle(input: T, groups: int)", names=("channel_shuffle",))
def channel_shuffle(input, groups):
    """The channels (dimension 1) of `groups` groups interleaved."""
    if input.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {shape_list(input)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    n, c, *rest = input.shape
    if c % groups != 0:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    return moved(_channels_shuffled, input, groups)


def _channels_shuffled(input: Any, groups: int) -> Any:
    n, c, *rest = input.shape
    return own(
        input.reshape(n, groups, c // groups, *rest).transpose(1, 2).clone(memory_format="contiguous").view(n, c, *rest)
    )


# ---- sliding blocks ---------------------------------------------------------------------------------


@op("_unfold(input: T, window: ints, dilation: ints, padding: ints, stride: ints)", kind="extern", method=False)
class _unfold:
    """(N, C, H, W) -> (N, C * prod(window), number of blocks)."""

    def meta(x, window, dilation, padding, stride):
        out = ck.out_sizes(x.shape[2:], window, stride, padding, dilation)
        return Meta((x.shape[0], x.shape[1] * prod(window), prod(out)), x.dtype)

    def kernel(x, window, dilation, padding, stride):
        out = ck.out_sizes(x.shape[2:], window, stride, padding, dilation)
        cols = ck._columns(ck._pad(x, padding), window, out, stride, dilation)
        return cols if prod(window) > 1 else cols.copy()

    def vjp_input(g, input_meta, window, dilation, padding, stride):
        return _fold(g, input_meta.shape[2:], window, dilation, padding, stride)

    def samples():
        yield Sample(data(2, 3, 5, 6), (2, 3), (1, 1), (1, 0), (2, 1))


@op(
    "_fold(input: T, size: ints, window: ints, dilation: ints, padding: ints, stride: ints)",
    kind="extern",
    method=False,
)
class _fold:
    """(N, C * prod(window), blocks) summed into (N, C, *size): the transpose of _unfold."""

    def meta(x, size, window, dilation, padding, stride):
        return Meta((x.shape[0], x.shape[1] // prod(window), *size), x.dtype)

    def kernel(x, size, window, dilation, padding, stride):
        out = ck.out_sizes(size, window, stride, padding, dilation)
        c = x.shape[1] // prod(window)
        cols = x.reshape(x.shape[0], c, *window, *out)
        total = np.zeros((x.shape[0], c, *(s + 2 * p for s, p in zip(size, padding, strict=True))), x.dtype)
        for pos, cut in ck._offsets(window, out, stride, dilation):
            total[cut] += cols[(slice(None), slice(None), *pos)]
        if any(padding):
            cut = (..., *(slice(p, p + s) for s, p in zip(size, padding, strict=True)))
            total = np.ascontiguousarray(total[cut])
        return total

    def vjp_input(g, window, dilation, padding, stride):
        return _unfold(g, window, dilation, padding, stride)

    def samples():
        yield Sample(data(2, 18, 12), (5, 6), (2, 3), (1, 1), (1, 0), (2, 1))


def _blocks(fn: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple:
    out = tuple(
        spread(v, 2, said, fn)
        for v, said in ((kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride"))
    )
    for values, said, low in zip(out, ("kernel size", "dilation", "padding", "stride"), (1, 1, 0, 1), strict=True):
        if any(v < low for v in values):
            raise RuntimeError(
                f"{fn}: {said} should be {'greater than zero' if low else 'non-negative'}, but got {values}"
            )
    return out


@function("nn.functional.unfold(input: T, kernel_size: ints, dilation: ints, padding: ints, stride: ints)")
def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The sliding blocks of (N, C, H, W) as columns: (N, C * KH * KW, L)."""
    window, dilation, padding, stride = _blocks("unfold", kernel_size, dilation, padding, stride)
    if input.ndim not in (3, 4) or any(surely_less(s, 1) for s in input.shape[-3:]):
        raise RuntimeError(
            f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions "
            f"for input, "
            f"but got: {shape_list(input)}"
        )
    out = ck.out_sizes(input.shape[-2:], window, stride, padding, dilation)
    if any(surely_less(n, 1) for n in out):
        raise RuntimeError(
            f"Given input with spatial size {list(input.shape[-2:])}, kernel_size={window}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks as {out}, but its components must be "
            "at least one."
        )
    x = input if input.ndim == 4 else input.unsqueeze(0)
    y = _unfold(x, window, dilation, padding, stride)
    return y if input.ndim == 4 else y.squeeze(0)


@function(
    "nn.functional.fold(input: T, output_size: ints, kernel_size: ints, dilation: ints, padding: ints, stride: ints)"
)
def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Columns of sliding blocks summed back into an image: (N, C * KH * KW, L) -> (N, C, *output_size)."""
    window, dilation, padding, stride = _blocks("fold", kernel_size, dilation, padding, stride)
    size = spread(output_size, 2, "output_size", "fold")
    if input.ndim not in (2, 3):
        raise RuntimeError(f"Expected 2D or 3D (batch mode) tensor for input, but got: {shape_list(input)}")
    x = input if input.ndim == 3 else input.unsqueeze(0)
    if x.shape[1] % prod(window) != 0:
        raise RuntimeError(
            f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={x.shape[1]} and kernel_size={window}."
        )
    out = ck.out_sizes(size, window, stride, padding, dilation)
    if x.shape[2] != prod(out):
        raise RuntimeError(
            f"Given output_size={size}, kernel_size={window}, dilation={dilation}, padding={padding}, stride={stride}, "
            f"expected size of input's dimension 2 to match the calculated number of sliding blocks {out[0]} * "
            f"{out[1]} "
            f"= {prod(out)}, but got input.size(2)={x.shape[2]}."
        )
    y = _fold(x, size, window, dilation, padding, stride)
    return y if input.ndim == 3 else y.squeeze(0)


# ---- interpolation ----------------------------------------------------------------------------------

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}
_NODES = {m: f"Upsample{m.title().replace('-', '')}" for m in ("nearest", "nearest-exact", "bicubic", *_LINEAR)}
_MODES = ("nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "trilinear")


def _sources(n_in: int, n_out: int, scale: float | None, align: bool, cubic: bool = False) -> np.ndarray:
    """Source coordinate of every output position."""
    at = np.arange(n_out, dtype=np.float64)
    if align:
        return at * ((n_in - 1) / (n_out - 1)) if n_out > 1 else at * 0
    step = n_in / n_out if scale is None else 1.0 / scale
    src = (at + 0.5) * step - 0.5
    return src if cubic else np.maximum(src, 0)


class _Line:
    """The same on tensors, for sizes that are not fixed: where output positions look, counted at each call."""

    def __init__(self, x: Any, dim: int, n_out: Any) -> None:
        from .. import arange, float64, int64

        self.x, self.dim, self.n_in = x, dim, x.shape[dim]
        self.at = arange(n_out, dtype=float64)
        self.last = self.at.new_full((), self.n_in - 1, dtype=int64)

    def sources(self, n_out: Any, scale: float | None, align: bool, cubic: bool = False) -> Any:
        """Source coordinate of every output position."""
        if align:
            many = self.at.new_full((), n_out - 1)
            return self.at * (self.at.new_full((), self.n_in - 1) / many.clamp(min=1))
        step = self.at.new_full((), self.n_in) / n_out if scale is None else 1.0 / scale
        src = (self.at + 0.5) * step - 0.5
        return src if cubic else src.clamp(min=0)

    def pick(self, index: Any) -> Any:
        """Slices at whole-number positions, moved inside."""
        return self.x.index_select(self.dim, index.clamp(min=0).minimum(self.last))

    def weighted(self, index: Any, weight: Any) -> Any:
        """Slices times one weight each."""
        shape = [1] * self.x.ndim
        shape[self.dim] = -1
        return self.pick(index) * weight.to(self.x.dtype).view(*shape)


def _along(x: Any, dim: int, index: np.ndarray) -> Any:
    from .. import from_numpy

    return x.index_select(dim, from_numpy(np.ascontiguousarray(index, dtype=np.int64)))


def _weights(w: np.ndarray, x: Any, dim: int) -> Any:
    from .. import from_numpy

    shape = [1] * x.ndim
    shape[dim] = w.size
    return from_numpy(w.astype(x.dtype.np)).view(*shape)


def _linear_along(x: Any, dim: int, n_out: int, scale: float | None, align: bool) -> Any:
    if varies(x.shape[dim]) or varies(n_out):
        line = _Line(x, dim, n_out)
        places = line.sources(n_out, scale, align)
        low = places.long().minimum(line.last)
        part = (places - low).clamp(0, 1)
        return line.weighted(low, 1 - part) + line.weighted(low + 1, part)
    n_in = int(x.shape[dim])
    if n_out == n_in and (align or scale in (None, 1.0)):
        return x
    src = _sources(n_in, n_out, scale, align)
    low = np.minimum(src.astype(np.int64), n_in - 1)
    part = np.clip(src - low, 0, 1)
    high = np.minimum(low + 1, n_in - 1)
    if x.dtype in (float32, float64):
        return weighted(x, dim, [low, high], [1 - part, part])
    return _along(x, dim, low) * _weights(1 - part, x, dim) + _along(x, dim, high) * _weights(part, x, dim)


def _cubic_taps(t: np.ndarray, a: float = -0.75) -> list[np.ndarray]:
    """Weights of the four neighbours at distances 1 + t, t, 1 - t, 2 - t (Keys, 1981)."""

    def near(d: np.ndarray) -> np.ndarray:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: np.ndarray) -> np.ndarray:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


def _cubic_along(x: Any, dim: int, n_out: int, scale: float | None, align: bool) -> Any:
    if varies(x.shape[dim]) or varies(n_out):
        line = _Line(x, dim, n_out)
        places = line.sources(n_out, scale, align, cubic=True)
        floor = places.floor()
        taps = enumerate(_cubic_taps(places - floor))
        parts = [line.weighted(floor.long() + (i - 1), w) for i, w in taps]
        return parts[0] + parts[1] + parts[2] + parts[3]
    n_in = int(x.shape[dim])
    src = _sources(n_in, n_out, scale, align, cubic=True)
    low = np.floor(src).astype(np.int64)
    total: Any = None
    if x.dtype in (float32, float64):
        places = [np.clip(low + i - 1, 0, n_in - 1) for i in range(4)]
        return weighted(x, dim, places, _cubic_taps(src - low))
    for i, w in enumerate(_cubic_taps(src - low)):
        part = _along(x, dim, np.clip(low + i - 1, 0, n_in - 1)) * _weights(w, x, dim)
        total = part if total is None else total + part
    return total


def _smooth_along(x: Any, dim: int, n_out: int, scale: float | None, align: bool, cubic: bool) -> Any:
    """Resampling with a filter that widens when shrinking (antialias)."""
    from .. import from_numpy

    n_in = int(x.shape[dim])
    if align:
        step = (n_in - 1) / (n_out - 1) if n_out > 1 else 0.0
    else:
        step = n_in / n_out if scale is None else 1.0 / scale
    reach = 2.0 if cubic else 1.0
    support = reach * step if step >= 1 else reach
    shrink = 1.0 / step if step >= 1 else 1.0
    matrix = np.zeros((n_out, n_in))
    for i in range(n_out):
        centre = step * (i + 0.5)
        start, end = max(int(centre - support + 0.5), 0), min(int(centre + support + 0.5), n_in)
        d = np.abs((np.arange(start, end) - centre + 0.5) * shrink)
        if cubic:
            a = -0.5
            w = np.where(d < 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
            w = np.where(d < 2, w, 0)
        else:
            w = np.where(d < 1, 1 - d, 0)
        matrix[i, start:end] = w / (w.sum() or 1.0)
    weight = from_numpy(matrix.astype(x.dtype.np))
    moved = x.movedim(dim, -1)
    return (moved @ weight.t()).movedim(-1, dim)


def _nearest_along(x: Any, dim: int, n_out: int, scale: float | None, exact: bool) -> Any:
    if varies(x.shape[dim]) or varies(n_out):
        line = _Line(x, dim, n_out)
        step = line.at.new_full((), line.n_in) / n_out if scale is None else line.at.new_full((), 1.0 / scale)
        at = line.at.float()
        return line.pick((((at + 0.5) if exact else at) * step.float()).floor().long())
    n_in = int(x.shape[dim])
    step = np.float32(n_in / n_out if scale is None else 1.0 / scale)
    at = np.arange(n_out, dtype=np.float32)
    src = np.floor(((at + np.float32(0.5)) if exact else at) * step).astype(np.int64)
    src = np.clip(src, 0, n_in - 1)
    if x.dtype in (float32, float64) and x.requires_grad:  # the gradient adds nothing at indices
        return weighted(x, dim, [src], [np.ones(n_out)])
    return _along(x, dim, src)


def _scaled(n: Any, factor: float) -> Any:
    """``floor(n * factor)``; of a size that is not fixed, if the factor is a simple fraction (2, 0.5, 1.5)."""
    if varies(n) and math.isfinite(factor) and factor > 0:
        above, below = factor.as_integer_ratio()
        if below <= 64 and above <= 1024:
            return n * above if below == 1 else n * above // below
    return int(math.floor(int(n) * factor))


def _sizes(input: Any, size: Any, scale_factor: Any, recompute: Any) -> tuple[list[int], list]:
    nd = input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined"
        )
    if size is not None:
        if isinstance(size, (list, tuple)):
            if len(size) != nd:
                raise ValueError(
                    f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                    f"dimensions of {list(input.shape[2:])} and output size of {size}."
                )
            if not all(isinstance(s, (int, np.integer, SymbolicSize)) for s in size):
                raise TypeError(
                    f"expected size to be one of int or Tuple[int] but got size with types {[type(s) for s in size]}"
                )
            return [s if varies(s) else int(s) for s in size], [None] * nd
        return [size if varies(size) else int(size)] * nd, [None] * nd
    if isinstance(scale_factor, (list, tuple)):
        if len(scale_factor) != nd:
            raise ValueError(
                f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}."
            )
        scales = [float(s) for s in scale_factor]
    else:
        scales = [float(scale_factor)] * nd
    out = [_scaled(s, f) for s, f in zip(input.shape[2:], scales, strict=True)]
    return out, ([None] * nd if recompute else scales)


@function("nn.functional.interpolate(input: T, mode: str, antialias: bool)")
def interpolate(
    input,
    size=None,
    scale_factor=None,
    mode="nearest",
    align_corners=None,
    recompute_scale_factor=None,
    antialias=False,
):
    """Resample the spatial dimensions of (N, C, *) to `size` or by `scale_factor`."""
    if recompute_scale_factor is None and type(mode) is str:
        found = _remembered(input, size, scale_factor, mode, align_corners, antialias)
        if found is not None:
            return found
    return _resampled(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def _remembered(input, size, scale_factor, mode, align_corners, antialias):
    """The resampling of a small image by its matrix; None where there is none, or where something is to be refused."""
    nd = input.ndim - 2
    if nd < 1 or plain_image(input, nd) is None or mode == "area" or type(antialias) is not bool:
        return None
    if align_corners is not None and type(align_corners) is not bool:
        return None
    for v in (size, scale_factor):
        v = v[0] if type(v) is tuple and len({type(x) for x in v}) == 1 else v
        if v is not None and type(v) is not int and (type(v) is not float or v is size):
            return None
    args = (size, scale_factor, mode, align_corners, None, antialias)
    return linear_map(_NODES.get(mode, mode) + f"{nd}D" + "Aa" * antialias, _resampled, input, nd, *args)


def _resampled(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias):
    if mode not in _MODES:
        raise NotImplementedError(f"Input Error: mode must be one of {' | '.join(_MODES)}, got {mode}")
    if mode in ("nearest", "nearest-exact", "area"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic "
                "| trilinear"
            )
    nd = input.ndim - 2
    if nd not in (1, 2, 3):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
            f"{' | '.join(_MODES)} (got {mode})"
        )
    sizes, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    if any(surely_less(s, 1) for s in sizes) or any(surely_less(s, 1) for s in input.shape[1:]):
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(input.shape)} and output {sizes}"
        )
    if antialias and not (mode in ("bilinear", "bicubic") and nd == 2):
        raise ValueError("Anti-alias option is only supported for bilinear and bicubic modes")
    want = {"bicubic": 2, **_LINEAR}.get(mode)
    if want is not None and want != nd:
        raise NotImplementedError(f"Got {input.ndim}D input, but {mode} mode needs {want + 2}D input")
    if mode == "area":
        F = _f()
        return (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[nd - 1](input, sizes)
    x, align = input, bool(align_corners)
    for i, (n, s) in enumerate(zip(sizes, scales, strict=True)):
        if antialias:
            x = _smooth_along(x, 2 + i, n, s, align, mode == "bicubic")
        elif mode in _LINEAR:
            x = _linear_along(x, 2 + i, n, s, align)
        elif mode == "bicubic":
            x = _cubic_along(x, 2 + i, n, s, align)
        else:
            x = _nearest_along(x, 2 + i, n, s, mode == "nearest-exact")
    return x.clone(memory_format="contiguous") if x is input else x


def _f() -> Any:
    from .. import nn

    return nn.functional


@function("nn.functional.upsample(input: T, mode: str)")
def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The old name of interpolate."""
    return interpolate(input, size, scale_factor, mode, align_corners)


@function("nn.functional.upsample_nearest(input: T)")
def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode="nearest"."""
    return interpolate(input, size, scale_factor, mode="nearest")


@function("nn.functional.upsample_bilinear(input: T)")
def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode="bilinear" and align_corners=True."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)
