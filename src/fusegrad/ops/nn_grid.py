"""Sampling of images at given coordinates: affine_grid and grid_sample."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from ..autograd.api import grad
from ..autograd.modes import SLOW, STATE, enable_grad, no_grad
from ..autograd.rooted import rooted
from ..dispatch import FAST
from ..errors import warn
from ..handler import current
from ..meta import Meta, surely_less
from ..native.on_demand import defined
from ..op import Sample, function, op
from ..size_values import varies
from ..tensor import wrap
from ._native import dense, plain_arrays
from ._nn import data, shape_list
from .nn_vision import _cubic_taps


@function("nn.functional.affine_grid(theta: T, size: ints, align_corners: bool)")
def affine_grid(theta, size, align_corners=None):
    """Coordinates (N, H, W, 2) or (N, D, H, W, 3) of the affine maps theta (N, 2, 3) or (N, 3, 4)."""
    from .. import from_numpy, meshgrid, ones_like, stack

    if align_corners is None:
        align_corners = False
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    nd = len(size) - 2
    if nd not in (2, 3):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms. Got size {size}"
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (nd, nd + 1):
        raise ValueError(
            f"Expected a batch of {nd}D affine matrices of shape Nx{nd}x{nd + 1} for size {size}. Got {theta.shape}."
        )
    if any(surely_less(n, 1) for n in size):
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if any(varies(n) for n in size[2:]):
        lines = [_line(theta, n, align_corners) for n in size[2:]]
        grids = [*reversed(meshgrid(*lines, indexing="ij"))]
        base = stack([*grids, ones_like(grids[0])], -1).reshape(-1, nd + 1)
        return (base @ theta.transpose(1, 2)).view(theta.shape[0], *size[2:], nd)
    axes = []
    for n in size[2:]:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        axes.append(line if align_corners else line * ((n - 1) / n))
    mesh = np.meshgrid(*axes, indexing="ij")
    base = np.stack([*reversed(mesh), np.ones_like(mesh[0])], -1).reshape(-1, nd + 1).astype(theta.dtype.np)
    out = from_numpy(base) @ theta.transpose(1, 2)
    return out.view(theta.shape[0], *size[2:], nd)


def _line(theta: Any, n: Any, align_corners: bool) -> Any:
    """The coordinates along one dimension, for a size that is not fixed."""
    from .. import arange, float64

    at = arange(n, dtype=float64)
    if align_corners:
        line = at * 2 / at.new_full((), n - 1).clamp(min=1) - 1
        line = line.where(at.new_full((), n) > 1, at * 0)
    else:
        line = (at * 2 + 1) / n - 1
    return line.to(theta.dtype)


def _unnormalize(c: Any, size: Any, align: bool) -> Any:
    return (c + 1) / 2 * (size - 1) if align else ((c + 1) * size - 1) / 2


def _inside(c: Any, size: Any) -> Any:
    """`c` moved into 0 .. size - 1."""
    if varies(size):
        return c.clamp(min=0).minimum(c.new_full((), size - 1))
    return c.clamp(0, size - 1)


def _reflect(c: Any, size: Any, align: bool) -> Any:
    """Coordinates folded back at the borders (pixel centres if `align`, else pixel edges)."""
    low, span = (0.0, size - 1) if align else (-0.5, size)
    if varies(size):
        span = c.new_full((), span).clamp(min=1e-30)  # of a single pixel: everything is moved to it
    elif span == 0:
        return c * 0
    distance = (c - low).abs()
    flips = (distance / span).floor().detach()
    extra = distance - flips * span
    return extra.where(flips % 2 == 0, span - extra) + low


def _pad_coordinate(c: Any, size: Any, padding_mode: str, align: bool) -> Any:
    if padding_mode == "zeros":
        return c
    if padding_mode == "reflection":
        c = _reflect(c, size, align)
    return c.where((c > 0) & (c < size - 1), _inside(c.detach(), size))  # on the border itself it has no slope


def _pick(flat: Any, coordinates: list, sizes: list) -> tuple[Any, Any]:
    """Values (N, C, P) at whole-number coordinates (one (N, P) tensor a dimension), and where those exist."""
    index: Any = 0
    inside: Any = None
    for c, size in zip(coordinates, sizes, strict=True):
        c = c.detach()
        ok = (c >= 0) & (c <= size - 1)
        inside = ok if inside is None else inside & ok
        index = index * size + _inside(c.nan_to_num(-1.0), size).long()
    n, channels = flat.shape[:2]
    return flat.gather(2, index.unsqueeze(1).expand(n, channels, index.shape[1])), inside.unsqueeze(1)


def _sample_linear(flat: Any, coords: list, sizes: list) -> Any:
    lows = [c.floor().detach() for c in coords]
    total: Any = None
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        weight: Any = None
        for c, low, up in zip(coords, lows, corner, strict=True):
            w = c - low if up else low + 1 - c
            weight = w if weight is None else weight * w
        values, inside = _pick(flat, [low + up for low, up in zip(lows, corner, strict=True)], sizes)
        part = _weighted(values, weight, inside)
        total = part if total is None else total + part
    return total


def _weighted(values: Any, weight: Any, inside: Any) -> Any:
    """Pixels by weights: 0 outside, and what is no number there (either of them) is in no gradient of the other."""
    outside = ~inside
    weight = weight.unsqueeze(1).masked_fill(outside, 0.0)
    return (values * weight).masked_fill(outside, 0.0)


def _sample_cubic(flat: Any, coords: list, sizes: list, padding_mode: str, align: bool) -> Any:
    lows = [c.floor().detach() for c in coords]
    taps = [_cubic_taps(c - low) for c, low in zip(coords, lows, strict=True)]
    total: Any = None
    for corner in itertools.product(range(4), repeat=2):
        places = [
            _pad_coordinate(low + (i - 1), size, padding_mode, align).round()
            for low, i, size in zip(lows, corner, sizes, strict=True)
        ]
        values, inside = _pick(flat, places, sizes)
        weight = taps[0][corner[0]] * taps[1][corner[1]]
        part = _weighted(values, weight, inside)
        total = part if total is None else total + part
    return total


def _check_grid(input: Any, grid: Any, mode: str, padding_mode: str) -> int:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    nd = input.ndim - 2
    if nd not in (2, 3) or grid.ndim != input.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input "
            f"with sizes "
            f"{shape_list(input)} and grid with sizes {shape_list(grid)}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{shape_list(input)} and grid with sizes {shape_list(grid)}"
        )
    if grid.shape[-1] != nd:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {nd} in last dimension, but got grid "
            f"with sizes {shape_list(grid)}"
        )
    if mode == "bicubic" and nd != 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if any(surely_less(s, 1) for s in input.shape[2:]):
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {shape_list(input)}"
        )
    return nd


@function("nn.functional.grid_sample(input: T, grid: T, mode: str, padding_mode: str)")
def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of `input` (N, C, *S) at the coordinates `grid` (N, *L, len(S)) in [-1, 1], last dimension first."""
    _check_grid(input, grid, mode, padding_mode)
    if align_corners is None:
        warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False. Please specify "
            "align_corners=True if the old behavior is desired.",
            UserWarning,
        )
    align = bool(align_corners)
    if _plain(input, grid):
        return _grid_sampler(input, grid, mode, padding_mode, align)
    return _composed(input, grid, mode, padding_mode, align)


