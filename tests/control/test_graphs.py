"""Graphs inside of graphs: printed, read, checked, interpreted, merged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from fusegrad.compiler.ir.control import graph_reads
from fusegrad.compiler.ir.graph import MAX_DEPTH
from fusegrad.compiler.ir.interp import run
from fusegrad.compiler.ir.plain import PlainError, from_plain, to_plain
from fusegrad.compiler.ir.text import GraphSyntaxError, parse
from fusegrad.compiler.ir.verify import GraphError
from fusegrad.compiler.kernel.program import compile_graph
from fusegrad.compiler.passes.scans import merge_scans
from fusegrad.compiler.tracer import trace_region

import fusegrad as fg

from .programs import SEQUENCES, VECTORS, r

TEXT = """
graph f(p: b1[], x: f32[3], w: f32[3])
  %0: f32[3] = control.cond(p, [x, w], true=@true, false=@false)
    graph true(x: f32[3], w: f32[3])
      %0: f32[3] = mul(x, w)
      return %0
    graph false(x: f32[3], w: f32[3])
      %0: f32[] = sum(x, dim=None, keepdim=False, dtype=None)
      %1: b1[] = gt(%0, 0.5)
      %2: f32[3] = control.cond(%1, [x], true=@true, false=@false)
        graph true(x: f32[3])
          %0: f32[3] = exp(x)
          return %0
        graph false(x: f32[3])
          return x
      return %2
  %1: f32[3] = add(%0, 1)
  return %1
"""
LOOP = """
graph f(i: i64[], x: f32[n], w: f32[n]) where n in 1..64
  %0: i64[], %1: f32[n] = control.while_loop([i, x], [w], test=@test, body=@body)
    graph test(i: i64[], x: f32[n], w: f32[n])
      %0: b1[] = lt(i, 3)
      return %0
    graph body(i: i64[], x: f32[n], w: f32[n])
      %0: i64[] = add(i, 1)
      %1: f32[n] = mul(x, w)
      return %0, %1
  return %1, %0
"""
SCAN = """
graph f(h: f32[2], xs: f32[n, 2], w: f32[2]) where n in 1..64
  %0: f32[2], %1: f32[n, 2] = control.scan([h], [xs], [w], body=@body, reverse=True)
    graph body(h: f32[2], x: f32[2], w: f32[2])
      %0: f32[2] = mul(h, w)
      %1: f32[2] = add(%0, x)
      return %1, h
  return %0, %1
