"""Floats that change between calls, as attributes of operators: an input of the graph from their second value on."""

import math

import numpy as np
import pytest

import fusegrad as T

F = T.nn.functional
X = T.tensor([[-2.0, -0.5, -0.25, 0.0], [0.25, 0.3, 0.5, 1.0], [2.0, -1.0, 0.2, -0.2]])
VALUES = (0.3, 0.25, 0.5, 0.2, 0.1)

CALLS = {
    "full": lambda x, v: T.full((3, 4), v) * x,
    "full double": lambda x, v: T.full((3, 4), v, dtype=T.float64) * x,
    "full half": lambda x, v: T.full((4,), v, dtype=T.float16),
    "full_like": lambda x, v: T.full_like(x, v) + x,
    "new_full": lambda x, v: x.new_full((3, 4), v) + x,
    "fill_": lambda x, v: (x * 1).fill_(v) * x,
    "masked_fill": lambda x, v: x.masked_fill(x > 0, v),
    "pad": lambda x, v: F.pad(x, (1, 2), value=v),
    "pad rows": lambda x, v: F.pad(x, (0, 0, 1, 1), value=v) * 2,
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "elu": lambda x, v: F.elu(x, v),
    "celu": lambda x, v: F.celu(x, v),
    "threshold": lambda x, v: F.threshold(x, v, 0.5),
    "threshold value": lambda x, v: F.threshold(x, 0.25, v),
    "hardtanh": lambda x, v: F.hardtanh(x, -0.5, v),
    "softplus": lambda x, v: F.softplus(x, v),
    "softplus threshold": lambda x, v: F.softplus(x, 2.0, v),
    "softshrink": lambda x, v: F.softshrink(x, v),
    "hardshrink": lambda x, v: F.hardshrink(x, v),
    "logit": lambda x, v: T.logit(x.sigmoid(), v),
    "clamp": lambda x, v: x.clamp(-v, v),
    "layer_norm": lambda x, v: F.layer_norm(x, (4,), eps=v),
    "group_norm": lambda x, v: F.group_norm(x, 2, eps=v),
    "batch_norm": lambda x, v: F.batch_norm(x, None, None, training=True, eps=v),
    "instance_norm": lambda x, v: F.instance_norm(x[None], eps=v),
    "rms_norm": lambda x, v: F.rms_norm(x, (4,), eps=v),
    "normalize": lambda x, v: F.normalize(x, eps=v),
    "cosine_similarity": lambda x, v: F.cosine_similarity(x, x + 1, eps=v),
    "huber": lambda x, v: F.huber_loss(x, x * 0, delta=v, reduction="none"),
    "smooth_l1": lambda x, v: F.smooth_l1_loss(x, x * 0, beta=v, reduction="none"),
    "label_smoothing": lambda x, v: F.cross_entropy(x, T.tensor([0, 1, 2]), label_smoothing=v),
    "dropout": lambda x, v: (F.dropout(x, v), T.rand(2)),
    "dropout twice": lambda x, v: F.dropout(F.dropout(x + 3, v), v / 2),
    "dropout2d": lambda x, v: F.dropout2d(x[None, :, :, None], v),
    "alpha_dropout": lambda x, v: F.alpha_dropout(x, v, True),
    "add": lambda x, v: T.add(x, x * 2, alpha=v),
    "sub": lambda x, v: x.sub(x * 2, alpha=v),
    "addmm": lambda x, v: T.addmm(x[:, :3], x, x.t(), alpha=v, beta=v),
    "addcmul": lambda x, v: T.addcmul(x, x, x, value=v),
    "normal_": lambda x, v: (T.empty(3, 4).normal_(v, v) + x, T.rand(1)),
    "uniform_": lambda x, v: T.empty(3, 4).uniform_(-v, v) + x,
    "gumbel": lambda x, v: F.gumbel_softmax(x, tau=v),
    "attention": lambda x, v: F.scaled_dot_product_attention(x[None], x[None], x[None], scale=v),
    "triplet": lambda x, v: F.triplet_margin_loss(x, x + 1, x * 2, margin=v),
    "hinge": lambda x, v: F.hinge_embedding_loss(x, x.sign() + (x == 0), margin=v),
    "cosine loss": lambda x, v: F.cosine_embedding_loss(x, x + 1, T.ones(3), margin=v),
    "gaussian": lambda x, v: F.gaussian_nll_loss(x, x * 2, x.abs() + 1, eps=v),
    "lerp": lambda x, v: T.lerp(x, x + 1, v),
    "where": lambda x, v: T.where(x > 0, x, v),
    "setitem": lambda x, v: _stored(x, v),
    "linspace": lambda x, v: T.linspace(0, v, 4) * x,
    "linspace down": lambda x, v: T.linspace(v, -2, 4, dtype=T.float64),
    "logspace": lambda x, v: T.logspace(0, v, 4),
    "nan_to_num": lambda x, v: T.nan_to_num(x / (x > 0), nan=v, posinf=v * 2) + x,
    "isclose": lambda x, v: T.isclose(x, x + 0.3, rtol=v, atol=v / 2),
    "quantile": lambda x, v: T.quantile(x, v),
    "quantile rows": lambda x, v: T.nanquantile(x, v, dim=1),
    "ranking": lambda x, v: F.margin_ranking_loss(x, x * 2, x.sign(), margin=v),
    "pairwise": lambda x, v: F.pairwise_distance(x, x * 2, eps=v),
    "scatter": lambda x, v: x.scatter(1, T.tensor([[0], [1], [2]]), v),
    "scatter_": lambda x, v: (x * 1).scatter_(1, T.tensor([[0], [1], [2]]), v) * x,
    "scatter add": lambda x, v: x.scatter(1, T.tensor([[0], [1], [2]]), v, reduce="add"),
    "index_add": lambda x, v: x.index_add(0, T.tensor([0]), x[:1], alpha=v),
    "renorm": lambda x, v: T.renorm(x, 2, 0, v),
    "trapezoid": lambda x, v: T.trapezoid(x, dx=v),
    "exponential_": lambda x, v: (T.empty(3).exponential_(v), T.rand(1)),
    "normal": lambda x, v: (T.normal(v, v, (3,)), T.rand(1)),
    "np.sqrt": lambda x, v: x * np.sqrt(v),
    "np.log": lambda x, v: x + np.log1p(abs(v)),
}


