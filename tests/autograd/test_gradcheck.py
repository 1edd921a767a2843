"""gradcheck and gradgradcheck: what they accept, and that each option catches its fault."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.autograd import Function, gradcheck, gradgradcheck
from fusegrad.autograd.check import GradcheckError


@pytest.fixture
def x():
    return fg.tensor([1.0, 2.0], dtype=fg.float64, requires_grad=True)


def scaled(back=2.0, undefined=False, jvp=None, count=None):
    """x -> 2 x with a backward that may be wrong in one way."""

    class Scaled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(not undefined)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if g is None:
                return fg.ones(2, dtype=fg.float64)
            return g * back * (1 + 1e-7 * next(count)) if count is not None else g * back

    if jvp is not None:
        Scaled.jvp = staticmethod(lambda ctx, t: t * jvp)
    return Scaled.apply


def test_right_functions(x) -> None:
    y = x.detach().clone().requires_grad_()
    everything = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(lambda x, y: (x * y.sin(), x + y), (x, y), **everything)
    assert gradcheck(lambda x: x.sin(), x)
    assert gradcheck(lambda x: x.sin(), [x], fast_mode=True, check_forward_ad=True)
    assert gradcheck(lambda x: x.clone().mul_(2), (x,)) and gradcheck(lambda x: x.view(2, 1), (x,))
    assert gradcheck(nn.Linear(2, 2, dtype=fg.float64), (x,))
    assert gradcheck(lambda x: x.long(), (x,)) and gradcheck(lambda x: fg.ones(2, dtype=fg.float64), (x,))
    m = fg.randn(3, 2, dtype=fg.float64).T.requires_grad_()
    assert gradcheck(lambda m: (m @ m.T).tanh(), (m,), **everything)
    assert gradcheck(lambda x, k: x * k, (x, 3))
    before = x.detach().clone()
    layer = nn.Linear(2, 2, dtype=fg.float64)
    assert gradcheck(lambda *_: layer(x), (layer.weight, layer.bias))  # reads its parameters by another way
    assert bool((x == before).all())


@pytest.mark.parametrize("mode", [{}, {"fast_mode": True}])
def test_wrong_gradients(x, mode) -> None:
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0,\nnumerical"):
        gradcheck(scaled(3.0), (x,), **mode)
    assert gradcheck(scaled(3.0), (x,), raise_exception=False, **mode) is False
    with pytest.raises(GradcheckError, match="forward mode mismatch"):
        gradcheck(scaled(jvp=5.0), (x,), check_forward_ad=True, **mode)
    assert gradcheck(scaled(jvp=2.0), (x,), check_forward_ad=True, **mode)
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, (x,), **mode)
    if mode:
        with pytest.raises(GradcheckError, match="max per-element difference"):
            gradcheck(scaled(3.0), (x,), **mode)


def test_missing_gradients_count_as_zero(x) -> None:
    with pytest.raises(GradcheckError, match="undefined or zero"):
        gradcheck(scaled(undefined=True), (x,))
    assert gradcheck(scaled(undefined=True), (x,), check_undefined_grad=False)


def test_runs_that_differ(x) -> None:
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(scaled(count=itertools.count()), (x,))
    assert gradcheck(scaled(count=itertools.count()), (x,), nondet_tol=1e-3)


def test_batched(x) -> None:
    class Reads(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2 if float(g.sum()) < 1e9 else g

    assert gradcheck(Reads.apply, (x,))
    with pytest.raises(GradcheckError, match="batched gradient"):
        gradcheck(Reads.apply, (x,), check_batched_grad=True)


def test_inputs_are_checked(x) -> None:
    with pytest.raises(ValueError, match="at least one input tensor"):
        gradcheck(lambda x: x, (x.detach(),))
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x * 1, (fg.ones(1, dtype=fg.float64).expand(3).requires_grad_(),))
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda x: x * 2, (fg.ones(2, requires_grad=True),), raise_exception=False)
    for kw in (
        {"check_backward_ad": False},
        {"check_batched_forward_grad": True},
        {"check_batched_grad": True, "check_backward_ad": False, "check_forward_ad": True},
    ):
        with pytest.raises(AssertionError):
            gradcheck(lambda x: x, (x,), **kw)


def test_second_order(x) -> None:
    def f(x):
        return x.sin() * x

    for kw in (
        {},
        {"gen_non_contig_grad_outputs": True},
        {"check_batched_grad": True},
        {"fast_mode": True},
        {"check_fwd_over_rev": True},
        {"check_fwd_over_rev": True, "check_rev_over_rev": False},
    ):
        assert gradgradcheck(f, (x,), **kw)
    assert gradgradcheck(f, (x,), fg.ones(2, dtype=fg.float64, requires_grad=True))
    with pytest.raises(AssertionError):
        gradgradcheck(f, (x,), check_rev_over_rev=False)

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0].detach()  # right once, wrong twice

    assert gradcheck(Square.apply, (x,))
    with pytest.raises(GradcheckError):
        gradgradcheck(Square.apply, (x,))
    assert np.allclose(x.detach().numpy(), [1, 2])
