"""Kinds of faults that the fuzzer found last (see test_fuzz_faults.py for the first)."""

import copy

import numpy as np
import pytest

import fusegrad as T
import fusegrad.nn.functional as F

BOTH = pytest.mark.parametrize("options", [{}, {"interpret": True}], ids=["kernels", "interpreter"])


def filled(x):
    w = x.data
    w.fill_(1.0)
    return (w,)


def views_of_it(x):
    w = x.data
    v = w[1:]
    w.fill_(1.0)
    return w, v, w.detach()


def unchanged(x):
    return x.data.data, x.data, x.detach()


def of_a_result(x):
    y = x * 2
    w = y.data
    w.mul_(3)
    w.mul_(2)
    y.add_(1)
    return y, w, y[1:], w[1:]


def changed_beside(x):
    w = x.data
    x.detach().mul_(2)
    return w, x.detach(), w[:1]


def with_a_history(x):
    w = x.data
    w.mul_(T.ones(2, requires_grad=True))
    w.add_(1)
    return w, x


def moved(x):
    v = x[1:]
    x.data = x.data * 2
    return v, x, x[1:]


def of_a_part(x):
    x[1:].data.mul_(2)
    return (x[1:].data,)


@pytest.mark.parametrize("history", [False, True])
@pytest.mark.parametrize(
    "f", [filled, views_of_it, unchanged, of_a_result, changed_beside, with_a_history, moved, of_a_part]
)
def test_what_comes_from_data_counts_its_changes_apart(f, history):
    seen = []
    for g in (f, T.compile(f)):
        x = T.tensor([1.0, 2.0], requires_grad=history)
        x = x * 1 if history else x
        outs = g(x)
        steps = [[t._version for t in (x, *outs)]]
        for out in outs:
            with T.no_grad():
                out.add_(1)
            steps.append([t._version for t in (x, *outs)])
        seen.append((steps, [t.requires_grad for t in outs], [t.tolist() for t in outs]))
    assert seen[0] == seen[1]


IN_NAME_ONLY = {
    "avg_pool1d": lambda x: F.avg_pool1d(x.view(1, 1, 4), 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.view(1, 1, 4), 2),
    "reflect": lambda x: F.pad(x.view(1, 1, 4), (1, 1), mode="reflect"),
    "nll_loss": lambda x: F.nll_loss(x.view(2, 2), T.tensor([0, 1])),
    "hessian": lambda x: T.func.hessian(lambda u: (u**3).sum())(x),
}


@BOTH
@pytest.mark.parametrize("name", IN_NAME_ONLY)
def test_a_gradient_that_depends_on_its_input_in_name_requires_one(name, options):
    f = IN_NAME_ONLY[name]
    seen = []
    for g in (f, T.compile(f, options=options)):
        x = T.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        (first,) = T.autograd.grad((g(x) * 0.5).sum(), x, create_graph=True)
        (second,) = T.autograd.grad(first.sum(), x)
        seen.append((first.tolist(), first.requires_grad, second.tolist()))
    assert seen[0] == seen[1] and seen[0][1] and not any(seen[0][2])


@BOTH
def test_second_derivatives_of_an_expanded_input(options):
    seen = []
    for g in (T.prod, T.compile(T.prod, options=options)):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        (first,) = T.autograd.grad(g(x.unsqueeze(1).expand(-1, 3)), x, create_graph=True)
        first.pow(2).sum().backward()
        seen.append((first.tolist(), x.grad.tolist()))
    assert seen[0] == seen[1] == ([24.0, 12.0], [3168.0, 2016.0])


