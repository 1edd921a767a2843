"""More rules of PyTorch that are easily missed; the values and errors were taken from PyTorch."""

import math
import warnings

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.nn import functional as F

# ---- matrices that are not finite


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("dtype", [fg.float32, fg.float64])
def test_singular_values_of_infinities_are_nan_and_of_nans_an_error(n, dtype):
    for i in range(n):
        a = fg.eye(n, dtype=dtype)
        a[i, i] = math.inf
        assert fg.linalg.svdvals(a).isnan().all()
        a[i, i] = math.nan
        with pytest.raises(RuntimeError, match="non-finite"):
            fg.linalg.svdvals(a)
        with pytest.raises(RuntimeError, match="non-finite"):
            fg.linalg.pinv(a)
    both = fg.stack([fg.eye(n, dtype=dtype), fg.full((n, n), math.inf, dtype=dtype)])
    np.testing.assert_array_equal(fg.linalg.svdvals(both)[0], np.ones(n))


def test_a_determinant_of_a_nan_has_a_gradient_of_nan():
    a = fg.eye(3).masked_fill(fg.eye(3) == 1, math.nan).requires_grad_()
    fg.det(a).backward()
    assert a.grad.isnan().any()


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_gradient_of_a_determinant_is_the_cofactors(n):
    x = np.random.default_rng(n).standard_normal((3, n, n))
    x[1, 0] = x[1, 1]  # singular
    want = np.empty_like(x)
    for k, i, j in np.ndindex(x.shape):
        want[k, i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(x[k], i, 0), j, 1))
    a = fg.from_numpy(x).requires_grad_()
    fg.det(a).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), want, atol=1e-12)
    assert fg.autograd.gradgradcheck(fg.det, (a[2].detach().requires_grad_(),))
    a = fg.from_numpy(x).masked_fill(fg.tensor(np.arange(n * n).reshape(n, n) == 1), math.nan).requires_grad_()
    fg.det(a).sum().backward()
    assert a.grad.isnan().all()


# ---- nothing to work on


@pytest.mark.parametrize(("shape", "dim"), [((0,), 0), ((0, 3), 0), ((3, 0), 1), ((2, 0, 3), 1)])
def test_cumulative_trapezoid_of_nothing(shape, dim):
    assert tuple(fg.cumulative_trapezoid(fg.ones(shape), dim=dim).shape) == shape


def test_combinations_of_nothing():
    for n in (0, 1, 2):
        for again in (False, True):
            assert tuple(fg.combinations(fg.arange(float(n)), 0, again).shape) == (0,)
    assert tuple(fg.combinations(fg.arange(1.0), 2).shape) == (0, 2)


@pytest.mark.parametrize(("shape", "groups"), [((1, 1), 1), ((1, 3), 3), ((1, 2, 1, 1), 2)])
def test_group_norm_of_single_values_is_refused(shape, groups):
    with pytest.raises(ValueError, match="more than 1 value"):
        F.group_norm(fg.ones(shape), groups)


def test_logaddexp_of_large_equal_numbers_shares_its_gradient():
    x, y = fg.full((2,), 1e20, requires_grad=True), fg.full((2,), 1e20, requires_grad=True)
    for f in (fg.logaddexp, fg.logaddexp2):
        for g in fg.autograd.grad(f(x, y).sum(), (x, y)):
            np.testing.assert_array_equal(g, [0.5, 0.5])


# ---- storages and identities


def test_storages_are_the_memory_of_a_tensor():
    y = fg.tensor([1.0, 2.0, 3.0])
    assert y[1:].storage().data_ptr() == y.data_ptr() and len(y.storage()) == 3 and y.untyped_storage().nbytes() == 12
    assert list(y[1:].storage()) == [1.0, 2.0, 3.0] and y.storage()[1] == 2.0
    z = fg.zeros(2).set_(y.untyped_storage())
    np.testing.assert_array_equal(z, [1, 2, 3])
    z = fg.zeros(2).set_(y.storage(), 1, (2,), (1,))
    z[0] = 9.0
    np.testing.assert_array_equal(y, [1, 9, 3])
    f = fg.arange(6.0).reshape(2, 3).t()
    np.testing.assert_array_equal(fg.empty(0).set_(f.storage()), np.arange(6))
    with pytest.raises(RuntimeError, match="Expected a Storage"):
        fg.zeros(2, dtype=fg.float64).set_(y.storage())


def test_swap_tensors_exchanges_everything_but_the_identity():
    a, b = fg.nn.Parameter(fg.ones(2)), fg.zeros(3)
    a.grad, a.note, at = fg.full((2,), 5.0), "kept", id(a)
    fg.utils.swap_tensors(a, b)
    assert id(a) == at and type(a) is fg.Tensor and type(b) is fg.nn.Parameter
    assert not a.requires_grad and b.requires_grad and b.note == "kept" and not hasattr(a, "note")
    np.testing.assert_array_equal(a, [0, 0, 0])
    np.testing.assert_array_equal(b.grad, [5, 5])
    (b * 2).sum().backward()
    np.testing.assert_array_equal(b.grad, [7, 7])


