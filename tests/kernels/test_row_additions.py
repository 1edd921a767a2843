"""Rows added at indices by kernels: gradients of embeddings and of indexing, ``index_add``, against eager code."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.threads import get_num_threads, set_num_threads

F = fg.nn.functional

FUNCTIONS = {
    "embedding": lambda e, i, s: F.embedding(i, e) * 2,
    "embedding without one row": lambda e, i, s: F.embedding(i, e, padding_idx=3).tanh(),
    "indexing": lambda e, i, s: e[i].tanh(),
    "indexing from the end": lambda e, i, s: e[i - 40] * e[i],
    "index_add": lambda e, i, s: (e * 2).index_add(0, i.reshape(-1), (s * s).flatten(0, i.ndim - 1)),
}


def check(f, *args):
    a, b = ([x.clone().requires_grad_() if x.is_floating_point() else x for x in args] for _ in range(2))
    want, got = f(*a), fg.compile(f)(*b)
    g = fg.randn(*want.shape, dtype=want.dtype)
    grads = [
        fg.autograd.grad(y, [x for x in xs if x.requires_grad], g, allow_unused=True) for y, xs in ((want, a), (got, b))
    ]
    tol = 1e-5 if want.dtype is fg.float32 else 1e-12
    for p, q in zip((want, *grads[0]), (got, *grads[1]), strict=True):
        assert (p is None) == (q is None)
        if p is not None:
            p, q = p.detach().numpy(), q.detach().numpy()
            np.testing.assert_allclose(q, p, rtol=tol, atol=tol * float(np.abs(p).max(initial=0)))


@pytest.mark.parametrize("indices", [(0,), (1,), (300,), (6, 7)])
@pytest.mark.parametrize("width", [(), (1,), (3,), (64,), (130,), (5, 4)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_added_as_in_eager_code(name, width, indices):
    if name.startswith("embedding") and len(width) != 1:
        return
    fg.manual_seed(0)
    for dtype in (fg.float32, fg.float64):
        e, s = fg.randn(40, *width, dtype=dtype), fg.randn(*indices, *width, dtype=dtype)
        check(FUNCTIONS[name], e, fg.randint(0, 40, indices), s)


@pytest.mark.parametrize("bad", [40, -1])
def test_indices_are_checked(bad):
    def f(e, i, s):
        return e.index_add(0, i, s)

    args = fg.zeros(40, 2), fg.tensor([1, bad]), fg.ones(2, 2)
    with pytest.raises(IndexError) as eager:
        f(*args)
    with pytest.raises(IndexError) as compiled:
        fg.compile(f)(*args)
    assert str(compiled.value) == str(eager.value)


def test_any_number_of_rows_and_of_threads():
    def f(e, i):
        return F.embedding(i, e).sin()

    compiled, e = fg.compile(f, dynamic=True), fg.randn(50, 200, requires_grad=True)
    before = get_num_threads()
    try:
        for n in (3, 4000, 1):
            i, results = fg.randint(0, 50, (n, 2)), []
            for threads in (1, 2, 5):
                set_num_threads(threads)
                results.append(fg.autograd.grad(compiled(e, i).sum(), e)[0].numpy())
            np.testing.assert_allclose(results[0], fg.autograd.grad(f(e, i).sum(), e)[0].numpy(), rtol=1e-5, atol=1e-5)
            for r in results[1:]:
                np.testing.assert_array_equal(r, results[0])
    finally:
        set_num_threads(before)


def test_they_are_kernels():
    from fusegrad.compiler.kernel.program import compile_graph
    from graphs import graph_of

    f = lambda e, i, s: e.index_add(0, i, s)
    args = np.zeros((5, 9), "f4"), np.array([1, 1, 4]), np.ones((3, 9), "f4")
    compiled = compile_graph(graph_of(f, args))
    assert len(compiled.kernels) == 1 and "_index_add((" not in compiled.source
    np.testing.assert_array_equal(compiled(*args)[0][:, 0], [0, 2, 0, 0, 1])


SCATTERED = {  # shapes of input, index, source; dim
    "a list": ((50,), (300,), (300,), 0),
    "rows": ((20, 9), (20, 70), (20, 70), 1),
    "columns": ((9, 20), (70, 20), (70, 20), 0),
    "the middle": ((4, 9, 5), (4, 70, 5), (4, 70, 5), -2),
    "a larger source": ((20, 9), (20, 70), (21, 80), 1),
    "a part of the input": ((20, 9), (7, 70), (7, 70), 1),
    "one number a row": ((20, 9), (20, 1), (20, 1), 1),
    "nothing": ((20, 9), (20, 0), (20, 0), 1),
}


@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
@pytest.mark.parametrize("case", SCATTERED)
def test_numbers_are_added_as_in_eager_code(case, dtype):
    shape, picked, given, dim = SCATTERED[case]
    fg.manual_seed(1)
    index = fg.randint(0, shape[dim], picked)
    check(
        lambda x, i, s: (x * 2).scatter_add(dim, i, s * s),
        fg.randn(*shape, dtype=dtype),
        index,
        fg.randn(*given, dtype=dtype),
    )
    check(lambda x, i: x.gather(dim, i).sin(), fg.randn(*shape, dtype=dtype), index)


def test_numbers_added_where_arguments_are_one_value_or_layouts_differ():
    x, i = fg.randn(30, 40), fg.randint(0, 30, (30, 40))
    check(lambda x, i: x.scatter_add(0, i, x), x, i)
    check(lambda x, i: x.t().scatter_add(1, i.t(), x.t()), x, i)
    check(lambda x, i: x.scatter_add(0, i[:, :1].expand(30, 40), x), x, i)
    check(lambda x, i: x.scatter_add(1, i.clamp(max=0), x), x, i)


@pytest.mark.parametrize("bad", [40, -1])
def test_indices_of_numbers_are_checked(bad):
    def f(x, i, s):
        return x.scatter_add(0, i, s)

    args = fg.zeros(40), fg.tensor([1, bad, 2]), fg.ones(3)
    with pytest.raises(RuntimeError) as eager:
        f(*args)
    program = fg.export.export(f, (fg.zeros(40), fg.tensor([1, 5, 2]), fg.ones(3))).module()
    for g in (fg.compile(f), program):
        with pytest.raises(RuntimeError) as compiled:
            g(*args)
        assert str(compiled.value) == str(eager.value) and type(compiled.value) is type(eager.value)


def test_numbers_of_any_count_on_any_number_of_threads():
    def f(x, i, s):
        return x.scatter_add(1, i, s)

    compiled, x = fg.compile(f, dynamic=True), fg.zeros(30, 50)
    before = get_num_threads()
    try:
        for n in (3, 4000, 1):
            i, s, results = fg.randint(0, 50, (30, n)), fg.randn(30, n), []
            for threads in (1, 2, 5):
                set_num_threads(threads)
                results.append(compiled(x, i, s).numpy())
            np.testing.assert_allclose(results[0], f(x, i, s).numpy(), rtol=1e-5, atol=1e-5)
            for r in results[1:]:
                np.testing.assert_array_equal(r, results[0])
    finally:
        set_num_threads(before)
