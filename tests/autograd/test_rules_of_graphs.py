"""Backward passes: inner inputs, edges, hooks of saved tensors, views changed without recording, dual tensors."""

import pytest

import fusegrad as torch
import fusegrad.autograd.forward_ad as fw
from fusegrad.autograd import graph
from fusegrad.utils.checkpoint import checkpoint, set_checkpoint_early_stop


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_nodes_of_inner_inputs_run_with_their_hooks():
    x = leaf(2.0)
    y = x * 3
    log = []
    y.register_hook(lambda g: log.append("tensor"))
    y.grad_fn.register_prehook(lambda g: log.append("pre"))
    y.grad_fn.register_hook(lambda i, o: log.append("post"))
    (y * y).sum().backward(inputs=[y])
    assert log == ["tensor", "pre", "post"] and y.grad.item() == 12.0 and y.retains_grad and x.grad is None


def test_leaves_get_gradients_in_the_order_they_are_complete():
    for hold in (False, True):
        log = []
        first, last = leaf(1.0), leaf(2.0)
        for name, t in (("first", first), ("last", last)):
            t.register_hook(lambda g, name=name, log=log: log.append(name))
        a = first * 2
        if hold:  # gradients as tensors
            a.register_hook(lambda g: None)
        (a.exp() * last).sum().backward()
        assert log == ["last", "first"]


def test_zeros_of_unused_inputs_and_edges():
    x, y = leaf(1.0), leaf(2.0)
    got = torch.autograd.grad((x * x).sum(), (x, y), create_graph=True, materialize_grads=True)
    assert got[1].item() == 0.0 and got[1].requires_grad and got[1].is_leaf
    assert not torch.autograd.grad((x * x).sum(), (x, y), materialize_grads=True)[1].requires_grad
    with pytest.raises(RuntimeError, match="GradientEdge"):
        torch.autograd.grad((x * x).sum(), (x, graph.get_gradient_edge(y.clone())), materialize_grads=True)


def test_nodes_called_by_hand():
    x = leaf(3.0)
    node = (x * x).grad_fn
    one = torch.ones(1)
    for given in ((), (one, one)):
        with pytest.raises(TypeError, match=f"expected 1 arguments, got {len(given)}"):
            node(*given)
    with pytest.raises(TypeError, match="argument 0 is not a Variable"):
        node(1.0)
    assert [g.item() for g in node(one)] == [3.0, 3.0] and node(None) == (None, None)


def test_refusals_name_what_is_missing():
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        torch.ones(1).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match=r"shape of \w+\.Size\(\[2\]\)"):
        torch.autograd.grad(leaf(1.0) * 2, leaf(1.0), torch.ones(2))


@pytest.mark.parametrize("power, second", [(3, 12.0), (4, 48.0)])
def test_what_hooks_compute_is_no_part_of_the_graph(power, second):
    x = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t * 1):
        y = x**power
        assert y.grad_fn._saved_self.requires_grad
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.autograd.grad(g.sum(), x)[0].item() == second
    tripled = leaf(2.0)
    with graph.saved_tensors_hooks(lambda t: 3 * t, lambda t: t):
        y = tripled**3
    (g,) = torch.autograd.grad(y.sum(), tripled, create_graph=True)
    assert torch.autograd.grad(g.sum(), tripled)[0].item() == 36.0  # 6 * (3 * 2): the hook's 3 is no factor again


def test_unpacked_tensors_keep_their_history():
    x = leaf(2.0)
    y = x * 2
    with graph.saved_tensors_hooks(lambda t: t.detach().numpy().copy(), torch.from_numpy):
        z = y * y
        e = y.exp()
    assert z.grad_fn._saved_self.grad_fn is y.grad_fn and e.grad_fn._saved_result.grad_fn is e.grad_fn
    fixed = torch.ones(1)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        w = x * fixed
    assert w.grad_fn._saved_other is fixed


def test_raw_saved_tensors_show_what_they_hold():
    x = leaf(2.0)
    y = x * x
    e = x.exp()
    raw = y.grad_fn._raw_saved_self
    assert raw.data is x and raw.unpack_hook is None
    assert not e.grad_fn._raw_saved_result.data.requires_grad

    def back(kept):
        return kept[0]

    raw.register_hooks(lambda t: [t, "note"], back)
    assert raw.data[1] == "note" and raw.unpack_hook is back


@pytest.mark.parametrize(
    "name", ["transpose_", "swapaxes_", "swapdims_", "t_", "squeeze_", "unsqueeze_", "as_strided_"]
)
def test_views_seen_otherwise_without_recording(name):
    given = {"t_": (), "squeeze_": (0,), "unsqueeze_": (0,), "as_strided_": ((3, 2), (1, 3))}.get(name, (0, 1))
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    v = y.view(2, 3)
    with torch.no_grad():
        getattr(v, name)(*given)
    v.mul_(2)
    (y * torch.arange(6.0).view(2, 3)).sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
    first = (x * 1).unbind()[0]
    with torch.no_grad():
        first.unsqueeze_(0)
    with pytest.raises(RuntimeError, match="returns multiple views"):
        first.add_(1)


def test_a_view_without_history_prints():
    x = leaf(1.0)
    with torch.no_grad():
        v = x[:]
        v *= 2
    assert repr(v) == "tensor([2.], grad_fn=<Invalid>)" and repr(x) == "tensor([2.], requires_grad=True)"


