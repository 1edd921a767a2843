"""Rules of PyTorch's eager engine that are easily missed; the values were taken from PyTorch."""

import math

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F


def leaf(*values, **kw):
    return fg.tensor(list(values), requires_grad=True, **kw)


# ---- views that the history of their base does not reach


def _no_grad_view(x):
    with fg.no_grad():
        return x[:2]


def _early_view(x):
    x.requires_grad_(False)
    v = x[:2]
    x.requires_grad_()
    return v


def _inference_view(x):
    with fg.inference_mode():
        return x[:2]


@pytest.mark.parametrize("make", [_no_grad_view, _early_view, _inference_view])
def test_view_without_history_says_it_requires_grad_and_its_gradient_goes_nowhere(make):
    x = leaf(1.0, 2.0, 3.0)
    v = make(x)
    assert v.requires_grad and v.is_leaf and v.grad_fn is None
    y = v * 2
    assert y.requires_grad and y.grad_fn.next_functions == ((None, 0), (None, 0))
    y.sum().backward()
    assert v.grad is None and x.grad is None
    with pytest.raises(RuntimeError, match="not been used"):
        fg.autograd.grad((v * 2).sum(), v)
    with pytest.raises(RuntimeError, match="does not require grad"):
        v.backward(fg.ones(2))
    with pytest.raises(RuntimeError, match="numpy"):
        v.numpy()


def test_such_a_view_becomes_a_leaf_of_its_own_when_asked():
    x = leaf(1.0, 2.0, 3.0)
    v = _no_grad_view(x)
    v.requires_grad_()
    (v * 2).sum().backward()
    np.testing.assert_array_equal(v.grad, [2, 2])
    assert x.grad is None


def test_views_of_other_dtypes_and_detached_ones_require_nothing():
    x = leaf(1.0, 2.0)
    with fg.no_grad():
        assert not x.view(fg.int32).requires_grad and not x.detach().requires_grad and x.view(2).requires_grad
    assert not _no_grad_view(fg.ones(3)).requires_grad


def test_no_grad_view_after_a_change_of_its_base():
    y = leaf(1.0, 2.0, 3.0) * 1
    v = _no_grad_view(y)
    y.mul_(2)
    assert v.requires_grad
    for use in (lambda: v.grad_fn, lambda: v * 2, lambda: v.is_leaf):
        with pytest.raises(RuntimeError, match="no_grad mode and its base"):
            use()


# ---- hooks


def test_node_hooks_replace_by_tuples_alone():
    x = leaf(1.0, 2.0)
    for register, bad in (("register_hook", fg.ones(2)), ("register_prehook", fg.ones(2)),
                          ("register_hook", [fg.ones(2), None]), ("register_prehook", 5)):  # fmt: skip
        y = x * 2
        getattr(y.grad_fn, register)(lambda *_, bad=bad: bad)
        with pytest.raises(TypeError, match="expected tuple"):
            y.sum().backward()
    assert x.grad is None


def test_none_from_a_node_hook_is_no_gradient():
    x = leaf(3.0)
    y = x * 2
    y.grad_fn.register_prehook(lambda g: (None,))
    y.backward()
    assert x.grad is None
    y = x * x
    y.grad_fn.register_hook(lambda gi, go: (gi[0], None))  # of the two paths one is left
    y.backward()
    assert x.grad.item() == 3


def test_hooks_of_leaves_run_in_the_grad_mode_of_the_pass():
    x, seen = leaf(3.0), []
    x.register_hook(lambda g: seen.append(fg.is_grad_enabled()))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(fg.is_grad_enabled()))
    (x**2).backward()
    with fg.no_grad():
        y = fg.autograd.grad((leaf(1.0) * 1).requires_grad_(), [x], fg.ones(1), allow_unused=True)
    assert y == (None,) and seen == [False, False] and fg.is_grad_enabled()


def test_a_pack_hook_may_not_change_what_it_packs():
    x = leaf(1.0, 2.0)
    with fg.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t):
        with pytest.raises(RuntimeError, match="in place"):
            (x * 1).exp() * (x * 1)


def test_post_accumulate_hooks_return_none():
    x = leaf(1.0)
    for value, kind in ((5, TypeError), (fg.ones(1), RuntimeError)):
        with x.register_post_accumulate_grad_hook(lambda t, value=value: value), pytest.raises(kind):
            (x * 2).sum().backward()