@BOTH
def test_data_set_after_the_call_and_before_a_differentiated_backward(options):
    """What eager code kept in between is gone: refused, unless the gradient needs none of it."""

    def gradients(f, create_graph):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = f(x)
        x.data = T.tensor([3.0, 4.0])
        (first,) = T.autograd.grad(y.sum(), x, create_graph=create_graph)
        if create_graph:
            first.sum().backward()
        return first.tolist(), create_graph and x.grad.tolist()

    def kept(x):
        return (x * 0.5).exp().sin()

    def direct(x):
        return x * x + 2 * x[1:].sum()

    for f in (kept, direct):
        want = gradients(f, False)
        assert gradients(T.compile(f, options=options), False)[0] == pytest.approx(want[0], rel=1e-5)
    assert gradients(T.compile(direct, options=options), True) == gradients(direct, True)
    with pytest.raises(RuntimeError, match="`.data` of input 0 of compiled code was set"):
        gradients(T.compile(kept, options=options), True)


@BOTH
def test_hooks_that_run_before_a_backward_fails(options):
    def f(x, y):
        x.copy_((x.unsqueeze(1) * y).sum(1))
        later = x * 2
        return x, later

    for g in (f, T.compile(f, options=options)):
        log = []
        x, y = T.ones(2, requires_grad=True) * 1, T.ones(2, requires_grad=True)
        x, later = g(x, y)
        later.register_hook(lambda g, log=log: log.append("later"))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            (x.sum() + later.sum()).backward()
        assert log == ["later"]


@pytest.mark.parametrize("name", ["add", "maximum", "atan2", "lt", "true_divide"])
def test_an_expanded_operand_of_another_dtype_has_no_say_in_the_layout(name):
    f = getattr(T, name)
    turned = T.tensor([1.0, 2.0]).unsqueeze(1).expand(-1, 3).t()
    y = T.tensor([1.0, 2.0], dtype=T.float64)
    for a, b in ((turned, y), (y, turned), (turned, turned.double())):
        assert f(a, b).stride() == T.compile(f)(a, b).stride() == (2, 1)


def in_inference(x):
    made = T.control.scan(lambda c, a: (c + a, c * 2), T.zeros(()), x)
    chosen = T.cond(x.sum() > 0, lambda u: u * 2, lambda u: u - 1, (x,))
    looped = T.while_loop(lambda k, u: k < 2, lambda k, u: (k + 1, u * 2), (T.tensor(0), x))
    return *made, chosen, *looped, T.control.map(lambda a: a + 1, x), copy.deepcopy(x), copy.copy(x)


@pytest.mark.parametrize("mode", [T.inference_mode, T.no_grad])
def test_control_flow_and_copies_are_marked_by_the_mode_they_are_made_in(mode):
    x = T.ones(3)
    with mode():
        want = [t.is_inference() for t in in_inference(x)]
        assert want[:-1] == [mode is T.inference_mode] * 7 and not want[-1]  # copy.copy gives the same memory
        assert [t.is_inference() for t in T.compile(in_inference)(x)] == want


DETACHED = {
    "expanded": lambda x: x.detach().expand(2, -1),
    "a part": lambda x: x.detach()[:1],
    "reshaped": lambda x: x.detach().view(-1),
    "a view of data": lambda x: x.data.view(-1),
    "a part of x": lambda x: x[:1],
    "detached": lambda x: x[:1].detach(),
}


@pytest.mark.parametrize("mode", [T.no_grad, T.enable_grad, T.inference_mode])
def test_views_of_what_is_detached_need_no_gradient(mode):
    for f in DETACHED.values():
        g = T.compile(f, options={"interpret": True})
        for x in (T.ones(2, requires_grad=True), T.ones(2, requires_grad=True) * 1):
            with mode():
                want, got = f(x), g(x)
            assert (got.requires_grad, got.is_leaf) == (want.requires_grad, want.is_leaf)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("read", [True, False])
def test_starts_of_narrow_that_leave_the_range(dynamic, read):
    def f(x, n):
        y = x.narrow(0, n, 1)
        return y if read else x + 1

    g = T.compile(f, dynamic=dynamic, options={"interpret": True})
    for m, n in ((3, 1), (4, 2), (0, -1), (5, -6), (5, 6), (5, -5), (5, 5), (0, 0)):
        found = []
        for h in (f, g):
            try:
                found.append(h(T.arange(float(m)), n).tolist())
            except (IndexError, RuntimeError) as e:
                found.append((type(e), str(e)))
        assert found[0] == found[1]


