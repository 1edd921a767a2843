"""Kernels that together use every construct of native/nest.py, each with arguments: for comparing interpreter and
printers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.dtypes import BY_SHORT, bool_, float32, float64, int32, int64
from fusegrad.native import taps
from fusegrad.native.nest import (
    ArrayParam,
    Kernel,
    Loop,
    Nest,
    Phase,
    Reduce,
    ScalarParam,
    Scratch,
    SizeParam,
    Store,
)
from fusegrad.native.scalar import Expr, b

f32, f64, i32, i64, b1 = float32, float64, int32, int64, bool_
rng = np.random.default_rng(7)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.normal(0, 1, shape).astype(dtype)


def pointwise(name: str, value: Expr, inputs: dict[str, Any], n: int | str = "n") -> Kernel:
    """y[i] = value over one loop i; inputs: name -> dtype."""
    params = [*(ArrayParam(k, d) for k, d in inputs.items()), ArrayParam("y", value.dtype, True)]
    if n == "n":
        params.append(SizeParam("n", (next(iter(inputs)), "shape", 0)))
    store = Store("y", value, terms={"i": 1})
    return Kernel(name, tuple(params), (Nest((Loop("i", n),), (Phase(stores=(store,)),)),))


def x1(name: str = "x", dtype: Any = f32) -> Expr:
    return b.load(name, dtype, terms={"i": 1})


def rows(name: str, combine: str, dtype: Any, n: Any = "n", m: Any = "m", strides: Any = None) -> Kernel:
    """y[i] = combine over j of x[i, j]."""
    si, sj = strides or (m, 1)
    x = b.load("x", dtype, terms={"i": si, "j": sj})
    out = i64 if combine.startswith("arg") else dtype
    params = [ArrayParam("x", dtype), ArrayParam("y", out, True)]
    sizes = {"n": ("x", "shape", 0), "m": ("x", "shape", 1), "sn": ("x", "stride", 0), "sm": ("x", "stride", 1)}
    used = {str(v) for v in (n, m, si, sj)}
    params += [SizeParam(k, v) for k, v in sizes.items() if k in used]
    phases = (
        Phase((Loop("j", m),), reduces=(Reduce("a", combine, x),)),
        Phase(stores=(Store("y", b.acc("a", out), terms={"i": 1}),)),
    )
    return Kernel(name, tuple(params), (Nest((Loop("i", n),), phases),))


def softmax(m: Any = "m") -> Kernel:
    terms = {"i": m, "j": 1}
    x = b.load("x", f32, terms=terms)
    e = b.exp(x - b.acc("top", f32))
    j = (Loop("j", m),)
    sizes = [SizeParam("n", ("x", "shape", 0))] + ([SizeParam("m", ("x", "shape", 1))] if m == "m" else [])
    return Kernel(
        "softmax",
        (ArrayParam("x", f32), ArrayParam("y", f32, True), *sizes),
        (
            Nest(
                (Loop("i", "n"),),
                (
                    Phase(j, reduces=(Reduce("top", "max", x),)),
                    Phase(j, reduces=(Reduce("sum", "add", e),)),
                    Phase(j, stores=(Store("y", e / b.acc("sum", f32), terms=terms),)),
                ),
            ),
        ),
    )


def layer_norm(m: int) -> Kernel:
    """Two-pass variance, the row kept in scratch, weights broadcast over rows."""
    j, at = (Loop("j", m),), {"i": m, "j": 1}
    x = b.load("x", f32, terms=at)
    kept = b.load("row", f32, terms={"j": 1})
    centred = kept - b.acc("sum", f32) / float(m)
    inverse = b.rsqrt(b.acc("squares", f32) / float(m) + b.scalar("eps", f32))
    value = centred * inverse * b.load("w", f32, terms={"j": 1}) + b.load("v", f32, terms={"j": 1})
    return Kernel(
        "layer_norm",
        (
            ArrayParam("x", f32),
            ArrayParam("w", f32),
            ArrayParam("v", f32),
            ArrayParam("y", f32, True),
            ArrayParam("mean", f32, True),
            ScalarParam("eps", f32),
            SizeParam("n", ("x", "shape", 0)),
        ),
        (
            Nest(
                (Loop("i", "n"),),
                (
                    Phase(j, reduces=(Reduce("sum", "add", x * 2.0),), stores=(Store("row", x * 2.0, terms={"j": 1}),)),
                    Phase(j, reduces=(Reduce("squares", "add", centred * centred),)),
                    Phase(stores=(Store("mean", b.acc("sum", f32) / float(m), terms={"i": 1}),)),
                    Phase(j, stores=(Store("y", value, terms=at),)),
                ),
            ),
        ),
        scratch=(Scratch("row", f32, m),),
    )


def short_rows(m: int, dtype: Any) -> Kernel:
    """Exponentials of rows of a few elements, kept in scratch, their shares and the logarithm of their sum: rows are
    walked side by side, and the scratch holds a vector for each element.
    """
    j = (Loop("j", m),)
    x, e = b.load("x", dtype, terms={"i": m, "j": 1}), b.load("row", dtype, terms={"j": 1})
    total = b.acc("sum", dtype)
    phases = (
        Phase(j, reduces=(Reduce("top", "max", x),)),
        Phase(j, stores=(Store("row", b.exp(x - b.acc("top", dtype)), terms={"j": 1}),)),
        Phase(j, reduces=(Reduce("sum", "add", e),)),
        Phase(j, stores=(Store("y", e / total, terms={"i": m, "j": 1}),)),
        Phase(stores=(Store("z", b.log(total) + b.acc("top", dtype), terms={"i": 1}),)),
    )
    params = (
        ArrayParam("x", dtype),
        ArrayParam("y", dtype, True),
        ArrayParam("z", dtype, True),
        SizeParam("n", ("x", "shape", 0)),
    )
    return Kernel("short_rows", params, (Nest((Loop("i", "n"),), phases),), scratch=(Scratch("row", dtype, m),))


def embedding(wrap: bool = True) -> Kernel:
    row = b.check(b.load("ids", i64, terms={"i": 1}), "v", 1, wrap)
    x = b.load("table", f32, terms={"j": 1}, gather=[(row, "d")])
    return Kernel(
        "embedding",
        (
            ArrayParam("table", f32),
            ArrayParam("ids", i64),
            ArrayParam("y", f32, True),
            SizeParam("v", ("table", "shape", 0)),
            SizeParam("d", ("table", "shape", 1)),
            SizeParam("n", ("ids", "shape", 0)),
        ),
        (Nest((Loop("i", "n"), Loop("j", "d")), (Phase(stores=(Store("y", x, terms={"i": "d", "j": 1}),)),)),),
        errors=("index {index} is out of bounds for dimension 0 with size {size} (100%)",),
    )


def lane_gather() -> Kernel:
    """y[i] = table[ids[i]], scattered to z[ids[i]] as well (ids are distinct)."""
    row = b.check(b.load("ids", i64, terms={"i": 1}), "v", 1)
    x = b.load("table", f32, gather=[(row, 1)])
    return Kernel(
        "lane_gather",
        (
            ArrayParam("table", f32),
            ArrayParam("ids", i64),
            ArrayParam("y", f32, True),
            ArrayParam("z", f32, True),
            SizeParam("v", ("table", "shape", 0)),
            SizeParam("n", ("ids", "shape", 0)),
        ),
        (
            Nest(
                (Loop("i", "n"),),
                (Phase(stores=(Store("y", x, terms={"i": 1}), Store("z", x * 3.0, gather=[(row, 1)]))),),
            ),
        ),
        errors=("bad index {index}",),
    )


def dropout(n: int, m: int) -> Kernel:
    """Rows of m, so that words are not always aligned to blocks of four; and the same flattened."""
    i = b.index("i") * m + b.index("j")
    keep = b.lt(b.uniform(b.scalar("seed", i64), b.scalar("draw", i64), i), 0.7)
    at = {"i": m, "j": 1}
    value = b.where(keep, b.load("x", f32, terms={"i": "s", "j": 1}) / 0.7, 0.0)
    return Kernel(
        "dropout",
        (
            ArrayParam("x", f32),
            ArrayParam("y", f32, True),
            ScalarParam("seed", i64),
            ScalarParam("draw", i64),
            SizeParam("s", ("x", "stride", 0)),
        ),
        (Nest((Loop("i", n), Loop("j", m)), (Phase(stores=(Store("y", value, terms=at),)),)),),
    )


def integers() -> Kernel:
    x, y = x1("x", i32), x1("z", i32)
    value = (
        (x + y) * 3 // (y % 7 + 1) - b.trunc_div(x, y) + b.shr(x, y % 9) + b.shl(y, 3) + b.lshr(x, 30) + b.abs(x) + ~y
    )
    return pointwise("integers", value, {"x": i32, "z": i32})


def many(inputs: int, outputs: int) -> Kernel:
    """The aliasing cliff of automatic vectorisers: many inputs times many outputs."""
    loads = [x1(f"x{k}") for k in range(inputs)]
    stores = []
    for o in range(outputs):
        value = loads[o]
        for k, x in enumerate(loads):
            value = value * x if (k + o) % 3 == 0 else value + x
        stores.append(Store(f"y{o}", value, terms={"i": 1}))
    params = [
        *(ArrayParam(f"x{k}", f32) for k in range(inputs)),
        *(ArrayParam(f"y{o}", f32, True) for o in range(outputs)),
        SizeParam("n", ("x0", "shape", 0)),
    ]
    return Kernel("many", tuple(params), (Nest((Loop("i", "n"),), (Phase(stores=tuple(stores)),)),))


def two_nests() -> Kernel:
    """A temporary between nests in kernel scratch, then a column sum, a full sum and an in-place update."""
    n, m = 13, 37
    at = {"i": m, "j": 1}
    x, t = b.load("x", f32, terms=at), b.load("t", f32, terms=at)
    total = b.load("y", f32, terms={"j": 1})
    ij = (Loop("i", n), Loop("j", m))
    return Kernel(
        "two_nests",
        (ArrayParam("x", f32), ArrayParam("y", f32, True), ArrayParam("z", f32, True)),
        (
            Nest(ij, (Phase(stores=(Store("t", b.tanh(x), terms=at),)),), note="t = tanh(x)"),
            Nest(
                (Loop("j", m),),
                (
                    Phase((Loop("i", n),), reduces=(Reduce("s", "add", t),)),
                    Phase(stores=(Store("y", b.acc("s", f32), terms={"j": 1}),)),
                ),
                note="columns",
            ),
            Nest(
                (),
                (
                    Phase(ij, reduces=(Reduce("s", "mul", t + 1.0), Reduce("p", "argmin", t))),
                    Phase(stores=(Store("z", b.acc("s", f32) + b.cast(b.acc("p", i64), f32)),)),
                ),
            ),
            Nest((Loop("j", m),), (Phase(stores=(Store("y", total * 2.0 + 1.0, terms={"j": 1}),)),), note="in place"),
        ),
        scratch=(Scratch("t", f32, n * m, "kernel"),),
    )


def pad() -> Kernel:
    """y = x with 3 zeros before and 2 after, by a masked load."""
    i = b.index("i")
    inside = b.ge(i, 3) & b.lt(i, b.size("n + 3"))
    value = b.load("x", f32, offset=-3, terms={"i": 1}, mask=inside, other=-1.0)
    return Kernel(
        "pad",
        (ArrayParam("x", f32), ArrayParam("y", f32, True), SizeParam("n", ("x", "shape", 0))),
        (Nest((Loop("i", "n + 5"),), (Phase(stores=(Store("y", value, terms={"i": 1}),)),)),),
    )


def strided() -> Kernel:
    """y[i, j] = x[i, j] + w[j], x of any strides, y dense."""
    x = b.load("x", f32, terms={"i": "s0", "j": "s1"})
    value = x + b.load("w", f32, terms={"j": 1})
    return Kernel(
        "strided",
        (
            ArrayParam("x", f32),
            ArrayParam("w", f32),
            ArrayParam("y", f32, True),
            SizeParam("n", ("x", "shape", 0)),
            SizeParam("m", ("x", "shape", 1)),
            SizeParam("s0", ("x", "stride", 0)),
            SizeParam("s1", ("x", "stride", 1)),
        ),
        (Nest((Loop("i", "n"), Loop("j", "m")), (Phase(stores=(Store("y", value, terms={"i": "m", "j": 1}),)),)),),
    )


def reverse() -> Kernel:
    value = b.load("x", f32, offset="n - 1", terms={"i": -1}) + b.cast(b.index("i"), f32)
    return Kernel(
        "reverse",
        (ArrayParam("x", f32), ArrayParam("y", f32, True), SizeParam("n", ("x", "shape", 0))),
        (Nest((Loop("i", "n"),), (Phase(stores=(Store("y", value, terms={"i": 1}),)),)),),
    )


def running(combine: str, dtype: Any, way: int, strides: Any = None) -> Kernel:
    """y[i, j] = combine over x[i, :j+1] (way -1: x[i, j:]), as rows or as columns; z: twice that."""
    si, sj = strides or ("m", 1)
    at = {"i": si, "j": sj}
    factor = b.load("f", dtype, terms=at) if combine == "linear" else None
    reduce = Reduce("a", combine, b.load("x", dtype, terms=at), dtype, way, factor)
    stores = (Store("y", b.acc("a", dtype), terms=at), Store("z", b.acc("a", dtype) * 2, terms=at))
    nest = Nest((Loop("i", "n"),), (Phase((Loop("j", "m"),), (reduce,), stores),))
    sizes = (SizeParam("n", ("x", "shape", 0)), SizeParam("m", ("x", "shape", 1)))
    arrays = (
        ArrayParam("x", dtype),
        ArrayParam("f", dtype),
        ArrayParam("y", dtype, True),
        ArrayParam("z", dtype, True),
    )
    return Kernel("running", (*arrays, *sizes), (nest,))


def additions(width: int) -> Kernel:
    """y[index[i], :] += x[i, :], one after the other."""
    at = b.check(b.load("index", i64, terms={"i": 1}), 6)
    new = b.load("y", f32, terms={"c": 1}, gather=[(at, width)]) + b.load("x", f32, terms={"i": width, "c": 1})
    phase = Phase((Loop("i", "n"),), stores=(Store("y", new, terms={"c": 1}, gather=[(at, width)]),), ordered=True)
    params = (ArrayParam("x", f32), ArrayParam("index", i64), ArrayParam("y", f32, True))
    size = SizeParam("n", ("index", "shape", 0))
    return Kernel("additions", (*params, size), (Nest((Loop("c", width),), (phase,)),), (), ("outside",))


def bools() -> Kernel:
    x, m = x1("x"), x1("m", b1)
    value = b.and_(m, b.or_(x > 0.5, b.isnan(x))) ^ b.not_(b.lt(x, -1))
    return pointwise("bools", value, {"x": f32, "m": b1})


def all_any(n: int) -> Kernel:
    m = b.load("x", b1, terms={"j": 1})
    return Kernel(
        "all_any",
        (ArrayParam("x", b1), ArrayParam("y", b1, True)),
        (
            Nest(
                (),
                (
                    Phase(
                        (Loop("j", n),), reduces=(Reduce("p", "and", m), Reduce("q", "or", m), Reduce("r", "max", m))
                    ),
                    Phase(
                        stores=(
                            Store("y", b.acc("p", b1)),
                            Store("y", b.acc("q", b1), offset=1),
                            Store("y", b.acc("r", b1), offset=2),
                        )
                    ),
                ),
            ),
        ),
    )


def casts() -> Kernel:
    x = x1("x", f64)
    value = b.cast(b.cast(x, f32), f64) + b.cast(b.cast(x, i32), f64) + b.cast(b.cast(x, BY_SHORT["i8"]), f64)
    value = value + b.cast(b.cast(b.cast(x, i64), BY_SHORT["u8"]), f64) + b.cast(b.cast(x, b1), f64)
    return pointwise("casts", value, {"x": f64})


def cases() -> Iterator[tuple[str, Kernel, list[Any]]]:
    """(id, kernel, arguments); outputs are arguments too."""
    for n in (0, 1, 5, 64, 1000):
        yield (
            f"chain-{n}",
            pointwise("chain", (x1() * 2.0 + x1("z")) / (b.abs(x1()) + 1.0), {"x": f32, "z": f32}),
            [normal(n), normal(n), np.empty(n, np.float32)],
        )
    for combine in ("add", "mul", "max", "min", "argmax", "argmin"):
        for dt in (f32, f64, i64):
            for shape in ((3, 100), (1, 7), (0, 4)):
                x = normal(*shape, dtype=dt.np) if dt is not i64 else rng.integers(-5, 9, shape)
                if dt is not i64 and shape == (3, 100):
                    x[1, 40], x[2, 3], x[2, 90] = np.nan, 9.0, 9.0
                out = np.empty(shape[0], i64.np if combine.startswith("arg") else dt.np)
                yield f"{combine}-{dt.short}-{shape[0]}x{shape[1]}", rows(combine, combine, dt), [x, out]
    for n in (5, 40):  # short rows; and columns of an F-ordered array
        yield f"short-{n}", rows("short", "add", f32, "n", 5), [normal(n, 5), np.empty(n, np.float32)]
        yield f"short-argmax-{n}", rows("short", "argmax", f32, "n", 5), [normal(n, 5), np.empty(n, np.int64)]
        yield f"columns-{n}", rows("columns", "add", f32, "n", 50, (1, "n")), [normal(50, n).T, np.empty(n, np.float32)]
        yield (
            f"strides-{n}",
            rows("strides", "max", f32, "n", "m", ("sn", "sm")),
            [normal(n, 60)[::-1, ::-2], np.empty(n, np.float32)],
        )
    for combine, dt in (("add", f32), ("mul", f64), ("linear", f32), ("linear", f64), ("add", i64), ("max", f32)):
        for way in (1, -1):
            x, f = (normal(40, 9).astype(dt.np) * 3 for _ in range(2))
            for name, strides in (("rows", ("m", 1)), ("columns", (1, "n"))):
                x, f = (np.array(a, order="C" if name == "rows" else "F") for a in (x, f))
                outs = [np.empty_like(x), np.empty_like(x)]
                yield f"running-{combine}-{dt.short}-{way}-{name}", running(combine, dt, way, strides), [x, f, *outs]
    for width in (1, 3, 20):
        rows_of = [normal(50, width), rng.integers(0, 6, 50), normal(6, width)]
        yield f"additions-{width}", additions(width), rows_of
    yield "softmax", softmax(), [normal(4, 131), np.empty((4, 131), np.float32)]
    yield "softmax-static", softmax(96), [normal(4, 96), np.empty((4, 96), np.float32)]
    yield (
        "layer_norm",
        layer_norm(70),
        [normal(5, 70), normal(70), normal(70), np.empty((5, 70), np.float32), np.empty(5, np.float32), 1e-5],
    )
    for m, dtype in ((9, f32), (8, f64)):
        yield (
            f"short_rows-{m}-{dtype.short}",
            short_rows(m, dtype),
            [normal(75, m).astype(dtype.np), np.empty((75, m), dtype.np), np.empty(75, dtype.np)],
        )
    yield "embedding", embedding(), [normal(10, 21), np.array([3, -1, 0, 9]), np.empty((4, 21), np.float32)]
    yield (
        "lane_gather",
        lane_gather(),
        [normal(50), rng.permutation(50)[:37], np.empty(37, np.float32), np.zeros(50, np.float32)],
    )
    yield "dropout", dropout(3, 33), [normal(3, 33), np.empty((3, 33), np.float32), 12345678901234, 7]
    yield "dropout-view", dropout(3, 64), [normal(3, 70)[:, :64], np.empty((3, 64), np.float32), 2**63 - 1, 1 << 33]
    x, y = (rng.integers(-(2**31), 2**31, 200).astype(np.int32) for _ in range(2))
    y[:40] = rng.integers(-2, 3, 40)
    at = np.array([0, 1, 2, 7, 8, 9])
    for lanes in (40, 5):  # sums in the dtype itself: vectors of positions, and of what is summed over
        yield (
            f"conv_sums-{lanes}",
            taps.sums(f32, 2),
            [
                *(normal(2, 3, 9 + lanes), normal(1, 2, 6, 2), at, np.empty((2, 1, 4, lanes), np.float32)),
                *(2, 1, 2, 1, 1, lanes, 6, 3 * (9 + lanes), 0, 0),
            ],
        )
    yield (
        "conv_weights",
        taps.weights(f32, 2, 3),
        [
            *(normal(4, 3, 49), normal(4, 4, 40), at, np.empty((2, 1, 4, 3, 6), np.float32)),
            *(2, 1, 2, 1, 2, 1, 1, 40, 6, 2 * 3 * 49, 3 * 49, 49, 0, 0, 2 * 4 * 40, 4 * 40, 40, 0, 0),
        ],
    )
    yield "integers", integers(), [x, y, np.empty(200, np.int32)]
    yield "many", many(6, 4), [*(normal(100) for _ in range(6)), *(np.empty(100, np.float32) for _ in range(4))]
    yield "two_nests", two_nests(), [normal(13, 37), np.empty(37, np.float32), np.empty(1, np.float32)]
    yield "pad", pad(), [normal(50), np.empty(55, np.float32)]
    yield "strided-t", strided(), [normal(30, 8).T, normal(30), np.empty((8, 30), np.float32)]
    yield "strided-neg", strided(), [normal(8, 30)[:, ::-1], normal(30), np.empty((8, 30), np.float32)]
    yield (
        "strided-broadcast",
        strided(),
        [np.broadcast_to(normal(8, 1), (8, 30)), normal(30), np.empty((8, 30), np.float32)],
    )
    yield "reverse", reverse(), [normal(100), np.empty(100, np.float32)]
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 0.6, -3], np.float32)
    yield "bools", bools(), [np.tile(special, 9), rng.random(72) < 0.5, np.empty(72, bool)]
    yield "all_any", all_any(45), [rng.random(45) < 0.9, np.empty(3, bool)]
    yield "casts", casts(), [rng.uniform(-100, 100, 77), np.empty(77)]
    maths = b.exp(x1()) + b.log(b.abs(x1())) * b.sin(x1() * 100.0) + b.erf(x1()) + b.tanh(x1()) * b.sigmoid(x1())
    yield (
        "maths",
        pointwise("maths", maths + b.pow(b.abs(x1()), 1.7), {"x": f32}),
        [normal(333), np.empty(333, np.float32)],
    )
    huge = normal(50, dtype=np.float64) * 1e30
    wide = b.cos(x1(dtype=f64)) + b.expm1(x1(dtype=f64) * 1e-30) + b.fmod(x1(dtype=f64), 3.0)
    yield "maths64", pointwise("maths64", wide, {"x": f64}), [huge, np.empty(50)]