def test_module_backward_hooks_with_several_inputs_and_outputs():
    class M(nn.Module):
        def forward(self, a, b, c):
            return a * b, b * 3

    m, seen = M(), []
    m.register_full_backward_hook(lambda mod, gi, go: seen.append((gi, go)))
    a = fg.ones(2, requires_grad=True)
    m(a, fg.ones(2), 5)[0].sum().backward()
    gi, go = seen.pop()
    assert gi[0].tolist() == [1, 1] and gi[1].tolist() == [0, 0] and gi[2] is None  # tensors without a gradient: zeros
    assert go[0].tolist() == [1, 1] and go[1] is None  # an output that was not used: None
    b = fg.ones(2, requires_grad=True)
    m(a, b, 5)[1].sum().backward()
    gi, go = seen.pop()
    assert gi[0].tolist() == [0, 0] and gi[1].tolist() == [3, 3] and go[0] is None


@pytest.mark.parametrize("kind", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_wrong_results_of_module_backward_hooks(kind):
    for value, error in (((), RuntimeError), (5, TypeError), ((fg.ones(1),) * 2, RuntimeError), ((5,), TypeError),
                         ((fg.ones(3),), RuntimeError)):  # fmt: skip
        m = nn.Identity()
        getattr(m, kind)(lambda *_, value=value: value)
        x = leaf(1.0)
        with pytest.raises(error):
            m(x).sum().backward()
        assert x.grad is None


def test_old_and_full_backward_hooks_do_not_mix():
    m = nn.Linear(1, 1)
    m.register_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="both regular backward hooks and full"):
        m.register_full_backward_hook(lambda *_: None)


# ---- what nodes keep


def test_saved_attributes_and_their_hooks():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    node = y.grad_fn
    assert node._saved_self is x and node._saved_other is w
    assert [n for n in dir(node) if "_saved" in n] == ["_raw_saved_other", "_raw_saved_self", "_saved_other",
                                                      "_saved_self"]  # fmt: skip
    kept = node._raw_saved_self
    kept.register_hooks(lambda t: t.detach().numpy().copy(), lambda a: fg.tensor(a) * 10)
    with pytest.raises(RuntimeError, match="already been set"):
        node._raw_saved_self.register_hooks(lambda t: t, lambda t: t)
    y.sum().backward()
    assert w.grad.tolist() == [10, 20] and x.grad.tolist() == [3, 4]
    with pytest.raises(RuntimeError, match="has been freed"):
        kept.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(AttributeError, match="_raw_saved_nothing|nothing"):
        node._raw_saved_nothing  # noqa: B018


def test_saved_results_and_tensors_of_functions_can_be_packed():
    class Twice(fg.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            b = a * 2
            ctx.save_for_backward(a, b)
            return b

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            return g * a * b

    x = leaf(1.0, 2.0)
    y = x.exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: t.detach() * 1, lambda t: t * 10)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 10 * np.exp([1, 2]), rtol=1e-6)
    y = Twice.apply(x)
    for kept in y.grad_fn._raw_saved_tensors:
        kept.register_hooks(lambda t: t.detach() * 1, lambda t: t * 3)
    x.grad = None
    y.sum().backward()
    assert x.grad.tolist() == [18, 72]


# ---- values


def test_nan_takes_the_gradient_of_an_extremum():
    for op in (lambda x: x.max(), lambda x: x.min()):
        x = leaf(1.0, math.nan, 2.0)
        op(x).backward()
        assert x.grad.tolist() == [0, 1, 0]
        x = leaf(math.nan, math.nan)
        op(x).backward()
        assert x.grad.tolist() == [0.5, 0.5]
    x = leaf(1.0, math.nan)
    x.norm(math.inf).backward()
    assert x.grad.tolist() == [0, 0]


@pytest.mark.parametrize("norm", [lambda x: x.norm(), fg.linalg.norm, fg.linalg.vector_norm,
                                  lambda x: fg.linalg.norm(x.view(2, 1)), lambda x: fg.dist(x, x * 0)])  # fmt: skip
def test_second_derivative_of_a_norm_at_zero_is_nan(norm):
    x = fg.zeros(2, requires_grad=True)
    (g,) = fg.autograd.grad(norm(x), x, create_graph=True)
    assert g.tolist() == [0, 0]
    (h,) = fg.autograd.grad(g.sum(), x)
    assert h.isnan().all()


def test_derivatives_of_a_power_end_in_zeros_that_depend_on_it():
    for f, values in ((lambda x: x**2, [4, 2, 0]), (fg.square, [4, 2, 0]), (lambda x: x**3, [12, 12, 6, 0])):
        x = fg.tensor(2.0, requires_grad=True)
        y = f(x)
        for value in values:
            (y,) = fg.autograd.grad(y, x, create_graph=True)
            assert y.item() == value
        assert not y.requires_grad


