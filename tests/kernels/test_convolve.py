"""Convolutions as native loops: values against float64, memory that is not theirs, borders, threads, sizes."""

from __future__ import annotations

import math

import fusegrad.compiler as compiler
import numpy as np
import pytest
from fusegrad.compiler.kernel import convolve
from fusegrad.compiler.kernel.convolve import native
from fusegrad.compiler.kernel.program import compile_graph
from fusegrad.compiler.tracer import trace

import fusegrad as fg
from fusegrad.native import accumulators, compile_kernel
from fusegrad.ops import _conv_kernels as ck

F = fg.nn.functional
pytestmark = pytest.mark.skipif(not accumulators(), reason="no fused multiply-add on this machine")

# samples, channels, height, width, outputs, taps, stride, padding, dilation
SHAPES = [
    (4, 3, 12, 12, 5, (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 1, 28, 28, 6, (5, 5), (1, 1), (2, 2), (1, 1)),
    (5, 6, 14, 14, 16, (5, 5), (1, 1), (0, 0), (1, 1)),
    (70, 4, 9, 30, 9, (1, 1), (2, 2), (0, 0), (1, 1)),
    (2, 8, 30, 33, 7, (3, 3), (2, 2), (1, 1), (1, 1)),
    (3, 5, 20, 40, 4, (3, 2), (2, 1), (1, 0), (1, 2)),
    (3, 5, 9, 16, 4, (1, 1), (1, 1), (1, 0), (1, 1)),
    (2, 3, 18, 18, 17, (7, 7), (2, 2), (3, 3), (1, 1)),
    (1, 2, 16, 90, 3, (3, 3), (3, 1), (4, 5), (1, 2)),
    (2, 2, 7, 140, 13, (2, 4), (1, 1), (0, 0), (3, 2)),
    (0, 2, 8, 16, 3, (3, 3), (1, 1), (1, 1), (1, 1)),
    (4, 20, 7, 7, 9, (1, 1), (1, 1), (0, 0), (1, 1)),
    (3, 5, 6, 19, 33, (1, 1), (1, 1), (0, 0), (3, 2)),
]


def _problem(shape, dtype):
    n, c, h, w, o, taps, stride, padding, dilation = shape
    rng = np.random.default_rng(1)
    x, k = rng.standard_normal((n, c, h, w)).astype(dtype), rng.standard_normal((o, c, *taps)).astype(dtype)
    grid = ck.out_sizes((h, w), taps, stride, padding, dilation)
    g = rng.standard_normal((n, o, *grid)).astype(dtype)
    return x, k, g, (stride, padding, dilation)


def _traced(f, *tensors):
    traced = trace(f, tensors)
    traced.builder.graph.outputs = [traced.builder.value_of(traced.outputs)]
    return traced.builder.graph


def _graph(which, x, k, g, along):
    from fusegrad.ops.nn_conv import _conv, _conv_input, _conv_weight

    x, k, g = (fg.from_numpy(a) for a in (x, k, g))
    if which == "forward":
        return _traced(lambda a, b: _conv(a, b, *along, 1), x, k), (x, k)
    if which == "input":
        return _traced(lambda a, b: _conv_input(a, b, x.shape[2:], *along, 1), g, k), (g, k)
    return _traced(lambda a, b: _conv_weight(a, b, k.shape[2:], *along, 1), g, x), (g, x)


def _expected(which, x, k, g, along):
    wide = [a.astype(np.float64) for a in (x, k, g)]
    if which == "forward":
        return ck.forward(wide[0], wide[1], *along, 1)
    if which == "input":
        return ck.input_grad(wide[2], wide[1], x.shape[2:], *along, 1)
    return ck.weight_grad(wide[2], wide[0], k.shape[2:], *along, 1)


def _run_guarded(found, arrays, out):
    """The result; fails if anything around an array that the kernel writes has changed."""
    guarded = []

    def room(n):
        memory = np.full(n + 512, np.nan, out.dtype)
        memory[:256] = memory[-256:] = 7
        guarded.append(memory)
        return memory[256:-256]

    result = room(out.size)
    scratch = [room(n) for n in found.scratch]
    compile_kernel(found.kernel)(*(arrays[i] for i in found.args), result.reshape(out.shape), *scratch)
    for memory in guarded:
        assert (memory[:256] == 7).all() and (memory[-256:] == 7).all()
    return result.reshape(out.shape).copy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("which", ["forward", "input", "weight"])
@pytest.mark.parametrize("budget", [6, 16])
def test_values(which, shape, dtype, budget, monkeypatch):
    monkeypatch.setattr(convolve, "_pays", lambda c: True)
    problem = _problem(shape, dtype)
    graph, tensors = _graph(which, *problem)
    found = native(graph.nodes[0], budget)
    assert found is not None
    want = _expected(which, *problem)
    got = _run_guarded(found, [t.numpy() for t in tensors], want.astype(dtype))
    assert not np.isnan(got).any()
    scale = max(1.0, float(np.abs(want).max(initial=0)))
    assert np.abs(got - want).max(initial=0) < 40 * np.finfo(dtype).eps * scale


def test_blocks_do_not_change_bits(monkeypatch):
    monkeypatch.setattr(convolve, "_pays", lambda c: True)
    for shape in SHAPES[:4]:
        for which in ("forward", "input", "weight"):
            problem = _problem(shape, np.float32)
            graph, tensors = _graph(which, *problem)
            out = _expected(which, *problem).astype(np.float32)
            arrays = [t.numpy() for t in tensors]
            few, many = (_run_guarded(native(graph.nodes[0], b), arrays, out) for b in (4, 16))
            np.testing.assert_array_equal(few, many)


@pytest.mark.parametrize("which", ["forward", "input", "weight"])
def test_threads_do_not_change_bits(which):
    problem = _problem((67, 8, 16, 32, 12, (3, 3), (1, 1), (1, 1), (1, 1)), np.float32)
    graph, tensors = _graph(which, *problem)
    found = native(graph.nodes[0], 16)
    out = _expected(which, *problem).astype(np.float32)
    arrays, before, results = [t.numpy() for t in tensors], fg.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            fg.set_num_threads(threads)
            results.append(_run_guarded(found, arrays, out))
    finally:
        fg.set_num_threads(before)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("stride", [1, 2])
def test_infinities_stay_where_they_belong(stride):
    """Neither the border nor what is read beside a row takes part."""
    x, k, g, along = _problem((2, 3, 17, 21, 4, (3, 3), (stride, stride), (1, 1), (1, 1)), np.float32)
    x[0, 1, 0, 20], x[1, 2, 16, 0], g[0, 0, 0, -1], g[1, 3, -1, 0] = np.inf, np.nan, np.nan, -np.inf
    for which in ("forward", "input", "weight"):
        graph, tensors = _graph(which, x, k, g, along)
        got = compile_graph(graph)(*(t.numpy() for t in tensors))[0]
        want = _expected(which, x, k, g, along)
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))
        fine = np.isfinite(want)
        np.testing.assert_allclose(got[fine], want[fine], rtol=1e-4, atol=1e-4)


