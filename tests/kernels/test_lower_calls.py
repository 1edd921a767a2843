"""Library calls between loops: what they return is memory of its own, whatever the eager kernel returns."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fusegrad.compiler.ir.builder import GraphBuilder
from fusegrad.compiler.kernel.calls import extern_call
from graphs import NAMES, arguments, to_graph

from fusegrad.handler import active
from fusegrad.op import TABLE


def calls_of(op):
    """(node, arrays of its arguments) of each sample that is one node on inputs of the graph."""
    for sample in op.samples():
        args, kwargs = arguments(sample)
        builder, inputs = GraphBuilder("g"), []
        graph_args = [to_graph(builder, a, inputs) for a in args]
        graph_kwargs = {k: to_graph(builder, v, inputs) for k, v in kwargs.items()}
        with active(builder):
            op(*graph_args, **graph_kwargs)
        given = dict(zip(builder.graph.inputs, inputs, strict=True))
        nodes = [n for n in builder.graph.nodes if n.op is op and all(v in given for v in n.inputs())]
        if nodes:
            yield nodes[0], tuple(given[v] for v in nodes[0].inputs())


@pytest.mark.parametrize("name", NAMES)
def test_results_of_a_call_are_memory_of_their_own(name):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for node, given in calls_of(TABLE[name]):
            before = [a.copy() for a in given]
            out = extern_call(node)(given, {})
            outs = out if isinstance(out, tuple) else (out,)
            for k, array in enumerate(outs):
                assert array.flags.writeable and array.flags.c_contiguous
                assert not any(np.may_share_memory(array, other) for other in (*given, *outs[:k]))
            for a, b in zip(given, before, strict=True):
                np.testing.assert_array_equal(a, b)