def test_probabilities_outside_of_0_and_1_are_refused_beside_nan():
    half = fg.full((2,), 0.5)
    for bad in (1.5, -0.1, math.nan):
        for mix in ([0.5, bad], [math.nan, bad]):
            with pytest.raises(RuntimeError, match="elements of input"):
                F.binary_cross_entropy(fg.tensor(mix), half)
            with pytest.raises(RuntimeError, match="elements of target"):
                F.binary_cross_entropy(half, fg.tensor(mix))


@pytest.mark.parametrize(
    "name",
    "hardshrink softshrink gelu elu silu hardswish hardsigmoid leaky_relu softplus logsigmoid mish celu glu".split(),
)
def test_activations_refuse_integers(name):
    for x in (fg.tensor([1, 2, 3, 4]), fg.tensor([True, False])):
        with pytest.raises(NotImplementedError):
            getattr(F, name)(x)


@pytest.mark.parametrize(
    "use",
    [
        lambda x: fg.igamma(x, x),
        lambda x: fg.igammac(x, x),
        lambda x: F.softmax(x, 0),
        lambda x: F.log_softmax(x, 0),
        lambda x: F.mse_loss(x, x),
        lambda x: F.kl_div(x, x),
        lambda x: F.binary_cross_entropy(x, x),
        lambda x: F.dropout(x),
        lambda x: fg.histc(x),
        lambda x: fg.rand_like(x),
        lambda x: fg.randn_like(x),
    ],
)
def test_functions_of_real_numbers_refuse_integers(use):
    with pytest.raises(RuntimeError):  # NotImplementedError, mostly
        use(fg.tensor([1, 2, 3, 4]))


# ---- forward mode


def test_a_change_of_a_copy_leaves_the_tangent_alone():
    fw = fg.autograd.forward_ad
    for copy in (lambda d: d.clone(), lambda d: d + 1, lambda d: d + fg.ones(2, 2), lambda d: d.exp()):
        with fw.dual_level():
            d = fw.make_dual(fg.tensor([0.0, 0.0]), fg.tensor([1.0, 2.0]))
            y = copy(d)
            y.mul_(5)
            y[0] = 7.0
            assert fw.unpack_dual(d).tangent.tolist() == [1, 2]


def test_dual_tensors_are_their_values_after_the_level():
    fw = fg.autograd.forward_ad
    with fw.dual_level():
        d = fw.make_dual(fg.tensor([1.0, 2.0]), fg.ones(2))
    assert (d * 2).sum().item() == 6 and d.tolist() == [1, 2]
    with fw.dual_level():
        assert fw.unpack_dual(d * 3).tangent is None


# ---- checkpoint


def test_inputs_of_a_checkpoint_go_through_the_hooks_around_it():
    from fusegrad.utils.checkpoint import checkpoint

    seen, x = [], leaf(1.0, 2.0)

    def pack(t):
        seen.append("pack")
        return t.detach().numpy().copy()

    def unpack(a):
        seen.append("unpack")
        return fg.tensor(a)

    with fg.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = checkpoint(lambda a: (a * a).sin(), x * 2, use_reentrant=False)
    assert seen == ["pack"]
    y.sum().backward()
    assert seen == ["pack", "unpack"]
    np.testing.assert_allclose(x.grad, 8 * np.array([1, 2]) * np.cos([4.0, 16.0]), rtol=1e-5)


def test_nested_checkpoints_keep_no_inner_inputs():
    import gc
    import weakref

    from fusegrad.utils.checkpoint import checkpoint

    held, x = [], leaf(0.5, 0.25)

    def outer(a):
        b = a * 2
        held.append(weakref.ref(b))
        return checkpoint(lambda c: c.sin().cos(), b, use_reentrant=False).exp()

    y = checkpoint(outer, x, use_reentrant=False)
    gc.collect()
    assert held[0]() is None
    y.sum().backward()
    z = np.array([1.0, 0.5])
    np.testing.assert_allclose(x.grad, np.exp(np.cos(np.sin(z))) * -np.sin(np.sin(z)) * np.cos(z) * 2, rtol=1e-5)


def test_early_stop_can_be_set_around():
    from fusegrad.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    ran, x = [], leaf(1.0)

    def f(a):
        b = a.sin()
        c = b * b
        ran.append("end")
        return c + 1

    for wanted, runs in ((True, []), (False, ["end"])):
        with set_checkpoint_early_stop(wanted):
            y = checkpoint(f, x, use_reentrant=False)
        ran.clear()
        y.sum().backward()
        assert ran == runs