def _stored(x, v):
    y = x.clone()
    y[0] = v
    y[x > 0] = v * 2
    return y


def close(a, b):
    """Like trees, with numbers up to rounding."""
    if isinstance(a, T.Tensor):
        return isinstance(b, T.Tensor) and a.dtype is b.dtype and a.requires_grad is b.requires_grad and (
            a.shape == b.shape and T.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
        )  # fmt: skip
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(close, a, b))
    return a == b


def values_and_gradients(f, v):
    T.manual_seed(3)
    x = X.clone().requires_grad_()
    out = f(x, v)
    first = out[0] if isinstance(out, tuple) else out
    grad = None
    if first.requires_grad:
        (first * T.arange(1.0, first.numel() + 1).reshape(first.shape)).sum().backward()
        grad = x.grad
    return out, grad, T.get_rng_state().tolist()


@pytest.mark.parametrize("name", CALLS)
def test_two_compiles_and_the_values_and_gradients_of_eager(name):
    f = CALLS[name]
    T.compiler.reset()
    c = T.compile(f)
    for v in VALUES:
        assert close(values_and_gradients(c, v), values_and_gradients(f, v)), v
    s = T.compiler.stats()
    assert s["compiles"] == 2 and not s["graph_breaks"] and not s["plain_frames"], s["recompile_reasons"]


ODD = (0.0, -0.0, 1.0, -1.0, 1e-30, 1e30, 1e39, math.inf, -math.inf, math.nan, 2.5)


@pytest.mark.parametrize("name", CALLS)
def test_odd_values_after_the_usual_ones(name):
    """Zero, one, infinite, too large, out of range: the values and the errors of eager code."""
    f = CALLS[name]
    c = T.compile(f, options={"limit": 50})

    def outcome(g, v):
        T.manual_seed(3)
        try:
            return g(X, v)
        except Exception as e:
            return type(e), str(e)

    for v in (0.3, 0.25, *ODD):
        assert close(outcome(c, v), outcome(f, v)), v


@pytest.mark.parametrize("name", CALLS)
def test_other_dtypes(name):
    f = CALLS[name]
    for x in (X.double(), (X * 4).int()):
        T.compiler.reset()
        c = T.compile(f)

        def outcome(g, v, x=x):
            T.manual_seed(3)
            try:
                return g(x, v)
            except Exception as e:
                return type(e), str(e)

        for v in (0.3, 0.25, 0.2):
            assert close(outcome(c, v), outcome(f, v)), (x.dtype, v)


@pytest.mark.parametrize("v", [0.0, -0.0, math.inf, -1.0])
@pytest.mark.parametrize("name", ["softplus", "elu", "leaky_relu", "hardtanh", "softshrink"])
def test_unusual_values_after_usual_ones(name, v):
    f = CALLS.get(name) or getattr(F, name)
    c = T.compile(f)
    for value in (0.25, 0.5, 0.75, v):
        results = []
        for g in (c, f):
            try:
                results.append(values_and_gradients(g, value))
            except (RuntimeError, ValueError) as error:
                results.append(str(error))
        assert close(*results), (value, results)
