"""Every operator of the table inside a graph:

types, text, interpreter, decomposition and simplification agree with eager.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from fusegrad.compiler.ir import interp
from fusegrad.compiler.ir.builder import GraphBuilder
from fusegrad.compiler.ir.plain import from_plain, to_plain
from fusegrad.compiler.ir.text import parse
from fusegrad.compiler.ir.verify import verify
from fusegrad.compiler.passes.decompose import decompose
from fusegrad.compiler.passes.simplify import simplify
from graphs import NAMES, arguments, to_graph

import fusegrad as fg
from fusegrad.handler import active
from fusegrad.op import TABLE


def arrays(out):
    outs = out if isinstance(out, (tuple, list)) else (out,)
    return [t._data for t in outs]


def same(name, got, want):
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, name
        np.testing.assert_array_equal(a, b, err_msg=name)


def near(name, got, want):
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (name, a.dtype, b.dtype)
        tolerance = 1e-12 if a.dtype == np.float64 else 3e-3 if a.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name", NAMES)
def test_in_graph(name):
    op = TABLE[name]
    for sample in op.samples():
        args, kwargs = arguments(sample)
        builder, inputs = GraphBuilder("f"), []
        graph_args = [to_graph(builder, a, inputs) for a in args]
        graph_kwargs = {k: to_graph(builder, v, inputs) for k, v in kwargs.items()}
        fg.manual_seed(3)
        state = fg.default_generator.state
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            want = arrays(op(*args, **kwargs))
            with active(builder):
                out = op(*graph_args, **graph_kwargs)
            graph = builder.graph
            outs = out if isinstance(out, (tuple, list)) else (out,)
            graph.outputs = [builder.value_of(t) for t in outs]
            for value, array in zip(graph.outputs, want, strict=True):
                assert tuple(value.meta.shape) == array.shape, f"{name}: meta {value.meta}, kernel {array.shape}"
                assert value.meta.dtype.np == array.dtype, f"{name}: meta {value.meta}, kernel {array.dtype}"
            verify(graph)
            assert parse(graph.text()) == graph
            assert from_plain(json.loads(json.dumps(to_plain(graph)))) == graph
            call = [*inputs, *(state if graph.random else ())]
            same(name, interp.run(graph, call), want)
            simple = simplify(graph)
            verify(simple, "simplify")
            same(name, interp.run(simple, call), want)
            parts = simplify(decompose(graph))
            verify(parts, "decompose")
            call = [*inputs, *(state if parts.random else ())]
            near(name, interp.run(parts, call), want)
