"""Rules of plain arithmetic run on arrays when no graph is recorded: the same bits as by operators."""

from __future__ import annotations

import fusegrad.compiler.ir.control  # noqa: F401  (operators of the compiler are in the table too)
import fusegrad.compiler.ir.ops  # noqa: F401
import numpy as np
import pytest

import fusegrad as fg
from fusegrad import dispatch, noted
from fusegrad.autograd.fitting import materialized
from fusegrad.backgen import array_names, is_arithmetic
from fusegrad.op import TABLE

# Their rules hand a pass that is not recorded to a native kernel, which may round otherwise than their operators.
NORMS = {"_moment_norm", "_channel_norm", "_group_norm", "_running_norm", "_rms_norm"}
NATIVE = NORMS | {"_softmax", "_log_softmax", "_cross_entropy", "_embedding", "_grid_sampler", "gelu"}
NAMES = [n for n, o in TABLE.items() if o.rules and o.n_out >= 1 and array_names(o)]


def test_there_are_some():
    assert {"add", "mul", "tanh", "exp", "sigmoid", "cat", "index", "_moment_norm", "_cross_entropy"} <= set(NAMES)


def test_what_is_arithmetic():
    assert is_arithmetic(lambda g, x: g * (1 - x * x))
    assert not is_arithmetic(lambda g, x: g * x.exp())
    assert not is_arithmetic(lambda g, x: g @ x)
    assert not is_arithmetic(lambda g, x: g if x else -g)


def tensors(a, kind):
    """Arrays of a sample as leaves of dtype ``kind``, in lists too."""
    if isinstance(a, list):
        return [tensors(x, kind) for x in a]
    if not isinstance(a, np.ndarray):
        return a
    t = fg.from_numpy(a.copy())
    return t.to(kind).requires_grad_() if t.is_floating_point() else t


@pytest.mark.parametrize("kind", [fg.float32, fg.float64, fg.float16])
@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name, kind, monkeypatch):
    monkeypatch.setattr(noted, "AFTER", 1)  # what stands in where an array form gives None
    op = TABLE[name]
    for sample in op.samples():
        args = [tensors(a, kind) for a in sample.args]
        flat = [x for a in args for x in (a if isinstance(a, list) else [a])]
        wrt = [a for a in flat if isinstance(a, fg.Tensor) and a.requires_grad]
        try:
            out = op(*args, **sample.kwargs)
        except (NotImplementedError, RuntimeError, TypeError):
            continue
        out = out[0] if isinstance(out, tuple) else out
        if not wrt or not out.requires_grad:
            continue
        cot = fg.from_numpy(np.random.default_rng(0).standard_normal(tuple(out.shape))).to(out.dtype)
        plain = fg.autograd.grad(out, wrt, cot, retain_graph=True, allow_unused=True)
        recorded = fg.autograd.grad(out, wrt, cot, create_graph=True, allow_unused=True)
        for p, q, r in zip(plain, recorded, by_rules(op, out, cot, wrt), strict=True):
            if q is None:
                assert p is None
                continue
            assert p.dtype is q.dtype and p.shape == q.shape
            assert p.stride() == q.stride()
            if r is not None:
                np.testing.assert_array_equal(p.numpy(), r.numpy())
            if name in NATIVE:
                rough = 2e-3 if kind is fg.float16 else 2e-6
                np.testing.assert_allclose(p.numpy(), q.detach().numpy(), rtol=rough, atol=rough)
            else:
                np.testing.assert_array_equal(p.numpy(), q.detach().numpy())


def by_rules(op, out, cot, wrt):
    """What the rules of the operator say in a pass that is not recorded; None where it must still be fitted."""
    node = out.grad_fn
    grads = [cot, *[None] * (op.n_out - 1)]
    with fg.no_grad():
        found = dispatch.backward(op, node, grads if op.fields.get("partial") else materialized(node, grads))
    by_leaf = {id(e): g for e, g in zip(node.edges, found, strict=True) if e is not None}
    fits = [by_leaf.get(id(x)) for x in wrt]
    return [
        g if g is not None and g.shape == x.shape and g.dtype is x.dtype else None
        for g, x in zip(fits, wrt, strict=True)
    ]


def test_changed_input_is_noticed():
    x, y = fg.ones(3, requires_grad=True), fg.ones(3)
    z = x * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified"):
        z.sum().backward()


def test_gradients_are_not_shared():
    x = fg.ones(3, requires_grad=True)
    y = fg.ones(3, requires_grad=True)
    (x + y).backward(fg.ones(3))
    x.grad.add_(1)
    assert y.grad.tolist() == [1, 1, 1]
