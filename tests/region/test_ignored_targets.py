"""Rows whose target is ignored: no gradient flows to them, whatever arrives from above, eager or compiled."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fusegrad as T

F = T.nn.functional
WEIGHT = [1.0, 2.0, 3.0]

LOSSES = {
    "cross_entropy": lambda x, t: F.cross_entropy(x, t),
    "none": lambda x, t: F.cross_entropy(x, t, reduction="none"),
    "sum": lambda x, t: F.cross_entropy(x, t, reduction="sum"),
    "weights": lambda x, t: F.cross_entropy(x, t, weight=T.tensor(WEIGHT)),
    "smoothing": lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
    "nll": lambda x, t: F.nll_loss(x, t),
    "nll, none": lambda x, t: F.nll_loss(x, t, reduction="none"),
    "nll of log_softmax": lambda x, t: F.nll_loss(F.log_softmax(x, -1), t),
}


@pytest.mark.parametrize("name", LOSSES)
def test_compiled_as_eager(name):
    f = LOSSES[name]
    compiled = [T.compile(f, dynamic=d) for d in (False, True)]
    for targets in ([-100, -100], [1, -100], [1, 2]):
        for above in (1.0, math.nan, math.inf):
            for last in (6.0, math.nan, math.inf):
                results = []
                for g in (f, *compiled):
                    x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, last]], requires_grad=True)
                    loss = g(x, T.tensor(targets))
                    (grad,) = T.autograd.grad(loss, x, T.full_like(loss, above))
                    results.append((loss.detach().numpy(), grad.numpy()))
                for loss, grad in results[1:]:
                    np.testing.assert_allclose(loss, results[0][0], 1e-6)
                    np.testing.assert_allclose(grad, results[0][1], 1e-6, 1e-7)


@pytest.mark.parametrize("name", ["cross_entropy", "nll", "nll of log_softmax"])
@pytest.mark.parametrize("above", [1.0, math.nan])
def test_a_batch_of_padding_has_gradient_zero(name, above):
    """Its mean is 0 / 0, and a step with it changes nothing."""
    for f in (LOSSES[name], T.compile(LOSSES[name])):
        x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        loss = f(x, T.tensor([-100, -100]))
        assert math.isnan(loss.item())
        (grad,) = T.autograd.grad(loss, x, T.tensor(above))
        assert not grad.any()
