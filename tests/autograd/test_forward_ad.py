"""Forward mode: every operator's jvp against its vjp, dual numbers, custom Functions."""

from __future__ import annotations

import fusegrad.compiler.ir.control  # noqa: F401  (operators of the compiler are in the table too)
import fusegrad.compiler.ir.ops  # noqa: F401
import numpy as np
import pytest
from func_samples import bound, call, outputs

import fusegrad as fg
import fusegrad.autograd.forward_ad as fwd
from fusegrad import nn
from fusegrad.func import functional_call, grad, jacfwd, jacrev, jvp, vmap
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap

CASES = [
    (f"{op.name}-{i}", op, s)
    for op in TABLE.values()
    if op.samples and op.sig.tensors and not op.nondiff and op.kind != "random" and op.name != "_ctc"
    for i, s in enumerate(op.samples())
    if s.grad
]


def near(a: Tensor, b: Tensor, tol: float = 1e-7) -> None:
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize("name,op,sample", CASES, ids=[c[0] for c in CASES])
def test_operator(name, op, sample) -> None:
    args, attrs = bound(op, sample)
    flat = [t for a in args for t in (a if isinstance(a, list) else [a]) if isinstance(t, Tensor)]
    wrt = [i for i, t in enumerate(flat) if t.dtype is fg.float64]

    def f(*ts):
        it, full = iter(ts), []
        for i, t in enumerate(flat):
            full.append(next(it) if i in wrt else t)
        it = iter(full)
        put = [[next(it) for _ in a] if isinstance(a, list) else next(it) if isinstance(a, Tensor) else a for a in args]
        return tuple(o for o in outputs(call(op, put, dict(attrs))) if o.dtype.is_floating_point)

    rng = np.random.default_rng(1)
    primals = tuple(flat[i] for i in wrt)
    vs = tuple(wrap(rng.standard_normal(p.shape)) for p in primals)
    if op.name in ("cholesky_lower", "eigh_pair"):  # their rules hold for symmetric changes
        vs = tuple(v + v.mT for v in vs)
    leaves = [p.detach().clone().requires_grad_() for p in primals]
    outs = f(*leaves)
    live = [i for i, o in enumerate(outs) if o.requires_grad]
    if not live or not primals:
        pytest.skip("no gradient in this sample")
    us = [wrap(rng.standard_normal(o.shape)) for o in outs]
    gs = fg.autograd.grad([outs[i] for i in live], leaves, [us[i] for i in live], allow_unused=True)
    want = sum(float((g * v).sum()) for g, v in zip(gs, vs, strict=True) if g is not None)
    values, ts = jvp(f, primals, vs)
    for a, b in zip(values, outs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.detach().numpy())
    got = sum(float((u * t).sum()) for u, t in zip(us, ts, strict=True))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)
    assert not any(t.requires_grad for t in ts)
    many = vmap(lambda *v: jvp(f, primals, v)[1])(*[fg.stack([v, 2 * v]) for v in vs])
    for t, b in zip(ts, many, strict=True):
        np.testing.assert_allclose(b.numpy(), np.stack([t.numpy(), 2 * t.numpy()]), rtol=1e-6, atol=1e-8)


def test_dual_numbers() -> None:
    x, t = fg.tensor([1.0, 2.0]), fg.tensor([1.0, 0.5])
    with fwd.dual_level():
        d = fwd.make_dual(x, t)
        y = fwd.unpack_dual(d * d + fg.ones(2))
        near(y.primal, x * x + 1)
        near(y.tangent, 2 * x * t)
        assert fwd.unpack_dual(x).tangent is None and fwd.unpack_dual(d.detach()).tangent is None
        assert "tangent=tensor" in repr(d)
        assert bool((d > 0).all()) and float(d[0]) == 1.0 and d.tolist() == [1.0, 2.0]  # values may be asked for
        with pytest.raises(RuntimeError, match="already has a forward gradient"):
            fwd.make_dual(d, t)
        with pytest.raises(RuntimeError, match="Nested forward mode"):
            fwd.enter_dual_level()
        with fg.no_grad():
            near(fwd.unpack_dual(d * 3).tangent, 3 * t)
    near(d + 1, x + 1)  # an ordinary tensor by now
    assert fwd.unpack_dual(d).tangent is None
    assert fwd.unpack_dual(x) == (x, None)


def test_dual_errors() -> None:
    x = fg.ones(3)
    with pytest.raises(RuntimeError, match="no level exists"):
        fwd.make_dual(x, x)
    with pytest.raises(RuntimeError, match="no level"):
        fwd.exit_dual_level()
    with fwd.dual_level():
        with pytest.raises(RuntimeError, match="size \\[3\\].*size \\[2\\]"):
            fwd.make_dual(x, fg.ones(2))
        with pytest.raises(ValueError, match="floating point"):
            fwd.make_dual(fg.arange(3), fg.arange(3))
        with pytest.raises(TypeError):
            fwd.make_dual(1.0, x)


