"""The rules of the dynamic graph: leaves, accumulation, freeing, versions, views, in-place, hooks, modes, Functions."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import fusegrad as fg


def leaf(*values: float) -> fg.Tensor:
    return fg.tensor(list(values), requires_grad=True)


def same(t, want) -> None:
    np.testing.assert_allclose(t.detach().numpy(), want, rtol=1e-6)


def test_leaf_and_grad_fn() -> None:
    x = leaf(1.0, 2.0)
    assert x.is_leaf and x.grad_fn is None
    y = x * 2
    assert not y.is_leaf and y.grad_fn.name() == "MulBackward0" and y.requires_grad
    assert y.grad_fn.next_functions[0][0].variable is x
    assert not (fg.ones(2) * 2).requires_grad


def test_integer_tensors_refuse_gradients() -> None:
    with pytest.raises(RuntimeError, match="floating point"):
        fg.arange(3).requires_grad_()
    with pytest.raises(RuntimeError, match="floating point"):
        fg.tensor([1, 2], requires_grad=True)


def test_accumulation_and_set_to_none() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * x).sum().backward()
    same(x.grad, [4, 8])
    x.grad = None
    (x * 3).sum().backward()
    same(x.grad, [3, 3])


def test_shared_gradient_is_not_shared_memory() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).sum().backward()
    x.grad.mul_(10)
    same(y.grad, [1, 1])


def test_user_gradient_is_not_taken_over() -> None:
    x, g = leaf(1.0, 2.0), fg.tensor([1.0, 1.0])
    x.clone().backward(g)
    x.grad.mul_(5)
    same(g, [1, 1])


def test_gradients_own_their_memory() -> None:
    """A ``.grad`` shares memory with no other tensor: another leaf's, a hook's, a custom Function's, a retained one."""
    kept = []
    mine = fg.tensor([1.0, 1.0])

    class Mine(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return mine

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x + y).mul(2).sum().backward()
    x.grad.mul_(5)
    same(y.grad, [2, 2])
    a, b, c = leaf(1.0, 2.0), leaf(1.0, 2.0), leaf(1.0, 2.0)
    a.register_hook(lambda g: kept.append(g))
    b.register_hook(lambda g: mine)
    h = c.clone()
    h.retain_grad()
    (a * 2 + b * 2 + h * 3 + Mine.apply(leaf(1.0, 2.0))).sum().backward()
    z = leaf(1.0, 2.0)
    Mine.apply(z).sum().backward()
    for t in (a, b, c, z):
        t.grad.mul_(7)
    same(kept[0], [2, 2])
    same(mine, [1, 1])
    same(h.grad, [3, 3])


def test_backward_into_an_inner_tensor() -> None:
    x = leaf(1.0, 2.0)
    h = x * 2
    (h * 3).sum().backward(inputs=[h])
    same(h.grad, [3, 3])
    k = x * 2
    k.retain_grad()
    (k * 3).sum().backward(inputs=[k])
    same(k.grad, [3, 3])
    assert x.grad is None


def test_backward_errors() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        fg.ones(2).sum().backward()
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(fg.ones(3))
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    same(x.grad, [2, 4])


def test_error_on_the_way_changes_no_gradient() -> None:
    x, w = leaf(1.0, 2.0), leaf(1.0, 1.0)
    h = x * w

    def boom(g):
        raise ValueError("boom")

    h.register_hook(boom)
    with pytest.raises(ValueError, match="boom"):
        (h + w).sum().backward()
    assert x.grad is None and w.grad is None
    (x * w).sum().backward()
    same(x.grad, [1, 1])


def test_saved_tensors_die_without_the_collector() -> None:
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        mid = x * 3
        ref = weakref.ref(mid)
        loss = (mid * mid).sum()
        del mid
        assert ref() is not None
        loss.backward()
        assert ref() is None
    finally:
        gc.enable()