def test_swap_tensors_refuses_what_others_hold():
    import weakref

    a, b = fg.ones(2, requires_grad=True), fg.zeros(3)
    y = a * 2
    with pytest.raises(RuntimeError, match="graph that is alive"):
        fg.utils.swap_tensors(a, b)
    del y
    kept = weakref.ref(b)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        fg.utils.swap_tensors(a, b)
    del kept
    fg.utils.swap_tensors(a, b)
    assert b.requires_grad
    b.hold = [b * 2]
    b.hold.append(b.hold)  # a cycle: the graph is dead, and waits for the garbage collector
    del b.hold
    fg.utils.swap_tensors(a, b)
    assert a.requires_grad


def test_every_node_is_an_instance_of_node():
    n = (fg.ones(1, requires_grad=True) * 2).grad_fn
    kinds = fg.autograd.graph.Node
    assert isinstance(n, kinds) and isinstance(n.next_functions[0][0], kinds) and issubclass(type(n), kinds)
    assert not isinstance(1, kinds) and not issubclass(int, kinds)


def test_parameters_say_so_once():
    assert repr(fg.nn.Parameter(fg.ones(2))).count("Parameter") == 1


# ---- out=


@pytest.mark.parametrize("call", [fg.add, fg.mul, fg.atan2, fg.maximum, fg.sub])
def test_out_may_be_an_operand_but_not_overlap_one(call):
    y = fg.tensor([1.0, 2.0, 3.0])
    with pytest.raises(RuntimeError, match="single memory location"):
        call(y[:2], y[:2], out=y[1:])
    np.testing.assert_array_equal(y, [1, 2, 3])
    want = call(y, y)
    np.testing.assert_array_equal(call(y, y, out=y), want)


def test_out_of_another_shape_is_resized_with_a_warning_unless_it_is_empty():
    out = fg.empty(2)
    with pytest.warns(UserWarning, match=r"resized since it had shape \[2\]"):
        fg.add(fg.ones(3), 1, out=out)
    np.testing.assert_array_equal(out, [2, 2, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fg.add(fg.ones(3), 1, out=fg.empty(0))


def test_all_that_is_made_in_inference_mode_is_marked():
    plain = fg.ones(3)
    array = np.ones(3, np.float32)
    makers = [
        lambda: fg.as_tensor(5),
        lambda: fg.as_tensor([1.0, 2.0]),
        lambda: fg.as_tensor(array),
        lambda: fg.asarray(array),
        lambda: fg.from_numpy(array),
        lambda: fg.tensor(5),
        lambda: fg.ones(2),
        lambda: plain * 2,
    ]
    with fg.inference_mode():
        assert all(f().is_inference() for f in makers)
        assert not fg.as_tensor(plain).is_inference() and not plain[:].is_inference()
        assert fg.compile(lambda: fg.as_tensor(5))().is_inference()
    assert not any(f().is_inference() for f in makers)


def test_grad_mode_in_inference_mode_records_nothing():
    p = fg.ones(2, requires_grad=True)
    with fg.inference_mode():
        fg.set_grad_enabled(True)
        y = p * 2
        with fg.enable_grad():
            z = p * 2
    fg.set_grad_enabled(True)
    assert not y.requires_grad and not z.requires_grad and y.is_inference()


# ---- no derivative


UNDEFINED = {
    "heaviside": (lambda x: fg.heaviside(x, fg.ones(3)), RuntimeError),
    "heaviside's values": (lambda x: fg.heaviside(fg.zeros(3), x), RuntimeError),
    "unique": (lambda x: fg.unique(x), NotImplementedError),
    "unique_consecutive": (lambda x: fg.unique_consecutive(x), NotImplementedError),
    "bincount": (lambda x: fg.bincount(fg.tensor([0, 1, 1]), x), RuntimeError),
    "histogram": (lambda x: fg.histogram(x, 3)[0], RuntimeError),
    "igamma": (lambda x: fg.igamma(x, fg.ones(3)), NotImplementedError),
    "igammac": (lambda x: fg.igammac(x, fg.ones(3)), NotImplementedError),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_results_without_a_derivative_refuse_a_backward_pass(case):
    call, error = UNDEFINED[case]
    x, other = fg.tensor([1.0, 2.0, 3.0], requires_grad=True), fg.ones(1, requires_grad=True)
    y = call(x)
    assert y.requires_grad and not call(x.detach()).requires_grad
    with pytest.raises(error, match="not implemented"):
        ((x * other).sum() + y.sum()).backward()
    assert x.grad is None and other.grad is None

    @fg.compile
    def loss(x):
        return call(x).sum() + (x * other).sum()

    for _ in range(2):
        with pytest.raises(error, match="not implemented"):
            loss(x).backward()
    assert x.grad is None


W = fg.tensor([1.0, 2.0, 3.0])
NOT_DIFFERENTIABLE = {
    "target": lambda w: F.soft_margin_loss(W, w),
    "nll weight": lambda w: F.nll_loss(fg.eye(3), fg.tensor([0, 1, 1]), weight=w),
    "cross entropy weight": lambda w: F.cross_entropy(fg.eye(3), fg.tensor([0, 1, 1]), weight=w),
    "bce weight": lambda w: F.binary_cross_entropy(fg.rand(3), fg.rand(3), weight=w),
    "logits weight": lambda w: F.binary_cross_entropy_with_logits(fg.rand(3), fg.rand(3), weight=w),
    "pos_weight": lambda w: F.binary_cross_entropy_with_logits(fg.rand(3), fg.rand(3), pos_weight=w),
    "margin weight": lambda w: F.multi_margin_loss(fg.eye(3), fg.tensor([0, 1, 1]), weight=w),
    "running_mean": lambda w: F.batch_norm(fg.eye(3), w, W),
    "running_var": lambda w: F.batch_norm(fg.eye(3), W, w),
}


@pytest.mark.parametrize("case", NOT_DIFFERENTIABLE)
def test_arguments_without_a_derivative_may_not_require_a_gradient(case):
    call = NOT_DIFFERENTIABLE[case]
    with pytest.raises(RuntimeError, match="is not differentiable with respect to argument"):
        call(W.clone().requires_grad_())
    call(W)
    with fg.no_grad():
        call(W.clone().requires_grad_())


# ---- the layout of gradients

ELEMENTWISE = (
    "abs acos asin atan cos cosh erf exp expm1 log log1p reciprocal relu sigmoid sin sinh sqrt square "
    "tan tanh lgamma digamma"
).split()
ACTIVATIONS = "gelu silu mish softplus logsigmoid hardtanh hardswish softsign tanhshrink".split()


@pytest.mark.parametrize("name", [*ELEMENTWISE, *(f"F.{n}" for n in ACTIVATIONS)])
@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5)])
def test_gradients_of_elementwise_operators_have_the_layout_of_the_input(name, shape):
    f = getattr(F if name.startswith("F.") else fg, name.removeprefix("F."))
    x = fg.rand(shape[::-1]).permute(*range(len(shape))[::-1]).requires_grad_()
    if name not in ("reciprocal", "F.softsign"):
        (g,) = fg.autograd.grad(f(x).sum(), x)
        assert g.stride() == x.stride()
    f(x).sum().backward()
    assert x.grad.stride() == x.stride()
    plain = x.detach().contiguous().requires_grad_()
    (want,) = fg.autograd.grad(f(plain).sum(), plain)
    np.testing.assert_allclose(x.grad, want, rtol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "sigmoid", "F.gelu", "F.silu"])