def _composed(input: Any, grid: Any, mode: str, padding_mode: str, align: bool) -> Any:
    """grid_sample by operators, for checked arguments."""
    nd = input.ndim - 2
    n, channels = input.shape[:2]
    sizes = [s if varies(s) else int(s) for s in input.shape[2:]]
    flat = input.flatten(2)
    points = grid.flatten(1, -2)
    coords = [_unnormalize(points.select(2, nd - 1 - i), sizes[i], align) for i in range(nd)]
    if mode == "bicubic":
        out = _sample_cubic(flat, coords, sizes, padding_mode, align)
    else:
        coords = [_pad_coordinate(c, s, padding_mode, align) for c, s in zip(coords, sizes, strict=True)]
        if mode == "bilinear":
            out = _sample_linear(flat, coords, sizes)
        else:
            values, inside = _pick(rooted(flat), [c.detach().round() for c in coords], sizes)
            if grid.requires_grad:  # its gradient is zero, not missing
                steps = [c.round() for c in coords]
                out = _weighted(values, 1 + sum(s - s.detach() for s in steps), inside)
            else:
                out = values.masked_fill(~inside, 0.0)
    return out.view(n, channels, *grid.shape[1:-1])


# ---- images and volumes of eager tensors: machine code ----


def _plain(input: Any, grid: Any) -> bool:
    """Whether both are plain tensors of one of the dtypes that have machine code, with something to sample."""
    if SLOW[0] or type(input) not in FAST or type(grid) not in FAST or current() is not None:
        return False
    x, c = input._data, grid._data
    return x is not None and c is not None and x.dtype is c.dtype and x.dtype.char in "fd" and x.size > 0 < c.size


