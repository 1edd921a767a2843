"""Convolutions as native loops: which ones, and as which nests.

A convolution of images (or rows) is cut into blocks of outputs that stay in registers while all channels and taps are
summed: no columns are copied.  Three operators of the graph lead to two kinds of nests:

``sums``     y[n, o, r, x] = sum over c, ky, kx of image[n, c, r * step + ky * dilation, x * step + kx * dilation] * w:
             the convolution itself; and its derivative for the input, which is a convolution with the weight turned
             around, one for each residue of the position modulo the step.
``weights``  w[o, c, ky, kx] = sum over n, r, x of g[n, o, r, x] * image[...]: the derivative for the weight.

``image`` is the input with its border: ``low`` says where its first row and column lie in the input.  The order of all
sums follows from the sizes alone, so results depend neither on the machine nor on the number of threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fusegrad import dtypes
from fusegrad.meta import Meta
from fusegrad.native.convolution import SLOTS, Convolution, Pair
from fusegrad.native.nest import ArrayParam, Kernel, Loop, Nest, Phase, SizeParam, Store
from fusegrad.native.scalar import b

from ..ir.graph import Node, Value

__all__ = ["SLOTS", "Convolution", "Native", "native"]

LANES = {"f32": 16, "f64": 8}  # of one vector
WEIGHTS = 10 << 20  # bytes that the accumulators of `weights` may take
LIBRARY = 6 << 20  # multiplications of a sample from which filters of one element are left to a library's product


@dataclass(frozen=True, slots=True)
class Native:
    """An operator as a kernel. ``args``: which of the node's inputs the kernel's first parameters are; its output
    and then scratch arrays of these numbers of elements follow, and arrays of integer zeros.  ``views``: inputs that
    may lie in memory in any way.
    """

    kernel: Kernel
    args: tuple[int, ...]
    scratch: tuple[int, ...]
    zeros: tuple[int, ...] = ()
    views: tuple[int, ...] = ()


def native(node: Node, budget: int) -> Native | None:
    """The kernel of a convolution whose sizes, but for the number of samples, are known; None for anything else.

    ``budget``: vectors that a loop may accumulate in registers (no result depends on it); 0 where there are no fused
    multiply-adds.
    """
    if not budget:
        return None
    if node.op.name not in ("_conv", "_conv_input", "_conv_weight"):
        return None
    x, w, out = node.args[0], node.args[1], node.outputs[0]
    if not (isinstance(x, Value) and isinstance(w, Value)):
        return None
    metas = x.meta, w.meta, out.meta
    if any(m.dtype is not out.meta.dtype or m.weak for m in metas) or out.meta.dtype.short not in LANES:
        return None
    attrs = node.attrs
    images = [m.shape for m in (x.meta, w.meta if node.op.name == "_conv_weight" else out.meta)]
    sizes = [*images[0][1:], *images[1][1:], *attrs["stride"], *attrs["padding"], *attrs["dilation"], attrs["groups"]]
    sizes += w.meta.shape if node.op.name != "_conv_weight" else out.meta.shape
    if not all(type(s) is int and s >= 0 for s in sizes) or 0 in (*images[0][1:], *images[1][1:], *out.meta.shape[1:]):
        return None
    steps = [attrs["stride"], attrs["padding"], attrs["dilation"]]
    if attrs["groups"] == 1 and _is_pointwise(node, steps):  # a row of positions: its vectors are full
        if math.prod(images[0][1:]) * images[1][1] > LIBRARY:
            return None  # a product of large matrices without any copy
        metas = tuple(Meta((*m.shape[:2], math.prod(m.shape[2:])), m.dtype) for m in metas)
        steps = [(1,), (0,), (1,)]
    if attrs["groups"] != 1 or len(steps[0]) > 2:
        return None
    make = {"_conv": _forward, "_conv_input": _backward, "_conv_weight": _weights}[node.op.name]
    step, padding, dilation = (_pair(v, fill) for v, fill in zip(steps, (1, 0, 1), strict=True))
    bodies = make(metas, step, padding, dilation, LANES[out.meta.dtype.short], budget)
    if not bodies or not all(_pays(c) for c in bodies):
        return None
    clear = math.prod(out.meta.shape[1:]) if _leaves_gaps(bodies) else 0
    return Native(_kernel(node.op.name, bodies, clear, out.meta.dtype), _ARGS[node.op.name], _scratch(bodies))


def _is_pointwise(node: Node, steps: list) -> bool:
    """Whether every position is a product of its own: filters of one element, at every position."""
    weight = (node.outputs[0] if node.op.name == "_conv_weight" else node.args[1]).meta.shape
    return {*weight[2:]} == {1} and {*steps[0]} == {1} and {*steps[1]} == {0}


_ARGS = {"_conv": (0, 1), "_conv_input": (0, 1), "_conv_weight": (1, 0)}


def _pair(values: Any, fill: int) -> Pair:
    return (fill, values[0]) if len(values) == 1 else tuple(values)  # type: ignore[return-value]


def _image(shape: tuple) -> Pair:
    return (1, shape[2]) if len(shape) == 3 else (shape[2], shape[3])


def _pays(c: Convolution) -> bool:
    """Whether the loops are faster than columns and a matrix product."""
    if c.step[1] > 2 or c.taps[1] > 7:
        return False
    if c.grid[1] * 2 < c.lanes * c.vectors:  # most lanes would idle
        return False
    if not c.bordered and c.beyond > c.channels * c.pitch[0]:
        return False  # the sample before the last would reach behind the end
    return c.what == "sums" or c.accumulators * c.bytes <= WEIGHTS


def _forward(metas: tuple, step: Pair, padding: Pair, dilation: Pair, lanes: int, budget: int) -> list[Convolution]:
    x, w, y = (m.shape for m in metas)
    taps, grid = _image(w), _image(y)
    area = math.prod(taps)
    return [
        Convolution(
            "sums", "x", "w", "y", "border", "", x[1], y[1], _image(x), padding, grid, taps, step, dilation,
            (0, x[1] * area, area, taps[1], 1), (*grid, 0, 0, 1, 1), lanes, budget,
        )
    ]  # fmt: skip


def _backward(metas: tuple, step: Pair, padding: Pair, dilation: Pair, lanes: int, budget: int) -> list[Convolution]:
    """Row i of the result is the sum over ky of row (i + padding - ky * dilation) / step of the cotangent, where that
    is whole: for the rows i = a, a + step, ... these are every few taps, in falling order.
    """
    g, w, out = (m.shape for m in metas)
    size, taps = _image(out), _image(w)
    area = math.prod(taps)
    found = []
    parts = [
        [_residue(a, *along) for a in range(along[0])]
        for along in zip(step, padding, dilation, size, taps, strict=True)
    ]
    for rows in parts[0]:
        for columns in parts[1]:
            if rows is None or columns is None:
                continue  # zeros, see _leaves_gaps
            (ya, yn, yk, ylast, yevery, ylow), (xa, xn, xk, xlast, xevery, xlow) = rows, columns
            if not yn or not xn:
                continue
            weight = ylast * taps[1] + xlast, area, w[1] * area, -yevery * taps[1], -xevery
            found.append(
                Convolution(
                    "sums", "x", "w", "y", "border", "", g[1], out[1], _image(g), (ylow, xlow), (yn, xn), (yk, xk),
                    (1, 1), (yevery * dilation[0] // step[0], xevery * dilation[1] // step[1]), weight,
                    (*size, ya, xa, *step), lanes, budget,
                )
            )  # fmt: skip
    return found


def _residue(a: int, step: int, padding: int, dilation: int, size: int, taps: int) -> tuple | None:
    """For the positions a, a + step, ... : (a, how many, taps that meet them, the last such tap, distance between such
    taps, where the image begins in the cotangent); None where no tap meets them.
    """
    met = [k for k in range(taps) if (a + padding - k * dilation) % step == 0]
    if not met:
        return None
    every = met[1] - met[0] if len(met) > 1 else step
    low = -((a + padding - met[-1] * dilation) // step)
    return a, len(range(a, size, step)), len(met), met[-1], every, low


def _weights(metas: tuple, step: Pair, padding: Pair, dilation: Pair, lanes: int, budget: int) -> list[Convolution]:
    g, x, w = (m.shape for m in metas)
    taps, grid = _image(w), _image(g)
    area = math.prod(taps)
    return [
        Convolution(
            "weights", "x", "w", "y", "border", "sums", x[1], g[1], _image(x), padding, grid, taps, step, dilation,
            (0, x[1] * area, area, taps[1], 1), (*grid, 0, 0, 1, 1), lanes, budget,
        )
    ]  # fmt: skip


def _leaves_gaps(bodies: list[Convolution]) -> bool:
    """Whether some rows or columns of the target meet no tap."""
    y, x = bodies[0].target[4:]
    size = bodies[0].target[:2]
    return bodies[0].what == "sums" and sum(math.prod(c.grid) for c in bodies) < math.prod(size) and y * x > 1


def _kernel(name: str, bodies: list[Convolution], clear: int, dtype: dtypes.dtype) -> Kernel:
    weights = bodies[0].what == "weights"
    read, written = ("x", "y"), "w"
    if not weights:
        read, written = ("x", "w"), "y"
    params: list[Any] = [ArrayParam(p, dtype) for p in read]
    params += [ArrayParam(written, dtype, True)]
    params += [ArrayParam(p, dtype, True) for p in ("border", "sums")[: len(_scratch(bodies))]]
    params += [SizeParam("n", ("x", "shape", 0))]
    nests = []
    if clear:
        zero = Store("y", b.const(0, dtype), terms={"sample": clear, "k": 1})
        nests.append(Nest((Loop("sample", "n"),), (Phase((Loop("k", clear),), stores=(zero,)),), f"{name}: zeros"))
    for c in bodies:
        loop = Loop("block", c.blocks[0]) if weights else Loop("sample", "n")
        nests.append(Nest((loop,), (), f"{name}: {c.what}", c))
    return Kernel(name.strip("_"), tuple(params), tuple(nests))


def _scratch(bodies: list[Convolution]) -> tuple[int, ...]:
    border = (
        max(1, *(c.copies * c.slot for c in bodies)) if len(bodies) > 1 else max(1, bodies[0].copies * bodies[0].slot)
    )
    return (border, bodies[0].accumulators) if bodies[0].what == "weights" else (border,)