def test_training_makes_no_cycles() -> None:
    w = fg.ones(4, 4, requires_grad=True)

    def step():
        loss = fg.tanh(fg.ones(2, 4) @ w).exp().sum()
        loss.backward()
        w.grad = None

    step()  # operators' functions are generated at their first call
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            step()
        gc.set_debug(gc.DEBUG_SAVEALL)  # what only the collector can free; the test runner has cycles of its own
        gc.collect()
        ours = [x for x in gc.garbage if issubclass(type(x), (fg.Tensor, fg.autograd.graph.Node, np.ndarray))]
        assert ours == []
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("n", [200_000])
def test_deep_chains(n: int) -> None:
    x = leaf(1.0)
    h = x
    for _ in range(n):
        h = h * 1.0
    h.sum().backward()
    same(x.grad, [1.0])
    h = x
    for _ in range(n):
        h = h * 1.0 + 0.0
    del h


def test_higher_orders() -> None:
    x = fg.tensor(2.0, requires_grad=True, dtype=fg.float64)
    y = x**4
    for want in (32.0, 48.0, 48.0, 24.0):
        (y,) = fg.autograd.grad(y, x, create_graph=True)
        assert abs(y.item() - want) < 1e-9


def test_grad_touches_no_grad() -> None:
    x = leaf(1.0, 2.0)
    (g,) = fg.autograd.grad((x * x).sum(), x)
    assert x.grad is None
    same(g, [2, 4])


def test_grad_of_non_leaf_and_inputs_argument() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    h = x * w
    (g,) = fg.autograd.grad((h * h).sum(), h)
    same(g, [6, 16])
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    same(w.grad, [1, 2])


# ---- versions, views, in-place


def test_in_place_on_saved_input_is_detected() -> None:
    x = leaf(1.0, 2.0)
    h = x * 1
    y = h * h
    h.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_views_share_versions_and_memory() -> None:
    t = fg.zeros(2, 3)
    v = t.view(6)
    v[0] = 5
    assert t[0, 0].item() == 5 and t._version == v._version == 1
    assert t.data_ptr() == v.data_ptr() and v._base is t


def test_in_place_on_view_rewrites_history_of_the_base() -> None:
    x = fg.ones(2, 3, requires_grad=True)
    b = x * 2
    row = b[0]
    row.mul_(10)
    assert b.grad_fn.name() == "fusegrad::autograd::CopySlices" and repr(b.grad_fn).startswith("<CopySlices object")
    b.sum().backward()
    same(x.grad, [[20, 20, 20], [2, 2, 2]])


def test_views_made_before_follow_the_base() -> None:
    x = leaf(1.0, 2.0, 3.0)
    b = x * 1
    v = b[1:]
    b.mul_(3)
    v.sum().backward()
    same(x.grad, [0, 3, 3])


def test_in_place_with_gradient_on_plain_tensor() -> None:
    x = leaf(2.0, 3.0)
    t = fg.zeros(2)
    t += x
    t *= x
    t.sum().backward()
    same(x.grad, [4, 6])


def test_in_place_refusals() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="leaf"):
        x += 1
    with pytest.raises(RuntimeError, match="leaf"):
        x[:1].zero_()
    e = fg.zeros(1).expand(4)
    with pytest.raises(RuntimeError, match="clone"):
        e.add_(1)
    with pytest.raises(RuntimeError, match="can't be cast"):
        fg.arange(3).add_(0.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        fg.zeros(1).add_(fg.zeros(3))
    same(x, [1, 2])


def test_detach_shares_and_counts() -> None:
    x = leaf(1.0, 2.0)
    y = x * 1
    s = y * y
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="inplace"):
        s.sum().backward()


# ---- hooks


def test_hooks_order_and_removal() -> None:
    seen = []
    x = leaf(1.0, 2.0)
    y = x * 2
    h = y.register_hook(lambda g: seen.append("first") or g * 2)
    y.register_hook(lambda g: seen.append("second"))
    x.register_hook(lambda g: seen.append("leaf"))
    x.register_post_accumulate_grad_hook(lambda t: seen.append("after"))
    y.sum().backward()
    assert seen == ["first", "second", "leaf", "after"]
    same(x.grad, [4, 4])
    h.remove()
    x.grad = None
    (x * 2).sum().backward()
    same(x.grad, [2, 2])


