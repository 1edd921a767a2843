"""Scalar expressions and nests as data: sharing, text, verification, schedules."""

from __future__ import annotations

import pytest
from backend_gallery import (
    embedding,
    f32,
    f64,
    i32,
    i64,
    layer_norm,
    pointwise,
    rows,
    short_rows,
    softmax,
    two_nests,
    x1,
)

from fusegrad.dtypes import bool_, float16, uint8
from fusegrad.native.nest import (
    ArrayParam,
    Kernel,
    Loop,
    Nest,
    NestError,
    Phase,
    Reduce,
    Scratch,
    SizeParam,
    Store,
    rename_loops,
)
from fusegrad.native.plan import plan, poly
from fusegrad.native.scalar import b, substitute, text, walk


def test_expressions_are_shared() -> None:
    x = x1()
    assert b.exp(x + 1.0) is b.exp(x + 1)
    assert b.const(0.0, f32) is not b.const(-0.0, f32)
    assert b.const(float("nan"), f32) is b.const(float("nan"), f32)
    assert b.const(1, i32) is not b.const(1, i64)
    assert len(walk([(x + 1.0) * (x + 1.0)])) == 4


def test_types_follow_the_tensors() -> None:
    x, k = x1(), x1("k", i32)
    assert (x + 1).dtype is f32 and (1 - x).dtype is f32 and (k + 1).dtype is i32
    assert (k + 0.5).dtype is f32 and (k / 2).dtype is f32 and (x + x1("z", f64)).dtype is f64
    assert (x < 1).dtype is bool_ and b.isnan(k).attr is False
    assert b.add(x < 1, x > 2).op == "or_"
    assert b.const(300, uint8).attr == 44 and b.const(1e300, f32).attr == float("inf")
    assert b.const(0.1, f32).attr != 0.1
    with pytest.raises(TypeError):
        b.neg(x < 1)
    with pytest.raises(TypeError, match="truth value"):
        bool(x < 1)


def test_text_is_short() -> None:
    x = x1()
    assert text(b.where(x > 0, x * 2.0, -x)) == "where((x[i] > 0.0), (x[i] * 2.0), neg(x[i]))"
    assert softmax(512).text().splitlines()[1:5] == [
        "  for i < n:",
        "    over j < 512:",
        "      top = max of x[i*512 + j]",
        "    over j < 512:",
    ]
    lines = two_nests().text().splitlines()
    assert "  scratch t: f32[481] per kernel" in lines and "  # in place" in lines


def test_substitute_and_rename() -> None:
    x = b.load("x", f32, terms={"i": 4, "j": 1}) + b.cast(b.index("i"), f32)
    renamed = rename_loops(x, {"i": "k"})
    assert text(renamed) == "(x[j + k*4] + f32(k))"
    (swapped,) = substitute([x], {b.index("i"): b.const(3, i64)})
    assert "f32(3)" in text(swapped) or "3.0" in text(swapped)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Kernel("k", (ArrayParam("x", f32), ArrayParam("x", f32)), ()), "declared twice"),
        (
            Kernel("k", (ArrayParam("y", f32),), (Nest((Loop("i", 3),), (Phase(stores=(Store("y", x1()),)),)),)),
            "unknown buffer",
        ),
        (pointwise("k", b.load("x", f64, terms={"i": 1}), {"x": f32}), "load of f64"),
        (pointwise("k", b.acc("a", f32), {"x": f32}), "not an accumulator"),
        (pointwise("k", b.load("x", f32, terms={"j": 1}), {"x": f32}), "not around it"),
        (pointwise("k", b.cast(b.index("j"), f32), {"x": f32}), "not a loop"),
        (pointwise("k", b.cast(b.size("q"), f32), {"x": f32}), "undeclared"),
        (pointwise("k", b.cast(b.size("n.x"), f32), {"x": f32}), "only names"),
        (pointwise("k", b.cast(b.check(0, 3), f32), {"x": f32}), "error 1"),
        (pointwise("k", b.scalar("s", f32), {"x": f32}), "scalar s"),
        (pointwise("k", b.load("x", float16, terms={"i": 1}) + 1.0, {"x": float16}), "float16"),
        (Kernel("k", (), (), (Scratch("s", f32, 100_000),)), "scratch"),
        (Kernel("k", (SizeParam("n", ("x", "shape", 0)),), ()), "bad source"),
        (
            Kernel(
                "k", (ArrayParam("x", f32),), (Nest((), (Phase(reduces=(Reduce("a", "median", b.const(1, f32)),)),)),)
            ),
            "unknown",
        ),
    ],
)
def test_broken_kernels_are_refused(kernel: Kernel, message: str) -> None:
    with pytest.raises(NestError, match=message):
        kernel.verify()


def test_loops_are_merged() -> None:
    dense = b.load("x", f32, terms={"i": "m*p", "j": "p", "k": 1})
    nest = Nest(
        (Loop("i", "n"), Loop("j", "m"), Loop("k", "p"), Loop("one", 1)),
        (Phase(stores=(Store("y", dense + 1.0, terms={"i": "m*p", "j": "p", "k": 1, "one": 7}),)),),
    )
    sizes = [SizeParam(s) for s in "nmp"]
    (planned,) = plan(Kernel("k", (ArrayParam("x", f32), ArrayParam("y", f32, True), *sizes), (nest,)))
    assert [loop.name for loop in planned.outer] == ["k"] and planned.lane_outer
    assert poly(planned.outer[0].size) == poly("n*m*p")


def test_lane_loop() -> None:
    sizes = [
        ("inner", rows("a", "add", f32), False),
        ("columns", rows("a", "add", f32, "n", 50, (1, "n")), True),
        ("short", rows("a", "add", f32, "n", 5), True),
        ("norm", layer_norm(70), False),
        ("short rows with scratch", short_rows(9, f32), True),
        ("longer ones", short_rows(17, f32), False),
        ("pointwise", embedding(), True),
    ]
    for name, kernel, lane_outer in sizes:
        assert plan(kernel)[0].lane_outer is lane_outer, name


def test_polynomials_of_sizes() -> None:
    assert poly("a*(b + 2) - a*b") == poly("2*a") and poly("n - n") == {} and poly("n//2") != poly("n")