def _taps(nd: int, mode: str) -> int:
    return {"nearest": 1, "bilinear": 2, "bicubic": 4}[mode] ** nd


def _places(grid: np.ndarray, x: np.ndarray, how: tuple) -> tuple | None:
    """(index, weight, sizes, those of planes of rows) of each point's pixels; None without machine code."""
    nd = x.ndim - 2
    f = defined_once("places", nd, *how)[grid.dtype]
    if f is None:
        return None
    s, p, taps = len(grid), math.prod(grid.shape[1:-1]), _taps(nd, how[0])
    sizes = s, *x.shape[1:], p
    index, weight = np.empty((s, taps, p), np.int64), np.empty((s, taps, p) if taps > 1 else 0, grid.dtype)
    f(grid, index, weight, *sizes)
    return index, weight, sizes, (*sizes[:2], math.prod(x.shape[2:-1]), *sizes[-2:])


@functools.cache
def defined_once(name: str, *args: Any) -> Any:
    """``native.grids``' kernels of this name for these arguments."""
    return defined("grids", name, *args)


def _pulled(g: Any, x: Any, grid: Any, how: tuple, need: Any) -> tuple | None:
    """Gradients for the images and the grid, as arrays; None without machine code."""
    g, x, grid = map(dense, (g, x, grid))
    found = _places(grid, x, how)
    if found is None:
        return None
    index, weight, sizes, flat = found
    gx = gc = None
    if need[0]:
        gx = np.zeros_like(x)
        defined_once("spread", _taps(x.ndim - 2, how[0]))[x.dtype](g, index, weight, gx, *flat)
    if need[1]:
        gc = np.zeros_like(grid)
        if how[0] != "nearest":
            defined_once("slopes", x.ndim - 2, *how)[x.dtype](g, x, index, grid, gc, *sizes)
    return gx, gc


@op(
    "_grid_sampler(input: T, grid: T, mode: str, padding_mode: str, align: bool)",
    kind="composite",
    method=False,
    function=False,
)
class _grid_sampler:
    """grid_sample of images (N, C, H, W) at points (N, P, Q, 2), or of volumes."""

    def meta(x, grid, mode, padding_mode, align):
        return Meta((*x.shape[:2], *grid.shape[1:-1]), x.dtype)

    def kernel(x, grid, mode, padding_mode, align):
        shape = *x.shape[:2], *grid.shape[1:-1]
        x, grid = dense(x), dense(grid)
        found = _places(grid, x, (mode, padding_mode, align))
        if found is None:
            with no_grad():
                return _composed(wrap(x), wrap(grid), mode, padding_mode, align)._data
        index, weight, _, flat = found
        out = np.empty(shape, x.dtype)
        defined_once("sample", _taps(x.ndim - 2, mode))[x.dtype](x, index, weight, out, *flat)
        return out

    def vjp(g, input, grid, mode, padding_mode, align, need):
        how = mode, padding_mode, align
        if (arrays := plain_arrays(g, input, grid)) and (found := _pulled(*arrays, how, need)):
            return tuple(a if a is None else wrap(a) for a in found)
        recorded = STATE.grad
        with enable_grad():  # by the operators that it is made of
            wanted = [x for x, n in zip((input, grid), need, strict=True) if n]
            found = iter(grad(_composed(input, grid, *how), wanted, g, create_graph=recorded))
        return tuple(next(found) if n else None for n in need)

    def on_arrays(g, input, grid, mode, padding_mode, align, need):
        return _pulled(g, input, grid, (mode, padding_mode, align), [n is not None for n in need])

    def decompose(input, grid, mode, padding_mode, align):
        return _composed(input, grid, mode, padding_mode, align)

    def samples():
        for mode, padding, align in (("bilinear", "zeros", False), ("bicubic", "border", True)):
            yield Sample(data(2, 2, 3, 4), data(2, 3, 2, 2) * 0.4, mode, padding, align)
        yield Sample(data(1, 2, 4, 3), data(1, 3, 1, 2), "bilinear", "reflection", False)
        yield Sample(data(1, 2, 3, 4, 3), data(1, 2, 3, 1, 3) * 0.6, "bilinear", "zeros", True)
        yield Sample(data(1, 2, 4, 3), data(1, 3, 1, 2) * 0.6, "nearest", "border", False, grad=False)
