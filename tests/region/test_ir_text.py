"""Printing and parsing of graphs, and graphs as plain data."""

from __future__ import annotations

import json
import math

import pytest
from fusegrad.compiler.ir.graph import Graph
from fusegrad.compiler.ir.plain import PlainError, from_plain, to_plain
from fusegrad.compiler.ir.text import GraphSyntaxError, parse

from fusegrad import dtypes
from fusegrad.meta import Meta
from fusegrad.sizes import SizeContext

f32, i64 = dtypes.float32, dtypes.int64


class FakeOp:
    def __init__(self, name, kind="pointwise"):
        self.name, self.kind = name, kind


OPS = {n: FakeOp(n) for n in ("matmul", "relu", "full", "cat", "split", "odd", "linalg.norm")}
OPS["rand"] = FakeOp("rand", "random")


def sample() -> Graph:
    ctx = SizeContext()
    B, n = ctx.symbol("B", 8, 2, 256), ctx.symbol("n", 3)
    g = Graph("loss", ctx)
    x = g.add_input(Meta((B, 64), f32), "x")
    w = g.add_input(Meta((64, 32), f32, (1, 64)), "layer.weight")
    lr = g.add_input(Meta((), f32, weak=True), "lr")
    g.size_params = ["n"]
    a = g.append(OPS["matmul"], (x, w), {}, (Meta((B, 32), f32),), ("/home/me/model.py", 12)).outputs[0]
    b = g.append(OPS["cat"], ([a, a],), {"dim": 0}, (Meta((B * 2, 32), f32),)).outputs[0]
    c, d = g.append(OPS["split"], (b, None, -0.0, math.inf), {}, (Meta((B, 32), f32), Meta((B, 32), i64))).outputs
    attrs = {
        "a": -math.inf,
        "b": math.nan,
        "c": 1e-5,
        "d": (1, (2.0, 'it\'s, "x"')),
        "e": f32,
        "f": None,
        "g": True,
        "h": B * 2 + n // 2,
        "i": slice(None, n, 2),
        "j": ...,
        "k": [1, ()],
        "l": (3,),
        "m": -5,
        "n": "two\nlines",
        "o": 10**20,
        "p": 1.0,
    }
    e = g.append(OPS["odd"], (lr, c, B), attrs, (Meta((), f32),)).outputs[0]
    r = g.append(OPS["rand"], (), {"shape": (B,), "draw": 0}, (Meta((B,), f32),)).outputs[0]
    h = g.append(OPS["linalg.norm"], (r,), {}, (Meta((), f32),)).outputs[0]
    g.outputs = [e, x, None, 3, 2.5, n, [d]]
    g.mutations = [(w, h)]
    g.draws = 1
    return g


def test_print_parse_round_trip():
    g = sample()
    text = g.text()
    again = parse(text, OPS)
    assert again.text() == text.replace("/home/me/", "")
    assert again == g
    assert again.nodes[0].loc == ("model.py", 12)
    attrs = again.nodes[3].attrs
    assert math.isnan(attrs["b"]) and attrs["a"] == -math.inf and attrs["d"] == (1, (2.0, 'it\'s, "x"'))
    assert attrs["i"].start is None and str(attrs["i"].stop) == "n" and attrs["j"] is ...
    assert (
        type(attrs["p"]) is float and type(attrs["m"]) is int and attrs["k"] == [1, ()] and attrs["n"] == "two\nlines"
    )
    assert math.copysign(1, again.nodes[2].args[2]) == -1
    assert again.random


def test_text_is_as_documented():
    lines = sample().text().splitlines()
    assert lines[0] == (
        "graph loss(x: f32[B, 64], layer.weight: f32[64, 32]@(1, 64), lr: f32[]~; n) where B in 2..256, n in 0.."
    )
    assert lines[1] == "  %0: f32[B, 32] = matmul(x, layer.weight)  # model.py:12"
    assert (
        lines[2] == "  %1: f32[2*B, 32] = cat([%0, %0], dim=0)"
        or lines[2] == "  %1: f32[B*2, 32] = cat([%0, %0], dim=0)"
    )
    assert lines[-1].endswith("; mutates layer.weight <- %6 ; rng 1 draw")


def test_plain_round_trip():
    g = sample()
    data = json.loads(json.dumps(to_plain(g), allow_nan=False))
    again = from_plain(data, g.sizes, OPS)
    assert again == g


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d: d["nodes"][0].update(op="os.system"), "unknown operator"),
        (lambda d: d["nodes"][0]["args"].__setitem__(0, {"value": 99}), "not defined before"),
        (lambda d: d["nodes"][0]["outputs"][0].update(dtype="object"), "unknown dtype"),
        (lambda d: d["nodes"][0]["outputs"][0]["shape"].__setitem__(0, "B**B"), "bad size"),
        (lambda d: d["inputs"][0].update(name="x y"), "bad name"),
        (lambda d: d.pop("draws"), "missing"),
        (lambda d: d["mutations"][0].__setitem__(0, 4), "only an input"),
    ],
)
def test_plain_refuses(change, message):
    g = sample()
    data = to_plain(g)
    change(data)
    with pytest.raises(PlainError, match=message):
        from_plain(data, g.sizes, OPS)


def test_plain_refuses_deep_nesting():
    g = sample()
    data = to_plain(g)
    deep: list = []
    for _ in range(5000):
        deep = [deep]
    data["nodes"][0]["attrs"]["x"] = deep
    with pytest.raises(PlainError, match="nested too deeply"):
        from_plain(data, g.sizes, OPS)


@pytest.mark.parametrize(
    "text, message",
    [
        ("graph f(x: f32[2])", "at least a head"),
        ("graph f(x: f99[2])\n  return x", "unknown type"),
        ("graph f(x: f32[2])\n  %0: f32[2] = nope(x)\n  return %0", "line 2: unknown operator 'nope'"),
        ("graph f(x: f32[2])\n  %0: f32[2] = relu(%1)\n  return %0", "before it is defined"),
        ("graph f(x: f32[k])\n  return x", "without size symbols"),
        ("graph f(x: f32[2])\n  %0: f32[2] = relu(x, a=1, x)\n  return %0", "cannot read|follows an attribute"),
    ],
)
def test_parse_errors(text, message):
    with pytest.raises(GraphSyntaxError, match=message):
        parse(text, OPS)


def test_copy_is_equal_and_separate():
    g = sample()
    other, env = g.copy()
    assert other == g and all(env[v] is not v for v in g.inputs)
    other.outputs.pop()
    assert other != g