def test_one_kernel_for_every_batch():
    model = fg.nn.Sequential(fg.nn.Conv2d(3, 8, 3, padding=1), fg.nn.ReLU(), fg.nn.Conv2d(8, 4, 3, stride=2))
    compiled = compiler.compile(model)
    for n in (5, 3, 1, 4):
        x = fg.randn(n, 3, 18, 18, requires_grad=True)
        parts = (x, *model.parameters())
        got, want = compiled(x), model(x)
        v = fg.randn(want.shape)
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=1e-5, atol=1e-5)
        for a, b in zip(fg.autograd.grad(got, parts, v), fg.autograd.grad(want, parts, v), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-4)


def test_rows_are_images_of_one_row():
    x, k = fg.randn(3, 4, 50), fg.randn(6, 4, 5)
    graph = _traced(lambda a, b: F.conv1d(a, b, padding=2), x, k)
    assert native(graph.nodes[0], 16) is not None
    got = compile_graph(graph)(x.numpy(), k.numpy())[0]
    np.testing.assert_allclose(got, F.conv1d(x, k, padding=2).numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 4, 16, 16), (4, 2, 3, 3), {"groups": 2}),
        ((2, 4, 16, 3), (4, 4, 3, 3), {}),
        ((1, 90, 40, 40), (80, 90, 1, 1), {}),
        ((2, 4, 20, 40), (4, 4, 3, 9), {}),
    ],
)
def test_others_are_library_calls(x, w, options):
    x, w = fg.randn(x), fg.randn(w)
    graph = _traced(lambda a, b: F.conv2d(a, b, **options), x, w)
    assert native(graph.nodes[0], 16) is None
    got = compile_graph(graph)(x.numpy(), w.numpy())[0]
    np.testing.assert_allclose(got, F.conv2d(x, w, **options).numpy(), rtol=1e-5, atol=1e-5)


def test_arguments_in_other_layouts():
    x, k = fg.randn(2, 20, 18, 3).permute(0, 3, 1, 2), fg.randn(4, 3, 3, 3)
    compiled = compiler.compile(lambda a, b: F.conv2d(a, b))
    np.testing.assert_allclose(compiled(x, k).numpy(), F.conv2d(x, k).numpy(), rtol=1e-5, atol=1e-5)


def test_memory_for_borders_is_bounded():
    """However many samples there are."""
    x, k = fg.randn(100, 3, 32, 32), fg.randn(4, 3, 3, 3)
    found = native(_traced(lambda a, b: F.conv2d(a, b, padding=1), x, k).nodes[0], 16)
    assert found.scratch[0] <= convolve.SLOTS * math.prod((3, 36, 36))