def test_reentrant_checkpoint_without_inputs_that_require_grad_warns_and_has_none():
    from fusegrad.utils.checkpoint import checkpoint

    w = leaf(2.0)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = checkpoint(lambda a: a * w, fg.ones(1), use_reentrant=True)
    assert not y.requires_grad


def test_inference_mode_false_turns_gradients_on():
    with fg.no_grad(), fg.inference_mode(False):
        assert fg.is_grad_enabled()
    with fg.inference_mode():
        with fg.inference_mode(False):
            assert fg.is_grad_enabled() and not fg.is_inference_mode_enabled()
        assert fg.is_inference_mode_enabled() and not fg.is_grad_enabled()


# ---- function transforms


def test_tied_weights_get_one_value():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2, bias=False)
            self.b = nn.Linear(2, 2, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    t, x, w = Tied(), fg.ones(1, 2), fg.eye(2) * 3
    call = fg.func.functional_call
    assert call(t, {"a.weight": w}, x).tolist() == [[9, 9]]
    assert call(t, {"a.weight": w, "b.weight": w}, x).tolist() == [[9, 9]]
    with pytest.raises(ValueError, match="which are tied"):
        call(t, {"a.weight": w, "b.weight": fg.eye(2)}, x)
    assert call(t, {"a.weight": w, "b.weight": fg.eye(2)}, x, tie_weights=False).tolist() == [[3, 3]]


def test_wrong_results_of_jvp_and_vmap_rules():
    class Double(fg.autograd.Function):
        result: object = None

        @staticmethod
        def forward(a):
            return a * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for value in (5, "s"):
        rule = type("Bad", (Double,), {"jvp": staticmethod(lambda ctx, t, value=value: value)})
        with pytest.raises(RuntimeError, match="jvp: expected a Tensor or None"):
            fg.func.jvp(rule.apply, (fg.ones(2),), (fg.ones(2),))
    for dims in ((0, 0), (), "a", 0.5):
        rule = type("Bad", (Double,), {"vmap": staticmethod(lambda info, d, a, dims=dims: (a, dims))})
        with pytest.raises(RuntimeError, match="incompatible"):
            fg.func.vmap(rule.apply)(fg.ones(3))
    with pytest.raises(TypeError, match="must be Tensor"):
        fg.autograd.forward_ad.unpack_dual(5)


def test_tangents_reach_other_views_of_what_was_changed_in_place():
    fw = fg.autograd.forward_ad
    base = fg.arange(4.0).view(2, 2)
    view = base.t()
    with fw.dual_level():
        view.mul_(fw.make_dual(fg.full((2, 2), 2.0), fg.arange(4.0).view(2, 2)))
        assert fw.unpack_dual(base).tangent.tolist() == [[0, 2], [2, 9]]
        view.mul_(2)
        assert fw.unpack_dual(base).tangent.tolist() == [[0, 4], [4, 18]]
        assert fw.unpack_dual(base * 1).tangent.tolist() == [[0, 4], [4, 18]]
    assert base.tolist() == [[0, 4], [8, 12]] and view.tolist() == [[0, 8], [4, 12]]


# ---- values and copies


def test_one_divided_by_x_may_be_changed_and_so_may_x():
    x = leaf(2.0, 4.0)
    h = x * 1
    y = 1 / h
    h.add_(1)
    y.add_(1)
    y.sum().backward()
    np.testing.assert_allclose(x.grad, [-0.25, -0.0625])


@pytest.mark.parametrize("ord", [0.5, -3.5, -1])
def test_second_derivative_of_norms_below_one_at_zero_is_nan(ord):
    x = fg.zeros(2, requires_grad=True)
    (g,) = fg.autograd.grad(fg.linalg.vector_norm(x, ord), x, create_graph=True)
    assert g.tolist() == [0, 0]
    (h,) = fg.autograd.grad(g.sum(), x)
    assert h.isnan().all()
    x = fg.tensor([1.5, -2.0], dtype=fg.float64, requires_grad=True)
    assert fg.autograd.gradgradcheck(lambda t: fg.linalg.vector_norm(t, ord), x)


def test_copies_of_parameters_have_no_gradient():
    import copy

    m = nn.Linear(2, 1)
    m(fg.ones(1, 2)).sum().backward()
    m2 = copy.deepcopy(m)
    assert m2.weight.grad is None and m.weight.grad is not None and fg.equal(m.weight, m2.weight)
    x = leaf(1.0)
    (x * 2).sum().backward()
    assert copy.deepcopy(x).grad.item() == 2


def test_a_leaf_that_requires_none_any_more_gets_none():
    x, w = leaf(1.0), leaf(2.0)
    y = (x * w).sum()
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None and w.grad.item() == 1
