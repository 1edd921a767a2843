"""Passes one by one: simplify, decompose, partition and its flow network, the verifier's messages."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from fusegrad.compiler.ir import interp
from fusegrad.compiler.ir.graph import Graph
from fusegrad.compiler.ir.verify import GraphError, verify
from fusegrad.compiler.passes.decompose import decompose
from fusegrad.compiler.passes.maxflow import INFINITE, Network
from fusegrad.compiler.passes.pipeline import run_passes
from fusegrad.compiler.passes.simplify import simplify
from fusegrad.compiler.tracer import trace, trace_region
from hypothesis import given, settings
from hypothesis import strategies as st

import fusegrad as fg
from fusegrad.tensor import wrap


def T(*shape, rg=False, seed=0):
    t = wrap(np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32))
    t._rg = rg
    return t


def graph_of(f, *args) -> Graph:
    traced = trace(f, args)
    outs = traced.outputs if isinstance(traced.outputs, tuple) else (traced.outputs,)
    traced.builder.graph.outputs = [traced.builder.value_of(t) for t in outs]
    return traced.builder.graph


def ops(graph):
    return [n.op.name for n in graph.nodes]


@pytest.mark.parametrize(
    "f, expected",
    [
        (lambda x: x * 1, []),
        (lambda x: 1.0 * x, []),
        (lambda x: x / 1, []),
        (lambda x: x - 0, []),
        (lambda x: -(x.neg()), []),
        (lambda x: x.transpose(0, 1).transpose(0, 1), []),
        (lambda x: x.to(fg.float32), []),
        (lambda x: x + fg.ones(3, 4) * x, ["add"]),
        (lambda x: x * fg.ones_like(x), []),
        (lambda x: (x + 1) * (x + 1), ["add", "mul"]),
        (lambda x: x.view(12).view(3, 4), []),
        (lambda x: x.clone(), []),
        # these would change bits
        (lambda x: x + 0, ["add"]),
        (lambda x: x * 0, ["mul"]),
        (lambda x: x - (-0.0), ["sub"]),
        (lambda x: x * fg.full((3, 4), 0.1), ["mul"]),
        (lambda x: x * fg.ones(3, 4, dtype=fg.float64), ["mul"]),
        (lambda x: x * fg.ones(2, 3, 4), ["mul"]),
    ],
)
def test_simplify(f, expected):
    graph = graph_of(f, T(3, 4))
    simple = simplify(graph)
    verify(simple, "simplify")
    assert [n for n in ops(simple) if n != "full"] == expected
    x = T(3, 4)._data
    for a, b in zip(interp.run(simple, [x]), interp.run(graph, [x]), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_simplify_keeps_different_constants_and_draws_apart():
    g = simplify(graph_of(lambda x: (x * 1 + x + 1, x + 1.0, x + True, x * 0.0, x * -0.0), T(3)))
    assert ops(g).count("mul") == 2
    g = simplify(graph_of(lambda x: fg.rand(3) + fg.rand(3) * 2, T(3)))
    assert ops(g).count("rand") == 2
    g = simplify(graph_of(lambda x: (fg.rand(3), fg.rand(3))[1], T(3)))
    assert ops(g) == ["rand"] and g.nodes[0].attrs["draw"] == 1 and g.draws == 2


def test_integer_addition_of_zero_disappears():
    x = wrap(np.arange(3))
    assert ops(simplify(graph_of(lambda x: x + 0, x))) == []
    assert ops(simplify(graph_of(lambda x: x + 0.0, x))) == ["add"]  # becomes floating point


def test_decompose_softmax():
    graph = graph_of(lambda x: x.softmax(-1), T(3, 4))
    parts = decompose(graph)
    verify(parts, "decompose")
    assert "_softmax" in ops(graph) and "_softmax" not in ops(parts) and "exp" in ops(parts)
    x = T(3, 4)._data
    np.testing.assert_allclose(interp.run(parts, [x])[0], interp.run(graph, [x])[0], rtol=1e-6)


def test_broken_pass_is_named():
    def spoil(graph):
        graph.nodes[0].outputs[0].meta = fg.compiler.ir.builder.Meta((5,), fg.float32)
        return graph

    graph = graph_of(lambda x: x + 1, T(3, 4))
    with pytest.raises(
        GraphError, match=r"after pass 'spoil': add: output 0 is f32\[5\], its rule says f32\[3, 4\]"
    ) as error:
        run_passes(graph, [("spoil", spoil)], check=True)
    assert "test_passes.py" in str(error.value) and "->" in str(error.value)


def test_verify_finds_structure_faults():
    graph = graph_of(lambda x: (x + 1).exp(), T(3))
    graph.nodes.reverse()
    with pytest.raises(GraphError, match="not defined before"):
        verify(graph)
    graph = graph_of(lambda x: x.sum(0), T(3))
    graph.nodes[0].attrs["color"] = 3
    with pytest.raises(GraphError, match="no attribute 'color'"):
        verify(graph)


# -- minimum cut


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=14))
@settings(max_examples=200, deadline=None)
def test_cut_is_minimal(edges):
    network = Network(6)
    for a, b, c in edges:
        network.edge(a, b, c)
    side = network.min_cut(0, 5)
    assert 0 in side and 5 not in side

    def weight(s):
        return sum(c for a, b, c in edges if a in s and b not in s)

    best = min(weight({0, *chosen}) for n in range(5) for chosen in itertools.combinations(range(1, 5), n))
    assert weight(side) == best


def test_infinite_cut_is_refused():
    network = Network(2)
    network.edge(0, 1, INFINITE)
    with pytest.raises(ValueError, match="no finite cut"):
        network.min_cut(0, 1)


# -- partition


def saved_bytes(region):
    total = 0
    for kind, i in region.parts.saved:
        if kind == "output" and i >= region.results:
            v = region.forward.outputs[i]
            total += int(np.prod(v.meta.shape)) * v.meta.dtype.itemsize
    return total


def test_pointwise_chain_saves_one_value():
    def f(x):
        for _ in range(4):
            x = x * 2 + 1
            x = x * x
        return x.sum()

    r = trace_region(f, T(1000, rg=True), options={"interpret": True}).region
    assert len(r.parts.saved) == 1 and saved_bytes(r) == 4000  # the first product's operand; eager saves four


def test_reductions_are_not_computed_again():
    def f(x):
        return (x / (x * x).sum(-1, keepdim=True).sqrt()).sum()

    r = trace_region(f, T(300, 400, rg=True), options={"interpret": True}).region
    assert "sum" in ops(r.forward)
    assert saved_bytes(r) <= 300 * 4
    assert ops(r.backward_graph).count("sum") == 1  # the gradient's own


def test_option_without_recomputation():
    def f(x):
        return (x * 2).tanh().exp().sum()

    a = trace_region(f, T(100, rg=True), options={"interpret": True, "recompute": False}).region
    b = trace_region(f, T(100, rg=True), options={"interpret": True}).region
    assert "tanh" not in ops(a.backward_graph) and saved_bytes(a) > saved_bytes(b)


def test_dropout_mask_is_drawn_again_not_saved():
    def f(x):
        return fg.nn.functional.dropout(x, 0.5).sum()

    r = trace_region(f, T(100, 100, rg=True), options={"interpret": True}).region
    assert saved_bytes(r) == 0 and r.backward_graph.random
