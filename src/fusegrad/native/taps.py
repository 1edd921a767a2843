"""Definitions of the kernels of convolutions of eager tensors, for any sizes, steps and dilations.

Images lie so that a tap t of a filter sees the image from a distance at[t] on: a result at position p is the sum over
channels c and taps t of x[c][p + at[t]] * w[c][t] (ops/_conv_taps.py makes such images). Several outputs are summed
together, so that a number of an image is read once for all of them.
"""

from __future__ import annotations

from fusegrad.dtypes import dtype, int64

from .nest import ArrayParam, Kernel, Loop, Nest, Phase, Reduce, SizeParam, Store
from .scalar import b

_ROWS = {"z": "xz", "r": "xr", "q": 1}


def _loops(names: str) -> tuple[Loop, ...]:
    return tuple(Loop(x, f"{x}_") for x in names)


def sums(d: dtype, outs: int) -> Kernel:
    """y[n, g, o, z, r, q] = the sum over t of x[n, g][z * xz + r * xr + q + at[t]] * w[g, o, t], in blocks of ``outs``
    outputs; t counts the taps of all channels: x, w[g, blocks, t, outs], at (int64), y, the sizes n, g, blocks, z, r,
    q, t, then the distances of groups, planes and rows in x.
    """
    at = b.load("at", int64, terms={"t": 1})
    x = b.load("x", d, terms={"n": "g_*xg", "g": "xg", **_ROWS}, gather=[(at, 1)])
    weight = {"g": f"b_*t_*{outs}", "b": f"t_*{outs}", "t": outs}
    reduces = tuple(Reduce(f"o{o}", "sum", x * b.load("w", d, offset=o, terms=weight)) for o in range(outs))
    area = "z_*r_*q_"
    here = {"n": f"g_*b_*{outs}*{area}", "g": f"b_*{outs}*{area}", "b": f"{outs}*{area}", "z": "r_*q_", "r": "q_"}
    here["q"] = 1
    stores = tuple(Store("y", b.acc(r.name, d), offset=f"{o}*{area}", terms=here) for o, r in enumerate(reduces))
    nest = Nest(_loops("ngbzrq"), (Phase(_loops("t"), reduces), Phase((), (), stores)))
    params = (ArrayParam("x", d), ArrayParam("w", d), ArrayParam("at", int64), ArrayParam("y", d, True))
    sizes = tuple(SizeParam(s) for s in ("n_", "g_", "b_", "z_", "r_", "q_", "t_", "xg", "xz", "xr"))
    return Kernel("conv_sums", (*params, *sizes), (nest,))


def sums_last(d: dtype, block: int) -> Kernel:
    """The same sums for small images, by vectors of outputs, of which there are many: y[n, g, z, r, q, o] in blocks of
    ``block`` columns; x, w[g, blocks, t, 32], at (int64), y, the sizes n, g, b (blocks of 32 outputs), z, r, k (blocks
    of columns), t, then the distances as before.
    """
    at = b.load("at", int64, terms={"t": 1})
    image = {"n": "g_*xg", "g": "xg", "z": "xz", "r": "xr", "k": block}
    line = b.load("w", d, terms={"g": "b_*t_*32", "b": "t_*32", "t": 32, "l": 1})
    ones = [b.load("x", d, offset=i, terms=image, gather=[(at, 1)]) for i in range(block)]
    reduces = tuple(Reduce(f"q{i}", "sum", line * x) for i, x in enumerate(ones))
    o, steps = "b_*32", {}
    for name, size in (("k", str(block)), ("r", "k_"), ("z", "r_"), ("g", "z_"), ("n", "g_")):
        steps[name] = o = f"{o}*{size}"
    stores = tuple(
        Store("y", b.acc(r.name, d), offset=f"{i}*b_*32", terms={**steps, "b": 32, "l": 1})
        for i, r in enumerate(reduces)
    )
    outer = (*_loops("gbnzrk"), Loop("l", 32))
    nest = Nest(outer, (Phase(_loops("t"), reduces), Phase((), (), stores)))
    params = (ArrayParam("x", d), ArrayParam("w", d), ArrayParam("at", int64), ArrayParam("y", d, True))
    sizes = tuple(SizeParam(s) for s in ("n_", "g_", "b_", "z_", "r_", "k_", "t_", "xg", "xz", "xr"))
    return Kernel("conv_sums_last", (*params, *sizes), (nest,))


