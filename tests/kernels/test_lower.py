"""compile_graph against the reference interpreter: operators, views, reductions, row patterns, layouts, symbolic
sizes.
"""

from __future__ import annotations

import numpy as np
import pytest
from fusegrad.compiler.ir import interp
from fusegrad.compiler.kernel import products
from fusegrad.compiler.kernel.program import compile_graph
from graphs import arr, check, graph_of, rng, same, strided

import fusegrad as fg
from fusegrad.meta import Meta
from fusegrad.sizes import SizeContext

F = fg.nn.functional


POINTWISE = {
    "chain": lambda a, b: (a * b + 1).abs() - b / 2,
    "scalars": lambda a, b: (2 - a) * 0.5 + 3 / (b * b + 1),
    "broadcast": lambda a, b: a[:, :1] * b + a[:1],
    "compare": lambda a, b: (a > b, (a >= 0).to(fg.float32) * b, a != a),
    "where": lambda a, b: fg.where(a > 0, a, b * 2),
    "shared": lambda a, b: (a * b, a + b, (a * b) * (a + b)),
    "twice": lambda a, b: (a + b, a + b),
    "numbers": lambda a, b: (a + True, a * 2, b // 1.0),
    "activations": lambda a, b: (F.relu(a), fg.sigmoid(a), fg.tanh(b), fg.exp(a)),
    "power": lambda a, b: (a**2, a**3, a.abs() ** 0.5, a.abs() ** 1.7, (a.abs() + 1) ** -1),
    "clamp": lambda a, b: a.clamp(-0.5, 0.5) + b.clamp(min=0),
    "erf": lambda a, b: a * 0.5 * (1 + fg.erf(b * 0.70710678)),
    "ints": lambda a, b: ((a * 10).to(fg.int64) // 3, (a * 10).to(fg.int32) % 4, (b * 9).to(fg.int64) * 7 - 1),
    "cast": lambda a, b: (a.to(fg.float64) * b, (a > 0).to(fg.int64), a.to(fg.float64).to(fg.float32)),
    "half": lambda a, b: (a.to(fg.float16) * 3 + 1).to(fg.float32),
    "create": lambda a, b: a + fg.arange(4) * fg.ones(3, 1) + fg.eye(3, 4),
    "tril": lambda a, b: (a.tril(), b.triu(1)),
}


@pytest.mark.parametrize("name", POINTWISE)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_pointwise(name, dtype):
    check(POINTWISE[name], arr(3, 4, dtype=dtype), arr(3, 4, dtype=dtype), tol=2e-6 if name != "half" else 1e-3)


VIEWS = {
    "transpose": lambda a: a.transpose(0, 1) * 2,
    "both": lambda a: a[:6, :6] + a[:6, :6].transpose(0, 1),
    "slice": lambda a: a[1:, ::2] - a[:-1, 1::2],
    "select": lambda a: a[2] + a[:, 1].sum(),
    "flip": lambda a: a.flip(0) + a.flip(1),
    "expand": lambda a: (a[:, :1].expand(-1, 5) * 2, a[0].unsqueeze(0).expand(3, -1) + 1),
    "reshape": lambda a: (a * 2).reshape(-1) + 1,
    "odd reshape": lambda a: (a + 1).reshape(6, 8).sum(0),
    "heads": lambda a: (a.reshape(8, 2, 3).transpose(0, 1) * 2).transpose(0, 1).reshape(8, 6) + 1,
    "merge": lambda a: (a.reshape(4, 2, 6).permute(2, 0, 1) + 1).reshape(12, 4) * 3,
    "as result": lambda a: (a[1:], a.transpose(0, 1), a, (a + 1).transpose(0, 1), (a * 2).reshape(-1)),
    "squeeze": lambda a: (a[:, :1].squeeze(1) * 2).unsqueeze(0),
    "split": lambda a: a.split(3)[1] + a.chunk(2, 0)[0][:3] + a.unbind(0)[1],
    "diagonal": lambda a: a.diagonal() * 2 + a.diagonal(1)[0],
    "unfold": lambda a: a.unfold(0, 3, 2).sum(-1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    check(VIEWS[name], arr(8, 6))


REDUCTIONS = {
    "sum": lambda a: (a.sum(), a.sum(0), a.sum(1), a.sum(2), a.sum((0, 2)), a.sum((1, 2), keepdim=True)),
    "mean": lambda a: (a.mean(), a.mean(0), a.mean((0, 1))),
    "extremes": lambda a: (a.amax(0), a.amin((1, 2)), a.max(), a.min(1)[0], a.max(2)[1]),
    "positions": lambda a: (a.argmax(), a.argmin(1), a.argmax(2), a.argmax(0)),
    "prod": lambda a: (a.prod(), a.prod(1)),
    "logical": lambda a: ((a > 0).any(), (a > -9).all(1), (a > 1).any(2)),
    "counts": lambda a: ((a > 0).sum(), (a > 0).sum(1), (a * 5).to(fg.int64).sum(2)),
    "fused": lambda a: ((a * 2 + 1).sum(1) * 3, (a - a.mean()).abs().sum()),
    "stored": lambda a: (a.exp(), a.exp().sum(2), a.exp().sum(0)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_reductions(name, dtype):
    check(REDUCTIONS[name], arr(3, 5, 4, dtype=dtype), tol=1e-5)


def _center(a):
    d = a - a.mean(1, keepdim=True)
    return d / ((d * d).mean(1, keepdim=True) + 1e-5).sqrt()


ROWS = {
    "softmax": lambda a: F.softmax(a, -1),
    "log_softmax": lambda a: F.log_softmax(a, -1),
    "softmax columns": lambda a: F.softmax(a, 0),
    "normalised": _center,
    "normalised columns": lambda a: _center(a.transpose(0, 1)),
    "scaled": lambda a: a / a.abs().amax(1, keepdim=True),
    "two rows": lambda a: a.sum(1) / a.abs().sum(1) + a.amax(1),
    "whole": lambda a: a / (a * a).sum().sqrt(),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (3, 300), (300, 3)])
def test_rows(name, shape):
    check(ROWS[name], arr(*shape), tol=1e-5, kernels=None)


def test_a_row_pattern_is_one_nest():
    compiled = check(lambda a: F.softmax(a, -1), arr(5, 70), tol=1e-5)
    if len(compiled.kernels) == 1:
        (nest,) = compiled.kernels[0].nests
        assert len(nest.phases) == 3, compiled.text()


def test_indexing():
    x, i = arr(7, 5), rng.integers(0, 7, (4, 3))
    check(lambda x, i: x[i] * 2, x, i)
    check(lambda x, i: x.index_select(0, i.reshape(-1)) + 1, x, i)
    j = rng.integers(0, 5, 7)
    check(lambda x, j: x[fg.arange(7), j] - 1, x, j)
    check(lambda x, j: F.log_softmax(x, 1).gather(1, j.unsqueeze(1)).mean(), x, j, tol=1e-5)
    check(lambda x, j: (x * 0).scatter(1, j.unsqueeze(1), 1.0) + x, x, j)


@pytest.mark.parametrize("bad", [[0, 7], [-8, 0], [3, 10**12]])
def test_an_index_out_of_range_raises(bad):
    x, i = arr(7, 2), np.array([0, 6])
    compiled = compile_graph(graph_of(lambda x, i: x[i] * 2, (x, i)))
    compiled(x, i)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, np.array(bad))
    compiled(x, i)


def test_joining():
    check(lambda a, b: fg.cat([a, b * 2], 0) + 1, arr(3, 4), arr(2, 4))
    check(lambda a, b: (fg.cat([a, b], 1).sum(0), fg.stack([a, a + 1], 1)), arr(3, 4), arr(3, 2))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0), (1,), (1, 1)])
def test_small_and_empty(shape):
    check(lambda a: (a * 2 + 1, a.sum(), (a > 0).to(fg.int64), a.reshape(-1) + 1), arr(*shape))


def _symbolic(f, shapes):
    """Graph of ``f`` with sizes named by strings, and a maker of arguments."""
    ctx = SizeContext("guard")
    names: dict[str, object] = {}
    for shape in shapes:
        for d in shape:
            if isinstance(d, str) and d not in names:
                names[d] = ctx.symbol(d, 5 + len(names))
    hints = {name: s.hint for name, s in names.items()}

    def make(values):
        return [arr(*[values[d] if isinstance(d, str) else d for d in shape]) for shape in shapes]

    metas = [Meta(tuple(names.get(d, d) for d in shape), fg.float32) for shape in shapes]
    return graph_of(f, make(hints), metas, ctx), make, ctx


SYMBOLIC = {
    "pointwise": (lambda a, b: a * b + 1, [("B", 4), (4,)]),
    "softmax": (lambda a: F.softmax(a, -1), [("B", "C")]),
    "columns": (lambda a: (a * 2).sum(0) + a.sum(), [("B", 4)]),
    "mean": (lambda a: a.mean(1) * 2, [("B", "C")]),
    "reshape": (lambda a: (a * 2).reshape(-1) + 1, [("B", 4)]),
    "size": (lambda a: a * a.shape[0] + 1, [("B", 4)]),
}


@pytest.mark.parametrize("name", SYMBOLIC)
def test_symbolic_sizes(name):
    f, shapes = SYMBOLIC[name]
    graph, make, ctx = _symbolic(f, shapes)
    guards = len(ctx.guards)
    compiled = compile_graph(graph)
    assert len(ctx.guards) == guards, "compiling must not add guards"
    for b in (1, 2, 7, 0, 33):
        for c in (3, 1, 20):
            args = make({"B": b, "C": c})
            same(compiled(*args), interp.run(graph, args), 1e-5)


def test_without_fusion_every_operator_has_its_own_loop():
    f = lambda a: F.softmax(a, -1) * 2 + 1
    fused = check(f, arr(4, 9), tol=1e-5)
    plain = check(f, arr(4, 9), tol=1e-5, options={"fuse": False})
    count = lambda c: sum(len(k.nests) for k in c.kernels)
    assert count(plain) > count(fused)


def test_text_shows_schedule_loops_and_source():
    compiled = check(lambda a: (a * 2).sum(1) + 1, arr(3, 4))
    text = compiled.text()
    assert "schedule" in text and "kernel k0(" in text and "def run(" in text


def test_results_never_share_memory_with_inputs():
    a = arr(4, 4)
    compiled = compile_graph(graph_of(lambda a: (a, a, a[0], a.transpose(0, 1)), (a,)))
    results = compiled(a)
    for k, r in enumerate(results):
        assert not any(np.may_share_memory(r, o) for o in (a, *results[:k]))


def test_threads_may_share_a_compiled_graph():
    import threading

    compiled = compile_graph(graph_of(lambda a: ((a - a.amax(1, keepdim=True)).sum(0)) * 2, (arr(50, 40),)))
    inputs = [arr(50, 40) for _ in range(4)]
    wants = [compiled(x)[0] for x in inputs]
    bad: list[int] = []

    def work(k):
        for _ in range(50):
            if not np.array_equal(compiled(inputs[k])[0], wants[k]):
                bad.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not bad


PRODUCTS = {
    "matrices": ((3, 4), (4, 5)),
    "vector": ((4,), (4, 5)),
    "by vector": ((3, 4), (4,)),
    "dot": ((4,), (4,)),
    "batch": ((2, 3, 4), (2, 4, 5)),
    "rows": ((2, 3, 4), (4, 5)),
    "broadcast": ((2, 1, 3, 4), (3, 4, 5)),
    "empty": ((0, 4), (4, 5)),
    "no inner": ((3, 0), (0, 5)),
    "empty batch": ((0, 3, 4), (4, 5)),
}


@pytest.fixture(params=["tiny products as loops", "all products by the library"])
def products_by(request, monkeypatch):
    if request.param.startswith("all"):
        monkeypatch.setattr(products, "MULTIPLICATIONS", 0)
        monkeypatch.setattr(products, "STACKED", 0)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products(name, dtype, products_by):
    a, b = (arr(*s, dtype=dtype) for s in PRODUCTS[name])
    check(lambda a, b: (a.matmul(b), F.relu(a.matmul(b * 2) + 1)), a, b, tol=1e-5)


def test_products_of_transposed_values(products_by):
    check(
        lambda a, b: (a.transpose(0, 1).matmul(b), (a * 2).transpose(0, 1).matmul(b + 1).transpose(0, 1) * 2),
        arr(4, 3),
        arr(4, 5),
        tol=1e-5,
    )


def test_linear_and_attention(products_by):
    def attention(q, k, v):
        s = q.matmul(k.transpose(-1, -2)) / 2
        return F.softmax(s, -1).matmul(v).transpose(1, 2).reshape(2, 5, 8)

    check(attention, arr(2, 2, 5, 4), arr(2, 2, 5, 4), arr(2, 2, 5, 4), tol=1e-5)
    check(lambda x, w, b: F.relu(F.linear(x, w, b)), arr(2, 5, 4), arr(3, 4), arr(3), tol=1e-5)


def test_writes_and_masks():
    check(lambda a: F.pad(a, (1, 2)) + 1, arr(3, 4))
    check(lambda a: F.pad(a, (1, -1, 2, 0), value=3.0) * 2, arr(3, 4))
    check(lambda i: F.one_hot(i, 5) * 2, rng.integers(0, 5, (3, 2)))
    check(lambda a, b: a.select_scatter(b, 0, 1) + a.slice_scatter(a[:2], 0, 1, 3), arr(3, 4), arr(4))


def test_errors_have_the_eager_class():
    x, i = arr(7, 5), np.array([[0], [1]])
    compiled = compile_graph(graph_of(lambda x, i: x.gather(1, i) * 2, (x, i)))
    compiled(x, i)
    with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension 1 with size 5"):
        compiled(x, np.array([[0], [9]]))


def test_random_numbers_are_those_of_eager_code():
    graph = graph_of(lambda a: a * fg.rand(3, 4) + F.dropout(a, 0.5), (arr(3, 4),))
    compiled = compile_graph(graph)
    a = arr(3, 4)
    for seed, draw in ((0, 0), (7, 3), (2**64 - 1, 12345)):
        same(compiled(a, seed, draw), interp.run(graph, [a, seed, draw]), 1e-6)


def _step(p, g, m):
    m2 = m * 0.9 + g
    return p - 0.1 * m2, m2, (g * g).sum()


def test_an_update_may_be_written_over_its_input():
    arrays = [arr(40, 7) for _ in range(3)]
    graph = graph_of(_step, arrays)
    want = interp.run(graph, arrays)
    p, g, m = (a.copy() for a in arrays)
    got = compile_graph(graph, None, {0: 0, 1: 2})(p, g, m)
    assert got[0] is p and got[1] is m
    same(got, want, 1e-6)
    np.testing.assert_array_equal(g, arrays[1])
    wide = [strided(a) for a in arrays]
    got = compile_graph(graph, None, {0: 0, 1: 2})(*wide)
    assert got[0] is not wide[0]
    same(got, want, 1e-6)


def _centred(t, w):
    """t, and t * w less its row sums: the loop that subtracts computes t * w, and so t, a second time."""
    u = t * w
    return t, u - u.sum(1, keepdim=True)


REFUSED = {
    "read elsewhere": lambda p, g: (p + p.flip(0) * g,),
    "read in a later phase": lambda p, g: (p * 2, (p - (p * 2).sum(1, keepdim=True)).sum()),
    "returned": lambda p, g: (p + g, p),
    "checked": lambda p, g: (p[g[:, 0].to(fg.int64) * 0] + p, p.sum()),
    "read for what a later phase computes again": lambda p, g: _centred(p * 2 + 1, g),
    "read by a later call": lambda p, g: (p + g, (p + g).matmul(p.transpose(0, 1)), p.logcumsumexp(0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_update_that_could_be_noticed_is_not(name):
    p, g = arr(6, 6), arr(6, 6)
    graph = graph_of(REFUSED[name], (p, g))
    want = interp.run(graph, [p, g])
    mine = p.copy()
    got = compile_graph(graph, None, {0: 0})(mine, g)
    same(got, want, 1e-5)
    assert got[0] is not mine or name == "read in a later phase"


def test_scratch_memory_is_not_written_over_while_a_later_phase_computes_from_it():
    """The gradient of relu(x + batch_norm(x)) after pooling: the mask was read again after the gradient lay over it."""

    def f(a, w):
        r = (a * 2 + 1).relu()  # in scratch memory: read by a library call, then last by the loop
        t, centred = _centred(r * 3 - r.cummax(1)[0][:, -1:], w)
        return r.cummax(1)[0], t.cummax(1)[0], centred  # t is in scratch memory too

    a, w = np.array([[1, -2, 3, -1]], "f4"), np.array([[1, 2, 3, 4]], "f4")
    most, first, second = check(f, a, w)(a, w)
    np.testing.assert_array_equal(most, [[3, 3, 7, 7]])
    np.testing.assert_array_equal(first, [[2, 2, 14, 14]])  # t = 2, -7, 14, -7
    np.testing.assert_array_equal(second, [[0, -16, 40, -30]])  # t * w = 2, -14, 42, -28: sum 2


def test_what_is_stored_is_loaded_in_later_phases_and_may_lie_over_what_it_is_made_of():
    def f(a, g, w):
        r = (a * 2 + 1).relu()
        t, centred = _centred(fg.where(r > 0, g + r.cummax(1)[0], g), w)
        return t.cummax(1)[0], centred

    a = np.array([[1, -2, 3, -1]], "f4")
    g = np.array([[-10, 2, -30, 4]], "f4")
    w = np.array([[1, 2, 3, 4]], "f4")
    compiled = check(f, a, g, w)
    assert compiled.source.count("tmp1") == 0
    first, second = compiled(a, g, w)
    np.testing.assert_array_equal(first, [[-7, 2, 2, 4]])  # t = -7, 2, -23, 4
    np.testing.assert_array_equal(second, [[49, 60, -13, 72]])  # t * w = -7, 4, -69, 16: sum -56


def test_a_view_of_scratch_memory_that_must_copy_is_made_at_each_call(products_by):
    f = lambda a, b: ((a * 2).transpose(0, 1).reshape(6, 2)).matmul(b).logcumsumexp(0)
    graph = graph_of(f, (arr(3, 4), arr(2, 2)))
    compiled = compile_graph(graph)
    for _ in range(3):
        args = [arr(3, 4), arr(2, 2)]
        same(compiled(*args), interp.run(graph, args), 1e-5)


@pytest.mark.parametrize("shape", [(128, 192), (131, 150), (3, 96, 100), (64, 1024)])
def test_arrays_with_different_fast_dimensions_are_walked_in_tiles(shape):
    def f(a, b):
        t = a.transpose(-1, -2)
        return t * 2 + b + fg.arange(b.shape[-1]), t.contiguous()

    check(f, arr(*shape), arr(*shape[:-2], shape[-1], shape[-2]))


def test_the_largest_of_nothing_is_an_error_for_symbolic_sizes_too():
    graph, make, _ = _symbolic(lambda a: (a.amax(0), a.argmax(1)), [("B", "C")])
    compiled = compile_graph(graph)
    args = make({"B": 3, "C": 4})
    same(compiled(*args), interp.run(graph, args), 1e-6)
    for sizes in ({"B": 0, "C": 4}, {"B": 3, "C": 0}):
        with pytest.raises(IndexError, match="non-zero size"):
            compiled(*make(sizes))
