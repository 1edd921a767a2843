"""Smaller rules of the dynamic graph: names of nodes, layouts of gradients, second passes, dtypes that are refused."""

from __future__ import annotations

import pytest

import fusegrad as T
from fusegrad import nn
from fusegrad.utils.checkpoint import checkpoint

F = nn.functional

NAMES = {
    "DivBackward0": lambda x, w: x / 2,
    "MulBackward0": lambda x, w: x * w,
    "PowBackward0": lambda x, w: x**2,
    "PowBackward1": lambda x, w: x**w,
    "PowBackward2": lambda x, w: 2**x,
    "MmBackward0": lambda x, w: x @ w.t(),
    "MvBackward0": lambda x, w: x @ w[0],
    "DotBackward0": lambda x, w: x[0] @ w[0],
    "SumBackward0": lambda x, w: x.sum(),
    "SumBackward1": lambda x, w: x.sum(0),
    "MeanBackward0": lambda x, w: x.mean(),
    "MeanBackward1": lambda x, w: x.mean(-1),
    "AddmmBackward0": lambda x, w: F.linear(x, w, w[:, 0]),
    "SelectBackward0": lambda x, w: x[0],
    "SliceBackward0": lambda x, w: x[:, 1:],
    "UnsqueezeBackward0": lambda x, w: x[None],
    "ToCopyBackward0": lambda x, w: x.double(),
    "MaskedFillBackward0": lambda x, w: x.masked_fill(x > 0, 0.0),
    "MaxBackward0": lambda x, w: x.max(0)[0],
    "NllLossBackward0": lambda x, w: F.cross_entropy(x, T.tensor([0, 1])),
    "SoftmaxBackward0": lambda x, w: x.softmax(-1),
    "LogSoftmaxBackward0": lambda x, w: x.log_softmax(-1),
    "NativeLayerNormBackward0": lambda x, w: F.layer_norm(x, (3,)),
    "NativeBatchNormBackward0": lambda x, w: F.batch_norm(x, None, None, training=True),
    "ConvolutionBackward0": lambda x, w: F.conv1d(x[None], w[None, :, :2]),
    "LinalgVectorNormBackward0": lambda x, w: x.norm(),
    "ClampBackward1": lambda x, w: x.clamp(0, 1),
    "WhereBackward0": lambda x, w: T.where(x > 0, x, w),
    "SqueezeBackward1": lambda x, w: x[:1].squeeze(0),
    "LinalgDetBackward0": lambda x, w: T.linalg.det(x[:, :2]),
}


@pytest.mark.parametrize("name", NAMES)
def test_nodes_have_pytorchs_names(name: str) -> None:
    x = T.rand(2, 3, requires_grad=True)
    w = T.rand(2, 3, requires_grad=True)
    y = NAMES[name](x, w)
    assert y.grad_fn.name() == name
    assert f"grad_fn=<{name}>" in repr(y)


def test_a_second_pass_through_a_product_with_a_number_is_refused() -> None:
    for f in (lambda x: x * 2, lambda x: 2 * x, lambda x: x / 2):
        x = T.ones(2, requires_grad=True)
        y = f(x)
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()
    for f in (lambda x: x + 1, lambda x: -x, lambda x: x.view(2, 1), lambda x: x.sum(0)):  # these keep nothing
        x = T.ones(2, requires_grad=True)
        y = f(x)
        y.sum().backward()
        y.sum().backward()
        assert x.grad.tolist() in ([2, 2], [-2, -2])


def test_a_gradient_has_the_layout_of_its_leaf() -> None:
    base = T.arange(6.0).view(3, 2)
    for make in (lambda: base.t(), lambda: T.rand(2, 3, 4).permute(2, 0, 1), lambda: T.rand(2, 3)):
        x = make().detach().clone(memory_format=T.preserve_format).requires_grad_()
        (x * x).sum().backward()
        assert x.grad.stride() == x.stride()
        assert T.equal(x.grad, 2 * x.detach())
        given = T.rand(*x.shape)
        x.grad = None
        x.backward(given)
        assert x.grad.stride() == x.stride() and T.equal(x.grad, given) and x.grad is not given
    spread = T.ones(1).expand(3).detach().requires_grad_()  # overlaps: the gradient has memory of its own
    (spread * T.arange(3.0)).sum().backward()
    assert spread.grad.tolist() == [0, 1, 2] and spread.grad.stride() == (1,)