@pytest.mark.parametrize(
    "divide",
    [lambda t: t.unsafe_chunk(2), lambda t: t.unsafe_split(1), lambda t: t.unsafe_split_with_sizes((1, 1))],
)
def test_pieces_that_may_be_changed(divide):
    x = leaf(3.0, 5.0)
    a, b = divide(x * 2)
    a.mul_(b)
    a.sum().backward()
    assert x.grad.tolist() == [20.0, 12.0]


def test_a_checkpoint_may_differentiate_inside():
    def inner(x):
        with torch.enable_grad():
            y = checkpoint(torch.sin, x, use_reentrant=False)
            return torch.autograd.grad(y * y, x, create_graph=True)[0]

    for stop in (False, True):
        x = torch.tensor(0.7, requires_grad=True)
        with set_checkpoint_early_stop(stop):
            checkpoint(inner, x, use_reentrant=False).backward()
        assert x.grad.item() == pytest.approx(2 * torch.cos(2 * x).item())


def test_checkpoints_save_arguments_themselves():
    seen = []

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(y)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.saved_tensors[0])
            return g, None

    y = torch.ones(1)
    checkpoint(Keeps.apply, leaf(1.0), y, use_reentrant=False).backward(torch.ones(1))
    assert seen[0] is y


def test_dual_tensors_end_with_their_level():
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(2), torch.full((2,), 3.0))
        assert repr(dual) == "tensor([1., 1.], tangent=tensor([3., 3.]))"
        with pytest.raises(RuntimeError, match="itself has a forward gradient"):
            fw.make_dual(torch.ones(2), dual)
        cut = dual.clone()
        cut.detach_()
        assert fw.unpack_dual(cut * 2).tangent is None and fw.unpack_dual(dual).tangent is not None
        for given, out in ((dual, torch.ones(2)), (torch.ones(2), dual)):
            with pytest.raises(NotImplementedError, match="out="):
                torch.add(given, given, out=out)
    assert repr(dual) == "tensor([1., 1.])" and fw.unpack_dual(dual).tangent is None


def test_multithreading_is_a_setting():
    asked, setting = torch.autograd.is_multithreading_enabled, torch.autograd.set_multithreading_enabled
    assert asked()
    with setting(False):
        assert not asked()
        setting(True)
        assert asked()
    assert asked()
    assert setting(False)(asked)() is False and asked()
    setting(False)
    assert not asked()
    setting(True)


def test_changes_of_inference_tensors_are_not_counted():
    with torch.inference_mode():
        t = torch.ones(1)
    n = torch.ones(1)
    graph.increment_version([t, n])
    assert n._version == 1


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_tells_what_is_wrong(fast):
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    check = torch.autograd.gradcheck
    with pytest.raises(AssertionError, match="same shape"):
        check(lambda x: torch.cat([x, x]) if (x >= 1).all() else x, x, fast_mode=fast)
    with pytest.raises(AssertionError, match="same dtype"):
        check(lambda x: x.float() if (x >= 1).all() else x, x, fast_mode=fast)

    class Random(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * (1 + 1e-8 * torch.rand_like(g))

    with pytest.raises(RuntimeError, match="not reentrant"):
        check(Random.apply, x, fast_mode=fast)
    assert check(Random.apply, x, fast_mode=fast, nondet_tol=1e-6)


@pytest.mark.parametrize("nothing", [None, ()])
def test_transforms_want_an_output(nothing):
    from fusegrad import func

    x = torch.ones(2)

    def f(x):
        return nothing

    for call in (
        lambda: func.vjp(f, x),
        lambda: func.jvp(f, (x,), (x,)),
        lambda: func.jacrev(f)(x),
        lambda: func.jacfwd(f)(x),
        lambda: func.linearize(f, x),
    ):
        with pytest.raises(RuntimeError, match="non-empty output"):
            call()


def test_zeros_of_transforms_are_constants():
    from fusegrad import func

    x, y = leaf(2.0), leaf(3.0)
    out, pull = func.vjp(lambda x, y: x * x, x, y)
    gx, gy = pull(torch.ones(1))
    assert gx.item() == 4.0 and gx.requires_grad and gy.item() == 0.0 and not gy.requires_grad


def test_global_hooks_that_are_always_called():
    from fusegrad import nn

    class Fails(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    log = []
    hooks = nn.modules.module
    with hooks.register_module_forward_hook(lambda m, i, o: log.append(o), always_call=True):
        with hooks.register_module_forward_hook(lambda m, i, o: log.append("never")):
            with pytest.raises(ValueError, match="no"):
                Fails()(torch.ones(1))
            handle = nn.Identity().register_forward_hook(print)
            assert handle.id in handle.hooks_dict_ref()
            handle.remove()
            assert handle.id not in handle.hooks_dict_ref()
    assert log == [None]
    x = leaf(2.0)
    with hooks.register_module_backward_hook(lambda m, i, o: (i[0] * 3,)):
        nn.Sigmoid()(x * 0).backward(torch.ones(1))
    assert x.grad.item() == 0.0


def test_what_modules_refuse():
    from fusegrad import func, nn

    m = nn.Sequential(nn.Linear(1, 1))
    m.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="return None"):
        m.load_state_dict(m.state_dict())
    with pytest.raises(TypeError, match="is not an instance of Tensor"):
        func.functional_call(m, {"0": torch.ones(1)}, (torch.ones(1),))


def test_backward_takes_its_arguments_in_order():
    x, y = leaf(2.0), leaf(3.0)
    torch.autograd.backward(x * y, torch.ones(1), False, False, None, [x])
    assert x.grad.item() == 3.0 and y.grad is None