def test_what_negative_strides_that_are_changed_in_place_give():
    def f(x):
        x.mul_(2)
        return x * 1, x.clone(), x.relu()

    for make in (lambda a: a[::-1, ::-1], lambda a: a[:, ::-1], lambda a: a[::-1].T):
        a, b = (T.from_numpy(make(np.arange(6.0).reshape(2, 3))) for _ in range(2))
        for want, got in zip(f(a), T.compile(f, options={"interpret": True})(b), strict=True):
            assert got.stride() == want.stride() and T.equal(got, want)


def test_deep_copies_keep_their_layout():
    f = T.compile(lambda x: copy.deepcopy(x))
    for x in (T.ones(1).expand(4), T.arange(8.0)[::2], T.arange(4.0), T.arange(6.0).view(2, 3).t()):
        assert f(x).stride() == copy.deepcopy(x).stride() and T.equal(f(x), x)


@pytest.mark.parametrize("dynamic", [True, None])
def test_draws_for_each_example_of_a_size_that_changes(dynamic):
    def f(x):
        return T.func.vmap(lambda u: u * T.rand(1), randomness="different")(x)

    g = T.compile(f, dynamic=dynamic)
    for n in (3, 4, 5):
        found = []
        for h in (f, g):
            T.manual_seed(n)
            found.append(h(T.ones(n)).tolist() + T.rand(1).tolist())
        assert found[0] == found[1]


@pytest.mark.parametrize("name", ["argmin", "argmax", "amin", "amax"])
def test_extrema_of_nothing_that_nobody_reads(name):
    def f(x):
        getattr(T, name)(x)
        return x + 1

    for first in (T.ones(3), T.ones(0)):
        g = T.compile(f, dynamic=True)
        for x in (first, T.ones(0)):
            if len(x):
                assert T.equal(g(x), x + 1)
            else:
                with pytest.raises((IndexError, RuntimeError), match="Expected reduction dim"):
                    g(x)


@pytest.mark.parametrize("order", [(2, 3, 0, 4), (0, 2, 0), (3, 0, 2)], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: F.softmax(x, 0),
        lambda x: F.log_softmax(x.view(-1, 1) + T.zeros(3), 0),
        lambda x: T.logsumexp(x, 0),
        lambda x: T.logsumexp(x.view(-1, 1) + T.zeros(3), (0, 1), keepdim=True),
        lambda x: F.scaled_dot_product_attention(*[x.view(1, -1, 1)] * 3),
        lambda x: F.cross_entropy(x.view(-1, 1) + T.zeros(3), T.zeros(x.shape[0], dtype=T.long)),
    ],
)
@BOTH
def test_softmax_of_nothing_is_no_error(f, order, options):
    """Unlike a maximum of nothing, which it is made with in compiled code; whatever size comes first."""
    T.compiler.reset()
    c = T.compile(f, options=options)
    for n in order:
        with np.errstate(all="ignore"):
            a, b = f(T.arange(float(n))), c(T.arange(float(n)))
        assert a.shape == b.shape and np.allclose(a.numpy(), b.numpy(), atol=1e-6, equal_nan=True)
    assert not T.compiler.stats()["plain_frames"]


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.float16])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_of_inputs_in_another_order_gives_c_order(dtype, dynamic, training):
    """(with running statistics compiled code, and eager float16, kept the order of axes)"""
    for make, shape, axes in (
        (T.nn.BatchNorm1d, (3, 4), (1, 0)),
        (T.nn.BatchNorm1d, (2, 5, 3), (0, 2, 1)),
        (T.nn.BatchNorm2d, (4, 5, 3, 2), (3, 2, 0, 1)),
    ):
        norm = make(3).to(dtype).train(training)
        x = T.randn(*shape).to(dtype).permute(*axes)
        assert T.compile(norm, dynamic=dynamic)(x).is_contiguous() and norm(x).is_contiguous()


