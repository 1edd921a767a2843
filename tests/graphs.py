"""Graphs for tests of the lowering: of functions on arrays, and of the samples of the op table."""

from __future__ import annotations

import numpy as np
from fusegrad.compiler.ir import interp
from fusegrad.compiler.ir.bind import bind_sizes
from fusegrad.compiler.kernel.program import compile_graph
from fusegrad.compiler.passes.decompose import decompose
from fusegrad.compiler.tracer import trace

import fusegrad as fg
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap

rng = np.random.default_rng(7)


def arr(*shape, dtype="f4"):
    return np.asarray(rng.normal(size=shape), dtype)


def graph_of(f, arrays, metas=None, sizes=None):
    """The decomposed graph of ``f`` on arrays like these."""
    t = trace(f, tuple(fg.from_numpy(np.array(a, order="C")) for a in arrays), sizes=sizes, metas=metas)
    outs = t.outputs if isinstance(t.outputs, (tuple, list)) else (t.outputs,)
    t.builder.graph.outputs = [t.builder.value_of(o) for o in outs]
    return bind_sizes(decompose(t.builder.graph))


def same(got, want, tol):
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=tol, atol=tol)


def strided(a):
    """The same values behind other strides: every second element, backwards, transposed."""
    if a.ndim == 0:
        return a
    wide = np.zeros([2 * n + 1 for n in a.shape], a.dtype)
    view = wide[
        tuple(slice(2 * n - 1, None, -2) if n and d == 0 else slice(0, 2 * n, 2) for d, n in enumerate(a.shape))
    ]
    view = view[tuple(slice(0, n) for n in a.shape)]
    view[...] = a
    if a.ndim > 1 and a.shape[0] == a.shape[1]:
        view = np.array(view.T, order="C").T
    return view


def check(f, *arrays, tol=2e-6, options=None, kernels=None):
    """Compile ``f`` and compare with the interpreter, also on views with odd strides of the same values."""
    graph = graph_of(f, arrays)
    compiled = compile_graph(graph, options)
    if kernels is not None:
        assert len(compiled.kernels) == kernels, compiled.text()
    want = interp.run(graph, arrays)
    same(compiled(*arrays), want, tol)
    before = [a.copy() for a in arrays]
    got = compiled(*[strided(a) for a in arrays])
    same(got, want, tol)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    for k, g in enumerate(got):
        assert not any(np.may_share_memory(g, o) for o in (*arrays, *got[:k]))
    return compiled


# ---- samples of the op table

NAMES = sorted(name for name, op in TABLE.items() if op.samples is not None and name != "empty")


def tensor_of(value):
    if isinstance(value, Tensor):
        return value
    return wrap(np.array(value)) if isinstance(value, np.ndarray) else value


def arguments(sample):
    def one(a):
        if isinstance(a, (list, tuple)) and any(isinstance(x, (np.ndarray, Tensor)) for x in a):
            return type(a)(map(tensor_of, a))
        return tensor_of(a)

    return [one(a) for a in sample.args], {k: one(v) for k, v in sample.kwargs.items()}


def to_graph(builder, value, inputs):
    if isinstance(value, Tensor):
        t = builder.new_input(value.meta_())
        inputs.append(value._data)
        return t
    if isinstance(value, (list, tuple)):
        return type(value)(to_graph(builder, v, inputs) for v in value)
    return value
