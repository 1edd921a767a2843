"""func.grad, vjp, jvp, jacrev, jacfwd, hessian, linearize, functional_call; autograd.functional; compiled functions."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.autograd import functional as AF
from fusegrad.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from fusegrad.tensor import Tensor


def near(a: Tensor, b: Tensor, tol: float = 1e-7) -> None:
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tol, atol=tol)


@pytest.fixture
def x() -> Tensor:
    fg.manual_seed(0)
    return fg.randn(4, dtype=fg.float64)


def quartic(x: Tensor) -> Tensor:
    return (x**4).sum() + x[0] * x[1]


def test_grad(x) -> None:
    want = 4 * x**3 + fg.stack([x[1], x[0], x[0] * 0, x[0] * 0])
    near(grad(quartic)(x), want)
    g, v = grad_and_value(quartic)(x)
    near(v, quartic(x))
    g, aux = grad(lambda x: (x.sum(), x * 2), has_aux=True)(x)
    near(aux, x * 2)
    g, (v, aux) = grad_and_value(lambda x: (x.sum(), {"a": x * 2}), has_aux=True)(x)
    near(aux["a"], x * 2)
    a, b = grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x * 3)
    near(a, x * 3)
    near(grad(lambda x, y: (x * y).sum(), argnums=-1)(x, x * 3), x)
    near(grad(lambda d: (d["w"] * d["b"]).sum())({"w": x, "b": 2 * x})["b"], x)
    assert not g.requires_grad and x.grad is None
    near(grad(lambda x: fg.ones((), dtype=fg.float64))(x), x * 0)


def test_levels_do_not_mix() -> None:
    one = fg.ones(())
    assert float(grad(lambda x: x * grad(lambda y: x + y)(one))(one)) == 1.0
    assert float(jvp(lambda x: x * jvp(lambda y: x + y, (one,), (one,))[1], (one,), (one,))[1]) == 1.0
    assert float(grad(grad(grad(lambda x: x**4)))(one)) == 24.0
    assert float(grad(lambda x: grad(lambda y: x * y**2)(x))(one)) == 4.0


def test_watching_from_outside(x) -> None:
    w = x.clone().requires_grad_()
    y = grad(lambda z: (z**2 * w).sum())(x)
    near(fg.autograd.grad(y.sum(), w)[0], 2 * x)
    y = grad(quartic)(w)
    near(fg.autograd.grad(y.sum(), w)[0], hessian(quartic)(x).sum(0))
    with fg.no_grad():
        assert not grad(quartic)(w).requires_grad
        near(grad(quartic)(x), grad(quartic)(w))
    assert float(grad(lambda z: quartic(z) if not fg.is_grad_enabled() else (z * 2).sum())(x)[0]) == 2.0

    def inner_no_grad(z):
        with fg.no_grad():
            c = z**2
        return (z - c).sum()

    near(grad(inner_no_grad)(x), x * 0 + 1)


def test_vjp_and_linearize(x) -> None:
    def f(x):
        return x.sin(), {"s": x.sum()}

    out, pull = vjp(f, x)
    near(out[0], x.sin())
    (g,) = pull((fg.ones_like(x), {"s": fg.tensor(2.0, dtype=fg.float64)}))
    near(g, x.cos() + 2)
    near(pull((x, {"s": x[0] * 0}))[0], x * x.cos())  # once more
    out, lin = linearize(f, x)
    near(lin(x)[0], x * x.cos())
    near(lin(2 * x)[1]["s"], 2 * x.sum())
    near(vmap(lin)(fg.stack([x, 2 * x]))[0], fg.stack([x * x.cos(), 2 * x * x.cos()]))
    calls = []
    _, lin = linearize(lambda x: calls.append(1) or (x**2, fg.ones(2)), x)
    near(lin(x)[1], fg.zeros(2))
    lin(x)
    assert len(calls) == 1
    v, p, aux = vjp(lambda x: (x * 2, [x + 1]), x, has_aux=True)
    near(aux[0], x + 1)


@pytest.mark.parametrize("jac", [jacrev, jacfwd])
def test_jacobians(jac, x) -> None:
    m = fg.randn(3, 4, dtype=fg.float64)
    near(jac(lambda x: m @ x)(x), m)
    j = jac(lambda x, y: {"a": x * y, "b": y.sum()}, argnums=(0, 1))(x, x * 2)
    near(j["a"][0], fg.diag(x * 2))
    near(j["b"][1], x * 0 + 1)
    assert jac(lambda x: fg.stack([x, x]).reshape(2, 2, 2))(x).shape == (2, 2, 2, 4)
    near(jac(lambda d: d["w"] * 3)({"w": x})["w"], 3 * fg.eye(4, dtype=fg.float64))
    j, aux = jac(lambda x: (x * 2, x * 5), has_aux=True)(x)
    near(aux, x * 5)
    near(jac(lambda x: m @ x, chunk_size=2)(x), m)
    assert jac(lambda x: x[:0])(x).shape == (0, 4)
    near(jac(lambda x: fg.ones(2, dtype=fg.float64))(x), fg.zeros(2, 4, dtype=fg.float64))
    assert not jac(lambda x: m @ x)(x).requires_grad


def test_jacrev_one_by_one(x) -> None:
    near(jacrev(lambda x: x**2, chunk_size=1)(x), fg.diag(2 * x))


def test_hessian_in_every_nesting(x) -> None:
    want = hessian(quartic)(x)
    near(want, jacrev(jacrev(quartic))(x))
    near(want, jacfwd(jacfwd(quartic))(x))
    near(want, jacrev(jacfwd(quartic))(x))
    near(want, jacrev(grad(quartic))(x))
    near(want, fg.stack([jvp(grad(quartic), (x,), (e,))[1] for e in fg.eye(4, dtype=fg.float64)]))
    near(vmap(hessian(quartic))(fg.stack([x, x * 2]))[1], hessian(quartic)(x * 2))
    h = hessian(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x)
    near(h[0][1], fg.eye(4, dtype=fg.float64))


def test_functional_call_and_stacking() -> None:
    layer = nn.Linear(2, 2)
    w = fg.zeros(2, 2)
    near(functional_call(layer, {"weight": w}, fg.ones(2)), layer.bias)
    near(functional_call(layer, ({"weight": w}, {"bias": fg.ones(2)}), (fg.ones(2),)), fg.ones(2))
    assert layer.weight is not w
    with pytest.raises(RuntimeError, match="Missing key"):
        functional_call(layer, {"weight": w}, (fg.ones(2),), strict=True)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        functional_call(layer, {"weight": w, "bias": w, "foo": w}, (fg.ones(2),), strict=True)
    with pytest.raises(ValueError, match="expected|Expected"):
        functional_call(layer, 3, (fg.ones(2),))
    with pytest.raises(TypeError, match="not an instance"):
        functional_call(layer, {"weight": 3}, (fg.ones(2),))
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(layer, ({"weight": w}, {"weight": w}), (fg.ones(2),))
    with pytest.raises(ZeroDivisionError):
        functional_call(nn.Sequential(layer, _Fails()), {"0.weight": w}, (fg.ones(2),))
    assert layer.weight is not w
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    both = functional_call(tied, {"0.weight": w}, (fg.ones(2),))
    near(both, tied[1].bias)
    params, _ = stack_module_state([layer, nn.Linear(2, 2)])
    assert params["weight"].shape == (2, 2, 2) and params["weight"].requires_grad
    for models, text in (
        ([], "at least one"),
        ([layer, nn.ReLU()], "same class"),
        ([layer, nn.Linear(2, 2).eval()], "mode"),
    ):
        with pytest.raises(RuntimeError, match=text):
            stack_module_state(models)


class _Fails(nn.Module):
    def forward(self, x):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    "make,error,text",
    [
        (lambda x: grad(lambda x: 1.0)(x), RuntimeError, "to return a Tensor"),
        (lambda x: grad(lambda x: x)(x), RuntimeError, "scalar Tensor"),
        (lambda x: grad(lambda x: x.sum())(fg.arange(3)), RuntimeError, "floating point"),
        (lambda x: grad(lambda x: x.sum(), argnums=2)(x), RuntimeError, "Got argnum=2, but only 1"),
        (lambda x: grad(lambda x: x.sum(), argnums=())(x), RuntimeError, "non-empty"),
        (lambda x: grad(lambda x, y: x.sum(), argnums=(0, -2))(x, x), RuntimeError, "unique"),
        (lambda x: grad(lambda x: x.sum(), has_aux=True)(x), RuntimeError, "should be a tuple"),
        (lambda x: grad(lambda x: x)(1.0), ValueError, "must be Tensor"),
        (lambda x: vjp(lambda x: 3, x), RuntimeError, "return only tensors"),
        (lambda x: vjp(lambda x: (x, x), x)[1](x), RuntimeError, "same as pytree structure"),
        (lambda x: vjp(lambda x: x, x)[1](x[:2]), RuntimeError, "Mismatch in shape"),
        (lambda x: jvp(lambda x: x, x, (x,)), RuntimeError, "Expected primals to be a tuple"),
        (lambda x: jvp(lambda x: x, (x,), (x, x)), RuntimeError, "same python structure"),
        (lambda x: jvp(lambda x: x, (x,), (x[:2],)), RuntimeError, "different size"),
        (lambda x: jvp(lambda: x, (), ()), RuntimeError, "at least one Tensor"),
        (lambda x: jvp(lambda x: 2, (x,), (x,)), RuntimeError, "return only tensors"),
        (lambda x: jvp(lambda x: fg.ones(2), (x,), (x,), strict=True), RuntimeError, "strict=True"),
        (lambda x: jacrev(lambda x: x, chunk_size=0), ValueError, "greater than 0"),
        (lambda x: jacfwd(lambda x: x, randomness="a"), RuntimeError, "Only allowed values"),
        (lambda x: jacfwd(lambda x: x)(fg.arange(3)), ValueError, "floating point"),
        (lambda x: linearize(lambda x: x, x)[1](x[:2]), RuntimeError, "doesn't match the shape"),
        (lambda x: linearize(lambda x: x, x)[1](x, x), RuntimeError, "same argspec"),
        (lambda x: AF.jacobian(lambda x: 2, x), TypeError, "outputs of the user-provided function"),
        (lambda x: AF.jacobian(lambda x: x, 2), TypeError, "inputs given to jacobian"),
        (lambda x: AF.jacobian(lambda x: fg.ones(2), x, strict=True), RuntimeError, "does not require gradients"),
        (lambda x: AF.jacobian(lambda a, b: a * 2, (x, x), strict=True), RuntimeError, "independent of input 1"),
        (lambda x: AF.jacobian(lambda a: a * 2, x, strict=True, create_graph=True), RuntimeError, "create_graph=True"),
        (
            lambda x: AF.jacobian(lambda a: a * 2, x, strict=True, vectorize=True),
            RuntimeError,
            "not supported together",
        ),
        (lambda x: AF.jacobian(lambda a: a * 2, x, strategy="forward-mode"), NotImplementedError, "vectorize"),
        (lambda x: AF.hessian(lambda a: a, x), RuntimeError, "single element"),
        (lambda x: AF.hessian(lambda a: (a.sum(), a.sum()), x), RuntimeError, "single Tensor"),
        (lambda x: AF.hessian(lambda a: a.sum(), x, strict=True), RuntimeError, "independent of the input"),
        (lambda x: AF.vjp(lambda a: a, x), RuntimeError, "v can only be None"),
        (lambda x: AF.vjp(lambda a: a, x, x[:2]), RuntimeError, "invalid size"),
        (lambda x: AF.jvp(lambda a: a, (x,), (x, x)), RuntimeError, "invalid length"),
        (lambda x: AF.hvp(lambda a: a, x, x), RuntimeError, "single element"),
        (lambda x: AF.vhp(lambda a: a.sum(), x, x, strict=True), RuntimeError, "independent of the input"),
    ],
)
def test_errors(x, make, error, text) -> None:
    with pytest.raises(error, match=text):
        make(x)


def test_autograd_functional(x) -> None:
    want = hessian(quartic)(x)
    for kw in (
        {},
        {"vectorize": True},
        {"vectorize": True, "outer_jacobian_strategy": "forward-mode"},
        {"strict": True},
    ):
        near(AF.hessian(quartic, x, **kw), want)
    near(AF.hvp(quartic, x, x)[1], want @ x)
    near(AF.vhp(quartic, x, x)[1], x @ want)
    near(AF.vjp(lambda x: x**2, x, x)[1], 2 * x * x)
    near(AF.jvp(lambda x: x**2, x, x)[1], 2 * x * x)
    for kw in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        j = AF.jacobian(lambda a, b: (a * b, b.sum()), (x, x * 2), **kw)
        near(j[0][1], fg.diag(x))
        near(j[1][0], x * 0)
        near(AF.jacobian(lambda a: (a * 2,), x, **kw)[0], 2 * fg.eye(4, dtype=fg.float64))
    near(AF.jacobian(lambda a: fg.ones(2, dtype=fg.float64), x), fg.zeros(2, 4, dtype=fg.float64))
    w = x.clone().requires_grad_()
    j = AF.jacobian(lambda a: a**3, w, create_graph=True)
    near(fg.autograd.grad(j.sum(), w)[0], 6 * x)
    assert not AF.jacobian(lambda a: a**3, w).requires_grad


def test_batched_grads(x) -> None:
    w = x.clone().requires_grad_()
    y = (w**2, w.sum())
    cots = (fg.eye(4, dtype=fg.float64), fg.arange(4).to(fg.float64))
    (g,) = fg.autograd.grad(y, w, cots, is_grads_batched=True)
    near(g, fg.diag(2 * x) + fg.arange(4)[:, None])
    u = fg.ones(2, requires_grad=True)
    z = w * 2
    assert fg.autograd.grad(z, (w, u), fg.eye(4, dtype=fg.float64), is_grads_batched=True, allow_unused=True)[1] is None
    with pytest.raises(RuntimeError, match="first dimension of each grad_output"):
        fg.autograd.grad(w * 2, w, fg.ones(4, 3, dtype=fg.float64), is_grads_batched=True)
    (g,) = fg.autograd.grad(w**3, w, fg.eye(4, dtype=fg.float64), is_grads_batched=True, create_graph=True)
    near(fg.autograd.grad(g.sum(), w)[0], 6 * x)


def test_nothing_is_kept(x) -> None:
    gc.collect()
    gc.disable()
    try:
        kept = []

        def f(z):
            y = z * 2
            kept.append(weakref.ref(y))
            return (y**2).sum()

        grad(f)(x)
        vmap(grad(f))(fg.stack([x, x]))
        jvp(f, (x,), (x,))
        hessian(f)(x)
        assert all(r() is None for r in kept)
    finally:
        gc.enable()


# ---- compiled


def loss(w: Tensor, x: Tensor) -> Tensor:
    return ((x @ w).tanh() ** 2).sum()


INSIDE = {
    "grad": lambda w, x: w - 0.1 * grad(loss)(w, x),
    "per example": lambda w, x: vmap(grad(loss), (None, 0))(w, x),
    "jacrev": lambda w, x: jacrev(lambda x: (x @ w).tanh())(x),
    "jacfwd": lambda w, x: jacfwd(lambda x: (x @ w).tanh())(x),
    "hessian": lambda w, x: hessian(lambda x: (x**3).sum())(x),
    "vjp": lambda w, x: vjp(lambda x: (x @ w).tanh(), x)[1](x @ w)[0],
    "jvp": lambda w, x: jvp(lambda x: (x @ w).tanh(), (x,), (x,))[1],
    "branch on a value": lambda w, x: grad(lambda x: (x * 2).sum() if x.sum() > 0 else x.sum())(x),
}


@pytest.mark.parametrize("name", INSIDE)
def test_transform_inside_compile(name) -> None:
    fg.manual_seed(0)
    w, x = fg.randn(3, 4), fg.randn(5, 3)
    f = INSIDE[name]
    c = fg.compile(f)
    for sign in (1, -1, 1):
        near(c(w, x * sign), f(w, x * sign), 1e-5)
    if name != "branch on a value":
        near(fg.compile(f, fullgraph=True)(w, x), f(w, x), 1e-5)


def test_transform_kept_across_a_break() -> None:
    w, x = fg.randn(3, 4), fg.randn(5, 3)
    seen = []

    def f(w, x):
        k = 2.0
        g = grad(lambda w, x: loss(w, x) * k)
        seen.append(float(x.sum()))  # a graph break
        return g(w, x)

    c = fg.compile(f)
    for s in (1, 2):
        near(c(w * s, x), f(w * s, x), 1e-5)


def test_compile_inside_transform() -> None:
    w, x = fg.randn(3, 4), fg.randn(5, 3)
    c = fg.compile(loss)
    near(grad(c)(w, x), grad(loss)(w, x), 1e-5)
    near(vmap(c, (None, 0))(w, x), vmap(loss, (None, 0))(w, x), 1e-5)
    near(vmap(grad(c), (None, 0))(w, x), vmap(grad(loss), (None, 0))(w, x), 1e-5)
    near(jvp(c, (w, x), (w, x))[1], jvp(loss, (w, x), (w, x))[1], 1e-5)
    near(hessian(c)(w, x), hessian(loss)(w, x), 1e-5)
    near(fg.compile(vmap(lambda a: (a @ w).tanh()))(x), (x @ w).tanh(), 1e-5)
    near(fg.compile(grad(loss))(w, x), grad(loss)(w, x), 1e-5)


def test_the_cotangents_of_several_outputs_are_one_argument() -> None:
    x = fg.tensor([1.0, 2.0])
    _, pull = fg.func.vjp(lambda a: (a * 2, a * 3), x)
    assert pull((x, x))[0].tolist() == [5.0, 10.0]
    with pytest.raises(RuntimeError, match="structure of cotangents"):
        pull(x, True)


@pytest.mark.parametrize("aux", ["text", 3, None, [None], {"a": 1.0}])
def test_aux_holds_tensors_only(aux) -> None:
    x = fg.ones(3)
    for call in (
        lambda f: grad(f, has_aux=True)(x),
        lambda f: grad_and_value(f, has_aux=True)(x),
        lambda f: vjp(f, x, has_aux=True),
        lambda f: jvp(f, (x,), (x,), has_aux=True),
        lambda f: jacrev(f, has_aux=True)(x),
        lambda f: jacfwd(f, has_aux=True)(x),
    ):
        with pytest.raises(RuntimeError, match="Expected tensors, got unsupported type"):
            call(lambda x: (x.sum(), aux))
        call(lambda x: (x.sum(), (x, {"a": x})))


@pytest.mark.parametrize("mode", [fg.no_grad, fg.inference_mode, fg.enable_grad])
@pytest.mark.parametrize("name", ["grad", "value", "vjp", "output of vjp", "jacrev", "closure"])
def test_where_nothing_is_recorded_outside_no_history_stays_below_vmap(name, mode):
    """The function inside is recorded all the same, on tensors below that ask for gradients."""
    w = fg.ones(3, requires_grad=True)
    fn = {
        "grad": lambda z: vmap(grad(lambda u: (u * u).sum()))(z),
        "value": lambda z: vmap(grad_and_value(lambda u: (u * u).sum()))(z)[1],
        "vjp": lambda z: vmap(lambda u: vjp(lambda v: v * v, u)[1](u)[0])(z),
        "output of vjp": lambda z: vmap(lambda u: vjp(lambda v: v * v, u)[0])(z),
        "jacrev": lambda z: vmap(jacrev(lambda u: u * u.sum()))(z),
        "closure": lambda z: vmap(grad(lambda u: (u * u * w).sum()))(z.detach()),
    }[name]
    leaf = fg.rand(2, 3, requires_grad=True)
    for z in (leaf, leaf * 1, leaf[:, :1].expand(-1, 3)):
        with mode():
            out = fn(z)
        assert out.requires_grad == (out.grad_fn is not None) == (mode is fg.enable_grad)
        with fg.enable_grad():
            assert fg.allclose(out, fn(z.detach()))