def test_node_hooks() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 3,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] + 1, *gi[1:]))
    y.sum().backward()
    same(x.grad, [7, 7])


def test_retain_grad() -> None:
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    (y * y).sum().backward()
    same(y.grad, [4, 8])
    assert y.retains_grad


def test_saved_tensor_hooks() -> None:
    packed = []

    def pack(t):
        packed.append(t)
        return t.numpy() if not t.requires_grad else t.detach().numpy()

    x = leaf(1.0, 2.0)
    with fg.autograd.graph.saved_tensors_hooks(pack, fg.from_numpy):
        y = x.exp() * x
    y.sum().backward()
    assert len(packed) >= 2
    same(x.grad, np.exp([1, 2]) * [2, 3])


# ---- modes


def test_modes_nest_and_decorate() -> None:
    x = leaf(1.0)
    with fg.no_grad():
        assert not (x * 2).requires_grad
        with fg.enable_grad():
            assert (x * 2).requires_grad
        assert not fg.is_grad_enabled()

    @fg.no_grad()
    def f(a):
        return a * 2

    @fg.no_grad
    def g(a):
        yield a * 2

    assert not f(x).requires_grad and not next(g(x)).requires_grad and fg.is_grad_enabled()
    with fg.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_modes_are_local_to_a_thread() -> None:
    got = []
    with fg.no_grad():
        t = threading.Thread(target=lambda: got.append(fg.is_grad_enabled()))
        t.start()
        t.join()
    assert got == [True]


def test_inference_mode() -> None:
    x = leaf(1.0)
    with fg.inference_mode():
        y = x * 2
        assert y.is_inference() and not y.requires_grad
        y.add_(1)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        (x * y).sum()
    with pytest.raises(RuntimeError, match="inference tensor"):
        y.add_(1)


def test_threads_accumulate_without_loss() -> None:
    w = fg.zeros(1000, requires_grad=True)

    def work():
        for _ in range(50):
            (w * 1.0).sum().backward()

    ts = [threading.Thread(target=work) for _ in range(4)]
    [t.start() for t in ts]
    [t.join() for t in ts]
    same(w.grad, np.full(1000, 200.0))


# ---- custom Functions


class Cube(fg.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * g * x * x


def test_function_with_setup_context_and_double_backward() -> None:
    x = fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)
    assert fg.autograd.gradcheck(Cube.apply, (x,)) and fg.autograd.gradgradcheck(Cube.apply, (x,))


def test_straight_through() -> None:
    class Step(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return (x > 0).float()

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(-1.0, 2.0)
    Step.apply(x).sum().backward()
    same(x.grad, [1, 1])


def test_function_mark_dirty_and_non_differentiable() -> None:
    class Double(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0, 2.0)
    h = x * 1
    out = Double.apply(h)
    assert out is h
    out.sum().backward()
    same(x.grad, [2, 2])


def test_anomaly_mode_shows_the_forward_line() -> None:
    x = fg.tensor([0.0], requires_grad=True)
    with fg.autograd.detect_anomaly():
        y = (x * 0).sqrt() * 0  # the line to show
        with pytest.raises(RuntimeError, match="the line to show"):
            y.sum().backward()


def test_results_are_printed_after_their_graph_was_freed():
    """Names of nodes that look at what is saved do without it."""
    x = fg.tensor([0.5, 2.0], requires_grad=True)
    for y in (x.abs() ** 0.3, 2.0**x, x**x, x @ x, x[None] @ x[:, None], x[None] @ x):
        y.sum().backward()
        assert "grad_fn=<" in repr(y)


def test_an_input_named_twice_gets_one_gradient():
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    for create in (False, True):
        a, b = fg.autograd.grad((x * x).sum(), [x, x], create_graph=create)
        assert a is b and a.tolist() == [2.0, 4.0]