"""


@pytest.mark.parametrize("text", [TEXT, LOOP, SCAN])
def test_text_and_data_come_back(text: str) -> None:
    g = parse(text)
    g.verify()
    assert parse(g.text()) == g and g.text().split() == parse(g.text()).text().split()
    sizes = g.sizes
    back = from_plain(json.loads(json.dumps(to_plain(g))), sizes)
    back.verify()
    assert back == g


@pytest.mark.parametrize("name", [*VECTORS, *SEQUENCES])
def test_recorded_graphs_come_back(name: str) -> None:
    f = {**VECTORS, **SEQUENCES}[name]
    x = r(4, 3) if name in SEQUENCES else r(3)
    region = trace_region(f, x, r(3, 3), options={"check": True}).region
    for g in (region.joint, region.forward, region.backward_graph):
        back = parse(g.text())
        back.verify()
        assert back == g
        assert from_plain(json.loads(json.dumps(to_plain(g))), back.sizes) == g


def args_of(text: str) -> list[tuple]:
    x, w = np.float32([1, 2, -3]), np.float32([0.5, -1, 2])
    if text is TEXT:
        return [(np.array(p), s * x, w) for p in (True, False) for s in (1, -1, np.float32(-0.2))]
    if text is LOOP:
        return [(np.array(i), x, w) for i in (0, 2, 3, 7)]
    return [(w[:2], np.arange(2 * n, dtype=np.float32).reshape(n, 2), x[:2]) for n in (1, 2, 5)]


@pytest.mark.parametrize("text", [TEXT, LOOP, SCAN])
def test_interpreted_and_compiled(text: str) -> None:
    g = parse(text)
    c = compile_graph(g)
    for args in args_of(text):
        before = [a.copy() for a in args]
        want, got = run(g, args), c(*args)
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
            assert not any(np.may_share_memory(b, x) for x in args)
        for a, b in zip(args, before, strict=True):
            np.testing.assert_array_equal(a, b)


def test_values_of_the_loops() -> None:
    (y, i) = run(parse(LOOP), args_of(LOOP)[0])
    np.testing.assert_allclose(y, np.float32([0.125, -2, -24]))
    assert i == 3
    c, ys = run(parse(SCAN), (np.float32([1, 1]), np.float32([[1, 2], [3, 4]]), np.float32([2, 3])))
    np.testing.assert_allclose(c, [11, 23])
    np.testing.assert_allclose(ys, [[5, 7], [1, 1]])


def test_what_results_are_computed_from() -> None:
    assert graph_reads(parse(TEXT)) == [{0, 1, 2}]
    assert graph_reads(parse(LOOP)) == [{1, 2}, {0}]  # the number of rounds is no part of it
    assert graph_reads(parse(SCAN)) == [{0, 1, 2}, {0, 1, 2}]


BAD: dict[str, tuple[str, str, str]] = {
    "input type": (TEXT, "graph true(x: f32[3], w: f32[3])", "graph true(x: f32[4], w: f32[3])"),
    "input count": (TEXT, "graph true(x: f32[3], w: f32[3])", "graph true(x: f32[3], w: f32[3], z: f32[3])"),
    "result type": (TEXT, "      return %2\n", "      return %0\n"),
    "inner type": (TEXT, "%0: f32[3] = exp(x)", "%0: f32[2] = exp(x)"),
    "predicate": (TEXT, "p: b1[]", "p: b1[3]"),
    "constant result": (TEXT, "          return x\n", "          return 1.0\n"),
    "condition": (LOOP, "      return %0\n", "      return x\n"),
    "carried": (LOOP, "return %0, %1", "return %1, %0"),
    "carried number": (LOOP, "return %0, %1", "return %0"),
    "operator's type": (SCAN, "%1: f32[n, 2] =", "%1: f32[n, 3] ="),
    "slice": (SCAN, "x: f32[2]", "x: f32[n, 2]"),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_verifier_refuses(case: str) -> None:
    text, old, new = BAD[case]
    assert old in text
    with pytest.raises((GraphError, GraphSyntaxError)):
        parse(text.replace(old, new, 1)).verify()


def test_parser_refuses() -> None:
    for old, new in (
        ("graph false(x: f32[3], w: f32[3])", "graph other(x: f32[3], w: f32[3])"),
        ("true=@true", "true=@maybe"),
        ("      return %2\n", ""),
        ("  return %1", "  return %1\n  return %1"),
    ):
        with pytest.raises(GraphSyntaxError):
            parse(TEXT.replace(old, new, 1))


def nest(depth: int) -> str:
    inner = ["graph true(x: f32[3])", "return x", "graph false(x: f32[3])", "return x"]
    for _ in range(depth):
        step = ["%0: b1[] = gt(%9, 0)", "%1: f32[3] = control.cond(%0, [x], true=@true, false=@false)"]
        step[0] = "%9: f32[] = sum(x, dim=None, keepdim=False, dtype=None)\n" + step[0]
        other = ["graph false(x: f32[3])", "return x"]
        inner = ["graph true(x: f32[3])", *step, *inner, "return %1", *other]
    return "\n".join(
        [
            "graph f(p: b1[], x: f32[3])",
            "%0: f32[3] = control.cond(p, [x], true=@true, false=@false)",
            *inner,
            "return %0",
        ]
    )  # noqa: E501


def test_depth_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    g = parse(nest(MAX_DEPTH - 2))
    g.verify()
    assert from_plain(to_plain(g)) == g
    with pytest.raises(GraphSyntaxError, match="deeper"):
        parse(nest(MAX_DEPTH + 2))
    monkeypatch.setattr("fusegrad.compiler.ir.text.MAX_DEPTH", 100)
    deep = parse(nest(MAX_DEPTH + 2))
    with pytest.raises(GraphError, match="deeper"):
        deep.verify()
    with pytest.raises(PlainError, match="deeper"):
        from_plain(to_plain(deep))


def test_merging_scans() -> None:
    """The same scan with other results is one scan; one that carries something else stays."""
    two = SCAN.replace(
        "  return %0, %1\n",
        "  %2: f32[2], %3: f32[n, 2], %4: f32[n, 2] = control.scan([h], [xs], [w], body=@body, reverse=True)\n"
        "    graph body(h: f32[2], x: f32[2], w: f32[2])\n"
        "      %0: f32[2] = mul(h, w)\n"
        "      %1: f32[2] = add(%0, x)\n"
        "      return %1, %0, h\n"
        "  return %0, %1, %2, %3, %4\n",
    ).replace("      return %1, h\n", "      return %1, h\n", 1)
    g = parse(two)
    g.verify()
    merged = merge_scans(g)
    merged.verify()
    assert [n.op.name for n in merged.nodes] == ["control.scan"] and len(merged.nodes[0].outputs) == 3
    for args in args_of(SCAN):
        for a, b in zip(run(g, args), run(merged, args), strict=True):
            np.testing.assert_array_equal(a, b)
    second = two.index("%2: f32[2], ")
    for old, new in (("add(%0, x)", "sub(%0, x)"), ("reverse=True", "reverse=False")):
        other = parse(two[:second] + two[second:].replace(old, new, 1))
        assert len(merge_scans(other).nodes) == 2


def test_simplify_tells_nested_graphs_apart() -> None:
    """Two choices that differ only inside are not one."""

    def f(x: Any, w: Any) -> Any:
        p = x.sum() > 0
        return fg.cond(p, lambda: x * 2, lambda: x + 1), fg.cond(p, lambda: x * 2, lambda: x + 2)

    a, b = trace_region(f, -r(3).detach().abs(), r(3, 3))(
        -fg.ones(3, dtype=fg.float64), fg.ones(3, 3, dtype=fg.float64)
    )
    assert a.tolist() == [0.0] * 3 and b.tolist() == [1.0] * 3
