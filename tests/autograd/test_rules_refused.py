"""What PyTorch has no derivative for is refused by the backward pass that comes to it, before any gradient changes."""

import pytest

import fusegrad as torch
from fusegrad import func

FORMS = {
    "//": lambda x: x // 2,
    "// tensor": lambda x: x // torch.tensor([2.0, 3.0]),
    "number //": lambda x: 7 // x,
    "floor_divide": lambda x: torch.floor_divide(x, 2),
    "//=": lambda x: (x * 1).floor_divide_(2),
    "number %": lambda x: 7 % x,
    "remainder": lambda x: torch.remainder(7, x),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_derivative(form, compiled):
    def f(x, w):
        q = form(x)
        return q, q + w * x

    g = torch.compile(f) if compiled else f
    x = torch.tensor([5.0, 7.0], requires_grad=True)
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    q, y = g(x, w)
    assert q.requires_grad and torch.equal(q.detach(), form(x.detach()))
    for out in (q, y):
        with pytest.raises(RuntimeError, match="derivative for aten::.* is not implemented: "):
            out.sum().backward()
    assert x.grad is None and w.grad is None


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_beside_it_gradients_flow(compiled):
    def f(x, y):
        return x * 3 + (x.detach() // 2), torch.div(x, y, rounding_mode="floor"), x % 4, x % y

    g = torch.compile(f) if compiled else f
    x, y = (torch.tensor(v, requires_grad=True) for v in ([5.0, 7.0], [2.0, 3.0]))
    a, b, c, d = g(x, y)
    assert torch.autograd.grad(a.sum(), x)[0].tolist() == [3.0, 3.0]
    grads = torch.autograd.grad(b.sum(), (x, y))
    assert [v.tolist() for v in grads] == [[0.0, 0.0], [0.0, 0.0]]
    assert torch.autograd.grad(c.sum(), x)[0].tolist() == [1.0, 1.0]
    grads = torch.autograd.grad(d.sum(), (x, y))
    assert [v.tolist() for v in grads] == [[1.0, 1.0], [-2.0, -2.0]]


def test_transforms_refuse_too():
    x = torch.tensor([5.0, 7.0])
    for call in (
        lambda: func.grad(lambda v: (v // 2).sum())(x),
        lambda: func.vmap(func.grad(lambda v: v // 2))(x),
        lambda: func.jvp(lambda v: v // 2, (x,), (x,)),
    ):
        with pytest.raises(RuntimeError, match="floor_divide"):
            call()


def test_names():
    x = torch.tensor([5.0], requires_grad=True)
    assert (x // 2).grad_fn.name() == (7 % x).grad_fn.name() == "torch::autograd::NotImplemented"
    assert torch.div(x, 2, rounding_mode="floor").grad_fn.name() == "DivBackward2"
    assert (x % 2).grad_fn.name() == "RemainderBackward0" and (x % x).grad_fn.name() == "RemainderBackward1"
    assert torch.fmod(x, 2).grad_fn.name() == "FmodBackward0"
    assert x.amax().grad_fn.name() == "AmaxBackward0" and x.max().grad_fn.name() == "MaxBackward1"


NAN = float("nan")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["max", "min", "amax", "amin"])
def test_shares_of_extrema_with_nan(name, compiled):
    """A NaN of ``max(x)`` shares among the NaNs; that of ``amax`` equals no element: the shares are NaN."""

    def f(x):
        return getattr(torch, name)(x)

    g = torch.compile(f) if compiled else f
    for values, want in (
        ([2.0, 2.0, 2.0, 2.0], [0.25] * 4),
        ([1.0, NAN, 2.0, NAN], [0.0, 0.5, 0.0, 0.5] if name[0] == "m" else [NAN] * 4),
    ):
        x = torch.tensor(values, requires_grad=True)
        torch.testing.assert_close(torch.autograd.grad(g(x), x)[0], torch.tensor(want), equal_nan=True)
    lowest = torch.tensor([[1.0, 1.0], [3.0, 3.0]], requires_grad=True)
    got = torch.autograd.grad(torch.aminmax(lowest).min, lowest)[0]
    assert got.tolist() == [[0.5, 0.5], [0.0, 0.0]]


def test_results_without_a_derivative_are_refused_by_vjp():
    x = torch.ones(3)
    for call in (lambda: func.vjp(lambda v: v.long(), x), lambda: func.jacrev(lambda v: v > 0)(x)):
        with pytest.raises(RuntimeError, match="outputs of f must be floating-point"):
            call()
    out, pull, aux = func.vjp(lambda v: (v * 2, v.long()), x, has_aux=True)
    assert aux.dtype is torch.int64 and pull(torch.ones(3))[0].tolist() == [2.0] * 3


@pytest.mark.parametrize("dims", [(0,), (0, 0, 0), [0, 0], ({"a": 0},)], ids=str)
def test_out_dims_have_the_structure_of_the_results(dims):
    x = torch.ones(3, 2)
    with pytest.raises(ValueError, match="not compatible with the structure of `outputs`"):
        func.vmap(lambda v: (v, v), out_dims=dims)(x)
    assert func.vmap(lambda v: v, out_dims=(1,))(x).shape == (2, 3)
    assert [y.shape for y in func.vmap(lambda v: (v, v), out_dims=(0, 1))(x)] == [(3, 2), (2, 3)]


def test_dual_of_a_leaf_made_inside_the_level_requires_its_gradient():
    from fusegrad import nn
    from fusegrad.autograd import forward_ad as fw

    with fw.dual_level():
        p = nn.Parameter(torch.tensor([2.0, 3.0]))
        y = (fw.make_dual(p, torch.ones(2)) ** 2).sum()
        assert y.requires_grad and fw.unpack_dual(y).tangent.item() == 10.0
        (g,) = torch.autograd.grad(y, p)
        assert fw.unpack_dual(g).primal.tolist() == [4.0, 6.0]


def test_dropout_of_channels_needs_channels():
    F = torch.nn.functional
    for f in (F.feature_alpha_dropout, F.dropout2d):
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            f(torch.ones(3), 0.5, True)
        assert f(torch.ones(3), 0.5, False).shape == f(torch.ones(3), 0.0, True).shape == (3,)
        assert f(torch.ones(3, 2), 0.5, True).shape == (3, 2)
    for shape in ((3,), (64, 2), (64, 2, 2), (64, 2, 2, 2)):  # without a batch: whole channels
        y = F.dropout3d(torch.ones(shape), 0.5, True).reshape(shape[0], -1)
        assert ((y == 0).all(1) | (y == 2).all(1)).all()
