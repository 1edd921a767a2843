"""The plain tracer, and the options object."""

from __future__ import annotations

import numpy as np
import pytest
from fusegrad.compiler.options import Options, make_options
from fusegrad.compiler.tracer import trace

import fusegrad as fg
from fusegrad.errors import DataDependentError
from fusegrad.tensor import wrap


def T(*shape):
    return wrap(np.ones(shape, np.float32))


def test_nested_arguments_and_outputs():
    a, b = T(2), T(3)
    traced = trace(lambda d, k: {"sum": d["x"][0].sum() + k.sum(), "same": d["x"][0]}, ({"x": [a]},), {"k": b})
    assert len(traced.inputs) == 2 and set(traced.outputs) == {"sum", "same"}
    assert traced.real == [a, b] and traced.outputs["same"] is traced.inputs[0]


def test_same_tensor_twice_is_one_input():
    a = T(2)
    traced = trace(lambda x, y: x + y, (a, a))
    assert len(traced.inputs) == 1


def test_line_of_the_user():
    traced = trace(lambda x: x.exp(), (T(2),))
    file, line = traced.builder.graph.nodes[0].loc
    assert file.endswith("test_tracer.py") and line > 0


def test_branch_on_a_value_is_refused():
    def f(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(DataDependentError, match="branch on the value"):
        trace(f, (T(2),))


def test_real_tensors_are_lifted_once():
    c = T(2)
    traced = trace(lambda x: x * c + c, (T(2),))
    assert len(traced.builder.constants) == 1 and traced.builder.constants[0][1] is c


def test_tensors_of_two_graphs_do_not_mix():
    kept = []
    trace(lambda x: kept.append(x), (T(2),))
    with pytest.raises(RuntimeError, match="another graph"):
        trace(lambda y: y + kept[0], (T(2),))


def test_options():
    assert make_options({"fuse": False}) == Options(fuse=False)
    assert len(Options.__dataclass_fields__) <= 10
    with pytest.raises(TypeError, match="unknown option 'fusion'; known options are codegen"):
        make_options({"fusion": True})
    assert fg.compiler.Options is Options