def weights(d: dtype, outs: int, channels: int) -> Kernel:
    """w[m, g, o, c, t] = the sum over n, z, r and q of y[n, g, o, z, r, q] * x[n, g, c][z * xz + r * xr + q + at[t]],
    in blocks of ``outs`` outputs and ``channels`` channels, of parts m: x, y, at (int64), w, the sizes m, g, b and k
    (blocks of outputs and channels), n, z, r, q (of a part) and t; then the distances of parts, samples, channels,
    planes and rows in x, and of parts, samples, outputs, planes and rows in y.
    """
    at = b.load("at", int64, terms={"t": 1})
    image = {"m": "xm", "n": "xn", "g": f"k_*{channels}*xc", "k": f"{channels}*xc", **_ROWS}
    xs = [b.load("x", d, offset=f"{c}*xc", terms=image, gather=[(at, 1)]) for c in range(channels)]
    back = {"m": "ym", "n": "yn", "g": f"b_*{outs}*yo", "b": f"{outs}*yo", "z": "yz", "r": "yr", "q": 1}
    ys = [b.load("y", d, offset=f"{o}*yo", terms=back) for o in range(outs)]
    reduces = tuple(Reduce(f"s{o}_{c}", "sum", y * x) for o, y in enumerate(ys) for c, x in enumerate(xs))
    row = f"k_*{channels}*t_"  # the weights of an output
    places = {"m": f"g_*b_*{outs}*{row}", "g": f"b_*{outs}*{row}", "b": f"{outs}*{row}", "k": f"{channels}*t_", "t": 1}
    stores = [
        Store("w", b.acc(r.name, d), offset=f"{i // channels}*{row} + {i % channels}*t_", terms=places)
        for i, r in enumerate(reduces)
    ]
    nest = Nest(_loops("mgbkt"), (Phase(_loops("nzrq"), reduces), Phase((), (), tuple(stores))))
    params = (ArrayParam("x", d), ArrayParam("y", d), ArrayParam("at", int64), ArrayParam("w", d, True))
    names = (*(f"{x}_" for x in "mgbknzrqt"), *(f"x{x}" for x in "mnczr"), *(f"y{x}" for x in "mnozr"))
    return Kernel("conv_weights", (*params, *map(SizeParam, names)), (nest,))


def products(d: dtype, block: int, turned: bool) -> Kernel:
    """The same sums with channels and outputs last: w[m, g, t, k, i, l] for the channel k * block + i and the output l
    (``turned``: the other way round), of x[m, n, z, r, q][g, channel] and y[m, n, z, r, q][g, output]: x, y, at
    (int64), w, the sizes m, g, t, k, l, n, z, r, q; then the distances of parts, samples, groups, planes, rows and
    columns in x, and in y.
    """
    at = b.load("at", int64, terms={"t": 1})
    places = [{k: f"{a}{k}" for k in "mngzrq"} for a in "xy"]
    first, second = (places[1], places[0]) if turned else places
    names = ("y", "x") if turned else ("x", "y")
    seen = {"x": [(at, 1)], "y": []}
    ones = [b.load(names[0], d, offset=i, terms={**first, "k": block}, gather=seen[names[0]]) for i in range(block)]
    line = b.load(names[1], d, terms={**second, "l": 1}, gather=seen[names[1]])
    reduces = tuple(Reduce(f"s{i}", "sum", line * one) for i, one in enumerate(ones))
    here = {"m": f"g_*t_*k_*{block}*l_", "g": f"t_*k_*{block}*l_", "t": f"k_*{block}*l_", "k": f"{block}*l_", "l": 1}
    stores = tuple(Store("w", b.acc(r.name, d), offset=f"{i}*l_", terms=here) for i, r in enumerate(reduces))
    nest = Nest(_loops("mgtkl"), (Phase(_loops("nzrq"), reduces), Phase((), (), stores)))
    params = (ArrayParam("x", d), ArrayParam("y", d), ArrayParam("at", int64), ArrayParam("w", d, True))
    sizes = (*(f"{x}_" for x in "mgtklnzrq"), *(f"{a}{x}" for a in "xy" for x in "mngzrq"))
    return Kernel("conv_products", (*params, *map(SizeParam, sizes)), (nest,))
