"""Derivatives noted as functions of arrays: the same bits, layouts and dtypes as by the rules on Tensors."""

from __future__ import annotations

import warnings

import fusegrad.compiler.ir.control  # noqa: F401  (operators of the compiler are in the table too)
import fusegrad.compiler.ir.ops  # noqa: F401
import numpy as np
import pytest

import fusegrad as fg
from fusegrad import dispatch, noted
from fusegrad.autograd.fitting import materialized
from fusegrad.backgen import array_names
from fusegrad.op import TABLE

NAMES = [n for n, o in TABLE.items() if noted.can_be_noted(o) and not array_names(o)]


def tensors(a, kind, layout):
    """Arrays of a sample as leaves of dtype ``kind``."""
    if not isinstance(a, np.ndarray):
        return a
    a = a.astype(kind) if a.dtype.kind == "f" else a.copy()
    if layout == "turned" and a.ndim > 1:
        a = np.asfortranarray(a)
    t = fg.from_numpy(a)
    return t.requires_grad_() if t.is_floating_point() else t


def cotangent(out, layout):
    a = np.random.default_rng(0).standard_normal(tuple(out.shape)).astype(out.dtype.np)
    if layout == "expanded" and a.ndim:
        return np.broadcast_to(a[..., :1], a.shape)
    return np.asarray(np.asfortranarray(a) if layout == "turned" else a)


def plans(op):
    """What is noted for an operator."""
    return op.on_arrays.__globals__["PLANS"]


@pytest.mark.parametrize("layout", ["plain", "turned", "expanded"])
@pytest.mark.parametrize("kind", ["f4", "f8", "f2"])
@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name, kind, layout, monkeypatch):
    monkeypatch.setattr(noted, "AFTER", 1)
    op = TABLE[name]
    for sample in op.samples():
        args = [tensors(a, kind, layout) for a in sample.args]
        try:
            out = op(*args, **sample.kwargs)
        except (NotImplementedError, RuntimeError, TypeError, KeyError):
            continue
        out = out[0] if isinstance(out, tuple) else out
        if not out.requires_grad or not out.numel():
            continue
        node, g = out.grad_fn, cotangent(out, layout)
        with fg.no_grad():
            found = op.on_arrays(node, g)
            if found is None:
                continue
            again = op.on_arrays(node, g)
            wanted = dispatch.backward(
                op, node, materialized(node, [dispatch.alias(fg.from_numpy(g)), *[None] * (op.n_out - 1)])
            )
        for p, q, r in zip(found, again, wanted, strict=True):
            if r is None:
                assert p is None is q
                continue
            assert p.dtype == r.dtype.np and p.shape == tuple(r.shape)
            assert p.strides == r.numpy().strides or p.size < 2
            np.testing.assert_array_equal(p, r.numpy())
            np.testing.assert_array_equal(np.signbit(p), np.signbit(r.numpy()))
            np.testing.assert_array_equal(p, q)


def test_there_are_many_and_few_that_cannot(monkeypatch):
    monkeypatch.setattr(noted, "AFTER", 1)
    assert {"elu", "prod", "std", "max_dim", "maximum", "atan2"} <= set(NAMES)
    assert len(NAMES) > 100
    x = fg.rand(4, requires_grad=True)
    for name in ("elu", "prod", "std", "amax", "atan2"):
        out = TABLE[name](x, x.detach()) if name == "atan2" else TABLE[name](x)
        out.sum().backward()
        assert any(plans(TABLE[name]).values()), name


def grad_of(f, x, times=noted.AFTER + 2):
    """The gradient at the last of several passes."""
    for _ in range(times):
        leaf = x.clone().requires_grad_()
        f(leaf).sum().backward()
    return leaf.grad


def test_the_calls_depend_on_attributes_and_numbers():
    x = fg.tensor([-1.0, 0.5, 2.0])
    for alpha in (1.0, 0.5, 2.0):
        want = [alpha * float(np.exp(np.float32(-1))), 1, 1]
        np.testing.assert_allclose(grad_of(lambda t, a=alpha: fg.nn.functional.elu(t, a), x).numpy(), want, 1e-6)
    for dim in (0, 1):
        y = fg.tensor([[1.0, 5.0], [4.0, 2.0]])
        got = grad_of(lambda t, d=dim: t.amax(d), y)
        assert got.tolist() == ([[0, 1], [1, 0]])
    got = [grad_of(lambda t, z=z: fg.nn.functional.leaky_relu(t, z), x) for z in (0.0, -0.0)]
    assert [np.signbit(g.numpy()[0]) for g in got] == [False, True]


def test_a_changed_saved_tensor_is_still_noticed():
    x, y = fg.rand(3, requires_grad=True), fg.rand(3)
    for _ in range(noted.AFTER + 1):
        fg.atan2(x, y).sum().backward()
    out = fg.atan2(x, y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified"):
        out.sum().backward()


def test_freed_and_retained_nodes():
    x = fg.rand(3, requires_grad=True)
    for _ in range(noted.AFTER + 1):
        fg.atan2(x, x).sum().backward()
    out = fg.atan2(x, x).sum()
    out.backward(retain_graph=True)
    out.backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_gradients_are_nobody_elses():
    """What a noted function gives is not the memory of a leaf's gradient, of a constant or of a saved tensor."""
    for f in (lambda t: t.prod(), lambda t: t.cumprod(0).sum(), lambda t: t.std(), lambda t: t.max(0)[0]):
        x = fg.tensor([1.0, 2.0, 4.0], requires_grad=True)
        seen = []
        for _ in range(noted.AFTER + 3):
            x.grad = None
            f(x).backward()
            seen.append(x.grad.clone())
            x.grad.fill_(9)
        assert all([(s == seen[0]).all() for s in seen])
        assert x.tolist() == [1, 2, 4]


def test_ever_new_shapes_are_noted_ever_more_rarely(monkeypatch):
    monkeypatch.setattr(noted, "AFTER", 1)
    monkeypatch.setattr(noted, "MOST", 4)
    of = noted.Noted(TABLE["elu"])
    made = []
    monkeypatch.setattr(noted.Noted, "note", lambda self, node, g: made.append(1) or "run")
    for n in range(400):
        of.new(n % 10, None, None)
        assert len(of.plans) <= 4 and len(of.asked) <= 17
    assert len(made) < 40


def test_hooks_and_graphs_of_gradients_take_the_rules():
    x = fg.rand(3, requires_grad=True)
    for _ in range(noted.AFTER + 1):
        (g,) = fg.autograd.grad(x.prod(), x, create_graph=True)
        assert g.requires_grad
    (gg,) = fg.autograd.grad(g.sum(), x)
    assert gg.shape == x.shape
    seen = []
    for _ in range(noted.AFTER + 1):
        y = x * 1
        y.register_hook(lambda g: seen.append(g))
        y.prod().backward()
    assert all([type(g) is fg.Tensor for g in seen]) and len(seen) == noted.AFTER + 1


def test_numpy_is_as_quiet_as_in_the_rules(recwarn):
    warnings.filterwarnings(
        "ignore", category=RuntimeWarning, module=r"fusegrad\."
    )  # as at import (pytest has its own)
    x = fg.zeros(3, requires_grad=True)
    for _ in range(noted.AFTER + 2):
        x.grad = None
        x.norm().backward()
        x.grad = None
        x.log2().sum().backward()
    assert not recwarn.list