def onto_itself(a):
    a.copy_(a)
    return (a + 1,)


def onto_itself_between(a):
    b = a * 2
    b.copy_(b)
    a.mul_(2)
    a.copy_(a)
    return a + 1, b, b.copy_(b)


def part_onto_itself(a):
    b = a[0]
    b.copy_(b)
    return (a + 1,)


@pytest.mark.parametrize("f", [onto_itself, onto_itself_between, part_onto_itself], ids=lambda f: f.__name__)
@BOTH
def test_a_copy_onto_itself_is_a_change(f, options):
    def seen(g, leaf):
        a = T.ones(2, 3, requires_grad=leaf)
        a = a * 1 if leaf else a
        before = a._version
        return [t._version for t in g(a)], a._version - before, a.requires_grad

    for leaf in (False, True):
        assert seen(T.compile(f, options=options), leaf) == seen(f, leaf)


def test_what_was_kept_of_a_copy_onto_itself_is_refused():
    def f(a):
        b = a.exp()
        b.copy_(b)
        return b.sum()

    for g in (f, T.compile(f)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            g(T.ones(2, requires_grad=True)).backward()


def turned(a):
    o = a * 3
    return (o.t_(),)


def turned_twice(a):
    o = a * 3
    o.unsqueeze_(0).transpose_(0, 2)
    return o, a + 1


def turned_with_views(a):
    o = a * 3
    v = o.unsqueeze(0)
    o.t_()
    return v, o, o.unsqueeze(0)


@pytest.mark.parametrize("f", [turned, turned_twice, turned_with_views], ids=lambda f: f.__name__)
@pytest.mark.parametrize("leaf", [False, True])
@BOTH
def test_a_result_turned_in_place_is_no_view(f, leaf, options):
    """Nobody has what it was: it may be detached, and changed as one likes."""

    def seen(g):
        out = g(T.ones(2, 3, requires_grad=leaf))
        found = [(t._is_view(), t._base is None, t.stride(), t._version) for t in out]
        for t in out:
            try:
                t.detach_()
            except RuntimeError as e:
                found.append(str(e))
            t.mul_(T.full(t.shape, 2.0, requires_grad=True))
            found.append([(x.requires_grad, x.tolist()) for x in out])
        return found

    assert seen(T.compile(f, options=options)) == seen(f)


@pytest.mark.not_verified("gradients that autograd.grad gives may have another layout: benchmarks/fuzz.md")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (1, 3)])
def test_recorded_gradients_of_adaptive_means(shape, dynamic):
    """Of a mean over everything they are constants; else they depend on the input in name, also if nothing is pooled
    and the gradient of the result is passed on, or is a constant of the captured code that is seen through views."""
    for size in (1, 2, shape):

        def over_images(x, size=size):
            return F.adaptive_avg_pool2d(x, size)

        def over_rows(x, size=size):
            return F.adaptive_avg_pool1d(x.view(1, 1, -1), shape[0] * shape[1] if type(size) is tuple else size)

        for f in (over_images, over_rows):

            def recorded(x, f=f):
                return T.autograd.grad(f(x).sum(), x, create_graph=True)

            def seen(f, x):
                y = f(x)
                g = y[0] if type(y) is tuple else T.autograd.grad(y.sum(), x, create_graph=True)[0]
                return g.tolist(), g.requires_grad, T.autograd.grad(g.sum(), x)[0].tolist() if g.requires_grad else None

            x = T.ones(1, 1, *shape, requires_grad=True)
            wanted = seen(f, x)
            assert wanted[1] is (f(x).numel() > 1)
            assert seen(T.compile(f, dynamic=dynamic), x) == wanted
            assert seen(T.compile(recorded, dynamic=dynamic), x) == wanted