def test_results_of_composed_functions_are_no_views() -> None:
    x = T.arange(4.0, requires_grad=True).view(2, 2)
    for y in (
        x.roll(1),
        x.repeat(2, 1),
        x.tile(2),
        T.kron(x, x),
        x.rot90(),
        x.masked_scatter(x > 1, T.ones(4)),
        x.put(T.tensor([0]), T.ones(1)),
    ):
        assert not y._is_view() and y._base is None
        y.mul_(2)
        y.detach_()
        assert y.is_leaf
    assert x.tolist() == [[0, 1], [2, 3]]


def test_reentrant_checkpoints_refuse_what_they_cannot_do() -> None:
    x = T.ones(3, requires_grad=True)
    y = checkpoint(lambda t: t.exp(), x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant=True.*incompatible"):
        T.autograd.grad(y, x)
    with pytest.raises(RuntimeError, match="use_reentrant=True.*incompatible"):
        y.backward(inputs=[x])
    assert x.grad is None
    checkpoint(lambda t: t.exp(), x, use_reentrant=True).sum().backward()
    assert T.allclose(x.grad, x.detach().exp())


@pytest.mark.parametrize(
    "name", ["abs", "floor", "ceil", "trunc", "round", "bitwise_left_shift", "bitwise_right_shift", "addcmul"]
)
def test_bool_is_refused_where_pytorch_refuses_it(name: str) -> None:
    b = T.tensor([True, False])
    args = {"bitwise_left_shift": (b, b), "bitwise_right_shift": (b, b), "addcmul": (b, b, b)}.get(name, (b,))
    for f in (getattr(T, name), T.compile(lambda *a: getattr(T, name)(*a))):
        with pytest.raises((NotImplementedError, RuntimeError), match="not implemented for"):
            f(*args)


def test_dtypes_that_must_match() -> None:
    a, b = T.ones(2), T.ones(2, dtype=T.float64)
    with pytest.raises(RuntimeError, match="did not match"):
        T.isclose(a, b)
    with pytest.raises(RuntimeError, match="different dtypes"):
        T.heaviside(a, b)


def test_modes_and_constants_of_pytorch() -> None:
    with T.autograd.set_multithreading_enabled(False):
        assert T.is_grad_enabled()
    assert T.autograd.grad_mode.no_grad is T.no_grad
    assert T.inf > 0 and T.nan != T.nan and abs(T.pi - 3.14159265) < 1e-8 and T.e > 2.7 and T.newaxis is None
    assert not T.is_inference(T.ones(1)) and T.is_anomaly_check_nan_enabled()


def test_transforms_that_only_look() -> None:
    seen = []

    def f(x: T.Tensor) -> T.Tensor:
        seen.append(T.func.debug_unwrap(x).tolist())
        seen.append(T.func.debug_unwrap(x, recurse=False).shape)
        return x.clone().add_(1)

    x = T.ones(2, 3)
    assert T.equal(T.func.vmap(T.func.functionalize(f))(x), x + 1)
    assert seen == [x.tolist(), x.shape]
    assert T.func.debug_unwrap(x) is x
    with pytest.raises(RuntimeError, match="invalid argument for remove"):
        T.func.functionalize(f, remove="views")


def test_vmap_of_lu_solve_and_histc() -> None:
    a = T.rand(3, 2, 2, dtype=T.float64) + 2 * T.eye(2, dtype=T.float64)
    b = T.rand(3, 2, 1, dtype=T.float64)
    lu, pivots = T.linalg.lu_factor(a)
    assert T.allclose(a @ T.func.vmap(T.linalg.lu_solve)(lu, pivots, b), b)
    x = T.tensor([[0.1, 0.6, 0.7], [0.9, 0.9, 0.1]])
    assert T.func.vmap(lambda t: T.histc(t, 2, 0.0, 1.0))(x).tolist() == [[1, 2], [1, 2]]