def test_in_place_and_views() -> None:
    x, t = fg.tensor([1.0, 2.0, 3.0]), fg.tensor([1.0, 0.5, 2.0])
    before = fg.zeros(3)
    with fwd.dual_level():
        d = fwd.make_dual(x.clone(), t)
        out = fg.zeros(3)
        out[0] = d[1] * 2
        out[1:].mul_(3)
        out[2] += d[2] ** 2
        r = fwd.unpack_dual(out)
        near(r.primal, fg.tensor([4.0, 0.0, 9.0]))
        near(r.tangent, fg.tensor([1.0, 0.0, 12.0]))
        before.copy_(d)
        near(fwd.unpack_dual(before).tangent, t)
        d.mul_(2)
        near(fwd.unpack_dual(d[1:]).tangent, fg.tensor([1.0, 4.0]))
        d[0] = 7
        near(fwd.unpack_dual(d).tangent, fg.tensor([0.0, 1.0, 4.0]))
    near(t, fg.tensor([0.0, 1.0, 4.0]))  # the tangent given is the one that is written, as in PyTorch
    near(before, x)  # an ordinary tensor again
    assert before._data is not None and before._version == 1


def test_reverse_through_forward_and_back() -> None:
    x = fg.tensor([0.3, 0.7], dtype=fg.float64, requires_grad=True)
    v = fg.tensor([1.0, 2.0], dtype=fg.float64)
    with fwd.dual_level():
        t = fwd.unpack_dual((fwd.make_dual(x, v) ** 3).sum()).tangent
    near(fg.autograd.grad(t, x)[0], 6 * x * v)
    near(jvp(grad(lambda x: (x**3).sum()), (x.detach(),), (v,))[1], 6 * x * v)
    near(grad(lambda x: jvp(lambda y: (y**3).sum(), (x,), (v,))[1])(x.detach()), 6 * x * v)
    near(jvp(lambda x: jvp(lambda y: y**3, (x,), (v,))[1], (x.detach(),), (v,))[1], 6 * x * v * v)


def test_gradients_of_dual_tensors() -> None:
    x = fg.tensor([0.3, 0.7], dtype=fg.float64, requires_grad=True)
    v = fg.tensor([1.0, 2.0], dtype=fg.float64)
    with fwd.dual_level():
        y = (fwd.make_dual(x, v) ** 3).sum()
        assert y.requires_grad
        (g,) = fg.autograd.grad(y, x, retain_graph=True)
        near(fwd.unpack_dual(g).primal, 3 * x**2)
        near(fwd.unpack_dual(g).tangent, 6 * x * v)  # the Hessian times v
        y.backward()
    near(x.grad, 3 * x**2)


def test_module_with_dual_parameters() -> None:
    fg.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    params = {k: v.detach() for k, v in net.named_parameters()}
    tangents = {k: fg.randn_like(v) for k, v in params.items()}
    x = fg.randn(5, 3)
    with fwd.dual_level():
        y = functional_call(net, {k: fwd.make_dual(p, tangents[k]) for k, p in params.items()}, (x,))
        t = fwd.unpack_dual(y).tangent
    near(t, jvp(lambda p: functional_call(net, p, (x,)), (params,), (tangents,))[1], 1e-5)
    with fwd.dual_level():
        for layer in (net[0], net[2]):
            for name in ("weight", "bias"):
                p = getattr(layer, name)
                delattr(layer, name)
                key = f"{0 if layer is net[0] else 2}.{name}"
                setattr(layer, name, fwd.make_dual(p, tangents[key]))
        near(fwd.unpack_dual(net(x)).tangent, t, 1e-5)


def test_control_flow_on_values() -> None:
    def f(x):
        return x * 2 if x.sum() > 0 else x * 3

    x = fg.ones(2)
    near(jvp(f, (x,), (x,))[1], 2 * x)
    near(jvp(f, (-x,), (x,))[1], 3 * x)


class Exp(fg.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, y):
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0]


def test_custom_function() -> None:
    x, v = fg.randn(3, dtype=fg.float64), fg.randn(3, dtype=fg.float64)
    near(jvp(Exp.apply, (x,), (v,))[1], v * x.exp())
    assert fg.autograd.gradcheck(Exp.apply, (x.clone().requires_grad_(),), check_forward_ad=True)

    class NoJvp(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="must override the setup_context.*NoJvp"):
        jvp(NoJvp.apply, (x,), (v,))  # the old form, with ctx in forward
    with fwd.dual_level(), pytest.raises(NotImplementedError, match="must implement the jvp"):
        NoJvp.apply(fwd.make_dual(x, v))  # a dual level is not a function transform

    class OldForm(NoJvp):
        @staticmethod
        def jvp(ctx, t):
            return t * 2

    with fwd.dual_level():
        near(fwd.unpack_dual(OldForm.apply(fwd.make_dual(x, v))).tangent, v * 2)

    class Two(fg.autograd.Function):
        @staticmethod
        def forward(x, y):
            return x * y, x > 0

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            x, y = ctx.saved_tensors
            return g * y, g * x

        @staticmethod
        def jvp(ctx, tx, ty):
            x, y = ctx.saved_tensors
            return tx * y + x * ty, None

    near(jvp(lambda x: Two.apply(x, v)[0], (x,), (v,))[1], v * v)  # the missing tangent arrives as zeros
    near(jacfwd(lambda x: Two.apply(x, v)[0])(x), fg.diag(v))
    near(jacfwd(jacrev(lambda x: (Two.apply(x, x)[0]).sum()))(x), 2 * fg.eye(3, dtype=fg.float64))

    class Wrong(Exp):
        @staticmethod
        def jvp(ctx, t):
            return t, t

    with pytest.raises(RuntimeError, match="2 tangents for 1 outputs"):
        jvp(Wrong.apply, (x,), (v,))


def test_random_draws_are_those_of_eager() -> None:
    x = fg.ones(50)
    fg.manual_seed(3)
    want = nn.functional.dropout(x)
    fg.manual_seed(3)
    y, t = jvp(nn.functional.dropout, (x,), (x,))
    near(y, want)
    near(t, want)
