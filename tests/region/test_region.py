"""Regions:

values, gradients to second order, mutation, aliasing, symbolic sizes, random numbers; by the interpreter and compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from fusegrad.compiler.ir.builder import GraphBuilder
from fusegrad.compiler.region import build_region
from fusegrad.compiler.tracer import trace_region

import fusegrad as fg
from fusegrad.meta import Meta
from fusegrad.sizes import SizeContext
from fusegrad.tensor import Tensor, wrap

MODES = [{"interpret": True, "check": True}, {"check": True, "cache": False}]


@pytest.fixture(params=MODES, ids=["interpreter", "compiled"])
def options(request):
    return request.param


def T(*shape, rg=False, seed=0, dtype=np.float32):
    t = wrap(np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype))
    t._rg = rg
    return t


def close(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, Tensor):
        assert a.dtype is b.dtype and tuple(a.shape) == tuple(b.shape)
        assert a.requires_grad == b.requires_grad
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=2e-6)
    else:
        assert a == b


def grads(outs, inputs):
    outs = [o for o in outs if isinstance(o, Tensor) and o.requires_grad]
    wrt = [x for x in inputs if x.requires_grad]
    if not outs or not wrt:
        return []
    cots = [T(*o.shape, seed=7 + i) for i, o in enumerate(outs)]
    return [g for g in fg.autograd.grad(outs, wrt, cots, allow_unused=True) if g is not None]


def second(outs, inputs):
    wrt = [x for x in inputs if x.requires_grad]
    if not wrt:
        return []
    loss = sum((o * T(*o.shape, seed=3)).sum() for o in outs if isinstance(o, Tensor) and o.requires_grad)
    first = fg.autograd.grad(loss, wrt, create_graph=True, allow_unused=True)
    total = sum((g * g).sum() for g in first if g is not None and g.requires_grad)
    if not isinstance(total, Tensor):
        return []
    return [g for g in fg.autograd.grad(total, wrt, allow_unused=True) if g is not None]


def fresh(inputs):
    made = []
    for x in inputs:
        t = wrap(x._data.copy())
        t._rg = x._rg
        made.append(t)
    return made


def check(f, *inputs, options, order=2):
    """Compiled equals eager: results, mutated inputs, first and second derivatives."""
    compiled = trace_region(f, *fresh(inputs), options=options)
    for _ in range(2):
        a, b = fresh(inputs), fresh(inputs)
        out, ref = compiled(*a), f(*b)
        outs, refs = (out, ref) if isinstance(ref, tuple) else ((out,), (ref,))
        for x, y in zip(outs, refs, strict=True):
            close(x, y)
        for x, y in zip(a, b, strict=True):
            close(x, y)
        mine, theirs = grads(outs, a), grads(refs, b)
        assert len(mine) == len(theirs)
        for x, y in zip(mine, theirs, strict=True):
            close(x, y)
    if order > 1:
        a, b = fresh(inputs), fresh(inputs)
        out, ref = compiled(*a), f(*b)
        outs, refs = (out, ref) if isinstance(ref, tuple) else ((out,), (ref,))
        mine, theirs = second(outs, a), second(refs, b)
        assert len(mine) == len(theirs)
        for x, y in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=2e-4, atol=2e-5)
    return compiled


def test_pointwise_and_sum(options):
    def f(x, y):
        a = (x * y).tanh() + x.exp()
        return (a * a).sum(), a.mean(0)

    check(f, T(3, 4, rg=True), T(4, rg=True), options=options)


def test_no_gradients(options):
    r = check(lambda x, y: x * y + 1, T(3, 4), T(4), options=options, order=1)
    assert r.region.backward_graph is None


def test_some_inputs_without_gradient(options):
    check(lambda x, y, z: (x * y).sin() * z, T(3, 4, rg=True), T(4), T(3, 4, rg=True), options=options)


def test_matmul_chain(options):
    def f(x, w, v):
        return ((x @ w).relu() @ v).sum()

    r = check(f, T(5, 4), T(4, 6, rg=True), T(6, 3, rg=True), options=options)
    matmuls = [n.op.name for n in r.region.backward_graph.nodes if "mm" in n.op.name or "matmul" in n.op.name]
    forward = [n.op.name for n in r.region.forward.nodes if "mm" in n.op.name or "matmul" in n.op.name]
    assert len(forward) == 2 and len(matmuls) == 3  # none is computed again


def test_same_tensor_twice_and_input_returned(options):
    x = T(3)
    r = trace_region(lambda x: (x * 2, x), x, options=options)
    a, b = r(x)
    assert b is x

    def f(x):
        y = x * 2
        return y, y

    a, b = trace_region(f, x, options=options)(x)
    assert a is b


def test_views_of_inputs_and_results_are_views(options):
    def f(x):
        y = x + 1
        return x.transpose(0, 1), y, y.transpose(0, 1), y.detach()

    x = T(3, 4)
    a, y, yt, yd = trace_region(f, x, options=options)(x)
    assert np.shares_memory(a.numpy(), x.numpy()) and a.stride() == (1, 4)
    assert np.shares_memory(y.numpy(), yt.numpy()) and np.shares_memory(y.numpy(), yd.numpy())
    y.add_(1)
    assert yt._version == 1
    check(f, T(3, 4, rg=True), options=options)


def test_results_have_the_layout_of_eager(options):
    def f(x, y):
        a = x.transpose(0, 2) + 1
        return a, a * y, (x.permute(1, 0, 2) * 2) - y.sum(), x.transpose(0, 1).exp()[0]

    x, y = T(2, 3, 4, rg=True), T(4, 3, 2)
    compiled = check(f, x, y, options=options)
    for a, b in zip(compiled(x, y), f(x, y), strict=True):
        assert a.stride() == b.stride()


def test_mutated_input(options):
    def f(x, y):
        x.mul_(2)
        y = y + x
        x.add_(y)
        return y

    check(f, T(3, 4), T(3, 4), options=options)
    x = T(3)
    trace_region(f, x, T(3), options=options)(x, T(3))
    assert x._version > 0


def test_mutation_through_a_view(options):
    def f(x):
        x[0].mul_(3)
        x.transpose(0, 1)[1].copy_(x[:, 0])
        return x.sum()

    check(f, T(3, 3), options=options)


def test_mutated_input_gets_history(options):
    def f(x, w):
        x.mul_(w)
        return x.sum() * 1.0

    r = trace_region(f, T(3), T(3, rg=True), options=options)
    for _ in range(2):
        x, w, x2, w2 = T(3), T(3, rg=True), T(3), T(3, rg=True)
        a, b = r(x, w), f(x2, w2)
        close(a, b)
        close(x, x2)
        (a + (x * x).sum()).backward()
        (b + (x2 * x2).sum()).backward()
        close(w.grad, w2.grad)


def test_mutated_non_leaf_input(options):
    def f(x, w):
        x.mul_(w)
        return x.sum()

    def run(g):
        leaf, w = T(3, rg=True, seed=1), T(3, rg=True, seed=2)
        x = leaf * 2
        out = g(x, w)
        (out * 2 + x.sum()).backward()
        return leaf.grad, w.grad

    compiled = trace_region(f, T(3, rg=True) * 2, T(3, rg=True), options=options)
    for a, b in zip(run(compiled), run(f), strict=True):
        close(a, b)


def test_mutated_leaf_is_refused(options):
    with pytest.raises(RuntimeError, match="leaf"):
        trace_region(lambda x: x.mul_(2), T(3, rg=True), options=options)


def test_update_under_no_grad(options):
    def f(w, x):
        loss = (w * x).sum()
        with fg.no_grad():
            w.sub_(x * 0.1)
        return loss.detach() * 1

    check(f, T(3, rg=True), T(3), options=options, order=1)


def test_backward_inside(options):
    def f(w, x):
        loss = ((w * x).tanh() ** 2).sum()
        (g,) = fg.autograd.grad(loss, w)
        with fg.no_grad():
            w.sub_(g * 0.1)
        return loss.detach()

    check(f, T(3, rg=True), T(3), options=options, order=1)


def test_loss_whose_graph_was_freed_inside(options):
    def f(w):
        loss = (w * w).sum()
        loss.backward()
        return loss

    w = T(3, rg=True)
    loss = trace_region(f, T(3, rg=True), options=options)(w)
    assert loss.requires_grad and loss.grad_fn is not None
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_in_place_on_intermediate(options):
    def f(x):
        y = x * 2
        y[1:].mul_(3)
        y.add_(x)
        return y

    check(f, T(4, rg=True), options=options)


def test_second_backward_raises_and_retain_works(options):
    r = trace_region(lambda x: (x * x).sum(), T(3, rg=True), options=options)
    x = T(3, rg=True)
    out = r(x)
    out.backward(retain_graph=True)
    out.backward()
    close(x.grad, x.detach() * 4)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_changed_saved_input_raises(options):
    r = trace_region(lambda x, y: (x * y).sum(), T(3, rg=True), T(3), options=options)
    x, y = T(3, rg=True), T(3)
    out = r(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_input_that_eager_does_not_save_may_change(options):
    def f(x, y):
        return ((x + y) * 3).exp().sum()

    r = trace_region(f, T(3, rg=True), T(3), options=options)
    x, y, x2, y2 = T(3, rg=True), T(3), T(3, rg=True), T(3)
    a, b = r(x, y), f(x2, y2)
    y.add_(1)
    y2.add_(1)
    a.backward()
    b.backward()
    close(x.grad, x2.grad)


def test_unused_cotangents_and_partial_outputs(options):
    r = trace_region(lambda x, y: (x * y, (x + y).sin()), T(3, rg=True), T(3, rg=True), options=options)
    x, y = T(3, rg=True), T(3, rg=True)
    a, b = r(x, y)
    b.sum().backward()
    x2, y2 = T(3, rg=True), T(3, rg=True)
    (x2 + y2).sin().sum().backward()
    close(x.grad, x2.grad)
    close(y.grad, y2.grad)


def test_no_grad_call_and_frozen_input(options):
    r = trace_region(lambda x, y: x * y, T(3, rg=True), T(3, rg=True), options=options)
    x, y = T(3, rg=True), T(3, rg=True)
    with fg.no_grad():
        assert not r(x, y).requires_grad


def test_integer_and_bool_outputs(options):
    def f(x):
        return x > 0, x.argmax(0), x * 2

    check(f, T(3, 4, rg=True), options=options)


def test_lifted_constant(options):
    c = T(4, seed=9, rg=True)

    def f(x):
        return (x * c).sum()

    r = trace_region(f, T(4, rg=True), options=options)
    x = T(4, rg=True)
    r(x).backward()
    close(x.grad, c.detach())
    close(c.grad, x.detach())


def test_weak_number_input(options):
    builder = GraphBuilder("f")
    x = builder.new_input(Meta((3,), fg.float32))
    lr = builder.new_input(Meta((), fg.float32, weak=True))
    out = x * (lr * 2) + 1
    assert out.dtype is fg.float32
    region = build_region(builder, [x, lr], [out], options=options)
    t = T(3)
    for number in (0.5, 3):
        np.testing.assert_allclose(region(t, number)[0].numpy(), t.numpy() * 2 * number + 1, rtol=1e-6)


@pytest.mark.parametrize("grad", [False, True])
def test_symbolic_sizes(options, grad):
    ctx = SizeContext()
    B = ctx.symbol("B", 5)

    def f(x, w):
        h = (x @ w).tanh()
        return h.sum(0) / x.shape[0], h.reshape(-1)

    x, w = T(5, 4, rg=grad), T(4, 3, rg=grad)
    r = trace_region(f, x, w, options=options, sizes=ctx, metas=[Meta((B, 4), fg.float32), Meta((4, 3), fg.float32)])
    assert not ctx.guards
    for n in (5, 1, 0, 7):
        a, b = [T(n, 4, rg=grad), w], [T(n, 4, rg=grad), w]
        with np.errstate(all="ignore"):
            out, ref = r(*a), f(*b)
            for p, q in zip(out, ref, strict=True):
                close(p, q)
            for p, q in zip(grads(out, a), grads(ref, b), strict=True):
                close(p, q)
            if grad and n:
                for p, q in zip(second(r(*a), a), second(f(*b), b), strict=True):
                    np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-4, atol=2e-5)


def test_size_parameter(options):
    ctx = SizeContext()
    n = ctx.symbol("n", 4, 1)
    builder = GraphBuilder("f", ctx)
    x = builder.new_input(Meta((3,), fg.float32), requires_grad=True)
    out = (x * n).sum() / n
    region = build_region(builder, [x], [out], options=options)
    assert region.size_params == ["n"]
    t = T(3, rg=True)
    (y,) = region(t, 6)
    np.testing.assert_allclose(y.item(), t.detach().numpy().sum(), rtol=1e-5)
    y.backward()
    np.testing.assert_allclose(t.grad.numpy(), np.ones(3), rtol=1e-6)


def test_random_draws_are_those_of_eager(options):
    def f(x):
        mask = fg.rand_like(x) < 0.5
        return x * mask * fg.rand(4)

    r = trace_region(f, T(3, 4, rg=True), options=options)
    for _ in range(2):
        x, y = T(3, 4, rg=True), T(3, 4, rg=True)
        fg.manual_seed(5)
        a = r(x)
        state = fg.default_generator.state
        fg.manual_seed(5)
        b = f(y)
        assert fg.default_generator.state == state
        close(a, b)
        a.sum().backward()
        b.sum().backward()
        close(x.grad, y.grad)


def test_dropout(options):
    def f(x):
        return fg.nn.functional.dropout(x.tanh(), 0.4, True) * 2

    r = trace_region(f, T(30, 4, rg=True), options=options)
    x, y = T(30, 4, rg=True), T(30, 4, rg=True)
    fg.manual_seed(5)
    a = r(x)
    fg.manual_seed(5)
    b = f(y)
    close(a, b)
    a.sum().backward()
    b.sum().backward()
    close(x.grad, y.grad)


def test_double_backward_with_random_numbers(options):
    def f(x):
        return (x * fg.rand(3)) ** 3

    r = trace_region(f, T(3, rg=True), options=options)
    x, y = T(3, rg=True), T(3, rg=True)
    fg.manual_seed(1)
    a = r(x)
    fg.manual_seed(1)
    b = f(y)
    for p, q in zip(second((a,), (x,)), second((b,), (y,)), strict=True):
        close(p, q)


def test_third_order(options):
    r = trace_region(lambda x: (x**4).sum(), T(3, rg=True), options=options)
    x = T(3, rg=True)
    g = r(x)
    for _ in range(3):
        (g,) = fg.autograd.grad(g.sum(), x, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), 24 * x.detach().numpy(), rtol=1e-5)


def test_region_text_and_key(options):
    f = lambda x: (x * 2).tanh().sum()  # noqa: E731
    a = trace_region(f, T(3, rg=True), options=options).region
    b = trace_region(f, T(3, rg=True), options=options).region
    c = trace_region(f, T(4, rg=True), options=options).region
    assert a.key() == b.key() != c.key()
    text = a.text()
    assert "# backward" in text and "def call(" in text and "test_region.py" in text


def test_symbolic_view_of_input(options):
    ctx = SizeContext()
    B = ctx.symbol("B", 5)

    def f(x):
        return x.view(-1, 2), x + 1

    x = T(5, 4, rg=True)
    r = trace_region(f, x, options=options, sizes=ctx, metas=[Meta((B, 4), fg.float32)])
    for n in (3, 8):
        x = T(n, 4, rg=True)
        v, y = r(x)
        assert tuple(v.shape) == (n * 2, 2) and np.shares_memory(v.numpy(force=True), x.numpy(force=True))
        (v.sum() * 2 + y.sum()).backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full((n, 4), 3, np.float32))


def test_saved_tensor_hooks(options):
    r = trace_region(lambda x, w: (x * w).exp().sum(), T(3, rg=True), T(3, rg=True), options=options)
    log = []

    def pack(t):
        log.append("pack")
        return t.numpy(force=True).copy()

    def unpack(a):
        log.append("unpack")
        return wrap(a)

    x, w = T(3, rg=True), T(3, rg=True, seed=1)
    with fg.autograd.graph.saved_tensors_hooks(pack, unpack):
        out = r(x, w)
    out.backward()
    assert "pack" in log and log.count("pack") == log.count("unpack")
    np.testing.assert_allclose(x.grad.numpy(), (w * (x * w).exp()).detach().numpy(), rtol=1e-5)


def test_nothing_is_kept_alive(options):
    import gc
    import weakref

    r = trace_region(lambda x, w: (x * w).exp().sum(), T(3, rg=True), T(3, rg=True), options=options)
    gc.disable()
    try:
        x, w = T(3, rg=True), T(3, rg=True)
        out = r(x, w)
        node, held = weakref.ref(out.grad_fn), weakref.ref(x)
        out.backward()
        kept = (out.grad_fn.saved, out.grad_fn.held)
        del out, x
        gone = node() is None and held() is None
        assert kept == (None, None) and gone
    finally:
        gc.enable()


def test_threads_compile_the_backward_once(options):
    import threading

    r = trace_region(lambda x: (x * x).sin().sum(), T(50, rg=True), options=options)
    errors = []

    def work(seed):
        x = T(50, rg=True, seed=seed)
        r(x).backward()
        want = 2 * x.detach() * (x.detach() ** 2).cos()
        try:
            np.testing.assert_allclose(x.grad.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
        except AssertionError as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors


def test_weak_number_and_gradients(options):
    builder = GraphBuilder("f")
    x = builder.new_input(Meta((3,), fg.float32), requires_grad=True)
    t = builder.new_input(Meta((), fg.float32, weak=True))
    region = build_region(builder, [x, t], [((x * t).exp() * (t + 1)).sum()], options=options)
    real = T(3, rg=True)
    for number in (0.5, 2):
        (out,) = region(real, number)
        (g,) = fg.autograd.grad(out, real, create_graph=True)
        (h,) = fg.autograd.grad(g.sum(), real)
        e = np.exp(real.detach().numpy() * number)
        np.testing.assert_allclose(g.detach().numpy(), e * number * (number + 1), rtol=1e-5)
        np.testing.assert_allclose(h.numpy(), e * number**2 * (number + 1), rtol=1e-5)


def test_error_in_a_kernel_changes_nothing(options):
    def f(table, index, counter):
        counter.add_(1)
        return table[index] * counter

    table, index, counter = T(5, 2), wrap(np.array([1, 2])), T(1)
    r = trace_region(f, table, index, counter, options=options)
    before = counter.numpy().copy()
    with pytest.raises(IndexError):
        r(table, wrap(np.array([1, 7])), counter)
    np.testing.assert_array_equal(counter.numpy(), before)
    r(table, index, counter)
    np.testing.assert_array_equal(counter.numpy(), before + 1)


def test_backward_of_a_region_inside_another_graph(options):
    """Library code that meets a region's node while recording: its backward graph becomes part of the recording."""
    r = trace_region(lambda x, w: (x * w).exp().sum(), T(3, rg=True), T(3, rg=True), options=options)
    x, w = T(3, rg=True), T(3, rg=True, seed=1)
    out = r(x, w)
    outer = trace_region(lambda g: fg.autograd.grad(out, (x, w), g)[0] * 2, T(), options=options)
    out = r(x, w)
    want = (w * (x * w).exp()).detach().numpy() * 2
    np.testing.assert_allclose(outer(wrap(np.ones((), np.float32))).numpy(), want, rtol=1e-5)


def test_returned_leaf_made_inside_is_refused():
    def f(x):
        w = fg.ones(3).requires_grad_()
        return x * w, w

    with pytest.raises(NotImplementedError, match="made inside the captured code"):
        trace_region(f, T(3, rg=True))


def test_a_leaf_that_is_reached_by_two_ways() -> None:
    """grad() of the region's own result: one edge leads to the leaf, another to a node above it."""
    x = fg.ones(3).requires_grad_()
    f = fg.compile(lambda a, b: a * b)
    assert fg.autograd.grad(f(x, x * 2), x, fg.ones(3))[0].tolist() == [4.0] * 3