def test_the_incoming_gradient_decides_the_layout_unless_it_is_expanded(name):
    f = getattr(F if name.startswith("F.") else fg, name.removeprefix("F."))
    x = fg.rand(4, 3).t().requires_grad_()
    (g,) = fg.autograd.grad(f(x), x, fg.ones(3, 4))
    assert g.stride() == (4, 1)
    (h,) = fg.autograd.grad(f(x), x, fg.ones(3, 1).expand(3, 4))
    assert h.stride() == x.stride()
    np.testing.assert_array_equal(g, h)


# ---- checkpoints


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("through", [False, True])
def test_autograd_grad_through_a_reentrant_checkpoint_is_refused(compiled, through):
    from fusegrad.utils.checkpoint import checkpoint

    def f(p):
        return checkpoint(lambda t: (t * t).sum(), p * 1 if through else p, use_reentrant=True)

    f = fg.compile(f) if compiled else f
    for _ in range(2):
        p = fg.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(RuntimeError, match="use_reentrant=True.*incompatible"):
            fg.autograd.grad(f(p), p)
        with pytest.raises(RuntimeError, match="use_reentrant=True.*incompatible"):
            f(p).backward(inputs=[p])
        assert p.grad is None
        f(p).backward()
        np.testing.assert_array_equal(p.grad, [2, 4])


def test_convolutions_without_channels_to_make_are_refused():
    with pytest.raises(RuntimeError, match="at least 1 at dimension 0"):
        F.conv1d(fg.ones(1, 2, 5), fg.ones(0, 2, 3))
    assert F.conv1d(fg.ones(1, 0, 5), fg.ones(2, 0, 3)).sum() == 0


def test_division_and_powers_of_a_number_and_a_tensor():
    np.testing.assert_array_equal(fg.div(True, fg.full((2,), 2.0)), [0.5, 0.5])
    assert fg.float_power(2, fg.ones(2)).dtype is fg.float64
    for f in (fg.div, fg.float_power):
        with pytest.raises(TypeError, match="must be Tensor or number"):
            f("2", fg.ones(1))


@pytest.mark.parametrize("name", ["atan2_", "hypot_", "nextafter_", "logaddexp_"])
def test_in_place_forms_refuse_numbers_where_tensors_are_asked_for(name):
    """As the operators do: atan2(x, 2.0) is an error."""
    if not hasattr(fg.Tensor, name):
        pytest.skip("PyTorch has no such form")
    x = fg.tensor([1.0, 2.0])
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        getattr(x, name)(2.0)
    assert x.tolist() == [1.0, 2.0] and x._version == 0
