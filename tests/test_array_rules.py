"""Rules of plain arithmetic run on arrays when no graph is recorded: the same bits as by operators."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.backgen import array_names, is_arithmetic
from fusegrad.op import TABLE

NAMES = [n for n, o in TABLE.items() if o.rules and o.n_out == 1 and array_names(o)]


def test_there_are_some():
    assert {"add", "mul", "tanh", "exp", "sigmoid"} <= set(NAMES)


def test_what_is_arithmetic():
    assert is_arithmetic(lambda g, x: g * (1 - x * x))
    assert not is_arithmetic(lambda g, x: g * x.exp())
    assert not is_arithmetic(lambda g, x: g @ x)
    assert not is_arithmetic(lambda g, x: g if x else -g)


@pytest.mark.parametrize("kind", [fg.float32, fg.float64, fg.float16])
@pytest.mark.parametrize("name", NAMES)
def test_same_bits(name, kind):
    op = TABLE[name]
    for sample in op.samples():
        args = []
        for a in sample.args:
            if isinstance(a, np.ndarray):
                a = fg.from_numpy(a)
                a = a.to(kind).requires_grad_() if a.is_floating_point() else a
            args.append(a)
        wrt = [a for a in args if isinstance(a, fg.Tensor) and a.requires_grad]
        try:
            out = op(*args, **sample.kwargs)
        except (NotImplementedError, RuntimeError, TypeError):
            continue
        if not wrt or not out.requires_grad:
            continue
        cot = fg.from_numpy(np.random.default_rng(0).standard_normal(tuple(out.shape))).to(out.dtype)
        plain = fg.autograd.grad(out, wrt, cot, retain_graph=True, allow_unused=True)
        recorded = fg.autograd.grad(out, wrt, cot, create_graph=True, allow_unused=True)
        for p, q in zip(plain, recorded, strict=True):
            if q is None:
                assert p is None
                continue
            assert p.dtype is q.dtype and p.shape == q.shape
            assert p.stride() == q.stride()
            np.testing.assert_array_equal(p.numpy(), q.detach().numpy())


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
